/* reach.c - the rows whose scores may reach what each query asks for.
 *
 * The first pass of a search alone: 8-bit products and their error bound rule out all rows but a
 * few, and the caller decides on those in whatever arithmetic it likes. Where the question is 'does
 * any row come before this score?', no list needs to be kept and no row to be read. */
#include "search/index.h"

#include <math.h>

typedef struct reacher {
  const kf_index *index;
  const kf_kernels *kernels;
  const kf_scan_kernel *scan;
  const float *queries;
  const double *least; /* [n] scores */
  uint64_t n;
  kf_reach_fn use;
  void *argument;
  size_t group_size; /* bytes of a packed group */
  kf_query *query;   /* [n] */
  float *factor;     /* [groups] */
  char *packed;      /* [groups][group_size] */
  int32_t *floor;    /* [group] */
  int8_t *bytes;     /* [group][padded] */
  double *wide;      /* [2 * dim] */
  kf_hit *hits;      /* [group * block_rows] */
} reacher;

/* How many queries the group has that begins at `first`. */
static size_t group_queries(const reacher *r, uint64_t first) {
  return r->n - first < r->scan->group ? (size_t)(r->n - first) : r->scan->group;
}

static void take_group(reacher *r, uint64_t first) {
  const kf_index *index = r->index;
  size_t n = group_queries(r, first), group = first / r->scan->group;
  const float *x = r->queries + first * index->dim;
  kf_query *query = r->query + first;
  double largest = 0;
  for (size_t i = 0; i < n; i++) {
    query[i] = kf_query_start(index, r->kernels, x + i * index->dim, r->wide);
    if (query[i].largest < INFINITY && query[i].largest > largest) largest = query[i].largest;
  }
  r->factor[group] = kf_query_factor(index, r->kernels, largest);
  for (size_t i = 0; i < n; i++)
    kf_query_round(index, r->kernels, x + i * index->dim, r->factor[group], r->wide, &query[i],
                   r->bytes + i * index->padded);
  r->scan->pack(r->bytes, n, index->padded, r->packed + group * r->group_size);
}

/* One block of rows against the group that begins at `first`. */
static void scan_group(reacher *r, uint64_t number, uint64_t first) {
  const kf_index *index = r->index;
  const kf_block *block = &index->blocks[number];
  size_t n = group_queries(r, first), group = first / r->scan->group;
  double one = kf_value_of_one(r->factor[group], block);
  for (size_t i = 0; i < n; i++) {
    const kf_query *query = &r->query[first + i];
    double key = kf_key(index, query, r->least[first + i]);
    r->floor[i] = kf_floor(key, kf_margin(query, block), one, block);
  }
  uint64_t row = number * index->block_rows;
  kf_scan s = {.dim = index->padded,
               .panels = index->packed + row * index->padded,
               .n_panels = index->block_rows / KF_PANEL,
               .offset = index->offset + row,
               .unit = one > 0 ? (float)(1 / one) : 1,
               .queries = r->packed + group * r->group_size,
               .n = n,
               .floor = r->floor,
               .hits = r->hits};
  size_t n_hits = r->scan->scan(&s);
  for (const kf_hit *h = r->hits; h < r->hits + n_hits; h++)
    if (row + h->row < index->n) r->use(r->argument, first + h->query, row + h->row);
}

static void run(reacher *r) {
  for (uint64_t first = 0; first < r->n; first += r->scan->group) take_group(r, first);
  if (r->scan->begin != NULL) r->scan->begin(r->index->padded);
  for (uint64_t block = 0; block < r->index->n_blocks; block++)
    for (uint64_t first = 0; first < r->n; first += r->scan->group) scan_group(r, block, first);
  if (r->scan->end != NULL) r->scan->end();
}

kf_status kf_index_reaching(const kf_index *index, const kf_kernels *kernels, const float *queries,
                            uint64_t n, const double *least, kf_reach_fn use, void *argument,
                            kf_err *err) {
  const kf_scan_kernel *scan = kernels->scan;
  uint64_t group = scan->group, groups = (n + group - 1) / group;
  reacher r = {.index = index,
               .kernels = kernels,
               .scan = scan,
               .queries = queries,
               .least = least,
               .n = n,
               .use = use,
               .argument = argument,
               .group_size = scan->size(index->padded),
               .query = kf_alloc(n, sizeof *r.query),
               .factor = kf_alloc(groups, sizeof *r.factor),
               .packed = kf_alloc(groups, scan->size(index->padded)),
               .floor = kf_alloc(group, sizeof *r.floor),
               .bytes = kf_alloc(group, index->padded),
               .wide = kf_alloc(2 * (uint64_t)index->dim, sizeof *r.wide),
               .hits = kf_alloc(group * index->block_rows, sizeof *r.hits)};
  bool all = r.query && r.factor && r.packed && r.floor && r.bytes && r.wide && r.hits;
  if (all) run(&r);
  kf_free(r.query);
  kf_free(r.factor);
  kf_free(r.packed);
  kf_free(r.floor);
  kf_free(r.bytes);
  kf_free(r.wide);
  kf_free(r.hits);
  return all ? KF_OK : kf_fail_memory(err);
}
