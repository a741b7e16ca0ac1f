/* net_amx.c - towers in bf16 by AMX tiles, whose TDPBF16PS is the definition of these products:
 * a tile of 16 rows times one of 16 outputs adds 32 columns to each of 256 sums. Four such tiles
 * of sums are worked on at a time, 32 rows times a panel. Rows past the last are read from a
 * copy, as zeros. */
#include "kernel/kernel.h"

#ifdef KF_SIMD
#include "kernel/net_wide.h"

#define EDGE       32  /* rows of four tiles */
#define DEPTH      512 /* columns: 32 rows of that many fill most of the first cache */
#define SUM_STRIDE (BLOCK_N * sizeof(float))

static inline void put_bf16(const vec y[PARTS], char *row, size_t j) {
  UNROLL
  for (int v = 0; v < PARTS; v++) {
    __m512i upper = _mm512_srli_epi32(as_bits(to_bf16(y[v])), 16);
    _mm256_storeu_si256((__m256i *)(void *)(row + (j + (size_t)v * LANES) * sizeof(uint16_t)),
                        _mm512_cvtepi32_epi16(upper));
  }
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
  for (size_t p = 0; p < panels; p++, weights += panel, sums += KF_NET_PANEL)
    if (rows > 16)
      multiply_tiles(x, row, weights, steps, sums, fresh, true);
    else
      multiply_tiles(x, row, weights, steps, sums, fresh, false);
}

/* What is left below the last 32 rows. */
static void sum_rest(const char *x, size_t row, size_t rows, const char *weights, size_t panel,
                     size_t panels, size_t steps, float *sums, bool fresh) {
  uint16_t copy[EDGE][DEPTH + 32] __attribute__((aligned(64)));
  for (size_t r = 0; r < EDGE; r++)
    if (r < rows)
      memcpy(copy[r], x + r * row, steps * sizeof **copy);
    else
      memset(copy[r], 0, steps * sizeof **copy);
  sum_rows((const char *)copy, sizeof *copy, rows, weights, panel, panels, steps, sums, fresh);
}

static void sum_tiled(const char *x, size_t row, size_t rows, const char *weights, size_t panel,
                      size_t panels, size_t steps, float *sums, bool fresh) {
  size_t i = 0;
  for (; i + EDGE <= rows; i += EDGE)
    sum_rows(x + i * row, row, EDGE, weights, panel, panels, steps, sums + i * BLOCK_N, fresh);
  if (i < rows)
    sum_rest(x + i * row, row, rows - i, weights, panel, panels, steps, sums + i * BLOCK_N, fresh);
}

/* Constant, because the compiler does not know that LDTILECFG reads all of it. */
static const struct {
  uint8_t palette, start_row, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
} net_tiles = {.palette = 1,
               .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
               .rows = {16, 16, 16, 16, 16, 16, 16, 16}};

static void net_tiles_on(void) { _tile_loadconfig(&net_tiles); }
static void net_tiles_off(void) { _tile_release(); }

static const format amx = {.element = 2,
                           .weight = 2,
                           .depth = DEPTH,
                           .round = to_bf16,
                           .put = put_bf16,
                           .pack = pack_pairs,
                           .sum = sum_tiled};
NET(amx, KF_BF16, net_tiles_on, net_tiles_off);

#endif
