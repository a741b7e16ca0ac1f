/* world.h - small labelled data sets, their statistics and models, for many tests. */
#ifndef KF_TEST_WORLD_H
#define KF_TEST_WORLD_H

#include "test.h"

#include "model/model.h"

#include <math.h>

/* Rows of k classes with anisotropic noise, class i at i mod k. */
typedef struct world {
  uint32_t dim, classes;
  uint64_t n;
  float *rows;
  int32_t *labels;
} world;

static inline world make_world(uint64_t n, uint32_t dim, uint32_t classes, double decades,
                               uint64_t seed) {
  world w = {.dim = dim, .classes = classes, .n = n};
  w.rows = malloc(n * dim * sizeof *w.rows);
  w.labels = malloc(n * sizeof *w.labels);
  AUTOFREE double *centre = malloc((size_t)classes * dim * sizeof *centre);
  for (size_t i = 0; i < (size_t)classes * dim; i++) centre[i] = 0.3 * test_normal(&seed);
  for (uint64_t i = 0; i < n; i++) {
    w.labels[i] = (int32_t)(i % classes);
    for (uint32_t j = 0; j < dim; j++) {
      double sigma = pow(10, -decades / 2 * j / (dim > 1 ? dim - 1 : 1));
      double at = centre[(size_t)w.labels[i] * dim + j] * sigma;
      w.rows[i * dim + j] = (float)(at + sigma * test_normal(&seed) + (j == 0 ? 4 : 0));
    }
  }
  return w;
}

/* Rotates all rows by a dense orthogonal matrix, so that no column is an axis of the noise. */
static inline void mix(world *w, uint64_t seed) {
  AUTOFREE double *u = malloc(w->dim * sizeof *u);
  for (int reflection = 0; reflection < 3; reflection++) {
    double norm2 = 0;
    for (uint32_t j = 0; j < w->dim; j++) {
      u[j] = test_normal(&seed);
      norm2 += u[j] * u[j];
    }
    for (uint64_t i = 0; i < w->n; i++) {
      float *x = w->rows + i * w->dim;
      double dot = 0;
      for (uint32_t j = 0; j < w->dim; j++) dot += u[j] * (double)x[j];
      for (uint32_t j = 0; j < w->dim; j++) x[j] = (float)((double)x[j] - 2 * dot / norm2 * u[j]);
    }
  }
}

static inline void free_world(world *w) {
  free(w->rows);
  free(w->labels);
}
AUTO_STRUCT(world, free_world)

static inline kf_stats *stats_of(kf_ctx *ctx, const world *w, int raw) {
  AUTO(kf_data) *data = NULL;
  kf_stats *s;
  assert_ok(ctx,
            kf_data_open_memory(ctx, w->rows, w->n, w->dim, w->labels, NULL, w->classes, &data));
  assert_ok(ctx, kf_stats_new_from_data(
                     ctx, data, &(kf_stats_options){.normalize = raw ? KF_OFF : KF_ON}, &s));
  return s;
}

static inline kf_model *fit(kf_ctx *ctx, const kf_stats *s, double lambda, uint32_t dim) {
  kf_model *m;
  kf_fit_options options = {
      .method = KF_METHOD_PAPER, .lambda = {lambda, KF_LAMBDA_RELATIVE}, .dim = dim};
  assert_ok(ctx, kf_fit_stats(ctx, s, &options, &m));
  return m;
}

/* The largest |(A S A^T)_ij - diagonal_i| for rows of A [l][d]; diagonal NULL: ones. */
static inline double off_diagonal(const double *a, const double *s, uint32_t l, uint32_t d,
                                  const double *diagonal) {
  double *product = calloc((size_t)l * d, sizeof *product), worst = 0;
  for (size_t i = 0; i < l; i++)
    for (size_t k = 0; k < d; k++)
      for (size_t j = 0; j < d; j++) product[i * d + j] += a[i * d + k] * s[k * d + j];
  for (size_t i = 0; i < l; i++)
    for (size_t j = 0; j < l; j++) {
      double sum = 0, want = i != j ? 0 : diagonal != NULL ? diagonal[i] : 1;
      for (size_t k = 0; k < d; k++) sum += product[i * d + k] * a[j * d + k];
      worst = fmax(worst, fabs(sum - want));
    }
  free(product);
  return worst;
}

#endif
