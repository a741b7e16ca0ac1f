/* score.cu - scores survivors canonically and keeps the best rows of each query.
 *
 * A block takes one query. The query's second digit gives each survivor a tighter upper bound of
 * its key, loose only by the rounding of the row. The survivors with the largest bounds are scored
 * first. Of the others, those whose bound is below the last of the best rows so far are dropped,
 * and the rest are scored. The cost is reading rows at random places in memory. */
#include "search.cuh"
#include "table.h"

#include "canonical.cuh"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <float.h>
#include <math.h>

#define THREADS   ((uint32_t)blockDim.x)
#define GROUPS    (THREADS / 8)
#define MOST      512 /* threads of a block */
#define REGISTERS 80
#define AHEAD     8 /* numbers of each of two rows that a thread reads before using the first */

__device__ __forceinline__ double wide(float x) { return (double)x; }
__device__ __forceinline__ double wide(__half x) { return (double)__half2float(x); }
__device__ __forceinline__ double wide(__nv_bfloat16 x) { return (double)__bfloat162float(x); }

typedef struct score_args {
  const float *x;
  const int8_t *bytes, *digits;
  kf_query_known *known;
  const uint32_t *chosen, *start, *list;
  const int8_t *row_bytes;
  const uint32_t *numbers;
  const kf_tile_value *tiles;
  const void *values;
  const double *norm2;
  kf_dev_scored *best_rows;
  uint32_t dim, padded, best;
  uint32_t batch;  /* survivors processed together */
  uint32_t sorted; /* a power of two: room for the best rows and a batch */
  kf_dev_metric metric;
  bool fine; /* bounds first */
  double bound_scale;
  int64_t first;
} score_args;

/* Shared memory of a block. */
struct view {
  double *x;             /* [dim] */
  kf_dev_scored *scored; /* [sorted] */
  float *upper;          /* [batch] */
  uint32_t *place;       /* [batch] */
  uint32_t *number;      /* [batch] of the row at that place */
  uint32_t *work;        /* [batch] numbers of rows to be scored */
  int32_t *bytes, *digits;
};

static size_t shared_bytes(const score_args &a) {
  return a.dim * sizeof(double) + a.sorted * sizeof(kf_dev_scored) + 4ull * a.batch * 4 +
         2ull * a.padded + 16;
}

__device__ __forceinline__ view view_of(const score_args &a, uint8_t *raw) {
  view v;
  v.scored = (kf_dev_scored *)raw;
  v.bytes = (int32_t *)(v.scored + a.sorted);
  v.digits = v.bytes + a.padded / 4;
  v.x = (double *)(v.digits + a.padded / 4);
  v.upper = (float *)(v.x + a.dim);
  v.place = (uint32_t *)(v.upper + a.batch);
  v.number = v.place + a.batch;
  v.work = v.number + a.batch;
  return v;
}

__device__ __forceinline__ bool before(const kf_dev_scored &x, const kf_dev_scored &y) {
  return x.score < y.score || (x.score == y.score && x.row < y.row);
}

/* --- upper bounds ----------------------------------------------------------------------------- */

/* Eight threads for each survivor. */
__device__ __forceinline__ void bound_rows(const score_args &a, const view &v,
                                           const kf_query_known &k, uint32_t n) {
  const int lane = threadIdx.x & 7, units = (int)a.padded / 16;
  for (uint32_t i = threadIdx.x / 8; i < n; i += GROUPS) {
    uint32_t place = v.place[i];
    const int4 *row = (const int4 *)(a.row_bytes + (uint64_t)place * a.padded);
    int32_t high = 0, low = 0;
#pragma unroll 6
    for (int u = lane; u < units; u += 8) {
      int4 r = __ldg(row + u);
      int4 b = ((const int4 *)v.bytes)[u], c = ((const int4 *)v.digits)[u];
      high = __dp4a(r.x, b.x, high);
      high = __dp4a(r.y, b.y, high);
      high = __dp4a(r.z, b.z, high);
      high = __dp4a(r.w, b.w, high);
      low = __dp4a(r.x, c.x, low);
      low = __dp4a(r.y, c.y, low);
      low = __dp4a(r.z, c.z, low);
      low = __dp4a(r.w, c.w, low);
    }
    unsigned mask = kf_eight();
    for (int step = 4; step > 0; step /= 2) {
      high += __shfl_xor_sync(mask, high, step);
      low += __shfl_xor_sync(mask, low, step);
    }
    if (lane > 0) continue;
    kf_tile_value t = a.tiles[place / KF_TILE_ROWS];
    double value = ((double)high + (double)low / KF_DIGIT) * (double)k.factor * (double)t.scale;
    double margin = a.bound_scale * (k.fine_by_length * (double)t.length +
                                     k.fine_by_error * (double)t.error + k.fixed + (double)t.fixed);
    double upper = value - (double)t.low + margin;
    v.upper[i] = t.scale > 0 && upper < FLT_MAX ? __double2float_ru(upper + 0x1p-40 * fabs(upper))
                                                : INFINITY; /* also if it is NaN */
  }
  __syncthreads();
}

