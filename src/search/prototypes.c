/* prototypes.c - nearest prototype classification.
 *
 * Prototypes are the rows of an index. A query is mapped and rounded to f32 once, and the nearest
 * prototypes are found as nearest rows are: by the canonical sums of f32 rows, so that the answer
 * does not depend on how the work is divided. Classes come in the order of their numbers, so equal
 * scores go to the lower one. */
#include "search/search.h"

#include <math.h>
#include <string.h>

/* --- the prototypes -------------------------------------------------------------------------- */

static kf_metric metric_for(const kf_model *model, kf_metric metric) {
  if (metric != KF_METRIC_DEFAULT) return metric;
  return model->normalized ? KF_METRIC_COSINE : KF_METRIC_EUCLIDEAN;
}

/* A unit prototype at the length that the mapped class mean has; false where f32 cannot hold it. */
static bool full_length(const kf_prototypes *p, const float *unit, double length, float *out) {
  for (uint32_t i = 0; i < p->dim; i++) out[i] = (float)((double)unit[i] * length);
  double norm2 = p->kernels->norm2(out, p->dim);
  return length == 0 || (norm2 > 0 && isfinite(norm2));
}

/* Rows and class numbers of the prototypes that take part. */
static kf_status collect(kf_prototypes *p, const unsigned char *part, kf_err *err) {
  const kf_model *model = p->model;
  p->rows = kf_alloc((uint64_t)model->n_classes * p->dim, sizeof *p->rows);
  p->ids = kf_alloc(model->n_classes, sizeof *p->ids);
  if (p->rows == NULL || p->ids == NULL) return kf_fail_memory(err);
  /* Mapped prototypes are unit rows already, original ones have their own length. */
  const float *from = p->raw ? model->class_means : model->prototypes;
  bool fits = true;
  for (uint32_t k = 0; k < model->n_classes; k++) {
    if (model->counts[k] == 0 || (part != NULL && !part[k])) continue;
    const float *row = from + (uint64_t)k * p->dim;
    float *to = p->rows + (uint64_t)p->n * p->dim;
    if (p->metric == KF_METRIC_COSINE && p->raw)
      kf_unit_f32(row, p->kernels->norm2(row, p->dim), p->dim, to);
    else if (p->metric == KF_METRIC_COSINE || p->raw)
      memcpy(to, row, p->dim * sizeof *to);
    else
      fits &= full_length(p, row, model->lengths[k], to);
    p->ids[p->n++] = (int32_t)k;
  }
  return fits ? KF_OK : kf_fail_range(model, err);
}

static kf_status fetch_prototypes(const void *self, const kf_kernels *kernels, uint64_t first,
                                  uint64_t n, float *rows, kf_err *err) {
  (void)kernels;
  (void)err;
  const kf_prototypes *p = self;
  memcpy(rows, p->rows + first * p->dim, n * p->dim * sizeof *rows);
  return KF_OK;
}

kf_status kf_prototypes_new(kf_ctx *ctx, const kf_model *model, kf_metric metric, bool raw,
                            const unsigned char *part, kf_prototypes **out) {
  if ((unsigned)metric > KF_METRIC_EUCLIDEAN)
    return kf_fail(&ctx->err, KF_ERR_ARG, "metric %d is none of its choices", (int)metric);
  kf_prototypes *p = kf_alloc_zero(1, sizeof *p);
  if (p == NULL) return kf_fail_memory(&ctx->err);
  p->model = model;
  p->kernels = ctx->kernels;
  p->metric = metric_for(model, metric);
  p->raw = raw;
  p->dim = raw ? model->dim_in : model->dim_out;
  kf_status status = collect(p, part, &ctx->err);
  kf_source source = {.rows = p->n, .dim = p->dim, .fetch = fetch_prototypes, .self = p};
  if (status == KF_OK) status = kf_index_build(ctx, &source, p->metric, false, &p->index);
  kf_free(p->rows); /* the index has its own */
  p->rows = NULL;
  if (status != KF_OK) {
    kf_prototypes_free(p);
    return status;
  }
  *out = p;
  return KF_OK;
}

void kf_prototypes_free(kf_prototypes *p) {
  if (p == NULL) return;
  kf_index_free(p->index);
  kf_free(p->rows);
  kf_free(p->ids);
  kf_free(p);
}

