/* parquet_dims.c - rows of a .parquet file with a column for each dimension.
 *
 * A batch of rows needs a page of every column, and all of these together are too large to be
 * kept. So each column is decoded once, in order, to an unnamed file, and these columns are turned
 * into rows in another one: a row by itself is then one read, not one for each dimension. */
#include "file/parquet.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

enum { VALUES_AT_ONCE = 4096, TURNED_AT_ONCE = 1 << 20 };
/* A column of equal values takes hardly any room in the file, and a hostile file could fill the
 * disk with it: the copy has at most the ratio of zlib's limit, but always 64 MiB. */
enum { LARGEST_RATIO = 1024, SMALL_FILE = 65536 };

static const char no_place[] = "there is no place for a copy of its columns";

/* Integers become floats, a null NaN. */
static kf_status fetch(const kf_pq_column *c, uint64_t first, uint64_t n, float *out, kf_err *err) {
  int64_t numbers[VALUES_AT_ONCE];
  if (c->leaf.kind == KF_PQ_FLOATS)
    return kf_pq_fetch_rows(c, &kf_kernels_plain, first, n, out, err);
  KF_TRY(kf_pq_fetch_integers(c, first, n, numbers, err));
  for (uint64_t i = 0; i < n; i++) out[i] = numbers[i] != INT64_MIN ? (float)numbers[i] : NAN;
  return KF_OK;
}

static kf_status copy_values(const kf_pq_column *c, int fd, kf_err *err) {
  float values[VALUES_AT_ONCE];
  for (uint64_t first = 0; first < c->rows; first += VALUES_AT_ONCE) {
    uint64_t left = c->rows - first, n = left < VALUES_AT_ONCE ? left : VALUES_AT_ONCE;
    KF_TRY(fetch(c, first, n, values, err));
    KF_TRY(kf_temporary_write(c->in, no_place, fd, values, n * sizeof *values, err));
  }
  return KF_OK;
}

static kf_status copy_columns(const kf_pq *pq, const size_t *order, size_t dims, kf_pq_cache *cache,
                              int fd, kf_err *err) {
  for (size_t i = 0; i < dims; i++) {
    kf_pq_column *c;
    KF_TRY(kf_pq_column_open(pq, &pq->leaves[order[i]], KF_TYPE_OTHER, pq->in, cache, &c, err));
    kf_status status = copy_values(c, fd, err);
    kf_pq_column_free(c);
    KF_TRY(status);
  }
  return KF_OK;
}

static kf_status turn(const kf_table *table, const kf_in *columns, int fd, kf_err *err) {
  uint64_t step = TURNED_AT_ONCE / table->dim + 1;
  float *rows = kf_alloc(step * table->dim, sizeof *rows);
  kf_status status = rows != NULL ? KF_OK : kf_fail_memory(err);
  for (uint64_t first = 0; status == KF_OK && first < table->rows; first += step) {
    uint64_t left = table->rows - first, n = left < step ? left : step;
    status = kf_table_fetch(table, columns, &kf_kernels_plain, first, n, rows, err);
    if (status == KF_OK)
      status = kf_temporary_write(columns, no_place, fd, rows, n * table->dim * sizeof *rows, err);
  }
  kf_free(rows);
  return status;
}

/* Puts the copy in the place of the file, which stays open for labels and ids. */
static kf_status use_copy(kf_shard *shard, kf_pq *pq, int fd, kf_err *err) {
  kf_in copy = {.fd = fd, .state = shard->in.state, .path = kf_strdup(shard->in.path)};
  if (copy.path == NULL) return kf_fail_memory(err);
  copy.size = shard->table.rows * shard->table.dim * sizeof(float);
  shard->beside = shard->in;
  shard->in = copy;
  pq->in = &shard->beside;
  return KF_OK;
}

static kf_status turn_copy(kf_shard *shard, kf_pq *pq, int columns, uint64_t size, kf_err *err) {
  const kf_in in = {.fd = columns, .path = shard->in.path, .size = size};
  int fd;
  KF_TRY(kf_temporary_open(pq->in, no_place, &fd, err));
  kf_status status = turn(&shard->table, &in, fd, err);
  if (status == KF_OK) status = use_copy(shard, pq, fd, err);
  if (status != KF_OK) close(fd);
  shard->table.layout = KF_LAYOUT_ROWS;
  return status;
}

static kf_status copy(kf_shard *shard, kf_pq *pq, const size_t *order, size_t dims,
                      kf_pq_cache *cache, kf_err *err) {
  int fd;
  shard->table = (kf_table){.type = KF_TYPE_F32, .layout = KF_LAYOUT_COLUMNS};
  KF_TRY(kf_table_size(&shard->table, pq->in->path, pq->rows, dims, err));
  uint64_t size = pq->rows * dims * sizeof(float); /* below 2^58 */
  if (size / LARGEST_RATIO > pq->in->size + SMALL_FILE)
    return kf_fail_file(err, pq->in->path,
                        "its columns take %" PRIu64 " MiB, more than %d times the file", size >> 20,
                        LARGEST_RATIO);
  KF_TRY(kf_temporary_open(pq->in, no_place, &fd, err));
  kf_status status = copy_columns(pq, order, dims, cache, fd, err);
  if (status == KF_OK) status = turn_copy(shard, pq, fd, size, err);
  close(fd);
  return status;
}

kf_status kf_parquet_open_dims(kf_shard *shard, kf_pq *pq, const char *stem,
                               const char *const *taken, kf_pq_cache *cache, kf_err *err) {
  kf_table_column *fields;
  size_t dims, *order = kf_alloc(pq->n_leaves, sizeof *order);
  if (order == NULL) return kf_fail_memory(err);
  kf_status status = kf_pq_table(pq, taken, &fields, err);
  if (status == KF_OK)
    status = kf_choose_dims(pq->in->path, fields, pq->n_leaves, stem, order, &dims, err);
  if (status == KF_OK) status = copy(shard, pq, order, dims, cache, err);
  if (status == KF_OK) status = kf_shard_name_dims(shard, fields, order, dims, err);
  kf_free(fields);
  kf_free(order);
  return status;
}
