/* nearest.h - a search, whoever does it: the CPU (nearest.c) or devices (device_search.c). Stays in
 * this room. */
#ifndef KF_NEAREST_H
#define KF_NEAREST_H

#include "search/shortlist.h"

typedef struct kf_request {
  const kf_index *index;
  const kf_kernels *kernels;
  const float *queries; /* [n][dim] */
  uint64_t n;
  uint32_t k;
  const int64_t *leave_out; /* [n] or NULL */
  int64_t *rows;            /* [n][k] */
  double *scores;           /* [n][k] or NULL */
  kf_scored *raw;           /* [n][k] instead of both; NULL: not wanted */
  const kf_filter *only;    /* which rows take part; NULL: all */
  bool unchecked;           /* queries are still to be checked: see kf_check_norm2 */
} kf_request;

/* Writes the answer of a query: k rows, best first. */
void kf_request_answer(const kf_request *r, uint64_t query, const kf_scored *scored);

/* On the calling thread. candidates may be NULL. */
kf_status kf_nearest_alone(const kf_request *r, uint64_t *candidates, kf_err *err);
/* On all threads of the context. */
kf_status kf_nearest_cpu(kf_ctx *ctx, const kf_request *r, uint64_t *candidates);
/* On the devices of the context, if they can and if it pays; *done says so. */
kf_status kf_nearest_device(kf_ctx *ctx, const kf_request *r, uint64_t *candidates, bool *done);

#endif
