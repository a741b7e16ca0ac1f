/* nearest.h - who answers a request: the CPU (nearest.c), devices (device_search.c), or all ranks,
 * each with a part of the rows (parts.c). Stays in this room. */
#ifndef KF_NEAREST_H
#define KF_NEAREST_H

#include "search/shortlist.h"

/* Writes the answer of one query: k rows, best first. */
void kf_request_answer(const kf_request *r, uint64_t query, const kf_scored *scored);

/* On the calling thread. */
kf_status kf_nearest_on_thread(const kf_request *r, kf_err *err);
/* On all threads of the context. */
kf_status kf_nearest_on_threads(kf_ctx *ctx, const kf_request *r);
/* On the devices of the context, if they can and if it pays; *done says so. */
kf_status kf_nearest_on_devices(kf_ctx *ctx, const kf_request *r, bool *done);
/* On the devices or the CPU of this process. */
kf_status kf_nearest_on_rank(kf_ctx *ctx, const kf_request *r);
/* On all ranks, each with its part of the rows. */
kf_status kf_nearest_in_parts(kf_ctx *ctx, const kf_request *r);

/* Adds to the number of rows scored, if the caller wants to know it. */
static inline void kf_request_count(const kf_request *r, uint64_t candidates) {
  if (r->candidates != NULL) *r->candidates += candidates;
}

#endif
