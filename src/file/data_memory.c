/* data_memory.c - a data set over the caller's arrays, of any float type and with any strides, in
 * one piece or several; or over rows that a callback of the caller provides. */
#include "file/file_internal.h"

#include <inttypes.h>
#include <string.h>

/* One array of the caller. */
typedef struct piece {
  const unsigned char *rows;
  uint64_t first, n;
  kf_type type;
  int64_t row_stride, column_stride; /* bytes */
  bool packed;                       /* columns are adjacent and aligned */
} piece;

typedef struct memory_data {
  kf_data base;
  size_t n_pieces;
  piece *pieces;          /* sorted by first row */
  kf_rows_fn callback;    /* callback that provides the rows; NULL: pieces */
  void *user;             /* of the callback */
  const int32_t *labels;  /* NULL: none */
  const char *const *ids; /* NULL: none */
  bool finite;            /* NaN and infinite rows are errors, even if zero rows are skipped */
} memory_data;

static const piece *find_piece(const memory_data *m, uint64_t row) {
  size_t at = kf_find_last(&m->pieces->first, sizeof *m->pieces, m->n_pieces, row);
  return &m->pieces[at];
}

/* Reads a row whose columns are not adjacent or not aligned. */
static void gather(const piece *p, const kf_kernels *kernels, const unsigned char *row,
                   uint32_t dim, float *out) {
  size_t size = kf_type_size(p->type);
  double one; /* an aligned element of any type */
  for (uint32_t i = 0; i < dim; i++) {
    memcpy(&one, row + (int64_t)i * p->column_stride, size);
    kf_decode_f32(kernels, p->type, &one, 1, out + i);
  }
}

/* Rows [first, first + n) of one piece. */
static void decode(const piece *p, const kf_kernels *kernels, uint64_t first, uint64_t n,
                   uint32_t dim, float *out) {
  const unsigned char *row = p->rows + (int64_t)first * p->row_stride;
  if (p->packed && p->row_stride == (int64_t)(dim * kf_type_size(p->type))) {
    kf_decode_f32(kernels, p->type, row, n * dim, out);
    return;
  }
  for (uint64_t i = 0; i < n; i++, row += p->row_stride) {
    if (p->packed)
      kf_decode_f32(kernels, p->type, row, dim, out + i * dim);
    else
      gather(p, kernels, row, dim, out + i * dim);
  }
}

static kf_status check_finite(const kf_data *data, uint64_t first, uint64_t n, const float *rows,
                              kf_err *err) {
  for (uint64_t i = 0; i < n * data->dim; i++)
    if (!(rows[i] - rows[i] == 0))
      return kf_fail_row(err, data, first + i / data->dim, KF_HINT_NONE, "column %" PRIu64 " is %s",
                         i % data->dim, rows[i] != rows[i] ? "NaN" : "infinite");
  return KF_OK;
}

static void fetch_pieces(const memory_data *m, const kf_kernels *kernels, uint64_t first,
                         uint64_t n, float *rows) {
  uint32_t dim = m->base.dim;
  for (uint64_t done = 0; done < n;) {
    const piece *p = find_piece(m, first + done);
    uint64_t from = first + done - p->first, count = p->n - from;
    if (count > n - done) count = n - done;
    decode(p, kernels, from, count, dim, rows + done * dim);
    done += count;
  }
}

static kf_status fetch_rows(const memory_data *m, const kf_kernels *kernels, uint64_t first,
                            uint64_t n, float *rows, kf_err *err) {
  if (rows == NULL || n == 0) return KF_OK;
  if (m->callback == NULL)
    fetch_pieces(m, kernels, first, n, rows);
  else if (m->callback(m->user, first, n, rows) != 0)
    return kf_fail(err, KF_ERR_IO, "rows %" PRIu64 " to %" PRIu64 " could not be fetched", first,
                   first + n - 1);
  return KF_OK;
}

static kf_status memory_fetch(const kf_data *data, const kf_kernels *kernels, uint64_t first,
                              uint64_t n, float *rows, int32_t *labels, kf_err *err) {
  const memory_data *m = (const memory_data *)data;
  KF_TRY(fetch_rows(m, kernels, first, n, rows, err));
  for (uint64_t i = 0; labels != NULL && i < n; i++)
    labels[i] = m->labels != NULL ? m->labels[first + i] : KF_LABEL_NONE;
  return rows != NULL && m->finite ? check_finite(data, first, n, rows, err) : KF_OK;
}

