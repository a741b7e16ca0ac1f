/* loo_algebra.c - exact leave-one-out for nearest prototypes, in closed form (docs/choosing.md).
 *
 * Taking row x out of its class k, with n rows and mean m_k, changes S_w and the class mean by
 *
 *     d = x - m_k,  c = n / (n - 1):     S_w - c d d^T,     m_k - d / (n - 1) = x - c d
 *
 * and by Sherman and Morrison's formula A = (S_w + lambda I)^-1 by a term of rank one,
 *
 *     A + f (A d)(A d)^T,                f = c / (1 - c d^T A d).
 *
 * With rows in the basis of the eigenvectors of S_w, A is diagonal for every lambda, and with the
 * whitened u = A^(1/2) x, v = A^(1/2) d, p_j = A^(1/2) m_j the score of class j != k, a cosine, is
 *
 *     (u.p_j + f (u.v)(v.p_j)) / (|x| sqrt(p_j.p_j + f (v.p_j)^2)),     |x|^2 = u.u + f (u.v)^2.
 *
 * All we want to know is whether the own class wins. Without the last term of the root, the score
 * is the inner product of the unit vector along p_j with the query u + f (u.v) v: an upper bound.
 * The first pass of the search engine finds the few classes whose bound reaches the own score, and
 * their scores are computed in double precision.
 *
 * With text prototypes t_j, a class has the score x.t_j / |x| + alpha times the above, and the
 * bound is an inner product of rows that hold both, side by side.
 *
 * Then the own class has a handicap that would decide. A mean of n rows has the squared length
 * |m|^2 + s/n, with the scatter s of one row; with few rows in many dimensions s/n is the larger
 * part. The mean that x is left out of is longer than all others, by up to sqrt(n / (n - 1)), and
 * its cosines are smaller by as much. Among prototypes their noise hides this; next to text, which
 * loses nothing, it makes prototypes look worse than they are, and alpha too small. So with text
 * the product is that of the mean without x, and the length that of the mean with x, as for all
 * other classes.
 *
 * Rows are the integers that the statistics were made of, so the result is that of subtracting a
 * row from the statistics and fitting again. */
#include "choose/loo_algebra.h"

#include <math.h>

/* --- a lambda -------------------------------------------------------------------------------- */

/* Prototypes for the index: unit vectors along p_j for cosine, the p_j for distances; after text,
 * if there is some. */
static kf_status fetch_prototypes(const void *self, const kf_kernels *kernels, uint64_t first,
                                  uint64_t n, float *rows, kf_err *err) {
  (void)kernels;
  (void)err;
  const kf_loo_view *v = self;
  uint32_t dim = v->loo->dim;
  for (uint64_t j = first; j < first + n; j++, rows += dim) {
    for (uint32_t i = 0; v->loo->text != NULL && i < dim; i++)
      rows[i] = (float)v->loo->text[j * dim + i];
    if (v->loo->text != NULL) rows += dim;
    double scale = v->length2[j] > 0 ? 1 / sqrt(v->length2[j]) : 0;
    if (v->loo->euclidean) scale = v->shrink;
    const double *m = v->loo->means + j * dim;
    for (uint32_t i = 0; i < dim; i++) rows[i] = (float)(m[i] * v->root[i] * scale);
  }
  return KF_OK;
}

static kf_status measure_prototypes(kf_loo_view *v) {
  const kf_loo *loo = v->loo;
  double *p = kf_alloc(loo->dim, sizeof *p);
  if (p == NULL) return kf_fail_memory(&loo->ctx->err);
  v->shortest = INFINITY;
  for (uint32_t j = 0; j < loo->n; j++) {
    const double *m = loo->means + (uint64_t)j * loo->dim;
    for (uint32_t i = 0; i < loo->dim; i++) p[i] = m[i] * v->root[i];
    v->length2[j] = loo->ctx->kernels->dot(loo->dim, p, p);
    v->shortest = fmin(v->shortest, sqrt(v->length2[j]));
    v->longest = fmax(v->longest, sqrt(v->length2[j]));
  }
  v->shrink = v->longest > 0 ? 1 / v->longest : 1;
  kf_free(p);
  return KF_OK;
}

void kf_loo_view_clear(kf_loo_view *v) {
  kf_arena_free(&v->arena);
  kf_index_free(v->index);
  *v = (kf_loo_view){0};
}

