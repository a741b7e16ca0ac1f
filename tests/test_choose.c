/* test_choose.c - samples, folds, and choosing dimensions and k. */
#include "world.h"

#include "choose/choose.h"

#include "stats/stats.h"

typedef struct fixture {
  kf_ctx *ctx;
  world w;
  kf_data *data;
  kf_stats *stats;
} fixture;

static fixture make(uint64_t n, uint32_t dim, uint32_t classes, unsigned threads) {
  fixture f = {.ctx = test_ctx(threads, KF_ISA_AUTO), .w = make_world(n, dim, classes, 3, 5)};
  for (uint64_t i = 0; i < n; i++) /* classes of many sizes */
    f.w.labels[i] = (int32_t)(i % (1 + i % classes));
  for (uint64_t i = 0; i < n; i++)
    for (uint32_t j = 0; j < dim; j++)
      f.w.rows[i * dim + j] += 0.5f * sinf((float)(f.w.labels[i] * (int)(j + 1)));
  assert_ok(f.ctx,
            kf_data_open_memory(f.ctx, f.w.rows, n, dim, f.w.labels, NULL, classes, &f.data));
  assert_ok(f.ctx, kf_stats_new_from_data(f.ctx, f.data, NULL, &f.stats));
  return f;
}

static void clear(fixture *f) {
  kf_stats_free(f->stats);
  kf_data_free(f->data);
  kf_ctx_free(f->ctx);
  free_world(&f->w);
}
AUTO_STRUCT(fixture, clear)

/* --- samples and folds ------------------------------------------------------------------------ */

TEST(samples) {
  AUTO(fixture) f = make(5000, 3, 40, 1);
  const uint64_t most[] = {1, 100, 777, 4999, 5000, 100000};
  for (size_t s = 0; s < 6; s++) {
    kf_row_list rows;
    uint64_t labelled, count[40] = {0};
    assert_ok(f.ctx, kf_sample_rows(f.ctx, f.data, most[s], &rows, &labelled));
    assert_int_equal(labelled, 5000);
    assert_true(rows.n <= most[s] + 40);
    for (uint64_t i = 0; i < rows.n; i++) {
      assert_true(i == 0 || rows.row[i] > rows.row[i - 1]);
      assert_int_equal(rows.label[i], f.w.labels[rows.row[i]]);
      count[rows.label[i]]++;
    }
    for (uint32_t k = 0; k < 40; k++) {
      double share = (double)kf_stats_count(f.stats, k) * fmin(1, (double)most[s] / 5000);
      assert_true(kf_stats_count(f.stats, k) == 0 || count[k] >= 1);
      assert_true(fabs((double)count[k] - share) <= 1);
    }
    if (most[s] >= 5000) assert_int_equal(rows.n, 5000);
    kf_row_list_clear(&rows);
  }
}

TEST(samples_of_many) {
  const uint64_t n = (uint64_t)1 << 40; /* where products of two numbers of rows take 80 bits */
  assert_true(kf_takes(n - 1, n, n) && kf_takes(n / 2, n, n) && kf_takes(0, n, n));
  assert_true(kf_takes(n - 1, n / 2, n) && !kf_takes(n - 2, n / 2, n));
  assert_false(kf_takes(n, n, n));
  assert_false(kf_takes(0, 1, 0));
}

/* Labels were checked when the data set was opened, but files can change. */
TEST(samples_of_changing_labels) {
  AUTO(fixture) f = make(50, 3, 4, 1);
  kf_row_list rows;
  uint64_t labelled;
  kf_gallery *gallery;
  f.w.labels[7] = 1 << 20;
  assert_error(f.ctx, KF_ERR_DATA, "1048576", kf_sample_rows(f.ctx, f.data, 10, &rows, &labelled));
  assert_error(f.ctx, KF_ERR_DATA, "1048576", kf_gallery_new(f.ctx, f.data, NULL, NULL, &gallery));
}

/* A subset of a data set has the same bad rows as the whole. */
TEST(picks_of_bad_rows) {
  AUTO(fixture) f = make(50, 3, 4, 1);
  const uint64_t rows[] = {4, 5, 6, 9};
  float x[4 * 3];
  int32_t labels[4];
  kf_data *pick;
  f.w.rows[5 * 3] = NAN;
  for (int skip = 0; skip < 2; skip++) {
    f.data->skip_bad = skip;
    assert_ok(f.ctx, kf_data_new_pick(f.data, rows, 4, &pick, &f.ctx->err));
    kf_status status = kf_data_fetch(pick, f.ctx->kernels, 0, 4, x, labels, NULL, &f.ctx->err);
    assert_int_equal(status, skip ? KF_OK : KF_ERR_DATA);
    if (!skip) assert_non_null(strstr(kf_errmsg(f.ctx), "row 5"));
    for (int i = 0; skip && i < 4; i++)
      assert_int_equal(labels[i], i == 1 ? KF_LABEL_BAD : f.w.labels[rows[i]]);
    kf_data_free(pick);
  }
}

