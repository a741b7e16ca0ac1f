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
  /* Text file with one class name per line, which class numbers in the truth index; names in the
   * truth must be in it. NULL: numbers are those of a model without names. */
  const char *classes;
  /* Text file with the id of each row of the data, one per line. NULL: entry i belongs to row i. */
  const char *ids;
  uint64_t reserved[4];
} kf_truth_options;

/* Reads the right classes of rows, by the ending of the path:
 *   .json  a list of lists of class numbers (or of names), such as ReaL's real.json
 *   .csv   a header line, a column `proposed_labels` (or `labels`, `label`) with one class or
 *          several, separated by commas, and a column `id`, such as that of the cleaner validation
 *   other  text, one line per row: classes separated by tabs or, in a line without tabs, by commas
 * The first class of a file decides whether it holds numbers or names. An empty list, field or line
 * leaves the row out.
 *
 * With ids, entries of a .csv go to the rows with their id, and entry i of a .json to the row whose
 * id ends in _val_ and the number i + 1; folder and ending (.JPEG) of an id do not matter, and rows
 * without an entry are left out. It is an error if an id appears twice in the truth, or if no id
 * has an entry. */
KF_API kf_status kf_truth_load(kf_ctx *ctx, const char *path, const kf_truth_options *options,
                               kf_truth **out);
KF_API void kf_truth_free(kf_truth *truth);
KF_API uint64_t kf_truth_rows(const kf_truth *truth); /* that the data must have */
/* Number of classes: names, or the largest number + 1. */
KF_API uint32_t kf_truth_classes(const kf_truth *truth);
KF_API const char *kf_truth_class_name(const kf_truth *truth, uint32_t k); /* NULL: no names */
/* How many classes are right for a row, each once, in the order of the file; *classes points to
 * them. 0: the row is left out. */
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

/* Which class is a kind of which other: a graph without cycles, in which a class may have several
 * parents. */
typedef struct kf_hierarchy kf_hierarchy;

/* Reads lines 'PARENT CHILD'. names: NULL, or a text file with lines 'CLASS<tab>NAME', whose
 * classes are known even if no line of the hierarchy has them. A cycle is KF_ERR_DATA naming a
 * class. */
KF_API kf_status kf_hierarchy_load(kf_ctx *ctx, const char *path, const char *names,
                                   kf_hierarchy **out);
KF_API void kf_hierarchy_free(kf_hierarchy *hierarchy);
KF_API uint32_t kf_hierarchy_classes(const kf_hierarchy *hierarchy);
KF_API uint64_t kf_hierarchy_edges(const kf_hierarchy *hierarchy);
/* "" without a file of names, or if the class is not in it; NULL for an unknown class. */
KF_API const char *kf_hierarchy_name(const kf_hierarchy *hierarchy, const char *class_name);

/* Relatives of a set in a hierarchy. A class that the hierarchy does not know is KF_ERR_DATA. */
typedef enum kf_kin {
  KF_KIN_LEAVES = 0,     /* classes of the set that have no descendant in the set */
  KF_KIN_ANCESTORS = 1,  /* all classes, in the set or not, that have a descendant in it */
  KF_KIN_DESCENDANTS = 2 /* all classes, in the set or not, that have an ancestor in it */
} kf_kin;
KF_API kf_status kf_class_set_new_kin(kf_ctx *ctx, const kf_hierarchy *hierarchy,
                                      const kf_class_set *set, kf_kin kin, kf_class_set **out);

/* The classes of two sets, such as 1K and 21K, by their relation to the first. Each class is in one
 * group: the first that fits, in this order. */
typedef enum kf_group {
  KF_GROUP_ONLY = 0,        /* in the first set, not in the second */
  KF_GROUP_BOTH = 1,        /* in both; all others are in the second set alone */
  KF_GROUP_ANCESTORS = 2,   /* has a descendant in the first set */
  KF_GROUP_DESCENDANTS = 3, /* has an ancestor in the first set */
  KF_GROUP_LEAVES = 4,      /* has no descendant in either set */
  KF_GROUP_OTHER = 5
} kf_group;
#define KF_GROUPS 6 /* there will be no others */
/* A word for file names: "only", "both", "ancestors", "descendants", "leaves", "other". */
KF_API const char *kf_group_name(kf_group group);

