/* scan_tile.h - what the two scans with VNNI share: tiles of queries and panels whose sums are in up to 24
 * registers, and what follows the products. Sum q * panels + v is that of query q with panel v.
 *
 * Often no sum reaches its floor. That is seen in the registers, by maxima and additions, which units that
 * do not multiply can do as well; a comparison for every query would stop the multipliers.
 *
 * The numbers of queries and panels are constants wherever this is inlined, or the sums would be in
 * memory. */
#ifndef KF_SCAN_TILE_H
#define KF_SCAN_TILE_H

#include "kernel/scan512.h"
#include "kernel/unroll.h"

#include <string.h>

#define GROUP  24u /* queries that are scanned together */
#define SUMS   24u /* of a tile */
#define SOME   32u /* panels whose offsets are brought to units of a sum at a time */
#define INLINE static inline __attribute__((always_inline))

/* A packed group begins with the correction of its sums, [GROUP] in 128 bytes. */
#define START_SIZE 128u

/* The state of a scan. */
typedef struct tile_scan {
  const kf_scan *s;
  kf_ahead ahead;
  kf_hit *to;          /* where the next hit goes */
  int32_t more[GROUP]; /* what sums are less than the floor by, at most */
  int32_t start[SOME * KF_PANEL] __attribute__((aligned(64))); /* where sums start */
  int32_t sums[SUMS * KF_PANEL] __attribute__((aligned(64)));  /* of a tile with hits */
} tile_scan;

static inline __m512i four_of(const char *query) {
  int32_t four;
  memcpy(&four, query, 4);
  return _mm512_set1_epi32(four);
}

/* Where the sums of panels [first, end) start, at most SOME of them. */
static inline void set_starts(tile_scan *w, size_t first, size_t end) {
  const kf_scan *s = w->s;
  for (size_t p = first; p < end; p++) {
    __m512i less = offsets16(s->offset + p * KF_PANEL, s->unit);
    _mm512_store_si512(w->start + (p - first) * KF_PANEL,
                       _mm512_sub_epi32(_mm512_setzero_si512(), less));
  }
}

/* Starts the sums of n queries. */
INLINE void begin(const size_t n, const size_t panels, const int32_t *start, __m512i *sum) {
  __asm__("" ::: "memory"); /* what sums start at is read for every tile: registers are all taken */
  UNROLL
  for (size_t v = 0; v < panels; v++) {
    sum[v] = _mm512_load_si512(start + v * KF_PANEL);
    UNROLL
    for (size_t q = 1; q < n; q++) sum[q * panels + v] = sum[v];
  }
}

/* Adds the products of a query with some columns of each panel. */
INLINE void add_products(const size_t panels, const __m512i *x, __m512i y, __m512i *sum) {
  UNROLL
  for (size_t v = 0; v < panels; v++) {
    sum[v] = _mm512_dpbusd_epi32(sum[v], x[v], y);
    __asm__("" : "+v"(sum[v])); /* stays in its register; it would be stored on every turn */
  }
}

/* Stores the sums of n queries. */
INLINE void store_all(tile_scan *w, const size_t n, const size_t panels, const __m512i *sum) {
  UNROLL
  for (size_t q = 0; q < n; q++) {
    UNROLL
    for (size_t v = 0; v < panels; v++)
      _mm512_store_si512(w->sums + (q * panels + v) * KF_PANEL, sum[q * panels + v]);
  }
}

/* Stores those of one of them. Stores hold up the multipliers, moves by masks do not. */
INLINE void store_one(tile_scan *w, size_t one, const size_t n, const size_t panels,
                      const __m512i *sum) {
  static const __mmask16 only[2 * SUMS] = {[SUMS] = 0xffff};
  const __mmask16 *mask = only + SUMS - one;
  UNROLL
  for (size_t v = 0; v < panels; v++) {
    __m512i x = sum[v];
    __asm__ volatile("" : "+v"(x)); /* so that the compiler keeps no copy of all sums in memory */
    UNROLL
    for (size_t q = 1; q < n; q++)
      __asm__ volatile("vmovdqa32 %1, %0%{%2%}"
                       : "+v"(x)
                       : "v"(sum[q * panels + v]), "Yk"(mask[q]));
    _mm512_store_si512(w->sums + (one * panels + v) * KF_PANEL, x);
  }
}

