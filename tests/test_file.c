/* test_file.c - good data sets: formats, types, shards, labels, classes,
 * writing, passes over rows. Bad files are in test_file_bad.c. */
#include "files.h"

#include "file/file_internal.h"

#include <math.h>
#include <stdatomic.h>
#include <sys/stat.h>

static const float six[6] = {1, 2, 3, 4, 5, -6.5F};

/* The data set holds exactly these rows and (NULL: no) labels, in one block and row by row. */
static void assert_rows(const kf_data *data, uint64_t n, uint32_t dim, const float *rows,
                        const int32_t *labels) {
  assert_int_equal(kf_data_rows(data), n);
  assert_int_equal(kf_data_dim(data), dim);
  assert_int_equal(kf_data_has_labels(data), labels != NULL);
  AUTOFREE float *got = malloc(n * dim * sizeof *got);
  AUTOFREE int32_t *got_labels = malloc(n * sizeof *got_labels);
  for (int single = 0; single < 2; single++) {
    memset(got, 0xAA, n * dim * sizeof *got);
    uint64_t step = single ? 1 : n;
    for (uint64_t i = 0; i < n; i += step) {
      kf_status status = kf_data_get(ctx, data, i, step, got + i * dim, got_labels + i);
      if (status != KF_OK) fail_msg("%s", kf_errmsg(ctx));
    }
    assert_memory_equal(got, rows, n * dim * sizeof *got);
    for (uint64_t i = 0; i < n; i++)
      assert_int_equal(got_labels[i], labels != NULL ? labels[i] : KF_LABEL_NONE);
  }
}

static void assert_file(const char *path, const kf_data_options *options, uint64_t n, uint32_t dim,
                        const float *rows, const int32_t *labels) {
  AUTO(kf_data) *data = must_open(path, options);
  assert_rows(data, n, dim, rows, labels);
}

/* --- formats --------------------------------------------------------------------------------- */

TEST(npy_types) {
  const uint16_t f16[6] = {0x3C00, 0x4000, 0x4200, 0x4400, 0x4500, 0xC680};
  const double f64[6] = {1, 2, 3, 4, 5, -6.5};
  assert_file(write_npy("a.npy", "<f4", "(2, 3)", six, sizeof six), NULL, 2, 3, six, NULL);
  assert_file(write_npy("a.npy", "<f2", "(2, 3)", f16, sizeof f16), NULL, 2, 3, six, NULL);
  assert_file(write_npy("a.npy", "<f8", "(3, 2)", f64, sizeof f64), NULL, 3, 2, six, NULL);
}

TEST(npy_headers) {
  const char *dict[] = {
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }   \n",
      "{\"shape\":(2,3,),\"fortran_order\":False,\"descr\":\"<f4\"}",
  };
  for (int version = 1; version <= 3; version++) {
    for (int i = 0; i < 2; i++) {
      const char *path = write_npy_header("v.npy", version, dict[i], six, sizeof six);
      assert_file(path, NULL, 2, 3, six, NULL);
    }
  }
}

TEST(npy_fortran) {
  /* Many rows, so a column is read in several steps. */
  enum { N = 20000, D = 3 };
  AUTOFREE double *columns = malloc(sizeof(double) * N * D);
  AUTOFREE float *rows = malloc(sizeof(float) * N * D);
  for (int i = 0; i < N; i++) {
    for (int j = 0; j < D; j++) {
      rows[i * D + j] = (float)(i * D + j + 1);
      columns[j * N + i] = i * D + j + 1;
    }
  }
  const char *dict = "{'descr': '<f8', 'fortran_order': True, 'shape': (20000, 3), }\n";
  const char *path = write_npy_header("f.npy", 1, dict, columns, sizeof(double) * N * D);
  assert_file(path, NULL, N, D, rows, NULL);
}

TEST(safetensors_types) {
  const uint16_t bf16[6] = {0x3F80, 0x4000, 0x4040, 0x4080, 0x40A0, 0xC0D0};
  const uint16_t f16[6] = {0x3C00, 0x4000, 0x4200, 0x4400, 0x4500, 0xC680};
  const double f64[6] = {1, 2, 3, 4, 5, -6.5};
  const struct {
    const char *json;
    const void *data;
    size_t n;
  } file[] = {
      {"{\"embeddings\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}", six, 24},
      {"{\"only\":{\"dtype\":\"F16\",\"shape\":[2,3],\"data_offsets\":[0,12]}}  ", f16, 12},
      {"{\"x\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[0,12]}}", bf16, 12},
      {"{\"x\":{\"dtype\":\"F64\",\"shape\":[2,3],\"data_offsets\":[0,48]}}", f64, 48},
  };
  for (size_t i = 0; i < 4; i++)
    assert_file(write_st("t.safetensors", file[i].json, file[i].data, file[i].n), NULL, 2, 3, six,
                NULL);
}

TEST(safetensors_tensor_names) {
  const float two[2][6] = {{1, 2, 3, 4, 5, -6.5F}, {9, 8, 7, 6, 5, 4}};
  const char *json = "{\"image\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
                     "\"text\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[24,48]}}";
  const char *path = write_st("two.safetensors", json, two, sizeof two);
  assert_file(path, &(kf_data_options){.tensor = "text"}, 2, 3, two[1], NULL);
  assert_refused(path, NULL, KF_ERR_DATA, "2 others");
  assert_refused(path, &(kf_data_options){.tensor = "x"}, KF_ERR_DATA, "no tensor 'x'");
}

TEST(vecs) {
  int32_t fvecs[8] = {3, 0, 0, 0, 3, 0, 0, 0}, fbin[8] = {2, 3};
  memcpy(fvecs + 1, six, 12);
  memcpy(fvecs + 5, six + 3, 12);
  memcpy(fbin + 2, six, 24);
  assert_file(write_bytes("a.fvecs", fvecs, sizeof fvecs), NULL, 2, 3, six, NULL);
  assert_file(write_bytes("a.fbin", fbin, sizeof fbin), NULL, 2, 3, six, NULL);
}

