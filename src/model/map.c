/* map.c - applying a model: f(x) = T (x / |x| - centre), scaled to unit length again.
 *
 * Rows are taken 64 at a time, transposed into f64 (so that the product kernel reads both factors
 * by columns), multiplied, and rounded to f32 once, at the end. */
#include "model/model.h"

#include <math.h>
#include <string.h>

uint64_t kf_map_scratch(const kf_model *model) { return (uint64_t)KF_MAP_ROWS * model->dim_in; }

void kf_map_f64(const kf_model *model, const kf_kernels *kernels, const double *x, uint64_t n,
                double *scratch, double *out) {
  size_t dim_in = model->dim_in, dim_out = model->dim_out;
  for (size_t k = 0; k < dim_in; k++) {
    double centre = model->centre == KF_CENTRE_MEAN ? model->mean[k] : 0.0;
    for (size_t i = 0; i < n; i++) scratch[k * KF_MAP_ROWS + i] = x[i * dim_in + k] - centre;
  }
  memset(out, 0, n * dim_out * sizeof *out);
  kernels->gemm_tn(scratch, KF_MAP_ROWS, model->transposed, dim_out, out, dim_out, n, dim_out,
                   dim_in);
}

/* Rows whose squared length would leave the range of f64 are brought near 1 by a power of two. */
static double unit_row_scaled(const double *x, uint32_t dim, float *out) {
  double largest = 0, lane[8] = {0};
  for (uint32_t i = 0; i < dim; i++) largest = fmax(largest, fabs(x[i]));
  int power = 0;
  frexp(largest, &power);
  for (uint32_t i = 0; i < dim; i++) {
    double y = ldexp(x[i], -power);
    lane[i % 8] += y * y;
  }
  double norm2 = kf_add_lanes(lane);
  double scale = norm2 > 0 ? 1 / sqrt(norm2) : 0;
  for (uint32_t i = 0; i < dim; i++) out[i] = (float)(ldexp(x[i], -power) * scale);
  return ldexp(sqrt(norm2), power);
}

double kf_unit_row(const kf_kernels *kernels, const double *x, uint32_t dim, float *out) {
  double norm2 = kernels->dot(dim, x, x);
  if (!(norm2 > 1e-280 && norm2 < 1e280)) return unit_row_scaled(x, dim, out);
  double scale = 1 / sqrt(norm2);
  for (uint32_t i = 0; i < dim; i++) out[i] = (float)(x[i] * scale);
  return sqrt(norm2);
}

void kf_map_rows_f64(const kf_model *model, const kf_kernels *kernels, const float *rows,
                     const double *norm2, uint64_t n, double *scratch, double *out) {
  uint32_t dim_in = model->dim_in;
  double *x = scratch + kf_map_scratch(model);
  for (uint64_t i = 0; i < n; i++) {
    double scale = !model->normalized ? 1.0 : norm2[i] > 0 ? 1 / sqrt(norm2[i]) : 0.0;
    for (uint32_t k = 0; k < dim_in; k++) x[i * dim_in + k] = (double)rows[i * dim_in + k] * scale;
  }
  kf_map_f64(model, kernels, x, n, scratch, out);
}

/* One block of at most KF_MAP_ROWS rows; false where a mapped value is too large for f32, or for f64
 * where rows are scaled to unit length. */
static bool map_block(const kf_model *model, const kf_kernels *kernels, const float *rows,
                      const double *norm2, uint64_t n, bool normalize, double *buffer, float *out) {
  uint32_t dim_out = model->dim_out;
  double *mapped = buffer + 2 * kf_map_scratch(model);
  kf_map_rows_f64(model, kernels, rows, norm2, n, buffer, mapped);
  bool finite = true;
  for (uint64_t i = 0; i < n; i++) {
    const double *z = mapped + i * dim_out;
    float *to = out + i * dim_out;
    if (norm2[i] == 0)
      memset(to, 0, dim_out * sizeof *to);
    else if (normalize)
      finite &= isfinite(kf_unit_row(kernels, z, dim_out, to)) != 0;
    else
      for (uint32_t k = 0; k < dim_out; k++) finite &= isfinite(to[k] = (float)z[k]) != 0;
  }
  return finite;
}

