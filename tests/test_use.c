/* test_use.c - using a model: two sets of statistics, mapping, classifying, one more class,
 * evaluating. */
#include "world.h"

/* Class numbers out of range, and options of a newer header. */
TEST(arguments_out_of_range) {
  AUTO(kf_ctx) *ctx = test_ctx(1, KF_ISA_AUTO);
  AUTO(world) w = make_world(60, 8, 3, 1, 1);
  AUTO(kf_stats) *s = stats_of(ctx, &w, 0);
  AUTO(kf_model) *m = NULL;
  float out[8];
  int32_t class;
  assert_ok(ctx, kf_fit_stats(ctx, s, paper(), &m));
  assert_int_equal(kf_model_count(m, 2), 20);
  assert_int_equal(kf_model_count(m, 3), 0);
  assert_null(kf_model_class_name(m, 0)); /* it has no names */
  assert_null(kf_model_class_name(m, 3));
  assert_int_equal(kf_model_class_has_text(m, 0), 0);
  assert_int_equal(kf_model_class_has_text(m, 3), 0);
  assert_int_equal(kf_model_answers(m, KF_PART_IMAGES), 3);
  assert_int_equal(kf_model_answers(m, (kf_part)(KF_PART_FUSED + 1)), 0);
  assert_int_equal(kf_model_answers(m, (kf_part)-1), 0);
  assert_error(ctx, KF_ERR_ARG, "kf_transform",
               kf_transform(ctx, m, w.rows, 1, &(kf_transform_options){.reserved = {1}}, out));
  assert_error(
      ctx, KF_ERR_ARG, "kf_classify",
      kf_classify(ctx, m, w.rows, 1, &(kf_classify_options){.reserved = {1}}, &class, NULL));
  AUTO(kf_data) *data = NULL;
  AUTO(kf_text) *text = NULL;
  assert_ok(ctx, kf_data_open_memory(ctx, w.rows, w.n, 8, w.labels, NULL, 3, &data));
  assert_error(ctx, KF_ERR_ARG, "kf_transform_data",
               kf_transform_data(ctx, m, data, &(kf_transform_options){.reserved = {1}}, KF_F32,
                                 "never.npy"));
  assert_error(ctx, KF_ERR_ARG, "kf_text_new",
               kf_text_new(ctx, data, &(kf_text_options){.reserved = {1}}, &text));
  assert_ok(ctx, kf_text_new(ctx, data, NULL, &text));
  assert_null(kf_text_class_name(text, 0));
  assert_null(kf_text_class_name(text, 3));
}

/* --- two statistics, centring, another class -------------------------------------------------- */

TEST(two_statistics) {
  AUTO(kf_ctx) *ctx = test_ctx(2, KF_ISA_AUTO);
  AUTO(world) a = make_world(900, 24, 6, 2, 1), b = make_world(800, 24, 9, 2, 2);
  AUTO(kf_stats) *s = stats_of(ctx, &a, 0), *t = stats_of(ctx, &b, 0);
  kf_model *m;
  assert_ok(ctx,
            kf_fit_stats(ctx, s, &(kf_fit_options){.method = KF_METHOD_PAPER, .between = t}, &m));
  assert_int_equal(kf_model_classes(m), 9); /* prototypes are those of S_b's classes */
  AUTO(kf_model) *other = NULL;
  assert_ok(ctx, kf_fit_stats(ctx, t, paper(), &other));
  for (uint32_t k = 0; k < 9; k++) assert_int_equal(kf_model_count(m, k), kf_stats_count(t, k));
  assert_memory_equal(kf_model_class_means(m), kf_model_class_means(other), 9 * 24 * sizeof(float));
  assert_memory_equal(kf_model_mean(m), kf_model_mean(other), 24 * sizeof(double));
  assert_int_equal(m->rows, 900); /* those that S_w was made from */
  double s_w[24 * 24], s_b[24 * 24];
  assert_ok(ctx, kf_stats_scatter(ctx, s, s_w, NULL, NULL));
  assert_ok(ctx, kf_stats_scatter(ctx, t, NULL, s_b, NULL));
  for (int i = 0; i < 24; i++) s_w[i * 25] += kf_model_lambda(m);
  assert_true(off_diagonal(kf_model_transform_matrix(m), s_w, 24, 24, NULL) < 1e-9);
  assert_true(off_diagonal(kf_model_transform_matrix(m), s_b, 24, 24,
                           kf_model_between_eigenvalues(m)) < 1e-9);
  kf_model_free(m);
  AUTO(kf_stats) *raw = stats_of(ctx, &b, 1);
  assert_error(
      ctx, KF_ERR_DATA, "do not match",
      kf_fit_stats(ctx, s, &(kf_fit_options){.method = KF_METHOD_PAPER, .between = raw}, &m));
}

