/* shrinkage.c - lambda by Ledoit and Wolf's formula.
 *
 * With n rows, d_i = x_i - m_k their deviations from their class means, the covariance within
 * classes S = S_w / n and its mean eigenvalue m, they shrink S to (1 - r) S + r m I with the r that
 * is best on average,
 *
 *     r = min(b, a) / a,    a = |S - m I|^2,    b = (sum_i |d_i|^4 / n - |S|^2) / n
 *
 * (Frobenius norms). Up to a factor that is S_w + lambda I with lambda = n m r / (1 - r), or
 * r / (1 - r) times the mean eigenvalue of S_w. All but the fourth powers follows from the
 * statistics. These need a pass over the rows and are summed as integers, so that their order does
 * not matter. */
#include "choose/rows.h"

#include <math.h>

typedef struct lw_job {
  kf_ctx *ctx;
  const kf_stats *stats;
  const kf_data *data;
  double unit;     /* of the fourth powers */
  kf_i128 *powers; /* [threads] */
} lw_job;

typedef struct lw_workspace {
  double *x, *mean; /* [D] */
  int32_t *fixed;   /* [D] */
} lw_workspace;

static void make_workspace(const void *argument, void *workspace, kf_arena *arena) {
  uint32_t dim = ((const lw_job *)argument)->stats->dim;
  lw_workspace *s = workspace;
  KF_TAKE(arena, s->x, dim);
  KF_TAKE(arena, s->mean, dim);
  KF_TAKE(arena, s->fixed, dim);
}

static kf_status add_powers(void *argument, const kf_batch *b, kf_err *err) {
  const lw_job *j = argument;
  const kf_stats *s = j->stats;
  const kf_kernels *kernels = j->ctx->kernels;
  const lw_workspace *workspace = b->workspace;
  double *x = workspace->x, *mean = workspace->mean;
  for (uint64_t i = 0; i < b->n; i++) {
    if (b->labels[i] < 0) continue;
    KF_TRY(kf_row_seen(s, kernels, b->rows + i * s->dim, b->norm2[i], j->data, b->first + i,
                       workspace->fixed, x, err));
    kf_class_mean(s, (uint64_t)b->labels[i], mean);
    for (uint32_t k = 0; k < s->dim; k++) x[k] -= mean[k];
    double length2 = kernels->dot(s->dim, x, x);
    double power = length2 * length2 / j->unit;
    if (s->counts[b->labels[i]] == 0 || !(power < 0x1p122))
      return kf_fail(err, KF_ERR_ARG, "the statistics are not those of the data");
    j->powers[b->worker] += (kf_i128)power;
  }
  return KF_OK;
}

static kf_status find_lambda(lw_job *j, kf_lambda *out) {
  kf_ctx *ctx = j->ctx;
  double norm2 = 0, trace = 0, n = (double)j->stats->rows, dim = j->stats->dim;
  KF_TRY(kf_measure_within(ctx, j->stats, &trace, &norm2));
  if (!(trace > 0))
    return kf_fail_with(&ctx->err, KF_ERR_MATH, KF_HINT_NONE, j->stats->from,
                        "the scatter within classes is zero: there is nothing to shrink");
  /* The |d|^2 add up to the trace, so the integers add up to at most n^2 2^40, below 2^120. */
  j->unit = trace / n * (trace / n) * 0x1p-40;
  kf_pass pass = {.what = "shrinkage",
                  .shared = true,
                  .work = add_powers,
                  .argument = j,
                  .workspace_size = sizeof(lw_workspace),
                  .make_workspace = make_workspace};
  KF_TRY(kf_each_batch(ctx, j->data, &pass));
  kf_i128 powers = 0;
  for (unsigned t = 0; t < ctx->threads; t++) powers += j->powers[t];
  KF_TRY(kf_sum_i128(ctx, KF_OK, &powers, 1));
  double a = norm2 / (n * n) - trace * trace / (n * n * dim);
  double b = ((double)powers * j->unit / n - norm2 / (n * n)) / n;
  double r = a > 0 ? (b < a ? b / a : 1) : 1;
  if (r < 0) r = 0;
  /* If the best estimate is the identity, lambda would be infinite. */
  *out = (kf_lambda){r < 1 - 1e-6 ? r / (1 - r) : 1e6, KF_LAMBDA_RELATIVE};
  return KF_OK;
}

kf_status kf_lambda_ledoit_wolf(kf_ctx *ctx, const kf_stats *stats, const kf_data *data,
                                kf_lambda *out) {
  KF_ENTER(ctx, stats != NULL && data != NULL && out != NULL);
  KF_TRY(kf_check_statistics_of(stats, data, err));
  lw_job j = {.ctx = ctx, .stats = stats, .data = data};
  j.powers = kf_alloc_zero(ctx->threads, sizeof *j.powers);
  kf_status status = j.powers != NULL ? find_lambda(&j, out) : kf_fail_memory(err);
  kf_free(j.powers);
  return status;
}