/* Rows wider than the buffer. */
TEST(wide_fvecs) {
  enum { N = 3, D = 20001 };
  AUTOFREE float *rows = malloc(sizeof(float) * N * D);
  AUTOFREE int32_t *words = malloc(sizeof(int32_t) * N * (D + 1));
  for (int i = 0; i < N * D; i++) rows[i] = (float)i + 0.5F;
  for (int i = 0; i < N; i++) {
    words[i * (D + 1)] = D;
    memcpy(words + i * (D + 1) + 1, rows + i * D, sizeof(float) * D);
  }
  const char *path = write_bytes("wide.fvecs", words, sizeof(int32_t) * N * (D + 1));
  assert_file(path, NULL, N, D, rows, NULL);
  words[2 * (D + 1)] = D - 1;
  path = write_bytes("wide.fvecs", words, sizeof(int32_t) * N * (D + 1));
  AUTO(kf_data) *data = must_open(path, NULL);
  assert_int_equal(kf_data_get(ctx, data, 0, 2, rows, NULL), KF_OK);
  assert_failed(kf_data_get(ctx, data, 0, 3, rows, NULL), KF_ERR_DATA, path,
                "row 2 says it has 20000 columns");
}

/* --- shards ---------------------------------------------------------------------------------- */

static void write_shards(void) {
  mkdir(at("shards"), 0777);
  int32_t fbin[4] = {1, 2};
  memcpy(fbin + 2, six + 4, 8);
  write_npy("shards/a2.npy", "<f4", "(1, 2)", six, 8);
  write_npy("shards/a10.npy", "<f4", "(1, 2)", six + 2, 8);
  write_bytes("shards/b.fbin", fbin, sizeof fbin);
  write_text("shards/notes.txt", "not a data file");
  write_text("shards/.hidden.npy", "not looked at");
}

static kf_status count_match(void *n, const char *path, kf_err *err) {
  (void)err;
  struct stat info;
  assert_int_equal(lstat(path, &info), 0);
  ++*(int *)n;
  return KF_OK;
}

TEST(patterns) {
  static const struct {
    const char *pattern;
    int n;
  } cases[] = {{"p/*", 4},          {"p/*/*", 4},          {"p/d?/a*", 3},
               {"p//d[12]//a1", 2}, {"p/*/.*", 1 + 2 * 2}, {"p/d1/\\*", 1},
               {"p/[!d]", 2},       {"p/d1/a1", 1},        {"p/d1/a1/*", 0},
               {"absent/*", 0},     {"p/*/absent", 0},     {"p/d2/", 1}};
  mkdir(at("p"), 0777);
  mkdir(at("p/d1"), 0777);
  mkdir(at("p/d2"), 0777);
  static const char *const files[] = {"p/x",    "p/y",     "p/d1/a1", "p/d1/a2",
                                      "p/d1/*", "p/d2/a1", "p/d2/.a"};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) write_text(files[i], "x");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int n = 0;
    kf_err err = {0};
    assert_int_equal(kf_match_paths(at(cases[i].pattern), count_match, &n, &err), KF_OK);
    if (n != cases[i].n) fail_msg("%s: %d matches instead of %d", cases[i].pattern, n, cases[i].n);
  }
}

TEST(shards) {
  write_shards();
  const char *whole[] = {at("shards")}, *slash[] = {at("shards/")};
  const char *globs[] = {at("shards/*.npy"), at("shards/b.fbin")};
  const char *files[] = {at("shards/a2.npy"), at("shards/a10.npy"), at("shards/b.fbin")};
  const struct {
    const char *const *paths;
    size_t n;
  } ways[] = {{whole, 1}, {slash, 1}, {globs, 2}, {files, 3}};
  for (size_t i = 0; i < 4; i++) {
    AUTO(kf_data) *data = NULL;
    assert_int_equal(kf_data_open(ctx, ways[i].paths, ways[i].n, NULL, &data), KF_OK);
    assert_rows(data, 3, 2, six, NULL);
  }
}

/* A file whose name looks like a pattern. */
TEST(literal_brackets) {
  assert_file(write_npy("a[1].npy", "<f4", "(3, 2)", six, 24), NULL, 3, 2, six, NULL);
}

TEST(shard_labels) {
  write_shards();
  const char *paths[] = {at("shards")};
  const int32_t expected[3] = {1, 0, 1};
  const char *each[3] = {write_text("l1.txt", "b"), write_text("l2.txt", "a\n"),
                         write_text("l3.txt", "b\r\n")};
  const char *all[1] = {write_text("l.txt", "b\na\nb\n")};
  for (int i = 0; i < 2; i++) {
    kf_data_options options = {.labels = i ? all : each, .n_labels = i ? 1 : 3};
    AUTO(kf_data) *data = NULL;
    assert_int_equal(kf_data_open(ctx, paths, 1, &options, &data), KF_OK);
    assert_rows(data, 3, 2, six, expected);
    assert_int_equal(kf_data_classes(data), 2);
    assert_string_equal(kf_data_class_name(data, 1), "b");
  }
}

/* Patterns of label files: in the order of numbers; a file by that name is a file; a pattern
 * without a match fails as a missing file does. */
TEST(label_patterns) {
  write_shards();
  mkdir(at("lp"), 0777);
  write_text("lp/l2.txt", "b");
  write_text("lp/l10.txt", "a");
  write_text("lp/m.txt", "b");
  write_text("lp/[l]*.txt", "a\na\na\n");
  const char *paths[] = {at("shards")};
  const char *two[] = {at("lp/l*.txt"), at("lp/m.txt")}, *literal[] = {at("lp/[l]*.txt")};
  const int32_t expected[3] = {1, 0, 1}, zeros[3] = {0};
  for (int i = 0; i < 2; i++) {
    kf_data_options options = {.labels = i ? literal : two, .n_labels = i ? 1 : 2};
    AUTO(kf_data) *data = NULL;
    assert_ok(ctx, kf_data_open(ctx, paths, 1, &options, &data));
    assert_rows(data, 3, 2, six, i ? zeros : expected);
    assert_int_equal(kf_data_reads(data, at("lp/l10.txt")), !i);
  }
  const char *none[] = {at("lp/x*.txt")};
  kf_data_options options = {.labels = none, .n_labels = 1};
  kf_data *data;
  assert_error(ctx, KF_ERR_IO, "x*.txt", kf_data_open(ctx, paths, 1, &options, &data));
  options.labels = two;
  options.n_labels = 1;
  assert_error(ctx, KF_ERR_ARG, "/lp/l10.txt, for 3 data files, such as",
               kf_data_open(ctx, paths, 1, &options, &data));
}

