/* device.cu - devices, their memory, and the table of the plug-in. */
#include "device.cuh"
#include "search.cuh"
#include "table.h"

#include <cuda.h>

#include <new>
#include <stdio.h>
#include <string.h>

kf_dev_status kf_cuda_refuse(kf_dev *dev, kf_dev_status status, const char *sentence) {
  snprintf(dev->message, sizeof dev->message, "%s", sentence);
  return status;
}

static bool lost(cudaError_t error) {
  switch (error) {
  case cudaErrorIllegalAddress:
  case cudaErrorLaunchTimeout:
  case cudaErrorHardwareStackError:
  case cudaErrorIllegalInstruction:
  case cudaErrorMisalignedAddress:
  case cudaErrorInvalidAddressSpace:
  case cudaErrorInvalidPc:
  case cudaErrorLaunchFailure:
  case cudaErrorECCUncorrectable:
  case cudaErrorNvlinkUncorrectable:
  case cudaErrorDevicesUnavailable:
  case cudaErrorDeviceUninitialized:
  case cudaErrorContextIsDestroyed:
  case cudaErrorExternalDevice:
  case cudaErrorUnknown: return true;
  default: return false;
  }
}

kf_dev_status kf_cuda_say(const kf_dev *dev, cudaError_t error, const char *what, char *message,
                          size_t size) {
  cudaGetLastError(); /* clears the error unless it is permanent */
  snprintf(message, size, "%s on CUDA device %d: %s", what, dev->number, cudaGetErrorString(error));
  if (error == cudaErrorMemoryAllocation) return KF_DEV_MEMORY;
  return lost(error) ? KF_DEV_LOST : KF_DEV_FAILED;
}

kf_dev_status kf_cuda_fail(kf_dev *dev, cudaError_t error, const char *what) {
  return kf_cuda_say(dev, error, what, dev->message, sizeof dev->message);
}

/* --- memory ---------------------------------------------------------------------------------- */

void *kf_cuda_take(kf_cuda_arena *arena, uint64_t bytes) {
  void *block = NULL;
  if (arena->error != cudaSuccess) return NULL;
  arena->error = arena->n < (int)(sizeof arena->block / sizeof arena->block[0])
                     ? cudaMalloc(&block, bytes > 0 ? bytes : 1)
                     : cudaErrorMemoryAllocation;
  if (arena->error != cudaSuccess) return NULL;
  arena->block[arena->n++] = block;
  return block;
}

void kf_cuda_release(kf_cuda_arena *arena) {
  for (int i = 0; i < arena->n; i++) cudaFree(arena->block[i]);
  arena->n = 0;
  cudaGetLastError();
}

static kf_dev_status memory_left(kf_dev *dev, uint64_t *bytes) {
  size_t left, all;
  KF_CUDA(dev, cudaSetDevice(dev->number), "using");
  KF_CUDA(dev, cudaMemGetInfo(&left, &all), "asking for the memory left");
  *bytes = left;
  return KF_DEV_OK;
}

static void *host_alloc(kf_dev *dev, size_t bytes) {
  void *memory = NULL;
  if (cudaSetDevice(dev->number) != cudaSuccess ||
      cudaHostAlloc(&memory, bytes, cudaHostAllocPortable) != cudaSuccess) {
    cudaGetLastError();
    return NULL;
  }
  return memory;
}

static void host_free(kf_dev *dev, void *memory) {
  (void)dev;
  if (memory != NULL) cudaFreeHost(memory);
}

static int host_locked(kf_dev *dev, const void *memory) {
  cudaPointerAttributes what;
  if (cudaSetDevice(dev->number) == cudaSuccess &&
      cudaPointerGetAttributes(&what, memory) == cudaSuccess)
    return what.type == cudaMemoryTypeHost;
  cudaGetLastError();
  return 0;
}

/* --- devices --------------------------------------------------------------------------------- */

static kf_dev_status say(kf_dev_status status, const char *what, cudaError_t error, char *message,
                         size_t size) {
  cudaGetLastError();
  snprintf(message, size, "%s: %s", what, cudaGetErrorString(error));
  return status;
}

static kf_dev_status count(uint32_t *n, char *message, size_t size) {
  int devices = 0;
  *n = 0;
  cudaError_t error = cudaGetDeviceCount(&devices);
  if (error == cudaErrorNoDevice) {
    cudaGetLastError();
    return KF_DEV_OK;
  }
  if (error != cudaSuccess)
    return say(KF_DEV_NONE, "the CUDA driver cannot be used", error, message, size);
  *n = (uint32_t)devices;
  return KF_DEV_OK;
}

static kf_dev_status describe(uint32_t number, kf_dev_info *out, char *message, size_t size) {
  cudaDeviceProp p;
  int driver = 0;
  memset(out, 0, sizeof *out);
  cudaError_t error = cudaGetDeviceProperties(&p, (int)number);
  if (error == cudaSuccess) error = cudaDriverGetVersion(&driver);
  if (error != cudaSuccess) return say(KF_DEV_NONE, "no such CUDA device", error, message, size);
  snprintf(out->name, sizeof out->name, "%s", p.name);
  snprintf(out->driver, sizeof out->driver, "for CUDA %d.%d", driver / 1000, driver % 1000 / 10);
  out->memory = p.totalGlobalMem;
  out->processors = (uint32_t)p.multiProcessorCount;
  out->major = (uint32_t)p.major;
  out->minor = (uint32_t)p.minor;
  int ratio = 0;
  if (cudaDeviceGetAttribute(&ratio, cudaDevAttrSingleToDoublePrecisionPerfRatio, (int)number) ==
      cudaSuccess)
    out->f64_ratio = (uint32_t)ratio;
  return KF_DEV_OK;
}

