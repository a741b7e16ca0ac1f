/* parquet.c - the footer of a .parquet file.
 *
 *   bytes 0-3       PAR1
 *   then            pages, column by column in every row group
 *   then            the footer: a Thrift struct with the schema and the places of all pages
 *   last 8 bytes    its length, uint32, and PAR1
 *
 * The schema is a tree in depth-first order; its leaves are the columns. A list is a group with a
 * list annotation and a repeated child. Older writers repeat the element itself, and a repeated
 * leaf needs no annotation at all. All variants have exactly one repeated node at the leaf or
 * above, and only that matters here. The definition level of a value is the number of optional and
 * repeated nodes on its path that are present; its repetition level is 0 where a row begins.
 *
 * Lists in the footer are not trusted: every element takes at least one byte of the footer, so its
 * length bounds them. */
#include "file/parquet.h"

#include <inttypes.h>
#include <string.h>

enum { MAX_LEVELS = 60, MAX_PATH = 4096 };

/* --- the schema ---------------------------------------------------------------------------- */

typedef struct element {
  int type, length, repetition, converted, logical;
  bool is_unsigned;
  uint32_t children;
  const char *name;
  uint32_t n_name;
} element;

static void read_integer_type(const kf_thrift_struct *s, element *e) {
  kf_thrift_struct inner = kf_thrift_enter_field(s);
  while (kf_thrift_field(&inner)) {
    if (inner.id == 2)
      e->is_unsigned = !kf_thrift_bool(&inner);
    else
      kf_thrift_skip(&inner);
  }
}

/* A union: its only field is the type. */
static void read_logical(const kf_thrift_struct *s, element *e) {
  kf_thrift_struct inner = kf_thrift_enter_field(s);
  while (kf_thrift_field(&inner)) {
    e->logical = inner.id;
    if (inner.id == KF_PQ_LOGICAL_INTEGER)
      read_integer_type(&inner, e);
    else
      kf_thrift_skip(&inner);
  }
}

static element read_element(kf_thrift *in) {
  element e = {.type = -1, .converted = -1, .name = ""};
  kf_thrift_struct s = kf_thrift_enter(in);
  while (kf_thrift_field(&s)) {
    switch (s.id) {
    case 1: e.type = kf_thrift_i32(&s); break;
    case 2: e.length = kf_thrift_i32(&s); break;
    case 3: e.repetition = kf_thrift_i32(&s); break;
    case 4: e.name = kf_thrift_binary(&s, &e.n_name); break;
    case 5: {
      int32_t n = kf_thrift_i32(&s);
      e.children = n > 0 ? (uint32_t)n : 0;
      break;
    }
    case 6: e.converted = kf_thrift_i32(&s); break;
    case 10: read_logical(&s, &e); break;
    default: kf_thrift_skip(&s);
    }
  }
  return e;
}

/* A position in a walk through the schema: the sums over the nodes above. */
typedef struct place {
  unsigned def, rep, list_def;
  size_t name, path;   /* lengths of both names so far */
  unsigned list_nodes; /* levels below that belong to a list and are not part of `name` */
  unsigned depth;
} place;

typedef struct schema_walk {
  kf_pq *pq;
  kf_thrift *in;
  uint32_t left; /* elements */
  char name[MAX_PATH], path[MAX_PATH];
  kf_err *err;
} schema_walk;

static kf_status bad_schema(const schema_walk *w, const char *what) {
  return kf_fail_file(w->err, w->pq->in->path, "the schema of the file %s", what);
}

/* Appends ".NAME". A NUL would cut a name short. */
static kf_status add_name(const schema_walk *w, char *to, size_t *n, const element *e) {
  if (e->n_name >= MAX_PATH - 2 - *n || memchr(e->name, '\0', e->n_name) != NULL ||
      !kf_utf8_valid(e->name, e->n_name))
    return bad_schema(w, "has a name that is too long or not text");
  if (*n > 0) to[(*n)++] = '.';
  memcpy(to + *n, e->name, e->n_name);
  *n += e->n_name;
  to[*n] = '\0';
  return KF_OK;
}

static const char *type_name(kf_type type) {
  static const char *const names[] = {"f16", "bf16", "f32", "f64", "i8",  "i16",
                                      "i32", "i64",  "u8",  "u16", "u32", "u64"};
  return names[type];
}

