/* test_search.c - the nearest rows are those of brute force, to the bit, for every kind of data and
 * every way to search. */
#include "problems.h"

#include "search/shortlist.h"

static const kf_metric metrics[] = {KF_METRIC_COSINE, KF_METRIC_INNER, KF_METRIC_EUCLIDEAN};

static int suits(const kind *of, kf_metric metric) {
  return metric != KF_METRIC_COSINE || !of->zeros;
}

/* --- all kinds of data ----------------------------------------------------------------------- */

/* The k to try on n rows: a third of the list, a different third at each turn. */
static size_t choose_ks(uint64_t n, unsigned turn, uint32_t ks[9]) {
  uint32_t list[] = {1, 2, 5, 15, 100, 511, 1023, 1024, n < 1024 ? (uint32_t)n : 1024};
  size_t fit = 0, chosen = 0;
  for (size_t i = 0; i < 9; i++)
    if (list[i] <= n) list[fit++] = list[i];
  for (size_t i = turn % 3; i < fit; i += 3) ks[chosen++] = list[i];
  if (chosen == 0) ks[chosen++] = 1;
  return chosen;
}

static void all_instruction_sets(const answer *a, unsigned turn) {
  uint32_t ks[9];
  size_t n_ks = choose_ks(a->problem->shape.n, turn, ks);
  for (kf_isa isa = KF_ISA_PLAIN; isa <= KF_ISA_AMX; isa++) {
    if (!test_has_isa(isa)) continue;
    how h = {.isa = isa,
             .threads = 1 + turn % 2,
             .in_place = turn / 2 % 2 == 1,
             .from_data = turn / 4 % 2 == 1};
    check(a, &h, ks, n_ks, NULL);
  }
}

static const struct {
  uint32_t dim;
  uint64_t n;
} shapes[] = {{64, 1537}, {1, 3001}, {2, 1537},  {3, 1000},  {5, 513},    {8, 511},    {31, 65},
              {33, 63},   {63, 17},  {65, 1537}, {100, 513}, {130, 1000}, {257, 511},  {513, 65},
              {5, 1},     {64, 2},   {8, 15},    {33, 16},   {33, 3001},  {513, 1000}, {2, 63}};
#define N_SHAPES (sizeof shapes / sizeof shapes[0])

/* Every kind gets the first shape and a quarter of the others. */
static void check_kinds_of_data(kf_metric metric) {
  unsigned turn = 0;
  for (size_t i = 0; i < N_KINDS; i++) {
    if (!suits(&kinds[i], metric)) continue;
    for (size_t s = 0; s < N_SHAPES; s++) {
      if (s > 0 && (s + i) % 4 != 0) continue;
      AUTO(problem) p = make_problem(&kinds[i], shapes[s].n, shapes[s].dim, 4, 1 + i);
      AUTO(answer) a = solve(&p, metric);
      all_instruction_sets(&a, turn++);
    }
  }
}
TEST(kinds_of_data_cosine) { check_kinds_of_data(KF_METRIC_COSINE); }
TEST(kinds_of_data_inner) { check_kinds_of_data(KF_METRIC_INNER); }
TEST(kinds_of_data_euclidean) { check_kinds_of_data(KF_METRIC_EUCLIDEAN); }

/* The largest integer sums, and every number of columns up to a few vectors. */
TEST(widest_and_narrow_rows) {
  for (size_t m = 0; m < 3; m++) {
    problem p = make_problem(kind_named("signs"), 16, KF_MAX_DIM, 4, 3);
    memcpy(p.queries, p.rows, 2UL * KF_MAX_DIM * sizeof *p.rows); /* 1, 1, …; and -1, -1, … */
    answer a = solve(&p, metrics[m]);
    for (unsigned turn = 0; turn < 3; turn++) all_instruction_sets(&a, turn);
    free_answer(&a);
    free_problem(&p);
    for (uint32_t dim = 1; dim <= 131; dim++) {
      p = make_problem(&kinds[dim % 3], 70, dim, 3, dim);
      a = solve(&p, metrics[m]);
      all_instruction_sets(&a, dim);
      free_answer(&a);
      free_problem(&p);
    }
  }
}

/* The kinds aimed at the weak points of 8 bits and f32. With a small power of two of rows, the mean
 * that the index subtracts is exactly zero. */
TEST(weakest_places) {
  const struct {
    const char *name;
    uint32_t dim;
  } cases[] = {{"unlucky rounding", 64},
               {"unlucky queries", 64},
               {"long integers", 8192},
               {"equal products", 64}};
  for (size_t i = 0; i < 4; i++)
    for (size_t m = 0; m < 3; m++) {
      AUTO(problem) p = make_problem(kind_named(cases[i].name), 512, cases[i].dim, 5, 43);
      AUTO(answer) a = solve(&p, metrics[m]);
      for (unsigned turn = 0; turn < 3; turn++) all_instruction_sets(&a, turn);
    }
}

/* Enough rows to be divided among threads, with ties on both sides of each split. */
TEST(many_rows) {
  const char *const names[] = {"gaussian", "blocks of 700", "all equal", "ternary"};
  static const uint32_t ks[] = {1, 15, 1024};
  for (size_t i = 0; i < 4; i++)
    for (size_t m = 0; m < 3; m++) {
      AUTO(problem) p = make_problem(kind_named(names[i]), 30011, 8, 3, i);
      AUTO(answer) a = solve(&p, metrics[m]);
      for (kf_isa isa = KF_ISA_PLAIN; isa <= KF_ISA_AMX; isa++)
        for (unsigned threads = 1; threads <= 5; threads += 2)
          if (test_has_isa(isa))
            check(&a, &(how){.isa = isa, .threads = threads, .batch = 1 + threads / 2}, ks, 3,
                  NULL);
    }
}

