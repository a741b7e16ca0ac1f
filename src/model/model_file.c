/* model_file.c - a model as one .safetensors file with a checksum (docs/formats.md), and a map as
 * part of other files. */
#include "model/model.h"

#include <math.h>
#include <string.h>

#define FORMAT "koofu.model"

/* --- tensors --------------------------------------------------------------------------------- */

/* A tensor of the file, and where it lives in memory. */
typedef struct field {
  const char *name;
  kf_type type;
  uint32_t ndim;
  uint64_t shape[2];
  void *memory;
} field;

enum { MAP_FIELDS = 2, CLASS_FIELDS = 6, TEXT_FIELDS = 3 };
#define ALL_FIELDS (MAP_FIELDS + CLASS_FIELDS + TEXT_FIELDS)

static void map_fields(const kf_map *map, field *to) {
  uint64_t d = map->dim_in, l = map->dim_out;
  to[0] = (field){"transform", KF_TYPE_F64, 2, {l, d}, map->transform};
  to[1] = (field){"mean", KF_TYPE_F64, 1, {d, 1}, map->mean};
}

/* Every tensor of a model, in the order of the file; returns how many there are. */
static int model_fields(const kf_model *m, field fields[ALL_FIELDS]) {
  uint64_t d = m->map.dim_in, l = m->map.dim_out, k = m->n_classes;
  const field rest[CLASS_FIELDS + TEXT_FIELDS] = {
      {"within_eigenvalues", KF_TYPE_F64, 1, {d, 1}, m->within},
      {"between_eigenvalues", KF_TYPE_F64, 1, {d, 1}, m->between},
      {"counts", KF_TYPE_I64, 1, {k, 1}, m->counts},
      {"class_means", KF_TYPE_F32, 2, {k, d}, m->class_means},
      {"prototypes", KF_TYPE_F32, 2, {k, l}, m->prototypes},
      {"prototype_lengths", KF_TYPE_F64, 1, {k, 1}, m->lengths},
      {"text", KF_TYPE_F32, 2, {k, d}, m->text},
      {"fused_prototypes", KF_TYPE_F32, 2, {k, l}, m->fused},
      {"text_given", KF_TYPE_U8, 1, {k, 1}, m->text_given},
  };
  map_fields(&m->map, fields);
  memcpy(fields + MAP_FIELDS, rest, sizeof rest);
  return m->text != NULL ? ALL_FIELDS : MAP_FIELDS + CLASS_FIELDS;
}

static kf_status declare_fields(kf_stw *w, const field *fields, int n, kf_err *err) {
  for (const field *f = fields; f < fields + n; f++)
    KF_TRY(kf_stw_declare(w, f->name, f->type, f->ndim, f->shape, err));
  return KF_OK;
}

static kf_status write_fields(kf_stw *w, const field *fields, int n, kf_err *err) {
  for (const field *f = fields; f < fields + n; f++)
    KF_TRY(kf_stw_write(w, f->memory, f->shape[0] * f->shape[1] * kf_type_size(f->type), err));
  return KF_OK;
}

/* The index of the first element that no model can have, or the number of elements. */
static uint64_t find_bad(const field *f) {
  uint64_t n = f->shape[0] * f->shape[1], i = n;
  if (f->type == KF_TYPE_F64)
    for (i = 0; i < n && isfinite(((const double *)f->memory)[i]);) i++;
  else if (f->type == KF_TYPE_F32)
    for (i = 0; i < n && isfinite(((const float *)f->memory)[i]);) i++;
  else if (f->type == KF_TYPE_I64)
    for (i = 0; i < n && ((const int64_t *)f->memory)[i] >= 0;) i++;
  return i;
}

static kf_status read_fields(const kf_st *st, const field *fields, int n, kf_err *err) {
  for (const field *f = fields; f < fields + n; f++) {
    const kf_st_tensor *tensor;
    int64_t shape[2] = {(int64_t)f->shape[0], (int64_t)f->shape[1]};
    KF_TRY(kf_st_expect(st, f->name, f->type, f->ndim, shape, &tensor, err));
    KF_TRY(kf_st_read_all(st, tensor, f->memory, err));
    uint64_t bad = find_bad(f);
    if (bad < f->shape[0] * f->shape[1])
      return kf_fail(err, KF_ERR_DATA, "%s: element %llu of tensor '%s' is %s", st->in.path,
                     (unsigned long long)bad, f->name,
                     f->type == KF_TYPE_I64 ? "negative" : "not finite");
  }
  return KF_OK;
}

/* --- writing --------------------------------------------------------------------------------- */

