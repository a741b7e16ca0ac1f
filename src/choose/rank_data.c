/* rank_data.c - one pass of a ranker over judged rows, for sweeps and for choosing dimensions. */
#include "choose/choose.h"

typedef struct rank_job {
  kf_ctx *ctx;
  const kf_ranker *ranker;
  const kf_data *data;
  const kf_judge *judge;
  size_t n_dims;
  kf_ranked_fn use;
  void *argument;
  kf_tally *tallies; /* [threads] */
} rank_job;

typedef struct block {
  float *rows;
  int32_t *labels;
  double *norm2;
  kf_right *right;
  uint64_t *numbers;
  unsigned char *ranks;
} block;

static kf_status rank_block(const rank_job *j, size_t worker, block *b, uint64_t first, uint64_t n,
                            kf_err *err) {
  const kf_data *data = j->data;
  if (!(b->rows && b->labels && b->norm2 && b->right && b->numbers && b->ranks))
    return kf_fail_memory(err);
  KF_TRY(kf_data_fetch(data, j->ctx->kernels, first, n, b->rows, b->labels, b->norm2, err));
  uint64_t kept = kf_keep_scored(&j->tallies[worker], j->judge, first, n, data->dim, b->rows,
                                 b->labels, b->norm2, b->right, b->numbers);
  KF_TRY(kf_ranker_rank(j->ranker, b->rows, b->norm2, kept, b->right, b->ranks, err));
  for (uint64_t i = 0; i < kept; i++)
    j->use(j->argument, worker, b->numbers[i], b->ranks + i * j->n_dims);
  return KF_OK;
}

static kf_status rank_task(void *argument, size_t i, size_t worker, kf_err *err) {
  const rank_job *j = argument;
  uint64_t first = (uint64_t)i * KF_MAP_ROWS, left = j->data->rows - first;
  uint64_t n = left < KF_MAP_ROWS ? left : KF_MAP_ROWS;
  block b = {.rows = kf_alloc(n * j->data->dim, sizeof *b.rows),
             .labels = kf_alloc(n, sizeof *b.labels),
             .norm2 = kf_alloc(n, sizeof *b.norm2),
             .right = kf_alloc(n, sizeof *b.right),
             .numbers = kf_alloc(n, sizeof *b.numbers),
             .ranks = kf_alloc(n * j->n_dims, 1)};
  kf_status status = rank_block(j, worker, &b, first, n, err);
  kf_free(b.rows);
  kf_free(b.labels);
  kf_free(b.norm2);
  kf_free(b.right);
  kf_free(b.numbers);
  kf_free(b.ranks);
  if (status == KF_OK && worker == 0) {
    status = kf_progress(j->ctx, "rank", first + n, j->data->rows);
    if (status != KF_OK) *err = j->ctx->err;
  }
  return status;
}

kf_status kf_rank_data(kf_ctx *ctx, const kf_ranker *ranker, const kf_data *data,
                       const kf_judge *judge, kf_ranked_fn use, void *argument,
                       kf_eval_result *counts) {
  rank_job j = {.ctx = ctx,
                .ranker = ranker,
                .data = data,
                .judge = judge,
                .n_dims = kf_ranker_dims(ranker),
                .use = use,
                .argument = argument};
  j.tallies = kf_tallies_new(judge, ctx->threads);
  if (j.tallies == NULL) return kf_fail_memory(&ctx->err);
  kf_status status =
      kf_parallel(ctx, (size_t)((data->rows + KF_MAP_ROWS - 1) / KF_MAP_ROWS), rank_task, &j);
  if (status == KF_OK) kf_tallies_sum(j.tallies, ctx->threads, judge, counts);
  kf_tallies_free(j.tallies);
  return status;
}
