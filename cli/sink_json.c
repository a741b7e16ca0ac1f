/* sink_json.c - writes JSON, one document per line. */
#include "sink.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The code point of the character in text[0 … n). */
static uint32_t character(const char *text, size_t n) {
  uint32_t c = (unsigned char)text[0];
  if (n > 1) c &= 0x7fu >> n;
  for (size_t i = 1; i < n; i++) c = c << 6 | ((unsigned char)text[i] & 63u);
  return c;
}

/* Escapes what a terminal might obey as well: JSON has a form for every character. */
static void print_hidden(FILE *file, const char *text, size_t n) {
  static const char names[] = "\bb\ff\nn\rr\tt"; /* character, letter after the backslash */
  const char *name = n == 1 ? strchr(names, *text) : NULL;
  uint32_t c = character(text, n);
  if (name && (name - names) % 2 == 0)
    fprintf(file, "\\%c", name[1]);
  else if (n == 1 && c >= 0x80) /* class names may be any bytes, but JSON is UTF-8 */
    fputs("\\ufffd", file);
  else if (c < 0x10000)
    fprintf(file, "\\u%04x", (unsigned)c);
  else
    fprintf(file, "\\u%04x\\u%04x", (unsigned)(0xd7c0 + (c >> 10)),
            (unsigned)(0xdc00 | (c & 0x3ff)));
}

static void print_string(FILE *file, const char *text) {
  char piece[KF_SHOWN_SIZE];
  putc('"', file);
  for (size_t at = 0, n; text[at];) {
    const char *c = text + at;
    kf_escape_next(text, &at, piece);
    n = (size_t)(text + at - c);
    if (*c == '"' || *c == '\\') putc('\\', file);
    if (strlen(piece) == n && memcmp(piece, c, n) == 0)
      fputs(piece, file);
    else
      print_hidden(file, c, n);
  }
  putc('"', file);
}

static void put_key(cli_json *j, const char *key) {
  if (j->comma) fputs(", ", j->file);
  j->comma = 1;
  if (!key) return;
  print_string(j->file, key);
  fputs(": ", j->file);
}

cli_json jw_begin(FILE *file) {
  cli_json j = {file, 0};
  jw_open(&j, NULL, '{');
  return j;
}

void jw_open(cli_json *j, const char *key, char bracket) {
  put_key(j, key);
  putc(bracket, j->file);
  j->comma = 0;
}

void jw_close(cli_json *j, const char *brackets) {
  fputs(brackets, j->file);
  j->comma = 1;
}

void jw_text(cli_json *j, const char *key, const char *value) {
  if (!value) {
    jw_null(j, key);
    return;
  }
  put_key(j, key);
  print_string(j->file, value);
}

void jw_count(cli_json *j, const char *key, uint64_t value) {
  put_key(j, key);
  fprintf(j->file, "%llu", (unsigned long long)value);
}

void jw_count_if(cli_json *j, const char *key, uint64_t value, int known) {
  if (known)
    jw_count(j, key, value);
  else
    jw_null(j, key);
}

void jw_number(cli_json *j, const char *key, int64_t value) {
  put_key(j, key);
  fprintf(j->file, "%lld", (long long)value);
}

/* The shortest digits that read back as the same double. */
void jw_real(cli_json *j, const char *key, double value) {
  if (!isfinite(value)) {
    jw_null(j, key);
    return;
  }
  char digits[40];
  for (int precision = 1; precision <= 17; precision++) {
    snprintf(digits, sizeof digits, "%.*g", precision, value);
    double back = strtod(digits, NULL);
    if (back <= value && back >= value) break;
  }
  put_key(j, key);
  fputs(digits, j->file);
}

void jw_reals(cli_json *j, const char *key, const double *values, size_t n) {
  jw_open(j, key, '[');
  for (size_t i = 0; i < n; i++) jw_real(j, NULL, values[i]);
  jw_close(j, "]");
}

void jw_flag(cli_json *j, const char *key, int value) {
  put_key(j, key);
  fputs(value ? "true" : "false", j->file);
}

void jw_null(cli_json *j, const char *key) {
  put_key(j, key);
  fputs("null", j->file);
}

void jw_class(cli_json *j, const char *key, const char *name, int32_t number) {
  if (name)
    jw_text(j, key, name);
  else
    jw_number(j, key, number);
}

void jw_end(cli_json *j) {
  fputs("}\n", j->file);
  j->comma = 0;
}
