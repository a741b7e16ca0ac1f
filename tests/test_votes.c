/* test_votes.c - neighbours that vote, and how often they are right. */
#include "galleries.h"

/* --- votes ----------------------------------------------------------------------------------- */

/* Points on a line, so the order of neighbours is obvious. */
static kf_gallery *line(const float *at_x, const int32_t *labels, uint64_t n) {
  return plain_gallery(at_x, n, 1, labels, KF_METRIC_EUCLIDEAN);
}

TEST(ties) {
  /* From 0.01 the order is 1, 2, 3, … */
  static const float x[] = {1, 2, 3, 4, 5, 6, 7, 8};
  static const int32_t labels[] = {2, 0, 0, 2, 1, -1, 1, 1};
  /* After k neighbours: the classes with votes, best first. */
  static const int32_t wanted[8][3] = {{2, -1, -1}, {2, 0, -1}, {0, 2, -1}, {2, 0, -1},
                                       {2, 0, 1},   {2, 0, 1},  {2, 0, 1},  {1, 2, 0}};
  static const double counted[8][3] = {{1, 0, 0}, {1, 1, 0}, {2, 1, 0}, {2, 2, 0},
                                       {2, 2, 1}, {2, 2, 1}, {2, 2, 2}, {3, 2, 2}};
  AUTO(kf_gallery) *g = line(x, labels, 8);
  float query = 0.01f;
  for (uint32_t k = 1; k <= 8; k++) {
    int32_t classes[3];
    double votes[3];
    kf_vote_options o = {.k = k, .top = 3};
    assert_ok(ctx, kf_gallery_classify(ctx, g, &query, 1, &o, classes, votes, NULL));
    assert_memory_equal(classes, wanted[k - 1], sizeof classes);
    for (int t = 0; t < 3; t++) assert_true(votes[t] == counted[k - 1][t]);
  }
}

/* Neighbours without labels do not vote; any class beats none. */
TEST(unlabelled_neighbours) {
  static const float x[] = {1, 2, 3, 4};
  static const int32_t labels[] = {-1, -1, 5, 5};
  AUTO(kf_gallery) *g = line(x, labels, 4);
  float query = 0.01f;
  int32_t class;
  double votes;
  kf_vote_options o = {.k = 2};
  assert_ok(ctx, kf_gallery_classify(ctx, g, &query, 1, &o, &class, &votes, NULL));
  assert_int_equal(class, KF_LABEL_NONE);
  assert_true(votes == 0);
  o.k = 3;
  assert_ok(ctx, kf_gallery_classify(ctx, g, &query, 1, &o, &class, &votes, NULL));
  assert_int_equal(class, 5);
  assert_true(votes == 1);
}

/* The second neighbour never changes the answer of the first. */
TEST(two_is_one) {
  AUTO(world) w = make_world(200, DIM, CLASSES, 1, 21), q = make_world(150, DIM, CLASSES, 1, 22);
  AUTO(kf_gallery) *g = plain_gallery(w.rows, w.n, DIM, w.labels, KF_METRIC_COSINE);
  int32_t one[150], two[150];
  for (int weighted = 0; weighted < 2; weighted++) {
    kf_vote_options o = {.k = 1, .weighted = weighted};
    assert_ok(ctx, kf_gallery_classify(ctx, g, q.rows, q.n, &o, one, NULL, NULL));
    o.k = 2;
    assert_ok(ctx, kf_gallery_classify(ctx, g, q.rows, q.n, &o, two, NULL, NULL));
    assert_memory_equal(one, two, sizeof one);
  }
}

/* Votes of one query by definition; temperature 0: each counts 1. */
static void naive_votes(const kf_gallery *g, const int64_t *rows, const double *scores, uint32_t k,
                        double temperature, double *votes) {
  for (uint32_t c = 0; c < CLASSES; c++) votes[c] = 0;
  bool distances = kf_gallery_metric(g) == KF_METRIC_EUCLIDEAN;
  for (uint32_t i = 0; i < k; i++) {
    double closer = distances ? scores[0] - scores[i] : scores[i] - scores[0];
    votes[kf_gallery_label(g, (uint64_t)rows[i])] +=
        temperature > 0 ? exp(closer / temperature) : 1;
  }
}

