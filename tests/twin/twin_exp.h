/* twin_exp.h - kf_exp of src/base/explog.c for x <= 0, written a second time: the twin and
 * cuda/check/ compare devices with it. */
#ifndef TWIN_EXP_H
#define TWIN_EXP_H

#include <stdint.h>
#include <string.h>

static inline double kf_twin_power2(int n) {
  uint64_t bits = (uint64_t)(n + 1023) << 52;
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* Of x <= 0. */
static inline double kf_twin_exp(double x) {
  if (x < -746) return 0;
  double rounded = (x * 0x1.71547652b82fep+0 + 0x1.8p+52) - 0x1.8p+52;
  double high = x - rounded * 0x1.62e42ffp-1, low = rounded * -0x1.718432a1b0e26p-35;
  double r = high - low, r2 = r * r, r4 = r2 * r2;
  double a =
      (0x1p-1 + r * 0x1.5555555555555p-3) + r2 * (0x1.5555555555555p-5 + r * 0x1.1111111111111p-7);
  double b = (0x1.6c16c16c16c17p-10 + r * 0x1.a01a01a01a01ap-13) +
             r2 * (0x1.a01a01a01a01ap-16 + r * 0x1.71de3a556c734p-19);
  double c = (0x1.27e4fb7789f5cp-22 + r * 0x1.ae64567f544e4p-26) +
             r2 * (0x1.1eed8eff8d898p-29 + r * 0x1.6124613a86d09p-33);
  double y = 1 + (high + (r * r * (a + r4 * (b + r4 * c)) - low));
  int n = (int)rounded;
  return n < -1021 ? y * kf_twin_power2(n + 200) * 0x1p-200 : y * kf_twin_power2(n);
}

#endif
