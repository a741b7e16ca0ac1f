/* test_reject.c - the threshold for rows of unknown classes: an exact quantile of the best scores
 * of rows that are left out, compared with refitting without them. */
#include "world.h"

#include "choose/choose.h"

enum { N = 60, D = 6, K = 4 };

TEST(quantiles) {
  double ten[10] = {5, 1, 4, 10, 2, 8, 3, 9, 6, 7};
  assert_true(kf_score_reached_by(ten, 10, 0.95) == 1); /* all ten: nine are 90 % */
  assert_true(kf_score_reached_by(ten, 10, 0.9) == 2);
  assert_true(kf_score_reached_by(ten, 10, 0.5) == 6);
  assert_true(kf_score_reached_by(ten, 10, 1e-9) == 10);
  assert_true(kf_score_reached_by(ten, 10, 1) == 1);
  assert_true(kf_score_reached_by(ten, 1, 0.3) == 1);
  double equal[4] = {2, 2, 2, 1};
  assert_true(kf_score_reached_by(equal, 4, 0.75) == 2);
}

static int by_value(const void *a, const void *b) {
  const double *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

/* The best scores of all rows, each from a model without it, rising. */
static void refit(kf_ctx *ctx, const world *w, const kf_fit_options *o, double *best) {
  for (uint64_t i = 0; i < N; i++) {
    float rows[N * D];
    int32_t labels[N], class;
    uint64_t n = 0;
    for (uint64_t j = 0; j < N; j++) {
      if (j == i) continue;
      memcpy(rows + n * D, w->rows + j * D, D * sizeof *rows);
      labels[n++] = w->labels[j];
    }
    AUTO(kf_data) *data = NULL;
    AUTO(kf_model) *m = NULL;
    kf_fit_options without = *o;
    without.reject = 0;
    assert_ok(ctx, kf_data_open_memory(ctx, rows, n, D, labels, NULL, K, &data));
    assert_ok(ctx, kf_fit(ctx, data, &without, &m, NULL));
    assert_ok(ctx, kf_classify(ctx, m, w->rows + i * D, 1, NULL, &class, &best[i]));
  }
  qsort(best, N, sizeof *best, by_value);
}

/* The shrunk method keeps the scales of columns and the strength of shrinking of all rows, so it
 * may differ a little. */
TEST(as_refitting) {
  AUTO(kf_ctx) *ctx = test_ctx(2, KF_ISA_AUTO);
  AUTO(world) w = make_world(N, D, K, 1, 3);
  AUTO(kf_data) *data = NULL;
  assert_ok(ctx, kf_data_open_memory(ctx, w.rows, N, D, w.labels, NULL, K, &data));
  for (int way = 0; way < 4; way++) {
    bool raw = way & 1, shrunk = way & 2;
    double best[N], share;
    kf_fit_options o = {
        .lambda = {2, KF_LAMBDA_ABSOLUTE},
        .method = shrunk ? KF_METHOD_SHRUNK : KF_METHOD_PAPER,
        .stats_options = {.normalize = raw ? KF_OFF : KF_ON, .exponent = 18, .fixed_exponent = raw},
        .reject = 0.9};
    AUTO(kf_model) *m = NULL;
    assert_ok(ctx, kf_fit(ctx, data, &o, &m, NULL));
    double threshold = kf_model_reject(m, &share), tolerance = shrunk ? 0.05 : 1e-5;
    assert_true(share == 0.9);
    refit(ctx, &w, &o, best);
    double want = raw ? best[N * 9 / 10 - 1] : best[N / 10]; /* 54 of 60 keep it */
    if (!(fabs(threshold - want) <= tolerance * fabs(want)))
      fail_msg("way %d: %g, not %g", way, threshold, want);
    uint64_t known = 0;
    for (int i = 0; i < N; i++) known += kf_model_knows(m, best[i]) != 0;
    assert_true(shrunk ? known >= 51 && known <= 57 : known >= 53 && known <= 55);
  }
}

/* The same bits whatever the threads. */
TEST(same_bits) {
  double first = 0;
  for (unsigned threads = 1; threads <= 4; threads++) {
    AUTO(kf_ctx) *ctx = test_ctx(threads, threads == 1 ? KF_ISA_PLAIN : KF_ISA_AUTO);
    AUTO(world) w = make_world(N, D, K, 1, 4);
    AUTO(kf_data) *data = NULL;
    AUTO(kf_model) *m = NULL;
    assert_ok(ctx, kf_data_open_memory(ctx, w.rows, N, D, w.labels, NULL, K, &data));
    assert_ok(ctx, kf_fit(ctx, data, &(kf_fit_options){.reject = 0.8}, &m, NULL));
    if (threads == 1) first = kf_model_reject(m, NULL);
    assert_true(kf_model_reject(m, NULL) == first);
  }
}

TEST(refused) {
  AUTO(kf_ctx) *ctx = test_ctx(1, KF_ISA_AUTO);
  AUTO(world) w = make_world(N, D, K, 1, 3);
  AUTO(kf_stats) *s = stats_of(ctx, &w, 0);
  AUTO(kf_data) *data = NULL;
  kf_model *m;
  assert_ok(ctx, kf_data_open_memory(ctx, w.rows, N, D, w.labels, NULL, K, &data));
  assert_error(ctx, KF_ERR_ARG, "between 0 and 1",
               kf_fit(ctx, data, &(kf_fit_options){.reject = 1}, &m, NULL));
  assert_error(ctx, KF_ERR_ARG, "between 0 and 1",
               kf_fit(ctx, data, &(kf_fit_options){.reject = -0.5}, &m, NULL));
  assert_error(ctx, KF_ERR_ARG, "all dimensions",
               kf_fit(ctx, data, &(kf_fit_options){.reject = 0.9, .dim = 3}, &m, NULL));
  assert_error(ctx, KF_ERR_ARG, "from the rows themselves",
               kf_fit_stats(ctx, s, &(kf_fit_options){.reject = 0.9}, &m));
  assert_int_equal(kf_errhint(ctx), KF_HINT_ROWS);
}
