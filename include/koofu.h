/* koofu.h - Koo-Fu CLIP: a better, smaller embedding space in closed form.
 *
 * SPDX-License-Identifier: Apache-2.0
 *
 * This header is the manual. What is not in it is not public.
 *
 * koofu takes embeddings (rows of D floats) with class labels and computes a linear map T that
 * whitens the scatter within classes and rotates to the directions that tell classes apart. In the
 * mapped space the nearest class mean ("prototype") is a better classifier than in the original
 * one, and the first L coordinates are a smaller embedding.
 *
 *     files -> kf_data -> kf_stats -> kf_fit -> kf_model -> kf_transform, kf_classify, kf_eval
 *                                                       -> kf_gallery -> kf_gallery_search
 *
 * The whole of it, without error handling:
 *
 *     kf_ctx *ctx;    kf_ctx_new(NULL, &ctx);
 *     kf_data *data;  kf_data_open(ctx, (const char *const[]){"train.npy"}, 1, &options, &data);
 *     kf_stats *s;    kf_stats_new_from_data(ctx, data, NULL, &s);
 *     kf_model *m;    kf_fit(ctx, s, NULL, &m);
 *                     kf_classify(ctx, m, rows, n, NULL, classes, scores);
 *
 * Rules that hold throughout
 *   - Every function that can fail returns a kf_status; kf_errmsg(ctx) then says in one sentence
 *     what went wrong with which file, row or byte. On failure nothing is handed out and output
 *     files are left as they were.
 *   - Only functions with new, open, load, read or fit in their names hand out something to free;
 *     each such type has its own _free, which accepts NULL.
 *   - A context belongs to one thread of the caller at a time. Data sets, statistics and models
 *     may be shared between threads as long as nobody changes them (kf_stats_add, kf_stats_merge
 *     and kf_stats_subtract are the only functions that change an object). A context does not
 *     survive fork(): the child makes its own.
 *   - Option structs: zero means default, and a NULL pointer means all defaults.
 *   - The same input gives the same bits, whatever the number of threads, the instruction set, the
 *     order and the number of files. See docs/numerics.md.
 *   - The library never prints, exits, aborts or reads the environment. */
#ifndef KOOFU_H
#define KOOFU_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define KF_API __attribute__((visibility("default")))
#else
#define KF_API
#endif

#define KF_VERSION_MAJOR 0
#define KF_VERSION_MINOR 1
#define KF_VERSION_PATCH 0
#define KF_VERSION       "0.1.0"

/* The version of the library that is running, "0.1.0". */
KF_API const char *kf_version(void);

/* ---------------------------------------------------------------------------------------------
 * Status
 * ------------------------------------------------------------------------------------------ */

/* The numbers are part of the interface and do not change. */
typedef enum kf_status {
  KF_OK = 0,
  KF_ERR_ARG = 1,       /* the call makes no sense: NULL, out of range, sizes that do not match */
  KF_ERR_DATA = 2,      /* a file or a row is not what it must be */
  KF_ERR_IO = 3,        /* the system refused: missing, unreadable, disk full, no permission */
  KF_ERR_MEM = 4,       /* out of memory */
  KF_ERR_MATH = 5,      /* the problem has no answer: singular scatter, fewer than two classes */
  KF_ERR_CANCELLED = 6, /* the progress callback asked to stop */
  KF_ERR_INTERNAL = 7   /* a defect of koofu; please report it */
} kf_status;

/* A short fixed English name for a status, "bad data". Never NULL. */
KF_API const char *kf_status_name(kf_status status);

/* ---------------------------------------------------------------------------------------------
 * Context: threads, instruction set, progress, the last error
 * ------------------------------------------------------------------------------------------ */

typedef struct kf_ctx kf_ctx;

/* Instruction sets, each including those before it. All give the same bits. */
typedef enum kf_isa {
  KF_ISA_AUTO = 0,   /* the best one this machine has */
  KF_ISA_PLAIN = 1,  /* plain C, the reference */
  KF_ISA_AVX2 = 2,   /* AVX2 with FMA and F16C */
  KF_ISA_AVX512 = 3, /* AVX-512 F, BW, DQ, VL and VNNI */
  KF_ISA_AMX = 4     /* the above and AMX int8 tiles */
} kf_isa;

/* Whether this machine can run an instruction set (1 or 0). KF_ISA_AUTO: always 1. */
KF_API int kf_isa_available(kf_isa isa);
/* "auto", "plain", "avx2", "avx512", "amx"; NULL for a number that is none of them. */
KF_API const char *kf_isa_name(kf_isa isa);

/* Called between blocks of long work, from the thread that made the call: `done` of `total` units
 * (rows, mostly) of the stage `what`. total is 0 where it is not known. A non-zero return stops the
 * work with KF_ERR_CANCELLED. It must not use the context it is called from. */
typedef int (*kf_progress_fn)(void *user, const char *what, uint64_t done, uint64_t total);
/* Remarks that are not errors, such as '12 bad rows were skipped', one sentence without a newline.
 */
typedef void (*kf_log_fn)(void *user, const char *message);

typedef struct kf_ctx_options {
  unsigned threads; /* 0: one per processor this process may use; at most 1024 */
  kf_isa isa;       /* KF_ISA_AUTO, or one that must be available */
  kf_progress_fn progress;
  kf_log_fn log;
  void *user; /* handed to the two callbacks */
} kf_ctx_options;

/* KF_ERR_ARG where the instruction set is not available here. */
KF_API kf_status kf_ctx_new(const kf_ctx_options *options, kf_ctx **out);
KF_API void kf_ctx_free(kf_ctx *ctx);
/* The message of the last call on this context that failed; "" if none did. Valid until the next
 * call on the context. ctx may be NULL. */
KF_API const char *kf_errmsg(const kf_ctx *ctx);
KF_API unsigned kf_ctx_threads(const kf_ctx *ctx);
KF_API kf_isa kf_ctx_isa(const kf_ctx *ctx);

/* ---------------------------------------------------------------------------------------------
 * Data sets: rows of D floats with labels and class names
 * ------------------------------------------------------------------------------------------ */

typedef struct kf_data kf_data;

/* How rows are stored in a file. In memory they are always float. */
typedef enum kf_dtype { KF_F32 = 0, KF_F16 = 1, KF_BF16 = 2, KF_F64 = 3 } kf_dtype;
KF_API const char *kf_dtype_name(kf_dtype dtype); /* "f32", "f16", "bf16", "f64" */

/* Labels below zero that kf_data_get may return. */
#define KF_LABEL_NONE (-1) /* the row has no label */
#define KF_LABEL_BAD  (-2) /* the row is NaN, infinite or zero, and skip_bad was asked for */

/* Limits: a row has 1 to 65,536 columns, a data set at most 2^22 classes. */
#define KF_MAX_DIM     65536u
#define KF_MAX_CLASSES 4194304u

typedef struct kf_data_options {
  /* Label files: one for each data file, or one for all rows together. `.npy` with integers, or
   * text with one label a line. NULL: the labels inside the files, where there are any. */
  const char *const *labels;
  size_t n_labels;
  /* Text file with one class name a line. Integer labels index it; text labels must be in it. NULL:
   * the names inside the files; text labels make their own list, sorted by bytes. */
  const char *classes;
  const char *tensor; /* embeddings inside .safetensors; NULL: "embeddings", or the only 2-D one */
  const char *label_tensor; /* labels inside .safetensors; NULL: "labels" */
  int no_labels;            /* ignore labels inside the files */
  int skip_bad;             /* leave out NaN, infinite and zero rows instead of failing */
  int allow_unlabelled;     /* negative integers and empty lines are KF_LABEL_NONE, not an error */
  int allow_unknown;        /* with `classes`: labels not in the list become KF_LABEL_NONE, too */
  /* Text file with class names, one a line: rows of other classes, and rows without a label, are no
   * part of the data set. Classes keep their numbers and names, and must have names. Takes 8 bytes
   * of memory for each row that is left. NULL: all rows. */
  const char *only;
} kf_data_options;

/* Opens one data set out of files. Each path is a file, a folder (all files in it with a known
 * ending) or a glob pattern; the files a folder or pattern stands for come in name order (bytes),
 * the paths themselves in the order given.
 *
 * Formats, by ending: .npy (versions 1 to 3; f2, f4, f8; C or Fortran order), .safetensors (F16,
 * BF16, F32, F64), .fvecs, .fbin. Headers and labels are checked here; rows are read later, block
 * by block, so that memory does not depend on their number. */
KF_API kf_status kf_data_open(kf_ctx *ctx, const char *const *paths, size_t n_paths,
                              const kf_data_options *options, kf_data **out);

/* A data set over the caller's arrays, which must outlive it. rows: [n][dim]; labels: [n], or NULL;
 * names: [n_classes] (copied), or NULL. n_classes 0: the largest label + 1. */
KF_API kf_status kf_data_open_memory(kf_ctx *ctx, const float *rows, uint64_t n, uint32_t dim,
                                     const int32_t *labels, const char *const *names,
                                     uint32_t n_classes, kf_data **out);
KF_API void kf_data_free(kf_data *data);