kf_status kf_loo_view_start(kf_loo_view *v, const kf_loo *loo, double lambda, bool indexed) {
  kf_err *err = &loo->ctx->err;
  double checked = 0;
  KF_TRY(kf_fitter_lambda(loo->fitter, (kf_lambda){lambda, KF_LAMBDA_ABSOLUTE}, &checked));
  v->loo = loo;
  KF_TAKE(&v->arena, v->inverse, loo->dim);
  KF_TAKE(&v->arena, v->root, loo->dim);
  KF_TAKE(&v->arena, v->length2, loo->n);
  if (v->arena.failed) return kf_fail_memory(err);
  const double *values = kf_fitter_values(loo->fitter);
  double least = values[loo->dim - 1] + checked; /* values fall */
  if (!(least > 1e-290 && least > 1e-200 * kf_fitter_mean_eigenvalue(loo->fitter)))
    return kf_fail(err, KF_ERR_MATH, "lambda %g is too small for double precision", checked);
  v->unit = ldexp(1.0, ilogb(least));
  for (uint32_t i = 0; i < loo->dim; i++) {
    v->inverse[i] = v->unit / (values[i] + checked);
    v->root[i] = sqrt(v->inverse[i]);
  }
  KF_TRY(measure_prototypes(v));
  if (!indexed) return KF_OK;
  /* In place: rows are not asked for after packing. */
  kf_source source = {
      .rows = loo->n, .dim = kf_loo_width(loo), .fetch = fetch_prototypes, .self = v};
  kf_metric metric = loo->euclidean ? KF_METRIC_EUCLIDEAN : KF_METRIC_INNER;
  return kf_index_build(loo->ctx, &source, metric, true, &v->index);
}

/* --- a row ----------------------------------------------------------------------------------- */

/* Of the row and a prototype; without a length, either has no direction, and the cosine is 0. */
static double cosine(const kf_loo_row *r, double product, double length2) {
  return length2 > 0 && r->length > 0 ? product / (r->length * sqrt(length2)) : 0;
}

static double own_score(const kf_loo *loo, const kf_loo_row *r) {
  if (loo->euclidean) return r->c * r->c * (r->v2 + r->f * r->v2 * r->v2);
  /* The class mean without x, less the mean without x: along (1 + e) u - c v. With text its
   * length is that of the mean with x, (1 + e) u - v. */
  double g = 1 + loo->e, c = loo->text != NULL ? 1 : r->c;
  double up = g * r->q - r->c * r->a, vp = g * r->a - r->c * r->v2, wp = g * r->a - c * r->v2;
  double length2 = g * g * r->q - 2 * g * c * r->a + c * c * r->v2 + r->f * wp * wp;
  return cosine(r, up + r->f * r->a * vp, length2);
}

double kf_loo_score(const kf_loo_view *v, const kf_loo_row *r, uint32_t j) {
  const kf_loo *loo = v->loo;
  const double *m = loo->means + (uint64_t)j * loo->dim;
  double up = loo->ctx->kernels->dot(loo->dim, r->ax, m);
  double vp = loo->ctx->kernels->dot(loo->dim, r->ad, m);
  if (loo->euclidean) return r->q - 2 * up + v->length2[j] + r->f * (r->a - vp) * (r->a - vp);
  double length2 = v->length2[j] + loo->e * (2 * up + loo->e * r->q);
  up += loo->e * r->q;
  vp += loo->e * r->a;
  length2 += r->f * vp * vp;
  return cosine(r, up + r->f * r->a * vp, length2);
}

static double text_score(const kf_loo *loo, const kf_loo_row *r, uint32_t j) {
  return loo->ctx->kernels->dot(loo->dim, r->x, loo->text + (uint64_t)j * loo->dim);
}

bool kf_loo_comes_before(const kf_loo_view *v, const kf_loo_row *r, uint32_t j) {
  double own = r->score, other = kf_loo_score(v, r, j);
  if (r->x != NULL) {
    own = r->both;
    other = text_score(v->loo, r, j) + r->alpha * other;
  }
  if (other == own) return j < r->own;
  return v->loo->euclidean ? other < own : other > own;
}

