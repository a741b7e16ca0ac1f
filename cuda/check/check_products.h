/* check_products.h - the part of the check that looks at products of matrices. */
#ifndef KF_CHECK_PRODUCTS_H
#define KF_CHECK_PRODUCTS_H

#include "device_api.h"

/* How many cases are wrong. few: for slow tools. */
int check_products(const kf_device_api *table, kf_dev *device, bool few);
void time_products(const kf_device_api *table, kf_dev *device);

#endif
