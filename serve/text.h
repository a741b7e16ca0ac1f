/* text.h - text that is being written, JSON above all. */
#ifndef SERVE_TEXT_H
#define SERVE_TEXT_H

#include "memory.h"

#include <stdint.h>

typedef struct sv_text {
  sv_arena *arena;
  char *data;
  size_t n, room;
  bool failed; /* memory ran out, and something is missing */
  bool comma;  /* the next JSON value follows another one */
} sv_text;

void sv_put(sv_text *text, const char *bytes, size_t n);
void sv_puts(sv_text *text, const char *string);
void sv_putf(sv_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A word of a command line, in quotation marks if it must be. */
void sv_put_word(sv_text *text, const char *word);

/* Members of an object (key NULL: of an array). Bytes that are not UTF-8 become U+FFFD. */
void sv_json_open(sv_text *text, const char *key, char bracket);
void sv_json_close(sv_text *text, char bracket);
void sv_json_string(sv_text *text, const char *key, const char *value); /* NULL: null */
void sv_json_count(sv_text *text, const char *key, uint64_t value);
void sv_json_int(sv_text *text, const char *key, int64_t value);
void sv_json_real(sv_text *text, const char *key, double value); /* reads back as the same double */
void sv_json_float(sv_text *text, float value);                  /* the same float */
void sv_json_flag(sv_text *text, const char *key, bool value);
void sv_json_null(sv_text *text, const char *key);
/* A string of base64 digits. */
void sv_json_base64(sv_text *text, const char *key, const void *bytes, size_t n);

#endif
