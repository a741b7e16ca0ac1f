/* format.h - numbers and names for people. */
#ifndef CLI_FORMAT_H
#define CLI_FORMAT_H

#include <stdint.h>
#include <stdio.h>

typedef struct shown {
  char text[64];
} shown;
shown show_count(uint64_t n);              /* 1,281,167 */
shown show_dim(uint32_t dim, uint32_t of); /* "128 of 512 dimensions", "512 dimensions" */
shown show_counted(uint64_t n, const char *one, const char *many); /* 1 row, 12 rows */
shown show_rate(double a_second);                                  /* 1,234 or 2.5 */
shown show_bytes(uint64_t n);                                      /* 1.2 MiB */
shown show_seconds(double seconds);                                /* 0.25 s, 3:07 min */
shown show_real(double value);                                     /* 0.465696 */
shown show_relative(double lambda, double mean_eigenvalue);        /* 0.3x */
shown show_percent(uint64_t hits, uint64_t n);                     /* 54.83 % */
shown show_interval(uint64_t hits, uint64_t n);                    /* [53.05, 56.61] */

/* Text from files and users is printed by one of these three, never by %s. */
/* For people: escapes what is not plainly visible, as kf_escape_next does. */
void print_plain(FILE *file, const char *text);
/* A field between tabs: also doubles backslashes, so a program can undo it. */
void print_escaped(FILE *file, const char *text);
/* A line for other programs: unescaped, unless the file is a terminal. */
void put_line(FILE *file, const char *text);

#endif
