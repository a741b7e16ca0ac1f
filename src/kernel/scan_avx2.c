/* scan_avx2.c - the first pass of a search with vpmaddwd: bytes of 8 rows become 16-bit numbers,
 * the even ones of each four by a mask and the odd ones by a shift, and meet the same two bytes of
 * a query. Rows are stored as value + 128, so that a sum starts at -128 times the sum of the query.
 * Up to four queries meet one panel, in eight registers of sums. */
#include "kernel/kernel.h"

#ifdef KF_SIMD
#include "kernel/unroll.h"

#include <immintrin.h>
#include <string.h>

#define GROUP 4
#define HALF  8 /* rows in a register */

/* A packed group: where the sums start, [GROUP] in 64 bytes, then for each four columns and each
 * query the 16-bit numbers of columns 0, 2, 1, 3. */
static size_t size(uint32_t dim) { return 64 + ((size_t)GROUP * dim * 2 + 63) / 64 * 64; }

static void pack(const int8_t *queries, size_t n, uint32_t dim, void *packed) {
  int32_t *start = packed;
  int16_t *to = (int16_t *)packed + 32;
  for (size_t q = 0; q < n; q++) {
    int32_t sum = 0;
    for (uint32_t i = 0; i < dim; i++) sum += queries[q * dim + i];
    start[q] = -128 * sum;
  }
  for (uint32_t i = 0; i < dim; i += 4)
    for (size_t q = 0; q < n; q++, to += 4) {
      const int8_t *four = queries + q * dim + i;
      to[0] = four[0];
      to[1] = four[2];
      to[2] = four[1];
      to[3] = four[3];
    }
}

static inline __m256i pair(const int16_t *from) {
  int32_t two;
  memcpy(&two, from, 4);
  return _mm256_set1_epi32(two);
}

/* The dot products of n queries with a panel. n is a constant where this is inlined, so that the
 * sums are registers. */
static inline __attribute__((always_inline)) void multiply(const int32_t *start,
                                                           const int16_t *query, size_t dim,
                                                           const uint8_t *rows, const size_t n,
                                                           int32_t dots[GROUP][KF_PANEL]) {
  const __m256i low_byte = _mm256_set1_epi16(255);
  __m256i sum[GROUP][2];
  UNROLL
  for (size_t q = 0; q < n; q++) sum[q][0] = sum[q][1] = _mm256_set1_epi32(start[q]);
  for (size_t i = 0; i < dim; i += 4, rows += 4 * KF_PANEL, query += 4 * n) {
    __m256i even[2], odd[2];
    UNROLL
    for (size_t v = 0; v < 2; v++) {
      __m256i x = _mm256_load_si256((const __m256i *)(rows + v * 4 * HALF));
      even[v] = _mm256_and_si256(x, low_byte);
      odd[v] = _mm256_srli_epi16(x, 8);
    }
    UNROLL
    for (size_t q = 0; q < n; q++) {
      __m256i a = pair(query + 4 * q), b = pair(query + 4 * q + 2);
      UNROLL
      for (size_t v = 0; v < 2; v++)
        sum[q][v] = _mm256_add_epi32(sum[q][v], _mm256_add_epi32(_mm256_madd_epi16(even[v], a),
                                                                 _mm256_madd_epi16(odd[v], b)));
    }
  }
  UNROLL
  for (size_t q = 0; q < n; q++) {
    _mm256_store_si256((__m256i *)dots[q], sum[q][0]);
    _mm256_store_si256((__m256i *)(dots[q] + HALF), sum[q][1]);
  }
}

/* Query q against a panel from row `row` on, whose dot products are given. */
static inline void find_hits(const kf_scan *s, size_t q, size_t row, const int32_t *dots) {
  __m256 factor = _mm256_set1_ps(s->factor[q]), least = _mm256_set1_ps(s->least[q]);
  uint32_t which = 0;
  for (size_t v = 0; v < 2; v++) {
    size_t r = row + v * HALF;
    __m256i sum = _mm256_load_si256((const __m256i *)(dots + v * HALF));
    __m256 value = _mm256_mul_ps(_mm256_cvtepi32_ps(sum), factor);
    value = _mm256_fmsub_ps(value, _mm256_load_ps(s->scale + r), _mm256_load_ps(s->offset + r));
    which |= (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(value, least, _CMP_NLT_UQ)) << (HALF * v);
  }
  for (; __builtin_expect(which != 0, 0); which &= which - 1) {
    uint32_t bit = (uint32_t)__builtin_ctz(which);
    s->hits[q * s->stride + s->count[q]++] = (kf_hit){.row = (uint32_t)row + bit, .dot = dots[bit]};
  }
}

static inline __attribute__((always_inline)) void scan_group(const kf_scan *s, const size_t n) {
  int32_t dots[GROUP][KF_PANEL] __attribute__((aligned(32)));
  for (size_t q = 0; q < n; q++) s->count[q] = 0;
  for (size_t p = 0; p < s->n_panels; p++) {
    multiply(s->queries, (const int16_t *)s->queries + 32, s->dim,
             s->panels + p * s->dim * KF_PANEL, n, dots);
    for (size_t q = 0; q < n; q++) find_hits(s, q, p * KF_PANEL, dots[q]);
  }
}

static void scan(const kf_scan *s) {
  switch (s->n) {
  case 1: scan_group(s, 1); break;
  case 2: scan_group(s, 2); break;
  case 3: scan_group(s, 3); break;
  default: scan_group(s, 4); break;
  }
}

const kf_scan_kernel kf_scan_avx2 = {.group = GROUP, .size = size, .pack = pack, .scan = scan};

#endif
