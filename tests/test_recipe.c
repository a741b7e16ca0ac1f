/* test_recipe.c - one call equals its steps done by hand: fit, report, prompts, reader,
 * quickstart. */
#include "files.h"

#include <math.h>
#include <sys/stat.h>
#include "model/model.h"

#define MODELS KOOFU_SOURCE_DIR "/tests/golden/models/"

enum { CLASSES = 12, DIM = 24, PER_CLASS = 8 };

static kf_data *train, *test, *words;
static kf_text *text;
static kf_stats *stats;
static char logged[1024];

static void keep_log(void *user, const char *message) {
  (void)user;
  snprintf(logged, sizeof logged, "%s", message);
}

static int set_up(void **state) {
  test_in_memory(state);
  make_test_folder(state);
  kf_ctx_free(ctx);
  assert_int_equal(kf_ctx_new(&(kf_ctx_options){.threads = 2, .log = keep_log}, &ctx), KF_OK);
  kf_synth_options world = {.classes = CLASSES, .dim = DIM, .per_class = PER_CLASS};
  assert_ok(ctx, kf_synth_open(ctx, &world, &train));
  assert_ok(ctx, kf_synth_open_text(ctx, &world, &words));
  world.split = 1;
  assert_ok(ctx, kf_synth_open(ctx, &world, &test));
  assert_ok(ctx, kf_text_new(ctx, words, NULL, &text));
  assert_ok(ctx, kf_stats_new_from_data(ctx, train, NULL, &stats));
  return 0;
}

static int tear_down(void **state) {
  kf_stats_free(stats);
  kf_text_free(text);
  kf_data_free(words);
  kf_data_free(test);
  kf_data_free(train);
  return remove_test_folder(state);
}

/* --- fit -------------------------------------------------------------------------------------- */

static kf_method method; /* for the tests that follow */

/* The model of kf_fit has the bytes of the one made by hand, which is freed; it has the temperature
 * of the rows left out, with the default method only. */
static void assert_fits(const kf_fit_options *options, kf_model *by_hand) {
  AUTO(kf_model) *model = NULL;
  assert_ok(ctx, kf_fit(ctx, train, options, &model, NULL));
  assert_true((kf_model_temperature(model) > 0) == (method == KF_METHOD_SHRUNK));
  by_hand->temperature = kf_model_temperature(model);
  assert_ok(ctx, kf_model_save(ctx, model, at("fit.safetensors")));
  assert_ok(ctx, kf_model_save(ctx, by_hand, at("parts.safetensors")));
  assert_same_file(at("fit.safetensors"), at("parts.safetensors"));
  kf_model_free(by_hand);
}

static kf_model *fit_by_hand(double lambda, uint32_t dim, kf_centre centre) {
  kf_fit_options o = {
      .method = method, .lambda = {lambda, KF_LAMBDA_ABSOLUTE}, .dim = dim, .centre = centre};
  kf_model *model;
  assert_ok(ctx, kf_fit_stats(ctx, stats, &o, &model));
  return model;
}

static double choose_by_hand(const kf_lambda_options *options) {
  AUTO(kf_lambda_choice) *choice = NULL;
  assert_ok(ctx, kf_lambda_choice_new(ctx, stats, train, options, &choice));
  double lambda = choice->lambda;
  return lambda;
}

static void check_lambda_and_dimensions(void) {
  double lambda = choose_by_hand(&(kf_lambda_options){.method = method});
  assert_fits(&(kf_fit_options){.method = method}, fit_by_hand(lambda, 0, KF_CENTRE_DEFAULT));
  assert_fits(&(kf_fit_options){.method = method, .stats = stats},
              fit_by_hand(lambda, 0, KF_CENTRE_DEFAULT));
  kf_dim_options by = {.method = method, .lambda = {lambda, KF_LAMBDA_ABSOLUTE}, .margin = 0.2};
  AUTO(kf_dim_choice) *dims = NULL;
  assert_ok(ctx, kf_dim_choice_new(ctx, stats, train, &by, &dims));
  assert_true(dims->dim < DIM);
  assert_fits(&(kf_fit_options){.method = method, .choose_dim = 1, .margin = 0.2},
              fit_by_hand(lambda, dims->dim, KF_CENTRE_DEFAULT));
  double careful =
      choose_by_hand(&(kf_lambda_options){.method = method, .one_se = 1, .centre = KF_CENTRE_MEAN});
  assert_true(careful > lambda);
  assert_fits(&(kf_fit_options){.method = method, .one_se = 1, .centre = KF_CENTRE_MEAN, .dim = 7},
              fit_by_hand(careful, 7, KF_CENTRE_MEAN));
  kf_lambda shrunk;
  assert_ok(ctx, kf_lambda_ledoit_wolf(ctx, stats, train, &shrunk));
  kf_model *by_hand;
  assert_ok(ctx, kf_fit_stats(ctx, stats, &(kf_fit_options){.method = method, .lambda = shrunk},
                              &by_hand));
  assert_fits(&(kf_fit_options){.method = method, .lambda.unit = KF_LAMBDA_LEDOIT_WOLF}, by_hand);
}

static kf_model *fuse_by_hand(double lambda, double alpha, uint32_t dim) {
  kf_model *rows = fit_by_hand(lambda, dim, KF_CENTRE_MEAN), *fused;
  assert_ok(ctx, kf_model_new_fused(ctx, rows, text, alpha, &fused));
  kf_model_free(rows);
  return fused;
}

