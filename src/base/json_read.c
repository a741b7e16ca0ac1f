/* json_read.c - RFC 8259, strictly: no comments, no trailing commas, no NaN, bounded depth.
 *
 * Strings are decoded in place: no escape is shorter than its character, and the closing quotation
 * mark leaves room for the NUL. */
#include "base/json_read.h"
#include "base/text.h"

#include <string.h>

bool kf_json_fail(kf_json_reader *r, const char *wrong) {
  if (r->wrong == NULL) r->wrong = wrong;
  return false;
}

kf_json_reader kf_json_read(char *text, size_t n, unsigned depth) {
  kf_json_reader r = {.begin = text, .at = text, .end = text + n, .most_depth = depth};
  size_t valid = kf_utf8_prefix(text, n);
  if (valid == n) return r;
  r.at += valid;
  kf_json_fail(&r, "bytes that are not UTF-8");
  return r;
}

static void skip_space(kf_json_reader *r) {
  while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r'))
    r->at++;
}

/* The next character; a NUL at the end. */
static char here(const kf_json_reader *r) { return r->at < r->end ? *r->at : '\0'; }

static bool take(kf_json_reader *r, char wanted) {
  skip_space(r);
  if (r->at == r->end || *r->at != wanted) return false;
  r->at++;
  return true;
}

char kf_json_peek(kf_json_reader *r) {
  if (r->wrong != NULL) return 0;
  skip_space(r);
  char c = here(r);
  if (c == '-' || (c >= '0' && c <= '9')) return '0';
  return strchr("{[\"tfn", c) != NULL ? c : 0;
}

bool kf_json_end(kf_json_reader *r) {
  if (r->wrong != NULL) return false;
  skip_space(r);
  return r->at == r->end ? true : kf_json_fail(r, "something follows the end");
}

/* --- objects and lists ------------------------------------------------------------------------ */

bool kf_json_enter(kf_json_reader *r) {
  char kind = kf_json_peek(r);
  if (kind != '{' && kind != '[') return kf_json_fail(r, "an object or a list is expected");
  if (r->depth == r->most_depth) return kf_json_fail(r, "nested too deeply");
  r->at++;
  r->filled &= ~(UINT64_C(1) << r->depth++);
  return true;
}

static bool another(kf_json_reader *r, char bracket, const char *wrong) {
  if (r->wrong != NULL) return false;
  uint64_t bit = UINT64_C(1) << (r->depth - 1);
  if (take(r, bracket)) {
    r->depth--;
    return false;
  }
  if (r->filled & bit && !take(r, ',')) return kf_json_fail(r, wrong);
  r->filled |= bit;
  return true;
}

bool kf_json_item(kf_json_reader *r) { return another(r, ']', "',' or ']' is expected"); }

bool kf_json_key(kf_json_reader *r, char **key) {
  size_t n;
  *key = NULL;
  if (!another(r, '}', "',' or '}' is expected") || !kf_json_text(r, key, &n)) return false;
  return take(r, ':') ? true : kf_json_fail(r, "':' is expected");
}

/* --- strings ---------------------------------------------------------------------------------- */

/* Four hexadecimal digits at `at`, or -1. */
static int hex4(const kf_json_reader *r, const char *at) {
  int value = 0;
  if (r->end - at < 4) return -1;
  for (int i = 0; i < 4; i++) {
    char c = at[i];
    int digit = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

/* After \u: a character, or the first half of a surrogate pair, followed by \u and the second
 * half. */
static bool unicode_escape(kf_json_reader *r, char **to) {
  int code = hex4(r, r->at);
  if (code < 0) return kf_json_fail(r, "\\u needs four hexadecimal digits");
  r->at += 4;
  unsigned full = (unsigned)code;
  if (code >= 0xd800 && code < 0xdc00) {
    bool two = r->end - r->at >= 6 && r->at[0] == '\\' && r->at[1] == 'u';
    int low = two ? hex4(r, r->at + 2) : -1;
    if (low < 0xdc00 || low > 0xdfff) return kf_json_fail(r, "half of a surrogate pair");
    full = 0x10000u + ((unsigned)(code - 0xd800) << 10) + (unsigned)(low - 0xdc00);
    r->at += 6;
  } else if (code >= 0xdc00 && code < 0xe000) {
    return kf_json_fail(r, "half of a surrogate pair");
  }
  if (full == 0) return kf_json_fail(r, "a NUL in a string");
  *to += kf_utf8_put(full, (unsigned char *)*to);
  return true;
}

static bool escape(kf_json_reader *r, char **to) {
  static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
  r->at++; /* the backslash */
  char c = here(r);
  const char *found = c != '\0' ? strchr(from, c) : NULL;
  if (found == NULL && c != 'u') return kf_json_fail(r, "an unknown escape");
  r->at++;
  if (c == 'u') return unicode_escape(r, to);
  *(*to)++ = into[found - from];
  return true;
}

bool kf_json_text(kf_json_reader *r, char **text, size_t *n) {
  *text = NULL;
  *n = 0;
  if (kf_json_peek(r) != '"') return kf_json_fail(r, "a string is expected");
  char *from = ++r->at, *to = from;
  while (r->at < r->end && *r->at != '"') {
    if ((unsigned char)*r->at < 0x20) return kf_json_fail(r, "a control character");
    if (*r->at != '\\')
      *to++ = *r->at++;
    else if (!escape(r, &to))
      return false;
  }
  if (r->at == r->end) return kf_json_fail(r, "an unterminated string");
  r->at++;
  *to = '\0'; /* at the closing quotation mark, or before it */
  *text = from;
  *n = (size_t)(to - from);
  return true;
}

/* --- numbers and words ------------------------------------------------------------------------ */

static bool digits(kf_json_reader *r) {
  char *first = r->at, *at = first, *end = r->end;
  while (at < end && *at >= '0' && *at <= '9') at++;
  r->at = at;
  return at > first;
}

static bool number(kf_json_reader *r) {
  if (here(r) == '-') r->at++;
  bool zero = here(r) == '0';
  const char *first = r->at;
  if (!digits(r) || (zero && r->at > first + 1)) return kf_json_fail(r, "a number is expected");
  if (here(r) == '.') {
    r->at++;
    if (!digits(r)) return kf_json_fail(r, "digits are expected after the point");
  }
  if (here(r) == 'e' || here(r) == 'E') {
    r->at++;
    if (here(r) == '+' || here(r) == '-') r->at++;
    if (!digits(r)) return kf_json_fail(r, "digits are expected in the exponent");
  }
  return true;
}

bool kf_json_scalar(kf_json_reader *r) {
  char kind = kf_json_peek(r);
  if (kind == '0') return number(r);
  const char *word = kind == 't' ? "true" : kind == 'f' ? "false" : "null";
  size_t n = strlen(word);
  if ((size_t)(r->end - r->at) < n || memcmp(r->at, word, n) != 0)
    return kf_json_fail(r, "a value is expected");
  r->at += n;
  return true;
}
