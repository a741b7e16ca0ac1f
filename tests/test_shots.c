/* test_shots.c - few-shot curves: the draws, and that every point equals the same steps by hand on
 * a copy of the drawn rows. */
#include "world.h"

#include "choose/choose.h"

enum { D = 16, K = 9, N = 180, TEST = 90, FEW = 3 };

typedef struct problem {
  kf_ctx *ctx;
  world w, t;
  kf_data *train, *test;
  kf_text *text;
} problem;

/* Classes of 20 rows each; of the last, all but FEW are unlabelled. */
static problem make_problem(unsigned threads, kf_isa isa) {
  problem p = {.ctx = test_ctx(threads, isa), .w = make_world(N + TEST, D, K, 1, 71)};
  p.t = make_world(K, D, K, 1, 71); /* one row of each class stands for text */
  for (int i = 0, seen = 0; i < N; i++)
    if (p.w.labels[i] == K - 1 && ++seen > FEW) p.w.labels[i] = KF_LABEL_NONE;
  assert_ok(p.ctx, kf_data_open_memory(p.ctx, p.w.rows, N, D, p.w.labels, NULL, K, &p.train));
  assert_ok(p.ctx, kf_data_open_memory(p.ctx, p.w.rows + N * D, TEST, D, p.w.labels + N, NULL, K,
                                       &p.test));
  AUTO(kf_data) *rows = NULL;
  assert_ok(p.ctx, kf_data_open_memory(p.ctx, p.t.rows, K, D, NULL, NULL, 0, &rows));
  assert_ok(p.ctx, kf_text_new(p.ctx, rows, &(kf_text_options){.per_class = 1}, &p.text));
  return p;
}

static void clear_problem(problem *p) {
  kf_text_free(p->text);
  kf_data_free(p->train);
  kf_data_free(p->test);
  kf_ctx_free(p->ctx);
  free_world(&p->w);
  free_world(&p->t);
}
AUTO_STRUCT(problem, clear_problem)

/* --- drawing ---------------------------------------------------------------------------------- */

static kf_row_list all_rows(problem *p) {
  kf_row_list all;
  uint64_t labelled;
  assert_ok(p->ctx, kf_sample_rows(p->ctx, p->train, UINT64_MAX, &all, &labelled));
  assert_int_equal(all.n, (K - 1) * 20 + FEW);
  return all;
}

static int holds(const kf_row_list *rows, uint64_t row) {
  for (uint64_t i = 0; i < rows->n; i++)
    if (rows->row[i] == row) return 1;
  return 0;
}

TEST(drawing) {
  AUTO(problem) p = make_problem(1, KF_ISA_AUTO);
  kf_row_list all = all_rows(&p);
  for (uint64_t seed = 0; seed < 5; seed++) {
    kf_row_list before = {0};
    for (uint32_t shots = 1; shots <= 25; shots++) {
      kf_row_list rows;
      uint32_t count[K] = {0};
      assert_ok(p.ctx, kf_draw_rows(&all, seed, shots, &rows, &p.ctx->err));
      for (uint64_t i = 0; i < rows.n; i++) {
        assert_true(i == 0 || rows.row[i] > rows.row[i - 1]);
        assert_int_equal(rows.label[i], p.w.labels[rows.row[i]]);
        count[rows.label[i]]++;
      }
      for (uint32_t k = 0; k < K; k++) {
        uint32_t there = k == K - 1 ? FEW : 20;
        assert_int_equal(count[k], shots < there ? shots : there);
      }
      for (uint64_t i = 0; i < before.n; i++) assert_true(holds(&rows, before.row[i])); /* nested */
      kf_row_list_clear(&before);
      before = rows;
    }
    kf_row_list_clear(&before);
  }
  kf_row_list_clear(&all);
}

/* Every row of a class is drawn about as often as any other, and seeds differ. The rows of seed
 * 0 are written down: they must be the same on every machine. */
TEST(chances) {
  enum { SEEDS = 2000 };
  AUTO(problem) p = make_problem(1, KF_ISA_AUTO);
  kf_row_list all = all_rows(&p);
  uint32_t drawn[N] = {0};
  uint64_t first[K - 1] = {0};
  int other = 0;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    kf_row_list rows;
    assert_ok(p.ctx, kf_draw_rows(&all, seed, 2, &rows, &p.ctx->err));
    for (uint64_t i = 0; i < rows.n; i++) drawn[rows.row[i]]++;
    if (seed == 0) memcpy(first, rows.row, sizeof first);
    other += memcmp(first, rows.row, sizeof first) != 0;
    kf_row_list_clear(&rows);
  }
  assert_int_equal(other, SEEDS - 1);
  for (int i = 0; i < N; i++) /* 200 expected, six standard deviations are 80 */
    if (p.w.labels[i] >= 0 && p.w.labels[i] < K - 1) assert_in_range(drawn[i], 120, 280);
  static const uint64_t written[K - 1] = {5, 8, 12, 26, 39, 47, 51, 59};
  assert_memory_equal(first, written, sizeof first);
  kf_row_list_clear(&all);
}