/* The statistics without a fold, by subtraction, have the bits of those of all other rows. */
TEST(fold_statistics) {
  for (unsigned threads = 1; threads <= 3; threads++) {
    AUTO(fixture) f = make(1003, 9, 17, threads);
    kf_row_list all;
    uint64_t labelled;
    unsigned char *fold;
    AUTO(kf_stats) *rest = NULL;
    assert_ok(f.ctx, kf_sample_rows(f.ctx, f.data, UINT64_MAX, &all, &labelled));
    assert_ok(f.ctx, kf_fold_rows(&all, 17, 5, &fold, &f.ctx->err));
    assert_ok(f.ctx, kf_stats_copy(f.ctx, f.stats, &rest));
    uint64_t total = 0;
    for (uint32_t number = 0; number < 5; number++) {
      kf_row_list in, out;
      AUTO(kf_data) *inside = NULL, *outside = NULL;
      AUTO(kf_stats) *taken = NULL, *wanted = NULL;
      assert_ok(f.ctx, kf_rows_of_fold(&all, fold, number, false, &in, &f.ctx->err));
      assert_ok(f.ctx, kf_rows_of_fold(&all, fold, number, true, &out, &f.ctx->err));
      assert_int_equal(in.n + out.n, 1003);
      assert_true(in.n == 200 || in.n == 201);
      total += in.n;
      uint64_t count[17] = {0}; /* stratified */
      for (uint64_t i = 0; i < in.n; i++) count[in.label[i]]++;
      for (uint32_t k = 0; k < 17; k++)
        assert_true(fabs((double)count[k] - (double)kf_stats_count(f.stats, k) / 5) < 1);
      assert_ok(f.ctx, kf_data_new_pick(f.data, in.row, in.n, &inside, &f.ctx->err));
      assert_ok(f.ctx, kf_data_new_pick(f.data, out.row, out.n, &outside, &f.ctx->err));
      assert_ok(f.ctx, kf_fold_take_out(f.ctx, rest, inside, &taken));
      assert_ok(f.ctx, kf_stats_new_from_data(f.ctx, outside, NULL, &wanted));
      assert_int_equal(rest->rows, wanted->rows);
      assert_memory_equal(rest->counts, wanted->counts, 17 * sizeof *rest->counts);
      assert_memory_equal(rest->sums, wanted->sums, 17 * 9 * sizeof *rest->sums);
      assert_memory_equal(rest->moments, wanted->moments, kf_triangle(9) * sizeof *rest->moments);
      assert_ok(f.ctx, kf_stats_merge(f.ctx, rest, taken));
      assert_memory_equal(rest->moments, f.stats->moments, kf_triangle(9) * sizeof *rest->moments);
      kf_row_list_clear(&in);
      kf_row_list_clear(&out);
    }
    assert_int_equal(total, 1003);
    kf_row_list_clear(&all);
    kf_free(fold);
  }
}

/* The best is the first of equal ones. */
TEST(good_enough) {
  kf_arena arena = {0};
  kf_score_card card;
  kf_k_point settings[4];
  size_t best;
  const unsigned hits[] = {50, 90, 96, 96};
  card = kf_score_card_take(&arena, 100, 4);
  assert_false(arena.failed);
  for (size_t p = 0; p < 4; p++)
    for (unsigned i = 0; i < hits[p]; i++) kf_score_card_add(&card, p == 3 ? 99 - i : i, p, 0);
  assert_int_equal(kf_first_good_enough(&card, 0, settings, &best), 2); /* 96 less 1.96 */
  assert_int_equal(best, 2);
  assert_int_equal(kf_first_good_enough(&card, 0.06, settings, &best), 1);
  assert_int_equal(settings[1].lost, 6);
  assert_int_equal(settings[1].won, 0);
  assert_int_equal(settings[3].lost, 4);
  assert_int_equal(settings[3].won, 4);
  kf_arena_free(&arena);
}

/* A row whose class has no rows outside its fold is not scored. */
TEST(dimensions_with_single_rows) {
  AUTO(fixture) f = make(300, 5, 8, 1);
  AUTO(kf_dim_choice) *c = NULL;
  AUTO(kf_stats) *stats = NULL;
  AUTO(kf_data) *data = NULL;
  for (uint64_t i = 0; i < 300; i++) f.w.labels[i] = i < 2 ? 6 + (int32_t)i : (int32_t)(i % 6);
  assert_ok(f.ctx, kf_data_open_memory(f.ctx, f.w.rows, 300, 5, f.w.labels, NULL, 8, &data));
  assert_ok(f.ctx, kf_stats_new_from_data(f.ctx, data, NULL, &stats));
  assert_ok(f.ctx, kf_dim_choice_new(f.ctx, stats, data, NULL, &c));
  assert_int_equal(c->n, 298);
}