/* Dates, times and decimals are not class numbers. Narrow integers are stored in 32 bits. */
static void set_integer(kf_pq_leaf *leaf, const element *e) {
  bool converted = e->converted >= KF_PQ_CONVERTED_UINT_8 && e->converted <= KF_PQ_CONVERTED_INT_64;
  bool plain = e->converted < 0 && e->logical == 0;
  if (!plain && !converted && e->logical != KF_PQ_LOGICAL_INTEGER) return;
  bool is_unsigned = e->logical == KF_PQ_LOGICAL_INTEGER
                         ? e->is_unsigned
                         : converted && e->converted < KF_PQ_CONVERTED_INT_8;
  leaf->kind = KF_PQ_INTEGERS;
  if (e->type == KF_PQ_INT32)
    leaf->element = is_unsigned ? KF_TYPE_U32 : KF_TYPE_I32;
  else
    leaf->element = is_unsigned ? KF_TYPE_U64 : KF_TYPE_I64;
}

static void set_bytes(kf_pq_leaf *leaf, const element *e) {
  bool half = e->type == KF_PQ_FIXED && e->length == 2 && e->logical == KF_PQ_LOGICAL_FLOAT16;
  bool text = e->converted == KF_PQ_CONVERTED_UTF8 || e->converted == KF_PQ_CONVERTED_ENUM ||
              e->logical == KF_PQ_LOGICAL_STRING || e->logical == KF_PQ_LOGICAL_ENUM;
  if (half) {
    leaf->kind = KF_PQ_ROWS;
    leaf->element = KF_TYPE_F16;
  } else if (text && e->type == KF_PQ_BYTES) {
    leaf->kind = KF_PQ_TEXT;
  } else if (e->converted < 0 && e->logical == 0) {
    leaf->kind = KF_PQ_RAW;
  }
}

/* Decides what a column can be used for. */
static void set_kind(kf_pq_leaf *leaf, const element *e) {
  static const char *const stored[] = {"boolean", "i32", "i64", "i96", "f32", "f64", "bytes"};
  bool list = leaf->most_rep == 1;
  leaf->kind = KF_PQ_OTHER;
  if (e->type == KF_PQ_FLOAT || e->type == KF_PQ_DOUBLE) {
    leaf->kind = KF_PQ_ROWS;
    leaf->element = e->type == KF_PQ_FLOAT ? KF_TYPE_F32 : KF_TYPE_F64;
  } else if (e->type == KF_PQ_INT32 || e->type == KF_PQ_INT64) {
    set_integer(leaf, e);
  } else if (e->type == KF_PQ_BYTES || e->type == KF_PQ_FIXED) {
    set_bytes(leaf, e);
  }
  char what[24];
  if (leaf->kind == KF_PQ_ROWS || leaf->kind == KF_PQ_INTEGERS)
    snprintf(what, sizeof what, "%s", type_name(leaf->element));
  else if (leaf->kind == KF_PQ_TEXT)
    snprintf(what, sizeof what, "text");
  else if (e->type == KF_PQ_FIXED)
    snprintf(what, sizeof what, "%" PRIu32 " bytes", leaf->length);
  else
    snprintf(what, sizeof what, "%s", e->type >= 0 && e->type < 7 ? stored[e->type] : "unknown");
  snprintf(leaf->type, sizeof leaf->type, "%s%s",
           list                 ? "list of "
           : leaf->most_rep > 1 ? "lists of lists of "
                                : "",
           what);
  if (leaf->kind == KF_PQ_ROWS && leaf->most_rep == 0) leaf->kind = KF_PQ_FLOATS;
  if (leaf->kind == KF_PQ_ROWS ? !list : leaf->most_rep > 0) leaf->kind = KF_PQ_OTHER;
}

static kf_status add_leaf(schema_walk *w, const element *e, const place *at) {
  kf_pq *pq = w->pq;
  if (e->type < KF_PQ_BOOLEAN || e->type > KF_PQ_FIXED)
    return bad_schema(w, "has a column of an unknown type");
  if (e->type == KF_PQ_FIXED && e->length <= 0) return bad_schema(w, "has a column without a size");
  kf_pq_leaf *leaf = &pq->leaves[pq->n_leaves++];
  *leaf = (kf_pq_leaf){.physical = (kf_pq_physical)e->type,
                       .length = (uint32_t)e->length,
                       .most_def = at->def,
                       .most_rep = at->rep,
                       .list_def = at->list_def};
  leaf->name = kf_copy_text(&pq->arena, w->name, at->name);
  leaf->path = kf_copy_text(&pq->arena, w->path, at->path);
  if (pq->arena.failed) return kf_fail_memory(w->err);
  set_kind(leaf, e);
  return KF_OK;
}

