/* scan_wgmma.cu - the first pass on Hopper: products of bytes by wgmma, thresholds in the epilogue.
 *
 * A block holds a strip of queries in shared memory while tiles of rows stream past. Three of its
 * four warpgroups multiply, 64 queries by 192 rows at a time, and look for sums that reach the
 * query's threshold in the tile. One warp of the fourth has the copy engine fill a ring of stages;
 * its other three compute the thresholds of the next tile. Sums never leave the registers: a warp
 * produces a list of (query, row).
 *
 * A stage is a whole tile if rows are short, or 128 columns of a tile if they are long. The copy
 * engine fills in zeros for columns that do not exist. */
#include "hits.cuh"
#include "search.cuh"
#include "wgmma.cuh"

#include <cudaTypedefs.h>

#define TILE ((int)KF_TILE_ROWS)

/* Long: a stage holds 128 columns, the last one STEPS * 32. */
template <int WARPGROUPS, int BLOCKS, int STEPS, bool LONG> struct shape {
  static constexpr int width = LONG || STEPS > 2 ? 128 : 32 * STEPS;
  static constexpr int chunks = LONG ? 1 : (32 * STEPS + width - 1) / width; /* of a stage */
  static constexpr int queries = WARPGROUPS * BLOCKS * 64;
  static constexpr int stage_bytes = chunks * TILE * width;
  static constexpr int threads = (WARPGROUPS + 1) * 128;
  static constexpr int warps = WARPGROUPS * 4;
  static constexpr int tail(int stages) { /* not filled by the copy engine */
    return 16 * stages + 16 + queries * 16 + stages * queries * 4 + warps * 4;
  }
  __host__ __device__ static constexpr int query_bytes(int columns) {
    return queries * columns * width;
  }
  static constexpr size_t bytes(int columns, int stages) {
    return 1024 + (size_t)query_bytes(columns) + (size_t)stages * stage_bytes + tail(stages);
  }
};

/* The layout of shared memory; columns: of `width` bytes. */
struct layout {
  uint32_t queries, stages, full, empty, query_full, query_empty;
  int32_t *threshold;     /* [stages][queries] */
  kf_query_bound *bounds; /* [queries] */
  uint32_t *found;        /* [warps] */
};

template <class S>
__device__ __forceinline__ layout lay_out(uint8_t *raw, int columns, int stages) {
  layout l;
  uint32_t start = kf_shared(raw), skip = (1024 - (start & 1023)) & 1023;
  l.queries = start + skip;
  l.stages = l.queries + S::query_bytes(columns);
  l.full = l.stages + stages * S::stage_bytes;
  l.empty = l.full + 8 * stages;
  l.query_full = l.empty + 8 * stages;
  l.query_empty = l.query_full + 8;
  l.bounds = (kf_query_bound *)(raw + (l.query_empty + 8 - start));
  l.threshold = (int32_t *)(l.bounds + S::queries);
  l.found = (uint32_t *)(l.threshold + stages * S::queries);
  return l;
}

struct ring {
  int at, stages;
  uint32_t parity;
  __device__ __forceinline__ void next() {
    if (++at == stages) {
      at = 0;
      parity ^= 1;
    }
  }
};

__device__ __forceinline__ uint32_t tiles_of(const kf_pass &p, uint32_t chunk) {
  return (p.n_tiles - chunk + p.n_chunks - 1) / p.n_chunks;
}

/* One thread: fills stages. */
template <class S>
__device__ __forceinline__ void supply(const CUtensorMap *query_map, const CUtensorMap *row_map,
                                       const kf_pass &p, const layout &l, int columns,
                                       int per_tile) {
  ring r = {0, (int)p.stages, 0};
  uint32_t query_parity = 1;
  for (uint32_t item = blockIdx.x; item < p.n_chunks * p.n_groups; item += gridDim.x) {
    uint32_t chunk = item / p.n_groups, group = item % p.n_groups;
    kf_barrier_wait(l.query_empty, query_parity);
    query_parity ^= 1;
    kf_barrier_expect(l.query_full, S::query_bytes(columns));
    for (int c = 0; c < columns; c++)
      for (int b = 0; b < S::queries; b += 64)
        kf_copy_box(l.queries + (c * S::queries + b) * S::width, query_map, l.query_full,
                    c * S::width, (int)(group * S::queries) + b);
    uint32_t n = tiles_of(p, chunk);
    for (uint32_t i = 0; i < n; i++) {
      int row = (int)kf_tile_of(p, chunk + i * p.n_chunks) * TILE;
      for (int part = 0; part < per_tile; part++, r.next()) {
        kf_barrier_wait(l.empty + 8 * r.at, r.parity ^ 1);
        kf_barrier_expect(l.full + 8 * r.at, S::stage_bytes);
        for (int c = 0; c < S::chunks; c++)
          kf_copy_box(l.stages + r.at * S::stage_bytes + c * TILE * S::width, row_map,
                      l.full + 8 * r.at, (part + c) * S::width, row);
      }
    }
  }
}

