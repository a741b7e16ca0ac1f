/* convert.c - arguments from Python to C, and results back. */
#include "koofu_py.h"

#include <string.h>

bool check_count(const char *function, Py_ssize_t n, Py_ssize_t wanted) {
  if (n == wanted) return true;
  PyErr_Format(PyExc_TypeError, "%s takes %zd arguments, not %zd", function, wanted, n);
  return false;
}

/* --- numbers and strings ---------------------------------------------------------------------- */

bool take_u64(PyObject *number, uint64_t *out) {
  PyObject *whole = PyNumber_Index(number);
  if (whole == NULL) return false;
  *out = PyLong_AsUnsignedLongLong(whole);
  Py_DECREF(whole);
  if (!PyErr_Occurred()) return true;
  if (!PyErr_ExceptionMatches(PyExc_OverflowError)) return false;
  PyErr_Format(PyExc_ValueError, "%R is negative or too large", number);
  return false;
}

bool take_u32(PyObject *number, uint32_t *out) {
  uint64_t wide;
  if (!take_u64(number, &wide)) return false;
  if (wide > UINT32_MAX) {
    PyErr_Format(PyExc_ValueError, "%R is too large", number);
    return false;
  }
  *out = (uint32_t)wide;
  return true;
}

static bool take_i32(PyObject *number, int *out) {
  PyObject *whole = PyNumber_Index(number);
  if (whole == NULL) return false;
  long wide = PyLong_AsLong(whole);
  Py_DECREF(whole);
  if (wide == -1 && PyErr_Occurred()) return false;
  if (wide < INT32_MIN || wide > INT32_MAX) {
    PyErr_Format(PyExc_ValueError, "%R is too large", number);
    return false;
  }
  *out = (int)wide;
  return true;
}

bool take_double(PyObject *number, double *out) {
  *out = PyFloat_AsDouble(number);
  return *out != -1.0 || !PyErr_Occurred();
}

static bool take_string(PyObject *object, const char **out) {
  Py_ssize_t length;
  char *bytes;
  if (PyUnicode_Check(object)) {
    *out = PyUnicode_AsUTF8AndSize(object, &length);
    if (*out == NULL) return false;
  } else if (PyBytes_AsStringAndSize(object, &bytes, &length) == 0) {
    *out = bytes;
  } else {
    return false;
  }
  if (strlen(*out) == (size_t)length) return true;
  PyErr_Format(PyExc_ValueError, "%R contains a NUL", object);
  return false;
}

bool take_path(PyObject *bytes, const char **out) { return take_string(bytes, out); }

/* --- lists ------------------------------------------------------------------------------------ */

/* right: whether the object has the type named by `what`. */
static bool check_type(bool right, PyObject *object, const char *what) {
  if (right) return true;
  PyObject *name = PyType_GetName(Py_TYPE(object));
  if (name != NULL) PyErr_Format(PyExc_TypeError, "%s is needed, not a %U", what, name);
  Py_XDECREF(name);
  return false;
}

/* Not PySequence_Tuple: what a subclass iterates over may be freed before the list. */
PyObject *take_items(PyObject *list) {
  if (PyList_Check(list)) return PyList_AsTuple(list);
  return check_type(PyTuple_Check(list), list, "a list or tuple")
             ? PyTuple_GetSlice(list, 0, PyTuple_Size(list))
             : NULL;
}

bool check_tuple(PyObject *object, const char *what) {
  return check_type(PyTuple_Check(object), object, what);
}

bool take_strings(PyObject *list, const char ***out, size_t *n) {
  *out = NULL;
  *n = 0;
  if (list == Py_None) return true;
  PyObject *items = take_items(list);
  if (items == NULL) return false;
  Py_ssize_t length = PyTuple_Size(items);
  const char **strings = PyMem_Malloc(((size_t)length + 1) * sizeof *strings);
  bool fine = strings != NULL;
  if (!fine) PyErr_NoMemory();
  for (Py_ssize_t i = 0; fine && i < length; i++)
    fine = take_string(PyTuple_GetItem(items, i), &strings[i]);
  Py_DECREF(items);
  if (!fine) {
    PyMem_Free(strings);
    return false;
  }
  *out = strings;
  *n = (size_t)length;
  return true;
}

/* --- buffers ---------------------------------------------------------------------------------- */

uint64_t table_size(uint64_t n, uint64_t columns) {
  return columns == 0 || n <= PY_SSIZE_T_MAX / columns ? n * columns : PY_SSIZE_T_MAX;
}

bool take_buffer(PyObject *object, Py_buffer *view, bool writable, size_t size, uint64_t count) {
  int flags = PyBUF_C_CONTIGUOUS | (writable ? PyBUF_WRITABLE : 0);
  if (PyObject_GetBuffer(object, view, flags) != 0) return false;
  size_t bytes = (size_t)view->len;
  if ((size_t)view->itemsize == size && bytes % size == 0 &&
      (count == ANY_COUNT || bytes / size == count))
    return true;
  PyErr_SetString(PyExc_ValueError, "a buffer has the wrong size");
  PyBuffer_Release(view);
  return false;
}

PyObject *bytes_object(call *c, kf_bytes *bytes) {
  PyObject *object = NULL;
  if (call_end(c))
    object = PyBytes_FromStringAndSize(kf_bytes_data(bytes), (Py_ssize_t)kf_bytes_size(bytes));
  kf_bytes_free(bytes);
  return object;
}

