/* A .parquet in memory: every column is opened as each type it allows, and read from both ends.
 * Pages that claim to unpack to more than a few MiB are skipped, to keep runs short. */
#include "file/parquet.h"
#include "fuzz.h"

#include <string.h>

enum { ROWS = 12, DIM = 4096 };

static kf_status use_text(void *argument, uint64_t row, const char *text, size_t n, kf_err *err) {
  (void)row, (void)err;
  for (size_t i = 0; i < n; i++) *(unsigned *)argument += (unsigned char)text[i];
  return KF_OK;
}

static void read_rows(const kf_pq_column *c, uint64_t first, uint64_t n) {
  static float rows[ROWS * DIM];
  static int64_t numbers[ROWS];
  unsigned sum = 0;
  kf_err err;
  if (c->dim > DIM) return;
  if (c->dim > 0) {
    kf_pq_fetch_rows(c, &kf_kernels_plain, first, n, rows, &err);
    if (c->leaf.element != KF_TYPE_F64) kf_pq_fetch_raw(c, first, n, rows, &err);
    for (uint64_t i = 0; i < n; i++) kf_pq_is_null(c, first + i);
    kf_pq_ahead(c, first, n);
  } else if (c->leaf.kind == KF_PQ_INTEGERS) {
    kf_pq_fetch_integers(c, first, n, numbers, &err);
  } else {
    kf_pq_each_text(c, first, n, use_text, &sum, &err);
  }
}

static void read_column(const kf_pq *pq, const kf_pq_leaf *leaf, kf_type raw, const kf_in *in,
                        kf_pq_cache *cache) {
  kf_pq_column *c;
  kf_err err;
  if (kf_pq_column_open(pq, leaf, raw, in, cache, &c, &err) != KF_OK) return;
  uint64_t n = c->rows < ROWS ? c->rows : ROWS;
  read_rows(c, 0, n);
  read_rows(c, c->rows - n, n);
  kf_pq_column_free(c);
}

/* A column for each dimension. */
static void read_columns(const uint8_t *data, size_t size, kf_pq_cache *cache) {
  static const char *const taken[] = {"label", NULL};
  kf_shard shard = {0};
  kf_pq pq;
  kf_err err;
  if (kf_in_open_memory(&shard.in, data, size, &err) != KF_OK) return;
  float rows[ROWS];
  bool small = kf_pq_open(&pq, &shard.in, &err) == KF_OK && pq.rows <= 1 << 16 && pq.n_leaves < 64;
  if (small && kf_parquet_open_dims(&shard, &pq, NULL, taken, cache, &err) == KF_OK)
    for (uint64_t row = 0; row < shard.table.rows && shard.table.dim <= ROWS; row++)
      kf_table_fetch(&shard.table, &shard.in, &kf_kernels_plain, row, 1, rows, &err);
  kf_pq_close(&pq);
  kf_shard_close(&shard);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  kf_in in;
  kf_pq pq;
  kf_err err;
  if (kf_in_open_memory(&in, data, size, &err) != KF_OK) return 0;
  kf_pq_cache *cache = kf_pq_cache_new();
  if (kf_pq_open(&pq, &in, &err) == KF_OK)
    for (size_t i = 0; i < pq.n_leaves && i < 16; i++) {
      const kf_pq_leaf *leaf = &pq.leaves[i];
      kf_names names = {0};
      kf_hf_names(&pq, leaf->name, &names, &err);
      kf_names_clear(&names);
      if (leaf->kind != KF_PQ_OTHER) read_column(&pq, leaf, KF_TYPE_OTHER, &in, cache);
      if (leaf->kind == KF_PQ_RAW) read_column(&pq, leaf, KF_TYPE_F32, &in, cache);
    }
  kf_pq_close(&pq);
  read_columns(data, size, cache);
  kf_pq_cache_free(cache);
  kf_in_close(&in);
  return 0;
}
