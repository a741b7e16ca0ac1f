/* json.h - JSON bodies: the library's reader, with types and ranges.
 *
 *     for (sv_json_object(&j); sv_json_key(&j, &key);)
 *       if (strcmp(key, "top") == 0) sv_json_number(&j, 1, 100, &top); else sv_json_refuse(&j, ...);
 *     if (!sv_json_end(&j)) ... j.error says why
 *
 * Calls after the first failure do nothing. Strings are decoded where they are, have no NUL inside and
 * are UTF-8; numbers do not depend on the locale. */
#ifndef SERVE_JSON_H
#define SERVE_JSON_H

#include "base/json_read.h"

enum { SV_JSON_DEPTH = 32 };

typedef struct sv_json {
  kf_json_reader in;
  bool wrong;      /* the JSON is right, but says what it must not */
  char error[200]; /* one sentence, after sv_json_end */
} sv_json;

sv_json sv_json_of(char *text, size_t n); /* nothing behind them is touched */
/* '{', '[', '"', '0' (a number), 't', 'f', 'n': what the next value is; 0: none. */
static inline char sv_json_next(sv_json *j) { return kf_json_peek(&j->in); }
static inline size_t sv_json_at(const sv_json *j) { return (size_t)(j->in.at - j->in.begin); }
void sv_json_object(sv_json *j);
void sv_json_array(sv_json *j);
/* False: the object or array has ended, or an error. */
static inline bool sv_json_key(sv_json *j, char **key) { return kf_json_key(&j->in, key); }
static inline bool sv_json_item(sv_json *j) { return kf_json_item(&j->in); }
bool sv_json_text(sv_json *j, char **out, size_t *n);
bool sv_json_single(sv_json *j, float *out); /* a finite float, correctly rounded */
bool sv_json_number(sv_json *j, uint64_t low, uint64_t high, uint64_t *out); /* a whole number */
bool sv_json_truth(sv_json *j, bool *out);
void sv_json_skip(sv_json *j); /* any value */
/* What is right JSON, but not what it must be. */
void sv_json_refuse(sv_json *j, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool sv_json_end(sv_json *j); /* nothing follows, and there was no error */
static inline bool sv_json_fine(const sv_json *j) { return j->in.wrong == NULL; }

#endif
