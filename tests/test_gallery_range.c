/* test_gallery_range.c - searches within a limit, among some rows, and for duplicates: each equals
 * brute force, for every metric, type, instruction set and number of threads. */
#include "galleries.h"
#include "search/index.h"

#include <math.h>

enum { ROWS = 700, QUERIES = 12, COLUMNS = 19, NAMED = 4 };

static const kf_metric metrics[] = {KF_METRIC_COSINE, KF_METRIC_EUCLIDEAN, KF_METRIC_INNER};

/* Rows with many copies and near copies; ids "r0", "r1", and so on. */
typedef struct problem {
  float rows[ROWS * COLUMNS], queries[QUERIES * COLUMNS];
  int32_t labels[ROWS];
  kf_gallery *gallery;
} problem;

static const char *ids_of(const uint64_t *rows, uint64_t n, const char *file) {
  char *text = malloc(n * 8 + 1), *end = text;
  for (uint64_t i = 0; i < n; i++) end += sprintf(end, "r%llu\n", (unsigned long long)rows[i]);
  const char *path = write_bytes(file, text, (size_t)(end - text));
  free(text);
  return path;
}

static float draw(uint64_t *seed) { return (float)(int)(test_random(seed) % 2001) / 1000 - 1; }

static kf_gallery *make_gallery(kf_ctx *c, const float *rows, const int32_t *labels,
                                const uint64_t *which, uint64_t n, kf_metric metric, kf_dtype dtype,
                                int from_disk) {
  AUTO(kf_data) *data = NULL;
  kf_gallery *g;
  const char *path = at("range.safetensors");
  assert_ok(c, kf_data_open_memory(c, rows, n, COLUMNS, labels, names, NAMED, &data));
  kf_gallery_options options = {
      .metric = metric, .dtype = dtype, .ids = ids_of(which, n, "range.txt")};
  assert_ok(c, kf_gallery_save(c, data, NULL, &options, path));
  assert_ok(
      c, kf_gallery_load(c, path, &(kf_gallery_load_options){.rerank_from_disk = from_disk}, &g));
  return g;
}

static problem *make_problem(kf_ctx *c, uint64_t seed, kf_metric metric, kf_dtype dtype) {
  problem *p = malloc(sizeof *p);
  uint64_t all[ROWS];
  for (uint64_t i = 0; i < ROWS; i++) {
    uint64_t of = i > 0 ? test_random(&seed) % i : 0;
    bool copy = i > 0 && test_random(&seed) % 3 == 0, near = test_random(&seed) % 2 == 0;
    for (uint32_t j = 0; j < COLUMNS; j++) {
      p->rows[i * COLUMNS + j] = copy ? p->rows[of * COLUMNS + j] : draw(&seed);
      if (copy && near) p->rows[i * COLUMNS + j] += 0.02f * draw(&seed);
    }
    p->labels[i] = (int32_t)(test_random(&seed) % NAMED);
    all[i] = i;
  }
  for (uint64_t i = 0; i < QUERIES * COLUMNS; i++) p->queries[i] = draw(&seed);
  memcpy(p->queries, p->rows, COLUMNS * sizeof *p->rows);
  p->gallery = make_gallery(c, p->rows, p->labels, all, ROWS, metric, dtype, (int)(seed % 2));
  return p;
}

static void free_problem(problem *p) {
  kf_gallery_free(p->gallery);
  free(p);
}
static inline void auto_problem(problem **p) { free_problem(*p); }

/* Rows as they are in the gallery. */
static void stored(kf_ctx *c, const kf_gallery *g, uint64_t row, float *x) {
  assert_ok(c, kf_gallery_fetch(g, c->kernels, row, 1, x, &c->err));
}

/* The canonical score of two rows, by the definition. */
static double score_of(kf_ctx *c, kf_metric metric, const float *q, const float *x) {
  const kf_kernels *k = c->kernels;
  double value = 0;
  (metric == KF_METRIC_EUCLIDEAN ? k->distances : k->dots)(q, &x, 1, COLUMNS, &value);
  if (metric == KF_METRIC_EUCLIDEAN) return sqrt(value);
  return metric == KF_METRIC_INNER ? value
                                   : kf_cosine(value, k->norm2(q, COLUMNS), k->norm2(x, COLUMNS));
}

