/* directions.c - the directions of the Fukunaga-Koontz transform at one lambda (defined in
 * fitter.c), in one of two ways:
 *
 * By a triangular factor. With S_w + lambda I = R^T R (cholesky.c),
 *
 *     C = R^-T S_b R^-1 = U^T diag(gamma) U        T = the rows of U R^-T
 *
 * Models are made this way, which needs no eigenvectors of S_w. S_w + lambda I is scaled by an even
 * power of two that makes its largest element about one, so no lambda is too large or too small.
 *
 * By the eigenvectors of S_w,
 *
 *     S_w = V^T diag(w) V       C = diag(w + lambda)^(-1/2) V S_b V^T diag(w + lambda)^(-1/2)
 *     C = U^T diag(gamma) U     T = the rows of U diag(w + lambda)^(-1/2) V
 *
 * where V is found once for all lambdas. This is cheaper for each of many lambdas, and
 * leave-one-out needs V anyway, so the curve over lambda is made this way. So are models at lambda
 * 0, or where a pivot of the factor is below 2^-30 of the largest diagonal element of S_w + lambda
 * I: there rounding errors matter, and eigenvalues show which directions are nothing else.
 *
 * Both give the same T up to rounding and signs. Which one makes a model depends only on the
 * statistics and lambda, not on whether lambda was given or chosen. Leave-one-out at the lambda of
 * a model uses its map; U in the basis of V is then T V^T diag(w + lambda)^(1/2). */
#include "model/fitter.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define LEAST_PIVOT   0x1p-30 /* relative to the largest diagonal element */
#define LEAST_SCATTER 1e-290  /* the inverse of a smaller unit would overflow */

void kf_directions_take(kf_fitter *f) {
  uint64_t n = f->dim, matrix = (n * n + 7) / 8 * 8, workspace = kf_eigen_workspace(f->dim);
  double *all; /* the matrices in one piece, for large pages */
  KF_TAKE(&f->arena, f->values, n);
  KF_TAKE(&f->arena, f->scale, n);
  KF_TAKE(&f->arena, f->gamma, n);
  KF_TAKE(&f->arena, f->factor.inverse, n);
  KF_TAKE(&f->arena, all, 4 * matrix + workspace);
  if (f->arena.failed) return;
  f->s_w = all;
  f->s_b = all + matrix;
  f->factor.r = all + 2 * matrix;
  f->u = all + 3 * matrix;
  f->workspace = all + 4 * matrix;
  f->factor.n = n;
  f->c = f->map = f->workspace + (workspace - n * n);
  f->map_lambda = f->u_lambda = (double)NAN;
}

/* --- S_w -------------------------------------------------------------------------------------- */

/* Sets noise and matrix rank. S_w is positive semi-definite by construction. */
static kf_status judge_values(kf_fitter *f) {
  double largest = fabs(f->values[0]), smallest = f->values[f->dim - 1];
  f->noise = f->dim * DBL_EPSILON * largest;
  for (f->dims_within = 0; f->dims_within < f->dim && f->values[f->dims_within] > f->noise;)
    f->dims_within++;
  for (uint32_t i = f->dims_within; i < f->dim; i++) f->values[i] = 0;
  /* Far beyond rounding errors: the file is not genuine. */
  if (smallest < -1e-6 * largest)
    return kf_fail_file(&f->ctx->err, f->within->from,
                        "no rows have these statistics: their scatter within classes has a "
                        "negative eigenvalue, %g",
                        smallest);
  f->has_values = true;
  return KF_OK;
}

/* The eigensolver works where `map` is. */
static kf_status solve(kf_fitter *f, const double *a, double *values, double *vectors) {
  f->map_lambda = (double)NAN;
  return kf_eigen_in(f->ctx, f->dim, a, values, vectors, f->workspace);
}

kf_status kf_fitter_decompose_within(kf_fitter *f) {
  if (f->has_vectors) return KF_OK;
  uint64_t n = f->dim;
  if (f->vectors == NULL && KF_TAKE(&f->arena, f->vectors, n * n) == NULL)
    return kf_fail_memory(&f->ctx->err);
  KF_TRY(solve(f, f->s_w, f->values, f->vectors));
  KF_TRY(judge_values(f));
  f->has_vectors = true;
  return KF_OK;
}

