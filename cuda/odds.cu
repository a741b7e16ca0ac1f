/* odds.cu - what softmax needs of the scores of queries for all prototypes, bit for bit as on the
 * CPU.
 *
 * Scores are computed for 64 queries by 64 prototypes at a time. Columns are sorted by the eight
 * lanes of a canonical sum, each lane padded with zeros to a whole step, so that a thread adds up
 * one lane after the other and then the lanes. A number of queries at a time have their scores in
 * memory; one block for each query then finds the largest score and the sums of exponentials. */
#include "slots.cuh"
#include "table.h"

#include <math.h>
#include <new>

#define EDGE     64u /* queries and prototypes of a tile */
#define DEPTH    8u  /* columns of a step */
#define THREADS  256u
#define SCRATCH  (64ull << 20) /* bytes of a slot's scores, roughly */
#define LANES    8u
#define TOGETHER 512u /* exponentials in shared memory at a time */

typedef struct odds_slot {
  kf_slot at;
  float *given;      /* [batch][dim] */
  float *queries;    /* [whole tiles][depth] in the order of lanes */
  double *scores;    /* [step][columns] */
  kf_dev_sums *sums; /* [batch] */
} odds_slot;

struct kf_dev_odds {
  kf_dev *dev;
  kf_dev_metric metric;
  bool narrow;
  uint32_t dim, n_rows, n_scales, batch, slots;
  uint32_t each, depth; /* columns of a lane, and of all lanes */
  uint32_t columns;     /* n_rows, rounded up to whole tiles */
  uint32_t step;        /* queries whose scores are in memory at a time */
  double scales[2];
  float *given; /* [n_rows][dim] */
  float *rows;  /* [columns][depth] */
  odds_slot slot[KF_DEV_SLOTS];
  kf_cuda_arena arena;
};

static uint64_t round_up(uint64_t x, uint64_t step) { return (x + step - 1) / step * step; }

/* --- the order of lanes ----------------------------------------------------------------------- */

/* The lanes in the order of adding: ((l0 + l4) + (l2 + l6)) + ((l1 + l5) + (l3 + l7)). */
__device__ __forceinline__ uint32_t lane_at(uint32_t place) {
  return (place & 1) * 4 + (place >> 1 & 1) * 2 + (place >> 2);
}

/* Sorts the columns of rows by lanes and pads with zeros; `narrow` keeps their order. Zeros change
 * no sum, except that a narrow -0 becomes 0, which no exponential shows. */
__global__ void arrange(const float *from, uint32_t n, uint32_t dim, uint32_t each, uint32_t depth,
                        bool narrow, float *to) {
  uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= (uint64_t)n * depth) return;
  uint32_t row = (uint32_t)(i / depth), at = (uint32_t)(i % depth);
  uint32_t column = narrow ? at : at % each * LANES + lane_at(at / each);
  to[i] = column < dim ? from[(uint64_t)row * dim + column] : 0;
}

/* --- scores ----------------------------------------------------------------------------------- */

typedef struct odds_args {
  const float *queries, *rows;
  double *scores;
  uint32_t n, each, depth, columns;
} odds_args;

enum { INNER, EUCLIDEAN, NARROW };
template <int KIND> struct number_of { typedef double type; };
template <> struct number_of<NARROW> { typedef float type; };

__device__ __forceinline__ float add_product(float sum, float x, float y) {
  return __fmaf_rn(x, y, sum);
}
template <int KIND> __device__ __forceinline__ double add_product(double sum, double x, double y) {
  if (KIND == INNER) return fma(x, y, sum); /* the product of two f32 is exact */
  double d = x - y;
  return __dadd_rn(sum, __dmul_rn(d, d));
}

/* A step: DEPTH columns of 64 queries and of 64 prototypes. */
template <class T> struct step_of { T x[DEPTH][EDGE + 4], y[DEPTH][EDGE + 4]; };

