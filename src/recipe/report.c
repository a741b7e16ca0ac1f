/* report.c - makes a page about training rows: fits and chooses, judges, sweeps.
 *
 * The choices and the model share one decomposition of S_w, as in a fit; folds, sweeps and few-shot
 * draws have their own scatter. */
#include "recipe/recipe.h"

#include <math.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static const uint32_t usual_k[] = {1, 5, 15};

/* --- the sample that sweeps judge, and the costs of a report ---------------------------------- */

/* Neighbours compare each row that is judged with all training rows. */
#define MOST_PAIRS (UINT64_C(1) << 33)
#define LEAST_ROWS 1000u

static uint64_t rows_to_judge(const kf_report_job *j) {
  return j->options.test != NULL ? j->options.test->rows : j->fit.stats->rows;
}

static void take_sample(kf_report_job *j) {
  uint64_t rows = j->train->rows, most = rows > 0 ? MOST_PAIRS / rows : 0;
  if (j->options.sample > 0) return;
  if (most > KF_DEFAULT_SAMPLE) most = KF_DEFAULT_SAMPLE;
  j->options.sample = most > LEAST_ROWS ? most : LEAST_ROWS;
}

static uint64_t judged(const kf_report_job *j) {
  uint64_t all = rows_to_judge(j);
  return all < j->options.sample ? all : j->options.sample;
}

/* Half of the interval where it is widest. */
static double sample_error(const kf_report_job *j) {
  double low, high;
  if (judged(j) == rows_to_judge(j)) return 0;
  kf_interval95(judged(j) / 2, judged(j), &low, &high);
  return (high - low) / 2;
}

static bool has_neighbours(const kf_report_job *j) { return j->options.neighbours != KF_OFF; }

/* Of the map of all dimensions, half of them, and so on, and of the raw space. */
static double cost_of_neighbours(double queries, double rows, double dim) {
  double cost = kf_cost_of_index(rows, dim, dim) + kf_cost_of_search(queries, rows, dim);
  for (double d = dim; d >= 4 && d >= dim / 128; d /= 2)
    cost += kf_cost_of_index(rows, dim, d) + kf_cost_of_search(queries, rows, d);
  return cost;
}

static void estimate_costs(kf_report_job *j) {
  const kf_report_options *o = &j->options;
  double rows = (double)j->train->rows, dim = j->train->dim, classes = j->train->n_classes;
  double test = o->test != NULL ? (double)o->test->rows : 0, all = test > 0 ? test : rows;
  double judged = fmin(all, (double)o->sample);
  kf_folding folding = {.folds = KF_DEFAULT_FOLDS, .sample = o->sample};
  double folds = kf_folds_taken(&folding, j->train->rows), turns = test > 0 ? 1 : folds;
  double prototypes = kf_cost_of_prototypes(judged, classes, dim);
  double *cost = j->costs;
  cost[KF_REPORT_FIT] = cost[KF_REPORT_CURVES] = kf_cost_of_prototypes(rows, 0, dim);
  cost[KF_REPORT_JUDGE] = (o->fit.text != NULL ? 5 : 3) * kf_cost_of_prototypes(test, classes, dim);
  cost[KF_REPORT_LAMBDAS] = 10 * prototypes;
  cost[KF_REPORT_DIMS] = prototypes;
  cost[KF_REPORT_SHOTS] = 2.0 * (double)o->n_shots * (o->seeds > 0 ? o->seeds : 3) * prototypes;
  if (!has_neighbours(j)) return;
  cost[KF_REPORT_DIMS] += turns * cost_of_neighbours(judged / turns, rows, dim);
  cost[KF_REPORT_K] = folds * (kf_cost_of_index(rows, dim, dim) +
                               kf_cost_of_search(fmin(rows, (double)o->sample) / folds, rows, dim));
}

static void begin_stage(kf_report_job *j) {
  double all = 0;
  estimate_costs(j);
  for (size_t i = 0; i < KF_REPORT_PARTS; i++) all += j->costs[i];
  kf_stage_begin_parts(&j->stage, j->ctx, "report", all);
}

static kf_status begin_part(kf_report_job *j, kf_report_part part) {
  return kf_stage_part(&j->stage, j->costs[part]);
}

/* --- lambda, alpha, dimensions, model --------------------------------------------------------- */

