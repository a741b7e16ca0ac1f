/* test_model.c - the fit does what the mathematics says, with the same bits everywhere. */
#include "world.h"

/* --- the eigensolver -------------------------------------------------------------------------- */

static void check_eigen(uint32_t n, const double *a) {
  AUTO(kf_ctx) *one = test_ctx(1, KF_ISA_PLAIN);
  AUTOFREE double *copy = malloc((size_t)n * n * sizeof *copy),
                  *v = malloc((size_t)n * n * sizeof *v);
  AUTOFREE double *values = malloc(n * sizeof *values), *product = malloc(n * sizeof *product);
  memcpy(copy, a, (size_t)n * n * sizeof *copy);
  assert_ok(one, kf_eigen(one, n, copy, values, v));
  double scale = 1e-308;
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
  /* The same bits with any threads and instruction set. */
  AUTOFREE double *v2 = malloc((size_t)n * n * sizeof *v2), *values2 = malloc(n * sizeof *values2);
  for (int isa = KF_ISA_AVX2; isa <= KF_ISA_AMX; isa++) {
    if (!test_has_isa((kf_isa)isa)) continue;
    AUTO(kf_ctx) *ctx = test_ctx(3, (kf_isa)isa);
    memcpy(copy, a, (size_t)n * n * sizeof *copy);
    assert_ok(ctx, kf_eigen(ctx, n, copy, values2, v2));
    assert_memory_equal(values, values2, n * sizeof *values);
    assert_memory_equal(v, v2, (size_t)n * n * sizeof *v);
    memset(values2, 0, n * sizeof *values2);
    assert_ok(ctx, kf_eigen(ctx, n, copy, values2, NULL)); /* alone */
    assert_memory_equal(values, values2, n * sizeof *values);
  }
}

TEST(eigen_random) {
  const uint32_t sizes[] = {1, 2, 3, 8, 9, 65, 150};
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
    uint32_t n = sizes[s];
    AUTOFREE double *a = malloc((size_t)n * n * sizeof *a);
    uint64_t seed = s;
    for (size_t i = 0; i < n; i++)
      for (size_t j = 0; j <= i; j++) a[i * n + j] = a[j * n + i] = test_normal(&seed);
    check_eigen(n, a);
  }
}

