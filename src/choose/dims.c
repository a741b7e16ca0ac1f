/* dims.c - choosing the number of dimensions by cross-validation.
 *
 * There is no closed form here: leaving a row out turns all directions. So the rows are divided in
 * stratified folds; a fold's statistics are taken away from the whole exactly, and its rows are
 * ranked for every number of dimensions at once (ranks.c). */
#include "choose/choose.h"

#include <string.h>

typedef struct dim_job {
  kf_ctx *ctx;
  const kf_data *data;
  kf_dim_options options;
  bool euclidean;
  kf_lambda lambda; /* relative: folds have fewer rows, and less scatter */
  uint32_t *dims;   /* [D] 1, 2, … */
  kf_rows all, sample;
  unsigned char *fold; /* [all.n] */
  kf_stats *rest;      /* statistics without the fold at hand */
  kf_score_card card;  /* of the sample */
  uint64_t *top5;      /* [threads][D] */
  uint64_t n_scored;   /* rows of the card that have been filled in */
  kf_quiet quiet;
} dim_job;

/* --- one fold -------------------------------------------------------------------------------- */

/* A row of the fold, and how it is ranked with each number of dimensions. */
static void take_ranks(void *argument, size_t worker, uint64_t row, const unsigned char *ranks) {
  dim_job *job = argument;
  uint32_t dim = job->data->dim;
  for (uint32_t l = 0; l < dim; l++) {
    if (ranks[l] == 0) kf_score_card_set(&job->card, job->n_scored + row, l);
    job->top5[worker * dim + l] += ranks[l] < KF_RANKS;
  }
}

static kf_status rank_fold(dim_job *job, const kf_model *model, const kf_ranker *ranker,
                           const kf_data *data) {
  kf_known known = kf_known_model(model, KF_PART_IMAGES);
  kf_judge judge;
  kf_eval_result counts;
  KF_TRY(kf_judge_start(&judge, &known, data, data->rows, NULL, &job->ctx->err));
  kf_status status = kf_rank_data(job->ctx, ranker, data, &judge, take_ranks, job, &counts);
  kf_judge_clear(&judge);
  job->n_scored += data->rows; /* all of them, see rows_to_score */
  return status;
}

/* Rows of the sample in the fold whose class has others left. */
static kf_status rows_to_score(const dim_job *job, uint32_t number, kf_rows *out) {
  KF_TRY(kf_rows_make(out, job->sample.n, &job->ctx->err));
  for (uint64_t i = 0, s = 0; i < job->all.n && s < job->sample.n; i++) {
    if (job->all.row[i] != job->sample.row[s]) continue;
    int32_t label = job->sample.label[s++];
    if (job->fold[i] == number && job->rest->counts[label] > 0)
      kf_rows_add(out, job->all.row[i], label);
  }
  return KF_OK;
}

static kf_status score_fold(dim_job *job, uint32_t number) {
  kf_ctx *ctx = job->ctx;
  kf_fitter *fitter = NULL;
  kf_model *model = NULL;
  kf_ranker *ranker = NULL;
  kf_rows rows = {0};
  kf_data *data = NULL;
  kf_status status = kf_fitter_new(ctx, job->rest, NULL, &fitter);
  if (status == KF_OK) status = kf_fitter_fit(fitter, job->lambda, 0, job->options.centre, &model);
  if (status == KF_OK)
    status = kf_ranker_new(ctx, model, job->rest, job->euclidean, NULL, job->dims, job->data->dim,
                           &ranker);
  if (status == KF_OK) status = rows_to_score(job, number, &rows);
  if (status == KF_OK) status = kf_data_new_pick(job->data, rows.row, rows.n, &data, &ctx->err);
  if (status == KF_OK) status = rank_fold(job, model, ranker, data);
  kf_data_free(data);
  kf_rows_clear(&rows);
  kf_ranker_free(ranker);
  kf_model_free(model);
  kf_fitter_free(fitter);
  return status;
}

static kf_status run_fold(dim_job *job, uint32_t number) {
  kf_rows rows = {0};
  kf_data *fold = NULL;
  kf_stats *taken = NULL;
  kf_status status = kf_rows_of_fold(&job->all, job->fold, number, false, &rows, &job->ctx->err);
  if (status == KF_OK)
    status = kf_data_new_pick(job->data, rows.row, rows.n, &fold, &job->ctx->err);
  if (status == KF_OK) status = kf_fold_take_out(job->ctx, job->rest, fold, &taken);
  kf_data_free(fold);
  kf_rows_clear(&rows);
  KF_TRY(status);
  status = score_fold(job, number);
  if (status != KF_OK) { /* nothing is needed any more, but the message is */
    kf_stats_free(taken);
    return kf_fold_failed(job->ctx, status, number, (uint32_t)job->quiet.total);
  }
  KF_TRY(kf_fold_put_back(job->ctx, job->rest, taken));
  return kf_quiet_step(&job->quiet);
}

