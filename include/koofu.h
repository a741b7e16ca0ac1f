/* koofu.h - Koo-Fu CLIP: a better, smaller embedding space in closed form.
 *
 * SPDX-License-Identifier: Apache-2.0
 *
 * koofu takes embeddings (rows of D floats) with class labels and computes a linear map T that
 * whitens the scatter within classes and rotates to the directions that separate classes best. In
 * the mapped space the nearest class mean ("prototype") is a better classifier than in the
 * original space, and the first L coordinates are a smaller embedding.
 *
 *     files -> kf_data -> kf_fit -> kf_model -> kf_transform, kf_classify
 *                                            -> kf_gallery -> kf_gallery_search
 *
 * All of it, without error handling:
 *
 *     const char *path = "train.safetensors";
 *     kf_ctx *ctx;      kf_ctx_new(NULL, &ctx);
 *     kf_data *data;    kf_data_open(ctx, &path, 1, NULL, &data);
 *     kf_model *model;  kf_fit(ctx, data, NULL, &model, NULL);
 *                       kf_classify(ctx, model, rows, n, NULL, classes, scores);
 *
 * The public headers are the manual. What is not in them is not public.
 *
 *   koofu.h           context, data sets, fit, models, transform and classify, search, galleries
 *   koofu_encode.h    pictures and words to embeddings; class names as text; a folder of pictures
 *                     to a classifier in one call
 *   koofu_judge.h     accuracy and errors; choosing lambda, dimensions and k; sweeps; reports
 *   koofu_files.h     statistics; more ways to hold and inspect data, models and galleries; what is
 *                     in a file; export; writing files
 *   koofu_comm.h      many processes or machines, devices
 *
 * Rules
 *   - Every function that can fail returns a kf_status; kf_errmsg(ctx) then says in one sentence
 *     what went wrong, naming file, row or byte. On failure a new object is NULL, and output files
 *     are left as they were (docs/reliability.md).
 *   - Functions with new, open, load, read, fit or within in their names, and kf_verify, return
 *     something to free. Each such type has its own _free, which accepts NULL.
 *   - A context may be used by one thread at a time. All other objects may be shared between
 *     threads as long as none changes them; only a function whose parameter is not const changes
 *     the object. After fork() the child must make its own context. A thread that calls the library
 *     needs 512 KiB of stack.
 *   - In option structs zero means default, and a NULL pointer means all defaults. A kf_switch is
 *     for settings that may be on by default.
 *   - An index out of range gives NULL, 0 or KF_LABEL_NONE, never undefined behaviour.
 *   - The same input gives the same bits, whatever the number of threads, the processor, the
 *     device or the order and number of files (docs/numerics.md).
 *   - The library never prints, exits, aborts or reads the environment.
 *
 * How the interface grows (from 1.0 on; until then any minor version may change it, and has its
 * own soname)
 *   - Declarations under #ifdef KF_EXPERIMENTAL are still moving: define KF_EXPERIMENTAL before
 *     the first include to use them. They may change or go in any version.
 *   - Structs that the caller fills in or allocates end in `reserved`, which must be zero
 *     (kf_lambda and kf_hits, which never change, have none). New members are taken from it, never
 *     from padding between members (which a caller may leave unset), and zero means 'as before',
 *     so sizes and offsets never change. Setting a member that this library does not know yet is
 *     KF_ERR_ARG.
 *   - Structs that the library returns by pointer may grow at the end. Do not copy them or rely on
 *     their size. Elements of arrays inside them keep their size.
 *   - Numbers of enums never change; new ones are added at the end.
 *   - Every function is exported under the version that introduced it. */
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
#define KF_VERSION_MINOR 2
#define KF_VERSION_PATCH 0
#define KF_VERSION       "0.2.0"

KF_API const char *kf_version(void); /* of the library that is running */

/* Off, on, or the default. */
typedef enum kf_switch { KF_DEFAULT = 0, KF_ON = 1, KF_OFF = 2 } kf_switch;

/* ---------------------------------------------------------------------------------------------
 * 1  Status and errors
 * ------------------------------------------------------------------------------------------ */

typedef enum kf_status {
  KF_OK = 0,
  KF_ERR_ARG = 1,       /* the call makes no sense: NULL, out of range, sizes that do not match */
  KF_ERR_DATA = 2,      /* a file or a row is not what it must be */
  KF_ERR_IO = 3,        /* the system refused: missing, unreadable, disk full, no permission */
  KF_ERR_MEM = 4,       /* out of memory */
  KF_ERR_MATH = 5,      /* the problem has no answer: singular scatter, fewer than two classes */
  KF_ERR_CANCELLED = 6, /* the progress callback asked to stop */
  KF_ERR_INTERNAL = 7   /* a bug in koofu; please report it */
} kf_status;

/* A short fixed English name of a status, "bad data". Never NULL. */
KF_API const char *kf_status_name(kf_status status);

/* ---------------------------------------------------------------------------------------------
 * 2  Context: threads, device, progress, log
 * ------------------------------------------------------------------------------------------ */

typedef struct kf_ctx kf_ctx;
typedef struct kf_ctx_options kf_ctx_options;

/* A context keeps its threads between calls. */
KF_API kf_status kf_ctx_new(const kf_ctx_options *options, kf_ctx **out);
KF_API void kf_ctx_free(kf_ctx *ctx);
/* What went wrong in the last call on this context; "" if nothing did. Valid until the next call on
 * the context. ctx may be NULL. */
KF_API const char *kf_errmsg(const kf_ctx *ctx);

/* Called between blocks of long work, from the thread that made the call: `done` of `total` units
 * (mostly rows) of the stage `what`. total is 0 if unknown. Work that cannot be measured reports
 * the same numbers again. A non-zero return stops the work with KF_ERR_CANCELLED. The callback must
 * not use the context it is called from. */
