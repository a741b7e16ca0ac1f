/* model.h - maps, fitted models, fitters, text and linear algebra. The header of this room. */
#ifndef KF_MODEL_H
#define KF_MODEL_H

#include "device/device.h"
#include "stats/stats.h"

#include <math.h>

/* --- maps (map.c) ---------------------------------------------------------------------------- */

/* z = T x, or T (x - mean) if it is centred, with x scaled to unit length first if `normalized`.
 * The arrays belong to an arena of the owner: a model, or a gallery. */
typedef struct kf_map {
  uint32_t dim_in;  /* D */
  uint32_t dim_out; /* L */
  bool normalized;
  kf_method method;     /* never KF_METHOD_DEFAULT */
  kf_centre centre;     /* none or mean */
  double lambda;        /* absolute */
  double *transform;    /* T, [L][D] */
  double *transposed;   /* the same as [D][L], for the kernels; not in files */
  double *mean;         /* [D] */
  kf_origin origin;     /* of the rows it was fitted to; galleries have their own */
  uint64_t fitted_from; /* kf_stats_checksum of its statistics; 0: not known */
  char fitted_by[32];   /* "koofu 0.2.0"; "": not known */
} kf_map;

/* Takes zeroed arrays; the caller checks the arena. */
void kf_map_make(kf_map *map, uint32_t dim_in, uint32_t dim_out, kf_arena *arena);
/* Copies the first `to->dim_out` directions of a map. */
void kf_map_copy(const kf_map *from, kf_map *to);
/* Sets `transposed` from `transform`. */
void kf_map_finish(kf_map *map);
/* Makes the map for text, with Q = (T T^T)^(-1/2) T in place of T (text_map.c). */
kf_status kf_map_for_text(kf_ctx *ctx, const kf_map *map, kf_map *out, kf_arena *arena);
/* Whether two maps map every row alike. */
bool kf_map_equal(const kf_map *a, const kf_map *b);
/* KF_ERR_DATA if the rows of a data set belong to a gallery with a map or were mapped by this
 * one. */
kf_status kf_map_refuse_mapped(const kf_map *map, const kf_data *data, kf_err *err);
/* KF_ERR_DATA if the rows of a data set have the wrong length, come from another encoder or are
 * mapped already. */
kf_status kf_map_check_data(const kf_map *map, const kf_data *data, kf_err *err);
/* KF_ERR_MATH: mapped rows overflow f32. */
kf_status kf_fail_range(const kf_map *map, kf_err *err);

/* Maps up to KF_MAP_ROWS rows in f64: out[n][L] = T (x - centre). `workspace` has room for
 * kf_map_workspace(map) doubles. */
#define KF_MAP_ROWS 96u /* whole tiles of every product */
uint64_t kf_map_workspace(const kf_map *map);
void kf_map_f64(const kf_map *map, const kf_kernels *kernels, const double *x, uint64_t n,
                double *workspace, double *out);
/* Maps up to KF_MAP_ROWS f32 rows with their squared lengths: out = T (x + shift - centre), with x
 * scaled to unit length first if the map is `normalized`, and shift [D], NULL for zero. Takes
 * 2 * kf_map_workspace(map) doubles of workspace. */
void kf_map_rows_f64(const kf_map *map, const kf_kernels *kernels, const float *rows,
                     const double *norm2, const double *shift, uint64_t n, double *workspace,
                     double *out);
/* The same for any number of rows, rounded to f32. normalize: scales mapped rows to unit length. A
 * row with norm2 = 0 gives zeros. */
kf_status kf_map_rows(const kf_map *map, const kf_kernels *kernels, const float *rows,
                      const double *norm2, const double *shift, uint64_t n, bool normalize,
                      float *out, kf_err *err);
/* Maps the means of n <= KF_MAP_ROWS classes of the statistics, from class `from` on: means [n][D]
 * and mapped [n][L]; zeros for classes without rows. workspace as for kf_map_f64. On any thread. */
void kf_map_class_means(const kf_map *map, const kf_kernels *kernels, const kf_stats *stats,
                        uint32_t from, uint32_t n, double *workspace, double *means,
                        double *mapped);

/* out = x scaled to unit length in f64, then rounded; zeros for a zero x. Returns the length. Works
 * for every finite x, however long or short. */
