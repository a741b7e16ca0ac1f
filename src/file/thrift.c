/* thrift.c - the compact protocol of Thrift.
 *
 * Integers are varints of seven bits per byte, signed ones in zigzag. A field begins with a byte:
 * its type in the low half, and in the high half the difference from the last field number, or 0 if
 * the number follows as a varint. A list begins with a byte: the type of its elements in the low
 * half, and in the high half their number, or 15 if the number follows as a varint. A boolean field
 * has no value; its type gives it. A byte 0 ends a struct. */
#include "file/thrift.h"

#include <string.h>

/* Parquet metadata nest eight deep; deeper ones are skipped, up to this limit. */
enum { MAX_DEPTH = 32 };

kf_thrift kf_thrift_start(const void *bytes, size_t n) {
  const unsigned char *at = bytes;
  return (kf_thrift){.at = at, .end = at + n};
}

static void fail(kf_thrift *in, const char *what) {
  if (in->bad == NULL) in->bad = what;
  in->at = in->end;
}

static void fail_end(kf_thrift *in) {
  if (in->bad == NULL) in->ended = true;
  fail(in, "the metadata end too early");
}

static unsigned get_byte(kf_thrift *in) {
  if (in->bad == NULL && in->at < in->end) return *in->at++;
  fail_end(in);
  return 0;
}

static uint64_t get_varint(kf_thrift *in) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    uint64_t byte = get_byte(in);
    if (shift == 63 && byte > 1) break;
    value |= (byte & 0x7F) << shift;
    if (byte < 0x80) return in->bad == NULL ? value : 0;
  }
  fail(in, "a number in the metadata does not fit 64 bits");
  return 0;
}

static int64_t get_zigzag(kf_thrift *in) {
  uint64_t value = get_varint(in);
  return (int64_t)(value >> 1 ^ (~(value & 1) + 1));
}

/* --- structs ------------------------------------------------------------------------------- */

kf_thrift_struct kf_thrift_enter(kf_thrift *in) {
  if (++in->depth > MAX_DEPTH) fail(in, "the metadata are nested too deeply");
  return (kf_thrift_struct){.in = in};
}

kf_thrift_struct kf_thrift_enter_field(const kf_thrift_struct *s) {
  if (s->type != KF_THRIFT_STRUCT)
    fail(s->in, "the metadata have another type where a struct is expected");
  return kf_thrift_enter(s->in);
}

bool kf_thrift_field(kf_thrift_struct *s) {
  kf_thrift *in = s->in;
  unsigned head = get_byte(in);
  if (in->bad != NULL || (head & 15) == KF_THRIFT_STOP) {
    if (in->bad == NULL && head != 0) fail(in, "the metadata have a field without a type");
    in->depth--;
    return false;
  }
  int64_t id = head >> 4 > 0 ? s->id + (int64_t)(head >> 4) : get_zigzag(in);
  if (id < INT16_MIN || id > INT16_MAX) fail(in, "the metadata have a field without a number");
  s->id = in->bad == NULL ? (int16_t)id : 0;
  s->type = (kf_thrift_type)(head & 15);
  if (s->type > KF_THRIFT_STRUCT) fail(in, "the metadata have a field of an unknown type");
  if (in->bad != NULL) in->depth--;
  return in->bad == NULL;
}

int64_t kf_thrift_integer(kf_thrift_struct *s) {
  switch (s->type) {
  case KF_THRIFT_I8: return (int8_t)get_byte(s->in);
  case KF_THRIFT_I16:
  case KF_THRIFT_I32:
  case KF_THRIFT_I64: return get_zigzag(s->in);
  default: fail(s->in, "the metadata have another type where a number is expected"); return 0;
  }
}

int32_t kf_thrift_i32(kf_thrift_struct *s) {
  int64_t value = kf_thrift_integer(s);
  if (value >= INT32_MIN && value <= INT32_MAX) return (int32_t)value;
  fail(s->in, "a number in the metadata does not fit 32 bits");
  return 0;
}

bool kf_thrift_bool(kf_thrift_struct *s) {
  if (s->type != KF_THRIFT_TRUE && s->type != KF_THRIFT_FALSE)
    fail(s->in, "the metadata have another type where true or false is expected");
  return s->type == KF_THRIFT_TRUE;
}

static const char *get_text(kf_thrift *in, uint32_t *n) {
  uint64_t length = get_varint(in);
  *n = 0;
  if (length > (uint64_t)(in->end - in->at)) {
    fail_end(in);
    return "";
  }
  const unsigned char *text = in->at;
  in->at += length;
  *n = (uint32_t)length;
  return (const char *)text;
}

const char *kf_thrift_binary(kf_thrift_struct *s, uint32_t *n) {
  *n = 0;
  if (s->type == KF_THRIFT_BINARY) return get_text(s->in, n);
  fail(s->in, "the metadata have another type where text is expected");
  return "";
}

static uint32_t get_list(kf_thrift *in, kf_thrift_type *type) {
  unsigned head = get_byte(in);
  *type = (kf_thrift_type)(head & 15);
  uint64_t n = head >> 4 < 15 ? head >> 4 : get_varint(in);
  if (n > (uint64_t)(in->end - in->at)) fail_end(in); /* an element takes at least one byte */
  return in->bad == NULL ? (uint32_t)n : 0;
}

