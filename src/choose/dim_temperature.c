/* dim_temperature.c - the temperature of a model with fewer dimensions.
 *
 * Rows lose length with every direction that is dropped, while prototypes lose little beyond the
 * first K - 1. So cosines grow, and the temperature of all dimensions gives overconfident
 * probabilities. There is no closed form (dims.c says why), so the rows of each fold are scored by
 * a model of the others. With very many classes a fit costs more than the scores of some hundred
 * rows, so one fold is used. */
#include "choose/choose.h"
#include "choose/left_out_internal.h"

#define BATCH        64u
#define MANY_CLASSES 4096u
#define FEW_ROWS     512u   /* give an error of a few per cent; each is compared with all classes */
#define FIRST_SHARE  0x1p-7 /* of that with all dimensions: with one, cosines are 1 or -1 */

typedef struct folds_job {
  kf_ctx *ctx;
  const kf_data *data;
  const kf_dim_temperature *options;
  kf_lambda lambda;
  kf_row_list sample;
  bool many_classes;
  bool weighs;         /* priors by cosine, as in kf_fitter_weighs */
  kf_likelihood *sums; /* [threads] */
  kf_stage stage;
  /* For one fold. */
  double unit; /* of scores: distances shrink with the number of rows */
  const kf_prototypes *prototypes;
  kf_prototypes_use use;
  double *weights; /* [prototypes] rows of each class, as priors by cosine; NULL: none */
} folds_job;

static double unit_of(const kf_stats *stats) {
  return stats->normalized ? 1 : kf_distance_unit(stats);
}

typedef struct fold_workspace {
  float *queries; /* [BATCH][dim] */
  double *scores; /* [n] in units of the noise */
  double *powers; /* [2n] */
} fold_workspace;

static void take_workspace(const void *argument, void *workspace, kf_arena *arena) {
  const kf_prototypes *p = ((const folds_job *)argument)->prototypes;
  fold_workspace *s = workspace;
  KF_TAKE(arena, s->queries, (uint64_t)BATCH * p->dim);
  KF_TAKE(arena, s->scores, p->n);
  KF_TAKE(arena, s->powers, 2 * (uint64_t)p->n);
}

typedef struct scored_batch {
  const folds_job *job;
  const kf_batch *batch;
} scored_batch;

static void add_row(void *argument, uint64_t row, const double *scores) {
  const scored_batch *s = argument;
  const kf_prototypes *p = s->job->prototypes;
  fold_workspace *workspace = s->batch->workspace;
  for (uint32_t j = 0; j < p->n; j++) workspace->scores[j] = scores[j] * s->job->unit;
  kf_likelihood_add(&s->job->sums[s->batch->worker], workspace->scores, s->job->weights, p->n,
                    kf_prototypes_place(p, s->batch->labels[row]), workspace->powers);
}

static kf_status score_batch(void *argument, const kf_batch *b, kf_err *err) {
  const folds_job *j = argument;
  fold_workspace *s = b->workspace;
  KF_TRY(kf_prototypes_queries(&j->use, b->rows, b->norm2, b->n, s->queries, err));
  return kf_prototypes_scores(j->prototypes, s->queries, b->n, add_row, &(scored_batch){j, b}, err);
}

/* Sets the priors of the fold's model. */
static kf_status weigh_classes(folds_job *j, const kf_fold *fold) {
  const kf_prototypes *p = j->prototypes;
  if (!j->weighs) return KF_OK;
  j->weights = kf_alloc(p->n, sizeof *j->weights);
  if (j->weights == NULL) return kf_fail_memory(&j->ctx->err);
  for (uint32_t i = 0; i < p->n; i++) j->weights[i] = (double)fold->without->counts[p->ids[i]];
  return KF_OK;
}

