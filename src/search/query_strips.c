/* query_strips.c - prepares queries for the scan kernel: centres them, rounds them to 8 bits with
 * one factor for each strip, and packs them. Used by both searches (nearest.c, reach.c). */
#include "search/index.h"

#include <math.h>

void kf_query_strips_make(kf_query_strips *g, const kf_index *index, const kf_kernels *kernels,
                          uint32_t most, kf_arena *arena) {
  const kf_scan_kernel *scan = kernels->scan;
  uint64_t strip = scan->strip, strips = (most + strip - 1) / strip;
  *g = (kf_query_strips){.index = index, .kernels = kernels, .scan = scan};
  g->packed_size = scan->size(index->padded);
  KF_TAKE(arena, g->order, most);
  KF_TAKE(arena, g->query, most);
  KF_TAKE(arena, g->floor, most);
  KF_TAKE(arena, g->factor, strips);
  g->packed = kf_arena_take(arena, strips, g->packed_size);
  KF_TAKE(arena, g->hits, strip * index->block_rows);
  KF_TAKE(arena, g->given, most);
  KF_TAKE(arena, g->bytes, strip * index->padded);
  KF_TAKE(arena, g->wide, 2 * (uint64_t)index->dim + KF_LEAD_TAIL);
  if (index->lead.n == 0) return;
  KF_TAKE(arena, g->fine, most * (2 * (uint64_t)index->fine_dim));
  KF_TAKE(arena, g->seen, most * (uint64_t)index->seen);
  KF_TAKE(arena, g->columns, KF_LEAD_ROWS * ((uint64_t)index->dim + index->lead.n));
}

/* Sorts queries by their largest number; ties keep their order. */
static void sort_queries(kf_query_strips *g) {
  for (uint32_t i = 0; i < g->n; i++) {
    uint32_t at = i;
    for (; at > 0 && g->given[g->order[at - 1]].largest > g->given[i].largest; at--)
      g->order[at] = g->order[at - 1];
    g->order[at] = i;
  }
}

static uint32_t strip_size(const kf_query_strips *g, uint32_t strip) {
  uint32_t full = (uint32_t)g->scan->strip, left = g->n - strip * full;
  return left < full ? left : full;
}

/* The factor suits the largest number of the strip, queries that are too long aside. */
static void pack_strip(kf_query_strips *g, uint32_t strip) {
  const kf_index *index = g->index;
  uint32_t first = kf_strip_first(g, strip), n = strip_size(g, strip);
  double largest = 0;
  for (uint32_t i = first; i < first + n; i++) {
    g->query[i] = g->given[g->order[i]];
    double own = g->query[i].largest;
    if (own < INFINITY && own > largest) largest = own;
  }
  g->factor[strip] = kf_query_factor(index, g->kernels, largest);
  for (uint32_t i = 0; i < n; i++) {
    uint32_t at = first + i;
    const float *seen = index->lead.n > 0 ? g->seen + g->order[at] * (uint64_t)index->seen : NULL;
    kf_query_round(index, g->kernels, kf_strips_row(g, at), seen, g->factor[strip], g->wide,
                   &g->query[at], g->bytes + i * index->padded);
    if (index->lead.n > 0)
      kf_query_round_fine(index, g->kernels, kf_strips_row(g, at), g->wide, &g->query[at],
                          g->fine + at * (2 * (uint64_t)index->fine_dim));
  }
  g->scan->pack(g->bytes, n, index->padded, g->packed + strip * g->packed_size);
}

/* The leading directions of queries [first, first + n), n <= KF_LEAD_ROWS. */
static void see_queries(kf_query_strips *g, uint32_t first, uint32_t n) {
  const kf_index *index = g->index;
  double length2[KF_LEAD_ROWS] = {0};
  for (uint32_t r = 0; r < n; r++) {
    const float *x = g->x + (uint64_t)(first + r) * index->dim;
    kf_centre_row(index, x, kf_row_scale(index, g->given[first + r].norm2), g->wide);
    length2[r] = g->kernels->dot(index->dim, g->wide, g->wide);
    bool fits = g->given[first + r].largest < INFINITY;
    for (uint32_t j = 0; j < index->dim; j++)
      g->columns[j * KF_LEAD_ROWS + r] = fits ? (float)g->wide[j] : 0;
  }
  float *seen = g->seen + (uint64_t)first * index->seen;
  kf_lead_see(&index->lead, g->kernels, index->dim, g->columns, length2, n,
              g->columns + index->dim * (uint64_t)KF_LEAD_ROWS, seen);
  for (uint32_t r = 0; r < n; r++, seen += index->seen) {
    double *largest = &g->given[first + r].largest;
    if (!(*largest < INFINITY)) continue;
    *largest = kf_lead_largest(&index->lead, seen);
  }
}

void kf_query_strips_take(kf_query_strips *g, const float *x, uint32_t n, bool by_size) {
  g->x = x;
  g->n = n;
  g->n_strips = (n + (uint32_t)g->scan->strip - 1) / (uint32_t)g->scan->strip;
  for (uint32_t i = 0; i < n; i++) {
    g->order[i] = i;
    g->given[i] = kf_query_start(g->index, g->kernels, kf_strips_row(g, i), g->wide);
  }
  for (uint32_t i = 0; g->index->lead.n > 0 && i < n; i += KF_LEAD_ROWS)
    see_queries(g, i, n - i < KF_LEAD_ROWS ? n - i : KF_LEAD_ROWS);
  if (by_size) sort_queries(g);
  for (uint32_t strip = 0; strip < g->n_strips; strip++) pack_strip(g, strip);
}

kf_scan kf_query_strips_scan(const kf_query_strips *g, uint32_t strip, uint64_t row, uint64_t rows,
                             double *value_of_one) {
  const kf_index *index = g->index;
  double one = kf_value_of_one(g->factor[strip], &index->blocks[row / index->block_rows]);
  *value_of_one = one;
  return (kf_scan){.dim = index->padded,
                   .panels = index->packed + row * index->padded,
                   .n_panels = rows / KF_PANEL,
                   .offset = index->offset + row,
                   .unit = one > 0 ? (float)(1 / one) : 1,
                   .queries = g->packed + strip * g->packed_size,
                   .n = strip_size(g, strip),
                   .floor = g->floor + kf_strip_first(g, strip),
                   .hits = g->hits};
}
