/* cmd_report.c - koofu report: training and test data to one page about them. */
#include "cli.h"
#include "commands.h"

#include <stdlib.h>
#include <string.h>

/* One run: what goes in, and what the page will show. */
typedef struct report_job {
  cli_run *cli;
  kf_data *train, *test; /* test NULL: folds of the training rows */
  kf_stats *stats;
  kf_truth *truth; /* NULL: labels */
  kf_text *text;   /* NULL: none */
  kf_model *model;
  kf_lambda_choice *lambda;
  kf_fuse_choice *fuse;
  kf_lambda chosen; /* of the model */
  double alpha;     /* of the model, where it knows text */
  int alpha_given;  /* as a number, by an option */
  kf_dim_choice *dim;
  kf_k_choice *k;
  kf_eval_result eval, by_text, fused;
  kf_analysis *analysis;
  kf_shots *shots;
  kf_sweep sweep; /* the cells of two sweeps, in an array of our own */
} report_job;

static int done(report_job *job, kf_status status) {
  return status == KF_OK ? EXIT_OK : fail(job->cli, status);
}

/* --- data, lambda, dimensions, model ---------------------------------------------------------- */

/* Text from its file, or from the model. */
static int open_text(report_job *job) {
  if (job->cli->args.text) return load_text_for(job->cli, job->stats, &job->text);
  if (!job->model || !kf_model_fused(job->model)) return EXIT_OK;
  return done(job, kf_text_new_of_model(job->cli->ctx, job->model, &job->text));
}

static int open_inputs(report_job *job) {
  cli_run *cli = job->cli;
  int result = load_judging(cli, &job->truth, NULL);
  if (result == EXIT_OK && cli->args.model) result = load_model(cli, cli->args.model, &job->model);
  if (result == EXIT_OK) result = open_test(cli, &job->test);
  if (result != EXIT_OK) return result;
  if (job->model) cli->args.no_normalize = !kf_model_normalized(job->model);
  result = data_stats(cli, &job->train, &job->stats);
  return result == EXIT_OK ? open_text(job) : result;
}

/* Whether the model of the page knows text. */
static int is_fused(const report_job *job) {
  return job->model ? kf_model_fused(job->model) : job->text != NULL;
}

static kf_centre centre_of(const report_job *job) {
  if (job->model) return kf_model_centre(job->model);
  return is_fused(job) ? KF_CENTRE_MEAN : KF_CENTRE_NONE;
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
  kf_lambda_options by_lambda = {.centre = centre_of(job), .one_se = job->cli->args.one_se};
  kf_fuse_options by_alpha = {.centre = centre_of(job), .lambda = job->chosen};
  kf_status status = KF_OK;
  if (!job->lambda)
    status = kf_lambda_choice_new(ctx, job->stats, job->train, &by_lambda, &job->lambda);
  if (status == KF_OK && is_fused(job) && !job->fuse)
    status = kf_fuse_choice_new(ctx, job->stats, job->train, job->text, &by_alpha, &job->fuse);
  return done(job, status);
}

static int choose(report_job *job) {
  int result = choose_setting(job);
  if (result == EXIT_OK) result = leave_out(job);
  if (result != EXIT_OK) return result;
  kf_dim_options by_dim = {.lambda = job->chosen, .centre = centre_of(job)};
  return done(job, kf_dim_choice_new(job->cli->ctx, job->stats, job->train, &by_dim, &job->dim));
}

/* --dim, or the fewest that lose nothing; beside text all of them, as 'koofu fit' has it: that fewer
 * lose nothing is known of prototypes alone. */
static uint32_t dim_of(const report_job *job) {
  const cli_number *given = &job->cli->args.dim;
  if (given->given) return (uint32_t)given->value;
  return job->text ? kf_stats_dim(job->stats) : job->dim->dim;
}

static int fit(report_job *job) {
  if (job->model) return EXIT_OK;
  kf_ctx *ctx = job->cli->ctx;
  kf_fit_options options = {.lambda = job->chosen, .dim = dim_of(job), .centre = centre_of(job)};
  kf_model *map;
  kf_status status = kf_fit(ctx, job->stats, &options, &map);
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
  options.skip_raw = 1;
  options.part = KF_PART_TEXT;
  if (status == KF_OK && is_fused(job))
    status = kf_eval(ctx, job->model, job->test, &options, &job->by_text);
  options.part = KF_PART_FUSED;
  if (status == KF_OK && is_fused(job))
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
  o.fuse = is_fused(job);
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
  options.skip_raw = 1;
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
  if (!job->cli->args.shots.n) return EXIT_OK;
  return draw_shots(job->cli, job->train, job->test, job->text, job->truth, &job->shots);
}

