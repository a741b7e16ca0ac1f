/* left_out_view.c - what leave-one-out needs at one lambda: the directions in which class means
 * lie, and class means along them in the three metrics (left_out.c has the formulas).
 *
 * Memory is taken once for all lambdas. */
#include "choose/left_out_internal.h"

#include <math.h>
#include <string.h>

#define NO_SCATTER  1e-10 /* gamma this small, next to the largest, is rounding */
#define MEANS       96u   /* class means turned together */
#define LEAST_KINDS 4u    /* fewer are handled one by one */

uint64_t kf_view_most_directions(const kf_left_out *l) {
  bool fewer = l->n < l->dim && l->fitter->method == KF_METHOD_SHRUNK;
  return fewer ? l->n : l->dim;
}

/* Memory for finding directions. */
static void take_directions(kf_view *v, uint64_t n_dirs, kf_arena *arena) {
  uint64_t dim = v->l->dim, n = v->l->n;
  KF_TAKE(arena, v->gamma, dim);
  KF_TAKE(arena, v->directions, dim * n_dirs);
  if (!v->l->euclidean) KF_TAKE(arena, v->directions_f32, dim * n_dirs);
  if (n <= dim) {
    KF_TAKE(arena, v->whitened, dim * n);
    KF_TAKE(arena, v->weighted, n * dim);
    KF_TAKE(arena, v->square, n * n);
    KF_TAKE(arena, v->vectors, n * n);
  }
}

void kf_view_make(kf_view *v, const kf_left_out *l, kf_arena *arena) {
  uint64_t dim = l->dim, n = l->n, n_dirs = kf_view_most_directions(l);
  v->l = l;
  v->shrunk = l->fitter->method == KF_METHOD_SHRUNK;
  v->metrics = v->shrunk ? 3 : 1;
  v->kappa = v->shrunk ? kf_fitter_kappa(l->fitter) : 0;
  v->noise = (double)(l->stats->rows - l->n);
  v->prior = l->euclidean ? kf_fitter_prior(l->fitter) : 0;
  v->largest = kf_largest_count(l->stats->counts, l->stats->n_classes);
  KF_TAKE(arena, v->root, dim);
  KF_TAKE(arena, v->means, n * n_dirs);
  if (v->shrunk) take_directions(v, n_dirs, arena);
  for (uint32_t m = 0; m < v->metrics; m++) {
    KF_TAKE(arena, v->squares[m], n);
    KF_TAKE(arena, v->columns[m], n_dirs * n);
    v->columns_f32[m] = (float *)(void *)v->columns[m];
  }
  if (v->shrunk && l->n_kinds >= LEAST_KINDS)
    KF_TAKE(arena, v->narrowings, n_dirs * 2 * (uint64_t)l->n_kinds);
}

/* The number of eigenvalues above rounding errors; they fall. */
static uint32_t count_dirs(const double *gamma, uint32_t n) {
  uint32_t n_dirs = 0;
  while (n_dirs < n && gamma[n_dirs] > NO_SCATTER * gamma[0]) n_dirs++;
  return n_dirs;
}

static void narrow(const double *from, uint64_t n, float *to) {
  for (uint64_t i = 0; i < n; i++) to[i] = (float)from[i];
}

static void narrow_directions(kf_view *v) {
  if (v->fast) narrow(v->directions, (uint64_t)v->l->dim * v->n_dirs, v->directions_f32);
}

void kf_times_f32(const kf_kernels *kernels, const float *a, size_t m, const float *b, size_t n,
                  size_t depth, float *c) {
  memset(c, 0, m * n * sizeof *c);
  kernels->gemm_tn_f32(a, m, b, n, c, n, m, n, depth);
}

/* With fewer classes than columns, directions come from the matrix sqrt(n_i n_j) m_i.m_j. For an
 * eigenvector y the direction is sum_k sqrt(n_k) y_k m_k / sqrt(gamma), and class mean k has the
 * coordinate sqrt(gamma / n_k) y_k along it. */
