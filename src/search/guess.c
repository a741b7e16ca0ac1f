/* guess.c - guessed floors: lines fitted by least squares, then lowered. */
#include "search/guess.h"

#include <math.h>
#include <stdbool.h>

/* A line is lowered by the larger of this many standard deviations of its residuals and this many
 * times the largest residual below it. */
#define DEVIATIONS 3.0
#define RESIDUALS  1.25

static double key_at(kf_guess_line l, double predictor) {
  double key = l.base + l.slope * predictor;
  return isfinite(key) ? key : -INFINITY;
}

/* The line for predictors and keys, [n]. */
static kf_guess_line fit_line(const double *predictor, const double *key, uint32_t n) {
  double mean_predictor = 0, mean_key = 0, variance = 0, both = 0, misses2 = 0, lowest = 0;
  for (uint32_t i = 0; i < n; i++) {
    mean_predictor += predictor[i] / n;
    mean_key += key[i] / n;
  }
  for (uint32_t i = 0; i < n; i++) {
    variance += (predictor[i] - mean_predictor) * (predictor[i] - mean_predictor);
    both += (predictor[i] - mean_predictor) * (key[i] - mean_key);
  }
  kf_guess_line l = {.slope = variance > 0 ? both / variance : 0};
  l.base = mean_key - l.slope * mean_predictor;
  for (uint32_t i = 0; i < n; i++) {
    double miss = key[i] - key_at(l, predictor[i]);
    misses2 += miss * miss;
    lowest = fmin(lowest, miss);
  }
  l.base -= fmax(DEVIATIONS * sqrt(misses2 / n), -RESIDUALS * lowest);
  return l;
}

kf_guesser kf_guesser_of(const kf_guess_sample *samples, uint32_t n) {
  kf_guesser g;
  for (uint32_t look = 0; look < KF_GUESS_LOOKS; look++) {
    double predictor[KF_GUESS_SAMPLES], key[KF_GUESS_SAMPLES];
    uint32_t used = 0;
    for (uint32_t i = 0; i < n && used < KF_GUESS_SAMPLES; i++) {
      if (!isfinite(samples[i].predictor[look]) || !isfinite(samples[i].key)) continue;
      predictor[used] = samples[i].predictor[look];
      key[used++] = samples[i].key;
    }
    bool enough = used >= n / 2 && used >= 2;
    g.line[look] = enough ? fit_line(predictor, key, used) : (kf_guess_line){.base = -INFINITY};
  }
  return g;
}

double kf_guess(const kf_guesser *guesser, uint32_t look, double predictor) {
  return key_at(guesser->line[look], predictor);
}