static kf_status check_options(const kf_report_options *o, kf_err *err) {
  if (o->fit.between != NULL)
    return kf_fail(err, KF_ERR_ARG, "a report cannot take S_b from other statistics");
  if (o->test == NULL && (o->truth != NULL || o->n_shots > 0))
    return kf_fail(err, KF_ERR_ARG, "%s without test rows",
                   o->truth != NULL ? "a truth" : "few-shot curves");
  bool normalized =
      o->fit.stats != NULL ? o->fit.stats->normalized : o->fit.stats_options.normalize != KF_OFF;
  bool weighed = o->model != NULL ? kf_prior_of_cosines(o->model)
                                  : o->fit.priors == KF_PRIORS_TRAINING && normalized;
  if (weighed)
    return kf_fail(
        err, KF_ERR_ARG,
        "a report shows unit rows only with equal priors, not with those of the training "
        "rows");
  return KF_OK;
}

/* With a model, its settings are used; of `fit` only text, statistics, metric and sample. */
static kf_status take_model(kf_report_job *j) {
  const kf_fit_options given = j->options.fit;
  kf_fit_options o = {.stats_options = given.stats_options,
                      .stats = given.stats,
                      .text = given.text,
                      .metric = given.metric,
                      .sample = given.sample,
                      .method = kf_model_method(j->options.model),
                      .priors = kf_model_priors(j->options.model)};
  j->model = j->options.model;
  KF_TRY(kf_map_check_data(&j->model->map, j->train, &j->ctx->err));
  o.stats_options.normalize = kf_model_normalized(j->model) ? KF_ON : KF_OFF;
  KF_TRY(kf_fit_begin(&j->fit, j->ctx, j->train, &o));
  j->fused = kf_model_fused(j->model);
  if (j->fused && given.text == NULL) {
    KF_TRY(kf_text_new_of_model(j->ctx, j->model, &j->own_text));
    j->text = j->fit.options.text = j->own_text;
  }
  j->fit.options.centre = kf_model_centre(j->model);
  j->fit.lambda = (kf_lambda){kf_model_lambda(j->model), KF_LAMBDA_ABSOLUTE};
  j->fit.alpha = kf_model_alpha(j->model);
  return KF_OK;
}

static kf_status fit_model(kf_report_job *j) {
  kf_fit_options o = j->options.fit;
  j->fused = o.text != NULL;
  KF_TRY(kf_fit_begin(&j->fit, j->ctx, j->train, &o));
  KF_TRY(kf_fit_choose(&j->fit));
  KF_TRY(kf_fit_finish(&j->fit, &j->own_model));
  j->model = j->own_model;
  return KF_OK;
}

/* Adds the curves that the page shows even if nothing was chosen by them. */
static kf_status add_curves(kf_report_job *j) {
  const kf_fit_report *r = j->fit.report;
  if (j->fit.fitter->by_all_rows) return KF_OK; /* there is nothing to leave out */
  if (r->by_lambda == NULL) KF_TRY(kf_fit_try_lambdas(&j->fit));
  if (j->fused && r->by_fusion == NULL) KF_TRY(kf_fit_try_alphas(&j->fit));
  KF_TRY(begin_part(j, KF_REPORT_CURVES));
  return r->by_dim == NULL ? kf_fit_try_dims(&j->fit) : KF_OK;
}

/* Without test rows, the errors are those of training rows left out, with all dimensions. */
static kf_status leave_out(kf_report_job *j) {
  const kf_model *m = j->model;
  kf_metric metric = j->options.fit.metric;
  if (j->options.test != NULL || j->fit.fitter->by_all_rows) return KF_OK;
  kf_left_out_model by = kf_fit_left_out(&j->fit, m, metric);
  by.many = true;
  bool own = m->map.dim_out == m->map.dim_in &&
             by.metric == kf_metric_for(KF_METRIC_DEFAULT, m->map.normalized);
  double temperature = own ? m->temperature : 0;
  if (!m->map.normalized) temperature /= kf_distance_unit(j->fit.stats);
  KF_TRY(kf_left_out_errors(j->fit.fitter, j->train, &by, temperature, &j->analysis));
  if (j->analysis == NULL) return KF_OK;
  return kf_worst_rows_new(j->ctx, j->train, j->analysis, &j->worst, &j->n_worst);
}

