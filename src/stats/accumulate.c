/* accumulate.c - adds rows to exact statistics.
 *
 * A row x becomes integers X = round(x * scale), with scale = 2^22 / |x| (2^exponent for raw rows),
 * and from there on everything is integer addition:
 *
 *     counts[k] += 1,   sums[k] += X,   moments += X X^T
 *
 * so the order of rows, the number of threads and the split into files do not matter.
 *
 * A worker quantises a small batch of rows and passes it to its moments. Class sums are shared,
 * since one copy may be 134 MB (21,841 classes, D = 768); each addition is guarded by one of a few
 * locks, chosen by the class.
 *
 * Each rank adds its share of the rows, and the totals of all ranks are added up. */
#include "stats/stats.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#define N_LOCKS 64

typedef struct job {
  kf_ctx *ctx;
  kf_stats *stats;
  const kf_data *data;
  const int32_t *labels; /* instead of the data set's, or NULL */
  kf_range range;        /* of rows, on this rank only; last 0: all rows, shared among ranks */
  uint64_t batch;        /* rows */
  kf_moments *moments;
  pthread_mutex_t class_locks[N_LOCKS];
} job;

double kf_fixed_scale(bool normalized, int exponent, double norm2) {
  return normalized ? (double)KF_FIXED_ONE / sqrt(norm2) : ldexp(1.0, exponent);
}

kf_status kf_check_magnitude(const float *x, uint32_t dim, int exponent, const kf_data *data,
                             uint64_t row, kf_err *err) {
  float largest = 0;
  for (uint32_t i = 0; i < dim; i++) largest = fmaxf(largest, fabsf(x[i]));
  double limit = ldexp((double)KF_FIXED_ONE, -exponent);
  if ((double)largest <= limit) return KF_OK;
  return kf_fail_row(err, data, row, KF_HINT_NONE,
                     "has the magnitude %g, above %g, the limit with exponent %d", (double)largest,
                     limit, exponent);
}

kf_status kf_row_seen(const kf_stats *s, const kf_kernels *kernels, const float *row, double norm2,
                      const kf_data *data, uint64_t number, int32_t *fixed, double *x,
                      kf_err *err) {
  double unit = ldexp(1.0, -s->exponent);
  if (!s->normalized) KF_TRY(kf_check_magnitude(row, s->dim, s->exponent, data, number, err));
  kernels->quantize(row, s->dim, kf_fixed_scale(s->normalized, s->exponent, norm2), fixed);
  for (uint32_t i = 0; i < s->dim; i++) x[i] = fixed[i] * unit;
  return KF_OK;
}

void kf_class_mean(const kf_stats *s, uint64_t k, double *mean) {
  double unit = ldexp(1.0, -s->exponent);
  const int64_t *sum = s->sums + k * s->dim;
  for (uint32_t i = 0; i < s->dim; i++)
    mean[i] = s->counts[k] > 0 ? (double)sum[i] / (double)s->counts[k] * unit : 0.0;
}

static void add_to_class(job *j, int32_t label, const int32_t *x) {
  uint32_t dim = j->stats->dim;
  pthread_mutex_t *lock = &j->class_locks[label % N_LOCKS];
  pthread_mutex_lock(lock);
  j->stats->counts[label]++;
  int64_t *to = j->stats->sums + (uint64_t)label * dim;
  for (uint32_t i = 0; i < dim; i++) to[i] += x[i];
  pthread_mutex_unlock(lock);
}

/* Quantises the labelled rows of a batch, without gaps, and adds them to their classes and to the
 * moments. */
static kf_status add_batch(void *argument, const kf_batch *b, kf_err *err) {
  job *j = argument;
  const kf_stats *stats = j->stats;
  int32_t *fixed = *(int32_t **)b->workspace; /* [batch][dim] */
  size_t kept = 0;
  for (uint64_t r = 0; r < b->n; r++) {
    int32_t label = b->labels[r];
    if (j->labels != NULL && label != KF_LABEL_BAD) label = j->labels[b->first + r];
    if (label < 0) continue;
    const float *row = b->rows + r * stats->dim;
    if (!stats->normalized)
      KF_TRY(kf_check_magnitude(row, stats->dim, stats->exponent, j->data, b->first + r, err));
    int32_t *x = fixed + kept++ * stats->dim;
    double scale = kf_fixed_scale(stats->normalized, stats->exponent, b->norm2[r]);
    j->ctx->kernels->quantize(row, stats->dim, scale, x);
    add_to_class(j, label, x);
  }
  if (kept > 0) kf_moments_add(j->moments, b->worker, fixed, kept, 1);
  return KF_OK;
}