/* With very many classes a row of each is enough, unless more are asked for. */
TEST(dimensions_with_many_classes) {
  enum { CLASSES = 20000, EACH = 3 };
  AUTO(kf_ctx) *ctx = test_ctx(2, KF_ISA_AUTO);
  AUTO(world) w = make_world(CLASSES * EACH, 2, CLASSES, 3, 5);
  AUTO(kf_data) *data = NULL;
  kf_dim_choice *c;
  assert_ok(ctx, kf_data_open_memory(ctx, w.rows, w.n, 2, w.labels, NULL, CLASSES, &data));
  AUTO(kf_stats) *stats = stats_of(ctx, &w, 0);
  assert_ok(ctx, kf_dim_choice_new(ctx, stats, data, NULL, &c));
  assert_int_equal(c->n, CLASSES);
  kf_dim_choice_free(c);
  kf_dim_options more = {.sample = 2 * CLASSES};
  assert_ok(ctx, kf_dim_choice_new(ctx, stats, data, &more, &c));
  assert_int_equal(c->n, 2 * CLASSES);
  kf_dim_choice_free(c);
}

/* Groups stay together, and folds have about equally many rows. */
TEST(folds_of_groups) {
  enum { N = 200, FOLDS_OF = 4 };
  AUTO(kf_ctx) *ctx = test_ctx(1, KF_ISA_AUTO);
  kf_row_list all;
  uint32_t groups[2 * N];
  uint64_t size[FOLDS_OF] = {0}, random = 3;
  unsigned char *fold;
  assert_ok(ctx, kf_row_list_make(&all, N, &ctx->err));
  for (uint32_t i = 0; i < N; i++) kf_row_list_add(&all, 2 * i, (int32_t)(i % 3));
  for (uint32_t i = 0; i < 2 * N; i++) groups[i] = 7 * (uint32_t)(test_random(&random) % 31);
  assert_ok(ctx, kf_fold_groups(&all, groups, FOLDS_OF, &fold, &ctx->err));
  for (uint32_t i = 0; i < N; i++) {
    size[fold[i]]++;
    for (uint32_t k = 0; k < i; k++)
      if (groups[2 * i] == groups[2 * k]) assert_int_equal(fold[i], fold[k]);
  }
  for (uint32_t f = 0; f < FOLDS_OF; f++)
    assert_in_range(size[f], N / FOLDS_OF - 4, N / FOLDS_OF + 4);
  kf_free(fold);
  assert_error(ctx, KF_ERR_ARG, "101 folds", kf_fold_groups(&all, groups, 101, &fold, &ctx->err));
  kf_row_list_clear(&all);
}

/* --- dimensions ------------------------------------------------------------------------------- */

