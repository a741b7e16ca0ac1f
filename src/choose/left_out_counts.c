/* left_out_counts.c - a row left out beside classes of many sizes (left_out.c has the formulas, and the
 * names).
 *
 * D depends on the number of rows of a class, and so do the products U D^-1 U^T and U D^-2 U^T of every
 * row that is left out. Along a direction D^-1 is
 *
 *     1 / (1 + n kappa gamma) = 1 / (1 + exp(t + c)),        t = ln n
 *
 * and as a function of t it has its poles at a distance of pi from the real axis, whatever gamma is. So
 * a polynomial through its values at few nodes (Chebyshev's) is as good as the function itself, and that
 * of the square as good as the square: with nodes on an interval of half-width h, the error falls as
 * rho^-nodes, rho = pi / h + sqrt(1 + (pi / h)^2). 16 nodes are enough where the largest size is 3.5
 * times the smallest, 32 for 65 times, 64 for 16,000. Sums over directions are made at nodes only, for all
 * of them in one product, and then taken to the sizes there are. */
#include "choose/left_out_internal.h"

#include <math.h>
#include <string.h>

#define LEAST_KINDS 4u   /* fewer sizes are taken one by one */
#define DISTANCE    2.8  /* of poles, with something to spare */
#define ENOUGH      35.0 /* -ln of the error, but for a small factor */
#define MOST_NODES  128u
#define LEAST_NODES 16u

/* How many there must be on an interval of this half-width; more than MOST_NODES: too many. */
static uint32_t count_nodes(double half) {
  double ratio = DISTANCE / half, rho = ratio + sqrt(1 + ratio * ratio);
  uint32_t nodes = LEAST_NODES;
  while (nodes <= MOST_NODES && nodes * kf_ln(rho) < ENOUGH) nodes *= 2;
  return nodes;
}

/* The roots of Chebyshev's polynomial of degree n, a power of two: cosines, by halving their angles. */
static void find_roots(uint32_t n, double *x) {
  x[0] = 0;
  for (uint32_t have = 1; have < n; have *= 2)
    for (uint32_t i = 0; i < have; i++) {
      double root = sqrt((1 + x[i]) / 2);
      x[i] = root;
      x[have + i] = -root;
    }
}

/* What a polynomial has at x of its values at the nodes: Lagrange's weights, in their second barycentric
 * form. to: `stride` apart. */
static void set_between(uint32_t n, const double *node, const double *weight, double x,
                        size_t stride, double *to) {
  double sum = 0;
  uint32_t same = n;
  for (uint32_t j = 0; j < n; j++) {
    if (x == node[j]) same = j;
    to[j * stride] = weight[j] / (x - node[j]);
    sum += to[j * stride];
  }
  for (uint32_t j = 0; j < n; j++)
    to[j * stride] = same == n ? to[j * stride] / sum : (same == j ? 1 : 0);
}

static void interpolate(kf_counts *c, const kf_class_kind *kinds, double middle, double half) {
  double node[MOST_NODES], weight[MOST_NODES];
  uint32_t n = c->n;
  find_roots(n, node);
  for (uint32_t j = 0; j < n; j++) {
    double product = 1;
    for (uint32_t i = 0; i < n; i++)
      if (i != j) product *= 2 * (node[j] - node[i]);
    weight[j] = 1 / product;
    c->count[j] = kf_exp(middle + half * node[j]);
  }
  for (uint32_t k = 0; k < c->n_kinds; k++)
    set_between(n, node, weight, (kf_ln(kinds[k].count) - middle) / half, c->n_kinds,
                c->between + k);
}

