/* koofu.h - Koo-Fu CLIP: a better, smaller embedding space in closed form.
 *
 * SPDX-License-Identifier: Apache-2.0
 *
 * This header and koofu_judge.h and koofu_comm.h, which it includes, are the manual. What is not in
 * them is not public.
 *
 * koofu takes embeddings (rows of D floats) with class labels and computes a linear map T that
 * whitens the scatter within classes and rotates to the directions that separate classes best. In
 * the mapped space the nearest class mean ("prototype") is a better classifier than in the original
 * space, and the first L coordinates are a smaller embedding.
 *
 *     files -> kf_data -> kf_fit -> kf_model -> kf_transform, kf_classify, kf_eval
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
 * The command line fits with the same call, so its model has the same bytes.
 *
 * Contents
 *     1  Status, errors and hints
 *     2  Context: threads, instruction set, progress, log
 *     3  Data sets: rows with labels and class names
 *     4  Fit: from rows to a model
 *     5  Models: map and prototypes
 *     6  Use: transform and classify
 *     7  Text: classes by name, zero-shot, text and rows together
 *     8  Search: the nearest rows, exactly
 *     9  Galleries: an index in a file, and votes
 *    10  Encoder: pictures and words to embeddings
 *    11  Prompts: class names to text prototypes
 *    12  Reader: rows of data, pictures or texts, block by block
 *    13  Quickstart: a folder of pictures to a classifier
 *    14  Statistics: exact integer moments, to stream, merge and subtract
 *    15  A synthetic CLIP-like world
 *    16  Files: what is in one, models for other programs, and writing files whole
 *   koofu_judge.h
 *    17  Truth and class sets
 *    18  Accuracy, errors by class, unknown classes, comparisons
 *    19  Choosing lambda, alpha, dimensions and k
 *    20  Sweeps and few-shot curves
 *    21  Report: a page about a data set and its model, or about answers of a search
 *   koofu_comm.h
 *    22  Ranks: many processes, the same bytes
 *
 * Rules
 *   - Every function that can fail returns a kf_status; kf_errmsg(ctx) then says in one sentence
 *     what went wrong with which file, row or byte. On failure nothing is handed out: the caller's
 *     pointer to the object is NULL then. Output files are left as they were; on success they are
 *     in their places (docs/reliability.md).
 *   - Only functions with new, open, load, read or fit in their names hand out something to free.
 *     Each such type has its own _free, which accepts NULL.
 *   - A context belongs to one thread of the caller at a time. All other objects may be shared
 *     between threads as long as nobody changes them; only kf_stats_add, kf_stats_merge,
 *     kf_stats_subtract and kf_reader_next change an object. A context does not survive fork(): the
 *     child makes its own. A thread that calls the library needs 512 KiB of stack.
 *   - In option structs zero means default, and a NULL pointer means all defaults. A kf_switch is
 *     for what may be on by default.
 *   - An index out of range gives NULL, 0 or KF_LABEL_NONE, never undefined behaviour.
 *   - The same input gives the same bits, whatever the number of threads, the instruction set, the
 *     order and the number of files (docs/numerics.md).
 *   - The library never prints, exits, aborts or reads the environment.
 *
 * How the interface grows (from 1.0 on; before that any minor version may change it, and has a
 * soname of its own)
 *   - Structs that the caller fills in or allocates end in `reserved`, which must be zero (kf_lambda
 *     and kf_hits, which never change, have none). New members are taken from it, never from padding
 *     between members (which a caller may leave unset), with zero for 'as before', so that sizes and
 *     offsets never change. A caller that sets a member which this library does not know yet gets
 *     KF_ERR_ARG.
 *   - Structs that the library hands out by pointer may grow at the end. Do not copy them or rely
 *     on their size. Elements of arrays inside them keep their size.
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

/* The version of the library that is running, "0.2.0". */
KF_API const char *kf_version(void);

/* Off, on, or the default. */
typedef enum kf_switch { KF_DEFAULT = 0, KF_ON = 1, KF_OFF = 2 } kf_switch;

/* ---------------------------------------------------------------------------------------------
 * 1  Status, errors and hints
 * ------------------------------------------------------------------------------------------ */

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

/* What the caller can do about an error. Messages name things of the library; a guest (command
 * line, Python, server) adds the hint in its own words. */
typedef enum kf_hint {
  KF_HINT_NONE = 0,
  KF_HINT_SKIP_BAD = 1,        /* kf_data_options.skip_bad leaves such rows out */
  KF_HINT_SKIP_UNLABELLED = 2, /* kf_data_options.allow_unlabelled: they have no label then */
  KF_HINT_SKIP_UNKNOWN = 3,    /* kf_data_options.allow_unknown: they have no label then */
  KF_HINT_LABELS = 4,          /* kf_data_options.labels: a label file */
  KF_HINT_CLASSES = 5,         /* kf_data_options.classes: the names that class numbers stand for */
  KF_HINT_TENSOR = 6,          /* kf_data_options.tensor: which tensor holds the rows */
  KF_HINT_LABEL_TENSOR = 7,    /* kf_data_options.label_tensor: which tensor holds the labels */
  KF_HINT_PICTURES = 8,        /* these are pictures: kf_embed makes rows of them */
  KF_HINT_PER_CLASS = 9,       /* kf_text_options.per_class: how many rows each class has */
  KF_HINT_EXPONENT = 10,       /* kf_stats_options.exponent: the one that both can have */
  KF_HINT_TRUTH_CLASSES = 11, /* kf_truth_options.classes: the names that class numbers stand for */
  KF_HINT_TRUTH_IDS = 12,     /* kf_truth_options.ids: the ids of the rows */
  KF_HINT_ROWS = 13,          /* it takes the rows themselves, not statistics */
  KF_HINT_LAMBDA = 14,        /* kf_fit_options.lambda: give another one */
  KF_HINT_ALPHA = 15,         /* kf_fit_options.alpha: give it as a number */
  KF_HINT_NO_RESUME = 16,     /* kf_embed_options.resume: start again */
  KF_HINT_SKIP_PICTURES = 17, /* kf_embed_options.skip_bad leaves such pictures out */
  KF_HINT_MAX_PIXELS = 18,    /* kf_encoder_options.max_pixels: allow larger pictures */
  KF_HINT_SPOKEN = 19,        /* kf_prompts_options.spoken: a file with what to call each class */
  KF_HINT_REPEATS = 20,       /* kf_prompts_options.repeats: allow it, or set `spoken` */
  KF_HINT_METHOD = 21,        /* kf_fit_options.method: the paper's */
  KF_HINT_TEMPERATURE = 22,   /* kf_classify_options.temperature */
  KF_HINT_ORDER = 23,         /* kf_data_options.order: say in which order the files are */
  KF_HINT_LABEL_COLUMN = 24,  /* kf_data_options.label_column: which column holds the labels */
  KF_HINT_ANY_ENCODER = 25,   /* kf_ctx_options.any_encoder: allow it */
  KF_HINT_CENTRE = 26,        /* kf_fit_options.centre: the mean */
  KF_HINT_OTHER_NAME = 27,    /* write to another file than the one that is read */
  KF_HINT_COMPACT = 28        /* kf_gallery_compact makes one file of it */
} kf_hint;

/* Names, ids and paths come out of files and may hold anything: characters that steer a terminal or
 * turn a line around. Messages and notes of the library are safe; other text, before it goes to a
 * terminal or a log, is taken through this character by character:
 *
 *     char shown[KF_SHOWN_SIZE];
 *     for (size_t at = 0; kf_escape_next(name, &at, shown) > 0;) fputs(shown, stdout);
 *
 * Writes the character at text[*at] to `shown`, with a NUL, as it is or as an escape, moves *at past it
 * and returns the length of what it wrote; 0 at the end. The escapes are \t, \n and \r; \x1b for other
 * ASCII controls, and for bytes (80 to ff) that are not valid UTF-8; \u{202e} for other controls and
 * for format characters (Unicode category Cf, U+2028, U+2029), except the joiners U+200C and U+200D
 * between two visible characters that are not ASCII. A backslash stays as it is; a caller who doubles
 * it can undo the escapes. */
#define KF_SHOWN_SIZE 16
KF_API size_t kf_escape_next(const char *text, size_t *at, char shown[KF_SHOWN_SIZE]);

/* ---------------------------------------------------------------------------------------------
 * 2  Context: threads, instruction set, progress, log
 * ------------------------------------------------------------------------------------------ */

typedef struct kf_ctx kf_ctx;

/* Instruction sets, each including those before it. All give the same bits. */
typedef enum kf_isa {
  KF_ISA_AUTO = 0,   /* the best one this machine has */
  KF_ISA_PLAIN = 1,  /* plain C, the reference */
  KF_ISA_AVX2 = 2,   /* AVX2 with FMA and F16C */
  KF_ISA_AVX512 = 3, /* AVX-512 F, BW, DQ, VL and VNNI */
  KF_ISA_AMX = 4     /* the above and AMX tiles of int8; those of bf16 where there are some */
} kf_isa;

/* Whether this machine can run an instruction set (1 or 0). KF_ISA_AUTO: always 1. */
KF_API int kf_isa_available(kf_isa isa);
/* "auto", "plain", "avx2", "avx512", "amx"; NULL for any other number. */
KF_API const char *kf_isa_name(kf_isa isa);

/* Called between blocks of long work, from the thread that made the call: `done` of `total` units
 * (mostly rows) of the stage `what`. total is 0 if unknown. Work without a measure reports the same
 * numbers again. A non-zero return stops the work with KF_ERR_CANCELLED. The callback must not use the context it is called from. */
typedef int (*kf_progress_fn)(void *user, const char *what, uint64_t done, uint64_t total);
/* Notes that are not errors, such as '12 bad rows were skipped': one sentence without a newline. */
typedef void (*kf_log_fn)(void *user, const char *message);

typedef struct kf_ctx_options {
  unsigned threads; /* 0: one per processor this process may use; at most 1024 */
  kf_isa isa;       /* KF_ISA_AUTO, or one that must be available */
  kf_progress_fn progress;
  kf_log_fn log;
  void *user; /* handed to both callbacks */
  /* What is opened or loaded with this context goes together with embeddings of any encoder (see
   * kf_origin). */
  int any_encoder;
  /* Where the work is done: "cpu", "cuda", "cuda:1", or several, "cuda:0,cuda:1", between which rows
   * to search in are shared. NULL or "auto": on the first GPU where that is faster, if there is one
   * and a plug-in for it, and otherwise on the CPU. Of several ranks each takes another GPU with
   * "cuda" and "auto". Both strings are copied. No answer depends on it
   * (docs/gpu.md). */
  const char *device;
  /* Its file; NULL: libkoofu-cuda.so, next to this library or installed. */
  const char *device_plugin;
  /* The ranks that calls on this context are shared out among (koofu_comm.h); it must outlive the
   * context. All ranks make their contexts together. NULL: this process alone. */
  const struct kf_comm *comm;
  uint64_t reserved[4];
} kf_ctx_options;

/* A context keeps its threads from call to call, and the memory of its last fit, up to 64 MiB, for the
 * next one. KF_ERR_ARG if the instruction set is not available here. */
KF_API kf_status kf_ctx_new(const kf_ctx_options *options, kf_ctx **out);
KF_API void kf_ctx_free(kf_ctx *ctx);
/* The message and hint of the last call on this context, if it failed; otherwise "" and
 * KF_HINT_NONE. The message is valid until the next call on the context. ctx may be NULL. */
KF_API const char *kf_errmsg(const kf_ctx *ctx);
KF_API kf_hint kf_errhint(const kf_ctx *ctx);
KF_API unsigned kf_ctx_threads(const kf_ctx *ctx); /* with a communicator: of all ranks together */
KF_API kf_isa kf_ctx_isa(const kf_ctx *ctx);