double kf_unit_row(const kf_kernels *kernels, const double *x, uint32_t dim, float *out);

/* Maps rows on the threads of a pass, on devices where that pays (mapping.c). The owner keeps
 * copies of the map on devices; one owner serves one map, with or without `unit`. `begin` and `end`
 * work as kf_slots_begin and kf_slots_end. map NULL: nothing is mapped. */
typedef struct kf_mapping {
  const kf_map *map;
  const kf_kernels *kernels;
  bool unit; /* mapped rows are scaled to unit length */
  kf_slots_use use;
} kf_mapping;
kf_status kf_mapping_begin(kf_ctx *ctx, const kf_map *map, bool unit, kf_slots_owner *owner,
                           uint64_t rows, kf_mapping *out);
kf_status kf_mapping_end(kf_ctx *ctx, kf_mapping *mapping, kf_status status);
/* kf_map_rows without a shift; gives the same bits. */
kf_status kf_mapping_rows(const kf_mapping *mapping, const float *rows, const double *norm2,
                          uint64_t n, float *out, kf_err *err);
/* The number of rows that a thread should map at a time; `otherwise` if the CPU maps them. */
uint64_t kf_mapping_batch(const kf_mapping *mapping, uint64_t otherwise);

/* Writes and reads a map as part of a file (model_file.c): first its metadata and the declaration
 * of its tensors, then their bytes. */
kf_status kf_map_declare(kf_stw *w, const kf_map *map, kf_err *err);
kf_status kf_map_write(kf_stw *w, const kf_map *map, kf_err *err);
kf_status kf_map_load(const kf_st *st, kf_map *map, kf_arena *arena, kf_err *err);

/* --- models (model.c) ------------------------------------------------------------------------ */

struct kf_model {
  kf_map map;
  uint32_t n_classes;
  kf_names names;         /* n = 0: no names */
  double mean_eigenvalue; /* of S_w */
  uint32_t dims_within;   /* the numerical matrix rank of S_w */
  uint64_t rows;          /* of the statistics for S_w */
  double *within;         /* eigenvalues of S_w, falling, [D] */
  double *between;        /* eigenvalues gamma of the whitened S_b, falling, [D] */
  int64_t *counts;        /* [K] */
  float *class_means;     /* [K][D] */
  float *prototypes;      /* mapped class means, unit length, [K][L] */
  double *lengths;        /* of the mapped class means, [K] */
  double *signal; /* g of fitter.c, [D]; rows are then centred. NULL: class means are not shrunk */
  double prior;   /* of kf_prior2, for images; 0: all classes are equally likely */
  /* Only in a model with text; NULL otherwise. */
  float *text;               /* unit length, [K][D]; predicted unless given */
  unsigned char *text_given; /* [K] */
  float *fused;              /* unit prototypes, [K][L]; predicted for classes without rows */
  int64_t *evidence;         /* [2][K]: rows + text, then text only; not in the file */
  double alpha;
  double temperature;         /* of scores by the model's own metric and part; 0: not known */
  double reject;              /* a row whose best score is worse belongs to no known class */
  double reject_share;        /* of known rows that the threshold keeps; 0: no threshold */
  uint64_t text_from;         /* kf_text_checksum of its text; 0: none, or not known */
  uint64_t text_made_with;    /* kf_text_made_with of it; 0: not known */
  kf_slots_owner *on_devices; /* [2] the map, without and with unit length: stays for later calls */
  kf_arena arena;
};

/* A model with zeroed arrays. Copies the names. */
kf_status kf_model_create(uint32_t dim_in, uint32_t dim_out, uint32_t n_classes,
                          const kf_names *names, kf_model **out, kf_err *err);
