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

/* A unit prototype at the length that the mapped class mean has; false where f32 cannot hold it. */
static bool full_length(const kf_prototypes *p, const float *unit, double length, float *out) {
  for (uint32_t i = 0; i < p->dim; i++) out[i] = (float)((double)unit[i] * length);
  double norm2 = p->kernels->norm2(out, p->dim);
  return length == 0 || (norm2 > 0 && isfinite(norm2));
}

/* The row of class k; false where f32 cannot hold it. Mapped prototypes and text are unit rows
 * already, original class means have their own length. */
static bool take_class(const kf_prototypes *p, uint64_t k, float *to) {
  const kf_model *m = p->model;
  uint64_t d = m->dim_in, l = m->dim_out;
  if (p->part == KF_PART_FUSED) {
    memcpy(to, m->text + k * d, d * sizeof *to);
    memcpy(to + d, m->fused + k * l, l * sizeof *to);
  } else if (p->part == KF_PART_TEXT) {
    memcpy(to, m->text + k * d, d * sizeof *to);
  } else if (p->raw) {
    const float *mean = m->class_means + k * d;
    if (p->metric == KF_METRIC_COSINE)
      kf_unit_f32(mean, p->kernels->norm2(mean, p->dim), p->dim, to);
    else
      memcpy(to, mean, d * sizeof *to);
  } else if (p->metric == KF_METRIC_COSINE) {
    memcpy(to, m->prototypes + k * l, l * sizeof *to);
  } else {
    return full_length(p, m->prototypes + k * l, m->lengths[k], to);
  }
  return true;
}

/* Rows and class numbers of the prototypes that take part. */
static kf_status collect(kf_prototypes *p, const unsigned char *mask, kf_err *err) {
  const kf_model *model = p->model;
  p->rows = kf_alloc((uint64_t)model->n_classes * p->dim, sizeof *p->rows);
  p->ids = kf_alloc(model->n_classes, sizeof *p->ids);
  if (p->rows == NULL || p->ids == NULL) return kf_fail_memory(err);
  const int64_t *evidence = kf_model_evidence(model, p->part);
  bool fits = true;
  for (uint32_t k = 0; k < model->n_classes; k++) {
    if (evidence[k] == 0 || (mask != NULL && !mask[k])) continue;
    fits &= take_class(p, k, p->rows + (uint64_t)p->n * p->dim);
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

/* The part that classifies: never KF_PART_DEFAULT. */
static kf_status choose_part(const kf_model *model, kf_metric metric, bool raw, kf_part *part,
                             kf_err *err) {
  if ((unsigned)*part > KF_PART_FUSED)
    return kf_fail(err, KF_ERR_ARG, "part %d is none of its choices", (int)*part);
  if (raw) *part = KF_PART_IMAGES;
  if (*part == KF_PART_DEFAULT) *part = model->text != NULL ? KF_PART_FUSED : KF_PART_IMAGES;
  if (*part == KF_PART_IMAGES) return KF_OK;
  if (model->text == NULL) return kf_fail(err, KF_ERR_ARG, "the model knows no text");
  if (metric == KF_METRIC_EUCLIDEAN)
    return kf_fail(err, KF_ERR_ARG, "text is compared by cosine, not by Euclidean distance");
  return KF_OK;
}

static uint32_t dim_of(const kf_model *model, kf_part part, bool raw) {
  if (part == KF_PART_FUSED) return model->dim_in + model->dim_out;
  return raw || part == KF_PART_TEXT ? model->dim_in : model->dim_out;
}

kf_status kf_prototypes_new(kf_ctx *ctx, const kf_model *model, kf_metric metric, bool raw,
                            kf_part part, const unsigned char *mask, kf_prototypes **out) {
  kf_status status = KF_OK;
  if ((unsigned)metric > KF_METRIC_EUCLIDEAN) status = kf_fail_metric(metric, &ctx->err);
  if (status == KF_OK) status = choose_part(model, metric, raw, &part, &ctx->err);
  if (status != KF_OK) return status;
  kf_prototypes *p = kf_alloc_zero(1, sizeof *p);
  if (p == NULL) return kf_fail_memory(&ctx->err);
  p->model = model;
  p->kernels = ctx->kernels;
  p->metric = kf_metric_for(metric, model->normalized);
  p->raw = raw;
  p->part = part;
  p->dim = dim_of(model, part, raw);
  status = collect(p, mask, &ctx->err);
  if (status == KF_OK && p->n == 0)
    status = kf_fail(&ctx->err, KF_ERR_DATA, "no class of the model takes part");
  kf_source source = {.rows = p->n, .dim = p->dim, .fetch = fetch_prototypes, .self = p};
  kf_metric metric_of_rows = part == KF_PART_FUSED ? KF_METRIC_INNER : p->metric;
  if (status == KF_OK) status = kf_index_build(ctx, &source, metric_of_rows, false, &p->index);
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

/* [x, alpha z]: a row of unit length, and behind it the mapped one at length alpha. */
static kf_status to_both(const kf_prototypes *p, const float *rows, const double *norm2, uint64_t n,
                         float *out, kf_err *err) {
  const kf_model *m = p->model;
  uint64_t d = m->dim_in, l = m->dim_out;
  float *mapped = kf_alloc(n * l, sizeof *mapped), alpha = (float)m->alpha;
  if (mapped == NULL) return kf_fail_memory(err);
  kf_status status = kf_map_rows(m, p->kernels, rows, norm2, n, true, mapped, err);
  for (uint64_t i = 0; status == KF_OK && i < n; i++) {
    kf_unit_f32(rows + i * d, norm2[i], m->dim_in, out + i * p->dim);
    for (uint64_t k = 0; k < l; k++) out[i * p->dim + d + k] = alpha * mapped[i * l + k];
  }
  kf_free(mapped);
  return status;
}

/* Queries as the metric wants them in the space of the prototypes. */
static kf_status to_space(const kf_prototypes *p, const float *rows, const double *norm2,
                          uint64_t n, float *out, kf_err *err) {
  bool unit = p->metric == KF_METRIC_COSINE;
  if (p->part == KF_PART_FUSED) return to_both(p, rows, norm2, n, out, err);
  if (!p->raw && p->part == KF_PART_IMAGES)
    return kf_map_rows(p->model, p->kernels, rows, norm2, n, unit, out, err);
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
  for (uint64_t i = 0; status == KF_OK && found != NULL && i < n * top; i++)
    classes[i] = p->ids[found[i]];
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
  kf_prototypes *p = NULL;
  KF_TRY(kf_prototypes_new(ctx, model, o.metric, o.raw != 0, o.part, NULL, &p));
  kf_data *data = NULL;
  uint32_t top = o.top > 0 ? o.top : 1;
  kf_status status = KF_OK;
  if (p != NULL && top > p->n)
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
