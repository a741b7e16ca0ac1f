/* text.h - UTF-8, numbers that ignore the locale, growing strings, and escapes. */
#ifndef KF_TEXT_H
#define KF_TEXT_H

#include "base/base.h"

/* --- UTF-8 ------------------------------------------------------------------------------------ */

bool kf_utf8_valid(const char *text, size_t length);
/* The length of the longest valid prefix. */
size_t kf_utf8_prefix(const char *text, size_t length);
/* Returns the character at *at and moves *at past it. The text must be valid. */
uint32_t kf_utf8_next(const char *text, size_t *at);
/* Encodes a character (not a surrogate) and returns its length. */
size_t kf_utf8_put(uint32_t c, unsigned char bytes[4]);

/* Whether text begins with `start`, or ends in `end`. */
bool kf_starts_with(const char *text, const char *start);
bool kf_ends_with(const char *text, const char *end);

/* --- numbers, in any locale ------------------------------------------------------------------- */

/* Parses the decimal number at the start of text; *end is just after it, or text if there is
 * none. */
double kf_parse_f64(const char *text, const char **end);
/* Formats a finite number with the fewest of 15 to 17 digits that read back as the same number. */
void kf_format_f64(double value, char text[32]);

/* --- growing text ----------------------------------------------------------------------------- */

/* A growing string. A failed allocation sets `failed` for good, so one check at the end is
 * enough. */
typedef struct kf_string {
  char *data; /* ends in NUL; NULL until something is added */
  size_t n, room;
  bool failed;
} kf_string;
void kf_string_add(kf_string *text, const char *bytes, size_t n);
void kf_string_addf(kf_string *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void kf_string_clear(kf_string *text);
/* Writes the text to a file, whole or not at all; KF_ERR_MEM if it has failed. */
kf_status kf_string_write(kf_ctx *ctx, const kf_string *text, const char *path);

/* --- escapes for text that may hold anything (escape.c) --------------------------------------- */

/* Whether a character is a control, a format character or an unusual line separator. */
bool kf_is_hidden(uint32_t c);
/* Escapes all of text like kf_escape_next, truncated to `size` bytes with its NUL. */
void kf_escape_message(const char *text, char *out, size_t size);
/* Sets *out to text with the escapes of kf_escape_next and doubled backslashes undone. */
void kf_unescape(const char *text, size_t length, kf_string *out);

#endif
