/* file.h - file formats and data sets: what the other rooms see. Includes base only. */
#ifndef KF_FILE_H
#define KF_FILE_H

#include "base/json.h"

/* --- element types ------------------------------------------------------------------------- */

typedef enum kf_type {
  KF_TYPE_F16,
  KF_TYPE_BF16,
  KF_TYPE_F32,
  KF_TYPE_F64,
  KF_TYPE_I8,
  KF_TYPE_I16,
  KF_TYPE_I32,
  KF_TYPE_I64,
  KF_TYPE_U8,
  KF_TYPE_U16,
  KF_TYPE_U32,
  KF_TYPE_U64,
  KF_TYPE_OTHER /* listed but not read: a safetensors type such as BOOL, F8_… */
} kf_type;
size_t kf_type_size(kf_type type);
bool kf_type_is_float(kf_type type);
bool kf_type_is_integer(kf_type type);
kf_type kf_type_of(kf_dtype dtype);

/* Converts n elements of a float or 8-bit type to f32. Only f64 is rounded. */
void kf_decode_f32(const kf_kernels *kernels, kf_type type, const void *in, size_t n, float *out);
/* Converts n f32 to F32, F16 or BF16, rounding to nearest even. Returns the index of the first
 * element that is finite in f32 but overflows the type, or n. */
size_t kf_encode_f32(const kf_kernels *kernels, kf_type type, const float *in, size_t n, void *out);

/* Reads n elements of a float type at an offset of a file as f32. */
kf_status kf_in_read_f32(const kf_in *in, const kf_kernels *kernels, kf_type type, uint64_t at,
                         uint64_t n, float *out, kf_err *err);

/* --- safetensors: reading ------------------------------------------------------------------ */

typedef struct kf_st_tensor {
  const char *name;
  const char *type_name; /* static, as the file spells it */
  kf_type type;
  uint32_t ndim;
  uint64_t shape[8];
  uint64_t offset; /* in the file */
  uint64_t bytes;
} kf_st_tensor;

typedef struct kf_st {
  kf_in in;
  size_t n_tensors;
  kf_st_tensor *tensors; /* in the order of their offsets */
  size_t n_meta;
  const char **keys; /* sorted */
  const char **values;
  uint64_t checksum_offset; /* of the digits of metadata "checksum" in the file; 0: none */
  kf_arena arena;           /* of the lists above */
  char *text;               /* the header; names, keys and values point into it */
} kf_st;

/* Reads and checks the header: its length, valid JSON, no duplicate keys, known types, and offsets
 * that cover the data to the end of the file without gaps or overlaps. */
kf_status kf_st_open(kf_st *st, const char *path, kf_err *err);
/* The same for a file in memory, which must outlive st. */
kf_status kf_st_open_memory(kf_st *st, const void *bytes, uint64_t n, kf_err *err);
void kf_st_close(kf_st *st);
const kf_st_tensor *kf_st_find(const kf_st *st, const char *name); /* NULL: absent */
const char *kf_st_meta(const kf_st *st, const char *key);          /* NULL: absent */
/* Finds a tensor of the given type and shape (-1: any size) or fails, naming file and tensor. */
kf_status kf_st_expect(const kf_st *st, const char *name, kf_type type, uint32_t ndim,
                       const int64_t *shape, const kf_st_tensor **out, kf_err *err);
/* Reads a whole tensor into a buffer of its size. */
kf_status kf_st_read_all(const kf_st *st, const kf_st_tensor *tensor, void *buffer, kf_err *err);
/* A metadata value as a number. Fails if it is absent or not a number. */
kf_status kf_st_meta_i64(const kf_st *st, const char *key, int64_t *out, kf_err *err);
kf_status kf_st_meta_f64(const kf_st *st, const char *key, double *out, kf_err *err);
/* The class names under "classes" (a JSON list of strings); n = 0 if absent. */
kf_status kf_st_meta_names(const kf_st *st, kf_names *out, kf_err *err);
/* The same from the JSON text; NULL: absent. */
kf_status kf_names_parse(const char *path, const char *text, kf_names *out, kf_err *err);
/* Fails for koofu files whose metadata "format" is not in the string `formats`; files of other
 * programs pass. `what`: what is expected, in words. */
kf_status kf_st_refuse_others(const kf_st *st, const char *formats, const char *what, kf_err *err);
/* Fails if metadata "format" is not `format` ("koofu.model"; `what` in words: "a koofu model"), if
 * the version is not 1, or if the file is damaged. */
