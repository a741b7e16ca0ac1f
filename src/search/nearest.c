/* nearest.c - the k nearest rows of a batch of queries.
 *
 * A batch of queries, rounded to 8 bits, meets the packed rows block by block; a block stays in the
 * second-level cache while all queries pass over it. Scores do not leave the kernel: it compares
 * them with what each query still asks for, and hands out the few rows that reach it. Those go to
 * the shortlist of the query, which raises what is asked for. What is asked for in the beginning
 * comes from a look at the first rows.
 *
 * Many queries are divided among threads; few queries are searched by all threads together, each in
 * its own part of the rows, and the shortlists are merged. */
#include "search/shortlist.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BATCH       384u        /* queries that pass over the rows together, at most */
#define BATCH_BYTES (16u << 20) /* of their shortlists */
#define FIRST_ROWS  64u         /* of a span, at least; spans grow by half, up to a block */
#define FEW         8u          /* queries for each thread below which rows are divided instead */

/* --- what a thread works with ---------------------------------------------------------------- */

typedef struct finder {
  const kf_index *index;
  const kf_kernels *kernels;
  const kf_scan_kernel *scan;
  uint32_t k, capacity, batch;
  size_t group_size;   /* bytes of a packed group */
  kf_query *given;     /* [batch] queries as they come */
  uint32_t *order;     /* [batch] them by size, so that those of a group are alike */
  kf_query *query;     /* [batch] in this order, as is what follows */
  double *margin;      /* [batch] in the block at hand */
  float *factor;       /* [groups] */
  int32_t *floor;      /* [batch] */
  char *packed;        /* [groups][group_size] */
  kf_shortlist *lists; /* [batch] */
  kf_pending *pending; /* [batch][capacity] */
  double *lower;       /* [batch][k] */
  kf_scored *scored;   /* [batch][k] */
  int8_t *bytes;       /* [group][padded], and other scratch: */
  double *wide;        /* [2 * dim] */
  float *fetched;      /* [KF_SCORE_ROWS][dim] */
  kf_hit *hits;        /* [group * block_rows] */
  int32_t *peaks;      /* [group][KF_PEAKS] */
  double *lowest;      /* [group][KF_PEAKS] */
  uint64_t candidates;
} finder;

/* Pending rows of a query: more than k, or they would be scored again and again. */
static uint32_t capacity_for(uint32_t k) { return 2 * k + 256; }

/* How many queries a finder takes at a time, of n. */
static uint32_t batch_for(uint32_t k, uint64_t n) {
  uint64_t each = capacity_for(k) * sizeof(kf_pending) + k * (sizeof(double) + sizeof(kf_scored));
  uint64_t most = BATCH_BYTES / each;
  if (most > BATCH) most = BATCH;
  if (most > n) most = n;
  return most < 1 ? 1 : (uint32_t)most;
}

static void finder_free(finder *f) {
  if (f == NULL) return;
  kf_free(f->given);
  kf_free(f->order);
  kf_free(f->margin);
  kf_free(f->query);
  kf_free(f->factor);
  kf_free(f->floor);
  kf_free(f->packed);
  kf_free(f->bytes);
  kf_free(f->wide);
  kf_free(f->fetched);
  kf_free(f->hits);
  kf_free(f->peaks);
  kf_free(f->lowest);
  kf_free(f->lists);
  kf_free(f->pending);
  kf_free(f->lower);
  kf_free(f->scored);
  kf_free(f);
}

