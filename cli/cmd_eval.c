/* cmd_eval.c - koofu eval: how often the nearest prototype is right, and the vote of neighbours. */
#include "cli.h"
#include "commands.h"

#include <stdlib.h>
#include <string.h>

/* One run, and what it found. */
typedef struct eval_job {
  cli_run *cli;
  const kf_model *model;
  const kf_gallery *gallery; /* NULL: prototypes alone */
  const kf_data *data;       /* NULL: the rows of the gallery, by neighbours alone */
  const kf_data *unknown;    /* NULL: none */
  const kf_truth *truth;     /* NULL: labels */
  const kf_class_set *set;   /* NULL: all classes */
  const cli_zero_shot *zero; /* without text: all NULL */
  kf_analysis *analysis;     /* NULL: errors by class are not wanted */
  kf_open_set_result open;
  kf_eval_result prototypes;
  kf_eval_result own_text, fused; /* of a model that knows text */
  kf_eval_result text;
  kf_eval_result neighbours;
  kf_hits *hits;  /* [n_k] */
  uint32_t own_k; /* -k auto */
  size_t n_k;
  kf_search_report report;
} eval_job;

/* --- text ------------------------------------------------------------------------------------- */

/* Names are longer with neighbours: "Koo-Fu 1024-NN weighted". */
static int name_width(const eval_job *job) {
  return !job->gallery ? (job->zero->text ? 11 : 8) : job->cli->args.weighted ? 23 : 14;
}

/* The rows of a mapped gallery are often those that its map was fitted on. */
static int may_flatter(const eval_job *job) {
  return !job->data && kf_gallery_mapped(job->gallery);
}

static void print_row(const eval_job *job, const char *name, uint32_t dim, uint64_t top1,
                      uint64_t top5, uint64_t n) {
  printf("%-*s %6u  %9s %-16s  %9s %-16s  %s\n", name_width(job), name, dim,
         show_percent(top1, n).text, show_interval(top1, n).text, show_percent(top5, n).text,
         show_interval(top5, n).text, show_count(n).text);
}

static void print_left_out(const eval_job *job, const kf_eval_result *r, const char *from,
                           const char *owner) {
  const char *set = job->set ? ", or that is not in the class set" : "";
  if (r->n == r->rows) return;
  printf("\nleft out%s, of %s:\n", from, show_counted(r->rows, "row", "rows").text);
  if (r->n_unlabelled) printf("  %s without a label\n", show_count(r->n_unlabelled).text);
  if (r->n_absent)
    printf("  %s of %s that the %s does not have%s\n", show_count(r->n_absent).text,
           show_counted(r->absent_classes, "class", "classes").text, owner, set);
  if (r->n_excluded)
    printf("  %s that the truth has no class for\n", show_count(r->n_excluded).text);
  if (r->n_bad)
    printf("  %s that %s NaN, infinite or zero\n", show_count(r->n_bad).text,
           r->n_bad == 1 ? "is" : "are");
}

static void print_text_rows(const eval_job *job) {
  const kf_eval_result *r = &job->text;
  print_row(job, "raw text", kf_model_dim_in(job->model), r->raw_top1, r->raw_top5, r->n);
  if (!job->cli->args.raw)
    print_row(job, "Koo-Fu text", kf_model_dim_out(job->model), r->top1, r->top5, r->n);
}

/* Whether the model knows text, and is evaluated with it. */
static int has_parts(const eval_job *job) {
  return job->data && kf_model_fused(job->model) && !job->cli->args.raw;
}

static void print_parts(const eval_job *job) {
  const kf_eval_result *t = &job->own_text, *f = &job->fused;
  uint32_t d = kf_model_dim_in(job->model), l = kf_model_dim_out(job->model);
  print_row(job, "text", d, t->top1, t->top5, t->n);
  print_row(job, "fused", d + l, f->top1, f->top5, f->n);
}

