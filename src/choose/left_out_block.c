/* left_out_block.c - the scores of all classes for a block of rows that are left out together
 * (left_out.c has the formulas). */
#include "choose/left_out_internal.h"

#include <math.h>
#include <string.h>

#define LEAST_PIVOT 0x1p-44

void kf_block_make(kf_block *b, const kf_view *v, uint64_t r, uint64_t n_dirs, kf_arena *arena) {
  uint64_t r2 = 2 * r;
  KF_TAKE(arena, b->omega, r * r);
  KF_TAKE(arena, b->b, r * r);
  KF_TAKE(arena, b->g0, r2 * r2);
  KF_TAKE(arena, b->g1, r2 * r2);
  KF_TAKE(arena, b->g2, r2 * r2);
  KF_TAKE(arena, b->e, r2 * r2);
  KF_TAKE(arena, b->left, r2 * r2);
  KF_TAKE(arena, b->query, r * r2);
  KF_TAKE(arena, b->by_w, r * r2);
  KF_TAKE(arena, b->by_c, r * r2);
  KF_TAKE(arena, b->length2, r);
  for (int i = 0; i < 2; i++) {
    kf_moved_mean *m = i == 0 ? &b->moved : &b->own;
    KF_TAKE(arena, m->c, r2);
    KF_TAKE(arena, m->g0c, r2);
    KF_TAKE(arena, m->g1c, r2);
  }
  KF_TAKE(arena, b->weighted, n_dirs * r2);
  KF_TAKE(arena, b->columns, n_dirs * r2);
  KF_TAKE(arena, b->own_h, 3 * r2);
  if (v->narrowings != NULL) {
    KF_TAKE(arena, b->squares, n_dirs * 3);
    KF_TAKE(arena, b->of_kinds, 3 * 2 * (uint64_t)v->l->n_kinds);
  }
  for (int i = 0; i < 4; i++) KF_TAKE(arena, b->t[i], r2);
}

/* right := left^-1 right, both [n][n], by Gaussian elimination with partial pivoting. Destroys
 * left. Pivots that rounding made too small are raised. */
static void solve(uint32_t n, double *left, double *right) {
  for (uint32_t i = 0; i < n; i++) {
    uint32_t at = i;
    for (uint32_t k = i + 1; k < n; k++)
      if (fabs(left[(size_t)k * n + i]) > fabs(left[(size_t)at * n + i])) at = k;
    for (uint32_t j = 0; at != i && j < n; j++) {
      double x = left[(size_t)i * n + j], y = right[(size_t)i * n + j];
      left[(size_t)i * n + j] = left[(size_t)at * n + j];
      left[(size_t)at * n + j] = x;
      right[(size_t)i * n + j] = right[(size_t)at * n + j];
      right[(size_t)at * n + j] = y;
    }
    double pivot = left[(size_t)i * n + i];
    if (!(fabs(pivot) > LEAST_PIVOT)) pivot = pivot < 0 ? -LEAST_PIVOT : LEAST_PIVOT;
    for (uint32_t j = 0; j < n; j++) {
      left[(size_t)i * n + j] /= pivot;
      right[(size_t)i * n + j] /= pivot;
    }
    for (uint32_t k = 0; k < n; k++) {
      double factor = left[(size_t)k * n + i];
      if (k == i || factor == 0) continue;
      for (uint32_t j = 0; j < n; j++) {
        left[(size_t)k * n + j] -= factor * left[(size_t)i * n + j];
        right[(size_t)k * n + j] -= factor * right[(size_t)i * n + j];
      }
    }
  }
}

static double sum_of(uint32_t n, const double *a, const double *b) {
  double sum = 0;
  for (uint32_t i = 0; i < n; i++) sum += a[i] * b[i];
  return sum;
}

/* out = a x, a [rows][stride]. */
static void times(uint32_t rows, uint32_t columns, const double *a, size_t stride, const double *x,
                  double *out) {
  for (uint32_t i = 0; i < rows; i++) out[i] = sum_of(columns, a + i * stride, x);
}

