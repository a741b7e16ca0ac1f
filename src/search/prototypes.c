/* prototypes.c - nearest prototype classification.
 *
 * A query is mapped and rounded to f32 once; its score against every prototype is the canonical sum
 * (eight lanes in f64) of the two f32 rows, so that the answer does not depend on how the work is
 * divided. Equal scores go to the lower class number. */
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

kf_status kf_prototypes_new(kf_ctx *ctx, const kf_model *model, kf_metric metric, bool raw,
                            kf_prototypes **out) {
  if ((unsigned)metric > KF_METRIC_EUCLIDEAN)
    return kf_fail(&ctx->err, KF_ERR_ARG, "metric %d is none of its choices", (int)metric);
  kf_prototypes *p = kf_alloc_zero(1, sizeof *p);
  if (p == NULL) return kf_fail_memory(&ctx->err);
  p->model = model;
  p->kernels = ctx->kernels;
  p->metric = metric_for(model, metric);
  p->raw = raw;
  p->dim = raw ? model->dim_in : model->dim_out;
  p->rows = kf_alloc((uint64_t)model->n_classes * p->dim, sizeof *p->rows);
  p->ids = kf_alloc(model->n_classes, sizeof *p->ids);
  if (p->rows == NULL || p->ids == NULL) {
    kf_prototypes_free(p);
    return kf_fail_memory(&ctx->err);
  }
  /* Mapped prototypes are unit rows already, original ones have their own length. */
  const float *from = raw ? model->class_means : model->prototypes;
  bool fits = true;
  for (uint32_t k = 0; k < model->n_classes; k++) {
    if (model->counts[k] == 0) continue;
    const float *row = from + (uint64_t)k * p->dim;
    float *to = p->rows + (uint64_t)p->n * p->dim;
    if (p->metric == KF_METRIC_COSINE && raw)
      kf_unit_f32(row, p->kernels->norm2(row, p->dim), p->dim, to);
    else if (p->metric == KF_METRIC_COSINE || raw)
      memcpy(to, row, p->dim * sizeof *to);
    else
      fits &= full_length(p, row, model->lengths[k], to);
    p->ids[p->n++] = (int32_t)k;
  }
  if (!fits) {
    kf_prototypes_free(p);
    return kf_fail_range(model, &ctx->err);
  }
  *out = p;
  return KF_OK;
}

void kf_prototypes_free(kf_prototypes *p) {
  if (p == NULL) return;
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

/* The best `top` of n values, better meaning lower, then first; insertion into a sorted list. */
static void pick(const double *value, uint32_t n, uint32_t top, uint32_t *best) {
  uint32_t held = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (held == top && !(value[i] < value[best[top - 1]])) continue;
    uint32_t at = held < top ? held++ : top - 1;
    for (; at > 0 && value[i] < value[best[at - 1]]; at--) best[at] = best[at - 1];
    best[at] = i;
  }
}

typedef struct scratch {
  float *queries; /* [n][dim] */
  double *value;  /* [prototypes] */
  uint32_t *best; /* [top] */
} scratch;

static void search_row(const kf_prototypes *p, const float *query, uint32_t top, const scratch *s,
                       int32_t *classes, double *scores) {
  bool cosine = p->metric == KF_METRIC_COSINE;
  for (uint32_t i = 0; i < p->n; i++) {
    const float *row = p->rows + (uint64_t)i * p->dim;
    (cosine ? p->kernels->dots : p->kernels->distances)(query, &row, 1, p->dim, s->value + i);
  }
  for (uint32_t i = 0; cosine && i < p->n; i++) s->value[i] = -s->value[i];
  pick(s->value, p->n, top, s->best);
  for (uint32_t t = 0; t < top; t++) {
    classes[t] = p->ids[s->best[t]];
    double value = s->value[s->best[t]];
    if (scores != NULL) scores[t] = cosine ? -value : sqrt(value);
  }
}

kf_status kf_prototypes_nearest(const kf_prototypes *p, const float *rows, const double *norm2,
                                uint64_t n, uint32_t top, int32_t *classes, double *scores,
                                kf_err *err) {
  scratch s = {.queries = kf_alloc(n * p->dim, sizeof *s.queries),
               .value = kf_alloc(p->n, sizeof *s.value),
               .best = kf_alloc(top, sizeof *s.best)};
  kf_status status = s.queries && s.value && s.best ? to_space(p, rows, norm2, n, s.queries, err)
                                                    : kf_fail_memory(err);
  for (uint64_t i = 0; status == KF_OK && i < n; i++)
    search_row(p, s.queries + i * p->dim, top, &s, classes + i * top,
               scores != NULL ? scores + i * top : NULL);
  kf_free(s.queries);
  kf_free(s.value);
  kf_free(s.best);
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
  KF_TRY(kf_prototypes_new(ctx, model, o.metric, o.raw != 0, &p));
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