static kf_status finder_new(const kf_index *index, const kf_kernels *kernels, uint32_t k,
                            uint32_t batch, finder **out, kf_err *err) {
  finder *f = kf_alloc_zero(1, sizeof *f);
  if (f == NULL) return kf_fail_memory(err);
  const kf_scan_kernel *scan = kernels->scan;
  f->index = index;
  f->kernels = kernels;
  f->scan = scan;
  f->k = k;
  f->batch = batch;
  f->capacity = capacity_for(k);
  f->group_size = scan->size(index->padded);
  f->given = kf_alloc(batch, sizeof *f->given);
  f->order = kf_alloc(batch, sizeof *f->order);
  f->margin = kf_alloc(batch, sizeof *f->margin);
  f->query = kf_alloc(batch, sizeof *f->query);
  f->factor = kf_alloc(batch, sizeof *f->factor);
  f->floor = kf_alloc(batch, sizeof *f->floor);
  f->packed = kf_alloc((batch + scan->group - 1) / scan->group, f->group_size);
  f->bytes = kf_alloc(scan->group, index->padded);
  f->wide = kf_alloc(2 * (uint64_t)index->dim, sizeof *f->wide);
  f->fetched = kf_alloc(KF_SCORE_ROWS * (uint64_t)index->dim, sizeof *f->fetched);
  f->hits = kf_alloc(scan->group * (uint64_t)index->block_rows, sizeof *f->hits);
  f->peaks = kf_alloc(scan->group * KF_PEAKS, sizeof *f->peaks);
  f->lowest = kf_alloc(scan->group * KF_PEAKS, sizeof *f->lowest);
  f->lists = kf_alloc(batch, sizeof *f->lists);
  f->pending = kf_alloc((uint64_t)batch * f->capacity, sizeof *f->pending);
  f->lower = kf_alloc((uint64_t)batch * k, sizeof *f->lower);
  f->scored = kf_alloc((uint64_t)batch * k, sizeof *f->scored);
  if (!(f->given && f->order && f->margin && f->query && f->factor && f->floor && f->packed &&
        f->bytes && f->wide && f->fetched && f->hits && f->peaks && f->lowest && f->lists &&
        f->pending && f->lower && f->scored)) {
    finder_free(f);
    return kf_fail_memory(err);
  }
  for (uint32_t i = 0; i < batch; i++) {
    f->lists[i].pending = f->pending + (uint64_t)i * f->capacity;
    f->lists[i].lower = f->lower + (uint64_t)i * k;
    f->lists[i].scored = f->scored + (uint64_t)i * k;
  }
  *out = f;
  return KF_OK;
}

/* --- the first pass -------------------------------------------------------------------------- */

/* A batch of queries as the scores see them. */
typedef struct batch {
  const float *x; /* [n][dim] */
  uint32_t n;
  const int64_t *leave_out; /* [n] or NULL */
} batch;

/* Queries by their largest number, and where that is the same by their place. */
static void sort_queries(finder *f, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    uint32_t at = i;
    for (; at > 0 && f->given[f->order[at - 1]].largest > f->given[i].largest; at--)
      f->order[at] = f->order[at - 1];
    f->order[at] = i;
  }
}

static const float *query_row(const finder *f, const batch *b, uint32_t i) {
  return b->x + (uint64_t)f->order[i] * f->index->dim;
}

/* How many queries a group has: the last one may not be full. */
static uint32_t group_queries(const finder *f, const batch *b, uint32_t group) {
  uint32_t full = (uint32_t)f->scan->group, left = b->n - group * full;
  return left < full ? left : full;
}

/* The queries that make up a group, with the factor of the largest that is not too
 * long. */
static void take_group(finder *f, const batch *b, uint32_t group) {
  const kf_index *index = f->index;
  uint32_t first = group * (uint32_t)f->scan->group, n = group_queries(f, b, group);
  double largest = 0;
  for (uint32_t i = first; i < first + n; i++) {
    double own = f->given[f->order[i]].largest;
    if (own < INFINITY && own > largest) largest = own;
  }
  f->factor[group] = kf_query_factor(index, f->kernels, largest);
  for (uint32_t i = 0; i < n; i++) {
    kf_query *q = &f->query[first + i];
    *q = f->given[f->order[first + i]];
    kf_query_round(index, f->kernels, query_row(f, b, first + i), f->factor[group], f->wide, q,
                   f->bytes + i * index->padded);
    kf_shortlist_start(&f->lists[first + i], f->k);
  }
  f->scan->pack(f->bytes, n, index->padded, f->packed + group * f->group_size);
}

