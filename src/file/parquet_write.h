/* parquet_write.h - writing .parquet (parquet_write.c). */
#ifndef KF_PARQUET_WRITE_H
#define KF_PARQUET_WRITE_H

#include "file/file_internal.h"

typedef enum kf_pqw_kind {
  KF_PQW_TEXT,
  KF_PQW_I32,
  KF_PQW_I64,
  KF_PQW_F64,
  KF_PQW_ROWS /* lists of `dim` numbers of `type`: f32 or f16 */
} kf_pqw_kind;

typedef struct kf_pqw_column {
  const char *name;
  kf_pqw_kind kind;
  bool optional; /* values may be null */
  kf_type type;
  uint32_t dim;
} kf_pqw_column;

/* Values are added to each column and kept until kf_pqw_flush writes them as a row group; every
 * column must then have the same number of values. Nothing is compressed. */
typedef struct kf_pqw kf_pqw;
/* ctx: as in kf_out_open. The names must outlive it. */
kf_status kf_pqw_open(kf_ctx *ctx, const char *path, const kf_pqw_column *columns, size_t n,
                      kf_pqw **out, kf_err *err);
kf_status kf_pqw_meta(kf_pqw *w, const char *key, const char *value, kf_err *err);
/* Adds a value to a column. bytes: the text, or the number itself; NULL: null. */
void kf_pqw_add(kf_pqw *w, size_t column, const void *bytes, size_t n);
/* Adds n whole rows. */
void kf_pqw_add_rows(kf_pqw *w, size_t column, const void *bytes, uint64_t n);
/* How many values of a column wait, and whether a flush is due. */
uint64_t kf_pqw_waiting(const kf_pqw *w, size_t column);
bool kf_pqw_is_due(const kf_pqw *w);
kf_status kf_pqw_flush(kf_pqw *w, kf_err *err);
/* Flushes, writes the footer and commits the file. Always frees w. */
kf_status kf_pqw_commit(kf_pqw *w, kf_err *err);
void kf_pqw_abort(kf_pqw *w); /* frees w; NULL is fine */

/* --- a data set (parquet_save.c) ----------------------------------------------------------- */

/* The caller writes rows in order; labels and ids of the rows that `save` does
 * not skip are fetched. */
typedef struct kf_pq_set kf_pq_set;
kf_status kf_pq_set_open(kf_ctx *ctx, const kf_data *data, const kf_saver *save,
                         const kf_set_layout *layout, const char *path, kf_pq_set **out,
                         kf_err *err);
kf_status kf_pq_set_write(kf_pq_set *set, const void *bytes, uint64_t n, kf_err *err);
/* Always frees the set. */
kf_status kf_pq_set_commit(kf_pq_set *set, kf_err *err);
void kf_pq_set_abort(kf_pq_set *set); /* NULL is fine */

#endif
