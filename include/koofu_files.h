/* koofu_files.h - statistics, accessors for experts, and files: inspect, export, write.
 *
 * SPDX-License-Identifier: Apache-2.0
 *
 * A part of the manual; koofu.h has the rules.
 *
 *     1  Data sets: arrays of any layout, rows on demand
 *     2  Models: in memory, all their parts
 *     3  Galleries: changes, near-duplicates, all their parts
 *     4  Statistics: exact integer moments, to stream, merge and subtract
 *     5  Origin: which encoder made the rows
 *     6  What is in a file
 *     7  Export: models for other programs
 *     8  Writing files whole
 *     9  Names and strings
 *    10  A synthetic CLIP-like world
 *    11  Experimental: hints, several files together, batches */
#ifndef KOOFU_FILES_H
#define KOOFU_FILES_H

#include "koofu.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------------------------------------
 * 1  Data sets: arrays of any layout, rows on demand
 * ------------------------------------------------------------------------------------------ */

/* Rows in the caller's memory. Strides are in bytes and may be negative; both 0: the array is
 * contiguous. Addresses need not be aligned. */
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

/* As kf_data_open_memory, over the rows of several arrays in turn, of any float types: rows are
 * converted block by block as needed. Rows, labels and ids must outlive the data set and stay
 * unchanged. */
KF_API kf_status kf_data_open_arrays(kf_ctx *ctx, const kf_array *arrays, size_t n_arrays,
                                     uint32_t dim, const kf_array_options *options, kf_data **out);

/* Copies rows first … first+n-1 of a data set, wherever they are stored, into rows [n][dim]. A
 * non-zero return means that it failed, which is KF_ERR_IO. Called from several threads at the
 * same time, in any order, and for any row any number of times; a row must always be the same. */
typedef int (*kf_rows_fn)(void *user, uint64_t first, uint64_t n, float *rows);
/* A data set of n rows that a callback supplies on demand, such as those of a database table.
 * `user` is passed to `bring`. */
KF_API kf_status kf_data_open_rows(kf_ctx *ctx, uint64_t n, uint32_t dim, kf_rows_fn bring,
                                   void *user, const kf_array_options *options, kf_data **out);

/* The label of every row, [rows]. Rows are not read, so none is KF_LABEL_BAD. */
KF_API kf_status kf_data_labels(kf_ctx *ctx, const kf_data *data, int32_t *labels);
KF_API uint64_t kf_data_unlabelled(const kf_data *data); /* rows with the label KF_LABEL_NONE */

/* Whether the rows come from a gallery and have already been mapped (1 or 0). Functions that would
 * map them again fail. */
KF_API int kf_data_mapped(const kf_data *data);

/* Whether writing to `path` would replace a file that the data set reads (1 or 0). kf_data_save
 * and kf_transform_data refuse to; check before writing other files near the data. */
KF_API int kf_data_reads(const kf_data *data, const char *path);

/* ---------------------------------------------------------------------------------------------
 * 2  Models: in memory, all their parts
 * ------------------------------------------------------------------------------------------ */

/* The bytes of a file, in memory. */
typedef struct kf_bytes kf_bytes;
KF_API const void *kf_bytes_data(const kf_bytes *bytes);
KF_API uint64_t kf_bytes_size(const kf_bytes *bytes);
KF_API void kf_bytes_free(kf_bytes *bytes);
/* kf_model_save and kf_model_load in memory: the bytes are those of the file. The buffer may be
 * freed after loading. */
KF_API kf_status kf_bytes_new_of_model(kf_ctx *ctx, const kf_model *model, kf_bytes **out);
KF_API kf_status kf_model_load_bytes(kf_ctx *ctx, const void *bytes, uint64_t n, kf_model **out);

KF_API int kf_model_normalized(const kf_model *model); /* rows are scaled to unit length first */
KF_API kf_centre kf_model_centre(const kf_model *model);
KF_API kf_method kf_model_method(const kf_model *model);       /* never KF_METHOD_DEFAULT */
KF_API kf_priors kf_model_priors(const kf_model *model);       /* never KF_PRIORS_DEFAULT */
KF_API double kf_model_mean_eigenvalue(const kf_model *model); /* of S_w */
/* Arrays owned by the model. */
KF_API const double *kf_model_within_eigenvalues(const kf_model *model);  /* of S_w, falling, [D] */
KF_API const double *kf_model_between_eigenvalues(const kf_model *model); /* gamma, falling, [D] */
KF_API const float *kf_model_class_means(const kf_model *model); /* original space, [K][D] */
/* Lengths of the mapped class means, which kf_model_prototypes has at unit length, [K]. */
KF_API const double *kf_model_prototype_lengths(const kf_model *model);

