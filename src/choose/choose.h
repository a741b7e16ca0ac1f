/* choose.h - choosing lambda, alpha, dimensions and k from training rows; sweeps; few-shot
 * curves. The header that other rooms and tests include. */
#ifndef KF_CHOOSE_H
#define KF_CHOOSE_H

#include "choose/positions.h"
#include "choose/rows.h"

/* Resolves KF_CRITERION_DEFAULT (lambda.c). */
kf_criterion kf_criterion_for(kf_criterion criterion, kf_method method);
/* KF_ERR_ARG if unit rows cannot be weighed by the priors of the training rows. */
kf_status kf_check_weighing(kf_metric metric, kf_criterion criterion, kf_err *err);

/* Rows that suffice to compare losses: at least 262, more if classes are few. */
static inline uint64_t kf_curve_rows(uint32_t n_classes) {
  const uint64_t least = 262, rows = (1u << 16) / n_classes;
  return rows > least ? rows : least;
}

/* --- costs ------------------------------------------------------------------------------------ */

/* About how long work takes, for progress alone, in units of a product in the first pass of a
 * search. Measured with AVX-512 and 256 columns, and within a factor of two elsewhere. */

/* Mapping rows of `from` columns to `to`, and packing them. */
static inline double kf_cost_of_index(double rows, double from, double to) {
  return rows * from * (1600 + 20 * to);
}
/* With few dimensions more rows survive the first pass. */
static inline double kf_cost_of_search(double queries, double rows, double dim) {
  return queries * rows * (16 + dim + 256 / dim);
}
/* Comparing rows of `dim` columns with prototypes. */
static inline double kf_cost_of_prototypes(double rows, double classes, double dim) {
  return rows * dim * (800 + 16 * (dim + classes));
}

/* --- with a fitter ---------------------------------------------------------------------------- */

/* kf_lambda_choice_new with a decomposition of S_w that is already there (lambda.c). */
kf_status kf_lambda_choice_with(kf_fitter *fitter, const kf_data *data,
                                const kf_lambda_options *options, kf_lambda_choice **out);
/* Leave-one-out at one lambda (absolute), for its temperature. `loss` is NaN if no row can be left
 * out. */
kf_status kf_lambda_measure(kf_fitter *fitter, const kf_data *data,
                            const kf_lambda_options *options, double lambda, kf_lambda_point *out);
/* The same for kf_fuse_choice_new (alpha.c). */
kf_status kf_fuse_choice_with(kf_fitter *fitter, const kf_data *data, const kf_text *text,
                              const kf_fuse_options *options, kf_fuse_choice **out);
/* The alpha that kf_fuse_choice_new chooses at each of n lambdas. options->lambda is ignored. */
kf_status kf_fuse_alphas(kf_fitter *fitter, const kf_data *data, const kf_text *text,
                         const kf_fuse_options *options, const kf_lambda *lambdas, size_t n,
                         double *alphas);

/* Describes a model with fewer than all dimensions. */
typedef struct kf_dim_temperature {
  double lambda; /* absolute */
  uint32_t dim;
  double of_all; /* the temperature with all dimensions, above 0 */
  kf_method method;
  kf_priors priors;
  kf_centre centre;
  uint64_t sample;        /* rows to use, about; 0: KF_LEFT_OUT_SAMPLE */
  const uint32_t *groups; /* as in kf_fit_options */
  const kf_text *text;    /* NULL: none */
  double alpha;           /* with text */
} kf_dim_temperature;
/* The temperature of its scores, as kf_classify gives them, by cross-validation
 * (dim_temperature.c); 0 if no class has rows in two folds. */
kf_status kf_temperature_of_dim(const kf_fitter *fitter, const kf_data *data,
                                const kf_dim_temperature *options, double *out);

/* kf_near_duplicates that ignores near rows of the same group (near.c). groups may be NULL. */
kf_status kf_near_outside(const kf_fitter *fitter, const kf_data *data, const uint32_t *groups,
                          kf_near_rows *out);

/* --- the training rows, each left out of a model ---------------------------------------------- */

/* A model with all dimensions, from which training rows are left out. */
typedef struct kf_left_out_model {
  uint32_t n_classes;     /* those of the rows first */
  double lambda;          /* absolute */
  kf_metric metric;       /* cosine or Euclidean */
  kf_centre centre;       /* of the paper's method */
  uint64_t sample;        /* rows to leave out, about; 0: KF_LEFT_OUT_SAMPLE */
  bool many;              /* sample 0 means up to 50,000, fewer if there are many classes */
  const uint32_t *groups; /* as in kf_fit_options */
  const float *text;      /* [n_classes][D] of unit length; NULL: none */
  double alpha;           /* with text */
  double prior;           /* of the model, by cosine; 0: none */
} kf_left_out_model;

/* The errors of the model on its own training rows, each classified without itself (or its group),
 * with all mistakes (left_out_errors.c). temperature: as in kf_left_out_point; 0: no
 * probabilities. *out is NULL if no row can be left out. Memory: 17 bytes per row, and 8 D for each
 * row left out. */
kf_status kf_left_out_errors(kf_fitter *fitter, const kf_data *data, const kf_left_out_model *model,
                             double temperature, kf_analysis **out);

/* --- rows of unknown classes (reject.c) ------------------------------------------------------- */

/* The largest threshold that at least this share (above 0) of n > 0 scores reaches. Sorts them. */
double kf_score_reached_by(double *scores, uint64_t n, double share);

/* The score, as kf_classify gives it, that this share of the rows reaches when each is left out.
 * Memory: 8 bytes per row. KF_ERR_MATH if no row can be left out. */
kf_status kf_reject_threshold(kf_fitter *fitter, const kf_data *data,
                              const kf_left_out_model *model, double share, double *out);

/* --- the smallest setting that is good enough (pick_point.c) ---------------------------------- */

/* For each of n_points settings: which rows were right, one bit each, and how many had their class
 * among the first five. */
typedef struct kf_score_card {
  uint64_t n; /* rows */
  size_t n_points;
  uint64_t stride;      /* bytes for a row */
  unsigned char *right; /* [n][stride], in the arena it was made with */
  uint64_t *top5;       /* [n_points] */
} kf_score_card;
/* An empty card; the caller checks the arena. */
kf_score_card kf_score_card_take(kf_arena *arena, uint64_t n, size_t n_points);
/* Records the position of a row's class at one setting. */
static inline void kf_score_card_add(kf_score_card *card, uint64_t row, size_t point,
                                     uint32_t position) {
  if (position == 0)
    card->right[row * card->stride + point / 8] |= (unsigned char)(1u << point % 8);
  card->top5[point] += position < 5;
}
/* The standard error of an accuracy over n > 0 rows. */
double kf_standard_error(uint64_t hits, uint64_t n);
/* KF_ERR_ARG unless 0 <= tolerance < 1. */
kf_status kf_check_tolerance(double tolerance, kf_err *err);
/* Finds the best setting (the first on a tie) and counts the rows lost and won against it, in
 * points [n_points], which are numbered from 1. Returns the first setting whose loss is within the
 * tolerance or, if that is 0, within one standard error. */
size_t kf_first_good_enough(const kf_score_card *card, double tolerance, kf_k_point *points,
                            size_t *best);

#endif
