/* parquet.h - reading .parquet: the footer (parquet.c), pages (parquet_page.c), their
 * values (parquet_values.c), the cache of pages (parquet_cache.c), random access to
 * columns (parquet_column.c). */
#ifndef KF_PARQUET_H
#define KF_PARQUET_H

#include "file/file_internal.h"
#include "file/thrift.h"

/* --- the footer (parquet.c) ---------------------------------------------------------------- */

/* Physical types, as Parquet numbers them. */
typedef enum kf_pq_physical {
  KF_PQ_BOOLEAN = 0,
  KF_PQ_INT32 = 1,
  KF_PQ_INT64 = 2,
  KF_PQ_INT96 = 3,
  KF_PQ_FLOAT = 4,
  KF_PQ_DOUBLE = 5,
  KF_PQ_BYTES = 6, /* BYTE_ARRAY */
  KF_PQ_FIXED = 7  /* FIXED_LEN_BYTE_ARRAY */
} kf_pq_physical;

/* Annotations of nodes in the schema, as Parquet numbers them. */
enum { KF_PQ_REQUIRED, KF_PQ_OPTIONAL, KF_PQ_REPEATED };
enum {
  KF_PQ_CONVERTED_UTF8 = 0,
  KF_PQ_CONVERTED_LIST = 3,
  KF_PQ_CONVERTED_ENUM = 4,
  KF_PQ_CONVERTED_UINT_8 = 11,
  KF_PQ_CONVERTED_INT_8 = 15,
  KF_PQ_CONVERTED_INT_64 = 18
};
enum {
  KF_PQ_LOGICAL_STRING = 1,
  KF_PQ_LOGICAL_LIST = 3,
  KF_PQ_LOGICAL_ENUM = 4,
  KF_PQ_LOGICAL_INTEGER = 10,
  KF_PQ_LOGICAL_FLOAT16 = 15
};

/* What koofu can use a column for. */
typedef enum kf_pq_kind {
  KF_PQ_OTHER,
  KF_PQ_ROWS,     /* lists of floats */
  KF_PQ_FLOATS,   /* one float in each row */
  KF_PQ_INTEGERS, /* of at most 64 bits */
  KF_PQ_TEXT,
  KF_PQ_RAW /* bytes; rows of floats if the caller says so */
} kf_pq_kind;

/* A column: a leaf of the schema. */
typedef struct kf_pq_leaf {
  char *name;    /* "a.b", without the nodes that a list adds */
  char *path;    /* the full path: "a.b.list.element" */
  char type[48]; /* for display: "list of f32" */
  kf_pq_kind kind;
  kf_pq_physical physical;
  kf_type element; /* of rows and integers: type of the stored numbers */
  uint32_t length; /* of KF_PQ_FIXED */
  unsigned most_def, most_rep;
  unsigned list_def; /* lists: the lowest definition level of an element */
} kf_pq_leaf;

/* The footer of a file. It owns everything but `in`. */
typedef struct kf_pq {
  const kf_in *in;
  uint64_t rows;
  uint64_t end; /* end of the pages: where the footer begins */
  size_t n_leaves;
  kf_pq_leaf *leaves;
  unsigned char *footer;
  size_t n_footer;
  size_t groups_at; /* offset in the footer of the list of row groups */
  size_t n_meta;
  const char **keys, **values;
  kf_arena arena;
} kf_pq;
/* Close it even after a failure. */
kf_status kf_pq_open(kf_pq *pq, const kf_in *in, kf_err *err);
void kf_pq_close(kf_pq *pq);
/* By name or path; NULL: there is none. */
const kf_pq_leaf *kf_pq_find(const kf_pq *pq, const char *name);
const char *kf_pq_meta(const kf_pq *pq, const char *key); /* NULL: absent */
/* Its columns, [n_leaves], to be freed with kf_free. taken: names of some that are no dimensions,
 * ending in NULL. */
kf_status kf_pq_table(const kf_pq *pq, const char *const *taken, kf_table_column **out,
                      kf_err *err);
/* "FILE: WHAT; its columns are 'a' (list of f32), 'b' (text)" */
kf_status kf_pq_refuse(const kf_pq *pq, kf_hint hint, const char *what, kf_err *err);