static void check_text_and_rows(void) {
  kf_fuse_options by = {.method = method, .centre = KF_CENTRE_MEAN};
  kf_fuse_choice *choice;
  assert_ok(ctx, kf_fuse_choice_new(ctx, stats, train, text, &by, &choice));
  assert_fits(&(kf_fit_options){.method = method, .text = text},
              fuse_by_hand(choice->lambda, choice->alpha, 0));
  assert_fits(&(kf_fit_options){.method = method, .text = text, .dim = 5},
              fuse_by_hand(choice->lambda, choice->alpha, 5));
  kf_fuse_choice_free(choice);
  by.lambda = (kf_lambda){2, KF_LAMBDA_RELATIVE};
  assert_ok(ctx, kf_fuse_choice_new(ctx, stats, train, text, &by, &choice));
  assert_fits(&(kf_fit_options){.method = method, .text = text, .lambda = by.lambda},
              fuse_by_hand(choice->lambda, choice->alpha, 0));
  kf_fuse_choice_free(choice);
  double alpha = 0.7;
  assert_fits(
      &(kf_fit_options){.method = method, .text = text, .alpha = &alpha},
      fuse_by_hand(choose_by_hand(&(kf_lambda_options){.method = method, .centre = KF_CENTRE_MEAN}),
                   alpha, 0));
}

TEST(lambda_and_dimensions) {
  for (method = KF_METHOD_SHRUNK; method <= KF_METHOD_PAPER; method++)
    check_lambda_and_dimensions();
}

TEST(text_and_rows) {
  for (method = KF_METHOD_SHRUNK; method <= KF_METHOD_PAPER; method++) check_text_and_rows();
}

TEST(what_a_fit_reports) {
  kf_model *model;
  kf_fit_report *r;
  assert_ok(ctx, kf_fit(ctx, train, &(kf_fit_options){.choose_dim = 1}, &model, &r));
  const kf_lambda_point *chosen = &r->by_lambda->all;
  assert_int_equal(r->rows, CLASSES * PER_CLASS);
  assert_int_equal(r->n_unlabelled + r->n_bad, 0);
  assert_true(r->lambda == kf_model_lambda(model) && r->lambda == chosen->lambda);
  assert_true(r->mean_eigenvalue == kf_model_mean_eigenvalue(model));
  assert_int_equal(r->dim, kf_model_dim_out(model));
  assert_int_equal(r->dim, r->by_dim->dim);
  assert_int_equal(r->n, r->by_lambda->n_all);
  assert_true(kf_model_temperature(model) > 0); /* all dimensions have the chosen one: */
  assert_true(r->dim < kf_model_dim_in(model) ||
              kf_model_temperature(model) == chosen->temperature);
  assert_int_equal(r->right, chosen->top1);
  assert_true(r->standard_error > 0);
  assert_null(r->by_fusion);
  kf_fit_report_free(r);
  kf_model_free(model);
  assert_ok(ctx, kf_fit(ctx, train, &(kf_fit_options){.text = text}, &model, &r));
  assert_true(r->by_lambda == NULL && r->by_dim == NULL && r->alpha == r->by_fusion->alpha);
  assert_int_equal(r->right, r->by_fusion->points[r->by_fusion->chosen].top1);
  kf_fit_report_free(r);
  kf_model_free(model);
  assert_ok(ctx, kf_fit(ctx, NULL, &(kf_fit_options){.stats = stats}, &model, &r));
  assert_int_equal(r->n, 0);
  assert_true(fabs(r->lambda - 0.3 * r->mean_eigenvalue) < 1e-12 * r->lambda);
  kf_fit_report_free(r);
  kf_model_free(model);
}

static void assert_no_fit(const kf_data *data, kf_fit_options options, const char *words_of_it,
                          kf_hint hint) {
  kf_model *model = NULL;
  kf_fit_report *report = NULL;
  assert_error(ctx, KF_ERR_ARG, words_of_it, kf_fit(ctx, data, &options, &model, &report));
  assert_int_equal(kf_errhint(ctx), hint);
  assert_true(model == NULL && report == NULL);
}

TEST(fits_that_cannot_be) {
  double alpha = -1;
  assert_no_fit(NULL, (kf_fit_options){0}, "NULL", KF_HINT_NONE);
  assert_no_fit(NULL, (kf_fit_options){.stats = stats, .choose_dim = 1},
                "dimensions is chosen from the rows", KF_HINT_ROWS);
  assert_no_fit(NULL, (kf_fit_options){.stats = stats, .lambda.unit = KF_LAMBDA_LEDOIT_WOLF},
                "Ledoit", KF_HINT_ROWS);
  assert_no_fit(NULL, (kf_fit_options){.stats = stats, .text = text},
                "alpha is chosen from the rows", KF_HINT_ALPHA);
  assert_no_fit(train, (kf_fit_options){.text = text, .alpha = &alpha}, "alpha", KF_HINT_NONE);
  assert_no_fit(train, (kf_fit_options){.alpha = &alpha}, "no text", KF_HINT_NONE);
  assert_no_fit(train, (kf_fit_options){.text = text, .between = stats}, "S_b", KF_HINT_NONE);
  assert_no_fit(train, (kf_fit_options){.text = text, .stats_options.normalize = KF_OFF},
                "not normalised", KF_HINT_NONE);
  assert_no_fit(train, (kf_fit_options){.dim = DIM + 1}, "25 dimensions", KF_HINT_NONE);
  assert_no_fit(train, (kf_fit_options){.reserved = {1}}, "not zeroed", KF_HINT_NONE);
  assert_no_fit(test, (kf_fit_options){.centre = KF_CENTRE_MODALITY}, "centre", KF_HINT_NONE);
}

