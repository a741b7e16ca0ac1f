/* test_file_bad.c - invalid files. Every case gives a status and a sentence that names the file and
 * the cause. */
#include "files.h"

#include "file/file_internal.h"

#include <math.h>
#include <sys/stat.h>

static const float six[6] = {1, 2, 3, 4, 5, 6};

/* --- any file -------------------------------------------------------------------------------- */

TEST(missing) {
  assert_refused(at("missing.npy"), NULL, KF_ERR_IO, "No such file");
  assert_refused(at("missing.xyz"), NULL, KF_ERR_IO, "No such file");
  assert_refused(at("missing-*.npy"), NULL, KF_ERR_IO, "no file matches");
  assert_refused("", NULL, KF_ERR_IO, "No such file");
}

TEST(empty) {
  const char *names[] = {"e.npy", "e.safetensors", "e.fvecs", "e.fbin", "e.xyz"};
  for (size_t i = 0; i < 5; i++)
    assert_refused(write_bytes(names[i], "", 0), NULL, KF_ERR_DATA, "is empty");
}

TEST(directory) {
  mkdir(at("none"), 0777);
  assert_refused(at("none"), NULL, KF_ERR_DATA, "no .npy");
  mkdir(at("d.txt"), 0777);
  const char *rows = write_npy("r.npy", "<f4", "(3, 2)", six, 24);
  const char *labels[] = {at("d.txt")};
  kf_data *data = NULL;
  kf_status status = open_one(rows, &(kf_data_options){.labels = labels, .n_labels = 1}, &data);
  assert_failed(status, KF_ERR_DATA, "d.txt", "no .npy, .npz, .parquet, .txt");
  /* A folder that is named like a file is not one of the files of its folder. */
  mkdir(at("mixed"), 0777);
  mkdir(at("mixed/x.npy"), 0777);
  assert_refused(at("mixed"), NULL, KF_ERR_DATA, "no .npy");
}

TEST(permission) {
  const char *path = write_npy("p.npy", "<f4", "(3, 2)", six, 24);
  chmod(path, 0);
  uid_t user = geteuid();
  if (user == 0) assert_int_equal(seteuid(65534), 0); /* root reads everything */
  kf_data *data = NULL;
  kf_status status = open_one(path, NULL, &data);
  if (user == 0) assert_int_equal(seteuid(0), 0);
  assert_failed(status, KF_ERR_IO, path, "Permission denied");
}

TEST(ending) {
  assert_refused(write_text("a.xyz", "1,2\n"), NULL, KF_ERR_DATA, "unknown file extension");
}

/* A label file that changes between opening and reading must not lead outside any array. */
TEST(labels_change) {
  const float rows[4] = {1, 2, 3, 4};
  const char *path = write_npy("change.npy", "<f4", "(2, 2)", rows, 16);
  const int32_t before[2] = {0, 1}, after[2] = {0, 1000000};
  const char *labels[] = {write_npy("change-labels.npy", "<i4", "(2,)", before, 8)};
  AUTO(kf_data) *data = must_open(path, &(kf_data_options){.labels = labels, .n_labels = 1});
  FILE *file = fopen(labels[0], "r+b"); /* in place: the same file */
  assert_non_null(file);
  fseek(file, -8, SEEK_END);
  assert_int_equal(fwrite(after, 4, 2, file), 2);
  fclose(file);
  kf_stats *stats;
  assert_failed(kf_stats_new_from_data(ctx, data, NULL, &stats), KF_ERR_DATA, "row 1", "1000000");
}

/* One stray label among a few rows does not make half a million classes. */
TEST(stray_label) {
  const float rows[4] = {1, 2, 3, 4};
  const char *path = write_npy("stray.npy", "<f4", "(2, 2)", rows, 16);
  const int32_t stray[2] = {0, 499999};
  const char *labels[] = {write_npy("stray-labels.npy", "<i4", "(2,)", stray, 8)};
  kf_data *data;
  assert_failed(
      kf_data_open(ctx, &path, 1, &(kf_data_options){.labels = labels, .n_labels = 1}, &data),
      KF_ERR_DATA, path, "499999");
}

