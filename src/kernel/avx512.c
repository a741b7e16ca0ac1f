/* avx512.c - AVX-512 with VNNI.
 *
 * Exact moments in 16-bit digits: X = 2^12 h + l with -2048 <= l < 2048 and |h| <= 1024. Then
 *
 *     X X' = 2^24 hh' + 2^12 (hl' + lh') + ll'     and     hl' + lh' = (h+l)(h'+l') - hh' - ll'
 *
 * (Karatsuba), so three products of 16-bit numbers are enough; one vpdpwssd does 32 of them. The
 * digits h, l and m = h + l are packed in pairs of rows, since vpdpwssd adds two products at a
 * time. Sums of mm' may wrap around: only those of hh', ll' and hl' + lh' must fit 32 bits. Each
 * term is at most 2^22, so 448 rows stay below 2^31.
 *
 * The ceiling: a row takes D (D + 1) / 2 * 3 / 32 instructions, one a cycle on Zen 4. At D = 768
 * that is 27,684 cycles, or 133,000 rows a second at 3.69 GHz; tiles on the diagonal add 4 %. */
#include "kernel/kernel.h"

#ifdef KF_SIMD
#include "kernel/avx512.h"
#include "kernel/unroll.h"
#include "kernel/wide.h"

#define EDGE 32
#define ROWS 448
#define KIND (ROWS / 2 * EDGE) /* dwords of one kind of digit in a panel: [pairs][EDGE] */

/* Two rows of 16-bit digits, interleaved as pairs. */
static __m512i pair(__m512i even, __m512i odd) {
  return _mm512_mask_blend_epi16(0xaaaaaaaau, even, _mm512_slli_epi32(odd, 16));
}

static void moment_pack(const int32_t *x, size_t n, size_t dim, size_t panel, size_t at,
                        void *packed) {
  int32_t *high = (int32_t *)packed + at / 2 * EDGE, *low = high + KIND, *both = low + KIND;
  for (size_t r = 0; r < n; r += 2)
    for (size_t c = 0; c < EDGE; c += 16) {
      const int32_t *row = x + r * dim;
      __m512i h[2], l[2];
      for (size_t t = 0; t < 2; t++) {
        __m512i v =
            r + t < n ? load_columns(row + t * dim, dim, panel * EDGE + c) : _mm512_setzero_si512();
        l[t] = _mm512_srai_epi32(_mm512_slli_epi32(v, 20), 20);
        h[t] = _mm512_srai_epi32(_mm512_sub_epi32(v, l[t]), 12);
      }
      size_t to = r / 2 * EDGE + c;
      _mm512_store_si512(high + to, pair(h[0], h[1]));
      _mm512_store_si512(low + to, pair(l[0], l[1]));
      _mm512_store_si512(both + to,
                         pair(_mm512_add_epi32(h[0], l[0]), _mm512_add_epi32(h[1], l[1])));
    }
}

/* 8 x 32 sums of one kind of digit, in sixteen registers. */
static inline void digit_sums(const int32_t *a, const int32_t *b, size_t pairs, __m512i sum[8][2]) {
  UNROLL
  for (int i = 0; i < 8; i++) sum[i][0] = sum[i][1] = _mm512_setzero_si512();
  for (size_t k = 0; k < pairs; k++, a += EDGE, b += EDGE) {
    __m512i row0 = _mm512_load_si512(b), row1 = _mm512_load_si512(b + 16);
    UNROLL
    for (int i = 0; i < 8; i++) {
      __m512i x = _mm512_set1_epi32(a[i]);
      sum[i][0] = _mm512_dpwssd_epi32(sum[i][0], x, row0);
      sum[i][1] = _mm512_dpwssd_epi32(sum[i][1], x, row1);
      __asm__("" : "+v"(sum[i][0]), "+v"(sum[i][1])); /* each stays in its register */
    }
  }
}

