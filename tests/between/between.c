/* between.c - passes everything on to another plug-in, except for the number of devices and for
 * faults. Without spoil.cu, as with the plain twin, faults are only simulated. */
#include "between/between.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VISIBLE __attribute__((visibility("default")))

VISIBLE kf_between_state kf_between;

static kf_device_api real, table;
static int (*spoil_trap)(void);
static int (*spoil_leave)(uint64_t bytes);
static uint64_t left; /* the `leave` that the device has now */
static bool lost;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* --- devices ---------------------------------------------------------------------------------- */

static uint32_t inner(uint32_t number) {
  uint32_t n = 0;
  char message[256];
  return real.count(&n, message, sizeof message) == KF_DEV_OK && n > 0 ? number % n : number;
}

static kf_dev_status count(uint32_t *n, char *message, size_t size) {
  kf_dev_status status = real.count(n, message, size);
  if (status == KF_DEV_OK && *n > 0 && kf_between.devices > 0) *n = (uint32_t)kf_between.devices;
  return status;
}

static kf_dev_status describe(uint32_t number, kf_dev_info *out, char *message, size_t size) {
  return real.describe(inner(number), out, message, size);
}

static kf_dev_status open_device(uint32_t number, kf_dev **out, char *message, size_t size) {
  return real.open(inner(number), out, message, size);
}

/* --- faults ----------------------------------------------------------------------------------- */

/* Before a call; false: the device is lost, which only this plug-in knows. */
static bool enter(void) {
  pthread_mutex_lock(&lock);
  kf_between.calls++;
  if (kf_between.lose_call > 0 && --kf_between.lose_call == 0) {
    if (spoil_trap != NULL)
      spoil_trap();
    else
      lost = true;
  }
  bool alive = !lost;
  pthread_mutex_unlock(&lock);
  return alive;
}

static kf_dev_status memory_left(kf_dev *dev, uint64_t *bytes) {
  if (spoil_leave != NULL && left != kf_between.leave && spoil_leave(kf_between.leave) == 0)
    left = kf_between.leave;
  kf_dev_status status = real.memory_left(dev, bytes);
  if (spoil_leave == NULL && kf_between.leave > 0 && *bytes > kf_between.leave)
    *bytes = kf_between.leave;
  return status;
}

#define PASS(name, parameters, arguments)                                                          \
  static kf_dev_status name parameters { return enter() ? real.name arguments : KF_DEV_LOST; }

PASS(rows_new, (kf_dev * dev, const kf_dev_piece *piece, kf_dev_rows **out), (dev, piece, out))
PASS(rows_put_tiles,
     (kf_dev_rows * rows, uint64_t first, uint64_t n, const int8_t *bytes, const uint32_t *numbers,
      const kf_dev_tile *tiles),
     (rows, first, n, bytes, numbers, tiles))
PASS(rows_put_values,
     (kf_dev_rows * rows, uint64_t first, uint64_t n, const void *values, const double *norm2),
     (rows, first, n, values, norm2))
PASS(queries_new,
     (kf_dev * dev, const kf_dev_space *space, uint32_t most, uint32_t best, uint64_t hits,
      kf_dev_queries **out),
     (dev, space, most, best, hits, out))
PASS(queries_put, (kf_dev_queries * queries, const float *x, uint32_t n, const int64_t *leave_out),
     (queries, x, n, leave_out))
PASS(guess, (kf_dev_queries * queries, const kf_dev_rows *rows, uint32_t rank, int proven),
     (queries, rows, rank, proven))
PASS(scan, (kf_dev_queries * queries, const kf_dev_rows *rows, uint64_t *hits),
     (queries, rows, hits))
PASS(score, (kf_dev_queries * queries, const kf_dev_rows *rows), (queries, rows))
PASS(settle, (kf_dev_queries * queries, uint32_t k, double slack, uint32_t *still),
     (queries, k, slack, still))
PASS(answers, (kf_dev_queries * queries, uint32_t first, uint32_t n, kf_dev_scored *best),
     (queries, first, n, best))
PASS(moments_new, (kf_dev * dev, const kf_dev_moments_plan *plan, kf_dev_moments **out),
     (dev, plan, out))
PASS(moments_put, (kf_dev_moments * moments, const void *rows, const int32_t *labels, uint32_t n),
     (moments, rows, labels, n))
PASS(moments_wait, (kf_dev_moments * moments, uint32_t *bad), (moments, bad))
PASS(moments_take, (kf_dev_moments * moments, uint64_t *totals, int64_t *sums, int64_t *counts),
     (moments, totals, sums, counts))
PASS(map_new, (kf_dev * dev, const kf_dev_map_plan *plan, kf_dev_map **out), (dev, plan, out))
PASS(map_put,
     (kf_dev_map * map, uint32_t slot, const float *rows, const double *norm2, uint32_t n,
      float *out),
     (map, slot, rows, norm2, n, out))
PASS(map_wait, (kf_dev_map * map, uint32_t slot, uint32_t *odd, char *message, size_t size),
     (map, slot, odd, message, size))
PASS(odds_new, (kf_dev * dev, const kf_dev_odds_plan *plan, kf_dev_odds **out), (dev, plan, out))
PASS(odds_put,
     (kf_dev_odds * odds, uint32_t slot, const float *queries, uint32_t n, kf_dev_sums *out),
     (odds, slot, queries, n, out))
PASS(odds_wait, (kf_dev_odds * odds, uint32_t slot, char *message, size_t size),
     (odds, slot, message, size))

/* --- the table -------------------------------------------------------------------------------- */

static void set_table(void) {
  table = real;
  table.count = count;
  table.describe = describe;
  table.open = open_device;
  table.memory_left = memory_left;
  table.rows_new = rows_new;
  table.rows_put_tiles = rows_put_tiles;
  table.rows_put_values = rows_put_values;
  table.queries_new = queries_new;
  table.queries_put = queries_put;
  table.guess = guess;
  table.scan = scan;
  table.score = score;
  table.settle = settle;
  table.answers = answers;
  table.moments_new = moments_new;
  table.moments_put = moments_put;
  table.moments_wait = moments_wait;
  table.moments_take = moments_take;
  table.map_new = map_new;
  table.map_put = map_put;
  table.map_wait = map_wait;
  table.odds_new = odds_new;
  table.odds_put = odds_put;
  table.odds_wait = odds_wait;
}

static void *symbol_of(const char *variable, const char *name) {
  const char *path = getenv(variable);
  void *library = path != NULL && *path != '\0' ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
  if (library == NULL && path != NULL) fprintf(stderr, "%s\n", dlerror());
  return library != NULL ? dlsym(library, name) : NULL;
}

VISIBLE const kf_device_api *kf_device_plugin(uint32_t version);
const kf_device_api *kf_device_plugin(uint32_t version) {
  kf_device_plugin_fn plugin;
  void *symbol = symbol_of("KOOFU_BETWEEN", KF_DEVICE_SYMBOL);
  if (symbol == NULL) return NULL;
  memcpy(&plugin, &symbol, sizeof plugin); /* ISO C has no such cast */
  const kf_device_api *api = plugin(version);
  if (api == NULL) return NULL;
  real = *api;
  set_table();
  symbol = symbol_of("KOOFU_SPOILER", "kf_spoil_trap");
  memcpy(&spoil_trap, &symbol, sizeof spoil_trap);
  symbol = symbol_of("KOOFU_SPOILER", "kf_spoil_leave");
  memcpy(&spoil_leave, &symbol, sizeof spoil_leave);
  kf_between.real = spoil_trap != NULL && spoil_leave != NULL;
  return &table;
}
