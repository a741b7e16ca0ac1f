/* scan_amx.c - the first pass of a search with AMX: TDPBSUD multiplies a tile of 16 queries and up
 * to 64 signed columns with a tile of the same columns, in groups of four, and 16 rows. A tile of
 * rows is a piece of a panel as it lies in memory. Two by two tiles of sums, 32 queries and two
 * panels, are under way at a time; while they are, AVX-512 looks for hits in the ones before.
 *
 * Rows are stored as value + 128, so that a sum starts at -128 times the sum of the query. */
#include "kernel/kernel.h"

#ifdef KF_SIMD
#include "kernel/scan512.h"

#include <string.h>

#define GROUP 32
#define PAIR  2 /* panels */
#define WIDE  (PAIR * KF_PANEL)

/* Columns come in equal parts of at most 64, see kf_scan_dim. */
static size_t parts(size_t dim) { return (dim + 63) / 64; }

/* A packed group: where the sums start, [GROUP][16] times the same number for each query, then the
 * queries, [parts][GROUP][columns of a part]. */
#define START_SIZE (GROUP * 64)
static size_t size(uint32_t dim) { return START_SIZE + ((size_t)GROUP * dim + 63) / 64 * 64; }

static void pack(const int8_t *queries, size_t n, uint32_t dim, void *packed) {
  int32_t *start = packed;
  int8_t *to = (int8_t *)packed + START_SIZE;
  size_t columns = dim / parts(dim);
  for (size_t q = 0; q < GROUP; q++) {
    int32_t sum = 0;
    for (size_t i = 0; q < n && i < dim; i++) sum += queries[q * dim + i];
    for (size_t r = 0; r < 16; r++) start[q * 16 + r] = -128 * sum;
  }
  for (size_t at = 0; at < dim; at += columns)
    for (size_t q = 0; q < GROUP; q++, to += columns) {
      if (q < n)
        memcpy(to, queries + q * dim + at, columns);
      else
        memset(to, 0, columns);
    }
}

/* Where the sums of the pair of panels before are looked at, meanwhile. */
typedef struct earlier {
  const int32_t *dots; /* [GROUP][WIDE] */
  size_t row;
  bool any;
} earlier;

static inline void look_at(const kf_scan *s, const earlier *e, size_t from, size_t to) {
  for (size_t q = from; e->any && q < to; q++) find_hits(s, q, e->row, e->dots + q * WIDE, PAIR);
}

/* 16 or 32 queries with two panels, to dots; `e` is looked at on the way. */
static inline __attribute__((always_inline)) void
multiply(const kf_scan *s, const uint8_t *rows, bool both, int32_t *dots, const earlier *e) {
  const char *start = s->queries, *query = start + START_SIZE;
  size_t n_parts = parts(s->dim), columns = s->dim / n_parts, panel = s->dim * KF_PANEL;
  _tile_loadd(0, start, 64);
  _tile_loadd(1, start, 64);
  if (both) {
    _tile_loadd(2, start + START_SIZE / 2, 64);
    _tile_loadd(3, start + START_SIZE / 2, 64);
  }
  for (size_t part = 0; part < n_parts; part++) {
    _tile_loadd(4, query, columns);
    _tile_loadd(6, rows, 64);
    _tile_loadd(7, rows + panel, 64);
    _tile_dpbsud(0, 4, 6);
    _tile_dpbsud(1, 4, 7);
    if (both) {
      _tile_loadd(5, query + 16 * columns, columns);
      _tile_dpbsud(2, 5, 6);
      _tile_dpbsud(3, 5, 7);
    }
    query += GROUP * columns;
    rows += columns * KF_PANEL;
    look_at(s, e, s->n * part / n_parts, s->n * (part + 1) / n_parts);
  }
  _tile_stored(0, dots, WIDE * sizeof *dots);
  _tile_stored(1, dots + 16, WIDE * sizeof *dots);
  if (both) {
    _tile_stored(2, dots + 16 * WIDE, WIDE * sizeof *dots);
    _tile_stored(3, dots + 16 * WIDE + 16, WIDE * sizeof *dots);
  }
}

static inline __attribute__((always_inline)) void scan_group(const kf_scan *s, bool both) {
  int32_t dots[2][GROUP * WIDE] __attribute__((aligned(64)));
  earlier e = {.any = false};
  for (size_t q = 0; q < s->n; q++) s->count[q] = 0;
  for (size_t p = 0; p < s->n_panels; p += PAIR) {
    int32_t *to = dots[p / PAIR % 2];
    multiply(s, s->panels + p * s->dim * KF_PANEL, both, to, &e);
    e = (earlier){.dots = to, .row = p * KF_PANEL, .any = true};
  }
  look_at(s, &e, 0, s->n);
}

static void scan(const kf_scan *s) {
  if (s->n > 16)
    scan_group(s, true);
  else
    scan_group(s, false);
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

const kf_scan_kernel kf_scan_amx = {
    .group = GROUP, .size = size, .pack = pack, .scan = scan, .begin = tiles_on, .end = tiles_off};

#endif
