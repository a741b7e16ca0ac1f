/* ranks.c - the end of a run on several ranks.
 *
 * A rank may fail alone, for lack of a file or memory, while the others work or wait for it. So
 * every rank reports its status before it ends (kf_agree), and those that wait learn of the
 * failure there. Rank 0 prints one error: its own, or the one it learns of. */
#include "cli.h"

#include <stdlib.h>

static kf_status status_of(int exit_status) {
  static const kf_status statuses[] = {[EXIT_OK] = KF_OK,
                                       [EXIT_INTERNAL] = KF_ERR_INTERNAL,
                                       [EXIT_USAGE] = KF_ERR_ARG,
                                       [EXIT_BAD_DATA] = KF_ERR_DATA,
                                       [EXIT_IO] = KF_ERR_IO};
  size_t i = (size_t)exit_status;
  return i < COUNT_OF(statuses) ? statuses[i] : KF_ERR_INTERNAL;
}

int settle(cli_run *cli, int exit_status) {
  if (!has_ranks(cli)) return exit_status;
  /* A rank that failed before it had a context makes one, since the others may be waiting.
   * Without memory even for that, it aborts, and the launcher ends them all. */
  kf_ctx_options options = {.threads = 1, .comm = cli->comm};
  if (!cli->ctx && kf_ctx_new(&options, &cli->ctx) != KF_OK) abort();
  kf_status agreed =
      kf_agree(cli->ctx, status_of(exit_status), exit_status && *cli->said ? cli->said : NULL);
  return agreed != KF_OK && exit_status == EXIT_OK ? fail(cli, agreed) : exit_status;
}
