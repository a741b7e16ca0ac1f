/* rows.h - labelled rows of a data set by number: samples, folds and few-shot draws. */
#ifndef KF_CHOOSE_ROWS_H
#define KF_CHOOSE_ROWS_H

#include "score/score.h"

#define KF_DEFAULT_SAMPLE  50000u
#define KF_LEFT_OUT_SAMPLE 2000u /* where all scores are computed */
#define KF_DEFAULT_FOLDS   5u

/* Rows of a data set by number, rising, and their labels. */
typedef struct kf_row_list {
  uint64_t n;
  uint64_t *row;
  int32_t *label; /* after the rows, in the same block */
} kf_row_list;
kf_status kf_row_list_make(kf_row_list *rows, uint64_t most, kf_err *err); /* empty, with room */
void kf_row_list_clear(kf_row_list *rows);
static inline void kf_row_list_add(kf_row_list *rows, uint64_t row, int32_t label) {
  rows->row[rows->n] = row;
  rows->label[rows->n++] = label;
}

/* --- samples (sample.c) ----------------------------------------------------------------------- */

/* Whether the t-th of n things (from 0) is one of `share` that are spread evenly over them. */
static inline bool kf_takes(uint64_t t, uint64_t share, uint64_t n) {
  return t < n && (kf_i128)(t + 1) * share / n > (kf_i128)t * share / n;
}
/* At most `most` (0: KF_DEFAULT_SAMPLE) of the rows that have a label: the same share of each
 * class as far as numbers allow, at least one row each, spread evenly over the data set.
 * *labelled: how many there are to choose from. */
kf_status kf_sample_rows(kf_ctx *ctx, const kf_data *data, uint64_t most, kf_row_list *out,
                         uint64_t *labelled);

/* Keeps `most` of the rows, spread evenly. */
void kf_row_list_keep(kf_row_list *rows, uint64_t most);

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
/* The rows of a list by group, then in its order, [rows->n]; NULL: no memory. groups: of every row
 * of the data set. */
kf_grouped_row *kf_rows_by_group(const kf_row_list *rows, const uint32_t *groups, kf_arena *arena);
/* How many groups the rows are from. */
kf_status kf_count_groups(const kf_row_list *rows, const uint32_t *groups, uint64_t *n,
                          kf_err *err);

/* --- folds (folds.c) -------------------------------------------------------------------------- */

/* fold[r] in [0, folds) for each of the given rows, so that folds are of equal size and have the
 * same share of each class, as far as numbers allow. */
kf_status kf_fold_rows(const kf_row_list *rows, uint32_t n_classes, uint32_t folds,
                       unsigned char **out, kf_err *err);
/* The same with rows of a group in the same fold; groups: of every row of the data set. */
kf_status kf_fold_groups(const kf_row_list *rows, const uint32_t *groups, uint32_t folds,
                         unsigned char **out, kf_err *err);
/* The rows that are in the fold (or, with `others`, those that are not). */
kf_status kf_rows_of_fold(const kf_row_list *rows, const unsigned char *fold, uint32_t number,
                          bool others, kf_row_list *out, kf_err *err);
/* Statistics of all rows but those of a fold: the whole minus the fold, exactly. `rest` is a
 * copy of the whole, made by kf_stats_copy; merging what was taken restores it. */
kf_status kf_fold_take_out(kf_ctx *ctx, kf_stats *rest, const kf_data *fold, kf_stats **taken);

/* One fold, left out of everything else. */
typedef struct kf_fold {
  uint32_t number;         /* from 0 */
  kf_row_list rows;        /* in it */
  kf_data *data;           /* the same as a data set */
  kf_data *others;         /* all other rows; NULL: not asked for */
  const kf_stats *without; /* statistics of all other rows */
} kf_fold;
typedef struct kf_folding {
  const kf_stats *stats; /* of the data */
  const kf_data *data;
  uint32_t folds;
  uint32_t taken;         /* folds that are handed out, the first ones; 0: all */
  bool others;            /* kf_fold.others is wanted */
  const uint32_t *groups; /* rows of a group are in the same fold; NULL: folds are stratified */
  kf_status (*work)(void *argument, const kf_fold *fold);
  void *argument;
} kf_folding;
/* A model of all rows but a fold. */
kf_status kf_fold_model(kf_ctx *ctx, const kf_fold *fold, kf_method method, kf_priors priors,
                        kf_lambda lambda, uint32_t dim, kf_centre centre, kf_model **out);
/* The rows of a fold that are in the sample and whose class has others left. */
kf_status kf_fold_sampled(const kf_fold *fold, const kf_row_list *sample, kf_row_list *out,
                          kf_err *err);
/* Hands the folds of the labelled rows to `work`, one after the other; its errors KF_ERR_ARG and
 * KF_ERR_MATH get the number of the fold. Errors go to the context. */
kf_status kf_each_fold(kf_ctx *ctx, const kf_folding *folding, uint64_t *labelled);
/* A lambda for folds, which have fewer rows and less scatter: an absolute one becomes relative,
 * by the mean eigenvalue of all rows. */
static inline kf_lambda kf_fold_lambda(kf_lambda lambda, double mean_eigenvalue) {
  if (lambda.unit != KF_LAMBDA_ABSOLUTE || !(mean_eigenvalue > 0)) return lambda;
  return (kf_lambda){lambda.value / mean_eigenvalue, KF_LAMBDA_RELATIVE};
}

/* --- few-shot draws (shots.c) ----------------------------------------------------------------- */

/* `shots` rows of each class, or all that it has, drawn by the seed; the rows that fewer shots
 * draw are among them. */
kf_status kf_draw_rows(const kf_row_list *all, uint64_t seed, uint32_t shots, kf_row_list *out,
                       kf_err *err);

#endif
