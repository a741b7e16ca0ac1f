/* lambda_hits.h - hits at many lambdas, counted in as many rows as it takes to choose one of them (lambda_hits.c). */
#ifndef KF_CHOOSE_LAMBDA_HITS_H
#define KF_CHOOSE_LAMBDA_HITS_H

#include "choose/loo.h"

#define KF_LAMBDAS_MOST 64u /* lambdas */

typedef struct kf_lambda_hits kf_lambda_hits;

/* Of rows that are left out in turn; takes the list over, and a failure clears it. at_once: all of them, whatever
 * they tell. The loo must outlive it. */
kf_status kf_lambda_hits_new(kf_loo *loo, kf_row_list *rows, bool at_once, kf_lambda_hits **out);
void kf_lambda_hits_free(kf_lambda_hits *hits);
/* Counts hits at n more lambdas in the rows taken so far. */
kf_status kf_lambda_hits_try(kf_lambda_hits *hits, const char *what, kf_lambda_point *points,
                             size_t n);
/* Takes as many rows again, or those that are left, and adds their hits to `points`: all that were tried, in any
 * order. */
kf_status kf_lambda_hits_take_more(kf_lambda_hits *hits, const char *what, kf_lambda_point *points,
                                   size_t n);
bool kf_lambda_hits_has_more(const kf_lambda_hits *hits);
/* Rows left out in turn so far, and rows of the whole sample that are alone in their class. */
kf_loo_count kf_lambda_hits_counted(const kf_lambda_hits *hits);
/* What points[best] loses against any other of the n points, at most: the largest of the upper 95 % bounds. */
kf_status kf_lambda_hits_loss(const kf_lambda_hits *hits, const kf_lambda_point *points, size_t n,
                              size_t best, double *out);

#endif