static bool is_within(kf_metric metric, double score, double limit) {
  return metric == KF_METRIC_EUCLIDEAN ? score <= limit : score >= limit;
}

/* A limit that some row has for some query, so that equality counts; or any. */
static double choose_limit(kf_ctx *c, const problem *p, kf_metric metric, uint64_t *seed) {
  float x[COLUMNS];
  stored(c, p->gallery, test_random(seed) % ROWS, x);
  double limit = score_of(c, metric, p->queries + test_random(seed) % QUERIES * COLUMNS, x);
  if (test_random(seed) % 8 == 0) return metric == KF_METRIC_EUCLIDEAN ? 1e9 : -1e9; /* all */
  if (test_random(seed) % 8 == 0) return metric == KF_METRIC_EUCLIDEAN ? -1 : 1e9;   /* none */
  return limit;
}

/* The list of query i of a range: the rows of the full search, in its order, that are near
 * enough. */
static void check_range(kf_ctx *c, const problem *p, kf_metric metric, const float *query,
                        double limit, const kf_filter *only, int64_t without, const kf_ranges *r,
                        uint64_t i) {
  int64_t order[ROWS];
  double scores[ROWS];
  uint32_t all = (uint32_t)(only != NULL ? kf_filter_rows(only) : ROWS);
  kf_search_options options = {.only = only};
  assert_ok(c, kf_gallery_search(c, p->gallery, query, 1, all, &options, order, scores, NULL));
  uint64_t at = i > 0 ? r->ends[i - 1] : 0;
  for (uint32_t t = 0; t < all; t++) {
    float x[COLUMNS];
    stored(c, p->gallery, (uint64_t)order[t], x);
    double score = score_of(c, metric, query, x);
    if (order[t] == without || !is_within(metric, score, limit)) continue;
    assert_true(at < r->ends[i]);
    assert_int_equal(r->rows[at], order[t]);
    assert_true(fabs(r->scores[at] - score) <= 1e-12 * (1 + fabs(score)));
    at++;
  }
  assert_int_equal(at, r->ends[i]);
}

static void ranges_of(kf_ctx *c, uint64_t seed) {
  for (int m = 0; m < 3; m++)
    for (int half = 0; half < 2; half++) {
      AUTO(problem) *p =
          make_problem(c, seed + (uint64_t)(m * 2 + half), metrics[m], half ? KF_F16 : KF_F32);
      for (int round = 0; round < 2; round++) {
        double limit = choose_limit(c, p, metrics[m], &seed);
        AUTO(kf_ranges) *r = NULL, *own = NULL;
        kf_search_report report = {0};
        assert_ok(c,
                  kf_gallery_within(c, p->gallery, p->queries, QUERIES, limit, NULL, &r, &report));
        assert_int_equal(r->queries, QUERIES);
        assert_int_equal(report.queries, QUERIES);
        assert_true(report.candidates >= r->ends[QUERIES - 1]);
        for (uint64_t i = 0; i < QUERIES; i++)
          check_range(c, p, metrics[m], p->queries + i * COLUMNS, limit, NULL, -1, r, i);
        assert_ok(c, kf_gallery_within_itself(c, p->gallery, 100, 6, limit, NULL, &own, NULL));
        for (uint64_t i = 0; i < 6; i++) {
          float x[COLUMNS];
          stored(c, p->gallery, 100 + i, x);
          check_range(c, p, metrics[m], x, limit, NULL, (int64_t)(100 + i), own, i);
        }
      }
    }
}

/* Every instruction set that this machine has, and several threads. */
static void in_every_way(void (*run)(kf_ctx *c, uint64_t seed)) {
  for (int isa = KF_ISA_PLAIN; isa <= KF_ISA_AMX; isa++)
    for (unsigned threads = isa == KF_ISA_PLAIN ? 1 : 3; threads <= 3; threads += 2) {
      AUTO(kf_ctx) *c = NULL;
      kf_ctx_options options = {.threads = threads, .isa = (kf_isa)isa};
      if (!test_has_isa((kf_isa)isa)) continue;
      assert_int_equal(kf_ctx_new(&options, &c), KF_OK);
      run(c, (uint64_t)isa * 10 + threads);
    }
}

