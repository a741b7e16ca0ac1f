/* call.c - calls of the library: contexts, the interpreter's lock, interrupts, errors and notes.
 *
 * A context serves one thread at a time. Each call takes one from a list and returns it, so any
 * number of Python threads can use one model. After fork() the list is empty, since the threads of
 * a context do not exist in the child.
 *
 * The library reports progress on the calling thread, which then takes the interpreter for a
 * moment, every 50 ms, to check for signals and to pass the report on. */
#include "koofu_py.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_NOTES = 100, LOOK_EVERY_MS = 50 };

typedef struct slot {
  struct slot *next;
  kf_ctx *ctx;
  unsigned settings; /* number of the settings it was made with */
  PyThreadState *thread;
  int64_t looked;   /* time of the last look, in milliseconds */
  PyObject *report; /* the hook for progress, during a call; NULL: none */
  bool reported;    /* in this call */
  char *notes[MAX_NOTES];
  size_t n_notes;
} slot;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static slot *idle;
static kf_ctx_options settings; /* except its strings: */
static char device[256], plugin[4096];
static unsigned n_settings;

/* --- fork ------------------------------------------------------------------------------------- */

static void before_fork(void) { pthread_mutex_lock(&lock); }
static void after_fork(void) { pthread_mutex_unlock(&lock); }

static void in_child(void) {
  pthread_mutex_init(&lock, NULL);
  idle = NULL; /* cannot be freed, since their threads do not exist here */
}

static void watch_forks(void) { pthread_atfork(before_fork, after_fork, in_child); }

/* --- callbacks -------------------------------------------------------------------------------- */

static int64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* report(stage or None, done, total); None: the call has ended. Non-zero: an exception is set. */
static int report(slot *s, const char *stage, uint64_t done, uint64_t total) {
  if (s->report == NULL) return 0;
  s->reported = true;
  PyObject *answer = PyObject_CallFunction(s->report, "zKK", stage, (unsigned long long)done,
                                           (unsigned long long)total);
  Py_XDECREF(answer);
  return answer == NULL ? -1 : 0;
}

/* Called without the interpreter. Non-zero: an exception is set, and the work must stop. */
static int look(slot *s, const char *stage, uint64_t done, uint64_t total) {
  int64_t now = now_ms();
  if (now - s->looked < LOOK_EVERY_MS) return 0;
  s->looked = now;
  PyEval_RestoreThread(s->thread);
  int stop = PyErr_Occurred() != NULL || PyErr_CheckSignals() != 0;
  if (stop == 0) stop = report(s, stage, done, total);
  s->thread = PyEval_SaveThread();
  return stop;
}

static int progress(void *user, const char *what, uint64_t done, uint64_t total) {
  return look(user, what, done, total);
}

kf_status call_look(call *c, uint64_t done, uint64_t total) {
  return look(c->slot, "rows", done, total) != 0 ? KF_ERR_CANCELLED : KF_OK;
}

static void note(void *user, const char *message) {
  slot *s = user;
  char *copy = s->n_notes < MAX_NOTES ? strdup(message) : NULL;
  if (copy != NULL) s->notes[s->n_notes++] = copy;
}

/* --- contexts --------------------------------------------------------------------------------- */

static void slot_free(slot *s) {
  if (s == NULL) return;
  kf_ctx_free(s->ctx);
  for (size_t i = 0; i < s->n_notes; i++) free(s->notes[i]);
  free(s);
}

static slot *slot_new(const kf_ctx_options *chosen, unsigned number) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, watch_forks);
  slot *s = calloc(1, sizeof *s);
  if (s == NULL) return NULL;
  kf_ctx_options o = *chosen;
  o.progress = progress;
  o.log = note;
  o.user = s;
  s->settings = number;
  if (kf_ctx_new(&o, &s->ctx) == KF_OK) return s;
  free(s);
  return NULL;
}

static slot *slot_take(void) {
  pthread_mutex_lock(&lock);
  slot *s = idle;
  if (s != NULL) idle = s->next;
  kf_ctx_options chosen = settings;
  char chosen_device[sizeof device], chosen_plugin[sizeof plugin];
  strcpy(chosen_device, device);
  strcpy(chosen_plugin, plugin);
  unsigned number = n_settings;
  pthread_mutex_unlock(&lock);
  if (chosen_device[0] != '\0') chosen.device = chosen_device;
  if (chosen_plugin[0] != '\0') chosen.device_plugin = chosen_plugin;
  if (s != NULL && s->settings == number) return s;
  slot_free(s);
  return slot_new(&chosen, number);
}

static void slot_give_back(slot *s) {
  pthread_mutex_lock(&lock);
  s->next = idle;
  idle = s;
  pthread_mutex_unlock(&lock);
}

/* --- one call --------------------------------------------------------------------------------- */

bool call_begin(call *c, PyObject *module) {
  *c = (call){.slot = slot_take(), .module = module};
  if (c->slot == NULL) {
    PyErr_NoMemory();
    return false;
  }
  c->ctx = c->slot->ctx;
  c->slot->looked = now_ms();
  const hooks *h = PyModule_GetState(module);
  c->slot->report = Py_XNewRef(h->report);
  c->slot->reported = false;
  return true;
}

bool call_leave(call *c) {
  c->away = c->status == KF_OK;
  if (c->away) c->slot->thread = PyEval_SaveThread();
  return c->away;
}

