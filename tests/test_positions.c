/* test_positions.c - accuracies for all numbers of dimensions at once are those of one model
 * each. */
#include "world.h"

#include "choose/choose.h"

AUTO_OBJECT(kf_position_finder)

typedef struct problem {
  kf_ctx *ctx;
  kf_data *train, *test;
  kf_stats *stats;
  world w;
} problem;

static problem make_problem(uint64_t n, uint32_t dim, uint32_t classes, int raw, kf_isa isa) {
  problem p = {.ctx = test_ctx(2, isa), .w = make_world(n, dim, classes, 2, 77)};
  uint64_t half = n / 2;
  for (uint64_t i = 0; i < half; i++) /* odd classes keep a quarter of their rows */
    if (p.w.labels[i] % 2 == 1 && i / classes % 4 > 0) p.w.labels[i] = -1;
  assert_ok(p.ctx,
            kf_data_open_memory(p.ctx, p.w.rows, half, dim, p.w.labels, NULL, classes, &p.train));
  assert_ok(p.ctx, kf_data_open_memory(p.ctx, p.w.rows + half * dim, n - half, dim,
                                       p.w.labels + half, NULL, classes, &p.test));
  kf_stats_options options = {.normalize = raw ? KF_OFF : KF_ON};
  assert_ok(p.ctx, kf_stats_new_from_data(p.ctx, p.train, &options, &p.stats));
  return p;
}

static void clear_problem(problem *p) {
  kf_stats_free(p->stats);
  kf_data_free(p->train);
  kf_data_free(p->test);
  kf_ctx_free(p->ctx);
  free_world(&p->w);
}
AUTO_STRUCT(problem, clear_problem)

static uint64_t *count_positions(problem *p, const kf_model *model, kf_metric metric,
                                 const uint32_t *dims, size_t n_dims) {
  uint64_t half = p->w.n / 2, n = p->w.n - half;
  const float *rows = p->w.rows + half * p->w.dim;
  const int32_t *labels = p->w.labels + half;
  AUTO(kf_position_finder) *r = NULL;
  assert_ok(p->ctx, kf_position_finder_new(p->ctx, model, p->stats, metric == KF_METRIC_EUCLIDEAN,
                                           NULL, dims, n_dims, &r));
  AUTOFREE double *norm2 = malloc(n * sizeof *norm2);
  AUTOFREE kf_right *right = malloc(n * sizeof *right);
  AUTOFREE unsigned char *positions = malloc(n * n_dims);
  for (uint64_t i = 0; i < n; i++) {
    norm2[i] = p->ctx->kernels->norm2(rows + i * p->w.dim, p->w.dim);
    right[i] = (kf_right){&labels[i], 1};
  }
  assert_ok(p->ctx, kf_find_positions(r, rows, norm2, n, right, positions, &p->ctx->err));
  uint64_t *hits = calloc(2 * n_dims, sizeof *hits);
  for (uint64_t i = 0; i < n; i++)
    for (size_t t = 0; t < n_dims; t++) {
      hits[2 * t] += positions[i * n_dims + t] == 0;
      hits[2 * t + 1] += positions[i * n_dims + t] < 5;
    }
  return hits;
}

static void check_method(problem *p, kf_method method, kf_lambda lambda, kf_metric metric,
                         kf_centre centre, const uint32_t *dims, size_t n_dims) {
  kf_fit_options options = {.method = method, .lambda = lambda, .centre = centre};
  AUTO(kf_model) *model = NULL;
  assert_ok(p->ctx, kf_fit_stats(p->ctx, p->stats, &options, &model));
  AUTOFREE uint64_t *hits = count_positions(p, model, metric, dims, n_dims);
  for (size_t t = 0; t < n_dims; t++) {
    AUTO(kf_model) *alone = NULL;
    kf_eval_result result;
    options.dim = dims[t];
    assert_ok(p->ctx, kf_fit_stats(p->ctx, p->stats, &options, &alone));
    kf_eval_options eval = {.metric = metric, .include_raw = KF_OFF};
    assert_ok(p->ctx, kf_eval(p->ctx, alone, p->test, &eval, &result));
    if (hits[2 * t] != result.top1 || hits[2 * t + 1] != result.top5)
      fail_msg("%u dimensions: %llu and %llu at once, %llu and %llu alone", dims[t],
               (unsigned long long)hits[2 * t], (unsigned long long)hits[2 * t + 1],
               (unsigned long long)result.top1, (unsigned long long)result.top5);
  }
}

