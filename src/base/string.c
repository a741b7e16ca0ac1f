/* string.c - growing strings, JSON strings, and numbers that ignore the locale: a program that uses
 * koofu may have set one with a decimal comma, which must not affect files. */
#include "base/json.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- numbers ---------------------------------------------------------------------------------- */

/* A static object in glibc: nothing is allocated or freed. */
static locale_t c_locale(void) { return newlocale(LC_ALL_MASK, "C", (locale_t)0); }

double kf_parse_f64(const char *text, const char **end) {
  /* Excludes hexadecimal numbers, inf and nan, which strtod accepts. */
  size_t n = strspn(text, "0123456789.eE+-");
  char *stop = NULL;
  errno = 0;
  double value = n > 0 ? strtod_l(text, &stop, c_locale()) : 0;
  bool lost = errno == ERANGE && (value == 0 || isinf(value)); /* 1e-400, 1e400 */
  bool whole = stop != NULL && stop == text + n && !lost;
  *end = whole ? stop : text;
  return value;
}

void kf_format_f64(double value, char text[32]) {
  locale_t before = uselocale(c_locale());
  for (int digits = 15; digits <= 17; digits++) {
    snprintf(text, 32, "%.*g", digits, value);
    if (strtod(text, NULL) == value) break;
  }
  uselocale(before);
}

/* --- text ------------------------------------------------------------------------------------- */

bool kf_starts_with(const char *text, const char *start) {
  return strncmp(text, start, strlen(start)) == 0;
}

bool kf_ends_with(const char *text, const char *end) {
  size_t n = strlen(text), m = strlen(end);
  return n >= m && memcmp(text + n - m, end, m) == 0;
}

/* Makes room for n more bytes and a NUL. */
static bool make_room(kf_string *text, size_t n) {
  if (text->failed || text->n + n + 1 <= text->room) return !text->failed;
  size_t room = (text->n + n + 1) * 2;
  char *larger = kf_alloc(room, 1);
  text->failed = larger == NULL;
  if (text->failed) return false;
  if (text->n > 0) memcpy(larger, text->data, text->n);
  kf_free(text->data);
  text->data = larger;
  text->room = room;
  return true;
}

void kf_string_add(kf_string *text, const char *bytes, size_t n) {
  if (!make_room(text, n)) return;
  memcpy(text->data + text->n, bytes, n);
  text->n += n;
  text->data[text->n] = '\0';
}

void kf_string_addf(kf_string *text, const char *format, ...) {
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  int n = vsnprintf(NULL, 0, format, arguments);
  if (n >= 0 && make_room(text, (size_t)n))
    text->n += (size_t)vsnprintf(text->data + text->n, (size_t)n + 1, format, again);
  text->failed = text->failed || n < 0;
  va_end(again);
  va_end(arguments);
}

void kf_string_add_json(kf_string *text, const char *string) {
  kf_string_add(text, "\"", 1);
  for (const char *run = string; *run != '\0';) {
    const char *c = run;
    while ((unsigned char)*c >= 0x20 && *c != '"' && *c != '\\') c++;
    kf_string_add(text, run, (size_t)(c - run));
    if (*c == '"' || *c == '\\')
      kf_string_addf(text, "\\%c", *c);
    else if (*c != '\0')
      kf_string_addf(text, "\\u%04x", (unsigned)*c);
    run = *c != '\0' ? c + 1 : c;
  }
  kf_string_add(text, "\"", 1);
}

void kf_string_clear(kf_string *text) {
  kf_free(text->data);
  *text = (kf_string){0};
}

kf_status kf_string_write(kf_ctx *ctx, const kf_string *text, const char *path) {
  kf_err *err = &ctx->err;
  kf_out out = {0};
  if (text->failed) return kf_fail_memory(err);
  KF_TRY(kf_out_open(&out, ctx, path, err));
  kf_status status = kf_out_write(&out, text->data, text->n, err);
  if (status == KF_OK) status = kf_out_commit(&out, err);
  kf_out_abort(&out);
  return status;
}