kf_status kf_st_check_file(const kf_st *st, const char *format, const char *what, kf_err *err);
/* The same without verifying the checksum. */
kf_status kf_st_check_format(const kf_st *st, const char *format, const char *what, kf_err *err);
/* Fails if metadata "checksum" is absent or does not match the file; see kf_stw_open. */
kf_status kf_st_verify(const kf_st *st, kf_err *err);
/* The number of classes, 1 to KF_MAX_CLASSES, is the length of tensor "counts" (I64). There are as
 * many names or none. */
kf_status kf_st_classes(const kf_st *st, uint32_t *n, kf_names *names, kf_err *err);

/* --- safetensors: writing ------------------------------------------------------------------ */

/* Tensors are declared first, then written in the same order, any number of bytes at a time. */
typedef struct kf_stw kf_stw;
/* ctx: as in kf_out_open. checksum: store the XXH64 of the whole file in metadata "checksum",
 * computed with '0' for its own 16 hex digits. */
kf_status kf_stw_open(kf_ctx *ctx, const char *path, bool checksum, kf_stw **out, kf_err *err);
/* The same in memory; end it with kf_stw_take. */
kf_status kf_stw_open_memory(bool checksum, kf_stw **out, kf_err *err);
/* Adds metadata "format" and "version" (1), which must come first. */
kf_status kf_stw_format(kf_stw *w, const char *format, kf_err *err);
kf_status kf_stw_meta(kf_stw *w, const char *key, const char *value, kf_err *err);
kf_status kf_stw_meta_i64(kf_stw *w, const char *key, int64_t value, kf_err *err);
kf_status kf_stw_meta_f64(kf_stw *w, const char *key, double value, kf_err *err);   /* round trip */
kf_status kf_stw_meta_hex(kf_stw *w, const char *key, uint64_t value, kf_err *err); /* 16 digits */
kf_status kf_stw_meta_names(kf_stw *w, const kf_names *names, kf_err *err);
kf_status kf_stw_declare(kf_stw *w, const char *name, kf_type type, uint32_t ndim,
                         const uint64_t *shape, kf_err *err);
/* Appends bytes of the current tensor. The first call writes the header. */
kf_status kf_stw_write(kf_stw *w, const void *bytes, uint64_t n, kf_err *err);
/* For several ranks together: all of them write the next n bytes, which begin at *at in the file,
 * to *out with kf_out_put. *out is NULL if that is impossible: a checksum needs all bytes in order,
 * or some rank cannot reach the file. */
kf_status kf_stw_share(kf_stw *w, uint64_t n, uint64_t *at, kf_out **out, kf_err *err);
/* From now on bytes of tensors are also added to `sum`; NULL: no longer. */
void kf_stw_watch(kf_stw *w, kf_checksum *sum);
/* Writes to nowhere, for the checksum alone, which the second call returns if `status` is KF_OK. */
kf_status kf_stw_open_nowhere(kf_stw **out, kf_err *err);
kf_status kf_stw_end_nowhere(kf_stw *w, kf_status status, uint64_t *checksum, kf_err *err);
/* After rank 0 alone has written: copies its `sum` to all ranks. */
kf_status kf_stw_catch_up(kf_stw *w, kf_ctx *ctx);
/* The underlying file, for its size so far, its lock and the file it replaces. */
kf_out *kf_stw_out(kf_stw *w);
/* Checks that every declared byte was written and commits the file. Always frees w. */
kf_status kf_stw_commit(kf_stw *w, kf_err *err);
void kf_stw_abort(kf_stw *w); /* frees w; NULL is fine */
/* Commits if `status`, that of the writing, is KF_OK; otherwise aborts and returns `status`. */
kf_status kf_stw_end(kf_stw *w, kf_status status, kf_err *err);
/* The same for a file in memory: returns its bytes. */
kf_status kf_stw_take(kf_stw *w, kf_status status, kf_bytes **out, kf_err *err);

/* --- safetensors: lists of tensors in memory (fields.c) ------------------------------------ */

/* A tensor of 1 or 2 dimensions and its place in memory. One list of these describes a file such as
 * a model for declaring, writing, checking and reading. */
typedef struct kf_st_field {
  const char *name;
  kf_type type;
  uint32_t ndim;
  uint64_t shape[2]; /* one dimension: {n, 1} */
  void *memory;      /* NULL: declared and expected only */
} kf_st_field;
kf_status kf_stw_declare_fields(kf_stw *w, const kf_st_field *fields, size_t n, kf_err *err);
kf_status kf_stw_write_fields(kf_stw *w, const kf_st_field *fields, size_t n, kf_err *err);
/* Fails unless all are in the file with their type and shape. Call it before allocating memory. */
kf_status kf_st_expect_fields(const kf_st *st, const kf_st_field *fields, size_t n, kf_err *err);
/* Reads all of them without checking their values. */
kf_status kf_st_read_fields(const kf_st *st, const kf_st_field *fields, size_t n, kf_err *err);

