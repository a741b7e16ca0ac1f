/* explog.c - exp and ln with the same bits on every machine. libm's differ between machines and
 * versions, which results that decide or are stored must not. Both use only +, -, * and / of IEEE
 * doubles, rounded to nearest, and integer operations on their bits. The build forbids contraction
 * (-ffp-contract=off).
 *
 *     exp(x) = 2^n exp(r), n = x / ln 2 to the nearest integer, r = x - n ln 2, |r| <= ln 2 / 2
 *     exp(r) = 1 + r + r^2 (1/2! + r/3! + ... + r^11/13!)              within 2^-57 of it
 *     ln(x)  = k ln 2 + ln(m), m = x / 2^k in [1/sqrt 2, sqrt 2)
 *     ln(m)  = 2 s + s R, f = m - 1, s = f / (2 + f), R = 2 s^2/3 + 2 s^4/5 + ... + 2 s^24/25
 *            = f - (h - s (h + R)), h = f^2/2                          since 2 s = f - h + s h
 *
 * ln 2 is split into 29 bits, whose product with n or k is exact, and the rest. The last form of
 * ln(m) starts from the exact f, so only small terms are rounded before the last sum. Errors stay
 * below 1 ulp; test_explog.c measures them. */
#include "base/base.h"

#include <math.h>
#include <string.h>

#define LN2_HIGH 0x1.62e42ffp-1
#define LN2_LOW  -0x1.718432a1b0e26p-35
#define LOG2_E   0x1.71547652b82fep+0
#define ROUND    0x1.8p+52 /* adding and subtracting it rounds to an integer */

static uint64_t bits_of(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static double of_bits(uint64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* 2^n for n in [-1022, 1023]. */
static double power2(int n) { return of_bits((uint64_t)(n + 1023) << 52); }

/* (exp(r) - 1 - r) / r^2: 1/2! + r/3! + …, in pairs, which is faster than Horner's rule. */
static double exp_rest(double r) {
  const double r2 = r * r, r4 = r2 * r2;
  double a =
      (0x1p-1 + r * 0x1.5555555555555p-3) + r2 * (0x1.5555555555555p-5 + r * 0x1.1111111111111p-7);
  double b = (0x1.6c16c16c16c17p-10 + r * 0x1.a01a01a01a01ap-13) +
             r2 * (0x1.a01a01a01a01ap-16 + r * 0x1.71de3a556c734p-19);
  double c = (0x1.27e4fb7789f5cp-22 + r * 0x1.ae64567f544e4p-26) +
             r2 * (0x1.1eed8eff8d898p-29 + r * 0x1.6124613a86d09p-33);
  return a + r4 * (b + r4 * c);
}

double kf_exp(double x) {
  if (!(x < 710)) return x >= 710 ? HUGE_VAL : x; /* NaN stays NaN */
  if (x < -746) return 0;
  const double rounded = (x * LOG2_E + ROUND) - ROUND;
  const int n = (int)rounded;
  const double high = x - rounded * LN2_HIGH, low = rounded * LN2_LOW, r = high - low;
  const double y = 1 + (high + (r * r * exp_rest(r) - low));
  if (n > 1023) return y * 0x1p1023 * power2(n - 1023);
  if (n < -1021) return y * power2(n + 200) * 0x1p-200; /* the last product rounds, if any */
  return y * power2(n);
}

/* R / s^2 of ln(m): 2/3 + 2z/5 + …, z = s^2, in pairs. */
static double ln_rest(double z) {
  const double z2 = z * z, z4 = z2 * z2;
  double a = (0x1.5555555555555p-1 + z * 0x1.999999999999ap-2) +
             z2 * (0x1.2492492492492p-2 + z * 0x1.c71c71c71c71cp-3);
  double b = (0x1.745d1745d1746p-3 + z * 0x1.3b13b13b13b14p-3) +
             z2 * (0x1.1111111111111p-3 + z * 0x1.e1e1e1e1e1e1ep-4);
  double c = (0x1.af286bca1af28p-4 + z * 0x1.8618618618618p-4) +
             z2 * (0x1.642c8590b2164p-4 + z * 0x1.47ae147ae147bp-4);
  return a + z4 * (b + z4 * c);
}

double kf_ln(double x) {
  if (!(x > 0)) return x == 0 ? -HUGE_VAL : (double)NAN; /* below 0, or NaN */
  if (x == HUGE_VAL) return x;
  int k = 0;
  if (x < 0x1p-1022) { /* a denormal */
    x *= 0x1p54;
    k = -54;
  }
  uint64_t bits = bits_of(x), fraction = bits & UINT64_C(0xfffffffffffff);
  k += (int)(bits >> 52) - 1023;
  const bool above = fraction > UINT64_C(0x6a09e667f3bcc); /* sqrt 2 */
  k += above;
  const double m = of_bits(fraction | (uint64_t)(above ? 1022 : 1023) << 52);
  const double f = m - 1, s = f / (2 + f), z = s * s, h = 0.5 * f * f;
  const double rest = h - (s * (h + z * ln_rest(z)) + k * LN2_LOW);
  return k * LN2_HIGH + (f - rest);
}

double kf_sum_exp(const double *x, size_t n, double most, double scale) {
  double lane[4] = {0};
  for (size_t i = 0; i < n; i++) lane[i % 4] += kf_exp(scale * (x[i] - most));
  return (lane[0] + lane[1]) + (lane[2] + lane[3]);
}

double kf_largest(const double *x, size_t n) {
  double most = -HUGE_VAL;
  for (size_t i = 0; i < n; i++) most = x[i] > most ? x[i] : most;
  return most;
}
