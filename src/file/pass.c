/* pass.c - one pass over the rows of a data set, on all threads.
 *
 * Every worker has its own buffers, allocated before the first row is read, so a pass
 * cannot run out of memory half-way. Batches are handed out in ascending order, so the
 * position of worker 0's batch tells how far the pass is; 0 is reported at the start and all rows
 * at the end, whichever workers did the work.
 *
 * Reading overlaps computing: with each batch, rows a few MiB ahead are prefetched, so they are in
 * memory when a worker asks for them, however little the system reads ahead by itself.
 *
 * Finishing in order: a worker waits with its batch until all earlier batches are finished. Those
 * have all been started, and the lowest never waits, so the pass makes progress. After a failure
 * the batches above it give up, while those below it still have their turn: the reported error is
 * that of the lowest batch.
 *
 * In a shared pass every rank takes a range of rows, in the order of ranks. So the lowest rank that
 * fails has the lowest failing batch, and reports the same error as a single process. */
#include "file/file.h"

#include <pthread.h>
#include <string.h>

enum { LABELS_AT_ONCE = 16384 };
#define PREFETCH_BYTES ((uint64_t)8 << 20) /* bytes of f32 rows that are prefetched */

typedef struct worker {
  kf_batch batch;
  kf_arena arena;
} worker;

typedef struct pass_job {
  kf_ctx *ctx;
  const kf_data *data;
  const kf_pass *pass;
  uint64_t rows;  /* in a batch */
  kf_range share; /* the rows of this pass */
  uint64_t ahead; /* rows; a multiple of those in a batch */
  worker *workers;
  pthread_mutex_t lock;
  pthread_cond_t turn; /* `next` or `failed` has changed */
  size_t next;         /* the batch to be finished */
  size_t failed;       /* the lowest batch that has failed */
} pass_job;

/* Prefetches the rows `ahead` after batch i; with the first batch, also the rows up to there. */
static void prefetch(const pass_job *j, size_t i) {
  const kf_data *data = j->data;
  if (data->ahead == NULL || j->pass->labels_only) return;
  uint64_t begun = j->share.first, end = begun + (uint64_t)i * j->rows + j->ahead + j->rows;
  uint64_t first = i > 0 ? end - j->rows : begun;
  if (end > j->share.last) end = j->share.last;
  if (first < end) data->ahead(data, first, end - first);
}

static kf_status fetch_and_work(pass_job *j, size_t i, kf_batch *b, kf_err *err) {
  uint64_t first = j->share.first + (uint64_t)i * j->rows, left = j->share.last - first;
  prefetch(j, i);
  b->first = first;
  b->n = left < j->rows ? left : j->rows;
  KF_TRY(kf_data_fetch(j->data, j->ctx->kernels, first, b->n, b->rows, b->labels, b->norm2, err));
  return j->pass->work(j->pass->argument, b, err);
}

static kf_status finish_in_turn(pass_job *j, size_t i, const kf_batch *b, kf_err *err) {
  pthread_mutex_lock(&j->lock);
  while (j->next != i && i < j->failed) pthread_cond_wait(&j->turn, &j->lock);
  kf_status status = j->next == i ? j->pass->finish(j->pass->argument, b, err)
                                  : kf_fail(err, KF_ERR_CANCELLED, "an earlier batch has failed");
  if (status == KF_OK) j->next++;
  pthread_cond_broadcast(&j->turn);
  pthread_mutex_unlock(&j->lock);
  return status;
}

static void give_up(pass_job *j, size_t i) {
  pthread_mutex_lock(&j->lock);
  if (i < j->failed) j->failed = i;
  pthread_cond_broadcast(&j->turn);
  pthread_mutex_unlock(&j->lock);
}

/* Shared work reports the progress of all ranks. A pass over [first, last) is a part
 * of the rank's share. */
static kf_status report(const pass_job *j, uint64_t end, size_t number, kf_err *err) {
  const kf_pass *pass = j->pass;
  const kf_ranks *ranks = &j->ctx->ranks;
  uint64_t own = j->share.last - j->share.first, done = end - j->share.first;
  if (number == 0 && pass->last > 0)
    done = kf_done_by_all(j->ctx, ranks->before + done, j->data->rows / ranks->size, j->data->rows);
  else if (number == 0 && pass->shared)
    done = kf_done_by_all(j->ctx, done, own, j->data->rows);
  return kf_task_progress(j->ctx, number, pass->what, done, j->data->rows, err);
}

static kf_status run_batch(void *argument, size_t i, size_t number, kf_err *err) {
  pass_job *j = argument;
  kf_batch *b = &j->workers[number].batch;
  kf_status status = fetch_and_work(j, i, b, err);
  if (status == KF_OK && j->pass->finish != NULL) status = finish_in_turn(j, i, b, err);
  if (status == KF_OK) status = report(j, b->first + b->n, number, err);
  if (status != KF_OK) give_up(j, i);
  return status;
}

