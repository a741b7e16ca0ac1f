/* truth_read.c - reads the right classes of rows from JSON, CSV or text.
 *
 * All three hold entries, each with its classes. Text and CSV are streamed, a JSON file is read
 * whole. The first class of a file decides whether classes are numbers or names, so that a typo in
 * a file of numbers is an error and not a class named 'nan'. */
#include "score/truth.h"

#include <inttypes.h>
#include <string.h>

#define JSON_CAP (64u << 20)

typedef struct reader {
  kf_entries *entries;
  const kf_names *names; /* n = 0: none */
  const char *classes;   /* their file */
  kf_dict *map;          /* of the names */
  const char *unit;      /* what is counted: "line", "entry" */
  uint64_t place;        /* of the current entry */
  uint64_t begin;        /* its first class in the list */
  /* CSV */
  size_t label_column, id_column; /* SIZE_MAX: none */
  kf_string field;
} reader;

static kf_status bad(const reader *r, kf_err *err, const char *reason, const char *text,
                     size_t length) {
  return kf_fail_file(err, r->entries->path, "%s %" PRIu64 ": '%.*s' %s", r->unit, r->place,
                      (int)(length < 64 ? length : 64), text, reason);
}

static kf_status no_class(const reader *r, kf_err *err, const char *text, size_t length) {
  char reason[KF_WHERE_SIZE];
  snprintf(reason, sizeof reason, "is not a class of %s", r->classes);
  return bad(r, err, reason, text, length);
}

/* --- classes ---------------------------------------------------------------------------------- */

static bool looks_like_number(const char *text, size_t length) {
  size_t sign = length > 1 && *text == '-';
  uint64_t value;
  return kf_read_digits(text + sign, length - sign, UINT32_MAX, &value);
}

static kf_status read_number(const reader *r, const char *text, size_t length, int32_t *out,
                             kf_err *err) {
  uint32_t most = r->names->n > 0 ? r->names->n : KF_MAX_CLASSES;
  uint64_t value;
  if (!looks_like_number(text, length))
    return bad(r, err, "is not a class number, but the classes before it are", text, length);
  if (!kf_read_digits(text, length, most, &value))
    return bad(r, err, "is negative: class numbers begin at 0", text, length);
  if (value < most) {
    *out = (int32_t)value;
    return KF_OK;
  }
  if (r->names->n == 0) return bad(r, err, "is too large for a class number", text, length);
  return no_class(r, err, text, length);
}

static kf_status read_name(reader *r, const char *text, size_t length, int32_t *out, kf_err *err) {
  kf_entries *e = r->entries;
  if (r->names->n == 0)
    return kf_name_set_number(&e->found, e->path, r->place, text, length, out, err);
  *out = (int32_t)kf_dict_find(r->map, text, length);
  return *out >= 0 ? KF_OK : no_class(r, err, text, length);
}

/* Adds a class to the current entry, once. */
static kf_status add_class(reader *r, const char *text, size_t length, kf_err *err) {
  kf_entries *e = r->entries;
  if (e->kind == KF_CLASSES_UNKNOWN)
    e->kind = looks_like_number(text, length) ? KF_CLASSES_NUMBERS : KF_CLASSES_NAMES;
  int32_t class = -1;
  KF_TRY(e->kind == KF_CLASSES_NUMBERS ? read_number(r, text, length, &class, err)
                                       : read_name(r, text, length, &class, err));
  for (size_t i = r->begin; i < e->n_classes; i++)
    if (e->classes[i] == class) return KF_OK;
  if (!kf_grow((void **)&e->classes, &e->classes_room, e->n_classes, sizeof *e->classes))
    return kf_fail_memory(err);
  e->classes[e->n_classes++] = class;
  if (class > e->largest) e->largest = class;
  return KF_OK;
}

/* "970, 795": every part is a class, without the spaces around it. A trailing separator is
 * allowed. */
static kf_status add_classes(reader *r, const char *text, size_t length, char separator,
                             kf_err *err) {
  for (size_t at = 0; at < length;) {
    const char *stop = memchr(text + at, separator, length - at);
    size_t end = stop != NULL ? (size_t)(stop - text) : length, next = end + 1;
    while (at < end && text[at] == ' ') at++;
    while (end > at && text[end - 1] == ' ') end--;
    if (end == at && next < length)
      return bad(r, err, "has an empty class between two separators", text, length);
    if (end > at) KF_TRY(add_class(r, text + at, end - at, err));
    at = next;
  }
  return KF_OK;
}

