/* trial.c - the nearest prototypes of judged rows, in each space that is wanted, and their accuracy.
 * Every row is handed on with its answers; nothing grows with rows times classes. */
#include "score/trial.h"

#include <math.h>

#define BATCH KF_CLASSIFY_ROWS

kf_status kf_trial_start(kf_trial *trial, kf_ctx *ctx, const kf_model *model, const kf_data *data,
                         const kf_eval_options *o, uint32_t top) {
  bool mapped = o->include_mapped != KF_OFF, raw = o->include_raw != KF_OFF;
  *trial = (kf_trial){.ctx = ctx, .data = data};
  KF_TRY(kf_map_check_data(&model->map, data, &ctx->err));
  kf_known known = kf_known_model(model, mapped ? o->part : KF_PART_IMAGES);
  KF_TRY(kf_judge_start(ctx, &trial->judge, known, o->set, data, data->rows, o->truth));
  const unsigned char *mask = trial->judge.known.mask;
  if (mapped)
    KF_TRY(kf_prototypes_new(ctx, model, o->metric, false, o->part, mask, &trial->mapped));
  if (raw)
    KF_TRY(kf_prototypes_new(ctx, model, o->metric, true, KF_PART_IMAGES, mask, &trial->raw));
  const kf_prototypes *any = mapped ? trial->mapped : trial->raw;
  trial->top = any != NULL && any->n < top ? any->n : top;
  return KF_OK;
}

void kf_trial_clear(kf_trial *trial) {
  kf_judge_clear(&trial->judge);
  kf_prototypes_free(trial->mapped);
  kf_prototypes_free(trial->raw);
  *trial = (kf_trial){0};
}

typedef struct trial_job {
  const kf_trial *trial;
  kf_prototypes_use *uses[2]; /* of the mapped space and of the original one; NULL: not wanted */
  uint64_t batch;
  kf_answer_fn use;
  void *argument;
} trial_job;

typedef struct trial_workspace {
  int32_t *answers;   /* [batch][top] */
  double *scores;     /* the same */
  kf_chance *chances; /* [batch] */
} trial_workspace;

static void make_workspace(const void *argument, void *workspace, kf_arena *arena) {
  const trial_job *j = argument;
  trial_workspace *s = workspace;
  KF_TAKE(arena, s->answers, j->batch * j->trial->top);
  KF_TAKE(arena, s->scores, j->batch * j->trial->top);
  KF_TAKE(arena, s->chances, j->batch);
}

/* --- probabilities ---------------------------------------------------------------------------- */

typedef struct chance_job {
  const kf_prototypes *prototypes;
  const kf_judged *rows;
  kf_chance *to;
} chance_job;

static void set_chance(void *argument, uint64_t row, const kf_odds *odds,
                       const kf_row_scores *scores) {
  const chance_job *j = argument;
  const kf_prototypes *p = j->prototypes;
  const kf_right *right = &j->rows->right[row];
  double t = odds->temperature, best = -INFINITY, sum = 0;
  double squares = odds->squares; /* of the wrong classes, soon */
  for (uint32_t i = 0; i < right->n; i++)
    best = fmax(best, kf_row_score(scores, kf_prototypes_place(p, right->classes[i])));
  for (uint32_t i = 0; i < right->n; i++) {
    double score = kf_row_score(scores, kf_prototypes_place(p, right->classes[i]));
    sum += kf_exp(t * (score - best));
    squares -= kf_exp(2 * t * (score - odds->most));
  }
  kf_chance *c = &j->to[row];
  c->answer = 1 / odds->sum;
  c->right = sum * kf_exp(t * (best - odds->most)) / odds->sum;
  c->nll = kf_ln(odds->sum) - t * (best - odds->most) - kf_ln(sum);
  c->brier = squares / (odds->sum * odds->sum) + (1 - c->right) * (1 - c->right);
}

static kf_status answer_with_chances(kf_prototypes_use *use, uint32_t top, const kf_judged *rows,
                                     trial_workspace *s, kf_err *err) {
  float *queries = kf_alloc(rows->n * use->p->dim, sizeof *queries);
  if (queries == NULL) return kf_fail_memory(err);
  chance_job j = {use->p, rows, s->chances};
  kf_status status = kf_prototypes_queries(use, rows->rows, rows->norm2, rows->n, queries, err);
  if (status == KF_OK)
    status = kf_prototypes_find(use, queries, rows->n, top, s->answers, s->scores, err);
  if (status == KF_OK) status = kf_prototypes_odds(use, queries, rows->n, set_chance, &j, err);
  kf_free(queries);
  return status;
}