typedef struct kf_device_info {
  const char *name;      /* as its maker calls it */
  const char *driver;    /* its version */
  uint32_t number;       /* 1: the second */
  uint32_t processors;   /* that work at the same time */
  uint64_t memory;       /* bytes */
  uint32_t major, minor; /* compute capability */
} kf_device_info;
typedef struct kf_device_list {
  const char *plugin;  /* its file; NULL: none was found */
  const char *build;   /* what it was made with; NULL likewise */
  const char *missing; /* why there is no device, in one sentence; NULL: there is one */
  uint32_t n;
  const kf_device_info *devices; /* [n] */
} kf_device_list;
/* The devices that this context uses besides the CPU. They are looked for and opened by this call or by
 * the first that could use one. Without any, n is 0. KF_ERR_IO, with the reason, if devices were asked
 * for by name and are not there; KF_ERR_ARG if the name is none. Valid as long as the context. */
KF_API kf_status kf_devices_find(kf_ctx *ctx, const kf_device_list **out);

/* ---------------------------------------------------------------------------------------------
 * 3  Data sets: rows with labels and class names
 * ------------------------------------------------------------------------------------------ */

typedef struct kf_data kf_data;
typedef struct kf_origin kf_origin; /* which encoder made the rows; see section 10 */

/* How rows are stored in a file. In memory they are always float. */
typedef enum kf_dtype { KF_F32 = 0, KF_F16 = 1, KF_BF16 = 2, KF_F64 = 3 } kf_dtype;
KF_API const char *kf_dtype_name(kf_dtype dtype); /* "f32", "f16", "bf16", "f64" */

/* Labels below zero that kf_data_get may return. */
#define KF_LABEL_NONE (-1) /* the row has no label */
#define KF_LABEL_BAD  (-2) /* the row is NaN, infinite or zero, and skip_bad is set */

/* Limits: a row has 1 to 65,536 columns, a data set at most 2^22 classes. */
#define KF_MAX_DIM     65536u
#define KF_MAX_CLASSES 4194304u

/* In which order files follow one another. By number, img_2.npy comes before img_10.npy; by name, in
 * the order of bytes, after it. */
typedef enum kf_order {
  KF_ORDER_DEFAULT = 0, /* folders and patterns by number, paths as given; see kf_data_open */
  KF_ORDER_NUMBER = 1,  /* all files together by number; ties by bytes */
  KF_ORDER_NAME = 2,    /* all files together by bytes */
  KF_ORDER_GIVEN = 3    /* as by default, and the order of the paths is right */
} kf_order;

typedef struct kf_data_options {
  /* Label files, folders of them or glob patterns: one file for each data file, or one for all rows
   * together. Files that a folder or a pattern stands for go with the data files of the same names
   * (without ending) or, if no name matches, by rank in the order of numbers.
   *
   * `.npy` with integers or strings (<U, |S); `.npz` with one such array, or "FILE.npz:NAME"; `.csv`,
   * `.tsv` and `.parquet` (see label_column); any other ending: text with one label per line. NULL: the labels
   * inside the files, if any. */
  const char *const *labels;
  size_t n_labels;
  /* Text file with one class name per line. Integer labels index it; text labels must be in it.
   * NULL: the names inside the files; text labels make their own list, sorted by bytes. */
  const char *classes;
  /* Embeddings inside .safetensors and .npz; NULL: "embeddings", or the only 2-D one. The column of
   * .parquet files, "a.b" for one in a struct; NULL: "embedding", "embeddings", or the only one of lists
   * of floats. "NAME:f32" and "NAME:f16": a column of bytes that holds such numbers. */
  const char *tensor;
  /* Labels inside .safetensors and .npz; NULL: "labels" or, in an .npz, the only list of integers or
   * strings with as many elements as there are rows, which is logged. Not together with label files. */
  const char *label_tensor;
  kf_switch inner_labels; /* use labels and class names inside the files; default: on */
  int skip_bad;           /* leave out NaN, infinite and zero rows instead of failing */
  int allow_unlabelled;   /* negative integers and empty lines are KF_LABEL_NONE, not an error */
  int allow_unknown;      /* with `classes`: labels not in the list are KF_LABEL_NONE, too */
  /* Text file with class names, one per line: rows of other classes, and rows without a label, are
   * left out of the data set. Classes keep their numbers and names, and must have names. Takes 8
   * bytes of memory per remaining row. NULL: all rows. */
  const char *only;
  /* The column of .csv and .tsv label files: its name in the header line, or its number, from 1. A
   * number is always a position; the first line is then a header if there is one line more than
   * there are rows. A text file of another ending is read as .csv. NULL: the only column.
   *
   * Also the column of .parquet files, texts or integers, with rows in them or as label files; NULL:
   * "labels" or "label", which is logged, or the only one of a label file. For .npy files in a folder
   * `img_emb` beside a folder `metadata` of .parquet files, as clip-retrieval writes them: the column of
   * these, unless there are other labels. */
  const char *label_column;
  kf_order order;
  /* 1: the files are each rank's own, on its own disk perhaps. The rows of rank 0 come first, then those
   * of rank 1, and so on; if the class names of ranks differ, the data set has their union, sorted by
   * bytes. Ranks must have rows of the same dimension. Takes 4 bytes per row for labels. Such rows serve
   * statistics, fits, evaluations and sweeps without neighbours; what needs all rows on every rank is
   * KF_ERR_ARG. 0: all ranks see the same files. */
  uint64_t own_files;
  /* The column of .parquet files that holds the ids of rows, texts or integers; NULL: "id", "ids" or
   * "key", if there is one; "": none. For .npy files in a folder `img_emb`, as for label_column. */
  const char *id_column;
  uint64_t reserved[4];
} kf_data_options;

/* Opens one data set made of files. Each path is a file, one array of an archive ("FILE.npz:NAME"),
 * a folder (all files in it with a known ending) or a glob pattern. The files of a folder or pattern
 * come in the order of numbers in their names, the paths themselves in the order given.
 *
 * The order decides which row has which label if one label file serves several data files. Paths in
 * the order of bytes that are not in the order of numbers, as a shell lists them, are then KF_ERR_ARG
 * with KF_HINT_ORDER unless `order` is set; for a folder or a pattern whose two orders differ, the
 * order is logged. The same file twice is KF_ERR_ARG if it has labels, and logged otherwise.
 *
 * Formats, by ending (of files without one .npy, .npz, .safetensors and .parquet are told by their first
 * bytes): .npy (versions 1 to 3; f2, f4, f8; C or Fortran order), .npz (an archive of
 * these, stored or deflated; a deflated array is unpacked to a file without a name, next to the
 * archive or in /tmp), .safetensors (F16, BF16, F32, F64), .parquet (docs/formats.md), .fvecs, .fbin,
 * .f16bin, .u8bin, .i8bin. Decoded pages of .parquet take some 24 MiB, or more if single ones are large.
 * Headers and labels are checked here, and the checksum of a gallery, for which all of it is read; rows are
 * read later, block by block, so memory does not depend on their number. */
KF_API kf_status kf_data_open(kf_ctx *ctx, const char *const *paths, size_t n_paths,
                              const kf_data_options *options, kf_data **out);

/* A data set over the caller's arrays, which must outlive it. rows: [n][dim]; labels: [n], or NULL;
 * names: [n_classes] (copied), or NULL. n_classes 0: the largest label + 1. */
KF_API kf_status kf_data_open_memory(kf_ctx *ctx, const float *rows, uint64_t n, uint32_t dim,
                                     const int32_t *labels, const char *const *names,
                                     uint32_t n_classes, kf_data **out);

/* Rows as a caller has them in memory. Strides are in bytes and may have either sign; both 0: rows and
 * columns follow one another. Addresses need not be aligned. */
typedef struct kf_array {
  const void *rows;
  uint64_t n;
  kf_dtype dtype;
  int64_t row_stride, column_stride;
  uint64_t reserved[2];
} kf_array;

/* Which rows are left out instead of failing. */
typedef enum kf_skip {
  KF_SKIP_NONE = 0,
  KF_SKIP_BAD = 1, /* NaN, infinite and zero rows, as skip_bad does */
  KF_SKIP_ZERO = 2 /* zero rows alone */
} kf_skip;

typedef struct kf_array_options {
  const int32_t *labels;    /* [rows], as in kf_data_open_memory; NULL: none */
  const char *const *names; /* [n_classes] (copied); NULL: none */
  uint32_t n_classes;       /* 0: the largest label + 1 */
  kf_skip skip;
  const char *const *ids; /* [rows], UTF-8 of at most 65,536 bytes; NULL: none */
  uint64_t reserved[6];
} kf_array_options;

/* The same over several arrays, one after another, of any float types: rows are converted block by
 * block as they are needed. Rows, labels and ids must outlive the data set and stay as they are. */
KF_API kf_status kf_data_open_arrays(kf_ctx *ctx, const kf_array *arrays, size_t n_arrays,
                                     uint32_t dim, const kf_array_options *options, kf_data **out);
/* Brings rows first … first+n-1 of a data set, wherever they are, into rows [n][dim]; non-zero: they
 * cannot be had, which is KF_ERR_IO. Called from several threads at a time, in any order, for any
 * row any number of times, and always with the same answer. */
typedef int (*kf_rows_fn)(void *user, uint64_t first, uint64_t n, float *rows);
/* A data set of n rows that the caller brings when they are needed: those of a table, or of other
 * machines. `user` is handed to `bring`. */
KF_API kf_status kf_data_open_rows(kf_ctx *ctx, uint64_t n, uint32_t dim, kf_rows_fn bring,
                                   void *user, const kf_array_options *options, kf_data **out);
KF_API void kf_data_free(kf_data *data);

KF_API uint64_t kf_data_rows(const kf_data *data);
KF_API uint32_t kf_data_dim(const kf_data *data);
KF_API int kf_data_has_labels(const kf_data *data);
/* Number of classes: names given, or the largest label + 1. 0 without labels. */
KF_API uint32_t kf_data_classes(const kf_data *data);
KF_API const char *kf_data_class_name(const kf_data *data, uint32_t k); /* NULL: no names */
KF_API uint64_t kf_data_unlabelled(const kf_data *data); /* rows with the label KF_LABEL_NONE */

/* Whether rows have ids (1 or 0): names of their own, such as the paths of the pictures they were
 * made from, inside .safetensors (kf_embed writes them). If there are several files, all must have
 * ids. */
KF_API int kf_data_has_ids(const kf_data *data);
/* The id of a row, with a NUL, into id[size]. KF_ERR_ARG if there is none, or if size is too small:
 * an id has at most 65,536 bytes. */
KF_API kf_status kf_data_get_id(kf_ctx *ctx, const kf_data *data, uint64_t row, char *id,
                                size_t size);

/* Whether the rows come from a gallery and have already been mapped (1 or 0). Functions that would
 * map them again refuse them. */
KF_API int kf_data_mapped(const kf_data *data);

/* Copies rows first … first+n-1 into rows[n][dim] and their labels into labels[n] (NULL: not
 * wanted). A NaN, infinite or zero row is KF_ERR_DATA, naming file and row; with skip_bad it comes
 * back as zeros with the label KF_LABEL_BAD (labels must not be NULL then). */
KF_API kf_status kf_data_get(kf_ctx *ctx, const kf_data *data, uint64_t first, uint64_t n,
                             float *rows, int32_t *labels);

/* The label of every row, [rows], without reading rows: bad rows are not known then. */
KF_API kf_status kf_data_labels(kf_ctx *ctx, const kf_data *data, int32_t *labels);

/* Whether writing to `path` would replace a file that the data set reads (1 or 0). kf_data_save and
 * kf_transform_data refuse to; ask before writing anything else next to the data. */
KF_API int kf_data_reads(const kf_data *data, const char *path);