/* The groups into out[KF_GROUPS], each in the order of its list, to be freed one by one. The union
 * of ONLY, BOTH and LEAVES is the paper's 14K: no class in it is an ancestor of another, if that
 * holds for the first set. */
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
  /* Only rows of these classes are scored; the gallery stays whole, so the others distract. NULL:
   * all. */
  const kf_class_set *set;
  uint64_t reserved[4];
} kf_gallery_eval_options;

typedef struct kf_hits {
  uint32_t k;
  uint64_t top1, top5; /* rows whose class is first, or among the first five, by votes */
} kf_hits;

/* k-NN accuracy. Classes are matched as in kf_eval; all of `counts` but the hits is filled in, and
 * one kf_hits for each k. data NULL: leave one out, over
 * the rows of the gallery itself. report may be NULL. */
KF_API kf_status kf_gallery_eval(kf_ctx *ctx, const kf_gallery *gallery, const kf_data *data,
                                 const kf_gallery_eval_options *options, kf_eval_result *counts,
                                 kf_hits *hits, kf_search_report *report);

/* --- errors by class -------------------------------------------------------------------------- */

/* Results by class. A row with several right classes counts for the first of them, whatever the
 * answer was, so the numbers of rows do not depend on the model. */
typedef struct kf_class_result {
  uint64_t n, top1, top5; /* rows of the class, and hits among them */
  uint64_t answers;       /* rows that were taken for this class */
} kf_class_result;

typedef struct kf_confusion {
  int32_t truth, answer; /* class numbers of the model */
  uint64_t n;            /* rows of the one that were taken for the other */
} kf_confusion;

/* Rows whose margin, the score of the first answer less that of the second (for distances the other
 * way round), lies between two numbers; ten bins with about equal numbers of rows. */
typedef struct kf_margin_bin {
  double low, high;
  uint64_t n, top1;
} kf_margin_bin;

/* A row that went wrong. */
typedef struct kf_mistake {
  uint64_t row;          /* of the data set */
  int32_t truth, answer; /* class numbers of the model; the first right class, and the best one */
  double score;          /* of the answer, as in kf_classify */
  double margin;         /* as in kf_margin_bin */
  /* Of the answer, and of the right classes together; NaN without a temperature. */
  double probability, right_probability;
} kf_mistake;

typedef struct kf_analysis {
  kf_eval_result totals; /* of the mapped space, or of the original one with `raw` */
  uint32_t n_classes;
  kf_class_result *classes; /* [n_classes] */
  size_t n_confusions;
  kf_confusion *confusions; /* most rows first; of equal ones by truth, then answer */
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
  double temperature;      /* of probabilities; 0: the model's, if these are its own scores */
  int mistakes;            /* 1: list the rows that went wrong */
  uint64_t reserved[2];
} kf_analysis_options;

/* One pass over the data set, as in kf_eval. Memory: 17 bytes per row, and 56 per mistake. If there
 * is a temperature, all scores of each row are computed (see kf_calibration_new). */
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
#define KF_CALIBRATION_BINS 15 /* of equal width; there will be no others */

/* How far probabilities can be trusted. Means are over the scored rows; right classes of a row are
 * taken together. */
typedef struct kf_calibration {
  kf_eval_result totals; /* counts and hits in this space */
  double temperature;
  double nll;        /* minus the natural logarithm of the probability of the right class */
  double brier;      /* sum over classes of (probability - 1 or 0)^2: from 0 to 2 */
  double ece;        /* expected calibration error: |accuracy - confidence|, by bin */
  double confidence; /* the mean probability of the best class */
  kf_calibration_bin bins[KF_CALIBRATION_BINS];
} kf_calibration;

/* One pass over the data set, as in kf_eval, in which all scores of each row are computed. Of the
 * options, `mistakes` is ignored. KF_ERR_ARG with KF_HINT_TEMPERATURE if there is no temperature. */
KF_API kf_status kf_calibration_new(kf_ctx *ctx, const kf_model *model, const kf_data *data,
                                    const kf_analysis_options *options, kf_calibration **out);
KF_API void kf_calibration_free(kf_calibration *calibration);

/* --- known and unknown classes ---------------------------------------------------------------- */

typedef struct kf_open_set_result {
  uint64_t n_known, n_unknown; /* rows; without those that kf_eval leaves out */
  double auroc;     /* how often a known row has a better score than an unknown one; ties: half */
  double fpr95;     /* share of the unknown rows that are taken for known at the threshold */
  double threshold; /* the strictest score that at least 95 % of the known rows reach */
  /* Shares of known rows that the threshold of the model (kf_model_reject) keeps, and of unknown ones
   * that it refuses; both 0 if it has none for these scores. */
  double kept, refused;
  uint64_t reserved[2];
} kf_open_set_result;

