/* dlpack.c - rows of tensors through DLPack, in CPU memory: torch, JAX and others. */
#include "koofu_py.h"

/* From dlpack.h 0.8; the layout is fixed. */
enum { DL_CPU = 1, DL_CUDA_HOST = 3, DL_FLOAT = 2, DL_BFLOAT = 4 };
typedef struct dl_tensor {
  void *data;
  int32_t device_type, device_id;
  int32_t ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides; /* strides in elements; NULL: packed */
  uint64_t byte_offset;
} dl_tensor;
typedef struct dl_managed {
  dl_tensor tensor;
  void *manager;
  void (*deleter)(struct dl_managed *);
} dl_managed;

#define FRESH "dltensor"
#define TAKEN "used_dltensor"

static void release_tensor(void *what) {
  dl_managed *m = what;
  if (m->deleter != NULL) m->deleter(m);
}

/* Before exporting anything, for which a GPU may have to copy or wait. */
static bool ask_device(PyObject *object, int *kind) {
  PyObject *device = PyObject_CallMethod(object, "__dlpack_device__", NULL);
  int number;
  bool fine =
      device != NULL && check_tuple(device, "a tuple from __dlpack_device__") &&
      PyArg_ParseTuple(device, "ii;__dlpack_device__ must return two numbers", kind, &number);
  Py_XDECREF(device);
  return fine;
}

static bool check_device(int kind, const char *what) {
  if (kind == DL_CPU || kind == DL_CUDA_HOST) return true;
  PyErr_Format(PyExc_ValueError,
               "%s is on a device (DLPack type %d), not in CPU memory; copy it there "
               "first, for example with .cpu()",
               what, kind);
  return false;
}

static int float_type(const dl_tensor *t) {
  if (t->lanes != 1) return -1;
  if (t->code == DL_BFLOAT && t->bits == 16) return KF_BF16;
  if (t->code != DL_FLOAT) return -1;
  return t->bits == 32 ? KF_F32 : t->bits == 16 ? KF_F16 : t->bits == 64 ? KF_F64 : -1;
}

static bool add_tensor(rows *r, const dl_tensor *t, const char *what) {
  int type = float_type(t);
  if (!check_device(t->device_type, what) || !rows_check_ndim(t->ndim, what)) return false;
  if (type < 0) {
    PyErr_Format(PyExc_TypeError,
                 "%s has elements of DLPack type %d with %d bits and %d lanes; rows are float16, "
                 "bfloat16, float32 or float64",
                 what, (int)t->code, (int)t->bits, (int)t->lanes);
    return false;
  }
  if (t->shape == NULL || t->byte_offset > PTRDIFF_MAX ||
      t->byte_offset > UINTPTR_MAX - (uintptr_t)t->data) {
    PyErr_Format(PyExc_ValueError, "%s is a DLPack tensor %s", what,
                 t->shape == NULL ? "without a shape" : "whose offset is beyond all memory");
    return false;
  }
  const int64_t packed[2] = {t->shape[1], 1};
  return rows_add_strided(
      r,
      &(strided){.data = t->data != NULL ? (const char *)t->data + t->byte_offset : NULL,
                 .shape = t->shape,
                 .strides = t->strides != NULL ? t->strides : packed,
                 .unit = t->bits / 8,
                 .dtype = (kf_dtype)type,
                 .size = t->bits / 8},
      what);
}

int rows_from_dlpack(rows *r, PyObject *object, const char *what) {
  int kind = 0;
  if (!PyObject_HasAttrString(object, "__dlpack__")) return 0;
  if (!ask_device(object, &kind) || !check_device(kind, what)) return -1;
  PyObject *capsule = PyObject_CallMethod(object, "__dlpack__", NULL);
  if (capsule == NULL) return -1;
  dl_managed *m = rows_capsule(capsule, FRESH, what);
  bool fine = m != NULL && PyCapsule_SetName(capsule, TAKEN) == 0 &&
              rows_keep(r, release_tensor, m) && add_tensor(r, &m->tensor, what);
  rows_let_go(rows_decref, capsule);
  return fine ? 1 : -1;
}
