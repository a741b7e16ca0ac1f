/* test_hits.c - choosing lambda by hits, from as few rows as suffice. */
#include "world.h"

#include "choose/choose.h"
#include "choose/lambda_hits.h"

AUTO_OBJECT(kf_fitter)
AUTO_OBJECT(kf_left_out)

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
AUTO_STRUCT(fixture, fixture_clear)

TEST(choice) {
  AUTO(world) w = make_world(600, 24, 20, 3, 21);
  AUTO(fixture) f = open_world(&w, 2);
  AUTO(kf_lambda_choice) *c = NULL, *se = NULL;
  assert_ok(f.ctx, kf_lambda_choice_new(f.ctx, f.stats, f.data,
                                        &(kf_lambda_options){.method = KF_METHOD_PAPER}, &c));
  assert_int_equal(c->n, 600);
  assert_int_equal(c->rows, 600);
  assert_true(c->n_points >= 13 && c->chosen == c->best);
  for (size_t i = 0; i < c->n_points; i++) {
    assert_true(i == 0 || c->points[i].lambda > c->points[i - 1].lambda);
    assert_true(c->points[i].top1 <= c->points[c->best].top1);
    assert_true(i <= c->best || c->points[i].top1 < c->points[c->best].top1); /* ties: the larger */
  }
  assert_true(c->lambda == c->points[c->chosen].lambda);
  kf_lambda_options options = {.method = KF_METHOD_PAPER, .one_se = 1};
  assert_ok(f.ctx, kf_lambda_choice_new(f.ctx, f.stats, f.data, &options, &se));
  assert_true(se->lambda > c->lambda);
  double loss = (double)(se->points[se->best].top1 - se->points[se->chosen].top1);
  assert_true(loss <= se->standard_error * 600);
}

/* If the best lambda is at an end of the grid, the grid is extended, unless the curve is flat
 * there. */
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
        if (e == 0) /* what separates classes is far smaller than the rest */
          x = j < 4 ? x : 1e-3 * (x + 4 * sin((double)w.labels[i] * (j + 1)));
        else /* and here it is where rows differ most */
          x = j > 0 ? x : 90 * x + 60 * w.labels[i];
        w.rows[i * w.dim + j] = (float)x;
      }
    AUTO(fixture) f = open_world(&w, 2);
    AUTO(kf_stats) *raw = NULL;
    AUTO(kf_lambda_choice) *c = NULL;
    kf_stats_options options = {.normalize = KF_OFF};
    assert_ok(f.ctx, kf_stats_new_from_data(f.ctx, f.data, &options, &raw));
    assert_ok(f.ctx, kf_lambda_choice_new(f.ctx, raw, f.data,
                                          &(kf_lambda_options){.method = KF_METHOD_PAPER}, &c));
    double end = c->points[e == 0 ? 0 : c->n_points - 1].lambda / c->mean_eigenvalue;
    if (!(end >= ends[e].low && end <= ends[e].high)) fail_msg("%zu: up to %gx", e, end);
  }
}

TEST(choice_from_a_sample) {
  AUTO(world) w = make_world(2000, 16, 10, 3, 22);
  AUTO(fixture) f = open_world(&w, 3);
  const double grid[] = {0, 0.1, 1};
  kf_lambda_options options = {.method = KF_METHOD_PAPER, .sample = 500, .grid = grid, .n_grid = 3};
  AUTO(kf_lambda_choice) *c = NULL;
  assert_ok(f.ctx, kf_lambda_choice_new(f.ctx, f.stats, f.data, &options, &c));
  assert_int_equal(c->n, 500);
  assert_int_equal(c->rows, 2000);
  assert_int_equal(c->n_points, 3);
  assert_true(c->points[0].lambda == 0);
}

/* Hits counted in parts are those of all rows; which rows are hits is known; and what the best
 * loses follows from that. */
