/* test_loo.c - leave-one-out in closed form is what fitting again without each row gives. */
#include "refits.h"

#include "choose/choose.h"
#include "choose/lambda_hits.h"

AUTO_OBJECT(kf_fitter)
AUTO_OBJECT(kf_loo)

/* --- the same by fitting again ---------------------------------------------------------------- */

typedef struct refit {
  uint32_t dim;
  kf_stats *stats; /* without the row */
  double *inverse, *mean, *x;
} refit;

static refit refit_without(kf_ctx *ctx, const world *w, const kf_stats *all, uint64_t row,
                           double lambda) {
  refit r = {.dim = w->dim};
  AUTO(kf_stats) *one = NULL;
  kf_stats_options options = {.normalize = !kf_stats_normalized(all) ? KF_OFF : KF_ON,
                              .exponent = kf_stats_exponent(all)};
  assert_ok(ctx, kf_stats_new(ctx, w->dim, w->classes, NULL, &options, &one));
  assert_ok(ctx, kf_stats_add(ctx, one, w->rows + row * w->dim, &w->labels[row], 1));
  assert_ok(ctx, kf_stats_new(ctx, w->dim, w->classes, NULL, &options, &r.stats));
  assert_ok(ctx, kf_stats_merge(ctx, r.stats, all));
  assert_ok(ctx, kf_stats_subtract(ctx, r.stats, one));
  r.inverse = malloc((size_t)w->dim * w->dim * sizeof *r.inverse);
  r.mean = malloc(w->dim * sizeof *r.mean);
  r.x = malloc(w->dim * sizeof *r.x);
  assert_ok(ctx, kf_stats_scatter(ctx, r.stats, r.inverse, NULL, r.mean));
  for (uint32_t i = 0; i < w->dim; i++) r.inverse[i * w->dim + i] += lambda;
  invert(w->dim, r.inverse);
  const int64_t *sum = kf_stats_class_sum(one, (uint32_t)w->labels[row]);
  for (uint32_t i = 0; i < w->dim; i++)
    r.x[i] = ldexp((double)sum[i], -kf_stats_exponent(all)); /* the row as the statistics saw it */
  return r;
}

static void refit_clear(refit *r) {
  kf_stats_free(r->stats);
  free(r->inverse);
  free(r->mean);
  free(r->x);
}

static double refit_score(const refit *r, uint32_t k, kf_metric metric, kf_centre centre) {
  double *x = malloc(r->dim * sizeof *x), *m = malloc(r->dim * sizeof *m), score;
  double count = (double)kf_stats_count(r->stats, k);
  for (uint32_t i = 0; i < r->dim; i++) {
    double shift = centre == KF_CENTRE_MEAN ? r->mean[i] : 0;
    x[i] = r->x[i] - shift;
    m[i] = ldexp((double)kf_stats_class_sum(r->stats, k)[i] / count, -kf_stats_exponent(r->stats)) -
           shift;
  }
  if (metric == KF_METRIC_EUCLIDEAN) {
    for (uint32_t i = 0; i < r->dim; i++) m[i] -= x[i];
    score = form(r->dim, r->inverse, m, m);
  } else {
    score = form(r->dim, r->inverse, x, m) /
            sqrt(form(r->dim, r->inverse, x, x) * form(r->dim, r->inverse, m, m));
  }
  free(x);
  free(m);
  return score;
}

