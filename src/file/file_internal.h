/* file_internal.h - declarations shared by the files of this room; no other room includes it. */
#ifndef KF_FILE_INTERNAL_H
#define KF_FILE_INTERNAL_H

#include "file/file.h"

/* --- paths (paths.c) ----------------------------------------------------------------------- */

/* The ":NAME" of "FILE.npz:NAME", or NULL. */
const char *kf_npz_suffix(const char *path);

typedef struct kf_paths {
  char **path;
  size_t n, room;
  bool listed; /* some are from a folder or a pattern, so koofu chose their order */
} kf_paths;
/* Compares two paths through pointers to them, for qsort: numbers in them by value, everything else
 * and ties by bytes. A total order. */
int kf_by_number(const void *a, const void *b);
/* Replaces folders and patterns by their files, in numeric order. For labels, a folder stands for
 * its label files, and a pattern without a match is kept, so that opening it fails. */
kf_status kf_paths_expand(const char *const *given, size_t n, bool labels, kf_paths *out,
                          kf_err *err);
/* Sorts all files by kf_by_number or kf_by_bytes if the caller asks for it. *moved:
 * the order has changed. */
kf_status kf_paths_sort(kf_paths *paths, kf_order order, bool *moved, kf_err *err);
/* The index i of the first file that comes before file i + 1 by bytes, as a shell lists them, but
 * after it by number. SIZE_MAX: none. */
size_t kf_paths_doubt(const kf_paths *paths);
/* The folders of clip-retrieval: rows in .npy files, metadata of rows in .parquet files. */
#define KF_CLIP_ROWS "img_emb"
#define KF_CLIP_META "metadata"
/* The .parquet files with the metadata of the rows of each file, in the order of the files, if all
 * files are in such folders; otherwise n = 0. */
kf_status kf_paths_beside(const kf_paths *data, kf_paths *out, kf_err *err);
/* Puts label files that were found in a folder or by a pattern into the order of their data files:
 * matched by name without extension or, if no name matches, by position in numeric order. */
kf_status kf_paths_match(const kf_paths *data, kf_paths *labels, kf_err *err);
void kf_paths_clear(kf_paths *paths);

/* --- safetensors --------------------------------------------------------------------------- */

#define KF_HEADER_CAP 100000000u /* the limit of the reference implementation */

/* Appends class names as a JSON list. */
void kf_names_print(const kf_names *names, kf_string *list);

/* "F32"; not for KF_TYPE_OTHER. */
const char *kf_st_type_name(kf_type type);

/* --- integers (type.c) --------------------------------------------------------------------- */

/* Converts n elements of an integer type. Values above INT64_MAX become INT64_MAX. */
void kf_decode_i64(kf_type type, const void *in, size_t n, int64_t *out);

/* Whether it is F32, F16 or BF16, as kf_data.raw_type must be. */
bool kf_type_is_raw(kf_type type);

/* --- tables: the rows in one file (table.c, vecs.c) ---------------------------------------- */

typedef enum kf_layout {
  KF_LAYOUT_ROWS,        /* row after row */
  KF_LAYOUT_COLUMNS,     /* column after column: Fortran order */
  KF_LAYOUT_TAGGED_ROWS, /* row after row, each preceded by an int32 with the dimension: .fvecs */
  KF_LAYOUT_PARQUET      /* a column of a .parquet file */
} kf_layout;

struct kf_pq_column; /* parquet.h */
struct kf_pq_cache;

typedef struct kf_table {
  uint64_t rows;
  uint32_t dim;
  kf_type type;
  kf_layout layout;
  uint64_t offset;             /* of the first row */
  struct kf_pq_column *column; /* of a .parquet file */
} kf_table;
/* Binary search in n structs of `size` bytes that are sorted by one member; `first` points to that
 * member of the first struct. Returns the last struct whose member is at most `at`, or 0. */
size_t kf_find_last(const uint64_t *first, size_t size, size_t n, uint64_t at);

/* Sets the size of a table. Fails if there are no rows, no columns, or too many columns. */
kf_status kf_table_size(kf_table *table, const char *path, uint64_t rows, uint64_t dim,
                        kf_err *err);
/* Reads rows [first, first + n), which must exist. */
kf_status kf_table_fetch(const kf_table *table, const kf_in *in, const kf_kernels *kernels,
                         uint64_t first, uint64_t n, float *rows, kf_err *err);
