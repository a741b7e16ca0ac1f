/* exact.h - scores without rounding, for rows that double precision cannot tell apart. Stays in this
 * room. docs/numerics.md says when they are needed. */
#ifndef KF_SEARCH_EXACT_H
#define KF_SEARCH_EXACT_H

#include "search/search.h"

/* high + low, |low| <= 2^-53 |high|. */
typedef struct kf_fine {
  double high, low;
} kf_fine;

/* The nearness of x to q, more is nearer, to a relative error of 2^-98: for cosine, its square times
 * |q|^2, with its sign; the dot product; or minus the squared distance. */
kf_fine kf_exact_fine(kf_metric metric, const float *q, const float *x, uint32_t dim);
/* Which of two is nearer, if they are far enough apart for their errors: 1 or -1; 0: no telling. */
int kf_fine_compare(kf_fine x, kf_fine y);
/* 1 if x is nearer to q than y, -1 if y is, 0 if they are equally near. Nothing is rounded. */
int kf_exact_compare(kf_metric metric, const float *q, const float *x, const float *y,
                     uint32_t dim);

#endif
