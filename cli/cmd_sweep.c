/* cmd_sweep.c - koofu sweep: tables of accuracy over lambda, dimensions, k, metrics and class sets. */
#include "cli.h"
#include "commands.h"

#include <stdlib.h>
#include <string.h>

/* --- what is asked for ------------------------------------------------------------------------ */

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
  const char *text = j->cli->args.lambdas ? j->cli->args.lambdas : usual_lambdas;
  size_t most = 1;
  for (const char *c = text; *c; c++) most += *c == ',';
  j->lambdas = calloc(most, sizeof *j->lambdas);
  if (!j->lambdas) return fail(j->cli, KF_ERR_MEM);
  for (;;) {
    size_t length = strcspn(text, ",");
    char piece[64];
    snprintf(piece, sizeof piece, "%.*s", (int)(length < 60 ? length : 60), text);
    kf_status status = kf_lambda_parse(j->cli->ctx, piece, &j->lambdas[j->options.n_lambdas++]);
    if (status != KF_OK) return fail(j->cli, status);
    if (!text[length]) break;
    text += length + 1;
  }
  j->options.lambdas = j->lambdas;
  return EXIT_OK;
}

/* --dims, the largest first; or all of them, and then ever fewer. */
static int take_dims(sweep_job *j) {
  static const unsigned parts[][2] = {{1, 1}, {3, 4}, {1, 2}, {1, 4}, {1, 8}, {1, 16}};
  const cli_numbers *given = &j->cli->args.dims;
  uint32_t all = kf_stats_dim(j->stats);
  size_t n = given->n ? given->n : j->cli->args.leave_one_out ? 1 : COUNT_OF(parts);
  j->dims = calloc(n, sizeof *j->dims);
  if (!j->dims) return fail(j->cli, KF_ERR_MEM);
  for (size_t i = 0; i < n; i++) {
    uint32_t dim = given->n ? given->items[n - 1 - i] : all * parts[i][0] / parts[i][1];
    if (dim > all)
      return fail_usage(j->cli, "--dims asks for %u dimensions, the embeddings have %u", dim, all);
    int repeated = j->options.n_dims && j->dims[j->options.n_dims - 1] == dim;
    if (dim > 0 && !repeated) j->dims[j->options.n_dims++] = dim;
  }
  if (!j->cli->args.leave_one_out) j->options.dims = j->dims;
  return EXIT_OK;
}

static int take_sets(sweep_job *j) {
  const cli_list *given = &j->cli->args.class_sets;
  j->sets = calloc(given->n + 1, sizeof(kf_class_set *));
  if (!j->sets) return fail(j->cli, KF_ERR_MEM);
  for (size_t i = 0; i < given->n; i++) {
    kf_status status = kf_class_set_load(j->cli->ctx, given->items[i], &j->sets[i]);
    if (status != KF_OK) return fail(j->cli, status);
    j->options.n_sets++;
  }
  j->options.sets = (const kf_class_set *const *)j->sets;
  return EXIT_OK;
}

static const char *const metric_names[] = {"cosine", "euclidean", "both", NULL};

static void take_metrics(sweep_job *j) {
  int metric = j->cli->args.metric; /* 0: not given */
  int both = metric == KF_METRIC_EUCLIDEAN + 1;
  j->metrics[0] = both ? KF_METRIC_COSINE : (kf_metric)metric;
  j->metrics[1] = KF_METRIC_EUCLIDEAN;
  j->options.metrics = j->metrics;
  j->options.n_metrics = both ? 2 : 1;
}

enum { ALL_CENTRES = KF_CENTRE_MODALITY + 1 };
static const char *const text_choices[] = {"none", "mean", "modality", "all", NULL};

/* Text and prototypes together, wherever there is all that it takes. */
static int take_fuse(sweep_job *j) {
  cli_run *cli = j->cli;
  const cli_args *a = &cli->args;
  int automatic, result = read_fuse(cli, &automatic, &j->alpha);
  if (result != EXIT_OK || a->no_prototypes || a->between) return result;
  if (automatic && !j->train) {
    if (a->fuse)
      return fail_usage(cli, "--fuse auto needs the rows themselves, and a statistics file is "
                             "given; give alpha as a number");
    say(cli, "without the rows themselves alpha cannot be chosen: text and prototypes together are "
             "left out (--fuse ALPHA)");
    return EXIT_OK;
  }
  j->options.fuse = 1;
  j->options.alphas = automatic ? NULL : &j->alpha;
  j->options.n_alphas = !automatic;
  return EXIT_OK;
}

