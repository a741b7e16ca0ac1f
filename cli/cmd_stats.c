/* cmd_stats.c - koofu stats: computes the exact moments of a data set. */
#include "commands.h"

static int run_stats(cli_run *cli) {
  kf_data *data = NULL;
  kf_stats *stats = NULL;
  TRY(check_safetensors(cli, cli->args.output, "statistics"));
  TRY(data_stats(cli, &data, &stats));
  return save_stats(cli, stats, cli->args.output);
}

static const cli_group own_options = {"Options", OPTIONS({STATS_OUTPUT})};

const cli_command stats_command = {
    .name = "stats",
    .operands = "DATA...",
    .summary = "compute the exact statistics of a data set",
    .details = "Counts, class sums and second moments, as integers. They are all that 'koofu fit' "
               "needs to know about the data, so a fit with another lambda takes seconds, whatever "
               "the number of rows.\n\n"
               "The bytes of the file do not depend on the number of threads, the instruction set, "
               "or the order and number of data files. Statistics of parts can be added with "
               "'koofu merge'. Memory does not depend on the number of rows.\n\n"
               "Rows are scaled to unit length first. With --no-normalize they are not, and values "
               "are in units of 2^-E; a first pass finds the finest unit that fits. Statistics "
               "that are to be merged must have the same unit, given with --exponent.",
    .groups = GROUPS(&own_options, &stats_options, &label_options, &row_options, &strict_options,
                     &only_options),
    .examples = EXAMPLES(
        {"Statistics of a native data set", "koofu stats train.safetensors -o s.safetensors"},
        {"Of a folder of shards with one label file for all rows",
         "koofu stats shards/ --labels labels.npy -o s.safetensors"}),
    .run = run_stats,
    .shared = 1,
};