static void check_row(kf_ctx *ctx, const world *w, const kf_stats *stats, kf_loo *loo, uint64_t row,
                      double lambda, kf_metric metric, kf_centre centre) {
  AUTOFREE double *scores = malloc(w->classes * sizeof *scores);
  assert_ok(ctx, kf_loo_scores(loo, row, lambda, scores));
  refit r = refit_without(ctx, w, stats, row, lambda);
  bool alone = kf_stats_count(stats, (uint32_t)w->labels[row]) < 2;
  for (uint32_t k = 0; k < w->classes; k++) {
    if (alone || kf_stats_count(r.stats, k) == 0) {
      assert_true(isnan(scores[k]));
      continue;
    }
    double wanted = refit_score(&r, k, metric, centre);
    double size = metric == KF_METRIC_EUCLIDEAN ? wanted : 1;
    if (!(fabs(scores[k] - wanted) < 1e-9 * size))
      fail_msg("row %llu, class %u, lambda %g: %.17g, by fitting again %.17g",
               (unsigned long long)row, k, lambda, scores[k], wanted);
  }
  refit_clear(&r);
}

static void check_world(const world *w, bool normalized) {
  AUTO(kf_ctx) *ctx = test_ctx(1, KF_ISA_AUTO);
  AUTO(kf_data) *data = NULL;
  AUTO(kf_stats) *stats = NULL;
  kf_stats_options options = {.normalize = !normalized ? KF_OFF : KF_ON};
  assert_ok(ctx,
            kf_data_open_memory(ctx, w->rows, w->n, w->dim, w->labels, NULL, w->classes, &data));
  assert_ok(ctx, kf_stats_new_from_data(ctx, data, &options, &stats));
  for (int metric = KF_METRIC_COSINE; metric <= KF_METRIC_EUCLIDEAN; metric++)
    for (int centre = KF_CENTRE_NONE; centre <= KF_CENTRE_MEAN; centre++) {
      AUTO(kf_loo) *loo = NULL;
      AUTO(kf_fitter) *fitter = NULL;
      assert_ok(ctx, kf_fitter_new(ctx, stats, NULL, KF_METHOD_PAPER, &fitter));
      assert_ok(ctx, kf_loo_new(fitter, data, (kf_metric)metric, (kf_centre)centre, &loo));
      const double relative[] = {0.001, 0.3, 30};
      for (size_t i = 0; i < 3; i++)
        for (uint64_t row = 0; row < w->n; row++)
          check_row(ctx, w, stats, loo, row, relative[i] * kf_fitter_mean_eigenvalue(fitter),
                    (kf_metric)metric, (kf_centre)centre);
    }
}

TEST(scores_balanced) {
  AUTO(world) w = make_world(60, 12, 6, 3, 7);
  check_world(&w, true);
}

TEST(scores_unbalanced) {
  AUTO(world) w = unbalanced(10, 10, 3);
  check_world(&w, true);
}

TEST(scores_pairs) { /* two rows a class, and fewer rows than columns */
  AUTO(world) w = make_world(16, 20, 8, 1, 5);
  check_world(&w, true);
}

TEST(scores_raw) {
  AUTO(world) w = unbalanced(9, 9, 4);
  check_world(&w, false);
}

/* --- counting --------------------------------------------------------------------------------- */

/* How many classes come before the own one, among all of them. */
static uint32_t rank_of(const double *scores, uint32_t classes, uint32_t own, bool euclidean) {
  uint32_t before = 0;
  for (uint32_t k = 0; k < classes; k++) {
    if (k == own || isnan(scores[k])) continue;
    bool better = euclidean ? scores[k] < scores[own] : scores[k] > scores[own];
    before += better || (k < own && scores[k] == scores[own]);
  }
  return before;
}

enum { N = 5 };

