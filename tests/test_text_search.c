/* test_text_search.c - text as queries of galleries: what the text mean does, the report about
 * queries that look like text, the mean itself, and the reader of texts. */
#include "galleries.h"

#define MODELS KOOFU_SOURCE_DIR "/tests/golden/models/"

enum { N = 240, QUERIES = 70, K = 5 };

typedef struct answers {
  int64_t rows[QUERIES * K];
  double scores[QUERIES * K];
} answers;

static answers ask(const kf_gallery *g, const float *queries, const double *text_mean,
                   kf_search_report *report) {
  answers a = {{0}, {0}};
  kf_search_options o = {.text_mean = text_mean};
  if (text_mean != NULL) assert_ok(ctx, kf_gallery_prepare_text(ctx, g));
  assert_ok(ctx, kf_gallery_search(ctx, g, queries, QUERIES, K, &o, a.rows, a.scores, report));
  return a;
}

/* Rows elsewhere: what make_world puts at 4 in column 0 is at -4, and in column 1 as well. */
static world make_texts(void) {
  world q = make_world(QUERIES, DIM, CLASSES, 1, 8);
  for (uint64_t i = 0; i < q.n; i++) {
    q.rows[i * DIM] -= 8;
    q.rows[i * DIM + 1] -= 4;
  }
  return q;
}

/* The mean of unit rows, in the order of the rows. */
static void mean_of(const world *w, double *mean) {
  for (uint32_t d = 0; d < w->dim; d++) mean[d] = 0;
  for (uint64_t i = 0; i < w->n; i++) {
    double norm2 = 0;
    for (uint32_t d = 0; d < w->dim; d++)
      norm2 += (double)w->rows[i * w->dim + d] * (double)w->rows[i * w->dim + d];
    for (uint32_t d = 0; d < w->dim; d++)
      mean[d] += (double)w->rows[i * w->dim + d] / sqrt(norm2) / (double)w->n;
  }
}

/* The cosine of T (t / |t| - n) with a row of a gallery, in double precision. */
static double score_by_hand(const kf_model *m, const float *t, const double *mean,
                            const float *row) {
  double norm2 = 0, dot = 0, length2 = 0;
  const double *transform = kf_model_transform_matrix(m);
  for (int d = 0; d < DIM; d++) norm2 += (double)t[d] * (double)t[d];
  for (int l = 0; l < L; l++) {
    double z = 0;
    for (int d = 0; d < DIM; d++)
      z += transform[l * DIM + d] * ((double)t[d] / sqrt(norm2) - mean[d]);
    dot += z * (double)row[l];
    length2 += z * z;
  }
  return dot / sqrt(length2);
}

/* The same whether the map is centred or not, since the text is shifted. */
TEST(the_mean_is_subtracted) {
  AUTO(world) w = make_world(N, DIM, CLASSES, 1, 7), q = make_texts();
  AUTO(kf_data) *data = data_of(w.rows, w.n, DIM, w.labels, CLASSES);
  double mean[DIM];
  AUTOFREE float *mapped = malloc(N * L * sizeof *mapped);
  mean_of(&q, mean);
  for (int centre = KF_CENTRE_NONE; centre <= KF_CENTRE_MEAN; centre++) {
    AUTO(kf_model) *m = fit_world(&w, 0, (kf_centre)centre);
    AUTO(kf_gallery) *g = save_and_load(data, m, KF_METRIC_COSINE);
    assert_ok(ctx, kf_transform(ctx, m, w.rows, N, NULL, mapped));
    answers plain = ask(g, q.rows, NULL, NULL), moved = ask(g, q.rows, mean, NULL);
    assert_memory_not_equal(plain.scores, moved.scores, sizeof plain.scores);
    for (int i = 0; i < QUERIES * K; i++) {
      const float *t = q.rows + (size_t)(i / K) * DIM;
      double hand = score_by_hand(m, t, mean, mapped + moved.rows[i] * L);
      if (fabs(hand - moved.scores[i]) > 1e-6) fail_msg("%g, not %g", moved.scores[i], hand);
      for (int r = 0; i % K == 0 && r < N; r++) /* none is nearer than the first */
        assert_true(score_by_hand(m, t, mean, mapped + (size_t)r * L) < moved.scores[i] + 1e-6);
    }
  }
}

