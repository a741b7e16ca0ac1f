/* loo.c - leave-one-out over the rows of a data set, for many lambdas (and alphas) in one pass.
 *
 * Rows and class means are turned to the basis of the eigenvectors of S_w, in which the algebra
 * of a row that is left out (loo_algebra.c) is cheap. For each lambda there is an index of the
 * prototypes, which is asked for the few classes that could come before a row's own; these are
 * compared exactly. */
#include "choose/loo_algebra.h"

#include <math.h>
#include <string.h>

#define BATCH 64u /* rows */
#define TOP   5u

/* --- making it ------------------------------------------------------------------------------- */

/* Rows on their way to the basis V: class means, or text. */
typedef struct turning {
  const kf_loo *loo;
  kf_matrix turn;
  double *rows; /* [n][D] */
  bool means;   /* which are fetched first */
} turning;

static kf_status turn_some(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)worker;
  const turning *t = argument;
  const kf_loo *loo = t->loo;
  uint64_t dim = loo->dim, first = i * BATCH, left = loo->n - first;
  uint64_t n = left < BATCH ? left : BATCH;
  double *columns = kf_alloc(dim * BATCH, sizeof *columns), *x = t->rows + first * dim;
  if (columns == NULL) return kf_fail_memory(err);
  for (uint64_t k = 0; t->means && k < n; k++)
    kf_class_mean(loo->stats, (uint64_t)loo->number[first + k], x + k * dim);
  kf_turn_rows(loo->ctx->kernels, &t->turn, x, n, columns, x);
  kf_free(columns);
  return KF_OK;
}

static kf_status turn_all(turning *t) {
  return kf_parallel(t->loo->ctx, (t->loo->n + BATCH - 1) / BATCH, turn_some, t);
}

static void list_classes(kf_loo *loo) {
  const kf_stats *s = loo->stats;
  for (uint32_t k = 0; k < s->n_classes; k++) {
    loo->place[k] = s->counts[k] > 0 ? (int32_t)loo->n : -1;
    if (s->counts[k] > 0) loo->number[loo->n++] = (int32_t)k;
  }
}

static kf_status prepare(kf_loo *loo, bool centred) {
  kf_ctx *ctx = loo->ctx;
  kf_arena *arena = &loo->arena;
  uint64_t dim = loo->dim;
  double *turn, *less, *columns;
  KF_TRY(kf_fitter_turn(loo->fitter));
  KF_TAKE(arena, loo->number, loo->stats->n_classes);
  KF_TAKE(arena, loo->place, loo->stats->n_classes);
  KF_TAKE(arena, turn, dim * dim);
  KF_TAKE_ZERO(arena, loo->centre, dim);
  KF_TAKE(arena, less, dim);
  KF_TAKE(arena, columns, dim);
  if (arena->failed) return kf_fail_memory(&ctx->err);
  list_classes(loo);
  if (KF_TAKE(arena, loo->means, loo->n * dim) == NULL) return kf_fail_memory(&ctx->err);
  kf_transpose(dim, dim, kf_fitter_vectors(loo->fitter), turn);
  loo->turn = (kf_matrix){.depth = dim, .n = dim, .b = turn};
  /* Distances do not depend on the centre, but lose fewer digits with it. */
  if (loo->n > 0 && (centred || loo->euclidean))
    kf_turn_rows(ctx->kernels, &loo->turn, kf_fitter_mean(loo->fitter), 1, columns, loo->centre);
  for (uint64_t i = 0; i < dim; i++) less[i] = -loo->centre[i];
  loo->turn.start = less;
  return turn_all(&(turning){.loo = loo, .turn = loo->turn, .rows = loo->means, .means = true});
}

kf_status kf_loo_new(kf_fitter *fitter, const kf_data *data, kf_metric metric, kf_centre centre,
                     kf_loo **out) {
  kf_ctx *ctx = kf_fitter_ctx(fitter);
  const kf_stats *stats = kf_fitter_stats(fitter);
  KF_TRY(kf_check_statistics_of(stats, data, &ctx->err));
  kf_loo *loo = kf_alloc_zero(1, sizeof *loo);
  if (loo == NULL) return kf_fail_memory(&ctx->err);
  loo->ctx = ctx;
  loo->fitter = fitter;
  loo->stats = stats;
  loo->data = data;
  loo->dim = stats->dim;
  loo->euclidean = metric == KF_METRIC_EUCLIDEAN;
  bool centred = centre == KF_CENTRE_MEAN && !loo->euclidean;
  loo->e = centred && stats->rows > 1 ? 1 / (double)(stats->rows - 1) : 0;
  KF_HAND_OUT(prepare(loo, centred), out, loo, kf_loo_free);
}

