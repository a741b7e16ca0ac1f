/* fit.c - from rows to a model with everything chosen: statistics and near-duplicates, then lambda
 * (and alpha, with text), the temperature, the number of dimensions, the map, and the threshold for
 * unknown rows. Leave-one-out and the fit share one kf_fitter. */
#include "recipe/recipe.h"

#include <math.h>

/* The temperature if every class has one row, so that none can be left out: it suits CLIP
 * embeddings (docs/accuracy.md). */
#define SINGLE_TEMPERATURE 16

/* --- before the long work --------------------------------------------------------------------- */

static kf_status check_text(const kf_fit_job *j, bool normalized, kf_err *err) {
  const kf_fit_options *o = &j->options;
  if (o->text == NULL)
    return o->alpha == NULL ? KF_OK : kf_fail(err, KF_ERR_ARG, "alpha is given, but no text");
  if (o->between != NULL)
    return kf_fail(err, KF_ERR_ARG, "text cannot be combined with S_b from other statistics");
  if (!normalized)
    return kf_fail(err, KF_ERR_ARG, "text cannot be combined with rows that are not normalised");
  if (o->alpha != NULL) KF_TRY(kf_check_alpha(*o->alpha, err));
  if (o->alpha == NULL && !j->has_rows)
    return kf_fail_hint(err, KF_ERR_ARG, KF_HINT_ALPHA,
                        "alpha is chosen from the rows themselves, not from statistics");
  return KF_OK;
}

static kf_status check_reject(const kf_fit_job *j, uint32_t dim, kf_err *err) {
  const kf_fit_options *o = &j->options;
  if (o->reject == 0) return KF_OK;
  if (!(o->reject > 0 && o->reject < 1))
    return kf_fail(err, KF_ERR_ARG,
                   "the share of known rows to keep is %g, but must be between 0 and 1", o->reject);
  if (!j->has_rows)
    return kf_fail_hint(err, KF_ERR_ARG, KF_HINT_ROWS,
                        "a threshold for unknown rows is chosen from the rows themselves, not from "
                        "statistics");
  if (o->choose_dim || (o->dim > 0 && o->dim < dim))
    return kf_fail(err, KF_ERR_ARG,
                   "a threshold for unknown rows is chosen with all dimensions, not with fewer");
  return KF_OK;
}

static kf_status check_priors(const kf_fit_job *j, bool normalized, kf_err *err) {
  const kf_fit_options *o = &j->options;
  KF_TRY(kf_check_priors(o->priors, o->method, err));
  if (o->priors != KF_PRIORS_TRAINING || !normalized) return KF_OK;
  if (o->text != NULL)
    return kf_fail(err, KF_ERR_ARG, "text cannot be combined with priors of the training rows");
  if (!j->has_rows && !(j->temperature > 0))
    return kf_fail_hint(err, KF_ERR_ARG, KF_HINT_ROWS,
                        "by cosine, the priors of training rows need a temperature, which is found "
                        "from the rows themselves, not from statistics");
  return kf_check_weighing(o->metric, o->criterion, err);
}

static uint32_t dim_of(const kf_fit_job *j) {
  return j->stats != NULL ? j->stats->dim : j->data->dim;
}

static bool is_normalized(const kf_fit_job *j) {
  return j->stats != NULL ? j->stats->normalized : j->options.stats_options.normalize != KF_OFF;
}

static kf_status check_options(const kf_fit_job *j, kf_err *err) {
  const kf_fit_options *o = &j->options;
  uint32_t dim = dim_of(j);
  bool normalized = is_normalized(j);
  if (o->dim > dim) return kf_fail_dim(o->dim, dim, err);
  if (o->lambda.unit == KF_LAMBDA_AUTO && o->lambda.value != 0)
    return kf_fail(err, KF_ERR_ARG,
                   "lambda has the value %g, but its unit is KF_LAMBDA_AUTO, which takes none",
                   o->lambda.value);
  if ((unsigned)o->centre > KF_CENTRE_MEAN)
    return kf_fail(err, KF_ERR_ARG, "invalid centre %d", (int)o->centre);
  KF_TRY(kf_check_method(o->method, err));
  KF_TRY(kf_check_centre(o->centre, o->method, err));
  if ((unsigned)o->metric > KF_METRIC_EUCLIDEAN) return kf_fail_metric(o->metric, err);
  if (o->between != NULL && (o->choose_dim || o->lambda.unit == KF_LAMBDA_LEDOIT_WOLF))
    return kf_fail(err, KF_ERR_ARG, "%s cannot be combined with S_b from other statistics",
                   o->choose_dim ? "choosing the number of dimensions"
                                 : "Ledoit and Wolf's lambda");
  if (!j->has_rows && (o->choose_dim || o->lambda.unit == KF_LAMBDA_LEDOIT_WOLF))
    return kf_fail_hint(err, KF_ERR_ARG, KF_HINT_ROWS,
                        "%s from the rows themselves, not from statistics",
                        o->choose_dim ? "the number of dimensions is chosen"
                                      : "Ledoit and Wolf's lambda is computed");
  if (!j->has_rows && o->groups != NULL)
    return kf_fail_hint(err, KF_ERR_ARG, o->between != NULL ? KF_HINT_NONE : KF_HINT_ROWS,
                        o->between != NULL
                            ? "groups cannot be combined with S_b from other statistics"
                            : "groups are left out of the rows themselves, not of statistics");
  KF_TRY(check_reject(j, dim, err));
  KF_TRY(check_priors(j, normalized, err));
  return check_text(j, normalized, err);
}

