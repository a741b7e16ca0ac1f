/* test_gallery_search.c - galleries searched, by queries and by their own rows. */
#include "galleries.h"

/* --- searching ------------------------------------------------------------------------------- */

/* Higher is better; sums in the order of the columns. */
static double naive_score(kf_metric metric, const float *x, const float *y, uint32_t dim) {
  double dot = 0, x2 = 0, y2 = 0, distance2 = 0;
  for (uint32_t i = 0; i < dim; i++) {
    double a = (double)x[i], b = (double)y[i];
    dot += a * b;
    x2 += a * a;
    y2 += b * b;
    distance2 += (a - b) * (a - b);
  }
  if (metric == KF_METRIC_INNER) return dot;
  return metric == KF_METRIC_COSINE ? dot / sqrt(x2 * y2) : -sqrt(distance2);
}

/* The k nearest of n rows, by looking at all of them k times. */
static void naive_search(kf_metric metric, const float *x, const float *rows, uint64_t n,
                         uint32_t dim, uint32_t k, int64_t *found, double *scores) {
  AUTOFREE bool *taken = calloc(n, 1);
  for (uint32_t t = 0; t < k; t++) {
    double best = -INFINITY;
    uint64_t row = 0;
    for (uint64_t i = 0; i < n; i++) {
      double score = naive_score(metric, x, rows + i * dim, dim);
      if (taken[i] || score <= best) continue;
      row = i;
      best = score;
    }
    taken[row] = true;
    found[t] = (int64_t)row;
    scores[t] = metric == KF_METRIC_EUCLIDEAN ? -best : best;
  }
}

static void check_naive(const kf_gallery *g, const world *queries, const float *raw_queries,
                        const float *rows) {
  enum { K = 12 };
  kf_metric metric = kf_gallery_metric(g);
  uint32_t dim = kf_gallery_dim(g);
  int64_t *found = malloc(queries->n * K * sizeof *found), want[K];
  double *scores = malloc(queries->n * K * sizeof *scores), wanted[K];
  kf_search_report report = {.queries = 5, .candidates = 0};
  assert_ok(ctx,
            kf_gallery_search(ctx, g, queries->rows, queries->n, K, NULL, found, scores, &report));
  assert_int_equal(report.queries, 5 + queries->n);
  assert_true(report.candidates >= queries->n * K);
  for (uint64_t q = 0; q < queries->n; q++) {
    naive_search(metric, raw_queries + q * dim, rows, kf_gallery_rows(g), dim, K, want, wanted);
    assert_memory_equal(found + q * K, want, sizeof want);
    for (int t = 0; t < K; t++)
      assert_true(fabs(scores[q * K + (uint64_t)t] - wanted[t]) < 1e-6 * fmax(1, fabs(wanted[t])));
  }
  free(found);
  free(scores);
}

TEST(naive_loops) {
  AUTO(world) w = make_world(400, DIM, CLASSES, 2, 10), q = make_world(50, DIM, CLASSES, 2, 11);
  AUTO(kf_data) *data = data_of(w.rows, w.n, DIM, w.labels, CLASSES);
  AUTO(kf_model) *m = fit_world(&w, 0, KF_CENTRE_MEAN);
  AUTOFREE float *rows = malloc(w.n * L * sizeof *rows),
                 *queries = malloc(q.n * L * sizeof *queries);
  kf_transform_options whole = {.normalize = KF_OFF};
  assert_ok(ctx, kf_transform(ctx, m, w.rows, w.n, &whole, rows));
  assert_ok(ctx, kf_transform(ctx, m, q.rows, q.n, &whole, queries));
  for (int metric = KF_METRIC_COSINE; metric <= KF_METRIC_INNER; metric++) {
    kf_gallery *g = save_and_load(data, NULL, (kf_metric)metric);
    check_naive(g, &q, q.rows, w.rows);
    kf_gallery_free(g);
    g = save_and_load(data, m, (kf_metric)metric);
    check_naive(g, &q, queries, rows);
    kf_gallery_free(g);
  }
}

