/* records.h - answers as a .parquet: columns are declared once, then cells are put in their order. */
#ifndef CLI_RECORDS_H
#define CLI_RECORDS_H

#include "search_print.h"

enum { RECORD_COLUMNS = 10 };

typedef struct records_out {
  kf_records *file; /* NULL: not wanted */
  kf_column columns[RECORD_COLUMNS];
  kf_cell cells[RECORD_COLUMNS];
  size_t n, at;
  char id[65537]; /* the longest there is */
} records_out;

int is_parquet(const char *path); /* NULL: no */
void records_column(records_out *r, const char *name, kf_column_type type);
int records_open(cli_run *cli, records_out *r, const char *path);
void records_text(records_out *r, const char *text); /* NULL: null */
void records_integer(records_out *r, int64_t value); /* below 0: null */
void records_real(records_out *r, double value);     /* NaN: null */
/* A class by name, or by number if it has none; below 0: null. */
void records_class(records_out *r, const char *name, int32_t number);
/* `own` or, if it is NULL, the id of a row of a data set, until the next call; NULL: it has none. */
const char *records_id(cli_run *cli, records_out *r, const kf_data *data, uint64_t row,
                       const char *own);
int records_end(cli_run *cli, records_out *r); /* of a record */
int records_commit(cli_run *cli, records_out *r);
void records_abort(records_out *r);

/* The answers of a search, a record for each: query, query_id, rank, row, id, label, score. */
void records_of_search(records_out *r, const kf_gallery *gallery);
int records_put_answer(cli_run *cli, records_out *r, const search_answer *answer);

#endif
