/* net_wide.h - the arithmetic of towers in vectors, compiled for each instruction set that includes
 * this file. The including file supplies the innermost sums: its `format` says how rows and weights
 * are laid out and how a block of them is multiplied. The bits are those of net_plain.c.
 *
 * Weights are packed in panels of 32 outputs, and a panel in rows of 32 dwords: one for each k in
 * f32, one for each pair of k in bf16. A product is blocked by outputs (BLOCK_N), by rows (BLOCK_M)
 * and along the sum (the format's `depth`): a block's rows and weights stay in the second-level
 * cache, its sums on the stack, and weights come from memory once. */
#ifndef KF_NET_WIDE_H
#define KF_NET_WIDE_H

#include "kernel/kernel.h"
#include "kernel/net_math.h"
#include "kernel/unroll.h"

#include <immintrin.h>
#include <math.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

/* --- vectors --------------------------------------------------------------------------------- */

#ifdef __AVX512F__
#define LANES 16
typedef __m512 vec;
typedef __m512i bits;
typedef __mmask16 mask;
#define V(op) _mm512_##op
INLINE bits as_bits(vec x) { return _mm512_castps_si512(x); }
INLINE vec as_vec(bits x) { return _mm512_castsi512_ps(x); }
INLINE bits both(bits x, bits y) { return _mm512_and_si512(x, y); }
INLINE bits either(bits x, bits y) { return _mm512_or_si512(x, y); }
INLINE mask less(vec x, vec y) { return _mm512_cmp_ps_mask(x, y, _CMP_LT_OQ); }
INLINE mask is_nan(vec x) { return _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q); }
INLINE mask below(bits x, bits y) { return _mm512_cmplt_epi32_mask(x, y); }
INLINE vec choose(mask m, vec yes, vec no) { return _mm512_mask_blend_ps(m, no, yes); }
INLINE bits count_lanes(void) {
  return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}
#else
#define LANES 8
typedef __m256 vec;
typedef __m256i bits;
typedef __m256 mask;
#define V(op) _mm256_##op
INLINE bits as_bits(vec x) { return _mm256_castps_si256(x); }
INLINE vec as_vec(bits x) { return _mm256_castsi256_ps(x); }
INLINE bits both(bits x, bits y) { return _mm256_and_si256(x, y); }
INLINE bits either(bits x, bits y) { return _mm256_or_si256(x, y); }
INLINE mask less(vec x, vec y) { return _mm256_cmp_ps(x, y, _CMP_LT_OQ); }
INLINE mask is_nan(vec x) { return _mm256_cmp_ps(x, x, _CMP_UNORD_Q); }
INLINE mask below(bits x, bits y) { return as_vec(_mm256_cmpgt_epi32(y, x)); }
INLINE vec choose(mask m, vec yes, vec no) { return _mm256_blendv_ps(no, yes, m); }
INLINE bits count_lanes(void) { return _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7); }
#endif
#define PARTS ((int)(KF_NET_PANEL / LANES)) /* vectors of a panel's width */

INLINE vec load(const float *p) { return V(loadu_ps)(p); }
INLINE void store(float *p, vec x) { V(storeu_ps)(p, x); }
INLINE vec all(float x) { return V(set1_ps)(x); }
INLINE bits all_bits(uint32_t x) { return V(set1_epi32)((int)x); }
INLINE vec none(void) { return V(setzero_ps)(); }
INLINE vec fused(vec a, vec b, vec c) { return V(fmadd_ps)(a, b, c); }
INLINE vec add(vec a, vec b) { return V(add_ps)(a, b); }
INLINE vec times(vec a, vec b) { return V(mul_ps)(a, b); }
/* a < b ? a : b and a > b ? a : b */
INLINE vec smaller(vec a, vec b) { return V(min_ps)(a, b); }
INLINE vec larger(vec a, vec b) { return V(max_ps)(a, b); }
INLINE vec magnitude(vec x) { return as_vec(both(as_bits(x), all_bits(0x7fffffffu))); }
INLINE bits sign(vec x) { return both(as_bits(x), all_bits(0x80000000u)); }

