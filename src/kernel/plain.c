/* plain.c - every kernel in plain C. This is the reference: the other tables must give the same
 * bits. A machine without their instruction sets runs this one. */
#include "kernel/fused.h"
#include "kernel/kernel.h"

#include <math.h>
#include <string.h>

/* --- half precision -------------------------------------------------------------------------- */

static float float_from_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static uint32_t bits_of_float(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static float from_half(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
  uint32_t exponent = (uint32_t)h >> 10 & 31u;
  uint32_t fraction = (uint32_t)h & 0x3ffu;
  if (exponent == 31) return float_from_bits(sign | 0x7f800000u | fraction << 13);
  if (exponent == 0) { /* zero or subnormal: fraction * 2^-24, exact in f32 */
    float magnitude = (float)fraction * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  return float_from_bits(sign | (exponent + 112u) << 23 | fraction << 13);
}

static uint16_t to_half(float x) {
  uint32_t bits = bits_of_float(x);
  uint32_t sign = bits >> 16 & 0x8000u;
  uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) /* NaN: keep the top of the payload, quiet */
    return (uint16_t)(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
  if (magnitude >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* 65520 and above: infinity */
  if (magnitude < 0x38800000u) { /* subnormal: adding 0.5 leaves round(x * 2^24) in the low bits */
    float shifted = float_from_bits(magnitude) + 0.5f;
    return (uint16_t)(sign | (bits_of_float(shifted) - 0x3f000000u));
  }
  uint32_t odd = magnitude >> 13 & 1u;
  return (uint16_t)(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
}

static void f16_to_f32(const uint16_t *in, size_t n, float *out) {
  for (size_t i = 0; i < n; i++) out[i] = from_half(in[i]);
}

static void f32_to_f16(const float *in, size_t n, uint16_t *out) {
  for (size_t i = 0; i < n; i++) out[i] = to_half(in[i]);
}

/* --- canonical sums -------------------------------------------------------------------------- */

static double norm2(const float *x, size_t dim) {
  double lane[8] = {0};
  for (size_t i = 0; i < dim; i++) lane[i % 8] += (double)x[i] * (double)x[i];
  return kf_add_lanes(lane);
}

static void dots(const float *x, const float *const *rows, size_t m, size_t dim, double *out) {
  for (size_t r = 0; r < m; r++) {
    const float *y = rows[r];
    double lane[8] = {0};
    for (size_t i = 0; i < dim; i++) lane[i % 8] += (double)x[i] * (double)y[i];
    out[r] = kf_add_lanes(lane);
  }
}

static void distances(const float *x, const float *const *rows, size_t m, size_t dim, double *out) {
  for (size_t r = 0; r < m; r++) {
    const float *y = rows[r];
    double lane[8] = {0};
    for (size_t i = 0; i < dim; i++) {
      double d = (double)x[i] - (double)y[i];
      lane[i % 8] += d * d;
    }
    out[r] = kf_add_lanes(lane);
  }
}

static double dot(size_t n, const double *x, const double *y) {
  double lane[8] = {0};
  for (size_t i = 0; i < n; i++) lane[i % 8] = kf_fma(x[i], y[i], lane[i % 8]);
  return kf_add_lanes(lane);
}

/* --- exact moments --------------------------------------------------------------------------- */

static void quantize(const float *x, size_t dim, double scale, int32_t *out) {
  for (size_t i = 0; i < dim; i++) out[i] = (int32_t)lrint((double)x[i] * scale);
}

/* A panel holds the integers themselves, not digits: [rows][EDGE]. */
#define EDGE 16
#define ROWS 512

static void moment_pack(const int32_t *x, size_t n, size_t dim, size_t panel, size_t at,
                        void *packed) {
  int32_t *to = (int32_t *)packed + at * EDGE;
  for (size_t r = 0; r < n; r++)
    for (size_t c = 0; c < EDGE; c++) {
      size_t column = panel * EDGE + c;
      *to++ = column < dim ? x[r * dim + column] : 0;
    }
}

static void moment_tile(const void *a, const void *b, size_t n, int64_t *sums, size_t stride) {
  const int32_t *p = a, *q = b;
  for (size_t r = 0; r < n; r++)
    for (size_t i = 0; i < EDGE; i++)
      for (size_t j = 0; j < EDGE; j++)
        sums[i * stride + j] += (int64_t)p[r * EDGE + i] * q[r * EDGE + j];
}

static const kf_moment_kernel moment = {
    .edge = EDGE,
    .rows = ROWS,
    .step = 1,
    .panel_size = ROWS * EDGE * sizeof(int32_t),
    .pack = moment_pack,
    .tile = moment_tile,
};

/* --- linear algebra -------------------------------------------------------------------------- */

static void gemm_tn(const double *a, size_t lda, const double *b, size_t ldb, double *c, size_t ldc,
                    size_t m, size_t n, size_t depth) {
  for (size_t i = 0; i < m; i++)
    for (size_t k = 0; k < depth; k++)
      for (size_t j = 0; j < n; j++)
        c[i * ldc + j] = kf_fma(a[k * lda + i], b[k * ldb + j], c[i * ldc + j]);
}

static void gemm_tn_f32(const float *a, size_t lda, const float *b, size_t ldb, float *c,
                        size_t ldc, size_t m, size_t n, size_t depth) {
  for (size_t i = 0; i < m; i++)
    for (size_t k = 0; k < depth; k++)
      for (size_t j = 0; j < n; j++)
        c[i * ldc + j] = kf_fmaf(a[k * lda + i], b[k * ldb + j], c[i * ldc + j]);
}

static size_t list_reaching(const float *x, const float *far, float reach, const float *scale,
                            const float *offset, size_t n, float low, uint32_t *list) {
  size_t found = 0;
  for (size_t i = 0; i < n; i++)
    if ((x[i] + reach * far[i]) * scale[i] - offset[i] >= low) list[found++] = (uint32_t)i;
  return found;
}

static void row_dots(const double *rows, size_t ld, size_t m, size_t n, const double *x,
                     double *out) {
  for (size_t k = 0; k < m; k++) out[k] = dot(n, rows + k * ld, x);
}

static void add_rows(const double *rows, size_t ld, size_t m, size_t n, const double *factor,
                     double *y) {
  for (size_t k = 0; k < m; k++)
    for (size_t i = 0; i < n; i++) y[i] = kf_fma(factor[k], rows[k * ld + i], y[i]);
}

static void symmetric_rows(size_t n, const double *a, size_t ld, const double *x, double *y) {
  for (size_t t = 0; t < 8; t++)
    for (size_t i = 0; i < n + 8; i++) y[i] = kf_fma(a[t * ld + i], x[n + t], y[i]);
  for (size_t t = 0; t < 8; t++) y[n + t] += dot(n, a + t * ld, x);
}

static void rotate(double *q, size_t stride, size_t n, size_t first, const double *c,
                   const double *s, size_t count) {
  for (size_t t = 0; t < count; t++) {
    double *lower = q + (first - t) * stride, *upper = lower + stride;
    for (size_t i = 0; i < n; i++) {
      double l = lower[i], u = upper[i];
      lower[i] = c[t] * l - s[t] * u;
      upper[i] = s[t] * l + c[t] * u;
    }
  }
}

/* --- the secular equation -------------------------------------------------------------------- */

static void secular_sums(size_t n, const double *d, const double *z, double origin, double x,
                         double sums[2]) {
  double value[8] = {0}, slope[8] = {0};
  for (size_t j = 0; j < n; j++) {
    double q = z[j] / ((d[j] - origin) - x);
    value[j % 8] += z[j] * q;
    slope[j % 8] += q * q;
  }
  sums[0] = kf_add_lanes(value);
  sums[1] = kf_add_lanes(slope);
}

static void secular_weights(size_t n, const double *d, const double *origin, const double *x,
                            size_t first, size_t last, double *out) {
  for (size_t j = first; j < last; j++) {
    out[j] = 1;
    for (size_t i = 0; i < n; i++) {
      double gap = (d[j] - origin[i]) - x[i];
      out[j] *= i == j ? gap : gap / (d[j] - d[i]);
    }
  }
}

static double secular_vector(size_t n, const double *d, const double *z, double origin, double x,
                             double *out) {
  double lane[8] = {0};
  for (size_t j = 0; j < n; j++) {
    out[j] = z[j] / ((d[j] - origin) - x);
    lane[j % 8] += out[j] * out[j];
  }
  return kf_add_lanes(lane);
}

static int32_t byte_dot(const int8_t *query, const uint8_t *row, size_t n) {
  int32_t sum = 0;
  for (size_t i = 0; i < n; i++) sum += query[i] * row[i];
  return sum;
}

const kf_kernels kf_kernels_plain = {
    .isa = KF_ISA_PLAIN,
    .f16_to_f32 = f16_to_f32,
    .f32_to_f16 = f32_to_f16,
    .norm2 = norm2,
    .dots = dots,
    .distances = distances,
    .quantize = quantize,
    .byte_dot = byte_dot,
    .scan = &kf_scan_plain,
    .moment = &moment,
    .gemm_tn = gemm_tn,
    .gemm_tn_f32 = gemm_tn_f32,
    .list_reaching = list_reaching,
    .row_dots = row_dots,
    .add_rows = add_rows,
    .symmetric_rows = symmetric_rows,
    .dot = dot,
    .rotate = rotate,
    .secular_sums = secular_sums,
    .secular_weights = secular_weights,
    .secular_vector = secular_vector,
    .net_f32 = &kf_net_plain_f32,
    .net_bf16 = &kf_net_plain_bf16,
};
