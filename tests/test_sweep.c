/* test_sweep.c - every cell of a sweep equals a separate fit and evaluation. */
#include "world.h"

#include "choose/choose.h"
#include "file/file_internal.h"

typedef struct problem {
  kf_ctx *ctx;
  world w;
  kf_data *train, *test;
  kf_stats *stats;
  const char **names;
} problem;

enum { D = 14, K = 12, N = 600 };

static problem make_problem(int raw, unsigned threads) {
  problem p = {.ctx = test_ctx(threads, KF_ISA_AUTO), .w = make_world(N, D, K, 2, 31)};
  static char text[K][8];
  p.names = malloc(K * sizeof *p.names);
  for (int k = 0; k < K; k++) {
    snprintf(text[k], sizeof text[k], "c%02d", k);
    p.names[k] = text[k];
  }
  uint64_t half = N / 2;
  assert_ok(p.ctx, kf_data_open_memory(p.ctx, p.w.rows, half, D, p.w.labels, p.names, K, &p.train));
  assert_ok(p.ctx, kf_data_open_memory(p.ctx, p.w.rows + half * D, N - half, D, p.w.labels + half,
                                       p.names, K, &p.test));
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
  free(p->names);
}
AUTO_STRUCT(problem, clear_problem)

/* The alpha of a fused cell, chosen separately. */
static double alpha_alone(problem *p, const kf_sweep_cell *cell, const kf_sweep_options *o) {
  AUTO(kf_fuse_choice) *choice = NULL;
  kf_fuse_options options = {.method = o->method,
                             .centre = KF_CENTRE_MEAN,
                             .lambda = {cell->lambda, KF_LAMBDA_ABSOLUTE},
                             .alphas = o->alphas,
                             .n_alphas = o->n_alphas};
  assert_ok(p->ctx, kf_fuse_choice_new(p->ctx, p->stats, p->train, o->text, &options, &choice));
  double alpha = choice->alpha;
  assert_true(cell->alpha == alpha);
  return alpha;
}

/* One cell, computed separately. */
static void alone(problem *p, const kf_sweep_cell *cell, const kf_sweep_options *o, uint64_t *n,
                  uint64_t *top1, uint64_t *top5) {
  AUTO(kf_model) *model = NULL;
  kf_fit_options fit = {.method = o->method,
                        .lambda = {cell->lambda, KF_LAMBDA_ABSOLUTE},
                        .dim = cell->dim,
                        .centre = o->centre,
                        .between = o->between};
  if (cell->raw) fit.lambda = (kf_lambda){0};
  const kf_class_set *set = o->n_sets > 0 ? o->sets[cell->set] : NULL;
  if (cell->fused) fit.centre = KF_CENTRE_MEAN;
  assert_ok(p->ctx, kf_fit_stats(p->ctx, p->stats, &fit, &model));
  if (cell->text) {
    AUTO(kf_model) *map = model;
    assert_ok(p->ctx, kf_model_new_zero_shot(p->ctx, map, o->text, cell->text, &model));
  }
  if (cell->fused) {
    AUTO(kf_model) *map = model;
    assert_ok(p->ctx, kf_model_new_fused(p->ctx, map, o->text, alpha_alone(p, cell, o), &model));
  }
  kf_eval_result r;
  if (cell->k == 0) {
    kf_eval_options eval = {.metric = cell->metric, .truth = o->truth, .set = set};
    assert_ok(p->ctx, kf_eval(p->ctx, model, p->test, &eval, &r));
    *top1 = cell->raw ? r.raw_top1 : r.top1;
    *top5 = cell->raw ? r.raw_top5 : r.top5;
  } else {
    AUTO(kf_gallery) *gallery = NULL;
    kf_hits hits;
    kf_gallery_options options = {.metric = cell->metric};
    kf_gallery_eval_options eval = {.k = &cell->k, .n_k = 1, .truth = o->truth, .set = set};
    assert_ok(p->ctx,
              kf_gallery_new(p->ctx, p->train, cell->raw ? NULL : model, &options, &gallery));
    assert_ok(p->ctx, kf_gallery_eval(p->ctx, gallery, p->test, &eval, &r, &hits, NULL));
    *top1 = hits.top1;
    *top5 = hits.top5;
  }
  *n = r.n;
}

