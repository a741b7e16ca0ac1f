/* search.cuh - rows and queries on a CUDA device, and the kernels' view of them. */
#ifndef KF_CUDA_SEARCH_CUH
#define KF_CUDA_SEARCH_CUH

#include "device.cuh"

#define KF_TILE_ROWS 192u
#define KF_PAD       32u
/* Survivors are collected in blocks of this many. A warp fills one at a time and takes the next
 * when fewer than KF_HIT_ROOM places are left, which a warp may fill in one tile. */
#define KF_HIT_BLOCK  8192u
#define KF_HIT_ROOM   4096u
#define KF_SCANS      3u  /* scans that may collect hits one after the other */
#define KF_PASS_WARPS 12u /* at most this many warps of a processor in a pass */

/* A tile's part of a threshold: (low - fixed), length, error, 1 / scale; the last is negative if
 * there are no rows. */
typedef float4 kf_tile_bound;
/* A query's part of a threshold: (least - fixed), by_length, by_error, 1 / factor; the last is
 * negative if there is no such query. */
typedef float4 kf_query_bound;

/* What estimates of keys need of a tile. */
typedef struct kf_tile_value {
  float scale; /* 0: any row may be near */
  float low, high;
  float length, error, fixed;
  uint32_t empty; /* places without a row */
  uint32_t unused;
} kf_tile_value;

struct kf_dev_rows {
  kf_dev *dev;
  kf_dev_metric metric;
  kf_dev_type type;
  uint32_t dim, padded;
  double bound_scale;
  int64_t first;
  uint64_t n, n_tiles;
  uint32_t used;      /* tiles up to the last that has a row, at least one */
  int8_t *bytes;      /* [n_tiles * KF_TILE_ROWS][padded] */
  uint32_t *numbers;  /* [n_tiles * KF_TILE_ROWS] */
  kf_dev_tile *given; /* [n_tiles], and as the kernels see them: */
  kf_tile_bound *bounds;
  kf_tile_value *tiles;
  void *values;  /* [n][dim] */
  double *norm2; /* [n], cosine only */
  kf_cuda_arena arena;
};

/* The state of a query. */
typedef struct kf_query_known {
  double norm2, base, length;
  double by_length, by_error, fixed;    /* of bytes */
  double fine_by_length, fine_by_error; /* of bytes with the second digit */
  double least;
  float factor;
  uint32_t n_best;
  int64_t leave_out;
} kf_query_known;

struct kf_dev_queries {
  kf_dev *dev;
  kf_dev_metric metric;
  uint32_t dim, padded;
  double centre_length, longest, least_factor, bound_scale, rounding_share;
  uint32_t most, best, n;
  uint64_t room; /* survivors */
  double *centre;
  float *x;                /* [most][dim] */
  int8_t *bytes, *digits;  /* [most][padded]: p is about factor (bytes + digits / KF_DIGIT) */
  int8_t *picked;          /* bytes of chosen queries */
  kf_query_known *known;   /* [most] */
  uint32_t *chosen, *next; /* [most] numbers of chosen queries, and room for others */
  uint32_t n_chosen;
  bool all;      /* the numbers are 0, 1, ... */
  bool gathered; /* `picked` is up to date */
  /* Queries [late, n) are still being copied; the guess that they still need. */
  uint32_t late;
  bool leaves_out, guess_late;
  uint32_t guessed; /* rows that should reach `least`, which is a guess; 0: it is not a guess */
  const kf_dev_rows *late_rows;
  uint32_t late_position;
  kf_query_bound *bounds; /* [most] of chosen queries, for one scan */
  int64_t *left_out;      /* upload */
  /* survivors */
  uint64_t n_blocks; /* and one more for what does not fit */
  uint2 *hits;       /* [n_blocks + 1][KF_HIT_BLOCK] place among the chosen, place of the row */
  uint16_t *masks;   /* one for each hit, if rows are short */
  uint32_t *filled;  /* [n_blocks + 1] */
  unsigned long long *counters;
  uint32_t *count, *start; /* [most + 1] survivors of a chosen query, and where they begin */
  uint32_t *list;          /* [room] places of rows */
  uint64_t n_hits;
  /* guessing */
  int32_t *maxima;
  uint64_t maxima_room;
  kf_dev_scored *best_rows; /* [most][best] */
  double *host_least;       /* [most] upload */
  kf_cuda_arena arena;
};

#define KF_DIGIT      254
#define KF_MOST_PARTS 4096u /* at most this many maxima of a query */

/* counters */
enum { KF_NEXT_BLOCK = 0, KF_ALL_HITS = 1, KF_LEFT = 2, KF_KEPT = 3, KF_N_COUNTERS = 8 };

/* One pass over tiles. */
typedef struct kf_pass {
  const int8_t *queries; /* [n_queries][padded] */
  const int8_t *rows;
  uint32_t padded;
  uint32_t first_query;         /* added to the numbers of queries in hits */
  uint32_t first_block;         /* of hits */
  uint32_t n_queries, n_groups; /* groups: strips of queries that a block takes together */
  uint32_t n_tiles,
      n_chunks; /* chunk c: tiles c, c + n_chunks, ...; an item: a chunk and a group */
  uint32_t all_tiles;
  uint32_t stride; /* tile i of the pass is tile i * stride of all tiles, */
  bool others;     /* or the i-th of those that a stride of KF_EVERY leaves out */
  uint32_t stages; /* of shared memory */
  const kf_query_bound *query_bounds;
  const kf_tile_bound *tile_bounds;
  uint2 *hits;
  uint32_t *filled;
  uint32_t n_blocks;
  unsigned long long *counters;
  int32_t *maxima; /* [n_queries][n_tiles * parts]: guess */
  uint32_t parts;  /* 1 or 12 */
} kf_pass;

