/* test_fuse.c - models with text: scores by the definition, classes with only text or only rows,
 * and the weight of prototypes against text, chosen as if by fitting again without each row. */
#include "world.h"

#include "choose/choose.h"
#include "choose/left_out.h"

AUTO_OBJECT(kf_fitter)
AUTO_OBJECT(kf_left_out)

enum { D = 12, K = 8, N = 96 };

typedef struct problem {
  kf_ctx *ctx;
  world w;
  char names[K + 4][8];
  const char *name[K + 4];
  kf_data *data;
  kf_stats *stats;
  kf_model *model;
  float text[(K + 4) * D];
} problem;

/* Rows of classes c00 … c07, and text of these and four more: image means, rotated and shifted. */
static problem *make_problem(unsigned threads, kf_isa isa, kf_centre centre) {
  problem *p = calloc(1, sizeof *p);
  p->ctx = test_ctx(threads, isa);
  p->w = make_world(N, D, K, 1, 41);
  for (int k = 0; k < K + 4; k++) {
    snprintf(p->names[k], sizeof p->names[k], "c%02d", k);
    p->name[k] = p->names[k];
  }
  assert_ok(p->ctx,
            kf_data_open_memory(p->ctx, p->w.rows, N, D, p->w.labels, p->name, K, &p->data));
  assert_ok(p->ctx, kf_stats_new_from_data(p->ctx, p->data, NULL, &p->stats));
  kf_fit_options options = {
      .method = KF_METHOD_PAPER, .lambda = {0.3, KF_LAMBDA_RELATIVE}, .dim = 7, .centre = centre};
  assert_ok(p->ctx, kf_fit_stats(p->ctx, p->stats, &options, &p->model));
  uint64_t seed = 9;
  for (int k = 0; k < K + 4; k++)
    for (int i = 0; i < D; i++) {
      double mean = k < K ? (double)kf_model_class_means(p->model)[k * D + (i + 1) % D] : 0;
      p->text[k * D + i] = (float)(mean + 0.3 * test_normal(&seed) + (i == 2 ? 2 : 0));
    }
  return p;
}

static void clear_problem(problem *p) {
  kf_model_free(p->model);
  kf_stats_free(p->stats);
  kf_data_free(p->data);
  kf_ctx_free(p->ctx);
  free_world(&p->w);
  free(p);
}
static inline void auto_problem(problem **p) { clear_problem(*p); }

/* Text of classes first … first + n - 1. */
static kf_text *text_of(problem *p, uint32_t first, uint32_t n) {
  AUTO(kf_data) *data = NULL;
  kf_text *text;
  kf_text_options options = {.per_class = 1, .names = p->name + first, .n_names = n};
  assert_ok(p->ctx,
            kf_data_open_memory(p->ctx, p->text + (size_t)first * D, n, D, NULL, NULL, 0, &data));
  assert_ok(p->ctx, kf_text_new(p->ctx, data, &options, &text));
  return text;
}

static double cosine(const double *a, const double *b, int n) {
  double ab = 0, aa = 0, bb = 0;
  for (int i = 0; i < n; i++) {
    ab += a[i] * b[i];
    aa += a[i] * a[i];
    bb += b[i] * b[i];
  }
  return ab / sqrt(aa * bb);
}

/* A model returns the text that was added to it. */
TEST(text_of_a_model) {
  AUTO(problem) *p = make_problem(1, KF_ISA_AUTO, KF_CENTRE_MEAN);
  kf_text *text = text_of(p, 2, K), *got; /* c02 … c09: c00 and c01 have rows alone */
  AUTO(kf_model) *fused = NULL, *again = NULL;
  assert_ok(p->ctx, kf_model_new_fused(p->ctx, p->model, text, 0.2, &fused));
  assert_ok(p->ctx, kf_text_new_of_model(p->ctx, fused, &got));
  assert_int_equal(kf_text_classes(got), K);
  assert_int_equal(kf_text_dim(got), D);
  assert_memory_equal(kf_text_rows(got), kf_text_rows(text), K * D * sizeof(float));
  for (uint32_t k = 0; k < K; k++)
    assert_string_equal(kf_text_class_name(got, k), kf_text_class_name(text, k));
  assert_ok(p->ctx, kf_model_new_fused(p->ctx, p->model, got, 0.2, &again));
  assert_memory_equal(again->fused, fused->fused, (K + 2) * 7 * sizeof(float));
  kf_text_free(got);
  assert_error(p->ctx, KF_ERR_ARG, "has no text", kf_text_new_of_model(p->ctx, p->model, &got));
  fused->names.n = 0; /* by number, a class without text may not come first */
  assert_error(p->ctx, KF_ERR_DATA, "class 0 of the model has no text",
               kf_text_new_of_model(p->ctx, fused, &got));
  fused->names.n = K + 2;
  kf_text_free(text);
}

