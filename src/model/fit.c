/* fit.c - the Fukunaga-Koontz transform (docs/method.md).
 *
 *   1. S_w = V^T diag(w) V           eigenvectors are the rows of V
 *   2. Z   = V^T diag(w + lambda)^(-1/2) V
 *   3. C   = Z S_b Z in the basis V: diag(w + lambda)^(-1/2) V S_b V^T diag(w + lambda)^(-1/2)
 *   4. C   = U^T diag(gamma) U       gamma falling: the directions that tell classes apart first
 *   5. T   = the first L rows of U diag(w + lambda)^(-1/2) V
 *
 * Then T (S_w + lambda I) T^T = I and T S_b T^T = diag(gamma). Beyond the rank of S_b (at most K -
 * 1) gamma is zero and the rows of U are an orthonormal completion. Working in the basis V saves
 * the product that would form Z itself. */
#include "base/json.h"
#include "model/model.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define ROW_BLOCK 64u

kf_status kf_lambda_parse(kf_ctx *ctx, const char *text, kf_lambda *out) {
  KF_ENTER(ctx, text != NULL && out != NULL);
  const char *end;
  double value = kf_parse_f64(text, &end);
  bool relative = strcmp(end, "x") == 0, absolute = *end == '\0';
  if (end == text || !(relative || absolute)) value = -1;
  if (!(value >= 0) || !isfinite(value))
    return kf_fail(err, KF_ERR_ARG,
                   "lambda '%s' is neither a number such as 150 nor a multiple of "
                   "the mean eigenvalue such as 0.3x",
                   text);
  *out = (kf_lambda){.value = value, .unit = relative ? KF_LAMBDA_RELATIVE : KF_LAMBDA_ABSOLUTE};
  return KF_OK;
}

/* --- products -------------------------------------------------------------------------------- */

typedef struct product {
  const kf_kernels *kernels;
  const double *a, *b; /* c = a^T b; a [depth][m], b [depth][n] */
  double *c;
  size_t m, n, depth;
  bool upper; /* c is symmetric: its lower triangle is left out, but for whole blocks of rows */
} product;

static kf_status product_rows(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)worker;
  (void)err;
  const product *p = argument;
  size_t first = i * ROW_BLOCK, rows = p->m - first < ROW_BLOCK ? p->m - first : ROW_BLOCK;
  size_t from = p->upper ? first : 0;
  double *c = p->c + first * p->n;
  memset(c, 0, rows * p->n * sizeof *c);
  p->kernels->gemm_tn(p->a + first, p->m, p->b + from, p->n, c + from, p->n, rows, p->n - from,
                      p->depth);
  return KF_OK;
}

static kf_status multiply(kf_ctx *ctx, product p) {
  p.kernels = ctx->kernels;
  return kf_parallel(ctx, (p.m + ROW_BLOCK - 1) / ROW_BLOCK, product_rows, &p);
}

/* --- the steps ------------------------------------------------------------------------------- */

typedef struct fit {
  kf_ctx *ctx;
  const kf_stats *within, *between;
  kf_fit_options options;
  uint32_t dim;
  double *s_w;   /* [D][D]; scratch after step 1 */
  double *s_b;   /* [D][D]; C from step 3 on */
  double *v;     /* [D][D] rows are eigenvectors of S_w */
  double *u;     /* [D][D] V^T in step 3, then rows are eigenvectors of C */
  double *scale; /* [D] (w + lambda)^(-1/2) */
  double largest_scale;
  kf_model *model;
} fit;

/* An eigenvalue this small is rounding: S_w is positive semi-definite by construction. */
static double noise_level(const fit *f) { return f->dim * DBL_EPSILON * fabs(f->model->within[0]); }

static kf_status whiten(fit *f) {
  kf_model *m = f->model;
  double trace = 0;
  for (uint32_t i = 0; i < f->dim; i++) trace += f->s_w[(uint64_t)i * f->dim + i];
  m->mean_eigenvalue = trace / f->dim;
  KF_TRY(kf_eigen(f->ctx, f->dim, f->s_w, m->within, f->v));
  double noise = noise_level(f);
  for (m->rank = 0; m->rank < f->dim && m->within[m->rank] > noise;) m->rank++;
  double largest = fabs(m->within[0]), smallest = m->within[f->dim - 1];
  for (uint32_t i = m->rank; i < f->dim; i++) m->within[i] = 0;

  kf_lambda lambda = f->options.lambda;
  if (lambda.unit == KF_LAMBDA_DEFAULT) lambda = (kf_lambda){0.3, KF_LAMBDA_RELATIVE};
  m->lambda = lambda.unit == KF_LAMBDA_RELATIVE ? lambda.value * m->mean_eigenvalue : lambda.value;
  /* Far beyond rounding: a file that was made up. */
  if (smallest < -1e-6 * largest)
    return kf_fail(&f->ctx->err, KF_ERR_DATA,
                   "the statistics are not those of any rows: their "
                   "scatter within classes has a negative eigenvalue, %g",
                   smallest);
  if (!isfinite(m->lambda))
    return kf_fail(&f->ctx->err, KF_ERR_ARG, "lambda is too large for double precision");
  if (m->lambda == 0 && m->rank == 0)
    return kf_fail(&f->ctx->err, KF_ERR_MATH,
                   "the scatter within classes is zero: no class has two different rows (%llu rows "
                   "in %u classes); if that is right, give lambda as an absolute number above 0",
                   (unsigned long long)f->within->rows, f->within->n_classes);
  if (m->lambda == 0 && m->rank < f->dim)
    return kf_fail(&f->ctx->err, KF_ERR_MATH,
                   "the scatter within classes has rank %u of %u, so lambda must be above 0: 0.3x "
                   "is the default, and %.2g about the smallest that rounding does not reach",
                   m->rank, f->dim, 1e6 * noise);
  for (uint32_t i = 0; i < f->dim; i++) f->scale[i] = 1 / sqrt(m->within[i] + m->lambda);
  f->largest_scale = f->scale[f->dim - 1]; /* eigenvalues fall, so scales rise */
  return KF_OK;
}

