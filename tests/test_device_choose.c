/* test_device_choose.c - choosing lambda, alpha and dimensions on devices: models, curves and temperatures
 * are those of the CPU, to the bit, whatever the products, devices and faults. With the twin, or with the
 * plug-in in KOOFU_TEST_PLUGIN. */
#include "device.h"
#include "world.h"

#include "device/device.h"
#include "koofu_judge.h"

/* --- products --------------------------------------------------------------------------------- */

static double *numbers(size_t n, uint64_t seed) {
  double *x = malloc((n + 1) * sizeof *x);
  for (size_t i = 0; i < n; i++) x[i] = test_normal(&seed);
  return x;
}

static void same_product(kf_ctx *ctx, size_t m, size_t n, size_t depth, bool upper) {
  kf_ctx *cpu = device_ctx(1, "cpu");
  double *a = numbers(depth * m, m + 3), *b = upper ? a : numbers(depth * n, n + 7);
  double *want = malloc(m * n * sizeof *want), *got = malloc(m * n * sizeof *got);
  kf_product p = {.a = a, .b = b, .c = want, .m = m, .n = n, .depth = depth, .upper = upper};
  assert_ok(cpu, kf_multiply(cpu, p));
  p.c = got;
  assert_ok(ctx, kf_multiply(ctx, p));
  for (size_t i = 0; i < m; i++) {
    size_t from = upper ? i : 0;
    assert_memory_equal(got + i * n + from, want + i * n + from, (n - from) * sizeof *got);
  }
  free(a);
  if (!upper) free(b);
  free(want);
  free(got);
  kf_ctx_free(cpu);
}

static void products(void **state) {
  (void)state;
  const size_t sizes[][3] = {{1, 1, 0},    {1, 1, 1},     {3, 5, 17},   {64, 64, 16},
                             {65, 129, 3}, {200, 33, 70}, {33, 200, 1}, {7, 2100, 40}};
  kf_twin_state *twin = device_twin();
  bool several = device_show(2);
  for (unsigned threads = 1; threads <= 3; threads += 2) {
    kf_ctx *ctx = device_ctx(threads, several && threads > 1 ? "cuda:0,cuda:1" : "cuda");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
      uint64_t before = twin != NULL ? twin->multiplied : 0;
      same_product(ctx, sizes[i][0], sizes[i][1], sizes[i][2], false);
      if (twin != NULL) assert_int_equal(twin->multiplied - before, sizes[i][0]);
      if (sizes[i][0] == sizes[i][1])
        same_product(ctx, sizes[i][0], sizes[i][1], sizes[i][2], true);
    }
    kf_ctx_free(ctx);
  }
  if (twin != NULL) assert_int_equal(twin->used, 0);
}

/* Rows of a product from minus zero and other starts, in f64 and f32, several matrices at a time. */
static void starts(void **state) {
  (void)state;
  enum { M = 70, N = 45, DEPTH = 30 };
  kf_ctx *ctx = device_ctx(2, "cuda");
  double *a = numbers(DEPTH * M, 1), *b = numbers(DEPTH * N, 2), *start = numbers(N, 3);
  double got[M * N] = {0}, want[M * N] = {0};
  float a_f32[DEPTH * M], b_f32[DEPTH * N], got_f32[M * N] = {0}, want_f32[M * N] = {0};
  for (size_t i = 0; i < DEPTH * M; i++) a_f32[i] = (float)a[i];
  for (size_t i = 0; i < DEPTH * N; i++) b_f32[i] = (float)b[i];
  for (size_t j = 0; j < N; j += 2) start[j] = -0.0;
  for (size_t k = 0; k < DEPTH; k++)
    b[k * N + 4] = 0; /* the sum stays minus zero or becomes zero */
  kf_matrix with = {.depth = DEPTH, .n = N, .b = b, .start = start};
  kf_matrix without = {.depth = DEPTH, .n = N, .b = b};
  kf_matrix narrow = {.depth = DEPTH, .n = N, .b_f32 = b_f32};
  kf_matrix *all[] = {&with, &without, &narrow};
  for (int i = 0; i < 3; i++) {
    kf_products cpu = {.ctx = ctx}, on;
    void *to = i == 2 ? (void *)want_f32 : want, *from = i == 2 ? (void *)a_f32 : a;
    void *out = i == 2 ? (void *)got_f32 : got;
    assert_ok(ctx, kf_matrix_times(&cpu, all[i], from, M, M, to, &ctx->err));
    assert_ok(ctx, kf_products_begin(ctx, 1, &on));
    for (int k = 0; k < 3; k++) assert_ok(ctx, kf_matrix_place(&on, all[k]));
    assert_non_null(all[i]->on[0]);
    /* with its last columns alone, too */
    assert_ok(ctx, kf_matrix_times(&on, all[i], from, M, M, out, &ctx->err));
    assert_memory_equal(out, to, M * N * (i == 2 ? sizeof(float) : sizeof(double)));
    if (i < 2) {
      assert_ok(ctx, kf_matrix_times(&on, all[i], a + 50, M, M - 50, got, &ctx->err));
      assert_memory_equal(got, want + 50 * N, (M - 50) * N * sizeof *got);
    }
    assert_ok(ctx, kf_products_end(&on, KF_OK));
    assert_null(all[i]->on[0]);
  }
  free(a);
  free(b);
  free(start);
  kf_ctx_free(ctx);
}