static void check(problem *p, const kf_sweep_options *o, size_t wanted) {
  AUTO(kf_sweep) *s = NULL;
  assert_ok(p->ctx, kf_sweep_new(p->ctx, p->stats, p->train, p->test, o, &s));
  assert_int_equal(s->n_cells, wanted);
  assert_int_equal(s->folds, 0);
  assert_int_equal(s->counts.rows, N / 2);
  for (size_t i = 0; i < s->n_cells; i++) {
    const kf_sweep_cell *c = &s->cells[i];
    uint64_t n, top1, top5;
    alone(p, c, o, &n, &top1, &top5);
    if (c->n != n || c->top1 != top1 || c->top5 != top5)
      fail_msg("cell %zu (raw %d, lambda %g, dim %u, k %u, metric %d, set %u): %llu %llu of %llu, "
               "alone %llu %llu of %llu",
               i, c->raw, c->lambda, c->dim, c->k, (int)c->metric, c->set,
               (unsigned long long)c->top1, (unsigned long long)c->top5, (unsigned long long)c->n,
               (unsigned long long)top1, (unsigned long long)top5, (unsigned long long)n);
  }
}

static const kf_lambda lambdas[] = {
    {0.01, KF_LAMBDA_RELATIVE}, {0.3, KF_LAMBDA_RELATIVE}, {2, KF_LAMBDA_ABSOLUTE}};
static const uint32_t dims[] = {14, 9, 4, 9, 1}, ks[] = {1, 5, 11};
static const kf_metric metrics[] = {KF_METRIC_COSINE, KF_METRIC_EUCLIDEAN};

/* A grid over everything; tests copy and change it. */
static const kf_sweep_options all_options = {.method = KF_METHOD_PAPER,
                                             .lambdas = lambdas,
                                             .n_lambdas = 2,
                                             .dims = dims,
                                             .n_dims = 5,
                                             .k = ks,
                                             .n_k = 3,
                                             .metrics = metrics,
                                             .n_metrics = 2};

/* test NULL: folds, or rows left out. */
static kf_sweep *sweep(problem *p, const kf_data *test, const kf_sweep_options *o) {
  kf_sweep *s;
  assert_ok(p->ctx, kf_sweep_new(p->ctx, p->stats, p->train, test, o, &s));
  return s;
}

static void refused(problem *p, const char *text, kf_sweep_options o) {
  kf_sweep *s;
  o.method = KF_METHOD_PAPER;
  assert_error(p->ctx, KF_ERR_ARG, text, kf_sweep_new(p->ctx, p->stats, p->train, p->test, &o, &s));
}

TEST(everything) {
  for (int raw = 0; raw < 2; raw++) {
    AUTO(problem) p = make_problem(raw, 2);
    kf_sweep_options o = all_options;
    o.n_lambdas = 3;
    check(&p, &o, 2 * (4 + 3 * 4 * 5));
  }
}

TEST(parts) {
  AUTO(problem) p = make_problem(0, 3);
  check(&p, &(kf_sweep_options){.method = KF_METHOD_PAPER},
        2); /* raw and 0.3x with all dimensions */
  check(&p,
        &(kf_sweep_options){
            .method = KF_METHOD_PAPER, .include_raw = KF_OFF, .dims = dims, .n_dims = 5},
        5);
  check(&p,
        &(kf_sweep_options){
            .method = KF_METHOD_PAPER, .include_prototypes = KF_OFF, .k = ks, .n_k = 2},
        4);
  check(&p,
        &(kf_sweep_options){
            .method = KF_METHOD_PAPER, .centre = KF_CENTRE_MEAN, .dims = dims, .n_dims = 2},
        3);
  check(&p, &(kf_sweep_options){.method = KF_METHOD_SHRUNK, .dims = dims, .n_dims = 5}, 6);
  check(&p, &(kf_sweep_options){.k = ks, .n_k = 2}, 6); /* the default method */
  AUTO(kf_stats) *other = NULL; /* S_b from other statistics, without neighbours */
  assert_ok(p.ctx, kf_stats_new_from_data(p.ctx, p.test, NULL, &other));
  check(&p,
        &(kf_sweep_options){.method = KF_METHOD_PAPER, .between = other, .dims = dims, .n_dims = 3},
        4);
}

TEST(class_sets) {
  AUTO(problem) p = make_problem(0, 2);
  AUTO(kf_class_set) *few = NULL, *most = NULL;
  assert_ok(p.ctx, kf_class_set_new(p.ctx, p.names + 2, 4, &few));
  assert_ok(p.ctx, kf_class_set_new(p.ctx, p.names + 1, 10, &most));
  const kf_class_set *sets[] = {few, most};
  kf_sweep_options o = {.method = KF_METHOD_PAPER,
                        .sets = sets,
                        .n_sets = 2,
                        .dims = dims,
                        .n_dims = 5,
                        .k = ks,
                        .n_k = 2};
  check(&p, &o, 2 * (3 + 3 * 5));
}

