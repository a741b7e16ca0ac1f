/* left_out.c - rows left out in groups (or each alone), exactly: the scores of all classes, without
 * fitting again (docs/choosing.md has the algebra at length).
 *
 * In the mapped space T (S_w + lambda I) T^T = I and T S_b T^T = Gamma. Take out a group of rows
 * with mapped rows z_i (centred on the mean of all N rows) and v_i = z_i - mean of their class:
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
 * Everything is then made of products of rows of U with class means, in the metrics I, D^-1 and
 * D^-2: three products of matrices for a batch of rows, and little algebra for each row and class.
 * The mean of all rows moves, too; that adds a multiple of the group's mean to every class mean.
 *
 * Rows are turned to the eigenvectors of S_w once. For each lambda they are scaled to the whitened
 * space, and turned to the directions of Gamma that class means have a part in, at most K - 1. In
 * all other directions D is 1.
 *
 * Held at their values of all rows are the scales of columns and kappa. Rows are the integers that
 * the statistics were made of. */
#include "choose/left_out_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MEANS       64u        /* class means that are turned together */
#define PRODUCTS    (1u << 20) /* numbers in a product of matrices, about */
#define LEAST_BATCH 16u        /* rows, unless there are fewer */
#define MOST_BATCH  512u       /* rows, unless a group has more */
#define NO_SCATTER  1e-10      /* gamma this small, next to the largest, is rounding */

/* --- making it --------------------------------------------------------------------------------- */

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

static kf_status turn_means(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)worker;
  kf_left_out *l = argument;
  uint64_t dim = l->dim, first = i * MEANS, left = l->n - first, n = left < MEANS ? left : MEANS;
  double *columns = kf_alloc(dim * n, sizeof *columns), *x = l->means + first * dim;
  if (columns == NULL) return kf_fail_memory(err);
  for (uint64_t t = 0; t < n; t++)
    kf_class_mean(l->stats, (uint64_t)l->number[first + t], x + t * dim);
  kf_turn_rows(l->ctx->kernels, l->dim, l->turn, l->centre, x, n, columns, x);
  kf_free(columns);
  return KF_OK;
}

/* The eigenvectors of S_w, the mean of all rows and class means. */
static kf_status turn_classes(kf_left_out *l) {
  kf_err *err = &l->ctx->err;
  uint64_t dim = l->dim;
  const double *vectors = kf_fitter_vectors(l->fitter), *column = kf_fitter_column(l->fitter);
  KF_TAKE(&l->arena, l->turn, dim * dim);
  KF_TAKE(&l->arena, l->centre, dim);
  KF_TAKE(&l->arena, l->means, l->n * dim);
  double *columns = kf_alloc(dim, sizeof *columns);
  if (l->arena.failed || columns == NULL) {
    kf_free(columns);
    return kf_fail_memory(err);
  }
  for (uint64_t i = 0; i < dim; i++)
    for (uint64_t d = 0; d < dim; d++) l->turn[d * dim + i] = vectors[i * dim + d] * column[d];
  kf_turn_rows(l->ctx->kernels, l->dim, l->turn, NULL, kf_fitter_mean(l->fitter), 1, columns,
               l->centre);
  kf_free(columns);
  return kf_parallel(l->ctx, (l->n + MEANS - 1) / MEANS, turn_means, l);
}

