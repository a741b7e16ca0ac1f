/* positions_internal.h - shared by positions.c and positions_new.c. */
#ifndef KF_CHOOSE_POSITIONS_INTERNAL_H
#define KF_CHOOSE_POSITIONS_INTERNAL_H

#include "choose/positions.h"

#define KF_STRETCH 64u /* settings of a stretch, at most */

/* Settings [first, last) that share a look at all prototypes, at the sums of setting `at`. Arrays are
 * [n]; those that are not needed are zeros or ones. */
typedef struct kf_stretch {
  size_t first, last, at;
  float *far;         /* the longer part of a prototype between `at` and an end */
  float *first_scale; /* 1 / its length at the first setting, for cosines */
  float *last_scale;  /* the same at the last one */
  float *offset;      /* half its squared length at the first setting, for distances */
  double growth;      /* the most by which a length grows from the first to the last setting */
} kf_stretch;

struct kf_position_finder {
  const kf_kernels *kernels;
  const kf_model *model; /* with the most dimensions */
  bool euclidean;
  const uint32_t *dims; /* [n_dims], rising */
  size_t n_dims;
  uint32_t most;    /* the last of them */
  uint32_t n;       /* prototypes */
  int32_t *number;  /* [n] class numbers, rising */
  int32_t *place;   /* [n_classes], or -1 */
  double *mapped;   /* [n][most] mapped class means */
  float *column;    /* [n] one more of them, of priors; zeros without */
  double size;      /* by which f32 values are divided: that of the largest prototype */
  float *columns;   /* [most][n] the same divided by size */
  double *longest;  /* [n_dims] of the prototypes, divided by size */
  double *steepest; /* [n_dims] the largest inverse length; infinite if f32 cannot hold one */
  kf_stretch *stretches;
  size_t n_stretches;
  float *zeros, *ones; /* [n] */
  kf_arena arena;
};

#endif
