/* test_device_use.c - using a model on devices: mapped rows, answers, probabilities and judgements
 * are those of the CPU, to the bit, whatever the batches, devices and faults. With the twin, or
 * with the plug-in in KOOFU_TEST_PLUGIN. */
#include "device.h"
#include "world.h"

#include "device/device.h"

/* --- problems --------------------------------------------------------------------------------- */

typedef struct problem {
  world w;
  kf_model *model;
} problem;

static problem make_problem(uint64_t n, uint32_t dim, uint32_t classes, int raw, uint32_t dim_out) {
  AUTO(kf_ctx) *cpu = device_ctx(2, "cpu");
  problem p = {.w = make_world(n, dim, classes, 1, n + dim)};
  AUTO(kf_stats) *s = stats_of(cpu, &p.w, raw);
  p.model = fit(cpu, s, 0.3, dim_out);
  p.model->temperature = raw ? 0.01 : 9.5;
  return p;
}

static void clear_problem(problem *p) {
  kf_model_free(p->model);
  free_world(&p->w);
}
AUTO_STRUCT(problem, clear_problem)

static kf_data *data_of(kf_ctx *ctx, const problem *p) {
  kf_data *data;
  assert_ok(ctx, kf_data_open_memory(ctx, p->w.rows, p->w.n, p->w.dim, p->w.labels, NULL,
                                     p->w.classes, &data));
  return data;
}

/* --- the same of both ------------------------------------------------------------------------- */

static void same_transform(kf_ctx *ctx, const problem *p, kf_switch normalize) {
  AUTO(kf_ctx) *cpu = device_ctx(1, "cpu");
  kf_transform_options o = {.normalize = normalize};
  size_t values = p->w.n * p->model->map.dim_out;
  AUTOFREE float *got = malloc(values * sizeof *got), *want = malloc(values * sizeof *want);
  assert_ok(cpu, kf_transform(cpu, p->model, p->w.rows, p->w.n, &o, want));
  assert_ok(ctx, kf_transform(ctx, p->model, p->w.rows, p->w.n, &o, got));
  assert_memory_equal(got, want, values * sizeof *got);
}

typedef struct answers {
  int32_t *classes;
  double *scores, *probabilities;
} answers;

static answers ask(kf_ctx *ctx, const problem *p, const kf_classify_options *o, kf_status *status) {
  size_t n = p->w.n * o->top;
  answers a = {.classes = malloc(n * sizeof *a.classes),
               .scores = malloc(n * sizeof *a.scores),
               .probabilities = malloc(n * sizeof *a.probabilities)};
  *status = o->temperature > 0
                ? kf_classify_probabilities(ctx, p->model, p->w.rows, p->w.n, o, a.classes,
                                            a.scores, a.probabilities)
                : kf_classify(ctx, p->model, p->w.rows, p->w.n, o, a.classes, a.scores);
  return a;
}

static void free_answers(answers *a) {
  free(a->classes);
  free(a->scores);
  free(a->probabilities);
}
AUTO_STRUCT(answers, free_answers)

static void same_answers(kf_ctx *ctx, const problem *p, const kf_classify_options *o) {
  AUTO(kf_ctx) *cpu = device_ctx(2, "cpu");
  kf_status status;
  AUTO(answers) want = ask(cpu, p, o, &status);
  assert_ok(cpu, status);
  AUTO(answers) got = ask(ctx, p, o, &status);
  assert_ok(ctx, status);
  size_t n = p->w.n * o->top;
  assert_memory_equal(got.classes, want.classes, n * sizeof *got.classes);
  assert_memory_equal(got.scores, want.scores, n * sizeof *got.scores);
  if (o->temperature > 0)
    assert_memory_equal(got.probabilities, want.probabilities, n * sizeof *got.probabilities);
}