static int take_text(sweep_job *j) {
  int given = j->cli->args.text_centre, all = given == ALL_CENTRES;
  if (!j->cli->args.text) return EXIT_OK;
  for (int i = 0; i < 3; i++) j->centres[i] = (kf_centre)(KF_CENTRE_NONE + i);
  if (given && !all) j->centres[0] = (kf_centre)given;
  if (!given) j->centres[0] = KF_CENTRE_MODALITY;
  j->options.text_centres = j->centres;
  j->options.n_text_centres = all ? 3 : 1;
  int result = load_text_for(j->cli, j->stats, &j->text);
  j->options.text = j->text;
  return result == EXIT_OK ? take_fuse(j) : result;
}

static int take_options(sweep_job *j) {
  const cli_args *a = &j->cli->args;
  kf_sweep_options *o = &j->options;
  o->k = a->neighbour_list.items;
  o->n_k = a->neighbour_list.n;
  o->centre = (kf_centre)a->centre;
  o->raw = a->no_raw ? KF_OFF : KF_ON;
  o->prototypes = a->no_prototypes ? KF_OFF : KF_ON;
  o->folds = (uint32_t)a->folds.value;
  o->leave_one_out = a->leave_one_out;
  o->sample = (uint64_t)a->sample.value;
  o->between = j->between;
  o->truth = j->truth;
  take_metrics(j);
  int result = take_text(j);
  if (result == EXIT_OK) result = take_lambdas(j);
  if (result == EXIT_OK) result = take_dims(j);
  return result == EXIT_OK ? take_sets(j) : result;
}

/* --- text ------------------------------------------------------------------------------------- */

static const char *metric_of(const kf_sweep_cell *c) { return metric_names[c->metric - 1]; }

static const char *text_of(const kf_sweep_cell *c) {
  if (c->fused) return "fused";
  return c->text ? text_choices[c->text - KF_CENTRE_NONE] : "";
}

static shown classifier_of(const kf_sweep_cell *c) {
  shown s;
  if (c->fused)
    snprintf(s.text, sizeof s.text, "text and prototypes together");
  else if (c->text)
    snprintf(s.text, sizeof s.text, "text (centring: %s)", text_of(c));
  else if (c->k)
    snprintf(s.text, sizeof s.text, "%u-NN", c->k);
  else
    snprintf(s.text, sizeof s.text, "prototypes");
  return s;
}

/* Text in the original space is a line of every table of text, and has none of its own. */
static int raw_text(const kf_sweep_cell *c) { return c->raw && c->text; }

static int same_table(const kf_sweep_cell *a, const kf_sweep_cell *b) {
  return a->set == b->set && a->metric == b->metric && a->k == b->k && a->fused == b->fused &&
         (a->text == b->text || (raw_text(a) && b->text));
}

static shown short_percent(uint64_t hits, uint64_t n) {
  shown s;
  snprintf(s.text, sizeof s.text, "%.2f", n ? 100 * (double)hits / (double)n : 0);
  return s;
}

static void print_title(const sweep_job *j, FILE *file, const kf_sweep_cell *c, const char *top) {
  fprintf(file, "%s, %s, %s", classifier_of(c).text, metric_of(c), top);
  if (j->options.n_sets) {
    fprintf(file, ", classes of ");
    print_plain(file, j->cli->args.class_sets.items[c->set]);
  }
  fprintf(file, ": per cent of %s", show_counted(c->n, "row", "rows").text);
  if (j->sweep->folds) fprintf(file, " in %u folds", j->sweep->folds);
  if (j->options.leave_one_out) fprintf(file, ", left out one by one");
  fprintf(file, "\n");
}

/* One row of a table: the raw space, or one lambda; cells from `at` on. */
static void print_line(const sweep_job *j, FILE *file, const kf_sweep_cell *cells, int top5) {
  if (cells->raw)
    fprintf(file, "%10s", "raw");
  else
    fprintf(file, "%10s", show_relative(cells->relative, 1).text);
  size_t n = cells->raw ? 1 : j->options.n_dims;
  for (size_t d = 0; d < n; d++)
    fprintf(file, " %7s", short_percent(top5 ? cells[d].top5 : cells[d].top1, cells[d].n).text);
  if (cells->fused) fprintf(file, "   alpha %s", show_real(cells->alpha).text);
  fprintf(file, "\n");
}

