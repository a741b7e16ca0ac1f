/* check_maps.h - the part of check.cu for maps and the sums of softmax. */
#ifndef KF_CHECK_MAPS_H
#define KF_CHECK_MAPS_H

#include "device_api.h"

/* Returns the number of wrong cases. few: for slow tools. */
int check_maps(const kf_device_api *table, kf_dev *device, bool few);
void time_maps(const kf_device_api *table, kf_dev *device);

#endif