static void make_workspace(const void *argument, void *own, kf_arena *arena) {
  const job *j = argument;
  KF_TAKE(arena, *(int32_t **)own, j->batch * j->stats->dim);
}

static kf_status add_all(job *j, const char *what) {
  uint64_t batches = (j->data->rows + j->batch - 1) / j->batch;
  KF_TRY(kf_moments_new(j->ctx, j->stats->dim, batches, j->stats->moments, &j->moments));
  KF_TRY(kf_each_batch(j->ctx, j->data,
                       &(kf_pass){.what = what,
                                  .rows = j->batch,
                                  .shared = j->range.last == 0,
                                  .first = j->range.first,
                                  .last = j->range.last,
                                  .workers = kf_moments_workers(j->moments),
                                  .work = add_batch,
                                  .argument = j,
                                  .workspace_size = sizeof(int32_t *),
                                  .make_workspace = make_workspace}));
  return kf_moments_flush(j->moments, 1);
}

/* As many rows as fit the second-level cache, in floats and integers. */
uint64_t kf_stats_batch(uint32_t dim) {
  uint64_t steps = ((uint64_t)256 << 10) / (sizeof(float) * dim) / KF_MOMENT_ROWS;
  return KF_MOMENT_ROWS * (steps > 0 ? steps : 1);
}

static void count_all(kf_stats *stats) {
  stats->rows = 0;
  for (uint32_t k = 0; k < stats->n_classes; k++) stats->rows += (uint64_t)stats->counts[k];
}

static kf_status check_rows(kf_ctx *ctx, const kf_stats *stats, const kf_data *data) {
  if (stats->rows <= KF_MAX_ROWS && data->rows <= KF_MAX_ROWS - stats->rows) return KF_OK;
  return kf_fail(&ctx->err, KF_ERR_DATA, "more than 2^40 rows in one set of statistics");
}

static kf_status accumulate(job *j, const char *what) {
  kf_stats *stats = j->stats;
  j->batch = kf_stats_batch(stats->dim);
  for (int i = 0; i < N_LOCKS; i++) pthread_mutex_init(&j->class_locks[i], NULL);

  kf_status status = add_all(j, what);

  kf_moments_free(j->moments);
  for (int i = 0; i < N_LOCKS; i++) pthread_mutex_destroy(&j->class_locks[i]);
  count_all(stats);
  return status;
}

kf_status kf_stats_accumulate_range(kf_ctx *ctx, kf_stats *stats, const kf_data *data,
                                    kf_range rows, const char *what) {
  job j = {.ctx = ctx, .stats = stats, .data = data, .range = rows};
  bool done = false;
  KF_TRY(check_rows(ctx, stats, data));
  KF_TRY(kf_stats_accumulate_on_device(ctx, stats, data, rows, NULL, what, &done));
  if (!done) return accumulate(&j, what);
  count_all(stats);
  return KF_OK;
}

/* --- ranks ------------------------------------------------------------------------------------ */

kf_status kf_stats_add_ranks(kf_ctx *ctx, kf_status status, kf_stats *s) {
  KF_TRY(kf_sum_i64(ctx, status, s->counts, s->n_classes));
  KF_TRY(kf_sum_i64(ctx, KF_OK, s->sums, (uint64_t)s->n_classes * s->dim));
  KF_TRY(kf_sum_i128(ctx, KF_OK, s->moments, kf_triangle(s->dim)));
  count_all(s);
  return KF_OK;
}

kf_status kf_stats_accumulate(kf_ctx *ctx, kf_stats *stats, const kf_data *data,
                              const int32_t *labels, const char *what) {
  job j = {.ctx = ctx, .stats = stats, .data = data, .labels = labels};
  bool done = false;
  KF_TRY(check_rows(ctx, stats, data));
  if (ctx->ranks.rank > 0) kf_stats_clear(stats); /* rank 0 counts what was there */
  kf_status status = kf_stats_accumulate_on_device(ctx, stats, data, kf_share_of_rows(ctx, data),
                                                   labels, what, &done);
  /* Ranks with and without a device meet here. */
  if (status != KF_OK || done)
    status = kf_agree_on(ctx, status);
  else
    status = accumulate(&j, what);
  return kf_stats_add_ranks(ctx, status, stats);
}
