/* divide.c - eigenvalues and eigenvectors of a symmetric tridiagonal matrix by divide and conquer
 * (Cuppen; Gu and Eisenstat, 'A divide-and-conquer algorithm for the symmetric tridiagonal
 * eigenproblem').
 *
 * Without its coupling e in the middle, T falls into two halves:
 *
 *     T = diag(T_1, T_2) + |e| v v^T,      v = (0, …, 0, 1, ±1, 0, …, 0),
 *
 * the two diagonal elements beside the coupling being smaller by |e|. With the halves solved, T_i =
 * Q_i D_i Q_i^T, this is a diagonal matrix plus one of matrix rank 1, D + rho z z^T with z = Q^T v:
 *
 *   1. Deflation. A negligible element of z leaves its eigenpair unchanged. Two nearly equal
 *      elements of D are rotated so that one of their z vanishes. For most matrices this removes
 *      much of the work.
 *   2. The secular equation (secular.c) has the eigenvalues as its roots.
 *   3. The eigenvectors are z_j / (d_j - lambda), normalised, with the z for which these roots are
 *      exact (Löwner's formula): z_j^2 = prod_i (lambda_i - d_j) / prod_{i != j} (d_i - d_j). This
 *      makes them orthogonal however close the roots are.
 *   4. They are multiplied by the eigenvectors of the halves, which is nearly all of the work. Rows
 *      are sorted by the half they come from, since they are zero in the other half; rotated rows
 *      are in between.
 *
 * Vectors are rows of Q until the last product, which leaves them in columns. Small matrices are
 * solved by one thread each, large ones by all threads together; no sum depends on this.
 *
 * Eigenvalues alone need only z, and so only the first and last element of every vector of a half,
 * which the rows of Q then hold. The eigenvalues have the same bits. */
#include "model/eigen.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ALONE     192u /* merges up to this size are done by one thread */
#define ROW_BLOCK 96u  /* rows copied or weights found in a task */
#define VECTORS   8u   /* roots or vectors found in a task */

typedef struct indexed {
  double value;
  size_t row;
} indexed;

typedef struct divide {
  kf_ctx *ctx;
  size_t n, ld;
  size_t q_ld;       /* of q and arranged */
  bool values_alone; /* rows of these two hold the ends of vectors */
  unsigned depth;    /* T is cut into 2^depth leaves */
  double negligible; /* couplings of at most this size */
  double *d, *e;
  double *q;                 /* [n][q_ld] vectors in rows, each zero outside its part of T */
  double *arranged;          /* [n][q_ld] the same rows by kind */
  double *s;                 /* [n][ld] eigenvectors of D + rho z z^T in columns */
  double *z, *pole, *weight; /* [n] */
  double *origin, *x;        /* [n] roots */
  indexed *sorted;           /* [n] */
  size_t *live, *place;      /* [n] the rows of poles, and where they go in `arranged` */
  unsigned char *kind;       /* [n] of rows: the halves in which they are not zero */
  double *rows;              /* [threads][VECTORS][ld] */
} divide;

enum { UPPER = 0, BOTH, LOWER, DEFLATED, KINDS };

/* Merges two neighbouring parts. Arrays are those of `divide` from the first row of these on. */
typedef struct merge {
  divide *g;
  size_t half, n;                /* rows: `half` of the upper part, n of both */
  size_t upper_columns, columns; /* the same of a row of q */
  bool top;                      /* the last merge */
  bool together;                 /* by all threads */
  size_t worker;                 /* otherwise */
  size_t share;                  /* rows of a product for a task */
  double rho;
  size_t live;          /* eigenpairs that are not deflated */
  size_t counts[KINDS]; /* of rows */
  double *d, *z, *pole, *weight, *origin, *x;
  double *q, *arranged, *s; /* from their first column on */
  indexed *sorted;
  size_t *row, *place;
  unsigned char *kind;
} merge;

static kf_status run_tasks(merge *m, size_t tasks, kf_task_fn task, kf_err *err) {
  if (m->together) return kf_parallel(m->g->ctx, tasks, task, m);
  for (size_t i = 0; i < tasks; i++) KF_TRY(task(m, i, m->worker, err));
  return KF_OK;
}