struct odds_part {
  float2 x, y;
};
__device__ __forceinline__ odds_part bring(const odds_args &a, uint32_t first) {
  const uint32_t row = threadIdx.x / 4, column = first + (threadIdx.x & 3) * 2;
  odds_part b;
  b.x = *(const float2 *)(a.queries + (uint64_t)(blockIdx.y * EDGE + row) * a.depth + column);
  b.y = *(const float2 *)(a.rows + (uint64_t)(blockIdx.x * EDGE + row) * a.depth + column);
  return b;
}
template <class T> __device__ __forceinline__ void keep(const odds_part &b, step_of<T> *s) {
  const uint32_t row = threadIdx.x / 4, column = (threadIdx.x & 3) * 2;
  s->x[column][row] = (T)b.x.x;
  s->x[column + 1][row] = (T)b.x.y;
  s->y[column][row] = (T)b.y.x;
  s->y[column + 1][row] = (T)b.y.y;
}

template <int KIND, class T>
__device__ __forceinline__ void add_products(T (&sum)[4][4], const step_of<T> &s) {
  const uint32_t row = threadIdx.x / 16 * 2, column = (threadIdx.x & 15) * 2;
#pragma unroll
  for (uint32_t k = 0; k < DEPTH; k++) {
    T x[4], y[4];
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
      x[i] = s.x[k][row + (i & 1) + (i >> 1) * (EDGE / 2)];
      y[i] = s.y[k][column + (i & 1) + (i >> 1) * (EDGE / 2)];
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
      for (int j = 0; j < 4; j++)
        if constexpr (KIND == NARROW)
          sum[i][j] = add_product(sum[i][j], x[i], y[j]);
        else
          sum[i][j] = add_product<KIND>(sum[i][j], x[i], y[j]);
  }
}

/* Sums of finished lanes: pairs of lanes, pairs of these, and all. */
struct lane_sums {
  double pair[4][4], half[4][4], all[4][4];
};
__device__ __forceinline__ void end_lane(lane_sums &l, double (&sum)[4][4], uint32_t place) {
#pragma unroll
  for (int i = 0; i < 4; i++)
#pragma unroll
    for (int j = 0; j < 4; j++) {
      double x = sum[i][j];
      sum[i][j] = 0;
      if (!(place & 1)) {
        l.pair[i][j] = x;
        continue;
      }
      x = l.pair[i][j] + x;
      if (!(place & 2)) {
        l.half[i][j] = x;
        continue;
      }
      x = l.half[i][j] + x;
      l.all[i][j] = place & 4 ? l.all[i][j] + x : x;
    }
}

template <int KIND>
__global__ void __launch_bounds__(THREADS, 1) score(const __grid_constant__ odds_args a) {
  using T = typename number_of<KIND>::type;
  __shared__ __align__(16) step_of<T> steps[2];
  T sum[4][4] = {};
  lane_sums lanes;
  odds_part next = bring(a, 0);
  keep(next, &steps[0]);
  __syncthreads();
  for (uint32_t k = 0; k < a.depth; k += DEPTH) {
    const uint32_t here = k / DEPTH & 1;
    if (k + DEPTH < a.depth) next = bring(a, k + DEPTH);
    add_products<KIND, T>(sum, steps[here]);
    if constexpr (KIND != NARROW)
      if ((k + DEPTH) % a.each == 0) end_lane(lanes, sum, k / a.each);
    if (k + DEPTH < a.depth) keep(next, &steps[here ^ 1]);
    __syncthreads();
  }
  const uint32_t query = blockIdx.y * EDGE + threadIdx.x / 16 * 2;
  const uint32_t row = blockIdx.x * EDGE + (threadIdx.x & 15) * 2;
#pragma unroll
  for (uint32_t i = 0; i < 4; i++) {
    uint32_t at = query + (i & 1) + (i >> 1) * (EDGE / 2);
    double value[4];
#pragma unroll
    for (int j = 0; j < 4; j++)
      if constexpr (KIND == NARROW)
        value[j] = (double)sum[i][j];
      else
        value[j] = KIND == EUCLIDEAN ? -0.5 * lanes.all[i][j] : lanes.all[i][j];
    if (at >= a.n) continue;
    double *to = a.scores + (uint64_t)at * a.columns + row;
    *(double2 *)to = make_double2(value[0], value[1]);
    *(double2 *)(to + EDGE / 2) = make_double2(value[2], value[3]);
  }
}

