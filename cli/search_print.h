/* search_print.h - answers of 'koofu search' as text, records and JSON. */
#ifndef CLI_SEARCH_PRINT_H
#define CLI_SEARCH_PRINT_H

#include "sink.h"

/* A query and its nearest rows, best first. */
typedef struct search_answer {
  const kf_gallery *gallery;
  const char *const *paths; /* of galleries that are searched as one; NULL: there is one */
  uint64_t query;           /* its number */
  const char *id;           /* NULL: it has a number only, or an id in its data set */
  const kf_data *data;      /* the data set of the query; NULL: it is from elsewhere */
  uint64_t row;             /* its row there */
  int text;
  uint32_t k;
  const int64_t *rows;  /* [k] */
  const double *scores; /* [k] */
} search_answer;

/* Answers as rows of cells: a line for each query with its k rows or, with k = 0 and in .parquet, one
 * for each row found. */
int put_search_header(sink *s, const kf_gallery *gallery, uint32_t k);
int put_search_answer(sink *s, const search_answer *answer, uint32_t k);
void json_search_answer(cli_json *j, const search_answer *answer); /* an element of a list */

#endif
