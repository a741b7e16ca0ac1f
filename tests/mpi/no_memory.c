/* no_memory.c - a communicator for which one rank has no memory: all ranks learn of it, and none
 * waits for another.
 *
 * usage: mpi_no_memory RANK N: on that rank, the Nth array fails. Prints how often kf_mpi_new was
 * out of memory. */
#include <stddef.h>
#include <stdlib.h>

static int left = -1; /* arrays until one fails; -1: none does */

static void *counting_calloc(size_t n, size_t size) {
  if (left > 0 && --left == 0) return NULL;
  return calloc(n, size);
}

#define calloc counting_calloc
#include "koofu_mpi.c"
#undef calloc

int main(int argc, char **argv) {
  int provided, rank, told, n = 0;
  if (argc != 3 || MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided)) return 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == atoi(argv[1])) left = atoi(argv[2]);
  kf_mpi *m = NULL;
  told = kf_mpi_new(MPI_COMM_WORLD, &(kf_mpi_options){.timeout = 600}, &m) == KF_ERR_MEM;
  left = -1;
  kf_mpi_free(m);
  MPI_Reduce(&told, &n, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("%d\n", n);
  MPI_Finalize();
  return 0;
}
