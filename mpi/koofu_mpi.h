/* koofu_mpi.h - a communicator for koofu (koofu_comm.h) on MPI 3.
 *
 * SPDX-License-Identifier: Apache-2.0
 *
 *     int given;                  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &given);
 *     kf_mpi *mpi;                kf_mpi_new(MPI_COMM_WORLD, NULL, &mpi);
 *     kf_ctx_options options = {.comm = kf_mpi_comm(mpi)};
 *     kf_ctx *ctx;                kf_ctx_new(&options, &ctx);
 *     …                           the same calls on all ranks
 *                                 kf_ctx_free(ctx);
 *                                 kf_mpi_free(mpi);
 *                                 MPI_Finalize();
 *
 * Link with libkoofu-mpi, libkoofu and MPI. */
#ifndef KOOFU_MPI_H
#define KOOFU_MPI_H

#include "koofu_comm.h"

#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kf_mpi kf_mpi;

typedef struct kf_mpi_options {
  /* Ranks exchange heartbeats once a second. If one is silent for this many seconds, the run is
   * lost: a thread of the library prints one line to `errors`, calls MPI_Abort and, since that may
   * not return, ends the process within two seconds. 0: 20; negative: no heartbeats. Without
   * MPI_THREAD_MULTIPLE there are none either. */
  double timeout;
  int errors; /* a file descriptor; 0: standard error */
  uint64_t reserved[4];
} kf_mpi_options;

/* Called by all ranks of `parent` together; duplicates it. KF_ERR_ARG if MPI is not initialised or
 * an option is invalid, KF_ERR_IO if MPI fails. */
KF_API kf_status kf_mpi_new(MPI_Comm parent, const kf_mpi_options *options, kf_mpi **out);
/* Called by all ranks together, after freeing all contexts that use it and before MPI_Finalize. */
KF_API void kf_mpi_free(kf_mpi *mpi);
KF_API const kf_comm *kf_mpi_comm(const kf_mpi *mpi); /* owned by mpi */

#ifdef __cplusplus
}
#endif

#endif
