/* table.h - tables as text: tabs, or commas if the name of the file ends in .csv. */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include <stdint.h>
#include <stdio.h>

/* With tabs, text is printed with tabs, line ends, backslashes and control characters escaped; with
 * commas, it is quoted as in RFC 4180 where it must be. */
typedef struct cli_table {
  FILE *file;
  int commas;
  int begun; /* the line has a field already */
} cli_table;

/* path NULL: standard output, with tabs. */
cli_table table_for(FILE *file, const char *path);
void table_text(cli_table *t, const char *text);                  /* "": an empty field */
void table_name(cli_table *t, const char *stem, uint32_t number); /* "class1", for headers */
void table_count(cli_table *t, uint64_t value);
void table_real(cli_table *t, int digits, double value); /* after the decimal point; NaN: empty */
void table_class(cli_table *t, const char *name, int32_t number); /* by name, if it has one */
void table_end(cli_table *t);                                     /* of the line */

#endif
