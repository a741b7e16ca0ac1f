/* label_files.h - the files of --labels. */
#ifndef CLI_LABEL_FILES_H
#define CLI_LABEL_FILES_H

#include "args.h"

typedef struct cli_strings {
  char **items;
  size_t n;
} cli_strings;
/* The given files, with patterns expanded. -1: out of memory. */
int expand_labels(const cli_list *given, cli_strings *out);
void strings_free(cli_strings *strings);

#endif