/* --- structs ---------------------------------------------------------------------------------- */

static bool fill_one(void *to, const field *f, PyObject *value) {
  char *place = (char *)to + f->offset;
  switch (f->kind) {
  case FIELD_I32: return take_i32(value, (int *)(void *)place);
  case FIELD_U32: return take_u32(value, (uint32_t *)(void *)place);
  case FIELD_U64: return take_u64(value, (uint64_t *)(void *)place);
  case FIELD_F64: return take_double(value, (double *)(void *)place);
  default: return take_string(value, (const char **)(void *)place);
  }
}

bool fields_fill(void *to, const field *fields, size_t n, PyObject *from) {
  if (from == Py_None) return true;
  if (!check_type(PyDict_Check(from), from, "a dictionary of options")) return false;
  Py_ssize_t at = 0;
  PyObject *key, *value;
  while (PyDict_Next(from, &at, &key, &value)) {
    const char *name = PyUnicode_AsUTF8AndSize(key, NULL);
    if (name == NULL) return false;
    size_t i = 0;
    while (i < n && strcmp(fields[i].name, name) != 0) i++;
    if (i == n) {
      PyErr_Format(PyExc_TypeError, "there is no option %s", name);
      return false;
    }
    if (value != Py_None && !fill_one(to, &fields[i], value)) return false;
  }
  return true;
}

static PyObject *field_value(const void *from, const field *f) {
  const char *place = (const char *)from + f->offset;
  switch (f->kind) {
  case FIELD_I32: return PyLong_FromLong(*(const int *)(const void *)place);
  case FIELD_U32: return PyLong_FromUnsignedLong(*(const uint32_t *)(const void *)place);
  case FIELD_U64: return PyLong_FromUnsignedLongLong(*(const uint64_t *)(const void *)place);
  case FIELD_F64: return PyFloat_FromDouble(*(const double *)(const void *)place);
  default: return PyUnicode_FromString(*(const char *const *)(const void *)place);
  }
}

PyObject *fields_dict(const void *from, const field *fields, size_t n) {
  PyObject *dict = PyDict_New();
  for (size_t i = 0; dict != NULL && i < n; i++) {
    PyObject *value = field_value(from, &fields[i]);
    if (value == NULL || PyDict_SetItemString(dict, fields[i].name, value) != 0) Py_CLEAR(dict);
    Py_XDECREF(value);
  }
  return dict;
}

PyObject *names_list(const char *(*name)(const void *, uint32_t), const void *of, uint32_t n) {
  if (n == 0 || name(of, 0) == NULL) Py_RETURN_NONE;
  PyObject *list = PyList_New((Py_ssize_t)n);
  for (uint32_t k = 0; list != NULL && k < n; k++) {
    PyObject *text = PyUnicode_FromString(name(of, k));
    if (text == NULL || PyList_SetItem(list, (Py_ssize_t)k, text) != 0) Py_CLEAR(list);
  }
  return list;
}

/* --- capsules --------------------------------------------------------------------------------- */

static void free_stats(void *stats) { kf_stats_free(stats); }
static void free_model(void *model) { kf_model_free(model); }
static void free_text(void *text) { kf_text_free(text); }
static void free_gallery(void *gallery) { kf_gallery_free(gallery); }
static void free_encoder(void *encoder) { kf_encoder_free(encoder); }
static void free_set(void *set) { kf_class_set_free(set); }
static void free_truth(void *truth) { kf_truth_free(truth); }
static void free_verdicts(void *verdicts) { kf_verdicts_free(verdicts); }

static void free_object(void *object, const char *name) {
  static const struct {
    const char *name;
    void (*release)(void *);
  } kinds[] = {{CAPSULE_STATS, free_stats},     {CAPSULE_MODEL, free_model},
               {CAPSULE_TEXT, free_text},       {CAPSULE_GALLERY, free_gallery},
               {CAPSULE_ENCODER, free_encoder}, {CAPSULE_SET, free_set},
               {CAPSULE_TRUTH, free_truth},     {CAPSULE_VERDICTS, free_verdicts}};
  for (size_t i = 0; i < COUNT_OF(kinds); i++)
    if (strcmp(kinds[i].name, name) == 0) kinds[i].release(object);
}

static void destroy(PyObject *capsule) {
  const char *name = PyCapsule_GetName(capsule);
  free_object(PyCapsule_GetPointer(capsule, name), name);
}

PyObject *capsule_new(void *object, const char *name) {
  PyObject *capsule = PyCapsule_New(object, name, destroy);
  if (capsule == NULL) free_object(object, name);
  return capsule;
}

PyObject *call_capsule(call *c, void *object, const char *name) {
  if (call_end(c)) return capsule_new(object, name);
  free_object(object, name);
  return NULL;
}

void *capsule_get(PyObject *capsule, const char *name) {
  if (PyCapsule_IsValid(capsule, name)) return PyCapsule_GetPointer(capsule, name);
  PyErr_Format(PyExc_TypeError, "a %s is needed", name);
  return NULL;
}

bool capsule_maybe(PyObject *capsule, const char *name, void **out) {
  *out = NULL;
  if (capsule == Py_None) return true;
  *out = capsule_get(capsule, name);
  return *out != NULL;
}
