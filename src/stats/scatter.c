/* scatter.c - computes the scatter matrices in f64 from exact moments.
 *
 * With s_k, n_k the sum and count of class k, s and N those of all rows, M the second moments:
 *
 *     S_w = M - sum_k s_k s_k^T / n_k         S_b = sum_k s_k s_k^T / n_k - s s^T / N
 *
 * Both are small differences of large numbers: rows of a class are similar, and CLIP embeddings
 * have a large common mean. So the large terms are subtracted as integers. With g_k = round(s_k /
 * n_k) and the remainder r_k = s_k - n_k g_k, |r_k| <= n_k / 2,
 *
 *     s_k s_k^T / n_k = n_k g_k g_k^T + (h_k r_k^T + r_k h_k^T),     h_k = g_k + r_k / (2 n_k)
 *
 * The first term is an integer matrix and the second is small: A = sum_k n_k g_k g_k^T is computed
 * exactly, F = sum_k h_k r_k^T in f64. With E = F + F^T, and g and r defined likewise for all rows,
 *
 *     S_w = (M - A) - E         S_b = (A - N g g^T - g r^T - r g^T) + E - r r^T / N
 *
 * where the brackets are exact. If all rows of each class are equal, r_k = 0 and M = A, so S_w is
 * zero and not rounding noise.
 *
 * A comes from the kernel for second moments, whose rows have no weights. So every class takes part
 * once for each bit of n_k, and the sum of bit b is added 2^b times. */
#include "stats/stats.h"

#include <math.h>
#include <string.h>

#define CLASS_BLOCK ((uint64_t)192)
#define TILE        8u /* rows and columns finished together; a cache line */

typedef struct scatter {
  kf_ctx *ctx;
  kf_arena arena;
  const kf_stats *stats;
  int32_t *class_mean; /* [K][dim] g_k */
  bool *inexact;       /* [K] r_k is not zero */
  kf_i128 *a;          /* triangle of A */
  int64_t *g, *r;      /* [dim] of all rows */
  uint32_t *chosen; /* [n_chosen] classes of one sum, which count `weight` times; memory for [K] */
  size_t n_chosen;
  int64_t weight;
  size_t block;
  int32_t *rows; /* [workers][block][dim] */
  kf_moments *moments;
  /* F, class block by class block. */
  double *h, *rest; /* [CLASS_BLOCK][dim] h_k, r_k */
  size_t depth;
  size_t share; /* rows of f in a task */
  double *f;    /* [dim][dim] */
  double *s_w, *s_b;
} scatter;

/* Rounds a / n to the nearest integer, n > 0, ties up. inverse: 1 / n in f64, with which the
 * quotient, at most 2^22, is off by at most one. Integer division is several times slower. */
static int64_t divide_rounded(int64_t a, int64_t n, double inverse) {
  int64_t q = (int64_t)((double)a * inverse), twice = 2 * (a - n * q);
  return q + (twice >= n) - (twice < -n);
}

kf_status kf_check_filled(const kf_stats *s, kf_err *err) {
  if (s->rows > 0) return KF_OK;
  return kf_fail_with(err, KF_ERR_MATH, KF_HINT_NONE, s->from, "the statistics hold no rows");
}

/* --- means ------------------------------------------------------------------------------------ */

static kf_status round_class(void *argument, size_t k, size_t worker, kf_err *err) {
  (void)worker;
  (void)err;
  const scatter *t = argument;
  const kf_stats *s = t->stats;
  uint64_t at = (uint64_t)k * s->dim;
  int64_t rest = 0;
  double inverse = s->counts[k] > 0 ? 1 / (double)s->counts[k] : 0;
  if (s->counts[k] == 0) memset(t->class_mean + at, 0, s->dim * sizeof *t->class_mean);
  for (uint32_t i = 0; s->counts[k] > 0 && i < s->dim; i++) {
    int64_t mean = divide_rounded(s->sums[at + i], s->counts[k], inverse);
    t->class_mean[at + i] = (int32_t)mean;
    rest |= s->sums[at + i] - s->counts[k] * mean;
  }
  t->inexact[k] = rest != 0;
  return KF_OK;
}

static void round_mean(const scatter *t, double *mean) {
  const kf_stats *s = t->stats;
  int64_t n = (int64_t)s->rows;
  double unit = ldexp(1.0, -s->exponent);
  for (uint32_t k = 0; k < s->n_classes; k++)
    for (uint32_t i = 0; i < s->dim; i++) t->r[i] += s->sums[(uint64_t)k * s->dim + i];
  for (uint32_t i = 0; i < s->dim; i++) {
    if (mean != NULL) mean[i] = (double)t->r[i] / (double)n * unit;
    t->g[i] = divide_rounded(t->r[i], n, 1 / (double)n);
    t->r[i] -= n * t->g[i];
  }
}