/* z = T (x / |x| - mean), by definition. */
static void map_by_hand(const kf_model *m, const float *x, int centred, double *z) {
  double norm2 = 0;
  for (uint32_t j = 0; j < m->map.dim_in; j++) norm2 += (double)x[j] * (double)x[j];
  for (uint32_t l = 0; l < m->map.dim_out; l++) {
    z[l] = 0;
    for (uint32_t j = 0; j < m->map.dim_in; j++)
      z[l] += m->map.transform[l * m->map.dim_in + j] *
              ((double)x[j] / sqrt(norm2) - (centred ? m->map.mean[j] : 0));
  }
}

TEST(transform_rows) {
  AUTO(kf_ctx) *ctx = test_ctx(2, KF_ISA_AUTO);
  AUTO(world) w = make_world(333, 40, 6, 2, 1);
  AUTO(kf_stats) *s = stats_of(ctx, &w, 0);
  for (int centred = 0; centred < 2; centred++) {
    AUTO(kf_model) *m = NULL;
    kf_fit_options options = {
        .method = KF_METHOD_PAPER, .dim = 17, .centre = centred ? KF_CENTRE_MEAN : KF_CENTRE_NONE};
    assert_ok(ctx, kf_fit_stats(ctx, s, &options, &m));
    AUTOFREE float *unit = malloc(w.n * 17 * sizeof *unit),
                   *whole = malloc(w.n * 17 * sizeof *whole);
    assert_ok(ctx, kf_transform(ctx, m, w.rows, w.n, NULL, unit));
    assert_ok(ctx, kf_transform(ctx, m, w.rows, w.n, &(kf_transform_options){.normalize = KF_OFF},
                                whole));
    for (uint64_t i = 0; i < w.n; i++) {
      double z[17], norm2 = 0;
      map_by_hand(m, w.rows + i * w.dim, centred, z);
      for (int l = 0; l < 17; l++) norm2 += z[l] * z[l];
      for (uint64_t l = 0; l < 17; l++) {
        assert_true(fabs((double)whole[i * 17 + l] - z[l]) < 1e-6 * sqrt(norm2));
        assert_true(fabs((double)unit[i * 17 + l] - z[l] / sqrt(norm2)) < 1e-6);
      }
    }
    /* A row alone gives the same bits as among others. */
    float alone[17];
    assert_ok(ctx, kf_transform(ctx, m, w.rows + 200 * w.dim, 1, NULL, alone));
    assert_memory_equal(alone, unit + 200 * 17, sizeof alone);
  }
}

static void classify_by_hand(kf_ctx *ctx, const kf_model *m, const world *w, kf_metric metric,
                             int raw) {
  AUTOFREE int32_t *found = malloc(w->n * 3 * sizeof *found);
  AUTOFREE double *scores = malloc(w->n * 3 * sizeof *scores);
  kf_classify_options options = {.top = 3, .metric = metric, .raw = raw};
  assert_ok(ctx, kf_classify(ctx, m, w->rows, w->n, &options, found, scores));
  uint32_t dim = raw ? m->map.dim_in : m->map.dim_out;
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
}

TEST(classify_rows) {
  AUTO(kf_ctx) *ctx = test_ctx(2, KF_ISA_AUTO);
  AUTO(world) w = make_world(333, 40, 6, 2, 1);
  AUTO(kf_stats) *s = stats_of(ctx, &w, 0);
  AUTO(kf_model) *m = fit(ctx, s, 0.3, 20);
  for (int metric = KF_METRIC_COSINE; metric <= KF_METRIC_EUCLIDEAN; metric++)
    for (int raw = 0; raw < 2; raw++) classify_by_hand(ctx, m, &w, (kf_metric)metric, raw);
}

