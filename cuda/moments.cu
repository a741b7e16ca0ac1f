/* moments.cu - exact moments on tensor cores (device_api.h, docs/numerics.md).
 *
 * A put is copied to one of KF_DEV_PUTS slots on one stream. On the other stream run, in turn:
 *
 * `quantise`, a block for 32 rows. Eight threads, one for each lane, compute a row's canonical
 * squared length. Then each thread takes one column of all 32 rows, turns it into integers, adds
 * these to the sums of their classes, and writes three digits X = 2^16 a + 2^8 b + c, with b and c
 * in -128 … 127 and |a| <= 64, as bytes: digits[row / 64][digit][column][row % 64]. The rows of a
 * column are adjacent, as mma.sync wants both operands.
 *
 * `multiply`, which adds the products of two panels of 64 columns, p <= q, over some of the rows.
 * The nine products of digits have five weights, and those of one weight share a 32-bit sum: at
 * most 2^15 a row (ac' + bb' + ca' <= 2^13 + 2^14 + 2^13, bc' + cb' <= 2^15), with at most 2^15
 * rows for a block. The block adds its 64 x 64 sums to 64-bit sums: |XX'| <= 2^44.
 *
 * `widen`, which adds these to 128-bit totals before they hold more than 2^18 rows: 2^62.
 *
 * Integer sums do not depend on their order, so atomic additions are exact. Lengths and rounding
 * match the CPU's: the square of an f32 is exact in f64, so a fused multiply-add rounds once, as
 * the CPU's sum does; square root, division and multiplication follow IEEE 754. */
#include "table.h"
#include "device.cuh"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>
#include <cstdlib>
#include <new>

namespace {

typedef unsigned long long u64;

const uint32_t EDGE = 64; /* columns of a panel */
const uint32_t STEP = 64; /* adjacent rows of digits */
const uint32_t DIGITS = 3;
const uint32_t WEIGHTS = 2 * DIGITS - 1;
const uint32_t ROWS = 32;                   /* of a block of `quantise` */
const uint32_t STAGES = 3;                  /* of the pipeline of `multiply` */
const uint32_t SIDE = DIGITS * EDGE * STEP; /* bytes of one panel in a stage */
const uint32_t STAGE = 2 * SIDE;
const uint32_t MOST_STEPS = 512; /* of a block of `multiply`: 2^15 rows */
const uint64_t WIDEN_ROWS = (uint64_t)1 << 18;
const uint64_t CHUNK = (uint64_t)1 << 19; /* words copied at once; even */

struct slot {
  void *rows;      /* [batch][dim] */
  int32_t *labels; /* [batch] */
  uint32_t *bad;   /* the first bad row; UINT32_MAX: none */
  cudaEvent_t copied, done;
};

} // namespace

struct kf_dev_moments {
  kf_dev *dev;
  kf_dev_moments_plan plan;
  double factor, limit;   /* for rows of any length */
  uint32_t columns;       /* dim, and zeros up to a multiple of EDGE */
  uint32_t panels, tiles; /* tiles: pairs of panels p <= q, by p */
  uint32_t blocks;        /* of `multiply` that run at the same time */
  cudaStream_t copying, working;
  slot slots[KF_DEV_PUTS];
  uint32_t *bad; /* [KF_DEV_PUTS], page-locked */
  uint64_t puts, waited;
  uint64_t pending; /* rows in `products` */
  int8_t *digits;
  u64 *products;      /* [tiles][EDGE][EDGE] */
  ulonglong2 *totals; /* the triangle: low and high words */
  u64 *sums;          /* [n_classes][dim] */
  u64 *counts;        /* [n_classes] */
};

