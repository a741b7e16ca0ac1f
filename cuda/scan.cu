/* scan.cu - guesses, the first pass, and its survivors sorted by query. */
#include "search.cuh"
#include "table.h"

#include <float.h>
#include <math.h>
#include <new>

/* --- what both passes need -------------------------------------------------------------------- */

__global__ void gather_bytes(const uint4 *from, const uint32_t *chosen, uint32_t n, uint32_t units,
                             uint4 *to) {
  uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < (uint64_t)n * units) to[i] = from[(uint64_t)chosen[i / units] * units + i % units];
}

/* Gathers the bytes of the chosen queries. */
static kf_dev_status chosen_bytes(kf_dev_queries *q, const int8_t **out) {
  *out = q->all ? q->bytes : q->picked;
  if (q->all || q->gathered) return KF_DEV_OK;
  uint32_t units = q->padded / 16;
  uint64_t n = (uint64_t)q->n_chosen * units;
  gather_bytes<<<(unsigned)((n + 255) / 256), 256, 0, q->dev->stream>>>(
      (const uint4 *)q->bytes, q->chosen, q->n_chosen, units, (uint4 *)q->picked);
  KF_CUDA(q->dev, cudaGetLastError(), "choosing queries");
  q->gathered = true;
  return KF_DEV_OK;
}

static kf_dev_status run(kf_dev *dev, kf_pass *pass, bool maxima) {
  return kf_wgmma_takes(dev, pass->padded) ? kf_wgmma_pass(dev, pass, maxima)
                                           : kf_mma_pass(dev, pass, maxima);
}

/* --- guesses ---------------------------------------------------------------------------------- */

#define SHARE      20   /* samples one tile in this many, */
#define FEWEST     64u  /* but at least this many, if there are, */
#define MOST_TILES 1024 /* and at most this many */

/* The share of guesses that may be too high. Rescanning for a few queries costs little, while
 * survivors cost relatively more the shorter rows are. */
static double unlucky(uint32_t padded) { return padded > 64 && padded <= 128 ? 0.03 : 0.012; }

/* The least m such that, with probability at most `unlucky`, m or more of the first `position` rows
 * are in a sample of this share of all rows. */
static uint32_t sample_position(uint32_t position, double share, double unlucky) {
  if (share >= 1) return position + 1;
  double odds = share / (1 - share), term = exp(position * log1p(-share)), below = 0;
  if (term < 1e-250) /* nearly normal */
    return (uint32_t)(position * share + 2.3 * sqrt(position * share * (1 - share)) + 2);
  for (uint32_t m = 0; m <= position; m++) {
    below += term;
    if (1 - below <= unlucky) return m + 1;
    term *= odds * (position - m) / (m + 1);
  }
  return position + 1;
}

typedef struct guess_args {
  const int32_t *maxima; /* [n][parts] */
  const kf_tile_value *tiles;
  const uint32_t *chosen;
  kf_query_known *known;
  uint32_t n, parts, per_tile, stride, position;
  int proven;
  double bound_scale;
} guess_args;