static void print_neighbours(const eval_job *job) {
  const char *space = kf_gallery_mapped(job->gallery) ? "Koo-Fu" : "raw";
  for (size_t i = 0; i < job->n_k; i++) {
    const kf_hits *h = &job->hits[i];
    char name[32];
    snprintf(name, sizeof name, "%s %u-NN%s", space, h->k,
             job->cli->args.weighted ? " weighted" : "");
    print_row(job, name, kf_gallery_dim(job->gallery), h->top1, h->top5, job->neighbours.n);
  }
}

/* Whose errors are looked at: text's where there is text. */
static const kf_model *judged_model(const eval_job *job) {
  if (!job->zero->text) return job->model;
  return job->cli->args.raw ? job->zero->raw : job->zero->mapped;
}

static void print_open_set(const kf_open_set_result *o, int text) {
  printf("\nknown against unknown, by the score of the nearest %s:\n", text ? "text" : "prototype");
  printf("  %s known, %s unknown\n", show_counted(o->n_known, "row", "rows").text,
         show_count(o->n_unknown).text);
  printf(
      "  AUROC %.2f %%; %.2f %% of the unknown rows pass where 95 %% of the known ones do (%s)\n",
      100 * o->auroc, 100 * o->fpr95, show_real(o->threshold).text);
}

static void print_text(const eval_job *job) {
  const kf_eval_result *r = &job->prototypes;
  printf("%-*s %6s  %9s %-16s  %9s %-16s  %s\n", name_width(job), "space", "dims", "top-1",
         "[95 % interval]", "top-5", "[95 % interval]", "rows");
  if (job->data) {
    print_row(job, "raw", kf_model_dim_in(job->model), r->raw_top1, r->raw_top5, r->n);
    if (!job->cli->args.raw)
      print_row(job, "Koo-Fu", kf_model_dim_out(job->model), r->top1, r->top5, r->n);
    if (has_parts(job)) print_parts(job);
  }
  if (job->zero->text) print_text_rows(job);
  if (job->gallery) print_neighbours(job);
  if (job->data) print_left_out(job, r, "", "model");
  if (job->zero->text && job->text.n_absent != r->n_absent)
    print_left_out(job, &job->text, " of text", "text");
  if (job->gallery && (!job->data || job->neighbours.n_absent != r->n_absent))
    print_left_out(job, &job->neighbours, " of k-NN", "gallery");
  if (job->unknown) print_open_set(&job->open, job->zero->text != NULL);
  if (job->analysis && job->cli->args.errors) {
    if (!job->zero->text && has_parts(job)) printf("\nerrors of text and prototypes together:\n");
    if (job->zero->text)
      printf("\nerrors of text in the %s space:\n", job->cli->args.raw ? "original" : "model's");
    print_errors(judged_model(job), job->analysis);
  }
  if (may_flatter(job))
    printf("\nleave one out: where the map was fitted on these rows, this flatters it\n");
}

/* --- JSON ------------------------------------------------------------------------------------- */

static void print_json_neighbours(cli_json *j, const eval_job *job) {
  const kf_eval_result *r = &job->neighbours;
  jw_open(j, "knn", '[');
  for (size_t i = 0; i < job->n_k; i++) {
    jw_open(j, NULL, '{');
    jw_count(j, "k", job->hits[i].k);
    print_json_share(j, "top1", job->hits[i].top1, r->n, 1);
    print_json_share(j, "top5", job->hits[i].top5, r->n, 1);
    jw_close(j, '}');
  }
  jw_close(j, ']');
  jw_count(j, "knn_n", r->n);
  jw_count(j, "knn_n_absent", r->n_absent);
  jw_text(j, "knn_space", kf_gallery_mapped(job->gallery) ? "koofu" : "raw");
  jw_count(j, "knn_dim", kf_gallery_dim(job->gallery));
  jw_text(j, "knn_metric", kf_metric_name(kf_gallery_metric(job->gallery)));
  jw_flag(j, "knn_weighted", job->cli->args.weighted);
  if (job->cli->args.weighted)
    jw_real(j, "knn_temperature", vote_temperature(&job->cli->args));
  else
    jw_null(j, "knn_temperature");
  jw_flag(j, "leave_one_out", !job->data);
  jw_real(j, "candidates_per_query", (double)job->report.candidates / (double)job->report.queries);
}

