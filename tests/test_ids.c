/* test_ids.c - ids of rows inside data sets: read, kept, left out with their rows, taken to
 * galleries; and what is refused. */
#include "files.h"

#include "file/file.h"

enum { ROWS = 700, DIM = 3 };

/* The id of row i; long and short ones, more than are read at a time. */
static const char *name_of(uint64_t i) {
  static char name[600];
  int n = snprintf(name, sizeof name, "p\xc3\xa4th/%d/", (int)i);
  if (i % 50 == 7) {
    memset(name + n, 'x', 500);
    name[n + 500] = '\0';
  }
  return name;
}

/* A data set of rows [first, first + n); row 5 of the whole is bad. */
static const char *write_set(const char *file, uint64_t first, uint64_t n, bool ids) {
  const char *path = at(file);
  kf_err err = {0};
  kf_stw *w;
  assert_int_equal(kf_stw_open(NULL, path, false, &w, &err), KF_OK);
  int64_t end = 0;
  for (uint64_t i = 0; i < n; i++) end += (int64_t)strlen(name_of(first + i));
  uint64_t bytes = (uint64_t)end;
  if (ids) assert_int_equal(kf_stw_declare(w, "id_ends", KF_TYPE_I64, 1, &n, &err), KF_OK);
  assert_int_equal(kf_stw_declare(w, "embeddings", KF_TYPE_F32, 2, (uint64_t[]){n, DIM}, &err),
                   KF_OK);
  if (ids) assert_int_equal(kf_stw_declare(w, "id_bytes", KF_TYPE_U8, 1, &bytes, &err), KF_OK);
  end = 0;
  for (uint64_t i = 0; ids && i < n; i++) {
    end += (int64_t)strlen(name_of(first + i));
    assert_int_equal(kf_stw_write(w, &end, sizeof end, &err), KF_OK);
  }
  for (uint64_t i = 0; i < n; i++) {
    float row[DIM] = {(float)(first + i + 1), 1, 2};
    if (first + i == 5) memset(row, 0, sizeof row);
    assert_int_equal(kf_stw_write(w, row, sizeof row, &err), KF_OK);
  }
  for (uint64_t i = 0; ids && i < n; i++)
    assert_int_equal(kf_stw_write(w, name_of(first + i), strlen(name_of(first + i)), &err), KF_OK);
  assert_int_equal(kf_stw_commit(w, &err), KF_OK);
  return path;
}

static kf_data *open_paths(const char *const *paths, size_t n) {
  kf_data *data = NULL;
  assert_ok(ctx, kf_data_open(ctx, paths, n, &(kf_data_options){.skip_bad = 1}, &data));
  return data;
}

static void check_id(const kf_data *data, uint64_t row, uint64_t of) {
  char id[1024];
  assert_ok(ctx, kf_data_get_id(ctx, data, row, id, sizeof id));
  assert_string_equal(id, name_of(of));
}

TEST(read_by_position) {
  const char *paths[] = {write_set("a.safetensors", 0, 300, true),
                         write_set("b.safetensors", 300, ROWS - 300, true)};
  kf_data *data = open_paths(paths, 2);
  assert_true(kf_data_has_ids(data));
  for (uint64_t i = 0; i < ROWS; i++) check_id(data, i, i);
  char small[8];
  assert_error(ctx, KF_ERR_ARG, "row 0", kf_data_get_id(ctx, data, 0, small, sizeof small));
  assert_error(ctx, KF_ERR_ARG, "row 700", kf_data_get_id(ctx, data, ROWS, small, sizeof small));
  kf_data_free(data);
  paths[1] = write_set("c.safetensors", 300, 10, false); /* not all have ids */
  data = open_paths(paths, 2);
  assert_false(kf_data_has_ids(data));
  assert_error(ctx, KF_ERR_ARG, "no id", kf_data_get_id(ctx, data, 0, small, sizeof small));
  kf_data_free(data);
}

/* The bad row is left out together with its id. */
TEST(kept_by_saving) {
  const char *paths[] = {write_set("a.safetensors", 0, 300, true),
                         write_set("b.safetensors", 300, ROWS - 300, true)};
  const char *out = at("out.safetensors"), *again = at("again.safetensors");
  kf_data *data = open_paths(paths, 2);
  assert_ok(ctx, kf_data_save(ctx, data, KF_F16, out));
  kf_data_free(data);
  data = open_paths(&out, 1);
  assert_int_equal(kf_data_rows(data), ROWS - 1);
  for (uint64_t i = 0; i < ROWS - 1; i++) check_id(data, i, i < 5 ? i : i + 1);
  assert_ok(ctx, kf_data_save(ctx, data, KF_F16, again));
  kf_data_free(data);
  assert_same_file(out, again);
}