/* Rounds to bf16, the upper half of an f32. */
#ifdef __AVX512BF16__
INLINE vec to_bf16(vec x) {
  return as_vec(_mm512_slli_epi32(_mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(x)), 16));
}
#else
INLINE vec to_bf16(vec x) {
  bits b = as_bits(x), odd = both(V(srli_epi32)(b, 16), all_bits(1));
  bits rounded = V(add_epi32)(b, V(add_epi32)(odd, all_bits(0x7fffu)));
  vec y = choose(is_nan(x), as_vec(either(b, all_bits(0x00400000u))), as_vec(rounded));
  y = as_vec(both(as_bits(y), all_bits(0xffff0000u)));
  return choose(less(magnitude(x), all(0x1p-126f)), as_vec(sign(x)), y);
}
#endif

/* --- activations ----------------------------------------------------------------------------- */

INLINE vec horner(const float *poly, int terms, vec x) {
  vec sum = all(poly[terms - 1]);
  UNROLL
  for (int i = terms - 2; i >= 0; i--) sum = fused(sum, x, all(poly[i]));
  return sum;
}

/* Undefined for NaN. */
INLINE vec power_of_e(vec given) {
  vec x = larger(all(-KF_EXP_MOST), smaller(all(KF_EXP_MOST), given));
  vec shifted = fused(x, all(KF_LOG2_E), all(KF_ROUND)), n = V(sub_ps)(shifted, all(KF_ROUND));
  vec r = fused(n, all(-KF_LN2_LOW), fused(n, all(-KF_LN2_HIGH), x));
  vec y = add(fused(times(r, r), horner(kf_exp_poly, KF_EXP_TERMS, r), r), all(1.0f));
  return as_vec(V(add_epi32)(as_bits(y), V(slli_epi32)(as_bits(shifted), 23)));
}

INLINE vec exponential(vec x) { return choose(is_nan(x), x, power_of_e(x)); }

INLINE vec error_function(vec x) {
  vec a = smaller(all(KF_ERF_MOST), magnitude(x));
  vec near = fused(x, horner(kf_erf_poly, KF_ERF_TERMS, times(a, a)), x);
  vec far = V(sub_ps)(all(1.0f), exponential(horner(kf_erfc_poly, KF_ERFC_TERMS, a)));
  far = as_vec(either(as_bits(magnitude(far)), sign(x)));
  return choose(less(a, all(1.0f)), near, far);
}

INLINE vec activate(kf_activation activation, vec x) {
  switch (activation) {
  case KF_ACT_QUICK_GELU:
    return V(div_ps)(x, add(all(1.0f), power_of_e(times(x, all(-KF_QUICK_GELU)))));
  case KF_ACT_GELU:
    return times(times(x, all(0.5f)), add(all(1.0f), error_function(times(x, all(KF_SQRT_HALF)))));
  case KF_ACT_GELU_TANH: {
    vec minus = as_vec(V(add_epi32)(as_bits(x), all_bits(0x80000000u)));
    vec u = times(minus, fused(times(x, x), all(KF_GELU_TANH_B), all(KF_GELU_TANH_A)));
    return V(div_ps)(x, add(all(1.0f), power_of_e(u)));
  }
  case KF_ACT_NONE: break;
  }
  return x;
}

/* --- layer norm ------------------------------------------------------------------------------ */

/* The eight lanes of a canonical sum. */
#ifdef __AVX512F__
typedef struct lanes {
  __m512d x;
} lanes;
INLINE lanes widen(const float *p) { return (lanes){_mm512_cvtps_pd(_mm256_loadu_ps(p))}; }
INLINE lanes lanes_of(double x) { return (lanes){_mm512_set1_pd(x)}; }
INLINE lanes plus(lanes a, lanes b) { return (lanes){_mm512_add_pd(a.x, b.x)}; }
INLINE lanes minus(lanes a, lanes b) { return (lanes){_mm512_sub_pd(a.x, b.x)}; }
INLINE lanes product(lanes a, lanes b) { return (lanes){_mm512_mul_pd(a.x, b.x)}; }
INLINE __m256 narrow(lanes a) { return _mm512_cvtpd_ps(a.x); }
#else
typedef struct lanes {
  __m256d x, y;
} lanes;
INLINE lanes widen(const float *p) {
  return (lanes){_mm256_cvtps_pd(_mm_loadu_ps(p)), _mm256_cvtps_pd(_mm_loadu_ps(p + 4))};
}
INLINE lanes lanes_of(double x) { return (lanes){_mm256_set1_pd(x), _mm256_set1_pd(x)}; }
INLINE lanes plus(lanes a, lanes b) {
  return (lanes){_mm256_add_pd(a.x, b.x), _mm256_add_pd(a.y, b.y)};
}
INLINE lanes minus(lanes a, lanes b) {
  return (lanes){_mm256_sub_pd(a.x, b.x), _mm256_sub_pd(a.y, b.y)};
}
INLINE lanes product(lanes a, lanes b) {
  return (lanes){_mm256_mul_pd(a.x, b.x), _mm256_mul_pd(a.y, b.y)};
}
INLINE __m256 narrow(lanes a) {
  return _mm256_set_m128(_mm256_cvtpd_ps(a.y), _mm256_cvtpd_ps(a.x));
}
#endif

