/* search.h - the parts of 'koofu search': queries, answers, the page, and near duplicates. */
#ifndef CLI_SEARCH_H
#define CLI_SEARCH_H

#include "inputs.h"
#include "sink.h"

/* --- queries: rows, or pictures and words through an encoder (search_parts.c) ----------------- */

/* Consecutive queries of one kind. */
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
/* Opens operands 1 and up as queries. */
int search_parts_open(cli_run *cli, search_parts *out);
/* Refuses queries that the gallery cannot take, and decides what to subtract from text. */
int search_parts_match(cli_run *cli, search_parts *parts, const kf_gallery *gallery);
/* Makes the readers for at most *room queries at a time; *room becomes the most that are needed. */
int search_parts_start(cli_run *cli, search_parts *parts, uint64_t *room);
/* Says what was done about text. */
void say_search_text(cli_run *cli, const search_parts *parts);
uint64_t search_parts_bad(const search_parts *parts); /* queries left out so far */

/* --- answers as text, records and JSON (search_print.c) --------------------------------------- */

/* A query and its nearest rows, best first. */
typedef struct search_answer {
  const kf_gallery *gallery;
  const char *const *paths; /* of galleries that are searched as one; NULL: there is one */
  uint64_t query;           /* its number */
  const char *id;           /* NULL: none */
  int text;
  uint32_t k;
  const int64_t *rows;  /* [k] */
  const double *scores; /* [k] */
} search_answer;

/* A line for each query with its k rows or, with k = 0 and in .parquet, one for each row found;
 * in JSON an object for each query. */
int put_search_header(sink *s, const kf_gallery *gallery, uint32_t k);
int put_search_answer(sink *s, const search_answer *answer, uint32_t k);

/* --- a page of them, --html (search_page.c) --------------------------------------------------- */

/* The first answers, as many as fit on the page. */
typedef struct search_page {
  uint64_t n, room;
  const char **names; /* [room] */
  int64_t *rows;      /* [room][k] */
  double *scores;
  kf_search_page_result result; /* of writing it */
} search_page;

/* Makes room for answers with k rows each to at most n queries. */
int search_page_start(cli_run *cli, search_page *page, uint64_t n, uint32_t k);
int search_page_add(cli_run *cli, search_page *page, const search_answer *answer);
/* Writes --html about `queries` answers in all; `mean` is what was subtracted from text, or
 * NULL. */
int search_page_write(cli_run *cli, search_page *page, const kf_gallery *gallery, uint32_t k,
                      uint64_t queries, const char *mean);
/* Says that the page was written. */
void search_page_say(cli_run *cli, const search_page *page, uint64_t queries);

/* --- --unique (search_unique.c) --------------------------------------------------------------- */

/* Writes the groups of rows that are within the limit of one another. */
int search_unique(cli_run *cli, double limit);

#endif