/* Writes the data set as one native .safetensors file: `embeddings` [N, D], `labels` [N] (I32),
 * class names in the metadata, ids if there are any. dtype: KF_F32, KF_F16 or KF_BF16 (rounded to
 * nearest even; a value too large for the type is KF_ERR_DATA). With skip_bad, bad rows are left
 * out. A path that ends in .parquet gets columns `embedding`, `label` and `id` instead, in f32 or
 * f16. */
KF_API kf_status kf_data_save(kf_ctx *ctx, const kf_data *data, kf_dtype dtype, const char *path);

/* ---------------------------------------------------------------------------------------------
 * 4  Fit: from rows to a model
 * ------------------------------------------------------------------------------------------ */

typedef struct kf_model kf_model;
typedef struct kf_stats kf_stats;
typedef struct kf_text kf_text;

/* The regulariser lambda, added to every eigenvalue of S_w, the scatter within classes. */
typedef enum kf_lambda_unit {
  KF_LAMBDA_AUTO = 0,       /* chosen by leave-one-out; from statistics alone, 0.3 times the mean
                       * eigenvalue of S_w */
  KF_LAMBDA_ABSOLUTE = 1,   /* the paper's units: added to S_w as it is */
  KF_LAMBDA_RELATIVE = 2,   /* times the mean eigenvalue of S_w, trace(S_w) / D */
  KF_LAMBDA_GDA = 3,        /* trace(S_w) / (N - 1) for N rows; `value` is ignored */
  KF_LAMBDA_LEDOIT_WOLF = 4 /* Ledoit and Wolf's shrinkage, from the rows; `value` is ignored */
} kf_lambda_unit;
typedef struct kf_lambda {
  double value; /* finite, >= 0 */
  kf_lambda_unit unit;
} kf_lambda;
/* Reads "auto", "150" (absolute), "0.3x" (relative), "gda" or "ledoit-wolf". */
KF_API kf_status kf_lambda_parse(kf_ctx *ctx, const char *text, kf_lambda *out);

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
  KF_METRIC_INNER = 3 /* the inner product of rows as they are; for indexes and galleries only */
} kf_metric;
/* "default", "cosine", "euclidean", "inner"; NULL for any other number. */
KF_API const char *kf_metric_name(kf_metric metric);

typedef struct kf_stats_options {
  kf_switch normalize; /* scale every row to unit length first; default: on, in units of 2^-22 */
  /* With normalize off the unit is 2^-exponent, and |x| * 2^exponent <= 2^22 for every value. */
  int exponent;
  /* For statistics of a data set with normalize off: 1 takes `exponent` as given; 0 finds the
   * largest one that fits, in a first pass over the data. */
  int fixed_exponent;
  /* For statistics of a data set in files: a folder, made if it is not there, that keeps what has been
   * added up, so that a run that is interrupted can be begun again, on any number of ranks, and redoes
   * only what is missing. Its files, of the size of the statistics, one or a few for each rank, are the
   * caller's to remove. All ranks must see the same folder. NULL: nothing is kept. */
  const char *checkpoint;
  uint64_t reserved[3];
} kf_stats_options;

/* How map and prototypes are made of the statistics (docs/method.md). */
typedef enum kf_method {
  KF_METHOD_DEFAULT = 0, /* shrunk */
  /* Columns are scaled to the same scatter within classes, so lambda shrinks S_w towards its own
   * diagonal. Rows are centred on their mean, and class means are shrunk towards it, in each
   * direction by as much as their noise deserves. */
  KF_METHOD_SHRUNK = 1,
  /* As in the paper, without any of this. */
  KF_METHOD_PAPER = 2
} kf_method;

/* What lambda (and alpha, with text) is chosen by. */
typedef enum kf_criterion {
  KF_CRITERION_DEFAULT = 0, /* likelihood; accuracy with KF_METHOD_PAPER */
  /* Of the true classes of rows left out, under a softmax of their scores times a temperature that
   * is chosen with it. The temperature becomes part of the model. */
  KF_CRITERION_LIKELIHOOD = 1,
  KF_CRITERION_ACCURACY = 2 /* how many rows left out are right */
} kf_criterion;

/* How likely classes are before a row is seen (docs/method.md). */
typedef enum kf_priors {
  /* Training for models that keep the lengths of rows (by KF_METHOD_SHRUNK), equal for all others. */
  KF_PRIORS_DEFAULT = 0,
  KF_PRIORS_EQUAL = 1, /* all alike */
  /* By their numbers of training rows: right if these are as frequent as what will be classified.
   * Not in the paper's method, nor with text. By cosine it takes a temperature, so it needs rows. */
  KF_PRIORS_TRAINING = 2
} kf_priors;

typedef struct kf_fit_options {
  kf_lambda lambda;
  uint32_t dim;   /* dimensions to keep, 1 … D; 0: all */
  int choose_dim; /* instead of `dim`: the fewest shown to lose less than `margin` (see
                   * kf_dim_choice_new) */
  kf_centre centre;
  kf_metric metric; /* of prototypes, while choosing */
  /* Fit text and rows together (see kf_model_new_fused), with lambda and alpha chosen together. The
   * model is centred on the mean. NULL: rows alone. */
  const kf_text *text;
  const double *alpha; /* weight of the prototypes next to the text; NULL: chosen */
  kf_stats_options stats_options;
  const kf_stats *stats; /* of the data set, if they are at hand; NULL: computed */
  /* S_b, the class means and the mean from these statistics instead of those that S_w is from; then
   * nothing is chosen by leave-one-out. NULL: the same. */
  const kf_stats *between;
  int one_se; /* choose the largest lambda within one standard error of the best */
  /* Leave out this many rows in turn, or all there are; 0: as many as the temperature needs, at most
   * 2,000; where hits are counted, 50,000 for dimensions, and for lambda in the paper's method as many as the choice
   * needs, at most 50,000. */
  uint64_t sample;
  uint32_t folds; /* of choose_dim; 0: as in kf_dim_options */
  double margin;  /* accuracy that choose_dim may lose, 0.01 = one point; 0: 0.005 */
  kf_method method;
  kf_criterion criterion;
  /* The group of each row of the data set, [rows]; rows of one group (a video, a scene, a person)
   * are left out together. NULL: each row is a group of its own. Groups, and the likelihood, need
   * rows that are centred or compared by distance; otherwise KF_ERR_ARG with KF_HINT_CENTRE. */
  const uint32_t *groups;
  /* Also choose a threshold for rows of unknown classes (kf_model_reject): the score that this share
   * of the rows left out in turn reaches, such as 0.95. Needs rows and all dimensions. 0: none. */
  double reject;
  kf_priors priors;
  uint64_t reserved[4];
} kf_fit_options;

/* What a fit chose and how good it is, by the training rows alone. */
typedef struct kf_fit_report {
  uint64_t rows;          /* rows in the model */
  uint64_t n_unlabelled;  /* rows of the data set that were left out: no label */
  uint64_t n_bad;         /* left out: NaN, infinite or zero (skip_bad) */
  double lambda;          /* absolute */
  double mean_eigenvalue; /* of S_w */
  double alpha;           /* with text */
  uint32_t dim;
  /* Leave-one-out accuracy of the chosen setting: `right` of n rows, with all dimensions. n is 0 if
   * nothing was left out: lambda was given or, with text, no class has two rows. */
  uint64_t n, right;
  double standard_error;
  /* All that was tried; NULL: not chosen. Owned by the report; see koofu_judge.h. */
  struct kf_lambda_choice *by_lambda;
  struct kf_fuse_choice *by_fusion;
  struct kf_dim_choice *by_dim;
  /* Near-duplicates: of n_compared rows, those that have nearly the same row in their class, outside
   * their group. If there are many, leave-one-out is too hopeful (see kf_near_duplicates). */
  uint64_t n_compared, n_near;
  int many_near;
  /* 1: no class has two different rows, so the scatter of all rows took the place of S_w
   * (KF_METHOD_SHRUNK). lambda is then 30 times its mean eigenvalue unless it was given. */
  int by_all_rows;
} kf_fit_report;

/* Fits a model to the rows of a data set that have a label, choosing what is not given.
 * Every choice is made from the training rows alone. data may be NULL if options->stats
 * is given (see kf_fit_stats), and report may be NULL.
 *
 * If no class has two different rows, S_w is zero. Then the scatter of all rows takes its place, with
 * a lambda of 30 times its mean eigenvalue unless one is given; in the paper's method this is
 * KF_ERR_MATH, unless lambda is absolute.
 *
 * KF_ERR_MATH if there is no model: S_w singular at lambda 0 (the message says its rank and a lambda
 * that works), fewer than two classes with rows, groups so large that no row can be left out, or a
 * lambda so small that numbers leave the range of double precision. */
KF_API kf_status kf_fit(kf_ctx *ctx, const kf_data *data, const kf_fit_options *options,
                        kf_model **out, kf_fit_report **report);
/* The same from statistics alone, without rows to choose by: lambda is 0.3 times the mean
 * eigenvalue unless it is given, and with text alpha must be given. */
KF_API kf_status kf_fit_stats(kf_ctx *ctx, const kf_stats *stats, const kf_fit_options *options,
                              kf_model **out);
KF_API void kf_fit_report_free(kf_fit_report *report);

/* ---------------------------------------------------------------------------------------------
 * 5  Models: map and prototypes
 * ------------------------------------------------------------------------------------------ */

/* A file that is in memory. */
typedef struct kf_bytes kf_bytes;
KF_API const void *kf_bytes_data(const kf_bytes *bytes);
KF_API uint64_t kf_bytes_size(const kf_bytes *bytes);
KF_API void kf_bytes_free(kf_bytes *bytes);

KF_API kf_status kf_model_save(kf_ctx *ctx, const kf_model *model, const char *path);
/* Verifies the checksum of the file. */
KF_API kf_status kf_model_load(kf_ctx *ctx, const char *path, kf_model **out);
/* The same in memory: the bytes are those of the file. Bytes need not outlive what is loaded. */
KF_API kf_status kf_bytes_new_of_model(kf_ctx *ctx, const kf_model *model, kf_bytes **out);
KF_API kf_status kf_model_load_bytes(kf_ctx *ctx, const void *bytes, uint64_t n, kf_model **out);
KF_API void kf_model_free(kf_model *model);
/* A copy of the model with one more class, whose prototype is the mean of all rows of `samples`
 * (labels are ignored). The map stays as it is. The name must be new. */
KF_API kf_status kf_model_new_with_class(kf_ctx *ctx, const kf_model *model, const char *name,
                                         const kf_data *samples, kf_model **out);

KF_API uint32_t kf_model_dim_in(const kf_model *model);  /* D */
KF_API uint32_t kf_model_dim_out(const kf_model *model); /* L */
KF_API uint32_t kf_model_classes(const kf_model *model);
KF_API const char *kf_model_class_name(const kf_model *model, uint32_t k); /* NULL: no names */
KF_API int64_t kf_model_count(const kf_model *model, uint32_t k); /* training rows of class k */
KF_API int kf_model_normalized(const kf_model *model); /* rows are scaled to unit length first */
KF_API kf_centre kf_model_centre(const kf_model *model);
KF_API kf_method kf_model_method(const kf_model *model);       /* never KF_METHOD_DEFAULT */
KF_API kf_priors kf_model_priors(const kf_model *model);       /* never KF_PRIORS_DEFAULT */
KF_API double kf_model_lambda(const kf_model *model);          /* absolute */
KF_API double kf_model_mean_eigenvalue(const kf_model *model); /* of S_w */
/* The temperature that makes scores probabilities (see kf_classify_options); 0: not known. With
 * fewer dimensions than all it is chosen by five folds, otherwise by leaving rows out. */
KF_API double kf_model_temperature(const kf_model *model);
/* The score that a row must reach to be of a known class, and into *share (or NULL) the share of
 * known rows that it was chosen to keep; a share of 0: there is no threshold. */