/* The squares of two distances differ in their last bit, their roots do not. */
TEST(squares_of_distances_decide) {
  AUTO(kf_ctx) *ctx = test_ctx(1, KF_ISA_AUTO);
  const float rows[] = {1, 0x1p-26f, 1, 0}, query[] = {0, 0};
  AUTO(kf_index) *index = NULL;
  kf_index_options options = {.metric = KF_METRIC_EUCLIDEAN};
  assert_ok(ctx, kf_index_new(ctx, rows, 2, 2, &options, &index));
  int64_t found[2];
  double scores[2];
  assert_ok(ctx, kf_search(ctx, index, query, 1, 2, NULL, found, scores, NULL));
  assert_int_equal(found[0], 1);
  assert_int_equal(found[1], 0);
  assert_true(scores[0] == 1 && scores[1] == 1);
}

/* --- every way of calling --------------------------------------------------------------------- */

/* --- leading directions ----------------------------------------------------------------------- */

/* A first pass over leading directions gives the same answers, however useful the directions are:
 * few and nearly all of them, with threads, batches, rows left out and rows in f16. */
TEST(leading_directions) {
  static const uint32_t ks[] = {1, 15, 200};
  for (size_t i = 0; i < N_KINDS; i++)
    for (size_t m = i % 3; m < 3; m += 2) {
      if (!suits(&kinds[i], metrics[m])) continue;
      AUTO(problem) p = make_problem(&kinds[i], 700, 33, 20, 1 + i);
      if (i % 4 == 3) round_problem(&p, KF_F16);
      AUTO(answer) a = solve(&p, metrics[m]);
      int64_t leave_out[20];
      for (uint64_t q = 0; q < 20; q++) leave_out[q] = q % 2 == 0 ? a.rows[q * 700] : -1;
      for (kf_isa isa = KF_ISA_PLAIN; isa <= KF_ISA_AMX; isa++)
        for (uint32_t lead = 1; test_has_isa(isa) && lead < 33; lead += 10 + isa)
          check(&a,
                &(how){.isa = isa,
                       .threads = 1 + lead % 3,
                       .batch = lead,
                       .in_place = lead % 2 == 0,
                       .lead = lead},
                ks, 3, lead % 4 == 1 ? leave_out : NULL);
    }
}

/* Rows that vary in a few directions and little in the others. */
static void narrow(const shape *s, uint64_t i, float *x) {
  normals(s, i, 1, x);
  for (uint32_t j = 0; j < s->dim; j++) x[j] *= j < 24 ? 1 : 0.02f;
  for (uint32_t j = 24; j < s->dim; j++) x[j] += 0.3f * x[j % 24];
}

/* Leading directions are used where they pay: many queries, many rows, and little variance in the
 * other directions. Memory stays within what the header states. */
TEST(leading_by_rule) {
  enum { N = 33000, DIM = 160, QUERIES = 40, K = 15 };
  static const kind few = {.name = "narrow", .row = narrow};
  const kind *of[] = {&few, kind_named("gaussian")};
  static int64_t rows[2][QUERIES * K];
  static double scores[2][QUERIES * K];
  AUTO(kf_ctx) *ctx = test_ctx(2, KF_ISA_AUTO);
  for (int i = 0; i < 2; i++) {
    AUTO(problem) p = make_problem(of[i], N, DIM, QUERIES, 5);
    uint64_t bytes[2];
    for (int many = 0; many < 2; many++) {
      AUTO(kf_index) *index = NULL;
      kf_index_options options = {.queries = many ? 4096 : 4095};
      assert_ok(ctx, kf_index_new(ctx, p.rows, N, DIM, &options, &index));
      assert_int_equal(index->lead.n > 0, i == 0 && many);
      bytes[many] = kf_index_bytes(index);
      assert_ok(ctx, search_all(ctx, index, &p, K, 0, NULL, rows[many], scores[many], NULL));
    }
    assert_memory_equal(rows[0], rows[1], sizeof rows[0]);
    assert_memory_equal(scores[0], scores[1], sizeof scores[0]);
    assert_true((double)bytes[1] <= (double)bytes[0] + (i == 0 ? N * (0.6 * DIM + 80) : 0));
  }
}

static void ask_in_every_way(const answer *a) {
  static const uint64_t batches[] = {1, 7, 64, 4096};
  static const unsigned threads[] = {1, 2, 5};
  static const uint32_t ks[] = {15};
  for (kf_isa isa = KF_ISA_PLAIN; isa <= KF_ISA_AMX; isa++)
    for (size_t b = 0; b < 4 && test_has_isa(isa); b++)
      for (size_t t = 0; t < 3; t++)
        for (int from = 0; from < 4; from++)
          check(a,
                &(how){.isa = isa,
                       .threads = threads[t],
                       .batch = batches[b],
                       .in_place = from % 2 == 1,
                       .from_data = from / 2 == 1},
                ks, 1, NULL);
}

