/* test_directions.c - the factor that whitens, and the two ways to the directions of a model. */
#include "world.h"

AUTO_OBJECT(kf_fitter)

/* Uniform in [-1, 1). */
static double next(uint64_t *seed) {
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  return (double)(int32_t)(*seed >> 32) * 0x1p-31;
}

/* Scatter of 2 n rows whose columns fall in size by `span`. */
static double *make_scatter(size_t n, double span, uint64_t seed) {
  double *a = calloc(n * n, sizeof *a), *row = malloc(n * sizeof *row);
  for (size_t r = 0; r < 2 * n; r++) {
    for (size_t i = 0; i < n; i++)
      row[i] = next(&seed) * pow(span, -(double)i / (double)n) + (i > 0 ? row[i - 1] / 2 : 0);
    for (size_t i = 0; i < n; i++)
      for (size_t j = 0; j < n; j++) a[i * n + j] += row[i] * row[j];
  }
  free(row);
  return a;
}

/* The factor by its definition, a step at a time. */
static void plain_factor(size_t n, const double *a, double *r, double *inverse) {
  for (size_t i = 0; i < n; i++)
    for (size_t j = i; j < n; j++) {
      double sum = a[i * n + j];
      for (size_t k = 0; k < i; k++) sum = fma(r[k * n + i], -r[k * n + j], sum);
      if (i == j) inverse[i] = 1 / sqrt(sum);
      r[i * n + j] = r[j * n + i] = -(i == j ? sqrt(sum) : sum * inverse[i]);
    }
}

/* c := R^-T s R^-1 by its definition. */
static void plain_whiten(size_t n, const kf_factor *f, const double *s, double *c) {
  AUTOFREE double *left = calloc(n * n, sizeof *left);
  for (int side = 0; side < 2; side++) {
    const double *from = side == 0 ? s : left;
    double *to = side == 0 ? left : c;
    for (size_t i = 0; i < n; i++)
      for (size_t j = 0; j < n; j++) {
        double sum = side == 0 ? from[i * n + j] : from[j * n + i];
        for (size_t k = 0; k < i; k++) sum = fma(f->r[k * n + i], to[k * n + j], sum);
        to[i * n + j] = sum * f->inverse[i];
      }
  }
  for (size_t i = 0; i < n; i++) /* rounded as in the upper triangle */
    for (size_t j = 0; j < i; j++) c[i * n + j] = c[j * n + i];
}

typedef struct problem {
  size_t n;
  double *a, *s;        /* to factorize, to whiten */
  kf_factor f;          /* by definition */
  double *c, *identity; /* whitened s; I */
} problem;

static problem make_problem(size_t n, double span) {
  size_t size = n * n * sizeof(double);
  problem p = {.n = n, .a = make_scatter(n, span, n), .s = make_scatter(n, 3, n + 1)};
  p.f = (kf_factor){.n = n, .r = malloc(size), .inverse = malloc(n * sizeof(double))};
  p.c = malloc(size);
  p.identity = calloc(n * n, sizeof(double));
  for (size_t i = 0; i < n; i++) p.identity[i * n + i] = 1;
  plain_factor(n, p.a, p.f.r, p.f.inverse);
  plain_whiten(n, &p.f, p.s, p.c);
  return p;
}

static void free_problem(problem *p) {
  free(p->a);
  free(p->s);
  free(p->f.r);
  free(p->f.inverse);
  free(p->c);
  free(p->identity);
}
AUTO_STRUCT(problem, free_problem)

