/* scan_avx2.c - the first pass of a search with vpmaddubsw, which multiplies the unsigned bytes of
 * 8 rows with four signed bytes of a query and adds pairs of products in 16 bits. Rows are stored
 * as value + 128; a query's bytes go up to 63, so that 2 * 255 * 63 fits. Sums start at -128 times
 * the sum of the query, minus the offsets of their rows. Up to four queries are multiplied with one
 * panel, in eight registers of sums. */
#include "kernel/kernel.h"

#ifdef KF_SIMD
#include "kernel/unroll.h"

#include <immintrin.h>
#include <string.h>

#define STRIP 4
#define HALF  8 /* rows in a register */

/* A packed strip: where the sums start, [STRIP] in 64 bytes, then the queries, [dim / 4][n][4]. */
static size_t size(uint32_t dim) { return 64 + ((size_t)STRIP * dim + 63) / 64 * 64; }

static void pack(const int8_t *queries, size_t n, uint32_t dim, void *packed) {
  int32_t *start = packed;
  char *to = (char *)packed + 64;
  for (size_t q = 0; q < n; q++) start[q] = kf_scan_start(queries + q * dim, dim);
  for (uint32_t i = 0; i < dim; i += 4)
    for (size_t q = 0; q < n; q++, to += 4) memcpy(to, queries + q * dim + i, 4);
}

/* kf_scan_offset of 8 rows. The order of the operands matters: NaN becomes a limit, as in plain
 * C. */
static inline __m256i offsets8(const float *offset, float unit) {
  __m256 x = _mm256_mul_ps(_mm256_load_ps(offset), _mm256_set1_ps(unit));
  x = _mm256_max_ps(x, _mm256_set1_ps((float)-KF_SCAN_LIMIT));
  x = _mm256_min_ps(x, _mm256_set1_ps((float)KF_SCAN_LIMIT));
  return _mm256_cvttps_epi32(x);
}

/* The sums of n queries with panel p: dot products minus offsets. */
typedef void avx2_multiply_fn(const kf_scan *s, size_t p, int32_t sums[STRIP][KF_PANEL]);

/* n is a constant where this is inlined, so that the sums stay in registers. */
static inline __attribute__((always_inline)) void
multiply(const kf_scan *s, size_t p, const size_t n, int32_t sums[STRIP][KF_PANEL]) {
  const int32_t *start = s->queries;
  const char *query = (const char *)s->queries + 64;
  const __m256i ones = _mm256_set1_epi16(1);
  size_t dim = s->dim;
  const uint8_t *rows = s->panels + p * dim * KF_PANEL;
  __m256i sum[STRIP][2];
  UNROLL
  for (size_t v = 0; v < 2; v++) {
    __m256i offset = offsets8(s->offset + p * KF_PANEL + v * HALF, s->unit);
    UNROLL
    for (size_t q = 0; q < n; q++)
      sum[q][v] = _mm256_sub_epi32(_mm256_set1_epi32(start[q]), offset);
  }
  for (size_t i = 0; i < dim; i += 4, rows += 4 * KF_PANEL, query += 4 * n) {
    __m256i x[2];
    UNROLL
    for (size_t v = 0; v < 2; v++) x[v] = _mm256_load_si256((const __m256i *)(rows + v * 4 * HALF));
    UNROLL
    for (size_t q = 0; q < n; q++) {
      int32_t four;
      memcpy(&four, query + 4 * q, 4);
      __m256i y = _mm256_set1_epi32(four);
      UNROLL
      for (size_t v = 0; v < 2; v++)
        sum[q][v] =
            _mm256_add_epi32(sum[q][v], _mm256_madd_epi16(_mm256_maddubs_epi16(x[v], y), ones));
    }
  }
  UNROLL
  for (size_t q = 0; q < n; q++) {
    UNROLL
    for (size_t v = 0; v < 2; v++) _mm256_store_si256((__m256i *)(sums[q] + v * HALF), sum[q][v]);
  }
}

/* One function for each number of queries. Inlined, the compiler would keep the sums in memory. */
#define MULTIPLY(n)                                                                                \
  static __attribute__((noinline)) void multiply_##n(const kf_scan *s, size_t p,                   \
                                                     int32_t sums[STRIP][KF_PANEL]) {              \
    multiply(s, p, n, sums);                                                                       \
  }
MULTIPLY(1)
MULTIPLY(2)
MULTIPLY(3)
MULTIPLY(4)

/* Writes the hits of query q in a panel: the rows from `row` on whose bit in `below` is not set.
 * Returns the place of the next hit. */
static inline kf_hit *keep(const kf_scan *s, size_t q, size_t row, uint32_t below,
                           const int32_t *sums, kf_hit *to) {
  for (uint32_t which = below ^ 0xffff; __builtin_expect(which != 0, 0); which &= which - 1) {
    uint32_t bit = (uint32_t)__builtin_ctz(which);
    *to++ = (kf_hit){.query = (uint32_t)q,
                     .row = (uint32_t)row + bit,
                     .dot = sums[bit] + kf_scan_offset(s->offset[row + bit], s->unit)};
  }
  return to;
}

/* A bit for each of 8 sums: whether it is below the floor. */
static inline uint32_t below8(const int32_t *sums, __m256i floor) {
  __m256i below = _mm256_cmpgt_epi32(floor, _mm256_load_si256((const __m256i *)sums));
  return (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(below));
}

static avx2_multiply_fn *const multiply_n[] = {multiply_1, multiply_2, multiply_3, multiply_4};

static size_t scan(const kf_scan *s) {
  const size_t n = s->n;
  if (n == 0 || s->n_panels == 0) return 0;
  int32_t sums[STRIP][KF_PANEL] __attribute__((aligned(32)));
  kf_hit *to = s->hits;
  kf_ahead ahead = kf_ahead_of(s, s->n_panels);
  for (size_t p = 0; p < s->n_panels; p++) {
    kf_ahead_step(&ahead);
    multiply_n[n - 1](s, p, sums);
    for (size_t q = 0; q < n; q++) {
      __m256i floor = _mm256_set1_epi32(s->floor[q]);
      uint32_t below = below8(sums[q], floor) | below8(sums[q] + HALF, floor) << HALF;
      to = keep(s, q, p * KF_PANEL, below, sums[q], to);
    }
  }
  return (size_t)(to - s->hits);
}

static void peaks(const kf_scan *s, int32_t *peaks) {
  const size_t n = s->n;
  if (n == 0) return;
  int32_t sums[STRIP][KF_PANEL] __attribute__((aligned(32)));
  for (size_t i = 0; i < n * KF_PEAKS; i++) peaks[i] = INT32_MIN;
  for (size_t p = 0; p < s->n_panels; p++) {
    multiply_n[n - 1](s, p, sums);
    for (size_t q = 0; q < n; q++)
      kf_raise_peaks(peaks + q * KF_PEAKS + p % KF_PANELS_STEP * KF_PANEL, sums[q], 0, KF_PANEL);
  }
}

const kf_scan_kernel kf_scan_avx2 = {
    .strip = STRIP, .most = 63, .size = size, .pack = pack, .scan = scan, .peaks = peaks};

#endif
