/* ids.c - ids of rows, such as the paths of the pictures they were made from: two tensors next to
 * the rows (docs/formats.md), as in galleries.
 *
 * Like rows, ids are read by position on demand, so memory does not grow with their number, and
 * checked when they are read. */
#include "file/file_internal.h"

#include <inttypes.h>
#include <string.h>

enum { IDS_AT_ONCE = 256 };

/* --- reading ------------------------------------------------------------------------------- */

kf_status kf_ids_open(kf_ids *ids, const kf_st *st, uint64_t rows, kf_err *err) {
  const kf_st_tensor *ends, *bytes;
  *ids = (kf_ids){0};
  KF_TRY(kf_check_header(&kf_set_rules, st, err));
  if (kf_st_find(st, KF_TENSOR_ID_ENDS) == NULL) return KF_OK;
  KF_TRY(
      kf_st_expect(st, KF_TENSOR_ID_ENDS, KF_TYPE_I64, 1, (int64_t[]){(int64_t)rows}, &ends, err));
  KF_TRY(kf_st_expect(st, KF_TENSOR_ID_BYTES, KF_TYPE_U8, 1, (int64_t[]){-1}, &bytes, err));
  *ids = (kf_ids){
      .there = true, .ends = ends->offset, .bytes = bytes->offset, .n_bytes = bytes->bytes};
  return KF_OK;
}

/* ends[1 … n]: the ends of ids first … first + n - 1; ends[0]: where the first one begins. */
static kf_status read_ends(const kf_ids *ids, const kf_in *in, uint64_t first, size_t n,
                           int64_t *ends, kf_err *err) {
  size_t before = first > 0 ? 1 : 0;
  ends[0] = 0;
  KF_TRY(kf_in_read(in, ids->ends + (first - before) * sizeof *ends, ends + 1 - before,
                    (n + before) * sizeof *ends, err));
  return KF_OK;
}

/* Checks the n ids between ends[0] and ends[n]. bytes NULL: not read yet. */
static kf_status check(const kf_ids *ids, const kf_in *in, uint64_t first, size_t n, int64_t *ends,
                       char *bytes, kf_err *err) {
  const kf_st_field fields[] = {{KF_TENSOR_ID_ENDS, KF_TYPE_I64, 1, {n + 1, 1}, ends},
                                {KF_TENSOR_ID_BYTES, KF_TYPE_U8, 1, {ids->n_bytes, 1}, bytes}};
  return kf_check_tensors(&(kf_contents){.rules = &kf_set_rules,
                                         .path = in->path,
                                         .fields = fields,
                                         .n_fields = 2,
                                         .first = first},
                          err);
}

static kf_status fetch_block(const kf_ids *ids, const kf_in *in, uint64_t first, size_t n,
                             uint64_t *lengths, kf_string *out, kf_err *err) {
  int64_t ends[IDS_AT_ONCE + 1];
  KF_TRY(read_ends(ids, in, first, n, ends, err));
  KF_TRY(check(ids, in, first, n, ends, NULL, err));
  size_t size = (size_t)(ends[n] - ends[0]);
  char *bytes = kf_alloc(size, 1);
  if (bytes == NULL) return kf_fail_memory(err);
  kf_status status = kf_in_read(in, ids->bytes + (uint64_t)ends[0], bytes, size, err);
  if (status == KF_OK) status = check(ids, in, first, n, ends, bytes, err);
  for (size_t i = 0; status == KF_OK && i < n; i++) lengths[i] = (uint64_t)(ends[i + 1] - ends[i]);
  if (status == KF_OK) kf_string_add(out, bytes, size);
  kf_free(bytes);
  return status == KF_OK && out->failed ? kf_fail_memory(err) : status;
}

kf_status kf_ids_fetch(const kf_ids *ids, const kf_in *in, uint64_t first, uint64_t n,
                       uint64_t *lengths, kf_string *bytes, kf_err *err) {
  if (ids->column != NULL) return kf_ids_fetch_column(ids, first, n, lengths, bytes, err);
  for (uint64_t done = 0; done < n; done += IDS_AT_ONCE) {
    size_t count = n - done < IDS_AT_ONCE ? (size_t)(n - done) : IDS_AT_ONCE;
    KF_TRY(fetch_block(ids, in, first + done, count, lengths + done, bytes, err));
  }
  return KF_OK;
}

/* --- one by one ---------------------------------------------------------------------------- */

static kf_status use_block(const kf_data *data, uint64_t first, uint64_t n, kf_string *bytes,
                           kf_id_fn use, void *argument, kf_err *err) {
  uint64_t lengths[IDS_AT_ONCE];
  bytes->n = 0;
  KF_TRY(data->fetch_ids(data, first, n, lengths, bytes, err));
  const char *id = bytes->data;
  for (uint64_t i = 0; i < n; id += lengths[i++])
    KF_TRY(use(argument, first + i, id, (size_t)lengths[i], err));
  return KF_OK;
}

kf_status kf_data_each_id(const kf_data *data, kf_id_fn use, void *argument, kf_err *err) {
  kf_string bytes = {0};
  kf_status status = KF_OK;
  for (uint64_t first = 0; first < data->rows && status == KF_OK; first += IDS_AT_ONCE) {
    uint64_t left = data->rows - first;
    status =
        use_block(data, first, left < IDS_AT_ONCE ? left : IDS_AT_ONCE, &bytes, use, argument, err);
  }
  kf_string_clear(&bytes);
  return status;
}

/* --- public -------------------------------------------------------------------------------- */

int kf_data_has_ids(const kf_data *data) { return data->fetch_ids != NULL; }

kf_status kf_data_get_id(kf_ctx *ctx, const kf_data *data, uint64_t row, char *id, size_t size) {
  KF_ENTER(ctx, data != NULL && id != NULL);
  if (data->fetch_ids == NULL || row >= data->rows)
    return kf_fail(err, KF_ERR_ARG, "kf_data_get_id: row %" PRIu64 " has no id", row);
  kf_string bytes = {0};
  uint64_t length = 0;
  kf_status status = data->fetch_ids(data, row, 1, &length, &bytes, err);
  if (status == KF_OK && length >= size)
    status =
        kf_fail(err, KF_ERR_ARG, "kf_data_get_id: the id of row %" PRIu64 " has %" PRIu64 " bytes",
                row, length);
  if (status == KF_OK) memcpy(id, bytes.data, length + 1);
  kf_string_clear(&bytes);
  return status;
}
