/* test_export.c - models for other programs: valid options, files that are held back, the same
 * bytes for every number of threads and instruction set, numbers that f32 cannot hold. The contents
 * of the files are tested by tests/cli/test_export.py and, with the target programs, by `make
 * test-export`. */
#include "test.h"
#include "world.h"

#include "export/export.h"

static const char *folder;
static const char *const names[] = {"m.onnx", "m.faiss", "m.npz", "m.h", "m.c", "hub"};
enum { NAMES = sizeof names / sizeof *names };

static kf_model *make_model(kf_ctx *ctx, int normalized) {
  AUTO(world) w = make_world(90, 12, 3, 1, 5);
  AUTO(kf_data) *data = NULL;
  kf_model *model;
  assert_ok(ctx, kf_data_open_memory(ctx, w.rows, w.n, w.dim, w.labels, NULL, 0, &data));
  kf_fit_options options = {.stats_options.normalize = normalized ? KF_ON : KF_OFF};
  assert_ok(ctx, kf_fit(ctx, data, &options, &model, NULL));
  return model;
}

TEST(calls) {
  AUTO(kf_ctx) *ctx = test_ctx(1, KF_ISA_AUTO);
  AUTO(kf_model) *model = make_model(ctx, 1);
  const char *path = test_path(folder, "c.onnx");
  assert_error(ctx, KF_ERR_ARG, "NULL", kf_export(ctx, NULL, NULL, path));
  assert_error(ctx, KF_ERR_ARG, "NULL", kf_export(ctx, model, NULL, NULL));
  kf_export_options o = {.reserved = {0, 1}};
  assert_error(ctx, KF_ERR_ARG, "reserved", kf_export(ctx, model, &o, path));
  o = (kf_export_options){.metric = (kf_metric)9};
  assert_error(ctx, KF_ERR_ARG, "metric 9", kf_export(ctx, model, &o, path));
  assert_error(ctx, KF_ERR_ARG, "metric 9",
               kf_export(ctx, model, &o, test_path(folder, "c.faiss")));
  o = (kf_export_options){.part = (kf_part)9};
  assert_error(ctx, KF_ERR_ARG, "part 9", kf_export(ctx, model, &o, path));
  o = (kf_export_options){.temperature = -1};
  assert_error(ctx, KF_ERR_ARG, "temperature", kf_export(ctx, model, &o, path));
  assert_error(ctx, KF_ERR_ARG, "extension", kf_export(ctx, model, NULL, ""));
  assert_int_equal(test_entries(folder), 0);
  assert_ok(ctx, kf_export(ctx, model, NULL, path)); /* all of that leaves the context as it was */
  assert_int_equal(unlink(path), 0);
}

/* Between kf_outputs_begin and kf_outputs_commit, exported files are held back as others are. */
TEST(held_back) {
  AUTO(kf_ctx) *ctx = test_ctx(1, KF_ISA_AUTO);
  AUTO(kf_model) *model = make_model(ctx, 1);
  for (int commit = 0; commit < 2; commit++) {
    assert_ok(ctx, kf_outputs_begin(ctx));
    for (size_t i = 0; i + 1 < NAMES; i++)
      if (strcmp(names[i], "m.h") != 0) /* which m.c also writes */
        assert_ok(ctx, kf_export(ctx, model, NULL, test_path(folder, names[i])));
    assert_error(ctx, KF_ERR_ARG, "written twice",
                 kf_export(ctx, model, NULL, test_path(folder, "m.h")));
    for (size_t i = 0; i < NAMES; i++)
      assert_int_not_equal(access(test_path(folder, names[i]), F_OK), 0);
    if (commit)
      assert_ok(ctx, kf_outputs_commit(ctx));
    else
      kf_outputs_abort(ctx);
    assert_int_equal(test_entries(folder), commit ? NAMES - 1 : 0);
  }
  for (size_t i = 0; i + 1 < NAMES; i++) unlink(test_path(folder, names[i]));
}

/* A file, or one in the folder. */
static char *read_file(const char *name, size_t *n) {
  const char *path = test_path(folder, name);
  if (strcmp(name, "hub") == 0) path = test_path(folder, "hub/config.json");
  return test_read(path, n);
}

TEST(same_bytes) {
  char *first[NAMES];
  size_t sizes[NAMES], n;
  for (unsigned threads = 1; threads <= 3; threads += 2) {
    AUTO(kf_ctx) *ctx = test_ctx(threads, threads == 1 ? KF_ISA_PLAIN : KF_ISA_AUTO);
    AUTO(kf_model) *model = make_model(ctx, 1);
    for (size_t i = 0; i < NAMES; i++) {
      assert_ok(ctx, kf_export(ctx, model, NULL, test_path(folder, names[i])));
      char *bytes = read_file(names[i], &n);
      if (threads == 1) {
        first[i] = bytes;
        sizes[i] = n;
        continue;
      }
      assert_int_equal(n, sizes[i]);
      assert_memory_equal(bytes, first[i], n);
      free(bytes);
    }
  }
  for (size_t i = 0; i < NAMES; i++) free(first[i]);
}

TEST(too_large) {
  AUTO(kf_ctx) *ctx = test_ctx(1, KF_ISA_AUTO);
  AUTO(kf_model) *model = make_model(ctx, 0);
  const char *onnx = test_path(folder, "l.onnx"), *faiss = test_path(folder, "l.faiss");
  kf_export_options single = {.single = 1, .raw = 1};
  for (size_t i = 0; i < 12; i++) model->class_means[i] = 1e30f;
  assert_error(ctx, KF_ERR_MATH, "too large for f32", kf_export(ctx, model, &single, onnx));
  single.single = 0; /* f64 has room for the square */
  assert_ok(ctx, kf_export(ctx, model, &single, onnx));
  assert_int_equal(unlink(onnx), 0);
  double kept = model->map.mean[0];
  model->map.mean[0] = 1e300;
  assert_error(ctx, KF_ERR_MATH, "too large for f32", kf_export(ctx, model, NULL, faiss));
  model->map.mean[0] = kept;
  model->map.transform[5] = 1e39;
  assert_error(ctx, KF_ERR_MATH, "too large for f32", kf_export(ctx, model, NULL, faiss));
  assert_error(ctx, KF_ERR_MATH, "too large for f32", kf_export(ctx, model, NULL, onnx));
  assert_int_not_equal(access(onnx, F_OK), 0);
  assert_int_not_equal(access(faiss, F_OK), 0);
}

static int make_folder(void **state) {
  (void)state;
  folder = test_folder();
  return 0;
}

static int remove_folder(void **state) {
  (void)state;
  test_remove(folder);
  return 0;
}

FIXTURES(.before = make_folder, .after = remove_folder);
