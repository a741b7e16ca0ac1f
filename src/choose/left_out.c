/* left_out.c - exact leave-one-out, for single rows or groups: the scores of all classes without
 * fitting again. docs/choosing.md derives the formulas.
 *
 * In the mapped space T (S_w + lambda I) T^T = I and T S_b T^T = Gamma. Remove a group of rows that
 * map to z_i (centred on the mean of all N rows), and let v_i = z_i - the mean of their class:
 *
 *     W = I - V^T Omega V             V: rows v_i;  Omega = I + 11^T / (n_k - a_k) for each class k
 *                                     that loses a_k of its n_k rows
 *     B = Gamma - Z^T Psi Z + V^T Omega V              Psi = I + 11^T / (N - g), g rows in all
 *
 * A shrunk class mean of n rows is P m = m - W C^-1 m with C = W + n kappa B, and
 *
 *     x.W^-1 P m = x.W^-1 m - x.C^-1 m
 *     P m.W^-1 P m = m.W^-1 m - 2 m.C^-1 m + C^-1 m.W C^-1 m.
 *
 * With U = [V; Z] and the diagonal D = I + n kappa Gamma, C = D + U^T Phi U, so by Woodbury
 *
 *     W^-1 = I + V^T (Omega^-1 - V V^T)^-1 V          C^-1 = D^-1 - D^-1 U^T E U D^-1
 *     E = (I + Phi U D^-1 U^T)^-1 Phi,    Phi = diag((n kappa - 1) Omega, -n kappa Psi).
 *
 * All that remains are products of the rows of U with class means in the metrics I, D^-1 and D^-2:
 * three matrix products for a batch of rows, and a little algebra for each row and class. The mean
 * of all rows also moves, which adds a multiple of the group's mean to every class mean.
 *
 * Rows are turned to the eigenvectors of S_w once. For each lambda they are scaled to the whitened
 * space and turned to the directions of Gamma in which class means lie, at most K - 1. In all other
 * directions D is 1.
 *
 * Without shrinking, as in the paper, scores do not depend on S_b: no directions are needed, and
 * only the metric I. Then rows need not be centred either, and no mean moves.
 *
 * The scales of the columns and kappa keep their values for all rows. Rows are used as the integers
 * that the statistics were made of. */
#include "choose/left_out_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MEANS       96u /* class means or rows turned together */
#define MANY_SCORES (1u << 22)

/* If only hits are counted, the default number of rows gives about HIT_SCORES scores, within these
 * limits. */
#define MOST_HIT_ROWS  50000u
#define LEAST_HIT_ROWS 1000u
#define HIT_SCORES     (1u << 24)

/* --- making it -------------------------------------------------------------------------------- */

typedef struct counted_class {
  int64_t count;
  uint32_t place;
} counted_class;

static int by_count(const void *a, const void *b) {
  const counted_class *x = a, *y = b;
  if (x->count != y->count) return x->count < y->count ? -1 : 1;
  return (x->place > y->place) - (x->place < y->place);
}

static kf_status list_classes(kf_left_out *l) {
  const kf_stats *s = l->stats;
  kf_arena *arena = &l->arena;
  counted_class *sorted;
  KF_TAKE(arena, l->number, s->n_classes);
  KF_TAKE(arena, l->place, s->n_classes);
  KF_TAKE(arena, l->by_kind, s->n_classes);
  KF_TAKE(arena, l->kinds, s->n_classes);
  KF_TAKE(arena, sorted, s->n_classes);
  if (arena->failed) return kf_fail_memory(&l->ctx->err);
  for (uint32_t k = 0; k < s->n_classes; k++) {
    l->place[k] = s->counts[k] > 0 ? (int32_t)l->n : -1;
    if (s->counts[k] == 0) continue;
    sorted[l->n] = (counted_class){s->counts[k], l->n};
    l->number[l->n++] = (int32_t)k;
  }
  qsort(sorted, l->n, sizeof *sorted, by_count);
  for (uint32_t i = 0; i < l->n; i++) {
    l->by_kind[i] = sorted[i].place;
    if (i == 0 || sorted[i].count != sorted[i - 1].count)
      l->kinds[l->n_kinds++] = (kf_class_kind){.count = (double)sorted[i].count, .first = i};
    l->kinds[l->n_kinds - 1].last = i + 1;
  }
  return KF_OK;
}

/* Turns class means to the eigenvectors of S_w. */
static kf_status turn_means(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)worker;
  const kf_left_out *l = argument;
  uint64_t dim = l->dim, first = i * MEANS, left = l->n - first, n = left < MEANS ? left : MEANS;
  double *columns = kf_alloc(dim * n, sizeof *columns), *x = l->means + first * dim;
  if (columns == NULL) return kf_fail_memory(err);
  for (uint64_t k = 0; k < n; k++)
    kf_class_mean(l->stats, (uint64_t)l->number[first + k], x + k * dim);
  kf_turn_rows(l->ctx->kernels, &l->turn, x, n, columns, x);
  kf_free(columns);
  return KF_OK;
}

