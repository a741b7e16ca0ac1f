/* owned.c - what a run loads or makes is freed when it ends. */
#include "cli.h"

#include <stdarg.h>
#include <stdlib.h>

struct cli_owned {
  void *object;
  void (*release)(void *object);
};

/* 0: out of memory, and the object has been freed. */
static int keep(cli_run *cli, void *object, void (*release)(void *object)) {
  struct cli_owned *owned = realloc(cli->owned, (cli->n_owned + 1) * sizeof *owned);
  if (!owned) {
    release(object);
    return 0;
  }
  cli->owned = owned;
  owned[cli->n_owned++] = (struct cli_owned){object, release};
  return 1;
}

int own(cli_run *cli, void *object, void (*release)(void *object)) {
  return keep(cli, object, release) ? EXIT_OK : fail(cli, KF_ERR_MEM);
}

void *own_memory(cli_run *cli, size_t n, size_t size) {
  void *memory = calloc(n, size);
  return memory && keep(cli, memory, free) ? memory : NULL;
}

const char *own_format(cli_run *cli, const char *format, ...) {
  char *text;
  va_list list;
  va_start(list, format);
  int length = vasprintf(&text, format, list);
  va_end(list);
  return length >= 0 && keep(cli, text, free) ? text : NULL;
}

void free_owned(cli_run *cli) {
  for (size_t i = cli->n_owned; i-- > 0;) cli->owned[i].release(cli->owned[i].object);
  free(cli->owned);
}
