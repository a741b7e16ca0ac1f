/* model_file.c - writes and reads a model as one .safetensors file with a checksum
 * (docs/formats.md), and a map as part of other files. */
#include "model/model.h"

#include <string.h>

#define FORMAT "koofu.model"

/* --- tensors --------------------------------------------------------------------------------- */

enum { MAP_FIELDS = 2, CLASS_FIELDS = 6, TEXT_FIELDS = 3 };
_Static_assert(MAP_FIELDS + CLASS_FIELDS + 1 + TEXT_FIELDS == KF_MODEL_FIELDS, "all tensors");

static void map_fields(const kf_map *map, kf_st_field *to) {
  uint64_t d = map->dim_in, l = map->dim_out;
  to[0] = (kf_st_field){"transform", KF_TYPE_F64, 2, {l, d}, map->transform};
  to[1] = (kf_st_field){"mean", KF_TYPE_F64, 1, {d, 1}, map->mean};
}

/* Optional parts of a model. */
typedef struct model_parts {
  bool signal, text;
} model_parts;

/* Lists the tensors of a model in the order of the file, and returns how many there are. */
static size_t model_fields(const kf_model *m, model_parts parts,
                           kf_st_field fields[KF_MODEL_FIELDS]) {
  uint64_t d = m->map.dim_in, l = m->map.dim_out, k = m->n_classes;
  const kf_st_field of_classes[CLASS_FIELDS] = {
      {"within_eigenvalues", KF_TYPE_F64, 1, {d, 1}, m->within},
      {"between_eigenvalues", KF_TYPE_F64, 1, {d, 1}, m->between},
      {"counts", KF_TYPE_I64, 1, {k, 1}, m->counts},
      {"class_means", KF_TYPE_F32, 2, {k, d}, m->class_means},
      {"prototypes", KF_TYPE_F32, 2, {k, l}, m->prototypes},
      {"prototype_lengths", KF_TYPE_F64, 1, {k, 1}, m->lengths},
  };
  const kf_st_field of_text[TEXT_FIELDS] = {
      {"text", KF_TYPE_F32, 2, {k, d}, m->text},
      {"fused_prototypes", KF_TYPE_F32, 2, {k, l}, m->fused},
      {"text_given", KF_TYPE_U8, 1, {k, 1}, m->text_given},
  };
  size_t n = MAP_FIELDS;
  map_fields(&m->map, fields);
  memcpy(fields + n, of_classes, sizeof of_classes);
  n += CLASS_FIELDS;
  if (parts.signal) fields[n++] = (kf_st_field){"signal", KF_TYPE_F64, 1, {d, 1}, m->signal};
  if (!parts.text) return n;
  memcpy(fields + n, of_text, sizeof of_text);
  return n + TEXT_FIELDS;
}

size_t kf_model_fields(const kf_model *m, kf_st_field fields[KF_MODEL_FIELDS]) {
  return model_fields(m, (model_parts){m->signal != NULL, m->text != NULL}, fields);
}

/* --- writing --------------------------------------------------------------------------------- */

static kf_status write_map_meta(kf_stw *w, const kf_map *map, kf_err *err) {
  if (map->method == KF_METHOD_SHRUNK) KF_TRY(kf_stw_meta(w, "method", "shrunk", err));
  KF_TRY(kf_stw_meta_i64(w, "normalized", map->normalized, err));
  KF_TRY(kf_stw_meta(w, "centre", map->centre == KF_CENTRE_MEAN ? "mean" : "none", err));
  if (map->fitted_by[0] != '\0') KF_TRY(kf_stw_meta(w, "fitted_by", map->fitted_by, err));
  if (map->fitted_from != 0) KF_TRY(kf_stw_meta_hex(w, "fitted_from", map->fitted_from, err));
  return kf_stw_meta_f64(w, "lambda", map->lambda, err);
}

kf_status kf_map_declare(kf_stw *w, const kf_map *map, kf_err *err) {
  kf_st_field fields[MAP_FIELDS];
  map_fields(map, fields);
  KF_TRY(write_map_meta(w, map, err));
  return kf_stw_declare_fields(w, fields, MAP_FIELDS, err);
}

kf_status kf_map_write(kf_stw *w, const kf_map *map, kf_err *err) {
  kf_st_field fields[MAP_FIELDS];
  map_fields(map, fields);
  return kf_stw_write_fields(w, fields, MAP_FIELDS, err);
}

/* Temperature and threshold, if there are any. */
static kf_status write_confidence(kf_stw *w, const kf_model *m, kf_err *err) {
  if (m->temperature > 0) KF_TRY(kf_stw_meta_f64(w, "temperature", m->temperature, err));
  if (!(m->reject_share > 0)) return KF_OK;
  KF_TRY(kf_stw_meta_f64(w, "reject", m->reject, err));
  return kf_stw_meta_f64(w, "reject_share", m->reject_share, err);
}