/* Text of all classes but one, and of one unknown class, with an offset. */
static kf_text *make_text(problem *p) {
  static float rows[K * D];
  int32_t labels[K];
  const char *names[K];
  AUTO(kf_model) *m = fit(p->ctx, p->stats, 1, D);
  for (int k = 0; k < K; k++) {
    labels[k] = k;
    names[k] = k == 3 ? "other" : p->names[k];
    for (int i = 0; i < D; i++)
      rows[k * D + i] = kf_model_class_means(m)[k * D + i] + (i == 5 ? 0.3F : 0.0F);
  }
  AUTO(kf_data) *data = NULL;
  kf_text *text;
  assert_ok(p->ctx, kf_data_open_memory(p->ctx, rows, K, D, labels, names, K, &data));
  assert_ok(p->ctx, kf_text_new(p->ctx, data, NULL, &text));
  return text;
}

TEST(text) {
  static const kf_centre all[] = {KF_CENTRE_MODALITY, KF_CENTRE_NONE, KF_CENTRE_MEAN};
  for (unsigned threads = 1; threads <= 3; threads += 2) {
    AUTO(problem) p = make_problem(0, threads);
    AUTO(kf_text) *prompts = make_text(&p);
    AUTO(kf_class_set) *one = NULL, *two = NULL;
    assert_ok(p.ctx, kf_class_set_new(p.ctx, p.names, 5, &one));
    assert_ok(p.ctx, kf_class_set_new(p.ctx, p.names + 4, 6, &two));
    const kf_class_set *sets[] = {one, two};
    kf_sweep_options o = all_options;
    o.n_k = 1;
    o.sets = sets, o.n_sets = 2;
    o.text = prompts;
    o.text_centres = all, o.n_text_centres = 3;
    check(&p, &o, 4 * (2 + 2 * 2 * 5 + 1 + 3 * 2 * 5));
    o.n_sets = 0;
    o.n_k = 0;
    o.include_raw = KF_OFF;
    o.text_centres = NULL;
    check(&p, &o, 2 * (2 * 5 + 2 * 5));
    o.include_prototypes = KF_OFF; /* text alone, which has no rows of one class */
    AUTO(kf_sweep) *tested = sweep(&p, p.test, &o);
    assert_int_equal(tested->n_cells, 2 * 2 * 5);
    assert_int_equal(tested->cells[0].text, KF_CENTRE_MODALITY);
    assert_int_equal(tested->counts.n_absent, N / 2 / K);
    assert_int_equal(tested->counts.n, N / 2 - N / 2 / K);
    o.include_prototypes = KF_ON;
    AUTO(kf_sweep) *folds = sweep(&p, NULL, &o), *s = NULL;
    assert_int_equal(folds->cells[folds->n_cells - 1].n, N / 2 - N / 2 / K);
    o.dims = NULL;
    o.leave_one_out = 1;
    assert_error(p.ctx, KF_ERR_ARG, "leave-one-out",
                 kf_sweep_new(p.ctx, p.stats, p.train, NULL, &o, &s));
  }
}

TEST(fused) {
  static const double few[] = {0.3, 0, 0.05}, one = 0.2;
  AUTO(problem) p = make_problem(0, 2);
  AUTO(kf_text) *prompts = make_text(&p);
  AUTO(kf_class_set) *set = NULL;
  assert_ok(p.ctx, kf_class_set_new(p.ctx, p.names + 2, 7, &set));
  const kf_class_set *sets[] = {set};
  kf_sweep_options o = {.method = KF_METHOD_PAPER,
                        .lambdas = lambdas,
                        .n_lambdas = 3,
                        .dims = dims,
                        .n_dims = 5,
                        .text = prompts,
                        .fuse = 1,
                        .include_raw = KF_OFF};
  check(&p, &o, 3 * 15);
  o.metrics = metrics, o.n_metrics = 2; /* fused cells have one metric */
  o.sets = sets, o.n_sets = 1;
  o.centre = KF_CENTRE_MEAN;
  check(&p, &o, 5 * 15);
  o.metrics = NULL;
  o.alphas = few, o.n_alphas = 3;
  check(&p, &o, 3 * 15);
  o.alphas = &one, o.n_alphas = 1;
  check(&p, &o, 3 * 15);
  o.text_centres = NULL;
  o.n_sets = 0;
  AUTO(kf_sweep) *tested = sweep(&p, p.test, &o), *again = NULL, *s = NULL;
  assert_ok(p.ctx, kf_sweep_new(p.ctx, p.stats, NULL, p.test, &o, &again)); /* without rows */
  for (size_t i = 0; i < tested->n_cells; i++)
    assert_true(tested->cells[i].top1 == again->cells[i].top1 &&
                tested->cells[i].n == again->cells[i].n);
  o.alphas = few, o.n_alphas = 3;
  assert_error(p.ctx, KF_ERR_ARG, "needs the training rows",
               kf_sweep_new(p.ctx, p.stats, NULL, p.test, &o, &s));
  o.n_alphas = 0;
  refused(&p, "alphas is empty", o);
  o.between = p.stats;
  refused(&p, "S_b", o);
  refused(&p, "need text", (kf_sweep_options){.fuse = 1});
}