/* --- labels ---------------------------------------------------------------------------------- */

TEST(integer_labels) {
  const struct {
    const char *descr, *shape;
    unsigned char data[24];
  } file[] = {
      {"|i1", "(3,)", {2, 0, 1}},       {"|u1", "(3, 1)", {2, 0, 1}},
      {"<i2", "(3,)", {2, 0, 0, 0, 1}}, {"<u2", "(3,)", {2, 0, 0, 0, 1}},
      {"<i4", "(3,)", {2, [8] = 1}},    {"<u4", "(3,)", {2, [8] = 1}},
      {"<i8", "(3,)", {2, [16] = 1}},   {"<u8", "(3, 1)", {2, [16] = 1}},
  };
  const int32_t expected[3] = {2, 0, 1};
  const char *rows = write_npy("rows.npy", "<f4", "(3, 2)", six, 24);
  for (size_t i = 0; i < 8; i++) {
    size_t n = 3 * (size_t)(file[i].descr[2] - '0');
    const char *labels[] = {write_npy("y.npy", file[i].descr, file[i].shape, file[i].data, n)};
    kf_data_options options = {.labels = labels, .n_labels = 1};
    AUTO(kf_data) *data = must_open(rows, &options);
    assert_rows(data, 3, 2, six, expected);
    assert_int_equal(kf_data_classes(data), 3);
    assert_null(kf_data_class_name(data, 0));
  }
}

static const char *write_native(const char *name, const char *classes) {
  char json[512];
  snprintf(json, sizeof json,
           "{\"__metadata__\":{\"classes\":\"%s\"},"
           "\"embeddings\":{\"dtype\":\"F32\",\"shape\":[3,2],\"data_offsets\":[0,24]},"
           "\"labels\":{\"dtype\":\"I8\",\"shape\":[3],\"data_offsets\":[24,27]}}",
           classes);
  char data[27] = {[24] = 1, 0, 1};
  memcpy(data, six, 24);
  return write_st(name, json, data, sizeof data);
}

TEST(labels_inside) {
  const int32_t expected[3] = {1, 0, 1};
  const char *path = write_native("n.safetensors", "[\\\"x\\\",\\\"y\\\",\\\"z\\\"]");
  kf_data *data = must_open(path, NULL);
  assert_rows(data, 3, 2, six, expected);
  assert_int_equal(kf_data_classes(data), 3);
  assert_string_equal(kf_data_class_name(data, 2), "z");
  assert_null(kf_data_class_name(data, 3));
  kf_data_free(data);
  assert_file(path, &(kf_data_options){.inner_labels = KF_OFF}, 3, 2, six, NULL);
  /* A label file overrides the labels inside, and its text refers to the names inside. */
  const char *labels[] = {write_text("own.txt", "z\nz\nx\n")};
  const int32_t own[3] = {2, 2, 0};
  assert_file(path, &(kf_data_options){.labels = labels, .n_labels = 1}, 3, 2, six, own);
  /* And so does a file of class names. */
  const char *classes = write_text("c.txt", "p\nq\n");
  data = must_open(path, &(kf_data_options){.classes = classes});
  assert_string_equal(kf_data_class_name(data, 1), "q");
  assert_int_equal(kf_data_classes(data), 2);
  kf_data_free(data);
}

TEST(text_labels) {
  const char *rows = write_npy("rows.npy", "<f4", "(3, 2)", six, 24);
  const char *text[] = {"b\na\nb\n", "b\r\na\r\nb\r\n",
                        ("\xEF\xBB\xBF"
                         "b\na\nb"),
                        "b\na\nb\r\n"};
  const int32_t expected[3] = {1, 0, 1};
  for (size_t i = 0; i < 4; i++) {
    const char *labels[] = {write_text("t.txt", text[i])};
    assert_file(rows, &(kf_data_options){.labels = labels, .n_labels = 1}, 3, 2, six, expected);
  }
}

/* More lines than one step of the index, of lengths that do not fit the buffer evenly. */
TEST(text_index) {
  enum { N = 140001, K = 1000 };
  AUTOFREE float *rows = malloc(sizeof(float) * N);
  AUTOFREE int32_t *labels = malloc(sizeof(int32_t) * N);
  FILE *file = fopen(at("many.txt"), "wb");
  for (int i = 0; i < N; i++) {
    labels[i] = (int32_t)((uint32_t)i * 2654435761u % K);
    rows[i] = (float)(i + 1);
    fprintf(file, "class %04d%s%s\n", labels[i], i % 7 == 0 ? "" : " ",
            labels[i] % 50 == 0 ? "\r" : "");
  }
  fclose(file);
  /* Two spellings of each number are two classes, so compare by name. */
  const char *label_files[] = {at("many.txt")};
  const char *path = write_npy("many.npy", "<f4", "(140001, 1)", rows, sizeof(float) * N);
  AUTO(kf_data) *data = must_open(path, &(kf_data_options){.labels = label_files, .n_labels = 1});
  const uint64_t firsts[] = {0, 1, 1023, 1024, 1025, 65535, 65536, 65537, 131072, 139990};
  for (size_t f = 0; f < sizeof firsts / sizeof firsts[0]; f++) {
    int32_t got[11];
    float row[11];
    assert_int_equal(kf_data_get(ctx, data, firsts[f], 11, row, got), KF_OK);
    for (int i = 0; i < 11; i++) {
      uint64_t at_row = firsts[f] + (uint64_t)i;
      char name[32];
      snprintf(name, sizeof name, "class %04d%s", labels[at_row], at_row % 7 == 0 ? "" : " ");
      assert_string_equal(kf_data_class_name(data, (uint32_t)got[i]), name);
      assert_true(row[i] == rows[at_row]);
    }
  }
}