TEST(hits_in_parts) {
  enum { ROWS = 19000, POINTS = 3 }; /* 6,250 rows, twice as many, and the rest */
  AUTO(world) w = make_world(ROWS, 6, 5, 2, 31);
  for (unsigned threads = 1; threads <= 3; threads += 2) {
    AUTO(fixture) f = open_world(&w, threads);
    AUTO(kf_fitter) *fitter = NULL;
    AUTO(kf_left_out) *l = NULL;
    kf_left_out_options by = {.sample = ROWS};
    kf_lambda_hits h, all;
    kf_lambda_point points[POINTS] = {{.lambda = 1}, {.lambda = 1e-3}, {.lambda = 3000}};
    kf_lambda_point whole[POINTS] = {{.lambda = 1e-3}, {.lambda = 1}, {.lambda = 3000}};
    assert_ok(f.ctx, kf_fitter_new(f.ctx, f.stats, NULL, KF_METHOD_PAPER, &fitter));
    assert_ok(f.ctx, kf_left_out_new(fitter, f.data, &by, &l));
    assert_ok(f.ctx, kf_lambda_hits_start(&all, f.ctx, l, true));
    for (size_t g = 0; g < POINTS; g++)
      assert_ok(f.ctx, kf_lambda_hits_try(&all, "test", &whole[g]));
    assert_int_equal(all.n, ROWS);
    assert_false(kf_lambda_hits_has_more(&all));
    assert_ok(f.ctx, kf_lambda_hits_start(&h, f.ctx, l, false));
    for (size_t g = 0; g < 2; g++) assert_ok(f.ctx, kf_lambda_hits_try(&h, "test", &points[g]));
    assert_true(h.n >= 6249 && h.n <= 6250);
    assert_true(kf_lambda_hits_has_more(&h) && points[0].top1 < whole[1].top1);
    kf_lambda_point first = points[0]; /* points may be in any order */
    points[0] = points[1];
    points[1] = first;
    while (kf_lambda_hits_has_more(&h))
      assert_ok(f.ctx, kf_lambda_hits_take_more(&h, "test", points, 2));
    assert_ok(f.ctx, kf_lambda_hits_try(&h, "test", &points[2]));
    assert_int_equal(h.n, ROWS);
    for (size_t g = 0; g < POINTS; g++) {
      uint64_t set = 0;
      for (uint64_t i = 0; i < ROWS; i++) set += all.right[i] >> g & 1;
      assert_int_equal(points[g].top1, whole[g].top1);
      assert_int_equal(points[g].top5, whole[g].top5);
      assert_int_equal(points[g].top1, set);
    }
    double loss, most = 0;
    assert_ok(f.ctx, kf_lambda_hits_loss(&h, points, POINTS, 2, &loss));
    for (size_t g = 0; g < 2; g++) {
      uint64_t want[2] = {0};
      for (uint64_t i = 0; i < ROWS; i++) {
        want[0] += (all.right[i] >> g & 1) > (all.right[i] >> 2 & 1);
        want[1] += (all.right[i] >> g & 1) < (all.right[i] >> 2 & 1);
      }
      assert_true(want[0] > 0 && want[1] > 0);
      most = fmax(most, kf_loss_upper95(want[0], want[1], ROWS));
    }
    assert_true(loss == most && loss > 0);
    kf_lambda_hits_clear(&h);
    kf_lambda_hits_clear(&all);
  }
}

/* Where lambda matters little, part of the rows suffices. With random labels, lambdas err on
 * different rows, and all rows are used. Either way the choice loses little against that of all
 * rows. */
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
    AUTO(fixture) f = open_world(&w, 2);
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
  }
}

/* Rows alone in their class are counted over the whole sample, whatever part of it was enough. */
TEST(single_rows_of_the_sample) {
  enum { ROWS = 26000, ALONE = 80, CLASSES = 4 };
  AUTO(world) w = make_world(ROWS, 8, CLASSES, 0, 33);
  for (uint64_t i = 0; i < ALONE; i++) w.labels[300 * i] = (int32_t)(CLASSES + i);
  w.classes = CLASSES + ALONE;
  AUTO(fixture) f = open_world(&w, 2);
  AUTO(kf_lambda_choice) *c = NULL;
  kf_lambda_options options = {.method = KF_METHOD_PAPER};
  assert_ok(f.ctx, kf_lambda_choice_new(f.ctx, f.stats, f.data, &options, &c));
  assert_true(c->n < ROWS - ALONE);
  assert_int_equal(c->n_single, ALONE);
}

TEST(choice_refused) {
  AUTO(world) w = make_world(30, 4, 30, 1, 23), other = make_world(31, 4, 30, 1, 23);
  AUTO(fixture) f = open_world(&w, 1), g = open_world(&other, 1);
  kf_lambda_choice *c = NULL;
  const double falling[] = {1, 0.1};
  kf_lambda_options options = {.method = KF_METHOD_PAPER, .grid = falling, .n_grid = 2};
  assert_error(f.ctx, KF_ERR_ARG, "must rise",
               kf_lambda_choice_new(f.ctx, f.stats, f.data, &options, &c));
  assert_error(f.ctx, KF_ERR_ARG, "not those of the data",
               kf_lambda_choice_new(f.ctx, f.stats, g.data,
                                    &(kf_lambda_options){.method = KF_METHOD_PAPER}, &c));
  assert_error(f.ctx, KF_ERR_MATH, "no class has two rows",
               kf_lambda_choice_new(f.ctx, f.stats, f.data,
                                    &(kf_lambda_options){.method = KF_METHOD_PAPER}, &c));
  assert_null(c);
}
