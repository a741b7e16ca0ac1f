/* left_out.h - the scores of all classes for rows left out, with their likelihood (left_out.c). */
#ifndef KF_CHOOSE_LEFT_OUT_H
#define KF_CHOOSE_LEFT_OUT_H

#include "choose/rows.h"

typedef struct kf_left_out kf_left_out;

typedef struct kf_left_out_options {
  kf_metric metric;       /* cosine or Euclidean */
  kf_centre centre;       /* of cosines: what is subtracted from rows before they are mapped */
  uint64_t sample;        /* leave out about this many rows at most; 0: KF_LEFT_OUT_SAMPLE */
  const uint32_t *groups; /* [rows of the data set] left out together; NULL: each row alone */
  const float *text;      /* [n_classes][D] text prototypes of unit length; NULL: none */
  /* Only hits are counted, as in the paper's method: this takes more rows, by default up to 50,000,
   * and less time for each. If there are many scores, products are in f32, and one row in 100,000
   * may be counted otherwise than in f64. */
  bool by_hits;
} kf_left_out_options;

#define KF_LEFT_OUT_LARGEST 16384u /* rows in a group */

/* The fitter, its statistics, the data set, groups and text must outlive it. KF_ERR_MATH if there is
 * no scatter within classes; KF_ERR_ARG if class means are shrunk, which is towards the mean of all
 * rows, but cosines are not centred on it. */
kf_status kf_left_out_new(kf_fitter *fitter, const kf_data *data,
                          const kf_left_out_options *options, kf_left_out **out);
void kf_left_out_free(kf_left_out *l);

typedef struct kf_left_out_count {
  uint64_t rows;     /* of the data set that have a label */
  uint64_t n;        /* rows to leave out that can be judged */
  uint64_t planned;  /* rows to leave out, with those of groups that cannot be judged */
  uint64_t n_single; /* rows without others of their class, or outside their group */
} kf_left_out_count;
kf_left_out_count kf_left_out_counts(const kf_left_out *l);

/* At one lambda, and with text one alpha: a class has the score text + alpha * prototype. */
typedef struct kf_left_out_point {
  double alpha;       /* given; ignored without text */
  double temperature; /* with the least loss */
  double loss;        /* mean of -ln p of the true class, p = softmax(temperature * score) */
  double loss_error;  /* its standard error */
  /* The standard error of ln(temperature); infinite if the loss is least at an end of those tried. */
  double temperature_error;
  uint64_t top1, top5;
} kf_left_out_point;

/* Called for every row left out, from any thread, with its number in the data set, its class, and
 * the scores of all classes [n_classes], NaN for those that have no rows then. */
typedef void (*kf_left_out_fn)(void *argument, uint64_t row, int32_t label, const double *scores);

typedef struct kf_left_out_trial {
  double lambda; /* absolute */
  uint64_t most; /* leave out about this many of the rows, spread evenly; 0: all */
  bool curve;    /* one of many lambdas, as in kf_fitter_decompose */
  bool fast;     /* cosines in f32: losses to 1e-4 (docs/choosing.md) */
  /* Of the rows left out, those that a trial with `most` this large leaves out make a second result
   * [n_points]. 0, NULL: not wanted. */
  uint64_t part;
  kf_left_out_point *of_part;
  /* Rows that a trial with `most` this large leaves out are skipped. */
  uint64_t skip;
  bool hits; /* count hits only; points have no loss and no temperature */
  /* With `hits`: [planned] `bit` is set where a row of this rank is a hit at the first point; NULL:
   * not wanted. */
  uint64_t *right;
  unsigned bit;
  /* Where larger classes are likelier by cosine (kf_fitter_weighs): with 0 the likelihood says so, and
   * hits are those of cosines; otherwise scores are cosines with this prior, as a model has them. */
  double prior;
  const char *what;   /* for progress */
  kf_left_out_fn see; /* NULL: nobody; scores are those of the first point */
  void *argument;
} kf_left_out_trial;
/* Fills in the points; n: how many rows were left out. */
kf_status kf_left_out_try(kf_left_out *l, const kf_left_out_trial *trial, kf_left_out_point *points,
                          size_t n_points, uint64_t *n);

#endif