/* --- what the rows of a block share ----------------------------------------------------------- */

/* g1 = U D^-1 U^T and g2 = U D^-2 U^T; D is 1 outside the directions of class means. */
static void grams(const kf_view *v, kf_block *b, double count) {
  uint32_t r2 = 2 * b->r;
  double *const to[] = {b->g1, b->g2};
  for (int power = 1; power <= 2; power++) {
    memcpy(to[power - 1], b->g0, (size_t)r2 * r2 * sizeof *b->g0);
    for (uint32_t d = 0; d < v->n_dirs; d++) {
      double scale = kf_view_narrowing(v, count, d);
      scale = (power == 2 ? scale * scale : scale) - 1;
      for (uint32_t i = 0; i < r2; i++)
        b->weighted[(size_t)d * r2 + i] = b->columns[(size_t)d * r2 + i] * scale;
    }
    v->l->ctx->kernels->gemm_tn(b->weighted, r2, b->columns, r2, to[power - 1], r2, r2, r2,
                                v->n_dirs);
  }
}

/* The same for one row, where calling the kernel would take longer than the sums. */
static void grams_of_row(const kf_view *v, kf_block *b, double count) {
  double one[4], two[4];
  memcpy(one, b->g0, sizeof one);
  memcpy(two, b->g0, sizeof two);
  for (uint32_t d = 0; d < v->n_dirs; d++) {
    double x = b->columns[2 * d], y = b->columns[2 * d + 1];
    double scale = kf_view_narrowing(v, count, d), first = scale - 1, second = scale * scale - 1;
    double x1 = x * first, y1 = y * first, x2 = x * second, y2 = y * second;
    one[0] += x1 * x;
    one[1] += x1 * y;
    one[2] += y1 * x;
    one[3] += y1 * y;
    two[0] += x2 * x;
    two[1] += x2 * y;
    two[2] += y2 * x;
    two[3] += y2 * y;
  }
  memcpy(b->g1, one, sizeof one);
  memcpy(b->g2, two, sizeof two);
}

/* The same for one row and all kinds, as one product: v v, v z and z z in each direction times
 * D^-1 - 1 and D^-2 - 1 of each kind. */
static void sum_kinds(const kf_view *v, kf_block *b) {
  uint64_t n2 = 2 * (uint64_t)v->l->n_kinds;
  for (uint64_t d = 0; d < v->n_dirs; d++) {
    double x = b->columns[2 * d], y = b->columns[2 * d + 1];
    b->squares[3 * d] = x * x;
    b->squares[3 * d + 1] = x * y;
    b->squares[3 * d + 2] = y * y;
  }
  const double start[3] = {b->g0[0], b->g0[1], b->g0[3]};
  for (uint64_t i = 0; i < 3; i++)
    for (uint64_t k = 0; k < n2; k++) b->of_kinds[i * n2 + k] = start[i];
  v->l->ctx->kernels->gemm_tn(b->squares, 3, v->narrowings, n2, b->of_kinds, n2, 3, n2, v->n_dirs);
}

/* After sum_kinds. */
static void grams_of_kind(const kf_view *v, kf_block *b, uint32_t kind) {
  uint64_t n = v->l->n_kinds;
  double *const to[] = {b->g1, b->g2};
  for (uint64_t power = 0; power < 2; power++) {
    const double *from = b->of_kinds + power * n + kind;
    to[power][0] = from[0];
    to[power][1] = to[power][2] = from[2 * n];
    to[power][3] = from[4 * n];
  }
}

static void set_gram(const kf_view *v, kf_block *b) {
  uint32_t r2 = 2 * b->r, dim = v->l->dim;
  for (uint32_t i = 0; i < r2; i++) {
    for (uint32_t j = i; j < r2; j++)
      b->g0[(size_t)i * r2 + j] = b->g0[(size_t)j * r2 + i] =
          v->l->ctx->kernels->dot(dim, b->wide + (size_t)i * dim, b->wide + (size_t)j * dim);
    for (uint32_t d = 0; v->shrunk && d < v->n_dirs; d++)
      b->columns[(size_t)d * r2 + i] = b->u[(size_t)i * v->n_dirs + d];
  }
}

