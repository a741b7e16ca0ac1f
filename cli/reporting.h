/* reporting.h - a page about training rows. */
#ifndef CLI_REPORTING_H
#define CLI_REPORTING_H

#include "cli.h"

/* Inputs and contents of the page. Rows, statistics and names are required; everything else is used
 * if present. All of it is freed. */
typedef struct report_job {
  cli_run *cli;
  const char *path, *title, *train_name, *test_name;
  kf_data *train, *test; /* test NULL: folds of the training rows */
  kf_stats *stats;
  kf_truth *truth;          /* NULL: labels */
  kf_text *text;            /* NULL: none */
  kf_model *model;          /* NULL: one with what is chosen is fitted */
  kf_lambda_choice *lambda; /* NULL: it is chosen; so are fuse, dim and k */
  kf_fuse_choice *fuse;
  kf_lambda chosen; /* of the model */
  double alpha;     /* of the model, if it has text */
  int alpha_given;  /* as a number, by an option */
  kf_dim_choice *dim;
  kf_k_choice *k;
  kf_eval_result eval, by_text, fused;
  kf_analysis *analysis;
  kf_shots *shots;
  kf_sweep sweep; /* the cells of two sweeps, in an array of our own */
} report_job;
int report_write(report_job *job);
/* Whether the model of the page has text. */
int report_fused(const report_job *job);
void report_free(report_job *job);

#endif
