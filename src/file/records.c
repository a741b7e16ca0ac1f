/* records.c - writes a table record by record, as .parquet. */
#include "file/parquet_write.h"

#include <string.h>

struct kf_records {
  kf_pqw *file;
  size_t n;
  kf_column_type *types;
  kf_arena arena; /* of types and names */
};

static kf_status open_records(kf_ctx *ctx, kf_records *r, const char *path,
                              const kf_column *columns, size_t n, kf_err *err) {
  static const kf_pqw_kind kinds[] = {KF_PQW_TEXT, KF_PQW_I64, KF_PQW_F64};
  kf_pqw_column *files;
  KF_TAKE(&r->arena, files, n);
  KF_TAKE(&r->arena, r->types, n);
  if (r->arena.failed) return kf_fail_memory(err);
  r->n = n;
  for (size_t i = 0; i < n; i++) {
    if (columns[i].name == NULL || (unsigned)columns[i].type > KF_COLUMN_REAL)
      return kf_fail(err, KF_ERR_ARG, "kf_records_open: column %zu has no name or no type", i);
    KF_TRY(
        kf_check_reserved(columns[i].reserved, sizeof columns[i].reserved, "kf_records_open", err));
    const char *name = kf_copy_text(&r->arena, columns[i].name, strlen(columns[i].name));
    if (name == NULL) return kf_fail_memory(err);
    r->types[i] = columns[i].type;
    files[i] = (kf_pqw_column){.name = name, .kind = kinds[columns[i].type], .optional = true};
  }
  return kf_pqw_open(ctx, path, files, n, &r->file, err);
}

kf_status kf_records_open(kf_ctx *ctx, const char *path, const kf_column *columns, size_t n,
                          kf_records **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, path != NULL && columns != NULL && out != NULL);
  if (kf_format_of(path) != KF_FORMAT_PARQUET || n == 0)
    return kf_fail(err, KF_ERR_ARG, "%s: records are written as .parquet, with at least one column",
                   path);
  kf_records *r = kf_alloc_zero(1, sizeof *r);
  if (r == NULL) return kf_fail_memory(err);
  KF_HAND_OUT(open_records(ctx, r, path, columns, n, err), out, r, kf_records_free);
}

void kf_records_free(kf_records *r) {
  if (r == NULL) return;
  kf_pqw_abort(r->file);
  kf_arena_free(&r->arena);
  kf_free(r);
}

kf_status kf_records_add(kf_ctx *ctx, kf_records *r, const kf_cell *cells) {
  KF_ENTER(ctx, r != NULL && cells != NULL);
  for (size_t i = 0; i < r->n; i++) {
    const kf_cell *c = &cells[i];
    KF_TRY(kf_check_reserved(c->reserved, sizeof c->reserved, __func__, err));
    if (r->types[i] == KF_COLUMN_TEXT) {
      if (!c->null && (c->text == NULL || !kf_utf8_valid(c->text, strlen(c->text))))
        return kf_fail(err, KF_ERR_ARG, "kf_records_add: cell %zu is not UTF-8 text", i);
      kf_pqw_add(r->file, i, c->null ? NULL : c->text, c->null ? 0 : strlen(c->text));
    } else if (r->types[i] == KF_COLUMN_INTEGER) {
      kf_pqw_add(r->file, i, c->null ? NULL : &c->integer, sizeof c->integer);
    } else {
      kf_pqw_add(r->file, i, c->null ? NULL : &c->real, sizeof c->real);
    }
  }
  return kf_pqw_is_due(r->file) ? kf_pqw_flush(r->file, err) : KF_OK;
}

kf_status kf_records_commit(kf_ctx *ctx, kf_records *r) {
  KF_ENTER(ctx, r != NULL);
  kf_status status = kf_pqw_commit(r->file, err);
  r->file = NULL;
  kf_records_free(r);
  return status;
}
