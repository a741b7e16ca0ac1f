/* left_out_errors.c - what a model answers to its own training rows, each left out in turn: scores
 * for whoever wants them, and errors by class, as if all these rows were test rows.
 *
 * A few thousand rows choose lambda, but the rows that go wrong are looked at one by one, so as
 * many are left out here as for counting hits. */
#include "choose/left_out.h"

kf_status kf_left_out_see(kf_fitter *fitter, const kf_data *data, const kf_left_out_model *model,
                          kf_left_out_trial *trial, kf_left_out_point *point, uint64_t *n) {
  kf_left_out_options by = {.metric = model->metric,
                            .centre = model->centre,
                            .sample = model->sample,
                            .groups = model->groups,
                            .text = model->text,
                            .by_hits = model->many};
  trial->lambda = model->lambda;
  trial->hits = true;
  trial->prior = model->prior;
  *point = (kf_left_out_point){.alpha = model->alpha};
  *n = 0;
  kf_left_out *l;
  KF_TRY(kf_left_out_new(fitter, data, &by, &l));
  kf_status status = kf_left_out_counts(l).n > 0 ? kf_left_out_try(l, trial, point, 1, n) : KF_OK;
  kf_left_out_free(l);
  return status;
}

/* --- errors ----------------------------------------------------------------------------------- */

typedef struct error_job {
  kf_outcomes all;
  uint32_t n_classes; /* with rows */
  bool euclidean;
  double unit; /* of distances */
  double temperature;
} error_job;

/* The best classes, in order; of equal scores the lower class. Returns how many. */
static uint32_t find_best(const double *scores, uint32_t n, int32_t *answers, double *best) {
  uint32_t top = 0;
  for (uint32_t k = 0; k < n; k++) {
    if (isnan(scores[k]) || (top == KF_TOP && !(scores[k] > best[top - 1]))) continue;
    uint32_t at = top < KF_TOP ? top++ : top - 1;
    for (; at > 0 && scores[k] > best[at - 1]; at--) {
      answers[at] = answers[at - 1];
      best[at] = best[at - 1];
    }
    answers[at] = (int32_t)k;
    best[at] = scores[k];
  }
  return top;
}

static kf_chance chance_of(const error_job *j, const double *scores, int32_t own, double most) {
  double t = j->temperature, sum = 0, squares = 0;
  for (uint32_t k = 0; k < j->n_classes; k++) {
    double power = isnan(scores[k]) ? 0 : kf_exp(t * (scores[k] - most));
    sum += power;
    squares += (int32_t)k == own ? 0 : power * power;
  }
  double right = kf_exp(t * (scores[own] - most)) / sum;
  return (kf_chance){.answer = 1 / sum,
                     .right = right,
                     .nll = kf_ln(sum) - t * (scores[own] - most),
                     .brier = squares / (sum * sum) + (1 - right) * (1 - right)};
}

static void see(void *argument, uint64_t row, int32_t label, const double *scores, size_t worker) {
  const error_job *j = argument;
  int32_t answers[KF_TOP];
  double best[KF_TOP] = {0};
  uint32_t top = find_best(scores, j->n_classes, answers, best);
  bool sure = j->temperature > 0;
  kf_chance chance = {0};
  if (sure) chance = chance_of(j, scores, label, best[0]);
  for (uint32_t i = 0; j->euclidean && i < top; i++)
    best[i] = kf_left_out_distance(best[i], j->unit);
  kf_outcomes_add(&j->all, &(kf_answer){.row = row,
                                        .right = {&label, 1},
                                        .answers = answers,
                                        .scores = best,
                                        .top = top,
                                        .chance = sure ? &chance : NULL,
                                        .worker = worker});
}

static kf_status find_errors(error_job *j, kf_fitter *fitter, const kf_data *data,
                             const kf_left_out_model *model, kf_arena *arena, kf_analysis *out) {
  kf_ctx *ctx = fitter->ctx;
  kf_left_out_trial trial = {.what = "errors", .see = see, .argument = j};
  kf_left_out_point point;
  kf_eval_result totals = {.rows = data->rows, .n_unlabelled = data->unlabelled};
  kf_outcomes_take(&j->all, ctx, data->rows, true, arena);
  j->all.echoes = ctx->ranks.rank > 0; /* every rank sees every row */
  if (arena->failed) return kf_fail_memory(&ctx->err);
  kf_status status = kf_left_out_see(fitter, data, model, &trial, &point, &totals.n);
  totals.top1 = point.top1;
  totals.top5 = point.top5;
  double temperature = totals.n > 0 ? j->temperature : 0;
  return kf_outcomes_end(ctx, status, &j->all, data, temperature, &totals, out);
}

kf_status kf_left_out_errors(kf_fitter *fitter, const kf_data *data, const kf_left_out_model *model,
                             double temperature, kf_analysis **out) {
  kf_ctx *ctx = fitter->ctx;
  kf_arena arena = {0};
  error_job j = {.n_classes = fitter->within->n_classes,
                 .euclidean = model->metric == KF_METRIC_EUCLIDEAN,
                 .unit = kf_distance_unit(fitter->within),
                 .temperature = temperature};
  *out = NULL;
  kf_analysis *analysis = kf_analysis_empty(model->n_classes, &ctx->err);
  if (analysis == NULL) return KF_ERR_MEM;
  kf_status status = find_errors(&j, fitter, data, model, &arena, analysis);
  kf_arena_free(&arena);
  if (status != KF_OK || analysis->totals.n == 0)
    kf_analysis_free(analysis);
  else
    *out = analysis;
  return status;
}
