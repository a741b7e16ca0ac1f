/* emulated.h - AMX tiles in memory, for tests of the AMX kernels on every machine with AVX-512.
 * Included before the kernels. */
#ifndef KF_TEST_EMULATED_H
#define KF_TEST_EMULATED_H

#include "test.h"

#include <immintrin.h>
#include <math.h>
#include <stdbool.h>

/* The configuration: how many rows a tile has, and how many bytes a row. */
typedef struct tile_shapes {
  uint8_t palette, start_row, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
} tile_shapes;
static tile_shapes tile_shape;
static uint8_t tiles_now[8][16][64];

static inline void emulate_config(const void *config) {
  memcpy(&tile_shape, config, sizeof tile_shape);
  assert_int_equal(tile_shape.palette, 1);
  memset(tiles_now, 0, sizeof tiles_now);
}

static inline void emulate_load(int t, const void *from, size_t stride) {
  memset(tiles_now[t], 0, sizeof tiles_now[t]);
  for (size_t r = 0; r < tile_shape.rows[t]; r++)
    memcpy(tiles_now[t][r], (const char *)from + r * stride, tile_shape.row_bytes[t]);
}

static inline void emulate_store(int t, void *to, size_t stride) {
  for (size_t r = 0; r < tile_shape.rows[t]; r++)
    memcpy((char *)to + r * stride, tiles_now[t][r], tile_shape.row_bytes[t]);
}

/* TDPBSSD and TDPBSUD: each dword of c gains the products of four signed bytes of a's row and four
 * signed or unsigned ones of b's column. */
static inline void emulate_multiply(int c, int a, int b, bool is_signed) {
  assert_int_equal(tile_shape.row_bytes[a], 4 * tile_shape.rows[b]);
  for (size_t m = 0; m < tile_shape.rows[c]; m++)
    for (size_t n = 0; n < tile_shape.row_bytes[c] / 4; n++) {
      int32_t sum;
      memcpy(&sum, &tiles_now[c][m][4 * n], 4);
      for (size_t k = 0; k < tile_shape.rows[b]; k++)
        for (size_t i = 0; i < 4; i++) {
          uint8_t y = tiles_now[b][k][4 * n + i];
          sum += (int8_t)tiles_now[a][m][4 * k + i] * (is_signed ? (int8_t)y : (int32_t)y);
        }
      memcpy(&tiles_now[c][m][4 * n], &sum, 4);
    }
}

/* TDPBF16PS, from its description alone: for the pairs of bf16 in a row of a and a column of b, the
 * products of the lower halves and those of the upper halves are each added up in order, from zero;
 * then the two sums are added to each other, and to the old value. Denormals are zero, before and
 * after. In f64, rounded to odd, a sum can be rounded to f32 as if it were exact. */
static inline float emulate_round(double sum, double error) {
  uint64_t bits;
  memcpy(&bits, &sum, sizeof bits);
  if (error != 0 && bits % 2 == 0) bits += (error > 0) == (sum > 0) ? 1 : (uint64_t)-1;
  memcpy(&sum, &bits, sizeof sum);
  float wide = (float)(sum * 0x1p60); /* 24 bits of it are left, also below the normal numbers */
  return fabsf(wide) < 0x1p-66f ? copysignf(0, (float)sum) : (float)sum;
}

static inline float emulate_add(double x, double y) {
  double sum = x + y, part = sum - x;
  return emulate_round(sum, isfinite(sum) ? (x - (sum - part)) + (y - part) : 0);
}

static inline double emulate_bf16(const uint8_t *from) {
  uint32_t bits = (uint32_t)from[0] << 16 | (uint32_t)from[1] << 24;
  float x;
  memcpy(&x, &bits, sizeof x);
  return fabsf(x) < 0x1p-126f ? copysign(0, (double)x) : (double)x;
}

static inline void emulate_bf16_multiply(int c, int a, int b) {
  assert_int_equal(tile_shape.row_bytes[a], 4 * tile_shape.rows[b]);
  for (size_t m = 0; m < tile_shape.rows[c]; m++)
    for (size_t n = 0; n < tile_shape.row_bytes[c] / 4; n++) {
      float sum[2] = {0, 0}, before;
      for (size_t k = 0; k < tile_shape.rows[b]; k++)
        for (size_t i = 0; i < 2; i++)
          sum[i] = emulate_add((double)sum[i], emulate_bf16(&tiles_now[a][m][4 * k + 2 * i]) *
                                                   emulate_bf16(&tiles_now[b][k][4 * n + 2 * i]));
      memcpy(&before, &tiles_now[c][m][4 * n], 4);
      before = emulate_add((double)before, (double)emulate_add((double)sum[0], (double)sum[1]));
      memcpy(&tiles_now[c][m][4 * n], &before, 4);
    }
}

#undef _tile_loadd
#undef _tile_stored
#undef _tile_stream_loadd
#undef _tile_dpbssd
#undef _tile_dpbsud
#undef _tile_dpbf16ps
#undef _tile_zero
#undef _tile_loadconfig
#undef _tile_release
#define _tile_loadd(t, from, stride)        emulate_load(t, from, stride)
#define _tile_stored(t, to, stride)         emulate_store(t, to, stride)
#define _tile_stream_loadd(t, from, stride) emulate_load(t, from, stride)
#define _tile_dpbssd(c, a, b)               emulate_multiply(c, a, b, true)
#define _tile_dpbsud(c, a, b)               emulate_multiply(c, a, b, false)
#define _tile_dpbf16ps(c, a, b)             emulate_bf16_multiply(c, a, b)
#define _tile_zero(t)                       memset(tiles_now[t], 0, sizeof tiles_now[t])
#define _tile_loadconfig(config)            emulate_config(config)
#define _tile_release()                     ((void)0)

#endif