/* Several rows at once, since the sums of a single row would wait for each other. */
INLINE void norm_rows(const float *x, size_t stride, const int rows, size_t d, const float *gamma,
                      const float *beta, float eps, float *out, size_t out_stride) {
  size_t whole = d - d % 8;
  lanes sum[4], square[4], centre[4];
  double mean[4], factor[4], lane[8];
  UNROLL
  for (int r = 0; r < rows; r++) sum[r] = square[r] = lanes_of(0);
  for (size_t i = 0; i < whole; i += 8) {
    UNROLL
    for (int r = 0; r < rows; r++) sum[r] = plus(sum[r], widen(x + (size_t)r * stride + i));
  }
  UNROLL
  for (int r = 0; r < rows; r++) {
    memcpy(lane, &sum[r], sizeof lane);
    for (size_t i = whole; i < d; i++) lane[i - whole] += (double)x[(size_t)r * stride + i];
    mean[r] = kf_add_lanes(lane) / (double)d;
    centre[r] = lanes_of(mean[r]);
  }
  for (size_t i = 0; i < whole; i += 8) {
    UNROLL
    for (int r = 0; r < rows; r++) {
      lanes off = minus(widen(x + (size_t)r * stride + i), centre[r]);
      square[r] = plus(square[r], product(off, off));
    }
  }
  UNROLL
  for (int r = 0; r < rows; r++) {
    memcpy(lane, &square[r], sizeof lane);
    for (size_t i = whole; i < d; i++) {
      double off = (double)x[(size_t)r * stride + i] - mean[r];
      lane[i - whole] += off * off;
    }
    factor[r] = 1.0 / sqrt(kf_add_lanes(lane) / (double)d + (double)eps);
  }
  for (int r = 0; r < rows; r++) {
    const float *from = x + (size_t)r * stride;
    float *to = out + (size_t)r * out_stride;
    for (size_t i = 0; i < whole; i += 8) {
      __m256 h = narrow(product(minus(widen(from + i), centre[r]), lanes_of(factor[r])));
      _mm256_storeu_ps(to + i,
                       _mm256_fmadd_ps(h, _mm256_loadu_ps(gamma + i), _mm256_loadu_ps(beta + i)));
    }
    for (size_t i = whole; i < d; i++)
      to[i] = fmaf((float)(((double)from[i] - mean[r]) * factor[r]), gamma[i], beta[i]);
  }
}

static void wide_layer_norm(const float *x, size_t stride, size_t m, size_t d, const float *gamma,
                            const float *beta, float eps, float *out, size_t out_stride) {
  size_t r = 0;
  for (; r + 4 <= m; r += 4)
    norm_rows(x + r * stride, stride, 4, d, gamma, beta, eps, out + r * out_stride, out_stride);
  for (; r < m; r++)
    norm_rows(x + r * stride, stride, 1, d, gamma, beta, eps, out + r * out_stride, out_stride);
}

/* --- rows and weights ------------------------------------------------------------------------ */

#define LINE    (KF_NET_PANEL * sizeof(uint32_t)) /* bytes of a row of a panel */
#define BLOCK_N 128
#define BLOCK_M 192

typedef struct format {
  size_t element; /* bytes of an element of a prepared row */
  size_t tall;    /* rows whose blocks of 32 columns are stored side by side; a power of 2 */
  size_t weight;  /* bytes of a packed weight */
  size_t depth;   /* columns multiplied at a time; a multiple of KF_NET_STEP */
  vec (*round)(vec x);
  /* Writes 32 columns of a prepared row, starting at a multiple of 32. */
  void (*put)(const vec y[PARTS], char *to);
  /* Packs 32 k, starting at a multiple of 32, for 32 outputs: block[k * stride + output]. */
  void (*pack)(const float *block, size_t stride, char *to);
  /* Adds the products of `rows` rows with the outputs of `panels` panels, over `steps` columns, to
   * sums[r][c], whose rows are BLOCK_N apart. `fresh`: sums start at 0. */
  void (*sum)(const char *x, size_t row, size_t rows, const char *weights, size_t panel,
              size_t panels, size_t steps, float *sums, bool fresh);
} format;

