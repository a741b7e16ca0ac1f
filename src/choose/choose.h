/* choose.h - choosing lambda, dimensions and k; sweeps. Sees score and below. What is here is for the
 * files of this room and for tests. */
#ifndef KF_CHOOSE_H
#define KF_CHOOSE_H

#include "search/gallery.h"

/* --- which rows (sample.c) ------------------------------------------------------------------- */

#define KF_DEFAULT_SAMPLE 50000u
#define KF_DEFAULT_FOLDS  5u

/* Row numbers, rising. */
typedef struct kf_rows {
  uint64_t n;
  uint64_t *row; /* freed by the owner */
} kf_rows;

/* Of the rows that have a label at most `most`, the same share of each class as far as numbers allow
 * and at least one, spread evenly over the data set. *labelled: how many there are to choose from.
 */
kf_status kf_sample_rows(kf_ctx *ctx, const kf_data *data, uint64_t most, kf_rows *out,
                         uint64_t *labelled);
/* fold[r] in [0, folds) for each of the given rows, so that each fold has the same share of each
 * class, as far as numbers allow, and folds are of equal size. */
kf_status kf_fold_rows(kf_ctx *ctx, const kf_data *data, const kf_rows *rows, uint32_t folds,
                       unsigned char **out);
/* Those of `rows` that are in the fold (or, with `others`, those that are not). */
kf_status kf_rows_of_fold(const kf_rows *rows, const unsigned char *fold, uint32_t number,
                          bool others, kf_rows *out, kf_err *err);
/* KF_ERR_ARG where statistics cannot be those of a data set. */
kf_status kf_check_statistics_of(const kf_stats *stats, const kf_data *data, kf_err *err);

/* --- leave-one-out (loo.c) ------------------------------------------------------------------- */

typedef struct kf_loo kf_loo;

/* metric: cosine or Euclidean. Statistics and data set must outlive it. */
kf_status kf_loo_new(kf_ctx *ctx, const kf_stats *stats, const kf_data *data, kf_metric metric,
                     kf_centre centre, kf_loo **out);
void kf_loo_free(kf_loo *loo);
double kf_loo_mean_eigenvalue(const kf_loo *loo);

typedef struct kf_loo_count {
  uint64_t n, n_single; /* rows that were left out in turn; rows alone in their class */
} kf_loo_count;

/* Hits at each of n_points lambdas (absolute), in one pass over `rows`, where NULL stands for all. */
kf_status kf_loo_count_hits(kf_loo *loo, const kf_rows *rows, const char *what,
                            kf_lambda_point *points, size_t n_points, kf_loo_count *count);
/* The leave-one-out scores of one row, cosines or squared distances, [n_classes]; NaN for classes
 * that have no rows then. */
kf_status kf_loo_scores(kf_loo *loo, uint64_t row, double lambda, double *scores);

#endif