namespace {

size_t type_size(kf_dev_type type) { return type == KF_DEV_F32 ? 4 : 2; }
uint64_t triangle(uint64_t dim) { return dim * (dim + 1) / 2; }
uint32_t round_up(uint32_t n, uint32_t to) { return (n + to - 1) / to * to; }

/* --- rows to digits --------------------------------------------------------------------------- */

__device__ float value_of(float x) { return x; }
__device__ float value_of(__half x) { return __half2float(x); }
__device__ float value_of(__nv_bfloat16 x) { return __bfloat162float(x); }

struct quantise_job {
  const void *rows;
  const int32_t *labels;
  uint32_t n, dim, columns, n_classes;
  bool normalized;
  double factor, limit;
  int8_t *digits;
  u64 *sums, *counts;
  uint32_t *bad;
};

/* The factor of each of the block's rows, and its class; negative: skip it. */
template <typename T>
__device__ void measure(const quantise_job &j, double *factors, int32_t *labels) {
  uint32_t at = threadIdx.x / 8, lane = threadIdx.x % 8;
  uint32_t r = blockIdx.x * ROWS + at;
  const T *row = (const T *)j.rows + (size_t)r * j.dim;
  double sum = 0;
  float largest = 0;
  for (uint32_t i = lane; r < j.n && i < j.dim; i += 8) {
    float x = value_of(row[i]);
    sum = __fma_rn((double)x, (double)x, sum);
    largest = fmaxf(largest, fabsf(x));
  }
  for (int step = 4; step > 0; step /= 2) {
    sum = __dadd_rn(sum, __shfl_xor_sync(~0u, sum, step));
    largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, step));
  }
  if (lane != 0) return;
  int32_t label = r < j.n ? j.labels[r] : -1;
  bool good = sum > 0 && sum <= 1.7976931348623157e308;
  if (label >= 0) good = good && (uint32_t)label < j.n_classes;
  if (label >= 0 && !j.normalized) good = good && (double)largest <= j.limit;
  if (r < j.n && !good) atomicMin(j.bad, r);
  if (!good) label = -1;
  if (label >= 0) atomicAdd(&j.counts[label], 1ull);
  labels[at] = label;
  factors[at] = j.normalized ? __ddiv_rn(4194304.0, __dsqrt_rn(sum)) : j.factor;
}

/* Puts the digits of a row into bytes `at` of a chunk. */
__device__ void put_digits(int32_t x, uint32_t at, uint32_t (&words)[DIGITS][4]) {
  int32_t c = (int32_t)(int8_t)x;
  x = (x - c) >> 8;
  int32_t b = (int32_t)(int8_t)x;
  int32_t a = (x - b) >> 8;
  uint32_t shift = 8 * (at % 4);
  words[0][at / 4] |= (uint32_t)(uint8_t)a << shift;
  words[1][at / 4] |= (uint32_t)(uint8_t)b << shift;
  words[2][at / 4] |= (uint32_t)(uint8_t)c << shift;
}

/* The sum of a class, kept as long as rows of one class follow each other, as they often do. */
struct class_sum {
  int32_t label;
  int64_t sum;
};

__device__ void end_class(const quantise_job &j, uint32_t column, const class_sum &own) {
  if (own.label >= 0 && column < j.dim)
    atomicAdd(&j.sums[(size_t)own.label * j.dim + column], (u64)own.sum);
}

/* One column of 16 rows, from `first` on. */
template <typename T>
__device__ void quantise_chunk(const quantise_job &j, uint32_t column, uint32_t first,
                               const double *factors, const int32_t *labels, class_sum &own) {
  const T *rows = (const T *)j.rows;
  float values[16];
#pragma unroll
  for (uint32_t r = 0; r < 16; r++) { /* rows past the end have no label */
    size_t row = min(first + r, j.n - 1);
    values[r] = column < j.dim ? value_of(rows[row * j.dim + column]) : 0.0f;
  }
  uint32_t words[DIGITS][4] = {};
#pragma unroll
  for (uint32_t r = 0; r < 16; r++) {
    if (labels[r] < 0) continue;
    int32_t fixed = __double2int_rn(__dmul_rn((double)values[r], factors[r]));
    if (labels[r] != own.label) {
      end_class(j, column, own);
      own = {labels[r], 0};
    }
    own.sum += fixed;
    put_digits(fixed, r, words);
  }
#pragma unroll
  for (uint32_t d = 0; d < DIGITS; d++) {
    size_t at = (((size_t)(first / STEP) * DIGITS + d) * j.columns + column) * STEP + first % STEP;
    *(uint4 *)(j.digits + at) = make_uint4(words[d][0], words[d][1], words[d][2], words[d][3]);
  }
}