KF_API uint64_t kf_data_rows(const kf_data *data);
KF_API uint32_t kf_data_dim(const kf_data *data);
KF_API int kf_data_has_labels(const kf_data *data);
/* Number of classes: names given, or the largest label + 1. 0 without labels. */
KF_API uint32_t kf_data_classes(const kf_data *data);
/* NULL where classes have no names. */
KF_API const char *kf_data_class_name(const kf_data *data, uint32_t k);
/* How many rows have the label KF_LABEL_NONE. */
KF_API uint64_t kf_data_unlabelled(const kf_data *data);

/* Whether rows have ids (1 or 0): names of their own, such as the paths of the pictures they were made
 * of, inside .safetensors (kf_embed writes them). Of several files all must have some. */
KF_API int kf_data_has_ids(const kf_data *data);
/* The id of a row and a NUL into id[size]. KF_ERR_ARG where there is none, or where size is too
 * small: an id has at most 65,536 bytes. */
KF_API kf_status kf_data_get_id(kf_ctx *ctx, const kf_data *data, uint64_t row, char *id,
                                size_t size);

/* Whether the rows come from a gallery and have been through the map that it carries (1 or 0). What
 * would map them again refuses them. */
KF_API int kf_data_mapped(const kf_data *data);

/* Copies rows first … first+n-1 into rows[n][dim] and their labels into labels[n] (NULL if not
 * wanted). A NaN, infinite or zero row is KF_ERR_DATA, naming file and row; with skip_bad it comes
 * back as zeros with the label KF_LABEL_BAD (labels must not be NULL then). */
KF_API kf_status kf_data_get(kf_ctx *ctx, const kf_data *data, uint64_t first, uint64_t n,
                             float *rows, int32_t *labels);

/* Whether writing to `path` would replace a file that the data set reads (1 or 0): kf_data_save and
 * kf_transform_data refuse to; ask before writing anything else beside the data. */
KF_API int kf_data_reads(const kf_data *data, const char *path);

/* Writes the data set as one native .safetensors file: `embeddings` [N, D], `labels` [N] (I32), the
 * class names in the metadata, ids where there are any. dtype: KF_F32, KF_F16 or KF_BF16 (rounded to
 * nearest even; a value too large for the type is KF_ERR_DATA). Bad rows are left out under
 * skip_bad. */
KF_API kf_status kf_data_save(kf_ctx *ctx, const kf_data *data, kf_dtype dtype, const char *path);

/* ---------------------------------------------------------------------------------------------
 * Statistics: exact integer moments
 * ------------------------------------------------------------------------------------------ */

typedef struct kf_stats kf_stats;

typedef struct kf_stats_options {
  /* 0: every row is scaled to unit length first, and the unit is 2^-22.
   * 1: rows are taken as they are, and the unit is 2^-exponent. */
  int no_normalize;
  /* With no_normalize: every value must satisfy |x| * 2^exponent <= 2^22. */
  int exponent;
  /* kf_stats_new_from_data only, with no_normalize: 1 takes `exponent` as given; 0 finds the
   * largest one that fits in a first pass over the data. */
  int fixed_exponent;
} kf_stats_options;

/* Empty statistics for rows of `dim` values in `n_classes` classes (names: [n_classes] or NULL). */
KF_API kf_status kf_stats_new(kf_ctx *ctx, uint32_t dim, uint32_t n_classes,
                              const char *const *names, const kf_stats_options *options,
                              kf_stats **out);
/* Adds n rows [n][dim] with labels [n]; rows labelled KF_LABEL_NONE or KF_LABEL_BAD are left out.
 * On failure nothing was added. */
KF_API kf_status kf_stats_add(kf_ctx *ctx, kf_stats *stats, const float *rows,
                              const int32_t *labels, uint64_t n);
/* The statistics of a whole data set, streamed. */
KF_API kf_status kf_stats_new_from_data(kf_ctx *ctx, const kf_data *data,
                                        const kf_stats_options *options, kf_stats **out);
/* into += other, exactly: the result is what one pass over all rows gives. Classes are matched by
 * name where both have names (where the two lists differ, the result has the union, sorted by
 * bytes), by index where neither has. Dimension, mode and exponent must agree. */
KF_API kf_status kf_stats_merge(kf_ctx *ctx, kf_stats *into, const kf_stats *other);
/* into -= other, exactly, for statistics of a part of the same rows with the same classes. */
KF_API kf_status kf_stats_subtract(kf_ctx *ctx, kf_stats *into, const kf_stats *other);
KF_API kf_status kf_stats_save(kf_ctx *ctx, const kf_stats *stats, const char *path);
KF_API kf_status kf_stats_load(kf_ctx *ctx, const char *path, kf_stats **out);
KF_API void kf_stats_free(kf_stats *stats);

KF_API uint32_t kf_stats_dim(const kf_stats *stats);
KF_API uint32_t kf_stats_classes(const kf_stats *stats);
KF_API const char *kf_stats_class_name(const kf_stats *stats, uint32_t k); /* NULL: no names */
KF_API uint64_t kf_stats_rows(const kf_stats *stats);
KF_API int64_t kf_stats_count(const kf_stats *stats, uint32_t k);
KF_API int kf_stats_normalized(const kf_stats *stats);
KF_API int kf_stats_exponent(const kf_stats *stats); /* the integers are in units of 2^-exponent */
/* The sum of class k, [dim] integers, owned by stats. */
KF_API const int64_t *kf_stats_class_sum(const kf_stats *stats, uint32_t k);
/* Element (i, j) of the sum of X X^T over all rows: value = hi * 2^64 + lo, in units of
 * 2^-(2*exponent). */
KF_API void kf_stats_moment(const kf_stats *stats, uint32_t i, uint32_t j, int64_t *hi,
                            uint64_t *lo);
/* The scatter matrices in real units, row-major [dim][dim], and the mean [dim]; each pointer may be
 * NULL. S_w is the scatter around the class means, S_b that of the class means around the mean,
 * weighted by the class counts. */
KF_API kf_status kf_stats_scatter(kf_ctx *ctx, const kf_stats *stats, double *s_w, double *s_b,
                                  double *mean);

/* ---------------------------------------------------------------------------------------------
 * Model: whitening, rotation, prototypes
 * ------------------------------------------------------------------------------------------ */

typedef struct kf_model kf_model;

/* The regulariser lambda, added to every eigenvalue of S_w. */
typedef enum kf_lambda_unit {
  KF_LAMBDA_DEFAULT = 0,  /* 0.3 times the mean eigenvalue of S_w */
  KF_LAMBDA_ABSOLUTE = 1, /* the paper's units: added to S_w as it is */
  KF_LAMBDA_RELATIVE = 2, /* times the mean eigenvalue of S_w, trace(S_w) / D */
  KF_LAMBDA_GDA = 3       /* trace(S_w) / (N - 1), for N rows; the value does not count */
} kf_lambda_unit;
typedef struct kf_lambda {
  double value; /* finite, >= 0 */
  kf_lambda_unit unit;
} kf_lambda;
/* Reads "150" (absolute), "0.3x" (relative) or "gda". */
KF_API kf_status kf_lambda_parse(kf_ctx *ctx, const char *text, kf_lambda *out);

/* What is subtracted before the map is applied. */
typedef enum kf_centre {
  KF_CENTRE_NONE = 0, /* nothing: f(x) = T x, as in the paper's experiments */
  KF_CENTRE_MEAN = 1  /* the mean of the training rows: f(x) = T (x - mean) */
} kf_centre;

typedef struct kf_fit_options {
  kf_lambda lambda;
  uint32_t dim; /* dimensions to keep, 1 … D; 0: all */
  kf_centre centre;
  /* S_b, the class means and the mean from other statistics than S_w; NULL: from the same. */
  const kf_stats *between;
} kf_fit_options;

/* Computes the model. KF_ERR_MATH where there is none: S_w singular at lambda = 0 (the message says
 * its rank and a lambda that works), S_w zero with a relative lambda, fewer than two classes with
 * rows, or a lambda so small that numbers leave the range of double precision. */
KF_API kf_status kf_fit(kf_ctx *ctx, const kf_stats *stats, const kf_fit_options *options,
                        kf_model **out);
KF_API kf_status kf_model_save(kf_ctx *ctx, const kf_model *model, const char *path);
/* Verifies the checksum of the file. */
KF_API kf_status kf_model_load(kf_ctx *ctx, const char *path, kf_model **out);
KF_API void kf_model_free(kf_model *model);
/* A copy of the model with one more class, whose prototype is the mean of all rows of `samples`
 * (their labels are not looked at). The map stays as it is. The name must be new. */
KF_API kf_status kf_model_new_with_class(kf_ctx *ctx, const kf_model *model, const char *name,
                                         const kf_data *samples, kf_model **out);