/* Whether the score of the nearest prototype tells rows of known classes from others. `known` is
 * judged as in kf_analysis_new; of `unknown`, every row counts and labels are ignored. Memory: 8
 * bytes per row. */
KF_API kf_status kf_open_set(kf_ctx *ctx, const kf_model *model, const kf_data *known,
                             const kf_data *unknown, const kf_analysis_options *options,
                             kf_open_set_result *out);

/* --- two classifiers on the same rows --------------------------------------------------------- */

/* For each row: right, wrong or left out. One byte per row. */
typedef struct kf_verdicts kf_verdicts;

/* Verdicts on the nearest prototype of a model. */
KF_API kf_status kf_verdicts_new(kf_ctx *ctx, const kf_model *model, const kf_data *data,
                                 const kf_analysis_options *options, kf_verdicts **out);
/* Verdicts on answers in a table with tabs and a header line, of which the columns `row` and
 * `class1` are used. Rows without a line are left out; an answer that is no class of the truth is
 * wrong. Either data or truth may be NULL. */
KF_API kf_status kf_verdicts_read(kf_ctx *ctx, const char *path, const kf_data *data,
                                  const kf_truth *truth, const kf_class_set *set,
                                  kf_verdicts **out);
KF_API void kf_verdicts_free(kf_verdicts *verdicts);
/* Why rows were left out, and top1. */
KF_API const kf_eval_result *kf_verdicts_counts(const kf_verdicts *verdicts);

typedef struct kf_comparison {
  uint64_t rows;
  uint64_t n;              /* rows that both have judged; the others do not count */
  uint64_t both, neither;  /* right in both, in none */
  uint64_t only_a, only_b; /* right in one alone */
  /* Accuracy of a less that of b, with its paired 95 % interval (Agresti and Min, 2005: Wald's
   * after adding a half to each of the four counts). */
  double difference, low, high;
  double p; /* of McNemar's test */
  uint64_t reserved[4];
} kf_comparison;
KF_API kf_status kf_compare(kf_ctx *ctx, const kf_verdicts *a, const kf_verdicts *b,
                            kf_comparison *out);

/* The two-sided p-value of McNemar's exact test for two classifiers, one of which alone is right b
 * times and the other alone c times: the chance that b + c tosses of a coin fall at least as
 * unevenly. Above 2^30 tosses the normal distribution with continuity correction is used. */
KF_API double kf_mcnemar(uint64_t b, uint64_t c);

/* The one-sided 95 % upper bound of the accuracy that one classifier loses against another on the
 * same n rows, of which it alone has `lost` wrong and `won` right: that of Tango's score interval
 * (1998). It is negative if the gain is significant. About 2.7 / n if the two never differ; 1 if n
 * is 0 or the counts do not fit into it. */
KF_API double kf_loss_upper95(uint64_t lost, uint64_t won, uint64_t n);

/* ---------------------------------------------------------------------------------------------
 * 3  Choosing lambda, alpha, dimensions and k, from training data alone (docs/choosing.md)
 *
 * kf_fit chooses with these functions; call them yourself to see the curves.
 * ------------------------------------------------------------------------------------------ */

/* Rows that are all but copies of others. */
typedef struct kf_near_rows {
  uint64_t n;    /* rows that were looked up, at most 1,000; 0: no class has two rows that differ */
  uint64_t near; /* of them: another row of the class is nearly the same */
  uint64_t copies; /* of them: another row of the class is the same */
  int many;        /* 1: more than one row in twenty is near another, beyond doubt */
  uint64_t reserved[4];
} kf_near_rows;
/* Counts near-duplicates in a sample of the training rows: pictures that are in the data twice, or
 * frames of one video. They make leave-one-out too hopeful, since the twin of the row that is left
 * out stays in. Rows are near if their squared distance is below 0.15 of the mean one between rows
 * of a class (on real photos that holds for at most one row in thirty); if rows vary in fewer than
 * about twenty directions, that happens by chance and only copies are counted. The statistics must
 * be those of the data set. Looks at no more than 32,768 rows, 2,048 of a class. */
