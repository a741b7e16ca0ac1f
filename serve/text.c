/* text.c - text in a growing buffer, within the memory budget of its request. */
#include "text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool has_room(sv_text *t, size_t n) {
  if (t->failed) return false;
  if (n <= t->room - t->n) return true;
  size_t room = t->room ? t->room : 512;
  while (room - t->n < n) {
    if (room > SIZE_MAX / 2) {
      t->failed = true;
      return false;
    }
    room *= 2;
  }
  char *data = sv_resize(t->arena, t->data, room);
  t->failed = data == NULL;
  if (!data) return false;
  t->data = data;
  t->room = room;
  return true;
}

void sv_put(sv_text *t, const char *bytes, size_t n) {
  if (!has_room(t, n)) return;
  memcpy(t->data + t->n, bytes, n);
  t->n += n;
}

void sv_puts(sv_text *t, const char *string) { sv_put(t, string, strlen(string)); }

void sv_putf(sv_text *t, const char *format, ...) {
  va_list list, again;
  va_start(list, format);
  va_copy(again, list);
  int n = vsnprintf(NULL, 0, format, list);
  va_end(list);
  if (n >= 0 && has_room(t, (size_t)n + 1)) {
    vsnprintf(t->data + t->n, (size_t)n + 1, format, again);
    t->n += (size_t)n;
  }
  va_end(again);
}

void sv_put_word(sv_text *t, const char *word) {
  static const char plain[] =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,+@%";
  if (*word && word[strspn(word, plain)] == '\0') {
    sv_puts(t, word);
    return;
  }
  sv_puts(t, "'");
  for (; *word; word++) *word == '\'' ? sv_puts(t, "'\\''") : sv_put(t, word, 1);
  sv_puts(t, "'");
}

const char *sv_text_string(sv_text *t) {
  sv_put(t, "", 1);
  return t->failed ? NULL : t->data;
}

/* --- JSON ------------------------------------------------------------------------------------- */

/* The length of the UTF-8 character at c, within n bytes; 0: invalid. */
static size_t character(const unsigned char *c, size_t n) {
  size_t length = c[0] < 0x80   ? 1
                  : c[0] < 0xc2 ? 0
                  : c[0] < 0xe0 ? 2
                  : c[0] < 0xf0 ? 3
                  : c[0] < 0xf5 ? 4
                                : 0;
  if (length == 0 || length > n) return 0;
  for (size_t i = 1; i < length; i++)
    if ((c[i] & 0xc0) != 0x80) return 0;
  if (length == 3 && ((c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xed && c[1] > 0x9f))) return 0;
  if (length == 4 && ((c[0] == 0xf0 && c[1] < 0x90) || (c[0] == 0xf4 && c[1] > 0x8f))) return 0;
  return length;
}

static void put_string(sv_text *t, const char *string) {
  const unsigned char *c = (const unsigned char *)string;
  size_t left = strlen(string);
  sv_puts(t, "\"");
  while (left > 0) {
    size_t n = 0, length;
    while (n < left && c[n] >= 0x20 && c[n] < 0x7f && c[n] != '"' && c[n] != '\\') n++;
    sv_put(t, (const char *)c, n);
    c += n;
    left -= n;
    if (left == 0) break;
    length = character(c, left);
    if (length == 0)
      sv_puts(t, "\\ufffd");
    else if (*c == '"' || *c == '\\')
      sv_putf(t, "\\%c", *c);
    else if (*c < 0x20 || *c == 0x7f)
      sv_putf(t, "\\u%04x", *c);
    else
      sv_put(t, (const char *)c, length);
    c += length > 0 ? length : 1;
    left -= length > 0 ? length : 1;
  }
  sv_puts(t, "\"");
}

static void begin(sv_text *t, const char *key) {
  if (t->comma) sv_puts(t, ",");
  t->comma = true;
  if (!key) return;
  put_string(t, key);
  sv_puts(t, ":");
}

void sv_json_open(sv_text *t, const char *key, char bracket) {
  begin(t, key);
  sv_put(t, &bracket, 1);
  t->comma = false;
}

void sv_json_close(sv_text *t, char bracket) {
  sv_put(t, &bracket, 1);
  t->comma = true;
}

void sv_json_string(sv_text *t, const char *key, const char *value) {
  begin(t, key);
  if (value)
    put_string(t, value);
  else
    sv_puts(t, "null");
}

void sv_json_count(sv_text *t, const char *key, uint64_t value) {
  begin(t, key);
  sv_putf(t, "%llu", (unsigned long long)value);
}

void sv_json_int(sv_text *t, const char *key, int64_t value) {
  begin(t, key);
  sv_putf(t, "%lld", (long long)value);
}

void sv_json_real(sv_text *t, const char *key, double value) {
  char digits[40];
  if (!isfinite(value)) {
    sv_json_null(t, key);
    return;
  }
  begin(t, key);
  for (int precision = 15; precision <= 17; precision++) { /* 17 always do */
    snprintf(digits, sizeof digits, "%.*g", precision, value);
    double back = strtod(digits, NULL);
    if (back <= value && back >= value) break;
  }
  sv_puts(t, digits);
}

void sv_json_float(sv_text *t, float value) {
  char digits[40];
  begin(t, NULL);
  int n = snprintf(digits, sizeof digits, isfinite(value) ? "%.9g" : "null", (double)value);
  sv_put(t, digits, (size_t)n);
}

void sv_json_bool(sv_text *t, const char *key, bool value) {
  begin(t, key);
  sv_puts(t, value ? "true" : "false");
}

void sv_json_class(sv_text *t, const char *key, const char *name, int64_t number) {
  char digits[24];
  snprintf(digits, sizeof digits, "%lld", (long long)number);
  sv_json_string(t, key, number < 0 ? NULL : name ? name : digits);
}

void sv_json_null(sv_text *t, const char *key) { sv_json_string(t, key, NULL); }

void sv_json_base64(sv_text *t, const char *key, const void *data, size_t n) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const unsigned char *b = data;
  begin(t, key);
  sv_puts(t, "\"");
  for (size_t i = 0; i < n; i += 3) {
    unsigned second = i + 1 < n ? b[i + 1] : 0, third = i + 2 < n ? b[i + 2] : 0;
    unsigned three = (unsigned)b[i] << 16 | second << 8 | third;
    char four[4] = {digits[three >> 18], digits[three >> 12 & 63],
                    i + 1 < n ? digits[three >> 6 & 63] : '=',
                    i + 2 < n ? digits[three & 63] : '='};
    sv_put(t, four, 4);
  }
  sv_puts(t, "\"");
}
