/* left_out_inverse.c - a point of the curve over lambda without its directions (left_out.c has the
 * formulas, and the names).
 *
 * Of the directions only D^-1 and D^-2 count. In the whitened space as it is, not turned to them, D is
 *
 *     M = I + n kappa C,        C: S_b in that space
 *
 * so where all classes have n rows, s = M^-1 takes the place of D^-1. A triangular factor and a product
 * of matrices find it in a fraction of the time of an eigenproblem, and neither rows nor class means
 * need to be turned.
 *
 * The class that loses a row has n - 1 of them:
 *
 *     M' = I + (n - 1) kappa C = ((n - 1) M + I) / n,        M'^-1 = f(s),  f(x) = n x / (n - 1 + x).
 *
 * Eigenvalues x of s lie between 0 and 1. There 1 - f(x) = (1 - x) h(x), h(x) = (n - 1) / (n - 1 + x),
 * is what shrinking leaves of a mean. h and its square are nearly polynomials of degree 3 and 2: within
 * 1e-7 and 5e-6, if n is 32 or more. Thus it takes products of s^i x with s^j y, i, j <= 2, where x and y
 * are the row z and the mean m of its class: their moments.
 *
 * Numbers are f32, so where shrinking leaves next to nothing, at a large lambda, there are directions. */
#include "choose/left_out_internal.h"

#include <math.h>
#include <string.h>

#define LEAST_COUNT 32.0   /* rows of a class */
#define LEAST_PIVOT 0.5    /* no eigenvalue of M is below 1 */
#define LEAST_LEFT  0.0625 /* of class means, when they are shrunk */
#define ROWS        32u    /* of a matrix, in a task */
#define COLUMNS     8u     /* that are taken out of rows together: a cache line */

/* The polynomial through the values y at n nodes x, as coefficients of powers; y is destroyed. */
static void interpolate(int n, const double *x, double *y, double *to) {
  for (int k = 1; k < n; k++) /* divided differences */
    for (int i = n - 1; i >= k; i--) y[i] = (y[i] - y[i - 1]) / (x[i] - x[i - k]);
  memset(to, 0, KF_MOMENTS * sizeof *to);
  for (int k = n - 1; k >= 0; k--) { /* to := to (x - x_k) + y_k */
    for (int i = n - 1; i > 0; i--) to[i] = to[i - 1] - x[k] * to[i];
    to[0] = y[k] - x[k] * to[0];
  }
}

/* to := to (1 - x) */
static void times_rest(double *to) {
  for (int i = KF_MOMENTS - 1; i > 0; i--) to[i] -= to[i - 1];
}

/* f and its square, as coefficients. Nodes are Chebyshev's. */
static void set_fewer(kf_view *v, double n) {
  double outer = sqrt(2 + sqrt(2)) / 4, inner = sqrt(2 - sqrt(2)) / 4, far = sqrt(3) / 4;
  double four[] = {0.5 - outer, 0.5 - inner, 0.5 + inner, 0.5 + outer}, y[4];
  double three[] = {0.5 - far, 0.5, 0.5 + far}, *once = v->fewer[0], *twice = v->fewer[1];
  for (int i = 0; i < 4; i++) y[i] = (n - 1) / (n - 1 + four[i]);
  interpolate(4, four, y, once);
  times_rest(once);
  for (int i = 0; i < 3; i++) y[i] = (n - 1) / (n - 1 + three[i]) * ((n - 1) / (n - 1 + three[i]));
  interpolate(3, three, y, twice);
  times_rest(twice);
  times_rest(twice);
  for (int i = 0; i < KF_MOMENTS; i++) { /* f = 1 - (1 - f), f^2 = (1 - f)^2 - 1 + 2 f */
    once[i] = (i == 0 ? 1 : 0) - once[i];
    twice[i] += 2 * once[i] - (i == 0 ? 1 : 0);
  }
}

void kf_inverse_make(kf_view *v, kf_arena *arena) {
  const kf_left_out *l = v->l;
  v->may_invert = v->shrunk && !l->euclidean && l->groups == NULL && l->n > l->dim &&
                  l->n_kinds == 1 && l->kinds[0].count >= LEAST_COUNT;
  if (!v->may_invert) return;
  KF_TAKE(arena, v->pivots, l->dim);
  set_fewer(v, l->kinds[0].count);
}

