/* tridiagonal.c - Householder reflections to tridiagonal form and back, in blocks.
 *
 * Reflection i (i = n-1 … 1) clears row i left of the sub-diagonal. With v the reflector and
 * H = I - tau v v^T,
 *
 *     H A H = A - v w^T - w v^T,      p = tau A v,      w = p - (tau p.v / 2) v.
 *
 * The updates of PANEL reflections are deferred and applied as one matrix product (Dongarra,
 * Hammarling and Sorensen). Until then A stands for A - sum (v w^T + w v^T), both in its product
 * with v and in the next row. These products with v are half of the work. Each reads the lower
 * triangle once and is bound by memory. They are split into parts whose number depends on the size
 * alone; each part has its own sum, and the parts are added in order.
 *
 * To apply Q, the product of a block of reflections H_1 H_2 … H_k is I - V T V^T with T upper
 * triangular (Schreiber and Van Loan), which takes two matrix products to apply. */
#include "model/eigen.h"

#include <math.h>
#include <string.h>

#define PANEL     32u /* reflections made together */
#define ROW_BLOCK 96u /* rows of A updated together */
#define BACK      96u /* reflections applied together */
#define PARTS     8u  /* most parts of a product with a vector */

typedef struct reduction {
  kf_ctx *ctx;
  kf_tridiagonal *t;
  double *updates,
      *swapped; /* [2 PANEL][ld] v, -w, v, -w, … and -w, v, -w, v, …, their ends zero */
  size_t n_updates;
  size_t size;      /* of the matrix that is not reduced yet */
  const double *x;  /* the vector to multiply it with */
  double *products; /* [PARTS][ld] */
} reduction;

/* Turns x[0 … n) into the reflector, with 1 at its end, that maps it to (0, …, 0, alpha), and
 * returns alpha. The matrix is scaled to 1, so anything below 1e-30 is far below rounding
 * errors. */
static double reflector(const kf_kernels *kernels, size_t n, double *x, double *tau) {
  double cleared2 = kernels->dot(n - 1, x, x), last = x[n - 1];
  *tau = 0;
  if (cleared2 < 1e-60) {
    memset(x, 0, n * sizeof *x);
    return last;
  }
  double norm = sqrt(cleared2 + last * last), alpha = last > 0 ? -norm : norm;
  double inverse = 1 / (last - alpha);
  for (size_t i = 0; i + 1 < n; i++) x[i] *= inverse;
  x[n - 1] = 1;
  *tau = (alpha - last) / alpha;
  return alpha;
}

/* --- the product with a vector --------------------------------------------------------------- */

/* The first row of a part, a multiple of 8. Parts have about the same number of elements. */
static size_t part_start(size_t size, size_t parts, size_t part) {
  if (part == parts) return (size + 7) / 8 * 8;
  return (size_t)((double)size * sqrt((double)part / (double)parts)) / 8 * 8;
}

/* A part should take a few microseconds at least. */
static size_t count_parts(size_t size) {
  if (size >= 1024) return PARTS;
  return size >= 384 ? 2 : 1;
}

static kf_status multiply_part(void *argument, size_t part, size_t worker, kf_err *err) {
  (void)worker;
  (void)err;
  const reduction *r = argument;
  size_t ld = r->t->ld, parts = count_parts(r->size), end = part_start(r->size, parts, part + 1);
  double *y = r->products + part * ld;
  memset(y, 0, end * sizeof *y);
  for (size_t row = part_start(r->size, parts, part); row < end; row += 8)
    r->ctx->kernels->symmetric_rows(row, r->t->a + row * ld, ld, r->x, y);
  return KF_OK;
}

