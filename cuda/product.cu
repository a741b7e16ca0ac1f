/* product.cu - products of matrices whose every step is fused and rounded once, in the order of lines, so
 * that their bits are those of the CPU.
 *
 * A block computes a tile of 16 * SUB rows by as many columns of c. It brings 16 lines of both factors to
 * shared memory at a time; a thread adds to SUB x SUB sums, in pairs of neighbours that lie 32 apart. A
 * sum cannot be divided, so small products have small tiles: all processors get some. */
#include "slots.cuh"
#include "table.h"

#include <new>

#define DEPTH   16u /* lines that are brought at a time */
#define THREADS 256u
#define APART   32u  /* from one pair of a thread to the next */
#define WIDEST  128u /* edge of a tile; lines of b are as long as a multiple of it */

struct kf_dev_matrix {
  kf_dev_matrix_plan plan;
  uint64_t length; /* of a line, with zeros at its end */
  void *lines;     /* [depth + 1][length] */
  kf_cuda_arena arena;
};

typedef struct product_slot {
  kf_slot at;
  char *in, *out;
} product_slot;

struct kf_dev_product {
  kf_dev *dev;
  kf_dev_product_plan plan;
  product_slot slot[KF_DEV_SLOTS];
  kf_cuda_arena arena;
};

static uint64_t round_up(uint64_t x, uint64_t step) { return (x + step - 1) / step * step; }

/* --- products --------------------------------------------------------------------------------- */

template <class T> struct pair_of;
template <> struct pair_of<double> { typedef double2 type; };
template <> struct pair_of<float> { typedef float2 type; };

__device__ __forceinline__ double fused(double x, double y, double z) { return __fma_rn(x, y, z); }
__device__ __forceinline__ float fused(float x, float y, float z) { return __fmaf_rn(x, y, z); }

template <class T> struct product_args {
  const T *a; /* [depth][m] */
  const T *b; /* [depth + 1][length] */
  T *c;       /* [m][n] */
  uint32_t m, n, depth, row_tiles;
  uint64_t length;
};

/* SUB numbers of a line of each factor. */
template <class T, int SUB> struct product_part {
  T a[SUB];
  typename pair_of<T>::type b[SUB / 2];
};

template <class T, int SUB>
__device__ __forceinline__ product_part<T, SUB> bring(const product_args<T> &p, uint32_t row,
                                                      uint32_t column, uint32_t line) {
  typedef typename pair_of<T>::type pair;
  product_part<T, SUB> to;
  const bool there = line < p.depth;
  const T *a = p.a + (uint64_t)line * p.m, *b = p.b + line * p.length + column;
#pragma unroll
  for (int i = 0; i < SUB; i++) {
    uint32_t at = row + i / 2 * APART + i % 2;
    to.a[i] = there && at < p.m ? a[at] : 0;
  }
#pragma unroll
  for (int i = 0; i < SUB / 2; i++) to.b[i] = there ? *(const pair *)(b + i * APART) : pair{0, 0};
  return to;
}

template <class T, int SUB>
__global__ void __launch_bounds__(THREADS, 2) multiply(const __grid_constant__ product_args<T> p) {
  typedef typename pair_of<T>::type pair;
  constexpr uint32_t EDGE = 16 * SUB;
  __shared__ __align__(16) T a[2][DEPTH][EDGE + 2], b[2][DEPTH][EDGE + 2];
  const uint32_t line = threadIdx.x / 16, one = line * 2, other = (threadIdx.x & 15) * 2;
  const uint32_t first_row = blockIdx.x % p.row_tiles * EDGE;
  const uint32_t first_column = blockIdx.x / p.row_tiles * EDGE;
  T sum[SUB][SUB];
#pragma unroll
  for (int j = 0; j < SUB; j++) {
    T start = p.b[p.depth * p.length + first_column + other + j / 2 * APART + j % 2];
#pragma unroll
    for (int i = 0; i < SUB; i++) sum[i][j] = start;
  }
  auto keep = [&](const product_part<T, SUB> &from, uint32_t where) {
#pragma unroll
    for (int i = 0; i < SUB / 2; i++) {
      *(pair *)&a[where][line][other + i * APART] = pair{from.a[2 * i], from.a[2 * i + 1]};
      *(pair *)&b[where][line][other + i * APART] = from.b[i];
    }
  };
  auto add = [&](uint32_t where, uint32_t k) {
    T x[SUB], y[SUB];
#pragma unroll
    for (int i = 0; i < SUB / 2; i++) {
      pair u = *(const pair *)&a[where][k][one + i * APART];
      pair v = *(const pair *)&b[where][k][other + i * APART];
      x[2 * i] = u.x;
      x[2 * i + 1] = u.y;
      y[2 * i] = v.x;
      y[2 * i + 1] = v.y;
    }
#pragma unroll
    for (int i = 0; i < SUB; i++)
#pragma unroll
      for (int j = 0; j < SUB; j++) sum[i][j] = fused(x[i], y[j], sum[i][j]);
  };
  keep(bring<T, SUB>(p, first_row + other, first_column + other, line), 0);
  __syncthreads();
  for (uint32_t k = 0; k < p.depth; k += DEPTH) {
    const uint32_t here = k / DEPTH & 1;
    const bool more = k + DEPTH < p.depth;
    product_part<T, SUB> next;
    if (more) next = bring<T, SUB>(p, first_row + other, first_column + other, k + DEPTH + line);
    if (k + DEPTH <= p.depth) {
#pragma unroll
      for (uint32_t t = 0; t < DEPTH; t++) add(here, t);
    } else {
      for (uint32_t t = 0; k + t < p.depth; t++) add(here, t);
    }
    if (more) keep(next, here ^ 1);
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < SUB; i++)
#pragma unroll
    for (int j = 0; j < SUB; j++) {
      uint32_t row = first_row + one + i / 2 * APART + i % 2;
      uint32_t column = first_column + other + j / 2 * APART + j % 2;
      if (row < p.m && column < p.n) p.c[(uint64_t)row * p.n + column] = sum[i][j];
    }
}