TEST(within) { in_every_way(ranges_of); }

/* --- filters ---------------------------------------------------------------------------------- */

/* Among some rows: as a gallery of these rows alone. */
static void check_filter(kf_ctx *c, problem *p, kf_metric metric, kf_dtype dtype,
                         const kf_filter *f, const uint64_t *rows, uint64_t n, double limit) {
  enum { K = 9 };
  AUTOFREE float *own = malloc(n * COLUMNS * sizeof *own);
  AUTOFREE int32_t *labels = malloc(n * sizeof *labels);
  for (uint64_t i = 0; i < n; i++) {
    memcpy(own + i * COLUMNS, p->rows + rows[i] * COLUMNS, COLUMNS * sizeof *own);
    labels[i] = p->labels[rows[i]];
  }
  assert_int_equal(kf_filter_rows(f), n);
  AUTO(kf_gallery) *alone = make_gallery(c, own, labels, rows, n, metric, dtype, 0);
  uint32_t k = n < K ? (uint32_t)n : K;
  int64_t found[2][QUERIES * K];
  double scores[2][QUERIES * K];
  int32_t classes[2][QUERIES];
  kf_search_options options = {.only = f};
  assert_ok(c, kf_gallery_search(c, p->gallery, p->queries, QUERIES, k, &options, found[0],
                                 scores[0], NULL));
  assert_ok(c,
            kf_gallery_search(c, alone, p->queries, QUERIES, k, NULL, found[1], scores[1], NULL));
  for (uint64_t i = 0; i < QUERIES * k; i++) assert_int_equal(found[0][i], rows[found[1][i]]);
  assert_memory_equal(scores[0], scores[1], QUERIES * k * sizeof **scores);
  kf_vote_options votes = {.k = k, .weighted = 1, .only = f}, plain = {.k = k, .weighted = 1};
  assert_ok(
      c, kf_gallery_classify(c, p->gallery, p->queries, QUERIES, &votes, classes[0], NULL, NULL));
  assert_ok(c, kf_gallery_classify(c, alone, p->queries, QUERIES, &plain, classes[1], NULL, NULL));
  assert_memory_equal(classes[0], classes[1], sizeof classes[0]);
  kf_ranges *r;
  assert_ok(c, kf_gallery_within(c, p->gallery, p->queries, QUERIES, limit, &options, &r, NULL));
  for (uint64_t i = 0; i < QUERIES; i++)
    check_range(c, p, metric, p->queries + i * COLUMNS, limit, f, -1, r, i);
  kf_ranges_free(r);
  assert_error(c, KF_ERR_ARG, "nearest rows were requested",
               kf_gallery_search(c, p->gallery, p->queries, 1, (uint32_t)n + 1, &options, found[0],
                                 NULL, NULL));
  assert_error(c, KF_ERR_ARG, "to another gallery",
               kf_gallery_search(c, alone, p->queries, 1, 1, &options, found[0], NULL, NULL));
}

static void filters_of(kf_ctx *c, uint64_t seed) {
  for (int m = 0; m < 3; m++) {
    kf_dtype dtype = seed % 2 == 0 ? KF_F32 : KF_F16;
    AUTO(problem) *p = make_problem(c, seed + (uint64_t)m, metrics[m], dtype);
    double limit = choose_limit(c, p, metrics[m], &seed);
    for (int what = 0; what < 4; what++) { /* classes; many ids; few ids; classes and ids */
      bool wanted[NAMED] = {what != 0 && what != 3, true, true, what != 0 && what != 3};
      uint64_t rows[ROWS], given[ROWS], n = 0, n_given = 0;
      for (uint64_t i = 0; i < ROWS; i++) {
        bool here = what == 0 || test_random(&seed) % (what == 2 ? 100 : 2) == 0 || i == 17;
        if (here) given[n_given++] = i;
        if (here && wanted[p->labels[i]]) rows[n++] = i;
      }
      const char *file = ids_of(given, n_given, "only.txt");
      const char *classes = write_text("classes.txt", "cat\nbee\nnone\n\n");
      kf_id_list ids = {.file = file};
      static const char *const listed[] = {"bee", "cat", "none"};
      kf_filter_options options = {.classes = what == 3 ? classes : NULL,
                                   .names = what == 0 ? listed : NULL,
                                   .n_names = what == 0 ? 3 : 0,
                                   .ids = what > 0 ? &ids : NULL};
      AUTO(kf_filter) *f = NULL;
      assert_ok(c, kf_filter_new(c, p->gallery, &options, &f));
      assert_int_equal(f->sparse, n <= ROWS / 64);
      check_filter(c, p, metrics[m], dtype, f, rows, n, limit);
    }
  }
}

