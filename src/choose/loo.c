/* loo.c - exact leave-one-out for nearest prototypes, in closed form (docs/choosing.md).
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
 * Whether the own class wins is all we want to know. Without the last term of the root the score is
 * an inner product of the unit vector along p_j and the query u + f (u.v) v, and a bound from above:
 * the first pass of the search engine finds the few classes whose bound reaches the own score, and
 * their scores are computed in double precision.
 *
 * With text prototypes t_j, a class has the score x.t_j / |x| + alpha times the above, and the bound is
 * an inner product of rows that hold both, side by side.
 *
 * The own class is then at a disadvantage that would decide. A mean of n rows has the squared length
 * |m|^2 + s/n, with the scatter s of one row, and few rows in many dimensions make s/n the larger part:
 * the mean that x is left out of is longer than all others, by up to sqrt(n / (n - 1)), and its cosines
 * are smaller by as much. Between prototypes that is hidden by their noise; beside text, which loses
 * nothing, it makes prototypes look worse than they are, and alpha too small. So with text the product
 * is that of the mean without x, and the length that of the mean with x, as all others have it.
 *
 * Rows are the integers that the statistics were made of, so that the result is that of subtracting
 * a row from the statistics and fitting again. */
#include "choose/choose.h"

#include <math.h>
#include <string.h>

#define ROWS 64u /* at a time */
#define TOP  5u

struct kf_loo {
  kf_ctx *ctx;
  const kf_stats *stats;
  const kf_data *data;
  bool euclidean;
  double e; /* by how much the mean of all rows moves: 1 / (N - 1), or 0 where it does not count */
  uint32_t dim;
  uint32_t n;        /* classes with rows */
  int32_t *number;   /* [n] of each */
  int32_t *place;    /* [n_classes] among them, or -1 */
  kf_fitter *fitter; /* S_w = V^T diag(values) V; the caller's */
  double *turn;      /* V^T, [D][D] */
  double *centre;    /* [D] in the basis V; zeros where rows are not centred */
  double *means;     /* [n][D] class means in the basis V, centred */
  double *text;      /* [n][D] text prototypes in the basis V, of unit length; NULL: without text */
};

/* Everything that depends on lambda. */
typedef struct view {
  const kf_loo *loo;
  double unit;     /* A is kept times this power of two, so that no lambda takes it out of range */
  double *inverse; /* [D] unit / (values + lambda): A */
  double *root;    /* [D] its square root */
  double *length2; /* [n] p_j.p_j */
  double shortest, longest; /* of the p_j */
  double shrink;            /* by which distances are divided for the index: numbers near 1 */
  kf_index *index;          /* of the p_j: unit vectors for cosine */
} view;

/* --- making it ------------------------------------------------------------------------------- */

/* Rows [n][D] to the basis V: out[n][D] = x V^T - centre (NULL: none). x may be out. scratch:
 * [D][ROWS]. */
static void turn_rows(const kf_loo *loo, const double *centre, const double *x, size_t n,
                      double *scratch, double *out) {
  size_t dim = loo->dim;
  for (size_t i = 0; i < n; i++)
    for (size_t k = 0; k < dim; k++) scratch[k * ROWS + i] = x[i * dim + k];
  for (size_t i = 0; i < n; i++)
    for (size_t k = 0; k < dim; k++) out[i * dim + k] = centre != NULL ? -centre[k] : 0;
  loo->ctx->kernels->gemm_tn(scratch, ROWS, loo->turn, dim, out, dim, n, dim, dim);
}