/* --- A ---------------------------------------------------------------------------------------- */

static kf_status add_class_means(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)err;
  const scatter *t = argument;
  uint32_t dim = t->stats->dim;
  size_t first = i * t->block;
  size_t n = t->n_chosen - first < t->block ? t->n_chosen - first : t->block;
  int32_t *rows = t->rows + worker * t->block * dim;
  for (size_t r = 0; r < n; r++)
    memcpy(rows + r * dim, t->class_mean + (uint64_t)t->chosen[first + r] * dim,
           dim * sizeof *rows);
  kf_moments_add(t->moments, worker, rows, n, t->weight);
  return KF_OK;
}

static kf_status sum_chosen(scatter *t, int64_t weight) {
  size_t blocks = (t->n_chosen + t->block - 1) / t->block;
  t->weight = weight;
  KF_TRY(kf_parallel_limited(t->ctx, kf_moments_workers(t->moments), blocks, add_class_means, t));
  t->n_chosen = 0;
  return kf_moments_flush(t->moments, weight);
}

static kf_status sum_class_means(scatter *t) {
  const kf_stats *s = t->stats;
  int64_t all_bits = 0;
  for (uint32_t k = 0; k < s->n_classes; k++) all_bits |= s->counts[k];
  for (unsigned bit = 0; all_bits >> bit != 0; bit++) {
    for (uint32_t k = 0; k < s->n_classes; k++)
      if (s->counts[k] >> bit & 1) t->chosen[t->n_chosen++] = k;
    KF_TRY(sum_chosen(t, (int64_t)1 << bit));
  }
  return KF_OK;
}

/* --- F ---------------------------------------------------------------------------------------- */

/* Rows of f += h^T r; sets them to zero first for the first block. */
static kf_status multiply_rows(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)worker;
  (void)err;
  const scatter *t = argument;
  size_t dim = t->stats->dim, first = i * t->share;
  size_t n = dim - first < t->share ? dim - first : t->share;
  double *f = t->f + first * dim;
  if (t->n_chosen == 0) memset(f, 0, n * dim * sizeof *f);
  t->ctx->kernels->gemm_tn(t->h + first, dim, t->rest, dim, f, dim, n, dim, t->depth);
  return KF_OK;
}

/* Sets h and r of class `at` of the block. */
static kf_status fill_class(void *argument, size_t at, size_t worker, kf_err *err) {
  (void)worker;
  (void)err;
  const scatter *t = argument;
  const kf_stats *s = t->stats;
  uint64_t k = t->chosen[t->n_chosen + at], from = k * s->dim, to = at * s->dim;
  int64_t n = s->counts[k];
  double half_inverse = 0.5 / (double)n;
  for (uint32_t i = 0; i < s->dim; i++) {
    int64_t mean = t->class_mean[from + i], rest = s->sums[from + i] - n * mean;
    t->h[to + i] = (double)mean + (double)rest * half_inverse;
    t->rest[to + i] = (double)rest;
  }
  return KF_OK;
}

static kf_status sum_remainders(scatter *t) {
  const kf_stats *s = t->stats;
  t->share = kf_task_rows(t->ctx, s->dim);
  size_t n = 0, blocks = (s->dim + t->share - 1) / t->share;
  for (uint32_t k = 0; k < s->n_classes; k++)
    if (t->inexact[k]) t->chosen[n++] = k;
  t->n_chosen = 0;
  do {
    t->depth = n - t->n_chosen < CLASS_BLOCK ? n - t->n_chosen : CLASS_BLOCK;
    KF_TRY(kf_parallel(t->ctx, t->depth, fill_class, t));
    KF_TRY(kf_parallel(t->ctx, blocks, multiply_rows, t));
    t->n_chosen += t->depth;
  } while (t->n_chosen < n);
  return KF_OK;
}

/* --- together --------------------------------------------------------------------------------- */

/* Rounds to nearest. Most integers here fit 64 bits, whose conversion is one instruction. */
static double to_double(kf_i128 x) {
  int64_t low = (int64_t)x;
  return low == x ? (double)low : (double)x;
}

