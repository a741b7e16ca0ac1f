/* stats.h - exact moments, as the rooms above see them. Sees file and below. */
#ifndef KF_STATS_H
#define KF_STATS_H

#include "file/file.h"

__extension__ typedef __int128 kf_i128;
__extension__ typedef unsigned __int128 kf_u128;

/* All integers are in units of 2^-exponent (moments: 2^-2 exponent). */
struct kf_stats {
  uint32_t dim;
  uint32_t n_classes;
  kf_names names; /* n = 0: no names */
  bool normalized;
  int exponent;
  uint64_t rows;
  int64_t *counts;  /* [n_classes] */
  int64_t *sums;    /* [n_classes][dim] */
  kf_i128 *moments; /* upper triangle by rows: (0,0), (0,1), … (0,D-1), (1,1), … */
};

/* No sum overflows up to this many rows: class sums stay below 2^22 * 2^40, moments below 2^84. */
#define KF_MAX_ROWS ((uint64_t)1 << 40)

static inline uint64_t kf_triangle(uint32_t dim) {
  return (uint64_t)dim * (dim + 1u) / 2;
}
/* Index of element (i, j), i <= j. */
static inline uint64_t kf_triangle_at(uint32_t dim, uint32_t i, uint32_t j) {
  return (uint64_t)i * (2u * (uint64_t)dim - i + 1u) / 2 + (j - i);
}

kf_status kf_stats_create(uint32_t dim, uint32_t n_classes, const kf_names *names, bool normalized,
                          int exponent, kf_stats **out, kf_err *err);

/* The factor that takes a row of squared length norm2 to integers. */
double kf_fixed_scale(bool normalized, int exponent, double norm2);
/* Fails where a value of the row is too large for the exponent (raw-norm mode). */
kf_status kf_check_magnitude(const float *x, uint32_t dim, int exponent, const kf_data *data,
                             uint64_t row, kf_err *err);

/* The largest exponent with |x| * 2^exponent <= 2^22 for every value of a data set. */
kf_status kf_find_exponent(kf_ctx *ctx, const kf_data *data, int *exponent);

/* Adds all rows of a data set that have a label; `labels` [rows] stands in for the data set's own
 * where it is not NULL. `what` names the stage for progress; NULL: none is reported. On failure
 * after the first row the statistics are spoilt; running out of memory comes before it. */
kf_status kf_stats_accumulate(kf_ctx *ctx, kf_stats *stats, const kf_data *data,
                              const int32_t *labels, const char *what);

#endif
