/* amx.c - second moments in AMX int8 tiles.
 *
 * X = 2^16 a + 2^8 b + c with three balanced digits in [-128, 127] (|a| <= 64). The nine digit
 * products fall into five weights, 2^32 aa', 2^24 (ab'+ba'), 2^16 (ac'+bb'+ca'), 2^8 (bc'+cb') and
 * cc'; those of one weight share 32-bit sums: at most 3 * 2^14 a row, so 1024 rows stay below 2^26.
 *
 * TDPBSSD multiplies a 16 x 64 tile (16 columns of the left panel, 64 rows of data) by a tile with
 * 64 rows of data in groups of four and 16 columns of the right panel. A panel is packed in both
 * forms; the left one is the right one with its dwords transposed.
 *
 * A block of 16 x 16 columns has five tiles of sums, one for each weight, and three for digits. The
 * digits of CHUNK steps stay in the first-level cache. Adding a block's sums to the 64-bit sums
 * would stall the tiles, so it is done while they multiply the next block. */
#include "kernel/kernel.h"

#ifdef KF_SIMD
#include "kernel/avx512.h"
#include "kernel/amx_tiles.h"

#define EDGE    32
#define ROWS    1024
#define STEP    64   /* rows of data in a tile */
#define TILE    1024 /* bytes of a tile */
#define WEIGHTS 5    /* of products of digits */
#define CHUNK   8    /* steps multiplied at a time */
/* packed[form][digit][half][step][TILE]: forms left and right, halves of 16 columns. */
#define HALF  (ROWS / STEP * TILE)
#define DIGIT (2 * HALF)
#define FORM  (3 * DIGIT)

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
      for (size_t d = 0; d < 3; d++) {
        __m512i rows[16];
        for (size_t i = 0; i < 16; i++)
          rows[i] = _mm512_load_si512(right + d * DIGIT + to + 64 * i);
        transpose16(rows, left + d * DIGIT + to, 64);
      }
    }
}

/* --- products -------------------------------------------------------------------------------- */

/* Sums of 16 x 16 columns: one tile for each weight, the highest first. */
typedef int32_t block_sums[WEIGHTS][16][16];

/* Complete sums, still to be added to the 64-bit sums, row by row. */
typedef struct block {
  const int32_t (*sums)[16][16]; /* [WEIGHTS] */
  int64_t *to;
  size_t stride, row; /* the next row; 16: none left */
} block;

/* x[0] 2^24 + x[1] 2^16 + x[2] 2^8 + x[3] */
static inline __m512i join_weights(const __m256i x[4]) {
  __m512i y = _mm512_cvtepi32_epi64(x[0]);
  for (int i = 1; i < 4; i++)
    y = _mm512_add_epi64(_mm512_slli_epi64(y, 8), _mm512_cvtepi32_epi64(x[i]));
  return y;
}

static inline void add_row(block *b) {
  int64_t *to = b->to + b->row * b->stride;
  __m512i x[WEIGHTS];
  __m256i low[4], high[4];
  for (int w = 0; w < WEIGHTS; w++) x[w] = _mm512_load_si512(b->sums[w][b->row]);
  x[1] = _mm512_add_epi32(_mm512_slli_epi32(x[0], 8), x[1]); /* |a a'| <= 2^12: no overflow */
  for (int w = 0; w < 4; w++) {
    low[w] = _mm512_castsi512_si256(x[w + 1]);
    high[w] = _mm512_extracti64x4_epi64(x[w + 1], 1);
  }
  _mm512_storeu_si512(to, _mm512_add_epi64(_mm512_loadu_si512(to), join_weights(low)));
  _mm512_storeu_si512(to + 8, _mm512_add_epi64(_mm512_loadu_si512(to + 8), join_weights(high)));
  b->row++;
}

/* The nine products of one step, for 16 columns on the left and 16 on the right. Tiles 0 to 4 are
 * sums. */
static inline void multiply_step(const char *left, const char *right) {
  _tile_loadd(5, left, 64);
  _tile_loadd(6, right, 64);
  _tile_loadd(7, right + DIGIT, 64);
  _tile_dpbssd(0, 5, 6);
  _tile_dpbssd(1, 5, 7);
  _tile_loadd(5, left + DIGIT, 64);
  _tile_dpbssd(2, 5, 7);
  _tile_dpbssd(1, 5, 6);
  _tile_loadd(5, left + 2 * DIGIT, 64);
  _tile_dpbssd(3, 5, 7);
  _tile_dpbssd(2, 5, 6);
  _tile_loadd(6, right + 2 * DIGIT, 64);
  _tile_dpbssd(4, 5, 6);
  _tile_loadd(5, left + DIGIT, 64);
  _tile_dpbssd(3, 5, 6);
  _tile_loadd(5, left, 64);
  _tile_dpbssd(2, 5, 6);
}

/* Sums over `steps` steps. Meanwhile rows of the previous block are added, a few after each
 * step. */
static inline void multiply_block(const char *left, const char *right, size_t steps,
                                  block_sums sums, block *before) {
  size_t rows_a_step = (16 + steps - 1) / steps;
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  for (size_t k = 0; k < steps; k++) {
    multiply_step(left + k * TILE, right + k * TILE);
    for (size_t i = 0; i < rows_a_step && before->row < 16; i++) add_row(before);
  }
  _tile_stored(0, sums[0], 64);
  _tile_stored(1, sums[1], 64);
  _tile_stored(2, sums[2], 64);
  _tile_stored(3, sums[3], 64);
  _tile_stored(4, sums[4], 64);
}

static void moment_tile(const void *a, const void *b, size_t n, int64_t *sums, size_t stride) {
  block_sums part[2] __attribute__((aligned(64)));
  block before = {.row = 16};
  size_t steps = (n + STEP - 1) / STEP;
  int now = 0;
  for (size_t k = 0; k < steps; k += CHUNK)
    for (size_t i = 0; i < 2; i++)
      for (size_t j = 0; j < 2; j++, now ^= 1) {
        const char *left = (const char *)a + i * HALF + k * TILE;
        const char *right = (const char *)b + FORM + j * HALF + k * TILE;
        multiply_block(left, right, steps - k < CHUNK ? steps - k : CHUNK, part[now], &before);
        before = (block){(const int32_t(*)[16][16])part[now], sums + 16 * i * stride + 16 * j,
                         stride, 0};
      }
  while (before.row < 16) add_row(&before);
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
