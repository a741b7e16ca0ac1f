/* parquet_write.c - writes .parquet files that every reader accepts: version 1 pages of at most
 * about 1 MiB, PLAIN, uncompressed, in row groups of about 32 MiB.
 *
 * A row is a list of required numbers in a required list, annotated as LIST, so levels
 * have one bit: a row begins with repetition level 0 and continues with D - 1 times 1,
 * two runs of a few bytes. */
#include "file/parquet.h"
#include "file/parquet_write.h"

#include <string.h>

#define GROUP_BYTES ((uint64_t)32 << 20)
#define GROUP_ROWS  ((uint64_t)1 << 20)
#define PAGE_BYTES  ((uint64_t)1 << 20)

typedef struct column {
  kf_pqw_column of;
  uint64_t n;       /* waiting values, including nulls */
  kf_string values; /* the values that are not null, PLAIN */
  kf_string levels; /* optional columns: a byte for each value: 1, or 0 for a null */
} column;

struct kf_pqw {
  kf_out out;
  size_t n_columns;
  column *columns;
  uint64_t rows;    /* in finished groups */
  kf_string groups; /* their metadata, elements of a list */
  uint32_t n_groups;
  kf_string entries; /* metadata of the file, elements of a list */
  uint32_t n_entries;
};

kf_status kf_pqw_open(kf_ctx *ctx, const char *path, const kf_pqw_column *columns, size_t n,
                      kf_pqw **out, kf_err *err) {
  kf_pqw *w = kf_alloc_zero(1, sizeof *w);
  if (w == NULL) return kf_fail_memory(err);
  w->columns = kf_alloc_zero(n, sizeof *w->columns);
  kf_status status = w->columns == NULL ? kf_fail_memory(err) : KF_OK;
  if (status == KF_OK) {
    w->n_columns = n;
    for (size_t i = 0; i < n; i++) w->columns[i].of = columns[i];
    status = kf_out_open(&w->out, ctx, path, err);
  }
  if (status == KF_OK) status = kf_out_write(&w->out, "PAR1", 4, err);
  KF_HAND_OUT(status, out, w, kf_pqw_abort);
}

void kf_pqw_abort(kf_pqw *w) {
  if (w == NULL) return;
  kf_out_abort(&w->out);
  for (size_t i = 0; i < w->n_columns; i++) {
    kf_string_clear(&w->columns[i].values);
    kf_string_clear(&w->columns[i].levels);
  }
  kf_string_clear(&w->groups);
  kf_string_clear(&w->entries);
  kf_free(w->columns);
  kf_free(w);
}

kf_status kf_pqw_meta(kf_pqw *w, const char *key, const char *value, kf_err *err) {
  kf_thrift_out entry = {.to = &w->entries};
  kf_thrift_put_text(&entry, 1, key);
  kf_thrift_put_text(&entry, 2, value);
  kf_thrift_put_end(&entry);
  w->n_entries++;
  return w->entries.failed ? kf_fail_memory(err) : KF_OK;
}

/* --- values -------------------------------------------------------------------------------- */

void kf_pqw_add(kf_pqw *w, size_t i, const void *bytes, size_t n) {
  column *c = &w->columns[i];
  if (c->of.optional) kf_string_add(&c->levels, bytes != NULL ? "\1" : "\0", 1);
  c->n++;
  if (bytes == NULL) return;
  uint32_t length = (uint32_t)n;
  if (c->of.kind == KF_PQW_TEXT) kf_string_add(&c->values, (const char *)&length, sizeof length);
  kf_string_add(&c->values, bytes, n);
}

void kf_pqw_add_rows(kf_pqw *w, size_t i, const void *bytes, uint64_t n) {
  column *c = &w->columns[i];
  kf_string_add(&c->values, bytes, n * c->of.dim * kf_type_size(c->of.type));
  c->n += n;
}

uint64_t kf_pqw_waiting(const kf_pqw *w, size_t i) { return w->columns[i].n; }

bool kf_pqw_is_due(const kf_pqw *w) {
  uint64_t bytes = 0, rows = 0;
  for (size_t i = 0; i < w->n_columns; i++) {
    bytes += w->columns[i].values.n;
    if (w->columns[i].n > rows) rows = w->columns[i].n;
  }
  return bytes >= GROUP_BYTES || rows >= GROUP_ROWS;
}

