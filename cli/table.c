/* table.c - tables as text: tabs, or commas if the name of the file ends in .csv. */
#include "table.h"
#include "format.h"
#include "outputs.h"

#include <math.h>
#include <string.h>

cli_table table_for(FILE *file, const char *path) {
  return (cli_table){.file = file, .commas = path && ends_with(path, ".csv")};
}

static void begin(cli_table *t) {
  if (t->begun) putc(t->commas ? ',' : '\t', t->file);
  t->begun = 1;
}

void table_text(cli_table *t, const char *text) {
  begin(t);
  if (!t->commas) {
    print_escaped(t->file, text);
  } else if (!strpbrk(text, ",\"\r\n")) {
    fputs(text, t->file);
  } else {
    putc('"', t->file);
    for (; *text; text++) {
      if (*text == '"') putc('"', t->file);
      putc(*text, t->file);
    }
    putc('"', t->file);
  }
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
