/* csv_rows.c - rows of a .csv or .tsv file with a column for each dimension, as pandas writes
 * them.
 *
 * Text has no random access, so the numbers are parsed once, when the file is opened, and copied
 * to an unnamed file as f32; the ids follow them there in the layout of ids.c. Labels are copied
 * to another one, a table like a label file: between two of them there are no numbers to be
 * skipped. */
#include "file/file_internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { LONGEST_NUMBER = 63, BUFFERED = 1 << 16 };

static const char no_place[] = "there is no place for a copy of its rows";

typedef struct table {
  kf_csv csv; /* first, since it is large */
  kf_shard *shard;
  const kf_in *in;
  kf_arena arena;
  kf_table_column *fields; /* [n] */
  size_t n, room;
  bool header;
  kf_mark rows;          /* where the first row begins */
  size_t label, id;      /* columns; SIZE_MAX: none */
  size_t *order, *place; /* [dims] columns; [n] dimension of a column, or SIZE_MAX */
  size_t dims;
  kf_in *copy;  /* what is written */
  char *buffer; /* [BUFFERED] of it */
  size_t buffered;
} table;

/* --- numbers ------------------------------------------------------------------------------- */

/* Whether a field is a number; an empty one is NaN, as pandas writes it. */
static bool parse(const char *text, size_t length, float *out) {
  char number[LONGEST_NUMBER + 1];
  while (length > 0 && text[0] == ' ') text++, length--;
  while (length > 0 && text[length - 1] == ' ') length--;
  if (length > LONGEST_NUMBER) return false;
  memcpy(number, text, length);
  number[length] = '\0';
  const char *end, *unsigned_part = number + (number[0] == '-' || number[0] == '+');
  *out = (float)kf_parse_f64(number, &end);
  if (end != number) return *end == '\0';
  bool infinite = strcasecmp(unsigned_part, "inf") == 0;
  *out = infinite ? number[0] == '-' ? -INFINITY : INFINITY : NAN;
  return infinite || length == 0 || strcasecmp(unsigned_part, "nan") == 0;
}

/* --- the header ---------------------------------------------------------------------------- */

static kf_status next_field(table *t, const char **text, size_t *length, bool *last, kf_err *err) {
  KF_TRY(kf_csv_field(&t->csv, text, length, last, err));
  return *text != NULL ? KF_OK : kf_fail_file(err, t->in->path, "the file has no rows");
}

/* Reads the first record. It is a header unless it has numbers, other than "0,1,2" or "1,2,3". */
static kf_status read_names(table *t, kf_err *err) {
  size_t numbers = 0, from_1 = 0;
  char expected[24];
  t->header = true;
  for (bool last = false; !last; t->n++) {
    const char *text;
    size_t length;
    float value;
    KF_TRY(next_field(t, &text, &length, &last, err));
    if (!kf_utf8_valid(text, length))
      return kf_fail_file(err, t->in->path, "line 1 is not valid UTF-8");
    if (!kf_grow((void **)&t->fields, &t->room, t->n, sizeof *t->fields))
      return kf_fail_memory(err);
    char *name = kf_copy_text(&t->arena, text, length);
    if (name == NULL) return kf_fail_memory(err);
    t->fields[t->n] = (kf_table_column){.name = name, .type = ""};
    if (length == 0 || !parse(text, length, &value)) continue;
    if (numbers == 0) from_1 = strcmp(name, "1") == 0;
    snprintf(expected, sizeof expected, "%zu", from_1 + numbers++);
    t->header = t->header && strcmp(name, expected) == 0;
  }
  return KF_OK;
}

/* Without a header, columns are named by their position, from 1, as in --label-column. */
static kf_status name_by_position(table *t, kf_err *err) {
  for (size_t i = 0; i < t->n; i++) {
    char number[24];
    int length = snprintf(number, sizeof number, "%zu", i + 1);
    t->fields[i].name = kf_copy_text(&t->arena, number, (size_t)length);
    if (t->fields[i].name == NULL) return kf_fail_memory(err);
  }
  kf_csv_start(&t->csv, t->in, t->csv.separator, (kf_mark){0});
  return KF_OK;
}