static size_t count_blocks(size_t n, size_t size) { return (n + size - 1) / size; }

static size_t block_rows(size_t n, size_t size, size_t i) {
  return n - i * size < size ? n - i * size : size;
}

/* --- deflation -------------------------------------------------------------------------------- */

static int rising(const void *a, const void *b) {
  const indexed *x = a, *y = b;
  if (x->value != y->value) return x->value < y->value ? -1 : 1;
  return x->row < y->row ? -1 : 1;
}

/* The element of row r of q beside the cut. If rows hold only the ends of vectors, the end at the
 * cut is replaced by 0, its value at the far end of the other half. */
static double take_inner(const merge *m, size_t r) {
  bool upper = r < m->half;
  double *row = m->q + r * m->g->q_ld;
  if (!m->g->values_alone) return row[upper ? m->half - 1 : m->half];
  double inner = row[upper ? 1 : 0];
  row[upper ? 1 : 0] = 0;
  return inner;
}

/* Sets z, of unit length, and rho. */
static void couple(merge *m, double coupling) {
  double root = sqrt(0.5), lower = coupling < 0 ? -root : root;
  for (size_t r = 0; r < m->n; r++) {
    bool upper = r < m->half;
    m->z[r] = (upper ? root : lower) * take_inner(m, r);
    m->kind[r] = upper ? UPPER : LOWER;
    m->sorted[r] = (indexed){.value = m->d[r], .row = r};
  }
  m->rho = 2 * fabs(coupling);
  qsort(m->sorted, m->n, sizeof *m->sorted, rising);
}

/* Rotates row p, whose d is not larger, into row r if that changes T by at most `least`, so that
 * z_p becomes 0. */
static bool rotate_out(merge *m, size_t p, size_t r, double least) {
  double length = sqrt(m->z[p] * m->z[p] + m->z[r] * m->z[r]);
  double c = m->z[r] / length, s = m->z[p] / length, gap = m->d[r] - m->d[p];
  if (fabs(gap * c * s) > least) return false;
  double *x = m->q + p * m->g->q_ld, *y = m->q + r * m->g->q_ld;
  for (size_t i = 0; i < m->columns; i++) {
    double old = x[i];
    x[i] = c * old - s * y[i];
    y[i] = s * old + c * y[i];
  }
  double low = m->d[p], high = m->d[r];
  m->d[p] = low * (c * c) + high * (s * s);
  m->d[r] = low * (s * s) + high * (c * c);
  m->z[r] = length;
  m->z[p] = 0;
  if (m->kind[p] != m->kind[r]) m->kind[r] = BOTH;
  return true;
}

static void keep(merge *m, size_t r) {
  m->row[m->live] = r;
  m->pole[m->live] = m->d[r];
  m->weight[m->live++] = m->z[r];
}

static void deflate(merge *m) {
  double largest = 0;
  for (size_t r = 0; r < m->n; r++) largest = fmax(largest, fmax(fabs(m->d[r]), fabs(m->z[r])));
  double least = 8 * DBL_EPSILON * largest;
  size_t last = m->n; /* the row to keep next, unless it is rotated into another */
  for (size_t i = 0; i < m->n; i++) {
    size_t r = m->sorted[i].row;
    if (m->rho * fabs(m->z[r]) <= least) {
      m->kind[r] = DEFLATED;
      continue;
    }
    if (last < m->n && rotate_out(m, last, r, least))
      m->kind[last] = DEFLATED;
    else if (last < m->n)
      keep(m, last);
    last = r;
  }
  if (last < m->n) keep(m, last);
}

/* --- rows by kind ----------------------------------------------------------------------------- */

/* Appends deflated rows to `row`, after those kept, and finds places in order of kind. */
static void sort_kinds(merge *m) {
  size_t all = m->live, next[KINDS] = {0};
  for (size_t i = 0; i < m->n; i++) {
    size_t r = m->sorted[i].row;
    if (m->kind[r] == DEFLATED) m->row[all++] = r;
    m->counts[m->kind[r]]++;
  }
  for (int k = 1; k < KINDS; k++) next[k] = next[k - 1] + m->counts[k - 1];
  for (size_t j = 0; j < m->n; j++) m->place[j] = next[m->kind[m->row[j]]]++;
}

