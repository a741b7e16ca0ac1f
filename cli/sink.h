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

typedef enum sink_format {
  SINK_TEXT, /* .txt or no ending: as on standard output; between tabs if there are cells */
  SINK_TABS, /* .tsv */
  SINK_CSV,
  SINK_JSON,  /* .json: one document, with a list of an object for each row */
  SINK_LINES, /* .jsonl: these objects, each on its own line */
  SINK_PARQUET,
  SINK_NPY,
  SINK_SAFETENSORS,
  SINK_UNKNOWN
} sink_format;
/* By the ending of the name alone. Standard output: SINK_TEXT or, with --json, SINK_JSON. */
sink_format format_of(const cli_run *cli, const char *path);
#define FORMAT(format) (1u << (format))
#define TEXT_FORMATS   (FORMAT(SINK_TEXT) | FORMAT(SINK_TABS) | FORMAT(SINK_CSV))
#define ROW_FORMATS    (TEXT_FORMATS | FORMAT(SINK_JSON) | FORMAT(SINK_LINES) | FORMAT(SINK_PARQUET))

typedef struct cli_json {
  FILE *file;
  int comma; /* the next value needs one before it */
} cli_json;

enum { SINK_COLUMNS = 12 };

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
  cli_json json;                   /* where the next object goes */
  int in_object, in_document;      /* a row has begun; the command closes the document itself */
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
int is_json(const sink *s); /* .json or .jsonl */
/* JSON by hand: begins the object of a row, which sink_end_row ends. */
cli_json *sink_object(sink *s);
/* The document of --json, an object in which the command opens the list of rows and closes it. */
cli_json *sink_document(sink *s);

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

/* Refuses an output whose format is not in the set `formats`, and what check_output refuses; `what`
 * is the output: "the answers". */
int check_format(cli_run *cli, const char *path, const char *what, unsigned formats);
/* Refuses an output that cannot be written, or that would replace an input named on the command
 * line. */
int check_output(cli_run *cli, const char *path);
/* The same for a native file: "a data set". */
int check_safetensors(cli_run *cli, const char *path, const char *what);
/* Refuses an output that is a file of the data, which may be given by a folder or pattern. */
int check_replaces_no_data(cli_run *cli, const kf_data *data, const char *path);
/* Refuses two outputs that are one file; b may be NULL. */
int check_outputs_differ(cli_run *cli, const char *a, const char *b);

/* "wrote PATH: ..." and how long it took, unless -q. */
void say_written(cli_run *cli, const char *path, const char *format, ...) PRINTF_LIKE(3, 4);
void say_data_written(cli_run *cli, const char *path);
int save_stats(cli_run *cli, const kf_stats *stats, const char *path); /* and says so */

#endif