static kf_status turn_means(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)worker;
  kf_loo *loo = argument;
  const kf_stats *s = loo->stats;
  uint64_t dim = loo->dim, first = i * ROWS, left = loo->n - first, n = left < ROWS ? left : ROWS;
  double *scratch = kf_alloc(dim * ROWS, sizeof *scratch), *x = loo->means + first * dim;
  if (scratch == NULL) return kf_fail_memory(err);
  double unit = ldexp(1.0, -s->exponent);
  for (uint64_t t = 0; t < n; t++) {
    uint64_t k = (uint64_t)loo->number[first + t];
    for (uint64_t j = 0; j < dim; j++)
      x[t * dim + j] = (double)s->sums[k * dim + j] / (double)s->counts[k] * unit;
  }
  turn_rows(loo, loo->centre, x, n, scratch, x);
  kf_free(scratch);
  return KF_OK;
}

static void list_classes(kf_loo *loo) {
  const kf_stats *s = loo->stats;
  for (uint32_t k = 0; k < s->n_classes; k++) {
    loo->place[k] = s->counts[k] > 0 ? (int32_t)loo->n : -1;
    if (s->counts[k] > 0) loo->number[loo->n++] = (int32_t)k;
  }
}

static kf_status prepare(kf_loo *loo, bool centred) {
  kf_ctx *ctx = loo->ctx;
  uint64_t dim = loo->dim;
  loo->number = kf_alloc(loo->stats->n_classes, sizeof *loo->number);
  loo->place = kf_alloc(loo->stats->n_classes, sizeof *loo->place);
  loo->turn = kf_alloc(dim * dim, sizeof *loo->turn);
  loo->centre = kf_alloc_zero(dim, sizeof *loo->centre);
  double *scratch = kf_alloc(dim * ROWS, sizeof *scratch);
  bool all = loo->number && loo->place && loo->turn && loo->centre && scratch;
  if (all) {
    list_classes(loo);
    const double *v = kf_fitter_vectors(loo->fitter);
    for (uint64_t i = 0; i < dim; i++)
      for (uint64_t j = 0; j < dim; j++) loo->turn[j * dim + i] = v[i * dim + j];
    loo->means = kf_alloc(loo->n * dim, sizeof *loo->means);
    /* Distances do not change with the centre, but they lose fewer digits. */
    if (loo->means != NULL && (centred || loo->euclidean)) {
      turn_rows(loo, NULL, kf_fitter_mean(loo->fitter), 1, scratch, loo->means);
      memcpy(loo->centre, loo->means, dim * sizeof *loo->centre);
    }
  }
  kf_free(scratch);
  if (!all || loo->means == NULL) return kf_fail_memory(&ctx->err);
  return kf_parallel(ctx, (loo->n + ROWS - 1) / ROWS, turn_means, loo);
}

kf_status kf_loo_new(kf_fitter *fitter, const kf_data *data, kf_metric metric, kf_centre centre,
                     kf_loo **out) {
  kf_ctx *ctx = kf_fitter_ctx(fitter);
  const kf_stats *stats = kf_fitter_stats(fitter);
  KF_TRY(kf_check_statistics_of(stats, data, &ctx->err));
  kf_loo *loo = kf_alloc_zero(1, sizeof *loo);
  if (loo == NULL) return kf_fail_memory(&ctx->err);
  loo->ctx = ctx;
  loo->fitter = fitter;
  loo->stats = stats;
  loo->data = data;
  loo->dim = stats->dim;
  loo->euclidean = metric == KF_METRIC_EUCLIDEAN;
  bool centred = centre == KF_CENTRE_MEAN && !loo->euclidean;
  loo->e = centred && stats->rows > 1 ? 1 / (double)(stats->rows - 1) : 0;
  kf_status status = prepare(loo, centred);
  if (status == KF_OK)
    *out = loo;
  else
    kf_loo_free(loo);
  return status;
}

void kf_loo_free(kf_loo *loo) {
  if (loo == NULL) return;
  kf_free(loo->number);
  kf_free(loo->place);
  kf_free(loo->turn);
  kf_free(loo->centre);
  kf_free(loo->means);
  kf_free(loo->text);
  kf_free(loo);
}