/* x.t = (x S) (t / S) with the scales S of columns, so text is turned by their inverse. */
static kf_status turn_text(kf_left_out *l, const float *text) {
  uint64_t dim = l->dim;
  const double *vectors = kf_fitter_vectors(l->fitter), *column = kf_fitter_column(l->fitter);
  const double *mean = kf_fitter_mean(l->fitter);
  double *scaled;
  KF_TAKE(&l->arena, l->text, dim * l->n);
  KF_TAKE(&l->arena, l->text_centre, l->n);
  KF_TAKE(&l->arena, scaled, dim);
  if (l->arena.failed) return kf_fail_memory(&l->ctx->err);
  for (uint64_t j = 0; j < l->n; j++) {
    const float *t = text + (uint64_t)l->number[j] * dim;
    double product = 0;
    for (uint64_t d = 0; d < dim; d++) {
      scaled[d] = (double)t[d] / column[d];
      product += (double)t[d] * mean[d];
    }
    l->text_centre[j] = product;
    for (uint64_t i = 0; i < dim; i++)
      l->text[i * l->n + j] = l->ctx->kernels->dot(dim, vectors + i * dim, scaled);
  }
  return KF_OK;
}

/* --- reading the rows, once -------------------------------------------------------------------- */

typedef struct reading {
  kf_left_out *l;
  const kf_data *data; /* the rows of the plan, in its order */
} reading;

typedef struct reading_scratch {
  int32_t *fixed;  /* [D] */
  double *columns; /* [D][MEANS] */
} reading_scratch;

static void take_scratch(const void *argument, void *scratch, kf_arena *arena) {
  const reading *r = argument;
  reading_scratch *s = scratch;
  KF_TAKE(arena, s->fixed, r->l->dim);
  KF_TAKE(arena, s->columns, (uint64_t)r->l->dim * MEANS);
}

/* Rows as the statistics saw them, turned. */
static kf_status read_batch(void *argument, const kf_batch *b, kf_err *err) {
  const reading *r = argument;
  const kf_left_out *l = r->l;
  const kf_kernels *kernels = l->ctx->kernels;
  reading_scratch *scratch = b->scratch;
  uint32_t dim = l->dim;
  double *to = l->turned + b->first * dim;
  for (uint64_t i = 0; i < b->n; i++) {
    const float *row = b->rows + i * dim;
    if (b->labels[i] != l->rows.label[b->first + i])
      return kf_fail_row(err, r->data, b->first + i, KF_HINT_NONE, "has changed meanwhile");
    KF_TRY(kf_row_seen(l->stats, kernels, row, b->norm2[i], r->data, b->first + i, scratch->fixed,
                       to + i * dim, err));
    if (l->length != NULL)
      l->length[b->first + i] = sqrt(kernels->dot(dim, to + i * dim, to + i * dim));
  }
  kf_turn_rows(l->ctx->kernels, l->dim, l->turn, l->centre, to, b->n, scratch->columns, to);
  return KF_OK;
}

static kf_status read_rows(kf_left_out *l) {
  kf_ctx *ctx = l->ctx;
  KF_TAKE(&l->arena, l->turned, l->rows.n * l->dim);
  if (l->text != NULL) KF_TAKE(&l->arena, l->length, l->rows.n);
  if (l->arena.failed) return kf_fail_memory(&ctx->err);
  kf_data *data;
  KF_TRY(kf_data_new_pick(l->data, l->rows.row, l->rows.n, &data, &ctx->err));
  reading r = {.l = l, .data = data};
  kf_pass pass = {.rows = MEANS,
                  .work = read_batch,
                  .argument = &r,
                  .scratch_size = sizeof(reading_scratch),
                  .make_scratch = take_scratch};
  kf_status status = kf_each_batch(ctx, data, &pass);
  kf_data_free(data);
  return status;
}

static kf_status prepare(kf_left_out *l, const kf_left_out_options *o) {
  KF_TRY(list_classes(l));
  KF_TRY(kf_left_out_plan(l, o->sample > 0 ? o->sample : KF_LEFT_OUT_SAMPLE));
  KF_TRY(turn_classes(l));
  if (o->text != NULL) KF_TRY(turn_text(l, o->text));
  return read_rows(l);
}

