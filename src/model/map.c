/* map.c - maps rows: f(x) = T (x / |x| - centre), scaled to unit length again.
 *
 * KF_MAP_ROWS rows at a time are transposed into f64 (the product kernel reads both factors by
 * columns), multiplied, and rounded to f32 once, at the end. */
#include "model/model.h"

#include <math.h>
#include <string.h>

void kf_map_make(kf_map *map, uint32_t dim_in, uint32_t dim_out, kf_arena *arena) {
  uint64_t values = (uint64_t)dim_out * dim_in;
  *map = (kf_map){.dim_in = dim_in, .dim_out = dim_out, .method = KF_METHOD_PAPER};
  KF_TAKE_ZERO(arena, map->transform, values);
  KF_TAKE_ZERO(arena, map->transposed, values);
  KF_TAKE_ZERO(arena, map->mean, dim_in);
}

void kf_map_finish(kf_map *map) {
  kf_transpose(map->dim_out, map->dim_in, map->transform, map->transposed);
}

void kf_map_copy(const kf_map *from, kf_map *to) {
  uint64_t values = (uint64_t)to->dim_out * to->dim_in;
  to->normalized = from->normalized;
  to->method = from->method;
  to->centre = from->centre;
  to->lambda = from->lambda;
  to->origin = from->origin;
  to->fitted_from = from->fitted_from;
  memcpy(to->fitted_by, from->fitted_by, sizeof to->fitted_by);
  memcpy(to->transform, from->transform, values * sizeof *to->transform);
  memcpy(to->mean, from->mean, to->dim_in * sizeof *to->mean);
  kf_map_finish(to);
}

bool kf_map_equal(const kf_map *a, const kf_map *b) {
  if (a->dim_in != b->dim_in || a->dim_out != b->dim_out || a->normalized != b->normalized ||
      a->centre != b->centre)
    return false;
  uint64_t d = a->dim_in, l = a->dim_out;
  bool centred = a->centre == KF_CENTRE_MEAN;
  return memcmp(a->transform, b->transform, l * d * sizeof *a->transform) == 0 &&
         (!centred || memcmp(a->mean, b->mean, d * sizeof *a->mean) == 0);
}

/* The checksum that kf_st_map_origin computes from a file. */
static uint64_t map_checksum(const kf_map *map) {
  kf_checksum sum;
  kf_map_checksum_start(&sum, map->dim_in, map->dim_out, map->normalized, map->centre);
  kf_checksum_add(&sum, map->transform,
                  (uint64_t)map->dim_out * map->dim_in * sizeof *map->transform);
  if (map->centre == KF_CENTRE_MEAN)
    kf_checksum_add(&sum, map->mean, (uint64_t)map->dim_in * sizeof *map->mean);
  return kf_checksum_value(&sum);
}

kf_status kf_map_refuse_mapped(const kf_map *map, const kf_data *data, kf_err *err) {
  const kf_origin *origin = &data->origin;
  KF_TRY(kf_data_refuse_mapped(data, err));
  if (!origin->known || origin->any || origin->checksum != map_checksum(map)) return KF_OK;
  return kf_fail_row(err, data, KF_ALL_ROWS, KF_HINT_NONE,
                     "its rows were mapped by this model already; give the original rows");
}

kf_status kf_map_check_data(const kf_map *map, const kf_data *data, kf_err *err) {
  KF_TRY(kf_map_refuse_mapped(map, data, err));
  KF_TRY(kf_origin_agree(&data->origin, &map->origin, err));
  if (data->dim == map->dim_in) return KF_OK;
  return kf_fail_row(err, data, KF_ALL_ROWS, KF_HINT_NONE, "has %u columns, but the model takes %u",
                     data->dim, map->dim_in);
}

kf_status kf_model_takes(kf_ctx *ctx, const kf_model *model, const kf_data *data) {
  KF_ENTER(ctx, model != NULL && data != NULL);
  return kf_map_check_data(&model->map, data, err);
}

kf_status kf_fail_range(const kf_map *map, kf_err *err) {
  return kf_fail_hint(err, KF_ERR_MATH, KF_HINT_LAMBDA,
                      "mapped rows overflow f32 at lambda %g; use cosine or a larger lambda",
                      map->lambda);
}

