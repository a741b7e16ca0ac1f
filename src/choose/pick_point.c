/* pick_point.c - the smallest setting that is as good as the best one, as far as the rows can tell.
 *
 * An accuracy p of n rows has the standard error sqrt(p (1 - p) / n). A setting no further below
 * the best one is good enough. (Settings are compared on the same rows, so a test on the rows that
 * only one of them gets right would detect far smaller losses, and keep a large k for a tenth of a
 * point.) */
#include "choose/choose.h"

#include <math.h>

kf_score_card kf_score_card_take(kf_arena *arena, uint64_t n, size_t n_points) {
  kf_score_card card = {.n = n, .n_points = n_points, .stride = (n_points + 7) / 8};
  card.right = kf_arena_take_zero(arena, n, card.stride);
  KF_TAKE_ZERO(arena, card.top5, n_points);
  return card;
}

kf_status kf_check_tolerance(double tolerance, kf_err *err) {
  if (tolerance >= 0 && tolerance < 1) return KF_OK;
  return kf_fail(err, KF_ERR_ARG, "the tolerance is %g, but must be 0 or a share below 1",
                 tolerance);
}

static bool was_right(const kf_score_card *card, uint64_t row, size_t point) {
  return card->right[row * card->stride + point / 8] >> point % 8 & 1;
}

double kf_standard_error(uint64_t hits, uint64_t n) {
  double p = (double)hits / (double)n;
  return sqrt(p * (1 - p) / (double)n);
}

/* The fewest hits that are good enough. */
static double enough_hits(uint64_t best, uint64_t n, double tolerance) {
  double loss = tolerance > 0 ? tolerance : kf_standard_error(best, n);
  return (double)best - loss * (double)n;
}

size_t kf_first_good_enough(const kf_score_card *card, double tolerance, kf_k_point *points,
                            size_t *best) {
  for (size_t p = 0; p < card->n_points; p++)
    points[p] = (kf_k_point){.k = (uint32_t)p + 1, .top5 = card->top5[p]};
  for (uint64_t row = 0; row < card->n; row++)
    for (size_t p = 0; p < card->n_points; p++) points[p].top1 += was_right(card, row, p);
  *best = 0;
  for (size_t p = 1; p < card->n_points; p++)
    if (points[p].top1 > points[*best].top1) *best = p;
  for (uint64_t row = 0; row < card->n; row++) {
    bool wanted = was_right(card, row, *best);
    for (size_t p = 0; p < card->n_points; p++) {
      bool here = was_right(card, row, p);
      points[p].lost += wanted && !here;
      points[p].won += here && !wanted;
    }
  }
  double enough = enough_hits(points[*best].top1, card->n, tolerance);
  size_t first = 0;
  while ((double)points[first].top1 < enough) first++; /* the best one has them */
  return first;
}