KF_API uint32_t kf_model_dim_in(const kf_model *model);  /* D */
KF_API uint32_t kf_model_dim_out(const kf_model *model); /* L */
KF_API uint32_t kf_model_classes(const kf_model *model);
KF_API const char *kf_model_class_name(const kf_model *model, uint32_t k); /* NULL: no names */
KF_API int64_t kf_model_count(const kf_model *model, uint32_t k); /* training rows of class k */
KF_API int kf_model_normalized(const kf_model *model); /* rows are scaled to unit length first */
KF_API kf_centre kf_model_centre(const kf_model *model);
KF_API double kf_model_lambda(const kf_model *model);          /* absolute */
KF_API double kf_model_mean_eigenvalue(const kf_model *model); /* of S_w */
/* Arrays owned by the model. */
KF_API const double *kf_model_transform_matrix(const kf_model *model);    /* T, [L][D] */
KF_API const double *kf_model_mean(const kf_model *model);                /* [D] */
KF_API const double *kf_model_within_eigenvalues(const kf_model *model);  /* of S_w, falling, [D] */
KF_API const double *kf_model_between_eigenvalues(const kf_model *model); /* gamma, falling, [D] */
KF_API const float *kf_model_class_means(const kf_model *model); /* original space, [K][D] */
/* The mapped class means, scaled to unit length, [K][L], and the length each one has, [K]. Classes
 * without rows have zeros. */
KF_API const float *kf_model_prototypes(const kf_model *model);
KF_API const double *kf_model_prototype_lengths(const kf_model *model);

/* ---------------------------------------------------------------------------------------------
 * Use: transform, classify, evaluate
 * ------------------------------------------------------------------------------------------ */

typedef struct kf_transform_options {
  /* 0: mapped rows are scaled to unit length, unless the model was fitted without normalising.
   * 1: their length is left as it is (Euclidean use). */
  int no_normalize;
} kf_transform_options;

/* Maps rows [n][D] to out [n][L]. A bad row is KF_ERR_DATA. */
KF_API kf_status kf_transform(kf_ctx *ctx, const kf_model *model, const float *rows, uint64_t n,
                              const kf_transform_options *options, float *out);
/* Maps a data set to a file, .npy (rows alone; no bf16) or .safetensors (a native data set with
 * labels and class names), by the ending of path. Bad rows become zeros under skip_bad. */
KF_API kf_status kf_transform_data(kf_ctx *ctx, const kf_model *model, const kf_data *data,
                                   const kf_transform_options *options, kf_dtype dtype,
                                   const char *path);

typedef enum kf_metric {
  KF_METRIC_DEFAULT = 0, /* cosine; Euclidean for a model fitted without normalising */
  KF_METRIC_COSINE = 1,
  KF_METRIC_EUCLIDEAN = 2,
  KF_METRIC_INNER = 3 /* the inner product of rows as they are; for indexes and galleries only */
} kf_metric;

/* Which part of a model that knows text (see kf_model_new_fused) classifies. */
typedef enum kf_part {
  KF_PART_DEFAULT = 0, /* fused, where the model knows text; otherwise images */
  KF_PART_IMAGES = 1,  /* prototypes of classes with rows, in the mapped space */
  KF_PART_TEXT = 2,    /* text of classes with text, by cosine in the original space */
  KF_PART_FUSED = 3
} kf_part;

typedef struct kf_classify_options {
  uint32_t top; /* classes per row, 1 … the number of classes with rows; 0: 1 */
  kf_metric metric;
  int raw; /* 1: in the original space, against the class means */
  kf_part part;
} kf_classify_options;

/* The `top` nearest prototypes of each row [n][D], best first: class numbers into classes
 * [n][top], cosines or Euclidean distances into scores [n][top] (or NULL). Equal scores (for
 * distances: equal squares) go to the lower class number. Classes without training rows do not take
 * part. */
KF_API kf_status kf_classify(kf_ctx *ctx, const kf_model *model, const float *rows, uint64_t n,
                             const kf_classify_options *options, int32_t *classes, double *scores);

typedef struct kf_eval_options {
  kf_metric metric;
  int skip_raw;                   /* 1: do not evaluate the original space */
  int skip_model;                 /* 1: evaluate the original space alone */
  const struct kf_truth *truth;   /* what is right, instead of the labels; NULL: the labels */
  const struct kf_class_set *set; /* only these classes take part; NULL: all */
  kf_part part;                   /* what top1 and top5 are of */
} kf_eval_options;

typedef struct kf_eval_result {
  uint64_t rows;           /* in the data set */
  uint64_t n;              /* scored: labelled with a class of the model that takes part */
  uint64_t n_unlabelled;   /* left out: no label */
  uint64_t n_absent;       /* left out: the class is not in the model, has no prototype there, or
                            * is not in the class set */
  uint64_t n_bad;          /* left out: NaN, infinite or zero (skip_bad) */
  uint64_t n_excluded;     /* left out: the truth has no entry for the row, or an empty one */
  uint32_t absent_classes; /* how many classes the n_absent rows belong to */
  uint64_t top1, top5;     /* hits among n in the model's space */
  uint64_t raw_top1, raw_top5; /* hits among n in the original space */
} kf_eval_result;

/* Nearest-prototype accuracy. Classes are matched by name where data set and model have names, by
 * number where neither has. KF_ERR_DATA where only one has, or where no row can be scored. */
KF_API kf_status kf_eval(kf_ctx *ctx, const kf_model *model, const kf_data *data,
                         const kf_eval_options *options, kf_eval_result *out);

/* The 95 % Wilson interval of a proportion of hits among n. */
KF_API void kf_interval95(uint64_t hits, uint64_t n, double *low, double *high);

/* ---------------------------------------------------------------------------------------------
 * Text: classes by their names (docs/text.md)
 * ------------------------------------------------------------------------------------------ */

/* One embedding for each class: the mean of those of its prompts. */
typedef struct kf_text kf_text;

typedef struct kf_text_options {
  /* Rows of each class, one class after the other; 0: rows belong to the classes of their labels. */
  uint32_t per_class;
  /* With per_class: a text file with the names of the classes, one a line. NULL: those of the data
   * set, or none. */
  const char *classes;
  const char *const *names; /* the same from memory, [n_names]; NULL: `classes` */
  size_t n_names;
  int no_unit_rows; /* 1: rows are averaged with the lengths they have; 0: at unit length */
  int no_unit_mean; /* 1: means keep their length */
} kf_text_options;

/* Text prototypes of a data set: its rows, averaged by class. A class without rows is KF_ERR_DATA. */
KF_API kf_status kf_text_new(kf_ctx *ctx, const kf_data *data, const kf_text_options *options,
                             kf_text **out);
/* Writes them as a native data set with a row for each class, which kf_data_open and kf_text_new
 * read again. */
KF_API kf_status kf_text_save(kf_ctx *ctx, const kf_text *text, const char *path);
KF_API void kf_text_free(kf_text *text);
KF_API uint32_t kf_text_classes(const kf_text *text);
KF_API uint32_t kf_text_dim(const kf_text *text);
KF_API const char *kf_text_class_name(const kf_text *text, uint32_t k); /* NULL: no names */
KF_API const float *kf_text_rows(const kf_text *text);                  /* [classes][dim] */

/* What is subtracted from images and from text before they are mapped. */
typedef enum kf_text_centre {
  KF_TEXT_CENTRE_DEFAULT = 0, /* modality */
  KF_TEXT_CENTRE_NONE = 1,    /* nothing, as in the paper */
  KF_TEXT_CENTRE_MEAN = 2,    /* the mean of the training images from both */
  KF_TEXT_CENTRE_MODALITY = 3 /* the mean of the training images from images, that of the text
                                * prototypes from text: this closes most of the modality gap */
} kf_text_centre;

/* A model for zero-shot classification: the map of `model`, with text prototypes in place of class
 * means. Its classes are those of the text. Everything that takes a model takes it. In the original
 * space (`raw`) its class means are the text as it is under KF_TEXT_CENTRE_NONE alone. A model of
 * rows that were not scaled to unit length is KF_ERR_DATA: their lengths say nothing about text. */
KF_API kf_status kf_model_new_zero_shot(kf_ctx *ctx, const kf_model *model, const kf_text *text,
                                        kf_text_centre centre, kf_model **out);

/* --- fusion: names and pictures together ------------------------------------------------------ */

/* A copy of the model that also knows text: a class has the score
 *
 *     cosine of the row with the text + alpha * cosine of the mapped row with the mapped prototype
 *
 * Classes are matched by name where both have names, by number where neither has; the result has the
 * classes of the model and then those of the text that it lacks. A class with text and no rows, or
 * with rows and no text, takes part: what it lacks is predicted from what it has by a linear map
 * between the two, fitted to the classes that have both (ridge regression; its strength is chosen by
 * leaving out one class at a time). KF_ERR_DATA where no class has both; KF_ERR_ARG for a model of
 * raw norms, or one that has text already. alpha: finite, >= 0. */
KF_API kf_status kf_model_new_fused(kf_ctx *ctx, const kf_model *model, const kf_text *text,
                                    double alpha, kf_model **out);
/* A copy of a model that knows text, with more of it: for classes that it has (in place of what they
 * had) or for new ones, which then take part by their names alone. */
KF_API kf_status kf_model_new_with_text(kf_ctx *ctx, const kf_model *model, const kf_text *text,
                                        kf_model **out);