template <typename T>
__global__ void __launch_bounds__(8 * ROWS, 3) quantise(const quantise_job j) {
  __shared__ double factors[ROWS];
  __shared__ int32_t labels[ROWS];
  measure<T>(j, factors, labels);
  __syncthreads();
  for (uint32_t column = threadIdx.x; column < j.columns; column += blockDim.x) {
    class_sum own = {-1, 0};
#pragma unroll 1
    for (uint32_t r = 0; r < ROWS; r += 16)
      quantise_chunk<T>(j, column, blockIdx.x * ROWS + r, factors + r, labels + r, own);
    end_class(j, column, own);
  }
}

/* --- products --------------------------------------------------------------------------------- */

/* A column's bytes in a stage are four chunks of 16, permuted so that the eight rows that ldmatrix
 * reads at once are in different banks. */
__device__ uint32_t chunk_at(uint32_t column, uint32_t chunk) {
  return column * STEP + (chunk ^ (column / 2 & 3)) * 16;
}

__device__ void copy16(uint32_t to, const void *from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

/* What a thread copies of a step: one chunk of columns t / 4 and t / 4 + 32, of each digit and
 * side. */
struct share {
  const int8_t *left, *right; /* in the digits of the next step */
  size_t digit;               /* bytes from one digit to the next */
  uint32_t to;                /* in a stage */
};

/* Starts to copy the next step of both panels. */
__device__ void fetch(uint32_t stage, share &from) {
#pragma unroll
  for (uint32_t d = 0; d < DIGITS; d++)
#pragma unroll
    for (uint32_t half = 0; half < 2; half++) {
      uint32_t to = stage + from.to + d * EDGE * STEP + half * 32 * STEP;
      copy16(to, from.left + d * from.digit + half * 32 * STEP);
      copy16(to + SIDE, from.right + d * from.digit + half * 32 * STEP);
    }
  from.left += DIGITS * from.digit;
  from.right += DIGITS * from.digit;
}

__device__ void load_matrices(uint32_t from, uint32_t (&to)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(from)
               : "memory");
}

__device__ void multiply_add(int32_t (&sums)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* 32 x 32 sums of a warp, by weight; 0 is the highest. */
typedef int32_t warp_sums[WEIGHTS][2][4][4];

/* One stage: 64 rows, 32 at a time. left, right: where the warp's columns begin in the stage, for
 * this thread. */
__device__ void multiply_stage(uint32_t stage, uint32_t left, uint32_t right, warp_sums &sums) {
#pragma unroll
  for (uint32_t half = 0; half < 2; half++) {
    uint32_t a[DIGITS][2][4];
#pragma unroll
    for (uint32_t d = 0; d < DIGITS; d++)
#pragma unroll
      for (uint32_t m = 0; m < 2; m++)
        load_matrices(stage + (left ^ half * 32) + (d * EDGE + 16 * m) * STEP, a[d][m]);
#pragma unroll
    for (uint32_t d = 0; d < DIGITS; d++) {
      uint32_t b[2][4];
#pragma unroll
      for (uint32_t n = 0; n < 2; n++)
        load_matrices(stage + SIDE + (right ^ half * 32) + (d * EDGE + 16 * n) * STEP, b[n]);
#pragma unroll
      for (uint32_t e = 0; e < DIGITS; e++)
#pragma unroll
        for (uint32_t m = 0; m < 2; m++)
#pragma unroll
          for (uint32_t n = 0; n < 4; n++)
            multiply_add(sums[d + e][m][n], a[e][m], b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1]);
    }
  }
}

