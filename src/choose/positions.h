/* positions.h - the position of the right class for many numbers of dimensions at once
 * (positions.c). */
#ifndef KF_CHOOSE_POSITIONS_H
#define KF_CHOOSE_POSITIONS_H

#include "score/score.h"

#define KF_POSITIONS 5u /* positions from 0 on that are told apart */

/* For the first dims[t] directions of a model, with the classes of `stats` (which the model was
 * fitted on) that have rows and are in the mask (NULL: all). Everything must outlive it. dims rise;
 * the last is at most that of the model. */
typedef struct kf_position_finder kf_position_finder;
kf_status kf_position_finder_new(kf_ctx *ctx, const kf_model *model, const kf_stats *stats,
                                 bool euclidean, const unsigned char *mask, const uint32_t *dims,
                                 size_t n_dims, kf_position_finder **out);
void kf_position_finder_free(kf_position_finder *finder);
/* positions [n][n_dims]: how many wrong classes come before the first right one, at most
 * KF_POSITIONS. On any thread. */
kf_status kf_find_positions(const kf_position_finder *finder, const float *rows,
                            const double *norm2, uint64_t n, const kf_right *right,
                            unsigned char *positions, kf_err *err);

/* Adds the scored rows of a data set to points [n_dims]: top1 and top5, and lost and won against
 * the last setting. Shared out among ranks. */
kf_status kf_count_positions(kf_ctx *ctx, const kf_position_finder *finder, const kf_data *data,
                             const kf_judge *judge, kf_dim_point *points, kf_eval_result *counts);

#endif