/* Whether a model knows text (1 or 0), and its alpha. */
KF_API int kf_model_fused(const kf_model *model);
KF_API double kf_model_alpha(const kf_model *model);
/* The text that a model knows, of the classes that have some of their own; KF_ERR_ARG where it knows
 * none. Without names classes go by number, and it is KF_ERR_DATA if others come before them. */
KF_API kf_status kf_text_new_of_model(kf_ctx *ctx, const kf_model *model, kf_text **out);
/* Whether class k has text of its own (1 or 0). */
KF_API int kf_model_has_text(const kf_model *model, uint32_t k);

/* ---------------------------------------------------------------------------------------------
 * Search: the nearest rows, exactly
 *
 * An index keeps an 8-bit copy of its rows. A first pass over that copy finds every row that could
 * belong to the answer (the rounding of each row is measured, so this is certain and not likely);
 * then scores in double precision, of the rows as they are, decide. The answer is what comparing
 * with every row in double precision gives, to the bit, for any number of threads, instruction set
 * and number of queries at a time. See docs/numerics.md.
 * ------------------------------------------------------------------------------------------ */

typedef struct kf_index kf_index;

#define KF_MAX_NEIGHBOURS 1024u

typedef struct kf_index_options {
  kf_metric metric; /* KF_METRIC_DEFAULT: cosine */
  /* 1: the rows are not copied. The array or data set must outlive the index and stay as it is; it
   * is read again for the few rows that the first pass leaves over. Memory: one byte for each value
   * and 4 for each row, instead of five and 4. */
  int rows_in_place;
} kf_index_options;

/* An index over rows [n][dim]. For cosine they are scaled to unit length and rounded to f32 once. A
 * NaN or an infinity, and for cosine a zero row, is KF_ERR_DATA naming the row; so is n = 0. */
KF_API kf_status kf_index_new(kf_ctx *ctx, const float *rows, uint64_t n, uint32_t dim,
                              const kf_index_options *options, kf_index **out);
/* The same over the rows of a data set; labels are not looked at. A bad row is an error under
 * skip_bad, too, since row numbers would shift. */
KF_API kf_status kf_index_new_from_data(kf_ctx *ctx, const kf_data *data,
                                        const kf_index_options *options, kf_index **out);
KF_API void kf_index_free(kf_index *index);

KF_API uint64_t kf_index_rows(const kf_index *index);
KF_API uint32_t kf_index_dim(const kf_index *index);
KF_API kf_metric kf_index_metric(const kf_index *index); /* never KF_METRIC_DEFAULT */
KF_API uint64_t kf_index_bytes(const kf_index *index);   /* of memory that the index holds */

typedef struct kf_search_options {
  /* [n]: a row that does not take part in the search of each query, or a number that is none (such
   * as -1); NULL: all rows take part in all searches. */
  const int64_t *leave_out;
} kf_search_options;

typedef struct kf_search_report {
  uint64_t queries;
  uint64_t candidates; /* rows scored in double precision, for all queries together */
} kf_search_report;

/* The k nearest rows of each query [n][dim], best first: row numbers into rows [n][k]; cosines,
 * inner products or Euclidean distances into scores [n][k] (or NULL). Equal scores (for distances:
 * equal squares, of which scores are the roots) go to the lower row number. 1 <= k <=
 * KF_MAX_NEIGHBOURS, and k <= the number of rows that take part. What was done is added to report
 * (or NULL). */
KF_API kf_status kf_search(kf_ctx *ctx, const kf_index *index, const float *queries, uint64_t n,
                           uint32_t k, const kf_search_options *options, int64_t *rows,
                           double *scores, kf_search_report *report);

/* ---------------------------------------------------------------------------------------------
 * Galleries: an index in a file, with labels, and with the map that its queries go through
 * ------------------------------------------------------------------------------------------ */

typedef struct kf_gallery kf_gallery;

typedef struct kf_gallery_options {
  kf_metric metric; /* KF_METRIC_DEFAULT: cosine; Euclidean for a model without normalising */
  const char *ids;  /* text file with a name for each row, one a line; NULL: those in the data */
  /* An existing gallery whose rows come first (it may be the file that is written). Its map and
   * metric are used for the new rows as well: `model` must be NULL and metric KF_METRIC_DEFAULT or
   * the same. Classes are matched by name; new ones are added behind. Labels and ids must be there
   * in both or in neither. */
  const char *append_to;
} kf_gallery_options;

/* Writes the rows of a data set as a gallery, streamed: mapped by the model (NULL: in the original
 * space), in f32, with labels, class names and ids, and with the map inside, so that queries are
 * given in the original space. Bad rows are left out under skip_bad. */
KF_API kf_status kf_gallery_save(kf_ctx *ctx, const kf_data *data, const kf_model *model,
                                 const kf_gallery_options *options, const char *path);

typedef struct kf_gallery_load_options {
  /* 1: the f32 rows stay in the file, which must not change, and are read for candidates only. */
  int rerank_from_disk;
} kf_gallery_load_options;

/* Verifies the checksum of the file. */
KF_API kf_status kf_gallery_load(kf_ctx *ctx, const char *path,
                                 const kf_gallery_load_options *options, kf_gallery **out);
/* A gallery in memory, without a file: the rows of a data set, mapped by the model (NULL: in the
 * original space), with their labels. options->ids and append_to are for files and must be NULL.
 * Memory: five bytes for each value. */
KF_API kf_status kf_gallery_new(kf_ctx *ctx, const kf_data *data, const kf_model *model,
                                const kf_gallery_options *options, kf_gallery **out);
KF_API void kf_gallery_free(kf_gallery *gallery);

KF_API uint64_t kf_gallery_rows(const kf_gallery *gallery);
KF_API uint32_t kf_gallery_dim_in(const kf_gallery *gallery); /* of queries */
KF_API uint32_t kf_gallery_dim(const kf_gallery *gallery);    /* of its own rows */
KF_API kf_metric kf_gallery_metric(const kf_gallery *gallery);
KF_API int kf_gallery_mapped(const kf_gallery *gallery); /* 1: it carries a map */
/* Whether its map is that of a model, to the bit (1 or 0). */
KF_API int kf_gallery_made_with(const kf_gallery *gallery, const kf_model *model);
KF_API int kf_gallery_has_labels(const kf_gallery *gallery);
KF_API uint32_t kf_gallery_classes(const kf_gallery *gallery);
KF_API const char *kf_gallery_class_name(const kf_gallery *gallery,
                                         uint32_t k);                      /* NULL: no names */
KF_API int32_t kf_gallery_label(const kf_gallery *gallery, uint64_t row);  /* KF_LABEL_NONE: none */
KF_API const char *kf_gallery_id(const kf_gallery *gallery, uint64_t row); /* NULL: no ids */
/* The index over its rows, for queries in its own space. Owned by the gallery. */
KF_API const kf_index *kf_gallery_index(const kf_gallery *gallery);

/* As kf_search, for queries [n][dim_in] of the original space. A NaN or an infinity is KF_ERR_DATA
 * naming the query; so is zero where the map or, without one, the metric looks at directions. */
KF_API kf_status kf_gallery_search(kf_ctx *ctx, const kf_gallery *gallery, const float *queries,
                                   uint64_t n, uint32_t k, const kf_search_options *options,
                                   int64_t *rows, double *scores, kf_search_report *report);
/* Leave one out: rows first … first+n-1 of the gallery are the queries, and each one is left out of
 * its own search. They are read from the file, which must not have changed since it was loaded. */
KF_API kf_status kf_gallery_search_itself(kf_ctx *ctx, const kf_gallery *gallery, uint64_t first,
                                          uint64_t n, uint32_t k, int64_t *rows, double *scores,
                                          kf_search_report *report);

/* How neighbours vote. The class with the most votes wins; among equals the one whose nearest
 * member is nearest. Neighbours without a label do not vote. */
typedef struct kf_vote_options {
  uint32_t k;   /* neighbours; 0: 15 */
  uint32_t top; /* classes per row; 0: 1 */
  /* 1: a vote counts exp((s - s_1) / temperature), s_1 being the score of the nearest neighbour
   * (for distances, exp((d_1 - d) / temperature)). 0: every vote counts 1. */
  int weighted;
  double temperature; /* 0: 0.07 */
} kf_vote_options;

/* The `top` classes with the most votes for each row [n][dim_in], best first, and their votes into
 * scores [n][top] (or NULL). Where fewer classes have votes, the rest is KF_LABEL_NONE with 0. */
KF_API kf_status kf_gallery_classify(kf_ctx *ctx, const kf_gallery *gallery, const float *rows,
                                     uint64_t n, const kf_vote_options *options, int32_t *classes,
                                     double *scores, kf_search_report *report);

typedef struct kf_gallery_eval_options {
  const uint32_t *k; /* [n_k], rising; one search serves all of them. NULL: 15 alone */
  size_t n_k;
  int weighted; /* as in kf_vote_options */
  double temperature;
  const struct kf_truth *truth; /* what is right, instead of the labels; NULL: the labels */
  /* Only rows of these classes are scored; the gallery stays whole, so that the others distract.
   * NULL: all. */
  const struct kf_class_set *set;
} kf_gallery_eval_options;

typedef struct kf_hits {
  uint32_t k;
  uint64_t top1, top5; /* rows whose class is the first, is among the first five by votes */
} kf_hits;

