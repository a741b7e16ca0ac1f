/* sweep.c - accuracy over lambda, dimensions, k, metrics and class sets. A plan (sweep_plan.c) is
 * run on test rows, by leave-one-out, or on every fold, whose hits are added up. */
#include "choose/sweep.h"

#include <string.h>

static kf_status check_data(const kf_stats *stats, const kf_data *train, const kf_data *test,
                            const kf_sweep_options *o, kf_err *err) {
  bool neighbours = o->k != NULL && o->n_k > 0;
  if (train != NULL) KF_TRY(kf_check_statistics_of(stats, train, err));
  if (train == NULL && (test == NULL || neighbours))
    return kf_fail(err, KF_ERR_ARG, "a sweep over %s needs the training rows",
                   test == NULL ? "folds" : "neighbours");
  if (o->between != NULL && neighbours)
    return kf_fail(err, KF_ERR_ARG, "neighbours cannot be used with S_b from other statistics");
  if (test == NULL) {
    if (o->truth == NULL && o->between == NULL) return KF_OK;
    return kf_fail(err, KF_ERR_ARG, "%s needs test data",
                   o->truth != NULL ? "a truth" : "S_b from other statistics");
  }
  if (o->leave_one_out)
    return kf_fail(err, KF_ERR_ARG, "leave-one-out cannot be used with test data");
  KF_TRY(kf_data_refuse_mapped(test, err));
  KF_TRY(kf_origin_agree(&test->origin, &stats->origin, err));
  if (test->dim != stats->dim)
    return kf_fail(err, KF_ERR_DATA, "the test rows have %u columns, but the training rows %u",
                   test->dim, stats->dim);
  return KF_OK;
}

/* --- folds ----------------------------------------------------------------------------------- */

static kf_status run_fold(void *argument, const kf_fold *fold) {
  const kf_sweep_job *j = argument;
  kf_sweep_job job = *j;
  job.stats = fold->without;
  job.train = fold->others;
  job.fold = &fold->judged;
  kf_data *judged;
  KF_TRY(kf_data_new_pick(j->train, job.fold->row, job.fold->n, &judged, &j->ctx->err));
  job.test = judged;
  kf_status status = kf_sweep_run(&job);
  kf_data_free(judged);
  return status;
}

static kf_status run_folds(kf_sweep_job *j, const kf_folding *folding) {
  kf_sweep *s = j->sweep;
  KF_TRY(kf_each_fold(j->ctx, folding, &s->counts.rows));
  for (size_t i = 0; i < s->n_cells; i++)
    if (s->cells[i].n == 0)
      return kf_fail(&j->ctx->err, KF_ERR_MATH,
                     "folds cannot be used: no class that takes part has rows in two of them");
  return KF_OK;
}

/* --- kf_sweep_new ---------------------------------------------------------------------------- */

static kf_status run_plan(kf_sweep_job *j) {
  uint64_t sample = j->plan->options.sample;
  kf_folding folding = {.stats = j->stats,
                        .data = j->train,
                        .folds = j->sweep->folds,
                        .sample = sample,
                        .others = true,
                        .work = run_fold,
                        .argument = j};
  uint32_t taken = j->sweep->folds > 0 ? kf_folds_taken(&folding, j->stats->rows) : 1;
  uint64_t rows = j->test != NULL ? j->test->rows : j->stats->rows;
  j->judged = (double)(sample > 0 && sample < rows ? sample : rows) / taken;
  kf_stage_begin_parts(j->stage, j->ctx, "sweep", kf_sweep_cost(j) * taken);
  kf_status status = j->sweep->folds > 0 ? run_folds(j, &folding) : kf_sweep_run(j);
  if (status == KF_OK) status = kf_stage_part(j->stage, 0);
  kf_stage_end(j->stage);
  return status;
}

/* With test rows, a sample of them. */
static kf_status run_sample(kf_sweep_job *j) {
  kf_test_sample sample = {0};
  const kf_truth *truth = j->truth;
  kf_status status = KF_OK;
  if (j->test != NULL)
    status = kf_test_sample_take(j->ctx, j->test, truth, j->plan->options.sample, &sample);
  if (sample.data != NULL) j->test = sample.data, j->truth = sample.truth;
  if (status == KF_OK) status = run_plan(j);
  kf_test_sample_clear(&sample);
  return status;
}

static kf_status make(kf_sweep_job *j, const kf_sweep_options *o, kf_sweep_plan *plan,
                      kf_sweep **out) {
  kf_ctx *ctx = j->ctx;
  bool folds = j->test == NULL && !o->leave_one_out;
  double mean;
  KF_TRY(kf_measure_within(ctx, j->stats, &mean, NULL));
  mean /= (double)j->stats->dim;
  KF_TRY(kf_sweep_plan_make(ctx, plan, o, j->stats, j->train != NULL, folds, mean));
  kf_sweep *s = j->sweep = kf_alloc_tail(sizeof *s, plan->n_cells, sizeof *s->cells);
  if (s == NULL) return kf_fail_memory(&ctx->err);
  if (folds) s->folds = o->folds > 0 ? o->folds : KF_DEFAULT_FOLDS;
  s->mean_eigenvalue = mean;
  s->n_cells = plan->n_cells;
  s->cells = (kf_sweep_cell *)(s + 1);
  memcpy(s->cells, plan->cells, plan->n_cells * sizeof *s->cells);
  KF_HAND_OUT(run_sample(j), out, s, kf_sweep_free);
}

kf_status kf_sweep_new(kf_ctx *ctx, const kf_stats *stats, const kf_data *train,
                       const kf_data *test, const kf_sweep_options *options, kf_sweep **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, stats != NULL && out != NULL);
  KF_OPTIONS(kf_sweep_options, o, options);
  KF_TRY(check_data(stats, train, test, &o, err));
  kf_sweep_plan plan = {0};
  kf_stage stage;
  kf_sweep_job j = {.ctx = ctx,
                    .plan = &plan,
                    .stats = stats,
                    .train = train,
                    .test = test,
                    .truth = o.truth,
                    .stage = &stage};
  kf_status status = make(&j, &o, &plan, out);
  kf_sweep_plan_clear(&plan);
  return status;
}

void kf_sweep_free(kf_sweep *sweep) { kf_free(sweep); }