KF_API double kf_model_reject(const kf_model *model, double *share);
/* Arrays owned by the model. */
KF_API const double *kf_model_transform_matrix(const kf_model *model);    /* T, [L][D] */
KF_API const double *kf_model_mean(const kf_model *model);                /* [D] */
KF_API const double *kf_model_within_eigenvalues(const kf_model *model);  /* of S_w, falling, [D] */
KF_API const double *kf_model_between_eigenvalues(const kf_model *model); /* gamma, falling, [D] */
KF_API const float *kf_model_class_means(const kf_model *model); /* original space, [K][D] */
/* The mapped class means, scaled to unit length, [K][L], and their lengths before scaling, [K].
 * Classes without rows have zeros. */
KF_API const float *kf_model_prototypes(const kf_model *model);
KF_API const double *kf_model_prototype_lengths(const kf_model *model);

/* ---------------------------------------------------------------------------------------------
 * 6  Use: transform and classify
 * ------------------------------------------------------------------------------------------ */

typedef struct kf_transform_options {
  /* Scale mapped rows to unit length; default: on, unless the model was fitted without normalising.
   * Off (for Euclidean use): rows keep the length that the map gives them. */
  kf_switch normalize;
  uint64_t reserved[4];
} kf_transform_options;

/* KF_ERR_DATA, naming the file, if a model cannot take the rows of a data set: they have another length,
 * are of another encoder, or were mapped already. Functions on data sets ask for themselves; for callers
 * who read the rows and give them to kf_transform or kf_classify. kf_gallery_takes is for queries. */
KF_API kf_status kf_model_takes(kf_ctx *ctx, const kf_model *model, const kf_data *data);

/* Maps rows [n][D] to out [n][L]. A bad row is KF_ERR_DATA. On a device, the map stays there for later
 * calls until the model is freed. */
KF_API kf_status kf_transform(kf_ctx *ctx, const kf_model *model, const float *rows, uint64_t n,
                              const kf_transform_options *options, float *out);
/* Maps a data set to a file, .npy (rows alone; no bf16) or .safetensors (a native data set with
 * labels and class names), by the ending of path. With skip_bad, bad rows become zeros. */
KF_API kf_status kf_transform_data(kf_ctx *ctx, const kf_model *model, const kf_data *data,
                                   const kf_transform_options *options, kf_dtype dtype,
                                   const char *path);

/* Which part of a model with text (see kf_model_new_fused) classifies. */
typedef enum kf_part {
  KF_PART_DEFAULT = 0, /* fused if the model has text, otherwise images */
  KF_PART_IMAGES = 1,  /* prototypes of classes with rows, in the mapped space */
  KF_PART_TEXT = 2,    /* text of classes with text, by cosine in the original space */
  KF_PART_FUSED = 3
} kf_part;
/* Number of classes that can be an answer of this part. */
KF_API uint32_t kf_model_answers(const kf_model *model, kf_part part);

typedef struct kf_classify_options {
  uint32_t top; /* classes per row, 1 … kf_model_answers; 0: 1 */
  kf_metric metric;
  int raw; /* 1: in the original space, against the class means */
  kf_part part;
  double temperature; /* of kf_classify_probabilities; 0: the model's */
  uint64_t reserved[3];
} kf_classify_options;

/* The `top` nearest prototypes of each row [n][D], best first: class numbers into classes [n][top],
 * cosines or Euclidean distances into scores [n][top] (or NULL). Of equal scores (for distances:
 * equal squares) the lower class number comes first. Classes without training rows take no part. With
 * KF_PRIORS_TRAINING, distances are larger and cosines smaller for classes with fewer rows: these are
 * less likely (docs/method.md). */
KF_API kf_status kf_classify(kf_ctx *ctx, const kf_model *model, const float *rows, uint64_t n,
                             const kf_classify_options *options, int32_t *classes, double *scores);

/* The same, with the probability of each answer into probabilities [n][top]: softmax(T * score)
 * over all classes that take part, where a score is a cosine, a fused score, or minus half the
 * squared distance, and T the temperature. All scores of a row are computed, so this takes longer
 * (docs/probabilities.md). KF_ERR_ARG if the model has no temperature for its metric, space and
 * part, and none is given. */
KF_API kf_status kf_classify_probabilities(kf_ctx *ctx, const kf_model *model, const float *rows,
                                           uint64_t n, const kf_classify_options *options,
                                           int32_t *classes, double *scores, double *probabilities);

/* The prototypes of a model, made ready once for many calls: with many classes, or few rows in a call,
 * that takes longer than classifying. The model must outlive it. Several threads may use it at a time,
 * each with a context of its own. */
typedef struct kf_classifier kf_classifier;
KF_API kf_status kf_classifier_new(kf_ctx *ctx, const kf_model *model,
                                   const kf_classify_options *options, kf_classifier **out);
KF_API void kf_classifier_free(kf_classifier *classifier);
/* As kf_classify and kf_classify_probabilities, which are a classifier for one call. */
KF_API kf_status kf_classifier_classify(kf_ctx *ctx, const kf_classifier *classifier,
                                        const float *rows, uint64_t n, int32_t *classes,
                                        double *scores);
KF_API kf_status kf_classifier_probabilities(kf_ctx *ctx, const kf_classifier *classifier,
                                             const float *rows, uint64_t n, int32_t *classes,
                                             double *scores, double *probabilities);

/* Whether the best score of a row, as kf_classify gives it by default, reaches the threshold of the
 * model (1 or 0). 1 if the model has none. */
KF_API int kf_model_knows(const kf_model *model, double score);

/* ---------------------------------------------------------------------------------------------
 * 7  Text: classes by name, zero-shot, text and rows together (docs/text.md)
 * ------------------------------------------------------------------------------------------ */

typedef struct kf_text_options {
  /* Rows of each class, one class after another; 0: rows belong to the classes of their labels. */
  uint32_t per_class;
  /* With per_class: a text file with the class names, one per line. NULL: those of the data set, or
   * none. */
  const char *classes;
  const char *const *names; /* the same from memory, [n_names]; NULL: `classes` */
  size_t n_names;
  kf_switch unit_rows; /* scale rows to unit length before averaging; default: on */
  kf_switch unit_mean; /* scale means to unit length; default: on */
  uint64_t reserved[4];
} kf_text_options;

/* Text prototypes: the rows of a data set (embedded prompts), averaged by class. A class without
 * rows is KF_ERR_DATA. */
KF_API kf_status kf_text_new(kf_ctx *ctx, const kf_data *data, const kf_text_options *options,
                             kf_text **out);
/* Writes them as a native data set with one row per class, which kf_data_open and kf_text_new read
 * again. */
KF_API kf_status kf_text_save(kf_ctx *ctx, const kf_text *text, const char *path);
KF_API void kf_text_free(kf_text *text);
KF_API uint32_t kf_text_classes(const kf_text *text);
KF_API uint32_t kf_text_dim(const kf_text *text);
KF_API const char *kf_text_class_name(const kf_text *text, uint32_t k); /* NULL: no names */
KF_API const float *kf_text_rows(const kf_text *text);                  /* [classes][dim] */
/* A checksum of rows and class names, which a model made with this text has as `text_from`. */
KF_API uint64_t kf_text_checksum(const kf_text *text);
/* The mean of the rows of a data set, each scaled to unit length, into mean [dim]: of embedded
 * texts, for kf_search_options.text_mean. Labels are ignored, and so are bad rows under skip_bad;
 * KF_ERR_DATA if no row is left. */
KF_API kf_status kf_text_mean(kf_ctx *ctx, const kf_data *data, double *mean);

/* A zero-shot model: the map of `model`, with text prototypes in place of class means. Its classes
 * are those of the text, and everything that takes a model takes it. In the original space (`raw`)
 * its class means are the text as given under KF_CENTRE_NONE alone. Classes that only one of the
 * two has are logged. KF_ERR_DATA if they have none in common, or if the model was fitted without
 * normalising: text says nothing about lengths. */
KF_API kf_status kf_model_new_zero_shot(kf_ctx *ctx, const kf_model *model, const kf_text *text,
                                        kf_centre centre, kf_model **out);

/* A copy of the model with text added. A class has the score
 *
 *     cosine of the row with the text + alpha * cosine of the mapped row with the prototype
 *
 * Classes are matched by name if both have names, by number if neither has; the result has the
 * classes of the model, then those of the text that the model lacks. A class with text but no rows,
 * or rows but no text, takes part: what it lacks is predicted from what it has by a linear map
 * between the two, fitted to the classes that have both (ridge regression; its strength is chosen
 * by leaving out one class at a time). KF_ERR_DATA if no class has both; KF_ERR_ARG for a model
 * fitted without normalising, or one that has text already. alpha: 0 to 1,000,000. */
KF_API kf_status kf_model_new_fused(kf_ctx *ctx, const kf_model *model, const kf_text *text,
                                    double alpha, kf_model **out);
/* A copy of a model with text, with more of it: for classes it has (replacing their text) or for
 * new ones, which then take part by name alone. */
KF_API kf_status kf_model_new_with_text(kf_ctx *ctx, const kf_model *model, const kf_text *text,
                                        kf_model **out);
/* Whether a model has text (1 or 0), and its alpha. */
KF_API int kf_model_fused(const kf_model *model);
KF_API double kf_model_alpha(const kf_model *model);
/* The text of the classes of a model that have their own; KF_ERR_ARG if there is none. Without
 * names classes go by number, and it is KF_ERR_DATA if classes without text come before them. */
KF_API kf_status kf_text_new_of_model(kf_ctx *ctx, const kf_model *model, kf_text **out);
/* Whether class k has text of its own (1 or 0). */
KF_API int kf_model_class_has_text(const kf_model *model, uint32_t k);

/* ---------------------------------------------------------------------------------------------
 * 8  Search: the nearest rows, exactly
 *
 * An index keeps an 8-bit copy of its rows. A first pass over that copy finds every row that could
 * belong to the answer (the rounding error of each row is measured, so this is certain, not just
 * likely); then scores of the rows as given decide, in double precision and, where that cannot tell
 * two rows apart, in exact arithmetic. The answer is that of a comparison with every row without any
 * rounding, for any number of threads, instruction set and number of queries at a time. See
 * docs/numerics.md.
 *
 * A search may copy the rows to the devices of its context (kf_ctx_options.device), where they stay as
 * long as the index: five bytes of their memory per value, or one. If not even that fits, it is one byte
 * per value of this machine's memory more, for rows that pass through.
 * ------------------------------------------------------------------------------------------ */

typedef struct kf_index kf_index;

#define KF_MAX_NEIGHBOURS 1024u

typedef struct kf_index_options {
  kf_metric metric; /* KF_METRIC_DEFAULT: cosine */
  /* 1: do not copy the rows. The array or data set must outlive the index and stay as it is; it is
   * read again for the few rows that the first pass leaves. Memory: one byte per value instead of
   * five, and 4 bytes per row (cosine: 12). */
  int rows_in_place;
  /* KF_F16, KF_BF16: rows are rounded to this type, to nearest even, and scores are those of the rounded
   * rows. Memory: three bytes per value instead of five. A number beyond the range of the type (f16:
   * 65,504), and for cosine a row that becomes zero, is KF_ERR_DATA naming the row. KF_F32: as given. */
  kf_dtype dtype;
  /* About how many queries there will be; 0: not known. From 4,096 on, 32,768 rows or more of 129
   * to 2,048 columns are looked at: if most of what tells them apart lies in a few directions, as in
   * embeddings, these get a copy of their own. Building the index then takes two to three times as
   * long, and up to 0.6 bytes per value and 80 per row more; searching takes about two thirds of the
   * time. Answers are the same. */
  uint64_t queries;
  uint64_t reserved[2];
} kf_index_options;

