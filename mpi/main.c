/* main.c - koofu-mpi: the commands of koofu, run by all ranks of MPI together.
 *
 * Rank 0 prints; output of the other ranks is discarded, except for the message that a rank is
 * lost.
 *
 * In MPI_Init there is no watchdog yet, and a rank that dies there may leave the others waiting for
 * ever. So starting has a time limit. So has ending: where MPI_Finalize does not return (MPICH 4.0
 * with UCX over TCP), everything is written by then, and the process exits without it. */
#include "koofu_mpi.h"
#include "program.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STATUS_FAILED = 1, STATUS_USAGE = 2 };
enum { START_SECONDS = 120, FINISH_SECONDS = 10, OTHER_RANKS_SECONDS = 5 };

/* The value of a variable in seconds; 0: not set; negative: not a number from 2 on. */
static double seconds_in(const char *name) {
  const char *text = getenv(name);
  if (!text || !*text) return 0;
  char *end;
  double seconds = strtod(text, &end);
  return *end || !(seconds >= 2 && seconds <= 1e6) ? -1 : seconds;
}

/* --- starting and ending ---------------------------------------------------------------------- */

/* What to print, and the exit status, when a limit is reached. */
static char too_late[160];
static volatile sig_atomic_t end_status = STATUS_FAILED;

static void give_up(int number) {
  (void)number;
  ssize_t ignored = write(STDERR_FILENO, too_late, strlen(too_late));
  (void)ignored;
  _exit(end_status);
}

/* Whether this is rank 0 according to the launcher, before MPI knows. */
static int may_be_rank_0(void) {
  static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
                                      "SLURM_PROCID"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const char *rank = getenv(names[i]);
    if (rank) return strcmp(rank, "0") == 0;
  }
  return 1;
}

/* Ends this process unless the limit is lifted in time. Rank 0 comes first, with its message. */
static void set_limit(const char *what) {
  double given = seconds_in("KOOFU_START_TIMEOUT");
  unsigned seconds = given > 0 ? (unsigned)given : START_SECONDS;
  snprintf(too_late, sizeof too_late,
           "koofu: the ranks could not %s within %u seconds: one of them is gone or hangs\n", what,
           seconds);
  signal(SIGALRM, give_up);
  alarm(seconds + (may_be_rank_0() ? 0 : OTHER_RANKS_SECONDS));
}

static void lift_limit(void) { alarm(0); }

/* Discards output. Returns a descriptor of the former standard error. */
static int silence(void) {
  int errors = dup(STDERR_FILENO);
  if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr))
    _exit(STATUS_FAILED);
  return errors;
}

static int run_command(int argc, char **argv) {
  int rank;
  kf_mpi *mpi = NULL;
  kf_mpi_options options = {.timeout = seconds_in("KOOFU_RANK_TIMEOUT")};
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (options.timeout < 0 || seconds_in("KOOFU_START_TIMEOUT") < 0) {
    if (rank == 0)
      fprintf(stderr, "koofu: KOOFU_%s_TIMEOUT must be a number of seconds, 2 or more\n",
              options.timeout < 0 ? "RANK" : "START");
    return STATUS_USAGE;
  }
  if (rank > 0) options.errors = silence();
  kf_status status = kf_mpi_new(MPI_COMM_WORLD, &options, &mpi);
  lift_limit();
  if (status != KF_OK) {
    fprintf(stderr, "koofu: %s\n", kf_status_name(status));
    return STATUS_FAILED;
  }
  int result = cli_main(argc, argv, kf_mpi_comm(mpi));
  set_limit("end together");
  kf_mpi_free(mpi);
  return result;
}

/* All ranks have the same result. */
static void finish(int result) {
  snprintf(too_late, sizeof too_late, "%s",
           result
               ? ""
               : "koofu: all work is done, but MPI_Finalize does not return; exiting without it\n");
  end_status = result;
  signal(SIGALRM, give_up);
  alarm(FINISH_SECONDS);
  MPI_Finalize();
  lift_limit();
}

int main(int argc, char **argv) {
  int provided;
  set_limit("start together");
  if (MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS)
    return STATUS_FAILED;
  int result = run_command(argc, argv);
  finish(result);
  return result;
}