/* Room for few rows at a time, and then for none: the CPU multiplies. */
static void little_room(void **state) {
  (void)state;
  kf_twin_state *twin = device_need_twin();
  twin->memory = 3 << 20;
  kf_ctx *ctx = device_ctx(2, "cuda");
  same_product(ctx, 400, 700, 60, false);
  assert_true(twin->multiplied == 400 && twin->calls > 20);
  same_product(ctx, 3, 70000, 2, false); /* a line is longer than a slot */
  assert_int_equal(twin->multiplied, 400);
  kf_ctx_free(ctx);
  assert_int_equal(twin->used, 0);
}

/* --- fits ------------------------------------------------------------------------------------- */

/* Rows, and all that fits may take from them. */
typedef struct problem {
  world w;
  uint32_t *groups, *large; /* of three rows, and of a third of all */
  kf_text *text;
  int raw;
} problem;

static problem make_problem(uint64_t n, uint32_t dim, uint32_t classes, bool uneven, int raw) {
  kf_ctx *cpu = device_ctx(1, "cpu");
  problem p = {.w = make_world(n, dim, classes, 1, n + dim), .raw = raw};
  kf_data *data;
  for (uint64_t i = 0; uneven && i < n; i++)
    if (i % 5 < 2) p.w.labels[i] = (int32_t)(i % classes / 2);
  p.groups = malloc(n * sizeof *p.groups);
  p.large = malloc(n * sizeof *p.large);
  for (uint64_t i = 0; i < n; i++) {
    p.groups[i] = (uint32_t)(i / 3);
    p.large[i] = (uint32_t)(i % 7 % 3);
  }
  assert_ok(cpu,
            kf_data_open_memory(cpu, p.w.rows, classes, dim, p.w.labels, NULL, classes, &data));
  if (!uneven) assert_ok(cpu, kf_text_new(cpu, data, NULL, &p.text));
  kf_data_free(data);
  kf_ctx_free(cpu);
  return p;
}

static void clear_problem(problem *p) {
  free(p->groups);
  free(p->large);
  kf_text_free(p->text);
  free_world(&p->w);
}

typedef struct fitted {
  kf_bytes *model;
  kf_fit_report *report;
} fitted;

static kf_status fit_all(kf_ctx *ctx, const problem *p, const kf_fit_options *o, fitted *out) {
  kf_data *data;
  kf_model *model = NULL;
  *out = (fitted){0};
  assert_ok(ctx, kf_data_open_memory(ctx, p->w.rows, p->w.n, p->w.dim, p->w.labels, NULL,
                                     p->w.classes, &data));
  kf_status status = kf_fit(ctx, data, o, &model, &out->report);
  if (status == KF_OK) status = kf_bytes_new_of_model(ctx, model, &out->model);
  kf_model_free(model);
  kf_data_free(data);
  return status;
}

static void clear_fitted(fitted *f) {
  kf_bytes_free(f->model);
  kf_fit_report_free(f->report);
}

