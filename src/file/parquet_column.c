/* parquet_column.c - random access to a column of a .parquet file.
 *
 * Opening a column reads the headers of all pages, about one per MiB. A page header gives the
 * number of values, not of rows. A row group is *regular* if it has D values per row on average:
 * then the place of a row follows from its number, and each page is checked against it when it is
 * decoded. If some lists are shorter and others longer, that check fails, as it must. A group with
 * missing lists is not regular; all of its pages are decoded once, to find which row begins
 * where. */
#include "file/parquet.h"

#include <inttypes.h>
#include <math.h>
#include <stdalign.h>
#include <string.h>

/* --- finding the pages --------------------------------------------------------------------- */

static kf_status add_page(kf_pq_column *c, const kf_pq_page *page, kf_err *err) {
  if (c->n_pages == KF_PQ_NONE ||
      !kf_grow((void **)&c->pages, &c->page_room, c->n_pages, sizeof *c->pages))
    return kf_fail_memory(err);
  c->pages[c->n_pages++] = *page;
  return KF_OK;
}

/* Reads the headers of all pages of a chunk. Their values must add up to those of the footer. */
static kf_status walk_chunk(kf_pq_column *c, uint32_t group, const kf_pq_chunk *chunk,
                            kf_err *err) {
  uint64_t at = chunk->begin, values = 0;
  uint32_t dictionary = KF_PQ_NONE;
  while (values < chunk->values) {
    kf_pq_page page;
    bool data = false;
    KF_TRY(kf_pq_page_read(c->in, c->leaf.name, &at, chunk->end, &page, &data, err));
    if (!data || (page.n == 0 && page.version > 0)) continue;
    page.codec = page.codec > 0 ? (uint8_t)chunk->codec : (uint8_t)KF_CODEC_NONE;
    page.group = group;
    page.first = values;
    page.dictionary = dictionary;
    if (page.version == 0) {
      if (dictionary != KF_PQ_NONE || values > 0)
        return kf_fail_file(err, c->in->path, "the page at byte %" PRIu64 " is a second dictionary",
                            page.offset);
      dictionary = c->n_pages;
      page.dictionary = KF_PQ_NONE;
    } else if (!kf_add_u64(values, page.n, &values) || values > chunk->values) {
      return kf_fail_file(err, c->in->path,
                          "row group %" PRIu32 " has more values than the footer says", group);
    }
    KF_TRY(add_page(c, &page, err));
  }
  return KF_OK;
}

static kf_status walk_chunks(kf_pq_column *c, const kf_pq_chunk *chunks, kf_err *err) {
  bool list = c->leaf.most_rep > 0;
  for (uint32_t g = 0; g < c->n_groups; g++) {
    kf_pq_group *group = &c->groups[g];
    *group = (kf_pq_group){
        .first = c->rows, .rows = chunks[g].rows, .values = chunks[g].values, .begin = c->n_pages};
    if (list ? group->values < group->rows : group->values != group->rows)
      return kf_fail_file(err, c->in->path,
                          "row group %" PRIu32 " has %" PRIu64 " rows, but %" PRIu64 " values", g,
                          group->rows, group->values);
    KF_TRY(walk_chunk(c, g, &chunks[g], err));
    group->end = c->n_pages;
    c->rows += group->rows;
  }
  return KF_OK;
}

/* --- places -------------------------------------------------------------------------------- */

uint32_t kf_pq_group_of(const kf_pq_column *c, uint64_t row) {
  return (uint32_t)kf_find_last(&c->groups->first, sizeof *c->groups, c->n_groups, row);
}

/* The last page of a group that begins at or before value `at` or, by rows, row `at`. A dictionary
 * has the same `first` as the page after it, so it is never the last. */
static uint32_t page_of(const kf_pq_column *c, const kf_pq_group *group, bool by_rows,
                        uint64_t at) {
  size_t n = group->end - group->begin, size = sizeof *c->pages;
  const uint64_t *first = &c->pages[group->begin].first;
  if (by_rows) {
    first = &c->first_rows[group->begin];
    size = sizeof *first;
  }
  return group->begin + (uint32_t)kf_find_last(first, size, n, at);
}