static void print_json_open_set(cli_json *j, const kf_open_set_result *o) {
  jw_open(j, "open_set", '{');
  jw_count(j, "n_known", o->n_known);
  jw_count(j, "n_unknown", o->n_unknown);
  jw_real(j, "auroc", o->auroc);
  jw_real(j, "fpr95", o->fpr95);
  jw_real(j, "threshold", o->threshold);
  jw_close(j, '}');
}

static void print_json_text(cli_json *j, const eval_job *job) {
  const kf_eval_result *r = &job->text;
  int mapped = !job->cli->args.raw;
  jw_text(j, "text", job->cli->args.text);
  jw_text(j, "text_centre", mapped ? text_centre_name(&job->cli->args) : NULL);
  jw_count(j, "text_classes", kf_text_classes(job->zero->text));
  jw_count(j, "text_n", r->n);
  jw_count(j, "text_n_absent", r->n_absent);
  print_json_share(j, "text_top1", r->top1, r->n, mapped);
  print_json_share(j, "text_top5", r->top5, r->n, mapped);
  print_json_share(j, "raw_text_top1", r->raw_top1, r->n, 1);
  print_json_share(j, "raw_text_top5", r->raw_top5, r->n, 1);
}

static const char *metric_name(const cli_run *cli, const kf_model *model) {
  if (cli->args.metric) return metric_choices[cli->args.metric - KF_METRIC_COSINE];
  return metric_choices[kf_model_normalized(model) ? 0 : 1];
}

static void print_json(const eval_job *job) {
  const kf_eval_result *r = job->data ? &job->prototypes : &job->neighbours;
  cli_json j = {stdout, 0};
  int raw = job->data != NULL, mapped = raw && !job->cli->args.raw;
  jw_open(&j, NULL, '{');
  if (raw)
    jw_count(&j, "n", r->n);
  else
    jw_null(&j, "n");
  print_json_share(&j, "top1", r->top1, r->n, mapped);
  print_json_share(&j, "top5", r->top5, r->n, mapped);
  print_json_share(&j, "raw_top1", r->raw_top1, r->n, raw);
  print_json_share(&j, "raw_top5", r->raw_top5, r->n, raw);
  if (has_parts(job)) {
    print_json_share(&j, "model_text_top1", job->own_text.top1, job->own_text.n, 1);
    print_json_share(&j, "model_text_top5", job->own_text.top5, job->own_text.n, 1);
    print_json_share(&j, "fused_top1", job->fused.top1, job->fused.n, 1);
    print_json_share(&j, "fused_top5", job->fused.top5, job->fused.n, 1);
    jw_real(&j, "alpha", kf_model_alpha(job->model));
  }
  jw_count(&j, "rows", r->rows);
  jw_count(&j, "n_unlabelled", r->n_unlabelled);
  jw_count(&j, "n_absent", r->n_absent);
  jw_count(&j, "absent_classes", r->absent_classes);
  jw_count(&j, "n_bad", r->n_bad);
  jw_count(&j, "n_excluded", r->n_excluded);
  jw_text(&j, "truth", job->cli->args.truth);
  jw_text(&j, "class_set", job->cli->args.class_set);
  jw_text(&j, "metric", metric_name(job->cli, job->model));
  jw_count(&j, "dim_in", kf_model_dim_in(job->model));
  jw_count(&j, "dim_out", kf_model_dim_out(job->model));
  jw_real(&j, "lambda", kf_model_lambda(job->model));
  if (job->zero->text) print_json_text(&j, job);
  if (job->gallery) print_json_neighbours(&j, job);
  if (job->unknown) print_json_open_set(&j, &job->open);
  if (job->analysis || job->unknown)
    jw_text(&j, "errors_of", job->zero->text ? "text" : "prototypes");
  if (job->analysis && job->cli->args.errors)
    print_json_errors(&j, judged_model(job), job->analysis);
  jw_close(&j, '}');
  jw_end_line(&j);
}