INLINE size_t padded(size_t k) { return (k + KF_NET_STEP - 1) / KF_NET_STEP * KF_NET_STEP; }

/* Rows stored one after the other take an odd number of cache lines, so that they do not share a
 * set of the cache. */
INLINE size_t row_bytes(const format *f, size_t k) {
  size_t lines = (padded(k) * f->element + 63) / 64;
  return (f->tall > 1 ? lines : lines | 1) * 64;
}

INLINE size_t rows_bytes(const format *f, size_t m, size_t k) {
  return (m + f->tall - 1) / f->tall * f->tall * row_bytes(f, k);
}

/* The place of columns [j, j + 32) of row i in [rows / tall][columns / 32][tall][32]. */
INLINE size_t place(const format *f, size_t k, size_t i, size_t j) {
  return i / f->tall * f->tall * row_bytes(f, k) +
         (j * f->tall + i % f->tall * KF_NET_STEP) * f->element;
}

INLINE size_t panel_bytes(const format *f, size_t k) {
  return KF_NET_PANEL * padded(k) * f->weight;
}

INLINE size_t packed_bytes(const format *f, size_t n, size_t k) {
  return (n + KF_NET_PANEL - 1) / KF_NET_PANEL * panel_bytes(f, k);
}

/* Loads columns [j, j + 32) of a row of k columns, with zeros past its end. */
INLINE void take(const float *x, size_t k, size_t j, vec y[PARTS]) {
  float buffer[KF_NET_PANEL] = {0};
  const float *from = x + j;
  if (k - j < KF_NET_PANEL) from = memcpy(buffer, x + j, (k - j) * sizeof *x);
  UNROLL
  for (int v = 0; v < PARTS; v++) y[v] = load(from + v * LANES);
}

INLINE void prepare_rows(const format *f, const float *x, size_t stride, size_t first, size_t m,
                         size_t k, char *to) {
  for (size_t i = first; i < first + m; i++, x += stride)
    for (size_t j = 0; j < k; j += KF_NET_PANEL) {
      vec y[PARTS];
      take(x, k, j, y);
      f->put(y, to + place(f, k, i, j));
    }
}

INLINE void transpose8(const float *from, size_t stride, float *to, size_t to_stride) {
  __m256 a[8], b[8];
  UNROLL
  for (int i = 0; i < 8; i++) a[i] = _mm256_loadu_ps(from + (size_t)i * stride);
  UNROLL
  for (int i = 0; i < 8; i += 2) {
    b[i] = _mm256_unpacklo_ps(a[i], a[i + 1]);
    b[i + 1] = _mm256_unpackhi_ps(a[i], a[i + 1]);
  }
  UNROLL
  for (int i = 0; i < 8; i += 4) {
    a[i] = _mm256_shuffle_ps(b[i], b[i + 2], 0x44);
    a[i + 1] = _mm256_shuffle_ps(b[i], b[i + 2], 0xee);
    a[i + 2] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0x44);
    a[i + 3] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0xee);
  }
  UNROLL
  for (size_t i = 0; i < 4; i++) {
    _mm256_storeu_ps(to + i * to_stride, _mm256_permute2f128_ps(a[i], a[i + 4], 0x20));
    _mm256_storeu_ps(to + (i + 4) * to_stride, _mm256_permute2f128_ps(a[i], a[i + 4], 0x31));
  }
}

/* Packs one panel, whose outputs are `count` rows of k weights. */
INLINE void pack_rows(const format *f, const float *w, size_t stride, size_t count, size_t k,
                      char *to) {
  float block[KF_NET_STEP * KF_NET_PANEL] __attribute__((aligned(64)));
  for (size_t at = 0; at < k; at += KF_NET_STEP, to += KF_NET_STEP * KF_NET_PANEL * f->weight) {
    size_t steps = k - at < KF_NET_STEP ? k - at : KF_NET_STEP;
    if (count == KF_NET_PANEL && steps == KF_NET_STEP) {
      for (size_t i = 0; i < KF_NET_PANEL; i += 8)
        for (size_t j = 0; j < KF_NET_STEP; j += 8)
          transpose8(w + i * stride + at + j, stride, block + j * KF_NET_PANEL + i, KF_NET_PANEL);
    } else {
      memset(block, 0, sizeof block);
      for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < steps; j++) block[j * KF_NET_PANEL + i] = w[i * stride + at + j];
    }
    f->pack(block, KF_NET_PANEL, to);
  }
}

