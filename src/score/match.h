/* match.h - which rows of a data set can be scored, and as what; shared by the accuracies of this
 * room and seen by no other. */
#ifndef KF_SCORE_MATCH_H
#define KF_SCORE_MATCH_H

#include "search/gallery.h"

/* The classes that rows are scored against: those of a model or of a gallery. */
typedef struct kf_known {
  const char *what; /* "model", for messages */
  uint32_t n_classes;
  const kf_names *names;
  const int64_t *counts; /* [n_classes]; a class without rows is not known */
} kf_known;

/* KF_ERR_DATA where there are no labels to compare with. */
kf_status kf_check_labelled(const kf_data *data, kf_err *err);

/* to[k]: the known class that class k of the data set is, or -1. By name where both have names, by
 * number where neither has; KF_ERR_DATA where only one has. */
kf_status kf_match_classes(const kf_known *known, const kf_data *data, int32_t *to, kf_err *err);

typedef struct kf_tally {
  kf_eval_result sum;    /* counts of rows; hits are for others to add */
  unsigned char *absent; /* [data classes] 1: rows of this class were left out */
} kf_tally;

/* Counts n rows [n][dim] and moves those that can be scored to the front, their labels in known
 * numbers. norm2 may be NULL. Returns how many there are. */
uint64_t kf_keep_scored(kf_tally *tally, const int32_t *match, uint32_t dim, uint64_t n,
                        float *rows, int32_t *labels, double *norm2);

/* KF_ERR_DATA where no row could be scored. */
kf_status kf_check_scored(const kf_known *known, const kf_eval_result *sum, kf_err *err);

#endif