template <class T, int SUB> static void launch(product_args<T> &p, cudaStream_t stream) {
  constexpr uint32_t EDGE = 16 * SUB;
  p.row_tiles = (p.m + EDGE - 1) / EDGE;
  multiply<T, SUB><<<p.row_tiles *((p.n + EDGE - 1) / EDGE), THREADS, 0, stream>>>(p);
}

/* Whether tiles of this edge keep all processors busy, and are not mostly empty. */
static bool suits(const kf_dev *dev, uint64_t m, uint64_t n, uint64_t edge) {
  return m > edge / 2 &&
         round_up(m, edge) / edge * (round_up(n, edge) / edge) >= (uint64_t)dev->processors;
}

static void multiply_all(const kf_dev *dev, product_args<double> &p, cudaStream_t stream) {
  if (suits(dev, p.m, p.n, 64))
    launch<double, 4>(p, stream);
  else
    launch<double, 2>(p, stream);
}

static void multiply_all(const kf_dev *dev, product_args<float> &p, cudaStream_t stream) {
  if (suits(dev, p.m, p.n, 128))
    launch<float, 8>(p, stream);
  else if (suits(dev, p.m, p.n, 64))
    launch<float, 4>(p, stream);
  else
    launch<float, 2>(p, stream);
}

/* --- room ------------------------------------------------------------------------------------- */

static void take_all(kf_dev_product *p, kf_cuda_room *r) {
  for (uint32_t i = 0; i < p->plan.slots; i++) {
    kf_cuda_array(r, &p->slot[i].in, p->plan.in);
    kf_cuda_array(r, &p->slot[i].out, p->plan.out);
  }
}

uint64_t kf_cuda_product_bytes(const kf_dev_product_plan *plan) {
  kf_dev_product p = {};
  kf_cuda_room r = {NULL, 0};
  p.plan = *plan;
  take_all(&p, &r);
  return r.bytes;
}

void kf_cuda_product_free(kf_dev *dev, kf_dev_product *p) {
  if (p == NULL) return;
  cudaSetDevice(dev->number);
  for (uint32_t i = 0; i < p->plan.slots; i++) kf_slot_end(&p->slot[i].at);
  kf_cuda_release(&p->arena);
  delete p;
}

kf_dev_status kf_cuda_product_new(kf_dev *dev, const kf_dev_product_plan *plan,
                                  kf_dev_product **out) {
  *out = NULL;
  if (plan->slots < 1 || plan->slots > KF_DEV_SLOTS || plan->in < 1 || plan->out < 1)
    return kf_cuda_refuse(dev, KF_DEV_FAILED, "products of an impossible size");
  KF_CUDA(dev, cudaSetDevice(dev->number), "using");
  kf_dev_product *p = new (std::nothrow) kf_dev_product();
  if (p == NULL) return kf_cuda_refuse(dev, KF_DEV_FAILED, "out of memory");
  p->dev = dev;
  p->plan = *plan;
  kf_cuda_room r = {&p->arena, 0};
  take_all(p, &r);
  cudaError_t error = p->arena.error;
  for (uint32_t i = 0; error == cudaSuccess && i < plan->slots; i++)
    error = kf_slot_make(&p->slot[i].at);
  if (error != cudaSuccess) {
    kf_dev_status status = kf_cuda_fail(dev, error, "making room for products");
    kf_cuda_product_free(dev, p);
    return status;
  }
  *out = p;
  return KF_DEV_OK;
}

static uint64_t size_of(const kf_dev_matrix_plan *plan) {
  return plan->narrow ? sizeof(float) : sizeof(double);
}