/* --- scores ----------------------------------------------------------------------------------- */

/* T (x / |x| - centre), in plain loops. */
static void map_row(const kf_model *m, const double *x, double *out) {
  double length = 0;
  for (int i = 0; i < D; i++) length += x[i] * x[i];
  for (uint32_t l = 0; l < kf_model_dim_out(m); l++) {
    out[l] = 0;
    for (int i = 0; i < D; i++) {
      double centre = kf_model_centre(m) == KF_CENTRE_MEAN ? kf_model_mean(m)[i] : 0;
      out[l] += kf_model_transform_matrix(m)[l * D + (uint32_t)i] * (x[i] / sqrt(length) - centre);
    }
  }
}

static void map_mean(const kf_model *m, uint32_t k, double *out) {
  for (uint32_t l = 0; l < kf_model_dim_out(m); l++) {
    out[l] = 0;
    for (int i = 0; i < D; i++) {
      double centre = kf_model_centre(m) == KF_CENTRE_MEAN ? kf_model_mean(m)[i] : 0;
      out[l] += kf_model_transform_matrix(m)[l * D + (uint32_t)i] *
                ((double)kf_model_class_means(m)[k * D + (uint32_t)i] - centre);
    }
  }
}

TEST(scores) {
  for (int centre = KF_CENTRE_NONE; centre <= KF_CENTRE_MEAN; centre++) {
    AUTO(problem) *p = make_problem(2, KF_ISA_AUTO, (kf_centre)centre);
    AUTO(kf_text) *text = text_of(p, 0, K);
    AUTO(kf_model) *fused = NULL;
    const double alpha = 0.4;
    assert_ok(p->ctx, kf_model_new_fused(p->ctx, p->model, text, alpha, &fused));
    assert_true(kf_model_fused(fused) && !kf_model_fused(p->model));
    for (int part = KF_PART_DEFAULT; part <= KF_PART_FUSED; part++) {
      int32_t classes[N * K];
      double got[N * K];
      kf_classify_options options = {.top = K, .part = (kf_part)part};
      assert_ok(p->ctx, kf_classify(p->ctx, fused, p->w.rows, N, &options, classes, got));
      for (int r = 0; r < N; r++)
        for (int t = 0; t < K; t++) {
          uint32_t k = (uint32_t)classes[r * K + t];
          double x[D], y[D], z[D], q[D];
          for (int i = 0; i < D; i++) {
            x[i] = (double)p->w.rows[r * D + i];
            y[i] = (double)p->text[k * D + (uint32_t)i];
          }
          map_row(fused, x, z);
          map_mean(fused, k, q);
          double by_text = cosine(x, y, D), by_image = cosine(z, q, 7);
          double wanted = part == KF_PART_TEXT     ? by_text
                          : part == KF_PART_IMAGES ? by_image
                                                   : by_text + alpha * by_image;
          assert_true(fabs(got[r * K + t] - wanted) < 1e-6);
          assert_true(t == 0 || got[r * K + t] <= got[r * K + t - 1]);
        }
    }
  }
}

/* --- files ------------------------------------------------------------------------------------ */

TEST(file) {
  AUTO(problem) *p = make_problem(1, KF_ISA_AUTO, KF_CENTRE_MEAN);
  AUTO(kf_text) *text = text_of(p, 2, K);
  AUTO(kf_model) *fused = NULL, *again = NULL;
  const char *folder = test_folder();
  const char *a = test_path(folder, "a.safetensors"), *b = test_path(folder, "b.safetensors");
  assert_ok(p->ctx, kf_model_new_fused(p->ctx, p->model, text, 0.25, &fused));
  assert_ok(p->ctx, kf_model_save(p->ctx, fused, a));
  assert_ok(p->ctx, kf_model_load(p->ctx, a, &again));
  assert_true(kf_model_alpha(again) == 0.25 && kf_model_classes(again) == K + 2);
  assert_ok(p->ctx, kf_model_save(p->ctx, again, b));
  assert_same_file(a, b);
  int32_t classes[2][N];
  assert_ok(p->ctx, kf_classify(p->ctx, fused, p->w.rows, N, NULL, classes[0], NULL));
  assert_ok(p->ctx, kf_classify(p->ctx, again, p->w.rows, N, NULL, classes[1], NULL));
  assert_memory_equal(classes[0], classes[1], sizeof classes[0]);
  test_remove(folder);
}

