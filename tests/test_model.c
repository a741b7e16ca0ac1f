/* test_model.c - the fit does what the mathematics says, with the same bits everywhere. */
#include "test.h"

#include "model/model.h"

#include <math.h>

/* --- helpers
 * -------------------------------------------------------------------------------------- */

/* Rows of k classes with anisotropic noise, class i at i mod k. */
typedef struct world {
  uint32_t dim, classes;
  uint64_t n;
  float *rows;
  int32_t *labels;
} world;

static world make_world(uint64_t n, uint32_t dim, uint32_t classes, double decades, uint64_t seed) {
  world w = {.dim = dim, .classes = classes, .n = n};
  w.rows = malloc(n * dim * sizeof *w.rows);
  w.labels = malloc(n * sizeof *w.labels);
  double *centre = malloc((size_t)classes * dim * sizeof *centre);
  for (size_t i = 0; i < (size_t)classes * dim; i++) centre[i] = 0.3 * test_normal(&seed);
  for (uint64_t i = 0; i < n; i++) {
    w.labels[i] = (int32_t)(i % classes);
    for (uint32_t j = 0; j < dim; j++) {
      double sigma = pow(10, -decades / 2 * j / (dim > 1 ? dim - 1 : 1));
      double at = centre[(size_t)w.labels[i] * dim + j] * sigma;
      w.rows[i * dim + j] = (float)(at + sigma * test_normal(&seed) + (j == 0 ? 4 : 0));
    }
  }
  free(centre);
  return w;
}

/* Turns all rows by one dense orthogonal matrix, so that no column is an axis of the noise. */
static void mix(world *w, uint64_t seed) {
  double *u = malloc(w->dim * sizeof *u);
  for (int reflection = 0; reflection < 3; reflection++) {
    double norm2 = 0;
    for (uint32_t j = 0; j < w->dim; j++) {
      u[j] = test_normal(&seed);
      norm2 += u[j] * u[j];
    }
    for (uint64_t i = 0; i < w->n; i++) {
      float *x = w->rows + i * w->dim;
      double dot = 0;
      for (uint32_t j = 0; j < w->dim; j++) dot += u[j] * (double)x[j];
      for (uint32_t j = 0; j < w->dim; j++) x[j] = (float)((double)x[j] - 2 * dot / norm2 * u[j]);
    }
  }
  free(u);
}

static void free_world(world *w) {
  free(w->rows);
  free(w->labels);
}

static kf_stats *stats_of(kf_ctx *ctx, const world *w, int raw) {
  kf_data *data;
  kf_stats *s;
  assert_ok(ctx,
            kf_data_open_memory(ctx, w->rows, w->n, w->dim, w->labels, NULL, w->classes, &data));
  assert_ok(ctx, kf_stats_new_from_data(ctx, data, &(kf_stats_options){.no_normalize = raw}, &s));
  kf_data_free(data);
  return s;
}

static kf_model *fit(kf_ctx *ctx, const kf_stats *s, double lambda, uint32_t dim) {
  kf_model *m;
  kf_fit_options options = {.lambda = {lambda, KF_LAMBDA_RELATIVE}, .dim = dim};
  assert_ok(ctx, kf_fit(ctx, s, &options, &m));
  return m;
}

/* The largest |(A S A^T)_ij - diagonal_i| for rows of A [l][d]; diagonal NULL: ones. */
static double off_diagonal(const double *a, const double *s, uint32_t l, uint32_t d,
                           const double *diagonal) {
  double *product = calloc((size_t)l * d, sizeof *product), worst = 0;
  for (size_t i = 0; i < l; i++)
    for (size_t k = 0; k < d; k++)
      for (size_t j = 0; j < d; j++) product[i * d + j] += a[i * d + k] * s[k * d + j];
  for (size_t i = 0; i < l; i++)
    for (size_t j = 0; j < l; j++) {
      double sum = 0, want = i != j ? 0 : diagonal != NULL ? diagonal[i] : 1;
      for (size_t k = 0; k < d; k++) sum += product[i * d + k] * a[j * d + k];
      worst = fmax(worst, fabs(sum - want));
    }
  free(product);
  return worst;
}

/* --- the eigensolver
 * -------------------------------------------------------------------------------- */

static void check_eigen(uint32_t n, const double *a) {
  kf_ctx *one = test_ctx(1, KF_ISA_PLAIN);
  double *copy = malloc((size_t)n * n * sizeof *copy), *v = malloc((size_t)n * n * sizeof *v);
  double *values = malloc(n * sizeof *values), *product = malloc(n * sizeof *product);
  memcpy(copy, a, (size_t)n * n * sizeof *copy);
  assert_ok(one, kf_eigen(one, n, copy, values, v));
  double scale = 1e-300;
  for (size_t i = 0; i < (size_t)n * n; i++) scale = fmax(scale, fabs(a[i]));
  for (size_t i = 0; i < n; i++) {
    for (size_t r = 0; r < n; r++) { /* A v = value v */
      double sum = 0;
      for (size_t c = 0; c < n; c++) sum += a[r * n + c] * v[i * n + c];
      assert_true(fabs(sum - values[i] * v[i * n + r]) < 4e-15 * n * scale);
    }
    for (size_t j = 0; j <= i; j++) { /* v orthonormal */
      double sum = 0;
      for (size_t c = 0; c < n; c++) sum += v[i * n + c] * v[j * n + c];
      assert_true(fabs(sum - (i == j)) < 4e-15 * n);
    }
    assert_true(i == 0 || values[i] <= values[i - 1]);
  }
  /* The same bits with threads and vectors. */
  double *v2 = malloc((size_t)n * n * sizeof *v2), *values2 = malloc(n * sizeof *values2);
  for (int isa = KF_ISA_AVX2; isa <= KF_ISA_AMX; isa++) {
    if (!kf_isa_available((kf_isa)isa)) continue;
    kf_ctx *ctx = test_ctx(3, (kf_isa)isa);
    memcpy(copy, a, (size_t)n * n * sizeof *copy);
    assert_ok(ctx, kf_eigen(ctx, n, copy, values2, v2));
    assert_memory_equal(values, values2, n * sizeof *values);
    assert_memory_equal(v, v2, (size_t)n * n * sizeof *v);
    kf_ctx_free(ctx);
  }
  free(copy);
  free(v);
  free(v2);
  free(values);
  free(values2);
  free(product);
  kf_ctx_free(one);
}

