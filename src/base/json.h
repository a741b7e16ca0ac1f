/* json.h - the JSON that file headers need: a strict parser into a flat list of nodes. Running out of
 * memory is never reported as bad text. */
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
  uint32_t first, next; /* numbers of the first child and of the next sibling; 0: none */
  const char *key;      /* in an object, UTF-8 without NUL; NULL elsewhere */
  const char *text;     /* string: its UTF-8; number, word: as spelt, going on with the source */
} kf_json;

typedef struct kf_json_doc {
  kf_json *nodes; /* node 0 is the whole */
  uint32_t n, room;
  char *text; /* the strings, decoded in a copy of the source */
} kf_json_doc;

/* Parses a whole text. `what` begins the message of an error: "FILE: the header". Keys may not
 * stand twice in one object, strings may not hold NUL, and lists may be 64 deep. */
kf_status kf_json_parse(kf_json_doc *doc, const char *text, size_t length, const char *what,
                        kf_err *err);
void kf_json_clear(kf_json_doc *doc);
/* The member of an object; NULL where absent or where the node is no object. */
const kf_json *kf_json_get(const kf_json_doc *doc, const kf_json *object, const char *key);
/* Walks children; NULL at the end. */
const kf_json *kf_json_first(const kf_json_doc *doc, const kf_json *parent);
const kf_json *kf_json_next(const kf_json_doc *doc, const kf_json *node);
/* The value of a number that is whole and fits; false otherwise (also for NULL). */
bool kf_json_i64(const kf_json *node, int64_t *out);
/* The text of a string; NULL for anything else (also for NULL). */
const char *kf_json_string(const kf_json *node);

/* Adds a JSON string, with its quotation marks. */
void kf_string_add_json(kf_string *text, const char *string);

#endif