static kf_status write_map_meta(kf_stw *w, const kf_map *map, kf_err *err) {
  KF_TRY(kf_stw_meta_i64(w, "normalized", map->normalized, err));
  KF_TRY(kf_stw_meta(w, "centre", map->centre == KF_CENTRE_MEAN ? "mean" : "none", err));
  return kf_stw_meta_f64(w, "lambda", map->lambda, err);
}

kf_status kf_map_declare(kf_stw *w, const kf_map *map, kf_err *err) {
  field fields[MAP_FIELDS];
  map_fields(map, fields);
  KF_TRY(write_map_meta(w, map, err));
  return declare_fields(w, fields, MAP_FIELDS, err);
}

kf_status kf_map_write(kf_stw *w, const kf_map *map, kf_err *err) {
  field fields[MAP_FIELDS];
  map_fields(map, fields);
  return write_fields(w, fields, MAP_FIELDS, err);
}

static kf_status write_all(kf_stw *w, const kf_model *m, kf_err *err) {
  KF_TRY(kf_stw_meta(w, "format", FORMAT, err));
  KF_TRY(kf_stw_meta_i64(w, "version", 1, err));
  KF_TRY(kf_stw_meta_i64(w, "rows", (int64_t)m->rows, err));
  KF_TRY(write_map_meta(w, &m->map, err));
  KF_TRY(kf_stw_meta_f64(w, "mean_eigenvalue", m->mean_eigenvalue, err));
  KF_TRY(kf_stw_meta_i64(w, "within_rank", m->rank, err));
  if (m->names.n > 0) KF_TRY(kf_stw_meta_names(w, &m->names, err));
  if (m->text != NULL) KF_TRY(kf_stw_meta_f64(w, "alpha", m->alpha, err));
  field fields[ALL_FIELDS];
  int n = model_fields(m, fields);
  KF_TRY(declare_fields(w, fields, n, err));
  return write_fields(w, fields, n, err);
}

kf_status kf_model_save(kf_ctx *ctx, const kf_model *model, const char *path) {
  KF_ENTER(ctx, model != NULL && path != NULL);
  kf_stw *w;
  KF_TRY(kf_stw_open(path, true, &w, err));
  kf_status status = write_all(w, model, err);
  if (status == KF_OK) return kf_stw_commit(w, err);
  kf_stw_abort(w);
  return status;
}

/* --- reading a map --------------------------------------------------------------------------- */

/* Sizes, from a tensor that is known to be in the file. */
static kf_status read_dims(const kf_st *st, uint32_t *dim_in, uint32_t *dim_out, kf_err *err) {
  const kf_st_tensor *transform;
  KF_TRY(kf_st_expect(st, "transform", KF_TYPE_F64, 2, (int64_t[]){-1, -1}, &transform, err));
  uint64_t l = transform->shape[0], d = transform->shape[1];
  if (d < 1 || d > KF_MAX_DIM || l < 1 || l > d)
    return kf_fail(err, KF_ERR_DATA, "%s: invalid transform of %llu x %llu", st->in.path,
                   (unsigned long long)l, (unsigned long long)d);
  *dim_in = (uint32_t)d;
  *dim_out = (uint32_t)l;
  return KF_OK;
}

static kf_status read_map_meta(const kf_st *st, kf_map *map, kf_err *err) {
  int64_t normalized;
  KF_TRY(kf_st_meta_i64(st, "normalized", &normalized, err));
  KF_TRY(kf_st_meta_f64(st, "lambda", &map->lambda, err));
  const char *centre = kf_st_meta(st, "centre");
  bool mean = centre != NULL && strcmp(centre, "mean") == 0;
  if (centre == NULL || (!mean && strcmp(centre, "none") != 0))
    return kf_fail(err, KF_ERR_DATA, "%s: metadata 'centre' is neither 'none' nor 'mean'",
                   st->in.path);
  if (!(map->lambda >= 0))
    return kf_fail(err, KF_ERR_DATA, "%s: lambda in the metadata is negative", st->in.path);
  map->normalized = normalized != 0;
  map->centre = mean ? KF_CENTRE_MEAN : KF_CENTRE_NONE;
  return KF_OK;
}

kf_status kf_map_load(const kf_st *st, kf_map *map, kf_arena *arena, kf_err *err) {
  uint32_t dim_in = 0, dim_out = 0;
  KF_TRY(read_dims(st, &dim_in, &dim_out, err));
  kf_map_make(map, dim_in, dim_out, arena);
  if (arena->failed) return kf_fail_memory(err);
  field fields[MAP_FIELDS];
  map_fields(map, fields);
  KF_TRY(read_fields(st, fields, MAP_FIELDS, err));
  KF_TRY(read_map_meta(st, map, err));
  kf_map_finish(map);
  return KF_OK;
}

