/* scatter.c - from exact moments to the scatter matrices in f64.
 *
 * With s_k, n_k the sum and count of class k, s and N those of all rows, M the second moments:
 *
 *     S_w = M - sum_k s_k s_k^T / n_k         S_b = sum_k s_k s_k^T / n_k - s s^T / N
 *
 * CLIP embeddings have a large common mean, so these differences cancel. The mean is therefore
 * taken out first, in integers: with g = round(s / N),
 *
 *     M'   = sum (X - g)(X - g)^T = M - g s^T - s g^T + N g g^T      (exact, 128 bits)
 *     s'_k = s_k - n_k g                                             (exact, 64 bits)
 *
 * and S_w = M' - B, S_b = B - s' s'^T / N with B = sum_k r_k r_k^T, r_k = s'_k / sqrt(n_k). Only
 * the last step is in f64, on quantities as small as the scatters themselves. B is symmetric to the
 * bit, since each product commutes and both triangles add in the same order. */
#include "stats/stats.h"

#include <math.h>
#include <string.h>

#define CLASS_BLOCK 256
#define ROW_BLOCK   64

typedef struct scatter {
  kf_ctx *ctx;
  const kf_stats *stats;
  int64_t *g;     /* [dim] rounded mean */
  int64_t *total; /* [dim] s */
  double *left;   /* [dim] s' / N */
  double *r;      /* [CLASS_BLOCK][dim] */
  size_t depth;   /* classes in r now */
  double *b;      /* [dim][dim] */
  double *s_w, *s_b;
} scatter;

/* Rounds a / n to the nearest integer, n > 0. */
static int64_t divide_rounded(int64_t a, int64_t n) {
  int64_t q = a / n, rest = a % n;
  if (2 * rest >= n) return q + 1;
  if (2 * rest < -n) return q - 1;
  return q;
}

static void centre(const scatter *t) {
  const kf_stats *s = t->stats;
  int64_t n = (int64_t)s->rows;
  for (uint32_t k = 0; k < s->n_classes; k++)
    for (uint32_t i = 0; i < s->dim; i++) t->total[i] += s->sums[(uint64_t)k * s->dim + i];
  for (uint32_t i = 0; i < s->dim; i++) {
    t->g[i] = divide_rounded(t->total[i], n);
    t->left[i] = (double)(t->total[i] - n * t->g[i]) / (double)n;
  }
}

/* Rows [64 i, 64 i + 64) of b += r^T r. */
static kf_status multiply_rows(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)worker;
  (void)err;
  const scatter *t = argument;
  size_t dim = t->stats->dim, first = i * ROW_BLOCK;
  size_t n = dim - first < ROW_BLOCK ? dim - first : ROW_BLOCK;
  t->ctx->kernels->gemm_tn(t->r + first, dim, t->r, dim, t->b + first * dim, dim, n, dim, t->depth);
  return KF_OK;
}

static kf_status add_class_block(scatter *t) {
  if (t->depth == 0) return KF_OK;
  size_t blocks = (t->stats->dim + ROW_BLOCK - 1) / ROW_BLOCK;
  KF_TRY(kf_parallel(t->ctx, blocks, multiply_rows, t));
  t->depth = 0;
  return KF_OK;
}

static kf_status between(scatter *t) {
  const kf_stats *s = t->stats;
  for (uint32_t k = 0; k < s->n_classes; k++) {
    int64_t n = s->counts[k];
    if (n == 0) continue;
    double root = sqrt((double)n), *r = t->r + t->depth * s->dim;
    const int64_t *sum = s->sums + (uint64_t)k * s->dim;
    for (uint32_t i = 0; i < s->dim; i++) r[i] = (double)(sum[i] - n * t->g[i]) / root;
    if (++t->depth == CLASS_BLOCK) KF_TRY(add_class_block(t));
  }
  return add_class_block(t);
}

/* Row i of the two matrices, in real units. */
static kf_status finish_row(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)worker;
  (void)err;
  const scatter *t = argument;
  const kf_stats *s = t->stats;
  uint32_t dim = s->dim;
  kf_i128 n = (kf_i128)s->rows, g_i = t->g[i], s_i = t->total[i];
  double unit = ldexp(1.0, -2 * s->exponent);
  for (uint32_t j = 0; j < dim; j++) {
    double b = t->b[i * dim + j];
    if (t->s_w != NULL) {
      uint64_t at =
          i <= j ? kf_triangle_at(dim, (uint32_t)i, j) : kf_triangle_at(dim, j, (uint32_t)i);
      kf_i128 moment = s->moments[at] - g_i * t->total[j] - s_i * t->g[j] + n * g_i * t->g[j];
      t->s_w[i * dim + j] = ((double)moment - b) * unit;
    }
    if (t->s_b != NULL)
      t->s_b[i * dim + j] = (b - (double)s->rows * t->left[i] * t->left[j]) * unit;
  }
  return KF_OK;
}

static kf_status compute(scatter *t, double *mean) {
  const kf_stats *s = t->stats;
  bool have = t->g && t->total && t->left && t->r && t->b;
  if (!have) return kf_fail_memory(&t->ctx->err);
  centre(t);
  double unit = ldexp(1.0, -s->exponent);
  for (uint32_t i = 0; mean != NULL && i < s->dim; i++)
    mean[i] = (double)t->total[i] / (double)s->rows * unit;
  if (t->s_w == NULL && t->s_b == NULL) return KF_OK;
  KF_TRY(between(t));
  return kf_parallel(t->ctx, s->dim, finish_row, t);
}

kf_status kf_stats_scatter(kf_ctx *ctx, const kf_stats *stats, double *s_w, double *s_b,
                           double *mean) {
  kf_err *err = kf_enter(ctx);
  if (stats->rows == 0) return kf_fail(err, KF_ERR_MATH, "the statistics hold no rows");
  uint64_t dim = stats->dim;
  scatter t = {.ctx = ctx, .stats = stats, .s_w = s_w, .s_b = s_b};
  t.g = kf_alloc(dim, sizeof *t.g);
  t.total = kf_alloc_zero(dim, sizeof *t.total);
  t.left = kf_alloc(dim, sizeof *t.left);
  t.r = kf_alloc(CLASS_BLOCK * dim, sizeof *t.r);
  t.b = kf_alloc_zero(dim * dim, sizeof *t.b);
  kf_status status = compute(&t, mean);
  kf_free(t.g);
  kf_free(t.total);
  kf_free(t.left);
  kf_free(t.r);
  kf_free(t.b);
  return status;
}