/* --- CRC-32 (crc.c) -------------------------------------------------------------------------- */

typedef struct kf_crc {
  uint32_t table[8][256];
  uint32_t state;
} kf_crc;
void kf_crc_start(kf_crc *c);
void kf_crc_add(kf_crc *c, const unsigned char *bytes, size_t n);
uint32_t kf_crc_value(const kf_crc *c);

/* --- rules for koofu files (rules.c) ------------------------------------------------------- */

/* Up to this many rows no sum overflows: class sums stay below 2^22 * 2^40, moments below 2^84. */
#define KF_MAX_ROWS ((uint64_t)1 << 40)

/* The largest weight of prototypes relative to text; scores cannot overflow below it. */
#define KF_MAX_ALPHA 1e6

/* The rules for one kind of file. */
typedef struct kf_rules kf_rules;
extern const kf_rules kf_model_rules, kf_gallery_rules, kf_stats_rules, kf_set_rules;

/* The contents of a file, or a part of them. Rules about absent parts are skipped. */
typedef struct kf_contents {
  const kf_rules *rules;
  const char *path;
  const kf_st *st; /* the header; NULL: skip rules about metadata */
  const kf_st_field *fields;
  size_t n_fields;
  const kf_kernels *kernels; /* for rows of f32 */
  const kf_i128 *moments;    /* statistics: the upper triangle */
  uint64_t first;            /* number of the first row in memory, for messages */
  bool direction, unit;      /* gallery: rows are not zero; they have unit length */
  kf_type type;              /* gallery: the type rows were rounded to */
  uint32_t n_classes;        /* gallery: labels are below */
} kf_contents;
/* KF_ERR_DATA, naming file, tensor or key, place and cause, if a rule of the table in
 * docs/formats.md is broken. Header rules are checked before memory is allocated for tensors,
 * tensor rules when they are in memory. */
kf_status kf_check_header(const kf_rules *rules, const kf_st *st, kf_err *err);
kf_status kf_check_tensors(const kf_contents *contents, kf_err *err);

/* --- which encoder embeddings come from (origin.c) ----------------------------------------- */

struct kf_origin {
  bool known;
  bool mixed; /* of several encoders, which the user allowed: stays unknown whatever is added */
  bool any;   /* agrees with every other origin: its context has any_encoder */
  uint64_t checksum;
  char name[128]; /* of the encoder */
  char from
      [256]; /* the file or folder that says so, for messages; long paths lose their beginning */
};
/* Keeps `any`. */
void kf_origin_set(kf_origin *origin, const char *name, uint64_t checksum, const char *from);
const kf_origin *kf_origin_known(const kf_origin *origin); /* NULL if it is not known */
/* KF_ERR_DATA, naming both, if both are known and differ. */
kf_status kf_origin_agree(const kf_origin *a, const kf_origin *b, kf_err *err);
/* The same, and `into` becomes the origin of both together, known if either is. */
kf_status kf_origin_join(kf_origin *into, const kf_origin *other, kf_err *err);
#define KF_META_ENCODER          "encoder"
#define KF_META_ENCODER_CHECKSUM "encoder_checksum"
/* From these two metadata values of a file; NULL: absent. */
kf_status kf_origin_parse(const char *path, const char *name, const char *digits, kf_origin *out,
                          kf_err *err);
/* From the metadata of a koofu file, checked; unknown if there is none. */
kf_status kf_st_origin(const kf_st *st, kf_origin *out, kf_err *err);
kf_status kf_stw_origin(kf_stw *w, const kf_origin *origin, kf_err *err); /* nothing if unknown */
/* The origin of mapped rows, which is their map and no longer the encoder. `of`: the rows before
 * mapping; checksum: of the map. */
kf_origin kf_origin_of_mapped(const kf_origin *of, uint64_t checksum, const char *from);
/* Begins the checksum of a map, over all settings that change mapped rows. The caller adds the
 * transform and, if the map is centred, the mean. */
void kf_map_checksum_start(kf_checksum *sum, uint32_t dim_in, uint32_t dim_out, bool normalized,
                           kf_centre centre);