__device__ void add_sums(const warp_sums &sums, uint32_t left, uint32_t right, u64 *tile) {
  uint32_t lane = threadIdx.x % 32;
#pragma unroll
  for (uint32_t m = 0; m < 2; m++)
#pragma unroll
    for (uint32_t n = 0; n < 4; n++)
#pragma unroll
      for (uint32_t i = 0; i < 4; i++) {
        int64_t sum = 0;
#pragma unroll
        for (uint32_t w = 0; w < WEIGHTS; w++) sum = sum * 256 + sums[w][m][n][i];
        uint32_t row = left + 16 * m + lane / 4 + i / 2 * 8;
        uint32_t column = right + 8 * n + lane % 4 * 2 + i % 2;
        atomicAdd(&tile[row * EDGE + column], (u64)sum);
      }
}

/* Block (t, s): tile t, steps [s * each, …). */
__global__ void __launch_bounds__(128, 2)
    multiply(const int8_t *digits, uint32_t columns, uint32_t steps, uint32_t each, u64 *products) {
  extern __shared__ __align__(128) int8_t stages[]; /* [STAGES][left, right][digit][column][row] */
  uint32_t p = 0, q = blockIdx.x;
  for (uint32_t panels = columns / EDGE; q >= panels - p; p++) q -= panels - p;
  q += p;
  uint32_t base = (uint32_t)__cvta_generic_to_shared(stages), thread = threadIdx.x;
  uint32_t first = blockIdx.y * each, n = min(steps - first, each), next = 0;
  const int8_t *begin = digits + (size_t)first * DIGITS * columns * STEP + thread * 16;
  share own = {begin + (size_t)p * EDGE * STEP, begin + (size_t)q * EDGE * STEP,
               (size_t)columns * STEP, chunk_at(thread / 4, thread % 4)};
  uint32_t lane = thread % 32, left = thread / 64 * 32, right = thread / 32 % 2 * 32;
  uint32_t from_left = chunk_at(left + lane % 16, lane / 16);
  uint32_t from_right = chunk_at(right + lane / 16 * 8 + lane % 8, lane / 8 % 2);
  warp_sums sums = {};
  for (; next < STAGES - 1; next++) {
    if (next < n) fetch(base + next * STAGE, own);
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
  for (uint32_t step = 0; step < n; step++, next++) {
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
    __syncthreads();
    if (next < n) fetch(base + next % STAGES * STAGE, own);
    asm volatile("cp.async.commit_group;" ::: "memory");
    multiply_stage(base + step % STAGES * STAGE, from_left, from_right, sums);
  }
  if (n > 0) add_sums(sums, left, right, products + (size_t)blockIdx.x * EDGE * EDGE);
}

/* A block for each tile. */
__global__ void widen(uint32_t dim, uint32_t panels, u64 *products, ulonglong2 *totals) {
  uint32_t p = 0, q = blockIdx.x;
  for (; q >= panels - p; p++) q -= panels - p;
  q += p;
  u64 *tile = products + (size_t)blockIdx.x * EDGE * EDGE;
  for (uint32_t i = threadIdx.x; i < EDGE * EDGE; i += blockDim.x) {
    uint64_t row = p * EDGE + i / EDGE, column = q * EDGE + i % EDGE;
    u64 sum = tile[i];
    tile[i] = 0;
    if (column >= dim || row > column) continue;
    ulonglong2 *total = &totals[row * (2 * (uint64_t)dim - row + 1) / 2 + (column - row)];
    u64 low = total->x + sum;
    total->y += (u64)((int64_t)sum >> 63) + (low < sum);
    total->x = low;
  }
}

/* --- on the host ------------------------------------------------------------------------------ */

void plan_tiles(const kf_dev_moments_plan *plan, uint32_t *columns, uint32_t *panels,
                uint64_t *tiles) {
  *columns = round_up(plan->dim, EDGE);
  *panels = *columns / EDGE;
  *tiles = (uint64_t)*panels * (*panels + 1) / 2;
}

cudaError_t take_memory(void *pointer, uint64_t bytes) {
  void **to = (void **)pointer;
  return cudaMalloc(to, bytes);
}

/* Everything starts from zero. */
cudaError_t clear(kf_dev_moments *m) {
  const kf_dev_moments_plan *plan = &m->plan;
  cudaError_t error = cudaSuccess;
  struct {
    void *memory;
    uint64_t bytes;
  } all[] = {{m->products, (uint64_t)m->tiles * EDGE * EDGE * sizeof(u64)},
             {m->totals, triangle(plan->dim) * sizeof(ulonglong2)},
             {m->sums, (uint64_t)plan->n_classes * plan->dim * sizeof(u64)},
             {m->counts, plan->n_classes * sizeof(u64)}};
  for (auto &one : all)
    if (error == cudaSuccess) error = cudaMemsetAsync(one.memory, 0, one.bytes, m->working);
  m->pending = 0;
  return error;
}

cudaError_t make_slot(slot *s, const kf_dev_moments_plan *plan) {
  cudaError_t error =
      take_memory(&s->rows, (uint64_t)plan->batch * plan->dim * type_size(plan->type));
  if (error == cudaSuccess) error = take_memory(&s->labels, plan->batch * sizeof *s->labels);
  if (error == cudaSuccess) error = take_memory(&s->bad, sizeof *s->bad);
  if (error == cudaSuccess) error = cudaEventCreateWithFlags(&s->copied, cudaEventDisableTiming);
  if (error == cudaSuccess) error = cudaEventCreateWithFlags(&s->done, cudaEventDisableTiming);
  return error;
}

kf_dev_status make(kf_dev_moments *m) {
  const kf_dev_moments_plan *plan = &m->plan;
  uint64_t tiles;
  int processors = 0;
  plan_tiles(plan, &m->columns, &m->panels, &tiles);
  m->tiles = (uint32_t)tiles;
  m->factor = ldexp(1.0, plan->exponent);
  m->limit = ldexp(4194304.0, -plan->exponent);
  KF_CUDA(m->dev, cudaSetDevice(m->dev->number), "choosing the device");
  KF_CUDA(m->dev,
          cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, m->dev->number),
          "asking for its processors");
  m->blocks = 2 * (uint32_t)processors;
  KF_CUDA(m->dev, kf_cuda_widen(m->dev, multiply), "preparing the moments");
  KF_CUDA(m->dev, cudaStreamCreateWithFlags(&m->copying, cudaStreamNonBlocking), "making a stream");
  KF_CUDA(m->dev, cudaStreamCreateWithFlags(&m->working, cudaStreamNonBlocking), "making a stream");
  for (slot &s : m->slots) KF_CUDA(m->dev, make_slot(&s, plan), "memory for rows");
  void **bad = (void **)&m->bad;
  KF_CUDA(m->dev, cudaHostAlloc(bad, KF_DEV_PUTS * sizeof *m->bad, 0), "memory for rows");
  uint64_t padded = round_up(plan->batch, STEP);
  KF_CUDA(m->dev, take_memory(&m->digits, padded * m->columns * DIGITS), "memory for moments");
  KF_CUDA(m->dev, take_memory(&m->products, tiles * EDGE * EDGE * sizeof(u64)),
          "memory for moments");
  KF_CUDA(m->dev, take_memory(&m->totals, triangle(plan->dim) * sizeof(ulonglong2)),
          "memory for moments");
  KF_CUDA(m->dev, take_memory(&m->sums, (uint64_t)plan->n_classes * plan->dim * sizeof(u64)),
          "memory for class sums");
  KF_CUDA(m->dev, take_memory(&m->counts, plan->n_classes * sizeof(u64)), "memory for class sums");
  KF_CUDA(m->dev, clear(m), "clearing the moments");
  return KF_DEV_OK;
}

