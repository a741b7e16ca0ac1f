/* choose.h - choosing lambda, dimensions and k; sweeps. Sees score and below. What is here is for the
 * files of this room and for tests. */
#ifndef KF_CHOOSE_H
#define KF_CHOOSE_H

#include "score/score.h"

/* --- one stage made of many calls (quiet.c) --------------------------------------------------- */

#define KF_QUIET_SAID 64u
typedef struct kf_quiet {
  kf_ctx *ctx;
  kf_progress_fn progress;
  kf_log_fn log;
  void *user;
  const char *what;
  uint64_t done, total;
  uint64_t said[KF_QUIET_SAID]; /* hashes of messages */
  unsigned n_said;
} kf_quiet;
void kf_quiet_begin(kf_quiet *quiet, kf_ctx *ctx, const char *what, uint64_t total);
kf_status kf_quiet_step(kf_quiet *quiet); /* one of `total` */
void kf_quiet_end(kf_quiet *quiet);       /* twice does no harm */

/* --- which rows (sample.c) ------------------------------------------------------------------- */

#define KF_DEFAULT_SAMPLE 50000u
#define KF_DEFAULT_FOLDS  5u

/* Rows of a data set by number, rising, and their labels. */
typedef struct kf_rows {
  uint64_t n;
  uint64_t *row;
  int32_t *label;
} kf_rows;
kf_status kf_rows_make(kf_rows *rows, uint64_t most, kf_err *err); /* empty, with room */
void kf_rows_clear(kf_rows *rows);
static inline void kf_rows_add(kf_rows *rows, uint64_t row, int32_t label) {
  rows->row[rows->n] = row;
  rows->label[rows->n++] = label;
}

/* Whether the t-th of n things (from 0) is one of `share` that are spread evenly over them. */
static inline bool kf_takes(uint64_t t, uint64_t share, uint64_t n) {
  return t < n && (kf_i128)(t + 1) * share / n > (kf_i128)t * share / n;
}
/* Of the rows that have a label at most `most`, the same share of each class as far as numbers allow
 * and at least one, spread evenly over the data set. *labelled: how many there are to choose from.
 */
kf_status kf_sample_rows(kf_ctx *ctx, const kf_data *data, uint64_t most, kf_rows *out,
                         uint64_t *labelled);
/* fold[r] in [0, folds) for each of the given rows, so that each fold has the same share of each
 * class, as far as numbers allow, and folds are of equal size. */
kf_status kf_fold_rows(const kf_rows *rows, uint32_t n_classes, uint32_t folds, unsigned char **out,
                       kf_err *err);
/* Those of `rows` that are in the fold (or, with `others`, those that are not). */
kf_status kf_rows_of_fold(const kf_rows *rows, const unsigned char *fold, uint32_t number,
                          bool others, kf_rows *out, kf_err *err);
/* Statistics of all rows but those of a fold: the whole minus the fold, exactly. `rest` is a copy of
 * the whole, made by kf_stats_copy, which kf_fold_put_back restores. */
kf_status kf_stats_copy(kf_ctx *ctx, const kf_stats *stats, kf_stats **out);
kf_status kf_fold_take_out(kf_ctx *ctx, kf_stats *rest, const kf_data *fold, kf_stats **taken);
kf_status kf_fold_put_back(kf_ctx *ctx, kf_stats *rest, kf_stats *taken); /* frees it */
/* What went wrong without a fold (from 0) says so; returns the status. */
kf_status kf_fold_failed(kf_ctx *ctx, kf_status status, uint32_t number, uint32_t folds);
/* A lambda for folds, which have fewer rows and less scatter: an absolute one becomes relative, by the
 * mean eigenvalue of all rows. */
static inline kf_lambda kf_fold_lambda(kf_lambda lambda, double mean_eigenvalue) {
  if (lambda.unit != KF_LAMBDA_ABSOLUTE || !(mean_eigenvalue > 0)) return lambda;
  return (kf_lambda){lambda.value / mean_eigenvalue, KF_LAMBDA_RELATIVE};
}
/* Of S_w. */
kf_status kf_mean_eigenvalue(kf_ctx *ctx, const kf_stats *stats, double *out);
/* KF_ERR_ARG where statistics cannot be those of a data set. */
kf_status kf_check_statistics_of(const kf_stats *stats, const kf_data *data, kf_err *err);

/* --- few-shot draws (shots.c) ----------------------------------------------------------------- */

/* Of `all` rows, `shots` of each class, or all that it has, by the seed; the rows that fewer shots draw
 * are among them. */
kf_status kf_draw_rows(const kf_rows *all, uint64_t seed, uint32_t shots, kf_rows *out,
                       kf_err *err);

/* --- which number (pick_point.c) ------------------------------------------------------------- */

/* Which rows were right at each of n_points settings: a bit for each. */
typedef struct kf_score_card {
  uint64_t n; /* rows */
  size_t n_points;
  uint64_t stride;      /* bytes of a row */
  unsigned char *right; /* [n][stride] */
} kf_score_card;
kf_status kf_score_card_make(kf_score_card *card, uint64_t n, size_t n_points, kf_err *err);
static inline void kf_score_card_set(kf_score_card *card, uint64_t row, size_t point) {
  card->right[row * card->stride + point / 8] |= (unsigned char)(1u << point % 8);
}

