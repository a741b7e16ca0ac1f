/* test_text.c - text prototypes against plain loops, and zero-shot models against the definition in
 * double precision. */
#include "world.h"

#include "model/model.h"

#include <math.h>

enum { D = 24, K = 9, M = 5 };

/* --- averaging ------------------------------------------------------------------------------- */

typedef struct prompts {
  float rows[K * M * D];
  int32_t labels[K * M]; /* M of each class, one class after the other */
  const char *names[K];
} prompts;

static const char *const names[K] = {"hen", "cat", "dog", "ox", "ant", "bee", "cow", "emu", "fox"};

static void make_prompts(prompts *p, uint64_t seed) {
  for (int i = 0; i < K * M; i++) {
    double length = exp(test_normal(&seed));
    for (int j = 0; j < D; j++) p->rows[i * D + j] = (float)(length * (0.3 + test_normal(&seed)));
    p->labels[i] = i / M;
  }
  memcpy(p->names, names, sizeof names);
}

static double length_of(const double *x, int n) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += x[i] * x[i];
  return sqrt(sum);
}

/* The mean of the rows of one class, by the definition. */
static void plain_mean(const float *rows, const int32_t *labels, int n, int k, int unit_rows,
                       int unit_mean, double *mean) {
  int count = 0;
  memset(mean, 0, D * sizeof *mean);
  for (int i = 0; i < n; i++) {
    double x[D];
    if (labels[i] != k) continue;
    for (int j = 0; j < D; j++) x[j] = (double)rows[i * D + j];
    double scale = unit_rows ? 1 / length_of(x, D) : 1;
    for (int j = 0; j < D; j++) mean[j] += x[j] * scale;
    count++;
  }
  for (int j = 0; j < D; j++) mean[j] /= count;
  double length = unit_mean ? length_of(mean, D) : 1;
  for (int j = 0; j < D; j++) mean[j] /= length;
}

static void compare_means(const kf_text *text, const float *rows, const int32_t *labels, int n,
                          const kf_text_options *o) {
  assert_int_equal(kf_text_classes(text), K);
  assert_int_equal(kf_text_dim(text), D);
  for (int k = 0; k < K; k++) {
    double mean[D];
    plain_mean(rows, labels, n, k, (o->unit_rows != KF_OFF), (o->unit_mean != KF_OFF), mean);
    for (int j = 0; j < D; j++)
      assert_true(fabs((double)kf_text_rows(text)[k * D + j] - mean[j]) <=
                  1e-7 * (1 + fabs(mean[j])));
  }
}

static kf_data *open_rows(kf_ctx *ctx, const float *rows, int n, const int32_t *labels,
                          const char *const *class_names) {
  kf_data *data;
  assert_ok(ctx, kf_data_open_memory(ctx, rows, (uint64_t)n, D, labels, class_names,
                                     labels != NULL ? K : 0, &data));
  return data;
}

/* By order and by labels, with all four scalings. */
TEST(means_are_those_of_plain_loops) {
  AUTO(kf_ctx) *ctx = test_ctx(2, KF_ISA_AUTO);
  prompts p;
  make_prompts(&p, 1);
  prompts mixed = p; /* class i mod K instead of i / M */
  for (int i = 0; i < K * M; i++) mixed.labels[i] = i % K;
  AUTO(kf_data) *plain = open_rows(ctx, p.rows, K * M, NULL, NULL);
  AUTO(kf_data) *labelled = open_rows(ctx, mixed.rows, K * M, mixed.labels, mixed.names);
  for (int way = 0; way < 4; way++) {
    kf_text_options o = {.unit_rows = way & 1 ? KF_OFF : KF_ON,
                         .unit_mean = way >> 1 ? KF_OFF : KF_ON};
    kf_text *text;
    assert_ok(ctx, kf_text_new(ctx, labelled, &o, &text));
    compare_means(text, mixed.rows, mixed.labels, K * M, &o);
    for (uint32_t k = 0; k < K; k++) assert_string_equal(kf_text_class_name(text, k), names[k]);
    kf_text_free(text);
    o.per_class = M;
    assert_ok(ctx, kf_text_new(ctx, plain, &o, &text));
    compare_means(text, p.rows, p.labels, K * M, &o);
    assert_null(kf_text_class_name(text, 0));
    kf_text_free(text);
  }
}