TEST(taken_to_galleries) {
  const char *one = write_set("a.safetensors", 0, 300, true),
             *two = write_set("b.safetensors", 300, ROWS - 300, true),
             *none = write_set("c.safetensors", 0, 10, false), *out = at("g.safetensors"),
             *grown = at("h.safetensors"), *plain = at("p.safetensors");
  AUTO(kf_data) *a = open_paths(&one, 1), *b = open_paths(&two, 1), *c = open_paths(&none, 1);
  assert_ok(ctx, kf_gallery_save(ctx, a, NULL, NULL, out));
  kf_gallery_options append = {.append_to = out};
  assert_ok(ctx, kf_gallery_save(ctx, b, NULL, &append, grown));
  kf_gallery *g;
  assert_ok(ctx, kf_gallery_load(ctx, grown, NULL, &g));
  assert_int_equal(kf_gallery_rows(g), ROWS - 1);
  for (uint64_t i = 0; i < ROWS - 1; i++)
    assert_string_equal(kf_gallery_id(g, i), name_of(i < 5 ? i : i + 1));
  kf_gallery_free(g);
  assert_error(ctx, KF_ERR_DATA, "have none", kf_gallery_save(ctx, c, NULL, &append, grown));
  /* A gallery without ids stays one without. */
  assert_ok(ctx, kf_gallery_save(ctx, c, NULL, NULL, plain));
  append.append_to = plain;
  assert_ok(ctx, kf_gallery_save(ctx, a, NULL, &append, grown));
  assert_ok(ctx, kf_gallery_load(ctx, grown, NULL, &g));
  assert_null(kf_gallery_id(g, 0));
  kf_gallery_free(g);
}

TEST(described) {
  for (int ids = 0; ids < 2; ids++) {
    const char *path = write_set("a.safetensors", 0, 10, ids);
    AUTO(kf_info) *info = NULL;
    assert_ok(ctx, kf_info_read(ctx, path, &info));
    assert_int_equal(info->ids, ids);
  }
}

/* --- bad files -------------------------------------------------------------------------------- */

static const char *write_bad(const int64_t ends[2], uint64_t n_ends, const char *bytes, size_t n) {
  const char *path = at("bad.safetensors");
  static const float rows[] = {1, 2, 3, 4};
  kf_err err = {0};
  kf_stw *w;
  uint64_t size = n;
  assert_int_equal(kf_stw_open(NULL, path, false, &w, &err), KF_OK);
  if (n_ends > 0)
    assert_int_equal(kf_stw_declare(w, "id_ends", KF_TYPE_I64, 1, &n_ends, &err), KF_OK);
  assert_int_equal(kf_stw_declare(w, "embeddings", KF_TYPE_F32, 2, (uint64_t[]){2, 2}, &err),
                   KF_OK);
  assert_int_equal(kf_stw_declare(w, "id_bytes", KF_TYPE_U8, 1, &size, &err), KF_OK);
  if (n_ends > 0) assert_int_equal(kf_stw_write(w, ends, n_ends * sizeof *ends, &err), KF_OK);
  assert_int_equal(kf_stw_write(w, rows, sizeof rows, &err), KF_OK);
  assert_int_equal(kf_stw_write(w, bytes, n, &err), KF_OK);
  assert_int_equal(kf_stw_commit(w, &err), KF_OK);
  return path;
}

TEST(bad_ids) {
  static char long_one[70000];
  memset(long_one, 'x', sizeof long_one);
  const struct {
    int64_t ends[2];
    const char *bytes;
    size_t n;
    const char *words;
  } cases[] = {
      {{2, 2}, "ab", 2, "the id of row 1 goes from byte 2 to 2"},
      {{0, 2}, "ab", 2, "the id of row 0"},
      {{-1, 2}, "ab", 2, "the id of row 0"},
      {{1, 3}, "ab", 2, "the id of row 1"},
      {{1, INT64_MAX}, "ab", 2, "the id of row 1"},
      {{INT64_MIN, 2}, "ab", 2, "the id of row 0"},
      {{1, 2}, "a\xff", 2, "the id of row 1 is not valid UTF-8"},
      {{1, 3}, "a\0b", 3, "the id of row 1 is not valid UTF-8"},
      {{1, 70000}, long_one, 70000, "the id of row 1"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const char *path = write_bad(cases[i].ends, 2, cases[i].bytes, cases[i].n);
    AUTO(kf_data) *data = open_paths(&path, 1);
    assert_error(ctx, KF_ERR_DATA, cases[i].words,
                 kf_data_save(ctx, data, KF_F32, at("out.safetensors")));
    assert_int_equal(access(at("out.safetensors"), F_OK), -1);
  }
  const char *path = write_bad((const int64_t[2]){1, 2}, 1, "ab", 2);
  kf_data *data = NULL;
  assert_error(ctx, KF_ERR_DATA, "id_ends", kf_data_open(ctx, &path, 1, NULL, &data));
  path = write_bad(NULL, 0, "ab", 2);
  assert_error(ctx, KF_ERR_DATA, "id_ends", kf_data_open(ctx, &path, 1, NULL, &data));
}

FIXTURES(.before_each = make_test_folder, .after_each = remove_test_folder);