kf_status kf_report_choose(kf_report_job *j, kf_ctx *ctx, const kf_data *train,
                           const kf_report_options *options) {
  *j = (kf_report_job){.ctx = ctx, .train = train, .options = *options, .text = options->fit.text};
  KF_TRY(check_options(options, &ctx->err));
  take_sample(j);
  begin_stage(j);
  KF_TRY(begin_part(j, KF_REPORT_FIT));
  KF_TRY(options->model != NULL ? take_model(j) : fit_model(j));
  KF_TRY(add_curves(j));
  KF_TRY(leave_out(j));
  kf_fitter_free(j->fit.fitter); /* sweeps have their own */
  j->fit.fitter = NULL;
  return KF_OK;
}

/* --- accuracy --------------------------------------------------------------------------------- */

static kf_status judge(kf_report_job *j) {
  const kf_report_options *r = &j->options;
  if (r->test == NULL) return KF_OK;
  KF_TRY(begin_part(j, KF_REPORT_JUDGE));
  kf_eval_options o = {.metric = r->fit.metric, .part = KF_PART_IMAGES, .truth = r->truth};
  kf_analysis_options errors = {.metric = r->fit.metric, .truth = r->truth, .mistakes = 1};
  KF_TRY(kf_eval(j->ctx, j->model, r->test, &o, &j->eval));
  o.include_raw = KF_OFF;
  o.part = KF_PART_TEXT;
  if (j->fused) KF_TRY(kf_eval(j->ctx, j->model, r->test, &o, &j->eval_text));
  o.part = KF_PART_FUSED;
  if (j->fused) KF_TRY(kf_eval(j->ctx, j->model, r->test, &o, &j->eval_fused));
  KF_TRY(kf_analysis_new(j->ctx, j->model, r->test, &errors, &j->analysis));
  return kf_worst_rows_new(j->ctx, r->test, j->analysis, &j->worst, &j->n_worst);
}

/* Options of both sweeps. The alpha of the model is used at its lambda, a given alpha
 * everywhere. */
static kf_sweep_options sweep_options(const kf_report_job *j, const kf_lambda *lambdas, size_t n) {
  const kf_fit_options *fit = &j->options.fit;
  bool given = lambdas == &j->fit.lambda || (j->options.model == NULL && fit->alpha != NULL);
  return (kf_sweep_options){.lambdas = lambdas,
                            .n_lambdas = n,
                            .metrics = fit->metric != KF_METRIC_DEFAULT ? &fit->metric : NULL,
                            .n_metrics = fit->metric != KF_METRIC_DEFAULT,
                            .centre = j->fit.options.centre,
                            .method = j->model->map.method,
                            .priors = kf_model_priors(j->model),
                            .sample = j->options.sample,
                            .truth = j->options.truth,
                            .text = j->text,
                            .fuse = j->fused,
                            .alphas = given ? &j->fit.alpha : NULL,
                            .n_alphas = given};
}

/* Sweeps prototypes over lambda, with all dimensions; the other sweep has the lambda of the
 * model. */
static kf_status sweep_lambdas(kf_report_job *j) {
  static const double relative[] = {0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100};
  double own = kf_model_lambda(j->model), mean = kf_model_mean_eigenvalue(j->model);
  kf_lambda lambdas[COUNT_OF(relative)];
  size_t n = 0;
  for (size_t i = 0; i < COUNT_OF(relative) && mean > 0; i++)
    if (own / mean < 0.8 * relative[i] || own / mean > 1.25 * relative[i])
      lambdas[n++] = (kf_lambda){relative[i], KF_LAMBDA_RELATIVE};
  kf_sweep_options o = sweep_options(j, lambdas, n);
  o.include_raw = KF_OFF;
  if (n == 0) return KF_OK;
  KF_TRY(begin_part(j, KF_REPORT_LAMBDAS));
  return kf_sweep_new(j->ctx, j->fit.stats, j->train, j->options.test, &o, &j->sweeps[0]);
}

/* The dimensions to compare, rising: those given, or D, D/2, D/4, …; and that of the model. `dims`
 * has room for the given ones and 34 more. */
static size_t list_dims(const kf_report_job *j, uint32_t *dims) {
  uint32_t own = kf_model_dim_out(j->model), all = kf_model_dim_in(j->model);
  size_t n = 0, n_given = j->options.n_dims;
  dims[n++] = own;
  for (size_t i = 0; i < n_given; i++)
    if (j->options.dims[i] != own) dims[n++] = j->options.dims[i];
  for (uint32_t d = all; n_given == 0 && d >= 4 && d >= all / 128; d /= 2)
    if (d != own) dims[n++] = d;
  for (size_t i = 1; i < n; i++) /* insertion sort: few, and nearly in order */
    for (size_t at = i; at > 0 && dims[at] < dims[at - 1]; at--) {
      uint32_t larger = dims[at - 1];
      dims[at - 1] = dims[at];
      dims[at] = larger;
    }
  return n;
}