kf_status kf_fitter_rotate_between(kf_fitter *f) {
  uint64_t n = f->dim;
  KF_TRY(kf_fitter_decompose_within(f));
  if (f->has_between) return KF_OK;
  if (f->between_in_v == NULL && KF_TAKE(&f->arena, f->between_in_v, n * n) == NULL)
    return kf_fail_memory(&f->ctx->err);
  double *columns = f->u, *half = f->c; /* V^T and S_b V^T */
  f->map_lambda = f->u_lambda = (double)NAN;
  kf_transpose(n, n, f->vectors, columns);
  kf_product product = {.a = f->s_b, .b = columns, .c = half, .m = n, .n = n, .depth = n};
  KF_TRY(kf_multiply(f->ctx, product));
  product = (kf_product){columns, half, f->between_in_v, n, n, n, .upper = true};
  KF_TRY(kf_multiply(f->ctx, product));
  f->has_between = true;
  return KF_OK;
}

/* --- by the eigenvectors of S_w --------------------------------------------------------------- */

/* Sets rows of C, divided by the square of the largest scale so that no lambda makes it overflow,
 * and the columns that mirror them. */
static kf_status whiten_rows(void *argument, size_t block, size_t worker, kf_err *err) {
  (void)worker;
  (void)err;
  const kf_fitter *f = argument;
  uint64_t n = f->dim, end = kf_block_end(n, block);
  double largest = f->scale[n - 1]; /* eigenvalues fall, so scales rise */
  for (uint64_t i = block * (uint64_t)KF_ROW_BLOCK; i < end; i++) {
    double scale = f->scale[i] / largest;
    for (uint64_t j = i; j < n; j++)
      f->c[j * n + i] = f->c[i * n + j] =
          f->between_in_v[i * n + j] * (scale * (f->scale[j] / largest));
  }
  return KF_OK;
}

/* Converts eigenvalues from units of root^2; those that are rounding errors become 0. */
static kf_status set_gamma(kf_fitter *f, double lambda, double root) {
  double noise = f->dim * DBL_EPSILON * fabs(f->gamma[0]);
  for (uint32_t i = 0; i < f->dim; i++)
    f->gamma[i] = f->gamma[i] < noise ? 0 : f->gamma[i] * root * root;
  if (isfinite(f->gamma[0])) return KF_OK;
  return kf_fail(&f->ctx->err, KF_ERR_MATH, "lambda %g is too small for double precision", lambda);
}

static void set_scale(kf_fitter *f, double lambda) {
  for (uint32_t i = 0; i < f->dim; i++) f->scale[i] = 1 / sqrt(f->values[i] + lambda);
}

static kf_status turn_by_vectors(kf_fitter *f, double lambda) {
  KF_TRY(kf_fitter_rotate_between(f));
  f->map_lambda = f->u_lambda = (double)NAN;
  set_scale(f, lambda);
  double largest = f->scale[f->dim - 1];
  KF_TRY(kf_by_rows(f->ctx, f->dim, whiten_rows, f));
  KF_TRY(solve(f, f->c, f->gamma, f->u));
  KF_TRY(set_gamma(f, lambda, largest));
  f->u_lambda = lambda;
  return KF_OK;
}

static kf_status map_by_vectors(kf_fitter *f, double lambda) {
  uint64_t n = f->dim;
  double *scaled = f->factor.r; /* U^T with its rows scaled */
  KF_TRY(turn_by_vectors(f, lambda));
  kf_transpose(n, n, f->u, scaled);
  for (uint64_t k = 0; k < n; k++)
    for (uint64_t l = 0; l < n; l++) scaled[k * n + l] *= f->scale[k];
  kf_product product = {.a = f->vectors, .b = scaled, .c = f->map, .m = n, .n = n, .depth = n};
  KF_TRY(kf_multiply(f->ctx, product));
  f->map_lambda = lambda;
  return KF_OK;
}

/* --- by a triangular factor ------------------------------------------------------------------- */

/* S_w + lambda I in units of 2^(2 power). */
typedef struct shifted {
  const kf_fitter *fitter;
  double lambda, unit, *to;
} shifted;

static kf_status shift_rows(void *argument, size_t block, size_t worker, kf_err *err) {
  (void)worker;
  (void)err;
  const shifted *s = argument;
  uint64_t n = s->fitter->dim, end = kf_block_end(n, block);
  for (uint64_t i = block * (uint64_t)KF_ROW_BLOCK; i < end; i++) {
    const double *from = s->fitter->s_w + i * n;
    double *to = s->to + i * n;
    for (uint64_t j = i; j < n; j++) to[j] = from[j] * s->unit;
    to[i] = (from[i] + s->lambda) * s->unit;
  }
  return KF_OK;
}

