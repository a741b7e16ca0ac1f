/* cmd_merge.c - koofu merge: statistics of parts to statistics of the whole. */
#include "cli.h"
#include "commands.h"

/* Adds operand i to the sum. */
static int add(cli_run *cli, kf_stats *sum, size_t i) {
  const cli_list *operands = &cli->args.operands;
  if (progress_report(cli, "merge", i, operands->n)) return fail(cli, KF_ERR_CANCELLED);
  kf_stats *part;
  kf_status status = kf_stats_load(cli->ctx, operands->items[i], &part);
  if (status != KF_OK) return fail(cli, status);
  status = kf_stats_merge(cli->ctx, sum, part);
  kf_stats_free(part);
  if (status == KF_OK) return EXIT_OK;
  return fail_in(cli, status, operands->items[i]);
}

static int run(cli_run *cli) {
  const cli_list *operands = &cli->args.operands;
  int result = check_output(cli, cli->args.output);
  if (result != EXIT_OK) return result;
  kf_stats *sum;
  kf_status status = kf_stats_load(cli->ctx, operands->items[0], &sum);
  if (status != KF_OK) return fail(cli, status);
  for (size_t i = 1; i < operands->n && result == EXIT_OK; i++) result = add(cli, sum, i);
  if (result == EXIT_OK) result = save_stats(cli, sum, cli->args.output);
  kf_stats_free(sum);
  return result;
}

static const cli_group own_options = {
    "Options",
    (const cli_option[]){{"output", 'o', OPTION_TEXT, offsetof(cli_args, output), OPTION_REQUIRED,
                          "S.safetensors", "the statistics file to write", 0, 0, NULL},
                         {0}}};

const cli_command merge_command = {
    .name = "merge",
    .operands = "STATS...",
    .min_operands = 1,
    .max_operands = ANY_NUMBER,
    .missing = "the statistics files to merge are",
    .summary = "add up the statistics of several parts",
    .details =
        "The result has the same bytes as 'koofu stats' over all the rows at once, in whatever "
        "order the parts are given.\n\n"
        "Classes are matched by name where the files have names (the result has all of them), by "
        "number where they have none. Dimension, normalisation and unit must agree.",
    .groups = (const cli_group *const[]){&own_options, NULL},
    .examples =
        (const cli_example[]){{"Two machines, one result",
                               "koofu merge a.safetensors b.safetensors -o all.safetensors"},
                              {NULL, NULL}},
    .run = run,
};
