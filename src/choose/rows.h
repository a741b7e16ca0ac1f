/* rows.h - lists of labelled rows of a data set: samples, folds and few-shot draws. */
#ifndef KF_CHOOSE_ROWS_H
#define KF_CHOOSE_ROWS_H

#include "score/score.h"

#define KF_DEFAULT_SAMPLE  50000u
#define KF_LEFT_OUT_SAMPLE 2000u /* where all scores are computed */
#define KF_DEFAULT_FOLDS   5u

/* Row numbers of a data set, rising, with their labels. */
typedef struct kf_row_list {
  uint64_t n;
  uint64_t *row;
  int32_t *label; /* after the rows, in the same block */
} kf_row_list;
/* An empty list with room for `most` rows. */
kf_status kf_row_list_make(kf_row_list *rows, uint64_t most, kf_err *err);
void kf_row_list_clear(kf_row_list *rows);
static inline void kf_row_list_add(kf_row_list *rows, uint64_t row, int32_t label) {
  rows->row[rows->n] = row;
  rows->label[rows->n++] = label;
}

/* --- samples (sample.c) ----------------------------------------------------------------------- */

/* Whether item t of n (from 0) is one of `share` items spread evenly over them. */
static inline bool kf_takes(uint64_t t, uint64_t share, uint64_t n) {
  return t < n && (kf_i128)(t + 1) * share / n > (kf_i128)t * share / n;
}
/* Samples about `most` (0: KF_DEFAULT_SAMPLE) of the labelled rows, spread evenly over the data
 * set: the same share of every class, as nearly as possible, and at least one row of each.
 * *labelled: how many rows have a label. */
kf_status kf_sample_rows(kf_ctx *ctx, const kf_data *data, uint64_t most, kf_row_list *out,
                         uint64_t *labelled);

/* Where the rows of each class begin if all are put in the order of their classes, [n_classes]. */
kf_status kf_class_places(const kf_row_list *rows, uint32_t n_classes, uint64_t **out, kf_err *err);
/* Keeps at most `most` of the rows, spread evenly. */
void kf_row_list_keep(kf_row_list *rows, uint64_t most);
/* The same in the order of classes, so that each keeps its share, rounded down or up. Unlike a
 * sample with a row of every class, this does not favour small ones, so the accuracy of these rows
 * is an unbiased estimate of that of all. */
kf_status kf_row_list_keep_shares(kf_row_list *rows, uint32_t n_classes, uint64_t most,
                                  kf_err *err);

/* Test rows to judge instead of all; data is NULL if all are judged. */
typedef struct kf_test_sample {
  kf_row_list rows;
  kf_data *data;
  kf_truth *truth; /* NULL: none */
} kf_test_sample;
/* Takes at most `most` (0: all) of the labelled rows, as kf_row_list_keep_shares does; with a
 * truth, of all rows. Must be cleared after a failure, too. Errors go to the context. */
kf_status kf_test_sample_take(kf_ctx *ctx, const kf_data *test, const kf_truth *truth,
                              uint64_t most, kf_test_sample *out);
void kf_test_sample_clear(kf_test_sample *sample);

/* The first most[k] rows of each class k, or all that it has, class by class: those of class k end
 * at ends[k] of the list. */
kf_status kf_first_rows(kf_ctx *ctx, const kf_data *data, uint64_t *most, uint64_t *ends,
                        kf_row_list *out);

/* --- groups (groups.c) ------------------------------------------------------------------------ */

/* A row of a list, with its group. */
typedef struct kf_grouped_row {
  uint64_t index; /* in the list */
  uint64_t size;  /* rows of the list that are in its group */
  uint32_t group;
} kf_grouped_row;
/* The rows of a list sorted by group, then by their order in the list, [rows->n]; NULL: out of
 * memory. groups: one for every row of the data set. */
kf_grouped_row *kf_rows_by_group(const kf_row_list *rows, const uint32_t *groups, kf_arena *arena);
/* Counts the groups that the rows belong to. */
kf_status kf_count_groups(const kf_row_list *rows, const uint32_t *groups, uint64_t *n,
                          kf_err *err);