KF_API kf_status kf_near_duplicates(kf_ctx *ctx, const kf_stats *stats, const kf_data *data,
                                    kf_near_rows *out);

/* Accuracy at one lambda: of n rows, those whose class is first, and among the first five. */
typedef struct kf_lambda_point {
  double lambda; /* absolute */
  uint64_t top1, top5;
  /* Mean of -ln p of the true class, p = softmax(temperature * score), at the temperature where it
   * is least, and the standard error of the loss; zeros where only hits were counted. */
  double loss, temperature, loss_error;
} kf_lambda_point;

typedef struct kf_lambda_options {
  kf_metric metric; /* KF_METRIC_DEFAULT: cosine; Euclidean for statistics of raw rows */
  kf_centre centre; /* of the model to come */
  /* Leave out this many rows, or all there are, the same share of each class. 0: as many as bring
   * the standard error of the temperature to 3 %, at most 2,000 (with many classes a sixth of the
   * rows). In the paper's method hits are counted, with 0 in at most 50,000 rows and 2^27 pairs of a
   * row and a class: first in a part of these rows, which is doubled until the upper 95 % bound of
   * what the best lambda loses against any other that was tried is 0.1 points; with one_se or a
   * grid, in all of them. */
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
  double standard_error;  /* of the accuracy in `all`, or by accuracy of the best point */
  kf_metric metric;       /* never KF_METRIC_DEFAULT */
  uint64_t rows;          /* of the data set that have a label */
  uint64_t n;             /* rows that were left out in turn, at every point */
  uint64_t n_single;      /* rows alone in their class, which are not counted in n */
  size_t chosen, best;    /* among the points */
  size_t n_points;
  kf_lambda_point *points; /* by rising lambda */
  kf_criterion criterion;  /* never KF_CRITERION_DEFAULT */
  /* The chosen lambda once more, with n_all rows left out: by likelihood, fewer are enough for the
   * curve. All digits are good here and at the chosen point; by cosine, losses of other points are
   * good to 1e-4. */
  kf_lambda_point all;
  uint64_t n_all;
} kf_lambda_choice;

/* Chooses lambda by exact leave-one-out: each row in turn is taken out of S_w, of S_b, of its class
 * mean and of the mean, and compared with all prototypes in the full whitened space, without fitting
 * again. The scales of columns and kappa (docs/choosing.md) stay as they are. Of equally good lambdas
 * the larger one is taken; by likelihood and distances the smallest whose loss is within a standard
 * error of the least. The statistics must be those of the data set. KF_ERR_MATH if no class has two
 * different rows. Memory: 28 bytes per row with groups. */
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
  kf_centre centre; /* of the model to come */
  uint64_t sample;  /* as in kf_lambda_options */
  /* A given lambda; KF_LAMBDA_AUTO: the best of 0.3, 1 and 3 times the mean eigenvalue, or one
   * further out if it is clearly better; in the paper's method of 0.03, 0.1, 0.3, 1 and 3. */
  kf_lambda lambda;
  const double *alphas; /* NULL: 0 and fifteen values from 0.01 to 10 */
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
  uint64_t text_top1;         /* rows among n that text alone gets right */
  size_t chosen;
  /* All that were tried; by likelihood, those at the chosen lambda near the chosen alpha, and 0. None
   * if no class has two rows; then alpha is a cautious 0.03. */
  size_t n_points;
  kf_fuse_point *points;
  kf_criterion criterion; /* never KF_CRITERION_DEFAULT */
} kf_fuse_choice;

/* Chooses lambda and alpha for kf_model_new_fused by leave-one-out, as kf_lambda_choice_new does,
 * except that the prototype a row is left out of keeps its length (docs/choosing.md says why). If
 * no class has two rows nothing can be left out: then alpha is 0.03, and lambda the one that kf_fit
 * takes for such rows; in the paper's method, without any scatter within classes, 1. Of equal
 * accuracies the smaller alpha, then the larger lambda is taken. */
KF_API kf_status kf_fuse_choice_new(kf_ctx *ctx, const kf_stats *stats, const kf_data *data,
                                    const kf_text *text, const kf_fuse_options *options,
                                    kf_fuse_choice **out);
KF_API void kf_fuse_choice_free(kf_fuse_choice *choice);

/* Accuracy with the first `dim` directions. */
typedef struct kf_dim_point {
  uint32_t dim;
  uint64_t top1, top5;
  uint64_t lost, won; /* rows wrong here and right with all dimensions; vice versa */
} kf_dim_point;

