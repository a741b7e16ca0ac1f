/* accumulate.c - from rows to exact moments.
 *
 * A row x becomes integers X = round(x * scale), with scale = 2^22 / |x| (or 2^exponent in raw-norm
 * mode), and from there on everything is integer addition:
 *
 *     counts[k] += 1,   sums[k] += X,   moments += X X^T
 *
 * so that the order of rows, the number of threads and the split into files cannot matter.
 *
 * Rows are taken in blocks as large as the moment kernel allows. A block belongs to one worker: it
 * fetches the rows, quantises and packs them, and multiplies panel by panel into its own 64-bit
 * sums (|X X'| <= 2^44, so 2^18 rows are far from 2^63), which are added to the 128-bit moments
 * before they can overflow. Class sums are shared: one copy may be 134 MB (21,841 classes, D =
 * 768); a row's addition is guarded by one of a few locks chosen by its class. */
#include "stats/stats.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#define FLUSH_ROWS ((uint64_t)1 << 18)
#define N_LOCKS    64
/* Workers have dim^2 * 8 bytes each; together they stay below this, or there is one. */
#define WORKER_BYTES ((uint64_t)512 << 20)

typedef struct worker {
  float *rows;       /* [block][dim] */
  int32_t *fixed;    /* [block][dim] */
  int32_t *labels;   /* [block] */
  double *norm2;     /* [block] */
  char *packed;      /* [panels][panel_size] */
  int64_t *products; /* [panels * edge]^2; tiles above the diagonal */
  uint64_t pending;  /* rows in products */
} worker;

typedef struct job {
  kf_ctx *ctx;
  kf_stats *stats;
  const kf_data *data;
  const kf_moment_kernel *moment;
  const int32_t *labels; /* instead of the data set's, or NULL */
  const char *what;
  size_t panels;
  size_t n_workers;
  worker *workers;
  pthread_mutex_t class_locks[N_LOCKS];
  pthread_mutex_t total_lock; /* moments, done */
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
  char where[512];
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
  kf_free(w->packed);
  kf_free(w->products);
}

static kf_status new_worker(const job *j, worker *w, kf_err *err) {
  size_t block = j->moment->rows, width = j->panels * j->moment->edge;
  uint64_t values = (uint64_t)block * j->stats->dim;
  w->rows = kf_alloc(values, sizeof *w->rows);
  w->fixed = kf_alloc(values, sizeof *w->fixed);
  w->labels = kf_alloc(block, sizeof *w->labels);
  w->norm2 = kf_alloc(block, sizeof *w->norm2);
  w->packed = kf_alloc(j->panels, j->moment->panel_size);
  w->products = kf_alloc_zero((uint64_t)width * width, sizeof *w->products);
  bool ok = w->rows && w->fixed && w->labels && w->norm2 && w->packed && w->products;
  return ok ? KF_OK : kf_fail_memory(err);
}

