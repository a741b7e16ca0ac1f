/* scan_avx512.c - the first pass of a search with VNNI: vpdpbusd multiplies the unsigned bytes of
 * 16 rows with four signed bytes of a query. Rows are stored as value + 128, so every sum is too
 * large by 128 times the sum of the query; the floor is raised by the same amount. Sums start at
 * minus the offsets of their rows.
 *
 * Six queries and four panels make a tile, whose sums fill 24 registers: sum q * QUAD + v belongs
 * to query q and panel v. Four tiles use the same panels, which the first brings to the first-level
 * cache; each tile prefetches a quarter of the next four panels.
 *
 * Usually no sum reaches its floor. This is found in the registers by maxima and additions, which
 * run on units that do not multiply; comparing every query would stall the multipliers.
 *
 * The number of queries n is a constant where these functions are inlined; otherwise the sums would
 * be in memory. */
#include "kernel/kernel.h"

#ifdef KF_SIMD
#include "kernel/avx512.h"
#include "kernel/unroll.h"

#include <string.h>

#define TILE   6u /* queries */
#define QUAD   KF_PANELS_STEP
#define SUMS   (TILE * QUAD)
#define STRIP  (4 * TILE) /* queries of a strip */
#define STARTS 32u        /* panels whose starts are kept at a time */
#define INLINE static inline __attribute__((always_inline))

/* A packed strip: what sums are to be corrected by, [STRIP] in START_SIZE bytes, then each tile's
 * queries, [dim / 4][n][4]. */
#define START_SIZE 128u
static size_t size(uint32_t dim) { return START_SIZE + ((size_t)STRIP * dim + 63) / 64 * 64; }

static size_t tile_queries(size_t n, size_t first) { return n - first < TILE ? n - first : TILE; }

static void pack(const int8_t *queries, size_t n, uint32_t dim, void *packed) {
  int32_t *start = packed;
  char *to = (char *)packed + START_SIZE;
  for (size_t q = 0; q < n; q++) start[q] = kf_scan_start(queries + q * dim, dim);
  for (size_t first = 0; first < n; first += TILE)
    for (uint32_t i = 0; i < dim; i += 4)
      for (size_t q = first; q < first + tile_queries(n, first); q++, to += 4)
        memcpy(to, queries + q * dim + i, 4);
}

/* The state of a scan. */
typedef struct tile_scan {
  const kf_scan *s;
  kf_ahead ahead;
  kf_hit *to;          /* the place of the next hit */
  int32_t more[STRIP]; /* of each query: the correction of its sums minus its floor */
  int32_t start[STARTS * KF_PANEL] __attribute__((aligned(64))); /* where sums start */
  int32_t sums[SUMS * KF_PANEL] __attribute__((aligned(64)));    /* of a tile with hits */
} tile_scan;

static inline __m512i four_of(const char *query) {
  int32_t four;
  memcpy(&four, query, 4);
  return _mm512_set1_epi32(four);
}

/* Sets where the sums of panels [first, end) start, at most STARTS of them. */
static inline void set_starts(tile_scan *w, size_t first, size_t end) {
  const kf_scan *s = w->s;
  for (size_t p = first; p < end; p++) {
    __m512i less = offsets16(s->offset + p * KF_PANEL, s->unit);
    _mm512_store_si512(w->start + (p - first) * KF_PANEL,
                       _mm512_sub_epi32(_mm512_setzero_si512(), less));
  }
}

/* Starts the sums of n queries. */
INLINE void begin(const size_t n, const int32_t *start, __m512i *sum) {
  __asm__("" ::: "memory"); /* read again for every tile: all registers are taken */
  UNROLL
  for (size_t v = 0; v < QUAD; v++) {
    sum[v] = _mm512_load_si512(start + v * KF_PANEL);
    UNROLL
    for (size_t q = 1; q < n; q++) sum[q * QUAD + v] = sum[v];
  }
}

/* Adds the products of a query with four columns of each panel. */
INLINE void add_products(const __m512i *x, __m512i y, __m512i *sum) {
  UNROLL
  for (size_t v = 0; v < QUAD; v++) {
    sum[v] = _mm512_dpbusd_epi32(sum[v], x[v], y);
    __asm__(""
            : "+v"(sum[v])); /* keeps it in its register; it would be stored in every iteration */
  }
}

