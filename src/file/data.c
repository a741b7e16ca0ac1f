/* data.c - code shared by all kinds of data sets: public functions and the check of every row.
 *
 * A row is bad if it is NaN, infinite or zero. Its canonical squared length, which is needed
 * anyway, shows that: squares of floats neither overflow nor underflow in f64. */
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

kf_status kf_data_refuse_doubt(const kf_data *data, const char *path, kf_err *err) {
  if (data->doubt[0] == NULL) return KF_OK;
  return kf_fail_hint(err, KF_ERR_ARG, KF_HINT_ORDER,
                      "%s covers the rows of all files, but their order is in doubt: %s "
                      "comes before %s by bytes, and after it by number",
                      path, data->doubt[0], data->doubt[1]);
}

kf_status kf_data_refuse_mapped(const kf_data *data, kf_err *err) {
  if (!data->mapped) return KF_OK;
  return kf_fail_row(err, data, KF_ALL_ROWS, KF_HINT_NONE,
                     "the rows of a gallery are already mapped; give the original rows");
}

kf_status kf_data_refuse_overwrite(const kf_data *data, const char *path, kf_err *err) {
  return data->refuse == NULL ? KF_OK : data->refuse(data, path, err);
}

/* --- the check ----------------------------------------------------------------------------- */

kf_status kf_fail_row(kf_err *err, const kf_data *data, uint64_t row, kf_hint hint,
                      const char *format, ...) {
  char where[KF_WHERE_SIZE], cause[512];
  data->where(data, row, where, sizeof where);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(cause, sizeof cause, format, arguments);
  va_end(arguments);
  return kf_fail_hint(err, KF_ERR_DATA, hint, "%s: %s", where, cause);
}

kf_status kf_fail_unlabelled(kf_err *err, const kf_data *data, kf_hint hint, const char *what) {
  if (data->columns == NULL) return kf_fail_row(err, data, KF_ALL_ROWS, hint, "%s", what);
  char where[KF_WHERE_SIZE];
  data->where(data, KF_ALL_ROWS, where, sizeof where);
  return kf_fail_hint(err, KF_ERR_DATA, KF_HINT_LABEL_COLUMN, "%s: %s; its columns are %s", where,
                      what, data->columns);
}

static kf_status fail_bad(const kf_data *data, uint64_t row, const float *values, kf_err *err) {
  if (data->is_null != NULL && data->is_null(data, row))
    return kf_fail_row(err, data, row, KF_HINT_SKIP_BAD, "it is null");
  for (uint32_t i = 0; i < data->dim; i++) {
    if (isfinite(values[i])) continue;
    const char *name = data->dim_name != NULL ? data->dim_name(data, row, i) : NULL;
    const char *what = isnan(values[i]) ? "NaN" : "infinite";
    if (name == NULL)
      return kf_fail_row(err, data, row, KF_HINT_SKIP_BAD, "column %" PRIu32 " is %s", i, what);
    return kf_fail_row(err, data, row, KF_HINT_SKIP_BAD, "column '%.64s' is %s", name, what);
  }
  return kf_fail_row(err, data, row, KF_HINT_SKIP_BAD, "every column is zero");
}

kf_status kf_data_fetch(const kf_data *data, const kf_kernels *kernels, uint64_t first, uint64_t n,
                        float *rows, int32_t *labels, double *norm2, kf_err *err) {
  KF_TRY(data->fetch(data, kernels, first, n, rows, labels, err));
  /* Labels were checked when the file was opened, but files can change. */
  for (uint64_t i = 0; labels != NULL && data->has_labels && i < n; i++)
    if (labels[i] < KF_LABEL_NONE || labels[i] >= (int64_t)data->n_classes)
      return kf_fail_row(err, data, first + i, KF_HINT_NONE,
                         "the label is now %" PRId32 ", but there were %" PRIu32
                         " classes when the file was opened",
                         labels[i], data->n_classes);
  if (rows == NULL) return KF_OK;
  for (uint64_t i = 0; i < n; i++) {
    float *row = rows + i * data->dim;
    double length2 = kernels->norm2(row, data->dim);
    if (!(length2 > 0 && isfinite(length2))) {
      if (!data->skip_bad) return fail_bad(data, first + i, row, err);
      memset(row, 0, data->dim * sizeof *row);
      if (labels != NULL) labels[i] = KF_LABEL_BAD;
      length2 = 0;
    }
    if (norm2 != NULL) norm2[i] = length2;
  }
  return KF_OK;
}

static kf_status take_labels(void *argument, const kf_batch *b, kf_err *err) {
  int32_t *labels = argument;
  (void)err;
  memcpy(labels + b->first, b->labels, b->n * sizeof *labels);
  return KF_OK;
}

kf_status kf_data_labels(kf_ctx *ctx, const kf_data *data, int32_t *labels) {
  KF_ENTER(ctx, data != NULL && labels != NULL);
  kf_pass pass = {.labels_only = true, .work = take_labels, .argument = labels};
  return kf_each_batch(ctx, data, &pass);
}

kf_status kf_data_get(kf_ctx *ctx, const kf_data *data, uint64_t first, uint64_t n, float *rows,
                      int32_t *labels) {
  KF_ENTER(ctx, data != NULL && rows != NULL);
  if (data->skip_bad && labels == NULL)
    return kf_fail(err, KF_ERR_ARG, "kf_data_get: with skip_bad, labels must not be NULL");
  if (first > data->rows || n > data->rows - first)
    return kf_fail(err, KF_ERR_ARG,
                   "kf_data_get: %" PRIu64 " rows from row %" PRIu64
                   " go past the end of a data set of %" PRIu64 " rows",
                   n, first, data->rows);
  return kf_data_fetch(data, ctx->kernels, first, n, rows, labels, NULL, err);
}
