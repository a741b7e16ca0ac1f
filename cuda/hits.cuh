/* hits.cuh - shared by both first passes: collecting survivors and dividing the work. */
#ifndef KF_CUDA_HITS_CUH
#define KF_CUDA_HITS_CUH

#include "search.cuh"

/* A warp's list of survivors. The count is in shared memory, since lanes append independently.
 * Block number `warp` is the warp's first; further ones come from a counter. What does not fit goes
 * to block n_blocks. */
struct kf_hit_writer {
  const kf_pass &p;
  uint32_t block;
  uint32_t *found;
  uint2 *to;
  __device__ __forceinline__ kf_hit_writer(const kf_pass &pass, uint32_t warp, uint32_t *shared)
      : p(pass), block(pass.first_block + warp), found(shared),
        to(pass.hits + (uint64_t)block * KF_HIT_BLOCK) {}
  __device__ __forceinline__ void add(uint32_t query, uint32_t place) {
    to[atomicAdd(found, 1u)] = make_uint2(p.first_query + query, place);
  }
  /* Called by all lanes. */
  __device__ __forceinline__ void close() {
    __syncwarp();
    if ((threadIdx.x & 31) == 0) {
      uint32_t n = *(volatile uint32_t *)found;
      if (block < p.n_blocks) p.filled[block] = n;
      atomicAdd(p.counters + KF_ALL_HITS, (unsigned long long)n);
    }
  }
  __device__ __forceinline__ void make_room() {
    if (*(volatile uint32_t *)found <= KF_HIT_BLOCK - KF_HIT_ROOM) return;
    close();
    if ((threadIdx.x & 31) == 0) {
      unsigned long long next = atomicAdd(p.counters + KF_NEXT_BLOCK, 1ull);
      block = next < p.n_blocks ? (uint32_t)next : p.n_blocks;
      *found = 0;
    }
    block = __shfl_sync(~0u, block, 0);
    to = p.hits + (uint64_t)block * KF_HIT_BLOCK;
    __syncwarp();
  }
};

/* Sets the number of chunks and returns the blocks of the grid, at most one for each processor. A
 * chunk should stay in the second-level cache while all strips of queries pass over it, and the
 * last round of items should be full. */
static inline uint32_t kf_share_out(const kf_dev *dev, kf_pass *p, uint64_t tile_bytes) {
  const uint64_t cached = 25u << 20, start = 6; /* the cost of starting an item, in tiles */
  uint32_t processors = (uint32_t)dev->processors;
  uint64_t most = cached / tile_bytes, best_cost = UINT64_MAX;
  if (most > 340) most = 340;
  uint32_t least = (uint32_t)((p->n_tiles + most - 1) / most);
  if (p->n_groups < 2) least = 1; /* no chunk is read twice */
  uint32_t last = least + 4 * processors < p->n_tiles ? least + 4 * processors : p->n_tiles;
  for (uint32_t chunks = least; chunks <= last; chunks++) {
    uint64_t items = (uint64_t)chunks * p->n_groups;
    uint64_t rounds = (items + processors - 1) / processors;
    uint64_t cost = rounds * ((p->n_tiles + chunks - 1) / chunks + start);
    if (cost < best_cost) {
      best_cost = cost;
      p->n_chunks = chunks;
    }
  }
  uint64_t items = (uint64_t)p->n_chunks * p->n_groups;
  return items < processors ? (uint32_t)items : processors;
}

#endif
