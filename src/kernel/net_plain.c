/* net_plain.c - the arithmetic of towers in plain C. It defines every bit; the other instruction
 * sets must give the same (tests/test_net.c).
 *
 * Rows and weights stay rows of f32, padded to a multiple of KF_NET_STEP columns. In bf16 they hold
 * values rounded to bf16. */
#include "kernel/fused.h"
#include "kernel/kernel.h"
#include "kernel/net_math.h"

#include <float.h>
#include <math.h>
#include <string.h>

static size_t padded(size_t k) { return (k + KF_NET_STEP - 1) / KF_NET_STEP * KF_NET_STEP; }

static size_t rows_size(size_t m, size_t k) { return m * padded(k) * sizeof(float); }

/* --- bf16 ------------------------------------------------------------------------------------ */

/* Rounds to nearest even, denormals to zero, as VCVTNEPS2BF16 does; a NaN becomes quiet. */
static float to_bf16(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  if (fabsf(x) < FLT_MIN)
    bits &= 0x80000000u;
  else if (isnan(x))
    bits = (bits | 0x00400000u) & 0xffff0000u;
  else
    bits = (bits + 0x7fffu + (bits >> 16 & 1u)) & 0xffff0000u;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* A denormal becomes zero, keeping its sign. */
static float flush(float x) { return fabsf(x) < FLT_MIN ? copysignf(0, x) : x; }

/* a * b + c, rounded once and flushed. The hardware decides what is too small after rounding with
 * an unbounded exponent, while fmaf rounds to the coarser steps of denormals and may reach FLT_MIN
 * from below. Computing at a larger scale tells the two cases apart. */
static float flush_fma(float a, float b, float c) {
  float sum = kf_fmaf(a, b, c);
  if (fabsf(sum) == FLT_MIN && fabsf(kf_fmaf(a * 0x1p64f, b, c * 0x1p64f)) < FLT_MIN * 0x1p64f)
    return copysignf(0, sum);
  return flush(sum);
}

/* --- products -------------------------------------------------------------------------------- */

static float dot_f32(const float *x, const float *w, size_t k) {
  float sum = 0;
  for (size_t i = 0; i < k; i++) sum = kf_fmaf(x[i], w[i], sum);
  return sum;
}

static float dot_bf16(const float *x, const float *w, size_t k) {
  float sum = 0;
  for (size_t block = 0; block < k; block += 32) {
    float even = 0, odd = 0;
    for (size_t i = block; i < block + 32; i += 2) {
      even = flush_fma(x[i], w[i], even);
      odd = flush_fma(x[i + 1], w[i + 1], odd);
    }
    sum = flush(sum + flush(even + odd));
  }
  return sum;
}

/* What differs between the two precisions. */
typedef struct rules {
  float (*round)(float x);
  float (*dot)(const float *x, const float *w, size_t k); /* k padded */
} rules;

static float keep(float x) { return x; }
static const rules f32_rules = {keep, dot_f32}, bf16_rules = {to_bf16, dot_bf16};

static void fill_row(const rules *r, const float *x, size_t step, size_t k, float *to) {
  for (size_t i = 0; i < padded(k); i++) to[i] = i < k ? r->round(x[i * step]) : 0;
}

static void prepare(const rules *r, const float *x, size_t stride, size_t m, size_t k, float *to) {
  for (size_t i = 0; i < m; i++) fill_row(r, x + i * stride, 1, k, to + i * padded(k));
}

/* --- activations ----------------------------------------------------------------------------- */

static float smaller(float a, float b) { return a < b ? a : b; }
static float larger(float a, float b) { return a > b ? a : b; }

static float horner(const float *poly, int terms, float x) {
  float sum = poly[terms - 1];
  for (int i = terms - 2; i >= 0; i--) sum = kf_fmaf(sum, x, poly[i]);
  return sum;
}

static float exponential(float x) {
  if (isnan(x)) return x;
  x = larger(-KF_EXP_MOST, smaller(KF_EXP_MOST, x));
  float shifted = kf_fmaf(x, KF_LOG2_E, KF_ROUND), n = shifted - KF_ROUND;
  float r = kf_fmaf(n, -KF_LN2_LOW, kf_fmaf(n, -KF_LN2_HIGH, x));
  float y = kf_fmaf(r * r, horner(kf_exp_poly, KF_EXP_TERMS, r), r) + 1.0f;
  uint32_t bits, exponent; /* the low bits of `shifted` are n: they go to the exponent */
  memcpy(&bits, &y, sizeof bits);
  memcpy(&exponent, &shifted, sizeof exponent);
  bits += exponent << 23;
  memcpy(&y, &bits, sizeof y);
  return y;
}

static float error_function(float x) {
  float a = smaller(KF_ERF_MOST, fabsf(x));
  if (a < 1.0f) return kf_fmaf(x, horner(kf_erf_poly, KF_ERF_TERMS, a * a), x);
  return copysignf(1.0f - exponential(horner(kf_erfc_poly, KF_ERFC_TERMS, a)), x);
}

static float activate(kf_activation activation, float x) {
  switch (activation) {
  case KF_ACT_QUICK_GELU: return x / (1.0f + exponential(x * -KF_QUICK_GELU));
  case KF_ACT_GELU: return x * 0.5f * (1.0f + error_function(x * KF_SQRT_HALF));
  case KF_ACT_GELU_TANH:
    return x / (1.0f + exponential(-x * kf_fmaf(x * x, KF_GELU_TANH_B, KF_GELU_TANH_A)));
  case KF_ACT_NONE: break;
  }
  return x;
}

static void multiply(const rules *r, const kf_net_product *p) {
  size_t depth = padded(p->k);
  for (size_t i = 0; i < p->m; i++) {
    const float *x = (const float *)p->x + i * depth;
    float *prepared = p->out == NULL ? (float *)p->prepared + i * padded(p->n) : NULL;
    for (size_t j = p->first; j < p->end; j++) {
      float y = r->dot(x, (const float *)p->weights + j * depth, depth);
      y = activate(p->activation, p->bias != NULL ? y + p->bias[j] : y);
      if (prepared != NULL)
        prepared[j] = r->round(y);
      else
        *kf_net_out(p, i, j) = p->add ? *kf_net_out(p, i, j) + y : y;
    }
    if (prepared != NULL && p->end == p->n)
      for (size_t j = p->n; j < padded(p->n); j++) prepared[j] = 0;
  }
}

/* --- layer norm ------------------------------------------------------------------------------ */

static void layer_norm(const float *x, size_t stride, size_t m, size_t d, const float *gamma,
                       const float *beta, float eps, float *out, size_t out_stride) {
  for (size_t r = 0; r < m; r++, x += stride, out += out_stride) {
    double lane[8] = {0}, square[8] = {0};
    for (size_t i = 0; i < d; i++) lane[i % 8] += (double)x[i];
    double mean = kf_add_lanes(lane) / (double)d;
    for (size_t i = 0; i < d; i++) {
      double off = (double)x[i] - mean;
      square[i % 8] += off * off;
    }
    double factor = 1.0 / sqrt(kf_add_lanes(square) / (double)d + (double)eps);
    for (size_t i = 0; i < d; i++)
      out[i] = kf_fmaf((float)(((double)x[i] - mean) * factor), gamma[i], beta[i]);
  }
}

/* --- attention ------------------------------------------------------------------------------- */

/* Workspace: two rows of `dim` columns and two of `keys`. */
static size_t attention_size(size_t keys, size_t dim) {
  return rows_size(2, keys) + rows_size(2, dim);
}

/* Turns scores into weights exp(score - largest), rounded like factors of products; 0 from `seen`
 * on. Returns their sum: 16 strided lanes, halved until one is left. */
static float soften(const rules *r, float *weight, size_t seen, size_t keys) {
  float most = -INFINITY, lane[16] = {0};
  for (size_t j = 0; j < seen; j++) most = larger(most, weight[j]);
  for (size_t j = 0; j < padded(keys); j++) {
    weight[j] = j < seen ? r->round(exponential(weight[j] - most)) : 0;
    lane[j % 16] += weight[j];
  }
  for (size_t half = 8; half > 0; half /= 2)
    for (size_t i = 0; i < half; i++) lane[i] += lane[i + half];
  return lane[0];
}

static void attention(const rules *r, const kf_net_attention *a) {
  float *query = a->workspace, *key = query + padded(a->dim);
  float *weight = key + padded(a->dim), *column = weight + padded(a->keys);
  for (size_t i = 0; i < a->queries; i++) {
    fill_row(r, a->q + i * a->q_stride, 1, a->dim, query);
    for (size_t j = 0; j < a->keys; j++) {
      fill_row(r, a->k + j * a->kv_stride, 1, a->dim, key);
      weight[j] = r->dot(query, key, padded(a->dim)) * a->scale;
    }
    float part = 1.0f / soften(r, weight, a->causal ? i + 1 : a->keys, a->keys);
    for (size_t c = 0; c < a->dim; c++) {
      fill_row(r, a->v + c, a->kv_stride, a->keys, column);
      float y = r->dot(weight, column, padded(a->keys)) * part;
      if (a->out != NULL)
        a->out[i * a->out_stride + c] = y;
      else
        ((float *)a->prepared)[(a->row + i) * a->depth + a->column + c] = r->round(y);
    }
  }
}

/* The functions of a precision, and their table. */
#define NET(name, type)                                                                            \
  static void prepare_##name(const float *x, size_t stride, size_t first, size_t m, size_t k,      \
                             void *to) {                                                           \
    prepare(&name##_rules, x, stride, m, k, (float *)to + first * padded(k));                      \
  }                                                                                                \
  static void pack_##name(const float *w, size_t n, size_t k, size_t first, size_t count,          \
                          void *to) {                                                              \
    (void)n;                                                                                       \
    prepare(&name##_rules, w, k, count, k, (float *)to + first * padded(k));                       \
  }                                                                                                \
  static void multiply_##name(const kf_net_product *p) { multiply(&name##_rules, p); }             \
  static void attention_##name(const kf_net_attention *a) { attention(&name##_rules, a); }         \
  const kf_net_kernel kf_net_plain_##name = {.layer_norm = layer_norm,                             \
                                             .precision = type,                                    \
                                             .rows_size = rows_size,                               \
                                             .prepare = prepare_##name,                            \
                                             .weights_size = rows_size,                            \
                                             .pack = pack_##name,                                  \
                                             .multiply = multiply_##name,                          \
                                             .attention_size = attention_size,                     \
                                             .attention = attention_##name}
NET(f32, KF_F32);
NET(bf16, KF_BF16);
