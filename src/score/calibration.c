/* calibration.c - how far probabilities can be trusted: log-likelihood, Brier score and calibration
 * error, in one pass without memory for each row.
 *
 * The values of a row are rounded to multiples of 2^-40 and added as integers, so the result does
 * not depend on which worker has which rows. */
#include "score/evaluation.h"

#include <math.h>

#define BINS KF_CALIBRATION_BINS
#define ONE  0x1p40

/* x >= 0, capped at 2^20, which is more than any log-likelihood of interest. */
static kf_i128 fixed(double x) { return (int64_t)floor((x < 0x1p20 ? x : 0x1p20) * ONE + 0.5); }

/* The bin of a probability above 0: (0, 1/15], (1/15, 2/15], … */
static unsigned bin_of(double p) {
  unsigned bin = (unsigned)(p * BINS);
  if (bin >= BINS) bin = BINS - 1;
  if (bin > 0 && p * BINS <= bin) bin--;
  return bin;
}

void kf_chance_add(kf_chance_sums *sums, const kf_chance *c, bool right) {
  unsigned bin = bin_of(c->answer);
  sums->nll += fixed(c->nll > 0 ? c->nll : 0);
  sums->brier += fixed(c->brier > 0 ? c->brier : 0);
  sums->n[bin]++;
  sums->top1[bin] += right;
  sums->confidence[bin] += fixed(c->answer);
}

static void join_sums(kf_chance_sums *to, kf_chance_sums *from) {
  to->nll += from->nll;
  to->brier += from->brier;
  for (unsigned b = 0; b < BINS; b++) {
    to->n[b] += from->n[b];
    to->top1[b] += from->top1[b];
    to->confidence[b] += from->confidence[b];
  }
  *from = (kf_chance_sums){0};
}

kf_status kf_chance_add_ranks(kf_ctx *ctx, kf_chance_sums *sums, unsigned workers) {
  if (!kf_is_shared(&ctx->ranks)) return KF_OK;
  for (unsigned w = 1; w < workers; w++) join_sums(&sums[0], &sums[w]);
  kf_i128 both[] = {sums->nll, sums->brier};
  KF_TRY(kf_sum_i128(ctx, KF_OK, both, 2));
  sums->nll = both[0];
  sums->brier = both[1];
  KF_TRY(kf_sum_u64(ctx, KF_OK, sums->n, BINS));
  KF_TRY(kf_sum_u64(ctx, KF_OK, sums->top1, BINS));
  return kf_sum_i128(ctx, KF_OK, sums->confidence, BINS);
}

static double mean(kf_i128 sum, uint64_t n) { return (double)sum / ONE / (double)n; }

void kf_calibration_fill(kf_calibration *out, const kf_chance_sums *sums, unsigned workers,
                         double temperature, const kf_eval_result *counts) {
  kf_i128 nll = 0, brier = 0, all = 0;
  double error = 0;
  for (unsigned w = 0; w < workers; w++) {
    nll += sums[w].nll;
    brier += sums[w].brier;
  }
  for (unsigned b = 0; b < BINS; b++) {
    kf_calibration_bin *bin = &out->bins[b];
    kf_i128 confidence = 0;
    *bin = (kf_calibration_bin){.low = (double)b / BINS, .high = (double)(b + 1) / BINS};
    for (unsigned w = 0; w < workers; w++) {
      bin->n += sums[w].n[b];
      bin->top1 += sums[w].top1[b];
      confidence += sums[w].confidence[b];
    }
    all += confidence;
    if (bin->n == 0) continue;
    bin->confidence = mean(confidence, bin->n);
    double off = (double)bin->top1 - bin->confidence * (double)bin->n;
    error += off < 0 ? -off : off;
  }
  out->totals = *counts;
  out->temperature = temperature;
  out->nll = mean(nll, counts->n);
  out->brier = mean(brier, counts->n);
  out->ece = error / (double)counts->n;
  out->confidence = mean(all, counts->n);
}

/* --- kf_calibration_new ----------------------------------------------------------------------- */

static void add(void *argument, kf_tally *tally, const kf_answer *row) {
  kf_chance_sums *sums = argument;
  uint32_t position = kf_right_position(&row->right, row->answers, row->top);
  tally->sum.top1 += position == 0;
  tally->sum.top5 += position < row->top;
  kf_chance_add(&sums[row->worker], row->chance, position == 0);
}

static kf_status calibrate(kf_evaluation *e, double given, kf_calibration *out) {
  kf_err *err = &e->ctx->err;
  unsigned workers = e->ctx->threads;
  kf_eval_result counts;
  const kf_prototypes *p = e->mapped != NULL ? e->mapped : e->raw;
  KF_TRY(kf_prototypes_temperature(p, given, &e->temperature, err));
  kf_chance_sums *sums = kf_alloc_zero(workers, sizeof *sums);
  if (sums == NULL) return kf_fail_memory(err);
  kf_status status = kf_evaluation_run(e, NULL, add, sums, &counts);
  if (status == KF_OK) status = kf_chance_add_ranks(e->ctx, sums, workers);
  if (status == KF_OK) kf_calibration_fill(out, sums, workers, e->temperature, &counts);
  kf_free(sums);
  return status;
}

kf_status kf_calibration_new(kf_ctx *ctx, const kf_model *model, const kf_data *data,
                             const kf_analysis_options *options, kf_calibration **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, model != NULL && data != NULL && out != NULL);
  KF_OPTIONS(kf_analysis_options, o, options);
  kf_eval_options space = kf_one_space(&o);
  kf_calibration *result = kf_alloc_zero(1, sizeof *result);
  if (result == NULL) return kf_fail_memory(err);
  kf_evaluation e;
  kf_status status = kf_evaluation_start(&e, ctx, model, data, &space, KF_TOP);
  if (status == KF_OK) status = calibrate(&e, o.temperature, result);
  kf_evaluation_clear(&e);
  KF_HAND_OUT(status, out, result, kf_calibration_free);
}

void kf_calibration_free(kf_calibration *calibration) { kf_free(calibration); }
