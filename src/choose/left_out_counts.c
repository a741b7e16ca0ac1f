/* left_out_counts.c - a row left out beside classes of several sizes (left_out.c has the formulas, and
 * the names).
 *
 * D depends on the number of rows of a class, and so do U D^-1 U^T and U D^-2 U^T of every row that is
 * left out. For one row each is a symmetric 2 x 2 matrix, so their elements for all sizes are one
 * product: of v v, v z and z z in each direction with D^-1 - 1 and D^-2 - 1 for each size. */
#include "choose/left_out_internal.h"

#define LEAST_KINDS 4u    /* fewer are taken one by one */
#define MOST_KINDS  4096u /* and so are more, for the memory of the factors */

void kf_counts_make(kf_view *v, kf_arena *arena) {
  const kf_left_out *l = v->l;
  bool pays = v->shrunk && l->n_kinds >= LEAST_KINDS && l->n_kinds <= MOST_KINDS;
  v->narrowings = NULL;
  if (pays) KF_TAKE(arena, v->narrowings, kf_view_most_directions(l) * 2 * (uint64_t)l->n_kinds);
}

void kf_counts_take(const kf_view *v, uint64_t rank, kf_arena *arena, kf_count_grams *g) {
  if (v->narrowings == NULL) return;
  KF_TAKE(arena, g->squares, rank * 3);
  KF_TAKE(arena, g->elements, 3 * 2 * (uint64_t)v->l->n_kinds);
}

/* D^-1 - 1 and D^-2 - 1 of each size in direction d. */
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

kf_status kf_counts_set(kf_view *v) {
  return v->narrowings != NULL ? kf_parallel(v->l->ctx, v->rank, set_narrowings, v) : KF_OK;
}

void kf_counts_sum(const kf_view *v, const double *columns, const double *g0, kf_count_grams *g) {
  uint64_t n2 = 2 * (uint64_t)v->l->n_kinds, rank = v->rank;
  for (uint64_t d = 0; d < rank; d++) {
    double x = columns[2 * d], y = columns[2 * d + 1];
    g->squares[3 * d] = x * x;
    g->squares[3 * d + 1] = x * y;
    g->squares[3 * d + 2] = y * y;
  }
  const double start[3] = {g0[0], g0[1], g0[3]};
  for (uint64_t i = 0; i < 3; i++)
    for (uint64_t k = 0; k < n2; k++) g->elements[i * n2 + k] = start[i];
  v->l->ctx->kernels->gemm_tn(g->squares, 3, v->narrowings, n2, g->elements, n2, 3, n2, rank);
}

void kf_counts_grams(const kf_view *v, const kf_count_grams *g, uint32_t kind, double *g1,
                     double *g2) {
  uint64_t n = v->l->n_kinds;
  double *const to[] = {g1, g2};
  for (uint64_t power = 0; power < 2; power++) {
    const double *from = g->elements + power * n + kind;
    to[power][0] = from[0];
    to[power][1] = to[power][2] = from[2 * n];
    to[power][3] = from[4 * n];
  }
}