kf_pq_shape kf_pq_shape_of(const kf_pq_column *c, uint32_t page) {
  const kf_pq_page *p = &c->pages[page];
  if (c->raw || c->dim == 0 || !c->groups[p->group].regular) return (kf_pq_shape){0};
  return (kf_pq_shape){.dim = c->dim, .phase = (uint32_t)(p->first % c->dim)};
}

/* --- which rows begin where ---------------------------------------------------------------- */

/* A walk through the lists of a group, in order. */
typedef struct list_walk {
  kf_pq_column *column;
  uint64_t row;    /* the next row to begin, of the file */
  uint64_t length; /* of the current list so far */
  bool inside;     /* a list has begun */
  bool found;      /* the dimension was wanted and found */
} list_walk;

static kf_status end_row(list_walk *w, kf_err *err) {
  const kf_pq_column *c = w->column;
  if (!w->inside || w->length == 0 || w->length == c->dim) return KF_OK;
  if (c->dim == 0) {
    w->found = true;
    return KF_OK;
  }
  return kf_fail_file(err, c->in->path,
                      "row %" PRIu64 " has %" PRIu64 " values, but others have %" PRIu32,
                      w->row - 1, w->length, c->dim);
}

static kf_status walk_block(list_walk *w, const kf_pq_block *block, kf_err *err) {
  const char *path = w->column->in->path;
  uint32_t start = 0;
  for (uint32_t i = 0; i < block->n && !w->found; i++) {
    bool begins = start < block->n_starts && block->starts[start] == i;
    if (begins) {
      KF_TRY(end_row(w, err));
      if (w->found) break;
      w->inside = true;
      w->length = 0;
      w->row++;
      start++;
    }
    if (!w->inside || (!begins && block->there[i] != (w->length > 0)))
      return kf_fail_file(err, path, "the list of row %" PRIu64 " continues after its end", w->row);
    w->length += block->there[i];
  }
  return KF_OK;
}

static kf_status walk_pages(list_walk *w, const kf_pq_group *group, kf_err *err) {
  kf_pq_column *c = w->column;
  w->row = group->first;
  w->inside = false;
  for (uint32_t p = group->begin; p < group->end && !w->found; p++) {
    const kf_pq_block *block;
    if (c->first_rows != NULL) c->first_rows[p] = w->row;
    if (c->pages[p].version == 0) continue;
    KF_TRY(kf_pq_cache_get(c->cache, c, p, &block, err));
    kf_status status = walk_block(w, block, err);
    kf_pq_cache_release(c->cache, block);
    if (status != KF_OK) return status;
  }
  return w->found ? KF_OK : end_row(w, err);
}

/* Sets the dimension to the length of the first list that is not empty. */
static kf_status find_dim(kf_pq_column *c, kf_err *err) {
  list_walk w = {.column = c};
  for (uint32_t g = 0; g < c->n_groups && !w.found; g++) KF_TRY(walk_pages(&w, &c->groups[g], err));
  kf_pq_cache_forget(c->cache, c); /* the lists of these pages were not checked */
  if (!w.found) return kf_fail_file(err, c->in->path, "every list of the column is null or empty");
  if (w.length > KF_MAX_DIM)
    return kf_fail_file(err, c->in->path, "the rows have %" PRIu64 " columns, but the limit is %u",
                        w.length, KF_MAX_DIM);
  c->dim = (uint32_t)w.length;
  return KF_OK;
}

static kf_status find_rows(kf_pq_column *c, kf_err *err) {
  bool all = true;
  KF_TRY(find_dim(c, err));
  for (uint32_t g = 0; g < c->n_groups; g++) {
    kf_pq_group *group = &c->groups[g];
    uint64_t values;
    group->regular = kf_mul_u64(group->rows, c->dim, &values) && values == group->values;
    all = all && group->regular;
  }
  if (all) return KF_OK;
  KF_TAKE_ZERO(&c->arena, c->first_rows, c->n_pages);
  if (c->first_rows == NULL) return kf_fail_memory(err);
  for (uint32_t g = 0; g < c->n_groups; g++) {
    const kf_pq_group *group = &c->groups[g];
    if (group->regular) continue;
    list_walk w = {.column = c};
    KF_TRY(walk_pages(&w, group, err));
    if (w.row != group->first + group->rows)
      return kf_fail_file(err, c->in->path,
                          "row group %" PRIu32 " has %" PRIu64
                          " lists, but the footer says %" PRIu64,
                          g, w.row - group->first, group->rows);
  }
  return KF_OK;
}

