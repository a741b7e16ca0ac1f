/* table.c - tables as text: tabs, or commas if the name of the file ends in .csv. */
#include "table.h"
#include "format.h"
#include "outputs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

cli_table table_for(FILE *file, const char *path) {
  return (cli_table){.file = file, .commas = path && ends_with(path, ".csv")};
}

static void begin(cli_table *t) {
  if (t->begun) putc(t->commas ? ',' : '\t', t->file);
  t->begun = 1;
}

/* Whether a spreadsheet would take text for a formula: '=', '+', '-', '@', a tab or a carriage return
 * comes first. A number, such as -0.5, is one to a spreadsheet as well. Apostrophes before it are
 * skipped, so the one that is put in front can be told from others. */
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

void table_text(cli_table *t, const char *text) {
  begin(t);
  (t->commas ? print_csv : print_escaped)(t->file, text);
}

void table_name(cli_table *t, const char *stem, uint32_t number) {
  begin(t);
  fprintf(t->file, "%s%u", stem, number);
}

void table_count(cli_table *t, uint64_t value) {
  begin(t);
  fprintf(t->file, "%llu", (unsigned long long)value);
}

void table_real(cli_table *t, int digits, double value) {
  begin(t);
  if (!isnan(value)) fprintf(t->file, "%.*f", digits, value);
}

void table_class(cli_table *t, const char *name, int32_t number) {
  if (name) {
    table_text(t, name);
    return;
  }
  begin(t);
  fprintf(t->file, "%d", number);
}

void table_end(cli_table *t) {
  putc('\n', t->file);
  t->begun = 0;
}