static void make_worker(const pass_job *j, size_t number) {
  worker *w = &j->workers[number];
  kf_batch *b = &w->batch;
  const kf_pass *p = j->pass;
  b->worker = number;
  if (!p->rows_only) KF_TAKE(&w->arena, b->labels, j->rows);
  if (!p->labels_only) {
    KF_TAKE(&w->arena, b->rows, j->rows * j->data->dim);
    KF_TAKE(&w->arena, b->norm2, j->rows);
  }
  if (p->workspace_size > 0) b->workspace = kf_arena_take_zero(&w->arena, 1, p->workspace_size);
  if (p->make_workspace != NULL && !w->arena.failed)
    p->make_workspace(p->argument, b->workspace, &w->arena);
}

static kf_status run_batches(pass_job *j, size_t workers) {
  for (size_t t = 0; t < workers; t++) {
    make_worker(j, t);
    if (j->workers[t].arena.failed) return kf_fail_memory(&j->ctx->err);
  }
  const char *what = j->pass->last > 0 ? NULL : j->pass->what;
  uint64_t rows = j->data->rows;
  if (what != NULL) KF_TRY(kf_progress(j->ctx, what, 0, rows));
  size_t batches = (size_t)((j->share.last - j->share.first + j->rows - 1) / j->rows);
  KF_TRY(kf_parallel_limited(j->ctx, workers, batches, run_batch, j));
  if (j->pass->last > 0) j->ctx->ranks.before += j->share.last - j->share.first;
  return j->pass->shared ? report(j, j->share.last, 0, &j->ctx->err) : KF_OK;
}

/* Ends a pass, on all ranks if it is shared. */
static kf_status end_pass(kf_ctx *ctx, const kf_data *data, const kf_pass *pass, kf_status status) {
  if (pass->shared) status = kf_agree_on(ctx, status);
  if (status != KF_OK || pass->what == NULL || pass->last > 0) return status;
  return kf_progress(ctx, pass->what, data->rows, data->rows);
}

/* A multiple of 64 rows, which is a whole number of bytes in a bitmap. */
#define SHARE_STEP_ROWS 64u

kf_range kf_share_of_rows(const kf_ctx *ctx, const kf_data *data) {
  uint32_t rank = ctx->ranks.rank;
  if (data->ends != NULL) return (kf_range){rank > 0 ? data->ends[rank - 1] : 0, data->ends[rank]};
  return kf_share_of(&ctx->ranks, data->rows, SHARE_STEP_ROWS);
}

static kf_range share_of(const kf_ctx *ctx, const kf_data *data, const kf_pass *pass) {
  if (pass->last > 0) return (kf_range){pass->first, pass->last};
  return pass->shared ? kf_share_of_rows(ctx, data) : (kf_range){0, data->rows};
}

kf_status kf_join_rows(kf_ctx *ctx, const kf_data *data, void *array, uint64_t size) {
  if (data->ends != NULL)
    memcpy(ctx->ranks.ends, data->ends, data->n_ends * sizeof *data->ends);
  else
    kf_share_ends(&ctx->ranks, data->rows, SHARE_STEP_ROWS);
  return kf_join(ctx, KF_OK, array, size);
}

kf_status kf_each_batch(kf_ctx *ctx, const kf_data *data, const kf_pass *pass) {
  pass_job j = {.ctx = ctx, .data = data, .pass = pass, .rows = pass->rows, .failed = SIZE_MAX};
  j.share = share_of(ctx, data, pass);
  if (pass->shared) kf_share_begin(ctx, 0);
  if (j.rows == 0) j.rows = pass->labels_only ? LABELS_AT_ONCE : kf_data_chunk(data->dim);
  j.ahead = (PREFETCH_BYTES / (sizeof(float) * data->dim * j.rows) + 1) * j.rows;
  uint64_t batches = (j.share.last - j.share.first + j.rows - 1) / j.rows;
  size_t n = pass->workers > 0 ? pass->workers : ctx->threads;
  if (n > batches) n = (size_t)batches;
  j.workers = kf_alloc_zero(n, sizeof *j.workers);
  kf_status status = j.workers != NULL ? KF_OK : kf_fail_memory(&ctx->err);
  pthread_mutex_init(&j.lock, NULL);
  pthread_cond_init(&j.turn, NULL);
  if (status == KF_OK) status = run_batches(&j, n);
  pthread_cond_destroy(&j.turn);
  pthread_mutex_destroy(&j.lock);
  for (size_t t = 0; j.workers != NULL && t < n; t++) kf_arena_free(&j.workers[t].arena);
  kf_free(j.workers);
  return end_pass(ctx, data, pass, status);
}
