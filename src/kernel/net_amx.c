/* net_amx.c - towers in bf16 with AMX tiles, whose TDPBF16PS defines these products: a tile of 16
 * rows times a tile of 16 outputs adds 32 columns to each of 256 sums.
 *
 * Rows and weights lie in memory tile by tile. Rows after the last one of a tile are read as well,
 * but their sums are not used.
 *
 * Four tiles of sums are computed at a time, 32 rows times a panel, over all columns. The 32 rows
 * go through all panels of a block of outputs, whose weights stay in the second-level cache. The
 * first columns of the rows stay in the first-level cache; the others, and the weights, bypass it
 * (TILELOADDT1), since they would evict the rest before they are used again.
 *
 * Tiles are so fast that finishing a sum (bias, activation, rounding) takes as long as the sum. So
 * one panel's sums are finished while the tiles compute the next panel's, a row at a time, which is
 * little enough not to fill the processor's reorder window. */
#include "kernel/kernel.h"

#ifdef KF_SIMD
#include "kernel/net_wide.h"
#include "kernel/amx_tiles.h"

#define CLOSE      512        /* columns of the rows that stay in the first-level cache */
#define PANELS     4          /* at most this many in a block of outputs */
#define BLOCK      (1u << 20) /* at most this many bytes of weights in a block */
#define EDGE       32         /* rows taken together */
#define TILE_BYTES 1024       /* bytes of a tile */
#define NEAR       (1u << 20) /* rows of at most this many bytes stay in the second-level cache */
#define PANEL_SUMS (EDGE * KF_NET_PANEL)

static inline void put_bf16(const vec y[PARTS], char *to) {
  _mm512_store_si512(to, (__m512i)_mm512_cvtne2ps_pbh(y[1], y[0]));
}

/* Two tiles of 16 outputs in pairs of k, the even one in the lower half. */
static void pack_tiles(const float *block, size_t stride, char *to) {
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24,
                                         8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  for (size_t k = 0; k < KF_NET_STEP; k += 2, block += 2 * stride, to += 64)
    for (size_t half = 0; half < 2; half++) {
      vec even = load(block + half * LANES), odd = load(block + stride + half * LANES);
      __m512i pairs = (__m512i)_mm512_cvtne2ps_pbh(odd, even);
      _mm512_store_si512(to + half * TILE_BYTES, _mm512_permutexvar_epi16(order, pairs));
    }
}

static const format amx = {
    .element = 2, .tall = 16, .weight = 2, .round = to_bf16, .put = put_bf16, .pack = pack_tiles};

/* --- finishing sums -------------------------------------------------------------------------- */

/* The sums of EDGE rows with a panel, finished row by row. */
typedef struct row_sums {
  const kf_net_product *p;
  const float *sums;  /* [EDGE][KF_NET_PANEL] */
  size_t first, rows; /* of the product */
  size_t column;      /* the panel's first output */
  float *out;         /* the place of the first row, if rows are f32 */
  size_t done;        /* rows finished so far */
} row_sums;

/* A row of a last panel that is not full. */
static __attribute__((noinline)) void finish_part(const kf_net_product *p, const float *sums,
                                                  size_t i, size_t j) {
  finish(&amx, p, sums, &(target){i, 1, j, p->end - j});
}

INLINE void finish_row(row_sums *s, const kf_activation activation) {
  const kf_net_product *p = s->p;
  const float *sums = s->sums + s->done * KF_NET_PANEL;
  float *out = p->out != NULL ? s->out + s->done * p->stride : NULL;
  size_t i = s->first + s->done++, j = s->column;
  if (p->end - j < KF_NET_PANEL) {
    finish_part(p, sums, i, j);
    return;
  }
  vec y[PARTS];
  UNROLL
  for (int v = 0; v < PARTS; v++) {
    vec bias = p->bias != NULL ? load(p->bias + j + v * LANES) : all(-0.0f); /* changes nothing */
    y[v] = activate(activation, add(load(sums + v * LANES), bias));
  }
  if (out == NULL) {
    put_bf16(y, (char *)p->prepared + place(&amx, p->n, i, j));
    return;
  }
  UNROLL
  for (int v = 0; v < PARTS; v++)
    store(out + v * LANES, p->add ? add(load(out + v * LANES), y[v]) : y[v]);
}

INLINE bool unfinished(const row_sums *s) { return s->done < s->rows; }

/* --- products -------------------------------------------------------------------------------- */

/* What is prefetched while rows are multiplied: the next rows, and the next block's weights. */
typedef struct ahead {
  kf_ahead rows, weights;
} ahead;

INLINE void fetch_ahead(ahead *a) {
  kf_ahead_step(&a->rows);
  kf_ahead_step(&a->weights);
}

INLINE void begin_sums(const bool both) {
  _tile_zero(0);
  _tile_zero(1);
  if (both) {
    _tile_zero(2);
    _tile_zero(3);
  }
}

INLINE void end_sums(float *sums, const bool both) {
  const size_t stride = KF_NET_PANEL * sizeof *sums;
  _tile_stored(0, sums, stride);
  _tile_stored(1, sums + 16, stride);
  if (both) {
    _tile_stored(2, sums + 16 * KF_NET_PANEL, stride);
    _tile_stored(3, sums + 16 * KF_NET_PANEL + 16, stride);
  }
}

/* Adds the products of 32 rows, or 16, with one panel over KF_NET_STEP columns. Tiles 0 to 3 are
 * sums, 4 and 5 rows, 6 and 7 weights. */