TEST(batches_threads_and_sources) {
  const char *const names[] = {"loose clusters", "every row thrice", "cone"};
  for (size_t m = 0; m < 3; m++) {
    AUTO(problem) p = make_problem(kind_named(names[m]), 513, 33, 150, 7);
    AUTO(answer) a = solve(&p, metrics[m]);
    ask_in_every_way(&a);
  }
}

/* More than 4,096 queries, of few short rows. */
TEST(many_queries) {
  static const uint32_t ks[] = {5};
  for (size_t m = 0; m < 3; m++) {
    AUTO(problem) p = make_problem(kind_named("every row thrice"), 65, 5, 5001, 11);
    AUTO(answer) a = solve(&p, metrics[m]);
    for (kf_isa isa = KF_ISA_PLAIN; isa <= KF_ISA_AMX; isa++)
      for (unsigned threads = 1; threads <= 5; threads += 2)
        for (uint64_t batch = 0; batch <= 4096 && test_has_isa(isa); batch += 4096)
          check(&a, &(how){.isa = isa, .threads = threads, .batch = batch}, ks, 1, NULL);
  }
}

/* Without rows_in_place the caller's array is not read after building; scores may be NULL. */
TEST(the_index_has_its_own_rows) {
  AUTO(kf_ctx) *ctx = test_ctx(2, KF_ISA_AUTO);
  for (size_t m = 0; m < 3; m++) {
    AUTO(problem) p = make_problem(kind_named("tight clusters"), 1000, 31, 20, 5);
    AUTO(answer) a = solve(&p, metrics[m]);
    AUTO(kf_index) *index = index_of(ctx, &p, metrics[m], false, NULL);
    memset(p.rows, 0xff, 1000 * 31 * sizeof *p.rows);
    int64_t rows[20 * 5];
    char text[256] = "";
    assert_ok(ctx, search_all(ctx, index, &p, 5, 0, NULL, rows, NULL, NULL));
    if (count_wrong(&a, 5, NULL, rows, NULL, text) > 0) fail_msg("%s", text);
    assert_int_equal(kf_index_rows(index), 1000);
    assert_int_equal(kf_index_dim(index), 31);
    assert_int_equal(kf_index_metric(index), metrics[m]);
  }
  AUTO(problem) p = make_problem(kind_named("gaussian"), 3, 2, 1, 5);
  AUTO(kf_index) *index = NULL;
  assert_ok(ctx, kf_index_new(ctx, p.rows, 3, 2, NULL, &index));
  assert_int_equal(kf_index_metric(index), KF_METRIC_COSINE);
  kf_index_free(NULL);
}

/* --- leaving out ----------------------------------------------------------------------------- */

/* Every row is a query and is left out of its own search, or none is, or some; an invalid row
 * number leaves out nothing. */
TEST(leave_out) {
  const char *const names[] = {"every row thrice", "all equal", "loose clusters", "cone"};
  static const uint32_t ks[] = {1, 15, 129};
  enum { N = 130 };
  for (size_t i = 0; i < 4; i++)
    for (size_t m = 0; m < 3; m++) {
      AUTO(problem) p = make_problem(kind_named(names[i]), N, 33, N, 13);
      memcpy(p.queries, p.rows, N * 33UL * sizeof *p.rows);
      AUTO(answer) a = solve(&p, metrics[m]);
      int64_t own[N], none[N], some[N];
      for (int64_t q = 0; q < N; q++) {
        own[q] = q;
        none[q] = q % 2 == 0 ? -1 : INT64_MIN;
        some[q] = q % 3 == 0 ? q : q % 3 == 1 ? -1 - q : INT64_MAX - q;
      }
      const int64_t *const lists[] = {own, none, some, NULL};
      for (size_t l = 0; l < 4; l++)
        for (kf_isa isa = KF_ISA_PLAIN; isa <= KF_ISA_AMX; isa++)
          if (test_has_isa(isa))
            check(&a, &(how){.isa = isa, .threads = 2, .batch = l % 2 == 0 ? 0 : 100}, ks, 3,
                  lists[l]);
    }
}

/* The initial lower bound of a search comes from the best of a few rows. It must not rely on a row
 * that is left out, nor on one far too long for 8 bits. */
TEST(first_floor) {
  static const uint32_t ks[] = {3, 15};
  enum { N = 20000, DIM = 32, NEAR = 3, LONG = 70 };
  for (size_t m = 0; m < 3; m++) {
    AUTO(problem) p = make_problem(kind_named("gaussian"), N, DIM, 1, 17);
    for (size_t j = 0; j < DIM; j++) p.queries[j] = j % 2 == 0 ? 1 : -1;
    for (size_t i = 0; i < NEAR; i++)
      for (size_t j = 0; j < DIM; j++) {
        p.rows[i * DIM + j] = p.queries[j];
        p.rows[(LONG + i) * DIM + j] = -1e4F * p.queries[j];
      }
    AUTO(answer) a = solve(&p, metrics[m]);
    const int64_t own = 0;
    for (kf_isa isa = KF_ISA_PLAIN; isa <= KF_ISA_AMX; isa++)
      if (test_has_isa(isa)) {
        check(&a, &(how){.isa = isa, .threads = 1}, ks, 2, &own);
        check(&a, &(how){.isa = isa, .threads = 1}, ks, 2, NULL);
      }
  }
}

/* --- the report ------------------------------------------------------------------------------ */

/* A query that is not finite or too long gives no bounds, even if no other query of its strip has a
 * factor. */