/* --- like an earlier model -------------------------------------------------------------------- */

static kf_model *fit_of(const kf_data *data, kf_fit_options o) {
  kf_model *model;
  assert_ok(ctx, kf_fit(ctx, data, &o, &model, NULL));
  return model;
}

/* The model of the same statistics is the same again, to the byte; that of other rows has the same
 * lambda and all the rest. */
static void assert_kept(kf_fit_options o) {
  AUTO(kf_model) *first = fit_of(train, o);
  kf_stats_options unit = {.normalize = kf_model_normalized(first) ? KF_ON : KF_OFF};
  AUTO(kf_stats) *all = NULL, *more = NULL;
  assert_ok(ctx, kf_stats_new_from_data(ctx, train, &unit, &all));
  kf_fit_options keep = {.like = first, .text = o.text, .stats = all};
  AUTO(kf_model) *again = fit_of(NULL, keep);
  assert_int_equal(again->map.dim_out, first->map.dim_out);
  assert_true(fabs(again->temperature - first->temperature) <= 1e-14 * first->temperature);
  again->temperature = first->temperature; /* of distances: divided and multiplied again */
  again->prior = first->prior;
  assert_ok(ctx, kf_model_save(ctx, first, at("first.safetensors")));
  assert_ok(ctx, kf_model_save(ctx, again, at("again.safetensors")));
  assert_same_file(at("first.safetensors"), at("again.safetensors"));

  unit.exponent = kf_stats_exponent(all);
  unit.fixed_exponent = unit.normalize == KF_OFF;
  assert_ok(ctx, kf_stats_new_from_data(ctx, test, &unit, &more));
  assert_ok(ctx, kf_stats_merge(ctx, more, all));
  keep.stats = more;
  AUTO(kf_model) *grown = fit_of(NULL, keep);
  double n = unit.normalize == KF_ON
                 ? 1
                 : (double)(kf_stats_rows(more) - CLASSES) / (double)(kf_stats_rows(all) - CLASSES);
  assert_true(grown->map.lambda == first->map.lambda && grown->map.method == first->map.method);
  assert_true(grown->map.dim_out == first->map.dim_out && grown->alpha == first->alpha);
  assert_true(fabs(grown->temperature - n * first->temperature) <= 1e-12 * grown->temperature);
  assert_true(fabs(grown->reject * sqrt(n) - first->reject) <= 1e-12 * fabs(first->reject));
  assert_true(grown->reject_share == first->reject_share);
  assert_int_equal(kf_model_priors(grown), kf_model_priors(first));
}

TEST(keeps_what_an_earlier_model_has) {
  const kf_switch raw = KF_OFF;
  assert_kept((kf_fit_options){0});
  assert_kept((kf_fit_options){.choose_dim = 1, .margin = 0.2});
  assert_kept((kf_fit_options){.reject = 0.9, .priors = KF_PRIORS_TRAINING});
  assert_kept((kf_fit_options){.method = KF_METHOD_PAPER, .criterion = KF_CRITERION_LIKELIHOOD});
  assert_kept((kf_fit_options){.method = KF_METHOD_PAPER, .centre = KF_CENTRE_MEAN});
  assert_kept((kf_fit_options){.text = text});
  assert_kept((kf_fit_options){.stats_options.normalize = raw, .reject = 0.9});
  assert_kept((kf_fit_options){.stats_options.normalize = raw, .priors = KF_PRIORS_EQUAL});
}

TEST(refuses_a_lambda_without_a_unit) {
  assert_no_fit(train, (kf_fit_options){.lambda = {.value = 1}},
                "lambda has the value 1, but its unit is KF_LAMBDA_AUTO", KF_HINT_NONE);
}

TEST(refuses_an_earlier_model_of_another_kind) {
  AUTO(kf_model) *model = fit_of(train, (kf_fit_options){.dim = 5});
  AUTO(kf_model) *fused = fit_of(train, (kf_fit_options){.text = text});
  kf_fit_options o = {.like = model};
  AUTO(kf_model) *from_rows = fit_of(test, o);
  assert_true(from_rows->map.lambda == model->map.lambda && from_rows->map.dim_out == 5);
  assert_no_fit(train, (kf_fit_options){.like = model, .text = text}, "no text", KF_HINT_NONE);
  assert_no_fit(train, (kf_fit_options){.like = fused}, "has a text", KF_HINT_NONE);
  assert_no_fit(train, (kf_fit_options){.like = model, .method = KF_METHOD_PAPER}, "another method",
                KF_HINT_NONE);
  assert_no_fit(train, (kf_fit_options){.like = model, .stats_options.normalize = KF_OFF},
                "24 columns (unit length), not 24 (raw)", KF_HINT_NONE);
  /* Another number of dimensions has another temperature, which needs rows. */
  AUTO(kf_model) *wider = fit_of(NULL, (kf_fit_options){.like = model, .stats = stats, .dim = 6});
  assert_true(wider->map.lambda == model->map.lambda && wider->temperature == 0);

  /* Rows that are alone in their classes choose nothing. */
  kf_synth_options world = {.classes = CLASSES, .dim = DIM, .per_class = 1};
  AUTO(kf_data) *alone = NULL;
  assert_ok(ctx, kf_synth_open(ctx, &world, &alone));
  AUTO(kf_model) *rotated = fit_of(alone, (kf_fit_options){0});
  AUTO(kf_model) *plain = fit_of(NULL, (kf_fit_options){.stats = stats});
  AUTO(kf_model) *chosen = fit_of(NULL, (kf_fit_options){.stats = stats, .like = rotated});
  assert_non_null(strstr(logged, "nothing was chosen"));
  assert_true(chosen->map.lambda == plain->map.lambda && chosen->temperature == 0);
}