/* The first value that is not null sets the length of rows that are stored as bytes. */
static kf_status first_length(void *argument, uint64_t row, const char *text, size_t n,
                              kf_err *err) {
  size_t *length = argument;
  (void)row, (void)err;
  if (*length == 0 && text != NULL) *length = n;
  return KF_OK;
}

static kf_status find_raw_dim(kf_pq_column *c, kf_err *err) {
  size_t length = c->leaf.physical == KF_PQ_FIXED ? c->leaf.length : 0;
  size_t size = kf_type_size(c->leaf.element);
  for (uint64_t row = 0; row < c->rows && length == 0; row++)
    KF_TRY(kf_pq_each_text(c, row, 1, first_length, &length, err));
  if (length == 0 || length % size != 0 || length / size > KF_MAX_DIM)
    return kf_fail_file(err, c->in->path, "values of %zu bytes are not rows of f%zu", length,
                        8 * size);
  c->dim = (uint32_t)(length / size);
  return KF_OK;
}

/* --- opening ------------------------------------------------------------------------------- */

static kf_status open_column(kf_pq_column *c, const kf_pq *pq, const kf_pq_leaf *leaf,
                             kf_err *err) {
  kf_pq_chunk *chunks;
  c->leaf.name = kf_copy_text(&c->arena, leaf->name, strlen(leaf->name));
  if (c->leaf.name == NULL) return kf_fail_memory(err);
  KF_TRY(kf_pq_chunks(pq, leaf, &c->arena, &chunks, &c->n_groups, err));
  KF_TAKE(&c->arena, c->groups, c->n_groups);
  if (c->groups == NULL) return kf_fail_memory(err);
  KF_TRY(walk_chunks(c, chunks, err));
  if (c->rows == 0) return kf_fail_file(err, c->in->path, "the file has no rows");
  if (c->raw) return find_raw_dim(c, err);
  if (leaf->kind == KF_PQ_ROWS) return find_rows(c, err);
  c->dim = leaf->kind == KF_PQ_FLOATS;
  for (uint32_t g = 0; g < c->n_groups; g++) c->groups[g].regular = c->dim > 0; /* lists of one */
  return KF_OK;
}

kf_status kf_pq_column_open(const kf_pq *pq, const kf_pq_leaf *leaf, kf_type raw, const kf_in *in,
                            kf_pq_cache *cache, kf_pq_column **out, kf_err *err) {
  kf_pq_column *c = kf_alloc_zero(1, sizeof *c);
  if (c == NULL) return kf_fail_memory(err);
  *c = (kf_pq_column){.in = in, .cache = cache, .leaf = *leaf, .raw = raw != KF_TYPE_OTHER};
  if (c->raw) c->leaf.element = raw;
  KF_HAND_OUT(open_column(c, pq, leaf, err), out, c, kf_pq_column_free);
}

void kf_pq_column_free(kf_pq_column *c) {
  if (c == NULL) return;
  kf_pq_cache_forget(c->cache, c);
  kf_free(c->pages);
  kf_arena_free(&c->arena);
  kf_free(c);
}

/* --- values one by one --------------------------------------------------------------------- */

/* Consecutive slots of one page. */
typedef struct slots {
  const kf_pq_block *block;
  uint32_t at, n;
} slots;

/* Finds the slots of at most n rows from `row` on, in one page. The caller releases the block. */
static kf_status find_slots(const kf_pq_column *c, uint64_t row, uint64_t n, slots *out,
                            kf_err *err) {
  const kf_pq_group *group = &c->groups[kf_pq_group_of(c, row)];
  uint64_t at = row - group->first;
  uint32_t p = page_of(c, group, false, at);
  uint64_t left = c->pages[p].first + c->pages[p].n - at;
  out->at = (uint32_t)(at - c->pages[p].first);
  out->n = (uint32_t)(left < n ? left : n);
  return kf_pq_cache_get(c->cache, c, p, &out->block, err);
}