/* The pages of a column in one row group, according to the footer. */
typedef struct kf_pq_chunk {
  uint64_t rows;   /* of the row group */
  uint64_t values; /* including nulls and every element of a list */
  uint64_t begin, end;
  int codec;
} kf_pq_chunk;
/* One for each row group, in the arena. */
kf_status kf_pq_chunks(const kf_pq *pq, const kf_pq_leaf *leaf, kf_arena *arena,
                       kf_pq_chunk **chunks, uint32_t *n, kf_err *err);

/* --- pages (parquet_page.c) ---------------------------------------------------------------- */

typedef enum kf_pq_encoding {
  KF_PQ_PLAIN = 0,
  KF_PQ_PLAIN_DICTIONARY = 2,
  KF_PQ_RLE = 3,
  KF_PQ_BIT_PACKED = 4,
  KF_PQ_DELTA_BINARY_PACKED = 5,
  KF_PQ_DELTA_LENGTH_BYTE_ARRAY = 6,
  KF_PQ_DELTA_BYTE_ARRAY = 7,
  KF_PQ_RLE_DICTIONARY = 8,
  KF_PQ_BYTE_STREAM_SPLIT = 9
} kf_pq_encoding;

typedef struct kf_pq_page {
  uint64_t offset;       /* of its bytes in the file */
  uint64_t first;        /* values before it in its row group */
  uint32_t packed, size; /* bytes in the file, and unpacked */
  uint32_t n;            /* values, including nulls */
  uint32_t crc;
  uint32_t rep_bytes, def_bytes; /* version 2: size of its levels, which are not packed */
  uint32_t dictionary;           /* index of its dictionary page; KF_PQ_NONE: none */
  uint32_t group;
  uint8_t encoding; /* kf_pq_encoding */
  uint8_t version;  /* 1 or 2; 0: a dictionary */
  uint8_t codec;
  bool has_crc;
  bool odd_def, odd_rep; /* levels use another encoding than RLE */
} kf_pq_page;
#define KF_PQ_NONE UINT32_MAX

/* Limit for the bytes of a page, packed and unpacked, and of each buffer for its values. The
 * largest known pages are those of DuckDB, of 100 MB. */
#ifndef KF_PQ_LARGEST
#define KF_PQ_LARGEST ((uint64_t)512 << 20)
#endif
/* Fails because a page exceeds the limit. `what`: the verb of the message, as "has". */
kf_status kf_pq_too_large(const kf_in *in, uint64_t at, const char *column, const char *what,
                          kf_err *err);

/* Reads the header of the page at *at, and moves *at past the page. *data: the page holds values or
 * a dictionary; otherwise skip it. column: its name, for messages. */
kf_status kf_pq_page_read(const kf_in *in, const char *column, uint64_t *at, uint64_t end,
                          kf_pq_page *page, bool *data, kf_err *err);

/* The bytes of a page, unpacked. The caller frees them with kf_free. */
kf_status kf_pq_page_load(const kf_in *in, const kf_pq_page *page, unsigned char **bytes,
                          kf_err *err);

/* --- values (parquet_values.c) ------------------------------------------------------------- */

/* A text, or NULL for a null. */
typedef struct kf_pq_text {
  const char *at;
  uint32_t n;
} kf_pq_text;

/* A decoded page: `n` slots, one for each value, null or empty list. */
typedef struct kf_pq_block {
  uint32_t n;
  /* Rows: numbers in their own type (null: NaN). Integers: int64_t (null:
   * INT64_MIN). Text: kf_pq_text. */
  void *slots;
  /* Lists of lengths not known in advance: the slots at which rows begin, and for each slot
   * whether its list exists. */
  uint32_t *starts;
  uint32_t n_starts;
  unsigned char *there;
  uint64_t bytes;                 /* of memory */
  void *own[8];                   /* memory to free */
  const struct kf_pq_block *dict; /* text may point into it; NULL: none */
} kf_pq_block;
void kf_pq_block_free(kf_pq_block *block);

/* The known shape of the lists in a page: if dim > 0, every row has dim values, and the first
 * `phase` values of the first row are in earlier pages. */
typedef struct kf_pq_shape {
  uint32_t dim, phase;
} kf_pq_shape;
/* Decodes a page. dictionary: decoded, or NULL. */
kf_status kf_pq_decode(const kf_in *in, const kf_pq_leaf *leaf, const kf_pq_page *page,
                       const kf_pq_shape *shape, const kf_pq_block *dictionary, kf_pq_block *out,
                       kf_err *err);

