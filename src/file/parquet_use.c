/* parquet_use.c - which columns of a .parquet file are rows, labels and ids.
 *
 * The one that is asked for, or one with a usual name, or, for rows, the only candidate. */
#include "file/parquet.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* --- which column -------------------------------------------------------------------------- */

static kf_status find_named(const kf_pq *pq, const char *name, const kf_pq_leaf **out,
                            kf_err *err) {
  char what[128];
  *out = kf_pq_find(pq, name);
  if (*out != NULL) return KF_OK;
  snprintf(what, sizeof what, "there is no column '%.64s'", name);
  return kf_pq_refuse(pq, KF_HINT_NONE, what, err);
}

/* "NAME:f32" and "NAME:f16" give the type of the numbers in a column of bytes. */
static kf_status find_asked_rows(const kf_pq *pq, const char *name, const kf_pq_leaf **out,
                                 kf_type *raw, kf_err *err) {
  char what[192];
  size_t n = strlen(name);
  bool f32 = kf_ends_with(name, ":f32"), f16 = kf_ends_with(name, ":f16");
  *out = kf_pq_find(pq, name);
  if (*out == NULL && (f32 || f16)) {
    char *bare = kf_strdup(name);
    if (bare == NULL) return kf_fail_memory(err);
    bare[n - 4] = '\0';
    *out = kf_pq_find(pq, bare);
    kf_free(bare);
    if (*out != NULL && (*out)->kind == KF_PQ_RAW) {
      *raw = f32 ? KF_TYPE_F32 : KF_TYPE_F16;
      return KF_OK;
    }
  }
  if (*out == NULL || (*out)->kind == KF_PQ_ROWS) return KF_OK;
  if ((*out)->kind == KF_PQ_RAW)
    snprintf(what, sizeof what,
             "column '%.64s' has bytes; name it '%.20s:f32' or '%.20s:f16' to give their type",
             name, name, name);
  else
    snprintf(what, sizeof what, "column '%.64s' is %s, not lists of floats", name, (*out)->type);
  return kf_pq_refuse(pq, KF_HINT_NONE, what, err);
}

/* NULL: there may be a column for each dimension. */
static kf_status find_rows(const kf_pq *pq, const char *name, const kf_pq_leaf **out, kf_type *raw,
                           kf_err *err) {
  static const char *const usual[] = {"embedding", KF_TENSOR_ROWS};
  size_t n = 0;
  if (name != NULL) return find_asked_rows(pq, name, out, raw, err);
  for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++) {
    *out = kf_pq_find(pq, usual[i]);
    if (*out != NULL && (*out)->kind == KF_PQ_ROWS) return KF_OK;
  }
  for (size_t i = 0; i < pq->n_leaves; i++) {
    if (pq->leaves[i].kind != KF_PQ_ROWS) continue;
    *out = &pq->leaves[i];
    n++;
  }
  if (n < 2) return KF_OK;
  return kf_pq_refuse(pq, KF_HINT_TENSOR, "several columns are lists of floats", err);
}

static bool is_text_or_integers(const kf_pq_leaf *leaf) {
  bool bytes = leaf->kind == KF_PQ_RAW && leaf->physical == KF_PQ_BYTES;
  return leaf->kind == KF_PQ_TEXT || leaf->kind == KF_PQ_INTEGERS || bytes;
}

/* Text or integers: the requested column, or one with a usual name. NULL: none. */
static kf_status find_text_or_integers(const kf_pq *pq, const char *name, const char *const *usual,
                                       const char *use, const kf_pq_leaf **out, kf_err *err) {
  *out = NULL;
  if (name != NULL) {
    char what[192];
    KF_TRY(find_named(pq, name, out, err));
    if (*out == NULL || is_text_or_integers(*out)) return KF_OK;
    snprintf(what, sizeof what, "column '%.64s' is %s, but %s must be text or integers", name,
             (*out)->type, use);
    return kf_pq_refuse(pq, KF_HINT_NONE, what, err);
  }
  for (; *usual != NULL; usual++) {
    const kf_pq_leaf *leaf = kf_pq_find(pq, *usual);
    if (leaf == NULL || !is_text_or_integers(leaf)) continue;
    *out = leaf;
    break;
  }
  return KF_OK;
}

/* --- labels -------------------------------------------------------------------------------- */

