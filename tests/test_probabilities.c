/* test_probabilities.c - probabilities of classes, how far they can be trusted, and the rows that
 * went wrong: against plain sums over all classes, with the same bits everywhere. */
#include "world.h"

#include "search/index.h"

AUTO_OBJECT(kf_prototypes)

enum { N = 300, D = 12, K = 7 };
#define T 9.5

typedef struct problem {
  kf_ctx *ctx;
  world w;
  kf_data *data;
  kf_model *model;
} problem;

static problem make_problem(unsigned threads, kf_isa isa, int raw) {
  problem p = {.ctx = test_ctx(threads, isa), .w = make_world(N, D, K, 1, 5)};
  AUTO(kf_stats) *s = stats_of(p.ctx, &p.w, raw);
  p.model = fit(p.ctx, s, 0.3, 0);
  p.model->temperature = raw ? 0.01 : T;
  assert_ok(p.ctx, kf_data_open_memory(p.ctx, p.w.rows, N, D, p.w.labels, NULL, K, &p.data));
  return p;
}

static void clear_problem(problem *p) {
  kf_model_free(p->model);
  kf_data_free(p->data);
  free_world(&p->w);
  kf_ctx_free(p->ctx);
}
AUTO_STRUCT(problem, clear_problem)

/* Classes, scores and probabilities by the definition. */
static void by_hand(const problem *p, int raw, const double *scores, double *out) {
  double sum = 0;
  for (int k = 0; k < K; k++) {
    double s = raw ? -0.5 * scores[k] * scores[k] : scores[k];
    double best = raw ? -0.5 * scores[0] * scores[0] : scores[0];
    out[k] = exp(p->model->temperature * (s - best));
    sum += out[k];
  }
  for (int k = 0; k < K; k++) out[k] /= sum;
}

/* Prototypes that are the rows of the model are not copied; of some classes, or at other lengths,
 * they are made, in the order of the classes. */
TEST(prototypes_are_not_copied) {
  for (int raw = 0; raw < 2; raw++) {
    AUTO(problem) p = make_problem(2, KF_ISA_AUTO, raw);
    AUTO(kf_prototypes) *all = NULL, *some = NULL;
    unsigned char mask[K];
    for (int k = 0; k < K; k++) mask[k] = k != 2 && k != 5;
    assert_ok(p.ctx, kf_prototypes_new(p.ctx, p.model, KF_METRIC_DEFAULT, false, KF_PART_DEFAULT,
                                       NULL, &all));
    assert_ok(p.ctx, kf_prototypes_new(p.ctx, p.model, KF_METRIC_DEFAULT, false, KF_PART_DEFAULT,
                                       mask, &some));
    assert_int_equal(all->n, K);
    assert_int_equal(some->n, K - 2);
    if (raw)
      assert_ptr_not_equal(all->index->rows, p.model->prototypes);
    else
      assert_ptr_equal(all->index->rows, p.model->prototypes);
    for (uint32_t i = 0, k = 0; i < some->n; i++, k++) {
      while (!mask[k]) k++;
      assert_int_equal(some->ids[i], k);
      assert_memory_equal(some->index->rows + i * some->dim, all->index->rows + k * all->dim,
                          all->dim * sizeof(float));
    }
  }
}

/* A classifier answers call after call as one call does, whatever the rows of a call; no rows are
 * fine, but a missing argument is an error. */