/* A bound that at least `wanted` of n survivors reach, but not many more; -infinity: all reach
 * it. */
__device__ __forceinline__ float cut(const view &v, uint32_t n, uint32_t wanted) {
  if (n <= wanted + wanted / 2 + 8) return -INFINITY;
  float low = INFINITY, high = -INFINITY;
  __shared__ float lows[MOST / 32], highs[MOST / 32];
  for (uint32_t i = threadIdx.x; i < n; i += THREADS) {
    low = fminf(low, v.upper[i]);
    high = fmaxf(high, v.upper[i]);
  }
  for (int step = 16; step > 0; step /= 2) {
    low = fminf(low, __shfl_xor_sync(~0u, low, step));
    high = fmaxf(high, __shfl_xor_sync(~0u, high, step));
  }
  if ((threadIdx.x & 31) == 0) {
    lows[threadIdx.x / 32] = low;
    highs[threadIdx.x / 32] = high;
  }
  __syncthreads();
  for (uint32_t i = 0; i < THREADS / 32; i++) {
    low = fminf(low, lows[i]);
    high = fmaxf(high, highs[i]);
  }
  float found = low;
  for (int trial = 0; trial < 16 && high < INFINITY; trial++) {
    float middle = low + (high - low) / 2;
    int reach = 0;
    for (uint32_t i = threadIdx.x; i - threadIdx.x < n; i += THREADS)
      reach += __syncthreads_count(i < n && v.upper[i] >= middle);
    if (reach < (int)wanted) {
      high = middle;
      continue;
    }
    found = low = middle;
    if (reach <= (int)(wanted + wanted / 4 + 4)) break;
  }
  __syncthreads();
  return found;
}

/* --- scores ----------------------------------------------------------------------------------- */

/* The canonical sums of two rows, by eight threads. Zeros after the last number change nothing. */
template <class T, bool EUCLIDEAN>
__device__ __forceinline__ void canonical(const score_args &a, const double *x, const T *row0,
                                          const T *row1, double *sum0, double *sum1) {
  double s0 = 0, s1 = 0;
  for (uint32_t first = threadIdx.x & 7; first < a.dim; first += 8 * AHEAD) {
    T y0[AHEAD], y1[AHEAD];
#pragma unroll
    for (int j = 0; j < AHEAD; j++) {
      uint32_t i = first + 8 * j;
      y0[j] = i < a.dim ? row0[i] : T(0.0f);
      y1[j] = i < a.dim ? row1[i] : T(0.0f);
    }
#pragma unroll
    for (int j = 0; j < AHEAD; j++) {
      uint32_t i = first + 8 * j;
      double q = i < a.dim ? x[i] : 0, r0 = wide(y0[j]), r1 = wide(y1[j]);
      if (EUCLIDEAN) {
        r0 = q - r0;
        r1 = q - r1;
        s0 += r0 * r0;
        s1 += r1 * r1;
      } else {
        s0 += q * r0;
        s1 += q * r1;
      }
    }
  }
  *sum0 = kf_add_lanes(s0);
  *sum1 = kf_add_lanes(s1);
}

__device__ __forceinline__ void note(const score_args &a, double norm2, uint32_t number,
                                     double value, kf_dev_scored *to) {
  if (a.metric == KF_DEV_COSINE) {
    double lengths2 = norm2 * a.norm2[number];
    value = lengths2 > 0 ? value / sqrt(lengths2) : 0;
  }
  to->score = a.metric == KF_DEV_EUCLIDEAN ? value : -value;
  to->row = a.first + (int64_t)number;
}