static kf_status use_labels(kf_labels *labels, const kf_pq *pq, const kf_pq_leaf *leaf,
                            const kf_in *in, kf_pq_cache *cache, kf_err *err) {
  KF_TRY(kf_pq_column_open(pq, leaf, KF_TYPE_OTHER, in, cache, &labels->column_in, err));
  labels->in = in;
  labels->kind = leaf->kind == KF_PQ_INTEGERS ? KF_LABELS_INTEGERS : KF_LABELS_COLUMN;
  labels->type = KF_TYPE_I64;
  labels->count = labels->column_in->rows;
  return KF_OK;
}

/* In a label file: the requested column, or the only one of text or integers. */
static kf_status find_labels(const kf_pq *pq, const char *name, const kf_pq_leaf **out,
                             kf_err *err) {
  size_t n = 0;
  KF_TRY(find_text_or_integers(pq, name, kf_usual_labels, "labels", out, err));
  if (*out != NULL) return KF_OK;
  for (size_t i = 0; i < pq->n_leaves; i++) {
    if (!is_text_or_integers(&pq->leaves[i])) continue;
    *out = &pq->leaves[i];
    n++;
  }
  if (n == 1) return KF_OK;
  return kf_pq_refuse(pq, KF_HINT_LABEL_COLUMN,
                      n > 0 ? "several columns could be labels" : "no column can be labels", err);
}

kf_status kf_parquet_open_labels(kf_labels *labels, const char *path, const char *column,
                                 kf_pq_cache *cache, kf_err *err) {
  kf_pq pq;
  const kf_pq_leaf *leaf;
  KF_TRY(kf_in_open(&labels->own, path, err));
  labels->in = &labels->own;
  kf_status status = kf_pq_open(&pq, &labels->own, err);
  if (status == KF_OK) status = find_labels(&pq, column, &leaf, err);
  if (status == KF_OK) status = use_labels(labels, &pq, leaf, &labels->own, cache, err);
  kf_pq_close(&pq);
  return status;
}

/* Checks text before passing it on. */
typedef struct text_use {
  const char *path, *what;
  kf_pq_text_fn use;
  void *argument;
} text_use;

static kf_status check_text(void *argument, uint64_t row, const char *text, size_t n, kf_err *err) {
  const text_use *use = argument;
  const char *wrong = NULL;
  if (text == NULL)
    text = "";
  else if (n > KF_LINE_MAX)
    wrong = "is too long";
  else if (memchr(text, '\0', n) != NULL)
    wrong = "contains a NUL";
  else if (!kf_utf8_valid(text, n))
    wrong = "is not valid UTF-8";
  if (wrong != NULL)
    return kf_fail_file(err, use->path, "the %s of row %" PRIu64 " %s", use->what, row, wrong);
  return use->use(use->argument, row, text, n, err);
}

kf_status kf_labels_each_text(const kf_labels *labels, uint64_t first, uint64_t n,
                              kf_pq_text_fn use, void *argument, kf_err *err) {
  text_use text = {.path = labels->in->path, .what = "label", .use = use, .argument = argument};
  return kf_pq_each_text(labels->column_in, first, n, check_text, &text, err);
}

/* --- ids ----------------------------------------------------------------------------------- */

typedef struct id_use {
  const char *path;
  uint64_t *lengths;
  kf_string *bytes;
} id_use;

static kf_status add_id(void *argument, uint64_t row, const char *text, size_t n, kf_err *err) {
  id_use *use = argument;
  if (n == 0)
    return kf_fail_file(err, use->path, "the id of row %" PRIu64 " is null or empty", row);
  *use->lengths++ = n;
  kf_string_add(use->bytes, text, n);
  return use->bytes->failed ? kf_fail_memory(err) : KF_OK;
}

static kf_status add_number(id_use *use, uint64_t row, int64_t number, kf_err *err) {
  char text[24];
  int n = number == INT64_MIN ? 0 : snprintf(text, sizeof text, "%" PRId64, number);
  return add_id(use, row, text, (size_t)n, err);
}

kf_status kf_ids_fetch_column(const kf_ids *ids, uint64_t first, uint64_t n, uint64_t *lengths,
                              kf_string *bytes, kf_err *err) {
  enum { IDS_AT_ONCE = 256 };
  const kf_pq_column *c = ids->column;
  id_use use = {.path = c->in->path, .lengths = lengths, .bytes = bytes};
  text_use text = {.path = c->in->path, .what = "id", .use = add_id, .argument = &use};
  if (c->leaf.kind != KF_PQ_INTEGERS) return kf_pq_each_text(c, first, n, check_text, &text, err);
  for (uint64_t done = 0; done < n; done += IDS_AT_ONCE) {
    int64_t numbers[IDS_AT_ONCE];
    uint64_t count = n - done < IDS_AT_ONCE ? n - done : IDS_AT_ONCE;
    KF_TRY(kf_pq_fetch_integers(c, first + done, count, numbers, err));
    for (uint64_t i = 0; i < count; i++)
      KF_TRY(add_number(&use, first + done + i, numbers[i], err));
  }
  return KF_OK;
}

