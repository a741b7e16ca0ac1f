/* choosing.h - how to fit, as the options say, and what a fit chose. */
#ifndef CLI_CHOOSING_H
#define CLI_CHOOSING_H

#include "cli.h"

/* The options of a fit; alpha must outlive them. */
int read_fit_options(cli_run *cli, kf_fit_options *options, double *alpha);
/* --fuse: whether alpha is to be chosen; otherwise its value. */
int read_fuse(cli_run *cli, int *automatic, double *alpha);
/* Refuses options on choosing if nothing is chosen. */
int check_choose_options(cli_run *cli);
/* Says how many training rows were left out, if any. */
void say_rows_left_out(cli_run *cli, uint64_t rows, uint64_t unlabelled, uint64_t bad);
/* Says what a fit chose and how good it is. */
void say_fit_choices(cli_run *cli, const kf_fit_report *report);

#endif