static void check_counts_at(const world *w, bool raw, const double *lambdas, kf_metric metric,
                            kf_centre centre) {
  kf_fuse_point first[N] = {0};
  for (int isa = KF_ISA_PLAIN; isa <= KF_ISA_AMX; isa++) {
    if (!test_has_isa((kf_isa)isa)) continue;
    AUTO(kf_ctx) *ctx = test_ctx((unsigned)isa, (kf_isa)isa);
    AUTO(kf_data) *data = NULL;
    AUTO(kf_stats) *stats = NULL;
    AUTO(kf_loo) *loo = NULL;
    assert_ok(ctx,
              kf_data_open_memory(ctx, w->rows, w->n, w->dim, w->labels, NULL, w->classes, &data));
    kf_stats_options options = {.normalize = raw ? KF_OFF : KF_ON};
    assert_ok(ctx, kf_stats_new_from_data(ctx, data, &options, &stats));
    AUTO(kf_fitter) *fitter = NULL;
    assert_ok(ctx, kf_fitter_new(ctx, stats, NULL, KF_METHOD_PAPER, &fitter));
    assert_ok(ctx, kf_loo_new(fitter, data, metric, centre, &loo));
    kf_fuse_point points[N] = {0};
    kf_loo_count count;
    for (size_t g = 0; g < N; g++) points[g].lambda = lambdas[g];
    assert_ok(ctx, kf_loo_count_hits(loo, NULL, "test", points, N, NULL, &count));
    if (isa == KF_ISA_PLAIN) { /* against all scores */
      AUTOFREE double *scores = malloc(w->classes * sizeof *scores);
      uint64_t single = 0;
      for (size_t g = 0; g < N; g++) {
        uint64_t top1 = 0, top5 = 0;
        single = 0;
        for (uint64_t row = 0; row < w->n; row++) {
          uint32_t own = (uint32_t)w->labels[row];
          assert_ok(ctx, kf_loo_scores(loo, row, lambdas[g], scores));
          if (isnan(scores[own])) {
            single++;
            continue;
          }
          for (uint32_t k = 0; k < w->classes; k++)
            assert_true(!isnan(scores[k]) || stats->counts[k] == 0);
          uint32_t rank = rank_of(scores, w->classes, own, metric == KF_METRIC_EUCLIDEAN);
          top1 += rank == 0;
          top5 += rank < 5;
        }
        assert_int_equal(points[g].top1, top1);
        assert_int_equal(points[g].top5, top5);
      }
      assert_int_equal(count.n_single, single);
      assert_int_equal(count.n, w->n - single);
      assert_true(points[2].top1 < count.n);
      memcpy(first, points, sizeof first);
    }
    assert_memory_equal(points, first, sizeof first);
  }
}

static void check_counts(const world *w, kf_metric metric, kf_centre centre) {
  const double lambdas[N] = {1e-3, 0.05, 0.4, 2, 50};
  check_counts_at(w, false, lambdas, metric, centre);
}

TEST(counts) {
  AUTO(world) few = make_world(333, 24, 37, 2, 11), odd = unbalanced(13, 24, 12);
  for (int metric = KF_METRIC_COSINE; metric <= KF_METRIC_EUCLIDEAN; metric++)
    for (int centre = KF_CENTRE_NONE; centre <= KF_CENTRE_MEAN; centre++) {
      check_counts(&few, (kf_metric)metric, (kf_centre)centre);
      check_counts(&odd, (kf_metric)metric, (kf_centre)centre);
    }
}

/* Raw rows so short next to others that they are zeros in the statistics have no direction, and
 * lambdas so large that squares leave the range of f64 give the scores of no map at all. */
TEST(counts_far_off) {
  AUTO(world) w = unbalanced(11, 16, 31);
  for (uint64_t i = 0; i < w.n; i++)
    for (uint32_t j = 0; j < w.dim; j++) w.rows[i * w.dim + j] *= i % 7 == 3 ? 1e-19f : 1e-4f;
  const double lambdas[N] = {1e-12, 1e-8, 1e100, 1e290, 1e305};
  for (int metric = KF_METRIC_COSINE; metric <= KF_METRIC_EUCLIDEAN; metric++)
    for (int centre = KF_CENTRE_NONE; centre <= KF_CENTRE_MEAN; centre++)
      check_counts_at(&w, true, lambdas, (kf_metric)metric, (kf_centre)centre);
}

/* Rows opposite to others, fewer than columns, and small lambdas: many scores are below zero, where
 * the bound is another one, and leaving a row out changes much. */