/* --- the search ------------------------------------------------------------------------------ */

/* Queries as the metric wants them in the space of the prototypes. */
static kf_status to_space(const kf_prototypes *p, const float *rows, const double *norm2,
                          uint64_t n, float *out, kf_err *err) {
  bool unit = p->metric == KF_METRIC_COSINE;
  if (!p->raw) return kf_map_rows(p->model, p->kernels, rows, norm2, n, unit, out, err);
  for (uint64_t i = 0; i < n; i++) {
    const float *x = rows + i * p->dim;
    if (unit || p->model->normalized)
      kf_unit_f32(x, norm2[i], p->dim, out + i * p->dim);
    else
      memcpy(out + i * p->dim, x, p->dim * sizeof *x);
  }
  return KF_OK;
}

kf_status kf_prototypes_nearest(const kf_prototypes *p, const float *rows, const double *norm2,
                                uint64_t n, uint32_t top, int32_t *classes, double *scores,
                                kf_err *err) {
  float *queries = kf_alloc(n * p->dim, sizeof *queries);
  int64_t *found = kf_alloc(n * top, sizeof *found);
  kf_status status = queries != NULL && found != NULL ? to_space(p, rows, norm2, n, queries, err)
                                                      : kf_fail_memory(err);
  if (status == KF_OK)
    status =
        kf_index_nearest(p->index, p->kernels, queries, n, top, NULL, found, scores, NULL, err);
  for (uint64_t i = 0; status == KF_OK && i < n * top; i++) classes[i] = p->ids[found[i]];
  kf_free(queries);
  kf_free(found);
  return status;
}

/* --- kf_classify ----------------------------------------------------------------------------- */

typedef struct classify_job {
  const kf_prototypes *prototypes;
  const kf_data *data;
  uint32_t top;
  int32_t *classes;
  double *scores;
} classify_job;

static kf_status classify_chunk(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)worker;
  const classify_job *j = argument;
  uint64_t first = (uint64_t)i * KF_MAP_ROWS, left = j->data->rows - first;
  uint64_t n = left < KF_MAP_ROWS ? left : KF_MAP_ROWS;
  double norm2[KF_MAP_ROWS];
  float *rows = kf_alloc(n * j->data->dim, sizeof *rows);
  if (rows == NULL) return kf_fail_memory(err);
  kf_status status =
      kf_data_fetch(j->data, j->prototypes->kernels, first, n, rows, NULL, norm2, err);
  if (status == KF_OK)
    status =
        kf_prototypes_nearest(j->prototypes, rows, norm2, n, j->top, j->classes + first * j->top,
                              j->scores != NULL ? j->scores + first * j->top : NULL, err);
  kf_free(rows);
  return status;
}

kf_status kf_classify(kf_ctx *ctx, const kf_model *model, const float *rows, uint64_t n,
                      const kf_classify_options *options, int32_t *classes, double *scores) {
  KF_ENTER(ctx, model != NULL && (n == 0 || (rows != NULL && classes != NULL)));
  kf_classify_options o = options != NULL ? *options : (kf_classify_options){0};
  if (n == 0) return KF_OK;
  kf_prototypes *p;
  KF_TRY(kf_prototypes_new(ctx, model, o.metric, o.raw != 0, NULL, &p));
  kf_data *data = NULL;
  uint32_t top = o.top > 0 ? o.top : 1;
  kf_status status = KF_OK;
  if (top > p->n)
    status = kf_fail(err, KF_ERR_ARG,
                     "the %u nearest classes are asked for, the model has %u with "
                     "rows",
                     top, p->n);
  if (status == KF_OK)
    status = kf_data_open_memory(ctx, rows, n, model->dim_in, NULL, NULL, 0, &data);
  if (status == KF_OK) {
    classify_job j = {
        .prototypes = p, .data = data, .top = top, .classes = classes, .scores = scores};
    status = kf_parallel(ctx, (size_t)((n + KF_MAP_ROWS - 1) / KF_MAP_ROWS), classify_chunk, &j);
  }
  kf_data_free(data);
  kf_prototypes_free(p);
  return status;
}
