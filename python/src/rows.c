/* rows.c - rows of Python objects, not copied: the buffer protocol, and code that all sources
 * share. */
#include "koofu_py.h"

#include <string.h>

typedef struct keeper {
  struct keeper *next;
  void (*release)(void *);
  void *what;
} keeper;

/* The limit of the library, so that no product of rows and columns overflows. */
#define MAX_ROWS ((uint64_t)1 << 40)

bool rows_add(rows *r, const kf_array *array, const char *what) {
  if (array->n > MAX_ROWS - r->total) {
    PyErr_Format(PyExc_ValueError, "%s has more than 2^40 rows", what);
    return false;
  }
  if (r->n == r->room) {
    size_t room = r->room > 0 ? 2 * r->room : 1;
    kf_array *more = PyMem_Realloc(r->arrays, room * sizeof *more);
    if (more == NULL) return PyErr_NoMemory(), false;
    r->arrays = more;
    r->room = room;
  }
  r->arrays[r->n++] = *array;
  r->total += array->n;
  return true;
}

bool rows_check_ndim(int ndim, const char *what) {
  if (ndim == 2) return true;
  PyErr_Format(PyExc_ValueError, "%s has %d dimension%s; it must have 2, rows and columns%s", what,
               ndim, ndim == 1 ? "" : "s", ndim == 1 ? " (one row is reshape(1, -1))" : "");
  return false;
}

/* The stride in bytes along n elements; false: they would exceed the address space. The stride of a
 * single element is arbitrary and becomes `packed`. */
static bool take_stride(int64_t stride, int64_t unit, int64_t n, int64_t packed, int64_t *out) {
  int64_t most = INT64_MAX / 4 / unit / n; /* so that sums of two still fit */
  if (n > 1 && (stride < -most || stride > most)) return false;
  *out = n > 1 ? stride * unit : packed;
  return true;
}

/* Whether all elements are inside the address space; whether there is memory cannot be known. */
static bool has_addresses(const kf_array *a, uint32_t dim, size_t size) {
  int64_t down = (int64_t)(a->n - 1) * a->row_stride;
  int64_t across = (int64_t)(dim - 1) * a->column_stride;
  uint64_t before = (uint64_t)((down < 0 ? -down : 0) + (across < 0 ? -across : 0));
  uint64_t after = (uint64_t)((down > 0 ? down : 0) + (across > 0 ? across : 0)) + size;
  return before < (uintptr_t)a->rows && after <= UINTPTR_MAX - (uintptr_t)a->rows;
}

/* To the library, two strides of 0 mean packed rows. In Python they mean a single value repeated
 * everywhere (numpy's broadcast_to, torch's expand). So one row is written out and used as every
 * row. */
static bool repeat_value(rows *r, kf_array *array, size_t size) {
  char *row = PyMem_Malloc(r->dim * size);
  if (row == NULL) return PyErr_NoMemory(), false;
  for (uint32_t i = 0; i < r->dim; i++) memcpy(row + i * size, array->rows, size);
  array->rows = row;
  array->column_stride = (int64_t)size;
  return rows_keep(r, PyMem_Free, row);
}

bool rows_add_strided(rows *r, const strided *s, const char *what) {
  int64_t n = s->shape[0], dim = s->shape[1], size = (int64_t)s->size;
  if (n < 0) {
    PyErr_Format(PyExc_ValueError, "%s has %lld rows", what, (long long)n);
    return false;
  }
  if (!rows_columns(r, dim, what)) return false;
  if (n == 0) return true;
  kf_array array = {.rows = s->data, .n = (uint64_t)n, .dtype = s->dtype};
  if (!take_stride(s->strides[0], s->unit, n, dim * size, &array.row_stride) ||
      !take_stride(s->strides[1], s->unit, dim, size, &array.column_stride) ||
      !has_addresses(&array, r->dim, s->size)) {
    PyErr_Format(PyExc_ValueError,
                 "%s has elements outside the address space: its pointer, its shape or its strides "
                 "are wrong",
                 what);
    return false;
  }
  if (array.row_stride == 0 && array.column_stride == 0 && !repeat_value(r, &array, s->size))
    return false;
  return rows_add(r, &array, what);
}