TEST(arguments) {
  AUTO(kf_data) *data = NULL;
  const char *paths[] = {NULL};
  assert_int_equal(kf_data_open(ctx, NULL, 0, NULL, &data), KF_ERR_ARG);
  assert_int_equal(kf_data_open(ctx, paths, 1, NULL, &data), KF_ERR_ARG);
  assert_int_equal(kf_data_open_memory(ctx, NULL, 1, 1, NULL, NULL, 0, &data), KF_ERR_ARG);
  assert_int_equal(kf_data_open_memory(ctx, six, 0, 1, NULL, NULL, 0, &data), KF_ERR_ARG);
  assert_int_equal(kf_data_open_memory(ctx, six, 3, 0, NULL, NULL, 0, &data), KF_ERR_ARG);
  const int32_t labels[3] = {0, 5, -2};
  assert_failed(kf_data_open_memory(ctx, six, 3, 2, labels, NULL, 3, &data), KF_ERR_DATA, "row 1",
                "the label is 5");
  assert_failed(kf_data_open_memory(ctx, six, 3, 2, labels, NULL, 0, &data), KF_ERR_DATA, "row 2",
                "the label is -2");
  const char *twice[] = {"a", "b", "a"}, *empty[] = {"a", "", "b"};
  assert_int_equal(kf_data_open_memory(ctx, six, 1, 2, labels, twice, 3, &data), KF_ERR_ARG);
  assert_int_equal(kf_data_open_memory(ctx, six, 1, 2, labels, empty, 3, &data), KF_ERR_ARG);
  assert_int_equal(kf_data_open_memory(ctx, six, 3, 2, NULL, NULL, 0, &data), KF_OK);
  float rows[6];
  assert_int_equal(kf_data_get(ctx, data, 1, 3, rows, NULL), KF_ERR_ARG);
  assert_int_equal(kf_data_get(ctx, data, 4, 0, rows, NULL), KF_ERR_ARG);
  assert_int_equal(kf_data_get(ctx, data, 2, UINT64_MAX, rows, NULL), KF_ERR_ARG);
}

/* --- npy ------------------------------------------------------------------------------------- */

TEST(npy_file) {
  assert_refused(write_text("x.npy", "PK"), NULL, KF_ERR_DATA, "does not begin like a .npy");
  assert_refused(write_bytes("x.npy", "\x93NUMPY\x01", 7), NULL, KF_ERR_DATA, "header");
  assert_refused(write_bytes("x.npy", "\x93NUMPY\x04\x00\x00\x00\x00\x00", 12), NULL, KF_ERR_DATA,
                 "version 4.0");
  assert_refused(write_bytes("x.npy", "\x93NUMPY\x02\x00\xFF\xFF\xFF\xFF", 12), NULL, KF_ERR_DATA,
                 "past the end");
  AUTOFREE char *large = calloc(1, 2 << 20);
  memcpy(large, "\x93NUMPY\x02\x00\x00\x00\x18\x00", 12);
  assert_refused(write_bytes("x.npy", large, 2 << 20), NULL, KF_ERR_DATA, "more than 1048576");
}

