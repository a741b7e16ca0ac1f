/* moments.h - the statistics of device_api.h on CUDA, for the table in device.cu. */
#ifndef KF_CUDA_MOMENTS_H
#define KF_CUDA_MOMENTS_H

#include "device_api.h"

uint64_t kf_cuda_moments_bytes(const kf_dev_moments_plan *plan);
kf_dev_status kf_cuda_moments_new(kf_dev *dev, const kf_dev_moments_plan *plan,
                                  kf_dev_moments **out);
void kf_cuda_moments_free(kf_dev *dev, kf_dev_moments *moments);
kf_dev_status kf_cuda_moments_put(kf_dev_moments *moments, const void *rows, const int32_t *labels,
                                  uint32_t n);
kf_dev_status kf_cuda_moments_wait(kf_dev_moments *moments, uint32_t *bad);
kf_dev_status kf_cuda_moments_take(kf_dev_moments *moments, uint64_t *totals, int64_t *sums,
                                   int64_t *counts);

#endif
