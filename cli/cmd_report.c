/* cmd_report.c - koofu report: writes a page about training and test data. */
#include "fit_options.h"
#include "commands.h"
#include "eval.h"

#include <math.h>
#include <string.h>

typedef struct report_inputs {
  kf_data *train, *test;
  kf_truth *truth;
  kf_model *model;
  kf_text *text;
} report_inputs;

static int open_inputs(cli_run *cli, report_inputs *in) {
  const cli_args *a = &cli->args;
  TRY(load_judging(cli, &in->truth, NULL));
  if (a->report.model) TRY(load_model(cli, a->report.model, &in->model));
  TRY(open_test(cli, in->truth, &in->test));
  if (in->model ? kf_model_normalized(in->model) : !a->stats.no_normalize)
    TRY(need(cli, "exponent", "--no-normalize"));
  TRY(open_data(cli, 0, LABELS_NEEDED, &in->train));
  return a->text.path ? load_text(cli, &in->text) : EXIT_OK;
}

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash && slash[1] ? slash + 1 : path;
}

/* "x.npy", "x.npy and 3 more"; NULL: out of memory. */
static const char *show_files(cli_run *cli, const cli_list *list) {
  if (list->n < 2) return list->n ? base_name(list->items[0]) : "";
  return own_format(cli, "%s and %zu more", base_name(list->items[0]), list->n - 1);
}

static int check_options(cli_run *cli) {
  const cli_args *a = &cli->args;
  if (a->report.model)
    TRY(refuse(cli, "dim lambda one-se method priors groups fuse no-normalize",
               "--model, which has its own"));
  if (a->text.path) TRY(refuse(cli, "no-normalize", "--text"));
  if (!a->test.data.n) TRY(need(cli, "truth shots", "--test DATA"));
  if (!a->shots.sizes.n) TRY(need(cli, "seeds", "--shots"));
  if (a->report.no_neighbours) TRY(refuse(cli, "neighbours", "--no-neighbours"));
  TRY(check_text_options(cli));
  TRY(check_choose_options(cli));
  return check_output(cli, a->output);
}

static void say_accuracy(cli_run *cli, const char *of, uint64_t raw, uint64_t mapped, uint64_t n) {
  if (n)
    say(cli, "top-1 accuracy%s: raw %s, Koo-Fu %s %s", of, show_percent(raw, n).text,
        show_percent(mapped, n).text, show_interval(mapped, n).text);
}

static void print_json(cli_run *cli, const kf_report_result *r) {
  cli_json w = jw_begin(stdout);
  int held = r->held_n > 0, known = held || r->eval.n;
  uint64_t n = held ? r->held_n : r->eval.n;
  jw_text(&w, "page", cli->args.output);
  jw_count(&w, "rows", r->rows);
  jw_count(&w, "n_unlabelled", r->n_unlabelled);
  jw_count(&w, "n_bad", r->n_bad);
  jw_count(&w, "classes", r->classes);
  jw_count(&w, "dim_in", r->dim_in);
  jw_count(&w, "dim_out", r->dim);
  jw_real(&w, "lambda", r->lambda);
  jw_real(&w, "alpha", r->fused ? r->alpha : (double)NAN);
  jw_text(&w, "judged", held ? "folds" : "test");
  jw_count(&w, "n", n);
  print_json_share(&w, "top1", held ? r->held_top1 : r->eval.top1, n, known);
  print_json_share(&w, "raw_top1", held ? r->held_raw_top1 : r->eval.raw_top1, n, known);
  print_json_share(&w, "text_top1", r->eval_text.top1, r->eval_text.n, r->eval_text.n > 0);
  print_json_share(&w, "fused_top1", r->eval_fused.top1, r->eval_fused.n, r->eval_fused.n > 0);
  jw_count(&w, "sweep_n", r->n_judged);
  jw_count(&w, "sweep_rows", r->n_to_judge);
  jw_real(&w, "sweep_error95", r->sample_error);
  jw_end(&w);
}

static void say_result(cli_run *cli, const kf_report_result *r) {
  say_rows_left_out(cli, r->rows, r->n_unlabelled, r->n_bad);
  if (r->many_near) say_near(cli, r->n_near, r->n_compared);
  if (r->n && r->fused)
    say(cli, "lambda %s, alpha %s: text and prototypes together are right for %s of %s left out",
        show_relative(r->lambda, r->mean_eigenvalue).text, show_real(r->alpha).text,
        show_percent(r->right, r->n).text, show_counted(r->n, "row", "rows").text);
  else if (r->n)
    say(cli, "lambda %s by leave-one-out: right for %s of %s (standard error %.2f points)",
        show_relative(r->lambda, r->mean_eigenvalue).text, show_percent(r->right, r->n).text,
        show_counted(r->n, "row", "rows").text, 100 * r->standard_error);
  say_written(cli, cli->args.output, "%s, %s, %s%s%s", show_counted(r->rows, "row", "rows").text,
              show_counted(r->classes, "class", "classes").text, show_dim(r->dim, r->dim_in).text,
              r->n ? "" : ", lambda ", r->n ? "" : show_real(r->lambda).text);
  say_accuracy(cli, "", r->eval.raw_top1, r->eval.top1, r->eval.n);
  if (r->held_n)
    say_accuracy(cli,
                 own_format(cli, " of %s held out", show_counted(r->held_n, "row", "rows").text),
                 r->held_raw_top1, r->held_top1, r->held_n);
  if (r->eval_fused.n)
    say(cli, "text alone %s, text and prototypes together %s",
        show_percent(r->eval_text.top1, r->eval_text.n).text,
        show_percent(r->eval_fused.top1, r->eval_fused.n).text);
  if (r->n_judged < r->n_to_judge)
    say(cli,
        "%s a sample of %s of %s, the same share of each class (--sample): with 95 %% confidence, "
        "accuracies of all rows are within %.2f points",
        r->held_n ? "these and the curves are of" : "curves and neighbours are of",
        show_count(r->n_judged).text, show_counted(r->n_to_judge, "row", "rows").text,
        100 * r->sample_error);
}