kf_status kf_map_rows(const kf_model *model, const kf_kernels *kernels, const float *rows,
                      const double *norm2, uint64_t n, bool normalize, float *out, kf_err *err) {
  uint64_t mapped = KF_MAP_ROWS * (uint64_t)model->dim_out;
  double *buffer = kf_alloc(2 * kf_map_scratch(model) + mapped, sizeof *buffer);
  if (buffer == NULL) return kf_fail_memory(err);
  bool finite = true;
  for (uint64_t i = 0; i < n; i += KF_MAP_ROWS)
    finite &= map_block(model, kernels, rows + i * model->dim_in, norm2 + i,
                        n - i < KF_MAP_ROWS ? n - i : KF_MAP_ROWS, normalize, buffer,
                        out + i * model->dim_out);
  kf_free(buffer);
  if (finite) return KF_OK;
  /* A fitted map does not do that to a finite row, but one that was read from a file may. */
  if (normalize)
    return kf_fail(err, KF_ERR_MATH, "the map takes rows out of the range of double precision");
  return kf_fail_range(model, err);
}

kf_status kf_fail_range(const kf_model *model, kf_err *err) {
  return kf_fail(err, KF_ERR_MATH,
                 "lambda %g puts mapped rows out of the range of single precision, which cosines "
                 "of unit rows do not need",
                 model->lambda);
}

/* A model of raw norms is made for Euclidean distance, in which lengths count. */
static bool unit_length(const kf_model *model, const kf_transform_options *options) {
  return model->normalized && (options == NULL || (options->normalize != KF_OFF));
}

/* --- the public calls ------------------------------------------------------------------------ */

typedef struct map_job {
  const kf_model *model;
  const kf_data *data;
  const kf_kernels *kernels;
  bool normalize;
  float *out;
  uint64_t chunk;
} map_job;

static kf_status map_chunk(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)worker;
  const map_job *j = argument;
  uint64_t first = i * j->chunk, left = j->data->rows - first,
           n = left < j->chunk ? left : j->chunk;
  float *rows = kf_alloc(n * j->model->dim_in, sizeof *rows);
  double *norm2 = kf_alloc(n, sizeof *norm2);
  kf_status status = rows == NULL || norm2 == NULL
                         ? kf_fail_memory(err)
                         : kf_data_fetch(j->data, j->kernels, first, n, rows, NULL, norm2, err);
  if (status == KF_OK)
    status = kf_map_rows(j->model, j->kernels, rows, norm2, n, j->normalize,
                         j->out + first * j->model->dim_out, err);
  kf_free(rows);
  kf_free(norm2);
  return status;
}

kf_status kf_transform(kf_ctx *ctx, const kf_model *model, const float *rows, uint64_t n,
                       const kf_transform_options *options, float *out) {
  KF_ENTER(ctx, model != NULL && out != NULL);
  (void)err;
  if (n == 0) return KF_OK;
  kf_data *data;
  KF_TRY(kf_data_open_memory(ctx, rows, n, model->dim_in, NULL, NULL, 0, &data));
  map_job j = {.model = model,
               .data = data,
               .kernels = ctx->kernels,
               .out = out,
               .normalize = unit_length(model, options),
               .chunk = KF_MAP_ROWS * 2};
  kf_status status = kf_parallel(ctx, (size_t)((n + j.chunk - 1) / j.chunk), map_chunk, &j);
  kf_data_free(data);
  return status;
}

typedef struct map_spec {
  const kf_model *model;
  bool normalize;
} map_spec;

static kf_status map_for_save(const void *argument, const kf_kernels *kernels, const float *rows,
                              const double *norm2, uint64_t n, float *out, kf_err *err) {
  const map_spec *spec = argument;
  return kf_map_rows(spec->model, kernels, rows, norm2, n, spec->normalize, out, err);
}

kf_status kf_transform_data(kf_ctx *ctx, const kf_model *model, const kf_data *data,
                            const kf_transform_options *options, kf_dtype dtype, const char *path) {
  KF_ENTER(ctx, model != NULL && data != NULL && path != NULL);
  KF_TRY(kf_model_check_data(model, data, err));
  map_spec map = {.model = model, .normalize = unit_length(model, options)};
  kf_save_spec spec = {.what = "transform",
                       .dim = model->dim_out,
                       .dtype = dtype,
                       .keep_bad = true,
                       .map = map_for_save,
                       .argument = &map};
  return kf_data_save_mapped(ctx, data, &spec, path);
}