kf_loo_row kf_loo_row_take(const kf_loo_view *w, const double *x, uint32_t own, double *ax,
                           double *ad, double *u, double *v) {
  const kf_loo *loo = w->loo;
  const double *m = loo->means + (uint64_t)own * loo->dim;
  for (uint32_t i = 0; i < loo->dim; i++) {
    double d = x[i] - m[i];
    ax[i] = x[i] * w->inverse[i];
    ad[i] = d * w->inverse[i];
    u[i] = x[i] * w->root[i];
    v[i] = d * w->root[i];
  }
  double (*dot)(size_t, const double *, const double *) = loo->ctx->kernels->dot;
  double n = (double)loo->stats->counts[loo->number[own]];
  kf_loo_row r = {.own = own, .ax = ax, .ad = ad, .c = n / (n - 1)};
  r.q = dot(loo->dim, u, u);
  r.a = dot(loo->dim, u, v);
  r.v2 = dot(loo->dim, v, v);
  /* Above 0, except for rounding: S_w - c d d^T has no negative eigenvalues. */
  double rest = 1 - r.c * (r.v2 / w->unit);
  r.f = r.c / fmax(rest, 0x1p-44) / w->unit;
  r.length = sqrt(r.q + r.f * r.a * r.a);
  r.score = own_score(loo, &r);
  return r;
}

void kf_loo_row_add_text(const kf_loo_view *w, kf_loo_row *r, const double *x, double alpha) {
  r->x = x;
  r->alpha = alpha;
  r->both = text_score(w->loo, r, r->own) + alpha * r->score;
}

/* --- bounds ---------------------------------------------------------------------------------- */

/* Without text. 2^-23 covers the rounding of query and prototypes to f32, the rest of the slack
 * that of scores in f64, which is larger for distances near 0, since they are differences of
 * squares. */
static double ask(const kf_loo_view *w, const kf_loo_row *r, const double *u, const double *v,
                  float *query) {
  const kf_loo *loo = w->loo;
  if (loo->euclidean) {
    /* The index rules nothing out for rows that are too far away for f32. */
    for (uint32_t i = 0; i < loo->dim; i++) {
      double x = u[i] * w->shrink;
      query[i] = x > 1e30 ? 1e30f : x < -1e30 ? -1e30f : (float)x;
    }
    double radius = sqrt(r->score) + 0x1p-21 * (sqrt(r->q) + w->longest);
    radius = radius * w->shrink + 0x1p-140; /* for what denormal numbers lose */
    return radius * radius * (1 + 0x1p-40);
  }
  double fa = r->f * r->a, scale = r->length > 0 ? 1 / r->length : 0;
  for (uint32_t i = 0; i < loo->dim; i++) query[i] = (float)((u[i] + fa * v[i]) * scale);
  double length = sqrt(r->q + 2 * fa * r->a + fa * fa * r->v2) * scale;
  /* Below zero the longer p_j counts, and sqrt(1 + f v.v) bounds by how much. */
  double least = r->score > 0 ? r->score : r->score * sqrt(1 + r->f * r->v2);
  if (loo->e > 0) least -= loo->e * (r->length + fabs(least) * sqrt(r->q)) / w->shortest;
  return least - 0x1p-22 * length - 0x1p-40;
}

/* With text, of index rows that hold text and prototype. A negative score may be closer to zero
 * than its bound, and the mean of all rows moves: both lower the score that is asked for. */
static double ask_both(const kf_loo_view *w, const kf_loo_row *r, const double *u, const double *v,
                       float *query) {
  const kf_loo *loo = w->loo;
  uint32_t dim = loo->dim;
  double fa = r->f * r->a, scale = r->length > 0 ? r->alpha / r->length : 0;
  for (uint32_t i = 0; i < dim; i++) query[i] = (float)r->x[i];
  for (uint32_t i = 0; i < dim; i++) query[dim + i] = (float)((u[i] + fa * v[i]) * scale);
  double length = sqrt(r->q + 2 * fa * r->a + fa * fa * r->v2) / (r->length > 0 ? r->length : 1);
  double moved = loo->e > 0 ? loo->e * sqrt(r->q) / w->shortest : 0;
  double shifted = loo->e > 0 ? loo->e * r->length / w->shortest : 0;
  if (!(moved < 0.5)) return -INFINITY;
  double doubt = length * (1 - 1 / (sqrt(1 + r->f * r->v2) * (1 + moved))) +
                 (shifted + length * moved) / (1 - moved);
  return r->both - r->alpha * doubt - 0x1p-22 * (1 + r->alpha * length) - 0x1p-40;
}

double kf_loo_ask(const kf_loo_view *w, const kf_loo_row *r, const double *u, const double *v,
                  float *query) {
  return r->x != NULL ? ask_both(w, r, u, v, query) : ask(w, r, u, v, query);
}