/* With per_class labels do not matter, and names come from a file. */
TEST(names_come_from_a_file) {
  AUTO(kf_ctx) *ctx = test_ctx(1, KF_ISA_AUTO);
  const char *folder = test_folder(), *path = test_path(folder, "names.txt");
  prompts p;
  make_prompts(&p, 2);
  AUTO(kf_data) *data = open_rows(ctx, p.rows, K * M, NULL, NULL);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  for (int k = 0; k < K; k++) fprintf(file, "%s\n", names[k]);
  fclose(file);
  AUTO(kf_text) *text = NULL, *again = NULL;
  kf_text_options o = {.per_class = M, .classes = path};
  assert_ok(ctx, kf_text_new(ctx, data, &o, &text));
  assert_string_equal(kf_text_class_name(text, 3), "ox");
  assert_null(kf_text_class_name(text, K));

  const char *saved = test_path(folder, "text.safetensors");
  assert_ok(ctx, kf_text_save(ctx, text, saved));
  AUTO(kf_data) *read = NULL;
  assert_ok(ctx, kf_data_open(ctx, &saved, 1, NULL, &read));
  kf_text_options as_is = {.unit_rows = KF_OFF, .unit_mean = KF_OFF};
  assert_ok(ctx, kf_text_new(ctx, read, &as_is, &again));
  assert_int_equal(kf_text_classes(again), K);
  for (uint32_t k = 0; k < K; k++) assert_string_equal(kf_text_class_name(again, k), names[k]);
  assert_memory_equal(kf_text_rows(again), kf_text_rows(text), K * D * sizeof(float));
  test_remove(folder);
}

TEST(what_cannot_be_averaged) {
  AUTO(kf_ctx) *ctx = test_ctx(1, KF_ISA_AUTO);
  const char *folder = test_folder(), *path = test_path(folder, "names.txt");
  prompts p;
  make_prompts(&p, 3);
  AUTO(kf_data) *plain = open_rows(ctx, p.rows, K * M, NULL, NULL);
  kf_text *text = NULL;
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs("one\ntwo\n", file);
  fclose(file);
  assert_error(ctx, KF_ERR_DATA, "have no labels", kf_text_new(ctx, plain, NULL, &text));
  assert_int_equal(kf_errhint(ctx), KF_HINT_PER_CLASS);
  assert_error(ctx, KF_ERR_DATA, "45 text embeddings are not a multiple of 7",
               kf_text_new(ctx, plain, &(kf_text_options){.per_class = 7}, &text));
  assert_error(ctx, KF_ERR_DATA, "make 9 classes; there are 2 names",
               kf_text_new(ctx, plain, &(kf_text_options){.per_class = M, .classes = path}, &text));
  assert_error(ctx, KF_ERR_ARG, "per_class",
               kf_text_new(ctx, plain, &(kf_text_options){.classes = path}, &text));
  assert_error(ctx, KF_ERR_ARG, "", kf_text_new(ctx, NULL, NULL, &text));

  for (int i = 0; i < K * M; i++) p.labels[i] = i % (K - 1); /* none for the last class */
  AUTO(kf_data) *few = open_rows(ctx, p.rows, K * M, p.labels, p.names);
  assert_error(ctx, KF_ERR_DATA, "class 'fox' has no text embedding",
               kf_text_new(ctx, few, NULL, &text));

  for (int j = 0; j < D; j++) p.rows[D + j] = -p.rows[j]; /* two rows that cancel out */
  AUTO(kf_data) *none = open_rows(ctx, p.rows, 2 * K, NULL, NULL);
  assert_error(ctx, KF_ERR_DATA, "class 0 have no mean direction",
               kf_text_new(ctx, none, &(kf_text_options){.per_class = 2}, &text));
  assert_null(text);
  test_remove(folder);
}