/* Equal prototypes: the lower class number wins, everywhere in the list. */
TEST(ties_go_to_the_lower_class) {
  AUTO(kf_ctx) *ctx = test_ctx(1, KF_ISA_AUTO);
  AUTO(world) w = make_world(240, 8, 4, 1, 9);
  for (uint64_t i = 0; i < w.n; i++) /* classes 4 + k and k have the same rows */
    w.labels[i] = (int32_t)(i / 4 % 2 * 4 + i % 4);
  for (uint64_t i = 0; i < w.n; i += 8)
    memcpy(w.rows + (i + 4) * w.dim, w.rows + i * w.dim, 4 * w.dim * sizeof *w.rows);
  w.classes = 8;
  AUTO(kf_stats) *s = stats_of(ctx, &w, 0);
  AUTO(kf_model) *m = fit(ctx, s, 0.3, 0);
  int32_t found[240 * 8];
  assert_ok(ctx, kf_classify(ctx, m, w.rows, w.n, &(kf_classify_options){.top = 8}, found, NULL));
  for (size_t i = 0; i < 240; i++)
    for (size_t t = 0; t < 8; t += 2) assert_int_equal(found[i * 8 + t] + 4, found[i * 8 + t + 1]);
  for (uint32_t top = 1; top < 8; top += 2) { /* the cut goes through a tie */
    int32_t cut[240 * 8];
    assert_ok(ctx, kf_classify(ctx, m, w.rows, w.n, &(kf_classify_options){.top = top}, cut, NULL));
    for (size_t i = 0; i < 240; i++)
      assert_memory_equal(cut + i * top, found + i * 8, top * sizeof *cut);
  }
}

TEST(raw_norm_model) {
  AUTO(kf_ctx) *ctx = test_ctx(2, KF_ISA_AUTO);
  AUTO(world) w = make_world(600, 20, 5, 1, 4);
  AUTO(kf_stats) *s = stats_of(ctx, &w, 1);
  AUTO(kf_model) *m = fit(ctx, s, 0.3, 0);
  assert_int_equal(kf_model_normalized(m), 0);
  AUTOFREE float *out = malloc(w.n * 20 * sizeof *out);
  assert_ok(ctx,
            kf_transform(ctx, m, w.rows, w.n, &(kf_transform_options){.normalize = KF_OFF}, out));
  for (uint32_t l = 0; l < 20; l++) { /* rows are taken as they are: f(x) = T x */
    double z = 0;
    for (uint32_t j = 0; j < 20; j++)
      z += m->map.transform[l * 20 + j] * (double)w.rows[7 * 20 + j];
    assert_true(fabs((double)out[7 * 20 + l] - z) < 1e-5 * fmax(1, fabs(z)));
  }
  AUTOFREE float *as_is =
      malloc(w.n * 20 * sizeof *as_is); /* lengths count in a raw model: they stay */
  assert_ok(ctx, kf_transform(ctx, m, w.rows, w.n, NULL, as_is));
  assert_memory_equal(as_is, out, w.n * 20 * sizeof *out);
  int32_t by_default[600], euclidean[600];
  assert_ok(ctx, kf_classify(ctx, m, w.rows, w.n, NULL, by_default, NULL));
  assert_ok(ctx,
            kf_classify(ctx, m, w.rows, w.n, &(kf_classify_options){.metric = KF_METRIC_EUCLIDEAN},
                        euclidean, NULL));
  assert_memory_equal(by_default, euclidean, sizeof euclidean);
}

/* With distances, classes are weighted by their rows: the answer is the class with the largest
 * ln n_k - (N - K) d^2 / 2. */
