/* koofu_judge.h - judging and choosing: how good a model is, and which settings are best.
 *
 * SPDX-License-Identifier: Apache-2.0
 *
 * A part of the manual; koofu.h has the rules.
 *
 *     1  Truth and class sets
 *     2  Accuracy, errors by class, unknown classes, comparisons
 *     3  Choosing lambda, alpha, dimensions and k
 *     4  Sweeps and few-shot curves
 *     5  Report: a page about a data set and its model
 *     6  Experimental: a page of answers */
#ifndef KOOFU_JUDGE_H
#define KOOFU_JUDGE_H

#include "koofu.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------------------------------------
 * 1  Truth and class sets (docs/judging.md)
 * ------------------------------------------------------------------------------------------ */

/* The right classes of each row, where a single label is not enough. */
typedef struct kf_truth kf_truth;

typedef struct kf_truth_options {
  /* Text file with one class name per line. Class numbers in the truth index it; names in the
   * truth must be in it. NULL: numbers are those of a model without names. */
  const char *classes;
  /* Text file with the id of each row of the data, one per line. NULL: entry i belongs to row i. */
  const char *ids;
  uint64_t reserved[4];
} kf_truth_options;

/* Reads the right classes of rows, by the extension of the path:
 *   .json  a list of lists of class numbers (or of names), such as ReaL's real.json
 *   .csv   a header line, a column `proposed_labels` (or `labels`, `label`) with one or more
 *          classes, separated by commas, and a column `id`, such as the cleaner validation set's
 *   other  text, one line per row: classes separated by tabs or, in a line without tabs, by commas
 * The first class in a file decides whether it has numbers or names. An empty list, field or line
 * leaves the row out.
 *
 * With ids, entries of a .csv are matched by id, and entry i of a .json belongs to the row whose
 * id ends in _val_ and the number i + 1; folder and extension (.JPEG) of an id are ignored, and
 * rows without an entry are left out. It is an error if an id appears twice in the truth, or if no
 * id has an entry. */
KF_API kf_status kf_truth_load(kf_ctx *ctx, const char *path, const kf_truth_options *options,
                               kf_truth **out);
KF_API void kf_truth_free(kf_truth *truth);
KF_API uint64_t kf_truth_rows(const kf_truth *truth); /* the data must have as many */
/* Number of classes: names, or the largest number + 1. */
KF_API uint32_t kf_truth_classes(const kf_truth *truth);
KF_API const char *kf_truth_class_name(const kf_truth *truth, uint32_t k); /* NULL: no names */
/* The number of right classes of a row; *classes points to them, each once, in the order of the
 * file. 0: the row is left out. */
KF_API size_t kf_truth_row(const kf_truth *truth, uint64_t row, const int32_t **classes);

/* A set of classes, by name. */
typedef struct kf_class_set kf_class_set;

/* Reads a text file with one class name per line. With a model or gallery whose classes have no
 * names, the lines are class numbers. Unknown names are logged when the set is used; it is an error
 * if none is known. */
KF_API kf_status kf_class_set_load(kf_ctx *ctx, const char *path, kf_class_set **out);
/* names: [n], each once (copied). n may be 0. */
KF_API kf_status kf_class_set_new(kf_ctx *ctx, const char *const *names, uint32_t n,
                                  kf_class_set **out);
KF_API void kf_class_set_free(kf_class_set *set);
KF_API uint32_t kf_class_set_size(const kf_class_set *set);
KF_API const char *kf_class_set_name(const kf_class_set *set, uint32_t i); /* in the order given */
KF_API int kf_class_set_has(const kf_class_set *set, const char *name);

/* A hierarchy of classes: an acyclic graph in which a class may have several parents. */
typedef struct kf_hierarchy kf_hierarchy;

/* Reads lines 'PARENT CHILD'. names: NULL, or a text file with lines 'CLASS<tab>NAME', whose
 * classes are in the hierarchy even if no line mentions them. A cycle is KF_ERR_DATA naming a
 * class. */
KF_API kf_status kf_hierarchy_load(kf_ctx *ctx, const char *path, const char *names,
                                   kf_hierarchy **out);
KF_API void kf_hierarchy_free(kf_hierarchy *hierarchy);
KF_API uint32_t kf_hierarchy_classes(const kf_hierarchy *hierarchy);
KF_API uint64_t kf_hierarchy_edges(const kf_hierarchy *hierarchy);
/* NULL for an unknown class; "" for one without a name. */
KF_API const char *kf_hierarchy_name(const kf_hierarchy *hierarchy, const char *class_name);

/* Relatives of a set in a hierarchy. A class that is not in the hierarchy is KF_ERR_DATA. */
typedef enum kf_kin {
  KF_KIN_LEAVES = 0,     /* classes of the set that have no descendant in the set */
  KF_KIN_ANCESTORS = 1,  /* all classes, in the set or not, that have a descendant in it */
  KF_KIN_DESCENDANTS = 2 /* all classes, in the set or not, that have an ancestor in it */
} kf_kin;
KF_API kf_status kf_class_set_new_kin(kf_ctx *ctx, const kf_hierarchy *hierarchy,
                                      const kf_class_set *set, kf_kin kin, kf_class_set **out);

/* The classes of two sets, such as 1K and 21K, by their relation to the first set. Each class is
 * in the first group of this list that fits. */
