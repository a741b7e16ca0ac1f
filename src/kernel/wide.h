/* wide.h - the floating-point kernels in vectors, compiled for each instruction set that includes
 * this file. `doubles` and `floats` are as wide as the registers; the eight lanes of a canonical
 * sum are PARTS `doubles`. A product is fused with its addition where plain.c does so (kf_fma) or
 * where the product is exact, and nowhere else, so the bits are those of plain.c. */
#ifndef KF_WIDE_H
#define KF_WIDE_H

#include "kernel/fused.h"
#include "kernel/kernel.h"
#include "kernel/unroll.h"

#include <immintrin.h>
#include <string.h>

/* MR x NV: rows and vectors of a tile of a product, whose sums stay in registers. GEMM_DEPTH: how
 * many steps of the sum are packed at a time. store_i32 rounds to nearest even. */
#ifdef __AVX512F__
#define WIDTH      8
#define MR         6
#define NV         4
#define GEMM_DEPTH 192
#define V(op)      _mm512_##op
typedef __m512d doubles;
typedef __m512 floats;
static inline doubles widen(const float *p) { return _mm512_cvtps_pd(_mm256_loadu_ps(p)); }
static inline floats load_f16(const uint16_t *p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}
static inline void store_f16(uint16_t *p, floats x) {
  _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}
static inline void store_i32(int32_t *p, doubles x) {
  _mm256_storeu_si256((__m256i *)p, _mm512_cvtpd_epi32(x));
}
static inline unsigned lanes_reaching(floats x, float low) {
  return _mm512_cmp_ps_mask(x, _mm512_set1_ps(low), _CMP_GE_OQ);
}
#else
#define WIDTH      4
#define MR         4
#define NV         3
#define GEMM_DEPTH 128
#define V(op)      _mm256_##op
typedef __m256d doubles;
typedef __m256 floats;
static inline doubles widen(const float *p) { return _mm256_cvtps_pd(_mm_loadu_ps(p)); }
static inline floats load_f16(const uint16_t *p) {
  return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}
static inline void store_f16(uint16_t *p, floats x) {
  _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}
static inline void store_i32(int32_t *p, doubles x) {
  _mm_storeu_si128((__m128i *)p, _mm256_cvtpd_epi32(x));
}
static inline unsigned lanes_reaching(floats x, float low) {
  return (unsigned)_mm256_movemask_ps(_mm256_cmp_ps(x, _mm256_set1_ps(low), _CMP_GE_OQ));
}
#endif
#define PARTS (8 / WIDTH)

static inline doubles load_f64(const double *p) { return V(loadu_pd)(p); }
static inline floats load_f32(const float *p) { return V(loadu_ps)(p); }
static inline void store_f64(double *p, doubles x) { V(storeu_pd)(p, x); }
static inline void store_f32(float *p, floats x) { V(storeu_ps)(p, x); }
static inline doubles all_f64(double x) { return V(set1_pd)(x); }
static inline floats all_f32(float x) { return V(set1_ps)(x); }
/* sum + x * y, rounded once. */
static inline doubles fused_f64(doubles x, doubles y, doubles sum) {
  return V(fmadd_pd)(x, y, sum);
}
static inline floats fused_f32(floats x, floats y, floats sum) { return V(fmadd_ps)(x, y, sum); }

static inline double add_lanes(const doubles sum[PARTS]) {
  double lane[8];
  memcpy(lane, sum, sizeof lane);
  return kf_add_lanes(lane);
}

/* --- half precision and integers -------------------------------------------------------------- */

static void wide_f16_to_f32(const uint16_t *in, size_t n, float *out) {
  size_t i = 0;
  for (; i + 2 * WIDTH <= n; i += 2 * WIDTH) store_f32(out + i, load_f16(in + i));
  kf_kernels_plain.f16_to_f32(in + i, n - i, out + i);
}

static void wide_f32_to_f16(const float *in, size_t n, uint16_t *out) {
  size_t i = 0;
  for (; i + 2 * WIDTH <= n; i += 2 * WIDTH) store_f16(out + i, load_f32(in + i));
  kf_kernels_plain.f32_to_f16(in + i, n - i, out + i);
}