static void assert_same_fit(const fitted *a, const fitted *b) {
  const kf_fit_report *x = a->report, *y = b->report;
  assert_int_equal(kf_bytes_size(a->model), kf_bytes_size(b->model));
  assert_memory_equal(kf_bytes_data(a->model), kf_bytes_data(b->model), kf_bytes_size(a->model));
  assert_memory_equal(&x->lambda, &y->lambda, sizeof x->lambda);
  assert_memory_equal(&x->alpha, &y->alpha, sizeof x->alpha);
  assert_int_equal(x->right, y->right);
  assert_int_equal(x->dim, y->dim);
  assert_true((x->by_lambda == NULL) == (y->by_lambda == NULL));
  if (x->by_lambda != NULL) {
    const kf_lambda_choice *c = x->by_lambda, *d = y->by_lambda;
    assert_int_equal(c->n_points, d->n_points);
    assert_memory_equal(c->points, d->points, c->n_points * sizeof *c->points);
    assert_memory_equal(&c->all, &d->all, sizeof c->all);
  }
  if (x->by_fusion != NULL) {
    assert_int_equal(x->by_fusion->n_points, y->by_fusion->n_points);
    assert_memory_equal(x->by_fusion->points, y->by_fusion->points,
                        x->by_fusion->n_points * sizeof *x->by_fusion->points);
  }
  if (x->by_dim != NULL)
    assert_memory_equal(x->by_dim->points, y->by_dim->points,
                        x->by_dim->n_points * sizeof *x->by_dim->points);
}

/* On the CPU and on devices. */
static void same_fit(const problem *p, kf_fit_options o, unsigned threads, const char *devices) {
  kf_twin_state *twin = device_twin();
  kf_ctx *cpu = device_ctx(2, "cpu"), *ctx = device_ctx(threads, devices);
  fitted want, got;
  o.stats_options.normalize = p->raw ? KF_OFF : KF_ON;
  assert_ok(cpu, fit_all(cpu, p, &o, &want));
  uint64_t before = twin != NULL ? twin->multiplied : 0;
  assert_ok(ctx, fit_all(ctx, p, &o, &got));
  if (twin != NULL) assert_true(twin->multiplied > before + p->w.n);
  assert_same_fit(&got, &want);
  clear_fitted(&got);
  clear_fitted(&want);
  kf_ctx_free(ctx);
  kf_ctx_free(cpu);
  if (twin != NULL) assert_int_equal(twin->used, 0);
}

/* More classes than columns, and fewer. */
static void by_likelihood(void **state) {
  (void)state;
  problem many = make_problem(400, 12, 20, false, 0), few = make_problem(300, 16, 5, false, 0);
  const problem *both[] = {&many, &few};
  for (int i = 0; i < 2; i++) {
    same_fit(both[i], (kf_fit_options){0}, 1, "cuda");
    same_fit(both[i], (kf_fit_options){.sample = 100, .one_se = 1}, 3, "cuda");
    same_fit(both[i], (kf_fit_options){.groups = both[i]->groups}, 2, "cuda");
    same_fit(both[i], (kf_fit_options){.groups = both[i]->large}, 2, "cuda");
    same_fit(both[i], (kf_fit_options){.text = both[i]->text}, 2, "cuda");
    same_fit(both[i], (kf_fit_options){.text = both[i]->text, .groups = both[i]->groups}, 2,
             "cuda");
    same_fit(both[i], (kf_fit_options){.criterion = KF_CRITERION_ACCURACY}, 2, "cuda");
    same_fit(both[i], (kf_fit_options){.metric = KF_METRIC_EUCLIDEAN, .reject = 0.9}, 2, "cuda");
    same_fit(both[i], (kf_fit_options){.choose_dim = 1}, 2, "cuda");
  }
  clear_problem(&many);
  clear_problem(&few);
}

/* More classes than columns, and so many rows in each that the curve needs no directions. */
static void large_classes(void **state) {
  (void)state;
  problem p = make_problem(640, 12, 20, false, 0);
  same_fit(&p, (kf_fit_options){0}, 1, "cuda");
  same_fit(&p, (kf_fit_options){.priors = KF_PRIORS_TRAINING}, 3, "cuda");
  same_fit(&p, (kf_fit_options){.text = p.text}, 2, "cuda");
  for (uint64_t i = 0; i < p.w.n; i++)
    p.w.labels[i] = (int32_t)(i / 32); /* nothing tells them apart */
  same_fit(&p, (kf_fit_options){0}, 2, "cuda");
  clear_problem(&p);
}