/* --- f64 ------------------------------------------------------------------------------------- */

uint64_t kf_map_workspace(const kf_map *map) { return (uint64_t)KF_MAP_ROWS * map->dim_in; }

/* Subtracts the centre from rows and transposes them. */
static void centre_columns(const kf_map *map, const double *x, uint64_t n, double *columns) {
  size_t dim_in = map->dim_in;
  for (size_t k = 0; k < dim_in; k++) {
    double centre = map->centre == KF_CENTRE_MEAN ? map->mean[k] : 0.0;
    for (size_t i = 0; i < n; i++) columns[k * n + i] = x[i * dim_in + k] - centre;
  }
}

void kf_map_f64(const kf_map *map, const kf_kernels *kernels, const double *x, uint64_t n,
                double *workspace, double *out) {
  kf_matrix matrix = {.depth = map->dim_in, .n = map->dim_out, .b = map->transposed};
  centre_columns(map, x, n, workspace);
  kf_matrix_times(kernels, &matrix, workspace, n, out);
}

void kf_map_rows_f64(const kf_map *map, const kf_kernels *kernels, const float *rows,
                     const double *norm2, const double *shift, uint64_t n, double *workspace,
                     double *out) {
  uint32_t dim_in = map->dim_in;
  double *x = workspace + n * dim_in;
  for (uint64_t i = 0; i < n; i++) {
    double scale = !map->normalized ? 1.0 : norm2[i] > 0 ? 1 / sqrt(norm2[i]) : 0.0;
    for (uint32_t k = 0; k < dim_in; k++) x[i * dim_in + k] = (double)rows[i * dim_in + k] * scale;
    for (uint32_t k = 0; shift != NULL && k < dim_in; k++) x[i * dim_in + k] += shift[k];
  }
  kf_map_f64(map, kernels, x, n, workspace, out);
}

/* --- class means ------------------------------------------------------------------------------ */

void kf_map_class_means(const kf_map *map, const kf_kernels *kernels, const kf_stats *stats,
                        uint32_t from, uint32_t n, double *workspace, double *means,
                        double *mapped) {
  uint64_t d = map->dim_in, l = map->dim_out;
  for (uint64_t t = 0; t < n; t++) kf_class_mean(stats, from + t, means + t * d);
  kf_map_f64(map, kernels, means, n, workspace, mapped);
  for (uint64_t t = 0; t < n; t++) /* a class without rows gets zeros */
    if (stats->counts[from + t] == 0) memset(mapped + t * l, 0, l * sizeof *mapped);
}

/* --- f32 ------------------------------------------------------------------------------------- */

/* For a row whose squared length is out of the range of f64: scales it by a power of two first.
 * Squares and sums are rounded separately on every machine, without FMA. */
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

/* Maps at most KF_MAP_ROWS rows. False if a mapped value overflows f32, or f64 if rows are scaled
 * to unit length. */