static void eigen_random(void **state) {
  (void)state;
  const uint32_t sizes[] = {1, 2, 3, 8, 9, 65, 150};
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
    uint32_t n = sizes[s];
    double *a = malloc((size_t)n * n * sizeof *a);
    uint64_t seed = s;
    for (size_t i = 0; i < n; i++)
      for (size_t j = 0; j <= i; j++) a[i * n + j] = a[j * n + i] = test_normal(&seed);
    check_eigen(n, a);
    free(a);
  }
}

/* Matrices on which eigensolvers stumble. */
static void eigen_special(void **state) {
  (void)state;
  enum { n = 60 };
  static double a[n * n];
  memset(a, 0, sizeof a);
  check_eigen(n, a); /* zero */
  for (size_t i = 0; i < n; i++) a[i * n + i] = 1;
  check_eigen(n, a); /* identity: one eigenvalue, sixty times */
  for (size_t i = 0; i < n; i++)
    for (size_t j = 0; j < n; j++) a[i * n + j] = 1e-200;
  check_eigen(n, a); /* rank one, tiny */
  for (size_t i = 0; i < n; i++)
    for (size_t j = 0; j < n; j++) a[i * n + j] = (i < 20 ? 1e-8 : 1) * (j < 20 ? 1e-8 : 1);
  check_eigen(n, a); /* rank one with components of 1e-8 */
  for (size_t i = 0; i < n; i++)
    for (size_t j = 0; j < n; j++) a[i * n + j] = pow(1e-5, (double)(i + j)) * (i == j ? 2 : 1);
  check_eigen(n, a); /* graded over six hundred decades */
  for (size_t i = 0; i < n; i++)
    for (size_t j = 0; j < n; j++) a[i * n + j] = 1.0 / (double)(i + j + 1);
  check_eigen(n, a); /* Hilbert: graded over eighteen decades */
  memset(a, 0, sizeof a);
  for (size_t i = 0; i < n; i++) {
    a[i * n + i] = fabs((double)i - 29.5);
    if (i > 0) a[i * n + i - 1] = a[(i - 1) * n + i] = 1;
  }
  check_eigen(n, a); /* Wilkinson: pairs of nearly equal eigenvalues */
  for (size_t i = 0; i < n; i++)
    for (size_t j = 0; j < n; j++) a[i * n + j] = (i % 7 == j % 7) ? 1e150 : 0;
  check_eigen(n, a); /* huge, rank seven, exact multiplicities */
}

/* --- the fit
 * ------------------------------------------------------------------------------------------ */

static void check_identities(double lambda, uint32_t classes, uint64_t n) {
  kf_ctx *ctx = test_ctx(2, KF_ISA_AUTO);
  world w = make_world(n, 48, classes, 3, 5);
  kf_stats *s = stats_of(ctx, &w, 0);
  uint32_t d = w.dim;
  double *s_w = malloc((size_t)d * d * sizeof *s_w), *s_b = malloc((size_t)d * d * sizeof *s_b);
  assert_ok(ctx, kf_stats_scatter(ctx, s, s_w, s_b, NULL));
  kf_model *m = fit(ctx, s, lambda, 0);
  for (size_t i = 0; i < d; i++) s_w[i * d + i] += m->lambda;
  const double *t = kf_model_transform_matrix(m);
  assert_true(off_diagonal(t, s_w, d, d, NULL) < 1e-9);
  assert_true(off_diagonal(t, s_b, d, d, kf_model_between_eigenvalues(m)) <
              1e-9 * fmax(1, kf_model_between_eigenvalues(m)[0]));
  for (uint32_t i = classes - 1; i < d; i++) /* the rank of S_b is at most K - 1 */
    assert_true(kf_model_between_eigenvalues(m)[i] <= 1e-9 * kf_model_between_eigenvalues(m)[0]);
  /* A smaller model is the first rows of the whole one, to the bit. */
  for (uint32_t l = 1; l < d; l += 13) {
    kf_model *small = fit(ctx, s, lambda, l);
    assert_int_equal(kf_model_dim_out(small), l);
    assert_memory_equal(kf_model_transform_matrix(small), t, (size_t)l * d * sizeof *t);
    kf_model_free(small);
  }
  for (uint32_t l = 0; l < d; l++) { /* signs */
    double largest = 0;
    for (uint32_t j = 0; j < d; j++)
      if (fabs(t[l * d + j]) > fabs(largest)) largest = t[l * d + j];
    assert_true(largest > 0);
  }
  free(s_w);
  free(s_b);
  kf_model_free(m);
  kf_stats_free(s);
  free_world(&w);
  kf_ctx_free(ctx);
}