static void print_table(const sweep_job *j, FILE *file, const kf_sweep_cell *first, int top5) {
  const kf_sweep *s = j->sweep;
  print_title(j, file, first, top5 ? "top-5" : "top-1");
  fprintf(file, "%10s", "lambda");
  for (size_t d = 0; d < j->options.n_dims; d++) fprintf(file, " %7u", j->dims[d]);
  fprintf(file, "\n");
  for (size_t i = 0; i < s->n_cells; i++) {
    const kf_sweep_cell *c = &s->cells[i];
    if (same_table(c, first)) print_line(j, file, c, top5);
    if (!c->raw) i += j->options.n_dims - 1; /* the rest of a line, whatever its table */
  }
}

static void print_text(const sweep_job *j, FILE *file) {
  const kf_sweep *s = j->sweep;
  int tables = 0;
  for (size_t i = 0; i < s->n_cells; i++) {
    const kf_sweep_cell *c = &s->cells[i];
    int seen = raw_text(c);
    for (size_t before = 0; before < i && !seen; before++)
      seen = !raw_text(&s->cells[before]) && same_table(&s->cells[before], c);
    if (seen) continue;
    for (int top5 = 0; top5 < (c->k ? 1 : 2); top5++) {
      if (tables++) fprintf(file, "\n");
      print_table(j, file, c, top5);
    }
  }
  fprintf(file, "\nlambda in multiples of the mean eigenvalue of S_w, %s; columns are dimensions\n",
          show_real(s->mean_eigenvalue).text);
}

/* --- CSV and JSON ----------------------------------------------------------------------------- */

static const char *set_of(const sweep_job *j, const kf_sweep_cell *c) {
  return j->options.n_sets ? j->cli->args.class_sets.items[c->set] : "";
}

/* A field of CSV: in quotes where it must be. */
static void print_field(FILE *file, const char *text) {
  if (!strpbrk(text, ",\"\n\r")) {
    fputs(text, file);
    return;
  }
  fputc('"', file);
  for (; *text; text++) fprintf(file, *text == '"' ? "\"\"" : "%c", *text);
  fputc('"', file);
}

static void print_csv(const sweep_job *j, FILE *file) {
  fprintf(file,
          "set,metric,space,lambda,relative,dim,k,n,top1,top5,top1_share,top5_share,text,alpha\n");
  for (size_t i = 0; i < j->sweep->n_cells; i++) {
    const kf_sweep_cell *c = &j->sweep->cells[i];
    double n = c->n ? (double)c->n : 1;
    print_field(file, set_of(j, c));
    fprintf(file, ",%s,%s,%.17g,%.17g,%u,%u,%llu,%llu,%llu,%.6f,%.6f,%s,", metric_of(c),
            c->raw ? "raw" : "koofu", c->lambda, c->relative, c->dim, c->k,
            (unsigned long long)c->n, (unsigned long long)c->top1, (unsigned long long)c->top5,
            (double)c->top1 / n, (double)c->top5 / n, text_of(c));
    if (c->fused) fprintf(file, "%.17g", c->alpha);
    fprintf(file, "\n");
  }
}

static void print_json_cell(const sweep_job *j, cli_json *w, const kf_sweep_cell *c) {
  double n = c->n ? (double)c->n : 1;
  jw_open(w, NULL, '{');
  if (j->options.n_sets) jw_text(w, "set", set_of(j, c));
  jw_text(w, "metric", metric_of(c));
  jw_text(w, "space", c->raw ? "raw" : "koofu");
  if (c->raw) {
    jw_null(w, "lambda");
    jw_null(w, "relative");
  } else {
    jw_real(w, "lambda", c->lambda);
    jw_real(w, "relative", c->relative);
  }
  jw_count(w, "dim", c->dim);
  if (c->k)
    jw_count(w, "k", c->k);
  else
    jw_null(w, "k");
  jw_text(w, "text", c->text || c->fused ? text_of(c) : NULL);
  if (c->fused) jw_real(w, "alpha", c->alpha);
  jw_count(w, "n", c->n);
  jw_real(w, "top1", (double)c->top1 / n);
  jw_real(w, "top5", (double)c->top5 / n);
  jw_close(w, '}');
}