TEST(in_many_calls) {
  static double scores[N * K], got[N * K], want[N * K], odds[N * K], want_odds[N * K];
  static int32_t classes[N * K], want_classes[N * K];
  for (int raw = 0; raw < 2; raw++) {
    AUTO(problem) p = make_problem(2, KF_ISA_AUTO, raw);
    kf_classify_options all = {.top = K};
    kf_classifier *c;
    assert_ok(p.ctx, kf_classifier_new(p.ctx, p.model, &all, &c));
    assert_ok(p.ctx, kf_classify_probabilities(p.ctx, p.model, p.w.rows, N, &all, want_classes,
                                               want, want_odds));
    for (int first = 0, n = 1; first < N; first += n, n += 5) {
      uint64_t count = (uint64_t)(N - first < n ? N - first : n);
      const float *rows = p.w.rows + first * D;
      assert_ok(p.ctx, kf_classifier_classify(p.ctx, c, rows, count, classes + first * K,
                                              scores + first * K));
      assert_ok(p.ctx, kf_classifier_probabilities(p.ctx, c, rows, count, classes + first * K,
                                                   got + first * K, odds + first * K));
    }
    assert_memory_equal(classes, want_classes, sizeof classes);
    assert_memory_equal(scores, want, sizeof want);
    assert_memory_equal(got, want, sizeof want);
    assert_memory_equal(odds, want_odds, sizeof odds);
    assert_ok(p.ctx, kf_classifier_classify(p.ctx, c, NULL, 0, NULL, NULL));
    assert_error(p.ctx, KF_ERR_ARG, "NULL",
                 kf_classifier_classify(p.ctx, c, p.w.rows, 1, NULL, scores));
    assert_error(p.ctx, KF_ERR_ARG, "NULL",
                 kf_classifier_probabilities(p.ctx, NULL, p.w.rows, 1, classes, scores, odds));
    kf_classifier_free(c);
    all.top = K + 1;
    assert_error(p.ctx, KF_ERR_ARG, "take part", kf_classifier_new(p.ctx, p.model, &all, &c));
    assert_null(c);
    kf_classifier_free(NULL);
  }
}

TEST(as_defined) {
  static double scores[N * K], plain[N * K], got[N * K], first[N * K], want[K];
  static int32_t classes[N * K], alone[N * K];
  static const struct {
    unsigned threads;
    kf_isa isa;
  } ways[] = {{1, KF_ISA_PLAIN}, {3, KF_ISA_AVX2}, {2, KF_ISA_AVX512}, {1, KF_ISA_AUTO}};
  for (int raw = 0; raw < 2; raw++)
    for (size_t way = 0; way < sizeof ways / sizeof *ways; way++) {
      if (!test_has_isa(ways[way].isa)) continue;
      AUTO(problem) p = make_problem(ways[way].threads, ways[way].isa, raw);
      kf_classify_options all = {.top = K};
      assert_ok(p.ctx,
                kf_classify_probabilities(p.ctx, p.model, p.w.rows, N, &all, classes, scores, got));
      assert_ok(p.ctx, kf_classify(p.ctx, p.model, p.w.rows, N, &all, alone, plain));
      assert_memory_equal(classes, alone, sizeof alone);
      assert_memory_equal(scores, plain, sizeof plain);
      for (int i = 0; i < N; i++) {
        double sum = 0;
        by_hand(&p, raw, scores + i * K, want);
        for (int k = 0; k < K; k++) {
          assert_true(fabs(got[i * K + k] - want[k]) < 1e-12);
          assert_true(k == 0 || got[i * K + k] <= got[i * K + k - 1]);
          sum += got[i * K + k];
        }
        assert_true(fabs(sum - 1) < 1e-14);
      }
      if (way == 0) memcpy(first, got, sizeof got);
      assert_memory_equal(first, got, sizeof got);
      /* Fewer answers have the same probabilities; scores may be left out. */
      all.top = 2;
      assert_ok(p.ctx,
                kf_classify_probabilities(p.ctx, p.model, p.w.rows, N, &all, alone, NULL, plain));
      for (int i = 0; i < 2 * N; i++) assert_true(plain[i] == got[i / 2 * K + i % 2]);
    }
}

