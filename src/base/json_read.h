/* json_read.h - a strict pull parser for JSON in memory, which allocates nothing.
 *
 *     kf_json_enter(&r);
 *     while (kf_json_key(&r, &key)) if (strcmp(key, "top") == 0) ... else ...
 *     if (!kf_json_end(&r)) ... r.wrong says why not, at r.at
 *
 * base/json.h builds a tree with it. This header stands alone, for serve/. */
#ifndef KF_JSON_READ_H
#define KF_JSON_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KF_JSON_DEPTH 64u

typedef struct kf_json_reader {
  char *begin, *at, *end;
  unsigned depth, most_depth;
  uint64_t filled;   /* bit d: the container at depth d + 1 has an item already */
  const char *wrong; /* why this is not JSON; NULL: no error so far */
} kf_json_reader;

/* Reads n bytes, decoding strings in place; touches nothing after them. Containers may be nested
 * `depth` deep, at most KF_JSON_DEPTH. Calls after the first failure are no-ops. */
kf_json_reader kf_json_read(char *text, size_t n, unsigned depth);
/* The kind of the next value: '{', '[', '"', '0' (a number), 't', 'f' or 'n'; 0: there is none. */
char kf_json_peek(kf_json_reader *r);
/* Enters the object or list that comes next. */
bool kf_json_enter(kf_json_reader *r);
/* Moves to the value of the next member or entry. False: the end, or an error. */
bool kf_json_key(kf_json_reader *r, char **key);
bool kf_json_item(kf_json_reader *r);
/* Reads a string: UTF-8 without NULs, followed by a NUL. */
bool kf_json_text(kf_json_reader *r, char **text, size_t *n);
/* Moves past a number or a word, whose spelling stays in place. */
bool kf_json_scalar(kf_json_reader *r);
/* Whether the text ends here and nothing was wrong. */
bool kf_json_end(kf_json_reader *r);
/* Records the first error; returns false. */
bool kf_json_fail(kf_json_reader *r, const char *wrong);

#endif
