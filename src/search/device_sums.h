/* device_sums.h - prototypes on devices, and softmax sums computed there. Stays in this room. */
#ifndef KF_DEVICE_SUMS_H
#define KF_DEVICE_SUMS_H

#include "search/search.h"

/* The state of prototypes on devices, apart from their index. */
struct kf_prototypes_devices {
  kf_slots_owner map;  /* the map of the model */
  kf_slots_owner sums; /* the prototypes, for probabilities */
  double scales[2];    /* that these are for; with the lock of `sums` */
};
void kf_prototypes_devices_make(struct kf_prototypes_devices *devices);
void kf_prototypes_devices_clear(struct kf_prototypes_devices *devices);

/* Whether scores are sums in f32, because the prototypes are many (probabilities.c). */
bool kf_scores_narrow(const kf_prototypes *p);

/* Sets use->sums for a pass over `rows` rows, if probabilities are wanted. */
kf_status kf_sums_begin(kf_ctx *ctx, kf_prototypes_use *use, uint64_t rows);
/* The odds of n queries; *done: if not, the CPU has to find them. On any thread. */
kf_status kf_sums_find(const kf_prototypes_use *use, const float *queries, uint64_t n, kf_odds *out,
                       bool *done, kf_err *err);

#endif