/* An index over rows [n][dim]. For cosine they may have any length: cosines are those of the rows as
 * given. A NaN or infinite row, and for cosine a zero row, is KF_ERR_DATA naming the row; so is
 * n = 0. */
KF_API kf_status kf_index_new(kf_ctx *ctx, const float *rows, uint64_t n, uint32_t dim,
                              const kf_index_options *options, kf_index **out);
/* The same over the rows of a data set; labels are ignored. A bad row is an error even with
 * skip_bad, since row numbers would shift. */
KF_API kf_status kf_index_new_from_data(kf_ctx *ctx, const kf_data *data,
                                        const kf_index_options *options, kf_index **out);
KF_API void kf_index_free(kf_index *index);

KF_API uint64_t kf_index_rows(const kf_index *index);
KF_API uint32_t kf_index_dim(const kf_index *index);
KF_API kf_metric kf_index_metric(const kf_index *index); /* never KF_METRIC_DEFAULT */
KF_API uint64_t kf_index_bytes(const kf_index *index);   /* of memory that the index holds */

typedef struct kf_filter kf_filter; /* see kf_filter_new */

typedef struct kf_search_options {
  /* [n]: a row to leave out of the search of each query, or any other number (such as -1) for none;
   * NULL: no row is left out. */
  const int64_t *leave_out;
  /* Galleries only: the queries are embeddings of text, and this is the mean of such embeddings
   * (kf_text_mean, kf_encoder_text_mean), [dim_in]. It is subtracted from queries of unit length,
   * as KF_CENTRE_MODALITY does: text lies elsewhere than pictures, by an offset that a map of
   * pictures blows up. KF_ERR_ARG if the gallery keeps lengths, about which text says nothing.
   * NULL: queries are like the rows. */
  const double *text_mean;
  const kf_filter *only; /* galleries only: which rows take part; NULL: all */
  uint64_t reserved[2];
} kf_search_options;

typedef struct kf_search_report {
  uint64_t queries;
  /* Rows scored in double precision, for all queries together: a measure of the work. It depends on
   * the instruction set, the threads and the number of queries at a time; the answers do not. */
  uint64_t candidates;
  /* Galleries with a map: queries that hardly look like the rows the model was fitted to. Their
   * cosine with the mean of those rows is less than half of what it is for the rows on average. If
   * there are many, they are text, or come from another encoder. */
  uint64_t far;
  uint64_t reserved[3];
} kf_search_report;

/* The k nearest rows of each query [n][dim], best first: row numbers into rows [n][k]; cosines,
 * inner products or Euclidean distances into scores [n][k] (or NULL). Of equally near rows the lower
 * number comes first. Rows that are not equally near may have equal scores, which are rounded; scores
 * never rise (distances never fall) along a list. 1 <= k <= KF_MAX_NEIGHBOURS, and k <= the number of
 * rows searched. Counts are added to report (or NULL). */
KF_API kf_status kf_search(kf_ctx *ctx, const kf_index *index, const float *queries, uint64_t n,
                           uint32_t k, const kf_search_options *options, int64_t *rows,
                           double *scores, kf_search_report *report);

/* ---------------------------------------------------------------------------------------------
 * 9  Galleries: an index in a file, with labels and the map for its queries; and votes
 * ------------------------------------------------------------------------------------------ */

typedef struct kf_gallery kf_gallery;

/* What a call has done to a gallery. */
typedef struct kf_gallery_change {
  uint64_t rows;           /* of the gallery afterwards */
  uint64_t added, removed; /* rows */
  uint64_t missing;        /* ids that were to be removed and that no row has */
  uint64_t bytes;          /* that were written */
  uint64_t changes;        /* files with changes afterwards */
  uint64_t reserved[4];
} kf_gallery_change;

typedef struct kf_gallery_options {
  kf_metric
      metric;      /* KF_METRIC_DEFAULT: cosine; Euclidean for a model fitted without normalising */
  const char *ids; /* text file with a name for each row, one per line; NULL: those in the data */
  /* An existing gallery whose rows come first. Its map and metric are used for the new rows as well:
   * `model` must be NULL and metric KF_METRIC_DEFAULT or the same. Classes are matched by name; new ones
   * are added at the end. Both or neither must have labels, and the same goes for ids.
   * If it is the file being written, the gallery grows: the file stays as it is, and the new rows are
   * written as a change beside it (see kf_gallery_remove), which costs what they cost. */
  const char *append_to;
  /* Neighbours that should vote, kept in the file for kf_gallery_k (see kf_k_choice_new_for_rows);
   * 0: not known, or that of append_to. */
  uint32_t k;
  /* A gallery that grows (append_to is the file being written) knows the last KF_MAX_BATCHES batches
   * of rows that were added to it and are still there. The same batch again – the same rows, labels and
   * ids – is taken for a repeated call: nothing is written, and that is logged and KF_OK. 1: add it
   * again. */
  int again;
  int *repeated; /* set to 1 if that happened, otherwise to 0; NULL: not wanted */
  /* KF_F32, or KF_F16 or KF_BF16: half of the file, three bytes of memory per value instead of five. Rows are
   * rounded to nearest even, as kf_index_options has it, and everything then is about the rounded
   * rows. Rows that are appended take the type of the gallery; another than that or KF_F32 is KF_ERR_ARG. */
  kf_dtype dtype;
  /* 1: in a gallery that grows, rows that have the id of a new row are removed by the same change.
   * KF_ERR_ARG if it has no ids. */
  int replace;
  kf_gallery_change *change; /* what was done; NULL: not wanted */
  uint64_t reserved[4];
} kf_gallery_options;
#define KF_MAX_BATCHES 64

/* Writes the rows of a data set as a gallery, streamed: mapped by the model (NULL: in the original
 * space), with labels, class names and ids, and with the map inside, so that queries are given in
 * the original space. With skip_bad, bad rows are left out. */
KF_API kf_status kf_gallery_save(kf_ctx *ctx, const kf_data *data, const kf_model *model,
                                 const kf_gallery_options *options, const char *path);

/* Changing a gallery. Its file is never written again for that: each change – rows added, rows removed –
 * is a file of its own in the folder "PATH.changes", which belongs to it (docs/formats.md). A change
 * appears whole or not at all, and is on the disk once the call returns. Whatever reads the gallery sees
 * the file with all changes: rows are numbered in the order in which they came, without those removed,
 * and every answer is that of a gallery made of these rows. The gallery is locked meanwhile, so that of
 * two calls one waits for the other; reading needs no lock. KF_ERR_IO if the file system has no locks, or
 * if something else has replaced the gallery in the meantime. */

/* Ids, as a list, in a text file with one per line, or both; empty lines do not count. */
typedef struct kf_id_list {
  const char *const *ids; /* [n] */
  uint64_t n;
  const char *file; /* NULL: none */
  uint64_t reserved[2];
} kf_id_list;

/* Removes all rows with these ids. Ids that no row has are counted, not an error, so that a removal can be
 * repeated; if no row has any, nothing is written. The last row cannot be removed (KF_ERR_ARG). change:
 * what was done, or NULL. Memory: what the ids of the gallery take. */
KF_API kf_status kf_gallery_remove(kf_ctx *ctx, const char *path, const kf_id_list *ids,
                                   kf_gallery_change *change);
/* Makes one file of a gallery and its changes: the one that its rows would have given at once, except
 * that it still knows the batches that were added. Readers may go on reading. */
KF_API kf_status kf_gallery_compact(kf_ctx *ctx, const char *path, kf_gallery_change *change);

typedef struct kf_gallery_load_options {
  /* 1: the rows stay in the file, which must not change, and are read for candidates only (as
   * rows_in_place in kf_index_options). */
  int rerank_from_disk;
  uint64_t queries; /* about how many there will be, as in kf_index_options; 0: not known */
  /* Further galleries, [n_more] paths, whose rows follow: answers are those of one gallery with all rows.
   * Metric and map must be the same; all have labels or none has, and the same goes for ids. Classes are
   * matched by name. KF_ERR_DATA naming two of them otherwise. */
  const char *const *more;
  uint64_t n_more;
  uint64_t reserved[1];
} kf_gallery_load_options;

/* Verifies the checksums of the file and its changes. With a communicator, each rank holds a part of the rows, and calls
 * that search the gallery are for all ranks together; rank 0 verifies the checksum. */
KF_API kf_status kf_gallery_load(kf_ctx *ctx, const char *path,
                                 const kf_gallery_load_options *options, kf_gallery **out);
/* A gallery in memory, without a file: the rows of a data set, mapped by the model (NULL: in the
 * original space), with their labels and the ids inside the data. options->ids and append_to must be NULL. Memory: five bytes
 * per value (KF_F16, KF_BF16: three), and 8 per row (cosine: 16). */
KF_API kf_status kf_gallery_new(kf_ctx *ctx, const kf_data *data, const kf_model *model,
                                const kf_gallery_options *options, kf_gallery **out);
KF_API void kf_gallery_free(kf_gallery *gallery);

KF_API uint64_t kf_gallery_rows(const kf_gallery *gallery);
KF_API uint32_t kf_gallery_dim_in(const kf_gallery *gallery); /* of queries */
KF_API uint32_t kf_gallery_dim(const kf_gallery *gallery);    /* of its own rows */
KF_API kf_metric kf_gallery_metric(const kf_gallery *gallery);
KF_API kf_dtype
kf_gallery_dtype(const kf_gallery *gallery); /* of its rows: KF_F32, KF_F16 or KF_BF16 */
KF_API int kf_gallery_mapped(const kf_gallery *gallery); /* 1: it carries a map */
KF_API uint32_t kf_gallery_k(const kf_gallery *gallery); /* neighbours that should vote; 0: none */
/* Whether its map is that of a model, to the bit (1 or 0). */
KF_API int kf_gallery_made_with(const kf_gallery *gallery, const kf_model *model);
KF_API int kf_gallery_has_labels(const kf_gallery *gallery);
KF_API uint32_t kf_gallery_classes(const kf_gallery *gallery);
KF_API const char *kf_gallery_class_name(const kf_gallery *gallery,
                                         uint32_t k);                      /* NULL: no names */
KF_API int32_t kf_gallery_label(const kf_gallery *gallery, uint64_t row);  /* KF_LABEL_NONE: none */
KF_API const char *kf_gallery_id(const kf_gallery *gallery, uint64_t row); /* NULL: no ids */
/* Of several galleries that were loaded as one: which of them has a row, 0 for the first, and the number of
 * the row there (own may be NULL). */
KF_API uint64_t kf_gallery_file_of(const kf_gallery *gallery, uint64_t row, uint64_t *own);
/* The index over its rows, for queries in its own space. Owned by the gallery. */
KF_API const kf_index *kf_gallery_index(const kf_gallery *gallery);
/* A good number of queries to search with at a time. */
KF_API uint64_t kf_gallery_batch(const kf_ctx *ctx, const kf_gallery *gallery);

/* As kf_model_takes, for rows of a data set as queries. */
KF_API kf_status kf_gallery_takes(kf_ctx *ctx, const kf_gallery *gallery, const kf_data *data);

/* As kf_search, for queries [n][dim_in] of the original space. A NaN or infinite query is
 * KF_ERR_DATA naming it; so is a zero one if rows are scaled to unit length. */
KF_API kf_status kf_gallery_search(kf_ctx *ctx, const kf_gallery *gallery, const float *queries,
                                   uint64_t n, uint32_t k, const kf_search_options *options,
                                   int64_t *rows, double *scores, kf_search_report *report);
/* Leave one out: rows first … first+n-1 of the gallery are the queries, each left out of its own
 * search. A gallery from a file reads them there; it must not have changed since. */
KF_API kf_status kf_gallery_search_itself(kf_ctx *ctx, const kf_gallery *gallery, uint64_t first,
                                          uint64_t n, uint32_t k, int64_t *rows, double *scores,
                                          kf_search_report *report);

