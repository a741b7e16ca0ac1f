/* scan_avx512.c - the first pass of a search with VNNI: vpdpbusd multiplies the unsigned bytes of
 * 16 rows with four signed bytes of a query. Rows are stored as value + 128, so every sum is too
 * large by 128 times the sum of the query; the floor is raised by as much. Sums start at minus the
 * offsets of their rows.
 *
 * Six queries and four panels are a tile. Four tiles share their panels, which the first of them
 * brings to the first-level cache; each prefetches a quarter of the next four panels.
 *
 * Where the scan may stop, a query often reaches its floor there with one of four panels. It is
 * multiplied with these once more, to the end, after some panels have been scanned. */
#include "kernel/kernel.h"

#ifdef KF_SIMD
#include "kernel/scan_tile.h"

#define TILE 6u
#define QUAD KF_PANELS_STEP

/* A packed group: the correction of sums, then the queries of each tile, [dim / 4][n][4]. */
static size_t size(uint32_t dim) { return START_SIZE + ((size_t)GROUP * dim + 63) / 64 * 64; }

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

/* The state of a scan that may stop. */
typedef struct avx512_scan {
  tile_scan tile;
  int32_t stop_more[GROUP]; /* `more` at the stop */
  /* Who reaches its floor at the stop, and with which of some quads: quad * GROUP + query. Sixteen are
   * written at a time. */
  uint32_t there[SOME / QUAD * GROUP + 16];
} avx512_scan;

/* Adds the products of n queries with four panels over the first columns. */
INLINE void multiply(const uint8_t *rows, size_t dim, size_t columns, const char *query,
                     const size_t n, const uint8_t *ahead, __m512i *sum) {
  size_t panel = dim * KF_PANEL;
  for (size_t i = 0; i < columns; i += 4, rows += 4 * KF_PANEL, query += 4 * n) {
    __m512i x[QUAD];
    UNROLL
    for (size_t v = 0; v < QUAD; v++) x[v] = _mm512_load_si512(rows + v * panel);
    _mm_prefetch((const char *)ahead + i * KF_PANEL, _MM_HINT_T0);
    UNROLL
    for (size_t q = 0; q < n; q++) add_products(QUAD, x, four_of(query + 4 * q), sum + q * QUAD);
  }
}

/* Adds the tails of four panels at the stop. */
INLINE void add_tails(const kf_scan *s, const uint8_t *rows, size_t first, const size_t n,
                      __m512i *sum) {
  size_t panel = s->dim * KF_PANEL;
  __m512i x[QUAD];
  UNROLL
  for (size_t v = 0; v < QUAD; v++) x[v] = _mm512_load_si512(rows + s->stop * KF_PANEL + v * panel);
  UNROLL
  for (size_t q = 0; q < n; q++) {
    __m512i y = _mm512_set1_epi8(s->tail[first + q]);
    UNROLL
    for (size_t v = 0; v < QUAD; v++)
      sum[q * QUAD + v] = _mm512_dpbusd_epi32(sum[q * QUAD + v], x[v], y);
  }
}

static __attribute__((noinline)) void take_quad(tile_scan *w, size_t first, unsigned reached,
                                                size_t row) {
  take_hits(w, first, reached, row, QUAD);
}

/* Adds to n_there queries those that reach their floors at the stop with a quad, a bit for each, and
 * returns how many there are then. Branches would be mispredicted. */
static inline size_t note_there(avx512_scan *w, size_t n_there, uint32_t reached, size_t quad) {
  const __m512i sixteen = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  UNROLL
  for (uint32_t q = 0; q < GROUP; q += 16, reached >>= 16) {
    __m512i entries = _mm512_add_epi32(sixteen, _mm512_set1_epi32((int32_t)(quad * GROUP + q)));
    __mmask16 which = (__mmask16)reached;
    _mm512_storeu_si512(w->there + n_there, _mm512_maskz_compress_epi32(which, entries));
    n_there += (size_t)__builtin_popcount(which);
  }
  return n_there;
}

/* Multiplies them to the end, and writes their hits. Two at a time, or each product would wait for the
 * one before. n: queries of a tile. */