/* ---------------------------------------------------------------------------------------------
 * 3  Galleries: changes, near-duplicates, all their parts
 * ------------------------------------------------------------------------------------------ */

/* Batches of added rows that a gallery remembers (kf_gallery_options.again). */
#define KF_MAX_BATCHES 64

/* What a call did to a gallery. */
struct kf_gallery_change {
  uint64_t rows;           /* of the gallery afterwards */
  uint64_t added, removed; /* rows */
  uint64_t missing;        /* ids to remove that no row has */
  uint64_t bytes;          /* written */
  uint64_t changes;        /* files of changes afterwards */
  uint64_t reserved[4];
};

/* Changing a gallery. Its file is never rewritten: each change (rows added, rows removed) is a
 * file in the folder "PATH.changes", which belongs to the gallery (docs/formats.md). A change
 * appears whole or not at all, and is on disk when the call returns. Readers see the file with all
 * changes: rows are numbered in the order in which they were added, without the removed ones, and
 * every answer is that of a gallery made of these rows. Writers lock the gallery, so of two calls
 * one waits; readers need no lock. KF_ERR_IO if the file system has no locks, or if something else
 * replaced the gallery in the meantime.
 *
 * Rows are added by kf_gallery_save with append_to. kf_gallery_remove removes all rows with these
 * ids. Ids that no row has are counted, not an error, so a removal can be repeated; if no row has
 * any, nothing is written. The last row cannot be removed (KF_ERR_ARG). change may be NULL.
 * Memory: that of the gallery's ids. */
KF_API kf_status kf_gallery_remove(kf_ctx *ctx, const char *path, const kf_id_list *ids,
                                   kf_gallery_change *change);
/* Merges a gallery and its changes into one file, the same as a gallery written from these rows at
 * once, except that it still remembers the added batches. Readers may go on reading. */
KF_API kf_status kf_gallery_compact(kf_ctx *ctx, const char *path, kf_gallery_change *change);

/* kf_gallery_within for rows first … first+n-1 of the gallery, each left out of its own answer.
 * only: which rows may be found; NULL: all. */
KF_API kf_status kf_gallery_within_itself(kf_ctx *ctx, const kf_gallery *gallery, uint64_t first,
                                          uint64_t n, double limit, const kf_filter *only,
                                          kf_ranges **out, kf_search_report *report);

/* What kf_gallery_unique found. */
typedef struct kf_unique {
  uint64_t groups; /* of two or more rows */
  uint64_t copies; /* rows that are not the first of their group */
  uint64_t pairs;  /* of two rows that are near enough */
  uint64_t reserved[3];
} kf_unique;
/* Groups of near-duplicates: rows within `limit` of each other (as in kf_gallery_within) are in one
 * group, and so are rows connected by a chain of such pairs. first[i]: the lowest row of the group
 * of row i; i itself if it is alone or the first. */
KF_API kf_status kf_gallery_unique(kf_ctx *ctx, const kf_gallery *gallery, double limit,
                                   uint64_t *first, kf_unique *found);

/* The type of its rows: KF_F32, KF_F16 or KF_BF16. */
KF_API kf_dtype kf_gallery_dtype(const kf_gallery *gallery);
/* Whether it has a map for its queries (1 or 0). */
KF_API int kf_gallery_mapped(const kf_gallery *gallery);
/* The number of neighbours that should vote; 0: not known. */
KF_API uint32_t kf_gallery_k(const kf_gallery *gallery);
/* Whether its map is that of the model, bit for bit (1 or 0). */
KF_API int kf_gallery_made_with(const kf_gallery *gallery, const kf_model *model);
/* For several galleries loaded as one: returns which of them holds the row (0: the first), and
 * stores the row's number in that gallery in *own (or NULL). */