TEST(npy_header) {
  const struct {
    const char *dict, *cause;
  } file[] = {
      {"", "ends where '{' is expected"},
      {"[]", "where '{' is expected"},
      {"{}", "lacks 'descr'"},
      {"{'descr': '<f4', 'shape': (2, 3)}", "lacks 'fortran_order'"},
      {"{'descr': '<f4', 'fortran_order': False}", "lacks 'shape'"},
      {"{'descr': '<f4', 'fortran_order': 0, 'shape': (2, 3)}", "True or False"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)} x", "its end"},
      {"{'descr': '<f4', 'descr': '<f4'}", "'descr' twice"},
      {"{'other': 1}", "unknown key 'other'"},
      {"{'descr: 1}", "a key"},
      {"{'descr' '<f4'}", "':'"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, -3)}", "negative"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (6)}", "',' or ')'"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2 3)}", "',' or ')'"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': 6}", "a shape"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}", "more than 8"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999, 1)}", "64 bits"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776, 1099511627776)}",
       "overflows"},
      {"{'descr': '|O', 'fortran_order': False, 'shape': (2, 3)}", "holds Python objects"},
      {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2, 3)}", "structured"},
      {"{'descr': '>f4', 'fortran_order': False, 'shape': (2, 3)}", "big-endian"},
      {"{'descr': '<c8', 'fortran_order': False, 'shape': (2, 3)}", "'<c8' is not supported"},
      {"{'descr': '<c8', 'fortran_order': False, 'shape': (2, 3)}", "'<c8' is not supported"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 4)}", "cut short"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2)}", "followed by other bytes"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (6,)}", "2 dimensions, not of 1"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2, 3)}", "2 dimensions, not of 3"},
      {"{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3)}", "must be floats"},
  };
  for (size_t i = 0; i < sizeof file / sizeof file[0]; i++)
    assert_refused(write_npy_header("h.npy", 1, file[i].dict, six, sizeof six), NULL, KF_ERR_DATA,
                   file[i].cause);
}

TEST(npy_no_rows) {
  assert_refused(write_npy("z.npy", "<f4", "(0, 3)", "", 0), NULL, KF_ERR_DATA, "no rows");
  assert_refused(write_npy("z.npy", "<f4", "(3, 0)", "", 0), NULL, KF_ERR_DATA, "no columns");
  AUTOFREE char *wide = calloc(65537, 4);
  assert_refused(write_npy("z.npy", "<f4", "(1, 65537)", wide, 65537 * 4), NULL, KF_ERR_DATA,
                 "65537 columns");
}

TEST(truncated_says_bytes) {
  const char *path = write_npy("t.npy", "<f4", "(2, 3)", six, 20);
  assert_refused(path, NULL, KF_ERR_DATA, "needs 24 bytes");
  assert_refused(path, NULL, KF_ERR_DATA, "there are 20");
}

/* --- safetensors ----------------------------------------------------------------------------- */

#define TENSOR(name, type, shape, begin, end)                                                      \
  "\"" name "\":{\"dtype\":\"" type "\",\"shape\":[" shape "],\"data_offsets\":[" #begin "," #end  \
  "]}"

