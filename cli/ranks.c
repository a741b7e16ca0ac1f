/* ranks.c - the end of a run that is shared out among ranks.
 *
 * A rank may fail where the others do not: its file is missing, its memory is full. They are then at
 * work, or wait for it. So every rank, before it ends, says how it went (kf_agree); whoever waits
 * learns of the failure there. Rank 0 prints it, once: what it failed with itself, or what it learns. */
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
  /* Without a context this rank has failed before it had one, and the others may be waiting. If there is
   * no memory for that either, only its death can tell them: the launcher ends them all. */
  kf_ctx_options options = {.threads = 1, .comm = cli->comm};
  if (!cli->ctx && kf_ctx_new(&options, &cli->ctx) != KF_OK) abort();
  kf_status agreed =
      kf_agree(cli->ctx, status_of(exit_status), exit_status && *cli->said ? cli->said : NULL);
  return agreed != KF_OK && exit_status == EXIT_OK ? fail(cli, agreed) : exit_status;
}