TEST(unlabelled_and_unknown) {
  const char *rows = write_npy("rows.npy", "<f4", "(3, 2)", six, 24);
  const char *text[] = {write_text("u.txt", "a\n\nq\n")};
  const char *numbers[] = {write_npy("u.npy", "|i1", "(3,)", "\x00\xFF\x07", 3)};
  const char *classes = write_text("c.txt", "p\na\n");
  for (int i = 0; i < 2; i++) {
    kf_data_options options = {.labels = i ? numbers : text, .n_labels = 1, .allow_unlabelled = 1};
    kf_data *data = must_open(rows, &options);
    assert_int_equal(kf_data_unlabelled(data), 1);
    assert_rows(data, 3, 2, six, i ? (int32_t[]){0, -1, 7} : (int32_t[]){0, -1, 1});
    kf_data_free(data);
    options.classes = classes;
    options.allow_unknown = 1;
    data = must_open(rows, &options);
    assert_int_equal(kf_data_unlabelled(data), 2);
    assert_int_equal(kf_data_classes(data), 2);
    assert_rows(data, 3, 2, six, i ? (int32_t[]){0, -1, -1} : (int32_t[]){1, -1, -1});
    kf_data_free(data);
  }
}

/* Rows of some classes: their numbers and names stay, what is unlabelled goes, and the error of a
 * bad row names its place in the file. */
TEST(only) {
  const char *rows = write_npy("rows.npy", "<f4", "(3, 2)", six, 24);
  const char *labels[] = {write_text("o.txt", "c\na\nc\n")};
  const char *classes = write_text("oc.txt", "a\nb\nc\n");
  const char *list = write_text("only.txt", "zebra\nc\n");
  kf_data_options options = {.labels = labels, .n_labels = 1, .classes = classes, .only = list};
  kf_data *data = must_open(rows, &options);
  assert_int_equal(kf_data_classes(data), 3);
  assert_string_equal(kf_data_class_name(data, 2), "c");
  assert_rows(data, 2, 2, (float[]){six[0], six[1], six[4], six[5]}, (int32_t[]){2, 2});
  assert_true(kf_data_reads(data, rows));
  kf_data_free(data);
  float bad[6] = {1, 2, 3, 4, NAN, 6};
  const char *with_bad = write_npy("bad.npy", "<f4", "(3, 2)", bad, 24);
  data = must_open(with_bad, &options);
  float out[4];
  assert_int_equal(kf_data_get(ctx, data, 0, 2, out, NULL), KF_ERR_DATA);
  assert_non_null(strstr(kf_errmsg(ctx), "row 2"));
  kf_data_free(data);
  options.only = write_text("none.txt", "zebra\n");
  assert_int_equal(kf_data_open(ctx, &rows, 1, &options, &data), KF_ERR_DATA);
  options.only = write_text("empty_class.txt", "b\n");
  assert_int_equal(kf_data_open(ctx, &rows, 1, &options, &data), KF_ERR_DATA);
  const char *numbers[] = {write_npy("o.npy", "|i1", "(3,)", "\x00\x01\x00", 3)};
  options = (kf_data_options){.labels = numbers, .n_labels = 1, .only = list};
  assert_int_equal(kf_data_open(ctx, &rows, 1, &options, &data), KF_ERR_ARG);
}

/* --- memory ---------------------------------------------------------------------------------- */

TEST(memory) {
  const int32_t labels[3] = {2, -1, 0};
  const char *names[4] = {"a", "b", "c", "d"};
  kf_data *data;
  assert_int_equal(kf_data_open_memory(ctx, six, 3, 2, labels, NULL, 0, &data), KF_OK);
  assert_rows(data, 3, 2, six, labels);
  assert_int_equal(kf_data_classes(data), 3);
  assert_int_equal(kf_data_unlabelled(data), 1);
  kf_data_free(data);
  assert_int_equal(kf_data_open_memory(ctx, six, 3, 2, labels, names, 4, &data), KF_OK);
  assert_int_equal(kf_data_classes(data), 4);
  assert_string_equal(kf_data_class_name(data, 3), "d");
  kf_data_free(data);
  assert_int_equal(kf_data_open_memory(ctx, six, 2, 3, NULL, NULL, 0, &data), KF_OK);
  assert_rows(data, 2, 3, six, NULL);
  kf_data_free(data);
}

/* Rows of `six`, three of two columns; the last one only while user is not NULL. */
static int bring_six(void *user, uint64_t first, uint64_t n, float *rows) {
  if (user == NULL && first + n > 2) return 1;
  memcpy(rows, six + 2 * first, n * 2 * sizeof *rows);
  return 0;
}

TEST(brought_rows) {
  const int32_t labels[3] = {2, -1, 0};
  kf_array_options options = {.labels = labels};
  kf_data *data;
  int whole;
  assert_int_equal(kf_data_open_rows(ctx, 3, 2, bring_six, &whole, &options, &data), KF_OK);
  assert_rows(data, 3, 2, six, labels);
  assert_int_equal(kf_data_classes(data), 3);
  kf_data_free(data);

  float rows[6];
  assert_int_equal(kf_data_open_rows(ctx, 3, 2, bring_six, NULL, &options, &data), KF_OK);
  assert_int_equal(kf_data_get(ctx, data, 0, 2, rows, NULL), KF_OK);
  assert_int_equal(kf_data_get(ctx, data, 1, 2, rows, NULL), KF_ERR_IO);
  assert_string_equal(kf_errmsg(ctx), "rows 1 to 2 could not be fetched");
  kf_data_free(data);

  assert_int_equal(kf_data_open_rows(ctx, 0, 2, bring_six, NULL, NULL, &data), KF_ERR_ARG);
  assert_null(data);
  assert_int_equal(kf_data_open_rows(ctx, 3, 0, bring_six, NULL, NULL, &data), KF_ERR_ARG);
  assert_int_equal(kf_data_open_rows(ctx, UINT64_MAX, 2, bring_six, NULL, NULL, &data), KF_ERR_ARG);
  assert_int_equal(kf_data_open_rows(ctx, 3, 2, NULL, NULL, NULL, &data), KF_ERR_ARG);
}

/* --- bad rows -------------------------------------------------------------------------------- */

