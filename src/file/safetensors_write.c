/* safetensors_write.c - writes a .safetensors file in one pass.
 *
 * The header has the metadata first, then the tensors in the order of their declaration, so equal
 * calls give equal bytes. It is padded with spaces so that the data begins at a multiple of 8. */
#include "file/file_internal.h"

#include <inttypes.h>
#include <string.h>

static const char no_digits[] = "0000000000000000";

struct kf_stw {
  kf_out out;
  kf_string metadata;         /* "key":"value",… */
  kf_string tensors;          /* ,"name":{…},… */
  bool started;               /* the header has been written */
  uint64_t declared, written; /* bytes of data */
  bool checksum;
  uint64_t digits; /* offset of the checksum in the file */
  kf_checksum sum;
  kf_checksum *watch; /* also gets all bytes of tensors; NULL: none */
};

/* path NULL: in memory. */
static kf_status start(kf_stw *w, kf_ctx *ctx, const char *path, kf_err *err) {
  KF_TRY(path != NULL ? kf_out_open(&w->out, ctx, path, err) : kf_out_open_memory(&w->out, err));
  return w->checksum ? kf_stw_meta(w, "checksum", no_digits, err) : KF_OK;
}

static kf_status create(kf_ctx *ctx, const char *path, bool checksum, kf_stw **out, kf_err *err) {
  kf_stw *w = kf_alloc_zero(1, sizeof *w);
  if (w == NULL) return kf_fail_memory(err);
  w->checksum = checksum;
  kf_checksum_start(&w->sum);
  KF_HAND_OUT(start(w, ctx, path, err), out, w, kf_stw_abort);
}

kf_status kf_stw_open(kf_ctx *ctx, const char *path, bool checksum, kf_stw **out, kf_err *err) {
  /* koofu recognises files by extension, so it could not read this one back. */
  if (kf_format_of(path) != KF_FORMAT_SAFETENSORS)
    return kf_fail(err, KF_ERR_ARG, "%s: the name must end in .safetensors", path);
  return create(ctx, path, checksum, out, err);
}

kf_status kf_stw_open_memory(bool checksum, kf_stw **out, kf_err *err) {
  return create(NULL, NULL, checksum, out, err);
}

kf_status kf_stw_open_nowhere(kf_stw **out, kf_err *err) {
  KF_TRY(kf_stw_open_memory(true, out, err));
  (*out)->out.nowhere = true;
  return KF_OK;
}

void kf_stw_abort(kf_stw *w) {
  if (w == NULL) return;
  kf_out_abort(&w->out);
  kf_string_clear(&w->metadata);
  kf_string_clear(&w->tensors);
  kf_free(w);
}

/* --- metadata ------------------------------------------------------------------------------ */

kf_status kf_stw_meta(kf_stw *w, const char *key, const char *value, kf_err *err) {
  if (!kf_utf8_valid(value, strlen(value)))
    return kf_fail_file(err, w->out.path, "metadata '%s' is not valid UTF-8", key);
  if (w->metadata.n > 0) kf_string_add(&w->metadata, ",", 1);
  kf_string_add_json(&w->metadata, key);
  kf_string_add(&w->metadata, ":", 1);
  kf_string_add_json(&w->metadata, value);
  return w->metadata.failed ? kf_fail_memory(err) : KF_OK;
}

kf_status kf_stw_format(kf_stw *w, const char *format, kf_err *err) {
  KF_TRY(kf_stw_meta(w, "format", format, err));
  return kf_stw_meta(w, "version", "1", err);
}

kf_status kf_stw_meta_i64(kf_stw *w, const char *key, int64_t value, kf_err *err) {
  char text[24];
  snprintf(text, sizeof text, "%" PRId64, value);
  return kf_stw_meta(w, key, text, err);
}

kf_status kf_stw_meta_hex(kf_stw *w, const char *key, uint64_t value, kf_err *err) {
  char digits[17];
  snprintf(digits, sizeof digits, "%016" PRIx64, value);
  return kf_stw_meta(w, key, digits, err);
}

kf_status kf_stw_meta_f64(kf_stw *w, const char *key, double value, kf_err *err) {
  if (value - value != 0)
    return kf_fail(err, KF_ERR_INTERNAL, "%s: metadata '%s' is not finite", w->out.path, key);
  char text[32];
  kf_format_f64(value, text);
  return kf_stw_meta(w, key, text, err);
}

void kf_names_print(const kf_names *names, kf_string *list) {
  kf_string_add(list, "[", 1);
  for (uint32_t k = 0; k < names->n; k++) {
    if (k > 0) kf_string_add(list, ",", 1);
    kf_string_add_json(list, names->name[k]);
  }
  kf_string_add(list, "]", 1);
}

kf_status kf_stw_meta_names(kf_stw *w, const kf_names *names, kf_err *err) {
  kf_string list = {0};
  kf_names_print(names, &list);
  kf_status status = list.failed ? kf_fail_memory(err) : kf_stw_meta(w, "classes", list.data, err);
  kf_string_clear(&list);
  return status;
}

/* --- tensors ------------------------------------------------------------------------------- */