kf_status kf_left_out_check(const kf_fitter *fitter, kf_metric metric, kf_centre centre) {
  if (metric == KF_METRIC_EUCLIDEAN ||
      kf_centre_for(centre, kf_fitter_method(fitter)) == KF_CENTRE_MEAN)
    return KF_OK;
  return kf_fail_hint(&kf_fitter_ctx(fitter)->err, KF_ERR_ARG, KF_HINT_CENTRE,
                      "rows that are not centred are left out one by one, and by accuracy alone; "
                      "groups and the likelihood need centred rows");
}

kf_status kf_left_out_new(kf_fitter *fitter, const kf_data *data,
                          const kf_left_out_options *options, kf_left_out **out) {
  kf_ctx *ctx = kf_fitter_ctx(fitter);
  const kf_stats *stats = kf_fitter_stats(fitter);
  KF_TRY(kf_check_statistics_of(stats, data, &ctx->err));
  if (kf_fitter_total(fitter))
    return kf_fail(&ctx->err, KF_ERR_MATH,
                   "no class has two different rows, so leaving rows out says nothing");
  kf_left_out *l = kf_alloc_zero(1, sizeof *l);
  if (l == NULL) return kf_fail_memory(&ctx->err);
  l->ctx = ctx;
  l->fitter = fitter;
  l->stats = stats;
  l->data = data;
  l->groups = options->groups;
  l->dim = stats->dim;
  l->euclidean = options->metric == KF_METRIC_EUCLIDEAN;
  KF_HAND_OUT(prepare(l, options), out, l, kf_left_out_free);
}

void kf_left_out_free(kf_left_out *l) {
  if (l == NULL) return;
  kf_row_list_clear(&l->rows);
  kf_arena_free(&l->arena);
  kf_free(l);
}

kf_left_out_count kf_left_out_counts(const kf_left_out *l) { return l->count; }

/* --- a lambda ---------------------------------------------------------------------------------- */

/* How many of the eigenvalues, which fall, are more than rounding. */
static uint32_t count_directions(const double *gamma, uint32_t n) {
  uint32_t rank = 0;
  while (rank < n && gamma[rank] > NO_SCATTER * gamma[0]) rank++;
  return rank;
}

/* With fewer classes than columns, the directions are those of the matrix sqrt(n_i n_j) m_i.m_j. With
 * its eigenvectors y they are sum_k sqrt(n_k) y_k m_k / sqrt(gamma), and class k lies at sqrt(gamma /
 * n_k) y_k along them. */
static kf_status few_classes(kf_view *v, kf_arena *scratch) {
  const kf_left_out *l = v->l;
  kf_ctx *ctx = l->ctx;
  uint64_t dim = l->dim, n = l->n;
  double *columns, *weighted, *square, *vectors;
  KF_TAKE(scratch, columns, dim * n);
  KF_TAKE(scratch, weighted, n * dim);
  KF_TAKE(scratch, square, n * n);
  KF_TAKE(scratch, vectors, n * n);
  KF_TAKE(&v->arena, v->gamma, n);
  if (scratch->failed || v->arena.failed) return kf_fail_memory(&ctx->err);
  for (uint64_t j = 0; j < n; j++)
    for (uint64_t d = 0; d < dim; d++) {
      double x = l->means[j * dim + d] * v->root[d];
      weighted[j * dim + d] = x * sqrt((double)l->stats->counts[l->number[j]]);
      columns[d * n + j] = weighted[j * dim + d];
    }
  KF_TRY(kf_multiply(
      ctx, (kf_product){.a = columns, .b = columns, .c = square, .m = n, .n = n, .depth = dim}));
  KF_TRY(kf_eigen(ctx, l->n, square, v->gamma, vectors));
  v->rank = count_directions(v->gamma, l->n);
  KF_TAKE(&v->arena, v->directions, dim * v->rank);
  KF_TAKE(&v->arena, v->means, n * v->rank);
  if (v->arena.failed) return kf_fail_memory(&ctx->err);
  double *turned = square; /* [n][rank] the vectors in columns, over sqrt(gamma) */
  for (uint64_t j = 0; j < n; j++)
    for (uint64_t i = 0; i < v->rank; i++) {
      double root = sqrt(v->gamma[i]), y = vectors[i * n + j];
      turned[j * v->rank + i] = y / root;
      v->means[j * v->rank + i] = y * root / sqrt((double)l->stats->counts[l->number[j]]);
    }
  return kf_multiply(
      ctx, (kf_product){
               .a = weighted, .b = turned, .c = v->directions, .m = dim, .n = v->rank, .depth = n});
}

