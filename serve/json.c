/* json.c - values of a request: types, ranges, and floats faster than strtof reads them. */
#include "json.h"

#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

sv_json sv_json_of(char *text, size_t n) {
  static char nothing[1];
  return (sv_json){.in = kf_json_read(text ? text : nothing, n, SV_JSON_DEPTH)};
}

void sv_json_refuse(sv_json *j, const char *format, ...) {
  if (!sv_json_fine(j)) return;
  va_list list;
  va_start(list, format);
  vsnprintf(j->error, sizeof j->error, format, list);
  va_end(list);
  j->refused = true;
  kf_json_fail(&j->in, "refused");
}

bool sv_json_end(sv_json *j) {
  if (j->plain ? sv_json_fine(j) : kf_json_end(&j->in)) return true;
  if (!j->refused)
    snprintf(j->error, sizeof j->error, "%s%s at byte %zu",
             j->plain ? "" : "not JSON: ", j->in.wrong, sv_json_at(j));
  return false;
}

/* --- types ------------------------------------------------------------------------------------ */

static bool expect(sv_json *j, bool found, const char *what) {
  if (found) return true;
  if (j->lone && sv_json_at(j) == 0)
    sv_json_refuse(j, "must be %s", what);
  else if (kf_json_peek(&j->in) == 0)
    kf_json_fail(&j->in, "no value");
  else
    sv_json_refuse(j, "%s is expected at byte %zu", what, sv_json_at(j));
  return false;
}

void sv_json_object(sv_json *j) {
  if (expect(j, kf_json_peek(&j->in) == '{', "an object")) kf_json_enter(&j->in);
}

void sv_json_array(sv_json *j) {
  if (expect(j, kf_json_peek(&j->in) == '[', "an array")) kf_json_enter(&j->in);
}

static bool take_plain(sv_json *j, char **out, size_t *n) {
  *out = j->in.at;
  *n = (size_t)(j->in.end - j->in.at);
  j->in.at = j->in.end;
  if (sv_json_fine(j) && memchr(*out, '\0', *n)) kf_json_fail(&j->in, "a NUL");
  return sv_json_fine(j);
}

bool sv_json_text(sv_json *j, char **out, size_t *n) {
  if (j->plain) return take_plain(j, out, n);
  *out = NULL;
  *n = 0;
  return expect(j, kf_json_peek(&j->in) == '"', "a string") && kf_json_text(&j->in, out, n);
}

bool sv_json_truth(sv_json *j, bool *out) {
  char next = kf_json_peek(&j->in);
  if (!expect(j, next == 't' || next == 'f', "true or false")) return false;
  *out = next == 't';
  return kf_json_scalar(&j->in);
}

/* Not recursive: walks through containers until the depth is what it was. */
void sv_json_skip(sv_json *j) {
  kf_json_reader *in = &j->in;
  unsigned depth = in->depth;
  char kind[SV_JSON_DEPTH + 1] = {0}, *text;
  size_t n;
  do {
    char next = kf_json_peek(in);
    if (next == '{' || next == '[') {
      if (kf_json_enter(in)) kind[in->depth] = next;
    } else if (next == '"') {
      kf_json_text(in, &text, &n);
    } else {
      kf_json_scalar(in);
    }
    while (sv_json_fine(j) && in->depth > depth &&
           !(kind[in->depth] == '{' ? kf_json_key(in, &text) : kf_json_item(in))) {
    }
  } while (sv_json_fine(j) && in->depth > depth);
}

/* --- numbers ---------------------------------------------------------------------------------- */

typedef struct number {
  uint64_t digits; /* the first 19 digits, as one integer */
  int exponent;    /* of 10; the value is digits * 10^exponent */
  bool negative;
  bool whole; /* written without a fraction or exponent */
  bool exact; /* no digit other than 0 was dropped */
  const char *begin;
} number;

static void take_exponent(number *x, const char *c, const char *end) {
  int exponent = 0;
  bool negative = *c == '-';
  for (c += *c == '-' || *c == '+'; c < end; c++)
    if (exponent < 100000) exponent = exponent * 10 + (*c - '0');
  x->exponent += negative ? -exponent : exponent;
  x->whole = false;
}

static bool take_number(sv_json *j, number *x) {
  *x = (number){.whole = true, .exact = true};
  if (!expect(j, kf_json_peek(&j->in) == '0', "a number")) return false;
  x->begin = j->in.at;
  if (!kf_json_scalar(&j->in)) return false;
  const char *c = x->begin, *end = j->in.at;
  x->negative = *c == '-';
  for (c += x->negative; c < end && *c != 'e' && *c != 'E'; c++) {
    if (*c == '.') {
      x->whole = false;
    } else if (x->digits < UINT64_C(1000000000000000000)) {
      x->digits = x->digits * 10 + (uint64_t)(*c - '0');
      x->exponent -= !x->whole;
    } else {
      if (*c != '0') x->exact = false;
      if (x->whole && x->exponent < 100000) x->exponent++;
    }
  }
  if (c < end) take_exponent(x, c + 1, end);
  return true;
}

/* The digits times or divided by an exact power of ten, rounded to the 64 bits of a long double and
 * then to a float. The second rounding can only go wrong if the first ends exactly halfway between
 * two floats: that is left to strtof. With the 9 digits of a float this takes 60 ns, strtof 150. */
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
  /* `near` mirrored at value: also a float if value is halfway */
  long double other = 2 * value - (long double)near;
  if ((long double)near != value && (long double)(float)other == other) return false;
  *out = x->negative ? -near : near;
  return true;
#else
  (void)x;
  (void)out;
  return false;
#endif
}

bool sv_json_single(sv_json *j, float *out) {
  number x;
  *out = 0;
  if (!take_number(j, &x)) return false;
  if (!quick_float(&x, out)) *out = strtof(x.begin, NULL); /* the locale is always C */
  if (isfinite(*out)) return true;
  sv_json_refuse(j, "the number at byte %zu is too large for a float",
                 (size_t)(x.begin - j->in.begin));
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
                 (unsigned long long)low, (unsigned long long)high,
                 (size_t)(x.begin - j->in.begin));
  return false;
}