/* With shrunk means as well, where rows are centred. */
static void check(problem *p, kf_lambda lambda, kf_metric metric, kf_centre centre,
                  const uint32_t *dims, size_t n_dims) {
  check_method(p, KF_METHOD_PAPER, lambda, metric, centre, dims, n_dims);
  if (centre == KF_CENTRE_MEAN)
    check_method(p, KF_METHOD_SHRUNK, lambda, metric, centre, dims, n_dims);
}

TEST(every_dimension) {
  enum { D = 24 };
  uint32_t dims[D];
  for (uint32_t l = 0; l < D; l++) dims[l] = l + 1;
  for (int raw = 0; raw < 2; raw++) {
    AUTO(problem) p = make_problem(900, D, 37, raw, KF_ISA_AUTO);
    for (int metric = KF_METRIC_COSINE; metric <= KF_METRIC_EUCLIDEAN; metric++)
      for (int centre = KF_CENTRE_NONE; centre <= KF_CENTRE_MEAN; centre++) {
        check(&p, (kf_lambda){0.3, KF_LAMBDA_RELATIVE}, (kf_metric)metric, (kf_centre)centre, dims,
              D);
        check(&p, (kf_lambda){1e-6, KF_LAMBDA_RELATIVE}, (kf_metric)metric, (kf_centre)centre, dims,
              D);
      }
  }
}

TEST(some_dimensions) {
  const uint32_t dims[] = {3, 17, 64, 100, 150};
  AUTO(problem) p = make_problem(700, 150, 60, 0, KF_ISA_AUTO);
  check(&p, (kf_lambda){0.1, KF_LAMBDA_RELATIVE}, KF_METRIC_COSINE, KF_CENTRE_NONE, dims, 5);
  check(&p, (kf_lambda){1e12, KF_LAMBDA_RELATIVE}, KF_METRIC_COSINE, KF_CENTRE_NONE, dims, 5);
  check(&p, (kf_lambda){1e-9, KF_LAMBDA_RELATIVE}, KF_METRIC_EUCLIDEAN, KF_CENTRE_NONE, dims, 5);
}

/* Enough directions for several settings to share a scan of the prototypes: the positions are those
 * of each setting alone. Some rows are prototypes of other classes or unlike their own, which puts
 * the right class at every position. */
TEST(many_at_once) {
  enum { D = 160, CLASSES = 90 };
  uint32_t dims[D];
  for (uint32_t l = 0; l < D; l++) dims[l] = l + 1;
  for (int raw = 0; raw < 2; raw++) {
    AUTO(problem) p = make_problem(900, D, CLASSES, raw, KF_ISA_AUTO);
    for (uint64_t i = p.w.n / 2; i < p.w.n; i += 3) p.w.labels[i] = (int32_t)(i * 7 % CLASSES);
    AUTO(kf_model) *model = NULL;
    assert_ok(p.ctx, kf_fit_stats(p.ctx, p.stats, NULL, &model));
    for (int metric = KF_METRIC_COSINE; metric <= KF_METRIC_EUCLIDEAN; metric++) {
      AUTOFREE uint64_t *all = count_positions(&p, model, (kf_metric)metric, dims, D);
      for (uint32_t l = 0; l < D; l++) {
        AUTOFREE uint64_t *alone = count_positions(&p, model, (kf_metric)metric, dims + l, 1);
        assert_memory_equal(all + 2 * l, alone, 2 * sizeof *all);
      }
    }
  }
}

/* Classes with the same rows, and rows that lie exactly between: close calls throughout. */
TEST(close_calls) {
  const uint32_t dims[] = {1, 2, 5, 8};
  AUTO(problem) p = make_problem(400, 8, 10, 0, KF_ISA_AUTO);
  for (uint64_t i = 0; i < p.w.n; i++) /* pairs of classes are equal */
    memcpy(p.w.rows + i * 8, p.w.rows + (i - i % 10 + i % 10 / 2 * 2) * 8, 8 * sizeof(float));
  kf_stats_free(p.stats);
  assert_ok(p.ctx, kf_stats_new_from_data(p.ctx, p.train, NULL, &p.stats));
  check(&p, (kf_lambda){0.3, KF_LAMBDA_RELATIVE}, KF_METRIC_COSINE, KF_CENTRE_NONE, dims, 4);
  check(&p, (kf_lambda){0.3, KF_LAMBDA_RELATIVE}, KF_METRIC_EUCLIDEAN, KF_CENTRE_MEAN, dims, 4);
}