TEST(filters) { in_every_way(filters_of); }

/* In large galleries the first floor comes from a look at all rows, and must not come from rows
 * that do not take part: here all of these are nearer. */
TEST(floors) {
  enum { MANY = 9000, K = 5 };
  AUTOFREE float *rows = malloc(MANY * 4 * sizeof *rows), *far = malloc(MANY / 2 * 4 * sizeof *far);
  AUTOFREE int32_t *labels = malloc(MANY * sizeof *labels);
  uint64_t seed = 3;
  for (uint64_t i = 0; i < MANY; i++) {
    for (uint64_t j = 0; j < 4; j++) rows[i * 4 + j] = draw(&seed) + (i % 2 == 0 ? 3.0f : -3.0f);
    if (i % 2 == 1) memcpy(far + i / 2 * 4, rows + i * 4, 4 * sizeof *rows);
    labels[i] = (int32_t)(i % 2);
  }
  for (int m = 0; m < 3; m++) {
    AUTO(kf_data) *data = data_of(rows, MANY, 4, labels, 2),
                  *some = data_of(far, MANY / 2, 4, NULL, 0);
    kf_gallery_options options = {.metric = metrics[m]};
    AUTO(kf_gallery) *g = NULL, *alone = NULL;
    AUTO(kf_filter) *f = NULL;
    int64_t found[2][8 * K];
    double scores[2][8 * K];
    assert_ok(ctx, kf_gallery_new(ctx, data, NULL, &options, &g));
    assert_ok(ctx, kf_gallery_new(ctx, some, NULL, &options, &alone));
    kf_filter_options bees = {.classes = write_text("bees.txt", "bee\n")};
    assert_ok(ctx, kf_filter_new(ctx, g, &bees, &f));
    kf_search_options only = {.only = f};
    assert_ok(ctx, kf_gallery_search(ctx, g, rows, 8, K, &only, found[0], scores[0], NULL));
    assert_ok(ctx, kf_gallery_search(ctx, alone, rows, 8, K, NULL, found[1], scores[1], NULL));
    for (int i = 0; i < 8 * K; i++) assert_int_equal(found[0][i], 2 * found[1][i] + 1);
    assert_memory_equal(scores[0], scores[1], sizeof scores[0]);
  }
}

