/* test_gallery.c - gallery files: written, grown and loaded. Bad files are in
 * test_gallery_bad.c. */
#include "galleries.h"

/* --- the file -------------------------------------------------------------------------------- */

/* The rows of the file, read as a data set. */
static void check_as_data(const char *path, const float *rows, const world *w, uint32_t dim) {
  AUTO(kf_data) *data = must_open(path, NULL);
  assert_int_equal(kf_data_rows(data), w->n);
  assert_int_equal(kf_data_dim(data), dim);
  assert_string_equal(kf_data_class_name(data, 4), names[4]);
  AUTOFREE float *read = malloc(w->n * dim * sizeof *read);
  AUTOFREE int32_t *labels = malloc(w->n * sizeof *labels);
  assert_ok(ctx, kf_data_get(ctx, data, 0, w->n, read, labels));
  assert_memory_equal(read, rows, w->n * dim * sizeof *read);
  assert_memory_equal(labels, w->labels, w->n * sizeof *labels);
}

static void check_info(const char *path, uint64_t rows, uint32_t dim, uint32_t dim_out) {
  AUTO(kf_info) *info = NULL;
  assert_ok(ctx, kf_info_read(ctx, path, &info));
  assert_string_equal(info->kind, "gallery");
  assert_int_equal(info->rows, rows);
  assert_int_equal(info->dim, dim);
  assert_int_equal(info->dim_out, dim_out);
  assert_int_equal(info->classes, CLASSES);
}

TEST(round_trip) {
  AUTO(world) w = make_world(301, DIM, CLASSES, 2, 1);
  AUTO(kf_data) *data = data_of(w.rows, w.n, w.dim, w.labels, CLASSES);
  AUTO(kf_model) *m = fit_world(&w, 0, KF_CENTRE_MEAN), *other = fit_world(&w, 0, KF_CENTRE_NONE);
  AUTOFREE float *mapped = malloc(w.n * L * sizeof *mapped);
  assert_ok(ctx, kf_transform(ctx, m, w.rows, w.n, NULL, mapped));
  const char *path = at("trip.safetensors");
  kf_gallery_options options = {.ids = write_ids("trip.txt", 0, w.n)};
  assert_ok(ctx, kf_gallery_save(ctx, data, m, &options, path));
  check_as_data(path, mapped, &w, L);
  check_info(path, w.n, DIM, L);
  AUTO(kf_gallery) *g = load(path, 0);
  assert_int_equal(kf_gallery_rows(g), w.n);
  assert_int_equal(kf_gallery_dim_in(g), DIM);
  assert_int_equal(kf_gallery_dim(g), L);
  assert_int_equal(kf_gallery_metric(g), KF_METRIC_COSINE);
  assert_int_equal(kf_gallery_mapped(g), 1);
  assert_int_equal(kf_gallery_made_with(g, m), 1);
  assert_int_equal(kf_gallery_made_with(g, other), 0);
  assert_int_equal(kf_gallery_has_labels(g), 1);
  assert_int_equal(kf_gallery_classes(g), CLASSES);
  assert_int_equal(kf_index_rows(kf_gallery_index(g)), w.n);
  for (uint32_t k = 0; k < CLASSES; k++) assert_string_equal(kf_gallery_class_name(g, k), names[k]);
  assert_null(kf_gallery_class_name(g, CLASSES));
  for (uint64_t i = 0; i < w.n; i++) {
    assert_int_equal(kf_gallery_label(g, i), w.labels[i]);
    check_id(g, i, i);
  }
  assert_int_equal(kf_gallery_label(g, w.n), KF_LABEL_NONE);
  assert_int_equal(kf_gallery_label(g, UINT64_MAX), KF_LABEL_NONE);
  assert_null(kf_gallery_id(g, w.n));
  assert_null(kf_gallery_id(g, UINT64_MAX));
}

