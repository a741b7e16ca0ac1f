/* map.cu - maps rows: products in f64 in the order of columns, each step fused and rounded once, so
 * that the bits are those of the CPU.
 *
 * A block computes 64 rows by 64 columns of the product. It loads 16 columns of the rows, scaling
 * and centring them, and 16 rows of the matrix into shared memory at a time; a thread adds to 4 x 4
 * sums. Tiles are filled up with zeros in the matrix and minus zeros in the rows, whose product
 * changes no sum, not even -0. */
#include "slots.cuh"
#include "table.h"

#include "canonical.cuh"

#include <math.h>
#include <new>

#define EDGE    64u /* rows and columns of a tile */
#define DEPTH   16u
#define THREADS 256u
#define LENGTH  (EDGE + 2) /* of a line in shared memory */

typedef struct map_slot {
  kf_slot at;
  float *rows;    /* [batch][dim_in] */
  double *norm2;  /* [batch] */
  double *z;      /* [batch][columns] */
  float *out;     /* [batch][dim_out] */
  uint32_t *odd;  /* the number of the first odd row, or UINT32_MAX */
  uint32_t *told; /* the same, in page-locked memory */
} map_slot;

struct kf_dev_map {
  kf_dev *dev;
  uint32_t dim_in, dim_out, batch, slots;
  uint32_t depth, columns; /* dim_in and dim_out, rounded up to whole tiles */
  bool normalized, unit;
  double *matrix; /* [depth][columns] */
  double *centre; /* [depth] */
  map_slot slot[KF_DEV_SLOTS];
  kf_cuda_arena arena;
};

static uint64_t round_up(uint64_t x, uint64_t step) { return (x + step - 1) / step * step; }

/* --- products --------------------------------------------------------------------------------- */

typedef struct map_args {
  const float *rows;
  const double *norm2, *matrix, *centre;
  double *z;
  float *out;
  uint32_t *odd;
  uint32_t n, dim_in, dim_out, depth, columns;
  bool normalized, unit;
} map_args;

/* What a thread loads: four columns of a row, and four numbers of a row of the matrix. */
struct map_part {
  double y[4];
  double2 t[2];
};

__device__ __forceinline__ map_part bring(const map_args &a, uint32_t row, double scale,
                                          uint32_t first) {
  map_part b;
  const uint32_t k = first + (threadIdx.x & 3) * 4;
#pragma unroll
  for (uint32_t j = 0; j < 4; j++) {
    bool there = row < a.n && k + j < a.dim_in;
    double x = there ? (double)a.rows[(uint64_t)row * a.dim_in + k + j] : 0;
    b.y[j] = there ? x * scale - a.centre[k + j] : -0.0;
  }
  const double *t = a.matrix + (uint64_t)(first + threadIdx.x / 16) * a.columns +
                    blockIdx.x * EDGE + (threadIdx.x & 15) * 2;
  b.t[0] = *(const double2 *)t;
  b.t[1] = *(const double2 *)(t + EDGE / 2);
  return b;
}

__device__ __forceinline__ void keep(const map_part &b, double (*y)[LENGTH], double (*t)[LENGTH]) {
#pragma unroll
  for (uint32_t j = 0; j < 4; j++) y[(threadIdx.x & 3) * 4 + j][threadIdx.x / 4] = b.y[j];
  double *to = &t[threadIdx.x / 16][(threadIdx.x & 15) * 2];
  *(double2 *)to = b.t[0];
  *(double2 *)(to + EDGE / 2) = b.t[1];
}

__device__ __forceinline__ void add_products(double (&sum)[4][4], const double (*y)[LENGTH],
                                             const double (*t)[LENGTH]) {
  const uint32_t row = threadIdx.x / 16 * 2, column = (threadIdx.x & 15) * 2;
#pragma unroll
  for (uint32_t k = 0; k < DEPTH; k++) {
    double2 y0 = *(const double2 *)&y[k][row], y1 = *(const double2 *)&y[k][row + EDGE / 2];
    double2 t0 = *(const double2 *)&t[k][column], t1 = *(const double2 *)&t[k][column + EDGE / 2];
    const double a[4] = {y0.x, y0.y, y1.x, y1.y}, b[4] = {t0.x, t0.y, t1.x, t1.y};
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
      for (int j = 0; j < 4; j++) sum[i][j] = __fma_rn(a[i], b[j], sum[i][j]);
  }
}

