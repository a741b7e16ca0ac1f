/* twin_product.h - products of the twin, for its table. */
#ifndef KF_TWIN_PRODUCT_H
#define KF_TWIN_PRODUCT_H

#include "device/device_api.h"

uint64_t kf_twin_product_bytes(const kf_dev_product_plan *plan);
kf_dev_status kf_twin_product_new(kf_dev *dev, const kf_dev_product_plan *plan,
                                  kf_dev_product **out);
void kf_twin_product_free(kf_dev *dev, kf_dev_product *product);
uint64_t kf_twin_matrix_bytes(const kf_dev_matrix_plan *plan);
kf_dev_status kf_twin_matrix_new(kf_dev *dev, const kf_dev_matrix_plan *plan, kf_dev_matrix **out);
void kf_twin_matrix_free(kf_dev *dev, kf_dev_matrix *matrix);
kf_dev_status kf_twin_matrix_put(kf_dev_product *product, uint32_t slot, kf_dev_matrix *matrix,
                                 uint32_t first, uint32_t n, const void *lines);
kf_dev_status kf_twin_product_put(kf_dev_product *product, uint32_t slot,
                                  const kf_dev_matrix *matrix, const void *a, uint32_t m, void *c);
kf_dev_status kf_twin_product_wait(kf_dev_product *product, uint32_t slot, char *message,
                                   size_t size);

#endif