static void same_judgement(kf_ctx *ctx, const problem *p) {
  AUTO(kf_ctx) *cpu = device_ctx(2, "cpu");
  AUTO(kf_data) *data = data_of(cpu, p);
  kf_eval_result got = {0}, want = {0};
  AUTO(kf_analysis) *a = NULL, *b = NULL;
  assert_ok(cpu, kf_eval(cpu, p->model, data, NULL, &want));
  assert_ok(ctx, kf_eval(ctx, p->model, data, NULL, &got));
  assert_memory_equal(&got, &want, sizeof got);
  kf_analysis_options o = {.mistakes = 1};
  assert_ok(cpu, kf_analysis_new(cpu, p->model, data, &o, &b));
  assert_ok(ctx, kf_analysis_new(ctx, p->model, data, &o, &a));
  assert_true(b->calibration != NULL && b->n_mistakes > 0);
  assert_memory_equal(a->calibration, b->calibration, sizeof *a->calibration);
  assert_memory_equal(a->classes, b->classes, a->n_classes * sizeof *a->classes);
  assert_int_equal(a->n_mistakes, b->n_mistakes);
  assert_memory_equal(a->mistakes, b->mistakes, a->n_mistakes * sizeof *a->mistakes);
}

/* --- right answers ---------------------------------------------------------------------------- */

TEST(transform) {
  const uint64_t rows[] = {7, 63, 64, 65, 700};
  const uint32_t dims[] = {2, 7, 16, 33};
  const kf_switch switches[] = {KF_ON, KF_OFF};
  kf_twin_state *twin = device_twin();
  bool several = device_show(2);
  for (size_t i = 0; i < 5; i++)
    for (size_t d = 0; d < 4; d++)
      for (int raw = 0; raw < 2; raw++) {
        AUTO(problem) p = make_problem(rows[i], dims[d], 3, raw, dims[d] / 2);
        const char *devices = several && d % 2 == 1 ? "cuda:1,cuda:0" : "cuda";
        AUTO(kf_ctx) *ctx = device_ctx(1 + (unsigned)d, devices);
        uint64_t before = twin != NULL ? twin->mapped : 0;
        same_transform(ctx, &p, switches[d % 2]);
        if (twin != NULL) assert_int_equal(twin->mapped - before, rows[i]);
      }
  if (twin != NULL) assert_int_equal(twin->used, 0);
}

/* The map stays on the device with the model, whichever call copied it there, with unit length and
 * without. */
TEST(map_stays) {
  kf_twin_state *twin = device_twin();
  problem p = make_problem(300, 12, 4, 0, 6);
  kf_ctx *first = device_ctx(2, "cuda"), *second = device_ctx(2, "cuda");
  same_transform(first, &p, KF_ON);
  same_transform(first, &p, KF_OFF);
  uint64_t allocations = twin != NULL ? twin->allocations : 0;
  same_transform(first, &p, KF_OFF);
  same_transform(second, &p, KF_ON);
  kf_ctx_free(first);
  same_transform(second, &p, KF_OFF);
  kf_ctx_free(second);
  if (twin != NULL) assert_true(twin->allocations == allocations && twin->used > 0);
  clear_problem(&p);
  if (twin != NULL) assert_int_equal(twin->used, 0);
}

/* Rows that are too small or too large once they are mapped go to the CPU, which can tell. */
TEST(odd_rows) {
  AUTO(problem) p = make_problem(300, 9, 3, 0, 0);
  kf_map *map = &p.model->map;
  AUTO(kf_ctx) *ctx = device_ctx(2, "cuda");
  for (int power = -600; power <= 600; power += 1200) {
    for (size_t i = 0; i < (size_t)map->dim_in * map->dim_out; i++)
      map->transform[i] = ldexp(map->transform[i], power);
    kf_map_finish(map);
    same_transform(ctx, &p, KF_ON);
    for (size_t i = 0; i < (size_t)map->dim_in * map->dim_out; i++)
      map->transform[i] = ldexp(map->transform[i], -power);
  }
  for (size_t i = 0; i < (size_t)map->dim_in * map->dim_out; i++)
    map->transform[i] = ldexp(map->transform[i], 200);
  kf_map_finish(map);
  AUTOFREE float *out = malloc(p.w.n * map->dim_out * sizeof *out);
  assert_error(ctx, KF_ERR_MATH, "overflow f32",
               kf_transform(ctx, p.model, p.w.rows, p.w.n,
                            &(kf_transform_options){.normalize = KF_OFF}, out));
}

