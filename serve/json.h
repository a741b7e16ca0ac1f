/* json.h - a strict reader of JSON in memory, value by value.
 *
 *     for (sv_json_object(&j); sv_json_key(&j, &key);)
 *       if (strcmp(key, "top") == 0) sv_json_number(&j, 1, 100, &top); else sv_json_refuse(&j, ...);
 *     if (!sv_json_end(&j)) ... j.error says why
 *
 * Every call is harmless after a failure; the first one is kept. Strings are unescaped where they are,
 * have no NUL inside and are UTF-8; numbers do not depend on the locale. */
#ifndef SERVE_JSON_H
#define SERVE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SV_JSON_DEPTH = 32 };

typedef struct sv_json {
  char *begin, *at, *end; /* end[0] may be written to */
  unsigned depth;
  uint64_t filled; /* bit d: the container at depth d has had an item */
  bool wrong;      /* the JSON is right, but says what it must not */
  char error[200]; /* one sentence; "": none */
} sv_json;

sv_json sv_json_of(char *text, size_t n); /* text[n] is writable */
/* '{', '[', '"', '0' (a number), 't', 'f', 'n': what the next value is; 0: none. */
char sv_json_next(sv_json *j);
void sv_json_object(sv_json *j);
bool sv_json_key(sv_json *j, char **key); /* false: the object has ended, or an error */
void sv_json_array(sv_json *j);
bool sv_json_item(sv_json *j); /* false: the array has ended, or an error */
bool sv_json_text(sv_json *j, char **out, size_t *n);
bool sv_json_single(sv_json *j, float *out); /* a finite float, correctly rounded */
bool sv_json_number(sv_json *j, uint64_t low, uint64_t high, uint64_t *out); /* a whole number */
bool sv_json_truth(sv_json *j, bool *out);
void sv_json_skip(sv_json *j); /* any value */
/* What is right JSON, but not what it must be. */
void sv_json_refuse(sv_json *j, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool sv_json_end(sv_json *j); /* nothing follows, and there was no error */
static inline bool sv_json_fine(const sv_json *j) { return j->error[0] == '\0'; }

#endif
