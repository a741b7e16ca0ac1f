/* net_avx512bf16.c - towers in bf16 with VDPBF16PS, which adds a pair of products at a time.
 *
 * It adds the product of the upper halves first, then that of the lower halves, flushing and
 * rounding to nearest whatever MXCSR says. So the pairs of a chain are k (upper) and k + 2 (lower):
 * four columns are stored in the order 2, 0, 3, 1, a dword of the even chain and a dword of the odd
 * one. */
#include "kernel/kernel.h"

#ifdef KF_SIMD
#include "kernel/net_wide.h"

#define TILE_ROWS 6

static inline void put_pairs(const vec y[PARTS], char *to) {
  const __m512i order =
      _mm512_broadcast_i32x4(_mm_setr_epi8(4, 5, 0, 1, 6, 7, 2, 3, 12, 13, 8, 9, 14, 15, 10, 11));
  __m512i x = (__m512i)_mm512_cvtne2ps_pbh(y[1], y[0]);
  _mm512_store_si512(to, _mm512_shuffle_epi8(x, order));
}

static void pack_split(const float *block, size_t stride, char *to) {
  for (size_t k = 0; k < KF_NET_STEP; k += 4)
    for (size_t odd = 0; odd < 2; odd++, to += LINE) {
      UNROLL
      for (int v = 0; v < PARTS; v++) {
        bits upper = as_bits(to_bf16(load(block + (k + odd) * stride + v * LANES)));
        bits lower = as_bits(to_bf16(load(block + (k + 2 + odd) * stride + v * LANES)));
        store((float *)(void *)to + v * LANES, as_vec(either(V(srli_epi32)(lower, 16), upper)));
      }
    }
}

INLINE vec dot_pairs(vec sum, int32_t a, __m512i w) {
  return _mm512_dpbf16_ps(sum, (__m512bh)_mm512_set1_epi32(a), (__m512bh)w);
}

INLINE int32_t pair_at(const char *x) {
  int32_t y;
  memcpy(&y, x, sizeof y);
  return y;
}

INLINE void tile(const char *x, size_t row, const char *weights, size_t steps, float *sums,
                 bool fresh, const int rows) {
  for (size_t k = 0; k < steps; k += KF_NET_STEP) {
    vec sum[TILE_ROWS][2][2];
    UNROLL
    for (int i = 0; i < rows; i++)
      sum[i][0][0] = sum[i][0][1] = sum[i][1][0] = sum[i][1][1] = none();
    for (const char *end = x + KF_NET_STEP * sizeof(uint16_t); x < end;
         x += 8, weights += 2 * LINE) {
      UNROLL
      for (int odd = 0; odd < 2; odd++) {
        __m512i w0 = _mm512_loadu_si512(weights + odd * (int)LINE);
        __m512i w1 = _mm512_loadu_si512(weights + odd * (int)LINE + 64);
        UNROLL
        for (int i = 0; i < rows; i++) {
          int32_t a = pair_at(x + (size_t)i * row + 4 * odd);
          sum[i][odd][0] = dot_pairs(sum[i][odd][0], a, w0);
          sum[i][odd][1] = dot_pairs(sum[i][odd][1], a, w1);
        }
      }
    }
    UNROLL
    for (int i = 0; i < rows; i++) {
      UNROLL
      for (int v = 0; v < 2; v++)
        add_chains(sums + i * BLOCK_N + v * LANES, fresh && k == 0, sum[i][0][v], sum[i][1][v]);
    }
  }
}
TILES_6(tile)

static void sum_pairs(const char *x, size_t row, size_t rows, const char *weights, size_t panel,
                      size_t panels, size_t steps, float *sums, bool fresh) {
  static tile_function *const tiles[] = {LIST_6(tile)};
  unsigned before = begin_flushing();
  sum_tiles(tiles, TILE_ROWS, x, row, rows, weights, panel, panels, steps, sums, fresh);
  end_flushing(before);
}

static const format avx512bf16 = {.element = 2,
                                  .tall = 1,
                                  .weight = 2,
                                  .depth = 1024,
                                  .round = to_bf16,
                                  .put = put_pairs,
                                  .pack = pack_split,
                                  .sum = sum_pairs};
NET_MULTIPLY(avx512bf16)
NET(avx512bf16, KF_BF16, NULL, NULL);

#endif