/* Files, with bad rows, which are zeros. */
TEST(transformed_files) {
  const char *folder = test_folder();
  AUTO(problem) p = make_problem(900, 12, 4, 0, 5);
  p.w.rows[12 * 70 + 3] = NAN;
  memset(p.w.rows + 12 * 899, 0, 12 * sizeof *p.w.rows);
  char paths[2][512];
  for (int i = 0; i < 2; i++) {
    AUTO(kf_ctx) *ctx = device_ctx(3, i == 0 ? "cpu" : "cuda");
    AUTO(kf_data) *data = NULL;
    kf_array array = {.rows = p.w.rows, .n = p.w.n, .dtype = KF_F32};
    kf_array_options o = {.skip = KF_SKIP_BAD};
    assert_ok(ctx, kf_data_open_arrays(ctx, &array, 1, 12, &o, &data));
    snprintf(paths[i], sizeof paths[i], "%s", test_path(folder, i == 0 ? "a.npy" : "b.npy"));
    assert_ok(ctx, kf_transform_data(ctx, p.model, data, NULL, KF_F32, paths[i]));
  }
  assert_same_file(paths[0], paths[1]);
  test_remove(folder);
}

TEST(classify) {
  kf_twin_state *twin = device_twin();
  for (int raw = 0; raw < 2; raw++)
    for (int threads = 1; threads <= 3; threads += 2) {
      AUTO(problem) p = make_problem(500, 14, 6, raw, 0);
      AUTO(kf_ctx) *ctx = device_ctx((unsigned)threads, "cuda");
      for (uint32_t top = 1; top <= 6; top += 5) {
        same_answers(ctx, &p, &(kf_classify_options){.top = top});
        same_answers(ctx, &p, &(kf_classify_options){.top = top, .temperature = 3});
        same_answers(ctx, &p, &(kf_classify_options){.top = top, .raw = 1, .temperature = 30});
        same_answers(ctx, &p, &(kf_classify_options){.top = top, .metric = KF_METRIC_EUCLIDEAN});
      }
      p.model->prior = 0.7;
      same_answers(ctx, &p, &(kf_classify_options){.top = 2, .temperature = 3});
    }
  if (twin == NULL) return;
  assert_true(twin->mapped > 0 && twin->odds > 0 && twin->scored > 0);
  assert_int_equal(twin->used, 0);
}

/* So many classes that probabilities come from sums in f32. */
TEST(many_classes) {
  AUTO(problem) p = make_problem(8400, 6, 4200, 0, 0);
  AUTO(kf_ctx) *ctx = device_ctx(2, "cuda");
  p.w.n = 300;
  same_answers(ctx, &p, &(kf_classify_options){.top = 5, .temperature = 20});
}

/* One classifier for many calls, from contexts with the same devices, other devices or none, with
 * different temperatures. */
TEST(in_many_calls) {
  kf_twin_state *twin = device_twin();
  bool several = device_show(2);
  problem p = make_problem(400, 10, 5, 0, 0);
  const char *const devices[] = {"cuda", "cpu", several ? "cuda:1" : "cuda",
                                 several ? "cuda:0,cuda:1" : "cuda"};
  kf_ctx *ctx[4];
  kf_classifier *c;
  double want[400], got[400];
  int32_t classes[400];
  for (int i = 0; i < 4; i++) ctx[i] = device_ctx(2, devices[i]);
  assert_ok(ctx[0], kf_classifier_new(ctx[0], p.model, NULL, &c));
  assert_ok(ctx[1], kf_classifier_probabilities(ctx[1], c, p.w.rows, 400, classes, NULL, want));
  for (uint64_t first = 0, n = 1, turn = 0; first < 400; first += n, n += 7, turn++) {
    uint64_t some = 400 - first < n ? 400 - first : n;
    assert_ok(ctx[turn % 4], kf_classifier_probabilities(ctx[turn % 4], c, p.w.rows + first * 10,
                                                         some, classes + first, NULL, got + first));
  }
  assert_memory_equal(got, want, sizeof got);
  kf_classifier_free(c);
  for (int i = 0; i < 4; i++) kf_ctx_free(ctx[i]);
  clear_problem(&p);
  if (twin != NULL) assert_int_equal(twin->used, 0);
}

