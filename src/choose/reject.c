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

/* Rounding may make a square near 0 negative. NaN stays NaN. */
static double root_of(double square) { return square < 0 ? 0 : sqrt(square); }

typedef struct best_scores {
  const kf_stats *stats;
  double *at; /* [rows of the data set] larger is better; NaN: not left out */
} best_scores;

static void see(void *argument, uint64_t row, int32_t label, const double *scores) {
  (void)label;
  const best_scores *best = argument;
  best->at[row] = best_of(scores, best->stats->n_classes);
}

static kf_status leave_out(best_scores *best, kf_fitter *fitter, const kf_data *data,
                           const kf_reject_options *o) {
  kf_left_out_options by = {.metric = o->metric,
                            .centre = o->centre,
                            .sample = o->sample,
                            .groups = o->groups,
                            .text = o->text};
  kf_left_out_trial trial = {.lambda = o->lambda,
                             .hits = true,
                             .prior = o->prior,
                             .what = "reject",
                             .see = see,
                             .argument = best};
  kf_left_out_point point = {.alpha = o->alpha};
  kf_left_out *l;
  uint64_t n = 0;
  KF_TRY(kf_left_out_new(fitter, data, &by, &l));
  kf_status status =
      kf_left_out_counts(l).n > 0 ? kf_left_out_try(l, &trial, &point, 1, &n) : KF_OK;
  kf_left_out_free(l);
  double unit = kf_distance_unit(best->stats);
  for (uint64_t i = 0; o->metric == KF_METRIC_EUCLIDEAN && i < data->rows; i++)
    best->at[i] = -root_of(-2 * best->at[i] / unit);
  return status;
}

/* Clamps a threshold to the possible scores, which leave-one-out may exceed by rounding. */
static double limit(double score, const kf_reject_options *o) {
  if (o->metric == KF_METRIC_EUCLIDEAN) return fmin(-score, DBL_MAX);
  double most = o->text != NULL ? 1 + o->alpha : 1, least = o->prior > 0 ? score : -most;
  return fmax(least, fmin(most, score));
}

kf_status kf_reject_threshold(kf_fitter *fitter, const kf_data *data, const kf_reject_options *o,
                              double *out) {
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
  if (status == KF_OK) *out = limit(kf_score_reached_by(best.at, n, o->share), o);
  kf_free(best.at);
  return status;
}
