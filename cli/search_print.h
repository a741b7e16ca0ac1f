/* search_print.h - answers of 'koofu search' as text and as JSON. */
#ifndef CLI_SEARCH_PRINT_H
#define CLI_SEARCH_PRINT_H

#include "json.h"

/* A query and its nearest rows, best first. */
typedef struct search_answer {
  const kf_gallery *gallery;
  const char *const *paths; /* of galleries that are searched as one; NULL: there is one */
  uint64_t query;           /* its number */
  const char *id;           /* NULL: it has a number alone */
  int text;
  uint32_t k;
  const int64_t *rows;  /* [k] */
  const double *scores; /* [k] */
} search_answer;

/* k = 0: a row in each line. */
void print_search_header(FILE *file, const kf_gallery *gallery, uint32_t k);
void print_search_answer(FILE *file, const search_answer *answer); /* a line of it */
void json_search_answer(cli_json *j, const search_answer *answer); /* an element of a list */

#endif