/* Sweeps prototypes and neighbours over dimensions, at the lambda of the model. */
static kf_status sweep_dims(kf_report_job *j) {
  const kf_report_options *r = &j->options;
  kf_sweep_options o = sweep_options(j, &j->fit.lambda, 1);
  o.k = r->n_k > 0 ? r->k : usual_k;
  o.n_k = !has_neighbours(j) ? 0 : r->n_k > 0 ? r->n_k : COUNT_OF(usual_k);
  while (r->n_k == 0 && o.n_k > 0 && o.k[o.n_k - 1] > j->fit.stats->rows / 2) o.n_k--;
  uint32_t *dims = kf_alloc(r->n_dims + 34, sizeof *dims);
  if (dims == NULL) return kf_fail_memory(&j->ctx->err);
  o.n_dims = list_dims(j, dims);
  o.dims = dims;
  kf_status status = begin_part(j, KF_REPORT_DIMS);
  if (status == KF_OK)
    status = kf_sweep_new(j->ctx, j->fit.stats, j->train, r->test, &o, &j->sweeps[1]);
  kf_free(dims);
  return status;
}

/* By folds, since the map of the model was fitted to these rows. */
static kf_status choose_k(kf_report_job *j) {
  kf_k_options o = {.sample = j->options.sample};
  if (!has_neighbours(j)) return KF_OK;
  KF_TRY(begin_part(j, KF_REPORT_K));
  return kf_k_choice_new_by_folds(j->ctx, j->fit.stats, j->train, j->model, &o, &j->k);
}

static kf_status draw_shots(kf_report_job *j) {
  const kf_report_options *r = &j->options;
  kf_shots_options o = {.shots = r->shots,
                        .n_shots = r->n_shots,
                        .seeds = r->seeds,
                        .truth = r->truth,
                        .sample = r->sample,
                        .method = j->model->map.method};
  KF_TRY(begin_part(j, KF_REPORT_SHOTS));
  return r->n_shots > 0 ? kf_shots_new(j->ctx, j->train, r->test, j->text, &o, &j->shots) : KF_OK;
}

/* --- the page --------------------------------------------------------------------------------- */

/* Joins the cells of both sweeps, to be freed. */
static kf_status join_sweeps(const kf_report_job *j, kf_sweep *out) {
  const kf_sweep *first = j->sweeps[0], *second = j->sweeps[1];
  size_t n = first != NULL ? first->n_cells : 0;
  *out = *second;
  out->n_cells += n;
  out->cells = kf_alloc(out->n_cells, sizeof *out->cells);
  if (out->cells == NULL) return kf_fail_memory(&j->ctx->err);
  if (n > 0) memcpy(out->cells, first->cells, n * sizeof *out->cells);
  memcpy(out->cells + n, second->cells, second->n_cells * sizeof *out->cells);
  return KF_OK;
}

/* In the order of the classes of the model, to be freed. */
static kf_status list_names(const kf_report_job *j, const char ***out) {
  uint32_t n = kf_model_classes(j->model);
  *out = NULL;
  if (j->options.names == NULL) return KF_OK;
  if ((*out = kf_alloc(n, sizeof **out)) == NULL) return kf_fail_memory(&j->ctx->err);
  for (uint32_t k = 0; k < n; k++)
    (*out)[k] = kf_class_names_of(j->options.names, kf_model_class_name(j->model, k), k);
  return KF_OK;
}