void kf_loo_free(kf_loo *loo) {
  if (loo == NULL) return;
  kf_arena_free(&loo->arena);
  kf_free(loo);
}

kf_ctx *kf_loo_ctx(const kf_loo *loo) { return loo->ctx; }
uint32_t kf_loo_classes(const kf_loo *loo) { return loo->stats->n_classes; }

uint64_t kf_loo_count_single(const kf_loo *loo, const kf_row_list *rows) {
  uint64_t n = 0;
  for (uint64_t i = 0; i < rows->n; i++) n += loo->stats->counts[rows->label[i]] < 2;
  return n;
}

kf_status kf_loo_set_text(kf_loo *loo, const float *rows) {
  uint64_t dim = loo->dim;
  double *text;
  if (KF_TAKE(&loo->arena, text, loo->n * dim) == NULL) return kf_fail_memory(&loo->ctx->err);
  for (uint64_t j = 0; j < loo->n; j++)
    for (uint64_t i = 0; i < dim; i++)
      text[j * dim + i] = (double)rows[(uint64_t)loo->number[j] * dim + i];
  turning t = {.loo = loo, .turn = {.depth = dim, .n = dim, .b = loo->turn.b}, .rows = text};
  KF_TRY(turn_all(&t));
  loo->text = text;
  return KF_OK;
}

/* --- a batch of rows ------------------------------------------------------------------------- */

/* The rows of a batch that can be left out, and what a worker needs for them. */
typedef struct loo_batch {
  size_t n;
  uint32_t own[BATCH];
  uint64_t row[BATCH]; /* its number in the data set */
  kf_loo_row rows[BATCH];
  double least[BATCH];
  float *queries;  /* [BATCH][width] */
  int32_t *fixed;  /* [D] */
  double *x;       /* [BATCH][D] in the basis V */
  double *unit;    /* [BATCH][D] the same of unit length, not centred; with text */
  double *ax, *ad; /* [BATCH][D] */
  double *columns; /* [D][BATCH] */
  double *u, *v;   /* [D] */
  const kf_loo_view *view;
} loo_batch;

/* Rows as the statistics saw them, in the basis V. */
static kf_status turn_batch(const kf_loo *loo, const kf_data *data, const kf_batch *from,
                            loo_batch *b, kf_loo_count *count, kf_err *err) {
  const kf_stats *s = loo->stats;
  b->n = 0;
  for (uint64_t i = 0; i < from->n; i++) {
    const float *row = from->rows + i * loo->dim;
    int32_t label = from->labels[i];
    if (label < 0) continue;
    if (s->counts[label] < 2) {
      count->n_single++;
      continue;
    }
    KF_TRY(kf_row_seen(s, loo->ctx->kernels, row, from->norm2[i], data, from->first + i, b->fixed,
                       b->x + b->n * loo->dim, err));
    b->row[b->n] = from->first + i;
    b->own[b->n++] = (uint32_t)loo->place[label];
  }
  count->n += b->n;
  kf_turn_rows(loo->ctx->kernels, &loo->turn, b->x, b->n, b->columns, b->x);
  return KF_OK;
}

static void take_unit(const kf_loo *loo, loo_batch *b) {
  for (size_t i = 0; i < b->n; i++) {
    const double *x = b->x + i * loo->dim;
    double *to = b->unit + i * loo->dim;
    for (uint32_t k = 0; k < loo->dim; k++) to[k] = x[k] + loo->centre[k];
    double length = sqrt(loo->ctx->kernels->dot(loo->dim, to, to));
    for (uint32_t k = 0; k < loo->dim; k++) to[k] /= length;
  }
}

static kf_loo_row row_of(const kf_loo_view *view, loo_batch *b, size_t i) {
  uint64_t at = i * view->loo->dim;
  return kf_loo_row_take(view, b->x + at, b->own[i], b->ax + at, b->ad + at, b->u, b->v);
}

static void count_rival(void *argument, uint64_t query, uint64_t j) {
  loo_batch *b = argument;
  kf_loo_row *r = &b->rows[query];
  if (j == r->own || r->beaten == TOP) return;
  r->beaten += kf_loo_comes_before(b->view, r, (uint32_t)j);
}

/* --- all rows -------------------------------------------------------------------------------- */

typedef struct loo_tally {
  kf_loo_count count;
  kf_fuse_point *points; /* [n_points] */
} loo_tally;