/* The stage "fit" begins with the decomposition of S_w. */
static int count_decompositions(void *user, const char *what, uint64_t done, uint64_t total) {
  (void)total;
  *(int *)user += done == 0 && strcmp(what, "fit") == 0;
  return 0;
}

TEST(decomposed_once) {
  int n = 0;
  AUTO(kf_ctx) *counting = NULL;
  kf_ctx_options o = {.threads = 2, .progress = count_decompositions, .user = &n};
  assert_int_equal(kf_ctx_new(&o, &counting), KF_OK);
  for (int i = 0; i < 3; i++) {
    kf_fit_options how = {.text = i == 1 ? text : NULL, .stats = i == 2 ? stats : NULL};
    AUTO(kf_model) *model = NULL;
    n = 0;
    assert_ok(counting, kf_fit(counting, train, &how, &model, NULL));
    assert_int_equal(n, 1);
  }
}

/* --- report ----------------------------------------------------------------------------------- */

typedef struct bar {
  uint64_t done, total, rises;
} bar;

static int watch_bar(void *user, const char *what, uint64_t done, uint64_t total) {
  bar *b = user;
  assert_string_equal(what, "report");
  assert_true(done >= b->done && done <= total && (b->total == 0 || b->total == total));
  b->rises += done > b->done;
  b->done = done;
  b->total = total;
  return 0;
}

/* One bar, which never falls and comes to its end. */
TEST(report_progress) {
  for (int i = 0; i < 16; i++) {
    bar b = {0};
    AUTO(kf_ctx) *watched = NULL;
    kf_ctx_options how = {.threads = 2, .progress = watch_bar, .user = &b};
    assert_int_equal(kf_ctx_new(&how, &watched), KF_OK);
    kf_report_options o = {.test = i & 1 ? test : NULL,
                           .fit.text = i & 2 ? text : NULL,
                           .neighbours = i & 4 ? KF_OFF : KF_ON,
                           .sample = i & 8 ? 20 : 0};
    kf_report_result r;
    assert_ok(watched, kf_report_write(watched, train, &o, at("bar.html"), &r));
    assert_int_equal(b.done, b.total);
    assert_true(b.rises > 5);
    assert_int_equal(r.n_judged, i & 8 ? 20 : r.n_to_judge);
    assert_int_equal(r.held_n, i & 1 ? 0 : r.n_judged);
  }
}

TEST(report_and_model) {
  AUTO(kf_model) *model = NULL;
  kf_report_result r;
  kf_report_options o = {.train_name = "a", .test_name = "b", .test = test};
  assert_ok(ctx, kf_report_write(ctx, train, &o, at("own.html"), &r));
  assert_ok(ctx, kf_fit(ctx, train, NULL, &model, NULL));
  assert_int_equal(r.rows, CLASSES * PER_CLASS);
  assert_int_equal(r.classes, CLASSES);
  assert_int_equal(r.dim_in, DIM);
  assert_int_equal(r.dim, kf_model_dim_out(model));
  assert_true(r.lambda == kf_model_lambda(model) && r.n > 0 && r.right > 0 && !r.fused);
  kf_eval_result eval;
  assert_ok(ctx, kf_eval(ctx, model, test, NULL, &eval));
  assert_memory_equal(&r.eval, &eval, sizeof eval);
  assert_int_equal(r.eval_fused.n, 0);
  o.model = model; /* the same model, given */
  assert_ok(ctx, kf_report_write(ctx, train, &o, at("given.html"), NULL));
  assert_same_file(at("own.html"), at("given.html"));
  o.dims = (const uint32_t[]){3}, o.n_dims = 1;
  assert_ok(ctx, kf_report_write(ctx, train, &o, at("other.html"), &r));
  assert_int_equal(r.n, 0); /* nothing was chosen */
  size_t n, m;
  free(test_read(at("own.html"), &n));
  free(test_read(at("other.html"), &m));
  assert_true(n != m);
}

TEST(report_with_text) {
  static const kf_part parts[] = {KF_PART_TEXT, KF_PART_FUSED};
  AUTO(kf_model) *model = NULL;
  kf_report_result r;
  kf_report_options o = {.test = test, .fit.text = text};
  assert_ok(ctx, kf_report_write(ctx, train, &o, at("text.html"), &r));
  assert_ok(ctx, kf_fit(ctx, train, &o.fit, &model, NULL));
  assert_true(r.fused && r.dim == DIM && r.alpha == kf_model_alpha(model));
  for (int i = 0; i < 2; i++) {
    kf_eval_result eval;
    kf_eval_options by = {.include_raw = KF_OFF, .part = parts[i]};
    assert_ok(ctx, kf_eval(ctx, model, test, &by, &eval));
    assert_memory_equal(i == 0 ? &r.eval_text : &r.eval_fused, &eval, sizeof eval);
  }
}