/* --- entries ---------------------------------------------------------------------------------- */

static void begin_entry(reader *r, uint64_t place) {
  r->place = place;
  r->begin = r->entries->n_classes;
}

static kf_status end_entry(reader *r, kf_err *err) {
  kf_entries *e = r->entries;
  if (e->n == UINT32_MAX) /* ids are mapped to 32-bit numbers */
    return kf_fail_file(err, e->path, "has more than %u entries", UINT32_MAX);
  if (!kf_grow((void **)&e->ends, &e->ends_room, e->n, sizeof *e->ends)) return kf_fail_memory(err);
  e->ends[e->n++] = e->n_classes;
  return KF_OK;
}

/* --- text ------------------------------------------------------------------------------------- */

static kf_status text_line(void *argument, uint64_t line, const char *text, size_t length,
                           kf_err *err) {
  reader *r = argument;
  begin_entry(r, line);
  KF_TRY(add_classes(r, text, length, memchr(text, '\t', length) != NULL ? '\t' : ',', err));
  return end_entry(r, err);
}

/* --- CSV -------------------------------------------------------------------------------------- */

/* Reads the field at *at into r->field and moves past it and its comma. */
static kf_status next_field(reader *r, const char *text, size_t length, size_t *at, kf_err *err) {
  r->field.n = 0;
  kf_string_add(&r->field, "", 0);
  size_t i = *at;
  bool quoted = i < length && text[i] == '"';
  if (quoted) {
    for (i++;; i++) {
      if (i >= length) return bad(r, err, "has a quotation mark that is not closed", text, length);
      if (text[i] == '"' && (i + 1 >= length || text[i + 1] != '"')) break;
      i += text[i] == '"'; /* a doubled one means one */
      kf_string_add(&r->field, text + i, 1);
    }
    i++;
  }
  for (; !quoted && i < length && text[i] != ','; i++) kf_string_add(&r->field, text + i, 1);
  if (i < length && text[i] != ',')
    return bad(r, err, "has text after a quoted field", text, length);
  *at = i + 1;
  return r->field.failed ? kf_fail_memory(err) : KF_OK;
}

/* The column of classes may have one of several names; the first of these counts. */
static kf_status csv_header(reader *r, const char *text, size_t length, kf_err *err) {
  static const char *const names[] = {"proposed_labels", "labels", "label"};
  size_t best = 3;
  r->label_column = r->id_column = SIZE_MAX;
  r->place = 1;
  size_t column = 0;
  for (size_t at = 0; at <= length; column++) {
    KF_TRY(next_field(r, text, length, &at, err));
    if (strcmp(r->field.data, "id") == 0) r->id_column = column;
    for (size_t i = 0; i < best; i++)
      if (strcmp(r->field.data, names[i]) == 0) {
        best = i;
        r->label_column = column;
      }
  }
  if (r->label_column == SIZE_MAX)
    return kf_fail_file(err, r->entries->path,
                        "the header line has no column 'proposed_labels', 'labels' or 'label'");
  r->entries->has_ids = r->id_column != SIZE_MAX;
  return KF_OK;
}

static kf_status add_id(reader *r, kf_err *err) {
  kf_entries *e = r->entries;
  const char *text = r->field.data;
  size_t length = r->field.n;
  kf_id_without_folder(&text, &length);
  kf_id_without_extension(text, &length);
  if (length == 0) return kf_fail_file(err, e->path, "line %" PRIu64 " has no id", r->place);
  kf_string_add(&e->ids, text, length);
  if (e->ids.failed || !kf_grow((void **)&e->id_ends, &e->id_ends_room, e->n, sizeof *e->id_ends))
    return kf_fail_memory(err);
  e->id_ends[e->n] = e->ids.n;
  return KF_OK;
}

