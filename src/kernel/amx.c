/* amx.c - second moments in AMX int8 tiles.
 *
 * X = 2^16 a + 2^8 b + c with three balanced digits in [-128, 127] (|a| <= 64). The nine digit
 * products fall into five weights, 2^32 aa', 2^24 (ab'+ba'), 2^16 (ac'+bb'+ca'), 2^8 (bc'+cb') and
 * cc'; those of one weight share 32-bit sums: at most 3 * 2^14 a row, so 1024 rows stay below 2^26.
 *
 * TDPBSSD multiplies a 16 x 64 tile (16 columns of the left panel, 64 rows of data) by a tile with
 * 64 rows of data in groups of four and 16 columns of the right panel. A panel is packed in both
 * forms; the left one is the right one with its dwords transposed. */
#include "kernel/kernel.h"

#ifdef KF_SIMD
#include "kernel/avx512.h"
#include "kernel/amx_tiles.h"

#define EDGE 32
#define ROWS 1024
#define STEP 64   /* rows of data in a tile */
#define TILE 1024 /* bytes of a tile */
/* packed[form][digit][half][step][TILE]: forms left and right, halves of 16 columns. */
#define HALF  (ROWS / STEP * TILE)
#define DIGIT (2 * HALF)
#define FORM  (3 * DIGIT)

/* Transposes 16 x 16 dwords: from[k][j] to to[j][k]. */
static void transpose16(const int32_t *from, int32_t *to) {
  __m512i a[16], b[16];
  for (int i = 0; i < 16; i++) a[i] = _mm512_load_si512(from + 16 * i);
  for (int i = 0; i < 16; i += 2) {
    b[i] = _mm512_unpacklo_epi32(a[i], a[i + 1]);
    b[i + 1] = _mm512_unpackhi_epi32(a[i], a[i + 1]);
  }
  for (int i = 0; i < 16; i += 4)
    for (int h = 0; h < 2; h++) {
      a[i + 2 * h] = _mm512_unpacklo_epi64(b[i + h], b[i + h + 2]);
      a[i + 2 * h + 1] = _mm512_unpackhi_epi64(b[i + h], b[i + h + 2]);
    }
  /* a[4q + r] holds, in its four 128-bit lanes, column 4*lane + r of rows 4q … 4q + 3. */
  for (int r = 0; r < 4; r++) {
    __m512i even01 = _mm512_shuffle_i32x4(a[r], a[4 + r], 0x88);
    __m512i odd01 = _mm512_shuffle_i32x4(a[r], a[4 + r], 0xdd);
    __m512i even23 = _mm512_shuffle_i32x4(a[8 + r], a[12 + r], 0x88);
    __m512i odd23 = _mm512_shuffle_i32x4(a[8 + r], a[12 + r], 0xdd);
    _mm512_store_si512(to + 16 * r, _mm512_shuffle_i32x4(even01, even23, 0x88));
    _mm512_store_si512(to + 16 * (r + 8), _mm512_shuffle_i32x4(even01, even23, 0xdd));
    _mm512_store_si512(to + 16 * (r + 4), _mm512_shuffle_i32x4(odd01, odd23, 0x88));
    _mm512_store_si512(to + 16 * (r + 12), _mm512_shuffle_i32x4(odd01, odd23, 0xdd));
  }
}

/* The low bytes of four vectors as the four bytes of each dword. */
static __m512i join(const __m512i x[4]) {
  const __m512i byte = _mm512_set1_epi32(255);
  __m512i low = _mm512_or_si512(_mm512_and_si512(x[0], byte),
                                _mm512_slli_epi32(_mm512_and_si512(x[1], byte), 8));
  __m512i high = _mm512_or_si512(_mm512_and_si512(x[2], byte), _mm512_slli_epi32(x[3], 8));
  return _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
}