/* Packs one panel, whose outputs are `count` columns of w, each of k rows. */
INLINE void pack_columns(const format *f, const float *w, size_t stride, size_t count, size_t k,
                         char *to) {
  float block[KF_NET_STEP * KF_NET_PANEL] __attribute__((aligned(64)));
  for (size_t at = 0; at < k; at += KF_NET_STEP, to += KF_NET_STEP * KF_NET_PANEL * f->weight) {
    size_t steps = k - at < KF_NET_STEP ? k - at : KF_NET_STEP;
    if (count == KF_NET_PANEL && steps == KF_NET_STEP) {
      f->pack(w + at * stride, stride, to);
      continue;
    }
    if (steps < KF_NET_STEP) memset(block, 0, sizeof block);
    for (size_t j = 0; j < steps; j++) {
      vec y[PARTS];
      take(w + (at + j) * stride, count, 0, y);
      UNROLL
      for (int v = 0; v < PARTS; v++) store(block + j * KF_NET_PANEL + v * LANES, y[v]);
    }
    f->pack(block, KF_NET_PANEL, to);
  }
}

/* Packs pairs of k, the even one in the lower half. */
INLINE void pack_pairs(const float *block, size_t stride, char *to) {
  for (size_t k = 0; k < KF_NET_STEP; k += 2, block += 2 * stride, to += LINE) {
    UNROLL
    for (int v = 0; v < PARTS; v++) {
      bits even = as_bits(to_bf16(load(block + v * LANES)));
      bits odd = as_bits(to_bf16(load(block + stride + v * LANES)));
      store((float *)(void *)to + v * LANES, as_vec(either(V(srli_epi32)(even, 16), odd)));
    }
  }
}

/* --- products -------------------------------------------------------------------------------- */

/* Where a panel's sums go: columns [j, j + width) of `rows` rows from row i on. */
typedef struct target {
  size_t i, rows, j, width;
} target;

/* Writes columns [j, j + width) of row i; `out` is their place in f32 rows. */
INLINE void write_row(const format *f, const kf_net_product *p, size_t i, size_t j, size_t width,
                      float *out, vec y[PARTS]) {
  float buffer[KF_NET_PANEL] __attribute__((aligned(64))) = {0};
  if (p->out == NULL && width < KF_NET_PANEL) { /* zeros follow the last column */
    float part[KF_NET_PANEL];
    UNROLL
    for (int v = 0; v < PARTS; v++) store(part + v * LANES, y[v]);
    memcpy(buffer, part, width * sizeof *part);
    UNROLL
    for (int v = 0; v < PARTS; v++) y[v] = load(buffer + v * LANES);
  }
  if (p->out == NULL) {
    f->put(y, (char *)p->prepared + place(f, p->n, i, j));
    return;
  }
  float *to = width == KF_NET_PANEL ? out : buffer;
  if (p->add) {
    if (to == buffer) memcpy(buffer, out, width * sizeof *out);
    UNROLL
    for (int v = 0; v < PARTS; v++) y[v] = add(load(to + v * LANES), y[v]);
  }
  UNROLL
  for (int v = 0; v < PARTS; v++) store(to + v * LANES, y[v]);
  if (to == buffer) memcpy(out, buffer, width * sizeof *out);
}

INLINE void finish_panel(const format *f, const kf_net_product *p, kf_activation activation,
                         const float *sums, const target *t) {
  vec bias[PARTS];
  UNROLL
  for (int v = 0; v < PARTS; v++) bias[v] = all(-0.0f); /* adding it changes nothing */
  if (p->bias != NULL) take(p->bias, t->j + t->width, t->j, bias);
  float *out = p->out != NULL ? kf_net_out(p, t->i, t->j) : NULL;
  for (size_t i = 0; i < t->rows; i++, sums += BLOCK_N) {
    vec y[PARTS];
    UNROLL
    for (int v = 0; v < PARTS; v++)
      y[v] = activate(activation, add(load(sums + v * LANES), bias[v]));
    write_row(f, p, t->i + i, t->j, t->width, p->out != NULL ? out + i * p->stride : NULL, y);
  }
}

