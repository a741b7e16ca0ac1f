/* net_fma.h - products of towers with f32 FMA, for AVX2 and AVX-512.
 *
 * In bf16 rows hold rounded f32, and weights hold dwords of two bf16: an even k in the lower half,
 * the next k in the upper. The chains of even and odd k are computed one after the other, so that
 * one chain of every sum fits the registers. */
#ifndef KF_NET_FMA_H
#define KF_NET_FMA_H

#include "kernel/net_wide.h"

#ifdef __AVX512F__
#define TILE_ROWS  12
#define ALL_TILES  TILES_12
#define LIST_TILES LIST_12
#else
#define TILE_ROWS  6
#define ALL_TILES  TILES_6
#define LIST_TILES LIST_6
#endif

/* Half of a tile's rows are addressed from the first row, half from the middle one, so that all
 * distances fit the registers. The compiler must not see that the two are related. */
#define HALF (TILE_ROWS / 2)
INLINE const char *middle(const char *x, size_t row, const int rows) {
  const char *half = rows > HALF ? x + HALF * row : x;
  __asm__("" : "+r"(half));
  return half;
}
INLINE vec element(const char *x, const char *half, int i, size_t row) {
  return all(i < HALF ? value_at(x + (size_t)i * row) : value_at(half + (size_t)(i - HALF) * row));
}

/* --- f32 ------------------------------------------------------------------------------------- */

static inline vec keep(vec x) { return x; }

static inline void put_f32(const vec y[PARTS], char *to) {
  UNROLL
  for (int v = 0; v < PARTS; v++) store((float *)(void *)to + v * LANES, y[v]);
}

static void pack_f32(const float *block, size_t stride, char *to) {
  for (size_t k = 0; k < KF_NET_STEP; k++, block += stride, to += LINE) memcpy(to, block, LINE);
}

INLINE void tile_f32(const char *x, size_t row, const char *weights, size_t steps, float *sums,
                     bool fresh, const int rows) {
  vec sum[TILE_ROWS][2];
  UNROLL
  for (int i = 0; i < rows; i++) {
    UNROLL
    for (int v = 0; v < 2; v++) sum[i][v] = fresh ? none() : load(sums + i * BLOCK_N + v * LANES);
  }
  const char *half = middle(x, row, rows);
  for (const char *end = x + steps * sizeof(float); x < end;
       x += sizeof(float), half += sizeof(float), weights += LINE) {
    const float *w = (const float *)(const void *)weights;
    vec w0 = load(w), w1 = load(w + LANES);
    UNROLL
    for (int i = 0; i < rows; i++) {
      vec a = element(x, half, i, row);
      sum[i][0] = fused(a, w0, sum[i][0]);
      sum[i][1] = fused(a, w1, sum[i][1]);
    }
  }
  UNROLL
  for (int i = 0; i < rows; i++) {
    UNROLL
    for (int v = 0; v < 2; v++) store(sums + i * BLOCK_N + v * LANES, sum[i][v]);
  }
}
ALL_TILES(tile_f32)

static void sum_f32(const char *x, size_t row, size_t rows, const char *weights, size_t panel,
                    size_t panels, size_t steps, float *sums, bool fresh) {
  static tile_function *const tiles[] = {LIST_TILES(tile_f32)};
  sum_tiles(tiles, TILE_ROWS, x, row, rows, weights, panel, panels, steps, sums, fresh);
}

/* --- bf16 ------------------------------------------------------------------------------------ */

static inline void put_bf16(const vec y[PARTS], char *to) {
  UNROLL
  for (int v = 0; v < PARTS; v++) store((float *)(void *)to + v * LANES, to_bf16(y[v]));
}

/* The chain of the even (0) or odd (1) k of a block, from zero. */
INLINE void chain(const char *x, size_t row, const char *weights, const int odd, const int rows,
                  vec sum[TILE_ROWS][2]) {
  UNROLL
  for (int i = 0; i < rows; i++) sum[i][0] = sum[i][1] = none();
  x += odd * (int)sizeof(float);
  bits upper = all_bits(0xffff0000u);
  __asm__("" : "+x"(upper)); /* in a register; it would be loaded in every iteration */
  const char *half = middle(x, row, rows), *end = x + KF_NET_STEP * sizeof(float);
  for (; x < end; x += 2 * sizeof(float), half += 2 * sizeof(float), weights += LINE) {
    vec w[2];
    UNROLL
    for (int v = 0; v < 2; v++) {
      bits pair = as_bits(load((const float *)(const void *)weights + v * LANES));
      w[v] = as_vec(odd ? both(pair, upper) : V(slli_epi32)(pair, 16));
    }
    UNROLL
    for (int i = 0; i < rows; i++) {
      vec a = element(x, half, i, row);
      sum[i][0] = fused(a, w[0], sum[i][0]);
      sum[i][1] = fused(a, w[1], sum[i][1]);
    }
  }
}

INLINE void tile_bf16(const char *x, size_t row, const char *weights, size_t steps, float *sums,
                      bool fresh, const int rows) {
  for (size_t k = 0; k < steps; k += KF_NET_STEP) {
    vec sum[TILE_ROWS][2];
    float even[TILE_ROWS][2][LANES];
    chain(x, row, weights, 0, rows, sum);
    UNROLL
    for (int i = 0; i < rows; i++) {
      store(even[i][0], sum[i][0]);
      store(even[i][1], sum[i][1]);
    }
    chain(x, row, weights, 1, rows, sum);
    UNROLL
    for (int i = 0; i < rows; i++) {
      UNROLL
      for (int v = 0; v < 2; v++)
        add_chains(sums + i * BLOCK_N + v * LANES, fresh && k == 0, load(even[i][v]), sum[i][v]);
    }
    x += KF_NET_STEP * sizeof(float);
    weights += KF_NET_STEP / 2 * LINE;
  }
}
ALL_TILES(tile_bf16)

static void sum_bf16(const char *x, size_t row, size_t rows, const char *weights, size_t panel,
                     size_t panels, size_t steps, float *sums, bool fresh) {
  static tile_function *const tiles[] = {LIST_TILES(tile_bf16)};
  unsigned before = begin_flushing();
  sum_tiles(tiles, TILE_ROWS, x, row, rows, weights, panel, panels, steps, sums, fresh);
  end_flushing(before);
}

#define FORMAT_F32                                                                                 \
  {                                                                                                \
    .element = 4, .tall = 1, .weight = 4, .depth = 768, .round = keep, .put = put_f32,             \
    .pack = pack_f32, .sum = sum_f32                                                               \
  }
#define FORMAT_BF16                                                                                \
  {                                                                                                \
    .element = 4, .tall = 1, .weight = 2, .depth = 1024, .round = to_bf16, .put = put_bf16,        \
    .pack = pack_pairs, .sum = sum_bf16                                                            \
  }

#endif
