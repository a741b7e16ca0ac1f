/* cmd_stats.c - koofu stats: exact moments of a data set. */
#include "cli.h"
#include "commands.h"

static int run(cli_run *cli) {
  const char *path = cli->args.output;
  int result = check_output(cli, path);
  if (result != EXIT_OK) return result;
  kf_stats *stats;
  result = data_stats(cli, NULL, &stats);
  if (result != EXIT_OK) return result;
  result = save_stats(cli, stats, path);
  kf_stats_free(stats);
  return result;
}

static const cli_group own_options = {
    "Options",
    (const cli_option[]){{"output", 'o', OPTION_TEXT, offsetof(cli_args, output), OPTION_REQUIRED,
                          "S.safetensors", "the statistics file to write", 0, 0, NULL},
                         {0}}};

const cli_command stats_command = {
    .name = "stats",
    .operands = "DATA...",
    .min_operands = 1,
    .max_operands = ANY_NUMBER,
    .missing = "the data to take statistics of is",
    .summary = "take the exact statistics of a data set",
    .details =
        "Counts, class sums and second moments, as integers. They are all that 'koofu fit' needs "
        "to know of the data, so that a fit with another lambda takes seconds, whatever the number "
        "of rows.\n\n"
        "The bytes of the file do not depend on the number of threads, the instruction set, or the "
        "order and number of data files. Statistics of parts can be added with 'koofu merge'. "
        "Memory does not depend on the number of rows.\n\n"
        "Rows are scaled to unit length first. With --no-normalize they are taken as they are, in "
        "units of 2^-E; a first pass finds the finest unit that fits. Statistics that are to be "
        "merged must have the same unit: give it with --exponent then.",
    .groups = (const cli_group *const[]){&own_options, &stats_options, &label_options, &row_options,
                                         &strict_options, &only_options, NULL},
    .examples = (const cli_example[]){{"Statistics of a native data set",
                                       "koofu stats train.safetensors -o s.safetensors"},
                                      {"Of a folder of shards with one label file for all rows",
                                       "koofu stats shards/ --labels labels.npy -o s.safetensors"},
                                      {NULL, NULL}},
    .run = run,
};