TEST(reports_that_cannot_be) {
  const char *path = at("refused.html");
  const uint32_t one = 1;
  kf_report_options o = {.shots = &one, .n_shots = 1};
  assert_error(ctx, KF_ERR_ARG, "without test", kf_report_write(ctx, train, &o, path, NULL));
  o = (kf_report_options){.fit.between = stats};
  assert_error(ctx, KF_ERR_ARG, "S_b", kf_report_write(ctx, train, &o, path, NULL));
  o = (kf_report_options){.fit.reserved = {0, 1}};
  assert_error(ctx, KF_ERR_ARG, "not zeroed", kf_report_write(ctx, train, &o, path, NULL));
  assert_error(ctx, KF_ERR_ARG, "NULL", kf_report_write(ctx, NULL, NULL, path, NULL));
  assert_error(ctx, KF_ERR_IO, "absent",
               kf_report_write(ctx, train, NULL, at("absent/page.html"), NULL));
  const char *file = at("data.safetensors");
  AUTO(kf_data) *data = NULL;
  assert_ok(ctx, kf_data_save(ctx, train, KF_F32, file));
  assert_ok(ctx, kf_data_open(ctx, &file, 1, NULL, &data));
  assert_error(ctx, KF_ERR_ARG, file, kf_report_write(ctx, data, NULL, file, NULL));
  assert_int_not_equal(access(path, F_OK), 0);
}

/* --- prompts ---------------------------------------------------------------------------------- */

static void assert_prompts(const kf_prompts_options *options, const char *const *wanted,
                           const int32_t *classes, size_t n) {
  AUTO(kf_prompts) *p = NULL;
  assert_ok(ctx, kf_prompts_new(ctx, options, &p));
  assert_int_equal(kf_prompts_count(p), n);
  for (size_t i = 0; i < n; i++) {
    assert_string_equal(kf_prompts_text(p, i), wanted[i]);
    assert_int_equal(kf_prompts_class(p, i), classes[i]);
  }
  assert_null(kf_prompts_text(p, n));
  assert_int_equal(kf_prompts_class(p, n), KF_LABEL_NONE);
  assert_null(kf_prompts_class_name(p, kf_prompts_classes(p)));
}

TEST(prompts_from_names) {
  static const char *const names[] = {"n01440764_tench", "017.Night_Owl", "red__fox", "0042"};
  kf_prompts_options o = {.names = names, .n_names = 4, .folders = 1, .templates = "builtin1"};
  assert_prompts(&o,
                 (const char *const[]){"image of tench", "image of Night Owl", "image of red fox",
                                       "image of 0042"},
                 (const int32_t[]){0, 1, 2, 3}, 4);
  o.folders = 0;
  o.n_names = 1;
  o.templates = write_text("templates.txt", "a {}\n{} and {}\n");
  assert_prompts(&o,
                 (const char *const[]){"a n01440764_tench", "n01440764_tench and n01440764_tench"},
                 (const int32_t[]){0, 0}, 2);
  AUTO(kf_prompts) *p = NULL;
  o.templates = NULL;
  assert_ok(ctx, kf_prompts_new(ctx, &o, &p));
  assert_int_equal(kf_prompts_count(p), 7);
  assert_string_equal(kf_prompts_class_name(p, 0), names[0]);
}

TEST(prompts_from_files) {
  kf_prompts_options o = {.classes = write_text("classes.txt", "crane, bird # one\n'a, b',\n"),
                          .templates = "builtin1"};
  assert_prompts(&o, (const char *const[]){"image of crane", "image of a, b"},
                 (const int32_t[]){0, 1}, 2);
  o.all_names = 1;
  assert_prompts(&o, (const char *const[]){"image of crane", "image of bird", "image of a, b"},
                 (const int32_t[]){0, 0, 1}, 3);
  o.classes = write_text("ids.txt", "n2\nn1\n");
  o.spoken = write_text("spoken.txt", "n1\tfox\nn2\tcrane, bird\nn3\tx\n");
  assert_prompts(&o, (const char *const[]){"image of crane", "image of bird", "image of fox"},
                 (const int32_t[]){0, 0, 1}, 3);
  AUTO(kf_prompts) *p = NULL;
  assert_ok(ctx, kf_prompts_read(ctx, write_text("lines.txt", "one\n\ntwo, 2\n"), &p));
  assert_int_equal(kf_prompts_count(p), 3);
  assert_int_equal(kf_prompts_classes(p), 0);
  assert_string_equal(kf_prompts_text(p, 2), "two, 2");
  assert_int_equal(kf_prompts_class(p, 0), KF_LABEL_NONE);
}

static void assert_no_prompts(kf_prompts_options o, kf_status status, const char *cause,
                              kf_hint hint) {
  kf_prompts *p = NULL;
  assert_error(ctx, status, cause, kf_prompts_new(ctx, &o, &p));
  assert_int_equal(kf_errhint(ctx), hint);
  assert_null(p);
}