void launch_quantise(kf_dev_type type, uint32_t blocks, const quantise_job &job, cudaStream_t to) {
  if (type == KF_DEV_F32)
    quantise<float><<<blocks, 8 * ROWS, 0, to>>>(job);
  else if (type == KF_DEV_F16)
    quantise<__half><<<blocks, 8 * ROWS, 0, to>>>(job);
  else
    quantise<__nv_bfloat16><<<blocks, 8 * ROWS, 0, to>>>(job);
}

/* Divides the steps so that about three rounds of blocks are nearly full. */
void launch_multiply(const kf_dev_moments *m, uint32_t steps) {
  uint32_t parts = 3 * m->blocks / m->tiles;
  if (parts < 1) parts = 1;
  uint32_t each = (steps + parts - 1) / parts;
  if (each > MOST_STEPS) each = MOST_STEPS;
  dim3 grid(m->tiles, (steps + each - 1) / each);
  multiply<<<grid, 128, STAGES * STAGE, m->working>>>(m->digits, m->columns, steps, each,
                                                      m->products);
}

void launch_widen(kf_dev_moments *m) {
  widen<<<m->tiles, 256, 0, m->working>>>(m->plan.dim, m->panels, m->products, m->totals);
  m->pending = 0;
}

kf_dev_status start_put(kf_dev_moments *m, slot *s, uint32_t n) {
  const kf_dev_moments_plan *plan = &m->plan;
  if (m->pending + n > WIDEN_ROWS) launch_widen(m);
  m->pending += n;
  quantise_job job = {s->rows,
                      s->labels,
                      n,
                      plan->dim,
                      m->columns,
                      plan->n_classes,
                      plan->normalized != 0,
                      m->factor,
                      m->limit,
                      m->digits,
                      m->sums,
                      m->counts,
                      s->bad};
  uint32_t padded = round_up(n, STEP);
  launch_quantise(plan->type, padded / ROWS, job, m->working);
  launch_multiply(m, padded / STEP);
  KF_CUDA(m->dev, cudaGetLastError(), "adding rows");
  return KF_DEV_OK;
}

