/* eigen.c - the symmetric eigenproblem, with the same bits on every machine.
 *
 * LAPACK would do this, but its bits, and so those of every model, would depend on the BLAS below
 * it, on the CPU that the BLAS detects, and on the number of threads. The method is that of
 * LAPACK's dsyevd: A = Q T Q^T by blocked reflections (tridiagonal.c), T = W diag(d) W^T by divide
 * and conquer (divide.c, secular.c, ql.c), and the eigenvectors Q W. All but half of the first step
 * is matrix products.
 *
 * Every sum is either canonical (eight lanes) or runs in a fixed order. Threads share rows and
 * columns, never a sum. */
#include "model/eigen.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 64u /* rows copied in a task */

typedef struct indexed {
  double value;
  size_t index;
} indexed;

typedef struct eigen {
  kf_ctx *ctx;
  kf_tridiagonal t;
  const double *a; /* the caller's */
  int power;       /* a is divided by 2^power */
  double *z;       /* [n][ld] eigenvectors in columns */
  double *workspace[2];
  indexed *order; /* [n] */
  double *vectors;
} eigen;

/* The power of two that scales the largest element to about 1, without rounding. */
static int power_of(const double *a, size_t n) {
  double largest = 0;
  for (size_t i = 0; i < n * n; i++) largest = fabs(a[i]) > largest ? fabs(a[i]) : largest;
  int power = 0;
  if (largest > 0) frexp(largest, &power);
  return power;
}

static kf_status take_rows(void *argument, size_t block, size_t worker, kf_err *err) {
  (void)worker;
  (void)err;
  const eigen *g = argument;
  size_t n = g->t.n, ld = g->t.ld, whole = (n + 7) / 8 * 8;
  /* In two steps: the inverse of a denormal number would be infinite. */
  double one = ldexp(1, -g->power / 2), two = ldexp(1, -g->power / 2 - g->power % 2);
  for (size_t i = block * BLOCK; i < whole && i < (block + 1) * BLOCK; i++) {
    double *to = g->t.a + i * ld;
    size_t columns = i < n ? n : 0;
    for (size_t j = 0; j < columns; j++) to[j] = g->a[i * n + j] * one * two;
    memset(to + columns, 0, (ld - columns) * sizeof *to);
  }
  return KF_OK;
}

/* Copies columns of z to rows of the result, in order. */
static kf_status give_rows(void *argument, size_t block, size_t worker, kf_err *err) {
  (void)worker;
  (void)err;
  const eigen *g = argument;
  size_t n = g->t.n, first = block * 8, last = first + 8 < n ? first + 8 : n;
  for (size_t c = 0; c < n; c++)
    for (size_t i = first; i < last; i++)
      g->vectors[i * n + c] = g->z[c * g->t.ld + g->order[i].index];
  return KF_OK;
}

static int falling(const void *a, const void *b) {
  const indexed *x = a, *y = b;
  if (x->value != y->value) return x->value > y->value ? -1 : 1;
  return x->index < y->index ? -1 : 1;
}

/* Solves the tridiagonal problem and transforms its eigenvectors back. */
static kf_status solve(eigen *g, double *values) {
  size_t n = g->t.n;
  bool vectors = g->vectors != NULL;
  KF_TRY(kf_divide(g->ctx, n, g->t.ld, g->t.d, g->t.e, vectors ? g->z : NULL, g->workspace));
  KF_TRY(kf_progress_again(g->ctx));
  if (vectors) KF_TRY(kf_apply_reflectors(g->ctx, &g->t, n, g->z, g->workspace[0]));
  for (size_t i = 0; i < n; i++) g->order[i] = (indexed){.value = g->t.d[i], .index = i};
  qsort(g->order, n, sizeof *g->order, falling);
  for (size_t i = 0; i < n; i++) values[i] = ldexp(g->order[i].value, g->power);
  return vectors ? kf_parallel(g->ctx, (n + 7) / 8, give_rows, g) : KF_OK;
}

static uint64_t rounded(uint32_t n) { return ((uint64_t)n + 7) / 8 * 8; }

/* The length of a row in memory, never a large power of two. */
static uint64_t stride(uint32_t n) { return rounded(n) | 8; }

uint64_t kf_eigen_workspace(uint32_t n) { return rounded(n) * (4 * stride(n) + 3); }

static kf_status decompose(eigen *g, double *values) {
  KF_TRY(kf_parallel(g->ctx, (g->t.n + BLOCK - 1) / BLOCK, take_rows, g));
  KF_TRY(kf_tridiagonalize(g->ctx, &g->t));
  return solve(g, values);
}

kf_status kf_eigen_in(kf_ctx *ctx, uint32_t n, const double *a, double *values, double *vectors,
                      double *workspace) {
  uint64_t whole = rounded(n), matrix = whole * stride(n);
  double *z = workspace + matrix + 3 * whole;
  eigen g = {.ctx = ctx,
             .t = {.n = n,
                   .ld = stride(n),
                   .a = workspace,
                   .d = workspace + matrix,
                   .e = workspace + matrix + whole,
                   .tau = workspace + matrix + 2 * whole},
             .a = a,
             .power = power_of(a, n),
             .z = z,
             .workspace = {z + matrix, z + 2 * matrix},
             .order = kf_alloc(n, sizeof *g.order),
             .vectors = vectors};
  kf_status status = g.order != NULL ? decompose(&g, values) : kf_fail_memory(&ctx->err);
  kf_free(g.order);
  return status;
}

kf_status kf_eigen(kf_ctx *ctx, uint32_t n, const double *a, double *values, double *vectors) {
  /* In one piece, for large pages. */
  double *workspace = kf_alloc(kf_eigen_workspace(n), sizeof *workspace);
  kf_status status = workspace != NULL ? kf_eigen_in(ctx, n, a, values, vectors, workspace)
                                       : kf_fail_memory(&ctx->err);
  kf_free(workspace);
  return status;
}
