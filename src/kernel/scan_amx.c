/* scan_amx.c - the first pass of a search with AMX: TDPBSUD multiplies a tile of 16 queries and up
 * to 64 signed columns with a tile of the same columns, in groups of four, and 16 rows. A tile of
 * rows is read straight from a panel. Two by two tiles of sums, for 32 queries and two panels, are
 * computed at a time, while AVX-512 compares the previous ones with their floors.
 *
 * Rows are stored as value + 128, so every sum is too large by 128 times the sum of the query; the
 * floors allow for it. */
#include "kernel/kernel.h"

#ifdef KF_SIMD
#include "kernel/avx512.h"
#include "kernel/amx_tiles.h"

#include <string.h>

#define STRIP 32
#define PAIR  2 /* panels */
#define WIDE  (PAIR * KF_PANEL)

/* Columns come in equal parts of at most 64 (kf_scan_dim). */
static size_t parts(size_t dim) { return (dim + 63) / 64; }

/* A packed strip: what sums are to be corrected by, [STRIP] in 128 bytes, then the queries,
 * [parts][STRIP][columns of a part]. */
#define START_SIZE (STRIP * sizeof(int32_t))
static size_t size(uint32_t dim) { return START_SIZE + ((size_t)STRIP * dim + 63) / 64 * 64; }

static void pack(const int8_t *queries, size_t n, uint32_t dim, void *packed) {
  int32_t *start = packed;
  int8_t *to = (int8_t *)packed + START_SIZE;
  size_t columns = dim / parts(dim);
  for (size_t q = 0; q < n; q++) start[q] = kf_scan_start(queries + q * dim, dim);
  for (size_t at = 0; at < dim; at += columns)
    for (size_t q = 0; q < STRIP; q++, to += columns) {
      if (q < n)
        memcpy(to, queries + q * dim + at, columns);
      else
        memset(to, 0, columns);
    }
}

/* The state of a scan. Pair p of panels has its sums in sums[p % 2]. They are computed while those
 * of pair p - 1 are compared, and after the hits of pair p - 2 have been written. */
typedef struct amx_scan {
  const kf_scan *s;
  const char *queries;
  size_t n_parts, columns, panel; /* panel: bytes of a panel */
  kf_ahead ahead;
  kf_hit *to; /* the place of the next hit */
  int32_t floor[STRIP];
  uint16_t which[STRIP][PAIR] __attribute__((aligned(64))); /* a bit for each hit of a pair */
  int32_t sums[2][STRIP * WIDE] __attribute__((aligned(64)));
} amx_scan;

/* Compares the sums of queries [from, to) with a pair of panels. There is no branch on the result,
 * since a misprediction would also stop the products in flight. */
static inline void compare(amx_scan *w, size_t pair, size_t from, size_t to) {
  const kf_scan *s = w->s;
  __m512i offset0 = offsets16(s->offset + pair * WIDE, s->unit);
  __m512i offset1 = offsets16(s->offset + pair * WIDE + KF_PANEL, s->unit);
  for (size_t q = from; q < to; q++) {
    const int32_t *x = w->sums[pair % 2] + q * WIDE;
    __m512i floor = _mm512_set1_epi32(w->floor[q]);
    _store_mask16(&w->which[q][0],
                  _mm512_cmpge_epi32_mask(_mm512_load_si512(x), _mm512_add_epi32(offset0, floor)));
    _store_mask16(&w->which[q][1], _mm512_cmpge_epi32_mask(_mm512_load_si512(x + KF_PANEL),
                                                           _mm512_add_epi32(offset1, floor)));
  }
}

/* A bit for each of 16 queries that is set if it has a hit. */
static inline uint32_t with_hits(const void *which) {
  __m512i x = _mm512_load_si512(which);
  return _mm512_test_epi32_mask(x, x);
}

/* Writes the hits of a pair of panels after its comparison. */
static inline void write_hits(amx_scan *w, size_t pair) {
  uint32_t queries = with_hits(w->which) | with_hits(w->which + 16) << 16;
  for (; __builtin_expect(queries != 0, 0); queries &= queries - 1) {
    uint32_t q = (uint32_t)__builtin_ctz(queries), rows;
    const int32_t *x = w->sums[pair % 2] + q * WIDE;
    memcpy(&rows, w->which[q], sizeof rows);
    for (; rows != 0; rows &= rows - 1) {
      uint32_t r = (uint32_t)__builtin_ctz(rows);
      *w->to++ = (kf_hit){.query = q,
                          .row = (uint32_t)(pair * WIDE) + r,
                          .dot = x[r] + ((const int32_t *)w->s->queries)[q]};
    }
  }
}

/* Sums of 16 queries, or 32 if `both`, with a pair of panels. If `comparing`, those of the previous
 * pair are compared meanwhile. `loaded`: there is one part, and its queries are already in their
 * tiles.
 *
 * Rows bypass the first-level cache, so that queries and sums stay there. */