/* The curve is that of fitting and evaluating every number of dimensions on every fold. */
TEST(dimensions) {
  enum { D = 12, K = 14 };
  AUTO(fixture) f = make(700, D, K, 2);
  kf_dim_options options = {
      .method = KF_METHOD_PAPER, .lambda = {0.2, KF_LAMBDA_RELATIVE}, .folds = 3};
  AUTO(kf_dim_choice) *c = NULL;
  assert_ok(f.ctx, kf_dim_choice_new(f.ctx, f.stats, f.data, &options, &c));
  assert_int_equal(c->n_points, D);
  assert_int_equal(c->n, 700);
  kf_row_list all;
  uint64_t labelled, top1[D] = {0}, top5[D] = {0}, lost[D] = {0}, won[D] = {0};
  unsigned char *fold;
  assert_ok(f.ctx, kf_sample_rows(f.ctx, f.data, UINT64_MAX, &all, &labelled));
  assert_ok(f.ctx, kf_fold_rows(&all, K, 3, &fold, &f.ctx->err));
  for (uint32_t number = 0; number < 3; number++) {
    kf_row_list in, out;
    AUTO(kf_data) *inside = NULL, *outside = NULL;
    AUTO(kf_stats) *stats = NULL;
    assert_ok(f.ctx, kf_rows_of_fold(&all, fold, number, false, &in, &f.ctx->err));
    assert_ok(f.ctx, kf_rows_of_fold(&all, fold, number, true, &out, &f.ctx->err));
    assert_ok(f.ctx, kf_data_new_pick(f.data, in.row, in.n, &inside, &f.ctx->err));
    assert_ok(f.ctx, kf_data_new_pick(f.data, out.row, out.n, &outside, &f.ctx->err));
    assert_ok(f.ctx, kf_stats_new_from_data(f.ctx, outside, NULL, &stats));
    AUTO(kf_verdicts) *all_dims = NULL;
    for (uint32_t l = D; l >= 1; l--) {
      AUTO(kf_model) *model = NULL;
      kf_eval_result result;
      kf_verdicts *here;
      kf_comparison both;
      kf_fit_options fit = {.method = KF_METHOD_PAPER, .lambda = options.lambda, .dim = l};
      assert_ok(f.ctx, kf_fit_stats(f.ctx, stats, &fit, &model));
      assert_ok(f.ctx, kf_eval(f.ctx, model, inside, NULL, &result));
      assert_ok(f.ctx, kf_verdicts_new(f.ctx, model, inside, NULL, &here));
      if (l == D) all_dims = here;
      assert_ok(f.ctx, kf_compare(f.ctx, all_dims, here, &both));
      top1[l - 1] += result.top1;
      top5[l - 1] += result.top5;
      lost[l - 1] += both.only_a;
      won[l - 1] += both.only_b;
      if (l < D) kf_verdicts_free(here);
    }
    kf_row_list_clear(&in);
    kf_row_list_clear(&out);
  }
  for (uint32_t l = 0; l < D; l++) {
    assert_int_equal(c->points[l].dim, l + 1);
    assert_int_equal(c->points[l].top1, top1[l]);
    assert_int_equal(c->points[l].top5, top5[l]);
    assert_int_equal(c->points[l].lost, lost[l]);
    assert_int_equal(c->points[l].won, won[l]);
    assert_true(top1[l] <= top1[c->best - 1]);
    assert_true(kf_dim_upper95(c, l) == (l + 1 == D ? 0 : kf_loss_upper95(lost[l], won[l], 700)));
    if (l + 2 == c->dim) assert_true(kf_dim_upper95(c, l) > 0.005);
    if (l + 1 >= c->dim) assert_true(kf_dim_upper95(c, l) <= 0.005);
  }
  assert_true(c->margin == 0.005 && c->same == D && isnan(kf_dim_upper95(c, D)));
  AUTO(kf_dim_choice) *wide = NULL;
  options.margin = 0.99;
  assert_ok(f.ctx, kf_dim_choice_new(f.ctx, f.stats, f.data, &options, &wide));
  assert_int_equal(wide->dim, 1);
  /* An absolute lambda is the same share of the scatter in every fold. */
  AUTO(kf_model) *model = NULL;
  kf_fit_options fit = {.method = KF_METHOD_PAPER, .lambda = options.lambda};
  assert_ok(f.ctx, kf_fit_stats(f.ctx, f.stats, &fit, &model));
  AUTO(kf_dim_choice) *absolute = NULL;
  options.lambda = (kf_lambda){kf_model_lambda(model), KF_LAMBDA_ABSOLUTE};
  assert_ok(f.ctx, kf_dim_choice_new(f.ctx, f.stats, f.data, &options, &absolute));
  assert_memory_equal(absolute->points, wide->points, D * sizeof *wide->points);
  kf_row_list_clear(&all);
  kf_free(fold);
}

/* With fewer classes than dimensions, one less than the classes are all that can matter if rows are
 * centred or distances Euclidean: they are taken however few rows there are. */
TEST(dimensions_of_few_classes) {
  enum { D = 12, K = 5 };
  AUTO(fixture) f = make(60, D, K, 2);
  kf_dim_choice *c;
  const kf_dim_options ways[] = {{.method = KF_METHOD_PAPER, .centre = KF_CENTRE_MEAN},
                                 {.method = KF_METHOD_PAPER, .metric = KF_METRIC_EUCLIDEAN},
                                 {.method = KF_METHOD_PAPER, .margin = 0.9}, /* by its rows */
                                 {.method = KF_METHOD_PAPER, .margin = 1e-9},
                                 {.method = KF_METHOD_DEFAULT}};
  assert_ok(f.ctx, kf_dim_choice_new(f.ctx, f.stats, f.data, &ways[4], &c));
  assert_int_equal(c->same, K - 1); /* the default method centres rows */
  kf_dim_choice_free(c);
  for (size_t w = 0; w < 4; w++) {
    assert_ok(f.ctx, kf_dim_choice_new(f.ctx, f.stats, f.data, &ways[w], &c));
    assert_int_equal(c->same, w < 2 ? K - 1 : D);
    for (uint32_t l = K; w < 2 && l <= D; l++) assert_true(kf_dim_upper95(c, l - 1) == 0);
    if (w < 2) assert_true(c->dim <= K - 1);
    if (w == 2) assert_int_equal(c->dim, 1);
    if (w == 3) assert_int_equal(c->dim, D);
    kf_dim_choice_free(c);
  }
}