static bool map_together(const kf_map *map, const kf_kernels *kernels, const float *rows,
                         const double *norm2, const double *shift, uint64_t n, bool normalize,
                         double *buffer, float *out) {
  uint32_t dim_out = map->dim_out;
  double *mapped = buffer + 2 * n * map->dim_in;
  kf_map_rows_f64(map, kernels, rows, norm2, shift, n, buffer, mapped);
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

kf_status kf_map_rows(const kf_map *map, const kf_kernels *kernels, const float *rows,
                      const double *norm2, const double *shift, uint64_t n, bool normalize,
                      float *out, kf_err *err) {
  uint64_t together = n < KF_MAP_ROWS ? n : KF_MAP_ROWS;
  double *buffer = kf_alloc(together * (2 * (uint64_t)map->dim_in + map->dim_out), sizeof *buffer);
  if (buffer == NULL) return kf_fail_memory(err);
  bool finite = true;
  for (uint64_t i = 0; i < n; i += KF_MAP_ROWS)
    finite &= map_together(map, kernels, rows + i * map->dim_in, norm2 + i, shift,
                           n - i < KF_MAP_ROWS ? n - i : KF_MAP_ROWS, normalize, buffer,
                           out + i * map->dim_out);
  kf_free(buffer);
  if (finite) return KF_OK;
  /* No f32 row maps that far (rules.c), but a row minus a caller's text mean may. */
  if (normalize) return kf_fail(err, KF_ERR_MATH, "mapped rows overflow f64");
  return kf_fail_range(map, err);
}

/* Maps of raw rows are made for Euclidean distance, where lengths matter. */
static bool is_unit(const kf_model *model, const kf_transform_options *o) {
  return model->map.normalized && o->normalize != KF_OFF;
}

/* The map stays on devices until the model is freed. */
static kf_status begin(kf_ctx *ctx, const kf_model *model, const kf_transform_options *o,
                       uint64_t rows, kf_mapping *out) {
  bool unit = is_unit(model, o);
  return kf_mapping_begin(ctx, &model->map, unit, &model->on_devices[unit], rows, out);
}

typedef struct transformation {
  kf_mapping mapping;
  float *out;
} transformation;

static kf_status transform_batch(void *argument, const kf_batch *b, kf_err *err) {
  const transformation *t = argument;
  return kf_mapping_rows(&t->mapping, b->rows, b->norm2, b->n,
                         t->out + b->first * t->mapping.map->dim_out, err);
}

static kf_status transform_rows(kf_ctx *ctx, const kf_model *model, const kf_data *data,
                                transformation *t) {
  kf_pass pass = {.rows = kf_mapping_batch(&t->mapping, 2 * KF_MAP_ROWS),
                  .rows_only = true,
                  .shared = true,
                  .work = transform_batch,
                  .argument = t};
  kf_status status = kf_each_batch(ctx, data, &pass);
  if (status != KF_OK) return status;
  return kf_join_rows(ctx, data, t->out, model->map.dim_out * (uint64_t)sizeof *t->out);
}

kf_status kf_transform(kf_ctx *ctx, const kf_model *model, const float *rows, uint64_t n,
                       const kf_transform_options *options, float *out) {
  KF_ENTER(ctx, model != NULL && (n == 0 || (rows != NULL && out != NULL)));
  KF_OPTIONS(kf_transform_options, o, options);
  if (n == 0) return KF_OK;
  kf_data *data;
  KF_TRY(kf_data_open_memory(ctx, rows, n, model->map.dim_in, NULL, NULL, 0, &data));
  transformation t = {.out = out};
  kf_status status = begin(ctx, model, &o, n, &t.mapping);
  if (status == KF_OK)
    status = kf_mapping_end(ctx, &t.mapping, transform_rows(ctx, model, data, &t));
  kf_data_free(data);
  return status;
}

static kf_status transform_for_save(const void *argument, const kf_kernels *kernels,
                                    const float *rows, const double *norm2, uint64_t n, float *out,
                                    kf_err *err) {
  (void)kernels;
  return kf_mapping_rows(argument, rows, norm2, n, out, err);
}

kf_status kf_transform_data(kf_ctx *ctx, const kf_model *model, const kf_data *data,
                            const kf_transform_options *options, kf_dtype dtype, const char *path) {
  KF_ENTER(ctx, model != NULL && data != NULL && path != NULL);
  KF_OPTIONS(kf_transform_options, o, options);
  KF_TRY(kf_map_check_data(&model->map, data, err));
  kf_mapping mapping;
  const kf_origin origin =
      kf_origin_of_mapped(&data->origin, map_checksum(&model->map), data->origin.from);
  kf_save_spec spec = {.what = "transform",
                       .dim = model->map.dim_out,
                       .origin = &origin,
                       .dtype = dtype,
                       .keep_bad = true,
                       .map = transform_for_save,
                       .argument = &mapping};
  kf_status status = begin(ctx, model, &o, data->rows, &mapping);
  if (!kf_is_shared(&ctx->ranks)) /* otherwise all ranks need equal batches */
    spec.batch = kf_mapping_batch(&mapping, 0);
  if (status == KF_OK)
    status = kf_mapping_end(ctx, &mapping, kf_data_save_mapped(ctx, data, &spec, path));
  return status;
}