/* Adds n words on the device to the caller's; pairs: of 128-bit numbers. */
cudaError_t take_words(kf_dev_moments *m, const void *from, uint64_t n, bool pairs, uint64_t *chunk,
                       uint64_t *to) {
  for (uint64_t first = 0; first < n; first += CHUNK) {
    uint64_t count = n - first < CHUNK ? n - first : CHUNK;
    const uint64_t *words = (const uint64_t *)from + first;
    cudaError_t error =
        cudaMemcpyAsync(chunk, words, count * sizeof *chunk, cudaMemcpyDeviceToHost, m->working);
    if (error == cudaSuccess) error = cudaStreamSynchronize(m->working);
    if (error != cudaSuccess) return error;
    for (uint64_t i = 0; i < count; i++, to++) {
      *to += chunk[i];
      if (pairs && i % 2 == 0) to[1] += *to < chunk[i]; /* the carry */
    }
  }
  return cudaSuccess;
}

} // namespace

kf_dev_status kf_cuda_moments_new(kf_dev *dev, const kf_dev_moments_plan *plan,
                                  kf_dev_moments **out) {
  kf_dev_moments *m = new (std::nothrow) kf_dev_moments();
  if (m == nullptr) return kf_cuda_fail(dev, cudaErrorMemoryAllocation, "memory for moments");
  m->dev = dev;
  m->plan = *plan;
  kf_dev_status status = make(m);
  if (status == KF_DEV_OK)
    *out = m;
  else
    kf_cuda_moments_free(dev, m);
  return status;
}

void kf_cuda_moments_free(kf_dev *dev, kf_dev_moments *m) {
  if (m == nullptr) return;
  cudaSetDevice(dev->number);
  if (m->copying != nullptr) cudaStreamSynchronize(m->copying);
  if (m->working != nullptr) cudaStreamSynchronize(m->working);
  for (slot &s : m->slots) {
    cudaFree(s.rows);
    cudaFree(s.labels);
    cudaFree(s.bad);
    if (s.copied != nullptr) cudaEventDestroy(s.copied);
    if (s.done != nullptr) cudaEventDestroy(s.done);
  }
  cudaFreeHost(m->bad);
  cudaFree(m->digits);
  cudaFree(m->products);
  cudaFree(m->totals);
  cudaFree(m->sums);
  cudaFree(m->counts);
  if (m->copying != nullptr) cudaStreamDestroy(m->copying);
  if (m->working != nullptr) cudaStreamDestroy(m->working);
  delete m;
}