/* R^-1 twice over: R^-1 R^-T A = I, and the bits of the definition. */
static void check_factor(kf_ctx *ctx, const problem *p, double *first_inverse) {
  size_t n = p->n, size = n * n * sizeof(double);
  double *work = malloc(size), *c = malloc(size), *workspace = malloc(size);
  kf_factor f = {.n = n, .r = malloc(size), .inverse = malloc(n * sizeof(double))};
  bool good = false;
  memcpy(work, p->a, size);
  for (size_t i = 0; i < n; i++) /* the lower triangle is not read */
    for (size_t j = 0; j < i; j++) work[i * n + j] = NAN;
  assert_ok(ctx, kf_factorize(ctx, work, 0, &f, &good));
  assert_true(good);
  assert_memory_equal(f.r, p->f.r, size);
  assert_memory_equal(f.inverse, p->f.inverse, n * sizeof(double));
  assert_ok(ctx, kf_whiten(ctx, &f, p->s, workspace, c));
  assert_memory_equal(c, p->c, size);
  assert_ok(ctx, kf_whiten(ctx, &f, p->a, workspace, c)); /* A itself becomes I */
  for (size_t i = 0; i < n * n; i++) assert_true(fabs(c[i] - p->identity[i]) < 1e-10);
  memcpy(c, p->identity, size);
  assert_ok(ctx, kf_unwhiten(ctx, &f, n, c));
  if (isnan(first_inverse[0])) memcpy(first_inverse, c, size);
  assert_memory_equal(first_inverse, c, size); /* whoever computes it */
  for (size_t i = 0; i < n; i++)               /* R R^-1 = I */
    for (size_t j = 0; j < n; j++) {
      double sum = 0;
      for (size_t k = i; k < n; k++) sum -= f.r[i * n + k] * c[k * n + j];
      assert_true(fabs(sum - (i == j)) < 1e-11);
      assert_true(i <= j || c[i * n + j] == 0);
    }
  memcpy(c, first_inverse, size);
  double *few = malloc(n * 3 * sizeof *few); /* columns do not depend on their number */
  for (size_t i = 0; i < n; i++)
    for (size_t j = 0; j < 3; j++) few[i * 3 + j] = p->identity[i * n + (j < n ? j : n - 1)];
  assert_ok(ctx, kf_unwhiten(ctx, &f, 3, few));
  for (size_t i = 0; i < n; i++) assert_true(few[i * 3 + 2] == c[i * n + (n > 2 ? 2 : n - 1)]);
  free(few);
  free(work);
  free(c);
  free(workspace);
  free(f.r);
  free(f.inverse);
}

TEST(factors) {
  const size_t sizes[] = {1, 2, 7, 24, 25, 48, 49, 100, 211};
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
    AUTO(problem) p = make_problem(sizes[s], 10);
    AUTOFREE double *inverse = malloc(p.n * p.n * sizeof *inverse);
    inverse[0] = (double)NAN;
    for (int isa = KF_ISA_PLAIN; isa <= KF_ISA_AMX; isa++)
      for (unsigned threads = 1; threads <= 3 && test_has_isa((kf_isa)isa); threads++) {
        AUTO(kf_ctx) *ctx = test_ctx(threads, (kf_isa)isa);
        check_factor(ctx, &p, inverse);
      }
  }
}

/* A pivot at the bound or below, wherever it is, and NaN. */
TEST(bad_pivots) {
  enum { N = 60 };
  AUTO(kf_ctx) *ctx = test_ctx(2, KF_ISA_AUTO);
  double a[N * N], r[N * N], inverse[N];
  const double bad[] = {-1, 0, 0x1p-30, (double)NAN};
  kf_factor f = {.n = N, .r = r, .inverse = inverse};
  for (size_t at = 0; at < N; at += 7)
    for (size_t b = 0; b < sizeof bad / sizeof *bad + 1; b++) {
      bool good;
      for (size_t i = 0; i < (size_t)N * N; i++) a[i] = i % (N + 1) == 0;
      a[at * N + at] = b < sizeof bad / sizeof *bad ? bad[b] : 0x1.00001p-30;
      assert_ok(ctx, kf_factorize(ctx, a, 0x1p-30, &f, &good));
      assert_true(good == (b == sizeof bad / sizeof *bad));
    }
}

/* --- the two ways ---------------------------------------------------------------------------- */

/* Rows in three classes whose columns fall in size by 1e4. */
static kf_stats *make_stats(kf_ctx *ctx, uint32_t dim, uint64_t rows) {
  AUTOFREE float *x = malloc(rows * dim * sizeof *x);
  AUTOFREE int32_t *labels = malloc(rows * sizeof *labels);
  uint64_t seed = 5;
  for (uint64_t i = 0; i < rows; i++) {
    labels[i] = (int32_t)(i % 7);
    for (uint32_t d = 0; d < dim; d++)
      x[i * dim + d] = (float)((test_normal(&seed) + 0.3 * sin((double)(labels[i] * 31 + (int)d))) *
                               pow(1e4, -(double)d / dim));
  }
  AUTO(kf_data) *data = NULL;
  kf_stats *stats;
  kf_stats_options raw = {.normalize = KF_OFF};
  assert_ok(ctx, kf_data_open_memory(ctx, x, rows, dim, labels, NULL, 7, &data));
  assert_ok(ctx, kf_stats_new_from_data(ctx, data, &raw, &stats));
  return stats;
}

/* T of the curve, U diag(scale) V, up to signs. */
static void map_of_curve(const kf_fitter *f, double *t) {
  size_t n = f->dim;
  memset(t, 0, n * n * sizeof *t);
  for (size_t l = 0; l < n; l++)
    for (size_t k = 0; k < n; k++)
      for (size_t i = 0; i < n; i++)
        t[l * n + i] += f->u[l * n + k] * f->scale[k] * f->vectors[k * n + i];
}

/* The factor whitens as well as eigenvectors do, however little lambda helps, and both find the
 * same gamma; with columns as different as S_w has them before they are scaled. */