/* k-NN accuracy. Classes are matched as in kf_eval; rows, n, n_unlabelled, n_absent, absent_classes
 * and n_bad of `counts` are filled in, and one kf_hits for each k. data NULL: leave one out, over
 * the rows of the gallery itself. report may be NULL. */
KF_API kf_status kf_gallery_eval(kf_ctx *ctx, const kf_gallery *gallery, const kf_data *data,
                                 const kf_gallery_eval_options *options, kf_eval_result *counts,
                                 kf_hits *hits, kf_search_report *report);

/* ---------------------------------------------------------------------------------------------
 * Choosing: lambda, the number of dimensions, and k, from training data alone (docs/choosing.md)
 * ------------------------------------------------------------------------------------------ */

/* Accuracy at one lambda: of n rows, those whose class is the first, is among the first five. */
typedef struct kf_lambda_point {
  double lambda; /* absolute */
  uint64_t top1, top5;
} kf_lambda_point;

typedef struct kf_lambda_options {
  kf_metric metric; /* KF_METRIC_DEFAULT: cosine; Euclidean for statistics of raw rows */
  kf_centre centre; /* that the model will have */
  /* At most so many rows are left out in turn, the same share of each class; 0: 50,000. */
  uint64_t sample;
  /* Lambdas to look at, as multiples of the mean eigenvalue, rising; NULL: a coarse grid from 0.003
   * to 30, which is continued where the best value is at its end, then a finer one around it. */
  const double *grid;
  size_t n_grid;
  int one_se; /* 1: the largest lambda within one standard error of the best */
} kf_lambda_options;

typedef struct kf_lambda_choice {
  double lambda;          /* absolute: of the point that was chosen */
  double mean_eigenvalue; /* of S_w */
  double standard_error;  /* of the best accuracy */
  kf_metric metric;       /* never KF_METRIC_DEFAULT */
  uint64_t rows;          /* of the data set that have a label */
  uint64_t n;             /* rows that were left out in turn */
  uint64_t n_single;      /* rows that are alone in their class, which no lambda can get right */
  size_t chosen, best;    /* among the points */
  size_t n_points;
  kf_lambda_point *points; /* by rising lambda */
} kf_lambda_choice;

/* Chooses lambda by exact leave-one-out: every row in turn is taken out of S_w, of its class mean
 * and of the mean, and classified by its nearest prototype in the full whitened space, without
 * fitting again (docs/choosing.md has the algebra). Of equal accuracies the larger lambda is taken.
 * The statistics must be those of the data set. */
KF_API kf_status kf_lambda_choice_new(kf_ctx *ctx, const kf_stats *stats, const kf_data *data,
                                      const kf_lambda_options *options, kf_lambda_choice **out);
KF_API void kf_lambda_choice_free(kf_lambda_choice *choice);

/* The lambda of Ledoit and Wolf's shrinkage of the covariance within classes, in one pass over the
 * data that the statistics are of. */
KF_API kf_status kf_lambda_ledoit_wolf(kf_ctx *ctx, const kf_stats *stats, const kf_data *data,
                                       kf_lambda *out);

/* Accuracy of text and prototypes together. */
typedef struct kf_fuse_point {
  double lambda; /* absolute */
  double alpha;
  uint64_t top1, top5;
} kf_fuse_point;

typedef struct kf_fuse_options {
  kf_centre centre; /* that the model will have */
  uint64_t sample;  /* as in kf_lambda_options */
  /* A lambda that is given; KF_LAMBDA_DEFAULT: the best of 0.03, 0.1, 0.3, 1 and 3 times the mean
   * eigenvalue. */
  kf_lambda lambda;
  const double *alphas; /* NULL: 0 and fifteen values from 0.01 to 10 */
  size_t n_alphas;
} kf_fuse_options;

typedef struct kf_fuse_choice {
  double lambda, alpha; /* of the point that was chosen */
  double mean_eigenvalue;
  double standard_error;
  uint64_t rows, n, n_single; /* as in kf_lambda_choice */
  uint64_t text_top1;         /* rows among n that text alone gets right */
  size_t chosen;
  size_t n_points; /* 0: no class has two rows, and alpha is a cautious 0.03 */
  kf_fuse_point *points;
} kf_fuse_choice;

/* Chooses lambda and alpha for kf_model_new_fused by leave-one-out, as kf_lambda_choice_new does, but
 * the prototype that a row is left out of keeps its length (docs/choosing.md says why). Where no class
 * has two rows nothing can be left out: then alpha is 0.03, and lambda, if there is no scatter within
 * classes either, 1. Of equal accuracies the smaller alpha, then the larger lambda is taken. */
KF_API kf_status kf_fuse_choice_new(kf_ctx *ctx, const kf_stats *stats, const kf_data *data,
                                    const kf_text *text, const kf_fuse_options *options,
                                    kf_fuse_choice **out);
KF_API void kf_fuse_choice_free(kf_fuse_choice *choice);

/* Accuracy with the first `dim` directions. */
typedef struct kf_dim_point {
  uint32_t dim;
  uint64_t top1, top5;
  uint64_t lost, won; /* rows that are wrong here and right with the best dimension; vice versa */
} kf_dim_point;

typedef struct kf_dim_options {
  kf_lambda lambda;
  kf_metric metric;
  kf_centre centre;
  uint32_t folds;   /* 0: 5 */
  uint64_t sample;  /* at most so many rows are classified; 0: 50,000 */
  double tolerance; /* accuracy that may be lost, 0.01 = one point; 0: a standard error of it */
} kf_dim_options;

typedef struct kf_dim_choice {
  uint32_t dim, best; /* the one chosen, and the one with the highest accuracy */
  uint32_t folds;
  uint64_t n;      /* rows that were classified */
  size_t n_points; /* one for each dimension from 1 to D */
  kf_dim_point *points;
} kf_dim_choice;

/* Chooses the number of dimensions by cross-validation with nearest prototypes: the smallest one
 * whose accuracy is within the tolerance of the best, by default its standard error. Statistics
 * without a fold are the whole minus those of the fold, exactly. */
KF_API kf_status kf_dim_choice_new(kf_ctx *ctx, const kf_stats *stats, const kf_data *data,
                                   const kf_dim_options *options, kf_dim_choice **out);
KF_API void kf_dim_choice_free(kf_dim_choice *choice);

typedef struct kf_k_options {
  uint32_t most; /* 1 … most neighbours are tried; 0: 50, or fewer where rows are few */
  int weighted;  /* as in kf_vote_options */
  double temperature;
  uint64_t sample;  /* at most so many rows are left out in turn; 0: 50,000 */
  double tolerance; /* as in kf_dim_options */
} kf_k_options;

typedef struct kf_k_point {
  uint32_t k;
  uint64_t top1, top5;
  uint64_t lost, won; /* as in kf_dim_point, against the best k */
} kf_k_point;

typedef struct kf_k_choice {
  uint32_t k, best;
  uint64_t n;      /* rows that were left out in turn */
  size_t n_points; /* one for each k from 1 */
  kf_k_point *points;
} kf_k_choice;

/* Chooses k by leaving out each row of the gallery in turn: one search serves all k. */
KF_API kf_status kf_k_choice_new(kf_ctx *ctx, const kf_gallery *gallery,
                                 const kf_k_options *options, kf_k_choice **out);
KF_API void kf_k_choice_free(kf_k_choice *choice);

/* --- sweeps ---------------------------------------------------------------------------------- */

/* One cell of a sweep: a classifier and how often it was right. */
typedef struct kf_sweep_cell {
  int raw;         /* 1: in the original space; lambda is 0 */
  double lambda;   /* absolute */
  double relative; /* to the mean eigenvalue of S_w */
  uint32_t dim;
  uint32_t k;          /* neighbours; 0: nearest prototype */
  kf_metric metric;    /* never KF_METRIC_DEFAULT */
  uint32_t set;        /* number of the class set; 0 where there are none */
  kf_text_centre text; /* of text prototypes (in the original space: NONE); 0: images, or fused */
  int fused;           /* 1: text and prototypes together, as kf_model_new_fused has them */
  double alpha;        /* of fused (over folds that of the first one); 0 elsewhere */
  uint64_t n, top1, top5;
} kf_sweep_cell;

