/* koofu_mpi.h - a communicator of koofu (koofu_comm.h) made of MPI 3.
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
  /* Ranks tell one another once a second that they are still there. If one is not heard of for this
   * many seconds, the run is lost: a thread of its own says so in one line on `errors`, calls
   * MPI_Abort, and ends the process within two seconds, since it may be waiting within MPI. 0: 20;
   * below 0: nobody looks, as where MPI does not provide MPI_THREAD_MULTIPLE. */
  double timeout;
  int errors; /* a file descriptor; 0: standard error */
  uint64_t reserved[4];
} kf_mpi_options;

/* For all ranks of `parent`, together; it is duplicated. KF_ERR_ARG: MPI is not initialised, or the
 * options are wrong; KF_ERR_IO: MPI has failed; KF_ERR_MEM. */
KF_API kf_status kf_mpi_new(MPI_Comm parent, const kf_mpi_options *options, kf_mpi **out);
/* For all ranks, together, after the last context that carries it and before MPI_Finalize. */
KF_API void kf_mpi_free(kf_mpi *mpi);
KF_API const kf_comm *kf_mpi_comm(const kf_mpi *mpi); /* owned by mpi */

#ifdef __cplusplus
}
#endif

#endif