/* Whether rows are contiguous, in a type that kf_data.fetch_raw may have; then fetch_raw
 * reads them as they are. */
bool kf_table_is_raw(const kf_table *table);
kf_status kf_table_fetch_raw(const kf_table *table, const kf_in *in, uint64_t first, uint64_t n,
                             void *rows, kf_err *err);
/* Prefetches these rows. */
void kf_table_ahead(const kf_table *table, const kf_in *in, uint64_t first, uint64_t n);

/* The caller closes the file even after a failure. */
kf_status kf_fvecs_open(kf_in *in, kf_table *table, const char *path, kf_err *err);
kf_status kf_bin_open(kf_in *in, kf_table *table, const char *path, kf_err *err);

/* --- files without a name (temporary.c) ------------------------------------------------------- */

/* Opens one on the disk of `in`, which has room for it, or in /tmp. problem: of a failure. */
kf_status kf_temporary_open(const kf_in *in, const char *problem, int *fd, kf_err *err);
kf_status kf_temporary_write(const kf_in *in, const char *problem, int fd, const void *bytes,
                             size_t n, kf_err *err);

/* --- tables with a column for each dimension (columns.c, csv_rows.c) ----------------------- */

typedef enum kf_table_column_use {
  KF_TABLE_OTHER,
  KF_TABLE_NUMBER, /* it can be a dimension */
  KF_TABLE_TAKEN   /* labels, ids, or an index of rows */
} kf_table_column_use;
/* Usual names of columns, ending in NULL. */
extern const char *const kf_usual_labels[], *const kf_usual_ids[];
typedef struct kf_table_column {
  const char *name;
  const char *type; /* for display; may be empty */
  kf_table_column_use use;
} kf_table_column;
/* Appends "'x0' to 'x7' (f32), 'class' (text)". */
void kf_list_columns(const kf_table_column *fields, size_t n, kf_string *list);
/* "FILE: WHAT; its columns are …" */
kf_status kf_refuse_columns(const char *path, const kf_table_column *fields, size_t n, kf_hint hint,
                            const char *what, kf_err *err);
/* The columns of dimensions 0, 1, …: order[*dims], with room for n. stem: of their names, or
 * NULL. */
kf_status kf_choose_dims(const char *path, const kf_table_column *fields, size_t n,
                         const char *stem, size_t *order, size_t *dims, kf_err *err);

/* --- text, line by line (lines.c) ---------------------------------------------------------- */

/* Copies n bytes, and adds a NUL. NULL: out of memory. */
char *kf_copy_text(kf_arena *arena, const char *text, size_t n);

/* The longest line, in bytes, without its end. */
#define KF_LINE_MAX 65536

/* A place in a text file: its offset, and the number of lines before it. */
typedef struct kf_mark {
  uint64_t offset, line;
} kf_mark;

typedef struct kf_lines {
  const kf_in *in;
  uint64_t position;            /* in the file, of the first byte not yet in the buffer */
  uint64_t line;                /* lines before the next one */
  size_t begin, end;            /* the unread part of the buffer */
  char buffer[KF_LINE_MAX + 5]; /* a byte order mark, a line and "\r\n" */
} kf_lines;
/* Starts at a line. At offset 0 a byte order mark is skipped. */
void kf_lines_start(kf_lines *lines, const kf_in *in, kf_mark mark);
/* The place of the next line. */
kf_mark kf_lines_mark(const kf_lines *lines);
/* The next line, without its line end and without NUL, valid until the next call. *text is NULL at
 * the end of the file. Afterwards lines->line is the number of the line, from 1. */
kf_status kf_lines_next(kf_lines *lines, const char **text, size_t *length, kf_err *err);

/* --- tables of text, field by field (csv.c) ------------------------------------------------ */

