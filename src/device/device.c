/* device.c - finds the plug-in, opens devices, and shares them within the process.
 *
 * The plug-in is a file of its own, so that the library does not depend on a device vendor. It is
 * looked for at the given path or else next to the library (or the program that contains it), in
 * ../lib from there, and where the system's loader looks. */
#include "device/device.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLUGIN_FILE "libkoofu-cuda.so"

/* --- plug-ins --------------------------------------------------------------------------------- */

typedef struct plugin {
  struct plugin *next;
  const kf_device_api *api;
  char path[]; /* as it was opened */
} plugin;

/* Everything below is under this lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static plugin *plugins;    /* never unloaded, since a driver may have threads in it */
static kf_device *devices; /* open, of this process and, after a fork, of its parent */

/* The table of an open library, or NULL with a reason in `why`. */
static const kf_device_api *table_of(void *library, const char *path, char *why, size_t size) {
  kf_device_plugin_fn entry;
  void *symbol = dlsym(library, KF_DEVICE_SYMBOL);
  if (symbol == NULL) {
    snprintf(why, size, "%s is not a koofu plug-in: it has no " KF_DEVICE_SYMBOL, path);
    return NULL;
  }
  memcpy(&entry, &symbol, sizeof entry); /* ISO C has no such cast */
  const kf_device_api *api = entry(KF_DEVICE_VERSION);
  if (api != NULL && api->version == KF_DEVICE_VERSION && api->size == sizeof *api) return api;
  snprintf(why, size, "%s is a plug-in for another version of koofu than %s", path, KF_VERSION);
  return NULL;
}

static plugin *open_plugin(const char *path, char *why, size_t size) {
  for (plugin *p = plugins; p != NULL; p = p->next)
    if (strcmp(p->path, path) == 0) return p;
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    const char *message = dlerror();
    snprintf(why, size, "%s", message != NULL ? message : path);
    return NULL;
  }
  const kf_device_api *api = table_of(library, path, why, size);
  size_t length = strlen(path) + 1;
  plugin *p = api != NULL ? kf_alloc_tail(sizeof *p, length, 1) : NULL;
  if (p == NULL) {
    if (api != NULL) snprintf(why, size, "out of memory");
    dlclose(library);
    return NULL;
  }
  memcpy(p->path, path, length);
  p->api = api;
  p->next = plugins;
  plugins = p;
  return p;
}

/* "FOLDER/below/libkoofu-cuda.so" for this library's folder; false if it does not exist. A library
 * linked into a program asks the system for the program's file, since argv[0] may be anything. */
static bool path_beside(const char *below, char *path, size_t size) {
  Dl_info info;
  struct link_map *map;
  char own[4096];
  if (dladdr1((void *)&plugins, &info, (void **)&map, RTLD_DL_LINKMAP) == 0) return false;
  bool in_program = *map->l_name == '\0';
  ssize_t length = in_program ? readlink("/proc/self/exe", own, sizeof own - 1)
                              : snprintf(own, sizeof own, "%s", map->l_name);
  if (length <= 0 || (size_t)length >= sizeof own) return false;
  own[length] = '\0';
  char *slash = strrchr(own, '/');
  if (slash == NULL) return false;
  *slash = '\0';
  int written = snprintf(path, size, "%s/%s" PLUGIN_FILE, own, below);
  return written > 0 && (size_t)written < size && access(path, F_OK) == 0;
}

static plugin *find_plugin(const char *given, char *why, size_t size) {
  char path[4096];
  if (given != NULL) return open_plugin(given, why, size);
  if (path_beside("", path, sizeof path) || path_beside("../lib/", path, sizeof path))
    return open_plugin(path, why, size);
  plugin *p = open_plugin(PLUGIN_FILE, why, size);
  if (p == NULL)
    snprintf(why, size, "there is no plug-in, " PLUGIN_FILE ", which 'make cuda' builds");
  return p;
}

/* --- open devices ----------------------------------------------------------------------------- */