static void print_json(const sweep_job *j, FILE *file) {
  const kf_sweep *s = j->sweep;
  cli_json w = {file, 0};
  jw_open(&w, NULL, '{');
  jw_real(&w, "mean_eigenvalue", s->mean_eigenvalue);
  if (s->folds)
    jw_count(&w, "folds", s->folds);
  else
    jw_null(&w, "folds");
  jw_count(&w, "rows", s->counts.rows);
  jw_count(&w, "n_absent", s->counts.n_absent);
  jw_count(&w, "n_excluded", s->counts.n_excluded);
  jw_count(&w, "n_unlabelled", s->counts.n_unlabelled);
  jw_count(&w, "n_bad", s->counts.n_bad);
  jw_open(&w, "cells", '[');
  for (size_t i = 0; i < s->n_cells; i++) print_json_cell(j, &w, &s->cells[i]);
  jw_close(&w, ']');
  jw_close(&w, '}');
  jw_end_line(&w);
}

/* --- the command ------------------------------------------------------------------------------ */

static const char *const format_choices[] = {"text", "csv", "json", NULL};

static int write_sweep(sweep_job *j) {
  cli_run *cli = j->cli;
  const char *path = cli->args.output;
  int format = cli->args.json ? TABLE_JSON : cli->args.table_format;
  out_file out;
  int result = out_file_open(cli, &out, path);
  if (result != EXIT_OK) return result;
  progress_clear(&cli->progress);
  (format == TABLE_CSV ? print_csv : format == TABLE_JSON ? print_json : print_text)(j, out.file);
  result = out_file_commit(cli, &out);
  if (result == EXIT_OK && !is_stdout(path))
    say_written(cli, path, "%s", show_counted(j->sweep->n_cells, "cell", "cells").text);
  return result;
}

static int check_options(cli_run *cli) {
  const cli_args *a = &cli->args;
  if (a->folds.given && a->test.n) return fail_usage(cli, "--folds has no meaning with --test");
  if (a->leave_one_out && (a->test.n || a->folds.given))
    return fail_usage(cli, "--leave-one-out has no meaning with %s",
                      a->test.n ? "--test" : "--folds");
  if (a->leave_one_out && a->text)
    return fail_usage(cli, "--leave-one-out has no meaning with --text");
  if (a->leave_one_out && (a->dims.n || a->neighbour_list.n || a->class_sets.n))
    return fail_usage(cli, "--leave-one-out has no meaning with %s",
                      a->dims.n             ? "--dims"
                      : a->neighbour_list.n ? "-k"
                                            : "--class-set");
  if (a->sample.given && !a->leave_one_out)
    return fail_usage(cli, "--sample needs --leave-one-out");
  if (a->truth && !a->test.n) return fail_usage(cli, "--truth needs --test DATA");
  if (a->between && !a->test.n) return fail_usage(cli, "--between needs --test DATA");
  if (a->no_prototypes && !a->neighbour_list.n && !a->text)
    return fail_usage(cli, "--no-prototypes needs -k or --text");
  if (a->fuse && (a->no_prototypes || a->between))
    return fail_usage(cli, "--fuse has no meaning with --%s",
                      a->between ? "between" : "no-prototypes");
  return check_text_options(cli);
}

static int prepare(sweep_job *j) {
  cli_run *cli = j->cli;
  const cli_args *a = &cli->args;
  int result = check_options(cli);
  if (result == EXIT_OK && !is_stdout(a->output)) result = check_output(cli, a->output);
  if (result == EXIT_OK) result = load_judging(cli, &j->truth, NULL);
  if (result == EXIT_OK && a->between) {
    kf_status status = kf_stats_load(cli->ctx, a->between, &j->between);
    if (status != KF_OK) result = fail(cli, status);
  }
  if (result == EXIT_OK) result = open_test(cli, &j->test);
  if (result == EXIT_OK && j->test && !j->truth && !kf_data_has_labels(j->test))
    result = fail_with(cli, EXIT_BAD_DATA,
                       "%s: the test rows have no labels; give a label file (--test-labels)",
                       a->test.items[0]);
  if (result == EXIT_OK) result = read_stats(cli, &j->train, &j->stats);
  if (result == EXIT_OK && !j->train && (!j->test || a->neighbour_list.n))
    result = fail_usage(cli,
                        "a sweep over %s needs the rows themselves, and a statistics file is "
                        "given",
                        j->test ? "neighbours" : "folds");
  return result == EXIT_OK ? take_options(j) : result;
}

