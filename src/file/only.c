/* only.c - the rows of some classes of a data set, as a data set.
 *
 * Classes keep their numbers and names, so that statistics and galleries of the part go together
 * with those of the whole. What it takes is one pass over the labels, and 8 bytes for each row that
 * is left. */
#include "file/file_internal.h"

#include <inttypes.h>
#include <string.h>

enum { PIECE = 4096 }; /* labels looked at together */

typedef struct only {
  kf_data data; /* first, so that a kf_data * is one of these */
  kf_data *whole, *part;
  uint64_t *rows; /* [data.rows] of the whole, rising */
} only;

/* --- what a data set does ---------------------------------------------------------------------- */

static kf_status fetch(const kf_data *data, const kf_kernels *kernels, uint64_t first, uint64_t n,
                       float *rows, int32_t *labels, kf_err *err) {
  const kf_data *part = ((const only *)data)->part;
  return part->fetch(part, kernels, first, n, rows, labels, err);
}

static kf_status fetch_ids(const kf_data *data, uint64_t first, uint64_t n, uint64_t *lengths,
                           kf_string *bytes, kf_err *err) {
  const kf_data *part = ((const only *)data)->part;
  return part->fetch_ids(part, first, n, lengths, bytes, err);
}

static void where(const kf_data *data, uint64_t row, char *text, size_t size) {
  const kf_data *part = ((const only *)data)->part;
  part->where(part, row, text, size);
}

static kf_status refuse(const kf_data *data, const char *path, kf_err *err) {
  return kf_data_refuse_overwrite(((const only *)data)->whole, path, err);
}

static void destroy(kf_data *data) {
  only *o = (only *)data;
  kf_data_free(o->part);
  kf_data_free(o->whole);
  kf_free(o->rows);
  kf_free(o);
}

/* --- which rows -------------------------------------------------------------------------------- */

/* wanted[k]: whether class k is in the list. A list that shares no class with the data is a
 * mistake; one that has more is not. */
static kf_status mark_classes(const kf_data *whole, const char *list, unsigned char *wanted,
                              kf_err *err) {
  kf_names names;
  KF_TRY(kf_names_read(list, &names, err));
  kf_dict *map = NULL;
  kf_status status = kf_dict_new_from_names(&names, list, &map, err);
  uint32_t found = 0;
  for (uint32_t k = 0; status == KF_OK && k < whole->names.n; k++) {
    const char *name = whole->names.name[k];
    wanted[k] = kf_dict_find(map, name, strlen(name)) >= 0;
    found += wanted[k];
  }
  if (status == KF_OK && found == 0)
    status = kf_fail(err, KF_ERR_DATA, "%s: has none of the classes of the data", list);
  kf_dict_free(map);
  kf_names_clear(&names);
  return status;
}

static kf_status choose_rows(only *o, const unsigned char *wanted, uint64_t *n, kf_err *err) {
  int32_t labels[PIECE];
  size_t room = 0;
  *n = 0;
  for (uint64_t first = 0; first < o->whole->rows; first += PIECE) {
    uint64_t left = o->whole->rows - first, count = left < PIECE ? left : PIECE;
    KF_TRY(o->whole->fetch(o->whole, NULL, first, count, NULL, labels, err));
    for (uint64_t i = 0; i < count; i++) {
      if (labels[i] < 0 || !wanted[labels[i]]) continue;
      if (!kf_grow((void **)&o->rows, &room, *n, sizeof *o->rows)) return kf_fail_memory(err);
      o->rows[(*n)++] = first + i;
    }
  }
  return KF_OK;
}

static kf_status fill(only *o, const char *list, kf_err *err) {
  kf_data *whole = o->whole;
  unsigned char *wanted = kf_alloc_zero(whole->names.n, 1);
  uint64_t n = 0;
  kf_status status = wanted == NULL ? kf_fail_memory(err) : mark_classes(whole, list, wanted, err);
  if (status == KF_OK) status = choose_rows(o, wanted, &n, err);
  kf_free(wanted);
  if (status == KF_OK && n == 0)
    status = kf_fail(err, KF_ERR_DATA, "%s: no row is of one of its classes", list);
  if (status == KF_OK) status = kf_data_new_pick(whole, o->rows, n, &o->part, err);
  if (status != KF_OK) return status;
  o->data = *o->part;
  o->data.names = (kf_names){0};
  o->data.fetch = fetch;
  if (o->part->fetch_ids != NULL) o->data.fetch_ids = fetch_ids;
  o->data.where = where;
  o->data.refuse = refuse;
  o->data.destroy = destroy;
  return kf_names_copy((const char *const *)whole->names.name, whole->names.n, &o->data.names, err);
}

kf_status kf_data_keep_only(kf_data **data, const char *list, kf_err *err) {
  if ((*data)->names.n == 0)
    return kf_fail(err, KF_ERR_ARG, "%s: the classes of the data have no names", list);
  only *o = kf_alloc_zero(1, sizeof *o);
  if (o == NULL) return kf_fail_memory(err);
  o->whole = *data;
  kf_status status = fill(o, list, err);
  if (status == KF_OK) {
    *data = &o->data;
    return KF_OK;
  }
  kf_data_free(o->part); /* the whole stays with the caller */
  kf_free(o->rows);
  kf_free(o);
  return status;
}