/* Sixty rows cannot show a loss below half a point, even if they never differ; thousands can. */
TEST(bound_of_a_loss) {
  assert_true(fabs(kf_loss_upper95(0, 0, 60) - 2.7055 / 62.7055) < 1e-4);
  assert_true(kf_loss_upper95(0, 0, 500) > 0.005 && kf_loss_upper95(0, 0, 600) < 0.005);
  /* Against the root of Tango's equation, found by another program. */
  assert_true(fabs(kf_loss_upper95(10, 6, 1000) - 0.01134962) < 1e-7);
  assert_true(fabs(kf_loss_upper95(4, 16, 1600) - (-0.00313017)) < 1e-7);
  assert_true(fabs(kf_loss_upper95(16, 4, 1600) - 0.01276140) < 1e-7);
  /* Many rows: that of the normal distribution. */
  double d = 100.0 / 1e6, se = sqrt(2100.0 - 0.01) / 1e6;
  assert_true(fabs(kf_loss_upper95(1100, 1000, 1000000) - (d + 1.644854 * se)) < 2e-6);
  assert_true(kf_loss_upper95(0, 0, 0) == 1 && kf_loss_upper95(3, 3, 5) == 1);
  assert_true(fabs(kf_loss_upper95(5, 0, 5) - 1) < 1e-12);
  for (uint64_t lost = 1; lost < 50; lost++) /* more losses, a higher bound */
    assert_true(kf_loss_upper95(lost, 20, 500) > kf_loss_upper95(lost - 1, 20, 500));
}

TEST(dimensions_refused) {
  AUTO(fixture) f = make(100, 4, 5, 1);
  kf_dim_choice *c = NULL;
  assert_error(f.ctx, KF_ERR_ARG, "101 folds",
               kf_dim_choice_new(f.ctx, f.stats, f.data,
                                 &(kf_dim_options){.method = KF_METHOD_PAPER, .folds = 101}, &c));
  assert_error(f.ctx, KF_ERR_ARG, "margin",
               kf_dim_choice_new(f.ctx, f.stats, f.data,
                                 &(kf_dim_options){.method = KF_METHOD_PAPER, .margin = -1}, &c));
  assert_null(c);
}

/* --- neighbours ------------------------------------------------------------------------------- */

TEST(neighbours) {
  enum { MOST = 30 };
  AUTO(fixture) f = make(400, 8, 25, 2);
  AUTO(kf_gallery) *gallery = NULL;
  kf_k_choice *c;
  uint32_t list[MOST];
  kf_hits hits[MOST];
  kf_eval_result counts;
  for (uint32_t k = 0; k < MOST; k++) list[k] = k + 1;
  assert_ok(f.ctx, kf_gallery_new(f.ctx, f.data, NULL, NULL, &gallery));
  for (int weighted = 0; weighted < 2; weighted++) {
    kf_k_options options = {.most = MOST, .weighted = weighted};
    kf_gallery_eval_options eval = {.k = list, .n_k = MOST, .weighted = weighted};
    assert_ok(f.ctx, kf_k_choice_new(f.ctx, gallery, &options, &c));
    assert_ok(f.ctx, kf_gallery_eval(f.ctx, gallery, NULL, &eval, &counts, hits, NULL));
    assert_int_equal(c->n, 400);
    for (uint32_t k = 0; k < MOST; k++) {
      assert_int_equal(c->points[k].k, k + 1);
      assert_int_equal(c->points[k].top1, hits[k].top1);
      assert_int_equal(c->points[k].top5, hits[k].top5);
      assert_true(hits[k].top1 <= hits[c->best - 1].top1);
    }
    assert_true(c->k <= c->best);
    kf_k_choice_free(c);
  }
  kf_k_options options = {.most = 5, .sample = 50};
  assert_ok(f.ctx, kf_k_choice_new(f.ctx, gallery, &options, &c));
  assert_int_equal(c->n, 50);
  kf_k_choice_free(c);
  c = NULL;
  options.most = 400;
  assert_error(f.ctx, KF_ERR_ARG, "400", kf_k_choice_new(f.ctx, gallery, &options, &c));
}

/* By folds, each k is right as often as in galleries of models that are fitted again on the rows of
 * the other folds. */