static void identities(void **state) {
  (void)state;
  check_identities(0.3, 10, 3000);
  check_identities(0, 10, 3000);     /* full rank needs no regulariser */
  check_identities(1e-6, 100, 2000); /* more classes than dimensions */
  check_identities(0.1, 5, 30);      /* fewer rows than dimensions */
}

static void same_bits_everywhere(void **state) {
  (void)state;
  world w = make_world(2000, 70, 12, 4, 8);
  const char *folder = test_folder();
  char first[512], other[512];
  snprintf(first, sizeof first, "%s/first.safetensors", folder);
  snprintf(other, sizeof other, "%s/other.safetensors", folder);
  int n = 0;
  for (int isa = KF_ISA_PLAIN; isa <= KF_ISA_AMX; isa++)
    for (unsigned threads = 1; threads <= 3; threads++) {
      if (!kf_isa_available((kf_isa)isa)) continue;
      kf_ctx *ctx = test_ctx(threads, (kf_isa)isa);
      kf_stats *s = stats_of(ctx, &w, 0);
      kf_model *m = fit(ctx, s, 0.3, 20);
      assert_ok(ctx, kf_model_save(ctx, m, n == 0 ? first : other));
      if (n++ > 0) assert_same_file(first, other);
      kf_model_free(m);
      kf_stats_free(s);
      kf_ctx_free(ctx);
    }
  test_remove(folder);
  free_world(&w);
}

/* --- singular and degenerate
 * ----------------------------------------------------------------------------- */

static void singular(void **state) {
  (void)state;
  kf_ctx *ctx = test_ctx(2, KF_ISA_AUTO);
  world w = make_world(30, 48, 5, 1, 3); /* rank at most 30 - 5 */
  kf_stats *s = stats_of(ctx, &w, 0);
  kf_model *m;
  kf_fit_options zero = {.lambda = {0, KF_LAMBDA_ABSOLUTE}};
  assert_error(ctx, KF_ERR_MATH, "rank 25 of 48", kf_fit(ctx, s, &zero, &m));
  /* The lambda that the message proposes works. */
  double proposed = 0;
  assert_int_equal(sscanf(strstr(kf_errmsg(ctx), "above 0; "), "above 0; %lf", &proposed), 1);
  kf_fit_options small = {.lambda = {proposed, KF_LAMBDA_ABSOLUTE}};
  assert_ok(ctx, kf_fit(ctx, s, &small, &m));
  kf_model_free(m);
  kf_stats_free(s);
  free_world(&w);
  kf_ctx_free(ctx);
}

/* Any lambda above 0 gives a model that can be saved, loaded and used. A huge one makes the map a
 * rotation, which leaves the answers of the original space; tiny ones all agree. */
static void any_lambda(void **state) {
  (void)state;
  kf_ctx *ctx = test_ctx(2, KF_ISA_AUTO);
  world w = make_world(60, 96, 20, 2, 3); /* rank 40 of 96 */
  kf_stats *s = stats_of(ctx, &w, 0);
  const double values[] = {1e-300, 1e-100, 1e-62, 1e-30, 1e-12, 1, 1e30, 1e100, 1e300};
  const char *folder = test_folder(), *path = test_path(folder, "m.safetensors");
  int32_t raw[60], found[60], tiny[60];
  for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
    kf_model *m, *back;
    kf_fit_options options = {.lambda = {values[v], KF_LAMBDA_ABSOLUTE}};
    assert_ok(ctx, kf_fit(ctx, s, &options, &m));
    assert_ok(ctx, kf_model_save(ctx, m, path));
    assert_ok(ctx, kf_model_load(ctx, path, &back));
    assert_ok(ctx, kf_classify(ctx, back, w.rows, w.n, NULL, found, NULL));
    assert_ok(ctx,
              kf_classify(ctx, back, w.rows, w.n, &(kf_classify_options){.raw = 1}, raw, NULL));
    if (v == 0) memcpy(tiny, found, sizeof tiny);
    if (values[v] < 1e-50) assert_memory_equal(found, tiny, sizeof tiny);
    if (values[v] > 1e20) assert_memory_equal(found, raw, sizeof raw);
    kf_classify_options euclidean = {.metric = KF_METRIC_EUCLIDEAN};
    kf_status status = kf_classify(ctx, back, w.rows, w.n, &euclidean, found, NULL);
    if (values[v] < 1e-90 || values[v] > 1e90) /* lengths do not fit f32 there, and that is said */
      assert_int_equal(status, KF_ERR_MATH);
    kf_model_free(m);
    kf_model_free(back);
  }
  kf_model *m;
  kf_fit_options denormal = {.lambda = {5e-324, KF_LAMBDA_ABSOLUTE}};
  assert_error(ctx, KF_ERR_MATH, "too small", kf_fit(ctx, s, &denormal, &m));
  kf_fit_options unit = {.lambda = {1, (kf_lambda_unit)9}};
  assert_error(ctx, KF_ERR_ARG, "choices", kf_fit(ctx, s, &unit, &m));
  test_remove(folder);
  kf_stats_free(s);
  free_world(&w);
  kf_ctx_free(ctx);
}