static kf_status write_all(kf_stw *w, const kf_model *m, kf_err *err) {
  KF_TRY(kf_stw_format(w, FORMAT, err));
  KF_TRY(kf_stw_meta_i64(w, "rows", (int64_t)m->rows, err));
  KF_TRY(write_map_meta(w, &m->map, err));
  KF_TRY(kf_stw_meta_f64(w, "mean_eigenvalue", m->mean_eigenvalue, err));
  KF_TRY(kf_stw_meta_i64(w, "within_rank", m->dims_within, err));
  if (m->names.n > 0) KF_TRY(kf_stw_meta_names(w, &m->names, err));
  if (m->text != NULL) KF_TRY(kf_stw_meta_f64(w, "alpha", m->alpha, err));
  if (m->prior > 0) KF_TRY(kf_stw_meta_f64(w, "prior", m->prior, err));
  KF_TRY(kf_stw_origin(w, &m->map.origin, err));
  if (m->text_from != 0) KF_TRY(kf_stw_meta_hex(w, "text_from", m->text_from, err));
  if (m->text_made_with != 0) KF_TRY(kf_stw_meta_hex(w, "text_made_with", m->text_made_with, err));
  KF_TRY(write_confidence(w, m, err));
  kf_st_field fields[KF_MODEL_FIELDS];
  size_t n = kf_model_fields(m, fields);
  KF_TRY(kf_stw_declare_fields(w, fields, n, err));
  return kf_stw_write_fields(w, fields, n, err);
}

kf_status kf_model_save(kf_ctx *ctx, const kf_model *model, const char *path) {
  KF_ENTER(ctx, model != NULL && path != NULL);
  kf_stw *w;
  KF_TRY(kf_stw_open(ctx, path, true, &w, err));
  return kf_stw_end(w, write_all(w, model, err), err);
}

kf_status kf_bytes_new_of_model(kf_ctx *ctx, const kf_model *model, kf_bytes **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, model != NULL && out != NULL);
  kf_stw *w;
  KF_TRY(kf_stw_open_memory(true, &w, err));
  return kf_stw_take(w, write_all(w, model, err), out, err);
}

/* --- reading a map --------------------------------------------------------------------------- */

/* Reads the sizes from the transform. */
static kf_status read_dims(const kf_st *st, uint32_t *dim_in, uint32_t *dim_out, kf_err *err) {
  const kf_st_tensor *transform;
  KF_TRY(kf_st_expect(st, "transform", KF_TYPE_F64, 2, (int64_t[]){-1, -1}, &transform, err));
  uint64_t l = transform->shape[0], d = transform->shape[1];
  if (d < 1 || d > KF_MAX_DIM || l < 1 || l > d)
    return kf_fail_file(err, st->in.path, "invalid transform of %llu x %llu", (unsigned long long)l,
                        (unsigned long long)d);
  *dim_in = (uint32_t)d;
  *dim_out = (uint32_t)l;
  return KF_OK;
}

static kf_status read_sum_if_there(const kf_st *st, const char *key, uint64_t *out, kf_err *err) {
  const char *digits = kf_st_meta(st, key);
  if (digits == NULL || kf_parse_hex64(digits, out)) return KF_OK;
  return kf_fail_file(err, st->in.path, "metadata '%s' is not 16 hexadecimal digits", key);
}

/* The header has been checked (rules.c), but not for missing entries. */
static kf_status read_map_meta(const kf_st *st, kf_map *map, kf_err *err) {
  int64_t normalized;
  KF_TRY(kf_st_meta_i64(st, "normalized", &normalized, err));
  KF_TRY(kf_st_meta_f64(st, "lambda", &map->lambda, err));
  const char *centre = kf_st_meta(st, "centre");
  if (centre == NULL) return kf_fail_file(err, st->in.path, "there is no metadata 'centre'");
  map->method = kf_st_meta(st, "method") != NULL ? KF_METHOD_SHRUNK : KF_METHOD_PAPER;
  map->normalized = normalized != 0;
  const char *by = kf_st_meta(st, "fitted_by");
  if (by != NULL) snprintf(map->fitted_by, sizeof map->fitted_by, "%s", by);
  KF_TRY(read_sum_if_there(st, "fitted_from", &map->fitted_from, err));
  map->centre = strcmp(centre, "mean") == 0 ? KF_CENTRE_MEAN : KF_CENTRE_NONE;
  return KF_OK;
}

kf_status kf_map_load(const kf_st *st, kf_map *map, kf_arena *arena, kf_err *err) {
  uint32_t dim_in = 0, dim_out = 0;
  KF_TRY(read_dims(st, &dim_in, &dim_out, err));
  kf_map_make(map, dim_in, dim_out, arena);
  if (arena->failed) return kf_fail_memory(err);
  kf_st_field fields[MAP_FIELDS];
  map_fields(map, fields);
  KF_TRY(kf_st_read_fields(st, fields, MAP_FIELDS, err));
  KF_TRY(kf_check_tensors(&(kf_contents){.rules = &kf_gallery_rules,
                                         .path = st->in.path,
                                         .st = st,
                                         .fields = fields,
                                         .n_fields = MAP_FIELDS},
                          err));
  KF_TRY(read_map_meta(st, map, err));
  kf_map_finish(map);
  return KF_OK;
}