/* --- classes with text or rows alone ---------------------------------------------------------- */

TEST(classes_of_one_side) {
  AUTO(problem) *p = make_problem(2, KF_ISA_AUTO, KF_CENTRE_MEAN);
  AUTO(kf_text) *text = text_of(p, 2, K + 2); /* c00 and c01 have only rows, c08 … c11 only text */
  AUTO(kf_model) *fused = NULL, *wider = NULL, *most = NULL;
  p->model->temperature = 20; /* for scores other than fused ones */
  p->model->reject_share = 0.9;
  assert_ok(p->ctx, kf_model_new_fused(p->ctx, p->model, text, 0.1, &fused));
  assert_true(fused->temperature == 0 && fused->reject_share == 0);
  assert_int_equal(kf_model_classes(fused), K + 4);
  for (uint32_t k = 0; k < K + 4; k++) {
    assert_string_equal(kf_model_class_name(fused, k), p->name[k]);
    assert_int_equal(kf_model_class_has_text(fused, k), k >= 2);
    assert_int_equal(kf_model_count(fused, k) > 0, k < K);
    double t = 0, f = 0; /* predicted, of unit length */
    for (int i = 0; i < D; i++) t += pow((double)fused->text[k * D + (uint32_t)i], 2);
    for (int l = 0; l < 7; l++) f += pow((double)fused->fused[k * 7 + (uint32_t)l], 2);
    assert_true(fabs(t - 1) < 1e-5 && fabs(f - 1) < 1e-5);
  }
  /* All classes can be answers; each part knows its own. */
  const kf_part parts[] = {KF_PART_FUSED, KF_PART_IMAGES, KF_PART_TEXT};
  const uint32_t sizes[] = {K + 4, K, K + 2};
  for (int i = 0; i < 3; i++) {
    int32_t classes[K + 5];
    kf_classify_options options = {.top = sizes[i], .part = parts[i]};
    assert_ok(p->ctx, kf_classify(p->ctx, fused, p->w.rows, 1, &options, classes, NULL));
    options.top++;
    assert_int_equal(kf_classify(p->ctx, fused, p->w.rows, 1, &options, classes, NULL), KF_ERR_ARG);
  }
  kf_eval_result r;
  kf_eval_options options = {.part = KF_PART_TEXT};
  assert_ok(p->ctx, kf_eval(p->ctx, fused, p->data, &options, &r));
  assert_int_equal(r.n_absent, 2 * N / K); /* rows of c00 and c01, which have no text */
  options.part = KF_PART_FUSED;
  assert_ok(p->ctx, kf_eval(p->ctx, fused, p->data, &options, &r));
  assert_int_equal(r.n, N);

  /* One more class, by rows and by text; the others stay as they are. */
  AUTO(kf_data) *samples = NULL;
  assert_ok(p->ctx, kf_data_open_memory(p->ctx, p->w.rows, 5, D, NULL, NULL, 0, &samples));
  assert_ok(p->ctx, kf_model_new_with_class(p->ctx, fused, "new", samples, &wider));
  assert_int_equal(kf_model_classes(wider), K + 5);
  assert_false(kf_model_class_has_text(wider, K + 4));
  assert_memory_equal(wider->text, fused->text, (K + 4) * D * sizeof(float));
  assert_memory_equal(wider->fused, fused->fused, (K + 4) * 7 * sizeof(float));
  assert_memory_equal(wider->fused + (K + 4) * 7, wider->prototypes + (K + 4) * 7,
                      7 * sizeof(float));
  AUTO(kf_text) *more = NULL;
  const char *name = "by name";
  kf_text_options one = {.per_class = 5, .names = &name, .n_names = 1};
  assert_ok(p->ctx, kf_text_new(p->ctx, samples, &one, &more));
  assert_ok(p->ctx, kf_model_new_with_text(p->ctx, wider, more, &most));
  assert_int_equal(kf_model_classes(most), K + 6);
  assert_true(kf_model_class_has_text(most, K + 5) && kf_model_count(most, K + 5) == 0);
  assert_memory_equal(most->text, wider->text, (K + 5) * D * sizeof(float));
  kf_model *none = NULL;
  assert_error(p->ctx, KF_ERR_ARG, "has no text",
               kf_model_new_with_text(p->ctx, p->model, more, &none));
}