/* --- points ----------------------------------------------------------------------------------- */

static const uint32_t some_shots[] = {1, 2, 5, 40};
enum { SIZES = 4, SEEDS = 2 };

static void same_point(const kf_shots_point *p, uint64_t n, uint64_t top1, uint64_t top5,
                       double lambda, double alpha) {
  assert_int_equal(p->n, n);
  assert_int_equal(p->top1, top1);
  assert_int_equal(p->top5, top5);
  assert_true(p->lambda == lambda && p->alpha == alpha);
}

static void by_hand(problem *p, const kf_shots *s, size_t size, uint32_t seed) {
  kf_ctx *ctx = p->ctx;
  kf_row_list all = all_rows(p), rows;
  assert_ok(ctx, kf_draw_rows(&all, seed, some_shots[size], &rows, &ctx->err));
  AUTOFREE float *copy = malloc(rows.n * D * sizeof *copy);
  for (uint64_t i = 0; i < rows.n; i++)
    memcpy(copy + i * D, p->w.rows + rows.row[i] * D, D * sizeof *copy);
  AUTO(kf_data) *data = NULL;
  AUTO(kf_stats) *stats = NULL;
  AUTO(kf_model) *model = NULL, *centred = NULL, *fused = NULL;
  kf_eval_result r;
  assert_ok(ctx, kf_data_open_memory(ctx, copy, rows.n, D, rows.label, NULL, K, &data));
  assert_ok(ctx, kf_stats_new_from_data(ctx, data, NULL, &stats));
  kf_fit_options fit = {.method = KF_METHOD_PAPER, .lambda = {1, KF_LAMBDA_ABSOLUTE}};
  if (some_shots[size] > 1) {
    AUTO(kf_lambda_choice) *c = NULL;
    assert_ok(ctx, kf_lambda_choice_new(ctx, stats, data,
                                        &(kf_lambda_options){.method = KF_METHOD_PAPER}, &c));
    fit.lambda.value = c->lambda;
  }
  assert_ok(ctx, kf_fit_stats(ctx, stats, &fit, &model));
  assert_ok(ctx, kf_eval(ctx, model, p->test, NULL, &r));
  same_point(kf_shots_at(s, size, seed, KF_SHOTS_RAW), r.n, r.raw_top1, r.raw_top5, 0, 0);
  same_point(kf_shots_at(s, size, seed, KF_SHOTS_KOOFU), r.n, r.top1, r.top5, fit.lambda.value, 0);
  AUTO(kf_fuse_choice) *c = NULL;
  fit.centre = KF_CENTRE_MEAN;
  assert_ok(ctx, kf_fuse_choice_new(
                     ctx, stats, data, p->text,
                     &(kf_fuse_options){.method = KF_METHOD_PAPER, .centre = KF_CENTRE_MEAN}, &c));
  fit.lambda.value = c->lambda;
  assert_ok(ctx, kf_fit_stats(ctx, stats, &fit, &centred));
  assert_ok(ctx, kf_model_new_fused(ctx, centred, p->text, c->alpha, &fused));
  assert_ok(ctx, kf_eval(ctx, fused, p->test, &(kf_eval_options){.part = KF_PART_TEXT}, &r));
  same_point(kf_shots_at(s, size, seed, KF_SHOTS_TEXT), r.n, r.top1, r.top5, 0, 0);
  assert_ok(ctx, kf_eval(ctx, fused, p->test, NULL, &r));
  same_point(kf_shots_at(s, size, seed, KF_SHOTS_FUSED), r.n, r.top1, r.top5, c->lambda, c->alpha);
  kf_row_list_clear(&all);
  kf_row_list_clear(&rows);
}

static kf_shots *curves(problem *p, const kf_text *text) {
  kf_shots *s;
  kf_shots_options options = {
      .method = KF_METHOD_PAPER, .shots = some_shots, .n_shots = SIZES, .seeds = SEEDS};
  assert_ok(p->ctx, kf_shots_new(p->ctx, p->train, p->test, text, &options, &s));
  return s;
}

