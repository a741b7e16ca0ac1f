/* fit.c - from rows to a model with everything chosen: statistics, then lambda (and alpha, with text),
 * then the number of dimensions, then the map.
 *
 * S_w is decomposed once: leave-one-out and the fit itself start from the same kf_fitter. */
#include "recipe/recipe.h"

#include <math.h>

typedef struct fit_job {
  kf_ctx *ctx;
  const kf_data *data;   /* NULL: statistics alone */
  const kf_stats *stats; /* S_w */
  kf_stats *own;         /* the same, where they were made here */
  kf_fit_options options;
  bool rows; /* there are rows to choose by */
  kf_fitter *fitter;
  kf_lambda lambda;
  double alpha;
  uint32_t dim;
  kf_fit_report *report;
} fit_job;

/* --- before the long work --------------------------------------------------------------------- */

static kf_status check_text(const fit_job *j, bool normalized, kf_err *err) {
  const kf_fit_options *o = &j->options;
  if (o->text == NULL)
    return o->alpha == NULL ? KF_OK : kf_fail(err, KF_ERR_ARG, "alpha is given, but no text");
  if (o->between != NULL)
    return kf_fail(err, KF_ERR_ARG, "text cannot be combined with S_b from other statistics");
  if (!normalized)
    return kf_fail(err, KF_ERR_ARG, "text cannot be combined with rows that are not normalised");
  if (o->alpha != NULL && !(*o->alpha >= 0 && isfinite(*o->alpha)))
    return kf_fail(err, KF_ERR_ARG, "alpha must be finite and not negative");
  if (o->alpha == NULL && !j->rows)
    return kf_fail_hint(err, KF_ERR_ARG, KF_HINT_ALPHA,
                        "alpha is chosen from the rows themselves, not from statistics");
  return KF_OK;
}

static kf_status check_options(const fit_job *j, kf_err *err) {
  const kf_fit_options *o = &j->options;
  uint32_t dim = j->stats != NULL ? j->stats->dim : j->data->dim;
  bool normalized =
      j->stats != NULL ? j->stats->normalized : o->statistics.normalize != KF_OFF;
  if (o->dim > dim)
    return kf_fail(err, KF_ERR_ARG, "%u dimensions asked for, the embeddings have %u", o->dim, dim);
  if ((unsigned)o->centre > KF_CENTRE_MEAN)
    return kf_fail(err, KF_ERR_ARG, "invalid centre %d", (int)o->centre);
  if ((unsigned)o->metric > KF_METRIC_EUCLIDEAN) return kf_fail_metric(o->metric, err);
  if (!j->rows && (o->choose_dim || o->lambda.unit == KF_LAMBDA_LEDOIT_WOLF))
    return kf_fail_hint(err, KF_ERR_ARG, KF_HINT_ROWS,
                        "%s from the rows themselves, not from statistics",
                        o->choose_dim ? "the number of dimensions is chosen"
                                      : "Ledoit and Wolf's lambda is computed");
  return check_text(j, normalized, err);
}

/* --- choosing --------------------------------------------------------------------------------- */

static kf_status choose_fusion(fit_job *j) {
  const kf_fit_options *o = &j->options;
  kf_fuse_options by = {.centre = o->centre, .sample = o->sample, .lambda = j->lambda};
  kf_fuse_choice **choice = &j->report->by_fusion;
  KF_TRY(kf_choose_fusion(j->fitter, j->data, o->text, &by, choice));
  j->lambda = (kf_lambda){(*choice)->lambda, KF_LAMBDA_ABSOLUTE};
  j->alpha = (*choice)->alpha;
  return KF_OK;
}

static kf_status choose_lambda(fit_job *j) {
  const kf_fit_options *o = &j->options;
  kf_lambda_options by = {
      .metric = o->metric, .centre = o->centre, .sample = o->sample, .one_se = o->one_se};
  kf_lambda_choice **choice = &j->report->by_lambda;
  KF_TRY(kf_choose_lambda(j->fitter, j->data, &by, choice));
  j->lambda = (kf_lambda){(*choice)->lambda, KF_LAMBDA_ABSOLUTE};
  return KF_OK;
}

