/* compare.c - intervals of accuracies, and two classifiers on the same rows.
 *
 * McNemar's test looks at the rows that only one of the two has right. If both were equally good,
 * each such row would be the toss of a fair coin; the p-value is the probability that n = b + c
 * tosses fall at least as unevenly as min(b, c) to max(b, c):
 *
 *     p = min(1, 2 P(X <= min(b, c))),   X ~ Binomial(n, 1/2).
 *
 * The terms C(n, k) are computed relative to the middle one, C(n, n/2), which is taken as 1. Each
 * is its neighbour times a ratio below 1, so no logarithms are needed, and negligible terms
 * underflow to 0. The sum of the tail is divided by the sum over all k.
 *
 * The upper bound of a paired loss is that of Tango's score interval (1998). With b rows lost and c
 * won of n, the loss is (b - c) / n. If the true loss were d, the most likely share q of rows won
 * would be the positive root of 2n q^2 + (d (2n - b + c) - b - c) q - c d (1 - d) = 0, and
 *
 *     (b - c - n d) / sqrt(n (2 q + d (1 - d)))
 *
 * would be about normal. It falls as d rises; the bound is the d at which it reaches -z. If the two
 * classifiers never differ, the bound is z^2 / (n + z^2), about 2.7 / n: agreement on a few rows
 * proves little, but an interval from the standard error alone would have no width. */
#include "score/evaluation.h"

#include <math.h>

#define EXACT_UP_TO (UINT64_C(1) << 30)
#define NORMAL_97_5 1.959963984540054 /* points of the normal distribution */
#define NORMAL_95   1.644853626951473

void kf_interval95(uint64_t hits, uint64_t n, double *low, double *high) {
  const double z = NORMAL_97_5;
  if (n == 0) {
    *low = 0;
    *high = 1;
    return;
  }
  double p = (double)hits / (double)n, m = (double)n;
  double centre = (p + z * z / (2 * m)) / (1 + z * z / m);
  double half = z * sqrt(p * (1 - p) / m + z * z / (4 * m * m)) / (1 + z * z / m);
  *low = hits == 0 ? 0 : centre - half;
  *high = hits == n ? 1 : centre + half;
}

/* The sum of C(n, k) for k <= m <= n / 2, in units of C(n, n/2). */
static double tail_sum(uint64_t n, uint64_t m) {
  double term = 1, sum = 0;
  for (uint64_t k = n / 2;; k--) {
    if (k <= m) sum += term;
    if (k == 0 || term <= sum * 1e-18 || term <= 0) return sum;
    term *= (double)k / (double)(n - k + 1);
  }
}

double kf_mcnemar(uint64_t b, uint64_t c) {
  uint64_t small = b < c ? b : c, large = b < c ? c : b, n;
  if (b == c) return 1;
  if (!kf_add_u64(b, c, &n) || n > EXACT_UP_TO) {
    double z = ((double)(large - small) - 1) / sqrt((double)small + (double)large);
    return erfc(z / sqrt(2));
  }
  /* By symmetry, all terms are the lower half twice; an even n has its middle term once. */
  double all = 2 * tail_sum(n, n / 2) - (n % 2 == 0 ? 1 : 0);
  double p = 2 * tail_sum(n, small) / all;
  return p < 1 ? p : 1;
}

/* The interval of the difference of two accuracies on the same rows. */
static void paired_interval(kf_comparison *r) {
  const double z = NORMAL_97_5;
  double b = (double)r->only_a + 0.5, c = (double)r->only_b + 0.5, n = (double)r->n + 2;
  double d = (b - c) / n, half = z * sqrt((b + c - (b - c) * (b - c) / n)) / n;
  r->low = d - half > -1 ? d - half : -1;
  r->high = d + half < 1 ? d + half : 1;
}

/* Tango's statistic at a loss of d, 0 < d < 1. */
static double score_of_loss(double b, double c, double n, double d) {
  double linear = d * (2 * n - b + c) - b - c, constant = -c * d * (1 - d);
  double q = (sqrt(fmax(linear * linear - 8 * n * constant, 0)) - linear) / (4 * n);
  return (b - c - n * d) / sqrt(n * (2 * q + d * (1 - d)));
}

double kf_loss_upper95(uint64_t lost, uint64_t won, uint64_t n) {
  if (n == 0 || lost > n || won > n - lost) return 1;
  double b = (double)lost, c = (double)won, m = (double)n, low = 0, high = 1;
  /* Losses and gains are symmetric under d -> -d, b <-> c; a bound below 0 is that of a gain. */
  bool gain = b < c && score_of_loss(b, c, m, 0x1p-60) < -NORMAL_95;
  for (int i = 0; i < 60; i++) {
    double d = (low + high) / 2;
    double score = gain ? -score_of_loss(c, b, m, d) : score_of_loss(b, c, m, d);
    if ((score > -NORMAL_95) != gain)
      low = d;
    else
      high = d;
  }
  return gain ? -low : high;
}

kf_status kf_compare(kf_ctx *ctx, const kf_verdicts *a, const kf_verdicts *b, kf_comparison *out) {
  KF_ENTER(ctx, a != NULL && b != NULL && out != NULL);
  if (a->rows != b->rows)
    return kf_fail(err, KF_ERR_ARG, "verdicts on %llu rows cannot be compared with those on %llu",
                   (unsigned long long)a->rows, (unsigned long long)b->rows);
  KF_TRY(kf_origin_agree(&b->origin, &a->origin, err));
  kf_comparison r = {.rows = a->rows};
  for (uint64_t i = 0; i < a->rows; i++) {
    if (a->of[i] == KF_VERDICT_NONE || b->of[i] == KF_VERDICT_NONE) continue;
    bool by_a = a->of[i] == KF_VERDICT_RIGHT, by_b = b->of[i] == KF_VERDICT_RIGHT;
    r.n++;
    r.both += by_a && by_b;
    r.neither += !by_a && !by_b;
    r.only_a += by_a && !by_b;
    r.only_b += !by_a && by_b;
  }
  if (r.n == 0)
    return kf_fail(err, KF_ERR_DATA, "none of the %llu rows is judged in both",
                   (unsigned long long)r.rows);
  r.difference = ((double)r.only_a - (double)r.only_b) / (double)r.n;
  paired_interval(&r);
  r.p = kf_mcnemar(r.only_a, r.only_b);
  *out = r;
  return KF_OK;
}
