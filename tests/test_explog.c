/* test_explog.c - exp and ln of our own: within a stated bound of long double libm on many points,
 * right at the edges, and the same bits everywhere. */
#include "test.h"

#include "base/base.h"

#include <float.h>
#include <math.h>

/* The distance of `got` from `want` in ulps of `want` as a double. */
static double ulps(double got, long double want) {
  const double near = (double)want;
  const double ulp = nextafter(fabs(near), HUGE_VAL) - fabs(near);
  return (double)(fabsl((long double)got - want) / (long double)ulp);
}

static uint64_t bits_of(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

/* Both functions promise 1 ulp; this is what they keep. */
#define EXP_BOUND 0.95
#define LN_BOUND  0.9

TEST(exp_is_near) {
  double worst = 0;
  uint64_t random = 1;
  for (int scale = 0; scale < 12; scale++) /* up to 709, 354, … 0.35 */
    for (int i = 0; i < 100000; i++) {
      const double x = ldexp(test_uniform(&random) * 709, -scale);
      if (x < -708) continue;
      worst = fmax(worst, ulps(kf_exp(x), expl((long double)x)));
    }
  /* Halfway between multiples of ln 2, where |r| is largest. */
  for (int n = -1020; n < 1020; n++)
    for (int i = -8; i <= 8; i++) {
      const double x = (n + 0.5) * 0.6931471805599453 * (1 + i * 0x1p-40);
      worst = fmax(worst, ulps(kf_exp(x), expl((long double)x)));
    }
  for (int e = -60; e < -1; e++) {
    worst = fmax(worst, ulps(kf_exp(ldexp(1, e)), expl(ldexpl(1, e))));
    worst = fmax(worst, ulps(kf_exp(-ldexp(1, e)), expl(-ldexpl(1, e))));
  }
  print_message("exp: at most %.3f ulp\n", worst);
  assert_true(worst < EXP_BOUND);
}

/* Votes and probabilities of better scores are not smaller. */
TEST(exp_never_falls) {
  double before = 1;
  for (int i = 0; i < 1000000; i++) {
    const double x = -1e-5 * i, got = kf_exp(x);
    if (got > before) fail_msg("exp rises below %.17g", x);
    before = got;
  }
}

TEST(exp_at_the_edges) {
  assert_true(kf_exp(0) == 1 && kf_exp(-0.0) == 1);
  assert_true(kf_exp(HUGE_VAL) == HUGE_VAL && kf_exp(-HUGE_VAL) == 0);
  assert_true(isnan(kf_exp((double)NAN)));
  assert_true(kf_exp(DBL_MAX) == HUGE_VAL && kf_exp(-DBL_MAX) == 0);
  assert_true(kf_exp(DBL_MIN) == 1 && kf_exp(-5e-324) == 1);
  /* ln of the largest double is 709.7827…; the next argument overflows. */
  assert_true(kf_exp(0x1.62e42fefa39efp+9) < HUGE_VAL);
  assert_true(ulps(kf_exp(0x1.62e42fefa39efp+9), expl(0x1.62e42fefa39efp+9L)) < EXP_BOUND);
  assert_true(kf_exp(0x1.62e42fefa39fp+9) == HUGE_VAL);
  /* Denormals: rounded twice, hence within one of their ulps. */
  for (int i = 0; i < 38 * 128; i++) {
    double x = -746 + i * 0x1p-7;
    assert_true(fabsl(kf_exp(x) - expl((long double)x)) <=
                0x1p-1074L + expl((long double)x) * 0x1p-52L);
  }
  assert_true(kf_exp(-745.1) == 0x1p-1074 && kf_exp(-745.2) == 0);
}

TEST(ln_is_near) {
  double worst = 0;
  uint64_t random = 2;
  for (int i = 0; i < 1000000; i++) { /* any exponent, denormals among them */
    uint64_t bits = test_random(&random) >> 1;
    double x;
    memcpy(&x, &bits, sizeof x);
    if (isfinite(x) && x > 0) worst = fmax(worst, ulps(kf_ln(x), logl((long double)x)));
  }
  for (int scale = 0; scale < 52; scale++) /* around 1, closer and closer */
    for (int i = 0; i < 10000; i++) {
      const double x = 1 + ldexp(test_uniform(&random), -scale);
      if (x > 0 && x != 1) worst = fmax(worst, ulps(kf_ln(x), logl((long double)x)));
    }
  for (int i = 0; i < 100000; i++) { /* around the seams at 2^k sqrt 2 */
    const double x = ldexp(1.4142135623730951 * (1 + test_uniform(&random) * 0x1p-20), i % 40 - 20);
    worst = fmax(worst, ulps(kf_ln(x), logl((long double)x)));
  }
  print_message("ln: at most %.3f ulp\n", worst);
  assert_true(worst < LN_BOUND);
}

TEST(ln_at_the_edges) {
  assert_true(kf_ln(1) == 0 && !signbit(kf_ln(1)));
  assert_true(kf_ln(0) == -HUGE_VAL && kf_ln(-0.0) == -HUGE_VAL);
  assert_true(kf_ln(HUGE_VAL) == HUGE_VAL);
  assert_true(isnan(kf_ln(-1)) && isnan(kf_ln(-HUGE_VAL)) && isnan(kf_ln((double)NAN)));
  assert_true(ulps(kf_ln(5e-324), logl(0x1p-1074L)) < LN_BOUND);
  assert_true(ulps(kf_ln(DBL_MAX), logl((long double)DBL_MAX)) < LN_BOUND);
}

/* Bits that every machine must produce. Chained, so that one wrong bit anywhere shows. */
TEST(same_bits_everywhere) {
  assert_true(bits_of(kf_exp(1)) == UINT64_C(0x4005bf0a8b14576a));
  assert_true(bits_of(kf_exp(-0.1)) == UINT64_C(0x3fecf46d99d52b3a));
  assert_true(bits_of(kf_exp(-700.25)) == UINT64_C(0x00caf5fe9a485c8e));
  assert_true(bits_of(kf_ln(2)) == UINT64_C(0x3fe62e42fefa39ef));
  assert_true(bits_of(kf_ln(0.1)) == UINT64_C(0xc0026bb1bbb55515));
  assert_true(bits_of(kf_ln(12345.678)) == UINT64_C(0x4022d79559791e31));
  kf_checksum sum;
  kf_checksum_start(&sum);
  uint64_t random = 3;
  for (int i = 0; i < 100000; i++) {
    const double x = 30 * test_uniform(&random), y[2] = {kf_exp(x), kf_ln(fabs(x))};
    const uint64_t bits[2] = {bits_of(y[0]), bits_of(y[1])};
    kf_checksum_add(&sum, bits, sizeof bits);
  }
  assert_true(kf_checksum_value(&sum) == UINT64_C(0x57f99d951878e49e));
}

TEST(sums) {
  double x[7] = {1, 3, -2, 0.5, 3, -1000, 2}, want = 0;
  for (int i = 0; i < 7; i++) want += exp(2 * (x[i] - 3));
  assert_true(fabs(kf_sum_exp(x, 7, 3, 2) - want) < 1e-14);
  assert_true(kf_largest(x, 7) == 3);
  assert_true(kf_largest(x, 0) == -HUGE_VAL);
  const double far[2] = {1e6, -1e6};
  assert_true(kf_sum_exp(far, 2, 1e6, 100) == 1);
  /* The order is part of the definition. */
  const double p = kf_exp(2 * (x[0] - 3)), q = kf_exp(2 * (x[2] - 3)), r = kf_exp(2 * (x[3] - 3)),
               u = kf_exp(2 * (x[6] - 3));
  assert_true(kf_sum_exp(x, 7, 3, 2) == ((p + 1) + (1 + 0.0)) + ((q + u) + r));
}
