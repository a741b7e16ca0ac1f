/* files.c - what is in a file, and whether it is valid. */
#include "koofu_py.h"

#include <string.h>

/* Text from a file, which may contain any bytes. */
static PyObject *text_of(const char *text) {
  if (text == NULL) Py_RETURN_NONE;
  return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "backslashreplace");
}

/* Puts a value into a dictionary; steals the value, and frees the dictionary on failure. */
static PyObject *put(PyObject *dict, const char *key, PyObject *value) {
  if (dict == NULL || value == NULL || PyDict_SetItemString(dict, key, value) != 0) Py_CLEAR(dict);
  Py_XDECREF(value);
  return dict;
}

static PyObject *shape_of(const kf_tensor_info *t) {
  PyObject *shape = PyTuple_New((Py_ssize_t)t->ndim);
  for (uint32_t i = 0; shape != NULL && i < t->ndim; i++) {
    PyObject *size = PyLong_FromUnsignedLongLong(t->shape[i]);
    if (size == NULL || PyTuple_SetItem(shape, (Py_ssize_t)i, size) != 0) Py_CLEAR(shape);
  }
  return shape;
}

/* [(name, dtype, shape)]: names of columns may repeat. */
static PyObject *tensors_of(const kf_info *info) {
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list != NULL && i < info->n_tensors; i++) {
    const kf_tensor_info *t = &info->tensors[i];
    PyObject *name = text_of(t->name), *dtype = text_of(t->dtype), *shape = shape_of(t);
    PyObject *one =
        name != NULL && dtype != NULL && shape != NULL ? PyTuple_Pack(3, name, dtype, shape) : NULL;
    if (one == NULL || PyList_Append(list, one) != 0) Py_CLEAR(list);
    Py_XDECREF(name);
    Py_XDECREF(dtype);
    Py_XDECREF(shape);
    Py_XDECREF(one);
  }
  return list;
}

static PyObject *metadata_of(const kf_info *info) {
  PyObject *dict = PyDict_New();
  for (size_t i = 0; dict != NULL && i < info->n_meta; i++) {
    PyObject *key = text_of(info->meta_keys[i]), *value = text_of(info->meta_values[i]);
    if (key == NULL || value == NULL || PyDict_SetItem(dict, key, value) != 0) Py_CLEAR(dict);
    Py_XDECREF(key);
    Py_XDECREF(value);
  }
  return dict;
}

static PyObject *dict_of(const kf_info *info) {
  PyObject *d = Py_BuildValue(
      "{sK sK sI sI sI si si si sd sd sd sd si si}", "bytes", (unsigned long long)info->bytes,
      "rows", (unsigned long long)info->rows, "dim", info->dim, "classes", info->classes, "dim_out",
      info->dim_out, "ids", info->ids, "normalized", info->normalized, "exponent", info->exponent,
      "lambda_", info->lambda, "temperature", info->temperature, "reject", info->reject,
      "reject_share", info->reject_share, "method", (int)info->method, "priors", (int)info->priors);
  d = put(d, "format", text_of(info->format));
  d = put(d, "kind", text_of(info->kind));
  d = put(d, "encoder", text_of(info->encoder));
  d = put(d, "tensors", tensors_of(info));
  return put(d, "metadata", metadata_of(info));
}

/* file_info(path, verify) -> a dictionary */
static PyObject *py_file_info(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  const char *path;
  uint32_t verify;
  kf_info *info = NULL;
  call c;
  if (!check_count("file_info", n, 2) || !take_path(args[0], &path) ||
      !take_u32(args[1], &verify) || !call_begin(&c, module))
    return NULL;
  RUN(&c, (verify != 0 ? kf_verify : kf_info_read)(c.ctx, path, &info));
  PyObject *dict = call_end(&c) ? dict_of(info) : NULL;
  kf_info_free(info);
  return dict;
}

PyMethodDef file_methods[] = {METHOD(file_info), {0}};