/* Scores work [n] and appends them to scored [kept]. */
template <class T>
__device__ __forceinline__ void score_work(const score_args &a, const view &v, double norm2,
                                           uint32_t n, uint32_t kept) {
  const T *rows = (const T *)a.values;
  for (uint32_t i = threadIdx.x / 8; i < n; i += 2 * GROUPS) {
    uint32_t other = i + GROUPS < n ? i + GROUPS : i;
    uint32_t number0 = v.work[i], number1 = v.work[other];
    const T *row0 = rows + (uint64_t)number0 * a.dim, *row1 = rows + (uint64_t)number1 * a.dim;
    double sum0, sum1;
    if (a.metric == KF_DEV_EUCLIDEAN)
      canonical<T, true>(a, v.x, row0, row1, &sum0, &sum1);
    else
      canonical<T, false>(a, v.x, row0, row1, &sum0, &sum1);
    if ((threadIdx.x & 7) == 0) note(a, norm2, number0, sum0, &v.scored[kept + i]);
    if ((threadIdx.x & 7) == 1 && other != i)
      note(a, norm2, number1, sum1, &v.scored[kept + other]);
  }
  __syncthreads();
}

#define RANKED 2 /* rows whose position a thread finds by counting */

/* Sorts scored [n]: few rows by counting, many by compare-and-swap. */
__device__ __forceinline__ void sort_scored(const view &v, uint32_t n) {
  if (n <= RANKED * THREADS && n <= 256) {
    kf_dev_scored mine[RANKED];
    uint32_t position[RANKED];
#pragma unroll
    for (int r = 0; r < RANKED; r++) {
      uint32_t i = threadIdx.x + r * THREADS;
      if (i < n) mine[r] = v.scored[i];
      position[r] = 0;
    }
    for (uint32_t i = 0; i < n; i++) {
      kf_dev_scored other = v.scored[i];
#pragma unroll
      for (int r = 0; r < RANKED; r++)
        if (threadIdx.x + r * THREADS < n) position[r] += before(other, mine[r]);
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < RANKED; r++)
      if (threadIdx.x + r * THREADS < n) v.scored[position[r]] = mine[r];
    __syncthreads();
    return;
  }
  uint32_t size = 64;
  while (size < n) size *= 2;
  for (uint32_t i = n + threadIdx.x; i < size; i += THREADS) {
    v.scored[i].score = INFINITY;
    v.scored[i].row = INT64_MAX;
  }
  __syncthreads();
  for (uint32_t run = 2; run <= size; run *= 2)
    for (uint32_t apart = run / 2; apart > 0; apart /= 2) {
      for (uint32_t i = threadIdx.x; i < size / 2; i += THREADS) {
        uint32_t x = 2 * i - (i & (apart - 1)), y = x + apart;
        kf_dev_scored p = v.scored[x], q = v.scored[y];
        if (before(q, p) == ((x & run) == 0)) {
          v.scored[x] = q;
          v.scored[y] = p;
        }
      }
      __syncthreads();
    }
}

/* Scores the survivors whose upper bound is at least `from`, keeps the best rows and returns their
 * number. The bound of a scored survivor becomes NaN, so no row is scored twice. */
template <class T>
__device__ __forceinline__ uint32_t take_rows(const score_args &a, const view &v, double norm2,
                                              uint32_t n, double from, uint32_t kept) {
  __shared__ uint32_t n_work;
  if (threadIdx.x == 0) n_work = 0;
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < n; i += THREADS) {
    if (a.fine && !((double)v.upper[i] >= from)) continue;
    v.work[atomicAdd(&n_work, 1u)] = v.number[i];
    v.upper[i] = NAN;
  }
  __syncthreads();
  uint32_t work = n_work;
  if (work == 0) return kept;
  score_work<T>(a, v, norm2, work, kept);
  sort_scored(v, kept + work);
  return kept + work < a.best ? kept + work : a.best;
}