static kf_status few_classes(kf_view *v) {
  const kf_left_out *l = v->l;
  kf_ctx *ctx = l->ctx;
  uint64_t dim = l->dim, n = l->n;
  double *columns = v->whitened;
  for (uint64_t j = 0; j < n; j++)
    for (uint64_t d = 0; d < dim; d++) {
      double x = l->means[j * dim + d] * v->root[d];
      v->weighted[j * dim + d] = x * sqrt((double)l->stats->counts[l->number[j]]);
      columns[d * n + j] = v->weighted[j * dim + d];
    }
  KF_TRY(kf_multiply(
      ctx, (kf_product){.a = columns, .b = columns, .c = v->square, .m = n, .n = n, .depth = dim}));
  KF_TRY(kf_eigen(ctx, l->n, v->square, v->gamma, v->vectors));
  v->n_dirs = count_dirs(v->gamma, l->n);
  double *turned = v->square; /* [n][n_dirs] vectors in columns, divided by sqrt(gamma) */
  for (uint64_t j = 0; j < n; j++)
    for (uint64_t i = 0; i < v->n_dirs; i++) {
      double root = sqrt(v->gamma[i]), y = v->vectors[i * n + j];
      turned[j * v->n_dirs + i] = y / root;
      v->means[j * v->n_dirs + i] = y * root / sqrt((double)l->stats->counts[l->number[j]]);
    }
  KF_TRY(kf_multiply(ctx, (kf_product){.a = v->weighted,
                                       .b = turned,
                                       .c = v->directions,
                                       .m = dim,
                                       .n = v->n_dirs,
                                       .depth = n}));
  narrow_directions(v);
  return KF_OK;
}

/* The class means [first, first + n) of a task. */
typedef struct span {
  uint64_t first, n;
} span;

static span span_of(const kf_left_out *l, size_t i) {
  uint64_t first = i * MEANS, left = l->n - first;
  return (span){first, left < MEANS ? left : MEANS};
}

static kf_status each_span(const kf_left_out *l, kf_task_fn task, void *argument) {
  return kf_parallel(l->ctx, (l->n + MEANS - 1) / MEANS, task, argument);
}

void kf_view_turn(const kf_view *v, const double *columns, size_t m, float *floats, double *out) {
  size_t dim = v->l->dim, n_dirs = v->n_dirs;
  kf_matrix turn = {.depth = dim, .n = n_dirs, .b = v->directions};
  if (!v->fast) {
    kf_matrix_times(v->l->ctx->kernels, &turn, columns, m, out);
    return;
  }
  float *turned = floats + m * dim;
  narrow(columns, m * dim, floats);
  kf_times_f32(v->l->ctx->kernels, floats, m, v->directions_f32, n_dirs, dim, turned);
  for (size_t i = 0; i < m * n_dirs; i++) out[i] = (double)turned[i];
}

/* Turns class means to the directions. Without shrinking they are only whitened. */
static kf_status turn_means(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)worker;
  const kf_view *v = argument;
  span s = span_of(v->l, i);
  uint64_t dim = v->l->dim;
  double *columns;
  float *floats;
  kf_arena arena = {0};
  KF_TAKE(&arena, columns, s.n * dim);
  KF_TAKE(&arena, floats, s.n * (dim + v->n_dirs));
  if (arena.failed) {
    kf_arena_free(&arena);
    return kf_fail_memory(err);
  }
  for (uint64_t j = 0; j < s.n; j++) {
    const double *mean = v->l->means + (s.first + j) * dim;
    for (uint64_t d = 0; d < dim; d++)
      *(v->shrunk ? &columns[d * s.n + j] : &v->means[(s.first + j) * dim + d]) =
          mean[d] * v->root[d];
  }
  if (v->shrunk) kf_view_turn(v, columns, s.n, floats, v->means + s.first * v->n_dirs);
  kf_arena_free(&arena);
  return KF_OK;
}

