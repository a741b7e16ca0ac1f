/* json.h - JSON bodies: the library's reader, plus types and ranges.
 *
 *     for (sv_json_object(&j); sv_json_key(&j, &key);)
 *       if (strcmp(key, "top") == 0) sv_json_number(&j, 1, 9, &top); else sv_json_refuse(&j, ...);
 *     if (!sv_json_end(&j)) ... j.error says why
 *
 * Calls after the first failure do nothing. Strings are decoded in place; they are UTF-8 without
 * NULs. */
#ifndef SERVE_JSON_H
#define SERVE_JSON_H

#include "base/json_read.h"

enum { SV_JSON_DEPTH = 32 };

typedef struct sv_json {
  kf_json_reader in;
  bool refused;    /* valid JSON with an invalid value */
  bool plain;      /* not JSON but one string, as it is: a value of a form */
  bool lone;       /* one value of a form: what is no JSON at all is a wrong value, too */
  char error[200]; /* one sentence, after sv_json_end */
} sv_json;

/* n bytes, followed by a NUL somewhere; text may be NULL if n is 0. */
sv_json sv_json_of(char *text, size_t n);
/* The kind of the next value: '{', '[', '"', '0' (a number), 't', 'f' or 'n'; 0: no value. */
static inline char sv_json_next(sv_json *j) { return kf_json_peek(&j->in); }
static inline size_t sv_json_at(const sv_json *j) { return (size_t)(j->in.at - j->in.begin); }
void sv_json_object(sv_json *j);
void sv_json_array(sv_json *j);
/* Moves to the next member or element. False: the end, or an error. */
static inline bool sv_json_key(sv_json *j, char **key) { return kf_json_key(&j->in, key); }
static inline bool sv_json_item(sv_json *j) { return kf_json_item(&j->in); }
bool sv_json_text(sv_json *j, char **out, size_t *n);
bool sv_json_single(sv_json *j, float *out); /* a finite float, correctly rounded */
bool sv_json_number(sv_json *j, uint64_t low, uint64_t high, uint64_t *out); /* a whole number */
bool sv_json_truth(sv_json *j, bool *out);
void sv_json_skip(sv_json *j); /* any value */
/* Refuses a value, with a message. */
void sv_json_refuse(sv_json *j, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Whether all of the text was read without an error; otherwise j->error is set. */
bool sv_json_end(sv_json *j);
static inline bool sv_json_fine(const sv_json *j) { return j->in.wrong == NULL; }

#endif
