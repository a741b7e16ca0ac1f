/* sink.c - opens and finishes sinks, and writes rows of cells.
 *
 * The library writes the file; fopencookie makes it a FILE to print to. The library remembers a
 * failed write, so printing goes on and sink_finish reports it. */
#include "sink.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- opening and finishing -------------------------------------------------------------------- */

static void discard(void *object) {
  sink *s = object;
  if (s->output && s->file) fclose(s->file);
  kf_output_free(s->output);
  kf_records_free(s->records);
  free(s);
}

static ssize_t write_cookie(void *cookie, const char *bytes, size_t n) {
  const sink *s = cookie;
  return kf_output_write(s->cli->ctx, s->output, bytes, n) == KF_OK ? (ssize_t)n : 0;
}

int sink_open(cli_run *cli, const char *path, sink_format format, sink **out) {
  sink *s = calloc(1, sizeof *s);
  if (!s) return fail(cli, KF_ERR_MEM);
  *s = (sink){.cli = cli, .path = is_stdout(path) ? NULL : path, .format = format};
  TRY(own(cli, s, discard));
  *out = s;
  if (format == SINK_PARQUET) return EXIT_OK;
  if (!s->path) {
    s->file = stdout;
    return EXIT_OK;
  }
  TRY(result_of(cli, kf_output_open(cli->ctx, path, &s->output)));
  s->file = fopencookie(s, "w", (cookie_io_functions_t){.write = write_cookie});
  return s->file ? EXIT_OK : fail(cli, KF_ERR_MEM);
}

static int finish_stdout(cli_run *cli) {
  errno = 0;
  if (fflush(stdout) == 0 && !ferror(stdout)) return EXIT_OK;
  return fail_with(cli, EXIT_IO, "standard output: cannot be written: %s",
                   errno ? strerror(errno) : "it was cut short");
}

int is_json(const sink *s) { return s->format == SINK_JSON || s->format == SINK_LINES; }

/* Opens the list of a .json. */
static void open_list(sink *s) {
  if (s->json.file) return;
  s->json.file = s->file;
  if (s->format == SINK_JSON) jw_open(&s->json, NULL, '[');
}

static void close_list(sink *s) {
  open_list(s);
  jw_close(&s->json, "]\n");
}

static int finish_records(sink *s) {
  kf_records *records = s->records;
  s->records = NULL; /* freed by the commit in any case */
  return result_of(s->cli, kf_records_commit(s->cli->ctx, records));
}

int sink_finish(sink *s) {
  cli_run *cli = s->cli;
  if (s->format == SINK_PARQUET) return finish_records(s);
  if (s->format == SINK_JSON && !s->in_document) close_list(s);
  if (!s->path) return finish_stdout(cli);
  kf_output *output = s->output;
  int cut = ferror(s->file);
  cut |= fclose(s->file);
  s->file = NULL;
  kf_status status = kf_output_write(cli->ctx, output, NULL, 0); /* reports an earlier failure */
  if (cut && status == KF_OK) return fail(cli, KF_ERR_MEM);      /* of printing, not of the file */
  s->output = NULL; /* freed by the commit in any case */
  return result_of(cli, kf_output_commit(cli->ctx, output));
}

int sinks_finish(cli_run *cli, sink *const *sinks, size_t n) {
  TRY(result_of(cli, kf_outputs_begin(cli->ctx)));
  for (size_t i = 0; i < n; i++)
    if (sinks[i]) TRY(sink_finish(sinks[i]));
  return result_of(cli, kf_outputs_commit(cli->ctx));
}

/* --- text ------------------------------------------------------------------------------------- */

/* Whether a spreadsheet would take text for a formula: it starts with '=', '+', '-', '@', a tab
 * or a carriage return and is not a number such as -0.5. Apostrophes in front are skipped, so
 * the one that is added can be told from others. */
static int is_formula(const char *text) {
  const char *first = text + strspn(text, "'");
  if (!*first || !strchr("=+-@\t\r", *first)) return 0;
  if (text[strspn(text, "0123456789.eE+-")]) return 1;
  char *end = NULL;
  strtod(text, &end);
  return *end != '\0';
}

