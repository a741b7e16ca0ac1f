/* pass.c - one pass over the rows of a data set, on all threads.
 *
 * Every worker has its own buffers, made before the first row is read, so that running out of memory
 * cannot interrupt a pass. Batches are handed out in rising order: the number of worker 0's batch
 * says how far the work is. */
#include "file/file.h"

typedef struct worker {
  kf_batch batch;
  kf_arena arena;
} worker;

typedef struct pass_job {
  kf_ctx *ctx;
  const kf_data *data;
  const kf_pass *pass;
  worker *workers;
} pass_job;

static kf_status run_batch(void *argument, size_t i, size_t number, kf_err *err) {
  const pass_job *j = argument;
  const kf_data *data = j->data;
  kf_batch *b = &j->workers[number].batch;
  uint64_t first = (uint64_t)i * j->pass->rows, left = data->rows - first;
  b->first = first;
  b->n = left < j->pass->rows ? left : j->pass->rows;
  KF_TRY(kf_data_fetch(data, j->ctx->kernels, first, b->n, b->rows, b->labels, b->norm2, err));
  KF_TRY(j->pass->work(j->pass->argument, b, err));
  return kf_task_progress(j->ctx, number, j->pass->what, first + b->n, data->rows, err);
}

static void make_worker(const pass_job *j, size_t number) {
  worker *w = &j->workers[number];
  kf_batch *b = &w->batch;
  const kf_pass *p = j->pass;
  b->worker = number;
  KF_TAKE(&w->arena, b->labels, p->rows);
  if (!p->labels_only) {
    KF_TAKE(&w->arena, b->rows, p->rows * j->data->dim);
    KF_TAKE(&w->arena, b->norm2, p->rows);
  }
  if (p->scratch_size > 0) b->scratch = kf_arena_take_zero(&w->arena, 1, p->scratch_size);
  if (p->make_scratch != NULL && !w->arena.failed)
    p->make_scratch(p->argument, b->scratch, &w->arena);
}

kf_status kf_each_batch(kf_ctx *ctx, const kf_data *data, const kf_pass *pass) {
  uint64_t batches = (data->rows + pass->rows - 1) / pass->rows;
  uint64_t n = pass->workers > 0 ? pass->workers : ctx->threads;
  if (n > batches) n = batches;
  pass_job j = {.ctx = ctx, .data = data, .pass = pass};
  j.workers = kf_alloc_zero(n, sizeof *j.workers);
  bool made = j.workers != NULL;
  for (uint64_t t = 0; made && t < n; t++) {
    make_worker(&j, t);
    made = !j.workers[t].arena.failed;
  }
  kf_status status = made ? kf_parallel_limited(ctx, (size_t)n, (size_t)batches, run_batch, &j)
                          : kf_fail_memory(&ctx->err);
  for (uint64_t t = 0; j.workers != NULL && t < n; t++) kf_arena_free(&j.workers[t].arena);
  kf_free(j.workers);
  return status;
}
