/* test_in_memory.c - data in memory instead of files: rows of any type, stride and number of
 * pieces, and files as bytes. */
#include "test.h"

#include "file/file.h"

#include <math.h>

enum { N = 211, D = 13, K = 5 };
static float rows[N * D];
static int32_t labels[N];

static int make_rows(void **state) {
  test_in_memory(state);
  uint64_t seed = 7;
  for (size_t i = 0; i < N; i++) labels[i] = (int32_t)(i % K);
  /* Of few bits, so that every type holds them exactly. */
  for (size_t i = 0; i < (size_t)N * D; i++)
    rows[i] = (float)((int)(test_random(&seed) % 255) - 127) / 16 + 0.03125f;
  return 0;
}

/* The rows as elements of another type, with room between rows and columns; free() it. */
static unsigned char *spread(kf_dtype dtype, size_t row_stride, size_t column_stride,
                             size_t shift) {
  unsigned char *out = calloc(N * row_stride + shift + 8, 1);
  AUTO(kf_ctx) *ctx = test_ctx(1, KF_ISA_PLAIN);
  for (size_t i = 0; i < N; i++)
    for (size_t j = 0; j < D; j++) {
      float x = rows[i * D + j];
      double wide = (double)x;
      unsigned char narrow[8];
      if (dtype == KF_F64)
        memcpy(narrow, &wide, 8);
      else
        kf_encode_f32(ctx->kernels, kf_type_of(dtype), &x, 1, narrow);
      memcpy(out + shift + i * row_stride + j * column_stride, narrow,
             kf_type_size(kf_type_of(dtype)));
    }
  return out;
}

static void assert_rows(kf_ctx *ctx, const kf_data *data) {
  static float got[N * D];
  static int32_t kinds[N];
  assert_int_equal(kf_data_rows(data), N);
  assert_ok(ctx, kf_data_get(ctx, data, 0, N, got, kinds));
  assert_memory_equal(got, rows, sizeof rows);
  for (uint64_t first = 0; first < N; first += 10) { /* across the pieces */
    uint64_t n = N - first < 17 ? N - first : 17;
    assert_ok(ctx, kf_data_get(ctx, data, first, n, got, kinds));
    assert_memory_equal(got, rows + first * D, n * D * sizeof *rows);
  }
}

/* --- arrays ----------------------------------------------------------------------------------- */

TEST(types_and_strides) {
  AUTO(kf_ctx) *ctx = test_ctx(2, KF_ISA_AUTO);
  for (kf_dtype dtype = KF_F32; dtype <= KF_F64; dtype++) {
    size_t size = kf_type_size(kf_type_of(dtype));
    const size_t strides[][3] = {/* row, column, shift */
                                 {D * size, size, 0},
                                 {D * size, size, 1},
                                 {(D + 3) * size, size, 0},
                                 {2 * D * size, 2 * size, 0},
                                 {D * size + 1, size, 0}};
    for (size_t s = 0; s < sizeof strides / sizeof *strides; s++) {
      AUTOFREE unsigned char *memory = spread(dtype, strides[s][0], strides[s][1], strides[s][2]);
      kf_array array = {.rows = memory + strides[s][2],
                        .n = N,
                        .dtype = dtype,
                        .row_stride = (int64_t)strides[s][0],
                        .column_stride = (int64_t)strides[s][1]};
      AUTO(kf_data) *data = NULL;
      assert_ok(ctx, kf_data_open_arrays(ctx, &array, 1, D, NULL, &data));
      assert_rows(ctx, data);
    }
  }
}

/* From the last row to the first, and the same for columns. */
TEST(negative_strides) {
  AUTO(kf_ctx) *ctx = test_ctx(1, KF_ISA_AUTO);
  static float turned[N * D];
  for (size_t i = 0; i < (size_t)N * D; i++) turned[i] = rows[(size_t)N * D - 1 - i];
  kf_array array = {.rows = turned + (size_t)N * D - 1,
                    .n = N,
                    .row_stride = -(int64_t)(D * sizeof(float)),
                    .column_stride = -(int64_t)sizeof(float)};
  AUTO(kf_data) *data = NULL;
  assert_ok(ctx, kf_data_open_arrays(ctx, &array, 1, D, NULL, &data));
  assert_rows(ctx, data);
}