/* Copies all but the classes, with the first `to->map.dim_out` directions. */
kf_status kf_model_copy_map(const kf_model *from, kf_model *to, kf_err *err);
/* Copies all but the text and the names. `to` may have more classes. */
kf_status kf_model_copy(const kf_model *from, kf_model *to, kf_err *err);
/* Takes `signal`, zeroed. */
kf_status kf_model_make_signal(kf_model *model, kf_err *err);
/* Takes the arrays for text, zeroed. */
kf_status kf_model_make_text(kf_model *model, kf_err *err);
/* The tensors of its file, in their order; returns how many there are. */
enum { KF_MODEL_FIELDS = 12 };
size_t kf_model_fields(const kf_model *model, kf_st_field fields[KF_MODEL_FIELDS]);
/* KF_ERR_ARG unless alpha is 0 to KF_MAX_ALPHA. */
kf_status kf_check_alpha(double alpha, kf_err *err);
/* Records that a model was made with this text, in addition to any before. */
void kf_model_name_text(kf_model *model, const kf_text *text);
/* Copies text and alpha. `to` has arrays for text and may have more classes. */
void kf_model_copy_text(const kf_model *from, kf_model *to);
/* Predicts what classes with only text or only rows lack, for class `only`; -1: for all. */
kf_status kf_model_complete(kf_ctx *ctx, kf_model *model, int64_t only);
/* The evidence for each class in a part of the model, [K]; 0: the class does not take part. */
const int64_t *kf_model_evidence(const kf_model *model, kf_part part);
/* Sets `evidence` from counts and text_given. */
void kf_model_weigh(kf_model *model);
/* Sets means and prototypes of n classes from class k on, from means [n][D] and mapped [n][L]. */
void kf_model_set_means(kf_model *model, const kf_kernels *kernels, uint32_t k, uint32_t n,
                        const double *means, const double *mapped);
/* Shrinks mapped means [n][L] of classes with these numbers of rows, if the model shrinks them. */
void kf_shrink_means(const kf_model *model, const int64_t *counts, uint32_t n, double *mapped);
/* What priors add to the squared distances of a class with fewer rows than the largest, as in LDA:
 * prior * ln(largest / count), with prior = 2 / (N - K), twice the variance of a row. */
static inline double kf_prior2(double prior, double largest, double count) {
  return prior > 0 && count < largest ? prior * kf_ln(largest / count) : 0;
}
/* Its square root, as another column of prototypes. */
static inline float kf_prior_column(double prior, double largest, int64_t count) {
  return (float)sqrt(kf_prior2(prior, largest, (double)count));
}
/* Whether a model has priors by cosine. Cosines are lowered by kf_prior2 itself, with prior = 1 /
 * temperature. */
static inline bool kf_prior_of_cosines(const kf_model *model) {
  return model->prior > 0 && model->map.normalized;
}
/* The largest of n numbers of rows. */
double kf_largest_count(const int64_t *counts, uint32_t n);
/* Sets counts, means and prototypes of n <= KF_MAP_ROWS classes from class k on, from classes
 * `from` on of the statistics. */
kf_status kf_model_set_classes(kf_model *model, const kf_kernels *kernels, uint32_t k, uint32_t n,
                               const kf_stats *stats, uint32_t from, kf_err *err);

static inline kf_classes kf_model_class_list(const kf_model *model) {
  return (kf_classes){"the model", model->n_classes, &model->names};
}

/* Resolves KF_METRIC_DEFAULT. */
static inline kf_metric kf_metric_for(kf_metric metric, bool normalized) {
  if (metric != KF_METRIC_DEFAULT) return metric;
  return normalized ? KF_METRIC_COSINE : KF_METRIC_EUCLIDEAN;
}

/* KF_ERR_ARG: invalid metric. */
kf_status kf_fail_metric(kf_metric metric, kf_err *err);
/* KF_ERR_ARG: more dimensions are requested than there are. */
kf_status kf_fail_dim(uint32_t asked, uint32_t dim, kf_err *err);

/* --- linear algebra (product.c, eigen.c, cholesky.c) ------------------------------------------ */

/* c = a^T b in f64, on all threads; a [depth][m], b [depth][n]. upper: c is symmetric, and its
 * lower triangle is computed within blocks of rows only. */
typedef struct kf_product {
  const double *a, *b;
  double *c;
  size_t m, n, depth;
  bool upper;
} kf_product;
kf_status kf_multiply(kf_ctx *ctx, kf_product product);
/* to [columns][rows] = the transpose of from [rows][columns]. */
void kf_transpose(size_t rows, size_t columns, const double *from, double *to);
/* A matrix by which rows are multiplied, on one thread:
 *
 *     c[i][j] = the sum of a[k][i] * b[k][j] over k = 0, 1, ... in order, from start[j] */
