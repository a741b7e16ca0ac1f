/* main.c - koofu-mpi: the commands of koofu, shared out among the ranks of MPI.
 *
 * Rank 0 prints; what the others say goes nowhere, except that a rank is lost. */
#include "koofu_mpi.h"
#include "program.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { STATUS_FAILED = 1, STATUS_USAGE = 2 };

/* Seconds in KOOFU_RANK_TIMEOUT; 0: not set; below 0: not a number above 0. */
static double timeout_given(void) {
  const char *text = getenv("KOOFU_RANK_TIMEOUT");
  if (!text || !*text) return 0;
  char *end;
  double seconds = strtod(text, &end);
  return *end || !(seconds >= 2 && seconds <= 1e6) ? -1 : seconds;
}

/* Returns where errors can still be told of. */
static int be_silent(void) {
  int errors = dup(STDERR_FILENO);
  if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr))
    _exit(STATUS_FAILED);
  return errors;
}

static int run(int argc, char **argv) {
  int rank;
  kf_mpi *mpi = NULL;
  kf_mpi_options options = {.timeout = timeout_given()};
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (options.timeout < 0) {
    if (rank == 0)
      fputs("koofu: KOOFU_RANK_TIMEOUT must be a number of seconds, 2 or more\n", stderr);
    return STATUS_USAGE;
  }
  if (rank > 0) options.errors = be_silent();
  kf_status status = kf_mpi_new(MPI_COMM_WORLD, &options, &mpi);
  if (status != KF_OK) {
    fprintf(stderr, "koofu: %s\n", kf_status_name(status));
    return STATUS_FAILED;
  }
  int result = cli_main(argc, argv, kf_mpi_comm(mpi));
  kf_mpi_free(mpi);
  return result;
}

int main(int argc, char **argv) {
  int provided;
  if (MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS)
    return STATUS_FAILED;
  int result = run(argc, argv);
  MPI_Finalize();
  return result;
}