TEST(prompts_that_cannot_be) {
  kf_prompts_options o = {.classes = write_text("twice.txt", "cat\ncat, tom\n")};
  assert_no_prompts(o, KF_ERR_DATA, "line 2 repeats the class name 'cat' of line 1",
                    KF_HINT_REPEATS);
  kf_prompts *p;
  o.repeats = KF_REPEATS_NAMES; /* their labels differ */
  assert_ok(ctx, kf_prompts_new(ctx, &o, &p));
  assert_string_equal(kf_prompts_class_name(p, 1), "cat, tom");
  kf_prompts_free(p);
  o.classes = write_text("twice.txt", "cat\ncat\n");
  assert_no_prompts(o, KF_ERR_DATA, "repeats", KF_HINT_NONE);
  o.repeats = KF_REPEATS_ALL;
  assert_ok(ctx, kf_prompts_new(ctx, &o, &p));
  kf_prompts_free(p);
  o = (kf_prompts_options){.classes = write_text("tab.txt", "n1\tcat\n")};
  assert_no_prompts(o, KF_ERR_DATA, "tab.txt: line 1", KF_HINT_SPOKEN);
  o = (kf_prompts_options){.classes = write_text("n.txt", "cat\n"),
                           .spoken = write_text("no.txt", "dog\tdog\n")};
  assert_no_prompts(o, KF_ERR_DATA, "no line for the class 'cat'", KF_HINT_NONE);
  o = (kf_prompts_options){.classes = at("n.txt"), .templates = write_text("t.txt", "{}\na\n")};
  assert_no_prompts(o, KF_ERR_DATA, "t.txt: line 2 has no {}", KF_HINT_NONE);
  o = (kf_prompts_options){.classes = at("n.txt"), .templates = "builtin8"};
  assert_no_prompts(o, KF_ERR_IO, "the built-in templates are builtin1, builtin7 and builtin80",
                    KF_HINT_NONE);
  assert_no_prompts((kf_prompts_options){0}, KF_ERR_ARG, "no class names", KF_HINT_NONE);
  o = (kf_prompts_options){.names = (const char *const[]){"a", NULL}, .n_names = 2};
  assert_no_prompts(o, KF_ERR_ARG, "class name 1", KF_HINT_NONE);
}

TEST(text_from_prompts) {
  static const char *const names[] = {"cat", "dog"};
  kf_prompts_options o = {.names = names, .n_names = 2};
  AUTO(kf_encoder) *encoder = NULL;
  kf_prompts *p;
  AUTO(kf_text) *own = NULL, *by_hand = NULL;
  AUTO(kf_data) *data = NULL;
  assert_ok(ctx, kf_encoder_load(ctx, MODELS "clip-f32", NULL, &encoder));
  assert_ok(ctx, kf_prompts_new(ctx, &o, &p));
  assert_ok(ctx, kf_text_new_from_prompts(ctx, encoder, p, NULL, &own));
  assert_ok(ctx, kf_prompts_embed(ctx, encoder, p, KF_F32, at("rows.safetensors")));
  const char *path = at("rows.safetensors");
  assert_ok(ctx, kf_data_open(ctx, &path, 1, NULL, &data));
  assert_int_equal(kf_data_rows(data), 14);
  assert_ok(ctx, kf_text_new(ctx, data, NULL, &by_hand));
  assert_string_equal(kf_text_class_name(own, 1), "dog");
  assert_memory_equal(kf_text_rows(own), kf_text_rows(by_hand),
                      2 * kf_text_dim(own) * sizeof(float));
  float *row = malloc(kf_text_dim(own) * sizeof *row),
        *same = malloc(kf_text_dim(own) * sizeof *row);
  assert_ok(ctx,
            kf_encode_texts(ctx, encoder, (const char *const[]){kf_prompts_text(p, 9)}, 1, row));
  assert_ok(ctx, kf_data_get(ctx, data, 9, 1, same, NULL));
  assert_memory_equal(row, same, kf_text_dim(own) * sizeof *row);
  free(row);
  free(same);
  kf_prompts_free(p);
  assert_ok(ctx, kf_prompts_read(ctx, write_text("lines.txt", "one\n"), &p));
  kf_text *none = NULL;
  assert_error(ctx, KF_ERR_ARG, "no classes",
               kf_text_new_from_prompts(ctx, encoder, p, NULL, &none));
  kf_prompts_free(p);
}

/* --- reader ----------------------------------------------------------------------------------- */

TEST(rows_in_blocks) {
  float x[7][2] = {{1, 2}, {NAN, 0}, {3, 4}, {5, 6}, {0, 0}, {INFINITY, 1}, {7, 8}};
  static const uint64_t numbers[] = {0, 2, 3, 6};
  const char *path = write_npy("x.npy", "<f4", "(7, 2)", x, sizeof x);
  kf_data *data;
  kf_reader *reader;
  kf_reader_block b;
  assert_ok(ctx, kf_data_open(ctx, &path, 1, &(kf_data_options){.skip_bad = 1}, &data));
  for (uint64_t room = 0; room < 9; room++) {
    uint64_t good = 0, taken = 0;
    assert_ok(ctx, kf_reader_open_data(ctx, data, &(kf_reader_options){.block = room}, &reader));
    assert_int_equal(kf_reader_rows(reader), 7);
    assert_int_equal(kf_reader_dim(reader), 2);
    do {
      assert_ok(ctx, kf_reader_next(ctx, reader, &b));
      assert_int_equal(b.first, taken);
      taken += b.taken;
      assert_true(room == 0 || b.taken <= room);
      for (uint64_t i = 0; i < b.n; i++, good++) {
        assert_int_equal(b.numbers[i], numbers[good]);
        assert_memory_equal(b.rows + 2 * i, x[numbers[good]], sizeof x[0]);
        assert_null(kf_reader_id(reader, b.numbers[i]));
      }
      assert_int_equal(kf_reader_bad(reader), taken - good);
    } while (b.taken > 0);
    assert_int_equal(good, 4);
    assert_int_equal(taken, 7);
    kf_reader_free(reader);
  }
  kf_data_free(data);
  assert_ok(ctx, kf_data_open(ctx, &path, 1, NULL, &data));
  assert_ok(ctx, kf_reader_open_data(ctx, data, NULL, &reader));
  assert_error(ctx, KF_ERR_DATA, "x.npy", kf_reader_next(ctx, reader, &b));
  kf_reader_free(reader);
  kf_data_free(data);
}