/* Maps floats to integers in the same order. */
__device__ __forceinline__ uint32_t ordered(float x) {
  uint32_t bits = __float_as_uint(x);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ float from_ordered(uint32_t x) {
  return __uint_as_float(x & 0x80000000u ? x & 0x7fffffffu : ~x);
}

__device__ __forceinline__ float part_value(const guess_args &a, const kf_query_known &k,
                                            uint32_t part, int32_t most) {
  kf_tile_value t = a.tiles[part / a.per_tile * a.stride];
  if (!(t.scale > 0)) return -INFINITY;
  double value = (double)most * (double)k.factor * (double)t.scale - (double)t.high;
  if (a.proven) {
    if (t.empty > 0 && most <= 0) return -INFINITY; /* it may come from an empty place */
    value -= a.bound_scale * (k.by_length * (double)t.length + k.by_error * (double)t.error +
                              k.fixed + (double)t.fixed);
    value -= 0x1p-40 * fabs(value);
  }
  float out = __double2float_rd(value);
  return out == out ? out : -INFINITY;
}

#define FEW_POSITIONS 12u

/* The position-th largest of n values; a warp removes the largest again and again. */
__device__ __forceinline__ uint32_t take_largest(uint32_t *values, uint32_t n, uint32_t position,
                                                 uint32_t lane) {
  uint32_t found = 0;
  for (uint32_t taken = 0; taken < position && taken < n; taken++) {
    uint32_t most = 0, at = lane;
    for (uint32_t i = lane; i < n; i += 32)
      if (values[i] > most) {
        most = values[i];
        at = i;
      }
    found = __reduce_max_sync(~0u, most);
    uint32_t owners = __ballot_sync(~0u, most == found);
    if (lane == __ffs(owners) - 1 && at < n) values[at] = 0;
    __syncwarp();
  }
  return found;
}

/* The same bit by bit, rounded down, which is precise enough. */
__device__ __forceinline__ uint32_t find_largest(const uint32_t *values, uint32_t n, uint32_t position,
                                                 uint32_t lane) {
  uint32_t found = 0;
  for (int bit = 31; bit >= 8; bit--) {
    uint32_t trial = found | 1u << bit, reach = 0;
    for (uint32_t i = lane; i < n; i += 32) reach += values[i] >= trial;
    if (__reduce_add_sync(~0u, reach) >= position) found = trial;
  }
  return found;
}

/* A warp for each query: the position-th largest of its maxima. */
__global__ void __launch_bounds__(128) choose_least(const guess_args a) {
  extern __shared__ uint32_t values[]; /* [4][parts] */
  const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x & 31;
  const uint32_t i = blockIdx.x * 4 + warp;
  if (i >= a.n) return;
  uint32_t *mine = values + warp * a.parts;
  kf_query_known *k = &a.known[a.chosen[i]];
  const kf_query_known known = *k;
  for (uint32_t part = lane; part < a.parts; part += 32)
    mine[part] = ordered(part_value(a, known, part, a.maxima[(uint64_t)i * a.parts + part]));
  __syncwarp();
  uint32_t position = a.position + (a.proven && known.leave_out >= 0);
  uint32_t found = position <= FEW_POSITIONS ? take_largest(mine, a.parts, position, lane)
                                     : find_largest(mine, a.parts, position, lane);
  if (lane > 0) return;
  double least = (double)from_ordered(found);
  if (!(least > -INFINITY) || position > a.parts) least = -INFINITY; /* also if it is NaN */
  if (!a.proven)
    k->least = least;
  else if (least > k->least)
    k->least = least;
}

/* Plans a guess: which tiles are sampled, how many maxima of each are kept, and which of all maxima
 * to take. */
static void plan_guess(uint32_t n_tiles, uint32_t position, int proven, kf_pass *p, uint32_t *wanted) {
  double luck = unlucky(p->padded);
  uint32_t tiles = n_tiles / SHARE;
  if (tiles < FEWEST) tiles = n_tiles < FEWEST ? n_tiles : FEWEST;
  if (tiles > MOST_TILES) tiles = MOST_TILES;
  p->stride = n_tiles / tiles;
  p->n_tiles = n_tiles / p->stride < MOST_TILES ? n_tiles / p->stride : MOST_TILES;
  *wanted = proven ? position : sample_position(position, (double)p->n_tiles / n_tiles, luck);
  p->parts = *wanted * 4 > p->n_tiles ? 12 : 1;
  if (p->n_tiles * p->parts > KF_MOST_PARTS) p->n_tiles = KF_MOST_PARTS / p->parts;
  if (!proven) *wanted = sample_position(position, (double)p->n_tiles / n_tiles, luck);
}

kf_dev_status kf_cuda_guess_some(kf_dev_queries *q, const kf_dev_rows *rows, uint32_t position,
                                 int proven, uint32_t first, uint32_t n) {
  kf_dev *dev = q->dev;
  kf_pass p = {};
  uint32_t wanted;
  const int8_t *bytes;
  p.padded = q->padded;
  p.all_tiles = rows->used;
  plan_guess(rows->used, position, proven, &p, &wanted);
  guess_args a = {q->maxima, rows->tiles, q->chosen, q->known,      0, p.n_tiles * p.parts, p.parts,
                  p.stride,  wanted,      proven,    q->bound_scale};
  KF_CUDA_TRY(chosen_bytes(q, &bytes));
  p.rows = rows->bytes;
  p.maxima = q->maxima;
  size_t shared = 4 * a.parts * sizeof(uint32_t);
  KF_CUDA(dev, kf_cuda_widen(dev, choose_least), "guessing");
  uint32_t step = (uint32_t)(q->maxima_room / a.parts);
  for (uint32_t end = first + n; first < end; first += a.n) {
    a.n = end - first < step ? end - first : step;
    a.chosen = q->chosen + first;
    p.queries = bytes + (uint64_t)first * q->padded;
    p.n_queries = a.n;
    KF_CUDA_TRY(run(dev, &p, true));
    choose_least<<<(a.n + 3) / 4, 128, shared, dev->stream>>>(a);
    KF_CUDA(dev, cudaGetLastError(), "guessing");
  }
  return KF_DEV_OK;
}

kf_dev_status kf_cuda_guess(kf_dev_queries *q, const kf_dev_rows *rows, uint32_t position, int proven) {
  if (q->n_chosen == 0) return KF_DEV_OK;
  KF_CUDA(q->dev, cudaSetDevice(q->dev->number), "using");
  if (proven || q->guess_late) KF_CUDA_TRY(kf_cuda_catch_up(q));
  bool late = q->late < q->n; /* all are chosen then */
  q->guess_late = late;
  q->guessed = proven ? 0 : position;
  q->late_rows = rows;
  q->late_position = position;
  return kf_cuda_guess_some(q, rows, position, proven, 0, late ? q->late : q->n_chosen);
}

/* --- the first pass --------------------------------------------------------------------------- */

__global__ void set_bounds(const uint32_t *chosen, const kf_query_known *known, uint32_t n,
                           double bound_scale, kf_query_bound *out) {
  uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  out[i] = kf_bound_query(known[chosen[i]], bound_scale);
}

typedef struct group_args {
  uint2 *hits;
  const uint32_t *filled, *numbers, *chosen;
  const kf_query_known *known;
  uint32_t *count, *list;
  const uint32_t *start;
  uint64_t room;
  int64_t first;
} group_args;

/* The arguments for resolving coarse survivors. */
typedef struct coarse_args {
  const int4 *queries, *rows;
  const kf_query_bound *query_bounds;
  const kf_tile_bound *tile_bounds;
  uint16_t *masks;
  uint32_t units; /* of 16 columns */
} coarse_args;

/* Whether a place holds a row that its query may find. */
__device__ __forceinline__ bool takes_part(const group_args &a, uint32_t i, uint32_t place) {
  uint32_t number = a.numbers[place];
  return number != UINT32_MAX && a.first + (int64_t)number != a.known[a.chosen[i]].leave_out;
}

/* One CUDA block for each block of survivors: counts each query's, and marks false ones. */
__global__ void __launch_bounds__(256) count_hits(const group_args a) {
  uint32_t n = a.filled[blockIdx.x];
  uint2 *hits = a.hits + (uint64_t)blockIdx.x * KF_HIT_BLOCK;
  for (uint32_t i = threadIdx.x; i < n; i += blockDim.x) {
    uint2 hit = hits[i];
    if (hit.x == UINT32_MAX) continue; /* dropped before */
    if (takes_part(a, hit.x, hit.y))
      atomicAdd(a.count + hit.x, 1u);
    else
      hits[i].x = UINT32_MAX;
  }
}

/* The same for coarse survivors: checks each in turn and records in masks [] which of its twelve
 * rows are left. */
template <int THREADS> /* for each survivor: its units, rounded up to a power of two */
__global__ void __launch_bounds__(128) count_coarse(const group_args a, const coarse_args c) {
  const uint32_t n = a.filled[blockIdx.x], unit = threadIdx.x % THREADS, each = 128 / THREADS;
  const bool idle = unit >= c.units;
  const int4 none = make_int4(0, 0, 0, 0);
  const uint2 *hits = a.hits + (uint64_t)blockIdx.x * KF_HIT_BLOCK;
  for (uint32_t base = 0; base < n; base += each) {
    const uint32_t i = base + threadIdx.x / THREADS; /* threads side by side read a row */
    const uint2 hit = hits[i < n ? i : n - 1];
    const uint32_t first = kf_coarse_place(hit.y);
    const int32_t threshold = kf_threshold(c.query_bounds[hit.x], c.tile_bounds[hit.y >> 4]);
    const int4 query = idle ? none : c.queries[(uint64_t)hit.x * c.units + unit];
    int32_t sum[12];
#pragma unroll
    for (uint32_t j = 0; j < 12; j++) {
      const int4 *row = c.rows + (uint64_t)(first + (j >> 1) * 8 + (j & 1)) * c.units + unit;
      int4 r = idle ? none : __ldg(row);
      sum[j] = __dp4a(r.x, query.x, 0);
      sum[j] = __dp4a(r.y, query.y, sum[j]);
      sum[j] = __dp4a(r.z, query.z, sum[j]);
      sum[j] = __dp4a(r.w, query.w, sum[j]);
    }
    uint32_t mask = 0;
#pragma unroll
    for (uint32_t j = 0; j < 12; j++) {
      for (int step = THREADS / 2; step > 0; step /= 2)
        sum[j] += __shfl_xor_sync(~0u, sum[j], step);
      if (sum[j] >= threshold) mask |= 1u << j;
    }
    if (unit > 0 || i >= n) continue;
    for (uint32_t left = mask; left > 0; left &= left - 1) {
      uint32_t j = __ffs(left) - 1;
      if (!takes_part(a, hit.x, first + (j >> 1) * 8 + (j & 1))) mask &= ~(1u << j);
    }
    c.masks[(uint64_t)blockIdx.x * KF_HIT_BLOCK + i] = (uint16_t)mask;
    if (mask > 0) atomicAdd(a.count + hit.x, (uint32_t)__popc(mask));
  }
}

__global__ void __launch_bounds__(128) place_coarse(const group_args a, const coarse_args c) {
  uint32_t n = a.filled[blockIdx.x];
  const uint2 *hits = a.hits + (uint64_t)blockIdx.x * KF_HIT_BLOCK;
  for (uint32_t i = threadIdx.x; i < n; i += blockDim.x) {
    uint32_t mask = c.masks[(uint64_t)blockIdx.x * KF_HIT_BLOCK + i];
    if (mask == 0) continue;
    uint2 hit = hits[i];
    uint32_t first = kf_coarse_place(hit.y);
    uint64_t at = (uint64_t)a.start[hit.x] + atomicAdd(a.count + hit.x, (uint32_t)__popc(mask));
    for (; mask > 0; mask &= mask - 1, at++) {
      uint32_t j = __ffs(mask) - 1;
      if (at < a.room) a.list[at] = first + (j >> 1) * 8 + (j & 1);
    }
  }
}

/* One block: finds where each query's survivors begin, and resets the counts. */
__global__ void __launch_bounds__(1024)
    find_starts(uint32_t *count, uint32_t n, uint32_t *start, unsigned long long *kept) {
  unsigned long long before = 0; /* all earlier ones */
  for (uint32_t base = 0; base < n; base += KF_TAKEN) {
    const uint32_t first = base + threadIdx.x * KF_EACH;
    uint32_t mine[KF_EACH];
    unsigned long long sum = 0, all;
#pragma unroll
    for (uint32_t j = 0; j < KF_EACH; j++) sum += mine[j] = first + j < n ? count[first + j] : 0;
    unsigned long long at = before + kf_sum_before(sum, &all);
#pragma unroll
    for (uint32_t j = 0; j < KF_EACH; j++) {
      if (first + j >= n) continue;
      start[first + j] = (uint32_t)at;
      count[first + j] = 0;
      at += mine[j];
    }
    before += all;
  }
  if (threadIdx.x > 0) return;
  start[n] = (uint32_t)before;
  *kept = before;
}

/* numbers: the list holds the numbers of hits instead of the places of rows. */
__global__ void __launch_bounds__(256) place_hits(const group_args a, bool numbers) {
  const uint64_t first = (uint64_t)blockIdx.x * KF_HIT_BLOCK;
  uint32_t n = a.filled[blockIdx.x];
  for (uint32_t i = threadIdx.x; i < n; i += blockDim.x) {
    uint2 hit = a.hits[first + i];
    if (hit.x == UINT32_MAX) continue;
    uint64_t at = (uint64_t)a.start[hit.x] + atomicAdd(a.count + hit.x, 1u);
    if (at < a.room) a.list[at] = numbers ? (uint32_t)(first + i) : hit.y;
  }
}

static kf_dev_status group_hits(kf_dev_queries *q, const kf_dev_rows *rows, bool coarse,
                                bool numbers) {
  kf_dev *dev = q->dev;
  unsigned blocks = (unsigned)q->n_blocks;
  const int8_t *bytes;
  KF_CUDA_TRY(chosen_bytes(q, &bytes));
  group_args a = {q->hits,  q->filled, rows->numbers, q->chosen, q->known,
                  q->count, q->list,   q->start,      q->room,   rows->first};
  coarse_args c = {
      (const int4 *)bytes, (const int4 *)rows->bytes, q->bounds, rows->bounds, q->masks,
      q->padded / 16};
  KF_CUDA(dev, cudaMemsetAsync(q->count, 0, q->n_chosen * sizeof *q->count, dev->stream),
          "sorting survivors");
  if (!coarse)
    count_hits<<<blocks, 256, 0, dev->stream>>>(a);
  else if (c.units <= 2)
    count_coarse<2><<<blocks, 128, 0, dev->stream>>>(a, c);
  else if (c.units > 4)
    count_coarse<8><<<blocks, 128, 0, dev->stream>>>(a, c);
  else
    count_coarse<4><<<blocks, 128, 0, dev->stream>>>(a, c);
  find_starts<<<1, 1024, 0, dev->stream>>>(q->count, q->n_chosen, q->start, q->counters + KF_KEPT);
  if (!coarse)
    place_hits<<<blocks, 256, 0, dev->stream>>>(a, numbers);
  else
    place_coarse<<<blocks, 128, 0, dev->stream>>>(a, c);
  KF_CUDA(dev, cudaGetLastError(), "sorting survivors");
  return KF_DEV_OK;
}

__global__ void set_counters(unsigned long long *counters, unsigned long long next) {
  for (int i = 0; i < KF_N_COUNTERS; i++) counters[i] = i == KF_NEXT_BLOCK ? next : 0;
}

/* --- better guesses on the way ---------------------------------------------------------------- */

/* One tile in KF_EVERY is scanned first. Its survivors tell far better than the guess's few tiles
 * which key `position` rows reach, so fewer rows survive in the other tiles. Survivors of the first
 * scan that are now certainly too far are dropped. */

#define RAISE_TILES   2048u /* this pays from this many tiles on, */
#define RAISE_QUERIES 4096u /* and from this many queries on, */
#define RAISE_POSITION    256u  /* and up to this position */
#define RAISE_VALUES  512u  /* survivors of a query that are used */

typedef struct raise_args {
  const uint32_t *chosen, *start, *list;
  kf_query_known *known;
  const kf_tile_value *tiles;
  const int4 *bytes, *digits, *rows; /* [][units] */
  uint2 *hits; /* if these may be dropped; the list holds their numbers then */
  uint32_t n, units, wanted;
  uint64_t room;
  double bound_scale;
} raise_args;

/* The key of a survivor: an estimate, and an upper bound. */
struct raise_value {
  float about, upper;
};
__device__ __forceinline__ raise_value value_survivor(const raise_args &a, const kf_query_known &k,
                                                      const kf_tile_value &t, int32_t high,
                                                      int32_t low) {
  double v = ((double)high + (double)low / KF_DIGIT) * (double)k.factor * (double)t.scale;
  double margin = a.bound_scale * (k.fine_by_length * (double)t.length +
                                   k.fine_by_error * (double)t.error + k.fixed + (double)t.fixed);
  double about = v - (double)t.high, upper = v - (double)t.low + margin;
  raise_value out = {-INFINITY, INFINITY};
  if (t.scale > 0 && about == about) out.about = (float)about;
  if (t.scale > 0 && upper < FLT_MAX) out.upper = __double2float_ru(upper + 0x1p-40 * fabs(upper));
  return out;
}

/* One warp for each query: raises `least` to the estimated key of the wanted-th survivor. */
__global__ void __launch_bounds__(128) raise_least(const raise_args a) {
  __shared__ uint32_t values[4][RAISE_VALUES];
  __shared__ float uppers[4][RAISE_VALUES];
  const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x & 31, eighth = lane & 7;
  const uint32_t i = blockIdx.x * 4 + warp;
  if (i >= a.n) return;
  const uint32_t query = a.chosen[i], first = a.start[i];
  uint32_t n = a.start[i + 1] - first;
  if (n > RAISE_VALUES) n = RAISE_VALUES;
  if (n < a.wanted || first + n > a.room) return;
  const kf_query_known known = a.known[query];
  for (uint32_t s = lane / 8; s < (n + 3) / 4 * 4; s += 4) {
    uint32_t place = a.list[first + (s < n ? s : 0)];
    if (a.hits != NULL) place = a.hits[place].y;
    int32_t high = 0, low = 0;
    for (uint32_t u = eighth; u < a.units; u += 8) {
      int4 r = __ldg(a.rows + (uint64_t)place * a.units + u);
      int4 b = __ldg(a.bytes + (uint64_t)query * a.units + u);
      int4 c = __ldg(a.digits + (uint64_t)query * a.units + u);
      high = __dp4a(r.x, b.x, __dp4a(r.y, b.y, __dp4a(r.z, b.z, __dp4a(r.w, b.w, high))));
      low = __dp4a(r.x, c.x, __dp4a(r.y, c.y, __dp4a(r.z, c.z, __dp4a(r.w, c.w, low))));
    }
    for (int step = 4; step > 0; step /= 2) {
      high += __shfl_xor_sync(~0u, high, step);
      low += __shfl_xor_sync(~0u, low, step);
    }
    if (eighth > 0 || s >= n) continue;
    raise_value v = value_survivor(a, known, a.tiles[place / KF_TILE_ROWS], high, low);
    values[warp][s] = ordered(v.about);
    uppers[warp][s] = v.upper;
  }
  __syncwarp();
  uint32_t found = a.wanted <= FEW_POSITIONS ? take_largest(values[warp], n, a.wanted, lane)
                                         : find_largest(values[warp], n, a.wanted, lane);
  double least = (double)from_ordered(found);
  if (!(least > known.least)) return;
  if (lane == 0) a.known[query].least = least;
  for (uint32_t s = lane; a.hits != NULL && s < n; s += 32)
    if ((double)uppers[warp][s] < least) a.hits[a.list[first + s]].x = UINT32_MAX;
}

static kf_dev_status raise_guesses(kf_dev_queries *q, const kf_dev_rows *rows, bool coarse) {
  kf_dev *dev = q->dev;
  bool numbers = !coarse && q->n_blocks < UINT32_MAX / KF_HIT_BLOCK; /* hits can be numbered */
  KF_CUDA_TRY(group_hits(q, rows, coarse, numbers));
  raise_args a = {q->chosen,
                  q->start,
                  q->list,
                  q->known,
                  rows->tiles,
                  (const int4 *)q->bytes,
                  (const int4 *)q->digits,
                  (const int4 *)rows->bytes,
                  numbers ? q->hits : NULL,
                  q->n_chosen,
                  q->padded / 16,
                  sample_position(q->guessed, 1.0 / KF_EVERY, unlucky(q->padded)),
                  q->room,
                  q->bound_scale};
  raise_least<<<(a.n + 3) / 4, 128, 0, dev->stream>>>(a);
  KF_CUDA(dev, cudaGetLastError(), "guessing");
  return KF_DEV_OK;
}

/* --- a scan ----------------------------------------------------------------------------------- */

#define COARSE_QUERIES 256u /* from this many queries on short rows are scanned coarsely */

enum { ALL_TILES, SOME_TILES, OTHER_TILES };

/* Scans some tiles for chosen queries [first, first + n). number: which scan of the call this
 * is. */
static kf_dev_status scan_some(kf_dev_queries *q, const kf_dev_rows *rows, uint32_t first,
                               uint32_t n, int tiles, bool coarse, uint32_t number) {
  kf_dev *dev = q->dev;
  kf_pass p = {};
  KF_CUDA_TRY(chosen_bytes(q, &p.queries));
  p.queries += (uint64_t)first * q->padded;
  set_bounds<<<(n + 127) / 128, 128, 0, dev->stream>>>(q->chosen + first, q->known, n,
                                                       q->bound_scale, q->bounds + first);
  KF_CUDA(dev, cudaGetLastError(), "scanning");
  p.rows = rows->bytes;
  p.padded = q->padded;
  p.first_query = first;
  p.first_block = number * kf_pass_warps(dev);
  p.n_queries = n;
  p.all_tiles = p.n_tiles = rows->used;
  p.stride = tiles == SOME_TILES ? KF_EVERY : 1;
  p.others = tiles == OTHER_TILES;
  uint32_t some = (p.all_tiles + KF_EVERY - 1) / KF_EVERY;
  if (tiles != ALL_TILES) p.n_tiles = p.others ? p.all_tiles - some : some;
  p.query_bounds = q->bounds + first;
  p.tile_bounds = rows->bounds;
  p.hits = q->hits;
  p.filled = q->filled;
  p.n_blocks = (uint32_t)q->n_blocks;
  p.counters = q->counters;
  return coarse ? kf_wgmma_coarse(dev, &p) : run(dev, &p, false);
}

/* Queues all work of a scan on the device. */
static kf_dev_status start_scan(kf_dev_queries *q, const kf_dev_rows *rows, bool coarse) {
  kf_dev *dev = q->dev;
  uint32_t early = q->late < q->n ? q->late : 0; /* if some are late, all are chosen */
  uint32_t number = 0;
  bool raise = q->guessed > 0 && q->guessed <= RAISE_POSITION && rows->type != KF_DEV_NO_VALUES &&
               rows->used >= RAISE_TILES && q->n_chosen >= RAISE_QUERIES;
  int tiles = raise ? SOME_TILES : ALL_TILES;
  set_counters<<<1, 1, 0, dev->stream>>>(q->counters, (uint64_t)KF_SCANS * kf_pass_warps(dev));
  KF_CUDA(dev, cudaMemsetAsync(q->filled, 0, (q->n_blocks + 1) * sizeof *q->filled, dev->stream),
          "scanning");
  if (early > 0) {
    KF_CUDA_TRY(scan_some(q, rows, 0, early, tiles, coarse, number++));
    KF_CUDA_TRY(kf_cuda_catch_up(q));
  }
  KF_CUDA_TRY(scan_some(q, rows, early, q->n_chosen - early, tiles, coarse, number++));
  if (raise) {
    KF_CUDA_TRY(raise_guesses(q, rows, coarse));
    KF_CUDA_TRY(scan_some(q, rows, 0, q->n_chosen, OTHER_TILES, coarse, number));
  }
  return group_hits(q, rows, coarse, false);
}

kf_dev_status kf_cuda_scan(kf_dev_queries *q, const kf_dev_rows *rows, uint64_t *hits) {
  kf_dev *dev = q->dev;
  const char *what = "scanning";
  *hits = q->n_hits = 0;
  if (q->n_chosen == 0) return KF_DEV_OK;
  KF_CUDA(dev, cudaSetDevice(dev->number), "using");
  bool coarse = q->n_chosen >= COARSE_QUERIES && q->padded <= KF_COARSE_MOST &&
                kf_wgmma_takes(dev, q->padded);
  KF_CUDA_TRY(start_scan(q, rows, coarse));
  unsigned long long *answer = (unsigned long long *)dev->answer;
  KF_CUDA(dev,
          cudaMemcpyAsync(answer, q->counters, KF_N_COUNTERS * sizeof *answer,
                          cudaMemcpyDeviceToHost, dev->stream),
          what);
  KF_CUDA(dev, cudaStreamSynchronize(dev->stream), what);
  bool whole = answer[KF_NEXT_BLOCK] <= q->n_blocks;
  *hits = whole ? answer[KF_KEPT] : answer[KF_ALL_HITS] * (coarse ? 12 : 1);
  if (!whole || *hits > q->room)
    return kf_cuda_refuse(dev, KF_DEV_MORE, "there are more survivors than room for them");
  q->n_hits = *hits;
  return KF_DEV_OK;
}

/* --- survivors for the host ------------------------------------------------------------------- */

__global__ void name_hits(const uint32_t *start, const uint32_t *list, const uint32_t *numbers,
                          const uint32_t *chosen, uint32_t n, uint2 *out) {
  uint32_t i = blockIdx.x * blockDim.x / 32 + threadIdx.x / 32;
  if (i >= n) return;
  for (uint32_t at = start[i] + (threadIdx.x & 31); at < start[i + 1]; at += 32)
    out[at] = make_uint2(chosen[i], numbers[list[at]]);
}

#define PAIRS (1u << 16) /* copied to the host at a time */

kf_dev_status kf_cuda_survivors(kf_dev_queries *q, const kf_dev_rows *rows, uint32_t *query,
                                int64_t *row, uint64_t *n) {
  kf_dev *dev = q->dev;
  const char *what = "reading survivors";
  *n = q->n_hits;
  if (q->n_hits == 0) return KF_DEV_OK;
  KF_CUDA(dev, cudaSetDevice(dev->number), "using");
  name_hits<<<(q->n_chosen + 3) / 4, 128, 0, dev->stream>>>(q->start, q->list, rows->numbers,
                                                            q->chosen, q->n_chosen, q->hits);
  KF_CUDA(dev, cudaGetLastError(), what);
  uint2 *part = new (std::nothrow) uint2[PAIRS];
  if (part == NULL) return kf_cuda_refuse(dev, KF_DEV_FAILED, "out of memory");
  cudaError_t error = cudaSuccess;
  for (uint64_t at = 0; at < q->n_hits && error == cudaSuccess; at += PAIRS) {
    uint64_t m = q->n_hits - at < PAIRS ? q->n_hits - at : PAIRS;
    error =
        cudaMemcpyAsync(part, q->hits + at, m * sizeof *part, cudaMemcpyDeviceToHost, dev->stream);
    if (error == cudaSuccess) error = cudaStreamSynchronize(dev->stream);
    for (uint64_t i = 0; i < m && error == cudaSuccess; i++) {
      query[at + i] = part[i].x;
      row[at + i] = rows->first + (int64_t)part[i].y;
    }
  }
  delete[] part;
  KF_CUDA(dev, error, what);
  return KF_DEV_OK;
}