TEST(counts_opposite) {
  const double lambdas[N] = {1e-9, 1e-7, 1e-5, 1e-3, 0.1};
  for (uint64_t seed = 1; seed <= 12; seed++) {
    uint64_t s = seed;
    AUTO(world)
    w = make_world(20 + seed % 4 * 10, 27, 7 + (uint32_t)seed, (double)(seed % 3 * 4), seed);
    for (uint64_t i = 3; i < w.n; i++)
      for (uint32_t j = 0; i % 3 != 0 && j < w.dim; j++) {
        float other = w.rows[seed % i * w.dim + j]; /* another row, or what is opposite to it */
        w.rows[i * w.dim + j] = i % 3 == 1 ? -other : other * (1 + 1e-6f * (float)test_normal(&s));
      }
    check_counts_at(&w, false, lambdas, KF_METRIC_COSINE, KF_CENTRE_NONE);
    check_counts_at(&w, false, lambdas, KF_METRIC_COSINE, KF_CENTRE_MEAN);
  }
}

/* Rows that are equal tie, and the lower class wins. */
TEST(ties) {
  AUTO(world) w = make_world(40, 6, 4, 1, 2);
  for (uint64_t i = 0; i < w.n; i++) /* classes 2k and 2k + 1 have the same rows */
    memcpy(w.rows + i * w.dim, w.rows + i / 4 * 4 * w.dim + (i % 4 / 2 * 2) * w.dim,
           w.dim * sizeof *w.rows);
  check_counts(&w, KF_METRIC_COSINE, KF_CENTRE_NONE);
}

/* --- choosing --------------------------------------------------------------------------------- */

typedef struct fixture {
  kf_ctx *ctx;
  kf_data *data;
  kf_stats *stats;
} fixture;

static fixture open_world(const world *w, unsigned threads) {
  fixture f = {.ctx = test_ctx(threads, KF_ISA_AUTO)};
  assert_ok(f.ctx, kf_data_open_memory(f.ctx, w->rows, w->n, w->dim, w->labels, NULL, w->classes,
                                       &f.data));
  assert_ok(f.ctx, kf_stats_new_from_data(f.ctx, f.data, NULL, &f.stats));
  return f;
}

static void fixture_clear(fixture *f) {
  kf_stats_free(f->stats);
  kf_data_free(f->data);
  kf_ctx_free(f->ctx);
}

TEST(choice) {
  AUTO(world) w = make_world(600, 24, 20, 3, 21);
  fixture f = open_world(&w, 2);
  kf_lambda_choice *c, *se;
  assert_ok(f.ctx, kf_lambda_choice_new(f.ctx, f.stats, f.data,
                                        &(kf_lambda_options){.method = KF_METHOD_PAPER}, &c));
  assert_int_equal(c->n, 600);
  assert_int_equal(c->rows, 600);
  assert_true(c->n_points >= 13 && c->chosen == c->best);
  for (size_t i = 0; i < c->n_points; i++) {
    assert_true(i == 0 || c->points[i].lambda > c->points[i - 1].lambda);
    assert_true(c->points[i].top1 <= c->points[c->best].top1);
    assert_true(i <= c->best || c->points[i].top1 < c->points[c->best].top1); /* the larger one */
  }
  assert_true(c->lambda == c->points[c->chosen].lambda);
  kf_lambda_options options = {.method = KF_METHOD_PAPER, .one_se = 1};
  assert_ok(f.ctx, kf_lambda_choice_new(f.ctx, f.stats, f.data, &options, &se));
  assert_true(se->lambda > c->lambda);
  double loss = (double)(se->points[se->best].top1 - se->points[se->chosen].top1);
  assert_true(loss <= se->standard_error * 600);
  kf_lambda_choice_free(c);
  kf_lambda_choice_free(se);
  fixture_clear(&f);
}