uint64_t kf_cuda_matrix_bytes(const kf_dev_matrix_plan *plan) {
  return ((uint64_t)plan->depth + 1) * round_up(plan->n, WIDEST) * size_of(plan) + 512;
}

void kf_cuda_matrix_free(kf_dev *dev, kf_dev_matrix *m) {
  if (m == NULL) return;
  cudaSetDevice(dev->number);
  kf_cuda_release(&m->arena);
  delete m;
}

kf_dev_status kf_cuda_matrix_new(kf_dev *dev, const kf_dev_matrix_plan *plan, kf_dev_matrix **out) {
  *out = NULL;
  if (plan->n < 1) return kf_cuda_refuse(dev, KF_DEV_FAILED, "a matrix of an impossible size");
  KF_CUDA(dev, cudaSetDevice(dev->number), "using");
  kf_dev_matrix *m = new (std::nothrow) kf_dev_matrix();
  if (m == NULL) return kf_cuda_refuse(dev, KF_DEV_FAILED, "out of memory");
  uint64_t bytes = kf_cuda_matrix_bytes(plan);
  m->plan = *plan;
  m->length = round_up(plan->n, WIDEST);
  m->lines = kf_cuda_take(&m->arena, bytes);
  cudaError_t error = m->arena.error;
  if (error == cudaSuccess) error = cudaMemsetAsync(m->lines, 0, bytes, dev->stream);
  if (error == cudaSuccess) error = cudaStreamSynchronize(dev->stream);
  if (error != cudaSuccess) {
    kf_dev_status status = kf_cuda_fail(dev, error, "making room for a matrix");
    kf_cuda_matrix_free(dev, m);
    return status;
  }
  *out = m;
  return KF_DEV_OK;
}

/* --- at work ---------------------------------------------------------------------------------- */

kf_dev_status kf_cuda_matrix_put(kf_dev_product *p, uint32_t slot, kf_dev_matrix *m, uint32_t first,
                                 uint32_t n, const void *lines) {
  kf_dev *dev = p->dev;
  const char *what = "copying a matrix";
  if (slot >= p->plan.slots || n < 1 || first > m->plan.depth || n > m->plan.depth + 1 - first)
    return kf_cuda_refuse(dev, KF_DEV_FAILED, "lines that the matrix does not have");
  const kf_slot *at = &p->slot[slot].at;
  uint64_t size = size_of(&m->plan), line = m->length * size, given = m->plan.n * size;
  KF_CUDA(dev, cudaSetDevice(dev->number), "using");
  KF_CUDA(dev,
          cudaMemcpy2DAsync((char *)m->lines + first * line, line, lines, given, given, n,
                            cudaMemcpyDefault, at->stream),
          what);
  KF_CUDA(dev, cudaEventRecord(at->done, at->stream), what);
  return KF_DEV_OK;
}

template <class T>
static void run(const kf_dev *dev, const product_slot *s, const kf_dev_matrix *matrix, uint32_t m) {
  product_args<T> args = {(const T *)s->in, (const T *)matrix->lines, (T *)s->out, m,
                          matrix->plan.n,   matrix->plan.depth,       0,           matrix->length};
  multiply_all(dev, args, s->at.stream);
}

kf_dev_status kf_cuda_product_put(kf_dev_product *p, uint32_t slot, const kf_dev_matrix *matrix,
                                  const void *a, uint32_t m, void *c) {
  kf_dev *dev = p->dev;
  const char *what = "multiplying matrices";
  uint64_t size = size_of(&matrix->plan);
  uint64_t in = matrix->plan.depth * size * m, out = matrix->plan.n * size * m;
  if (slot >= p->plan.slots || m < 1 || in > p->plan.in || out > p->plan.out)
    return kf_cuda_refuse(dev, KF_DEV_FAILED, "a product that there is no room for");
  product_slot *s = &p->slot[slot];
  KF_CUDA(dev, cudaSetDevice(dev->number), "using");
  KF_CUDA(dev, cudaMemcpyAsync(s->in, a, in, cudaMemcpyDefault, s->at.stream), what);
  if (matrix->plan.narrow)
    run<float>(dev, s, matrix, m);
  else
    run<double>(dev, s, matrix, m);
  KF_CUDA(dev, cudaGetLastError(), what);
  KF_CUDA(dev, cudaMemcpyAsync(c, s->out, out, cudaMemcpyDefault, s->at.stream), what);
  KF_CUDA(dev, cudaEventRecord(s->at.done, s->at.stream), what);
  return KF_DEV_OK;
}

kf_dev_status kf_cuda_product_wait(kf_dev_product *p, uint32_t slot, char *message, size_t size) {
  return kf_slot_wait(p->dev, &p->slot[slot].at, "multiplying matrices", message, size);
}
