/* search_page.h - answers of 'koofu search' kept for a page of them (--html). */
#ifndef CLI_SEARCH_PAGE_H
#define CLI_SEARCH_PAGE_H

#include "search_print.h"

/* The first answers, as many as a page can bear. */
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
/* Writes --html about `queries` answers in all; `mean` is what was subtracted from text, or NULL. */
int search_page_write(cli_run *cli, search_page *page, const kf_gallery *gallery, uint32_t k,
                      uint64_t queries, const char *mean);
void search_page_say(cli_run *cli, const search_page *page,
                     uint64_t queries); /* that it is written */

#endif