/* A gallery with a model equals a gallery of mapped rows searched with mapped queries, to the
 * bit. */
TEST(map_first) {
  enum { K = 20 };
  AUTO(world) w = make_world(500, DIM, CLASSES, 2, 12), q = make_world(150, DIM, CLASSES, 2, 13);
  AUTO(kf_data) *data = data_of(w.rows, w.n, DIM, NULL, 0);
  AUTO(kf_model) *m = fit_world(&w, 0, KF_CENTRE_NONE);
  AUTOFREE float *rows = malloc(w.n * L * sizeof *rows),
                 *queries = malloc(q.n * L * sizeof *queries);
  AUTOFREE int64_t *a = malloc(q.n * K * sizeof *a), *b = malloc(q.n * K * sizeof *b);
  AUTOFREE double *x = malloc(q.n * K * sizeof *x), *y = malloc(q.n * K * sizeof *y);
  for (int metric = KF_METRIC_COSINE; metric <= KF_METRIC_INNER; metric++) {
    kf_transform_options options = {.normalize = metric != KF_METRIC_COSINE ? KF_OFF : KF_ON};
    assert_ok(ctx, kf_transform(ctx, m, w.rows, w.n, &options, rows));
    assert_ok(ctx, kf_transform(ctx, m, q.rows, q.n, &options, queries));
    kf_gallery *g = save_and_load(data, m, (kf_metric)metric);
    assert_ok(ctx, kf_gallery_search(ctx, g, q.rows, q.n, K, NULL, a, x, NULL));
    kf_gallery_free(g);
    g = plain_gallery(rows, w.n, L, NULL, (kf_metric)metric);
    assert_ok(ctx, kf_gallery_search(ctx, g, queries, q.n, K, NULL, b, y, NULL));
    kf_gallery_free(g);
    assert_memory_equal(a, b, q.n * K * sizeof *a);
    assert_memory_equal(x, y, q.n * K * sizeof *x);
  }
}

/* A gallery in f16 or bf16 equals one of the rounded rows, to the bit: with every metric, with and
 * without a map, from disk, in memory, and searched with its own rows. */
TEST(as_rounded) {
  enum { K = 9 };
  AUTO(world) w = make_world(300, DIM, CLASSES, 2, 21), q = make_world(60, DIM, CLASSES, 2, 22);
  AUTO(kf_data) *data = data_of(w.rows, w.n, DIM, w.labels, 0);
  AUTO(kf_model) *m = fit_world(&w, 0, KF_CENTRE_MEAN);
  AUTOFREE int64_t *a = malloc(w.n * K * sizeof *a), *b = malloc(w.n * K * sizeof *b);
  AUTOFREE double *x = malloc(w.n * K * sizeof *x), *y = malloc(w.n * K * sizeof *y);
  for (int turn = 0; turn < 24; turn++) {
    int way = turn % 12;
    kf_metric metric = (kf_metric)(1 + way % 3);
    kf_gallery_options options = {.metric = metric, .dtype = turn < 12 ? KF_F16 : KF_BF16};
    const char *path = at("half.safetensors");
    assert_ok(ctx, kf_gallery_save(ctx, data, way % 2 ? m : NULL, &options, path));
    AUTO(kf_data) *rounded = must_open(path, NULL);
    uint32_t dim = kf_data_dim(rounded);
    AUTOFREE float *rows = malloc(w.n * dim * sizeof *rows);
    assert_ok(ctx, kf_data_get(ctx, rounded, 0, w.n, rows, NULL));
    AUTO(kf_gallery) *g = NULL, *same = plain_gallery(rows, w.n, dim, NULL, metric);
    if (way < 4)
      assert_ok(ctx, kf_gallery_new(ctx, data, way % 2 ? m : NULL, &options, &g));
    else
      g = load(path, way < 8);
    assert_int_equal(kf_gallery_dtype(g), options.dtype);
    assert_int_equal(kf_gallery_dtype(same), KF_F32);
    assert_ok(ctx, kf_gallery_search_itself(ctx, g, 0, w.n, K, a, x, NULL));
    assert_ok(ctx, kf_gallery_search_itself(ctx, same, 0, w.n, K, b, y, NULL));
    assert_memory_equal(a, b, w.n * K * sizeof *a);
    assert_memory_equal(x, y, w.n * K * sizeof *x);
    if (way % 2 == 0) {
      assert_ok(ctx, kf_gallery_search(ctx, g, q.rows, q.n, K, NULL, a, x, NULL));
      assert_ok(ctx, kf_gallery_search(ctx, same, q.rows, q.n, K, NULL, b, y, NULL));
      assert_memory_equal(a, b, q.n * K * sizeof *a);
      assert_memory_equal(x, y, q.n * K * sizeof *x);
    }
  }
}

