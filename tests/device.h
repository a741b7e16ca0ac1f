/* device.h - contexts on the devices of a plug-in, for tests: its plain twin, whose limits and
 * faults can be set, or the one in KOOFU_TEST_PLUGIN. */
#ifndef KF_TEST_DEVICE_H
#define KF_TEST_DEVICE_H

#include "test.h"

#include "between/between.h"
#include "twin/twin.h"

#include <dlfcn.h>

static inline const char *device_plugin(void) {
  const char *path = getenv("KOOFU_TEST_PLUGIN");
  return path != NULL && *path != '\0' ? path : KF_TWIN_PLUGIN;
}

static inline void *device_symbol(const char *name) {
  static void *library;
  if (library == NULL) library = dlopen(device_plugin(), RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) fail_msg("%s", dlerror());
  return dlsym(library, name);
}

/* Limits and faults of the twin; NULL: another plug-in is loaded. */
static inline kf_twin_state *device_twin(void) { return device_symbol(KF_TWIN_SYMBOL); }

/* The state of a plug-in in front of another one; NULL: there is none. */
static inline kf_between_state *device_between(void) { return device_symbol(KF_BETWEEN_SYMBOL); }

/* Makes the plug-in offer n devices; false if it cannot. */
static inline bool device_show(uint32_t n) {
  kf_twin_state *twin = device_twin();
  kf_between_state *between = device_between();
  if (twin != NULL) twin->devices = n;
  if (between != NULL) between->devices = n;
  return twin != NULL || between != NULL;
}

/* Skips the case without several devices. */
static inline void device_need(uint32_t n) {
  if (!device_show(n)) test_skip("second device");
}

/* Skips the case unless the plug-in is the twin. */
static inline kf_twin_state *device_need_twin(void) {
  kf_twin_state *twin = device_twin();
  if (twin == NULL) test_skip("twin");
  return twin;
}

/* Fixture around every case: restores the limits. */
static inline int device_reset(void **state) {
  (void)state;
  static kf_twin_state as_it_was;
  static bool known;
  kf_twin_state *twin = device_twin();
  if (device_between() != NULL) device_show(1);
  if (twin == NULL) return 0;
  uint64_t used = twin->used;
  if (!known) as_it_was = *twin;
  known = true;
  *twin = as_it_was;
  twin->used = used;
  return 0;
}

static char device_heard[8][1024];
static unsigned device_n_heard;
static inline void device_hear(void *user, const char *message) {
  (void)user;
  snprintf(device_heard[device_n_heard++ % 8], sizeof device_heard[0], "%s", message);
}
/* Whether the last log message holds the text. */
static inline bool device_said(const char *text) {
  return device_n_heard > 0 && strstr(device_heard[(device_n_heard - 1) % 8], text) != NULL;
}

static inline kf_ctx *device_ctx(unsigned threads, const char *device) {
  kf_ctx *ctx = NULL;
  kf_ctx_options options = {
      .threads = threads, .log = device_hear, .device = device, .device_plugin = device_plugin()};
  assert_int_equal(kf_ctx_new(&options, &ctx), KF_OK);
  return ctx;
}

/* Fixture around all cases: keeps a real device open, since opening one is slow. */
static kf_ctx *device_kept;
static inline int device_keep(void **state) {
  (void)state;
  const kf_device_list *found;
  if (device_twin() != NULL) return 0;
  device_kept = device_ctx(1, "cuda");
  if (kf_devices_find(device_kept, &found) == KF_OK) return 0;
  print_message("%s\n", kf_errmsg(device_kept));
  return -1;
}
static inline int device_let_go(void **state) {
  (void)state;
  kf_ctx_free(device_kept);
  return 0;
}

#endif
