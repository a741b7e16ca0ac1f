/* csv.c - tables of text, field by field: RFC 4180, separated by commas (.csv) or tabs (.tsv).
 *
 * A field that begins with a quotation mark ends with the next single one; in between, separators
 * and line ends are text, and a doubled mark stands for one. Other fields contain no quotation
 * mark. Lines end in "\n" or "\r\n", the last one possibly in neither. Where the standard gives
 * no meaning, as for text after a closing mark, the file is refused: a wrong guess would move
 * labels to other rows. */
#include "file/file_internal.h"

#include <inttypes.h>
#include <string.h>

enum { END = -1 }; /* end of the file */

void kf_csv_start(kf_csv *csv, const kf_in *in, char separator, kf_mark mark) {
  csv->in = in;
  csv->separator = separator;
  csv->position = mark.offset;
  csv->line = mark.line;
  csv->begin = csv->end = 0;
  csv->inside = csv->silent = false;
}

kf_mark kf_csv_mark(const kf_csv *csv) {
  return (kf_mark){.offset = csv->position - (csv->end - csv->begin), .line = csv->line};
}

static kf_status fill(kf_csv *csv, kf_err *err) {
  uint64_t left = csv->in->size - csv->position;
  size_t n = left < sizeof csv->buffer ? (size_t)left : sizeof csv->buffer;
  csv->begin = csv->end = 0;
  if (n == 0) return KF_OK;
  KF_TRY(kf_in_read(csv->in, csv->position, csv->buffer, n, err));
  bool bom = csv->position == 0 && n >= 3 && memcmp(csv->buffer, "\xEF\xBB\xBF", 3) == 0;
  csv->begin = bom ? 3 : 0;
  csv->position += n;
  csv->end = n;
  return KF_OK;
}

/* Looks at the next byte, or END, without taking it. */
static kf_status peek(kf_csv *csv, int *c, kf_err *err) {
  if (csv->begin == csv->end) KF_TRY(fill(csv, err));
  *c = csv->begin < csv->end ? (unsigned char)csv->buffer[csv->begin] : END;
  return KF_OK;
}

static kf_status add(kf_csv *csv, int c, kf_err *err) {
  if (c == '\0')
    return kf_fail_file(err, csv->in->path,
                        "line %" PRIu64 " contains a NUL byte: this is not a text file",
                        csv->line + 1);
  if (csv->length == KF_LINE_MAX)
    return kf_fail_file(err, csv->in->path, "line %" PRIu64 " has a field of more than %d bytes",
                        csv->line + 1, KF_LINE_MAX);
  if (!csv->silent) csv->text[csv->length] = (char)c;
  csv->length++;
  csv->begin++;
  return KF_OK;
}

/* A quoted field; its opening mark is next. */
static kf_status read_quoted(kf_csv *csv, kf_err *err) {
  uint64_t opened = csv->line + 1;
  csv->begin++;
  for (;;) {
    int c;
    KF_TRY(peek(csv, &c, err));
    if (c == END)
      return kf_fail_file(err, csv->in->path,
                          "the quotation mark in line %" PRIu64 " is not closed", opened);
    if (c == '"') {
      csv->begin++;
      KF_TRY(peek(csv, &c, err));
      if (c != '"') return KF_OK;
    }
    KF_TRY(add(csv, c, err));
    csv->line += c == '\n';
  }
}

static kf_status read_plain(kf_csv *csv, kf_err *err) {
  for (;;) {
    int c;
    KF_TRY(peek(csv, &c, err));
    if (c == END || c == '\n' || c == '\r' || c == csv->separator) return KF_OK;
    if (c == '"')
      return kf_fail_file(err, csv->in->path,
                          "line %" PRIu64 " has a quotation mark inside a field that is not quoted",
                          csv->line + 1);
    KF_TRY(add(csv, c, err));
  }
}

/* Takes the separator or the line end. */
static kf_status end_field(kf_csv *csv, kf_err *err) {
  int c;
  KF_TRY(peek(csv, &c, err));
  csv->inside = c == csv->separator;
  bool carriage = c == '\r';
  if (carriage) {
    csv->begin++;
    KF_TRY(peek(csv, &c, err));
  }
  if (c == END) return KF_OK;
  if (c == '\n' || csv->inside) {
    csv->begin++;
    csv->line += c == '\n';
    return KF_OK;
  }
  return kf_fail_file(err, csv->in->path, "line %" PRIu64 " has %s", csv->line + 1,
                      carriage ? "a carriage return without a line feed"
                               : "text after a closing quotation mark");
}

kf_status kf_csv_field(kf_csv *csv, const char **text, size_t *length, bool *last, kf_err *err) {
  int c;
  *text = NULL;
  *length = 0;
  *last = true;
  KF_TRY(peek(csv, &c, err));
  if (c == END && !csv->inside) return KF_OK;
  csv->length = 0;
  KF_TRY(c == '"' ? read_quoted(csv, err) : read_plain(csv, err));
  KF_TRY(end_field(csv, err));
  *text = csv->text;
  *length = csv->length;
  *last = !csv->inside;
  return KF_OK;
}

kf_status kf_csv_record(kf_csv *csv, size_t columns, size_t column, const char **text,
                        size_t *length, kf_err *err) {
  uint64_t line = csv->line + 1;
  size_t n = 0;
  *text = NULL;
  for (bool last = false; !last; n++) {
    const char *field;
    size_t size;
    csv->silent = n > column;
    kf_status status = kf_csv_field(csv, &field, &size, &last, err);
    csv->silent = false;
    if (status != KF_OK || field == NULL) return status;
    if (n != column) continue;
    *text = field;
    *length = size;
  }
  if (n == columns) return KF_OK;
  return kf_fail_file(err, csv->in->path,
                      "line %" PRIu64 " has %zu field%s, but the first line has %zu", line, n,
                      n == 1 ? "" : "s", columns);
}