/* If text is a linear function of class means, missing text and means are predicted well. */
TEST(prediction) {
  enum { CLASSES = 60, MISSING = 6 };
  AUTO(world) w = make_world(CLASSES * 6, D, CLASSES, 1, 43);
  AUTO(kf_ctx) *ctx = test_ctx(2, KF_ISA_AUTO);
  AUTO(kf_data) *data = NULL, *rows = NULL;
  AUTO(kf_stats) *stats = NULL;
  AUTO(kf_model) *model = NULL, *fused = NULL;
  AUTO(kf_text) *text = NULL;
  static char names[CLASSES][8];
  static const char *name[CLASSES];
  for (int k = 0; k < CLASSES; k++) {
    snprintf(names[k], sizeof names[k], "k%02d", k);
    name[k] = names[k];
  }
  assert_ok(ctx, kf_data_open_memory(ctx, w.rows, w.n, D, w.labels, name, CLASSES, &data));
  assert_ok(ctx, kf_stats_new_from_data(ctx, data, NULL, &stats));
  assert_ok(ctx,
            kf_fit_stats(ctx, stats,
                         &(kf_fit_options){.method = KF_METHOD_PAPER, .centre = KF_CENTRE_MEAN},
                         &model));
  float t[CLASSES * D];
  for (int k = 0; k < CLASSES; k++) /* columns shifted by one, and an offset */
    for (int i = 0; i < D; i++)
      t[k * D + i] = kf_model_class_means(model)[k * D + (i + 1) % D] + (i == 3 ? 0.5f : 0);
  kf_text_options options = {.per_class = 1, .names = name, .n_names = CLASSES - MISSING};
  assert_ok(ctx, kf_data_open_memory(ctx, t, CLASSES - MISSING, D, NULL, NULL, 0, &rows));
  assert_ok(ctx, kf_text_new(ctx, rows, &options, &text));
  assert_ok(ctx, kf_model_new_fused(ctx, model, text, 0.1, &fused));
  for (int k = CLASSES - MISSING; k < CLASSES; k++) {
    double a[D], b[D], mean[D], other[D];
    for (int i = 0; i < D; i++) {
      a[i] = (double)fused->text[k * D + i];
      b[i] = (double)t[k * D + i];
      mean[i] = (double)fused->text[0 * D + i];
      other[i] = b[i];
    }
    assert_true(cosine(a, b, D) > 0.999 && cosine(a, b, D) > cosine(mean, other, D));
  }
}

/* --- choosing --------------------------------------------------------------------------------- */

static void keep_scores(void *argument, uint64_t row, int32_t label, const double *scores,
                        size_t worker) {
  (void)worker;
  (void)label;
  memcpy((double *)argument + row * K, scores, K * sizeof *scores);
}

/* The scores [N][K] of rows left out in turn, text + alpha * prototype. */
static void scores_at(problem *p, kf_left_out *l, double lambda, double alpha, double *scores) {
  kf_left_out_trial trial = {
      .lambda = lambda, .hits = true, .see = keep_scores, .argument = scores};
  kf_left_out_point point = {.alpha = alpha};
  uint64_t n;
  assert_ok(p->ctx, kf_left_out_try(l, &trial, &point, 1, &n));
  assert_int_equal(n, N);
}

/* Hits by all scores of all rows, for one lambda and alpha. */
static void count_all(problem *p, kf_left_out *l, double lambda, double alpha, uint64_t *top1,
                      uint64_t *top5) {
  AUTOFREE double *all = malloc(N * K * sizeof *all);
  scores_at(p, l, lambda, alpha, all);
  *top1 = *top5 = 0;
  for (uint64_t r = 0; r < N; r++) {
    const double *scores = all + r * K;
    uint32_t own = (uint32_t)p->w.labels[r], before = 0;
    for (uint32_t k = 0; k < K; k++) before += scores[k] > scores[own];
    *top1 += before == 0;
    *top5 += before < 5;
  }
}

