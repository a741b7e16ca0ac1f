/* wide.h - the f64 kernels in GCC's vector types, written once and compiled for each instruction
 * set that includes this file. `vec` is as wide as the registers; the eight lanes of a canonical
 * sum are PARTS of them. Products and sums are rounded separately everywhere, so the bits are those
 * of plain.c. */
#ifndef KF_WIDE_H
#define KF_WIDE_H

#include "kernel/kernel.h"
#include "kernel/unroll.h"

#include <string.h>

#ifdef __AVX512F__
#define WIDTH 8
#define MR    8
typedef double vec __attribute__((vector_size(64)));
typedef float narrow __attribute__((vector_size(32)));
#else
#define WIDTH 4
#define MR    4
typedef double vec __attribute__((vector_size(32)));
typedef float narrow __attribute__((vector_size(16)));
#endif
#define PARTS (8 / WIDTH)
#define NV    3 /* vectors in a row of the product tile: MR x NV sums stay in registers */
#define NR    (NV * WIDTH)

static inline vec load_vec(const double *p) {
  vec x;
  memcpy(&x, p, sizeof x);
  return x;
}

static inline void store_vec(double *p, vec x) { memcpy(p, &x, sizeof x); }

static inline vec widen(const float *p) {
  narrow x;
  memcpy(&x, p, sizeof x);
  return __builtin_convertvector(x, vec);
}

static inline double add_lanes(const vec sum[PARTS]) {
  double lane[8];
  memcpy(lane, sum, sizeof lane);
  return kf_add_lanes(lane);
}

/* --- canonical sums -------------------------------------------------------------------------- */

/* The last n < 8 elements come padded with zeros: a lane that adds 0 * 0 keeps its bits. */
static inline const float *pad_f32(const float *p, size_t n, float buffer[8]) {
  memset(buffer, 0, 8 * sizeof *buffer);
  return memcpy(buffer, p, n * sizeof *buffer);
}

static inline const double *pad_f64(const double *p, size_t n, double buffer[8]) {
  memset(buffer, 0, 8 * sizeof *buffer);
  return memcpy(buffer, p, n * sizeof *buffer);
}

static inline void dot_step(const float *x, const float *y, vec sum[PARTS]) {
  for (int p = 0; p < PARTS; p++) sum[p] += widen(x + p * WIDTH) * widen(y + p * WIDTH);
}

static inline void distance_step(const float *x, const float *y, vec sum[PARTS]) {
  for (int p = 0; p < PARTS; p++) {
    vec d = widen(x + p * WIDTH) - widen(y + p * WIDTH);
    sum[p] += d * d;
  }
}

static double wide_norm2(const float *x, size_t dim) {
  vec sum[PARTS] = {{0}};
  size_t i = 0;
  for (; i + 8 <= dim; i += 8) dot_step(x + i, x + i, sum);
  if (i < dim) {
    float buffer[8];
    const float *tail = pad_f32(x + i, dim - i, buffer);
    dot_step(tail, tail, sum);
  }
  return add_lanes(sum);
}

/* Four rows at a time, so that four sums are under way and the conversion of x is shared. */
#define MANY(name, step)                                                                           \
  static void name(const float *x, const float *const *rows, size_t m, size_t dim, double *out) {  \
    size_t whole = dim - dim % 8, left = dim - whole;                                              \
    float last[8], other[8];                                                                       \
    pad_f32(x + whole, left, last);                                                                \
    for (size_t r = 0; r < m; r += 4) {                                                            \
      const float *y[4];                                                                           \
      for (size_t t = 0; t < 4; t++) y[t] = rows[r + t < m ? r + t : r];                           \
      vec sum[4][PARTS] = {{{0}}};                                                                 \
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
  vec sum[PARTS] = {{0}};
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    UNROLL
    for (int p = 0; p < PARTS; p++)
      sum[p] += load_vec(x + i + p * WIDTH) * load_vec(y + i + p * WIDTH);
  }
  if (i < n) {
    double a[8], b[8];
    pad_f64(x + i, n - i, a);
    pad_f64(y + i, n - i, b);
    UNROLL
    for (int p = 0; p < PARTS; p++) sum[p] += load_vec(a + p * WIDTH) * load_vec(b + p * WIDTH);
  }
  return add_lanes(sum);
}