TEST(queries_without_end) {
  AUTO(kf_ctx) *ctx = test_ctx(1, KF_ISA_PLAIN);
  const float rows[] = {1, 2, 3, -1, 0, 1};
  const float queries[][3] = {{INFINITY, 0, 0}, {NAN, 1, 2}, {3e38f, -3e38f, 3e38f}};
  for (int metric = KF_METRIC_EUCLIDEAN; metric <= KF_METRIC_INNER; metric++) {
    AUTO(kf_index) *index = NULL;
    kf_index_options options = {.metric = (kf_metric)metric};
    assert_ok(ctx, kf_index_new(ctx, rows, 2, 3, &options, &index));
    AUTOFREE int8_t *bytes = malloc(index->padded);
    double workspace[6];
    for (int i = 0; i < 3; i++)
      for (int factor = 0; factor < 2; factor++) {
        kf_query q = kf_query_start(index, ctx->kernels, queries[i], workspace);
        assert_true(q.largest == INFINITY);
        memset(bytes, 1, index->padded);
        kf_query_round(index, ctx->kernels, queries[i], NULL, (float)factor, workspace, &q, bytes);
        assert_true(q.by_length == INFINITY && q.by_error == INFINITY && q.fixed == INFINITY);
        for (uint32_t b = 0; b < index->padded; b++) assert_int_equal(bytes[b], 0);
      }
  }
}

TEST(report_adds_up) {
  AUTO(kf_ctx) *ctx = test_ctx(2, KF_ISA_AUTO);
  AUTO(problem) p = make_problem(kind_named("gaussian"), 1000, 64, 50, 17);
  int64_t rows[50 * 15];
  double scores[50 * 15];
  for (size_t m = 0; m < 3; m++) {
    AUTO(kf_index) *index = index_of(ctx, &p, metrics[m], false, NULL);
    kf_search_report once = {0};
    assert_ok(ctx, search_all(ctx, index, &p, 15, 0, NULL, rows, scores, &once));
    assert_int_equal(once.queries, 50);
    assert_true(once.candidates >= 50 * 15 && once.candidates <= 50 * 1000);
    kf_search_report more = {.queries = 1000, .candidates = 1000000};
    assert_ok(ctx, search_all(ctx, index, &p, 15, 7, NULL, rows, scores, &more));
    assert_int_equal(more.queries, 1050);
    assert_true(more.candidates >= 1000000 + 50 * 15 && more.candidates <= 1000000 + 50 * 1000);
    kf_search_report failed = {.queries = 3, .candidates = 4};
    assert_error(ctx, KF_ERR_ARG, "k is 0",
                 kf_search(ctx, index, p.queries, 1, 0, NULL, rows, scores, &failed));
    assert_true(failed.queries == 3 && failed.candidates == 4);
  }
}

/* --- errors ---------------------------------------------------------------------------------- */

TEST(bad_arguments_of_an_index) {
  AUTO(kf_ctx) *ctx = test_ctx(1, KF_ISA_AUTO);
  float rows[6] = {1, 2, 3, 4, 5, 6};
  kf_index *index = NULL;
  kf_index_options options = {0};
  assert_int_equal(kf_index_new(NULL, rows, 2, 3, NULL, &index), KF_ERR_ARG);
  assert_error(ctx, KF_ERR_ARG, "NULL", kf_index_new(ctx, NULL, 2, 3, NULL, &index));
  assert_error(ctx, KF_ERR_ARG, "NULL", kf_index_new(ctx, rows, 2, 3, NULL, NULL));
  assert_error(ctx, KF_ERR_ARG, "0 columns", kf_index_new(ctx, rows, 2, 0, NULL, &index));
  assert_error(ctx, KF_ERR_ARG, "65537 columns", kf_index_new(ctx, rows, 2, 65537, NULL, &index));
  assert_error(ctx, KF_ERR_DATA, "no rows", kf_index_new(ctx, rows, 0, 3, NULL, &index));
  assert_error(ctx, KF_ERR_DATA, "no rows", kf_index_new(ctx, NULL, 0, 3, NULL, &index));
  options.metric = (kf_metric)(KF_METRIC_INNER + 1);
  assert_error(ctx, KF_ERR_ARG, "metric 4", kf_index_new(ctx, rows, 2, 3, &options, &index));
  options.metric = (kf_metric)-1;
  assert_error(ctx, KF_ERR_ARG, "metric -1", kf_index_new(ctx, rows, 2, 3, &options, &index));
  assert_int_equal(kf_index_new_from_data(NULL, NULL, NULL, &index), KF_ERR_ARG);
  assert_error(ctx, KF_ERR_ARG, "NULL", kf_index_new_from_data(ctx, NULL, NULL, &index));
  AUTO(kf_data) *data = NULL;
  assert_ok(ctx, kf_data_open_memory(ctx, rows, 2, 3, NULL, NULL, 0, &data));
  assert_error(ctx, KF_ERR_ARG, "NULL", kf_index_new_from_data(ctx, data, NULL, NULL));
  assert_error(ctx, KF_ERR_ARG, "metric -1", kf_index_new_from_data(ctx, data, &options, &index));
  assert_null(index);
}