KF_API uint64_t kf_gallery_file_of(const kf_gallery *gallery, uint64_t row, uint64_t *own);
/* The index over its rows, for queries in its own space. Owned by the gallery. */
KF_API const kf_index *kf_gallery_index(const kf_gallery *gallery);
KF_API kf_metric kf_index_metric(const kf_index *index); /* never KF_METRIC_DEFAULT */
KF_API uint64_t kf_index_bytes(const kf_index *index);   /* memory that the index holds */

/* ---------------------------------------------------------------------------------------------
 * 4  Statistics: exact integer moments, to stream, merge and subtract
 * ------------------------------------------------------------------------------------------ */

/* Empty statistics for rows of `dim` values in `n_classes` classes (names: [n_classes] or NULL). */
KF_API kf_status kf_stats_new(kf_ctx *ctx, uint32_t dim, uint32_t n_classes,
                              const char *const *names, const kf_stats_options *options,
                              kf_stats **out);
/* Adds n rows [n][dim] with labels [n]; rows labelled KF_LABEL_NONE or KF_LABEL_BAD are left out.
 * On failure nothing is added. */
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
/* The same in memory, as kf_bytes_new_of_model and kf_model_load_bytes. */
KF_API kf_status kf_bytes_new_of_stats(kf_ctx *ctx, const kf_stats *stats, kf_bytes **out);
KF_API kf_status kf_stats_load_bytes(kf_ctx *ctx, const void *bytes, uint64_t n, kf_stats **out);
KF_API void kf_stats_free(kf_stats *stats);
/* kf_fit from statistics alone, without rows to choose by: lambda, and alpha with text, are given
 * or those of options->like. Otherwise lambda is 0.3 times the mean eigenvalue, and without alpha
 * text is an error. */
KF_API kf_status kf_fit_stats(kf_ctx *ctx, const kf_stats *stats, const kf_fit_options *options,
                              kf_model **out);

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
 * 5  Origin: which encoder made the rows
 * ------------------------------------------------------------------------------------------ */

/* Which encoder made the rows of an object.
 *
 * Embeddings of different encoders cannot be compared, even if they have the same dimension. Files
 * written by kf_embed and kf_prompts_embed name their encoder; statistics, text, models, galleries
 * and files made from them inherit it. Where two of these are combined (statistics that are
 * merged, files of one data set, a model and rows or text, a gallery and queries) and both
 * encoders are known, they must be the same: otherwise it is KF_ERR_DATA, unless
 * kf_ctx_options.any_encoder is set. What has no origin, such as files from other programs, may be
 * combined with anything. For rows that were mapped (by kf_transform_data, or in a gallery with a
 * map) the map counts as the encoder: they match rows of the same map and models fitted to such
 * rows, and a model refuses rows that it mapped itself. */
typedef struct kf_origin kf_origin;

/* Each of these is NULL if the encoder is not known, and owned by the object. */
KF_API const kf_origin *kf_data_origin(const kf_data *data);
KF_API const kf_origin *kf_stats_origin(const kf_stats *stats);
KF_API const kf_origin *kf_text_origin(const kf_text *text);
KF_API const kf_origin *kf_model_origin(const kf_model *model);
KF_API const kf_origin *kf_gallery_origin(const kf_gallery *gallery);
/* The name of the encoder's folder; NULL if origin is NULL. */
KF_API const char *kf_origin_name(const kf_origin *origin);
/* A checksum of the encoder's model: of the settings of its towers and a sample of each tensor.
 * Independent of which towers are loaded, of the precision and of the number of files. 0 if origin
 * is NULL. */
KF_API uint64_t kf_origin_checksum(const kf_origin *origin);
/* KF_ERR_DATA if both are known and differ. For callers of kf_classify, kf_transform or
 * kf_gallery_search, who alone know the encoder of rows in memory. */
KF_API kf_status kf_origins_agree(kf_ctx *ctx, const kf_origin *a, const kf_origin *b);

