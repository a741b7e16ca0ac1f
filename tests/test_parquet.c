/* test_parquet.c - the parts of .parquet that sessions do not cover: bits, codecs, hostile
 * metadata, threads that share pages. */
#include "file/parquet.h"
#include "file/parquet_bits.h"
#include "files.h"
#include "test.h"

#include <string.h>

AUTO_OBJECT(kf_pq_cache)

#define GOLDEN KOOFU_SOURCE_DIR "/tests/golden/parquet/"

static const char *const files[] = {GOLDEN "pyarrow-groups-nulls-n23.parquet",
                                    GOLDEN "pyarrow-delta-n200.parquet",
                                    GOLDEN "duckdb-default-n23.parquet"};

/* A row by itself is one read: the copy of such columns holds whole rows. */
TEST(columns_become_rows) {
  AUTO(kf_ctx) *own = test_ctx(1, KF_ISA_PLAIN);
  const char *path = KOOFU_SOURCE_DIR "/tests/golden/parquet_odd/columns.parquet";
  kf_data_options options = {.label_column = "class"};
  kf_data *data;
  float row[4];
  assert_ok(own, kf_data_open(own, &path, 1, &options, &data));
  assert_true(data->fetch_raw != NULL && data->raw_type == KF_TYPE_F32);
  assert_ok(own, data->fetch_raw(data, 20, 1, row, &own->err));
  for (int j = 0; j < 4; j++) assert_true(row[j] == (float)((20 * 7 + j * 3) % 31 - 15) / 8);
  kf_data_free(data);
}

/* Reads all of a file, as a data set does. */
static kf_status read_all(kf_ctx *own, const char *path) {
  kf_data *data;
  kf_data_options options = {.label_column = "class", .id_column = "key", .skip_bad = 1};
  kf_status status = kf_data_open(own, &path, 1, &options, &data);
  if (status != KF_OK) return status;
  uint64_t n = kf_data_rows(data);
  float *rows = calloc(n, kf_data_dim(data) * sizeof *rows);
  int32_t *labels = calloc(n, sizeof *labels);
  char id[100];
  assert_true(rows != NULL && labels != NULL);
  status = kf_data_get(own, data, 0, n, rows, labels);
  for (uint64_t i = 0; i < n && status == KF_OK; i++)
    status = kf_data_get_id(own, data, i, id, sizeof id);
  free(rows);
  free(labels);
  kf_data_free(data);
  return status;
}

TEST(runs_of_levels) {
  /* Eight packed bits 0 1 1 1 1 1 1 1, then 13 times 1, then a run that says 0 for the next row. */
  static const unsigned char bytes[] = {3, 0xFE, 26, 1, 2, 0};
  kf_pq_runs runs = kf_pq_runs_start((kf_pq_span){bytes, bytes + sizeof bytes}, 1);
  unsigned char levels[23];
  assert_true(kf_pq_runs_read_levels(&runs, levels, 22));
  for (int i = 0; i < 22; i++) assert_int_equal(levels[i], i != 0 && i != 21);
  runs = kf_pq_runs_start((kf_pq_span){bytes, bytes + sizeof bytes}, 1);
  assert_false(kf_pq_runs_read_levels(&runs, levels, 23)); /* there are 22 */
}

TEST(deltas) {
  /* 1, 2, 3, 4, 5: a block of 128 in 4, one delta of 1 each time. */
  static const unsigned char bytes[] = {0x80, 1, 4, 5, 2, 2, 0, 0, 0, 0};
  int64_t out[5];
  kf_pq_span in = {bytes, bytes + sizeof bytes};
  assert_true(kf_pq_deltas(&in, 5, out));
  for (int i = 0; i < 5; i++) assert_int_equal(out[i], i + 1);
  for (size_t n = 0; n < sizeof bytes; n++) {
    in = (kf_pq_span){bytes, bytes + n};
    assert_false(kf_pq_deltas(&in, 5, out));
  }
  in = (kf_pq_span){bytes, bytes + sizeof bytes};
  assert_false(kf_pq_deltas(&in, 6, out));
}

TEST(codecs) {
  static const unsigned char snappy[] = {9,   8,    'a', 'b',
                                         'c', 0x09, 3}; /* abc, then six of it again */
  static const unsigned char lz4[] = {0x32, 'a', 'b', 'c', 3, 0, 0};
  unsigned char out[16];
  assert_int_equal(kf_unpack(KF_CODEC_SNAPPY, snappy, sizeof snappy, out, 9), KF_OK);
  assert_memory_equal(out, "abcabcabc", 9);
  assert_int_equal(kf_unpack(KF_CODEC_LZ4, lz4, sizeof lz4, out, 9), KF_OK);
  assert_memory_equal(out, "abcabcabc", 9);
  for (size_t n = 0; n < sizeof snappy; n++)
    assert_int_equal(kf_unpack(KF_CODEC_SNAPPY, snappy, n, out, 9), KF_ERR_DATA);
  for (size_t m = 0; m < 16; m++) {
    if (m == 9) continue;
    assert_int_equal(kf_unpack(KF_CODEC_SNAPPY, snappy, sizeof snappy, out, m), KF_ERR_DATA);
    assert_int_equal(kf_unpack(KF_CODEC_LZ4, lz4, sizeof lz4, out, m), KF_ERR_DATA);
  }
}

