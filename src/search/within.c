/* within.c - all rows within a limit, and clusters of near-duplicates.
 *
 * The first pass of a search (reach.c) finds the rows whose canonical scores may reach the limit;
 * these are scored, and the score decides. Rows are divided among threads by blocks, so one query
 * is as parallel as many. The answers of a query are then sorted as in a search: by exact scores
 * where canonical ones are too close.
 *
 * If rows are divided among ranks, each finds its own; all are joined and then sorted, by every
 * rank alike.
 *
 * Clusters of near-duplicates are the connected components of the graph of such rows. Each is named
 * by its lowest row, so the order of the edges does not matter. */
#include "search/gallery.h"
#include "search/shortlist.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#define MAX_ANSWERS ((uint64_t)1 << 24) /* of several queries together */
#define SLICES      4u                  /* of the rows, for each thread */

/* --- finding --------------------------------------------------------------------------------- */

typedef struct answer {
  uint32_t query;
  kf_scored scored;
} answer;

/* A slice of the rows, searched by one worker. */
typedef struct slice {
  const struct range_job *job;
  kf_scorer scorer;
  answer *found;
  size_t n, room;
  kf_status status; /* of the callback, which cannot fail itself */
  kf_err *err;
} slice;

typedef struct range_job {
  kf_ctx *ctx;
  const kf_gallery *gallery;
  const kf_index *index;
  const kf_filter *only;
  double limit;
  const float *queries; /* [n][dim] the current ones */
  uint32_t n;
  int64_t *leave_out;  /* [n] or NULL */
  kf_query *query;     /* [n] just lengths and shares */
  double *least_score; /* [n] */
  slice *slices;
  uint64_t n_slices;
  _Atomic uint64_t answers; /* of all slices */
  bool bounded;             /* gives up above MAX_ANSWERS */
  /* results */
  uint64_t *ends; /* [n] */
  answer *sorted;
  int64_t *rows;
  double *scores;
} range_job;

static bool reaches(const range_job *j, double value) {
  return j->index->metric == KF_METRIC_EUCLIDEAN ? sqrt(value) <= j->limit : -value >= j->limit;
}

static bool is_over(const range_job *j) {
  return j->bounded && atomic_load_explicit(&j->answers, memory_order_relaxed) > MAX_ANSWERS;
}

/* row: its number among the rows of this rank. */
static void take(void *argument, uint64_t query, uint64_t row) {
  slice *s = argument;
  const range_job *j = s->job;
  uint64_t number = row + j->gallery->first;
  if (s->status != KF_OK || !kf_filter_takes(j->only, number) || is_over(j)) return;
  if (j->leave_out != NULL && j->leave_out[query] == (int64_t)number) return;
  answer a = {.query = (uint32_t)query};
  s->scorer.query = &j->query[query];
  s->scorer.x = j->queries + query * j->index->dim;
  s->status = kf_score_rows(&s->scorer, &row, 1, &a.scored, s->err);
  if (s->status != KF_OK || !reaches(j, a.scored.value)) return;
  a.scored.row = number;
  if (!kf_grow((void **)&s->found, &s->room, s->n, sizeof *s->found)) {
    s->status = kf_fail_memory(s->err);
    return;
  }
  s->found[s->n++] = a;
  atomic_fetch_add_explicit(&((range_job *)(uintptr_t)j)->answers, 1, memory_order_relaxed);
}

static kf_status search_slice(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)worker;
  range_job *j = argument;
  slice *s = &j->slices[i];
  uint64_t blocks = j->index->n_blocks;
  float *fetched = kf_alloc((uint64_t)KF_SCORE_ROWS * j->index->dim, sizeof *fetched);
  if (fetched == NULL) return kf_fail_memory(err);
  s->job = j;
  s->err = err;
  s->scorer = (kf_scorer){.index = j->index, .kernels = j->ctx->kernels, .fetched = fetched};
  kf_status status =
      kf_index_reaching(j->index, j->ctx->kernels, j->queries, j->n, j->least_score,
                        blocks * i / j->n_slices, blocks * (i + 1) / j->n_slices, take, s, err);
  kf_free(fetched);
  return status == KF_OK ? s->status : status;
}