/* --- pages --------------------------------------------------------------------------------- */

/* A page of waiting values [first, first + n), and the bytes of those that are not null. */
typedef struct page {
  uint64_t first, n;
  const char *values;
  uint64_t bytes;
} page;

static size_t fixed_size(const kf_pqw_column *c) {
  switch (c->kind) {
  case KF_PQW_I32: return 4;
  case KF_PQW_ROWS: return c->dim * kf_type_size(c->type);
  default: return 8;
  }
}

/* The size of value i of a column; the next value that is not null is at `at`. */
static uint64_t value_bytes(const column *c, uint64_t i, const char *at) {
  uint32_t length;
  if (c->of.optional && c->levels.data[i] == 0) return 0;
  if (c->of.kind != KF_PQW_TEXT) return fixed_size(&c->of);
  memcpy(&length, at, sizeof length);
  return sizeof length + (uint64_t)length;
}

/* Adds values to a page, from p->first on, until it is full. */
static void measure(const column *c, page *p) {
  p->n = p->bytes = 0;
  while (p->first + p->n < c->n && (p->n == 0 || p->bytes < PAGE_BYTES)) {
    p->bytes += value_bytes(c, p->first + p->n, p->values + p->bytes);
    p->n++;
  }
}

static void put_run(kf_string *to, uint64_t count, char value) {
  if (count == 0) return;
  kf_thrift_put_varint(to, count << 1);
  kf_string_add(to, &value, 1);
}

/* Levels preceded by their length. */
static void put_levels(kf_string *to, const kf_string *levels) {
  uint32_t n = (uint32_t)levels->n;
  kf_string_add(to, (const char *)&n, sizeof n);
  kf_string_add(to, levels->data, levels->n);
}

static void put_page_levels(const column *c, const page *p, kf_string *to) {
  kf_string runs = {0};
  if (c->of.kind == KF_PQW_ROWS) {
    for (uint64_t i = 0; i < p->n; i++) {
      put_run(&runs, 1, 0);
      put_run(&runs, c->of.dim - 1, 1);
    }
    put_levels(to, &runs);
    runs.n = 0;
    put_run(&runs, p->n * c->of.dim, 1);
    put_levels(to, &runs);
  } else if (c->of.optional) {
    for (uint64_t i = 0, run; i < p->n; i += run) {
      const char *level = c->levels.data + p->first + i;
      for (run = 1; i + run < p->n && level[run] == level[0];) run++;
      put_run(&runs, run, level[0]);
    }
    put_levels(to, &runs);
  }
  if (runs.failed) to->failed = true;
  kf_string_clear(&runs);
}

static void put_page_header(const column *c, const page *p, uint64_t size, kf_string *to) {
  uint64_t values = c->of.kind == KF_PQW_ROWS ? p->n * c->of.dim : p->n;
  kf_thrift_out head = {.to = to};
  kf_thrift_put_i32(&head, 1, 0); /* DATA_PAGE */
  kf_thrift_put_i32(&head, 2, (int32_t)size);
  kf_thrift_put_i32(&head, 3, (int32_t)size);
  kf_thrift_out data = kf_thrift_put_struct(&head, 5);
  kf_thrift_put_i32(&data, 1, (int32_t)values);
  kf_thrift_put_i32(&data, 2, KF_PQ_PLAIN);
  kf_thrift_put_i32(&data, 3, KF_PQ_RLE);
  kf_thrift_put_i32(&data, 4, KF_PQ_RLE);
  kf_thrift_put_end(&data);
  kf_thrift_put_end(&head);
}

static kf_status write_page(kf_pqw *w, const column *c, const page *p, kf_err *err) {
  kf_string levels = {0}, head = {0};
  put_page_levels(c, p, &levels);
  put_page_header(c, p, levels.n + p->bytes, &head);
  kf_status status = levels.failed || head.failed ? kf_fail_memory(err) : KF_OK;
  if (status == KF_OK) status = kf_out_write(&w->out, head.data, head.n, err);
  if (status == KF_OK && levels.n > 0) status = kf_out_write(&w->out, levels.data, levels.n, err);
  if (status == KF_OK && p->bytes > 0) status = kf_out_write(&w->out, p->values, p->bytes, err);
  kf_string_clear(&levels);
  kf_string_clear(&head);
  return status;
}

