/* eval.c - nearest-prototype accuracy over a data set, in the mapped and in the original space. */
#include "score/trial.h"

#include <math.h>

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
  kf_trial trial;
  kf_eval_result result = {0};
  kf_status status = kf_trial_start(&trial, ctx, model, data, &o, KF_TOP);
  if (status == KF_OK) status = kf_trial_run(&trial, count_hits, NULL, &result);
  if (status == KF_OK) *out = result;
  kf_trial_clear(&trial);
  return status;
}

void kf_interval95(uint64_t hits, uint64_t n, double *low, double *high) {
  const double z = 1.959963984540054; /* the 97.5 % point of the normal distribution */
  if (n == 0) {
    *low = 0;
    *high = 1;
    return;
  }
  double p = (double)hits / (double)n, m = (double)n;
  double centre = (p + z * z / (2 * m)) / (1 + z * z / m);
  double half = z * sqrt(p * (1 - p) / m + z * z / (4 * m * m)) / (1 + z * z / m);
  *low = hits == 0 ? 0 : centre - half;
  *high = hits == n ? 1 : centre + half;
}