TEST(larger_classes_are_likelier) {
  enum { N = 900, D = 6, K = 3 };
  AUTO(kf_ctx) *ctx = test_ctx(2, KF_ISA_AUTO);
  AUTO(world) w = make_world(N, D, K, 1, 4);
  for (uint64_t i = 0; i < w.n; i++) /* 300, 30 and 3 rows */
    if ((w.labels[i] == 1 && i % 10 > 0) || (w.labels[i] == 2 && i % 100 > 1)) w.labels[i] = -1;
  AUTO(kf_stats) *s = stats_of(ctx, &w, 1);
  AUTO(kf_model) *m = NULL;
  kf_fit_options options = {.lambda = {0.01, KF_LAMBDA_RELATIVE}};
  assert_ok(ctx, kf_fit_stats(ctx, s, &options, &m));
  double unit = (double)(kf_stats_rows(s) - K), distance[N];
  float z[N * D];
  int32_t found[N];
  uint64_t otherwise = 0;
  assert_ok(ctx, kf_transform(ctx, m, w.rows, w.n, NULL, z));
  assert_ok(ctx, kf_classify(ctx, m, w.rows, w.n, NULL, found, distance));
  for (uint64_t i = 0; i < w.n; i++) {
    double least = INFINITY, nearest = INFINITY;
    int32_t best = 0, by_distance = 0;
    for (int32_t k = 0; k < K; k++) {
      double d2 = 0, n = (double)kf_stats_count(s, (uint32_t)k);
      for (int j = 0; j < D; j++) {
        double at =
            (double)m->prototypes[k * D + j] * m->lengths[k] - (double)z[i * D + (uint64_t)j];
        d2 += at * at;
      }
      double with_prior = d2 + 2 / unit * log((double)kf_stats_count(s, 0) / n);
      if (with_prior < least) best = k;
      if (d2 < nearest) by_distance = k;
      least = fmin(least, with_prior);
      nearest = fmin(nearest, d2);
    }
    assert_int_equal(found[i], best);
    assert_true(fabs(distance[i] - sqrt(least)) < 1e-6 * (1 + sqrt(least)));
    otherwise += best != by_distance;
  }
  assert_true(otherwise > 5);
}