/* --- row groups ---------------------------------------------------------------------------- */

static int32_t stored_type(const kf_pqw_column *c) {
  switch (c->kind) {
  case KF_PQW_TEXT: return KF_PQ_BYTES;
  case KF_PQW_I32: return KF_PQ_INT32;
  case KF_PQW_I64: return KF_PQ_INT64;
  case KF_PQW_F64: return KF_PQ_DOUBLE;
  default: return c->type == KF_TYPE_F16 ? KF_PQ_FIXED : KF_PQ_FLOAT;
  }
}

/* Adds a ColumnChunk from `begin` to the end of the file so far. */
static void put_chunk(kf_pqw *w, const column *c, uint64_t begin) {
  bool list = c->of.kind == KF_PQW_ROWS;
  int64_t bytes = (int64_t)(w->out.written - begin);
  kf_thrift_out chunk = {.to = &w->groups};
  kf_thrift_put_i64(&chunk, 2, (int64_t)begin);
  kf_thrift_out meta = kf_thrift_put_struct(&chunk, 3);
  kf_thrift_put_i32(&meta, 1, stored_type(&c->of));
  kf_thrift_put_list(&meta, 2, KF_THRIFT_I32, 2);
  kf_thrift_put_element_i32(&w->groups, KF_PQ_PLAIN);
  kf_thrift_put_element_i32(&w->groups, KF_PQ_RLE);
  kf_thrift_put_list(&meta, 3, KF_THRIFT_BINARY, list ? 3 : 1);
  kf_thrift_put_element_text(&w->groups, c->of.name);
  if (list) kf_thrift_put_element_text(&w->groups, "list");
  if (list) kf_thrift_put_element_text(&w->groups, "element");
  kf_thrift_put_i32(&meta, 4, KF_CODEC_NONE);
  kf_thrift_put_i64(&meta, 5, (int64_t)(list ? c->n * c->of.dim : c->n));
  kf_thrift_put_i64(&meta, 6, bytes);
  kf_thrift_put_i64(&meta, 7, bytes);
  kf_thrift_put_i64(&meta, 9, (int64_t)begin);
  kf_thrift_put_end(&meta);
  kf_thrift_put_end(&chunk);
}

static kf_status write_chunk(kf_pqw *w, column *c, kf_err *err) {
  uint64_t begin = w->out.written;
  if (c->values.failed || c->levels.failed) return kf_fail_memory(err);
  for (page p = {.values = c->values.data}; p.first < c->n; p.first += p.n, p.values += p.bytes) {
    measure(c, &p);
    KF_TRY(write_page(w, c, &p, err));
  }
  put_chunk(w, c, begin);
  c->values.n = c->levels.n = c->n = 0;
  return KF_OK;
}

kf_status kf_pqw_flush(kf_pqw *w, kf_err *err) {
  uint64_t rows = w->columns[0].n, begin = w->out.written;
  if (rows == 0) return KF_OK;
  kf_thrift_out group = {.to = &w->groups};
  kf_thrift_put_list(&group, 1, KF_THRIFT_STRUCT, (uint32_t)w->n_columns);
  for (size_t i = 0; i < w->n_columns; i++) KF_TRY(write_chunk(w, &w->columns[i], err));
  kf_thrift_put_i64(&group, 2, (int64_t)(w->out.written - begin));
  kf_thrift_put_i64(&group, 3, (int64_t)rows);
  kf_thrift_put_end(&group);
  w->n_groups++;
  w->rows += rows;
  return w->groups.failed ? kf_fail_memory(err) : KF_OK;
}

/* --- the footer ---------------------------------------------------------------------------- */

/* The logical type: an empty struct in the matching field of a union. */
static void put_logical(kf_thrift_out *e, int16_t which) {
  kf_thrift_out logical = kf_thrift_put_struct(e, 10);
  kf_thrift_out inner = kf_thrift_put_struct(&logical, which);
  kf_thrift_put_end(&inner);
  kf_thrift_put_end(&logical);
}