static kf_status write_page(const kf_report_job *j, const char *path) {
  const kf_report_options *r = &j->options;
  const kf_fit_report *chosen = j->fit.report;
  bool both = r->test != NULL && j->fused;
  const char **names;
  kf_sweep joined;
  KF_TRY(list_names(j, &names));
  kf_status status = join_sweeps(j, &joined);
  if (status != KF_OK) {
    kf_free(names);
    return status;
  }
  kf_page page = {.title = r->title,
                  .train = r->train_name,
                  .test = r->test != NULL ? r->test_name : NULL,
                  .train_rows = j->fit.stats->rows,
                  .n_judged = judged(j),
                  .n_to_judge = rows_to_judge(j),
                  .sample_error = sample_error(j),
                  .model = j->model,
                  .names = names,
                  .eval = r->test != NULL ? &j->eval : NULL,
                  .text = both ? &j->eval_text : NULL,
                  .fused = both ? &j->eval_fused : NULL,
                  .fuse = chosen->by_fusion,
                  .lambda = chosen->by_lambda,
                  .dim = chosen->by_dim,
                  .k = j->k,
                  .sweep = &joined,
                  .analysis = j->analysis,
                  .left_out = r->test == NULL,
                  .shots = j->shots,
                  .worst = j->worst,
                  .n_worst = j->n_worst};
  status = kf_page_save(j->ctx, &page, path);
  kf_free(names);
  kf_free(joined.cells);
  return status;
}

kf_status kf_report_finish(kf_report_job *j, const char *path) {
  KF_TRY(judge(j));
  KF_TRY(sweep_lambdas(j));
  KF_TRY(sweep_dims(j));
  KF_TRY(choose_k(j));
  KF_TRY(draw_shots(j));
  KF_TRY(kf_stage_part(&j->stage, 0));
  return write_page(j, path);
}

void kf_report_clear(kf_report_job *j) {
  kf_stage_end(&j->stage);
  kf_sweep_free(j->sweeps[0]);
  kf_sweep_free(j->sweeps[1]);
  kf_worst_rows_free(j->worst, j->n_worst);
  kf_analysis_free(j->analysis);
  kf_shots_free(j->shots);
  kf_k_choice_free(j->k);
  kf_model_free(j->own_model);
  kf_text_free(j->own_text);
  kf_fit_end(&j->fit);
}

/* The prototypes of the model in folds. */
static void fill_held_out(const kf_report_job *j, kf_report_result *out) {
  const kf_sweep *s = j->sweeps[1];
  for (size_t i = 0; i < s->n_cells; i++) {
    const kf_sweep_cell *c = &s->cells[i];
    if (c->k > 0 || c->text != KF_CENTRE_DEFAULT || c->fused) continue;
    if (c->raw) out->held_raw_top1 = c->top1;
    if (c->raw || c->dim != out->dim) continue;
    out->held_top1 = c->top1;
    out->held_n = c->n;
  }
}

static void fill_result(const kf_report_job *j, kf_report_result *out) {
  const kf_fit_report *r = j->fit.report;
  *out = (kf_report_result){.rows = j->fit.stats->rows,
                            .n_unlabelled = j->train->unlabelled,
                            .n_bad = j->train->rows - j->train->unlabelled - j->fit.stats->rows,
                            .classes = kf_model_classes(j->model),
                            .dim_in = kf_model_dim_in(j->model),
                            .dim = kf_model_dim_out(j->model),
                            .lambda = kf_model_lambda(j->model),
                            .mean_eigenvalue = kf_model_mean_eigenvalue(j->model),
                            .fused = j->fused,
                            .alpha = kf_model_alpha(j->model),
                            .n = r->n,
                            .right = r->right,
                            .standard_error = r->standard_error,
                            .eval = j->eval,
                            .eval_text = j->eval_text,
                            .eval_fused = j->eval_fused,
                            .n_compared = r->n_compared,
                            .n_near = r->n_near,
                            .many_near = r->many_near,
                            .n_judged = judged(j),
                            .n_to_judge = rows_to_judge(j),
                            .sample_error = sample_error(j)};
  if (j->options.test == NULL) fill_held_out(j, out);
}

kf_status kf_report_write(kf_ctx *ctx, const kf_data *train, const kf_report_options *options,
                          const char *path, kf_report_result *out) {
  KF_ENTER(ctx, train != NULL && path != NULL);
  KF_OPTIONS(kf_report_options, o, options);
  KF_TRY(kf_check_reserved(o.fit.reserved, sizeof o.fit.reserved, __func__, err));
  KF_TRY(kf_data_refuse_overwrite(train, path, err));
  KF_TRY(kf_check_output(ctx, path, err));
  if (o.test != NULL) KF_TRY(kf_data_refuse_overwrite(o.test, path, err));
  kf_report_job j;
  kf_status status = kf_report_choose(&j, ctx, train, &o);
  if (status == KF_OK) status = kf_report_finish(&j, path);
  if (status == KF_OK && out != NULL) fill_result(&j, out);
  kf_report_clear(&j);
  return status;
}
