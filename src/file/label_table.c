/* label_table.c - finds the label column of a .csv or .tsv file, and whether its
 * first line is a header.
 *
 * A column that is asked for by name is looked up in the first line, which then is a header.
 * Otherwise the number of records decides: one more than there are rows means that the first is a
 * header. If the count says that the first line is a label, but it reads like a header, the file is
 * refused: a class called 'label' is nearly always a header and a missing row. */
#include "file/file_internal.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

/* The first record of a table. */
typedef struct header {
  size_t n;       /* fields */
  size_t found;   /* the one with the wanted name */
  size_t matches; /* fields with that name */
  kf_string list; /* the fields, for messages */
  char first[KF_LINE_MAX];
  size_t first_length;
} header;

enum { LISTED = 40 }; /* columns in a message */

char kf_table_separator(const char *path) { return kf_ends_with(path, ".tsv") ? '\t' : ','; }

size_t kf_table_position(const char *column) {
  size_t value = 0;
  for (const char *digit = column; *digit != '\0'; digit++) {
    if (*digit < '0' || *digit > '9') return 0;
    if (value < SIZE_MAX / 16) value = 10 * value + (size_t)(*digit - '0');
  }
  return value;
}

static void list_field(header *h, const char *text, size_t length) {
  if (h->n == LISTED) kf_string_add(&h->list, ", …", 5);
  if (h->n >= LISTED) return;
  if (h->n > 0) kf_string_add(&h->list, ", ", 2);
  kf_string_add(&h->list, "'", 1);
  kf_string_add(&h->list, text, kf_utf8_prefix(text, length < 40 ? length : 40));
  kf_string_add(&h->list, "'", 1);
}

/* Reads the first record. name: the wanted column, or NULL. */
static kf_status read_header(kf_csv *csv, const char *name, header *h, kf_err *err) {
  for (bool last = false; !last; h->n++) {
    const char *text;
    size_t length;
    KF_TRY(kf_csv_field(csv, &text, &length, &last, err));
    if (text == NULL) return kf_fail_file(err, csv->in->path, "the table has no lines");
    list_field(h, text, length);
    if (name == NULL || strlen(name) != length || memcmp(name, text, length) != 0) continue;
    h->found = h->n;
    h->matches++;
  }
  return h->list.failed ? kf_fail_memory(err) : KF_OK;
}

static kf_status find_column(kf_labels *labels, const char *column, const header *h, kf_err *err) {
  const char *path = labels->own.path;
  size_t position = column != NULL ? kf_table_position(column) : 0;
  labels->columns = h->n;
  labels->header = column != NULL && position == 0;
  labels->column = labels->header ? h->found : position > 0 ? position - 1 : 0;
  if (column == NULL && h->n > 1)
    return kf_fail_hint(err, KF_ERR_DATA, KF_HINT_LABEL_COLUMN,
                        "%s: the table has %zu columns, and its first line is %s", path, h->n,
                        h->list.data);
  if (labels->header && h->matches != 1)
    return kf_fail_file(err, path, "%s column '%.64s'; the first line is %s",
                        h->matches == 0 ? "there is no" : "there is more than one", column,
                        h->list.data);
  if (labels->column >= h->n)
    return kf_fail_file(err, path, "there is no column %zu; the first line is %s", position,
                        h->list.data);
  return KF_OK;
}

static bool reads_like_header(const char *text, size_t length) {
  static const char *const words[] = {"label",    "labels", "class",   "classes", "class_name",
                                      "category", "target", "targets", "y"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (strlen(words[i]) == length && strncasecmp(words[i], text, length) == 0) return true;
  return false;
}

/* Decides by the number of records whether the first is a header. Checks that all have the
 * same number of fields. */
static kf_status find_header(kf_labels *labels, kf_csv *csv, header *h, uint64_t rows,
                             kf_err *err) {
  uint64_t records = 0, occurrences = 0;
  kf_csv_start(csv, &labels->own, labels->separator, (kf_mark){0});
  for (;; records++) {
    const char *text;
    size_t length;
    KF_TRY(kf_csv_record(csv, labels->columns, labels->column, &text, &length, err));
    if (text == NULL) break;
    if (records == 0) {
      memcpy(h->first, text, length);
      h->first_length = length;
    }
    occurrences += length == h->first_length && memcmp(text, h->first, length) == 0;
  }
  labels->header = records == rows + 1;
  if (records != rows || rows < 2 || occurrences > 1 ||
      !reads_like_header(h->first, h->first_length))
    return KF_OK;
  return kf_fail_file(err, labels->own.path,
                      "the first line says '%.*s' like a header, but without it there are %" PRIu64
                      " labels for %" PRIu64 " rows",
                      (int)h->first_length, h->first, records - 1, rows);
}

static kf_status open_table(kf_labels *labels, const char *column, uint64_t rows, kf_csv *csv,
                            header *h, kf_err *err) {
  const char *name = column != NULL && kf_table_position(column) == 0 ? column : NULL;
  kf_csv_start(csv, &labels->own, labels->separator, (kf_mark){0});
  KF_TRY(read_header(csv, name, h, err));
  KF_TRY(find_column(labels, column, h, err));
  return labels->header ? KF_OK : find_header(labels, csv, h, rows, err);
}

kf_status kf_labels_open_table(kf_labels *labels, const char *column, uint64_t rows, kf_err *err) {
  kf_csv csv;
  header h = {0};
  labels->separator = kf_table_separator(labels->own.path);
  kf_status status = open_table(labels, column, rows, &csv, &h, err);
  kf_string_clear(&h.list);
  return status;
}

/* --- what is in a table -------------------------------------------------------------------- */

static kf_status describe(const kf_in *in, kf_name_set *columns, uint64_t *records, kf_err *err) {
  kf_csv csv;
  const char *text;
  size_t length, n = 0;
  kf_csv_start(&csv, in, kf_table_separator(in->path), (kf_mark){0});
  for (bool last = false; !last; n++) {
    KF_TRY(kf_csv_field(&csv, &text, &length, &last, err));
    int32_t number;
    if (text != NULL) KF_TRY(kf_name_set_number(columns, in->path, 1, text, length, &number, err));
  }
  for (*records = 0; text != NULL; ++*records)
    KF_TRY(kf_csv_record(&csv, n, 0, &text, &length, err));
  return KF_OK;
}

kf_status kf_table_describe(const char *path, kf_name_set *columns, uint64_t *records,
                            kf_err *err) {
  kf_in in;
  *records = 0;
  KF_TRY(kf_in_open(&in, path, err));
  kf_status status = describe(&in, columns, records, err);
  kf_in_close(&in);
  return status;
}