/* --- products -------------------------------------------------------------------------------- */

/* Columns [0, width) of rows [0, depth) of a matrix, side by side and filled up with zeros. */
static void pack_panel(const double *from, size_t ld, size_t depth, size_t width, size_t full,
                       double *to) {
  for (size_t k = 0; k < depth; k++)
    for (size_t j = 0; j < full; j++) to[k * full + j] = j < width ? from[k * ld + j] : 0.0;
}

/* MR x NR sums, continued from c over `depth` steps. */
static void gemm_micro(const double *a, const double *b, size_t depth, double *c, size_t ldc) {
  vec sum[MR][NV];
  UNROLL
  for (int i = 0; i < MR; i++) {
    UNROLL
    for (int v = 0; v < NV; v++) sum[i][v] = load_vec(c + (size_t)i * ldc + (size_t)v * WIDTH);
  }
  for (size_t k = 0; k < depth; k++) {
    vec row[NV];
    UNROLL
    for (int v = 0; v < NV; v++) row[v] = load_vec(b + k * NR + (size_t)v * WIDTH);
    UNROLL
    for (int i = 0; i < MR; i++) {
      double x = a[k * MR + (size_t)i];
      UNROLL
      for (int v = 0; v < NV; v++) sum[i][v] += x * row[v];
    }
  }
  UNROLL
  for (int i = 0; i < MR; i++) {
    UNROLL
    for (int v = 0; v < NV; v++) store_vec(c + (size_t)i * ldc + (size_t)v * WIDTH, sum[i][v]);
  }
}

/* A tile at the edge of c goes through a buffer of full size. */
static void gemm_edge(const double *a, const double *b, size_t depth, double *c, size_t ldc,
                      size_t m, size_t n) {
  double full[MR * NR] = {0};
  for (size_t i = 0; i < m; i++) memcpy(full + i * NR, c + i * ldc, n * sizeof *c);
  gemm_micro(a, b, depth, full, NR);
  for (size_t i = 0; i < m; i++) memcpy(c + i * ldc, full + i * NR, n * sizeof *c);
}

/* Blocks of 64 rows of c and 192 steps of the sum: 96 KiB of a and 36 KiB of b are packed at a
 * time. The sum is continued from c, so blocking it does not change its order. */
#define GEMM_ROWS  64
#define GEMM_DEPTH 192

static void gemm_block(const double *a, size_t lda, const double *b, size_t ldb, double *c,
                       size_t ldc, size_t m, size_t n, size_t depth) {
  double packed_a[GEMM_ROWS * GEMM_DEPTH] __attribute__((aligned(64)));
  double packed_b[GEMM_DEPTH * NR] __attribute__((aligned(64)));
  for (size_t i = 0; i < m; i += MR)
    pack_panel(a + i, lda, depth, m - i < MR ? m - i : MR, MR, packed_a + i * depth);
  for (size_t j = 0; j < n; j += NR) {
    size_t columns = n - j < NR ? n - j : NR;
    pack_panel(b + j, ldb, depth, columns, NR, packed_b);
    for (size_t i = 0; i < m; i += MR) {
      size_t rows = m - i < MR ? m - i : MR;
      double *to = c + i * ldc + j;
      if (rows == MR && columns == NR)
        gemm_micro(packed_a + i * depth, packed_b, depth, to, ldc);
      else
        gemm_edge(packed_a + i * depth, packed_b, depth, to, ldc, rows, columns);
    }
  }
}

