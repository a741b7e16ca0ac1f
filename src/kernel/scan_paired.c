/* scan_paired.c - the first pass of a search with VNNI and two thirds of the products (kf_scan_pairs).
 *
 * Zen 4 multiplies bytes in two of its four vector units, and adds them in any. Of 12 columns, eight are
 * paired: 12 products of 16 rows with a query take two instructions that multiply and two that add, and
 * all four units are busy. That is 1.5 times what multiplying alone can do, and bytes of 7 bits are what it
 * costs. (A processor that multiplies and adds in the same units gains nothing.)
 *
 * Ten queries and two panels are a tile. The two tiles of a group share their panels, and each prefetches one
 * of the next two. If there are fewer than ten queries, a tile has 2, 6 or 10, some of them zeros. */
#include "kernel/kernel.h"

#ifdef KF_SIMD
#include "kernel/scan_tile.h"

#define TILE  10u
#define TILES 2u              /* of a group */
#define TWO   2u              /* panels */
#define NONE  (INT32_MIN / 2) /* `more` of a query that is none: no sum reaches its floor */

/* The queries of the tile from `first` on, with zeros. */
static size_t tile_queries(size_t n, size_t first) {
  return n - first < TILE ? (n - first + 1) / 4 * 4 + 2 : TILE;
}

static size_t size(uint32_t dim) {
  return START_SIZE + ((size_t)TILES * TILE * dim + 63) / 64 * 64;
}

/* Minus the excess of a sum that is not the row's alone. */
static int32_t start_of(const int8_t *query, uint32_t dim) {
  uint32_t paired = dim / KF_PAIRED * KF_PAIRED;
  int32_t sum = kf_scan_start(query + paired, dim - paired);
  for (uint32_t i = 0; i < paired; i += KF_PAIRED) {
    for (uint32_t j = i; j < i + 4; j++) sum -= (query[j + 4] + 128) * query[j];
    sum += kf_scan_start(query + i + 8, 4);
  }
  return sum;
}

/* Four bytes of a query; of one that is none, zeros. */
static char *put_four(const int8_t *queries, size_t n, uint32_t dim, size_t q, uint32_t i,
                      int8_t flip, char *to) {
  for (uint32_t j = 0; j < 4; j++) to[j] = (char)((q < n ? queries[q * dim + i + j] : 0) ^ flip);
  return to + 4;
}

/* A packed group: the correction of sums, then the queries of each tile. For 12 columns there are, for each
 * query, the second four, the first four less 128, and the last four of the query that is half a tile
 * away; then the columns at the end, [n][4] for each four of them. */
static void pack(const int8_t *queries, size_t n, uint32_t dim, void *packed) {
  int32_t *start = packed;
  char *to = (char *)packed + START_SIZE;
  for (size_t q = 0; q < n; q++) start[q] = start_of(queries + q * dim, dim);
  for (size_t first = 0; first < n; first += TILE) {
    size_t all = tile_queries(n, first);
    uint32_t i = 0;
    for (; i + KF_PAIRED <= dim; i += KF_PAIRED)
      for (size_t q = 0; q < all; q++) {
        to = put_four(queries, n, dim, first + q, i + 4, 0, to);
        to = put_four(queries, n, dim, first + q, i, -128, to);
        to = put_four(queries, n, dim, first + (q + all / 2) % all, i + 8, 0, to);
      }
    for (; i < dim; i += 4)
      for (size_t q = 0; q < all; q++) to = put_four(queries, n, dim, first + q, i, 0, to);
  }
}

/* Adds the products of a query with four pairs of columns: x has the first of each, z the second. */
INLINE void add_pairs(const __m512i *x, const __m512i *z, const char *query, __m512i *sum) {
  __m512i second = four_of(query), first = four_of(query + 4);
  UNROLL
  for (size_t v = 0; v < TWO; v++) {
    sum[v] =
        _mm512_dpbusd_epi32(sum[v], _mm512_add_epi8(x[v], second), _mm512_add_epi8(z[v], first));
    __asm__("" : "+v"(sum[v])); /* as in add_products */
  }
}

INLINE void load_two(const uint8_t *rows, size_t panel, __m512i *x) {
  UNROLL
  for (size_t v = 0; v < TWO; v++) x[v] = _mm512_load_si512(rows + v * panel);
}

/* Adds the products of n queries with two panels. Those with and without pairs take turns, so that
 * all units have work at any time. */