TEST(judge) {
  kf_twin_state *twin = device_twin();
  for (int raw = 0; raw < 2; raw++) {
    AUTO(problem) p = make_problem(700, 11, 4, raw, 0);
    AUTO(kf_ctx) *ctx = device_ctx(2, "cuda");
    same_judgement(ctx, &p);
  }
  if (twin != NULL) assert_true(twin->mapped > 0 && twin->odds > 0 && twin->scored > 0);
}

/* --- faults ----------------------------------------------------------------------------------- */

/* A context with an existing device; asked: by name. Otherwise as if chosen automatically, but for
 * any amount of work. */
static kf_ctx *open_ctx(bool asked) {
  const kf_device_list *found;
  kf_ctx *ctx = device_ctx(2, "cuda");
  assert_ok(ctx, kf_devices_find(ctx, &found));
  ctx->devices->asked = asked;
  device_n_heard = 0;
  return ctx;
}

typedef kf_status (*work_fn)(kf_ctx *ctx, const problem *p, void *out);

static kf_status map_all(kf_ctx *ctx, const problem *p, void *out) {
  return kf_transform(ctx, p->model, p->w.rows, p->w.n, NULL, out);
}

static kf_status classify_all(kf_ctx *ctx, const problem *p, void *out) {
  double *scores = out, *probabilities = scores + p->w.n;
  int32_t *classes = (int32_t *)(void *)(probabilities + p->w.n);
  kf_classify_options o = {.temperature = 5};
  return kf_classify_probabilities(ctx, p->model, p->w.rows, p->w.n, &o, classes, scores,
                                   probabilities);
}

static kf_status eval_all(kf_ctx *ctx, const problem *p, void *out) {
  AUTO(kf_calibration) *c = NULL;
  AUTO(kf_data) *data = data_of(ctx, p);
  kf_status status = kf_calibration_new(ctx, p->model, data, NULL, &c);
  if (status == KF_OK) memcpy(out, c, sizeof *c);
  return status;
}

/* What a model keeps on devices. */
static void forget(const problem *p) {
  for (int i = 0; i < 2; i++) kf_slots_forget(&p->model->on_devices[i]);
}

static const work_fn works[] = {map_all, classify_all, eval_all};

/* What a fault does to a piece of work: nothing, or an error if the device was named, or a note if
 * it was not. */
static void check_fault(const problem *p, work_fn work, bool asked, kf_ctx *ctx, const void *want,
                        void *got, size_t size, kf_status error, const char *message) {
  kf_twin_state *twin = device_twin();
  memset(got, 0, size);
  kf_status status = work(ctx, p, got);
  if (status == KF_OK) {
    assert_memory_equal(got, want, size);
  } else {
    assert_true(asked);
    assert_int_equal(status, error);
    assert_non_null(strstr(kf_errmsg(ctx), message));
  }
  if (!asked && device_n_heard > 0) assert_true(device_said(message));
  twin->lose_call = twin->fail_allocation = twin->fail_after = 0;
  if (status == KF_OK) { /* and goes on */
    assert_ok(ctx, work(ctx, p, got));
    assert_memory_equal(got, want, size);
  }
}

