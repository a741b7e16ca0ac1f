/* parquet.h - reading .parquet: the footer (parquet.c), pages (parquet_page.c), values in them
 * (parquet_values.c), pages that threads share (parquet_cache.c), columns by position (parquet_column.c). */
#ifndef KF_PARQUET_H
#define KF_PARQUET_H

#include "file/file_internal.h"
#include "file/thrift.h"

/* --- the footer (parquet.c) -------------------------------------------------------------------- */

/* How a value is stored, as Parquet numbers it. */
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

/* What a column can be here. */
typedef enum kf_pq_kind {
  KF_PQ_OTHER,
  KF_PQ_ROWS,     /* lists of floats */
  KF_PQ_INTEGERS, /* of at most 64 bits */
  KF_PQ_TEXT,
  KF_PQ_RAW /* bytes, which may be the floats of a row if the caller says so */
} kf_pq_kind;

/* A column: a leaf of the schema. */
typedef struct kf_pq_leaf {
  char *name;      /* "a.b"; what a list adds to the path is left out */
  char *path;      /* all of it: "a.b.list.element" */
  char type[48];   /* for people: "list of f32" */
  kf_pq_kind kind; /* what it is taken for */
  kf_pq_physical physical;
  kf_type element; /* of rows and integers: how a number is to be understood */
  uint32_t length; /* of KF_PQ_FIXED */
  unsigned most_def, most_rep;
  unsigned list_def; /* of a list: the definition level from which on it has an element */
} kf_pq_leaf;

/* The footer of a file. Only `in` is not its own. */
typedef struct kf_pq {
  const kf_in *in;
  uint64_t rows;
  uint64_t end; /* of the pages: where the footer begins */
  size_t n_leaves;
  kf_pq_leaf *leaves;
  unsigned char *footer;
  size_t n_footer;
  size_t groups_at; /* in the footer: its list of row groups */
  size_t n_meta;
  const char **keys, **values;
  kf_arena arena;
} kf_pq;
/* It must be closed even after a failure. */
kf_status kf_pq_open(kf_pq *pq, const kf_in *in, kf_err *err);
void kf_pq_close(kf_pq *pq);
/* By name or path; NULL: there is none. */
const kf_pq_leaf *kf_pq_find(const kf_pq *pq, const char *name);
const char *kf_pq_meta(const kf_pq *pq, const char *key); /* NULL: absent */
/* "FILE: WHAT; its columns are 'a' (list of f32), 'b' (text)" */
kf_status kf_pq_refuse(const kf_pq *pq, kf_hint hint, const char *what, kf_err *err);

/* The pages of a column in one row group, as the footer has them. */
typedef struct kf_pq_chunk {
  uint64_t rows;   /* of the row group */
  uint64_t values; /* with nulls, and every element of a list */
  uint64_t begin, end;
  int codec;
} kf_pq_chunk;
/* One for each row group, in the arena. */
kf_status kf_pq_chunks(const kf_pq *pq, const kf_pq_leaf *leaf, kf_arena *arena,
                       kf_pq_chunk **chunks, uint32_t *n, kf_err *err);

/* --- pages (parquet_page.c) -------------------------------------------------------------------- */

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
  uint32_t n;            /* values, with nulls */
  uint32_t crc;
  uint32_t rep_bytes, def_bytes; /* version 2: of its levels, which are not packed */
  uint32_t dictionary; /* number of the page with its dictionary; KF_PQ_NONE: it has none */
  uint32_t group;
  uint8_t encoding; /* kf_pq_encoding */
  uint8_t version;  /* 1 or 2; 0: a dictionary */
  uint8_t codec;
  bool has_crc;
  bool odd_def, odd_rep; /* levels are in another encoding than RLE */
} kf_pq_page;
#define KF_PQ_NONE UINT32_MAX

/* The most bytes of a page, packed and unpacked, and of each buffer for its values. DuckDB writes the largest
 * pages that are known, of 100 MB. */
#ifndef KF_PQ_LARGEST
#define KF_PQ_LARGEST ((uint64_t)512 << 20)
#endif
/* Fails because a page exceeds the limit: `what` it does, as "has". */
kf_status kf_pq_too_large(const kf_in *in, uint64_t at, const char *column, const char *what,
                          kf_err *err);

/* Reads the header of the page at *at, which moves past the page. data: there is a page for values in
 * it, or a dictionary; otherwise it is to be skipped. column: its name, for messages. */
kf_status kf_pq_page_read(const kf_in *in, const char *column, uint64_t *at, uint64_t end,
                          kf_pq_page *page, bool *data, kf_err *err);

/* The bytes of a page, unpacked. The caller frees them with kf_free. */
kf_status kf_pq_page_load(const kf_in *in, const kf_pq_page *page, unsigned char **bytes,
                          kf_err *err);

/* --- values (parquet_values.c) ------------------------------------------------------------------ */

/* A text, or NULL for a null. */
typedef struct kf_pq_text {
  const char *at;
  uint32_t n;
} kf_pq_text;

