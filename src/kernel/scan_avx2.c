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

static inline uint32_t keep(kf_hit *hits, uint32_t count, uint32_t which, size_t row,
                            const __m256i sum[2]) {
  int32_t dots[KF_PANEL];
  for (size_t v = 0; v < 2; v++) _mm256_storeu_si256((__m256i *)(dots + v * HALF), sum[v]);
  for (; which != 0; which &= which - 1) {
    uint32_t bit = (uint32_t)__builtin_ctz(which);
    hits[count++] = (kf_hit){.row = (uint32_t)row + bit, .dot = dots[bit]};
  }
  return count;
}

/* n is a constant where this is inlined, so that the sums are registers. */
static inline __attribute__((always_inline)) void scan_group(const kf_scan *s, const size_t n) {
  const int32_t *start = s->queries;
  const __m256i low_byte = _mm256_set1_epi16(255);
  size_t dim = s->dim;
  uint32_t count[GROUP] = {0};
  const uint8_t *rows = s->panels;
  for (size_t p = 0; p < s->n_panels; p++) {
    const int16_t *query = (const int16_t *)s->queries + 32;
    __m256i sum[GROUP][2];
    UNROLL
    for (size_t q = 0; q < n; q++) sum[q][0] = sum[q][1] = _mm256_set1_epi32(start[q]);
    for (size_t i = 0; i < dim; i += 4, rows += 4 * KF_PANEL) {
      __m256i even[2], odd[2];
      UNROLL
      for (size_t v = 0; v < 2; v++) {
        __m256i x = _mm256_load_si256((const __m256i *)(rows + v * 4 * HALF));
        even[v] = _mm256_and_si256(x, low_byte);
        odd[v] = _mm256_srli_epi16(x, 8);
      }
      UNROLL
      for (size_t q = 0; q < n; q++, query += 4) {
        __m256i a = pair(query), b = pair(query + 2);
        UNROLL
        for (size_t v = 0; v < 2; v++) {
          sum[q][v] = _mm256_add_epi32(sum[q][v], _mm256_madd_epi16(even[v], a));
          sum[q][v] = _mm256_add_epi32(sum[q][v], _mm256_madd_epi16(odd[v], b));
        }
      }
    }
    UNROLL
    for (size_t q = 0; q < n; q++) {
      __m256 factor = _mm256_set1_ps(s->factor[q]), least = _mm256_set1_ps(s->least[q]);
      uint32_t which = 0;
      UNROLL
      for (size_t v = 0; v < 2; v++) {
        size_t r = p * KF_PANEL + v * HALF;
        __m256 value = _mm256_mul_ps(_mm256_cvtepi32_ps(sum[q][v]), factor);
        value = _mm256_fmsub_ps(value, _mm256_load_ps(s->scale + r), _mm256_load_ps(s->offset + r));
        which |= (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(value, least, _CMP_NLT_UQ))
                 << (HALF * v);
      }
      if (__builtin_expect(which != 0, 0))
        count[q] = keep(s->hits + q * s->stride, count[q], which, p * KF_PANEL, sum[q]);
    }
  }
  for (size_t q = 0; q < n; q++) s->count[q] = count[q];
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