kf_status kf_loo_set_text(kf_loo *loo, const float *rows) {
  kf_err *err = &loo->ctx->err;
  uint64_t dim = loo->dim;
  double *text = kf_alloc(loo->n * dim, sizeof *text);
  double *scratch = kf_alloc(dim * ROWS, sizeof *scratch);
  if (text == NULL || scratch == NULL) {
    kf_free(text);
    kf_free(scratch);
    return kf_fail_memory(err);
  }
  for (uint64_t j = 0; j < loo->n; j++)
    for (uint64_t i = 0; i < dim; i++)
      text[j * dim + i] = (double)rows[(uint64_t)loo->number[j] * dim + i];
  for (uint64_t first = 0; first < loo->n; first += ROWS) {
    uint64_t n = loo->n - first < ROWS ? loo->n - first : ROWS;
    turn_rows(loo, NULL, text + first * dim, n, scratch, text + first * dim);
  }
  kf_free(scratch);
  kf_free(loo->text);
  loo->text = text;
  return KF_OK;
}

double kf_loo_mean_eigenvalue(const kf_loo *loo) { return kf_fitter_mean_eigenvalue(loo->fitter); }

kf_status kf_loo_lambda(const kf_loo *loo, kf_lambda lambda, double *out) {
  return kf_fitter_lambda(loo->fitter, lambda, out);
}

/* --- a lambda -------------------------------------------------------------------------------- */

/* Columns of the index. */
static uint32_t width(const kf_loo *loo) { return loo->text != NULL ? 2 * loo->dim : loo->dim; }

/* Prototypes for the index: unit vectors along p_j for cosine, the p_j for distances; behind text,
 * where there is some. */