/* Rows that are equal within their classes have no scatter at all, not a little rounding noise. */
static void equal_rows(void **state) {
  (void)state;
  kf_ctx *ctx = test_ctx(2, KF_ISA_AUTO);
  for (uint64_t times = 1; times <= 8; times++) {
    world w = make_world(50 * times, 32, 50, 1, times);
    for (uint64_t i = 50; i < w.n; i++)
      memcpy(w.rows + i * 32, w.rows + i % 50 * 32, 32 * sizeof *w.rows);
    kf_stats *s = stats_of(ctx, &w, 0);
    kf_model *m;
    assert_error(ctx, KF_ERR_MATH, "zero", kf_fit(ctx, s, NULL, &m));
    kf_stats_free(s);
    free_world(&w);
  }
  kf_ctx_free(ctx);
}

static void one_row_a_class(void **state) {
  (void)state;
  kf_ctx *ctx = test_ctx(1, KF_ISA_AUTO);
  world w = make_world(20, 16, 20, 1, 3);
  kf_stats *s = stats_of(ctx, &w, 0);
  kf_model *m;
  assert_error(ctx, KF_ERR_MATH, "absolute", kf_fit(ctx, s, NULL, &m)); /* 0.3 times zero */
  kf_fit_options options = {.lambda = {2.0, KF_LAMBDA_ABSOLUTE}};
  assert_ok(ctx, kf_fit(ctx, s, &options, &m)); /* T is a rotation over sqrt(lambda) */
  double identity[16 * 16] = {0};
  for (int i = 0; i < 16; i++) identity[i * 17] = 2.0;
  assert_true(off_diagonal(kf_model_transform_matrix(m), identity, 16, 16, NULL) < 1e-12);
  kf_model_free(m);
  kf_stats_free(s);
  free_world(&w);
  kf_ctx_free(ctx);
}

static void empty_and_single_classes(void **state) {
  (void)state;
  kf_ctx *ctx = test_ctx(1, KF_ISA_AUTO);
  world w = make_world(400, 12, 4, 1, 3);
  for (uint64_t i = 0; i < w.n; i++) w.labels[i] = w.labels[i] == 2 ? 5 : w.labels[i];
  w.classes = 7; /* classes 2, 4 and 6 are empty */
  kf_stats *s = stats_of(ctx, &w, 0);
  kf_model *m = fit(ctx, s, 0.3, 0);
  assert_int_equal(kf_model_classes(m), 7);
  assert_int_equal(kf_model_count(m, 2), 0);
  int32_t found[400 * 4];
  assert_ok(ctx, kf_classify(ctx, m, w.rows, w.n, &(kf_classify_options){.top = 4}, found, NULL));
  for (size_t i = 0; i < 400 * 4; i++) /* empty classes are never an answer */
    assert_true(found[i] == 0 || found[i] == 1 || found[i] == 3 || found[i] == 5);
  assert_error(ctx, KF_ERR_ARG, "the model has 4",
               kf_classify(ctx, m, w.rows, 1, &(kf_classify_options){.top = 5}, found, NULL));
  kf_model_free(m);
  kf_stats_free(s);
  for (uint64_t i = 0; i < w.n; i++) w.labels[i] = 3;
  s = stats_of(ctx, &w, 0);
  assert_error(ctx, KF_ERR_MATH, "at least two classes", kf_fit(ctx, s, NULL, &m));
  assert_error(ctx, KF_ERR_ARG, "13 dimensions", kf_fit(ctx, s, &(kf_fit_options){.dim = 13}, &m));
  kf_stats_free(s);
  free_world(&w);
  kf_ctx_free(ctx);
}

/* The paper's trouble: sums in float32 make S_w indefinite. Ours stay positive down to lambda = 0.
 */
static void nine_decades(void **state) {
  (void)state;
  enum { d = 64, classes = 10, n = 200000 };
  kf_ctx *ctx = test_ctx(2, KF_ISA_AUTO);
  world w = make_world(n, d, classes, 9.6, 77);
  mix(&w, 78);
  kf_stats *s = stats_of(ctx, &w, 0);
  kf_model *m;
  assert_ok(ctx, kf_fit(ctx, s, &(kf_fit_options){.lambda = {0, KF_LAMBDA_ABSOLUTE}}, &m));
  const double *ours = kf_model_within_eigenvalues(m);
  assert_true(ours[0] / ours[d - 1] > 1e9); /* nine decades indeed */
  for (int i = 0; i < d; i++) assert_true(ours[i] > 0);

  /* The same rows, normalised and summed in float32: S_w = sum x x^T - sum n mu mu^T. */
  static float moment[d * d], sum[classes * d];
  static double s_w[d * d], values[d], vectors[d * d];
  memset(moment, 0, sizeof moment);
  memset(sum, 0, sizeof sum);
  for (uint64_t i = 0; i < n; i++) {
    float x[d], norm2 = 0;
    for (int j = 0; j < d; j++) norm2 += w.rows[i * d + (uint64_t)j] * w.rows[i * d + (uint64_t)j];
    for (int j = 0; j < d; j++) x[j] = w.rows[i * d + (uint64_t)j] / sqrtf(norm2);
    for (int p = 0; p < d; p++) {
      sum[w.labels[i] * d + p] += x[p];
      for (int q = 0; q < d; q++) moment[p * d + q] += x[p] * x[q];
    }
  }
  for (int p = 0; p < d; p++)
    for (int q = 0; q < d; q++) {
      float between = 0;
      for (int k = 0; k < classes; k++) between += sum[k * d + p] * sum[k * d + q] / (n / classes);
      s_w[p * d + q] = (double)(moment[p * d + q] - between);
    }
  for (int p = 0; p < d; p++)
    for (int q = 0; q < p; q++) s_w[p * d + q] = s_w[q * d + p];
  assert_ok(ctx, kf_eigen(ctx, d, s_w, values, vectors));
  int negative = 0;
  for (int i = 0; i < d; i++) negative += values[i] < 0;
  print_message("    float32 sums: %d negative eigenvalues of %d; exact sums: none, ratio %.1e\n",
                negative, d, ours[0] / ours[d - 1]);
  assert_true(negative > 0);
  kf_model_free(m);
  kf_stats_free(s);
  free_world(&w);
  kf_ctx_free(ctx);
}

