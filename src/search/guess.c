/* guess.c - floors guessed beforehand: a line of least squares, lowered. */
#include "search/guess.h"

#include <math.h>
#include <stdbool.h>

/* How far the line is lowered: by so many standard deviations of what it misses or so many times its
 * largest miss, whichever is more. */
#define DEVIATIONS 3.0
#define FARTHER    1.25

static double key_at(kf_guess_line l, double sign) {
  double key = l.base + l.slope * sign;
  return isfinite(key) ? key : -INFINITY;
}

/* A line through signs and keys, [n]. */
static kf_guess_line draw(const double *sign, const double *key, uint32_t n) {
  double mean_sign = 0, mean_key = 0, signs2 = 0, both = 0, misses2 = 0, lowest = 0;
  for (uint32_t i = 0; i < n; i++) {
    mean_sign += sign[i] / n;
    mean_key += key[i] / n;
  }
  for (uint32_t i = 0; i < n; i++) {
    signs2 += (sign[i] - mean_sign) * (sign[i] - mean_sign);
    both += (sign[i] - mean_sign) * (key[i] - mean_key);
  }
  kf_guess_line l = {.slope = signs2 > 0 ? both / signs2 : 0};
  l.base = mean_key - l.slope * mean_sign;
  for (uint32_t i = 0; i < n; i++) {
    double miss = key[i] - key_at(l, sign[i]);
    misses2 += miss * miss;
    lowest = fmin(lowest, miss);
  }
  l.base -= fmax(DEVIATIONS * sqrt(misses2 / n), -FARTHER * lowest);
  return l;
}

kf_guesser kf_guesser_of(const kf_guess_sample *samples, uint32_t n) {
  kf_guesser g;
  for (uint32_t look = 0; look < KF_GUESS_LOOKS; look++) {
    double sign[KF_GUESS_SAMPLES], key[KF_GUESS_SAMPLES];
    uint32_t used = 0;
    for (uint32_t i = 0; i < n && used < KF_GUESS_SAMPLES; i++) {
      if (!isfinite(samples[i].sign[look]) || !isfinite(samples[i].key)) continue;
      sign[used] = samples[i].sign[look];
      key[used++] = samples[i].key;
    }
    bool enough = used >= n / 2 && used >= 2;
    g.line[look] = enough ? draw(sign, key, used) : (kf_guess_line){.base = -INFINITY};
  }
  return g;
}

double kf_guess(const kf_guesser *guesser, uint32_t look, double sign) {
  return key_at(guesser->line[look], sign);
}