/* Adds the products of n queries with four panels. */
INLINE void multiply(const uint8_t *rows, size_t dim, const char *query, const size_t n,
                     const uint8_t *ahead, __m512i *sum) {
  size_t panel = dim * KF_PANEL;
  for (size_t i = 0; i < dim; i += 4, rows += 4 * KF_PANEL, query += 4 * n) {
    __m512i x[QUAD];
    UNROLL
    for (size_t v = 0; v < QUAD; v++) x[v] = _mm512_load_si512(rows + v * panel);
    _mm_prefetch((const char *)ahead + i * KF_PANEL, _MM_HINT_T0);
    UNROLL
    for (size_t q = 0; q < n; q++) add_products(x, four_of(query + 4 * q), sum + q * QUAD);
  }
}

/* Stores the sums of n queries. */
INLINE void store_all(tile_scan *w, const size_t n, const __m512i *sum) {
  UNROLL
  for (size_t q = 0; q < n; q++) {
    UNROLL
    for (size_t v = 0; v < QUAD; v++)
      _mm512_store_si512(w->sums + (q * QUAD + v) * KF_PANEL, sum[q * QUAD + v]);
  }
}

/* By how much the largest sum of each lane exceeds the query's floor. more: as in tile_scan. */
INLINE __m512i rise_of(int32_t more, const __m512i *sum) {
  __m512i most =
      _mm512_max_epi32(_mm512_max_epi32(sum[0], sum[1]), _mm512_max_epi32(sum[2], sum[3]));
  return _mm512_add_epi32(most, _mm512_set1_epi32(more));
}

/* The same for each of n queries; returns the largest of each lane. */
INLINE __m512i rise(const int32_t *more, const size_t n, const __m512i *sum, __m512i *above) {
  __m512i all = above[0] = rise_of(more[0], sum);
  UNROLL
  for (size_t q = 1; q < n; q++) {
    above[q] = rise_of(more[q], sum + q * QUAD);
    all = _mm512_max_epi32(all, above[q]);
  }
  return all;
}

/* A bit for each of n queries that is set if one of its sums reaches its floor. */
INLINE unsigned reached_by(const size_t n, const __m512i *above) {
  unsigned reached = 0;
  UNROLL
  for (size_t q = 0; q < n; q++)
    reached |= (unsigned)(_mm512_movepi32_mask(above[q]) != 0xffff) << q;
  return reached;
}

/* The same from the sums. If any bit is set, stores the sums. */
INLINE unsigned reach(tile_scan *w, const int32_t *more, const size_t n, const __m512i *sum) {
  __m512i above[TILE], all = rise(more, n, sum, above);
  if (__builtin_expect(_mm512_movepi32_mask(all) == 0xffff, 1)) return 0;
  store_all(w, n, sum);
  return reached_by(n, above);
}

/* Writes the hits of query q: the rows from `row` on whose bit is set in `which`. */
static inline void write_hits(tile_scan *w, size_t q, size_t row, uint64_t which,
                              const int32_t *sums) {
  int32_t start = ((const int32_t *)w->s->queries)[q];
  for (; which != 0; which &= which - 1) {
    uint32_t bit = (uint32_t)__builtin_ctzll(which), at = (uint32_t)row + bit;
    int32_t dot = sums[bit] + start - w->start[at % (STARTS * KF_PANEL)];
    *w->to++ = (kf_hit){.query = (uint32_t)q, .row = at, .dot = dot};
  }
}

/* Writes the hits of a tile, for the queries from `first` on whose bit in `reached` is set. */
static __attribute__((noinline)) void take_hits(tile_scan *w, size_t first, unsigned reached,
                                                size_t row) {
  for (; reached != 0; reached &= reached - 1) {
    size_t q = (size_t)__builtin_ctz(reached);
    const int32_t *sums = w->sums + q * QUAD * KF_PANEL;
    __m512i least = _mm512_set1_epi32(-w->more[first + q]);
    uint64_t which = 0;
    UNROLL
    for (size_t v = 0; v < QUAD; v++)
      which |= (uint64_t)_mm512_cmpge_epi32_mask(_mm512_load_si512(sums + v * KF_PANEL), least)
               << v * KF_PANEL;
    write_hits(w, first + q, row, which, sums);
  }
}