/* --- pages that threads share (parquet_cache.c) -------------------------------------------- */

typedef struct kf_pq_cache kf_pq_cache;
kf_pq_cache *kf_pq_cache_new(void); /* NULL: out of memory */
void kf_pq_cache_free(kf_pq_cache *cache);

struct kf_pq_column;
/* A decoded page, which stays valid until it is released. */
kf_status kf_pq_cache_get(kf_pq_cache *cache, const struct kf_pq_column *column, uint32_t page,
                          const kf_pq_block **out, kf_err *err);
void kf_pq_cache_release(kf_pq_cache *cache, const kf_pq_block *block);
/* Drops the pages of a column. */
void kf_pq_cache_forget(kf_pq_cache *cache, const struct kf_pq_column *column);

/* The names of a class column, as Hugging Face datasets store them (huggingface.c); none: n = 0. */
kf_status kf_hf_names(const kf_pq *pq, const char *column, kf_names *names, kf_err *err);

/* Copies a column for each dimension (parquet_dims.c). Afterwards pq is read from shard->beside.
 * stem, taken: see kf_choose_dims and kf_pq_table. */
kf_status kf_parquet_open_dims(struct kf_shard *shard, kf_pq *pq, const char *stem,
                               const char *const *taken, kf_pq_cache *cache, kf_err *err);

/* --- columns (parquet_column.c) ------------------------------------------------------------ */

typedef struct kf_pq_group {
  uint64_t first, rows; /* rows of the file */
  uint64_t values;
  uint32_t begin, end; /* pages */
  bool regular;        /* every row is a list of dim values */
} kf_pq_group;

typedef struct kf_pq_column {
  const kf_in *in;
  kf_pq_cache *cache;
  kf_pq_leaf leaf; /* `path` is not set */
  bool raw;        /* each value is the bytes of a row, in the type leaf.element */
  uint32_t dim;    /* of rows */
  uint64_t rows;
  uint32_t n_groups, n_pages;
  kf_pq_group *groups;
  kf_pq_page *pages; /* in file order; dictionaries precede the pages that use them */
  size_t page_room;
  /* [n_pages] for groups that are not regular: the first row that begins in a page or after it.
   * NULL: all groups are regular. */
  uint64_t *first_rows;
  kf_arena arena;
} kf_pq_column;
/* Finds the pages and, for rows, the dimension. raw: the type of the numbers if the rows are values
 * of bytes, otherwise KF_TYPE_OTHER. `in` and the cache must outlive it. */
kf_status kf_pq_column_open(const kf_pq *pq, const kf_pq_leaf *leaf, kf_type raw, const kf_in *in,
                            kf_pq_cache *cache, kf_pq_column **out, kf_err *err);
void kf_pq_column_free(kf_pq_column *column);
/* Rows [first, first + n) as f32, or in their own type. A null is a row of NaN. */
kf_status kf_pq_fetch_rows(const kf_pq_column *column, const kf_kernels *kernels, uint64_t first,
                           uint64_t n, float *rows, kf_err *err);
kf_status kf_pq_fetch_raw(const kf_pq_column *column, uint64_t first, uint64_t n, void *rows,
                          kf_err *err);
/* A null is INT64_MIN. */
kf_status kf_pq_fetch_integers(const kf_pq_column *column, uint64_t first, uint64_t n, int64_t *out,
                               kf_err *err);
/* Calls `use` with the text of each row in turn; text NULL: null. */
typedef kf_status (*kf_pq_text_fn)(void *argument, uint64_t row, const char *text, size_t n,
                                   kf_err *err);
kf_status kf_pq_each_text(const kf_pq_column *column, uint64_t first, uint64_t n, kf_pq_text_fn use,
                          void *argument, kf_err *err);
/* Whether the list of a row is null or empty; also false if the file can no longer be read. */
bool kf_pq_is_null(const kf_pq_column *column, uint64_t row);
uint32_t kf_pq_group_of(const kf_pq_column *column, uint64_t row);
/* The known shape of the lists in a page. */
kf_pq_shape kf_pq_shape_of(const kf_pq_column *column, uint32_t page);
void kf_pq_ahead(const kf_pq_column *column, uint64_t first, uint64_t n);

#endif
