/* eval_print.h - what 'koofu eval' has found, and how it is printed. */
#ifndef CLI_EVAL_PRINT_H
#define CLI_EVAL_PRINT_H

#include "texts.h"

typedef struct eval_job {
  cli_run *cli;
  /* Inputs. */
  kf_model *model;     /* NULL: the gallery alone */
  kf_gallery *gallery; /* NULL: prototypes only */
  kf_data *data;       /* NULL: the rows of the gallery, by neighbours only */
  kf_data *unknown;    /* NULL: none */
  kf_truth *truth;     /* NULL: labels */
  kf_class_set *set;   /* NULL: all classes */
  cli_zero_shot zero;  /* without text: all NULL */
  /* Results. */
  kf_eval_result prototypes, text, neighbours;
  kf_eval_result own_text, fused;    /* of a model that has text */
  kf_analysis *analysis;             /* NULL: errors by class are not wanted */
  const kf_calibration *calibration; /* NULL: no temperature, or not wanted */
  kf_open_set_result open_set;
  kf_hits *hits; /* [n_k] */
  size_t n_k;
  uint32_t own_k; /* -k auto */
  kf_search_report report;
} eval_job;

/* Whether there is a model, and rows that it may not have been fitted on. */
int eval_has_prototypes(const eval_job *job);
/* Whether the model has text and is evaluated with it. */
int eval_has_parts(const eval_job *job);
/* The model whose errors are looked at: that of the text if there is text. */
const kf_model *eval_judged(const eval_job *job);

void eval_print_text(const eval_job *job);
void eval_print_json(const eval_job *job);

#endif
