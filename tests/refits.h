/* refits.h - for tests that fit again without some rows: an unbalanced world, and dense
 * matrices. */
#ifndef KF_TEST_REFITS_H
#define KF_TEST_REFITS_H

#include "world.h"

/* A world whose classes have 1, 2, 3, … rows, and one class that has none. */
static inline world unbalanced(uint32_t dim, uint32_t classes, uint64_t seed) {
  uint64_t n = (uint64_t)classes * (classes - 1) / 2, at = 0;
  world w = make_world(n, dim, classes, 2, seed);
  for (uint32_t k = 1; k < classes; k++)
    for (uint32_t i = 0; i < k; i++) w.labels[at++] = (int32_t)k;
  /* Rows keep the place of the class they were made for, so move them towards their new one. */
  for (uint64_t i = 0; i < n; i++)
    for (uint32_t j = 0; j < dim; j++)
      w.rows[i * dim + j] += 0.4f * sinf((float)(w.labels[i] * (int)(j + 1)));
  return w;
}

/* a := its inverse, for a positive definite matrix (Gauss-Jordan needs no pivots then). */
static inline void invert(uint32_t n, double *a) {
  for (uint32_t p = 0; p < n; p++) {
    double pivot = 1 / a[p * n + p];
    a[p * n + p] = 1;
    for (uint32_t j = 0; j < n; j++) a[p * n + j] *= pivot;
    for (uint32_t i = 0; i < n; i++) {
      if (i == p) continue;
      double factor = a[i * n + p];
      a[i * n + p] = 0;
      for (uint32_t j = 0; j < n; j++) a[i * n + j] -= factor * a[p * n + j];
    }
  }
}

static inline double form(uint32_t n, const double *a, const double *x, const double *y) {
  double sum = 0;
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t j = 0; j < n; j++) sum += x[i] * a[i * n + j] * y[j];
  return sum;
}

#endif