/* Which rows of a gallery take part in a search. */
typedef struct kf_filter_options {
  const char
      *classes; /* text file with class names (numbers, if classes have none), one per line */
  const kf_id_list *ids;
  const char *const *names; /* [n_names]: further classes, in memory; NULL: none */
  uint64_t n_names;
  uint64_t reserved[2];
} kf_filter_options;

/* The rows of a gallery whose class is in `classes` or `names` and whose id is in `ids`, as far as these
 * are given. Answers are those of a gallery of these rows alone, with the row numbers of this one. KF_ERR_DATA if
 * the gallery has no labels or no ids, or if no row is left; classes and ids that no row has are fine.
 * Memory: 8 bytes for each row that is left, and a bit for each of the gallery. The gallery must outlive
 * it. */
KF_API kf_status kf_filter_new(kf_ctx *ctx, const kf_gallery *gallery,
                               const kf_filter_options *options, kf_filter **out);
KF_API uint64_t kf_filter_rows(const kf_filter *filter);
KF_API void kf_filter_free(kf_filter *filter);

/* All rows that are near enough to each of some queries: those of query i are [ends[i - 1], ends[i]) of
 * rows and scores, best first, as a search for as many neighbours would give them; ends[-1] stands for
 * 0. */
typedef struct kf_ranges {
  uint64_t queries; /* answered */
  const uint64_t *ends;
  const int64_t *rows;
  const double *scores;
} kf_ranges;

/* The rows of a gallery whose score for a query [n][dim_in] is at least `limit`, or for distances at most:
 * exactly those of which kf_gallery_search would say so, with the limit itself. Options and queries are
 * as there. Answers take 16 bytes each. At most KF_WITHIN_QUERIES queries are answered in a call, and fewer,
 * but one at least, if answers come to more than 2^24; out->queries says how many. */
#define KF_WITHIN_QUERIES 256u
KF_API kf_status kf_gallery_within(kf_ctx *ctx, const kf_gallery *gallery, const float *queries,
                                   uint64_t n, double limit, const kf_search_options *options,
                                   kf_ranges **out, kf_search_report *report);
/* The same for rows first … first+n-1 of the gallery, each left out of its own answer. only: NULL, or
 * which rows are found. */
KF_API kf_status kf_gallery_within_itself(kf_ctx *ctx, const kf_gallery *gallery, uint64_t first,
                                          uint64_t n, double limit, const kf_filter *only,
                                          kf_ranges **out, kf_search_report *report);
KF_API void kf_ranges_free(kf_ranges *ranges);

/* What kf_gallery_unique has found. */
typedef struct kf_unique {
  uint64_t groups; /* of two rows or more */
  uint64_t copies; /* rows that are not the first of their group */
  uint64_t pairs;  /* of rows that are near enough */
  uint64_t reserved[3];
} kf_unique;

/* Groups of near-duplicates: rows of which one is within `limit` of the other (as kf_gallery_within has
 * it) are in one group, and so are rows that a chain of such pairs connects. first[i]: the lowest row of
 * the group of row i; i itself if it stands alone or first. */
KF_API kf_status kf_gallery_unique(kf_ctx *ctx, const kf_gallery *gallery, double limit,
                                   uint64_t *first, kf_unique *found);

/* How neighbours vote. The class with the most votes wins; of equal ones, the class whose nearest
 * member is nearest. Neighbours without a label do not vote. */
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

/* The `top` classes with the most votes for each row [n][dim_in], best first, and their votes into
 * scores [n][top] (or NULL). If fewer classes have votes, the rest is KF_LABEL_NONE with 0. */
KF_API kf_status kf_gallery_classify(kf_ctx *ctx, const kf_gallery *gallery, const float *rows,
                                     uint64_t n, const kf_vote_options *options, int32_t *classes,
                                     double *scores, kf_search_report *report);

/* ---------------------------------------------------------------------------------------------
 * 10  Encoder: pictures and words to embeddings (docs/encoder.md)
 * ------------------------------------------------------------------------------------------ */

/* A CLIP or SigLIP model as Hugging Face publishes it: a folder with config.json, model.safetensors
 * (or shards with an index), preprocessor_config.json, and the tokenizer's files. Of SigLIP, the
 * image tower alone. */
typedef struct kf_encoder kf_encoder;

/* How the towers calculate. Both give the same bits on every instruction set, with any number of
 * threads, and whatever else is encoded in the same call. */
typedef enum kf_precision {
  KF_PRECISION_AUTO = 0, /* bf16 */
  KF_PRECISION_F32 = 1,  /* the reference */
  KF_PRECISION_BF16 = 2 /* products of bf16, sums and the rest in f32: cosine to f32 above 0.9999 */
} kf_precision;

typedef struct kf_encoder_options {
  kf_precision precision;
  kf_switch images; /* load the image tower; default: on */
  kf_switch text;   /* load the text tower and the tokenizer; default: on */
  /* Refuse pictures with more; 0: 178,956,970, as Pillow does. A picture takes 6 bytes a pixel while
   * it is decoded and turned, a JPEG in several scans up to 11, and its file; all threads of a context
   * together take at most 1 GiB, or 64 MiB a thread if that is more: others wait meanwhile, and a
   * picture that takes more is decoded alone. */
  uint64_t max_pixels;
  uint64_t reserved[4];
} kf_encoder_options;

/* Loads those of the requested towers that the model has; KF_ERR_DATA if it has none of them. Every
 * tensor of a tower must be there with the shape that config.json says, and no
 * other tensor in them; otherwise KF_ERR_DATA names it. Progress is in bytes of weights. The
 * encoder uses the instruction set of this context, whichever contexts use it later. */
KF_API kf_status kf_encoder_load(kf_ctx *ctx, const char *folder, const kf_encoder_options *options,
                                 kf_encoder **out);
KF_API void kf_encoder_free(kf_encoder *encoder);

KF_API uint32_t kf_encoder_dim(const kf_encoder *encoder);        /* of embeddings */
KF_API uint32_t kf_encoder_image_size(const kf_encoder *encoder); /* 224; 0: no image tower */
KF_API uint32_t kf_encoder_context(const kf_encoder *encoder);    /* 77 tokens; 0: no text tower */
KF_API kf_precision kf_encoder_precision(const kf_encoder *encoder);
KF_API uint64_t kf_encoder_bytes(const kf_encoder *encoder); /* of memory that the weights take */
/* Changes with every weight and setting of the loaded towers and with the precision: tells whether
 * two encoders give the same embeddings. */
KF_API uint64_t kf_encoder_checksum(const kf_encoder *encoder);

/* --- which encoder ---------------------------------------------------------------------------- */

/* Embeddings of different encoders cannot be compared, even if they are equally long. What
 * kf_embed and kf_prompts_embed write names its encoder; data sets hand that on to statistics, text,
 * models and galleries made from them, and to their files. Where two of these meet (statistics that
 * are merged, files of one data set, a model and rows or text, a gallery and queries), it is
 * KF_ERR_DATA if both know their encoder and it is not the same; kf_ctx_options.any_encoder allows
 * it. What has no origin, as files from elsewhere, goes together with everything. For rows
 * that kf_transform_data wrote, or that a gallery with a map holds, the map takes the encoder's place: they go with
 * rows of the same map and with models fitted to such, and a model refuses rows that it mapped itself.
 *
 * Each of these is NULL if the encoder is not known, and owned by the object. */
KF_API const kf_origin *kf_encoder_origin(const kf_encoder *encoder); /* never NULL */
KF_API const kf_origin *kf_data_origin(const kf_data *data);
KF_API const kf_origin *kf_stats_origin(const kf_stats *stats);
KF_API const kf_origin *kf_text_origin(const kf_text *text);
KF_API const kf_origin *kf_model_origin(const kf_model *model);
KF_API const kf_origin *kf_gallery_origin(const kf_gallery *gallery);
/* The name of the encoder's folder; NULL if origin is. */
KF_API const char *kf_origin_name(const kf_origin *origin);
/* Of the model in that folder: the settings of its towers, and a sample of each of its tensors. It
 * does not depend on which towers are loaded, on the precision or on the number of files. 0 if origin
 * is NULL. */
KF_API uint64_t kf_origin_checksum(const kf_origin *origin);
/* KF_ERR_DATA if both are known and differ: for rows in memory, whose encoder only the caller knows,
 * before kf_classify, kf_transform or kf_gallery_search. */
KF_API kf_status kf_origins_agree(kf_ctx *ctx, const kf_origin *a, const kf_origin *b);

/* --- pictures and words ----------------------------------------------------------------------- */

/* Embeddings of pictures in files: out[n][dim], as the projection leaves them (not unit length),
 * and finite. JPEG, PNG and WebP. status: [n], or NULL. A picture that cannot be read, or whose
 * embedding is not finite, gets its status there and a row of zeros, and is logged; with status
 * NULL the first such picture fails the call. */
KF_API kf_status kf_encode_images(kf_ctx *ctx, const kf_encoder *encoder, const char *const *paths,
                                  uint64_t n, float *out, kf_status *status);
/* A picture in memory: the bytes of a JPEG, PNG or WebP or, if it has a size, its pixels as
 * bytes[height][width][3], red, green and blue. */
typedef struct kf_image_bytes {
  const void *bytes;
  uint64_t n;             /* bytes */
  uint32_t width, height; /* 0: the bytes of a file */
  uint64_t reserved[2];
} kf_image_bytes;
/* The same for pictures in memory. */
KF_API kf_status kf_encode_image_bytes(kf_ctx *ctx, const kf_encoder *encoder,
                                       const kf_image_bytes *pictures, uint64_t n, float *out,
                                       kf_status *status);
/* The same for preprocessed pictures: pixels[n][3][size][size]. */
KF_API kf_status kf_encode_pixels(kf_ctx *ctx, const kf_encoder *encoder, const float *pixels,
                                  uint64_t n, float *out);
/* Preprocesses a picture: pixels[3][size][size]. */
KF_API kf_status kf_preprocess_image(kf_ctx *ctx, const kf_encoder *encoder, const char *path,
                                     float *pixels);

/* A small copy of a picture, for a page: the right way up, and its longer side has at most `side` pixels.
 * JPEG or, by builds without it, PNG. max_pixels as in kf_encoder_options. */
KF_API kf_status kf_thumbnail_new(kf_ctx *ctx, const kf_image_bytes *picture, uint32_t side,
                                  uint64_t max_pixels, kf_bytes **out);

/* Embeddings of texts (UTF-8): out[n][dim]. */
KF_API kf_status kf_encode_texts(kf_ctx *ctx, const kf_encoder *encoder, const char *const *texts,
                                 uint64_t n, float *out);
/* The tokens of a text, [context], padded; *n: how many come before the padding. */
KF_API kf_status kf_tokenize(kf_ctx *ctx, const kf_encoder *encoder, const char *text,
                             int32_t *tokens, uint32_t *n);

/* --- many pictures ---------------------------------------------------------------------------- */

/* A list of pictures, at least one, none of them twice. */
typedef struct kf_pictures kf_pictures;

/* paths: pictures, folders, WebDataset archives (.tar) or glob patterns, in the order given.
 *
 * A file in a folder is a picture if its name ends in .jpg, .jpeg, .png or .webp, in any case, or if
 * its first bytes are those of a JPEG, PNG or WebP. Pictures of other formats (GIF, BMP, TIFF, HEIC,
 * AVIF, ...) are left out; how many, and the names of a few, are logged. Other files are ignored.
 *
 * If the folders in a folder hold pictures (at any depth), the names of those folders are the
 * classes, and every picture below one belongs to it; pictures next to them are left out, which is
 * logged. Pictures directly in another folder, and pictures given by themselves, have no label.
 * Pictures of a folder come in byte order of their paths; classes, which several folders may share,
 * are numbered in byte order of their names. Hidden files and folders are ignored, and a link that
 * leads back to where it came from is not followed.
 *
 * An archive holds samples: members whose names differ after the first dot of their last part alone, one
 * after the other. The first that ends in .jpg, .jpeg, .png or .webp is the picture, and ARCHIVE/MEMBER its
 * path; its class is the text of .cls. Samples keep their order. A folder without class folders may hold
 * archives.
 *
 * A pattern stands for the folders, archives and pictures that match it; "s/{000..127}.tar" for files with
 * these numbers. KF_ERR_DATA if a folder or an archive has no picture, or a path is not UTF-8 or appears twice. */