/* RFC 4180. */
static void print_csv(FILE *file, const char *text) {
  char piece[KF_SHOWN_SIZE];
  int formula = is_formula(text), quoted = formula || strpbrk(text, ",\"\r\n\t") != NULL;
  if (quoted) putc('"', file);
  if (formula) putc('\'', file);
  for (size_t at = 0; text[at];) {
    char c = text[at];
    kf_escape_next(text, &at, piece);
    if (c == '"') putc('"', file);
    if (c == '\t' || c == '\n' || c == '\r')
      putc(c, file);
    else
      fputs(piece, file);
  }
  if (quoted) putc('"', file);
}

FILE *sink_cell(sink *s) {
  if (s->at++) putc(s->format == SINK_CSV ? ',' : '\t', s->file);
  return s->file;
}

static int end_line(sink *s) {
  putc('\n', s->file);
  s->at = 0;
  return EXIT_OK;
}

/* --- rows of cells ---------------------------------------------------------------------------- */

static int is_text(const sink *s) { return s->format <= SINK_CSV; }

void sink_column(sink *s, const char *name, kf_column_type type) {
  if (is_text(s))
    sink_text(s, name);
  else
    s->columns[s->n_columns++] = (kf_column){.name = name, .type = type};
}

void sink_columns(sink *s, const char *names) {
  char name[32];
  for (size_t length; *names; names += length + (names[length] == ' ')) {
    length = strcspn(names, " ");
    snprintf(name, sizeof name, "%.*s", (int)length, names);
    sink_text(s, name);
  }
}

void sink_numbered_column(sink *s, const char *stem, uint32_t number) {
  fprintf(sink_cell(s), "%s%u", stem, number);
}

int sink_end_header(sink *s) {
  cli_run *cli = s->cli;
  if (is_text(s)) return end_line(s);
  if (is_json(s)) return EXIT_OK;
  return result_of(cli, kf_records_open(cli->ctx, s->path, s->columns, s->n_columns, &s->records));
}

cli_json *sink_object(sink *s) {
  open_list(s);
  jw_open(&s->json, NULL, '{');
  s->in_object = 1;
  return &s->json;
}

cli_json *sink_document(sink *s) {
  s->json = jw_begin(s->file);
  s->in_document = 1;
  return &s->json;
}

static cli_json *json_row(sink *s) { return s->in_object ? &s->json : sink_object(s); }

/* The key of the next cell. */
static const char *next_key(sink *s) { return s->columns[s->at++].name; }

void sink_text(sink *s, const char *text) {
  if (s->format == SINK_PARQUET)
    s->cells[s->at++] = (kf_cell){.text = text, .null = !text};
  else if (is_json(s))
    jw_text(json_row(s), next_key(s), text);
  else
    (s->format == SINK_CSV ? print_csv : print_escaped)(sink_cell(s), text ? text : "");
}

void sink_number(sink *s, int64_t value) {
  if (value < 0 && s->format != SINK_PARQUET)
    sink_text(s, NULL);
  else if (s->format == SINK_PARQUET)
    s->cells[s->at++] = (kf_cell){.integer = value, .null = value < 0};
  else if (is_json(s))
    jw_number(json_row(s), next_key(s), value);
  else
    fprintf(sink_cell(s), "%lld", (long long)value);
}

void sink_real(sink *s, int digits, double value) {
  if (s->format == SINK_PARQUET)
    s->cells[s->at++] = (kf_cell){.real = value, .null = isnan(value)};
  else if (is_json(s))
    jw_real(json_row(s), next_key(s), value);
  else if (isnan(value))
    sink_cell(s);
  else
    fprintf(sink_cell(s), "%.*f", digits, value);
}

void sink_class(sink *s, const char *name, int32_t number) {
  int by_name = s->format == SINK_PARQUET ? s->columns[s->at].type == KF_COLUMN_TEXT : name != NULL;
  if (by_name)
    sink_text(s, number < 0 ? NULL : name);
  else
    sink_number(s, number);
}

void sink_row(sink *s, const char *id, uint64_t number) {
  if (id)
    sink_text(s, id);
  else
    sink_number(s, (int64_t)number);
}

int sink_end_row(sink *s) {
  if (is_text(s)) return end_line(s);
  s->at = 0;
  if (s->format == SINK_PARQUET)
    return result_of(s->cli, kf_records_add(s->cli->ctx, s->records, s->cells));
  jw_close(&s->json, s->format == SINK_LINES ? "}\n" : "}");
  if (s->format == SINK_LINES) s->json.comma = 0;
  s->in_object = 0;
  return EXIT_OK;
}
