/* safetensors_write.c - writes a .safetensors file in one pass.
 *
 * The header has the metadata first and then the tensors in the order they were declared, so equal
 * calls give equal bytes. It is padded with spaces so that the data begins at a multiple of 8. */
#include "file/parts.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const char no_digits[] = "0000000000000000";

struct kf_stw {
  kf_out out;
  json_t *header;             /* NULL once it is written */
  json_t *metadata;           /* inside header */
  uint64_t declared, written; /* bytes of data */
  bool checksum;
  uint64_t digits; /* offset of the checksum in the file */
  kf_hash hash;
};

static kf_status start(kf_stw *w, const char *path, kf_err *err) {
  KF_TRY(kf_out_open(&w->out, path, err));
  w->header = json_object();
  w->metadata = json_object();
  if (w->metadata == NULL || json_object_set_new(w->header, "__metadata__", w->metadata) != 0)
    return kf_fail_memory(err);
  return w->checksum ? kf_stw_meta(w, "checksum", no_digits, err) : KF_OK;
}

kf_status kf_stw_open(const char *path, bool checksum, kf_stw **out, kf_err *err) {
  kf_stw *w = kf_alloc_zero(1, sizeof *w);
  if (w == NULL) return kf_fail_memory(err);
  w->checksum = checksum;
  kf_hash_start(&w->hash);
  kf_status status = start(w, path, err);
  if (status != KF_OK) {
    kf_stw_abort(w);
    return status;
  }
  *out = w;
  return KF_OK;
}

void kf_stw_abort(kf_stw *w) {
  if (w == NULL) return;
  kf_out_abort(&w->out);
  json_decref(w->header);
  kf_free(w);
}

/* --- metadata -------------------------------------------------------------------------------- */

/* jansson does not say whether it ran out of memory or did not like the text. */
static kf_status fail_string(const kf_stw *w, const char *what, const char *text, kf_err *err) {
  if (kf_utf8_valid(text, strlen(text))) return kf_fail_memory(err);
  return kf_fail(err, KF_ERR_DATA, "%s: %s is not valid UTF-8", w->out.path, what);
}

kf_status kf_stw_meta(kf_stw *w, const char *key, const char *value, kf_err *err) {
  if (json_object_set_new(w->metadata, key, json_string(value)) == 0) return KF_OK;
  return fail_string(w, key, value, err);
}

/* Sets a metadata string to the JSON text of a value, and lets go of the value. */
static kf_status set_json(kf_stw *w, const char *key, json_t *value, size_t flags, kf_err *err) {
  char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | flags);
  json_decref(value);
  if (text == NULL) return kf_fail_memory(err);
  kf_status status = kf_stw_meta(w, key, text, err);
  free(text);
  return status;
}

kf_status kf_stw_meta_i64(kf_stw *w, const char *key, int64_t value, kf_err *err) {
  return set_json(w, key, json_integer(value), 0, err);
}

/* The fewest digits, from 15 on, that give the same number back. */
static size_t digits_for(double value) {
  for (size_t digits = 15; digits < 17; digits++) {
    char text[40];
    snprintf(text, sizeof text, "%.*e", (int)digits - 1, value);
    if (strtod(text, NULL) == value) return digits;
  }
  return 17;
}

kf_status kf_stw_meta_f64(kf_stw *w, const char *key, double value, kf_err *err) {
  json_t *number = json_real(value);
  if (number == NULL && value - value != 0) /* JSON has no NaN and no infinity */
    return kf_fail(err, KF_ERR_INTERNAL, "%s: metadata '%s' is not finite", w->out.path, key);
  return set_json(w, key, number, JSON_REAL_PRECISION(digits_for(value)), err);
}

kf_status kf_stw_meta_names(kf_stw *w, const kf_names *names, kf_err *err) {
  json_t *list = json_array();
  if (list == NULL) return kf_fail_memory(err);
  for (uint32_t k = 0; k < names->n; k++) {
    if (json_array_append_new(list, json_string(names->name[k])) == 0) continue;
    json_decref(list);
    return fail_string(w, "a class name", names->name[k], err);
  }
  return set_json(w, "classes", list, 0, err);
}

