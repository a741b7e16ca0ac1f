/* label_files.c - the files of --labels, with patterns expanded. */
#include "label_files.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int add(cli_strings *strings, const char *text) {
  char **items = realloc(strings->items, (strings->n + 1) * sizeof *items);
  if (!items) return -1;
  strings->items = items;
  items[strings->n] = strdup(text);
  return items[strings->n] ? (strings->n++, 0) : -1;
}

/* A name that is a file or matches nothing is kept; opening it says what is wrong. Matches come in
 * byte order, since this program runs in the C locale. */
static int add_matches(cli_strings *strings, const char *given) {
  glob_t found;
  if (access(given, F_OK) == 0 || glob(given, 0, NULL, &found) != 0) return add(strings, given);
  int failed = 0;
  for (size_t i = 0; i < found.gl_pathc && !failed; i++) failed = add(strings, found.gl_pathv[i]);
  globfree(&found);
  return failed;
}

int expand_labels(const cli_list *given, cli_strings *out) {
  memset(out, 0, sizeof *out);
  for (size_t i = 0; i < given->n; i++) {
    if (add_matches(out, given->items[i])) {
      strings_free(out);
      return -1;
    }
  }
  return 0;
}

void strings_free(cli_strings *strings) {
  for (size_t i = 0; i < strings->n; i++) free(strings->items[i]);
  free(strings->items);
  memset(strings, 0, sizeof *strings);
}