typedef enum kf_group {
  KF_GROUP_ONLY = 0,        /* in the first set, not in the second */
  KF_GROUP_BOTH = 1,        /* in both; all others are in the second set alone */
  KF_GROUP_ANCESTORS = 2,   /* has a descendant in the first set */
  KF_GROUP_DESCENDANTS = 3, /* has an ancestor in the first set */
  KF_GROUP_LEAVES = 4,      /* has no descendant in either set */
  KF_GROUP_OTHER = 5
} kf_group;
#define KF_GROUPS 6 /* fixed: none will be added */
/* A name for files: "only", "both", "ancestors", "descendants", "leaves", "other". */
KF_API const char *kf_group_name(kf_group group);

/* The groups into out[KF_GROUPS], each in the order of its list; free each one. The union of ONLY,
 * BOTH and LEAVES is the paper's 14K: no class in it is an ancestor of another if that holds for
 * the first set. */
KF_API kf_status kf_class_groups_new(kf_ctx *ctx, const kf_hierarchy *hierarchy,
                                     const kf_class_set *first, const kf_class_set *second,
                                     kf_class_set **out);

/* ---------------------------------------------------------------------------------------------
 * 2  Accuracy, errors by class, unknown classes, comparisons
 * ------------------------------------------------------------------------------------------ */

typedef struct kf_eval_options {
  kf_metric metric;
  kf_switch include_raw;    /* evaluate the original space; default: on */
  kf_switch include_mapped; /* evaluate the model's space; default: on */
  const kf_truth *truth;    /* instead of the labels; NULL: the labels */
  const kf_class_set *set;  /* only these classes take part; NULL: all */
  kf_part part;             /* of the model's space */
  uint64_t reserved[4];
} kf_eval_options;

typedef struct kf_eval_result {
  uint64_t rows;           /* in the data set */
  uint64_t n;              /* scored: labelled with a class of the model that takes part */
  uint64_t n_unlabelled;   /* left out: no label */
  uint64_t n_absent;       /* left out: the class is not in the model, has no prototype there, or
                            * is not in the class set */
  uint64_t n_bad;          /* left out: NaN, infinite or zero (skip_bad) */
  uint64_t n_excluded;     /* left out: the truth has no entry for the row, or an empty one */
  uint32_t absent_classes; /* how many classes the n_absent rows belong to */
  uint64_t top1, top5;     /* hits among n in the model's space */
  uint64_t raw_top1, raw_top5; /* hits among n in the original space */
  uint64_t reserved[4];
} kf_eval_result;

/* Nearest-prototype accuracy. Classes are matched by name if data set and model have names, by
 * number if neither has. KF_ERR_DATA if only one has, or if no row can be scored. */
KF_API kf_status kf_eval(kf_ctx *ctx, const kf_model *model, const kf_data *data,
                         const kf_eval_options *options, kf_eval_result *out);

/* The 95 % Wilson interval of a proportion of hits among n. */
KF_API void kf_interval95(uint64_t hits, uint64_t n, double *low, double *high);

typedef struct kf_gallery_eval_options {
  const uint32_t *k; /* [n_k], rising; one search serves all of them. NULL: 15 alone */
  size_t n_k;
  int weighted; /* as in kf_vote_options */
  double temperature;
  const kf_truth *truth; /* instead of the labels; NULL: the labels */
  /* Only rows of these classes are scored; the gallery still contains all rows. NULL: all. */
  const kf_class_set *set;
  uint64_t reserved[4];
} kf_gallery_eval_options;

typedef struct kf_hits {
  uint32_t k;
  uint64_t top1, top5; /* rows whose class is first, or among the first five, by votes */
} kf_hits;

/* k-NN accuracy: one kf_hits for each k, and all of `counts` except hits. Classes are matched as
 * in kf_eval. data NULL: leave-one-out over the rows of the gallery itself. report may be NULL. */
KF_API kf_status kf_gallery_eval(kf_ctx *ctx, const kf_gallery *gallery, const kf_data *data,
                                 const kf_gallery_eval_options *options, kf_eval_result *counts,
                                 kf_hits *hits, kf_search_report *report);

/* --- errors by class -------------------------------------------------------------------------- */

/* Results by class. A row with several right classes counts for the first of them, whatever the
 * answer was, so row counts do not depend on the model. */
typedef struct kf_class_result {
  uint64_t n, top1, top5; /* rows of the class, and hits among them */
  uint64_t answers;       /* rows classified as this class */
} kf_class_result;

typedef struct kf_confusion {
  int32_t truth, answer; /* class numbers of the model */
  uint64_t n;            /* rows of class `truth` classified as `answer` */
} kf_confusion;

/* Rows with a margin from `low` to `high`. The margin is the score of the first answer minus that
 * of the second (for distances the reverse). There are ten bins with about equally many rows. */
typedef struct kf_margin_bin {
  double low, high;
  uint64_t n, top1;
} kf_margin_bin;

/* A misclassified row. */
typedef struct kf_mistake {
  uint64_t row;          /* of the data set */
  int32_t truth, answer; /* class numbers of the model: the first right class, and the answer */
  double score;          /* of the answer, as in kf_classify */
  double margin;         /* as in kf_margin_bin */
  /* Of the answer, and of all right classes together; NaN without a temperature. */
  double probability, right_probability;
} kf_mistake;