/* The own class by fitting again without the row: its mean without the row, over the length that it
 * has with it. */
static double own_without(problem *p, uint64_t row, double lambda, kf_centre centre) {
  AUTO(kf_data) *one = NULL;
  AUTO(kf_stats) *rest = NULL, *taken = NULL;
  AUTO(kf_model) *m = NULL;
  double x[D], with[D], z[D], q[D], zq = 0, zz = 0, ww = 0;
  uint32_t own = (uint32_t)p->w.labels[row];
  assert_ok(p->ctx, kf_data_open_memory(p->ctx, p->w.rows + row * D, 1, D, p->w.labels + row,
                                        p->name, K, &one));
  assert_ok(p->ctx, kf_stats_copy(p->ctx, p->stats, &rest));
  assert_ok(p->ctx, kf_fold_take_out(p->ctx, rest, one, &taken));
  kf_fit_options options = {
      .method = KF_METHOD_PAPER, .lambda = {lambda, KF_LAMBDA_ABSOLUTE}, .centre = centre};
  assert_ok(p->ctx, kf_fit_stats(p->ctx, rest, &options, &m));
  for (int i = 0; i < D; i++) x[i] = (double)p->w.rows[row * D + (uint64_t)i];
  map_row(m, x, z);
  map_mean(m, own, q);
  for (int l = 0; l < D; l++) {
    with[l] = 0;
    for (int i = 0; i < D; i++) {
      double mean = (double)kf_model_class_means(p->model)[own * D + (uint32_t)i];
      if (centre == KF_CENTRE_MEAN) mean -= kf_model_mean(m)[i];
      with[l] += kf_model_transform_matrix(m)[l * D + i] * mean;
    }
    zq += z[l] * q[l];
    zz += z[l] * z[l];
    ww += with[l] * with[l];
  }
  return zq / sqrt(zz * ww);
}

TEST(lengths) {
  AUTOFREE double *all = malloc(N * K * sizeof *all);
  AUTOFREE float *unit = malloc(K * D * sizeof *unit);
  for (int centre = KF_CENTRE_NONE; centre <= KF_CENTRE_MEAN; centre++) {
    AUTO(problem) *p = make_problem(1, KF_ISA_AUTO, (kf_centre)centre);
    AUTO(kf_left_out) *l = NULL;
    AUTO(kf_fitter) *fitter = NULL;
    assert_ok(p->ctx, kf_fitter_new(p->ctx, p->stats, NULL, KF_METHOD_PAPER, &fitter));
    for (uint32_t i = 0; i < K * D; i++) {
      double square = 0;
      for (uint32_t d = i / D * D; d < i / D * D + D; d++)
        square += (double)p->text[d] * (double)p->text[d];
      unit[i] = p->text[i] / (float)sqrt(square);
    }
    kf_left_out_options by = {.centre = (kf_centre)centre, .text = unit};
    assert_ok(p->ctx, kf_left_out_new(fitter, p->data, &by, &l));
    static const double lambdas[] = {0.01, 0.1, 1, 10};
    for (int i = 0; i < 4; i++) {
      scores_at(p, l, lambdas[i], 1, all);
      for (uint64_t r = 0; r < N; r += 7) {
        double x[D], text[D], wanted = own_without(p, r, lambdas[i], (kf_centre)centre);
        uint32_t own = (uint32_t)p->w.labels[r];
        for (uint32_t d = 0; d < D; d++) {
          x[d] = (double)p->w.rows[r * D + d];
          text[d] = (double)unit[own * D + d];
        }
        assert_true(fabs(all[r * K + own] - cosine(x, text, D) - wanted) < 1e-5);
      }
    }
  }
}