TEST(points) {
  AUTO(problem) p = make_problem(2, KF_ISA_AUTO);
  AUTO(kf_shots) *s = curves(&p, p.text), *without = curves(&p, NULL);
  assert_int_equal(s->n_points, SIZES * SEEDS * 4);
  assert_int_equal(s->classes, K);
  assert_int_equal(s->most, 20);
  static const uint64_t rows[SIZES] = {K, 2 * K, 5 * (K - 1) + FEW, 20 * (K - 1) + FEW};
  static const uint32_t fewer[SIZES] = {0, 0, 1, K};
  for (size_t i = 0; i < SIZES; i++) {
    assert_int_equal(s->sizes[i].rows, rows[i]);
    assert_int_equal(s->sizes[i].fewer, fewer[i]);
    for (uint32_t seed = 0; seed < SEEDS; seed++) {
      by_hand(&p, s, i, seed);
      for (int c = 0; c < KF_SHOTS_CLASSIFIERS; c++) {
        const kf_shots_point *a = kf_shots_at(s, i, seed, (kf_shots_classifier)c);
        const kf_shots_point *b = kf_shots_at(without, i, seed, (kf_shots_classifier)c);
        assert_true(a->shots == some_shots[i] && a->seed == seed && (int)a->classifier == c);
        assert_int_equal(b != NULL, c < KF_SHOTS_TEXT);
        if (b != NULL) assert_memory_equal(a, b, sizeof *a);
      }
    }
  }
}

/* The same for every instruction set and number of threads. */
TEST(same_everywhere) {
  AUTO(kf_shots) *first = NULL;
  for (int isa = KF_ISA_PLAIN; isa <= KF_ISA_AMX; isa++) {
    if (!test_has_isa((kf_isa)isa)) continue;
    AUTO(problem) p = make_problem((unsigned)isa, (kf_isa)isa);
    kf_shots *s = curves(&p, p.text);
    if (first == NULL) {
      first = s;
    } else {
      assert_memory_equal(s->points, first->points, s->n_points * sizeof *s->points);
      kf_shots_free(s);
    }
  }
}

/* Test rows do not influence what is chosen. */
TEST(rows_do_not_count) {
  AUTO(problem) p = make_problem(1, KF_ISA_AUTO);
  AUTO(kf_shots) *a = curves(&p, p.text);
  for (int i = 0; i < TEST * D; i++) p.w.rows[N * D + i] = p.w.rows[i];
  for (int i = 0; i < TEST; i++) p.w.labels[N + i] = (i / 2) % K;
  AUTO(kf_shots) *b = curves(&p, p.text);
  int other = 0;
  for (size_t i = 0; i < a->n_points; i++) {
    assert_memory_equal(&a->points[i].lambda, &b->points[i].lambda, sizeof(double));
    assert_memory_equal(&a->points[i].alpha, &b->points[i].alpha, sizeof(double));
    other += a->points[i].top1 != b->points[i].top1;
  }
  assert_true(other > 0);
}

/* --- over seeds, and what is refused --------------------------------------------------------- */

TEST(spread) {
  kf_shots_point points[] = {{.n = 10, .top1 = 2}, {.n = 10, .top1 = 4}, {.n = 10, .top1 = 9}};
  kf_shots_size size = {.shots = 1};
  kf_shots s = {.seeds = 3,
                .n_sizes = 1,
                .sizes = &size,
                .n_classifiers = 1,
                .n_points = 3,
                .points = points};
  kf_spread x;
  kf_shots_spread(&s, 0, KF_SHOTS_RAW, 0, &x);
  assert_true(fabs(x.mean - 0.5) < 1e-12 && x.low == 0.2 && x.high == 0.9);
  assert_true(fabs(x.deviation - sqrt(0.13)) < 1e-12); /* (0.09 + 0.01 + 0.16) / 2 */
  s.seeds = 1;
  kf_shots_spread(&s, 0, KF_SHOTS_RAW, 0, &x);
  assert_true(x.deviation == 0 && x.mean == 0.2);
  assert_null(kf_shots_at(&s, 1, 0, KF_SHOTS_RAW));
  assert_null(kf_shots_at(&s, 0, 1, KF_SHOTS_RAW));
  assert_null(kf_shots_at(&s, 0, 0, KF_SHOTS_KOOFU));
  assert_null(kf_shots_at(&s, 0, 0, (kf_shots_classifier)-1));
  kf_shots_spread(&s, 1, KF_SHOTS_RAW, 0, &x); /* there is none */
  assert_true(x.mean == 0 && x.low == 0 && x.high == 0 && x.deviation == 0);
  assert_string_equal(kf_shots_classifier_name(KF_SHOTS_FUSED), "fused");
  assert_null(kf_shots_classifier_name(KF_SHOTS_CLASSIFIERS));
}