/* The number of rows that a class loses. */
static double rows_lost(const kf_block *b, int32_t label) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < b->r; i++) n += b->label[i] == label;
  return n;
}

/* Omega and (Omega^-1 - V V^T)^-1, with Omega^-1 = I - 11^T / n_k. For a class that loses all its
 * rows both terms are left out, since its v_i add up to 0. */
static void set_within(const kf_view *v, kf_block *b) {
  uint32_t r = b->r;
  for (uint32_t i = 0; i < r; i++) {
    double count = (double)v->l->stats->counts[b->label[i]], lost = rows_lost(b, b->label[i]);
    for (uint32_t j = 0; j < r; j++) {
      bool same = b->label[i] == b->label[j] && lost < count;
      b->omega[(size_t)i * r + j] = (i == j ? 1 : 0) + (same ? 1 / (count - lost) : 0);
      b->left[(size_t)i * r + j] =
          (i == j ? 1 : 0) - (same ? 1 / count : 0) - b->g0[(size_t)i * 2 * r + j];
      b->b[(size_t)i * r + j] = i == j ? 1 : 0;
    }
  }
  solve(r, b->left, b->b);
}

/* The rows as queries, centred on the mean without the block. */
static void set_queries(kf_block *b) {
  uint32_t r = b->r, r2 = 2 * r;
  for (uint32_t i = 0; i < r; i++) {
    double *query = b->query + (size_t)i * r2, *by_w = b->by_w + (size_t)i * r2;
    for (uint32_t j = 0; j < r; j++) {
      query[j] = 0;
      query[r + j] = (i == j ? 1 : 0) + b->inverse_left;
    }
    times(r2, r2, b->g0, r2, query, b->t[0]); /* U x */
    times(r, r, b->b, r, b->t[0], b->t[1]);
    for (uint32_t j = 0; j < r2; j++) by_w[j] = query[j] + (j < r ? b->t[1][j] : 0);
    b->length2[i] = sum_of(r2, by_w, b->t[0]);
  }
}

/* E and the queries, which also depend on the number of rows of a class. */
static void set_narrowed(const kf_view *v, kf_block *b, double count) {
  uint32_t r = b->r, r2 = 2 * r;
  double n_kappa = count * v->kappa;
  for (uint32_t i = 0; i < r; i++)
    for (uint32_t j = 0; j < r; j++) {
      double psi = (i == j ? 1 : 0) + b->inverse_left;
      b->e[(size_t)i * r2 + j] = (n_kappa - 1) * b->omega[(size_t)i * r + j];
      b->e[(size_t)(r + i) * r2 + r + j] = -n_kappa * psi;
      b->e[(size_t)i * r2 + r + j] = b->e[(size_t)(r + i) * r2 + j] = 0;
    }
  for (uint32_t i = 0; i < r2; i++)
    for (uint32_t j = 0; j < r2; j++) {
      double sum = i == j ? 1 : 0;
      for (uint32_t k = 0; k < r2; k++) sum += b->e[(size_t)i * r2 + k] * b->g1[(size_t)k * r2 + j];
      b->left[(size_t)i * r2 + j] = sum;
    }
  solve(r2, b->left, b->e);
  for (uint32_t i = 0; i < r; i++) {
    const double *query = b->query + (size_t)i * r2;
    double *by_c = b->by_c + (size_t)i * r2;
    times(r2, r2, b->g1, r2, query, b->t[0]);
    for (uint32_t j = 0; j < r2; j++) {
      double sum = query[j];
      for (uint32_t k = 0; k < r2; k++) sum -= b->e[(size_t)k * r2 + j] * b->t[0][k];
      by_c[j] = sum;
    }
  }
}

static void set_count(const kf_view *v, kf_block *b, double count) {
  if (!v->shrunk) return;
  if (b->r == 1)
    grams_of_row(v, b, count);
  else
    grams(v, b, count);
  set_narrowed(v, b, count);
}