TEST(refused) {
  AUTO(problem) *p = make_problem(ctx, 5, KF_METRIC_COSINE, KF_F32);
  kf_filter *f;
  AUTO(kf_ranges) *r = NULL;
  static const char *const nobody[] = {"nobody"};
  kf_filter_options none = {.ids = &(kf_id_list){.ids = nobody, .n = 1}};
  assert_error(ctx, KF_ERR_DATA, "no row of the gallery is left",
               kf_filter_new(ctx, p->gallery, &none, &f));
  assert_null(f);
  assert_error(ctx, KF_ERR_ARG, "not a number",
               kf_gallery_within(ctx, p->gallery, p->queries, 1, NAN, NULL, &r, NULL));
  assert_error(ctx, KF_ERR_ARG, "go past the end",
               kf_gallery_within_itself(ctx, p->gallery, ROWS, 1, 0, NULL, &r, NULL));
  assert_ok(ctx, kf_gallery_within(ctx, p->gallery, NULL, 0, 0, NULL, &r, NULL));
  assert_int_equal(r->queries, 0);
  kf_gallery *bare = plain_gallery(p->rows, 20, COLUMNS, NULL, KF_METRIC_COSINE);
  assert_error(ctx, KF_ERR_DATA, "no ids", kf_filter_new(ctx, bare, &none, &f));
  kf_filter_options classes = {.classes = write_text("c.txt", "1\n")};
  assert_error(ctx, KF_ERR_DATA, "no labels", kf_filter_new(ctx, bare, &classes, &f));
  kf_gallery_free(bare);
  /* Classes by number. */
  bare = plain_gallery(p->rows, 20, COLUMNS, p->labels, KF_METRIC_COSINE);
  uint64_t ones = 0;
  for (int i = 0; i < 20; i++) ones += p->labels[i] == 1;
  assert_ok(ctx, kf_filter_new(ctx, bare, &classes, &f));
  assert_int_equal(kf_filter_rows(f), ones);
  kf_filter_free(f);
  classes.classes = write_text("c.txt", "1\ncat\n");
  assert_error(ctx, KF_ERR_DATA, "line 2", kf_filter_new(ctx, bare, &classes, &f));
  static const char *const given[] = {"1", "cat", NULL};
  kf_filter_options listed = {.names = given, .n_names = 1};
  assert_ok(ctx, kf_filter_new(ctx, bare, &listed, &f));
  assert_int_equal(kf_filter_rows(f), ones);
  kf_filter_free(f);
  listed.n_names = 2;
  assert_error(ctx, KF_ERR_ARG, "'cat' is not the number", kf_filter_new(ctx, bare, &listed, &f));
  assert_error(
      ctx, KF_ERR_ARG, "class 2 is missing",
      kf_filter_new(ctx, p->gallery, &(kf_filter_options){.names = given, .n_names = 3}, &f));
  assert_error(ctx, KF_ERR_ARG, "list of classes is missing",
               kf_filter_new(ctx, p->gallery, &(kf_filter_options){.n_names = 3}, &f));
  assert_error(ctx, KF_ERR_DATA, "no row of the gallery is left",
               kf_filter_new(ctx, p->gallery, &(kf_filter_options){.names = given}, &f));
  kf_gallery_free(bare);
}

/* --- duplicates ------------------------------------------------------------------------------- */

static void unique_of(kf_ctx *c, uint64_t seed) {
  for (int m = 0; m < 3; m++) {
    AUTO(problem) *p = make_problem(c, seed + 50 + (uint64_t)m, metrics[m], KF_F32);
    static const double limits[3][2] = {{0.999, 1}, {0.05, 0}, {8, 6}};
    for (int which = 0; which < 2; which++) {
      double limit = limits[m][which];
      uint64_t found[ROWS], wanted[ROWS], pairs = 0, copies = 0;
      kf_unique about;
      AUTOFREE float *x = malloc(sizeof p->rows);
      assert_ok(c, kf_gallery_fetch(p->gallery, c->kernels, 0, ROWS, x, &c->err));
      /* Labels spread along pairs until none changes. */
      for (uint64_t i = 0; i < ROWS; i++) wanted[i] = i;
      for (bool more = true; more;) {
        more = false;
        pairs = 0;
        for (uint64_t i = 0; i < ROWS; i++)
          for (uint64_t j = 0; j < i; j++) {
            if (!is_within(metrics[m], score_of(c, metrics[m], x + i * COLUMNS, x + j * COLUMNS),
                           limit))
              continue;
            pairs++;
            uint64_t least = wanted[i] < wanted[j] ? wanted[i] : wanted[j];
            more = more || wanted[i] != wanted[j];
            wanted[i] = wanted[j] = least;
          }
      }
      assert_ok(c, kf_gallery_unique(c, p->gallery, limit, found, &about));
      assert_memory_equal(found, wanted, sizeof found);
      for (uint64_t i = 0; i < ROWS; i++) copies += wanted[i] != i;
      assert_int_equal(about.copies, copies);
      assert_int_equal(about.pairs, pairs);
      assert_true(m == 2 || about.groups > 10);
    }
  }
}

TEST(unique) { in_every_way(unique_of); }

FIXTURES(.before = make_test_folder, .after = remove_test_folder);