/* --- folds (folds.c) -------------------------------------------------------------------------- */

/* Assigns each row a fold in [0, folds). Folds are stratified: as nearly as possible they have
 * equal sizes and equal shares of every class. */
kf_status kf_fold_rows(const kf_row_list *rows, uint32_t n_classes, uint32_t folds,
                       unsigned char **out, kf_err *err);
/* Assigns whole groups to folds. groups: one for every row of the data set. */
kf_status kf_fold_groups(const kf_row_list *rows, const uint32_t *groups, uint32_t folds,
                         unsigned char **out, kf_err *err);
/* The rows of a fold or, with `others`, all other rows. */
kf_status kf_rows_of_fold(const kf_row_list *rows, const unsigned char *fold, uint32_t number,
                          bool others, kf_row_list *out, kf_err *err);
/* Subtracts the statistics of a fold from `rest`, a copy of those of all rows made by
 * kf_stats_copy. Merging *taken restores it. Both are exact. */
kf_status kf_fold_take_out(kf_ctx *ctx, kf_stats *rest, const kf_data *fold, kf_stats **taken);

typedef struct kf_fold {
  uint32_t number; /* from 0 */
  kf_row_list rows;
  kf_data *data;           /* the rows as a data set */
  kf_row_list judged;      /* the rows in the folding's sample */
  kf_data *others;         /* all other rows; NULL: not asked for */
  const kf_stats *without; /* statistics of all other rows */
} kf_fold;
typedef struct kf_folding {
  const kf_stats *stats; /* of the data */
  const kf_data *data;
  uint32_t folds;
  uint32_t taken; /* use only this many folds, the first ones; 0: all */
  /* Judge about this many rows, of the fewest folds that have so many; 0: all. Which fold a row is
   * in says nothing about it, so these rows stand for all. */
  uint64_t sample;
  bool others;            /* kf_fold.others is wanted */
  const uint32_t *groups; /* rows of a group go to the same fold; NULL: stratified folds */
  kf_status (*work)(void *argument, const kf_fold *fold);
  void *argument;
} kf_folding;
/* Fits a model to all rows outside a fold. dim 0: all dimensions. */
kf_status kf_fold_model(kf_ctx *ctx, const kf_fold *fold, kf_method method, kf_priors priors,
                        kf_lambda lambda, uint32_t dim, kf_centre centre, kf_model **out);
/* How many folds a folding uses for a data set of this many rows with labels. */
uint32_t kf_folds_taken(const kf_folding *folding, uint64_t rows);
/* The rows of a fold that are in the sample and whose class has rows outside the fold. */
kf_status kf_fold_sampled(const kf_fold *fold, const kf_row_list *sample, kf_row_list *out,
                          kf_err *err);
/* Calls `work` for one fold of the labelled rows after the other. KF_ERR_ARG and KF_ERR_MATH get
 * the number of the fold in their messages. Errors go to the context. */
kf_status kf_each_fold(kf_ctx *ctx, const kf_folding *folding, uint64_t *labelled);
/* Folds have fewer rows and less scatter, so an absolute lambda is made relative to the mean
 * eigenvalue of all rows. */
static inline kf_lambda kf_fold_lambda(kf_lambda lambda, double mean_eigenvalue) {
  if (lambda.unit != KF_LAMBDA_ABSOLUTE || !(mean_eigenvalue > 0)) return lambda;
  return (kf_lambda){lambda.value / mean_eigenvalue, KF_LAMBDA_RELATIVE};
}

/* --- few-shot draws (shots.c) ----------------------------------------------------------------- */

/* Draws `shots` rows of each class, or all it has. Draws of one seed are nested: fewer shots draw a
 * subset. */
kf_status kf_draw_rows(const kf_row_list *all, uint64_t seed, uint32_t shots, kf_row_list *out,
                       kf_err *err);

#endif