static kf_status csv_line(void *argument, uint64_t line, const char *text, size_t length,
                          kf_err *err) {
  reader *r = argument;
  if (line == 1) return csv_header(r, text, length, err);
  begin_entry(r, line);
  size_t column = 0;
  for (size_t at = 0; at <= length; column++) {
    KF_TRY(next_field(r, text, length, &at, err));
    if (column == r->id_column) KF_TRY(add_id(r, err));
    if (column == r->label_column) KF_TRY(add_classes(r, r->field.data, r->field.n, ',', err));
  }
  size_t needed = r->label_column;
  if (r->id_column != SIZE_MAX && r->id_column > needed) needed = r->id_column;
  if (column <= needed)
    return kf_fail_file(err, r->entries->path,
                        "line %" PRIu64 " has %zu fields, but the header needs %zu", line, column,
                        needed + 1);
  return end_entry(r, err);
}

/* --- JSON ------------------------------------------------------------------------------------- */

/* The text of a number is followed by the rest of the file, so its length has to be found. */
static kf_status json_class(reader *r, const kf_json *node, kf_err *err) {
  kf_entries *e = r->entries;
  const char *text = node->text;
  bool number = node->kind == KF_JSON_NUMBER;
  if (!number && node->kind != KF_JSON_STRING)
    return kf_fail_file(err, e->path, "entry %" PRIu64 " holds something other than classes",
                        r->place);
  size_t length = number ? strspn(text, "+-.eE0123456789") : strlen(text);
  if (number && !looks_like_number(text, length))
    return bad(r, err, "is not a whole number", text, length);
  if (e->kind == KF_CLASSES_UNKNOWN) e->kind = number ? KF_CLASSES_NUMBERS : KF_CLASSES_NAMES;
  if (number != (e->kind == KF_CLASSES_NUMBERS))
    return bad(r, err,
               number ? "is a number, but the classes before it are names"
                      : "is a name, but the classes before it are numbers",
               text, length);
  if (length == 0) return bad(r, err, "is not a class", text, length);
  return add_class(r, text, length, err);
}

static kf_status json_entries(reader *r, const kf_json_doc *doc, kf_err *err) {
  if (doc->nodes[0].kind != KF_JSON_LIST)
    return kf_fail_file(err, r->entries->path, "this is not a list of lists of classes");
  uint64_t place = 0;
  for (const kf_json *list = kf_json_first(doc, doc->nodes); list != NULL;
       list = kf_json_next(doc, list)) {
    begin_entry(r, place++);
    if (list->kind != KF_JSON_LIST)
      return kf_fail_file(err, r->entries->path, "entry %" PRIu64 " is not a list of classes",
                          r->place);
    for (const kf_json *node = kf_json_first(doc, list); node != NULL;
         node = kf_json_next(doc, node))
      KF_TRY(json_class(r, node, err));
    KF_TRY(end_entry(r, err));
  }
  return KF_OK;
}

static kf_status read_json(reader *r, kf_err *err) {
  kf_json_doc doc;
  KF_TRY(kf_json_load(r->entries->path, JSON_CAP, &doc, err));
  kf_status status = json_entries(r, &doc, err);
  kf_json_clear(&doc);
  return status;
}

/* --- a file ----------------------------------------------------------------------------------- */

static kf_status read_file(reader *r, kf_err *err) {
  kf_entries *e = r->entries;
  e->numbered = kf_ends_with(e->path, ".json");
  kf_line_fn use = kf_ends_with(e->path, ".csv") ? csv_line : text_line;
  r->unit = e->numbered ? "entry" : "line";
  if (r->names->n > 0) KF_TRY(kf_dict_new_from_names(r->names, r->classes, &r->map, err));
  KF_TRY(e->numbered ? read_json(r, err) : kf_lines_read(e->path, use, r, err));
  return e->n > 0 ? KF_OK : kf_fail_file(err, e->path, "the file has no entries");
}

kf_status kf_entries_read(kf_entries *entries, const char *path, const kf_names *names,
                          const char *classes, kf_err *err) {
  *entries = (kf_entries){.path = path, .largest = -1};
  reader r = {.entries = entries, .names = names, .classes = classes};
  kf_status status = read_file(&r, err);
  kf_dict_free(r.map);
  kf_string_clear(&r.field);
  return status;
}

void kf_entries_clear(kf_entries *entries) {
  kf_free(entries->ends);
  kf_free(entries->classes);
  kf_free(entries->id_ends);
  kf_string_clear(&entries->ids);
  kf_name_set_clear(&entries->found);
  *entries = (kf_entries){0};
}