/* --- the work --------------------------------------------------------------------------------- */

/* -k, or those of 1, 5 and 15 that there are rows for. */
static int choose_list(eval_job *job, kf_gallery_eval_options *out) {
  static const uint32_t usual[] = {1, 5, 15};
  const cli_numbers *given = &job->cli->args.neighbour_list;
  if (given->automatic) {
    out->k = &job->own_k;
    out->n_k = 1;
    return neighbours_by_themselves(job->cli, job->gallery, &job->own_k);
  }
  uint64_t most = kf_gallery_rows(job->gallery) - (job->data == NULL);
  out->k = given->n ? given->items : usual;
  out->n_k = given->n ? given->n : COUNT_OF(usual);
  while (!given->n && out->n_k > 1 && out->k[out->n_k - 1] > most) out->n_k--;
  return check_neighbours(job->cli, job->cli->args.gallery, most, out->k[out->n_k - 1]);
}

static int evaluate_neighbours(eval_job *job) {
  const cli_args *a = &job->cli->args;
  kf_gallery_eval_options options = {.weighted = a->weighted,
                                     .temperature = vote_temperature(a),
                                     .truth = job->truth,
                                     .set = job->set};
  int result = choose_list(job, &options);
  if (result != EXIT_OK) return result;
  job->n_k = options.n_k;
  job->hits = calloc(job->n_k, sizeof *job->hits);
  if (!job->hits) return fail(job->cli, KF_ERR_MEM);
  kf_status status = kf_gallery_eval(job->cli->ctx, job->gallery, job->data, &options,
                                     &job->neighbours, job->hits, &job->report);
  return status == KF_OK ? EXIT_OK : fail(job->cli, status);
}

/* Errors by class come from the pass that also counts the hits in their space. */
static int analyse(eval_job *job) {
  const cli_args *a = &job->cli->args;
  kf_analysis_options options = {
      .metric = (kf_metric)a->metric, .raw = a->raw, .truth = job->truth, .set = job->set};
  kf_status status =
      kf_analysis_new(job->cli->ctx, judged_model(job), job->data, &options, &job->analysis);
  return status == KF_OK ? EXIT_OK : fail(job->cli, status);
}

static int wants_errors(const cli_args *a) { return a->errors || a->class_table || a->confusions; }

static int evaluate_parts(eval_job *job) {
  kf_eval_options options = {
      .raw = KF_OFF, .part = KF_PART_TEXT, .truth = job->truth, .set = job->set};
  kf_status status = kf_eval(job->cli->ctx, job->model, job->data, &options, &job->own_text);
  options.part = KF_PART_FUSED;
  if (status == KF_OK)
    status = kf_eval(job->cli->ctx, job->model, job->data, &options, &job->fused);
  return status == KF_OK ? EXIT_OK : fail(job->cli, status);
}

static int evaluate_prototypes(eval_job *job) {
  const cli_args *a = &job->cli->args;
  /* by the analysis, in its space */
  int counted = job->analysis && !job->zero->text && (a->raw || !kf_model_fused(job->model));
  kf_eval_options options = {.metric = (kf_metric)a->metric,
                             .part = KF_PART_IMAGES,
                             .mapped = a->raw || counted ? KF_OFF : KF_ON,
                             .truth = job->truth,
                             .set = job->set};
  kf_eval_result *r = &job->prototypes;
  if (a->raw && counted) {
    *r = job->analysis->totals;
    r->raw_top1 = r->top1;
    r->raw_top5 = r->top5;
    return EXIT_OK;
  }
  kf_status status = kf_eval(job->cli->ctx, job->model, job->data, &options, r);
  if (status != KF_OK) return fail(job->cli, status);
  if (counted) {
    r->top1 = job->analysis->totals.top1;
    r->top5 = job->analysis->totals.top5;
  }
  return EXIT_OK;
}

