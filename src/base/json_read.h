/* json_read.h - a strict reader of JSON in memory, value by value, which allocates nothing.
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
  uint64_t filled;   /* bit d: the container at depth d + 1 has had an item */
  const char *wrong; /* why this is not JSON; NULL: nothing is wrong so far */
} kf_json_reader;

/* n bytes, of which strings are decoded in place; nothing is read or written behind them. Containers may
 * be nested `depth` times, at most KF_JSON_DEPTH. Calls after the first failure do nothing. */
kf_json_reader kf_json_read(char *text, size_t n, unsigned depth);
/* The next value: '{', '[', '"', '0' (a number), 't', 'f' or 'n'; 0: none. */
char kf_json_peek(kf_json_reader *r);
/* Into the object or list at hand. */
bool kf_json_enter(kf_json_reader *r);
/* Whether there is another member or entry: its value follows. False: the end, or an error. */
bool kf_json_key(kf_json_reader *r, char **key);
bool kf_json_item(kf_json_reader *r);
/* A string, UTF-8 without NUL in it and with one after it. */
bool kf_json_text(kf_json_reader *r, char **text, size_t *n);
/* Moves past a number or a word, which stays as it is spelt. */
bool kf_json_scalar(kf_json_reader *r);
/* Whether nothing follows and nothing was wrong. */
bool kf_json_end(kf_json_reader *r);
/* Notes the first error; false. */
bool kf_json_fail(kf_json_reader *r, const char *wrong);

#endif
