/* slots.cuh - work that many threads put on a device, each in a slot of its own: maps and the sums
 * of softmax. */
#ifndef KF_CUDA_SLOTS_CUH
#define KF_CUDA_SLOTS_CUH

#include "device.cuh"

/* A slot has a stream, and an event that fires when its put is done. */
typedef struct kf_slot {
  cudaStream_t stream;
  cudaEvent_t done;
} kf_slot;

static inline cudaError_t kf_slot_make(kf_slot *s) {
  cudaError_t error = cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking);
  if (error != cudaSuccess) return error;
  /* Waiting threads sleep: the host's processors have other work. */
  return cudaEventCreateWithFlags(&s->done, cudaEventDisableTiming | cudaEventBlockingSync);
}

/* Finishes the put before its memory is freed. */
static inline void kf_slot_end(kf_slot *s) {
  if (s->stream != NULL) cudaStreamSynchronize(s->stream);
  if (s->done != NULL) cudaEventDestroy(s->done);
  if (s->stream != NULL) cudaStreamDestroy(s->stream);
  cudaGetLastError();
}

/* May run concurrently with other calls on the device. */
static inline kf_dev_status kf_slot_wait(const kf_dev *dev, const kf_slot *s, const char *what,
                                         char *message, size_t size) {
  cudaError_t error = cudaSetDevice(dev->number);
  if (error == cudaSuccess) error = cudaEventSynchronize(s->done);
  return error == cudaSuccess ? KF_DEV_OK : kf_cuda_say(dev, error, what, message, size);
}

#endif
