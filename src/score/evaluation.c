/* evaluation.c - the nearest prototypes of judged rows in each requested space, and their accuracy.
 * Every row is passed to a callback with its answers; nothing has rows times classes entries. */
#include "score/evaluation.h"

#include <math.h>

#define BATCH KF_CLASSIFY_ROWS

kf_status kf_evaluation_start(kf_evaluation *e, kf_ctx *ctx, const kf_model *model,
                              const kf_data *data, const kf_eval_options *o, uint32_t top) {
  bool mapped = o->include_mapped != KF_OFF, raw = o->include_raw != KF_OFF;
  *e = (kf_evaluation){.ctx = ctx, .data = data};
  KF_TRY(kf_map_check_data(&model->map, data, &ctx->err));
  kf_known known = kf_known_model(model, mapped ? o->part : KF_PART_IMAGES);
  KF_TRY(kf_judge_start(ctx, &e->judge, known, o->set, data, data->rows, o->truth));
  const unsigned char *mask = e->judge.known.mask;
  if (mapped) KF_TRY(kf_prototypes_new(ctx, model, o->metric, false, o->part, mask, &e->mapped));
  if (raw) KF_TRY(kf_prototypes_new(ctx, model, o->metric, true, KF_PART_IMAGES, mask, &e->raw));
  const kf_prototypes *any = mapped ? e->mapped : e->raw;
  e->top = any != NULL && any->n < top ? any->n : top;
  return KF_OK;
}

void kf_evaluation_clear(kf_evaluation *e) {
  kf_judge_clear(&e->judge);
  kf_prototypes_free(e->mapped);
  kf_prototypes_free(e->raw);
  *e = (kf_evaluation){0};
}

typedef struct evaluation_job {
  const kf_evaluation *e;
  kf_prototypes_use *uses[2]; /* of the mapped space and of the original one; NULL: not wanted */
  uint64_t batch;
  kf_answer_fn use;
  void *argument;
} evaluation_job;

typedef struct evaluation_workspace {
  int32_t *answers;   /* [batch][top] */
  double *scores;     /* the same */
  kf_chance *chances; /* [batch] */
} evaluation_workspace;

static void make_workspace(const void *argument, void *workspace, kf_arena *arena) {
  const evaluation_job *j = argument;
  evaluation_workspace *s = workspace;
  KF_TAKE(arena, s->answers, j->batch * j->e->top);
  KF_TAKE(arena, s->scores, j->batch * j->e->top);
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
  double squares = odds->squares; /* the right classes are subtracted below */
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
                                     evaluation_workspace *s, kf_err *err) {
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
  const evaluation_job *j = argument;
  evaluation_workspace *s = rows->workspace;
  uint32_t top = j->e->top;
  bool chances = j->e->temperature > 0;
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

static kf_status run_pass(const kf_evaluation *e, const kf_data *data, bool unjudged,
                          evaluation_job *j, kf_eval_result *counts) {
  j->batch = BATCH;
  for (int i = 0; i < 2; i++)
    if (j->uses[i] != NULL && j->uses[i]->batch > j->batch) j->batch = j->uses[i]->batch;
  kf_judged_pass pass = {.what = "eval",
                         .rows = j->batch,
                         .judge = &e->judge,
                         .unjudged = unjudged,
                         .shared = true,
                         .work = answer,
                         .argument = j,
                         .workspace_size = sizeof(evaluation_workspace),
                         .make_workspace = make_workspace};
  return kf_each_judged(e->ctx, data, &pass, counts);
}

kf_status kf_evaluation_run(const kf_evaluation *e, const kf_data *others, kf_answer_fn use,
                            void *argument, kf_eval_result *counts) {
  const kf_data *data = others != NULL ? others : e->data;
  const kf_prototypes *spaces[] = {e->mapped, e->raw};
  kf_prototypes_use uses[2];
  evaluation_job j = {.e = e, .use = use, .argument = argument};
  kf_prototypes_plan plan = {
      .rows = data->rows, .top = e->top, .temperature = e->temperature, .squares = true};
  kf_status status = KF_OK;
  for (int i = 0; status == KF_OK && i < 2; i++) {
    if (spaces[i] == NULL) continue;
    status = kf_prototypes_begin(e->ctx, spaces[i], &plan, &uses[i]);
    if (status == KF_OK) j.uses[i] = &uses[i];
  }
  if (status == KF_OK) status = run_pass(e, data, others != NULL, &j, counts);
  for (int i = 0; i < 2; i++)
    if (j.uses[i] != NULL) status = kf_prototypes_end(e->ctx, j.uses[i], status);
  if (status != KF_OK || others != NULL) return status;
  return kf_check_scored(&e->judge, counts, &e->ctx->err);
}

kf_status kf_evaluate(kf_ctx *ctx, const kf_model *model, const kf_data *data,
                      const kf_eval_options *options, uint32_t top, kf_answer_fn use,
                      void *argument, kf_eval_result *counts) {
  kf_evaluation e;
  kf_eval_result result;
  kf_status status = kf_evaluation_start(&e, ctx, model, data, options, top);
  if (status == KF_OK) status = kf_evaluation_run(&e, NULL, use, argument, &result);
  if (status == KF_OK) *counts = result;
  kf_evaluation_clear(&e);
  return status;
}

/* --- accuracy --------------------------------------------------------------------------------- */

static void count_hits(void *argument, kf_tally *tally, const kf_answer *row) {
  (void)argument;
  kf_eval_result *sum = &tally->sum;
  uint32_t position = kf_right_position(&row->right, row->answers, row->top);
  *(row->raw ? &sum->raw_top1 : &sum->top1) += position == 0;
  *(row->raw ? &sum->raw_top5 : &sum->top5) += position < row->top;
}

kf_status kf_eval(kf_ctx *ctx, const kf_model *model, const kf_data *data,
                  const kf_eval_options *options, kf_eval_result *out) {
  KF_ENTER(ctx, model != NULL && data != NULL && out != NULL);
  KF_OPTIONS(kf_eval_options, o, options);
  return kf_evaluate(ctx, model, data, &o, KF_TOP, count_hits, NULL, out);
}