/* With more, they are those of the fitter. */
static kf_status many_classes(kf_view *v, double lambda, kf_arena *scratch) {
  const kf_left_out *l = v->l;
  kf_ctx *ctx = l->ctx;
  uint64_t dim = l->dim, n = l->n;
  kf_directions directions;
  KF_TRY(kf_fitter_decompose(l->fitter, lambda, &directions));
  double *columns;
  KF_TAKE(scratch, columns, dim * n);
  KF_TAKE(&v->arena, v->gamma, dim);
  if (scratch->failed || v->arena.failed) return kf_fail_memory(&ctx->err);
  memcpy(v->gamma, directions.gamma, dim * sizeof *v->gamma);
  v->rank = count_directions(v->gamma, l->dim);
  KF_TAKE(&v->arena, v->directions, dim * v->rank);
  KF_TAKE(&v->arena, v->means, n * v->rank);
  if (v->arena.failed) return kf_fail_memory(&ctx->err);
  for (uint64_t d = 0; d < dim; d++)
    for (uint64_t i = 0; i < v->rank; i++)
      v->directions[d * v->rank + i] = directions.u[i * dim + d];
  for (uint64_t j = 0; j < n; j++)
    for (uint64_t d = 0; d < dim; d++) columns[d * n + j] = l->means[j * dim + d] * v->root[d];
  return kf_multiply(
      ctx,
      (kf_product){
          .a = columns, .b = v->directions, .c = v->means, .m = n, .n = v->rank, .depth = dim});
}

static kf_status set_metrics(kf_view *v) {
  const kf_left_out *l = v->l;
  for (uint32_t m = 0; m < v->metrics; m++) {
    KF_TAKE(&v->arena, v->columns[m], (uint64_t)v->rank * l->n);
    KF_TAKE_ZERO(&v->arena, v->squares[m], l->n);
  }
  if (v->arena.failed) return kf_fail_memory(&l->ctx->err);
  for (uint32_t k = 0; k < l->n_kinds; k++)
    for (uint64_t d = 0; d < v->rank; d++) {
      double inverse = kf_view_narrowing(v, l->kinds[k].count, d);
      for (uint32_t at = l->kinds[k].first; at < l->kinds[k].last; at++) {
        uint64_t j = l->by_kind[at];
        double z = v->means[j * v->rank + d], part = z;
        for (uint32_t m = 0; m < v->metrics; m++) {
          v->columns[m][d * l->n + j] = part;
          v->squares[m][j] += part * z;
          part *= inverse;
        }
      }
    }
  return KF_OK;
}

static kf_status start_view(kf_view *v, const kf_left_out *l, double lambda) {
  kf_ctx *ctx = l->ctx;
  const double *values = kf_fitter_values(l->fitter);
  KF_TRY(kf_fitter_lambda(l->fitter, (kf_lambda){lambda, KF_LAMBDA_ABSOLUTE}, &lambda));
  v->l = l;
  v->shrunk = kf_fitter_method(l->fitter) == KF_METHOD_SHRUNK;
  v->metrics = v->shrunk ? 3 : 1;
  v->kappa = v->shrunk ? kf_fitter_kappa(l->fitter) : 0;
  v->noise = (double)(l->stats->rows - l->n);
  if (KF_TAKE(&v->arena, v->root, l->dim) == NULL) return kf_fail_memory(&ctx->err);
  double least = values[l->dim - 1] + lambda; /* values fall */
  if (!(least > 1e-290 && least > 1e-200 * kf_fitter_mean_eigenvalue(l->fitter)))
    return kf_fail(&ctx->err, KF_ERR_MATH, "lambda %g is too small for double precision", lambda);
  for (uint32_t d = 0; d < l->dim; d++) v->root[d] = 1 / sqrt(values[d] + lambda);
  kf_arena scratch = {0};
  kf_status status = l->n <= l->dim ? few_classes(v, &scratch) : many_classes(v, lambda, &scratch);
  kf_arena_free(&scratch);
  return status == KF_OK ? set_metrics(v) : status;
}