/* A row that cannot be classified is named, whichever task has it; options count without rows. */
TEST(bad_rows) {
  static const float bad[] = {NAN, INFINITY, 0};
  static const char *const causes[] = {"has a NaN or an infinity", "has a NaN or an infinity",
                                       "is zero"};
  AUTO(problem) p = make_problem(2, KF_ISA_AUTO, 0);
  int32_t classes[N];
  double scores[N], probabilities[N];
  for (int i = 0; i < 3; i++) {
    AUTOFREE float *rows = malloc(sizeof *rows * N * D);
    memcpy(rows, p.w.rows, sizeof *rows * N * D);
    for (int d = 0; d < D; d++) rows[(N - 7) * D + d] = bad[i];
    assert_error(p.ctx, KF_ERR_DATA, "row 293",
                 kf_classify(p.ctx, p.model, rows, N, NULL, classes, scores));
    assert_error(
        p.ctx, KF_ERR_DATA, causes[i],
        kf_classify_probabilities(p.ctx, p.model, rows, N, NULL, classes, scores, probabilities));
    rows[0] = NAN; /* of two, the first */
    assert_error(p.ctx, KF_ERR_DATA, "row 0 has a NaN",
                 kf_classify(p.ctx, p.model, rows, N, NULL, classes, NULL));
  }
  kf_classify_options o = {.top = K + 1};
  assert_error(p.ctx, KF_ERR_ARG, "8 nearest classes",
               kf_classify(p.ctx, p.model, NULL, 0, &o, NULL, NULL));
}

TEST(which_temperature) {
  AUTO(problem) p = make_problem(1, KF_ISA_AUTO, 0);
  double score, own, probability;
  int32_t class;
  kf_classify_options o = {0};
  assert_ok(p.ctx,
            kf_classify_probabilities(p.ctx, p.model, p.w.rows, 1, &o, &class, &score, &own));
  o.temperature = 2 * T; /* sharper */
  assert_ok(p.ctx, kf_classify_probabilities(p.ctx, p.model, p.w.rows, 1, &o, &class, &score,
                                             &probability));
  assert_true(probability > own);
  o.metric = KF_METRIC_EUCLIDEAN; /* any metric, if it is given */
  assert_ok(p.ctx, kf_classify_probabilities(p.ctx, p.model, p.w.rows, 1, &o, &class, &score,
                                             &probability));
  o.temperature = 0;
  assert_error(
      p.ctx, KF_ERR_ARG, "not of these scores",
      kf_classify_probabilities(p.ctx, p.model, p.w.rows, 1, &o, &class, &score, &probability));
  assert_int_equal(kf_errhint(p.ctx), KF_HINT_TEMPERATURE);
  o = (kf_classify_options){.raw = 1};
  assert_error(
      p.ctx, KF_ERR_ARG, "not of these scores",
      kf_classify_probabilities(p.ctx, p.model, p.w.rows, 1, &o, &class, &score, &probability));
  o = (kf_classify_options){.temperature = -1};
  assert_error(
      p.ctx, KF_ERR_ARG, "the temperature is -1",
      kf_classify_probabilities(p.ctx, p.model, p.w.rows, 1, &o, &class, &score, &probability));
  p.model->temperature = 0;
  assert_error(
      p.ctx, KF_ERR_ARG, "the model has no temperature",
      kf_classify_probabilities(p.ctx, p.model, p.w.rows, 1, NULL, &class, &score, &probability));
  assert_int_equal(kf_errhint(p.ctx), KF_HINT_TEMPERATURE);
  kf_calibration *c;
  assert_error(p.ctx, KF_ERR_ARG, "the model has no temperature",
               kf_calibration_new(p.ctx, p.model, p.data, NULL, &c));
  AUTO(kf_analysis) *a = NULL; /* goes on without */
  assert_ok(p.ctx, kf_analysis_new(p.ctx, p.model, p.data, NULL, &a));
  assert_null(a->calibration);
}

