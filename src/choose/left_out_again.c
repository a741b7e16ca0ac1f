/* left_out_again.c - leaves out a large group by fitting again. The formulas of left_out_block.c
 * solve 2r equations for r rows and every size of class, so they pay for small groups only.
 *
 * In the whitened space (left_out.c has the formulas) W = I - V^T Omega V and B = S_b - Z^T Psi Z +
 * V^T Omega V are formed, and two eigenproblems give a map T with T W T^T = I and T B T^T = Gamma.
 * With it class means are shrunk as in the final model. The time is linear in r. It runs on the
 * caller's thread; products use all threads. */
#include "choose/left_out_internal.h"

#include <math.h>
#include <string.h>

#define LEAST_EIGENVALUE 0x1p-44 /* of W; with the group they are 1 */
#define SYSTEMS_OF_A_FIT 4.0 /* fitting again takes as long as solving this many D x D systems */

bool kf_again_pays(const kf_left_out *l, uint64_t r) {
  double systems = l->fitter->method == KF_METHOD_SHRUNK ? (double)l->n_kinds : 1;
  double rows = (double)r, dim = l->dim;
  return r > 1 && systems * rows * rows * rows > SYSTEMS_OF_A_FIT * dim * dim * dim;
}

typedef struct again {
  const kf_view *v;
  uint64_t r;
  const int32_t *label;           /* [r] */
  double inverse_left;            /* 1 / (N - r) */
  uint64_t *lost;                 /* [n] rows that each class loses */
  double *z, *within;             /* [r][D] Z and V */
  double *z_sum;                  /* [D] */
  double *sums;                   /* [n][D] of `within` by class; zeros for others */
  double *psi_z, *omega;          /* [r][D] Psi Z, Omega V */
  double *w, *b;                  /* [D][D] */
  double *values, *gamma;         /* [D] */
  double *map;                    /* [D][D] T in columns */
  double *rows, *means, *removed; /* [r][D], [n][D], [n][D] mapped; `removed`: of the sums */
  double *a1, *a2, *a3;           /* [D][D] workspace */
  double *row_columns, *columns;  /* [D][r], [D][n] workspace */
  double *row2, *mean2;           /* [r], [n] squared lengths */
} again;

static void take(again *a, kf_arena *arena) {
  uint64_t d = a->v->l->dim, n = a->v->l->n, r = a->r;
  KF_TAKE_ZERO(arena, a->lost, n);
  KF_TAKE(arena, a->z, r * d);
  KF_TAKE(arena, a->within, r * d);
  KF_TAKE_ZERO(arena, a->z_sum, d);
  KF_TAKE_ZERO(arena, a->sums, n * d);
  KF_TAKE(arena, a->psi_z, r * d);
  KF_TAKE(arena, a->omega, r * d);
  KF_TAKE(arena, a->w, d * d);
  KF_TAKE(arena, a->b, d * d);
  KF_TAKE(arena, a->values, d);
  KF_TAKE(arena, a->gamma, d);
  KF_TAKE(arena, a->map, d * d);
  KF_TAKE(arena, a->rows, r * d);
  KF_TAKE(arena, a->means, n * d);
  KF_TAKE(arena, a->removed, n * d);
  KF_TAKE(arena, a->a1, d * d);
  KF_TAKE(arena, a->a2, d * d);
  KF_TAKE(arena, a->a3, d * d);
  KF_TAKE(arena, a->row_columns, d * r);
  KF_TAKE(arena, a->columns, d * n);
  KF_TAKE_ZERO(arena, a->row2, r);
  KF_TAKE_ZERO(arena, a->mean2, n);
}

static uint64_t place_of(const again *a, uint64_t i) {
  return (uint64_t)a->v->l->place[a->label[i]];
}

static double count_of(const again *a, uint64_t j) {
  return (double)a->v->l->stats->counts[a->v->l->number[j]];
}

