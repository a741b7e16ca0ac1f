/* avx2.c - AVX2 with FMA and F16C.
 *
 * Exact moments in floating point: an integer |X| <= 2^22 is exact in f64, a product of two is at
 * most 2^44 and a sum of 512 products at most 2^53. So within a block of at most 512 rows every f64
 * operation is exact, in any order and fused or not, and the block's sum can be read as an integer.
 * This is twice as fast as AVX2's integer multiply, which needs four products of 16-bit digits and
 * separate additions.
 *
 * The ceiling: a row takes D (D + 1) / 2 / 4 FMA instructions, two a cycle. At D = 768 that is
 * 36,912 cycles, or 100,000 rows a second at 3.69 GHz; tiles on the diagonal add 3 %. */
#include "kernel/kernel.h"

#ifdef KF_SIMD
#include "kernel/unroll.h"
#include "kernel/wide.h"

#include <immintrin.h>

#define EDGE 24
#define ROWS 128
#define QUAD 4             /* adjacent columns in a panel: [EDGE / QUAD][ROWS][QUAD] */
#define SIZE (ROWS * QUAD) /* doubles of a quad */

static void moment_pack(const int32_t *x, size_t n, size_t dim, size_t panel, size_t at,
                        void *packed) {
  for (size_t s = 0; s < EDGE / QUAD; s++) {
    double *to = (double *)packed + s * SIZE + at * QUAD;
    size_t first = panel * EDGE + s * QUAD;
    for (size_t r = 0; r < n; r++, to += QUAD) {
      const int32_t *row = x + r * dim + first;
      if (first + QUAD <= dim)
        _mm256_store_pd(to, _mm256_cvtepi32_pd(_mm_loadu_si128((const __m128i *)row)));
      else
        for (size_t c = 0; c < QUAD; c++) to[c] = first + c < dim ? (double)row[c] : 0.0;
    }
  }
}

/* One quad times three: 4 x 12 sums in twelve registers. They start at MAGIC: 128 rows sum to at
 * most 2^51, so a sum stays within 2^52 … 2^53, where consecutive integers have consecutive
 * bits. */
#define MAGIC 0x1.8p52
static void moment_micro(const double *a, const double *b, size_t n, int64_t *sums, size_t stride) {
  const __m256i magic = _mm256_castpd_si256(_mm256_set1_pd(MAGIC));
  __m256d sum[4][3];
  UNROLL
  for (int i = 0; i < 4; i++) {
    UNROLL
    for (int v = 0; v < 3; v++) sum[i][v] = _mm256_set1_pd(MAGIC);
  }
  for (size_t r = 0; r < n; r++, a += QUAD, b += QUAD) {
    __m256d row[3];
    UNROLL
    for (int v = 0; v < 3; v++) row[v] = _mm256_load_pd(b + v * SIZE);
    UNROLL
    for (int i = 0; i < 4; i++) {
      __m256d x = _mm256_broadcast_sd(a + i);
      UNROLL
      for (int v = 0; v < 3; v++) sum[i][v] = _mm256_fmadd_pd(x, row[v], sum[i][v]);
    }
  }
  UNROLL
  for (size_t i = 0; i < 4; i++) {
    UNROLL
    for (size_t v = 0; v < 3; v++) {
      __m256i *to = (__m256i *)(sums + i * stride + 4 * v);
      __m256i added = _mm256_sub_epi64(_mm256_castpd_si256(sum[i][v]), magic);
      _mm256_storeu_si256(to, _mm256_add_epi64(_mm256_loadu_si256(to), added));
    }
  }
}

static void moment_tile(const void *a, const void *b, size_t n, int64_t *sums, size_t stride) {
  const double *p = a, *q = b;
  for (size_t j = 0; j < EDGE / QUAD; j += 3)
    for (size_t i = 0; i < EDGE / QUAD; i++)
      moment_micro(p + i * SIZE, q + j * SIZE, n, sums + i * QUAD * stride + j * QUAD, stride);
}

static const kf_moment_kernel moment = {
    .edge = EDGE,
    .rows = ROWS,
    .step = 1,
    .panel_size = ROWS * EDGE * sizeof(double),
    .pack = moment_pack,
    .tile = moment_tile,
};

const kf_kernels kf_kernels_avx2 =
    WIDE_TABLE(KF_ISA_AVX2, &moment, &kf_scan_avx2, &kf_net_avx2_f32, &kf_net_avx2_bf16);

#endif