KF_API kf_status kf_pictures_open(kf_ctx *ctx, const char *const *paths, size_t n_paths,
                                  kf_pictures **out);
typedef struct kf_pictures_options {
  const char
      *label_key; /* of the JSON in archives: whose value is the class; NULL: what .cls says */
  uint64_t reserved[3];
} kf_pictures_options;
KF_API kf_status kf_pictures_open_with(kf_ctx *ctx, const char *const *paths, size_t n_paths,
                                       const kf_pictures_options *options, kf_pictures **out);
/* A text file with one picture per line: PATH, or PATH<TAB>CLASS. Relative paths start at the
 * folder of the list, or at the current one if it is in /dev/fd/. Either every line has a class or
 * none has. */
KF_API kf_status kf_pictures_open_list(kf_ctx *ctx, const char *list, kf_pictures **out);
KF_API void kf_pictures_free(kf_pictures *pictures);
KF_API uint64_t kf_pictures_count(const kf_pictures *pictures);
/* Where a picture is, and the id of its row: the path as given, or as in the list. */
KF_API const char *kf_pictures_path(const kf_pictures *pictures, uint64_t i);
KF_API const char *kf_pictures_id(const kf_pictures *pictures, uint64_t i);
KF_API uint32_t kf_pictures_classes(const kf_pictures *pictures); /* 0: no labels */
KF_API const char *kf_pictures_class_name(const kf_pictures *pictures, uint32_t k);
KF_API int32_t kf_pictures_label(const kf_pictures *pictures, uint64_t i); /* KF_LABEL_NONE: none */
/* Whether a path, which need not exist, is one of the folders given to kf_pictures_open or inside one
 * (1 or 0). */
KF_API int kf_pictures_inside(const kf_pictures *pictures, const char *path);

typedef struct kf_embed_options {
  kf_dtype dtype;      /* of the file: KF_F32, KF_F16 or KF_BF16 */
  kf_switch normalize; /* scale rows to unit length; default: off */
  int skip_bad;        /* leave out pictures that cannot be read, logging each */
  uint32_t shard;      /* pictures that are finished together; 0: 256 */
  kf_switch resume;    /* use what an earlier run has finished; default: on */
  const char
      *metadata; /* NULL: none; else a file that gets a line of JSON for each row: its number, id,
                           class, and the text and JSON beside it in its archive, or null */
  uint64_t reserved[3];
} kf_embed_options;

typedef struct kf_embed_report {
  uint64_t rows;    /* written */
  uint64_t skipped; /* pictures that could not be read */
  uint64_t resumed; /* pictures in finished shards of an earlier run, including skipped ones */
  uint64_t reused;  /* pictures whose rows are from the file of an earlier run */
  int unchanged;    /* 1: that file is what this run would have written, and was left alone */
  uint64_t reserved[2];
} kf_embed_report;

/* Writes the embeddings of pictures as a data set: `embeddings`, `labels` and class names if there
 * are labels, and the paths as ids. Memory does not grow with the rows, except for the list of
 * pictures and 8 bytes for each, and 24 for each row of a file that is reused; the progress stage is
 * "embed".
 *
 * If the file exists and was written by kf_embed with the same encoder and options, pictures whose
 * bytes have a row in it are not embedded again, whatever their names and places are now; if nothing
 * has changed, the file is left alone. All pictures are read for this ("check").
 *
 * Finished shards stay in the folder PATH.parts until the file is whole. A run that failed or was
 * killed goes on from there, logs again what it had logged for these shards, and the file has the
 * same bytes; a picture that has changed is embedded again. KF_ERR_ARG if the folder belongs to
 * other pictures, another encoder or other options, KF_ERR_IO if another process is working in it.
 * report may be NULL. */
KF_API kf_status kf_embed(kf_ctx *ctx, const kf_encoder *encoder, const kf_pictures *pictures,
                          const kf_embed_options *options, const char *path,
                          kf_embed_report *report);

/* ---------------------------------------------------------------------------------------------
 * 11  Prompts: class names to text prototypes (docs/text.md)
 * ------------------------------------------------------------------------------------------ */

/* Texts for the text tower, each with the class it belongs to. */
typedef struct kf_prompts kf_prompts;

/* Which classes may be alike. */
typedef enum kf_repeats {
  KF_REPEATS_NONE = 0,  /* classes whose prompts would be the same are an error */
  KF_REPEATS_NAMES = 1, /* classes may have the same prompts, but not the same label */
  KF_REPEATS_ALL = 2    /* classes may have the same label */
} kf_repeats;

typedef struct kf_prompts_options {
  /* Text file with one class per line: its name, or several separated by commas. A name in
   * quotation marks is taken whole. '#' at the start of a line or after a space begins a
   * comment. */
  const char *classes;
  /* The same from memory, [n_names], each one whole name; NULL: `classes`. */
  const char *const *names;
  size_t n_names;
  /* `names` are those of folders: underscores become spaces, and a number in front of a word
   * ("n01440764_tench", "017.Cardinal") is not spoken. */
  int folders;
  /* Text file with lines 'CLASS<tab>NAME, …': what to call each class. NULL: its label. */
  const char *spoken;
  /* Text file with one template per line, in which {} is the name; or "builtin1" (the paper's
   * single prompt), "builtin7" or "builtin80" (those of OpenAI's notebook for ImageNet). NULL:
   * "builtin7". */
  const char *templates;
  int all_names; /* prompts of every name of a class, not just the first */
  kf_repeats repeats;
  uint64_t reserved[4];
} kf_prompts_options;

/* Every name in every template, class by class. */
KF_API kf_status kf_prompts_new(kf_ctx *ctx, const kf_prompts_options *options, kf_prompts **out);
/* The lines of a text file as they are, without classes. */
KF_API kf_status kf_prompts_read(kf_ctx *ctx, const char *path, kf_prompts **out);
KF_API void kf_prompts_free(kf_prompts *prompts);
KF_API uint64_t kf_prompts_count(const kf_prompts *prompts);
KF_API const char *kf_prompts_text(const kf_prompts *prompts, uint64_t i);
KF_API int32_t kf_prompts_class(const kf_prompts *prompts, uint64_t i); /* KF_LABEL_NONE: none */
KF_API uint32_t kf_prompts_classes(const kf_prompts *prompts);          /* 0: no classes */
KF_API const char *kf_prompts_class_name(const kf_prompts *prompts, uint32_t k);

/* Encodes the prompts and averages them by class, as kf_text_new does. All embeddings are held in
 * memory. */
KF_API kf_status kf_text_new_from_prompts(kf_ctx *ctx, const kf_encoder *encoder,
                                          const kf_prompts *prompts, const kf_text_options *options,
                                          kf_text **out);
/* The mean of embedded texts, mean [dim], for kf_search_options.text_mean: that of a hundred
 * everyday things, "a photo of a dog" and so on. Texts about anything else lie around nearly the
 * same place. */
KF_API kf_status kf_encoder_text_mean(kf_ctx *ctx, const kf_encoder *encoder, double *mean);
/* Writes a data set with one row for each prompt, labelled with its class. */
KF_API kf_status kf_prompts_embed(kf_ctx *ctx, const kf_encoder *encoder, const kf_prompts *prompts,
                                  kf_dtype dtype, const char *path);

/* ---------------------------------------------------------------------------------------------
 * 12  Reader: rows of data, pictures or texts, block by block
 * ------------------------------------------------------------------------------------------ */

/* Pictures are read and embedded this many at a time: enough for all threads, and about a second's
 * work. */
#define KF_PICTURE_BLOCK 256u

/* Reads rows in order, without the bad ones. */
typedef struct kf_reader kf_reader;

typedef struct kf_reader_options {
  /* Rows at a time, at most; 0: about 16 MiB. At most KF_PICTURE_BLOCK pictures for each rank. */
  uint64_t block;
  int skip_bad; /* leave out pictures that cannot be read; a data set has its own option */
  uint64_t reserved[4];
} kf_reader_options;

/* Rows in hand, valid until the next call on the reader. */
typedef struct kf_reader_block {
  uint64_t first, taken;   /* rows first … first+taken-1 were read; taken 0: the end */
  uint64_t n;              /* good ones among them */
  const float *rows;       /* [n][dim] */
  const uint64_t *numbers; /* [n] number of each row in the data set, or of its picture */
  const int32_t *labels;   /* [n] of a data set that has labels; otherwise NULL */
  uint64_t reserved[3];
} kf_reader_block;

/* The data set, or encoder and pictures or texts, must outlive the reader. */
KF_API kf_status kf_reader_open_data(kf_ctx *ctx, const kf_data *data,
                                     const kf_reader_options *options, kf_reader **out);
KF_API kf_status kf_reader_open_pictures(kf_ctx *ctx, const kf_encoder *encoder,
                                         const kf_pictures *pictures,
                                         const kf_reader_options *options, kf_reader **out);
/* Texts (UTF-8) [n], at least one; their ids are the texts. */
KF_API kf_status kf_reader_open_texts(kf_ctx *ctx, const kf_encoder *encoder,
                                      const char *const *texts, uint64_t n,
                                      const kf_reader_options *options, kf_reader **out);
KF_API void kf_reader_free(kf_reader *reader);
KF_API uint64_t kf_reader_rows(const kf_reader *reader); /* all, bad ones included */
KF_API uint32_t kf_reader_dim(const kf_reader *reader);
KF_API uint64_t kf_reader_bad(const kf_reader *reader); /* left out so far */
/* The id of a picture, or the text, by its number; NULL for the rows of a data set. */
KF_API const char *kf_reader_id(const kf_reader *reader, uint64_t number);
/* The next block. A bad row or picture that is not skipped is KF_ERR_DATA naming it; so is a
 * picture whose embedding is zero. */
KF_API kf_status kf_reader_next(kf_ctx *ctx, kf_reader *reader, kf_reader_block *out);

/* ---------------------------------------------------------------------------------------------
 * 13  Quickstart: a folder of pictures to a classifier
 * ------------------------------------------------------------------------------------------ */

typedef struct kf_quickstart_options {
  const char *name;       /* what the pictures are called, on the page and in errors */
  const char *title;      /* of the page; NULL: "Koo-Fu report" */
  kf_switch text;         /* use class names as text; default: on, if most are words */
  const char *templates;  /* as in kf_prompts_options */
  kf_embed_options embed; /* how to embed the pictures */
  uint64_t reserved[8];
} kf_quickstart_options;

typedef struct kf_quickstart_result {
  kf_embed_report embed;
  uint64_t rows;                 /* in the model */
  uint32_t classes, dim_in, dim; /* of the model */
  uint64_t prompts;              /* that class names were embedded in; 0: no text */
  double lambda, alpha;
  /* Leave-one-out, with all dimensions: hits among n rows. n_single rows are alone in their class
   * and cannot be left out. */
  uint64_t n, n_single;
  uint64_t raw_top1;              /* nearest class mean, embeddings as they are; among raw_n */
  uint64_t top1;                  /* nearest class mean, Koo-Fu */
  uint64_t text_top1, fused_top1; /* with text: class names alone, and both together */
  /* Cross-validation: hits among dim_n rows with `fewer` dimensions and with all, which the model
   * has. Without text only. */
  uint32_t folds;
  uint64_t dim_n, dim_top1, all_top1;
  uint32_t fewer; /* the fewest that are shown to lose at most half a point (kf_dim_choice_new) */
  int many_near;  /* as in kf_fit_report */
  uint64_t n_compared, n_near;
  int text_reused; /* 1: the class names were embedded by an earlier run */
  uint64_t raw_n;  /* n, or a few more if there are thousands of classes */
  uint64_t reserved[3];
} kf_quickstart_result;