template <class T>
__global__ void __maxnreg__(REGISTERS) score_queries(const __grid_constant__ score_args a) {
  extern __shared__ __align__(16) uint8_t raw[];
  const view v = view_of(a, raw);
  const uint32_t query = a.chosen[blockIdx.x];
  const kf_query_known k = a.known[query];
  const uint32_t end = a.start[blockIdx.x + 1];
  kf_dev_scored *best_rows = a.best_rows + (uint64_t)query * a.best;
  uint32_t kept = k.n_best;
  for (uint32_t i = threadIdx.x; i < a.dim; i += THREADS)
    v.x[i] = (double)a.x[(uint64_t)query * a.dim + i];
  for (uint32_t i = threadIdx.x; a.fine && i < a.padded / 4; i += THREADS) {
    v.bytes[i] = ((const int32_t *)(a.bytes + (uint64_t)query * a.padded))[i];
    v.digits[i] = ((const int32_t *)(a.digits + (uint64_t)query * a.padded))[i];
  }
  for (uint32_t i = threadIdx.x; i < kept; i += THREADS) v.scored[i] = best_rows[i];
  for (uint32_t at = a.start[blockIdx.x]; at < end; at += a.batch) {
    uint32_t n = end - at < a.batch ? end - at : a.batch;
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < n; i += THREADS) {
      v.place[i] = a.list[at + i];
      v.number[i] = a.numbers[v.place[i]];
    }
    __syncthreads();
    double likely = -INFINITY, bar = -INFINITY;
    if (a.fine) bound_rows(a, v, k, n);
    if (kept == a.best) bar = kf_key_of(a.metric, k.base, v.scored[a.best - 1].score);
    if (a.fine && kept < a.best) likely = (double)cut(v, n, a.best - kept);
    kept = take_rows<T>(a, v, k.norm2, n, fmax(likely, bar), kept);
    if (likely == -INFINITY) continue;
    if (kept == a.best) bar = kf_key_of(a.metric, k.base, v.scored[a.best - 1].score);
    if (bar < likely) kept = take_rows<T>(a, v, k.norm2, n, bar, kept);
  }
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < kept; i += THREADS) best_rows[i] = v.scored[i];
  if (threadIdx.x == 0) a.known[query].n_best = kept;
}

template <class T> static kf_dev_status launch(kf_dev *dev, const score_args &a, uint32_t n) {
  /* Small blocks hide one another's start and end. */
  unsigned threads = a.best > 256 ? MOST : a.dim >= 128 ? 128 : 64;
  size_t bytes = shared_bytes(a);
  if (bytes > dev->shared)
    return kf_cuda_refuse(dev, KF_DEV_FAILED, "rows are too wide to be scored on this device");
  KF_CUDA(dev, kf_cuda_widen(dev, score_queries<T>), "scoring");
  score_queries<T><<<n, threads, bytes, dev->stream>>>(a);
  KF_CUDA(dev, cudaGetLastError(), "scoring");
  return KF_DEV_OK;
}

#define FINE_FROM 128u /* columns: shorter rows are read in one go */

static void size_sorted(score_args *a) {
  for (a->sorted = 512; a->sorted < a->best + a->batch;) a->sorted *= 2;
}

kf_dev_status kf_cuda_score(kf_dev_queries *q, const kf_dev_rows *rows) {
  kf_dev *dev = q->dev;
  if (q->n_hits == 0) return KF_DEV_OK;
  if (rows->type == KF_DEV_NO_VALUES)
    return kf_cuda_refuse(dev, KF_DEV_FAILED, "rows without values cannot be scored");
  KF_CUDA(dev, cudaSetDevice(dev->number), "using");
  score_args a = {q->x,           q->bytes,    q->digits,    q->known,      q->chosen,
                  q->start,       q->list,     rows->bytes,  rows->numbers, rows->tiles,
                  rows->values,   rows->norm2, q->best_rows, q->dim,        q->padded,
                  q->best,        512,         512,          q->metric,     q->dim >= FINE_FROM,
                  q->bound_scale, rows->first};
  if (q->best > 256) a.batch = 2048;
  if (q->best <= 32) a.batch = 256;
  size_sorted(&a);
  for (; shared_bytes(a) > dev->shared && a.batch > 64; size_sorted(&a)) a.batch /= 2;
  if (rows->type == KF_DEV_F32) return launch<float>(dev, a, q->n_chosen);
  if (rows->type == KF_DEV_F16) return launch<__half>(dev, a, q->n_chosen);
  return launch<__nv_bfloat16>(dev, a, q->n_chosen);
}
