/* test_device_stats.c - statistics made on devices are those of the CPU, to the bit, and so are the
 * errors; if a device fails, nothing is lost. With the twin, or with the plug-in in
 * KOOFU_TEST_PLUGIN.
 *
 * Failures and small memories are made here: the device's table is replaced by one that injects
 * them before it calls the original. */
#include "device.h"

#include "device/device.h"
#include "stats/stats.h"

#include <math.h>

/* --- contexts --------------------------------------------------------------------------------- */

static char heard[4096];
static void hear(void *user, const char *message) {
  (void)user;
  snprintf(heard, sizeof heard, "%s", message);
}

static kf_ctx *context(unsigned threads, const char *device) {
  kf_ctx *ctx = NULL;
  kf_ctx_options options = {
      .threads = threads, .device = device, .device_plugin = device_plugin(), .log = hear};
  assert_int_equal(kf_ctx_new(&options, &ctx), KF_OK);
  return ctx;
}

/* --- a table that injects faults
 * ----------------------------------------------------------------- */

static struct {
  const kf_device_api *real;
  kf_device_api table;
  kf_device *device;
  const char *call; /* the one that fails; NULL: none */
  unsigned after;   /* calls that do not */
  kf_dev_status status;
  uint32_t most;    /* rows of a batch that fits on the device; 0: any */
  bool unlocked;    /* there is no page-locked memory */
  unsigned puts;    /* that were made */
  uint32_t largest; /* of them */
  kf_dev_type type; /* of the last moments_new */
} wrapped;

static bool fails(const char *call) {
  if (wrapped.call == NULL || strcmp(wrapped.call, call) != 0) return false;
  if (wrapped.after > 0) {
    wrapped.after--;
    return false;
  }
  return true;
}

static kf_dev_status look_new(kf_dev *dev, const kf_dev_moments_plan *plan, kf_dev_moments **out) {
  if (fails("new")) return wrapped.status;
  if (wrapped.most > 0 && plan->batch > wrapped.most) return KF_DEV_MEMORY;
  wrapped.type = plan->type;
  return wrapped.real->moments_new(dev, plan, out);
}

static kf_dev_status look_put(kf_dev_moments *moments, const void *rows, const int32_t *labels,
                              uint32_t n) {
  if (fails("put")) return wrapped.status;
  wrapped.puts++;
  if (n > wrapped.largest) wrapped.largest = n;
  return wrapped.real->moments_put(moments, rows, labels, n);
}

static kf_dev_status look_wait(kf_dev_moments *moments, uint32_t *bad) {
  return fails("wait") ? wrapped.status : wrapped.real->moments_wait(moments, bad);
}

static kf_dev_status look_take(kf_dev_moments *moments, uint64_t *totals, int64_t *sums,
                               int64_t *counts) {
  kf_dev_status status = wrapped.real->moments_take(moments, totals, sums, counts);
  return fails("take") ? wrapped.status : status; /* after it has overwritten them */
}

static void *look_alloc(kf_dev *dev, size_t bytes) {
  return wrapped.unlocked ? NULL : wrapped.real->host_alloc(dev, bytes);
}

static void look_free(kf_dev *dev, void *memory) { wrapped.real->host_free(dev, memory); }

static const char *say(const kf_dev *dev) {
  (void)dev;
  return "it was told to fail";
}

/* Wraps the first device of a context. */
static kf_devices *wrap(kf_ctx *ctx) {
  kf_devices *devices = NULL;
  assert_ok(ctx, kf_devices_for(ctx, &devices));
  assert_true(devices->n > 0);
  memset(&wrapped, 0, sizeof wrapped);
  wrapped.device = devices->device[0];
  wrapped.real = wrapped.device->api;
  wrapped.table = *wrapped.real;
  wrapped.table.moments_new = look_new;
  wrapped.table.moments_put = look_put;
  wrapped.table.moments_wait = look_wait;
  wrapped.table.moments_take = look_take;
  wrapped.table.host_alloc = look_alloc;
  wrapped.table.host_free = look_free;
  wrapped.table.message = say;
  wrapped.device->api = &wrapped.table;
  return devices;
}

static void unwrap(void) { wrapped.device->api = wrapped.real; }

