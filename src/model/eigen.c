/* eigen.c - the symmetric eigenproblem, with the same bits on every machine.
 *
 * LAPACK would do this, but its bits, and so those of every model, would depend on the BLAS below
 * it, on the CPU that the BLAS detects, and on the number of threads. The problem is small (D^3, D
 * of a few hundred), so we solve it ourselves, in the classical way:
 *
 *   1. Householder reflections take A to tridiagonal form, A = Q T Q^T. Reflection i (i = n-1 … 2)
 *      clears row i left of the sub-diagonal. With v the reflector and H = I - tau v v^T,
 *      H A H = A - v w^T - w v^T, where p = tau A v and w = p - (tau p^T v / 2) v. Only the lower
 *      triangle is kept; the update of one step and the product A v of the next are done in one
 *      pass over it, since this step is bound by memory.
 *   2. Q^T is formed row by row; rows are independent.
 *   3. Implicit QL with Wilkinson's shift finds the eigenvalues of T as a long list of plane
 *      rotations, which are applied to the rows of Q^T in batches; columns are independent.
 *
 * Every sum is either canonical (eight lanes) or runs in a fixed order; rows and columns are shared
 * out among threads, sums never are. */
#include "model/model.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROW_GROUP    16  /* rows of Q^T formed together, so that a reflector is read once for all */
#define COLUMN_PANEL 64u /* columns rotated together; n * 64 doubles stay in the second cache */
#define BATCH        65536u /* rotations collected before they are applied */
#define MAX_SWEEPS   60     /* per eigenvalue; two are usual */

typedef struct sweep {
  size_t first; /* row of the first rotation; the others follow downwards */
  size_t start; /* in c and s */
  size_t count;
} sweep;

typedef struct ranked {
  double value;
  size_t index;
} ranked;

typedef struct eigen {
  kf_ctx *ctx;
  size_t n, ld; /* ld: n rounded up to whole cache lines */
  double *a;    /* [n][ld] lower triangle; row i becomes reflector i */
  double *q;    /* [n][ld] Q^T */
  size_t n_panels;
  double *panels; /* [n_panels][n][COLUMN_PANEL] Q^T again, rotated in the end */
  double *d;      /* [n] diagonal */
  double *e;      /* [n] e[i] couples i and i + 1 */
  double *tau;    /* [n] */
  double *work;   /* [4][ld] */
  double *c, *s;
  sweep *sweeps;
  size_t n_sweeps, n_rotations;
  ranked *order; /* [n] */
} eigen;

/* --- 1. tridiagonal form --------------------------------------------------------------------- */

/* Turns x[0 … n) into the reflector that takes it to (0, …, 0, alpha); returns alpha. The matrix is
 * scaled to 1, so anything below 1e-30 is far below rounding errors, and tau stays below 1e60. */
static double reflector(const kf_kernels *kernels, size_t n, double *x, double *tau) {
  double cleared2 = kernels->dot(n - 1, x, x), last = x[n - 1];
  double norm2 = cleared2 + last * last;
  if (cleared2 < 1e-60) {
    memset(x, 0, n * sizeof *x);
    *tau = 0;
    return last;
  }
  double norm = sqrt(norm2), alpha = last > 0 ? -norm : norm;
  *tau = 1 / (norm2 + fabs(last) * norm);
  x[n - 1] = last - alpha;
  return alpha;
}

static void tridiagonalise(eigen *g) {
  const kf_kernels *kernels = g->ctx->kernels;
  size_t n = g->n, ld = g->ld;
  double *v = g->work, *w = v + ld, *x = w + ld,
         *y = x + ld; /* v, w: the update still to be done */
  memset(g->work, 0, 4 * ld * sizeof *g->work);
  for (size_t i = n - 1; i >= 1; i--) {
    double *row = g->a + i * ld;
    for (size_t c = 0; c <= i; c++) row[c] -= v[c] * w[i] + w[c] * v[i];
    g->d[i] = row[i];
    g->e[i - 1] = reflector(kernels, i, row, &g->tau[i]);
    memcpy(x, row, i * sizeof *x);
    memset(y, 0, i * sizeof *y);
    for (size_t r = 0; r < i; r++) {
      double *a = g->a + r * ld;
      double sum = kernels->tridiagonal_row(r, a, v, w, v[r], w[r], x, x[r], y);
      a[r] -= 2 * (v[r] * w[r]);
      y[r] += sum + a[r] * x[r];
    }
    double half = g->tau[i] * g->tau[i] * kernels->dot(i, x, y) / 2;
    for (size_t c = 0; c < i; c++) {
      v[c] = x[c];
      w[c] = g->tau[i] * y[c] - half * x[c];
    }
  }
  g->d[0] = g->a[0];
}