/* --- exponentials ----------------------------------------------------------------------------- */

__device__ __forceinline__ double power2(int n) {
  return __longlong_as_double((long long)(n + 1023) << 52);
}

/* kf_exp of src/base/explog.c, step by step. */
__device__ __forceinline__ double exp_of(double x) {
  if (!(x < 710)) return x >= 710 ? INFINITY : x;
  if (x < -746) return 0;
  const double rounded = (x * 0x1.71547652b82fep+0 + 0x1.8p+52) - 0x1.8p+52;
  const int n = (int)rounded;
  const double high = x - rounded * 0x1.62e42ffp-1, low = rounded * -0x1.718432a1b0e26p-35;
  const double r = high - low, r2 = r * r, r4 = r2 * r2;
  double a =
      (0x1p-1 + r * 0x1.5555555555555p-3) + r2 * (0x1.5555555555555p-5 + r * 0x1.1111111111111p-7);
  double b = (0x1.6c16c16c16c17p-10 + r * 0x1.a01a01a01a01ap-13) +
             r2 * (0x1.a01a01a01a01ap-16 + r * 0x1.71de3a556c734p-19);
  double c = (0x1.27e4fb7789f5cp-22 + r * 0x1.ae64567f544e4p-26) +
             r2 * (0x1.1eed8eff8d898p-29 + r * 0x1.6124613a86d09p-33);
  const double y = 1 + (high + (r2 * (a + r4 * (b + r4 * c)) - low));
  if (n > 1023) return y * 0x1p1023 * power2(n - 1023);
  if (n < -1021) return y * power2(n + 200) * 0x1p-200;
  return y * power2(n);
}

/* The largest of a query's scores, for all threads. */
__device__ __forceinline__ double find_most(const double *scores, uint32_t n) {
  __shared__ double most_of[THREADS / 32];
  double most = -INFINITY;
  for (uint32_t i = threadIdx.x; i < n; i += THREADS) most = fmax(most, scores[i]);
  for (int step = 16; step > 0; step /= 2) most = fmax(most, __shfl_xor_sync(~0u, most, step));
  if ((threadIdx.x & 31) == 0) most_of[threadIdx.x / 32] = most;
  __syncthreads();
  for (uint32_t i = 0; i < THREADS / 32; i++) most = fmax(most, most_of[i]);
  return most;
}

typedef struct sums_args {
  const double *scores;
  kf_dev_sums *out;
  uint32_t n_rows, columns, n_scales;
  double scales[2];
} sums_args;

/* One block for each query. One warp adds up, in order, what the others have computed. */
__global__ void __launch_bounds__(THREADS) add_up(const __grid_constant__ sums_args a) {
  __shared__ double exps[2][2][TOGETHER];
  const double *scores = a.scores + (uint64_t)blockIdx.x * a.columns;
  const double most = find_most(scores, a.n_rows);
  const uint32_t scale = threadIdx.x / 4, lane = threadIdx.x & 3;
  const bool adds = threadIdx.x < 4 * a.n_scales;
  double sum = 0;
  for (uint32_t first = 0; first < a.n_rows + TOGETHER; first += TOGETHER) {
    const uint32_t here = first / TOGETHER & 1;
    for (uint32_t i = first + threadIdx.x - 32;
         threadIdx.x >= 32 && i < first + TOGETHER && i < a.n_rows; i += THREADS - 32)
      for (uint32_t s = 0; s < a.n_scales; s++)
        exps[here][s][i - first] = exp_of(a.scales[s] * (scores[i] - most));
    if (first > 0 && adds) {
      uint32_t before = first - TOGETHER;
      uint32_t n = a.n_rows - before < TOGETHER ? a.n_rows - before : TOGETHER;
#pragma unroll 8
      for (uint32_t i = lane; i < n; i += 4) sum += exps[here ^ 1][scale][i];
    }
    __syncthreads();
  }
  if (threadIdx.x >= 32) return;
  double other = __shfl_xor_sync(~0u, sum, 1); /* (l0 + l1) + (l2 + l3) */
  sum += other;
  other = __shfl_xor_sync(~0u, sum, 2);
  sum += other;
  kf_dev_sums *to = a.out + blockIdx.x;
  if (threadIdx.x == 0) to->most = most;
  if (adds && lane == 0) to->sum[scale] = sum;
  if (threadIdx.x == 4 && a.n_scales < 2) to->sum[1] = 0;
}