static void wide_quantize(const float *x, size_t dim, double scale, int32_t *out) {
  size_t i = 0;
  for (; i + WIDTH <= dim; i += WIDTH) store_i32(out + i, widen(x + i) * scale);
  kf_kernels_plain.quantize(x + i, dim - i, scale, out + i);
}

/* --- canonical sums -------------------------------------------------------------------------- */

/* The last n < 8 elements, padded with zeros. Lanes start at +0 and products of f32 do not
 * underflow in f64, so adding 0 * 0 leaves a lane's bits alone. */
static inline const float *pad_f32(const float *p, size_t n, float buffer[8]) {
  memset(buffer, 0, 8 * sizeof *buffer);
  return memcpy(buffer, p, n * sizeof *buffer);
}

/* Adds the last n < 8 elements to the canonical dot product of two f64 vectors, and adds up the
 * lanes. */
static inline double end_dot(const doubles sum[PARTS], const double *x, const double *y, size_t n) {
  double lane[8];
  memcpy(lane, sum, sizeof lane);
  for (size_t i = 0; i < n; i++) lane[i] = kf_fma(x[i], y[i], lane[i]);
  return kf_add_lanes(lane);
}

static inline void dot_step(const float *x, const float *y, doubles sum[PARTS]) {
  for (int p = 0; p < PARTS; p++) /* the product of two f32 is exact */
    sum[p] = fused_f64(widen(x + p * WIDTH), widen(y + p * WIDTH), sum[p]);
}

static inline void distance_step(const float *x, const float *y, doubles sum[PARTS]) {
  for (int p = 0; p < PARTS; p++) {
    doubles d = widen(x + p * WIDTH) - widen(y + p * WIDTH);
    sum[p] += d * d;
  }
}

static double wide_norm2(const float *x, size_t dim) {
  doubles sum[PARTS] = {{0}};
  size_t i = 0;
  for (; i + 8 <= dim; i += 8) dot_step(x + i, x + i, sum);
  if (i < dim) {
    float buffer[8];
    const float *tail = pad_f32(x + i, dim - i, buffer);
    dot_step(tail, tail, sum);
  }
  return add_lanes(sum);
}

/* Four rows at a time keep four sums in flight and share the conversion of x. */
#define MANY(name, step)                                                                           \
  static void name(const float *x, const float *const *rows, size_t m, size_t dim, double *out) {  \
    size_t whole = dim - dim % 8, left = dim - whole;                                              \
    float last[8], other[8];                                                                       \
    pad_f32(x + whole, left, last);                                                                \
    for (size_t r = 0; r < m; r += 4) {                                                            \
      const float *y[4];                                                                           \
      for (size_t t = 0; t < 4; t++) y[t] = rows[r + t < m ? r + t : r];                           \
      doubles sum[4][PARTS] = {{{0}}};                                                             \
      for (size_t i = 0; i < whole; i += 8)                                                        \
        for (int t = 0; t < 4; t++) step(x + i, y[t] + i, sum[t]);                                 \
      for (int t = 0; left > 0 && t < 4; t++)                                                      \
        step(last, pad_f32(y[t] + whole, left, other), sum[t]);                                    \
      for (size_t t = 0; t < 4 && r + t < m; t++) out[r + t] = add_lanes(sum[t]);                  \
    }                                                                                              \
  }
MANY(wide_dots, dot_step)
MANY(wide_distances, distance_step)

static double wide_dot(size_t n, const double *x, const double *y) {
  doubles sum[PARTS] = {{0}};
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    UNROLL
    for (int p = 0; p < PARTS; p++)
      sum[p] = fused_f64(load_f64(x + i + p * WIDTH), load_f64(y + i + p * WIDTH), sum[p]);
  }
  return end_dot(sum, x + i, y + i, n - i);
}

/* --- products -------------------------------------------------------------------------------- */

#define GEMM_ROWS 192
#define GEMM_FEW  (MR - 1) /* for fewer rows of c b is not packed */

#define REAL    double
#define VEC     doubles
#define LANES   WIDTH
#define NAME(x) x##_f64
#define FUSED   kf_fma
#include "kernel/gemm.h"

#define REAL    float
#define VEC     floats
#define LANES   (2 * WIDTH)
#define NAME(x) x##_f32
#define FUSED   kf_fmaf
#include "kernel/gemm.h"

/* --- listing --------------------------------------------------------------------------------- */