typedef int (*kf_progress_fn)(void *user, const char *what, uint64_t done, uint64_t total);
/* Notes that are not errors, such as '12 bad rows were skipped': one sentence without a newline. */
typedef void (*kf_log_fn)(void *user, const char *message);

struct kf_ctx_options {
  unsigned threads; /* 0: one per processor this process may use; at most 1024 */
  unsigned isa;     /* instruction set (experimental: kf_isa, koofu_comm.h); 0: the best */
  kf_progress_fn progress;
  kf_log_fn log;
  void *user;      /* passed to both callbacks */
  int any_encoder; /* 1: embeddings of different encoders may be mixed (koofu_encode.h) */
  /* Where to compute: "cpu", "cuda", "cuda:1", or several devices, "cuda:0,cuda:1", which share
   * the rows of a search. NULL or "auto": on the first GPU where that is faster, if there is a GPU
   * and a plug-in for it, otherwise on the CPU. With several ranks, "cuda" and "auto" give each
   * rank a GPU of its own. Answers do not depend on it (docs/gpu.md). Both strings are copied. */
  const char *device;
  const char *device_plugin; /* NULL: libkoofu-cuda.so, next to this library or installed */
  /* The ranks that share the calls on this context (koofu_comm.h); must outlive the context. All
   * ranks create their contexts together. NULL: this process alone. */
  const struct kf_comm *comm;
  uint64_t reserved[4];
};

/* ---------------------------------------------------------------------------------------------
 * 3  Data sets: rows with labels and class names
 * ------------------------------------------------------------------------------------------ */

typedef struct kf_data kf_data;
typedef struct kf_data_options kf_data_options;

/* Limits: a row has 1 to 65,536 columns, a data set at most 2^22 classes. */
#define KF_MAX_DIM     65536u
#define KF_MAX_CLASSES 4194304u

/* Negative labels that kf_data_get may return. */
#define KF_LABEL_NONE (-1) /* the row has no label */
#define KF_LABEL_BAD  (-2) /* the row is NaN, infinite or zero, and skip_bad is set */

/* How rows are stored in a file. In memory they are always float. */
typedef enum kf_dtype { KF_F32 = 0, KF_F16 = 1, KF_BF16 = 2, KF_F64 = 3 } kf_dtype;

/* Opens files as one data set. Each path is a file, one array of an archive ("FILE.npz:NAME"), a
 * folder (all files in it with a known extension) or a glob pattern. Files of a folder or pattern
 * are ordered by the numbers in their names, the paths themselves as given.
 *
 * Formats, by extension:
 *   .npy          versions 1 to 3; f2, f4, f8; C or Fortran order
 *   .npz          stored or deflated, which is unpacked to an unnamed file next to it or in /tmp
 *   .safetensors  F16, BF16, F32, F64
 *   .parquet      docs/formats.md; decoded pages take about 24 MiB, more if single pages are large
 *   .csv .tsv     a column for each dimension; copied to such a file, as those of a .parquet are
 *   .fvecs .fbin .f16bin .u8bin .i8bin
 * The first four are recognised by their magic bytes in files without an extension.
 *
 * Headers and labels are checked here; for a gallery the checksum too, which reads all of it. Rows
 * are read later, block by block, so memory does not depend on their number.
 *
 * Order matters when one label file serves several data files. Paths that are in byte order but
 * not in numerical order, as a shell lists them, are then KF_ERR_ARG unless options->order is set;
 * if the two orders of a folder or pattern differ, the one used is logged. The same file twice is
 * KF_ERR_ARG if it has labels, otherwise logged. */
KF_API kf_status kf_data_open(kf_ctx *ctx, const char *const *paths, size_t n_paths,
                              const kf_data_options *options, kf_data **out);

/* A data set over the caller's arrays, which must outlive it. rows: [n][dim]; labels: [n], or NULL;
 * names: [n_classes] (copied), or NULL. n_classes 0: the largest label + 1. For other types and
 * layouts see kf_data_open_arrays (koofu_files.h). */
KF_API kf_status kf_data_open_memory(kf_ctx *ctx, const float *rows, uint64_t n, uint32_t dim,
                                     const int32_t *labels, const char *const *names,
                                     uint32_t n_classes, kf_data **out);
KF_API void kf_data_free(kf_data *data);

KF_API uint64_t kf_data_rows(const kf_data *data);
KF_API uint32_t kf_data_dim(const kf_data *data);
KF_API int kf_data_has_labels(const kf_data *data);
/* Number of classes: names given, or the largest label + 1. 0 without labels. */
KF_API uint32_t kf_data_classes(const kf_data *data);
KF_API const char *kf_data_class_name(const kf_data *data, uint32_t k); /* NULL: no names */

/* Copies rows first … first+n-1 into rows[n][dim] and their labels into labels[n] (NULL: not
 * wanted). A NaN, infinite or zero row is KF_ERR_DATA, naming file and row; with skip_bad it is
 * returned as zeros with the label KF_LABEL_BAD (labels must not be NULL then). */
KF_API kf_status kf_data_get(kf_ctx *ctx, const kf_data *data, uint64_t first, uint64_t n,
                             float *rows, int32_t *labels);

/* Whether rows have ids (1 or 0): strings such as the paths of the pictures they were made from. If
 * there are several files, all must have ids. */
KF_API int kf_data_has_ids(const kf_data *data);
/* The id of a row, with a NUL, into id[size]. KF_ERR_ARG if there is none or size is too small: an
 * id has at most 65,536 bytes. */
KF_API kf_status kf_data_get_id(kf_ctx *ctx, const kf_data *data, uint64_t row, char *id,
                                size_t size);

