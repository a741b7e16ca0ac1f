/* label_text.c - reads text labels in order: lines, a column of a table, or strings of a .npy. */
#include "file/file_internal.h"

#include <inttypes.h>
#include <string.h>

kf_status kf_label_text_start(kf_label_text *text, const kf_labels *labels, uint64_t row,
                              kf_err *err) {
  text->labels = labels;
  text->row = row;
  text->place = 0;
  if (labels->kind == KF_LABELS_STRINGS) {
    text->as.strings.first = row;
    text->as.strings.n = 0;
    return KF_OK;
  }
  size_t step = (size_t)(row / KF_LABEL_STEP);
  bool begin = labels->index == NULL; /* the scan that makes the index */
  kf_mark mark = {0};
  if (!begin) mark = labels->index[step];
  text->row = begin ? 0 : step * KF_LABEL_STEP;
  if (labels->kind == KF_LABELS_LINES) {
    kf_lines_start(&text->as.lines, labels->in, mark);
    return KF_OK;
  }
  kf_csv_start(&text->as.csv, labels->in, labels->separator, mark);
  if (!begin || !labels->header) return KF_OK;
  const char *name;
  size_t length;
  return kf_csv_record(&text->as.csv, labels->columns, labels->column, &name, &length, err);
}

kf_mark kf_label_text_mark(const kf_label_text *text) {
  if (text->labels->kind == KF_LABELS_TABLE) return kf_csv_mark(&text->as.csv);
  return kf_lines_mark(&text->as.lines);
}

/* --- strings ------------------------------------------------------------------------------- */

static kf_status bad_string(const kf_label_text *text, const char *what, kf_err *err) {
  return kf_fail_file(err, text->labels->in->path, "the label of row %" PRIu64 " %s", text->row,
                      what);
}

/* Loads the string of the next row into `raw`, and as many after it as fit. */
static kf_status load_strings(kf_label_text *text, kf_err *err) {
  const kf_labels *labels = text->labels;
  uint64_t first = text->row, left = labels->count - first;
  if (labels->item == 0 || first - text->as.strings.first < text->as.strings.n) return KF_OK;
  uint64_t room = sizeof text->as.strings.raw / labels->item;
  size_t n = (size_t)(left < room ? left : room);
  text->as.strings.n = 0;
  KF_TRY(kf_in_read(labels->in, labels->offset + first * labels->item, text->as.strings.raw,
                    (uint64_t)n * labels->item, err));
  text->as.strings.first = first;
  text->as.strings.n = n;
  return KF_OK;
}

/* Converts UTF-32 to UTF-8. Zeros pad the string, so only zeros may follow one. */
static kf_status read_wide(kf_label_text *text, const unsigned char *raw, size_t *length,
                           kf_err *err) {
  size_t n = text->labels->item / 4, end = 0;
  *length = 0;
  for (size_t i = 0; i < n; i++) {
    uint32_t c;
    memcpy(&c, raw + 4 * i, sizeof c);
    if (c == 0) continue;
    if (end != i) return bad_string(text, "contains a NUL", err);
    if (c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF))
      return bad_string(text, "is not valid UTF-32", err);
    unsigned char bytes[4];
    size_t size = kf_utf8_put(c, bytes);
    memcpy(text->as.strings.text + *length, bytes, size);
    *length += size;
    end = i + 1;
  }
  return KF_OK;
}

static kf_status read_bytes(kf_label_text *text, const unsigned char *raw, size_t *length,
                            kf_err *err) {
  size_t n = text->labels->item;
  while (n > 0 && raw[n - 1] == '\0') n--;
  if (memchr(raw, '\0', n) != NULL) return bad_string(text, "contains a NUL", err);
  if (!kf_utf8_valid((const char *)raw, n)) return bad_string(text, "is not valid UTF-8", err);
  memcpy(text->as.strings.text, raw, n);
  *length = n;
  return KF_OK;
}

static kf_status next_string(kf_label_text *text, const char **label, size_t *length, kf_err *err) {
  *label = NULL;
  if (text->row == text->labels->count) return KF_OK;
  KF_TRY(load_strings(text, err));
  const unsigned char *raw =
      text->as.strings.raw + (text->row - text->as.strings.first) * text->labels->item;
  KF_TRY((text->labels->wide ? read_wide : read_bytes)(text, raw, length, err));
  text->place = text->row;
  *label = text->as.strings.text;
  return KF_OK;
}

/* --- any ----------------------------------------------------------------------------------- */

kf_status kf_label_text_next(kf_label_text *text, const char **label, size_t *length, kf_err *err) {
  const kf_labels *labels = text->labels;
  if (labels->kind == KF_LABELS_STRINGS) {
    KF_TRY(next_string(text, label, length, err));
  } else if (labels->kind == KF_LABELS_TABLE) {
    text->place = text->as.csv.line + 1;
    KF_TRY(kf_csv_record(&text->as.csv, labels->columns, labels->column, label, length, err));
  } else {
    KF_TRY(kf_lines_next(&text->as.lines, label, length, err));
    text->place = text->as.lines.line;
  }
  if (*label != NULL) text->row++;
  return KF_OK;
}