/* Extreme temperatures: nothing but finite numbers, and a calibration that is as wrong as it is. */
TEST(extremes) {
  AUTO(problem) p = make_problem(2, KF_ISA_AUTO, 0);
  static const double t[] = {1e-9, 1e3, 1e12};
  for (int i = 0; i < 3; i++) {
    AUTO(kf_calibration) *c = NULL;
    kf_analysis_options o = {.temperature = t[i]};
    assert_ok(p.ctx, kf_calibration_new(p.ctx, p.model, p.data, &o, &c));
    double accuracy = (double)c->totals.top1 / N;
    assert_true(isfinite(c->nll) && c->nll >= 0 && c->brier >= 0 && c->brier <= 2);
    if (i == 0) assert_true(fabs(c->nll - log(K)) < 1e-6 && fabs(c->confidence - 1.0 / K) < 1e-6);
    if (i == 2) assert_true(fabs(c->ece - (1 - accuracy)) < 1e-9 && c->bins[14].n == N);
  }
}

typedef struct figures {
  double nll, brier, ece;
  uint64_t n[KF_CALIBRATION_BINS], top1[KF_CALIBRATION_BINS];
  double confidence[KF_CALIBRATION_BINS];
} figures;

static figures count_by_hand(const problem *p, const double *probabilities,
                             const int32_t *classes) {
  figures f = {0};
  for (int i = 0; i < N; i++) {
    const double *q = probabilities + i * K;
    for (int k = 0; k < K; k++) {
      int right = classes[i * K + k] == p->w.labels[i];
      if (right) f.nll -= log(q[k]) / N;
      f.brier += (q[k] - right) * (q[k] - right) / N;
    }
    int bin = (int)ceil(q[0] * 15) - 1;
    f.n[bin]++;
    f.top1[bin] += classes[i * K] == p->w.labels[i];
    f.confidence[bin] += q[0];
  }
  for (int b = 0; b < 15; b++) f.ece += fabs((double)f.top1[b] - f.confidence[b]) / N;
  return f;
}

TEST(calibration) {
  static double scores[N * K], q[N * K];
  static int32_t classes[N * K];
  AUTO(kf_calibration) *first = NULL;
  for (unsigned threads = 1; threads <= 4; threads++) {
    AUTO(problem) p = make_problem(threads, KF_ISA_AUTO, 0);
    kf_calibration *c;
    kf_classify_options all = {.top = K};
    assert_ok(p.ctx, kf_calibration_new(p.ctx, p.model, p.data, NULL, &c));
    assert_ok(p.ctx,
              kf_classify_probabilities(p.ctx, p.model, p.w.rows, N, &all, classes, scores, q));
    figures f = count_by_hand(&p, q, classes);
    assert_true(fabs(c->nll - f.nll) < 1e-11 && fabs(c->brier - f.brier) < 1e-11);
    assert_true(fabs(c->ece - f.ece) < 1e-11 && c->temperature == T);
    assert_true(c->ece > 0 && c->totals.n == N && c->totals.top1 > 0 && c->totals.top1 < N);
    uint64_t n = 0;
    for (int b = 0; b < 15; b++) {
      assert_int_equal(c->bins[b].n, f.n[b]);
      assert_int_equal(c->bins[b].top1, f.top1[b]);
      if (f.n[b] > 0)
        assert_true(fabs(c->bins[b].confidence - f.confidence[b] / (double)f.n[b]) < 1e-11);
      n += c->bins[b].n;
    }
    assert_int_equal(n, N);
    kf_eval_result r;
    assert_ok(p.ctx, kf_eval(p.ctx, p.model, p.data, NULL, &r));
    assert_true(r.top1 == c->totals.top1 && r.top5 == c->totals.top5);
    kf_analysis *a; /* the same pass with errors by class */
    assert_ok(p.ctx, kf_analysis_new(p.ctx, p.model, p.data, NULL, &a));
    assert_memory_equal(a->calibration, c, sizeof *c);
    assert_int_equal(a->n_mistakes, 0);
    kf_analysis_free(a);
    if (first == NULL)
      first = c;
    else
      assert_memory_equal(first, c, sizeof *c); /* whatever the threads */
    if (first != c) kf_calibration_free(c);
  }
}