static void take_queries(finder *f, const batch *b) {
  for (uint32_t i = 0; i < b->n; i++)
    f->given[i] = kf_query_start(f->index, f->kernels, b->x + (uint64_t)i * f->index->dim, f->wide);
  sort_queries(f, b->n);
  for (uint32_t group = 0; group * f->scan->group < b->n; group++) take_group(f, b, group);
}

static kf_scorer scorer_for(finder *f, const batch *b, uint32_t i) {
  return (kf_scorer){.index = f->index,
                     .kernels = f->kernels,
                     .query = &f->query[i],
                     .x = query_row(f, b, i),
                     .fetched = f->fetched};
}

static kf_status make_room(finder *f, const batch *b, uint32_t i, kf_err *err) {
  kf_scorer scorer = scorer_for(f, b, i);
  KF_TRY(kf_shortlist_make_room(&f->lists[i], f->k, f->capacity, f->margin[i], &scorer, err));
  f->candidates += scorer.candidates;
  return KF_OK;
}

/* A hit of query i becomes a candidate. */
static inline kf_status take_hit(finder *f, const batch *b, uint32_t i, uint64_t row, double value,
                                 kf_err *err) {
  kf_shortlist *list = &f->lists[i];
  if (row >= f->index->n) return KF_OK;
  if (b->leave_out != NULL && b->leave_out[f->order[i]] == (int64_t)row) return KF_OK;
  double upper = value + f->margin[i], lower = value - f->margin[i];
  bool known = isfinite(upper); /* else a row or a query of which nothing is known */
  if (list->n_pending == f->capacity) KF_TRY(make_room(f, b, i, err));
  kf_shortlist_offer(list, f->k, known ? upper : INFINITY, known ? lower : -INFINITY, row);
  return KF_OK;
}

/* What the kernel is told of some panels of one block and of a group of queries, besides floors, and
 * what 1 in a dot product is worth: 0 where that is of no use, and every row is to be a hit. */
static kf_scan scan_of(finder *f, const batch *b, uint32_t group, uint64_t row, uint64_t rows,
                       double *value_of_one) {
  const kf_index *index = f->index;
  const kf_block *block = &index->blocks[row / index->block_rows];
  double one = *value_of_one = kf_value_of_one(f->factor[group], block);
  return (kf_scan){.dim = index->padded,
                   .panels = index->packed + row * index->padded,
                   .n_panels = rows / KF_PANEL,
                   .offset = index->offset + row,
                   .unit = one > 0 ? (float)(1 / one) : 1,
                   .queries = f->packed + group * f->group_size,
                   .n = group_queries(f, b, group),
                   .floor = f->floor + group * f->scan->group,
                   .hits = f->hits};
}

/* Some panels of one block against one group of queries. */
static kf_status scan_group(finder *f, const batch *b, uint32_t group, uint64_t row, uint64_t rows,
                            const uint8_t *next, size_t next_size, kf_err *err) {
  const kf_index *index = f->index;
  const kf_block *block = &index->blocks[row / index->block_rows];
  double value_of_one;
  kf_scan s = scan_of(f, b, group, row, rows, &value_of_one);
  uint32_t first_query = group * (uint32_t)f->scan->group;
  for (uint32_t i = first_query; i < first_query + s.n; i++) {
    f->margin[i] = kf_margin(&f->query[i], block);
    f->floor[i] = kf_floor(f->lists[i].least, f->margin[i], value_of_one, block);
  }
  s.next = next;
  s.next_size = next_size;
  size_t n_hits = f->scan->scan(&s);
  double factor = (double)f->factor[group] * (double)block->scale;
  for (const kf_hit *h = f->hits; h < f->hits + n_hits; h++) {
    double value = (double)h->dot * factor - (double)index->offset[row + h->row];
    KF_TRY(take_hit(f, b, first_query + h->query, row + h->row, value, err));
  }
  return KF_OK;
}

/* --- the first floor ------------------------------------------------------------------------- */

#define PEAK_ROWS 1024u

