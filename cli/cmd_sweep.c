/* cmd_sweep.c - koofu sweep: accuracy over lambda, dimensions, k, metrics and class sets. */
#include "fit_options.h"
#include "commands.h"
#include "eval.h"
#include "sweep.h"

#include <string.h>

typedef struct sweep_job {
  cli_run *cli;
  kf_stats *stats, *between;
  kf_data *train, *test;
  kf_truth *truth;
  kf_class_set **sets; /* [n_sets] */
  kf_lambda *lambdas;
  uint32_t *dims;
  kf_metric metrics[2];
  kf_text *text;
  kf_centre centres[3];
  double alpha;
  kf_sweep_options options;
  kf_sweep *sweep;
} sweep_job;

static const char *const usual_lambdas = "0.01x,0.03x,0.1x,0.3x,1x,3x,10x";

/* "0.1x,150,gda". */
static int take_lambdas(sweep_job *j) {
  const char *text = j->cli->args.sweep.lambdas ? j->cli->args.sweep.lambdas : usual_lambdas;
  size_t most = 1;
  for (const char *c = text; *c; c++) most += *c == ',';
  j->lambdas = own_memory(j->cli, most, sizeof *j->lambdas);
  if (!j->lambdas) return fail(j->cli, KF_ERR_MEM);
  for (;;) {
    size_t length = strcspn(text, ",");
    char piece[64];
    snprintf(piece, sizeof piece, "%.*s", (int)(length < 60 ? length : 60), text);
    TRY(result_of(j->cli,
                  kf_lambda_parse(j->cli->ctx, piece, &j->lambdas[j->options.n_lambdas++])));
    if (!text[length]) break;
    text += length + 1;
  }
  j->options.lambdas = j->lambdas;
  return EXIT_OK;
}

/* --dims, largest first; by default all of them, then fewer and fewer. */
static int take_dims(sweep_job *j) {
  static const unsigned parts[][2] = {{1, 1}, {3, 4}, {1, 2}, {1, 4}, {1, 8}, {1, 16}};
  const cli_numbers *given = &j->cli->args.sweep.dims;
  uint32_t all = kf_stats_dim(j->stats);
  size_t n = given->n ? given->n : j->cli->args.sweep.leave_one_out ? 1 : COUNT_OF(parts);
  j->dims = own_memory(j->cli, n, sizeof *j->dims);
  if (!j->dims) return fail(j->cli, KF_ERR_MEM);
  for (size_t i = 0; i < n; i++) {
    uint32_t dim = given->n ? given->items[n - 1 - i] : all * parts[i][0] / parts[i][1];
    int repeated = j->options.n_dims && j->dims[j->options.n_dims - 1] == dim;
    if (dim > 0 && !repeated) j->dims[j->options.n_dims++] = dim;
  }
  if (!j->cli->args.sweep.leave_one_out) j->options.dims = j->dims;
  return EXIT_OK;
}

static int take_sets(sweep_job *j) {
  const cli_list *given = &j->cli->args.sweep.class_sets;
  j->sets = own_memory(j->cli, given->n + 1, sizeof(kf_class_set *));
  if (!j->sets) return fail(j->cli, KF_ERR_MEM);
  for (size_t i = 0; i < given->n; i++) {
    TRY(own_class_set(j->cli, kf_class_set_load(j->cli->ctx, given->items[i], &j->sets[i]),
                      &j->sets[i]));
    j->options.n_sets++;
  }
  j->options.sets = (const kf_class_set *const *)j->sets;
  return EXIT_OK;
}

static void take_metrics(sweep_job *j) {
  int metric = j->cli->args.metric; /* 0: not given */
  int both = metric == KF_METRIC_EUCLIDEAN + 1;
  j->metrics[0] = both ? KF_METRIC_COSINE : (kf_metric)metric;
  j->metrics[1] = KF_METRIC_EUCLIDEAN;
  j->options.metrics = j->metrics;
  j->options.n_metrics = both ? 2 : 1;
}

enum { ALL_CENTRES = KF_CENTRE_MODALITY + 1 };

static int take_fuse(sweep_job *j) {
  cli_run *cli = j->cli;
  const cli_args *a = &cli->args;
  int automatic, result = read_fuse(cli, &automatic, &j->alpha);
  if (result != EXIT_OK || a->sweep.no_prototypes || a->fit.between) return result;
  if (automatic && !j->train) {
    if (a->text.fuse)
      return fail_usage(
          cli,
          "--fuse auto needs the rows themselves, not a statistics file; give alpha as a number");
    say(cli, "alpha cannot be chosen without the rows themselves, so text and prototypes together "
             "are left out; --fuse ALPHA includes them");
    return EXIT_OK;
  }
  j->options.fuse = 1;
  j->options.alphas = automatic ? NULL : &j->alpha;
  j->options.n_alphas = !automatic;
  return EXIT_OK;
}

