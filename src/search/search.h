/* search.h - nearest rows. Sees model and below. */
#ifndef KF_SEARCH_H
#define KF_SEARCH_H

#include "model/model.h"

/* The prototypes of a model, ready to be searched: in the mapped or in the original space, unit
 * length for cosine; classes without rows are not among them. */
typedef struct kf_prototypes {
  const kf_model *model;
  const kf_kernels *kernels;
  kf_metric metric; /* cosine or Euclidean */
  bool raw;
  uint32_t n, dim;
  float *rows;  /* [n][dim] */
  int32_t *ids; /* [n] class numbers, rising */
} kf_prototypes;

kf_status kf_prototypes_new(kf_ctx *ctx, const kf_model *model, kf_metric metric, bool raw,
                            kf_prototypes **out);
void kf_prototypes_free(kf_prototypes *p);

/* The `top` <= p->n nearest prototypes of n rows of the original space, best first, as kf_classify
 * gives them. scores may be NULL. Any worker thread may call it. */
kf_status kf_prototypes_nearest(const kf_prototypes *p, const float *rows, const double *norm2,
                                uint64_t n, uint32_t top, int32_t *classes, double *scores,
                                kf_err *err);

#endif
