/* stats.h - exact statistics of labelled rows. The header of this room. */
#ifndef KF_STATS_H
#define KF_STATS_H

#include "file/file.h"

/* Integers are in units of 2^-exponent, moments in units of 2^-(2 exponent). */
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
  kf_origin origin;
  char *from;     /* the file or data set, for messages; NULL: several, or none */
  kf_arena arena; /* of the arrays */
};

static inline uint64_t kf_triangle(uint32_t dim) { return (uint64_t)dim * (dim + 1u) / 2; }
/* Index of element (i, j), i <= j. */
static inline uint64_t kf_triangle_at(uint32_t dim, uint32_t i, uint32_t j) {
  return (uint64_t)i * (2u * (uint64_t)dim - i + 1u) / 2 + (j - i);
}

kf_status kf_stats_create(uint32_t dim, uint32_t n_classes, const kf_names *names, bool normalized,
                          int exponent, kf_stats **out, kf_err *err);

/* Sets counts, sums and moments to zero. */
void kf_stats_clear(kf_stats *stats);
/* Adds statistics with the same classes, which are not checked. */
void kf_stats_add_same(kf_stats *to, const kf_stats *from);

/* Sets `from`; NULL: none. */
kf_status kf_stats_set_from(kf_stats *stats, const char *from, kf_err *err);

/* kf_stats_new_from_data as a step of a public call, without a checkpoint. */
kf_status kf_stats_of_data(kf_ctx *ctx, const kf_data *data, const kf_stats_options *options,
                           kf_stats **out);
/* The checksum of the file that kf_stats_save would write. */
kf_status kf_stats_checksum(const kf_stats *stats, uint64_t *out, kf_err *err);
kf_status kf_stats_copy(kf_ctx *ctx, const kf_stats *stats, kf_stats **out);
/* KF_ERR_ARG if statistics cannot be those of a data set. */
kf_status kf_check_statistics_of(const kf_stats *stats, const kf_data *data, kf_err *err);
/* KF_ERR_MATH if there are no rows. */
kf_status kf_check_filled(const kf_stats *stats, kf_err *err);
/* kf_stats_scatter as a step of a public call. */
kf_status kf_scatter(kf_ctx *ctx, const kf_stats *stats, double *s_w, double *s_b, double *mean);
/* The trace of S_w, which is D times its mean eigenvalue, and its squared Frobenius norm (NULL: not
 * wanted). */
kf_status kf_measure_within(kf_ctx *ctx, const kf_stats *stats, double *trace, double *norm2);

/* Sums of X X^T over integer rows |X| <= 2^22, divided among workers (moments.c). kf_moments_flush
 * adds the sums, times `weight`, to the caller's triangle `totals`; the weight may change only
 * after a flush. calls: the number of calls of kf_moments_add. All but the last must pass a
 * multiple of KF_MOMENT_ROWS rows, so that blocks fill without gaps. */
#define KF_MOMENT_ROWS 64u
typedef struct kf_moments kf_moments;
kf_status kf_moments_new(kf_ctx *ctx, uint32_t dim, uint64_t calls, kf_i128 *totals,
                         kf_moments **out);
void kf_moments_free(kf_moments *m);
size_t kf_moments_workers(const kf_moments *m);
void kf_moments_add(kf_moments *m, size_t worker, const int32_t *x, size_t n, int64_t weight);
kf_status kf_moments_flush(kf_moments *m, int64_t weight);

/* The factor by which a row of squared length norm2 is multiplied before rounding to integers. */
double kf_fixed_scale(bool normalized, int exponent, double norm2);
/* Fails if a value of a raw row is too large for the exponent. */
kf_status kf_check_magnitude(const float *x, uint32_t dim, int exponent, const kf_data *data,
                             uint64_t row, kf_err *err);
/* Sets x [D] to a row as the statistics see it, in real units. fixed: workspace, [D]. number: of
 * the row in the data set, for messages. */
kf_status kf_row_seen(const kf_stats *stats, const kf_kernels *kernels, const float *row,
                      double norm2, const kf_data *data, uint64_t number, int32_t *fixed, double *x,
                      kf_err *err);
/* Sets mean [D] to that of class k; zeros if it has no rows. */
void kf_class_mean(const kf_stats *stats, uint64_t k, double *mean);

/* Finds the largest exponent with |x| * 2^exponent <= 2^22 for every value of a data set.
 * unlabelled: includes rows without a label. */
kf_status kf_find_exponent(kf_ctx *ctx, const kf_data *data, bool unlabelled, int *exponent);

/* Adds all labelled rows of a data set. labels [rows]: replace those of the data set; NULL: do not.
 * what: the stage for progress; NULL: none is reported. After a failure the statistics are
 * unusable, except that memory runs out only before the first row is added. */
kf_status kf_stats_accumulate(kf_ctx *ctx, kf_stats *stats, const kf_data *data,
                              const int32_t *labels, const char *what);
/* Adds the rows of a range on this rank only. kf_stats_add_ranks then sums over all ranks, which
 * have added different rows. */
kf_status kf_stats_accumulate_range(kf_ctx *ctx, kf_stats *stats, const kf_data *data,
                                    kf_range rows, const char *what);
kf_status kf_stats_add_ranks(kf_ctx *ctx, kf_status status, kf_stats *stats);

/* --- checkpoints (checkpoint.c) --------------------------------------------------------------- */

/* kf_stats_accumulate for empty statistics, with checkpoints in a folder. */
kf_status kf_stats_accumulate_kept(kf_ctx *ctx, kf_stats *stats, const kf_data *data,
                                   const char *folder, const char *what);
/* Writes and reads a statistics file with a list of the pieces that it covers, on one rank. */
kf_status kf_stats_write_part(const char *path, const kf_stats *stats, const char *covers,
                              kf_err *err);
kf_status kf_stats_read_part(const char *path, char **covers, kf_stats **out, kf_err *err);

/* Adds rows on the devices of the context if there are any and that pays. *done false: nothing was
 * changed, and the CPU must add them. */
kf_status kf_stats_accumulate_on_device(kf_ctx *ctx, kf_stats *stats, const kf_data *data,
                                        kf_range rows, const int32_t *labels, const char *what,
                                        bool *done);
/* Rows of a batch on the CPU. */
uint64_t kf_stats_batch(uint32_t dim);

#endif