/* Sets `turn`, and turns the mean of all rows and the class means. */
static kf_status turn_classes(kf_left_out *l) {
  uint64_t dim = l->dim;
  const double *vectors = l->fitter->vectors, *column = l->fitter->column;
  double *turn, *less, *columns;
  KF_TAKE(&l->arena, turn, dim * dim);
  KF_TAKE(&l->arena, less, dim);
  KF_TAKE(&l->arena, columns, dim);
  KF_TAKE(&l->arena, l->means, l->n * dim);
  if (l->arena.failed) return kf_fail_memory(&l->ctx->err);
  kf_transpose(dim, dim, vectors, turn);
  for (uint64_t d = 0; d < dim; d++)
    for (uint64_t i = 0; i < dim; i++) turn[d * dim + i] *= column[d];
  l->turn = (kf_matrix){.depth = dim, .n = dim, .b = turn};
  if (l->centred) kf_turn_rows(l->ctx->kernels, &l->turn, l->fitter->mean, 1, columns, less);
  for (uint64_t d = 0; d < dim; d++) less[d] = l->centred ? -less[d] : 0;
  l->turn.start = less;
  return kf_parallel(l->ctx, (l->n + MEANS - 1) / MEANS, turn_means, l);
}

/* x.t = (x S).(t / S) for the scales S of the columns, so text is turned with their inverse. */
static kf_status turn_text(kf_left_out *l, const float *text) {
  uint64_t dim = l->dim;
  const double *vectors = l->fitter->vectors, *column = l->fitter->column;
  const double *mean = l->fitter->mean;
  double *scaled, *turned, *start;
  KF_TAKE(&l->arena, turned, dim * l->n);
  KF_TAKE(&l->arena, start, l->n);
  KF_TAKE(&l->arena, scaled, dim);
  if (l->arena.failed) return kf_fail_memory(&l->ctx->err);
  for (uint64_t j = 0; j < l->n; j++) {
    const float *t = text + (uint64_t)l->number[j] * dim;
    double product = 0;
    for (uint64_t d = 0; d < dim; d++) {
      scaled[d] = (double)t[d] / column[d];
      product += l->centred ? (double)t[d] * mean[d] : 0;
    }
    start[j] = product;
    for (uint64_t i = 0; i < dim; i++)
      turned[i * l->n + j] = l->ctx->kernels->dot(dim, vectors + i * dim, scaled);
  }
  l->text = (kf_matrix){.depth = dim, .n = l->n, .b = turned, .start = start};
  l->with_text = true;
  return KF_OK;
}

static kf_status weigh_classes(kf_left_out *l) {
  if (KF_TAKE(&l->arena, l->weights, l->n) == NULL) return kf_fail_memory(&l->ctx->err);
  for (uint32_t j = 0; j < l->n; j++) l->weights[j] = (double)l->stats->counts[l->number[j]];
  return KF_OK;
}

/* --- reading each row once -------------------------------------------------------------------- */

typedef struct reading {
  const kf_left_out *l;
  const uint64_t *at;  /* the rows to read, by their index in the plan */
  const kf_data *data; /* the same rows as a data set */
} reading;

typedef struct reading_workspace {
  int32_t *fixed;  /* [D] */
  double *rows;    /* [MEANS][D] */
  double *columns; /* [D][MEANS] */
} reading_workspace;

static void take_workspace(const void *argument, void *workspace, kf_arena *arena) {
  const reading *r = argument;
  reading_workspace *s = workspace;
  KF_TAKE(arena, s->fixed, r->l->dim);
  KF_TAKE(arena, s->rows, (uint64_t)r->l->dim * MEANS);
  KF_TAKE(arena, s->columns, (uint64_t)r->l->dim * MEANS);
}

/* Quantises rows as the statistics did, and turns them. */
static kf_status read_batch(void *argument, const kf_batch *b, kf_err *err) {
  const reading *r = argument;
  const kf_left_out *l = r->l;
  const kf_kernels *kernels = l->ctx->kernels;
  reading_workspace *workspace = b->workspace;
  uint64_t dim = l->dim;
  for (uint64_t i = 0; i < b->n; i++) {
    uint64_t at = r->at[b->first + i];
    double *to = workspace->rows + i * dim;
    if (b->labels[i] != l->rows.label[at])
      return kf_fail_row(err, r->data, b->first + i, KF_HINT_NONE, "has changed in the meantime");
    KF_TRY(kf_row_seen(l->stats, kernels, b->rows + i * dim, b->norm2[i], r->data, b->first + i,
                       workspace->fixed, to, err));
    if (l->length != NULL) l->length[at] = sqrt(kernels->dot(dim, to, to));
  }
  kf_turn_rows(kernels, &l->turn, workspace->rows, b->n, workspace->columns, workspace->rows);
  for (uint64_t i = 0; i < b->n; i++) {
    uint64_t at = r->at[b->first + i];
    memcpy(l->turned[at], workspace->rows + i * dim, dim * sizeof *workspace->rows);
  }
  return KF_OK;
}