/* Without model, labels or ids: every metric stores rows unchanged. */
TEST(raw_rows) {
  AUTO(world) w = make_world(50, 7, 3, 1, 2);
  AUTO(kf_data) *data = data_of(w.rows, w.n, w.dim, NULL, 0);
  for (int metric = KF_METRIC_DEFAULT; metric <= KF_METRIC_INNER; metric++) {
    AUTO(kf_gallery) *g = save_and_load(data, NULL, (kf_metric)metric);
    bool cosine = metric <= KF_METRIC_COSINE;
    assert_int_equal(kf_gallery_metric(g), cosine ? KF_METRIC_COSINE : metric);
    assert_int_equal(kf_gallery_mapped(g), 0);
    assert_int_equal(kf_gallery_dim_in(g), 7);
    assert_int_equal(kf_gallery_has_labels(g), 0);
    assert_int_equal(kf_gallery_classes(g), 0);
    assert_int_equal(kf_gallery_label(g, 0), KF_LABEL_NONE);
    assert_null(kf_gallery_id(g, 0));
    AUTO(kf_data) *rows = must_open(at("g.safetensors"), NULL);
    float x[7];
    for (uint64_t i = 0; i < w.n; i++) {
      assert_ok(ctx, kf_data_get(ctx, rows, i, 1, x, NULL));
      assert_memory_equal(x, w.rows + i * 7, sizeof x);
    }
  }
}

/* A model with norms kept uses Euclidean distance by default. */
TEST(default_metric) {
  AUTO(world) w = make_world(90, DIM, 3, 1, 3);
  AUTO(kf_data) *data = data_of(w.rows, w.n, w.dim, NULL, 0);
  AUTO(kf_model) *m = fit_world(&w, 1, KF_CENTRE_NONE);
  AUTO(kf_gallery) *g = save_and_load(data, m, KF_METRIC_DEFAULT);
  assert_int_equal(kf_gallery_metric(g), KF_METRIC_EUCLIDEAN);
}

/* The mean belongs to the map of a model that subtracts it. */
TEST(which_model) {
  AUTO(world) w = make_world(90, DIM, 3, 1, 30);
  AUTO(kf_data) *data = data_of(w.rows, w.n, w.dim, NULL, 0);
  for (int centred = 0; centred < 2; centred++) {
    AUTO(kf_model) *m = fit_world(&w, 0, centred ? KF_CENTRE_MEAN : KF_CENTRE_NONE);
    kf_gallery *g = save_and_load(data, m, KF_METRIC_DEFAULT);
    assert_int_equal(kf_gallery_made_with(g, m), 1);
    m->map.mean[3] = nextafter(m->map.mean[3], 1);
    assert_int_equal(kf_gallery_made_with(g, m), !centred);
    m->map.transform[L * DIM - 1] = nextafter(m->map.transform[L * DIM - 1], 1);
    assert_int_equal(kf_gallery_made_with(g, m), 0);
    kf_gallery_free(g);
    g = save_and_load(data, NULL, KF_METRIC_DEFAULT);
    assert_int_equal(kf_gallery_made_with(g, m), 0);
    kf_gallery_free(g);
  }
}

/* --- appending ------------------------------------------------------------------------------- */

/* Saves rows [first, first + n) of a world, alone or after a gallery. */
static kf_status save_part(const world *w, uint64_t first, uint64_t n, const kf_model *m,
                           uint32_t named, const char *append_to, const char *path) {
  AUTO(kf_data) *data = data_of(w->rows + first * w->dim, n, w->dim, w->labels + first, named);
  kf_gallery_options options = {.ids = write_ids("part.txt", first, n), .append_to = append_to};
  kf_status status = kf_gallery_save(ctx, data, m, &options, path);
  return status;
}

TEST(append_is_one_go) {
  AUTO(world) w = make_world(500, DIM, CLASSES, 2, 4);
  AUTO(kf_model) *m = fit_world(&w, 0, KF_CENTRE_NONE);
  const char *whole = at("whole.safetensors"), *grown = at("grown.safetensors");
  for (int mapped = 0; mapped < 2; mapped++)
    for (uint32_t named = 0; named <= CLASSES; named += CLASSES) {
      const kf_model *model = mapped ? m : NULL;
      assert_ok(ctx, save_part(&w, 0, 500, model, named, NULL, whole));
      assert_ok(ctx, save_part(&w, 0, 123, model, named, NULL, grown));
      assert_ok(ctx, save_part(&w, 123, 1, NULL, named, grown, grown)); /* onto itself */
      assert_ok(ctx, save_part(&w, 124, 376, NULL, named, grown, at("more.safetensors")));
      assert_same_file(whole, at("more.safetensors"));
    }
}