bool rows_keep(rows *r, void (*release)(void *), void *what) {
  keeper *k = PyMem_Malloc(sizeof *k);
  if (k == NULL) {
    rows_let_go(release, what);
    return PyErr_NoMemory(), false;
  }
  *k = (keeper){r->keepers, release, what};
  r->keepers = k;
  return true;
}

void rows_let_go(void (*release)(void *), void *what) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  release(what);
  PyErr_Restore(type, value, trace);
}

void rows_decref(void *object) { Py_DECREF((PyObject *)object); }

void rows_release(rows *r) {
  while (r->keepers != NULL) {
    keeper *k = r->keepers;
    r->keepers = k->next;
    rows_let_go(k->release, k->what);
    PyMem_Free(k);
  }
  PyMem_Free(r->arrays);
  *r = (rows){0};
}

bool rows_columns(rows *r, int64_t dim, const char *what) {
  if (dim < 1 || dim > KF_MAX_DIM) {
    PyErr_Format(PyExc_ValueError, "%s has %lld columns; there must be 1 to %u", what,
                 (long long)dim, KF_MAX_DIM);
    return false;
  }
  if (r->dim != 0 && r->dim != dim) {
    PyErr_Format(PyExc_ValueError, "%s has chunks of %u and of %lld columns", what, r->dim,
                 (long long)dim);
    return false;
  }
  r->dim = (uint32_t)dim;
  return true;
}

void *rows_capsule(PyObject *capsule, const char *name, const char *what) {
  if (PyCapsule_IsValid(capsule, name)) return PyCapsule_GetPointer(capsule, name);
  PyErr_Format(PyExc_ValueError, "%s returned no unused capsule '%s'", what, name);
  return NULL;
}

const float *rows_plain(const rows *r) {
  if (r->n != 1 || r->arrays[0].dtype != KF_F32) return NULL;
  const kf_array *a = &r->arrays[0];
  bool packed = (a->row_stride == 0 && a->column_stride == 0) ||
                ((a->column_stride == sizeof(float) || r->dim == 1) &&
                 (a->row_stride == (int64_t)(r->dim * sizeof(float)) || a->n == 1));
  return packed && (uintptr_t)a->rows % sizeof(float) == 0 ? a->rows : NULL;
}

/* --- buffers ---------------------------------------------------------------------------------- */

static void release_view(void *view) {
  PyBuffer_Release(view);
  PyMem_Free(view);
}

/* The kf_dtype of a format, or -1. */
static int float_type(const char *format, Py_ssize_t size) {
  if (format == NULL) return -1;
  if (format[0] == '@' || format[0] == '=' || format[0] == '<') format++;
  if (strcmp(format, "f") == 0 && size == 4) return KF_F32;
  if (strcmp(format, "e") == 0 && size == 2) return KF_F16;
  if (strcmp(format, "d") == 0 && size == 8) return KF_F64;
  return -1;
}

/* The dtype or type name of an object, for messages. A new reference; NULL: an exception is set. */
static PyObject *type_of(PyObject *object) {
  PyObject *dtype = PyObject_GetAttrString(object, "dtype");
  if (dtype != NULL) return dtype;
  PyErr_Clear();
  return PyObject_GetAttrString((PyObject *)Py_TYPE(object), "__name__");
}

static void fail_type(PyObject *object, const char *what) {
  PyObject *type = type_of(object);
  if (type == NULL) return;
  PyErr_Format(
      PyExc_TypeError,
      "%s has the dtype %S; rows are float16, float32 or float64 (or bfloat16, by DLPack), "
      "in the byte order of the machine",
      what, type);
  Py_DECREF(type);
}