TEST(another_class) {
  AUTO(kf_ctx) *ctx = test_ctx(2, KF_ISA_AUTO);
  AUTO(world) w = make_world(600, 20, 6, 1, 4);
  uint64_t kept = 0; /* fit without class 5 */
  AUTOFREE float *left = malloc(w.n * 20 * sizeof *left);
  AUTO(world)
  few = {.dim = 20,
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
  AUTO(kf_stats) *s = stats_of(ctx, &few, 0);
  AUTO(kf_model) *m = fit(ctx, s, 0.3, 10), *more = NULL;
  AUTO(kf_data) *samples = NULL;
  assert_ok(ctx, kf_data_open_memory(ctx, left, kept, 20, NULL, NULL, 0, &samples));
  assert_ok(ctx, kf_model_new_with_class(ctx, m, "new", samples, &more));
  assert_int_equal(kf_model_classes(more), 6);
  assert_string_equal(kf_model_class_name(more, 5), "new");
  assert_string_equal(kf_model_class_name(more, 0), "0");
  assert_int_equal(kf_model_count(more, 5), kept);
  assert_memory_equal(kf_model_transform_matrix(more), kf_model_transform_matrix(m),
                      10 * 20 * sizeof(double));
  /* Its mean is that of the statistics of all rows. */
  AUTO(kf_stats) *all = stats_of(ctx, &w, 0);
  AUTO(kf_model) *whole = fit(ctx, all, 0.3, 10);
  assert_memory_equal(kf_model_class_means(more) + 5 * 20, kf_model_class_means(whole) + 5 * 20,
                      20 * sizeof(float));
  /* Skipped bad rows change nothing. */
  AUTOFREE float *spoilt = calloc((kept + 2) * 20, sizeof *spoilt);
  memcpy(spoilt + 20, left, kept * 20 * sizeof *left); /* a row of zeros before, one of NaN after */
  for (int j = 0; j < 20; j++) spoilt[(kept + 1) * 20 + (uint64_t)j] = NAN;
  AUTO(kf_data) *lenient = NULL;
  AUTO(kf_model) *same = NULL;
  assert_ok(ctx, kf_data_open_memory(ctx, spoilt, kept + 2, 20, NULL, NULL, 0, &lenient));
  assert_error(ctx, KF_ERR_DATA, "row 0", kf_model_new_with_class(ctx, m, "new", lenient, &same));
  lenient->skip_bad = true;
  assert_ok(ctx, kf_model_new_with_class(ctx, m, "new", lenient, &same));
  assert_int_equal(kf_model_count(same, 5), kept);
  assert_memory_equal(kf_model_prototypes(same), kf_model_prototypes(more), 6 * 10 * sizeof(float));
  kf_model *none;
  assert_error(ctx, KF_ERR_ARG, "'new' is already",
               kf_model_new_with_class(ctx, more, "new", samples, &none));
}

/* --- evaluation ------------------------------------------------------------------------------- */

TEST(evaluation) {
  AUTO(kf_ctx) *ctx = test_ctx(3, KF_ISA_AUTO);
  AUTO(world) w = make_world(1500, 24, 7, 1, 4);
  AUTO(kf_stats) *s = stats_of(ctx, &w, 0);
  AUTO(kf_model) *m = fit(ctx, s, 0.3, 0);
  static int32_t found[1500 * 5];
  assert_ok(ctx, kf_classify(ctx, m, w.rows, w.n, &(kf_classify_options){.top = 5}, found, NULL));
  uint64_t top1 = 0, top5 = 0, n = 0;
  for (uint64_t i = 0; i < w.n; i++) { /* label 8 is not in the model, -1 means no label */
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
}

TEST(classes_match_by_name) {
  AUTO(kf_ctx) *ctx = test_ctx(1, KF_ISA_AUTO);
  AUTO(world) w = make_world(600, 10, 3, 1, 4);
  const char *const names[] = {"ant", "bee", "cat"}, *const other[] = {"cat", "elk", "ant", "bee"};
  kf_data *data;
  AUTO(kf_stats) *s = NULL;
  assert_ok(ctx, kf_data_open_memory(ctx, w.rows, w.n, 10, w.labels, names, 3, &data));
  assert_ok(ctx, kf_stats_new_from_data(ctx, data, NULL, &s));
  AUTO(kf_model) *m = fit(ctx, s, 0.3, 0);
  kf_eval_result a, b;
  assert_ok(ctx, kf_eval(ctx, m, data, NULL, &a));
  kf_data_free(data);
  const int32_t to[] = {2, 3, 0};
  for (uint64_t i = 0; i < w.n; i++) w.labels[i] = to[w.labels[i]];
  assert_ok(ctx, kf_data_open_memory(ctx, w.rows, w.n, 10, w.labels, other, 4, &data));
  assert_ok(ctx, kf_eval(ctx, m, data, NULL, &b));
  assert_memory_equal(&a, &b, sizeof a);
  kf_data_free(data);
}

/* Names on one side and numbers on the other are not matched. */
TEST(names_against_numbers) {
  AUTO(kf_ctx) *ctx = test_ctx(1, KF_ISA_AUTO);
  AUTO(world) w = make_world(300, 10, 3, 1, 4);
  const char *const names[] = {"ant", "bee", "cat"};
  AUTO(kf_data) *named = NULL, *numbered = NULL;
  assert_ok(ctx, kf_data_open_memory(ctx, w.rows, w.n, 10, w.labels, names, 3, &named));
  assert_ok(ctx, kf_data_open_memory(ctx, w.rows, w.n, 10, w.labels, NULL, 3, &numbered));
  kf_data *const sets[] = {named, numbered};
  for (int i = 0; i < 2; i++) {
    AUTO(kf_stats) *s = NULL;
    kf_eval_result r;
    assert_ok(ctx, kf_stats_new_from_data(ctx, sets[i], NULL, &s));
    AUTO(kf_model) *m = fit(ctx, s, 0.3, 0);
    assert_ok(ctx, kf_eval(ctx, m, sets[i], NULL, &r));
    assert_error(ctx, KF_ERR_DATA,
                 i == 0 ? "the model have names, those of the data only numbers"
                        : "the data have names, those of the model only numbers",
                 kf_eval(ctx, m, sets[1 - i], NULL, &r));
  }
}

TEST(intervals) {
  double low, high; /* Wilson's interval, from a table */
  kf_interval95(50, 100, &low, &high);
  assert_true(fabs(low - 0.4038315) < 1e-6 && fabs(high - 0.5961685) < 1e-6);
  kf_interval95(0, 10, &low, &high);
  assert_true(low == 0 && fabs(high - 0.2775328) < 1e-6);
  for (uint64_t n = 1; n < 3000; n += 7) {
    kf_interval95(0, n, &low, &high);
    assert_true(low == 0 && high > 0);
    kf_interval95(n, n, &low, &high);
    assert_true(low < 1 && high == 1);
  }
  kf_interval95(10, 10, &low, &high);
  assert_true(fabs(low - 0.7224672) < 1e-6 && high == 1);
}