/* --- reading a model ------------------------------------------------------------------------- */

static kf_status read_classes(const kf_st *st, uint32_t *classes, kf_err *err) {
  const kf_st_tensor *counts;
  KF_TRY(kf_st_expect(st, "counts", KF_TYPE_I64, 1, (int64_t[]){-1}, &counts, err));
  uint64_t k = counts->shape[0];
  if (k < 1 || k > KF_MAX_CLASSES)
    return kf_fail(err, KF_ERR_DATA, "%s: has %llu classes, there must be 1 to %u", st->in.path,
                   (unsigned long long)k, KF_MAX_CLASSES);
  *classes = (uint32_t)k;
  return KF_OK;
}

/* A model of the sizes in the file, with its names. Its largest array must be in the file before
 * memory is taken for it. */
static kf_status create(const kf_st *st, kf_model **out, kf_err *err) {
  uint32_t dim_in = 0, dim_out = 0, classes = 0;
  const kf_st_tensor *ignored;
  KF_TRY(read_dims(st, &dim_in, &dim_out, err));
  KF_TRY(read_classes(st, &classes, err));
  KF_TRY(
      kf_st_expect(st, "class_means", KF_TYPE_F32, 2, (int64_t[]){classes, dim_in}, &ignored, err));
  kf_names names;
  KF_TRY(kf_st_meta_names(st, &names, err));
  kf_status status = names.n != 0 && names.n != classes
                         ? kf_fail(err, KF_ERR_DATA, "%s: has %u classes and %u class names",
                                   st->in.path, classes, names.n)
                         : kf_model_create(dim_in, dim_out, classes, &names, out, err);
  kf_names_clear(&names);
  return status;
}

static kf_status read_meta(const kf_st *st, kf_model *m, kf_err *err) {
  int64_t rows, rank;
  KF_TRY(kf_st_meta_i64(st, "rows", &rows, err));
  KF_TRY(kf_st_meta_i64(st, "within_rank", &rank, err));
  KF_TRY(kf_st_meta_f64(st, "mean_eigenvalue", &m->mean_eigenvalue, err));
  if (rows < 0 || rank < 0 || rank > m->map.dim_in)
    return kf_fail(err, KF_ERR_DATA, "%s: invalid rows or rank in the metadata", st->in.path);
  m->rows = (uint64_t)rows;
  m->rank = (uint32_t)rank;
  return read_map_meta(st, &m->map, err);
}

static kf_status read_text(const kf_st *st, kf_model *m, kf_err *err) {
  if (kf_st_meta(st, "alpha") == NULL) return KF_OK;
  KF_TRY(kf_st_meta_f64(st, "alpha", &m->alpha, err));
  if (!(m->alpha >= 0))
    return kf_fail(err, KF_ERR_DATA, "%s: alpha in the metadata is negative", st->in.path);
  const kf_st_tensor *ignored; /* it must be in the file before memory is taken for it */
  KF_TRY(kf_st_expect(st, "text", KF_TYPE_F32, 2, (int64_t[]){m->n_classes, m->map.dim_in},
                      &ignored, err));
  KF_TRY(kf_model_make_text(m, err));
  field fields[ALL_FIELDS];
  model_fields(m, fields);
  KF_TRY(read_fields(st, fields + MAP_FIELDS + CLASS_FIELDS, TEXT_FIELDS, err));
  kf_model_weigh(m);
  return KF_OK;
}

static kf_status read_all(const kf_st *st, kf_model **out, kf_err *err) {
  field fields[ALL_FIELDS];
  KF_TRY(kf_st_check_format(st, FORMAT, "a koofu model", err));
  KF_TRY(create(st, out, err));
  KF_TRY(read_fields(st, fields, model_fields(*out, fields), err));
  KF_TRY(read_meta(st, *out, err));
  KF_TRY(read_text(st, *out, err));
  kf_map_finish(&(*out)->map);
  return KF_OK;
}

kf_status kf_model_load(kf_ctx *ctx, const char *path, kf_model **out) {
  KF_ENTER(ctx, path != NULL && out != NULL);
  kf_st st;
  KF_TRY(kf_st_open(&st, path, err));
  kf_model *m = NULL;
  kf_status status = read_all(&st, &m, err);
  kf_st_close(&st);
  if (status == KF_OK)
    *out = m;
  else
    kf_model_free(m);
  return status;
}
