/* outputs.h - where a command may write, and what it says afterwards. */
#ifndef CLI_OUTPUTS_H
#define CLI_OUTPUTS_H

#include "cli.h"

int is_stdout(const char *path); /* NULL or "-" */
int ends_with(const char *text, const char *end);

/* Refuses an output that cannot be written, or that would replace an input named on the command
 * line. */
int check_output(cli_run *cli, const char *path);
/* The same, unless it is standard output. */
int check_text_output(cli_run *cli, const char *path);
/* The same for a native file, which `what` names: "data set". */
int check_data_set(cli_run *cli, const char *path); /* .safetensors or .parquet */
int check_safetensors(cli_run *cli, const char *path, const char *what);
/* Refuses an output that is a file of the data, which may be given by a folder or pattern. */
int check_replaces_no_data(cli_run *cli, const kf_data *data, const char *path);
/* Refuses two outputs that are one file; b may be NULL. */
int check_outputs_differ(cli_run *cli, const char *a, const char *b);

/* "wrote PATH: ..." and how long it took, unless -q. */
void say_written(cli_run *cli, const char *path, const char *format, ...) PRINTF_LIKE(3, 4);
void say_data_written(cli_run *cli, const char *path);
int save_data(cli_run *cli, const kf_data *data, const char *path);    /* in --dtype, and says so */
int save_stats(cli_run *cli, const kf_stats *stats, const char *path); /* and says so */

#endif