typedef struct kf_dim_options {
  kf_lambda lambda; /* KF_LAMBDA_AUTO: 0.3 times the mean eigenvalue */
  kf_metric metric;
  kf_centre centre;
  kf_method method;
  uint32_t folds;         /* 0: 10, or fewer if most classes have fewer rows (but more than two) */
  uint64_t sample;        /* classify at most this many rows; 0: 50,000, or 2^29 / classes */
  double margin;          /* accuracy that may be lost, 0.01 = one point; 0: 0.005 */
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
  uint64_t independent; /* n, or with groups how many of them the rows are from */
  /* From this many on, answers are those of all dimensions by construction: one less than the
   * classes that have rows, if rows are centred on the mean or distances Euclidean; otherwise D. */
  uint32_t same;
} kf_dim_choice;

/* Chooses the number of dimensions by cross-validation with nearest prototypes: the fewest that are
 * shown not to be inferior to all D by more than the margin (kf_dim_upper95 is within it). If none
 * is, as with few rows, all are kept. Statistics without a fold are the whole minus those of the
 * fold, exactly.
 *
 * Numbers are tried downwards until one fails, from one less than the classes that have rows or, if
 * that many fail, from D. So the 95 % hold for the choice, not just for each number: for rows drawn
 * independently, and for maps made from all rows but a fold. How much another draw of training rows
 * would change is not in it. Memory: 40 bytes per dimension and thread. */
KF_API kf_status kf_dim_choice_new(kf_ctx *ctx, const kf_stats *stats, const kf_data *data,
                                   const kf_dim_options *options, kf_dim_choice **out);
KF_API void kf_dim_choice_free(kf_dim_choice *choice);
/* The 95 % upper bound of what the i-th point loses against all dimensions (kf_loss_upper95); 0 if
 * it is the same by construction. NaN: there is no such point. */
KF_API double kf_dim_upper95(const kf_dim_choice *choice, size_t i);

typedef struct kf_k_options {
  uint32_t most; /* try 1 … most neighbours; 0: 50, or fewer if there are few rows */
  int weighted;  /* as in kf_vote_options */
  double temperature;
  uint64_t sample;  /* leave out at most this many rows in turn; 0: 50,000 */
  double tolerance; /* accuracy that may be lost, 0.01 = one point; 0: its standard error */
  uint32_t folds;   /* of kf_k_choice_new_by_folds; 0: 5 */
  kf_metric metric; /* the same: of the gallery to come */
  uint64_t reserved[3];
} kf_k_options;

typedef struct kf_k_point {
  uint32_t k;
  uint64_t top1, top5;
  uint64_t lost, won; /* rows wrong here and right with the best k; vice versa */
} kf_k_point;

typedef struct kf_k_choice {
  uint32_t k, best;
  uint64_t n;      /* rows that were left out in turn, or in folds */
  size_t n_points; /* one for each k from 1 */
  kf_k_point *points;
  uint32_t folds; /* 0: rows of a gallery were left out in turn */
} kf_k_choice;

/* Chooses k by leaving out each row of the gallery in turn: one search serves all k. This is for
 * galleries in the original space, and for maps fitted on other rows: a map that has seen the row
 * makes a small k look better than it is. `folds` and `metric` must be 0. */
KF_API kf_status kf_k_choice_new(kf_ctx *ctx, const kf_gallery *gallery,
                                 const kf_k_options *options, kf_k_choice **out);
/* Chooses k for a gallery of the rows that a model was fitted on. The rows are divided into
 * stratified folds; each fold is taken out of the statistics, exactly, the model is fitted again
 * with its own lambda (relative to the scatter), centring and number of dimensions, and the rows of
 * the fold look for neighbours among the others. The statistics must be those of the data set, and
 * the model one of these rows. Memory: the rows without a fold, five bytes per value, and `most`
 * bits for each row that is left out. */
KF_API kf_status kf_k_choice_new_by_folds(kf_ctx *ctx, const kf_stats *stats, const kf_data *data,
                                          const kf_model *model, const kf_k_options *options,
                                          kf_k_choice **out);