/* Fused cells come last, by set, lambda and dimension. */
TEST(order_of_fused) {
  static const double alpha = 0.2;
  AUTO(problem) p = make_problem(0, 2);
  AUTO(kf_text) *prompts = make_text(&p);
  AUTO(kf_class_set) *few = NULL, *most = NULL;
  assert_ok(p.ctx, kf_class_set_new(p.ctx, p.names + 2, 4, &few));
  assert_ok(p.ctx, kf_class_set_new(p.ctx, p.names + 1, 10, &most));
  const kf_class_set *sets[] = {few, most};
  kf_sweep_options o = all_options;
  o.n_lambdas = 3, o.n_dims = 2, o.n_k = 0, o.n_metrics = 1;
  o.sets = sets, o.n_sets = 2;
  o.text = prompts, o.fuse = 1;
  o.alphas = &alpha, o.n_alphas = 1;
  check(&p, &o, 2 * (1 + 3 * 2) + 2 * (1 + 3 * 2) + 2 * 3 * 2);
  AUTO(kf_sweep) *s = sweep(&p, p.test, &o);
  const kf_sweep_cell *c = s->cells + s->n_cells - 2 * 3 * 2;
  assert_false(c[-1].fused);
  for (uint32_t i = 0; i < 2 * 3 * 2; i++) {
    const kf_lambda *lambda = &lambdas[i / 2 % 3];
    assert_true(c[i].fused && !c[i].raw && c[i].k == 0);
    assert_int_equal(c[i].set, i / 6);
    assert_int_equal(c[i].dim, dims[i % 2]);
    double value = lambda->unit == KF_LAMBDA_RELATIVE ? c[i].relative : c[i].lambda;
    assert_float_equal(value, lambda->value, 1e-9);
  }
}

/* All cells in the documented order; a dimension that is given twice has two cells. */
TEST(order) {
  static const kf_centre centres[] = {KF_CENTRE_MEAN, KF_CENTRE_NONE};
  AUTO(problem) p = make_problem(0, 2);
  AUTO(kf_text) *prompts = make_text(&p);
  AUTO(kf_class_set) *few = NULL, *most = NULL;
  assert_ok(p.ctx, kf_class_set_new(p.ctx, p.names + 4, 4, &few));
  assert_ok(p.ctx, kf_class_set_new(p.ctx, p.names + 1, 10, &most));
  const kf_class_set *sets[] = {few, most};
  kf_sweep_options o = all_options;
  o.dims = dims + 1, o.n_dims = 3; /* 9, 4, 9 */
  o.n_k = 2;
  o.sets = sets, o.n_sets = 2;
  o.text = prompts;
  o.text_centres = centres, o.n_text_centres = 2;
  AUTO(kf_sweep) *s = sweep(&p, p.test, &o);
  const kf_sweep_cell *c = s->cells;
  for (uint32_t set = 0; set < 2; set++)
    for (size_t m = 0; m < 2; m++) {
      for (size_t i = 0; i < 3; i++, c++)
        assert_true(c->raw && c->set == set && c->metric == metrics[m] && c->dim == D &&
                    c->k == (i == 0 ? 0 : ks[i - 1]) && c->lambda == 0 && !c->text);
      for (size_t l = 0; l < 2; l++)
        for (size_t i = 0; i < 3; i++)
          for (size_t d = 0; d < 3; d++, c++)
            assert_true(!c->raw && c->set == set && c->metric == metrics[m] &&
                        c->dim == dims[d + 1] && c->k == (i == 0 ? 0 : ks[i - 1]) && !c->text &&
                        fabs(c->relative / lambdas[l].value - 1) < 1e-9);
    }
  for (uint32_t set = 0; set < 2; set++)
    for (size_t m = 0; m < 2; m++) {
      assert_true(c->raw && c->text == KF_CENTRE_NONE && c->set == set && c->dim == D);
      c++;
      for (size_t t = 0; t < 2; t++)
        for (size_t l = 0; l < 2; l++)
          for (size_t d = 0; d < 3; d++, c++)
            assert_true(!c->raw && c->set == set && c->metric == metrics[m] && c->k == 0 &&
                        c->dim == dims[d + 1] && c->text == centres[t] &&
                        fabs(c->relative / lambdas[l].value - 1) < 1e-9);
    }
  assert_true(c == s->cells + s->n_cells);
}