/* How many of so many rows are looked at beforehand; 0: too few to be worth it, or k is too large. */
static uint64_t peak_rows(const finder *f, uint64_t rows) {
  uint64_t some = rows / 16 / KF_PEAKS * KF_PEAKS;
  if (some < PEAK_ROWS / 4 || f->k > KF_PEAKS / 2) return 0;
  return some < PEAK_ROWS ? some : PEAK_ROWS;
}

/* The lower bounds of what has the peaks of query i in a block, where these are better. A peak is off
 * by the rounding of its offset; far out, it is not that of a row of which something is known. */
static void raise_lowers(const finder *f, uint32_t i, const kf_block *block, double value_of_one,
                         const int32_t *peaks, double *lower) {
  double margin = kf_margin(&f->query[i], block);
  double off = 0x1p-22 * (double)block->offset / value_of_one + 3;
  for (uint32_t r = 0; r < KF_PEAKS; r++) {
    double value = ((double)peaks[r] - off) * value_of_one;
    double least = value - 0x1p-40 * fabs(value) - margin;
    if (abs(peaks[r]) < KF_SCAN_LIMIT / 2 && least > lower[r]) lower[r] = least;
  }
}

/* Rows from `begun` on, in KF_PEAKS classes by their number: the best of each class is a row of its
 * own, so that the k-th best of these is a floor to begin with. It saves most of the hits that rows
 * would be while little is known. */
static void find_floor(finder *f, const batch *b, uint32_t group, uint64_t begun, uint64_t rows) {
  const kf_index *index = f->index;
  uint32_t first = group * (uint32_t)f->scan->group, n = group_queries(f, b, group);
  for (uint32_t i = 0; i < n * KF_PEAKS; i++) f->lowest[i] = -INFINITY;
  for (uint64_t row = begun, step; row < begun + rows; row += step) {
    step = index->block_rows - row % index->block_rows;
    if (step > begun + rows - row) step = begun + rows - row;
    double value_of_one;
    kf_scan s = scan_of(f, b, group, row, step, &value_of_one);
    if (!(value_of_one > 0)) continue;
    f->scan->peaks(&s, f->peaks);
    for (uint32_t i = 0; i < n; i++)
      raise_lowers(f, first + i, &index->blocks[row / index->block_rows], value_of_one,
                   f->peaks + i * KF_PEAKS, f->lowest + i * KF_PEAKS);
  }
  for (uint32_t i = 0; i < n; i++) {
    int64_t left_out = b->leave_out != NULL ? b->leave_out[f->order[first + i]] : -1;
    if (left_out >= 0) f->lowest[i * KF_PEAKS + left_out % KF_PEAKS] = -INFINITY;
    kf_shortlist_expect(&f->lists[first + i], f->k, f->lowest + i * KF_PEAKS, KF_PEAKS);
  }
}

/* --- span by span ---------------------------------------------------------------------------- */

/* How many rows the span that begins at `row` has, where floors are those of `seen` rows: spans grow
 * with that, since each raises what is asked for, and end where a block does. */
static uint64_t span_rows(const kf_index *index, uint64_t row, uint64_t seen) {
  uint64_t rows = index->block_rows - row % index->block_rows;
  uint64_t most = seen / 2 / FIRST_ROWS * FIRST_ROWS;
  if (most < FIRST_ROWS) most = FIRST_ROWS;
  return rows < most ? rows : most;
}

/* The blocks from `block` up to `end`, span by span. While a group of queries passes over a span, its
 * share of the next span is asked for; not so where there are one or two groups, which read as fast as
 * memory goes. */