static kf_status arrange_rows(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)worker;
  (void)err;
  const merge *m = argument;
  size_t ld = m->g->q_ld, first = i * ROW_BLOCK, n = block_rows(m->n, ROW_BLOCK, i);
  for (size_t j = first; j < first + n; j++)
    memcpy(m->arranged + m->place[j] * ld, m->q + m->row[j] * ld, m->columns * sizeof *m->q);
  return KF_OK;
}

/* --- eigenvectors of D + rho z z^T ------------------------------------------------------------ */

static kf_status find_roots(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)worker;
  merge *m = argument;
  size_t first = i * VECTORS, n = block_rows(m->live, VECTORS, i);
  for (size_t j = first; j < first + n; j++)
    KF_TRY(kf_secular_root(m->g->ctx->kernels, m->live, m->pole, m->weight, m->rho, j,
                           &m->origin[j], &m->x[j], err));
  return KF_OK;
}

/* Replaces z by the vector for which the roots are exact. */
static kf_status find_weights(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)worker;
  (void)err;
  merge *m = argument;
  size_t first = i * ROW_BLOCK, last = first + block_rows(m->live, ROW_BLOCK, i);
  double *z = m->z; /* no longer needed */
  m->g->ctx->kernels->secular_weights(m->live, m->pole, m->origin, m->x, first, last, z);
  for (size_t j = first; j < last; j++) {
    double size = sqrt(fabs(z[j]));
    m->weight[j] = m->weight[j] < 0 ? -size : size;
  }
  return KF_OK;
}

static kf_status find_vectors(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)err;
  const merge *m = argument;
  size_t ld = m->g->ld, first = i * VECTORS, n = block_rows(m->live, VECTORS, i);
  double *rows = m->g->rows + worker * VECTORS * ld, scale[VECTORS];
  for (size_t t = 0; t < n; t++) {
    double norm2 = m->g->ctx->kernels->secular_vector(
        m->live, m->pole, m->weight, m->origin[first + t], m->x[first + t], rows + t * ld);
    scale[t] = 1 / sqrt(norm2);
  }
  for (size_t j = 0; j < m->live; j++) {
    double *to = m->s + m->place[j] * ld + first;
    for (size_t t = 0; t < n; t++) to[t] = rows[t * ld + j] * scale[t];
  }
  return KF_OK;
}

/* --- eigenvectors of T ------------------------------------------------------------------------ */

/* Sets rows of q: new vectors and deflated ones. */
static kf_status multiply_rows(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)worker;
  (void)err;
  const merge *m = argument;
  size_t first = i * m->share, last = first + block_rows(m->n, m->share, i);
  size_t live = last < m->live ? last : m->live, upper = m->counts[UPPER];
  size_t ld = m->g->ld, q_ld = m->g->q_ld, half = m->upper_columns;
  double *to = m->q + first * q_ld;
  for (size_t r = first; r < last; r++)
    if (r < live)
      memset(m->q + r * q_ld, 0, m->columns * sizeof *m->q);
    else
      memcpy(m->q + r * q_ld, m->arranged + r * q_ld, m->columns * sizeof *m->q);
  if (first >= live) return KF_OK;
  m->g->ctx->kernels->gemm_tn(m->s + first, ld, m->arranged, q_ld, to, q_ld, live - first, half,
                              upper + m->counts[BOTH]);
  m->g->ctx->kernels->gemm_tn(m->s + upper * ld + first, ld, m->arranged + upper * q_ld + half,
                              q_ld, to + half, q_ld, live - first, m->columns - half,
                              m->counts[BOTH] + m->counts[LOWER]);
  return KF_OK;
}