/* If the best is at an end of the grid, the grid is extended, unless the curve is flat there. */
TEST(choice_at_the_ends) {
  const struct {
    uint64_t n;
    uint32_t dim, classes;
    double low, high; /* between which the outermost lambda must be */
  } ends[] = {{200, 8, 10, 1e-7, 1e-4}, {120, 400, 12, 100, 1e6}, {60, 200, 6, 30, 80}};
  for (size_t e = 0; e < 3; e++) {
    AUTO(world) w = make_world(ends[e].n, ends[e].dim, ends[e].classes, 0, 9);
    uint64_t seed = 4;
    for (uint64_t i = 0; i < w.n; i++)
      for (uint32_t j = 0; j < w.dim; j++) {
        double x = test_normal(&seed);
        if (e == 0) /* what tells classes apart is far smaller than the rest */
          x = j < 4 ? x : 1e-3 * (x + 4 * sin((double)w.labels[i] * (j + 1)));
        else /* and here it is where rows differ most */
          x = j > 0 ? x : 90 * x + 60 * w.labels[i];
        w.rows[i * w.dim + j] = (float)x;
      }
    fixture f = open_world(&w, 2);
    kf_stats *raw;
    kf_lambda_choice *c;
    kf_stats_options options = {.normalize = KF_OFF};
    assert_ok(f.ctx, kf_stats_new_from_data(f.ctx, f.data, &options, &raw));
    assert_ok(f.ctx, kf_lambda_choice_new(f.ctx, raw, f.data,
                                          &(kf_lambda_options){.method = KF_METHOD_PAPER}, &c));
    double end = c->points[e == 0 ? 0 : c->n_points - 1].lambda / c->mean_eigenvalue;
    if (!(end >= ends[e].low && end <= ends[e].high)) fail_msg("%zu: up to %gx", e, end);
    kf_lambda_choice_free(c);
    kf_stats_free(raw);
    fixture_clear(&f);
  }
}

TEST(choice_from_a_sample) {
  AUTO(world) w = make_world(2000, 16, 10, 3, 22);
  fixture f = open_world(&w, 3);
  const double grid[] = {0, 0.1, 1};
  kf_lambda_options options = {.method = KF_METHOD_PAPER, .sample = 500, .grid = grid, .n_grid = 3};
  kf_lambda_choice *c;
  assert_ok(f.ctx, kf_lambda_choice_new(f.ctx, f.stats, f.data, &options, &c));
  assert_int_equal(c->n, 500);
  assert_int_equal(c->rows, 2000);
  assert_int_equal(c->n_points, 3);
  assert_true(c->points[0].lambda == 0);
  kf_lambda_choice_free(c);
  fixture_clear(&f);
}

/* Counted in parts, hits are those of all rows; which rows were hits is known; and what the best loses follows from
 * that. */
