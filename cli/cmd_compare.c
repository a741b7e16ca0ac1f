/* cmd_compare.c - koofu compare: is one classifier better than another on the same rows? */
#include "commands.h"
#include "eval.h"

#include <string.h>

static const char *const raw_choices[] = {"a", "b", "both", NULL};

typedef struct compare_job {
  cli_run *cli;
  kf_data *data; /* NULL: answers and a truth */
  kf_truth *truth;
  kf_class_set *set;
  kf_verdicts *verdicts[2];
  int fused[2]; /* a model of rows and text */
  kf_comparison result;
} compare_job;

/* Answers of 'koofu classify' are text, models are not. */
static int is_model(const cli_run *cli, size_t side) {
  return ends_with(cli->args.operands.items[side], ".safetensors");
}

static const char *space_of(const compare_job *job, size_t side) {
  if (!is_model(job->cli, side)) return "answers";
  return job->cli->args.use.raw & (1 << side) ? "raw" : job->fused[side] ? "fused" : "Koo-Fu";
}

static const char *json_space(const compare_job *job, size_t side) {
  const char *space = space_of(job, side);
  return strcmp(space, "Koo-Fu") == 0 ? "koofu" : space;
}

static void print_side(const compare_job *job, size_t side, uint64_t hits) {
  uint64_t n = job->result.n;
  printf("%c  %9s %-16s  %-7s  ", (int)('A' + (int)side), show_percent(hits, n).text,
         show_interval(hits, n).text, space_of(job, side));
  print_plain(stdout, stream_name(job->cli, job->cli->args.operands.items[side]));
  putchar('\n');
}

static void print_text(const compare_job *job) {
  const kf_comparison *r = &job->result;
  printf("   %9s %-16s  %-7s  %s\n", "top-1", "[95 % interval]", "space", "file");
  print_side(job, 0, r->both + r->only_a);
  print_side(job, 1, r->both + r->only_b);
  printf("\n%-10s %12s %12s\n", "", "B right", "B wrong");
  printf("%-10s %12s %12s\n", "A right", show_count(r->both).text, show_count(r->only_a).text);
  printf("%-10s %12s %12s\n", "A wrong", show_count(r->only_b).text, show_count(r->neither).text);
  printf("\nA - B: %+.2f points, 95 %% interval [%+.2f, %+.2f]\n", 100 * r->difference,
         100 * r->low, 100 * r->high);
  printf("McNemar's exact test: p = %.3g\n", r->p);
  if (r->n < r->rows)
    printf("\nleft out, of %s: %s that were not judged by both\n",
           show_counted(r->rows, "row", "rows").text, show_count(r->rows - r->n).text);
}

static void print_json(const compare_job *job) {
  const kf_comparison *r = &job->result;
  cli_json j = jw_begin(stdout);
  jw_count(&j, "rows", r->rows);
  jw_count(&j, "n", r->n);
  jw_count(&j, "both", r->both);
  jw_count(&j, "only_a", r->only_a);
  jw_count(&j, "only_b", r->only_b);
  jw_count(&j, "neither", r->neither);
  print_json_share(&j, "a", r->both + r->only_a, r->n, 1);
  print_json_share(&j, "b", r->both + r->only_b, r->n, 1);
  jw_text(&j, "a_file", stream_name(job->cli, job->cli->args.operands.items[0]));
  jw_text(&j, "b_file", stream_name(job->cli, job->cli->args.operands.items[1]));
  jw_text(&j, "a_space", json_space(job, 0));
  jw_text(&j, "b_space", json_space(job, 1));
  jw_real(&j, "difference", r->difference);
  jw_real(&j, "difference_low", r->low);
  jw_real(&j, "difference_high", r->high);
  jw_real(&j, "p", r->p);
  jw_end(&j);
}