/* After set_count. */
static void set_moved(const kf_view *v, const kf_block *b, kf_moved_mean *m) {
  uint32_t r2 = 2 * b->r;
  times(r2, r2, b->g0, r2, m->c, m->g0c);
  m->c_g0_c = sum_of(r2, m->c, m->g0c);
  if (!v->shrunk) return;
  times(r2, r2, b->g1, r2, m->c, m->g1c);
  m->c_g1_c = sum_of(r2, m->c, m->g1c);
}

/* --- scores ----------------------------------------------------------------------------------- */

/* A class mean: its products with U in the three metrics, h[m][i * stride], and its squares. */
typedef struct class_mean {
  const double *h[3];
  size_t stride;
  double square[3];
  const kf_moved_mean *moved;
} class_mean;

/* U m and U D^-1 m, [2r]. */
typedef struct mean_products {
  double *um0, *um1;
} mean_products;

#define INLINE static inline __attribute__((always_inline))

/* The squared length of the (shrunk) mean; sets its products. r: b->r, a constant if that is 1. p,
 * y: workspace, [2r]. */
INLINE double mean_length2(const kf_view *v, const kf_block *b, uint32_t r, const class_mean *m,
                           mean_products *to, double *p, double *y) {
  uint32_t r2 = 2 * r;
  const double *c = m->moved->c;
  double length2 = m->square[0] + m->moved->c_g0_c;
  for (uint32_t i = 0; i < r2; i++) {
    double h = m->h[0][i * m->stride];
    to->um0[i] = h + m->moved->g0c[i];
    length2 += 2 * c[i] * h;
  }
  for (uint32_t i = 0; i < r; i++)
    for (uint32_t j = 0; j < r; j++) length2 += to->um0[i] * b->b[(size_t)i * r + j] * to->um0[j];
  if (!v->shrunk) return length2;
  double m_c_m = m->square[1] + m->moved->c_g1_c, narrowed = m->square[2];
  for (uint32_t i = 0; i < r2; i++) {
    double h = m->h[1][i * m->stride];
    to->um1[i] = h + m->moved->g1c[i];
    m_c_m += 2 * c[i] * h;
  }
  for (uint32_t i = 0; i < r2; i++) {
    double sum = 0;
    for (uint32_t j = 0; j < r2; j++) sum += b->e[(size_t)i * r2 + j] * to->um1[j];
    m_c_m -= to->um1[i] * sum;
    p[i] = c[i] - sum;
  }
  for (uint32_t i = 0; i < r2; i++) {
    double sum = 0;
    for (uint32_t j = 0; j < r2; j++) sum += b->g2[(size_t)i * r2 + j] * p[j];
    narrowed += p[i] * (2 * m->h[2][i * m->stride] + sum);
  }
  for (uint32_t i = 0; i < r; i++) {
    double sum = m->h[1][i * m->stride];
    for (uint32_t j = 0; j < r2; j++) sum += b->g1[(size_t)i * r2 + j] * p[j];
    y[i] = sum;
  }
  for (uint32_t i = 0; i < r; i++)
    for (uint32_t j = 0; j < r; j++) narrowed -= y[i] * b->omega[(size_t)i * r + j] * y[j];
  return length2 - 2 * m_c_m + narrowed;
}

INLINE double product_with(const kf_view *v, const kf_block *b, uint32_t r, uint32_t i,
                           const mean_products *m) {
  uint32_t r2 = 2 * r;
  const double *by_w = b->by_w + (size_t)i * r2, *by_c = b->by_c + (size_t)i * r2;
  double sum = 0;
  for (uint32_t j = 0; j < r2; j++) sum += by_w[j] * m->um0[j];
  for (uint32_t j = 0; v->shrunk && j < r2; j++) sum -= by_c[j] * m->um1[j];
  return sum;
}