/* --- an earlier model ------------------------------------------------------------------------- */

static kf_status check_like(const kf_fit_job *j, kf_err *err) {
  const kf_fit_options *o = &j->options;
  const kf_map *map = &o->like->map;
  if (map->dim_in != dim_of(j) || map->normalized != is_normalized(j))
    return kf_fail(err, KF_ERR_ARG, "the earlier model is for rows of %u columns (%s), not %u (%s)",
                   map->dim_in, map->normalized ? "unit length" : "raw", dim_of(j),
                   is_normalized(j) ? "unit length" : "raw");
  if (o->method != KF_METHOD_DEFAULT && o->method != map->method)
    return kf_fail(err, KF_ERR_ARG, "the earlier model was fitted by another method");
  if ((o->like->text != NULL) != (o->text != NULL))
    return kf_fail(err, KF_ERR_ARG, "the earlier model has %s text, but %s is given",
                   o->text != NULL ? "no" : "a", o->text != NULL ? "one" : "none");
  return kf_origin_agree(&map->origin, j->stats != NULL ? &j->stats->origin : &j->data->origin,
                         err);
}

/* 1 for cosines, which do not depend on the number of rows. */
static double unit_of_model(const kf_model *m) {
  double rows = (double)m->rows;
  for (uint32_t k = 0; k < m->n_classes; k++) rows -= m->counts[k] > 0;
  return m->map.normalized ? 1 : rows;
}

/* Whether scores are like those of the earlier model, and so are temperature and threshold. */
static bool keeps_scores(const kf_fit_options *o) {
  return o->like != NULL && !o->choose_dim && o->dim == o->like->map.dim_out;
}

/* Takes from an earlier model what is not given. Lambda is kept as it is, not relative to the
 * scatter: it counts as scatter seen before any row, of which more rows need no more (the best
 * lambda for half of the rows and for all of them is about the same, docs/choosing.md). */
static kf_status take_like(kf_fit_job *j) {
  kf_fit_options *o = &j->options;
  const kf_model *m = o->like;
  if (m == NULL) return KF_OK;
  KF_TRY(check_like(j, &j->ctx->err));
  o->method = m->map.method;
  if (o->centre == KF_CENTRE_DEFAULT) o->centre = m->map.centre;
  if (o->priors == KF_PRIORS_DEFAULT) o->priors = kf_model_priors(m);
  if (m->signal == NULL && o->method == KF_METHOD_SHRUNK) { /* by the scatter of all rows */
    kf_log(j->ctx, "in the earlier model no class had two different rows, so nothing was chosen");
    o->like = NULL;
    return KF_OK;
  }
  if (o->text != NULL && o->alpha == NULL) o->alpha = &m->alpha;
  if (o->dim == 0 && !o->choose_dim) o->dim = m->map.dim_out;
  if (keeps_scores(o)) j->temperature = m->temperature / unit_of_model(m);
  return KF_OK;
}

/* --- choosing --------------------------------------------------------------------------------- */

static kf_lambda_options lambda_options(const kf_fit_options *o) {
  return (kf_lambda_options){.metric = o->metric,
                             .centre = o->centre,
                             .sample = o->sample,
                             .one_se = o->one_se,
                             .method = o->method,
                             .criterion = o->criterion,
                             .groups = o->groups};
}