kf_status kf_pq_fetch_integers(const kf_pq_column *c, uint64_t first, uint64_t n, int64_t *out,
                               kf_err *err) {
  while (n > 0) {
    slots s;
    KF_TRY(find_slots(c, first, n, &s, err));
    memcpy(out, (const int64_t *)s.block->slots + s.at, s.n * sizeof *out);
    kf_pq_cache_release(c->cache, s.block);
    out += s.n;
    first += s.n;
    n -= s.n;
  }
  return KF_OK;
}

kf_status kf_pq_each_text(const kf_pq_column *c, uint64_t first, uint64_t n, kf_pq_text_fn use,
                          void *argument, kf_err *err) {
  kf_status status = KF_OK;
  while (n > 0 && status == KF_OK) {
    slots s;
    KF_TRY(find_slots(c, first, n, &s, err));
    const kf_pq_text *text = (const kf_pq_text *)s.block->slots + s.at;
    for (uint32_t i = 0; i < s.n && status == KF_OK; i++)
      status = use(argument, first + i, text[i].at, text[i].n, err);
    kf_pq_cache_release(c->cache, s.block);
    first += s.n;
    n -= s.n;
  }
  return status;
}

/* --- rows ---------------------------------------------------------------------------------- */

/* Where rows are copied to, as they are or as f32. */
typedef struct target {
  const kf_pq_column *column;
  const kf_kernels *kernels; /* NULL: copy them as they are */
  char *at;
  size_t size; /* bytes of a number at the destination */
} target;

static void put(target *to, const unsigned char *from, size_t n) {
  enum { VALUES_AT_ONCE = 4096 };
  kf_type type = to->column->leaf.element;
  size_t size = kf_type_size(type);
  if (to->kernels == NULL || type == KF_TYPE_F32) {
    memcpy(to->at, from, n * size);
    to->at += n * size;
    return;
  }
  alignas(64) unsigned char raw[VALUES_AT_ONCE * 8]; /* aligned; values in a page may not be */
  while (n > 0) {
    size_t count = n < VALUES_AT_ONCE ? n : VALUES_AT_ONCE;
    memcpy(raw, from, count * size);
    kf_decode_f32(to->kernels, type, raw, count, (float *)(void *)to->at);
    to->at += count * sizeof(float);
    from += count * size;
    n -= count;
  }
}

static void put_null(target *to) {
  static const uint16_t half = 0x7E00;
  for (uint32_t i = 0; i < to->column->dim; i++, to->at += to->size) {
    if (to->size == sizeof half)
      memcpy(to->at, &half, sizeof half);
    else
      memcpy(to->at, &(float){NAN}, sizeof(float));
  }
}

/* Copies n values of a group from value `at` of page p on; they may continue in later pages. */
static kf_status put_values(target *to, uint32_t p, uint32_t at, uint64_t n, kf_err *err) {
  const kf_pq_column *c = to->column;
  size_t size = kf_type_size(c->leaf.element);
  for (; n > 0; p++, at = 0) {
    const kf_pq_block *block;
    uint64_t left = c->pages[p].n - at, count = left < n ? left : n;
    KF_TRY(kf_pq_cache_get(c->cache, c, p, &block, err));
    put(to, (const unsigned char *)block->slots + at * size, (size_t)count);
    kf_pq_cache_release(c->cache, block);
    n -= count;
  }
  return KF_OK;
}

/* Copies one row of a group whose lists may be missing. */
static kf_status put_list(target *to, const kf_pq_group *group, uint64_t row, bool *missing,
                          kf_err *err) {
  const kf_pq_column *c = to->column;
  const kf_pq_block *block;
  uint32_t p = page_of(c, group, true, row);
  uint64_t number = row - c->first_rows[p];
  KF_TRY(kf_pq_cache_get(c->cache, c, p, &block, err));
  bool there = number < block->n_starts;
  uint32_t at = there ? block->starts[number] : 0;
  *missing = there && !block->there[at];
  kf_pq_cache_release(c->cache, block);
  if (!there) return kf_fail_file(err, c->in->path, "the file has changed since it was opened");
  if (to->at == NULL) return KF_OK;
  if (!*missing) return put_values(to, p, at, c->dim, err);
  put_null(to);
  return KF_OK;
}

