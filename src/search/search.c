/* search.c - the public functions of an index: rows from the caller or from a data set, and
 * queries, all checked. */
#include "search/search.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void kf_unit_f32(const float *x, double norm2, uint32_t dim, float *out) {
  double scale = norm2 > 0 ? 1 / sqrt(norm2) : 0;
  for (uint32_t i = 0; i < dim; i++) out[i] = (float)((double)x[i] * scale);
}

kf_status kf_check_norm2(const char *what, uint64_t number, double norm2, bool direction,
                         kf_err *err) {
  if (isfinite(norm2) && !(direction && norm2 == 0)) return KF_OK;
  return kf_fail(err, KF_ERR_DATA, "%s %llu %s", what, (unsigned long long)number,
                 norm2 == 0 ? "is zero and has no direction" : "has a NaN or an infinity");
}

/* Checks rows [n][dim], counted from `first` on in messages. */
static kf_status check_rows(const kf_kernels *kernels, kf_metric metric, const char *what,
                            const float *rows, uint64_t first, uint64_t n, uint32_t dim,
                            kf_err *err) {
  for (uint64_t i = 0; i < n; i++)
    KF_TRY(kf_check_norm2(what, first + i, kernels->norm2(rows + i * dim, dim),
                          metric == KF_METRIC_COSINE, err));
  return KF_OK;
}

/* --- rows in 16 bits ------------------------------------------------------------------------- */

kf_status kf_check_rows_dtype(kf_dtype dtype, kf_err *err) {
  if (dtype == KF_F32 || dtype == KF_F16 || dtype == KF_BF16) return KF_OK;
  const char *name = kf_dtype_name(dtype);
  if (name == NULL) return kf_fail(err, KF_ERR_ARG, "invalid dtype %d", (int)dtype);
  return kf_fail(err, KF_ERR_ARG, "rows to search must be f32, f16 or bf16, not %s", name);
}

/* A row does not fit the type: at this column or, if the value is 0, because it becomes zero. */
static kf_status fail_rounded(const kf_data *data, kf_dtype dtype, uint64_t row, uint64_t column,
                              double value, kf_err *err) {
  char cause[96];
  const char *name = kf_dtype_name(dtype);
  if (value != 0)
    snprintf(cause, sizeof cause, "column %llu is %g, too large for %s", (unsigned long long)column,
             value, name);
  else
    snprintf(cause, sizeof cause, "is zero in %s and has no direction", name);
  if (data != NULL) return kf_fail_row(err, data, row, KF_HINT_NONE, "%s", cause);
  return kf_fail(err, KF_ERR_DATA, "row %llu: %s", (unsigned long long)row, cause);
}

kf_status kf_round_rows(const kf_kernels *kernels, kf_dtype dtype, const kf_data *data,
                        uint64_t first, uint64_t n, uint32_t dim, bool direction, float *rows,
                        kf_err *err) {
  uint16_t narrow[1024];
  kf_type type = kf_type_of(dtype);
  if (dtype == KF_F32) return KF_OK;
  for (uint64_t i = 0; i < n; i++) {
    float *row = rows + i * dim;
    bool zero = true;
    for (uint32_t at = 0; at < dim; at += 1024) {
      size_t some = dim - at < 1024 ? dim - at : 1024;
      size_t fits = kf_encode_f32(kernels, type, row + at, some, narrow);
      if (fits < some) return fail_rounded(data, dtype, first + i, at + fits, row[at + fits], err);
      for (size_t j = 0; j < some; j++) zero = zero && (narrow[j] & 0x7FFF) == 0;
      kf_decode_f32(kernels, type, narrow, some, row + at);
    }
    if (zero && direction) return fail_rounded(data, dtype, first + i, dim, 0, err);
  }
  return KF_OK;
}

/* --- making an index ------------------------------------------------------------------------- */

/* The rows or data set an index fetches from; lives as long as the index. */
typedef struct origin {
  kf_metric metric;
  uint32_t dim;
  const float *rows;   /* NULL: a data set */
  const kf_data *data; /* NULL: rows */
  kf_dtype dtype;      /* that rows are rounded to */
} origin;

static kf_status fetch_given(const origin *from, const kf_kernels *kernels, uint64_t first,
                             uint64_t n, float *rows, kf_err *err) {
  uint32_t dim = from->dim;
  if (from->rows != NULL) {
    memcpy(rows, from->rows + first * dim, n * dim * sizeof *rows);
    return check_rows(kernels, from->metric, "row", rows, first, n, dim, err);
  }
  KF_TRY(from->data->fetch(from->data, kernels, first, n, rows, NULL, err));
  kf_err plain;
  for (uint64_t i = 0; i < n; i++)
    if (check_rows(kernels, from->metric, "row", rows + i * dim, first + i, 1, dim, &plain) !=
        KF_OK)
      return kf_fail_row(err, from->data, first + i, KF_HINT_NONE, "is NaN%s",
                         from->metric == KF_METRIC_COSINE ? ", infinite or zero" : " or infinite");
  return KF_OK;
}