/* Matrices on which eigensolvers stumble. */
TEST(eigen_special) {
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

/* --- hard matrices of any size; `at` is one element of a symmetric one ------------------------ */

static double pick(size_t i, uint64_t salt) { /* in [-1, 1) */
  uint64_t seed = (i + 1) * 0x9e3779b97f4a7c15u ^ salt;
  return fmax(-1, fmin(1, test_normal(&seed) / 4));
}

static bool beside(size_t i, size_t j) { return i + 1 == j || j + 1 == i; }

static double zero_at(size_t i, size_t j, size_t n) { return 0 * (double)(i + j + n); }
static double equal_at(size_t i, size_t j, size_t n) { return 3.7 + 0 * (double)(i + j + n); }
static double diagonal_at(size_t i, size_t j, size_t n) { return i == j ? pick(i, n) : 0; }
static double sign_at(size_t i, size_t j, size_t n) {
  return pick((i < j ? i : j) * n + (i < j ? j : i), 1) < 0 ? -1 : 1;
}
/* Three eigenvalues, in many directions: D - v v^T D - D v v^T + …, a reflection of D. */
static double cluster_at(size_t i, size_t j, size_t n) {
  double length = 0, weighted = 0;
  for (size_t k = 0; k < n; k++) {
    double v = pick(k, 7) + 1.5;
    length += v * v;
    weighted += v * v * (double)(k % 3);
  }
  double x = pick(i, 7) + 1.5, y = pick(j, 7) + 1.5, tau = 2 / length;
  double d = i == j ? (double)(i % 3) : 0;
  return d + x * y * (tau * tau * weighted - tau * (double)(i % 3 + j % 3));
}
static double identity_at(size_t i, size_t j, size_t n) { /* but for rounding */
  return (i == j) + 1e-15 * pick((i + 1) * (j + 1) + i + j, n);
}
static double wilkinson_at(size_t i, size_t j, size_t n) {
  return i == j ? fabs((double)i - 0.5 * ((double)n - 1)) : beside(i, j);
}
static double glued_at(size_t i, size_t j, size_t n) { /* of Wilkinson's matrices of size 21 */
  if (i == j) return fabs((double)(i % 21) - 10) + 0 * (double)n;
  if (!beside(i, j)) return 0;
  return (i < j ? j : i) % 21 == 0 ? 1e-14 : 1;
}
static double second_difference_at(size_t i, size_t j, size_t n) {
  return i == j ? 2 : -(double)beside(i, j) + 0 * (double)n;
}
static double no_diagonal_at(size_t i, size_t j, size_t n) { return beside(i, j) + 0 * (double)n; }
static double loose_at(size_t i, size_t j, size_t n) { /* couplings of 1, 1e-20, 1e-40, … */
  return i == j ? (double)(i % 5) : beside(i, j) * pow(1e-20, (double)((i + j) % n % 9));
}
static double graded_at(size_t i, size_t j, size_t n) {
  return pow(10, -16.0 * (double)(i + j) / (double)n) * (i == j ? 2 : 1);
}
static double steep_at(size_t i, size_t j, size_t n) { return pow(graded_at(i, j, n), 18); }
static double arrow_at(size_t i, size_t j, size_t n) {
  if (i == j) return (double)i / (double)n;
  return i == 0 || j == 0 ? 1e-3 : 0;
}
static double rank_five_at(size_t i, size_t j, size_t n) {
  double sum = 0;
  for (size_t k = 0; k < 5; k++) sum += pick(i * 5 + k, n) * pick(j * 5 + k, n);
  return sum;
}
static double tiny_at(size_t i, size_t j, size_t n) { return 1e-305 * sign_at(i, j, n); }
static double denormal_at(size_t i, size_t j, size_t n) { return 1e-315 * sign_at(i, j, n); }
static double huge_at(size_t i, size_t j, size_t n) { return 1e304 * sign_at(i, j, n); }

TEST(eigen_hard) {
  static double (*const kinds[])(size_t, size_t, size_t) = {
      zero_at,      equal_at, diagonal_at,          sign_at,        cluster_at,  identity_at,
      wilkinson_at, glued_at, second_difference_at, no_diagonal_at, loose_at,    graded_at,
      steep_at,     arrow_at, rank_five_at,         tiny_at,        denormal_at, huge_at};
  const uint32_t sizes[] = {1, 2, 3, 5, 31, 33, 64, 131, 211};
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
      size_t n = sizes[s];
      AUTOFREE double *a = malloc(n * n * sizeof *a);
      for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j <= i; j++) a[i * n + j] = a[j * n + i] = kinds[k](i, j, n);
      check_eigen((uint32_t)n, a);
    }
}

