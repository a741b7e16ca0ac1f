/* parts.c - searching an index whose rows are divided among ranks.
 *
 * Each rank finds the nearest of its own rows for every query. The lists of scores and row numbers
 * go to all ranks, and every rank merges them for its share of the queries. Scores are canonical,
 * so they have the bits that one process finds. Where two are so close that rounding may have put
 * them in the wrong order, exact scores decide, as in shortlist.c; the rows are fetched from the
 * source, which every rank can read. */
#include "search/nearest.h"

#include <math.h>
#include <string.h>

#define LIST_BYTES                                                                                 \
  ((uint64_t)64 << 20) /* of all lists at a time, or those of one query if larger */

typedef struct parts {
  kf_ctx *ctx;
  const kf_request *r;
  kf_filter *only;  /* which rows of this rank take part; NULL: all */
  uint32_t *width;  /* [ranks] rows in a list of each rank */
  uint64_t *begin;  /* [ranks] its first list in `lists`, for one query at a time */
  kf_scored *lists; /* [ranks][some][width] */
  float *x, *y;     /* [dim] workspace, like what follows */
  uint32_t *next;   /* [ranks] */
  kf_arena arena;
} parts;

/* --- comparing two rows ---------------------------------------------------------------------- */

/* Upper bound of the rounding errors of two scores together. */
static double doubt(const kf_index *index, double norm2, double a, double b) {
  double share = kf_rounding_share(index);
  if (index->metric == KF_METRIC_COSINE) return share;
  if (index->metric == KF_METRIC_EUCLIDEAN) return share * (a + b);
  return share * sqrt(norm2) * index->farthest;
}

static kf_status fetch(const parts *p, uint64_t row, float *to, kf_err *err) {
  const kf_source *source = &p->r->index->source;
  return source->fetch(source->self, p->ctx->kernels, row - source->first, 1, to, err);
}

static kf_status comes_before(const parts *p, const float *query, const kf_scored *a,
                              const kf_scored *b, bool *out) {
  const kf_index *index = p->r->index;
  double norm2 = p->ctx->kernels->norm2(query, index->dim), apart = b->value - a->value;
  int nearer = (apart > 0) - (apart < 0);
  if (!(fabs(apart) > doubt(index, norm2, a->value, b->value))) {
    KF_TRY(fetch(p, a->row, p->x, &p->ctx->err));
    KF_TRY(fetch(p, b->row, p->y, &p->ctx->err));
    nearer = kf_exact_compare(index->metric, query, p->x, p->y, index->dim);
  }
  *out = nearer != 0 ? nearer > 0 : a->row < b->row;
  return KF_OK;
}

/* --- merging --------------------------------------------------------------------------------- */

/* The next row of a rank's list for query i of `some`; NULL: the list is used up. */
static const kf_scored *head(const parts *p, uint32_t rank, uint64_t i, uint64_t some,
                             int64_t without) {
  const kf_scored *list = p->lists + p->begin[rank] * some + i * p->width[rank];
  if (p->next[rank] < p->width[rank] && (int64_t)list[p->next[rank]].row == without)
    p->next[rank]++;
  return p->next[rank] < p->width[rank] ? &list[p->next[rank]] : NULL;
}

/* Merges the lists of query i of `some`, which begin with query `first`. */
static kf_status merge(const parts *p, uint64_t first, uint64_t i, uint64_t some) {
  uint64_t query = first + i, at = query * p->r->k;
  int64_t without = p->r->leave_out != NULL ? p->r->leave_out[query] : -1;
  double value = -INFINITY; /* as in kf_request_answer */
  memset(p->next, 0, p->ctx->ranks.size * sizeof *p->next);
  for (uint32_t t = 0; t < p->r->k; t++) {
    const kf_scored *best = NULL;
    uint32_t from = 0;
    for (uint32_t r = 0; r < p->ctx->ranks.size; r++) {
      const kf_scored *x = head(p, r, i, some, without);
      bool before = best == NULL;
      if (x == NULL) continue;
      if (!before)
        KF_TRY(comes_before(p, p->r->queries + query * p->r->index->dim, x, best, &before));
      if (!before) continue;
      best = x;
      from = r;
    }
    if (best == NULL) return kf_fail(&p->ctx->err, KF_ERR_INTERNAL, "too few rows were found");
    p->next[from]++;
    if (!(best->value < value)) value = best->value;
    p->r->rows[at + t] = (int64_t)best->row;
    if (p->r->scores != NULL)
      p->r->scores[at + t] = p->r->index->metric == KF_METRIC_EUCLIDEAN ? sqrt(value) : -value;
  }
  return KF_OK;
}