/* With more classes than columns, directions come from the fitter. */
static kf_status many_classes(kf_view *v, double lambda, bool curve) {
  const kf_left_out *l = v->l;
  uint64_t dim = l->dim;
  KF_TRY(kf_fitter_directions_at(l->fitter, lambda, curve));
  memcpy(v->gamma, l->fitter->gamma, dim * sizeof *v->gamma);
  v->n_dirs = count_dirs(v->gamma, l->dim);
  kf_transpose(v->n_dirs, dim, l->fitter->u, v->directions);
  narrow_directions(v);
  return each_span(l, turn_means, v);
}

static kf_status set_directions(kf_view *v, double lambda, bool curve) {
  const kf_left_out *l = v->l;
  if (v->shrunk) return l->n <= l->dim ? few_classes(v) : many_classes(v, lambda, curve);
  v->n_dirs = l->dim;
  return each_span(l, turn_means, v);
}

/* Sets class means and their squared lengths in the three metrics. */
static kf_status set_metrics(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)worker;
  (void)err;
  const kf_view *v = argument;
  uint64_t n = v->l->n;
  span s = span_of(v->l, i);
  for (uint32_t m = 0; m < v->metrics; m++)
    memset(v->squares[m] + s.first, 0, s.n * sizeof *v->squares[m]);
  for (uint64_t d = 0; d < v->n_dirs; d++)
    for (uint64_t j = s.first; j < s.first + s.n; j++) {
      double count = (double)v->l->stats->counts[v->l->number[j]];
      double z = v->means[j * v->n_dirs + d], part = z, inverse = kf_view_narrowing(v, count, d);
      for (uint32_t m = 0; m < v->metrics; m++) {
        if (v->fast)
          v->columns_f32[m][d * n + j] = (float)part;
        else
          v->columns[m][d * n + j] = part;
        v->squares[m][j] += part * z;
        part *= inverse;
      }
    }
  return KF_OK;
}

/* D^-1 - 1 and D^-2 - 1 of each kind in direction d. */
static kf_status set_narrowings(void *argument, size_t d, size_t worker, kf_err *err) {
  (void)worker;
  (void)err;
  const kf_view *v = argument;
  uint64_t n = v->l->n_kinds;
  double *to = v->narrowings + d * 2 * n;
  for (uint64_t k = 0; k < n; k++) {
    double narrowing = kf_view_narrowing(v, v->l->kinds[k].count, d);
    to[k] = narrowing - 1;
    to[n + k] = narrowing * narrowing - 1;
  }
  return KF_OK;
}

kf_status kf_view_set(kf_view *v, double lambda, bool curve, bool fast) {
  const kf_left_out *l = v->l;
  kf_ctx *ctx = l->ctx;
  const double *values = l->fitter->values;
  KF_TRY(kf_fitter_lambda(l->fitter, (kf_lambda){lambda, KF_LAMBDA_ABSOLUTE}, &lambda));
  double least = values[l->dim - 1] + lambda; /* values fall */
  if (!(least > 1e-290 && least > 1e-200 * l->fitter->mean_eigenvalue))
    return kf_fail(&ctx->err, KF_ERR_MATH, "lambda %g is too small for double precision", lambda);
  if (!(lambda < 1e250))
    return kf_fail(&ctx->err, KF_ERR_MATH, "lambda %g is too large for double precision", lambda);
  v->fast = fast && !l->euclidean;
  for (uint32_t d = 0; d < l->dim; d++) v->root[d] = 1 / sqrt(values[d] + lambda);
  KF_TRY(set_directions(v, lambda, curve));
  KF_TRY(each_span(l, set_metrics, v));
  return v->narrowings != NULL ? kf_parallel(ctx, v->n_dirs, set_narrowings, v) : KF_OK;
}