/* products[0] = A x, without the deferred updates. */
static kf_status multiply(reduction *r) {
  size_t parts = count_parts(r->size), ld = r->t->ld;
  KF_TRY(kf_parallel(r->ctx, parts, multiply_part, r));
  /* The last part covers all columns; the others are added to it. */
  double *y = r->products, *whole = y + (parts - 1) * ld;
  for (size_t part = 0; part + 1 < parts; part++) {
    size_t end = part_start(r->size, parts, part + 1);
    for (size_t c = 0; c < end; c++) whole[c] += y[part * ld + c];
  }
  if (parts > 1) memcpy(y, whole, r->size * sizeof *y);
  return KF_OK;
}

/* --- to tridiagonal form --------------------------------------------------------------------- */

/* Reflection i, with 2 n_updates deferred rows. */
static kf_status reduce_row(reduction *r, size_t i) {
  const kf_kernels *kernels = r->ctx->kernels;
  kf_tridiagonal *t = r->t;
  size_t ld = t->ld, rows = 2 * r->n_updates;
  double *row = t->a + i * ld, *y = r->products, factor[2 * PANEL], dots[2 * PANEL];
  for (size_t k = 0; k < rows; k++) factor[k ^ 1] = r->updates[k * ld + i];
  kernels->add_rows(r->updates, ld, rows, i + 1, factor, row);
  t->d[i] = row[i];
  t->e[i - 1] = reflector(kernels, i, row, &t->tau[i]);
  memset(row + i, 0, (ld - i) * sizeof *row);
  r->size = i;
  r->x = row;
  KF_TRY(multiply(r));
  kernels->row_dots(r->updates, ld, rows, i, row, dots);
  for (size_t k = 0; k < rows; k++) factor[k ^ 1] = dots[k]; /* v goes with w, and w with v */
  kernels->add_rows(r->updates, ld, rows, i, factor, y);
  double tau = t->tau[i], half = tau * tau * kernels->dot(i, row, y) / 2;
  double *v = r->updates + rows * ld, *w = v + ld;
  memcpy(v, row, ld * sizeof *v);
  memset(w, 0, ld * sizeof *w);
  for (size_t c = 0; c < i; c++) w[c] = half * row[c] - tau * y[c];
  memcpy(r->swapped + rows * ld, w, ld * sizeof *w);
  memcpy(r->swapped + (rows + 1) * ld, v, ld * sizeof *v);
  r->n_updates++;
  return KF_OK;
}

/* Updates the i-th block of rows of A from below, up to the end of its block on the diagonal. The
 * longest rows come first, so that threads finish together. */
static kf_status update_rows(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)worker;
  (void)err;
  const reduction *r = argument;
  size_t ld = r->t->ld, first = (r->size - 1) / ROW_BLOCK * ROW_BLOCK - i * ROW_BLOCK;
  size_t rows = r->size - first < ROW_BLOCK ? r->size - first : ROW_BLOCK;
  r->ctx->kernels->gemm_tn(r->updates + first, ld, r->swapped, ld, r->t->a + first * ld, ld, rows,
                           first + rows, 2 * r->n_updates);
  return KF_OK;
}

static kf_status reduce(reduction *r) {
  kf_tridiagonal *t = r->t;
  for (size_t next = t->n - 1; next >= 1;) {
    for (r->n_updates = 0; r->n_updates < PANEL && next >= 1; next--) KF_TRY(reduce_row(r, next));
    r->size = next + 1; /* rows that are left */
    KF_TRY(kf_parallel(r->ctx, (r->size + ROW_BLOCK - 1) / ROW_BLOCK, update_rows, r));
    KF_TRY(kf_progress_again(r->ctx));
  }
  t->d[0] = t->a[0];
  t->e[t->n - 1] = t->tau[0] = 0;
  memset(t->a, 0, t->ld * sizeof *t->a);
  return KF_OK;
}

