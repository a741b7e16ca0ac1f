/* data.c - what all kinds of data sets have in common: their public face, and the check that every
 * row passes on its way in.
 *
 * A row is bad if it is NaN, infinite or zero. Its canonical squared length, which everybody needs
 * anyway, tells: floats neither overflow nor underflow when they are squared in f64. */
#include "file/file_internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

void kf_data_free(kf_data *data) {
  if (data == NULL) return;
  kf_names_clear(&data->names);
  data->destroy(data);
}

uint64_t kf_data_rows(const kf_data *data) { return data->rows; }
uint32_t kf_data_dim(const kf_data *data) { return data->dim; }
int kf_data_has_labels(const kf_data *data) { return data->has_labels; }
uint32_t kf_data_classes(const kf_data *data) { return data->n_classes; }
uint64_t kf_data_unlabelled(const kf_data *data) { return data->unlabelled; }

const char *kf_data_class_name(const kf_data *data, uint32_t k) {
  return k < data->names.n ? data->names.name[k] : NULL;
}

uint64_t kf_data_chunk(uint32_t dim) {
  uint64_t rows = ((uint64_t)1 << 20) / (sizeof(float) * dim);
  return rows > 0 ? rows : 1;
}

int kf_data_reads(const kf_data *data, const char *path) {
  kf_err ignored;
  return kf_data_refuse_overwrite(data, path, &ignored) != KF_OK;
}

int kf_data_mapped(const kf_data *data) { return data->mapped; }

kf_status kf_data_refuse_mapped(const kf_data *data, kf_err *err) {
  if (!data->mapped) return KF_OK;
  char where[KF_WHERE_SIZE];
  data->where(data, 0, where, sizeof where);
  return kf_fail(err, KF_ERR_DATA,
                 "%s: rows of a gallery are mapped already; give the original rows", where);
}

kf_status kf_data_refuse_overwrite(const kf_data *data, const char *path, kf_err *err) {
  return data->refuse == NULL ? KF_OK : data->refuse(data, path, err);
}

/* --- the check ------------------------------------------------------------------------------- */

static kf_status fail_row(const kf_data *data, uint64_t row, const float *values, kf_err *err) {
  char where[KF_WHERE_SIZE];
  data->where(data, row, where, sizeof where);
  for (uint32_t i = 0; i < data->dim; i++) {
    if (isfinite(values[i])) continue;
    return kf_fail(err, KF_ERR_DATA,
                   "%s: column %" PRIu32 " is %s (such rows can be skipped: --skip-bad)", where, i,
                   isnan(values[i]) ? "NaN" : "infinite");
  }
  return kf_fail(err, KF_ERR_DATA,
                 "%s: every column is zero (such rows can be skipped: --skip-bad)", where);
}

static kf_status fail_label(const kf_data *data, uint64_t row, int32_t label, kf_err *err) {
  char where[KF_WHERE_SIZE];
  data->where(data, row, where, sizeof where);
  return kf_fail(err, KF_ERR_DATA,
                 "%s: the label is now %" PRId32 ", where there were %" PRIu32
                 " classes when the file was opened",
                 where, label, data->n_classes);
}

kf_status kf_data_fetch(const kf_data *data, const kf_kernels *kernels, uint64_t first, uint64_t n,
                        float *rows, int32_t *labels, double *norm2, kf_err *err) {
  KF_TRY(data->fetch(data, kernels, first, n, rows, labels, err));
  /* Labels were all looked at when the file was opened, but files can change. */
  for (uint64_t i = 0; labels != NULL && data->has_labels && i < n; i++)
    if (labels[i] < KF_LABEL_NONE || labels[i] >= (int64_t)data->n_classes)
      return fail_label(data, first + i, labels[i], err);
  if (rows == NULL) return KF_OK;
  for (uint64_t i = 0; i < n; i++) {
    float *row = rows + i * data->dim;
    double length2 = kernels->norm2(row, data->dim);
    if (!(length2 > 0 && isfinite(length2))) {
      if (!data->skip_bad) return fail_row(data, first + i, row, err);
      memset(row, 0, data->dim * sizeof *row);
      if (labels != NULL) labels[i] = KF_LABEL_BAD;
      length2 = 0;
    }
    if (norm2 != NULL) norm2[i] = length2;
  }
  return KF_OK;
}

kf_status kf_data_get(kf_ctx *ctx, const kf_data *data, uint64_t first, uint64_t n, float *rows,
                      int32_t *labels) {
  KF_ENTER(ctx, data != NULL && rows != NULL);
  if (data->skip_bad && labels == NULL)
    return kf_fail(err, KF_ERR_ARG, "kf_data_get: with skip_bad, labels must not be NULL");
  if (first > data->rows || n > data->rows - first) {
    return kf_fail(err, KF_ERR_ARG,
                   "kf_data_get: %" PRIu64 " rows from row %" PRIu64
                   " go past the end of a data set of %" PRIu64 " rows",
                   n, first, data->rows);
  }
  return kf_data_fetch(data, ctx->kernels, first, n, rows, labels, NULL, err);
}
