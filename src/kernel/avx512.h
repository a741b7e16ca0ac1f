/* avx512.h - what the AVX-512 and AMX moments share. */
#ifndef KF_AVX512_H
#define KF_AVX512_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

/* Columns [first, first + 16) of a row of dim integers; zeros past its end. */
static inline __m512i load_columns(const int32_t *row, size_t dim, size_t first) {
  if (first + 16 <= dim) return _mm512_loadu_si512(row + first);
  if (first >= dim) return _mm512_setzero_si512();
  return _mm512_maskz_loadu_epi32((__mmask16)((1u << (dim - first)) - 1u), row + first);
}

/* to[0..16) += x * 2^shift */
static inline void add_shifted(int64_t *to, __m512i x, unsigned shift) {
  __m512i low = _mm512_cvtepi32_epi64(_mm512_castsi512_si256(x));
  __m512i high = _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(x, 1));
  low = _mm512_add_epi64(_mm512_loadu_si512(to), _mm512_slli_epi64(low, shift));
  high = _mm512_add_epi64(_mm512_loadu_si512(to + 8), _mm512_slli_epi64(high, shift));
  _mm512_storeu_si512(to, low);
  _mm512_storeu_si512(to + 8, high);
}

#endif