/* By how much the sums of a query are above its floor, at most. `more`: what they are less than it by,
 * at most. */
INLINE __m512i rise_of(int32_t more, const size_t panels, const __m512i *sum) {
  __m512i most = _mm512_max_epi32(sum[0], sum[1]);
  if (panels == 4) most = _mm512_max_epi32(most, _mm512_max_epi32(sum[2], sum[3]));
  return _mm512_add_epi32(most, _mm512_set1_epi32(more));
}

/* That of each of n queries, and the largest of them. */
INLINE __m512i rise(const int32_t *more, const size_t n, const size_t panels, const __m512i *sum,
                    __m512i *above) {
  __m512i all = above[0] = rise_of(more[0], panels, sum);
  UNROLL
  for (size_t q = 1; q < n; q++) {
    above[q] = rise_of(more[q], panels, sum + q * panels);
    all = _mm512_max_epi32(all, above[q]);
  }
  return all;
}

/* A bit for each of n queries: whether one of its sums reaches its floor. */
INLINE unsigned reached_by(const size_t n, const __m512i *above) {
  unsigned reached = 0;
  UNROLL
  for (size_t q = 0; q < n; q++)
    reached |= (unsigned)(_mm512_movepi32_mask(above[q]) != 0xffff) << q;
  return reached;
}

/* The same from the sums, which are stored if there is one. */
INLINE unsigned reach(tile_scan *w, const int32_t *more, const size_t n, const size_t panels,
                      const __m512i *sum) {
  __m512i above[SUMS], all = rise(more, n, panels, sum, above);
  if (__builtin_expect(_mm512_movepi32_mask(all) == 0xffff, 1)) return 0;
  unsigned reached = reached_by(n, above);
  if (__builtin_expect((reached & (reached - 1)) == 0, 1))
    store_one(w, (size_t)__builtin_ctz(reached), n, panels, sum);
  else
    store_all(w, n, panels, sum);
  return reached;
}

/* Writes the hits of query q: rows from `row` on whose bit is set in `which`. */
static inline void write_hits(tile_scan *w, size_t q, size_t row, uint64_t which,
                              const int32_t *sums) {
  int32_t start = ((const int32_t *)w->s->queries)[q];
  for (; which != 0; which &= which - 1) {
    uint32_t bit = (uint32_t)__builtin_ctzll(which), at = (uint32_t)row + bit;
    int32_t dot = sums[bit] + start - w->start[at % (SOME * KF_PANEL)];
    *w->to++ = (kf_hit){.query = (uint32_t)q, .row = at, .dot = dot};
  }
}

/* Writes the hits of the queries from `first` on that have some among the panels of a tile. */
static inline void take_hits(tile_scan *w, size_t first, unsigned reached, size_t row,
                             const size_t panels) {
  for (; reached != 0; reached &= reached - 1) {
    size_t q = (size_t)__builtin_ctz(reached);
    const int32_t *sums = w->sums + q * panels * KF_PANEL;
    __m512i least = _mm512_set1_epi32(-w->more[first + q]);
    uint64_t which = 0;
    UNROLL
    for (size_t v = 0; v < panels; v++)
      which |= (uint64_t)_mm512_cmpge_epi32_mask(_mm512_load_si512(sums + v * KF_PANEL), least)
               << v * KF_PANEL;
    write_hits(w, first + q, row, which, sums);
  }
}

/* Raises the peaks of n queries by the panels of a tile. */
INLINE void raise_peaks(const size_t n, const size_t panels, int32_t *peaks, const __m512i *sum) {
  UNROLL
  for (size_t q = 0; q < n; q++) {
    UNROLL
    for (size_t v = 0; v < panels; v++) {
      int32_t *at = peaks + q * KF_PEAKS + v * KF_PANEL;
      _mm512_store_si512(at, _mm512_max_epi32(_mm512_load_si512(at), sum[q * panels + v]));
    }
  }
}

#endif
