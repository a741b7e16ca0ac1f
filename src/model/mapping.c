/* mapping.c - maps rows on devices where that pays, otherwise on the CPU, with the same bits.
 *
 * The map is resident on the devices of the context, and the threads of a pass hand them batches
 * (slots.c). A device computes what map.c does for ordinary rows. If the mapped length of a row is
 * out of the range of f64, or its numbers out of that of f32, the CPU maps the whole batch. */
#include "model/model.h"

#include <math.h>
#include <string.h>

/* The f64 products that a CPU thread computes in half a millisecond, while the map is made resident
 * with its page-locked memory, and while a device is opened (measured with bench/cuda/worth.c). */
#define WORTH_A_PUT   0x1p21
#define WORTH_A_COPY  0x1p29
#define WORTH_A_START 0x1p32
/* Least products for each number copied, per thread: the CPU finishes a narrower map before its
 * rows reach the device. */
#define WORTH_COPYING 2.5
/* Unless a device was requested, only those whose f64 is at most this much slower than f32 are
 * used. */
#define MOST_RATIO 4u

static bool offered(const kf_device *device, bool asked) {
  return device->api->map_new != NULL && (asked || device->info.f64_ratio <= MOST_RATIO);
}

static kf_dev_status make(const kf_device *device, const void *argument, uint32_t batch,
                          uint32_t slots, void **object) {
  const kf_mapping *m = argument;
  const kf_map *map = m->map;
  kf_dev_map_plan plan = {.dim_in = map->dim_in,
                          .dim_out = map->dim_out,
                          .normalized = map->normalized,
                          .unit = m->unit,
                          .batch = batch,
                          .slots = slots,
                          .transposed = map->transposed,
                          .centre = map->centre == KF_CENTRE_MEAN ? map->mean : NULL};
  kf_dev_map *made = NULL;
  kf_dev_status status = device->api->map_new(device->dev, &plan, &made);
  *object = made;
  return status;
}

static void drop(const kf_device *device, void *object) {
  device->api->map_free(device->dev, object);
}

/* A slot's memory holds the squared lengths, then the rows; its object knows the sizes. */
static kf_dev_status put(const kf_slot *slot, uint32_t n) {
  const double *norm2 = slot->in;
  const void *rows = norm2 + n;
  return slot->device->api->map_put(slot->object, slot->number, rows, norm2, n, slot->out);
}

static kf_dev_status wait_for(const kf_slot *slot, bool *odd, char *message, size_t size) {
  uint32_t first = 0;
  kf_dev_status status =
      slot->device->api->map_wait(slot->object, slot->number, &first, message, size);
  *odd = first > 0;
  return status;
}

static const kf_slots_kind kind = {
    .what = "map", .offered = offered, .make = make, .drop = drop, .put = put, .wait = wait_for};

static double worth_a_put(const kf_ctx *ctx, const kf_map *map) {
  double products = (double)map->dim_in * map->dim_out;
  bool narrow = products < WORTH_COPYING * ctx->threads * ((double)map->dim_in + map->dim_out);
  return narrow ? INFINITY : WORTH_A_PUT;
}

kf_status kf_mapping_begin(kf_ctx *ctx, const kf_map *map, bool unit, kf_slots_owner *owner,
                           uint64_t rows, kf_mapping *out) {
  *out = (kf_mapping){.map = map, .kernels = ctx->kernels, .unit = unit};
  if (map == NULL || rows == 0) return KF_OK;
  kf_slots_plan plan = {.kind = &kind,
                        .argument = out,
                        .rows = rows,
                        .in = sizeof(double) + map->dim_in * sizeof(float),
                        .out = map->dim_out * sizeof(float),
                        .work = (double)rows * map->dim_in * map->dim_out,
                        .worth_a_put = worth_a_put(ctx, map),
                        .worth_a_copy = WORTH_A_COPY,
                        .worth_a_start = WORTH_A_START};
  return kf_slots_begin(ctx, owner, &plan, &out->use);
}

kf_status kf_mapping_end(kf_ctx *ctx, kf_mapping *mapping, kf_status status) {
  return kf_slots_end(ctx, &mapping->use, status);
}

uint64_t kf_mapping_batch(const kf_mapping *mapping, uint64_t otherwise) {
  uint32_t batch = kf_slots_batch(&mapping->use);
  return batch > 0 ? batch : otherwise;
}

typedef struct some_rows {
  const kf_map *map;
  const float *rows;
  const double *norm2;
  float *out;
} some_rows;

static void fill(void *argument, const kf_slot *slot, uint32_t n) {
  const some_rows *r = argument;
  double *norm2 = slot->in;
  memcpy(norm2, r->norm2, n * sizeof *norm2);
  memcpy(norm2 + n, r->rows, (uint64_t)n * r->map->dim_in * sizeof *r->rows);
}

static void take_out(void *argument, const kf_slot *slot, uint32_t n) {
  const some_rows *r = argument;
  memcpy(r->out, slot->out, (uint64_t)n * r->map->dim_out * sizeof *r->out);
}

kf_status kf_mapping_rows(const kf_mapping *m, const float *rows, const double *norm2, uint64_t n,
                          float *out, kf_err *err) {
  const kf_map *map = m->map;
  uint64_t step = kf_mapping_batch(m, n), some;
  for (uint64_t i = 0; i < n; i += some) {
    some_rows r = {map, rows + i * map->dim_in, norm2 + i, out + i * map->dim_out};
    bool done = false;
    some = n - i < step ? n - i : step;
    if (m->use.slots != NULL)
      KF_TRY(kf_slots_run(&m->use, (uint32_t)some, fill, take_out, &r, &done, err));
    if (!done)
      KF_TRY(kf_map_rows(map, m->kernels, r.rows, r.norm2, NULL, some, m->unit, r.out, err));
  }
  return KF_OK;
}
