/* twin_map.h - maps and probabilities of the twin, for its table. */
#ifndef KF_TWIN_MAP_H
#define KF_TWIN_MAP_H

#include "device/device_api.h"

uint64_t kf_twin_map_bytes(const kf_dev_map_plan *plan);
kf_dev_status kf_twin_map_new(kf_dev *dev, const kf_dev_map_plan *plan, kf_dev_map **out);
void kf_twin_map_free(kf_dev *dev, kf_dev_map *map);
kf_dev_status kf_twin_map_put(kf_dev_map *map, uint32_t slot, const float *rows,
                              const double *norm2, uint32_t n, float *out);
kf_dev_status kf_twin_map_wait(kf_dev_map *map, uint32_t slot, uint32_t *odd, char *message,
                               size_t size);

uint64_t kf_twin_odds_bytes(const kf_dev_odds_plan *plan);
kf_dev_status kf_twin_odds_new(kf_dev *dev, const kf_dev_odds_plan *plan, kf_dev_odds **out);
void kf_twin_odds_free(kf_dev *dev, kf_dev_odds *odds);
kf_dev_status kf_twin_odds_put(kf_dev_odds *odds, uint32_t slot, const float *queries, uint32_t n,
                               kf_dev_sums *out);
kf_dev_status kf_twin_odds_wait(kf_dev_odds *odds, uint32_t slot, char *message, size_t size);

#endif