static char said[512];
static void hear(void *user, const char *message) {
  (void)user;
  snprintf(said + strlen(said), sizeof said - strlen(said), "%s\n", message);
}

static unsigned stages, last_done;
static int watch(void *user, const char *what, uint64_t done, uint64_t total) {
  (void)user;
  stages += strcmp(what, "shots") != 0;
  assert_true(total == SIZES * SEEDS || stages > 0);
  last_done = (unsigned)done;
  return 0;
}

TEST(remarks_and_progress) {
  AUTO(problem) p = make_problem(1, KF_ISA_AUTO);
  AUTO(kf_ctx) *loud = NULL;
  AUTO(kf_shots) *s = NULL;
  kf_shots_options options = {
      .method = KF_METHOD_PAPER, .shots = some_shots, .n_shots = SIZES, .seeds = SEEDS};
  assert_ok(p.ctx, kf_ctx_new(&(kf_ctx_options){.log = hear, .progress = watch}, &loud));
  assert_ok(loud, kf_shots_new(loud, p.train, p.test, p.text, &options, &s));
  assert_int_equal(stages, 0);
  assert_int_equal(last_done, SIZES * SEEDS);
  assert_non_null(strstr(said, "1 of 9 classes have fewer than 5 rows"));
  assert_non_null(strstr(said,
                         "40 shots were asked for, but no class has more than 20 rows: all 163 "
                         "rows were taken"));
}

TEST(refused) {
  AUTO(problem) p = make_problem(1, KF_ISA_AUTO);
  AUTO(kf_data) *narrow = NULL, *bare = NULL;
  kf_shots *s = NULL;
  static const uint32_t zero[] = {0, 1}, falling[] = {4, 2};
  assert_ok(p.ctx, kf_data_open_memory(p.ctx, p.w.rows, 9, D - 1, p.w.labels, NULL, K, &narrow));
  assert_ok(p.ctx, kf_data_open_memory(p.ctx, p.w.rows, 9, D, NULL, NULL, 0, &bare));
  assert_error(p.ctx, KF_ERR_ARG, "NULL", kf_shots_new(p.ctx, p.train, NULL, NULL, NULL, &s));
  assert_error(
      p.ctx, KF_ERR_ARG, "begin above 0",
      kf_shots_new(p.ctx, p.train, p.test, NULL,
                   &(kf_shots_options){.method = KF_METHOD_PAPER, .shots = zero, .n_shots = 2},
                   &s));
  assert_error(
      p.ctx, KF_ERR_ARG, "must rise",
      kf_shots_new(p.ctx, p.train, p.test, NULL,
                   &(kf_shots_options){.method = KF_METHOD_PAPER, .shots = falling, .n_shots = 2},
                   &s));
  assert_error(
      p.ctx, KF_ERR_ARG, "empty",
      kf_shots_new(p.ctx, p.train, p.test, NULL,
                   &(kf_shots_options){.method = KF_METHOD_PAPER, .shots = zero, .n_shots = 0},
                   &s));
  assert_error(p.ctx, KF_ERR_ARG, "seeds",
               kf_shots_new(p.ctx, p.train, p.test, NULL,
                            &(kf_shots_options){.method = KF_METHOD_PAPER, .seeds = 1001}, &s));
  assert_error(p.ctx, KF_ERR_DATA, "15 columns",
               kf_shots_new(p.ctx, p.train, narrow, NULL, NULL, &s));
  assert_error(p.ctx, KF_ERR_DATA, "no labels", kf_shots_new(p.ctx, bare, p.test, NULL, NULL, &s));
  assert_int_equal(kf_errhint(p.ctx), KF_HINT_LABELS);
  kf_shots_options newer = {.method = KF_METHOD_PAPER, .reserved = {1}};
  assert_error(p.ctx, KF_ERR_ARG, "reserved space",
               kf_shots_new(p.ctx, p.train, p.test, NULL, &newer, &s));
  kf_text *fewer; /* text of eight of nine classes, without names */
  AUTO(kf_data) *rows = NULL;
  assert_ok(p.ctx, kf_data_open_memory(p.ctx, p.t.rows, K - 1, D, NULL, NULL, 0, &rows));
  assert_ok(p.ctx, kf_text_new(p.ctx, rows, &(kf_text_options){.per_class = 1}, &fewer));
  assert_error(p.ctx, KF_ERR_DATA, "the text has 8 classes, the training data 9",
               kf_shots_new(p.ctx, p.train, p.test, fewer, NULL, &s));
  kf_text_free(fewer);
  assert_null(s);
}