/* The mean of class j with all its rows. */
static class_mean mean_of(const kf_view *v, const kf_block *b, uint32_t j) {
  class_mean m = {.stride = v->l->n, .moved = &b->moved};
  for (uint32_t k = 0; k < v->metrics; k++) {
    m.h[k] = b->product[k] + j;
    m.square[k] = v->squares[k][j];
  }
  return m;
}

/* Scores [r][n] of the classes of one kind, as if they lost no row. */
INLINE void score_kind_of(const kf_view *v, const kf_block *b, uint32_t r,
                          const kf_class_kind *kind, mean_products *products, double *p, double *y,
                          double *scores) {
  const kf_left_out *l = v->l;
  double prior2 = kf_view_prior2(v, kind->count);
  for (uint32_t at = kind->first; at < kind->last; at++) {
    uint32_t j = l->by_kind[at];
    class_mean m = mean_of(v, b, j);
    double mean2 = mean_length2(v, b, r, &m, products, p, y) + prior2;
    for (uint32_t i = 0; i < r; i++)
      scores[(size_t)i * l->n + j] =
          kf_view_score(v, b->length2[i], product_with(v, b, r, i, products), mean2);
  }
}

/* Scores of one row by cosine with means that are not shrunk, without a branch, for vectors. */
static void score_row(const kf_view *v, const kf_block *b, double *restrict scores) {
  const kf_moved_mean *m = &b->moved;
  const double *within = b->product[0], *whole = within + v->l->n, *square = v->squares[0];
  double root = sqrt(b->length2[0]);
  for (uint32_t j = 0; j < v->l->n; j++) {
    double um0 = within[j] + m->g0c[0], um1 = whole[j] + m->g0c[1];
    double length2 = square[j] + m->c_g0_c + um0 * b->b[0] * um0 +
                     2 * (m->c[0] * within[j] + m->c[1] * whole[j]);
    double cosine = (b->by_w[0] * um0 + b->by_w[1] * um1) / (root * sqrt(length2));
    scores[j] = length2 > 0 ? cosine : 0;
  }
}

static void score_kind(const kf_view *v, const kf_block *b, const kf_class_kind *kind,
                       double *scores) {
  if (b->r == 1) { /* in registers */
    double um0[2], um1[2], p[2], y[2];
    score_kind_of(v, b, 1, kind, &(mean_products){um0, um1}, p, y, scores);
  } else {
    score_kind_of(v, b, b->r, kind, &(mean_products){b->t[0], b->t[1]}, b->t[2], b->t[3], scores);
  }
}

/* Scores [r][n] of all classes, as if they lost no row. */
static void score_kinds(const kf_view *v, kf_block *b, double *scores) {
  bool row = b->r == 1, summed = row && v->narrowings != NULL;
  if (summed) sum_kinds(v, b);
  for (uint32_t k = 0; k < v->l->n_kinds; k++) {
    const kf_class_kind *kind = &v->l->kinds[k];
    if (summed) {
      grams_of_kind(v, b, k);
      set_narrowed(v, b, kind->count);
    } else {
      set_count(v, b, kind->count);
    }
    set_moved(v, b, &b->moved);
    if (row && !v->shrunk && !v->l->euclidean && b->length2[0] > 0) {
      score_row(v, b, scores);
      return;
    }
    score_kind(v, b, kind, scores);
  }
}

/* The mean of class j without its rows in the block; `count` are left. */
static void set_own(const kf_view *v, kf_block *b, uint32_t j, double count) {
  for (uint32_t i = 0; i < b->r; i++) {
    b->own.c[i] = b->label[i] == v->l->number[j] ? -1 / count : 0;
    b->own.c[b->r + i] = b->inverse_left;
  }
  set_moved(v, b, &b->own);
}

/* Scores of class j with `count` rows. length2: replaces that of the mean; NULL: does not. */
static void score_class(const kf_view *v, const kf_block *b, uint32_t j, double count,
                        const class_mean *m, const double *length2, double *scores) {
  mean_products products = {b->t[0], b->t[1]};
  double mean2 = mean_length2(v, b, b->r, m, &products, b->t[2], b->t[3]);
  if (length2 != NULL) mean2 = *length2;
  mean2 += kf_view_prior2(v, count);
  for (uint32_t i = 0; i < b->r; i++)
    scores[(size_t)i * v->l->n + j] =
        kf_view_score(v, b->length2[i], product_with(v, b, b->r, i, &products), mean2);
}