static kf_status fetch_origin(const void *self, const kf_kernels *kernels, uint64_t first,
                              uint64_t n, float *rows, kf_err *err) {
  const origin *from = self;
  KF_TRY(fetch_given(from, kernels, first, n, rows, err));
  return kf_round_rows(kernels, from->dtype, from->data, first, n, from->dim,
                       from->metric == KF_METRIC_COSINE, rows, err);
}

static kf_status new_index(kf_ctx *ctx, const origin *from, uint64_t n, const kf_index_options *o,
                           kf_index **out) {
  kf_err *err = &ctx->err;
  if ((unsigned)o->metric > KF_METRIC_INNER) return kf_fail_metric(o->metric, err);
  KF_TRY(kf_check_rows_dtype(o->dtype, err));
  if (n == 0) return kf_fail(err, KF_ERR_DATA, "there are no rows to search in");
  origin *kept = kf_alloc(1, sizeof *kept);
  if (kept == NULL) return kf_fail_memory(err);
  *kept = *from;
  kept->metric = o->metric == KF_METRIC_DEFAULT ? KF_METRIC_COSINE : o->metric;
  kept->dtype = o->dtype;
  kf_source source = {.rows = n,
                      .dim = from->dim,
                      .fetch = fetch_origin,
                      .self = kept,
                      .owned = kept,
                      .queries = o->queries,
                      .dtype = kept->dtype};
  return kf_index_build(ctx, &source, kept->metric, o->rows_in_place != 0, out);
}

kf_status kf_index_new(kf_ctx *ctx, const float *rows, uint64_t n, uint32_t dim,
                       const kf_index_options *options, kf_index **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, (rows != NULL || n == 0) && out != NULL);
  KF_OPTIONS(kf_index_options, o, options);
  if (dim < 1 || dim > KF_MAX_DIM)
    return kf_fail(err, KF_ERR_ARG, "rows have %u columns, there must be 1 to %u", dim, KF_MAX_DIM);
  return new_index(ctx, &(origin){.dim = dim, .rows = rows}, n, &o, out);
}

kf_status kf_index_new_from_data(kf_ctx *ctx, const kf_data *data, const kf_index_options *options,
                                 kf_index **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, data != NULL && out != NULL);
  KF_OPTIONS(kf_index_options, o, options);
  return new_index(ctx, &(origin){.dim = data->dim, .data = data}, data->rows, &o, out);
}

/* --- searching ------------------------------------------------------------------------------- */

uint64_t kf_rows_taking_part(uint64_t rows, const int64_t *leave_out, uint64_t n) {
  for (uint64_t i = 0; leave_out != NULL && i < n; i++)
    if (leave_out[i] >= 0 && (uint64_t)leave_out[i] < rows) return rows - 1;
  return rows;
}

kf_status kf_check_neighbours(uint32_t k, uint64_t rows, kf_err *err) {
  if (k < 1 || k > KF_MAX_NEIGHBOURS)
    return kf_fail(err, KF_ERR_ARG, "k is %u; it must be 1 to %u", k, KF_MAX_NEIGHBOURS);
  if (k > rows)
    return kf_fail(err, KF_ERR_ARG, "the %u nearest rows were requested, but there are %llu", k,
                   (unsigned long long)rows);
  return KF_OK;
}

kf_status kf_search(kf_ctx *ctx, const kf_index *index, const float *queries, uint64_t n,
                    uint32_t k, const kf_search_options *options, int64_t *rows, double *scores,
                    kf_search_report *report) {
  KF_ENTER(ctx, index != NULL && (n == 0 || (queries != NULL && rows != NULL)));
  KF_OPTIONS(kf_search_options, o, options);
  if (o.text_mean != NULL || o.only != NULL)
    return kf_fail(err, KF_ERR_ARG, "kf_search: text_mean and filters are for galleries");
  KF_TRY(kf_check_neighbours(k, kf_rows_taking_part(kf_index_rows(index), o.leave_out, n), err));
  uint64_t candidates = 0;
  KF_TRY(kf_nearest(ctx, &(kf_request){.index = index,
                                       .queries = queries,
                                       .n = n,
                                       .k = k,
                                       .check = true,
                                       .leave_out = o.leave_out,
                                       .rows = rows,
                                       .scores = scores,
                                       .candidates = &candidates}));
  if (report != NULL) {
    report->queries += n;
    report->candidates += candidates;
  }
  return KF_OK;
}