/* Writes one .safetensors file: `embeddings` [N, D], `labels` [N] (I32), class names in the
 * metadata, ids if there are any. dtype: KF_F32, KF_F16 or KF_BF16 (rounded to nearest even; a
 * value out of range is KF_ERR_DATA). With skip_bad, bad rows are left out. A path that ends in
 * .parquet gets columns `embedding`, `label` and `id` instead, in f32 or f16. */
KF_API kf_status kf_data_save(kf_ctx *ctx, const kf_data *data, kf_dtype dtype, const char *path);

/* The order of files. By number, img_2.npy comes before img_10.npy; by name (bytes), after it. */
typedef enum kf_order {
  KF_ORDER_DEFAULT = 0, /* folders and patterns by number, paths as given */
  KF_ORDER_NUMBER = 1,  /* all files together by number; ties by name */
  KF_ORDER_NAME = 2,    /* all files together by name */
  KF_ORDER_GIVEN = 3    /* as by default, and the order of the paths is intended */
} kf_order;

struct kf_data_options {
  /* Label files, folders of them or glob patterns: one file for each data file, or one for all
   * rows. Files of a folder or pattern are matched to the data files by name (without extension)
   * or, if no name matches, by position in numerical order.
   *
   * `.npy` with integers or strings (<U, |S); `.npz` with one such array, or "FILE.npz:NAME";
   * `.csv`, `.tsv` and `.parquet` (see label_column); any other extension: text with one label per
   * line. NULL: the labels inside the files, if any. */
  const char *const *labels;
  size_t n_labels;
  /* Text file with one class name per line. Integer labels index it; text labels must be in it.
   * NULL: the names inside the files; text labels make their own list, sorted by bytes. */
  const char *classes;
  /* Embeddings inside .safetensors and .npz; NULL: "embeddings", or the only 2-D array. The column
   * of .parquet files, "a.b" for one in a struct; NULL: "embedding", "embeddings", or the only one
   * that holds lists of floats. "NAME:f32", "NAME:f16": a column of bytes that are such numbers. In
   * tables: "NAME0", "NAME1", …, a column for each dimension; NULL: the only ones with numbers. */
  const char *tensor;
  /* Labels inside .safetensors and .npz; NULL: "labels" or, in an .npz, the only 1-D array of
   * integers or strings with an element per row, which is logged. Not together with label files. */
  const char *label_tensor;
  kf_switch inner_labels; /* use labels and class names inside the files; default: on */
  int skip_bad;           /* leave out NaN, infinite and zero rows instead of failing */
  int allow_unlabelled;   /* negative integers and empty lines are KF_LABEL_NONE, not an error */
  int allow_unknown;      /* with `classes`: labels not in the list are KF_LABEL_NONE too */
  /* Text file with class names, one per line: only rows of these classes are in the data set.
   * Classes keep their numbers and names, and must have names. Memory: 8 bytes per remaining row.
   * NULL: all rows. */
  const char *only;
  /* The column of .csv and .tsv label files: its name in the header line, or its number, from 1. A
   * number is always a position; the first line is then a header if there is one line more than
   * there are rows. A text file with another extension is read as .csv. NULL: the only column.
   *
   * Also the column of tables with rows in them, and of .parquet label files, strings or integers;
   * NULL: "labels" or "label", which is logged, or the only one of a label file. For .npy files in
   * a folder `img_emb` next to a folder `metadata` of .parquet files, as clip-retrieval writes
   * them: the column of the latter, unless there are other labels. */
  const char *label_column;
  kf_order order;
  /* 1: each rank has its own files, perhaps on its own disk. The rows of rank 0 come first, then
   * those of rank 1, and so on; if class names differ between ranks, the data set has their union,
   * sorted by bytes. All ranks must have the same dimension. Memory: 4 bytes per row. Such data
   * serves statistics, fits, evaluation and sweeps without neighbours; what needs all rows on every
   * rank is KF_ERR_ARG. 0: all ranks see the same files. */
  uint64_t own_files;
  /* The column of .parquet, .csv and .tsv files with ids, strings or integers; NULL: "id", "ids" or
   * "key", if there is one; "": none. For .npy files in a folder `img_emb`, as label_column. */
  const char *id_column;
  uint64_t reserved[4];
};

/* ---------------------------------------------------------------------------------------------
 * 4  Fit: from rows to a model
 * ------------------------------------------------------------------------------------------ */

typedef struct kf_model kf_model;
typedef struct kf_stats kf_stats; /* exact integer moments of rows, koofu_files.h */
typedef struct kf_text kf_text;   /* text prototypes, koofu_encode.h */
typedef struct kf_fit_options kf_fit_options;
typedef struct kf_fit_report kf_fit_report;

/* Fits a model to the labelled rows of a data set. Settings that are not given are chosen from
 * these rows alone. data may be NULL if options->stats is given; then nothing is chosen by leaving
 * rows out (kf_fit_stats, koofu_files.h). report may be NULL.
 *
 * If no class has two different rows, S_w, the scatter within classes, is zero. Then the scatter of
 * all rows takes its place, with a lambda of 30 times its mean eigenvalue unless one is given; in
 * the paper's method this is KF_ERR_MATH unless lambda is absolute.
 *
 * KF_ERR_MATH if there is no model: S_w singular at lambda 0 (the message names its matrix rank and
 * a lambda that works), fewer than two classes with rows, groups so large that no row can be left
 * out, or a lambda so small that numbers overflow double precision. */
KF_API kf_status kf_fit(kf_ctx *ctx, const kf_data *data, const kf_fit_options *options,
                        kf_model **out, kf_fit_report **report);
KF_API void kf_fit_report_free(kf_fit_report *report);