/* The edges of bins belong to the bin below: (0, 1/15], (1/15, 2/15], … With two equal scores the
 * probability is 1/2, in the eighth; with three it is 1/3, the upper end of the fifth. */
TEST(edges_of_bins) {
  for (uint32_t k = 2; k <= 3; k++) {
    AUTO(kf_ctx) *ctx = test_ctx(1, KF_ISA_AUTO);
    float rows[6][4] = {{1, 0, 0, 0.1f}, {0, 1, 0, 0.1f}, {0, 0, 1, 0.1f},
                        {1, 0, 0, 0.2f}, {0, 1, 0, 0.2f}, {0, 0, 1, 0.2f}};
    int32_t labels[6] = {0, 1, 2, 0, 1, 2}, one = 0;
    float same[4] = {1, 1, 1, 1};
    if (k == 2) same[2] = 0;
    AUTO(kf_stats) *s = NULL;
    AUTO(kf_model) *m = NULL;
    AUTO(kf_data) *data = NULL;
    AUTO(kf_calibration) *c = NULL;
    for (int i = 0; i < 6; i++)
      if (labels[i] >= (int32_t)k) labels[i] = KF_LABEL_NONE;
    assert_ok(ctx, kf_stats_new(ctx, 4, k, NULL, NULL, &s));
    assert_ok(ctx, kf_stats_add(ctx, s, rows[0], labels, 6));
    m = fit(ctx, s, 1, 0);
    assert_ok(ctx, kf_data_open_memory(ctx, same, 1, 4, &one, NULL, k, &data));
    kf_analysis_options o = {.temperature = 1e-12}; /* all classes are alike */
    assert_ok(ctx, kf_calibration_new(ctx, m, data, &o, &c));
    assert_int_equal(c->bins[k == 2 ? 7 : 4].n, 1);
  }
}

/* Several right classes of a row count as one. */
TEST(several_right) {
  AUTO(problem) p = make_problem(1, KF_ISA_AUTO, 0);
  static double scores[N * K], q[N * K];
  static int32_t classes[N * K];
  const char *folder = test_folder(), *path = test_path(folder, "truth.txt");
  FILE *file = fopen(path, "w");
  for (int i = 0; i < N; i++) fprintf(file, "%d,%d\n", i % K, (i + 2) % K);
  fclose(file);
  AUTO(kf_truth) *truth = NULL;
  AUTO(kf_calibration) *c = NULL;
  assert_ok(p.ctx, kf_truth_load(p.ctx, path, NULL, &truth));
  assert_ok(p.ctx,
            kf_calibration_new(p.ctx, p.model, p.data, &(kf_analysis_options){.truth = truth}, &c));
  assert_ok(p.ctx, kf_classify_probabilities(p.ctx, p.model, p.w.rows, N,
                                             &(kf_classify_options){.top = K}, classes, scores, q));
  double nll = 0, brier = 0;
  for (int i = 0; i < N; i++) {
    double right = 0;
    for (int k = 0; k < K; k++) {
      int class = classes[i * K + k], is = class == i % K || class == (i + 2) % K;
      right += is ? q[i * K + k] : 0;
      brier += is ? 0 : q[i * K + k] * q[i * K + k] / N;
    }
    brier += (1 - right) * (1 - right) / N;
    nll -= log(right) / N;
  }
  assert_true(fabs(c->nll - nll) < 1e-11 && fabs(c->brier - brier) < 1e-11);
  test_remove(folder);
}