typedef struct kf_sweep_options {
  const kf_lambda *lambdas; /* NULL: 0.3 times the mean eigenvalue */
  size_t n_lambdas;
  const uint32_t *dims; /* falling or rising; NULL: all D */
  size_t n_dims;
  const uint32_t *k; /* rising; NULL: prototypes alone */
  size_t n_k;
  const kf_metric *metrics; /* NULL: the default one */
  size_t n_metrics;
  const struct kf_class_set *const *sets; /* NULL: all classes */
  size_t n_sets;
  kf_centre centre;
  int skip_raw;        /* 1: without the original space */
  int skip_prototypes; /* 1: neighbours alone */
  uint32_t folds;      /* without test data; 0: 5 */
  /* 1: without test data, leave rows out in turn instead of making folds, as kf_lambda_choice_new
   * does: prototypes in the mapped space alone, with all dimensions. */
  int leave_one_out;
  uint64_t sample;              /* with leave_one_out: at most so many rows; 0: 50,000 */
  const kf_stats *between;      /* as in kf_fit_options */
  const struct kf_truth *truth; /* of the test rows, instead of their labels; NULL: labels */
  /* Also zero-shot, as kf_model_new_zero_shot does it: the text as it is in the original space, and
   * mapped, with each centring. NULL: images alone. Not with leave_one_out. */
  const kf_text *text;
  const kf_text_centre *text_centres; /* NULL: modality */
  size_t n_text_centres;
  /* 1: also text and prototypes together, as kf_fit (centred on the mean, whatever `centre` is) and
   * kf_model_new_fused do it, with the alpha that kf_fuse_choice_new finds at each lambda among these
   * (NULL: the usual ones; a single one is taken as it is, and needs no training rows). */
  int fuse;
  const double *alphas;
  size_t n_alphas;
} kf_sweep_options;

typedef struct kf_sweep {
  double mean_eigenvalue;
  uint32_t folds;        /* 0: test data were given, or rows were left out one by one */
  kf_eval_result counts; /* rows, and why some were left out; no hits */
  size_t n_cells;
  /* By set, metric, space, lambda, k, dim, in the order of the options; then those of text by set,
   * metric, space, centring, lambda, dim; then fused ones by set, lambda, dim. */
  kf_sweep_cell *cells;
} kf_sweep;

/* Accuracy for every combination of lambda, dimension, k and metric, each as kf_fit and kf_eval (or
 * kf_gallery_eval) give it alone, but with what they share done once. `train` are the rows that the
 * statistics are of: needed for neighbours and folds, else it may be NULL. test NULL: stratified
 * folds of the training rows. */
KF_API kf_status kf_sweep_new(kf_ctx *ctx, const kf_stats *stats, const kf_data *train,
                              const kf_data *test, const kf_sweep_options *options, kf_sweep **out);
KF_API void kf_sweep_free(kf_sweep *sweep);

/* --- few-shot curves -------------------------------------------------------------------------- */

/* What is compared, each from the drawn rows alone. */
typedef enum kf_shots_classifier {
  KF_SHOTS_RAW = 0,   /* nearest prototype in the original space */
  KF_SHOTS_KOOFU = 1, /* nearest prototype; lambda by leave-one-out */
  KF_SHOTS_TEXT = 2,  /* zero-shot: text alone, in the original space; the same for all draws */
  KF_SHOTS_FUSED =
      3, /* text and prototypes; lambda and alpha by kf_fuse_choice_new, mean centred */
  KF_SHOTS_CLASSIFIERS = 4
} kf_shots_classifier;
KF_API const char *kf_shots_classifier_name(kf_shots_classifier classifier); /* "raw", "koofu", … */

typedef struct kf_shots_options {
  const uint32_t *shots; /* rows of each class, rising, from 1; NULL: 1, 2, 4, 8, 16 */
  size_t n_shots;
  uint32_t seeds;               /* draws for each number of shots, 1 … 1000; 0: 3 */
  const struct kf_truth *truth; /* of the test rows, instead of their labels; NULL: labels */
} kf_shots_options;

typedef struct kf_shots_point {
  uint32_t shots;
  uint32_t seed; /* 0 … seeds - 1 */
  kf_shots_classifier classifier;
  uint64_t n, top1, top5; /* test rows, and hits among them */
  double lambda;          /* absolute; 0 for raw and text, which have none */
  double alpha;           /* of fused; 0 elsewhere */
} kf_shots_point;

typedef struct kf_shots_size {
  uint32_t shots;
  uint32_t fewer; /* classes that have fewer rows, and gave all of them */
  uint64_t rows;  /* drawn, of all classes together */
} kf_shots_size;

typedef struct kf_shots {
  uint32_t seeds;
  uint32_t classes; /* that have training rows */
  uint64_t most;    /* rows of the class that has most */
  size_t n_sizes;
  kf_shots_size *sizes; /* one for each number of shots */
  size_t n_classifiers; /* 2, or with text 4 */
  size_t n_points;
  kf_shots_point *points; /* by shots, seed, classifier */
} kf_shots;

/* Accuracy on test rows when only so many training rows of each class are at hand. For each number of
 * shots and each seed that many rows of each class are drawn; everything that is chosen is chosen from
 * them. The same seed draws the same rows on every machine, and the rows of fewer shots are among
 * those of more. With one row in each class there is no scatter within classes: the Koo-Fu map is a
 * rotation then, lambda is 1, and accuracy that of the raw space. text NULL: raw and Koo-Fu alone.
 * Memory: 36 bytes for each training row. */
KF_API kf_status kf_shots_new(kf_ctx *ctx, const kf_data *data, const kf_data *test,
                              const kf_text *text, const kf_shots_options *options, kf_shots **out);
KF_API void kf_shots_free(kf_shots *shots);
/* The point of the size-th number of shots; NULL: there is none. Owned by shots. */
KF_API const kf_shots_point *kf_shots_at(const kf_shots *shots, size_t size, uint32_t seed,
                                         kf_shots_classifier classifier);

/* Of shares over seeds. */
typedef struct kf_spread {
  double mean, low, high;
  double deviation; /* standard deviation, of a sample; 0 with one seed */
} kf_spread;
/* top5 0: of top-1 accuracy; 1: of top-5. */
KF_API void kf_shots_spread(const kf_shots *shots, size_t size, kf_shots_classifier classifier,
                            int top5, kf_spread *out);

/* ---------------------------------------------------------------------------------------------
 * Judging: truth with several labels, class sets, hierarchies, comparisons, errors by class
 * ------------------------------------------------------------------------------------------ */

/* --- truth: which classes are right for each row, where one label is not all that can be said -- */

typedef struct kf_truth kf_truth;

typedef struct kf_truth_options {
  /* Text file with one class name a line, which class numbers in the truth stand for; names in the
   * truth must be in it. NULL: numbers are those of a model without names. */
  const char *classes;
  /* Text file with the id of each row of the data, one a line. NULL: entry i belongs to row i. */
  const char *ids;
} kf_truth_options;

/* Reads the right classes of rows, by the ending of the path:
 *   .json  a list of lists of class numbers (or of names), such as ReaL's real.json
 *   .csv   a header line, a column `proposed_labels` (or `labels`, `label`) with one class or
 *          several, separated by commas, and a column `id`, such as that of the cleaner validation
 *   other  text, one line a row: classes separated by tabs or, in a line without tabs, by commas
 * The first class of a file says whether it holds numbers or names. An empty list, field or line
 * means that the row is left out.
 *
 * With ids, entries of a .csv go to the rows whose id is theirs, and entry i of a .json to the row
 * whose id ends in _val_ and the number i + 1; folder and ending (.JPEG) of an id do not matter,
 * and rows without an entry are left out. An id that stands twice in the truth is an error; so is a
 * file of ids of which none has an entry. */
KF_API kf_status kf_truth_load(kf_ctx *ctx, const char *path, const kf_truth_options *options,
                               kf_truth **out);
KF_API void kf_truth_free(kf_truth *truth);
KF_API uint64_t kf_truth_rows(const kf_truth *truth); /* that the data must have */
/* Number of classes: names, or the largest number + 1. */
KF_API uint32_t kf_truth_classes(const kf_truth *truth);
KF_API const char *kf_truth_class_name(const kf_truth *truth, uint32_t k); /* NULL: no names */
/* How many classes are right for a row, each once, in the order of the file; *classes points to
 * them. 0: the row is left out. */
KF_API size_t kf_truth_row(const kf_truth *truth, uint64_t row, const int32_t **classes);

/* --- class sets and their hierarchy ----------------------------------------------------------- */

/* A set of classes, by name. */
typedef struct kf_class_set kf_class_set;

/* Reads a text file with one class name a line. Where a set is used with a model or a gallery whose
 * classes have no names, its lines are class numbers. Names that these do not have are no error, but
 * are remarked upon; a set of which no class is known is one. */
KF_API kf_status kf_class_set_load(kf_ctx *ctx, const char *path, kf_class_set **out);
/* names: [n], each once (copied). n may be 0. */
KF_API kf_status kf_class_set_new(kf_ctx *ctx, const char *const *names, uint32_t n,
                                  kf_class_set **out);
KF_API void kf_class_set_free(kf_class_set *set);
KF_API uint32_t kf_class_set_size(const kf_class_set *set);
KF_API const char *kf_class_set_name(const kf_class_set *set, uint32_t i); /* in the order given */
KF_API int kf_class_set_has(const kf_class_set *set, const char *name);

/* Which class is a kind of which other: a graph without cycles, in which a class may have several
 * parents. */
typedef struct kf_hierarchy kf_hierarchy;

/* Reads lines 'PARENT CHILD'. names NULL, or a text file with lines 'CLASS<tab>NAME', whose classes
 * are known even where no line of the hierarchy has them. A cycle is KF_ERR_DATA naming a class. */
KF_API kf_status kf_hierarchy_load(kf_ctx *ctx, const char *path, const char *names,
                                   kf_hierarchy **out);
