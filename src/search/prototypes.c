/* prototypes.c - nearest prototype classification.
 *
 * Prototypes are the rows of an index. A query is mapped and rounded to f32 once, and its nearest
 * prototypes are found like nearest rows, by canonical sums of f32 rows, so the answer does not
 * depend on how the work is divided. Priors are one more column: for squared distances, queries
 * have 0 there and a prototype the root of what its prior adds; for cosines, queries have 1 and a
 * prototype minus what its prior subtracts. Classes are in the order of their numbers, so ties go
 * to the lower one. */
#include "search/device_sums.h"
#include "search/index.h"

#include <math.h>
#include <string.h>

/* Rows at a time for devices. Searches take turns on a device, so they need a minimum. */
#define DEVICE_ROWS     2048u
#define MIN_SEARCH_ROWS 1024u

/* --- the prototypes -------------------------------------------------------------------------- */

/* Class k at the length of its mapped mean; false if f32 cannot hold it. */
static bool full_length(const kf_prototypes *p, uint64_t k, float *out) {
  const kf_model *m = p->model;
  uint32_t l = m->map.dim_out;
  double length = m->lengths[k];
  for (uint32_t i = 0; i < l; i++) out[i] = (float)((double)m->prototypes[k * l + i] * length);
  if (p->prior) out[l] = kf_prior_column(m->prior, p->largest, m->counts[k]);
  double norm2 = p->kernels->norm2(out, p->dim);
  return length == 0 || (norm2 > 0 && isfinite(norm2));
}

/* The model's own rows for all classes, if the prototypes are exactly these; NULL: they are not. */
static const float *rows_of_model(const kf_prototypes *p) {
  const kf_model *m = p->model;
  if (p->part == KF_PART_TEXT) return m->text;
  if (p->part == KF_PART_FUSED || p->prior) return NULL;
  if (p->raw) return p->metric == KF_METRIC_COSINE ? NULL : m->class_means;
  return p->metric == KF_METRIC_COSINE ? m->prototypes : NULL;
}

/* The prototype of class k; false if f32 cannot hold it. */
static bool take_class(const kf_prototypes *p, uint64_t k, float *to) {
  const kf_model *m = p->model;
  const float *own = rows_of_model(p);
  uint64_t d = m->map.dim_in, l = m->map.dim_out;
  if (own != NULL) {
    memcpy(to, own + k * p->dim, p->dim * sizeof *to);
  } else if (p->part == KF_PART_FUSED) {
    memcpy(to, m->text + k * d, d * sizeof *to);
    memcpy(to + d, m->fused + k * l, l * sizeof *to);
  } else if (p->raw) {
    const float *mean = m->class_means + k * d;
    kf_unit_f32(mean, p->kernels->norm2(mean, p->dim), p->dim, to);
  } else if (p->metric == KF_METRIC_COSINE) {
    memcpy(to, m->prototypes + k * l, l * sizeof *to);
    to[l] = -(float)kf_prior2(m->prior, p->largest, (double)m->counts[k]);
  } else {
    return full_length(p, k, to);
  }
  return true;
}

/* The numbers of the classes that take part. */
static kf_status choose_classes(kf_prototypes *p, const unsigned char *mask, kf_err *err) {
  const int64_t *evidence = kf_model_evidence(p->model, p->part);
  for (uint32_t k = 0; k < p->model->n_classes; k++)
    if (evidence[k] != 0 && (mask == NULL || mask[k])) p->ids[p->n++] = (int32_t)k;
  return p->n > 0 ? KF_OK : kf_fail(err, KF_ERR_DATA, "no class of the model takes part");
}

static kf_status fetch_prototypes(const void *self, const kf_kernels *kernels, uint64_t first,
                                  uint64_t n, float *rows, kf_err *err) {
  (void)kernels;
  const kf_prototypes *p = self;
  for (uint64_t i = 0; i < n; i++)
    if (!take_class(p, (uint64_t)p->ids[first + i], rows + i * p->dim))
      return kf_fail_range(&p->model->map, err);
  return KF_OK;
}

