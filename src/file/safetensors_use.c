/* safetensors_use.c - finds and reads tensors and metadata of an open .safetensors file, and
 * verifies its checksum.
 *
 * Metadata values are strings: numbers are decimal, and class names are a JSON list. */
#include "file/file_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* --- tensors ------------------------------------------------------------------------------- */

const kf_st_tensor *kf_st_find(const kf_st *st, const char *name) {
  for (size_t i = 0; i < st->n_tensors; i++)
    if (strcmp(st->tensors[i].name, name) == 0) return &st->tensors[i];
  return NULL;
}

static void write_shape(char *text, size_t size, uint32_t ndim, const int64_t *shape) {
  size_t at = (size_t)snprintf(text, size, "[");
  for (uint32_t i = 0; i < ndim && at < size; i++) {
    const char *comma = i > 0 ? ", " : "";
    if (shape[i] < 0)
      at += (size_t)snprintf(text + at, size - at, "%sany", comma);
    else
      at += (size_t)snprintf(text + at, size - at, "%s%" PRId64, comma, shape[i]);
  }
  if (at < size) snprintf(text + at, size - at, "]");
}

kf_status kf_st_expect(const kf_st *st, const char *name, kf_type type, uint32_t ndim,
                       const int64_t *shape, const kf_st_tensor **out, kf_err *err) {
  const kf_st_tensor *tensor = kf_st_find(st, name);
  if (tensor == NULL) return kf_fail_file(err, st->in.path, "there is no tensor '%s'", name);
  if (tensor->type != type)
    return kf_fail_file(err, st->in.path, "tensor '%s' has the wrong dtype %s", name,
                        tensor->type_name);
  bool fits = tensor->ndim == ndim;
  for (uint32_t i = 0; fits && i < ndim; i++)
    fits = shape[i] < 0 || tensor->shape[i] == (uint64_t)shape[i];
  if (!fits) {
    char wanted[160], actual[160];
    write_shape(wanted, sizeof wanted, ndim, shape);
    write_shape(actual, sizeof actual, tensor->ndim, (const int64_t *)tensor->shape);
    return kf_fail_file(err, st->in.path, "tensor '%s' has the shape %s, but must have %s", name,
                        actual, wanted);
  }
  *out = tensor;
  return KF_OK;
}

kf_status kf_st_read_all(const kf_st *st, const kf_st_tensor *tensor, void *buffer, kf_err *err) {
  return kf_in_read(&st->in, tensor->offset, buffer, tensor->bytes, err);
}

/* --- metadata ------------------------------------------------------------------------------ */

const char *kf_st_meta(const kf_st *st, const char *key) {
  for (size_t i = 0; i < st->n_meta; i++)
    if (strcmp(st->keys[i], key) == 0) return st->values[i];
  return NULL;
}

static kf_status find_meta(const kf_st *st, const char *key, const char **out, kf_err *err) {
  *out = kf_st_meta(st, key);
  if (*out != NULL) return KF_OK;
  return kf_fail_file(err, st->in.path, "there is no metadata '%s'", key);
}

kf_status kf_st_meta_f64(const kf_st *st, const char *key, double *out, kf_err *err) {
  const char *text, *end;
  KF_TRY(find_meta(st, key, &text, err));
  *out = kf_parse_f64(text, &end);
  if (end != text && *end == '\0' && *out - *out == 0) return KF_OK;
  return kf_fail_file(err, st->in.path, "metadata '%s' is '%.40s', which is not a number", key,
                      text);
}

kf_status kf_st_meta_i64(const kf_st *st, const char *key, int64_t *out, kf_err *err) {
  const char *text;
  char *end;
  KF_TRY(find_meta(st, key, &text, err));
  errno = 0;
  *out = strtoll(text, &end, 10);
  bool starts = *text == '-' || (*text >= '0' && *text <= '9');
  if (starts && end != text && *end == '\0' && errno == 0) return KF_OK;
  return kf_fail_file(err, st->in.path, "metadata '%s' is '%.40s', which is not a whole number",
                      key, text);
}

kf_status kf_st_meta_names(const kf_st *st, kf_names *out, kf_err *err) {
  return kf_names_parse(st->in.path, kf_st_meta(st, "classes"), out, err);
}

