/* callback.c - data sets whose rows a Python function supplies on demand. */
#include "koofu_py.h"

/* What such a data set needs during its lifetime. */
typedef struct callback {
  PyObject *fetch;
  Py_buffer labels;
  bool has_labels;
  uint32_t dim;
} callback;

static void callback_free(callback *b) {
  if (b == NULL) return;
  if (b->has_labels) PyBuffer_Release(&b->labels);
  Py_XDECREF(b->fetch);
  PyMem_Free(b);
}

static void callback_destroy(PyObject *capsule) {
  kf_data_free(PyCapsule_GetPointer(capsule, CAPSULE_DATA));
  callback_free(PyCapsule_GetContext(capsule));
}

/* Ends a view, even after an exception, whose traceback may keep the view alive. */
static bool release_view(PyObject *view) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyObject *released = PyObject_CallMethod(view, "release", NULL);
  bool fine = released != NULL;
  Py_XDECREF(released);
  if (!fine && type != NULL) PyErr_WriteUnraisable(view); /* reports both exceptions */
  if (type != NULL) PyErr_Restore(type, value, trace);
  return fine;
}

/* Calls fetch(first, n, view); the view is valid during the call only. */
static bool call_fetch(const callback *b, uint64_t first, uint64_t n, float *out) {
  Py_ssize_t size = (Py_ssize_t)(n * b->dim * sizeof *out);
  PyObject *view = PyMemoryView_FromMemory((char *)out, size, PyBUF_WRITE);
  if (view == NULL) return false;
  PyObject *answer = PyObject_CallFunction(b->fetch, "KKO", (unsigned long long)first,
                                           (unsigned long long)n, view);
  bool fine = release_view(view) && answer != NULL && PyObject_IsTrue(answer) == 1;
  Py_XDECREF(answer);
  Py_DECREF(view);
  return fine;
}

/* Called on any thread of the library, without the interpreter. */
static int fetch_rows(void *user, uint64_t first, uint64_t n, float *out) {
  const callback *b = user;
  PyGILState_STATE state = PyGILState_Ensure();
  bool fine = call_fetch(b, first, n, out);
  if (PyErr_Occurred()) PyErr_WriteUnraisable(b->fetch);
  PyGILState_Release(state);
  return fine ? 0 : 1;
}

static bool open_callback(callback *b, PyObject *module, PyObject *const *args, kf_data **out) {
  const char **names = NULL;
  size_t n_names = 0;
  uint32_t n_classes, skip;
  uint64_t total;
  call c;
  if (!take_u64(args[1], &total) || !take_u32(args[2], &b->dim) || !take_u32(args[5], &n_classes) ||
      !take_u32(args[6], &skip) || !take_strings(args[4], &names, &n_names))
    return false;
  b->has_labels = take_buffer(args[3], &b->labels, false, sizeof(int32_t), total);
  bool fine = b->has_labels && call_begin(&c, module);
  if (fine) {
    kf_array_options o = {.labels = b->labels.buf,
                          .names = names,
                          .n_classes = names != NULL ? (uint32_t)n_names : n_classes,
                          .skip = (kf_skip)skip};
    RUN(&c, kf_data_open_rows(c.ctx, total, b->dim, fetch_rows, b, &o, out));
    fine = call_end(&c);
  }
  PyMem_Free(names);
  return fine;
}

/* data_callback(fetch, rows, dim, labels, names | None, n_classes, skip); fetch(first, n, view)
 * fills in n * dim floats and returns True; labels: a buffer of int32. */
static PyObject *py_data_callback(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  kf_data *data = NULL;
  if (!check_count("data_callback", n, 7)) return NULL;
  callback *b = PyMem_Calloc(1, sizeof *b);
  if (b == NULL) return PyErr_NoMemory();
  b->fetch = Py_NewRef(args[0]);
  if (!open_callback(b, module, args, &data)) {
    kf_data_free(data);
    callback_free(b);
    return NULL;
  }
  PyObject *capsule = PyCapsule_New(data, CAPSULE_DATA, callback_destroy);
  if (capsule == NULL) {
    kf_data_free(data);
    callback_free(b);
  } else {
    PyCapsule_SetContext(capsule, b); /* fails only for invalid capsules */
  }
  return capsule;
}

PyMethodDef callback_methods[] = {METHOD(data_callback), {0}};
