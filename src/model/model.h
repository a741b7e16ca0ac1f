/* model.h - the fitted model, as the rooms above see it. Sees stats and below. */
#ifndef KF_MODEL_H
#define KF_MODEL_H

#include "stats/stats.h"

struct kf_model {
  uint32_t dim_in;  /* D */
  uint32_t dim_out; /* L */
  uint32_t n_classes;
  kf_names names; /* n = 0: no names */
  bool normalized;
  kf_centre centre;
  double lambda;          /* absolute */
  double mean_eigenvalue; /* of S_w */
  uint32_t rank;          /* of S_w, numerically */
  uint64_t rows;          /* that S_w was made of */
  double *transform;      /* T, [L][D] */
  double *transposed;     /* the same as [D][L], for the kernels; not in the file */
  double *mean;           /* [D] */
  double *within;         /* eigenvalues of S_w, falling, [D] */
  double *between;        /* eigenvalues gamma of the whitened S_b, falling, [D] */
  int64_t *counts;        /* [K] */
  float *class_means;     /* [K][D] */
  float *prototypes;      /* mapped class means, unit length, [K][L] */
  double *lengths;        /* that the mapped class means have, [K] */
  /* What a model that knows text has besides; NULL: it does not. */
  float *text;               /* unit length, [K][D]; predicted where it is not given */
  unsigned char *text_given; /* [K] */
  float *fused;              /* unit prototypes, [K][L]; predicted where there are no rows */
  int64_t *evidence;         /* rows and 1 for text, [K]; 1 for text alone, [K]; not in the file */
  double alpha;
};

/* Makes room for text, zeroed. */
kf_status kf_model_make_text(kf_model *model, kf_err *err);
/* Copies text and alpha to a model with room for it and as many classes or more. */
void kf_model_copy_text(const kf_model *from, kf_model *to);
/* Predicts what classes with text or rows alone lack, of class `only` (-1: of all). */
kf_status kf_model_complete(kf_ctx *ctx, kf_model *model, int64_t only);
/* How much is known of each class by a part of the model, [K]; 0: it does not take part. */
const int64_t *kf_model_evidence(const kf_model *model, kf_part part);
/* Sets `evidence` from counts and text_given. */
void kf_model_weigh(kf_model *model);

/* Allocates a model with all its arrays, zeroed, and copies the names. */
kf_status kf_model_create(uint32_t dim_in, uint32_t dim_out, uint32_t n_classes,
                          const kf_names *names, kf_model **out, kf_err *err);
/* Fills `transposed` from `transform`. */
void kf_model_finish(kf_model *model);

/* Maps the means of n <= KF_MAP_ROWS classes of some statistics, from `from` on: means [n][D] and
 * mapped [n][L]; classes without rows are zeros. scratch as for kf_map_f64. */
void kf_model_map_classes(const kf_model *model, const kf_kernels *kernels, uint32_t n,
                          const kf_stats *stats, uint32_t from, double *scratch, double *means,
                          double *mapped);
/* Sets counts, means and prototypes of n <= KF_MAP_ROWS classes from k on, from the classes of some
 * statistics from `from` on. */
kf_status kf_model_set_classes(kf_model *model, const kf_kernels *kernels, uint32_t k, uint32_t n,
                               const kf_stats *stats, uint32_t from, kf_err *err);

/* c = a^T b in f64, on all threads; a [depth][m], b [depth][n]. `upper`: c is symmetric, and its
 * lower triangle is left out, but for whole blocks of rows. */
typedef struct kf_product {
  const double *a, *b;
  double *c;
  size_t m, n, depth;
  bool upper;
} kf_product;
kf_status kf_multiply(kf_ctx *ctx, kf_product product);

/* Fits of the same statistics for several lambdas, which share the decomposition of S_w. The
 * statistics must outlive it. between NULL: the same as within. */
typedef struct kf_fitter kf_fitter;
kf_status kf_fitter_new(kf_ctx *ctx, const kf_stats *within, const kf_stats *between,
                        kf_fitter **out);
void kf_fitter_free(kf_fitter *fitter);
/* The model that kf_fit gives. */
kf_status kf_fitter_fit(kf_fitter *fitter, kf_lambda lambda, uint32_t dim, kf_centre centre,
                        kf_model **out);
/* The model that kf_fitter_fit gives with the first `dim` directions of one that it gave before, and
 * another centre: without decomposing anything again. */
kf_status kf_fitter_shorten(const kf_fitter *fitter, const kf_model *model, uint32_t dim,
                            kf_centre centre, kf_model **out);