typedef struct loo_job {
  kf_loo *loo;
  const kf_data *data; /* the rows to leave out */
  uint64_t *right;     /* [rows of the data] a bit for each point; may be NULL */
  size_t n_points, n_views;
  kf_loo_view *views;       /* [n_points] at most; one for each lambda */
  const kf_loo_view **view; /* [n_points] of each point */
  loo_tally *tallies;       /* [threads] */
  kf_arena arena;
} loo_job;

static void take_batch(const void *argument, void *workspace, kf_arena *arena) {
  const loo_job *j = argument;
  const kf_loo *loo = j->loo;
  loo_batch *b = workspace;
  uint64_t dim = loo->dim;
  KF_TAKE(arena, b->queries, BATCH * (uint64_t)kf_loo_width(loo));
  KF_TAKE(arena, b->fixed, dim);
  KF_TAKE(arena, b->x, BATCH * dim);
  KF_TAKE(arena, b->unit, loo->text != NULL ? BATCH * dim : 0);
  KF_TAKE(arena, b->ax, BATCH * dim);
  KF_TAKE(arena, b->ad, BATCH * dim);
  KF_TAKE(arena, b->columns, BATCH * dim);
  KF_TAKE(arena, b->u, dim);
  KF_TAKE(arena, b->v, dim);
}

/* Hits of a batch at point g. */
static kf_status count_point(const loo_job *j, size_t g, loo_batch *b, kf_fuse_point *point,
                             kf_err *err) {
  const kf_loo_view *view = j->view[g];
  const kf_loo *loo = view->loo;
  b->view = view;
  for (size_t i = 0; i < b->n; i++) {
    kf_loo_row *r = &b->rows[i];
    *r = row_of(view, b, i);
    if (loo->text != NULL) kf_loo_row_add_text(view, r, b->unit + i * loo->dim, point->alpha);
    b->least[i] = kf_loo_ask(view, r, b->u, b->v, b->queries + i * kf_loo_width(loo));
  }
  KF_TRY(kf_index_reaching(view->index, loo->ctx->kernels, b->queries, b->n, b->least, count_rival,
                           b, err));
  for (size_t i = 0; i < b->n; i++) {
    point->top1 += b->rows[i].beaten == 0;
    point->top5 += b->rows[i].beaten < TOP;
    if (j->right != NULL && b->rows[i].beaten == 0) j->right[b->row[i]] |= UINT64_C(1) << g;
  }
  return KF_OK;
}

static kf_status count_batch(void *argument, const kf_batch *batch, kf_err *err) {
  const loo_job *j = argument;
  loo_batch *b = batch->workspace;
  loo_tally *t = &j->tallies[batch->worker];
  KF_TRY(turn_batch(j->loo, j->data, batch, b, &t->count, err));
  if (j->loo->text != NULL) take_unit(j->loo, b);
  for (size_t g = 0; g < j->n_points; g++) KF_TRY(count_point(j, g, b, &t->points[g], err));
  return KF_OK;
}

static kf_status prepare_job(loo_job *j, const kf_fuse_point *points) {
  kf_ctx *ctx = j->loo->ctx;
  KF_TAKE_ZERO(&j->arena, j->views, j->n_points);
  KF_TAKE(&j->arena, j->view, j->n_points);
  KF_TAKE_ZERO(&j->arena, j->tallies, ctx->threads);
  for (unsigned t = 0; j->tallies != NULL && t < ctx->threads; t++)
    KF_TAKE(&j->arena, j->tallies[t].points, j->n_points);
  if (j->arena.failed) return kf_fail_memory(&ctx->err);
  for (unsigned t = 0; t < ctx->threads; t++)
    memcpy(j->tallies[t].points, points, j->n_points * sizeof *points);
  for (size_t g = 0; g < j->n_points; g++) {
    if (g == 0 || points[g].lambda != points[g - 1].lambda)
      KF_TRY(kf_loo_view_start(&j->views[j->n_views++], j->loo, points[g].lambda, true));
    j->view[g] = &j->views[j->n_views - 1];
  }
  return KF_OK;
}

static kf_status count_rows(loo_job *j, const char *what, const kf_fuse_point *points) {
  kf_pass pass = {.what = what,
                  .rows = BATCH,
                  .shared = true,
                  .work = count_batch,
                  .argument = j,
                  .workspace_size = sizeof(loo_batch),
                  .make_workspace = take_batch};
  KF_TRY(prepare_job(j, points));
  return kf_each_batch(j->loo->ctx, j->data, &pass);
}