/* --- 2. the orthogonal matrix ---------------------------------------------------------------- */

static kf_status form_rows(void *argument, size_t group, size_t worker, kf_err *err) {
  (void)worker;
  (void)err;
  const eigen *g = argument;
  const kf_kernels *kernels = g->ctx->kernels;
  size_t first = group * ROW_GROUP, end = first + ROW_GROUP < g->n ? first + ROW_GROUP : g->n;
  for (size_t r = first; r < end; r++) {
    memset(g->q + r * g->ld, 0, g->ld * sizeof *g->q);
    g->q[r * g->ld + r] = 1;
  }
  /* Row r of H_2 H_3 … H_{n-1}: reflector i reaches columns below i, so it starts to matter at
   * i = r + 1. */
  for (size_t i = first + 1; i < g->n; i++) {
    if (g->tau[i] == 0) continue;
    size_t rows = (i < end ? i : end) - first;
    kernels->reflect(i, g->tau[i], g->a + i * g->ld, g->q + first * g->ld, g->ld, rows);
  }
  return KF_OK;
}

/* --- 3. implicit QL -------------------------------------------------------------------------- */

/* Columns [64 panel, 64 panel + 64) of Q^T, side by side. In Q^T itself rows lie a power of two
 * apart, or nearly, and would push each other out of the caches. */
static kf_status copy_panel(void *argument, size_t panel, size_t worker, kf_err *err) {
  (void)worker;
  (void)err;
  const eigen *g = argument;
  size_t first = panel * COLUMN_PANEL;
  size_t columns = g->n - first < COLUMN_PANEL ? g->n - first : COLUMN_PANEL;
  double *to = g->panels + first * g->n;
  for (size_t r = 0; r < g->n; r++, to += COLUMN_PANEL) {
    memcpy(to, g->q + r * g->ld + first, columns * sizeof *to);
    memset(to + columns, 0, (COLUMN_PANEL - columns) * sizeof *to);
  }
  return KF_OK;
}

static kf_status rotate_panel(void *argument, size_t panel, size_t worker, kf_err *err) {
  (void)worker;
  (void)err;
  const eigen *g = argument;
  for (size_t t = 0; t < g->n_sweeps; t++) {
    const sweep *s = &g->sweeps[t];
    g->ctx->kernels->rotate(g->panels + panel * COLUMN_PANEL * g->n, COLUMN_PANEL, COLUMN_PANEL,
                            s->first, g->c + s->start, g->s + s->start, s->count);
  }
  return KF_OK;
}

static kf_status apply_rotations(eigen *g) {
  KF_TRY(kf_parallel(g->ctx, g->n_panels, rotate_panel, g));
  g->n_sweeps = g->n_rotations = 0;
  return KF_OK;
}

/* The first m >= l at which T splits. */
static size_t find_split(const eigen *g, size_t l, double negligible) {
  size_t m = l;
  for (; m + 1 < g->n; m++) {
    double scale = fabs(g->d[m]) + fabs(g->d[m + 1]);
    if (fabs(g->e[m]) <= DBL_EPSILON * scale || fabs(g->e[m]) <= negligible) break;
  }
  return m;
}

/* One QL sweep over the block [l, m], recorded in c and s. */
static void ql_sweep(eigen *g, size_t l, size_t m) {
  double *d = g->d, *e = g->e;
  double shift = (d[l + 1] - d[l]) / (2 * e[l]);
  double root = sqrt(shift * shift + 1);
  double f = d[m] - d[l] + e[l] / (shift + (shift >= 0 ? root : -root));
  double s = 1, c = 1, p = 0;
  sweep *record = &g->sweeps[g->n_sweeps++];
  *record = (sweep){.first = m - 1, .start = g->n_rotations};
  size_t i = m;
  while (i-- > l) {
    double y = s * e[i], b = c * e[i], r = sqrt(y * y + f * f);
    e[i + 1] = r;
    if (r == 0) { /* T split in the middle of the sweep: start again on the smaller block */
      d[i + 1] -= p;
      e[m] = 0;
      return;
    }
    s = y / r;
    c = f / r;
    f = d[i + 1] - p;
    r = (d[i] - f) * s + 2 * c * b;
    p = s * r;
    d[i + 1] = f + p;
    f = c * r - b;
    g->c[g->n_rotations] = c;
    g->s[g->n_rotations++] = s;
    record->count++;
  }
  d[l] -= p;
  e[l] = f;
  e[m] = 0;
}