/* Wide enough for products to be divided among threads. */
TEST(eigen_wide) {
  enum { n = 1030 };
  AUTOFREE double *a = malloc((size_t)n * n * sizeof *a), *copy = malloc((size_t)n * n * sizeof *a);
  double *v[2], values[2][n], largest = 0, turned[n];
  for (size_t i = 0; i < n; i++)
    for (size_t j = 0; j <= i; j++) a[i * n + j] = a[j * n + i] = pick(i * n + j, 3);
  for (unsigned t = 0; t < 2; t++) {
    AUTO(kf_ctx) *ctx = test_ctx(1 + 2 * t, t == 0 ? KF_ISA_PLAIN : KF_ISA_AUTO);
    v[t] = malloc((size_t)n * n * sizeof *v[t]);
    memcpy(copy, a, (size_t)n * n * sizeof *a);
    assert_ok(ctx, kf_eigen(ctx, n, copy, values[t], v[t]));
    assert_ok(ctx, kf_eigen(ctx, n, copy, turned, NULL));
    assert_memory_equal(values[t], turned, sizeof turned);
  }
  assert_memory_equal(values[0], values[1], sizeof values[0]);
  assert_memory_equal(v[0], v[1], (size_t)n * n * sizeof *v[0]);
  for (size_t i = 0; i < n; i += 37) {
    for (size_t r = 0; r < n; r++) {
      turned[r] = 0;
      for (size_t c = 0; c < n; c++) turned[r] += a[r * n + c] * v[0][i * n + c];
      largest = fmax(largest, fabs(turned[r] - values[0][i] * v[0][i * n + r]));
    }
    for (size_t j = 0; j < n; j++) {
      double sum = 0;
      for (size_t c = 0; c < n; c++) sum += v[0][i * n + c] * v[0][j * n + c];
      largest = fmax(largest, fabs(sum - (i == j)));
    }
  }
  assert_true(largest < 4e-15 * n);
  free(v[0]);
  free(v[1]);
}

/* --- the fit ---------------------------------------------------------------------------------- */

static void check_identities(double lambda, uint32_t classes, uint64_t n) {
  AUTO(kf_ctx) *ctx = test_ctx(2, KF_ISA_AUTO);
  AUTO(world) w = make_world(n, 48, classes, 3, 5);
  AUTO(kf_stats) *s = stats_of(ctx, &w, 0);
  uint32_t d = w.dim;
  AUTOFREE double *s_w = malloc((size_t)d * d * sizeof *s_w),
                  *s_b = malloc((size_t)d * d * sizeof *s_b);
  assert_ok(ctx, kf_stats_scatter(ctx, s, s_w, s_b, NULL));
  AUTO(kf_model) *m = fit(ctx, s, lambda, 0);
  for (size_t i = 0; i < d; i++) s_w[i * d + i] += m->map.lambda;
  const double *t = kf_model_transform_matrix(m);
  assert_true(off_diagonal(t, s_w, d, d, NULL) < 1e-9);
  assert_true(off_diagonal(t, s_b, d, d, kf_model_between_eigenvalues(m)) <
              1e-9 * fmax(1, kf_model_between_eigenvalues(m)[0]));
  for (uint32_t i = classes - 1; i < d; i++) /* the rank of S_b is at most K - 1 */
    assert_true(kf_model_between_eigenvalues(m)[i] == 0);
  /* A smaller model is the first rows of the whole one, to the bit. */
  for (uint32_t l = 1; l < d; l += 13) {
    AUTO(kf_model) *small = fit(ctx, s, lambda, l);
    assert_int_equal(kf_model_dim_out(small), l);
    assert_memory_equal(kf_model_transform_matrix(small), t, (size_t)l * d * sizeof *t);
  }
  for (uint32_t l = 0; l < d; l++) { /* signs */
    double largest = 0;
    for (uint32_t j = 0; j < d; j++)
      if (fabs(t[l * d + j]) > fabs(largest)) largest = t[l * d + j];
    assert_true(largest > 0);
  }
}

TEST(identities) {
  check_identities(0.3, 10, 3000);
  check_identities(0, 10, 3000);     /* full rank needs no regulariser */
  check_identities(1e-6, 100, 2000); /* more classes than dimensions */
  check_identities(0.1, 5, 30);      /* fewer rows than dimensions */
}

TEST(same_bits_everywhere) {
  AUTO(world) w = make_world(2000, 70, 12, 4, 8);
  const char *folder = test_folder();
  char first[512], other[512];
  snprintf(first, sizeof first, "%s/first.safetensors", folder);
  snprintf(other, sizeof other, "%s/other.safetensors", folder);
  int n = 0;
  for (int isa = KF_ISA_PLAIN; isa <= KF_ISA_AMX; isa++)
    for (unsigned threads = 1; threads <= 3; threads++) {
      if (!test_has_isa((kf_isa)isa)) continue;
      AUTO(kf_ctx) *ctx = test_ctx(threads, (kf_isa)isa);
      AUTO(kf_stats) *s = stats_of(ctx, &w, 0);
      AUTO(kf_model) *m = fit(ctx, s, 0.3, 20);
      assert_ok(ctx, kf_model_save(ctx, m, n == 0 ? first : other));
      if (n++ > 0) assert_same_file(first, other);
    }
  test_remove(folder);
}