/* Opens a device, or takes a reference if it is open. */
static kf_device *open_device(const plugin *p, uint32_t number, char *why, size_t size) {
  int64_t process = getpid();
  for (kf_device *d = devices; d != NULL; d = d->next)
    if (d->api == p->api && d->number == number && d->process == process) {
      d->held++;
      return d;
    }
  kf_device *d = kf_alloc_zero(1, sizeof *d);
  if (d == NULL) {
    snprintf(why, size, "out of memory");
    return NULL;
  }
  d->api = p->api;
  d->number = number;
  d->process = process;
  d->held = 1;
  snprintf(d->name, sizeof d->name, "cuda:%u", number);
  if (p->api->describe(number, &d->info, why, size) != KF_DEV_OK ||
      p->api->open(number, &d->dev, why, size) != KF_DEV_OK) {
    kf_free(d);
    return NULL;
  }
  pthread_mutex_init(&d->lock, NULL);
  d->next = devices;
  devices = d;
  return d;
}

kf_device *kf_device_hold(kf_device *device) {
  pthread_mutex_lock(&lock);
  device->held++;
  pthread_mutex_unlock(&lock);
  return device;
}

bool kf_device_here(const kf_device *device) { return device->process == getpid(); }

void kf_device_release(kf_device *device) {
  if (device == NULL) return;
  pthread_mutex_lock(&lock);
  bool last = --device->held == 0;
  for (kf_device **at = &devices; last && *at != NULL; at = &(*at)->next)
    if (*at == device) {
      *at = device->next;
      break;
    }
  pthread_mutex_unlock(&lock);
  if (!last) return;
  /* A parent's device is left alone: its driver does not know this process. */
  if (kf_device_here(device)) device->api->close(device->dev);
  pthread_mutex_destroy(&device->lock);
  kf_free(device);
}

/* --- which devices ---------------------------------------------------------------------------- */

/* The devices that the user asks for. */
typedef struct request {
  bool cpu, asked;
  bool any; /* no number given: ranks take one device each, in turn */
  uint32_t n, number[KF_MOST_DEVICES];
} request;

static kf_status fail_name(const char *text, kf_err *err) {
  return kf_fail(err, KF_ERR_ARG,
                 "invalid device '%s': it must be auto, cpu, cuda, or a list such as cuda:0,cuda:1",
                 text);
}

/* Parses one element of a list and sets *end to the comma or the end after it; false: invalid. */
static bool parse_one(const char *text, request *w, const char **end) {
  unsigned long number = 0;
  if (strncmp(text, "cuda", 4) != 0 || w->n == KF_MOST_DEVICES) return false;
  text += 4;
  if (*text == ':') {
    char *after;
    if (text[1] < '0' || text[1] > '9') return false;
    number = strtoul(text + 1, &after, 10);
    text = after;
  }
  if ((*text != '\0' && *text != ',') || number > 1000) return false;
  for (uint32_t i = 0; i < w->n; i++)
    if (w->number[i] == number) return false;
  w->number[w->n++] = (uint32_t)number;
  *end = text;
  return true;
}

static bool is_auto(const char *text) { return text == NULL || strcmp(text, "auto") == 0; }

static kf_status parse(const char *text, request *w, kf_err *err) {
  *w = (request){0};
  if (is_auto(text)) {
    w->n = 1;
    w->any = true;
    return KF_OK;
  }
  w->asked = true;
  w->any = strcmp(text, "cuda") == 0;
  w->cpu = strcmp(text, "cpu") == 0;
  if (w->cpu) return KF_OK;
  const char *at = text;
  for (;;) {
    if (!parse_one(at, w, &at)) return fail_name(text, err);
    if (*at == '\0') return KF_OK;
    at++;
  }
}

/* --- of a context ----------------------------------------------------------------------------- */

static void drop_devices(kf_devices *d) {
  while (d->n > 0) kf_device_release(d->device[--d->n]);
}

static void free_devices(struct kf_devices *d) {
  drop_devices(d);
  kf_free(d);
}

static void describe(kf_devices *d, uint32_t i) {
  const kf_device *from = d->device[i];
  kf_device_info *to = &d->info[i];
  to->name = from->info.name;
  to->driver = from->info.driver;
  to->number = from->number;
  to->memory = from->info.memory;
  to->processors = from->info.processors;
  to->major = from->info.major;
  to->minor = from->info.minor;
}

/* Opens the devices asked for; false: `missing` says why not. *found: a device exists but
 * failed. */
