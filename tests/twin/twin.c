/* twin.c - simulated devices: limits, faults, and the table. */
#include "twin/twin.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VISIBLE __attribute__((visibility("default")))

VISIBLE kf_twin_state kf_twin = {.devices = 1,
                                 .tile_rows = 32,
                                 .pad = 16,
                                 .most_best = 1040,
                                 .memory = (uint64_t)1 << 32,
                                 .f64_ratio = 2};

/* --- devices ---------------------------------------------------------------------------------- */

static kf_dev_status say(char *message, size_t size, kf_dev_status status, const char *sentence) {
  snprintf(message, size, "%s", sentence);
  return status;
}

static kf_dev_status count(uint32_t *n, char *message, size_t size) {
  if (kf_twin.no_driver) return say(message, size, KF_DEV_NONE, "there is no driver");
  *n = (uint32_t)kf_twin.devices;
  return KF_DEV_OK;
}

static kf_dev_status describe(uint32_t number, kf_dev_info *out, char *message, size_t size) {
  if (number >= kf_twin.devices) return say(message, size, KF_DEV_NONE, "no such device");
  *out = (kf_dev_info){.memory = kf_twin.memory,
                       .processors = 1,
                       .major = 1,
                       .f64_ratio = (uint32_t)kf_twin.f64_ratio};
  snprintf(out->name, sizeof out->name, "plain twin %u", number);
  snprintf(out->driver, sizeof out->driver, "none");
  return KF_DEV_OK;
}

static kf_device_api table;

/* Writes only changes, since other threads may be reading. */
static void set_table(void) {
  if (table.tile_rows == kf_twin.tile_rows && table.pad == kf_twin.pad &&
      table.most_best == kf_twin.most_best)
    return;
  table.tile_rows = (uint32_t)kf_twin.tile_rows;
  table.pad = (uint32_t)kf_twin.pad;
  table.most_best = (uint32_t)kf_twin.most_best;
}

static kf_dev_status open_device(uint32_t number, kf_dev **out, char *message, size_t size) {
  if (kf_twin.no_open) return say(message, size, KF_DEV_FAILED, "it does not open");
  kf_dev *dev = calloc(1, sizeof *dev);
  if (dev == NULL) return say(message, size, KF_DEV_FAILED, "no memory on the host");
  set_table();
  dev->number = number;
  *out = dev;
  return KF_DEV_OK;
}

static void close_device(kf_dev *dev) { free(dev); }
static const char *message_of(const kf_dev *dev) { return dev->message; }

kf_dev_status kf_twin_fail(kf_dev *dev, kf_dev_status status, const char *sentence) {
  snprintf(dev->message, sizeof dev->message, "%s", sentence);
  return status;
}

/* Several devices may work at the same time, each on a thread of its own. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void kf_twin_count(uint64_t *counter, uint64_t n) {
  pthread_mutex_lock(&lock);
  *counter += n;
  pthread_mutex_unlock(&lock);
}

bool kf_twin_alive(kf_dev *dev) {
  pthread_mutex_lock(&lock);
  kf_twin.calls++;
  if (kf_twin.lose_call > 0 && --kf_twin.lose_call == 0) dev->lost = true;
  bool alive = !dev->lost;
  pthread_mutex_unlock(&lock);
  return alive;
}

kf_dev_status kf_twin_enter(kf_dev *dev) {
  return kf_twin_alive(dev) ? KF_DEV_OK : kf_twin_fail(dev, KF_DEV_LOST, "the device was lost");
}

/* --- memory, shared by all devices ------------------------------------------------------------ */

bool kf_twin_take(kf_dev *dev, uint64_t bytes) {
  pthread_mutex_lock(&lock);
  bool fails = kf_twin.fail_allocation > 0 && --kf_twin.fail_allocation == 0;
  kf_twin.allocations++;
  if (fails && kf_twin.fail_after) kf_twin.fail_allocation = 1;
  fails = fails || kf_twin.used > kf_twin.memory || bytes > kf_twin.memory - kf_twin.used;
  if (!fails) kf_twin.used += bytes;
  pthread_mutex_unlock(&lock);
  if (fails) kf_twin_fail(dev, KF_DEV_MEMORY, "the device has no such memory left");
  return !fails;
}

