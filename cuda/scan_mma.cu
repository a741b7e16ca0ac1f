/* scan_mma.cu - the first pass with mma.sync, for all devices from Ampere on and rows of any width.
 * Six warps take 64 queries by 64 rows each, in steps of 64 columns. */
#include "hits.cuh"
#include "search.cuh"

#define QUERIES 128
#define TILE    ((int)KF_TILE_ROWS)
#define WIDTH   64
#define STAGES  4
#define THREADS 192
#define WARPS   6
#define STAGE   ((QUERIES + TILE) * WIDTH)
#define SHARED  (STAGES * STAGE + WARPS * 4)

/* The place of 16 bytes of a row, chosen so that neither copies nor ldmatrix have bank
 * conflicts. */
__device__ __forceinline__ uint32_t swizzled(int row, int unit) {
  return (uint32_t)(row * WIDTH + ((unit ^ (row >> 1 & 3)) << 4));
}
__device__ __forceinline__ void copy16(uint32_t to, const void *from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(there ? 16 : 0));
}
__device__ __forceinline__ void load_matrices(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}
__device__ __forceinline__ void multiply_add(int32_t (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                             uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

struct item {
  uint32_t chunk, first_query, n_steps;
};

/* Queries and rows of one step: 64 columns of a tile. */
__device__ __forceinline__ void load_step(const kf_pass &p, const item &it, uint32_t step,
                                          uint32_t columns, uint32_t shared) {
  if (step < it.n_steps) {
    uint32_t tile = kf_tile_of(p, it.chunk + step / columns * p.n_chunks);
    uint32_t column = step % columns * WIDTH, to = shared + step % STAGES * STAGE;
    for (int i = threadIdx.x; i < (QUERIES + TILE) * (WIDTH / 16); i += THREADS) {
      int row = i / (WIDTH / 16), unit = i % (WIDTH / 16);
      bool query = row < QUERIES;
      uint32_t at = column + unit * 16, number = it.first_query + row;
      bool there = at < p.padded && (!query || number < p.n_queries);
      const int8_t *from = query ? p.queries + (uint64_t)(there ? number : 0) * p.padded
                                 : p.rows + ((uint64_t)tile * TILE + (row - QUERIES)) * p.padded;
      uint32_t address =
          query ? to + swizzled(row, unit) : to + QUERIES * WIDTH + swizzled(row - QUERIES, unit);
      copy16(address, from + (there ? at : 0), there);
    }
  }
  asm volatile("cp.async.commit_group;");
}

__device__ __forceinline__ void multiply_step(int32_t (&d)[4][8][4], uint32_t stage, int wm,
                                              int wn) {
  const int lane = threadIdx.x & 31;
#pragma unroll
  for (int k = 0; k < WIDTH / 32; k++) {
    uint32_t a[4][4], b[4][4];
#pragma unroll
    for (int i = 0; i < 4; i++)
      load_matrices(a[i], stage + swizzled(wm * 64 + i * 16 + (lane & 15), k * 2 + (lane >> 4)));
#pragma unroll
    for (int j = 0; j < 4; j++)
      load_matrices(b[j], stage + QUERIES * WIDTH +
                              swizzled(wn * 64 + j * 16 + (lane & 7) + (lane >> 4 << 3),
                                       k * 2 + (lane >> 3 & 1)));
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
      for (int j = 0; j < 4; j++) {
        multiply_add(d[i][2 * j], a[i], b[j][0], b[j][1]);
        multiply_add(d[i][2 * j + 1], a[i], b[j][2], b[j][3]);
      }
  }
}

__device__ __forceinline__ int32_t largest(const int32_t (&d)[8][4], int h) {
  int32_t x = max(d[0][2 * h], d[0][2 * h + 1]);
#pragma unroll
  for (int j = 1; j < 8; j++) x = max(x, max(d[j][2 * h], d[j][2 * h + 1]));
  return x;
}

__device__ __forceinline__ void write_maxima(const int32_t (&d)[4][8][4], const kf_pass &p,
                                             uint32_t first, uint32_t tile, int wn) {
  const int lane = threadIdx.x & 31;
#pragma unroll
  for (int i = 0; i < 4; i++)
#pragma unroll
    for (int h = 0; h < 2; h++) {
      uint32_t query = first + i * 16 + lane / 4 + 8 * h;
      int32_t most = largest(d[i], h);
      int32_t *to = p.maxima + ((uint64_t)query * p.n_tiles + tile) * p.parts;
      if (p.parts > 1) {
        if (query < p.n_queries) to[4 * wn + (lane & 3)] = most;
        continue;
      }
      most = max(most, __shfl_xor_sync(~0u, most, 1));
      most = max(most, __shfl_xor_sync(~0u, most, 2));
      if (query < p.n_queries && (lane & 3) == 0) atomicMax(to, most);
    }
}

__device__ __forceinline__ void take_hits(const int32_t (&d)[4][8][4], const kf_pass &p,
                                          uint32_t first, uint32_t tile, uint32_t row,
                                          kf_hit_writer &w) {
  const int lane = threadIdx.x & 31;
  kf_tile_bound bound = p.tile_bounds[tile];
  int32_t t[4][2];
  bool any = false;
#pragma unroll
  for (int i = 0; i < 4; i++)
#pragma unroll
    for (int h = 0; h < 2; h++) {
      uint32_t query = first + i * 16 + lane / 4 + 8 * h;
      t[i][h] = query < p.n_queries ? kf_threshold(p.query_bounds[query], bound) : INT32_MAX;
      any |= largest(d[i], h) >= t[i][h];
    }
  if (!__any_sync(~0u, any)) return;
  w.make_room();
#pragma unroll
  for (int i = 0; i < 4; i++)
#pragma unroll
    for (int h = 0; h < 2; h++) {
      uint32_t mask = 0;
#pragma unroll
      for (int j = 0; j < 8; j++) {
        if (d[i][j][2 * h] >= t[i][h]) mask |= 1u << 2 * j;
        if (d[i][j][2 * h + 1] >= t[i][h]) mask |= 2u << 2 * j;
      }
      while (mask) {
        uint32_t b = __ffs(mask) - 1;
        mask &= mask - 1;
        w.add(first + i * 16 + lane / 4 + 8 * h, row + (lane & 3) * 2 + (b >> 1) * 8 + (b & 1));
      }
    }
  __syncwarp();
}

template <bool MAXIMA>
__global__ void __launch_bounds__(THREADS, 1) scan(const __grid_constant__ kf_pass p) {
  extern __shared__ __align__(1024) uint8_t raw[];
  const uint32_t shared = (uint32_t)__cvta_generic_to_shared(raw);
  const int warp = threadIdx.x / 32, wm = warp / 3, wn = warp % 3;
  const uint32_t columns = (p.padded + WIDTH - 1) / WIDTH;
  uint32_t *found = (uint32_t *)(raw + STAGES * STAGE) + warp;
  if ((threadIdx.x & 31) == 0) *found = 0;
  __syncwarp();
  kf_hit_writer w(p, blockIdx.x * WARPS + warp, found);
  int32_t d[4][8][4];
  for (uint32_t i = blockIdx.x; i < p.n_chunks * p.n_groups; i += gridDim.x) {
    uint32_t chunk = i / p.n_groups;
    uint32_t n = (p.n_tiles - chunk + p.n_chunks - 1) / p.n_chunks;
    item it = {chunk, i % p.n_groups * QUERIES, n * columns};
    __syncthreads();
    for (int s = 0; s < STAGES - 1; s++) load_step(p, it, s, columns, shared);
#pragma unroll 1
    for (uint32_t step = 0; step < it.n_steps; step++) {
      asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
      __syncthreads();
      load_step(p, it, step + STAGES - 1, columns, shared);
      if (step % columns == 0) {
#pragma unroll
        for (int x = 0; x < 4; x++)
#pragma unroll
          for (int y = 0; y < 8; y++)
#pragma unroll
            for (int z = 0; z < 4; z++) d[x][y][z] = 0;
      }
      multiply_step(d, shared + step % STAGES * STAGE, wm, wn);
      if (step % columns != columns - 1) continue;
      uint32_t number = chunk + step / columns * p.n_chunks, tile = kf_tile_of(p, number);
      uint32_t first = it.first_query + wm * 64;
      if (MAXIMA)
        write_maxima(d, p, first, number, wn);
      else
        take_hits(d, p, first, tile, tile * TILE + wn * 64, w);
    }
    asm volatile("cp.async.wait_all;");
  }
  if (!MAXIMA) w.close();
}

template <bool MAXIMA> static kf_dev_status launch(kf_dev *dev, kf_pass *p) {
  p->stages = STAGES;
  p->n_groups = (p->n_queries + QUERIES - 1) / QUERIES;
  uint32_t blocks = kf_share_out(dev, p, (uint64_t)TILE * p->padded);
  KF_CUDA(dev, kf_cuda_widen(dev, scan<MAXIMA>), "scanning");
  if (MAXIMA && p->parts == 1)
    KF_CUDA(dev,
            cudaMemsetAsync(p->maxima, 0x80, (uint64_t)p->n_queries * p->n_tiles * 4, dev->stream),
            "scanning");
  scan<MAXIMA><<<blocks, THREADS, SHARED, dev->stream>>>(*p);
  KF_CUDA(dev, cudaGetLastError(), "scanning");
  return KF_DEV_OK;
}

kf_dev_status kf_mma_pass(kf_dev *dev, kf_pass *pass, bool maxima) {
  return maxima ? launch<true>(dev, pass) : launch<false>(dev, pass);
}