static kf_status add_over_ranks(kf_ctx *ctx, loo_job *j, kf_fuse_point *points,
                                kf_loo_count *count) {
  if (!kf_is_shared(&ctx->ranks)) return KF_OK;
  uint64_t *sums, n = 2 + 2 * (uint64_t)j->n_points;
  KF_TAKE(&j->arena, sums, n);
  kf_status status = j->arena.failed ? kf_fail_memory(&ctx->err) : KF_OK;
  if (status == KF_OK) {
    sums[0] = count->n;
    sums[1] = count->n_single;
    for (size_t g = 0; g < j->n_points; g++) {
      sums[2 + 2 * g] = points[g].top1;
      sums[3 + 2 * g] = points[g].top5;
    }
  }
  KF_TRY(kf_sum_u64(ctx, status, sums, n));
  count->n = sums[0];
  count->n_single = sums[1];
  for (size_t g = 0; g < j->n_points; g++) {
    points[g].top1 = sums[2 + 2 * g];
    points[g].top5 = sums[3 + 2 * g];
  }
  return KF_OK;
}

static kf_status count_all(loo_job *j, const char *what, kf_fuse_point *points,
                           kf_loo_count *count) {
  kf_ctx *ctx = j->loo->ctx;
  for (size_t g = 0; g < j->n_points; g++) points[g].top1 = points[g].top5 = 0;
  KF_TRY(count_rows(j, what, points));
  *count = (kf_loo_count){0};
  for (unsigned t = 0; t < ctx->threads; t++) {
    const loo_tally *tally = &j->tallies[t];
    count->n += tally->count.n;
    count->n_single += tally->count.n_single;
    for (size_t g = 0; g < j->n_points; g++) {
      points[g].top1 += tally->points[g].top1;
      points[g].top5 += tally->points[g].top5;
    }
  }
  return add_over_ranks(ctx, j, points, count);
}

kf_status kf_loo_count_hits(kf_loo *loo, const kf_row_list *rows, const char *what,
                            kf_fuse_point *points, size_t n_points, uint64_t *right,
                            kf_loo_count *count) {
  kf_data *picked = NULL;
  if (rows != NULL)
    KF_TRY(kf_data_new_pick(loo->data, rows->row, rows->n, &picked, &loo->ctx->err));
  loo_job j = {.loo = loo,
               .data = picked != NULL ? picked : loo->data,
               .right = right,
               .n_points = n_points};
  kf_status status = count_all(&j, what, points, count);
  for (size_t g = 0; g < j.n_views; g++) kf_loo_view_clear(&j.views[g]);
  kf_arena_free(&j.arena);
  kf_data_free(picked);
  return status;
}

/* --- one row --------------------------------------------------------------------------------- */

static kf_status score_row(kf_loo *loo, uint64_t number, kf_loo_view *view, kf_arena *arena,
                           double *scores) {
  kf_err *err = &loo->ctx->err;
  float *row;
  int32_t label;
  double norm2;
  loo_batch *b;
  KF_TAKE(arena, row, loo->dim);
  if (KF_TAKE_ZERO(arena, b, 1) != NULL) take_batch(&(loo_job){.loo = loo}, b, arena);
  if (arena->failed) return kf_fail_memory(err);
  KF_TRY(kf_data_fetch(loo->data, loo->ctx->kernels, number, 1, row, &label, &norm2, err));
  kf_batch one = {.first = number, .n = 1, .rows = row, .labels = &label, .norm2 = &norm2};
  KF_TRY(turn_batch(loo, loo->data, &one, b, &(kf_loo_count){0}, err));
  for (uint32_t k = 0; k < loo->stats->n_classes; k++) scores[k] = NAN;
  if (b->n == 0) return KF_OK;
  kf_loo_row r = row_of(view, b, 0);
  for (uint32_t j = 0; j < loo->n; j++) {
    double score = j == r.own ? r.score : kf_loo_score(view, &r, j);
    scores[loo->number[j]] = loo->euclidean ? score / view->unit : score;
  }
  return KF_OK;
}

kf_status kf_loo_scores(kf_loo *loo, uint64_t row, double lambda, double *scores) {
  kf_loo_view view = {0};
  kf_arena arena = {0};
  kf_status status = kf_loo_view_start(&view, loo, lambda, false);
  if (status == KF_OK) status = score_row(loo, row, &view, &arena, scores);
  kf_arena_free(&arena);
  kf_loo_view_clear(&view);
  return status;
}