TEST(pieces) {
  AUTO(kf_ctx) *ctx = test_ctx(2, KF_ISA_AUTO);
  AUTOFREE unsigned char *half = spread(KF_F16, 2 * D, 2, 0);
  const kf_array arrays[] = {
      {.rows = rows, .n = 0},
      {.rows = rows, .n = 5},
      {.rows = half + (size_t)5 * 2 * D, .n = 1, .dtype = KF_F16},
      {.rows = rows, .n = 0},
      {.rows = rows + (size_t)6 * D, .n = N - 6},
  };
  const char *names[K] = {"a", "b", "c", "d", "e"}, *ids[N];
  char text[N][8];
  for (size_t i = 0; i < N; i++) {
    snprintf(text[i], sizeof text[i], "r%zu", i);
    ids[i] = text[i];
  }
  kf_array_options o = {.labels = labels, .names = names, .n_classes = K, .ids = ids};
  AUTO(kf_data) *data = NULL;
  assert_ok(ctx, kf_data_open_arrays(ctx, arrays, 5, D, &o, &data));
  assert_rows(ctx, data);
  assert_string_equal(kf_data_class_name(data, 4), "e");
  int32_t got[N];
  char id[16];
  assert_ok(ctx, kf_data_labels(ctx, data, got));
  assert_memory_equal(got, labels, sizeof labels);
  assert_ok(ctx, kf_data_get_id(ctx, data, 7, id, sizeof id));
  assert_string_equal(id, "r7");
}

TEST(skipped_rows) {
  AUTO(kf_ctx) *ctx = test_ctx(1, KF_ISA_AUTO);
  float some[3 * 2] = {1, 2, 0, 0, 3, 4}, got[6];
  int32_t kinds[3];
  kf_array array = {.rows = some, .n = 3};
  kf_data *data;
  for (kf_skip skip = KF_SKIP_BAD; skip <= KF_SKIP_ZERO; skip++) {
    some[5] = 4;
    assert_ok(ctx,
              kf_data_open_arrays(ctx, &array, 1, 2, &(kf_array_options){.skip = skip}, &data));
    assert_ok(ctx, kf_data_get(ctx, data, 0, 3, got, kinds));
    assert_int_equal(kinds[1], KF_LABEL_BAD);
    some[5] = NAN;
    if (skip == KF_SKIP_BAD) {
      assert_ok(ctx, kf_data_get(ctx, data, 0, 3, got, kinds));
      assert_int_equal(kinds[2], KF_LABEL_BAD);
    } else {
      assert_error(ctx, KF_ERR_DATA, "row 2: column 1 is NaN",
                   kf_data_get(ctx, data, 0, 3, got, kinds));
    }
    kf_data_free(data);
  }
}

TEST(wrong_arrays) {
  AUTO(kf_ctx) *ctx = test_ctx(1, KF_ISA_AUTO);
  kf_data *data;
  kf_array array = {.rows = rows, .n = N, .dtype = (kf_dtype)9};
  assert_error(ctx, KF_ERR_ARG, "of no float type",
               kf_data_open_arrays(ctx, &array, 1, D, NULL, &data));
  assert_null(data);
  array = (kf_array){.n = N};
  assert_error(ctx, KF_ERR_ARG, "NULL", kf_data_open_arrays(ctx, &array, 1, D, NULL, &data));
  array = (kf_array){.rows = rows, .n = N, .reserved = {1}};
  assert_error(ctx, KF_ERR_ARG, "", kf_data_open_arrays(ctx, &array, 1, D, NULL, &data));
  array = (kf_array){.rows = rows, .n = (uint64_t)1 << 41};
  assert_error(ctx, KF_ERR_ARG, "more than 2^40 rows",
               kf_data_open_arrays(ctx, &array, 1, D, NULL, &data));
  assert_error(ctx, KF_ERR_ARG, "0 rows", kf_data_open_arrays(ctx, NULL, 0, D, NULL, &data));
  array.n = 2;
  const char *ids[] = {"a", "\xff"};
  assert_error(ctx, KF_ERR_DATA, "row 1: the id is not UTF-8",
               kf_data_open_arrays(ctx, &array, 1, D, &(kf_array_options){.ids = ids}, &data));
}

