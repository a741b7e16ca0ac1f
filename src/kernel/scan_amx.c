/* scan_amx.c - the first pass of a search with AMX: TDPBSUD multiplies a tile of 16 queries and up
 * to 64 signed columns with a tile of the same columns, in groups of four, and 16 rows. A tile of
 * rows is a piece of a panel as it lies in memory. Two by two tiles of sums, 32 queries and two
 * panels, are under way at a time; while they are, AVX-512 looks for hits in the ones before.
 *
 * Rows are stored as value + 128, so that 128 times the sum of the query is too much in every sum:
 * it is taken into account where sums are compared. */
#include "kernel/kernel.h"

#ifdef KF_SIMD
#include "kernel/scan512.h"

#include <string.h>

#define GROUP 32
#define PAIR  2 /* panels */
#define WIDE  (PAIR * KF_PANEL)

/* Columns come in equal parts of at most 64, see kf_scan_dim. */
static size_t parts(size_t dim) { return (dim + 63) / 64; }

/* A packed group: what sums lack, [GROUP] in 128 bytes, then the queries, [parts][GROUP][columns of
 * a part]. */
#define START_SIZE (GROUP * sizeof(int32_t))
static size_t size(uint32_t dim) { return START_SIZE + ((size_t)GROUP * dim + 63) / 64 * 64; }

static void pack(const int8_t *queries, size_t n, uint32_t dim, void *packed) {
  int32_t *start = packed;
  int8_t *to = (int8_t *)packed + START_SIZE;
  size_t columns = dim / parts(dim);
  for (size_t q = 0; q < n; q++) start[q] = kf_scan_start(queries + q * dim, dim);
  for (size_t at = 0; at < dim; at += columns)
    for (size_t q = 0; q < GROUP; q++, to += columns) {
      if (q < n)
        memcpy(to, queries + q * dim + at, columns);
      else
        memset(to, 0, columns);
    }
}

/* What one scan works with. */
typedef struct work {
  const kf_scan *s;
  const char *queries;
  size_t n_parts, columns, panel; /* panel: bytes of one */
  int32_t floor[GROUP];
  int32_t sums[2][GROUP * WIDE] __attribute__((aligned(64))); /* of two pairs of panels in turn */
} work;

/* Queries [from, to) against a pair of panels from row `row` on, whose sums are given. */
static inline void look_at(const work *w, const int32_t *sums, size_t row, size_t from, size_t to) {
  const kf_scan *s = w->s;
  __m512i offset0 = offsets16(s->offset + row, s->unit);
  __m512i offset1 = offsets16(s->offset + row + KF_PANEL, s->unit);
  for (size_t q = from; q < to; q++) {
    const int32_t *x = sums + q * WIDE;
    __m512i floor = _mm512_set1_epi32(w->floor[q]);
    __mmask16 a = _mm512_cmpge_epi32_mask(_mm512_load_si512(x), _mm512_add_epi32(offset0, floor));
    __mmask16 b =
        _mm512_cmpge_epi32_mask(_mm512_load_si512(x + KF_PANEL), _mm512_add_epi32(offset1, floor));
    if (__builtin_expect(_mm512_kortestz(a, b), 1)) continue;
    int32_t start = ((const int32_t *)s->queries)[q];
    keep(s, q, row, a, x, start, false);
    keep(s, q, row + KF_PANEL, b, x + KF_PANEL, start, false);
  }
}

/* Sums of 16 or 32 queries with two panels, to `sums`. Meanwhile the ones before (NULL: none), of
 * the pair of panels that ends at `row`, are looked at. `loaded`: there is one part, and its
 * queries are in their tiles. */
