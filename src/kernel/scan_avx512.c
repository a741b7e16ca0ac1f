/* scan_avx512.c - the first pass of a search with VNNI: vpdpbusd multiplies the unsigned bytes of
 * 16 rows with four signed bytes of a query. Rows are stored as value + 128, so that a sum starts
 * at -128 times the sum of the query. Up to six queries meet four panels, in 24 registers of sums.
 */
#include "kernel/kernel.h"

#ifdef KF_SIMD
#include "kernel/scan512.h"

#include <string.h>

#define GROUP 6
#define QUAD  KF_PANELS_STEP
#define ROWS  (QUAD * KF_PANEL)

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

/* The dot products of n queries with four panels. n is a constant where this is inlined, so that
 * the sums are registers. */
static inline __attribute__((always_inline)) void multiply(const int32_t *start,
                                                           const char *queries, size_t dim,
                                                           const uint8_t *rows, const size_t n,
                                                           int32_t dots[GROUP][ROWS]) {
  size_t panel = dim * KF_PANEL;
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
    UNROLL
    for (size_t v = 0; v < QUAD; v++) _mm512_store_si512(dots[q] + v * KF_PANEL, sum[q][v]);
  }
}

static inline __attribute__((always_inline)) void scan_group(const kf_scan *s, const size_t n) {
  int32_t dots[GROUP][ROWS] __attribute__((aligned(64)));
  for (size_t q = 0; q < n; q++) s->count[q] = 0;
  for (size_t p = 0; p < s->n_panels; p += QUAD) {
    multiply(s->queries, (const char *)s->queries + 64, s->dim, s->panels + p * s->dim * KF_PANEL,
             n, dots);
    for (size_t q = 0; q < n; q++) find_hits(s, q, p * KF_PANEL, dots[q], QUAD);
  }
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
