/* slots.c - work that the threads of a pass give to devices, each in a slot of its own.
 *
 * A thread takes a slot, copies its rows to the slot's memory (page-locked if possible), puts them
 * on the device, waits, and copies the result. Meanwhile other threads fill other slots, so that
 * reading, copying and computing overlap. What is resident on the device (a map, prototypes)
 * belongs to an object of the library and stays between calls.
 *
 * If a device fails, this and all later work is done on the CPU, which is logged at the end. If
 * devices were asked for by name, the threads fail instead. */
#include "device/device.h"

#include <string.h>

#define LEAST_BATCH 64u
#define MOST_BATCH  2048u /* larger batches keep a device no busier */

struct kf_slots {
  const kf_slots_kind *kind;
  uint32_t wanted, batch; /* rows of a put; `batch` is smaller if memory was short */
  uint32_t n_devices, n;
  kf_device *devices[KF_MOST_DEVICES];
  void *objects[KF_MOST_DEVICES];
  kf_slot *slots; /* [n], devices in turn */
  pthread_mutex_t lock;
  pthread_cond_t changed;
  unsigned held;
  bool failed;
  kf_err err;
};

/* --- memory ----------------------------------------------------------------------------------- */

static void *take_memory(const kf_device *d, size_t bytes, bool *locked) {
  void *memory = d->api->host_alloc(d->dev, bytes);
  *locked = memory != NULL;
  return memory != NULL ? memory : kf_alloc(bytes, 1);
}

static void give_memory(const kf_device *d, void *memory, bool locked) {
  if (locked)
    d->api->host_free(d->dev, memory);
  else
    kf_free(memory);
}

/* Frees what is on devices and the slots' memory, but not after a fork, when none of it belongs to
 * this process. */
static void clear(kf_slots *s) {
  for (uint32_t i = 0; i < s->n_devices; i++) {
    kf_device *d = s->devices[i];
    if (!kf_device_here(d)) continue;
    pthread_mutex_lock(&d->lock);
    for (uint32_t t = 0; s->slots != NULL && t < s->n; t++) {
      kf_slot *slot = &s->slots[t];
      if (slot->device != d) continue;
      give_memory(d, slot->in, slot->locked[0]);
      give_memory(d, slot->out, slot->locked[1]);
      slot->in = slot->out = NULL;
    }
    if (s->objects[i] != NULL) s->kind->drop(d, s->objects[i]);
    s->objects[i] = NULL;
    pthread_mutex_unlock(&d->lock);
  }
  kf_free(s->slots);
  s->slots = NULL;
}

static void destroy(kf_slots *s) {
  clear(s);
  for (uint32_t i = 0; i < s->n_devices; i++) kf_device_release(s->devices[i]);
  pthread_cond_destroy(&s->changed);
  pthread_mutex_destroy(&s->lock);
  kf_free(s);
}

static void release(kf_slots *s) {
  pthread_mutex_lock(&s->lock);
  bool last = --s->held == 0;
  pthread_mutex_unlock(&s->lock);
  if (last) destroy(s);
}

/* --- making ----------------------------------------------------------------------------------- */

/* Makes the resident objects, for batches of s->batch. */
static kf_dev_status make_objects(kf_slots *s, const kf_slots_plan *plan, uint32_t each,
                                  kf_err *err) {
  for (uint32_t i = 0; i < s->n_devices; i++) {
    kf_device *d = s->devices[i];
    pthread_mutex_lock(&d->lock);
    kf_dev_status status = s->kind->make(d, plan->argument, s->batch, each, &s->objects[i]);
    if (status != KF_DEV_OK) kf_device_fail(d, status, s->kind->what, err);
    pthread_mutex_unlock(&d->lock);
    if (status != KF_DEV_OK) return status;
  }
  return KF_DEV_OK;
}

static bool make_slots(kf_slots *s, const kf_slots_plan *plan, uint32_t each) {
  s->n = each * s->n_devices;
  s->slots = kf_alloc_zero(s->n, sizeof *s->slots);
  if (s->slots == NULL) return false;
  bool all = true;
  for (uint32_t i = 0; i < s->n; i++) {
    kf_slot *slot = &s->slots[i];
    kf_device *d = slot->device = s->devices[i % s->n_devices];
    slot->object = s->objects[i % s->n_devices];
    slot->number = i / s->n_devices;
    pthread_mutex_lock(&d->lock);
    slot->in = take_memory(d, s->batch * plan->in, &slot->locked[0]);
    slot->out = take_memory(d, s->batch * plan->out, &slot->locked[1]);
    pthread_mutex_unlock(&d->lock);
    all = all && slot->in != NULL && slot->out != NULL;
  }
  return all;
}

