/* device.h - the devices of a context: finding the plug-in, opening devices, sharing them. Sees
 * base.
 *
 * A plug-in (device_api.h) is loaded once for the process and stays. An open device is shared by
 * everyone who asks for it: contexts, and indexes that keep a copy of their rows there, which may
 * outlive the context that made it. It is closed when nobody holds it any more. */
#ifndef KF_DEVICE_H
#define KF_DEVICE_H

#include "base/base.h"
#include "device/device_api.h"

#define KF_MOST_DEVICES 16u

/* An open device. Whoever uses `dev` holds the lock. */
typedef struct kf_device {
  const kf_device_api *api;
  kf_dev *dev;
  char name[32]; /* "cuda:0", for messages */
  kf_dev_info info;
  pthread_mutex_t lock;
  /* what follows belongs to device.c */
  struct kf_device *next;
  uint32_t number;
  unsigned held;
  int64_t process;
} kf_device;

typedef struct kf_devices {
  bool asked; /* by name: what goes wrong is an error. Otherwise the CPU takes over */
  uint32_t n; /* 0: the CPU alone */
  kf_device *device[KF_MOST_DEVICES];
  kf_device_list list; /* for the caller */
  kf_device_info info[KF_MOST_DEVICES];
  char path[4096], build[256], missing[1024];
} kf_devices;

/* The devices of a context, which are found and opened by the first call. Without any (*out)->n is
 * 0; that is an error only where they were asked for by name. The error is in ctx->err. */
kf_status kf_devices_for(kf_ctx *ctx, kf_devices **out);
/* Whether devices were asked for by name (or the CPU): whether it pays does not matter then. */
bool kf_devices_asked(const kf_ctx *ctx);
/* Whether kf_devices_for has been called. The first call may take a third of a second. */
bool kf_devices_known(const kf_ctx *ctx);
/* One device more to hold, and no longer. */
kf_device *kf_device_hold(kf_device *device);
void kf_device_release(kf_device *device); /* NULL: nothing */
/* Whether this process opened it. After a fork the child must leave it alone, and all that is on
 * it. */
bool kf_device_here(const kf_device *device);

/* The error of a call that did not return KF_DEV_OK: `what` says what was being done, "search". */
kf_status kf_device_fail(const kf_device *device, kf_dev_status status, const char *what,
                         kf_err *err);
/* What a caller does about such an error, on the thread of the context. If devices were asked for
 * by name, puts the error into the context and returns its status. Otherwise says in a note that
 * the CPU takes over, for good if the device failed, and returns KF_OK: the caller does so. */
kf_status kf_devices_failed(kf_ctx *ctx, const kf_err *failure);

/* --- slots (slots.c): what the threads of a pass have devices compute ------------------------- */

/* A place for one put. */
typedef struct kf_slot {
  kf_device *device;
  void *object;    /* what is resident on the device: a kf_dev_map, a kf_dev_odds */
  uint32_t number; /* of the slot, for the device */
  void *in, *out;  /* memory of the host for one batch, page-locked if there is such memory */
  bool locked[2], taken;
} kf_slot;

/* A kind of work. `make` and `put` are called with the lock of the device, `wait` without. */
typedef struct kf_slots_kind {
  const char *what; /* for messages: "map" */
  /* Whether a device can do it and, unless it was asked for by name, does it well. */
  bool (*offered)(const kf_device *device, bool asked);
  kf_dev_status (*make)(const kf_device *device, const void *argument, uint32_t batch,
                        uint32_t slots, void **object);
  void (*drop)(const kf_device *device, void *object);
  kf_dev_status (*put)(const kf_slot *slot, uint32_t n);
  /* *odd: the batch is one for the CPU. */
  kf_dev_status (*wait)(const kf_slot *slot, bool *odd, char *message, size_t size);
} kf_slots_kind;

typedef struct kf_slots_plan {
  const kf_slots_kind *kind;
  const void *argument; /* of `make` */
  uint64_t rows;        /* of this call */
  size_t in, out;       /* bytes of a slot's memory for each row */
  /* Whether it pays, where nobody has asked for devices by name. `work` is that of this call. It goes
   * to a device if each thread would have worth_a_put to do; something is made resident for it once
   * all calls so far come to worth_a_copy, and a device is opened for it at worth_a_start. */
  double work, worth_a_put, worth_a_copy, worth_a_start;
} kf_slots_plan;

typedef struct kf_slots kf_slots;

/* What an object knows of devices; it changes while the object is used. */
typedef struct kf_slots_owner {
  pthread_mutex_t lock;
  kf_slots *slots; /* NULL: nothing is resident */
  double work;     /* so far */
  bool refused;    /* it does not fit: not again, unless devices are asked for by name */
} kf_slots_owner;
void kf_slots_owner_make(kf_slots_owner *owner);
void kf_slots_owner_clear(kf_slots_owner *owner);
void kf_slots_forget(kf_slots_owner *owner); /* what is resident, once nobody uses it any more */

/* The devices of one pass. */
typedef struct kf_slots_use {
  kf_slots *slots; /* NULL: the CPU does it */
  kf_slots_owner *owner;
  bool asked;
} kf_slots_use;

/* On the thread of the context, before and after a pass. `end` passes on the status of the pass, or
 * says what went wrong with a device. */
kf_status kf_slots_begin(kf_ctx *ctx, kf_slots_owner *owner, const kf_slots_plan *plan,
                         kf_slots_use *use);
kf_status kf_slots_end(kf_ctx *ctx, kf_slots_use *use, kf_status status);
uint32_t kf_slots_batch(const kf_slots_use *use); /* rows of a put, at most; 0: the CPU does it */

/* Has a device compute n <= batch rows, on any thread: `fill` writes them to the slot, `take_out`
 * reads the result. *done: if not, the CPU has to do it. */
typedef void (*kf_slot_fn)(void *argument, const kf_slot *slot, uint32_t n);
kf_status kf_slots_run(const kf_slots_use *use, uint32_t n, kf_slot_fn fill, kf_slot_fn take_out,
                       void *argument, bool *done, kf_err *err);

#endif