TEST(neighbours_by_folds) {
  enum { MOST = 12, FOLDS = 3, K = 20 };
  AUTO(fixture) f = make(400, 8, K, 2);
  kf_fit_options fit = {.method = KF_METHOD_PAPER,
                        .lambda = {0.2, KF_LAMBDA_RELATIVE},
                        .dim = 6,
                        .centre = KF_CENTRE_MEAN};
  AUTO(kf_model) *model = NULL;
  kf_k_choice *c;
  uint32_t list[MOST];
  uint64_t labelled, n = 0, top1[MOST] = {0}, top5[MOST] = {0};
  unsigned char *fold;
  kf_row_list all;
  for (uint32_t k = 0; k < MOST; k++) list[k] = k + 1;
  assert_ok(f.ctx, kf_fit_stats(f.ctx, f.stats, &fit, &model));
  kf_k_options options = {
      .most = MOST, .folds = FOLDS, .weighted = 1, .metric = KF_METRIC_EUCLIDEAN};
  assert_ok(f.ctx, kf_k_choice_new_by_folds(f.ctx, f.stats, f.data, model, &options, &c));
  assert_ok(f.ctx, kf_sample_rows(f.ctx, f.data, UINT64_MAX, &all, &labelled));
  assert_ok(f.ctx, kf_fold_rows(&all, K, FOLDS, &fold, &f.ctx->err));
  for (uint32_t number = 0; number < FOLDS; number++) {
    kf_row_list in, out;
    AUTO(kf_data) *inside = NULL, *outside = NULL;
    AUTO(kf_model) *again = NULL;
    AUTO(kf_gallery) *gallery = NULL;
    kf_eval_result counts;
    kf_hits hits[MOST];
    assert_ok(f.ctx, kf_rows_of_fold(&all, fold, number, false, &in, &f.ctx->err));
    assert_ok(f.ctx, kf_rows_of_fold(&all, fold, number, true, &out, &f.ctx->err));
    assert_ok(f.ctx, kf_data_new_pick(f.data, in.row, in.n, &inside, &f.ctx->err));
    assert_ok(f.ctx, kf_data_new_pick(f.data, out.row, out.n, &outside, &f.ctx->err));
    assert_ok(f.ctx, kf_fit(f.ctx, outside, &fit, &again, NULL));
    assert_ok(f.ctx,
              kf_gallery_new(f.ctx, outside, again,
                             &(kf_gallery_options){.metric = KF_METRIC_EUCLIDEAN}, &gallery));
    kf_gallery_eval_options eval = {.k = list, .n_k = MOST, .weighted = 1};
    assert_ok(f.ctx, kf_gallery_eval(f.ctx, gallery, inside, &eval, &counts, hits, NULL));
    n += counts.n;
    for (uint32_t k = 0; k < MOST; k++) {
      top1[k] += hits[k].top1;
      top5[k] += hits[k].top5;
    }
    kf_row_list_clear(&in);
    kf_row_list_clear(&out);
  }
  assert_int_equal(c->n, n);
  assert_int_equal(c->folds, FOLDS);
  for (uint32_t k = 0; k < MOST; k++) {
    assert_int_equal(c->points[k].top1, top1[k]);
    assert_int_equal(c->points[k].top5, top5[k]);
    assert_int_equal(top1[c->best - 1] - top1[k], c->points[k].lost - c->points[k].won);
  }
  kf_k_choice_free(c);
  c = NULL;
  options.sample = 100;
  assert_ok(f.ctx, kf_k_choice_new_by_folds(f.ctx, f.stats, f.data, model, &options, &c));
  assert_true(c->n >= 80 && c->n <= 100);
  kf_k_choice_free(c);
  c = NULL;
  options.most = 300;
  assert_error(f.ctx, KF_ERR_ARG, "300",
               kf_k_choice_new_by_folds(f.ctx, f.stats, f.data, model, &options, &c));
  assert_null(c);
  kf_row_list_clear(&all);
  kf_free(fold);
}

/* As many folds as most classes have rows. */
TEST(number_of_folds) {
  const struct {
    uint64_t rows;
    uint32_t folds;
  } cases[] = {{400, 10}, {80, 4}, {79, 4}, {60, 3}, {40, 5}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    AUTO(fixture) f = make(cases[i].rows, 8, 20, 1);
    for (uint64_t r = 0; r < cases[i].rows; r++) f.w.labels[r] = (int32_t)(r % 20);
    AUTO(kf_data) *data = NULL;
    AUTO(kf_stats) *stats = NULL;
    AUTO(kf_dim_choice) *c = NULL;
    assert_ok(f.ctx,
              kf_data_open_memory(f.ctx, f.w.rows, cases[i].rows, 8, f.w.labels, NULL, 20, &data));
    assert_ok(f.ctx, kf_stats_new_from_data(f.ctx, data, NULL, &stats));
    assert_ok(f.ctx, kf_dim_choice_new(f.ctx, stats, data, NULL, &c));
    assert_int_equal(c->folds, cases[i].folds);
  }
}

/* --- near-duplicates -------------------------------------------------------------------------- */