TEST(choice) {
  kf_fuse_choice *first = NULL;
  for (int centre = KF_CENTRE_NONE; centre <= KF_CENTRE_MEAN; centre++)
    for (int isa = KF_ISA_PLAIN; isa <= KF_ISA_AMX; isa++) {
      if (!test_has_isa((kf_isa)isa)) continue;
      AUTO(problem) *p = make_problem((unsigned)isa, (kf_isa)isa, (kf_centre)centre);
      AUTO(kf_text) *text = text_of(p, 0, K);
      kf_fuse_choice *c;
      kf_fuse_options options = {.method = KF_METHOD_PAPER, .centre = (kf_centre)centre};
      assert_ok(p->ctx, kf_fuse_choice_new(p->ctx, p->stats, p->data, text, &options, &c));
      assert_int_equal(c->n, N);
      assert_int_equal(c->n_points, 5 * 16);
      if (isa == KF_ISA_PLAIN) {
        AUTO(kf_left_out) *l = NULL;
        AUTO(kf_model) *fused = NULL;
        assert_ok(p->ctx, kf_model_new_fused(p->ctx, p->model, text, 0, &fused));
        AUTO(kf_fitter) *fitter = NULL;
        assert_ok(p->ctx, kf_fitter_new(p->ctx, p->stats, NULL, KF_METHOD_PAPER, &fitter));
        kf_left_out_options by = {.centre = (kf_centre)centre, .text = fused->text};
        assert_ok(p->ctx, kf_left_out_new(fitter, p->data, &by, &l));
        uint64_t best = 0;
        for (size_t i = 0; i < c->n_points; i++) {
          uint64_t top1, top5;
          count_all(p, l, c->points[i].lambda, c->points[i].alpha, &top1, &top5);
          assert_int_equal(c->points[i].top1, top1);
          assert_int_equal(c->points[i].top5, top5);
          if (top1 > best) best = top1;
        }
        assert_int_equal(c->points[c->chosen].top1, best);
        assert_true(c->text_top1 < best);
        kf_fuse_choice_free(first);
        first = c;
      } else {
        assert_true(c->lambda == first->lambda && c->alpha == first->alpha);
        for (size_t i = 0; i < c->n_points; i++)
          assert_int_equal(c->points[i].top1, first->points[i].top1);
        kf_fuse_choice_free(c);
      }
    }
  kf_fuse_choice_free(first);
}

TEST(one_row_each) {
  AUTO(problem) *p = make_problem(1, KF_ISA_AUTO, KF_CENTRE_MEAN);
  AUTO(kf_data) *few = NULL;
  AUTO(kf_stats) *stats = NULL;
  AUTO(kf_text) *text = text_of(p, 0, K);
  AUTO(kf_fuse_choice) *c = NULL;
  assert_ok(p->ctx, kf_data_open_memory(p->ctx, p->w.rows, K, D, p->w.labels, p->name, K, &few));
  assert_ok(p->ctx, kf_stats_new_from_data(p->ctx, few, NULL, &stats));
  assert_ok(p->ctx, kf_fuse_choice_new(p->ctx, stats, few, text,
                                       &(kf_fuse_options){.method = KF_METHOD_PAPER}, &c));
  assert_int_equal(c->n_points, 0);
  assert_true(c->alpha == 0.03 && c->lambda == 1);
}

TEST(refused) {
  AUTO(problem) *p = make_problem(1, KF_ISA_AUTO, KF_CENTRE_NONE);
  AUTO(kf_text) *text = text_of(p, 0, K), *strange = text_of(p, K, 4), *again = text_of(p, 0, K);
  kf_model *fused = NULL, *other = NULL;
  assert_error(p->ctx, KF_ERR_ARG, "alpha", kf_model_new_fused(p->ctx, p->model, text, -1, &fused));
  assert_error(p->ctx, KF_ERR_ARG, "alpha",
               kf_model_new_fused(p->ctx, p->model, text, NAN, &fused));
  assert_error(p->ctx, KF_ERR_DATA, "model and text have no class in common",
               kf_model_new_fused(p->ctx, p->model, strange, 0.1, &fused));
  assert_ok(p->ctx, kf_model_new_fused(p->ctx, p->model, text, 0.1, &fused));
  assert_error(p->ctx, KF_ERR_ARG, "has text already",
               kf_model_new_fused(p->ctx, fused, again, 0.1, &other));
  int32_t class;
  assert_error(p->ctx, KF_ERR_ARG, "Euclidean",
               kf_classify(p->ctx, fused, p->w.rows, 1,
                           &(kf_classify_options){.metric = KF_METRIC_EUCLIDEAN}, &class, NULL));
  assert_error(p->ctx, KF_ERR_ARG, "has no text",
               kf_classify(p->ctx, p->model, p->w.rows, 1,
                           &(kf_classify_options){.part = KF_PART_TEXT}, &class, NULL));
  kf_model_free(fused);
}

/* --- classes on one side only ----------------------------------------------------------------- */

