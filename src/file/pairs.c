/* pairs.c - two columns of a .csv or .tsv, such as file names and their labels.
 *
 * A column is looked up in the first line by the name that is asked for, or else by the names that
 * people give it. Of two columns, one that is found says which the other is. If no column is found
 * by name, the first line may be a header or a pair, which only the caller can tell. */
#include "file/file_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define NONE SIZE_MAX

typedef struct column {
  const char *asked; /* a name, or a number from 1; NULL: a usual name */
  const char *what;  /* for messages */
  kf_hint hint;
  const char *usual[10]; /* NULL-terminated, the likeliest first */
  size_t place;          /* of the usual name that was found */
  size_t at;             /* NONE: not found */
  bool named;            /* found by its name, in a header */
  size_t matches;
  kf_string text; /* of the current line */
} column;

typedef struct pairs {
  const char *path;
  column columns[2];
  size_t n; /* columns of the table */
  kf_csv csv;
} pairs;

/* The number from 1 that a column is asked for by; 0: by name, or not at all. */
static size_t number_of(const column *c) {
  bool digits = c->asked != NULL && strspn(c->asked, "0123456789") == strlen(c->asked);
  return digits ? strtoul(c->asked, NULL, 10) : 0;
}

static void look_at(column *c, size_t at, const char *text, size_t length) {
  size_t number = number_of(c);
  if (c->asked != NULL) {
    bool name = strlen(c->asked) == length && memcmp(c->asked, text, length) == 0;
    if (number > 0 ? number != at + 1 : !name) return;
    c->at = at;
    c->named = number == 0;
    c->matches++;
    return;
  }
  for (size_t i = 0; i < c->place && c->usual[i] != NULL; i++)
    if (strlen(c->usual[i]) == length && strncasecmp(c->usual[i], text, length) == 0) {
      c->place = i;
      c->at = at;
      c->named = true;
    }
}

static kf_status fail_column(const pairs *p, const column *c, const char *list, kf_err *err) {
  if (c->matches > 1)
    return kf_fail_file(err, p->path, "there is more than one column '%.64s'; the first line is %s",
                        c->asked, list);
  if (c->asked != NULL)
    return kf_fail_file(err, p->path, "there is no column '%.64s'; the first line is %s", c->asked,
                        list);
  return kf_fail_hint(err, KF_ERR_DATA, c->hint,
                      "%s: no column is known to hold %s, as '%s' or '%s' would be; the first line "
                      "is %s%s",
                      p->path, c->what, c->usual[0], c->usual[1], list,
                      p->n > 1 ? ""
                               : ", a single column: commas separate those of a .csv, tabs "
                                 "those of a .tsv");
}

/* Reads the first line. list: gets its fields, for messages. */
static kf_status find_columns(pairs *p, kf_string *list, kf_err *err) {
  enum { LISTED = 40 };
  column *c = p->columns;
  for (bool last = false; !last; p->n++) {
    const char *text;
    size_t length;
    KF_TRY(kf_csv_field(&p->csv, &text, &length, &last, err));
    if (text == NULL) return kf_fail_file(err, p->path, "the table has no lines");
    if (p->n < LISTED)
      kf_string_addf(list, "%s'%.*s'", p->n > 0 ? ", " : "",
                     (int)kf_utf8_prefix(text, length < 40 ? length : 40), text);
    for (size_t i = 0; i < 2; i++) look_at(&c[i], p->n, text, length);
  }
  if (list->failed) return kf_fail_memory(err);
  for (size_t i = 0; i < 2; i++)
    if (p->n == 2 && c[i].asked == NULL && c[i].at == NONE && c[1 - i].at != NONE)
      c[i].at = 1 - c[1 - i].at;
  for (size_t i = 0; i < 2; i++)
    if (c[i].at == NONE || c[i].matches > 1) return fail_column(p, &c[i], list->data, err);
  if (c[0].at != c[1].at) return KF_OK;
  return kf_fail_file(err, p->path, "column %zu cannot hold both %s and %s; the first line is %s",
                      c[0].at + 1, c[0].what, c[1].what, list->data);
}

/* Reads a line; *end: there was none. */
static kf_status read_line(pairs *p, bool *end, kf_err *err) {
  uint64_t line = p->csv.line + 1;
  size_t n = 0;
  for (bool last = false; !last; n++) {
    const char *text;
    size_t length;
    KF_TRY(kf_csv_field(&p->csv, &text, &length, &last, err));
    *end = text == NULL;
    if (*end) return KF_OK;
    for (size_t i = 0; i < 2; i++) {
      column *c = &p->columns[i];
      if (c->at != n) continue;
      c->text.n = 0;
      kf_string_add(&c->text, text, length);
      if (c->text.failed) return kf_fail_memory(err);
      if (length == 0 || !kf_utf8_valid(text, length))
        return kf_fail_file(err, p->path, "line %" PRIu64 ": the field %s%s is %s", line,
                            c->asked != NULL ? "of column " : "for ",
                            c->asked != NULL ? c->asked : c->what,
                            length == 0 ? "empty" : "not valid UTF-8");
    }
  }
  if (n == p->n) return KF_OK;
  return kf_fail_file(err, p->path, "line %" PRIu64 " has %zu field%s, but the first line has %zu",
                      line, n, n == 1 ? "" : "s", p->n);
}

static kf_status read_pairs(pairs *p, const kf_in *in, kf_string *list, kf_pair_fn use,
                            void *argument, kf_err *err) {
  char separator = kf_ends_with(p->path, ".tsv") ? '\t' : ',';
  column *c = p->columns;
  kf_csv_start(&p->csv, in, separator, (kf_mark){0});
  KF_TRY(find_columns(p, list, err));
  bool end = false;
  if (!c[0].named && !c[1].named) kf_csv_start(&p->csv, in, separator, (kf_mark){0});
  for (;;) {
    uint64_t line = p->csv.line + 1;
    KF_TRY(read_line(p, &end, err));
    if (end) return KF_OK;
    KF_TRY(use(argument, line, c[0].text.data, c[1].text.data, err));
  }
}

kf_status kf_table_each_pair(const char *path, const char *id_column, const char *label_column,
                             kf_pair_fn use, void *argument, kf_err *err) {
  kf_in in;
  kf_string list = {0};
  KF_TRY(kf_in_open(&in, path, err));
  pairs *p = kf_alloc_zero(1, sizeof *p);
  kf_status status = p != NULL ? KF_OK : kf_fail_memory(err);
  if (status == KF_OK) {
    p->path = path;
    p->columns[0] = (column){.asked = id_column,
                             .what = "file names",
                             .hint = KF_HINT_ID_COLUMN,
                             .usual = {"filename", "file_name", "path", "filepath", "file", "image",
                                       "picture", "image_id", "id"},
                             .place = NONE,
                             .at = NONE};
    p->columns[1] = (column){.asked = label_column,
                             .what = "labels",
                             .hint = KF_HINT_LABEL_COLUMN,
                             .usual = {"label", "class", "labels", "class_name", "category",
                                       "target", "classes", "targets", "y"},
                             .place = NONE,
                             .at = NONE};
    status = read_pairs(p, &in, &list, use, argument, err);
    for (size_t i = 0; i < 2; i++) kf_string_clear(&p->columns[i].text);
  }
  kf_free(p);
  kf_string_clear(&list);
  kf_in_close(&in);
  return status;
}