/* Three warps: thresholds, with the last stage of each tile. */
template <class S, bool MAXIMA>
__device__ __forceinline__ void set_thresholds(const kf_pass &p, const layout &l, int per_tile) {
  ring r = {0, (int)p.stages, 0};
  const int thread = (int)threadIdx.x - S::warps * 32 - 32;
  for (uint32_t item = blockIdx.x; item < p.n_chunks * p.n_groups; item += gridDim.x) {
    uint32_t chunk = item / p.n_groups, first = item % p.n_groups * S::queries;
    if (!MAXIMA)
      for (int i = thread; i < S::queries; i += 96)
        l.bounds[i] =
            first + i < p.n_queries ? p.query_bounds[first + i] : make_float4(0, 0, 0, -1);
    uint32_t n = tiles_of(p, chunk);
    for (uint32_t i = 0; i < n; i++) {
      kf_tile_bound tile;
      if (!MAXIMA) tile = p.tile_bounds[kf_tile_of(p, chunk + i * p.n_chunks)];
      for (int part = 0; part < per_tile; part++, r.next()) {
        kf_barrier_wait(l.empty + 8 * r.at, r.parity ^ 1);
        if (!MAXIMA && part == per_tile - 1)
          for (int q = thread; q < S::queries; q += 96)
            l.threshold[r.at * S::queries + q] = kf_threshold(l.bounds[q], tile);
        kf_barrier_arrive(l.full + 8 * r.at);
      }
    }
  }
}

/* Of 64 queries by some rows a thread holds N / 2 sums for each of two queries, in pairs eight
 * columns apart. Finds the largest in each of GROUPS parts of these. */
template <int GROUPS> struct maxima_of { int32_t part[2][GROUPS]; };
template <int GROUPS, int N>
__device__ __forceinline__ maxima_of<GROUPS> find_maxima(const int32_t (&d)[N]) {
  constexpr int each = N / GROUPS;
  maxima_of<GROUPS> m;
#pragma unroll
  for (int g = 0; g < GROUPS; g++) {
    int32_t x = max(d[each * g], d[each * g + 1]), y = max(d[each * g + 2], d[each * g + 3]);
#pragma unroll
    for (int o = each * g + 4; o < each * (g + 1); o += 4) {
      x = __vimax3_s32(x, d[o], d[o + 1]);
      y = __vimax3_s32(y, d[o + 2], d[o + 3]);
    }
    m.part[0][g] = x;
    m.part[1][g] = y;
  }
  return m;
}
#define PARTS 3 /* of a whole tile: of 16 sums each */

__device__ __forceinline__ void write_maxima(const maxima_of<PARTS> &m, const kf_pass &p,
                                             uint32_t query, uint32_t tile, int lane) {
#pragma unroll
  for (int h = 0; h < 2; h++) {
    int32_t most = __vimax3_s32(m.part[h][0], m.part[h][1], m.part[h][2]);
    most = max(most, __shfl_xor_sync(~0u, most, 1));
    most = max(most, __shfl_xor_sync(~0u, most, 2));
    if (query + 8 * h >= p.n_queries) continue;
    int32_t *to = p.maxima + ((uint64_t)(query + 8 * h) * p.n_tiles + tile) * p.parts;
    if (p.parts == 1) {
      if ((lane & 3) == 0) *to = most;
    } else {
#pragma unroll
      for (int g = 0; g < 3; g++) to[4 * g + (lane & 3)] = m.part[h][g];
    }
  }
}