/* Chooses k for a gallery of these rows, mapped by the model (NULL: in the original space): by folds
 * if the model may have been fitted on them (the same classes with as many rows each), otherwise by
 * leaving out each row in turn, since its map has not seen them. Memory: the rows, five bytes per
 * value. */
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
  double alpha;   /* of fused cells (with folds: that of the first one); 0 elsewhere */
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
  /* 1: without test data, leave rows out in turn instead of making folds, as in
   * kf_lambda_choice_new: prototypes in the mapped space alone, with all dimensions. */
  int leave_one_out;
  uint64_t sample;         /* with leave_one_out: at most this many rows; 0: 50,000 */
  const kf_stats *between; /* as in kf_fit_options */
  const kf_truth *truth;   /* of the test rows, instead of their labels; NULL: labels */
  /* Include zero-shot, as in kf_model_new_zero_shot: the text as it is in the original space, and
   * mapped, with each centring. NULL: rows alone. Not with leave_one_out. */
  const kf_text *text;
  const kf_centre *text_centres; /* NULL: modality */
  size_t n_text_centres;
  /* 1: include text and prototypes together, as kf_fit does (centred on the mean, whatever `centre`
   * is), with the alpha that kf_fuse_choice_new finds at each lambda among these (NULL: the usual
   * ones; a single one is taken as given, and needs no training rows). */
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

/* Accuracy for every combination of lambda, dimension, k and metric, each as kf_fit and kf_eval (or
 * kf_gallery_eval) give it alone, but with shared work done once. `train` are the rows that the
 * statistics are from: needed for neighbours and folds, otherwise it may be NULL. test NULL:
 * stratified folds of the training rows. */
KF_API kf_status kf_sweep_new(kf_ctx *ctx, const kf_stats *stats, const kf_data *train,
                              const kf_data *test, const kf_sweep_options *options, kf_sweep **out);
KF_API void kf_sweep_free(kf_sweep *sweep);

/* --- few-shot curves -------------------------------------------------------------------------- */

/* What is compared, each from the drawn rows alone. */
typedef enum kf_shots_classifier {
  KF_SHOTS_RAW = 0,   /* nearest prototype in the original space */
  KF_SHOTS_KOOFU = 1, /* nearest prototype; lambda by leave-one-out */
  KF_SHOTS_TEXT = 2,  /* zero-shot: text alone, in the original space; the same for all draws */
  KF_SHOTS_FUSED = 3  /* text and prototypes; lambda and alpha chosen together, mean centred */
} kf_shots_classifier;
#define KF_SHOTS_CLASSIFIERS 4 /* there will be no others */
KF_API const char *kf_shots_classifier_name(kf_shots_classifier classifier); /* "raw", "koofu", … */