kf_status kf_stw_declare(kf_stw *w, const char *name, kf_type type, uint32_t ndim,
                         const uint64_t *shape, kf_err *err) {
  uint64_t bytes = kf_type_size(type), offsets[2] = {w->declared, 0};
  bool fits = true;
  for (uint32_t i = 0; i < ndim; i++) fits = fits && kf_mul_u64(bytes, shape[i], &bytes);
  if (!fits || !kf_add_u64(w->declared, bytes, &offsets[1]) || offsets[1] > INT64_MAX)
    return kf_fail(err, KF_ERR_ARG, "%s: tensor '%s' is too large", w->out.path, name);
  kf_string *text = &w->tensors;
  kf_string_add(text, ",", 1);
  kf_string_add_json(text, name);
  kf_string_addf(text, ":{\"dtype\":\"%s\",\"shape\":[", kf_st_type_name(type));
  for (uint32_t i = 0; i < ndim; i++)
    kf_string_addf(text, "%s%" PRIu64, i > 0 ? "," : "", shape[i]);
  kf_string_addf(text, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", offsets[0], offsets[1]);
  if (text->failed) return kf_fail_memory(err);
  w->declared = offsets[1];
  return KF_OK;
}

/* --- bytes --------------------------------------------------------------------------------- */

static kf_status put(kf_stw *w, const void *bytes, uint64_t n, kf_err *err) {
  if (w->checksum) kf_checksum_add(&w->sum, bytes, n);
  return kf_out_write(&w->out, bytes, n, err);
}

static kf_status write_header(kf_stw *w, kf_err *err) {
  static const char open[] = "{\"__metadata__\":{", close[] = "}";
  uint64_t n = sizeof open - 1 + w->metadata.n + 1 + w->tensors.n + 1;
  uint64_t padding = (8 - n % 8) % 8, length = n + padding;
  if (length > KF_HEADER_CAP)
    return kf_fail_file(err, w->out.path,
                        "the class names make a header of %" PRIu64
                        " bytes, more than the %u that readers accept",
                        length, KF_HEADER_CAP);
  KF_TRY(kf_out_reserve(&w->out, sizeof length + length + w->declared, err));
  KF_TRY(put(w, &length, sizeof length, err));
  KF_TRY(put(w, open, sizeof open - 1, err));
  /* The checksum is the first metadata value, so these digits are its own. */
  if (w->checksum)
    w->digits = w->out.written + (uint64_t)(strstr(w->metadata.data, no_digits) - w->metadata.data);
  KF_TRY(put(w, w->metadata.data, w->metadata.n, err));
  KF_TRY(put(w, close, 1, err));
  KF_TRY(put(w, w->tensors.data, w->tensors.n, err));
  KF_TRY(put(w, close, 1, err));
  KF_TRY(put(w, "       ", padding, err));
  w->started = true;
  return KF_OK;
}

kf_status kf_stw_write(kf_stw *w, const void *bytes, uint64_t n, kf_err *err) {
  if (!w->started) KF_TRY(write_header(w, err));
  w->written += n;
  if (w->watch != NULL) kf_checksum_add(w->watch, bytes, n);
  return put(w, bytes, n, err);
}

kf_status kf_stw_share(kf_stw *w, uint64_t n, uint64_t *at, kf_out **out, kf_err *err) {
  bool shared = false;
  *out = NULL;
  if (w->checksum || w->watch != NULL) return KF_OK;
  if (!w->started) KF_TRY(write_header(w, err));
  KF_TRY(kf_out_share(&w->out, &shared));
  if (!shared) return KF_OK;
  *at = w->out.written;
  *out = &w->out;
  w->written += n;
  return kf_out_skip(&w->out, n, err);
}

static kf_status finish(kf_stw *w, kf_err *err) {
  if (!w->started) KF_TRY(write_header(w, err));
  if (w->written != w->declared && !w->out.nowhere)
    return kf_fail(err, KF_ERR_INTERNAL,
                   "%s: %" PRIu64 " bytes were declared and %" PRIu64 " written", w->out.path,
                   w->declared, w->written);
  if (w->checksum) {
    char digits[17];
    snprintf(digits, sizeof digits, "%016" PRIx64, kf_checksum_value(&w->sum));
    KF_TRY(kf_out_write_at(&w->out, w->digits, digits, 16, err));
  }
  return KF_OK;
}

void kf_stw_watch(kf_stw *w, kf_checksum *sum) { w->watch = sum; }

kf_status kf_stw_catch_up(kf_stw *w, kf_ctx *ctx) {
  return w->watch != NULL ? kf_take_from_first(ctx, KF_OK, w->watch, sizeof *w->watch) : KF_OK;
}

kf_out *kf_stw_out(kf_stw *w) { return &w->out; }

kf_status kf_stw_commit(kf_stw *w, kf_err *err) {
  kf_status status = finish(w, err);
  if (status == KF_OK) status = kf_out_commit(&w->out, err);
  kf_stw_abort(w);
  return status;
}

kf_status kf_stw_take(kf_stw *w, kf_status status, kf_bytes **out, kf_err *err) {
  if (status == KF_OK) status = finish(w, err);
  if (status == KF_OK) *out = kf_out_take(&w->out);
  kf_stw_abort(w);
  return status;
}

kf_status kf_stw_end_nowhere(kf_stw *w, kf_status status, uint64_t *checksum, kf_err *err) {
  if (status == KF_OK) status = finish(w, err);
  if (status == KF_OK) *checksum = kf_checksum_value(&w->sum);
  kf_stw_abort(w);
  return status;
}

kf_status kf_stw_end(kf_stw *w, kf_status status, kf_err *err) {
  if (status == KF_OK) return kf_stw_commit(w, err);
  kf_stw_abort(w);
  return status;
}