/* Q of the default method has orthonormal rows, and T Q^T is symmetric and positive. */
static void check_text_map(const kf_model *m) {
  kf_map q;
  kf_arena arena = {0};
  assert_ok(ctx, kf_map_for_text(ctx, &m->map, &q, &arena));
  for (int i = 0; i < L; i++)
    for (int j = 0; j < L; j++) {
      double unit = 0, left = 0, right = 0;
      for (int d = 0; d < DIM; d++) {
        unit += q.transform[i * DIM + d] * q.transform[j * DIM + d];
        left += m->map.transform[i * DIM + d] * q.transform[j * DIM + d];
        right += m->map.transform[j * DIM + d] * q.transform[i * DIM + d];
      }
      assert_true(fabs(unit - (i == j)) < 1e-10);
      assert_true(fabs(left - right) < 1e-10 * (1 + fabs(left)));
      if (i == j) assert_true(left > 0);
    }
  kf_arena_free(&arena);
}

static kf_model *fit_by(const world *w, kf_method method) {
  if (method == KF_METHOD_PAPER) return fit_world(w, 0, KF_CENTRE_MEAN);
  AUTO(kf_stats) *stats = stats_of(ctx, w, 0);
  kf_model *m;
  assert_ok(ctx, kf_fit_stats(ctx, stats, &(kf_fit_options){.dim = L}, &m));
  check_text_map(m);
  return m;
}

/* The query is the prototype of a zero-shot model, to the last digits. */
static void check_zero_shot(kf_method method) {
  AUTO(world) w = make_world(N, DIM, CLASSES, 1, 7), q = make_texts();
  AUTO(kf_data) *data = data_of(w.rows, w.n, DIM, w.labels, 0);
  AUTO(kf_model) *m = fit_by(&w, method), *zero = NULL;
  int32_t labels[QUERIES];
  for (int i = 0; i < QUERIES; i++) labels[i] = i;
  AUTO(kf_data) *texts = data_of(q.rows, QUERIES, DIM, labels, 0);
  AUTO(kf_text) *text = NULL;
  assert_ok(ctx, kf_text_new(ctx, texts, NULL, &text));
  assert_ok(ctx, kf_zero_shot_new(ctx, m, L, text, KF_CENTRE_MODALITY, &zero));
  double mean[DIM];
  assert_ok(ctx, kf_text_mean(ctx, texts, mean));
  AUTO(kf_gallery) *g = save_and_load(data, m, KF_METRIC_COSINE);
  answers a, b;
  kf_search_options o = {.text_mean = mean};
  kf_status unprepared = kf_gallery_search(ctx, g, q.rows, QUERIES, K, &o, a.rows, a.scores, NULL);
  assert_int_equal(unprepared, method == KF_METHOD_PAPER ? KF_OK : KF_ERR_ARG);
  a = ask(g, q.rows, mean, NULL);
  assert_ok(ctx, kf_search(ctx, kf_gallery_index(g), kf_model_prototypes(zero), QUERIES, K, NULL,
                           b.rows, b.scores, NULL));
  assert_memory_equal(a.rows, b.rows, sizeof a.rows);
  for (int i = 0; i < QUERIES * K; i++) assert_true(fabs(a.scores[i] - b.scores[i]) < 1e-6);
}

TEST(as_zero_shot_does) {
  check_zero_shot(KF_METHOD_PAPER);
  check_zero_shot(KF_METHOD_SHRUNK);
}