/* The rows of a put: a power of two, small enough for every thread to get some. */
static uint32_t batch_for(const kf_ctx *ctx, const kf_slots_plan *plan) {
  uint32_t batch = LEAST_BATCH;
  while (batch < MOST_BATCH && (uint64_t)batch * ctx->threads < plan->rows) batch *= 2;
  return batch;
}

/* Where a device has little memory left, tries smaller batches, and then a single slot. */
static kf_status make_all(kf_slots *s, const kf_slots_plan *plan, uint32_t each, kf_err *err) {
  for (s->batch = s->wanted;;) {
    kf_dev_status status = make_objects(s, plan, each, err);
    if (status == KF_DEV_OK) return make_slots(s, plan, each) ? KF_OK : kf_fail_memory(err);
    clear(s);
    if (status != KF_DEV_MEMORY || (s->batch <= LEAST_BATCH && each == 1)) return err->status;
    if (s->batch > LEAST_BATCH)
      s->batch /= 2;
    else
      each = 1;
  }
}

static kf_status make(const kf_ctx *ctx, const kf_devices *devices, const kf_slots_plan *plan,
                      kf_slots **out, kf_err *err) {
  uint32_t each = ctx->threads < KF_DEV_SLOTS ? ctx->threads : KF_DEV_SLOTS;
  kf_slots *s = kf_alloc_zero(1, sizeof *s);
  if (s == NULL) return kf_fail_memory(err);
  s->kind = plan->kind;
  s->wanted = batch_for(ctx, plan);
  s->held = 1;
  pthread_mutex_init(&s->lock, NULL);
  pthread_cond_init(&s->changed, NULL);
  for (; s->n_devices < devices->n; s->n_devices++)
    s->devices[s->n_devices] = kf_device_hold(devices->device[s->n_devices]);
  kf_status status = make_all(s, plan, each, err);
  KF_HAND_OUT(status, out, s, destroy);
}

static bool is_on(kf_slots *s, const kf_devices *devices) {
  if (s == NULL || s->n_devices != devices->n) return false;
  for (uint32_t i = 0; i < devices->n; i++)
    if (s->devices[i] != devices->device[i]) return false;
  pthread_mutex_lock(&s->lock);
  bool failed = s->failed;
  pthread_mutex_unlock(&s->lock);
  return !failed;
}

/* --- owners ----------------------------------------------------------------------------------- */

void kf_slots_owner_make(kf_slots_owner *owner) {
  *owner = (kf_slots_owner){0};
  pthread_mutex_init(&owner->lock, NULL);
}

void kf_slots_forget(kf_slots_owner *owner) {
  pthread_mutex_lock(&owner->lock);
  kf_slots *slots = owner->slots;
  owner->slots = NULL;
  pthread_mutex_unlock(&owner->lock);
  if (slots != NULL) release(slots);
}

void kf_slots_owner_clear(kf_slots_owner *owner) {
  kf_slots_forget(owner);
  pthread_mutex_destroy(&owner->lock);
}

/* Whether a device pays: each thread must have more to do than it takes to open the device, to copy
 * the resident object or to wait for one put. Holds the lock. */
static bool pays(const kf_ctx *ctx, kf_slots_owner *owner, const kf_slots_plan *plan) {
  owner->work += plan->work;
  if (kf_devices_asked(ctx)) return true;
  if (owner->refused || plan->work < plan->worth_a_put * ctx->threads) return false;
  if (owner->slots != NULL) return true;
  return owner->work >=
         (kf_devices_known(ctx) ? plan->worth_a_copy : plan->worth_a_start) * ctx->threads;
}

static bool offers(const kf_devices *devices, const kf_slots_kind *kind) {
  for (uint32_t i = 0; i < devices->n; i++)
    if (!kind->offered(devices->device[i], devices->asked)) return false;
  return devices->n > 0;
}

/* Holds the owner's lock. *fault: the error is a device's. */
static kf_status begin(kf_ctx *ctx, kf_slots_owner *owner, const kf_slots_plan *plan,
                       kf_slots_use *use, kf_err *err, bool *fault) {
  kf_devices *devices = NULL;
  if (!pays(ctx, owner, plan)) return KF_OK;
  KF_TRY(kf_devices_for(ctx, &devices));
  if (!offers(devices, plan->kind)) return KF_OK;
  if (!is_on(owner->slots, devices) || owner->slots->wanted < batch_for(ctx, plan)) {
    if (owner->slots != NULL) release(owner->slots);
    owner->slots = NULL;
    kf_status status = make(ctx, devices, plan, &owner->slots, err);
    *fault = owner->refused = status != KF_OK;
    if (status != KF_OK) return status;
  }
  use->slots = owner->slots;
  use->owner = owner;
  use->asked = devices->asked;
  pthread_mutex_lock(&use->slots->lock);
  use->slots->held++;
  pthread_mutex_unlock(&use->slots->lock);
  return KF_OK;
}