static kf_status walk_node(schema_walk *w, place at) {
  if (w->left == 0 || at.depth > MAX_LEVELS) return bad_schema(w, "is not a tree");
  w->left--;
  element e = read_element(w->in);
  if (w->in->bad != NULL) return kf_fail_file(w->err, w->pq->in->path, "%s", w->in->bad);
  if (at.depth > 0) {
    KF_TRY(add_name(w, w->path, &at.path, &e));
    if (at.list_nodes == 0) KF_TRY(add_name(w, w->name, &at.name, &e));
    if (e.repetition < KF_PQ_REQUIRED || e.repetition > KF_PQ_REPEATED)
      return bad_schema(w, "has a node that is not required, optional or repeated");
    if (e.repetition != KF_PQ_REQUIRED) at.def++;
    if (e.repetition == KF_PQ_REPEATED) {
      at.rep++;
      at.list_def = at.def;
    }
  }
  if (e.children == 0 && at.depth > 0) return add_leaf(w, &e, &at);
  bool list =
      at.depth > 0 && (e.converted == KF_PQ_CONVERTED_LIST || e.logical == KF_PQ_LOGICAL_LIST);
  /* The repeated child of a list and its element are not part of the name. */
  at.list_nodes = list ? 2 : at.list_nodes > 0 ? at.list_nodes - 1 : 0;
  at.depth++;
  for (uint32_t i = 0; i < e.children; i++) KF_TRY(walk_node(w, at));
  return KF_OK;
}

static kf_status read_schema(kf_pq *pq, kf_thrift_struct *s, kf_err *err) {
  uint32_t n = kf_thrift_list(s, KF_THRIFT_STRUCT);
  schema_walk *w = kf_alloc_zero(1, sizeof *w);
  KF_TAKE(&pq->arena, pq->leaves, n);
  kf_status status = w == NULL || pq->leaves == NULL ? kf_fail_memory(err) : KF_OK;
  if (status == KF_OK && n == 0) status = kf_fail_file(err, pq->in->path, "the file has no schema");
  if (status == KF_OK) {
    *w = (schema_walk){.pq = pq, .in = s->in, .left = n, .err = err};
    status = walk_node(w, (place){0});
    if (status == KF_OK && w->left > 0) status = bad_schema(w, "is not a tree");
  }
  kf_free(w);
  return status;
}

/* --- metadata of the file ------------------------------------------------------------------ */

static kf_status read_entries(kf_pq *pq, kf_thrift_struct *s, kf_err *err) {
  uint32_t n = kf_thrift_list(s, KF_THRIFT_STRUCT);
  KF_TAKE(&pq->arena, pq->keys, n);
  KF_TAKE(&pq->arena, pq->values, n);
  if (pq->arena.failed) return kf_fail_memory(err);
  for (uint32_t i = 0; i < n && s->in->bad == NULL; i++) {
    const char *text[2] = {"", ""};
    uint32_t length[2] = {0, 0};
    kf_thrift_struct entry = kf_thrift_enter(s->in);
    while (kf_thrift_field(&entry)) {
      if (entry.id == 1 || entry.id == 2)
        text[entry.id - 1] = kf_thrift_binary(&entry, &length[entry.id - 1]);
      else
        kf_thrift_skip(&entry);
    }
    pq->keys[pq->n_meta] = kf_copy_text(&pq->arena, text[0], length[0]);
    pq->values[pq->n_meta++] = kf_copy_text(&pq->arena, text[1], length[1]);
    if (pq->arena.failed) return kf_fail_memory(err);
  }
  return KF_OK;
}

static kf_status read_footer(kf_pq *pq, kf_err *err) {
  kf_thrift in = kf_thrift_start(pq->footer, pq->n_footer);
  kf_thrift_struct s = kf_thrift_enter(&in);
  int64_t rows = -1;
  while (kf_thrift_field(&s)) {
    if (s.id == 2 && pq->leaves == NULL) {
      KF_TRY(read_schema(pq, &s, err));
    } else if (s.id == 3) {
      rows = kf_thrift_integer(&s);
    } else if (s.id == 4 && pq->groups_at == 0) {
      pq->groups_at = (size_t)(in.at - pq->footer);
      kf_thrift_skip(&s);
    } else if (s.id == 5 && pq->keys == NULL) {
      KF_TRY(read_entries(pq, &s, err));
    } else if (s.id == 8) {
      return kf_fail_file(err, pq->in->path, "the file is encrypted");
    } else {
      kf_thrift_skip(&s);
    }
  }
  if (in.bad != NULL) return kf_fail_file(err, pq->in->path, "%s", in.bad);
  if (pq->n_leaves == 0 || pq->groups_at == 0)
    return kf_fail_file(err, pq->in->path, "the footer has no columns or no row groups");
  if (rows < 0 || (uint64_t)rows > KF_MAX_ROWS)
    return kf_fail_file(err, pq->in->path, "the footer does not say how many rows there are");
  pq->rows = (uint64_t)rows;
  return KF_OK;
}

