/* judging.h - truth and class sets, and tables of accuracies and errors. */
#ifndef CLI_JUDGING_H
#define CLI_JUDGING_H

#include "sink.h"

/* judge_options; what was not asked for stays NULL. set may be NULL for commands without --class-set. */
int load_judging(cli_run *cli, kf_truth **truth, kf_class_set **set);

/* NAME, NAME_low and NAME_high, as fractions; null unless known. */
void print_json_share(cli_json *j, const char *name, uint64_t hits, uint64_t n, int known);
/* NAME_top1 and NAME_top5 in the same way; name "" gives top1 and top5. */
void print_json_hits(cli_json *j, const char *name, uint64_t top1, uint64_t top5, uint64_t n,
                     int known);

void print_errors(const kf_model *model, const kf_analysis *analysis);
void print_json_errors(cli_json *j, const kf_model *model, const kf_analysis *analysis);
/* Writes --per-class, --confusions and --wrong if they are given. */
int write_tables(cli_run *cli, const kf_model *model, const kf_data *data,
                 const kf_analysis *analysis);

#endif
