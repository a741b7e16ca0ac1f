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
static inline bool kf_devices_known(const kf_ctx *ctx) { return ctx->devices != NULL; }
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

#endif
