/* file_internal.h - what the files of this room share; no other room sees it. */
#ifndef KF_FILE_INTERNAL_H
#define KF_FILE_INTERNAL_H

#include "file/file.h"

/* --- paths (paths.c) ------------------------------------------------------------------------- */

typedef enum kf_format {
  KF_FORMAT_NPY,
  KF_FORMAT_SAFETENSORS,
  KF_FORMAT_FVECS,
  KF_FORMAT_FBIN,
  KF_FORMAT_OTHER /* labels: text */
} kf_format;
/* By the ending of the path. */
kf_format kf_format_of(const char *path);

typedef struct kf_paths {
  char **path;
  size_t n, room;
} kf_paths;
/* Replaces folders and patterns by the files they stand for. */
/* Label files are never folders, and a pattern without a match is kept: opening it then fails. */
kf_status kf_paths_expand(const char *const *given, size_t n, bool labels, kf_paths *out,
                          kf_err *err);
void kf_paths_clear(kf_paths *paths);

/* --- safetensors ----------------------------------------------------------------------------- */

#define KF_HEADER_CAP 100000000u /* that of the reference implementation */

/* "F32"; not for KF_TYPE_OTHER. */
const char *kf_st_type_name(kf_type type);

/* --- integers (type.c) ----------------------------------------------------------------------- */

/* Converts n elements of an integer type; values above INT64_MAX become INT64_MAX. */
void kf_decode_i64(kf_type type, const void *in, size_t n, int64_t *out);

/* --- tables: the rows in one file (table.c, vecs.c) ------------------------------------------ */

typedef enum kf_layout {
  KF_LAYOUT_ROWS,       /* row after row */
  KF_LAYOUT_COLUMNS,    /* column after column: Fortran order */
  KF_LAYOUT_TAGGED_ROWS /* row after row, each after an int32 that repeats the dimension: .fvecs */
} kf_layout;

typedef struct kf_table {
  uint64_t rows;
  uint32_t dim;
  kf_type type;
  kf_layout layout;
  uint64_t offset; /* of the first row */
} kf_table;
/* Sets the size of a table; fails if there are no rows, no columns, or too many columns. */
kf_status kf_table_size(kf_table *table, const char *path, uint64_t rows, uint64_t dim,
                        kf_err *err);
/* Reads rows [first, first + n), which must exist. */
kf_status kf_table_fetch(const kf_table *table, const kf_in *in, const kf_kernels *kernels,
                         uint64_t first, uint64_t n, float *rows, kf_err *err);

/* The file must be closed after a failure, too. */
kf_status kf_fvecs_open(kf_in *in, kf_table *table, const char *path, kf_err *err);
kf_status kf_fbin_open(kf_in *in, kf_table *table, const char *path, kf_err *err);

/* --- text, line by line (lines.c) ------------------------------------------------------------ */

/* The longest line, in bytes, without its end. */
#define KF_LINE_MAX 65536

typedef struct kf_lines {
  const kf_in *in;
  uint64_t position;            /* in the file, of the first byte not yet in the buffer */
  uint64_t line;                /* lines before the next one */
  size_t begin, end;            /* what is left in the buffer */
  char buffer[KF_LINE_MAX + 5]; /* a byte order mark, a line and "\r\n" */
} kf_lines;
/* Starts at the offset of line `line` (from 0); offset 0 skips a byte order mark. */
void kf_lines_start(kf_lines *lines, const kf_in *in, uint64_t offset, uint64_t line);
/* The offset of the next line. */
uint64_t kf_lines_offset(const kf_lines *lines);
/* The next line, without its end and without NUL, valid until the next call; *text is NULL at the end
 * of the file. lines->line is then its number, from 1. */
kf_status kf_lines_next(kf_lines *lines, const char **text, size_t *length, kf_err *err);

/* --- labels (labels.c) ----------------------------------------------------------------------- */

/* The labels in one file: a label file or a data file. */
typedef struct kf_labels {
  kf_in own;       /* a label file; no path: the labels are in a data file */
  const kf_in *in; /* where to read; NULL: no labels */
  kf_type type;    /* KF_TYPE_OTHER: text */
  uint64_t offset; /* integers: of the first */
  uint64_t count;
  uint64_t *index; /* text: the offsets of lines 0, KF_LABEL_STEP, 2 * KF_LABEL_STEP, … */
  size_t n_index, index_room;
} kf_labels;

/* Text cannot be read from the middle, so the offset of every KF_LABEL_STEP-th line is kept. A fetch
 * then skips half a step on average; the memory is a hundredth of a byte per row. */
#define KF_LABEL_STEP 1024

/* How labels become class numbers. */
typedef struct kf_label_rules {
  bool allow_unlabelled; /* negative numbers and empty lines */
  bool allow_unknown;    /* labels that are not in the list of names */
  uint32_t n_names;      /* 0: no names, every number up to KF_MAX_CLASSES is a class */
  char *names_from;      /* the file with the names */
  kf_dict *map;          /* text: name to number; NULL while names are collected */
} kf_label_rules;

typedef struct kf_label_census {
  int64_t largest; /* class number; -1: none */
  uint64_t unlabelled;
  kf_name_set found; /* text labels without a list of names */
} kf_label_census;

/* Opens a label file: .npy, or text with any other ending that is not a data format. It must be closed
 * even after a failure. */
kf_status kf_labels_open(kf_labels *labels, const char *path, kf_err *err);
/* Labels in a tensor of a data file. */
kf_status kf_labels_open_tensor(kf_labels *labels, const kf_in *in, const kf_st_tensor *tensor,
                                kf_err *err);
void kf_labels_close(kf_labels *labels);
bool kf_labels_are_text(const kf_labels *labels);
/* Checks every label and adds it to the census. For text it also counts the lines. */
kf_status kf_labels_scan(kf_labels *labels, const kf_label_rules *rules, kf_label_census *census,
                         kf_err *err);
/* The class numbers of labels [first, first + n), from any thread. */
kf_status kf_labels_fetch(const kf_labels *labels, const kf_label_rules *rules, uint64_t first,
                          uint64_t n, int32_t *out, kf_err *err);

/* --- data sets over files (shard.c, files.c, files_open.c) ----------------------------------- */

typedef struct kf_shard {
  kf_in in;
  kf_table table;
  kf_labels labels; /* in this file or in its own label file */
  kf_ids ids;
  uint64_t first; /* row of the data set */
  bool mapped;    /* a gallery whose rows went through its map */
  kf_origin origin;
} kf_shard;
/* Opens a data file; *names (if not NULL) gets the class names inside. The shard must be closed even
 * after a failure. */
kf_status kf_shard_open(kf_shard *shard, const char *path, const kf_data_options *options,
                        kf_names *names, kf_err *err);
void kf_shard_close(kf_shard *shard);

typedef struct kf_files {
  kf_data base;
  size_t n_shards;
  kf_shard *shards;
  kf_labels common; /* one label file for all rows; otherwise each shard has its own */
  kf_label_rules rules;
} kf_files;
/* An empty one, to be filled by kf_data_open; NULL: out of memory. */
kf_files *kf_files_new(void);

/* Replaces a data set by those of its rows whose classes are in a list of names (pick.c). Left as it
 * is on failure. */
kf_status kf_data_keep_only(kf_ctx *ctx, kf_data **data, const char *list);

#endif