/* Queries [first, first + some). */
static kf_status search_some(parts *p, uint64_t first, uint64_t some) {
  kf_ctx *ctx = p->ctx;
  const kf_ranks *r = &ctx->ranks;
  uint32_t own = r->rank;
  kf_status status = KF_OK;
  kf_request part = {.index = p->r->index,
                     .kernels = p->r->kernels,
                     .queries = p->r->queries + first * p->r->index->dim,
                     .n = some,
                     .k = p->width[own],
                     .only = p->only,
                     .scored = p->lists + p->begin[own] * some,
                     .candidates = p->r->candidates};
  if (part.k > 0) status = kf_nearest_on_rank(ctx, &part);
  for (uint32_t i = 0; i < r->size; i++) r->ends[i] = (p->begin[i] + p->width[i]) * some;
  KF_TRY(kf_join(ctx, status, p->lists, sizeof *p->lists));
  kf_range share = kf_share_of(r, some, 1);
  for (uint64_t i = share.first; status == KF_OK && i < share.last; i++)
    status = merge(p, first, i, some);
  kf_share_ends(r, some, 1);
  status = kf_join(ctx, status, p->r->rows + first * p->r->k, p->r->k * sizeof *p->r->rows);
  if (p->r->scores == NULL || status != KF_OK) return status;
  kf_share_ends(r, some, 1);
  return kf_join(ctx, status, p->r->scores + first * p->r->k, p->r->k * sizeof *p->r->scores);
}

/* Sets the length of each rank's lists. Returns the rows in all lists of one query. */
static uint64_t set_widths(const parts *p, const kf_filter *only) {
  const kf_ranks *r = &p->ctx->ranks;
  uint64_t each = 0;
  kf_share_ends(r, p->r->index->source.all, 1);
  for (uint32_t i = 0; i < r->size; i++) {
    uint64_t first = i > 0 ? r->ends[i - 1] : 0;
    uint64_t own = only != NULL ? kf_filter_count(only, first, r->ends[i]) : r->ends[i] - first;
    uint64_t wanted =
        p->r->k + (p->r->leave_out != NULL ? 1u : 0u); /* one of them may be the row left out */
    p->begin[i] = each;
    p->width[i] = (uint32_t)(own < wanted ? own : wanted);
    each += p->width[i];
  }
  return each;
}

kf_status kf_nearest_in_parts(kf_ctx *ctx, const kf_request *r) {
  const kf_source *source = &r->index->source;
  uint32_t ranks = ctx->ranks.size;
  parts p = {.ctx = ctx, .r = r};
  kf_status status = KF_OK;
  if (r->only != NULL)
    status =
        kf_filter_narrow(r->only, source->first, source->first + source->rows, &p.only, &ctx->err);
  KF_TAKE(&p.arena, p.width, ranks);
  KF_TAKE(&p.arena, p.begin, ranks);
  KF_TAKE(&p.arena, p.next, ranks);
  KF_TAKE(&p.arena, p.x, source->dim);
  KF_TAKE(&p.arena, p.y, source->dim);
  uint64_t each = p.arena.failed ? 0 : set_widths(&p, r->only);
  uint64_t at_once = each > 0 ? LIST_BYTES / (each * sizeof *p.lists) : 1;
  if (at_once < 1) at_once = 1;
  KF_TAKE(&p.arena, p.lists, each * (at_once < r->n ? at_once : r->n));
  if (status == KF_OK && p.arena.failed) status = kf_fail_memory(&ctx->err);
  status = kf_agree_on(ctx, status);
  for (uint64_t first = 0; status == KF_OK && first < r->n; first += at_once)
    status = search_some(&p, first, r->n - first < at_once ? r->n - first : at_once);
  kf_filter_free(p.only);
  kf_arena_free(&p.arena);
  return status;
}