static kf_status scan_blocks(finder *f, const batch *b, uint64_t block, uint64_t end, kf_err *err) {
  const kf_index *index = f->index;
  uint64_t begun = block * index->block_rows, last = end * index->block_rows, rows;
  uint32_t groups = (b->n + (uint32_t)f->scan->group - 1) / (uint32_t)f->scan->group;
  uint64_t seen = peak_rows(f, last - begun);
  kf_status status = KF_OK;
  if (f->scan->begin != NULL) f->scan->begin(index->padded);
  for (uint32_t g = 0; seen > 0 && g < groups; g++) find_floor(f, b, g, begun, seen);
  for (uint64_t row = begun; status == KF_OK && row < last; row += rows) {
    if (seen < row - begun) seen = row - begun;
    rows = span_rows(index, row, seen);
    const uint8_t *next = index->packed + (row + rows) * index->padded;
    bool ask = groups > 2 && row + rows < last;
    size_t size = ask ? span_rows(index, row + rows, seen) * index->padded : 0;
    for (uint32_t g = 0; status == KF_OK && g < groups; g++) {
      size_t from = size * g / groups, to = size * (g + 1) / groups;
      status = scan_group(f, b, g, row, rows, next + from, to - from, err);
    }
  }
  if (f->scan->end != NULL) f->scan->end();
  return status;
}

/* --- the answer ------------------------------------------------------------------------------ */

typedef struct answer {
  int64_t *rows;  /* [n][k] */
  double *scores; /* [n][k] or NULL */
} answer;

/* Scores what is left of query i, and writes its answer. */
static kf_status finish(finder *f, const batch *b, uint32_t i, const answer *a, kf_err *err) {
  kf_shortlist *list = &f->lists[i];
  kf_scorer scorer = scorer_for(f, b, i);
  KF_TRY(kf_shortlist_settle(list, f->k, &scorer, err));
  f->candidates += scorer.candidates;
  for (uint32_t t = 0; t < f->k; t++) {
    uint64_t at = (uint64_t)f->order[i] * f->k + t;
    double value = list->scored[t].value;
    a->rows[at] = (int64_t)list->scored[t].row;
    if (a->scores != NULL)
      a->scores[at] = f->index->metric == KF_METRIC_EUCLIDEAN ? sqrt(value) : -value;
  }
  return KF_OK;
}

static kf_status find(finder *f, const batch *b, const answer *a, kf_err *err) {
  take_queries(f, b);
  KF_TRY(scan_blocks(f, b, 0, f->index->n_blocks, err));
  for (uint32_t i = 0; i < b->n; i++) KF_TRY(finish(f, b, i, a, err));
  return KF_OK;
}

/* Everything that is asked for, of which a batch is a part. */
typedef struct request {
  const kf_index *index;
  const float *queries;
  uint64_t n;
  uint32_t k;
  const int64_t *leave_out;
  int64_t *rows;
  double *scores;
} request;

static batch batch_of(const request *r, uint64_t first, uint64_t n) {
  return (batch){.x = r->queries + first * r->index->dim,
                 .n = (uint32_t)n,
                 .leave_out = r->leave_out != NULL ? r->leave_out + first : NULL};
}

static answer answer_of(const request *r, uint64_t first) {
  return (answer){.rows = r->rows + first * r->k,
                  .scores = r->scores != NULL ? r->scores + first * r->k : NULL};
}

kf_status kf_index_nearest(const kf_index *index, const kf_kernels *kernels, const float *queries,
                           uint64_t n, uint32_t k, const int64_t *leave_out, int64_t *rows,
                           double *scores, uint64_t *candidates, kf_err *err) {
  request r = {index, queries, n, k, leave_out, rows, scores};
  if (n == 0) return KF_OK;
  finder *f;
  KF_TRY(finder_new(index, kernels, k, batch_for(k, n), &f, err));
  kf_status status = KF_OK;
  for (uint64_t first = 0; status == KF_OK && first < n; first += f->batch) {
    batch b = batch_of(&r, first, n - first < f->batch ? n - first : f->batch);
    answer a = answer_of(&r, first);
    status = find(f, &b, &a, err);
  }
  if (candidates != NULL) *candidates += f->candidates;
  finder_free(f);
  return status;
}

/* --- many queries, divided among threads ----------------------------------------------------- */

typedef struct parallel_job {
  request r;
  const kf_kernels *kernels;
  uint32_t batch;
  uint64_t parts;   /* of the rows, where these are divided */
  finder **finders; /* one for each worker, or for each part */
} parallel_job;