TEST(mistakes) {
  static double scores[N * 2], q[N * 2];
  static int32_t classes[N * 2];
  for (unsigned threads = 1; threads <= 3; threads += 2) {
    AUTO(problem) p = make_problem(threads, KF_ISA_AUTO, 0);
    kf_analysis_options o = {.mistakes = 1};
    kf_classify_options two = {.top = 2};
    kf_analysis *a;
    assert_ok(p.ctx, kf_analysis_new(p.ctx, p.model, p.data, &o, &a));
    assert_ok(p.ctx,
              kf_classify_probabilities(p.ctx, p.model, p.w.rows, N, &two, classes, scores, q));
    size_t at = 0;
    for (int i = 0; i < N; i++) {
      if (classes[2 * i] == p.w.labels[i]) continue;
      assert_true(at < a->n_mistakes);
      const kf_mistake *m = &a->mistakes[at++];
      assert_int_equal(m->row, i);
      assert_true(m->truth == p.w.labels[i] && m->answer == classes[2 * i]);
      assert_true(m->score == scores[2 * i] && m->probability == q[2 * i]);
      assert_true(m->margin == scores[2 * i] - scores[2 * i + 1]);
      assert_true(m->right_probability > 0 && m->right_probability <= m->probability);
    }
    assert_true(at > 0 && at == a->n_mistakes && at == N - a->totals.top1);
    kf_analysis_free(a);
    p.model->temperature = 0;
    assert_ok(p.ctx, kf_analysis_new(p.ctx, p.model, p.data, &o, &a));
    assert_int_equal(a->n_mistakes, at);
    assert_true(isnan(a->mistakes[0].probability) && isnan(a->mistakes[0].right_probability));
    kf_analysis_free(a);
  }
}

TEST(known_rows) {
  kf_model *m;
  AUTO(problem) p = make_problem(1, KF_ISA_AUTO, 0), far = make_problem(1, KF_ISA_AUTO, 1);
  m = p.model;
  assert_int_equal(kf_model_knows(m, -2), 1); /* no threshold */
  m->reject = 0.25;
  m->reject_share = 0.95;
  assert_int_equal(kf_model_knows(m, 0.25), 1);
  assert_int_equal(kf_model_knows(m, 0.2499), 0);
  m = far.model; /* distances: the other way round */
  m->reject = 3;
  m->reject_share = 0.95;
  assert_int_equal(kf_model_knows(m, 3), 1);
  assert_int_equal(kf_model_knows(m, 3.001), 0);
}

/* Fewer dimensions have a temperature of their own, which suits rows that the fit has not seen, and
 * has the same bits whatever the threads. */
TEST(fewer_dimensions) {
  enum { ROWS = 1500, TRAIN = 400, DIM = 40, CLASSES = 6 };
  AUTO(world) w = make_world(ROWS, DIM, CLASSES, 2, 3);
  for (int raw = 0; raw < 2; raw++) {
    double first = 0;
    for (unsigned threads = 1; threads <= 3; threads++) {
      AUTO(kf_ctx) *ctx = test_ctx(threads, threads == 1 ? KF_ISA_PLAIN : KF_ISA_AUTO);
      AUTO(kf_data) *train = NULL, *test = NULL;
      AUTO(kf_model) *all = NULL, *m = NULL;
      assert_ok(ctx, kf_data_open_memory(ctx, w.rows, TRAIN, DIM, w.labels, NULL, CLASSES, &train));
      assert_ok(ctx, kf_data_open_memory(ctx, w.rows + TRAIN * DIM, ROWS - TRAIN, DIM,
                                         w.labels + TRAIN, NULL, CLASSES, &test));
      kf_fit_options o = {.lambda = {1, KF_LAMBDA_RELATIVE},
                          .stats_options = {.normalize = raw ? KF_OFF : KF_ON}};
      assert_ok(ctx, kf_fit(ctx, train, &o, &all, NULL));
      o.dim = CLASSES - 1;
      assert_ok(ctx, kf_fit(ctx, train, &o, &m, NULL));
      double own = kf_model_temperature(m), loss[4];
      const double tried[4] = {own, own * 1.6, own / 1.6, kf_model_temperature(all)};
      if (threads == 1) first = own;
      assert_true(own == first);
      for (int i = 0; i < 4; i++) {
        AUTO(kf_calibration) *c = NULL;
        kf_analysis_options by = {.temperature = tried[i]};
        assert_ok(ctx, kf_calibration_new(ctx, m, test, &by, &c));
        loss[i] = c->nll;
      }
      assert_true(loss[0] < loss[2]);
      if (!raw) assert_true(loss[0] < loss[1]); /* distances may be at the limit */
      assert_true(raw ? loss[0] < 1.05 * loss[3] : loss[0] < 0.95 * loss[3]);
    }
  }
}