/* --- all of it ------------------------------------------------------------------------------- */

static kf_status prepare(dim_job *job, const kf_stats *stats) {
  kf_ctx *ctx = job->ctx;
  const kf_dim_options *o = &job->options;
  uint64_t labelled;
  job->dims = kf_alloc(stats->dim, sizeof *job->dims);
  job->top5 = kf_alloc_zero((uint64_t)ctx->threads * stats->dim, sizeof *job->top5);
  if (job->dims == NULL || job->top5 == NULL) return kf_fail_memory(&ctx->err);
  for (uint32_t l = 0; l < stats->dim; l++) job->dims[l] = l + 1;
  double mean;
  KF_TRY(kf_mean_eigenvalue(ctx, stats, &mean));
  job->lambda = kf_fold_lambda(o->lambda, mean);
  KF_TRY(kf_sample_rows(ctx, job->data, UINT64_MAX, &job->all, &labelled));
  KF_TRY(kf_sample_rows(ctx, job->data, o->sample > 0 ? o->sample : KF_DEFAULT_SAMPLE, &job->sample,
                        &labelled));
  KF_TRY(kf_fold_rows(&job->all, job->data->n_classes, o->folds > 0 ? o->folds : KF_DEFAULT_FOLDS,
                      &job->fold, &ctx->err));
  KF_TRY(kf_score_card_make(&job->card, job->sample.n, stats->dim, &ctx->err));
  return kf_stats_copy(ctx, stats, &job->rest);
}

static kf_status hand_out(dim_job *job, kf_dim_choice **out) {
  uint32_t dim = job->data->dim;
  kf_err *err = &job->ctx->err;
  job->card.n = job->n_scored;
  if (job->n_scored == 0)
    return kf_fail(err, KF_ERR_MATH,
                   "the number of dimensions cannot be chosen: no class has rows in two folds");
  kf_dim_choice *c = kf_alloc_zero(1, sizeof *c);
  kf_setting *settings = kf_alloc(dim, sizeof *settings);
  if (c != NULL) c->points = kf_alloc_zero(dim, sizeof *c->points);
  if (c == NULL || settings == NULL || c->points == NULL) {
    kf_dim_choice_free(c);
    kf_free(settings);
    return kf_fail_memory(err);
  }
  size_t best, chosen = kf_first_good_enough(&job->card, job->options.tolerance, settings, &best);
  c->dim = (uint32_t)chosen + 1;
  c->best = (uint32_t)best + 1;
  c->folds = job->options.folds > 0 ? job->options.folds : KF_DEFAULT_FOLDS;
  c->n = job->n_scored;
  c->n_points = dim;
  for (uint32_t l = 0; l < dim; l++) {
    c->points[l] = (kf_dim_point){
        .dim = l + 1, .top1 = settings[l].top1, .lost = settings[l].lost, .won = settings[l].won};
    for (unsigned t = 0; t < job->ctx->threads; t++)
      c->points[l].top5 += job->top5[(uint64_t)t * dim + l];
  }
  kf_free(settings);
  *out = c;
  return KF_OK;
}

kf_status kf_dim_choice_new(kf_ctx *ctx, const kf_stats *stats, const kf_data *data,
                            const kf_dim_options *options, kf_dim_choice **out) {
  KF_ENTER(ctx, stats != NULL && data != NULL && out != NULL);
  dim_job job = {.ctx = ctx, .data = data};
  if (options != NULL) job.options = *options;
  const kf_dim_options *o = &job.options;
  if ((unsigned)o->metric > KF_METRIC_EUCLIDEAN) return kf_fail_metric(o->metric, err);
  KF_TRY(kf_check_tolerance(o->tolerance, err));
  KF_TRY(kf_check_statistics_of(stats, data, err));
  job.euclidean = kf_metric_for(o->metric, stats->normalized) == KF_METRIC_EUCLIDEAN;
  uint32_t folds = o->folds > 0 ? o->folds : KF_DEFAULT_FOLDS;
  kf_status status = prepare(&job, stats);
  kf_quiet_begin(&job.quiet, ctx, "dimensions", folds);
  for (uint32_t f = 0; status == KF_OK && f < folds; f++) status = run_fold(&job, f);
  kf_quiet_end(&job.quiet);
  if (status == KF_OK) status = hand_out(&job, out);
  kf_free(job.dims);
  kf_free(job.top5);
  kf_rows_clear(&job.all);
  kf_rows_clear(&job.sample);
  kf_free(job.fold);
  kf_free(job.card.right);
  kf_stats_free(job.rest);
  return status;
}

void kf_dim_choice_free(kf_dim_choice *choice) {
  if (choice == NULL) return;
  kf_free(choice->points);
  kf_free(choice);
}