/* Resolves KF_PART_DEFAULT and checks the part. */
static kf_status choose_part(const kf_model *model, kf_metric metric, bool raw, kf_part *part,
                             kf_err *err) {
  if ((unsigned)*part > KF_PART_FUSED)
    return kf_fail(err, KF_ERR_ARG, "invalid part %d", (int)*part);
  if (raw) *part = KF_PART_IMAGES;
  if (*part == KF_PART_DEFAULT) *part = model->text != NULL ? KF_PART_FUSED : KF_PART_IMAGES;
  if (*part == KF_PART_IMAGES) return KF_OK;
  if (model->text == NULL) return kf_fail(err, KF_ERR_ARG, "the model has no text");
  if (metric == KF_METRIC_EUCLIDEAN)
    return kf_fail(err, KF_ERR_ARG, "text is compared by cosine, not by Euclidean distance");
  return KF_OK;
}

static uint32_t dim_of(const kf_prototypes *p) {
  const kf_map *map = &p->model->map;
  if (p->part == KF_PART_FUSED) return map->dim_in + map->dim_out;
  return p->raw || p->part == KF_PART_TEXT ? map->dim_in : map->dim_out + (p->prior ? 1 : 0);
}

kf_status kf_prototypes_new(kf_ctx *ctx, const kf_model *model, kf_metric metric, bool raw,
                            kf_part part, const unsigned char *mask, kf_prototypes **out) {
  kf_err *err = &ctx->err;
  if ((unsigned)metric > KF_METRIC_EUCLIDEAN) return kf_fail_metric(metric, err);
  KF_TRY(choose_part(model, metric, raw, &part, err));
  kf_prototypes *p = kf_alloc_zero(1, sizeof *p);
  if (p == NULL) return kf_fail_memory(err);
  p->model = model;
  p->kernels = ctx->kernels;
  p->metric = kf_metric_for(metric, model->map.normalized);
  p->raw = raw;
  p->part = part;
  p->largest = kf_largest_count(model->counts, model->n_classes);
  p->prior = model->prior > 0 && !raw && part == KF_PART_IMAGES &&
             p->metric == kf_metric_for(KF_METRIC_DEFAULT, model->map.normalized);
  p->dim = dim_of(p);
  KF_TAKE(&p->arena, p->ids, model->n_classes);
  KF_TAKE(&p->arena, p->devices, 1);
  if (p->devices != NULL) kf_prototypes_devices_make(p->devices);
  kf_status status = p->arena.failed ? kf_fail_memory(err) : choose_classes(p, mask, err);
  kf_source source = {.rows = p->n,
                      .dim = p->dim,
                      .fetch = fetch_prototypes,
                      .self = p,
                      .resident = p->n == model->n_classes ? rows_of_model(p) : NULL,
                      .canonical = true}; /* as probabilities see them */
  /* Prototypes and queries are unit rows for cosine: their dot products are the scores. */
  bool distances = p->metric == KF_METRIC_EUCLIDEAN && part != KF_PART_FUSED;
  kf_metric metric_of_rows = distances ? KF_METRIC_EUCLIDEAN : KF_METRIC_INNER;
  if (status == KF_OK) status = kf_index_build(ctx, &source, metric_of_rows, false, &p->index);
  KF_HAND_OUT(status, out, p, kf_prototypes_free);
}

void kf_prototypes_free(kf_prototypes *p) {
  if (p == NULL) return;
  kf_index_free(p->index);
  if (p->devices != NULL) kf_prototypes_devices_clear(p->devices);
  kf_arena_free(&p->arena);
  kf_free(p);
}

/* --- the search ------------------------------------------------------------------------------ */

/* Whether queries are mapped, or have a part that is. */
static bool maps(const kf_prototypes *p) { return !p->raw && p->part != KF_PART_TEXT; }

kf_status kf_prototypes_begin(kf_ctx *ctx, const kf_prototypes *p, const kf_prototypes_plan *plan,
                              kf_prototypes_use *use) {
  bool unit = p->metric == KF_METRIC_COSINE || p->part == KF_PART_FUSED;
  *use = (kf_prototypes_use){.p = p, .temperature = plan->temperature, .squares = plan->squares};
  uint64_t each =
      plan->rows / ctx->threads < DEVICE_ROWS ? plan->rows / ctx->threads + 1 : DEVICE_ROWS;
  uint64_t searched = each > MIN_SEARCH_ROWS ? each : MIN_SEARCH_ROWS;
  KF_TRY(kf_mapping_begin(ctx, maps(p) ? &p->model->map : NULL, unit, &p->devices->map, plan->rows,
                          &use->mapping));
  kf_status status = KF_OK;
  if (plan->top > 0)
    status = kf_nearest_begin(ctx, p->index, plan->rows, searched, plan->top, &use->search);
  if (status == KF_OK) status = kf_sums_begin(ctx, use, plan->rows);
  if (status != KF_OK) return kf_prototypes_end(ctx, use, status);
  bool devices =
      use->mapping.use.slots != NULL || use->search.devices != NULL || use->sums.slots != NULL;
  use->batch = use->search.devices != NULL ? searched : devices ? each : 0;
  return KF_OK;
}