/* --- zero-shot ------------------------------------------------------------------------------- */

/* A model of K classes in D columns, and text that is its class means plus an offset. */
typedef struct setting {
  kf_ctx *ctx;
  world w;
  kf_stats *stats;
  kf_text *text;
} setting;

static setting make_setting(unsigned threads, kf_isa isa, int raw) {
  setting s = {.ctx = test_ctx(threads, isa), .w = make_world(40 * K, D, K, 2, 7)};
  static float rows[K * D];
  int32_t labels[K];
  uint64_t seed = 11;
  s.stats = stats_of(s.ctx, &s.w, raw);
  AUTO(kf_model) *m = fit(s.ctx, s.stats, 0.3, D);
  for (int k = 0; k < K; k++) {
    labels[k] = k;
    for (int j = 0; j < D; j++)
      rows[k * D + j] = kf_model_class_means(m)[k * D + j] + (j == 3 ? 0.8F : 0.0F) +
                        (float)(0.02 * test_normal(&seed));
  }
  AUTO(kf_data) *data = open_rows(s.ctx, rows, K, labels, NULL);
  assert_ok(s.ctx, kf_text_new(s.ctx, data, NULL, &s.text));
  return s;
}

static void free_setting(setting *s) {
  kf_text_free(s->text);
  kf_stats_free(s->stats);
  free_world(&s->w);
  kf_ctx_free(s->ctx);
}
AUTO_STRUCT(setting, free_setting)

/* Cosine of T (x / |x| - a) and T (t - b) by the definition. */
static double plain_cosine(const kf_model *m, const float *x, const float *t, const double *a,
                           const double *b) {
  uint32_t dim = kf_model_dim_out(m);
  const double *matrix = kf_model_transform_matrix(m);
  double unit[D], dot = 0, xx = 0, tt = 0;
  for (int j = 0; j < D; j++) unit[j] = (double)x[j];
  double length = length_of(unit, D);
  for (uint32_t l = 0; l < dim; l++) {
    double u = 0, v = 0;
    for (int j = 0; j < D; j++) {
      u += matrix[l * D + (uint32_t)j] * (unit[j] / length - a[j]);
      v += matrix[l * D + (uint32_t)j] * ((double)t[j] - b[j]);
    }
    dot += u * v;
    xx += u * u;
    tt += v * v;
  }
  return dot / sqrt(xx * tt);
}

static void text_mean(const kf_text *text, double *mean) {
  memset(mean, 0, D * sizeof *mean);
  for (int k = 0; k < K; k++)
    for (int j = 0; j < D; j++) mean[j] += (double)kf_text_rows(text)[k * D + j] / K;
}

static void compare_scores(const setting *s, const kf_model *m, const kf_model *zero,
                           kf_centre centre) {
  double nothing[D] = {0}, own[D];
  text_mean(s->text, own);
  const double *mean = kf_model_mean(m);
  const double *a = centre == KF_CENTRE_NONE ? nothing : mean;
  const double *b = centre == KF_CENTRE_NONE ? nothing : centre == KF_CENTRE_MEAN ? mean : own;
  enum { ROWS = 50 };
  int32_t classes[ROWS * K];
  double scores[ROWS * K];
  kf_classify_options o = {.top = K};
  assert_ok(s->ctx, kf_classify(s->ctx, zero, s->w.rows, ROWS, &o, classes, scores));
  for (int i = 0; i < ROWS; i++)
    for (int r = 0; r < K; r++) {
      int32_t k = classes[i * K + r];
      double want = plain_cosine(m, s->w.rows + i * D, kf_text_rows(s->text) + k * D, a, b);
      assert_true(fabs(scores[i * K + r] - want) < 1e-6);
      assert_true(r == 0 || scores[i * K + r] <= scores[i * K + r - 1]);
    }
}

