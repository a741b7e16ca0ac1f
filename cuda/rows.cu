/* rows.cu - rows of an index on the device. */
#include "search.cuh"
#include "table.h"

#include <new>

static uint64_t value_size(kf_dev_type type) {
  return type == KF_DEV_F32 ? 4 : type == KF_DEV_NO_VALUES ? 0 : 2;
}

uint64_t kf_cuda_rows_bytes(const kf_dev_piece *piece) {
  const kf_dev_space *space = piece->space;
  uint64_t places = piece->n_tiles * KF_TILE_ROWS;
  uint64_t bytes =
      places * (space->padded + sizeof(uint32_t)) +
      piece->n_tiles * (sizeof(kf_tile_bound) + sizeof(kf_dev_tile) + sizeof(kf_tile_value));
  bytes += piece->n * space->dim * value_size(piece->values);
  if (space->metric == KF_DEV_COSINE && piece->values != KF_DEV_NO_VALUES) bytes += piece->n * 8;
  return bytes + (4u << 20); /* for rounding up each of them */
}

void kf_cuda_rows_free(kf_dev *dev, kf_dev_rows *rows) {
  if (rows == NULL) return;
  cudaSetDevice(dev->number);
  kf_cuda_release(&rows->arena);
  delete rows;
}

kf_dev_status kf_cuda_rows_new(kf_dev *dev, const kf_dev_piece *piece, kf_dev_rows **out) {
  const kf_dev_space *space = piece->space;
  *out = NULL;
  uint64_t places = piece->n_tiles * KF_TILE_ROWS;
  if (piece->n_tiles < 1 || places >= UINT32_MAX || space->padded % KF_PAD != 0 || space->dim < 1)
    return kf_cuda_refuse(dev, KF_DEV_FAILED, "a piece of rows has an impossible size");
  KF_CUDA(dev, cudaSetDevice(dev->number), "using");
  kf_dev_rows *rows = new (std::nothrow) kf_dev_rows();
  if (rows == NULL) return kf_cuda_refuse(dev, KF_DEV_FAILED, "out of memory");
  rows->dev = dev;
  rows->metric = space->metric;
  rows->type = piece->values;
  rows->dim = space->dim;
  rows->padded = space->padded;
  rows->bound_scale = space->bound_scale;
  rows->first = piece->first;
  rows->n = piece->n;
  rows->n_tiles = piece->n_tiles;
  rows->used = 1;
  kf_cuda_arena *arena = &rows->arena;
  rows->bytes = (int8_t *)kf_cuda_take(arena, places * space->padded);
  rows->numbers = (uint32_t *)kf_cuda_take(arena, places * sizeof *rows->numbers);
  rows->bounds = (kf_tile_bound *)kf_cuda_take(arena, piece->n_tiles * sizeof *rows->bounds);
  rows->given = (kf_dev_tile *)kf_cuda_take(arena, piece->n_tiles * sizeof *rows->given);
  rows->tiles = (kf_tile_value *)kf_cuda_take(arena, piece->n_tiles * sizeof *rows->tiles);
  if (piece->values != KF_DEV_NO_VALUES) {
    rows->values = kf_cuda_take(arena, piece->n * space->dim * value_size(piece->values));
    if (space->metric == KF_DEV_COSINE) rows->norm2 = (double *)kf_cuda_take(arena, piece->n * 8);
  }
  if (arena->error != cudaSuccess) {
    kf_dev_status status = kf_cuda_fail(dev, arena->error, "making room for rows");
    kf_cuda_rows_free(dev, rows);
    return status;
  }
  *out = rows;
  return KF_DEV_OK;
}

/* Converts tiles to what the kernels use. */
__global__ void __launch_bounds__(KF_TILE_ROWS)
    see_tiles(const kf_dev_tile *given, const uint32_t *numbers, uint64_t n, double bound_scale,
              kf_tile_bound *bounds, kf_tile_value *tiles) {
  for (uint64_t i = blockIdx.x; i < n; i += gridDim.x) {
    kf_dev_tile t = given[i];
    int empty = __syncthreads_count(numbers[i * KF_TILE_ROWS + threadIdx.x] == UINT32_MAX);
    if (threadIdx.x > 0) continue;
    kf_tile_value v = {t.scale, t.low, t.high, t.length, t.error, t.fixed, (uint32_t)empty, 0};
    tiles[i] = v;
    kf_tile_bound bound = kf_bound_tile(t, bound_scale);
    if (empty == KF_TILE_ROWS) bound.w = -1;
    bounds[i] = bound;
  }
}

/* Counts tiles up to the last that has a row. */
static uint64_t count_used(const uint32_t *numbers, uint64_t n) {
  for (uint64_t place = n * KF_TILE_ROWS; place > 0; place--)
    if (numbers[place - 1] != UINT32_MAX) return (place - 1) / KF_TILE_ROWS + 1;
  return 0;
}

kf_dev_status kf_cuda_rows_put_tiles(kf_dev_rows *rows, uint64_t first, uint64_t n,
                                     const int8_t *bytes, const uint32_t *numbers,
                                     const kf_dev_tile *tiles) {
  kf_dev *dev = rows->dev;
  const char *what = "copying rows";
  if (n == 0) return KF_DEV_OK;
  if (first > rows->n_tiles || n > rows->n_tiles - first)
    return kf_cuda_refuse(dev, KF_DEV_FAILED, "tiles that the piece does not have");
  uint64_t place = first * KF_TILE_ROWS, places = n * KF_TILE_ROWS, used = count_used(numbers, n);
  if (used > 0 && first + used > rows->used) rows->used = (uint32_t)(first + used);
  KF_CUDA(dev, cudaSetDevice(dev->number), "using");
  KF_CUDA(dev,
          cudaMemcpyAsync(rows->bytes + place * rows->padded, bytes, places * rows->padded,
                          cudaMemcpyDefault, dev->stream),
          what);
  KF_CUDA(dev,
          cudaMemcpyAsync(rows->numbers + place, numbers, places * sizeof *numbers,
                          cudaMemcpyDefault, dev->stream),
          what);
  kf_dev_tile *given = rows->given + first;
  KF_CUDA(dev, cudaMemcpyAsync(given, tiles, n * sizeof *given, cudaMemcpyDefault, dev->stream),
          what);
  see_tiles<<<(unsigned)(n < 4096 ? n : 4096), KF_TILE_ROWS, 0, dev->stream>>>(
      given, rows->numbers + place, n, rows->bound_scale, rows->bounds + first,
      rows->tiles + first);
  KF_CUDA(dev, cudaGetLastError(), what);
  return KF_DEV_OK;
}

kf_dev_status kf_cuda_rows_put_values(kf_dev_rows *rows, uint64_t first, uint64_t n,
                                      const void *values, const double *norm2) {
  kf_dev *dev = rows->dev;
  const char *what = "copying rows";
  if (n == 0) return KF_DEV_OK;
  uint64_t each = rows->dim * value_size(rows->type);
  if (each == 0 || first > rows->n || n > rows->n - first)
    return kf_cuda_refuse(dev, KF_DEV_FAILED, "rows that the piece does not have");
  KF_CUDA(dev, cudaSetDevice(dev->number), "using");
  KF_CUDA(dev,
          cudaMemcpyAsync((char *)rows->values + first * each, values, n * each, cudaMemcpyDefault,
                          dev->stream),
          what);
  if (rows->norm2 != NULL)
    KF_CUDA(dev,
            cudaMemcpyAsync(rows->norm2 + first, norm2, n * sizeof *norm2, cudaMemcpyDefault,
                            dev->stream),
            what);
  return KF_DEV_OK;
}