/* ---------------------------------------------------------------------------------------------
 * 6  What is in a file
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
  uint64_t rows;      /* rows, labels, lines or records; statistics: rows added */
  uint32_t dim;       /* 0: none */
  uint32_t classes;   /* 0: not known */
  uint32_t dim_out;   /* model, and gallery: of its own rows */
  int ids;            /* data set and gallery: rows have ids */
  int normalized;     /* statistics and model; -1 elsewhere */
  int exponent;       /* statistics only */
  double lambda;      /* model only */
  size_t n_tensors;   /* arrays of an .npz; columns of a .parquet, types in words ("list of
                       * f32"), and of a .csv or .tsv that is read as rows, "number" or "text";
                       * of another table the fields of the first line, "text" */
  const kf_tensor_info *tensors;
  size_t n_meta; /* metadata of .safetensors, sorted by key */
  const char *const *meta_keys;
  const char *const *meta_values;
  double temperature;          /* model only; 0: not known */
  double reject, reject_share; /* model only, as kf_model_reject */
  const char *encoder;         /* as kf_origin_name; NULL: not known */
  uint64_t encoder_checksum;
  kf_method method; /* model only; KF_METHOD_DEFAULT elsewhere */
  kf_priors priors; /* model only; KF_PRIORS_DEFAULT elsewhere */
} kf_info;

/* Describes any file that koofu reads or writes, from its header (text: from all of it).
 * Statistics and models are loaded whole, so a description also means that the file is valid. */
KF_API kf_status kf_info_read(kf_ctx *ctx, const char *path, kf_info **out);
KF_API void kf_info_free(kf_info *info);
/* The value of a metadata key; NULL: no such key. */
KF_API const char *kf_info_meta(const kf_info *info, const char *key);
/* kf_info_read, and every check that needs no other file: all rows must be finite and non-zero,
 * all labels be classes, all ids be UTF-8, arrays of an .npz must match their checksums and
 * archives be complete. KF_ERR_DATA names the first fault. The progress stage is "verify". */
KF_API kf_status kf_verify(kf_ctx *ctx, const char *path, kf_info **out);

/* ---------------------------------------------------------------------------------------------
 * 7  Export: models for other programs (docs/export.md)
 * ------------------------------------------------------------------------------------------ */

typedef struct kf_export_options {
  /* What is computed, as in kf_transform_options and kf_classify_options: for .onnx, .h and .c;
   * `metric` and `raw` also for .faiss, where the metric may be KF_METRIC_INNER. */
  kf_switch normalize;
  kf_metric metric;
  int raw;
  kf_part part;
  double temperature;
  /* .faiss: a gallery whose rows go into the index; NULL: the index is empty. It must have been
   * made with the model or, with `raw`, without one; the index takes its metric. Rows are
   * streamed; memory is that of its labels and ids. */
  const char *gallery;
  /* .onnx: if the file would be larger, matrices go to PATH.data; 0: 2 GiB, the limit of the
   * format. */
  uint64_t inline_bytes;
  int single; /* .onnx: 1: compute in f32, for runtimes without f64; the last digits differ then */
  /* Folder: licence ("mit") and model page of the encoder ("openai/clip-vit-base-patch32") for
   * README.md; NULL: not mentioned. */
  const char *license, *base_model;
  uint64_t reserved[4];
} kf_export_options;

/* Writes a model for other programs, by the extension of the path (docs/export.md):
 *
 *     .onnx   a graph, rows [N, D] -> mapped [N, L], scores and probabilities [N, K]; class names
 *             in the metadata; opset 17
 *     .faiss  an index that maps its queries, empty or over the rows of a gallery
 *     .npz    the arrays of the model
 *     .h .c   C99 without dependencies; a .c comes with a .h
 *     folder  for a model hub: model.safetensors, config.json, README.md; the name has no extension
 *             or ends in /. Created if missing. Files that koofu did not write are not
 *             replaced (KF_ERR_ARG), and an existing README.md is kept
 *
 * Only classes that take part are exported, in the order of their numbers. Without a temperature
 * for these scores probabilities are left out, which is logged. Zero rows, which kf_transform
 * refuses, give zeros. If there are several files, all appear or none. KF_ERR_ARG if the extension
 * is not known or an option does not apply to it. */
KF_API kf_status kf_export(kf_ctx *ctx, const kf_model *model, const kf_export_options *options,
                           const char *path);

/* ---------------------------------------------------------------------------------------------
 * 8  Writing files whole
 * ------------------------------------------------------------------------------------------ */

/* A file of the caller, written as the library writes its own: it is invisible until it is
 * complete, and then atomically replaces an older one. */
typedef struct kf_output kf_output;

/* KF_ERR_IO if no file can be created there. A symbolic link is followed, even if its target does
 * not exist. */
