/* json.c - RFC 8259, strictly: no comments, no trailing commas, no NaN, bounded depth. */
#include "json.h"

#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

sv_json sv_json_of(char *text, size_t n) {
  return (sv_json){.begin = text, .at = text, .end = text + n};
}

static bool fail(sv_json *j, const char *what) {
  if (sv_json_fine(j))
    snprintf(j->error, sizeof j->error, "not JSON: %s at byte %zu", what,
             (size_t)(j->at - j->begin));
  return false;
}

void sv_json_refuse(sv_json *j, const char *format, ...) {
  if (!sv_json_fine(j)) return;
  va_list list;
  va_start(list, format);
  vsnprintf(j->error, sizeof j->error, format, list);
  va_end(list);
  j->wrong = true;
}

static void skip_space(sv_json *j) {
  while (j->at < j->end && (*j->at == ' ' || *j->at == '\t' || *j->at == '\n' || *j->at == '\r'))
    j->at++;
}

char sv_json_next(sv_json *j) {
  if (!sv_json_fine(j)) return 0;
  skip_space(j);
  if (j->at == j->end) return 0;
  char c = *j->at;
  if (c == '-' || (c >= '0' && c <= '9')) return '0';
  return strchr("{[\"tfn", c) ? c : 0;
}

static bool take(sv_json *j, char wanted) {
  skip_space(j);
  if (j->at == j->end || *j->at != wanted) return false;
  j->at++;
  return true;
}

static void enter(sv_json *j, char bracket, const char *what) {
  if (!sv_json_fine(j)) return;
  if (sv_json_next(j) != bracket) {
    if (sv_json_next(j) == 0)
      fail(j, "no value");
    else
      sv_json_refuse(j, "%s is expected at byte %zu", what, (size_t)(j->at - j->begin));
    return;
  }
  if (j->depth == SV_JSON_DEPTH) {
    fail(j, "too deep");
    return;
  }
  j->at++;
  j->depth++;
  j->filled &= ~(UINT64_C(1) << j->depth);
}

void sv_json_object(sv_json *j) { enter(j, '{', "an object"); }
void sv_json_array(sv_json *j) { enter(j, '[', "an array"); }

/* Before an item: true if there is one. */
static bool another(sv_json *j, char bracket) {
  if (!sv_json_fine(j)) return false;
  uint64_t bit = UINT64_C(1) << j->depth;
  if (take(j, bracket)) {
    j->depth--;
    return false;
  }
  if (j->filled & bit && !take(j, ',')) return fail(j, "no comma");
  j->filled |= bit;
  return true;
}

bool sv_json_item(sv_json *j) { return another(j, ']'); }

bool sv_json_key(sv_json *j, char **key) {
  size_t n;
  *key = NULL;
  if (!another(j, '}')) return false;
  if (sv_json_next(j) != '"') return fail(j, "no name");
  if (!sv_json_text(j, key, &n)) return false;
  return take(j, ':') ? true : fail(j, "no colon");
}

/* --- strings ---------------------------------------------------------------------------------- */