/* --- reading a model ------------------------------------------------------------------------- */

/* Makes a model with the sizes and names in the file. Memory is taken only if all tensors are in
 * the file. */
static kf_status create(const kf_st *st, model_parts parts, kf_model **out, kf_err *err) {
  kf_model sizes = {0};
  kf_names names;
  kf_st_field fields[KF_MODEL_FIELDS];
  KF_TRY(read_dims(st, &sizes.map.dim_in, &sizes.map.dim_out, err));
  KF_TRY(kf_st_classes(st, &sizes.n_classes, &names, err));
  size_t n = model_fields(&sizes, parts, fields);
  kf_status status = kf_st_expect_fields(st, fields, n, err);
  if (status == KF_OK)
    status =
        kf_model_create(sizes.map.dim_in, sizes.map.dim_out, sizes.n_classes, &names, out, err);
  kf_names_clear(&names);
  return status;
}

/* Reads an optional number. */
static kf_status read_if_there(const kf_st *st, const char *key, double *out, kf_err *err) {
  return kf_st_meta(st, key) != NULL ? kf_st_meta_f64(st, key, out, err) : KF_OK;
}

static kf_status read_meta(const kf_st *st, kf_model *m, kf_err *err) {
  int64_t rows, dims_within;
  KF_TRY(kf_st_meta_i64(st, "rows", &rows, err));
  KF_TRY(kf_st_meta_i64(st, "within_rank", &dims_within, err));
  KF_TRY(kf_st_meta_f64(st, "mean_eigenvalue", &m->mean_eigenvalue, err));
  m->rows = (uint64_t)rows;
  m->dims_within = (uint32_t)dims_within;
  KF_TRY(read_if_there(st, "alpha", &m->alpha, err));
  KF_TRY(read_if_there(st, "temperature", &m->temperature, err));
  KF_TRY(read_if_there(st, "reject", &m->reject, err));
  KF_TRY(read_if_there(st, "reject_share", &m->reject_share, err));
  KF_TRY(read_if_there(st, "prior", &m->prior, err));
  KF_TRY(read_sum_if_there(st, "text_from", &m->text_from, err));
  KF_TRY(read_sum_if_there(st, "text_made_with", &m->text_made_with, err));
  KF_TRY(kf_st_origin(st, &m->map.origin, err));
  return read_map_meta(st, &m->map, err);
}

static kf_status read_all(const kf_st *st, const kf_kernels *kernels, kf_model **out, kf_err *err) {
  KF_TRY(kf_st_check_file(st, FORMAT, "a koofu model", err));
  KF_TRY(kf_check_header(&kf_model_rules, st, err));
  model_parts parts = {.signal = kf_st_find(st, "signal") != NULL,
                       .text = kf_st_meta(st, "alpha") != NULL};
  kf_st_field fields[KF_MODEL_FIELDS];
  KF_TRY(create(st, parts, out, err));
  if (parts.signal) KF_TRY(kf_model_make_signal(*out, err));
  if (parts.text) KF_TRY(kf_model_make_text(*out, err));
  kf_contents contents = {.rules = &kf_model_rules,
                          .path = st->in.path,
                          .st = st,
                          .fields = fields,
                          .n_fields = model_fields(*out, parts, fields),
                          .kernels = kernels};
  KF_TRY(kf_st_read_fields(st, fields, contents.n_fields, err));
  KF_TRY(read_meta(st, *out, err));
  KF_TRY(kf_check_tensors(&contents, err));
  if (parts.text) kf_model_weigh(*out);
  kf_map_finish(&(*out)->map);
  return KF_OK;
}

/* Closes the file. */
static kf_status load(kf_ctx *ctx, kf_st *st, kf_model **out) {
  kf_model *m = NULL;
  kf_status status = read_all(st, ctx->kernels, &m, &ctx->err);
  kf_st_close(st);
  if (status == KF_OK) m->map.origin.any = ctx->options.any_encoder != 0;
  KF_HAND_OUT(status, out, m, kf_model_free);
}

kf_status kf_model_load(kf_ctx *ctx, const char *path, kf_model **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, path != NULL && out != NULL);
  kf_st st;
  KF_TRY(kf_st_open(&st, path, err));
  return load(ctx, &st, out);
}

kf_status kf_model_load_bytes(kf_ctx *ctx, const void *bytes, uint64_t n, kf_model **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, bytes != NULL && out != NULL);
  kf_st st;
  KF_TRY(kf_st_open_memory(&st, bytes, n, err));
  return load(ctx, &st, out);
}
