/* owned.c - what a run loads or makes belongs to it, and is freed when it ends. */
#include "owned.h"

#include <stdlib.h>

struct cli_owned {
  void *object;
  void (*release)(void *object);
};

int own(cli_run *cli, void *object, void (*release)(void *object)) {
  struct cli_owned *owned = realloc(cli->owned, (cli->n_owned + 1) * sizeof *owned);
  if (!owned) {
    release(object);
    fail(cli, KF_ERR_MEM);
    return EXIT_INTERNAL;
  }
  cli->owned = owned;
  owned[cli->n_owned++] = (struct cli_owned){object, release};
  return EXIT_OK;
}

void *own_memory(cli_run *cli, size_t n, size_t size) {
  void *memory = calloc(n, size);
  return memory && own(cli, memory, free) == EXIT_OK ? memory : NULL;
}

void free_owned(cli_run *cli) {
  for (size_t i = cli->n_owned; i-- > 0;) cli->owned[i].release(cli->owned[i].object);
  free(cli->owned);
}