TEST(skip_bad) {
  const float rows[8] = {1, 2, NAN, 1, 0, 0, 3, 4};
  const char *path = write_npy("bad.npy", "<f4", "(4, 2)", rows, sizeof rows);
  const char *labels[] = {write_text("bad.txt", "a\nb\nc\nd\n")};
  kf_data_options options = {.labels = labels, .n_labels = 1, .skip_bad = 1};
  AUTO(kf_data) *data = must_open(path, &options);
  const float expected[8] = {1, 2, 0, 0, 0, 0, 3, 4};
  assert_rows(data, 4, 2, expected, (int32_t[]){0, KF_LABEL_BAD, KF_LABEL_BAD, 3});
  float row[2];
  assert_int_equal(kf_data_get(ctx, data, 0, 1, row, NULL), KF_ERR_ARG);

  const char *out = at("good.safetensors");
  assert_int_equal(kf_data_save(ctx, data, KF_F32, out), KF_OK);
  const float good[4] = {1, 2, 3, 4};
  assert_file(out, NULL, 2, 2, good, (int32_t[]){0, 3});
}

/* --- writing --------------------------------------------------------------------------------- */

TEST(save) {
  enum { N = 5003, D = 301 }; /* several chunks, and none of the sizes is round */
  AUTOFREE float *rows = malloc(sizeof(float) * N * D);
  AUTOFREE int32_t *labels = malloc(sizeof(int32_t) * N);
  for (int i = 0; i < N * D; i++) rows[i] = (float)(1 + i % 200) / 8; /* exact in f16 and bf16 */
  for (int i = 0; i < N; i++) labels[i] = i % 5 - 1;
  const char *names[] = {"one", "two \"quoted\"", "dr\xC3\xA9i", "four"};
  AUTO(kf_data) *data = NULL;
  assert_int_equal(kf_data_open_memory(ctx, rows, N, D, labels, names, 4, &data), KF_OK);
  const kf_dtype types[] = {KF_F32, KF_F16, KF_BF16};
  for (size_t t = 0; t < 3; t++) {
    const char *path = at("saved.safetensors");
    assert_int_equal(kf_data_save(ctx, data, types[t], path), KF_OK);
    kf_data_options lenient = {.allow_unlabelled = 1};
    AUTO(kf_data) *again = must_open(path, &lenient);
    assert_rows(again, N, D, rows, labels);
    assert_int_equal(kf_data_unlabelled(again), 1001);
    for (uint32_t k = 0; k < 4; k++) assert_string_equal(kf_data_class_name(again, k), names[k]);
    if (types[t] == KF_BF16) continue;
    path = at("saved.npy");
    kf_save_spec spec = {.what = "test", .dim = D, .dtype = types[t]};
    assert_int_equal(kf_data_save_mapped(ctx, data, &spec, path), KF_OK);
    assert_file(path, NULL, N, D, rows, NULL);
  }
}

/* Rows in other units, to check that save_mapped calls the map with the right rows. */
static kf_status halve(const void *argument, const kf_kernels *kernels, const float *rows,
                       const double *norm2, uint64_t n, float *out, kf_err *err) {
  (void)argument;
  (void)kernels;
  (void)err;
  for (uint64_t i = 0; i < n; i++) out[i] = norm2[i] > 0 ? rows[2 * i] / 2 : 0;
  return KF_OK;
}

TEST(save_mapped) {
  const float rows[8] = {1, 2, NAN, 1, 0, 0, 3, 4};
  const char *path = write_npy("bad.npy", "<f4", "(4, 2)", rows, sizeof rows);
  AUTO(kf_data) *data = must_open(path, &(kf_data_options){.skip_bad = 1});
  kf_save_spec spec = {.what = "test", .dim = 1, .dtype = KF_F32, .keep_bad = true, .map = halve};
  assert_int_equal(kf_data_save_mapped(ctx, data, &spec, at("half.npy")), KF_OK);
  AUTO(kf_data) *half = must_open(at("half.npy"), &(kf_data_options){.skip_bad = 1});
  float got[4];
  int32_t labels[4];
  assert_int_equal(kf_data_get(ctx, half, 0, 4, got, labels), KF_OK);
  assert_memory_equal(got, ((float[]){0.5F, 0, 0, 1.5F}), sizeof got);
}

TEST(same_bytes) {
  enum { N = 4000, D = 300 };
  AUTOFREE float *rows = malloc(sizeof(float) * N * D);
  for (int i = 0; i < N * D; i++) rows[i] = 1 + (float)i / 7;
  AUTO(kf_data) *data = NULL;
  assert_int_equal(kf_data_open_memory(ctx, rows, N, D, NULL, NULL, 0, &data), KF_OK);
  const char *path[2] = {at("one.safetensors"), at("five.safetensors")};
  for (unsigned i = 0; i < 2; i++) {
    AUTO(kf_ctx) *own = test_ctx(1 + 4 * i, KF_ISA_AUTO);
    assert_ok(own, kf_data_save(own, data, KF_BF16, path[i]));
  }
  assert_same_file(path[0], path[1]);
}

/* --- types ----------------------------------------------------------------------------------- */

TEST(rounding) {
  const kf_kernels *kernels = kf_kernels_for(KF_ISA_PLAIN);
  /* Halfway cases go to even; the largest values of both types stay finite. */
  const float in[6] = {1.00390625F, 1.01171875F, 3.3895314e38F, 3.4e38F, 1, INFINITY};
  uint16_t out[6];
  assert_int_equal(kf_encode_f32(kernels, KF_TYPE_BF16, in, 6, out), 3);
  assert_int_equal(out[0], 0x3F80);
  assert_int_equal(out[1], 0x3F82);
  assert_int_equal(out[2], 0x7F7F);
  assert_int_equal(out[3], 0x7F80);
  const float wide[4] = {65504, 65519, 65520, 1};
  assert_int_equal(kf_encode_f32(kernels, KF_TYPE_F16, wide, 4, out), 2);
  assert_int_equal(out[1], 0x7BFF);
  assert_string_equal(kf_dtype_name(KF_BF16), "bf16");
  assert_null(kf_dtype_name((kf_dtype)99));
}