kf_status kf_names_parse(const char *path, const char *text, kf_names *out, kf_err *err) {
  *out = (kf_names){0};
  if (text == NULL) return KF_OK;
  char what[KF_WHERE_SIZE];
  snprintf(what, sizeof what, "%.4200s: metadata 'classes'", path);
  kf_json_strings list;
  kf_status status = kf_json_strings_parse(&list, text, KF_MAX_CLASSES, what, err);
  if (status == KF_OK) status = kf_names_copy(list.string, list.n, out, err);
  kf_json_strings_clear(&list);
  if (status == KF_OK) status = kf_names_check(out, path, err);
  if (status != KF_OK) kf_names_clear(out);
  return status;
}

/* --- checksum ------------------------------------------------------------------------------ */

/* Overwrites the digits of the checksum that are in the buffer with '0'. */
static void blank_digits(unsigned char *buffer, uint64_t offset, size_t n, uint64_t digits) {
  for (uint64_t at = digits; at < digits + 16; at++)
    if (at >= offset && at < offset + n) buffer[at - offset] = '0';
}

static kf_status sum_file(const kf_st *st, unsigned char *buffer, size_t size, uint64_t *out,
                          kf_err *err) {
  kf_checksum sum;
  kf_checksum_start(&sum);
  for (uint64_t offset = 0; offset < st->in.size;) {
    uint64_t left = st->in.size - offset;
    size_t n = left < size ? (size_t)left : size;
    KF_TRY(kf_in_read(&st->in, offset, buffer, n, err));
    blank_digits(buffer, offset, n, st->checksum_offset);
    kf_checksum_add(&sum, buffer, n);
    offset += n;
  }
  *out = kf_checksum_value(&sum);
  return KF_OK;
}

kf_status kf_st_verify(const kf_st *st, kf_err *err) {
  const char *stored = kf_st_meta(st, "checksum");
  if (stored == NULL) return kf_fail_file(err, st->in.path, "there is no checksum");
  if (st->checksum_offset == 0)
    return kf_fail_file(
        err, st->in.path,
        "the header was written by another program, so its checksum cannot be checked");
  size_t size = (size_t)1 << 20;
  unsigned char *buffer = kf_alloc(size, 1);
  if (buffer == NULL) return kf_fail_memory(err);
  uint64_t value;
  kf_status status = sum_file(st, buffer, size, &value, err);
  kf_free(buffer);
  if (status != KF_OK) return status;
  char digits[17];
  snprintf(digits, sizeof digits, "%016" PRIx64, value);
  if (strcmp(digits, stored) == 0) return KF_OK;
  return kf_fail_file(err, st->in.path,
                      "the checksum is %s, but the header says %.16s: the file is damaged", digits,
                      stored);
}

kf_status kf_st_refuse_others(const kf_st *st, const char *format, const char *what, kf_err *err) {
  static const struct {
    const char *format, *what;
  } others[] = {{"koofu.stats", "statistics file"},
                {"koofu.model", "model"},
                {"koofu.gallery", "gallery"},
                {"koofu.dataset", "data set"},
                {"koofu.answers", "file with answers of a search"}};
  const char *given = kf_st_meta(st, "format");
  for (size_t i = 0; given != NULL && i < sizeof others / sizeof *others; i++)
    if (strcmp(given, others[i].format) == 0 && strstr(format, given) == NULL)
      return kf_fail_file(err, st->in.path, "is a koofu %s, not %s", others[i].what, what);
  return KF_OK;
}

kf_status kf_st_check_format(const kf_st *st, const char *format, const char *what, kf_err *err) {
  KF_TRY(kf_st_refuse_others(st, format, what, err));
  const char *given = kf_st_meta(st, "format");
  if (given == NULL || strcmp(given, format) != 0)
    return kf_fail_file(err, st->in.path, "is not %s", what);
  int64_t version;
  KF_TRY(kf_st_meta_i64(st, "version", &version, err));
  if (version != 1)
    return kf_fail_file(err, st->in.path,
                        "has version %" PRId64 " of its format, but this koofu reads version 1",
                        version);
  return KF_OK;
}

kf_status kf_st_check_file(const kf_st *st, const char *format, const char *what, kf_err *err) {
  KF_TRY(kf_st_check_format(st, format, what, err));
  return kf_st_verify(st, err);
}