__global__ void __launch_bounds__(THREADS, 2) multiply(const __grid_constant__ map_args a) {
  __shared__ __align__(16) double y[2][DEPTH][LENGTH], t[2][DEPTH][LENGTH];
  const uint32_t row = blockIdx.y * EDGE + threadIdx.x / 4; /* that this thread loads */
  double norm2 = row < a.n ? a.norm2[row] : 0, sum[4][4] = {};
  const double scale = !a.normalized ? 1 : norm2 > 0 ? 1 / sqrt(norm2) : 0;
  map_part next = bring(a, row, scale, 0);
  keep(next, y[0], t[0]);
  __syncthreads();
  for (uint32_t k = 0; k < a.depth; k += DEPTH) {
    const uint32_t here = k / DEPTH & 1;
    if (k + DEPTH < a.depth) next = bring(a, row, scale, k + DEPTH);
    add_products(sum, y[here], t[here]);
    if (k + DEPTH < a.depth) keep(next, y[here ^ 1], t[here ^ 1]);
    __syncthreads();
  }
  const uint32_t first = blockIdx.y * EDGE + threadIdx.x / 16 * 2;
  const uint32_t column = blockIdx.x * EDGE + (threadIdx.x & 15) * 2;
#pragma unroll
  for (uint32_t i = 0; i < 4; i++) {
    uint32_t at = first + (i & 1) + (i >> 1) * (EDGE / 2);
    double *z = a.z + (uint64_t)at * a.columns + column;
    if (at >= a.n) continue;
    *(double2 *)z = make_double2(sum[i][0], sum[i][1]);
    *(double2 *)(z + EDGE / 2) = make_double2(sum[i][2], sum[i][3]);
  }
}

/* Eight threads for each row: scale it to unit length and convert it to f32. */
__global__ void __launch_bounds__(128) finish(const __grid_constant__ map_args a) {
  const uint32_t row = (blockIdx.x * blockDim.x + threadIdx.x) / 8, lane = threadIdx.x & 7;
  if (row >= a.n) return; /* all eight */
  const double *z = a.z + (uint64_t)row * a.columns;
  float *out = a.out + (uint64_t)row * a.dim_out;
  const bool zero = a.norm2[row] == 0;
  double square = 0, scale = 1;
  for (uint32_t j = lane; a.unit && j < a.dim_out; j += 8) square = fma(z[j], z[j], square);
  square = kf_add_lanes(square);
  if (a.unit) scale = 1 / sqrt(square);
  bool odd = a.unit && !(square > 1e-280 && square < 1e280);
  for (uint32_t j = lane; j < a.dim_out; j += 8) {
    float x = (float)(z[j] * scale);
    odd = odd || !isfinite(x);
    out[j] = zero ? 0 : x;
  }
  if (odd && !zero) atomicMin(a.odd, row);
}

/* --- room ------------------------------------------------------------------------------------- */

static void describe(kf_dev_map *m, const kf_dev_map_plan *plan) {
  m->dim_in = plan->dim_in;
  m->dim_out = plan->dim_out;
  m->batch = plan->batch;
  m->slots = plan->slots;
  m->normalized = plan->normalized != 0;
  m->unit = plan->unit != 0;
  m->depth = (uint32_t)round_up(plan->dim_in, DEPTH);
  m->columns = (uint32_t)round_up(plan->dim_out, EDGE);
}

static void take_all(kf_dev_map *m, kf_cuda_room *r) {
  uint64_t batch = m->batch;
  kf_cuda_array(r, &m->matrix, (uint64_t)m->depth * m->columns);
  kf_cuda_array(r, &m->centre, m->depth);
  for (uint32_t i = 0; i < m->slots; i++) {
    map_slot *s = &m->slot[i];
    kf_cuda_array(r, &s->rows, batch * m->dim_in);
    kf_cuda_array(r, &s->norm2, batch);
    kf_cuda_array(r, &s->z, batch * m->columns);
    kf_cuda_array(r, &s->out, batch * m->dim_out);
    kf_cuda_array(r, &s->odd, 1);
  }
}

void kf_cuda_map_free(kf_dev *dev, kf_dev_map *m) {
  if (m == NULL) return;
  cudaSetDevice(dev->number);
  for (uint32_t i = 0; i < m->slots; i++) {
    kf_slot_end(&m->slot[i].at);
    if (m->slot[i].told != NULL) cudaFreeHost(m->slot[i].told);
  }
  kf_cuda_release(&m->arena);
  delete m;
}