TEST(in_the_original_space) {
  AUTO(world) w = make_world(N, DIM, CLASSES, 1, 7), q = make_texts(), moved = make_texts();
  double mean[DIM];
  mean_of(&q, mean);
  for (uint64_t i = 0; i < moved.n; i++) {
    float *x = moved.rows + i * DIM;
    double norm2 = 0;
    for (int d = 0; d < DIM; d++) norm2 += (double)x[d] * (double)x[d];
    for (int d = 0; d < DIM; d++) x[d] = (float)((double)x[d] / sqrt(norm2) - mean[d]);
  }
  AUTO(kf_gallery) *g = plain_gallery(w.rows, N, DIM, NULL, KF_METRIC_COSINE);
  answers a = ask(g, q.rows, mean, NULL), b = ask(g, moved.rows, NULL, NULL);
  assert_memory_equal(a.rows, b.rows, sizeof a.rows);
  for (int i = 0; i < QUERIES * K; i++) assert_true(fabs(a.scores[i] - b.scores[i]) < 1e-6);
}

TEST(whatever_the_threads) {
  AUTO(world) w = make_world(N, DIM, CLASSES, 1, 7), q = make_texts();
  AUTO(kf_data) *data = data_of(w.rows, w.n, DIM, w.labels, CLASSES);
  AUTO(kf_model) *m = fit_world(&w, 0, KF_CENTRE_NONE);
  AUTO(kf_gallery) *g = save_and_load(data, m, KF_METRIC_COSINE);
  double mean[DIM];
  mean_of(&q, mean);
  kf_search_report report = {0};
  answers a = ask(g, q.rows, mean, &report), b = {{0}, {0}};
  AUTO(kf_ctx) *plain = test_ctx(1, KF_ISA_PLAIN);
  kf_search_options o = {.text_mean = mean};
  for (uint64_t i = 0; i < QUERIES; i++) /* one at a time */
    assert_ok(plain, kf_gallery_search(plain, g, q.rows + i * DIM, 1, K, &o, b.rows + i * K,
                                       b.scores + i * K, NULL));
  assert_memory_equal(&a, &b, sizeof a);
}

TEST(queries_far_from_the_rows_are_counted) {
  AUTO(world)
  w = make_world(N, DIM, CLASSES, 1, 7), other = make_world(QUERIES, DIM, CLASSES, 1, 9);
  AUTO(world) q = make_texts();
  AUTO(kf_data) *data = data_of(w.rows, w.n, DIM, w.labels, CLASSES);
  AUTO(kf_model) *m = fit_world(&w, 0, KF_CENTRE_NONE);
  kf_gallery *g = save_and_load(data, m, KF_METRIC_COSINE);
  kf_search_report of_rows = {0}, of_texts = {.far = 3};
  ask(g, other.rows, NULL, &of_rows);
  ask(g, q.rows, NULL, &of_texts);
  assert_true(of_rows.far < QUERIES / 10);
  assert_int_equal(of_texts.far, 3 + QUERIES);
  kf_gallery_free(g);
  g = plain_gallery(w.rows, N, DIM, NULL, KF_METRIC_COSINE); /* does not know any other rows */
  of_texts = (kf_search_report){0};
  ask(g, q.rows, NULL, &of_texts);
  assert_int_equal(of_texts.far, 0);
  kf_gallery_free(g);
}

static void assert_text_refused(const kf_gallery *g, const float *query, const double *mean,
                                kf_status status, const char *cause) {
  int64_t row;
  kf_search_options o = {.text_mean = mean};
  assert_int_equal(kf_gallery_search(ctx, g, query, 1, 1, &o, &row, NULL, NULL), status);
  if (strstr(kf_errmsg(ctx), cause) == NULL) fail_msg("%s", kf_errmsg(ctx));
}

