/* parquet_save.c - writes a data set as .parquet: columns `embedding`, `label` and `id`, and
 * metadata to restore it exactly: class names in their order, and the encoder. */
#include "file/parquet_write.h"

#include <inttypes.h>
#include <string.h>

enum { ROWS_AT_ONCE = 256 };

struct kf_pq_set {
  kf_ctx *ctx;
  const kf_data *data;
  const kf_saver *save;
  kf_pqw *file;
  uint64_t width;     /* bytes of a row */
  size_t labels, ids; /* columns; 0: none */
  uint64_t next;      /* the row whose label and id are written next */
  kf_string id_bytes; /* of rows from `next` on */
  int32_t label[ROWS_AT_ONCE];
  uint64_t id_lengths[ROWS_AT_ONCE];
};

static kf_status put_names(kf_pqw *w, const kf_names *names, kf_err *err) {
  if (names->n == 0) return KF_OK;
  kf_string list = {0};
  kf_names_print(names, &list);
  kf_status status = list.failed ? kf_fail_memory(err) : kf_pqw_meta(w, "classes", list.data, err);
  kf_string_clear(&list);
  return status;
}

static kf_status put_meta(kf_pqw *w, const kf_set_layout *l, kf_err *err) {
  char digits[24];
  KF_TRY(kf_pqw_meta(w, "format", "koofu.dataset", err));
  KF_TRY(kf_pqw_meta(w, "version", "1", err));
  KF_TRY(put_names(w, l->names, err));
  if (l->origin == NULL || !l->origin->known) return KF_OK;
  snprintf(digits, sizeof digits, "%016" PRIx64, l->origin->checksum);
  KF_TRY(kf_pqw_meta(w, KF_META_ENCODER, l->origin->name, err));
  return kf_pqw_meta(w, KF_META_ENCODER_CHECKSUM, digits, err);
}

static kf_status open_file(kf_pq_set *set, const kf_set_layout *l, const char *path, kf_err *err) {
  kf_pqw_kind kind = l->names->n > 0 ? KF_PQW_TEXT : KF_PQW_I32;
  kf_pqw_column columns[3] = {
      {.name = "embedding", .kind = KF_PQW_ROWS, .type = l->type, .dim = l->dim}};
  size_t n = 1;
  if (l->labels) {
    set->labels = n;
    columns[n++] = (kf_pqw_column){.name = "label", .kind = kind, .optional = true};
  }
  if (set->data->fetch_ids != NULL) {
    set->ids = n;
    columns[n++] = (kf_pqw_column){.name = "id", .kind = KF_PQW_TEXT};
  }
  KF_TRY(kf_pqw_open(set->ctx, path, columns, n, &set->file, err));
  return put_meta(set->file, l, err);
}

kf_status kf_pq_set_open(kf_ctx *ctx, const kf_data *data, const kf_saver *save,
                         const kf_set_layout *layout, const char *path, kf_pq_set **out,
                         kf_err *err) {
  kf_pq_set *set = kf_alloc_zero(1, sizeof *set);
  if (set == NULL) return kf_fail_memory(err);
  set->ctx = ctx;
  set->data = data;
  set->save = save;
  set->width = layout->dim * kf_type_size(layout->type);
  KF_HAND_OUT(open_file(set, layout, path, err), out, set, kf_pq_set_abort);
}

void kf_pq_set_abort(kf_pq_set *set) {
  if (set == NULL) return;
  kf_pqw_abort(set->file);
  kf_string_clear(&set->id_bytes);
  kf_free(set);
}

/* --- labels and ids of the rows that wait -------------------------------------------------- */

static void add_label(kf_pq_set *set, int32_t label) {
  const kf_names *names = &set->data->names;
  const char *name = label >= 0 && names->n > 0 ? names->name[label] : NULL;
  if (names->n > 0)
    kf_pqw_add(set->file, set->labels, name, name != NULL ? strlen(name) : 0);
  else
    kf_pqw_add(set->file, set->labels, label >= 0 ? &label : NULL, sizeof label);
}

static kf_status fetch_labels_and_ids(kf_pq_set *set, uint64_t n, kf_err *err) {
  const kf_data *data = set->data;
  set->id_bytes.n = 0;
  if (set->labels > 0)
    KF_TRY(kf_data_fetch(data, set->ctx->kernels, set->next, n, NULL, set->label, NULL, err));
  if (set->ids == 0) return KF_OK;
  return data->fetch_ids(data, set->next, n, set->id_lengths, &set->id_bytes, err);
}

/* Adds the labels and ids of the next rows, until `wanted` of them are written. */
static kf_status add_labels_and_ids(kf_pq_set *set, uint64_t *wanted, kf_err *err) {
  uint64_t left = set->data->rows - set->next, n = left < ROWS_AT_ONCE ? left : ROWS_AT_ONCE,
           id = 0;
  KF_TRY(fetch_labels_and_ids(set, n, err));
  for (uint64_t i = 0; i<n && * wanted> 0; i++) {
    bool skip = kf_saver_skips(set->save, set->next++);
    if (!skip && set->labels > 0) add_label(set, set->label[i]);
    if (!skip && set->ids > 0)
      kf_pqw_add(set->file, set->ids, set->id_bytes.data + id, set->id_lengths[i]);
    if (set->ids > 0) id += set->id_lengths[i];
    *wanted -= !skip;
  }
  return KF_OK;
}

static kf_status flush(kf_pq_set *set, kf_err *err) {
  uint64_t wanted = kf_pqw_waiting(set->file, 0);
  while (wanted > 0) KF_TRY(add_labels_and_ids(set, &wanted, err));
  return kf_pqw_flush(set->file, err);
}

kf_status kf_pq_set_write(kf_pq_set *set, const void *bytes, uint64_t n, kf_err *err) {
  kf_pqw_add_rows(set->file, 0, bytes, n / set->width);
  return kf_pqw_is_due(set->file) ? flush(set, err) : KF_OK;
}

kf_status kf_pq_set_commit(kf_pq_set *set, kf_err *err) {
  kf_status status = flush(set, err);
  if (status == KF_OK) {
    status = kf_pqw_commit(set->file, err);
    set->file = NULL;
  }
  kf_pq_set_abort(set);
  return status;
}