/* One bad element or row, in any block, is reported by number. */
TEST(bad_rows) {
  const float values[] = {NAN, INFINITY, -INFINITY, 0};
  for (unsigned threads = 1; threads <= 2; threads++)
    for (size_t m = 0; m < 3; m++)
      for (size_t v = 0; v < 4; v++) {
        AUTO(kf_ctx) *ctx = test_ctx(threads, KF_ISA_AUTO);
        AUTO(problem) p = make_problem(kind_named("gaussian"), 1537, 5, 1, 19);
        kf_index_options options = {.metric = metrics[m], .rows_in_place = v % 2 == 0};
        kf_index *index = NULL;
        AUTO(kf_data) *data = NULL;
        assert_ok(ctx, kf_data_open_memory(ctx, p.rows, 1537, 5, NULL, NULL, 0, &data));
        for (size_t j = 0; j < 5; j++)
          if (values[v] == 0 || j == 4) p.rows[1234 * 5 + j] = values[v];
        if (values[v] == 0 && metrics[m] != KF_METRIC_COSINE) {
          assert_ok(ctx, kf_index_new(ctx, p.rows, 1537, 5, &options, &index));
          kf_index_free(index);
        } else {
          assert_error(ctx, KF_ERR_DATA, "row 1234",
                       kf_index_new(ctx, p.rows, 1537, 5, &options, &index));
          assert_error(ctx, KF_ERR_DATA, "row 1234",
                       kf_index_new_from_data(ctx, data, &options, &index));
          assert_null(index);
        }
      }
}

TEST(bad_arguments_of_a_search) {
  AUTO(kf_ctx) *ctx = test_ctx(2, KF_ISA_AUTO);
  AUTO(problem) p = make_problem(kind_named("gaussian"), 1537, 5, 4, 23);
  problem few = p;
  few.shape.n = 10;
  int64_t rows[4 * 10], out[4] = {0, -1, 9, -1};
  double scores[4 * 10];
  kf_search_options options = {.leave_out = out};
  kf_index *index = index_of(ctx, &p, KF_METRIC_INNER, false, NULL);
  assert_error(ctx, KF_ERR_ARG, "k is 0",
               kf_search(ctx, index, p.queries, 1, 0, NULL, rows, scores, NULL));
  assert_error(ctx, KF_ERR_ARG, "k is 1025",
               kf_search(ctx, index, p.queries, 1, 1025, NULL, rows, scores, NULL));
  assert_int_equal(kf_search(NULL, index, p.queries, 1, 1, NULL, rows, scores, NULL), KF_ERR_ARG);
  assert_error(ctx, KF_ERR_ARG, "NULL",
               kf_search(ctx, NULL, p.queries, 1, 1, NULL, rows, scores, NULL));
  assert_error(ctx, KF_ERR_ARG, "NULL",
               kf_search(ctx, index, NULL, 1, 1, NULL, rows, scores, NULL));
  assert_error(ctx, KF_ERR_ARG, "NULL",
               kf_search(ctx, index, p.queries, 1, 1, NULL, NULL, scores, NULL));
  kf_index_free(index);
  index = index_of(ctx, &few, KF_METRIC_INNER, false, NULL);
  assert_error(ctx, KF_ERR_ARG, "11 nearest",
               kf_search(ctx, index, p.queries, 1, 11, NULL, rows, scores, NULL));
  assert_error(ctx, KF_ERR_ARG, "10 nearest",
               kf_search(ctx, index, p.queries, 4, 10, &options, rows, scores, NULL));
  assert_ok(ctx, kf_search(ctx, index, p.queries, 4, 10, NULL, rows, scores, NULL));
  assert_ok(ctx, kf_search(ctx, index, p.queries, 4, 9, &options, rows, scores, NULL));
  kf_search_report report = {0};
  assert_ok(ctx, kf_search(ctx, index, NULL, 0, 9, NULL, NULL, NULL, &report));
  assert_ok(ctx, kf_search(ctx, index, p.queries, 0, 9, &options, rows, scores, &report));
  assert_true(report.queries == 0 && report.candidates == 0);
  kf_index_free(index);
}

TEST(bad_queries) {
  const float values[] = {NAN, INFINITY, -INFINITY, 0};
  AUTO(kf_ctx) *ctx = test_ctx(2, KF_ISA_AUTO);
  int64_t rows[9];
  double scores[9];
  for (size_t m = 0; m < 3; m++)
    for (size_t v = 0; v < 4; v++) {
      AUTO(problem) p = make_problem(kind_named("gaussian"), 100, 13, 9, 29);
      AUTO(kf_index) *index = index_of(ctx, &p, metrics[m], false, NULL);
      for (size_t j = 0; j < 13; j++)
        if (values[v] == 0 || j == 12) p.queries[3 * 13 + j] = values[v];
      if (values[v] == 0 && metrics[m] != KF_METRIC_COSINE)
        assert_ok(ctx, kf_search(ctx, index, p.queries, 9, 1, NULL, rows, scores, NULL));
      else
        assert_error(ctx, KF_ERR_DATA, "query 3",
                     kf_search(ctx, index, p.queries, 9, 1, NULL, rows, scores, NULL));
    }
}

/* --- the first pass --------------------------------------------------------------------------- */

/* A data set whose rows can no longer be read once `broken` is set. */
typedef struct breakable {
  kf_data base;
  const float *rows;
  bool broken;
} breakable;

static kf_status fetch_breakable(const kf_data *data, const kf_kernels *kernels, uint64_t first,
                                 uint64_t n, float *rows, int32_t *labels, kf_err *err) {
  (void)kernels;
  const breakable *from = (const breakable *)data;
  if (from->broken) return kf_fail(err, KF_ERR_IO, "the disk is gone");
  if (rows != NULL) memcpy(rows, from->rows + first * data->dim, n * data->dim * sizeof *rows);
  for (uint64_t i = 0; labels != NULL && i < n; i++) labels[i] = KF_LABEL_NONE;
  return KF_OK;
}