/* Progress never falls, has one total, and reaches it, however rows are judged. */
typedef struct counter {
  uint64_t done, total, rises;
  char said[1024];
} counter;

static int count_steps(void *user, const char *what, uint64_t done, uint64_t total) {
  counter *c = user;
  assert_string_equal(what, "sweep");
  assert_true(done >= c->done && done <= total && (c->total == 0 || c->total == total));
  c->rises += done > c->done;
  c->done = done;
  c->total = total;
  return 0;
}

static void keep_said(void *user, const char *message) {
  counter *c = user;
  snprintf(c->said + strlen(c->said), sizeof c->said - strlen(c->said), "%s\n", message);
}

static void count_sweep(problem *p, const kf_data *test, const kf_sweep_options *o, counter *c) {
  AUTO(kf_ctx) *ctx = NULL;
  AUTO(kf_sweep) *s = NULL;
  *c = (counter){0};
  assert_int_equal(
      kf_ctx_new(
          &(kf_ctx_options){.threads = 2, .progress = count_steps, .log = keep_said, .user = c},
          &ctx),
      KF_OK);
  assert_ok(ctx, kf_sweep_new(ctx, p->stats, p->train, test, o, &s));
  assert_int_equal(c->done, c->total);
  assert_true(c->rises > 1);
}

TEST(progress_and_remarks) {
  AUTO(problem) p = make_problem(0, 2);
  AUTO(kf_text) *prompts = make_text(&p);
  counter c;
  kf_sweep_options o = all_options;
  o.n_dims = 3;
  count_sweep(&p, p.test, &o, &c);
  assert_string_equal(c.said, "");
  o.text = prompts;
  o.fuse = 1;
  count_sweep(&p, p.test, &o, &c);
  assert_non_null(strstr(c.said, "1 of the 12 classes of the training data is not in the text "
                                 "('c03')"));
  assert_non_null(strstr(c.said, "1 of the 12 classes of the text is not in the training data "
                                 "('other')"));
  o.folds = 3;
  o.n_k = 0;
  count_sweep(&p, NULL, &o, &c);
  o.sample = 30;
  count_sweep(&p, NULL, &o, &c);
  count_sweep(&p, p.test, &o, &c);
  o = all_options;
  o.leave_one_out = 1, o.n_lambdas = 3, o.dims = NULL, o.n_dims = 0, o.k = NULL, o.n_k = 0;
  count_sweep(&p, NULL, &o, &c);
}

/* Every class keeps its share, rounded down or up, however small it is. */
TEST(shares) {
  static const uint64_t sizes[] = {900, 1, 60, 0, 3, 36};
  enum { CLASSES = 6, ALL = 1000, MOST = 90 };
  uint64_t kept[CLASSES] = {0};
  kf_row_list rows;
  kf_err err;
  assert_int_equal(kf_row_list_make(&rows, ALL, &err), KF_OK);
  for (uint64_t i = 0, left[CLASSES] = {900, 1, 60, 0, 3, 36}; i < ALL; i++) {
    int32_t k = (int32_t)(i * 7 % CLASSES);
    while (left[k] == 0) k = (k + 1) % CLASSES;
    left[k]--;
    kf_row_list_add(&rows, i, k);
  }
  assert_int_equal(kf_row_list_keep_shares(&rows, CLASSES, MOST, &err), KF_OK);
  assert_int_equal(rows.n, MOST);
  for (uint64_t i = 0; i < rows.n; i++) {
    kept[rows.label[i]]++;
    assert_true(i == 0 || rows.row[i] > rows.row[i - 1]);
  }
  for (size_t k = 0; k < CLASSES; k++)
    assert_true(kept[k] >= sizes[k] * MOST / ALL && kept[k] <= (sizes[k] * MOST + ALL - 1) / ALL);
  kf_row_list_clear(&rows);
  kf_folding f = {.folds = 5, .sample = 30};
  assert_int_equal(kf_folds_taken(&f, 300), 1);
  f.sample = 61;
  assert_int_equal(kf_folds_taken(&f, 300), 2);
  f.sample = 300;
  assert_int_equal(kf_folds_taken(&f, 300), 5);
}

