/* json.c - writes JSON, one document per line. */
#include "json.h"

#include <math.h>
#include <stdlib.h>

/* Length of the UTF-8 character at p (RFC 3629), a NUL-terminated string; 0: it is invalid. */
static int utf8_length(const unsigned char *p) {
  if (p[0] < 0x80) return 1;
  if (p[0] < 0xc2 || p[0] > 0xf4) return 0;
  int length = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
  unsigned char low = 0x80, high = 0xbf; /* of the second byte */
  if (p[0] == 0xe0) low = 0xa0;          /* no overlong forms, */
  if (p[0] == 0xf0) low = 0x90;
  if (p[0] == 0xed) high = 0x9f; /* no surrogates, */
  if (p[0] == 0xf4) high = 0x8f; /* nothing above U+10FFFF */
  if (p[1] < low || p[1] > high) return 0;
  for (int i = 2; i < length; i++)
    if (p[i] < 0x80 || p[i] > 0xbf) return 0;
  return length;
}

static void print_string(FILE *file, const char *text) {
  static const char names[] = "\"\"\\\\\bb\ff\nn\rr\tt"; /* character, letter after the backslash */
  putc('"', file);
  for (const unsigned char *p = (const unsigned char *)text; *p;) {
    int length = utf8_length(p);
    const char *name = names;
    while (*name && (unsigned char)*name != *p) name += 2;
    if (*name)
      fprintf(file, "\\%c", name[1]);
    else if (*p < 0x20 || *p == 0x7f)
      fprintf(file, "\\u%04x", *p);
    else if (length == 0) /* class names may be any bytes, JSON may not */
      fputs("\\ufffd", file);
    else
      fwrite(p, 1, (size_t)length, file);
    p += length ? length : 1;
  }
  putc('"', file);
}

/* What comes before a value. */
static void begin(cli_json *j, const char *key) {
  if (j->comma) fputs(", ", j->file);
  j->comma = 1;
  if (!key) return;
  print_string(j->file, key);
  fputs(": ", j->file);
}

void jw_open(cli_json *j, const char *key, char bracket) {
  begin(j, key);
  putc(bracket, j->file);
  j->comma = 0;
}

void jw_close(cli_json *j, char bracket) {
  putc(bracket, j->file);
  j->comma = 1;
}

void jw_text(cli_json *j, const char *key, const char *value) {
  if (!value) {
    jw_null(j, key);
    return;
  }
  begin(j, key);
  print_string(j->file, value);
}

void jw_count(cli_json *j, const char *key, uint64_t value) {
  begin(j, key);
  fprintf(j->file, "%llu", (unsigned long long)value);
}

void jw_count_if(cli_json *j, const char *key, uint64_t value, int known) {
  if (known)
    jw_count(j, key, value);
  else
    jw_null(j, key);
}

void jw_number(cli_json *j, const char *key, int64_t value) {
  begin(j, key);
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
  begin(j, key);
  fputs(digits, j->file);
}

void jw_flag(cli_json *j, const char *key, int value) {
  begin(j, key);
  fputs(value ? "true" : "false", j->file);
}

void jw_null(cli_json *j, const char *key) {
  begin(j, key);
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