typedef struct kf_analysis {
  kf_eval_result totals; /* of the mapped space, or of the original one with `raw` */
  uint32_t n_classes;
  kf_class_result *classes; /* [n_classes] */
  size_t n_confusions;
  kf_confusion *confusions; /* most rows first; ties by truth, then answer */
  size_t n_bins;
  kf_margin_bin *bins;
  size_t n_mistakes;                  /* 0: not asked for */
  kf_mistake *mistakes;               /* by row */
  struct kf_calibration *calibration; /* NULL: there is no temperature for these scores */
} kf_analysis;

typedef struct kf_analysis_options {
  kf_metric metric;
  int raw;                 /* 1: in the original space */
  const kf_truth *truth;   /* as in kf_eval_options */
  const kf_class_set *set; /* as in kf_eval_options */
  double temperature;      /* of probabilities; 0: the model's, if it is for these scores */
  int mistakes;            /* 1: list misclassified rows */
  uint64_t reserved[2];
} kf_analysis_options;

/* One pass over the data set, as in kf_eval. Memory: 17 bytes per row, and 56 per mistake. With a
 * temperature, all scores of each row are computed (kf_calibration_new). */
KF_API kf_status kf_analysis_new(kf_ctx *ctx, const kf_model *model, const kf_data *data,
                                 const kf_analysis_options *options, kf_analysis **out);
KF_API void kf_analysis_free(kf_analysis *analysis);

/* --- probabilities (docs/probabilities.md) ---------------------------------------------------- */

/* Rows whose best class has a probability above `low` and up to `high`. */
typedef struct kf_calibration_bin {
  double low, high;
  uint64_t n, top1;
  double confidence; /* the mean of these probabilities; 0 without rows */
} kf_calibration_bin;
#define KF_CALIBRATION_BINS 15 /* of equal width; the number is fixed */

/* How well probabilities are calibrated. Means are over the scored rows; probabilities of several
 * right classes are added. */
typedef struct kf_calibration {
  kf_eval_result totals; /* counts and hits in this space */
  double temperature;
  double nll;        /* minus the natural logarithm of the probability of the right class */
  double brier;      /* sum over classes of (probability - 1 or 0)^2: from 0 to 2 */
  double ece;        /* expected calibration error: |accuracy - confidence|, by bin */
  double confidence; /* the mean probability of the best class */
  kf_calibration_bin bins[KF_CALIBRATION_BINS];
} kf_calibration;

/* One pass over the data set, as in kf_eval, computing all scores of each row. `mistakes` is
 * ignored. KF_ERR_ARG if there is no temperature. */
KF_API kf_status kf_calibration_new(kf_ctx *ctx, const kf_model *model, const kf_data *data,
                                    const kf_analysis_options *options, kf_calibration **out);
KF_API void kf_calibration_free(kf_calibration *calibration);

/* --- known and unknown classes ---------------------------------------------------------------- */

typedef struct kf_open_set_result {
  uint64_t n_known, n_unknown; /* rows, without those that kf_eval leaves out */
  double auroc;     /* how often a known row scores better than an unknown one; ties count half */
  double fpr95;     /* share of the unknown rows accepted at the threshold */
  double threshold; /* the strictest score that at least 95 % of the known rows reach */
  /* Share of known rows that the model's threshold (kf_model_reject) accepts, and of unknown rows
   * that it rejects; both 0 if it has none for these scores. */
  double kept, refused;
  uint64_t reserved[2];
} kf_open_set_result;

/* How well the score of the nearest prototype separates rows of known classes from others. `known`
 * is scored as in kf_analysis_new; every row of `unknown` counts, and its labels are ignored.
 * Memory: 8 bytes per row. */
KF_API kf_status kf_open_set(kf_ctx *ctx, const kf_model *model, const kf_data *known,
                             const kf_data *unknown, const kf_analysis_options *options,
                             kf_open_set_result *out);

/* --- two classifiers on the same rows --------------------------------------------------------- */

/* For each row: right, wrong or left out. One byte per row. */
typedef struct kf_verdicts kf_verdicts;

/* Verdicts on the nearest prototype of a model. */
KF_API kf_status kf_verdicts_new(kf_ctx *ctx, const kf_model *model, const kf_data *data,
                                 const kf_analysis_options *options, kf_verdicts **out);
/* Verdicts on answers in a tab-separated table with a header line and columns `row` and `class1`.
 * Rows without a line are left out; an answer that is not a class of the truth is wrong. One of
 * data and truth may be NULL. */
KF_API kf_status kf_verdicts_read(kf_ctx *ctx, const char *path, const kf_data *data,
                                  const kf_truth *truth, const kf_class_set *set,
                                  kf_verdicts **out);
KF_API void kf_verdicts_free(kf_verdicts *verdicts);
/* Why rows were left out, and top1. */
KF_API const kf_eval_result *kf_verdicts_counts(const kf_verdicts *verdicts);

typedef struct kf_comparison {
  uint64_t rows;
  uint64_t n;              /* rows judged by both; the others do not count */
  uint64_t both, neither;  /* right in both, right in neither */
  uint64_t only_a, only_b; /* right in one only */
  /* Accuracy of a minus that of b, with its paired 95 % interval (Agresti and Min, 2005: Wald's
   * after adding a half to each of the four counts). */
  double difference, low, high;
  double p; /* of McNemar's test */
  uint64_t reserved[4];
} kf_comparison;
KF_API kf_status kf_compare(kf_ctx *ctx, const kf_verdicts *a, const kf_verdicts *b,
                            kf_comparison *out);