/* Keeps the test rows that a sample of `most` takes; with a truth it takes no notice of labels. */
static void keep_sample(problem *p, uint64_t most, bool truth) {
  uint64_t n = 0, place = 0, *rows = kf_alloc(most, sizeof *rows);
  bool taken[N / 2] = {false};
  for (int32_t k = 0; k < K; k++)
    for (size_t i = 0; i < N / 2; i++)
      if (p->w.labels[N / 2 + i] == k) {
        uint64_t t = truth ? i : place++;
        taken[i] = (t + 1) * most / (N / 2) > t * most / (N / 2);
      }
  for (size_t i = 0; i < N / 2; i++)
    if (taken[i]) rows[n++] = i;
  assert_int_equal(n, most);
  assert_int_equal(kf_data_keep_rows(&p->test, rows, n, &p->ctx->err), KF_OK);
}

/* Every third of the test rows that are kept has another class. */
static kf_truth *write_truth(problem *p, uint64_t most) {
  const char *folder = test_folder(), *path = test_path(folder, "sample.txt");
  kf_truth *truth = NULL;
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  for (size_t i = 0; i < N / 2; i++)
    if ((i + 1) * most / (N / 2) > i * most / (N / 2))
      fprintf(file, "%s\n", p->names[(p->w.labels[N / 2 + i] + (i % 3 == 0)) % K]);
  assert_int_equal(fclose(file), 0);
  assert_ok(p->ctx, kf_truth_load(p->ctx, path, NULL, &truth));
  return truth;
}

/* A sample of test rows gives what a data set of these rows gives. */
TEST(samples) {
  for (int with_truth = 0; with_truth < 2; with_truth++) {
    AUTO(problem) p = make_problem(0, 2);
    AUTO(kf_truth) *whole = with_truth ? write_truth(&p, N / 2) : NULL;
    AUTO(kf_truth) *part = with_truth ? write_truth(&p, 40) : NULL;
    kf_sweep_options o = all_options;
    o.sample = 40, o.truth = whole;
    AUTO(kf_sweep) *some = sweep(&p, p.test, &o);
    keep_sample(&p, 40, with_truth);
    o.sample = 0, o.truth = part;
    AUTO(kf_sweep) *again = sweep(&p, p.test, &o);
    assert_int_equal(some->counts.n, 40);
    assert_int_equal(some->n_cells, again->n_cells);
    for (size_t i = 0; i < some->n_cells; i++) {
      const kf_sweep_cell *a = &some->cells[i], *b = &again->cells[i];
      assert_true(a->lambda == b->lambda && a->alpha == b->alpha && a->dim == b->dim);
      assert_true(a->k == b->k && a->metric == b->metric && a->raw == b->raw);
      assert_true(a->n == b->n && a->top1 == b->top1 && a->top5 == b->top5);
    }
  }
}

/* A truth replaces the labels for every kind of cell. */
TEST(truths) {
  AUTO(problem) p = make_problem(0, 2);
  AUTO(kf_text) *prompts = make_text(&p);
  const char *folder = test_folder(), *path = test_path(folder, "truth.txt");
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  for (size_t i = 0; i < (size_t)kf_data_rows(p.test); i++) /* every third one is another class */
    fprintf(file, "%s\n", p.names[(p.w.labels[N / 2 + i] + (i % 3 == 0)) % K]);
  assert_int_equal(fclose(file), 0);
  AUTO(kf_truth) *truth = NULL;
  assert_ok(p.ctx, kf_truth_load(p.ctx, path, NULL, &truth));
  kf_sweep_options o = {.method = KF_METHOD_PAPER,
                        .dims = dims,
                        .n_dims = 3,
                        .k = ks,
                        .n_k = 2,
                        .text = prompts,
                        .fuse = 1,
                        .truth = truth};
  check(&p, &o, 1 + 2 + 3 + 3 * 2 + 1 + 3 + 3);
  AUTO(kf_sweep) *with = sweep(&p, p.test, &o);
  o.truth = NULL;
  AUTO(kf_sweep) *without = sweep(&p, p.test, &o);
  for (size_t i = 0; i < with->n_cells; i++)
    assert_true(with->cells[i].top1 != without->cells[i].top1);
  test_remove(folder);
}

