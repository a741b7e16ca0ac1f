/* device.cuh - an open CUDA device, its errors and its memory. Everything in cuda/ includes
 * this. */
#ifndef KF_CUDA_DEVICE_CUH
#define KF_CUDA_DEVICE_CUH

#include "device_api.h"

#include <cuda_runtime.h>

struct kf_dev {
  int number;
  int major, minor;
  int processors;
  size_t shared;       /* bytes of shared memory that a block can request */
  cudaStream_t stream; /* for the whole search, */
  cudaStream_t copies; /* except queries copied while others are searched */
  cudaEvent_t free_again, arrived;
  void *encode; /* the driver's cuTensorMapEncodeTiled; NULL before Hopper */
  void *answer; /* page-locked, KF_CUDA_ANSWER bytes, for numbers that the host waits for */
  char message[512];
};

#define KF_CUDA_ANSWER 256

/* Writes a sentence to message [size] and returns the kind of failure. */
kf_dev_status kf_cuda_say(const kf_dev *dev, cudaError_t error, const char *what, char *message,
                          size_t size);
/* The same with the device's own message. */
kf_dev_status kf_cuda_fail(kf_dev *dev, cudaError_t error, const char *what);
/* The same for an error that is not CUDA's. */
kf_dev_status kf_cuda_refuse(kf_dev *dev, kf_dev_status status, const char *sentence);

/* Returns from the caller on failure. */
#define KF_CUDA(dev, call, what)                                                                   \
  do {                                                                                             \
    cudaError_t kf_cuda_error_ = (call);                                                           \
    if (kf_cuda_error_ != cudaSuccess) return kf_cuda_fail(dev, kf_cuda_error_, what);             \
  } while (0)
#define KF_CUDA_TRY(call)                                                                          \
  do {                                                                                             \
    kf_dev_status kf_cuda_status_ = (call);                                                        \
    if (kf_cuda_status_ != KF_DEV_OK) return kf_cuda_status_;                                      \
  } while (0)

/* Lets a kernel request all shared memory. The limit belongs to the GPU and is always the same, so
 * any of its users may set it. */
template <class KERNEL> static inline cudaError_t kf_cuda_widen(const kf_dev *dev, KERNEL *kernel) {
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              (int)dev->shared);
}

/* Device memory that is freed together. After a failure nothing more is tried. */
typedef struct kf_cuda_arena {
  void *block[64];
  int n;
  cudaError_t error;
} kf_cuda_arena;
void *kf_cuda_take(kf_cuda_arena *arena, uint64_t bytes);
void kf_cuda_release(kf_cuda_arena *arena);

/* Takes arrays from an arena, or only counts their bytes if that is NULL. */
typedef struct kf_cuda_room {
  kf_cuda_arena *arena;
  uint64_t bytes;
} kf_cuda_room;
template <class T> static inline void kf_cuda_array(kf_cuda_room *r, T **array, uint64_t n) {
  r->bytes += n * sizeof **array + 512;
  if (r->arena != NULL) *array = (T *)kf_cuda_take(r->arena, n * sizeof **array);
}

#endif