static void uneven_classes(void **state) {
  (void)state;
  problem unit = make_problem(420, 9, 14, true, 0), raw = make_problem(420, 9, 6, true, 1);
  same_fit(&unit, (kf_fit_options){0}, 2, "cuda");
  same_fit(&unit, (kf_fit_options){.priors = KF_PRIORS_TRAINING}, 2, "cuda");
  same_fit(&unit, (kf_fit_options){.groups = unit.groups, .priors = KF_PRIORS_TRAINING}, 2, "cuda");
  same_fit(&raw, (kf_fit_options){0}, 2, "cuda");
  same_fit(&raw, (kf_fit_options){.priors = KF_PRIORS_EQUAL, .choose_dim = 1}, 2, "cuda");
  clear_problem(&unit);
  clear_problem(&raw);
}

static void by_hits(void **state) {
  (void)state;
  problem p = make_problem(400, 12, 20, false, 0);
  kf_fit_options paper = {.method = KF_METHOD_PAPER}, o = paper;
  same_fit(&p, o, 1, "cuda");
  o.centre = KF_CENTRE_MEAN;
  same_fit(&p, o, 3, "cuda");
  o.text = p.text;
  same_fit(&p, o, 2, "cuda");
  o = paper;
  o.metric = KF_METRIC_EUCLIDEAN;
  o.groups = p.groups;
  same_fit(&p, o, 2, "cuda");
  o.groups = NULL;
  o.choose_dim = 1;
  same_fit(&p, o, 2, "cuda");
  clear_problem(&p);
}

/* Rows of any size, by distance: some are out of the range in which products in f32 rule classes out. */
static void of_any_size(void **state) {
  (void)state;
  const double units[] = {1, 1e-12, 1e-25, 1e12, 1e25};
  for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
    problem p = make_problem(240, 7, 9, true, 1);
    for (uint64_t k = 0; k < p.w.n * p.w.dim; k++)
      p.w.rows[k] = (float)((double)p.w.rows[k] * units[i]);
    same_fit(&p, (kf_fit_options){.method = KF_METHOD_PAPER}, 2, "cuda");
    clear_problem(&p);
  }
}

static void on_several_devices(void **state) {
  (void)state;
  device_need(3);
  problem p = make_problem(300, 10, 15, false, 0);
  const kf_method methods[] = {KF_METHOD_SHRUNK, KF_METHOD_PAPER};
  for (int i = 0; i < 2; i++) {
    same_fit(&p, (kf_fit_options){.method = methods[i]}, 1, "cuda:2,cuda:0");
    same_fit(&p, (kf_fit_options){.method = methods[i]}, 4, "cuda:0,cuda:1,cuda:2");
  }
  clear_problem(&p);
}

/* --- faults ----------------------------------------------------------------------------------- */

/* A context with a device that is there; asked: by name. Otherwise as one that chose it by itself, but
 * for any amount of work. */
static kf_ctx *open_ctx(bool asked) {
  const kf_device_list *found;
  kf_ctx *ctx = device_ctx(2, "cuda");
  assert_ok(ctx, kf_devices_find(ctx, &found));
  ctx->devices->asked = asked;
  device_n_heard = 0;
  return ctx;
}

/* The same fit, an error where the device was asked for, or a note where it was not. True: something
 * went wrong. */
