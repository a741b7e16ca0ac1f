/* json.h - writes JSON, one document per line. */
#ifndef CLI_JSON_H
#define CLI_JSON_H

#include "cli.h"

#include <stdio.h>

typedef struct cli_json {
  FILE *file;
  int comma; /* the next value needs one before it */
} cli_json;

/* key is NULL inside a list. Values that JSON lacks (NaN, infinity) become null. */
void jw_open(cli_json *j, const char *key, char bracket);
void jw_close(cli_json *j, char bracket);
void jw_text(cli_json *j, const char *key, const char *value); /* NULL: null */
void jw_count(cli_json *j, const char *key, uint64_t value);
void jw_count_if(cli_json *j, const char *key, uint64_t value, int known); /* or null */
void jw_number(cli_json *j, const char *key, int64_t value);
void jw_real(cli_json *j, const char *key, double value);
void jw_flag(cli_json *j, const char *key, int value);
void jw_null(cli_json *j, const char *key);
void jw_class(cli_json *j, const char *key, const char *name, int32_t number); /* as print_class */
void jw_end(cli_json *j); /* closes the outermost object, and ends the line */

#endif