/* --- the page --------------------------------------------------------------------------------- */

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash && slash[1] ? slash + 1 : path;
}

/* "x.npy", "x.npy and 3 more" */
static void show_files(const cli_list *list, char text[512]) {
  if (list->n == 0)
    text[0] = '\0';
  else if (list->n == 1)
    snprintf(text, 512, "%.500s", base_name(list->items[0]));
  else
    snprintf(text, 512, "%.460s and %zu more", base_name(list->items[0]), list->n - 1);
}

static int write_page(report_job *job) {
  const cli_args *a = &job->cli->args;
  char train[512], test[512];
  show_files(&a->operands, train);
  show_files(&a->test, test);
  kf_report_content content = {.title = a->title,
                               .train = train,
                               .test = job->test ? test : NULL,
                               .train_rows = kf_stats_rows(job->stats),
                               .model = job->model,
                               .eval = job->test ? &job->eval : NULL,
                               .text = job->test && is_fused(job) ? &job->by_text : NULL,
                               .fused = job->test && is_fused(job) ? &job->fused : NULL,
                               .fuse = job->fuse,
                               .lambda = job->lambda,
                               .dim = job->dim,
                               .k = job->k,
                               .sweep = &job->sweep,
                               .analysis = job->analysis,
                               .shots = job->shots};
  int result = done(job, kf_report_save(job->cli->ctx, &content, a->output));
  if (result != EXIT_OK) return result;
  say_written(job->cli, a->output, "%s, %s, %u -> %u dimensions, lambda %s",
              show_counted(kf_stats_rows(job->stats), "row", "rows").text,
              show_counted(kf_model_classes(job->model), "class", "classes").text,
              kf_model_dim_in(job->model), kf_model_dim_out(job->model),
              show_real(kf_model_lambda(job->model)).text);
  if (job->test)
    say(job->cli, "top-1 accuracy: raw %s, Koo-Fu %s",
        show_percent(job->eval.raw_top1, job->eval.n).text,
        show_percent(job->eval.top1, job->eval.n).text);
  if (job->test && is_fused(job))
    say(job->cli, "text alone %s, text and prototypes together %s",
        show_percent(job->by_text.top1, job->by_text.n).text,
        show_percent(job->fused.top1, job->fused.n).text);
  return EXIT_OK;
}