INLINE void multiply(const uint8_t *rows, size_t dim, const char *query, const size_t n,
                     const uint8_t *ahead, __m512i *sum) {
  size_t panel = dim * KF_PANEL, i = 0;
  __m512i x[TWO], y[TWO], z[TWO];
  for (; i + KF_PAIRED <= dim; i += KF_PAIRED, query += KF_PAIRED * n) {
    const uint8_t *at = rows + i * KF_PANEL;
    UNROLL
    for (size_t c = 0; c < KF_PAIRED; c += 4)
      _mm_prefetch((const char *)ahead + (i + c) * KF_PANEL, _MM_HINT_T0);
    load_two(at, panel, x);
    load_two(at + 4 * KF_PANEL, panel, y);
    load_two(at + 8 * KF_PANEL, panel, z);
    UNROLL
    for (size_t q = 0; q < n; q++) {
      const char *twelve = query + KF_PAIRED * q;
      add_pairs(x, y, twelve, sum + q * TWO);
      add_products(TWO, z, four_of(twelve + 8), sum + (q + n / 2) % n * TWO);
    }
  }
  for (; i < dim; i += 4, query += 4 * n) {
    load_two(rows + i * KF_PANEL, panel, x);
    UNROLL
    for (size_t q = 0; q < n; q++) add_products(TWO, x, four_of(query + 4 * q), sum + q * TWO);
  }
}

static __attribute__((noinline)) void take_two(tile_scan *w, size_t first, unsigned reached,
                                               size_t row) {
  take_hits(w, first, reached, row, TWO);
}

/* Queries [first, last), n at a time, over all panels: for hits or, if there are some, for peaks. */
INLINE void go(tile_scan *w, size_t first, size_t last, const size_t n, int32_t *peaks) {
  const kf_scan *s = w->s;
  const size_t dim = s->dim, panel = dim * KF_PANEL;
  __m512i sum[SUMS];
  for (size_t some = 0; some < s->n_panels; some += SOME) {
    size_t end = some + SOME < s->n_panels ? some + SOME : s->n_panels;
    set_starts(w, some, end);
    for (size_t p = some; p < end; p += TWO) {
      const uint8_t *rows = s->panels + p * panel, *next = rows + TWO * panel;
      const char *query = (const char *)s->queries + START_SIZE + first * dim;
      kf_ahead_step(&w->ahead);
      for (size_t q = first; q < last; q += n, query += n * dim, next += panel) {
        begin(n, TWO, w->start + (p - some) * KF_PANEL, sum);
        multiply(rows, dim, query, n, next, sum);
        if (peaks != NULL) {
          raise_peaks(n, TWO, peaks + q * KF_PEAKS + p % KF_PANELS_STEP * KF_PANEL, sum);
        } else {
          unsigned reached = reach(w, w->more + q, n, TWO, sum);
          if (reached != 0) take_two(w, q, reached, p * KF_PANEL);
        }
      }
    }
  }
}

/* One function for each number of queries, out of line as in scan_avx512.c. */
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
GO(2)
GO(6)
GO(10)
static go_fn *const scan_n[] = {scan_2, scan_6, scan_10};
static go_fn *const peaks_n[] = {peaks_2, peaks_6, peaks_10};

/* Tiles of ten queries, and one of those that are left. */
static void all_queries(tile_scan *w, const kf_scan *s, go_fn *const *go_n, int32_t *peaks) {
  size_t full = s->n / TILE * TILE;
  w->s = s;
  w->pairs = s->pairs;
  w->to = s->hits;
  w->ahead = kf_ahead_of(s, s->n_panels / TWO);
  if (full > 0) go_n[TILE / 4](w, 0, full, peaks);
  if (full == s->n) return;
  size_t left = tile_queries(s->n, full);
  go_n[left / 4](w, full, full + left, peaks);
}

static size_t scan(const kf_scan *s) {
  if (s->n == 0 || s->n_panels == 0) return 0;
  tile_scan w;
  for (size_t q = 0; q < TILES * TILE; q++)
    w.more[q] = q < s->n ? ((const int32_t *)s->queries)[q] - s->floor[q] : NONE;
  all_queries(&w, s, scan_n, NULL);
  return (size_t)(w.to - s->hits);
}

static void peaks(const kf_scan *s, int32_t *peaks) {
  tile_scan w;
  int32_t all[TILES * TILE * KF_PEAKS] __attribute__((aligned(64))); /* zeros as well */
  for (size_t i = 0; i < TILES * TILE * KF_PEAKS; i++) all[i] = INT32_MIN;
  for (size_t i = 0; i < s->n * KF_PEAKS; i++) peaks[i] = INT32_MIN;
  if (s->n == 0 || s->n_panels == 0) return;
  all_queries(&w, s, peaks_n, all);
  for (size_t i = 0; i < s->n * KF_PEAKS; i++)
    peaks[i] = all[i] + ((const int32_t *)s->queries)[i / KF_PEAKS];
}

const kf_scan_kernel kf_scan_paired = {.group = TILES * TILE,
                                       .most = KF_PAIRED_MOST,
                                       .pairs = true,
                                       .size = size,
                                       .pack = pack,
                                       .scan = scan,
                                       .peaks = peaks};

#endif