static kf_status load_footer(kf_pq *pq, kf_err *err) {
  const kf_in *in = pq->in;
  unsigned char ends[12];
  if (in->size < sizeof ends) return kf_fail_file(err, in->path, "is too short for a .parquet");
  KF_TRY(kf_in_read(in, 0, ends, 4, err));
  KF_TRY(kf_in_read(in, in->size - 8, ends + 4, 8, err));
  if (memcmp(ends + 8, "PARE", 4) == 0) return kf_fail_file(err, in->path, "the file is encrypted");
  if (memcmp(ends, "PAR1", 4) != 0 || memcmp(ends + 8, "PAR1", 4) != 0)
    return kf_fail_file(err, in->path, "the file does not begin and end like a .parquet");
  uint64_t n = ends[4] | (uint64_t)ends[5] << 8 | (uint64_t)ends[6] << 16 | (uint64_t)ends[7] << 24;
  if (n > in->size - sizeof ends || n > KF_HEADER_CAP)
    return kf_fail_file(err, in->path,
                        "the footer of %" PRIu64 " bytes is longer than the file, or than %u", n,
                        KF_HEADER_CAP);
  KF_TAKE(&pq->arena, pq->footer, n);
  if (pq->footer == NULL) return kf_fail_memory(err);
  pq->n_footer = n;
  pq->end = in->size - 8 - n;
  return kf_in_read(in, pq->end, pq->footer, n, err);
}

kf_status kf_pq_open(kf_pq *pq, const kf_in *in, kf_err *err) {
  *pq = (kf_pq){.in = in};
  KF_TRY(load_footer(pq, err));
  return read_footer(pq, err);
}

void kf_pq_close(kf_pq *pq) {
  kf_arena_free(&pq->arena);
  *pq = (kf_pq){0};
}

/* --- columns ------------------------------------------------------------------------------- */

const kf_pq_leaf *kf_pq_find(const kf_pq *pq, const char *name) {
  for (size_t i = 0; i < pq->n_leaves; i++)
    if (strcmp(pq->leaves[i].name, name) == 0) return &pq->leaves[i];
  for (size_t i = 0; i < pq->n_leaves; i++)
    if (strcmp(pq->leaves[i].path, name) == 0) return &pq->leaves[i];
  return NULL;
}

const char *kf_pq_meta(const kf_pq *pq, const char *key) {
  for (size_t i = 0; i < pq->n_meta; i++)
    if (strcmp(pq->keys[i], key) == 0) return pq->values[i];
  return NULL;
}

static bool is_any(const char *name, const char *const *names) {
  for (; *names != NULL; names++)
    if (strcmp(name, *names) == 0) return true;
  return false;
}

kf_status kf_pq_table(const kf_pq *pq, const char *const *taken, kf_table_column **out,
                      kf_err *err) {
  kf_table_column *fields = *out = kf_alloc(pq->n_leaves, sizeof *fields);
  if (fields == NULL) return kf_fail_memory(err);
  for (size_t i = 0; i < pq->n_leaves; i++) {
    const kf_pq_leaf *leaf = &pq->leaves[i];
    bool number = leaf->kind == KF_PQ_FLOATS || leaf->kind == KF_PQ_INTEGERS;
    bool used = is_any(leaf->name, taken) || kf_starts_with(leaf->name, "__index_level_");
    fields[i] = (kf_table_column){.name = leaf->name,
                                  .type = leaf->type,
                                  .use = used     ? KF_TABLE_TAKEN
                                         : number ? KF_TABLE_NUMBER
                                                  : KF_TABLE_OTHER};
  }
  return KF_OK;
}

kf_status kf_pq_refuse(const kf_pq *pq, kf_hint hint, const char *what, kf_err *err) {
  kf_table_column *fields;
  KF_TRY(kf_pq_table(pq, (const char *const[]){NULL}, &fields, err));
  kf_status status = kf_refuse_columns(pq->in->path, fields, pq->n_leaves, hint, what, err);
  kf_free(fields);
  return status;
}

/* --- row groups ---------------------------------------------------------------------------- */