typedef struct kf_csv {
  const kf_in *in;
  char separator;
  uint64_t position; /* in the file, of the first byte not yet in the buffer */
  uint64_t line;     /* lines before what comes next */
  size_t begin, end; /* the unread part of the buffer */
  bool inside;       /* the last field ended in a separator: the record goes on */
  bool silent;       /* check fields, but keep the text */
  size_t length;
  char text[KF_LINE_MAX]; /* of the field */
  char buffer[KF_LINE_MAX];
} kf_csv;
/* Starts at a record. At offset 0 a byte order mark is skipped. */
void kf_csv_start(kf_csv *csv, const kf_in *in, char separator, kf_mark mark);
/* The place of the next record. Call it between records. */
kf_mark kf_csv_mark(const kf_csv *csv);
/* The next field, without NUL, valid until the next call. *text is NULL at the end of the file.
 * *last: it ends its record. A field has at most KF_LINE_MAX bytes. */
kf_status kf_csv_field(kf_csv *csv, const char **text, size_t *length, bool *last, kf_err *err);
/* Field `column` of the next record, which must have `columns` fields. *text is NULL at the end. */
kf_status kf_csv_record(kf_csv *csv, size_t columns, size_t column, const char **text,
                        size_t *length, kf_err *err);

/* --- labels (labels.c) --------------------------------------------------------------------- */

typedef enum kf_label_kind {
  KF_LABELS_INTEGERS,
  KF_LABELS_LINES,   /* text, one label per line */
  KF_LABELS_TABLE,   /* a column of a table of text */
  KF_LABELS_STRINGS, /* of fixed size, in a .npy */
  KF_LABELS_COLUMN   /* text, in a column of a .parquet file */
} kf_label_kind;

/* The labels in one file: a label file or a data file. */
typedef struct kf_labels {
  kf_in own; /* a label file, or an array of an archive; path NULL: labels are in a data file */
  const kf_in *in; /* where to read; NULL: no labels */
  kf_label_kind kind;
  kf_type type;                   /* of integers */
  uint64_t offset;                /* integers and strings: of the first */
  struct kf_pq_column *column_in; /* integers and text of a .parquet file; NULL: others */
  uint64_t count;
  uint32_t item;          /* strings: bytes of each */
  bool wide;              /* strings: UTF-32, not bytes */
  char separator;         /* tables */
  size_t columns, column; /* a table */
  bool header;            /* tables: the first record is a header */
  kf_mark *index;         /* lines and tables: of labels 0, KF_LABEL_STEP, … */
  size_t n_index, index_room;
} kf_labels;

/* Text has no random access, so the place of every KF_LABEL_STEP-th label is kept. A fetch then
 * skips half a step on average; the memory is 1/8 byte per row. */
#define KF_LABEL_STEP 128

/* How labels become class numbers. */
typedef struct kf_label_rules {
  bool allow_unlabelled; /* negative numbers and empty lines */
  bool allow_unknown;    /* labels that are not in the list of names */
  uint32_t n_names;      /* 0: no names; every number below KF_MAX_CLASSES is a class */
  char *names_from;      /* the file with the names */
  kf_dict *map;          /* text: name to number; NULL while names are collected */
} kf_label_rules;

typedef struct kf_label_census {
  int64_t largest; /* class number; -1: none */
  uint64_t unlabelled;
  kf_name_set found; /* text labels, if there is no list of names */
} kf_label_census;

/* Opens a label file for `rows` rows by its extension: .npy, .npz, .parquet, a table, or text with
 * any extension that is not a data format. column: kf_data_options.label_column. Close it even
 * after a failure. The cache, for .parquet pages, must outlive it. */
kf_status kf_labels_open(kf_labels *labels, const char *path, const char *column, uint64_t rows,
                         struct kf_pq_cache *cache, kf_err *err);
/* Labels in a .npy, which is taken over even on failure. */
kf_status kf_labels_open_npy(kf_labels *labels, kf_npy *npy, kf_err *err);
/* ',' or, for .tsv, a tab (label_table.c). */
char kf_table_separator(const char *path);
/* The position of a column, from 1, if `column` is a number; 0: it is a name. */
size_t kf_table_position(const char *column);
/* Finds the label column and whether there is a header, in an open table (label_table.c). */
kf_status kf_labels_open_table(kf_labels *labels, const char *column, uint64_t rows, kf_err *err);
/* Labels in a tensor of a data file. */
kf_status kf_labels_open_tensor(kf_labels *labels, const kf_in *in, const kf_st_tensor *tensor,
                                kf_err *err);
void kf_labels_close(kf_labels *labels);
bool kf_labels_are_text(const kf_labels *labels);
/* Checks every label and adds it to the census. For text it also counts the labels. */
kf_status kf_labels_scan(kf_labels *labels, const kf_label_rules *rules, kf_label_census *census,
                         kf_err *err);
