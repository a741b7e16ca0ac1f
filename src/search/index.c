/* index.c - rows made ready for searching. */
#include "search/search.h"

#include <math.h>
#include <string.h>

struct kf_index {
  kf_source source;
  kf_metric metric;
  float *rows;
};

kf_status kf_index_build(kf_ctx *ctx, const kf_source *source, kf_metric metric, bool in_place,
                         kf_index **out) {
  (void)in_place;
  kf_index *x = kf_alloc_zero(1, sizeof *x);
  if (x == NULL) {
    kf_free(source->owned);
    return kf_fail_memory(&ctx->err);
  }
  x->source = *source;
  x->metric = metric;
  x->rows = kf_alloc(source->rows * source->dim, sizeof(float));
  if (x->rows == NULL) {
    kf_index_free(x);
    return kf_fail_memory(&ctx->err);
  }
  kf_status status = source->fetch(source->self, ctx->kernels, 0, source->rows, x->rows, &ctx->err);
  if (status != KF_OK) {
    kf_index_free(x);
    return status;
  }
  *out = x;
  return KF_OK;
}

void kf_index_free(kf_index *index) {
  if (index == NULL) return;
  kf_free(index->rows);
  kf_free(index->source.owned);
  kf_free(index);
}

uint64_t kf_index_rows(const kf_index *index) { return index->source.rows; }
uint32_t kf_index_dim(const kf_index *index) { return index->source.dim; }
kf_metric kf_index_metric(const kf_index *index) { return index->metric; }
uint64_t kf_index_bytes(const kf_index *index) { return index->source.rows * index->source.dim * 4; }

kf_status kf_index_nearest(const kf_index *index, const kf_kernels *kernels, const float *queries,
                           uint64_t n, uint32_t k, const int64_t *leave_out, int64_t *rows,
                           double *scores, uint64_t *candidates, kf_err *err) {
  uint64_t N = index->source.rows;
  uint32_t dim = index->source.dim;
  bool euclid = index->metric == KF_METRIC_EUCLIDEAN;
  double *value = kf_alloc(N, sizeof *value);
  if (value == NULL) return kf_fail_memory(err);
  for (uint64_t q = 0; q < n; q++) {
    (euclid ? kernels->distances : kernels->dots)(queries + q * dim, index->rows, dim, N, dim, value);
    int64_t *best = rows + q * k;
    uint32_t held = 0;
    for (uint64_t i = 0; i < N; i++) {
      if (leave_out != NULL && leave_out[q] == (int64_t)i) continue;
      if (!euclid) value[i] = -value[i];
      if (held == k && !(value[i] < value[best[k - 1]])) continue;
      uint32_t at = held < k ? held++ : k - 1;
      for (; at > 0 && value[i] < value[best[at - 1]]; at--) best[at] = best[at - 1];
      best[at] = (int64_t)i;
    }
    for (uint32_t t = 0; scores != NULL && t < k; t++)
      scores[q * k + t] = euclid ? sqrt(value[best[t]]) : -value[best[t]];
  }
  if (candidates != NULL) *candidates += n * N;
  kf_free(value);
  return KF_OK;
}

kf_status kf_index_nearest_parallel(kf_ctx *ctx, const kf_index *index, const float *queries,
                                    uint64_t n, uint32_t k, const int64_t *leave_out, int64_t *rows,
                                    double *scores, uint64_t *candidates) {
  return kf_index_nearest(index, ctx->kernels, queries, n, k, leave_out, rows, scores, candidates,
                          &ctx->err);
}