/* Adds the 64-bit products of a worker to the moments and clears them. */
static void flush(job *j, worker *w) {
  if (w->pending == 0) return;
  uint32_t dim = j->stats->dim;
  size_t width = j->panels * j->moment->edge;
  pthread_mutex_lock(&j->total_lock);
  kf_i128 *to = j->stats->moments;
  for (uint32_t r = 0; r < dim; r++)
    for (uint32_t c = r; c < dim; c++) *to++ += w->products[r * width + c];
  pthread_mutex_unlock(&j->total_lock);
  memset(w->products, 0, width * width * sizeof *w->products);
  w->pending = 0;
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

static void multiply_block(const job *j, worker *w, size_t n) {
  const kf_moment_kernel *m = j->moment;
  size_t width = j->panels * m->edge;
  for (size_t p = 0; p < j->panels; p++)
    m->pack(w->fixed, n, j->stats->dim, p, w->packed + p * m->panel_size);
  if (m->begin != NULL) m->begin();
  for (size_t p = 0; p < j->panels; p++)
    for (size_t q = p; q < j->panels; q++)
      m->tile(w->packed + p * m->panel_size, w->packed + q * m->panel_size, n,
              w->products + p * m->edge * width + q * m->edge, width);
  if (m->end != NULL) m->end();
}

static kf_status report(job *j, size_t n, size_t number) {
  pthread_mutex_lock(&j->total_lock);
  j->done += n;
  uint64_t done = j->done;
  pthread_mutex_unlock(&j->total_lock);
  /* Worker 0 is the caller's own thread. */
  return number == 0 && j->what != NULL ? kf_progress(j->ctx, j->what, done, j->data->rows) : KF_OK;
}

static kf_status add_block(void *argument, size_t i, size_t number, kf_err *err) {
  job *j = argument;
  worker *w = &j->workers[number];
  size_t block = j->moment->rows;
  uint64_t first = (uint64_t)i * block;
  size_t n = j->data->rows - first < block ? (size_t)(j->data->rows - first) : block;
  KF_TRY(kf_data_fetch(j->data, j->ctx->kernels, first, n, w->rows, w->labels, w->norm2, err));
  for (size_t r = 0; j->labels != NULL && r < n; r++)
    if (w->labels[r] != KF_LABEL_BAD) w->labels[r] = j->labels[first + r];
  size_t kept;
  KF_TRY(quantize_block(j, w, first, n, &kept, err));
  if (kept > 0) {
    if (w->pending + kept > FLUSH_ROWS) flush(j, w);
    multiply_block(j, w, kept);
    w->pending += kept;
  }
  kf_status status = report(j, n, number);
  if (status != KF_OK) *err = j->ctx->err;
  return status;
}

static kf_status run(job *j) {
  kf_ctx *ctx = j->ctx;
  for (size_t t = 0; t < j->n_workers; t++) KF_TRY(new_worker(j, &j->workers[t], &ctx->err));
  uint64_t blocks = (j->data->rows + j->moment->rows - 1) / j->moment->rows;
  KF_TRY(kf_parallel_limited(ctx, j->n_workers, (size_t)blocks, add_block, j));
  for (size_t t = 0; t < j->n_workers; t++) flush(j, &j->workers[t]);
  return KF_OK;
}

static size_t worker_count(const kf_ctx *ctx, size_t width) {
  uint64_t each = (uint64_t)width * width * sizeof(int64_t);
  uint64_t most = WORKER_BYTES / each;
  if (most < 1) most = 1;
  return ctx->threads < most ? ctx->threads : (size_t)most;
}

kf_status kf_stats_accumulate(kf_ctx *ctx, kf_stats *stats, const kf_data *data,
                              const int32_t *labels, const char *what) {
  kf_err *err = &ctx->err;
  if (stats->rows > KF_MAX_ROWS || data->rows > KF_MAX_ROWS - stats->rows)
    return kf_fail(err, KF_ERR_DATA, "more than 2^40 rows in one set of statistics");
  job j = {.ctx = ctx, .stats = stats, .data = data, .labels = labels, .what = what};
  j.moment = ctx->kernels->moment;
  j.panels = (stats->dim + j.moment->edge - 1) / j.moment->edge;
  j.n_workers = worker_count(ctx, j.panels * j.moment->edge);
  j.workers = kf_alloc_zero(j.n_workers, sizeof *j.workers);
  if (j.workers == NULL) return kf_fail_memory(err);
  for (int i = 0; i < N_LOCKS; i++) pthread_mutex_init(&j.class_locks[i], NULL);
  pthread_mutex_init(&j.total_lock, NULL);

  kf_status status = run(&j);

  for (size_t t = 0; t < j.n_workers; t++) free_worker(&j.workers[t]);
  kf_free(j.workers);
  for (int i = 0; i < N_LOCKS; i++) pthread_mutex_destroy(&j.class_locks[i]);
  pthread_mutex_destroy(&j.total_lock);
  stats->rows = 0;
  for (uint32_t k = 0; k < stats->n_classes; k++) stats->rows += (uint64_t)stats->counts[k];
  return status;
}