/* The origin of the rows in a gallery with a map; unknown if it is not a koofu file. */
kf_status kf_st_map_origin(const kf_st *st, kf_origin *out, kf_err *err);
/* Reads exactly 16 digits, 0 to 9 and a to f. */
bool kf_parse_hex64(const char *text, uint64_t *out);
/* Whether the metadata have this value. */
bool kf_st_meta_is_hex(const kf_st *st, const char *key, uint64_t value);

/* --- npy ----------------------------------------------------------------------------------- */

typedef struct kf_npy {
  kf_in in;
  kf_type type;       /* KF_TYPE_OTHER: strings, for labels only */
  char type_name[24]; /* "<f4" */
  uint32_t item;      /* bytes of an element */
  bool wide;          /* strings: UTF-32 ("<U"), not bytes ("|S") */
  bool fortran;
  uint32_t ndim;
  uint64_t shape[8];
  uint64_t offset; /* of the data */
} kf_npy;
kf_status kf_npy_open(kf_npy *npy, const char *path, kf_err *err);
/* The same for an open file, which is taken over and closed on failure. */
kf_status kf_npy_open_in(kf_npy *npy, kf_in *in, kf_err *err);
/* Parses the header alone, given the first n bytes of a file of `size` bytes. npy->in stays
 * empty. */
kf_status kf_npy_parse(kf_npy *npy, const char *path, const unsigned char *bytes, uint64_t n,
                       uint64_t size, kf_err *err);
/* The longest header that is accepted. */
#define KF_NPY_HEADER_CAP (1u << 20)
/* Whether it is a list, [n] or [n, 1], of integers or strings. */
bool kf_npy_is_labels(const kf_npy *npy);
/* Writes the header of a C-order array of rows x dim (version 1.0, padded to 64 bytes). */
kf_status kf_npy_write_header(kf_out *out, kf_type type, uint64_t rows, uint64_t dim, kf_err *err);

/* --- text ---------------------------------------------------------------------------------- */

/* Counts the lines of a text file, and the distinct non-empty ones. */
kf_status kf_lines_count(const char *path, uint64_t *lines, uint64_t *distinct, kf_err *err);
/* Calls `use` with every line, without its line end and without NUL. Lines count from 1. */
typedef kf_status (*kf_line_fn)(void *argument, uint64_t line, const char *text, size_t length,
                                kf_err *err);
kf_status kf_lines_each(const kf_in *in, kf_line_fn use, void *argument, kf_err *err);
kf_status kf_lines_read(const char *path, kf_line_fn use, void *argument, kf_err *err);

/* --- paths --------------------------------------------------------------------------------- */

typedef enum kf_format {
  KF_FORMAT_NPY,
  KF_FORMAT_SAFETENSORS,
  KF_FORMAT_FVECS,
  KF_FORMAT_BIN,   /* .fbin and its relatives */
  KF_FORMAT_NPZ,   /* an archive of .npy, or one array of it: "FILE.npz:NAME" */
  KF_FORMAT_TAR,   /* pictures, for src/encode */
  KF_FORMAT_TABLE, /* .csv and .tsv, for labels only */
  KF_FORMAT_PARQUET,
  KF_FORMAT_OTHER /* labels: text */
} kf_format;
/* By the extension of the path. */
kf_format kf_format_of(const char *path);
/* The extension of a path if it is .fbin or one of its relatives, and the type of the elements
 * (type NULL: not wanted); otherwise NULL. */
const char *kf_bin_ending(const char *path, kf_type *type);
/* kf_format_of for an existing file: .npy, .npz, .safetensors and .parquet files without an
 * extension are recognised by their magic bytes. */
kf_status kf_format_of_file(const char *path, kf_format *out, kf_err *err);

/* --- tar archives (tar.c) ------------------------------------------------------------------ */

typedef struct kf_tar {
  kf_in in;
  uint64_t next; /* where the next header is */
  /* What extended headers say about the next member. */
  kf_string name;
  uint64_t size;
  bool named, sized;
} kf_tar;
/* A regular file in the archive. The name is valid until the next call and may contain anything. */
typedef struct kf_tar_member {
  const char *name;
  uint64_t at, size;
} kf_tar_member;
kf_status kf_tar_open(kf_tar *tar, const char *path, kf_err *err);
/* The next member; *found is false at the end. KF_ERR_DATA: not an archive, damaged or cut off. */
kf_status kf_tar_next(kf_tar *tar, kf_tar_member *out, bool *found, kf_err *err);
void kf_tar_close(kf_tar *tar);

/* Whether a path has the extension .jpg, .jpeg, .png or .webp, in any case. */
bool kf_is_picture(const char *path);
/* Compares two strings through pointers to them, for qsort. */
int kf_by_bytes(const void *a, const void *b);