INLINE void finish(const format *f, const kf_net_product *p, const float *sums, const target *t) {
  switch (p->activation) {
  case KF_ACT_NONE: finish_panel(f, p, KF_ACT_NONE, sums, t); break;
  case KF_ACT_QUICK_GELU: finish_panel(f, p, KF_ACT_QUICK_GELU, sums, t); break;
  case KF_ACT_GELU: finish_panel(f, p, KF_ACT_GELU, sums, t); break;
  case KF_ACT_GELU_TANH: finish_panel(f, p, KF_ACT_GELU_TANH, sums, t); break;
  }
}

/* Splits the sum into equal parts of at most the format's depth; returns their length. */
INLINE size_t depth_step(const format *f, size_t k) {
  if (k <= f->depth) return k;
  size_t parts = (k - 1) / f->depth + 1;
  return padded((k + parts - 1) / parts);
}

INLINE void multiply(const format *f, const kf_net_product *p) {
  float sums[BLOCK_M * BLOCK_N] __attribute__((aligned(64)));
  size_t depth = padded(p->k), step = depth_step(f, depth), panel = panel_bytes(f, p->k);
  size_t row = row_bytes(f, p->k);
  for (size_t j = p->first; j < p->end; j += BLOCK_N) {
    size_t columns = p->end - j < BLOCK_N ? p->end - j : BLOCK_N;
    const char *weights = (const char *)p->weights + j / KF_NET_PANEL * panel;
    for (size_t i = 0; i < p->m; i += BLOCK_M) {
      size_t rows = p->m - i < BLOCK_M ? p->m - i : BLOCK_M;
      const char *x = (const char *)p->x + i * row;
      for (size_t k = 0; k < depth; k += step)
        f->sum(x + k * f->element, row, rows, weights + k * KF_NET_PANEL * f->weight, panel,
               (columns + KF_NET_PANEL - 1) / KF_NET_PANEL, depth - k < step ? depth - k : step,
               sums, k == 0);
      for (size_t c = 0; c < columns; c += KF_NET_PANEL) {
        size_t width = columns - c < KF_NET_PANEL ? columns - c : KF_NET_PANEL;
        finish(f, p, sums + c, &(target){i, rows, j + c, width});
      }
    }
  }
}

/* --- attention ------------------------------------------------------------------------------- */

/* A block of queries is multiplied with the keys, packed as rows of weights; then its attention
 * weights are multiplied with the values, packed as columns. */
#define QUERIES 96

typedef struct attention_space {
  char *keys, *values, *query, *weight;
  float *score, *out;
  size_t size;
} attention_space;

INLINE attention_space divide(const format *f, char *at, size_t keys, size_t dim) {
  attention_space s;
  char *from = at;
  s.keys = at, at += packed_bytes(f, keys, dim);
  s.values = at, at += packed_bytes(f, dim, keys);
  s.query = at, at += rows_bytes(f, QUERIES, dim);
  s.weight = at, at += rows_bytes(f, QUERIES, keys);
  s.score = (float *)(void *)at, at += QUERIES * padded(keys) * sizeof(float);
  s.out = (float *)(void *)at, at += QUERIES * padded(dim) * sizeof(float);
  s.size = (size_t)(at - from);
  return s;
}

INLINE size_t attention_bytes(const format *f, size_t keys, size_t dim) {
  static char nothing[1];
  return divide(f, nothing, keys, dim).size;
}

/* x, with `otherwise` in place of keys from `seen` on. */
INLINE vec seen_or(vec x, size_t at, size_t seen, float otherwise) {
  if (at + LANES <= seen) return x;
  bits index = V(add_epi32)(count_lanes(), all_bits((uint32_t)at));
  return choose(below(index, all_bits((uint32_t)seen)), x, all(otherwise));
}

#ifdef __AVX512F__
INLINE __m256 lower_half(vec x) { return _mm512_castps512_ps256(x); }
INLINE __m256 upper_half(vec x) { return _mm512_extractf32x8_ps(x, 1); }
#endif

INLINE float largest_score(const float *score, float scale, size_t seen) {
  vec most = all(-INFINITY);
  for (size_t j = 0; j < seen; j += LANES)
    most = larger(most, seen_or(times(load(score + j), all(scale)), j, seen, -INFINITY));
#ifdef __AVX512F__
  __m256 eight = _mm256_max_ps(lower_half(most), upper_half(most));
#else
  __m256 eight = most;
#endif
  __m128 x = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  x = _mm_max_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
}

