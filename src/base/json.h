/* json.h - a strict JSON parser that builds a flat array of nodes. Running out of memory is never
 * reported as bad text. */
#ifndef KF_JSON_H
#define KF_JSON_H

#include "base/text.h"

/* --- parsing ---------------------------------------------------------------------------------- */

typedef enum kf_json_kind {
  KF_JSON_NULL,
  KF_JSON_BOOL,
  KF_JSON_NUMBER,
  KF_JSON_STRING,
  KF_JSON_LIST,
  KF_JSON_OBJECT
} kf_json_kind;

typedef struct kf_json {
  kf_json_kind kind;
  uint32_t count;       /* list, object: children */
  uint32_t first, next; /* indices of the first child and the next sibling; 0: none */
  const char *key;      /* in an object, UTF-8 without NUL; NULL elsewhere */
  const char
      *text; /* string: UTF-8; number, word: its spelling, followed by the rest of the source */
} kf_json;

typedef struct kf_json_doc {
  kf_json *nodes; /* node 0 is the root */
  size_t n, room;
  char *text; /* the source, in which strings are decoded in place */
} kf_json_doc;

/* Parses a whole text from kf_alloc, with a NUL at text[length], and takes ownership of it even on
 * failure. `what` begins error messages: "FILE: the header". Refused: duplicate keys in an object,
 * NUL in a string, more than 64 levels, more than `most` values. A value takes 32 bytes, 48 while
 * the array grows, and 48 more in an object. */
#define KF_JSON_VALUES (1u << 20)
kf_status kf_json_take(kf_json_doc *doc, char *text, size_t length, uint32_t most, const char *what,
                       kf_err *err);
/* Parses a file of at most `limit` bytes and limit / 16 + 16 values. Memory stays below 7 times the
 * limit, whatever the file holds. */
kf_status kf_json_load(const char *path, uint64_t limit, kf_json_doc *doc, kf_err *err);
/* The same, but KF_ERR_DATA if the root is not an object. */
kf_status kf_json_load_object(const char *path, uint64_t limit, kf_json_doc *doc, kf_err *err);
void kf_json_clear(kf_json_doc *doc);
/* A member of an object; NULL if it is absent or the node is not an object. */
const kf_json *kf_json_get(const kf_json_doc *doc, const kf_json *object, const char *key);
/* The first child and the next sibling; NULL: none. */
const kf_json *kf_json_first(const kf_json_doc *doc, const kf_json *parent);
const kf_json *kf_json_next(const kf_json_doc *doc, const kf_json *node);
/* The value of an integer that fits; false for anything else, including NULL. */
bool kf_json_i64(const kf_json *node, int64_t *out);
/* The text of a string; NULL for anything else, including NULL. */
const char *kf_json_string(const kf_json *node);

/* A list of strings, without nodes because it may be long. */
typedef struct kf_json_strings {
  uint32_t n;
  const char **string;
  char *text; /* what they point into */
  size_t room;
} kf_json_strings;
/* KF_ERR_DATA unless the text is a JSON list of at most `most` strings. Clear the list even after a
 * failure. */
kf_status kf_json_strings_parse(kf_json_strings *list, const char *text, uint32_t most,
                                const char *what, kf_err *err);
void kf_json_strings_clear(kf_json_strings *list);

/* Adds a JSON string, with its quotation marks. */
void kf_string_add_json(kf_string *text, const char *string);

#endif