static int hex4(const char *at) {
  int value = 0;
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

static char *put_utf8(char *to, unsigned c) {
  if (c < 0x80) {
    *to++ = (char)c;
  } else if (c < 0x800) {
    *to++ = (char)(0xc0 | c >> 6);
    *to++ = (char)(0x80 | (c & 63));
  } else if (c < 0x10000) {
    *to++ = (char)(0xe0 | c >> 12);
    *to++ = (char)(0x80 | (c >> 6 & 63));
    *to++ = (char)(0x80 | (c & 63));
  } else {
    *to++ = (char)(0xf0 | c >> 18);
    *to++ = (char)(0x80 | (c >> 12 & 63));
    *to++ = (char)(0x80 | (c >> 6 & 63));
    *to++ = (char)(0x80 | (c & 63));
  }
  return to;
}

/* \uXXXX, after the u; a pair of surrogates is one character. */
static char *unescape_code(sv_json *j, char *to) {
  int code = j->end - j->at >= 4 ? hex4(j->at) : -1;
  if (code < 0) return fail(j, "a bad escape"), NULL;
  j->at += 4;
  if (code >= 0xd800 && code < 0xdc00) {
    int low = j->end - j->at >= 6 && j->at[0] == '\\' && j->at[1] == 'u' ? hex4(j->at + 2) : -1;
    if (low < 0xdc00 || low > 0xdfff) return fail(j, "half a character"), NULL;
    j->at += 6;
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  } else if (code >= 0xdc00 && code < 0xe000) {
    return fail(j, "half a character"), NULL;
  }
  if (code == 0) return fail(j, "a NUL in a string"), NULL;
  return put_utf8(to, (unsigned)code);
}

static char *unescape(sv_json *j, char *to) {
  static const char codes[] = "\"\"\\\\//b\bf\fn\nr\rt\t";
  j->at++; /* the backslash */
  if (j->at == j->end) return fail(j, "an unfinished string"), NULL;
  char c = *j->at;
  if (c == 'u') {
    j->at++;
    return unescape_code(j, to);
  }
  for (size_t i = 0; i < sizeof codes - 1; i += 2)
    if (codes[i] == c) {
      j->at++;
      *to++ = codes[i + 1];
      return to;
    }
  return fail(j, "a bad escape"), NULL;
}

/* The bytes of a character beyond ASCII, as they are; 0: it is not UTF-8. */
static size_t utf8_length(const sv_json *j) {
  const unsigned char *c = (const unsigned char *)j->at;
  size_t left = (size_t)(j->end - j->at);
  size_t n = c[0] < 0xc2 ? 0 : c[0] < 0xe0 ? 2 : c[0] < 0xf0 ? 3 : c[0] < 0xf5 ? 4 : 0;
  if (n == 0 || n > left) return 0;
  for (size_t i = 1; i < n; i++)
    if ((c[i] & 0xc0) != 0x80) return 0;
  if (n == 3 && ((c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xed && c[1] > 0x9f))) return 0;
  if (n == 4 && ((c[0] == 0xf0 && c[1] < 0x90) || (c[0] == 0xf4 && c[1] > 0x8f))) return 0;
  return n;
}

bool sv_json_text(sv_json *j, char **out, size_t *n) {
  *out = NULL;
  *n = 0;
  if (!sv_json_fine(j)) return false;
  if (sv_json_next(j) != '"') {
    if (sv_json_next(j) == 0) return fail(j, "no value");
    sv_json_refuse(j, "a string is expected at byte %zu", (size_t)(j->at - j->begin));
    return false;
  }
  char *from = ++j->at, *to = from;
  while (j->at < j->end && *j->at != '"') {
    unsigned char c = (unsigned char)*j->at;
    if (c < 0x20) return fail(j, "a control character in a string");
    if (c == '\\') {
      to = unescape(j, to);
      if (!to) return false;
      continue;
    }
    size_t length = c < 0x80 ? 1 : utf8_length(j);
    if (length == 0) return fail(j, "bytes that are not UTF-8");
    for (size_t i = 0; i < length; i++) *to++ = *j->at++;
  }
  if (j->at == j->end) return fail(j, "an unfinished string");
  j->at++;
  *to = '\0'; /* at the closing quotation mark, or before it */
  *out = from;
  *n = (size_t)(to - from);
  return true;
}

/* --- numbers ---------------------------------------------------------------------------------- */

typedef struct number {
  uint64_t digits; /* the first 19, as one number */
  int exponent;    /* times 10 to this */
  bool negative, whole, exact;
  const char *begin;
  size_t n;
} number;

static bool is_digit(const sv_json *j) { return j->at < j->end && *j->at >= '0' && *j->at <= '9'; }

static void take_digits(sv_json *j, number *x, int after_point) {
  for (; is_digit(j); j->at++) {
    if (x->digits < UINT64_C(1000000000000000000)) {
      x->digits = x->digits * 10 + (uint64_t)(*j->at - '0');
      x->exponent -= after_point;
    } else {
      if (*j->at != '0') x->exact = false;
      if (!after_point && x->exponent < 100000) x->exponent++;
    }
  }
}

static bool take_exponent(sv_json *j, number *x) {
  bool negative = false;
  int exponent = 0;
  j->at++;
  if (j->at < j->end && (*j->at == '+' || *j->at == '-')) negative = *j->at++ == '-';
  if (!is_digit(j)) return fail(j, "a bad number");
  for (; is_digit(j); j->at++)
    if (exponent < 100000) exponent = exponent * 10 + (*j->at - '0');
  x->exponent += negative ? -exponent : exponent;
  x->whole = false;
  return true;
}

static bool take_number(sv_json *j, number *x) {
  *x = (number){.whole = true, .exact = true};
  if (!sv_json_fine(j)) return false;
  if (sv_json_next(j) != '0') {
    if (sv_json_next(j) == 0) return fail(j, "no value");
    sv_json_refuse(j, "a number is expected at byte %zu", (size_t)(j->at - j->begin));
    return false;
  }
  x->begin = j->at;
  if (*j->at == '-') {
    x->negative = true;
    j->at++;
  }
  if (!is_digit(j)) return fail(j, "a bad number");
  bool zero = *j->at == '0';
  if (zero)
    j->at++;
  else
    take_digits(j, x, 0);
  if (zero && is_digit(j)) return fail(j, "a number that begins with 0");
  if (j->at < j->end && *j->at == '.') {
    x->whole = false;
    j->at++;
    if (!is_digit(j)) return fail(j, "a bad number");
    take_digits(j, x, 1);
  }
  if (j->at < j->end && (*j->at == 'e' || *j->at == 'E') && !take_exponent(j, x)) return false;
  x->n = (size_t)(j->at - x->begin);
  return true;
}

/* Digits times or over an exact power of ten, rounded once to 64 bits and then to 24. The second rounding
 * goes wrong only if the first ends exactly between two floats. */
static bool quick_float(const number *x, float *out) {
#if LDBL_MANT_DIG >= 64
  static const long double tens[] = {1e0L,  1e1L,  1e2L,  1e3L,  1e4L,  1e5L,  1e6L,
                                     1e7L,  1e8L,  1e9L,  1e10L, 1e11L, 1e12L, 1e13L,
                                     1e14L, 1e15L, 1e16L, 1e17L, 1e18L, 1e19L, 1e20L,
                                     1e21L, 1e22L, 1e23L, 1e24L, 1e25L, 1e26L, 1e27L};
  if (!x->exact || x->exponent < -27 || x->exponent > 27) return false;
  long double value = (long double)x->digits;
  value = x->exponent < 0 ? value / tens[-x->exponent] : value * tens[x->exponent];
  if (x->digits != 0 && (value < 1e-30L || value > 1e30L)) return false;
  float near = (float)value;
  long double other =
      2 * value - (long double)near; /* mirrored: a float if value lies in the middle */
  if ((long double)near != value && (long double)(float)other == other) return false;
  *out = x->negative ? -near : near;
  return true;
#else
  (void)x;
  (void)out;
  return false;
#endif
}

static bool slow_float(const number *x, float *out) {
  char copy[128];
  if (x->n < sizeof copy) {
    memcpy(copy, x->begin, x->n);
    copy[x->n] = '\0';
    *out = strtof(copy, NULL);
    return true;
  }
  char *longer = malloc(x->n + 1);
  if (!longer) return false;
  memcpy(longer, x->begin, x->n);
  longer[x->n] = '\0';
  *out = strtof(longer, NULL);
  free(longer);
  return true;
}

bool sv_json_single(sv_json *j, float *out) {
  number x;
  *out = 0;
  if (!take_number(j, &x)) return false;
  if (!quick_float(&x, out) && !slow_float(&x, out)) {
    sv_json_refuse(j, "out of memory");
    return false;
  }
  if (isfinite(*out)) return true;
  sv_json_refuse(j, "the number at byte %zu is too large for a float",
                 (size_t)(x.begin - j->begin));
  return false;
}

bool sv_json_number(sv_json *j, uint64_t low, uint64_t high, uint64_t *out) {
  number x;
  if (!take_number(j, &x)) return false;
  if (x.whole && !x.negative && x.exact && x.exponent == 0 && x.digits >= low && x.digits <= high) {
    *out = x.digits;
    return true;
  }
  sv_json_refuse(j, "a whole number from %llu to %llu is expected at byte %zu",
                 (unsigned long long)low, (unsigned long long)high, (size_t)(x.begin - j->begin));
  return false;
}

/* --- the rest --------------------------------------------------------------------------------- */

static bool take_word(sv_json *j, const char *word) {
  size_t n = strlen(word);
  if ((size_t)(j->end - j->at) < n || memcmp(j->at, word, n) != 0)
    return fail(j, "an unknown word");
  j->at += n;
  return true;
}

bool sv_json_truth(sv_json *j, bool *out) {
  char next = sv_json_next(j);
  if (!sv_json_fine(j)) return false;
  if (next != 't' && next != 'f') {
    if (next == 0) return fail(j, "no value");
    sv_json_refuse(j, "true or false is expected at byte %zu", (size_t)(j->at - j->begin));
    return false;
  }
  *out = next == 't';
  return take_word(j, next == 't' ? "true" : "false");
}

static void skip_scalar(sv_json *j) {
  char *text;
  size_t n;
  number x;
  switch (sv_json_next(j)) {
  case '"': sv_json_text(j, &text, &n); break;
  case '0': take_number(j, &x); break;
  case 't': take_word(j, "true"); break;
  case 'f': take_word(j, "false"); break;
  case 'n': take_word(j, "null"); break;
  default: fail(j, "no value");
  }
}

/* Without recursion: containers are walked through until the depth is what it was. */
void sv_json_skip(sv_json *j) {
  unsigned depth = j->depth;
  char kind[SV_JSON_DEPTH + 1] = {0};
  char *key;
  do {
    char next = sv_json_next(j);
    if (next == '{' || next == '[') {
      enter(j, next, "");
      if (sv_json_fine(j)) kind[j->depth] = next;
    } else {
      skip_scalar(j);
    }
    while (sv_json_fine(j) && j->depth > depth &&
           !(kind[j->depth] == '{' ? sv_json_key(j, &key) : sv_json_item(j))) {
    }
  } while (sv_json_fine(j) && j->depth > depth);
}

bool sv_json_end(sv_json *j) {
  if (!sv_json_fine(j)) return false;
  skip_space(j);
  if (j->at < j->end) return fail(j, "something after the end");
  return true;
}