/* --- two statistics, centring, another class
 * ---------------------------------------------------------------- */

static void two_statistics(void **state) {
  (void)state;
  kf_ctx *ctx = test_ctx(2, KF_ISA_AUTO);
  world a = make_world(900, 24, 6, 2, 1), b = make_world(800, 24, 9, 2, 2);
  kf_stats *s = stats_of(ctx, &a, 0), *t = stats_of(ctx, &b, 0);
  kf_model *m;
  assert_ok(ctx, kf_fit(ctx, s, &(kf_fit_options){.between = t}, &m));
  assert_int_equal(kf_model_classes(m), 9); /* prototypes are those of S_b's classes */
  double s_w[24 * 24], s_b[24 * 24];
  assert_ok(ctx, kf_stats_scatter(ctx, s, s_w, NULL, NULL));
  assert_ok(ctx, kf_stats_scatter(ctx, t, NULL, s_b, NULL));
  for (int i = 0; i < 24; i++) s_w[i * 25] += kf_model_lambda(m);
  assert_true(off_diagonal(kf_model_transform_matrix(m), s_w, 24, 24, NULL) < 1e-9);
  assert_true(off_diagonal(kf_model_transform_matrix(m), s_b, 24, 24,
                           kf_model_between_eigenvalues(m)) < 1e-9);
  kf_model_free(m);
  kf_stats *raw = stats_of(ctx, &b, 1);
  assert_error(ctx, KF_ERR_DATA, "do not go together",
               kf_fit(ctx, s, &(kf_fit_options){.between = raw}, &m));
  kf_stats_free(s);
  kf_stats_free(t);
  kf_stats_free(raw);
  free_world(&a);
  free_world(&b);
  kf_ctx_free(ctx);
}

/* z = T (x / |x| - mean), by the book. */
static void map_by_hand(const kf_model *m, const float *x, int centred, double *z) {
  double norm2 = 0;
  for (uint32_t j = 0; j < m->dim_in; j++) norm2 += (double)x[j] * (double)x[j];
  for (uint32_t l = 0; l < m->dim_out; l++) {
    z[l] = 0;
    for (uint32_t j = 0; j < m->dim_in; j++)
      z[l] += m->transform[l * m->dim_in + j] *
              ((double)x[j] / sqrt(norm2) - (centred ? m->mean[j] : 0));
  }
}

static void transform_rows(void **state) {
  (void)state;
  kf_ctx *ctx = test_ctx(2, KF_ISA_AUTO);
  world w = make_world(333, 40, 6, 2, 1);
  kf_stats *s = stats_of(ctx, &w, 0);
  for (int centred = 0; centred < 2; centred++) {
    kf_model *m;
    kf_fit_options options = {.dim = 17, .centre = centred ? KF_CENTRE_MEAN : KF_CENTRE_NONE};
    assert_ok(ctx, kf_fit(ctx, s, &options, &m));
    float *unit = malloc(w.n * 17 * sizeof *unit), *whole = malloc(w.n * 17 * sizeof *whole);
    assert_ok(ctx, kf_transform(ctx, m, w.rows, w.n, NULL, unit));
    assert_ok(ctx,
              kf_transform(ctx, m, w.rows, w.n, &(kf_transform_options){.no_normalize = 1}, whole));
    for (uint64_t i = 0; i < w.n; i++) {
      double z[17], norm2 = 0;
      map_by_hand(m, w.rows + i * w.dim, centred, z);
      for (int l = 0; l < 17; l++) norm2 += z[l] * z[l];
      for (uint64_t l = 0; l < 17; l++) {
        assert_true(fabs((double)whole[i * 17 + l] - z[l]) < 1e-6 * sqrt(norm2));
        assert_true(fabs((double)unit[i * 17 + l] - z[l] / sqrt(norm2)) < 1e-6);
      }
    }
    /* One row alone gives the bits it has in company. */
    float alone[17];
    assert_ok(ctx, kf_transform(ctx, m, w.rows + 200 * w.dim, 1, NULL, alone));
    assert_memory_equal(alone, unit + 200 * 17, sizeof alone);
    free(unit);
    free(whole);
    kf_model_free(m);
  }
  kf_stats_free(s);
  free_world(&w);
  kf_ctx_free(ctx);
}