/* Squared lengths and products of the mean of class j with all its rows, in the metrics of a class
 * with `count` rows. */
static void measure_own(const kf_view *v, kf_block *b, uint32_t j, double count, double *square) {
  uint32_t r2 = 2 * b->r;
  const double *z = v->means + (uint64_t)j * v->n_dirs;
  if (!v->shrunk) {
    square[0] = v->squares[0][j];
    for (uint32_t i = 0; i < r2; i++)
      b->own_h[i] = v->l->ctx->kernels->dot(v->n_dirs, z, b->u + (size_t)i * v->n_dirs);
    return;
  }
  memset(b->own_h, 0, 3 * (size_t)r2 * sizeof *b->own_h);
  for (uint32_t d = 0; d < v->n_dirs; d++) {
    double inverse = kf_view_narrowing(v, count, d), part = z[d];
    for (uint32_t k = 0; k < v->metrics; k++) {
      square[k] += part * z[d];
      for (uint32_t i = 0; i < r2; i++)
        b->own_h[k * r2 + i] += part * b->columns[(size_t)d * r2 + i];
      part *= inverse;
    }
  }
}

/* Scores of class j, which loses rows and keeps `count`. */
static void score_own(const kf_view *v, kf_block *b, uint32_t j, double count, double *scores) {
  class_mean m = {.stride = 1, .moved = &b->own};
  measure_own(v, b, j, count, m.square);
  for (uint32_t k = 0; k < v->metrics; k++) m.h[k] = b->own_h + k * (size_t)(2 * b->r);
  set_count(v, b, count);
  set_own(v, b, j, count);
  score_class(v, b, j, count, &m, NULL, scores);
}

/* The same with text. A mean of fewer rows is shrunk more and noisier, so its cosines are smaller.
 * Among prototypes that hardly matters. But text loses nothing, so prototypes would look worse than
 * they are, and alpha would be too small. So the class is shrunk and scaled as with all its
 * rows. */
static void score_own_level(const kf_view *v, kf_block *b, uint32_t j, double all, double count,
                            double *scores) {
  mean_products products = {b->t[0], b->t[1]};
  class_mean m = mean_of(v, b, j);
  set_count(v, b, all);
  set_moved(v, b, &b->moved);
  double length2 = mean_length2(v, b, b->r, &m, &products, b->t[2], b->t[3]);
  set_own(v, b, j, count);
  m.moved = &b->own;
  score_class(v, b, j, count, &m, &length2, scores);
}

/* Whether row i is the first of its class in the block. */
static bool first_of_class(const kf_block *b, uint32_t i) {
  for (uint32_t k = 0; k < i; k++)
    if (b->label[k] == b->label[i]) return false;
  return true;
}

void kf_block_score(const kf_view *v, kf_block *b, double *scores) {
  const kf_left_out *l = v->l;
  b->inverse_left = l->centred ? 1 / (double)(l->stats->rows - b->r) : 0;
  set_gram(v, b);
  set_within(v, b);
  set_queries(b);
  for (uint32_t i = 0; i < 2 * b->r; i++) b->moved.c[i] = i < b->r ? 0 : b->inverse_left;
  score_kinds(v, b, scores);
  for (uint32_t i = 0; i < b->r; i++) {
    if (!first_of_class(b, i)) continue;
    uint32_t j = (uint32_t)l->place[b->label[i]];
    double all = (double)l->stats->counts[b->label[i]], count = all - rows_lost(b, b->label[i]);
    if (count == 0)
      for (uint32_t k = 0; k < b->r; k++) scores[(size_t)k * l->n + j] = NAN;
    else if (l->with_text)
      score_own_level(v, b, j, all, count, scores);
    else
      score_own(v, b, j, count, scores);
  }
}