/* The class numbers of labels [first, first + n). Thread-safe. */
kf_status kf_labels_fetch(const kf_labels *labels, const kf_label_rules *rules, uint64_t first,
                          uint64_t n, int32_t *out, kf_err *err);

/* Reads text labels one after another (label_text.c). */
typedef struct kf_label_text {
  const kf_labels *labels;
  uint64_t row;   /* of the next label */
  uint64_t place; /* of the last one: its line, from 1, or for strings its row */
  union {
    kf_lines lines;
    kf_csv csv;
    struct {
      uint64_t first; /* the row of raw[0] */
      size_t n;       /* strings in raw */
      unsigned char raw[KF_LINE_MAX];
      char text[KF_LINE_MAX];
    } strings;
  } as;
} kf_label_text;
/* Starts at the last indexed label at or before `row`. */
kf_status kf_label_text_start(kf_label_text *text, const kf_labels *labels, uint64_t row,
                              kf_err *err);
/* The place of the next label in the file, for the index; not for strings. */
kf_mark kf_label_text_mark(const kf_label_text *text);
/* The next label, valid until the next call. *label is NULL at the end. */
kf_status kf_label_text_next(kf_label_text *text, const char **label, size_t *length, kf_err *err);

struct kf_shard;

/* --- .parquet as rows and labels (parquet_use.c) ------------------------------------------- */

/* Opens the columns that are asked for or are the only candidates; *names gets class names from
 * metadata that koofu or Hugging Face wrote. */
kf_status kf_parquet_open_rows(struct kf_shard *shard, const char *path,
                               const kf_data_options *options, struct kf_pq_cache *cache,
                               kf_names *names, kf_err *err);
kf_status kf_parquet_open_labels(kf_labels *labels, const char *path, const char *column,
                                 struct kf_pq_cache *cache, kf_err *err);
/* Opens the ids of the rows of a shard in another file. */
kf_status kf_parquet_open_ids(struct kf_shard *shard, const char *path, const char *column,
                              struct kf_pq_cache *cache, kf_err *err);
/* Calls `use` with the label of each row in turn, checked to be valid text, as
 * kf_pq_each_text does. */
kf_status kf_labels_each_text(const kf_labels *labels, uint64_t first, uint64_t n,
                              kf_status (*use)(void *argument, uint64_t row, const char *text,
                                               size_t n, kf_err *err),
                              void *argument, kf_err *err);
kf_status kf_ids_fetch_column(const kf_ids *ids, uint64_t first, uint64_t n, uint64_t *lengths,
                              kf_string *bytes, kf_err *err);

/* --- codecs of foreign formats (unpack.c) ---------------------------------------------------- */

/* As Parquet numbers them. */
typedef enum kf_codec {
  KF_CODEC_NONE = 0,
  KF_CODEC_SNAPPY = 1,
  KF_CODEC_GZIP = 2,
  KF_CODEC_ZSTD = 6,
  KF_CODEC_LZ4 = 7
} kf_codec;
/* NULL if it can be unpacked; otherwise the reason why not, as the end of a sentence. */
const char *kf_codec_refusal(int codec);
/* Unpacks n bytes to exactly m. KF_ERR_DATA: the input is damaged; KF_ERR_MEM. Sets no message. */
kf_status kf_unpack(kf_codec codec, const unsigned char *in, size_t n, unsigned char *out,
                    size_t m);

/* --- archives (zip.c, npz.c) --------------------------------------------------------------- */

typedef struct kf_zip_member {
  char *name;
  uint64_t header; /* offset of the local header */
  uint64_t packed, size;
  uint32_t crc;
  unsigned method; /* 0: stored; 8: deflated */
  bool encrypted;
} kf_zip_member;

typedef struct kf_zip {
  kf_in in;
  size_t n;
  kf_zip_member *members; /* by name */
  uint64_t end;           /* end of the members: where the directory begins */
  kf_arena arena;
} kf_zip;
/* Reads and checks the directory: one file, no duplicate names, sizes within the file. Close it
 * even after a failure. */