void kf_twin_give(kf_dev *dev, uint64_t bytes) {
  (void)dev;
  kf_twin_count(&kf_twin.used, 0 - bytes);
}

static kf_dev_status memory_left(kf_dev *dev, uint64_t *bytes) {
  pthread_mutex_lock(&lock);
  *bytes = kf_twin.used < kf_twin.memory ? kf_twin.memory - kf_twin.used : 0;
  pthread_mutex_unlock(&lock);
  return kf_twin_enter(dev);
}

static kf_dev_status wait_for(kf_dev *dev) { return kf_twin_enter(dev); }

static void *host_alloc(kf_dev *dev, size_t bytes) {
  (void)dev;
  return malloc(bytes);
}

static void host_free(kf_dev *dev, void *memory) {
  (void)dev;
  free(memory);
}

static int host_locked(kf_dev *dev, const void *memory) {
  (void)dev;
  (void)memory;
  return kf_twin.locked != 0;
}

/* --- the table -------------------------------------------------------------------------------- */

static kf_device_api table = {.version = KF_DEVICE_VERSION,
                              .size = sizeof table,
                              .name = "twin",
                              .build = "plain C",
                              .count = count,
                              .describe = describe,
                              .open = open_device,
                              .close = close_device,
                              .message = message_of,
                              .memory_left = memory_left,
                              .wait = wait_for,
                              .host_alloc = host_alloc,
                              .host_free = host_free,
                              .host_locked = host_locked,
                              .rows_bytes = kf_twin_rows_bytes,
                              .rows_new = kf_twin_rows_new,
                              .rows_free = kf_twin_rows_free,
                              .rows_put_tiles = kf_twin_rows_put_tiles,
                              .rows_put_values = kf_twin_rows_put_values,
                              .queries_bytes = kf_twin_queries_bytes,
                              .queries_new = kf_twin_queries_new,
                              .queries_free = kf_twin_queries_free,
                              .queries_put = kf_twin_queries_put,
                              .guess = kf_twin_guess,
                              .scan = kf_twin_scan,
                              .score = kf_twin_score,
                              .survivors = kf_twin_survivors,
                              .settle = kf_twin_settle,
                              .choose = kf_twin_choose,
                              .chosen = kf_twin_chosen,
                              .answers = kf_twin_answers,
                              .moments_new = kf_twin_moments_new,
                              .moments_free = kf_twin_moments_free,
                              .moments_put = kf_twin_moments_put,
                              .moments_wait = kf_twin_moments_wait,
                              .moments_take = kf_twin_moments_take,
                              .map_new = kf_twin_map_new,
                              .map_free = kf_twin_map_free,
                              .map_put = kf_twin_map_put,
                              .map_wait = kf_twin_map_wait,
                              .odds_new = kf_twin_odds_new,
                              .odds_free = kf_twin_odds_free,
                              .odds_put = kf_twin_odds_put,
                              .odds_wait = kf_twin_odds_wait};

/* "devices=2 memory=1000000" */
static void read_environment(void) {
  const struct {
    const char *name;
    uint64_t *value;
  } names[] = {{"devices", &kf_twin.devices},
               {"tile_rows", &kf_twin.tile_rows},
               {"memory", &kf_twin.memory},
               {"most_best", &kf_twin.most_best},
               {"hits", &kf_twin.hits},
               {"guess", &kf_twin.guess},
               {"no_driver", &kf_twin.no_driver},
               {"no_open", &kf_twin.no_open},
               {"lose_call", &kf_twin.lose_call},
               {"fail_after", &kf_twin.fail_after},
               {"fail_allocation", &kf_twin.fail_allocation}};
  const char *at = getenv("KOOFU_TWIN");
  while (at != NULL && *at != '\0') {
    const char *equals = strchr(at, '=');
    if (equals == NULL) break;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
      if (strlen(names[i].name) == (size_t)(equals - at) &&
          strncmp(names[i].name, at, (size_t)(equals - at)) == 0)
        *names[i].value = strtoull(equals + 1, NULL, 10);
    at = strchr(equals, ' ');
    if (at != NULL) at++;
  }
}

VISIBLE const kf_device_api *kf_device_plugin(uint32_t version);
const kf_device_api *kf_device_plugin(uint32_t version) {
  if (version != KF_DEVICE_VERSION) return NULL;
  read_environment();
  set_table();
  return &table;
}