#define KF_EVERY 4u
__device__ __forceinline__ uint32_t kf_tile_of(const kf_pass &p, uint32_t i) {
  return p.others ? i + i / (KF_EVERY - 1) + 1 : i * p.stride;
}

/* scan_wgmma.cu, scan_mma.cu: launch a pass, for a guess if `maxima`, otherwise for a scan. Each
 * warp needs a block of hits. */
bool kf_wgmma_takes(const kf_dev *dev, uint32_t padded);
kf_dev_status kf_wgmma_pass(kf_dev *dev, kf_pass *pass, bool maxima);
/* A scan of rows of up to KF_COARSE_MOST columns for many queries. Its survivors are coarse: twelve
 * rows, two in every eight, at least one of which reaches the threshold. In place of a row they
 * hold 16 * tile + 8 * half + 4 * quarter + pair. */
#define KF_COARSE_MOST 128u
kf_dev_status kf_wgmma_coarse(kf_dev *dev, kf_pass *pass);
__device__ __forceinline__ uint32_t
kf_coarse_place(uint32_t code) { /* of the first of the twelve */
  return (code >> 4) * KF_TILE_ROWS + (code >> 2 & 3) * (KF_TILE_ROWS / 4) + (code & 3) * 2;
}
kf_dev_status kf_mma_pass(kf_dev *dev, kf_pass *pass, bool maxima);
uint32_t kf_pass_warps(const kf_dev *dev); /* at most */

/* Makes the device wait for late queries and do for them what was asked for in the meantime. */
kf_dev_status kf_cuda_catch_up(kf_dev_queries *queries);
/* scan.cu: a guess for chosen queries [first, first + n). */
kf_dev_status kf_cuda_guess_some(kf_dev_queries *queries, const kf_dev_rows *rows, uint32_t position,
                                 int proven, uint32_t first, uint32_t n);

/* For a block of 1,024 threads that goes through an array, KF_EACH numbers for each thread at a
 * time. */
#define KF_EACH  4u
#define KF_TAKEN (1024u * KF_EACH)
/* The sum over the lanes of the warp up to and including this one. */
__device__ __forceinline__ unsigned long long kf_sum_up_to(unsigned long long x, uint32_t lane) {
  for (uint32_t step = 1; step < 32; step *= 2) {
    unsigned long long other = __shfl_up_sync(~0u, x, step);
    if (lane >= step) x += other;
  }
  return x;
}
/* The sum over the threads before this one; *all: over all threads. */
__device__ __forceinline__ unsigned long long kf_sum_before(unsigned long long mine,
                                                            unsigned long long *all) {
  __shared__ unsigned long long of_warp[32];
  const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x & 31;
  const unsigned long long up_to = kf_sum_up_to(mine, lane);
  if (lane == 31) of_warp[warp] = up_to;
  __syncthreads();
  const unsigned long long sum = of_warp[lane], sums = kf_sum_up_to(sum, lane);
  __syncthreads(); /* of_warp will be written again */
  *all = __shfl_sync(~0u, sums, 31);
  return __shfl_sync(~0u, sums - sum, warp) + up_to - mine;
}

/* The parts of a threshold. */
__host__ __device__ __forceinline__ kf_query_bound kf_bound_query(const kf_query_known &k,
                                                                  double bound_scale) {
  return make_float4((float)(k.least - bound_scale * k.fixed), (float)(bound_scale * k.by_length),
                     (float)(bound_scale * k.by_error), 1 / k.factor);
}
__host__ __device__ __forceinline__ kf_tile_bound kf_bound_tile(const kf_dev_tile &t,
                                                                double bound_scale) {
  if (!(t.scale > 0)) return make_float4(-INFINITY, 0, 0, 1);
  return make_float4((float)(t.low - bound_scale * t.fixed), t.length, t.error, 1 / t.scale);
}

/* The least dot product for which the key of a row of the tile can be high enough. Where a dot
 * product of 1 is worth less than 1e-30, underflow could spoil the bounds, so every row survives,
 * as with kf_value_of_one on the CPU. Above that, underflow costs less than the 2 subtracted
 * below. */
__device__ __forceinline__ int32_t kf_threshold(kf_query_bound q, kf_tile_bound t) {
  if (q.w < 0 || t.w < 0) return INT32_MAX; /* no such query, or no rows */
  float unit = q.w * t.w;
  if (!(unit < 1e30f)) return INT32_MIN;
  float length = q.y * t.y, error = q.z * t.z;
  float size = fabsf(q.x) + fabsf(t.x) + length + error;
  float floor = (((q.x + t.x) - length) - error) - 0x1p-20f * size; /* far more than rounding */
  floor *= unit;
  floor -= 0x1p-20f * fabsf(floor) + 2;
  return floor > -2e9f ? (floor < 2e9f ? __float2int_rd(floor) : INT32_MAX - 1)
                       : INT32_MIN; /* NaN: all */
}

#endif