/* A page that is decoded: `n` slots, one for each value, null or empty list. */
typedef struct kf_pq_block {
  uint32_t n;
  /* Of rows in their own type (a null is NaN), of integers int64_t (a null is INT64_MIN), of text
   * kf_pq_text. */
  void *slots;
  /* Lists alone, if they are not all known to have the same length: the slots at which rows begin, and
   * for each slot whether the list is there. */
  uint32_t *starts;
  uint32_t n_starts;
  unsigned char *there;
  uint64_t bytes;                 /* of memory */
  void *own[8];                   /* what is to be freed */
  const struct kf_pq_block *dict; /* which its text may point into; NULL: nothing */
} kf_pq_block;
void kf_pq_block_free(kf_pq_block *block);

/* What is known of the lists in a page: if dim > 0, every row has dim values, and the first `phase` of
 * them are in earlier pages. */
typedef struct kf_pq_shape {
  uint32_t dim, phase;
} kf_pq_shape;
/* Decodes a page. dictionary: its decoded dictionary, or NULL. */
kf_status kf_pq_decode(const kf_in *in, const kf_pq_leaf *leaf, const kf_pq_page *page,
                       const kf_pq_shape *shape, const kf_pq_block *dictionary, kf_pq_block *out,
                       kf_err *err);

/* --- pages that threads share (parquet_cache.c) -------------------------------------------------- */

typedef struct kf_pq_cache kf_pq_cache;
kf_pq_cache *kf_pq_cache_new(void); /* NULL: out of memory */
void kf_pq_cache_free(kf_pq_cache *cache);

struct kf_pq_column;
/* A decoded page; it stays as it is until it is let go. */
kf_status kf_pq_cache_get(kf_pq_cache *cache, const struct kf_pq_column *column, uint32_t page,
                          const kf_pq_block **out, kf_err *err);
void kf_pq_cache_let_go(kf_pq_cache *cache, const kf_pq_block *block);
/* Forgets the pages of a column that goes. */
void kf_pq_cache_forget(kf_pq_cache *cache, const struct kf_pq_column *column);

/* The names of a column of classes, as Hugging Face's datasets have them (huggingface.c); none: no names. */
kf_status kf_hf_names(const kf_pq *pq, const char *column, kf_names *names, kf_err *err);

/* --- columns (parquet_column.c) ------------------------------------------------------------------ */

typedef struct kf_pq_group {
  uint64_t first, rows; /* of the file */
  uint64_t values;
  uint32_t begin, end; /* pages */
  bool regular;        /* every row is a list of dim values */
} kf_pq_group;

typedef struct kf_pq_column {
  const kf_in *in;
  kf_pq_cache *cache;
  kf_pq_leaf leaf; /* without path */
  bool raw;        /* rows are bytes of each value, in the type leaf.element */
  uint32_t dim;    /* of rows */
  uint64_t rows;
  uint32_t n_groups, n_pages;
  kf_pq_group *groups;
  kf_pq_page *pages; /* in the order of the file; dictionaries before those that need them */
  size_t page_room;
  uint64_t
      *first_rows; /* [n_pages] of lists in groups that are not regular: the row that begins first
                         * in a page; NULL: all are */
  kf_arena arena;
} kf_pq_column;
/* Finds the pages; for rows also their dimension. raw: the type of the numbers in a column of bytes that
 * holds rows; KF_TYPE_OTHER: it does not. `in` and the cache must outlive it. */
kf_status kf_pq_column_open(const kf_pq *pq, const kf_pq_leaf *leaf, kf_type raw, const kf_in *in,
                            kf_pq_cache *cache, kf_pq_column **out, kf_err *err);
void kf_pq_column_free(kf_pq_column *column);
/* Rows [first, first + n) in f32, and in their own type. A null is a row of NaN. */
kf_status kf_pq_fetch_rows(const kf_pq_column *column, const kf_kernels *kernels, uint64_t first,
                           uint64_t n, float *rows, kf_err *err);
kf_status kf_pq_fetch_raw(const kf_pq_column *column, uint64_t first, uint64_t n, void *rows,
                          kf_err *err);
/* A null is INT64_MIN. */
kf_status kf_pq_fetch_integers(const kf_pq_column *column, uint64_t first, uint64_t n, int64_t *out,
                               kf_err *err);
/* Calls `use` with the text of each row in turn; NULL: it is null. */
typedef kf_status (*kf_pq_text_fn)(void *argument, uint64_t row, const char *text, size_t n,
                                   kf_err *err);
kf_status kf_pq_each_text(const kf_pq_column *column, uint64_t first, uint64_t n, kf_pq_text_fn use,
                          void *argument, kf_err *err);
/* Whether the list of a row is null or empty; false also if the file can no longer be read. */
bool kf_pq_is_null(const kf_pq_column *column, uint64_t row);
uint32_t kf_pq_group_of(const kf_pq_column *column, uint64_t row);
/* What is known of the lists in a page. */
kf_pq_shape kf_pq_shape_of(const kf_pq_column *column, uint32_t page);
void kf_pq_ahead(const kf_pq_column *column, uint64_t first, uint64_t n);

#endif