static size_t wide_list_reaching(const float *x, const float *far, float reach, const float *scale,
                                 const float *offset, size_t n, float low, uint32_t *list) {
  enum { STEP = 2 * WIDTH };
  size_t i = 0, found = 0;
  for (; i + STEP <= n; i += STEP) {
    floats value = (load_f32(x + i) + load_f32(far + i) * reach) * load_f32(scale + i);
    unsigned left = lanes_reaching(value - load_f32(offset + i), low);
    for (; left != 0; left &= left - 1) list[found++] = (uint32_t)(i + (size_t)__builtin_ctz(left));
  }
  size_t more = kf_kernels_plain.list_reaching(x + i, far + i, reach, scale + i, offset + i, n - i,
                                               low, list + found);
  for (size_t k = found; k < found + more; k++) list[k] += (uint32_t)i;
  return found + more;
}

/* --- eigenvectors ---------------------------------------------------------------------------- */

/* Rows taken together. A single dot product would wait for its own additions; more rows than fit
 * the registers would not be faster. */
#define TOGETHER WIDTH

/* Canonical dot products of TOGETHER rows with x, over `whole` columns, a multiple of 8. Unless y
 * is NULL, also y += the rows times f. */
static inline void rows_together(const double *a, size_t ld, size_t whole, const double *x,
                                 double *y, const double *f, doubles sum[TOGETHER][PARTS]) {
  for (size_t i = 0; i < whole; i += 8) {
    UNROLL
    for (size_t p = 0; p < PARTS; p++) {
      size_t column = i + p * WIDTH;
      doubles at = load_f64(x + column), to = y != NULL ? load_f64(y + column) : at;
      UNROLL
      for (size_t t = 0; t < TOGETHER; t++) {
        doubles row = load_f64(a + t * ld + column);
        sum[t][p] = fused_f64(row, at, sum[t][p]);
        if (y != NULL) to = fused_f64(row, all_f64(f[t]), to);
      }
      if (y != NULL) store_f64(y + column, to);
    }
  }
}

static void wide_row_dots(const double *rows, size_t ld, size_t m, size_t n, const double *x,
                          double *out) {
  size_t whole = n - n % 8;
  for (; m >= TOGETHER; m -= TOGETHER, rows += TOGETHER * ld, out += TOGETHER) {
    doubles sum[TOGETHER][PARTS] = {{{0}}};
    rows_together(rows, ld, whole, x, NULL, NULL, sum);
    for (size_t t = 0; t < TOGETHER; t++)
      out[t] = end_dot(sum[t], rows + t * ld + whole, x + whole, n - whole);
  }
  for (size_t t = 0; t < m; t++) out[t] = wide_dot(n, rows + t * ld, x);
}

/* Columns [0, 4 * WIDTH). */
static inline void add_rows_to_columns(const double *rows, size_t ld, size_t m,
                                       const double *factor, double *y) {
  doubles sum[4];
  UNROLL
  for (size_t v = 0; v < 4; v++) sum[v] = load_f64(y + v * WIDTH);
  for (size_t k = 0; k < m; k++) {
    doubles by = all_f64(factor[k]);
    UNROLL
    for (size_t v = 0; v < 4; v++)
      sum[v] = fused_f64(load_f64(rows + k * ld + v * WIDTH), by, sum[v]);
  }
  UNROLL
  for (size_t v = 0; v < 4; v++) store_f64(y + v * WIDTH, sum[v]);
}

static void wide_add_rows(const double *rows, size_t ld, size_t m, size_t n, const double *factor,
                          double *y) {
  size_t i = 0;
  for (; i + 4 * WIDTH <= n; i += 4 * WIDTH) add_rows_to_columns(rows + i, ld, m, factor, y + i);
  for (; i + WIDTH <= n; i += WIDTH) {
    doubles sum = load_f64(y + i);
    for (size_t k = 0; k < m; k++)
      sum = fused_f64(load_f64(rows + k * ld + i), all_f64(factor[k]), sum);
    store_f64(y + i, sum);
  }
  for (size_t k = 0; i < n && k < m; k++)
    for (size_t j = i; j < n; j++) y[j] = kf_fma(rows[k * ld + j], factor[k], y[j]);
}