/* From pictures in class folders (kf_pictures_open) to a classifier. Writes into a folder, which is
 * made if it does not exist:
 *
 *     about.txt               what this folder is
 *     embeddings.safetensors  kf_embed, resumed if an earlier run was interrupted
 *     text.safetensors        text prototypes, if class names take part
 *     model.safetensors       kf_fit with everything chosen
 *     report.html             kf_report_write
 *
 * Embeddings and text of an earlier run into the same folder are reused where they are the same
 * (options->embed.resume). Class names take part if the encoder has a text tower and most of them are
 * words, not numbers. KF_ERR_DATA if fewer than two classes have pictures, or no class has two;
 * KF_ERR_ARG if the folder is among the pictures, or holds one of these files without an about.txt of
 * ours: what others made is not replaced. out may be NULL. */
KF_API kf_status kf_quickstart(kf_ctx *ctx, const kf_encoder *encoder, const kf_pictures *pictures,
                               const kf_quickstart_options *options, const char *folder,
                               kf_quickstart_result *out);
/* Fails as kf_quickstart does if it can be known without an encoder: pictures, templates, folder. */
KF_API kf_status kf_quickstart_check(kf_ctx *ctx, const kf_pictures *pictures,
                                     const kf_quickstart_options *options, const char *folder);

/* ---------------------------------------------------------------------------------------------
 * 14  Statistics: exact integer moments, to stream, merge and subtract
 * ------------------------------------------------------------------------------------------ */

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
 * name if both have names (if the two lists differ, the result has the union, sorted by bytes), by
 * index if neither has. Dimension, mode and exponent must agree. */
KF_API kf_status kf_stats_merge(kf_ctx *ctx, kf_stats *into, const kf_stats *other);
/* into -= other, exactly, for statistics of some of the same rows with the same classes. */
KF_API kf_status kf_stats_subtract(kf_ctx *ctx, kf_stats *into, const kf_stats *other);
KF_API kf_status kf_stats_save(kf_ctx *ctx, const kf_stats *stats, const char *path);
KF_API kf_status kf_stats_load(kf_ctx *ctx, const char *path, kf_stats **out);
/* The same in memory, as for models. */
KF_API kf_status kf_bytes_new_of_stats(kf_ctx *ctx, const kf_stats *stats, kf_bytes **out);
KF_API kf_status kf_stats_load_bytes(kf_ctx *ctx, const void *bytes, uint64_t n, kf_stats **out);
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
 * 15  A synthetic CLIP-like world (docs/synth.md)
 * ------------------------------------------------------------------------------------------ */

typedef struct kf_synth_options {
  uint64_t seed;
  uint32_t classes;   /* 0: 1000 */
  uint32_t dim;       /* 0: 512; 8 … 65,536 */
  uint64_t per_class; /* rows of each class; 0: 16 */
  uint32_t split;     /* 0: training rows; 1, 2, …: other rows of the same classes (tests) */
  uint64_t reserved[4];
} kf_synth_options;

/* A data set whose rows are made when they are asked for; the same bytes on every machine. Row i
 * belongs to class i mod K, so any prefix is nearly balanced. Class names are "c0000"…. */
KF_API kf_status kf_synth_open(kf_ctx *ctx, const kf_synth_options *options, kf_data **out);
/* The text prototypes of the same world, [K] rows in class order, labelled with their classes. */
KF_API kf_status kf_synth_open_text(kf_ctx *ctx, const kf_synth_options *options, kf_data **out);

/* ---------------------------------------------------------------------------------------------
 * 16  Files: what is in one, models for other programs, and writing files whole
 * ------------------------------------------------------------------------------------------ */

typedef struct kf_tensor_info {
  const char *name;
  const char *dtype; /* as the file spells it: "F16", "<f4" */
  uint32_t ndim;
  uint64_t shape[8];
} kf_tensor_info;

typedef struct kf_info {
  const char *format; /* "npy", "npz", "safetensors", "parquet", "fvecs", "fbin" (or "f16bin", …),
                       * "tar", "csv", "tsv", "text" */
  const char *kind;   /* "embeddings", "labels", "data set", "statistics", "model", "gallery",
                       * "answers" (of a search), "tensors", "table" (csv, tsv), "archive" (tar),
                       * "lines" (text) */
  uint64_t bytes;     /* size of the file */
  uint64_t rows;      /* rows, labels, lines or records; statistics: rows counted in */
  uint32_t dim;       /* 0: none */
  uint32_t classes;   /* 0: not known */
  uint32_t dim_out;   /* model, and gallery: of its own rows */
  int ids;            /* data set and gallery: rows have ids */
  int normalized;     /* statistics and model; -1 elsewhere */
  int exponent;       /* statistics only */
  double lambda;      /* model only */
  size_t n_tensors;   /* arrays of an .npz; fields of the first line of a table, type "text";
                       * columns of a .parquet, types in words ("list of f32") */
  const kf_tensor_info *tensors;
  size_t n_meta; /* metadata of .safetensors, sorted by key */
  const char *const *meta_keys;
  const char *const *meta_values;
  double temperature;          /* model only; 0: not known */
  double reject, reject_share; /* model only, as kf_model_reject */
  const char *encoder;         /* that made the embeddings (see kf_origin); NULL: not known */
  uint64_t encoder_checksum;
  kf_method method; /* model only; KF_METHOD_DEFAULT elsewhere */
  kf_priors priors; /* model only; KF_PRIORS_DEFAULT elsewhere */
} kf_info;

/* Describes any file that koofu reads or writes, from its header (text: from all of it). Statistics
 * and models are loaded whole, so a description also says that the file is sound. */
KF_API kf_status kf_info_read(kf_ctx *ctx, const char *path, kf_info **out);
KF_API void kf_info_free(kf_info *info);
/* The value of metadata by its key; NULL: there is none. */
KF_API const char *kf_info_meta(const kf_info *info, const char *key);
/* kf_info_read, and everything else that can be known of the file without another one: every row is
 * read and must be finite and have a length, every label must be a class, every id be text; an array of
 * an .npz must have its checksum, an archive its end. KF_ERR_DATA says what is wrong first. Progress is
 * "verify". */
KF_API kf_status kf_verify(kf_ctx *ctx, const char *path, kf_info **out);

typedef struct kf_export_options {
  /* What is computed, as in kf_transform_options and kf_classify_options: for .onnx, .h and .c;
   * `metric` and `raw` also for .faiss, where the metric may be KF_METRIC_INNER. */
  kf_switch normalize;
  kf_metric metric;
  int raw;
  kf_part part;
  double temperature;
  /* .faiss: a gallery whose rows are in the index; NULL: it is empty. It must have been made with
   * the model or, with `raw`, without one; its metric is that of the index. Rows are streamed; memory
   * is what its labels and ids take. */
  const char *gallery;
  /* .onnx: matrices are in PATH.data instead if the file would be larger; 0: 2 GiB, the most that
   * such a file can have. */
  uint64_t inline_bytes;
  int single; /* .onnx: 1: compute in f32, for runtimes without f64; the last digits differ then */
  /* Folder: what README.md says of the licence ("mit") and of the encoder's page
   * ("openai/clip-vit-base-patch32"); NULL: nothing. */
  const char *license, *base_model;
  uint64_t reserved[4];
} kf_export_options;

/* Writes a model for other programs, by the ending of the path (docs/export.md):
 *
 *     .onnx   a graph, rows [N, D] -> mapped [N, L], scores and probabilities [N, K]; class names in
 *             the metadata; operators of version 17
 *     .faiss  an index that maps its queries, empty or over the rows of a gallery
 *     .npz    the arrays of the model
 *     .h .c   C99 that needs no library; a .c comes with a .h
 *     folder  for a model hub: model.safetensors, config.json, README.md; the name has no ending or
 *             ends in /. It is made if it does not exist. Files of others are not replaced
 *             (KF_ERR_ARG), and a README.md is left as it is
 *
 * Classes are those that take part, in the order of their numbers. Probabilities are left out, which
 * is logged, if there is no temperature for these scores. Zero rows, which kf_transform refuses, give
 * zeros. Files that belong together appear together. KF_ERR_ARG if the ending is not known, or if an
 * option makes no sense for it. */
KF_API kf_status kf_export(kf_ctx *ctx, const kf_model *model, const kf_export_options *options,
                           const char *path);

/* A file of the caller, written as the library writes its own: it has no name until it is complete,
 * and then replaces an older one in a single step. */
typedef struct kf_output kf_output;

/* KF_ERR_IO if no file can be put there. A link is followed, even to a file that does not exist. */
KF_API kf_status kf_output_open(kf_ctx *ctx, const char *path, kf_output **out);
/* n bytes at the end. After a failure, all calls but kf_output_free fail with the same error. */
KF_API kf_status kf_output_write(kf_ctx *ctx, kf_output *output, const void *bytes, uint64_t n);
/* n bytes at any place; what is left out before them is zeros. */
KF_API kf_status kf_output_write_at(kf_ctx *ctx, kf_output *output, uint64_t offset,
                                    const void *bytes, uint64_t n);
/* KF_OK: the file is in its place, and on the disk. Otherwise the older one, if any, is as it was.
 * Frees `output` in any case. If only the folder cannot be synced, so that a power cut might bring
 * the older file back, that is logged. */
KF_API kf_status kf_output_commit(kf_ctx *ctx, kf_output *output);
/* Discards a file that was not committed. */
KF_API void kf_output_free(kf_output *output);

/* A table of the caller, such as the answers of a search, written as .parquet record by record. Some
 * 32 MiB of records are kept in memory at a time. */
typedef struct kf_records kf_records;
typedef enum kf_column_type {
  KF_COLUMN_TEXT = 0, /* UTF-8 */
  KF_COLUMN_INTEGER = 1,
  KF_COLUMN_REAL = 2
} kf_column_type;
typedef struct kf_column {
  const char *name;
  kf_column_type type;
  uint64_t reserved[2];
} kf_column;
/* A value of a record: what the type of its column says, or null. */
typedef struct kf_cell {
  const char *text;
  int64_t integer;
  double real;
  int null;
  uint64_t reserved[2];
} kf_cell;

/* columns: [n], copied. */
KF_API kf_status kf_records_open(kf_ctx *ctx, const char *path, const kf_column *columns, size_t n,
                                 kf_records **out);
/* cells: one for each column. */
KF_API kf_status kf_records_add(kf_ctx *ctx, kf_records *records, const kf_cell *cells);
/* As kf_output_commit: frees `records` in any case. */
KF_API kf_status kf_records_commit(kf_ctx *ctx, kf_records *records);
KF_API void kf_records_free(kf_records *records);

/* Several files together. Between kf_outputs_begin and kf_outputs_commit, every file that a call on
 * this context writes is complete, but waits; kf_outputs_commit puts all of them in their places or,
 * if one cannot be, none. Until then their paths are those of older files, so kf_embed and
 * kf_quickstart, which read what they wrote, are KF_ERR_ARG. kf_ctx_free aborts. */
KF_API kf_status kf_outputs_begin(kf_ctx *ctx);
KF_API kf_status kf_outputs_commit(kf_ctx *ctx);
KF_API void kf_outputs_abort(kf_ctx *ctx); /* discards them; does nothing if none have begun */

#ifdef __cplusplus
}
#endif

#include "koofu_comm.h"
#include "koofu_judge.h"

#endif