TEST(utf8) {
  const char *good[] = {"", "a", "\xC3\xA9", "\xE7\x8C\xAB", "\xF0\x9F\x90\x88", "\xEF\xBF\xBF"};
  const char *bad[] = {"\xC3",
                       "\xA9",
                       "\xC0\x80",
                       "\xE0\x80\x80",
                       "\xED\xA0\x80",
                       "\xF4\x90\x80\x80",
                       "\xF5\x80\x80\x80",
                       "\xF0\x80\x80\x80",
                       "\xC3z"};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++)
    assert_true(kf_utf8_valid(good[i], strlen(good[i])));
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    assert_false(kf_utf8_valid(bad[i], strlen(bad[i])));
}

/* --- safetensors, for the other rooms -------------------------------------------------------- */

static void write_checked(const char *path) {
  kf_err err;
  kf_stw *w;
  assert_int_equal(kf_stw_open(NULL, path, true, &w, &err), KF_OK);
  assert_int_equal(kf_stw_meta(w, "note", "\"checksum\":\"0000000000000000\"", &err), KF_OK);
  assert_int_equal(kf_stw_meta_i64(w, "n", INT64_MIN, &err), KF_OK);
  assert_int_equal(kf_stw_meta_f64(w, "tenth", 0.1, &err), KF_OK);
  assert_int_equal(kf_stw_meta_f64(w, "tiny", 4.9406564584124654e-324, &err), KF_OK);
  assert_int_equal(kf_stw_meta_f64(w, "third", 1.0 / 3, &err), KF_OK);
  assert_int_equal(kf_stw_declare(w, "b", KF_TYPE_U8, 1, (uint64_t[]){3}, &err), KF_OK);
  assert_int_equal(kf_stw_declare(w, "a", KF_TYPE_F64, 2, (uint64_t[]){1, 2}, &err), KF_OK);
  assert_int_equal(kf_stw_write(w, "xyz", 3, &err), KF_OK);
  for (int i = 0; i < 2; i++)
    assert_int_equal(kf_stw_write(w, (double[]){i + 0.5}, 8, &err), KF_OK);
  assert_int_equal(kf_stw_commit(w, &err), KF_OK);
}

TEST(writer) {
  const char *path = at("w.safetensors");
  write_checked(path);
  kf_err err;
  kf_st st;
  assert_int_equal(kf_st_open(&st, path, &err), KF_OK);
  assert_int_equal(kf_st_verify(&st, &err), KF_OK);
  int64_t n;
  double x;
  assert_int_equal(kf_st_meta_i64(&st, "n", &n, &err), KF_OK);
  assert_true(n == INT64_MIN);
  assert_string_equal(kf_st_meta(&st, "tenth"), "0.1");
  assert_int_equal(kf_st_meta_f64(&st, "tiny", &x, &err), KF_OK);
  assert_true(x == 4.9406564584124654e-324);
  assert_int_equal(kf_st_meta_f64(&st, "third", &x, &err), KF_OK);
  assert_true(x == 1.0 / 3);
  const kf_st_tensor *a;
  assert_int_equal(kf_st_expect(&st, "a", KF_TYPE_F64, 2, (int64_t[]){-1, 2}, &a, &err), KF_OK);
  double values[2];
  assert_int_equal(kf_st_read_all(&st, a, values, &err), KF_OK);
  assert_true(values[0] == 0.5 && values[1] == 1.5);
  assert_int_equal(kf_st_expect(&st, "a", KF_TYPE_F64, 2, (int64_t[]){-1, 3}, &a, &err),
                   KF_ERR_DATA);
  assert_non_null(strstr(err.message, "has the shape [1, 2], but must have [any, 3]"));
  assert_int_equal(kf_st_expect(&st, "a", KF_TYPE_F32, 2, (int64_t[]){1, 2}, &a, &err),
                   KF_ERR_DATA);
  assert_int_equal(kf_st_expect(&st, "c", KF_TYPE_F32, 0, NULL, &a, &err), KF_ERR_DATA);
  assert_int_equal(kf_st_meta_i64(&st, "tenth", &n, &err), KF_ERR_DATA);
  assert_int_equal(kf_st_meta_i64(&st, "absent", &n, &err), KF_ERR_DATA);
  assert_int_equal(kf_st_meta_f64(&st, "note", &x, &err), KF_ERR_DATA);
  kf_st_close(&st);
}

/* Any byte that changes is noticed, by the header or by the checksum. */
TEST(checksum) {
  write_checked(at("w.safetensors"));
  size_t n;
  AUTOFREE char *bytes = test_read(at("w.safetensors"), &n);
  for (size_t i = 0; i < n; i++) {
    bytes[i] ^= 1;
    write_bytes("flipped.safetensors", bytes, n);
    bytes[i] ^= 1;
    kf_err err;
    kf_st st;
    if (kf_st_open(&st, at("flipped.safetensors"), &err) != KF_OK) continue;
    assert_int_equal(kf_st_verify(&st, &err), KF_ERR_DATA);
    assert_non_null(strstr(err.message, "flipped.safetensors"));
    assert_non_null(strstr(err.message, "checksum"));
    kf_st_close(&st);
  }
}

TEST(writer_counts_bytes) {
  kf_err err;
  kf_stw *w;
  assert_int_equal(kf_stw_open(NULL, at("short.safetensors"), false, &w, &err), KF_OK);
  assert_int_equal(kf_stw_declare(w, "b", KF_TYPE_U8, 1, (uint64_t[]){3}, &err), KF_OK);
  assert_int_equal(kf_stw_write(w, "xy", 2, &err), KF_OK);
  assert_int_equal(kf_stw_commit(w, &err), KF_ERR_INTERNAL);
  assert_int_equal(access(at("short.safetensors"), F_OK), -1);
}

/* --- fields ---------------------------------------------------------------------------------- */

static kf_status write_fields(const kf_st_field *fields, size_t n, kf_err *err) {
  kf_stw *w;
  KF_TRY(kf_stw_open(NULL, at("fields.safetensors"), true, &w, err));
  kf_status status = kf_stw_format(w, "koofu.test", err);
  if (status == KF_OK) status = kf_stw_declare_fields(w, fields, n, err);
  if (status == KF_OK) status = kf_stw_write_fields(w, fields, n, err);
  return kf_stw_end(w, status, err);
}