/* --- so many classes that scores are sums in f32 ---------------------------------------------- */

enum { MANY = 4500, MANY_D = 16, MANY_EACH = 5, MANY_N = 150 }; /* MANY_N: no multiple of a batch */

static world many_world(void) { return make_world(MANY * MANY_EACH, MANY_D, MANY, 1, 11); }

/* Softmax of the canonical scores, to the bound in probabilities.c; the same bits everywhere. */
TEST(many_classes) {
  enum { TOP = 7 };
  const double temperature = 40, bound = 2 * temperature * (MANY_D + 2) * 0x1p-24;
  static double scores[MANY_N * MANY], got[MANY_N * TOP], first[MANY_N * TOP];
  static int32_t classes[MANY_N * MANY], best[MANY_N * TOP];
  AUTO(world) w = many_world();
  for (unsigned threads = 1; threads <= 3; threads++) {
    AUTO(kf_ctx) *ctx = test_ctx(threads, threads == 1 ? KF_ISA_PLAIN : KF_ISA_AUTO);
    AUTO(kf_stats) *stats = stats_of(ctx, &w, 0);
    AUTO(kf_model) *model = fit(ctx, stats, 0.3, 0);
    kf_classify_options some = {.top = TOP, .temperature = temperature}, all = {.top = MANY};
    assert_ok(ctx, kf_classify_probabilities(ctx, model, w.rows, MANY_N, &some, best, NULL, got));
    if (threads == 1) {
      memcpy(first, got, sizeof got);
      assert_ok(ctx, kf_classify(ctx, model, w.rows, MANY_N, &all, classes, scores));
    }
    assert_memory_equal(got, first, sizeof got);
  }
  for (int i = 0; i < MANY_N; i++) {
    const double *s = scores + (size_t)i * MANY;
    double sum = 0;
    for (int k = 0; k < MANY; k++) sum += exp(temperature * (s[k] - s[0]));
    for (int k = 0; k < TOP; k++) {
      double want = exp(temperature * (s[k] - s[0])) / sum, p = got[i * TOP + k];
      assert_int_equal(best[i * TOP + k], classes[(size_t)i * MANY + (size_t)k]);
      assert_true(fabs(p - want) <= bound * want);
      assert_true(k == 0 || p <= got[i * TOP + k - 1]);
    }
  }
}

/* Fewer dimensions: some rows of one fold find about the temperature that many rows of all find.
 * Each class has as many rows as there are folds, so a row in each. */
TEST(many_classes_fewer_dimensions) {
  AUTO(world) w = many_world();
  double found[3];
  for (int way = 0; way < 3; way++) {
    AUTO(kf_ctx) *ctx = test_ctx(way == 2 ? 1 : 2, way == 2 ? KF_ISA_PLAIN : KF_ISA_AUTO);
    AUTO(kf_data) *data = NULL;
    AUTO(kf_model) *model = NULL;
    kf_fit_options o = {
        .lambda = {1, KF_LAMBDA_RELATIVE}, .dim = MANY_D / 2, .sample = way == 1 ? 2000 : 0};
    assert_ok(ctx, kf_data_open_memory(ctx, w.rows, w.n, MANY_D, w.labels, NULL, MANY, &data));
    assert_ok(ctx, kf_fit(ctx, data, &o, &model, NULL));
    found[way] = kf_model_temperature(model);
  }
  assert_true(found[2] == found[0]);
  assert_true(found[0] > 0 && fabs(found[0] / found[1] - 1) < 0.15);
}