static void transpose(const double *from, double *to, uint64_t n) {
  for (uint64_t i = 0; i < n; i++)
    for (uint64_t j = 0; j < n; j++) to[j * n + i] = from[i * n + j];
}

/* s_b := C, divided by the square of the largest scale so that no lambda takes it out of range. */
static kf_status whiten_between(fit *f) {
  uint64_t n = f->dim;
  double *half = f->s_w; /* S_b V^T */
  transpose(f->v, f->u, n);
  product first = {.a = f->s_b, .b = f->u, .c = half, .m = n, .n = n, .depth = n};
  product second = {.a = f->u, .b = half, .c = f->s_b, .m = n, .n = n, .depth = n, .upper = true};
  KF_TRY(multiply(f->ctx, first));
  KF_TRY(multiply(f->ctx, second));
  for (uint64_t i = 0; i < n; i++) {
    double scale = f->scale[i] / f->largest_scale;
    for (uint64_t j = i; j < n; j++)
      f->s_b[j * n + i] = f->s_b[i * n + j] *= scale * (f->scale[j] / f->largest_scale);
  }
  return KF_OK;
}

/* Each direction points so that its largest component is positive (the first of equal ones). */
static void fix_signs(kf_model *m) {
  for (uint64_t l = 0; l < m->dim_out; l++) {
    double *row = m->transform + l * m->dim_in, largest = 0;
    for (uint32_t i = 0; i < m->dim_in; i++)
      if (fabs(row[i]) > fabs(largest)) largest = row[i];
    if (largest < 0)
      for (uint32_t i = 0; i < m->dim_in; i++) row[i] = -row[i];
  }
}

static kf_status rotate(fit *f) {
  kf_model *m = f->model;
  uint64_t n = f->dim, kept = m->dim_out;
  KF_TRY(kf_eigen(f->ctx, f->dim, f->s_b, m->between, f->u));
  double noise = f->dim * DBL_EPSILON * fabs(m->between[0]);
  for (uint32_t i = 0; i < f->dim; i++)
    m->between[i] = m->between[i] < noise ? 0 : m->between[i] * f->largest_scale * f->largest_scale;
  if (!isfinite(m->between[0]))
    return kf_fail(&f->ctx->err, KF_ERR_MATH, "lambda %g is too small for double precision",
                   m->lambda);
  double *left = f->s_w; /* [D][L]: U^T with its rows scaled */
  for (uint64_t k = 0; k < n; k++)
    for (uint64_t l = 0; l < kept; l++) left[k * kept + l] = f->u[l * n + k] * f->scale[k];
  product map = {.a = left, .b = f->v, .c = m->transform, .m = kept, .n = n, .depth = n};
  KF_TRY(multiply(f->ctx, map));
  fix_signs(m);
  kf_model_finish(m);
  return KF_OK;
}

/* --- prototypes ------------------------------------------------------------------------------ */

kf_status kf_model_set_classes(kf_model *m, const kf_kernels *kernels, uint32_t k, uint32_t n,
                               const kf_stats *stats, uint32_t from, kf_err *err) {
  uint64_t d = m->dim_in, l = m->dim_out;
  double *means = kf_alloc(n * (d + l) + kf_map_scratch(m), sizeof *means);
  if (means == NULL) return kf_fail_memory(err);
  double *mapped = means + n * d, *scratch = mapped + n * l;
  double unit = ldexp(1.0, -stats->exponent);
  for (uint64_t t = 0; t < n; t++) {
    int64_t count = m->counts[k + t] = stats->counts[from + t];
    const int64_t *sum = stats->sums + (from + t) * d;
    for (uint64_t i = 0; i < d; i++) {
      double mean = count > 0 ? (double)sum[i] / (double)count * unit : 0.0;
      means[t * d + i] = mean;
      m->class_means[(k + t) * d + i] = (float)mean;
    }
  }
  kf_map_f64(m, kernels, means, n, scratch, mapped);
  for (uint64_t t = 0; t < n; t++) { /* an empty class has no place in the mapped space either */
    if (m->counts[k + t] == 0) memset(mapped + t * l, 0, l * sizeof *mapped);
    m->lengths[k + t] =
        kf_unit_row(kernels, mapped + t * l, m->dim_out, m->prototypes + (k + t) * l);
  }
  kf_free(means);
  return KF_OK;
}

