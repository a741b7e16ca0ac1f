/* scan_avx512.c - the first pass of a search with VNNI: vpdpbusd multiplies the unsigned bytes of
 * 16 rows with four signed bytes of a query. Rows are stored as value + 128, so every sum is too
 * large by 128 times the sum of the query; the floor is raised by as much. Sums start at minus the
 * offsets of their rows.
 *
 * Six queries and four panels are a tile. Four tiles share their panels, which the first of them
 * brings to the first-level cache; each prefetches a quarter of the next four panels. */
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
    for (size_t q = 0; q < n; q++) add_products(QUAD, x, four_of(query + 4 * q), sum + q * QUAD);
  }
}

static __attribute__((noinline)) void take_quad(tile_scan *w, size_t first, unsigned reached,
                                                size_t row) {
  take_hits(w, first, reached, row, QUAD);
}

/* Queries [first, last), n at a time, over all panels: for hits or, if there are some, for peaks. */
INLINE void go(tile_scan *w, size_t first, size_t last, const size_t n, int32_t *peaks) {
  const kf_scan *s = w->s;
  const size_t dim = s->dim, panel = dim * KF_PANEL;
  __m512i sum[SUMS];
  for (size_t some = 0; some < s->n_panels; some += SOME) {
    size_t end = some + SOME < s->n_panels ? some + SOME : s->n_panels;
    set_starts(w, some, end);
    for (size_t p = some; p < end; p += QUAD) {
      const uint8_t *rows = s->panels + p * panel, *next = rows + QUAD * panel;
      const char *query = (const char *)s->queries + START_SIZE + first * dim;
      kf_ahead_step(&w->ahead);
      for (size_t q = first; q < last; q += n, query += n * dim, next += panel) {
        begin(n, QUAD, w->start + (p - some) * KF_PANEL, sum);
        multiply(rows, dim, query, n, next, sum);
        if (peaks != NULL) {
          raise_peaks(n, QUAD, peaks + q * KF_PEAKS, sum);
        } else {
          unsigned reached = reach(w, w->more + q, n, QUAD, sum);
          if (reached != 0) take_quad(w, q, reached, p * KF_PANEL);
        }
      }
    }
  }
}

/* One function for each number of queries, and out of line: inlined, the compiler would keep the
 * sums in memory. */
typedef void go_fn(tile_scan *w, size_t first, size_t last, int32_t *peaks);
#define GO(n)                                                                                      \
  static __attribute__((noinline)) void scan_##n(tile_scan *w, size_t first, size_t last,          \
                                                 int32_t *peaks) {                                 \
    (void)peaks;                                                                                   \
    go(w, first, last, n, NULL);                                                                   \
  }                                                                                                \
  static __attribute__((noinline)) void peaks_##n(tile_scan *w, size_t first, size_t last,         \
                                                  int32_t *peaks) {                                \
    go(w, first, last, n, peaks);                                                                  \
  }
GO(1)
GO(2)
GO(3)
GO(4)
GO(5)
GO(6)
static go_fn *const scan_n[] = {scan_1, scan_2, scan_3, scan_4, scan_5, scan_6};
static go_fn *const peaks_n[] = {peaks_1, peaks_2, peaks_3, peaks_4, peaks_5, peaks_6};

/* Tiles of six queries, and one of those that are left. */
static void all_queries(tile_scan *w, const kf_scan *s, go_fn *const *go_n, int32_t *peaks) {
  size_t full = s->n / TILE * TILE, left = s->n - full;
  w->s = s;
  w->to = s->hits;
  w->ahead = kf_ahead_of(s, s->n_panels / QUAD);
  if (full > 0) go_n[TILE - 1](w, 0, full, peaks);
  if (left > 0) go_n[left - 1](w, full, s->n, peaks);
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
    .group = GROUP, .most = 127, .size = size, .pack = pack, .scan = scan, .peaks = peaks};

#endif