/* All centrings and numbers of dimensions, whatever centre the model itself has. */
TEST(scores_are_those_of_the_definition) {
  AUTO(setting) s = make_setting(2, KF_ISA_AUTO, 0);
  for (uint32_t dim = 4; dim <= D; dim += 10)
    for (int own = KF_CENTRE_NONE; own <= KF_CENTRE_MEAN; own++)
      for (int c = KF_CENTRE_DEFAULT; c <= KF_CENTRE_MODALITY; c++) {
        AUTO(kf_model) *m = NULL, *zero = NULL;
        kf_fit_options o = {.method = KF_METHOD_PAPER,
                            .lambda = {0.1, KF_LAMBDA_RELATIVE},
                            .dim = dim,
                            .centre = (kf_centre)own};
        assert_ok(s.ctx, kf_fit_stats(s.ctx, s.stats, &o, &m));
        assert_ok(s.ctx, kf_model_new_zero_shot(s.ctx, m, s.text, (kf_centre)c, &zero));
        assert_int_equal(kf_model_classes(zero), K);
        assert_int_equal(kf_model_dim_out(zero), dim);
        compare_scores(&s, m, zero, c == 0 ? KF_CENTRE_MODALITY : (kf_centre)c);
      }
}

/* In the original space, text is used as given. */
TEST(raw_scores_are_cosines_with_the_text) {
  AUTO(setting) s = make_setting(1, KF_ISA_AUTO, 0);
  AUTO(kf_model) *m = fit(s.ctx, s.stats, 0.3, D), *zero = NULL;
  assert_ok(s.ctx, kf_model_new_zero_shot(s.ctx, m, s.text, KF_CENTRE_NONE, &zero));
  int32_t class;
  double score;
  kf_classify_options o = {.top = 1, .raw = 1};
  for (int i = 0; i < 50; i++) {
    const float *x = s.w.rows + i * D;
    assert_ok(s.ctx, kf_classify(s.ctx, zero, x, 1, &o, &class, &score));
    double best = -2;
    for (int k = 0; k < K; k++) {
      double dot = 0, xx = 0, tt = 0;
      for (int j = 0; j < D; j++) {
        double t = (double)kf_text_rows(s.text)[k * D + j];
        dot += (double)x[j] * t;
        xx += (double)x[j] * (double)x[j];
        tt += t * t;
      }
      best = fmax(best, dot / sqrt(xx * tt));
    }
    assert_true(fabs(score - best) < 1e-6);
  }
}

/* Prototypes, class means and answers, on every instruction set and for any number of threads. */
TEST(same_bits_everywhere) {
  AUTO(setting) first = make_setting(1, KF_ISA_PLAIN, 0);
  AUTO(kf_model) *map = fit(first.ctx, first.stats, 0.1, 16), *want = NULL;
  assert_ok(first.ctx,
            kf_model_new_zero_shot(first.ctx, map, first.text, KF_CENTRE_MODALITY, &want));
  for (int isa = KF_ISA_PLAIN; isa <= KF_ISA_AMX; isa++)
    for (unsigned threads = 1; threads <= 4; threads += 3) {
      if (!test_has_isa((kf_isa)isa)) continue;
      AUTO(setting) s = make_setting(threads, (kf_isa)isa, 0);
      AUTO(kf_model) *m = fit(s.ctx, s.stats, 0.1, 16), *zero = NULL;
      assert_memory_equal(kf_text_rows(s.text), kf_text_rows(first.text), K * D * sizeof(float));
      assert_ok(s.ctx, kf_model_new_zero_shot(s.ctx, m, s.text, KF_CENTRE_MODALITY, &zero));
      assert_memory_equal(kf_model_prototypes(zero), kf_model_prototypes(want),
                          K * 16 * sizeof(float));
      assert_memory_equal(kf_model_prototype_lengths(zero), kf_model_prototype_lengths(want),
                          K * sizeof(double));
      assert_memory_equal(kf_model_class_means(zero), kf_model_class_means(want),
                          K * D * sizeof(float));
    }
}

