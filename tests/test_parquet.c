/* test_parquet.c - what sessions do not see of .parquet: bits, codecs, hostile metadata, threads that share pages. */
#include "file/parquet.h"
#include "file/parquet_bits.h"
#include "files.h"
#include "test.h"

#include <string.h>

#define GOLDEN KOOFU_SOURCE_DIR "/tests/golden/parquet/"

static const char *const files[] = {GOLDEN "pyarrow-groups-nulls-n23.parquet",
                                    GOLDEN "pyarrow-delta-n200.parquet",
                                    GOLDEN "duckdb-default-n23.parquet"};

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

static void runs_of_levels(void **state) {
  (void)state;
  /* Eight packed bits 0 1 1 1 1 1 1 1, then 13 times 1, then a run that says 0 for the next row. */
  static const unsigned char bytes[] = {3, 0xFE, 26, 1, 2, 0};
  kf_pq_runs runs = kf_pq_runs_start((kf_pq_span){bytes, bytes + sizeof bytes}, 1);
  assert_true(kf_pq_runs_step(runs, 22, 0, 21));
  assert_false(kf_pq_runs_step(runs, 22, 0, 20));
  assert_false(kf_pq_runs_step(runs, 22, 1, 21));
  assert_false(kf_pq_runs_step(runs, 23, 0, 21)); /* there are 22 */
  assert_false(kf_pq_runs_all(runs, 22, 1));
  unsigned char levels[22];
  assert_true(kf_pq_runs_read_levels(&runs, levels, 22));
  for (int i = 0; i < 22; i++) assert_int_equal(levels[i], i != 0 && i != 21);
}

