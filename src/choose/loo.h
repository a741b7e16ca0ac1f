/* loo.h - exact leave-one-out for nearest prototypes: the pass over rows (loo.c). */
#ifndef KF_CHOOSE_LOO_H
#define KF_CHOOSE_LOO_H

#include "choose/rows.h"

typedef struct kf_loo kf_loo;

/* metric: cosine or Euclidean. The fitter, its statistics and the data set must outlive it. */
kf_status kf_loo_new(kf_fitter *fitter, const kf_data *data, kf_metric metric, kf_centre centre,
                     kf_loo **out);
void kf_loo_free(kf_loo *loo);
kf_ctx *kf_loo_ctx(const kf_loo *loo);
uint32_t kf_loo_classes(const kf_loo *loo); /* also those without rows */
uint64_t kf_loo_count_single(const kf_loo *loo, const kf_row_list *rows); /* alone in their class */
/* Adds the text prototype of every class, of unit length, [n_classes][D]. Then a class has the
 * score text + alpha * prototype, both cosines, and a row's own prototype keeps the length that
 * it has with the row. */
kf_status kf_loo_set_text(kf_loo *loo, const float *rows);

typedef struct kf_loo_count {
  uint64_t n, n_single; /* rows that were left out in turn; rows alone in their class */
} kf_loo_count;

/* Hits at each point, a lambda (absolute) and with text an alpha, in one pass over `rows` (NULL:
 * all). Points of the same lambda next to each other share its work. right: [rows->n], or of all rows; may be NULL; bit i of a row
 * is set if it was a hit at point i (of 64 at most), for the rows of this rank. Errors go to the context. */
kf_status kf_loo_count_hits(kf_loo *loo, const kf_row_list *rows, const char *what,
                            kf_fuse_point *points, size_t n_points, uint64_t *right,
                            kf_loo_count *count);
/* The leave-one-out scores of one row, cosines or squared distances, [n_classes]; NaN for classes
 * that have no rows then. */
kf_status kf_loo_scores(kf_loo *loo, uint64_t row, double lambda, double *scores);

#endif