static inline __attribute__((always_inline)) void multiply(amx_scan *w, size_t pair, bool both,
                                                           bool loaded, bool comparing) {
  const uint8_t *rows = w->s->panels + pair * PAIR * w->panel;
  const char *query = w->queries;
  int32_t *sums = w->sums[pair % 2];
  size_t n = w->s->n, stride = WIDE * sizeof *sums;
  _tile_zero(0);
  _tile_zero(1);
  if (both) {
    _tile_zero(2);
    _tile_zero(3);
  }
  for (size_t part = 0; part < w->n_parts; part++) {
    if (!loaded) _tile_loadd(4, query, w->columns);
    _tile_stream_loadd(6, rows, 64);
    _tile_stream_loadd(7, rows + w->panel, 64);
    if (both && !loaded) _tile_loadd(5, query + 16 * w->columns, w->columns);
    _tile_dpbsud(0, 4, 6);
    _tile_dpbsud(1, 4, 7);
    if (both) {
      _tile_dpbsud(2, 5, 6);
      _tile_dpbsud(3, 5, 7);
    }
    kf_ahead_step(&w->ahead);
    query += STRIP * w->columns;
    rows += w->columns * KF_PANEL;
    if (comparing) compare(w, pair - 1, n * part / w->n_parts, n * (part + 1) / w->n_parts);
  }
  _tile_stored(0, sums, stride);
  _tile_stored(1, sums + 16, stride);
  if (both) {
    _tile_stored(2, sums + 16 * WIDE, stride);
    _tile_stored(3, sums + 16 * WIDE + 16, stride);
  }
}

static inline __attribute__((always_inline)) void scan_strip(amx_scan *w, bool both, bool loaded) {
  size_t pairs = w->s->n_panels / PAIR;
  if (loaded) {
    _tile_loadd(4, w->queries, w->columns);
    if (both) _tile_loadd(5, w->queries + 16 * w->columns, w->columns);
  }
  for (size_t pair = 0; pair < pairs; pair++) {
    if (pair > 1) write_hits(w, pair - 2);
    multiply(w, pair, both, loaded, pair > 0);
  }
  if (pairs > 1) write_hits(w, pairs - 2);
  compare(w, pairs - 1, 0, w->s->n);
  write_hits(w, pairs - 1);
}

static void begin_work(amx_scan *w, const kf_scan *s) {
  w->s = s;
  w->queries = (const char *)s->queries + START_SIZE;
  w->n_parts = parts(s->dim);
  w->columns = s->dim / w->n_parts;
  w->panel = s->dim * KF_PANEL;
  w->ahead = kf_ahead_of(s, s->n_panels / PAIR * w->n_parts);
  w->to = s->hits;
}

static size_t scan(const kf_scan *s) {
  if (s->n == 0 || s->n_panels == 0) return 0;
  amx_scan w;
  begin_work(&w, s);
  memset(w.which, 0, sizeof w.which);
  for (size_t q = 0; q < s->n; q++) w.floor[q] = s->floor[q] - ((const int32_t *)s->queries)[q];
  if (s->n > 16 && w.n_parts > 1)
    scan_strip(&w, true, false);
  else if (s->n > 16)
    scan_strip(&w, true, true);
  else
    scan_strip(&w, false, false);
  return (size_t)(w.to - s->hits);
}

static void peaks(const kf_scan *s, int32_t *peaks) {
  for (size_t i = 0; i < s->n * KF_PEAKS; i++) peaks[i] = INT32_MIN;
  if (s->n == 0 || s->n_panels == 0) return;
  amx_scan w;
  begin_work(&w, s);
  for (size_t pair = 0; pair < s->n_panels / PAIR; pair++) {
    int32_t *sums = w.sums[pair % 2];
    multiply(&w, pair, true, false, false);
    __m512i offset0 = offsets16(s->offset + pair * WIDE, s->unit);
    __m512i offset1 = offsets16(s->offset + pair * WIDE + KF_PANEL, s->unit);
    for (size_t q = 0; q < s->n; q++) {
      int32_t *x = sums + q * WIDE;
      _mm512_store_si512(x, _mm512_sub_epi32(_mm512_load_si512(x), offset0));
      _mm512_store_si512(x + 16, _mm512_sub_epi32(_mm512_load_si512(x + 16), offset1));
      kf_raise_peaks(peaks + q * KF_PEAKS + pair * WIDE % KF_PEAKS, x,
                     ((const int32_t *)s->queries)[q], WIDE);
    }
  }
}

static void tiles_on(uint32_t dim) { kf_tiles_on((uint8_t)(dim / parts(dim))); }

const kf_scan_kernel kf_scan_amx = {.strip = STRIP,
                                    .most = 127,
                                    .size = size,
                                    .pack = pack,
                                    .scan = scan,
                                    .peaks = peaks,
                                    .begin = tiles_on,
                                    .end = kf_tiles_off};

#endif