static int take_text(sweep_job *j) {
  int given = j->cli->args.text.centre, all = given == ALL_CENTRES;
  if (!j->cli->args.text.path) return EXIT_OK;
  for (int i = 0; i < 3; i++) j->centres[i] = (kf_centre)(KF_CENTRE_NONE + i);
  if (given && !all) j->centres[0] = (kf_centre)given;
  if (!given) j->centres[0] = KF_CENTRE_MODALITY;
  j->options.text_centres = j->centres;
  j->options.n_text_centres = all ? 3 : 1;
  TRY(load_text(j->cli, &j->text));
  j->options.text = j->text;
  return take_fuse(j);
}

static int take_options(sweep_job *j) {
  const cli_args *a = &j->cli->args;
  kf_sweep_options *o = &j->options;
  o->k = a->search.ks.items;
  o->n_k = a->search.ks.n;
  o->centre = (kf_centre)a->fit.centre;
  o->method = (kf_method)a->fit.method;
  o->priors = (kf_priors)a->fit.priors;
  o->include_raw = a->sweep.no_raw ? KF_OFF : KF_ON;
  o->include_prototypes = a->sweep.no_prototypes ? KF_OFF : KF_ON;
  o->folds = (uint32_t)a->fit.folds.value;
  o->leave_one_out = a->sweep.leave_one_out;
  o->sample = (uint64_t)a->fit.sample.value;
  o->between = j->between;
  o->truth = j->truth;
  take_metrics(j);
  TRY(take_text(j));
  TRY(take_lambdas(j));
  TRY(take_dims(j));
  return take_sets(j);
}

static int check_options(cli_run *cli) {
  const cli_args *a = &cli->args;
  if (a->sweep.leave_one_out)
    TRY(refuse(cli, "test folds text dims neighbours class-set", "--leave-one-out"));
  if (a->test.data.n)
    TRY(refuse(cli, "folds", "--test"));
  else
    TRY(need(cli, "truth between", "--test DATA"));
  if (!a->search.ks.n && !a->text.path) TRY(need(cli, "no-prototypes", "-k or --text"));
  if (a->text.fuse) TRY(refuse(cli, "between no-prototypes", "--fuse"));
  return check_text_options(cli);
}

static int prepare(sweep_job *j) {
  cli_run *cli = j->cli;
  const cli_args *a = &cli->args;
  TRY(check_options(cli));
  TRY(check_table(cli));
  TRY(load_judging(cli, &j->truth, NULL));
  if (a->fit.between) TRY(load_stats(cli, a->fit.between, &j->between));
  TRY(open_test(cli, j->truth, &j->test));
  TRY(read_stats(cli, &j->train, &j->stats));
  return take_options(j);
}

static int measure(sweep_job *j) {
  cli_run *cli = j->cli;
  TRY(own_sweep(cli, kf_sweep_new(cli->ctx, j->stats, j->train, j->test, &j->options, &j->sweep),
                &j->sweep));
  sweep_table table = {j->sweep, j->dims, j->options.n_dims, &cli->args.sweep.class_sets,
                       j->options.leave_one_out};
  return write_table(cli, &table, sweep_form, j->sweep->n_cells, "cell", "cells");
}

static int run_sweep(cli_run *cli) {
  if (cli->args.shots.sizes.n) return sweep_shots(cli);
  TRY(need(cli, "seeds", "--shots"));
  sweep_job j = {.cli = cli};
  TRY(prepare(&j));
  return measure(&j);
}

static const cli_group own_options = {
    "Options",
    OPTIONS(
        {TEXT("lambdas", sweep.lambdas, "LAMBDA,..."),
         .help = "values of lambda (default: 0.01x,0.03x,0.1x,0.3x,1x,3x,10x)"},
        {DIMS, .help = "numbers of dimensions (default: all, 3/4, 1/2, 1/4, 1/8 and 1/16 of them)"},
        {NEIGHBOUR_LIST, .help = "numbers of neighbours, 1 to 1024 (default: only prototypes)"},
        {METRIC(sweep_metrics),
         .help = "cosine, euclidean or both (default: cosine; euclidean with --no-normalize)"},
        {METHOD}, {CENTRE}, {PRIORS}, {BETWEEN},
        {FLAG("no-raw", sweep.no_raw), .help = "leave out the original space"},
        {FLAG("no-prototypes", sweep.no_prototypes),
         .help =
             "leave out prototypes of images, also together with text: only neighbours or text"},
        {CHOICE("format", sweep.format, "NAME", 0, table_formats),
         .help = "text, csv or json (default: by the ending of -o, otherwise text)"},
        {JSON, .help = "the same as --format json"},
        {OUTPUT("FILE"), .help = "write to .txt, .csv or .json instead of standard output"})};

