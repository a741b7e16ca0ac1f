/* given.c - which options were given, and refusal of those that do not go together. */
#include "cli.h"

#include <stdarg.h>
#include <string.h>

static int is_given(const cli_args *args, const cli_option *o) {
  const void *at = (const char *)args + o->at;
  const cli_numbers *numbers = at;
  switch (o->kind) {
  case OPTION_FLAG:
  case OPTION_COUNT:
  case OPTION_CHOICE: return *(const int *)at != 0;
  case OPTION_TEXT: return *(const char *const *)at != NULL;
  case OPTION_LIST: return ((const cli_list *)at)->n > 0;
  case OPTION_NUMBER: return ((const cli_number *)at)->given;
  case OPTION_NUMBERS: return numbers->n > 0 || numbers->automatic;
  case OPTION_REAL: return ((const cli_real *)at)->given;
  }
  return 0;
}

const cli_option *given(const cli_run *cli, const char *names) {
  for (size_t length; *names; names += length + (names[length] == ' ')) {
    length = strcspn(names, " ");
    const cli_option *o = find_option(cli->command, names, length);
    if (o && is_given(&cli->args, o)) return o;
  }
  return NULL;
}

/* "-k cannot be used with ..." */
static int fail_option(cli_run *cli, const char *names, const char *verb, const char *format,
                       va_list list) {
  const cli_option *o = given(cli, names);
  char text[5120];
  if (!o) return EXIT_OK;
  vsnprintf(text, sizeof text, format, list);
  return fail_usage(cli, "%s %s %s", show_option(o).text, verb, text);
}

int refuse(cli_run *cli, const char *names, const char *format, ...) {
  va_list list;
  va_start(list, format);
  int result = fail_option(cli, names, "cannot be used with", format, list);
  va_end(list);
  return result;
}

int need(cli_run *cli, const char *names, const char *format, ...) {
  va_list list;
  va_start(list, format);
  int result = fail_option(cli, names, "needs", format, list);
  va_end(list);
  return result;
}
