/* accumulate.c - from rows to exact moments.
 *
 * A row x becomes integers X = round(x * scale), with scale = 2^22 / |x| (or 2^exponent in raw-norm
 * mode), and from there on everything is integer addition:
 *
 *     counts[k] += 1,   sums[k] += X,   moments += X X^T
 *
 * so that the order of rows, the number of threads and the split into files cannot matter.
 *
 * Rows are taken in small blocks. A block belongs to one worker: it fetches the rows, quantises
 * them and hands them to its moments. Class sums are shared: one copy may be 134 MB (21,841
 * classes, D = 768); a row's addition is guarded by one of a few locks chosen by its class. */
#include "stats/stats.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#define N_LOCKS 64

typedef struct worker {
  float *rows;     /* [block][dim] */
  int32_t *fixed;  /* [block][dim] */
  int32_t *labels; /* [block] */
  double *norm2;   /* [block] */
} worker;

typedef struct job {
  kf_ctx *ctx;
  kf_stats *stats;
  const kf_data *data;
  const int32_t *labels; /* instead of the data set's, or NULL */
  const char *what;
  size_t block;
  kf_moments *moments;
  size_t n_workers;
  worker *workers;
  pthread_mutex_t class_locks[N_LOCKS];
  pthread_mutex_t done_lock;
  uint64_t done;
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
  char where[KF_WHERE_SIZE];
  data->where(data, row, where, sizeof where);
  return kf_fail(err, KF_ERR_DATA,
                 "%s: holds the magnitude %g, above %g, the most that exponent %d "
                 "can hold",
                 where, (double)largest, limit, exponent);
}

static void free_worker(worker *w) {
  kf_free(w->rows);
  kf_free(w->fixed);
  kf_free(w->labels);
  kf_free(w->norm2);
}

static kf_status new_worker(const job *j, worker *w, kf_err *err) {
  uint64_t values = (uint64_t)j->block * j->stats->dim;
  w->rows = kf_alloc(values, sizeof *w->rows);
  w->fixed = kf_alloc(values, sizeof *w->fixed);
  w->labels = kf_alloc(j->block, sizeof *w->labels);
  w->norm2 = kf_alloc(j->block, sizeof *w->norm2);
  return w->rows && w->fixed && w->labels && w->norm2 ? KF_OK : kf_fail_memory(err);
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

/* Quantises the labelled rows of a fetched block, closing the gaps, and adds them to their classes.
 * Returns how many there are. */
static kf_status quantize_block(job *j, worker *w, uint64_t first, size_t n, size_t *kept,
                                kf_err *err) {
  const kf_stats *stats = j->stats;
  *kept = 0;
  for (size_t r = 0; r < n; r++) {
    if (w->labels[r] < 0) continue;
    const float *row = w->rows + r * stats->dim;
    if (!stats->normalized)
      KF_TRY(kf_check_magnitude(row, stats->dim, stats->exponent, j->data, first + r, err));
    int32_t *fixed = w->fixed + *kept * stats->dim;
    double scale = kf_fixed_scale(stats->normalized, stats->exponent, w->norm2[r]);
    j->ctx->kernels->quantize(row, stats->dim, scale, fixed);
    add_to_class(j, w->labels[r], fixed);
    ++*kept;
  }
  return KF_OK;
}

static kf_status report(job *j, size_t n, size_t number) {
  pthread_mutex_lock(&j->done_lock);
  j->done += n;
  uint64_t done = j->done;
  pthread_mutex_unlock(&j->done_lock);
  /* Worker 0 is the caller's own thread. */
  return number == 0 && j->what != NULL ? kf_progress(j->ctx, j->what, done, j->data->rows) : KF_OK;
}

static kf_status add_block(void *argument, size_t i, size_t number, kf_err *err) {
  job *j = argument;
  worker *w = &j->workers[number];
  uint64_t first = (uint64_t)i * j->block;
  size_t n = j->data->rows - first < j->block ? (size_t)(j->data->rows - first) : j->block;
  KF_TRY(kf_data_fetch(j->data, j->ctx->kernels, first, n, w->rows, w->labels, w->norm2, err));
  for (size_t r = 0; j->labels != NULL && r < n; r++)
    if (w->labels[r] != KF_LABEL_BAD) w->labels[r] = j->labels[first + r];
  size_t kept;
  KF_TRY(quantize_block(j, w, first, n, &kept, err));
  if (kept > 0) kf_moments_add(j->moments, number, w->fixed, kept, 0);
  kf_status status = report(j, n, number);
  if (status != KF_OK) *err = j->ctx->err;
  return status;
}

static kf_status run(job *j) {
  kf_ctx *ctx = j->ctx;
  uint64_t blocks = (j->data->rows + j->block - 1) / j->block;
  KF_TRY(kf_moments_new(ctx, j->stats->dim, blocks, j->stats->moments, &j->moments));
  size_t n = kf_moments_workers(j->moments);
  j->workers = kf_alloc_zero(n, sizeof *j->workers);
  if (j->workers == NULL) return kf_fail_memory(&ctx->err);
  j->n_workers = n;
  for (size_t t = 0; t < n; t++) KF_TRY(new_worker(j, &j->workers[t], &ctx->err));
  KF_TRY(kf_parallel_limited(ctx, n, (size_t)blocks, add_block, j));
  kf_moments_flush(j->moments, 0);
  return KF_OK;
}

/* As many rows as keep their floats and integers in the second cache. */
static size_t block_rows(uint32_t dim) {
  size_t steps = ((size_t)256 << 10) / (sizeof(float) * dim) / KF_MOMENT_ROWS;
  return KF_MOMENT_ROWS * (steps > 0 ? steps : 1);
}

kf_status kf_stats_accumulate(kf_ctx *ctx, kf_stats *stats, const kf_data *data,
                              const int32_t *labels, const char *what) {
  if (stats->rows > KF_MAX_ROWS || data->rows > KF_MAX_ROWS - stats->rows)
    return kf_fail(&ctx->err, KF_ERR_DATA, "more than 2^40 rows in one set of statistics");
  job j = {.ctx = ctx, .stats = stats, .data = data, .labels = labels, .what = what};
  j.block = block_rows(stats->dim);
  for (int i = 0; i < N_LOCKS; i++) pthread_mutex_init(&j.class_locks[i], NULL);
  pthread_mutex_init(&j.done_lock, NULL);

  kf_status status = run(&j);

  for (size_t t = 0; t < j.n_workers; t++) free_worker(&j.workers[t]);
  kf_free(j.workers);
  kf_moments_free(j.moments);
  for (int i = 0; i < N_LOCKS; i++) pthread_mutex_destroy(&j.class_locks[i]);
  pthread_mutex_destroy(&j.done_lock);
  stats->rows = 0;
  for (uint32_t k = 0; k < stats->n_classes; k++) stats->rows += (uint64_t)stats->counts[k];
  return status;
}