/* Adds up 16 lanes: upper half to lower half, again and again. */
INLINE float add_halves(const vec sum[16 / LANES]) {
#ifdef __AVX512F__
  __m256 eight = _mm256_add_ps(lower_half(sum[0]), upper_half(sum[0]));
#else
  __m256 eight = _mm256_add_ps(sum[0], sum[1]);
#endif
  __m128 x = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  x = _mm_add_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}

/* Turns a row of scores into row i of the prepared weights; returns their sum. */
INLINE float soften(const format *f, const float *score, float scale, size_t seen, size_t keys,
                    char *weights, size_t i) {
  float largest = largest_score(score, scale, seen);
  vec sum[16 / LANES], y[PARTS];
  UNROLL
  for (int v = 0; v < 16 / LANES; v++) sum[v] = none();
  for (size_t j = 0; j < keys; j += KF_NET_PANEL) {
    UNROLL
    for (int v = 0; v < PARTS; v++) {
      size_t at = j + (size_t)v * LANES;
      vec x = V(sub_ps)(times(load(score + at), all(scale)), all(largest));
      y[v] = seen_or(f->round(exponential(x)), at, seen, 0);
      sum[v % (16 / LANES)] = add(sum[v % (16 / LANES)], y[v]);
    }
    f->put(y, weights + place(f, keys, i, j));
  }
  return add_halves(sum);
}

/* Scales query i's row of results and writes it to its place. */
INLINE void write_attended(const format *f, const kf_net_attention *a, size_t i, float *row,
                           float part) {
  for (size_t c = 0; a->out != NULL && c < a->dim; c++) row[c] *= part;
  for (size_t c = 0; a->out == NULL && c < a->dim; c += KF_NET_PANEL) {
    vec y[PARTS];
    UNROLL
    for (int v = 0; v < PARTS; v++) y[v] = times(load(row + c + v * LANES), all(part));
    f->put(y, (char *)a->prepared + place(f, a->depth, a->row + i, a->column + c));
  }
}

INLINE void attend(const format *f, void (*product_of)(const kf_net_product *),
                   const kf_net_attention *a) {
  attention_space s = divide(f, a->workspace, a->keys, a->dim);
  for (size_t j = 0; j < a->keys; j += KF_NET_PANEL)
    pack_rows(f, a->k + j * a->kv_stride, a->kv_stride,
              a->keys - j < KF_NET_PANEL ? a->keys - j : KF_NET_PANEL, a->dim,
              s.keys + j / KF_NET_PANEL * panel_bytes(f, a->dim));
  for (size_t c = 0; c < a->dim; c += KF_NET_PANEL)
    pack_columns(f, a->v + c, a->kv_stride, a->dim - c < KF_NET_PANEL ? a->dim - c : KF_NET_PANEL,
                 a->keys, s.values + c / KF_NET_PANEL * panel_bytes(f, a->keys));
  for (size_t i = 0; i < a->queries; i += QUERIES) {
    size_t n = a->queries - i < QUERIES ? a->queries - i : QUERIES;
    float part[QUERIES] = {0}, *out = a->out != NULL ? a->out + i * a->out_stride : s.out;
    size_t stride = a->out != NULL ? a->out_stride : padded(a->dim);
    prepare_rows(f, a->q + i * a->q_stride, a->q_stride, 0, n, a->dim, s.query);
    product_of(&(kf_net_product){.x = s.query,
                                 .m = n,
                                 .k = a->dim,
                                 .weights = s.keys,
                                 .n = padded(a->keys), /* scores beyond the last key are zero */
                                 .end = padded(a->keys),
                                 .out = s.score,
                                 .stride = padded(a->keys)});
    for (size_t r = 0; r < n; r++)
      part[r] = 1.0f / soften(f, s.score + r * padded(a->keys), a->scale,
                              a->causal ? i + r + 1 : a->keys, a->keys, s.weight, r);
    product_of(&(kf_net_product){.x = s.weight,
                                 .m = n,
                                 .k = a->keys,
                                 .weights = s.values,
                                 .n = a->dim,
                                 .end = a->dim,
                                 .out = out,
                                 .stride = stride});
    for (size_t r = 0; r < n; r++) write_attended(f, a, i + r, out + r * stride, part[r]);
  }
}

/* --- tiles of sums in registers -------------------------------------------------------------- */

#define TILE_COLUMNS (2 * LANES) /* two vectors, for up to TILE_ROWS rows */

typedef void tile_function(const char *x, size_t row, const char *weights, size_t steps,
                           float *sums, bool fresh);

