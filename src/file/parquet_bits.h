/* parquet_bits.h - integers of a few bits in pages of Parquet (parquet_bits.c). */
#ifndef KF_PARQUET_BITS_H
#define KF_PARQUET_BITS_H

#include "base/base.h"

/* A part of a page. */
typedef struct kf_pq_span {
  const unsigned char *at, *end;
} kf_pq_span;

/* Runs of one value, and of values of `width` bits each, in turn: levels and indices. */
typedef struct kf_pq_runs {
  kf_pq_span in;
  unsigned width;
  bool packed;    /* the current run: of values */
  uint32_t left;  /* in it */
  uint32_t value; /* of a run of one */
  uint64_t bit;   /* of a run of values: the next one, counted from `from` */
  const unsigned char *from;
} kf_pq_runs;
/* width: 0 to 32 */
kf_pq_runs kf_pq_runs_start(kf_pq_span in, unsigned width);
/* The next n values; false: the bytes end before. */
bool kf_pq_runs_read(kf_pq_runs *runs, uint32_t *out, uint32_t n);
bool kf_pq_runs_read_levels(kf_pq_runs *runs, unsigned char *out, uint32_t n); /* width up to 8 */
/* Exactly n integers in DELTA_BINARY_PACKED; `in` moves past them. */
bool kf_pq_deltas(kf_pq_span *in, uint32_t n, int64_t *out);

#endif