/* Only for pieces that are contiguous and of one type. */
static kf_status memory_fetch_raw(const kf_data *data, uint64_t first, uint64_t n, void *rows,
                                  kf_err *err) {
  const memory_data *m = (const memory_data *)data;
  uint64_t width = data->dim * kf_type_size(data->raw_type);
  char *to = rows;
  (void)err;
  while (n > 0) {
    const piece *p = find_piece(m, first);
    uint64_t from = first - p->first, count = p->n - from < n ? p->n - from : n;
    memcpy(to, p->rows + from * width, count * width);
    to += count * width;
    first += count;
    n -= count;
  }
  return KF_OK;
}

static kf_status memory_fetch_ids(const kf_data *data, uint64_t first, uint64_t n,
                                  uint64_t *lengths, kf_string *bytes, kf_err *err) {
  const char *const *ids = ((const memory_data *)data)->ids;
  for (uint64_t i = 0; i < n; i++) {
    size_t length = strlen(ids[first + i]);
    lengths[i] = length;
    kf_string_add(bytes, ids[first + i], length);
  }
  return bytes->failed ? kf_fail_memory(err) : KF_OK;
}

static void memory_where(const kf_data *data, uint64_t row, char *text, size_t size) {
  (void)data;
  if (row == KF_ALL_ROWS)
    snprintf(text, size, "the data set");
  else
    snprintf(text, size, "row %" PRIu64, row);
}

static void memory_destroy(kf_data *data) {
  kf_free(((memory_data *)data)->pieces);
  kf_free(data);
}

/* --- what must hold ------------------------------------------------------------------------ */

/* Checks the labels and counts classes and unlabelled rows. n_classes 0: unknown. */
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

/* The same rules as for ids in files. */
static kf_status check_ids(const char *const *ids, uint64_t n, kf_err *err) {
  for (uint64_t i = 0; i < n; i++) {
    size_t length = ids[i] != NULL ? strlen(ids[i]) : 0;
    if (length == 0 || length > KF_LINE_MAX || !kf_utf8_valid(ids[i], length))
      return kf_fail(err, KF_ERR_DATA, "row %" PRIu64 ": the id is not UTF-8 of 1 to %d bytes", i,
                     KF_LINE_MAX);
  }
  return KF_OK;
}

static kf_status check_arguments(uint64_t n, uint32_t dim, const kf_array_options *o,
                                 const char *function, kf_err *err) {
  if (n == 0 || dim == 0 || dim > KF_MAX_DIM)
    return kf_fail(err, KF_ERR_ARG,
                   "%s: %" PRIu64 " rows of %" PRIu32
                   " columns; there must be rows, of 1 to %u columns",
                   function, n, dim, KF_MAX_DIM);
  if (o->n_classes > KF_MAX_CLASSES)
    return kf_fail(err, KF_ERR_ARG, "%s: more than %u classes", function, KF_MAX_CLASSES);
  if (o->names != NULL && (o->labels == NULL || o->n_classes == 0))
    return kf_fail(err, KF_ERR_ARG, "%s: names need labels and the number of classes", function);
  return KF_OK;
}

/* --- opening ------------------------------------------------------------------------------- */

static kf_status take_array(piece *p, const kf_array *a, uint64_t first, uint32_t dim,
                            kf_err *err) {
  kf_type type = kf_type_of(a->dtype);
  if (type == KF_TYPE_OTHER || (a->rows == NULL && a->n > 0))
    return kf_fail(err, KF_ERR_ARG, "kf_data_open_arrays: an array is NULL or of no float type");
  KF_TRY(kf_check_reserved(a->reserved, sizeof a->reserved, "kf_data_open_arrays", err));
  size_t size = kf_type_size(type);
  bool given = a->row_stride != 0 || a->column_stride != 0;
  *p = (piece){.rows = a->rows,
               .first = first,
               .n = a->n,
               .type = type,
               .row_stride = given ? a->row_stride : (int64_t)(dim * size),
               .column_stride = given ? a->column_stride : (int64_t)size};
  bool aligned = (uintptr_t)a->rows % size == 0 && p->row_stride % (int64_t)size == 0;
  p->packed = aligned && (dim == 1 || p->column_stride == (int64_t)size);
  return KF_OK;
}

/* Whether the rows of a piece are contiguous, in the type of the first piece. */
static bool is_raw(const piece *p, const piece *first, uint32_t dim) {
  bool whole = p->packed && p->row_stride == (int64_t)(dim * kf_type_size(p->type));
  return whole && p->type == first->type && kf_type_is_raw(p->type);
}