/* Text as it is in the original space, and centred in the model's. */
static int evaluate_text(eval_job *job) {
  const cli_args *a = &job->cli->args;
  kf_ctx *ctx = job->cli->ctx;
  kf_eval_options options = {
      .metric = (kf_metric)a->metric, .mapped = KF_OFF, .truth = job->truth, .set = job->set};
  kf_eval_result mapped = {0};
  int result = remark_on_text(job->cli, job->data, job->zero->text);
  if (result != EXIT_OK) return result;
  kf_status status = kf_eval(ctx, job->zero->raw, job->data, &options, &job->text);
  options.mapped = KF_ON;
  options.raw = KF_OFF;
  if (status == KF_OK && !a->raw)
    status = kf_eval(ctx, job->zero->mapped, job->data, &options, &mapped);
  if (status != KF_OK) return fail_in(job->cli, status, a->text);
  job->text.top1 = mapped.top1;
  job->text.top5 = mapped.top5;
  return EXIT_OK;
}

static int evaluate_open_set(eval_job *job) {
  const cli_args *a = &job->cli->args;
  kf_analysis_options options = {
      .metric = (kf_metric)a->metric, .raw = a->raw, .truth = job->truth, .set = job->set};
  kf_status status =
      kf_open_set(job->cli->ctx, judged_model(job), job->data, job->unknown, &options, &job->open);
  return status == KF_OK ? EXIT_OK : fail(job->cli, status);
}

static int evaluate(eval_job *job) {
  const cli_args *a = &job->cli->args;
  int result = wants_errors(a) ? analyse(job) : EXIT_OK;
  if (result == EXIT_OK && job->data) result = evaluate_prototypes(job);
  if (result == EXIT_OK && has_parts(job)) result = evaluate_parts(job);
  if (result == EXIT_OK && job->zero->text) result = evaluate_text(job);
  if (result == EXIT_OK && job->unknown) result = evaluate_open_set(job);
  if (result == EXIT_OK && job->gallery) result = evaluate_neighbours(job);
  if (result == EXIT_OK && job->analysis)
    result = write_tables(job->cli, judged_model(job), job->analysis);
  if (result == EXIT_OK) {
    progress_clear(&job->cli->progress);
    (a->json ? print_json : print_text)(job);
  }
  kf_analysis_free(job->analysis);
  free(job->hits);
  return result;
}

/* --- what goes together ----------------------------------------------------------------------- */

static int check_tables(cli_run *cli) {
  const cli_args *a = &cli->args;
  const char *const tables[] = {a->class_table, a->confusions};
  int result = EXIT_OK;
  for (size_t i = 0; i < COUNT_OF(tables) && result == EXIT_OK; i++) {
    if (tables[i] && is_stdout(tables[i]))
      return fail_usage(cli, "tables of errors go to files, not to standard output");
    if (tables[i]) result = check_output(cli, tables[i]);
  }
  if (result == EXIT_OK && a->class_table)
    result = check_outputs_differ(cli, a->class_table, a->confusions);
  return result;
}

static int check_options(cli_run *cli) {
  const cli_args *a = &cli->args;
  int alone = a->operands.n < 2; /* without data */
  if (alone && !a->gallery)
    return fail_usage(cli, "the labelled data to evaluate are missing (or --gallery, to leave one "
                           "out in turn)");
  if (alone && data_options_given(a))
    return fail_usage(cli, "options on rows and labels have no meaning without data");
  if (alone && (wants_errors(a) || a->unknown.n))
    return fail_usage(cli, "--errors, --per-class, --confusions and --unknown are about "
                           "prototypes, and need data");
  if (alone && a->text) return fail_usage(cli, "--text needs data");
  if (alone && a->raw)
    return fail_usage(cli, "--raw has no meaning without data, for want of prototypes");
  if (a->gallery && a->metric)
    return fail_usage(cli, "--metric has no meaning with --gallery, which has its own metric");
  int result = check_text_options(cli);
  if (result == EXIT_OK) result = check_tables(cli);
  return result == EXIT_OK ? check_vote_options(cli) : result;
}

