/* sweep.h - the tables of 'koofu sweep', as text, CSV or JSON. */
#ifndef CLI_SWEEP_H
#define CLI_SWEEP_H

#include "sink.h"

extern const char *const table_formats[]; /* --format */
extern const char *const sweep_metrics[]; /* kf_metric, from 1, and both */
extern const char *const sweep_centres[]; /* kf_centre, from 1, and all */

typedef void (*table_fn)(const void *result, sink *out);
/* Refuses an -o that write_table cannot write. */
int check_table(cli_run *cli);
/* Writes a result to -o by its ending, --format or --json, and says how many `one` or `many` it
 * has. print: as text, CSV and JSON. */
int write_table(cli_run *cli, const void *result, const table_fn print[3], uint64_t n,
                const char *one, const char *many);

/* A sweep and what was asked for. */
typedef struct sweep_table {
  const kf_sweep *sweep;
  const uint32_t *dims; /* [n_dims] columns */
  size_t n_dims;
  const cli_list *sets; /* the files of class sets, or none */
  int leave_one_out;
} sweep_table;
extern const table_fn sweep_form[3]; /* of a sweep_table */

int sweep_shots(cli_run *cli); /* koofu sweep --shots */

#endif