KF_API void kf_hierarchy_free(kf_hierarchy *hierarchy);
KF_API uint32_t kf_hierarchy_classes(const kf_hierarchy *hierarchy);
KF_API uint64_t kf_hierarchy_edges(const kf_hierarchy *hierarchy);
/* "" where the file of names was not given or does not have it; NULL for an unknown class. */
KF_API const char *kf_hierarchy_name(const kf_hierarchy *hierarchy, const char *class_name);

/* What a set is in a hierarchy. A class that the hierarchy does not know is KF_ERR_DATA. */
typedef enum kf_kin {
  KF_KIN_LEAVES = 0,     /* classes of the set of which no other class of the set is a descendant */
  KF_KIN_ANCESTORS = 1,  /* all classes, of the set or not, that have a descendant in the set */
  KF_KIN_DESCENDANTS = 2 /* all classes, of the set or not, that have an ancestor in the set */
} kf_kin;
KF_API kf_status kf_class_set_new_kin(kf_ctx *ctx, const kf_hierarchy *hierarchy,
                                      const kf_class_set *set, kf_kin kin, kf_class_set **out);

/* The classes of two sets, such as 1K and 21K, by their relation to the first. Each class is in one
 * group: the first that it fits, in the order of the list. */
typedef enum kf_group {
  KF_GROUP_ONLY = 0,        /* of the first set, not of the second */
  KF_GROUP_BOTH = 1,        /* of both; all others are of the second set alone */
  KF_GROUP_ANCESTORS = 2,   /* has a descendant in the first set */
  KF_GROUP_DESCENDANTS = 3, /* has an ancestor in the first set */
  KF_GROUP_LEAVES = 4,      /* no other class of either set is a descendant of it */
  KF_GROUP_OTHER = 5,
  KF_GROUPS = 6
} kf_group;
/* A word for file names: "only", "both", "ancestors", "descendants", "leaves", "other". */
KF_API const char *kf_group_name(kf_group group);

/* The groups into out[KF_GROUPS], each in the order of its list, to be freed one by one. Where no
 * class of the first set is an ancestor of another one, no class in the union of ONLY, BOTH and
 * LEAVES (the paper's 14K) is: a leaf has no descendant in it, and no ancestor in the first set. */
KF_API kf_status kf_class_groups_new(kf_ctx *ctx, const kf_hierarchy *hierarchy,
                                     const kf_class_set *first, const kf_class_set *second,
                                     kf_class_set **out);

/* --- errors by class -------------------------------------------------------------------------- */

/* Results by class. A row with several right classes counts for the first of them, whatever was
 * answered, so that the numbers of rows do not depend on the model. */
typedef struct kf_class_result {
  uint64_t n, top1, top5; /* rows of the class, and hits among them */
  uint64_t answers;       /* rows that were taken for this class */
} kf_class_result;

typedef struct kf_confusion {
  int32_t truth, answer; /* class numbers of the model */
  uint64_t n;            /* rows of the one that were taken for the other */
} kf_confusion;

/* Rows whose margin, the score of the first answer less that of the second (for distances the other
 * way round), lies between two numbers; ten bins of about equal numbers of rows. */
typedef struct kf_margin_bin {
  double low, high;
  uint64_t n, top1;
} kf_margin_bin;

typedef struct kf_analysis {
  kf_eval_result totals; /* of the mapped space, or of the original one under `raw` */
  uint32_t n_classes;
  kf_class_result *classes; /* [n_classes] */
  size_t n_confusions;
  kf_confusion *confusions; /* most rows first; among equals by truth, then answer */
  size_t n_bins;
  kf_margin_bin *bins;
} kf_analysis;

typedef struct kf_analysis_options {
  kf_metric metric;
  int raw;                 /* 1: in the original space */
  const kf_truth *truth;   /* as in kf_eval_options */
  const kf_class_set *set; /* as in kf_eval_options */
} kf_analysis_options;

/* One pass over the data set as kf_eval does it. Memory: 17 bytes for each row. */
KF_API kf_status kf_analysis_new(kf_ctx *ctx, const kf_model *model, const kf_data *data,
                                 const kf_analysis_options *options, kf_analysis **out);
KF_API void kf_analysis_free(kf_analysis *analysis);

/* --- known and unknown classes ---------------------------------------------------------------- */

typedef struct kf_open_set_result {
  uint64_t n_known, n_unknown; /* rows; those that kf_eval leaves out are not among them */
  double auroc;     /* how often a known row has a better score than an unknown one; ties: half */
  double fpr95;     /* share of the unknown rows that are taken for known at the threshold */
  double threshold; /* the strictest score that at least 95 % of the known rows reach */
} kf_open_set_result;

/* Whether the score of the nearest prototype tells rows of known classes from others. `known` is
 * judged as in kf_analysis_new; of `unknown`, every row counts and labels are not looked at. Memory:
 * 8 bytes for each row. */
KF_API kf_status kf_open_set(kf_ctx *ctx, const kf_model *model, const kf_data *known,
                             const kf_data *unknown, const kf_analysis_options *options,
                             kf_open_set_result *out);

/* --- two classifiers on the same rows --------------------------------------------------------- */

/* For each row: right, wrong or left out. One byte a row. */
typedef struct kf_verdicts kf_verdicts;

/* Of the nearest prototype of a model. */
KF_API kf_status kf_verdicts_new(kf_ctx *ctx, const kf_model *model, const kf_data *data,
                                 const kf_analysis_options *options, kf_verdicts **out);
/* Of answers that `koofu classify` wrote: of its columns, `row` and `class1` count. Rows without a
 * line are left out; an answer that is no class of the truth is wrong. data may be NULL where a
 * truth is given, and truth NULL where data are. */
KF_API kf_status kf_verdicts_read(kf_ctx *ctx, const char *path, const kf_data *data,
                                  const kf_truth *truth, const kf_class_set *set,
                                  kf_verdicts **out);
KF_API void kf_verdicts_free(kf_verdicts *verdicts);
/* Why rows were left out, and top1. */
KF_API const kf_eval_result *kf_verdicts_counts(const kf_verdicts *verdicts);

typedef struct kf_comparison {
  uint64_t rows;
  uint64_t n;              /* rows that both have judged; the others do not count */
  uint64_t both, neither;  /* right in both, in none */
  uint64_t only_a, only_b; /* right in one alone */
  /* Accuracy of a less that of b, with its paired 95 % interval (Agresti and Min, 2005: Wald's
   * after adding a half to each of the four counts). */
  double difference, low, high;
  double p; /* of McNemar's test */
} kf_comparison;
KF_API kf_status kf_compare(kf_ctx *ctx, const kf_verdicts *a, const kf_verdicts *b,
                            kf_comparison *out);

/* The two-sided p-value of McNemar's exact test for two classifiers of which one alone is right b
 * times, the other one alone c times: the chance that b + c throws of a coin fall at least as
 * unevenly. Above 2^30 throws the normal distribution with the correction for continuity is used. */
KF_API double kf_mcnemar(uint64_t b, uint64_t c);

/* ---------------------------------------------------------------------------------------------
 * Encoder: pictures and words to embeddings (docs/encoder.md)
 * ------------------------------------------------------------------------------------------ */

/* A CLIP model as Hugging Face publishes it: a folder with config.json, model.safetensors (or shards
 * with an index), preprocessor_config.json, and the files of the tokenizer. */
typedef struct kf_encoder kf_encoder;

/* How the towers calculate. Both give the same bits on every instruction set, with any number of
 * threads, and whatever else is encoded in the same call. */
typedef enum kf_precision {
  KF_PRECISION_AUTO = 0, /* bf16 */
  KF_PRECISION_F32 = 1,  /* the reference */
  KF_PRECISION_BF16 = 2 /* products of bf16, sums and all else in f32: cosine to f32 above 0.9999 */
} kf_precision;

typedef struct kf_encoder_options {
  kf_precision precision;
  int no_images;       /* the image tower is not loaded */
  int no_text;         /* the text tower and the tokenizer are not loaded */
  uint64_t max_pixels; /* a picture with more is refused; 0: 178,956,970, as Pillow has it */
} kf_encoder_options;

/* Every tensor of the towers that are wanted must be there with the shape that config.json says, and no
 * other tensor in them; otherwise KF_ERR_DATA names it. Reports progress in bytes of weights. The encoder
 * calculates with the instruction set of this context, whichever contexts use it. */
KF_API kf_status kf_encoder_load(kf_ctx *ctx, const char *folder, const kf_encoder_options *options,
                                 kf_encoder **out);
KF_API void kf_encoder_free(kf_encoder *encoder);

KF_API uint32_t kf_encoder_dim(const kf_encoder *encoder);        /* of embeddings */
KF_API uint32_t kf_encoder_image_size(const kf_encoder *encoder); /* 224; 0: no image tower */
KF_API uint32_t kf_encoder_context(const kf_encoder *encoder);    /* 77 tokens; 0: no text tower */
KF_API kf_precision kf_encoder_precision(const kf_encoder *encoder);
KF_API uint64_t kf_encoder_bytes(const kf_encoder *encoder); /* of memory that the weights take */
/* A number that changes with every weight and setting of the towers that were loaded, and with the
 * precision, for telling whether two encoders give the same embeddings. */
