/* search_unique.h - koofu search --unique. */
#ifndef CLI_SEARCH_UNIQUE_H
#define CLI_SEARCH_UNIQUE_H

#include "cli.h"

/* Writes the groups of rows that are within the limit of one another. */
int search_unique(cli_run *cli, double limit);

#endif
