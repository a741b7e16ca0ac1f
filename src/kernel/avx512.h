/* avx512.h - what the AVX-512 and AMX kernels share. */
#ifndef KF_AVX512_H
#define KF_AVX512_H

#include "kernel/kernel.h"

#include <immintrin.h>

/* kf_scan_offset of 16 rows. The order of the operands matters: NaN becomes a limit, as in plain
 * C. */
static inline __m512i offsets16(const float *offset, float unit) {
  __m512 x = _mm512_mul_ps(_mm512_load_ps(offset), _mm512_set1_ps(unit));
  x = _mm512_max_ps(x, _mm512_set1_ps((float)-KF_SCAN_LIMIT));
  x = _mm512_min_ps(x, _mm512_set1_ps((float)KF_SCAN_LIMIT));
  return _mm512_cvttps_epi32(x);
}

/* Columns [first, first + 16) of a row of dim integers, with zeros past its end. */
static inline __m512i load_columns(const int32_t *row, size_t dim, size_t first) {
  if (first + 16 <= dim) return _mm512_loadu_si512(row + first);
  if (first >= dim) return _mm512_setzero_si512();
  return _mm512_maskz_loadu_epi32((__mmask16)((1u << (dim - first)) - 1u), row + first);
}

/* Transposes 16 x 16 dwords: a[k] holds row k, and row j of the result goes to to + j * stride. */
static inline void transpose16(__m512i a[16], char *to, size_t stride) {
  __m512i b[16];
  for (int i = 0; i < 16; i += 2) {
    b[i] = _mm512_unpacklo_epi32(a[i], a[i + 1]);
    b[i + 1] = _mm512_unpackhi_epi32(a[i], a[i + 1]);
  }
  for (int i = 0; i < 16; i += 4)
    for (int h = 0; h < 2; h++) {
      a[i + 2 * h] = _mm512_unpacklo_epi64(b[i + h], b[i + h + 2]);
      a[i + 2 * h + 1] = _mm512_unpackhi_epi64(b[i + h], b[i + h + 2]);
    }
  /* a[4q + r] holds, in its four 128-bit lanes, column 4*lane + r of rows 4q … 4q + 3. */
  for (size_t r = 0; r < 4; r++) {
    __m512i even01 = _mm512_shuffle_i32x4(a[r], a[4 + r], 0x88);
    __m512i odd01 = _mm512_shuffle_i32x4(a[r], a[4 + r], 0xdd);
    __m512i even23 = _mm512_shuffle_i32x4(a[8 + r], a[12 + r], 0x88);
    __m512i odd23 = _mm512_shuffle_i32x4(a[8 + r], a[12 + r], 0xdd);
    _mm512_store_si512(to + r * stride, _mm512_shuffle_i32x4(even01, even23, 0x88));
    _mm512_store_si512(to + (r + 4) * stride, _mm512_shuffle_i32x4(odd01, odd23, 0x88));
    _mm512_store_si512(to + (r + 8) * stride, _mm512_shuffle_i32x4(even01, even23, 0xdd));
    _mm512_store_si512(to + (r + 12) * stride, _mm512_shuffle_i32x4(odd01, odd23, 0xdd));
  }
}

#endif