/* A column is a number if its first field is one. */
static kf_status read_first_row(table *t, kf_err *err) {
  size_t at = 0;
  t->rows = kf_csv_mark(&t->csv);
  for (bool last = false; !last; at++) {
    const char *text;
    size_t length;
    float value;
    KF_TRY(next_field(t, &text, &length, &last, err));
    if (at < t->n && parse(text, length, &value)) t->fields[at].use = KF_TABLE_NUMBER;
  }
  for (size_t i = 0; i < t->n; i++)
    t->fields[i].type = t->fields[i].use == KF_TABLE_NUMBER ? "number" : "text";
  return KF_OK;
}

/* The column with a name or, for labels, a position; SIZE_MAX: none. */
static size_t find(const table *t, const char *name) {
  size_t position = kf_table_position(name);
  if (position > 0) return position <= t->n ? position - 1 : SIZE_MAX;
  for (size_t i = 0; t->header && i < t->n; i++)
    if (strcmp(t->fields[i].name, name) == 0) return i;
  return SIZE_MAX;
}

/* The column that is asked for or, without one, has a usual name. */
static size_t take(table *t, const char *asked, const char *const *usual) {
  size_t at = asked != NULL ? find(t, asked) : SIZE_MAX;
  for (; *usual != NULL; usual++) {
    size_t other = find(t, *usual);
    if (asked == NULL && at == SIZE_MAX) at = other;
    if (other != SIZE_MAX) t->fields[other].use = KF_TABLE_TAKEN;
  }
  if (at != SIZE_MAX) t->fields[at].use = KF_TABLE_TAKEN;
  return at;
}

static kf_status refuse_missing(const table *t, const char *name, kf_err *err) {
  char what[128];
  snprintf(what, sizeof what, "there is no column '%.64s'", name);
  return kf_refuse_columns(t->in->path, t->fields, t->n, KF_HINT_NONE, what, err);
}

static kf_status choose(table *t, const kf_data_options *o, kf_err *err) {
  const char *id = o->id_column, *label = o->label_column;
  bool inner = o->inner_labels != KF_OFF && o->n_labels == 0, none = id != NULL && id[0] == '\0';
  t->id = take(t, none ? NULL : id, kf_usual_ids);
  t->label = take(t, label, kf_usual_labels);
  if (none) t->id = SIZE_MAX;
  if (id != NULL && !none && t->id == SIZE_MAX) return refuse_missing(t, id, err);
  if (inner && label != NULL && t->label == SIZE_MAX) return refuse_missing(t, label, err);
  if (!inner) t->label = SIZE_MAX;
  for (kf_table_column *f = t->fields; f < t->fields + t->n; f++) /* an index of rows */
    if (f->name[0] == '\0' || strcmp(f->name, "Unnamed: 0") == 0) f->use = KF_TABLE_TAKEN;
  KF_TAKE(&t->arena, t->order, t->n);
  KF_TAKE(&t->arena, t->place, t->n);
  KF_TAKE(&t->arena, t->buffer, BUFFERED);
  if (t->arena.failed) return kf_fail_memory(err);
  KF_TRY(kf_choose_dims(t->in->path, t->fields, t->n, o->tensor, t->order, &t->dims, err));
  memset(t->place, 0xff, t->n * sizeof *t->place);
  for (size_t i = 0; i < t->dims; i++) t->place[t->order[i]] = i;
  return KF_OK;
}

static kf_status read_header(table *t, kf_err *err) {
  KF_TRY(read_names(t, err));
  if (!t->header) KF_TRY(name_by_position(t, err));
  return read_first_row(t, err);
}

/* --- copying ------------------------------------------------------------------------------- */

/* Opens an unnamed file, which has the name and state of the table. */
static kf_status begin_copy(table *t, kf_in *copy, kf_err *err) {
  *copy = (kf_in){.fd = -1, .state = t->in->state, .path = kf_strdup(t->in->path)};
  t->copy = copy;
  return copy->path != NULL ? kf_temporary_open(t->in, no_place, &copy->fd, err)
                            : kf_fail_memory(err);
}

static kf_status write_out(table *t, const void *bytes, size_t n, kf_err *err) {
  t->copy->size += n;
  return kf_temporary_write(t->in, no_place, t->copy->fd, bytes, n, err);
}

static kf_status flush(table *t, kf_err *err) {
  size_t n = t->buffered;
  t->buffered = 0;
  return write_out(t, t->buffer, n, err);
}