/* The regulariser lambda, added to every eigenvalue of S_w. */
typedef enum kf_lambda_unit {
  KF_LAMBDA_AUTO = 0,       /* chosen by leave-one-out; from statistics alone, that of the earlier
                             * model or 0.3 times the mean eigenvalue of S_w */
  KF_LAMBDA_ABSOLUTE = 1,   /* the paper's units: added to S_w as it is */
  KF_LAMBDA_RELATIVE = 2,   /* times the mean eigenvalue of S_w, trace(S_w) / D */
  KF_LAMBDA_GDA = 3,        /* trace(S_w) / (N - 1) for N rows; `value` is ignored */
  KF_LAMBDA_LEDOIT_WOLF = 4 /* Ledoit and Wolf's shrinkage, from the rows; `value` is ignored */
} kf_lambda_unit;
typedef struct kf_lambda {
  double value; /* finite, >= 0 */
  kf_lambda_unit unit;
} kf_lambda;

/* How map and prototypes are computed from the statistics (docs/method.md). */
typedef enum kf_method {
  KF_METHOD_DEFAULT = 0, /* shrunk */
  /* Columns are scaled to equal scatter within classes, so lambda shrinks S_w towards its own
   * diagonal. Rows are centred on their mean, and class means are shrunk towards it, in each
   * direction in proportion to their noise. */
  KF_METHOD_SHRUNK = 1,
  /* The paper's, without any of this. */
  KF_METHOD_PAPER = 2
} kf_method;

/* What is subtracted before a map is applied. */
typedef enum kf_centre {
  KF_CENTRE_DEFAULT = 0, /* a fit: the mean; with KF_METHOD_PAPER nothing, unless it has text;
                          * zero-shot: modality */
  KF_CENTRE_NONE = 1,    /* nothing: f(x) = T x, as in the paper's experiments; a fit needs
                          * KF_METHOD_PAPER for it */
  KF_CENTRE_MEAN = 2,    /* the mean of the training rows: f(x) = T (x - mean) */
  KF_CENTRE_MODALITY = 3 /* zero-shot only: the mean of the training rows from rows, the mean of the
                          * text prototypes from text. This closes most of the modality gap. */
} kf_centre;

typedef enum kf_metric {
  KF_METRIC_DEFAULT = 0, /* cosine; Euclidean for a model fitted without normalising */
  KF_METRIC_COSINE = 1,
  KF_METRIC_EUCLIDEAN = 2,
  KF_METRIC_INNER = 3 /* the inner product of unscaled rows; for indexes and galleries only */
} kf_metric;

/* What lambda (and alpha, with text) is chosen by. */
typedef enum kf_criterion {
  KF_CRITERION_DEFAULT = 0, /* likelihood; accuracy with KF_METHOD_PAPER */
  /* The likelihood of the true classes of rows left out, under a softmax of their scores times a
   * temperature that is chosen with it. The temperature becomes part of the model. */
  KF_CRITERION_LIKELIHOOD = 1,
  KF_CRITERION_ACCURACY = 2 /* how many rows left out are classified correctly */
} kf_criterion;

/* How likely classes are before a row is seen (docs/method.md). */
typedef enum kf_priors {
  KF_PRIORS_DEFAULT = 0, /* training for models fitted without normalising by KF_METHOD_SHRUNK,
                          * otherwise equal */
  KF_PRIORS_EQUAL = 1,   /* all the same */
  /* In proportion to training rows: right if classes are equally frequent in the rows to be
   * classified. Not with KF_METHOD_PAPER or text. Cosines also need a temperature, and so rows to
   * choose it. */
  KF_PRIORS_TRAINING = 2
} kf_priors;

typedef struct kf_stats_options {
  kf_switch normalize; /* scale every row to unit length first; default: on */
  /* Values are rounded to multiples of 2^-exponent; with normalize, always 2^-22. Every value must
   * have |x| * 2^exponent <= 2^22. */
  int exponent;
  /* For a data set with normalize off. 1: take `exponent` as given; 0: find the largest that fits,
   * in a first pass over the data. */
  int fixed_exponent;
  /* For a data set in files: a folder (created if missing) for partial sums, so that an interrupted
   * run can be resumed, on any number of ranks, and redoes only what is missing. One or a few files
   * per rank, each the size of the statistics; the caller removes them. All ranks must see the same
   * folder. NULL: nothing is kept. */
  const char *checkpoint;
  uint64_t reserved[3];
} kf_stats_options;

struct kf_fit_options {
  kf_lambda lambda;
  uint32_t dim;   /* dimensions to keep, 1 … D; 0: all */
  int choose_dim; /* instead of `dim`: the fewest shown to lose less than `margin`
                   * (kf_dim_choice_new, koofu_judge.h) */
  kf_centre centre;
  kf_metric metric;    /* of prototypes, while choosing */
  const kf_text *text; /* to fit with the rows, centred (kf_model_new_fused, koofu_encode.h) */
  const double *alpha; /* weight of the prototypes relative to it; NULL: chosen with lambda */
  kf_stats_options stats_options;
  const kf_stats *stats; /* of the data set, if already computed; NULL: computed */
  /* Take S_b, the class means and the mean from these statistics, and S_w alone from the others;
   * then nothing is chosen by leave-one-out. NULL: the same statistics for all. */
  const kf_stats *between;
  int one_se;      /* choose the largest lambda within one standard error of the best */
  uint64_t sample; /* leave out at most this many rows in turn; 0: as in kf_lambda_options */
  uint32_t folds;  /* of choose_dim; 0: as in kf_dim_options */
  double margin;   /* accuracy that choose_dim may lose, 0.01 = one point; 0: 0.005 */
  kf_method method;
  kf_criterion criterion;
  /* The group of each row of the data set, [rows]; rows of one group (a video, a scene, a person)
   * are left out together. NULL: each row is its own group. Groups, and the likelihood, need rows
   * that are centred or compared by distance; otherwise KF_ERR_ARG. */
  const uint32_t *groups;
  /* Also choose the threshold of kf_model_knows, which tells rows of unknown classes apart: the
   * score that this share of the rows left out in turn reaches. Needs rows and all dimensions. */
  double reject; /* such as 0.95; 0: none */
  kf_priors priors;
  /* An earlier model, such as one of fewer rows: what is not given here is taken from it instead of
   * chosen. That is lambda (absolute), alpha, dim, method, centre, priors, temperature, threshold.
   * Its text, if any, must be given again. NULL: none. */
  const kf_model *like;
  uint64_t reserved[3];
};