kf_status kf_fit_try_lambdas(kf_fit_job *j) {
  kf_lambda_options by = lambda_options(&j->options);
  return kf_lambda_choice_with(j->fitter, j->data, &by, &j->report->by_lambda);
}

kf_status kf_fit_try_alphas(kf_fit_job *j) {
  const kf_fit_options *o = &j->options;
  kf_fuse_options by = {.centre = o->centre,
                        .sample = o->sample,
                        .lambda = j->lambda,
                        .method = o->method,
                        .criterion = o->criterion,
                        .groups = o->groups};
  return kf_fuse_choice_with(j->fitter, j->data, o->text, &by, &j->report->by_fusion);
}

kf_status kf_fit_try_dims(kf_fit_job *j) {
  const kf_fit_options *o = &j->options;
  kf_dim_options by = {.lambda = j->lambda,
                       .metric = o->metric,
                       .centre = o->centre,
                       .folds = o->folds,
                       .sample = o->sample,
                       .margin = o->margin,
                       .method = o->method,
                       .groups = o->groups,
                       .priors = o->priors};
  return kf_dim_choice_new(j->ctx, j->stats, j->data, &by, &j->report->by_dim);
}

/* Leaves rows out at the given lambda (and alpha, with text). */
static kf_status measure_temperature(kf_fit_job *j) {
  const kf_fit_options *o = &j->options;
  double lambda = 0;
  KF_TRY(kf_fitter_lambda(j->fitter, j->lambda, &lambda));
  if (o->text == NULL) {
    kf_lambda_options by = lambda_options(o);
    kf_lambda_point point;
    KF_TRY(kf_lambda_measure(j->fitter, j->data, &by, lambda, &point));
    j->temperature = point.temperature;
    return KF_OK;
  }
  kf_fuse_options by = {.centre = o->centre,
                        .sample = o->sample,
                        .lambda = {lambda, KF_LAMBDA_ABSOLUTE},
                        .alphas = &j->alpha,
                        .n_alphas = 1,
                        .method = o->method,
                        .groups = o->groups};
  kf_fuse_choice *choice;
  KF_TRY(kf_fuse_choice_with(j->fitter, j->data, o->text, &by, &choice));
  if (choice->n_points > 0) j->temperature = choice->points[0].temperature;
  kf_fuse_choice_free(choice);
  return KF_OK;
}

static bool keeps_temperature(const kf_fit_job *j) {
  const kf_fit_options *o = &j->options;
  return keeps_scores(o) && o->like->temperature > 0 && !j->fitter->by_all_rows;
}

/* Finds the temperature of the scores of the model. There is none without rows to leave out, except
 * where all rows are alone in their classes, nor if lambda was chosen by another metric. */
static kf_status find_temperature(kf_fit_job *j) {
  const kf_fit_report *r = j->report;
  bool normalized = j->stats->normalized, text = j->options.text != NULL;
  if (keeps_temperature(j)) return KF_OK;
  if (kf_metric_for(j->options.metric, normalized) != kf_metric_for(KF_METRIC_DEFAULT, normalized))
    return KF_OK;
  if (j->fitter->by_all_rows)
    j->temperature = normalized && !text ? SINGLE_TEMPERATURE : 0;
  else if (r->by_fusion != NULL && r->by_fusion->n_points > 0)
    j->temperature = r->by_fusion->points[r->by_fusion->chosen].temperature;
  else if (r->by_lambda != NULL && !text)
    j->temperature = r->by_lambda->all.temperature;
  else if (j->has_rows && j->fitter->method == KF_METHOD_SHRUNK)
    return measure_temperature(j);
  return KF_OK;
}

kf_status kf_fit_choose(kf_fit_job *j) {
  const kf_fit_options *o = &j->options;
  const kf_fit_report *r = j->report;
  bool kept = o->like != NULL && o->lambda.unit == KF_LAMBDA_AUTO && !j->fitter->by_all_rows;
  j->lambda = kept ? (kf_lambda){o->like->map.lambda, KF_LAMBDA_ABSOLUTE} : o->lambda;
  j->dim = o->dim;
  if (o->alpha != NULL) j->alpha = *o->alpha;
  if (o->lambda.unit == KF_LAMBDA_LEDOIT_WOLF)
    KF_TRY(kf_lambda_ledoit_wolf(j->ctx, j->stats, j->data, &j->lambda));
  if (o->text != NULL && o->alpha == NULL) {
    KF_TRY(kf_fit_try_alphas(j));
    j->lambda = (kf_lambda){r->by_fusion->lambda, KF_LAMBDA_ABSOLUTE};
    j->alpha = r->by_fusion->alpha;
  } else if (j->lambda.unit == KF_LAMBDA_AUTO && j->has_rows && !j->fitter->by_all_rows) {
    KF_TRY(kf_fit_try_lambdas(j));
    j->lambda = (kf_lambda){r->by_lambda->lambda, KF_LAMBDA_ABSOLUTE};
  }
  KF_TRY(find_temperature(j));
  if (!o->choose_dim) return KF_OK;
  KF_TRY(kf_fit_try_dims(j));
  j->dim = r->by_dim->dim;
  return KF_OK;
}