TEST(pictures_in_blocks) {
  const char *paths[] = {MODELS "pictures/a.png", write_text("bad.png", "nothing"),
                         MODELS "pictures/b.png"};
  AUTO(kf_encoder) *encoder = NULL;
  AUTO(kf_pictures) *pictures = NULL;
  kf_reader *reader;
  kf_reader_block b;
  assert_ok(ctx, kf_encoder_load(ctx, MODELS "clip-f32", NULL, &encoder));
  assert_ok(ctx, kf_pictures_open(ctx, paths, 3, &pictures));
  uint32_t dim = kf_encoder_dim(encoder);
  AUTOFREE float *alone = malloc(dim * sizeof *alone);
  assert_non_null(alone);
  kf_reader_options o = {.block = 2, .skip_bad = 1};
  assert_ok(ctx, kf_reader_open_pictures(ctx, encoder, pictures, &o, &reader));
  assert_ok(ctx, kf_reader_next(ctx, reader, &b));
  assert_true(b.taken == 2 && b.n == 1 && b.numbers[0] == 0);
  assert_ok(ctx, kf_reader_next(ctx, reader, &b));
  assert_true(b.first == 2 && b.n == 1 && b.numbers[0] == 2 && kf_reader_bad(reader) == 1);
  assert_string_equal(kf_reader_id(reader, 2), paths[2]);
  assert_null(kf_reader_id(reader, 3));
  assert_ok(ctx, kf_encode_images(ctx, encoder, paths + 2, 1, alone, NULL));
  assert_memory_equal(b.rows, alone, dim * sizeof *alone);
  assert_ok(ctx, kf_reader_next(ctx, reader, &b));
  assert_true(b.first == 3 && b.taken == 0 && b.n == 0);
  kf_reader_free(reader);
  assert_ok(ctx, kf_reader_open_pictures(ctx, encoder, pictures, NULL, &reader));
  assert_error(ctx, KF_ERR_DATA, "bad.png", kf_reader_next(ctx, reader, &b));
  assert_int_equal(kf_errhint(ctx), KF_HINT_SKIP_PICTURES);
  kf_reader_free(reader);
}

/* --- quickstart ------------------------------------------------------------------------------- */

/* A folder of links to golden pictures: {class, picture}. */
static const char *link_pictures(const char *name, const char *const (*list)[2], size_t n) {
  const char *top = at(name);
  char path[768];
  mkdir(top, 0777);
  for (size_t i = 0; i < n; i++) {
    snprintf(path, sizeof path, "%s/%s", top, list[i][0]);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/%s/%zu-%s", top, list[i][0], i, list[i][1]);
    char from[512];
    snprintf(from, sizeof from, KOOFU_SOURCE_DIR "/tests/golden/images/%s", list[i][1]);
    assert_int_equal(symlink(from, path), 0);
  }
  return top;
}

TEST(from_pictures_to_a_model) {
  static const char *const list[][2] = {{"red_fox", "exif1.png"},      {"red_fox", "exif2.png"},
                                        {"red_fox", "cmyk.jpg"},       {"017.Owl", "alpha-q5.webp"},
                                        {"017.Owl", "alpha-q80.webp"}, {"017.Owl", "exif6.png"}};
  const char *source = link_pictures("photos", list, 6), *out = at("out");
  kf_quickstart_options o = {.name = "photos"};
  AUTO(kf_encoder) *encoder = NULL;
  AUTO(kf_pictures) *pictures = NULL;
  kf_quickstart_result r;
  assert_ok(ctx, kf_encoder_load(ctx, MODELS "clip-f32", NULL, &encoder));
  assert_ok(ctx, kf_pictures_open(ctx, &source, 1, &pictures));
  assert_ok(ctx, kf_quickstart(ctx, encoder, pictures, &o, out, &r));
  assert_int_equal(r.errors->totals.n, r.n);
  kf_analysis_free(r.errors);
  assert_int_equal(test_entries(out), 6);
  assert_int_equal(r.renamed, 2);
  assert_true(r.rows == 6 && r.classes == 2 && r.embed.rows == 6 && r.prompts == 14);
  assert_true(r.n == 6 && r.top1 <= 6 && r.raw_top1 <= 6 && r.fused_top1 >= r.text_top1);
  assert_int_equal(r.dim, r.dim_in);
  const char *rows = test_path(out, "embeddings.safetensors");
  AUTO(kf_data) *data = NULL;
  AUTO(kf_data) *words_of_it = NULL;
  AUTO(kf_text) *names = NULL;
  kf_model *model;
  assert_ok(ctx, kf_data_open(ctx, &rows, 1, NULL, &data));
  const char *spoken = test_path(out, "text.safetensors");
  assert_ok(ctx, kf_data_open(ctx, &spoken, 1, NULL, &words_of_it));
  assert_ok(ctx, kf_text_new(ctx, words_of_it, NULL, &names));
  assert_ok(ctx, kf_fit(ctx, data, &(kf_fit_options){.text = names}, &model, NULL));
  assert_true(r.lambda == kf_model_lambda(model) && r.alpha == kf_model_alpha(model));
  assert_ok(ctx, kf_model_save(ctx, model, at("by-hand.safetensors")));
  assert_same_file(at("by-hand.safetensors"), test_path(out, "model.safetensors"));
  AUTO(kf_class_names) *called = NULL; /* folders in the order of the classes */
  static const char *const folders[] = {"017.Owl", "red_fox"};
  assert_ok(ctx, kf_class_names_load(ctx, test_path(out, "names.json"), folders, 2, &called));
  assert_string_equal(kf_class_names_of(called, "017.Owl", 0), "Owl");
  assert_string_equal(kf_class_names_of(called, "other", 5), "other");
  kf_report_options how = {.train_name = "photos", .fit.text = names, .names = called};
  assert_ok(ctx, kf_report_write(ctx, data, &how, at("by-hand.html"), NULL));
  size_t n, m;
  char *page = test_read(test_path(out, "report.html"), &n),
       *same = test_read(at("by-hand.html"), &m);
  assert_int_equal(n, m);
  assert_memory_equal(page, same, n);
  free(page);
  free(same);
  kf_model_free(model);
  o.text = KF_OFF;
  assert_ok(ctx, kf_quickstart(ctx, encoder, pictures, &o, at("pictures"), &r));
  kf_analysis_free(r.errors);
  assert_true(r.prompts == 0 && r.dim_n == 6 && r.folds > 0 && r.dim_top1 <= r.dim_n);
  assert_int_equal(test_entries(at("pictures")), 5);
  assert_false(r.embed.unchanged || r.text_reused);
  o.text = KF_DEFAULT;
  o.title = "Another";
  assert_ok(ctx, kf_quickstart(ctx, encoder, pictures, &o, out, &r));
  kf_analysis_free(r.errors);
  assert_true(r.embed.unchanged == 1 && r.embed.reused == 6 && r.text_reused == 1);
  assert_true(r.embed.rows == 6 && r.prompts == 14);
  assert_same_file(at("by-hand.safetensors"), test_path(out, "model.safetensors"));
  o.embed.resume = KF_OFF;
  assert_ok(ctx, kf_quickstart(ctx, encoder, pictures, &o, out, &r));
  kf_analysis_free(r.errors);
  assert_true(!r.embed.unchanged && r.embed.reused == 0 && !r.text_reused);
}

