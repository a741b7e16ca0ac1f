/* likelihood.c - the likelihood of the true classes under a softmax of scores, at many
 * temperatures.
 *
 * With E = sum_j exp(t (s_j - s_max)), -ln p = ln E - t (s_own - s_max), and its derivative by t is
 * sum_j exp(...) (s_j - s_max) / E - (s_own - s_max). Each temperature is twice the one before, so
 * one exponential and repeated squaring give all of them. Priors are weights of the exponentials,
 * in E and in p. -ln p is convex in t, and a cubic through two neighbouring temperatures and their
 * slopes gives the minimum. Sums over rows are integers, so their order does not matter. */
#include "choose/left_out_internal.h"

#include <math.h>
#include <string.h>

#define UNIT         0x1p40
#define LARGEST      0x1p95
#define LN2          0x1.62e42fefa39efp-1
#define TOP          5u
#define LANES        4u
#define N_SUMS       (sizeof(kf_likelihood_sums) / sizeof(kf_i128))
#define FIRST_COSINE 2.0
/* Distances are in units of the noise, so a temperature above 1, the last one, would be
 * overconfident. Without this limit separable rows would drive it up, and lambda to 0. */
#define FIRST_SQUARE 0x1p-8

/* Clamps to LARGEST, since distances at a lambda near 0 are unbounded; 2^31 such rows still fit. */
static kf_i128 fixed(double x) {
  double y = x * UNIT;
  if (!(y > -LARGEST)) return y <= -LARGEST ? -(kf_i128)LARGEST : (kf_i128)0;
  return (kf_i128)(y > LARGEST ? LARGEST : y < 0 ? y - 0.5 : y + 0.5);
}

kf_likelihood kf_likelihood_new(bool euclidean) {
  return (kf_likelihood){.first = euclidean ? FIRST_SQUARE : FIRST_COSINE};
}

/* Sums powers, and powers times gaps, in four lanes, and squares the powers. weights NULL: all
 * 1. */
static void add_powers(double *powers, const double *gaps, const double *weights, uint32_t n,
                       double *sum, double *moment) {
  double sums[LANES] = {0}, moments[LANES] = {0};
  for (uint32_t first = 0; first < n; first += LANES)
    for (uint32_t j = first; j < n && j < first + LANES; j++) {
      double power = weights != NULL ? powers[j] * weights[j] : powers[j];
      sums[j - first] += power;
      moments[j - first] += power * gaps[j];
      powers[j] *= powers[j];
    }
  *sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  *moment = (moments[0] + moments[1]) + (moments[2] + moments[3]);
}

uint32_t kf_likelihood_count(kf_likelihood *s, const double *scores, uint32_t n, uint32_t own) {
  uint32_t before = 0;
  for (uint32_t j = 0; j < own; j++) before += scores[j] >= scores[own];
  for (uint32_t j = own + 1; j < n; j++) before += scores[j] > scores[own];
  s->sums.n++;
  s->sums.top1 += before == 0;
  s->sums.top5 += before < TOP;
  return before;
}

void kf_likelihood_add(kf_likelihood *s, const double *scores, const double *weights, uint32_t n,
                       uint32_t own, double *workspace) {
  double most = -INFINITY, temperature = s->first, *powers = workspace, *gaps = workspace + n;
  for (uint32_t j = 0; j < n; j++) most = scores[j] > most ? scores[j] : most;
  kf_likelihood_count(s, scores, n, own);
  for (uint32_t j = 0; j < n; j++) {
    bool out = isnan(scores[j]);
    gaps[j] = out ? 0 : scores[j] - most;
    powers[j] = out ? 0 : kf_exp(temperature * gaps[j]);
  }
  for (uint32_t i = 0; i < KF_TEMPERATURES; i++) {
    double all, moment;
    add_powers(powers, gaps, weights, n, &all, &moment);
    double loss = kf_ln(all) - temperature * gaps[own];
    if (weights != NULL) loss -= kf_ln(weights[own]);
    s->sums.loss[i] += fixed(loss);
    double slope = moment / all - gaps[own];
    s->sums.slope[i] += fixed(slope);
    s->sums.slope_square[i] += fixed(slope * slope);
    s->sums.square[i] += fixed(loss * loss);
    temperature *= 2;
  }
}