static void where_breakable(const kf_data *data, uint64_t row, char *text, size_t size) {
  (void)data;
  snprintf(text, size, "row %" PRIu64, row);
}

/* An index of resident rows keeps no copy and gives the same answers. */
TEST(resident_rows) {
  enum { N = 3000, DIM = 70 };
  AUTO(kf_ctx) *ctx = test_ctx(2, KF_ISA_AUTO);
  AUTO(problem) p = make_problem(kind_named("gaussian"), N, DIM, 20, 5);
  for (size_t m = 0; m < 3; m++) {
    AUTO(answer) a = solve(&p, metrics[m]);
    AUTO(kf_index) *borrowed = given_index_of(ctx, &p, metrics[m], &(how){.resident = true});
    AUTO(kf_index) *copied = given_index_of(ctx, &p, metrics[m], &(how){0});
    assert_ptr_equal(borrowed->rows, p.rows);
    assert_ptr_not_equal(copied->rows, p.rows);
    assert_int_equal(kf_index_bytes(borrowed) + N * DIM * sizeof(float), kf_index_bytes(copied));
    int64_t rows[20 * 5];
    double scores[20 * 5];
    char text[256];
    assert_ok(ctx, search_all(ctx, borrowed, &p, 5, 0, NULL, rows, scores, NULL));
    assert_int_equal(count_wrong(&a, 5, NULL, rows, scores, text), 0);
  }
}

/* An index in place fetches from its source again and returns its errors; one with a copy does not,
 * and takes more memory. */
TEST(source_that_breaks_later) {
  for (kf_isa isa = KF_ISA_PLAIN; isa <= KF_ISA_AMX; isa++)
    for (unsigned threads = 1; threads <= 5 && test_has_isa(isa); threads += 2)
      for (size_t m = 0; m < 3; m++) {
        AUTO(kf_ctx) *ctx = test_ctx(threads, isa);
        AUTO(problem) p = make_problem(kind_named("gaussian"), 1000, 33, 20, 31);
        breakable data = {
            .base = {.rows = 1000, .dim = 33, .fetch = fetch_breakable, .where = where_breakable},
            .rows = p.rows};
        AUTO(answer) a = solve(&p, metrics[m]);
        AUTO(kf_index) *in_place = index_of(ctx, &p, metrics[m], true, &data.base);
        AUTO(kf_index) *copied = index_of(ctx, &p, metrics[m], false, &data.base);
        assert_true(kf_index_bytes(in_place) + 1000 * 33 * sizeof(float) <= kf_index_bytes(copied));
        int64_t rows[20 * 5];
        double scores[20 * 5];
        char text[256];
        for (int broken = 0; broken < 3; broken++) { /* works, breaks, and is repaired */
          data.broken = broken == 1;
          if (data.broken)
            assert_error(ctx, KF_ERR_IO, "the disk is gone",
                         search_all(ctx, in_place, &p, 5, 0, NULL, rows, scores, NULL));
          else
            assert_ok(ctx, search_all(ctx, in_place, &p, 5, 0, NULL, rows, scores, NULL));
          if (!data.broken) assert_int_equal(count_wrong(&a, 5, NULL, rows, scores, text), 0);
          assert_ok(ctx, search_all(ctx, copied, &p, 5, 0, NULL, rows, scores, NULL));
          assert_int_equal(count_wrong(&a, 5, NULL, rows, scores, text), 0);
        }
        data.broken = true;
        kf_index *index = NULL;
        assert_error(ctx, KF_ERR_IO, "the disk is gone",
                     kf_index_new_from_data(ctx, &data.base, NULL, &index));
        assert_null(index);
      }
}

/* --- progress --------------------------------------------------------------------------------- */

/* Progress messages by stage, in order of arrival. */
typedef struct heard {
  size_t n;
  char what[4][16];
  uint64_t done[4], total[4];
  bool fell; /* progress went backwards */
} heard;

static int hear(void *user, const char *what, uint64_t done, uint64_t total) {
  heard *h = user;
  if (h->n == 0 || strcmp(h->what[h->n - 1], what) != 0) {
    assert_true(h->n < 4);
    snprintf(h->what[h->n++], sizeof h->what[0], "%s", what);
  }
  size_t i = h->n - 1;
  h->fell = h->fell || done < h->done[i];
  h->done[i] = done;
  h->total[i] = total;
  return 0;
}

/* Building an index is one stage from start to end: no work follows 100 %. */
TEST(building_is_heard) {
  enum { DIM = 64, N = (1 << 26) / DIM + 1 };
  heard h = {0};
  AUTO(kf_ctx) *ctx = NULL;
  AUTO(kf_index) *index = NULL;
  AUTOFREE float *rows = malloc(sizeof(float) * N * DIM);
  for (size_t i = 0; i < (size_t)N * DIM; i++) rows[i] = (float)(i * 31 % 97 + 1);
  assert_int_equal(kf_ctx_new(&(kf_ctx_options){.threads = 1, .progress = hear, .user = &h}, &ctx),
                   KF_OK);
  assert_ok(ctx, kf_index_new(ctx, rows, N, DIM, &(kf_index_options){.dtype = KF_F16}, &index));
  assert_int_equal(h.n, 1);
  assert_string_equal(h.what[0], "load");
  assert_true(h.done[0] == N && h.total[0] == N);
  assert_false(h.fell);
}

