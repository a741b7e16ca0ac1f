/* out_file.h - results to stdout, or to a file that appears whole or not at all. */
#ifndef CLI_OUT_FILE_H
#define CLI_OUT_FILE_H

#include "cli.h"

#include <stdio.h>

typedef struct out_file {
  FILE *file;
  const char *path; /* as given; NULL: stdout */
  char *target;     /* where it leads: the file it replaces may be at the end of a link */
  char *temporary;  /* its name until it is complete; NULL: it has none */
  int finished;     /* all of it is on the disk, under its temporary name */
} out_file;

int out_file_open(cli_run *cli, out_file *out, const char *path); /* NULL or "-": stdout */
/* Does everything that may fail for lack of space. */
int out_file_finish(cli_run *cli, out_file *out);
int out_file_commit(cli_run *cli, out_file *out); /* finishes it first */
/* Several files, all or none; files that were never opened are ignored. */
int out_files_commit(cli_run *cli, out_file *files, size_t n);
/* The same, written here: `write` gets its argument and the number of the file. paths[i] may be NULL:
 * not wanted. */
int write_files(cli_run *cli, const char *const *paths, size_t n,
                void (*write)(const void *argument, size_t i, FILE *file), const void *argument);
void out_file_abort(out_file *out); /* does nothing after a commit */
/* Closes it and says what failed; the reason is in errno. Returns the exit status. */
int out_file_fail(cli_run *cli, out_file *out, const char *what);

#endif
