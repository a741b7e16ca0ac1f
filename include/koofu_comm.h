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

/* How the ranks of a run reach one another. koofu_mpi.h makes one of MPI; a caller may supply any
 * other: threads, sockets. The library itself knows none.
 *
 * All ranks make the same calls with the same arguments, on contexts of their own that carry the
 * communicator, and see the same files. Work on rows is shared out and brought together again, so
 * every rank gets the result that one process alone would get, to the bit. Only rank 0 needs to be able
 * to write files; where all ranks are, each writes its own rows of a large one.
 *
 * Whatever ranks bring together, they first agree that none has failed. A rank that has failed fails
 * all of them with its message, and from then on every call that brings something together fails
 * with that message at once. A rank that fails elsewhere, while the others may be waiting for it,
 * calls kf_agree before it gives up.
 *
 * sum, gather and broadcast are called by all ranks in the same order, from the thread that uses the
 * context, and return 0, or another number if a rank could not be reached. No barrier is needed: a gather
 * to all ranks is one, which is how kf_agree waits for all of them. */
typedef struct kf_comm {
  uint32_t rank, size; /* 0 <= rank < size */
  void *self;          /* handed to the functions */
  /* Adds n integers of 128 bits over the ranks; all get the sums. Each is a pair: its lower 64 bits,
   * then its upper ones, in two's complement. Sums wrap around. */
  int (*sum)(void *self, uint64_t *pairs, uint64_t n);
  /* Rank r brings bytes [ends[r - 1], ends[r]) of an array (rank 0: from 0 on), which are at `part`;
   * rank `to` gets all of it or, if `to` is KF_ALL_RANKS, every rank does. all: the array; NULL on
   * ranks that do not get it. `part` may be the part's own place in it. The ends are the same on all
   * ranks. */
  int (*gather)(void *self, const void *part, void *all, const uint64_t *ends, uint32_t to);
  /* Every rank gets the n bytes of rank `from`. */
  int (*broadcast)(void *self, void *bytes, uint64_t n, uint32_t from);

  /* The other two are called by single ranks, from the same thread, and never wait. Both may be NULL:
   * others then learn of a failure at their next step only, and progress is this rank's own, scaled. */

  /* This rank has failed and is about to say so in a gather: `progress` tells the others soon. They then
   * come to that gather from whatever they are at, so that nothing needs to be killed: at once, or, if
   * they have rows before those of the failed rank and might find an earlier fault, within 5 seconds. No
   * new context can use the communicator after that. */
  void (*abort)(void *self);
  /* Tells the others that this rank has done `done` of its part of stage number `stage`; *all is set to
   * what all ranks, this one included, are known to have done of it: on rank 0, elsewhere it may be
   * anything. Returns 0, or 1 + the lowest rank that is known to have called `abort`. */
  uint32_t (*progress)(void *self, uint64_t stage, uint64_t done, uint64_t *all);
  uint64_t reserved[2];
} kf_comm;
#define KF_ALL_RANKS UINT32_MAX
/* There are at most this many. */
#define KF_MAX_RANKS 1048576u

/* Rank and number of ranks of a context: 0 and 1 without a communicator. */
KF_API uint32_t kf_ctx_rank(const kf_ctx *ctx);
KF_API uint32_t kf_ctx_ranks(const kf_ctx *ctx);
KF_API unsigned kf_ctx_threads(const kf_ctx *ctx); /* with a communicator: of all ranks together */
/* Waits for all ranks and agrees on how it goes: KF_OK if all come with KF_OK; otherwise all fail as
 * the lowest rank that has failed does, with its message, which names the rank if it is not 0.
 * message: of this rank's failure; NULL: that of its last call. KF_ERR_INTERNAL if ranks are at
 * different steps, KF_ERR_ARG if they have different versions of koofu. Without a communicator it
 * returns `status`. */
KF_API kf_status kf_agree(kf_ctx *ctx, kf_status status, const char *message);

/* ---------------------------------------------------------------------------------------------
 * 2  Experimental: devices, instruction sets
 * ------------------------------------------------------------------------------------------ */
#ifdef KF_EXPERIMENTAL

typedef struct kf_device_info {
  const char *name;      /* as its maker calls it */
  const char *driver;    /* its version */
  uint32_t number;       /* 1: the second */
  uint32_t processors;   /* that work at the same time */
  uint64_t memory;       /* bytes */
  uint32_t major, minor; /* compute capability */
} kf_device_info;
typedef struct kf_device_list {
  const char *plugin;  /* its file; NULL: none was found */
  const char *build;   /* what it was made with; NULL likewise */
  const char *missing; /* why there is no device, in one sentence; NULL: there is one */
  uint32_t n;
  const kf_device_info *devices; /* [n] */
} kf_device_list;
/* The devices that this context uses besides the CPU. They are looked for and opened by this call or by
 * the first that could use one. Without any, n is 0. KF_ERR_IO, with the reason, if devices were asked
 * for by name and are not there; KF_ERR_ARG if the name is none. Valid as long as the context. */
KF_API kf_status kf_devices_find(kf_ctx *ctx, const kf_device_list **out);

/* Instruction sets, each including those before it, for kf_ctx_options.isa. All give the same bits,
 * which is what tests of the library compare. */
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