/* Room for small batches only. */
static kf_devices *wrap_small(kf_ctx *ctx, uint32_t dim) {
  kf_devices *devices = wrap(ctx);
  wrapped.most = (uint32_t)kf_stats_batch(dim);
  return devices;
}

/* --- data ------------------------------------------------------------------------------------- */

typedef struct set {
  uint64_t n;
  uint32_t dim, classes;
  float *rows;
  int32_t *labels;
} set;

static set make_set(uint64_t n, uint32_t dim, uint32_t classes, uint64_t seed) {
  set s = {n, dim, classes, malloc(n * dim * sizeof(float)), malloc(n * sizeof(int32_t))};
  assert_non_null(s.rows);
  assert_non_null(s.labels);
  for (uint64_t i = 0; i < n * dim; i++) s.rows[i] = (float)(3 * test_uniform(&seed) + 0.5);
  for (uint64_t i = 0; i < n; i++) {
    s.labels[i] = (int32_t)(test_random(&seed) % (classes + 1)) - 1;
    if (i > 0 && test_random(&seed) % 2 == 0) s.labels[i] = s.labels[i - 1]; /* runs */
  }
  return s;
}

static void free_set(set *s) {
  free(s->rows);
  free(s->labels);
}
AUTO_STRUCT(set, free_set)

/* The rows in a type, for kf_data_open_arrays. */
static void *in_type(const set *s, kf_dtype dtype) {
  uint64_t n = s->n * s->dim;
  void *out = malloc(n * 8);
  assert_non_null(out);
  if (dtype == KF_F64)
    for (uint64_t i = 0; i < n; i++) ((double *)out)[i] = s->rows[i];
  else
    kf_encode_f32(kf_kernels_for(KF_ISA_PLAIN), kf_type_of(dtype), s->rows, n, out);
  return out;
}

static kf_data *open_set(kf_ctx *ctx, const set *s, kf_dtype dtype, const void *rows,
                         kf_skip skip) {
  kf_data *data = NULL;
  kf_array array = {.rows = rows, .n = s->n, .dtype = dtype};
  kf_array_options o = {.labels = s->labels, .n_classes = s->classes, .skip = skip};
  assert_ok(ctx, kf_data_open_arrays(ctx, &array, 1, s->dim, &o, &data));
  return data;
}

static void assert_same(const kf_stats *a, const kf_stats *b) {
  assert_int_equal(a->exponent, b->exponent);
  assert_int_equal(a->rows, b->rows);
  assert_memory_equal(a->counts, b->counts, a->n_classes * sizeof *a->counts);
  assert_memory_equal(a->sums, b->sums, (size_t)a->n_classes * a->dim * sizeof *a->sums);
  assert_memory_equal(a->moments, b->moments, kf_triangle(a->dim) * sizeof *a->moments);
}

/* Both compute the same statistics, or fail in the same way. */
static void compare(kf_ctx *cpu, kf_ctx *device, const kf_data *data, const kf_stats_options *o) {
  AUTO(kf_stats) *a = NULL, *b = NULL;
  kf_status status = kf_stats_new_from_data(cpu, data, o, &a);
  assert_int_equal(kf_stats_new_from_data(device, data, o, &b), status);
  assert_string_equal(kf_errmsg(device), kf_errmsg(cpu));
  assert_int_equal(kf_errhint(device), kf_errhint(cpu));
  if (status == KF_OK) assert_same(a, b);
}

static const kf_stats_options raw = {.normalize = KF_OFF};

/* --- the same integers ------------------------------------------------------------------------ */

TEST(every_type) {
  static const uint32_t dims[] = {1, 8, 37, 64, 130};
  AUTO(kf_ctx) *cpu = context(2, "cpu"), *device = context(2, "cuda");
  for (size_t d = 0; d < sizeof dims / sizeof *dims; d++)
    for (kf_dtype dtype = KF_F32; dtype <= KF_F64; dtype++) {
      AUTO(set) s = make_set(1003, dims[d], 11, d);
      AUTOFREE void *rows = in_type(&s, dtype);
      AUTO(kf_data) *data = open_set(cpu, &s, dtype, rows, KF_SKIP_NONE);
      compare(cpu, device, data, NULL);
      compare(cpu, device, data, &raw);
    }
}