/* n rows around their class means, the first `twins` of every ten close to the one before. */
static kf_near_rows near_in(uint64_t n, uint32_t dim, uint32_t classes, uint64_t twins,
                            double apart) {
  fixture f = make(2, 4, 2, 2); /* for its context */
  float *rows = malloc(n * dim * sizeof *rows);
  int32_t *labels = malloc(n * sizeof *labels);
  assert_true(rows != NULL && labels != NULL);
  uint64_t state = 7;
  for (uint64_t i = 0; i < n; i++) {
    bool twin = i >= classes && i / classes % 10 < twins;
    labels[i] = (int32_t)(i % classes);
    for (uint32_t d = 0; d < dim; d++) {
      double noise = 0;
      for (int t = 0; t < 4; t++) { /* about normal */
        state = state * 6364136223846793005u + 1442695040888963407u;
        noise += (double)(state >> 33) / (double)(1u << 31) - 0.5;
      }
      double mean = d == i % classes ? 3 : 1;
      float *at = &rows[i * dim + d];
      *at = twin ? rows[(i - classes) * dim + d] + (float)(apart * noise) : (float)(mean + noise);
    }
  }
  kf_data *data;
  kf_stats *stats;
  kf_near_rows found;
  assert_ok(f.ctx, kf_data_open_memory(f.ctx, rows, n, dim, labels, NULL, classes, &data));
  assert_ok(f.ctx, kf_stats_new_from_data(f.ctx, data, NULL, &stats));
  assert_ok(f.ctx, kf_near_duplicates(f.ctx, stats, data, &found));
  kf_stats_free(stats);
  kf_data_free(data);
  free(rows);
  free(labels);
  clear(&f);
  return found;
}

TEST(near_duplicates) {
  kf_near_rows r = near_in(600, 64, 10, 0, 0);
  assert_true(r.n == 600 && r.near == 0 && r.copies == 0 && !r.many);
  r = near_in(600, 64, 10, 5, 0.2); /* half of the rows, and the rows they are close to */
  assert_true(r.near >= 300 && r.near < 600 && r.copies == 0 && r.many);
  r = near_in(600, 64, 10, 5, 0);
  assert_true(r.near >= 300 && r.copies == r.near && r.many);
  r = near_in(600, 64, 10, 1, 1); /* no nearer than others */
  assert_true(r.near == 0 && !r.many);
  r = near_in(40000, 24, 40, 2, 0.2); /* a sample of rows and classes */
  assert_true(r.n == 1000 && r.near > 200 && r.near < 500 && r.many);
  r = near_in(600, 4, 4, 0, 0); /* few directions: rows come close by chance */
  assert_true(r.near == 0 && !r.many);
  r = near_in(20, 8, 20, 0, 0); /* no class has two rows */
  assert_true(r.n == 0 && !r.many);
}

/* A gallery in memory answers as one that went through a file. */
TEST(gallery_in_memory) {
  AUTO(fixture) f = make(300, 10, 7, 2);
  const char *folder = test_folder(), *path = test_path(folder, "gallery.safetensors");
  AUTO(kf_model) *model = NULL;
  kf_gallery *file, *memory;
  assert_ok(f.ctx, kf_fit_stats(f.ctx, f.stats,
                                &(kf_fit_options){.method = KF_METHOD_PAPER, .dim = 6}, &model));
  for (int mapped = 0; mapped < 2; mapped++)
    for (int metric = KF_METRIC_COSINE; metric <= KF_METRIC_INNER; metric++) {
      kf_gallery_options options = {.metric = (kf_metric)metric};
      const kf_model *map = mapped ? model : NULL;
      assert_ok(f.ctx, kf_gallery_save(f.ctx, f.data, map, &options, path));
      assert_ok(f.ctx, kf_gallery_load(f.ctx, path, NULL, &file));
      assert_ok(f.ctx, kf_gallery_new(f.ctx, f.data, map, &options, &memory));
      int64_t rows[2][300 * 4];
      double scores[2][300 * 4];
      assert_ok(f.ctx,
                kf_gallery_search(f.ctx, file, f.w.rows, 300, 4, NULL, rows[0], scores[0], NULL));
      assert_ok(f.ctx,
                kf_gallery_search(f.ctx, memory, f.w.rows, 300, 4, NULL, rows[1], scores[1], NULL));
      assert_memory_equal(rows[0], rows[1], sizeof rows[0]);
      assert_memory_equal(scores[0], scores[1], sizeof scores[0]);
      assert_ok(f.ctx, kf_gallery_search_itself(f.ctx, file, 5, 290, 4, rows[0], NULL, NULL));
      assert_ok(f.ctx, kf_gallery_search_itself(f.ctx, memory, 5, 290, 4, rows[1], NULL, NULL));
      assert_memory_equal(rows[0], rows[1], 290 * 4 * sizeof rows[0][0]);
      assert_int_equal(kf_gallery_label(memory, 7), kf_gallery_label(file, 7));
      kf_gallery_free(file);
      kf_gallery_free(memory);
    }
  f.w.rows[10 * 5 + 3] = NAN; /* row 5 */
  memory = NULL;
  assert_error(f.ctx, KF_ERR_DATA, "row 5", kf_gallery_new(f.ctx, f.data, NULL, NULL, &memory));
  f.data->skip_bad = true;
  assert_ok(f.ctx, kf_gallery_new(f.ctx, f.data, model, NULL, &memory));
  assert_int_equal(kf_gallery_rows(memory), 299);
  assert_int_equal(kf_gallery_label(memory, 5), f.w.labels[6]);
  kf_gallery_free(memory);
  test_remove(folder);
}