/* Old labels stay; new classes follow the old ones. */
TEST(append_other_classes) {
  float rows[] = {1, 0, 0, 1, 1, 1, 2, 1};
  int32_t first[] = {1, 0, -1, 1}, then[] = {0, 1, 2, -1};
  static const char *const more[] = {"gnu", "bee", "hen"};
  AUTO(kf_data) *a = data_of(rows, 4, 2, first, 2), *b = NULL;
  assert_ok(ctx, kf_data_open_memory(ctx, rows, 4, 2, then, more, 3, &b));
  const char *path = at("classes.safetensors");
  assert_ok(ctx, kf_gallery_save(ctx, a, NULL, NULL, path));
  assert_ok(ctx, kf_gallery_save(ctx, b, NULL, &(kf_gallery_options){.append_to = path}, path));
  AUTO(kf_gallery) *g = load(path, 0);
  static const char *const all[] = {"ant", "bee", "gnu", "hen"};
  static const int32_t labels[] = {1, 0, -1, 1, 2, 1, 3, -1};
  assert_int_equal(kf_gallery_classes(g), 4);
  for (uint32_t k = 0; k < 4; k++) assert_string_equal(kf_gallery_class_name(g, k), all[k]);
  for (uint64_t i = 0; i < 8; i++) assert_int_equal(kf_gallery_label(g, i), labels[i]);
}

static void assert_unappendable(const kf_data *data, const kf_model *model, kf_metric metric,
                                const char *ids, kf_status status, const char *cause) {
  const char *base = at("base.safetensors"), *out = at("not-there.safetensors");
  kf_gallery_options options = {.metric = metric, .ids = ids, .append_to = base};
  assert_error(ctx, status, cause, kf_gallery_save(ctx, data, model, &options, out));
  assert_int_not_equal(access(out, F_OK), 0);
}

TEST(append_what_does_not_fit) {
  AUTO(world) w = make_world(40, DIM, CLASSES, 1, 5);
  AUTO(kf_model) *m = fit_world(&w, 0, KF_CENTRE_NONE);
  AUTO(kf_data) *named = data_of(w.rows, 40, DIM, w.labels, CLASSES);
  AUTO(kf_data) *numbers = data_of(w.rows, 40, DIM, w.labels, 0);
  AUTO(kf_data) *bare = data_of(w.rows, 40, DIM, NULL, 0),
                *narrow = data_of(w.rows, 40, L, w.labels, 0);
  const char *ids = write_ids("base.txt", 0, 40);
  assert_ok(ctx, kf_gallery_save(ctx, named, m, &(kf_gallery_options){.ids = ids},
                                 at("base.safetensors")));
  assert_unappendable(numbers, NULL, 0, ids, KF_ERR_DATA, "only numbers");
  assert_unappendable(bare, NULL, 0, ids, KF_ERR_DATA, "has labels");
  assert_unappendable(named, NULL, 0, NULL, KF_ERR_DATA, "has ids");
  assert_unappendable(named, m, 0, ids, KF_ERR_ARG, "its own map");
  assert_unappendable(named, NULL, KF_METRIC_INNER, ids, KF_ERR_ARG, "'cosine'");
  assert_unappendable(narrow, NULL, 0, ids, KF_ERR_DATA, "has 9 columns, but the gallery takes 24");
  assert_unappendable(named, NULL, 0, write_ids("few.txt", 0, 39), KF_ERR_DATA, "39 ids for 40");
  assert_unappendable(named, NULL, 0, write_ids("many.txt", 0, 99), KF_ERR_DATA, "99 ids for 40");
  assert_unappendable(named, NULL, 0, write_text("empty.txt", "a\n\nb\n"), KF_ERR_DATA,
                      "line 2 is empty");
  assert_unappendable(named, NULL, 0, write_text("latin.txt", "a\n\xE9\n"), KF_ERR_DATA, "UTF-8");
}