static bool add_view(rows *r, PyObject *object, const Py_buffer *view, const char *what) {
  if (!rows_check_ndim(view->ndim, what)) return false;
  int type = float_type(view->format, view->itemsize);
  if (type < 0) {
    fail_type(object, what);
    return false;
  }
  return rows_add_strided(r,
                          &(strided){.data = view->buf,
                                     .shape = view->shape,
                                     .strides = view->strides,
                                     .unit = 1,
                                     .dtype = (kf_dtype)type,
                                     .size = (size_t)view->itemsize},
                          what);
}

/* numpy exports no buffer for types without a format, such as bfloat16 of ml_dtypes: 0, so that the
 * next source is tried. */
static int rows_from_buffer(rows *r, PyObject *object, const char *what) {
  if (!PyObject_CheckBuffer(object)) return 0;
  Py_buffer *view = PyMem_Malloc(sizeof *view);
  if (view == NULL) return PyErr_NoMemory(), -1;
  if (PyObject_GetBuffer(object, view, PyBUF_RECORDS_RO) != 0) {
    PyMem_Free(view);
    if (!PyErr_ExceptionMatches(PyExc_BufferError) && !PyErr_ExceptionMatches(PyExc_ValueError))
      return -1;
    PyErr_Clear();
    return 0;
  }
  if (!rows_keep(r, release_view, view)) return -1;
  return add_view(r, object, view, what) ? 1 : -1;
}

/* --- capsules of rows ------------------------------------------------------------------------- */

static int rows_from_capsule(rows *r, PyObject *object, const char *what) {
  if (!PyCapsule_IsValid(object, CAPSULE_ROWS)) return 0;
  const rows *from = PyCapsule_GetPointer(object, CAPSULE_ROWS);
  r->dim = from->dim;
  for (size_t i = 0; i < from->n; i++)
    if (!rows_add(r, &from->arrays[i], what)) return -1;
  return rows_keep(r, rows_decref, Py_NewRef(object)) ? 1 : -1;
}

static void rows_destroy(PyObject *capsule) {
  rows *r = PyCapsule_GetPointer(capsule, CAPSULE_ROWS);
  rows_release(r);
  PyMem_Free(r);
}

PyObject *py_rows(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  (void)module;
  const char *what;
  if (!check_count("rows", n, 2) || !take_path(args[1], &what)) return NULL;
  rows *r = PyMem_Malloc(sizeof *r);
  if (r == NULL) return PyErr_NoMemory();
  if (rows_take(r, args[0], what)) {
    PyObject *capsule = PyCapsule_New(r, CAPSULE_ROWS, rows_destroy);
    if (capsule != NULL) return capsule;
    rows_release(r);
  }
  PyMem_Free(r);
  return NULL;
}

/* --- any object ------------------------------------------------------------------------------- */

/* For an object without rows. */
static void fail_kind(PyObject *object, const char *what) {
  if (PyObject_CheckBuffer(object)) {
    fail_type(object, what);
    return;
  }
  PyObject *name = PyType_GetName(Py_TYPE(object));
  if (name == NULL) return;
  PyErr_Format(PyExc_TypeError,
               "%s is of type %U; it must be a 2-D array (numpy, or anything with the buffer "
               "protocol, DLPack or Arrow) or a path",
               what, name);
  Py_DECREF(name);
}

bool rows_take(rows *r, PyObject *object, const char *what) {
  *r = (rows){0};
  int (*const sources[])(rows *, PyObject *, const char *) = {rows_from_capsule, rows_from_buffer,
                                                              rows_from_arrow, rows_from_dlpack};
  int found = 0;
  for (size_t i = 0; found == 0 && i < COUNT_OF(sources); i++) found = sources[i](r, object, what);
  if (found == 0) fail_kind(object, what);
  if (found == 1) return true;
  rows_release(r);
  return false;
}