/* --- bytes ------------------------------------------------------------------------------------ */

static void assert_file(const char *path, const kf_bytes *bytes) {
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  unsigned char *text = malloc(kf_bytes_size(bytes) + 1);
  assert_int_equal(fread(text, 1, kf_bytes_size(bytes) + 1, file), kf_bytes_size(bytes));
  assert_memory_equal(text, kf_bytes_data(bytes), kf_bytes_size(bytes));
  free(text);
  fclose(file);
}

/* Every prefix is refused, and so is a changed byte. */
static void refuse_damaged(kf_ctx *ctx, const kf_bytes *bytes, bool model) {
  size_t n = kf_bytes_size(bytes);
  kf_model *m;
  kf_stats *s;
  for (size_t cut = 0; cut < n; cut += cut < 700 ? 1 : 97) {
    AUTOFREE unsigned char *part = malloc(cut + 1); /* so that sanitizers see its end */
    memcpy(part, kf_bytes_data(bytes), cut);
    assert_int_equal(model ? kf_model_load_bytes(ctx, part, cut, &m)
                           : kf_stats_load_bytes(ctx, part, cut, &s),
                     KF_ERR_DATA);
  }
  AUTOFREE unsigned char *copy = malloc(n);
  for (size_t i = 0; i < n; i += 31) {
    memcpy(copy, kf_bytes_data(bytes), n);
    copy[i] ^= 4;
    assert_int_equal(model ? kf_model_load_bytes(ctx, copy, n, &m)
                           : kf_stats_load_bytes(ctx, copy, n, &s),
                     KF_ERR_DATA);
  }
}

TEST(files_as_bytes) {
  AUTO(kf_ctx) *ctx = test_ctx(2, KF_ISA_AUTO);
  char path[512];
  snprintf(path, sizeof path, "%s/x.safetensors", test_folder());
  AUTO(kf_data) *data = NULL;
  AUTO(kf_stats) *stats = NULL, *stats2 = NULL;
  kf_model *model, *model2;
  kf_bytes *bytes, *again;
  assert_ok(ctx, kf_data_open_memory(ctx, rows, N, D, labels, NULL, K, &data));
  assert_ok(ctx, kf_stats_new_from_data(ctx, data, NULL, &stats));
  assert_ok(ctx, kf_fit(ctx, data, NULL, &model, NULL));

  assert_ok(ctx, kf_stats_save(ctx, stats, path));
  assert_ok(ctx, kf_bytes_new_of_stats(ctx, stats, &bytes));
  assert_file(path, bytes);
  assert_ok(ctx, kf_stats_load_bytes(ctx, kf_bytes_data(bytes), kf_bytes_size(bytes), &stats2));
  assert_ok(ctx, kf_bytes_new_of_stats(ctx, stats2, &again));
  assert_int_equal(kf_bytes_size(bytes), kf_bytes_size(again));
  assert_memory_equal(kf_bytes_data(bytes), kf_bytes_data(again), kf_bytes_size(again));
  refuse_damaged(ctx, bytes, false);
  assert_error(ctx, KF_ERR_DATA, "is a koofu statistics file, not a koofu model",
               kf_model_load_bytes(ctx, kf_bytes_data(bytes), kf_bytes_size(bytes), &model2));
  kf_bytes_free(bytes);
  kf_bytes_free(again);

  assert_ok(ctx, kf_model_save(ctx, model, path));
  assert_ok(ctx, kf_bytes_new_of_model(ctx, model, &bytes));
  assert_file(path, bytes);
  assert_ok(ctx, kf_model_load_bytes(ctx, kf_bytes_data(bytes), kf_bytes_size(bytes), &model2));
  assert_memory_equal(kf_model_prototypes(model), kf_model_prototypes(model2),
                      (size_t)K * D * sizeof(float));
  kf_model_free(model2);
  refuse_damaged(ctx, bytes, true);
  assert_error(ctx, KF_ERR_ARG, "NULL", kf_model_load_bytes(ctx, NULL, 5, &model2));
  assert_null(model2);
  kf_bytes_free(bytes);
  kf_bytes_free(NULL);
  kf_model_free(model);
}

FIXTURES(.before = make_rows);