kf_status kf_zip_open(kf_zip *zip, const char *path, kf_err *err);
void kf_zip_close(kf_zip *zip);
/* The first bytes of a member, at most n of them. */
kf_status kf_zip_peek(const kf_zip *zip, const kf_zip_member *member, unsigned char *bytes,
                      size_t n, size_t *got, kf_err *err);
/* Opens a member as a file that outlives the archive: a part of the archive, or unpacked to an
 * unnamed file. Its size and checksum are verified. */
kf_status kf_zip_open_member(const kf_zip *zip, const kf_zip_member *member, kf_in *out,
                             kf_err *err);

/* Open an array of an .npz as rows, and as labels. */
kf_status kf_npz_open_rows(struct kf_shard *shard, const char *path, const kf_data_options *options,
                           kf_err *err);
kf_status kf_npz_open_labels(kf_labels *labels, const char *path, uint64_t rows, kf_err *err);

/* --- data sets over files (shard.c, files.c, files_open.c) --------------------------------- */

typedef struct kf_shard {
  kf_in in;
  kf_table table;
  kf_labels labels; /* in this file or in its own label file */
  kf_ids ids;
  uint64_t first; /* row of the data set */
  bool mapped;    /* rows of a gallery that went through its map */
  bool is_change; /* rows added to the gallery before it */
  bool guessed; /* its labels are an array that was not asked for, but is the only one that fits */
  char label_column[64]; /* name of their column in a table, for notes */
  kf_names dims;         /* of a table with a column for each dimension */
  char *columns;         /* of a table without labels, for messages; NULL: none */
  kf_origin origin;
  uint64_t made_with;  /* KF_MADE_WITH; 0: none */
  kf_in beside;        /* another file with its ids or labels; path NULL: none */
  kf_changes *changes; /* changes of a gallery; NULL: none */
} kf_shard;
/* Opens a data file. *names (may be NULL) gets the class names inside. Close the shard even after a
 * failure. The cache must outlive it. */
kf_status kf_shard_open(kf_shard *shard, const char *path, const kf_data_options *options,
                        struct kf_pq_cache *cache, kf_names *names, kf_err *err);
/* The rows of a .npy, which is taken over even on failure. */
kf_status kf_shard_open_npy(kf_shard *shard, kf_npy *npy, kf_err *err);
/* The rows of a change of a gallery, whose file is taken over. labels: they are wanted. */
kf_status kf_shard_open_change(kf_shard *shard, const kf_shard *gallery, kf_change *change,
                               bool labels, kf_err *err);
/* The rows of a table of text, which are copied (csv_rows.c). */
kf_status kf_csv_open_rows(kf_shard *shard, const char *path, const kf_data_options *options,
                           kf_err *err);
/* Keeps the columns of a file without labels, for messages (columns.c). */
kf_status kf_shard_list_columns(kf_shard *shard, const kf_table_column *fields, size_t n,
                                kf_err *err);
/* Keeps the names of the dimensions, for messages (columns.c). */
kf_status kf_shard_name_dims(kf_shard *shard, const kf_table_column *fields, const size_t *order,
                             size_t dims, kf_err *err);
/* Moves a shard to another place. */
void kf_shard_move(kf_shard *from, kf_shard *to);
void kf_shard_close(kf_shard *shard);

typedef struct kf_files {
  kf_data base;
  size_t n_shards;
  kf_shard *shards;
  kf_labels common; /* one label file for all rows; `in` NULL: each shard has its own */
  kf_label_rules rules;
  struct kf_pq_cache *pages; /* of .parquet files */
} kf_files;
/* An empty data set for kf_data_open to fill; NULL: out of memory. */
kf_files *kf_files_new(void);

/* Replaces a data set by those of its rows whose class is in a list of names (pick.c).
 * Unchanged on failure. */
kf_status kf_data_keep_only(kf_ctx *ctx, kf_data **data, const char *list);
/* Replaces a data set by these rows of it. The array is taken over even on failure. */
kf_status kf_data_keep_rows(kf_data **data, uint64_t *rows, uint64_t n, kf_err *err);

/* --- rows of all ranks (spread.c) ---------------------------------------------------------- */

/* Replaces the data set of each rank by the one of all ranks; for all ranks together. status: of
 * opening the data set on this rank. */
kf_status kf_data_spread(kf_ctx *ctx, kf_status status, kf_data **data);

#endif