/* A gallery in the original space answers as an index over the same rows does. */
TEST(as_an_index) {
  enum { K = 7 };
  AUTO(world) w = make_world(300, 10, 3, 1, 14), q = make_world(70, 10, 3, 1, 15);
  int64_t a[70 * K], b[70 * K], leave_out[70];
  double x[70 * K], y[70 * K];
  for (int i = 0; i < 70; i++) leave_out[i] = i % 2 ? 3 * i : -1;
  kf_search_options options = {.leave_out = leave_out};
  for (int metric = KF_METRIC_COSINE; metric <= KF_METRIC_INNER; metric++) {
    AUTO(kf_gallery) *g = plain_gallery(w.rows, w.n, 10, NULL, (kf_metric)metric);
    AUTO(kf_index) *index = NULL;
    kf_index_options o = {.metric = (kf_metric)metric};
    assert_ok(ctx, kf_index_new(ctx, w.rows, w.n, 10, &o, &index));
    assert_ok(ctx, kf_gallery_search(ctx, g, q.rows, q.n, K, &options, a, x, NULL));
    assert_ok(ctx, kf_search(ctx, index, q.rows, q.n, K, &options, b, y, NULL));
    assert_memory_equal(a, b, sizeof a);
    assert_memory_equal(x, y, sizeof x);
  }
}

typedef struct answers {
  int64_t rows[100 * 10], own[100 * 10];
  double scores[100 * 10], own_scores[100 * 10], votes[100 * 3];
  int32_t classes[100 * 3];
  kf_eval_result counts;
  kf_hits hits[2];
} answers;

static void ask(kf_ctx *with, const kf_gallery *g, const world *q, const kf_data *data,
                answers *out) {
  memset(out, 0, sizeof *out); /* padding, too, is compared */
  assert_ok(with, kf_gallery_search(with, g, q->rows, 100, 10, NULL, out->rows, out->scores, NULL));
  assert_ok(with, kf_gallery_search_itself(with, g, 37, 100, 10, out->own, out->own_scores, NULL));
  kf_vote_options vote = {.k = 10, .top = 3, .weighted = 1};
  assert_ok(with,
            kf_gallery_classify(with, g, q->rows, 100, &vote, out->classes, out->votes, NULL));
  kf_gallery_eval_options eval = {.k = (uint32_t[]){1, 9}, .n_k = 2};
  assert_ok(with, kf_gallery_eval(with, g, data, &eval, &out->counts, out->hits, NULL));
}