/* Over folds, hits are the sum over the folds. */
TEST(folds) {
  AUTO(problem) p = make_problem(0, 2);
  AUTO(kf_text) *prompts = make_text(&p);
  kf_sweep_options o = all_options;
  o.n_metrics = 1, o.folds = 4, o.text = prompts, o.fuse = 1;
  AUTO(kf_sweep) *s = sweep(&p, NULL, &o);
  assert_int_equal(s->folds, 4);
  kf_row_list all;
  uint64_t labelled;
  unsigned char *fold;
  assert_ok(p.ctx, kf_sample_rows(p.ctx, p.train, UINT64_MAX, &all, &labelled));
  assert_ok(p.ctx, kf_fold_rows(&all, K, 4, &fold, &p.ctx->err));
  AUTOFREE uint64_t *sum = calloc(3 * s->n_cells, sizeof *sum);
  for (uint32_t f = 0; f < 4; f++) {
    kf_row_list in, out;
    problem q = p;
    AUTO(kf_sweep) *one = NULL;
    assert_ok(p.ctx, kf_rows_of_fold(&all, fold, f, false, &in, &p.ctx->err));
    assert_ok(p.ctx, kf_rows_of_fold(&all, fold, f, true, &out, &p.ctx->err));
    assert_ok(p.ctx, kf_data_new_pick(p.train, in.row, in.n, &q.test, &p.ctx->err));
    assert_ok(p.ctx, kf_data_new_pick(p.train, out.row, out.n, &q.train, &p.ctx->err));
    assert_ok(p.ctx, kf_stats_new_from_data(p.ctx, q.train, NULL, &q.stats));
    assert_ok(p.ctx, kf_sweep_new(p.ctx, q.stats, q.train, q.test, &o, &one));
    for (size_t i = 0; i < s->n_cells; i++) {
      if (f == 0) assert_true(s->cells[i].lambda == one->cells[i].lambda);
      if (f == 0) assert_true(s->cells[i].alpha == one->cells[i].alpha);
      sum[3 * i] += one->cells[i].n;
      sum[3 * i + 1] += one->cells[i].top1;
      sum[3 * i + 2] += one->cells[i].top5;
    }
    kf_stats_free(q.stats);
    kf_data_free(q.test);
    kf_data_free(q.train);
    kf_row_list_clear(&in);
    kf_row_list_clear(&out);
  }
  for (size_t i = 0; i < s->n_cells; i++) {
    if (!s->cells[i].text) assert_int_equal(s->cells[i].n, N / 2); /* a class has no text */
    assert_int_equal(s->cells[i].n, sum[3 * i]);
    assert_int_equal(s->cells[i].top1, sum[3 * i + 1]);
    assert_int_equal(s->cells[i].top5, sum[3 * i + 2]);
  }
  kf_free(fold);
  kf_row_list_clear(&all);
}

/* Over folds, an absolute lambda is scaled to the scatter without the fold. */
TEST(absolute_over_folds) {
  AUTO(problem) p = make_problem(0, 1);
  kf_lambda lambda = {2, KF_LAMBDA_ABSOLUTE};
  kf_sweep_options o = {.method = KF_METHOD_PAPER, .lambdas = &lambda, .n_lambdas = 1};
  AUTO(kf_sweep) *absolute = sweep(&p, NULL, &o);
  lambda = (kf_lambda){2 / absolute->mean_eigenvalue, KF_LAMBDA_RELATIVE};
  AUTO(kf_sweep) *relative = sweep(&p, NULL, &o);
  for (size_t i = 0; i < absolute->n_cells; i++) {
    const kf_sweep_cell *a = &absolute->cells[i], *b = &relative->cells[i];
    assert_int_equal(a->top1, b->top1);
    assert_true(a->lambda == b->lambda);
    assert_true(a->raw || fabs(a->relative / lambda.value - 1) < 1e-12);
  }
}

static int stop_soon(void *user, const char *what, uint64_t done, uint64_t total) {
  int *calls = user;
  assert_string_equal(what, "sweep");
  assert_true(done <= total);
  return ++*calls > 3;
}

