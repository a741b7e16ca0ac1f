/* reporting.c - from rows to a page about them: what is chosen, judged and swept on the way. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

static int done(report_job *job, kf_status status) {
  return status == KF_OK ? EXIT_OK : fail(job->cli, status);
}

/* --- lambda, dimensions, model ------------------------------------------------------------------ */

static kf_centre centre_of(const report_job *job) {
  return job->model ? kf_model_centre(job->model) : KF_CENTRE_NONE;
}

/* Of the model, or the best when each row is left out in turn. */
static kf_lambda lambda_of(const report_job *job) {
  return (kf_lambda){job->model ? kf_model_lambda(job->model) : job->lambda->lambda,
                     KF_LAMBDA_ABSOLUTE};
}

static int choose(report_job *job) {
  kf_ctx *ctx = job->cli->ctx;
  kf_lambda_options by_lambda = {.centre = centre_of(job)};
  kf_status status = KF_OK;
  if (!job->lambda)
    status = kf_lambda_choice_new(ctx, job->stats, job->train, &by_lambda, &job->lambda);
  if (status != KF_OK) return fail(job->cli, status);
  kf_dim_options by_dim = {.lambda = lambda_of(job), .centre = centre_of(job)};
  if (!job->dim) status = kf_dim_choice_new(ctx, job->stats, job->train, &by_dim, &job->dim);
  return done(job, status);
}

static int fit(report_job *job) {
  if (job->model) return EXIT_OK;
  const cli_number *given = &job->cli->args.dim;
  kf_fit_options options = {.lambda = lambda_of(job),
                            .dim = given->given ? (uint32_t)given->value : job->dim->dim};
  return done(job, kf_fit(job->cli->ctx, job->stats, &options, &job->model));
}

/* --- accuracy --------------------------------------------------------------------------------- */

static int judge(report_job *job) {
  if (!job->test) return EXIT_OK;
  kf_status status = kf_eval(job->cli->ctx, job->model, job->test, NULL, &job->eval);
  if (status == KF_OK)
    status = kf_analysis_new(job->cli->ctx, job->model, job->test, NULL, &job->analysis);
  return done(job, status);
}

/* Moves the cells of a sweep behind those that are there. */
static int take_sweep(report_job *job, const kf_sweep *sweep) {
  kf_sweep_cell *cells = job->sweep.cells;
  size_t before = job->sweep.n_cells;
  cells = realloc(cells, (before + sweep->n_cells) * sizeof *cells);
  if (!cells) return fail_with(job->cli, EXIT_INTERNAL, "out of memory");
  memcpy(cells + before, sweep->cells, sweep->n_cells * sizeof *cells);
  job->sweep = *sweep;
  job->sweep.cells = cells;
  job->sweep.n_cells += before;
  return EXIT_OK;
}

static int sweep_once(report_job *job, const kf_sweep_options *options) {
  kf_sweep *sweep;
  kf_status status =
      kf_sweep_new(job->cli->ctx, job->stats, job->train, job->test, options, &sweep);
  if (status != KF_OK) return fail(job->cli, status);
  int result = take_sweep(job, sweep);
  kf_sweep_free(sweep);
  return result;
}

/* Prototypes over lambda, with all dimensions; the lambda of the model is in the other sweep. */
static int sweep_lambdas(report_job *job) {
  static const double relative[] = {0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100};
  double own = kf_model_lambda(job->model), mean = kf_model_mean_eigenvalue(job->model);
  kf_lambda lambdas[COUNT_OF(relative)];
  size_t n = 0;
  for (size_t i = 0; i < COUNT_OF(relative) && mean > 0; i++)
    if (own / mean < 0.8 * relative[i] || own / mean > 1.25 * relative[i])
      lambdas[n++] = (kf_lambda){relative[i], KF_LAMBDA_RELATIVE};
  kf_sweep_options options = {
      .lambdas = lambdas, .n_lambdas = n, .centre = centre_of(job), .skip_raw = 1};
  return n ? sweep_once(job, &options) : EXIT_OK;
}

/* The dimensions to look at, rising: those of --dims, or D, D/2, D/4, …; and that of the model.
 * Handed out, to be freed; NULL: out of memory. */