/* Many batches with a ragged last one, few threads and many. */
TEST(many_batches) {
  for (unsigned threads = 1; threads <= 5; threads += 2) {
    AUTO(kf_ctx) *cpu = context(2, "cpu"), *device = context(threads, "cuda");
    AUTO(set) s = make_set(20011, 37, 5, threads);
    AUTOFREE void *rows = in_type(&s, KF_F16);
    AUTO(kf_data) *data = open_set(cpu, &s, KF_F16, rows, KF_SKIP_NONE);
    wrap_small(device, 37);
    wrapped.unlocked = threads == 3;
    compare(cpu, device, data, NULL);
    assert_true(wrapped.puts > 2 * KF_DEV_PUTS);
    assert_int_equal(wrapped.largest, kf_stats_batch(37));
    assert_int_equal(wrapped.type, KF_DEV_F16); /* rows go as they are */
    compare(cpu, device, data, &raw);
    unwrap();
  }
}

/* Products of 2^44 that add up to more than 64 bits. */
TEST(large_sums) {
  enum { ROWS = 600000, DIM = 3 };
  AUTO(kf_ctx) *cpu = context(2, "cpu"), *device = context(2, "cuda");
  AUTO(set) s = make_set(ROWS, DIM, 2, 1);
  for (size_t i = 0; i < ROWS * DIM; i++) s.rows[i] = i % DIM == 1 ? -1.0f : 1.0f;
  for (size_t i = 0; i < ROWS; i++) s.labels[i] = i % 1000 == 0;
  kf_stats_options o = {.normalize = KF_OFF, .fixed_exponent = 1, .exponent = 22};
  AUTO(kf_data) *data = open_set(cpu, &s, KF_F32, s.rows, KF_SKIP_NONE);
  compare(cpu, device, data, &o);
}

TEST(many_classes) {
  AUTO(kf_ctx) *cpu = context(2, "cpu"), *device = context(2, "cuda");
  AUTO(set) s = make_set(9001, 16, 30000, 4);
  AUTO(kf_data) *data = open_set(cpu, &s, KF_F32, s.rows, KF_SKIP_NONE);
  compare(cpu, device, data, NULL);
}

TEST(several_devices) {
  device_need(2);
  AUTO(kf_ctx) *cpu = context(2, "cpu"), *device = context(3, "cuda:0,cuda:1");
  AUTO(set) s = make_set(20011, 37, 5, 3);
  AUTO(kf_data) *data = open_set(cpu, &s, KF_F32, s.rows, KF_SKIP_NONE);
  wrap_small(device, 37);
  compare(cpu, device, data, NULL);
  unsigned batches = (unsigned)((s.n + kf_stats_batch(37) - 1) / kf_stats_batch(37));
  assert_int_equal(wrapped.puts, (batches + 1) / 2); /* the other device has the rest */
  for (uint64_t bad = 0; bad < s.n; bad += 4999) {   /* the lowest row counts, wherever it is */
    s.rows[bad * 37] = NAN;
    s.rows[(s.n - 1) * 37] = INFINITY;
    compare(cpu, device, data, NULL);
    s.rows[bad * 37] = 1;
  }
  unwrap();
}

/* --- where rows come from --------------------------------------------------------------------- */

static int bring(void *user, uint64_t first, uint64_t n, float *out) {
  const set *s = user;
  if (s->classes == 99 && first + n > 5000) return 1; /* they cannot be had */
  memcpy(out, s->rows + first * s->dim, n * s->dim * sizeof *out);
  return 0;
}

