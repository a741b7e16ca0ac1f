/* reach.c - the rows whose scores may reach a given score.
 *
 * The first pass of a search alone: 8-bit products and their error bound rule out most rows, and
 * the caller decides on the survivors in any arithmetic. No list is kept and no row is read. */
#include "search/index.h"

/* One strip of queries against one block of rows. */
static void scan_strip(const kf_query_strips *g, uint64_t number, uint32_t strip,
                       const double *least_score, kf_reach_fn use, void *argument) {
  const kf_index *index = g->index;
  const kf_row_block *block = &index->blocks[number];
  uint64_t row = number * index->block_rows;
  uint32_t first = kf_strip_first(g, strip);
  double one;
  kf_scan s = kf_query_strips_scan(g, strip, row, index->block_rows, &one);
  for (uint32_t i = first; i < first + s.n; i++) {
    double key = kf_key(index, &g->query[i], least_score[g->order[i]]);
    g->floor[i] = kf_floor(key, kf_margin(index, &g->query[i], block), one, block);
  }
  size_t n_hits = g->scan->scan(&s);
  for (const kf_hit *h = g->hits; h < g->hits + n_hits; h++) {
    uint64_t at = row + h->row;
    if (at < index->n) use(argument, g->order[first + h->query], at);
  }
}

kf_status kf_index_reaching(const kf_index *index, const kf_kernels *kernels, const float *queries,
                            uint64_t n, const double *least_score, uint64_t block, uint64_t end,
                            kf_reach_fn use, void *argument, kf_err *err) {
  kf_query_strips g;
  kf_arena arena = {0};
  kf_query_strips_make(&g, index, kernels, (uint32_t)n, &arena);
  kf_status status = arena.failed ? kf_fail_memory(err) : KF_OK;
  if (status == KF_OK) {
    kf_query_strips_take(&g, queries, (uint32_t)n, false);
    if (g.scan->begin != NULL) g.scan->begin(index->padded);
    for (; block < end; block++)
      for (uint32_t strip = 0; strip < g.n_strips; strip++)
        scan_strip(&g, block, strip, least_score, use, argument);
    if (g.scan->end != NULL) g.scan->end();
  }
  kf_arena_free(&arena);
  return status;
}