TEST(safetensors_header) {
  const struct {
    const char *json, *cause;
  } file[] = {
      {"", "not valid JSON"},
      {"{", "not valid JSON"},
      {"[]", "not a JSON object"},
      {"{\"a\":1,\"a\":2}", "twice"},
      {"{\"__metadata__\":[]}", "__metadata__"},
      {"{\"__metadata__\":{\"k\":1}}", "metadata 'k' is not a string"},
      {"{\"a\":1}", "tensor 'a' has no dtype"},
      {"{" TENSOR("a", "F99", "6", 0, 24) "}", "unknown dtype 'F99'"},
      {"{" TENSOR("a", "F32", "-6", 0, 24) "}", "shape of tensor 'a'"},
      {"{" TENSOR("a", "F32", "6.0", 0, 24) "}", "shape of tensor 'a'"},
      {"{" TENSOR("a", "F32", "1,1,1,1,1,1,1,1,1", 0, 24) "}", "at most 8 sizes"},
      {"{" TENSOR("a", "F32", "4611686018427387904,4", 0, 24) "}", "overflows"},
      {"{" TENSOR("a", "F32", "6", 24, 0) "}", "two rising numbers"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[6],\"data_offsets\":[0]}}", "two rising numbers"},
      {"{" TENSOR("a", "F32", "7", 0, 28) "}",
       "the file is truncated: tensor 'a' ends at data byte 28, but there are only 24"},
      {"{" TENSOR("a", "F32", "5", 0, 24) "}", "needs 20 bytes, but its data_offsets span 24"},
      {"{" TENSOR("a", "F32", "3", 0, 12) "," TENSOR("b", "F32", "4", 8, 24) "}",
       "'a' and 'b' overlap"},
      {"{" TENSOR("b", "F32", "2", 16, 24) "," TENSOR("a", "F32", "3", 0, 12) "}",
       "4 data bytes before tensor 'b'"},
      {"{" TENSOR("a", "F32", "5", 0, 20) "}", "4 trailing bytes"},
      {"{" TENSOR("embeddings", "F32", "6", 0, 24) "}", "not a matrix of floats"},
      {"{" TENSOR("embeddings", "I32", "2,3", 0, 24) "}", "not a matrix of floats"},
      {"{" TENSOR("a", "F32", "6", 0, 24) "}", "0 others"},
      {"{" TENSOR("a", "F32", "2,3", 0, 24) "," TENSOR("embeddings", "F32", "0,3", 24, 24) "}",
       "no rows"},
      {"{" TENSOR("embeddings", "F32", "1,3", 0, 12) "," TENSOR("labels", "F32", "3", 12, 24) "}",
       "not a list of integer labels"},
      {"{" TENSOR("embeddings", "F32", "2,2", 0, 16) "," TENSOR("labels", "I64", "1", 16, 24) "}",
       "1 labels for the 2 rows"},
      {"{\"__metadata__\":{\"classes\":\"x\"}," TENSOR("e", "F32", "2,3", 0, 24) "}",
       "'classes' is not a JSON list of at most 4194304 strings"},
      {"{\"__metadata__\":{\"classes\":\"[\\\"a\\\"\"}," TENSOR("e", "F32", "2,3", 0, 24) "}",
       "'classes' is not valid JSON"},
      {"{\"__metadata__\":{\"classes\":\"[1]\"}," TENSOR("e", "F32", "2,3", 0, 24) "}", "entry 0"},
      {"{\"__metadata__\":{\"classes\":\"[\\\"a\\\",\\\"a\\\"]\"}," TENSOR("e", "F32", "2,3", 0,
                                                                           24) "}",
       "twice"},
  };
  for (size_t i = 0; i < sizeof file / sizeof file[0]; i++)
    assert_refused(write_st("h.safetensors", file[i].json, six, sizeof six), NULL, KF_ERR_DATA,
                   file[i].cause);
}

TEST(safetensors_length) {
  const struct {
    uint64_t length;
    const char *cause;
  } file[] = {{UINT64_MAX, "more than the limit of 100000000"},
              {100000001, "more than the limit of 100000000"},
              {100000000, "100000000 bytes goes past the end of the file, which has 10"},
              {3, "past the end"}};
  for (size_t i = 0; i < 4; i++)
    assert_refused(write_two("l.safetensors", &file[i].length, 8, "{}", 2), NULL, KF_ERR_DATA,
                   file[i].cause);
  assert_refused(write_text("l.safetensors", "short"), NULL, KF_ERR_DATA, "5 bytes");
  assert_refused(write_text("l.safetensors", "version https://git-lfs.github.com/spec/v1\noid"),
                 NULL, KF_ERR_DATA, "Git LFS pointer");
}

/* --- fvecs, fbin ----------------------------------------------------------------------------- */

