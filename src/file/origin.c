/* origin.c - which encoder embeddings come from: its name and its checksum.
 *
 * Koofu records the encoder when it makes embeddings; data sets pass it on to statistics,
 * models, text and galleries, in memory and in files. Wherever two of these meet, they must
 * agree: rows of two encoders are unrelated even if they have the same length, and nothing else
 * would reveal it. Data of unknown origin agrees with everything, since files of other programs
 * never name their encoder. */
#include "file/file.h"

#include <string.h>

/* Keeps the end of a long path, which is more specific than its beginning. */
static void set_from(kf_origin *o, const char *from) {
  size_t n = strlen(from), room = sizeof o->from - 1;
  if (n <= room) {
    memcpy(o->from, from, n + 1);
    return;
  }
  const char *tail = from + n - (room - 3);
  while (((unsigned char)*tail & 0xC0) == 0x80) tail++; /* do not begin inside a character */
  snprintf(o->from, sizeof o->from, "...%s", tail);
}

void kf_origin_set(kf_origin *o, const char *name, uint64_t checksum, const char *from) {
  bool any = o->any;
  *o = (kf_origin){.known = true, .any = any, .checksum = checksum};
  snprintf(o->name, sizeof o->name, "%s", name);
  set_from(o, from);
}

const kf_origin *kf_origin_known(const kf_origin *o) { return o->known ? o : NULL; }

/* Half of a checksum is enough to tell encoders apart in a message. */
static unsigned short_sum(const kf_origin *o) { return (unsigned)(o->checksum >> 32); }

static kf_status fail_other(const kf_origin *a, const kf_origin *b, kf_err *err) {
  return kf_fail_hint(err, KF_ERR_DATA, KF_HINT_ANY_ENCODER,
                      "%s: the encoder is %s (%08x), but that of %s is %s (%08x), and embeddings "
                      "of different encoders cannot be compared",
                      a->from, a->name, short_sum(a), b->from, b->name, short_sum(b));
}

kf_status kf_origin_agree(const kf_origin *a, const kf_origin *b, kf_err *err) {
  if (!a->known || !b->known || a->any || b->any || a->checksum == b->checksum) return KF_OK;
  return fail_other(a, b, err);
}

kf_status kf_origin_join(kf_origin *into, const kf_origin *other, kf_err *err) {
  KF_TRY(kf_origin_agree(other, into, err));
  bool any = into->any || other->any;
  bool differ = into->known && other->known && into->checksum != other->checksum;
  if (differ || into->mixed || other->mixed)
    *into = (kf_origin){.mixed = true};
  else if (!into->known)
    *into = *other;
  into->any = any;
  return KF_OK;
}

/* --- in files ------------------------------------------------------------------------------ */

kf_status kf_stw_origin(kf_stw *w, const kf_origin *o, kf_err *err) {
  if (!o->known) return KF_OK;
  KF_TRY(kf_stw_meta(w, KF_META_ENCODER, o->name, err));
  return kf_stw_meta_hex(w, KF_META_ENCODER_CHECKSUM, o->checksum, err);
}

bool kf_parse_hex64(const char *text, uint64_t *out) {
  uint64_t value = 0;
  for (int i = 0; i < 16; i++) {
    char c = text[i];
    bool letter = c >= 'a' && c <= 'f';
    if (!letter && !(c >= '0' && c <= '9')) return false;
    value = value << 4 | (uint64_t)(letter ? c - 'a' + 10 : c - '0');
  }
  *out = value;
  return text[16] == '\0';
}

bool kf_st_meta_is_hex(const kf_st *st, const char *key, uint64_t value) {
  const char *text = kf_st_meta(st, key);
  uint64_t stored = 0;
  return text != NULL && kf_parse_hex64(text, &stored) && stored == value;
}

kf_status kf_st_origin(const kf_st *st, kf_origin *out, kf_err *err) {
  const char *format = kf_st_meta(st, "format");
  *out = (kf_origin){0};
  /* Other programs may use these keys for something else. */
  if (format == NULL || !kf_starts_with(format, "koofu.")) return KF_OK;
  return kf_origin_parse(st->in.path, kf_st_meta(st, KF_META_ENCODER),
                         kf_st_meta(st, KF_META_ENCODER_CHECKSUM), out, err);
}