static void put_group_node(kf_string *to, int32_t repetition, const char *name, int32_t children,
                           bool list) {
  kf_thrift_out e = {.to = to};
  if (repetition >= 0) kf_thrift_put_i32(&e, 3, repetition);
  kf_thrift_put_text(&e, 4, name);
  kf_thrift_put_i32(&e, 5, children);
  if (list) kf_thrift_put_i32(&e, 6, KF_PQ_CONVERTED_LIST);
  if (list) put_logical(&e, KF_PQ_LOGICAL_LIST);
  kf_thrift_put_end(&e);
}

static void put_leaf(kf_string *to, const kf_pqw_column *c, const char *name) {
  kf_thrift_out e = {.to = to};
  int32_t type = stored_type(c);
  kf_thrift_put_i32(&e, 1, type);
  if (type == KF_PQ_FIXED) kf_thrift_put_i32(&e, 2, 2);
  kf_thrift_put_i32(&e, 3, c->optional ? KF_PQ_OPTIONAL : KF_PQ_REQUIRED);
  kf_thrift_put_text(&e, 4, name);
  if (type == KF_PQ_BYTES) kf_thrift_put_i32(&e, 6, KF_PQ_CONVERTED_UTF8);
  if (type == KF_PQ_BYTES) put_logical(&e, KF_PQ_LOGICAL_STRING);
  if (type == KF_PQ_FIXED) put_logical(&e, KF_PQ_LOGICAL_FLOAT16);
  kf_thrift_put_end(&e);
}

static void put_schema(const kf_pqw *w, kf_thrift_out *meta) {
  uint32_t nodes = 1;
  for (size_t i = 0; i < w->n_columns; i++) nodes += w->columns[i].of.kind == KF_PQW_ROWS ? 3 : 1;
  kf_thrift_put_list(meta, 2, KF_THRIFT_STRUCT, nodes);
  put_group_node(meta->to, -1, "schema", (int32_t)w->n_columns, false);
  for (size_t i = 0; i < w->n_columns; i++) {
    const kf_pqw_column *c = &w->columns[i].of;
    if (c->kind == KF_PQW_ROWS) {
      put_group_node(meta->to, KF_PQ_REQUIRED, c->name, 1, true);
      put_group_node(meta->to, KF_PQ_REPEATED, "list", 1, false);
    }
    put_leaf(meta->to, c, c->kind == KF_PQW_ROWS ? "element" : c->name);
  }
}

static kf_status write_footer(kf_pqw *w, kf_string *to, kf_err *err) {
  char program[64]; /* "NAME version NUMBER", as readers expect */
  snprintf(program, sizeof program, "%s version %s", "koofu", kf_version());
  kf_thrift_out meta = {.to = to};
  kf_thrift_put_i32(&meta, 1, 2);
  put_schema(w, &meta);
  kf_thrift_put_i64(&meta, 3, (int64_t)w->rows);
  kf_thrift_put_list(&meta, 4, KF_THRIFT_STRUCT, w->n_groups);
  if (w->n_groups > 0) kf_string_add(to, w->groups.data, w->groups.n);
  if (w->n_entries > 0) {
    kf_thrift_put_list(&meta, 5, KF_THRIFT_STRUCT, w->n_entries);
    kf_string_add(to, w->entries.data, w->entries.n);
  }
  kf_thrift_put_text(&meta, 6, program);
  kf_thrift_put_end(&meta);
  if (to->failed || w->groups.failed) return kf_fail_memory(err);
  uint32_t n = (uint32_t)to->n;
  KF_TRY(kf_out_write(&w->out, to->data, n, err));
  KF_TRY(kf_out_write(&w->out, &n, sizeof n, err));
  return kf_out_write(&w->out, "PAR1", 4, err);
}

kf_status kf_pqw_commit(kf_pqw *w, kf_err *err) {
  kf_string footer = {0};
  kf_status status = kf_pqw_flush(w, err);
  if (status == KF_OK) status = write_footer(w, &footer, err);
  if (status == KF_OK) status = kf_out_commit(&w->out, err);
  kf_string_clear(&footer);
  kf_pqw_abort(w);
  return status;
}
