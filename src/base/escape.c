/* escape.c - shows text that may hold anything on terminals, in logs and in tables.
 *
 * A name from a file may move a terminal's cursor, recolour text or reverse the rest of a line. So
 * whatever is not plainly visible is written as an escape that says what it was:
 *
 *     \t \n \r    these three
 *     \x1b        another ASCII control, U+0000 to U+001F and U+007F
 *     \xff        a byte that is not part of valid UTF-8; always 80 or above
 *     \u{202e}    a control above ASCII (U+0080 to U+009F), a format character (category Cf: marks
 *                 that set the direction of text, characters without width), U+2028 or U+2029
 *
 * The joiners U+200C and U+200D are kept between two visible non-ASCII characters: Persian and
 * Indic words and composed emoji need them. */
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

bool kf_is_hidden(uint32_t c) {
  /* Unicode 15, categories Cc, Cf, Zl and Zp. */
  static const uint32_t ranges[][2] = {
      {0x0, 0x1F},        {0x7F, 0x9F},       {0xAD, 0xAD},       {0x600, 0x605},
      {0x61C, 0x61C},     {0x6DD, 0x6DD},     {0x70F, 0x70F},     {0x890, 0x891},
      {0x8E2, 0x8E2},     {0x180E, 0x180E},   {0x200B, 0x200F},   {0x2028, 0x202E},
      {0x2060, 0x206F},   {0xFEFF, 0xFEFF},   {0xFFF9, 0xFFFB},   {0x110BD, 0x110BD},
      {0x110CD, 0x110CD}, {0x13430, 0x1343F}, {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A},
      {0xE0001, 0xE0001}, {0xE0020, 0xE007F},
  };
  if (c >= ' ' && c < 0x7F) return false;
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
    if (c >= ranges[i][0] && c <= ranges[i][1]) return true;
  return false;
}

/* The length of the valid character at the start of a NUL-terminated text; 0: there is none. */
static size_t valid_length(const char *text) {
  size_t left = strnlen(text, 4);
  for (size_t n = 1; n <= left; n++)
    if (kf_utf8_valid(text, n)) return n;
  return 0;
}

/* Whether text starts with a visible non-ASCII character. */
static bool is_visible_letter(const char *text) {
  size_t at = 0;
  return (unsigned char)*text >= 0x80 && valid_length(text) > 0 &&
         !kf_is_hidden(kf_utf8_next(text, &at));
}

/* Whether the joiner at text[at] stands between two such characters. */
static bool joins(const char *text, size_t at) {
  if (at == 0 || !is_visible_letter(text + at + 3)) return false;
  size_t before = at - 1;
  while (before > 0 && at - before < 4 && ((unsigned char)text[before] & 0xC0) == 0x80) before--;
  return before + valid_length(text + before) == at && is_visible_letter(text + before);
}

static size_t show_ascii(char c, char shown[KF_SHOWN_SIZE]) {
  static const char names[] = "\tt\nn\rr"; /* character, letter after the backslash */
  for (const char *name = names; *name != '\0'; name += 2)
    if (*name == c) return (size_t)snprintf(shown, KF_SHOWN_SIZE, "\\%c", name[1]);
  return (size_t)snprintf(shown, KF_SHOWN_SIZE, "\\x%02x", (unsigned char)c);
}

size_t kf_escape_next(const char *text, size_t *at, char shown[KF_SHOWN_SIZE]) {
  const char *begin = text + *at;
  shown[0] = '\0';
  if (*begin == '\0') return 0;
  size_t n = valid_length(begin), here = *at, after = here;
  *at += n > 0 ? n : 1;
  if (n == 0) return show_ascii(*begin, shown);
  uint32_t c = kf_utf8_next(text, &after);
  bool joiner = c == 0x200C || c == 0x200D;
  if (kf_is_hidden(c) && !(joiner && joins(text, here)))
    return c < 0x80 ? show_ascii((char)c, shown)
                    : (size_t)snprintf(shown, KF_SHOWN_SIZE, "\\u{%x}", (unsigned)c);
  memcpy(shown, begin, n);
  shown[n] = '\0';
  return n;
}

void kf_escape_message(const char *text, char *out, size_t size) {
  char shown[KF_SHOWN_SIZE];
  size_t used = 0;
  for (size_t at = 0, n; (n = kf_escape_next(text, &at, shown)) > 0 && used + n < size; used += n)
    memcpy(out + used, shown, n);
  out[used] = '\0';
}

/* --- undoing escapes -------------------------------------------------------------------------- */

/* Parses "{202e}" into the character; returns its length, or 0 if it is something else. */
static size_t read_braces(const char *text, size_t length, uint32_t *c) {
  *c = 0;
  if (length < 3 || text[0] != '{') return 0;
  size_t i = 1;
  for (; i < length && i <= 6 && text[i] != '}'; i++) {
    const char *digits = "0123456789abcdef", *digit = strchr(digits, text[i]);
    if (text[i] == '\0' || digit == NULL) return 0;
    *c = *c << 4 | (uint32_t)(digit - digits);
  }
  bool sound = i > 1 && i < length && text[i] == '}' && *c <= 0x10FFFF && *c >> 11 != 0x1B;
  return sound ? i + 1 : 0;
}

/* Appends what the escape at text[0], a backslash, stands for; returns the escape's length. */
static size_t unescape_one(const char *text, size_t length, kf_string *out) {
  static const char from[] = "tnr\\", into[] = "\t\n\r\\";
  const char *known = length > 1 && text[1] != '\0' ? strchr(from, text[1]) : NULL;
  if (known != NULL) {
    kf_string_add(out, &into[known - from], 1);
    return 2;
  }
  if (length > 3 && text[1] == 'x') {
    char digits[3] = {text[2], text[3], '\0'}, c = (char)strtol(digits, NULL, 16);
    kf_string_add(out, &c, 1);
    return 4;
  }
  uint32_t c;
  size_t n = length > 2 && text[1] == 'u' ? read_braces(text + 2, length - 2, &c) : 0;
  unsigned char bytes[4];
  if (n > 0)
    kf_string_add(out, (char *)bytes, kf_utf8_put(c, bytes));
  else
    kf_string_add(out, text, 1);
  return n > 0 ? 2 + n : 1;
}

void kf_unescape(const char *text, size_t length, kf_string *out) {
  out->n = 0;
  kf_string_add(out, "", 0);
  for (size_t at = 0; at < length;) {
    const char *backslash = memchr(text + at, '\\', length - at);
    size_t plain = backslash != NULL ? (size_t)(backslash - text) - at : length - at;
    kf_string_add(out, text + at, plain);
    at += plain;
    if (at < length) at += unescape_one(text + at, length - at, out);
  }
}