/* --- rules for lambda ------------------------------------------------------------------------- */

TEST(rules) {
  AUTO(fixture) f = make(500, 8, 6, 3);
  kf_lambda lambda;
  assert_ok(f.ctx, kf_lambda_ledoit_wolf(f.ctx, f.stats, f.data, &lambda));
  assert_int_equal(lambda.unit, KF_LAMBDA_RELATIVE);
  /* By the definition, as plainly as possible. */
  double s[64] = {0}, mean[6][8] = {{0}}, sum4 = 0, m = 0, a = 0, s2 = 0;
  double(*d)[8] = calloc(500, sizeof *d);
  for (size_t i = 0; i < 500; i++) {
    double norm = 0;
    for (size_t j = 0; j < 8; j++)
      norm += (double)f.w.rows[i * 8 + j] * (double)f.w.rows[i * 8 + j];
    for (size_t j = 0; j < 8; j++) d[i][j] = (double)f.w.rows[i * 8 + j] / sqrt(norm);
    for (size_t j = 0; j < 8; j++)
      mean[f.w.labels[i]][j] += d[i][j] / (double)kf_stats_count(f.stats, (uint32_t)f.w.labels[i]);
  }
  for (size_t i = 0; i < 500; i++) {
    double norm = 0;
    for (size_t j = 0; j < 8; j++) d[i][j] -= mean[f.w.labels[i]][j];
    for (size_t j = 0; j < 8; j++) norm += d[i][j] * d[i][j];
    sum4 += norm * norm;
    for (size_t j = 0; j < 64; j++) s[j] += d[i][j / 8] * d[i][j % 8] / 500;
  }
  for (size_t j = 0; j < 8; j++) m += s[9 * j] / 8;
  for (size_t j = 0; j < 64; j++) {
    double x = s[j] - (j % 9 == 0 ? m : 0);
    a += x * x;
    s2 += s[j] * s[j];
  }
  double r = (sum4 / 500 - s2) / 500 / a;
  assert_true(r > 0 && r < 1);
  assert_true(fabs(lambda.value / (r / (1 - r)) - 1) < 1e-4);
  free(d);

  AUTO(kf_model) *model = NULL;
  kf_fit_options options = {.method = KF_METHOD_PAPER};
  assert_ok(f.ctx, kf_lambda_parse(f.ctx, "gda", &options.lambda));
  assert_ok(f.ctx, kf_fit_stats(f.ctx, f.stats, &options, &model));
  double wanted = kf_model_mean_eigenvalue(model) * 8 / 499;
  assert_true(fabs(kf_model_lambda(model) / wanted - 1) < 1e-14);
}

/* Rows that are not those of the statistics, though as many: nothing overflows. */
TEST(rules_for_other_rows) {
  for (int raw = 0; raw < 2; raw++) {
    fixture f = make(60, 4, 3, 1), g = make(60, 4, 3, 1);
    kf_stats *stats;
    kf_stats_options options = {.normalize = raw ? KF_OFF : KF_ON};
    for (uint64_t i = 0; i < 60; i++) /* classes that are almost points, and one without rows */
      for (uint32_t j = 0; j < 4; j++) {
        f.w.labels[i] = (int32_t)i % 2;
        f.w.rows[i * 4 + j] = i == 0 && j == 0 ? 1.000001f : (float)((uint32_t)(i % 2) + j);
      }
    for (uint64_t i = 0; raw && i < 240; i++) g.w.rows[i] *= 1e20f;
    assert_ok(f.ctx, kf_stats_new_from_data(f.ctx, f.data, &options, &stats));
    kf_lambda lambda;
    kf_lambda_choice *choice;
    assert_error(f.ctx, raw ? KF_ERR_DATA : KF_ERR_ARG, raw ? "magnitude" : "not those of the data",
                 kf_lambda_ledoit_wolf(f.ctx, stats, g.data, &lambda));
    kf_status status = kf_lambda_choice_new(
        f.ctx, stats, g.data, &(kf_lambda_options){.method = KF_METHOD_PAPER}, &choice);
    assert_int_equal(status, raw ? KF_ERR_DATA : KF_OK);
    if (status == KF_OK) kf_lambda_choice_free(choice);
    kf_stats_free(stats);
    clear(&f);
    clear(&g);
  }
}
