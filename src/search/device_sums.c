/* device_sums.c - softmax sums over all prototypes, on devices where that pays. The scores stay
 * there; 24 bytes a row come back, with the bits of probabilities.c. */
#include "search/device_sums.h"
#include "search/index.h"

#include <string.h>

/* Work for each CPU thread, in products, that takes as long as half a millisecond, as making the
 * prototypes resident with page-locked memory, and as opening a device (measured with
 * bench/cuda/worth.c). */
#define WORTH_A_PUT   0x1p21
#define WORTH_A_COPY  0x1p27
#define WORTH_A_START 0x1p31
#define EXP_PRODUCTS  64u /* products that take as long as one exp */
#define MAX_RATIO     4u /* of f32 to f64 speed: devices with slower f64 are used only on request */

void kf_prototypes_devices_make(struct kf_prototypes_devices *devices) {
  *devices = (struct kf_prototypes_devices){0};
  kf_slots_owner_make(&devices->map);
  kf_slots_owner_make(&devices->sums);
}

void kf_prototypes_devices_clear(struct kf_prototypes_devices *devices) {
  kf_slots_owner_clear(&devices->map);
  kf_slots_owner_clear(&devices->sums);
}

/* --- the device ------------------------------------------------------------------------------- */

static bool offered(const kf_device *device, bool asked) {
  return device->api->odds_new != NULL && (asked || device->info.f64_ratio <= MAX_RATIO);
}

static kf_dev_status make(const kf_device *device, const void *argument, uint32_t batch,
                          uint32_t slots, void **object) {
  const kf_prototypes_use *use = argument;
  const kf_prototypes *p = use->p;
  kf_dev_odds_plan plan = {.metric = p->index->metric == KF_METRIC_EUCLIDEAN ? KF_DEV_EUCLIDEAN
                                                                             : KF_DEV_INNER,
                           .dim = p->dim,
                           .n_rows = p->n,
                           .narrow = kf_scores_narrow(p),
                           .n_scales = use->squares ? 2 : 1,
                           .scales = {use->temperature, 2 * use->temperature},
                           .batch = batch,
                           .slots = slots,
                           .rows = p->index->rows};
  kf_dev_odds *made = NULL;
  kf_dev_status status = device->api->odds_new(device->dev, &plan, &made);
  *object = made;
  return status;
}

static void drop(const kf_device *device, void *object) {
  device->api->odds_free(device->dev, object);
}

static kf_dev_status put(const kf_slot *slot, uint32_t n) {
  return slot->device->api->odds_put(slot->object, slot->number, slot->in, n, slot->out);
}

static kf_dev_status wait_for(const kf_slot *slot, bool *odd, char *message, size_t size) {
  *odd = false;
  return slot->device->api->odds_wait(slot->object, slot->number, message, size);
}

static const kf_slots_kind kind = {.what = "probabilities",
                                   .offered = offered,
                                   .make = make,
                                   .drop = drop,
                                   .put = put,
                                   .wait = wait_for};

/* --- the host --------------------------------------------------------------------------------- */

/* Resident prototypes are for one temperature, with or without squares. */
static void forget_others(struct kf_prototypes_devices *devices, const kf_prototypes_use *use) {
  double scales[] = {use->temperature, use->squares ? 2 * use->temperature : 0};
  pthread_mutex_lock(&devices->sums.lock);
  bool same = scales[0] == devices->scales[0] && scales[1] == devices->scales[1];
  memcpy(devices->scales, scales, sizeof scales);
  pthread_mutex_unlock(&devices->sums.lock);
  if (!same) kf_slots_forget(&devices->sums);
}

kf_status kf_sums_begin(kf_ctx *ctx, kf_prototypes_use *use, uint64_t rows) {
  const kf_prototypes *p = use->p;
  if (!(use->temperature > 0) || rows == 0) return KF_OK;
  kf_slots_plan plan = {.kind = &kind,
                        .argument = use,
                        .rows = rows,
                        .in = p->dim * sizeof(float),
                        .out = sizeof(kf_dev_sums),
                        .work = (double)rows * p->n * (p->dim + EXP_PRODUCTS),
                        .worth_a_put = WORTH_A_PUT,
                        .worth_a_copy = WORTH_A_COPY,
                        .worth_a_start = WORTH_A_START};
  forget_others(p->devices, use);
  return kf_slots_begin(ctx, &p->devices->sums, &plan, &use->sums);
}

typedef struct some_queries {
  const kf_prototypes_use *use;
  const float *queries;
  kf_odds *out;
} some_queries;

static void fill(void *argument, const kf_slot *slot, uint32_t n) {
  const some_queries *q = argument;
  memcpy(slot->in, q->queries, (uint64_t)n * q->use->p->dim * sizeof *q->queries);
}

static void take_out(void *argument, const kf_slot *slot, uint32_t n) {
  const some_queries *q = argument;
  const kf_dev_sums *sums = slot->out;
  for (uint32_t i = 0; i < n; i++)
    q->out[i] = (kf_odds){.temperature = q->use->temperature,
                          .most = sums[i].most,
                          .sum = sums[i].sum[0],
                          .squares = q->use->squares ? sums[i].sum[1] : 0};
}

kf_status kf_sums_find(const kf_prototypes_use *use, const float *queries, uint64_t n, kf_odds *out,
                       bool *done, kf_err *err) {
  uint64_t step = kf_slots_batch(&use->sums), some;
  *done = step > 0;
  for (uint64_t i = 0; *done && i < n; i += some) {
    some_queries q = {use, queries + i * use->p->dim, out + i};
    some = n - i < step ? n - i : step;
    KF_TRY(kf_slots_run(&use->sums, (uint32_t)some, fill, take_out, &q, done, err));
  }
  return KF_OK;
}