/* Bad rows are skipped with their labels and ids; appending gives the gallery of the good rows. */
TEST(bad_rows_left_out) {
  AUTO(world) w = make_world(60, 5, 3, 1, 6);
  static const uint64_t bad[] = {0, 7, 8, 31, 59};
  for (int b = 0; b < 5; b++) memset(w.rows + bad[b] * 5, 0, 5 * sizeof *w.rows);
  w.rows[7 * 5 + 2] = NAN;
  w.rows[31 * 5] = INFINITY;
  AUTO(kf_data) *data = data_of(w.rows, w.n, 5, w.labels, 3);
  data->skip_bad = true;
  const char *path = at("good.safetensors");
  kf_gallery_options options = {.ids = write_ids("good.txt", 0, 60)};
  assert_ok(ctx, kf_gallery_save(ctx, data, NULL, &options, path));
  options.append_to = path;
  assert_ok(ctx, kf_gallery_save(ctx, data, NULL, &options, path));
  AUTO(kf_gallery) *g = load(path, 0);
  assert_int_equal(kf_gallery_rows(g), 110);
  uint64_t row = 0;
  for (int twice = 0; twice < 2; twice++)
    for (uint64_t i = 0; i < 60; i++) {
      bool left_out = false;
      for (int b = 0; b < 5; b++) left_out |= bad[b] == i;
      if (left_out) continue;
      assert_int_equal(kf_gallery_label(g, row), w.labels[i]);
      check_id(g, row++, i);
    }
  data->skip_bad = false;
  assert_error(ctx, KF_ERR_DATA, "row 0", kf_gallery_save(ctx, data, NULL, NULL, path));
  memset(w.rows, 0, w.n * 5 * sizeof *w.rows);
  data->skip_bad = true;
  assert_error(ctx, KF_ERR_DATA, "all 60 rows", kf_gallery_save(ctx, data, NULL, NULL, path));
}

TEST(refused_outputs) {
  AUTO(world) w = make_world(30, 4, 3, 1, 7);
  AUTO(kf_data) *data = data_of(w.rows, w.n, 4, w.labels, 0), *file = NULL;
  const char *set = at("set.safetensors"), *ids = write_ids("ids.safetensors", 0, 30);
  assert_ok(ctx, kf_data_save(ctx, data, KF_F32, set));
  file = must_open(set, NULL);
  assert_error(ctx, KF_ERR_ARG, "is both an input and the output",
               kf_gallery_save(ctx, file, NULL, NULL, set));
  assert_error(ctx, KF_ERR_ARG, "is both an input and the output",
               kf_gallery_save(ctx, file, NULL, &(kf_gallery_options){.ids = ids}, ids));
  assert_error(ctx, KF_ERR_ARG, "must end in .safetensors",
               kf_gallery_save(ctx, data, NULL, NULL, at("g.bin")));
  assert_error(
      ctx, KF_ERR_ARG, "invalid metric",
      kf_gallery_save(ctx, data, NULL, &(kf_gallery_options){.metric = (kf_metric)4}, set));
}

/* A row mapped to zero has no direction, but is a valid point. */
TEST(mapped_to_zero) {
  AUTO(world) w = make_world(80, DIM, 4, 1, 8);
  AUTO(kf_model) *m = fit_world(&w, 1, KF_CENTRE_MEAN);
  for (uint32_t d = 0; d < DIM; d++) m->map.mean[d] = (double)w.rows[17 * DIM + d];
  AUTO(kf_data) *data = data_of(w.rows, w.n, DIM, w.labels, 0);
  kf_gallery_options options = {.metric = KF_METRIC_COSINE};
  assert_error(ctx, KF_ERR_DATA, "row 17: is mapped to zero",
               kf_gallery_save(ctx, data, m, &options, at("zero.safetensors")));
  AUTO(kf_gallery) *g = save_and_load(data, m, KF_METRIC_EUCLIDEAN);
  int64_t found;
  double distance;
  assert_ok(ctx, kf_gallery_search(ctx, g, w.rows + 17 * DIM, 1, 1, NULL, &found, &distance, NULL));
  assert_int_equal(found, 17);
  assert_true(distance == 0);
  /* So is a query of zeros: it maps to T (0 - mean). */
  float zero[DIM] = {0}, z[L];
  for (int l = 0; l < L; l++) {
    double sum = 0;
    for (int d = 0; d < DIM; d++) sum -= m->map.transform[l * DIM + d] * m->map.mean[d];
    z[l] = (float)sum;
  }
  int64_t by_index;
  double by_hand = 0;
  assert_ok(ctx, kf_gallery_search(ctx, g, zero, 1, 1, NULL, &found, &distance, NULL));
  assert_ok(ctx, kf_search(ctx, kf_gallery_index(g), z, 1, 1, NULL, &by_index, &by_hand, NULL));
  assert_int_equal(found, by_index);
  assert_true(fabs(distance - by_hand) < 1e-5 * by_hand);
}

/* Rows in f16: rounded to nearest even, half the size; rows that do not fit are refused by
 * number. */