TEST(fields) {
  kf_err err;
  double a[6] = {1, 2, 3, 4, 5, 6};
  float b[2] = {-1, 2};
  int64_t c[2] = {7, 0};
  kf_st_field fields[] = {{"a", KF_TYPE_F64, 2, {2, 3}, a},
                          {"b", KF_TYPE_F32, 1, {2, 1}, b},
                          {"c", KF_TYPE_I64, 1, {2, 1}, c}};
  kf_st st;
  assert_int_equal(write_fields(fields, 3, &err), KF_OK);
  assert_int_equal(kf_st_open(&st, at("fields.safetensors"), &err), KF_OK);
  assert_int_equal(kf_st_check_file(&st, "koofu.test", "a test", &err), KF_OK);
  assert_int_equal(kf_st_expect_fields(&st, fields, 3, &err), KF_OK);
  memset(a, 0, sizeof a);
  assert_int_equal(kf_st_read_fields(&st, fields, 3, &err), KF_OK);
  assert_true(a[0] == 1 && a[5] == 6 && b[0] == -1 && c[0] == 7);
  fields[1].shape[0] = 3;
  assert_int_equal(kf_st_expect_fields(&st, fields, 3, &err), KF_ERR_DATA);
  fields[1].shape[0] = 2;
  kf_st_close(&st);
  /* What fails leaves no file. */
  unlink(at("fields.safetensors"));
  fields[0].shape[0] = UINT64_MAX;
  assert_int_equal(write_fields(fields, 3, &err), KF_ERR_ARG);
  assert_int_equal(access(at("fields.safetensors"), F_OK), -1);
}

/* --- passes ---------------------------------------------------------------------------------- */

enum { PASS_ROWS = 1000, PASS_DIM = 3 };

typedef struct pass_workspace {
  uint64_t rows; /* seen by this worker */
  int32_t *labels;
} pass_workspace;

typedef struct pass_test {
  atomic_int seen[PASS_ROWS];
  uint64_t in_order; /* rows so far, where order matters */
  atomic_int batches, made;
  uint64_t fail_from; /* row */
  size_t take;        /* labels of the workspace */
} pass_test;

static void make_pass_workspace(const void *argument, void *workspace, kf_arena *arena) {
  pass_test *t = (pass_test *)argument;
  atomic_fetch_add(&t->made, 1);
  KF_TAKE(arena, ((pass_workspace *)workspace)->labels, t->take);
}

static kf_status see_batch(void *argument, const kf_batch *b, kf_err *err) {
  pass_test *t = argument;
  pass_workspace *s = b->workspace;
  atomic_fetch_add(&t->batches, 1);
  if (b->first >= t->fail_from) {
    if (b->first == t->fail_from) usleep(20000); /* the lowest is the last to fail */
    return kf_fail(err, KF_ERR_DATA, "batch at row %d", (int)b->first);
  }
  for (uint64_t i = 0; i < b->n; i++) {
    uint64_t row = b->first + i;
    atomic_fetch_add(&t->seen[row], 1);
    if (b->labels != NULL && b->labels[i] != (int32_t)(row % 7)) return KF_ERR_INTERNAL;
    if (b->rows != NULL && b->rows[i * PASS_DIM + 1] != (float)row) return KF_ERR_INTERNAL;
    if (b->norm2 != NULL && b->norm2[i] != 1 + (double)row * (double)row) return KF_ERR_INTERNAL;
    if (s != NULL) s->labels[s->rows++ % t->take] = (int32_t)row;
  }
  return KF_OK;
}

static kf_status check_order(void *argument, const kf_batch *b, kf_err *err) {
  pass_test *t = argument;
  if (b->first != t->in_order) return kf_fail(err, KF_ERR_INTERNAL, "out of order");
  t->in_order += b->n;
  return KF_OK;
}

static kf_status see_in_order(void *argument, const kf_batch *b, kf_err *err) {
  if (b->worker != 0) return kf_fail(err, KF_ERR_INTERNAL, "on another worker");
  KF_TRY(check_order(argument, b, err));
  return see_batch(argument, b, err);
}

static kf_data *pass_data(kf_ctx *own) {
  static float rows[PASS_ROWS][PASS_DIM];
  static int32_t labels[PASS_ROWS];
  for (int i = 0; i < PASS_ROWS; i++) {
    rows[i][0] = 1;
    rows[i][1] = (float)i;
    labels[i] = i % 7;
  }
  kf_data *data;
  assert_int_equal(kf_data_open_memory(own, rows[0], PASS_ROWS, PASS_DIM, labels, NULL, 0, &data),
                   KF_OK);
  return data;
}

static void start_pass(pass_test *t) {
  memset(t, 0, sizeof *t);
  t->fail_from = UINT64_MAX;
  t->take = 5;
}

static void assert_seen_once(const pass_test *t) {
  for (int i = 0; i < PASS_ROWS; i++) assert_int_equal(t->seen[i], 1);
}

TEST(pass) {
  static pass_test t;
  for (unsigned threads = 1; threads <= 4; threads += 3)
    for (int kind = 0; kind < 3; kind++)
      for (uint64_t size = 0; size <= PASS_ROWS + 1; size += 143) {
        AUTO(kf_ctx) *own = NULL;
        assert_int_equal(kf_ctx_new(&(kf_ctx_options){.threads = threads}, &own), KF_OK);
        AUTO(kf_data) *data = pass_data(own);
        start_pass(&t);
        kf_pass pass = {.rows = size,
                        .labels_only = kind == 1,
                        .rows_only = kind == 2,
                        .work = see_batch,
                        .finish = check_order,
                        .argument = &t,
                        .workspace_size = sizeof(pass_workspace),
                        .make_workspace = make_pass_workspace};
        assert_int_equal(kf_each_batch(own, data, &pass), KF_OK);
        assert_seen_once(&t);
        assert_int_equal(t.in_order, PASS_ROWS);
        int batches = size > 0 ? (int)((PASS_ROWS + size - 1) / size) : 1;
        assert_int_equal(t.batches, batches);
        assert_int_equal(t.made, batches < (int)threads ? batches : (int)threads);
        /* On one worker it is the caller's thread, in order, and without `finish`. */
        start_pass(&t);
        pass.workers = 1;
        pass.work = see_in_order;
        pass.finish = NULL;
        assert_int_equal(kf_each_batch(own, data, &pass), KF_OK);
        assert_seen_once(&t);
        assert_int_equal(t.made, 1);
      }
}