static kf_status use_ids(kf_shard *shard, const kf_pq *pq, const kf_pq_leaf *leaf, const kf_in *in,
                         kf_pq_cache *cache, kf_err *err) {
  KF_TRY(kf_pq_column_open(pq, leaf, KF_TYPE_OTHER, in, cache, &shard->ids.column, err));
  if (shard->ids.column->rows != shard->table.rows)
    return kf_fail_file(err, in->path, "%" PRIu64 " ids for the %" PRIu64 " rows of %s",
                        shard->ids.column->rows, shard->table.rows, shard->in.path);
  shard->ids.there = true;
  return KF_OK;
}

kf_status kf_parquet_open_ids(kf_shard *shard, const char *path, const char *column,
                              kf_pq_cache *cache, kf_err *err) {
  kf_pq pq;
  const kf_pq_leaf *leaf;
  KF_TRY(kf_in_open(&shard->beside, path, err));
  kf_status status = kf_pq_open(&pq, &shard->beside, err);
  if (status == KF_OK) status = find_text_or_integers(&pq, column, kf_usual_ids, "ids", &leaf, err);
  if (status == KF_OK) status = use_ids(shard, &pq, leaf, &shard->beside, cache, err);
  kf_pq_close(&pq);
  return status;
}

/* --- rows ---------------------------------------------------------------------------------- */

static bool is_koofu_file(const kf_pq *pq) {
  const char *format = kf_pq_meta(pq, "format");
  return format != NULL && strcmp(format, "koofu.dataset") == 0;
}

static const char *label_asked(const kf_data_options *o) {
  return o->label_column != NULL ? o->label_column : o->label_tensor;
}

static kf_status list_columns(kf_shard *shard, const kf_pq *pq, kf_err *err) {
  kf_table_column *fields;
  KF_TRY(kf_pq_table(pq, (const char *const[]){NULL}, &fields, err));
  kf_status status = kf_shard_list_columns(shard, fields, pq->n_leaves, err);
  kf_free(fields);
  return status;
}

static kf_status use_inner_labels(kf_shard *shard, const kf_pq *pq, const kf_data_options *options,
                                  kf_pq_cache *cache, kf_names *names, kf_err *err) {
  const kf_pq_leaf *leaf;
  const char *asked = label_asked(options);
  if (options->inner_labels == KF_OFF || options->n_labels > 0) return KF_OK;
  KF_TRY(find_text_or_integers(pq, asked, kf_usual_labels, "labels", &leaf, err));
  if (leaf == NULL) return list_columns(shard, pq, err);
  shard->guessed = asked == NULL;
  snprintf(shard->label_column, sizeof shard->label_column, "%.63s", leaf->name);
  KF_TRY(use_labels(&shard->labels, pq, leaf, pq->in, cache, err));
  bool numbers = shard->labels.kind == KF_LABELS_INTEGERS;
  return numbers && names != NULL && !is_koofu_file(pq) ? kf_hf_names(pq, leaf->name, names, err)
                                                        : KF_OK;
}

/* Class names and the encoder, if koofu wrote the file. */
static kf_status use_meta(kf_shard *shard, const kf_pq *pq, kf_names *names, kf_err *err) {
  if (!is_koofu_file(pq)) return KF_OK;
  shard->guessed = false;
  KF_TRY(kf_origin_parse(pq->in->path, kf_pq_meta(pq, KF_META_ENCODER),
                         kf_pq_meta(pq, KF_META_ENCODER_CHECKSUM), &shard->origin, err));
  return names != NULL ? kf_names_parse(pq->in->path, kf_pq_meta(pq, "classes"), names, err)
                       : KF_OK;
}

/* A column of lists or bytes. */
static kf_status use_lists(kf_shard *shard, const kf_pq *pq, const kf_pq_leaf *leaf, kf_type raw,
                           kf_pq_cache *cache, kf_err *err) {
  kf_table *table = &shard->table;
  KF_TRY(kf_pq_column_open(pq, leaf, raw, &shard->in, cache, &table->column, err));
  table->type = table->column->leaf.element;
  table->layout = KF_LAYOUT_PARQUET;
  return kf_table_size(table, shard->in.path, table->column->rows, table->column->dim, err);
}