/* What a fit chose and how good it is, judged on the training rows alone. */
struct kf_fit_report {
  uint64_t rows;          /* rows in the model */
  uint64_t n_unlabelled;  /* rows of the data set left out: no label */
  uint64_t n_bad;         /* left out: NaN, infinite or zero (skip_bad) */
  double lambda;          /* absolute */
  double mean_eigenvalue; /* of S_w */
  double alpha;           /* with text */
  uint32_t dim;
  /* Leave-one-out accuracy of the chosen setting: `right` of n rows, with all dimensions. n is 0 if
   * neither lambda nor alpha was chosen by leaving rows out. */
  uint64_t n, right;
  double standard_error;
  /* All that was tried; NULL: not chosen. Owned by the report; see koofu_judge.h. */
  struct kf_lambda_choice *by_lambda;
  struct kf_fuse_choice *by_fusion;
  struct kf_dim_choice *by_dim;
  /* Near-duplicates: of n_compared rows, n_near have a nearly equal row in their class, outside
   * their group. many_near 1: so many that leave-one-out is optimistic (kf_near_duplicates,
   * koofu_judge.h). */
  uint64_t n_compared, n_near;
  int many_near;
  int by_all_rows; /* 1: the scatter of all rows took the place of S_w; see kf_fit */
};

/* ---------------------------------------------------------------------------------------------
 * 5  Models: map and prototypes
 * ------------------------------------------------------------------------------------------ */

KF_API kf_status kf_model_save(kf_ctx *ctx, const kf_model *model, const char *path);
/* Verifies the checksum of the file. */
KF_API kf_status kf_model_load(kf_ctx *ctx, const char *path, kf_model **out);
KF_API void kf_model_free(kf_model *model);
/* A copy of the model with one more class, whose prototype is the mean of all rows of `samples`
 * (labels are ignored). The map stays the same. The name must be new. */
KF_API kf_status kf_model_new_with_class(kf_ctx *ctx, const kf_model *model, const char *name,
                                         const kf_data *samples, kf_model **out);

KF_API uint32_t kf_model_dim_in(const kf_model *model);  /* D */
KF_API uint32_t kf_model_dim_out(const kf_model *model); /* L */
KF_API uint32_t kf_model_classes(const kf_model *model);
KF_API const char *kf_model_class_name(const kf_model *model, uint32_t k); /* NULL: no names */
KF_API int64_t kf_model_count(const kf_model *model, uint32_t k); /* training rows of class k */
KF_API double kf_model_lambda(const kf_model *model);             /* absolute */
/* The temperature that turns scores into probabilities (kf_classify_options); 0: not known. It is
 * chosen by leaving rows out or, with fewer dimensions than D, by five folds. */
KF_API double kf_model_temperature(const kf_model *model);
/* The score that a row of a known class must reach, and into *share (or NULL) the share of known
 * rows that it was chosen to keep; a share of 0: there is no threshold. */
KF_API double kf_model_reject(const kf_model *model, double *share);
/* Arrays owned by the model. There are more in koofu_files.h. */
KF_API const double *kf_model_transform_matrix(const kf_model *model); /* T, [L][D] */
KF_API const double *kf_model_mean(const kf_model *model);             /* [D] */
/* The mapped class means, scaled to unit length, [K][L]. Classes without rows have zeros. */
KF_API const float *kf_model_prototypes(const kf_model *model);

/* ---------------------------------------------------------------------------------------------
 * 6  Use: transform and classify
 * ------------------------------------------------------------------------------------------ */

typedef struct kf_classify_options kf_classify_options;

typedef struct kf_transform_options {
  /* Scale mapped rows to unit length; default: on. Off (for Euclidean use), and always for models
   * fitted without normalising: rows keep the length that the map gives them. */
  kf_switch normalize;
  uint64_t reserved[4];
} kf_transform_options;
/* Maps rows [n][D] to out [n][L]. A bad row is KF_ERR_DATA. On a device, the map stays there for
 * later calls until the model is freed. */
KF_API kf_status kf_transform(kf_ctx *ctx, const kf_model *model, const float *rows, uint64_t n,
                              const kf_transform_options *options, float *out);
/* Maps a data set to a file, .npy (rows only; no bf16) or .safetensors (a data set with labels and
 * class names). With skip_bad, bad rows become zeros. */
KF_API kf_status kf_transform_data(kf_ctx *ctx, const kf_model *model, const kf_data *data,
                                   const kf_transform_options *options, kf_dtype dtype,
                                   const char *path);

/* The `top` nearest prototypes of each row [n][D], best first: class numbers into classes [n][top],
 * cosines or Euclidean distances into scores [n][top] (or NULL). Among equal scores (for distances:
 * equal squares) the lower class number comes first. Classes without training rows take no part.
 * With KF_PRIORS_TRAINING, classes with fewer rows have larger distances and smaller cosines: they
 * are less likely (docs/method.md). A NaN, infinite or zero row is KF_ERR_DATA naming it. */
KF_API kf_status kf_classify(kf_ctx *ctx, const kf_model *model, const float *rows, uint64_t n,
                             const kf_classify_options *options, int32_t *classes, double *scores);