static int run(cli_run *cli) {
  if (cli->args.shots.n) return sweep_shots(cli);
  if (cli->args.seeds.given) return fail_usage(cli, "--seeds needs --shots");
  sweep_job j = {.cli = cli};
  int result = prepare(&j);
  if (result == EXIT_OK) {
    kf_status status = kf_sweep_new(cli->ctx, j.stats, j.train, j.test, &j.options, &j.sweep);
    result = status == KF_OK ? write_sweep(&j) : fail(cli, status);
  }
  for (size_t i = 0; i < j.options.n_sets; i++) kf_class_set_free(j.sets[i]);
  free(j.sets);
  free(j.lambdas);
  free(j.dims);
  kf_sweep_free(j.sweep);
  kf_text_free(j.text);
  kf_truth_free(j.truth);
  kf_data_free(j.train);
  kf_data_free(j.test);
  kf_stats_free(j.stats);
  kf_stats_free(j.between);
  return result;
}

static const cli_group own_options = {
    "Options",
    (const cli_option[]){
        {"lambdas", 0, OPTION_TEXT, offsetof(cli_args, lambdas), 0, "LAMBDA,...",
         "values of lambda (default: 0.01x,0.03x,0.1x,0.3x,1x,3x,10x)", 0, 0, NULL},
        {"dims", 0, OPTION_NUMBERS, offsetof(cli_args, dims), 0, "L,...",
         "numbers of dimensions (default: all, 3/4, 1/2, 1/4, 1/8 and 1/16 of them)", 1, KF_MAX_DIM,
         NULL},
        {"neighbours", 'k', OPTION_NUMBERS, offsetof(cli_args, neighbour_list), 0, "K,...",
         "numbers of neighbours, 1 to 1024 (default: prototypes alone)", 1, KF_MAX_NEIGHBOURS,
         NULL},
        {"metric", 0, OPTION_CHOICE, offsetof(cli_args, metric), 0, "NAME",
         "cosine, euclidean or both (default: cosine; euclidean with --no-normalize)",
         KF_METRIC_COSINE, 0, metric_names},
        {"centre", 0, OPTION_CHOICE, offsetof(cli_args, centre), 0, "WHAT",
         "subtract before mapping: none (default) or mean", KF_CENTRE_NONE, 0, centre_choices},
        {"between", 0, OPTION_TEXT, offsetof(cli_args, between), 0, "STATS",
         "take the scatter between classes and the class means from these statistics", 0, 0, NULL},
        {"no-raw", 0, OPTION_FLAG, offsetof(cli_args, no_raw), 0, NULL,
         "leave out the original space", 0, 0, NULL},
        {"no-prototypes", 0, OPTION_FLAG, offsetof(cli_args, no_prototypes), 0, NULL,
         "leave out prototypes of images, also beside text: neighbours or text alone", 0, 0, NULL},
        {"format", 0, OPTION_CHOICE, offsetof(cli_args, table_format), 0, "NAME",
         "text, csv or json (default: text)", TABLE_TEXT, 0, format_choices},
        {"json", 0, OPTION_FLAG, offsetof(cli_args, json), 0, NULL, "the same as --format json", 0,
         0, NULL},
        {"output", 'o', OPTION_TEXT, offsetof(cli_args, output), 0, "FILE",
         "where to write (default: standard output)", 0, 0, NULL},
        {0}}};

static const cli_group own_text_options = {
    "Text",
    (const cli_option[]){
        {"text", 0, OPTION_TEXT, offsetof(cli_args, text), 0, "TEXT",
         "also zero-shot, by text prototypes (see 'koofu text-prototypes'), and by text and "
         "prototypes together",
         0, 0, NULL},
        {"fuse", 0, OPTION_TEXT, offsetof(cli_args, fuse), 0, "ALPHA",
         "with --text: what prototypes count beside text, a number or auto, for each lambda the "
         "best by leave-one-out (default: auto)",
         0, 0, NULL},
        {"text-centre", 0, OPTION_CHOICE, offsetof(cli_args, text_centre), 0, "WHAT",
         "subtract before mapping: none, mean, modality (default; see 'koofu eval') or all: a "
         "table "
         "for each",
         KF_CENTRE_NONE, 0, text_choices},
        {"text-as-is", 0, OPTION_FLAG, offsetof(cli_args, text_as_is), 0, NULL,
         "take text with the lengths it has instead of scaling it to unit length", 0, 0, NULL},
        {0}}};