/* --- room ------------------------------------------------------------------------------------- */

static void describe(kf_dev_odds *o, const kf_dev_odds_plan *plan) {
  o->metric = plan->metric;
  o->narrow = plan->narrow != 0;
  o->dim = plan->dim;
  o->n_rows = plan->n_rows;
  o->n_scales = plan->n_scales;
  o->scales[0] = plan->scales[0];
  o->scales[1] = plan->n_scales > 1 ? plan->scales[1] : 0;
  o->batch = plan->batch;
  o->slots = plan->slots;
  o->each = (uint32_t)round_up(o->narrow ? o->dim : (o->dim + LANES - 1) / LANES, DEPTH);
  o->depth = o->narrow ? o->each : o->each * LANES;
  o->columns = (uint32_t)round_up(o->n_rows, EDGE);
  uint64_t most = round_up(o->batch, EDGE), step = SCRATCH / 8 / o->columns / EDGE * EDGE;
  o->step = (uint32_t)(step < EDGE ? EDGE : step < most ? step : most);
}

static void take_all(kf_dev_odds *o, kf_cuda_room *r) {
  uint64_t whole = round_up(o->batch, EDGE);
  kf_cuda_array(r, &o->given, (uint64_t)o->n_rows * o->dim);
  kf_cuda_array(r, &o->rows, (uint64_t)o->columns * o->depth);
  for (uint32_t i = 0; i < o->slots; i++) {
    odds_slot *s = &o->slot[i];
    kf_cuda_array(r, &s->given, (uint64_t)o->batch * o->dim);
    kf_cuda_array(r, &s->queries, whole * o->depth);
    kf_cuda_array(r, &s->scores, (uint64_t)o->step * o->columns);
    kf_cuda_array(r, &s->sums, o->batch);
  }
}

void kf_cuda_odds_free(kf_dev *dev, kf_dev_odds *o) {
  if (o == NULL) return;
  cudaSetDevice(dev->number);
  for (uint32_t i = 0; i < o->slots; i++) kf_slot_end(&o->slot[i].at);
  kf_cuda_release(&o->arena);
  delete o;
}

static void launch_arrange(const kf_dev_odds *o, const float *from, uint32_t n, float *to,
                           cudaStream_t stream) {
  uint64_t values = (uint64_t)n * o->depth;
  arrange<<<(unsigned)((values + 255) / 256), 256, 0, stream>>>(from, n, o->dim, o->each, o->depth,
                                                                o->narrow, to);
}

static cudaError_t make(kf_dev_odds *o, const kf_dev_odds_plan *plan) {
  kf_cuda_room r = {&o->arena, 0};
  cudaStream_t stream = o->dev->stream;
  take_all(o, &r);
  cudaError_t error = o->arena.error;
  uint64_t values = (uint64_t)o->n_rows * o->dim, all = (uint64_t)o->columns * o->depth;
  for (uint32_t i = 0; error == cudaSuccess && i < o->slots; i++) {
    error = kf_slot_make(&o->slot[i].at);
    if (error == cudaSuccess) /* the padding after the last query is multiplied as well */
      error = cudaMemsetAsync(o->slot[i].queries, 0,
                              round_up(o->batch, EDGE) * o->depth * sizeof(float), stream);
  }
  if (error == cudaSuccess) error = cudaMemsetAsync(o->rows, 0, all * sizeof *o->rows, stream);
  if (error == cudaSuccess)
    error =
        cudaMemcpyAsync(o->given, plan->rows, values * sizeof *o->given, cudaMemcpyDefault, stream);
  if (error != cudaSuccess) return error;
  launch_arrange(o, o->given, o->n_rows, o->rows, stream);
  error = cudaGetLastError();
  return error == cudaSuccess ? cudaStreamSynchronize(stream) : error;
}

