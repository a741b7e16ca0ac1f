/* table.h - the functions of the plug-in's table. */
#ifndef KF_CUDA_TABLE_H
#define KF_CUDA_TABLE_H

#include "device_api.h"

#define KF_CUDA_MOST_BEST 2048u

/* rows.cu */
uint64_t kf_cuda_rows_bytes(const kf_dev_piece *piece);
kf_dev_status kf_cuda_rows_new(kf_dev *dev, const kf_dev_piece *piece, kf_dev_rows **out);
void kf_cuda_rows_free(kf_dev *dev, kf_dev_rows *rows);
kf_dev_status kf_cuda_rows_put_tiles(kf_dev_rows *rows, uint64_t first, uint64_t n,
                                     const int8_t *bytes, const uint32_t *numbers,
                                     const kf_dev_tile *tiles);
kf_dev_status kf_cuda_rows_put_values(kf_dev_rows *rows, uint64_t first, uint64_t n,
                                      const void *values, const double *norm2);
/* queries.cu */
uint64_t kf_cuda_queries_bytes(const kf_dev_space *space, uint32_t most, uint32_t best,
                               uint64_t hits);
kf_dev_status kf_cuda_queries_new(kf_dev *dev, const kf_dev_space *space, uint32_t most,
                                  uint32_t best, uint64_t hits, kf_dev_queries **out);
void kf_cuda_queries_free(kf_dev *dev, kf_dev_queries *queries);
kf_dev_status kf_cuda_queries_put(kf_dev_queries *queries, const float *x, uint32_t n,
                                  const int64_t *leave_out);
kf_dev_status kf_cuda_settle(kf_dev_queries *queries, uint32_t k, double slack, uint32_t *left);
kf_dev_status kf_cuda_choose(kf_dev_queries *queries, const uint32_t *numbers, uint32_t n,
                             const double *least);
kf_dev_status kf_cuda_chosen(kf_dev_queries *queries, uint32_t *numbers, double *least,
                             uint32_t *n);
kf_dev_status kf_cuda_answers(kf_dev_queries *queries, uint32_t first, uint32_t n,
                              kf_dev_scored *best);
/* scan.cu */
kf_dev_status kf_cuda_guess(kf_dev_queries *queries, const kf_dev_rows *rows, uint32_t position,
                            int proven);
kf_dev_status kf_cuda_scan(kf_dev_queries *queries, const kf_dev_rows *rows, uint64_t *hits);
kf_dev_status kf_cuda_survivors(kf_dev_queries *queries, const kf_dev_rows *rows, uint32_t *query,
                                int64_t *row, uint64_t *n);
/* score.cu */
kf_dev_status kf_cuda_score(kf_dev_queries *queries, const kf_dev_rows *rows);
/* moments.cu */
kf_dev_status kf_cuda_moments_new(kf_dev *dev, const kf_dev_moments_plan *plan,
                                  kf_dev_moments **out);
void kf_cuda_moments_free(kf_dev *dev, kf_dev_moments *moments);
kf_dev_status kf_cuda_moments_put(kf_dev_moments *moments, const void *rows, const int32_t *labels,
                                  uint32_t n);
kf_dev_status kf_cuda_moments_wait(kf_dev_moments *moments, uint32_t *bad);
kf_dev_status kf_cuda_moments_take(kf_dev_moments *moments, uint64_t *totals, int64_t *sums,
                                   int64_t *counts);
/* map.cu */
kf_dev_status kf_cuda_map_new(kf_dev *dev, const kf_dev_map_plan *plan, kf_dev_map **out);
void kf_cuda_map_free(kf_dev *dev, kf_dev_map *map);
kf_dev_status kf_cuda_map_put(kf_dev_map *map, uint32_t slot, const float *rows,
                              const double *norm2, uint32_t n, float *out);
kf_dev_status kf_cuda_map_wait(kf_dev_map *map, uint32_t slot, uint32_t *odd, char *message,
                               size_t size);
/* odds.cu */
kf_dev_status kf_cuda_odds_new(kf_dev *dev, const kf_dev_odds_plan *plan, kf_dev_odds **out);
void kf_cuda_odds_free(kf_dev *dev, kf_dev_odds *odds);
kf_dev_status kf_cuda_odds_put(kf_dev_odds *odds, uint32_t slot, const float *queries, uint32_t n,
                               kf_dev_sums *out);
kf_dev_status kf_cuda_odds_wait(kf_dev_odds *odds, uint32_t slot, char *message, size_t size);

#endif