__device__ __forceinline__ void take_hits(const int32_t (&d)[96], const maxima_of<PARTS> &m,
                                          int32_t t0, int32_t t1, uint32_t query, uint32_t row,
                                          kf_hit_writer &w) {
  w.make_room();
#pragma unroll
  for (int h = 0; h < 2; h++) {
    int32_t t = h ? t1 : t0;
#pragma unroll
    for (int g = 0; g < 3; g++) {
      if (m.part[h][g] < t) continue;
      uint32_t mask = 0;
#pragma unroll
      for (int j = 0; j < 8; j++) {
        int o = 32 * g + 4 * j + 2 * h;
        if (d[o] >= t) mask |= 1u << 2 * j;
        if (d[o + 1] >= t) mask |= 2u << 2 * j;
      }
      while (mask) {
        uint32_t b = __ffs(mask) - 1;
        mask &= mask - 1;
        w.add(query + 8 * h, row + 64 * g + (b >> 1) * 8 + (b & 1));
      }
    }
  }
  __syncwarp();
}

/* The products of 64 queries from `first` on with a tile that comes in stages of 128 columns.
 * Releases all stages but the last. */
template <class S, int STEPS>
__device__ __forceinline__ void multiply_stages(int32_t (&d)[96], const layout &l, ring &r,
                                                int first, int columns) {
  int before = 0;
#pragma unroll 1
  for (int c = 0; c + 1 < columns; c++) {
    kf_barrier_wait(l.full + 8 * r.at, r.parity);
    uint64_t a = kf_operand<128>(l.queries + (c * S::queries + first) * 128);
    uint64_t b = kf_operand<128>(l.stages + r.at * S::stage_bytes);
    kf_pin(d);
    kf_wgmma_fence();
#pragma unroll
    for (int k = 0; k < 4; k++) kf_wgmma(d, a + 2 * k, b + 2 * k, c > 0 || k > 0);
    kf_wgmma_commit();
    if (c > 0) {
      kf_wgmma_wait<1>();
      kf_barrier_arrive(l.empty + 8 * before);
    }
    before = r.at;
    r.next();
  }
  kf_barrier_wait(l.full + 8 * r.at, r.parity);
  uint64_t a = kf_operand<128>(l.queries + ((columns - 1) * S::queries + first) * 128);
  uint64_t b = kf_operand<128>(l.stages + r.at * S::stage_bytes);
  kf_pin(d);
  kf_wgmma_fence();
#pragma unroll
  for (int k = 0; k < STEPS; k++) kf_wgmma(d, a + 2 * k, b + 2 * k, 1);
  kf_wgmma_commit();
  kf_wgmma_wait<1>();
  kf_barrier_arrive(l.empty + 8 * before);
}

/* The same with a tile that is one stage. */
template <class S, int STEPS>
__device__ __forceinline__ void multiply_whole(int32_t (&d)[96], const layout &l, const ring &r,
                                               int first) {
  kf_pin(d);
  kf_wgmma_fence();
#pragma unroll
  for (int c = 0; c < S::chunks; c++) {
    uint64_t a = kf_operand<S::width>(l.queries + (c * S::queries + first) * S::width);
    uint64_t b = kf_operand<S::width>(l.stages + r.at * S::stage_bytes + c * TILE * S::width);
#pragma unroll
    for (int k = 0; k < S::width / 32 && c * (S::width / 32) + k < STEPS; k++)
      kf_wgmma(d, a + 2 * k, b + 2 * k, c > 0 || k > 0);
  }
  kf_wgmma_commit();
}