/* --- singular and degenerate ------------------------------------------------------------------ */

TEST(singular) {
  AUTO(kf_ctx) *ctx = test_ctx(2, KF_ISA_AUTO);
  AUTO(world) w = make_world(30, 48, 5, 1, 3); /* rank at most 30 - 5 */
  AUTO(kf_stats) *s = stats_of(ctx, &w, 0);
  AUTO(kf_model) *m = NULL;
  kf_fit_options zero = {.method = KF_METHOD_PAPER, .lambda = {0, KF_LAMBDA_ABSOLUTE}};
  assert_error(ctx, KF_ERR_MATH, "rank 25 of 48", kf_fit_stats(ctx, s, &zero, &m));
  /* The lambda suggested by the message works. */
  double proposed = 0;
  assert_int_equal(sscanf(strstr(kf_errmsg(ctx), "start, and "), "start, and %lf", &proposed), 1);
  kf_fit_options small = {.method = KF_METHOD_PAPER, .lambda = {proposed, KF_LAMBDA_ABSOLUTE}};
  assert_ok(ctx, kf_fit_stats(ctx, s, &small, &m));
}

/* Any lambda above 0 gives a model that can be saved, loaded and used. A huge one makes the map a
 * rotation, which leaves the answers of the original space; tiny ones all agree. */
TEST(any_lambda) {
  AUTO(kf_ctx) *ctx = test_ctx(2, KF_ISA_AUTO);
  AUTO(world) w = make_world(60, 96, 20, 2, 3); /* rank 40 of 96 */
  AUTO(kf_stats) *s = stats_of(ctx, &w, 0);
  const double values[] = {1e-300, 1e-100, 1e-62, 1e-30, 1e-12, 1, 1e30, 1e100, 1e300};
  const char *folder = test_folder(), *path = test_path(folder, "m.safetensors");
  int32_t raw[60], found[60], tiny[60];
  for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
    AUTO(kf_model) *m = NULL, *back = NULL;
    kf_fit_options options = {.method = KF_METHOD_PAPER, .lambda = {values[v], KF_LAMBDA_ABSOLUTE}};
    assert_ok(ctx, kf_fit_stats(ctx, s, &options, &m));
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
    if (values[v] < 1e-90 || values[v] > 1e90) /* f32 cannot hold these lengths */
      assert_int_equal(status, KF_ERR_MATH);
  }
  kf_model *m;
  kf_fit_options denormal = {.method = KF_METHOD_PAPER, .lambda = {5e-324, KF_LAMBDA_ABSOLUTE}};
  assert_error(ctx, KF_ERR_MATH, "too small", kf_fit_stats(ctx, s, &denormal, &m));
  kf_fit_options huge = {.method = KF_METHOD_PAPER, .lambda = {1e307, KF_LAMBDA_RELATIVE}};
  for (uint64_t i = 0; i < 100; i++)
    s->moments[0] += (kf_i128)1 << 50; /* a mean eigenvalue above 1 */
  assert_error(ctx, KF_ERR_ARG, "too large", kf_fit_stats(ctx, s, &huge, &m));
  kf_fit_options unit = {.method = KF_METHOD_PAPER, .lambda = {1, (kf_lambda_unit)9}};
  assert_error(ctx, KF_ERR_ARG, "unit of lambda", kf_fit_stats(ctx, s, &unit, &m));
  test_remove(folder);
}