/* The same with vectors in columns, for rows of one of the halves. */
static kf_status multiply_columns(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)worker;
  (void)err;
  const merge *m = argument;
  size_t ld = m->g->ld, above = count_blocks(m->half, m->share);
  bool upper = i < above;
  size_t base = upper ? 0 : m->half, size = upper ? m->half : m->n - m->half;
  size_t block = upper ? i : i - above;
  size_t first = base + block * m->share, rows = block_rows(size, m->share, block);
  size_t from = upper ? 0 : m->counts[UPPER], depth = m->counts[BOTH];
  depth += upper ? m->counts[UPPER] : m->counts[LOWER];
  for (size_t r = first; r < first + rows; r++) {
    memset(m->q + r * ld, 0, m->live * sizeof *m->q);
    for (size_t j = m->live; j < m->n; j++) m->q[r * ld + j] = m->arranged[j * ld + r];
  }
  m->g->ctx->kernels->gemm_tn(m->arranged + from * ld + first, ld, m->s + from * ld, ld,
                              m->q + first * ld, ld, rows, m->live, depth);
  return KF_OK;
}

static kf_status multiply(merge *m, kf_err *err) {
  if (!m->top) return run_tasks(m, count_blocks(m->n, m->share), multiply_rows, err);
  return run_tasks(m, count_blocks(m->half, m->share) + count_blocks(m->n - m->half, m->share),
                   multiply_columns, err);
}

static kf_status solve(merge *m, kf_err *err) {
  if (m->live == 1) {
    m->origin[0] = m->pole[0];
    m->x[0] = m->rho * m->weight[0] * m->weight[0];
  } else {
    KF_TRY(run_tasks(m, count_blocks(m->live, VECTORS), find_roots, err));
  }
  if (m->top && m->g->values_alone) return KF_OK;
  KF_TRY(run_tasks(m, count_blocks(m->live, ROW_BLOCK), find_weights, err));
  return run_tasks(m, count_blocks(m->live, VECTORS), find_vectors, err);
}

static kf_status merge_halves(merge *m, double coupling, kf_err *err) {
  couple(m, coupling);
  deflate(m);
  sort_kinds(m);
  bool vectors = !(m->top && m->g->values_alone);
  if (vectors) KF_TRY(run_tasks(m, count_blocks(m->n, ROW_BLOCK), arrange_rows, err));
  for (size_t j = m->live; j < m->n; j++) m->x[j] = m->d[m->row[j]];
  KF_TRY(solve(m, err));
  for (size_t j = 0; j < m->live; j++) m->x[j] += m->origin[j];
  memcpy(m->d, m->x, m->n * sizeof *m->d);
  return vectors ? multiply(m, err) : KF_OK;
}

/* --- the tree --------------------------------------------------------------------------------- */

/* The first row of leaf i. */
static size_t leaf_start(const divide *g, size_t i) {
  return (size_t)((uint64_t)g->n * i >> g->depth);
}

typedef struct level {
  divide *g;
  unsigned height; /* a part has 2^height leaves */
  bool together;
} level;

static kf_status merge_part(void *argument, size_t i, size_t worker, kf_err *err) {
  const level *l = argument;
  divide *g = l->g;
  size_t first = leaf_start(g, i << l->height), end = leaf_start(g, (i + 1) << l->height);
  size_t half = leaf_start(g, (2 * i + 1) << (l->height - 1)) - first;
  size_t corner = first * g->ld + first, q_corner = g->values_alone ? first * g->q_ld : corner;
  merge m = {.g = g,
             .half = half,
             .n = end - first,
             .upper_columns = g->values_alone ? 1 : half,
             .columns = g->values_alone ? 2 : end - first,
             .top = l->height == g->depth,
             .together = l->together,
             .worker = worker,
             .share = l->together ? kf_task_rows(g->ctx, end - first) : ALONE,
             .d = g->d + first,
             .z = g->z + first,
             .pole = g->pole + first,
             .weight = g->weight + first,
             .origin = g->origin + first,
             .x = g->x + first,
             .q = g->q + q_corner,
             .arranged = g->arranged + q_corner,
             .s = g->s + corner,
             .sorted = g->sorted + first,
             .row = g->live + first,
             .place = g->place + first,
             .kind = g->kind + first};
  return merge_halves(&m, g->e[first + half - 1], err);
}