static kf_status diagonalise(eigen *g) {
  /* Anything far below the rounding errors of step 1 is zero: this keeps clusters of zero
   * eigenvalues (fewer rows than dimensions) from chasing noise. */
  double largest = 0;
  for (size_t i = 0; i < g->n; i++) {
    double size = fabs(g->d[i]) + fabs(g->e[i]);
    if (!isfinite(size))
      return kf_fail(&g->ctx->err, KF_ERR_INTERNAL,
                     "the eigensolver met a number that is not finite");
    largest = fmax(largest, size);
  }
  double negligible = largest * DBL_EPSILON * 0x1p-10;
  for (size_t l = 0; l < g->n; l++)
    for (int sweeps = 0;; sweeps++) {
      size_t m = find_split(g, l, negligible);
      if (m == l) break;
      if (sweeps == MAX_SWEEPS)
        return kf_fail(&g->ctx->err, KF_ERR_INTERNAL, "the eigensolver did not converge");
      if (g->n_rotations + (m - l) > BATCH || g->n_sweeps == BATCH) KF_TRY(apply_rotations(g));
      ql_sweep(g, l, m);
    }
  return apply_rotations(g);
}

/* The power of two that brings the largest element near 1; exact to apply and to undo. */
static double scale_of(const double *a, size_t n) {
  double largest = 0;
  for (size_t i = 0; i < n * n; i++) largest = fmax(largest, fabs(a[i]));
  int power = 0;
  if (largest > 0) frexp(largest, &power);
  return ldexp(1.0, -power);
}

static int falling(const void *a, const void *b) {
  const ranked *x = a, *y = b;
  if (x->value != y->value) return x->value > y->value ? -1 : 1;
  return x->index < y->index ? -1 : 1;
}

static void sort_out(const eigen *g, double scale, double *values, double *vectors) {
  ranked *order = g->order;
  for (size_t i = 0; i < g->n; i++) order[i] = (ranked){.value = g->d[i], .index = i};
  qsort(order, g->n, sizeof *order, falling);
  for (size_t i = 0; i < g->n; i++) {
    values[i] = order[i].value / scale;
    for (size_t c = 0; c < g->n; c += COLUMN_PANEL) {
      size_t columns = g->n - c < COLUMN_PANEL ? g->n - c : COLUMN_PANEL;
      memcpy(vectors + i * g->n + c, g->panels + c * g->n + order[i].index * COLUMN_PANEL,
             columns * sizeof *vectors);
    }
  }
}

static kf_status solve(eigen *g, double *a, double *values, double *vectors) {
  size_t n = g->n;
  double scale = scale_of(a, n);
  for (size_t i = 0; i < n; i++)
    for (size_t j = 0; j < n; j++) g->a[i * g->ld + j] = a[i * n + j] * scale;
  tridiagonalise(g);
  KF_TRY(kf_parallel(g->ctx, (n + ROW_GROUP - 1) / ROW_GROUP, form_rows, g));
  KF_TRY(kf_parallel(g->ctx, g->n_panels, copy_panel, g));
  KF_TRY(diagonalise(g));
  sort_out(g, scale, values, vectors);
  return KF_OK;
}

kf_status kf_eigen(kf_ctx *ctx, uint32_t n, double *a, double *values, double *vectors) {
  eigen g = {.ctx = ctx, .n = n, .ld = ((size_t)n + 7) & ~(size_t)7};
  uint64_t ld = g.ld, most = BATCH > n ? BATCH : n; /* one sweep always fits */
  kf_arena arena = {0};
  g.n_panels = (n + COLUMN_PANEL - 1) / COLUMN_PANEL;
  KF_TAKE(&arena, g.a, n * ld);
  KF_TAKE(&arena, g.q, n * ld);
  KF_TAKE(&arena, g.panels, (uint64_t)g.n_panels * COLUMN_PANEL * n);
  KF_TAKE(&arena, g.d, n);
  KF_TAKE_ZERO(&arena, g.e, n);
  KF_TAKE_ZERO(&arena, g.tau, n);
  KF_TAKE(&arena, g.work, 4 * ld);
  KF_TAKE(&arena, g.c, most);
  KF_TAKE(&arena, g.s, most);
  KF_TAKE(&arena, g.sweeps, BATCH);
  KF_TAKE(&arena, g.order, n);
  kf_status status = arena.failed ? kf_fail_memory(&ctx->err) : solve(&g, a, values, vectors);
  kf_arena_free(&arena);
  return status;
}