/* Rows with gaps between them, rows from a callback, subsets, and several arrays. */
TEST(other_sources) {
  AUTO(kf_ctx) *cpu = context(2, "cpu"), *device = context(3, "cuda");
  AUTO(set) s = make_set(9001, 20, 7, 5);
  kf_array_options o = {.labels = s.labels, .n_classes = 7};
  kf_data *data, *some;
  kf_array apart = {.rows = s.rows, .n = 4000, .row_stride = 2 * 80, .column_stride = 4};
  assert_ok(cpu, kf_data_open_arrays(cpu, &apart, 1, 20, &o, &data));
  assert_null(data->fetch_raw);
  compare(cpu, device, data, NULL);
  kf_data_free(data);

  AUTOFREE void *half = in_type(&s, KF_F16);
  kf_array two[] = {{.rows = half, .n = 9001, .dtype = KF_F16},
                    {.rows = half, .n = 1, .dtype = KF_F16}};
  o.labels = NULL; /* there are fewer */
  assert_ok(cpu, kf_data_open_arrays(cpu, two, 2, 20, &o, &data));
  assert_int_equal(data->raw_type, KF_TYPE_F16);
  uint16_t rows[3 * 20];
  kf_err err;
  assert_int_equal(data->fetch_raw(data, 8999, 3, rows, &err), KF_OK);
  assert_memory_equal(rows, (uint16_t *)half + (size_t)8999 * 20, 2 * 20 * sizeof *rows);
  assert_memory_equal(rows + 40, half, 20 * sizeof *rows);
  kf_data_free(data);
  two[1] = (kf_array){.rows = s.rows, .n = 5};
  assert_ok(cpu, kf_data_open_arrays(cpu, two, 2, 20, &o, &data));
  assert_null(data->fetch_raw); /* of two types */
  kf_data_free(data);

  uint64_t chosen[3000];
  for (uint64_t i = 0; i < 3000; i++) chosen[i] = 3 * i + i / 1000;
  data = open_set(cpu, &s, KF_BF16, half, KF_SKIP_BAD); /* numbers are numbers */
  assert_int_equal(kf_data_new_pick(data, chosen, 3000, &some, &err), KF_OK);
  wrap(device);
  compare(cpu, device, some, NULL);
  assert_int_equal(wrapped.type, KF_DEV_BF16);
  unwrap();
  kf_data_free(some);
  kf_data_free(data);

  o.labels = s.labels;
  assert_ok(cpu, kf_data_open_rows(cpu, s.n, 20, bring, &s, &o, &data));
  compare(cpu, device, data, NULL);
  s.classes = 99;
  compare(cpu, device, data, NULL); /* the error, and its place */
  wrap_small(device, 20);
  s.rows[20 * 100] = NAN; /* is found later, but its row comes first */
  compare(cpu, device, data, NULL);
  unwrap();
  kf_data_free(data);
}

/* Files of one type are read as they are, files of two are not; a file that has become shorter. */
TEST(files) {
  const char *folder = test_folder();
  kf_ctx *cpu = context(2, "cpu"), *device = context(3, "cuda");
  set s = make_set(6001, 12, 7, 6);
  for (uint64_t i = 0; i < s.n; i++) s.labels[i] = (int32_t)(i % 7);
  kf_data *data = open_set(cpu, &s, KF_F32, s.rows, KF_SKIP_NONE);
  const char *one = test_path(folder, "one.safetensors"),
             *two = test_path(folder, "two.safetensors");
  const char *wide = test_path(folder, "wide.safetensors");
  assert_ok(cpu, kf_data_save(cpu, data, KF_F16, one));
  assert_ok(cpu, kf_data_save(cpu, data, KF_F16, two));
  assert_ok(cpu, kf_data_save(cpu, data, KF_F32, wide));
  kf_data_free(data);
  const char *alike[] = {one, two}, *mixed[] = {one, wide};
  assert_ok(cpu, kf_data_open(cpu, alike, 2, NULL, &data));
  wrap(device);
  compare(cpu, device, data, NULL);
  assert_int_equal(wrapped.type, KF_DEV_F16);
  assert_int_equal(truncate(two, 6001 * 12 * 2 / 2), 0);
  compare(cpu, device, data, NULL);
  kf_data_free(data);
  assert_ok(cpu, kf_data_open(cpu, mixed, 2, NULL, &data));
  compare(cpu, device, data, NULL);
  assert_int_equal(wrapped.type, KF_DEV_F32);
  kf_data_free(data);
  unwrap();
  free_set(&s);
  kf_ctx_free(cpu);
  kf_ctx_free(device);
  test_remove(folder);
}

/* --- rows that are wrong ---------------------------------------------------------------------- */