uint32_t kf_thrift_list(kf_thrift_struct *s, kf_thrift_type type) {
  kf_thrift_type found = type;
  uint32_t n = 0;
  if (s->type == KF_THRIFT_LIST)
    n = get_list(s->in, &found);
  else
    fail(s->in, "the metadata have another type where a list is expected");
  if (n > 0 && found != type) fail(s->in, "a list in the metadata has elements of another type");
  return s->in->bad == NULL ? n : 0;
}

/* --- skipping ------------------------------------------------------------------------------ */

static void skip(kf_thrift *in, kf_thrift_type type, bool element);

static void skip_list(kf_thrift *in) {
  kf_thrift_type type;
  uint32_t n = get_list(in, &type);
  for (uint32_t i = 0; i < n && in->bad == NULL; i++) skip(in, type, true);
}

static void skip_map(kf_thrift *in) {
  uint64_t n = get_varint(in);
  if (n == 0) return;
  unsigned types = get_byte(in);
  if (n > (uint64_t)(in->end - in->at)) fail_end(in);
  for (uint64_t i = 0; i < n && in->bad == NULL; i++) {
    skip(in, (kf_thrift_type)(types >> 4), true);
    skip(in, (kf_thrift_type)(types & 15), true);
  }
}

/* element: it is a list element, where a boolean takes a byte. */
static void skip(kf_thrift *in, kf_thrift_type type, bool element) {
  uint32_t n;
  if (++in->depth > MAX_DEPTH) fail(in, "the metadata are nested too deeply");
  switch (type) {
  case KF_THRIFT_TRUE:
  case KF_THRIFT_FALSE:
    if (element) get_byte(in);
    break;
  case KF_THRIFT_I8: get_byte(in); break;
  case KF_THRIFT_I16:
  case KF_THRIFT_I32:
  case KF_THRIFT_I64: get_varint(in); break;
  case KF_THRIFT_DOUBLE:
    if (in->end - in->at < 8)
      fail_end(in);
    else
      in->at += 8;
    break;
  case KF_THRIFT_BINARY: get_text(in, &n); break;
  case KF_THRIFT_LIST:
  case KF_THRIFT_SET: skip_list(in); break;
  case KF_THRIFT_MAP: skip_map(in); break;
  case KF_THRIFT_STRUCT: {
    kf_thrift_struct inner = kf_thrift_enter(in);
    while (kf_thrift_field(&inner)) skip(in, inner.type, false);
    break;
  }
  default: fail(in, "the metadata have a field of an unknown type");
  }
  in->depth--;
}

void kf_thrift_skip(kf_thrift_struct *s) { skip(s->in, s->type, false); }

/* --- writing ------------------------------------------------------------------------------- */

void kf_thrift_put_varint(kf_string *to, uint64_t value) {
  char bytes[10];
  size_t n = 0;
  for (; value >= 0x80; value >>= 7) bytes[n++] = (char)(value | 0x80);
  bytes[n++] = (char)value;
  kf_string_add(to, bytes, n);
}

static void put_zigzag(kf_string *to, int64_t value) {
  kf_thrift_put_varint(to, (uint64_t)value << 1 ^ (value < 0 ? UINT64_MAX : 0));
}

static void put_head(kf_thrift_out *s, int16_t id, kf_thrift_type type) {
  char head =
      (char)((id - s->last) << 4 | (int)type); /* field numbers of Parquet differ by less than 16 */
  kf_string_add(s->to, &head, 1);
  s->last = id;
}

void kf_thrift_put_i32(kf_thrift_out *s, int16_t id, int32_t value) {
  put_head(s, id, KF_THRIFT_I32);
  put_zigzag(s->to, value);
}

void kf_thrift_put_i64(kf_thrift_out *s, int16_t id, int64_t value) {
  put_head(s, id, KF_THRIFT_I64);
  put_zigzag(s->to, value);
}

void kf_thrift_put_element_i32(kf_string *to, int32_t value) { put_zigzag(to, value); }

void kf_thrift_put_element_text(kf_string *to, const char *text) {
  size_t n = strlen(text);
  kf_thrift_put_varint(to, n);
  kf_string_add(to, text, n);
}

void kf_thrift_put_text(kf_thrift_out *s, int16_t id, const char *text) {
  put_head(s, id, KF_THRIFT_BINARY);
  kf_thrift_put_element_text(s->to, text);
}

void kf_thrift_put_list(kf_thrift_out *s, int16_t id, kf_thrift_type type, uint32_t n) {
  put_head(s, id, KF_THRIFT_LIST);
  char head = (char)((n < 15 ? n : 15) << 4 | (uint32_t)type);
  kf_string_add(s->to, &head, 1);
  if (n >= 15) kf_thrift_put_varint(s->to, n);
}

kf_thrift_out kf_thrift_put_struct(kf_thrift_out *s, int16_t id) {
  put_head(s, id, KF_THRIFT_STRUCT);
  return (kf_thrift_out){.to = s->to};
}

void kf_thrift_put_end(kf_thrift_out *s) { kf_string_add(s->to, "", 1); }