/* The limit as a canonical score: for distances squared, with room for the rounding of the root. */
static double least_score(const range_job *j) {
  if (j->index->metric != KF_METRIC_EUCLIDEAN) return j->limit;
  return j->limit < 0 ? -1 : j->limit * j->limit * (1 + 0x1p-50);
}

static kf_status find(range_job *j) {
  kf_ctx *ctx = j->ctx;
  for (uint32_t i = 0; i < j->n; i++) {
    double norm2 = ctx->kernels->norm2(j->queries + (uint64_t)i * j->index->dim, j->index->dim);
    j->query[i] = (kf_query){.norm2 = norm2, .share = kf_query_share(j->index, norm2)};
    j->least_score[i] = least_score(j);
  }
  atomic_store(&j->answers, 0);
  return kf_parallel(ctx, (size_t)j->n_slices, search_slice, j);
}

/* --- of all ranks ---------------------------------------------------------------------------- */

static bool is_divided(const kf_gallery *g) { return g->rows != kf_index_rows(g->index); }

/* Copies this rank's answers to their place among those of all. */
static void copy_own(const range_job *j, answer *to) {
  for (uint64_t s = 0; s < j->n_slices; s++) {
    if (j->slices[s].n > 0) memcpy(to, j->slices[s].found, j->slices[s].n * sizeof *to);
    to += j->slices[s].n;
  }
}

/* Joins the answers of all ranks into one slice, unless there are too many. */
static kf_status join_ranks(range_job *j, kf_status status) {
  kf_ctx *ctx = j->ctx;
  const kf_ranks *r = &ctx->ranks;
  uint64_t *each = kf_alloc_zero(r->size, sizeof *each), total = 0, begin = 0;
  if (status == KF_OK && each == NULL) status = kf_fail_memory(&ctx->err);
  if (status == KF_OK) each[r->rank] = atomic_load(&j->answers);
  status = kf_join_each(ctx, status, each, sizeof *each);
  for (uint32_t i = 0; status == KF_OK && i < r->size; i++) {
    if (i == r->rank) begin = total;
    total += each[i];
    r->ends[i] = total;
  }
  kf_free(each);
  if (status != KF_OK) return status;
  atomic_store(&j->answers, total);
  if (is_over(j)) return KF_OK;
  answer *all = kf_alloc(total + 1, sizeof *all);
  if (all == NULL)
    status = kf_fail_memory(&ctx->err);
  else
    copy_own(j, all + begin);
  status = kf_join(ctx, status, all, sizeof *all);
  for (uint64_t s = 0; s < j->n_slices; s++) {
    kf_free(j->slices[s].found);
    j->slices[s].found = NULL;
    j->slices[s].n = 0;
  }
  if (status != KF_OK) {
    kf_free(all);
    return status;
  }
  j->slices[0].found = all;
  j->slices[0].n = (size_t)total;
  return KF_OK;
}

/* --- in order -------------------------------------------------------------------------------- */

typedef struct sorter {
  const range_job *job;
  uint32_t query;
  float *x, *y; /* [dim] workspace */
} sorter;

static kf_status fetch(const range_job *j, uint64_t row, float *to, kf_err *err) {
  const kf_index *index = j->index;
  if (is_divided(j->gallery)) return kf_gallery_fetch(j->gallery, j->ctx->kernels, row, 1, to, err);
  if (index->in_place)
    return index->source.fetch(index->source.self, j->ctx->kernels, row, 1, to, err);
  kf_index_copy(index, j->ctx->kernels, row, 1, to);
  return KF_OK;
}