/* On easy data few rows survive the first pass. */
TEST(first_pass_filters) {
  enum { N = 3001, K = 15, QUERIES = 60 };
  AUTO(problem) p = make_problem(kind_named("gaussian"), N, 64, QUERIES, 37);
  int64_t rows[QUERIES * K];
  double scores[QUERIES * K];
  for (kf_isa isa = KF_ISA_PLAIN; isa <= KF_ISA_AMX; isa++)
    for (size_t m = 0; m < 3 && test_has_isa(isa); m++) {
      AUTO(kf_ctx) *ctx = test_ctx(1, isa);
      AUTO(kf_index) *index = index_of(ctx, &p, metrics[m], false, NULL);
      kf_search_report report = {0};
      assert_ok(ctx, search_all(ctx, index, &p, K, 0, NULL, rows, scores, &report));
      print_message("%s, %s: %.1f candidates a query\n", kf_isa_name(isa), metric_name(metrics[m]),
                    (double)report.candidates / QUERIES);
      assert_true(report.candidates >= (uint64_t)QUERIES * K);
      assert_true(report.candidates < (uint64_t)QUERIES * N / 4);
    }
}

/* With many queries, lower bounds are guessed from a sample spread over them. Here the sampled
 * queries have their neighbours late and the others early, so guesses are far too high and those
 * queries must be searched again. */
TEST(guesses_that_are_wrong) {
  enum { N = 33000, DIM = 8, QUERIES = 960, K = 5, SPREAD = QUERIES / 96 };
  AUTOFREE float *rows = malloc(sizeof(float) * N * DIM),
                 *queries = malloc(sizeof(float) * QUERIES * DIM);
  int64_t *found[2] = {malloc(sizeof(int64_t) * QUERIES * K),
                       malloc(sizeof(int64_t) * QUERIES * K)};
  double *scores[2] = {malloc(sizeof(double) * QUERIES * K), malloc(sizeof(double) * QUERIES * K)};
  uint64_t seed = 3;
  for (uint64_t i = 0; i < N; i++) {
    for (uint32_t j = 0; j < DIM; j++) rows[i * DIM + j] = 0.5f * (float)test_uniform(&seed);
    if (i < 200) rows[i * DIM] += 1;                     /* neighbours of most queries */
    if (i < 1000 && i % 50 == 0) rows[i * DIM + 1] += 1; /* and of the sampled ones: */
    if (i > 2000 && i % 50 == 0) rows[i * DIM + 1] += 5; /* much nearer ones later */
  }
  for (uint64_t q = 0; q < QUERIES; q++) {
    bool first = q % SPREAD == 0;
    float length = first ? (float)(1 + q / SPREAD % 3) : 1; /* the sampled ones */
    for (uint32_t j = 0; j < DIM; j++)
      queries[q * DIM + j] =
          length * ((j == (first ? 1 : 0) ? 1 : 0) + 0.01f * (float)test_uniform(&seed));
  }
  problem p = {.shape = {.n = N, .dim = DIM}, .rows = rows};
  for (kf_isa isa = KF_ISA_PLAIN; isa <= KF_ISA_AMX; isa++) {
    if (!test_has_isa(isa)) continue;
    AUTO(kf_ctx) *ctx = test_ctx(1 + (unsigned)isa % 2, isa);
    AUTO(kf_index) *index = given_index_of(ctx, &p, KF_METRIC_INNER, &(how){0});
    for (uint64_t q = 0; q < QUERIES; q += 96) /* too few per call for guesses */
      assert_ok(ctx, kf_search(ctx, index, queries + q * DIM, 96, K, NULL, found[0] + q * K,
                               scores[0] + q * K, NULL));
    assert_ok(ctx, kf_search(ctx, index, queries, QUERIES, K, NULL, found[1], scores[1], NULL));
    assert_memory_equal(found[0], found[1], sizeof(int64_t) * QUERIES * K);
    assert_memory_equal(scores[0], scores[1], sizeof(double) * QUERIES * K);
    assert_true(found[1][0] > 2000 && found[1][K] < 200);
  }
  for (int i = 0; i < 2; i++) free(found[i]), free(scores[i]);
}

/* Merging keeps the higher guess: with the lower one, a list that lacks rows below its guess would
 * seem complete. */
TEST(guesses_of_merged_lists) {
  double lower[2][1];
  kf_shortlist list = {.lower = lower[0]}, other = {.lower = lower[1]};
  for (double guess = 1; guess < 4; guess++) {
    kf_shortlist_start(&list, 1);
    kf_shortlist_start(&other, 1);
    list.guess = 2;
    other.guess = guess;
    assert_int_equal(kf_shortlist_merge(&list, &other, 1, 1, 0, NULL, NULL), KF_OK);
    assert_true(list.guess == (guess > 2 ? guess : 2));
  }
}

static kf_status fetch_floats(const void *self, const kf_kernels *kernels, uint64_t first,
                              uint64_t n, float *rows, kf_err *err) {
  (void)kernels, (void)err;
  memcpy(rows, (const float *)self + first * 24, n * 24 * sizeof *rows);
  return KF_OK;
}

/* The f64 sum of a long row loses the term that makes it nearest, so a short row seems nearer: the
 * lengths of the rows show that sums cannot decide. */