/* Errors that need no encoder. */
TEST(checked_first) {
  static const char *const list[][2] = {{"1", "exif1.png"}, {"1", "exif2.png"}, {"2", "cmyk.jpg"}};
  const char *source = link_pictures("first", list, 3), *one = link_pictures("alone", list, 2);
  char inside[400], beside[400], among[400];
  snprintf(inside, sizeof inside, "%s/new", source);
  snprintf(among, sizeof among, "%s/1//", source);
  snprintf(beside, sizeof beside, "%s-new", source);
  AUTO(kf_pictures) *pictures = NULL, *alone = NULL;
  assert_ok(ctx, kf_pictures_open(ctx, &source, 1, &pictures));
  assert_ok(ctx, kf_pictures_open(ctx, &one, 1, &alone));
  assert_true(kf_pictures_inside(pictures, inside) && kf_pictures_inside(pictures, source) &&
              kf_pictures_inside(pictures, among));
  assert_false(kf_pictures_inside(pictures, beside) || kf_pictures_inside(pictures, one) ||
               kf_pictures_inside(pictures, "/nowhere/at/all") ||
               kf_pictures_inside(pictures, "") || kf_pictures_inside(pictures, "here") ||
               kf_pictures_inside(pictures, NULL));
  kf_quickstart_options o = {.name = "first"}, odd = {.templates = "no-such-file"};
  assert_ok(ctx, kf_quickstart_check(ctx, pictures, &o, beside));
  assert_int_not_equal(access(beside, F_OK), 0);
  assert_error(ctx, KF_ERR_ARG, "among the pictures",
               kf_quickstart_check(ctx, pictures, &o, inside));
  assert_error(ctx, KF_ERR_DATA, "only one class", kf_quickstart_check(ctx, alone, &o, beside));
  assert_error(ctx, KF_ERR_IO, "no-such-file", kf_quickstart_check(ctx, pictures, &odd, beside));
  odd.text = KF_OFF;
  assert_ok(ctx, kf_quickstart_check(ctx, pictures, &odd, beside));
}

TEST(too_few_pictures) {
  static const char *const list[][2] = {{"1", "exif1.png"},     {"2", "exif2.png"},
                                        {"2", "exif3.png"},     {"1", "cmyk.jpg"},
                                        {"1", "alpha-q5.webp"}, {"2", "alpha-q80.webp"}};
  static const char *const causes[] = {"only one class", "single picture", NULL};
  AUTO(kf_encoder) *encoder = NULL;
  assert_ok(ctx, kf_encoder_load(ctx, MODELS "clip-f32", NULL, &encoder));
  for (size_t i = 0; i < 3; i++) {
    size_t n = i < 2 ? i + 1 : 6;
    char name[16];
    snprintf(name, sizeof name, "few-%zu", n);
    const char *source = link_pictures(name, list, n), *out = at("few-out");
    AUTO(kf_pictures) *pictures = NULL;
    kf_quickstart_options o = {.name = name};
    assert_ok(ctx, kf_pictures_open(ctx, &source, 1, &pictures));
    if (causes[i] != NULL) {
      assert_error(ctx, KF_ERR_DATA, causes[i],
                   kf_quickstart(ctx, encoder, pictures, &o, out, NULL));
      assert_int_not_equal(access(out, F_OK), 0);
    } else {
      assert_ok(ctx, kf_quickstart(ctx, encoder, pictures, &o, out, NULL));
      assert_non_null(strstr(logged, "numbers")); /* why names are not used */
    }
  }
}

FIXTURES(.before = set_up, .after = tear_down);
