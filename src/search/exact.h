/* exact.h - exact scores, for rows that double precision cannot tell apart. Stays in this room.
 * docs/numerics.md says when they are needed. */
#ifndef KF_SEARCH_EXACT_H
#define KF_SEARCH_EXACT_H

#include "search/search.h"

/* high + low, |low| <= 2^-53 |high|. */
typedef struct kf_fine {
  double high, low;
} kf_fine;

/* The score of x for q, larger is nearer, to a relative error of 2^-98: the squared cosine times
 * |q|^2 with the sign of the cosine; the dot product; or minus the squared distance. */
kf_fine kf_exact_fine(kf_metric metric, const float *q, const float *x, uint32_t dim);
/* 1 if x is larger, -1 if y is, 0 if they are too close for their errors. */
int kf_fine_compare(kf_fine x, kf_fine y);
/* 1 if x is nearer to q than y, -1 if y is, 0 if they are equally near. Nothing is rounded. */
int kf_exact_compare(kf_metric metric, const float *q, const float *x, const float *y,
                     uint32_t dim);

#endif