/* Reads a ColumnMetaData. */
static void read_chunk(const kf_thrift_struct *s, kf_pq_chunk *chunk, int *type) {
  int64_t values = -1, size = -1, data = -1, dictionary = -1;
  kf_thrift_struct meta = kf_thrift_enter_field(s);
  while (kf_thrift_field(&meta)) {
    switch (meta.id) {
    case 1: *type = kf_thrift_i32(&meta); break;
    case 4: chunk->codec = kf_thrift_i32(&meta); break;
    case 5: values = kf_thrift_integer(&meta); break;
    case 7: size = kf_thrift_integer(&meta); break;
    case 9: data = kf_thrift_integer(&meta); break;
    case 11: dictionary = kf_thrift_integer(&meta); break;
    default: kf_thrift_skip(&meta);
    }
  }
  int64_t begin = dictionary > 0 && dictionary < data ? dictionary : data;
  if (values < 0 || size < 0 || begin < 4) return; /* end stays 0, and the caller fails */
  chunk->values = (uint64_t)values;
  chunk->begin = (uint64_t)begin;
  if (!kf_add_u64(chunk->begin, (uint64_t)size, &chunk->end)) chunk->end = 0;
}

/* Reads a list of ColumnChunk, of which one is wanted. *elsewhere: its pages are in another
 * file. */
static void read_columns(kf_thrift_struct *s, size_t wanted, kf_pq_chunk *chunk, int *type,
                         bool *elsewhere) {
  uint32_t n = kf_thrift_list(s, KF_THRIFT_STRUCT);
  for (uint32_t i = 0; i < n && s->in->bad == NULL; i++) {
    kf_thrift_struct column = kf_thrift_enter(s->in);
    while (kf_thrift_field(&column)) {
      if (i == wanted && column.id == 1) *elsewhere = true;
      if (i == wanted && column.id == 3)
        read_chunk(&column, chunk, type);
      else
        kf_thrift_skip(&column);
    }
  }
}

static kf_status read_group(const kf_pq *pq, kf_thrift *in, uint32_t number, size_t leaf,
                            kf_pq_chunk *chunk, kf_err *err) {
  const char *path = pq->in->path;
  int64_t rows = -1;
  int type = -1;
  bool elsewhere = false;
  *chunk = (kf_pq_chunk){0};
  kf_thrift_struct group = kf_thrift_enter(in);
  while (kf_thrift_field(&group)) {
    if (group.id == 1)
      read_columns(&group, leaf, chunk, &type, &elsewhere);
    else if (group.id == 3)
      rows = kf_thrift_integer(&group);
    else
      kf_thrift_skip(&group);
  }
  if (in->bad != NULL) return kf_fail_file(err, path, "%s", in->bad);
  if (elsewhere)
    return kf_fail_file(err, path, "row group %" PRIu32 " has its pages in another file", number);
  if (rows < 0 || (uint64_t)rows > pq->rows || chunk->end == 0 || chunk->end > pq->end ||
      type != (int)pq->leaves[leaf].physical)
    return kf_fail_file(err, path,
                        "the entry of column '%.64s' in row group %" PRIu32
                        " of the footer is impossible",
                        pq->leaves[leaf].name, number);
  const char *refusal = kf_codec_refusal(chunk->codec);
  if (refusal != NULL)
    return kf_fail_file(err, path, "column '%.64s' is compressed with %s", pq->leaves[leaf].name,
                        refusal);
  chunk->rows = (uint64_t)rows;
  return KF_OK;
}

kf_status kf_pq_chunks(const kf_pq *pq, const kf_pq_leaf *leaf, kf_arena *arena,
                       kf_pq_chunk **chunks, uint32_t *n, kf_err *err) {
  kf_thrift in = kf_thrift_start(pq->footer + pq->groups_at, pq->n_footer - pq->groups_at);
  kf_thrift_struct s = {.in = &in, .type = KF_THRIFT_LIST};
  *n = kf_thrift_list(&s, KF_THRIFT_STRUCT);
  KF_TAKE(arena, *chunks, *n);
  if (*chunks == NULL) return kf_fail_memory(err);
  uint64_t rows = 0;
  for (uint32_t i = 0; i < *n; i++) {
    KF_TRY(read_group(pq, &in, i, (size_t)(leaf - pq->leaves), &(*chunks)[i], err));
    rows += (*chunks)[i].rows;
    if (rows > pq->rows) break;
  }
  if (in.bad != NULL) return kf_fail_file(err, pq->in->path, "%s", in.bad);
  if (rows == pq->rows) return KF_OK;
  return kf_fail_file(err, pq->in->path,
                      "the row groups have %" PRIu64 " rows, but the footer says %" PRIu64, rows,
                      pq->rows);
}
