/* text.h - text in a growing buffer, above all JSON. */
#ifndef SERVE_TEXT_H
#define SERVE_TEXT_H

#include "memory.h"

#include <stdint.h>

typedef struct sv_text {
  sv_arena *arena;
  char *data;
  size_t n, room;
  bool failed; /* memory ran out, so something is missing */
  bool comma;  /* the next JSON value needs a comma before it */
} sv_text;

void sv_put(sv_text *text, const char *bytes, size_t n);
void sv_puts(sv_text *text, const char *string);
void sv_putf(sv_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A word of a command line, quoted for the shell if necessary. */
void sv_put_word(sv_text *text, const char *word);

/* The text so far with a NUL, or NULL if it failed. */
const char *sv_text_string(sv_text *text);

/* Members of an object (key NULL: elements of an array). Bytes that are not UTF-8 become U+FFFD. */
void sv_json_open(sv_text *text, const char *key, char bracket);
void sv_json_close(sv_text *text, char bracket);
void sv_json_string(sv_text *text, const char *key, const char *value); /* NULL: null */
void sv_json_count(sv_text *text, const char *key, uint64_t value);
void sv_json_int(sv_text *text, const char *key, int64_t value);
void sv_json_real(sv_text *text, const char *key, double value); /* reads back as the same double */
void sv_json_float(sv_text *text, float value);                  /* reads back as the same float */
void sv_json_bool(sv_text *text, const char *key, bool value);
/* The name of a class or, if that is NULL, its number as a string; null for a negative number. */
void sv_json_class(sv_text *text, const char *key, const char *name, int64_t number);
void sv_json_null(sv_text *text, const char *key);
/* A string of base64 digits. */
void sv_json_base64(sv_text *text, const char *key, const void *bytes, size_t n);

#endif