KF_API kf_status kf_output_open(kf_ctx *ctx, const char *path, kf_output **out);
/* Appends n bytes. After a failure, all calls except kf_output_free fail with the same error. */
KF_API kf_status kf_output_write(kf_ctx *ctx, kf_output *output, const void *bytes, uint64_t n);
/* Writes n bytes at any offset; gaps are zeros. */
KF_API kf_status kf_output_write_at(kf_ctx *ctx, kf_output *output, uint64_t offset,
                                    const void *bytes, uint64_t n);
/* KF_OK: the file is in its place and on disk. Otherwise an older file is unchanged. Frees
 * `output` in either case. If only the folder cannot be synced, so that a power cut might restore
 * the older file, that is logged. */
KF_API kf_status kf_output_commit(kf_ctx *ctx, kf_output *output);
/* Discards the file. */
KF_API void kf_output_free(kf_output *output);

/* A table of the caller, such as the answers of a search, written as .parquet record by record.
 * Uses about 32 MiB of memory. */
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
/* A value: the member for the type of its column, or null. */
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
/* As kf_output_commit; frees `records` in either case. */
KF_API kf_status kf_records_commit(kf_ctx *ctx, kf_records *records);
KF_API void kf_records_free(kf_records *records);

/* ---------------------------------------------------------------------------------------------
 * 9  Names and strings
 * ------------------------------------------------------------------------------------------ */

KF_API const char *kf_dtype_name(kf_dtype dtype); /* "f32", "f16", "bf16", "f64" */
/* "default", "cosine", "euclidean", "inner"; NULL for any other number. */
KF_API const char *kf_metric_name(kf_metric metric);
/* Reads "auto", "150" (absolute), "0.3x" (relative), "gda" or "ledoit-wolf". */
KF_API kf_status kf_lambda_parse(kf_ctx *ctx, const char *text, kf_lambda *out);

/* Names, ids and paths come from files and may contain anything, such as characters that control a
 * terminal or reverse the direction of text. Messages and notes of the library are safe; escape
 * other strings before they reach a terminal or a log:
 *
 *     char shown[KF_SHOWN_SIZE];
 *     for (size_t at = 0; kf_escape_next(name, &at, shown) > 0;) fputs(shown, stdout);
 *
 * Writes the character at text[*at] to `shown`, with a NUL, as it is or escaped, moves *at past it
 * and returns the length of `shown`; 0 at the end. The escapes are \t, \n and \r; \x1b for other
 * ASCII controls, and for bytes (80 to ff) that are not valid UTF-8; \u{202e} for other controls
 * and for format characters (Unicode category Cf, U+2028, U+2029), except the joiners U+200C and
 * U+200D between two visible characters that are not ASCII. A backslash is not escaped; a caller
 * who doubles it can undo the escapes. */
#define KF_SHOWN_SIZE 16
KF_API size_t kf_escape_next(const char *text, size_t *at, char shown[KF_SHOWN_SIZE]);

/* ---------------------------------------------------------------------------------------------
 * 10  A synthetic CLIP-like world (docs/synth.md)
 * ------------------------------------------------------------------------------------------ */

typedef struct kf_synth_options {
  uint64_t seed;
  uint32_t classes;   /* 0: 1000 */
  uint32_t dim;       /* 0: 512; 8 … 65,536 */
  uint64_t per_class; /* rows of each class; 0: 16 */
  uint32_t split;     /* 0: training rows; 1, 2, …: other rows of the same classes (tests) */
  uint64_t reserved[4];
} kf_synth_options;

/* A data set whose rows are generated on demand, with the same bytes on every machine. Row i
 * belongs to class i mod K, so any prefix is nearly balanced. Class names are "c0000"…. */
KF_API kf_status kf_synth_open(kf_ctx *ctx, const kf_synth_options *options, kf_data **out);
/* The text prototypes of the same world, [K] rows in class order, labelled with their classes. */
KF_API kf_status kf_synth_open_text(kf_ctx *ctx, const kf_synth_options *options, kf_data **out);

/* ---------------------------------------------------------------------------------------------
 * 11  Experimental: hints, several files together, batches
 * ------------------------------------------------------------------------------------------ */
#ifdef KF_EXPERIMENTAL