kf_status kf_origin_parse(const char *path, const char *name, const char *digits, kf_origin *out,
                          kf_err *err) {
  *out = (kf_origin){0};
  if (name == NULL && digits == NULL) return KF_OK;
  if (name == NULL || digits == NULL)
    return kf_fail_file(err, path, "has metadata '%s' without '%s'",
                        name != NULL ? KF_META_ENCODER : KF_META_ENCODER_CHECKSUM,
                        name != NULL ? KF_META_ENCODER_CHECKSUM : KF_META_ENCODER);
  size_t n = strlen(name);
  if (n == 0 || n >= sizeof out->name || !kf_utf8_valid(name, n))
    return kf_fail_file(err, path,
                        "metadata '" KF_META_ENCODER "' is not a name of 1 to %zu bytes of UTF-8",
                        sizeof out->name - 1);
  uint64_t checksum;
  if (!kf_parse_hex64(digits, &checksum))
    return kf_fail_file(
        err, path, "metadata '" KF_META_ENCODER_CHECKSUM "' is '%.20s', not 16 hex digits", digits);
  kf_origin_set(out, name, checksum, path);
  return KF_OK;
}

/* --- of mapped rows ------------------------------------------------------------------------ */

kf_origin kf_origin_of_mapped(const kf_origin *of, uint64_t checksum, const char *from) {
  static const char mapped[] = ", mapped";
  kf_origin out = {.any = of->any};
  char name[sizeof out.name] = "mapped rows";
  size_t n = strlen(of->name);
  if (of->known && n + sizeof mapped <= sizeof name) {
    memcpy(name, of->name, n);
    memcpy(name + n, mapped, sizeof mapped);
  }
  kf_origin_set(&out, name, checksum, from);
  return out;
}

void kf_map_checksum_start(kf_checksum *sum, uint32_t dim_in, uint32_t dim_out, bool normalized,
                           kf_centre centre) {
  const uint32_t head[] = {dim_in, dim_out, normalized, (uint32_t)centre};
  kf_checksum_start(sum);
  kf_checksum_add(sum, head, sizeof head);
}

static kf_status add_tensor(const kf_st *st, const kf_st_tensor *tensor, kf_checksum *sum,
                            kf_err *err) {
  unsigned char buffer[4096];
  for (uint64_t at = 0; at < tensor->bytes; at += sizeof buffer) {
    uint64_t n = tensor->bytes - at < sizeof buffer ? tensor->bytes - at : sizeof buffer;
    KF_TRY(kf_in_read(&st->in, tensor->offset + at, buffer, n, err));
    kf_checksum_add(sum, buffer, n);
  }
  return KF_OK;
}

static kf_status checksum_of_map(const kf_st *st, uint64_t *out, kf_err *err) {
  const kf_st_tensor *transform, *mean;
  int64_t normalized;
  const char *centre = kf_st_meta(st, "centre");
  KF_TRY(kf_st_expect(st, "transform", KF_TYPE_F64, 2, (int64_t[]){-1, -1}, &transform, err));
  uint64_t l = transform->shape[0], d = transform->shape[1];
  if (l > KF_MAX_DIM || d > KF_MAX_DIM)
    return kf_fail_file(err, st->in.path, "invalid transform of %llu x %llu", (unsigned long long)l,
                        (unsigned long long)d);
  KF_TRY(kf_st_expect(st, "mean", KF_TYPE_F64, 1, (int64_t[]){(int64_t)d}, &mean, err));
  KF_TRY(kf_st_meta_i64(st, "normalized", &normalized, err));
  if (centre == NULL) return kf_fail_file(err, st->in.path, "there is no metadata 'centre'");
  bool centred = strcmp(centre, "mean") == 0;
  kf_checksum sum;
  kf_map_checksum_start(&sum, (uint32_t)d, (uint32_t)l, normalized != 0,
                        centred ? KF_CENTRE_MEAN : KF_CENTRE_NONE);
  KF_TRY(add_tensor(st, transform, &sum, err));
  if (centred) KF_TRY(add_tensor(st, mean, &sum, err));
  *out = kf_checksum_value(&sum);
  return KF_OK;
}

kf_status kf_st_map_origin(const kf_st *st, kf_origin *out, kf_err *err) {
  const char *format = kf_st_meta(st, "format");
  kf_origin rows;
  uint64_t checksum = 0;
  *out = (kf_origin){0};
  if (format == NULL || strcmp(format, "koofu.gallery") != 0) return KF_OK;
  KF_TRY(kf_st_origin(st, &rows, err));
  KF_TRY(checksum_of_map(st, &checksum, err));
  *out = kf_origin_of_mapped(&rows, checksum, st->in.path);
  return KF_OK;
}

/* --- access -------------------------------------------------------------------------------- */

const char *kf_origin_name(const kf_origin *o) { return o != NULL ? o->name : NULL; }
uint64_t kf_origin_checksum(const kf_origin *o) { return o != NULL ? o->checksum : 0; }
const kf_origin *kf_data_origin(const kf_data *data) { return kf_origin_known(&data->origin); }

kf_status kf_origins_agree(kf_ctx *ctx, const kf_origin *a, const kf_origin *b) {
  KF_ENTER(ctx, true);
  if (a == NULL || b == NULL || ctx->options.any_encoder) return KF_OK;
  return kf_origin_agree(a, b, err);
}