/* Scores the rows of the fold that are in the sample. */
static kf_status score_rows(folds_job *j, const kf_fold *fold, const kf_model *model) {
  kf_err *err = &j->ctx->err;
  kf_prototypes *p = NULL;
  kf_row_list rows = {0};
  kf_data *data = NULL;
  kf_status status =
      kf_prototypes_new(j->ctx, model, KF_METRIC_DEFAULT, false,
                        model->text != NULL ? KF_PART_FUSED : KF_PART_IMAGES, NULL, &p);
  if (status == KF_OK) status = kf_fold_sampled(fold, &j->sample, &rows, err);
  if (status == KF_OK && j->many_classes) kf_row_list_keep(&rows, FEW_ROWS);
  if (status == KF_OK) status = kf_data_new_pick(j->data, rows.row, rows.n, &data, err);
  j->prototypes = p;
  j->unit = unit_of(fold->without);
  if (status == KF_OK) status = weigh_classes(j, fold);
  kf_pass pass = {.rows = BATCH,
                  .shared = true,
                  .work = score_batch,
                  .argument = j,
                  .workspace_size = sizeof(fold_workspace),
                  .make_workspace = take_workspace};
  kf_prototypes_plan plan = {.rows = rows.n};
  if (status == KF_OK && rows.n > 0) status = kf_prototypes_begin(j->ctx, p, &plan, &j->use);
  if (status == KF_OK && rows.n > 0)
    status = kf_prototypes_end(j->ctx, &j->use, kf_each_batch(j->ctx, data, &pass));
  kf_data_free(data);
  kf_row_list_clear(&rows);
  kf_prototypes_free(p);
  kf_free(j->weights);
  j->weights = NULL;
  return status;
}

static kf_status score_fold(void *argument, const kf_fold *fold) {
  folds_job *j = argument;
  const kf_dim_temperature *o = j->options;
  kf_model *model, *fused = NULL;
  KF_TRY(kf_fold_model(j->ctx, fold, o->method, o->priors, j->lambda, o->dim, o->centre, &model));
  kf_status status =
      o->text != NULL ? kf_model_new_fused(j->ctx, model, o->text, o->alpha, &fused) : KF_OK;
  if (status == KF_OK) status = score_rows(j, fold, fused != NULL ? fused : model);
  kf_model_free(fused);
  kf_model_free(model);
  return status == KF_OK ? kf_stage_step(&j->stage) : status;
}

static kf_status score_folds(folds_job *j, const kf_fitter *fitter, double *out) {
  const kf_stats *stats = fitter->within;
  kf_ctx *ctx = j->ctx;
  const kf_dim_temperature *o = j->options;
  uint64_t labelled, most = o->sample > 0 ? o->sample : KF_LEFT_OUT_SAMPLE;
  j->many_classes = stats->n_classes > MANY_CLASSES && o->sample == 0 && o->groups == NULL;
  if (j->many_classes) most = UINT64_MAX; /* of one fold FEW_ROWS are kept */
  KF_TRY(kf_sample_rows(ctx, j->data, most, &j->sample, &labelled));
  for (unsigned i = 0; i < ctx->threads; i++) {
    j->sums[i] = kf_likelihood_new(!stats->normalized);
    if (stats->normalized) j->sums[i].first = j->options->of_all * FIRST_SHARE;
  }
  kf_folding folding = {.stats = stats,
                        .data = j->data,
                        .folds = KF_DEFAULT_FOLDS,
                        .taken = j->many_classes ? 1 : 0,
                        .groups = j->options->groups,
                        .work = score_fold,
                        .argument = j};
  kf_stage_begin(&j->stage, ctx, "temperature", j->many_classes ? 1 : folding.folds);
  kf_status status = kf_each_fold(ctx, &folding, &labelled);
  kf_stage_end(&j->stage);
  KF_TRY(status);
  kf_left_out_point point = {0};
  for (unsigned i = 1; i < ctx->threads; i++) kf_likelihood_join(&j->sums[0], &j->sums[i]);
  KF_TRY(kf_likelihood_add_ranks(ctx, KF_OK, &j->sums[0], 1));
  kf_likelihood_find(&j->sums[0], &point);
  *out = point.temperature * unit_of(stats);
  return KF_OK;
}

kf_status kf_temperature_of_dim(const kf_fitter *fitter, const kf_data *data,
                                const kf_dim_temperature *options, double *out) {
  kf_ctx *ctx = fitter->ctx;
  folds_job j = {.ctx = ctx, .data = data, .options = options, .weighs = kf_fitter_weighs(fitter)};
  j.lambda =
      kf_fold_lambda((kf_lambda){options->lambda, KF_LAMBDA_ABSOLUTE}, fitter->mean_eigenvalue);
  j.sums = kf_alloc_zero(ctx->threads, sizeof *j.sums);
  kf_status status = j.sums != NULL ? score_folds(&j, fitter, out) : kf_fail_memory(&ctx->err);
  kf_row_list_clear(&j.sample);
  kf_free(j.sums);
  return status;
}