static void wide_symmetric_rows(size_t n, const double *a, size_t ld, const double *x, double *y) {
  double dots[8];
  for (size_t r = 0; r < 8; r += TOGETHER) {
    doubles sum[TOGETHER][PARTS] = {{{0}}};
    rows_together(a + r * ld, ld, n, x, y, x + n + r, sum);
    for (size_t t = 0; t < TOGETHER; t++) dots[r + t] = add_lanes(sum[t]);
    UNROLL
    for (size_t p = 0; p < PARTS; p++) { /* the block on the diagonal */
      size_t column = n + p * WIDTH;
      doubles to = load_f64(y + column);
      for (size_t t = 0; t < TOGETHER; t++)
        to = fused_f64(load_f64(a + (r + t) * ld + column), all_f64(x[n + r + t]), to);
      store_f64(y + column, to);
    }
  }
  for (size_t t = 0; t < 8; t++) y[n + t] += dots[t];
}

/* --- the secular equation -------------------------------------------------------------------- */

static inline void secular_step(const double *d, const double *z, double origin, double x,
                                doubles value[PARTS], doubles slope[PARTS]) {
  UNROLL
  for (size_t p = 0; p < PARTS; p++) {
    doubles weight = load_f64(z + p * WIDTH);
    doubles q = weight / ((load_f64(d + p * WIDTH) - origin) - x);
    value[p] += weight * q;
    slope[p] += q * q;
  }
}

static void wide_secular_sums(size_t n, const double *d, const double *z, double origin, double x,
                              double sums[2]) {
  doubles value[PARTS] = {{0}}, slope[PARTS] = {{0}};
  size_t i = 0;
  for (; i + 8 <= n; i += 8) secular_step(d + i, z + i, origin, x, value, slope);
  double lanes[2][8];
  memcpy(lanes[0], value, sizeof lanes[0]);
  memcpy(lanes[1], slope, sizeof lanes[1]);
  for (size_t lane = 0; i < n; i++, lane++) {
    double q = z[i] / ((d[i] - origin) - x);
    lanes[0][lane] += z[i] * q;
    lanes[1][lane] += q * q;
  }
  sums[0] = kf_add_lanes(lanes[0]);
  sums[1] = kf_add_lanes(lanes[1]);
}

/* Multiplies in factors [from, to) of the weights of four vectors of poles, whose own roots are not
 * among the factors. */
static inline void weigh(const double *d, const double *origin, const double *x, size_t from,
                         size_t to, const doubles pole[4], doubles product[4]) {
  for (size_t i = from; i < to; i++) {
    UNROLL
    for (size_t v = 0; v < 4; v++) product[v] *= ((pole[v] - origin[i]) - x[i]) / (pole[v] - d[i]);
  }
}

static void wide_secular_weights(size_t n, const double *d, const double *origin, const double *x,
                                 size_t first, size_t last, double *out) {
  enum { STEP = 4 * WIDTH };
  for (; first + STEP <= last; first += STEP) {
    doubles pole[4], product[4];
    double own[STEP];
    for (size_t v = 0; v < 4; v++) {
      pole[v] = load_f64(d + first + v * WIDTH);
      product[v] = (doubles){0} + 1;
    }
    weigh(d, origin, x, 0, first, pole, product);
    memcpy(own, product, sizeof own);
    for (size_t j = first; j < first + STEP; j++)
      for (size_t i = first; i < first + STEP; i++) {
        double gap = (d[j] - origin[i]) - x[i];
        own[j - first] *= i == j ? gap : gap / (d[j] - d[i]);
      }
    memcpy(product, own, sizeof own);
    weigh(d, origin, x, first + STEP, n, pole, product);
    memcpy(out + first, product, sizeof own);
  }
  kf_kernels_plain.secular_weights(n, d, origin, x, first, last, out);
}

static double wide_secular_vector(size_t n, const double *d, const double *z, double origin,
                                  double x, double *out) {
  doubles sum[PARTS] = {{0}};
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    UNROLL
    for (size_t p = 0; p < PARTS; p++) {
      size_t at = i + p * WIDTH;
      doubles q = load_f64(z + at) / ((load_f64(d + at) - origin) - x);
      store_f64(out + at, q);
      sum[p] += q * q;
    }
  }
  double lane[8];
  memcpy(lane, sum, sizeof lane);
  for (size_t t = 0; i < n; i++, t++) {
    out[i] = z[i] / ((d[i] - origin) - x);
    lane[t] += out[i] * out[i];
  }
  return kf_add_lanes(lane);
}