TEST(hits_in_parts) {
  enum { ROWS = 19000, POINTS = 3 }; /* three parts: the last doubling is cut short */
  AUTO(world) w = make_world(ROWS, 6, 5, 2, 31);
  for (unsigned threads = 1; threads <= 3; threads += 2) {
    fixture f = open_world(&w, threads);
    kf_fitter *fitter;
    kf_loo *loo;
    kf_row_list rows;
    kf_lambda_hits *h;
    uint64_t labelled, *right = calloc(ROWS, sizeof *right), want[2] = {0};
    kf_loo_count count;
    kf_lambda_point points[POINTS] = {{.lambda = 1}, {.lambda = 1e-3}, {.lambda = 3000}};
    kf_fuse_point all[POINTS] = {{.lambda = 1e-3}, {.lambda = 1}, {.lambda = 3000}};
    assert_ok(f.ctx, kf_fitter_new(f.ctx, f.stats, NULL, KF_METHOD_PAPER, &fitter));
    assert_ok(f.ctx, kf_loo_new(fitter, f.data, KF_METRIC_COSINE, KF_CENTRE_NONE, &loo));
    assert_ok(f.ctx, kf_loo_count_hits(loo, NULL, "test", all, POINTS, right, &count));
    assert_ok(f.ctx, kf_sample_rows(f.ctx, f.data, ROWS, &rows, &labelled));
    assert_ok(f.ctx, kf_lambda_hits_new(loo, &rows, false, &h));
    assert_ok(f.ctx, kf_lambda_hits_try(h, "test", points, 2));
    assert_true(kf_lambda_hits_counted(h).n == ROWS / 3 ||
                kf_lambda_hits_counted(h).n == ROWS / 3 + 1);
    assert_true(kf_lambda_hits_has_more(h) && points[0].top1 < all[1].top1);
    kf_lambda_point first = points[0]; /* points may be in any order */
    points[0] = points[1];
    points[1] = first;
    while (kf_lambda_hits_has_more(h))
      assert_ok(f.ctx, kf_lambda_hits_take_more(h, "test", points, 2));
    assert_ok(f.ctx, kf_lambda_hits_try(h, "test", points + 2, 1));
    assert_int_equal(kf_lambda_hits_counted(h).n, ROWS);
    for (size_t g = 0; g < POINTS; g++) {
      uint64_t set = 0;
      for (uint64_t i = 0; i < ROWS; i++) set += right[i] >> g & 1;
      assert_int_equal(points[g].top1, all[g].top1);
      assert_int_equal(points[g].top5, all[g].top5);
      assert_int_equal(points[g].top1, set);
    }
    for (uint64_t i = 0; i < ROWS; i += 97) {
      double scores[5];
      assert_ok(f.ctx, kf_loo_scores(loo, i, 3000, scores));
      assert_int_equal(right[i] >> 2 & 1, rank_of(scores, 5, (uint32_t)w.labels[i], false) == 0);
    }
    double loss, most = 0;
    assert_ok(f.ctx, kf_lambda_hits_loss(h, points, POINTS, 2, &loss));
    for (size_t g = 0; g < 2; g++) {
      for (uint64_t i = want[0] = want[1] = 0; i < ROWS; i++) {
        want[0] += (right[i] >> g & 1) > (right[i] >> 2 & 1);
        want[1] += (right[i] >> g & 1) < (right[i] >> 2 & 1);
      }
      assert_true(want[0] > 0 && want[1] > 0);
      most = fmax(most, kf_loss_upper95(want[0], want[1], ROWS));
    }
    assert_true(loss == most && loss > 0);
    kf_lambda_hits_free(h);
    kf_loo_free(loo);
    kf_fitter_free(fitter);
    free(right);
    fixture_clear(&f);
  }
}

/* Where lambda matters little, a part of the rows is enough. With labels that mean nothing, lambdas go wrong on
 * different rows, and all rows are taken. Either way the choice loses little against that of all rows. */