typedef struct kf_matrix {
  size_t depth, n;
  const double *b;     /* [depth][n] */
  const double *start; /* [n]; NULL: zeros */
} kf_matrix;
/* c [m][n] of a [depth][m]. On any thread. */
void kf_matrix_times(const kf_kernels *kernels, const kf_matrix *matrix, const double *a, size_t m,
                     double *c);
/* Turns rows: out [n][D] = start + x turn, turn [D][D]. x may be out. columns: workspace, [D][n].
 * On any thread. */
void kf_turn_rows(const kf_kernels *kernels, const kf_matrix *turn, const double *x, size_t n,
                  double *columns, double *out);

/* Eigenvalues (falling) and eigenvectors, the rows of vectors [n][n], of the symmetric a [n][n];
 * the same bits on every machine. vectors NULL: the same values alone. */
kf_status kf_eigen(kf_ctx *ctx, uint32_t n, const double *a, double *values, double *vectors);
/* The same in the caller's workspace of kf_eigen_workspace(n) doubles, whose end may be `a`. */
kf_status kf_eigen_in(kf_ctx *ctx, uint32_t n, const double *a, double *values, double *vectors,
                      double *workspace);
uint64_t kf_eigen_workspace(uint32_t n);

/* A = R^T R, R upper triangular. */
typedef struct kf_factor {
  size_t n;
  double *r;       /* [n][n] -R, and -R^T below the diagonal */
  double *inverse; /* [n] 1 / R[i][i] */
} kf_factor;
/* Factorizes the symmetric a [n][n], of which only the upper triangle is read, and destroys it.
 * *good: whether every R[i][i]^2 is above `least`. */
kf_status kf_factorize(kf_ctx *ctx, double *a, double least, kf_factor *f, bool *good);
/* c := R^-T s R^-1 for a symmetric s, all [n][n]. */
kf_status kf_whiten(kf_ctx *ctx, const kf_factor *f, const double *s, double *workspace, double *c);
/* x := R^-1 x, x [n][columns]. */
kf_status kf_unwhiten(kf_ctx *ctx, const kf_factor *f, size_t columns, double *x);

/* --- fitting (fitter.c) ---------------------------------------------------------------------- */

/* Fits models to the same statistics at several lambdas. The eigenvectors of S_w are found once,
 * for all lambdas that are tried; a model comes from a Cholesky factor of S_w + lambda I or, where
 * that is ill-conditioned, from the eigenvectors. Only fitter.c and directions.c write to it. */
typedef struct kf_fitter {
  kf_ctx *ctx;
  const kf_stats *within, *between;
  uint32_t dim;
  kf_method method; /* never KF_METHOD_DEFAULT */
  kf_priors priors;
  bool by_all_rows;       /* S_w is zero and the scatter of all rows takes its place */
  double *mean;           /* [D] */
  double *column;         /* [D] the factor 1 / s of each column; ones in the paper's method */
  double *s_w, *s_b;      /* [D][D] with their columns scaled */
  double trace, norm2;    /* of S_w, before columns are scaled */
  double mean_eigenvalue; /* of S_w */
  /* Found on demand. */
  bool has_values, has_vectors, has_between;
  double *values;       /* [D] eigenvalues w of S_w, falling; those below `noise` are 0 */
  double noise;         /* smaller eigenvalues are rounding errors */
  uint32_t dims_within; /* the numerical matrix rank of S_w */
  double *vectors;      /* [D][D] rows are eigenvectors: V; NULL before */
  double *between_in_v; /* [D][D] V S_b V^T, its upper triangle; NULL before */
  /* At one lambda. */
  double map_lambda, u_lambda; /* the lambda of `map`, and of `u` and `scale`; NaN: none */
  double *map;                 /* [D][D] T in columns, for scaled columns */
  double *u;         /* [D][D] rows are the directions in the basis diag(scale) V; or workspace */
  double *scale;     /* [D] (w + lambda)^(-1/2) */
  double *gamma;     /* [D] falling, for `map_lambda` and `u_lambda` */
  kf_factor factor;  /* of S_w + lambda I, in units of a power of two */
  double *c;         /* [D][D] workspace in the memory of `map` */
  double *workspace; /* of the eigensolver; c is its end */
  uint64_t checksum; /* of the statistics; 0: not yet */
  kf_arena arena;
} kf_fitter;
/* The statistics must outlive the fitter. between NULL: the same as within. */
kf_status kf_fitter_new(kf_ctx *ctx, const kf_stats *within, const kf_stats *between,
                        kf_method method, kf_fitter **out);
