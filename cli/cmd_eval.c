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
  kf_eval_result prototypes;
  kf_eval_result neighbours;
  kf_hits *hits; /* [n_k] */
  size_t n_k;
  kf_search_report report;
} eval_job;

/* --- text ------------------------------------------------------------------------------------- */

/* Names are longer with neighbours: "Koo-Fu 1024-NN weighted". */
static int name_width(const eval_job *job) {
  return !job->gallery ? 8 : job->cli->args.weighted ? 23 : 14;
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

static void print_left_out(const kf_eval_result *r, const char *from, const char *owner) {
  if (r->n == r->rows) return;
  printf("\nleft out%s, of %s:\n", from, show_counted(r->rows, "row", "rows").text);
  if (r->n_unlabelled) printf("  %s without a label\n", show_count(r->n_unlabelled).text);
  if (r->n_absent)
    printf("  %s of %s that the %s does not have\n", show_count(r->n_absent).text,
           show_counted(r->absent_classes, "class", "classes").text, owner);
  if (r->n_bad)
    printf("  %s that %s NaN, infinite or zero\n", show_count(r->n_bad).text,
           r->n_bad == 1 ? "is" : "are");
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

static void print_text(const eval_job *job) {
  const kf_eval_result *r = &job->prototypes;
  printf("%-*s %6s  %9s %-16s  %9s %-16s  %s\n", name_width(job), "space", "dims", "top-1",
         "[95 % interval]", "top-5", "[95 % interval]", "rows");
  if (job->data) {
    print_row(job, "raw", kf_model_dim_in(job->model), r->raw_top1, r->raw_top5, r->n);
    if (!job->cli->args.raw)
      print_row(job, "Koo-Fu", kf_model_dim_out(job->model), r->top1, r->top5, r->n);
  }
  if (job->gallery) print_neighbours(job);
  if (job->data) print_left_out(r, "", "model");
  if (job->gallery && (!job->data || job->neighbours.n_absent != r->n_absent))
    print_left_out(&job->neighbours, " of k-NN", "gallery");
  if (may_flatter(job))
    printf("\nleave one out: where the map was fitted on these rows, this flatters it\n");
}

/* --- JSON ------------------------------------------------------------------------------------- */

/* NAME, NAME_low and NAME_high, as fractions; null where it was not evaluated. */
static void print_share(cli_json *j, const char *name, uint64_t hits, uint64_t n, int known) {
  char low_name[32], high_name[32];
  snprintf(low_name, sizeof low_name, "%s_low", name);
  snprintf(high_name, sizeof high_name, "%s_high", name);
  if (!known) {
    jw_null(j, name);
    jw_null(j, low_name);
    jw_null(j, high_name);
    return;
  }
  double low, high;
  kf_interval95(hits, n, &low, &high);
  jw_real(j, name, (double)hits / (double)n);
  jw_real(j, low_name, low);
  jw_real(j, high_name, high);
}

static void print_json_neighbours(cli_json *j, const eval_job *job) {
  const kf_eval_result *r = &job->neighbours;
  jw_open(j, "knn", '[');
  for (size_t i = 0; i < job->n_k; i++) {
    jw_open(j, NULL, '{');
    jw_count(j, "k", job->hits[i].k);
    print_share(j, "top1", job->hits[i].top1, r->n, 1);
    print_share(j, "top5", job->hits[i].top5, r->n, 1);
    jw_close(j, '}');
  }
  jw_close(j, ']');
  jw_count(j, "knn_n", r->n);
  jw_count(j, "knn_n_absent", r->n_absent);
  jw_text(j, "knn_space", kf_gallery_mapped(job->gallery) ? "koofu" : "raw");
  jw_count(j, "knn_dim", kf_gallery_dim(job->gallery));
  jw_text(j, "knn_metric", gallery_metric_name(job->gallery));
  jw_flag(j, "knn_weighted", job->cli->args.weighted);
  if (job->cli->args.weighted)
    jw_real(j, "knn_temperature", vote_temperature(&job->cli->args));
  else
    jw_null(j, "knn_temperature");
  jw_flag(j, "leave_one_out", !job->data);
  jw_real(j, "candidates_per_query", (double)job->report.candidates / (double)job->report.queries);
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
  print_share(&j, "top1", r->top1, r->n, mapped);
  print_share(&j, "top5", r->top5, r->n, mapped);
  print_share(&j, "raw_top1", r->raw_top1, r->n, raw);
  print_share(&j, "raw_top5", r->raw_top5, r->n, raw);
  jw_count(&j, "rows", r->rows);
  jw_count(&j, "n_unlabelled", r->n_unlabelled);
  jw_count(&j, "n_absent", r->n_absent);
  jw_count(&j, "absent_classes", r->absent_classes);
  jw_count(&j, "n_bad", r->n_bad);
  jw_text(&j, "metric", metric_name(job->cli, job->model));
  jw_count(&j, "dim_in", kf_model_dim_in(job->model));
  jw_count(&j, "dim_out", kf_model_dim_out(job->model));
  jw_real(&j, "lambda", kf_model_lambda(job->model));
  if (job->gallery) print_json_neighbours(&j, job);
  jw_close(&j, '}');
  jw_end_line(&j);
}

/* --- the work --------------------------------------------------------------------------------- */

/* -k, or those of 1, 5 and 15 that there are rows for. */
static int choose_list(const eval_job *job, kf_gallery_eval_options *out) {
  static const uint32_t usual[] = {1, 5, 15};
  const cli_numbers *given = &job->cli->args.neighbour_list;
  uint64_t most = kf_gallery_rows(job->gallery) - (job->data == NULL);
  out->k = given->n ? given->items : usual;
  out->n_k = given->n ? given->n : COUNT_OF(usual);
  while (!given->n && out->n_k > 1 && out->k[out->n_k - 1] > most) out->n_k--;
  return check_neighbours(job->cli, job->cli->args.gallery, most, out->k[out->n_k - 1]);
}

static int evaluate_neighbours(eval_job *job) {
  const cli_args *a = &job->cli->args;
  kf_gallery_eval_options options = {.weighted = a->weighted, .temperature = vote_temperature(a)};
  int result = choose_list(job, &options);
  if (result != EXIT_OK) return result;
  job->n_k = options.n_k;
  job->hits = calloc(job->n_k, sizeof *job->hits);
  if (!job->hits) return fail(job->cli, KF_ERR_MEM);
  kf_status status = kf_gallery_eval(job->cli->ctx, job->gallery, job->data, &options,
                                     &job->neighbours, job->hits, &job->report);
  return status == KF_OK ? EXIT_OK : fail(job->cli, status);
}

static int evaluate_prototypes(eval_job *job) {
  const cli_args *a = &job->cli->args;
  kf_eval_options options = {.metric = (kf_metric)a->metric, .skip_model = a->raw};
  kf_status status = kf_eval(job->cli->ctx, job->model, job->data, &options, &job->prototypes);
  return status == KF_OK ? EXIT_OK : fail(job->cli, status);
}

static int evaluate(eval_job *job) {
  int result = job->data ? evaluate_prototypes(job) : EXIT_OK;
  if (result == EXIT_OK && job->gallery) result = evaluate_neighbours(job);
  if (result == EXIT_OK) {
    progress_clear(&job->cli->progress);
    (job->cli->args.json ? print_json : print_text)(job);
  }
  free(job->hits);
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
  if (alone && a->raw)
    return fail_usage(cli, "--raw has no meaning without data, for want of prototypes");
  if (a->gallery && a->metric)
    return fail_usage(cli, "--metric has no meaning with --gallery, which has its own metric");
  return check_vote_options(cli);
}

static int load_eval_gallery(cli_run *cli, const kf_model *model, kf_gallery **out) {
  int result = load_voters(cli, model, out);
  if (result != EXIT_OK || !cli->args.raw || !kf_gallery_mapped(*out)) return result;
  return fail_usage(cli, "--raw has no meaning with %s, whose rows are mapped", cli->args.gallery);
}

static int run(cli_run *cli) {
  kf_model *model = NULL;
  kf_gallery *gallery = NULL;
  kf_data *data = NULL;
  int result = check_options(cli);
  if (result == EXIT_OK) result = load_model(cli, cli->args.operands.items[0], &model);
  if (result == EXIT_OK && cli->args.gallery) result = load_eval_gallery(cli, model, &gallery);
  if (result == EXIT_OK && cli->args.operands.n > 1)
    result = open_data(cli, 1, LABELS_WANTED, &data);
  if (result == EXIT_OK) {
    eval_job job;
    memset(&job, 0, sizeof job);
    job.cli = cli;
    job.model = model;
    job.gallery = gallery;
    job.data = data;
    result = evaluate(&job);
  }
  kf_data_free(data);
  kf_gallery_free(gallery);
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
        {"neighbours", 'k', OPTION_NUMBERS, offsetof(cli_args, neighbour_list), 0, "K,...",
         "with --gallery: numbers of neighbours, 1 to 1024, separated by commas (default: 1,5,15)",
         1, KF_MAX_NEIGHBOURS, NULL},
        {"json", 0, OPTION_FLAG, offsetof(cli_args, json), 0, NULL,
         "one JSON object, with accuracies as fractions", 0, 0, NULL},
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
        "them. Where the map of the gallery was fitted on these rows, this flatters it.",
    .groups =
        (const cli_group *const[]){&own_options, &vote_options, &label_options, &row_options, NULL},
    .examples =
        (const cli_example[]){
            {"How good is it?", "koofu eval model.safetensors test.safetensors"},
            {"For a script", "koofu eval --json model.safetensors x.npy --labels y.npy | jq .top1"},
            {"Neighbours beside prototypes",
             "koofu eval model.safetensors test.safetensors --gallery gallery.safetensors -k 1,15"},
            {NULL, NULL}},
    .run = run,
};
