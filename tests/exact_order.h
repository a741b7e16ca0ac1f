/* exact_order.h - which of two rows is nearer to a query, by integers: nothing is rounded.
 *
 * A f32 is an integer of 24 bits times a power of two, 2^-149 at least. Products and sums of those
 * are integers in units of 2^-298; cosines are compared by cross-multiplying their squares. */
#ifndef KF_TEST_EXACT_ORDER_H
#define KF_TEST_EXACT_ORDER_H

#include "test.h"

#include <string.h>

enum { WORDS = 20 }; /* of 32 bits: 298 below the point, 256 above it, and 18 for sums */

typedef struct whole {
  uint32_t word[WORDS];
} whole;

/* Adds value * 2^shift, value < 2^50. */
static inline void whole_add(whole *to, uint64_t value, unsigned shift) {
  uint64_t low = (value & UINT32_MAX) << shift % 32, high = (value >> 32) << shift % 32;
  uint64_t part[3] = {low & UINT32_MAX, (low >> 32) + (high & UINT32_MAX), high >> 32}, over = 0;
  for (unsigned i = shift / 32, j = 0; i < WORDS && (j < 3 || over > 0); i++, j++) {
    over += to->word[i] + (j < 3 ? part[j] : 0);
    to->word[i] = (uint32_t)over;
    over >>= 32;
  }
}

static inline int words_compare(const uint32_t *x, const uint32_t *y, int n) {
  for (int i = n - 1; i >= 0; i--)
    if (x[i] != y[i]) return x[i] > y[i] ? 1 : -1;
  return 0;
}

/* The bits of a float without their sign, as an integer times 2^(*shift - 149). */
static inline uint32_t float_parts(float x, unsigned *shift, bool *negative) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  uint32_t exponent = bits >> 23 & 255, fraction = bits & 0x7fffff;
  *negative = bits >> 31;
  *shift = exponent > 0 ? exponent - 1 : 0;
  return exponent > 0 ? fraction | 0x800000 : fraction;
}

/* A sum of products, with positive and negative ones kept apart. */
typedef struct two_sums {
  whole plus, minus;
} two_sums;

static inline void sums_add(two_sums *s, float x, float y, int times) {
  unsigned a, b;
  bool an, bn;
  uint64_t m = (uint64_t)float_parts(x, &a, &an) * float_parts(y, &b, &bn);
  bool negative = (an != bn) != (times < 0);
  whole_add(negative ? &s->minus : &s->plus, m * (uint64_t)abs(times), a + b);
}

typedef struct exact_number {
  int sign;
  whole size;
} exact_number;

static inline exact_number sums_total(const two_sums *s) {
  exact_number n = {.sign = words_compare(s->plus.word, s->minus.word, WORDS)};
  const whole *more = n.sign >= 0 ? &s->plus : &s->minus,
              *less = n.sign >= 0 ? &s->minus : &s->plus;
  int64_t over = 0;
  for (int i = 0; i < WORDS; i++) {
    over += (int64_t)more->word[i] - (int64_t)less->word[i];
    n.size.word[i] = (uint32_t)(over & UINT32_MAX);
    over = over < 0 ? -1 : 0;
  }
  return n;
}

/* What is known about a row and a query: q . x and |x|^2, or |q - x|^2. */
typedef struct exact_score {
  exact_number main, norm2;
} exact_score;

static inline exact_score exact_score_of(kf_metric metric, const float *q, const float *x,
                                         uint32_t dim) {
  two_sums main = {0}, norm2 = {0};
  for (uint32_t i = 0; i < dim; i++) {
    sums_add(&norm2, x[i], x[i], 1);
    sums_add(&main, q[i], x[i], metric == KF_METRIC_EUCLIDEAN ? -2 : 1);
    if (metric != KF_METRIC_EUCLIDEAN) continue;
    sums_add(&main, x[i], x[i], 1);
    sums_add(&main, q[i], q[i], 1);
  }
  return (exact_score){sums_total(&main), sums_total(&norm2)};
}

/* out[n + WORDS] = x[n] * y */
static inline void words_multiply(const uint32_t *x, int n, const whole *y, uint32_t *out) {
  memset(out, 0, (size_t)(n + WORDS) * sizeof *out);
  for (int i = 0; i < n; i++) {
    if (x[i] == 0) continue; /* most words are */
    uint64_t over = 0;
    for (int j = 0; j < WORDS; j++) {
      over += (uint64_t)x[i] * y->word[j] + out[i + j];
      out[i + j] = (uint32_t)over;
      over >>= 32;
    }
    out[i + WORDS] = (uint32_t)over;
  }
}

/* 1 if x is nearer, -1 if y is, 0 if both are equally near. */
static inline int exact_order(kf_metric metric, const exact_score *x, const exact_score *y) {
  int sign = x->main.sign;
  if (sign != y->main.sign) {
    int order = sign > y->main.sign ? 1 : -1;
    return metric == KF_METRIC_EUCLIDEAN ? -order : order;
  }
  if (metric != KF_METRIC_COSINE) {
    int order = sign * words_compare(x->main.size.word, y->main.size.word, WORDS);
    return metric == KF_METRIC_EUCLIDEAN ? -order : order;
  }
  uint32_t square[2 * WORDS], left[3 * WORDS], right[3 * WORDS];
  words_multiply(x->main.size.word, WORDS, &x->main.size, square);
  words_multiply(square, 2 * WORDS, &y->norm2.size, left);
  words_multiply(y->main.size.word, WORDS, &y->main.size, square);
  words_multiply(square, 2 * WORDS, &x->norm2.size, right);
  return sign * words_compare(left, right, 3 * WORDS);
}

#endif