typedef struct notes {
  char text[2048];
  int n;
} notes;

static void note(void *user, const char *message) {
  notes *n = user;
  size_t used = strlen(n->text);
  snprintf(n->text + used, sizeof n->text - used, "%s\n", message);
  n->n++;
}

/* Zero-shot models log classes that are on one side only; text may even be of entirely other
 * classes. Text that replaces part of a model's text logs which classes are new. */
TEST(unmatched_classes_are_logged) {
  AUTO(problem) *p = make_problem(1, KF_ISA_AUTO, KF_CENTRE_MEAN);
  AUTO(kf_text) *same = text_of(p, 0, K), *some = text_of(p, 2, K), *others = text_of(p, K, 4);
  notes said = {0};
  AUTO(kf_ctx) *ctx = NULL;
  kf_model *zero, *fused, *more;
  assert_int_equal(kf_ctx_new(&(kf_ctx_options){.threads = 1, .log = note, .user = &said}, &ctx),
                   KF_OK);
  assert_ok(ctx, kf_model_new_zero_shot(ctx, p->model, same, KF_CENTRE_NONE, &zero));
  assert_int_equal(said.n, 0);
  kf_model_free(zero);
  assert_ok(ctx, kf_model_new_zero_shot(ctx, p->model, some, KF_CENTRE_NONE, &zero));
  assert_string_equal(said.text,
                      "2 of the 8 classes of the model are not in the text ('c00', 'c01'); text "
                      "alone cannot recognise them\n"
                      "2 of the 8 classes of the text are not in the model ('c08', 'c09'); they "
                      "take part by name\n");
  kf_model_free(zero);
  assert_error(ctx, KF_ERR_DATA, "no class of the text ('c08', ...) is a class of the model",
               kf_model_new_zero_shot(ctx, p->model, others, KF_CENTRE_NONE, &zero));

  said = (notes){0};
  assert_ok(ctx, kf_model_new_fused(ctx, p->model, some, 0.2, &fused));
  assert_ok(ctx, kf_model_new_with_text(ctx, fused, others, &more)); /* c08 and c09 are known */
  assert_string_equal(said.text, "2 of the 4 classes of the text are not in the model ('c10', "
                                 "'c11'); they are added by name\n");
  kf_model_free(more);
  kf_model_free(fused);
  said = (notes){0};
  assert_ok(ctx, kf_model_new_fused(ctx, p->model, same, 0.2, &fused));
  assert_ok(ctx, kf_model_new_with_text(ctx, fused, others, &more));
  assert_int_equal(said.n, 0); /* all are new, and meant to be */
  kf_model_free(more);
  kf_model_free(fused);
}

/* A fit needs matching classes. */
TEST(matching_for_a_fit) {
  AUTO(problem) *p = make_problem(1, KF_ISA_AUTO, KF_CENTRE_MEAN);
  AUTO(kf_text) *same = text_of(p, 0, K), *others = text_of(p, K, 4), *numbered = NULL;
  const kf_names *names = &p->stats->names, none = {0};
  AUTO(kf_data) *data = NULL;
  assert_ok(p->ctx, kf_data_open_memory(p->ctx, p->text, K - 1, D, NULL, NULL, 0, &data));
  assert_ok(p->ctx, kf_text_new(p->ctx, data, &(kf_text_options){.per_class = 1}, &numbered));
  assert_ok(p->ctx, kf_text_match(p->ctx, same, "training data", names, K));
  assert_error(p->ctx, KF_ERR_DATA, "no class of the text ('c08', ...)",
               kf_text_match(p->ctx, others, "training data", names, K));
  assert_error(p->ctx, KF_ERR_DATA,
               "the classes of training data have names, those of the text only numbers",
               kf_text_match(p->ctx, numbered, "training data", names, K));
  assert_int_equal(kf_errhint(p->ctx), KF_HINT_CLASSES);
  assert_error(p->ctx, KF_ERR_DATA,
               "the classes of the text have names, those of training data only numbers",
               kf_text_match(p->ctx, same, "training data", &none, K));
  assert_ok(p->ctx, kf_text_match(p->ctx, numbered, "training data", &none, K - 1));
  assert_error(p->ctx, KF_ERR_DATA, "the text has 7 classes, training data 8",
               kf_text_match(p->ctx, numbered, "training data", &none, K));
}