/* The two-sided p-value of McNemar's exact test for two classifiers, where b rows are right by the
 * first alone and c rows by the second alone: the probability that b + c tosses of a coin are at
 * least as uneven. Above 2^30 tosses the normal approximation with continuity correction is
 * used. */
KF_API double kf_mcnemar(uint64_t b, uint64_t c);

/* The one-sided 95 % upper bound of the accuracy that classifier a loses against b on the same n
 * rows, of which `lost` are right by b alone and `won` by a alone (Tango's score interval, 1998).
 * Negative if a is significantly better, about 2.7 / n if the two never differ, and 1 if n is 0 or
 * lost + won > n. */
KF_API double kf_loss_upper95(uint64_t lost, uint64_t won, uint64_t n);

/* ---------------------------------------------------------------------------------------------
 * 3  Choosing lambda, alpha, dimensions and k, from training data alone (docs/choosing.md)
 *
 * kf_fit calls these functions; call them directly to see the curves.
 * ------------------------------------------------------------------------------------------ */

/* Near-duplicates among rows. */
typedef struct kf_near_rows {
  uint64_t n;      /* rows that were checked, at most 1,000; 0: no class has two different rows */
  uint64_t near;   /* of these: another row of the class is nearly the same */
  uint64_t copies; /* of these: another row of the class is the same */
  int many;        /* 1: significantly more than one row in twenty is near another */
  uint64_t reserved[4];
} kf_near_rows;
/* Counts near-duplicates in a sample of the training rows: pictures that are in the data twice, or
 * frames of one video. They make leave-one-out optimistic, since the twin of a row left out stays
 * in. Rows are near if their squared distance is below 0.15 of the mean between rows of a class; if
 * rows vary in so few directions that this happens by chance, only copies are counted
 * (docs/choosing.md). The statistics must be those of the data set. Reads at most 32,768 rows,
 * 2,048 per class. */
KF_API kf_status kf_near_duplicates(kf_ctx *ctx, const kf_stats *stats, const kf_data *data,
                                    kf_near_rows *out);

/* Accuracy at one lambda: of n rows, those whose class is first, and those where it is among the
 * first five. */
typedef struct kf_lambda_point {
  double lambda; /* absolute */
  uint64_t top1, top5;
  /* The mean of -ln p of the true class, where p = softmax(temperature * score), minimised over
   * the temperature; that temperature; and the standard error of the loss. Zeros if only hits were
   * counted. */
  double loss, temperature, loss_error;
} kf_lambda_point;

typedef struct kf_lambda_options {
  kf_metric metric; /* KF_METRIC_DEFAULT: cosine; Euclidean for statistics of raw rows */
  kf_centre centre; /* of the model to come */
  /* Leave out at most this many rows, the same share of each class. 0: as many as the choice needs
   * (docs/choosing.md), at most 50,000. */
  uint64_t sample;
  /* Lambdas to try, as multiples of the mean eigenvalue, rising; NULL: as docs/choosing.md
   * says. */
  const double *grid;
  size_t n_grid;
  int one_se; /* 1: the largest lambda within one standard error of the best */
  kf_method method;
  kf_criterion criterion;
  const uint32_t *groups; /* as in kf_fit_options */
  kf_priors priors;       /* as in kf_fit_options */
  uint64_t reserved[1];
} kf_lambda_options;

typedef struct kf_lambda_choice {
  double lambda;          /* absolute: of the chosen point */
  double mean_eigenvalue; /* of S_w */
  double standard_error;  /* of the accuracy in `all` or, if chosen by it, of the best point */
  kf_metric metric;       /* never KF_METRIC_DEFAULT */
  uint64_t rows;          /* of the data set that have a label */
  uint64_t n;             /* rows left out in turn, at every point */
  uint64_t n_single;      /* rows alone in their class, not counted in n */
  size_t chosen, best;    /* among the points */
  size_t n_points;
  kf_lambda_point *points; /* by rising lambda */
  kf_criterion criterion;  /* never KF_CRITERION_DEFAULT */
  /* The chosen lambda again, with n_all rows left out: with the likelihood, finding it needs fewer
   * rows than judging it. Here and at the chosen point all digits are accurate; with cosines,
   * losses of other points are accurate to 1e-4. */
  kf_lambda_point all;
  uint64_t n_all;
} kf_lambda_choice;

/* Chooses lambda by exact leave-one-out: each row in turn is removed from S_w, S_b, its class mean
 * and the mean, and compared with all prototypes in the full whitened space, without refitting.
 * Column scales and kappa (docs/choosing.md) are kept. Among equally good lambdas the largest is
 * chosen; with likelihood and distances, the smallest whose loss is within a standard error of the
 * least. The statistics must be those of the data set. KF_ERR_MATH if no class has two different
 * rows. Memory: 28 bytes per row with groups. */
KF_API kf_status kf_lambda_choice_new(kf_ctx *ctx, const kf_stats *stats, const kf_data *data,
                                      const kf_lambda_options *options, kf_lambda_choice **out);
KF_API void kf_lambda_choice_free(kf_lambda_choice *choice);

/* The lambda of Ledoit and Wolf's shrinkage of the covariance within classes, in one pass over the
 * data that the statistics are from. */
KF_API kf_status kf_lambda_ledoit_wolf(kf_ctx *ctx, const kf_stats *stats, const kf_data *data,
                                       kf_lambda *out);

/* Accuracy of text and prototypes together. */
typedef struct kf_fuse_point {
  double lambda; /* absolute */
  double alpha;
  uint64_t top1, top5;
  double loss, temperature, loss_error; /* as in kf_lambda_point */
} kf_fuse_point;