/* Calls `use` for each path that matches a pattern, in no particular order (pattern.c). */
typedef kf_status (*kf_match_fn)(void *argument, const char *path, kf_err *err);
kf_status kf_match_paths(const char *pattern, kf_match_fn use, void *argument, kf_err *err);

/* A set of distinct strings, numbered in the order they were added. */
typedef struct kf_name_set {
  char **name;
  size_t n, room;
  kf_dict *map;
  kf_arena arena; /* of the strings */
} kf_name_set;
/* The number of a string, which is added if it is new. `line` is for messages. */
kf_status kf_name_set_number(kf_name_set *set, const char *path, uint64_t line, const char *text,
                             size_t length, int32_t *number, kf_err *err);
/* The strings as a list, sorted by bytes or in the order of their numbers. Sorting invalidates the
 * numbers. */
kf_status kf_name_set_list(kf_name_set *set, bool sorted, kf_names *out, kf_err *err);
void kf_name_set_clear(kf_name_set *set);

/* The fields of the first line of a table (.csv, .tsv), and its number of records. */
kf_status kf_table_describe(const char *path, kf_name_set *columns, uint64_t *records, kf_err *err);

/* Two columns of a table, line by line: ids, such as file names, and their labels, neither of them
 * empty. A column is named or numbered as in kf_data_options.label_column; NULL: it has a usual
 * name or, of two, is the other one. Line 1 is passed only if no column was found by name; it may
 * still be a header (pairs.c). */
typedef kf_status (*kf_pair_fn)(void *argument, uint64_t line, const char *id, const char *label,
                                kf_err *err);
kf_status kf_table_each_pair(const char *path, const char *id_column, const char *label_column,
                             kf_pair_fn use, void *argument, kf_err *err);

/* Reads a file with one class name per line. */
kf_status kf_names_read(const char *path, kf_names *out, kf_err *err);

/* --- data sets ----------------------------------------------------------------------------- */

/* A data set is a number of rows that any thread can fetch by position. */
struct kf_data {
  uint64_t rows;
  uint32_t dim;
  bool has_labels;
  uint32_t n_classes;
  kf_names names; /* n = 0: no names */
  uint64_t unlabelled;
  bool skip_bad;
  bool mapped; /* rows of a gallery, already mapped: they must not be mapped again */
  /* The first two files that are in byte order but not in numeric order, unless the caller has
   * chosen an order; NULL: none. */
  const char *doubt[2];
  kf_origin origin;
  uint64_t made_with; /* KF_MADE_WITH to be saved; 0: none */
  uint64_t read_with; /* KF_MADE_WITH of its single file; 0: none */
  /* Where the rows of each rank end, [n_ends], if only that rank can fetch them; NULL: every rank
   * can fetch all rows. Labels can be fetched anywhere. */
  const uint64_t *ends;
  uint32_t n_ends;
  const char *columns; /* of a table without labels, for messages; NULL: none */
  bool ids_elsewhere;  /* rows have ids, but each rank knows only its own */
  /* Rows [first, first + n) as they are in the file, unchecked, and their labels (>= KF_LABEL_NONE;
   * all KF_LABEL_NONE without labels). Either array may be NULL: not wanted. */
  kf_status (*fetch)(const kf_data *data, const kf_kernels *kernels, uint64_t first, uint64_t n,
                     float *rows, int32_t *labels, kf_err *err);
  /* The same rows in their stored type, which is KF_TYPE_F32, KF_TYPE_F16 or KF_TYPE_BF16. NULL:
   * only f32 is available. */
  kf_status (*fetch_raw)(const kf_data *data, uint64_t first, uint64_t n, void *rows, kf_err *err);
  kf_type raw_type;
  /* Prefetches these rows. NULL: nothing to read. */
  void (*ahead)(const kf_data *data, uint64_t first, uint64_t n);
  /* Appends the ids of rows [first, first + n) to `bytes`, without separators, and stores their
   * lengths: UTF-8 without NUL, not empty. NULL: rows have no ids. */
  kf_status (*fetch_ids)(const kf_data *data, uint64_t first, uint64_t n, uint64_t *lengths,
                         kf_string *bytes, kf_err *err);
  /* Whether a row is null rather than NaN. NULL: no row is. */
  bool (*is_null)(const kf_data *data, uint64_t row);
  /* The name of the column that holds a dimension; NULL, also from the function: it has none. */
  const char *(*dim_name)(const kf_data *data, uint64_t row, uint32_t dim);
  /* "FILE, row R" for messages. row: of the data set, or KF_ALL_ROWS for "FILE". */
  void (*where)(const kf_data *data, uint64_t row, char *text, size_t size);
  /* Adds what identifies the files to a checksum: sizes and modification times. NULL: no files. */
  void (*identify)(const kf_data *data, kf_checksum *sum);
  /* Fails if writing `path` would overwrite a file of this data set. NULL: no files. */
  kf_status (*refuse)(const kf_data *data, const char *path, kf_err *err);
  void (*destroy)(kf_data *data); /* frees all but the names */
};

