/* scan_plain.c - the first pass of a search in plain C, which defines it for all instruction
 * sets. */
#include "kernel/kernel.h"

#include <string.h>

static size_t size(uint32_t dim) { return (dim + 63) / 64 * 64; }

static void pack(const int8_t *queries, size_t n, uint32_t dim, void *packed) {
  memcpy(packed, queries, n * dim);
}

/* The dot product of query q with row r. */
static int32_t dot(const kf_scan *s, size_t q, size_t r) {
  const int8_t *query = (const int8_t *)s->queries + q * s->dim;
  const uint8_t *panel = s->panels + r / KF_PANEL * KF_PANEL * s->dim;
  int32_t sum = 0;
  for (size_t i = 0; i < s->dim; i++)
    sum += query[i] * (panel[(i / 4 * KF_PANEL + r % KF_PANEL) * 4 + i % 4] - 128);
  return sum;
}

static size_t scan(const kf_scan *s) {
  size_t n_hits = 0;
  for (size_t q = 0; q < s->n; q++)
    for (size_t r = 0; r < s->n_panels * KF_PANEL; r++) {
      int32_t sum = dot(s, q, r);
      if (sum - kf_scan_offset(s->offset[r], s->unit) >= s->floor[q])
        s->hits[n_hits++] = (kf_hit){.query = (uint32_t)q, .row = (uint32_t)r, .dot = sum};
    }
  return n_hits;
}

static void peaks(const kf_scan *s, int32_t *peaks) {
  for (size_t i = 0; i < s->n * KF_PEAKS; i++) peaks[i] = INT32_MIN;
  for (size_t q = 0; q < s->n; q++)
    for (size_t r = 0; r < s->n_panels * KF_PANEL; r++) {
      int32_t x = dot(s, q, r) - kf_scan_offset(s->offset[r], s->unit);
      int32_t *peak = &peaks[q * KF_PEAKS + r % KF_PEAKS];
      if (x > *peak) *peak = x;
    }
}

const kf_scan_kernel kf_scan_plain = {
    .strip = 1, .most = 127, .size = size, .pack = pack, .scan = scan, .peaks = peaks};
