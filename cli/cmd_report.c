/* cmd_report.c - koofu report: training and test data to one page about them. */
#include "choosing.h"
#include "commands.h"
#include "format.h"
#include "inputs.h"
#include "judging.h"
#include "outputs.h"
#include "reporting.h"
#include "texts.h"

#include <string.h>

/* Text from its file, or from the model. */
static int open_text(report_job *job) {
  if (job->cli->args.text.path) return load_text(job->cli, &job->text);
  if (!job->model || !kf_model_fused(job->model)) return EXIT_OK;
  kf_status status = kf_text_new_of_model(job->cli->ctx, job->model, &job->text);
  return status == KF_OK ? EXIT_OK : fail(job->cli, status);
}

static int open_inputs(report_job *job) {
  cli_run *cli = job->cli;
  int result = load_judging(cli, &job->truth, NULL);
  if (result == EXIT_OK && cli->args.report.model)
    result = load_model(cli, cli->args.report.model, &job->model);
  if (result == EXIT_OK) result = open_test(cli, &job->test);
  if (result != EXIT_OK) return result;
  if (job->model) cli->args.stats.no_normalize = !kf_model_normalized(job->model);
  result = data_stats(cli, &job->train, &job->stats);
  return result == EXIT_OK ? open_text(job) : result;
}

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

static int check_options(cli_run *cli) {
  const cli_args *a = &cli->args;
  if (is_stdout(a->output)) return fail_usage(cli, "the page needs a file name, not '-'");
  const char *of_model = a->fit.dim.given        ? "dim"
                         : a->fit.lambda         ? "lambda"
                         : a->fit.one_se         ? "one-se"
                         : a->text.fuse          ? "fuse"
                         : a->stats.no_normalize ? "no-normalize"
                                                 : NULL;
  if (a->report.model && of_model)
    return fail_usage(cli, "--%s has no meaning with --model, which has its own", of_model);
  if (a->text.path && a->stats.no_normalize)
    return fail_usage(cli, "--text has no meaning with --no-normalize");
  if (a->judge.truth && !a->test.data.n) return fail_usage(cli, "--truth needs --test DATA");
  if (a->shots.sizes.n && !a->test.data.n) return fail_usage(cli, "--shots needs --test DATA");
  if (!a->shots.sizes.n && a->shots.seeds.given) return fail_usage(cli, "--seeds needs --shots");
  int result = check_text_options(cli);
  if (result == EXIT_OK) result = check_choose_options(cli);
  if (result == EXIT_OK) result = check_lambda(cli);
  if (result != EXIT_OK) return result;
  return check_output(cli, a->output);
}

static int write_page(report_job *job) {
  int result = report_write(job);
  if (result != EXIT_OK) return result;
  say_written(job->cli, job->path, "%s, %s, %u -> %u dimensions, lambda %s",
              show_counted(kf_stats_rows(job->stats), "row", "rows").text,
              show_counted(kf_model_classes(job->model), "class", "classes").text,
              kf_model_dim_in(job->model), kf_model_dim_out(job->model),
              show_real(kf_model_lambda(job->model)).text);
  if (job->test)
    say(job->cli, "top-1 accuracy: raw %s, Koo-Fu %s",
        show_percent(job->eval.raw_top1, job->eval.n).text,
        show_percent(job->eval.top1, job->eval.n).text);
  if (job->test && report_fused(job))
    say(job->cli, "text alone %s, text and prototypes together %s",
        show_percent(job->by_text.top1, job->by_text.n).text,
        show_percent(job->fused.top1, job->fused.n).text);
  return EXIT_OK;
}

static int run(cli_run *cli) {
  const cli_args *a = &cli->args;
  char train[512], test[512];
  show_files(&a->operands, train);
  show_files(&a->test.data, test);
  report_job job = {.cli = cli,
                    .path = a->output,
                    .title = a->report.title,
                    .train_name = train,
                    .test_name = test};
  int result = check_options(cli);
  if (result == EXIT_OK) result = open_inputs(&job);
  if (result == EXIT_OK) result = write_page(&job);
  report_free(&job);
  return result;
}

static const cli_group own_options = {
    "Options",
    OPTIONS({OUTPUT("PAGE.html"), .required = 1, .help = "the page to write"}, {TEST_ROWS},
            {TEST_LABELS},
            {INPUT("model", report.model, "MODEL"),
             .help = "a model of these training rows (default: fit one)"},
            {LAMBDA, .help = "regulariser of the model, as in 'koofu fit' (default: auto)"},
            {ONE_SE},
            {MODEL_DIM,
             .help = "dimensions of the model (default: the fewest that lose nothing; with --text: "
                     "all)"},
            {DIMS, .help = "dimensions to compare (default: D, D/2, D/4, ...)"},
            {NEIGHBOUR_LIST,
             .help = "numbers of neighbours to compare, separated by commas (default: 1,5,15)"},
            {SHOTS}, {SEEDS},
            {TEXT_INPUT,
             .help = "also by text, alone and together with prototypes (see 'koofu fit --text'); "
                     "with a --model that has none: alone"},
            {FUSE("")}, {TITLE})};

const cli_command report_command = {
    .name = "report",
    .operands = "DATA...",
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