/* --- the pass --------------------------------------------------------------------------------- */

static kf_status answer(void *argument, const kf_judged *rows, kf_err *err) {
  const trial_job *j = argument;
  trial_workspace *s = rows->workspace;
  uint32_t top = j->trial->top;
  bool chances = j->trial->temperature > 0;
  for (int space = 0; space < 2; space++) {
    kf_prototypes_use *use = j->uses[space];
    if (use == NULL) continue;
    KF_TRY(chances ? answer_with_chances(use, top, rows, s, err)
                   : kf_prototypes_nearest(use, rows->rows, rows->norm2, rows->n, top, s->answers,
                                           s->scores, err));
    for (uint64_t i = 0; i < rows->n; i++) {
      kf_answer row = {.row = rows->number[i],
                       .right = rows->right[i],
                       .raw = use->p->raw,
                       .answers = s->answers + i * top,
                       .scores = s->scores + i * top,
                       .top = top,
                       .chance = chances ? &s->chances[i] : NULL,
                       .worker = rows->worker};
      j->use(j->argument, rows->tally, &row);
    }
  }
  return KF_OK;
}

static kf_status run_pass(const kf_trial *trial, const kf_data *data, bool unjudged, trial_job *j,
                          kf_eval_result *counts) {
  j->batch = BATCH;
  for (int i = 0; i < 2; i++)
    if (j->uses[i] != NULL && j->uses[i]->batch > j->batch) j->batch = j->uses[i]->batch;
  kf_judged_pass pass = {.what = "eval",
                         .rows = j->batch,
                         .judge = &trial->judge,
                         .unjudged = unjudged,
                         .shared = true,
                         .work = answer,
                         .argument = j,
                         .workspace_size = sizeof(trial_workspace),
                         .make_workspace = make_workspace};
  return kf_each_judged(trial->ctx, data, &pass, counts);
}

kf_status kf_trial_run(const kf_trial *trial, const kf_data *others, kf_answer_fn use,
                       void *argument, kf_eval_result *counts) {
  const kf_data *data = others != NULL ? others : trial->data;
  const kf_prototypes *spaces[] = {trial->mapped, trial->raw};
  kf_prototypes_use uses[2];
  trial_job j = {.trial = trial, .use = use, .argument = argument};
  kf_prototypes_plan plan = {
      .rows = data->rows, .top = trial->top, .temperature = trial->temperature, .squares = true};
  kf_status status = KF_OK;
  for (int i = 0; status == KF_OK && i < 2; i++) {
    if (spaces[i] == NULL) continue;
    status = kf_prototypes_begin(trial->ctx, spaces[i], &plan, &uses[i]);
    if (status == KF_OK) j.uses[i] = &uses[i];
  }
  if (status == KF_OK) status = run_pass(trial, data, others != NULL, &j, counts);
  for (int i = 0; i < 2; i++)
    if (j.uses[i] != NULL) status = kf_prototypes_end(trial->ctx, j.uses[i], status);
  if (status != KF_OK || others != NULL) return status;
  return kf_check_scored(&trial->judge, counts, &trial->ctx->err);
}

kf_status kf_trial_once(kf_ctx *ctx, const kf_model *model, const kf_data *data,
                        const kf_eval_options *options, uint32_t top, kf_answer_fn use,
                        void *argument, kf_eval_result *counts) {
  kf_trial trial;
  kf_eval_result result;
  kf_status status = kf_trial_start(&trial, ctx, model, data, options, top);
  if (status == KF_OK) status = kf_trial_run(&trial, NULL, use, argument, &result);
  if (status == KF_OK) *counts = result;
  kf_trial_clear(&trial);
  return status;
}

/* --- accuracy --------------------------------------------------------------------------------- */

static void count_hits(void *argument, kf_tally *tally, const kf_answer *row) {
  (void)argument;
  kf_eval_result *sum = &tally->sum;
  uint32_t rank = kf_right_rank(&row->right, row->answers, row->top);
  *(row->raw ? &sum->raw_top1 : &sum->top1) += rank == 0;
  *(row->raw ? &sum->raw_top5 : &sum->top5) += rank < row->top;
}

kf_status kf_eval(kf_ctx *ctx, const kf_model *model, const kf_data *data,
                  const kf_eval_options *options, kf_eval_result *out) {
  KF_ENTER(ctx, model != NULL && data != NULL && out != NULL);
  KF_OPTIONS(kf_eval_options, o, options);
  return kf_trial_once(ctx, model, data, &o, KF_TOP, count_hits, NULL, out);
}