static void job_free(report_job *job) {
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

static int check_options(cli_run *cli) {
  const cli_args *a = &cli->args;
  if (is_stdout(a->output)) return fail_usage(cli, "the page needs a file name, not '-'");
  const char *of_model = a->dim.given      ? "dim"
                         : a->lambda       ? "lambda"
                         : a->one_se       ? "one-se"
                         : a->fuse         ? "fuse"
                         : a->no_normalize ? "no-normalize"
                                           : NULL;
  if (a->model && of_model)
    return fail_usage(cli, "--%s has no meaning with --model, which has its own", of_model);
  if (a->text && a->no_normalize)
    return fail_usage(cli, "--text has no meaning with --no-normalize");
  if (a->truth && !a->test.n) return fail_usage(cli, "--truth needs --test DATA");
  if (a->shots.n && !a->test.n) return fail_usage(cli, "--shots needs --test DATA");
  if (!a->shots.n && a->seeds.given) return fail_usage(cli, "--seeds needs --shots");
  int result = check_text_options(cli);
  if (result == EXIT_OK) result = check_choose_options(cli);
  if (result == EXIT_OK) result = check_lambda(cli);
  if (result != EXIT_OK) return result;
  return check_output(cli, a->output);
}

static int run(cli_run *cli) {
  static int (*const steps[])(report_job *) = {
      open_inputs, choose, fit, judge, sweep_lambdas, sweep_dims, choose_k, draw, write_page};
  report_job job = {.cli = cli};
  int result = check_options(cli);
  for (size_t i = 0; i < COUNT_OF(steps) && result == EXIT_OK; i++) result = steps[i](&job);
  job_free(&job);
  return result;
}

static const cli_group own_options = {
    "Options",
    (const cli_option[]){
        {"output", 'o', OPTION_TEXT, offsetof(cli_args, output), OPTION_REQUIRED, "PAGE.html",
         "the page to write", 0, 0, NULL},
        {"test", 0, OPTION_LIST, offsetof(cli_args, test), 0, "DATA",
         "rows to judge by; repeat it for several files (default: folds of the training rows)", 0,
         0, NULL},
        {"test-labels", 0, OPTION_LIST, offsetof(cli_args, test_labels), 0, "FILE",
         "labels of --test, as --labels", 0, 0, NULL},
        {"model", 0, OPTION_TEXT, offsetof(cli_args, model), 0, "MODEL",
         "a model of these training rows (default: fit one)", 0, 0, NULL},
        {"lambda", 0, OPTION_TEXT, offsetof(cli_args, lambda), 0, "LAMBDA",
         "regulariser of the model, as in 'koofu fit' (default: auto)", 0, 0, NULL},
        {"one-se", 0, OPTION_FLAG, offsetof(cli_args, one_se), 0, NULL,
         "the largest lambda within one standard error of the best one", 0, 0, NULL},
        {"dim", 0, OPTION_NUMBER, offsetof(cli_args, dim), 0, "L",
         "dimensions of the model (default: the fewest that lose nothing; with --text: all)", 1,
         KF_MAX_DIM, NULL},
        {"dims", 0, OPTION_NUMBERS, offsetof(cli_args, dims), 0, "L,...",
         "dimensions to compare (default: D, D/2, D/4, ...)", 1, KF_MAX_DIM, NULL},
        {"neighbours", 'k', OPTION_NUMBERS, offsetof(cli_args, neighbour_list), 0, "K,...",
         "numbers of neighbours to compare, separated by commas (default: 1,5,15)", 1,
         KF_MAX_NEIGHBOURS, NULL},
        {"shots", 0, OPTION_NUMBERS, offsetof(cli_args, shots), 0, "N,...",
         "with --test: curves of accuracy with N training rows of each class", 1, INT32_MAX, NULL},
        {"seeds", 0, OPTION_NUMBER, offsetof(cli_args, seeds), 0, "S",
         "with --shots: draw S times (default: 3)", 1, 1000, NULL},
        {"text", 0, OPTION_TEXT, offsetof(cli_args, text), 0, "TEXT",
         "also by text, alone and together with prototypes (see 'koofu fit --text'); with a "
         "--model "
         "that knows none: alone",
         0, 0, NULL},
        {"fuse", 0, OPTION_TEXT, offsetof(cli_args, fuse), 0, "ALPHA",
         "with --text: what prototypes count beside text, a number or auto (default: auto)", 0, 0,
         NULL},
        {"title", 0, OPTION_TEXT, offsetof(cli_args, title), 0, "TEXT", "the title of the page", 0,
         0, NULL},
        {0}}};

static const cli_group truth_options = {
    "What is right",
    (const cli_option[]){
        {"truth", 0, OPTION_TEXT, offsetof(cli_args, truth), 0, "FILE",
         "what is right for each test row instead of its label (see 'koofu eval')", 0, 0, NULL},
        {"truth-classes", 0, OPTION_TEXT, offsetof(cli_args, truth_classes), 0, "FILE",
         "class names that numbers in --truth stand for, one a line", 0, 0, NULL},
        {"ids", 0, OPTION_TEXT, offsetof(cli_args, ids), 0, "FILE",
         "a name for each test row, one a line, to find it in --truth", 0, 0, NULL},
        {0}}};

const cli_command report_command = {
    .name = "report",
    .operands = "DATA...",
    .min_operands = 1,
    .max_operands = ANY_NUMBER,
    .missing = "the training data are",
    .summary = "write a page about what the map gains, and why",
    .details =
        "One HTML page with pictures, without scripts, that needs nothing but itself: accuracy in "
        "the raw space and in Koo-Fu's; over lambda, the number of dimensions and neighbours; the "
        "spectra behind them; a map of the classes; the worst classes, what is taken for what, and "
        "how far margins can be trusted. docs/report.md says how to read each.\n\n"
        "lambda is chosen by leaving out each training row in turn, the number of dimensions by "
        "cross-validation, or both are those of --model. With --test, accuracies are those of test "
        "rows; without, of rows in folds that were held out, and there is no list of errors.\n\n"
        "With --text, or with a --model that knows text, the page also has accuracies of text "
        "alone and together with prototypes, over lambda, alpha and dimensions; classes, "
        "confusions and margins are those of both together.\n\n"
        "With --shots a section shows how accuracy on the test rows grows with the number of "
        "training rows of each class (see 'koofu sweep --shots').\n\n"
        "The options on labels and rows are for both data sets, except that --test has labels of "
        "its own. The training rows are held in memory for the neighbours, five bytes for each "
        "number.",
    .groups = (const cli_group *const[]){&own_options, &truth_options, &stats_options,
                                         &label_options, &row_options, &strict_options, NULL},
    .examples =
        (const cli_example[]){
            {"What is in it for me?",
             "koofu report train.safetensors --test test.safetensors -o report.html"},
            {"From .npy files, with a title",
             "koofu report x.npy --labels y.npy --test x_test.npy --test-labels y_test.npy "
             "--title 'Birds' -o birds.html"},
            {"Names and pictures",
             "koofu report train.safetensors --test test.safetensors --text text.safetensors -o "
             "report.html"},
            {NULL, NULL}},
    .run = run,
};
