/* koofu_comm.h - where the work is done: many processes or machines, devices.
 *
 * SPDX-License-Identifier: Apache-2.0
 *
 * A part of the manual; koofu.h has the rules.
 *
 *     1  Ranks: many processes, the same bytes
 *     2  Experimental: devices, instruction sets */
#ifndef KOOFU_COMM_H
#define KOOFU_COMM_H

#include "koofu.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------------------------------------
 * 1  Ranks: many processes, the same bytes (docs/clusters.md)
 * ------------------------------------------------------------------------------------------ */

/* How the ranks of a run communicate. koofu_mpi.h implements it with MPI; a caller may supply any
 * other transport, such as threads or sockets. The library itself has none.
 *
 * All ranks make the same calls with the same arguments, each on its own context with the
 * communicator, and see the same files. The rows are divided among the ranks and the results
 * combined, so every rank gets the result that a single process would get, bit for bit. Only rank
 * 0 must be able to write files; if all ranks can, each writes its own rows of a large file.
 *
 * Before they combine anything, ranks agree that none has failed. If one has, all fail with its
 * message, and from then on every collective call fails at once with that message. A rank that
 * fails outside of such calls, where others may be waiting for it, must call kf_agree before it
 * gives up.
 *
 * sum, gather and broadcast are called by all ranks in the same order, from the thread that uses
 * the context, and return 0, or non-zero if a rank could not be reached. No barrier is needed: a
 * gather to all ranks is one, and kf_agree uses it. */
typedef struct kf_comm {
  uint32_t rank, size; /* 0 <= rank < size */
  void *self;          /* passed to the functions */
  /* Adds n 128-bit integers over the ranks, in place; all ranks get the sums. Each is two words,
   * the lower 64 bits first, in two's complement. Sums wrap around. */
  int (*sum)(void *self, uint64_t *words, uint64_t n);
  /* Rank r contributes bytes [ends[r - 1], ends[r]) of an array (rank 0: from 0 on), which are at
   * `part`; rank `to` gets the whole array or, if `to` is KF_ALL_RANKS, every rank does. all: the
   * array; NULL on ranks that do not get it. `part` may already be in place in `all`. The ends are
   * the same on all ranks. */
  int (*gather)(void *self, const void *part, void *all, const uint64_t *ends, uint32_t to);
  /* Every rank gets the n bytes of rank `from`. */
  int (*broadcast)(void *self, void *bytes, uint64_t n, uint32_t from);

  /* The other two are called by single ranks, from the same thread, and must not block. Both may
   * be NULL: then other ranks learn of a failure only at their next step, and progress is this
   * rank's own, scaled. */

  /* This rank has failed and will report it in a gather. The others learn of it from `progress`
   * and stop their work to join that gather, so that no process needs to be killed: at once, or
   * within 5 seconds if they have rows before those of the failed rank and might find an earlier
   * fault. No new context can use the communicator afterwards. */
  void (*abort)(void *self);
  /* This rank has done `done` units of its share of stage number `stage`. On rank 0, *all is set to
   * what all ranks together are known to have done; on other ranks its value is unspecified.
   * Returns 0, or 1 + the lowest rank that is known to have called `abort`. */
  uint32_t (*progress)(void *self, uint64_t stage, uint64_t done, uint64_t *all);
  uint64_t reserved[2];
} kf_comm;
#define KF_ALL_RANKS UINT32_MAX
/* The most ranks that there can be. */
#define KF_MAX_RANKS 1048576u

/* Rank and number of ranks of a context: 0 and 1 without a communicator. */
KF_API uint32_t kf_ctx_rank(const kf_ctx *ctx);
KF_API uint32_t kf_ctx_ranks(const kf_ctx *ctx);
KF_API unsigned kf_ctx_threads(const kf_ctx *ctx); /* of all ranks together */
/* Waits for all ranks. Returns KF_OK if every rank passes KF_OK; otherwise all ranks fail with the
 * status and message of the lowest rank that has failed (the message names the rank if it is not
 * 0). message: what went wrong on this rank; NULL: the message of its last call. KF_ERR_INTERNAL
 * if ranks are at different steps, KF_ERR_ARG if they run different versions of koofu. Without a
 * communicator it returns `status`. */
KF_API kf_status kf_agree(kf_ctx *ctx, kf_status status, const char *message);

/* ---------------------------------------------------------------------------------------------
 * 2  Experimental: devices, instruction sets
 * ------------------------------------------------------------------------------------------ */
#ifdef KF_EXPERIMENTAL

typedef struct kf_device_info {
  const char *name;      /* as the vendor calls it */
  const char *driver;    /* version of the driver */
  uint32_t number;       /* from 0 */
  uint32_t processors;   /* streaming multiprocessors */
  uint64_t memory;       /* bytes */
  uint32_t major, minor; /* compute capability */
} kf_device_info;
typedef struct kf_device_list {
  const char *plugin;  /* its file; NULL: none was found */
  const char *build;   /* what it was built with; NULL: no plug-in */
  const char *missing; /* why there is no device, in one sentence; NULL if there is one */
  uint32_t n;
  const kf_device_info *devices; /* [n] */
} kf_device_list;
/* The devices that this context uses besides the CPU; n is 0 if there are none. They are opened by
 * this call or by the first that could use one. KF_ERR_IO, with the reason, if devices that
 * kf_ctx_options names are missing; KF_ERR_ARG if a name is invalid. Valid as long as the
 * context. */
KF_API kf_status kf_devices_find(kf_ctx *ctx, const kf_device_list **out);

/* Instruction sets, each including those before it, for kf_ctx_options.isa. All give the same
 * bits. */
typedef enum kf_isa {
  KF_ISA_AUTO = 0,   /* the best one this machine has */
  KF_ISA_PLAIN = 1,  /* plain C, the reference */
  KF_ISA_AVX2 = 2,   /* AVX2 with FMA and F16C */
  KF_ISA_AVX512 = 3, /* AVX-512 F, BW, DQ, VL and VNNI */
  KF_ISA_AMX = 4     /* the above and AMX tiles of int8, and of bf16 where there are any */
} kf_isa;

/* Whether this machine can run an instruction set (1 or 0). KF_ISA_AUTO: always 1. One that it
 * cannot run is KF_ERR_ARG in kf_ctx_new. */
KF_API int kf_isa_available(kf_isa isa);
/* "auto", "plain", "avx2", "avx512", "amx"; NULL for any other number. */
KF_API const char *kf_isa_name(kf_isa isa);
KF_API kf_isa kf_ctx_isa(const kf_ctx *ctx);

#endif

#ifdef __cplusplus
}
#endif

#endif