TEST(weighted_votes) {
  enum { K = 25, N = 150 };
  AUTO(world) w = make_world(300, DIM, CLASSES, 1, 23), q = make_world(N, DIM, CLASSES, 1, 24);
  static const double temperatures[] = {0, 0.001, 0.07, 3};
  int clear = 0;
  for (int metric = KF_METRIC_COSINE; metric <= KF_METRIC_INNER; metric++) {
    AUTO(kf_gallery) *g = plain_gallery(w.rows, w.n, DIM, w.labels, (kf_metric)metric);
    static int64_t rows[N * K];
    static double scores[N * K], votes[N * 2];
    static int32_t classes[N * 2];
    assert_ok(ctx, kf_gallery_search(ctx, g, q.rows, N, K, NULL, rows, scores, NULL));
    for (int t = 0; t < 4; t++) {
      kf_vote_options o = {.k = K, .top = 2, .weighted = 1, .temperature = temperatures[t]};
      assert_ok(ctx, kf_gallery_classify(ctx, g, q.rows, N, &o, classes, votes, NULL));
      double temperature = temperatures[t] > 0 ? temperatures[t] : 0.07;
      for (int i = 0; i < N; i++) {
        double want[CLASSES], best = 0, second = 0;
        naive_votes(g, rows + i * K, scores + i * K, K, temperature, want);
        int winner = 0;
        for (int c = 0; c < CLASSES; c++)
          if (want[c] > best) {
            second = best;
            best = want[winner = c];
          } else {
            second = fmax(second, want[c]);
          }
        assert_true(fabs(votes[2 * i] - best) < 1e-12 * best);
        assert_true(fabs(votes[2 * i + 1] - second) < 1e-12);
        if (best - second < 1e-9 * best) continue;
        assert_int_equal(classes[2 * i], winner);
        clear++;
      }
    }
  }
  assert_true(clear > 1700); /* of 1800: the comparison did take place */
  float row[DIM] = {1};
  int32_t class;
  AUTO(kf_gallery) *g = plain_gallery(w.rows, w.n, DIM, w.labels, KF_METRIC_COSINE);
  for (int i = 0; i < 3; i++) {
    kf_vote_options o = {.weighted = 1, .temperature = (double[]){-1, NAN, INFINITY}[i]};
    assert_error(ctx, KF_ERR_ARG, "temperature",
                 kf_gallery_classify(ctx, g, row, 1, &o, &class, NULL, NULL));
  }
}

/* More rows than are searched at a time. */
TEST(many_rows) {
  enum { N = 5000 };
  AUTO(world) w = make_world(100, 8, 4, 1, 25), q = make_world(N, 8, 4, 1, 26);
  AUTO(kf_gallery) *g = plain_gallery(w.rows, w.n, 8, w.labels, KF_METRIC_COSINE);
  static int32_t all[N * 2], one[2];
  static double votes[N * 2], vote[2];
  kf_search_report report = {0};
  kf_vote_options o = {.top = 2, .weighted = 1};
  assert_true(kf_gallery_batch(ctx, g) < N);
  assert_ok(ctx, kf_gallery_classify(ctx, g, q.rows, N, &o, all, votes, &report));
  assert_int_equal(report.queries, N);
  for (uint64_t i = 0; i < N; i += 7) {
    assert_ok(ctx, kf_gallery_classify(ctx, g, q.rows + i * 8, 1, &o, one, vote, NULL));
    assert_memory_equal(one, all + 2 * i, sizeof one);
    assert_memory_equal(vote, votes + 2 * i, sizeof vote);
  }
}

/* --- accuracy -------------------------------------------------------------------------------- */

/* Hits by classifying: whether the label is the first, and whether it is among the first five. */
static void hits_by_hand(const kf_gallery *g, const world *q, uint32_t k, int weighted,
                         uint64_t *top1, uint64_t *top5) {
  AUTOFREE int32_t *classes = malloc(q->n * 5 * sizeof *classes);
  kf_vote_options o = {.k = k, .top = 5, .weighted = weighted};
  assert_ok(ctx, kf_gallery_classify(ctx, g, q->rows, q->n, &o, classes, NULL, NULL));
  *top1 = *top5 = 0;
  for (uint64_t i = 0; i < q->n; i++)
    for (int t = 0; t < 5; t++)
      if (classes[i * 5 + (uint64_t)t] == q->labels[i]) {
        *top1 += t == 0;
        ++*top5;
      }
}