typedef struct kf_fuse_options {
  kf_centre centre;     /* of the model to come */
  uint64_t sample;      /* as in kf_lambda_options */
  kf_lambda lambda;     /* KF_LAMBDA_AUTO: chosen (docs/choosing.md) */
  const double *alphas; /* to try; NULL: 0 and fifteen values from 0.01 to 10 */
  size_t n_alphas;
  kf_method method;
  kf_criterion criterion;
  const uint32_t *groups; /* as in kf_fit_options */
  uint64_t reserved[2];
} kf_fuse_options;

typedef struct kf_fuse_choice {
  double lambda, alpha; /* of the chosen point */
  double mean_eigenvalue;
  double standard_error;
  uint64_t rows, n, n_single; /* as in kf_lambda_choice */
  uint64_t text_top1;         /* rows among n that text alone classifies correctly */
  size_t chosen;
  /* All points tried; with the likelihood, those at the chosen lambda near the chosen alpha, and
   * alpha 0. None if no class has two rows. */
  size_t n_points;
  kf_fuse_point *points;
  kf_criterion criterion; /* never KF_CRITERION_DEFAULT */
} kf_fuse_choice;

/* Chooses lambda and alpha for kf_model_new_fused by leave-one-out, as kf_lambda_choice_new does,
 * except that a prototype keeps its length when a row is left out of it (docs/choosing.md says
 * why). If no class has two rows nothing can be left out: then alpha is 0.03, and lambda the one
 * that kf_fit uses for such rows (in the paper's method, 1). Among equal accuracies the smallest
 * alpha, then the largest lambda is chosen. */
KF_API kf_status kf_fuse_choice_new(kf_ctx *ctx, const kf_stats *stats, const kf_data *data,
                                    const kf_text *text, const kf_fuse_options *options,
                                    kf_fuse_choice **out);
KF_API void kf_fuse_choice_free(kf_fuse_choice *choice);

/* Accuracy with the first `dim` directions. */
typedef struct kf_dim_point {
  uint32_t dim;
  uint64_t top1, top5;
  uint64_t lost, won; /* rows wrong here but right with all dimensions; and vice versa */
} kf_dim_point;

typedef struct kf_dim_options {
  kf_lambda lambda; /* KF_LAMBDA_AUTO: 0.3 times the mean eigenvalue */
  kf_metric metric;
  kf_centre centre;
  kf_method method;
  uint32_t folds;  /* 0: 10, or fewer if most classes have 3 to 9 rows */
  uint64_t sample; /* classify at most this many rows; 0: 50,000, or 2^29 / classes if fewer */
  double margin;   /* accuracy that may be lost, 0.01 = one point; 0: 0.005 */
  const uint32_t *groups; /* as in kf_fit_options; then folds are made of whole groups */
  kf_priors priors;       /* as in kf_fit_options */
  uint64_t reserved[1];
} kf_dim_options;

typedef struct kf_dim_choice {
  uint32_t dim, best; /* the chosen one, and the one with the highest accuracy */
  uint32_t folds;
  uint64_t n;      /* rows that were classified */
  size_t n_points; /* one for each dimension from 1 to D */
  kf_dim_point *points;
  double margin;
  uint64_t independent; /* n, or the number of groups that the rows are from */
  /* From this number of dimensions on, answers are by construction those of all dimensions: the
   * number of classes with rows minus one, if rows are centred on the mean or compared by
   * distance; otherwise D. */
  uint32_t same;
} kf_dim_choice;

/* Chooses the number of dimensions by cross-validation with nearest prototypes: the fewest shown
 * to be no more than the margin worse than all D (kf_dim_upper95 <= margin). If there is no such
 * number, as with few rows, all are kept. Statistics without a fold are exactly the total minus
 * those of the fold.
 *
 * Numbers are tried in falling order until one fails, from the number of classes with rows minus
 * one or, if that fails, from D. So the 95 % level holds for the choice, not just for each number,
 * given independent rows and maps fitted without a fold; variation between draws of training rows
 * is not included. Memory: 40 bytes per dimension and thread. */
KF_API kf_status kf_dim_choice_new(kf_ctx *ctx, const kf_stats *stats, const kf_data *data,
                                   const kf_dim_options *options, kf_dim_choice **out);
KF_API void kf_dim_choice_free(kf_dim_choice *choice);
/* The 95 % upper bound of the accuracy that the i-th point loses against all dimensions
 * (kf_loss_upper95); 0 if answers are the same by construction; NaN if there is no such point. */
KF_API double kf_dim_upper95(const kf_dim_choice *choice, size_t i);

typedef struct kf_k_options {
  uint32_t most; /* try 1 … most neighbours; 0: 50, or fewer if there are few rows */
  int weighted;  /* as in kf_vote_options */
  double temperature;
  uint64_t sample;  /* leave out at most this many rows; 0: 50,000 */
  double tolerance; /* accuracy that may be lost, 0.01 = one point; 0: its standard error */
  uint32_t folds;   /* of kf_k_choice_new_by_folds; 0: 5 */
  kf_metric metric; /* of kf_k_choice_new_by_folds: that of the gallery to come */
  uint64_t reserved[3];
} kf_k_options;

typedef struct kf_k_point {
  uint32_t k;
  uint64_t top1, top5;
  uint64_t lost, won; /* rows wrong here but right with the best k; and vice versa */
} kf_k_point;