static void deltas(void **state) {
  (void)state;
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

static void codecs(void **state) {
  (void)state;
  static const unsigned char snappy[] = {9,   8,    'a', 'b',
                                         'c', 0x09, 3}; /* abc, then six of it again */
  static const unsigned char lz4[] = {0x32, 'a', 'b', 'c', 3, 0, 0};
  unsigned char out[16];
  void *state_of = NULL;
  assert_int_equal(kf_unpack(KF_CODEC_SNAPPY, &state_of, snappy, sizeof snappy, out, 9), KF_OK);
  assert_memory_equal(out, "abcabcabc", 9);
  assert_int_equal(kf_unpack(KF_CODEC_LZ4, &state_of, lz4, sizeof lz4, out, 9), KF_OK);
  assert_memory_equal(out, "abcabcabc", 9);
  for (size_t n = 0; n < sizeof snappy; n++)
    assert_int_equal(kf_unpack(KF_CODEC_SNAPPY, &state_of, snappy, n, out, 9), KF_ERR_DATA);
  for (size_t m = 0; m < 16; m++) {
    if (m == 9) continue;
    assert_int_equal(kf_unpack(KF_CODEC_SNAPPY, &state_of, snappy, sizeof snappy, out, m),
                     KF_ERR_DATA);
    assert_int_equal(kf_unpack(KF_CODEC_LZ4, &state_of, lz4, sizeof lz4, out, m), KF_ERR_DATA);
  }
}

/* What follows the end of a stream is damage. */
static void gzip_ends_with_the_page(void **state) {
  (void)state;
  static const unsigned char gzip[] = {31, 139, 8,  0, 0,  0,  0,  0,  2, 3, 75, 76, 74,
                                       78, 4,   35, 0, 24, 72, 45, 70, 9, 0, 0,  0,  0};
  unsigned char out[9];
  void *state_of = NULL;
  if (kf_codec_refusal(KF_CODEC_GZIP) != NULL) skip();
  size_t n = sizeof gzip - 1;
  assert_int_equal(kf_unpack(KF_CODEC_GZIP, &state_of, gzip, n, out, 9), KF_OK);
  assert_memory_equal(out, "abcabcabc", 9);
  assert_int_equal(kf_unpack(KF_CODEC_GZIP, &state_of, gzip, n + 1, out, 9), KF_ERR_DATA);
  assert_int_equal(kf_unpack(KF_CODEC_GZIP, &state_of, gzip, n - 1, out, 9), KF_ERR_DATA);
}

/* --- pages in pieces -------------------------------------------------------------------------- */

/* What Snappy packs, as it grows, and what it stands for. */
typedef struct snappy {
  unsigned char packed[400000], bytes[400000];
  size_t n, m;
} snappy;

static void add_literal(snappy *s, size_t length) {
  s->packed[s->n++] = 62 << 2; /* three bytes of length */
  for (int i = 0; i < 3; i++) s->packed[s->n++] = (unsigned char)((length - 1) >> 8 * i);
  for (size_t i = 0; i < length; i++) {
    unsigned char byte = (unsigned char)(s->m * 2654435761u >> 16);
    s->packed[s->n++] = s->bytes[s->m++] = byte;
  }
}

static void add_copy(snappy *s, size_t back, size_t length) {
  s->packed[s->n++] = (unsigned char)(3 | (length - 1) << 2);
  for (int i = 0; i < 4; i++) s->packed[s->n++] = (unsigned char)(back >> 8 * i);
  for (size_t i = 0; i < length; i++, s->m++) s->bytes[s->m] = s->bytes[s->m - back];
}

static void start_snappy(snappy *s, size_t size) {
  s->n = s->m = 0;
  for (; size >= 0x80; size >>= 7) s->packed[s->n++] = (unsigned char)(size | 0x80);
  s->packed[s->n++] = (unsigned char)size;
}

/* The pieces of a page with these bytes; false: it is not in pieces. */
static bool cut(const snappy *s, kf_pq_scratch *scratch, kf_in *in, kf_pq_pieces *pieces) {
  kf_err err;
  kf_pq_page page = {
      .packed = (uint32_t)s->n, .size = (uint32_t)s->m, .codec = KF_CODEC_SNAPPY, .version = 1};
  bool found;
  scratch->of = NULL;
  assert_int_equal(kf_in_open_memory(in, s->packed, s->n, &err), KF_OK);
  assert_int_equal(kf_pq_pieces_find(in, &page, scratch, pieces, &found, &err), KF_OK);
  assert_true(found || pieces->at == NULL);
  return found;
}

static bool refused(const snappy *s, kf_pq_scratch *scratch) {
  kf_in in;
  kf_pq_pieces pieces;
  bool found = cut(s, scratch, &in, &pieces);
  kf_free(pieces.at);
  kf_in_close(&in);
  return !found;
}

/* Two pieces and a half, with copies up to their borders. */
static void fill(snappy *s) {
  start_snappy(s, 2 * KF_PQ_PIECE + 1000);
  add_literal(s, KF_PQ_PIECE - 60);
  add_copy(s, KF_PQ_PIECE - 60, 60);
  add_literal(s, 30);
  add_copy(s, 30, 50);
  add_literal(s, KF_PQ_PIECE - 80);
  add_literal(s, 1);
  for (int i = 0; i < 37; i++) add_copy(s, 1, 27);
}

static void any_bytes_of_pieces(void **state) {
  (void)state;
  static snappy s;
  static unsigned char out[3 * KF_PQ_PIECE];
  kf_pq_scratch *scratch = kf_pq_scratch_new();
  kf_pq_pieces p;
  kf_in in;
  kf_err err;
  assert_non_null(scratch);
  fill(&s);
  assert_true(cut(&s, scratch, &in, &p));
  assert_int_equal(p.n, 3);
  static const size_t at[] = {0,     1,      4095,   65475,  65476,  65535,  65536,
                              65537, 131071, 131072, 131073, 132070, 132071, 132072};
  for (size_t i = 0; i < sizeof at / sizeof at[0]; i++)
    for (size_t j = i + 1; j < sizeof at / sizeof at[0]; j++) {
      memset(out, 0xAA, sizeof out);
      assert_int_equal(kf_pq_pieces_read(&in, &p, scratch, at[i], at[j] - at[i], out, &err), KF_OK);
      assert_memory_equal(out, s.bytes + at[i], at[j] - at[i]);
      assert_int_equal(out[at[j] - at[i]], 0xAA);
    }
  s.packed[p.at[1]] = 62 << 2 | 3; /* it changes: a copy of what is not there */
  assert_int_equal(kf_pq_pieces_read(&in, &p, scratch, 65536, 65536, out, &err), KF_ERR_DATA);
  kf_free(p.at);
  kf_in_close(&in);
  kf_pq_scratch_free(scratch);
}

/* A page whose elements or copies cross a border is not in pieces, nor is one that does not end as it should. */
static void pages_without_pieces(void **state) {
  (void)state;
  static snappy s;
  kf_pq_scratch *scratch = kf_pq_scratch_new();
  assert_non_null(scratch);
  start_snappy(&s, KF_PQ_PIECE + 10);
  add_literal(&s, KF_PQ_PIECE + 10);
  assert_true(refused(&s, scratch));
  start_snappy(&s, KF_PQ_PIECE + 10);
  add_literal(&s, KF_PQ_PIECE);
  add_copy(&s, 1, 10);
  assert_true(refused(&s, scratch));
  start_snappy(&s, KF_PQ_PIECE + 10);
  add_literal(&s, KF_PQ_PIECE);
  add_literal(&s, 5);
  add_copy(&s, 5, 5);
  assert_false(refused(&s, scratch));
  s.n--;
  assert_true(refused(&s, scratch));
  s.n += 2;
  assert_true(refused(&s, scratch));
  start_snappy(&s, KF_PQ_PIECE); /* longer in the file than the buffer for it */
  add_literal(&s, 1);
  while (s.m < KF_PQ_PIECE) add_copy(&s, 1, 1);
  assert_true(refused(&s, scratch));
  start_snappy(&s, KF_PQ_PIECE + 9); /* says another size */
  add_literal(&s, KF_PQ_PIECE);
  assert_true(refused(&s, scratch));
  kf_pq_scratch_free(scratch);
}

/* Structs inside structs for ever, and a list that says it has 2^40 elements. */
static void deep_metadata(void **state) {
  (void)state;
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
  kf_ctx *own = test_ctx(4, KF_ISA_PLAIN);
  kf_err err = {0};
  kf_pq_cache *cache = kf_pq_cache_new();
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
  kf_pq_cache_free(cache);
  kf_ctx_free(own);
}

static void threads_share_pages(void **state) {
  (void)state;
  static float rows[9000 * 4];
  share_pages(files[1], 200, rows);
  share_pages(GOLDEN "duckdb-pieces-n9000.parquet", 9000, rows);
  for (int i = 0; i < 9000; i++) /* as tests/parquet/rows.py says */
    for (int j = 0; j < 4; j++)
      assert_true(rows[4 * i + j] == (float)((i * 7 + j * 3) % 31 - 15) / 8);
}

/* Buffers do not say that they have a piece of a page that is gone: its memory may become that of another. */
static void pieces_of_dropped_pages(void **state) {
  (void)state;
  kf_pq_cache *cache = kf_pq_cache_new();
  open_column o;
  const kf_pq_block *block;
  kf_err err = {0};
  float row[4];
  assert_non_null(cache);
  open_embeddings(&o, GOLDEN "duckdb-pieces-n9000.parquet", cache);
  assert_int_equal(kf_pq_fetch_rows(o.column, &kf_kernels_plain, 2000, 1, row, &err), KF_OK);
  assert_int_equal(kf_pq_cache_get(cache, o.column, 0, &block, &err), KF_OK);
  const kf_pq_pieces *of = &block->pieces;
  assert_int_equal(of->n, 3);
  kf_pq_cache_let_go(cache, block);
  kf_pq_scratch *scratch = kf_pq_cache_lend(cache, of, 0);
  assert_non_null(scratch);
  assert_ptr_equal(scratch->of, of); /* as long as it is there */
  kf_pq_cache_take_back(cache, scratch);
  kf_pq_cache_forget(cache, o.column);
  assert_ptr_equal(kf_pq_cache_lend(cache, of, 0), scratch);
  assert_null(scratch->of);
  kf_pq_cache_take_back(cache, scratch);
  close_embeddings(&o);
  kf_pq_cache_free(cache);
}

/* What is lent says that it has a piece only if it is the one that was asked for. */
static void lent_buffers(void **state) {
  (void)state;
  kf_pq_cache *cache = kf_pq_cache_new();
  kf_pq_pieces one = {0}, two = {0};
  assert_non_null(cache);
  kf_pq_scratch *a = kf_pq_cache_lend(cache, &one, 3), *b = kf_pq_cache_lend(cache, &one, 3);
  assert_true(a != NULL && b != NULL && a != b && a->of == NULL && b->of == NULL);
  a->of = b->of = &one;
  a->piece = 3;
  b->piece = 4;
  kf_pq_cache_take_back(cache, a);
  kf_pq_cache_take_back(cache, b);
  assert_ptr_equal(kf_pq_cache_lend(cache, &one, 3), a);
  assert_ptr_equal(a->of, &one);
  assert_ptr_equal(kf_pq_cache_lend(cache, &two, 4), b);
  assert_null(b->of);
  kf_pq_cache_take_back(cache, a);
  kf_pq_cache_take_back(cache, b);
  kf_pq_cache_free(cache);
}

static void whole_files(void **state) {
  (void)state;
  kf_ctx *own = test_ctx(1, KF_ISA_PLAIN);
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
    assert_ok(own, read_all(own, files[i]));
  kf_ctx_free(own);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(runs_of_levels),
                                     cmocka_unit_test(deltas),
                                     cmocka_unit_test(any_bytes_of_pieces),
                                     cmocka_unit_test(pages_without_pieces),
                                     cmocka_unit_test(codecs),
                                     cmocka_unit_test(gzip_ends_with_the_page),
                                     cmocka_unit_test(deep_metadata),
                                     cmocka_unit_test(whole_files),
                                     cmocka_unit_test(threads_share_pages),
                                     cmocka_unit_test(pieces_of_dropped_pages),
                                     cmocka_unit_test(lent_buffers)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