static kf_status use_columns(kf_shard *shard, kf_pq *pq, const kf_data_options *options,
                             kf_pq_cache *cache, kf_err *err) {
  const char *taken[8], *label = label_asked(options);
  size_t n = 0;
  if (label != NULL) taken[n++] = label;
  if (options->id_column != NULL) taken[n++] = options->id_column;
  for (const char *const *name = kf_usual_labels; *name != NULL; name++) taken[n++] = *name;
  for (const char *const *name = kf_usual_ids; *name != NULL; name++) taken[n++] = *name;
  taken[n] = NULL;
  return kf_parquet_open_dims(shard, pq, options->tensor, taken, cache, err);
}

static kf_status use_rows(kf_shard *shard, kf_pq *pq, const kf_data_options *options,
                          kf_pq_cache *cache, kf_names *names, kf_err *err) {
  const kf_pq_leaf *leaf;
  kf_type raw = KF_TYPE_OTHER;
  KF_TRY(find_rows(pq, options->tensor, &leaf, &raw, err));
  KF_TRY(leaf != NULL ? use_lists(shard, pq, leaf, raw, cache, err)
                      : use_columns(shard, pq, options, cache, err));
  KF_TRY(use_inner_labels(shard, pq, options, cache, names, err));
  bool no_ids = options->id_column != NULL && options->id_column[0] == '\0';
  leaf = NULL;
  if (!no_ids)
    KF_TRY(find_text_or_integers(pq, options->id_column, kf_usual_ids, "ids", &leaf, err));
  if (leaf != NULL) KF_TRY(use_ids(shard, pq, leaf, pq->in, cache, err));
  return use_meta(shard, pq, names, err);
}

kf_status kf_parquet_open_rows(kf_shard *shard, const char *path, const kf_data_options *options,
                               kf_pq_cache *cache, kf_names *names, kf_err *err) {
  kf_pq pq;
  KF_TRY(kf_in_open(&shard->in, path, err));
  kf_status status = kf_pq_open(&pq, &shard->in, err);
  if (status == KF_OK) status = use_rows(shard, &pq, options, cache, names, err);
  kf_pq_close(&pq);
  return status;
}

/* --- for people ---------------------------------------------------------------------------- */

static int by_key(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* A copy for display, cut where it is too long or no longer UTF-8. */
static const char *shown(kf_arena *arena, const char *text) {
  enum { MAX_SHOWN_BYTES = 200 };
  size_t n = strlen(text);
  n = kf_utf8_prefix(text, n < MAX_SHOWN_BYTES ? n : MAX_SHOWN_BYTES);
  char *copy = kf_arena_take(arena, n + 4, 1);
  if (copy == NULL) return NULL;
  snprintf(copy, n + 4, "%.*s%s", (int)n, text, text[n] != '\0' ? "…" : "");
  return copy;
}

static kf_status describe(const kf_pq *pq, kf_columns *out, kf_err *err) {
  struct entry {
    const char *key, *value;
  } * entries;
  out->rows = pq->rows;
  out->n = pq->n_leaves;
  out->n_meta = pq->n_meta;
  KF_TAKE(&out->arena, out->names, out->n);
  KF_TAKE(&out->arena, out->types, out->n);
  KF_TAKE(&out->arena, out->keys, out->n_meta);
  KF_TAKE(&out->arena, out->values, out->n_meta);
  KF_TAKE(&out->arena, entries, out->n_meta);
  for (size_t i = 0; !out->arena.failed && i < out->n; i++) {
    out->names[i] = shown(&out->arena, pq->leaves[i].name);
    out->types[i] = shown(&out->arena, pq->leaves[i].type);
  }
  for (size_t i = 0; !out->arena.failed && i < out->n_meta; i++)
    entries[i] = (struct entry){shown(&out->arena, pq->keys[i]), shown(&out->arena, pq->values[i])};
  if (out->arena.failed) return kf_fail_memory(err);
  qsort(entries, out->n_meta, sizeof *entries, by_key);
  for (size_t i = 0; i < out->n_meta; i++) {
    out->keys[i] = entries[i].key;
    out->values[i] = entries[i].value;
  }
  return KF_OK;
}

kf_status kf_parquet_describe(const char *path, kf_columns *out, kf_err *err) {
  kf_in in;
  kf_pq pq;
  *out = (kf_columns){0};
  KF_TRY(kf_in_open(&in, path, err));
  kf_status status = kf_pq_open(&pq, &in, err);
  if (status == KF_OK) status = describe(&pq, out, err);
  kf_pq_close(&pq);
  kf_in_close(&in);
  return status;
}