/* 32 x 32 sums of one kind of digit. */
static void digit_tile(const int32_t *a, const int32_t *b, size_t pairs, int32_t *to) {
  for (size_t i = 0; i < EDGE; i += 8, to += 8 * EDGE) {
    __m512i sum[8][2];
    digit_sums(a + i, b, pairs, sum);
    UNROLL
    for (size_t r = 0; r < 8; r++) {
      _mm512_store_si512(to + r * EDGE, sum[r][0]);
      _mm512_store_si512(to + r * EDGE + 16, sum[r][1]);
    }
  }
}

/* to[0..8) += 2^24 h + 2^12 mixed + l */
static inline void add_digits(int64_t *to, const int32_t *h, __m256i mixed, const int32_t *l) {
  __m512i high = _mm512_cvtepi32_epi64(_mm256_load_si256((const __m256i *)h));
  __m512i low = _mm512_cvtepi32_epi64(_mm256_load_si256((const __m256i *)l));
  __m512i sum = _mm512_add_epi64(_mm512_slli_epi64(high, 12), _mm512_cvtepi32_epi64(mixed));
  sum = _mm512_add_epi64(_mm512_slli_epi64(sum, 12), low);
  _mm512_storeu_si512(to, _mm512_add_epi64(_mm512_loadu_si512(to), sum));
}

/* One kind of digit after the other: one kind of two panels, 28 KiB, stays in the first-level cache
 * for the whole tile, three kinds would not. The 64-bit sums, which do not fit the second-level
 * cache, are prefetched meanwhile. */
static void moment_tile(const void *a, const void *b, size_t n, int64_t *sums, size_t stride) {
  const int32_t *p = a, *q = b;
  size_t pairs = (n + 1) / 2;
  int32_t high[EDGE * EDGE] __attribute__((aligned(64)));
  int32_t low[EDGE * EDGE] __attribute__((aligned(64)));
  digit_tile(p, q, pairs, high);
  digit_tile(p + KIND, q + KIND, pairs, low);
  for (size_t i = 0; i < EDGE; i += 8) {
    __m512i both[8][2];
    for (size_t r = i; r < i + 8; r++)
      for (size_t j = 0; j < EDGE; j += 8) __builtin_prefetch(sums + r * stride + j);
    digit_sums(p + 2 * KIND + i, q + 2 * KIND, pairs, both);
    UNROLL
    for (size_t r = 0; r < 8; r++) {
      UNROLL
      for (size_t v = 0; v < 2; v++) {
        const int32_t *h = high + (i + r) * EDGE + 16 * v, *l = low + (i + r) * EDGE + 16 * v;
        int64_t *to = sums + (i + r) * stride + 16 * v;
        __m512i mixed = _mm512_sub_epi32(
            both[r][v], _mm512_add_epi32(_mm512_load_si512(h), _mm512_load_si512(l)));
        add_digits(to, h, _mm512_castsi512_si256(mixed), l);
        add_digits(to + 8, h + 8, _mm512_extracti64x4_epi64(mixed, 1), l + 8);
      }
    }
  }
}

static const kf_moment_kernel moment = {
    .edge = EDGE,
    .rows = ROWS,
    .step = 2,
    .panel_size = 3 * KIND * sizeof(int32_t),
    .pack = moment_pack,
    .tile = moment_tile,
};

const kf_kernels kf_kernels_avx512 =
    WIDE_TABLE(KF_ISA_AVX512, &moment, &kf_scan_avx512, &kf_net_avx512_f32, &kf_net_avx512_bf16);
const kf_kernels kf_kernels_avx512bf16 =
    WIDE_TABLE(KF_ISA_AVX512, &moment, &kf_scan_avx512, &kf_net_avx512_f32, &kf_net_avx512bf16);
const kf_kernels kf_kernels_amx =
    WIDE_TABLE(KF_ISA_AMX, &kf_moment_amx, &kf_scan_amx, &kf_net_avx512_f32, &kf_net_amx);

#endif