#define PAIR 2
INLINE void take_there(avx512_scan *w, size_t first, const size_t n, size_t some, size_t n_there) {
  tile_scan *t = &w->tile;
  const kf_scan *s = t->s;
  const size_t dim = s->dim, panel = dim * KF_PANEL;
  uint32_t *there = w->there;
  if (n_there > 0) there[n_there] = there[n_there - 1];
  for (size_t i = 0; i < n_there; i += PAIR) {
    const uint8_t *rows[PAIR];
    const char *query[PAIR];
    size_t q[PAIR], row[PAIR];
    __m512i sum[PAIR][QUAD];
    uint64_t which[PAIR] = {0};
    UNROLL
    for (size_t e = 0; e < PAIR; e++) {
      size_t quad = there[i + e] / GROUP, in = there[i + e] % GROUP, tile = in / n * n;
      q[e] = first + in;
      row[e] = (some + quad * QUAD) * KF_PANEL;
      rows[e] = s->panels + row[e] * dim;
      query[e] = (const char *)s->queries + START_SIZE + (first + tile) * dim + 4 * (in - tile);
      UNROLL
      for (size_t v = 0; v < QUAD; v++)
        sum[e][v] = _mm512_load_si512(t->start + (quad * QUAD + v) * KF_PANEL);
    }
    for (size_t c = 0; c < dim; c += 4) {
      UNROLL
      for (size_t e = 0; e < PAIR; e++) {
        __m512i y = four_of(query[e] + c * n);
        UNROLL
        for (size_t v = 0; v < QUAD; v++)
          sum[e][v] = _mm512_dpbusd_epi32(sum[e][v],
                                          _mm512_load_si512(rows[e] + v * panel + c * KF_PANEL), y);
      }
    }
    UNROLL
    for (size_t e = 0; e < PAIR; e++) {
      __m512i least = _mm512_set1_epi32(-t->more[q[e]]);
      UNROLL
      for (size_t v = 0; v < QUAD; v++)
        which[e] |= (uint64_t)_mm512_cmpge_epi32_mask(sum[e][v], least) << v * KF_PANEL;
    }
    if (i + PAIR > n_there) which[1] = 0;
    if ((which[0] | which[1]) == 0) continue;
    UNROLL
    for (size_t e = 0; e < PAIR; e++) {
      UNROLL
      for (size_t v = 0; v < QUAD; v++)
        _mm512_store_si512(t->sums + (e * QUAD + v) * KF_PANEL, sum[e][v]);
    }
    for (size_t e = 0; e < PAIR; e++)
      write_hits(t, q[e], row[e], which[e], t->sums + e * QUAD * KF_PANEL);
  }
}

/* Queries [first, last), n at a time, over all panels: for hits or, if there are some, for peaks. */
INLINE void go(avx512_scan *w, size_t first, size_t last, const size_t n, const bool stops,
               int32_t *peaks) {
  tile_scan *t = &w->tile;
  const kf_scan *s = t->s;
  const size_t dim = s->dim, panel = dim * KF_PANEL;
  __m512i sum[SUMS], above[TILE];
  for (size_t some = 0; some < s->n_panels; some += SOME) {
    size_t end = some + SOME < s->n_panels ? some + SOME : s->n_panels, n_there = 0;
    set_starts(t, some, end);
    for (size_t p = some; p < end; p += QUAD) {
      const uint8_t *rows = s->panels + p * panel, *next = rows + QUAD * panel;
      const char *query = (const char *)s->queries + START_SIZE + first * dim;
      uint32_t there = 0;
      kf_ahead_step(&t->ahead);
      for (size_t q = first; q < last; q += n, query += n * dim, next += panel) {
        begin(n, QUAD, t->start + (p - some) * KF_PANEL, sum);
        multiply(rows, dim, stops ? s->stop : dim, query, n, next, sum);
        if (stops) {
          add_tails(s, rows, q, n, sum);
          rise(w->stop_more + q, n, QUAD, sum, above);
          there |= reached_by(n, above) << (q - first);
        } else if (peaks != NULL) {
          raise_peaks(n, QUAD, peaks + q * KF_PEAKS, sum);
        } else {
          unsigned reached = reach(t, t->more + q, n, QUAD, sum);
          if (reached != 0) take_quad(t, q, reached, p * KF_PANEL);
        }
      }
      if (stops) n_there = note_there(w, n_there, there, (p - some) / QUAD);
    }
    if (stops) take_there(w, first, n, some, n_there);
  }
}