/* Rows equal within their classes have zero scatter, not rounding noise. */
TEST(equal_rows) {
  AUTO(kf_ctx) *ctx = test_ctx(2, KF_ISA_AUTO);
  for (uint64_t times = 1; times <= 8; times++) {
    AUTO(world) w = make_world(50 * times, 32, 50, 1, times);
    for (uint64_t i = 50; i < w.n; i++)
      memcpy(w.rows + i * 32, w.rows + i % 50 * 32, 32 * sizeof *w.rows);
    AUTO(kf_stats) *s = stats_of(ctx, &w, 0);
    kf_model *m;
    assert_error(ctx, KF_ERR_MATH, "zero", kf_fit_stats(ctx, s, paper(), &m));
  }
}

TEST(one_row_a_class) {
  AUTO(kf_ctx) *ctx = test_ctx(1, KF_ISA_AUTO);
  AUTO(world) w = make_world(20, 16, 20, 1, 3);
  AUTO(kf_stats) *s = stats_of(ctx, &w, 0);
  AUTO(kf_model) *m = NULL;
  assert_error(ctx, KF_ERR_MATH, "every row is alone in its class (20 rows, 20 classes)",
               kf_fit_stats(ctx, s, paper(), &m)); /* 0.3 times zero */
  kf_fit_options options = {.method = KF_METHOD_PAPER, .lambda = {2.0, KF_LAMBDA_ABSOLUTE}};
  assert_ok(ctx, kf_fit_stats(ctx, s, &options, &m)); /* T is a rotation over sqrt(lambda) */
  double identity[16 * 16] = {0};
  for (int i = 0; i < 16; i++) identity[i * 17] = 2.0;
  assert_true(off_diagonal(kf_model_transform_matrix(m), identity, 16, 16, NULL) < 1e-12);
}

TEST(empty_and_single_classes) {
  AUTO(kf_ctx) *ctx = test_ctx(1, KF_ISA_AUTO);
  AUTO(world) w = make_world(400, 12, 4, 1, 3);
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
  assert_error(ctx, KF_ERR_ARG, "only 4 of the model",
               kf_classify(ctx, m, w.rows, 1, &(kf_classify_options){.top = 5}, found, NULL));
  kf_model_free(m);
  kf_stats_free(s);
  for (uint64_t i = 0; i < w.n; i++) w.labels[i] = 3;
  s = stats_of(ctx, &w, 0);
  assert_error(ctx, KF_ERR_MATH, "at least two classes", kf_fit_stats(ctx, s, paper(), &m));
  assert_error(ctx, KF_ERR_ARG, "13 dimensions",
               kf_fit_stats(ctx, s, &(kf_fit_options){.method = KF_METHOD_PAPER, .dim = 13}, &m));
  kf_stats_free(s);
}

/* With float32 sums, as in the paper, S_w becomes indefinite; koofu's stays positive definite down
 * to lambda = 0. */
TEST(nine_decades) {
  enum { d = 64, classes = 10, n = 200000 };
  AUTO(kf_ctx) *ctx = test_ctx(2, KF_ISA_AUTO);
  AUTO(world) w = make_world(n, d, classes, 9.6, 77);
  mix(&w, 78);
  AUTO(kf_stats) *s = stats_of(ctx, &w, 0);
  AUTO(kf_model) *m = NULL;
  assert_ok(ctx, kf_fit_stats(ctx, s,
                              &(kf_fit_options){.method = KF_METHOD_PAPER,
                                                .lambda = {0, KF_LAMBDA_ABSOLUTE}},
                              &m));
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
}

/* --- files and lambda ------------------------------------------------------------------------- */