TEST(vecs) {
  const int32_t rows[6] = {2, 1, 2, 2, 3, 4};
  assert_refused(write_bytes("x.fvecs", rows, 20), NULL, KF_ERR_DATA, "not a multiple of the 12");
  assert_refused(write_bytes("x.fvecs", rows, 3), NULL, KF_ERR_DATA, "3 bytes");
  assert_refused(write_bytes("x.fvecs", (int32_t[]){-1, 0}, 8), NULL, KF_ERR_DATA, "-1 columns");
  assert_refused(write_bytes("x.fvecs", (int32_t[]){0, 0}, 8), NULL, KF_ERR_DATA, "no columns");
  assert_refused(write_bytes("x.fvecs", (int32_t[]){1 << 30, 0}, 8), NULL, KF_ERR_DATA,
                 "1073741824 columns");
  assert_refused(write_bytes("x.fbin", rows, 6), NULL, KF_ERR_DATA, "6 bytes");
  assert_refused(write_bytes("x.fbin", rows, 24), NULL, KF_ERR_DATA,
                 "2 rows of 1 columns take 16 bytes, but the file has 24");
  assert_refused(write_bytes("x.fbin", (uint32_t[]){UINT32_MAX, 65536}, 8), NULL, KF_ERR_DATA,
                 "but the file has 8");
  assert_refused(write_bytes("x.fbin", (uint32_t[]){0, 4}, 8), NULL, KF_ERR_DATA, "no rows");
  assert_refused(write_bytes("x.f16bin", rows, 24), NULL, KF_ERR_DATA,
                 "2 rows of 1 columns take 12 bytes, but the file has 24");
  assert_refused(write_bytes("x.u8bin", rows, 6), NULL, KF_ERR_DATA, "of a .u8bin file has 8");
  assert_refused(write_bytes("x.i8bin", rows, 11), NULL, KF_ERR_DATA,
                 "2 rows of 1 columns take 10 bytes, but the file has 11");
}

/* --- rows ------------------------------------------------------------------------------------ */

TEST(bad_rows) {
  const struct {
    float values[6];
    const char *cause;
  } file[] = {{{1, 2, 3, NAN, 5, 6}, "row 1: column 1 is NaN"},
              {{1, 2, 3, 4, -INFINITY, 6}, "row 2: column 0 is infinite"},
              {{0, -0.0F, 3, 4, 5, 6}, "row 0: every column is zero"}};
  for (size_t i = 0; i < 3; i++) {
    const char *path = write_npy("r.npy", "<f4", "(3, 2)", file[i].values, 24);
    AUTO(kf_data) *data = must_open(path, NULL);
    float rows[6];
    assert_failed(kf_data_get(ctx, data, 0, 3, rows, NULL), KF_ERR_DATA, path, file[i].cause);
    assert_failed(kf_data_save(ctx, data, KF_F32, at("never.safetensors")), KF_ERR_DATA, path,
                  file[i].cause);
    assert_int_equal(access(at("never.safetensors"), F_OK), -1);
  }
  const double large[2] = {1e39, 1};
  AUTO(kf_data) *data = must_open(write_npy("r.npy", "<f8", "(1, 2)", large, 16), NULL);
  float rows[2];
  assert_failed(kf_data_get(ctx, data, 0, 1, rows, NULL), KF_ERR_DATA, "r.npy", "infinite");
}

TEST(all_bad) {
  const float zero[4] = {0};
  AUTO(kf_data) *data = must_open(write_npy("zero.npy", "<f4", "(2, 2)", zero, 16),
                                  &(kf_data_options){.skip_bad = 1});
  assert_failed(kf_data_save(ctx, data, KF_F32, at("never.safetensors")), KF_ERR_DATA, "",
                "all 2 rows");
}

TEST(different_dimensions) {
  const char *paths[] = {write_npy("two.npy", "<f4", "(3, 2)", six, 24),
                         write_npy("three.npy", "<f4", "(2, 3)", six, 24)};
  kf_data *data = NULL;
  kf_status status = kf_data_open(ctx, paths, 2, NULL, &data);
  assert_failed(status, KF_ERR_DATA, paths[0], "have 2");
  assert_failed(status, KF_ERR_DATA, paths[1], "have 3 columns");
}