/* Sets Z, V, Psi Z and Omega V. */
static void set_rows(again *a, const double *turned) {
  const kf_left_out *l = a->v->l;
  uint64_t dim = l->dim;
  for (uint64_t i = 0; i < a->r; i++) {
    uint64_t j = place_of(a, i);
    a->lost[j]++;
    for (uint64_t d = 0; d < dim; d++) {
      double x = turned[i * dim + d], root = a->v->root[d];
      a->z[i * dim + d] = x * root;
      a->within[i * dim + d] = (x - l->means[j * dim + d]) * root;
      a->z_sum[d] += a->z[i * dim + d];
      a->sums[j * dim + d] += a->within[i * dim + d];
    }
  }
  for (uint64_t i = 0; i < a->r; i++) {
    uint64_t j = place_of(a, i);
    double left = count_of(a, j) - (double)a->lost[j], share = left > 0 ? 1 / left : 0;
    for (uint64_t d = 0; d < dim; d++) {
      a->psi_z[i * dim + d] = a->z[i * dim + d] + a->inverse_left * a->z_sum[d];
      a->omega[i * dim + d] = a->within[i * dim + d] + share * a->sums[j * dim + d];
    }
  }
}

/* Forms W and B. */
static kf_status set_scatter(again *a) {
  const kf_left_out *l = a->v->l;
  uint64_t dim = l->dim;
  KF_TRY(kf_fitter_rotate_between(l->fitter));
  const double *between = l->fitter->between_in_v, *root = a->v->root;
  kf_product product = {
      .a = a->within, .b = a->omega, .c = a->a1, .m = dim, .n = dim, .depth = a->r};
  KF_TRY(kf_multiply(l->ctx, product));
  product.a = a->z;
  product.b = a->psi_z;
  product.c = a->a2;
  KF_TRY(kf_multiply(l->ctx, product));
  for (uint64_t i = 0; i < dim; i++)
    for (uint64_t j = i; j < dim; j++) {
      double within = a->a1[i * dim + j], rows = a->a2[i * dim + j];
      a->w[i * dim + j] = a->w[j * dim + i] = (i == j ? 1 : 0) - within;
      a->b[i * dim + j] = a->b[j * dim + i] =
          between[i * dim + j] * (root[i] * root[j]) - rows + within;
    }
  return KF_OK;
}

/* Finds T, in columns, and Gamma. */
static kf_status set_map(again *a) {
  kf_ctx *ctx = a->v->l->ctx;
  uint64_t dim = a->v->l->dim;
  double *whiten = a->a1, *columns = a->a2;
  kf_product product = {.m = dim, .n = dim, .depth = dim};
  KF_TRY(kf_eigen(ctx, a->v->l->dim, a->w, a->values, whiten));
  for (uint64_t i = 0; i < dim; i++) {
    double scale = 1 / sqrt(fmax(a->values[i], LEAST_EIGENVALUE));
    for (uint64_t d = 0; d < dim; d++) whiten[i * dim + d] *= scale;
  }
  kf_transpose(dim, dim, whiten, columns);
  if (!a->v->shrunk) { /* any T with T W T^T = I will do */
    memcpy(a->map, columns, dim * dim * sizeof *columns);
    return KF_OK;
  }
  product.a = a->b;
  product.b = columns;
  product.c = a->a3;
  KF_TRY(kf_multiply(ctx, product));
  product.a = columns;
  product.b = a->a3;
  product.c = a->w;
  KF_TRY(kf_multiply(ctx, product));
  for (uint64_t i = 0; i < dim; i++)
    for (uint64_t j = 0; j < i; j++) a->w[i * dim + j] = a->w[j * dim + i];
  KF_TRY(kf_eigen(ctx, a->v->l->dim, a->w, a->gamma, a->b));
  kf_transpose(dim, dim, a->b, a->a3);
  product.a = whiten;
  product.b = a->a3;
  product.c = a->map;
  return kf_multiply(ctx, product);
}