kf_status kf_slots_begin(kf_ctx *ctx, kf_slots_owner *owner, const kf_slots_plan *plan,
                         kf_slots_use *use) {
  kf_err err = {0};
  bool fault = false;
  *use = (kf_slots_use){0};
  pthread_mutex_lock(&owner->lock);
  kf_status status = begin(ctx, owner, plan, use, &err, &fault);
  pthread_mutex_unlock(&owner->lock);
  if (fault) status = kf_devices_failed(ctx, &err);
  status = kf_agree_on(ctx, status); /* ranks may have different devices */
  if (status != KF_OK && use->slots != NULL) {
    release(use->slots);
    use->slots = NULL;
  }
  return status;
}

kf_status kf_slots_end(kf_ctx *ctx, kf_slots_use *use, kf_status status) {
  kf_slots *s = use->slots;
  if (s == NULL) return status;
  use->slots = NULL;
  pthread_mutex_lock(&s->lock);
  bool failed = s->failed;
  kf_err err = s->err;
  pthread_mutex_unlock(&s->lock);
  if (failed && err.status == KF_ERR_MEM) {
    pthread_mutex_lock(&use->owner->lock);
    use->owner->refused = true;
    pthread_mutex_unlock(&use->owner->lock);
  }
  release(s);
  if (failed && status == KF_OK) return kf_devices_failed(ctx, &err);
  return status;
}

uint32_t kf_slots_batch(const kf_slots_use *use) {
  return use->slots != NULL ? use->slots->batch : 0;
}

/* --- for threads ------------------------------------------------------------------------------ */

/* Holds the lock. */
static kf_slot *find_free(const kf_slots *s) {
  for (uint32_t i = 0; i < s->n; i++)
    if (!s->slots[i].taken) return &s->slots[i];
  return NULL;
}

static kf_slot *take(kf_slots *s) {
  kf_slot *slot = NULL;
  pthread_mutex_lock(&s->lock);
  while (!s->failed && (slot = find_free(s)) == NULL) pthread_cond_wait(&s->changed, &s->lock);
  if (slot != NULL) slot->taken = true;
  pthread_mutex_unlock(&s->lock);
  return slot;
}

/* Returns a slot; err is not NULL if its device failed. */
static void give(kf_slots *s, kf_slot *slot, const kf_err *err) {
  pthread_mutex_lock(&s->lock);
  slot->taken = false;
  if (err != NULL && !s->failed) s->err = *err;
  s->failed = s->failed || err != NULL;
  pthread_cond_broadcast(&s->changed);
  pthread_mutex_unlock(&s->lock);
}

static kf_dev_status run_in(const kf_slot *slot, const kf_slots_kind *kind, uint32_t n, bool *odd,
                            kf_err *err) {
  kf_device *d = slot->device;
  char message[256] = "";
  pthread_mutex_lock(&d->lock);
  kf_dev_status status = kind->put(slot, n);
  if (status != KF_DEV_OK) kf_device_fail(d, status, kind->what, err);
  pthread_mutex_unlock(&d->lock);
  if (status != KF_DEV_OK) return status;
  status = kind->wait(slot, odd, message, sizeof message);
  if (status != KF_DEV_OK)
    kf_fail(err, KF_ERR_IO, "%s (%s), %s: %s", d->name, d->info.name, kind->what, message);
  return status;
}

kf_status kf_slots_run(const kf_slots_use *use, uint32_t n, kf_slot_fn fill, kf_slot_fn take_out,
                       void *argument, bool *done, kf_err *err) {
  kf_slots *s = use->slots;
  *done = false;
  kf_slot *slot = s != NULL ? take(s) : NULL;
  if (slot == NULL) {
    if (s == NULL || !use->asked) return KF_OK;
    pthread_mutex_lock(&s->lock);
    *err = s->err;
    pthread_mutex_unlock(&s->lock);
    return err->status;
  }
  bool odd = false;
  kf_err failure = {0};
  fill(argument, slot, n);
  kf_dev_status status = run_in(slot, s->kind, n, &odd, &failure);
  *done = status == KF_DEV_OK && !odd;
  if (*done) take_out(argument, slot, n);
  give(s, slot, status == KF_DEV_OK ? NULL : &failure);
  if (status == KF_DEV_OK || !use->asked) return KF_OK;
  *err = failure;
  return err->status;
}
