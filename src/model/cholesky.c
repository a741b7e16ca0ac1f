/* cholesky.c - whitening by a triangular factor, with the same bits on every machine.
 *
 * A = R^T R with R upper triangular. Whitened, S becomes R^-T S R^-1, which is symmetric, and a
 * direction u of the whitened space is R^-1 u before.
 *
 * All of this is solving equations with R, one row of unknowns after the other:
 *
 *     R^T X = B:    x_i = (b_i - sum_{k < i} R[k][i] x_k) / R[i][i],      i = 0, 1, …
 *     R X = B:      x_i = (b_i - sum_{k > i} R[i][k] x_k) / R[i][i],      i = n - 1, n - 2, …
 *
 * and row i of R itself solves the first with b_i = a_i, from the diagonal on, up to a square root.
 * Rows are halved recursively: the first half is solved, a matrix product subtracts it from the
 * second half, and that is solved. So nearly all work is in products, and the sum in the first
 * equation still runs over k in order. Threads share the columns of the unknowns. */
#include "model/model.h"

#include <math.h>
#include <string.h>

#define SMALL 24u /* rows solved one by one */
#define BLOCK 8u  /* rows and columns transposed together */

/* Half of n > SMALL rows, rounded to a multiple of SMALL. */
static size_t half_of(size_t n) {
  size_t blocks = (n + SMALL - 1) / SMALL;
  return (blocks + 1) / 2 * SMALL;
}

/* --- equations ------------------------------------------------------------------------------- */

/* The unknowns of a task: some columns of a matrix. */
typedef struct unknowns {
  const kf_kernels *kernels;
  const kf_factor *f;
  double *x;
  size_t ld, columns;
} unknowns;

static void scale_row(const unknowns *u, size_t i) {
  double *row = u->x + i * u->ld, inverse = u->f->inverse[i];
  for (size_t c = 0; c < u->columns; c++) row[c] *= inverse;
}

/* Rows [first, first + n) of R^T X = B, with the rows above already subtracted. */
static void solve_down(const unknowns *u, size_t first, size_t n) {
  const double *r = u->f->r;
  size_t size = u->f->n, ld = u->ld;
  if (n > SMALL) {
    size_t half = half_of(n), next = first + half;
    solve_down(u, first, half);
    u->kernels->gemm_tn(r + first * size + next, size, u->x + first * ld, ld, u->x + next * ld, ld,
                        n - half, u->columns, half);
    solve_down(u, next, n - half);
    return;
  }
  double factor[SMALL];
  for (size_t i = first; i < first + n; i++) {
    for (size_t k = first; k < i; k++) factor[k - first] = r[k * size + i];
    u->kernels->add_rows(u->x + first * ld, ld, i - first, u->columns, factor, u->x + i * ld);
    scale_row(u, i);
  }
}

/* Rows [first, first + n) of R X = B, with the rows below already subtracted. */
static void solve_up(const unknowns *u, size_t first, size_t n) {
  const double *r = u->f->r;
  size_t size = u->f->n, ld = u->ld, end = first + n;
  if (n > SMALL) {
    size_t half = half_of(n), next = first + half;
    solve_up(u, next, n - half);
    u->kernels->gemm_tn(r + next * size + first, size, u->x + next * ld, ld, u->x + first * ld, ld,
                        half, u->columns, n - half);
    solve_up(u, first, half);
    return;
  }
  double factor[SMALL];
  for (size_t i = end; i-- > first;) {
    for (size_t k = i + 1; k < end; k++) factor[k - i - 1] = r[k * size + i];
    u->kernels->add_rows(u->x + (i + 1) * ld, ld, end - i - 1, u->columns, factor, u->x + i * ld);
    scale_row(u, i);
  }
}

/* --- the factor ------------------------------------------------------------------------------ */

typedef struct factorization {
  kf_ctx *ctx;
  kf_factor *f;
  double *work; /* [n][n] A, then R, from the diagonal on */
  double least; /* of a pivot */
  bool good;
  size_t first, half, n; /* of the current rows */
  size_t share;          /* columns or rows of a task */
} factorization;

/* Stores -R, rows [first, end) and columns [from, to), on both sides of the diagonal. */
static void store(const factorization *g, size_t first, size_t end, size_t from, size_t to) {
  size_t n = g->f->n;
  for (size_t row = first; row < end; row += BLOCK)
    for (size_t c = from; c < to; c++)
      for (size_t i = row; i < end && i < row + BLOCK && i <= c; i++)
        g->f->r[i * n + c] = g->f->r[c * n + i] = -g->work[i * n + c];
}

static void factorize_few(factorization *g, size_t first, size_t n) {
  size_t size = g->f->n, end = first + n;
  double factor[SMALL];
  for (size_t i = first; i < end; i++) {
    double *row = g->work + i * size;
    for (size_t k = first; k < i; k++) factor[k - first] = g->f->r[k * size + i];
    g->ctx->kernels->add_rows(g->work + first * size + i, size, i - first, end - i, factor,
                              row + i);
    if (!(row[i] > g->least)) {
      g->good = false;
      return;
    }
    double root = sqrt(row[i]), inverse = 1 / root;
    g->f->inverse[i] = inverse;
    row[i] = root;
    for (size_t c = i + 1; c < end; c++) row[c] *= inverse;
    store(g, i, i + 1, i, end);
  }
}

