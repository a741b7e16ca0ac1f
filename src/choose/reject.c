/* reject.c - chooses, from the training rows, the score below which a row belongs to no known
 * class.
 *
 * Each row is left out in turn, and the score of its best class, right or wrong, is recorded: new
 * rows of known classes will have such scores. The threshold is the largest one that the given
 * share reaches, an exact quantile. docs/probabilities.md explains why it is on the score and not
 * on the probability or the margin. */
#include "choose/choose.h"
#include "choose/left_out.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

static int by_value(const void *a, const void *b) {
  const double *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

double kf_score_reached_by(double *scores, uint64_t n, double share) {
  qsort(scores, n, sizeof *scores, by_value);
  uint64_t kept = (uint64_t)ceil(share * (double)n);
  if (kept < 1) kept = 1;
  return scores[kept < n ? n - kept : 0];
}

/* The largest of n scores, ignoring NaN; NaN if there is none. */
static double best_of(const double *scores, uint32_t n) {
  double best = (double)NAN;
  for (uint32_t k = 0; k < n; k++)
    if (!isnan(scores[k]) && !(scores[k] <= best)) best = scores[k];
  return best;
}

typedef struct best_scores {
  const kf_stats *stats;
  double *at; /* [rows of the data set] larger is better; NaN: not left out */
} best_scores;

static void see(void *argument, uint64_t row, int32_t label, const double *scores, size_t worker) {
  (void)label;
  (void)worker;
  const best_scores *best = argument;
  best->at[row] = best_of(scores, best->stats->n_classes);
}

static kf_status leave_out(best_scores *best, kf_fitter *fitter, const kf_data *data,
                           const kf_left_out_model *model) {
  kf_left_out_trial trial = {.what = "reject", .see = see, .argument = best};
  kf_left_out_point point;
  uint64_t n;
  kf_status status = kf_left_out_see(fitter, data, model, &trial, &point, &n);
  double unit = kf_distance_unit(best->stats);
  for (uint64_t i = 0; model->metric == KF_METRIC_EUCLIDEAN && i < data->rows; i++)
    best->at[i] = -kf_left_out_distance(best->at[i], unit);
  return status;
}

/* Clamps a threshold to the possible scores, which leave-one-out may exceed by rounding. */
static double limit(double score, const kf_left_out_model *o) {
  if (o->metric == KF_METRIC_EUCLIDEAN) return fmin(-score, DBL_MAX);
  double most = o->text != NULL ? 1 + o->alpha : 1, least = o->prior > 0 ? score : -most;
  return fmax(least, fmin(most, score));
}

kf_status kf_reject_threshold(kf_fitter *fitter, const kf_data *data, const kf_left_out_model *o,
                              double share, double *out) {
  kf_ctx *ctx = fitter->ctx;
  best_scores best = {.stats = fitter->within};
  best.at = kf_alloc(data->rows, sizeof *best.at);
  if (best.at == NULL) return kf_fail_memory(&ctx->err);
  for (uint64_t i = 0; i < data->rows; i++) best.at[i] = (double)NAN;
  kf_status status = leave_out(&best, fitter, data, o);
  uint64_t n = 0;
  for (uint64_t i = 0; i < data->rows; i++)
    if (!isnan(best.at[i])) best.at[n++] = best.at[i];
  if (status == KF_OK && n == 0)
    status = kf_fail(&ctx->err, KF_ERR_MATH,
                     "a threshold for unknown rows cannot be chosen: no class has two rows%s",
                     o->groups != NULL ? " of different groups" : "");
  if (status == KF_OK) *out = limit(kf_score_reached_by(best.at, n, share), o);
  kf_free(best.at);
  return status;
}