/* The same, with the probability of each answer into probabilities [n][top]: softmax(T * score)
 * over all classes that take part, where T is the temperature (larger is sharper) and a score is a
 * cosine, a fused score, or minus half the squared distance. All scores of a row are computed, so
 * this takes longer (docs/probabilities.md). KF_ERR_ARG if the model has no temperature for its
 * metric, space and part, and none is given. */
KF_API kf_status kf_classify_probabilities(kf_ctx *ctx, const kf_model *model, const float *rows,
                                           uint64_t n, const kf_classify_options *options,
                                           int32_t *classes, double *scores, double *probabilities);

/* The prototypes of a model, prepared once for many calls: with many classes, or few rows per call,
 * preparing takes longer than classifying. The model must outlive the classifier. Several threads
 * may use it at the same time, each with its own context. */
typedef struct kf_classifier kf_classifier;
KF_API kf_status kf_classifier_new(kf_ctx *ctx, const kf_model *model,
                                   const kf_classify_options *options, kf_classifier **out);
KF_API void kf_classifier_free(kf_classifier *classifier);
/* As kf_classify and kf_classify_probabilities, which make a classifier for one call. */
KF_API kf_status kf_classifier_classify(kf_ctx *ctx, const kf_classifier *classifier,
                                        const float *rows, uint64_t n, int32_t *classes,
                                        double *scores);
KF_API kf_status kf_classifier_probabilities(kf_ctx *ctx, const kf_classifier *classifier,
                                             const float *rows, uint64_t n, int32_t *classes,
                                             double *scores, double *probabilities);

/* Whether the best score of a row, as kf_classify gives it by default, reaches the threshold of the
 * model (1 or 0). 1 if the model has no threshold. */
KF_API int kf_model_knows(const kf_model *model, double score);
/* KF_ERR_DATA, naming the file, if the model cannot take the rows of a data set: they have another
 * dimension, come from another encoder, or were already mapped. For callers who pass rows to
 * kf_transform or kf_classify themselves; functions that take a data set check this on their
 * own. */
KF_API kf_status kf_model_takes(kf_ctx *ctx, const kf_model *model, const kf_data *data);

/* Which part of a model with text (kf_model_new_fused, koofu_encode.h) classifies. */
typedef enum kf_part {
  KF_PART_DEFAULT = 0, /* fused if the model has text, otherwise images */
  KF_PART_IMAGES = 1,  /* prototypes of classes with rows, in the mapped space */
  KF_PART_TEXT = 2,    /* text of classes with text, by cosine in the original space */
  KF_PART_FUSED = 3    /* both: text + alpha times prototype (kf_model_new_fused) */
} kf_part;
/* Number of classes that this part can answer with. */
KF_API uint32_t kf_model_answers(const kf_model *model, kf_part part);

struct kf_classify_options {
  uint32_t top; /* classes per row, 1 … kf_model_answers; 0: 1 */
  kf_metric metric;
  int raw; /* 1: in the original space, against the class means */
  kf_part part;
  double temperature; /* of probabilities; 0: the model's */
  uint64_t reserved[3];
};

/* ---------------------------------------------------------------------------------------------
 * 7  Search: the nearest rows, exactly
 *
 * An index keeps an 8-bit copy of its rows. A first pass over that copy finds every row that could
 * belong to the answer (the rounding error of each row is measured, so this is certain, not just
 * likely). Survivors are scored in double precision and, where that cannot separate two rows, in
 * exact arithmetic. The answer is that of comparing with every row without any rounding
 * (docs/numerics.md).
 *
 * A search may copy the rows to the devices of its context, where they stay as long as the index:
 * five bytes of device memory per value, or one. If not even that fits, rows are streamed from one
 * more byte per value of this machine's memory.
 * ------------------------------------------------------------------------------------------ */

typedef struct kf_index kf_index;
typedef struct kf_filter kf_filter; /* section 8 */
typedef struct kf_index_options kf_index_options;
typedef struct kf_search_options kf_search_options;
typedef struct kf_search_report kf_search_report;
#define KF_MAX_NEIGHBOURS 1024u

/* An index over rows [n][dim], n > 0. For cosine, rows may have any length. A NaN or infinite row,
 * and for cosine a zero row, is KF_ERR_DATA naming it. */
KF_API kf_status kf_index_new(kf_ctx *ctx, const float *rows, uint64_t n, uint32_t dim,
                              const kf_index_options *options, kf_index **out);
/* The same over the rows of a data set; labels are ignored. A bad row is an error even with
 * skip_bad, since row numbers would shift. */
KF_API kf_status kf_index_new_from_data(kf_ctx *ctx, const kf_data *data,
                                        const kf_index_options *options, kf_index **out);
KF_API void kf_index_free(kf_index *index);

KF_API uint64_t kf_index_rows(const kf_index *index);
KF_API uint32_t kf_index_dim(const kf_index *index);

/* The k nearest rows of each query [n][dim], best first: row numbers into rows [n][k]; cosines,
 * inner products or Euclidean distances into scores [n][k] (or NULL). Equally near rows come in the
 * order of their numbers. Rows that are not equally near may have equal scores, since scores are
 * rounded; scores never rise (distances never fall) along a list. 1 <= k <= KF_MAX_NEIGHBOURS, and
 * k <= the number of rows searched. A query with a NaN or an infinity, and for cosine a zero query,
 * is KF_ERR_DATA naming it. Counts are added to *report, which may be NULL. */
KF_API kf_status kf_search(kf_ctx *ctx, const kf_index *index, const float *queries, uint64_t n,
                           uint32_t k, const kf_search_options *options, int64_t *rows,
                           double *scores, kf_search_report *report);