static kf_status put(table *t, const void *bytes, size_t n, kf_err *err) {
  if (t->buffered + n > BUFFERED) KF_TRY(flush(t, err));
  if (n > BUFFERED) return write_out(t, bytes, n, err);
  memcpy(t->buffer + t->buffered, bytes, n);
  t->buffered += n;
  return KF_OK;
}

/* The next row. *there: the file has not ended. */
static kf_status read_row(table *t, float *row, bool *there, kf_err *err) {
  uint64_t line = t->csv.line + 1;
  size_t n = 0;
  for (bool last = false; !last; n++) {
    const char *text;
    size_t length;
    KF_TRY(kf_csv_field(&t->csv, &text, &length, &last, err));
    *there = text != NULL;
    if (text == NULL) return KF_OK;
    if (n >= t->n || t->place[n] == SIZE_MAX || parse(text, length, &row[t->place[n]])) continue;
    return kf_fail_file(
        err, t->in->path, "line %" PRIu64 ", column '%.64s': '%.*s' is not a number", line,
        t->fields[n].name, (int)kf_utf8_prefix(text, length < 40 ? length : 40), text);
  }
  if (n == t->n) return KF_OK;
  return kf_fail_file(err, t->in->path,
                      "line %" PRIu64 " has %zu field%s, but the first line has %zu", line, n,
                      n == 1 ? "" : "s", t->n);
}

static kf_status copy_rows(table *t, kf_err *err) {
  float *row;
  uint64_t rows = 0;
  KF_TAKE_ZERO(&t->arena, row, t->dims);
  if (row == NULL) return kf_fail_memory(err);
  kf_csv_start(&t->csv, t->in, t->csv.separator, t->rows);
  for (bool there;; rows++) {
    KF_TRY(read_row(t, row, &there, err));
    if (!there) break;
    KF_TRY(put(t, row, t->dims * sizeof *row, err));
  }
  return kf_table_size(&t->shard->table, t->in->path, rows, t->dims, err);
}

/* Writes the ends of all ids, or their bytes. *end: of the last one. */
static kf_status copy_ids(table *t, bool bytes, uint64_t *end, kf_err *err) {
  *end = 0;
  kf_csv_start(&t->csv, t->in, t->csv.separator, t->rows);
  for (uint64_t row = 0;; row++) {
    const char *text;
    size_t length;
    KF_TRY(kf_csv_record(&t->csv, t->n, t->id, &text, &length, err));
    if (text == NULL)
      return row == t->shard->table.rows
                 ? KF_OK
                 : kf_fail_file(err, t->in->path, "changed while it was read");
    if (length == 0 || !kf_utf8_valid(text, length))
      return kf_fail_file(err, t->in->path, "the id of row %" PRIu64 " is %s", row,
                          length == 0 ? "empty" : "not valid UTF-8");
    *end += length;
    KF_TRY(put(t, bytes ? text : (const char *)end, bytes ? length : sizeof *end, err));
  }
}

static kf_status copy(table *t, kf_err *err) {
  kf_shard *s = t->shard;
  uint64_t end = 0, again = 0;
  KF_TRY(copy_rows(t, err));
  uint64_t size = s->table.rows * t->dims * sizeof(float), pad = size % 8;
  if (t->id != SIZE_MAX) {
    KF_TRY(put(t, (const char[8]){0}, pad, err));
    s->ids = (kf_ids){.there = true, .ends = size + pad};
    s->ids.bytes = s->ids.ends + 8 * s->table.rows;
    KF_TRY(copy_ids(t, false, &end, err));
    KF_TRY(copy_ids(t, true, &again, err));
    s->ids.n_bytes = end;
  }
  return flush(t, err);
}

/* Writes a label and, in a second column, line ends: the record has as many lines as in the table,
 * for messages, but no more than a field can hold. */
