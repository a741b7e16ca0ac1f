/* out_file.h - results to stdout, or to a file that appears whole or not at all (kf_output). */
#ifndef CLI_OUT_FILE_H
#define CLI_OUT_FILE_H

#include "cli.h"

#include <stdio.h>

/* Stays where it is while it is open. */
typedef struct out_file {
  FILE *file; /* to print to */
  kf_ctx *ctx;
  kf_output *output; /* NULL: stdout */
} out_file;

int out_file_open(cli_run *cli, out_file *out, const char *path); /* NULL or "-": stdout */
int out_file_commit(cli_run *cli, out_file *out);
void out_file_abort(out_file *out); /* does nothing after a commit */
/* Several files, all or none: `write` gets its argument and the number of the file. paths[i] may be
 * NULL: not wanted. */
int write_files(cli_run *cli, const char *const *paths, size_t n,
                void (*write)(const void *argument, size_t i, FILE *file), const void *argument);

#endif