TEST(same_answers) {
  AUTO(world) w = make_world(700, DIM, CLASSES, 2, 16), q = make_world(100, DIM, CLASSES, 2, 17);
  AUTO(kf_data) *data = data_of(w.rows, w.n, DIM, w.labels, CLASSES);
  AUTO(kf_data) *test = data_of(q.rows, q.n, DIM, q.labels, CLASSES);
  AUTO(kf_model) *m = fit_world(&w, 0, KF_CENTRE_MEAN);
  static const unsigned threads[] = {1, 2, 5};
  AUTOFREE answers *first = malloc(sizeof *first), *more = malloc(sizeof *more);
  const char *one = at("one.safetensors"), *other = at("other.safetensors");
  for (int t = 0; t < 3; t++)
    for (int plain = 0; plain < 2; plain++)
      for (int from_disk = 0; from_disk < 2; from_disk++) {
        bool start = t == 0 && plain == 0 && from_disk == 0;
        AUTO(kf_ctx) *with = test_ctx(threads[t], plain ? KF_ISA_PLAIN : KF_ISA_AUTO);
        kf_gallery_load_options options = {.rerank_from_disk = from_disk};
        AUTO(kf_gallery) *g = NULL;
        assert_ok(with, kf_gallery_save(with, data, m, NULL, start ? one : other));
        if (!start) assert_same_file(one, other);
        assert_ok(with, kf_gallery_load(with, one, &options, &g));
        ask(with, g, &q, test, start ? first : more);
        if (!start) assert_memory_equal(first, more, sizeof *more);
      }
}

/* Every row appears twice: its twin comes first, the row itself never. */
TEST(leave_one_out) {
  enum { N = 120, K = 6 };
  AUTO(world) w = make_world(N, DIM, CLASSES, 1, 18);
  for (int i = 0; i < N / 2 * DIM; i++) w.rows[N / 2 * DIM + i] = w.rows[i];
  AUTO(kf_data) *data = data_of(w.rows, N, DIM, NULL, 0);
  AUTO(kf_model) *m = fit_world(&w, 0, KF_CENTRE_NONE);
  int64_t own[N * K], asked[N * K], leave_out[N];
  double x[N * K], y[N * K];
  for (int64_t i = 0; i < N; i++) leave_out[i] = i;
  kf_search_options options = {.leave_out = leave_out};
  for (int mapped = 0; mapped < 2; mapped++)
    for (int metric = KF_METRIC_COSINE; metric <= KF_METRIC_EUCLIDEAN; metric++) {
      AUTO(kf_gallery) *g = save_and_load(data, mapped ? m : NULL, (kf_metric)metric);
      assert_ok(ctx, kf_gallery_search_itself(ctx, g, 0, N, K, own, x, NULL));
      assert_ok(ctx, kf_gallery_search(ctx, g, w.rows, N, K, &options, asked, y, NULL));
      assert_memory_equal(own, asked, sizeof own);
      assert_memory_equal(x, y, sizeof x);
      for (int64_t i = 0; i < N; i++) {
        for (int t = 0; t < K; t++) assert_int_not_equal(own[i * K + t], i);
        assert_int_equal(own[i * K], (i + N / 2) % N);
      }
      /* A range of rows gives that range of the answers. */
      assert_ok(ctx, kf_gallery_search_itself(ctx, g, 71, 20, K, asked, y, NULL));
      assert_memory_equal(asked, own + 71 * K, 20 * K * sizeof *own);
    }
}