/* All warps but those of the last warpgroup: products and hits. */
template <class S, int BLOCKS, int STEPS, bool LONG, bool MAXIMA>
__device__ __forceinline__ void multiply(const kf_pass &p, const layout &l, int columns) {
  ring r = {0, (int)p.stages, 0};
  const int warp = threadIdx.x / 32, lane = threadIdx.x & 31;
  const int mine = (warp & 3) * 16 + lane / 4;
  uint32_t query_parity = 0;
  kf_hit_writer w(p, blockIdx.x * S::warps + warp, l.found + warp);
  int32_t d[96];
  for (uint32_t item = blockIdx.x; item < p.n_chunks * p.n_groups; item += gridDim.x) {
    uint32_t chunk = item / p.n_groups, group = item % p.n_groups, n = tiles_of(p, chunk);
    kf_barrier_wait(l.query_full, query_parity);
    query_parity ^= 1;
#pragma unroll 1
    for (uint32_t i = 0; i < n; i++) {
      if (!LONG) kf_barrier_wait(l.full + 8 * r.at, r.parity);
#pragma unroll 1
      for (int block = 0; block < BLOCKS; block++) {
        int first = (warp / 4 * BLOCKS + block) * 64;
        if (LONG)
          multiply_stages<S, STEPS>(d, l, r, first, columns);
        else
          multiply_whole<S, STEPS>(d, l, r, first);
        const int32_t *threshold = l.threshold + r.at * S::queries + first + mine;
        int32_t t0 = threshold[0], t1 = threshold[8];
        kf_wgmma_wait<0>();
        kf_pin(d);
        if (block == BLOCKS - 1) {
          kf_barrier_arrive(l.empty + 8 * r.at);
          r.next();
        }
        maxima_of<PARTS> m = find_maxima<PARTS>(d);
        uint32_t query = group * S::queries + first + mine, tile = chunk + i * p.n_chunks;
        if (MAXIMA) {
          write_maxima(m, p, query, tile, lane);
        } else {
          int32_t m0 = __vimax3_s32(m.part[0][0], m.part[0][1], m.part[0][2]);
          int32_t m1 = __vimax3_s32(m.part[1][0], m.part[1][1], m.part[1][2]);
          if (__any_sync(~0u, m0 >= t0 || m1 >= t1))
            take_hits(d, m, t0, t1, query, kf_tile_of(p, tile) * TILE + (lane & 3) * 2, w);
        }
      }
    }
    kf_barrier_arrive(l.query_empty);
  }
  if (!MAXIMA) w.close();
}

/* --- short rows ------------------------------------------------------------------------------- */

#define QUARTERS 2 /* of half a tile: of twelve sums each */

__device__ __forceinline__ void take_coarse(const maxima_of<QUARTERS> &m, int32_t t0, int32_t t1,
                                            uint32_t query, uint32_t code, kf_hit_writer &w) {
  int32_t m0 = max(m.part[0][0], m.part[0][1]), m1 = max(m.part[1][0], m.part[1][1]);
  if (!__any_sync(~0u, m0 >= t0 || m1 >= t1)) return;
  w.make_room();
#pragma unroll
  for (int h = 0; h < 2; h++)
#pragma unroll
    for (int g = 0; g < 2; g++)
      if (m.part[h][g] >= (h ? t1 : t0)) w.add(query + 8 * h, code + 4 * g);
  __syncwarp();
}

/* A warpgroup's queries as a thread holds them for wgmma: of each block and 32 columns, four
 * columns of its two queries, and four more, 16 columns further on. */
template <int BLOCKS, int STEPS> struct kept_queries { uint32_t at[BLOCKS][STEPS][4]; };
template <class S, int BLOCKS, int STEPS>
__device__ __forceinline__ void keep_queries(const layout &l, int mine, int lane,
                                             kept_queries<BLOCKS, STEPS> &kept) {
#pragma unroll
  for (int b = 0; b < BLOCKS; b++)
#pragma unroll
    for (int k = 0; k < STEPS; k++)
#pragma unroll
      for (int i = 0; i < 4; i++) {
        int query = mine + 64 * b + 8 * (i & 1), column = 32 * k + 16 * (i >> 1) + 4 * (lane & 3);
        kept.at[b][k][i] = kf_load_swizzled<S::width>(l.queries + query * S::width + column);
      }
}

/* One half of a tile is multiplied while the other half is compared. Queries are in registers, so
 * that shared memory delivers rows alone. Handling a hit does not look at sums, which may have
 * changed by then. */