/* A left-out row should have no near-duplicate that stays in, or accuracy would be optimistic. */
static kf_status count_near_duplicates(kf_fit_job *j) {
  kf_fit_report *r = j->report;
  kf_near_rows found;
  if (!j->has_rows) return KF_OK;
  KF_TRY(kf_near_outside(j->fitter, j->data, j->options.groups, &found));
  r->n_compared = found.n;
  r->n_near = found.near;
  r->many_near = found.many;
  return KF_OK;
}

/* --- from statistics to the model ------------------------------------------------------------- */

static kf_status take_statistics(kf_fit_job *j) {
  kf_ctx *ctx = j->ctx;
  const kf_fit_options *o = &j->options;
  if (j->stats == NULL) {
    if (o->stats_options.checkpoint != NULL)
      return kf_fail(
          &ctx->err, KF_ERR_ARG,
          "a fit keeps no checkpoint: make the statistics first, with a checkpoint, and give "
          "them to the fit");
    KF_TRY(kf_stats_of_data(ctx, j->data, &o->stats_options, &j->own));
    j->stats = j->own;
  } else if (j->data != NULL) {
    KF_TRY(kf_check_statistics_of(j->stats, j->data, &ctx->err));
  }
  if (o->text != NULL) {
    KF_TRY(kf_text_check(o->text, j->stats->dim, &j->stats->origin, &ctx->err));
    KF_TRY(kf_text_match(ctx, o->text, "the training data", &j->stats->names, j->stats->n_classes));
  }
  KF_TRY(kf_fitter_new(ctx, j->stats, o->between, o->method, &j->fitter));
  return kf_fitter_set_priors(j->fitter, o->priors);
}

kf_status kf_fit_begin(kf_fit_job *j, kf_ctx *ctx, const kf_data *data,
                       const kf_fit_options *options) {
  *j = (kf_fit_job){.ctx = ctx, .data = data, .stats = options->stats, .options = *options};
  kf_fit_options *o = &j->options;
  j->has_rows = data != NULL && o->between == NULL;
  KF_TRY(take_like(j));
  o->centre = o->text != NULL ? KF_CENTRE_MEAN : kf_centre_for(o->centre, o->method);
  KF_TRY(check_options(j, &ctx->err));
  j->report = kf_alloc_zero(1, sizeof *j->report);
  if (j->report == NULL) return kf_fail_memory(&ctx->err);
  KF_TRY(take_statistics(j));
  return count_near_duplicates(j);
}

static void fill_report(const kf_fit_job *j, const kf_model *model) {
  kf_fit_report *r = j->report;
  r->rows = j->stats->rows;
  if (j->data != NULL) {
    r->n_unlabelled = j->data->unlabelled;
    r->n_bad = j->data->rows - j->data->unlabelled - j->stats->rows;
  }
  r->lambda = model->map.lambda;
  r->mean_eigenvalue = model->mean_eigenvalue;
  r->alpha = model->alpha;
  r->dim = model->map.dim_out;
  r->by_all_rows = j->fitter->by_all_rows;
  const kf_lambda_choice *l = r->by_lambda;
  const kf_fuse_choice *f = r->by_fusion;
  if (l != NULL) {
    r->n = l->n_all;
    r->right = l->all.top1;
    r->standard_error = kf_standard_error(l->all.top1, l->n_all);
  } else if (f != NULL && f->n_points > 0) {
    r->n = f->n;
    r->right = f->points[f->chosen].top1;
    r->standard_error = f->standard_error;
  }
}

/* Distances shrink as the scatter grows. */
static void keep_threshold(const kf_fit_job *j, kf_model *model) {
  const kf_model *m = j->options.like;
  if (!keeps_scores(&j->options) || j->fitter->by_all_rows) return;
  model->reject = m->reject * sqrt(unit_of_model(m) / unit_of_model(model));
  model->reject_share = m->reject_share;
}

