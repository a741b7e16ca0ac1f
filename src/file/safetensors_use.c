/* safetensors_use.c - what one does with an open .safetensors file: find and read tensors, read
 * metadata, verify the checksum.
 *
 * Numbers in metadata are strings with a JSON number in them, read and written by jansson, because
 * strtod and printf follow the locale of the process. */
#include "file/parts.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

/* --- tensors --------------------------------------------------------------------------------- */

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
  if (tensor == NULL)
    return kf_fail(err, KF_ERR_DATA, "%s: there is no tensor '%s'", st->in.path, name);
  if (tensor->type != type) {
    return kf_fail(err, KF_ERR_DATA, "%s: tensor '%s' has the wrong dtype %s", st->in.path, name,
                   tensor->type_name);
  }
  bool fits = tensor->ndim == ndim;
  for (uint32_t i = 0; fits && i < ndim; i++)
    fits = shape[i] < 0 || tensor->shape[i] == (uint64_t)shape[i];
  if (!fits) {
    char wanted[160], actual[160];
    int64_t have[8];
    for (uint32_t i = 0; i < tensor->ndim; i++) have[i] = (int64_t)tensor->shape[i];
    write_shape(wanted, sizeof wanted, ndim, shape);
    write_shape(actual, sizeof actual, tensor->ndim, have);
    return kf_fail(err, KF_ERR_DATA, "%s: tensor '%s' has the shape %s, but must have %s",
                   st->in.path, name, actual, wanted);
  }
  *out = tensor;
  return KF_OK;
}

kf_status kf_st_read_all(const kf_st *st, const kf_st_tensor *tensor, void *buffer, kf_err *err) {
  return kf_in_read(&st->in, tensor->offset, buffer, tensor->bytes, err);
}

/* --- metadata -------------------------------------------------------------------------------- */

const char *kf_st_meta(const kf_st *st, const char *key) {
  for (size_t i = 0; i < st->n_meta; i++)
    if (strcmp(st->keys[i], key) == 0) return st->values[i];
  return NULL;
}

/* The JSON value in a metadata string; NULL, without an error yet, where it is none. */
static json_t *parse_value(const char *text) {
  return json_loads(text, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
}

static kf_status read_number(const kf_st *st, const char *key, json_t **out, kf_err *err) {
  const char *text = kf_st_meta(st, key);
  if (text == NULL)
    return kf_fail(err, KF_ERR_DATA, "%s: there is no metadata '%s'", st->in.path, key);
  *out = parse_value(text);
  if (json_is_number(*out)) return KF_OK;
  json_decref(*out);
  return kf_fail(err, KF_ERR_DATA, "%s: metadata '%s' is '%.40s', which is no number", st->in.path,
                 key, text);
}

kf_status kf_st_meta_f64(const kf_st *st, const char *key, double *out, kf_err *err) {
  json_t *number;
  KF_TRY(read_number(st, key, &number, err));
  *out = json_number_value(number);
  json_decref(number);
  return KF_OK;
}

kf_status kf_st_meta_i64(const kf_st *st, const char *key, int64_t *out, kf_err *err) {
  json_t *number;
  KF_TRY(read_number(st, key, &number, err));
  bool whole = json_is_integer(number);
  *out = json_integer_value(number);
  json_decref(number);
  if (whole) return KF_OK;
  return kf_fail(err, KF_ERR_DATA, "%s: metadata '%s' is '%.40s', which is no whole number",
                 st->in.path, key, kf_st_meta(st, key));
}

static kf_status copy_names(const kf_st *st, const json_t *list, kf_names *out, kf_err *err) {
  size_t n = json_array_size(list);
  if (!json_is_array(list) || n > KF_MAX_CLASSES) {
    return kf_fail(err, KF_ERR_DATA, "%s: metadata 'classes' is no JSON list of at most %u strings",
                   st->in.path, KF_MAX_CLASSES);
  }
  const char **names = kf_alloc(n, sizeof *names);
  if (names == NULL) return kf_fail_memory(err);
  kf_status status = KF_OK;
  for (size_t k = 0; k < n && status == KF_OK; k++) {
    names[k] = json_string_value(json_array_get(list, k));
    if (names[k] == NULL) {
      status = kf_fail(err, KF_ERR_DATA, "%s: entry %zu of metadata 'classes' is no string",
                       st->in.path, k);
    }
  }
  if (status == KF_OK) status = kf_names_copy(names, (uint32_t)n, out, err);
  kf_free(names);
  return status;
}

/* A map refuses names that stand twice. */
static kf_status check_unique(const kf_st *st, const kf_names *names, kf_err *err) {
  kf_map *map;
  KF_TRY(kf_map_new_from_names(names, st->in.path, &map, err));
  kf_map_free(map);
  return KF_OK;
}

kf_status kf_st_meta_names(const kf_st *st, kf_names *out, kf_err *err) {
  *out = (kf_names){0};
  const char *text = kf_st_meta(st, "classes");
  if (text == NULL) return KF_OK;
  json_t *list = parse_value(text);
  kf_status status = copy_names(st, list, out, err);
  json_decref(list);
  if (status == KF_OK) status = check_unique(st, out, err);
  if (status != KF_OK) kf_names_clear(out);
  return status;
}

/* --- checksum -------------------------------------------------------------------------------- */

/* Puts '0' over the part of the digits that lies in a piece of the file. */
static void blank_digits(unsigned char *piece, uint64_t offset, size_t n, uint64_t digits) {
  for (uint64_t at = digits; at < digits + 16; at++)
    if (at >= offset && at < offset + n) piece[at - offset] = '0';
}

static kf_status hash_file(const kf_st *st, unsigned char *piece, size_t size, uint64_t *out,
                           kf_err *err) {
  kf_hash hash;
  kf_hash_start(&hash);
  for (uint64_t offset = 0; offset < st->in.size;) {
    uint64_t left = st->in.size - offset;
    size_t n = left < size ? (size_t)left : size;
    KF_TRY(kf_in_read(&st->in, offset, piece, n, err));
    blank_digits(piece, offset, n, st->checksum_offset);
    kf_hash_add(&hash, piece, n);
    offset += n;
  }
  *out = kf_hash_value(&hash);
  return KF_OK;
}

kf_status kf_st_verify(const kf_st *st, kf_err *err) {
  const char *stored = kf_st_meta(st, "checksum");
  if (stored == NULL || st->checksum_offset == 0)
    return kf_fail(err, KF_ERR_DATA, "%s: there is no checksum", st->in.path);
  size_t size = (size_t)1 << 20;
  unsigned char *piece = kf_alloc(size, 1);
  if (piece == NULL) return kf_fail_memory(err);
  uint64_t value;
  kf_status status = hash_file(st, piece, size, &value, err);
  kf_free(piece);
  if (status != KF_OK) return status;
  char digits[17];
  snprintf(digits, sizeof digits, "%016" PRIx64, value);
  if (strcmp(digits, stored) == 0) return KF_OK;
  return kf_fail(err, KF_ERR_DATA,
                 "%s: the checksum is %s, but the header says %.16s: the file is damaged",
                 st->in.path, digits, stored);
}
