/* dims.c - choosing the number of dimensions by cross-validation.
 *
 * There is no closed form: leaving a row out turns all directions. So the rows are divided into
 * stratified folds; the statistics of a fold are subtracted from the whole, exactly, and its
 * rows are ranked for every number of dimensions at once (ranks.c). */
#include "choose/choose.h"

typedef struct dim_job {
  kf_ctx *ctx;
  const kf_data *data;
  kf_dim_options options;
  bool euclidean;
  uint32_t *dims;     /* [D] 1, 2, … */
  kf_row_list sample; /* rows to be classified */
  kf_score_card card; /* of the sample */
  uint64_t n_scored;  /* rows of the card that have been filled in */
  kf_stage stage;
  kf_arena arena;
} dim_job;

/* --- one fold -------------------------------------------------------------------------------- */

static void take_ranks(void *argument, size_t worker, uint64_t row, const unsigned char *ranks) {
  dim_job *j = argument;
  for (uint32_t l = 0; l < j->data->dim; l++)
    kf_score_card_add(&j->card, worker, j->n_scored + row, l, ranks[l]);
}

static kf_status rank_fold(dim_job *j, const kf_model *model, const kf_ranker *ranker,
                           const kf_data *data) {
  kf_judge judge;
  kf_eval_result counts;
  kf_status status = kf_judge_start(j->ctx, &judge, kf_known_model(model, KF_PART_IMAGES), NULL,
                                    data, data->rows, NULL);
  if (status == KF_OK) status = kf_rank_data(j->ctx, ranker, data, &judge, take_ranks, j, &counts);
  kf_judge_clear(&judge);
  j->n_scored += data->rows; /* all of them, see rows_to_score */
  return status;
}

/* Rows of the sample in the fold whose class has others left. */
static kf_status rows_to_score(const dim_job *j, const kf_fold *fold, kf_row_list *out) {
  const kf_row_list *in = &fold->rows, *sample = &j->sample;
  KF_TRY(kf_row_list_make(out, in->n, &j->ctx->err));
  for (uint64_t i = 0, s = 0; i < in->n; i++) {
    while (s < sample->n && sample->row[s] < in->row[i]) s++;
    bool sampled = s < sample->n && sample->row[s] == in->row[i];
    if (sampled && fold->without->counts[in->label[i]] > 0)
      kf_row_list_add(out, in->row[i], in->label[i]);
  }
  return KF_OK;
}

static kf_status score_fold(void *argument, const kf_fold *fold) {
  dim_job *j = argument;
  kf_ctx *ctx = j->ctx;
  const kf_dim_options *o = &j->options;
  kf_fitter *fitter = NULL;
  kf_model *model = NULL;
  kf_ranker *ranker = NULL;
  kf_row_list rows = {0};
  kf_data *data = NULL;
  kf_status status = kf_fitter_new(ctx, fold->without, NULL, o->method, &fitter);
  if (status == KF_OK) status = kf_fitter_fit(fitter, o->lambda, 0, o->centre, &model);
  if (status == KF_OK)
    status = kf_ranker_new(ctx, model, fold->without, j->euclidean, NULL, j->dims, j->data->dim,
                           &ranker);
  if (status == KF_OK) status = rows_to_score(j, fold, &rows);
  if (status == KF_OK) status = kf_data_new_pick(j->data, rows.row, rows.n, &data, &ctx->err);
  if (status == KF_OK) status = rank_fold(j, model, ranker, data);
  kf_data_free(data);
  kf_row_list_clear(&rows);
  kf_ranker_free(ranker);
  kf_model_free(model);
  kf_fitter_free(fitter);
  return status == KF_OK ? kf_stage_step(&j->stage) : status;
}

/* --- all of it ------------------------------------------------------------------------------- */

static kf_status run(dim_job *j, const kf_stats *stats) {
  kf_ctx *ctx = j->ctx;
  kf_dim_options *o = &j->options;
  uint64_t labelled;
  double trace;
  KF_TRY(kf_measure_within(ctx, stats, &trace, NULL));
  o->lambda = kf_fold_lambda(o->lambda, trace / (double)stats->dim);
  KF_TRY(kf_sample_rows(ctx, j->data, o->sample, &j->sample, &labelled));
  KF_TAKE(&j->arena, j->dims, stats->dim);
  j->card = kf_score_card_take(&j->arena, j->sample.n, stats->dim, ctx->threads);
  if (j->arena.failed) return kf_fail_memory(&ctx->err);
  for (uint32_t l = 0; l < stats->dim; l++) j->dims[l] = l + 1;
  kf_folding folding = {
      .stats = stats, .data = j->data, .folds = o->folds, .work = score_fold, .argument = j};
  kf_stage_begin(&j->stage, ctx, "dimensions", o->folds);
  kf_status status = kf_each_fold(ctx, &folding, &labelled);
  kf_stage_end(&j->stage);
  return status;
}

static kf_status hand_out(dim_job *j, kf_dim_choice **out) {
  uint32_t dim = j->data->dim;
  kf_err *err = &j->ctx->err;
  j->card.n = j->n_scored;
  if (j->n_scored == 0)
    return kf_fail(err, KF_ERR_MATH,
                   "the number of dimensions cannot be chosen: no class has rows in two folds");
  kf_dim_choice *c = kf_alloc_tail(sizeof *c, dim, sizeof *c->points);
  if (c == NULL) return kf_fail_memory(err);
  c->points = (kf_dim_point *)(c + 1);
  size_t best;
  c->dim = (uint32_t)kf_first_good_enough(&j->card, j->options.tolerance, c->points, &best) + 1;
  c->best = (uint32_t)best + 1;
  c->folds = j->options.folds;
  c->n = j->n_scored;
  c->n_points = dim;
  *out = c;
  return KF_OK;
}

kf_status kf_dim_choice_new(kf_ctx *ctx, const kf_stats *stats, const kf_data *data,
                            const kf_dim_options *options, kf_dim_choice **out) {
  KF_ENTER(ctx, stats != NULL && data != NULL && out != NULL);
  KF_OPTIONS(kf_dim_options, o, options);
  if ((unsigned)o.metric > KF_METRIC_EUCLIDEAN) return kf_fail_metric(o.metric, err);
  KF_TRY(kf_check_tolerance(o.tolerance, err));
  KF_TRY(kf_check_statistics_of(stats, data, err));
  if (o.folds == 0) o.folds = KF_DEFAULT_FOLDS;
  dim_job j = {.ctx = ctx, .data = data, .options = o};
  j.euclidean = kf_metric_for(o.metric, stats->normalized) == KF_METRIC_EUCLIDEAN;
  kf_status status = run(&j, stats);
  if (status == KF_OK) status = hand_out(&j, out);
  kf_row_list_clear(&j.sample);
  kf_arena_free(&j.arena);
  return status;
}

void kf_dim_choice_free(kf_dim_choice *choice) { kf_free(choice); }