TEST(half_rows) {
  /* Halfway between two f16, to the even one: down, up; the least f16, and half of it. */
  float rows[3][4] = {
      {1 + 0x1p-11f, 1 + 0x3p-11f, 0x1p-24f, 0x1p-25f}, {65504, -2, 3, 4}, {1, 2, 3, 4}};
  const float rounded[3][4] = {{1, 1 + 0x1p-9f, 0x1p-24f, 0}, {65504, -2, 3, 4}, {1, 2, 3, 4}};
  kf_gallery_options half = {.metric = KF_METRIC_COSINE, .dtype = KF_F16}, whole = {0};
  const char *path = at("f16.safetensors"), *other = at("f32.safetensors");
  kf_data *data = data_of(rows[0], 3, 4, NULL, 0), *read;
  float found[6][4];
  kf_gallery *g;
  assert_ok(ctx, kf_gallery_save(ctx, data, NULL, &half, path));
  read = must_open(path, NULL);
  assert_ok(ctx, kf_data_get(ctx, read, 0, 3, found[0], NULL));
  assert_memory_equal(found, rounded, sizeof rounded);
  kf_data_free(read);
  /* Appended rows take the type of the gallery. */
  whole.append_to = path;
  assert_ok(ctx, kf_gallery_save(ctx, data, NULL, &whole, path));
  read = must_open(path, NULL);
  assert_ok(ctx, kf_data_get(ctx, read, 0, 6, found[0], NULL));
  for (int i = 0; i < 6; i++) assert_memory_equal(found[i], rounded[i % 3], sizeof rounded[0]);
  kf_data_free(read);
  g = load(path, 0);
  assert_int_equal(kf_gallery_dtype(g), KF_F16);
  uint64_t bytes = kf_index_bytes(kf_gallery_index(g));
  kf_gallery_free(g);
  whole.append_to = NULL;
  assert_ok(ctx, kf_gallery_save(ctx, data, NULL, &whole, other));
  half.append_to = other;
  assert_error(ctx, KF_ERR_ARG, "rows are f32", kf_gallery_save(ctx, data, NULL, &half, other));
  whole.append_to = other;
  assert_ok(ctx, kf_gallery_save(ctx, data, NULL, &whole, other));
  g = load(other, 0);
  assert_int_equal(kf_index_bytes(kf_gallery_index(g)), bytes + 6 * 4 * 2);
  kf_gallery_free(g);
  /* Too large, and zero in f16. */
  half.append_to = NULL;
  rows[1][2] = 65520;
  assert_error(ctx, KF_ERR_DATA, "row 1: column 2 is 65520, too large for f16",
               kf_gallery_save(ctx, data, NULL, &half, other));
  assert_error(ctx, KF_ERR_DATA, "row 1: column 2 is 65520, too large for f16",
               kf_gallery_new(ctx, data, NULL, &half, &g));
  rows[1][2] = 3;
  for (int i = 0; i < 4; i++) rows[2][i] = 0x1p-26f;
  assert_error(ctx, KF_ERR_DATA, "row 2: is zero in f16",
               kf_gallery_save(ctx, data, NULL, &half, other));
  assert_error(ctx, KF_ERR_DATA, "row 2: is zero in f16",
               kf_gallery_new(ctx, data, NULL, &half, &g));
  half.dtype = KF_F64;
  assert_error(ctx, KF_ERR_ARG, "f32, f16 or bf16, not f64",
               kf_gallery_save(ctx, data, NULL, &half, other));
  half.dtype = (kf_dtype)9;
  assert_error(ctx, KF_ERR_ARG, "invalid dtype 9", kf_gallery_new(ctx, data, NULL, &half, &g));
  kf_data_free(data);
}

