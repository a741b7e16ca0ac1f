/* between.h - a plug-in between the library and another one, KOOFU_BETWEEN, for what a single
 * healthy GPU cannot show: it offers each GPU several times, and makes one really fail or run out
 * of memory. libkoofu-between.so exports its settings as `kf_between`. */
#ifndef KF_BETWEEN_H
#define KF_BETWEEN_H

#include "device/device_api.h"

#include <stdbool.h>

typedef struct kf_between_state {
  uint64_t devices;   /* to offer: device i is device i modulo the real number; 0: the real ones */
  uint64_t lose_call; /* the device fails before the n-th of some calls from now on; 0: never */
  uint64_t leave;     /* bytes of memory to be left on the device; 0: all */
  uint64_t calls;     /* so far */
  bool real;          /* faults come from the device itself, by way of spoil.cu (KOOFU_SPOILER) */
} kf_between_state;
#define KF_BETWEEN_SYMBOL "kf_between"

#endif