static kf_status choose_dim(fit_job *j) {
  const kf_fit_options *o = &j->options;
  kf_dim_options by = {.lambda = j->lambda,
                       .metric = o->metric,
                       .centre = o->centre,
                       .folds = o->folds,
                       .sample = o->sample,
                       .tolerance = o->tolerance};
  KF_TRY(kf_dim_choice_new(j->ctx, j->stats, j->data, &by, &j->report->by_dim));
  j->dim = j->report->by_dim->dim;
  return KF_OK;
}

static kf_status choose(fit_job *j) {
  const kf_fit_options *o = &j->options;
  j->lambda = o->lambda;
  j->dim = o->dim;
  if (o->alpha != NULL) j->alpha = *o->alpha;
  if (o->lambda.unit == KF_LAMBDA_LEDOIT_WOLF)
    KF_TRY(kf_lambda_ledoit_wolf(j->ctx, j->stats, j->data, &j->lambda));
  if (o->text != NULL && o->alpha == NULL)
    KF_TRY(choose_fusion(j));
  else if (o->lambda.unit == KF_LAMBDA_AUTO && j->rows)
    KF_TRY(choose_lambda(j));
  return o->choose_dim ? choose_dim(j) : KF_OK;
}

/* --- the whole -------------------------------------------------------------------------------- */

static kf_status take_statistics(fit_job *j) {
  kf_ctx *ctx = j->ctx;
  const kf_fit_options *o = &j->options;
  if (j->stats == NULL) {
    KF_TRY(kf_stats_new_from_data(ctx, j->data, &o->statistics, &j->own));
    j->stats = j->own;
  } else if (j->data != NULL) {
    KF_TRY(kf_check_statistics_of(j->stats, j->data, &ctx->err));
  }
  if (o->text != NULL)
    KF_TRY(kf_text_match(ctx, o->text, "training data", &j->stats->names, j->stats->n_classes));
  return kf_fitter_new(ctx, j->stats, o->between, &j->fitter);
}

static kf_status make_model(fit_job *j, kf_model **out) {
  const kf_fit_options *o = &j->options;
  kf_model *rows;
  KF_TRY(kf_fitter_fit(j->fitter, j->lambda, j->dim, o->centre, &rows));
  if (o->text == NULL) {
    *out = rows;
    return KF_OK;
  }
  kf_status status = kf_model_new_fused(j->ctx, rows, o->text, j->alpha, out);
  kf_model_free(rows);
  return status;
}

static void fill_report(const fit_job *j, const kf_model *model) {
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
  const kf_lambda_choice *l = r->by_lambda;
  const kf_fuse_choice *f = r->by_fusion;
  if (l != NULL) {
    r->n = l->n;
    r->right = l->points[l->chosen].top1;
    r->standard_error = l->standard_error;
  } else if (f != NULL && f->n_points > 0) {
    r->n = f->n;
    r->right = f->points[f->chosen].top1;
    r->standard_error = f->standard_error;
  }
}

static kf_status fit(fit_job *j, kf_model **out) {
  j->report = kf_alloc_zero(1, sizeof *j->report);
  if (j->report == NULL) return kf_fail_memory(&j->ctx->err);
  KF_TRY(take_statistics(j));
  KF_TRY(choose(j));
  KF_TRY(make_model(j, out));
  fill_report(j, *out);
  return KF_OK;
}

kf_status kf_fit(kf_ctx *ctx, const kf_data *data, const kf_fit_options *options, kf_model **out,
                 kf_fit_report **report) {
  KF_ENTER(ctx, out != NULL && (data != NULL || (options != NULL && options->stats != NULL)));
  KF_OPTIONS(kf_fit_options, o, options);
  if (o.centre == KF_CENTRE_DEFAULT || o.text != NULL)
    o.centre = o.text != NULL ? KF_CENTRE_MEAN : KF_CENTRE_NONE;
  fit_job j = {.ctx = ctx, .data = data, .stats = o.stats, .options = o};
  j.rows = data != NULL && o.between == NULL;
  KF_TRY(check_options(&j, err));
  kf_status status = fit(&j, out);
  kf_fitter_free(j.fitter);
  kf_stats_free(j.own);
  if (status == KF_OK && report != NULL)
    *report = j.report;
  else
    kf_fit_report_free(j.report);
  return status;
}

kf_status kf_fit_stats(kf_ctx *ctx, const kf_stats *stats, const kf_fit_options *options,
                       kf_model **out) {
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