static kf_status put_label(table *t, const char *text, size_t length, uint64_t lines, kf_err *err) {
  const char between[] = {'"', t->csv.separator, '"'};
  uint64_t written = 1; /* the last line end is that of the record */
  KF_TRY(put(t, "\"", 1, err));
  for (size_t i = 0; i < length; i++) {
    KF_TRY(put(t, text + i, 1, err));
    if (text[i] == '"') KF_TRY(put(t, "\"", 1, err));
    written += text[i] == '\n';
  }
  KF_TRY(put(t, between, sizeof between, err));
  if (lines > KF_LINE_MAX) lines = KF_LINE_MAX;
  for (; written < lines; written++) KF_TRY(put(t, "\n", 1, err));
  return put(t, "\"\n", 2, err);
}

/* With the header, if there is one. */
static kf_status copy_labels(table *t, kf_err *err) {
  kf_csv_start(&t->csv, t->in, t->csv.separator, (kf_mark){0});
  for (;;) {
    const char *text;
    size_t length;
    uint64_t before = t->csv.line;
    KF_TRY(kf_csv_record(&t->csv, t->n, t->label, &text, &length, err));
    if (text == NULL) return flush(t, err);
    KF_TRY(put_label(t, text, length, t->csv.line - before, err));
  }
}

/* --- opening ------------------------------------------------------------------------------- */

/* The shard keeps the copy in the place of the file. */
static kf_status open_rows(table *t, const kf_data_options *options, kf_err *err) {
  kf_shard *s = t->shard;
  kf_csv_start(&t->csv, t->in, kf_table_separator(t->in->path), (kf_mark){0});
  KF_TRY(read_header(t, err));
  KF_TRY(choose(t, options, err));
  s->table = (kf_table){.type = KF_TYPE_F32, .layout = KF_LAYOUT_ROWS};
  KF_TRY(kf_table_size(&s->table, t->in->path, 1, t->dims, err));
  if (t->header) KF_TRY(kf_shard_name_dims(s, t->fields, t->order, t->dims, err));
  KF_TRY(begin_copy(t, &s->in, err));
  return copy(t, err);
}

static kf_status open_labels(table *t, const kf_data_options *o, kf_err *err) {
  kf_shard *s = t->shard;
  kf_labels *labels = &s->labels;
  s->guessed = o->label_column == NULL;
  snprintf(s->label_column, sizeof s->label_column, "%.63s", t->fields[t->label].name);
  KF_TRY(begin_copy(t, &labels->own, err));
  KF_TRY(copy_labels(t, err));
  labels->in = &labels->own;
  labels->kind = KF_LABELS_TABLE;
  return kf_labels_open_table(labels, "1", s->table.rows, err);
}

static kf_status list_columns(table *t, kf_columns *out, kf_err *err) {
  kf_csv_start(&t->csv, t->in, kf_table_separator(t->in->path), (kf_mark){0});
  KF_TRY(read_header(t, err));
  KF_TAKE(&t->arena, out->names, t->n);
  KF_TAKE(&t->arena, out->types, t->n);
  if (t->arena.failed) return kf_fail_memory(err);
  out->n = t->n;
  for (size_t i = 0; i < t->n; i++) {
    out->names[i] = t->fields[i].name;
    out->types[i] = t->fields[i].type;
  }
  return KF_OK;
}

kf_status kf_csv_columns(const char *path, kf_columns *out, kf_err *err) {
  kf_in in;
  table *t = kf_alloc_zero(1, sizeof *t);
  if (t == NULL) return kf_fail_memory(err);
  t->in = &in;
  kf_status status = kf_in_open(&in, path, err);
  if (status == KF_OK) status = list_columns(t, out, err);
  kf_in_close(&in);
  out->arena = t->arena; /* has the names */
  kf_free(t->fields);
  kf_free(t);
  return status;
}

kf_status kf_csv_open_rows(kf_shard *shard, const char *path, const kf_data_options *options,
                           kf_err *err) {
  kf_in in;
  table *t = kf_alloc_zero(1, sizeof *t);
  if (t == NULL) return kf_fail_memory(err);
  *t = (table){.shard = shard, .in = &in};
  kf_status status = kf_in_open(&in, path, err);
  if (status == KF_OK) status = open_rows(t, options, err);
  if (status == KF_OK && t->label != SIZE_MAX) status = open_labels(t, options, err);
  if (status == KF_OK && t->label == SIZE_MAX)
    status = kf_shard_list_columns(shard, t->fields, t->n, err);
  kf_in_close(&in);
  kf_free(t->fields);
  kf_arena_free(&t->arena);
  kf_free(t);
  return status;
}