static bool check_fault(const problem *p, const kf_fit_options *o, kf_ctx *ctx, const fitted *want,
                        kf_status error, const char *message) {
  kf_twin_state *twin = device_twin();
  bool asked = ctx->devices->asked;
  fitted got;
  kf_status status = fit_all(ctx, p, o, &got);
  if (status == KF_OK) {
    assert_same_fit(&got, want);
  } else {
    assert_true(asked);
    assert_int_equal(status, error);
    if (strstr(kf_errmsg(ctx), message) == NULL) fail_msg("%s", kf_errmsg(ctx));
  }
  bool wrong = status != KF_OK || device_n_heard > 0;
  if (!asked && wrong) assert_true(device_said(message));
  clear_fitted(&got);
  twin->lose_call = twin->fail_allocation = twin->fail_after = 0;
  if (status == KF_OK) { /* and goes on */
    assert_ok(ctx, fit_all(ctx, p, o, &got));
    assert_same_fit(&got, want);
    clear_fitted(&got);
  }
  kf_ctx_free(ctx);
  assert_int_equal(twin->used, 0);
  return wrong;
}

static void faults(void **state) {
  (void)state;
  kf_twin_state *twin = device_need_twin();
  problem p = make_problem(60, 5, 6, false, 0);
  const kf_fit_options fits[] = {{.sample = 20}, {.method = KF_METHOD_PAPER, .sample = 20}};
  for (int f = 0; f < 2; f++) {
    kf_ctx *cpu = device_ctx(1, "cpu");
    fitted want;
    assert_ok(cpu, fit_all(cpu, &p, &fits[f], &want));
    for (int asked = 0; asked < 2; asked++) {
      unsigned lost = 0, refused = 0;
      for (uint64_t call = 1;; call += 1 + call / 16) {
        device_reset(NULL);
        kf_ctx *ctx = open_ctx(asked != 0);
        twin->lose_call = call;
        if (!check_fault(&p, &fits[f], ctx, &want, KF_ERR_IO, "the device was lost")) break;
        lost++;
      }
      for (uint64_t allocation = 1; allocation <= 24; allocation++) {
        device_reset(NULL);
        kf_ctx *ctx = open_ctx(asked != 0);
        twin->fail_allocation = allocation;
        twin->fail_after = allocation % 2;
        refused += check_fault(&p, &fits[f], ctx, &want, KF_ERR_MEM, "plain twin 0");
      }
      assert_true(lost > 30 && refused >= 4);
    }
    clear_fitted(&want);
    kf_ctx_free(cpu);
  }
  clear_problem(&p);
}

/* Little work stays on the CPU, and opens no device. */
static void only_where_it_pays(void **state) {
  (void)state;
  problem p = make_problem(200, 8, 5, false, 0);
  kf_ctx *ctx = device_ctx(2, NULL);
  fitted f;
  assert_ok(ctx, fit_all(ctx, &p, &(kf_fit_options){0}, &f));
  assert_null(ctx->devices);
  clear_fitted(&f);
  kf_ctx_free(ctx);
  clear_problem(&p);
}

/* Much work goes to a device that is open, if it is good at f64. */
static void where_it_pays(void **state) {
  (void)state;
  kf_twin_state *twin = device_need_twin();
  enum { M = 1024, N = 1024, DEPTH = 512 };
  double *x = calloc((size_t)M * (2 * DEPTH + N), sizeof *x);
  for (uint64_t slow = 0; slow < 2; slow++) {
    const kf_device_list *found;
    device_reset(NULL);
    twin->f64_ratio = slow ? 64 : 2;
    kf_ctx *ctx = device_ctx(1, NULL);
    kf_product p = {.a = x, .b = x + M * DEPTH, .c = x + 2 * M * DEPTH, .m = 8, .n = 8, .depth = 8};
    assert_ok(ctx, kf_devices_find(ctx, &found));
    assert_ok(ctx, kf_multiply(ctx, p));
    assert_int_equal(twin->multiplied, 0); /* too little */
    p.m = M;
    p.n = N;
    p.depth = DEPTH;
    assert_ok(ctx, kf_multiply(ctx, p));
    assert_int_equal(twin->multiplied, slow ? 0 : M);
    kf_ctx_free(ctx);
  }
  free(x);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, device_reset, device_reset)

int main(void) {
  const struct CMUnitTest tests[] = {
      CASE(products),           CASE(starts),         CASE(little_room),   CASE(by_likelihood),
      CASE(large_classes),      CASE(uneven_classes), CASE(by_hits),       CASE(of_any_size),
      CASE(on_several_devices), CASE(faults),         CASE(where_it_pays), CASE(only_where_it_pays),
  };
  return device_run(tests, device_keep, device_let_go);
}