void kf_counts_make(kf_counts *c, const kf_class_kind *kinds, uint32_t n_kinds, kf_arena *arena) {
  *c = (kf_counts){.n_kinds = n_kinds};
  if (n_kinds < LEAST_KINDS) return;
  double first = kf_ln(kinds[0].count), last = kf_ln(kinds[n_kinds - 1].count);
  uint32_t nodes = count_nodes((last - first) / 2);
  bool fewer = nodes < n_kinds;
  if (fewer && nodes > MOST_NODES) return;
  c->n = fewer ? nodes : n_kinds;
  KF_TAKE(arena, c->count, c->n);
  if (fewer) KF_TAKE(arena, c->between, (uint64_t)nodes * n_kinds);
  if (arena->failed) return;
  if (fewer)
    interpolate(c, kinds, (first + last) / 2, (last - first) / 2);
  else
    for (uint32_t k = 0; k < n_kinds; k++) c->count[k] = kinds[k].count;
}

void kf_counts_take(const kf_counts *c, uint64_t rank, kf_arena *arena, kf_count_grams *g) {
  if (c->n == 0) return;
  KF_TAKE(arena, g->squares, rank * 3);
  KF_TAKE(arena, g->at_nodes, (uint64_t)c->n * 12);
  KF_TAKE(arena, g->of_kinds, (uint64_t)c->n_kinds * 6);
}

/* D^-1 - 1 and D^-2 - 1 at the nodes. */
static kf_status set_weights(void *argument, size_t d, size_t worker, kf_err *err) {
  (void)worker;
  (void)err;
  const kf_view *v = argument;
  const kf_counts *c = &v->counts;
  double *to = c->weights + d * 2 * c->n;
  for (uint32_t j = 0; j < c->n; j++) {
    double narrowing = kf_view_narrowing(v, c->count[j], d);
    to[j] = narrowing - 1;
    to[c->n + j] = narrowing * narrowing - 1;
  }
  return KF_OK;
}

kf_status kf_counts_set(kf_view *v) {
  return v->counts.n > 0 ? kf_parallel(v->l->ctx, v->rank, set_weights, v) : KF_OK;
}

void kf_counts_sum(const kf_kernels *kernels, const kf_counts *c, uint64_t rank,
                   const double *columns, const double *g0, kf_count_grams *g) {
  uint64_t n = c->n, n_kinds = c->n_kinds;
  for (uint64_t d = 0; d < rank; d++) {
    double x = columns[2 * d], y = columns[2 * d + 1];
    g->squares[3 * d] = x * x;
    g->squares[3 * d + 1] = x * y;
    g->squares[3 * d + 2] = y * y;
  }
  const double start[3] = {g0[0], g0[1], g0[3]};
  /* [3][2n] sums at the nodes, then the same as [n][6] for the second product */
  double *rows = g->at_nodes, *columns_of = rows + 6 * n;
  memset(rows, 0, 6 * n * sizeof *rows);
  kernels->gemm_tn(g->squares, 3, c->weights, 2 * n, rows, 2 * n, 3, 2 * n, rank);
  for (uint64_t i = 0; i < 6; i++)
    for (uint64_t k = 0; k < n_kinds; k++) g->of_kinds[i * n_kinds + k] = start[i % 3];
  if (c->between == NULL) { /* nodes are the sizes */
    for (uint64_t i = 0; i < 6; i++)
      for (uint64_t k = 0; k < n; k++)
        g->of_kinds[i * n + k] += rows[i % 3 * 2 * n + i / 3 * n + k];
    return;
  }
  for (uint64_t i = 0; i < 6; i++)
    for (uint64_t j = 0; j < n; j++) columns_of[j * 6 + i] = rows[i % 3 * 2 * n + i / 3 * n + j];
  kernels->gemm_tn(columns_of, 6, c->between, n_kinds, g->of_kinds, n_kinds, 6, n_kinds, n);
}

void kf_counts_grams(const kf_counts *c, const kf_count_grams *g, uint32_t kind, double *g1,
                     double *g2) {
  double *const to[] = {g1, g2};
  for (uint64_t i = 0; i < 2; i++) {
    const double *from = g->of_kinds + 3 * i * c->n_kinds + kind;
    to[i][0] = from[0];
    to[i][1] = to[i][2] = from[c->n_kinds];
    to[i][3] = from[2 * (uint64_t)c->n_kinds];
  }
}