/* Copies a row that is stored as bytes. */
static kf_status put_raw(void *argument, uint64_t row, const char *text, size_t n, kf_err *err) {
  target *to = argument;
  const kf_pq_column *c = to->column;
  size_t length = c->dim * kf_type_size(c->leaf.element);
  if (text != NULL && n != length)
    return kf_fail_file(err, c->in->path, "row %" PRIu64 " has %zu bytes, but others have %zu", row,
                        n, length);
  if (text == NULL)
    put_null(to);
  else
    put(to, (const unsigned char *)text, c->dim);
  return KF_OK;
}

static kf_status fetch(target *to, uint64_t first, uint64_t n, kf_err *err) {
  const kf_pq_column *c = to->column;
  if (c->raw) return kf_pq_each_text(c, first, n, put_raw, to, err);
  while (n > 0) {
    const kf_pq_group *group = &c->groups[kf_pq_group_of(c, first)];
    uint64_t skip = first - group->first, left = group->rows - skip, count = left < n ? left : n;
    uint64_t value = skip * c->dim;
    bool missing;
    if (group->regular) {
      uint32_t p = page_of(c, group, false, value);
      KF_TRY(put_values(to, p, (uint32_t)(value - c->pages[p].first), count * c->dim, err));
    }
    for (uint64_t i = 0; !group->regular && i < count; i++)
      KF_TRY(put_list(to, group, first + i, &missing, err));
    first += count;
    n -= count;
  }
  return KF_OK;
}

kf_status kf_pq_fetch_rows(const kf_pq_column *c, const kf_kernels *kernels, uint64_t first,
                           uint64_t n, float *rows, kf_err *err) {
  target to = {.column = c, .kernels = kernels, .at = (char *)rows, .size = sizeof *rows};
  return fetch(&to, first, n, err);
}

kf_status kf_pq_fetch_raw(const kf_pq_column *c, uint64_t first, uint64_t n, void *rows,
                          kf_err *err) {
  target to = {.column = c, .at = rows, .size = kf_type_size(c->leaf.element)};
  return fetch(&to, first, n, err);
}

static kf_status check_null(void *argument, uint64_t row, const char *text, size_t n, kf_err *err) {
  (void)row, (void)n, (void)err;
  *(bool *)argument = text == NULL;
  return KF_OK;
}

bool kf_pq_is_null(const kf_pq_column *c, uint64_t row) {
  const kf_pq_group *group = &c->groups[kf_pq_group_of(c, row)];
  bool missing = false;
  kf_err ignored;
  if (c->raw) kf_pq_each_text(c, row, 1, check_null, &missing, &ignored);
  if (c->raw || group->regular) return missing;
  target nowhere = {.column = c};
  return put_list(&nowhere, group, row, &missing, &ignored) == KF_OK && missing;
}

void kf_pq_ahead(const kf_pq_column *c, uint64_t first, uint64_t n) {
  while (n > 0) {
    const kf_pq_group *group = &c->groups[kf_pq_group_of(c, first)];
    uint64_t skip = first - group->first, left = group->rows - skip, count = left < n ? left : n;
    uint64_t width = c->raw ? 1 : c->dim;
    /* Only pages that begin in this range; the first one was prefetched before. */
    if (c->raw || group->regular) {
      uint32_t p = page_of(c, group, false, skip * width);
      const kf_pq_page *to = &c->pages[page_of(c, group, false, (skip + count) * width - 1)];
      const kf_pq_page *from = &c->pages[c->pages[p].first < skip * width ? p + 1 : p];
      if (from <= to) kf_in_ahead(c->in, from->offset, to->offset + to->packed - from->offset);
    }
    first += count;
    n -= count;
  }
}