typedef struct kf_k_choice {
  uint32_t k, best;
  uint64_t n;      /* rows that were left out in turn, or in folds */
  size_t n_points; /* one for each k from 1 */
  kf_k_point *points;
  uint32_t folds; /* 0: rows of a gallery were left out in turn */
} kf_k_choice;

/* Chooses k by leaving out each row of the gallery in turn, with one search for all k. For
 * galleries in the original space and for maps fitted to other rows: with a map fitted to the row
 * itself a small k looks better than it is. `folds` and `metric` must be 0. */
KF_API kf_status kf_k_choice_new(kf_ctx *ctx, const kf_gallery *gallery,
                                 const kf_k_options *options, kf_k_choice **out);
/* Chooses k for a gallery of the rows that a model was fitted to. The rows are divided into
 * stratified folds; each fold is removed exactly from the statistics, the model is refitted with
 * the same lambda (relative to the scatter), centring and number of dimensions, and the rows of
 * the fold are searched among the others. The statistics must be those of the data set, and the
 * model fitted to it. Memory: the rows without a fold, five bytes per value, and `most` bits per
 * row that is left out. */
KF_API kf_status kf_k_choice_new_by_folds(kf_ctx *ctx, const kf_stats *stats, const kf_data *data,
                                          const kf_model *model, const kf_k_options *options,
                                          kf_k_choice **out);
/* Chooses k for a gallery of these rows, mapped by the model (NULL: in the original space): by
 * folds if the model may have been fitted to them (the same classes with as many rows each),
 * otherwise by leaving out each row in turn. Memory: the rows, five bytes per value. */
KF_API kf_status kf_k_choice_new_for_rows(kf_ctx *ctx, const kf_data *data, const kf_model *model,
                                          const kf_k_options *options, kf_k_choice **out);
KF_API void kf_k_choice_free(kf_k_choice *choice);

/* ---------------------------------------------------------------------------------------------
 * 4  Sweeps and few-shot curves
 * ------------------------------------------------------------------------------------------ */

/* One cell of a sweep: a classifier and how often it was right. Three kinds:
 *   rows   text is KF_CENTRE_DEFAULT and fused 0: nearest prototype, or k neighbours
 *   text   text is another centring: zero-shot
 *   fused  fused is 1: text and prototypes together */
typedef struct kf_sweep_cell {
  int raw;         /* 1: in the original space; lambda is 0 */
  double lambda;   /* absolute */
  double relative; /* to the mean eigenvalue of S_w */
  uint32_t dim;
  uint32_t k;       /* neighbours; 0: nearest prototype */
  kf_metric metric; /* never KF_METRIC_DEFAULT */
  uint32_t set;     /* number of the class set; 0 without class sets */
  kf_centre text; /* centring of text prototypes (original space: NONE); DEFAULT: rows, or fused */
  int fused;      /* 1: text and prototypes together, as in kf_model_new_fused */
  double alpha;   /* of fused cells (with folds: of the first fold); 0 elsewhere */
  uint64_t n, top1, top5;
} kf_sweep_cell;

typedef struct kf_sweep_options {
  const kf_lambda *lambdas; /* NULL: 0.3 times the mean eigenvalue */
  size_t n_lambdas;
  const uint32_t *dims; /* falling or rising; NULL: all D */
  size_t n_dims;
  const uint32_t *k; /* rising; NULL: prototypes alone */
  size_t n_k;
  const kf_metric *metrics; /* NULL: the default one */
  size_t n_metrics;
  const kf_class_set *const *sets; /* NULL: all classes */
  size_t n_sets;
  kf_centre centre;
  kf_switch include_raw;        /* the original space; default: on */
  kf_switch include_prototypes; /* nearest prototypes; default: on */
  uint32_t folds;               /* without test data; 0: 5 */
  /* 1: without test data, leave rows out in turn instead of in folds, as in kf_lambda_choice_new:
   * only prototypes in the mapped space, with all dimensions. */
  int leave_one_out;
  /* Judge at most this many rows, the same share of each class, and in folds of as few of them as
   * have so many; 0: all, or with leave_one_out 50,000. */
  uint64_t sample;
  const kf_stats *between; /* as in kf_fit_options */
  const kf_truth *truth;   /* of the test rows, instead of their labels; NULL: labels */
  /* Include zero-shot, as in kf_model_new_zero_shot: the unchanged text in the original space, and
   * the mapped text with each centring. NULL: rows alone. Not with leave_one_out. */
  const kf_text *text;
  const kf_centre *text_centres; /* NULL: modality */
  size_t n_text_centres;
  /* 1: include text and prototypes together, as in kf_fit (centred on the mean, whatever `centre`
   * is), with the alpha that kf_fuse_choice_new chooses at each lambda from these (NULL: its
   * default list; a single one is used as it is, and needs no training rows). */
  int fuse;
  const double *alphas;
  size_t n_alphas;
  kf_method method;
  kf_priors priors; /* as in kf_fit_options */
  uint64_t reserved[7];
} kf_sweep_options;

typedef struct kf_sweep {
  double mean_eigenvalue;
  uint32_t folds;        /* 0: test data were given, or rows were left out one by one */
  kf_eval_result counts; /* rows, and why some were left out; no hits */
  size_t n_cells;
  /* By set, metric, space, lambda, k, dim, in the order of the options; then text by set, metric,
   * space, centring, lambda, dim; then fused by set, lambda, dim. */
  kf_sweep_cell *cells;
} kf_sweep;