static int load_eval_gallery(cli_run *cli, const kf_model *model, kf_gallery **out) {
  int result = load_voters(cli, model, out);
  if (result != EXIT_OK || !cli->args.raw || !kf_gallery_mapped(*out)) return result;
  return fail_usage(cli, "--raw has no meaning with %s, whose rows are mapped", cli->args.gallery);
}

static int check_replaces_nothing(cli_run *cli, const kf_data *data) {
  int result = check_replaces_no_data(cli, data, cli->args.class_table);
  return result == EXIT_OK ? check_replaces_no_data(cli, data, cli->args.confusions) : result;
}

static int open_unknown(cli_run *cli, kf_data **out) {
  const cli_args *a = &cli->args;
  kf_data_options options = {.tensor = a->tensor, .inner_labels = KF_OFF, .skip_bad = a->skip_bad};
  kf_status status = kf_data_open(cli->ctx, a->unknown.items, a->unknown.n, &options, out);
  return status == KF_OK ? check_replaces_nothing(cli, *out) : fail(cli, status);
}

static int run(cli_run *cli) {
  kf_model *model = NULL;
  kf_gallery *gallery = NULL;
  kf_data *data = NULL, *unknown = NULL;
  kf_truth *truth = NULL;
  kf_class_set *set = NULL;
  cli_zero_shot zero = {0};
  int result = check_options(cli);
  if (result == EXIT_OK) result = load_judging(cli, &truth, &set);
  if (result == EXIT_OK) result = load_model(cli, cli->args.operands.items[0], &model);
  if (result == EXIT_OK && cli->args.text) result = load_zero_shot(cli, model, &zero);
  if (result == EXIT_OK && cli->args.gallery) result = load_eval_gallery(cli, model, &gallery);
  if (result == EXIT_OK && cli->args.operands.n > 1)
    result = open_data(cli, 1, LABELS_WANTED, &data);
  if (result == EXIT_OK && data) result = check_replaces_nothing(cli, data);
  if (result == EXIT_OK && cli->args.unknown.n) result = open_unknown(cli, &unknown);
  if (result == EXIT_OK) {
    eval_job job;
    memset(&job, 0, sizeof job);
    job.cli = cli;
    job.model = model;
    job.gallery = gallery;
    job.data = data;
    job.unknown = unknown;
    job.truth = truth;
    job.set = set;
    job.zero = &zero;
    result = evaluate(&job);
  }
  kf_data_free(data);
  kf_data_free(unknown);
  kf_truth_free(truth);
  kf_class_set_free(set);
  kf_gallery_free(gallery);
  zero_shot_free(&zero);
  kf_model_free(model);
  return result;
}

static const cli_group own_options = {
    "Options",
    (const cli_option[]){
        {"metric", 0, OPTION_CHOICE, offsetof(cli_args, metric), 0, "NAME",
         "cosine or euclidean (default: cosine; euclidean for a model fitted without normalising)",
         KF_METRIC_COSINE, 0, metric_choices},
        {"raw", 0, OPTION_FLAG, offsetof(cli_args, raw), 0, NULL,
         "evaluate the original space alone", 0, 0, NULL},
        {"neighbours", 'k', OPTION_NUMBERS, offsetof(cli_args, neighbour_list), OPTION_AUTO,
         "K,...",
         "with --gallery: numbers of neighbours, 1 to 1024, separated by commas, or auto (default: "
         "1,5,15)",
         1, KF_MAX_NEIGHBOURS, NULL},
        {"json", 0, OPTION_FLAG, offsetof(cli_args, json), 0, NULL,
         "one JSON object, with accuracies as fractions", 0, 0, NULL},
        {0}}};

static const cli_group error_options = {
    "Errors",
    (const cli_option[]){
        {"errors", 0, OPTION_FLAG, offsetof(cli_args, errors), 0, NULL,
         "also print the worst classes, the most frequent confusions and what a margin is worth", 0,
         0, NULL},
        {"per-class", 0, OPTION_TEXT, offsetof(cli_args, class_table), 0, "FILE",
         "write rows, hits and answers of every class, separated by tabs", 0, 0, NULL},
        {"confusions", 0, OPTION_TEXT, offsetof(cli_args, confusions), 0, "FILE",
         "write how often which class was taken for which, separated by tabs", 0, 0, NULL},
        {"unknown", 0, OPTION_LIST, offsetof(cli_args, unknown), 0, "DATA",
         "rows of unknown classes: how well the nearest score tells them from DATA", 0, 0, NULL},
        {0}}};