/* As in shortlist.c. */
static kf_status comes_before(const sorter *s, const kf_scored *a, const kf_scored *b, bool *out,
                              kf_err *err) {
  const kf_index *index = s->job->index;
  double apart = b->value - a->value, share = s->job->query[s->query].share;
  double clear = fmax(kf_clear(index, share, a->value), kf_clear(index, share, b->value));
  int nearer = (apart > 0) - (apart < 0);
  if (!(fabs(apart) > clear)) {
    KF_TRY(fetch(s->job, a->row, s->x, err));
    KF_TRY(fetch(s->job, b->row, s->y, err));
    bool same = memcmp(s->x, s->y, index->dim * sizeof *s->x) == 0;
    const float *q = s->job->queries + (uint64_t)s->query * index->dim;
    nearer = same ? 0 : kf_exact_compare(index->metric, q, s->x, s->y, index->dim);
  }
  *out = nearer != 0 ? nearer > 0 : a->row < b->row;
  return KF_OK;
}

/* Merges the sorted list[0, half) and list[half, n), using `other`. */
static kf_status merge(const sorter *s, answer *list, answer *other, size_t half, size_t n,
                       kf_err *err) {
  size_t a = 0, b = half, to = 0;
  while (a < half && b < n) {
    bool before;
    KF_TRY(comes_before(s, &list[b].scored, &list[a].scored, &before, err));
    other[to++] = before ? list[b++] : list[a++];
  }
  memcpy(other + to, list + a, (half - a) * sizeof *list);
  to += half - a;
  memcpy(other + to, list + b, (n - b) * sizeof *list);
  memcpy(list, other, n * sizeof *list);
  return KF_OK;
}

static kf_status sort(const sorter *s, answer *list, answer *other, size_t n, kf_err *err) {
  for (size_t width = 1; width < n; width *= 2)
    for (size_t at = 0; at + width < n; at += 2 * width) {
      size_t both = n - at < 2 * width ? n - at : 2 * width;
      KF_TRY(merge(s, list + at, other + at, width, both, err));
    }
  return KF_OK;
}

static kf_status finish_query(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)worker;
  range_job *j = argument;
  uint64_t begin = i > 0 ? j->ends[i - 1] : 0, n = j->ends[i] - begin;
  if (n == 0) return KF_OK;
  sorter s = {.job = j, .query = (uint32_t)i};
  answer *other;
  kf_arena arena = {0};
  KF_TAKE(&arena, s.x, j->index->dim);
  KF_TAKE(&arena, s.y, j->index->dim);
  KF_TAKE(&arena, other, n);
  kf_status status =
      arena.failed ? kf_fail_memory(err) : sort(&s, j->sorted + begin, other, n, err);
  kf_arena_free(&arena);
  double value = -INFINITY; /* as in kf_request_answer */
  for (uint64_t t = begin; status == KF_OK && t < begin + n; t++) {
    const kf_scored *scored = &j->sorted[t].scored;
    if (!(scored->value < value)) value = scored->value;
    j->rows[t] = (int64_t)scored->row;
    j->scores[t] = j->index->metric == KF_METRIC_EUCLIDEAN ? sqrt(value) : -value;
  }
  return status;
}

/* Gathers the answers of each query. */
static kf_status finish(range_job *j) {
  uint64_t all = atomic_load(&j->answers);
  j->ends = kf_alloc_zero(j->n, sizeof *j->ends);
  j->sorted = kf_alloc(all, sizeof *j->sorted);
  j->rows = kf_alloc(all, sizeof *j->rows);
  j->scores = kf_alloc(all, sizeof *j->scores);
  if (j->ends == NULL || j->sorted == NULL || j->rows == NULL || j->scores == NULL)
    return kf_fail_memory(&j->ctx->err);
  for (uint64_t s = 0; s < j->n_slices; s++)
    for (size_t i = 0; i < j->slices[s].n; i++) j->ends[j->slices[s].found[i].query]++;
  uint64_t begin = 0;
  for (uint32_t i = 0; i < j->n; i++) { /* where the next answer of each query goes */
    uint64_t n = j->ends[i];
    j->ends[i] = begin;
    begin += n;
  }
  for (uint64_t s = 0; s < j->n_slices; s++)
    for (size_t i = 0; i < j->slices[s].n; i++)
      j->sorted[j->ends[j->slices[s].found[i].query]++] = j->slices[s].found[i];
  return kf_parallel(j->ctx, j->n, finish_query, j);
}

