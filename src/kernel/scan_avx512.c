/* scan_avx512.c - the first pass of a search with VNNI: vpdpbusd multiplies the unsigned bytes of
 * 16 rows with four signed bytes of a query. Rows are stored as value + 128, so every sum is too
 * large by 128 times the sum of the query; the floor is raised by as much. Sums start at minus the
 * offsets of their rows. Up to six queries go with four panels, in 24 registers of sums. Most of the
 * time none of these sums reaches its floor; that is seen in the registers, and they are not stored. */
#include "kernel/kernel.h"

#ifdef KF_SIMD
#include "kernel/scan512.h"
#include "kernel/unroll.h"

#include <string.h>

#define GROUP 6
#define QUAD  KF_PANELS_STEP
#define ROWS  (QUAD * KF_PANEL)

/* A packed group: the correction of sums, [GROUP] in 64 bytes, then the queries, [GROUP][dim]. */
static size_t size(uint32_t dim) { return 64 + ((size_t)GROUP * dim + 63) / 64 * 64; }

static void pack(const int8_t *queries, size_t n, uint32_t dim, void *packed) {
  int32_t *start = packed;
  for (size_t q = 0; q < n; q++) start[q] = kf_scan_start(queries + q * dim, dim);
  memcpy((char *)packed + 64, queries, n * dim);
}

/* What a tile of four panels and up to six queries gives. */
typedef struct tile {
  int32_t sums[GROUP][ROWS] __attribute__((aligned(64)));
  __mmask16 reached[GROUP]; /* lanes of which a sum is at least the floor */
} tile;

/* The tile of n queries and the panels from p on; false if no sum reaches its floor, and then nothing is
 * stored. */
typedef bool avx512_multiply_fn(const kf_scan *s, size_t p, const int32_t floor[GROUP], tile *to);

/* n is a constant where this is inlined, so that the sums are registers. */
static inline __attribute__((always_inline)) bool
multiply(const kf_scan *s, size_t p, const size_t n, const int32_t *floor, tile *to) {
  const char *queries = (const char *)s->queries + 64;
  size_t dim = s->dim, panel = dim * KF_PANEL;
  const uint8_t *rows = s->panels + p * panel;
  __m512i sum[GROUP][QUAD];
  UNROLL
  for (size_t v = 0; v < QUAD; v++) {
    __m512i offset = offsets16(s->offset + (p + v) * KF_PANEL, s->unit);
    sum[0][v] = _mm512_sub_epi32(_mm512_setzero_si512(), offset);
    UNROLL
    for (size_t q = 1; q < n; q++) sum[q][v] = sum[0][v];
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
      for (size_t v = 0; v < QUAD; v++) {
        sum[q][v] = _mm512_dpbusd_epi32(sum[q][v], x[v], y);
        __asm__("" : "+v"(sum[q][v])); /* stays in its register; it would be stored on every turn */
      }
    }
  }
  unsigned any = 0;
  __mmask16 reached[GROUP];
  UNROLL
  for (size_t q = 0; q < n; q++) {
    __m512i largest = _mm512_max_epi32(_mm512_max_epi32(sum[q][0], sum[q][1]),
                                       _mm512_max_epi32(sum[q][2], sum[q][3]));
    reached[q] = _mm512_cmpge_epi32_mask(largest, _mm512_set1_epi32(floor[q]));
    any |= reached[q];
  }
  if (__builtin_expect(any == 0, 1)) return false;
  UNROLL
  for (size_t q = 0; q < n; q++) {
    to->reached[q] = reached[q];
    if (reached[q] == 0) continue;
    UNROLL
    for (size_t v = 0; v < QUAD; v++) _mm512_store_si512(to->sums[q] + v * KF_PANEL, sum[q][v]);
  }
  return true;
}

/* One function for each number of queries, and out of line: inlined, the compiler would keep the
 * sums in memory. */
#define MULTIPLY(n)                                                                                \
  static __attribute__((noinline)) bool multiply_##n(const kf_scan *s, size_t p,                   \
                                                     const int32_t floor[GROUP], tile *to) {       \
    return multiply(s, p, n, floor, to);                                                           \
  }
MULTIPLY(1)
MULTIPLY(2)
MULTIPLY(3)
MULTIPLY(4)
MULTIPLY(5)
MULTIPLY(6)

/* Writes the hits of query q among four panels, and returns where the next one goes. */
static inline kf_hit *look_at(const kf_scan *s, size_t q, size_t row, int32_t floor,
                              const int32_t *sums, kf_hit *to) {
  __m512i least = _mm512_set1_epi32(floor);
  uint64_t which = 0;
  UNROLL
  for (size_t v = 0; v < QUAD; v++)
    which |= (uint64_t)_mm512_cmpge_epi32_mask(_mm512_load_si512(sums + v * KF_PANEL), least)
             << v * KF_PANEL;
  for (; __builtin_expect(which != 0, 0); which &= which - 1) {
    uint32_t bit = (uint32_t)__builtin_ctzll(which);
    int32_t offset = kf_scan_offset(s->offset[row + bit], s->unit);
    *to++ = (kf_hit){.query = (uint32_t)q,
                     .row = (uint32_t)row + bit,
                     .dot = sums[bit] + ((const int32_t *)s->queries)[q] + offset};
  }
  return to;
}

static avx512_multiply_fn *const multiply_n[] = {multiply_1, multiply_2, multiply_3,
                                                 multiply_4, multiply_5, multiply_6};

static size_t scan(const kf_scan *s) {
  const size_t n = s->n;
  if (n == 0 || s->n_panels == 0) return 0;
  tile found;
  int32_t floor[GROUP];
  kf_hit *to = s->hits;
  kf_ahead ahead = kf_ahead_of(s, s->n_panels / QUAD);
  for (size_t q = 0; q < n; q++) floor[q] = s->floor[q] - ((const int32_t *)s->queries)[q];
  for (size_t p = 0; p < s->n_panels; p += QUAD) {
    kf_ahead_step(&ahead);
    if (!multiply_n[n - 1](s, p, floor, &found)) continue;
    for (size_t q = 0; q < n; q++)
      if (found.reached[q] != 0) to = look_at(s, q, p * KF_PANEL, floor[q], found.sums[q], to);
  }
  return (size_t)(to - s->hits);
}

static void peaks(const kf_scan *s, int32_t *peaks) {
  const size_t n = s->n;
  if (n == 0) return;
  tile found;
  int32_t none[GROUP];
  for (size_t q = 0; q < n; q++) none[q] = INT32_MIN; /* which every sum reaches */
  for (size_t i = 0; i < n * KF_PEAKS; i++) peaks[i] = INT32_MIN;
  for (size_t p = 0; p < s->n_panels; p += QUAD) {
    (void)multiply_n[n - 1](s, p, none, &found);
    for (size_t q = 0; q < n; q++)
      kf_raise_peaks(peaks + q * KF_PEAKS, found.sums[q], ((const int32_t *)s->queries)[q],
                     KF_PEAKS);
  }
}

const kf_scan_kernel kf_scan_avx512 = {
    .group = GROUP, .most = 127, .size = size, .pack = pack, .scan = scan, .peaks = peaks};

#endif