static const cli_group own_text_options = {
    "Text",
    OPTIONS(
        {TEXT_INPUT,
         .help = "also by text prototypes (zero-shot), and by text and prototypes together"},
        {FUSE(", which takes the best by leave-one-out for each lambda")},
        {TEXT_CENTRE(sweep_centres),
         .help =
             "subtract before mapping: none, mean, modality (default) or all: a table for each"},
        {TEXT_AS_IS})};

static const cli_group test_options = {
    "What accuracy is measured on",
    OPTIONS(
        {TEST_ROWS}, {TEST_LABELS},
        {FOLDS, .help = "without --test: stratified folds of the training rows (default: 5)"},
        {FLAG("leave-one-out", sweep.leave_one_out),
         .help = "without --test: leave out each training row in turn; only prototypes with all "
                 "dimensions"},
        {SAMPLE, .help =
                     "judge at most N rows, the same share of each class (default: all, or 50000 "
                     "with --leave-one-out)"},
        {INPUTS("class-set", sweep.class_sets, "FILE"),
         .help =
             "only these classes take part, one name per line; several sets make several tables"})};

static const cli_group shot_options = {"Few-shot curves", OPTIONS({SHOTS}, {SEEDS})};

const cli_command sweep_command = {
    .name = "sweep",
    .operands = "DATA...|STATS",
    .summary = "tabulate accuracy over lambda, dimensions and k",
    .details =
        "Measures the accuracy of nearest prototypes, and with -k of neighbours, for every "
        "combination of lambda and number of dimensions, on test data or in a cross-validation of "
        "the training data. Every figure is what 'koofu fit' and 'koofu eval' (or 'koofu index' "
        "and 'koofu eval --gallery') give for that setting, but shared work is done once: all "
        "dimensions of one lambda cost little more than one evaluation.\n\n"
        "Without --test, the training rows are divided into folds with the same share of each "
        "class. The statistics of a fold are subtracted from the whole exactly. Without a fold "
        "there are fewer rows, so an absolute lambda is scaled with the scatter.\n\n"
        "With --leave-one-out, each row in turn is taken out of the statistics and classified: "
        "this is the curve from which 'koofu fit' chooses lambda.\n\n"
        "With --text, there are also tables of zero-shot accuracy, as from 'koofu eval --text', "
        "and of text and prototypes together, as from 'koofu fit --text' with that lambda and "
        "dimension: alpha is chosen for each lambda from the training rows.\n\n"
        "With --shots, that many rows of each class are drawn from the training rows, once for "
        "each seed, and accuracy on the test rows is measured for nearest prototypes in the raw "
        "space and in Koo-Fu's, and with --text for zero-shot and for text and prototypes "
        "together; lambda and alpha are chosen from the drawn rows alone. The rows of fewer shots "
        "are among those of more; a class with fewer rows gives all it has. One shot leaves no "
        "scatter within classes; Koo-Fu then takes that of all rows, and with --method paper its "
        "map is a rotation.\n\n"
        "A statistics file is enough with test data and without -k.",
    .groups = GROUPS(&own_options, &test_options, &truth_options, &own_text_options, &shot_options,
                     &stats_options, &label_options, &row_options, &strict_options, &only_options),
    .examples = EXAMPLES({"Tables from training data alone", "koofu sweep train.safetensors"},
                         {"On test data, with neighbours, for a spreadsheet",
                          "koofu sweep train.safetensors --test test.safetensors -k 1,10,15 "
                          "--format csv -o sweep.csv"},
                         {"Zero-shot over lambda and dimensions, with and without centring",
                          "koofu sweep train.safetensors --test test.safetensors --text "
                          "text.safetensors --text-centre all --no-prototypes"},
                         {"How many photos of each class are enough?",
                          "koofu sweep train.safetensors --test test.safetensors --text "
                          "text.safetensors --shots 1,2,4,8,16"},
                         {"The lambda of the paper, all its dimensions",
                          "koofu sweep s.safetensors --test val.safetensors --lambdas 50,150 "
                          "--dims 768,640,512,384,256,192,128,96,76,64,32"}),
    .run = run_sweep,
    .shared = 1,
};
