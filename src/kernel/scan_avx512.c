/* scan_avx512.c - the first pass of a search with VNNI: vpdpbusd multiplies the unsigned bytes of
 * 16 rows with four signed bytes of a query. Rows are stored as value + 128, so that a sum starts
 * at -128 times the sum of the query. Up to six queries meet four panels, in 24 registers of sums.
 */
#include "kernel/kernel.h"

#ifdef KF_SIMD
#include "kernel/unroll.h"

#include <immintrin.h>
#include <string.h>

#define GROUP 6
#define QUAD  KF_PANELS_STEP

/* A packed group: where the sums start, [GROUP] in 64 bytes, then the queries, [GROUP][dim]. */
static size_t size(uint32_t dim) { return 64 + ((size_t)GROUP * dim + 63) / 64 * 64; }

static void pack(const int8_t *queries, size_t n, uint32_t dim, void *packed) {
  int32_t *start = packed;
  for (size_t q = 0; q < n; q++) {
    int32_t sum = 0;
    for (uint32_t i = 0; i < dim; i++) sum += queries[q * dim + i];
    start[q] = -128 * sum;
  }
  memcpy((char *)packed + 64, queries, n * dim);
}

/* The hits of one query among the 64 rows from `row` on, which `which` has bits for. */
static inline uint32_t keep(kf_hit *hits, uint32_t count, uint64_t which, size_t row,
                            const __m512i sum[QUAD]) {
  int32_t dots[QUAD * KF_PANEL];
  for (size_t v = 0; v < QUAD; v++) _mm512_storeu_si512(dots + v * KF_PANEL, sum[v]);
  for (; which != 0; which &= which - 1) {
    uint32_t bit = (uint32_t)__builtin_ctzll(which);
    hits[count++] = (kf_hit){.row = (uint32_t)row + bit, .dot = dots[bit]};
  }
  return count;
}

/* n is a constant where this is inlined, so that the sums are registers. */
static inline __attribute__((always_inline)) void scan_group(const kf_scan *s, const size_t n) {
  const int32_t *start = s->queries;
  const char *queries = (const char *)s->queries + 64;
  size_t dim = s->dim, panel = dim * KF_PANEL;
  uint32_t count[GROUP] = {0};
  for (size_t p = 0; p < s->n_panels; p += QUAD) {
    const uint8_t *rows = s->panels + p * panel;
    __m512i sum[GROUP][QUAD];
    UNROLL
    for (size_t q = 0; q < n; q++) {
      UNROLL
      for (size_t v = 0; v < QUAD; v++) sum[q][v] = _mm512_set1_epi32(start[q]);
    }
    for (size_t i = 0; i < dim; i += 4, rows += 4 * KF_PANEL) {
      __m512i x[QUAD];
      UNROLL
      for (size_t v = 0; v < QUAD; v++) x[v] = _mm512_load_si512(rows + v * panel);
      UNROLL
      for (size_t q = 0; q < n; q++) {
        int32_t four;
        memcpy(&four, queries + q * dim + i, 4);
        __m512i y = _mm512_set1_epi32(four);
        UNROLL
        for (size_t v = 0; v < QUAD; v++) sum[q][v] = _mm512_dpbusd_epi32(sum[q][v], x[v], y);
      }
    }
    UNROLL
    for (size_t q = 0; q < n; q++) {
      __m512 factor = _mm512_set1_ps(s->factor[q]), least = _mm512_set1_ps(s->least[q]);
      uint64_t which = 0;
      UNROLL
      for (size_t v = 0; v < QUAD; v++) {
        size_t r = (p + v) * KF_PANEL;
        __m512 value = _mm512_mul_ps(_mm512_cvtepi32_ps(sum[q][v]), factor);
        value = _mm512_fmsub_ps(value, _mm512_load_ps(s->scale + r), _mm512_load_ps(s->offset + r));
        which |= (uint64_t)_mm512_cmp_ps_mask(value, least, _CMP_NLT_UQ) << (16 * v);
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
  case 4: scan_group(s, 4); break;
  case 5: scan_group(s, 5); break;
  default: scan_group(s, 6); break;
  }
}

const kf_scan_kernel kf_scan_avx512 = {.group = GROUP, .size = size, .pack = pack, .scan = scan};

#endif
