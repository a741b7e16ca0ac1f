/* table.c - reads rows from a file, in any layout.
 *
 * Reads are positional and use small buffers on the stack, so any number of threads may fetch at
 * once without allocating. Buffers are small enough to be decoded while still in cache. */
#include "file/parquet.h"

#include <inttypes.h>
#include <stdalign.h>
#include <string.h>

enum { BUFFER_ELEMENTS = 8192 };

kf_status kf_table_size(kf_table *table, const char *path, uint64_t rows, uint64_t dim,
                        kf_err *err) {
  if (rows == 0) return kf_fail_file(err, path, "the file has no rows");
  if (dim == 0) return kf_fail_file(err, path, "the rows have no columns");
  if (dim > KF_MAX_DIM)
    return kf_fail_file(err, path, "the rows have %" PRIu64 " columns, but the limit is %u", dim,
                        KF_MAX_DIM);
  table->rows = rows;
  table->dim = (uint32_t)dim;
  return KF_OK;
}

size_t kf_find_last(const uint64_t *first, size_t size, size_t n, uint64_t at) {
  size_t low = 0, high = n;
  while (high - low > 1) {
    size_t middle = low + (high - low) / 2;
    const void *begin = (const char *)first + middle * size;
    if (*(const uint64_t *)begin <= at)
      low = middle;
    else
      high = middle;
  }
  return low;
}

static size_t buffered(uint64_t left) {
  return left < BUFFER_ELEMENTS ? (size_t)left : BUFFER_ELEMENTS;
}

kf_status kf_in_read_f32(const kf_in *in, const kf_kernels *kernels, kf_type type, uint64_t at,
                         uint64_t n, float *out, kf_err *err) {
  uint64_t size = kf_type_size(type);
  if (type == KF_TYPE_F32) return kf_in_read(in, at, out, n * size, err);
  alignas(64) unsigned char raw[BUFFER_ELEMENTS * 8];
  while (n > 0) {
    size_t count = buffered(n);
    KF_TRY(kf_in_read(in, at, raw, count * size, err));
    kf_decode_f32(kernels, type, raw, count, out);
    out += count;
    at += count * size;
    n -= count;
  }
  return KF_OK;
}

static kf_status fetch_by_row(const kf_table *table, const kf_in *in, const kf_kernels *kernels,
                              uint64_t first, uint64_t n, float *rows, kf_err *err) {
  uint64_t at = table->offset + first * table->dim * kf_type_size(table->type);
  return kf_in_read_f32(in, kernels, table->type, at, n * table->dim, rows, err);
}

static kf_status fetch_by_column(const kf_table *table, const kf_in *in, const kf_kernels *kernels,
                                 uint64_t first, uint64_t n, float *rows, kf_err *err) {
  alignas(64) unsigned char raw[BUFFER_ELEMENTS * 8];
  alignas(64) float values[BUFFER_ELEMENTS];
  uint64_t size = kf_type_size(table->type);
  for (uint32_t column = 0; column < table->dim; column++) {
    for (uint64_t row = 0; row < n; row += BUFFER_ELEMENTS) {
      size_t count = buffered(n - row);
      uint64_t at = table->offset + (column * table->rows + first + row) * size;
      KF_TRY(kf_in_read(in, at, raw, count * size, err));
      kf_decode_f32(kernels, table->type, raw, count, values);
      for (size_t i = 0; i < count; i++) rows[(row + i) * table->dim + column] = values[i];
    }
  }
  return KF_OK;
}

static kf_status check_tag(const kf_table *table, const kf_in *in, uint64_t row, uint32_t tag,
                           kf_err *err) {
  if (tag == table->dim) return KF_OK;
  return kf_fail_file(err, in->path,
                      "row %" PRIu64 " says it has %" PRId32 " columns, but row 0 has %" PRIu32,
                      row, (int32_t)tag, table->dim);
}

/* The file consists of 4-byte words, and every (dim + 1)-th is a tag. Buffers may begin anywhere in
 * a row; `word` counts the tag and values of the current row. */
static kf_status fetch_by_tagged_row(const kf_table *table, const kf_in *in, uint64_t first,
                                     uint64_t n, float *rows, kf_err *err) {
  alignas(64) uint32_t raw[BUFFER_ELEMENTS];
  uint64_t width = (uint64_t)table->dim + 1;
  uint64_t at = table->offset + first * width * 4;
  uint64_t left = n * width, word = 0, row = first;
  while (left > 0) {
    size_t count = buffered(left);
    KF_TRY(kf_in_read(in, at, raw, count * sizeof *raw, err));
    for (size_t i = 0; i < count;) {
      if (word == 0) {
        KF_TRY(check_tag(table, in, row++, raw[i++], err));
        word = 1;
        continue;
      }
      size_t run = width - word < count - i ? (size_t)(width - word) : count - i;
      memcpy(rows, raw + i, run * sizeof *rows);
      rows += run;
      i += run;
      word = (word + run) % width;
    }
    at += count * sizeof *raw;
    left -= count;
  }
  return KF_OK;
}

kf_status kf_table_fetch(const kf_table *table, const kf_in *in, const kf_kernels *kernels,
                         uint64_t first, uint64_t n, float *rows, kf_err *err) {
  switch (table->layout) {
  case KF_LAYOUT_COLUMNS: return fetch_by_column(table, in, kernels, first, n, rows, err);
  case KF_LAYOUT_PARQUET: return kf_pq_fetch_rows(table->column, kernels, first, n, rows, err);
  case KF_LAYOUT_TAGGED_ROWS: return fetch_by_tagged_row(table, in, first, n, rows, err);
  default: return fetch_by_row(table, in, kernels, first, n, rows, err);
  }
}

bool kf_table_is_raw(const kf_table *table) {
  bool plain = table->layout == KF_LAYOUT_ROWS || table->layout == KF_LAYOUT_PARQUET;
  return plain && kf_type_is_raw(table->type);
}

kf_status kf_table_fetch_raw(const kf_table *table, const kf_in *in, uint64_t first, uint64_t n,
                             void *rows, kf_err *err) {
  uint64_t width = table->dim * kf_type_size(table->type);
  if (table->column != NULL) return kf_pq_fetch_raw(table->column, first, n, rows, err);
  return kf_in_read(in, table->offset + first * width, rows, n * width, err);
}

void kf_table_ahead(const kf_table *table, const kf_in *in, uint64_t first, uint64_t n) {
  if (table->layout == KF_LAYOUT_COLUMNS) return; /* rows are spread over the whole file */
  if (table->column != NULL) {
    kf_pq_ahead(table->column, first, n);
    return;
  }
  bool tagged = table->layout == KF_LAYOUT_TAGGED_ROWS;
  uint64_t width = tagged ? 4 * ((uint64_t)table->dim + 1) : table->dim * kf_type_size(table->type);
  kf_in_ahead(in, table->offset + first * width, n * width);
}