kf_dev_status kf_cuda_moments_put(kf_dev_moments *m, const void *rows, const int32_t *labels,
                                  uint32_t n) {
  const kf_dev_moments_plan *plan = &m->plan;
  uint32_t number = (uint32_t)(m->puts % KF_DEV_PUTS);
  slot *s = &m->slots[number]; /* free: its put has been waited for */
  size_t bytes = (size_t)n * plan->dim * type_size(plan->type);
  KF_CUDA(m->dev, cudaSetDevice(m->dev->number), "choosing the device");
  KF_CUDA(m->dev, cudaMemcpyAsync(s->rows, rows, bytes, cudaMemcpyHostToDevice, m->copying),
          "copying rows");
  KF_CUDA(
      m->dev,
      cudaMemcpyAsync(s->labels, labels, n * sizeof *labels, cudaMemcpyHostToDevice, m->copying),
      "copying labels");
  KF_CUDA(m->dev, cudaMemsetAsync(s->bad, 255, sizeof *s->bad, m->copying), "copying labels");
  KF_CUDA(m->dev, cudaEventRecord(s->copied, m->copying), "copying rows");
  KF_CUDA(m->dev, cudaStreamWaitEvent(m->working, s->copied, 0), "adding rows");
  kf_dev_status status = start_put(m, s, n);
  if (status != KF_DEV_OK) return status;
  KF_CUDA(
      m->dev,
      cudaMemcpyAsync(&m->bad[number], s->bad, sizeof *s->bad, cudaMemcpyDeviceToHost, m->working),
      "adding rows");
  KF_CUDA(m->dev, cudaEventRecord(s->done, m->working), "adding rows");
  m->puts++;
  return KF_DEV_OK;
}

kf_dev_status kf_cuda_moments_wait(kf_dev_moments *m, uint32_t *bad) {
  uint32_t number = (uint32_t)(m->waited % KF_DEV_PUTS);
  KF_CUDA(m->dev, cudaSetDevice(m->dev->number), "choosing the device");
  KF_CUDA(m->dev, cudaEventSynchronize(m->slots[number].done), "adding rows");
  m->waited++;
  *bad = m->bad[number] + 1; /* UINT32_MAX: none */
  return KF_DEV_OK;
}

kf_dev_status kf_cuda_moments_take(kf_dev_moments *m, uint64_t *totals, int64_t *sums,
                                   int64_t *counts) {
  const kf_dev_moments_plan *plan = &m->plan;
  KF_CUDA(m->dev, cudaSetDevice(m->dev->number), "choosing the device");
  uint64_t *chunk = (uint64_t *)malloc(CHUNK * sizeof *chunk);
  if (chunk == nullptr)
    return kf_cuda_fail(m->dev, cudaErrorMemoryAllocation, "memory of the host for moments");
  launch_widen(m);
  cudaError_t error = cudaGetLastError();
  uint64_t n_sums = (uint64_t)plan->n_classes * plan->dim;
  if (error == cudaSuccess)
    error = take_words(m, m->totals, 2 * triangle(plan->dim), true, chunk, totals);
  if (error == cudaSuccess) error = take_words(m, m->sums, n_sums, false, chunk, (uint64_t *)sums);
  if (error == cudaSuccess)
    error = take_words(m, m->counts, plan->n_classes, false, chunk, (uint64_t *)counts);
  if (error == cudaSuccess) error = clear(m);
  if (error == cudaSuccess) error = cudaStreamSynchronize(m->working);
  free(chunk);
  return error == cudaSuccess ? KF_DEV_OK : kf_cuda_fail(m->dev, error, "taking the moments");
}