TEST(several_k) {
  enum { CLASSES_HERE = 30 };
  static const uint32_t k[] = {1, 2, 3, 7, 15, 40};
  world all = make_world(2700, 12, CLASSES_HERE, 1, 27), w = all, q = all;
  w.n = 1500;
  q.n = 1200; /* more than a block */
  q.rows = all.rows + 1500 * 12;
  q.labels = all.labels + 1500;
  AUTO(kf_gallery) *g = plain_gallery(w.rows, w.n, 12, w.labels, KF_METRIC_COSINE);
  AUTO(kf_data) *data = data_of(q.rows, q.n, 12, q.labels, 0);
  for (int weighted = 0; weighted < 2; weighted++) {
    kf_eval_result counts, alone;
    kf_hits hits[6], hit;
    kf_search_report report = {0};
    kf_gallery_eval_options o = {.k = k, .n_k = 6, .weighted = weighted};
    assert_ok(ctx, kf_gallery_eval(ctx, g, data, &o, &counts, hits, &report));
    assert_int_equal(report.queries, q.n);
    assert_int_equal(counts.n, q.n);
    assert_true(hits[5].top1 < hits[5].top5 && hits[5].top1 > 0);
    for (int t = 0; t < 6; t++) {
      uint64_t top1, top5;
      kf_gallery_eval_options single = {.k = k + t, .n_k = 1, .weighted = weighted};
      assert_ok(ctx, kf_gallery_eval(ctx, g, data, &single, &alone, &hit, NULL));
      assert_memory_equal(&hits[t], &hit, sizeof hit);
      assert_int_equal(hit.k, k[t]);
      hits_by_hand(g, &q, k[t], weighted, &top1, &top5);
      assert_int_equal(hit.top1, top1);
      assert_int_equal(hit.top5, top5);
    }
    assert_int_equal(hits[0].top1, hits[1].top1); /* k = 2 gives the same as k = 1 */
    assert_ok(ctx, kf_gallery_eval(ctx, g, data, NULL, &alone, &hit, NULL));
    assert_int_equal(hit.k, 15);
    if (!weighted) assert_memory_equal(&hits[4], &hit, sizeof hit);
  }
  free_world(&all);
}

/* Rows of every kind: numbered differently, absent, unlabelled, bad. */
TEST(counts_of_rows) {
  static const float x[] = {1, 2, 3, 10, 11, 12};
  static const int32_t labels[] = {0, 0, 0, 1, 1, -1};
  static const float q[] = {1.1f, 11.1f, 1.2f, 5, NAN, 7, 8, 9, 11.2f};
  static const int32_t q_labels[] = {2, 0, 0, 1, 1, -1, 3, 1, 0};
  static const char *const known[] = {"ant", "bee", "cat"};
  static const char *const asked[] = {"bee", "cow", "ant", "cat"};
  AUTO(kf_data) *data = NULL, *test = NULL;
  assert_ok(ctx, kf_data_open_memory(ctx, x, 6, 1, labels, known, 3, &data));
  assert_ok(ctx, kf_data_open_memory(ctx, q, 9, 1, q_labels, asked, 4, &test));
  test->skip_bad = true;
  AUTO(kf_gallery) *g = save_and_load(data, NULL, KF_METRIC_EUCLIDEAN);
  kf_eval_result counts;
  kf_hits hits;
  kf_gallery_eval_options o = {.k = (uint32_t[]){3}, .n_k = 1};
  assert_ok(ctx, kf_gallery_eval(ctx, g, test, &o, &counts, &hits, NULL));
  assert_int_equal(counts.rows, 9);
  assert_int_equal(counts.n, 4); /* ant, bee, bee, bee */
  assert_int_equal(counts.n_unlabelled, 1);
  assert_int_equal(counts.n_absent, 3); /* cow twice; cat has no rows in the gallery */
  assert_int_equal(counts.absent_classes, 2);
  assert_int_equal(counts.n_bad, 1);
  assert_int_equal(hits.top1, 3); /* the bee at 1.2 has ants around it */
  assert_int_equal(hits.top5, 3);
}

static void assert_no_score(const kf_gallery *g, const kf_data *data,
                            const kf_gallery_eval_options *o, kf_status status, const char *cause) {
  kf_eval_result counts = {.rows = 77}, before = counts;
  kf_hits hits = {.k = 88};
  assert_error(ctx, status, cause, kf_gallery_eval(ctx, g, data, o, &counts, &hits, NULL));
  assert_memory_equal(&counts, &before, sizeof counts);
  assert_int_equal(hits.k, 88);
}

