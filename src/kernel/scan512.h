/* scan512.h - what the VNNI and the AMX scan share. */
#ifndef KF_SCAN512_H
#define KF_SCAN512_H

#include "kernel/kernel.h"

#include <immintrin.h>

/* kf_scan_offset of 16 rows. The order of operands matters: as in plain C, NaN becomes a limit. */
static inline __m512i offsets16(const float *offset, float unit) {
  __m512 x = _mm512_mul_ps(_mm512_load_ps(offset), _mm512_set1_ps(unit));
  x = _mm512_max_ps(x, _mm512_set1_ps((float)-KF_SCAN_LIMIT));
  x = _mm512_min_ps(x, _mm512_set1_ps((float)KF_SCAN_LIMIT));
  return _mm512_cvttps_epi32(x);
}

/* The hits of query q among 16 rows from `row` on, which `which` has bits for. Their dot products
 * are sums + start, or where `less_offset` also + their offsets. Rare, and so out of line. */
static __attribute__((noinline)) void keep(const kf_scan *s, size_t q, size_t row, uint32_t which,
                                           const int32_t *sums, int32_t start, bool less_offset) {
  kf_hit *hits = s->hits + q * s->stride;
  uint32_t count = s->count[q];
  for (; which != 0; which &= which - 1) {
    uint32_t bit = (uint32_t)__builtin_ctz(which);
    int32_t offset = less_offset ? kf_scan_offset(s->offset[row + bit], s->unit) : 0;
    hits[count++] = (kf_hit){.row = (uint32_t)row + bit, .dot = sums[bit] + start + offset};
  }
  s->count[q] = count;
}

#endif