static void clear(range_job *j) {
  for (uint64_t s = 0; s < j->n_slices; s++) kf_free(j->slices[s].found);
  kf_free(j->slices);
  kf_free(j->query);
  kf_free(j->least_score);
  kf_free(j->sorted);
}

/* --- the public functions -------------------------------------------------------------------- */

typedef struct ranges {
  kf_ranges base;
  uint64_t *ends;
  int64_t *rows;
  double *scores;
} ranges;

void kf_ranges_free(kf_ranges *r) {
  if (r == NULL) return;
  ranges *own = (ranges *)r;
  kf_free(own->ends);
  kf_free(own->rows);
  kf_free(own->scores);
  kf_free(own);
}

/* Answers j->n queries; *over: there were too many answers. */
static kf_status answer_some(range_job *j, ranges *out, uint64_t *candidates, bool *over) {
  uint64_t slices = (uint64_t)SLICES * j->ctx->threads;
  j->n_slices = slices < j->index->n_blocks ? slices : j->index->n_blocks;
  j->bounded = j->n > 1;
  j->slices = kf_alloc_zero(j->n_slices, sizeof *j->slices);
  j->query = kf_alloc(j->n, sizeof *j->query);
  j->least_score = kf_alloc(j->n, sizeof *j->least_score);
  if (j->slices == NULL) j->n_slices = 0;
  kf_status status = j->slices == NULL || j->query == NULL || j->least_score == NULL
                         ? kf_fail_memory(&j->ctx->err)
                         : find(j);
  for (uint64_t s = 0; s < j->n_slices; s++) *candidates += j->slices[s].scorer.candidates;
  if (is_divided(j->gallery)) status = join_ranks(j, status);
  *over = status == KF_OK && is_over(j);
  if (status == KF_OK && !*over) status = finish(j);
  clear(j);
  out->ends = j->ends;
  out->rows = j->rows;
  out->scores = j->scores;
  out->base = (kf_ranges){j->n, j->ends, j->rows, j->scores};
  return status;
}

static kf_status check_limit(const kf_gallery *g, double limit, const kf_filter *only,
                             kf_err *err) {
  if (isnan(limit)) return kf_fail(err, KF_ERR_ARG, "the limit of a search is not a number");
  return kf_filter_check(only, g, err);
}

/* Answers as many of n mapped queries as fit. */
static kf_status within(kf_ctx *ctx, const kf_gallery *g, const float *ready, uint64_t n,
                        double limit, const kf_filter *only, int64_t *leave_out, kf_ranges **out,
                        kf_search_report *report) {
  uint64_t some = n < KF_WITHIN_QUERIES ? n : KF_WITHIN_QUERIES, candidates = 0;
  ranges *made = kf_alloc_zero(1, sizeof *made);
  if (made == NULL) return kf_fail_memory(&ctx->err);
  kf_status status = KF_OK;
  bool over = some > 0;
  while (status == KF_OK && over) {
    range_job j = {.ctx = ctx,
                   .gallery = g,
                   .index = g->index,
                   .only = only,
                   .limit = limit,
                   .queries = ready,
                   .n = (uint32_t)some,
                   .leave_out = leave_out};
    status = answer_some(&j, made, &candidates, &over);
    if (over) some = (some + 1) / 2;
  }
  if (status == KF_OK && report != NULL) {
    report->queries += some;
    report->candidates += candidates;
  }
  KF_HAND_OUT(status, out, &made->base, kf_ranges_free);
}