static uint32_t *list_dims(const report_job *job, size_t *n) {
  const cli_numbers *given = &job->cli->args.dims;
  uint32_t own = kf_model_dim_out(job->model), all = kf_model_dim_in(job->model);
  uint32_t *dims = malloc((given->n + 34) * sizeof *dims);
  if (!dims) return NULL;
  *n = 0;
  dims[(*n)++] = own;
  for (size_t i = 0; i < given->n; i++)
    if (given->items[i] != own) dims[(*n)++] = given->items[i];
  for (uint32_t d = all; !given->n && d >= 4 && d >= all / 128; d /= 2)
    if (d != own) dims[(*n)++] = d;
  for (size_t i = 1; i < *n; i++) /* few, and nearly in order */
    for (size_t j = i; j > 0 && dims[j] < dims[j - 1]; j--) {
      uint32_t larger = dims[j - 1];
      dims[j - 1] = dims[j];
      dims[j] = larger;
    }
  return dims;
}

/* Prototypes and neighbours over dimensions, at the lambda of the model. */
static int sweep_dims(report_job *job) {
  static const uint32_t usual[] = {1, 5, 15};
  const cli_numbers *given = &job->cli->args.neighbour_list;
  kf_lambda lambda = lambda_of(job);
  kf_sweep_options options = {.lambdas = &lambda, .n_lambdas = 1, .centre = centre_of(job)};
  options.k = given->n ? given->items : usual;
  options.n_k = given->n ? given->n : COUNT_OF(usual);
  while (!given->n && options.n_k && options.k[options.n_k - 1] > kf_stats_rows(job->stats) / 2)
    options.n_k--;
  uint32_t *dims = list_dims(job, &options.n_dims);
  if (!dims) return fail_with(job->cli, EXIT_INTERNAL, "out of memory");
  options.dims = dims;
  int result = sweep_once(job, &options);
  free(dims);
  return result;
}

static int choose_k(report_job *job) {
  kf_gallery *gallery;
  kf_status status = kf_gallery_new(job->cli->ctx, job->train, job->model, NULL, &gallery);
  if (status != KF_OK) return fail(job->cli, status);
  if (kf_gallery_rows(gallery) > 1) status = kf_k_choice_new(job->cli->ctx, gallery, NULL, &job->k);
  kf_gallery_free(gallery);
  return done(job, status);
}

static int draw(report_job *job) {
  if (!job->cli->args.shots.n) return EXIT_OK;
  int result = EXIT_OK;
  if (job->cli->args.text) result = load_text_for(job->cli, job->stats, &job->text);
  if (result != EXIT_OK) return result;
  return draw_shots(job->cli, job->train, job->test, job->text, NULL, &job->shots);
}

/* --- the page --------------------------------------------------------------------------------- */

static int write_page(report_job *job) {
  kf_report_content content = {.title = job->title,
                               .train = job->train_name,
                               .test = job->test ? job->test_name : NULL,
                               .train_rows = kf_stats_rows(job->stats),
                               .model = job->model,
                               .eval = job->test ? &job->eval : NULL,
                               .lambda = job->lambda,
                               .dim = job->dim,
                               .k = job->k,
                               .sweep = &job->sweep,
                               .analysis = job->analysis,
                               .shots = job->shots};
  return done(job, kf_report_save(job->cli->ctx, &content, job->path));
}

int report_write(report_job *job) {
  static int (*const steps[])(report_job *) = {choose,     fit,      judge, sweep_lambdas,
                                               sweep_dims, choose_k, draw,  write_page};
  int result = EXIT_OK;
  for (size_t i = 0; i < COUNT_OF(steps) && result == EXIT_OK; i++) result = steps[i](job);
  return result;
}

void report_free(report_job *job) {
  free(job->sweep.cells);
  kf_analysis_free(job->analysis);
  kf_shots_free(job->shots);
  kf_text_free(job->text);
  kf_k_choice_free(job->k);
  kf_dim_choice_free(job->dim);
  kf_lambda_choice_free(job->lambda);
  kf_model_free(job->model);
  kf_stats_free(job->stats);
  kf_data_free(job->test);
  kf_data_free(job->train);
}