/* Matrix and centre, with zeros around them. */
static cudaError_t fill(kf_dev_map *m, const kf_dev_map_plan *plan) {
  cudaStream_t stream = m->dev->stream;
  uint64_t line = m->columns * sizeof(double), given = m->dim_out * sizeof(double);
  cudaError_t error = cudaMemsetAsync(m->matrix, 0, m->depth * line, stream);
  if (error == cudaSuccess)
    error = cudaMemcpy2DAsync(m->matrix, line, plan->transposed, given, given, m->dim_in,
                              cudaMemcpyDefault, stream);
  if (error == cudaSuccess)
    error = cudaMemsetAsync(m->centre, 0, m->depth * sizeof *m->centre, stream);
  if (error == cudaSuccess && plan->centre != NULL)
    error = cudaMemcpyAsync(m->centre, plan->centre, m->dim_in * sizeof *m->centre,
                            cudaMemcpyDefault, stream);
  return error == cudaSuccess ? cudaStreamSynchronize(stream) : error;
}

static cudaError_t make(kf_dev_map *m, const kf_dev_map_plan *plan) {
  kf_cuda_room r = {&m->arena, 0};
  take_all(m, &r);
  cudaError_t error = m->arena.error;
  for (uint32_t i = 0; error == cudaSuccess && i < m->slots; i++) {
    error = kf_slot_make(&m->slot[i].at);
    if (error == cudaSuccess)
      error = cudaHostAlloc(&m->slot[i].told, sizeof(uint32_t), cudaHostAllocDefault);
  }
  return error == cudaSuccess ? fill(m, plan) : error;
}

kf_dev_status kf_cuda_map_new(kf_dev *dev, const kf_dev_map_plan *plan, kf_dev_map **out) {
  *out = NULL;
  if (plan->dim_in < 1 || plan->dim_out < 1 || plan->batch < 1 || plan->batch > 1u << 16 ||
      plan->slots < 1 || plan->slots > KF_DEV_SLOTS)
    return kf_cuda_refuse(dev, KF_DEV_FAILED, "a map of an impossible size");
  KF_CUDA(dev, cudaSetDevice(dev->number), "using");
  kf_dev_map *m = new (std::nothrow) kf_dev_map();
  if (m == NULL) return kf_cuda_refuse(dev, KF_DEV_FAILED, "out of memory");
  m->dev = dev;
  describe(m, plan);
  cudaError_t error = make(m, plan);
  if (error != cudaSuccess) {
    kf_dev_status status = kf_cuda_fail(dev, error, "making room for a map");
    kf_cuda_map_free(dev, m);
    return status;
  }
  *out = m;
  return KF_DEV_OK;
}

/* --- mapping ---------------------------------------------------------------------------------- */

kf_dev_status kf_cuda_map_put(kf_dev_map *m, uint32_t slot, const float *rows, const double *norm2,
                              uint32_t n, float *out) {
  kf_dev *dev = m->dev;
  const char *what = "mapping rows";
  if (slot >= m->slots || n < 1 || n > m->batch)
    return kf_cuda_refuse(dev, KF_DEV_FAILED, "more rows than there is room for");
  map_slot *s = &m->slot[slot];
  cudaStream_t stream = s->at.stream;
  uint64_t in = (uint64_t)n * m->dim_in, mapped = (uint64_t)n * m->dim_out;
  map_args a = {s->rows, s->norm2,  m->matrix,  m->centre, s->z,       s->out,        s->odd,
                n,       m->dim_in, m->dim_out, m->depth,  m->columns, m->normalized, m->unit};
  KF_CUDA(dev, cudaSetDevice(dev->number), "using");
  KF_CUDA(dev, cudaMemcpyAsync(s->rows, rows, in * sizeof *rows, cudaMemcpyDefault, stream), what);
  KF_CUDA(dev, cudaMemcpyAsync(s->norm2, norm2, n * sizeof *norm2, cudaMemcpyDefault, stream),
          what);
  KF_CUDA(dev, cudaMemsetAsync(s->odd, 0xff, sizeof *s->odd, stream), what);
  multiply<<<dim3(m->columns / EDGE, (n + EDGE - 1) / EDGE), THREADS, 0, stream>>>(a);
  finish<<<(n + 15) / 16, 128, 0, stream>>>(a);
  KF_CUDA(dev, cudaGetLastError(), what);
  KF_CUDA(dev, cudaMemcpyAsync(out, s->out, mapped * sizeof *out, cudaMemcpyDefault, stream), what);
  KF_CUDA(dev, cudaMemcpyAsync(s->told, s->odd, sizeof *s->odd, cudaMemcpyDefault, stream), what);
  KF_CUDA(dev, cudaEventRecord(s->at.done, stream), what);
  return KF_DEV_OK;
}

kf_dev_status kf_cuda_map_wait(kf_dev_map *m, uint32_t slot, uint32_t *odd, char *message,
                               size_t size) {
  const map_slot *s = &m->slot[slot];
  kf_dev_status status = kf_slot_wait(m->dev, &s->at, "mapping rows", message, size);
  *odd = status == KF_DEV_OK ? *s->told + 1 : 0; /* UINT32_MAX: none */
  return status;
}