TEST(files) {
  AUTO(kf_ctx) *ctx = test_ctx(1, KF_ISA_AUTO);
  AUTO(world) w = make_world(200, 12, 4, 1, 4);
  AUTO(kf_stats) *s = stats_of(ctx, &w, 0);
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
  AUTOFREE char *bytes = test_read(path, &size);
  for (size_t at = 0; at < size; at++) { /* every single byte is covered by the checksum */
    bytes[at] ^= 1;
    FILE *file = fopen(again, "wb");
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
    bytes[at] ^= 1;
    assert_error(ctx, KF_ERR_DATA, again, kf_model_load(ctx, again, &back));
  }
  assert_ok(ctx, kf_stats_save(ctx, s, again));
  assert_error(ctx, KF_ERR_DATA, "is a koofu statistics file, not a koofu model",
               kf_model_load(ctx, again, &back));
  assert_error(ctx, KF_ERR_DATA, "is a koofu model, not a koofu statistics file",
               kf_stats_load(ctx, path, (kf_stats **)&back));
  test_remove(folder);
  kf_model_free(m);
}

/* Temperature and threshold: in the file only if set, checked on reading, kept where scores do not
 * change. */
TEST(confidence) {
  AUTO(kf_ctx) *ctx = test_ctx(1, KF_ISA_AUTO);
  AUTO(world) w = make_world(200, 12, 4, 1, 4);
  AUTO(kf_stats) *s = stats_of(ctx, &w, 0);
  kf_model *m = fit(ctx, s, 0.3, 5), *back, *larger;
  const char *folder = test_folder();
  const char *path = test_path(folder, "m.safetensors");
  double share = 1;
  assert_true(kf_model_temperature(m) == 0 && kf_model_reject(m, NULL) == 0);
  kf_model_reject(m, &share);
  assert_true(share == 0);
  kf_info *info;
  assert_ok(ctx, kf_model_save(ctx, m, path));
  assert_ok(ctx, kf_info_read(ctx, path, &info));
  assert_true(info->temperature == 0 && info->reject_share == 0);
  for (size_t i = 0; i < info->n_meta; i++)
    assert_true(strcmp(info->meta_keys[i], "temperature") != 0 &&
                strncmp(info->meta_keys[i], "reject", 6) != 0);
  kf_info_free(info);
  m->temperature = 12.345678901234567;
  m->reject = -0.25; /* a cosine may be negative */
  m->reject_share = 0.95;
  assert_ok(ctx, kf_model_save(ctx, m, path));
  assert_ok(ctx, kf_model_load(ctx, path, &back));
  assert_true(kf_model_temperature(back) == m->temperature);
  assert_true(kf_model_reject(back, &share) == -0.25 && share == 0.95);
  assert_ok(ctx, kf_info_read(ctx, path, &info));
  assert_true(info->temperature == m->temperature && info->reject == -0.25);
  assert_true(info->reject_share == 0.95);
  kf_info_free(info);
  AUTO(kf_data) *rows = NULL;
  assert_ok(ctx, kf_data_open_memory(ctx, w.rows, 3, 12, NULL, NULL, 0, &rows));
  assert_ok(ctx, kf_model_new_with_class(ctx, back, "one more", rows, &larger));
  assert_true(larger->temperature == m->temperature && larger->reject == -0.25 &&
              larger->reject_share == 0.95);
  kf_model_free(larger);
  kf_model_free(back);
  m->reject_share = 1.5;
  assert_ok(ctx, kf_model_save(ctx, m, path));
  assert_error(ctx, KF_ERR_DATA, "metadata 'reject_share' is '1.5'",
               kf_model_load(ctx, path, &back));
  test_remove(folder);
  kf_model_free(m);
}

/* Rows whose squares overflow or underflow are still scaled to unit length. */
TEST(unit_rows) {
  const double sizes[] = {1e-320, 1e-200, 1e-141, 1, 1e139, 1e141, 1e200, 1e307};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    double x[3] = {3 * sizes[i], 0, -4 * sizes[i]};
    float y[3];
    double length = kf_unit_row(&kf_kernels_plain, x, 3, y);
    double exact = i == 0 ? 1e-3 : 1e-6; /* denormals have few digits */
    assert_true(fabs(length / sizes[i] - 5) < 5 * exact);
    assert_true(fabs((double)y[0] - 0.6) < exact && y[1] == 0 && fabs((double)y[2] + 0.8) < exact);
  }
  double zero[3] = {0};
  float y[3];
  assert_true(kf_unit_row(&kf_kernels_plain, zero, 3, y) == 0 && y[0] == 0);
}

