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
  kf_answer_fn use;
  void *argument;
} trial_job;

typedef struct trial_scratch {
  int32_t answers[BATCH * KF_TOP];
  double scores[BATCH * KF_TOP];
  kf_chance chances[BATCH];
} trial_scratch;

/* --- probabilities ---------------------------------------------------------------------------- */

typedef struct chance_job {
  const kf_prototypes *prototypes;
  double temperature;
  const kf_judged *rows;
  kf_chance *to;
} chance_job;

static void set_chance(void *argument, uint64_t row, const double *scores) {
  const chance_job *j = argument;
  const kf_prototypes *p = j->prototypes;
  const kf_right *right = &j->rows->right[row];
  double t = j->temperature, best = -INFINITY, sum = 0;
  kf_odds odds = kf_odds_of(scores, p->n, t);
  double squares = kf_sum_exp(scores, p->n, odds.most, 2 * t); /* of the wrong classes, soon */
  for (uint32_t i = 0; i < right->n; i++)
    best = fmax(best, scores[kf_prototypes_place(p, right->classes[i])]);
  for (uint32_t i = 0; i < right->n; i++) {
    double score = scores[kf_prototypes_place(p, right->classes[i])];
    sum += kf_exp(t * (score - best));
    squares -= kf_exp(2 * t * (score - odds.most));
  }
  kf_chance *c = &j->to[row];
  c->answer = 1 / odds.sum;
  c->right = sum * kf_exp(t * (best - odds.most)) / odds.sum;
  c->nll = kf_ln(odds.sum) - t * (best - odds.most) - kf_ln(sum);
  c->brier = squares / (odds.sum * odds.sum) + (1 - c->right) * (1 - c->right);
}

static kf_status answer_with_chances(const kf_prototypes *p, double temperature, uint32_t top,
                                     const kf_judged *rows, trial_scratch *s, kf_err *err) {
  float *queries = kf_alloc(rows->n * p->dim, sizeof *queries);
  if (queries == NULL) return kf_fail_memory(err);
  chance_job j = {p, temperature, rows, s->chances};
  kf_status status = kf_prototypes_queries(p, rows->rows, rows->norm2, rows->n, queries, err);
  if (status == KF_OK)
    status = kf_prototypes_find(p, queries, rows->n, top, s->answers, s->scores, err);
  if (status == KF_OK) status = kf_prototypes_scores(p, queries, rows->n, set_chance, &j, err);
  kf_free(queries);
  return status;
}

/* --- the pass --------------------------------------------------------------------------------- */

static kf_status answer(void *argument, const kf_judged *rows, kf_err *err) {
  const trial_job *j = argument;
  const kf_prototypes *spaces[] = {j->trial->mapped, j->trial->raw};
  trial_scratch *s = rows->scratch;
  uint32_t top = j->trial->top;
  double temperature = j->trial->temperature;
  for (int space = 0; space < 2; space++) {
    const kf_prototypes *p = spaces[space];
    if (p == NULL) continue;
    KF_TRY(temperature > 0 ? answer_with_chances(p, temperature, top, rows, s, err)
                           : kf_prototypes_nearest(p, rows->rows, rows->norm2, rows->n, top,
                                                   s->answers, s->scores, err));
    for (uint64_t i = 0; i < rows->n; i++) {
      kf_answer row = {.row = rows->number[i],
                       .right = rows->right[i],
                       .raw = p->raw,
                       .answers = s->answers + i * top,
                       .scores = s->scores + i * top,
                       .top = top,
                       .chance = temperature > 0 ? &s->chances[i] : NULL,
                       .worker = rows->worker};
      j->use(j->argument, rows->tally, &row);
    }
  }
  return KF_OK;
}

kf_status kf_trial_run(const kf_trial *trial, const kf_data *others, kf_answer_fn use,
                       void *argument, kf_eval_result *counts) {
  trial_job j = {.trial = trial, .use = use, .argument = argument};
  kf_judged_pass pass = {.what = "eval",
                         .rows = BATCH,
                         .judge = &trial->judge,
                         .unjudged = others != NULL,
                         .shared = true,
                         .work = answer,
                         .argument = &j,
                         .scratch_size = sizeof(trial_scratch)};
  KF_TRY(kf_each_judged(trial->ctx, others != NULL ? others : trial->data, &pass, counts));
  return others != NULL ? KF_OK : kf_check_scored(&trial->judge, counts, &trial->ctx->err);
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