/* Accuracy for every combination of lambda, dimension, k and metric, as kf_fit and kf_eval (or
 * kf_gallery_eval) would give each, with shared work done once. `train`: the rows of the
 * statistics, needed for neighbours and folds, otherwise NULL is allowed. test NULL: stratified
 * folds of the training rows. */
KF_API kf_status kf_sweep_new(kf_ctx *ctx, const kf_stats *stats, const kf_data *train,
                              const kf_data *test, const kf_sweep_options *options, kf_sweep **out);
KF_API void kf_sweep_free(kf_sweep *sweep);

/* --- few-shot curves -------------------------------------------------------------------------- */

/* The classifiers compared, each from the drawn rows alone. */
typedef enum kf_shots_classifier {
  KF_SHOTS_RAW = 0,   /* nearest prototype in the original space */
  KF_SHOTS_KOOFU = 1, /* nearest prototype; lambda by leave-one-out */
  KF_SHOTS_TEXT = 2,  /* zero-shot: text alone, in the original space; the same for all draws */
  KF_SHOTS_FUSED = 3  /* text and prototypes; lambda and alpha chosen together, mean centred */
} kf_shots_classifier;
#define KF_SHOTS_CLASSIFIERS 4 /* fixed: none will be added */
KF_API const char *kf_shots_classifier_name(kf_shots_classifier classifier); /* "raw", "koofu", … */

typedef struct kf_shots_options {
  const uint32_t *shots; /* rows of each class, rising, from 1; NULL: 1, 2, 4, 8, 16 */
  size_t n_shots;
  uint32_t seeds;        /* draws for each number of shots, 1 … 1000; 0: 3 */
  const kf_truth *truth; /* of the test rows, instead of their labels; NULL: labels */
  kf_method method;
  uint64_t sample; /* of the test rows, as in kf_sweep_options; 0: all */
  uint64_t reserved[2];
} kf_shots_options;

typedef struct kf_shots_point {
  uint32_t shots;
  uint32_t seed; /* 0 … seeds - 1 */
  kf_shots_classifier classifier;
  uint64_t n, top1, top5; /* test rows, and hits among them */
  double lambda;          /* absolute; 0 for raw and text */
  double alpha;           /* of fused; 0 elsewhere */
} kf_shots_point;

typedef struct kf_shots_size {
  uint32_t shots;
  uint32_t fewer; /* classes with fewer rows, which gave all of them */
  uint64_t rows;  /* drawn, from all classes together */
} kf_shots_size;

typedef struct kf_shots {
  uint32_t seeds;
  uint32_t classes; /* with training rows */
  uint64_t most;    /* rows of the largest class */
  size_t n_sizes;
  kf_shots_size *sizes; /* one for each number of shots */
  size_t n_classifiers; /* 2, or with text 4 */
  size_t n_points;
  kf_shots_point *points; /* by shots, seed, classifier */
  kf_method method;       /* never KF_METHOD_DEFAULT */
} kf_shots;

/* Accuracy on test rows with only a few training rows per class. For each number of shots and each
 * seed, that many rows of each class are drawn, and everything is chosen from them. A seed draws
 * the same rows on every machine, and the rows of fewer shots are among those of more. With one
 * row per class there is no scatter within classes; that of all rows takes its place (see kf_fit).
 * With KF_METHOD_PAPER the map is then a rotation, lambda is 1, and accuracy is that of the raw
 * space. text NULL: raw and Koo-Fu only. Memory: 36 bytes per training row. */
KF_API kf_status kf_shots_new(kf_ctx *ctx, const kf_data *data, const kf_data *test,
                              const kf_text *text, const kf_shots_options *options, kf_shots **out);
KF_API void kf_shots_free(kf_shots *shots);
/* The point of the size-th number of shots; NULL if there is none. Owned by shots. */
KF_API const kf_shots_point *kf_shots_at(const kf_shots *shots, size_t size, uint32_t seed,
                                         kf_shots_classifier classifier);

/* Accuracy over seeds. */
typedef struct kf_spread {
  double mean, low, high;
  double deviation; /* sample standard deviation; 0 with one seed */
  uint64_t reserved[2];
} kf_spread;
/* top5: 0 for top-1 accuracy, 1 for top-5. */
KF_API void kf_shots_spread(const kf_shots *shots, size_t size, kf_shots_classifier classifier,
                            int top5, kf_spread *out);

/* ---------------------------------------------------------------------------------------------
 * 5  Report: a page about a data set and its model (docs/report.md)
 * ------------------------------------------------------------------------------------------ */

/* What to call classes for people; everything else goes by labels. */
typedef struct kf_class_names kf_class_names;
/* Reads the names of n_classes classes (labels NULL: they have numbers): a .json with an object
 * from label to name, a .csv with lines 'LABEL,NAME', or a text with lines 'LABEL<tab>NAME' or one
 * name for each class, in their order. Of several names, separated by commas, the first counts; one
 * in quotation marks is taken whole. Classes that the file does not name keep their labels; it must
 * name one. Names may repeat: such classes are shown as "crane (n02012849)". path NULL: labels are
 * names of folders, spelt as in kf_prompts_options. */
KF_API kf_status kf_class_names_load(kf_ctx *ctx, const char *path, const char *const *labels,
                                     uint32_t n_classes, kf_class_names **out);
KF_API void kf_class_names_free(kf_class_names *names);
/* The name of a class with this label or, if it is NULL, this number. The label itself if it has
 * none, or if names is NULL. Owned by names. */