static const cli_group test_options = {
    "What accuracy is measured on",
    (const cli_option[]){
        {"test", 0, OPTION_LIST, offsetof(cli_args, test), 0, "DATA",
         "test rows; may be given several times (default: folds of the training rows)", 0, 0, NULL},
        {"test-labels", 0, OPTION_LIST, offsetof(cli_args, test_labels), 0, "FILE",
         "labels of the test rows, as --labels", 0, 0, NULL},
        {"folds", 0, OPTION_NUMBER, offsetof(cli_args, folds), 0, "F",
         "without --test: stratified folds of the training rows (default: 5)", 2, 100, NULL},
        {"leave-one-out", 0, OPTION_FLAG, offsetof(cli_args, leave_one_out), 0, NULL,
         "without --test: leave out each training row in turn, exactly; prototypes with all "
         "dimensions",
         0, 0, NULL},
        {"sample", 0, OPTION_NUMBER, offsetof(cli_args, sample), 0, "N",
         "with --leave-one-out: at most N rows, the same share of each class (default: 50000)", 1,
         INT64_MAX, NULL},
        {"class-set", 0, OPTION_LIST, offsetof(cli_args, class_sets), 0, "FILE",
         "only these classes take part, one name a line; several sets make several tables", 0, 0,
         NULL},
        {0}}};

static const cli_group shot_options = {
    "Few-shot curves",
    (const cli_option[]){
        {"shots", 0, OPTION_NUMBERS, offsetof(cli_args, shots), 0, "N,...",
         "with --test: accuracy when only N training rows of each class are at hand", 1, INT32_MAX,
         NULL},
        {"seeds", 0, OPTION_NUMBER, offsetof(cli_args, seeds), 0, "S",
         "with --shots: draw S times (default: 3)", 1, 1000, NULL},
        {0}}};

const cli_command sweep_command = {
    .name = "sweep",
    .operands = "DATA...|STATS",
    .min_operands = 1,
    .max_operands = ANY_NUMBER,
    .missing = "the training data or their statistics are",
    .summary = "tabulate accuracy over lambda, dimensions and k",
    .details =
        "Measures the accuracy of nearest prototypes, and with -k of neighbours, for every "
        "combination of lambda and number of dimensions, on test data or in a cross-validation of "
        "the training data. Every figure is what 'koofu fit' and 'koofu eval' (or 'koofu index' "
        "and "
        "'koofu eval --gallery') give for it alone, but what they share is done once: all "
        "dimensions of one lambda cost little more than one evaluation.\n\n"
        "Without --test, the training rows are divided in folds with the same share of each class. "
        "The statistics of a fold are taken away from the whole exactly. Folds have fewer rows, so "
        "that an absolute lambda is taken there in proportion to the scatter.\n\n"
        "With --leave-one-out each row in turn is taken out of the statistics and classified: the "
        "curve from which 'koofu fit' chooses lambda.\n\n"
        "With --text there are tables of zero-shot accuracy as well, each figure as 'koofu eval "
        "--text' gives it alone, and of text and prototypes together, each as 'koofu fit --text' "
        "gives it with that lambda and dimension: alpha is chosen for each lambda from the "
        "training rows.\n\n"
        "With --shots that many rows of each class are drawn from the training rows, once for each "
        "seed, and accuracy on the test rows is measured for nearest prototypes in the raw space "
        "and in Koo-Fu's, and with --text zero-shot and for text and prototypes together; lambda "
        "and alpha are chosen from the drawn rows alone. The rows of fewer shots are among those "
        "of more; a class with fewer rows gives all it has. One shot leaves no scatter within "
        "classes, and Koo-Fu's map is a rotation then.\n\n"
        "A statistics file is enough where there is test data and no -k.",
    .groups =
        (const cli_group *const[]){&own_options, &test_options, &truth_options, &own_text_options,
                                   &shot_options, &stats_options, &label_options, &row_options,
                                   &strict_options, &only_options, NULL},
    .examples =
        (const cli_example[]){
            {"Tables from training data alone", "koofu sweep train.safetensors"},
            {"On test data, with neighbours, for a spreadsheet",
             "koofu sweep train.safetensors --test test.safetensors -k 1,10,15 --format csv -o "
             "sweep.csv"},
            {"Zero-shot over lambda and dimensions, with and without centring",
             "koofu sweep train.safetensors --test test.safetensors --text text.safetensors "
             "--text-centre all --no-prototypes"},
            {"How many photos of each class are enough?",
             "koofu sweep train.safetensors --test test.safetensors --text text.safetensors "
             "--shots 1,2,4,8,16"},
            {"The lambda of the paper, all its dimensions",
             "koofu sweep s.safetensors --test val.safetensors --lambdas 50,150 --dims "
             "768,640,512,384,256,192,128,96,76,64,32"},
            {NULL, NULL}},
    .run = run,
};
