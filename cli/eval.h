/* eval.h - truth, class sets and errors by class (judging.c), and what 'koofu eval' found. */
#ifndef CLI_EVAL_H
#define CLI_EVAL_H

#include "inputs.h"
#include "sink.h"

/* Loads judge_options; what was not given stays NULL. set may be NULL for commands without
 * --class-set. */
int load_judging(cli_run *cli, kf_truth **truth, kf_class_set **set);

/* NAME, NAME_low and NAME_high, as fractions; null unless known. */
void print_json_share(cli_json *j, const char *name, uint64_t hits, uint64_t n, int known);
/* NAME_top1 and NAME_top5 in the same way; name "" gives top1 and top5. */
void print_json_hits(cli_json *j, const char *name, uint64_t top1, uint64_t top5, uint64_t n,
                     int known);

void print_errors(const kf_model *model, const kf_analysis *analysis);
/* Two of its tables: the worst classes, and the most frequent confusions. */
void print_worst(const kf_model *model, const kf_class_names *names, const kf_analysis *analysis);
void print_confusions(const kf_model *model, const kf_class_names *names,
                      const kf_analysis *analysis);
/* The ids of the rows that went wrong by the widest margin. Reading sorts the mistakes. */
enum { SHOWN_WRONG = 10 };
typedef struct wrong_rows {
  const char *ids[SHOWN_WRONG];
  size_t n;
} wrong_rows;
int read_wrong(cli_run *cli, const kf_data *data, kf_analysis *analysis, wrong_rows *out);
void print_wrong(const kf_model *model, const kf_class_names *names, const kf_analysis *analysis,
                 const wrong_rows *rows);
void print_json_errors(cli_json *j, const kf_model *model, const kf_analysis *analysis);
/* Refuses --per-class, --confusions and --wrong if they cannot be written (cmd_eval.c). */
int check_tables(cli_run *cli);
/* Writes them if they are given. */
int write_tables(cli_run *cli, const kf_model *model, const kf_data *data,
                 const kf_analysis *analysis);

/* --- koofu eval (cmd_eval.c, eval_print.c) ---------------------------------------------------- */

typedef struct eval_job {
  cli_run *cli;
  kf_model *model;     /* NULL: the gallery alone */
  kf_gallery *gallery; /* NULL: prototypes only */
  kf_data *data;       /* NULL: the rows of the gallery, by neighbours only */
  kf_data *unknown;    /* NULL: none */
  kf_truth *truth;     /* NULL: labels */
  kf_class_set *set;   /* NULL: all classes */
  cli_zero_shot zero;  /* without text: all NULL */
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
/* The model whose errors are analysed: that of the text if there is text. */
const kf_model *eval_judged(const eval_job *job);

void eval_print_text(const eval_job *job);
void eval_print_json(const eval_job *job);

#endif
