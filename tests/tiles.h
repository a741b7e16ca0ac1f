/* tiles.h - compares a moment kernel with its definition, shared by test_kernel.c (real
 * instructions) and test_amx.c (emulated tiles). */
#ifndef KF_TEST_TILES_H
#define KF_TEST_TILES_H

#include "test.h"

#include "base/base.h"

/* The tile of panels p and q over n rows of x[n][dim], against the definition. */
static inline void check_tiles(const kf_moment_kernel *m, const int32_t *x, size_t n, size_t dim) {
  size_t panels = (dim + m->edge - 1) / m->edge;
  AUTOFREE char *packed = kf_alloc(panels, m->panel_size);
  AUTOFREE int64_t *sums = kf_alloc(m->edge * m->edge, sizeof *sums);
  assert_true(packed != NULL && sums != NULL);
  memset(packed, 0x5a, panels * m->panel_size); /* the kernel must not read what was not packed */
  for (size_t p = 0; p < panels; p++) {
    size_t cut = n / 3 / m->step * m->step; /* in two pieces */
    m->pack(x, cut, dim, p, 0, packed + p * m->panel_size);
    m->pack(x + cut * dim, n - cut, dim, p, cut, packed + p * m->panel_size);
  }
  if (m->begin != NULL) m->begin();
  for (size_t p = 0; p < panels; p++)
    for (size_t q = p; q < panels; q++) {
      for (size_t i = 0; i < m->edge * m->edge; i++) sums[i] = (int64_t)i - 7;
      m->tile(packed + p * m->panel_size, packed + q * m->panel_size, n, sums, m->edge);
      for (size_t r = 0; r < m->edge; r++)
        for (size_t c = 0; c < m->edge; c++) {
          int64_t want = (int64_t)(r * m->edge + c) - 7;
          size_t i = p * m->edge + r, j = q * m->edge + c;
          for (size_t k = 0; i < dim && j < dim && k < n; k++)
            want += (int64_t)x[k * dim + i] * x[k * dim + j];
          if (sums[r * m->edge + c] != want)
            fail_msg("dim %zu, %zu rows: tile (%zu, %zu) differs at (%zu, %zu)", dim, n, p, q, r,
                     c);
        }
    }
  if (m->end != NULL) m->end();
}

static inline void check_random_tiles(const kf_moment_kernel *m) {
  assert_int_equal(m->panel_size % 64, 0);
  const size_t dims[] = {1, 15, 33, 70};
  const size_t rows[] = {1, 2, 3, 63, 64, 65, m->rows - 1, m->rows};
  for (size_t d = 0; d < 4; d++)
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
      size_t n = rows[r] < m->rows ? rows[r] : m->rows, dim = dims[d];
      AUTOFREE int32_t *x = kf_alloc(n * dim, sizeof *x);
      uint64_t seed = d * 100 + r;
      for (size_t i = 0; i < n * dim; i++)
        x[i] = (int32_t)(test_random(&seed) % (2u * KF_FIXED_ONE + 1)) - KF_FIXED_ONE;
      check_tiles(m, x, n, dim);
    }
}

/* The values at which a digit or a partial sum overflows first. */
static inline void check_extreme_tiles(const kf_moment_kernel *m) {
  const int32_t values[] = {KF_FIXED_ONE,
                            -KF_FIXED_ONE,
                            (1 << 22) - 2048,
                            -(1 << 22) + 2047,
                            0x3f7f7f,
                            -0x3f8080,
                            0x3f8080,
                            2047,
                            2048,
                            -2048,
                            -2049,
                            0x7f7f,
                            (1023 << 12) + 2047,
                            -(1024 << 12) - 0,
                            (1 << 12) - 2049,
                            0};
  size_t dim = 33;
  AUTOFREE int32_t *x = kf_alloc(m->rows * dim, sizeof *x);
  for (size_t v = 0; v < sizeof values / sizeof *values; v++)
    for (int alternate = 0; alternate < 2; alternate++) {
      for (size_t i = 0; i < m->rows * dim; i++) x[i] = alternate && i % 2 ? -values[v] : values[v];
      check_tiles(m, x, m->rows, dim);
    }
}

#endif