/* What the caller can do about an error, as a number. Messages are about the library; a program on
 * top of it adds the hint in its own terms. */
typedef enum kf_hint {
  KF_HINT_NONE = 0,
  KF_HINT_SKIP_BAD = 1,        /* kf_data_options.skip_bad skips such rows */
  KF_HINT_SKIP_UNLABELLED = 2, /* kf_data_options.allow_unlabelled: KF_LABEL_NONE instead */
  KF_HINT_SKIP_UNKNOWN = 3,    /* kf_data_options.allow_unknown: KF_LABEL_NONE instead */
  KF_HINT_LABELS = 4,          /* kf_data_options.labels: a label file */
  KF_HINT_CLASSES = 5,         /* kf_data_options.classes: the names that class numbers stand for */
  KF_HINT_TENSOR = 6,          /* kf_data_options.tensor: which tensor holds the rows */
  KF_HINT_LABEL_TENSOR = 7,    /* kf_data_options.label_tensor: which tensor holds the labels */
  KF_HINT_PICTURES = 8,        /* these are pictures: kf_embed turns them into rows */
  KF_HINT_PER_CLASS = 9,       /* kf_text_options.per_class: how many rows each class has */
  KF_HINT_EXPONENT = 10,       /* kf_stats_options.exponent: one that fits both */
  KF_HINT_TRUTH_CLASSES = 11, /* kf_truth_options.classes: the names that class numbers stand for */
  KF_HINT_TRUTH_IDS = 12,     /* kf_truth_options.ids: the ids of the rows */
  KF_HINT_ROWS = 13,          /* needs the rows themselves, not statistics */
  KF_HINT_LAMBDA = 14,        /* kf_fit_options.lambda: give another one */
  KF_HINT_ALPHA = 15,         /* kf_fit_options.alpha: give it as a number */
  KF_HINT_NO_RESUME = 16,     /* kf_embed_options.resume: off, to start again */
  KF_HINT_SKIP_PICTURES = 17, /* kf_embed_options.skip_bad skips such pictures */
  KF_HINT_MAX_PIXELS = 18,    /* kf_encoder_options.max_pixels: allow larger pictures */
  KF_HINT_SPOKEN = 19,        /* kf_prompts_options.spoken: a file with what to call each class */
  KF_HINT_REPEATS = 20,       /* kf_prompts_options.repeats: allow it, or set `spoken` */
  KF_HINT_METHOD = 21,        /* kf_fit_options.method: KF_METHOD_PAPER */
  KF_HINT_TEMPERATURE = 22,   /* kf_classify_options.temperature */
  KF_HINT_ORDER = 23,         /* kf_data_options.order: the order of the files */
  KF_HINT_LABEL_COLUMN = 24,  /* kf_data_options.label_column: which column holds the labels */
  KF_HINT_ANY_ENCODER = 25,   /* kf_ctx_options.any_encoder: mix encoders */
  KF_HINT_CENTRE = 26,        /* kf_fit_options.centre: KF_CENTRE_MEAN */
  KF_HINT_OTHER_NAME = 27,    /* write to another file than the input */
  KF_HINT_COMPACT = 28,       /* kf_gallery_compact: merge the changes into the file */
  KF_HINT_ID_COLUMN = 29      /* kf_pictures_options.id_column: which column names the pictures */
} kf_hint;
/* The hint of the last call on this context, if it failed; otherwise KF_HINT_NONE. ctx may be
 * NULL. */
KF_API kf_hint kf_errhint(const kf_ctx *ctx);

/* Several files as one transaction: files written by calls on this context after kf_outputs_begin
 * stay invisible until kf_outputs_commit, which puts all of them in place or, if one fails, none.
 * Until then their paths name the older files, so kf_embed and kf_quickstart, which read what they
 * wrote, are KF_ERR_ARG. kf_ctx_free aborts. */
KF_API kf_status kf_outputs_begin(kf_ctx *ctx);
KF_API kf_status kf_outputs_commit(kf_ctx *ctx);
/* Discards them; a no-op outside of a transaction. */
KF_API void kf_outputs_abort(kf_ctx *ctx);

/* A good number of queries per call of a search. */
KF_API uint64_t kf_gallery_batch(const kf_ctx *ctx, const kf_gallery *gallery);

#endif

#ifdef __cplusplus
}
#endif

#endif
