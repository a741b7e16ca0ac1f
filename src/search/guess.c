/* guess.c - floors guessed beforehand: a line of least squares, lowered. */
#include "search/guess.h"

#include <math.h>

/* How far the line is lowered: by so many standard deviations of what it misses, and by a quarter more
 * than its largest miss. */
#define DEVIATIONS 3.0
#define FARTHER    1.25

static const kf_guesser nothing = {.base = -INFINITY};

kf_guesser kf_guesser_of(const kf_guess_sample *samples, uint32_t n) {
  double sign = 0, key = 0, signs2 = 0, both = 0, misses2 = 0, lowest = 0;
  uint32_t used = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (!isfinite(samples[i].sign) || !isfinite(samples[i].key)) continue;
    sign += samples[i].sign;
    key += samples[i].key;
    used++;
  }
  if (used < n / 2 || used < 2) return nothing;
  sign /= used;
  key /= used;
  for (uint32_t i = 0; i < n; i++) {
    if (!isfinite(samples[i].sign) || !isfinite(samples[i].key)) continue;
    signs2 += (samples[i].sign - sign) * (samples[i].sign - sign);
    both += (samples[i].sign - sign) * (samples[i].key - key);
  }
  kf_guesser g = {.slope = signs2 > 0 ? both / signs2 : 0};
  g.base = key - g.slope * sign;
  for (uint32_t i = 0; i < n; i++) {
    if (!isfinite(samples[i].sign) || !isfinite(samples[i].key)) continue;
    double miss = samples[i].key - kf_guess(&g, samples[i].sign);
    misses2 += miss * miss;
    lowest = fmin(lowest, miss);
  }
  g.base -= fmax(DEVIATIONS * sqrt(misses2 / used), -FARTHER * lowest);
  return isfinite(g.base) && isfinite(g.slope) ? g : nothing;
}

double kf_guess(const kf_guesser *guesser, double sign) {
  double key = guesser->base + guesser->slope * sign;
  return isfinite(key) ? key : -INFINITY;
}