/* Fetches rows, their labels and their canonical squared lengths, and checks every row: a bad one
 * is KF_ERR_DATA, naming file and row, or with skip_bad becomes zeros with label KF_LABEL_BAD and
 * length 0. Any array may be NULL: not wanted. Without `rows`, bad rows are not detected.
 * Thread-safe. */
kf_status kf_data_fetch(const kf_data *data, const kf_kernels *kernels, uint64_t first, uint64_t n,
                        float *rows, int32_t *labels, double *norm2, kf_err *err);
#define KF_ALL_ROWS UINT64_MAX
/* KF_ERR_DATA: "FILE, row R: …", or "FILE: …" for KF_ALL_ROWS. */
kf_status kf_fail_row(kf_err *err, const kf_data *data, uint64_t row, kf_hint hint,
                      const char *format, ...) __attribute__((format(printf, 5, 6)));
/* "FILE: WHAT" or, for a table, also its columns, with KF_HINT_LABEL_COLUMN. */
kf_status kf_fail_unlabelled(kf_err *err, const kf_data *data, kf_hint hint, const char *what);

/* --- one pass over rows (pass.c) ----------------------------------------------------------- */

/* Rows that a worker has; it may change them. */
typedef struct kf_batch {
  uint64_t first, n; /* rows of the data set */
  size_t worker;
  float *rows;     /* [n][dim] */
  int32_t *labels; /* [n] */
  double *norm2;   /* [n] canonical squared lengths; a bad row (skip_bad) has 0 */
  void *workspace; /* the worker's own */
} kf_batch;

typedef struct kf_pass {
  const char *what; /* the stage, for progress from 0 to all rows; NULL: no progress */
  uint64_t rows;    /* in a batch; 0: chosen for the dimension */
  size_t workers;   /* at most this many; 0: all threads; 1: in order, on the calling thread */
  bool labels_only; /* rows and norm2 are NULL, and bad rows are not detected */
  bool rows_only;   /* labels is NULL */
  /* Each rank takes its share of the rows, and the caller joins the results. If one rank fails, all
   * do. */
  bool shared;
  /* Only rows [first, last), one of the parts of this rank after kf_share_begin; last 0: all
   * rows. */
  uint64_t first, last;
  kf_status (*work)(void *argument, const kf_batch *batch, kf_err *err);
  /* Called after `work`, one batch at a time and in order, on the worker that has the batch: for
   * output whose order matters. NULL: none. */
  kf_status (*finish)(void *argument, const kf_batch *batch, kf_err *err);
  void *argument;
  /* The workspace of each worker, a zeroed struct, and the function that allocates its arrays from
   * the arena. The pass checks for failed allocations. 0 and NULL: none. */
  size_t workspace_size;
  void (*make_workspace)(const void *argument, void *workspace, kf_arena *arena);
} kf_pass;
/* Hands every row to `work`, batch by batch, on any worker. All memory is allocated before the
 * first row is read. */
kf_status kf_each_batch(kf_ctx *ctx, const kf_data *data, const kf_pass *pass);
/* The rows of this rank in a shared pass. */
kf_range kf_share_of_rows(const kf_ctx *ctx, const kf_data *data);
/* Joins an array with `size` bytes per row after a shared pass over all rows in which each rank has
 * filled in its own rows. */
kf_status kf_join_rows(kf_ctx *ctx, const kf_data *data, void *array, uint64_t size);

/* Fails if the order of the files is in doubt, so that the lines of `path`, one per row, may belong
 * to other rows. */
kf_status kf_data_refuse_doubt(const kf_data *data, const char *path, kf_err *err);

/* An .npz archive (npz.c): its arrays and their headers. */
typedef struct kf_npz_array {
  const char *name; /* without ".npy" */
  size_t member;
  kf_npy npy;    /* its file is not open */
  bool readable; /* false: opening the array fails, and says why */
} kf_npz_array;
typedef struct kf_npz {
  struct kf_zip *zip;
  size_t n;
  kf_npz_array *arrays;
  kf_arena arena;
} kf_npz;
/* Close it even after a failure. */
kf_status kf_npz_open(kf_npz *npz, const char *path, kf_err *err);
void kf_npz_close(kf_npz *npz);

