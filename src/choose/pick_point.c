/* pick_point.c - the smallest setting that is as good as the best one.
 *
 * Settings are compared on the same rows, so what counts is the rows that one gets right and the
 * other does not: with `lost` and `won` of them a loss is significant at 5 % where lost - won is more
 * than 1.645 sqrt(lost + won), by McNemar's test, one-sided. */
#include "choose/choose.h"

#include <math.h>

kf_status kf_score_card_make(kf_score_card *card, uint64_t n, size_t n_points, kf_err *err) {
  *card = (kf_score_card){.n = n, .n_points = n_points, .stride = (n_points + 7) / 8};
  card->right = kf_alloc_zero(n, card->stride);
  return card->right != NULL ? KF_OK : kf_fail_memory(err);
}

static bool was_right(const kf_score_card *card, uint64_t row, size_t point) {
  return card->right[row * card->stride + point / 8] >> point % 8 & 1;
}

static bool good_enough(const kf_setting *s, uint64_t n, double tolerance) {
  double loss = (double)s->lost - (double)s->won;
  if (tolerance > 0) return loss <= tolerance * (double)n;
  return loss <= 1.6448536269514722 * sqrt((double)(s->lost + s->won));
}

size_t kf_first_good_enough(const kf_score_card *card, double tolerance, kf_setting *settings,
                            size_t *best) {
  for (size_t p = 0; p < card->n_points; p++) settings[p] = (kf_setting){0};
  for (uint64_t row = 0; row < card->n; row++)
    for (size_t p = 0; p < card->n_points; p++) settings[p].top1 += was_right(card, row, p);
  *best = 0;
  for (size_t p = 1; p < card->n_points; p++)
    if (settings[p].top1 > settings[*best].top1) *best = p;
  for (uint64_t row = 0; row < card->n; row++) {
    bool wanted = was_right(card, row, *best);
    for (size_t p = 0; p < card->n_points; p++) {
      bool here = was_right(card, row, p);
      settings[p].lost += wanted && !here;
      settings[p].won += here && !wanted;
    }
  }
  size_t first = 0;
  while (!good_enough(&settings[first], card->n, tolerance)) first++; /* the best one is */
  return first;
}
