/* pick.c - some rows of a data set as a data set: samples, folds, and the rows of some classes. */
#include "file/file_internal.h"

typedef struct pick {
  kf_data data; /* first, so that a kf_data * is one of these */
  const kf_data *from;
  const uint64_t *rows; /* [data.rows], rising */
  kf_data *own_from;    /* freed with it; NULL: they are the caller's */
  uint64_t *own_rows;
} pick;

static kf_status fetch(const kf_data *data, const kf_kernels *kernels, uint64_t first, uint64_t n,
                       float *rows, int32_t *labels, kf_err *err) {
  const pick *p = (const pick *)data;
  for (uint64_t i = 0; i < n;) {
    uint64_t row = p->rows[first + i], run = 1;
    while (i + run < n && p->rows[first + i + run] == row + run) run++;
    KF_TRY(p->from->fetch(p->from, kernels, row, run, rows != NULL ? rows + i * data->dim : NULL,
                          labels != NULL ? labels + i : NULL, err));
    i += run;
  }
  return KF_OK;
}

static kf_status fetch_ids(const kf_data *data, uint64_t first, uint64_t n, uint64_t *lengths,
                           kf_string *bytes, kf_err *err) {
  const pick *p = (const pick *)data;
  for (uint64_t i = 0; i < n; i++)
    KF_TRY(p->from->fetch_ids(p->from, p->rows[first + i], 1, lengths + i, bytes, err));
  return KF_OK;
}

static void where(const kf_data *data, uint64_t row, char *text, size_t size) {
  const pick *p = (const pick *)data;
  p->from->where(p->from, p->rows[row], text, size);
}

static kf_status refuse(const kf_data *data, const char *path, kf_err *err) {
  return kf_data_refuse_overwrite(((const pick *)data)->from, path, err);
}

static void destroy(kf_data *data) {
  pick *p = (pick *)data;
  kf_data_free(p->own_from);
  kf_free(p->own_rows);
  kf_free(p);
}

kf_status kf_data_new_pick(const kf_data *from, const uint64_t *rows, uint64_t n, kf_data **out,
                           kf_err *err) {
  pick *p = kf_alloc_zero(1, sizeof *p);
  if (p == NULL) return kf_fail_memory(err);
  p->from = from;
  p->rows = rows;
  p->data = (kf_data){.rows = n,
                      .dim = from->dim,
                      .has_labels = from->has_labels,
                      .n_classes = from->n_classes,
                      .skip_bad = from->skip_bad,
                      .mapped = from->mapped,
                      .fetch = fetch,
                      .fetch_ids = from->fetch_ids != NULL ? fetch_ids : NULL,
                      .where = where,
                      .refuse = refuse,
                      .destroy = destroy};
  kf_status status = kf_names_clone(&from->names, &p->data.names, err);
  if (status == KF_OK)
    *out = &p->data;
  else
    kf_free(p);
  return status;
}

void kf_pick_own(kf_data *data, kf_data *from, uint64_t *rows) {
  pick *p = (pick *)data;
  p->own_from = from;
  p->own_rows = rows;
}