static kf_status set_classes(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)worker;
  const fit *f = argument;
  uint32_t first = (uint32_t)i * KF_MAP_ROWS, left = f->model->n_classes - first;
  return kf_model_set_classes(f->model, f->ctx->kernels, first,
                              left < KF_MAP_ROWS ? left : KF_MAP_ROWS, f->between, first, err);
}

/* --- all together ---------------------------------------------------------------------------- */

static kf_status check(const fit *f) {
  kf_err *err = &f->ctx->err;
  const kf_stats *w = f->within, *b = f->between;
  if (f->options.dim > w->dim)
    return kf_fail(err, KF_ERR_ARG, "%u dimensions asked for, the embeddings have %u",
                   f->options.dim, w->dim);
  if (w->dim != b->dim || w->normalized != b->normalized)
    return kf_fail(err, KF_ERR_DATA,
                   "the statistics for S_w (%u columns, %s) and S_b (%u columns, "
                   "%s) do not go together",
                   w->dim, w->normalized ? "unit length" : "raw", b->dim,
                   b->normalized ? "unit length" : "raw");
  kf_lambda lambda = f->options.lambda;
  if (lambda.unit != KF_LAMBDA_DEFAULT && !(lambda.value >= 0 && isfinite(lambda.value)))
    return kf_fail(err, KF_ERR_ARG, "lambda must be finite and not negative");
  if ((unsigned)lambda.unit > KF_LAMBDA_RELATIVE || (unsigned)f->options.centre > KF_CENTRE_MEAN)
    return kf_fail(err, KF_ERR_ARG, "kf_fit: an option is none of its choices");
  if (w->rows == 0) return kf_fail(err, KF_ERR_MATH, "the statistics hold no rows");
  uint32_t filled = 0;
  for (uint32_t k = 0; k < b->n_classes; k++) filled += b->counts[k] > 0;
  if (filled < 2)
    return kf_fail(err, KF_ERR_MATH, "a fit needs at least two classes with rows; there %s %u",
                   filled == 1 ? "is" : "are", filled);
  return KF_OK;
}

static kf_status run(fit *f) {
  kf_ctx *ctx = f->ctx;
  uint64_t n = f->dim;
  KF_TRY(check(f));
  KF_TRY(kf_model_create(f->dim, f->options.dim > 0 ? f->options.dim : f->dim,
                         f->between->n_classes, &f->between->names, &f->model, &ctx->err));
  f->model->normalized = f->within->normalized;
  f->model->centre = f->options.centre;
  f->model->rows = f->within->rows;
  f->s_w = kf_alloc(n * n, sizeof *f->s_w);
  f->s_b = kf_alloc(n * n, sizeof *f->s_b);
  f->v = kf_alloc(n * n, sizeof *f->v);
  f->u = kf_alloc(n * n, sizeof *f->u);
  f->scale = kf_alloc(n, sizeof *f->scale);
  if (!(f->s_w && f->s_b && f->v && f->u && f->scale)) return kf_fail_memory(&ctx->err);

  enum { STEPS = 5 };
  KF_TRY(kf_progress(ctx, "fit", 0, STEPS));
  if (f->within == f->between) {
    KF_TRY(kf_stats_scatter(ctx, f->within, f->s_w, f->s_b, f->model->mean));
  } else {
    KF_TRY(kf_stats_scatter(ctx, f->within, f->s_w, NULL, NULL));
    KF_TRY(kf_stats_scatter(ctx, f->between, NULL, f->s_b, f->model->mean));
  }
  KF_TRY(kf_progress(ctx, "fit", 1, STEPS));
  KF_TRY(whiten(f));
  KF_TRY(kf_progress(ctx, "fit", 2, STEPS));
  KF_TRY(whiten_between(f));
  KF_TRY(kf_progress(ctx, "fit", 3, STEPS));
  KF_TRY(rotate(f));
  KF_TRY(kf_progress(ctx, "fit", 4, STEPS));
  KF_TRY(kf_parallel(ctx, (f->model->n_classes + KF_MAP_ROWS - 1) / KF_MAP_ROWS, set_classes, f));
  return kf_progress(ctx, "fit", STEPS, STEPS);
}

kf_status kf_fit(kf_ctx *ctx, const kf_stats *stats, const kf_fit_options *options,
                 kf_model **out) {
  KF_ENTER(ctx, stats != NULL && out != NULL);
  (void)err;
  fit f = {.ctx = ctx, .within = stats, .between = stats, .dim = stats->dim};
  if (options != NULL) f.options = *options;
  if (f.options.between != NULL) f.between = f.options.between;
  kf_status status = run(&f);
  kf_free(f.s_w);
  kf_free(f.s_b);
  kf_free(f.v);
  kf_free(f.u);
  kf_free(f.scale);
  if (status == KF_OK)
    *out = f.model;
  else
    kf_model_free(f.model);
  return status;
}
