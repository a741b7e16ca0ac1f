/* positions_internal.h - shared by positions.c and positions_new.c. */
#ifndef KF_CHOOSE_POSITIONS_INTERNAL_H
#define KF_CHOOSE_POSITIONS_INTERNAL_H

#include "choose/positions.h"

#define KF_STRETCH 64u /* most settings of a stretch */

/* Settings [first, last) that share one scan of all prototypes, with the sums of setting `at`.
 * Arrays are [n]; those that are not needed are zeros or ones. */
typedef struct kf_stretch {
  size_t first, last, at;
  float *far;         /* length of the prototype between `at` and either end, the larger one */
  float *first_scale; /* 1 / its length at the first setting, for cosines */
  float *last_scale;  /* 1 / its length at the last setting */
  float *offset;      /* half its squared length at the first setting, for distances */
  double growth;      /* the largest factor by which a length grows within the stretch */
} kf_stretch;

struct kf_position_finder {
  const kf_kernels *kernels;
  const kf_model *model; /* with at least `most` dimensions */
  bool euclidean;
  const uint32_t *dims; /* [n_dims], rising */
  size_t n_dims;
  uint32_t most;    /* the last of them */
  uint32_t n;       /* prototypes */
  int32_t *number;  /* [n] class numbers, rising */
  int32_t *place;   /* [n_classes], or -1 */
  double *mapped;   /* [n][most] mapped class means */
  float *column;    /* [n] another column, for priors; zeros without */
  double size;      /* about the largest length; f32 values are divided by it */
  float *columns;   /* [most][n] mapped class means in f32 */
  double *longest;  /* [n_dims] the largest length of a prototype, divided by size */
  double *steepest; /* [n_dims] the largest inverse length; infinite if f32 cannot hold one */
  kf_stretch *stretches;
  size_t n_stretches;
  float *zeros, *ones; /* [n] */
  kf_arena arena;
};

#endif