TEST(refusals) {
  AUTO(problem) p = make_problem(0, 1);
  AUTO(kf_sweep) *s = NULL;
  const uint32_t wide[] = {15}, falling[] = {5, 1}, none[] = {0};
  refused(&p, "15 dimensions", (kf_sweep_options){.dims = wide, .n_dims = 1});
  refused(&p, "must rise", (kf_sweep_options){.k = falling, .n_k = 2});
  refused(&p, "at least 1", (kf_sweep_options){.k = none, .n_k = 1});
  refused(&p, "list of metrics is empty", (kf_sweep_options){.metrics = metrics});
  refused(&p, "leave-one-out cannot be used with test data",
          (kf_sweep_options){.leave_one_out = 1});
  refused(&p, "reserved space", (kf_sweep_options){.reserved = {1}});
  assert_error(
      p.ctx, KF_ERR_ARG, "training rows",
      kf_sweep_new(p.ctx, p.stats, NULL, p.test, &(kf_sweep_options){.k = ks, .n_k = 1}, &s));
  assert_error(p.ctx, KF_ERR_ARG, "training rows",
               kf_sweep_new(p.ctx, p.stats, NULL, NULL, NULL, &s));
  int calls = 0;
  AUTO(kf_ctx) *ctx = NULL;
  assert_int_equal(
      kf_ctx_new(&(kf_ctx_options){.threads = 1, .progress = stop_soon, .user = &calls}, &ctx),
      KF_OK);
  assert_error(ctx, KF_ERR_CANCELLED, "", kf_sweep_new(ctx, p.stats, p.train, p.test, NULL, &s));
  calls = -1000; /* the context is still usable */
  assert_ok(ctx, kf_sweep_new(ctx, p.stats, p.train, p.test, NULL, &s));
}

/* Folds without rows, or without rows of the class set, do not count. If none counts, or a fit
 * without one fails, the error says why; repeated messages are logged once. */
static int n_said;
static void hear(void *user, const char *message) {
  (void)user;
  if (strstr(message, "of its 3 classes") != NULL) n_said++;
}

TEST(small_folds) {
  enum { ROWS = 12, COLUMNS = 3 };
  AUTO(world) w = make_world(ROWS, COLUMNS, 4, 1, 3);
  AUTO(kf_ctx) *ctx = NULL;
  AUTO(kf_data) *data = NULL, *alone = NULL;
  AUTO(kf_stats) *stats = NULL, *stats_alone = NULL;
  AUTO(kf_class_set) *set = NULL;
  kf_sweep *s = NULL;
  static const char *const names[] = {"a", "b", "c", "d"}, *const some[] = {"a", "d", "z"};
  assert_int_equal(kf_ctx_new(&(kf_ctx_options){.threads = 2, .log = hear}, &ctx), KF_OK);
  assert_ok(ctx, kf_data_open_memory(ctx, w.rows, ROWS, COLUMNS, w.labels, names, 4, &data));
  assert_ok(ctx, kf_stats_new_from_data(ctx, data, NULL, &stats));
  assert_ok(ctx, kf_class_set_new(ctx, some, 3, &set));
  const kf_class_set *const sets[] = {set};
  const uint32_t one[] = {1}, many[] = {11};
  kf_sweep_options o = {
      .method = KF_METHOD_PAPER, .k = one, .n_k = 1, .folds = 20, .sets = sets, .n_sets = 1};
  assert_ok(ctx, kf_sweep_new(ctx, stats, data, NULL, &o, &s));
  for (size_t i = 0; i < s->n_cells; i++) assert_int_equal(s->cells[i].n, 6);
  kf_sweep_free(s);
  assert_int_equal(n_said, 2); /* by a model and by a gallery */
  o = (kf_sweep_options){.method = KF_METHOD_PAPER, .k = many, .n_k = 1, .folds = 6};
  assert_error(ctx, KF_ERR_ARG, "without fold 1 of 6: the 11 nearest rows",
               kf_sweep_new(ctx, stats, data, NULL, &o, &s));
  /* Each row alone in its class. */
  for (int i = 0; i < 4; i++) w.labels[i] = i;
  const kf_lambda some_lambda = {5, KF_LAMBDA_ABSOLUTE};
  assert_ok(ctx, kf_data_open_memory(ctx, w.rows, 4, COLUMNS, w.labels, names, 4, &alone));
  assert_ok(ctx, kf_stats_new_from_data(ctx, alone, NULL, &stats_alone));
  o = (kf_sweep_options){.method = KF_METHOD_PAPER, .lambdas = &some_lambda, .n_lambdas = 1};
  assert_error(ctx, KF_ERR_MATH, "no class that takes part has rows in two of them",
               kf_sweep_new(ctx, stats_alone, alone, NULL, &o, &s));
  o.leave_one_out = 1;
  assert_error(ctx, KF_ERR_MATH, "no class has two rows",
               kf_sweep_new(ctx, stats_alone, alone, NULL, &o, &s));
  kf_dim_choice *c;
  assert_error(
      ctx, KF_ERR_MATH,
      "without fold 1 of 5: the scatter within classes is zero: every row is alone",
      kf_dim_choice_new(ctx, stats_alone, alone, &(kf_dim_options){.method = KF_METHOD_PAPER}, &c));
}
