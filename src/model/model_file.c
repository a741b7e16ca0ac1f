/* model_file.c - a model as one .safetensors file with a checksum (docs/formats.md), and its map
 * alone as a part of other files. */
#include "model/model.h"

#include <math.h>
#include <string.h>

#define FORMAT "koofu.model"

/* Every tensor of the file, in its order: where it lives in a model, its type and its shape. */
typedef struct part {
  const char *name;
  kf_type type;
  uint32_t ndim;
  uint64_t shape[2];
  void *memory;
} part;
#define N_PARTS     8
#define N_MAP_PARTS 2 /* the first ones are all that the map needs */

static void parts_of(const kf_model *m, part parts[N_PARTS]) {
  uint64_t d = m->dim_in, l = m->dim_out, k = m->n_classes;
  const part list[N_PARTS] = {
      {"transform", KF_TYPE_F64, 2, {l, d}, m->transform},
      {"mean", KF_TYPE_F64, 1, {d, 1}, m->mean},
      {"within_eigenvalues", KF_TYPE_F64, 1, {d, 1}, m->within},
      {"between_eigenvalues", KF_TYPE_F64, 1, {d, 1}, m->between},
      {"counts", KF_TYPE_I64, 1, {k, 1}, m->counts},
      {"class_means", KF_TYPE_F32, 2, {k, d}, m->class_means},
      {"prototypes", KF_TYPE_F32, 2, {k, l}, m->prototypes},
      {"prototype_lengths", KF_TYPE_F64, 1, {k, 1}, m->lengths},
  };
  memcpy(parts, list, sizeof list);
}

/* --- writing --------------------------------------------------------------------------------- */

static kf_status declare_parts(kf_stw *w, const part *parts, int first, int end, kf_err *err) {
  for (int i = first; i < end; i++)
    KF_TRY(kf_stw_declare(w, parts[i].name, parts[i].type, parts[i].ndim, parts[i].shape, err));
  return KF_OK;
}

static kf_status write_parts(kf_stw *w, const part *parts, int n, kf_err *err) {
  for (int i = 0; i < n; i++) {
    const part *p = &parts[i];
    uint64_t bytes = p->shape[0] * p->shape[1] * kf_type_size(p->type);
    KF_TRY(kf_stw_write(w, p->memory, bytes, err));
  }
  return KF_OK;
}

kf_status kf_map_declare(kf_stw *w, const kf_model *m, kf_err *err) {
  KF_TRY(kf_stw_meta_i64(w, "normalized", m->normalized, err));
  KF_TRY(kf_stw_meta(w, "centre", m->centre == KF_CENTRE_MEAN ? "mean" : "none", err));
  KF_TRY(kf_stw_meta_f64(w, "lambda", m->lambda, err));
  part parts[N_PARTS];
  parts_of(m, parts);
  return declare_parts(w, parts, 0, N_MAP_PARTS, err);
}

kf_status kf_map_write(kf_stw *w, const kf_model *m, kf_err *err) {
  part parts[N_PARTS];
  parts_of(m, parts);
  return write_parts(w, parts, N_MAP_PARTS, err);
}

/* What a model has besides where it knows text. */
#define N_TEXT_PARTS 3
static void text_parts_of(const kf_model *m, part parts[N_TEXT_PARTS]) {
  uint64_t d = m->dim_in, l = m->dim_out, k = m->n_classes;
  const part list[N_TEXT_PARTS] = {
      {"text", KF_TYPE_F32, 2, {k, d}, m->text},
      {"fused_prototypes", KF_TYPE_F32, 2, {k, l}, m->fused},
      {"text_given", KF_TYPE_U8, 1, {k, 1}, m->text_given},
  };
  memcpy(parts, list, sizeof list);
}