/* A data set that records which rows were announced. With WIDE columns, 8 MiB are 32 rows. */
enum { WIDE = 65536, WIDE_ROWS = 75 };
typedef struct announced {
  kf_data base;
  int told[WIDE_ROWS];
  bool late; /* a row was fetched before it was announced */
} announced;

static void hear_announced(const kf_data *data, uint64_t first, uint64_t n) {
  announced *a = (announced *)(uintptr_t)data;
  assert_true(first + n <= data->rows);
  for (uint64_t i = first; i < first + n; i++) a->told[i]++;
}

static kf_status fetch_announced(const kf_data *data, const kf_kernels *kernels, uint64_t first,
                                 uint64_t n, float *rows, int32_t *labels, kf_err *err) {
  (void)kernels;
  (void)err;
  announced *a = (announced *)(uintptr_t)data;
  for (uint64_t i = 0; i < n; i++) {
    /* This row, and all up to 8 MiB after it. */
    for (uint64_t r = first + i; r <= first + i + 32 && r < data->rows; r++)
      a->late = a->late || (rows != NULL && a->told[r] == 0);
    if (rows != NULL) memset(rows + i * data->dim, 0, data->dim * sizeof *rows);
    if (rows != NULL) rows[i * data->dim] = 1;
    if (labels != NULL) labels[i] = KF_LABEL_NONE;
  }
  return KF_OK;
}

static kf_status leave_batch(void *argument, const kf_batch *b, kf_err *err) {
  (void)argument;
  (void)b;
  (void)err;
  return KF_OK;
}

/* Every row is announced once, and long before it is fetched. */
TEST(pass_reads_ahead) {
  AUTO(kf_ctx) *own = NULL;
  assert_int_equal(kf_ctx_new(&(kf_ctx_options){.threads = 1}, &own), KF_OK);
  for (uint64_t size = 1; size < 100; size = 3 * size + 1)
    for (int labels_only = 0; labels_only < 2; labels_only++) {
      announced a = {
          .base = {
              .rows = WIDE_ROWS, .dim = WIDE, .fetch = fetch_announced, .ahead = hear_announced}};
      kf_pass pass = {.rows = size, .labels_only = labels_only, .work = leave_batch};
      assert_int_equal(kf_each_batch(own, &a.base, &pass), KF_OK);
      assert_false(a.late);
      for (int i = 0; i < WIDE_ROWS; i++) assert_int_equal(a.told[i], !labels_only);
    }
}

static int count_progress(void *user, const char *what, uint64_t done, uint64_t total) {
  uint64_t *last = user;
  assert_string_equal(what, "walk");
  assert_true(done >= last[0] && done <= total && total == PASS_ROWS);
  last[0] = done;
  return ++last[1] == last[2];
}

/* A batch that fails while a lower one works and those between wait for their turn. */
static kf_status fail_late(void *argument, const kf_batch *batch, kf_err *err) {
  (void)argument;
  if (batch->first == 10) usleep(3000);
  if (batch->first == 40) usleep(1000);
  return batch->first == 40 ? kf_fail(err, KF_ERR_DATA, "batch at row 40") : KF_OK;
}

static kf_status finish_nothing(void *argument, const kf_batch *batch, kf_err *err) {
  (void)argument;
  (void)batch;
  (void)err;
  return KF_OK;
}

TEST(pass_reports_the_failure) {
  AUTO(kf_ctx) *own = NULL;
  assert_int_equal(kf_ctx_new(&(kf_ctx_options){.threads = 5}, &own), KF_OK);
  AUTO(kf_data) *data = pass_data(own);
  kf_pass pass = {.rows = 10, .work = fail_late, .finish = finish_nothing};
  for (int round = 0; round < 20; round++) {
    assert_int_equal(kf_each_batch(own, data, &pass), KF_ERR_DATA);
    assert_string_equal(kf_errmsg(own), "batch at row 40");
  }
}

TEST(pass_failures) {
  static pass_test t;
  uint64_t progress[3] = {0}; /* done, calls, the call that stops */
  AUTO(kf_ctx) *own = NULL;
  kf_ctx_options options = {.threads = 4, .progress = count_progress, .user = progress};
  assert_int_equal(kf_ctx_new(&options, &own), KF_OK);
  AUTO(kf_data) *data = pass_data(own);
  for (int round = 0; round < 5; round++)
    for (int ordered = 0; ordered < 2; ordered++) {
      kf_pass pass = {
          .rows = 10, .work = see_batch, .finish = ordered ? check_order : NULL, .argument = &t};
      /* The error of the lowest batch. */
      start_pass(&t);
      t.fail_from = 300;
      assert_int_equal(kf_each_batch(own, data, &pass), KF_ERR_DATA);
      assert_string_equal(kf_errmsg(own), "batch at row 300");
      for (int i = 0; i < 300; i++) assert_int_equal(t.seen[i], 1);
      if (ordered) assert_int_equal(t.in_order, 300);
      /* Progress ends at the number of rows, and can stop the pass at any call. */
      pass.what = "walk";
      start_pass(&t);
      memset(progress, 0, sizeof progress);
      assert_int_equal(kf_each_batch(own, data, &pass), KF_OK);
      assert_int_equal(progress[0], PASS_ROWS);
      start_pass(&t);
      memset(progress, 0, sizeof progress);
      progress[2] = 1;
      assert_int_equal(kf_each_batch(own, data, &pass), KF_ERR_CANCELLED);
      assert_int_equal(progress[1], 1);
      /* Out of memory before the first row. */
      start_pass(&t);
      t.take = SIZE_MAX;
      pass.workspace_size = sizeof(pass_workspace);
      pass.make_workspace = make_pass_workspace;
      assert_int_equal(kf_each_batch(own, data, &pass), KF_ERR_MEM);
      assert_int_equal(t.batches, 0);
    }
}

FIXTURES(.before = make_test_folder, .after = remove_test_folder);