/* A file that becomes shorter between opening and reading: an error, never a signal. */
TEST(cut_while_open) {
  enum { N = 4096 };
  AUTOFREE float *rows = malloc(sizeof(float) * N * 2);
  for (int i = 0; i < N * 2; i++) rows[i] = 1;
  const char *path = write_npy("cut.npy", "<f4", "(4096, 2)", rows, sizeof(float) * N * 2);
  AUTOFREE char *text = malloc(2 * N);
  for (int i = 0; i < N; i++) memcpy(text + 2 * i, "a\n", 2);
  const char *labels[] = {write_bytes("cut.txt", text, 2 * N)};
  AUTO(kf_data) *data = must_open(path, &(kf_data_options){.labels = labels, .n_labels = 1});
  assert_int_equal(truncate(labels[0], N), 0);
  int32_t got[N];
  assert_int_equal(kf_data_get(ctx, data, 0, 4, rows, got), KF_ERR_DATA);
  assert_failed(kf_data_get(ctx, data, N - 4, 4, rows, got), KF_ERR_DATA, labels[0],
                "ends at byte");
  assert_int_equal(truncate(path, 10000), 0);
  assert_int_equal(kf_data_get(ctx, data, 0, 10, rows, NULL), KF_OK);
  assert_failed(kf_data_get(ctx, data, 0, N, rows, NULL), KF_ERR_DATA, path, "ends at byte 10000");
  /* Lines that were joined into fewer, in a file as long as before. */
  memset(text, 'b', 2 * N);
  write_bytes("cut.txt", text, 2 * N);
  assert_failed(kf_data_get(ctx, data, 5, 1, rows, got), KF_ERR_DATA, labels[0], "lost lines");
}

/* --- labels ---------------------------------------------------------------------------------- */

/* Opens six numbers as three rows with a label file and (or NULL) a class file. */
static void assert_labels_refused(const char *label_file, const char *classes, kf_status expected,
                                  const char *file, const char *cause) {
  const char *rows = write_npy("rows.npy", "<f4", "(3, 2)", six, 24);
  kf_data_options options = {.labels = &label_file, .n_labels = 1, .classes = classes};
  kf_data *data = NULL;
  kf_status status = open_one(rows, &options, &data);
  assert_null(data);
  assert_failed(status, expected, file, cause);
}

TEST(label_files) {
  const int64_t negative[3] = {0, -5, 1}, large[3] = {0, 1, 4194304}, two[2] = {0, 1};
  const uint64_t huge[3] = {0, UINT64_MAX, 1};
  const struct {
    const char *path, *cause;
  } file[] = {
      {write_text("1.txt", "a\nb\n"), "2 labels for the 3 rows"},
      {write_text("2.txt", "a\nb\nc\nd\n"), "4 labels for the 3 rows"},
      {write_text("3.txt", "a\n\nc\n"), "line 2 is empty"},
      {write_bytes("4.txt", "a\nb\0c\nd\n", 8), "line 2 contains a NUL"},
      {write_text("5.txt", "a\nb\n\xFFmurks\n"), "line 3 is not valid UTF-8"},
      {write_npy("6.npy", "<i8", "(3,)", negative, 24), "label of row 1 is negative (-5)"},
      {write_npy("7.npy", "<i8", "(3,)", large, 24), "label of row 2 is 4194304"},
      {write_npy("8.npy", "<u8", "(3,)", huge, 24), "label of row 1 is 9223372036854775807"},
      {write_npy("9.npy", "<i8", "(2,)", two, 16), "2 labels for the 3 rows"},
      {write_npy("10.npy", "<f4", "(3,)", six, 12), "must be integers"},
      {write_npy("11.npy", "<i8", "(1, 2)", two, 16), "must be a list"},
      {write_npy("12.npy", "|O", "(3,)", two, 16), "holds Python objects"},
  };
  for (size_t i = 0; i < sizeof file / sizeof file[0]; i++)
    assert_labels_refused(file[i].path, NULL, KF_ERR_DATA, file[i].path, file[i].cause);
  assert_labels_refused(at("none.txt"), NULL, KF_ERR_IO, "none.txt", "No such file");
  assert_labels_refused(at("x.fbin"), NULL, KF_ERR_ARG, "x.fbin", "one label per line");
}