TEST(bad_questions) {
  AUTO(world) w = make_world(20, 3, 2, 1, 19);
  kf_gallery *g = plain_gallery(w.rows, 20, 3, w.labels, KF_METRIC_COSINE);
  AUTOFREE float *q = calloc(2000 * 3, sizeof *q);
  for (int i = 0; i < 2000 * 3; i++) q[i] = 1;
  AUTOFREE int64_t *rows = malloc((size_t)2000 * 20 * sizeof *rows);
  int32_t classes[2000];
  assert_error(ctx, KF_ERR_ARG, "k is 0",
               kf_gallery_search(ctx, g, q, 1, 0, NULL, rows, NULL, NULL));
  assert_error(ctx, KF_ERR_ARG, "1025",
               kf_gallery_search(ctx, g, q, 1, 1025, NULL, rows, NULL, NULL));
  assert_error(ctx, KF_ERR_ARG, "there are 20",
               kf_gallery_search(ctx, g, q, 1, 21, NULL, rows, NULL, NULL));
  assert_error(ctx, KF_ERR_ARG, "there are 19",
               kf_gallery_search_itself(ctx, g, 0, 1, 20, rows, NULL, NULL));
  assert_error(ctx, KF_ERR_ARG, "past the end",
               kf_gallery_search_itself(ctx, g, 15, 6, 2, rows, NULL, NULL));
  assert_ok(ctx, kf_gallery_search_itself(ctx, g, 15, 5, 2, rows, NULL, NULL));
  assert_ok(ctx, kf_gallery_search(ctx, g, q, 0, 2, NULL, rows, NULL, NULL));
  assert_ok(ctx, kf_gallery_search(ctx, g, q, 2000, 20, NULL, rows, NULL, NULL));
  kf_vote_options vote = {.k = 3};
  q[1777 * 3 + 1] = NAN;
  assert_error(ctx, KF_ERR_DATA, "query 1777 has a NaN",
               kf_gallery_search(ctx, g, q, 2000, 2, NULL, rows, NULL, NULL));
  assert_error(ctx, KF_ERR_DATA, "query 1777 has a NaN",
               kf_gallery_classify(ctx, g, q, 2000, &vote, classes, NULL, NULL));
  memset(q + 3 * 3, 0, 3 * sizeof *q);
  assert_error(ctx, KF_ERR_DATA, "query 3 is zero",
               kf_gallery_search(ctx, g, q, 2000, 2, NULL, rows, NULL, NULL));
  kf_gallery_free(g);
  g = plain_gallery(w.rows, 20, 3, NULL, KF_METRIC_EUCLIDEAN);
  assert_ok(ctx, kf_gallery_search(ctx, g, q + 3 * 3, 1, 2, NULL, rows, NULL, NULL));
  assert_error(ctx, KF_ERR_DATA, "query 1777 has",
               kf_gallery_search(ctx, g, q, 2000, 2, NULL, rows, NULL, NULL));
  assert_error(ctx, KF_ERR_DATA, "no labels",
               kf_gallery_classify(ctx, g, q, 1, &vote, classes, NULL, NULL));
  kf_gallery_free(g);
}

/* Every call checks the reserved space of its options. */
TEST(options_from_the_future) {
  AUTO(world) w = make_world(20, 3, 2, 1, 6);
  AUTO(kf_data) *data = data_of(w.rows, w.n, w.dim, w.labels, 0);
  kf_gallery *g = plain_gallery(w.rows, 20, 3, w.labels, KF_METRIC_COSINE), *other = NULL;
  kf_index *index = NULL;
  int64_t row;
  int32_t class;
  kf_search_options search = {.reserved = {1}};
  kf_index_options indexing = {.reserved = {1}};
  kf_vote_options vote = {.reserved = {1}};
  kf_gallery_options options = {.reserved = {1}};
  kf_gallery_load_options loading = {.reserved = {1}};
  assert_error(ctx, KF_ERR_ARG, "kf_gallery_search",
               kf_gallery_search(ctx, g, w.rows, 1, 1, &search, &row, NULL, NULL));
  assert_error(ctx, KF_ERR_ARG, "kf_search",
               kf_search(ctx, kf_gallery_index(g), w.rows, 1, 1, &search, &row, NULL, NULL));
  assert_error(ctx, KF_ERR_ARG, "kf_index_new",
               kf_index_new(ctx, w.rows, w.n, w.dim, &indexing, &index));
  assert_error(ctx, KF_ERR_ARG, "kf_index_new_from_data",
               kf_index_new_from_data(ctx, data, &indexing, &index));
  assert_error(ctx, KF_ERR_ARG, "kf_gallery_classify",
               kf_gallery_classify(ctx, g, w.rows, 1, &vote, &class, NULL, NULL));
  assert_error(ctx, KF_ERR_ARG, "kf_gallery_new",
               kf_gallery_new(ctx, data, NULL, &options, &other));
  assert_error(ctx, KF_ERR_ARG, "kf_gallery_save",
               kf_gallery_save(ctx, data, NULL, &options, at("future.safetensors")));
  assert_error(ctx, KF_ERR_ARG, "kf_gallery_load",
               kf_gallery_load(ctx, at("future.safetensors"), &loading, &other));
  kf_gallery_free(g);
}

FIXTURES(.before = make_test_folder, .after = remove_test_folder);