static void classify_by_hand(kf_ctx *ctx, const kf_model *m, const world *w, kf_metric metric,
                             int raw) {
  int32_t *found = malloc(w->n * 3 * sizeof *found);
  double *scores = malloc(w->n * 3 * sizeof *scores);
  kf_classify_options options = {.top = 3, .metric = metric, .raw = raw};
  assert_ok(ctx, kf_classify(ctx, m, w->rows, w->n, &options, found, scores));
  uint32_t dim = raw ? m->dim_in : m->dim_out;
  for (uint64_t i = 0; i < w->n; i++) {
    double z[64], norm2 = 0, best = -1e300;
    const float *x = w->rows + i * w->dim;
    if (raw) {
      for (uint32_t j = 0; j < dim; j++) norm2 += (double)x[j] * (double)x[j];
      for (uint32_t j = 0; j < dim; j++) z[j] = (double)x[j] / sqrt(norm2);
    } else {
      map_by_hand(m, x, 0, z);
    }
    norm2 = 0;
    for (uint32_t j = 0; j < dim; j++) norm2 += z[j] * z[j];
    for (uint32_t k = 0; k < m->n_classes; k++) {
      const float *p = (raw ? m->class_means : m->prototypes) + (uint64_t)k * dim;
      double dot = 0, p2 = 0, distance2 = 0, length = raw ? 1 : m->lengths[k];
      for (uint32_t j = 0; j < dim; j++) {
        double y = (double)p[j] * length;
        dot += z[j] * y;
        p2 += y * y;
        distance2 += (z[j] - y) * (z[j] - y);
      }
      double score = metric == KF_METRIC_EUCLIDEAN ? -sqrt(distance2) : dot / sqrt(norm2 * p2);
      best = fmax(best, score);
    }
    double given = metric == KF_METRIC_EUCLIDEAN ? -scores[i * 3] : scores[i * 3];
    assert_true(fabs(given - best) < 1e-5 * fmax(1, fabs(best)));
    assert_true(found[i * 3] != found[i * 3 + 1] && found[i * 3 + 1] != found[i * 3 + 2]);
  }
  free(found);
  free(scores);
}

static void classify_rows(void **state) {
  (void)state;
  kf_ctx *ctx = test_ctx(2, KF_ISA_AUTO);
  world w = make_world(333, 40, 6, 2, 1);
  kf_stats *s = stats_of(ctx, &w, 0);
  kf_model *m = fit(ctx, s, 0.3, 20);
  for (int metric = KF_METRIC_COSINE; metric <= KF_METRIC_EUCLIDEAN; metric++)
    for (int raw = 0; raw < 2; raw++) classify_by_hand(ctx, m, &w, (kf_metric)metric, raw);
  kf_model_free(m);
  kf_stats_free(s);
  free_world(&w);
  kf_ctx_free(ctx);
}

/* Equal prototypes: the lower class number wins, everywhere in the list. */
static void ties_go_to_the_lower_class(void **state) {
  (void)state;
  kf_ctx *ctx = test_ctx(1, KF_ISA_AUTO);
  world w = make_world(240, 8, 4, 1, 9);
  for (uint64_t i = 0; i < w.n; i++) /* classes 4 + k and k have the same rows */
    w.labels[i] = (int32_t)(i / 4 % 2 * 4 + i % 4);
  for (uint64_t i = 0; i < w.n; i += 8)
    memcpy(w.rows + (i + 4) * w.dim, w.rows + i * w.dim, 4 * w.dim * sizeof *w.rows);
  w.classes = 8;
  kf_stats *s = stats_of(ctx, &w, 0);
  kf_model *m = fit(ctx, s, 0.3, 0);
  int32_t found[240 * 8];
  assert_ok(ctx, kf_classify(ctx, m, w.rows, w.n, &(kf_classify_options){.top = 8}, found, NULL));
  for (size_t i = 0; i < 240; i++)
    for (size_t t = 0; t < 8; t += 2) assert_int_equal(found[i * 8 + t] + 4, found[i * 8 + t + 1]);
  kf_model_free(m);
  kf_stats_free(s);
  free_world(&w);
  kf_ctx_free(ctx);
}

static void raw_norm_model(void **state) {
  (void)state;
  kf_ctx *ctx = test_ctx(2, KF_ISA_AUTO);
  world w = make_world(600, 20, 5, 1, 4);
  kf_stats *s = stats_of(ctx, &w, 1);
  kf_model *m = fit(ctx, s, 0.3, 0);
  assert_int_equal(kf_model_normalized(m), 0);
  float *out = malloc(w.n * 20 * sizeof *out);
  assert_ok(ctx,
            kf_transform(ctx, m, w.rows, w.n, &(kf_transform_options){.no_normalize = 1}, out));
  for (uint32_t l = 0; l < 20; l++) { /* rows are taken as they are: f(x) = T x */
    double z = 0;
    for (uint32_t j = 0; j < 20; j++) z += m->transform[l * 20 + j] * (double)w.rows[7 * 20 + j];
    assert_true(fabs((double)out[7 * 20 + l] - z) < 1e-5 * fmax(1, fabs(z)));
  }
  int32_t by_default[600], euclidean[600];
  assert_ok(ctx, kf_classify(ctx, m, w.rows, w.n, NULL, by_default, NULL));
  assert_ok(ctx,
            kf_classify(ctx, m, w.rows, w.n, &(kf_classify_options){.metric = KF_METRIC_EUCLIDEAN},
                        euclidean, NULL));
  assert_memory_equal(by_default, euclidean, sizeof euclidean);
  free(out);
  kf_model_free(m);
  kf_stats_free(s);
  free_world(&w);
  kf_ctx_free(ctx);
}

