/* check_maps.h - the part of the check that looks at maps and the sums of softmax. */
#ifndef KF_CHECK_MAPS_H
#define KF_CHECK_MAPS_H

#include "device_api.h"

/* How many cases are wrong. few: for slow tools. */
int check_maps(const kf_device_api *table, kf_dev *device, bool few);
void time_maps(const kf_device_api *table, kf_dev *device);

#endif