/* One function for each number of rows, not inlined, so that none moves out from between the
 * instructions that begin and end flushing. */
#define TILE(name, r)                                                                              \
  static __attribute__((noinline)) void name##_##r(const char *x, size_t row, const char *weights, \
                                                   size_t steps, float *sums, bool fresh) {        \
    name(x, row, weights, steps, sums, fresh, r);                                                  \
  }
#define TILES_6(name)                                                                              \
  TILE(name, 1) TILE(name, 2) TILE(name, 3) TILE(name, 4) TILE(name, 5) TILE(name, 6)
#define TILES_12(name)                                                                             \
  TILES_6(name)                                                                                    \
  TILE(name, 7) TILE(name, 8) TILE(name, 9) TILE(name, 10) TILE(name, 11) TILE(name, 12)
#define LIST_6(name)  NULL, name##_1, name##_2, name##_3, name##_4, name##_5, name##_6
#define LIST_12(name) LIST_6(name), name##_7, name##_8, name##_9, name##_10, name##_11, name##_12

/* Adds the two chains of a block to a vector of sums. */
INLINE void add_chains(float *sums, bool fresh, vec even, vec odd) {
  store(sums, add(fresh ? none() : load(sums), add(even, odd)));
}

/* A tile's rows stay in the first-level cache while the weights of all panels pass. */
INLINE void sum_tiles(tile_function *const *tiles, size_t most, const char *x, size_t row,
                      size_t rows, const char *weights, size_t panel, size_t panels, size_t steps,
                      float *sums, bool fresh) {
  for (size_t i = 0; i < rows; i += most) {
    tile_function *tile = tiles[rows - i < most ? rows - i : most];
    for (size_t c = 0; c < panels * KF_NET_PANEL; c += TILE_COLUMNS)
      tile(x + i * row, row,
           weights + c / KF_NET_PANEL * panel + c % KF_NET_PANEL * sizeof(uint32_t), steps,
           sums + i * BLOCK_N + c, fresh);
  }
}

/* Between these two, denormals are read as zero and flushed to zero. */
INLINE unsigned begin_flushing(void) {
  unsigned before = _mm_getcsr(), after = before | 0x8040u;
  __asm__ volatile("ldmxcsr %0" : : "m"(after) : "memory");
  return before;
}
INLINE void end_flushing(unsigned before) {
  __asm__ volatile("ldmxcsr %0" : : "m"(before) : "memory");
}

INLINE float value_at(const char *x) {
  float y;
  memcpy(&y, x, sizeof y);
  return y;
}

/* The product of a format whose sums are made in blocks. */
#define NET_MULTIPLY(name)                                                                         \
  static void name##_multiply(const kf_net_product *p) { multiply(&name, p); }

/* The table of a format and its functions, whose names all begin with `name`. There must be a
 * name_multiply. */
#define NET(name, type, on, off)                                                                   \
  static size_t name##_rows_size(size_t m, size_t k) { return rows_bytes(&name, m, k); }           \
  static size_t name##_weights_size(size_t n, size_t k) { return packed_bytes(&name, n, k); }      \
  static void name##_prepare(const float *x, size_t stride, size_t first, size_t m, size_t k,      \
                             void *to) {                                                           \
    prepare_rows(&name, x, stride, first, m, k, to);                                               \
  }                                                                                                \
  static void name##_pack(const float *w, size_t n, size_t k, size_t first, size_t count,          \
                          void *to) {                                                              \
    (void)n;                                                                                       \
    pack_rows(&name, w, k, count, k, (char *)to + first / KF_NET_PANEL * panel_bytes(&name, k));   \
  }                                                                                                \
  static size_t name##_attention_size(size_t keys, size_t dim) {                                   \
    return attention_bytes(&name, keys, dim);                                                      \
  }                                                                                                \
  static void name##_attention(const kf_net_attention *a) { attend(&name, name##_multiply, a); }   \
  const kf_net_kernel kf_net_##name = {.layer_norm = wide_layer_norm,                              \
                                       .precision = type,                                          \
                                       .rows_size = name##_rows_size,                              \
                                       .prepare = name##_prepare,                                  \
                                       .weights_size = name##_weights_size,                        \
                                       .pack = name##_pack,                                        \
                                       .multiply = name##_multiply,                                \
                                       .attention_size = name##_attention_size,                    \
                                       .attention = name##_attention,                              \
                                       .begin = on,                                                \
                                       .end = off}

#endif