TEST(what_cannot_be) {
  AUTO(world) w = make_world(N, DIM, CLASSES, 1, 7);
  AUTO(kf_data) *data = data_of(w.rows, w.n, DIM, w.labels, CLASSES);
  double mean[DIM] = {0};
  AUTO(kf_model) *raw = fit_world(&w, 1, KF_CENTRE_NONE), *m = fit_world(&w, 0, KF_CENTRE_NONE);
  kf_gallery *g = save_and_load(data, raw, KF_METRIC_EUCLIDEAN);
  assert_text_refused(g, w.rows, mean, KF_ERR_ARG, "keeps the lengths of rows");
  kf_gallery_free(g);
  g = plain_gallery(w.rows, N, DIM, NULL, KF_METRIC_INNER);
  assert_text_refused(g, w.rows, mean, KF_ERR_ARG, "keeps the lengths of rows");
  int64_t row;
  kf_search_options o = {.text_mean = mean};
  assert_int_equal(kf_search(ctx, kf_gallery_index(g), w.rows, 1, 1, &o, &row, NULL, NULL),
                   KF_ERR_ARG);
  kf_gallery_free(g);
  g = save_and_load(data, m, KF_METRIC_COSINE);
  mean[3] = NAN;
  assert_text_refused(g, w.rows, mean, KF_ERR_ARG, "the text mean has a NaN");
  float unit[DIM] = {0, 1};
  mean[3] = 0;
  mean[1] = 1;
  assert_text_refused(g, unit, mean, KF_ERR_DATA, "query 0 is the text mean");
  kf_gallery_free(g);
}

TEST(means_of_data) {
  AUTO(world) q = make_texts();
  double by_hand[DIM], mean[DIM];
  mean_of(&q, by_hand);
  kf_data *data = data_of(q.rows, q.n, DIM, NULL, 0);
  assert_ok(ctx, kf_text_mean(ctx, data, mean));
  for (int d = 0; d < DIM; d++) assert_true(fabs(mean[d] - by_hand[d]) < 1e-12);
  kf_data_free(data);
  float zeros[2 * DIM] = {0};
  write_npy("zeros.npy", "<f4", "(2, 24)", zeros, sizeof zeros);
  const char *path = at("zeros.npy");
  assert_ok(ctx, kf_data_open(ctx, &path, 1, &(kf_data_options){.skip_bad = 1}, &data));
  assert_int_equal(kf_text_mean(ctx, data, mean), KF_ERR_DATA);
  kf_data_free(data);
}

TEST(texts_are_read_in_blocks) {
  static const char *const texts[] = {"a red fox", "two owls", "a photo of an ant", "", "dusk"};
  AUTO(kf_encoder) *e = NULL;
  assert_ok(ctx, kf_encoder_load(ctx, MODELS "clip-f32", NULL, &e));
  uint32_t dim = kf_encoder_dim(e);
  AUTOFREE float *rows = malloc(5 * dim * sizeof *rows);
  assert_ok(ctx, kf_encode_texts(ctx, e, texts, 5, rows));
  kf_reader *r;
  kf_reader_block b;
  assert_ok(ctx, kf_reader_open_texts(ctx, e, texts, 5, &(kf_reader_options){.block = 2}, &r));
  assert_true(kf_reader_rows(r) == 5 && kf_reader_dim(r) == dim);
  assert_string_equal(kf_reader_id(r, 4), "dusk");
  assert_null(kf_reader_id(r, 5));
  for (uint64_t first = 0; first < 5; first += 2) {
    assert_ok(ctx, kf_reader_next(ctx, r, &b));
    assert_true(b.first == first && b.n == (first < 4 ? 2 : 1) && b.numbers[0] == first);
    assert_memory_equal(b.rows, rows + first * dim, b.n * dim * sizeof *rows);
  }
  assert_ok(ctx, kf_reader_next(ctx, r, &b));
  assert_int_equal(b.taken, 0);
  kf_reader_free(r);
  assert_int_equal(kf_reader_open_texts(ctx, e, texts, 0, NULL, &r), KF_ERR_ARG);
  double mean[64], again[64];
  assert_true(dim <= 64);
  assert_ok(ctx, kf_encoder_text_mean(ctx, e, mean));
  assert_ok(ctx, kf_encoder_text_mean(ctx, e, again));
  double norm2 = 0;
  for (uint32_t d = 0; d < dim; d++) norm2 += mean[d] * mean[d];
  assert_true(norm2 > 0 && norm2 < 1); /* of unit rows that are not all alike */
  assert_memory_equal(mean, again, dim * sizeof *mean);
}

FIXTURES(.before = make_test_folder, .after = remove_test_folder);