const cli_command eval_command = {
    .name = "eval",
    .operands = "MODEL [DATA...]",
    .min_operands = 1,
    .max_operands = ANY_NUMBER,
    .missing = "the model and the labelled data to evaluate are",
    .summary = "measure top-1 and top-5 accuracy",
    .details =
        "A row is a top-1 hit where the nearest prototype is that of its class, a top-5 hit where "
        "one of the five nearest is; both in the original space (raw: the class means as they are) "
        "and in the model's. The interval is the 95 % Wilson interval of the share of hits among "
        "the rows that were scored.\n\n"
        "Classes are matched by name where data and model have names, by number where neither has. "
        "Rows "
        "without a label and rows of classes that the model does not have are left out and "
        "counted; so are labels that are not in --classes.\n\n"
        "With --gallery the table gains a line for each K: how often the vote of the K nearest "
        "rows of the gallery is right, and how often the right class is among the five with the "
        "most votes. The gallery is one of the original space, or was made with this very model. "
        "One search serves all K.\n\n"
        "With --gallery and without DATA, each row of the gallery is classified by the others "
        "(leave one out). There is no line for prototypes then, since these rows may be in "
        "them. Where the map of the gallery was fitted on these rows, this flatters it.\n\n"
        "With --truth a row is a hit where one of its right classes is the answer, or among the "
        "five; rows for which the truth has no class are left out. A .json is a list of lists of "
        "class numbers, as ReaL's; a .csv has a header line with the columns id and "
        "proposed_labels, as that of the cleaner validation set; in other text a line has the "
        "classes of a row, separated by commas or tabs. With --ids, entries find their rows by id, "
        "without folder and file ending; entry i of a .json belongs to the id that ends in _val_ "
        "and the number i + 1. Without --ids entries are in the order of the rows.\n\n"
        "With --text the table gains two lines: how often the nearest text prototype is right, in "
        "the original space, where text is taken as it is, and in the model's, where by default "
        "images and text are each centred on their own mean. Classes of text, model and data are "
        "matched by name; those that only one has are remarked upon. Text classes that the model "
        "lacks take part in the lines of text, and rows without a text for their class are left "
        "out there; --class-set makes classes the same for all lines.\n\n"
        "With --class-set the prototypes of other classes do not take part, and rows of other "
        "classes are left out. A gallery stays whole: there the set says whose rows are "
        "scored.\n\n"
        "--errors, --per-class, --confusions and --unknown look at prototypes in the model's "
        "space, or with --raw in the original one; with --text they look at text instead. A margin "
        "is the difference between the two best "
        "scores. --unknown prints the area under the ROC curve, and how many unknown rows reach "
        "the score that 95 % of the known ones reach.",
    .groups =
        (const cli_group *const[]){&own_options, &text_options, &judge_options, &error_options,
                                   &vote_options, &label_options, &row_options, NULL},
    .examples =
        (const cli_example[]){
            {"How good is it?", "koofu eval model.safetensors test.safetensors"},
            {"For a script", "koofu eval --json model.safetensors x.npy --labels y.npy | jq .top1"},
            {"Neighbours beside prototypes",
             "koofu eval model.safetensors test.safetensors --gallery gallery.safetensors -k 1,15"},
            {"Zero-shot beside it",
             "koofu eval model.safetensors test.safetensors --text text.safetensors"},
            {"By ReaL labels", "koofu eval model.safetensors val.npy --truth real.json "
                               "--truth-classes synsets.txt --ids val_files.txt"},
            {"Where does it go wrong?", "koofu eval model.safetensors test.safetensors --errors "
                                        "--confusions confusions.tsv"},
            {NULL, NULL}},
    .run = run,
};