/* The columns of a .parquet file, for display (parquet_use.c). Free it even after a failure. */
typedef struct kf_columns {
  uint64_t rows;
  size_t n;
  const char **names, **types;
  size_t n_meta; /* sorted by key; long values are cut */
  const char **keys, **values;
  kf_arena arena;
} kf_columns;
kf_status kf_parquet_describe(const char *path, kf_columns *out, kf_err *err);
/* The names and types of a .csv or .tsv that is read as rows; nothing else is set. */
kf_status kf_csv_columns(const char *path, kf_columns *out, kf_err *err);

/* Fails if the rows are already mapped. */
kf_status kf_data_refuse_mapped(const kf_data *data, kf_err *err);
kf_status kf_data_refuse_overwrite(const kf_data *data, const char *path, kf_err *err);

/* Rows of a data set as a data set, in any order; both arguments must outlive it. Consecutive rows
 * are fetched together. */
kf_status kf_data_new_pick(const kf_data *from, const uint64_t *rows, uint64_t n, kf_data **out,
                           kf_err *err);

/* The same for a few rows, which are copied to all ranks; for all ranks together. */
kf_status kf_data_new_collected(kf_ctx *ctx, const kf_data *from, const uint64_t *rows, uint64_t n,
                                kf_data **out);

/* The ids in one file, which is a data set or a gallery (ids.c). */
typedef struct kf_ids {
  bool there;
  uint64_t ends, bytes; /* offsets in the file: of the ends of ids, and of the ids themselves */
  uint64_t n_bytes;
  struct kf_pq_column *column; /* a .parquet column instead; NULL: tensors */
} kf_ids;
/* Finds the ids of `rows` rows in the tensors of a file, if there are any. */
kf_status kf_ids_open(kf_ids *ids, const kf_st *st, uint64_t rows, kf_err *err);
/* As kf_data.fetch_ids. */
kf_status kf_ids_fetch(const kf_ids *ids, const kf_in *in, uint64_t first, uint64_t n,
                       uint64_t *lengths, kf_string *bytes, kf_err *err);
/* Calls `use` with the id of every row, in order. The data set must have ids. */
typedef kf_status (*kf_id_fn)(void *argument, uint64_t row, const char *id, size_t length,
                              kf_err *err);
kf_status kf_data_each_id(const kf_data *data, kf_id_fn use, void *argument, kf_err *err);

/* --- changes of a gallery, in files beside it (changes.c) ---------------------------------- */

#define KF_CHANGE_FORMAT  "koofu.change"
#define KF_CHANGES_ENDING ".changes" /* their folder is the path of the gallery with this */
#define KF_TENSOR_REMOVED "removed"  /* I64: places of rows, ascending */
#define KF_TENSOR_BATCHES "batches"  /* U64: checksums of the added batches */
#define KF_MAX_CHANGES    999999

typedef struct kf_change {
  kf_st st;
  uint64_t rows, first; /* rows that it adds; the place of the first one */
  uint64_t offset;      /* offset of these rows in its file */
  uint64_t checksum;    /* of the file */
  uint64_t batch;       /* checksum of what was added, if there are rows */
  kf_names names;       /* of new classes */
} kf_change;

typedef struct kf_changes {
  uint32_t n;
  kf_change *change;
  size_t room;
  uint64_t base, base_rows;         /* checksum and rows of the gallery file */
  uint64_t places;                  /* rows of the file and of all its changes */
  uint64_t n_removed, base_removed; /* in total; of those in the gallery file */
  uint64_t *removed;                /* [n_words] a bit for each place; NULL: none is removed */
  uint64_t n_words;
  kf_folder *folder; /* held for parked files; NULL: none is parked */
  bool others;       /* the folder has changes of another file */
} kf_changes;

/* kf_st_open and, if the file is a gallery, its changes. verify: check their checksums. */
kf_status kf_changes_open(kf_changes *changes, kf_st *st, const char *path, bool verify,
                          kf_err *err);
void kf_changes_close(kf_changes *changes);
bool kf_changes_removed(const kf_changes *changes, uint64_t place);
/* Whether no row of a change was removed. */
bool kf_change_is_whole(const kf_changes *changes, uint32_t i);
/* The places of the remaining rows; NULL: none was removed. The caller frees them. */
kf_status kf_changes_living(const kf_changes *changes, uint64_t **places, kf_err *err);
/* Appends the names of new classes to those of the file. */
kf_status kf_changes_names(const kf_changes *changes, const char *path, kf_names *names,
                           kf_err *err);
