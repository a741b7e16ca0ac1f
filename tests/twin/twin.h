/* twin.h - the plain twin of the plug-in for GPUs: the same interface in plain C, with limits and
 * faults that tests set. libkoofu-twin.so exports them as `kf_twin`; for programs the environment
 * variable KOOFU_TWIN sets them: "devices=2 memory=1000000". */
#ifndef KF_TWIN_H
#define KF_TWIN_H

#include "device/device_api.h"

#include <stdbool.h>

typedef struct kf_twin_state {
  /* Limits. Those on the first line apply to what is opened or made later. */
  uint64_t devices, tile_rows, pad, most_best, memory;
  uint64_t hits;   /* room for survivors; 0: as asked for */
  uint64_t guess;  /* 1: guesses are too high; 2: they are -infinity */
  uint64_t locked; /* treat all host memory as page-locked */
  uint64_t f64_ratio;
  /* Faults. */
  uint64_t no_driver, no_open;
  uint64_t fail_allocation; /* the n-th allocation from now on fails; 0: none */
  uint64_t fail_after;      /* so do all after it */
  uint64_t lose_call;       /* the device is lost in the n-th call from now on; 0: never */
  /* Counters. */
  uint64_t calls, allocations, scans, more, repeats, scored, survivors, pieces, used;
  uint64_t moments, mapped, odds; /* rows, rows, queries */
} kf_twin_state;
#define KF_TWIN_SYMBOL "kf_twin"

struct kf_dev {
  uint32_t number;
  bool lost;
  char message[256];
};

/* Counts a call; KF_DEV_LOST if the device is lost, perhaps just now. */
kf_dev_status kf_twin_enter(kf_dev *dev);
/* The same from any thread, without touching the device's message; false: the device is lost. */
bool kf_twin_alive(kf_dev *dev);
kf_dev_status kf_twin_fail(kf_dev *dev, kf_dev_status status, const char *sentence);
void kf_twin_count(uint64_t *counter, uint64_t n);
/* Allocates device memory; false: there is not enough. */
bool kf_twin_take(kf_dev *dev, uint64_t bytes);
void kf_twin_give(kf_dev *dev, uint64_t bytes);
extern kf_twin_state kf_twin;

/* twin_search.c */
uint64_t kf_twin_rows_bytes(const kf_dev_piece *piece);
kf_dev_status kf_twin_rows_new(kf_dev *dev, const kf_dev_piece *piece, kf_dev_rows **out);
void kf_twin_rows_free(kf_dev *dev, kf_dev_rows *rows);
kf_dev_status kf_twin_rows_put_tiles(kf_dev_rows *rows, uint64_t first, uint64_t n,
                                     const int8_t *bytes, const uint32_t *numbers,
                                     const kf_dev_tile *tiles);
kf_dev_status kf_twin_rows_put_values(kf_dev_rows *rows, uint64_t first, uint64_t n,
                                      const void *values, const double *norm2);
uint64_t kf_twin_queries_bytes(const kf_dev_space *space, uint32_t most, uint32_t best,
                               uint64_t hits);
kf_dev_status kf_twin_queries_new(kf_dev *dev, const kf_dev_space *space, uint32_t most,
                                  uint32_t best, uint64_t hits, kf_dev_queries **out);
void kf_twin_queries_free(kf_dev *dev, kf_dev_queries *queries);
kf_dev_status kf_twin_queries_put(kf_dev_queries *queries, const float *x, uint32_t n,
                                  const int64_t *leave_out);
kf_dev_status kf_twin_guess(kf_dev_queries *queries, const kf_dev_rows *rows, uint32_t count,
                            int proven);
kf_dev_status kf_twin_scan(kf_dev_queries *queries, const kf_dev_rows *rows, uint64_t *hits);
kf_dev_status kf_twin_score(kf_dev_queries *queries, const kf_dev_rows *rows);
kf_dev_status kf_twin_survivors(kf_dev_queries *queries, const kf_dev_rows *rows, uint32_t *whose,
                                int64_t *row, uint64_t *n);
kf_dev_status kf_twin_settle(kf_dev_queries *queries, uint32_t k, double slack, uint32_t *left);
kf_dev_status kf_twin_choose(kf_dev_queries *queries, const uint32_t *numbers, uint32_t n,
                             const double *least);
kf_dev_status kf_twin_chosen(kf_dev_queries *queries, uint32_t *numbers, double *least,
                             uint32_t *n);
kf_dev_status kf_twin_answers(kf_dev_queries *queries, uint32_t first, uint32_t n,
                              kf_dev_scored *best);

/* twin_moments.c */
kf_dev_status kf_twin_moments_new(kf_dev *dev, const kf_dev_moments_plan *plan,
                                  kf_dev_moments **out);
void kf_twin_moments_free(kf_dev *dev, kf_dev_moments *moments);
kf_dev_status kf_twin_moments_put(kf_dev_moments *moments, const void *rows, const int32_t *labels,
                                  uint32_t n);
kf_dev_status kf_twin_moments_wait(kf_dev_moments *moments, uint32_t *bad);
kf_dev_status kf_twin_moments_take(kf_dev_moments *moments, uint64_t *totals, int64_t *sums,
                                   int64_t *counts);
/* twin_map.c */
kf_dev_status kf_twin_map_new(kf_dev *dev, const kf_dev_map_plan *plan, kf_dev_map **out);
void kf_twin_map_free(kf_dev *dev, kf_dev_map *map);
kf_dev_status kf_twin_map_put(kf_dev_map *map, uint32_t slot, const float *rows,
                              const double *norm2, uint32_t n, float *out);
kf_dev_status kf_twin_map_wait(kf_dev_map *map, uint32_t slot, uint32_t *odd, char *message,
                               size_t size);

kf_dev_status kf_twin_odds_new(kf_dev *dev, const kf_dev_odds_plan *plan, kf_dev_odds **out);
void kf_twin_odds_free(kf_dev *dev, kf_dev_odds *odds);
kf_dev_status kf_twin_odds_put(kf_dev_odds *odds, uint32_t slot, const float *queries, uint32_t n,
                               kf_dev_sums *out);
kf_dev_status kf_twin_odds_wait(kf_dev_odds *odds, uint32_t slot, char *message, size_t size);

#endif