/* --- M^-1 -------------------------------------------------------------------------------------- */

static kf_status by_rows(kf_view *v, kf_task_fn task) {
  return kf_parallel(v->l->ctx, (v->l->dim + ROWS - 1) / ROWS, task, v);
}

static uint64_t end_of(const kf_view *v, size_t block) {
  uint64_t end = (block + 1) * (uint64_t)ROWS;
  return end < v->l->dim ? end : v->l->dim;
}

/* M from the diagonal on. Like its factors it is in the memory of columns, which are set later. */
static kf_status set_rows(void *argument, size_t block, size_t worker, kf_err *err) {
  (void)worker;
  (void)err;
  const kf_view *v = argument;
  uint64_t dim = v->l->dim;
  double count = v->l->kinds[0].count, strength = count * v->kappa * count;
  for (uint64_t i = block * ROWS; i < end_of(v, block); i++) {
    double *to = v->columns[2] + i * dim, scale = strength * v->root[i];
    for (uint64_t j = i; j < dim; j++) to[j] = v->means[i * dim + j] * (scale * v->root[j]);
    to[i] += 1;
  }
  return KF_OK;
}

static kf_status narrow_rows(void *argument, size_t block, size_t worker, kf_err *err) {
  (void)worker;
  (void)err;
  const kf_view *v = argument;
  uint64_t dim = v->l->dim;
  for (uint64_t i = block * ROWS * dim; i < end_of(v, block) * dim; i++)
    v->columns_f32[0][i] = (float)v->columns[2][i];
  return KF_OK;
}

/* Rows of R^-1 R^-T from the diagonal on: the factors have zeros above the first of these rows. */
static kf_status square_rows(void *argument, size_t block, size_t worker, kf_err *err) {
  (void)worker;
  (void)err;
  const kf_view *v = argument;
  uint64_t dim = v->l->dim, first = block * ROWS, rows = end_of(v, block) - first;
  const float *from = v->columns_f32[0] + first * dim + first;
  float *to = v->directions_f32 + first * dim + first;
  for (uint64_t i = 0; i < rows; i++) memset(to + i * dim, 0, (dim - first) * sizeof *to);
  v->l->ctx->kernels->gemm_tn_f32(from, dim, from, dim, to, dim, rows, dim - first, dim - first);
  return KF_OK;
}

static kf_status mirror_rows(void *argument, size_t block, size_t worker, kf_err *err) {
  (void)worker;
  (void)err;
  const kf_view *v = argument;
  uint64_t dim = v->l->dim;
  float *s = v->directions_f32;
  for (uint64_t j = 0; j < end_of(v, block); j++)
    for (uint64_t i = block * ROWS > j + 1 ? block * ROWS : j + 1; i < end_of(v, block); i++)
      s[i * dim + j] = s[j * dim + i];
  return KF_OK;
}

/* sum_k m_k m_k^T, the upper triangle, in the memory of means; until there are directions again. */
static kf_status find_between(kf_view *v) {
  const kf_left_out *l = v->l;
  if (v->has_between) return KF_OK;
  KF_TRY(kf_multiply(l->ctx, (kf_product){.a = l->means,
                                          .b = l->means,
                                          .c = v->means,
                                          .m = l->dim,
                                          .n = l->dim,
                                          .depth = l->n,
                                          .upper = true}));
  v->has_between = true;
  return KF_OK;
}

static kf_status invert(kf_view *v, bool *good) {
  kf_ctx *ctx = v->l->ctx;
  kf_factor factor = {.n = v->l->dim, .r = v->directions, .inverse = v->pivots};
  double *square = v->columns[2];
  KF_TRY(find_between(v));
  KF_TRY(by_rows(v, set_rows));
  KF_TRY(kf_factorize(ctx, square, LEAST_PIVOT, &factor, good));
  if (!*good) return KF_OK;
  KF_TRY(kf_invert_factor(ctx, &factor, square));
  KF_TRY(by_rows(v, narrow_rows));
  KF_TRY(by_rows(v, square_rows));
  return by_rows(v, mirror_rows);
}