/* Test rows so far from all prototypes that f32 cannot hold the ratio. */
TEST(far_off) {
  const uint32_t dims[] = {1, 4, 9};
  AUTO(problem) p = make_problem(400, 9, 12, 1, KF_ISA_AUTO);
  for (uint64_t i = 0; i < p.w.n; i++)
    for (uint32_t j = 0; j < 9; j++)
      p.w.rows[i * 9 + j] *= i < p.w.n / 2 ? 1e-20f
                             : i % 3 == 0  ? 1e29f
                             : i % 3 == 1  ? 1e3f
                                           : 1e-21f;
  kf_stats_free(p.stats);
  kf_stats_options raw = {.normalize = KF_OFF};
  assert_ok(p.ctx, kf_stats_new_from_data(p.ctx, p.train, &raw, &p.stats));
  const double lambdas[] = {1e-3, 1e5, 1e10};
  for (size_t i = 0; i < 3; i++) { /* prototypes of 1e-18 to 1e-25, and rows up to 1e31 */
    kf_lambda lambda = {lambdas[i], KF_LAMBDA_ABSOLUTE};
    check(&p, lambda, KF_METRIC_EUCLIDEAN, KF_CENTRE_NONE, dims, 3);
    check(&p, lambda, KF_METRIC_COSINE, KF_CENTRE_NONE, dims, 3);
  }
  /* Prototypes are denormal numbers in f32. */
  check(&p, (kf_lambda){1e44, KF_LAMBDA_ABSOLUTE}, KF_METRIC_EUCLIDEAN, KF_CENTRE_NONE, dims, 3);
}

/* Among several right classes the first one counts: the position is the least of their positions.
 * Classes that are almost equal leave it to canonical scores. */
TEST(several_right) {
  enum { CLASSES = 12, DIM = 6, ROWS = 200 };
  const uint32_t dims[] = {1, 3, 6};
  AUTO(problem) p = make_problem(2 * ROWS, DIM, CLASSES, 0, KF_ISA_AUTO);
  for (uint64_t i = 0; i < p.w.n; i++) /* class k is where class k mod 3 is */
    for (uint32_t j = 0; j < DIM; j++) {
      float hair = 1e-6f * sinf((float)(p.w.labels[i] * 7 + (int)j));
      p.w.rows[i * DIM + j] = p.w.rows[(i - i % CLASSES + i % 3) * DIM + j] + hair;
    }
  kf_stats_free(p.stats);
  assert_ok(p.ctx, kf_stats_new_from_data(p.ctx, p.train, NULL, &p.stats));
  AUTO(kf_model) *model = NULL;
  assert_ok(p.ctx, kf_fit_stats(p.ctx, p.stats, paper(), &model));
  const float *rows = p.w.rows + ROWS * DIM;
  double norm2[ROWS];
  int32_t classes[CLASSES + 1];
  static unsigned char alone[CLASSES][ROWS * 3], both[ROWS * 3];
  kf_right right[ROWS];
  for (int k = 0; k <= CLASSES; k++) classes[k] = k % CLASSES;
  for (uint64_t i = 0; i < ROWS; i++) norm2[i] = p.ctx->kernels->norm2(rows + i * DIM, DIM);
  for (int euclidean = 0; euclidean < 2; euclidean++) {
    kf_position_finder *r;
    assert_ok(p.ctx, kf_position_finder_new(p.ctx, model, p.stats, euclidean, NULL, dims, 3, &r));
    for (int k = 0; k < CLASSES; k++) {
      for (uint64_t i = 0; i < ROWS; i++) right[i] = (kf_right){&classes[k], 1};
      assert_ok(p.ctx, kf_find_positions(r, rows, norm2, ROWS, right, alone[k], &p.ctx->err));
    }
    for (int k = 0; k < CLASSES; k++) { /* classes k and k + 1, in both orders */
      for (uint64_t i = 0; i < ROWS; i++) right[i] = (kf_right){&classes[k], 2};
      assert_ok(p.ctx, kf_find_positions(r, rows, norm2, ROWS, right, both, &p.ctx->err));
      for (size_t i = 0; i < 3 * ROWS; i++) {
        unsigned a = alone[k][i], b = alone[(k + 1) % CLASSES][i];
        assert_int_equal(both[i], a < b ? a : b);
      }
      const int32_t pair[] = {k, (k + 3) % CLASSES};
      for (uint64_t i = 0; i < ROWS; i++) /* and k + 3, which is next to k */
        right[i] = (kf_right){pair, 2};
      assert_ok(p.ctx, kf_find_positions(r, rows, norm2, ROWS, right, both, &p.ctx->err));
      for (size_t i = 0; i < 3 * ROWS; i++) {
        unsigned a = alone[k][i], b = alone[(k + 3) % CLASSES][i];
        assert_int_equal(both[i], a < b ? a : b);
      }
    }
    kf_position_finder_free(r);
    /* A class that does not take part is never right, however few do. */
    unsigned char mask[CLASSES] = {1, 1};
    assert_ok(p.ctx, kf_position_finder_new(p.ctx, model, p.stats, euclidean, mask, dims, 3, &r));
    for (uint64_t i = 0; i < ROWS; i++) right[i] = (kf_right){&classes[5], 1};
    assert_ok(p.ctx, kf_find_positions(r, rows, norm2, ROWS, right, both, &p.ctx->err));
    for (size_t i = 0; i < 3 * ROWS; i++) assert_int_equal(both[i], KF_POSITIONS);
    kf_position_finder_free(r);
  }
}

