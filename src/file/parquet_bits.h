/* parquet_bits.h - bit-packed integers in Parquet pages (parquet_bits.c). */
#ifndef KF_PARQUET_BITS_H
#define KF_PARQUET_BITS_H

#include "base/base.h"

/* The unread part of a page. */
typedef struct kf_pq_span {
  const unsigned char *at, *end;
} kf_pq_span;

/* Levels and indices: runs of one repeated value, and runs of packed values of `width` bits. */
typedef struct kf_pq_runs {
  kf_pq_span in;
  unsigned width;
  bool packed;    /* the current run holds packed values */
  uint32_t left;  /* left in the run */
  uint32_t value; /* of a repeated run */
  uint64_t bit;   /* of a packed run: the next value, counted in bits from `from` */
  const unsigned char *from;
} kf_pq_runs;
/* width: 0 to 32 */
kf_pq_runs kf_pq_runs_start(kf_pq_span in, unsigned width);
/* The next n values; false: there are fewer. */
bool kf_pq_runs_read(kf_pq_runs *runs, uint32_t *out, uint32_t n);
bool kf_pq_runs_read_levels(kf_pq_runs *runs, unsigned char *out, uint32_t n); /* width up to 8 */
/* Exactly n integers in DELTA_BINARY_PACKED; moves `in` past them. */
bool kf_pq_deltas(kf_pq_span *in, uint32_t n, int64_t *out);

#endif