kf_dev_status kf_cuda_odds_new(kf_dev *dev, const kf_dev_odds_plan *plan, kf_dev_odds **out) {
  *out = NULL;
  if (plan->dim < 1 || plan->n_rows < 1 || plan->n_rows > 1u << 20 || plan->n_scales < 1 ||
      plan->n_scales > 2 || plan->batch < 1 || plan->batch > 1u << 16 || plan->slots < 1 ||
      plan->slots > KF_DEV_SLOTS)
    return kf_cuda_refuse(dev, KF_DEV_FAILED, "probabilities of an impossible size");
  KF_CUDA(dev, cudaSetDevice(dev->number), "using");
  kf_dev_odds *o = new (std::nothrow) kf_dev_odds();
  if (o == NULL) return kf_cuda_refuse(dev, KF_DEV_FAILED, "out of memory");
  o->dev = dev;
  describe(o, plan);
  cudaError_t error = make(o, plan);
  if (error != cudaSuccess) {
    kf_dev_status status = kf_cuda_fail(dev, error, "making room for probabilities");
    kf_cuda_odds_free(dev, o);
    return status;
  }
  *out = o;
  return KF_DEV_OK;
}

/* --- at work ---------------------------------------------------------------------------------- */

/* Computes the sums of n queries from `first` on. */
static void launch_some(const kf_dev_odds *o, const odds_slot *s, uint32_t first, uint32_t n) {
  cudaStream_t stream = s->at.stream;
  odds_args a = {s->queries + (uint64_t)first * o->depth,
                 o->rows,
                 s->scores,
                 n,
                 o->each,
                 o->depth,
                 o->columns};
  sums_args b = {s->scores,  s->sums + first, o->n_rows,
                 o->columns, o->n_scales,     {o->scales[0], o->scales[1]}};
  dim3 grid(o->columns / EDGE, (n + EDGE - 1) / EDGE);
  if (o->narrow)
    score<NARROW><<<grid, THREADS, 0, stream>>>(a);
  else if (o->metric == KF_DEV_EUCLIDEAN)
    score<EUCLIDEAN><<<grid, THREADS, 0, stream>>>(a);
  else
    score<INNER><<<grid, THREADS, 0, stream>>>(a);
  add_up<<<n, THREADS, 0, stream>>>(b);
}

kf_dev_status kf_cuda_odds_put(kf_dev_odds *o, uint32_t slot, const float *queries, uint32_t n,
                               kf_dev_sums *out) {
  kf_dev *dev = o->dev;
  const char *what = "adding up probabilities";
  if (slot >= o->slots || n < 1 || n > o->batch)
    return kf_cuda_refuse(dev, KF_DEV_FAILED, "more queries than there is room for");
  const odds_slot *s = &o->slot[slot];
  cudaStream_t stream = s->at.stream;
  uint64_t values = (uint64_t)n * o->dim;
  KF_CUDA(dev, cudaSetDevice(dev->number), "using");
  KF_CUDA(dev,
          cudaMemcpyAsync(s->given, queries, values * sizeof *queries, cudaMemcpyDefault, stream),
          what);
  launch_arrange(o, s->given, n, s->queries, stream);
  for (uint32_t first = 0; first < n; first += o->step)
    launch_some(o, s, first, n - first < o->step ? n - first : o->step);
  KF_CUDA(dev, cudaGetLastError(), what);
  KF_CUDA(dev, cudaMemcpyAsync(out, s->sums, n * sizeof *out, cudaMemcpyDefault, stream), what);
  KF_CUDA(dev, cudaEventRecord(s->at.done, stream), what);
  return KF_DEV_OK;
}

kf_dev_status kf_cuda_odds_wait(kf_dev_odds *o, uint32_t slot, char *message, size_t size) {
  return kf_slot_wait(o->dev, &o->slot[slot].at, "adding up probabilities", message, size);
}