static cudaError_t start(kf_dev *dev) {
  cudaDeviceProp p;
  cudaDriverEntryPointQueryResult found;
  cudaError_t error = cudaSetDevice(dev->number);
  if (error == cudaSuccess) error = cudaGetDeviceProperties(&p, dev->number);
  if (error != cudaSuccess) return error;
  dev->major = p.major;
  dev->minor = p.minor;
  dev->processors = p.multiProcessorCount;
  dev->shared = p.sharedMemPerBlockOptin - 1024; /* the rest is for static shared memory */
  if (p.major < 8) return cudaErrorNoKernelImageForDevice;
  if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &dev->encode, 12000,
                                       cudaEnableDefault, &found) != cudaSuccess ||
      found != cudaDriverEntryPointSuccess) {
    cudaGetLastError();
    dev->encode = NULL;
  }
  error = cudaHostAlloc(&dev->answer, KF_CUDA_ANSWER, cudaHostAllocDefault);
  if (error == cudaSuccess) error = cudaStreamCreateWithFlags(&dev->stream, cudaStreamNonBlocking);
  if (error == cudaSuccess) error = cudaStreamCreateWithFlags(&dev->copies, cudaStreamNonBlocking);
  if (error == cudaSuccess)
    error = cudaEventCreateWithFlags(&dev->free_again, cudaEventDisableTiming);
  if (error == cudaSuccess) error = cudaEventCreateWithFlags(&dev->arrived, cudaEventDisableTiming);
  return error;
}

static void close(kf_dev *dev) {
  if (dev == NULL) return;
  cudaSetDevice(dev->number);
  if (dev->arrived != NULL) cudaEventDestroy(dev->arrived);
  if (dev->free_again != NULL) cudaEventDestroy(dev->free_again);
  if (dev->copies != NULL) cudaStreamDestroy(dev->copies);
  if (dev->stream != NULL) cudaStreamDestroy(dev->stream);
  if (dev->answer != NULL) cudaFreeHost(dev->answer);
  cudaGetLastError();
  delete dev;
}

static kf_dev_status open(uint32_t number, kf_dev **out, char *message, size_t size) {
  *out = NULL;
  kf_dev *dev = new (std::nothrow) kf_dev();
  if (dev == NULL) {
    snprintf(message, size, "out of memory");
    return KF_DEV_FAILED;
  }
  dev->number = (int)number;
  cudaError_t error = start(dev);
  if (error != cudaSuccess) {
    kf_dev_status status = error == cudaErrorMemoryAllocation ? KF_DEV_MEMORY : KF_DEV_NONE;
    say(status, "opening a CUDA device", error, message, size);
    close(dev);
    return status;
  }
  *out = dev;
  return KF_DEV_OK;
}

static const char *message_of(const kf_dev *dev) { return dev->message; }

static kf_dev_status wait(kf_dev *dev) {
  KF_CUDA(dev, cudaSetDevice(dev->number), "using");
  KF_CUDA(dev, cudaDeviceSynchronize(), "waiting");
  return KF_DEV_OK;
}

#define TEXT_OF(x) TEXT(x)
#define TEXT(x)    #x
#define KF_CUDA_BUILD                                                                              \
  "CUDA " TEXT_OF(__CUDACC_VER_MAJOR__) "." TEXT_OF(__CUDACC_VER_MINOR__) ", sm_80 sm_90a"

/* --- the table ------------------------------------------------------------------------------- */

static const kf_device_api table = {KF_DEVICE_VERSION,
                                    sizeof(kf_device_api),
                                    KF_TILE_ROWS,
                                    KF_PAD,
                                    KF_CUDA_MOST_BEST,
                                    "cuda",
                                    KF_CUDA_BUILD,
                                    count,
                                    describe,
                                    open,
                                    close,
                                    message_of,
                                    memory_left,
                                    wait,
                                    host_alloc,
                                    host_free,
                                    host_locked,
                                    kf_cuda_rows_bytes,
                                    kf_cuda_rows_new,
                                    kf_cuda_rows_free,
                                    kf_cuda_rows_put_tiles,
                                    kf_cuda_rows_put_values,
                                    kf_cuda_queries_bytes,
                                    kf_cuda_queries_new,
                                    kf_cuda_queries_free,
                                    kf_cuda_queries_put,
                                    kf_cuda_guess,
                                    kf_cuda_scan,
                                    kf_cuda_score,
                                    kf_cuda_survivors,
                                    kf_cuda_settle,
                                    kf_cuda_choose,
                                    kf_cuda_chosen,
                                    kf_cuda_answers,
                                    kf_cuda_moments_new,
                                    kf_cuda_moments_free,
                                    kf_cuda_moments_put,
                                    kf_cuda_moments_wait,
                                    kf_cuda_moments_take,
                                    kf_cuda_map_new,
                                    kf_cuda_map_free,
                                    kf_cuda_map_put,
                                    kf_cuda_map_wait,
                                    kf_cuda_odds_new,
                                    kf_cuda_odds_free,
                                    kf_cuda_odds_put,
                                    kf_cuda_odds_wait};

extern "C" __attribute__((visibility("default"))) const kf_device_api *
kf_device_plugin(uint32_t version) {
  return version == KF_DEVICE_VERSION ? &table : NULL;
}
