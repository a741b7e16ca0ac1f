/* canonical.cuh - canonical sums (docs/numerics.md) by eight threads, one for each lane. Nothing
 * here may be contracted; cuda/ is compiled with --fmad=false. */
#ifndef KF_CUDA_CANONICAL_CUH
#define KF_CUDA_CANONICAL_CUH

/* The mask of this thread's group of eight in its warp. */
__device__ __forceinline__ unsigned kf_eight() { return 0xffu << (threadIdx.x & 24); }

/* ((l0 + l4) + (l2 + l6)) + ((l1 + l5) + (l3 + l7)), for all eight. */
__device__ __forceinline__ double kf_add_lanes(double lane) {
  unsigned mask = kf_eight();
  lane += __shfl_xor_sync(mask, lane, 4);
  lane += __shfl_xor_sync(mask, lane, 2);
  lane += __shfl_xor_sync(mask, lane, 1);
  return lane;
}

__device__ __forceinline__ double kf_largest_of_lanes(double lane) {
  unsigned mask = kf_eight();
  lane = fmax(lane, __shfl_xor_sync(mask, lane, 4));
  lane = fmax(lane, __shfl_xor_sync(mask, lane, 2));
  return fmax(lane, __shfl_xor_sync(mask, lane, 1));
}

/* The key of a canonical score, given so that smaller is nearer. */
__device__ __forceinline__ double kf_key_of(kf_dev_metric metric, double base, double score) {
  return metric == KF_DEV_EUCLIDEAN ? (base - score) / 2 : -score - base;
}

#endif