static kf_status fetch_prototypes(const void *self, const kf_kernels *kernels, uint64_t first,
                                  uint64_t n, float *rows, kf_err *err) {
  (void)kernels;
  (void)err;
  const view *v = self;
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

static kf_status measure_prototypes(view *v) {
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

static void view_clear(view *v) {
  kf_free(v->inverse);
  kf_free(v->root);
  kf_free(v->length2);
  kf_index_free(v->index);
  *v = (view){0};
}

static kf_status view_start(view *v, const kf_loo *loo, double lambda, bool indexed) {
  kf_err *err = &loo->ctx->err;
  double checked;
  KF_TRY(kf_fitter_lambda(loo->fitter, (kf_lambda){lambda, KF_LAMBDA_ABSOLUTE}, &checked));
  v->loo = loo;
  v->inverse = kf_alloc(loo->dim, sizeof *v->inverse);
  v->root = kf_alloc(loo->dim, sizeof *v->root);
  v->length2 = kf_alloc(loo->n, sizeof *v->length2);
  if (!(v->inverse && v->root && v->length2)) return kf_fail_memory(err);
  const double *values = kf_fitter_values(loo->fitter);
  double least = values[loo->dim - 1] + checked; /* they fall */
  if (!(least > 1e-290 && least > 1e-200 * kf_loo_mean_eigenvalue(loo)))
    return kf_fail(err, KF_ERR_MATH, "lambda %g is too small for double precision", checked);
  v->unit = ldexp(1.0, ilogb(least));
  for (uint32_t i = 0; i < loo->dim; i++) {
    v->inverse[i] = v->unit / (values[i] + checked);
    v->root[i] = sqrt(v->inverse[i]);
  }
  KF_TRY(measure_prototypes(v));
  if (!indexed) return KF_OK;
  /* The rows themselves are not asked for after packing. */
  kf_source source = {.rows = loo->n, .dim = width(loo), .fetch = fetch_prototypes, .self = v};
  kf_metric metric = loo->euclidean ? KF_METRIC_EUCLIDEAN : KF_METRIC_INNER;
  return kf_index_build(loo->ctx, &source, metric, true, &v->index);
}

/* --- a row ----------------------------------------------------------------------------------- */

/* A row that is left out, at one lambda. */
typedef struct row {
  uint32_t own;          /* place of its class */
  double c, f, q, a, v2; /* q = u.u, a = u.v, v2 = v.v */
  double length;         /* |x| without itself */
  double score;          /* of its own class: a cosine, or a squared distance */
  const double *ax, *ad; /* A x, A d */
  uint32_t beaten;       /* classes that come before its own */
  /* with text: */
  const double *x; /* itself, of unit length and not centred */
  double alpha;
  double both; /* text score + alpha * score of its own class */
} row;

/* Of the row and a prototype; one of length zero has no direction, and is as far as can be. */
static double cosine(const row *r, double product, double length2) {
  return length2 > 0 && r->length > 0 ? product / (r->length * sqrt(length2)) : 0;
}

static double own_score(const kf_loo *loo, const row *r) {
  if (loo->euclidean) return r->c * r->c * (r->v2 + r->f * r->v2 * r->v2);
  /* The class mean without x, less the mean without x: along (1 + e) u - c v. With text its length is
   * that of the mean with x, (1 + e) u - v. */
  double g = 1 + loo->e, c = loo->text != NULL ? 1 : r->c;
  double up = g * r->q - r->c * r->a, vp = g * r->a - r->c * r->v2, wp = g * r->a - c * r->v2;
  double length2 = g * g * r->q - 2 * g * c * r->a + c * c * r->v2 + r->f * wp * wp;
  return cosine(r, up + r->f * r->a * vp, length2);
}

static double other_score(const view *v, const row *r, uint32_t j) {
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

static double text_score(const kf_loo *loo, const row *r, uint32_t j) {
  return loo->ctx->kernels->dot(loo->dim, r->x, loo->text + (uint64_t)j * loo->dim);
}

/* Whether class j comes before the own class. */
static bool comes_before(const view *v, const row *r, uint32_t j) {
  double own = r->score, other = other_score(v, r, j);
  if (r->x != NULL) {
    own = r->both;
    other = text_score(v->loo, r, j) + r->alpha * other;
  }
  if (other == own) return j < r->own;
  return v->loo->euclidean ? other < own : other > own;
}

/* x: [D] in the basis V, centred; ax, ad, u, v: [D], to be filled in. */
static row take_row(const view *w, const double *x, uint32_t own, double *ax, double *ad, double *u,
                    double *v) {
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
  row r = {.own = own, .ax = ax, .ad = ad, .c = n / (n - 1)};
  r.q = dot(loo->dim, u, u);
  r.a = dot(loo->dim, u, v);
  r.v2 = dot(loo->dim, v, v);
  /* Above 0, but for rounding: S_w - c d d^T has no negative values. */
  double rest = 1 - r.c * (r.v2 / w->unit);
  r.f = r.c / fmax(rest, 0x1p-44) / w->unit;
  r.length = sqrt(r.q + r.f * r.a * r.a);
  r.score = own_score(loo, &r);
  return r;
}

/* What the index is asked: a query, and the score that a class must reach in it to be able to come
 * before the own class. 2^-23 covers the rounding of query and prototypes to f32, the rest that of
 * scores in f64; of distances next to 0 that is more, since they are differences of squares. */
static double ask(const view *w, const row *r, const double *u, const double *v, float *query) {
  const kf_loo *loo = w->loo;
  if (loo->euclidean) {
    /* For rows that are too far away for f32 the index rules nothing out. */
    for (uint32_t i = 0; i < loo->dim; i++) {
      double x = u[i] * w->shrink;
      query[i] = x > 1e30 ? 1e30f : x < -1e30 ? -1e30f : (float)x;
    }
    double radius = sqrt(r->score) + 0x1p-21 * (sqrt(r->q) + w->longest);
    radius = radius * w->shrink + 0x1p-140; /* what denormal numbers lose */
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

/* The same with text: what is asked of rows that hold text and prototype. A score that is below zero
 * may be less so than its bound; that and the mean of all rows, which moves, widen the question. */
static double ask_both(const view *w, const row *r, const double *u, const double *v,
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

/* --- all rows -------------------------------------------------------------------------------- */

typedef struct tally {
  kf_loo_count count;
  uint64_t *top1, *top5; /* [n_points] */
} tally;

typedef struct pass {
  const kf_loo *loo;
  const kf_data *data; /* the rows to leave out */
  const char *what;
  view *views; /* one for each lambda */
  size_t n_views;
  const kf_loo_point *points; /* [n_points] */
  size_t n_points;
  tally *tallies; /* [threads] */
} pass;

/* What a block of rows is worked on with. */
typedef struct block {
  size_t n;
  uint32_t own[ROWS];
  row rows[ROWS];
  double least[ROWS];
  float *fetched;  /* [ROWS][D], then queries */
  int32_t *fixed;  /* [D] */
  double *x;       /* [ROWS][D] in the basis V */
  double *unit;    /* [ROWS][D] the same of unit length, not centred; with text */
  double *ax, *ad; /* [ROWS][D] */
  double *scratch; /* [D][ROWS] */
  double *u, *v;   /* [D] */
  const view *view;
} block;

static bool block_make(block *b, const kf_loo *loo) {
  uint64_t dim = loo->dim;
  b->fetched = kf_alloc(ROWS * (uint64_t)width(loo), sizeof *b->fetched);
  b->unit = kf_alloc(loo->text != NULL ? ROWS * dim : 0, sizeof *b->unit);
  b->fixed = kf_alloc(dim, sizeof *b->fixed);
  b->x = kf_alloc(ROWS * dim, sizeof *b->x);
  b->ax = kf_alloc(ROWS * dim, sizeof *b->ax);
  b->ad = kf_alloc(ROWS * dim, sizeof *b->ad);
  b->scratch = kf_alloc(ROWS * dim, sizeof *b->scratch);
  b->u = kf_alloc(dim, sizeof *b->u);
  b->v = kf_alloc(dim, sizeof *b->v);
  return b->fetched && b->unit && b->fixed && b->x && b->ax && b->ad && b->scratch && b->u && b->v;
}

static void block_clear(block *b) {
  kf_free(b->fetched);
  kf_free(b->unit);
  kf_free(b->fixed);
  kf_free(b->x);
  kf_free(b->ax);
  kf_free(b->ad);
  kf_free(b->scratch);
  kf_free(b->u);
  kf_free(b->v);
}

/* The rows that can be left out, as the statistics saw them, in the basis V. */
static kf_status read_block(const kf_loo *loo, const kf_data *data, uint64_t first, uint64_t n,
                            block *b, kf_loo_count *count, kf_err *err) {
  const kf_stats *s = loo->stats;
  const kf_kernels *kernels = loo->ctx->kernels;
  int32_t labels[ROWS];
  double norm2[ROWS], unit = ldexp(1.0, -s->exponent);
  KF_TRY(kf_data_fetch(data, kernels, first, n, b->fetched, labels, norm2, err));
  b->n = 0;
  for (uint64_t i = 0; i < n; i++) {
    if (labels[i] < 0) continue;
    if (s->counts[labels[i]] < 2) {
      count->n_single++;
      continue;
    }
    if (!s->normalized)
      KF_TRY(kf_check_magnitude(b->fetched + i * loo->dim, loo->dim, s->exponent, data, first + i,
                                err));
    double scale = kf_fixed_scale(s->normalized, s->exponent, norm2[i]);
    kernels->quantize(b->fetched + i * loo->dim, loo->dim, scale, b->fixed);
    double *x = b->x + b->n * loo->dim;
    for (uint32_t k = 0; k < loo->dim; k++) x[k] = b->fixed[k] * unit;
    b->own[b->n++] = (uint32_t)loo->place[labels[i]];
  }
  count->n += b->n;
  turn_rows(loo, loo->centre, b->x, b->n, b->scratch, b->x);
  return KF_OK;
}

static void take_unit(const kf_loo *loo, block *b) {
  for (size_t i = 0; i < b->n; i++) {
    const double *x = b->x + i * loo->dim;
    double *to = b->unit + i * loo->dim;
    for (uint32_t k = 0; k < loo->dim; k++) to[k] = x[k] + loo->centre[k];
    double length = sqrt(loo->ctx->kernels->dot(loo->dim, to, to));
    for (uint32_t k = 0; k < loo->dim; k++) to[k] /= length;
  }
}

static void look_at(void *argument, uint64_t query, uint64_t j) {
  block *b = argument;
  row *r = &b->rows[query];
  if (j == r->own || r->beaten == TOP) return;
  r->beaten += comes_before(b->view, r, (uint32_t)j);
}

static kf_status count_view(const view *w, block *b, double alpha, uint64_t *top1, uint64_t *top5,
                            kf_err *err) {
  const kf_loo *loo = w->loo;
  uint64_t dim = loo->dim;
  b->view = w;
  for (size_t i = 0; i < b->n; i++) {
    row *r = &b->rows[i];
    float *query = b->fetched + i * width(loo);
    *r = take_row(w, b->x + i * dim, b->own[i], b->ax + i * dim, b->ad + i * dim, b->u, b->v);
    if (loo->text != NULL) {
      r->x = b->unit + i * dim;
      r->alpha = alpha;
      r->both = text_score(loo, r, r->own) + alpha * r->score;
    }
    b->least[i] = r->x != NULL ? ask_both(w, r, b->u, b->v, query) : ask(w, r, b->u, b->v, query);
  }
  KF_TRY(
      kf_index_reaching(w->index, loo->ctx->kernels, b->fetched, b->n, b->least, look_at, b, err));
  for (size_t i = 0; i < b->n; i++) {
    *top1 += b->rows[i].beaten == 0;
    *top5 += b->rows[i].beaten < TOP;
  }
  return KF_OK;
}

static kf_status count_block(void *argument, size_t i, size_t worker, kf_err *err) {
  const pass *p = argument;
  tally *t = &p->tallies[worker];
  uint64_t first = (uint64_t)i * ROWS, left = p->data->rows - first, n = left < ROWS ? left : ROWS;
  block b = {0};
  kf_status status = block_make(&b, p->loo) ? KF_OK : kf_fail_memory(err);
  if (status == KF_OK) status = read_block(p->loo, p->data, first, n, &b, &t->count, err);
  if (status == KF_OK && p->loo->text != NULL) take_unit(p->loo, &b);
  for (size_t g = 0; status == KF_OK && g < p->n_points; g++)
    status = count_view(&p->views[p->points[g].view], &b, p->points[g].alpha, &t->top1[g],
                        &t->top5[g], err);
  block_clear(&b);
  if (status == KF_OK && worker == 0) {
    status = kf_progress(p->loo->ctx, p->what, first + n, p->data->rows);
    if (status != KF_OK) *err = p->loo->ctx->err;
  }
  return status;
}

static kf_status run_pass(pass *p, const double *lambdas, uint64_t *hits) {
  kf_ctx *ctx = p->loo->ctx;
  for (size_t g = 0; g < p->n_views; g++)
    KF_TRY(view_start(&p->views[g], p->loo, lambdas[g], true));
  for (unsigned t = 0; t < ctx->threads; t++) {
    p->tallies[t].top1 = hits + 2 * t * p->n_points;
    p->tallies[t].top5 = p->tallies[t].top1 + p->n_points;
  }
  return kf_parallel(ctx, (size_t)((p->data->rows + ROWS - 1) / ROWS), count_block, p);
}

static void sum_tallies(const pass *p, kf_loo_point *points, kf_loo_count *count) {
  *count = (kf_loo_count){0};
  for (size_t g = 0; g < p->n_points; g++) points[g].top1 = points[g].top5 = 0;
  for (unsigned t = 0; t < p->loo->ctx->threads; t++) {
    count->n += p->tallies[t].count.n;
    count->n_single += p->tallies[t].count.n_single;
    for (size_t g = 0; g < p->n_points; g++) {
      points[g].top1 += p->tallies[t].top1[g];
      points[g].top5 += p->tallies[t].top5[g];
    }
  }
}

kf_status kf_loo_count_points(kf_loo *loo, const kf_rows *rows, const char *what,
                              const double *lambdas, size_t n_lambdas, kf_loo_point *points,
                              size_t n_points, kf_loo_count *count) {
  kf_ctx *ctx = loo->ctx;
  kf_data *picked = NULL;
  if (rows != NULL) KF_TRY(kf_data_new_pick(loo->data, rows->row, rows->n, &picked, &ctx->err));
  pass p = {.loo = loo,
            .data = picked != NULL ? picked : loo->data,
            .what = what,
            .n_views = n_lambdas,
            .points = points,
            .n_points = n_points};
  p.views = kf_alloc_zero(n_lambdas, sizeof *p.views);
  p.tallies = kf_alloc_zero(ctx->threads, sizeof *p.tallies);
  uint64_t *hits = kf_alloc_zero(2 * (uint64_t)ctx->threads * n_points, sizeof *hits);
  kf_status status =
      p.views && p.tallies && hits ? run_pass(&p, lambdas, hits) : kf_fail_memory(&ctx->err);
  if (status == KF_OK) sum_tallies(&p, points, count);
  for (size_t g = 0; p.views != NULL && g < n_lambdas; g++) view_clear(&p.views[g]);
  kf_free(p.views);
  kf_free(p.tallies);
  kf_free(hits);
  kf_data_free(picked);
  return status;
}

kf_status kf_loo_count_hits(kf_loo *loo, const kf_rows *rows, const char *what,
                            kf_lambda_point *points, size_t n, kf_loo_count *count) {
  double *lambdas = kf_alloc(n, sizeof *lambdas);
  kf_loo_point *own = kf_alloc_zero(n, sizeof *own);
  kf_status status = lambdas != NULL && own != NULL ? KF_OK : kf_fail_memory(&loo->ctx->err);
  for (size_t i = 0; status == KF_OK && i < n; i++) {
    lambdas[i] = points[i].lambda;
    own[i].view = i;
  }
  if (status == KF_OK) status = kf_loo_count_points(loo, rows, what, lambdas, n, own, n, count);
  for (size_t i = 0; status == KF_OK && i < n; i++) {
    points[i].top1 = own[i].top1;
    points[i].top5 = own[i].top5;
  }
  kf_free(lambdas);
  kf_free(own);
  return status;
}

kf_status kf_loo_scores(kf_loo *loo, uint64_t number, double lambda, double *scores) {
  kf_err *err = &loo->ctx->err;
  view w = {0};
  block b = {0};
  kf_loo_count count = {0};
  kf_status status = view_start(&w, loo, lambda, false);
  if (status == KF_OK && !block_make(&b, loo)) status = kf_fail_memory(err);
  if (status == KF_OK) status = read_block(loo, loo->data, number, 1, &b, &count, err);
  for (uint32_t k = 0; status == KF_OK && k < loo->stats->n_classes; k++) scores[k] = NAN;
  if (status == KF_OK && b.n == 1) {
    row r = take_row(&w, b.x, b.own[0], b.ax, b.ad, b.u, b.v);
    for (uint32_t j = 0; j < loo->n; j++) {
      double score = j == r.own ? r.score : other_score(&w, &r, j);
      scores[loo->number[j]] = loo->euclidean ? score / w.unit : score;
    }
  }
  block_clear(&b);
  view_clear(&w);
  return status;
}
