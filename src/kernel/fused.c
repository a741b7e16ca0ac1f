/* fused.c - a * b + c, rounded once, on machines without an instruction for it (Boldo and
 * Melquiond, 'Emulation of a FMA and correctly rounded sums: proved algorithms using rounding to
 * odd', 2008).
 *
 * A product and a sum are each exactly two numbers, the rounded result and its error, so a * b + c
 * has three parts. The smaller two are added with rounding to odd, which keeps the last rounding
 * from mistaking a near tie for a tie. */
#include "kernel/fused.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef struct parts {
  double high, low; /* high is their sum, rounded */
} parts;

static parts sum_of(double x, double y) {
  double high = x + y, of_y = high - x, of_x = high - of_y;
  return (parts){high, (x - of_x) + (y - of_y)};
}

/* 26 bits and the rest. */
static parts halves_of(double x) {
  double scaled = 0x8000001p0 * x, high = scaled - (scaled - x);
  return (parts){high, x - high};
}

static parts product_of(double x, double y) {
  double high = x * y;
  parts a = halves_of(x), b = halves_of(y);
  return (parts){high,
                 ((a.high * b.high - high) + a.high * b.low + a.low * b.high) + a.low * b.low};
}

/* Rounds to odd: to the neighbour whose last bit is set, unless the sum is exact. The error of an
 * infinite sum is NaN. */
static double to_odd(parts sum) {
  uint64_t bits;
  memcpy(&bits, &sum.high, sizeof bits);
  if (sum.low == 0 || isnan(sum.low) || (bits & 1) != 0) return sum.high;
  bits = (sum.low > 0) == (sum.high > 0) ? bits + 1 : bits - 1;
  memcpy(&sum.high, &bits, sizeof bits);
  return sum.high;
}

/* Whether x is so far from overflow and underflow that no part of the computation meets them. */
static bool is_moderate(double x, double least) { return fabs(x) >= least && fabs(x) <= 0x1p900; }

double kf_fma_by_parts(double a, double b, double c) {
  if (a == 0 || b == 0) return a * b + c;
  if (!is_moderate(a, 0) || !is_moderate(b, 0) || !is_moderate(c, 0) ||
      !is_moderate(a * b, 0x1p-900))
    return fma(a, b, c);
  parts product = product_of(a, b), low = sum_of(c, product.low);
  parts high = sum_of(product.high, low.high);
  return high.high + to_odd(sum_of(low.low, high.low));
}

/* The product of two f32 is exact in f64, and nothing overflows there. */
float kf_fmaf_by_parts(float a, float b, float c) {
  return (float)to_odd(sum_of((double)a * (double)b, (double)c));
}