struct kf_index_options {
  kf_metric metric; /* KF_METRIC_DEFAULT: cosine */
  /* 1: do not copy the rows. The array or data set must outlive the index and stay unchanged; the
   * few rows that survive the first pass are read from it. Memory: one byte per value instead of
   * five, and 4 bytes per row (cosine: 12). */
  int rows_in_place;
  /* KF_F16, KF_BF16: rows are rounded to this type, to nearest even, and scores are those of the
   * rounded rows. Memory: three bytes per value instead of five. A value out of range (f16:
   * 65,504), and for cosine a row that becomes zero, is KF_ERR_DATA naming the row. KF_F32: rows
   * are not rounded. */
  kf_dtype dtype;
  /* About how many queries there will be; 0: not known. For many, building the index may take
   * longer, and up to 0.6 bytes per value and 80 bytes per row more memory, to make searching
   * faster. Answers are the same. */
  uint64_t queries;
  uint64_t reserved[2];
};

struct kf_search_options {
  /* [n]: a row to leave out of the search of each query, or any other number (such as -1) for none;
   * NULL: no row is left out. */
  const int64_t *leave_out;
  /* Galleries only: the queries are embeddings of text, and this is the mean of such embeddings,
   * [dim_in] (kf_text_mean, kf_encoder_text_mean in koofu_encode.h). It is subtracted from queries
   * of unit length, as KF_CENTRE_MODALITY does: text is offset from pictures, and a map of pictures
   * magnifies the offset. Call kf_gallery_prepare_text first. KF_ERR_ARG if the gallery was made
   * without normalising, since text has no meaningful length. NULL: not text. */
  const double *text_mean;
  const kf_filter *only; /* galleries only: which rows take part; NULL: all */
  uint64_t reserved[2];
};

struct kf_search_report {
  uint64_t queries;
  /* Rows scored in double precision, over all queries: a measure of the work. Unlike the answers it
   * depends on the machine, the threads and the number of queries per call. */
  uint64_t candidates;
  /* Galleries with a map: queries unlike the rows that the model was fitted to (their cosine with
   * the mean of those rows is less than half of the rows' average). If there are many, they may be
   * text, or come from another encoder. */
  uint64_t far;
  uint64_t reserved[3];
};

/* ---------------------------------------------------------------------------------------------
 * 8  Galleries: an index in a file, with labels, ids, votes and the map for its queries
 * ------------------------------------------------------------------------------------------ */

typedef struct kf_gallery kf_gallery;
typedef struct kf_gallery_options kf_gallery_options;
typedef struct kf_gallery_load_options kf_gallery_load_options;
typedef struct kf_gallery_change kf_gallery_change;

/* Writes the rows of a data set as a gallery, streamed: mapped by the model (NULL: in the original
 * space), with labels, class names and ids. The map is in the file, so queries are given in the
 * original space. With skip_bad, bad rows are left out. */
KF_API kf_status kf_gallery_save(kf_ctx *ctx, const kf_data *data, const kf_model *model,
                                 const kf_gallery_options *options, const char *path);
/* Verifies the checksums of the file and its changes. With a communicator each rank holds a share
 * of the rows, calls that search the gallery are made by all ranks together, and rank 0 verifies
 * the checksum. */
KF_API kf_status kf_gallery_load(kf_ctx *ctx, const char *path,
                                 const kf_gallery_load_options *options, kf_gallery **out);
/* A gallery in memory, without a file, from the same arguments; ids come from the data only
 * (options->ids and append_to must be NULL). Memory: five bytes per value (KF_F16, KF_BF16: three),
 * and 8 per row (cosine: 16). */
KF_API kf_status kf_gallery_new(kf_ctx *ctx, const kf_data *data, const kf_model *model,
                                const kf_gallery_options *options, kf_gallery **out);
KF_API void kf_gallery_free(kf_gallery *gallery);

/* As kf_search, for queries [n][dim_in] of the original space. A NaN or infinite query is
 * KF_ERR_DATA naming it; so is a zero query if rows are scaled to unit length. */
KF_API kf_status kf_gallery_search(kf_ctx *ctx, const kf_gallery *gallery, const float *queries,
                                   uint64_t n, uint32_t k, const kf_search_options *options,
                                   int64_t *rows, double *scores, kf_search_report *report);
/* Leave-one-out: rows first … first+n-1 of the gallery are the queries, each left out of its own
 * search. A gallery from a file reads them there; it must not have changed since it was loaded. */
KF_API kf_status kf_gallery_search_itself(kf_ctx *ctx, const kf_gallery *gallery, uint64_t first,
                                          uint64_t n, uint32_t k, int64_t *rows, double *scores,
                                          kf_search_report *report);

/* How neighbours vote. Neighbours without a label do not. */
typedef struct kf_vote_options {
  uint32_t k;   /* neighbours, at most the rows of the gallery; 0: 15 */
  uint32_t top; /* classes per row; 0: 1 */
  /* 1: a vote counts exp((s - s_1) / temperature), where s_1 is the score of the nearest neighbour
   * (for distances, exp((d_1 - d) / temperature)). 0: every vote counts 1. */
  int weighted;
  double temperature;    /* 0: 0.07 */
  const kf_filter *only; /* which rows vote; NULL: all */
  uint64_t reserved[3];
} kf_vote_options;
/* k-NN: the `top` classes with the most votes for each row [n][dim_in], best first, and their votes
 * into scores [n][top] (or NULL). Of classes with equal votes the one with the nearest member comes
 * first. If fewer classes have votes, the rest is KF_LABEL_NONE with 0. */
KF_API kf_status kf_gallery_classify(kf_ctx *ctx, const kf_gallery *gallery, const float *rows,
                                     uint64_t n, const kf_vote_options *options, int32_t *classes,
                                     double *scores, kf_search_report *report);

/* All rows that are near enough to each query. Those of query i are entries [ends[i - 1], ends[i])
 * of rows and scores, best first; for the first query they start at 0. */