static void wide_gemm_tn(const double *a, size_t lda, const double *b, size_t ldb, double *c,
                         size_t ldc, size_t m, size_t n, size_t depth) {
  for (size_t i = 0; i < m; i += GEMM_ROWS) {
    size_t rows = m - i < GEMM_ROWS ? m - i : GEMM_ROWS;
    for (size_t k = 0; k < depth; k += GEMM_DEPTH) {
      size_t steps = depth - k < GEMM_DEPTH ? depth - k : GEMM_DEPTH;
      gemm_block(a + k * lda + i, lda, b + k * ldb, ldb, c + i * ldc, ldc, rows, n, steps);
    }
  }
}

/* --- eigenvectors ---------------------------------------------------------------------------- */

/* Four rows at a time: one dot product alone would wait for its own additions. */
static void wide_reflect(size_t n, double tau, const double *v, double *q, size_t stride,
                         size_t m) {
  size_t whole = n - n % 8;
  for (; m >= 4; m -= 4, q += 4 * stride) {
    vec sum[4][PARTS] = {{{0}}};
    for (size_t i = 0; i < whole; i += 8)
      for (size_t p = 0; p < PARTS; p++) {
        vec x = load_vec(v + i + p * WIDTH);
        UNROLL
        for (size_t t = 0; t < 4; t++) sum[t][p] += load_vec(q + t * stride + i + p * WIDTH) * x;
      }
    UNROLL
    for (size_t t = 0; t < 4; t++) {
      double lane[8], *row = q + t * stride;
      memcpy(lane, sum[t], sizeof lane);
      for (size_t i = whole; i < n; i++) lane[i - whole] += row[i] * v[i];
      double factor = -tau * kf_add_lanes(lane);
      for (size_t i = 0; i < n; i++) row[i] += factor * v[i];
    }
  }
  kf_kernels_plain.reflect(n, tau, v, q, stride, m);
}

static double wide_tridiagonal_row(size_t n, double *a, const double *v, const double *w,
                                   double v_r, double w_r, const double *x, double x_r, double *y) {
  vec sum[PARTS] = {{0}};
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    UNROLL
    for (int p = 0; p < PARTS; p++) {
      size_t at = i + (size_t)p * WIDTH;
      vec row = load_vec(a + at) - (load_vec(v + at) * w_r + load_vec(w + at) * v_r);
      store_vec(a + at, row);
      store_vec(y + at, load_vec(y + at) + row * x_r);
      sum[p] += row * load_vec(x + at);
    }
  }
  for (size_t lane = 0; i < n; i++, lane++) {
    a[i] -= v[i] * w_r + w[i] * v_r;
    y[i] += a[i] * x_r;
    sum[lane / WIDTH][lane % WIDTH] += a[i] * x[i];
  }
  return add_lanes(sum);
}

/* The upper row of each rotation is the lower row of the one before: it stays in registers. */
static void rotate_columns(double *q, size_t stride, size_t first, const double *c, const double *s,
                           size_t count) {
  vec carry[4];
  UNROLL
  for (size_t v = 0; v < 4; v++) carry[v] = load_vec(q + (first + 1) * stride + v * WIDTH);
  for (size_t t = 0; t < count; t++) {
    double *lower = q + (first - t) * stride, *upper = lower + stride;
    UNROLL
    for (size_t v = 0; v < 4; v++) {
      vec l = load_vec(lower + v * WIDTH);
      store_vec(upper + v * WIDTH, s[t] * l + c[t] * carry[v]);
      carry[v] = c[t] * l - s[t] * carry[v];
    }
  }
  UNROLL
  for (size_t v = 0; v < 4; v++) store_vec(q + (first + 1 - count) * stride + v * WIDTH, carry[v]);
}

static void wide_rotate(double *q, size_t stride, size_t n, size_t first, const double *c,
                        const double *s, size_t count) {
  size_t j = 0;
  for (; j + 4 * WIDTH <= n; j += 4 * WIDTH) rotate_columns(q + j, stride, first, c, s, count);
  if (j < n) kf_kernels_plain.rotate(q + j, stride, n - j, first, c, s, count);
}

#endif
