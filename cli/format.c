/* format.c - numbers and names for people. */
#include "cli.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

shown show_count(uint64_t n) {
  char digits[24];
  int length = snprintf(digits, sizeof digits, "%llu", (unsigned long long)n);
  shown out;
  size_t at = 0;
  for (int i = 0; i < length; i++) {
    if (i > 0 && (length - i) % 3 == 0) out.text[at++] = ',';
    out.text[at++] = digits[i];
  }
  out.text[at] = '\0';
  return out;
}

shown show_counted(uint64_t n, const char *one, const char *many) {
  shown out;
  snprintf(out.text, sizeof out.text, "%.26s %s", show_count(n).text, n == 1 ? one : many);
  return out;
}

shown show_dim(uint32_t dim, uint32_t of) {
  shown out = show_counted(of, "dimension", "dimensions");
  if (dim < of)
    snprintf(out.text, sizeof out.text, "%u of %u %s", dim, of,
             of == 1 ? "dimension" : "dimensions");
  return out;
}

shown show_rate(double a_second) {
  shown out;
  if (a_second >= 10) return show_count((uint64_t)(a_second + 0.5));
  snprintf(out.text, sizeof out.text, "%.2g", a_second);
  return out;
}

shown show_bytes(uint64_t n) {
  static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (n < 1024) return show_counted(n, "byte", "bytes");
  double value = (double)n / 1024;
  size_t unit = 0;
  for (; value >= 1023.95 && unit + 1 < COUNT_OF(units); unit++) value /= 1024;
  shown out;
  snprintf(out.text, sizeof out.text, "%.1f %s", value, units[unit]);
  return out;
}

shown show_seconds(double seconds) {
  shown out;
  if (seconds < 60)
    snprintf(out.text, sizeof out.text, seconds < 10 ? "%.2f s" : "%.1f s", seconds);
  else
    snprintf(out.text, sizeof out.text, "%ld:%02ld min", (long)seconds / 60, (long)seconds % 60);
  return out;
}

shown show_real(double value) {
  shown out = {"-"}; /* not known */
  if (!isnan(value)) snprintf(out.text, sizeof out.text, "%.6g", value);
  return out;
}

shown show_relative(double lambda, double mean_eigenvalue) {
  shown s;
  snprintf(s.text, sizeof s.text, "%.3gx", mean_eigenvalue > 0 ? lambda / mean_eigenvalue : 0);
  return s;
}

shown show_percent(uint64_t hits, uint64_t n) {
  shown out = {"-"}; /* of no rows */
  if (n > 0) snprintf(out.text, sizeof out.text, "%.2f %%", 100 * (double)hits / (double)n);
  return out;
}

shown show_interval(uint64_t hits, uint64_t n) {
  double low, high;
  kf_interval95(hits, n, &low, &high);
  shown out;
  snprintf(out.text, sizeof out.text, "[%.2f, %.2f]", 100 * low, 100 * high);
  return out;
}

/* Prints the visible ASCII that text begins with, up to `except`, and returns its length. */
static size_t print_ascii(FILE *file, const char *text, char except) {
  size_t n = 0;
  while (text[n] >= ' ' && text[n] < 0x7f && text[n] != except) n++;
  return fwrite(text, 1, n, file) == n ? n : strlen(text); /* the stream remembers the error */
}

void print_escaped(FILE *file, const char *text) {
  char piece[KF_SHOWN_SIZE];
  for (size_t at = print_ascii(file, text, '\\'); text[at];
       at += print_ascii(file, text + at, '\\')) {
    if (text[at] == '\\') putc('\\', file);
    kf_escape_next(text, &at, piece);
    fputs(piece, file);
  }
}

void print_plain(FILE *file, const char *text) {
  char piece[KF_SHOWN_SIZE];
  for (size_t at = 0; kf_escape_next(text, &at, piece) > 0;) fputs(piece, file);
}

void put_line(FILE *file, const char *text) {
  if (isatty(fileno(file)))
    print_plain(file, text);
  else
    fputs(text, file);
  putc('\n', file);
}