/* --- tensors --------------------------------------------------------------------------------- */

static const char *type_name(kf_type type) {
  static const char *const name[] = {"F16", "BF16", "F32", "F64", "I8",  "I16",
                                     "I32", "I64",  "U8",  "U16", "U32", "U64"};
  return name[type];
}

/* "[a,b]" of the numbers; NULL without memory. */
static json_t *size_list(uint32_t n, const uint64_t *sizes) {
  json_t *list = json_array();
  for (uint32_t i = 0; list != NULL && i < n; i++) {
    if (json_array_append_new(list, json_integer((json_int_t)sizes[i])) == 0) continue;
    json_decref(list);
    list = NULL;
  }
  return list;
}

kf_status kf_stw_declare(kf_stw *w, const char *name, kf_type type, uint32_t ndim,
                         const uint64_t *shape, kf_err *err) {
  uint64_t bytes = kf_type_size(type), offsets[2] = {w->declared, 0};
  bool fits = true;
  for (uint32_t i = 0; i < ndim; i++) fits = fits && kf_mul_u64(bytes, shape[i], &bytes);
  if (!fits || !kf_add_u64(w->declared, bytes, &offsets[1]) || offsets[1] > INT64_MAX)
    return kf_fail(err, KF_ERR_ARG, "%s: tensor '%s' is too large", w->out.path, name);
  json_t *entry = json_object();
  if (json_object_set_new(entry, "dtype", json_string(type_name(type))) != 0 ||
      json_object_set_new(entry, "shape", size_list(ndim, shape)) != 0 ||
      json_object_set_new(entry, "data_offsets", size_list(2, offsets)) != 0) {
    json_decref(entry);
    return kf_fail_memory(err);
  }
  if (json_object_set_new(w->header, name, entry) != 0) return kf_fail_memory(err);
  w->declared = offsets[1];
  return KF_OK;
}

/* --- bytes ----------------------------------------------------------------------------------- */

static kf_status put(kf_stw *w, const void *bytes, uint64_t n, kf_err *err) {
  if (w->checksum) kf_hash_add(&w->hash, bytes, n);
  return kf_out_write(&w->out, bytes, n, err);
}

static kf_status put_header(kf_stw *w, const char *text, kf_err *err) {
  uint64_t n = strlen(text), padding = (8 - n % 8) % 8, length = n + padding;
  KF_TRY(put(w, &length, sizeof length, err));
  KF_TRY(put(w, text, n, err));
  KF_TRY(put(w, "       ", padding, err));
  /* The checksum was the first metadata to be set, so this is it and no other value. */
  if (w->checksum) w->digits = sizeof length + (uint64_t)(strstr(text, no_digits) - text);
  return KF_OK;
}

static kf_status write_header(kf_stw *w, kf_err *err) {
  char *text = json_dumps(w->header, JSON_COMPACT);
  if (text == NULL) return kf_fail_memory(err);
  kf_status status = put_header(w, text, err);
  free(text);
  json_decref(w->header);
  w->header = w->metadata = NULL;
  return status;
}

kf_status kf_stw_write(kf_stw *w, const void *bytes, uint64_t n, kf_err *err) {
  if (w->header != NULL) KF_TRY(write_header(w, err));
  w->written += n;
  return put(w, bytes, n, err);
}

static kf_status finish(kf_stw *w, kf_err *err) {
  if (w->header != NULL) KF_TRY(write_header(w, err));
  if (w->written != w->declared) {
    return kf_fail(err, KF_ERR_INTERNAL,
                   "%s: %" PRIu64 " bytes were declared and %" PRIu64 " written", w->out.path,
                   w->declared, w->written);
  }
  if (w->checksum) {
    char digits[17];
    snprintf(digits, sizeof digits, "%016" PRIx64, kf_hash_value(&w->hash));
    KF_TRY(kf_out_rewrite(&w->out, w->digits, digits, 16, err));
  }
  return kf_out_commit(&w->out, err);
}

kf_status kf_stw_commit(kf_stw *w, kf_err *err) {
  kf_status status = finish(w, err);
  kf_stw_abort(w);
  return status;
}