static inline __attribute__((always_inline)) void multiply(const work *w, const uint8_t *rows,
                                                           bool both, bool loaded, int32_t *sums,
                                                           const int32_t *before, size_t row) {
  const char *query = w->queries;
  size_t n = w->s->n;
  _tile_zero(0);
  _tile_zero(1);
  if (both) {
    _tile_zero(2);
    _tile_zero(3);
  }
  for (size_t part = 0; part < w->n_parts; part++) {
    if (!loaded) _tile_loadd(4, query, w->columns);
    _tile_loadd(6, rows, 64);
    _tile_loadd(7, rows + w->panel, 64);
    if (both && !loaded) _tile_loadd(5, query + 16 * w->columns, w->columns);
    _tile_dpbsud(0, 4, 6);
    _tile_dpbsud(1, 4, 7);
    if (both) {
      _tile_dpbsud(2, 5, 6);
      _tile_dpbsud(3, 5, 7);
    }
    query += GROUP * w->columns;
    rows += w->columns * KF_PANEL;
    if (before != NULL)
      look_at(w, before, row - WIDE, n * part / w->n_parts, n * (part + 1) / w->n_parts);
  }
  _tile_stored(0, sums, WIDE * sizeof *sums);
  _tile_stored(1, sums + 16, WIDE * sizeof *sums);
  if (both) {
    _tile_stored(2, sums + 16 * WIDE, WIDE * sizeof *sums);
    _tile_stored(3, sums + 16 * WIDE + 16, WIDE * sizeof *sums);
  }
}

static inline __attribute__((always_inline)) void scan_group(work *w, bool both, bool loaded) {
  const int32_t *before = NULL;
  if (loaded) {
    _tile_loadd(4, w->queries, w->columns);
    if (both) _tile_loadd(5, w->queries + 16 * w->columns, w->columns);
  }
  for (size_t p = 0; p < w->s->n_panels; p += PAIR) {
    int32_t *sums = w->sums[p / PAIR % 2];
    multiply(w, w->s->panels + p * w->panel, both, loaded, sums, before, p * KF_PANEL);
    before = sums;
  }
  if (before != NULL) look_at(w, before, (w->s->n_panels - PAIR) * KF_PANEL, 0, w->s->n);
}

static void scan(const kf_scan *s) {
  if (s->n == 0 || s->n_panels == 0) return;
  work w;
  w.s = s;
  w.queries = (const char *)s->queries + START_SIZE;
  w.n_parts = parts(s->dim);
  w.columns = s->dim / w.n_parts;
  w.panel = s->dim * KF_PANEL;
  for (size_t q = 0; q < GROUP; q++)
    w.floor[q] = q < s->n ? s->floor[q] - ((const int32_t *)s->queries)[q] : KF_SCAN_LIMIT;
  for (size_t q = 0; q < s->n; q++) s->count[q] = 0;
  if (s->n > 16 && w.n_parts > 1)
    scan_group(&w, true, false);
  else if (s->n > 16)
    scan_group(&w, true, true);
  else
    scan_group(&w, false, false);
}

/* Tiles 0 to 3 are sums, 4 and 5 queries, 6 and 7 rows, with `columns` columns. Constant, because
 * the compiler does not know that LDTILECFG reads all of it, and would leave out the stores that
 * fill in a local one. */
typedef struct tiles {
  uint8_t palette, start_row, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
} tiles;
#define TILES(columns)                                                                             \
  {                                                                                                \
    .palette = 1, .row_bytes = {64, 64, 64, 64, columns, columns, 64, 64}, .rows = {               \
      16,                                                                                          \
      16,                                                                                          \
      16,                                                                                          \
      16,                                                                                          \
      16,                                                                                          \
      16,                                                                                          \
      (columns) / 4,                                                                               \
      (columns) / 4                                                                                \
    }                                                                                              \
  }
static const tiles all_tiles[] = {TILES(4),  TILES(8),  TILES(12), TILES(16), TILES(20), TILES(24),
                                  TILES(28), TILES(32), TILES(36), TILES(40), TILES(44), TILES(48),
                                  TILES(52), TILES(56), TILES(60), TILES(64)};

static void tiles_on(uint32_t dim) { _tile_loadconfig(&all_tiles[dim / parts(dim) / 4 - 1]); }

static void tiles_off(void) { _tile_release(); }

const kf_scan_kernel kf_scan_amx = {.group = GROUP,
                                    .most = 127,
                                    .size = size,
                                    .pack = pack,
                                    .scan = scan,
                                    .begin = tiles_on,
                                    .end = tiles_off};

#endif