/* One function for each number of queries, and out of line: inlined, the compiler would keep the
 * sums in memory. */
typedef void avx512_go_fn(avx512_scan *w, size_t first, size_t last, int32_t *peaks);
#define GO(n)                                                                                      \
  static __attribute__((noinline)) void scan_##n(avx512_scan *w, size_t first, size_t last,        \
                                                 int32_t *peaks) {                                 \
    (void)peaks;                                                                                   \
    go(w, first, last, n, false, NULL);                                                            \
  }                                                                                                \
  static __attribute__((noinline)) void stop_##n(avx512_scan *w, size_t first, size_t last,        \
                                                 int32_t *peaks) {                                 \
    (void)peaks;                                                                                   \
    go(w, first, last, n, true, NULL);                                                             \
  }                                                                                                \
  static __attribute__((noinline)) void peaks_##n(avx512_scan *w, size_t first, size_t last,       \
                                                  int32_t *peaks) {                                \
    go(w, first, last, n, false, peaks);                                                           \
  }
GO(1)
GO(2)
GO(3)
GO(4)
GO(5)
GO(6)
static avx512_go_fn *const scan_n[] = {scan_1, scan_2, scan_3, scan_4, scan_5, scan_6};
static avx512_go_fn *const stop_n[] = {stop_1, stop_2, stop_3, stop_4, stop_5, stop_6};
static avx512_go_fn *const peaks_n[] = {peaks_1, peaks_2, peaks_3, peaks_4, peaks_5, peaks_6};

/* Tiles of six queries, and one of those that are left. */
static void all_queries(avx512_scan *w, const kf_scan *s, avx512_go_fn *const *go_n,
                        int32_t *peaks) {
  size_t full = s->n / TILE * TILE, left = s->n - full;
  w->tile.s = s;
  w->tile.to = s->hits;
  w->tile.ahead = kf_ahead_of(s, s->n_panels / QUAD);
  if (full > 0) go_n[TILE - 1](w, 0, full, peaks);
  if (left > 0) go_n[left - 1](w, full, s->n, peaks);
}

/* The correction of a sum over the columns before the stop and the tail. */
static int32_t stop_start(const kf_scan *s, size_t q) {
  size_t first = q / TILE * TILE, n = tile_queries(s->n, first);
  const int8_t *query = (const int8_t *)s->queries + START_SIZE + first * s->dim + 4 * (q - first);
  int32_t sum = 4 * s->tail[q];
  for (uint32_t i = 0; i < s->stop; i += 4, query += 4 * n)
    sum += query[0] + query[1] + query[2] + query[3];
  return -128 * sum;
}

static size_t scan(const kf_scan *s) {
  if (s->n == 0 || s->n_panels == 0) return 0;
  avx512_scan w;
  for (size_t q = 0; q < s->n; q++) {
    w.tile.more[q] = ((const int32_t *)s->queries)[q] - s->floor[q];
    if (s->stop > 0) w.stop_more[q] = stop_start(s, q) - s->floor[q];
  }
  all_queries(&w, s, s->stop > 0 ? stop_n : scan_n, NULL);
  return (size_t)(w.tile.to - s->hits);
}

static void peaks(const kf_scan *s, int32_t *peaks) {
  avx512_scan w;
  for (size_t i = 0; i < s->n * KF_PEAKS; i++) peaks[i] = INT32_MIN;
  if (s->n == 0 || s->n_panels == 0) return;
  all_queries(&w, s, peaks_n, peaks);
  for (size_t i = 0; i < s->n * KF_PEAKS; i++)
    peaks[i] += ((const int32_t *)s->queries)[i / KF_PEAKS];
}

const kf_scan_kernel kf_scan_avx512 = {.group = GROUP,
                                       .most = 127,
                                       .stops = true,
                                       .size = size,
                                       .pack = pack,
                                       .scan = scan,
                                       .peaks = peaks};

#endif