TEST(faults) {
  kf_twin_state *twin = device_need_twin();
  AUTO(problem) p = make_problem(300, 10, 4, 0, 0);
  size_t size = 1 << 16;
  AUTOFREE char *want = calloc(size, 1), *got = calloc(size, 1);
  for (size_t w = 0; w < 3; w++) {
    kf_ctx *cpu = device_ctx(1, "cpu");
    memset(want, 0, size);
    assert_ok(cpu, works[w](cpu, &p, want));
    kf_ctx_free(cpu);
    for (int asked = 0; asked < 2; asked++) {
      unsigned failed = 0;
      for (uint64_t call = 1;; call++) {
        device_reset(NULL);
        kf_ctx *ctx = open_ctx(asked != 0);
        twin->lose_call = call;
        uint64_t before = twin->calls;
        check_fault(&p, works[w], asked != 0, ctx, want, got, size, KF_ERR_IO,
                    "the device was lost");
        bool ended = !(device_n_heard > 0 || kf_errmsg(ctx)[0] != '\0');
        kf_ctx_free(ctx);
        forget(&p);
        assert_int_equal(twin->used, 0);
        if (ended || call > twin->calls - before) break;
        failed++;
      }
      assert_true(failed >= 4);
      for (uint64_t allocation = 1; allocation <= 12; allocation++) {
        device_reset(NULL);
        kf_ctx *ctx = open_ctx(asked != 0);
        twin->fail_allocation = allocation;
        twin->fail_after = allocation % 2;
        check_fault(&p, works[w], asked != 0, ctx, want, got, size, KF_ERR_MEM, "memory");
        kf_ctx_free(ctx);
        forget(&p);
        assert_int_equal(twin->used, 0);
      }
    }
  }
}

/* A little work stays on the CPU, and opens no device. */
TEST(only_where_it_pays) {
  AUTO(problem) p = make_problem(300, 10, 4, 0, 0);
  AUTO(kf_ctx) *ctx = device_ctx(2, NULL);
  same_transform(ctx, &p, KF_ON);
  same_answers(ctx, &p, &(kf_classify_options){.top = 2, .temperature = 3});
  assert_null(ctx->devices);
}

/* Much work goes to an open device if that is fast in f64, and so does the work of many small calls
 * together. */
TEST(where_it_pays) {
  kf_twin_state *twin = device_need_twin();
  AUTO(problem) p = make_problem(1 << 17, 64, 3, 0, 64);
  AUTOFREE float *out = malloc(p.w.n * 64 * sizeof *out);
  for (uint64_t slow = 0; slow < 2; slow++) {
    const kf_device_list *found;
    device_reset(NULL);
    twin->f64_ratio = slow ? 64 : 2;
    kf_ctx *ctx = device_ctx(1, NULL);
    assert_ok(ctx, kf_devices_find(ctx, &found));
    for (int i = 0; i < 8; i++) {
      assert_int_equal(twin->mapped, 0); /* too little so far */
      assert_ok(ctx, kf_transform(ctx, p.model, p.w.rows, p.w.n / 8, NULL, out));
    }
    assert_int_equal(twin->mapped, slow ? 0 : p.w.n / 8);
    assert_ok(ctx, kf_transform(ctx, p.model, p.w.rows, p.w.n, NULL, out));
    assert_int_equal(twin->mapped, slow ? 0 : p.w.n / 8 * 9);
    kf_ctx_free(ctx);
    ctx = device_ctx(16,
                     NULL); /* as many threads map rows of 64 columns faster than they are copied */
    assert_ok(ctx, kf_devices_find(ctx, &found));
    p.model->on_devices[1].work = 0x1p50;
    assert_ok(ctx, kf_transform(ctx, p.model, p.w.rows, p.w.n, NULL, out));
    assert_int_equal(twin->mapped, slow ? 0 : p.w.n / 8 * 9);
    p.model->on_devices[1].work = 0;
    kf_ctx_free(ctx);
    forget(&p);
  }
}

FIXTURES(.before = device_keep, .after = device_let_go, .before_each = device_reset,
         .after_each = device_reset);
