/* head.c - reduces a model to what its answers are computed from: a map, prototypes and offsets in
 * f32.
 *
 * The bias -T mean is computed from T as rounded to f32. So T (x - mean) is equally accurate
 * whether a program subtracts the mean first or adds the bias last. */
#include "export/export.h"

#include <math.h>
#include <string.h>

kf_status kf_fail_single(kf_err *err) {
  return kf_fail(err, KF_ERR_MATH, "the model has numbers that are too large for f32");
}

static kf_status take_map(kf_head *h, kf_ctx *ctx) {
  const kf_map *map = &h->model->map;
  uint64_t d = map->dim_in, l = map->dim_out;
  KF_TAKE(&h->arena, h->transform, l * d);
  if (map->centre == KF_CENTRE_MEAN) {
    KF_TAKE(&h->arena, h->mean, d);
    KF_TAKE_ZERO(&h->arena, h->bias, l);
  }
  if (h->arena.failed) return kf_fail_memory(&ctx->err);
  bool fits = true;
  for (uint64_t i = 0; i < l * d; i++)
    fits &= isfinite(h->transform[i] = (float)map->transform[i]) != 0;
  if (!fits) return kf_fail_single(&ctx->err);
  for (uint64_t k = 0; h->mean != NULL && k < d; k++) h->mean[k] = (float)map->mean[k];
  for (uint64_t i = 0; h->mean != NULL && i < l; i++)
    for (uint64_t k = 0; k < d; k++) h->bias[i] -= (double)h->transform[i * d + k] * map->mean[k];
  return KF_OK;
}

kf_status kf_head_map(kf_head *h, kf_ctx *ctx, const kf_model *model) {
  *h = (kf_head){.model = model,
                 .dim_in = model->map.dim_in,
                 .dim_out = model->map.dim_out,
                 .unit_rows = model->map.normalized};
  return take_map(h, ctx);
}

/* What is added to the score of a class (larger is nearer): the only place where priors enter. They
 * are the last column of the prototypes, which in queries is 0 for distances and 1 for cosines. */
static double offset_of(const kf_prototypes *p, const float *row) {
  if (!p->prior) return 0;
  double column = (double)row[p->dim - 1];
  return p->metric == KF_METRIC_COSINE ? column : -0.5 * column * column;
}

static kf_status take_prototypes(kf_head *h, kf_ctx *ctx) {
  const kf_prototypes *p = h->prototypes;
  uint64_t from = p->dim, to = from - (p->prior ? 1 : 0);
  h->n = p->n;
  h->dim = (uint32_t)to;
  KF_TAKE(&h->arena, h->rows, p->n * from);
  KF_TAKE(&h->arena, h->offset, p->n);
  if (h->arena.failed) return kf_fail_memory(&ctx->err);
  kf_prototypes_copy(p, h->rows);
  bool any = false;
  for (uint64_t j = 0; j < p->n; j++) {
    any |= (h->offset[j] = offset_of(p, h->rows + j * from)) != 0;
    memmove(h->rows + j * to, h->rows + j * from, to * sizeof *h->rows);
  }
  if (!any) h->offset = NULL;
  return KF_OK;
}

kf_status kf_head_make(kf_head *h, kf_ctx *ctx, const kf_model *model, const kf_export_options *o) {
  KF_TRY(kf_head_map(h, ctx, model));
  h->unit_mapped = model->map.normalized && o->normalize != KF_OFF;
  KF_TRY(kf_prototypes_new(ctx, model, o->metric, o->raw != 0, o->part, NULL, &h->prototypes));
  h->distances = h->prototypes->metric == KF_METRIC_EUCLIDEAN;
  h->unit_query = !h->distances;
  h->own = kf_prototypes_own(h->prototypes);
  KF_TRY(take_prototypes(h, ctx));
  if (o->temperature != 0 || (model->temperature > 0 && h->own))
    return kf_prototypes_temperature(h->prototypes, o->temperature, &h->temperature, &ctx->err);
  kf_log(ctx, "no probabilities are written: the model has no temperature for these scores");
  return KF_OK;
}

void kf_head_clear(kf_head *h) {
  kf_prototypes_free(h->prototypes);
  kf_arena_free(&h->arena);
  h->prototypes = NULL;
}

const char *kf_head_name(const kf_head *h, uint32_t j, char number[16]) {
  int32_t k = h->prototypes->ids[j];
  const char *name = kf_model_class_name(h->model, (uint32_t)k);
  if (name != NULL) return name;
  snprintf(number, 16, "%d", (int)k);
  return number;
}
