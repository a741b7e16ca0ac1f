/* scan512.h - what the VNNI and AMX scans share. */
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

#endif