void kf_fitter_free(kf_fitter *fitter);
/* The model at one lambda, without text. dim 0: all dimensions. */
kf_status kf_fitter_fit(kf_fitter *fitter, kf_lambda lambda, uint32_t dim, kf_centre centre,
                        kf_model **out);
/* The model that kf_fitter_fit would make with `dim` dimensions and another centre, derived from
 * one that it made before, without another decomposition. */
kf_status kf_fitter_shorten(const kf_fitter *fitter, const kf_model *model, uint32_t dim,
                            kf_centre centre, kf_model **out);
/* Sets `values` and `vectors`. */
kf_status kf_fitter_decompose_within(kf_fitter *fitter);
/* Sets `scale`, `gamma` and `u`, which make T at one lambda: C = U^T diag(gamma) U of directions.c.
 * They are kept until the next lambda, so leave-one-out at the lambda of a model and kf_fitter_fit
 * share one eigenproblem. curve: one of many lambdas, most of which will not become a model. */
kf_status kf_fitter_directions_at(kf_fitter *fitter, double lambda, bool curve);
/* Converts a lambda to an absolute number. An error if no fit is possible with it. */
kf_status kf_fitter_lambda(kf_fitter *fitter, kf_lambda lambda, double *out);
/* Sets `between_in_v`. */
kf_status kf_fitter_rotate_between(kf_fitter *fitter);
double kf_fitter_kappa(const kf_fitter *fitter); /* see fitter.c; not with `by_all_rows` */
/* KF_ERR_ARG if the method has no such priors. */
kf_status kf_check_priors(kf_priors priors, kf_method method, kf_err *err);
kf_status kf_fitter_set_priors(kf_fitter *fitter, kf_priors priors);
double kf_fitter_prior(const kf_fitter *fitter); /* of its models, by distance */
/* Whether classes have the priors of the training rows by cosine. The prior of the model is then
 * 1 / temperature, once that is known. */
bool kf_fitter_weighs(const kf_fitter *fitter);
/* N - K: 1 / the variance of a row in any direction of the mapped space, at a small lambda. */
double kf_distance_unit(const kf_stats *stats);
kf_status kf_check_method(kf_method method, kf_err *err);
/* KF_ERR_ARG for rows that are not centred, except in the paper's method. */
kf_status kf_check_centre(kf_centre centre, kf_method method, kf_err *err);
/* Resolves KF_CENTRE_DEFAULT. */
kf_centre kf_centre_for(kf_centre centre, kf_method method);

/* --- text (text_prototypes.c, text_match.c) -------------------------------------------------- */

const kf_names *kf_text_names(const kf_text *text);
/* KF_MADE_WITH of the file; 0: none. */
uint64_t kf_text_made_with(const kf_text *text);
kf_classes kf_text_class_list(const kf_text *text);
/* KF_ERR_DATA if its rows have another length than images or come from another encoder. */
kf_status kf_text_check(const kf_text *text, uint32_t dim, const kf_origin *origin, kf_err *err);
/* kf_model_new_zero_shot with the first `dim` directions of the model. Logs nothing. */
kf_status kf_zero_shot_new(kf_ctx *ctx, const kf_model *model, uint32_t dim, const kf_text *text,
                           kf_centre centre, kf_model **out);

/* Numbers the classes of `from` that `to` lacks (place -1, see kf_match_classes) after those of
 * `to`, and lists all names, if any, in list [to + from]. Returns the number of classes. */
uint32_t kf_join_classes(const kf_classes *to, const kf_classes *from, int32_t *place,
                         const char **list);
/* Counts the classes of one list that the other lacks, and logs a few of their names unless it
 * lacks all. Fails as kf_match_classes does; the error goes to the context. */
kf_status kf_log_missing(kf_ctx *ctx, const kf_classes *in, const kf_classes *other,
                         const char *consequence, uint32_t *missing);
/* The same in both directions, for the n classes of `of` ("the training data"). KF_ERR_DATA if they
 * have no class in common, or no names and different numbers of classes. */
kf_status kf_text_match(kf_ctx *ctx, const kf_text *text, const char *of, const kf_names *names,
                        uint32_t n);

#endif
