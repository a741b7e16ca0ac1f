/* fitter.h - shared by fitter.c and directions.c only. */
#ifndef KF_FITTER_H
#define KF_FITTER_H

#include "model/model.h"

/* Steps of a fit, for progress: scatter, directions, the map, classes. */
enum { KF_FIT_STEPS = 4 };

#define KF_ROW_BLOCK 32u /* rows of a matrix in a task */
static inline uint64_t kf_block_end(uint64_t n, size_t block) {
  uint64_t end = (block + (uint64_t)1) * KF_ROW_BLOCK;
  return end < n ? end : n;
}

static inline kf_status kf_by_rows(kf_ctx *ctx, uint64_t rows, kf_task_fn task, void *argument) {
  return kf_parallel(ctx, (size_t)((rows + KF_ROW_BLOCK - 1) / KF_ROW_BLOCK), task, argument);
}

/* directions.c: takes memory, except for V and V S_b V^T. The caller checks the arena. */
void kf_directions_take(kf_fitter *fitter);
/* Sets `map` and `gamma` at one lambda, and `values`. */
kf_status kf_find_map(kf_fitter *fitter, double lambda);

#endif
