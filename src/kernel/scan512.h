/* scan512.h - which of some dot products are hits, with AVX-512; for the VNNI and the AMX scan. */
#ifndef KF_SCAN512_H
#define KF_SCAN512_H

#include "kernel/kernel.h"
#include "kernel/unroll.h"

#include <immintrin.h>

/* Out of line: hits are rare, and a call would push sums out of registers. */
static __attribute__((noinline)) uint32_t keep(kf_hit *hits, uint32_t count, uint64_t which,
                                               size_t row, const int32_t *dots) {
  for (; which != 0; which &= which - 1) {
    uint32_t bit = (uint32_t)__builtin_ctzll(which);
    hits[count++] = (kf_hit){.row = (uint32_t)row + bit, .dot = dots[bit]};
  }
  return count;
}

/* Query q against `panels` panels (at most 4) from row `row` on, whose dot products are given. */
static inline __attribute__((always_inline)) void find_hits(const kf_scan *s, size_t q, size_t row,
                                                            const int32_t *dots, size_t panels) {
  __m512 factor = _mm512_set1_ps(s->factor[q]), least = _mm512_set1_ps(s->least[q]);
  uint64_t which = 0;
  UNROLL
  for (size_t v = 0; v < panels; v++) {
    size_t r = row + v * KF_PANEL;
    __m512 value =
        _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_load_si512(dots + v * KF_PANEL)), factor);
    value = _mm512_fmsub_ps(value, _mm512_load_ps(s->scale + r), _mm512_load_ps(s->offset + r));
    which |= (uint64_t)_mm512_cmp_ps_mask(value, least, _CMP_NLT_UQ) << (16 * v);
  }
  if (__builtin_expect(which != 0, 0))
    s->count[q] = keep(s->hits + q * s->stride, s->count[q], which, row, dots);
}

#endif
