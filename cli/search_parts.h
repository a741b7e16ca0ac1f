/* search_parts.h - the queries of 'koofu search': rows, or pictures and words through an encoder. */
#ifndef CLI_SEARCH_PARTS_H
#define CLI_SEARCH_PARTS_H

#include "encoders.h"

/* Queries of one kind that stand together on the command line. */
typedef struct search_part {
  cli_queries queries;
  uint64_t first;          /* number of its first query */
  int text;                /* they are text */
  const double *text_mean; /* [dim] what is subtracted from them; NULL: nothing */
  uint64_t room;           /* queries at a time, from search_parts_start on */
} search_part;

typedef struct search_parts {
  search_part *parts; /* [n] */
  size_t n;
  uint64_t queries, text; /* in all, bad ones included, and those that are text */
  const char *mean;       /* what text_mean is the mean of; NULL: there is none */
} search_parts;

/* Refuses options on text that do not go together. */
int check_search_text(cli_run *cli);
/* Opens operands 1 and up as queries of a gallery. */
int search_parts_open(cli_run *cli, const kf_gallery *gallery, search_parts *out);
/* Makes the readers, for at most *room queries at a time; *room becomes the most that are needed. */
int search_parts_start(cli_run *cli, search_parts *parts, uint64_t *room);
/* Says what was done about text. */
void say_search_text(cli_run *cli, const search_parts *parts);
uint64_t search_parts_bad(const search_parts *parts); /* queries left out so far */

#endif