TEST(nothing_to_score) {
  AUTO(world) w = make_world(30, 4, 3, 1, 28);
  int32_t far[30], none[30];
  for (int i = 0; i < 30; i++) {
    far[i] = 9;
    none[i] = -1;
  }
  kf_data *numbers = data_of(w.rows, 30, 4, w.labels, 0),
          *wide = data_of(w.rows, 20, 6, w.labels, 0);
  kf_data *named = data_of(w.rows, 30, 4, w.labels, 3), *bare = data_of(w.rows, 30, 4, NULL, 0);
  kf_data *absent = data_of(w.rows, 30, 4, far, 0), *unlabelled = data_of(w.rows, 30, 4, none, 0);
  kf_gallery *g = save_and_load(numbers, NULL, 0);
  assert_no_score(g, wide, NULL, KF_ERR_DATA, "has 6 columns, but the gallery takes 4");
  assert_no_score(g, bare, NULL, KF_ERR_DATA, "no labels to compare with");
  assert_no_score(g, named, NULL, KF_ERR_DATA, "those of the gallery only numbers");
  assert_no_score(g, absent, NULL, KF_ERR_DATA, "30 belong to classes that the gallery does not");
  kf_gallery_eval_options o = {.k = (uint32_t[]){1, 1}, .n_k = 2};
  assert_no_score(g, numbers, &o, KF_ERR_ARG, "must rise");
  o.k = (uint32_t[]){0, 1};
  assert_no_score(g, numbers, &o, KF_ERR_ARG, "must rise");
  o.n_k = 0;
  assert_no_score(g, numbers, &o, KF_ERR_ARG, "empty");
  o = (kf_gallery_eval_options){.k = (uint32_t[]){5, 31}, .n_k = 2};
  assert_no_score(g, numbers, &o, KF_ERR_ARG, "there are 30");
  o.k = (uint32_t[]){5, 30};
  assert_no_score(g, NULL, &o, KF_ERR_ARG, "there are 29");
  o = (kf_gallery_eval_options){.weighted = 1, .temperature = -1};
  assert_no_score(g, numbers, &o, KF_ERR_ARG, "temperature");
  kf_gallery_free(g);
  g = save_and_load(named, NULL, 0);
  assert_no_score(g, numbers, NULL, KF_ERR_DATA, "the classes of the gallery have names");
  kf_gallery_free(g);
  g = save_and_load(bare, NULL, 0);
  assert_no_score(g, numbers, NULL, KF_ERR_DATA, "no labels to vote with");
  kf_gallery_free(g);
  g = save_and_load(unlabelled, NULL, 0);
  assert_no_score(g, NULL, NULL, KF_ERR_DATA, "none of the 30 rows");
  kf_gallery_free(g);
  kf_data *all[] = {numbers, wide, named, bare, absent, unlabelled};
  for (int i = 0; i < 6; i++) kf_data_free(all[i]);
}

/* Leave-one-out by hand on a line: a class of one row is always missed. */
TEST(score_itself) {
  static const float x[] = {1, 2, 3.5f, 10, 11, 12.5f, 5, 20};
  static const int32_t labels[] = {0, 0, 0, 1, 1, 1, 2, -1};
  AUTO(kf_gallery) *g = line(x, labels, 8);
  kf_eval_result counts;
  kf_hits hits[2];
  kf_gallery_eval_options o = {.k = (uint32_t[]){1, 3}, .n_k = 2};
  assert_ok(ctx, kf_gallery_eval(ctx, g, NULL, &o, &counts, hits, NULL));
  assert_int_equal(counts.rows, 8);
  assert_int_equal(counts.n, 7);
  assert_int_equal(counts.n_unlabelled, 1);
  assert_int_equal(counts.n_absent + counts.n_bad + counts.absent_classes, 0);
  /* k = 1: 3.5 is as near to 2 as to 5 and takes the lower row; 5 finds 3.5. */
  assert_int_equal(hits[0].top1, 6);
  assert_int_equal(hits[0].top5, 6);
  assert_int_equal(hits[1].top1, 6);
  assert_int_equal(hits[1].top5, 6);
}

/* The same on rows of a world, against searching it with each row left out. */
TEST(score_itself_again) {
  enum { N = 1300, K = 9 };
  AUTO(world) w = make_world(N, 10, 8, 1, 29);
  for (int i = 0; i < N; i += 11) w.labels[i] = -1;
  AUTO(kf_gallery) *g = plain_gallery(w.rows, N, 10, w.labels, KF_METRIC_COSINE);
  static int64_t rows[N * K];
  static double scores[N * K];
  assert_ok(ctx, kf_gallery_search_itself(ctx, g, 0, N, K, rows, scores, NULL));
  kf_hits want = {.k = K}, hits;
  uint64_t n = 0;
  for (int i = 0; i < N; i++) {
    int votes[8] = {0}, first[8], rank = 0, own = w.labels[i];
    if (own < 0) continue;
    n++;
    for (int t = K - 1; t >= 0; t--) {
      int class = w.labels[rows[i * K + t]];
      if (class < 0) continue;
      votes[class]++;
      first[class] = t;
    }
    if (votes[own] == 0) continue;
    for (int c = 0; c < 8; c++)
      rank += votes[c] > votes[own] || (votes[c] == votes[own] && first[c] < first[own]);
    want.top1 += rank == 0;
    want.top5 += rank < 5;
  }
  kf_eval_result counts;
  kf_gallery_eval_options o = {.k = (uint32_t[]){K}, .n_k = 1};
  assert_ok(ctx, kf_gallery_eval(ctx, g, NULL, &o, &counts, &hits, NULL));
  assert_int_equal(counts.n, n);
  assert_memory_equal(&hits, &want, sizeof hits);
}

FIXTURES(.before = make_test_folder, .after = remove_test_folder);
