/* net_amx.c - towers in bf16 by AMX tiles, whose TDPBF16PS defines these products: a tile of 16
 * rows times one of 16 outputs adds 32 columns to each of 256 sums. Four such tiles of sums are
 * computed at a time, 32 rows times a panel. Rows past the last are read as zeros, from a copy. */
#include "kernel/kernel.h"

#ifdef KF_SIMD
#include "kernel/net_wide.h"
#include "kernel/amx_tiles.h"

#define EDGE       32  /* rows of four tiles */
#define DEPTH      512 /* columns: 32 rows of this many fill most of the first-level cache */
#define SUM_STRIDE (BLOCK_N * sizeof(float))

static inline void put_bf16(const vec y[PARTS], char *row, size_t j) {
  _mm512_store_si512(row + j * sizeof(uint16_t), (__m512i)_mm512_cvtne2ps_pbh(y[1], y[0]));
}

/* 32 rows, or 16, times a panel. Tiles 0 to 3 are sums, 4 and 5 rows, 6 and 7 weights. */
INLINE void multiply_tiles(const char *x, size_t row, const char *weights, size_t steps,
                           float *sums, bool fresh, const bool both_halves) {
  if (fresh) {
    _tile_zero(0);
    _tile_zero(1);
    if (both_halves) {
      _tile_zero(2);
      _tile_zero(3);
    }
  } else {
    _tile_loadd(0, sums, SUM_STRIDE);
    _tile_loadd(1, sums + 16, SUM_STRIDE);
    if (both_halves) {
      _tile_loadd(2, sums + 16 * BLOCK_N, SUM_STRIDE);
      _tile_loadd(3, sums + 16 * BLOCK_N + 16, SUM_STRIDE);
    }
  }
  for (size_t k = 0; k < steps; k += KF_NET_STEP) {
    _tile_loadd(6, weights, LINE);
    _tile_loadd(7, weights + 64, LINE);
    _tile_loadd(4, x, row);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    if (both_halves) {
      _tile_loadd(5, x + 16 * row, row);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
    x += KF_NET_STEP * sizeof(uint16_t);
    weights += KF_NET_STEP / 2 * LINE;
  }
  _tile_stored(0, sums, SUM_STRIDE);
  _tile_stored(1, sums + 16, SUM_STRIDE);
  if (both_halves) {
    _tile_stored(2, sums + 16 * BLOCK_N, SUM_STRIDE);
    _tile_stored(3, sums + 16 * BLOCK_N + 16, SUM_STRIDE);
  }
}

/* The sums of up to 32 rows with all panels; sums has room for all 32. */
static void sum_rows(const char *x, size_t row, size_t rows, const char *weights, size_t panel,
                     size_t panels, size_t steps, float *sums, bool fresh) {
  /* The compiler does not know that TILELOADD reads memory; earlier stores must be done. */
  __asm__ volatile("" : : : "memory");
  for (size_t p = 0; p < panels; p++, weights += panel, sums += KF_NET_PANEL)
    if (rows > 16)
      multiply_tiles(x, row, weights, steps, sums, fresh, true);
    else
      multiply_tiles(x, row, weights, steps, sums, fresh, false);
}

/* The rows after the last full 32, unless they are 16. */
static void sum_rest(const char *x, size_t row, size_t rows, const char *weights, size_t panel,
                     size_t panels, size_t steps, float *sums, bool fresh) {
  uint16_t copy[EDGE][DEPTH + 32] __attribute__((aligned(64)));
  for (size_t r = 0; r < (rows > 16 ? 32u : 16u); r++)
    if (r < rows)
      memcpy(copy[r], x + r * row, steps * sizeof **copy);
    else
      memset(copy[r], 0, steps * sizeof **copy);
  sum_rows((const char *)copy, sizeof *copy, rows, weights, panel, panels, steps, sums, fresh);
}

static void sum_tiled(const char *x, size_t row, size_t rows, const char *weights, size_t panel,
                      size_t panels, size_t steps, float *sums, bool fresh) {
  for (; rows >= EDGE || rows == 16; x += EDGE * row, sums += EDGE * BLOCK_N) {
    size_t now = rows < EDGE ? rows : EDGE;
    sum_rows(x, row, now, weights, panel, panels, steps, sums, fresh);
    rows -= now;
  }
  if (rows > 0) sum_rest(x, row, rows, weights, panel, panels, steps, sums, fresh);
}

static const format amx = {.element = 2,
                           .weight = 2,
                           .depth = DEPTH,
                           .round = to_bf16,
                           .put = put_bf16,
                           .pack = pack_pairs,
                           .sum = sum_tiled};
NET(amx, KF_BF16, kf_full_tiles_on, kf_tiles_off);

#endif