/* Four rows of 16 columns, from row r on, as dwords of the three digits a, b, c. */
static void digits(const int32_t *x, size_t n, size_t dim, size_t r, size_t column,
                   __m512i out[3]) {
  __m512i a[4], b[4], c[4];
  for (size_t t = 0; t < 4; t++) {
    __m512i v = r + t < n ? load_columns(x + (r + t) * dim, dim, column) : _mm512_setzero_si512();
    c[t] = _mm512_srai_epi32(_mm512_slli_epi32(v, 24), 24);
    v = _mm512_srai_epi32(_mm512_sub_epi32(v, c[t]), 8);
    b[t] = _mm512_srai_epi32(_mm512_slli_epi32(v, 24), 24);
    a[t] = _mm512_srai_epi32(_mm512_sub_epi32(v, b[t]), 8);
  }
  out[0] = join(a);
  out[1] = join(b);
  out[2] = join(c);
}

static void moment_pack(const int32_t *x, size_t n, size_t dim, size_t panel, size_t at,
                        void *packed) {
  char *left = (char *)packed + at / STEP * TILE, *right = left + FORM;
  for (size_t half = 0; half < 2; half++)
    for (size_t step = 0; step * STEP < n; step++) {
      size_t to = half * HALF + step * TILE;
      for (size_t group = 0; group < 16; group++) {
        __m512i digit[3];
        digits(x, n, dim, step * STEP + 4 * group, panel * EDGE + 16 * half, digit);
        for (size_t d = 0; d < 3; d++)
          _mm512_store_si512(right + d * DIGIT + to + 64 * group, digit[d]);
      }
      for (size_t d = 0; d < 3; d++)
        transpose16((const int32_t *)(const void *)(right + d * DIGIT + to),
                    (int32_t *)(void *)(left + d * DIGIT + to));
    }
}

/* Adds one digit of the left panel times one of the right to tiles 0 … 3, the 2 x 2 halves of the
 * 32 x 32 tile. */
static inline void digit_product(const char *left, const char *right, size_t steps) {
  for (size_t k = 0; k < steps; k++) {
    _tile_loadd(4, left + k * TILE, 64);
    _tile_loadd(5, left + HALF + k * TILE, 64);
    _tile_loadd(6, right + k * TILE, 64);
    _tile_loadd(7, right + HALF + k * TILE, 64);
    _tile_dpbssd(0, 4, 6);
    _tile_dpbssd(1, 4, 7);
    _tile_dpbssd(2, 5, 6);
    _tile_dpbssd(3, 5, 7);
  }
}

static void moment_tile(const void *a, const void *b, size_t n, int64_t *sums, size_t stride) {
  const char *left = a, *right = (const char *)b + FORM;
  size_t steps = (n + STEP - 1) / STEP;
  int32_t part[EDGE * EDGE] __attribute__((aligned(64)));
  for (size_t weight = 0; weight < 5; weight++) { /* digit numbers p + q = weight; 0 is highest */
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (size_t p = weight < 3 ? 0 : weight - 2; p <= 2 && p <= weight; p++)
      digit_product(left + p * DIGIT, right + (weight - p) * DIGIT, steps);
    _tile_stored(0, part, EDGE * sizeof *part);
    _tile_stored(1, part + 16, EDGE * sizeof *part);
    _tile_stored(2, part + 16 * EDGE, EDGE * sizeof *part);
    _tile_stored(3, part + 16 * EDGE + 16, EDGE * sizeof *part);
    unsigned shift = (unsigned)(8 * (4 - weight));
    for (size_t i = 0; i < EDGE; i++)
      for (size_t j = 0; j < EDGE; j += 16)
        add_shifted(sums + i * stride + j, _mm512_load_si512(part + i * EDGE + j), shift);
  }
}

const kf_moment_kernel kf_moment_amx = {
    .edge = EDGE,
    .rows = ROWS,
    .step = STEP,
    .panel_size = 2 * FORM,
    .pack = moment_pack,
    .tile = moment_tile,
    .begin = kf_full_tiles_on,
    .end = kf_tiles_off,
};

#endif