static void offer_raw(memory_data *m, uint32_t dim) {
  bool raw = m->n_pieces > 0;
  for (size_t i = 0; i < m->n_pieces; i++) raw = raw && is_raw(&m->pieces[i], &m->pieces[0], dim);
  if (!raw) return;
  m->base.fetch_raw = memory_fetch_raw;
  m->base.raw_type = m->pieces[0].type;
}

/* Arrays without rows are skipped. */
static kf_status take_arrays(memory_data *m, const kf_array *arrays, size_t n, uint32_t dim,
                             kf_err *err) {
  m->pieces = kf_alloc(n > 0 ? n : 1, sizeof *m->pieces);
  if (m->pieces == NULL) return kf_fail_memory(err);
  for (size_t i = 0; i < n; i++) {
    KF_TRY(take_array(&m->pieces[m->n_pieces], &arrays[i], m->base.rows, dim, err));
    if (arrays[i].n == 0) continue;
    if (!kf_add_u64(m->base.rows, arrays[i].n, &m->base.rows) || m->base.rows > KF_MAX_ROWS)
      return kf_fail(err, KF_ERR_ARG, "kf_data_open_arrays: more than 2^40 rows");
    m->n_pieces++;
  }
  offer_raw(m, dim);
  return KF_OK;
}

/* Sets everything but the rows. */
static kf_status fill(memory_data *m, uint32_t dim, const kf_array_options *o, const char *function,
                      kf_err *err) {
  KF_TRY(check_arguments(m->base.rows, dim, o, function, err));
  m->base.dim = dim;
  m->base.skip_bad = o->skip != KF_SKIP_NONE;
  m->finite = o->skip == KF_SKIP_ZERO;
  m->labels = o->labels;
  m->ids = o->ids;
  if (o->labels != NULL) KF_TRY(check_labels(&m->base, o->labels, o->n_classes, err));
  if (o->ids != NULL) {
    KF_TRY(check_ids(o->ids, m->base.rows, err));
    m->base.fetch_ids = memory_fetch_ids;
  }
  return o->names != NULL ? kf_names_take(o->names, o->n_classes, &m->base.names, err) : KF_OK;
}

static memory_data *memory_new(kf_err *err) {
  memory_data *m = kf_alloc_zero(1, sizeof *m);
  if (m == NULL) {
    kf_fail_memory(err);
    return NULL;
  }
  m->base.fetch = memory_fetch;
  m->base.where = memory_where;
  m->base.destroy = memory_destroy;
  return m;
}

static kf_status open_pieces(const kf_array *arrays, size_t n_arrays, uint32_t dim,
                             const kf_array_options *o, const char *function, kf_data **out,
                             kf_err *err) {
  memory_data *m = memory_new(err);
  if (m == NULL) return KF_ERR_MEM;
  kf_status status = take_arrays(m, arrays, n_arrays, dim, err);
  if (status == KF_OK) status = fill(m, dim, o, function, err);
  KF_HAND_OUT(status, out, &m->base, kf_data_free);
}

kf_status kf_data_open_arrays(kf_ctx *ctx, const kf_array *arrays, size_t n_arrays, uint32_t dim,
                              const kf_array_options *options, kf_data **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, out != NULL && (arrays != NULL || n_arrays == 0));
  KF_OPTIONS(kf_array_options, o, options);
  return open_pieces(arrays, n_arrays, dim, &o, __func__, out, err);
}

kf_status kf_data_open_memory(kf_ctx *ctx, const float *rows, uint64_t n, uint32_t dim,
                              const int32_t *labels, const char *const *names, uint32_t n_classes,
                              kf_data **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, out != NULL);
  kf_array all = {.rows = rows, .n = rows != NULL ? n : 0};
  kf_array_options o = {.labels = labels, .names = names, .n_classes = n_classes};
  return open_pieces(&all, 1, dim, &o, __func__, out, err);
}

kf_status kf_data_open_rows(kf_ctx *ctx, uint64_t n, uint32_t dim, kf_rows_fn callback, void *user,
                            const kf_array_options *options, kf_data **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, out != NULL && callback != NULL);
  KF_OPTIONS(kf_array_options, o, options);
  if (n > KF_MAX_ROWS) return kf_fail(err, KF_ERR_ARG, "%s: more than 2^40 rows", __func__);
  memory_data *m = memory_new(err);
  if (m == NULL) return KF_ERR_MEM;
  m->base.rows = n;
  m->callback = callback;
  m->user = user;
  KF_HAND_OUT(fill(m, dim, &o, __func__, err), out, &m->base, kf_data_free);
}
