/* sink.h - where a command writes its results: standard output, or files that appear whole or not
 * at all.
 *
 * A sink is opened, written and finished. Its format decides what a cell becomes: a field
 * between tabs or commas, a member of a JSON object, or a value in a Parquet column. A failed
 * write is reported by sink_finish at the latest. The run owns its sinks and discards those that
 * are not finished. */
#ifndef CLI_SINK_H
#define CLI_SINK_H

#include "cli.h"

#include <stdio.h>

typedef enum sink_format { SINK_TABS, SINK_CSV, SINK_JSON, SINK_PARQUET, SINK_ARRAYS } sink_format;
/* By the ending of the name: .csv, .parquet, .npy and .safetensors (arrays); otherwise tabs, as for
 * NULL and "-". JSON, an object on each line, is for the command to choose. */
sink_format format_of(const char *path);

/* JSON, one document on each line. */
typedef struct cli_json {
  FILE *file;
  int comma; /* the next value needs one before it */
} cli_json;

enum { SINK_COLUMNS = 12, SINK_ID_SIZE = 65537 /* of the longest id */ };

typedef struct sink {
  cli_run *cli;
  const char *path; /* NULL: standard output */
  sink_format format;
  FILE *file;                      /* to print to; NULL: .parquet */
  kf_output *output;               /* the file behind it; NULL: stdout */
  kf_records *records;             /* .parquet, from sink_end_header on */
  kf_column columns[SINK_COLUMNS]; /* of .parquet and JSON */
  kf_cell cells[SINK_COLUMNS];     /* of the current row of a .parquet */
  size_t n_columns, at;            /* at: cells in the current row */
  cli_json json;                   /* the current row as an object */
  char *id;                        /* [SINK_ID_SIZE] of the current row; NULL: not needed yet */
  int failed;                      /* exit status of a failure to be returned by sink_end_row */
} sink;

/* path NULL or "-": standard output. Not for arrays. */
int sink_open(cli_run *cli, const char *path, sink_format format, sink **out);
/* Puts the file in its place, and reports what could not be written. */
int sink_finish(sink *s);
/* All of them or none; NULL: not wanted. */
int sinks_finish(cli_run *cli, sink *const *sinks, size_t n);

/* --- rows of cells (sink.c) ------------------------------------------------------------------- */

/* First the names of the columns, the header line of a text file. */
void sink_column(sink *s, const char *name, kf_column_type type);
/* Text files only: several names separated by spaces, and a name such as "class1". */
void sink_columns(sink *s, const char *names);
void sink_numbered_column(sink *s, const char *stem, uint32_t number);
int sink_end_header(sink *s);
/* Then the cells of each row, in the order of the columns. These are null (empty in text): text
 * NULL, a number below 0, and NaN. */
void sink_text(sink *s, const char *text);
void sink_number(sink *s, int64_t value);
void sink_real(sink *s, int digits, double value); /* digits after the decimal point, in text */
FILE *sink_cell(sink *s); /* starts a cell of a text file, to be printed to the FILE */
void sink_class(sink *s, const char *name, int32_t number); /* by name, if it has one */
void sink_row(sink *s, const char *id, uint64_t number); /* a row by id, or by number without one */
int sink_end_row(sink *s);
/* `known` or, if it is NULL, the id of a row of a data set, until the next call; NULL: it has
 * none. */
const char *sink_id(sink *s, const kf_data *data, uint64_t row, const char *known);

/* --- arrays of answers (sink_arrays.c) -------------------------------------------------------- */

/* What a search writes to .npy (k > 0 only) and .safetensors: row numbers and scores. */
typedef struct sink_arrays sink_arrays;
/* n queries with k rows each or, with k = 0, all rows within the limit. */
int sink_open_arrays(cli_run *cli, const char *path, uint64_t n, uint32_t k, double limit,
                     const char *metric, sink_arrays **out);
/* Answers [n][k] of the queries from `first` on. */
int sink_put_arrays(sink_arrays *a, uint64_t first, uint64_t n, const int64_t *rows,
                    const double *scores);
/* k = 0: the answers of the queries numbers[] + before, which rise (NULL: those that follow). */
int sink_put_ranges(sink_arrays *a, const kf_ranges *ranges, const uint64_t *numbers,
                    uint64_t before);
int sink_finish_arrays(sink_arrays *a);
/* OUT_scores.npy for OUT.npy, owned by the run; NULL: out of memory. */
const char *scores_path(cli_run *cli, const char *path);

/* --- JSON (sink_json.c) ----------------------------------------------------------------------- */

cli_json jw_begin(FILE *file); /* opens the outermost object */
void jw_end(cli_json *j);      /* closes it and ends the line */
/* key is NULL inside a list. Values that JSON lacks (NaN, infinity) become null. */
void jw_open(cli_json *j, const char *key, char bracket);
void jw_close(cli_json *j, const char *brackets);              /* "]", or several: "]}" */
void jw_text(cli_json *j, const char *key, const char *value); /* NULL: null */
void jw_count(cli_json *j, const char *key, uint64_t value);
void jw_count_if(cli_json *j, const char *key, uint64_t value, int known); /* or null */
void jw_number(cli_json *j, const char *key, int64_t value);
void jw_real(cli_json *j, const char *key, double value);
void jw_reals(cli_json *j, const char *key, const double *values, size_t n); /* a list */
void jw_flag(cli_json *j, const char *key, int value);
void jw_null(cli_json *j, const char *key);
void jw_class(cli_json *j, const char *key, const char *name, int32_t number); /* as sink_class */

/* --- checks before the work, and what is said after it (outputs.c) ---------------------------- */

int is_stdout(const char *path); /* NULL or "-" */
int ends_with(const char *text, const char *end);

/* Refuses an output that cannot be written, or that would replace an input named on the command
 * line. */
int check_output(cli_run *cli, const char *path);
/* The same, unless it is standard output. */
int check_text_output(cli_run *cli, const char *path);
/* The same for a native file, which `kind` names: "data set". */
int check_safetensors(cli_run *cli, const char *path, const char *kind);
/* Refuses an output that is a file of the data, which may be given by a folder or pattern. */
int check_replaces_no_data(cli_run *cli, const kf_data *data, const char *path);
/* Refuses two outputs that are one file; b may be NULL. */
int check_outputs_differ(cli_run *cli, const char *a, const char *b);

/* "wrote PATH: ..." and how long it took, unless -q. */
void say_written(cli_run *cli, const char *path, const char *format, ...) PRINTF_LIKE(3, 4);
void say_data_written(cli_run *cli, const char *path);
int save_stats(cli_run *cli, const kf_stats *stats, const char *path); /* and says so */

#endif