static const char *class_of_report(const void *inputs, uint32_t k) {
  const report_inputs *in = inputs;
  return in->model ? kf_model_class_name(in->model, k) : kf_data_class_name(in->train, k);
}

static int run_report(cli_run *cli) {
  const cli_args *a = &cli->args;
  double alpha = 0;
  kf_report_options options = {0};
  report_inputs in = {0};
  TRY(check_options(cli));
  TRY(read_fit_options(cli, &options.fit, &alpha));
  TRY(open_inputs(cli, &in));
  TRY(read_groups(cli, in.train, &options.fit.groups));
  const char *train = show_files(cli, &a->operands), *test = show_files(cli, &a->test.data);
  if (!train || !test) return fail(cli, KF_ERR_MEM);
  options = (kf_report_options){.title = a->report.title,
                                .train_name = train,
                                .test_name = test,
                                .test = in.test,
                                .truth = in.truth,
                                .model = in.model,
                                .fit = options.fit,
                                .dims = a->sweep.dims.items,
                                .n_dims = a->sweep.dims.n,
                                .k = a->search.ks.items,
                                .n_k = a->search.ks.n,
                                .shots = a->shots.sizes.items,
                                .n_shots = a->shots.sizes.n,
                                .seeds = (uint32_t)a->shots.seeds.value,
                                .neighbours = a->report.no_neighbours ? KF_OFF : KF_ON,
                                .sample = (uint64_t)a->fit.sample.value};
  TRY(load_class_names(cli, class_of_report, &in,
                       in.model ? kf_model_classes(in.model) : kf_data_classes(in.train),
                       &options.names));
  options.fit.text = in.text;
  options.fit.sample = 0; /* lambda is chosen as in 'koofu fit' */
  kf_report_result report = {0};
  TRY(result_of(cli, kf_report_write(cli->ctx, in.train, &options, a->output, &report)));
  say_result(cli, &report);
  if (a->json) print_json(cli, &report);
  return EXIT_OK;
}

static const cli_group own_options = {
    "Options",
    OPTIONS(
        {OUTPUT("PAGE.html"), .required = 1, .help = "the page to write"}, {TEST_ROWS},
        {TEST_LABELS},
        {INPUT("model", report.model, "MODEL"),
         .help = "a model of the training rows (default: fit one)"},
        {LAMBDA, .help = "regulariser of the model, as in 'koofu fit' (default: auto)"}, {METHOD},
        {PRIORS}, {ROW_GROUPS}, {ONE_SE},
        {MODEL_DIM, .automatic = 1,
         .help = "dimensions of the model, or auto, as in 'koofu fit' (default: all)"},
        {MARGIN}, {DIMS, .help = "dimensions to compare (default: D, D/2, D/4, ...)"},
        {NEIGHBOUR_LIST, .help = "numbers of neighbours to compare (default: 1,5,15)"},
        {FLAG("no-neighbours", report.no_neighbours),
         .help = "leave out neighbours, which take most of the time and memory"},
        {SAMPLE, .help = "judge at most N rows in curves and by neighbours (default: 50000, or "
                         "fewer with more than 170000 training rows)"},
        {SHOTS}, {SEEDS},
        {TEXT_INPUT,
         .help = "text prototypes to add to the model, or to compare with a --model that has none"},
        {FUSE("")}, {TITLE}, {CLASS_NAMES},
        {JSON, .help = "print the figures and their intervals as one JSON object"})};

const cli_command report_command = {
    .name = "report",
    .operands = "DATA...",
    .summary = "write a page about what the map gains, and why",
    .details =
        "One self-contained HTML page with figures and no scripts: accuracy in the raw space and "
        "in Koo-Fu's, over lambda, dimensions and neighbours; the spectra; a map of the classes; "
        "the worst classes, the most frequent confusions, and how far margins can be trusted. "
        "docs/report.md explains each figure.\n\n"
        "lambda is chosen by leave-one-out unless --lambda or --model gives it. All dimensions are "
        "kept unless --dim says otherwise, and a table shows what fewer cost. With --test, "
        "accuracy is that of the test rows; without, that of held-out folds, and there is no list "
        "of errors.\n\n"
        "With --text, or a --model with text, the page also shows text alone and together with "
        "prototypes, over lambda, alpha and dimensions; classes, confusions and margins are then "
        "those of both together.\n\n"
        "With --shots, a section shows how accuracy on the test rows grows with the number of "
        "training rows per class (see 'koofu sweep --shots').\n\n"
        "Options about labels and rows apply to both data sets, except that --test has its own "
        "labels. The training rows are held in memory for the neighbours, five bytes per value.",
    .groups = GROUPS(&own_options, &truth_options, &stats_options, &label_options, &row_options,
                     &strict_options),
    .examples = EXAMPLES(
        {"What is in it for me?",
         "koofu report train.safetensors --test test.safetensors -o report.html"},
        {"From .npy files, with a title", "koofu report x.npy --labels y.npy --test x_test.npy "
                                          "--test-labels y_test.npy --title 'Birds' -o birds.html"},
        {"Names and pictures", "koofu report train.safetensors --test test.safetensors --text "
                               "text.safetensors -o report.html"}),
    .run = run_report,
    .shared = 1,
};
