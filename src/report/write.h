/* write.h - words and numbers of the page: escaped, elided, and without a locale. The thread writes
 * under the C locale while a page is made (report.c), so that printf needs no care. */
#ifndef KF_REPORT_WRITE_H
#define KF_REPORT_WRITE_H

#include "base/json.h"

/* Markup, as it is. */
void kf_put(kf_string *out, const char *markup);
/* Text of others, with what HTML would take for markup escaped; what is not UTF-8 and control
 * characters become U+FFFD. Of more than `most` characters the last is an ellipsis; 0: all. */
void kf_put_text(kf_string *out, const char *text, size_t most);
size_t kf_characters(const char *text); /* as kf_put_text counts them */

typedef struct kf_shown {
  char text[48];
} kf_shown;
kf_shown kf_show_count(uint64_t n);                   /* 1,281,167 */
kf_shown kf_show_percent(uint64_t hits, uint64_t n);  /* 54.83 %, with a narrow space */
kf_shown kf_show_interval(uint64_t hits, uint64_t n); /* 53.05–56.61 */
kf_shown kf_show_points(double share);                /* 0.0773 is 7.73, with a true minus */
kf_shown kf_show_real(double value);                  /* 0.4657; 2.5 × 10⁻⁷ */
kf_shown kf_show_times(double value);                 /* 0.75x */
kf_shown kf_show_bytes(double bytes);                 /* 2.05 GB */

/* hits / n; 0 where n is 0. */
double kf_share(uint64_t hits, uint64_t n);

#endif