INLINE void multiply_step(const char *x, size_t half, const char *weights, const bool close,
                          const bool both) {
  _tile_stream_loadd(6, weights, 64);
  if (close)
    _tile_loadd(4, x, 64);
  else
    _tile_stream_loadd(4, x, 64);
  _tile_stream_loadd(7, weights + TILE_BYTES, 64);
  _tile_dpbf16ps(0, 4, 6);
  _tile_dpbf16ps(1, 4, 7);
  if (both) {
    if (close)
      _tile_loadd(5, x + half, 64);
    else
      _tile_stream_loadd(5, x + half, 64);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
}

/* The sums of 32 rows, or 16, with one panel. Meanwhile the rows before are finished, at the pace
 * at which these are multiplied. */
INLINE void sum_panel(const char *x, size_t half, const char *weights, size_t depth, float *sums,
                      const bool both, row_sums *before, ahead *next,
                      const kf_activation activation) {
  size_t due = 0; /* rows to finish by now, times depth */
  begin_sums(both);
  for (size_t k = 0; k < depth; k += KF_NET_STEP, x += TILE_BYTES, weights += 2 * TILE_BYTES) {
    if (k < CLOSE)
      multiply_step(x, half, weights, true, both);
    else
      multiply_step(x, half, weights, false, both);
    fetch_ahead(next);
    for (due += EDGE * KF_NET_STEP; due >= depth; due -= depth)
      if (unfinished(before)) finish_row(before, activation);
  }
  end_sums(sums, both);
}

/* All sums of s, while those before are finished. */
INLINE void sum_rows(const row_sums *s, float *sums, row_sums *before, ahead *next,
                     const kf_activation activation) {
  const kf_net_product *p = s->p;
  size_t depth = padded(p->k), half = rows_bytes(&amx, 16, p->k);
  const char *x = (const char *)p->x + place(&amx, p->k, s->first, 0);
  const char *w = (const char *)p->weights + s->column / KF_NET_PANEL * panel_bytes(&amx, p->k);
  /* The compiler does not know that TILELOADD reads memory, and must not delay stores past it. */
  __asm__ volatile("" : : : "memory");
  if (s->rows > 16)
    sum_panel(x, half, w, depth, sums, true, before, next, activation);
  else
    sum_panel(x, half, w, depth, sums, false, before, next, activation);
  while (unfinished(before)) finish_row(before, activation);
}

/* Prefetches `bytes` from `offset` on, over `steps` steps. */
INLINE kf_ahead ahead_of(const void *base, size_t offset, size_t bytes, size_t steps) {
  const uint8_t *from = bytes > 0 ? (const uint8_t *)base + offset : NULL;
  size_t each = steps > 0 ? bytes / steps : bytes;
  return (kf_ahead){from, bytes > 0 ? from + bytes : NULL, (each + 63) / 64 * 64};
}

INLINE size_t at_most(size_t a, size_t most) { return a < most ? a : most; }

INLINE size_t panels_of(size_t columns) { return (columns + KF_NET_PANEL - 1) / KF_NET_PANEL; }

/* Prefetches the weights after a block of outputs, or those of a later product, while all rows are
 * multiplied with the block. */
INLINE kf_ahead weights_ahead(const kf_net_product *p, size_t after, size_t columns, size_t steps) {
  size_t panel = panel_bytes(&amx, p->k), all = (p->m + EDGE - 1) / EDGE * steps;
  if (after >= p->end) return ahead_of(p->next, 0, p->next_size, all);
  size_t panels = panels_of(at_most(p->end - after, columns));
  return ahead_of(p->weights, after / KF_NET_PANEL * panel, panels * panel, all);
}

/* Prefetches the rows from row i on, unless all rows fit the second-level cache. */
INLINE kf_ahead rows_ahead(const kf_net_product *p, size_t i, size_t steps) {
  size_t rows = i < p->m && rows_bytes(&amx, p->m, p->k) > NEAR ? at_most(p->m - i, EDGE) : 0;
  return ahead_of(p->x, place(&amx, p->k, i, 0), rows_bytes(&amx, rows, p->k), steps);
}

INLINE void multiply_by(const kf_net_product *p, const kf_activation activation) {
  float sums[2][PANEL_SUMS] __attribute__((aligned(64)));
  row_sums before = {.p = p};
  ahead next;
  size_t now = 0, fit = BLOCK / panel_bytes(&amx, p->k);
  size_t most = (fit > 0 ? at_most(fit, PANELS) : 1) * KF_NET_PANEL;
  for (size_t j = p->first; j < p->end; j += most) {
    size_t columns = at_most(p->end - j, most);
    size_t steps = panels_of(columns) * (padded(p->k) / KF_NET_STEP);
    next.weights = weights_ahead(p, j + columns, most, steps);
    for (size_t i = 0; i < p->m; i += EDGE) {
      next.rows = rows_ahead(p, i + EDGE, steps);
      for (size_t c = 0; c < columns; c += KF_NET_PANEL, now ^= 1) {
        float *out = p->out != NULL ? kf_net_out(p, i, j + c) : NULL;
        row_sums s = {p, sums[now], i, at_most(p->m - i, EDGE), j + c, out, 0};
        sum_rows(&s, sums[now], &before, &next, activation);
        before = s;
      }
    }
  }
  while (unfinished(&before)) finish_row(&before, activation);
}

static void amx_multiply(const kf_net_product *p) {
  if (p->m == 0) return;
  switch (p->activation) {
  case KF_ACT_NONE: multiply_by(p, KF_ACT_NONE); break;
  case KF_ACT_QUICK_GELU: multiply_by(p, KF_ACT_QUICK_GELU); break;
  case KF_ACT_GELU: multiply_by(p, KF_ACT_GELU); break;
  case KF_ACT_GELU_TANH: multiply_by(p, KF_ACT_GELU_TANH); break;
  }
}

NET(amx, KF_BF16, kf_full_tiles_on, kf_tiles_off);

#endif