/* --- all rows ---------------------------------------------------------------------------------- */

typedef struct batch {
  uint64_t first, last; /* blocks, in the list of those chosen */
} batch;

/* A worker's memory; rows: of the largest batch. */
typedef struct bench {
  uint32_t *own;      /* [rows] place of the row's class among `classes` */
  uint32_t *classes;  /* [rows] different ones, by place */
  double *whitened;   /* [D][rows] in columns */
  double *z;          /* [rows][rank] along the directions of class means */
  double *columns;    /* [rank][2 rows] z, then the class means of the batch, in columns */
  double *product[3]; /* [2 rows][n] */
  double *wide;       /* [2 r][D] of a block */
  double *u;          /* [2 r][rank] of a block */
  double *scores;     /* [r][n] */
  double *text;       /* [rows][n] */
  double *both, *powers, *seen; /* [n], [2n], [n_classes] */
  kf_block block;
} bench;

typedef struct trial {
  const kf_left_out *l;
  const kf_left_out_trial *asked;
  const kf_left_out_point *points;
  size_t n_points;
  kf_view view;
  uint64_t *large; /* [n_large] blocks to fit again without */
  uint64_t n_large;
  uint64_t *blocks; /* [n_blocks] the others that were chosen */
  uint64_t n_blocks;
  batch *batches;
  uint64_t n_batches;
  uint64_t most_rows;     /* of a batch */
  bench *benches;         /* [threads] */
  kf_likelihood *softmax; /* [threads][n_points] */
  kf_arena arena;
} trial;

static void bench_make(const trial *t, bench *b, kf_arena *arena) {
  const kf_left_out *l = t->l;
  const kf_view *v = &t->view;
  uint64_t dim = l->dim, rows = t->most_rows, n = l->n, r2 = 2 * l->largest;
  KF_TAKE(arena, b->own, rows);
  KF_TAKE(arena, b->classes, rows);
  KF_TAKE(arena, b->whitened, rows * dim);
  KF_TAKE(arena, b->z, rows * v->rank);
  KF_TAKE(arena, b->columns, 2 * rows * v->rank);
  for (uint32_t m = 0; m < v->metrics; m++) {
    KF_TAKE(arena, b->product[m], 2 * rows * n);
    KF_TAKE(arena, b->block.product[m], r2 * n);
  }
  KF_TAKE(arena, b->wide, r2 * dim);
  KF_TAKE(arena, b->u, r2 * v->rank);
  KF_TAKE(arena, b->scores, l->largest * n);
  if (l->text != NULL) {
    KF_TAKE(arena, b->text, rows * n);
    KF_TAKE(arena, b->both, n);
  }
  KF_TAKE(arena, b->powers, 2 * n);
  if (t->asked->see != NULL) KF_TAKE(arena, b->seen, l->stats->n_classes);
  kf_block_make(&b->block, l->largest, v, arena);
}

/* The class of the i-th row of the batch among those of the batch; rows of a class follow one
 * another as a rule, so the last one is looked at first. */
static uint32_t class_in_batch(bench *b, uint32_t place, uint32_t *n_classes) {
  for (uint32_t k = *n_classes; k > 0; k--)
    if (b->classes[k - 1] == place) return k - 1;
  b->classes[*n_classes] = place;
  return (*n_classes)++;
}

/* Rows [at, …) of the plan to the directions of class means, and their products with all class
 * means; those of their own class means as well. */
