/* write.h - text and numbers of the page: escaped, shortened, independent of the locale (page.c
 * sets the C locale of the thread, so printf is safe). */
#ifndef KF_REPORT_WRITE_H
#define KF_REPORT_WRITE_H

#include "base/json.h"

/* Adds markup unchanged. */
void kf_put(kf_string *out, const char *markup);
/* Adds foreign text, escaped for HTML; control characters and invalid UTF-8 become U+FFFD. Beyond
 * `most` characters (0: no limit) it ends in an ellipsis. */
void kf_put_text(kf_string *out, const char *text, size_t most);
size_t kf_characters(const char *text); /* as kf_put_text counts them */

typedef struct kf_shown {
  char text[64];
} kf_shown;
kf_shown kf_showf(const char *format, ...) __attribute__((format(printf, 1, 2))); /* cut to fit */
kf_shown kf_show_count(uint64_t n);                                               /* 1,281,167 */
kf_shown kf_show_percent(uint64_t hits, uint64_t n);  /* 54.83 %, with a narrow space */
kf_shown kf_show_interval(uint64_t hits, uint64_t n); /* 53.05–56.61 */
kf_shown kf_show_points(double share);                /* 0.0773 is 7.73, with a true minus */
kf_shown kf_show_real(double value);  /* 0.4657; 2.5 × 10⁻⁷; at most 28 bytes */
kf_shown kf_show_times(double value); /* 0.75x */
kf_shown kf_show_bytes(double bytes); /* 2.05 GB */

/* hits / n; 0 if n is 0. */
double kf_share(uint64_t hits, uint64_t n);

#endif