/* --- class means ------------------------------------------------------------------------------- */

typedef struct means_job {
  const kf_view *v;
  const kf_products *on;
  size_t share; /* columns of s, or class means, for a task */
} means_job;

/* Class means as they are. */
static kf_status whiten(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)worker;
  (void)err;
  const means_job *job = argument;
  const kf_view *v = job->v;
  uint64_t dim = v->l->dim, n = v->l->n, first = i * job->share;
  uint64_t end = n - first < job->share ? n : first + job->share;
  for (uint64_t from = 0; from < dim; from += COLUMNS)
    for (uint64_t j = first; j < end; j++)
      for (uint64_t d = from; d < dim && d < from + COLUMNS; d++)
        v->columns_f32[0][d * n + j] = (float)(v->l->means[j * dim + d] * v->root[d]);
  return KF_OK;
}

/* Rows of s times class means. */
static kf_status multiply_rows(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)worker;
  const means_job *job = argument;
  const kf_view *v = job->v;
  uint64_t dim = v->l->dim, first = i * job->share, left = dim - first;
  return kf_matrix_times(job->on, &v->as_is, v->directions_f32 + first, dim,
                         left < job->share ? left : job->share, v->columns_f32[1] + first * v->l->n,
                         err);
}

static kf_status set_squares(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)worker;
  (void)err;
  const means_job *job = argument;
  const kf_view *v = job->v;
  uint64_t n = v->l->n, first = i * job->share,
           end = n - first < job->share ? n : first + job->share;
  for (uint32_t m = 0; m < 3; m++) memset(v->squares[m] + first, 0, (end - first) * sizeof(double));
  for (uint64_t d = 0; d < v->l->dim; d++)
    for (uint64_t j = first; j < end; j++) {
      double x = (double)v->columns_f32[0][d * n + j], sx = (double)v->columns_f32[1][d * n + j];
      v->squares[0][j] += x * x;
      v->squares[1][j] += x * sx;
      v->squares[2][j] += sx * sx;
    }
  return KF_OK;
}

static kf_status each_share(means_job *job, uint64_t n, kf_task_fn task) {
  job->share = kf_task_rows(job->v->l->ctx, n);
  return kf_parallel(job->v->l->ctx, (n + job->share - 1) / job->share, task, job);
}

static kf_status place(const kf_view *v, kf_products *on, const float *columns, kf_matrix *to) {
  *to = (kf_matrix){.depth = v->l->dim, .n = v->l->n, .b_f32 = columns};
  return kf_matrix_place(on, to);
}

/* Whether shrinking leaves enough of class means. */
static bool enough_left(const kf_view *v) {
  double all = 0, left = 0;
  for (uint32_t j = 0; j < v->l->n; j++) {
    all += v->squares[0][j];
    left += v->squares[0][j] - v->squares[1][j];
  }
  return left >= LEAST_LEFT * all;
}

kf_status kf_inverse_set(kf_view *v, kf_products *on, bool *good) {
  const kf_left_out *l = v->l;
  means_job job = {.v = v, .on = on};
  KF_TRY(invert(v, good));
  if (!*good) return KF_OK;
  KF_TRY(each_share(&job, l->n, whiten));
  KF_TRY(place(v, on, v->columns_f32[0], &v->as_is));
  KF_TRY(each_share(&job, l->dim, multiply_rows));
  KF_TRY(each_share(&job, l->n, set_squares));
  *good = v->inverted = enough_left(v);
  return *good ? place(v, on, v->columns_f32[1], &v->by[1]) : KF_OK;
}

/* --- a batch ----------------------------------------------------------------------------------- */