TEST(what_cannot_be_zero_shot) {
  AUTO(setting) s = make_setting(1, KF_ISA_AUTO, 0), raw = make_setting(1, KF_ISA_AUTO, 1);
  AUTO(kf_model) *m = fit(s.ctx, s.stats, 0.3, D), *lengths = fit(raw.ctx, raw.stats, 0.3, D);
  kf_model *zero = NULL;
  assert_error(s.ctx, KF_ERR_ARG, "invalid centre",
               kf_model_new_zero_shot(s.ctx, m, s.text, (kf_centre)4, &zero));
  assert_error(s.ctx, KF_ERR_DATA, "keeps the lengths of images",
               kf_model_new_zero_shot(s.ctx, lengths, s.text, KF_CENTRE_NONE, &zero));
  float short_rows[2 * 3] = {1, 2, 3, 4, 5, 6};
  AUTO(kf_data) *data = NULL;
  AUTO(kf_text) *text = NULL;
  assert_ok(s.ctx, kf_data_open_memory(s.ctx, short_rows, 2, 3, NULL, NULL, 0, &data));
  assert_ok(s.ctx, kf_text_new(s.ctx, data, &(kf_text_options){.per_class = 1}, &text));
  assert_error(s.ctx, KF_ERR_DATA, "the text embeddings have 3 columns, the images 24",
               kf_model_new_zero_shot(s.ctx, m, text, KF_CENTRE_NONE, &zero));
  assert_null(zero);
}

/* --- the paper's observation ----------------------------------------------------------------- */

typedef struct synth_world {
  kf_ctx *ctx;
  kf_data *train, *test;
  kf_stats *stats;
  kf_text *text;
} synth_world;

static double share_right(const synth_world *w, double lambda, uint32_t dim, kf_centre centre,
                          int raw) {
  AUTO(kf_model) *m = fit(w->ctx, w->stats, lambda, dim), *zero = NULL;
  kf_eval_result r;
  kf_eval_options o = {.include_raw = !raw ? KF_OFF : KF_ON,
                       .include_mapped = raw ? KF_OFF : KF_ON};
  assert_ok(w->ctx, kf_model_new_zero_shot(w->ctx, m, w->text, centre, &zero));
  assert_ok(w->ctx, kf_eval(w->ctx, zero, w->test, &o, &r));
  return (double)(raw ? r.raw_top1 : r.top1) / (double)r.n;
}

/* Whitening at small lambda destroys zero-shot accuracy; centring each modality restores it, and so
 * do fewer dimensions or a large lambda. */
TEST(collapse_and_recovery) {
  synth_world w = {.ctx = test_ctx(0, KF_ISA_AUTO)};
  kf_synth_options o = {.classes = 200, .per_class = 16};
  kf_data *text;
  assert_ok(w.ctx, kf_synth_open(w.ctx, &o, &w.train));
  assert_ok(w.ctx, kf_synth_open_text(w.ctx, &o, &text));
  o.split = 1;
  o.per_class = 5;
  assert_ok(w.ctx, kf_synth_open(w.ctx, &o, &w.test));
  assert_ok(w.ctx, kf_stats_new_from_data(w.ctx, w.train, NULL, &w.stats));
  assert_ok(w.ctx, kf_text_new(w.ctx, text, NULL, &w.text));
  double raw = share_right(&w, 0.3, 512, KF_CENTRE_NONE, 1);
  double collapsed = share_right(&w, 0.1, 512, KF_CENTRE_NONE, 0);
  double centred = share_right(&w, 0.1, 512, KF_CENTRE_MODALITY, 0);
  double reduced = share_right(&w, 0.1, 128, KF_CENTRE_NONE, 0);
  double large = share_right(&w, 30, 512, KF_CENTRE_NONE, 0);
  print_message("raw %.3f, whitened %.3f, centred %.3f, 128 dimensions %.3f, large lambda %.3f\n",
                raw, collapsed, centred, reduced, large);
  assert_true(collapsed < raw / 3);
  assert_true(centred > collapsed + 0.4 * raw);
  assert_true(reduced > collapsed + 0.3 * raw);
  assert_true(large > 0.9 * raw);
  kf_text_free(w.text);
  kf_stats_free(w.stats);
  kf_data_free(text);
  kf_data_free(w.train);
  kf_data_free(w.test);
  kf_ctx_free(w.ctx);
}