typedef struct kf_ranges {
  uint64_t queries; /* answered */
  const uint64_t *ends;
  const int64_t *rows;
  const double *scores;
} kf_ranges;
/* The rows of a gallery whose score for a query [n][dim_in] is at least `limit`, or for distances
 * at most: exactly those for which kf_gallery_search would return such a score. Options are as
 * there. A call answers at most KF_WITHIN_QUERIES queries; if answers exceed 2^24 it answers fewer,
 * but at least one. out->queries says how many. Memory: 16 bytes per answer. */
#define KF_WITHIN_QUERIES 256u
KF_API kf_status kf_gallery_within(kf_ctx *ctx, const kf_gallery *gallery, const float *queries,
                                   uint64_t n, double limit, const kf_search_options *options,
                                   kf_ranges **out, kf_search_report *report);
KF_API void kf_ranges_free(kf_ranges *ranges);

/* Ids, as a list, in a text file with one per line (empty lines are ignored), or both. */
typedef struct kf_id_list {
  const char *const *ids; /* [n] */
  uint64_t n;
  const char *file; /* NULL: none */
  uint64_t reserved[2];
} kf_id_list;
typedef struct kf_filter_options {
  const char *classes; /* text file with class names (numbers without names), one per line */
  const kf_id_list *ids;
  const char *const *names; /* [n_names]: further classes, in memory; NULL: none */
  uint64_t n_names;
  uint64_t reserved[2];
} kf_filter_options;
/* A filter: the rows whose class is in the list of classes, if there is one, and whose id is in the
 * list of ids, if there is one. Answers are those of a gallery of these rows alone, with the row
 * numbers of this one. KF_ERR_DATA if the gallery lacks labels or ids that are asked for, or if no
 * row remains; listed classes and ids that no row has are fine. Memory: 8 bytes for each remaining
 * row, and a bit for each row of the gallery, which must outlive the filter. */
KF_API kf_status kf_filter_new(kf_ctx *ctx, const kf_gallery *gallery,
                               const kf_filter_options *options, kf_filter **out);
KF_API uint64_t kf_filter_rows(const kf_filter *filter);
KF_API void kf_filter_free(kf_filter *filter);

KF_API uint64_t kf_gallery_rows(const kf_gallery *gallery);
KF_API uint32_t kf_gallery_dim_in(const kf_gallery *gallery); /* of queries */
KF_API uint32_t kf_gallery_dim(const kf_gallery *gallery);    /* of its own rows */
KF_API kf_metric kf_gallery_metric(const kf_gallery *gallery);
KF_API int kf_gallery_has_labels(const kf_gallery *gallery);
KF_API uint32_t kf_gallery_classes(const kf_gallery *gallery);
KF_API const char *kf_gallery_class_name(const kf_gallery *gallery,
                                         uint32_t k);                      /* NULL: no names */
KF_API int32_t kf_gallery_label(const kf_gallery *gallery, uint64_t row);  /* KF_LABEL_NONE: none */
KF_API const char *kf_gallery_id(const kf_gallery *gallery, uint64_t row); /* NULL: no ids */
/* As kf_model_takes, for rows of a data set as queries. */
KF_API kf_status kf_gallery_takes(kf_ctx *ctx, const kf_gallery *gallery, const kf_data *data);

struct kf_gallery_options {
  kf_metric metric; /* KF_METRIC_DEFAULT: cosine; Euclidean for a model without normalising */
  const char *ids;  /* text file with an id for each row, one per line; NULL: those in the data.
                    * Equal ones are logged. */
  /* An existing gallery whose rows come first. Its map and metric are used for the new rows too:
   * `model` must be NULL and metric KF_METRIC_DEFAULT or the same. Classes are matched by name;
   * new ones are added at the end. Either both have labels or neither has; the same holds for ids.
   * If it is the file being written, the new rows are written as a change next to it. */
  const char *append_to;
  /* Number of neighbours that vote, stored for kf_gallery_k (koofu_files.h); 0: not known, or that
   * of append_to. kf_k_choice_new_for_rows (koofu_judge.h) chooses it. */
  uint32_t k;
  /* A gallery that grows (append_to is the file being written) remembers the last 64 batches of
   * added rows that are still there. The same batch again, with the same rows, labels and ids, is
   * taken for a repeated call: nothing is written, which is logged and KF_OK. 1: add it again. */
  int again;
  int *repeated; /* set to 1 if that happened, otherwise to 0; NULL: not wanted */
  /* KF_F16 and KF_BF16 halve the file, and memory is three bytes per value instead of five. Rows
   * are rounded as in kf_index_options, and every answer is that of the rounded rows. Appended
   * rows take the type of the gallery; any other type than that or KF_F32 is KF_ERR_ARG. */
  kf_dtype dtype;
  /* 1: in a gallery that grows, the same change removes rows that have the id of a new row.
   * KF_ERR_ARG if the gallery has no ids. */
  int replace;
  kf_gallery_change *change; /* what was done; NULL: not wanted */
  uint64_t reserved[4];
};

struct kf_gallery_load_options {
  /* 1: the rows stay in the file, which must not change, and are read only for survivors of the
   * first pass (as rows_in_place in kf_index_options). */
  int rerank_from_disk;
  uint64_t queries; /* about how many there will be, as in kf_index_options; 0: not known */
  /* Further galleries, [n_more] paths, whose rows follow: answers are those of one gallery with all
   * rows. They must have the same metric and map; all have labels or none has, and the same holds
   * for ids; otherwise KF_ERR_DATA names two of them. Classes are matched by name. */
  const char *const *more;
  uint64_t n_more;
  uint64_t reserved[1];
};

#ifdef __cplusplus
}
#endif

#endif