bool call_return(call *c, kf_status status) {
  if (c->away) PyEval_RestoreThread(c->slot->thread);
  c->away = false;
  c->status = status;
  return status == KF_OK;
}

static bool pass_on_notes(call *c) {
  slot *s = c->slot;
  const hooks *h = PyModule_GetState(c->module);
  bool fine = true;
  for (size_t i = 0; i < s->n_notes; i++) {
    PyObject *answer =
        fine && h->note != NULL ? PyObject_CallFunction(h->note, "s", s->notes[i]) : NULL;
    if (fine && h->note != NULL && answer == NULL) fine = false;
    Py_XDECREF(answer);
    free(s->notes[i]);
  }
  s->n_notes = 0;
  return fine;
}

static void raise_error(call *c) {
  const hooks *h = PyModule_GetState(c->module);
  if (h->error == NULL) {
    PyErr_SetString(PyExc_RuntimeError, kf_errmsg(c->ctx));
    return;
  }
  PyObject *error = PyObject_CallFunction(h->error, "isi", (int)c->status, kf_errmsg(c->ctx),
                                          (int)kf_errhint(c->ctx));
  if (error == NULL) return;
  if (PyExceptionInstance_Check(error))
    PyErr_SetObject((PyObject *)Py_TYPE(error), error);
  else
    PyErr_SetString(PyExc_TypeError, "the error hook returned no exception");
  Py_DECREF(error);
}

/* Says that the call has ended, keeping a pending exception. */
static void end_report(slot *s) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  if (s->reported && report(s, NULL, 0, 0) != 0) PyErr_WriteUnraisable(s->report);
  Py_CLEAR(s->report);
  PyErr_Restore(type, value, trace);
}

bool call_end(call *c) {
  end_report(c->slot);
  bool fine = !PyErr_Occurred(); /* an interrupt, or a bad argument */
  if (fine && c->status != KF_OK) {
    raise_error(c);
    fine = false;
  }
  if (fine) {
    fine = pass_on_notes(c);
  } else { /* the error comes first */
    for (size_t i = 0; i < c->slot->n_notes; i++) free(c->slot->notes[i]);
    c->slot->n_notes = 0;
  }
  slot_give_back(c->slot);
  return fine;
}

/* --- settings --------------------------------------------------------------------------------- */

/* Checks settings with a context of their own, and opens the devices they name. */
static bool try_settings(const kf_ctx_options *o) {
  kf_ctx *ctx;
  const kf_device_list *found;
  if (kf_ctx_new(o, &ctx) != KF_OK) {
    PyErr_Format(PyExc_ValueError, "threads must be 0 to 1024, and the instruction set available");
    return false;
  }
  kf_status status = o->device != NULL ? kf_devices_find(ctx, &found) : KF_OK;
  if (status != KF_OK)
    PyErr_SetString(status == KF_ERR_ARG ? PyExc_ValueError : PyExc_OSError, kf_errmsg(ctx));
  kf_ctx_free(ctx);
  return status == KF_OK;
}

/* configure(threads, isa, any_encoder, device or None, plug-in or None) */
PyObject *py_configure(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  (void)module;
  uint32_t threads, isa, any;
  kf_ctx_options o = {0};
  if (!check_count("configure", n, 5) || !take_u32(args[0], &threads) || !take_u32(args[1], &isa) ||
      !take_u32(args[2], &any) || (args[3] != Py_None && !take_path(args[3], &o.device)) ||
      (args[4] != Py_None && !take_path(args[4], &o.device_plugin)))
    return NULL;
  o.threads = threads;
  o.isa = (kf_isa)isa;
  o.any_encoder = any != 0;
  if ((o.device != NULL && strlen(o.device) >= sizeof device) ||
      (o.device_plugin != NULL && strlen(o.device_plugin) >= sizeof plugin)) {
    PyErr_SetString(PyExc_ValueError,
                    "the name of the device or the path of the plug-in is too long");
    return NULL;
  }
  if (!try_settings(&o)) return NULL;
  pthread_mutex_lock(&lock);
  strcpy(device, o.device != NULL ? o.device : "");
  strcpy(plugin, o.device_plugin != NULL ? o.device_plugin : "");
  o.device = o.device_plugin = NULL;
  settings = o;
  n_settings++;
  pthread_mutex_unlock(&lock);
  Py_RETURN_NONE;
}

/* threads() -> (threads of a call, name of the instruction set) */
PyObject *py_threads(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  (void)args;
  call c;
  if (!check_count("threads", n, 0) || !call_begin(&c, module)) return NULL;
  unsigned threads = kf_ctx_threads(c.ctx);
  const char *isa = kf_isa_name(kf_ctx_isa(c.ctx));
  return call_end(&c) ? Py_BuildValue("(Is)", threads, isa) : NULL;
}

/* set_hooks(error, note, report): error(status, message, hint) makes an exception, note(message)
 * logs, report(stage or None, done, total) shows progress. */
PyObject *py_set_hooks(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  if (!check_count("set_hooks", n, 3)) return NULL;
  hooks *h = PyModule_GetState(module);
  PyObject *before[3] = {h->error, h->note, h->report};
  h->error = Py_NewRef(args[0]);
  h->note = Py_NewRef(args[1]);
  h->report = Py_NewRef(args[2]);
  for (size_t i = 0; i < COUNT_OF(before); i++) Py_XDECREF(before[i]);
  Py_RETURN_NONE;
}
