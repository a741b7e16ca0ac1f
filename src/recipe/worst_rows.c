/* worst_rows.c - the wrong answers with the widest margins, with ids and pictures, for the
 * report. */
#include "encode/encode.h"
#include "recipe/recipe.h"

#include <stdlib.h>

enum { MAX_ROWS = 12, SIDE = 96, MAX_ID = 65536 + 1 };

/* The wider margin first; of equal margins the lower row. */
static int by_margin(const void *a, const void *b) {
  const kf_worst_row *x = a, *y = b;
  double p = x->mistake->margin, q = y->mistake->margin;
  if (p != q) return p > q ? -1 : 1;
  return (x->mistake->row > y->mistake->row) - (x->mistake->row < y->mistake->row);
}

/* Adds the thumbnail of a row if its id is the path of a readable picture. */
static kf_status take_picture(kf_worst_row *row, kf_err *err) {
  kf_err own;
  kf_thumbnail picture;
  kf_status status = kf_thumbnail_read(row->id, SIDE, NULL, &picture, &own);
  if (status == KF_ERR_MEM) return kf_fail_memory(err);
  if (status != KF_OK) return KF_OK;
  row->picture = picture.uri;
  row->width = picture.width;
  row->height = picture.height;
  return KF_OK;
}

static kf_status take_ids(kf_ctx *ctx, const kf_data *data, kf_worst_row *rows, size_t n) {
  char *id = kf_alloc(MAX_ID, 1);
  if (id == NULL) return kf_fail_memory(&ctx->err);
  kf_status status = KF_OK;
  for (size_t i = 0; status == KF_OK && i < n; i++) {
    status = kf_data_get_id(ctx, data, rows[i].mistake->row, id, MAX_ID);
    if (status != KF_OK) break;
    rows[i].id = kf_strdup(id);
    status = rows[i].id != NULL ? take_picture(&rows[i], &ctx->err) : kf_fail_memory(&ctx->err);
  }
  kf_free(id);
  return status;
}

kf_status kf_worst_rows_new(kf_ctx *ctx, const kf_data *data, const kf_analysis *analysis,
                            kf_worst_row **out, size_t *n) {
  *out = NULL;
  *n = 0;
  if (analysis->n_mistakes == 0) return KF_OK;
  kf_worst_row *rows = kf_alloc_zero(analysis->n_mistakes, sizeof *rows);
  if (rows == NULL) return kf_fail_memory(&ctx->err);
  for (size_t i = 0; i < analysis->n_mistakes; i++) rows[i].mistake = &analysis->mistakes[i];
  qsort(rows, analysis->n_mistakes, sizeof *rows, by_margin);
  size_t kept = analysis->n_mistakes < MAX_ROWS ? analysis->n_mistakes : MAX_ROWS;
  kf_status status = kf_data_has_ids(data) ? take_ids(ctx, data, rows, kept) : KF_OK;
  if (status == KF_OK) {
    *out = rows;
    *n = kept;
  } else {
    kf_worst_rows_free(rows, kept);
  }
  return status;
}

void kf_worst_rows_free(kf_worst_row *rows, size_t n) {
  for (size_t i = 0; i < n; i++) {
    kf_free(rows[i].id);
    kf_free(rows[i].picture);
  }
  kf_free(rows);
}
