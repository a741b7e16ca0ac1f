/* device.h - the devices of a context: finding the plug-in, opening and sharing devices. Sees base.
 *
 * A plug-in (device_api.h) is loaded once and stays for the life of the process. An open device is
 * reference-counted: contexts share it, and so do indexes that keep a copy of their rows on it,
 * which may outlive the context that opened it. The last release closes it. */
#ifndef KF_DEVICE_H
#define KF_DEVICE_H

#include "base/base.h"
#include "device/device_api.h"

#define KF_MOST_DEVICES 16u

/* An open device. Hold the lock while using `dev`. */
typedef struct kf_device {
  const kf_device_api *api;
  kf_dev *dev;
  char name[32]; /* "cuda:0", for messages */
  kf_dev_info info;
  pthread_mutex_t lock;
  /* the rest belongs to device.c */
  struct kf_device *next;
  uint32_t number;
  unsigned held;
  int64_t process;
} kf_device;

typedef struct kf_devices {
  bool asked; /* asked for by name: failures are errors; otherwise the CPU takes over */
  uint32_t n; /* 0: use the CPU */
  kf_device *device[KF_MOST_DEVICES];
  kf_device_list list; /* for kf_devices_find */
  kf_device_info info[KF_MOST_DEVICES];
  char path[4096], build[256], missing[1024];
} kf_devices;

/* Returns the devices of a context; the first call finds and opens them. Without any (*out)->n is
 * 0, which is an error, in ctx->err, only if they were asked for by name. */
kf_status kf_devices_for(kf_ctx *ctx, kf_devices **out);
/* Whether the user named devices or the CPU, so that it does not matter whether using them pays. */
bool kf_devices_asked(const kf_ctx *ctx);
/* Whether kf_devices_for has been called; its first call may take a third of a second. */
bool kf_devices_known(const kf_ctx *ctx);
/* Take or drop a reference. */
kf_device *kf_device_hold(kf_device *device);
void kf_device_release(kf_device *device); /* NULL: no-op */
/* Whether this process opened it. After a fork the child must not touch it or anything on it. */
bool kf_device_here(const kf_device *device);

/* Describes a call that did not return KF_DEV_OK; `what` names the work: "search". */
kf_status kf_device_fail(const kf_device *device, kf_dev_status status, const char *what,
                         kf_err *err);
/* Handles such an error, on the context's thread. If devices were asked for by name, stores the
 * error in the context and returns its status. Otherwise logs that the CPU takes over, for good if
 * the device failed, and returns KF_OK; the caller then uses the CPU. */
kf_status kf_devices_failed(kf_ctx *ctx, const kf_err *failure);

/* --- slots (slots.c): work that the threads of a pass give to devices ------------------------ */

/* A slot holds one batch that is put on a device and waited for. */
typedef struct kf_slot {
  kf_device *device;
  void *object;    /* resident on the device: a kf_dev_map or kf_dev_odds */
  uint32_t number; /* the slot's number on the device */
  void *in, *out;  /* host memory for one batch, page-locked if possible */
  bool locked[2], taken;
} kf_slot;

/* A kind of work. `make` and `put` are called with the device's lock held, `wait` without. */
typedef struct kf_slots_kind {
  const char *what; /* for messages: "map" */
  /* Whether a device can do it and, unless asked for by name, does it well. */
  bool (*offered)(const kf_device *device, bool asked);
  kf_dev_status (*make)(const kf_device *device, const void *argument, uint32_t batch,
                        uint32_t slots, void **object);
  void (*drop)(const kf_device *device, void *object);
  kf_dev_status (*put)(const kf_slot *slot, uint32_t n);
  /* *odd: the CPU must do this batch. */
  kf_dev_status (*wait)(const kf_slot *slot, bool *odd, char *message, size_t size);
} kf_slots_kind;

typedef struct kf_slots_plan {
  const kf_slots_kind *kind;
  const void *argument; /* for `make` */
  uint64_t rows;        /* in this call */
  size_t in, out;       /* bytes of a slot's memory per row */
  /* Decides whether a device pays, unless it was asked for by name; `work` is the work of this
   * call. A device takes the call if each thread would have worth_a_put to do, gets a resident
   * object once each thread's work in all calls so far reaches worth_a_copy, and is opened for it
   * at worth_a_start. */
  double work, worth_a_put, worth_a_copy, worth_a_start;
} kf_slots_plan;

typedef struct kf_slots kf_slots;

/* The device state of an object such as a map; it changes while the object is used. */
typedef struct kf_slots_owner {
  pthread_mutex_t lock;
  kf_slots *slots; /* NULL: nothing is resident */
  double work;     /* in all calls so far */
  bool refused;    /* it does not fit on a device: do not retry unless asked for by name */
} kf_slots_owner;
void kf_slots_owner_make(kf_slots_owner *owner);
void kf_slots_owner_clear(kf_slots_owner *owner);
void kf_slots_forget(kf_slots_owner *owner); /* drops what is resident, after its last use */

/* The slots that one pass uses. */
typedef struct kf_slots_use {
  kf_slots *slots; /* NULL: the CPU does the work */
  kf_slots_owner *owner;
  bool asked;
} kf_slots_use;

/* Called on the context's thread before and after a pass. `end` returns the status of the pass, or
 * a device's failure. */
kf_status kf_slots_begin(kf_ctx *ctx, kf_slots_owner *owner, const kf_slots_plan *plan,
                         kf_slots_use *use);
kf_status kf_slots_end(kf_ctx *ctx, kf_slots_use *use, kf_status status);
uint32_t kf_slots_batch(const kf_slots_use *use); /* the most rows of a put; 0: use the CPU */

/* Has a device compute n <= batch rows, from any thread: `fill` writes them to the slot, `take_out`
 * reads the result. If *done is false, the CPU must do it. */
typedef void (*kf_slot_fn)(void *argument, const kf_slot *slot, uint32_t n);
kf_status kf_slots_run(const kf_slots_use *use, uint32_t n, kf_slot_fn fill, kf_slot_fn take_out,
                       void *argument, bool *done, kf_err *err);

#endif
