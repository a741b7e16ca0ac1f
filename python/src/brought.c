/* brought.c - data sets whose rows a Python function brings when they are needed. */
#include "koofu_py.h"

/* What such a data set needs as long as it lives. */
typedef struct brought {
  PyObject *bring;
  Py_buffer labels;
  bool has_labels;
  uint32_t dim;
} brought;

static void brought_free(brought *b) {
  if (b == NULL) return;
  if (b->has_labels) PyBuffer_Release(&b->labels);
  Py_XDECREF(b->bring);
  PyMem_Free(b);
}

static void brought_destroy(PyObject *capsule) {
  kf_data_free(PyCapsule_GetPointer(capsule, CAPSULE_DATA));
  brought_free(PyCapsule_GetContext(capsule));
}

/* Ends a view, also after an exception, whose traceback may keep it for as long as it likes. */
static bool release_view(PyObject *view) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyObject *released = PyObject_CallMethod(view, "release", NULL);
  bool fine = released != NULL;
  Py_XDECREF(released);
  if (!fine && type != NULL) PyErr_WriteUnraisable(view); /* both are told */
  if (type != NULL) PyErr_Restore(type, value, trace);
  return fine;
}

/* Calls bring(first, n, view), with the rows to fill in as a view that ends with the call. */
static bool call_bring(const brought *b, uint64_t first, uint64_t n, float *out) {
  Py_ssize_t size = (Py_ssize_t)(n * b->dim * sizeof *out);
  PyObject *view = PyMemoryView_FromMemory((char *)out, size, PyBUF_WRITE);
  if (view == NULL) return false;
  PyObject *answer = PyObject_CallFunction(b->bring, "KKO", (unsigned long long)first,
                                           (unsigned long long)n, view);
  bool fine = release_view(view) && answer != NULL && PyObject_IsTrue(answer) == 1;
  Py_XDECREF(answer);
  Py_DECREF(view);
  return fine;
}

/* On any thread of the library, none of which holds the interpreter. */
static int bring_rows(void *user, uint64_t first, uint64_t n, float *out) {
  const brought *b = user;
  PyGILState_STATE state = PyGILState_Ensure();
  bool fine = call_bring(b, first, n, out);
  if (PyErr_Occurred()) PyErr_WriteUnraisable(b->bring);
  PyGILState_Release(state);
  return fine ? 0 : 1;
}

static bool open_brought(brought *b, PyObject *module, PyObject *const *args, kf_data **out) {
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
    RUN(&c, kf_data_open_rows(c.ctx, total, b->dim, bring_rows, b, &o, out));
    fine = call_end(&c);
  }
  PyMem_Free(names);
  return fine;
}

/* data_brought(bring, rows, dim, labels, names | None, n_classes, skip); bring(first, n, view) fills in
 * n * dim floats and answers True; labels: a buffer of int32. */
static PyObject *py_data_brought(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  kf_data *data = NULL;
  if (!check_count("data_brought", n, 7)) return NULL;
  brought *b = PyMem_Calloc(1, sizeof *b);
  if (b == NULL) return PyErr_NoMemory();
  b->bring = Py_NewRef(args[0]);
  if (!open_brought(b, module, args, &data)) {
    kf_data_free(data);
    brought_free(b);
    return NULL;
  }
  PyObject *capsule = PyCapsule_New(data, CAPSULE_DATA, brought_destroy);
  if (capsule == NULL) {
    kf_data_free(data);
    brought_free(b);
  } else {
    PyCapsule_SetContext(capsule, b); /* fails for invalid capsules alone */
  }
  return capsule;
}

PyMethodDef brought_methods[] = {METHOD(data_brought), {0}};