static bool open_all(kf_devices *d, request *w, const kf_ranks *ranks, const char *path,
                     bool *found) {
  uint32_t there = 0;
  char why[768] = "";
  const plugin *p = find_plugin(path, d->missing, sizeof d->missing);
  if (p == NULL) return false;
  snprintf(d->path, sizeof d->path, "%s", p->path);
  snprintf(d->build, sizeof d->build, "%s", p->api->build);
  d->list.plugin = d->path;
  d->list.build = d->build;
  if (p->api->count(&there, why, sizeof why) != KF_DEV_OK || there == 0) {
    snprintf(d->missing, sizeof d->missing, "%s", why[0] != '\0' ? why : "there is no device");
    return false;
  }
  if (w->any && kf_is_shared(ranks)) w->number[0] = ranks->rank % there;
  for (uint32_t i = 0; i < w->n; i++) {
    if (w->number[i] >= there) {
      snprintf(d->missing, sizeof d->missing,
               "there is no device cuda:%u: there %s %u, from cuda:0 on", w->number[i],
               there == 1 ? "is" : "are", there);
      return false;
    }
    d->device[i] = open_device(p, w->number[i], why, sizeof why);
    if (d->device[i] == NULL) {
      snprintf(d->missing, sizeof d->missing, "cuda:%u cannot be used: %s", w->number[i], why);
      *found = true;
      return false;
    }
    d->n = i + 1;
    describe(d, i);
  }
  return true;
}

static kf_status find(kf_ctx *ctx, kf_devices *d) {
  request w;
  KF_TRY(parse(ctx->options.device, &w, &ctx->err));
  d->asked = w.asked;
  d->list.devices = d->info;
  if (w.cpu) {
    snprintf(d->missing, sizeof d->missing, "the CPU was requested");
    d->list.missing = d->missing;
    return KF_OK;
  }
  bool found = false;
  pthread_mutex_lock(&lock);
  bool opened = open_all(d, &w, &ctx->ranks, ctx->options.device_plugin, &found);
  pthread_mutex_unlock(&lock);
  d->list.n = d->n;
  if (opened) return KF_OK;
  drop_devices(d);
  d->list.n = 0;
  d->list.missing = d->missing;
  if (d->asked) return kf_fail(&ctx->err, KF_ERR_IO, "no device: %s", d->missing);
  if (found) kf_log(ctx, "the CPU does all the work: %s", d->missing);
  return KF_OK;
}

bool kf_devices_known(const kf_ctx *ctx) { return ctx->devices != NULL; }
bool kf_devices_asked(const kf_ctx *ctx) { return !is_auto(ctx->options.device); }

kf_status kf_devices_for(kf_ctx *ctx, kf_devices **out) {
  if (ctx->devices == NULL) {
    kf_devices *d = kf_alloc_zero(1, sizeof *d);
    if (d == NULL) return kf_fail_memory(&ctx->err);
    kf_status status = find(ctx, d);
    if (status != KF_OK) {
      free_devices(d);
      return status;
    }
    ctx->devices = d;
    ctx->free_devices = free_devices;
  }
  *out = ctx->devices;
  return KF_OK;
}

kf_status kf_devices_find(kf_ctx *ctx, const kf_device_list **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, out != NULL);
  kf_devices *d = NULL;
  KF_TRY(kf_devices_for(ctx, &d));
  *out = &d->list;
  return KF_OK;
}

/* --- what goes wrong -------------------------------------------------------------------------- */

kf_status kf_device_fail(const kf_device *device, kf_dev_status status, const char *what,
                         kf_err *err) {
  kf_status result = status == KF_DEV_MEMORY ? KF_ERR_MEM : KF_ERR_IO;
  const char *message = device->api->message(device->dev);
  if (message[0] == '\0' && status == KF_DEV_MEMORY) message = "it has too little memory left";
  return kf_fail(err, result, "%s (%s), %s: %s", device->name, device->info.name, what, message);
}

kf_status kf_devices_failed(kf_ctx *ctx, const kf_err *failure) {
  kf_devices *d = ctx->devices;
  if (d->asked) {
    ctx->err = *failure;
    return failure->status;
  }
  if (d->n == 0) return KF_OK; /* another part of the same pass has logged it */
  kf_log(ctx, "the CPU takes over: %s", failure->message);
  if (failure->status == KF_ERR_MEM) return KF_OK; /* the device may still suit other work */
  drop_devices(d);
  d->list.n = 0;
  snprintf(d->missing, sizeof d->missing, "%.*s", (int)sizeof d->missing - 1, failure->message);
  d->list.missing = d->missing;
  return KF_OK;
}