static kf_status read_rows(kf_left_out *l, const uint64_t *at, const uint64_t *row, uint64_t n) {
  kf_ctx *ctx = l->ctx;
  kf_data *data;
  KF_TRY(kf_data_new_collected(ctx, l->data, row, n, &data));
  reading r = {.l = l, .at = at, .data = data};
  kf_pass pass = {.rows = MEANS,
                  .work = read_batch,
                  .argument = &r,
                  .workspace_size = sizeof(reading_workspace),
                  .make_workspace = take_workspace};
  kf_status status = kf_each_batch(ctx, data, &pass);
  kf_data_free(data);
  return status;
}

kf_status kf_left_out_read(kf_left_out *l, const bool *blocks) {
  kf_arena arena = {0};
  uint64_t *at, *row, n = 0;
  KF_TAKE(&arena, at, l->rows.n);
  KF_TAKE(&arena, row, l->rows.n);
  kf_status status = arena.failed ? kf_fail_memory(&l->ctx->err) : KF_OK;
  for (uint64_t k = 0; status == KF_OK && k < l->n_blocks; k++)
    for (uint64_t i = l->start[k]; blocks[k] && i < l->start[k + 1]; i++) {
      if (l->turned[i] != NULL) continue;
      l->turned[i] = l->read + l->n_read++ * l->dim;
      at[n] = i;
      row[n++] = l->rows.row[i];
    }
  if (n > 0) status = read_rows(l, at, row, n);
  kf_arena_free(&arena);
  return status;
}

static uint64_t usual_sample(const kf_left_out *l, bool by_hits) {
  uint64_t rows = HIT_SCORES / l->stats->n_classes;
  if (!by_hits) return KF_LEFT_OUT_SAMPLE;
  return rows < LEAST_HIT_ROWS ? LEAST_HIT_ROWS : rows < MOST_HIT_ROWS ? rows : MOST_HIT_ROWS;
}

static kf_status prepare(kf_left_out *l, const kf_left_out_options *o) {
  KF_TRY(kf_fitter_decompose_within(l->fitter));
  KF_TRY(list_classes(l));
  KF_TRY(kf_left_out_plan(l, o->sample > 0 ? o->sample : usual_sample(l, o->by_hits)));
  l->fast_hits = o->by_hits && !l->euclidean && l->rows.n * l->n > MANY_SCORES;
  KF_TRY(turn_classes(l));
  if (o->text != NULL) KF_TRY(turn_text(l, o->text));
  if (kf_fitter_weighs(l->fitter) && !l->euclidean && o->text == NULL) KF_TRY(weigh_classes(l));
  KF_TAKE_ZERO(&l->arena, l->turned, l->rows.n);
  KF_TAKE(&l->arena, l->read, l->rows.n * l->dim);
  if (l->with_text) KF_TAKE(&l->arena, l->length, l->rows.n);
  kf_view_make(&l->view, l, &l->arena);
  kf_left_out_make_workspaces(l, &l->arena);
  return l->arena.failed ? kf_fail_memory(&l->ctx->err) : KF_OK;
}

kf_status kf_left_out_new(kf_fitter *fitter, const kf_data *data,
                          const kf_left_out_options *options, kf_left_out **out) {
  kf_ctx *ctx = fitter->ctx;
  const kf_stats *stats = fitter->within;
  KF_TRY(kf_check_statistics_of(stats, data, &ctx->err));
  if (fitter->by_all_rows)
    return kf_fail(&ctx->err, KF_ERR_MATH,
                   "no class has two different rows, so leaving rows out says nothing");
  kf_method method = fitter->method;
  bool euclidean = options->metric == KF_METRIC_EUCLIDEAN;
  bool centred = euclidean || kf_centre_for(options->centre, method) == KF_CENTRE_MEAN;
  if (!centred && method == KF_METHOD_SHRUNK)
    return kf_fail_hint(
        &ctx->err, KF_ERR_ARG, KF_HINT_CENTRE,
        "class means are shrunk towards the mean of all rows, so rows must be centred "
        "on it when some are left out");
  kf_left_out *l = kf_alloc_zero(1, sizeof *l);
  if (l == NULL) return kf_fail_memory(&ctx->err);
  l->ctx = ctx;
  l->fitter = fitter;
  l->stats = stats;
  l->data = data;
  l->groups = options->groups;
  l->dim = stats->dim;
  l->euclidean = euclidean;
  l->centred = centred;
  KF_HAND_OUT(prepare(l, options), out, l, kf_left_out_free);
}

void kf_left_out_free(kf_left_out *l) {
  if (l == NULL) return;
  kf_row_list_clear(&l->rows);
  kf_arena_free(&l->arena);
  kf_free(l);
}

kf_left_out_count kf_left_out_counts(const kf_left_out *l) { return l->count; }
