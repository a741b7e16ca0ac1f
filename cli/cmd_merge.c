/* cmd_merge.c - koofu merge: adds up the statistics of parts. */
#include "commands.h"

#include <sys/stat.h>

/* The rows of a file given twice, even by two names, would count twice. */
static int refuse_twice(cli_run *cli) {
  const cli_list *operands = &cli->args.operands;
  const char *const *path = operands->items;
  struct stat *info = own_memory(cli, operands->n, sizeof *info);
  if (!info) return fail(cli, KF_ERR_MEM);
  for (size_t i = 0; i < operands->n; i++) {
    if (stat(path[i], &info[i]) != 0) info[i].st_mode = 0; /* reading it will say why */
    for (size_t j = 0; S_ISREG(info[i].st_mode) && j < i; j++)
      if (info[i].st_dev == info[j].st_dev && info[i].st_ino == info[j].st_ino)
        return fail_usage(cli, "%s is given twice, so its rows would count twice", path[i]);
  }
  return EXIT_OK;
}

static int add(cli_run *cli, kf_stats *sum, size_t i) {
  const cli_list *operands = &cli->args.operands;
  kf_stats *part = NULL;
  if (progress_report(cli, "merge", i, operands->n)) return fail(cli, KF_ERR_CANCELLED);
  TRY(result_of(cli, kf_stats_load(cli->ctx, operands->items[i], &part)));
  kf_status status = kf_stats_merge(cli->ctx, sum, part);
  kf_stats_free(part);
  return status == KF_OK ? EXIT_OK : fail_in(cli, status, operands->items[i]);
}

static int run_merge(cli_run *cli) {
  const cli_list *operands = &cli->args.operands;
  kf_stats *sum = NULL;
  TRY(refuse_twice(cli));
  TRY(check_safetensors(cli, cli->args.output, "statistics"));
  TRY(load_stats(cli, operands->items[0], &sum));
  for (size_t i = 1; i < operands->n; i++) TRY(add(cli, sum, i));
  return save_stats(cli, sum, cli->args.output);
}

static const cli_group own_options = {"Options", OPTIONS({STATS_OUTPUT}, {ANY_ENCODER})};

const cli_command merge_command = {
    .name = "merge",
    .operands = "STATS...",
    .summary = "add up the statistics of several parts",
    .details = "The result has the same bytes as 'koofu stats' over all rows at once, whatever the "
               "order of the parts.\n\n"
               "Classes are matched by name if the files have names (the result has all of them), "
               "otherwise by number. Dimension, normalisation and unit must agree. No file may be "
               "given twice; whether two files hold different rows is not checked.",
    .groups = GROUPS(&own_options),
    .examples = EXAMPLES(
        {"Two machines, one result", "koofu merge a.safetensors b.safetensors -o all.safetensors"}),
    .run = run_merge,
};
