/* choosing.h - lambda, alpha and dimensions chosen from training rows. Each function says what was
 * chosen. */
#ifndef CLI_CHOOSING_H
#define CLI_CHOOSING_H

#include "cli.h"

/* --lambda, or by default leave-one-out if there are rows (data may be NULL). If lambda was chosen,
 * the choice is handed out unless `out` is NULL. */
int choose_lambda(cli_run *cli, const kf_stats *stats, const kf_data *data, kf_lambda *lambda,
                  kf_lambda_choice **out);
/* --dim auto. */
int choose_dim(cli_run *cli, const kf_stats *stats, const kf_data *data, kf_lambda lambda,
               uint32_t *dim);
/* The options of 'koofu fit'; alpha must outlive them. */
int read_fit_options(cli_run *cli, kf_fit_options *options, double *alpha);
/* Says what a fit chose and how good it is. */
void say_fit_choices(cli_run *cli, const kf_fit_report *report);
/* --fuse: whether alpha is to be chosen; otherwise its value. */
int read_fuse(cli_run *cli, int *automatic, double *alpha);
/* --text and --fuse: lambda and alpha; the choice as above. */
int choose_fusion(cli_run *cli, const kf_stats *stats, const kf_data *data, const kf_text *text,
                  kf_lambda *lambda, double *alpha, kf_fuse_choice **out);
/* Refuses options on choosing if nothing is chosen. */
int check_choose_options(cli_run *cli);
/* Checks --lambda as far as possible before the work. */
int check_lambda(cli_run *cli);

#endif