/* The path of change `number` of the gallery at `path`. make: create its folder. The caller frees
 * *out. */
kf_status kf_changes_path(const char *path, uint64_t base, uint64_t number, bool make, char **out,
                          kf_err *err);
/* Deletes changes of files other than the one with checksum `keep`, which has some. */
void kf_changes_sweep(const char *path, uint64_t keep);
/* Removes the folder of changes in one step: everything that needs memory before the gallery is
 * replaced, the rest after it. folder: may be NULL; it is closed. */
kf_status kf_retire_begin(const char *path, DIR **folder, kf_err *err);
kf_status kf_retire_end(const char *path, DIR *folder, kf_err *err);

/* How many rows to fetch at a time: about 1 MiB of floats, at least 1. */
uint64_t kf_data_chunk(uint32_t dim);

/* Metadata that decides whether a run may reuse a file, 16 hex digits: a checksum of encoder,
 * settings and (for text) prompts. */
#define KF_MADE_WITH "made_with"

/* --- writing data sets (save.c) ------------------------------------------------------------ */

/* A data set in a .safetensors file (docs/formats.md): class names in metadata "classes", and these
 * tensors, ordered so that each is aligned. Galleries contain one, too. */
#define KF_TENSOR_ID_ENDS  "id_ends"      /* I64 [rows]: where each id ends in id_bytes */
#define KF_TENSOR_SUMS     "picture_sums" /* U64 [rows]: of pictures, from kf_embed */
#define KF_TENSOR_ROWS     "embeddings"   /* F32, F16, BF16 (F64 from other programs) [rows, dim] */
#define KF_TENSOR_LABELS   "labels"       /* I32 (or other integers) [rows] */
#define KF_TENSOR_ID_BYTES "id_bytes"     /* U8: the ids in UTF-8, without separators */

typedef struct kf_set_layout {
  uint64_t rows;
  uint32_t dim;
  kf_type type;
  bool labels;
  const kf_names *names;   /* n = 0: none */
  uint64_t id_bytes;       /* 0: no ids */
  const kf_origin *origin; /* NULL: not known */
  bool sums;
} kf_set_layout;
/* Adds the class names and declares the tensors, which the caller writes in the order above. */
kf_status kf_stw_declare_set(kf_stw *w, const kf_set_layout *layout, kf_err *err);

/* Writes the rows of a data set, mapped by a function, to .safetensors, .npy or .parquet, by the
 * extension of `path`. Shared by kf_data_save and kf_transform_data. */
typedef struct kf_save_spec {
  const char *what; /* the stage, for progress: "convert" */
  uint32_t dim;     /* of the mapped rows */
  uint64_t batch;   /* rows that are mapped together; 0: chosen for the dimension */
  kf_dtype dtype;
  bool keep_bad;    /* write bad rows (skip_bad) as zeros instead of omitting them */
  bool refuse_zero; /* rows that become zero by mapping or rounding are KF_ERR_DATA */
  /* Maps rows[n][data->dim] with their squared lengths to out[n][dim], on a worker. Bad rows are
   * zeros with norm2 0 and must give zeros. NULL: the rows are not mapped. */
  kf_status (*map)(const void *argument, const kf_kernels *kernels, const float *rows,
                   const double *norm2, uint64_t n, float *out, kf_err *err);
  const void *argument;
  const kf_origin *origin; /* origin of mapped rows; NULL: unknown, or rows are not mapped */
} kf_save_spec;
kf_status kf_data_save_mapped(kf_ctx *ctx, const kf_data *data, const kf_save_spec *spec,
                              const char *path);

/* The same for a file that holds more than a data set. Making a saver finds the bad rows if they
 * are to be omitted; data set and spec must outlive it. Errors go to the context. */
typedef struct kf_saver kf_saver;
kf_status kf_saver_new(kf_ctx *ctx, const kf_data *data, const kf_save_spec *spec, kf_saver **out);
void kf_saver_free(kf_saver *save);
uint64_t kf_saver_rows(const kf_saver *save);            /* rows that will be written */
bool kf_saver_skips(const kf_saver *save, uint64_t row); /* whether a row is omitted */
kf_status kf_saver_write_rows(kf_saver *save, kf_stw *w);
/* number[k]: the class number in the file for class k of the data set; NULL: k. */
kf_status kf_saver_write_labels(kf_saver *save, const int32_t *number, kf_stw *w);
/* Logs how many rows were omitted, if any. */
void kf_saver_log(const kf_saver *save);

#endif