static kf_status write_all(kf_stw *w, const kf_model *m, kf_err *err) {
  KF_TRY(kf_stw_meta(w, "format", FORMAT, err));
  KF_TRY(kf_stw_meta_i64(w, "version", 1, err));
  KF_TRY(kf_stw_meta_i64(w, "rows", (int64_t)m->rows, err));
  KF_TRY(kf_map_declare(w, m, err));
  KF_TRY(kf_stw_meta_f64(w, "mean_eigenvalue", m->mean_eigenvalue, err));
  KF_TRY(kf_stw_meta_i64(w, "within_rank", m->rank, err));
  if (m->names.n > 0) KF_TRY(kf_stw_meta_names(w, &m->names, err));
  part parts[N_PARTS], text[N_TEXT_PARTS];
  parts_of(m, parts);
  text_parts_of(m, text);
  if (m->text != NULL) KF_TRY(kf_stw_meta_f64(w, "alpha", m->alpha, err));
  KF_TRY(declare_parts(w, parts, N_MAP_PARTS, N_PARTS, err));
  if (m->text != NULL) KF_TRY(declare_parts(w, text, 0, N_TEXT_PARTS, err));
  KF_TRY(write_parts(w, parts, N_PARTS, err));
  return m->text != NULL ? write_parts(w, text, N_TEXT_PARTS, err) : KF_OK;
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

/* --- reading --------------------------------------------------------------------------------- */

/* Sizes, from tensors that are known to be in the file. */
static kf_status read_dims(const kf_st *st, uint32_t *dim_in, uint32_t *dim_out, kf_err *err) {
  const kf_st_tensor *transform;
  KF_TRY(kf_st_expect(st, "transform", KF_TYPE_F64, 2, (int64_t[]){-1, -1}, &transform, err));
  uint64_t l = transform->shape[0], d = transform->shape[1];
  if (d < 1 || d > KF_MAX_DIM || l < 1 || l > d)
    return kf_fail(err, KF_ERR_DATA, "%s: a transform of %llu x %llu cannot be", st->in.path,
                   (unsigned long long)l, (unsigned long long)d);
  *dim_in = (uint32_t)d;
  *dim_out = (uint32_t)l;
  return KF_OK;
}

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

static kf_status read_tensors(const kf_st *st, const part *parts, int n_parts, kf_err *err) {
  for (int i = 0; i < n_parts; i++) {
    const part *p = &parts[i];
    const kf_st_tensor *tensor;
    int64_t shape[2] = {(int64_t)p->shape[0], (int64_t)p->shape[1]};
    KF_TRY(kf_st_expect(st, p->name, p->type, p->ndim, shape, &tensor, err));
    KF_TRY(kf_st_read_all(st, tensor, p->memory, err));
    uint64_t n = p->shape[0] * p->shape[1], bad = n;
    if (p->type == KF_TYPE_F64)
      for (uint64_t e = 0; e < n && bad == n; e++)
        if (!isfinite(((const double *)p->memory)[e])) bad = e;
    if (p->type == KF_TYPE_F32)
      for (uint64_t e = 0; e < n && bad == n; e++)
        if (!isfinite(((const float *)p->memory)[e])) bad = e;
    if (p->type == KF_TYPE_I64)
      for (uint64_t e = 0; e < n && bad == n; e++)
        if (((const int64_t *)p->memory)[e] < 0) bad = e;
    if (bad < n)
      return kf_fail(err, KF_ERR_DATA, "%s: element %llu of tensor '%s' is %s", st->in.path,
                     (unsigned long long)bad, p->name,
                     p->type == KF_TYPE_I64 ? "negative" : "not finite");
  }
  return KF_OK;
}

static kf_status read_map_meta(const kf_st *st, kf_model *m, kf_err *err) {
  int64_t normalized;
  KF_TRY(kf_st_meta_i64(st, "normalized", &normalized, err));
  KF_TRY(kf_st_meta_f64(st, "lambda", &m->lambda, err));
  const char *centre = kf_st_meta(st, "centre");
  bool mean = centre != NULL && strcmp(centre, "mean") == 0;
  if (centre == NULL || (!mean && strcmp(centre, "none") != 0))
    return kf_fail(err, KF_ERR_DATA, "%s: metadata 'centre' is neither 'none' nor 'mean'",
                   st->in.path);
  if (!(m->lambda >= 0))
    return kf_fail(err, KF_ERR_DATA, "%s: lambda in the metadata is negative", st->in.path);
  m->normalized = normalized != 0;
  m->centre = mean ? KF_CENTRE_MEAN : KF_CENTRE_NONE;
  return KF_OK;
}

static kf_status read_meta(const kf_st *st, kf_model *m, kf_err *err) {
  int64_t rows, rank;
  KF_TRY(kf_st_meta_i64(st, "rows", &rows, err));
  KF_TRY(kf_st_meta_i64(st, "within_rank", &rank, err));
  KF_TRY(kf_st_meta_f64(st, "mean_eigenvalue", &m->mean_eigenvalue, err));
  if (rows < 0 || rank < 0 || rank > m->dim_in)
    return kf_fail(err, KF_ERR_DATA, "%s: rows or rank in the metadata cannot be", st->in.path);
  m->rows = (uint64_t)rows;
  m->rank = (uint32_t)rank;
  return read_map_meta(st, m, err);
}

kf_status kf_map_load(const kf_st *st, kf_model **out, kf_err *err) {
  uint32_t dim_in = 0, dim_out = 0;
  kf_model *m;
  KF_TRY(read_dims(st, &dim_in, &dim_out, err));
  KF_TRY(kf_model_create(dim_in, dim_out, 0, &(kf_names){0}, &m, err));
  part parts[N_PARTS];
  parts_of(m, parts);
  kf_status status = read_tensors(st, parts, N_MAP_PARTS, err);
  if (status == KF_OK) status = read_map_meta(st, m, err);
  if (status != KF_OK) {
    kf_model_free(m);
    return status;
  }
  kf_model_finish(m);
  *out = m;
  return KF_OK;
}

static kf_status read_classes_and_map(const kf_st *st, kf_model *m, kf_err *err) {
  part parts[N_PARTS];
  parts_of(m, parts);
  return read_tensors(st, parts, N_PARTS, err);
}

static kf_status read_text(const kf_st *st, kf_model *m, kf_err *err) {
  if (kf_st_meta(st, "alpha") == NULL) return KF_OK;
  KF_TRY(kf_st_meta_f64(st, "alpha", &m->alpha, err));
  if (!(m->alpha >= 0))
    return kf_fail(err, KF_ERR_DATA, "%s: alpha in the metadata is negative", st->in.path);
  const kf_st_tensor *ignored; /* it must be there before memory is taken for it */
  KF_TRY(kf_st_expect(st, "text", KF_TYPE_F32, 2, (int64_t[]){m->n_classes, m->dim_in}, &ignored,
                      err));
  KF_TRY(kf_model_make_text(m, err));
  part text[N_TEXT_PARTS];
  text_parts_of(m, text);
  KF_TRY(read_tensors(st, text, N_TEXT_PARTS, err));
  kf_model_weigh(m);
  return KF_OK;
}

static kf_status read_all(const kf_st *st, kf_model **out, kf_err *err) {
  uint32_t dim_in = 0, dim_out = 0, classes = 0;
  KF_TRY(kf_st_check_format(st, FORMAT, "a koofu model", err));
  KF_TRY(read_dims(st, &dim_in, &dim_out, err));
  KF_TRY(read_classes(st, &classes, err));
  /* The largest arrays must be in the file before memory is taken for them. */
  const kf_st_tensor *ignored;
  KF_TRY(
      kf_st_expect(st, "class_means", KF_TYPE_F32, 2, (int64_t[]){classes, dim_in}, &ignored, err));
  kf_names names;
  KF_TRY(kf_st_meta_names(st, &names, err));
  kf_model *m = NULL;
  kf_status status = KF_OK;
  if (names.n != 0 && names.n != classes)
    status = kf_fail(err, KF_ERR_DATA, "%s: has %u classes and %u class names", st->in.path,
                     classes, names.n);
  if (status == KF_OK) status = kf_model_create(dim_in, dim_out, classes, &names, &m, err);
  kf_names_clear(&names);
  if (status == KF_OK) status = read_classes_and_map(st, m, err);
  if (status == KF_OK) status = read_meta(st, m, err);
  if (status == KF_OK) status = read_text(st, m, err);
  if (status != KF_OK) {
    kf_model_free(m);
    return status;
  }
  kf_model_finish(m);
  *out = m;
  return KF_OK;
}

kf_status kf_model_load(kf_ctx *ctx, const char *path, kf_model **out) {
  KF_ENTER(ctx, path != NULL && out != NULL);
  kf_st st;
  KF_TRY(kf_st_open(&st, path, err));
  kf_status status = read_all(&st, out, err);
  kf_st_close(&st);
  return status;
}