static void multiply(const trial *t, bench *b, const uint64_t *at, uint64_t n) {
  const kf_left_out *l = t->l;
  const kf_view *v = &t->view;
  const kf_kernels *kernels = l->ctx->kernels;
  size_t dim = l->dim, rank = v->rank;
  uint32_t n_classes = 0;
  for (uint64_t i = 0; i < n; i++) {
    const double *x = l->turned + at[i] * dim;
    b->own[i] = class_in_batch(b, (uint32_t)l->place[l->rows.label[at[i]]], &n_classes);
    for (size_t d = 0; d < dim; d++) b->whitened[d * n + i] = x[d] * v->root[d];
  }
  memset(b->z, 0, n * rank * sizeof *b->z);
  kernels->gemm_tn(b->whitened, n, v->directions, rank, b->z, rank, n, rank, dim);
  size_t stride = n + n_classes;
  for (size_t d = 0; d < rank; d++) {
    for (uint64_t i = 0; i < n; i++) b->columns[d * stride + i] = b->z[i * rank + d];
    for (uint32_t k = 0; k < n_classes; k++)
      b->columns[d * stride + n + k] = v->means[(size_t)b->classes[k] * rank + d];
  }
  for (uint32_t m = 0; m < v->metrics; m++) {
    memset(b->product[m], 0, stride * l->n * sizeof *b->product[m]);
    kernels->gemm_tn(b->columns, stride, v->columns[m], l->n, b->product[m], l->n, stride, l->n,
                     rank);
  }
}

/* The cosines of rows with text; `whitened` is used for their columns. */
static void multiply_text(const trial *t, bench *b, const uint64_t *at, uint64_t n) {
  const kf_left_out *l = t->l;
  size_t dim = l->dim;
  for (uint64_t i = 0; i < n; i++)
    for (size_t d = 0; d < dim; d++) b->whitened[d * n + i] = l->turned[at[i] * dim + d];
  for (uint64_t i = 0; i < n; i++)
    memcpy(b->text + i * l->n, l->text_centre, l->n * sizeof *b->text);
  l->ctx->kernels->gemm_tn(b->whitened, n, l->text, l->n, b->text, l->n, n, l->n, dim);
  for (uint64_t i = 0; i < n; i++)
    for (uint32_t j = 0; j < l->n; j++) b->text[i * l->n + j] /= l->length[at[i]];
}

/* U of a block whose first row is the i-th of a batch of n, with its products. */
static void set_block(const trial *t, bench *b, const uint64_t *at, uint64_t i, uint64_t n) {
  const kf_left_out *l = t->l;
  const kf_view *v = &t->view;
  kf_block *to = &b->block;
  uint64_t dim = l->dim, rank = v->rank, r = to->r;
  to->label = l->rows.label + at[i];
  to->wide = b->wide;
  to->u = b->u;
  for (uint64_t k = 0; k < r; k++) {
    uint64_t place = b->classes[b->own[i + k]], own = n + b->own[i + k];
    const double *x = l->turned + at[i + k] * dim, *mean = l->means + place * dim;
    for (uint64_t d = 0; d < dim; d++) {
      b->wide[k * dim + d] = (x[d] - mean[d]) * v->root[d];
      b->wide[(r + k) * dim + d] = x[d] * v->root[d];
    }
    const double *z = b->z + (i + k) * rank, *of_class = v->means + place * rank;
    for (uint64_t d = 0; d < rank; d++) {
      b->u[k * rank + d] = z[d] - of_class[d];
      b->u[(r + k) * rank + d] = z[d];
    }
    for (uint32_t m = 0; m < v->metrics; m++) {
      const double *row = b->product[m] + (i + k) * l->n, *class = b->product[m] + own * l->n;
      for (uint32_t j = 0; j < l->n; j++) to->product[m][k * l->n + j] = row[j] - class[j];
      memcpy(to->product[m] + (r + k) * l->n, row, l->n * sizeof *row);
    }
  }
}

