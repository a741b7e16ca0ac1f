/* inputs.h - the files that a command reads: data sets, models, statistics. */
#ifndef CLI_INPUTS_H
#define CLI_INPUTS_H

#include "cli.h"

/* How a command treats labels. */
typedef enum label_use {
  LABELS_NEEDED, /* a row without a label is an error unless an option allows it */
  LABELS_WANTED, /* rows without a label, or with one that is not in --classes, are fine */
  LABELS_IGNORED
} label_use;

/* The groups of --groups for the rows of the operands; NULL if there are none. */
int read_groups(cli_run *cli, const kf_data *data, const uint32_t **out);

/* Opens operands `first` and up as one data set, which must not include the output (-o). */
int open_data(cli_run *cli, size_t first, label_use use, kf_data **out);
/* --test; *out stays NULL without it. The rows must have labels unless there is a truth. */
int open_test(cli_run *cli, const kf_truth *truth, kf_data **out);
/* The options on the rows and labels of data. */
#define DATA_OPTIONS                                                                               \
  "labels classes label-column label-tensor tensor column id-column order skip-bad only"

/* Whether a file can be read and is of this kind: "model", "gallery", "statistics", "data set". */
int is_kind(cli_run *cli, const char *path, const char *kind);
int load_model(cli_run *cli, const char *path, kf_model **out);
kf_metric metric_for(const cli_args *args, const kf_model *model); /* --metric, or the default */
/* Says why a file could not be loaded as a `wanted` ("model", "gallery"). If it is another kind of
 * file, says which kind and what to do. */
int fail_load(cli_run *cli, kf_status status, const char *path, const char *wanted);

/* Statistics of the operands as data. */
int data_stats(cli_run *cli, kf_data **rows, kf_stats **out);
/* Statistics from the operands: one statistics file (*rows stays NULL), or data. */
int read_stats(cli_run *cli, kf_data **rows, kf_stats **out);
/* The same without reading data: *out stays NULL for these. Refuses options that contradict the
 * kind of input. */
int take_stats(cli_run *cli, kf_stats **out);
int load_stats(cli_run *cli, const char *path, kf_stats **out);
kf_stats_options stats_options_of(const cli_args *args);
/* Says how many training rows were left out, if any. */
void say_rows_left_out(cli_run *cli, uint64_t rows, uint64_t unlabelled, uint64_t bad);

kf_synth_options world_of(const cli_args *args); /* world_options */

#endif