static int judge_model(compare_job *job, size_t side) {
  const cli_args *a = &job->cli->args;
  kf_model *model = NULL;
  TRY(load_model(job->cli, a->operands.items[side], &model));
  job->fused[side] = kf_model_fused(model);
  kf_analysis_options options = {.metric = (kf_metric)a->metric,
                                 .raw = (a->use.raw & (1 << side)) != 0,
                                 .truth = job->truth,
                                 .set = job->set};
  kf_status status =
      kf_verdicts_new(job->cli->ctx, model, job->data, &options, &job->verdicts[side]);
  if (status != KF_OK) return fail_in(job->cli, status, a->operands.items[side]);
  return own_verdicts(job->cli, KF_OK, &job->verdicts[side]);
}

static int judge_answers(compare_job *job, size_t side) {
  return own_verdicts(job->cli,
                      kf_verdicts_read(job->cli->ctx, job->cli->args.operands.items[side],
                                       job->data, job->truth, job->set, &job->verdicts[side]),
                      &job->verdicts[side]);
}

static int compare(compare_job *job) {
  for (size_t side = 0; side < 2; side++)
    TRY((is_model(job->cli, side) ? judge_model : judge_answers)(job, side));
  return result_of(job->cli,
                   kf_compare(job->cli->ctx, job->verdicts[0], job->verdicts[1], &job->result));
}

static int check_options(cli_run *cli) {
  const cli_args *a = &cli->args;
  int models = is_model(cli, 0) + is_model(cli, 1);
  if (a->operands.n < 3 && (models || !a->judge.truth))
    return fail_usage(cli, "missing argument: DATA%s", models ? "" : " (or --truth FILE)");
  if (a->operands.n < 3) TRY(need(cli, DATA_OPTIONS, "data"));
  if (!models) TRY(need(cli, "metric raw", "a model, and both sides are answers"));
  for (size_t side = 0; side < 2; side++)
    if ((a->use.raw & (1 << side)) && !is_model(cli, side))
      return fail_usage(cli, "%s: --raw cannot be used with answers", a->operands.items[side]);
  return EXIT_OK;
}

static int run_compare(cli_run *cli) {
  compare_job job = {.cli = cli};
  TRY(check_options(cli));
  TRY(load_judging(cli, &job.truth, &job.set));
  if (cli->args.operands.n > 2) TRY(open_data(cli, 2, LABELS_WANTED, &job.data));
  TRY(compare(&job));
  progress_clear(&cli->progress);
  (cli->args.json ? print_json : print_text)(&job);
  return EXIT_OK;
}

static const cli_group own_options = {
    "Options", OPTIONS({MODEL_METRIC},
                       {CHOICE("raw", use.raw, "SIDE", 1, raw_choices),
                        .help = "a, b or both: use that model in the original space"},
                       {SHARES_JSON})};

const cli_command compare_command = {
    .name = "compare",
    .operands = "A B [DATA...]",
    .summary = "compare two classifiers on the same rows",
    .details =
        "A and B are models (.safetensors) or answers printed by 'koofu classify' (.tsv). Prints "
        "the "
        "accuracy of both, how many rows each alone gets right, the difference with its 95 % "
        "interval, and the p-value of McNemar's exact test: how likely a split this uneven of the "
        "rows that only one gets right would be if both were equally good. Rows that either of "
        "them leaves out do not count.\n\n"
        "For answers, the best class of each row counts; rows without a line are left out. Answers "
        "are judged by the labels of DATA or by --truth, and with --truth they need no DATA.\n\n"
        "A model with text (see 'koofu fit --text') is judged by text and prototypes together, and "
        "called fused.\n\n"
        "'koofu compare MODEL MODEL DATA --raw b' shows what the map of a model is worth.",
    .groups = GROUPS(&own_options, &judge_options, &label_options, &row_options),
    .examples =
        EXAMPLES({"Two models", "koofu compare new.safetensors old.safetensors test.safetensors"},
                 {"A model and the answers of another program",
                  "koofu compare model.safetensors answers.tsv test.npy --labels y.npy"}),
    .run = run_compare,
    .shared = 1,
};