TEST(two_ways) {
  enum { D = 64 };
  AUTO(kf_ctx) *ctx = test_ctx(2, KF_ISA_AUTO);
  AUTO(kf_stats) *stats = make_stats(ctx, D, 400);
  double *s_w = malloc(sizeof(double[D * D])), *t = malloc(sizeof(double[D * D])), gamma[D];
  const double relative[] = {1e-12, 1e-9, 1e-7, 1e-5, 1e-3, 0.3, 30, 1e6};
  for (size_t i = 0; i < sizeof relative / sizeof *relative; i++) {
    AUTO(kf_fitter) *fitter = NULL;
    AUTO(kf_model) *m = NULL;
    double lambda;
    assert_ok(ctx, kf_stats_scatter(ctx, stats, s_w, NULL, NULL));
    assert_ok(ctx, kf_fitter_new(ctx, stats, NULL, KF_METHOD_PAPER, &fitter));
    assert_ok(ctx, kf_fitter_lambda(fitter, (kf_lambda){relative[i], KF_LAMBDA_RELATIVE}, &lambda));
    assert_ok(ctx, kf_fitter_directions_at(fitter, lambda, true));
    memcpy(gamma, fitter->gamma, sizeof gamma);
    map_of_curve(fitter, t);
    for (size_t d = 0; d < D; d++) s_w[d * D + d] += lambda;
    double by_vectors = off_diagonal(t, s_w, D, D, NULL);
    assert_ok(ctx, kf_fitter_fit(fitter, (kf_lambda){lambda, KF_LAMBDA_ABSOLUTE}, 0,
                                 KF_CENTRE_DEFAULT, &m));
    double by_factor = off_diagonal(m->map.transform, s_w, D, D, NULL);
    assert_true(by_factor < 4 * by_vectors + 1e-13);
    for (size_t d = 0; d < D; d++)
      assert_true(fabs(m->between[d] - gamma[d]) < 1e-12 * gamma[0] + by_vectors * gamma[d]);
    /* The model's way in the basis of V: T is the same but for signs. */
    assert_ok(ctx, kf_fitter_directions_at(fitter, lambda, false));
    map_of_curve(fitter, t);
    for (size_t l = 0; l < D; l++) {
      double size = 0, plus = 0, minus = 0;
      for (size_t d = 0; d < D; d++) {
        double a = t[l * D + d], b = m->map.transform[l * D + d];
        size = fmax(size, fabs(b));
        plus = fmax(plus, fabs(a - b));
        minus = fmax(minus, fabs(a + b));
      }
      assert_true(fmin(plus, minus) < 1e-8 * size);
    }
  }
  free(s_w);
  free(t);
}

/* Earlier calls on a fitter change no bit of a model or of the spectrum in it. */
TEST(whatever_came_before) {
  enum { D = 40 };
  AUTO(kf_ctx) *ctx = test_ctx(2, KF_ISA_AUTO);
  AUTO(kf_stats) *stats = make_stats(ctx, D, 300);
  const double relative[] = {0, 1e-11, 0.3}; /* eigenvectors, eigenvectors, a factor */
  for (size_t i = 0; i < sizeof relative / sizeof *relative; i++) {
    kf_model *first = NULL, *m;
    kf_lambda lambda = {relative[i], KF_LAMBDA_RELATIVE};
    for (int before = 0; before < 6; before++) {
      AUTO(kf_fitter) *fitter = NULL;
      double value, unit;
      assert_ok(ctx, kf_fitter_new(ctx, stats, NULL, KF_METHOD_SHRUNK, &fitter));
      unit = fitter->mean_eigenvalue;
      value = relative[i] * unit;
      if (before == 1) assert_ok(ctx, kf_fitter_decompose_within(fitter));
      if (before == 2) assert_ok(ctx, kf_fitter_directions_at(fitter, value, true));
      if (before == 3) assert_ok(ctx, kf_fitter_directions_at(fitter, value, false));
      if (before == 4) assert_ok(ctx, kf_fitter_directions_at(fitter, 2 * unit, true));
      if (before == 5) assert_ok(ctx, kf_fitter_rotate_between(fitter));
      assert_ok(ctx, kf_fitter_fit(fitter, lambda, 0, KF_CENTRE_DEFAULT, &m));
      if (first == NULL) {
        first = m;
      } else {
        assert_memory_equal(first->map.transform, m->map.transform, sizeof(double[D * D]));
        assert_memory_equal(first->map.transposed, m->map.transposed, sizeof(double[D * D]));
        assert_memory_equal(first->between, m->between, sizeof(double[D]));
        assert_memory_equal(first->within, m->within, sizeof(double[D]));
        kf_model_free(m);
      }
    }
    kf_model_free(first);
  }
}