template <class S, int BLOCKS, int STEPS>
__device__ __forceinline__ void multiply_short(const kf_pass &p, const layout &l) {
  ring r = {0, (int)p.stages, 0};
  const int warp = threadIdx.x / 32, lane = threadIdx.x & 31, warpgroup = warp / 4;
  const int mine = warpgroup * BLOCKS * 64 + (warp & 3) * 16 + lane / 4;
  uint32_t query_parity = 0;
  kf_hit_writer w(p, blockIdx.x * S::warps + warp, l.found + warp);
  int32_t d[2][48];
  kept_queries<BLOCKS, STEPS> kept;
  for (uint32_t item = blockIdx.x; item < p.n_chunks * p.n_groups; item += gridDim.x) {
    uint32_t chunk = item / p.n_groups, group = item % p.n_groups, n = tiles_of(p, chunk);
    uint32_t query = group * S::queries + mine;
    kf_barrier_wait(l.query_full, query_parity);
    query_parity ^= 1;
    keep_queries<S>(l, mine, lane, kept);
    kf_barrier_arrive(l.query_empty); /* the next item's may come */
#pragma unroll 1
    for (uint32_t i = 0; i < n; i++) {
      const uint32_t code = kf_tile_of(p, chunk + i * p.n_chunks) * 16 + (lane & 3);
      const int32_t *threshold = l.threshold + r.at * S::queries + mine;
      const uint32_t b0 = kf_once(kf_place(l.stages + r.at * S::stage_bytes));
      int32_t t0, t1;
      auto issue = [&](int x) { /* block x / 2, half x % 2 */
                                uint64_t b = kf_operand_at<S::width>(
                                    b0 + x % 2 * (TILE / 2 * S::width / 16));
                                kf_pin(d[x % 2]);
                                kf_wgmma_fence();
#pragma unroll
                                for (int k = 0; k < STEPS; k++)
                                  kf_wgmma(d[x % 2], kept.at[x / 2][k], b + 2 * k, k > 0);
                                kf_wgmma_commit();
      };
      kf_barrier_wait(l.full + 8 * r.at, r.parity);
      issue(0);
      issue(1);
#pragma unroll
      for (int x = 0; x < 2 * BLOCKS; x++) {
        if (x % 2 == 0) {
          t0 = threshold[x / 2 * 64];
          t1 = threshold[x / 2 * 64 + 8];
        }
        if (x + 1 < 2 * BLOCKS)
          kf_wgmma_wait<1>();
        else
          kf_wgmma_wait<0>();
        kf_pin(d[x % 2]);
        maxima_of<QUARTERS> m = find_maxima<QUARTERS>(d[x % 2]);
        if (x + 2 < 2 * BLOCKS) issue(x + 2);
        if (x == 2 * BLOCKS - 1) {
          kf_barrier_arrive(l.empty + 8 * r.at);
          r.next();
        }
        take_coarse(m, t0, t1, query + x / 2 * 64, code + x % 2 * 8, w);
      }
    }
  }
  w.close();
}

/* --- the kernel ------------------------------------------------------------------------------- */

enum { HITS, MAXIMA_ONLY, COARSE };

template <int WARPGROUPS, int BLOCKS, int STEPS, bool LONG, int TASK>
__global__ void __launch_bounds__((WARPGROUPS + 1) * 128, 1)
    scan(const __grid_constant__ CUtensorMap query_map, const __grid_constant__ CUtensorMap row_map,
         const __grid_constant__ kf_pass p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  using S = shape<WARPGROUPS, BLOCKS, STEPS, LONG>;
  extern __shared__ uint8_t raw[];
  const int columns = LONG ? (int)(p.padded + 127) / 128 : S::chunks;
  const int per_tile = LONG ? columns : 1;
  layout l = lay_out<S>(raw, columns, (int)p.stages);
  const int warp = __shfl_sync(~0u, (int)threadIdx.x / 32, 0);
  if (threadIdx.x == 0) {
    for (int i = 0; i < (int)p.stages; i++) {
      kf_barrier_init(l.full + 8 * i, 1 + 96);
      kf_barrier_init(l.empty + 8 * i, S::warps * 32);
    }
    kf_barrier_init(l.query_full, 1);
    kf_barrier_init(l.query_empty, S::warps * 32);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async;" ::: "memory");
  }
  if (threadIdx.x < S::warps) l.found[threadIdx.x] = 0;
  __syncthreads();
  if (warp >= S::warps) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 32;");
    if (warp == S::warps) {
      if ((threadIdx.x & 31) == 0) supply<S>(&query_map, &row_map, p, l, columns, per_tile);
    } else {
      set_thresholds<S, TASK == MAXIMA_ONLY>(p, l, per_tile);
    }
  } else {
    if (WARPGROUPS == 3) asm volatile("setmaxnreg.inc.sync.aligned.u32 160;");
    if (WARPGROUPS == 2) asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    if (TASK == COARSE)
      multiply_short<S, BLOCKS, STEPS>(p, l);
    else
      multiply<S, BLOCKS, STEPS, LONG, TASK == MAXIMA_ONLY>(p, l, columns);
  }