/* Factorizes S_w + lambda I in units of 2^(2 power). *good: whether all pivots are large enough. */
static kf_status factorize(kf_fitter *f, double lambda, int *power, bool *good) {
  uint64_t n = f->dim;
  double largest = 0;
  for (uint64_t i = 0; i < n; i++) largest = fmax(largest, f->s_w[i * n + i] + lambda);
  *good = lambda > 0 && largest > LEAST_SCATTER && isfinite(largest);
  if (!*good) return KF_OK;
  frexp(largest, power);
  *power /= 2;
  shifted s = {.fitter = f, .lambda = lambda, .unit = ldexp(1, -2 * *power), .to = f->workspace};
  KF_TRY(kf_by_rows(f->ctx, n, shift_rows, &s));
  return kf_factorize(f->ctx, s.to, LEAST_PIVOT * largest * s.unit, &f->factor, good);
}

/* Copies rows of u to columns of the map, times a power of two. */
typedef struct columns {
  const kf_fitter *fitter;
  double unit;
} columns;

static kf_status take_columns(void *argument, size_t block, size_t worker, kf_err *err) {
  (void)worker;
  (void)err;
  const columns *t = argument;
  const kf_fitter *f = t->fitter;
  uint64_t n = f->dim, end = kf_block_end(n, block), step = 8; /* a cache line of both */
  for (uint64_t first = block * (uint64_t)KF_ROW_BLOCK; first < end; first += step)
    for (uint64_t k = 0; k < n; k++)
      for (uint64_t l = first; l < end && l < first + step; l++)
        f->map[k * n + l] = f->u[l * n + k] * t->unit;
  return KF_OK;
}

/* Finds the eigenvalues of S_w, which a model stores. */
static kf_status find_values(kf_fitter *f) {
  if (f->has_values) return KF_OK;
  KF_TRY(solve(f, f->s_w, f->values, NULL));
  return judge_values(f);
}

static kf_status map_by_factor(kf_fitter *f, double lambda, bool *good) {
  int power;
  f->map_lambda = f->u_lambda = (double)NAN;
  KF_TRY(factorize(f, lambda, &power, good));
  if (!*good) return KF_OK;
  KF_TRY(find_values(f));
  KF_TRY(kf_whiten(f->ctx, &f->factor, f->s_b, f->u, f->c));
  KF_TRY(solve(f, f->c, f->gamma, f->u));
  KF_TRY(set_gamma(f, lambda, ldexp(1, -power)));
  columns t = {.fitter = f, .unit = ldexp(1, -power)};
  KF_TRY(kf_by_rows(f->ctx, f->dim, take_columns, &t));
  KF_TRY(kf_unwhiten(f->ctx, &f->factor, f->dim, f->map));
  f->map_lambda = lambda;
  return KF_OK;
}

/* --- either ----------------------------------------------------------------------------------- */

kf_status kf_find_map(kf_fitter *f, double lambda) {
  if (lambda == f->map_lambda) return KF_OK;
  bool good;
  KF_TRY(map_by_factor(f, lambda, &good));
  return good ? KF_OK : map_by_vectors(f, lambda);
}

/* Finds U in the basis of V from the map. */
static kf_status turn_map(kf_fitter *f, double lambda) {
  uint64_t n = f->dim;
  double *turn = f->factor.r; /* V^T diag(w + lambda)^(1/2) */
  set_scale(f, lambda);
  kf_transpose(n, n, f->vectors, turn);
  for (uint64_t d = 0; d < n; d++)
    for (uint64_t i = 0; i < n; i++) turn[d * n + i] /= f->scale[i];
  kf_product product = {.a = f->map, .b = turn, .c = f->u, .m = n, .n = n, .depth = n};
  KF_TRY(kf_multiply(f->ctx, product));
  f->u_lambda = lambda;
  return KF_OK;
}

kf_status kf_fitter_directions_at(kf_fitter *f, double lambda, bool curve) {
  KF_TRY(kf_fitter_decompose_within(f));
  if (!curve) KF_TRY(kf_find_map(f, lambda));
  if (lambda == f->u_lambda) return KF_OK;
  return lambda == f->map_lambda ? turn_map(f, lambda) : turn_by_vectors(f, lambda);
}
