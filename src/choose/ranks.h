/* ranks.h - the rank of the right class for many numbers of dimensions at once (ranks.c). */
#ifndef KF_CHOOSE_RANKS_H
#define KF_CHOOSE_RANKS_H

#include "score/score.h"

#define KF_RANKS 5u /* ranks from 0 on that are told apart */

typedef struct kf_ranker kf_ranker;
/* Ranks for the first dims[t] directions of a model, with the classes of `stats` (which the
 * model was fitted on) that have rows and are in the mask (NULL: all). Everything must outlive
 * it. dims rise; the last is at most that of the model. */
kf_status kf_ranker_new(kf_ctx *ctx, const kf_model *model, const kf_stats *stats, bool euclidean,
                        const unsigned char *mask, const uint32_t *dims, size_t n_dims,
                        kf_ranker **out);
void kf_ranker_free(kf_ranker *ranker);
/* ranks [n][n_dims]: how many wrong classes come before the first right one, at most KF_RANKS. Any
 * worker thread may call it. */
kf_status kf_ranker_rank(const kf_ranker *ranker, const float *rows, const double *norm2,
                         uint64_t n, const kf_right *right, unsigned char *ranks, kf_err *err);

/* Hands every scored row of a data set, with its ranks [n_dims], to `use`: on any worker, in any
 * order. */
typedef void (*kf_ranked_fn)(void *argument, size_t worker, uint64_t row,
                             const unsigned char *ranks);
kf_status kf_rank_data(kf_ctx *ctx, const kf_ranker *ranker, const kf_data *data,
                       const kf_judge *judge, kf_ranked_fn use, void *argument,
                       kf_eval_result *counts);

#endif