/* One setting of several, as kf_dim_point and kf_k_point have them. */
typedef struct kf_setting {
  uint64_t top1, lost, won;
} kf_setting;
/* KF_ERR_ARG where a tolerance is not 0 or a share below 1. */
kf_status kf_check_tolerance(double tolerance, kf_err *err);
/* Finds the best setting (the first of equal ones) and counts rows lost and won against it; returns
 * the first one whose loss is within the tolerance, or where that is 0 within a standard error. */
size_t kf_first_good_enough(const kf_score_card *card, double tolerance, kf_setting *settings,
                            size_t *best);

/* --- leave-one-out (loo.c) ------------------------------------------------------------------- */

typedef struct kf_loo kf_loo;

/* metric: cosine or Euclidean. The fitter, its statistics and the data set must outlive it. */
kf_status kf_loo_new(kf_fitter *fitter, const kf_data *data, kf_metric metric, kf_centre centre,
                     kf_loo **out);
void kf_loo_free(kf_loo *loo);
double kf_loo_mean_eigenvalue(const kf_loo *loo);
/* As kf_fitter_lambda. */
kf_status kf_loo_lambda(const kf_loo *loo, kf_lambda lambda, double *out);

typedef struct kf_loo_count {
  uint64_t n, n_single; /* rows that were left out in turn; rows alone in their class */
} kf_loo_count;

/* Hits at each of n_points lambdas (absolute), in one pass over `rows`, where NULL stands for all. */
kf_status kf_loo_count_hits(kf_loo *loo, const kf_rows *rows, const char *what,
                            kf_lambda_point *points, size_t n_points, kf_loo_count *count);
/* With text: the text prototype of every class, of unit length, [n_classes][D]. Then a class has the
 * score text + alpha * prototype, both cosines, and the own prototype keeps the length that it has with
 * the row. */
kf_status kf_loo_set_text(kf_loo *loo, const float *rows);
typedef struct kf_loo_point {
  size_t view;  /* which lambda */
  double alpha; /* with text */
  uint64_t top1, top5;
} kf_loo_point;
/* Hits for pairs of a lambda and an alpha, in one pass. */
kf_status kf_loo_count_points(kf_loo *loo, const kf_rows *rows, const char *what,
                              const double *lambdas, size_t n_lambdas, kf_loo_point *points,
                              size_t n_points, kf_loo_count *count);
/* The leave-one-out scores of one row, cosines or squared distances, [n_classes]; NaN for classes
 * that have no rows then. */
kf_status kf_loo_scores(kf_loo *loo, uint64_t row, double lambda, double *scores);

/* --- lambda (lambda.c) ------------------------------------------------------------------------ */

/* kf_lambda_choice_new with a decomposition of S_w that is at hand. */
kf_status kf_choose_lambda(kf_fitter *fitter, const kf_data *data, const kf_lambda_options *options,
                           kf_lambda_choice **out);

/* --- text and prototypes (alpha.c) ------------------------------------------------------------ */

/* kf_fuse_choice_new, the same way. */
kf_status kf_choose_fusion(kf_fitter *fitter, const kf_data *data, const kf_text *text,
                           const kf_fuse_options *options, kf_fuse_choice **out);

/* The alpha that kf_fuse_choice_new chooses at each of n lambdas, in one pass; options->lambda is not
 * looked at. */
kf_status kf_fuse_alphas(kf_fitter *fitter, const kf_data *data, const kf_text *text, const kf_fuse_options *options,
                         const kf_lambda *lambdas, size_t n, double *alphas);

/* --- many numbers of dimensions at once (ranks.c) -------------------------------------------- */

#define KF_RANKS 5u /* ranks from 0 on that are told apart */

typedef struct kf_ranker kf_ranker;
/* Ranks for the first dims[t] directions of a model, with the classes of `stats` (which the model
 * was fitted on) that have rows and that the mask (or NULL) lets through. Everything must outlive
 * it. dims rise; the last is at most that of the model. */
kf_status kf_ranker_new(kf_ctx *ctx, const kf_model *model, const kf_stats *stats, bool euclidean,
                        const unsigned char *mask, const uint32_t *dims, size_t n_dims,
                        kf_ranker **out);
void kf_ranker_free(kf_ranker *ranker);
size_t kf_ranker_dims(const kf_ranker *ranker); /* n_dims */
/* ranks [n][n_dims]: how many wrong classes come before the first right one, at most KF_RANKS. Any
 * worker thread may call it. */
kf_status kf_ranker_rank(const kf_ranker *ranker, const float *rows, const double *norm2,
                         uint64_t n, const kf_right *right, unsigned char *ranks, kf_err *err);

/* All rows of a data set that are scored, each with its ranks [n_dims], to `use`: on any worker, in any
 * order. (rank_data.c) */
typedef void (*kf_ranked_fn)(void *argument, size_t worker, uint64_t row,
                             const unsigned char *ranks);
kf_status kf_rank_data(kf_ctx *ctx, const kf_ranker *ranker, const kf_data *data,
                       const kf_judge *judge, kf_ranked_fn use, void *argument,
                       kf_eval_result *counts);

#endif
