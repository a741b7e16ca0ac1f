/* cmd_eval.c - koofu eval: how often the nearest prototype is right. */
#include "cli.h"
#include "commands.h"

static const char *metric_name(const cli_run *cli, const kf_model *model) {
  if (cli->args.metric) return metric_choices[cli->args.metric - KF_METRIC_COSINE];
  return metric_choices[kf_model_normalized(model) ? 0 : 1];
}

static void print_row(const char *space, uint32_t dim, uint64_t top1, uint64_t top5, uint64_t n) {
  printf("%-8s %6u  %9s %-16s  %9s %-16s  %s\n", space, dim, show_percent(top1, n).text,
         show_interval(top1, n).text, show_percent(top5, n).text, show_interval(top5, n).text,
         show_count(n).text);
}

static void print_left_out(const kf_eval_result *r) {
  if (r->n == r->rows) return;
  printf("\nleft out, of %s:\n", show_counted(r->rows, "row", "rows").text);
  if (r->n_unlabelled) printf("  %s without a label\n", show_count(r->n_unlabelled).text);
  if (r->n_absent)
    printf("  %s of %s that the model does not have\n", show_count(r->n_absent).text,
           show_counted(r->absent_classes, "class", "classes").text);
  if (r->n_bad)
    printf("  %s that %s NaN, infinite or zero\n", show_count(r->n_bad).text,
           r->n_bad == 1 ? "is" : "are");
}

static void print_text(const cli_run *cli, const kf_model *model, const kf_eval_result *r) {
  printf("%-8s %6s  %9s %-16s  %9s %-16s  %s\n", "space", "dims", "top-1", "[95 % interval]",
         "top-5", "[95 % interval]", "rows");
  print_row("raw", kf_model_dim_in(model), r->raw_top1, r->raw_top5, r->n);
  if (!cli->args.raw) print_row("Koo-Fu", kf_model_dim_out(model), r->top1, r->top5, r->n);
  print_left_out(r);
}

/* NAME, NAME_low and NAME_high, as fractions; null where it was not evaluated. */
static void print_share(cli_json *j, const char *name, uint64_t hits, const kf_eval_result *r,
                        int known) {
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
  kf_interval95(hits, r->n, &low, &high);
  jw_real(j, name, (double)hits / (double)r->n);
  jw_real(j, low_name, low);
  jw_real(j, high_name, high);
}

static void print_json(const cli_run *cli, const kf_model *model, const kf_eval_result *r) {
  cli_json j = {stdout, 0};
  int mapped = !cli->args.raw;
  jw_open(&j, NULL, '{');
  jw_count(&j, "n", r->n);
  print_share(&j, "top1", r->top1, r, mapped);
  print_share(&j, "top5", r->top5, r, mapped);
  print_share(&j, "raw_top1", r->raw_top1, r, 1);
  print_share(&j, "raw_top5", r->raw_top5, r, 1);
  jw_count(&j, "rows", r->rows);
  jw_count(&j, "n_unlabelled", r->n_unlabelled);
  jw_count(&j, "n_absent", r->n_absent);
  jw_count(&j, "absent_classes", r->absent_classes);
  jw_count(&j, "n_bad", r->n_bad);
  jw_text(&j, "metric", metric_name(cli, model));
  jw_count(&j, "dim_in", kf_model_dim_in(model));
  jw_count(&j, "dim_out", kf_model_dim_out(model));
  jw_real(&j, "lambda", kf_model_lambda(model));
  jw_close(&j, '}');
  jw_end_line(&j);
}

static int evaluate(cli_run *cli, const kf_model *model, const kf_data *data) {
  kf_eval_options options = {.metric = (kf_metric)cli->args.metric, .skip_model = cli->args.raw};
  kf_eval_result result;
  kf_status status = kf_eval(cli->ctx, model, data, &options, &result);
  if (status != KF_OK) return fail(cli, status);
  progress_clear(&cli->progress);
  (cli->args.json ? print_json : print_text)(cli, model, &result);
  return EXIT_OK;
}

static int run(cli_run *cli) {
  kf_model *model = NULL;
  kf_data *data = NULL;
  int result = load_model(cli, &model);
  if (result == EXIT_OK) result = open_data(cli, 1, LABELS_WANTED, &data);
  if (result == EXIT_OK) result = evaluate(cli, model, data);
  kf_data_free(data);
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
        {"json", 0, OPTION_FLAG, offsetof(cli_args, json), 0, NULL,
         "one JSON object, with accuracies as fractions", 0, 0, NULL},
        {0}}};

const cli_command eval_command = {
    .name = "eval",
    .operands = "MODEL DATA...",
    .min_operands = 2,
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
        "counted; so are labels that are not in --classes.",
    .groups = (const cli_group *const[]){&own_options, &label_options, &row_options, NULL},
    .examples =
        (const cli_example[]){
            {"How good is it?", "koofu eval model.safetensors test.safetensors"},
            {"For a script", "koofu eval --json model.safetensors x.npy --labels y.npy | jq .top1"},
            {NULL, NULL}},
    .run = run,
};
