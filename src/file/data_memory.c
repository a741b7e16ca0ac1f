/* data_memory.c - a data set over the caller's arrays. */
#include "file/file_internal.h"

#include <inttypes.h>
#include <string.h>

typedef struct memory_data {
  kf_data base;
  const float *rows;
  const int32_t *labels; /* NULL: none */
} memory_data;

static kf_status memory_fetch(const kf_data *data, const kf_kernels *kernels, uint64_t first,
                              uint64_t n, float *rows, int32_t *labels, kf_err *err) {
  (void)kernels;
  (void)err;
  const memory_data *m = (const memory_data *)data;
  if (rows != NULL && n > 0)
    memcpy(rows, m->rows + first * data->dim, n * data->dim * sizeof *rows);
  for (uint64_t i = 0; labels != NULL && i < n; i++)
    labels[i] = m->labels != NULL ? m->labels[first + i] : KF_LABEL_NONE;
  return KF_OK;
}

static void memory_where(const kf_data *data, uint64_t row, char *text, size_t size) {
  (void)data;
  if (row == KF_ALL_ROWS)
    snprintf(text, size, "the data set");
  else
    snprintf(text, size, "row %" PRIu64, row);
}

static void memory_destroy(kf_data *data) { kf_free(data); }

/* Checks the labels and counts classes and unlabelled rows; n_classes 0: not known. */
static kf_status check_labels(kf_data *data, const int32_t *labels, uint32_t n_classes,
                              kf_err *err) {
  uint32_t limit = n_classes > 0 ? n_classes : KF_MAX_CLASSES;
  int32_t largest = -1;
  for (uint64_t i = 0; i < data->rows; i++) {
    if (labels[i] < KF_LABEL_NONE || labels[i] >= (int64_t)limit)
      return kf_fail(err, KF_ERR_DATA,
                     "row %" PRIu64 ": the label is %" PRId32 ", not -1 to %" PRIu32, i, labels[i],
                     limit - 1);
    if (labels[i] == KF_LABEL_NONE) data->unlabelled++;
    if (labels[i] > largest) largest = labels[i];
  }
  data->has_labels = true;
  data->n_classes = n_classes > 0 ? n_classes : (uint32_t)(largest + 1);
  return KF_OK;
}

static kf_status check_arguments(const float *rows, uint64_t n, uint32_t dim, const int32_t *labels,
                                 const char *const *names, uint32_t n_classes, kf_err *err) {
  if (rows == NULL || n == 0 || dim == 0 || dim > KF_MAX_DIM)
    return kf_fail(err, KF_ERR_ARG,
                   "kf_data_open_memory: %" PRIu64 " rows of %" PRIu32
                   " columns; there must be rows, of 1 to %u columns",
                   n, dim, KF_MAX_DIM);
  if (n_classes > KF_MAX_CLASSES)
    return kf_fail(err, KF_ERR_ARG, "kf_data_open_memory: more than %u classes", KF_MAX_CLASSES);
  if (names != NULL && (labels == NULL || n_classes == 0))
    return kf_fail(err, KF_ERR_ARG,
                   "kf_data_open_memory: names need labels and the number of classes");
  return KF_OK;
}

kf_status kf_data_open_memory(kf_ctx *ctx, const float *rows, uint64_t n, uint32_t dim,
                              const int32_t *labels, const char *const *names, uint32_t n_classes,
                              kf_data **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, out != NULL);
  KF_TRY(check_arguments(rows, n, dim, labels, names, n_classes, err));
  memory_data *m = kf_alloc_zero(1, sizeof *m);
  if (m == NULL) return kf_fail_memory(err);
  *m = (memory_data){.base = {.rows = n,
                              .dim = dim,
                              .fetch = memory_fetch,
                              .where = memory_where,
                              .destroy = memory_destroy},
                     .rows = rows,
                     .labels = labels};
  kf_status status = KF_OK;
  if (labels != NULL) status = check_labels(&m->base, labels, n_classes, err);
  if (status == KF_OK && names != NULL)
    status = kf_names_take(names, n_classes, &m->base.names, err);
  KF_HAND_OUT(status, out, &m->base, kf_data_free);
}