/* The moments of all columns with themselves, and of rows with their classes. */
static void find_moments(const kf_view *v, const kf_inverse_batch *b) {
  uint64_t stride = b->n + b->n_classes;
  double *same = b->same, *cross = b->cross;
  memset(same, 0, KF_MOMENTS * stride * sizeof *same);
  memset(cross, 0, KF_MOMENTS * b->n * sizeof *cross);
  for (uint64_t d = 0; d < v->l->dim; d++)
    for (uint32_t k = 0; k < KF_MOMENTS; k++) {
      const float *x = b->powers[k / 2] + d * stride, *y = b->powers[(k + 1) / 2] + d * stride;
      const float *mean = y + b->n;
      double *of_same = same + k * stride, *of_cross = cross + k * b->n;
      for (uint64_t i = 0; i < stride; i++) of_same[i] += (double)x[i] * (double)y[i];
      for (uint64_t i = 0; i < b->n; i++) of_cross[i] += (double)x[i] * (double)mean[b->own[i]];
    }
}

kf_status kf_inverse_multiply(const kf_products *on, const kf_view *v, kf_inverse_batch *b,
                              kf_err *err) {
  const kf_left_out *l = v->l;
  uint64_t dim = l->dim, stride = b->n + b->n_classes;
  float *x = b->powers[0], *sx = b->powers[1], *ssx = b->powers[2];
  for (uint64_t d = 0; d < dim; d++) {
    for (uint64_t i = 0; i < b->n; i++)
      x[d * stride + i] = (float)(l->turned[b->at[i]][d] * v->root[d]);
    for (uint32_t k = 0; k < b->n_classes; k++) {
      x[d * stride + b->n + k] = v->columns_f32[0][d * l->n + b->classes[k]];
      sx[d * stride + b->n + k] = v->columns_f32[1][d * l->n + b->classes[k]];
    }
    memset(sx + d * stride, 0, b->n * sizeof *sx);
  }
  const kf_kernels *kernels = l->ctx->kernels;
  kernels->gemm_tn_f32(v->directions_f32, dim, x, stride, sx, stride, dim, b->n, dim);
  memset(ssx, 0, dim * stride * sizeof *ssx);
  kernels->gemm_tn_f32(v->directions_f32, dim, sx, stride, ssx, stride, dim, stride, dim);
  find_moments(v, b);
  KF_TRY(kf_matrix_times(on, &v->as_is, x, stride, stride, b->product[0], err));
  KF_TRY(kf_matrix_times(on, &v->by[1], x, stride, stride, b->product[1], err));
  return kf_matrix_times(on, &v->by[1], sx, stride, stride, b->product[2], err);
}

void kf_inverse_moments(const kf_inverse_batch *b, uint64_t i, kf_row_moments *to) {
  uint64_t stride = b->n + b->n_classes;
  for (uint32_t k = 0; k < KF_MOMENTS; k++) {
    to->zz[k] = b->same[k * stride + i];
    to->zm[k] = b->cross[k * b->n + i];
    to->mm[k] = b->same[k * stride + b->n + b->own[i]];
  }
}

/* --- a row ------------------------------------------------------------------------------------- */

/* Products of x and y in the metric of a class with n or n - 1 rows: s or f(s), its square. */
static double in_metric(const kf_view *v, double count, int power, const double *moments) {
  if (count == v->l->kinds[0].count) return moments[power];
  double sum = 0;
  for (int k = KF_MOMENTS - 1; k >= 0; k--) sum += v->fewer[power - 1][k] * moments[k];
  return sum;
}

void kf_inverse_grams(const kf_view *v, const kf_row_moments *m, double count, double *g1,
                      double *g2) {
  for (int power = 1; power <= 2; power++) {
    double zz = in_metric(v, count, power, m->zz), zm = in_metric(v, count, power, m->zm);
    double mm = in_metric(v, count, power, m->mm), *g = power == 1 ? g1 : g2;
    g[0] = zz - 2 * zm + mm;
    g[1] = g[2] = zz - zm;
    g[3] = zz;
  }
}

void kf_inverse_own(const kf_view *v, const kf_row_moments *m, double count, double *square,
                    double *h) {
  for (int power = 0; power <= 2; power++) {
    double zm = power == 0 ? m->zm[0] : in_metric(v, count, power, m->zm);
    double mm = power == 0 ? m->mm[0] : in_metric(v, count, power, m->mm);
    square[power] = mm;
    h[2 * power] = zm - mm;
    h[2 * power + 1] = zm;
  }
}
