/* lambda_hits.h - hits at many lambdas, counted in as many rows as it takes to choose one of them
 * (lambda_hits.c). */
#ifndef KF_CHOOSE_LAMBDA_HITS_H
#define KF_CHOOSE_LAMBDA_HITS_H

#include "choose/left_out.h"

#define KF_LAMBDAS_MOST 64u

typedef struct kf_lambda_hits {
  kf_ctx *ctx;
  kf_left_out *left_out;
  kf_left_out_count count;
  uint64_t taken; /* about how many rows have been left out; count.planned: all */
  uint64_t n;     /* rows counted */
  double lambda[KF_LAMBDAS_MOST];
  size_t n_lambdas; /* tried so far */
  uint64_t *right;  /* [count.planned] a bit for each lambda at which a row of this rank is a hit */
} kf_lambda_hits;

/* left_out must outlive it. at_once: takes all rows from the start. Must be cleared after a
 * failure, too. */
kf_status kf_lambda_hits_start(kf_lambda_hits *hits, kf_ctx *ctx, kf_left_out *left_out,
                               bool at_once);
void kf_lambda_hits_clear(kf_lambda_hits *hits);
/* Counts hits at another lambda in the rows taken so far. */
kf_status kf_lambda_hits_try(kf_lambda_hits *hits, const char *what, kf_lambda_point *point);
/* Doubles the rows, or takes all that are left, and adds their hits to `points`: all lambdas that
 * were tried, in any order. */
kf_status kf_lambda_hits_take_more(kf_lambda_hits *hits, const char *what, kf_lambda_point *points,
                                   size_t n);
static inline bool kf_lambda_hits_has_more(const kf_lambda_hits *hits) {
  return hits->taken < hits->count.planned;
}
/* An upper bound of the accuracy that points[best] loses against any other of n points: the largest
 * of their 95 % bounds. */
kf_status kf_lambda_hits_loss(const kf_lambda_hits *hits, const kf_lambda_point *points, size_t n,
                              size_t best, double *out);

#endif