kf_left_out_model kf_fit_left_out(const kf_fit_job *j, const kf_model *model, kf_metric metric) {
  const kf_fit_options *o = &j->options;
  return (kf_left_out_model){.n_classes = model->n_classes,
                             .lambda = model->map.lambda,
                             .metric = model->text != NULL
                                           ? KF_METRIC_COSINE
                                           : kf_metric_for(metric, j->stats->normalized),
                             .centre = o->centre,
                             .sample = o->sample,
                             .groups = o->groups,
                             .text = model->text,
                             .alpha = model->alpha,
                             .prior = kf_prior_of_cosines(model) ? model->prior : 0};
}

static kf_status choose_threshold(const kf_fit_job *j, kf_model *model) {
  const kf_fit_options *o = &j->options;
  if (o->reject == 0) {
    keep_threshold(j, model);
    return KF_OK;
  }
  kf_left_out_model by = kf_fit_left_out(j, model, KF_METRIC_DEFAULT);
  KF_TRY(kf_reject_threshold(j->fitter, j->data, &by, o->reject, &model->reject));
  model->reject_share = o->reject;
  return KF_OK;
}

/* Scores with fewer dimensions have another temperature. */
static kf_status adjust_temperature(const kf_fit_job *j, kf_model *model) {
  const kf_fit_options *o = &j->options;
  bool fewer = model->map.dim_out < model->map.dim_in;
  if (!fewer || keeps_temperature(j) || !(model->temperature > 0) || j->fitter->by_all_rows)
    return KF_OK;
  kf_dim_temperature by = {.lambda = model->map.lambda,
                           .dim = model->map.dim_out,
                           .of_all = model->temperature,
                           .method = o->method,
                           .priors = o->priors,
                           .centre = o->centre,
                           .sample = o->sample,
                           .groups = o->groups,
                           .text = o->text,
                           .alpha = j->alpha};
  return kf_temperature_of_dim(j->fitter, j->data, &by, &model->temperature);
}

kf_status kf_fit_finish(kf_fit_job *j, kf_model **out) {
  const kf_fit_options *o = &j->options;
  const bool normalized = j->stats->normalized; /* then scores are cosines */
  kf_model *model;
  KF_TRY(kf_fitter_fit(j->fitter, j->lambda, j->dim, o->centre, &model));
  if (o->text != NULL) {
    kf_model *rows = model;
    kf_status status = kf_model_new_fused(j->ctx, rows, o->text, j->alpha, &model);
    kf_model_free(rows);
    KF_TRY(status);
  }
  model->temperature = j->temperature * (normalized ? 1 : kf_distance_unit(j->stats));
  fill_report(j, model);
  kf_status status = adjust_temperature(j, model);
  if (kf_fitter_weighs(j->fitter) && model->temperature > 0) model->prior = 1 / model->temperature;
  if (status == KF_OK) status = choose_threshold(j, model);
  KF_HAND_OUT(status, out, model, kf_model_free);
}

void kf_fit_end(kf_fit_job *j) {
  kf_fitter_free(j->fitter);
  kf_stats_free(j->own);
  kf_fit_report_free(j->report);
}

kf_status kf_fit(kf_ctx *ctx, const kf_data *data, const kf_fit_options *options, kf_model **out,
                 kf_fit_report **report) {
  KF_NOTHING(out);
  KF_NOTHING(report);
  KF_ENTER(ctx, out != NULL && (data != NULL || (options != NULL && options->stats != NULL)));
  KF_OPTIONS(kf_fit_options, o, options);
  kf_fit_job j;
  kf_status status = kf_fit_begin(&j, ctx, data, &o);
  if (status == KF_OK) status = kf_fit_choose(&j);
  if (status == KF_OK) status = kf_fit_finish(&j, out);
  if (status == KF_OK && report != NULL) {
    *report = j.report;
    j.report = NULL;
  }
  kf_fit_end(&j);
  return status;
}

kf_status kf_fit_stats(kf_ctx *ctx, const kf_stats *stats, const kf_fit_options *options,
                       kf_model **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, stats != NULL && out != NULL);
  KF_OPTIONS(kf_fit_options, o, options);
  o.stats = stats;
  return kf_fit(ctx, NULL, &o, out, NULL);
}

void kf_fit_report_free(kf_fit_report *report) {
  if (report == NULL) return;
  kf_lambda_choice_free(report->by_lambda);
  kf_fuse_choice_free(report->by_fusion);
  kf_dim_choice_free(report->by_dim);
  kf_free(report);
}