/* --- rotations ------------------------------------------------------------------------------- */

/* The upper row of each rotation is the lower row of the previous one, so it stays in registers. */
static void rotate_columns(double *q, size_t stride, size_t first, const double *c, const double *s,
                           size_t count) {
  doubles carry[4];
  UNROLL
  for (size_t v = 0; v < 4; v++) carry[v] = load_f64(q + (first + 1) * stride + v * WIDTH);
  for (size_t t = 0; t < count; t++) {
    double *lower = q + (first - t) * stride, *upper = lower + stride;
    UNROLL
    for (size_t v = 0; v < 4; v++) {
      doubles l = load_f64(lower + v * WIDTH);
      store_f64(upper + v * WIDTH, s[t] * l + c[t] * carry[v]);
      carry[v] = c[t] * l - s[t] * carry[v];
    }
  }
  UNROLL
  for (size_t v = 0; v < 4; v++) store_f64(q + (first + 1 - count) * stride + v * WIDTH, carry[v]);
}

static void wide_rotate(double *q, size_t stride, size_t n, size_t first, const double *c,
                        const double *s, size_t count) {
  size_t j = 0;
  for (; j + 4 * WIDTH <= n; j += 4 * WIDTH) rotate_columns(q + j, stride, first, c, s, count);
  if (j < n) kf_kernels_plain.rotate(q + j, stride, n - j, first, c, s, count);
}

/* --- rows of a search, one by one ------------------------------------------------------------ */

#ifdef __AVX512VNNI__
static int32_t wide_byte_dot(const int8_t *query, const uint8_t *row, size_t n) {
  __m512i even = _mm512_setzero_si512(), odd = even;
  size_t i = 0;
  for (; i + 2 * KF_FINE <= n; i += 2 * KF_FINE) {
    even = _mm512_dpbusd_epi32(even, _mm512_loadu_si512(row + i), _mm512_loadu_si512(query + i));
    odd = _mm512_dpbusd_epi32(odd, _mm512_loadu_si512(row + i + KF_FINE),
                              _mm512_loadu_si512(query + i + KF_FINE));
  }
  if (i < n)
    even = _mm512_dpbusd_epi32(even, _mm512_loadu_si512(row + i), _mm512_loadu_si512(query + i));
  return _mm512_reduce_add_epi32(_mm512_add_epi32(even, odd));
}
#else
static int32_t wide_byte_dot(const int8_t *query, const uint8_t *row, size_t n) {
  __m256i sum[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
  for (size_t i = 0; i < n; i += 32) {
    UNROLL
    for (size_t v = 0; v < 2; v++) {
      __m256i a = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(query + i + 16 * v)));
      __m256i b = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(row + i + 16 * v)));
      sum[v] = _mm256_add_epi32(sum[v], _mm256_madd_epi16(a, b));
    }
  }
  int32_t lane[8], total = 0;
  _mm256_storeu_si256((__m256i *)lane, _mm256_add_epi32(sum[0], sum[1]));
  for (size_t i = 0; i < 8; i++) total += lane[i];
  return total;
}
#endif

/* The table of an instruction set. */
#define WIDE_TABLE(which, moments, scans, f32, bf16)                                               \
  {                                                                                                \
    .isa = which, .f16_to_f32 = wide_f16_to_f32, .f32_to_f16 = wide_f32_to_f16,                    \
    .norm2 = wide_norm2, .dots = wide_dots, .distances = wide_distances,                           \
    .quantize = wide_quantize, .moment = moments, .scan = scans, .byte_dot = wide_byte_dot,        \
    .gemm_tn = wide_gemm_tn_f64, .gemm_tn_f32 = wide_gemm_tn_f32,                                  \
    .list_reaching = wide_list_reaching, .row_dots = wide_row_dots, .add_rows = wide_add_rows,     \
    .symmetric_rows = wide_symmetric_rows, .dot = wide_dot, .rotate = wide_rotate,                 \
    .secular_sums = wide_secular_sums, .secular_weights = wide_secular_weights,                    \
    .secular_vector = wide_secular_vector, .net_f32 = f32, .net_bf16 = bf16                        \
  }

#endif