/* Bytes after the end of a stream are damage. */
TEST(gzip_ends_with_the_page) {
  static const unsigned char gzip[] = {31, 139, 8,  0, 0,  0,  0,  0,  2, 3, 75, 76, 74,
                                       78, 4,   35, 0, 24, 72, 45, 70, 9, 0, 0,  0,  0};
  unsigned char out[9];
  if (kf_codec_refusal(KF_CODEC_GZIP) != NULL) skip();
  size_t n = sizeof gzip - 1;
  assert_int_equal(kf_unpack(KF_CODEC_GZIP, gzip, n, out, 9), KF_OK);
  assert_memory_equal(out, "abcabcabc", 9);
  assert_int_equal(kf_unpack(KF_CODEC_GZIP, gzip, n + 1, out, 9), KF_ERR_DATA);
  assert_int_equal(kf_unpack(KF_CODEC_GZIP, gzip, n - 1, out, 9), KF_ERR_DATA);
}

/* A header that gives the size of its page: the limit, and one byte more. */
TEST(too_large_pages) {
  unsigned char bytes[] = {
      0x15, 0,    0x15, 0x80, 0x80, 0x80, 0x80, 4,    0x15, 0, /* 2^29, 0 packed */
      0x2C, 0x15, 2,    0x15, 0,    0x15, 6,    0x15, 6,    0, 0};
  kf_in in;
  kf_err err;
  kf_pq_page page;
  bool data;
  uint64_t at = 0;
  assert_int_equal(kf_in_open_memory(&in, bytes, sizeof bytes, &err), KF_OK);
  assert_int_equal(kf_pq_page_read(&in, "x", &at, sizeof bytes, &page, &data, &err), KF_OK);
  assert_int_equal(page.size, KF_PQ_LARGEST);
  bytes[3] = 0x82;
  at = 0;
  assert_int_equal(kf_pq_page_read(&in, "x", &at, sizeof bytes, &page, &data, &err), KF_ERR_DATA);
  assert_non_null(strstr(err.message, in.path));
  assert_non_null(strstr(err.message, "column 'x' has more than 512 MiB"));
  kf_in_close(&in);
}

/* Endlessly nested structs, and a list that claims 2^40 elements. */
TEST(deep_metadata) {
  unsigned char bytes[4096];
  memset(bytes, 0x1C, sizeof bytes); /* field 1, a struct */
  kf_thrift in = kf_thrift_start(bytes, sizeof bytes);
  kf_thrift_struct s = kf_thrift_enter(&in);
  while (kf_thrift_field(&s)) kf_thrift_skip(&s);
  assert_non_null(in.bad);
  assert_non_null(strstr(in.bad, "too deep"));
  static const unsigned char list[] = {0x19, 0xFC, 0x80, 0x80, 0x80, 0x80, 0x80, 0x20, 0};
  in = kf_thrift_start(list, sizeof list);
  s = kf_thrift_enter(&in);
  assert_true(kf_thrift_field(&s));
  assert_int_equal(kf_thrift_list(&s, KF_THRIFT_STRUCT), 0);
  assert_non_null(in.bad);
}

typedef struct shared_column {
  kf_pq_column *column;
  const float *rows;
} shared_column;

/* Each task reads rows of its own; all of them are in the same few pages. */
static kf_status read_some(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)worker;
  const shared_column *s = argument;
  uint64_t n = s->column->rows, first = i * 4441 % n, count = n - first < 9 ? n - first : 9;
  float rows[9 * 4];
  KF_TRY(kf_pq_fetch_rows(s->column, &kf_kernels_plain, first, count, rows, err));
  return memcmp(rows, s->rows + first * 4, count * 4 * sizeof *rows) == 0
             ? KF_OK
             : kf_fail(err, KF_ERR_DATA, "rows %zu differ", i);
}

typedef struct open_column {
  kf_in in;
  kf_pq pq;
  kf_pq_column *column;
} open_column;

static void open_embeddings(open_column *o, const char *path, kf_pq_cache *cache) {
  kf_err err = {0};
  assert_int_equal(kf_in_open(&o->in, path, &err), KF_OK);
  assert_int_equal(kf_pq_open(&o->pq, &o->in, &err), KF_OK);
  const kf_pq_leaf *leaf = kf_pq_find(&o->pq, "embedding");
  assert_non_null(leaf);
  assert_int_equal(kf_pq_column_open(&o->pq, leaf, KF_TYPE_OTHER, &o->in, cache, &o->column, &err),
                   KF_OK);
  assert_int_equal(o->column->dim, 4);
}

static void close_embeddings(open_column *o) {
  kf_pq_column_free(o->column);
  kf_pq_close(&o->pq);
  kf_in_close(&o->in);
}

static void share_pages(const char *path, uint64_t n, float *rows) {
  AUTO(kf_ctx) *own = test_ctx(4, KF_ISA_PLAIN);
  kf_err err = {0};
  AUTO(kf_pq_cache) *cache = kf_pq_cache_new();
  open_column o;
  assert_non_null(cache);
  open_embeddings(&o, path, cache);
  shared_column s = {.column = o.column, .rows = rows};
  assert_int_equal(s.column->rows, n);
  assert_int_equal(kf_pq_fetch_rows(s.column, &kf_kernels_plain, 0, n, rows, &err), KF_OK);
  for (int round = 0; round < 20; round++) {
    kf_pq_cache_forget(cache, s.column);
    assert_int_equal(kf_parallel(own, 100, read_some, &s), KF_OK);
  }
  close_embeddings(&o);
}

TEST(threads_share_pages) {
  static float rows[9000 * 4];
  share_pages(files[1], 200, rows);
  share_pages(GOLDEN "duckdb-many-n9000.parquet", 9000, rows);
  for (int i = 0; i < 9000; i++) /* as tests/parquet/rows.py says */
    for (int j = 0; j < 4; j++)
      assert_true(rows[4 * i + j] == (float)((i * 7 + j * 3) % 31 - 15) / 8);
}

TEST(whole_files) {
  AUTO(kf_ctx) *own = test_ctx(1, KF_ISA_PLAIN);
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
    assert_ok(own, read_all(own, files[i]));
}