kf_status kf_prototypes_end(kf_ctx *ctx, kf_prototypes_use *use, kf_status status) {
  status = kf_mapping_end(ctx, &use->mapping, status);
  status = kf_nearest_end(ctx, &use->search, status);
  return kf_slots_end(ctx, &use->sums, status);
}

/* [x, alpha z]: the row at unit length, followed by the mapped row at length alpha. */
static kf_status to_both(const kf_prototypes_use *use, const float *rows, const double *norm2,
                         uint64_t n, float *out, kf_err *err) {
  const kf_prototypes *p = use->p;
  const kf_model *m = p->model;
  uint64_t d = m->map.dim_in, l = m->map.dim_out;
  float *mapped = kf_alloc(n * l, sizeof *mapped), alpha = (float)m->alpha;
  if (mapped == NULL) return kf_fail_memory(err);
  kf_status status = kf_mapping_rows(&use->mapping, rows, norm2, n, mapped, err);
  for (uint64_t i = 0; status == KF_OK && i < n; i++) {
    kf_unit_f32(rows + i * d, norm2[i], m->map.dim_in, out + i * p->dim);
    for (uint64_t k = 0; k < l; k++) out[i * p->dim + d + k] = alpha * mapped[i * l + k];
  }
  kf_free(mapped);
  return status;
}

/* Mapped rows with a last column for priors. */
static kf_status to_longer(const kf_prototypes_use *use, const float *rows, const double *norm2,
                           uint64_t n, float *out, kf_err *err) {
  const kf_prototypes *p = use->p;
  uint64_t l = p->model->map.dim_out;
  KF_TRY(kf_mapping_rows(&use->mapping, rows, norm2, n, out, err));
  for (uint64_t i = n; i-- > 0;) {
    memmove(out + i * p->dim, out + i * l, l * sizeof *out);
    out[i * p->dim + l] = p->metric == KF_METRIC_COSINE ? 1 : 0;
  }
  return KF_OK;
}

kf_status kf_prototypes_queries(const kf_prototypes_use *use, const float *rows,
                                const double *norm2, uint64_t n, float *out, kf_err *err) {
  const kf_prototypes *p = use->p;
  if (p->part == KF_PART_FUSED) return to_both(use, rows, norm2, n, out, err);
  if (p->prior) return to_longer(use, rows, norm2, n, out, err);
  if (maps(p)) return kf_mapping_rows(&use->mapping, rows, norm2, n, out, err);
  for (uint64_t i = 0; i < n; i++) {
    const float *x = rows + i * p->dim;
    if (p->metric == KF_METRIC_COSINE || p->model->map.normalized)
      kf_unit_f32(x, norm2[i], p->dim, out + i * p->dim);
    else
      memcpy(out + i * p->dim, x, p->dim * sizeof *x);
  }
  return KF_OK;
}

kf_status kf_prototypes_find(kf_prototypes_use *use, const float *queries, uint64_t n, uint32_t top,
                             int32_t *classes, double *scores, kf_err *err) {
  int64_t *found = kf_alloc(n * top, sizeof *found);
  if (found == NULL) return kf_fail_memory(err);
  kf_request r = {.queries = queries, .n = n, .k = top, .rows = found, .scores = scores};
  kf_status status = kf_nearest_in_pass(&use->search, &r, err);
  for (uint64_t i = 0; status == KF_OK && i < n * top; i++) classes[i] = use->p->ids[found[i]];
  kf_free(found);
  return status;
}

kf_status kf_prototypes_nearest(kf_prototypes_use *use, const float *rows, const double *norm2,
                                uint64_t n, uint32_t top, int32_t *classes, double *scores,
                                kf_err *err) {
  float *queries = kf_alloc(n * use->p->dim, sizeof *queries);
  if (queries == NULL) return kf_fail_memory(err);
  kf_status status = kf_prototypes_queries(use, rows, norm2, n, queries, err);
  if (status == KF_OK) status = kf_prototypes_find(use, queries, n, top, classes, scores, err);
  kf_free(queries);
  return status;
}