TEST(choice_of_enough_rows) {
  enum { ROWS = 26000 };
  const struct {
    uint32_t dim, classes;
    double decades;
    bool noise;
  } cases[] = {{8, 4, 0, false}, {40, 2, 3, true}};
  for (size_t i = 0; i < 2; i++) {
    AUTO(world) w = make_world(ROWS, cases[i].dim, cases[i].classes, cases[i].decades, 33);
    uint64_t seed = 34;
    for (uint64_t row = 0; cases[i].noise && row < ROWS; row++)
      w.labels[row] = (int32_t)(test_random(&seed) % cases[i].classes);
    fixture f = open_world(&w, 2);
    kf_lambda_choice *c, *whole, *chosen;
    kf_lambda_options options = {.method = KF_METHOD_PAPER};
    assert_ok(f.ctx, kf_lambda_choice_new(f.ctx, f.stats, f.data, &options, &c));
    options.sample = ROWS;
    assert_ok(f.ctx, kf_lambda_choice_new(f.ctx, f.stats, f.data, &options, &whole));
    print_message("%u columns: %d of %d rows, %gx of %gx\n", w.dim, (int)c->n, ROWS,
                  c->lambda / c->mean_eigenvalue, whole->lambda / c->mean_eigenvalue);
    assert_int_equal(c->rows, ROWS);
    assert_int_equal(c->n_all, c->n);
    assert_int_equal(whole->n, ROWS);
    assert_true(cases[i].noise ? c->n == ROWS : c->n < ROWS);
    for (size_t p = 1; p < c->n_points; p++)
      assert_true(c->points[p].lambda > c->points[p - 1].lambda * 1.1);
    size_t common = 0;
    for (size_t p = 0; p < whole->n_points; p++)
      for (size_t q = 0; q < c->n_points; q++) {
        if (whole->points[p].lambda != c->points[q].lambda) continue;
        common++;
        if (!cases[i].noise) continue;
        assert_int_equal(whole->points[p].top1, c->points[q].top1);
        assert_int_equal(whole->points[p].top5, c->points[q].top5);
      }
    assert_true(common >= 9);
    double relative = c->lambda / c->mean_eigenvalue;
    options.grid = &relative;
    options.n_grid = 1;
    assert_ok(f.ctx, kf_lambda_choice_new(f.ctx, f.stats, f.data, &options, &chosen));
    double loss = (double)whole->points[whole->best].top1 - (double)chosen->points[0].top1;
    assert_true(loss <= 0.001 * ROWS);
    kf_lambda_choice_free(chosen);
    options = (kf_lambda_options){.method = KF_METHOD_PAPER, .one_se = 1};
    assert_ok(f.ctx, kf_lambda_choice_new(f.ctx, f.stats, f.data, &options, &chosen));
    assert_int_equal(chosen->n, ROWS);
    kf_lambda_choice_free(chosen);
    kf_lambda_choice_free(c);
    kf_lambda_choice_free(whole);
    fixture_clear(&f);
  }
}

/* Rows alone in their class are told of the whole sample, whatever part of it was enough. */
TEST(single_rows_of_the_sample) {
  enum { ROWS = 26000, ALONE = 80, CLASSES = 4 };
  AUTO(world) w = make_world(ROWS, 8, CLASSES, 0, 33);
  for (uint64_t i = 0; i < ALONE; i++) w.labels[300 * i] = (int32_t)(CLASSES + i);
  w.classes = CLASSES + ALONE;
  fixture f = open_world(&w, 2);
  kf_lambda_choice *c;
  kf_lambda_options options = {.method = KF_METHOD_PAPER};
  assert_ok(f.ctx, kf_lambda_choice_new(f.ctx, f.stats, f.data, &options, &c));
  assert_true(c->n < ROWS - ALONE);
  assert_int_equal(c->n_single, ALONE);
  kf_lambda_choice_free(c);
  fixture_clear(&f);
}

TEST(choice_refused) {
  AUTO(world) w = make_world(30, 4, 30, 1, 23), other = make_world(31, 4, 30, 1, 23);
  fixture f = open_world(&w, 1), g = open_world(&other, 1);
  kf_lambda_choice *c = NULL;
  const double falling[] = {1, 0.1};
  kf_lambda_options options = {.method = KF_METHOD_PAPER, .grid = falling, .n_grid = 2};
  assert_error(f.ctx, KF_ERR_ARG, "must rise",
               kf_lambda_choice_new(f.ctx, f.stats, f.data, &options, &c));
  assert_error(f.ctx, KF_ERR_ARG, "not those of the data",
               kf_lambda_choice_new(f.ctx, f.stats, g.data,
                                    &(kf_lambda_options){.method = KF_METHOD_PAPER}, &c));
  assert_error(f.ctx, KF_ERR_MATH, "scatter within classes is zero",
               kf_lambda_choice_new(f.ctx, f.stats, f.data,
                                    &(kf_lambda_options){.method = KF_METHOD_PAPER}, &c));
  assert_null(c);
  fixture_clear(&f);
  fixture_clear(&g);
}