static void another_class(void **state) {
  (void)state;
  kf_ctx *ctx = test_ctx(2, KF_ISA_AUTO);
  world w = make_world(600, 20, 6, 1, 4);
  uint64_t kept = 0; /* fit without class 5 */
  float *left = malloc(w.n * 20 * sizeof *left);
  world few = {.dim = 20,
               .classes = 5,
               .rows = malloc(w.n * 20 * sizeof *few.rows),
               .labels = malloc(w.n * sizeof *few.labels)};
  for (uint64_t i = 0; i < w.n; i++) {
    if (w.labels[i] == 5) {
      memcpy(left + kept++ * 20, w.rows + i * 20, 20 * sizeof *left);
    } else {
      memcpy(few.rows + few.n * 20, w.rows + i * 20, 20 * sizeof *left);
      few.labels[few.n++] = w.labels[i];
    }
  }
  kf_stats *s = stats_of(ctx, &few, 0);
  kf_model *m = fit(ctx, s, 0.3, 10), *more;
  kf_data *samples;
  assert_ok(ctx, kf_data_open_memory(ctx, left, kept, 20, NULL, NULL, 0, &samples));
  assert_ok(ctx, kf_model_new_with_class(ctx, m, "new", samples, &more));
  assert_int_equal(kf_model_classes(more), 6);
  assert_string_equal(kf_model_class_name(more, 5), "new");
  assert_string_equal(kf_model_class_name(more, 0), "0");
  assert_int_equal(kf_model_count(more, 5), kept);
  assert_memory_equal(kf_model_transform_matrix(more), kf_model_transform_matrix(m),
                      10 * 20 * sizeof(double));
  /* Its mean is the one that statistics of everything give. */
  kf_stats *all = stats_of(ctx, &w, 0);
  kf_model *whole = fit(ctx, all, 0.3, 10);
  assert_memory_equal(kf_model_class_means(more) + 5 * 20, kf_model_class_means(whole) + 5 * 20,
                      20 * sizeof(float));
  kf_model *none;
  assert_error(ctx, KF_ERR_ARG, "'new' is already",
               kf_model_new_with_class(ctx, more, "new", samples, &none));
  kf_data_free(samples);
  kf_model_free(m);
  kf_model_free(more);
  kf_model_free(whole);
  kf_stats_free(s);
  kf_stats_free(all);
  free_world(&w);
  free_world(&few);
  free(left);
  kf_ctx_free(ctx);
}

/* --- evaluation
 * ------------------------------------------------------------------------------------------ */

static void evaluation(void **state) {
  (void)state;
  kf_ctx *ctx = test_ctx(3, KF_ISA_AUTO);
  world w = make_world(1500, 24, 7, 1, 4);
  kf_stats *s = stats_of(ctx, &w, 0);
  kf_model *m = fit(ctx, s, 0.3, 0);
  static int32_t found[1500 * 5];
  assert_ok(ctx, kf_classify(ctx, m, w.rows, w.n, &(kf_classify_options){.top = 5}, found, NULL));
  uint64_t top1 = 0, top5 = 0, n = 0;
  for (uint64_t i = 0; i < w.n; i++) { /* label 8 is not in the model, -1 is no label */
    if (i % 10 == 3) w.labels[i] = 8;
    if (i % 10 == 7) w.labels[i] = KF_LABEL_NONE;
    n += w.labels[i] >= 0 && w.labels[i] < 7;
    for (int t = 0; t < 5; t++) {
      top1 += t == 0 && found[i * 5] == w.labels[i];
      top5 += found[i * 5 + (uint64_t)t] == w.labels[i];
    }
  }
  kf_data *data;
  kf_eval_result r;
  assert_ok(ctx, kf_data_open_memory(ctx, w.rows, w.n, w.dim, w.labels, NULL, 9, &data));
  assert_ok(ctx, kf_eval(ctx, m, data, NULL, &r));
  assert_true(r.rows == w.n && r.n == n && r.top1 == top1 && r.top5 == top5);
  assert_true(r.n_absent == 150 && r.absent_classes == 1 && r.n_unlabelled == 150 && r.n_bad == 0);
  assert_true(r.raw_top1 > 0 && r.raw_top5 >= r.raw_top1);
  kf_data_free(data);
  for (uint64_t i = 0; i < w.n; i++) w.labels[i] = 8;
  assert_ok(ctx, kf_data_open_memory(ctx, w.rows, w.n, w.dim, w.labels, NULL, 9, &data));
  assert_error(ctx, KF_ERR_DATA, "none of the 1500 rows", kf_eval(ctx, m, data, NULL, &r));
  kf_data_free(data);
  kf_model_free(m);
  kf_stats_free(s);
  free_world(&w);
  kf_ctx_free(ctx);
}