TEST(bad_rows) {
  enum { DIM = 37 };
  AUTO(kf_ctx) *cpu = context(2, "cpu"), *device = context(4, "cuda");
  AUTO(set) s = make_set(12000, DIM, 5, 7);
  wrap_small(device, DIM);
  for (int kind = 0; kind < 3; kind++)
    for (kf_skip skip = KF_SKIP_NONE; skip <= KF_SKIP_ZERO; skip++) {
      for (uint64_t r = 3100; r < 12000; r += 2500) {
        float *row = s.rows + r * DIM;
        for (int i = 0; i < DIM; i++) row[i] = kind == 0 ? 0.0f : 1.0f;
        if (kind > 0) row[r % DIM] = kind == 1 ? NAN : -INFINITY;
        s.labels[r] = r == 3100 ? -1 : 3; /* bad rows are errors even without a label */
      }
      AUTO(kf_data) *data = open_set(cpu, &s, KF_F32, s.rows, skip);
      compare(cpu, device, data, NULL);
      compare(cpu, device, data,
              &(kf_stats_options){.normalize = KF_OFF, .fixed_exponent = 1, .exponent = 15});
    }
  unwrap();
}

/* Values too large for an exponent are errors in labelled rows only. */
TEST(too_large) {
  enum { DIM = 37 };
  AUTO(kf_ctx) *cpu = context(2, "cpu"), *device = context(4, "cuda");
  AUTO(set) s = make_set(12000, DIM, 5, 8);
  kf_stats_options o = {.normalize = KF_OFF, .fixed_exponent = 1, .exponent = 20};
  AUTO(kf_data) *data = open_set(cpu, &s, KF_F32, s.rows, KF_SKIP_BAD);
  wrap_small(device, DIM);
  s.rows[7000 * DIM + 5] = -4; /* the limit */
  s.labels[7000] = 2;
  s.rows[8000 * DIM + 5] = 400;
  s.labels[8000] = -1;
  compare(cpu, device, data, &o);
  s.rows[9000 * DIM] = 4.0001f;
  s.labels[9000] = 0;
  s.rows[11000 * DIM] = 5;
  s.labels[11000] = 0;
  compare(cpu, device, data, &o);
  unwrap();
}

/* Rows are added to existing statistics, with labels of their own. */
TEST(adding) {
  AUTO(kf_ctx) *cpu = context(2, "cpu"), *device = context(2, "cuda");
  AUTO(set) s = make_set(3000, 20, 6, 9);
  s.rows[20 * 1234] = NAN;
  s.labels[1234] = -1; /* a row without a label may hold anything */
  AUTO(kf_stats) *a = NULL, *b = NULL;
  assert_ok(cpu, kf_stats_new(cpu, 20, 6, NULL, NULL, &a));
  assert_ok(cpu, kf_stats_new(cpu, 20, 6, NULL, NULL, &b));
  for (int i = 0; i < 3; i++) {
    assert_ok(cpu, kf_stats_add(cpu, a, s.rows, s.labels, 3000));
    assert_ok(device, kf_stats_add(device, b, s.rows, s.labels, 3000));
    assert_same(a, b);
  }
}

/* --- devices that fail ------------------------------------------------------------------------ */

/* Every call fails, at first and later. If the device was named, that is an error, and nothing has
 * changed; otherwise the CPU takes over. */