static kf_status solve_leaf(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)worker;
  const divide *g = argument;
  size_t first = leaf_start(g, i), n = leaf_start(g, i + 1) - first;
  double inside[KF_QL_MOST] = {0}, vectors[KF_QL_MOST * KF_QL_MOST];
  memcpy(inside, g->e + first, (n - 1) * sizeof *inside);
  if (!g->values_alone)
    return kf_ql(g->ctx->kernels, n, g->negligible, g->d + first, inside,
                 g->q + first * g->ld + first, g->ld, err);
  KF_TRY(kf_ql(g->ctx->kernels, n, g->negligible, g->d + first, inside, vectors, n, err));
  for (size_t r = 0; r < n; r++) {
    double *ends = g->q + (first + r) * g->q_ld;
    ends[0] = vectors[r * n];
    ends[1] = vectors[r * n + n - 1];
  }
  return KF_OK;
}

/* Cuts T between leaves. */
static kf_status cut(divide *g) {
  double largest = 0;
  for (size_t i = 0; i < g->n; i++) {
    double size = fabs(g->d[i]) + fabs(g->e[i]);
    if (!isfinite(size))
      return kf_fail(&g->ctx->err, KF_ERR_INTERNAL,
                     "the eigensolver met a number that is not finite");
    largest = fmax(largest, size);
  }
  /* Anything far below the rounding errors of the reduction is zero: this keeps clusters of zero
   * eigenvalues (fewer rows than dimensions) from chasing noise. */
  g->negligible = largest * DBL_EPSILON * 0x1p-10;
  for (size_t i = 1; i < (size_t)1 << g->depth; i++) {
    size_t at = leaf_start(g, i);
    g->d[at - 1] -= fabs(g->e[at - 1]);
    g->d[at] -= fabs(g->e[at - 1]);
  }
  return KF_OK;
}

static void transpose(const divide *g) {
  for (size_t i = 0; i < g->n; i++)
    for (size_t j = 0; j < i; j++) {
      double *x = &g->q[i * g->ld + j], *y = &g->q[j * g->ld + i], old = *x;
      *x = *y;
      *y = old;
    }
}

static kf_status conquer(divide *g) {
  KF_TRY(cut(g));
  if (!g->values_alone) memset(g->q, 0, g->n * g->ld * sizeof *g->q);
  KF_TRY(kf_parallel(g->ctx, (size_t)1 << g->depth, solve_leaf, g));
  if (g->depth == 0 && !g->values_alone) transpose(g);
  for (unsigned height = 1; height <= g->depth; height++) {
    size_t parts = (size_t)1 << (g->depth - height);
    level l = {.g = g, .height = height, .together = g->n / parts > ALONE};
    if (!l.together) KF_TRY(kf_parallel(g->ctx, parts, merge_part, &l));
    for (size_t i = 0; l.together && i < parts; i++) KF_TRY(merge_part(&l, i, 0, &g->ctx->err));
  }
  return KF_OK;
}

kf_status kf_divide(kf_ctx *ctx, size_t n, size_t ld, double *d, double *e, double *q,
                    double *workspace[2]) {
  divide g = {.ctx = ctx,
              .n = n,
              .ld = ld,
              .q_ld = q != NULL ? ld : 2,
              .values_alone = q == NULL,
              .d = d,
              .e = e,
              .q = q,
              .arranged = workspace[0],
              .s = workspace[1]};
  while (((n - 1) >> g.depth) + 1 > KF_QL_MOST) g.depth++;
  kf_arena arena = {0};
  if (g.values_alone) {
    KF_TAKE(&arena, g.q, n * g.q_ld);
    KF_TAKE(&arena, g.arranged, n * g.q_ld);
  }
  KF_TAKE(&arena, g.z, n);
  KF_TAKE(&arena, g.pole, n);
  KF_TAKE(&arena, g.weight, n);
  KF_TAKE(&arena, g.origin, n);
  KF_TAKE(&arena, g.x, n);
  KF_TAKE(&arena, g.sorted, n);
  KF_TAKE(&arena, g.live, n);
  KF_TAKE(&arena, g.place, n);
  KF_TAKE(&arena, g.kind, n);
  KF_TAKE(&arena, g.rows, (uint64_t)ctx->threads * VECTORS * ld);
  kf_status status = arena.failed ? kf_fail_memory(&ctx->err) : conquer(&g);
  kf_arena_free(&arena);
  return status;
}