typedef struct kf_shots_options {
  const uint32_t *shots; /* rows of each class, rising, from 1; NULL: 1, 2, 4, 8, 16 */
  size_t n_shots;
  uint32_t seeds;        /* draws for each number of shots, 1 … 1000; 0: 3 */
  const kf_truth *truth; /* of the test rows, instead of their labels; NULL: labels */
  kf_method method;
  uint64_t reserved[3];
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
  uint32_t fewer; /* classes that have fewer rows and gave all of them */
  uint64_t rows;  /* drawn, of all classes together */
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

/* Accuracy on test rows with only a few training rows of each class. For each number of shots and
 * each seed that many rows of each class are drawn, and everything is chosen from them. The same
 * seed draws the same rows on every machine, and the rows of fewer shots are among those of more.
 * With one row per class there is no scatter within classes. That of all rows takes its place then
 * (see kf_fit_report); with KF_METHOD_PAPER the map is a rotation, lambda is 1, and accuracy is that
 * of the raw space. text NULL: raw and Koo-Fu alone. Memory: 36 bytes per training row. */
KF_API kf_status kf_shots_new(kf_ctx *ctx, const kf_data *data, const kf_data *test,
                              const kf_text *text, const kf_shots_options *options, kf_shots **out);
KF_API void kf_shots_free(kf_shots *shots);
/* The point of the size-th number of shots; NULL: there is none. Owned by shots. */
KF_API const kf_shots_point *kf_shots_at(const kf_shots *shots, size_t size, uint32_t seed,
                                         kf_shots_classifier classifier);

/* Accuracy over seeds. */
typedef struct kf_spread {
  double mean, low, high;
  double deviation; /* sample standard deviation; 0 with one seed */
  uint64_t reserved[2];
} kf_spread;
/* top5 0: of top-1 accuracy; 1: of top-5. */
KF_API void kf_shots_spread(const kf_shots *shots, size_t size, kf_shots_classifier classifier,
                            int top5, kf_spread *out);

/* ---------------------------------------------------------------------------------------------
 * 5  Report: a page about a data set and its model (docs/report.md)
 * ------------------------------------------------------------------------------------------ */

typedef struct kf_report_options {
  const char *title;                  /* NULL: "Koo-Fu report" */
  const char *train_name, *test_name; /* what the rows are called on the page, such as file names */
  const kf_data *test;   /* rows to judge by; NULL: folds of the training rows, without errors */
  const kf_truth *truth; /* of the test rows, instead of their labels; NULL: labels */
  const kf_model *model; /* of the training rows; NULL: one is fitted */
  /* How to fit, as in kf_fit. Of a given model everything is as it was fitted; its text is used
   * unless one is given here. `between` must be NULL. */
  kf_fit_options fit;
  const uint32_t *dims; /* dimensions to compare; NULL: D, D/2, D/4, … */
  size_t n_dims;
  const uint32_t *k; /* neighbours to compare, rising; NULL: 1, 5, 15 */
  size_t n_k;
  const uint32_t *shots; /* with test: few-shot curves, as in kf_shots_options; NULL: none */
  size_t n_shots;
  uint32_t seeds; /* draws for each number of shots; 0: 3 */
  uint64_t reserved[8];
} kf_report_options;

typedef struct kf_report_result {
  uint64_t rows;                /* rows in the model */
  uint64_t n_unlabelled, n_bad; /* training rows that were left out, as in kf_fit_report */
  uint32_t classes, dim_in, dim;
  double lambda, mean_eigenvalue;
  int fused; /* 1: the model has text */
  double alpha;
  /* Leave-one-out accuracy of what was chosen, as in kf_fit_report. */
  uint64_t n, right;
  double standard_error;
  /* Accuracy on the test rows; n is 0 without them. */
  kf_eval_result eval;                  /* prototypes, raw and Koo-Fu */
  kf_eval_result eval_text, eval_fused; /* of a model with text: text alone, and with prototypes */
  /* Near-duplicates among the training rows, as in kf_fit_report. */
  uint64_t n_compared, n_near;
  int many_near;
  uint64_t reserved[5];
} kf_report_result;

/* Writes one HTML page about training rows and their model, with everything chosen that is not
 * given. It shows accuracy in the raw space and in Koo-Fu's, over lambda, alpha, dimensions (with
 * what fewer of them lose), neighbours and shots; the spectra; a map of the classes; and errors on
 * the test rows. The page needs nothing else: no network, no script; the same input gives the same
 * bytes. Training rows are held in memory for the neighbours, five bytes per value. out may be
 * NULL. */
KF_API kf_status kf_report_write(kf_ctx *ctx, const kf_data *train,
                                 const kf_report_options *options, const char *path,
                                 kf_report_result *out);

/* ---------------------------------------------------------------------------------------------
 * 6  Experimental: a page of answers
 * ------------------------------------------------------------------------------------------ */
#ifdef KF_EXPERIMENTAL

typedef struct kf_search_page_options {
  const char *title;    /* NULL: "Koo-Fu search" */
  const char *name;     /* what the gallery is called; NULL: not told */
  const char *note;     /* a sentence below the title; NULL: none */
  const char *pictures; /* folder where relative ids start; NULL: the current folder */
  kf_switch thumbnails; /* show pictures; default: on */
  uint64_t queries;     /* how many there were in all; 0: n */
  uint64_t reserved[8];
} kf_search_page_options;

typedef struct kf_search_page_result {
  uint64_t thumbnails; /* on the page */
  uint64_t bytes;      /* of the page */
  uint64_t reserved[4];
} kf_search_page_result;

/* At most this many pictures are shown, the first ones. */
#define KF_MAX_THUMBNAILS 200u

/* Writes answers of a search as one HTML page that needs nothing else, no network and no script:
 * for each query its k nearest rows with id, label and score. queries: [n] what was asked, words or
 * paths (NULL: numbers are shown); rows and scores: [n][k], as kf_gallery_search gives them, without
 * -1. If a query or the id of a row is the path of a picture that exists and can be read, a small
 * copy of it (160 pixels, some 8 kB) is inside the page. Nothing on the page is a link, and only
 * regular files that are pictures are ever shown; but the ids of a gallery decide which, so look
 * before you pass on a page about a stranger's gallery. The page is made in memory. out may be
 * NULL. */
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