/* Statistics that no rows can produce are refused. */
TEST(impossible_statistics) {
  AUTO(kf_ctx) *ctx = test_ctx(1, KF_ISA_AUTO);
  AUTO(world) w = make_world(300, 8, 3, 1, 4);
  AUTO(kf_stats) *s = stats_of(ctx, &w, 0);
  kf_model *m;
  for (uint64_t i = 0; i < kf_triangle(8); i++) s->moments[i] = 0;
  assert_error(ctx, KF_ERR_DATA, "no rows have these statistics",
               kf_fit_stats(ctx, s, paper(), &m));
}

TEST(lambda_texts) {
  AUTO(kf_ctx) *ctx = test_ctx(1, KF_ISA_AUTO);
  kf_lambda l;
  assert_ok(ctx, kf_lambda_parse(ctx, "150", &l));
  assert_true(l.value == 150 && l.unit == KF_LAMBDA_ABSOLUTE);
  assert_ok(ctx, kf_lambda_parse(ctx, "0.3x", &l));
  assert_true(l.value == 0.3 && l.unit == KF_LAMBDA_RELATIVE);
  assert_ok(ctx, kf_lambda_parse(ctx, "1e-3x", &l));
  assert_true(l.value == 1e-3 && l.unit == KF_LAMBDA_RELATIVE);
  assert_ok(ctx, kf_lambda_parse(ctx, "0", &l));
  assert_ok(ctx, kf_lambda_parse(ctx, "auto", &l));
  assert_int_equal(l.unit, KF_LAMBDA_AUTO);
  assert_ok(ctx, kf_lambda_parse(ctx, "ledoit-wolf", &l));
  assert_int_equal(l.unit, KF_LAMBDA_LEDOIT_WOLF);
  const char *const bad[] = {"",      "x",  "-1",  "0x10", "nan",      "inf",
                             "1e999", "3y", "3xx", "1 ",   "automatic"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    assert_error(ctx, KF_ERR_ARG, "lambda", kf_lambda_parse(ctx, bad[i], &l));
}

/* Counts progress calls of the first eigenproblem and stops it at one of them. */
typedef struct onlooker {
  int seen, stop_at;
} onlooker;

static int look_on(void *user, const char *what, uint64_t done, uint64_t total) {
  (void)total;
  onlooker *o = user;
  if (strcmp(what, "fit") != 0 || done != 1) return 0;
  return ++o->seen == o->stop_at;
}

TEST(stopped_within_a_step) {
  onlooker o = {0};
  AUTO(kf_ctx) *ctx = NULL;
  AUTO(kf_data) *data = NULL;
  AUTO(kf_stats) *s = NULL;
  kf_model *m;
  assert_int_equal(
      kf_ctx_new(&(kf_ctx_options){.threads = 2, .progress = look_on, .user = &o}, &ctx), KF_OK);
  assert_ok(ctx, kf_synth_open(ctx, &(kf_synth_options){.classes = 10, .dim = 200}, &data));
  assert_ok(ctx, kf_stats_new_from_data(ctx, data, NULL, &s));
  assert_ok(ctx, kf_fit_stats(ctx, s, &(kf_fit_options){.lambda = {0.3, KF_LAMBDA_RELATIVE}}, &m));
  kf_model_free(m);
  assert_true(o.seen >= 6); /* 200 columns, 32 at a time */
  o = (onlooker){.stop_at = 3};
  assert_error(ctx, KF_ERR_CANCELLED, "fit",
               kf_fit_stats(ctx, s, &(kf_fit_options){.lambda = {0.3, KF_LAMBDA_RELATIVE}}, &m));
  assert_int_equal(o.seen, 3);
  assert_null(m);
}