TEST(long_lines) {
  AUTOFREE char *text = malloc(65540);
  memset(text, 'x', 65540);
  memcpy(text, "a\n", 2);
  /* 65,536 bytes are a line, with either end or none; 65,537 are not. */
  const char *label_file = at("long.txt");
  const char *rows = write_npy("rows2.npy", "<f4", "(2, 2)", six, 16);
  kf_data_options options = {.labels = &label_file, .n_labels = 1};
  for (int i = 0; i < 3; i++) {
    text[65538] = i == 0 ? 'x' : i == 1 ? '\n' : '\r';
    text[65539] = '\n';
    write_bytes("long.txt", text, i == 0 ? 65538 : i == 1 ? 65539 : 65540);
    AUTO(kf_data) *data = must_open(rows, &options);
    assert_int_equal(strlen(kf_data_class_name(data, 1)), 65536);
  }
  text[65538] = 'x';
  for (int i = 0; i < 2; i++) {
    assert_labels_refused(write_bytes("long.txt", text, i == 0 ? 65539 : 65540), NULL, KF_ERR_DATA,
                          "long.txt", "line 2 is longer than 65536 bytes");
  }
}

TEST(class_files) {
  const char *text = write_text("t.txt", "a\nb\nc\n");
  const char *numbers = write_npy("n.npy", "|i1", "(3,)", "\x00\x01\x02", 3);
  const char *two = write_text("two.txt", "a\nb\n");
  assert_labels_refused(text, two, KF_ERR_DATA, text, "label 'c' in line 3 is not a class of");
  assert_labels_refused(numbers, two, KF_ERR_DATA, numbers, "label of row 2 is 2, but");
  assert_labels_refused(
      text, write_text("c.txt", "a\nb\na\n"), KF_ERR_DATA, "c.txt",
      "line 3 repeats the class name 'a' of line 1; give such classes different names");
  assert_labels_refused(text, write_text("c.txt", "a\n\nb\n"), KF_ERR_DATA, "c.txt",
                        "line 2 is empty");
  assert_labels_refused(text, write_text("c.txt", "a\n\xC0\x80\n"), KF_ERR_DATA, "c.txt",
                        "line 2 is not valid UTF-8");
  assert_labels_refused(text, write_text("c.txt", "\xEF\xBB\xBF"), KF_ERR_DATA, "c.txt",
                        "no class name");
  assert_labels_refused(text, write_text("c.txt", ""), KF_ERR_DATA, "c.txt", "is empty");
  assert_refused(write_npy("rows.npy", "<f4", "(3, 2)", six, 24),
                 &(kf_data_options){.label_tensor = "y"}, KF_ERR_DATA, "no label tensor 'y'");
  kf_data *data = NULL;
  assert_failed(open_one(at("rows.npy"), &(kf_data_options){.classes = two}, &data), KF_ERR_ARG,
                "two.txt", "no labels to name");
}

TEST(label_sets) {
  const char *inside =
      "{" TENSOR("e", "F32", "2,2", 0, 16) "," TENSOR("labels", "I32", "2", 16, 24) "}";
  const char *named = "{\"__metadata__\":{\"classes\":\"[\\\"p\\\",\\\"q\\\"]\"}," TENSOR(
      "e", "F32", "2,2", 0, 16) "," TENSOR("labels", "I32", "2", 16, 24) "}";
  char bytes[24] = {0};
  memcpy(bytes, six, 16);
  const char *with = write_st("with.safetensors", inside, bytes, 24);
  const char *other = write_st("other.safetensors", named, bytes, 24);
  const char *without = write_npy("without.npy", "<f4", "(3, 2)", six, 24);
  kf_data *data = NULL;
  const char *mixed[] = {with, without}, *differ[] = {with, other};
  assert_failed(kf_data_open(ctx, mixed, 2, NULL, &data), KF_ERR_DATA, without, "no labels inside");
  assert_failed(kf_data_open(ctx, differ, 2, NULL, &data), KF_ERR_DATA, other, with);
  const char *labels[] = {write_text("a.txt", "a\nb\n"),
                          write_npy("b.npy", "|i1", "(3,)", "\x00\x01\x02", 3), at("a.txt")};
  kf_data_options options = {.labels = labels, .n_labels = 3};
  assert_failed(kf_data_open(ctx, mixed, 2, &options, &data), KF_ERR_ARG, "3 label files",
                "2 data files");
  options.n_labels = 2;
  assert_failed(kf_data_open(ctx, mixed, 2, &options, &data), KF_ERR_DATA, labels[1],
                "next to text labels");
  options.n_labels = 1;
  assert_failed(kf_data_open(ctx, mixed, 2, &options, &data), KF_ERR_DATA, labels[0],
                "2 labels for the 5 rows");
}

