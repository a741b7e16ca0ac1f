/* reporting.c - from rows to a page about them: what is chosen, judged and swept on the way. */
#include "choosing.h"
#include "reporting.h"
#include "sweeping.h"

#include <stdlib.h>
#include <string.h>

static int done(report_job *job, kf_status status) {
  return status == KF_OK ? EXIT_OK : fail(job->cli, status);
}

/* --- lambda, dimensions, model ------------------------------------------------------------------ */

int report_fused(const report_job *job) {
  return job->model ? kf_model_fused(job->model) : job->text != NULL;
}

static kf_centre centre_of(const report_job *job) {
  if (job->model) return kf_model_centre(job->model);
  return report_fused(job) ? KF_CENTRE_MEAN : KF_CENTRE_NONE;
}

/* Lambda, and alpha where there is text: of the model, as options say, or by leave-one-out. */
static int choose_setting(report_job *job) {
  cli_run *cli = job->cli;
  if (job->model) {
    job->chosen = (kf_lambda){kf_model_lambda(job->model), KF_LAMBDA_ABSOLUTE};
    job->alpha = kf_model_alpha(job->model);
    return EXIT_OK;
  }
  if (job->text) {
    int result = choose_fusion(cli, job->stats, job->train, job->text, &job->chosen, &job->alpha,
                               &job->fuse);
    job->alpha_given = !job->fuse;
    return result;
  }
  return choose_lambda(cli, job->stats, job->train, &job->chosen, &job->lambda);
}

/* The curves that the page shows whether they decided or not. */
static int leave_out(report_job *job) {
  kf_ctx *ctx = job->cli->ctx;
  kf_lambda_options by_lambda = {.centre = centre_of(job), .one_se = job->cli->args.fit.one_se};
  kf_fuse_options by_alpha = {.centre = centre_of(job), .lambda = job->chosen};
  kf_status status = KF_OK;
  if (!job->lambda)
    status = kf_lambda_choice_new(ctx, job->stats, job->train, &by_lambda, &job->lambda);
  if (status == KF_OK && report_fused(job) && !job->fuse)
    status = kf_fuse_choice_new(ctx, job->stats, job->train, job->text, &by_alpha, &job->fuse);
  return done(job, status);
}

static int choose(report_job *job) {
  int result = choose_setting(job);
  if (result == EXIT_OK) result = leave_out(job);
  if (result != EXIT_OK) return result;
  kf_dim_options by_dim = {.lambda = job->chosen, .centre = centre_of(job)};
  if (job->dim) return EXIT_OK;
  return done(job, kf_dim_choice_new(job->cli->ctx, job->stats, job->train, &by_dim, &job->dim));
}

/* --dim, or the fewest that lose nothing; beside text all of them, as 'koofu fit' has it: that fewer
 * lose nothing is known of prototypes alone. */
static uint32_t dim_of(const report_job *job) {
  const cli_number *given = &job->cli->args.fit.dim;
  if (given->given) return (uint32_t)given->value;
  return job->text ? kf_stats_dim(job->stats) : job->dim->dim;
}

static int fit(report_job *job) {
  if (job->model) return EXIT_OK;
  kf_ctx *ctx = job->cli->ctx;
  kf_fit_options options = {.lambda = job->chosen, .dim = dim_of(job), .centre = centre_of(job)};
  kf_model *map;
  kf_status status = kf_fit_stats(ctx, job->stats, &options, &map);
  if (status != KF_OK || !job->text) {
    if (status == KF_OK) job->model = map;
    return done(job, status);
  }
  status = kf_model_new_fused(ctx, map, job->text, job->alpha, &job->model);
  kf_model_free(map);
  return done(job, status);
}

/* --- accuracy --------------------------------------------------------------------------------- */

static int judge(report_job *job) {
  if (!job->test) return EXIT_OK;
  kf_ctx *ctx = job->cli->ctx;
  kf_eval_options options = {.part = KF_PART_IMAGES, .truth = job->truth};
  kf_analysis_options errors = {.truth = job->truth};
  kf_status status = kf_eval(ctx, job->model, job->test, &options, &job->eval);
  options.raw = KF_OFF;
  options.part = KF_PART_TEXT;
  if (status == KF_OK && report_fused(job))
    status = kf_eval(ctx, job->model, job->test, &options, &job->by_text);
  options.part = KF_PART_FUSED;
  if (status == KF_OK && report_fused(job))
    status = kf_eval(ctx, job->model, job->test, &options, &job->fused);
  if (status == KF_OK)
    status = kf_analysis_new(ctx, job->model, job->test, &errors, &job->analysis);
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

/* What all sweeps of the page have in common. At the lambda of the model its alpha counts, and where
 * it is given everywhere. */
static kf_sweep_options sweep_options(const report_job *job, const kf_lambda *lambdas, size_t n) {
  kf_sweep_options o = {.lambdas = lambdas, .n_lambdas = n, .centre = centre_of(job)};
  int given = lambdas == &job->chosen || job->alpha_given;
  o.truth = job->truth;
  o.text = job->text;
  o.fuse = report_fused(job);
  o.alphas = given ? &job->alpha : NULL;
  o.n_alphas = given ? 1 : 0;
  return o;
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
  kf_sweep_options options = sweep_options(job, lambdas, n);
  options.raw = KF_OFF;
  return n ? sweep_once(job, &options) : EXIT_OK;
}

/* The dimensions to look at, rising: those of --dims, or D, D/2, D/4, …; and that of the model.
 * Handed out, to be freed; NULL: out of memory. */
static uint32_t *list_dims(const report_job *job, size_t *n) {
  const cli_numbers *given = &job->cli->args.sweep.dims;
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
  const cli_numbers *given = &job->cli->args.search.ks;
  kf_sweep_options options = sweep_options(job, &job->chosen, 1);
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
  if (!job->cli->args.shots.sizes.n) return EXIT_OK;
  return draw_shots(job->cli, job->train, job->test, job->text, job->truth, &job->shots);
}

/* --- the page --------------------------------------------------------------------------------- */

static int write_page(report_job *job) {
  int both = job->test && report_fused(job);
  kf_report_content content = {.title = job->title,
                               .train = job->train_name,
                               .test = job->test ? job->test_name : NULL,
                               .train_rows = kf_stats_rows(job->stats),
                               .model = job->model,
                               .eval = job->test ? &job->eval : NULL,
                               .text = both ? &job->by_text : NULL,
                               .fused = both ? &job->fused : NULL,
                               .fuse = job->fuse,
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
  kf_fuse_choice_free(job->fuse);
  kf_truth_free(job->truth);
  kf_model_free(job->model);
  kf_stats_free(job->stats);
  kf_data_free(job->test);
  kf_data_free(job->train);
}