static void classes_match_by_name(void **state) {
  (void)state;
  kf_ctx *ctx = test_ctx(1, KF_ISA_AUTO);
  world w = make_world(600, 10, 3, 1, 4);
  const char *const names[] = {"ant", "bee", "cat"}, *const other[] = {"cat", "elk", "ant", "bee"};
  kf_data *data;
  kf_stats *s;
  assert_ok(ctx, kf_data_open_memory(ctx, w.rows, w.n, 10, w.labels, names, 3, &data));
  assert_ok(ctx, kf_stats_new_from_data(ctx, data, NULL, &s));
  kf_model *m = fit(ctx, s, 0.3, 0);
  kf_eval_result a, b;
  assert_ok(ctx, kf_eval(ctx, m, data, NULL, &a));
  kf_data_free(data);
  const int32_t to[] = {2, 3, 0};
  for (uint64_t i = 0; i < w.n; i++) w.labels[i] = to[w.labels[i]];
  assert_ok(ctx, kf_data_open_memory(ctx, w.rows, w.n, 10, w.labels, other, 4, &data));
  assert_ok(ctx, kf_eval(ctx, m, data, NULL, &b));
  assert_memory_equal(&a, &b, sizeof a);
  kf_data_free(data);
  kf_model_free(m);
  kf_stats_free(s);
  free_world(&w);
  kf_ctx_free(ctx);
}

static void intervals(void **state) {
  (void)state;
  double low, high; /* Wilson's interval, from a table */
  kf_interval95(50, 100, &low, &high);
  assert_true(fabs(low - 0.4038315) < 1e-6 && fabs(high - 0.5961685) < 1e-6);
  kf_interval95(0, 10, &low, &high);
  assert_true(low == 0 && fabs(high - 0.2775328) < 1e-6);
  kf_interval95(10, 10, &low, &high);
  assert_true(fabs(low - 0.7224672) < 1e-6 && high == 1);
}

/* --- files and lambda
 * ------------------------------------------------------------------------------------- */

static void files(void **state) {
  (void)state;
  kf_ctx *ctx = test_ctx(1, KF_ISA_AUTO);
  world w = make_world(200, 12, 4, 1, 4);
  kf_stats *s = stats_of(ctx, &w, 0);
  kf_model *m = fit(ctx, s, 0.3, 5), *back;
  const char *folder = test_folder();
  char path[512], again[512];
  snprintf(path, sizeof path, "%s/m.safetensors", folder);
  snprintf(again, sizeof again, "%s/again.safetensors", folder);
  assert_ok(ctx, kf_model_save(ctx, m, path));
  assert_ok(ctx, kf_model_load(ctx, path, &back));
  assert_ok(ctx, kf_model_save(ctx, back, again));
  assert_same_file(path, again);
  assert_true(kf_model_lambda(back) == kf_model_lambda(m));
  kf_model_free(back);
  size_t size;
  char *bytes = test_read(path, &size);
  for (size_t at = 0; at < size; at++) { /* every single byte is guarded */
    bytes[at] ^= 1;
    FILE *file = fopen(again, "wb");
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
    bytes[at] ^= 1;
    assert_error(ctx, KF_ERR_DATA, again, kf_model_load(ctx, again, &back));
  }
  assert_ok(ctx, kf_stats_save(ctx, s, again));
  assert_error(ctx, KF_ERR_DATA, "is not a koofu model", kf_model_load(ctx, again, &back));
  assert_error(ctx, KF_ERR_DATA, "is not a koofu statistics file",
               kf_stats_load(ctx, path, (kf_stats **)&back));
  free(bytes);
  test_remove(folder);
  kf_model_free(m);
  kf_stats_free(s);
  free_world(&w);
  kf_ctx_free(ctx);
}

static void lambda_texts(void **state) {
  (void)state;
  kf_ctx *ctx = test_ctx(1, KF_ISA_AUTO);
  kf_lambda l;
  assert_ok(ctx, kf_lambda_parse(ctx, "150", &l));
  assert_true(l.value == 150 && l.unit == KF_LAMBDA_ABSOLUTE);
  assert_ok(ctx, kf_lambda_parse(ctx, "0.3x", &l));
  assert_true(l.value == 0.3 && l.unit == KF_LAMBDA_RELATIVE);
  assert_ok(ctx, kf_lambda_parse(ctx, "1e-3x", &l));
  assert_true(l.value == 1e-3 && l.unit == KF_LAMBDA_RELATIVE);
  assert_ok(ctx, kf_lambda_parse(ctx, "0", &l));
  const char *const bad[] = {"",      "x",  "-1",  "0x10", "nan", "inf",
                             "1e999", "3y", "3xx", "1 ",   "auto"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    assert_error(ctx, KF_ERR_ARG, "lambda", kf_lambda_parse(ctx, bad[i], &l));
  kf_ctx_free(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(eigen_random),
      cmocka_unit_test(eigen_special),
      cmocka_unit_test(identities),
      cmocka_unit_test(same_bits_everywhere),
      cmocka_unit_test(singular),
      cmocka_unit_test(any_lambda),
      cmocka_unit_test(equal_rows),
      cmocka_unit_test(one_row_a_class),
      cmocka_unit_test(empty_and_single_classes),
      cmocka_unit_test(nine_decades),
      cmocka_unit_test(two_statistics),
      cmocka_unit_test(transform_rows),
      cmocka_unit_test(classify_rows),
      cmocka_unit_test(ties_go_to_the_lower_class),
      cmocka_unit_test(raw_norm_model),
      cmocka_unit_test(another_class),
      cmocka_unit_test(evaluation),
      cmocka_unit_test(classes_match_by_name),
      cmocka_unit_test(intervals),
      cmocka_unit_test(files),
      cmocka_unit_test(lambda_texts),
  };
  return cmocka_run_group_tests_name("model", tests, NULL, NULL);
}