/* The minimum between 0 and 1 of the cubic with these values and slopes at both. */
static double least_between(double f0, double d0, double f1, double d1, double *at) {
  double theta = d0 + d1 - 3 * (f1 - f0), root2 = theta * theta - d0 * d1;
  double w = root2 > 0 ? sqrt(root2) : 0, below = d1 - d0 + 2 * w;
  double u = below > 0 ? 1 - (d1 + w - theta) / below : 0.5;
  u = u < 0 ? 0 : u > 1 ? 1 : u;
  double a = d0 + d1 + 2 * (f0 - f1), b = 3 * (f1 - f0) - 2 * d0 - d1;
  *at = u;
  return f0 + u * (d0 + u * (b + u * a));
}

void kf_likelihood_join(kf_likelihood *s, const kf_likelihood *other) {
  kf_i128 *to = (kf_i128 *)&s->sums;
  const kf_i128 *from = (const kf_i128 *)&other->sums;
  for (size_t i = 0; i < N_SUMS; i++) to[i] += from[i];
}

/* At the best temperature, between temperatures i and i + 1, the mean slope is 0. Its variance is
 * that of the mean slope divided by the square of the derivative of the mean slope. */
static double error_of_temperature(const kf_likelihood *s, uint32_t i, double temperature) {
  double scale = 1 / (UNIT * (double)s->sums.n), low = ldexp(s->first, (int)i);
  double d0 = (double)s->sums.slope[i] * scale, d1 = (double)s->sums.slope[i + 1] * scale;
  double v0 = (double)s->sums.slope_square[i] * scale - d0 * d0;
  double v1 = (double)s->sums.slope_square[i + 1] * scale - d1 * d1;
  double variance = v0 + (v1 - v0) * (temperature / low - 1), rise = (d1 - d0) / low;
  if (!(rise > 0)) return INFINITY;
  return sqrt(fmax(variance, 0) / (double)s->sums.n) / (rise * temperature);
}

kf_status kf_likelihood_add_ranks(kf_ctx *ctx, kf_status status, kf_likelihood *s, size_t n) {
  if (!kf_is_shared(&ctx->ranks)) return status;
  kf_likelihood_sums *sums = kf_alloc(n, sizeof *sums);
  if (sums == NULL && status == KF_OK) status = kf_fail_memory(&ctx->err);
  for (size_t i = 0; sums != NULL && i < n; i++) sums[i] = s[i].sums;
  status = kf_sum_i128(ctx, status, (kf_i128 *)sums, n * N_SUMS);
  for (size_t i = 0; status == KF_OK && i < n; i++) s[i].sums = sums[i];
  kf_free(sums);
  return status;
}

void kf_likelihood_find(const kf_likelihood *s, kf_left_out_point *p) {
  if (s->sums.n == 0) return;
  double scale = 1 / (UNIT * (double)s->sums.n);
  uint32_t i = 0;
  while (i + 1 < KF_TEMPERATURES && s->sums.slope[i + 1] < 0) i++;
  double low = ldexp(s->first, (int)i), f0 = (double)s->sums.loss[i] * scale;
  p->temperature = low;
  p->loss = f0;
  p->temperature_error = INFINITY;
  if (i + 1 < KF_TEMPERATURES && s->sums.slope[i] < 0) {
    double f1 = (double)s->sums.loss[i + 1] * scale, u;
    double d0 = (double)s->sums.slope[i] * scale * low * LN2;
    double d1 = (double)s->sums.slope[i + 1] * scale * 2 * low * LN2;
    p->loss = least_between(f0, d0, f1, d1, &u);
    p->temperature = low * kf_exp(u * LN2);
    p->temperature_error = error_of_temperature(s, i, p->temperature);
  }
  double variance = (double)s->sums.square[i] * scale - f0 * f0;
  p->loss_error = sqrt(fmax(variance, 0) / (double)s->sums.n);
  p->top1 = (uint64_t)s->sums.top1;
  p->top5 = (uint64_t)s->sums.top5;
}
