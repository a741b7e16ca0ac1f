/* trial.c - one pass of nearest prototypes over judged rows.
 *
 * Workers take chunks of rows, keep those that can be scored, find their nearest prototypes in each
 * space that is wanted, and hand every row with its answers on. Nothing grows with rows times
 * classes. */
#include "score/trial.h"

#include <string.h>

#define CHUNK 256u

/* --- what a trial stands on ------------------------------------------------------------------- */

static kf_status choose_classes(kf_trial *t, const kf_class_set *set) {
  if (set == NULL) return KF_OK;
  t->mask = kf_alloc_zero(t->known.n_classes, 1);
  if (t->mask == NULL) return kf_fail_memory(&t->ctx->err);
  KF_TRY(kf_class_set_mask(t->ctx, set, &t->known, t->mask));
  t->known.part = t->mask;
  return KF_OK;
}

kf_status kf_trial_start(kf_trial *trial, kf_ctx *ctx, const kf_model *model, const kf_data *data,
                         const kf_trial_options *o) {
  *trial = (kf_trial){.ctx = ctx,
                      .data = data,
                      .known = kf_known_model(model, o->mapped ? o->part : KF_PART_IMAGES)};
  KF_TRY(kf_map_check_data(&model->map, data, &ctx->err));
  KF_TRY(choose_classes(trial, o->set));
  KF_TRY(kf_judge_start(&trial->judge, &trial->known, data, data->rows, o->truth, &ctx->err));
  if (o->mapped)
    KF_TRY(kf_prototypes_new(ctx, model, o->metric, false, o->part, trial->mask, &trial->mapped));
  if (o->raw)
    KF_TRY(
        kf_prototypes_new(ctx, model, o->metric, true, KF_PART_IMAGES, trial->mask, &trial->raw));
  const kf_prototypes *any = o->mapped ? trial->mapped : trial->raw;
  trial->top = any != NULL && any->n < o->top ? any->n : o->top;
  return KF_OK;
}

void kf_trial_clear(kf_trial *trial) {
  kf_judge_clear(&trial->judge);
  kf_prototypes_free(trial->mapped);
  kf_prototypes_free(trial->raw);
  kf_free(trial->mask);
  *trial = (kf_trial){0};
}

/* --- the pass --------------------------------------------------------------------------------- */

typedef struct trial_job {
  const kf_trial *trial;
  const kf_data *data;
  bool judged;
  kf_answer_fn use;
  void *argument;
  kf_tally *tallies; /* [threads] */
} trial_job;

typedef struct block {
  float *rows;
  int32_t *labels;
  double *norm2;
  kf_right *right;
  uint64_t *numbers;
  int32_t *answers; /* [n][top] */
  double *scores;   /* [n][top] */
} block;

static uint64_t keep_sound(kf_tally *tally, uint64_t first, uint64_t n, uint32_t dim, block *b) {
  uint64_t kept = 0;
  for (uint64_t i = 0; i < n; i++) {
    tally->sum.rows++;
    if (b->labels[i] == KF_LABEL_BAD) {
      tally->sum.n_bad++;
      continue;
    }
    memmove(b->rows + kept * dim, b->rows + i * dim, dim * sizeof *b->rows);
    b->norm2[kept] = b->norm2[i];
    b->right[kept] = (kf_right){0};
    b->numbers[kept++] = first + i;
  }
  tally->sum.n += kept;
  return kept;
}

static kf_status answer(const trial_job *j, const kf_prototypes *p, kf_tally *tally, const block *b,
                        uint64_t n, kf_err *err) {
  uint32_t top = j->trial->top;
  if (p == NULL) return KF_OK;
  KF_TRY(kf_prototypes_nearest(p, b->rows, b->norm2, n, top, b->answers, b->scores, err));
  for (uint64_t i = 0; i < n; i++) {
    kf_answer row = {.row = b->numbers[i],
                     .right = b->right[i],
                     .raw = p->raw,
                     .answers = b->answers + i * top,
                     .scores = b->scores + i * top,
                     .top = top};
    j->use(j->argument, tally, &row);
  }
  return KF_OK;
}

static kf_status try_block(const trial_job *j, kf_tally *tally, block *b, uint64_t first,
                           uint64_t n, kf_err *err) {
  const kf_trial *t = j->trial;
  uint32_t dim = j->data->dim;
  if (!(b->rows && b->labels && b->norm2 && b->right && b->numbers && b->answers && b->scores))
    return kf_fail_memory(err);
  KF_TRY(kf_data_fetch(j->data, t->ctx->kernels, first, n, b->rows, b->labels, b->norm2, err));
  uint64_t kept = j->judged ? kf_keep_scored(tally, &t->judge, first, n, dim, b->rows, b->labels,
                                             b->norm2, b->right, b->numbers)
                            : keep_sound(tally, first, n, dim, b);
  KF_TRY(answer(j, t->mapped, tally, b, kept, err));
  return answer(j, t->raw, tally, b, kept, err);
}

static kf_status try_chunk(void *argument, size_t i, size_t worker, kf_err *err) {
  const trial_job *j = argument;
  kf_ctx *ctx = j->trial->ctx;
  uint64_t first = (uint64_t)i * CHUNK, left = j->data->rows - first;
  uint64_t n = left < CHUNK ? left : CHUNK;
  block b = {.rows = kf_alloc(n * j->data->dim, sizeof *b.rows),
             .labels = kf_alloc(n, sizeof *b.labels),
             .norm2 = kf_alloc(n, sizeof *b.norm2),
             .right = kf_alloc(n, sizeof *b.right),
             .numbers = kf_alloc(n, sizeof *b.numbers),
             .answers = kf_alloc(n * j->trial->top, sizeof *b.answers),
             .scores = kf_alloc(n * j->trial->top, sizeof *b.scores)};
  kf_status status = try_block(j, &j->tallies[worker], &b, first, n, err);
  kf_free(b.rows);
  kf_free(b.labels);
  kf_free(b.norm2);
  kf_free(b.right);
  kf_free(b.numbers);
  kf_free(b.answers);
  kf_free(b.scores);
  /* Chunks are handed out in order, so the number of this one says how far the work is. */
  if (status == KF_OK && worker == 0) {
    status = kf_progress(ctx, "eval", first + n, j->data->rows);
    if (status != KF_OK) *err = ctx->err;
  }
  return status;
}

static kf_status run(trial_job *j, kf_eval_result *counts) {
  kf_ctx *ctx = j->trial->ctx;
  const kf_judge *judge = &j->trial->judge;
  j->tallies = kf_tallies_new(judge, ctx->threads);
  if (j->tallies == NULL) return kf_fail_memory(&ctx->err);
  kf_status status = kf_parallel(ctx, (size_t)((j->data->rows + CHUNK - 1) / CHUNK), try_chunk, j);
  if (status == KF_OK) kf_tallies_sum(j->tallies, ctx->threads, judge, counts);
  kf_tallies_free(j->tallies);
  return status;
}

kf_status kf_trial_run(const kf_trial *trial, kf_answer_fn use, void *argument,
                       kf_eval_result *counts) {
  trial_job j = {
      .trial = trial, .data = trial->data, .judged = true, .use = use, .argument = argument};
  KF_TRY(run(&j, counts));
  return kf_check_scored(&trial->known, counts, &trial->ctx->err);
}

kf_status kf_trial_run_unjudged(const kf_trial *trial, const kf_data *data, kf_answer_fn use,
                                void *argument, kf_eval_result *counts) {
  trial_job j = {.trial = trial, .data = data, .use = use, .argument = argument};
  return run(&j, counts);
}