/* Raises the peaks of n queries by the panels of a tile. */
INLINE void raise_peaks(const size_t n, int32_t *peaks, const __m512i *sum) {
  UNROLL
  for (size_t q = 0; q < n; q++) {
    UNROLL
    for (size_t v = 0; v < QUAD; v++) {
      int32_t *at = peaks + q * KF_PEAKS + v * KF_PANEL;
      _mm512_store_si512(at, _mm512_max_epi32(_mm512_load_si512(at), sum[q * QUAD + v]));
    }
  }
}

/* Takes queries [first, last), n at a time, over all panels: for peaks if not NULL, else for
 * hits. */
INLINE void take_queries(tile_scan *w, size_t first, size_t last, const size_t n, int32_t *peaks) {
  const kf_scan *s = w->s;
  const size_t dim = s->dim, panel = dim * KF_PANEL;
  __m512i sum[SUMS];
  for (size_t block = 0; block < s->n_panels; block += STARTS) {
    size_t end = block + STARTS < s->n_panels ? block + STARTS : s->n_panels;
    set_starts(w, block, end);
    for (size_t p = block; p < end; p += QUAD) {
      const uint8_t *rows = s->panels + p * panel, *next = rows + QUAD * panel;
      const char *query = (const char *)s->queries + START_SIZE + first * dim;
      kf_ahead_step(&w->ahead);
      for (size_t q = first; q < last; q += n, query += n * dim, next += panel) {
        begin(n, w->start + (p - block) * KF_PANEL, sum);
        multiply(rows, dim, query, n, next, sum);
        if (peaks != NULL) {
          raise_peaks(n, peaks + q * KF_PEAKS, sum);
        } else {
          unsigned reached = reach(w, w->more + q, n, sum);
          if (reached != 0) take_hits(w, q, reached, p * KF_PANEL);
        }
      }
    }
  }
}

/* One function for each number of queries. Inlined, the compiler would keep the sums in memory. */
typedef void take_fn(tile_scan *w, size_t first, size_t last, int32_t *peaks);
#define GO(n)                                                                                      \
  static __attribute__((noinline)) void scan_##n(tile_scan *w, size_t first, size_t last,          \
                                                 int32_t *peaks) {                                 \
    (void)peaks;                                                                                   \
    take_queries(w, first, last, n, NULL);                                                         \
  }                                                                                                \
  static __attribute__((noinline)) void peaks_##n(tile_scan *w, size_t first, size_t last,         \
                                                  int32_t *peaks) {                                \
    take_queries(w, first, last, n, peaks);                                                        \
  }
GO(1)
GO(2)
GO(3)
GO(4)
GO(5)
GO(6)
static take_fn *const scan_n[] = {scan_1, scan_2, scan_3, scan_4, scan_5, scan_6};
static take_fn *const peaks_n[] = {peaks_1, peaks_2, peaks_3, peaks_4, peaks_5, peaks_6};

/* Tiles of six queries, and one tile with the rest. */
static void all_queries(tile_scan *w, const kf_scan *s, take_fn *const *take_n, int32_t *peaks) {
  size_t full = s->n / TILE * TILE, left = s->n - full;
  w->s = s;
  w->to = s->hits;
  w->ahead = kf_ahead_of(s, s->n_panels / QUAD);
  if (full > 0) take_n[TILE - 1](w, 0, full, peaks);
  if (left > 0) take_n[left - 1](w, full, s->n, peaks);
}

static size_t scan(const kf_scan *s) {
  if (s->n == 0 || s->n_panels == 0) return 0;
  tile_scan w;
  for (size_t q = 0; q < s->n; q++) w.more[q] = ((const int32_t *)s->queries)[q] - s->floor[q];
  all_queries(&w, s, scan_n, NULL);
  return (size_t)(w.to - s->hits);
}

static void peaks(const kf_scan *s, int32_t *peaks) {
  tile_scan w;
  for (size_t i = 0; i < s->n * KF_PEAKS; i++) peaks[i] = INT32_MIN;
  if (s->n == 0 || s->n_panels == 0) return;
  all_queries(&w, s, peaks_n, peaks);
  for (size_t i = 0; i < s->n * KF_PEAKS; i++)
    peaks[i] += ((const int32_t *)s->queries)[i / KF_PEAKS];
}

const kf_scan_kernel kf_scan_avx512 = {
    .strip = STRIP, .most = 127, .size = size, .pack = pack, .scan = scan, .peaks = peaks};

#endif