KF_API const char *kf_class_names_of(const kf_class_names *names, const char *label, uint32_t k);

typedef struct kf_report_options {
  const char *title;                  /* NULL: "Koo-Fu report" */
  const char *train_name, *test_name; /* names of the rows on the page, such as file names */
  const kf_data *test;   /* test rows; NULL: folds, and rows left out, of the training rows */
  const kf_truth *truth; /* of the test rows, instead of their labels; NULL: labels */
  const kf_model *model; /* of the training rows; NULL: one is fitted */
  /* How to fit, as in kf_fit. A given model is used as it was fitted, with its own text unless one
   * is given here. `between` must be NULL. */
  kf_fit_options fit;
  const uint32_t *dims; /* dimensions to compare; NULL: D, D/2, D/4, … */
  size_t n_dims;
  const uint32_t *k; /* neighbours to compare, rising; NULL: 1, 5, 15 */
  size_t n_k;
  const uint32_t *shots; /* with test: few-shot curves, as in kf_shots_options; NULL: none */
  size_t n_shots;
  uint32_t seeds;       /* draws for each number of shots; 0: 3 */
  kf_switch neighbours; /* figures about neighbours; default: on */
  /* Judge at most this many rows in sweeps and draws and where k is chosen, as in
   * kf_sweep_options; 0: 50,000, or 2^33 / training rows if fewer, but at least 1,000. All test
   * rows are judged once. */
  uint64_t sample;
  const kf_class_names *names; /* what the page calls classes; NULL: their labels */
  uint64_t reserved[5];
} kf_report_options;

typedef struct kf_report_result {
  uint64_t rows;                /* rows in the model */
  uint64_t n_unlabelled, n_bad; /* training rows left out, as in kf_fit_report */
  uint32_t classes, dim_in, dim;
  double lambda, mean_eigenvalue;
  int fused; /* 1: the model has text */
  double alpha;
  /* Leave-one-out accuracy of the chosen setting, as in kf_fit_report. */
  uint64_t n, right;
  double standard_error;
  /* Accuracy on the test rows; n is 0 without them. */
  kf_eval_result eval;                  /* prototypes, raw and Koo-Fu */
  kf_eval_result eval_text, eval_fused; /* of a model with text: text alone, and with prototypes */
  /* Near-duplicates among the training rows, as in kf_fit_report. */
  uint64_t n_compared, n_near;
  int many_near;
  /* How many rows were judged in sweeps, and of how many: fewer if it is a sample. */
  uint64_t n_judged, n_to_judge;
  double sample_error; /* accuracies of all are within this, with 95 % confidence; 0: all judged */
  /* Without test rows: prototypes in folds. */
  uint64_t held_n, held_raw_top1, held_top1;
  uint64_t reserved[8];
} kf_report_result;

/* Writes one HTML page about training rows and their model, choosing everything that is not given.
 * It shows accuracy in the raw space and in Koo-Fu's, over lambda, alpha, dimensions (and what
 * fewer dimensions lose), neighbours and shots; the spectra; a map of the classes; and errors on
 * the test rows or, without these, on training rows left out. The page is self-contained, without
 * scripts; the same input gives the same bytes. With many rows, sweeps judge a sample (n_judged).
 * Memory: the training rows, five bytes per value, for the neighbours. out may be NULL. */
KF_API kf_status kf_report_write(kf_ctx *ctx, const kf_data *train,
                                 const kf_report_options *options, const char *path,
                                 kf_report_result *out);

/* ---------------------------------------------------------------------------------------------
 * 6  Experimental: a page of answers
 * ------------------------------------------------------------------------------------------ */
#ifdef KF_EXPERIMENTAL

typedef struct kf_search_page_options {
  const char *title;    /* NULL: "Koo-Fu search" */
  const char *name;     /* name of the gallery; NULL: not shown */
  const char *note;     /* a sentence below the title; NULL: none */
  const char *pictures; /* folder that relative ids start from; NULL: the current folder */
  kf_switch thumbnails; /* show pictures; default: on */
  uint64_t queries;     /* number of queries in total; 0: n */
  uint64_t reserved[8];
} kf_search_page_options;

typedef struct kf_search_page_result {
  uint64_t thumbnails; /* on the page */
  uint64_t bytes;      /* of the page */
  uint64_t reserved[4];
} kf_search_page_result;

/* The most pictures on a page; further ones are not shown. */
#define KF_MAX_THUMBNAILS 200u

/* Writes answers of a search as one self-contained HTML page without scripts: for each query its k
 * nearest rows with id, label and score. queries: [n] the words or paths of the queries (NULL:
 * numbers are shown); rows and scores: [n][k], as kf_gallery_search returns them, without -1. If a
 * query or the id of a row is the path of a readable picture, a thumbnail (160 pixels, about 8 kB)
 * is embedded. The page has no links, and only regular files that are pictures are shown; but the
 * ids of the gallery decide which, so check a page made from someone else's gallery before you pass
 * it on. The page is built in memory. out may be NULL. */
KF_API kf_status kf_search_page_write(kf_ctx *ctx, const kf_gallery *gallery,
                                      const char *const *queries, uint64_t n, uint32_t k,
                                      const int64_t *rows, const double *scores,
                                      const kf_search_page_options *options, const char *path,
                                      kf_search_page_result *out);

#endif

#ifdef __cplusplus
}
#endif

#endif