#endif
}

/* --- launching ------------------------------------------------------------------------------- */

static bool map_bytes(const kf_dev *dev, CUtensorMap *map, const int8_t *bytes, uint32_t padded,
                      uint64_t rows, uint32_t width, uint32_t box_rows) {
  cuuint64_t size[2] = {padded, rows}, stride[1] = {padded};
  cuuint32_t box[2] = {width, box_rows}, step[2] = {1, 1};
  CUtensorMapSwizzle swizzle = width == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
                               : width == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
                                             : CU_TENSOR_MAP_SWIZZLE_32B;
  return ((PFN_cuTensorMapEncodeTiled_v12000)dev->encode)(
             map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 2, (void *)bytes, size, stride, box, step,
             CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
             CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

template <int WARPGROUPS, int BLOCKS, int STEPS, bool LONG, int TASK>
static kf_dev_status launch(kf_dev *dev, kf_pass *p) {
  using S = shape<WARPGROUPS, BLOCKS, STEPS, LONG>;
  auto kernel = scan<WARPGROUPS, BLOCKS, STEPS, LONG, TASK>;
  int columns = LONG ? (int)(p->padded + 127) / 128 : S::chunks, stages = 12;
  while (stages > 2 && S::bytes(columns, stages) > dev->shared) stages--;
  p->stages = (uint32_t)stages;
  p->n_groups = (p->n_queries + S::queries - 1) / S::queries;
  uint32_t blocks = kf_share_out(dev, p, (uint64_t)S::stage_bytes * (LONG ? columns : 1));
  CUtensorMap query_map, row_map;
  if (!map_bytes(dev, &query_map, p->queries, p->padded, p->n_queries, S::width, 64) ||
      !map_bytes(dev, &row_map, p->rows, p->padded, (uint64_t)p->all_tiles * TILE, S::width, TILE))
    return kf_cuda_refuse(dev, KF_DEV_FAILED, "the driver cannot describe rows to the copy engine");
  size_t bytes = S::bytes(columns, stages);
  KF_CUDA(dev, kf_cuda_widen(dev, kernel), "scanning");
  kernel<<<blocks, S::threads, bytes, dev->stream>>>(query_map, row_map, *p);
  KF_CUDA(dev, cudaGetLastError(), "scanning");
  return KF_DEV_OK;
}

template <int TASK> static kf_dev_status dispatch(kf_dev *dev, kf_pass *p) {
  uint32_t steps = p->padded / 32;
  if (steps == 1) return launch<3, 2, 1, false, TASK>(dev, p);
  if (steps == 2) return launch<3, 2, 2, false, TASK>(dev, p);
  if (steps == 3) return launch<3, 2, 3, false, TASK>(dev, p);
  if (steps == 4) return launch<3, 2, 4, false, TASK>(dev, p);
  if (steps <= 6) return launch<3, 1, 6, false, TASK>(dev, p);
  if (steps <= 8) return launch<3, 1, 8, false, TASK>(dev, p);
  bool half = (steps & 3) == 1 || (steps & 3) == 2; /* of the last 128 columns */
  if (steps <= 24)
    return half ? launch<3, 1, 2, true, TASK>(dev, p) : launch<3, 1, 4, true, TASK>(dev, p);
  return half ? launch<2, 1, 2, true, TASK>(dev, p) : launch<2, 1, 4, true, TASK>(dev, p);
}

bool kf_wgmma_takes(const kf_dev *dev, uint32_t padded) {
  return dev->major == 9 && dev->minor == 0 && dev->encode != NULL && padded <= 1280;
}

kf_dev_status kf_wgmma_pass(kf_dev *dev, kf_pass *pass, bool maxima) {
  return maxima ? dispatch<MAXIMA_ONLY>(dev, pass) : dispatch<HITS>(dev, pass);
}

kf_dev_status kf_wgmma_coarse(kf_dev *dev, kf_pass *pass) {
  uint32_t steps = pass->padded / 32;
  if (steps == 1) return launch<3, 3, 1, false, COARSE>(dev, pass);
  if (steps == 2) return launch<3, 3, 2, false, COARSE>(dev, pass);
  if (steps == 3) return launch<3, 2, 3, false, COARSE>(dev, pass);
  return launch<3, 2, 4, false, COARSE>(dev, pass);
}