KF_API uint64_t kf_encoder_checksum(const kf_encoder *encoder);

/* Embeddings of pictures in files: out[n][dim], as the projection leaves them (not unit length), and
 * finite. JPEG, PNG and WebP. `status` [n], or NULL: a picture that cannot be read, or whose embedding is
 * not finite, gets its status there and a row of zeros, and is told to the log; without it the first such
 * picture fails the call. */
KF_API kf_status kf_encode_images(kf_ctx *ctx, const kf_encoder *encoder, const char *const *paths,
                                  uint64_t n, float *out, kf_status *status);
/* The same of pictures that have been through the preprocessor: pixels[n][3][size][size]. */
KF_API kf_status kf_encode_pixels(kf_ctx *ctx, const kf_encoder *encoder, const float *pixels,
                                  uint64_t n, float *out);
/* What the preprocessor makes of a picture: pixels[3][size][size]. */
KF_API kf_status kf_preprocess_image(kf_ctx *ctx, const kf_encoder *encoder, const char *path,
                                     float *pixels);

/* Embeddings of texts (UTF-8): out[n][dim]. */
KF_API kf_status kf_encode_texts(kf_ctx *ctx, const kf_encoder *encoder, const char *const *texts,
                                 uint64_t n, float *out);
/* The tokens of a text, [context], filled up with the padding token; *n: how many stand before it. */
KF_API kf_status kf_tokenize(kf_ctx *ctx, const kf_encoder *encoder, const char *text,
                             int32_t *tokens, uint32_t *n);

/* --- many pictures ---------------------------------------------------------------------------- */

/* A list of pictures, at least one, none of them twice. */
typedef struct kf_pictures kf_pictures;

/* paths: pictures, folders or glob patterns, in the order given.
 *
 * A folder whose folders hold pictures (.jpg, .jpeg, .png, .webp, in any case, at any depth) is one of
 * classes: the names of these folders are the classes, and every picture below one of them belongs to
 * it; pictures beside them are left out, which is told to the log. Pictures directly in another folder,
 * and those given by themselves, have no label. Pictures of a folder come in byte order of their paths;
 * classes, which several folders may share, are numbered in byte order of their names. Hidden files and
 * folders are not looked at, and a link that leads back to where it came from is not followed.
 *
 * A pattern stands for the folders and pictures that match it. KF_ERR_DATA where a folder has no picture,
 * a path is not UTF-8 or stands there twice. */
KF_API kf_status kf_pictures_open(kf_ctx *ctx, const char *const *paths, size_t n_paths,
                                  kf_pictures **out);
/* A text file with one picture a line: PATH, or PATH<TAB>CLASS. Relative paths start at the folder of
 * the list. Either every line has a class or none. */
KF_API kf_status kf_pictures_open_list(kf_ctx *ctx, const char *list, kf_pictures **out);
KF_API void kf_pictures_free(kf_pictures *pictures);
KF_API uint64_t kf_pictures_count(const kf_pictures *pictures);
/* Where a picture is, and what its row is called: the path as it was given, or as the list has it. */
KF_API const char *kf_pictures_path(const kf_pictures *pictures, uint64_t i);
KF_API const char *kf_pictures_id(const kf_pictures *pictures, uint64_t i);
KF_API uint32_t kf_pictures_classes(const kf_pictures *pictures); /* 0: no labels */
KF_API const char *kf_pictures_class_name(const kf_pictures *pictures, uint32_t k);
KF_API int32_t kf_pictures_label(const kf_pictures *pictures, uint64_t i); /* KF_LABEL_NONE: none */

typedef struct kf_embed_options {
  kf_dtype dtype; /* of the file: KF_F32, KF_F16 or KF_BF16 */
  int normalize;  /* rows of unit length */
  int skip_bad;   /* leave out pictures that cannot be read, telling each to the log */
  uint32_t shard; /* pictures that are finished together; 0: 256 */
  int no_resume;  /* finished shards of an earlier run are thrown away */
} kf_embed_options;

typedef struct kf_embed_report {
  uint64_t rows;    /* written */
  uint64_t skipped; /* pictures that could not be read */
  uint64_t resumed; /* pictures that an earlier run was done with, skipped ones too */
} kf_embed_report;

/* Writes the embeddings of pictures as a data set: `embeddings`, `labels` and class names where there are
 * labels, and the paths as ids. Memory does not grow with the rows; the progress stage is "embed".
 *
 * Finished shards stay in the folder PATH.parts until the file is whole. A run that failed or was killed
 * goes on from there, tells the log again what it had told of these shards, and the file has the same
 * bytes; a picture that changed meanwhile is embedded again. KF_ERR_ARG where the folder is of other
 * pictures, another encoder or other options, KF_ERR_IO where another process is at work in it. report
 * may be NULL. */
KF_API kf_status kf_embed(kf_ctx *ctx, const kf_encoder *encoder, const kf_pictures *pictures,
                          const kf_embed_options *options, const char *path,
                          kf_embed_report *report);

/* ---------------------------------------------------------------------------------------------
 * A synthetic CLIP-like world (docs/synth.md)
 * ------------------------------------------------------------------------------------------ */

typedef struct kf_synth_options {
  uint64_t seed;
  uint32_t classes;   /* 0: 1000 */
  uint32_t dim;       /* 0: 512; 8 … 65,536 */
  uint64_t per_class; /* rows of each class; 0: 16 */
  uint32_t split;     /* 0: training rows; 1, 2, …: other rows of the same classes (tests) */
} kf_synth_options;

/* A data set whose rows are made when they are asked for; the same bytes on every machine. Row i
 * belongs to class i mod K, so that any prefix is nearly balanced. Class names are "c0000"…. */
KF_API kf_status kf_synth_open(kf_ctx *ctx, const kf_synth_options *options, kf_data **out);
/* The text prototypes of the same world, [K] rows in class order, labelled with their classes. */
KF_API kf_status kf_synth_open_text(kf_ctx *ctx, const kf_synth_options *options, kf_data **out);

/* ---------------------------------------------------------------------------------------------
 * What is in a file
 * ------------------------------------------------------------------------------------------ */

typedef struct kf_tensor_info {
  const char *name;
  const char *dtype; /* as the file spells it: "F16", "<f4" */
  uint32_t ndim;
  uint64_t shape[8];
} kf_tensor_info;

typedef struct kf_info {
  const char *format; /* "npy", "safetensors", "fvecs", "fbin", "text" */
  const char *kind;   /* "embeddings", "labels", "data set", "statistics", "model", "gallery",
                       * "answers" (of a search), "tensors" */
  uint64_t bytes;     /* size of the file */
  uint64_t rows;      /* rows, labels or lines; statistics: rows that went in */
  uint32_t dim;       /* 0 where there is none */
  uint32_t classes;   /* 0 where not known */
  uint32_t dim_out;   /* model, and gallery: of its own rows */
  int ids;            /* data set and gallery: rows have ids */
  int normalized;     /* statistics and model; -1 elsewhere */
  int exponent;       /* statistics only */
  double lambda;      /* model only */
  size_t n_tensors;
  const kf_tensor_info *tensors;
  size_t n_meta; /* metadata of .safetensors, sorted by key */
  const char *const *meta_keys;
  const char *const *meta_values;
} kf_info;

/* Describes any file that koofu reads or writes, from its header (text: from all of it). Statistics
 * and models are loaded whole, so that a description also says that the file is sound. */
KF_API kf_status kf_info_read(kf_ctx *ctx, const char *path, kf_info **out);
KF_API void kf_info_free(kf_info *info);

/* ---------------------------------------------------------------------------------------------
 * Report: one page about a data set and its model (docs/report.md)
 * ------------------------------------------------------------------------------------------ */

/* What the page is made of. NULL: what it would show is left out. */
typedef struct kf_report_content {
  const char *title;              /* NULL: "Koo-Fu report" */
  const char *train, *test;       /* what the rows are called, such as names of files */
  uint64_t train_rows;            /* memory is that of so many rows, in f32; 0: of a million */
  const kf_model *model;          /* spectra, map of classes, names of classes */
  const kf_eval_result *eval;     /* raw and Koo-Fu, of the model */
  const kf_eval_result *text;     /* of a model that knows text: KF_PART_TEXT */
  const kf_eval_result *fused;    /* the same: KF_PART_FUSED */
  const kf_fuse_choice *fuse;     /* accuracy over alpha */
  const kf_lambda_choice *lambda; /* accuracy over lambda */
  const kf_dim_choice *dim;       /* accuracy over dimensions */
  const kf_k_choice *k;           /* accuracy over neighbours */
  const kf_sweep *sweep;          /* the same three; neighbours and text beside prototypes */
  const kf_analysis *analysis;    /* classes, confusions, margins; with a model: of its classes */
  const kf_shots *shots;          /* accuracy over the number of rows of each class */
} kf_report_content;

/* Writes one HTML page that needs nothing else: no network, no script. The same content gives the
 * same bytes. KF_ERR_ARG where the parts do not go together. */
KF_API kf_status kf_report_save(kf_ctx *ctx, const kf_report_content *content, const char *path);

#ifdef __cplusplus
}
#endif

#endif