/* Sets elements i, j and j, i of the two matrices, in real units. */
static void finish_element(const scatter *t, uint64_t i, uint64_t j, double unit) {
  const kf_stats *s = t->stats;
  uint64_t dim = s->dim, at = kf_triangle_at(s->dim, (uint32_t)i, (uint32_t)j);
  double e = t->f[i * dim + j] + t->f[j * dim + i];
  if (t->s_w != NULL)
    t->s_w[i * dim + j] = t->s_w[j * dim + i] = (to_double(s->moments[at] - t->a[at]) - e) * unit;
  if (t->s_b != NULL) {
    int64_t sum = (int64_t)s->rows * t->g[i] + t->r[i];
    kf_i128 of_all = (kf_i128)sum * t->g[j] + (kf_i128)t->g[i] * t->r[j];
    double rest = (double)t->r[i] * (double)t->r[j] / (double)s->rows;
    t->s_b[i * dim + j] = t->s_b[j * dim + i] = (to_double(t->a[at] - of_all) + (e - rest)) * unit;
  }
}

/* Sets rows from the diagonal on, and the columns that mirror them. */
static kf_status finish_rows(void *argument, size_t block, size_t worker, kf_err *err) {
  (void)worker;
  (void)err;
  const scatter *t = argument;
  uint64_t dim = t->stats->dim, first = block * (uint64_t)TILE;
  uint64_t end = first + TILE < dim ? first + TILE : dim;
  double unit = ldexp(1.0, -2 * t->stats->exponent);
  for (uint64_t column = first; column < dim; column += TILE)
    for (uint64_t i = first; i < end; i++)
      for (uint64_t j = column > i ? column : i; j < dim && j < column + TILE; j++)
        finish_element(t, i, j, unit);
  return KF_OK;
}

static kf_status allocate(scatter *t) {
  const kf_stats *s = t->stats;
  uint64_t dim = s->dim, k = s->n_classes;
  t->block = 4 * KF_MOMENT_ROWS;
  KF_TAKE(&t->arena, t->class_mean, k * dim);
  KF_TAKE_ZERO(&t->arena, t->a, kf_triangle(s->dim));
  if (t->arena.failed) return kf_fail_memory(&t->ctx->err);
  KF_TRY(kf_moments_new(t->ctx, s->dim, (k + t->block - 1) / t->block, t->a, &t->moments));
  KF_TAKE(&t->arena, t->g, dim);
  KF_TAKE_ZERO(&t->arena, t->r, dim);
  KF_TAKE(&t->arena, t->chosen, k);
  KF_TAKE(&t->arena, t->inexact, k);
  KF_TAKE(&t->arena, t->h, CLASS_BLOCK * dim);
  KF_TAKE(&t->arena, t->rest, CLASS_BLOCK * dim);
  KF_TAKE(&t->arena, t->f, dim * dim);
  KF_TAKE(&t->arena, t->rows, kf_moments_workers(t->moments) * t->block * dim);
  return t->arena.failed ? kf_fail_memory(&t->ctx->err) : KF_OK;
}

static kf_status compute(scatter *t, double *mean) {
  KF_TRY(allocate(t));
  round_mean(t, mean);
  if (t->s_w == NULL && t->s_b == NULL) return KF_OK;
  KF_TRY(kf_parallel(t->ctx, t->stats->n_classes, round_class, t));
  KF_TRY(sum_class_means(t));
  KF_TRY(sum_remainders(t));
  return kf_parallel(t->ctx, (t->stats->dim + TILE - 1) / TILE, finish_rows, t);
}

kf_status kf_scatter(kf_ctx *ctx, const kf_stats *stats, double *s_w, double *s_b, double *mean) {
  KF_TRY(kf_check_filled(stats, &ctx->err));
  scatter t = {.ctx = ctx, .stats = stats, .s_w = s_w, .s_b = s_b};
  kf_status status = compute(&t, mean);
  kf_arena_free(&t.arena);
  kf_moments_free(t.moments);
  return status;
}

kf_status kf_stats_scatter(kf_ctx *ctx, const kf_stats *stats, double *s_w, double *s_b,
                           double *mean) {
  KF_ENTER(ctx, stats != NULL);
  return kf_scatter(ctx, stats, s_w, s_b, mean);
}

kf_status kf_measure_within(kf_ctx *ctx, const kf_stats *stats, double *trace, double *norm2) {
  uint64_t dim = stats->dim;
  double *s_w = kf_alloc(dim * dim, sizeof *s_w);
  if (s_w == NULL) return kf_fail_memory(&ctx->err);
  kf_status status = kf_scatter(ctx, stats, s_w, NULL, NULL);
  *trace = 0;
  for (uint64_t i = 0; status == KF_OK && i < dim; i++) *trace += s_w[i * dim + i];
  if (status == KF_OK && norm2 != NULL) *norm2 = ctx->kernels->dot(dim * dim, s_w, s_w);
  kf_free(s_w);
  return status;
}
