/* write.c - text and numbers of the page. */
#include "report/write.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void kf_put(kf_string *out, const char *markup) { kf_string_add(out, markup, strlen(markup)); }

/* --- foreign text ----------------------------------------------------------------------------- */

static void put_character(kf_string *out, const char *text, size_t n) {
  switch (n == 1 ? text[0] : 0) {
  case '&': kf_put(out, "&amp;"); break;
  case '<': kf_put(out, "&lt;"); break;
  case '>': kf_put(out, "&gt;"); break;
  case '"': kf_put(out, "&quot;"); break;
  case '\'': kf_put(out, "&#39;"); break;
  default: kf_string_add(out, text, n);
  }
}

size_t kf_characters(const char *text) {
  char shown[KF_SHOWN_SIZE];
  size_t count = 0;
  for (size_t at = 0; kf_escape_next(text, &at, shown) > 0;) count++;
  return count;
}

/* Characters that kf_escape_next escapes become U+FFFD here. They include bidirectional controls:
 * an isolate left open in a name would affect the rest of the page. */
void kf_put_text(kf_string *out, const char *text, size_t most) {
  size_t all = kf_characters(text), number = most > 0 && all > most ? most - 1 : all, at = 0;
  for (size_t i = 0; i < number; i++) {
    char shown[KF_SHOWN_SIZE];
    size_t before = at, n = kf_escape_next(text, &at, shown);
    if (n == at - before && memcmp(shown, text + before, n) == 0)
      put_character(out, shown, n);
    else
      kf_put(out, "\uFFFD");
  }
  if (number < all) kf_put(out, "…");
}

/* --- numbers ---------------------------------------------------------------------------------- */

double kf_share(uint64_t hits, uint64_t n) { return n > 0 ? (double)hits / (double)n : 0; }

kf_shown kf_showf(const char *format, ...) {
  kf_shown out;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(out.text, sizeof out.text, format, arguments);
  va_end(arguments);
  return out;
}

kf_shown kf_show_count(uint64_t n) {
  char digits[24];
  int length = snprintf(digits, sizeof digits, "%llu", (unsigned long long)n);
  kf_shown out;
  size_t at = 0;
  for (int i = 0; i < length; i++) {
    if (i > 0 && (length - i) % 3 == 0) out.text[at++] = ',';
    out.text[at++] = digits[i];
  }
  out.text[at] = '\0';
  return out;
}

kf_shown kf_show_percent(uint64_t hits, uint64_t n) {
  return kf_showf("%.2f\u202F%%", 100 * kf_share(hits, n));
}

kf_shown kf_show_interval(uint64_t hits, uint64_t n) {
  double low = 0, high = 1;
  if (n > 0) kf_interval95(hits, n, &low, &high);
  return kf_showf("%.2f–%.2f", 100 * low, 100 * high);
}

kf_shown kf_show_points(double share) {
  return kf_showf("%s%.2f", share < -0.00005 ? "−" : "", 100 * fabs(share));
}

/* "3 × 10⁻⁷": three digits of the mantissa, and the exponent in superscripts. */
static kf_shown show_power(double value) {
  static const char *const superscripts[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  int exponent = (int)floor(log10(fabs(value)) + 1e-9);
  double mantissa = value / pow(10, exponent);
  kf_shown out;
  int at = 0;
  if (fabs(mantissa - 1) > 1e-6)
    at = snprintf(out.text, sizeof out.text, "%.3g\u202F×\u202F", mantissa);
  char digits[16];
  snprintf(digits, sizeof digits, "%d", abs(exponent));
  at += snprintf(out.text + at, sizeof out.text - (size_t)at, "10%s", exponent < 0 ? "⁻" : "");
  for (const char *d = digits; *d != '\0'; d++)
    at += snprintf(out.text + at, sizeof out.text - (size_t)at, "%s", superscripts[*d - '0']);
  return out;
}

kf_shown kf_show_real(double value) {
  double size = fabs(value);
  if (isnan(value)) return kf_showf("–");
  if (isfinite(value) && value != 0 && (size < 9.99e-5 || size >= 99999.5))
    return show_power(value);
  return kf_showf("%s%.4g", value < 0 ? "−" : "", size);
}

kf_shown kf_show_times(double value) {
  double power = value > 0 ? pow(10, floor(log10(value)) - 2) : 1; /* three digits are enough */
  return kf_showf("%.40sx", kf_show_real(round(value / power) * power).text);
}

kf_shown kf_show_bytes(double bytes) {
  static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  size_t unit = 0;
  for (; bytes >= 999.5 && unit < 6; unit++) bytes /= 1000;
  return kf_showf("%.3g\u202F%s", bytes, units[unit]);
}