/* A lambda as an absolute number; an error where no fit is possible with it. */
kf_status kf_fitter_lambda(const kf_fitter *fitter, kf_lambda lambda, double *out);
kf_ctx *kf_fitter_ctx(const kf_fitter *fitter);
const kf_stats *kf_fitter_stats(const kf_fitter *fitter); /* that S_w is from */
double kf_fitter_mean_eigenvalue(const kf_fitter *fitter);
const double *kf_fitter_values(const kf_fitter *fitter);  /* of S_w, falling, [D] */
const double *kf_fitter_vectors(const kf_fitter *fitter); /* rows, [D][D] */
const double *kf_fitter_mean(const kf_fitter *fitter);    /* [D] */

/* Copies all that is not about classes, with the first `dim` directions; `to` has as many. */
void kf_model_copy_map(const kf_model *from, kf_model *to, uint32_t dim);
/* The same and its classes; `to` has as many or more, and keeps its own names. Text is left out. */
void kf_model_copy(const kf_model *from, kf_model *to);
/* The map of a model with its first `dim` directions alone; without classes. */
kf_status kf_model_new_shorter(const kf_model *model, uint32_t dim, kf_model **out, kf_err *err);

/* Eigenvalues (falling) and eigenvectors (rows of vectors [n][n]) of the symmetric a [n][n], which
 * is destroyed. The same bits on every machine. */
kf_status kf_eigen(kf_ctx *ctx, uint32_t n, double *a, double *values, double *vectors);

/* Maps up to KF_MAP_ROWS rows: out[n][L] = T (x * scale - centre), in f64. `scratch` has room for
 * kf_map_scratch(model) doubles. */
#define KF_MAP_ROWS 64u
uint64_t kf_map_scratch(const kf_model *model);
void kf_map_f64(const kf_model *model, const kf_kernels *kernels, const double *x, uint64_t n,
                double *scratch, double *out);
/* The same from at most KF_MAP_ROWS f32 rows and their squared lengths, as the model wants them, with
 * room for 2 * kf_map_scratch(model) doubles. */
void kf_map_rows_f64(const kf_model *model, const kf_kernels *kernels, const float *rows,
                     const double *norm2, uint64_t n, double *scratch, double *out);
/* The same to f32; normalize: the
 * mapped rows are scaled to unit length. Any n. A row with norm2 = 0 gives zeros. */
kf_status kf_map_rows(const kf_model *model, const kf_kernels *kernels, const float *rows,
                      const double *norm2, uint64_t n, bool normalize, float *out, kf_err *err);

/* The map alone, in files that carry it: its metadata and the declaration of its tensors, then
 * their bytes. Read back it is a model without classes. */
kf_status kf_map_declare(kf_stw *w, const kf_model *model, kf_err *err);
kf_status kf_map_write(kf_stw *w, const kf_model *model, kf_err *err);
kf_status kf_map_load(const kf_st *st, kf_model **out, kf_err *err);

/* Text prototypes (text.c). */
const kf_names *kf_text_names(const kf_text *text);
void kf_text_mean(const kf_text *text, double *mean); /* [dim] of its rows */
/* KF_ERR_DATA if its rows are not as long as those of images. */
kf_status kf_text_check(const kf_text *text, uint32_t dim, kf_err *err);
/* Logs which of the n classes of `of` ("training data") have no text, and which text has no such class;
 * KF_ERR_DATA if nothing matches, or if only one side has names. The error goes to the context. */
kf_status kf_text_match(kf_ctx *ctx, const kf_text *text, const char *of, const kf_names *names,
                        uint32_t n);

/* The metric that is meant where none was given. */
static inline kf_metric kf_metric_for(kf_metric metric, bool normalized) {
  if (metric != KF_METRIC_DEFAULT) return metric;
  return normalized ? KF_METRIC_COSINE : KF_METRIC_EUCLIDEAN;
}

/* KF_ERR_MATH: mapped rows do not fit f32. */
kf_status kf_fail_range(const kf_model *model, kf_err *err);
/* KF_ERR_DATA where the rows of a data set are not as long as the model's, or are mapped already. */
kf_status kf_model_check_data(const kf_model *model, const kf_data *data, kf_err *err);

/* out = x scaled to unit length (f64, then rounded), or zeros; returns the length. No finite x is
 * too long or too short. */
double kf_unit_row(const kf_kernels *kernels, const double *x, uint32_t dim, float *out);

#endif