/* The same in bf16, whose range is that of f32. */
TEST(brain_rows) {
  /* Halfway between two bf16, to the even one: down, up; the least bf16, and half of it. */
  float rows[2][4] = {{1 + 0x1p-8f, 1 + 0x3p-8f, 0x1p-133f, 0x1p-134f}, {65520, -2, 3, 0x1p+100f}};
  const float rounded[2][4] = {{1, 1 + 0x1p-6f, 0x1p-133f, 0}, {65536, -2, 3, 0x1p+100f}};
  kf_gallery_options brain = {.metric = KF_METRIC_COSINE, .dtype = KF_BF16}, whole = {0};
  kf_gallery_options half = {.dtype = KF_F16};
  const char *path = at("bf16.safetensors");
  kf_data *data = data_of(rows[0], 2, 4, NULL, 0), *read;
  float found[4][4];
  kf_gallery *g;
  assert_ok(ctx, kf_gallery_save(ctx, data, NULL, &brain, path));
  whole.append_to = half.append_to = path;
  assert_error(ctx, KF_ERR_ARG, "rows are bf16, so rows cannot be added in f16",
               kf_gallery_save(ctx, data, NULL, &half, path));
  rows[0][0] = 1; /* another batch */
  assert_ok(ctx, kf_gallery_save(ctx, data, NULL, &whole, path));
  for (int compact = 0; compact < 2; compact++) {
    if (compact) assert_ok(ctx, kf_gallery_compact(ctx, path, NULL));
    read = must_open(path, NULL);
    assert_ok(ctx, kf_data_get(ctx, read, 0, 4, found[0], NULL));
    for (int i = 0; i < 4; i++) assert_memory_equal(found[i], rounded[i % 2], sizeof rounded[0]);
    kf_data_free(read);
  }
  g = load(path, 0);
  assert_int_equal(kf_gallery_dtype(g), KF_BF16);
  kf_gallery_free(g);
  rows[1][3] = 3.4e38f;
  assert_error(ctx, KF_ERR_DATA, "row 1: column 3 is 3.4e+38, too large for bf16",
               kf_gallery_new(ctx, data, NULL, &brain, &g));
  rows[1][3] = 1;
  for (int i = 0; i < 4; i++) rows[0][i] = 0x1p-140f;
  assert_error(ctx, KF_ERR_DATA, "row 0: is zero in bf16",
               kf_gallery_save(ctx, data, NULL, &brain, at("other.safetensors")));
  assert_error(ctx, KF_ERR_DATA, "row 0: is zero in bf16",
               kf_gallery_new(ctx, data, NULL, &brain, &g));
  kf_data_free(data);
}

/* Stops before anything is done. */
static int stop(void *user, const char *what, uint64_t done, uint64_t total) {
  (void)total;
  return done == 0 && strcmp(what, user) == 0;
}

static kf_ctx *stopping(const char *what) {
  kf_ctx *stopped;
  kf_ctx_options options = {.threads = 2, .progress = stop, .user = (void *)(uintptr_t)what};
  assert_int_equal(kf_ctx_new(&options, &stopped), KF_OK);
  return stopped;
}

TEST(cancelled) {
  AUTO(world) w = make_world(40, 4, 3, 1, 9);
  AUTO(kf_data) *data = data_of(w.rows, w.n, 4, w.labels, 0);
  const char *path = at("cancelled.safetensors"), *half = at("half.safetensors");
  AUTO(kf_ctx) *indexing = stopping("index"), *copying = stopping("copy"),
               *scoring = stopping("eval k-NN");
  assert_int_equal(kf_gallery_save(indexing, data, NULL, NULL, path), KF_ERR_CANCELLED);
  assert_int_not_equal(access(path, F_OK), 0);
  assert_ok(ctx, kf_gallery_save(ctx, data, NULL, NULL, path));
  kf_gallery_options options = {.append_to = path};
  assert_int_equal(kf_gallery_save(copying, data, NULL, &options, half), KF_ERR_CANCELLED);
  assert_int_not_equal(access(half, F_OK), 0);
  AUTO(kf_gallery) *g = load(path, 0);
  kf_eval_result counts;
  kf_hits hits;
  assert_int_equal(kf_gallery_eval(scoring, g, data, NULL, &counts, &hits, NULL), KF_ERR_CANCELLED);
  assert_int_equal(kf_gallery_eval(scoring, g, NULL, NULL, &counts, &hits, NULL), KF_ERR_CANCELLED);
}

TEST(metric_names) {
  assert_string_equal(kf_metric_name(KF_METRIC_DEFAULT), "default");
  assert_string_equal(kf_metric_name(KF_METRIC_COSINE), "cosine");
  assert_string_equal(kf_metric_name(KF_METRIC_EUCLIDEAN), "euclidean");
  assert_string_equal(kf_metric_name(KF_METRIC_INNER), "inner");
  assert_null(kf_metric_name((kf_metric)(KF_METRIC_INNER + 1)));
  assert_null(kf_metric_name((kf_metric)-1));
}

FIXTURES(.before = make_test_folder, .after = remove_test_folder);
