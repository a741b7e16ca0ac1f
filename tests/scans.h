/* scans.h - the checks of a scan kernel against the definition, shared by test_kernel.c (real
 * instructions) and test_amx.c (emulated tiles). */
#ifndef KF_TEST_SCANS_H
#define KF_TEST_SCANS_H

#include "test.h"

#include "base/base.h"

#include <math.h>

typedef struct scan_case {
  uint32_t dim; /* padded */
  size_t panels, n;
  int8_t *rows;    /* [panels * KF_PANEL][dim] */
  int8_t *queries; /* [n][dim] */
  uint8_t *packed;
  float *scale, *offset, *factor, *least;
} scan_case;

/* -127 … 127, and the extremes more often than not where `extreme`. */
static inline int8_t scan_byte(uint64_t *seed, bool extreme) {
  uint64_t r = test_random(seed);
  if (extreme && r % 4 > 0) return r & 64 ? 127 : -127;
  return (int8_t)((int)(r >> 8 & 0xffff) % 255 - 127);
}

static inline scan_case make_scan(uint32_t dim, size_t panels, size_t n, bool extreme,
                                  uint64_t seed) {
  size_t rows = panels * KF_PANEL;
  scan_case c = {.dim = dim, .panels = panels, .n = n};
  c.rows = malloc(rows * dim);
  c.queries = malloc(n * dim);
  c.packed = kf_alloc(rows, dim);
  c.scale = kf_alloc(rows, sizeof(float));
  c.offset = kf_alloc(rows, sizeof(float));
  c.factor = kf_alloc(n, sizeof(float));
  c.least = kf_alloc(n, sizeof(float));
  for (size_t i = 0; i < rows * dim; i++) c.rows[i] = scan_byte(&seed, extreme);
  for (size_t i = 0; i < n * dim; i++) c.queries[i] = scan_byte(&seed, extreme);
  for (size_t r = 0; r < rows; r++) {
    for (size_t i = 0; i < dim; i++)
      c.packed[(r / KF_PANEL * dim + i / 4 * 4) * KF_PANEL + r % KF_PANEL * 4 + i % 4] =
          (uint8_t)(c.rows[r * dim + i] + 128);
    c.scale[r] = (float)(0.01 + fabs(test_uniform(&seed)));
    c.offset[r] = (float)(100 * test_uniform(&seed));
    if (r % 37 == 5) c.scale[r] = 0, c.offset[r] = INFINITY;  /* a place behind the last row */
    if (r % 41 == 9) c.scale[r] = 0, c.offset[r] = -INFINITY; /* a row that is always a hit */
  }
  for (size_t q = 0; q < n; q++) {
    c.factor[q] = (float)(0.001 + 0.01 * fabs(test_uniform(&seed)));
    c.least[q] = q % 5 == 3 ? -INFINITY : (float)(300 * test_uniform(&seed));
  }
  return c;
}

static inline void free_scan(scan_case *c) {
  free(c->rows);
  free(c->queries);
  kf_free(c->packed);
  kf_free(c->scale);
  kf_free(c->offset);
  kf_free(c->factor);
  kf_free(c->least);
}

static inline void check_scan(const kf_scan_kernel *k, const scan_case *c) {
  size_t rows = c->panels * KF_PANEL;
  void *packed = kf_alloc(1, k->size(c->dim));
  kf_hit *hits = kf_alloc(c->n * rows, sizeof *hits);
  uint32_t *count = kf_alloc(c->n, sizeof *count);
  assert_int_equal(k->size(c->dim) % 64, 0);
  memset(packed, 0x5a, k->size(c->dim));
  memset(count, 0x5a, c->n * sizeof *count);
  k->pack(c->queries, c->n, c->dim, packed);
  kf_scan s = {.dim = c->dim,
               .panels = c->packed,
               .n_panels = c->panels,
               .scale = c->scale,
               .offset = c->offset,
               .queries = packed,
               .n = c->n,
               .factor = c->factor,
               .least = c->least,
               .hits = hits,
               .stride = rows,
               .count = count};
  if (k->begin != NULL) k->begin(c->dim);
  k->scan(&s);
  if (k->end != NULL) k->end();
  for (size_t q = 0; q < c->n; q++) {
    uint32_t found = 0;
    for (size_t r = 0; r < rows; r++) {
      int32_t dot = 0;
      for (size_t i = 0; i < c->dim; i++)
        dot += c->queries[q * c->dim + i] * c->rows[r * c->dim + i];
      if (fmaf((float)dot * c->factor[q], c->scale[r], -c->offset[r]) < c->least[q]) continue;
      const kf_hit *h = &hits[q * rows + found++];
      if (found > count[q] || h->row != r || h->dot != dot)
        fail_msg("dim %u, %zu panels, query %zu of %zu: row %zu with %d is not hit %u", c->dim,
                 c->panels, q, c->n, r, dot, found - 1);
    }
    if (found != count[q])
      fail_msg("dim %u, query %zu of %zu: %u hits, wanted %u", c->dim, q, c->n, count[q], found);
  }
  kf_free(packed);
  kf_free(hits);
  kf_free(count);
}

static inline void check_scans(const kf_scan_kernel *k) {
  const uint32_t dims[] = {1, 4, 17, 32, 60, 64, 65, 100, 130, 512, 768};
  for (size_t d = 0; d < sizeof dims / sizeof *dims; d++)
    for (size_t n = 1; n <= k->group; n += n < 8 ? 1 : 5)
      for (int extreme = 0; extreme < 2; extreme++) {
        uint32_t dim = kf_scan_dim(dims[d]);
        assert_true(dim >= dims[d] && dim % 4 == 0 &&
                    dim / ((dim + 63) / 64) * ((dim + 63) / 64) == dim);
        scan_case c = make_scan(dim, n % 3 == 0 ? 12 : 4, n, extreme, 1000 * d + n);
        check_scan(k, &c);
        free_scan(&c);
      }
  scan_case c = make_scan(65536, 4, 1, true, 7); /* the largest sums there are */
  memset(c.rows, 127, 65536);
  memset(c.queries, 127, 65536);
  for (size_t i = 0; i < 65536; i++) c.packed[i / 4 * 4 * KF_PANEL + i % 4] = 255;
  check_scan(k, &c);
  free_scan(&c);
}

#endif