/* Solves for the first half of the rows in columns beyond that half. */
static kf_status solve_beyond(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)worker;
  (void)err;
  const factorization *g = argument;
  size_t from = g->first + g->half + i * g->share, end = g->first + g->n;
  size_t to = end - from < g->share ? end : from + g->share;
  unknowns u = {.kernels = g->ctx->kernels,
                .f = g->f,
                .x = g->work + from,
                .ld = g->f->n,
                .columns = to - from};
  solve_down(&u, g->first, g->half);
  store(g, g->first, g->first + g->half, from, to);
  return KF_OK;
}

/* Subtracts the first half from rows of the second, from the diagonal on. */
static kf_status subtract_half(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)worker;
  (void)err;
  const factorization *g = argument;
  size_t n = g->f->n, from = g->first + g->half + i * g->share, end = g->first + g->n;
  size_t rows = end - from < g->share ? end - from : g->share;
  g->ctx->kernels->gemm_tn(g->f->r + g->first * n + from, n, g->work + g->first * n + from, n,
                           g->work + from * n + from, n, rows, end - from, g->half);
  return KF_OK;
}

static kf_status factorize_rows(factorization *g, size_t first, size_t n) {
  if (n <= SMALL) {
    factorize_few(g, first, n);
    return KF_OK;
  }
  size_t half = half_of(n), rest = n - half;
  KF_TRY(factorize_rows(g, first, half));
  if (!g->good) return KF_OK;
  g->first = first;
  g->half = half;
  g->n = n;
  g->share = kf_task_rows(g->ctx, rest);
  KF_TRY(kf_parallel(g->ctx, (rest + g->share - 1) / g->share, solve_beyond, g));
  KF_TRY(kf_parallel(g->ctx, (rest + g->share - 1) / g->share, subtract_half, g));
  return factorize_rows(g, first + half, rest);
}

kf_status kf_factorize(kf_ctx *ctx, double *a, double least, kf_factor *f, bool *good) {
  factorization g = {.ctx = ctx, .f = f, .work = a, .least = least, .good = true};
  KF_TRY(factorize_rows(&g, 0, f->n));
  *good = g.good;
  return KF_OK;
}

/* --- whitening ------------------------------------------------------------------------------- */

typedef struct whitening {
  kf_ctx *ctx;
  const kf_factor *f;
  const double *s;
  double *left; /* [n][n] R^-T S */
  double *c;
  size_t columns, share;
} whitening;

static unknowns columns_of(const whitening *g, double *x, size_t i) {
  size_t from = i * g->share, left = g->columns - from;
  return (unknowns){.kernels = g->ctx->kernels,
                    .f = g->f,
                    .x = x + from,
                    .ld = g->columns,
                    .columns = left < g->share ? left : g->share};
}

static kf_status each_share(whitening *g, kf_task_fn task) {
  g->share = kf_task_rows(g->ctx, g->columns);
  return kf_parallel(g->ctx, (g->columns + g->share - 1) / g->share, task, g);
}

static kf_status whiten_left(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)worker;
  (void)err;
  const whitening *g = argument;
  unknowns u = columns_of(g, g->left, i);
  for (size_t r = 0; r < g->f->n; r++)
    memcpy(u.x + r * u.ld, g->s + r * u.ld + i * g->share, u.columns * sizeof *u.x);
  solve_down(&u, 0, g->f->n);
  return KF_OK;
}

/* Solves for columns of c down to the diagonal; mirror fills in the rest. The longest come first,
 * so that threads finish together. */
static kf_status whiten_right(void *argument, size_t task, size_t worker, kf_err *err) {
  (void)worker;
  (void)err;
  const whitening *g = argument;
  size_t i = (g->columns - 1) / g->share - task, n = g->f->n;
  unknowns u = columns_of(g, g->c, i);
  const double *left = g->left + i * g->share * n; /* its rows become columns */
  size_t rows = i * g->share + u.columns;
  for (size_t first = 0; first < rows; first += BLOCK)
    for (size_t c = 0; c < u.columns; c++)
      for (size_t r = first; r < rows && r < first + BLOCK; r++)
        u.x[r * u.ld + c] = left[c * n + r];
  solve_down(&u, 0, rows);
  return KF_OK;
}

/* Sets rows [8 i, 8 i + 8) of c left of the diagonal. */
static kf_status mirror(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)worker;
  (void)err;
  const whitening *g = argument;
  size_t n = g->f->n, first = i * BLOCK, end = first + BLOCK < n ? first + BLOCK : n;
  for (size_t c = 0; c < end; c++)
    for (size_t r = c < first ? first : c + 1; r < end; r++) g->c[r * n + c] = g->c[c * n + r];
  return KF_OK;
}

kf_status kf_whiten(kf_ctx *ctx, const kf_factor *f, const double *s, double *workspace,
                    double *c) {
  whitening g = {.ctx = ctx, .f = f, .s = s, .left = workspace, .c = c, .columns = f->n};
  KF_TRY(each_share(&g, whiten_left));
  KF_TRY(each_share(&g, whiten_right));
  return kf_parallel(ctx, (f->n + BLOCK - 1) / BLOCK, mirror, &g);
}

static kf_status unwhiten(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)worker;
  (void)err;
  const whitening *g = argument;
  unknowns u = columns_of(g, g->c, i);
  solve_up(&u, 0, g->f->n);
  return KF_OK;
}

kf_status kf_unwhiten(kf_ctx *ctx, const kf_factor *f, size_t columns, double *x) {
  whitening g = {.ctx = ctx, .f = f, .c = x, .columns = columns};
  return each_share(&g, unwhiten);
}
