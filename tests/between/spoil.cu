/* spoil.cu - real faults of a GPU, for between.c: libkoofu-spoil.so shares the context of the plug-in. */
#include <cuda_runtime.h>

#include <stdint.h>

#define VISIBLE extern "C" __attribute__((visibility("default")))

__global__ void trap() { asm volatile("trap;"); }

/* The context fails for good. 0: it has. */
VISIBLE int kf_spoil_trap(void) {
  trap<<<1, 1>>>();
  return cudaDeviceSynchronize() == cudaSuccess;
}

#define CHUNKS 64
#define LEAST  ((size_t)2 << 20) /* the least that the driver hands out */

/* Takes memory until about this many bytes are left; 0: gives it back. */
VISIBLE int kf_spoil_leave(uint64_t bytes) {
  static void *taken[CHUNKS];
  size_t left = 0, all;
  for (int i = 0; i < CHUNKS; i++) {
    cudaFree(taken[i]);
    taken[i] = NULL;
  }
  if (bytes == 0) return 0;
  for (int i = 0; i < CHUNKS; i++) {
    if (cudaMemGetInfo(&left, &all) != cudaSuccess) return 1;
    if (left < bytes + LEAST) return 0;
    size_t some = left - bytes;
    while (some >= LEAST && cudaMalloc(&taken[i], some) != cudaSuccess) some /= 2;
    cudaGetLastError();
  }
  return 1;
}