kf_status kf_gallery_within(kf_ctx *ctx, const kf_gallery *gallery, const float *queries,
                            uint64_t n, double limit, const kf_search_options *options,
                            kf_ranges **out, kf_search_report *report) {
  KF_NOTHING(out);
  KF_ENTER(ctx, gallery != NULL && out != NULL && (n == 0 || queries != NULL));
  KF_OPTIONS(kf_search_options, o, options);
  KF_TRY(check_limit(gallery, limit, o.only, err));
  if (n > KF_WITHIN_QUERIES) n = KF_WITHIN_QUERIES;
  float *ready;
  KF_TRY(kf_gallery_map_queries(ctx, gallery, queries, 0, n, &o, &ready, report));
  int64_t *leave_out = (int64_t *)(uintptr_t)o.leave_out; /* it is only read */
  kf_status status = within(ctx, gallery, ready, n, limit, o.only, leave_out, out, report);
  kf_free(ready);
  if (status != KF_OK || !gallery->in_place) return status;
  status = kf_gallery_unchanged(gallery, err);
  if (status == KF_OK) return KF_OK;
  kf_ranges_free(*out);
  *out = NULL;
  return status;
}

kf_status kf_gallery_within_itself(kf_ctx *ctx, const kf_gallery *gallery, uint64_t first,
                                   uint64_t n, double limit, const kf_filter *only, kf_ranges **out,
                                   kf_search_report *report) {
  KF_NOTHING(out);
  KF_ENTER(ctx, gallery != NULL && out != NULL);
  KF_TRY(check_limit(gallery, limit, only, err));
  float *own;
  int64_t *leave_out;
  kf_arena arena = {0};
  kf_status status =
      kf_gallery_own_rows(ctx, gallery, first, n, KF_WITHIN_QUERIES, &arena, &own, &leave_out);
  if (status == KF_OK) status = within(ctx, gallery, own, n, limit, only, leave_out, out, report);
  kf_arena_free(&arena);
  return status;
}

/* --- near-duplicates ------------------------------------------------------------------------- */

static uint64_t root_of(uint64_t *first, uint64_t row) {
  while (first[row] != row) row = first[row] = first[first[row]];
  return row;
}

static void join(uint64_t *first, uint64_t a, uint64_t b) {
  a = root_of(first, a);
  b = root_of(first, b);
  if (a < b)
    first[b] = a;
  else
    first[a] = b;
}

static kf_status join_all(kf_ctx *ctx, const kf_gallery *g, double limit, uint64_t *first,
                          kf_unique *found) {
  for (uint64_t row = 0; row < g->rows;) {
    kf_ranges *r;
    uint64_t left = g->rows - row;
    KF_TRY(kf_progress(ctx, "unique", row, g->rows));
    KF_TRY(kf_gallery_within_itself(
        ctx, g, row, left < KF_WITHIN_QUERIES ? left : KF_WITHIN_QUERIES, limit, NULL, &r, NULL));
    for (uint64_t i = 0, t = 0; i < r->queries; i++)
      for (; t < r->ends[i]; t++) {
        found->pairs += (uint64_t)r->rows[t] > row + i;
        join(first, row + i, (uint64_t)r->rows[t]);
      }
    row += r->queries;
    kf_ranges_free(r);
  }
  return KF_OK;
}

kf_status kf_gallery_unique(kf_ctx *ctx, const kf_gallery *gallery, double limit, uint64_t *first,
                            kf_unique *found) {
  if (found != NULL) *found = (kf_unique){0};
  KF_ENTER(ctx, gallery != NULL && first != NULL);
  kf_unique own = {0};
  for (uint64_t i = 0; i < gallery->rows; i++) first[i] = i;
  KF_TRY(join_all(ctx, gallery, limit, first, &own));
  unsigned char *counted = kf_alloc_zero(gallery->rows, 1);
  if (counted == NULL) return kf_fail_memory(err);
  for (uint64_t i = 0; i < gallery->rows; i++) {
    uint64_t root = root_of(first, i);
    if (root == i) continue;
    own.copies++;
    own.groups += !counted[root];
    counted[root] = 1;
  }
  for (uint64_t i = 0; i < gallery->rows; i++) first[i] = root_of(first, i);
  kf_free(counted);
  if (found != NULL) *found = own;
  return KF_OK;
}