static kf_status find_batch(void *argument, size_t i, size_t worker, kf_err *err) {
  const parallel_job *j = argument;
  finder **f = &j->finders[worker];
  if (*f == NULL) KF_TRY(finder_new(j->r.index, j->kernels, j->r.k, j->batch, f, err));
  uint64_t first = (uint64_t)i * j->batch, left = j->r.n - first;
  batch b = batch_of(&j->r, first, left < j->batch ? left : j->batch);
  answer a = answer_of(&j->r, first);
  return find(*f, &b, &a, err);
}

/* --- few queries, rows divided among threads ------------------------------------------------- */

static kf_status find_in_part(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)worker;
  const parallel_job *j = argument;
  KF_TRY(finder_new(j->r.index, j->kernels, j->r.k, j->batch, &j->finders[i], err));
  batch b = batch_of(&j->r, 0, j->r.n);
  take_queries(j->finders[i], &b);
  uint64_t blocks = j->r.index->n_blocks;
  return scan_blocks(j->finders[i], &b, blocks * i / j->parts, blocks * (i + 1) / j->parts, err);
}

static kf_status merge_parts(const parallel_job *j, kf_err *err) {
  finder *f = j->finders[0];
  batch b = batch_of(&j->r, 0, j->r.n);
  answer a = answer_of(&j->r, 0);
  for (uint32_t i = 0; i < b.n; i++) {
    kf_scorer scorer = scorer_for(f, &b, i);
    for (uint64_t p = 1; p < j->parts; p++)
      KF_TRY(kf_shortlist_merge(&f->lists[i], &j->finders[p]->lists[i], f->k, f->capacity,
                                f->margin[i], &scorer, err));
    f->candidates += scorer.candidates;
    KF_TRY(finish(f, &b, i, &a, err));
  }
  return KF_OK;
}

/* --- both ------------------------------------------------------------------------------------ */

/* Batches of equal size, a few for each thread, so that none waits long for the last. */
static uint32_t even_batch(uint64_t n, uint32_t most, unsigned threads) {
  uint64_t rounds = (n + (uint64_t)most * threads - 1) / ((uint64_t)most * threads);
  uint64_t batches = rounds * threads;
  return batches < 2 ? (uint32_t)n : (uint32_t)((n + batches - 1) / batches);
}

kf_status kf_index_nearest_parallel(kf_ctx *ctx, const kf_index *index, const float *queries,
                                    uint64_t n, uint32_t k, const int64_t *leave_out, int64_t *rows,
                                    double *scores, uint64_t *candidates) {
  if (n == 0) return KF_OK;
  parallel_job j = {.r = {index, queries, n, k, leave_out, rows, scores},
                    .kernels = ctx->kernels,
                    .batch = batch_for(k, n)};
  bool few = n <= (uint64_t)FEW * ctx->threads && n <= j.batch && ctx->threads > 1 &&
             index->n_blocks >= ctx->threads;
  j.parts = few ? ctx->threads : 1;
  if (!few) j.batch = even_batch(n, j.batch, ctx->threads);
  uint64_t finders = few ? j.parts : ctx->threads;
  j.finders = kf_alloc_zero(finders, sizeof *j.finders);
  kf_status status = j.finders != NULL ? KF_OK : kf_fail_memory(&ctx->err);
  if (status == KF_OK && few) {
    status = kf_parallel(ctx, (size_t)j.parts, find_in_part, &j);
    if (status == KF_OK) status = merge_parts(&j, &ctx->err);
  } else if (status == KF_OK) {
    status = kf_parallel(ctx, (size_t)((n + j.batch - 1) / j.batch), find_batch, &j);
  }
  for (uint64_t i = 0; j.finders != NULL && i < finders; i++) {
    if (j.finders[i] == NULL) continue;
    if (candidates != NULL) *candidates += j.finders[i]->candidates;
    finder_free(j.finders[i]);
  }
  kf_free(j.finders);
  return status;
}
