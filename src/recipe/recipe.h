/* recipe.h - fit, report and quickstart: one call each, built on the rooms below. */
#ifndef KF_RECIPE_H
#define KF_RECIPE_H

#include "choose/choose.h"
#include "report/report.h"

/* --- fit.c: the steps of a fit, which the other recipes share --------------------------------- */

typedef struct kf_fit_job {
  kf_ctx *ctx;
  const kf_data *data;   /* NULL: statistics alone */
  const kf_stats *stats; /* S_w */
  kf_stats *own;         /* the same, if they were made here */
  kf_fit_options options;
  bool has_rows; /* choices can be made by leaving out rows */
  kf_fitter *fitter;
  kf_lambda lambda;
  double alpha;
  double temperature; /* 0: not known */
  uint32_t dim;
  kf_fit_report *report;
} kf_fit_job;

/* Checks the options, takes or makes the statistics and the fitter, and counts near-duplicates. The
 * job must be ended after a failure, too. Errors of all functions go to the context. */
kf_status kf_fit_begin(kf_fit_job *j, kf_ctx *ctx, const kf_data *data,
                       const kf_fit_options *options);
/* Sets lambda, alpha, temperature and dim, as given or chosen. */
kf_status kf_fit_choose(kf_fit_job *j);
/* Accuracy over lambda, over alpha (and lambda, if j->lambda is KF_LAMBDA_AUTO) and over
 * dimensions, into the report. */
kf_status kf_fit_try_lambdas(kf_fit_job *j);
kf_status kf_fit_try_alphas(kf_fit_job *j);
kf_status kf_fit_try_dims(kf_fit_job *j);
/* Makes the chosen model; completes the report. */
kf_status kf_fit_finish(kf_fit_job *j, kf_model **out);
/* The model, for leaving out the rows of the job. */
kf_left_out_model kf_fit_left_out(const kf_fit_job *j, const kf_model *model, kf_metric metric);
void kf_fit_end(kf_fit_job *j); /* frees the report unless it is NULL */

/* --- report.c: the steps of a report ---------------------------------------------------------- */

typedef enum kf_report_part {
  KF_REPORT_FIT,
  KF_REPORT_CURVES,
  KF_REPORT_JUDGE,
  KF_REPORT_LAMBDAS,
  KF_REPORT_DIMS,
  KF_REPORT_K,
  KF_REPORT_SHOTS,
  KF_REPORT_PARTS
} kf_report_part;

typedef struct kf_report_job {
  kf_ctx *ctx;
  const kf_data *train;
  kf_report_options options;
  kf_fit_job fit; /* statistics and everything that was chosen */
  const kf_model *model;
  kf_model *own_model; /* the same, if it was fitted here */
  const kf_text *text; /* NULL: none */
  kf_text *own_text;   /* the same, if it is from the model */
  bool fused;          /* the model has text */
  kf_k_choice *k;
  kf_eval_result eval, eval_text, eval_fused; /* n is 0 without test rows */
  kf_analysis *analysis;
  kf_worst_row *worst; /* [n_worst] of the mistakes in it */
  size_t n_worst;
  kf_shots *shots;
  kf_sweep *sweeps[2]; /* over lambda, and over dimensions and neighbours */
  kf_stage stage;      /* also logs only once what fit, sweeps and draws all say */
  double costs[KF_REPORT_PARTS];
} kf_report_job;

/* Makes statistics, choices and the model. The job must be cleared after a failure, too. */
kf_status kf_report_choose(kf_report_job *j, kf_ctx *ctx, const kf_data *train,
                           const kf_report_options *options);
/* Judges, sweeps and writes the page. */
kf_status kf_report_finish(kf_report_job *j, const char *path);
void kf_report_clear(kf_report_job *j);

/* --- worst_rows.c ----------------------------------------------------------------------------- */

/* The mistakes with the widest margins, with ids, and thumbnails where these are paths of pictures.
 * The analysis must outlive them. Errors go to the context. */
kf_status kf_worst_rows_new(kf_ctx *ctx, const kf_data *data, const kf_analysis *analysis,
                            kf_worst_row **out, size_t *n);
void kf_worst_rows_free(kf_worst_row *rows, size_t n);
/* --- quickstart_folder.c: where a quickstart writes ------------------------------------------- */

/* KF_ERR_ARG if the folder is among the pictures, or holds a file that would be replaced and is not
 * from an earlier quickstart. */
kf_status kf_quickstart_may_write(const kf_pictures *pictures, const char *folder, kf_err *err);
#define KF_QUICKSTART_NAMES "names.json"
/* Makes the folder if it does not exist, locks it until *lock (-1: none) is closed, checks that all
 * files can be written, and writes about.txt. renamed: there will be names.json. Errors go to the
 * context. */
kf_status kf_quickstart_begin(kf_ctx *ctx, const char *folder, const char *name, bool renamed,
                              bool *made, int *lock);
/* Removes the folder if it holds nothing but about.txt. */
void kf_quickstart_undo(const char *folder);

/* --- prompts.c -------------------------------------------------------------------------------- */

/* A checksum of everything that text prototypes made from prompts depend on. */
uint64_t kf_prompts_checksum(const kf_prompts *prompts, const kf_encoder *encoder);
/* Whether a class name is a word, not a number or a WordNet id ("n01440764"). */
bool kf_is_word(const char *name);
/* The built-in templates of this name ("builtin7"); NULL: no such name (templates.c). */
const char *const *kf_builtin_templates(const char *name, size_t *n);

#endif