TEST(failing_device) {
  static const char *const calls[] = {"new", "put", "wait", "take"};
  AUTO(kf_ctx) *cpu = context(2, "cpu");
  AUTO(set) s = make_set(20000, 37, 5, 10);
  kf_stats *before[2], *expected[2], *got = NULL; /* initially empty, or not */
  for (int some = 0; some < 2; some++) {
    assert_ok(cpu, kf_stats_new(cpu, 37, 5, NULL, NULL, &before[some]));
    assert_ok(cpu, kf_stats_new(cpu, 37, 5, NULL, NULL, &expected[some]));
    assert_ok(cpu, kf_stats_add(cpu, before[some], s.rows, s.labels, some ? 500 : 0));
    assert_ok(cpu, kf_stats_add(cpu, expected[some], s.rows, s.labels, some ? 500 : 0));
    assert_ok(cpu, kf_stats_add(cpu, expected[some], s.rows, s.labels, s.n));
  }
  for (unsigned i = 0; i < 32; i++) {
    int some = i / 16 == 1;
    AUTO(kf_ctx) *device = context(1 + i % 3, "cuda");
    bool asked = i % 2 == 0;
    assert_ok(cpu, kf_stats_new(cpu, 37, 5, NULL, NULL, &got));
    assert_ok(cpu, kf_stats_add(cpu, got, s.rows, s.labels, some ? 500 : 0));
    kf_devices *devices = wrap_small(device, 37);
    devices->asked = asked;
    wrapped.call = calls[i / 4 % 4];
    wrapped.after = i / 2 % 2 == 1 && i / 4 % 4 % 3 != 0 ? 3 : 0;
    wrapped.status = KF_DEV_LOST;
    heard[0] = '\0';
    if (asked) {
      assert_error(device, KF_ERR_IO, "it was told to fail",
                   kf_stats_add(device, got, s.rows, s.labels, s.n));
      assert_same(before[some], got);
    } else {
      kf_device *own = kf_device_hold(wrapped.device); /* the context releases it */
      assert_ok(device, kf_stats_add(device, got, s.rows, s.labels, s.n));
      assert_same(expected[some], got);
      assert_non_null(strstr(heard, "it was told to fail"));
      unwrap();
      kf_device_release(own);
    }
    if (asked) unwrap();
    kf_stats_free(got);
  }
  for (int some = 0; some < 2; some++) {
    kf_stats_free(before[some]);
    kf_stats_free(expected[some]);
  }
}

/* Too little memory even for the smallest batches. */
TEST(no_memory) {
  AUTO(kf_ctx) *cpu = context(2, "cpu"), *device = context(2, "cuda");
  AUTO(set) s = make_set(3000, 20, 6, 11);
  AUTO(kf_data) *data = open_set(cpu, &s, KF_F32, s.rows, KF_SKIP_NONE);
  kf_stats *stats = NULL;
  kf_devices *devices = wrap(device);
  wrapped.most = 1;
  assert_error(device, KF_ERR_MEM, "statistics",
               kf_stats_new_from_data(device, data, NULL, &stats));
  assert_null(stats);
  devices->asked = false;
  compare(cpu, device, data, NULL);
  assert_int_equal(wrapped.puts, 0);
  wrapped.most = 0; /* now there is enough, and the device is used again */
  compare(cpu, device, data, NULL);
  assert_int_equal(wrapped.puts, 1);
  unwrap();
}

static uint64_t last_done;
static int stop(void *user, const char *what, uint64_t done, uint64_t total) {
  (void)what;
  assert_true(done >= last_done && done <= total);
  last_done = done;
  return done >= *(const uint64_t *)user;
}

/* Progress rises from nothing to all rows, and a caller can stop in between. */
TEST(progress) {
  AUTO(set) s = make_set(20000, 37, 5, 12);
  for (uint64_t most = 1000; most <= 100000; most *= 10) {
    AUTO(kf_ctx) *ctx = NULL;
    AUTO(kf_stats) *stats = NULL;
    kf_ctx_options options = {.threads = 2,
                              .device = "cuda",
                              .device_plugin = device_plugin(),
                              .progress = stop,
                              .user = &most};
    assert_int_equal(kf_ctx_new(&options, &ctx), KF_OK);
    AUTO(kf_data) *data = open_set(ctx, &s, KF_F32, s.rows, KF_SKIP_NONE);
    wrap_small(ctx, 37);
    last_done = 0;
    kf_status status = kf_stats_new_from_data(ctx, data, NULL, &stats);
    if (most == 100000) {
      assert_ok(ctx, status);
      assert_int_equal(last_done, s.n);
    } else {
      assert_error(ctx, KF_ERR_CANCELLED, "stopped during 'stats'", status);
      assert_null(stats);
    }
    unwrap();
  }
}

/* A little work is not worth opening a device for, unless it was named. */
TEST(little_work) {
  AUTO(kf_ctx) *cpu = context(2, "cpu"), *automatic = context(2, "auto");
  AUTO(set) s = make_set(3000, 20, 6, 13);
  AUTO(kf_data) *data = open_set(cpu, &s, KF_F32, s.rows, KF_SKIP_NONE);
  compare(cpu, automatic, data, NULL);
  assert_null(automatic->devices);
}
