/* fit_options.h - the options of a fit, and what it chose. */
#ifndef CLI_FIT_OPTIONS_H
#define CLI_FIT_OPTIONS_H

#include "cli.h"

/* The options of a fit; alpha must outlive them. */
int read_fit_options(cli_run *cli, kf_fit_options *options, double *alpha);
/* --fuse: whether alpha is to be chosen; otherwise its value. */
int read_fuse(cli_run *cli, int *automatic, double *alpha);
/* Refuses options on choosing if nothing is chosen. */
int check_choose_options(cli_run *cli);
/* Says what a fit chose and how good it is. */
void say_fit_choices(cli_run *cli, const kf_fit_report *report);
/* Warns that `near` of n rows have a near duplicate in their class. */
void say_near(cli_run *cli, uint64_t near, uint64_t n);
/* Prints the report of a fit as one JSON object (fit_json.c). */
void print_fit_json(const kf_fit_report *report, const kf_model *model, const char *path);

#endif