static void show_scores(const trial *t, bench *b, uint64_t at, const double *scores) {
  const kf_left_out *l = t->l;
  for (uint32_t k = 0; k < l->stats->n_classes; k++)
    b->seen[k] = l->place[k] >= 0 ? scores[l->place[k]] : NAN;
  t->asked->see(t->asked->argument, l->rows.row[at], l->rows.label[at], b->seen);
}

/* The rows of a block, the i-th of the batch and those after it. */
static void judge_block(const trial *t, bench *b, const uint64_t *at, uint64_t i, size_t worker) {
  const kf_left_out *l = t->l;
  for (uint32_t k = 0; k < b->block.r; k++) {
    uint32_t own = (uint32_t)l->place[l->rows.label[at[i + k]]];
    const double *scores = b->scores + (size_t)k * l->n, *given = scores;
    if (isnan(scores[own])) continue;
    for (size_t p = 0; p < t->n_points; p++) {
      if (l->text != NULL) {
        for (uint32_t j = 0; j < l->n; j++)
          b->both[j] = b->text[(i + k) * l->n + j] + t->points[p].alpha * scores[j];
        given = b->both;
      }
      kf_likelihood_add(&t->softmax[worker * t->n_points + p], given, l->n, own, b->powers);
      if (p == 0 && t->asked->see != NULL) show_scores(t, b, at[i + k], given);
    }
  }
}

static kf_status try_batch(void *argument, size_t i, size_t worker, kf_err *err) {
  const trial *t = argument;
  const kf_left_out *l = t->l;
  bench *b = &t->benches[worker];
  uint64_t n = 0, *at = kf_alloc(t->most_rows, sizeof *at);
  if (at == NULL) return kf_fail_memory(err);
  for (uint64_t k = t->batches[i].first; k < t->batches[i].last; k++)
    for (uint64_t r = l->start[t->blocks[k]]; r < l->start[t->blocks[k] + 1]; r++) at[n++] = r;
  multiply(t, b, at, n);
  if (l->text != NULL) multiply_text(t, b, at, n);
  uint64_t row = 0;
  for (uint64_t k = t->batches[i].first; k < t->batches[i].last; k++, row += b->block.r) {
    b->block.r = (uint32_t)(l->start[t->blocks[k] + 1] - l->start[t->blocks[k]]);
    set_block(t, b, at, row, n);
    kf_block_score(&t->view, &b->block, b->scores);
    judge_block(t, b, at, row, worker);
  }
  kf_free(at);
  return kf_task_progress(l->ctx, worker, t->asked->what, t->n_large + i + 1,
                          t->n_large + t->n_batches, err);
}

/* Fits again without each of the large blocks. */
static kf_status try_large(trial *t, uint64_t i) {
  const kf_left_out *l = t->l;
  kf_ctx *ctx = l->ctx;
  kf_arena arena = {0};
  bench b = {0};
  uint64_t first = l->start[t->large[i]], r = l->start[t->large[i] + 1] - first, *at;
  b.block.r = (uint32_t)r;
  KF_TAKE(&arena, at, r);
  KF_TAKE(&arena, b.scores, r * l->n);
  KF_TAKE(&arena, b.powers, 2 * (uint64_t)l->n);
  if (l->text != NULL) {
    KF_TAKE(&arena, b.whitened, r * l->dim);
    KF_TAKE(&arena, b.text, r * l->n);
    KF_TAKE(&arena, b.both, l->n);
  }
  if (t->asked->see != NULL) KF_TAKE(&arena, b.seen, l->stats->n_classes);
  kf_status status = arena.failed ? kf_fail_memory(&ctx->err) : KF_OK;
  if (status == KF_OK)
    status =
        kf_again_score(&t->view, r, l->rows.label + first, l->turned + first * l->dim, b.scores);
  if (status == KF_OK) {
    for (uint64_t k = 0; k < r; k++) at[k] = first + k;
    if (l->text != NULL) multiply_text(t, &b, at, r);
    judge_block(t, &b, at, 0, 0);
    status = kf_task_progress(ctx, 0, t->asked->what, i + 1, t->n_large + t->n_batches, &ctx->err);
  }
  kf_arena_free(&arena);
  return status;
}

