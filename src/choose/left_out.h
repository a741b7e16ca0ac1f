/* left_out.h - leave-one-out and leave-one-group-out: the scores of all classes for the rows left
 * out, hits and likelihood (left_out.c). */
#ifndef KF_CHOOSE_LEFT_OUT_H
#define KF_CHOOSE_LEFT_OUT_H

#include "choose/choose.h"

#include <math.h>

typedef struct kf_left_out kf_left_out;

typedef struct kf_left_out_options {
  kf_metric metric;       /* cosine or Euclidean */
  kf_centre centre;       /* by cosine: what is subtracted from rows before they are mapped */
  uint64_t sample;        /* rows to leave out, about; 0: KF_LEFT_OUT_SAMPLE */
  const uint32_t *groups; /* [rows of the data set] rows to leave out together; NULL: one by one */
  const float *text;      /* [n_classes][D] text prototypes of unit length; NULL: none */
  /* Only hits are counted, as in the paper's method. That needs more rows, by default up to 50,000,
   * and less time for each. With many scores the products are in f32, which changes about one hit
   * in 100,000 rows. */
  bool by_hits;
} kf_left_out_options;

#define KF_LEFT_OUT_LARGEST 16384u /* rows of the largest group */

/* The fitter, its statistics, the data set, groups and text must outlive it. KF_ERR_MATH if there
 * is no scatter within classes. KF_ERR_ARG if class means are shrunk towards the mean of all rows,
 * but rows are not centred on it. */
kf_status kf_left_out_new(kf_fitter *fitter, const kf_data *data,
                          const kf_left_out_options *options, kf_left_out **out);
void kf_left_out_free(kf_left_out *l);

typedef struct kf_left_out_count {
  uint64_t rows;     /* of the data set that have a label */
  uint64_t n;        /* rows left out that can be judged */
  uint64_t planned;  /* rows left out, including those of a group that cannot be judged */
  uint64_t n_single; /* rows whose class has no other row, or none outside their group */
} kf_left_out_count;
kf_left_out_count kf_left_out_counts(const kf_left_out *l);

/* The result at one lambda and, with text, one alpha: a class then scores text + alpha *
 * prototype. */
typedef struct kf_left_out_point {
  double alpha;       /* set by the caller; ignored without text */
  double temperature; /* with the least loss */
  double loss;        /* mean of -ln p of the true class, p = softmax(temperature * score) */
  double loss_error;  /* its standard error */
  /* The standard error of ln(temperature); infinite if the loss is least at the first or last
   * temperature tried. */
  double temperature_error;
  uint64_t top1, top5;
} kf_left_out_point;

/* Called on any worker for every row left out, with its number in the data set, its class and the
 * scores of all classes [n_classes], NaN for classes without rows. */
typedef void (*kf_left_out_fn)(void *argument, uint64_t row, int32_t label, const double *scores,
                               size_t worker);

typedef struct kf_left_out_trial {
  double lambda; /* absolute */
  uint64_t most; /* leave out about this many of the rows, spread evenly; 0: all */
  bool curve;    /* one of many lambdas, as in kf_fitter_directions_at */
  bool fast;     /* cosines in f32: losses are right to 1e-4 (docs/choosing.md) */
  /* The rows left out include all those of a trial with `most` = part (0: no such condition), and
   * of_part [n_points] gets the result for those alone; NULL: not wanted. */
  uint64_t part;
  kf_left_out_point *of_part;
  /* Skips the rows that a trial with `most` = skip leaves out. 0: none. */
  uint64_t skip;
  bool hits; /* count hits only; points get no loss and no temperature */
  /* With `hits`: sets `bit` of right [planned] for each row of this rank that is a hit at the first
   * point. NULL: not wanted. */
  uint64_t *right;
  unsigned bit;
  /* If classes have priors by cosine (kf_fitter_weighs): with 0 these are weights in the
   * likelihood, and hits are those of plain cosines; otherwise scores are cosines with this prior,
   * as in a model. */
  double prior;
  const char *what;   /* the stage, for progress */
  kf_left_out_fn see; /* gets the scores of the first point; NULL: not wanted */
  void *argument;
} kf_left_out_trial;
/* Fills in the points. *n: how many rows were left out. */
kf_status kf_left_out_try(kf_left_out *l, const kf_left_out_trial *trial, kf_left_out_point *points,
                          size_t n_points, uint64_t *n);

/* --- every row, as a model answers it (left_out_errors.c) ------------------------------------- */

/* Makes trial->see see the scores that a model gives to the training rows, each left out; the
 * members of the trial that the model has are set here. Without a row to leave out *n is 0. */
kf_status kf_left_out_see(kf_fitter *fitter, const kf_data *data, const kf_left_out_model *model,
                          kf_left_out_trial *trial, kf_left_out_point *point, uint64_t *n);

/* The distance that is the score of kf_classify, from a Euclidean score of a row left out. unit:
 * kf_distance_unit. Rounding may make a square near 0 negative; NaN stays NaN. */
static inline double kf_left_out_distance(double score, double unit) {
  double square = -2 * score / unit;
  return square < 0 ? 0 : sqrt(square);
}

#endif