/* A prototype that is nearly orthogonal to the first direction is too short there for f32; its
 * cosine counts nevertheless. */
TEST(short_prototypes) {
  const float rows[] = {1, 0.1f, 1, -0.1f, 0, 1, 0, 1};
  const int32_t labels[] = {0, 0, 1, 1};
  const double shortest[] = {1e-20, 1e-36, 1e-42, 1e-120, 1e-200};
  const uint32_t dims[] = {1, 2};
  AUTO(kf_ctx) *ctx = test_ctx(1, KF_ISA_AUTO);
  AUTO(kf_data) *data = NULL;
  AUTO(kf_stats) *stats = NULL;
  AUTO(kf_model) *model = NULL;
  assert_ok(ctx, kf_data_open_memory(ctx, rows, 4, 2, labels, NULL, 2, &data));
  assert_ok(ctx,
            kf_stats_new_from_data(ctx, data, &(kf_stats_options){.normalize = KF_OFF}, &stats));
  assert_ok(ctx, kf_fit_stats(ctx, stats, paper(), &model));
  for (size_t s = 0; s < sizeof shortest / sizeof *shortest; s++) {
    const double map[] = {1, shortest[s], 0, 1};
    memcpy(model->map.transform, map, sizeof map);
    kf_map_finish(&model->map);
    AUTO(kf_position_finder) *r = NULL;
    unsigned char positions[4][2];
    const double norm2[] = {1.01, 1.01, 1, 1};
    kf_right right[4];
    for (int i = 0; i < 4; i++) right[i] = (kf_right){&labels[i], 1};
    assert_ok(ctx, kf_position_finder_new(ctx, model, stats, false, NULL, dims, 2, &r));
    assert_ok(ctx, kf_find_positions(r, rows, norm2, 4, right, &positions[0][0], &ctx->err));
    for (int i = 0; i < 4; i++) { /* both cosines are 1 at first, and class 0 is the first one */
      assert_int_equal(positions[i][0], labels[i]);
      assert_int_equal(positions[i][1], 0);
    }
  }
}

TEST(same_on_every_isa) {
  enum { D = 40 };
  uint32_t dims[D];
  AUTOFREE uint64_t *first = NULL;
  for (uint32_t l = 0; l < D; l++) dims[l] = l + 1;
  for (int isa = KF_ISA_PLAIN; isa <= KF_ISA_AMX; isa++) {
    if (!test_has_isa((kf_isa)isa)) continue;
    AUTO(problem) p = make_problem(600, D, 50, 0, (kf_isa)isa);
    AUTO(kf_model) *model = NULL;
    assert_ok(p.ctx, kf_fit_stats(p.ctx, p.stats, paper(), &model));
    uint64_t *hits = count_positions(&p, model, KF_METRIC_COSINE, dims, D);
    if (first == NULL)
      first = hits;
    else {
      assert_memory_equal(first, hits, 2 * D * sizeof *hits);
      free(hits);
    }
  }
}