/* Which blocks are left out, and in what batches: large ones for the products, but enough of them
 * for all threads. */
static kf_status plan_trial(trial *t) {
  const kf_left_out *l = t->l;
  uint64_t most = t->asked->most, share = l->n_blocks, rows = 0, limit = PRODUCTS / l->n;
  if (most > 0 && most < l->rows.n)
    share = (uint64_t)((double)l->n_blocks * ((double)most / (double)l->rows.n));
  if (share < 1) share = 1;
  uint64_t each = l->rows.n / (4 * (uint64_t)l->ctx->threads);
  if (limit > each) limit = each;
  limit = limit < LEAST_BATCH ? LEAST_BATCH : limit > MOST_BATCH ? MOST_BATCH : limit;
  KF_TAKE(&t->arena, t->large, l->n_blocks);
  KF_TAKE(&t->arena, t->blocks, l->n_blocks);
  KF_TAKE(&t->arena, t->batches, l->n_blocks);
  if (t->arena.failed) return kf_fail_memory(&l->ctx->err);
  for (uint64_t k = 0; k < l->n_blocks; k++) {
    if (!kf_takes(k, share, l->n_blocks)) continue;
    uint64_t r = l->start[k + 1] - l->start[k];
    if (kf_again_pays(l, r)) {
      t->large[t->n_large++] = k;
      continue;
    }
    if (t->n_blocks == 0 || rows + r > limit) {
      t->batches[t->n_batches++] = (batch){.first = t->n_blocks};
      rows = 0;
    }
    rows += r;
    if (rows > t->most_rows) t->most_rows = rows;
    t->blocks[t->n_blocks++] = k;
    t->batches[t->n_batches - 1].last = t->n_blocks;
  }
  return KF_OK;
}

static kf_status run_trial(trial *t, kf_left_out_point *points, uint64_t *n) {
  const kf_left_out *l = t->l;
  kf_ctx *ctx = l->ctx;
  KF_TRY(plan_trial(t));
  KF_TRY(start_view(&t->view, l, t->asked->lambda));
  KF_TAKE_ZERO(&t->arena, t->benches, ctx->threads);
  KF_TAKE(&t->arena, t->softmax, ctx->threads * t->n_points);
  for (unsigned i = 0; !t->arena.failed && i < ctx->threads; i++)
    bench_make(t, &t->benches[i], &t->arena);
  if (t->arena.failed) return kf_fail_memory(&ctx->err);
  for (size_t i = 0; i < ctx->threads * t->n_points; i++)
    t->softmax[i] = kf_likelihood_new(l->euclidean);
  for (uint64_t i = 0; i < t->n_large; i++) KF_TRY(try_large(t, i));
  KF_TRY(kf_parallel(ctx, t->n_batches, try_batch, t));
  for (size_t p = 0; p < t->n_points; p++) {
    for (unsigned i = 1; i < ctx->threads; i++)
      kf_likelihood_join(&t->softmax[p], &t->softmax[i * t->n_points + p]);
    kf_likelihood_find(&t->softmax[p], &points[p]);
    *n = t->softmax[p].n;
  }
  return KF_OK;
}

kf_status kf_left_out_try(kf_left_out *l, const kf_left_out_trial *asked, kf_left_out_point *points,
                          size_t n_points, uint64_t *n) {
  trial t = {.l = l, .asked = asked, .points = points, .n_points = n_points};
  kf_status status = run_trial(&t, points, n);
  kf_arena_free(&t.view.arena);
  kf_arena_free(&t.arena);
  return status;
}