kf_status kf_tridiagonalize(kf_ctx *ctx, kf_tridiagonal *t) {
  reduction r = {.ctx = ctx, .t = t};
  kf_arena arena = {0};
  KF_TAKE(&arena, r.updates, 2 * PANEL * (uint64_t)t->ld);
  KF_TAKE(&arena, r.swapped, 2 * PANEL * (uint64_t)t->ld);
  KF_TAKE(&arena, r.products, PARTS * (uint64_t)t->ld);
  kf_status status = arena.failed ? kf_fail_memory(&ctx->err) : reduce(&r);
  kf_arena_free(&arena);
  return status;
}

/* --- and back -------------------------------------------------------------------------------- */

typedef struct back {
  const kf_kernels *kernels;
  const kf_tridiagonal *t;
  double *z;
  size_t columns;
  size_t share;   /* columns of a task */
  double *y;      /* [n][ld]; block b: -V T in columns [BACK b, BACK b + BACK) */
  double *square; /* [blocks][BACK][BACK] -T */
  double *inner;  /* [threads][BACK][share] */
} back;

static size_t block_size(const kf_tridiagonal *t, size_t first) {
  return t->n - first < BACK ? t->n - first : BACK;
}

/* -T and -V T of one block: T[j][j] = tau_j, and above it column j is -tau_j T (V^T v_j). */
static kf_status form_block(void *argument, size_t block, size_t worker, kf_err *err) {
  (void)worker;
  (void)err;
  const back *g = argument;
  const kf_tridiagonal *t = g->t;
  size_t ld = t->ld, first = block * BACK, size = block_size(t, first), end = first + size;
  const double *v = t->a + first * ld;
  double *square = g->square + block * BACK * BACK, dots[BACK];
  for (size_t j = 0; j < size; j++) {
    double tau = t->tau[first + j];
    g->kernels->row_dots(v, ld, j, first + j, v + j * ld, dots);
    for (size_t i = 0; i < j; i++) {
      double sum = 0;
      for (size_t k = i; k < j; k++) sum += square[i * BACK + k] * dots[k];
      square[i * BACK + j] = -tau * sum;
    }
    square[j * BACK + j] = -tau;
  }
  for (size_t c = 0; c < end; c++) memset(g->y + c * ld + first, 0, size * sizeof *g->y);
  g->kernels->gemm_tn(v, ld, square, BACK, g->y + first, ld, end, size, size);
  return KF_OK;
}

static kf_status apply_all(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)err;
  const back *g = argument;
  const kf_tridiagonal *t = g->t;
  size_t ld = t->ld, share = g->share, first = i * share;
  size_t columns = g->columns - first < share ? g->columns - first : share;
  double *inner = g->inner + worker * BACK * share, *z = g->z + first;
  for (size_t from = 0; from < t->n; from += BACK) {
    size_t size = block_size(t, from), end = from + size;
    memset(inner, 0, size * share * sizeof *inner);
    g->kernels->gemm_tn(g->y + from, ld, z, ld, inner, share, size, columns, end);
    g->kernels->gemm_tn(t->a + from * ld, ld, inner, share, z, ld, end, columns, size);
  }
  return KF_OK;
}

kf_status kf_apply_reflectors(kf_ctx *ctx, const kf_tridiagonal *t, size_t columns, double *z,
                              double *workspace) {
  back g = {.kernels = ctx->kernels, .t = t, .z = z, .columns = columns, .y = workspace};
  size_t blocks = (t->n + BACK - 1) / BACK;
  g.share = kf_task_rows(ctx, columns);
  kf_arena arena = {0};
  KF_TAKE_ZERO(&arena, g.square, (uint64_t)blocks * BACK * BACK);
  KF_TAKE(&arena, g.inner, (uint64_t)ctx->threads * BACK * g.share);
  kf_status status = arena.failed ? kf_fail_memory(&ctx->err) : KF_OK;
  if (status == KF_OK) status = kf_parallel(ctx, blocks, form_block, &g);
  if (status == KF_OK) status = kf_parallel(ctx, (columns + g.share - 1) / g.share, apply_all, &g);
  kf_arena_free(&arena);
  return status;
}