/* --- writing --------------------------------------------------------------------------------- */

TEST(save_refuses) {
  const float rows[4] = {1, 2, 3, 70000};
  const char *path = write_npy("in.npy", "<f4", "(2, 2)", rows, 16);
  const char *labels[] = {write_npy("in-labels.npy", "|i1", "(2,)", "\x00\x01", 2)};
  AUTO(kf_data) *data = must_open(path, &(kf_data_options){.labels = labels, .n_labels = 1});
  assert_failed(kf_data_save(ctx, data, KF_F32, at("out.npy")), KF_ERR_ARG, "out.npy",
                ".safetensors");
  kf_save_spec spec = {.what = "test", .dim = 2, .dtype = KF_F32};
  assert_failed(kf_data_save_mapped(ctx, data, &spec, at("out.txt")), KF_ERR_ARG, "out.txt",
                ".safetensors, .npy and .parquet");
  assert_failed(kf_data_save_mapped(ctx, data, &spec, path), KF_ERR_ARG, path, "input");
  assert_failed(kf_data_save_mapped(ctx, data, &spec, labels[0]), KF_ERR_ARG, labels[0], "input");
  assert_int_equal(symlink(path, at("link.npy")), 0);
  assert_failed(kf_data_save_mapped(ctx, data, &spec, at("link.npy")), KF_ERR_ARG, "link.npy",
                "input");
  assert_true(kf_data_reads(data, path) && kf_data_reads(data, labels[0]));
  assert_true(kf_data_reads(data, at("link.npy")) && !kf_data_reads(data, at("other.npy")));
  spec.dtype = KF_BF16;
  assert_failed(kf_data_save_mapped(ctx, data, &spec, at("out.npy")), KF_ERR_ARG, "out.npy",
                "bf16");
  spec.dtype = KF_F64;
  assert_failed(kf_data_save_mapped(ctx, data, &spec, at("out.npy")), KF_ERR_ARG, "out.npy", "f32");
  assert_failed(kf_data_save(ctx, data, KF_F16, at("out.safetensors")), KF_ERR_DATA, path,
                "row 1: column 1 is 70000, too large for f16");
  assert_failed(kf_data_save(ctx, data, KF_F32, at("nowhere/out.safetensors")), KF_ERR_IO,
                "nowhere/out.safetensors", "No such file");
  assert_int_equal(access(at("out.safetensors"), F_OK), -1);
}

static int stop_now(void *user, const char *what, uint64_t done, uint64_t total) {
  (void)user;
  (void)what;
  return done == total;
}

TEST(save_cancelled) {
  AUTO(kf_ctx) *own = NULL;
  kf_ctx_options options = {.threads = 2, .progress = stop_now};
  assert_int_equal(kf_ctx_new(&options, &own), KF_OK);
  AUTO(kf_data) *data = NULL;
  assert_int_equal(kf_data_open_memory(own, six, 3, 2, NULL, NULL, 0, &data), KF_OK);
  assert_int_equal(kf_data_save(own, data, KF_F32, at("stopped.safetensors")), KF_ERR_CANCELLED);
  assert_int_equal(access(at("stopped.safetensors"), F_OK), -1);
}

FIXTURES(.before = make_test_folder, .after = remove_test_folder);
