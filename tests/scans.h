/* scans.h - compares a scan kernel with its definition, shared by test_kernel.c (real
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
  float *offset, unit;
  int32_t *floor;
} scan_case;

/* In -most … most; mostly the extremes if `extreme`. */
static inline int8_t scan_byte(uint64_t *seed, int most, bool extreme) {
  uint64_t r = test_random(seed);
  if (extreme && r % 4 > 0) return (int8_t)(r & 64 ? most : -most);
  return (int8_t)((int)(r >> 8 & 0xffff) % (2 * most + 1) - most);
}

static inline scan_case make_scan(const kf_scan_kernel *k, uint32_t dim, size_t panels, size_t n,
                                  bool extreme, uint64_t seed) {
  size_t rows = panels * KF_PANEL;
  scan_case c = {.dim = dim, .panels = panels, .n = n};
  c.rows = malloc(rows * dim);
  c.queries = malloc(n * dim);
  c.packed = kf_alloc(rows, dim);
  c.offset = kf_alloc(rows, sizeof(float));
  c.floor = kf_alloc(n, sizeof(int32_t));
  for (size_t i = 0; i < rows * dim; i++) c.rows[i] = scan_byte(&seed, 127, extreme);
  for (size_t i = 0; i < n * dim; i++)
    c.queries[i] = scan_byte(&seed, kf_scan_most(k, dim), extreme);
  for (size_t r = 0; r < rows; r++) {
    for (size_t i = 0; i < dim; i++)
      c.packed[(r / KF_PANEL * dim + i / 4 * 4) * KF_PANEL + r % KF_PANEL * 4 + i % 4] =
          (uint8_t)(c.rows[r * dim + i] + 128);
    c.offset[r] = (float)(100 * test_uniform(&seed));
    if (r % 37 == 5) c.offset[r] = INFINITY;  /* padding after the last row */
    if (r % 41 == 9) c.offset[r] = -INFINITY; /* always a hit */
    if (r % 43 == 7) c.offset[r] = NAN;       /* does not occur, but all kernels agree */
  }
  c.unit = (float)(100 * fabs(test_uniform(&seed)) + 1e-3);
  for (size_t q = 0; q < n; q++)
    c.floor[q] = q % 3 == 2   ? KF_SCAN_ALL
                 : q % 7 == 6 ? KF_SCAN_LIMIT
                              : (int32_t)(20000 * test_uniform(&seed));
  return c;
}

static inline void free_scan(scan_case *c) {
  free(c->rows);
  free(c->queries);
  kf_free(c->packed);
  kf_free(c->offset);
  kf_free(c->floor);
}
AUTO_STRUCT(scan_case, free_scan)

static inline void check_scan(const kf_scan_kernel *k, const scan_case *c) {
  size_t rows = c->panels * KF_PANEL;
  AUTOFREE void *packed = kf_alloc(1, k->size(c->dim));
  AUTOFREE kf_hit *hits = kf_alloc(c->n * rows, sizeof *hits);
  AUTOFREE int32_t *peaks = kf_alloc(c->n * KF_PEAKS, sizeof *peaks);
  assert_int_equal(k->size(c->dim) % 64, 0);
  memset(packed, 0x5a, k->size(c->dim));
  k->pack(c->queries, c->n, c->dim, packed);
  /* gcc clears this with aligned stores, and AddressSanitizer's stack is not aligned. */
  kf_scan s __attribute__((aligned(64))) = {.dim = c->dim,
                                            .panels = c->packed,
                                            .n_panels = c->panels,
                                            .offset = c->offset,
                                            .unit = c->unit,
                                            .queries = packed,
                                            .n = c->n,
                                            .floor = c->floor,
                                            .hits = hits};
  if (k->begin != NULL) k->begin(c->dim);
  size_t n_hits = k->scan(&s), all = 0;
  k->peaks(&s, peaks);
  if (k->end != NULL) k->end();
  for (size_t q = 0; q < c->n; q++) {
    const kf_hit *h = hits, *end = hits + n_hits;
    int32_t peak[KF_PEAKS];
    for (size_t r = 0; r < KF_PEAKS; r++) peak[r] = INT32_MIN;
    for (size_t r = 0; r < rows; r++) {
      int32_t dot = 0;
      for (size_t i = 0; i < c->dim; i++)
        dot += c->queries[q * c->dim + i] * c->rows[r * c->dim + i];
      int32_t less_offset = dot - kf_scan_offset(c->offset[r], c->unit);
      if (less_offset > peak[r % KF_PEAKS]) peak[r % KF_PEAKS] = less_offset;
      if (less_offset < c->floor[q]) continue;
      while (h < end && h->query != q) h++; /* the next one of this query */
      if (h == end || h->row != r || h->dot != dot)
        fail_msg("dim %u, %zu panels, query %zu of %zu: row %zu with %d is not its next hit",
                 c->dim, c->panels, q, c->n, r, dot);
      h++;
      all++;
    }
    assert_memory_equal(peaks + q * KF_PEAKS, peak, sizeof peak);
  }
  if (all != n_hits)
    fail_msg("dim %u, %zu queries: %zu hits, wanted %zu", c->dim, c->n, n_hits, all);
}

/* The next number of queries to try: all below 12, some above, and the last two. */
static inline size_t scan_next(size_t n, size_t group) {
  if (n < 12 || n + 1 >= group) return n + 1;
  return n + 5 < group - 1 ? n + 5 : group - 1;
}

static inline void check_scans(const kf_scan_kernel *k) {
  const uint32_t dims[] = {1, 4, 17, 32, 60, 64, 65, 100, 130, 512, 768};
  for (size_t d = 0; d < sizeof dims / sizeof *dims; d++)
    for (size_t n = 1; n <= k->strip; n = scan_next(n, k->strip))
      for (int extreme = 0; extreme < 2; extreme++) {
        uint32_t dim = kf_scan_dim(dims[d]);
        assert_true(dim >= dims[d] && dim % 4 == 0 &&
                    dim / ((dim + 63) / 64) * ((dim + 63) / 64) == dim);
        AUTO(scan_case)
        c = make_scan(k, dim, n % 11 == 0 ? 68 : n % 3 == 0 ? 12 : 4, n, extreme, 1000 * d + n);
        check_scan(k, &c);
      }
  for (uint32_t dim = 16384; dim <= 65536; dim *= 4) { /* the largest sums there are */
    size_t n = k->strip < 2 ? 1 : 2;
    AUTO(scan_case) c = make_scan(k, dim, 4, n, true, 7);
    memset(c.rows, 127, dim);
    memset(c.rows + dim, -127, dim);
    memset(c.queries, kf_scan_most(k, dim), dim);
    if (n > 1) memset(c.queries + dim, -kf_scan_most(k, dim), dim);
    for (size_t q = 0; q < n; q++) c.floor[q] = KF_SCAN_ALL;
    for (size_t i = 0; i < dim; i++) {
      c.packed[i / 4 * 4 * KF_PANEL + i % 4] = 255;
      c.packed[i / 4 * 4 * KF_PANEL + 4 + i % 4] = 1;
    }
    check_scan(k, &c);
  }
}

#endif