/* Maps n rows, given in columns [D][n], to out [n][D]. */
static kf_status map_columns(const again *a, const double *columns, uint64_t n, double *out) {
  uint64_t dim = a->v->l->dim;
  return kf_multiply(
      a->v->l->ctx,
      (kf_product){.a = columns, .b = a->map, .c = out, .m = n, .n = dim, .depth = dim});
}

/* Maps rows and class means, centred on the mean without the group. Class means still contain all
 * their rows. */
static kf_status map_all(again *a) {
  const kf_left_out *l = a->v->l;
  uint64_t dim = l->dim;
  kf_transpose(a->r, dim, a->psi_z, a->row_columns);
  KF_TRY(map_columns(a, a->row_columns, a->r, a->rows));
  for (uint64_t j = 0; j < l->n; j++)
    for (uint64_t d = 0; d < dim; d++)
      a->columns[d * l->n + j] =
          l->means[j * dim + d] * a->v->root[d] + a->inverse_left * a->z_sum[d];
  KF_TRY(map_columns(a, a->columns, l->n, a->means));
  kf_transpose(l->n, dim, a->sums, a->columns);
  return map_columns(a, a->columns, l->n, a->removed);
}

/* Sets the shrunk class means, in columns, and their squared lengths, with text those of the means
 * of all their rows (left_out_block.c says why). */
static void shrink(again *a) {
  const kf_left_out *l = a->v->l;
  for (uint64_t j = 0; j < l->n; j++) {
    double all = count_of(a, j), left = all - (double)a->lost[j];
    double n_kappa = (l->with_text ? all : left) * a->v->kappa;
    double share = a->lost[j] > 0 && left > 0 ? 1 / left : 0;
    for (uint64_t d = 0; d < l->dim; d++) {
      double signal = n_kappa * (a->gamma[d] > 0 ? a->gamma[d] : 0);
      double factor = a->v->shrunk ? signal / (1 + signal) : 1, whole = a->means[j * l->dim + d];
      double mean = factor * (whole - share * a->removed[j * l->dim + d]);
      double counted = l->with_text ? factor * whole : mean;
      a->columns[d * l->n + j] = mean;
      a->mean2[j] += counted * counted;
    }
    if (left > 0) a->mean2[j] += kf_view_prior2(a->v, left);
  }
}

static kf_status score(again *a, double *scores) {
  const kf_left_out *l = a->v->l;
  shrink(a);
  kf_transpose(a->r, l->dim, a->rows, a->row_columns);
  KF_TRY(kf_multiply(l->ctx, (kf_product){.a = a->row_columns,
                                          .b = a->columns,
                                          .c = scores,
                                          .m = a->r,
                                          .n = l->n,
                                          .depth = l->dim}));
  for (uint64_t i = 0; i < a->r; i++) {
    const double *x = a->rows + i * l->dim;
    for (uint64_t d = 0; d < l->dim; d++) a->row2[i] += x[d] * x[d];
    for (uint64_t j = 0; j < l->n; j++) {
      bool gone = (double)a->lost[j] == count_of(a, j);
      double *to = &scores[i * l->n + j];
      *to = gone ? (double)NAN : kf_view_score(a->v, a->row2[i], *to, a->mean2[j]);
    }
  }
  return KF_OK;
}

static kf_status fit_and_score(again *a, const double *turned, double *scores) {
  set_rows(a, turned);
  KF_TRY(set_scatter(a));
  KF_TRY(set_map(a));
  KF_TRY(map_all(a));
  return score(a, scores);
}

kf_status kf_again_score(const kf_view *v, uint64_t r, const int32_t *label, const double *turned,
                         double *scores) {
  kf_arena arena = {0};
  again a = {.v = v, .r = r, .label = label};
  a.inverse_left = v->l->centred ? 1 / (double)(v->l->stats->rows - r) : 0;
  take(&a, &arena);
  kf_status status =
      arena.failed ? kf_fail_memory(&v->l->ctx->err) : fit_and_score(&a, turned, scores);
  kf_arena_free(&arena);
  return status;
}