TEST(sums_that_lose_the_nearest) {
  enum { N = 256, DIM = 24, LONG = 200, SHORT = 130 };
  const float huge = 0x1p30f;
  float *rows = calloc(N * DIM, sizeof *rows), query[DIM] = {0};
  query[0] = query[16] = huge;
  query[8] = 1;
  for (uint64_t i = 0; i < N; i++) { /* rows and their opposites, so that the mean is zero */
    float sign = i % 2 == 0 ? 1 : -1, *x = rows + i * DIM;
    x[1] = i / 2 == SHORT / 2 || i / 2 == LONG / 2 ? 0 : sign * huge;
    x[0] = i / 2 == LONG / 2 ? sign * huge : 0; /* huge^2 + 1 - huge^2, in one lane */
    x[8] = i / 2 == LONG / 2 ? sign : i / 2 == SHORT / 2 ? sign / 2 : 0;
    x[16] = -x[0];
  }
  AUTO(kf_ctx) *ctx = test_ctx(1, KF_ISA_AUTO);
  kf_source source = {.rows = N, .dim = DIM, .fetch = fetch_floats, .self = rows};
  AUTO(kf_index) *index = NULL;
  int64_t found[2];
  assert_ok(ctx, kf_index_build(ctx, &source, KF_METRIC_INNER, false, &index));
  assert_ok(ctx, kf_search(ctx, index, query, 1, 2, NULL, found, NULL, NULL));
  assert_int_equal(found[0], LONG);
  assert_int_equal(found[1], SHORT);
  free(rows);
}

/* With few queries, rows are divided among threads: queries that are among the first rows of a
 * thread's share are searched without themselves. */
TEST(divided_rows_without_themselves) {
  enum { N = 20000, DIM = 32, THREADS = 3, QUERIES = 12 };
  AUTO(problem) p = make_problem(kind_named("gaussian"), N, DIM, QUERIES, 7);
  AUTO(kf_ctx) *ctx = test_ctx(THREADS, KF_ISA_AUTO);
  AUTO(kf_index) *index = given_index_of(ctx, &p, KF_METRIC_COSINE, &(how){0});
  assert_true(index->n_blocks >= THREADS);
  int64_t own[QUERIES], found[QUERIES];
  for (uint32_t q = 0; q < QUERIES; q++) {
    uint64_t slice = index->n_blocks * (1 + q % (THREADS - 1)) / THREADS * index->block_rows;
    own[q] = (int64_t)(slice + 37 * q);
    memcpy(p.queries + q * DIM, p.rows + own[q] * DIM, DIM * sizeof *p.rows);
  }
  AUTO(answer) a = solve(&p, KF_METRIC_COSINE);
  double scores[QUERIES];
  char text[256];
  assert_ok(ctx, search_all(ctx, index, &p, 1, 0, own, found, scores, NULL));
  assert_int_equal(count_wrong(&a, 1, own, found, scores, text), 0);
}

/* The number of wrong queries if the error bound is multiplied by `scale`. */
static uint64_t wrong_with_bound(const answer *a, kf_isa isa, uint32_t lead, double scale) {
  enum { K = 15 };
  const problem *p = a->problem;
  AUTO(kf_ctx) *ctx = test_ctx(1, isa);
  AUTOFREE int64_t *rows = malloc(p->n_queries * K * sizeof *rows);
  AUTOFREE double *scores = malloc(p->n_queries * K * sizeof *scores);
  char text[256];
  how h = {.lead = lead};
  AUTO(kf_index) *index = given_index_of(ctx, p, a->metric, &h);
  assert_true(index->bound_scale == 1);
  index->bound_scale = scale;
  assert_ok(ctx, search_all(ctx, index, p, K, 0, NULL, rows, scores, NULL));
  uint64_t wrong = count_wrong(a, K, NULL, rows, scores, text);
  return wrong;
}

/* The bound is needed: without it, some answers are wrong. */
TEST(bound_is_needed) {
  const char *const names[] = {"loose clusters", "cone", "unlucky rounding"};
  for (size_t m = 0; m < 3; m++) {
    uint64_t wrong[KF_ISA_AMX + 1] = {0}, leading[KF_ISA_AMX + 1] = {0};
    for (size_t i = 0; i < 3; i++) {
      AUTO(problem) p = make_problem(kind_named(names[i]), 3001, 64, 60, 41);
      AUTO(answer) a = solve(&p, metrics[m]);
      for (kf_isa isa = KF_ISA_PLAIN; isa <= KF_ISA_AMX; isa++) {
        if (!test_has_isa(isa)) continue;
        assert_int_equal(wrong_with_bound(&a, isa, 0, 1), 0);
        assert_int_equal(wrong_with_bound(&a, isa, 32, 1), 0);
        wrong[isa] += wrong_with_bound(&a, isa, 0, 0);
        leading[isa] += wrong_with_bound(&a, isa, 32, 0);
      }
    }
    for (kf_isa isa = KF_ISA_PLAIN; isa <= KF_ISA_AMX; isa++) {
      if (!test_has_isa(isa)) continue;
      print_message("%s, %s: %" PRIu64 " of 180 queries wrong without the bound, %" PRIu64
                    " by leading directions\n",
                    kf_isa_name(isa), metric_name(metrics[m]), wrong[isa], leading[isa]);
      assert_true(wrong[isa] > 0 && leading[isa] > 0);
    }
  }
}
