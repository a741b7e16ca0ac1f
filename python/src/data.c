/* data.c - data sets: files, and arrays that are not copied. */
#include "koofu_py.h"

#include <stdlib.h>
#include <string.h>

/* What a data set over arrays needs during its lifetime. */
typedef struct held {
  rows rows;
  Py_buffer labels;
  PyObject *ids;
  const char **id_list;
  bool has_labels;
} held;

static void held_free(held *h) {
  if (h == NULL) return;
  rows_release(&h->rows);
  if (h->has_labels) PyBuffer_Release(&h->labels);
  PyMem_Free(h->id_list);
  Py_XDECREF(h->ids);
  PyMem_Free(h);
}

static void data_destroy(PyObject *capsule) {
  kf_data_free(PyCapsule_GetPointer(capsule, CAPSULE_DATA));
  held_free(PyCapsule_GetContext(capsule));
}

static PyObject *data_capsule(kf_data *data, held *h) {
  PyObject *capsule = PyCapsule_New(data, CAPSULE_DATA, data_destroy);
  if (capsule != NULL && PyCapsule_SetContext(capsule, h) == 0) return capsule;
  if (capsule != NULL) {
    Py_DECREF(capsule); /* frees the data set */
  } else {
    kf_data_free(data);
  }
  held_free(h);
  return NULL;
}

/* --- files ------------------------------------------------------------------------------------ */

static const field open_fields[] = {
    {"classes", FIELD_PATH, offsetof(kf_data_options, classes)},
    {"tensor", FIELD_TEXT, offsetof(kf_data_options, tensor)},
    {"label_tensor", FIELD_TEXT, offsetof(kf_data_options, label_tensor)},
    {"inner_labels", FIELD_I32, offsetof(kf_data_options, inner_labels)},
    {"skip_bad", FIELD_I32, offsetof(kf_data_options, skip_bad)},
    {"allow_unlabelled", FIELD_I32, offsetof(kf_data_options, allow_unlabelled)},
    {"allow_unknown", FIELD_I32, offsetof(kf_data_options, allow_unknown)},
    {"only", FIELD_PATH, offsetof(kf_data_options, only)},
    {"label_column", FIELD_TEXT, offsetof(kf_data_options, label_column)},
    {"order", FIELD_I32, offsetof(kf_data_options, order)},
    {"id_column", FIELD_TEXT, offsetof(kf_data_options, id_column)},
};

/* data_open(paths, labels | None, options) */
static PyObject *py_data_open(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  const char **paths = NULL, **labels = NULL;
  size_t n_paths = 0, n_labels = 0;
  kf_data_options o = {0};
  kf_data *data = NULL;
  call c;
  bool fine = check_count("data_open", n, 3) && take_strings(args[0], &paths, &n_paths) &&
              take_strings(args[1], &labels, &n_labels) &&
              fields_fill(&o, open_fields, COUNT_OF(open_fields), args[2]) &&
              call_begin(&c, module);
  if (fine) {
    o.labels = labels;
    o.n_labels = n_labels;
    RUN(&c, kf_data_open(c.ctx, paths, n_paths, &o, &data));
    fine = call_end(&c);
    if (!fine) kf_data_free(data);
  }
  PyMem_Free(paths);
  PyMem_Free(labels);
  return fine ? data_capsule(data, NULL) : NULL;
}

/* --- arrays ----------------------------------------------------------------------------------- */

static bool hold_labels(held *h, PyObject *labels) {
  if (labels == Py_None) return true;
  h->has_labels = take_buffer(labels, &h->labels, false, sizeof(int32_t), h->rows.total);
  return h->has_labels;
}

static bool hold_ids(held *h, PyObject *ids) {
  size_t n = 0;
  if (ids == Py_None) return true;
  h->ids = Py_NewRef(ids);
  if (!take_strings(ids, &h->id_list, &n)) return false;
  if (n == h->rows.total) return true;
  PyErr_Format(PyExc_ValueError, "there are %zu ids for %llu rows", n,
               (unsigned long long)h->rows.total);
  return false;
}

/* data_arrays(rows, labels | None, names | None, n_classes, skip, ids | None, what); labels: a
 * buffer of int32. */
static PyObject *py_data_arrays(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  const char **names = NULL, *what;
  size_t n_names = 0;
  uint32_t n_classes, skip;
  kf_data *data = NULL;
  call c;
  if (!check_count("data_arrays", n, 7)) return NULL;
  held *h = PyMem_Calloc(1, sizeof *h);
  if (h == NULL) return PyErr_NoMemory();
  bool fine = take_path(args[6], &what) && rows_take(&h->rows, args[0], what) &&
              hold_labels(h, args[1]) && take_strings(args[2], &names, &n_names) &&
              take_u32(args[3], &n_classes) && take_u32(args[4], &skip) && hold_ids(h, args[5]) &&
              call_begin(&c, module);
  if (fine) {
    kf_array_options o = {.labels = h->has_labels ? h->labels.buf : NULL,
                          .names = names,
                          .n_classes = names != NULL ? (uint32_t)n_names : n_classes,
                          .skip = (kf_skip)skip,
                          .ids = h->id_list};
    RUN(&c, kf_data_open_arrays(c.ctx, h->rows.arrays, h->rows.n, h->rows.dim, &o, &data));
    fine = call_end(&c);
    if (!fine) kf_data_free(data);
  }
  PyMem_Free(names);
  if (fine) return data_capsule(data, h);
  held_free(h);
  return NULL;
}

/* shape(rows, what) -> (rows, columns); does not read the array. */
static PyObject *py_shape(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  (void)module;
  rows r;
  const char *what;
  if (!check_count("shape", n, 2) || !take_path(args[1], &what) || !rows_take(&r, args[0], what))
    return NULL;
  PyObject *shape = Py_BuildValue("(KI)", (unsigned long long)r.total, r.dim);
  rows_release(&r);
  return shape;
}

/* count(capsule of rows or of a data set) -> number of rows */
static PyObject *py_count(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  (void)module;
  if (!check_count("count", n, 1)) return NULL;
  if (PyCapsule_IsValid(args[0], CAPSULE_ROWS)) {
    const rows *r = PyCapsule_GetPointer(args[0], CAPSULE_ROWS);
    return PyLong_FromUnsignedLongLong(r->total);
  }
  const kf_data *d = capsule_get(args[0], CAPSULE_DATA);
  return d == NULL ? NULL : PyLong_FromUnsignedLongLong(kf_data_rows(d));
}

/* --- contents --------------------------------------------------------------------------------- */

static const char *class_name(const void *data, uint32_t k) { return kf_data_class_name(data, k); }

/* data_info(data) -> (rows, dim, classes, has_labels, unlabelled, has_ids) */
static PyObject *py_data_info(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  (void)module;
  if (!check_count("data_info", n, 1)) return NULL;
  const kf_data *d = capsule_get(args[0], CAPSULE_DATA);
  if (d == NULL) return NULL;
  return Py_BuildValue("(KIIiKi)", (unsigned long long)kf_data_rows(d), kf_data_dim(d),
                       kf_data_classes(d), kf_data_has_labels(d),
                       (unsigned long long)kf_data_unlabelled(d), kf_data_has_ids(d));
}

static PyObject *py_data_names(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  (void)module;
  if (!check_count("data_names", n, 1)) return NULL;
  const kf_data *d = capsule_get(args[0], CAPSULE_DATA);
  return d == NULL ? NULL : names_list(class_name, d, kf_data_classes(d));
}

/* data_labels(data, out): out is a buffer of int32. */
static PyObject *py_data_labels(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  Py_buffer out;
  call c;
  if (!check_count("data_labels", n, 2)) return NULL;
  const kf_data *d = capsule_get(args[0], CAPSULE_DATA);
  if (d == NULL || !take_buffer(args[1], &out, true, sizeof(int32_t), kf_data_rows(d))) return NULL;
  bool fine = CALL(&c, module, kf_data_labels(c.ctx, d, out.buf));
  PyBuffer_Release(&out);
  return fine ? Py_NewRef(Py_None) : NULL;
}

/* data_rows(data, first, out): out is a buffer of f32. */
static PyObject *py_data_rows(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  Py_buffer out;
  uint64_t first;
  call c;
  if (!check_count("data_rows", n, 3)) return NULL;
  const kf_data *d = capsule_get(args[0], CAPSULE_DATA);
  if (d == NULL || !take_u64(args[1], &first) ||
      !take_buffer(args[2], &out, true, sizeof(float), ANY_COUNT))
    return NULL;
  bool fine = call_begin(&c, module);
  if (fine) {
    uint64_t count = (uint64_t)out.len / (kf_data_dim(d) * sizeof(float));
    int32_t *labels =
        PyMem_Malloc((count + 1) * sizeof *labels); /* so that bad rows become zeros */
    if (labels == NULL)
      PyErr_NoMemory();
    else
      RUN(&c, kf_data_get(c.ctx, d, first, count, out.buf, labels));
    fine = call_end(&c);
    PyMem_Free(labels);
  }
  PyBuffer_Release(&out);
  return fine ? Py_NewRef(Py_None) : NULL;
}

/* data_save(data, dtype, path) */
static PyObject *py_data_save(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  uint32_t dtype;
  const char *path;
  call c;
  if (!check_count("data_save", n, 3)) return NULL;
  const kf_data *d = capsule_get(args[0], CAPSULE_DATA);
  if (d == NULL || !take_u32(args[1], &dtype) || !take_path(args[2], &path)) return NULL;
  return CALL(&c, module, kf_data_save(c.ctx, d, (kf_dtype)dtype, path)) ? Py_NewRef(Py_None)
                                                                         : NULL;
}

/* --- block by block --------------------------------------------------------------------------- */

/* Floats per block: enough for all threads, and small beside a model. */
#define BLOCK ((uint64_t)4 << 20)

bool source_open(source *s, call *c, PyObject *object, const char *what) {
  *s = (source){0};
  if (PyCapsule_IsValid(object, CAPSULE_DATA)) {
    s->data = PyCapsule_GetPointer(object, CAPSULE_DATA);
    s->n = kf_data_rows(s->data);
    s->dim = kf_data_dim(s->data);
    return true;
  }
  if (!rows_take(&s->held, object, what)) return false;
  s->n = s->held.total;
  s->dim = s->held.dim;
  s->plain = rows_plain(&s->held);
  if (s->plain != NULL || s->n == 0) return true;
  if (RUN(c, kf_data_open_arrays(c->ctx, s->held.arrays, s->held.n, s->dim, NULL, &s->own))) {
    s->data = s->own;
    return true;
  }
  rows_release(&s->held);
  return false;
}

void source_close(source *s) {
  kf_data_free(s->own);
  rows_release(&s->held);
}

typedef struct walk {
  source *source;
  call *call;
  block_fn work;
  void *argument;
  float *block; /* NULL: rows are used in place */
  int32_t *labels;
  uint64_t size;
} walk;

/* Repeats the error of a bad row, with its number among all rows instead of in the block. */
static kf_status name_row(const source *s, kf_ctx *ctx, uint64_t first, uint64_t n) {
  kf_data *all = NULL;
  float *copy = malloc(n * s->dim * sizeof *copy);
  kf_status status = copy == NULL ? KF_ERR_MEM : KF_OK;
  if (status == KF_OK)
    status = kf_data_open_memory(ctx, s->plain, s->n, s->dim, NULL, NULL, 0, &all);
  if (status == KF_OK) status = kf_data_get(ctx, all, first, n, copy, NULL);
  free(copy);
  kf_data_free(all);
  return status;
}

static kf_status walk_block(const walk *w, uint64_t first, uint64_t n) {
  const source *s = w->source;
  kf_ctx *ctx = w->call->ctx;
  if (w->block == NULL) {
    kf_status answer = w->work(w->argument, ctx, first, n, s->plain + first * s->dim);
    if (answer != KF_ERR_DATA || first == 0) return answer;
    answer = name_row(s, ctx, first, n);
    return answer != KF_OK ? answer /* otherwise it was another error */
                           : w->work(w->argument, ctx, first, n, s->plain + first * s->dim);
  }
  kf_status status = kf_data_get(ctx, s->data, first, n, w->block, w->labels);
  return status != KF_OK ? status : w->work(w->argument, ctx, first, n, w->block);
}

static kf_status walk_all(const walk *w) {
  kf_status status = KF_OK;
  for (uint64_t first = 0; status == KF_OK && first < w->source->n; first += w->size) {
    uint64_t left = w->source->n - first;
    status = walk_block(w, first, left < w->size ? left : w->size);
    if (status == KF_OK)
      status = call_look(w->call, left < w->size ? w->source->n : first + w->size, w->source->n);
  }
  return status;
}

bool source_each(source *s, call *c, block_fn work, void *argument) {
  if (s->n == 0) return true;
  uint64_t size = s->block > 0 ? s->block : BLOCK / s->dim + 1;
  if (size > s->n) size = s->n;
  walk w = {.source = s, .call = c, .work = work, .argument = argument, .size = size};
  if (s->data == NULL) return RUN(c, walk_all(&w));
  w.block = PyMem_Malloc(size * s->dim * sizeof *w.block);
  w.labels = PyMem_Malloc(size * sizeof *w.labels);
  bool fine = w.block != NULL && w.labels != NULL;
  if (!fine) PyErr_NoMemory();
  fine = fine && RUN(c, walk_all(&w));
  PyMem_Free(w.block);
  PyMem_Free(w.labels);
  return fine;
}

PyMethodDef data_methods[] = {METHOD(data_open),
                              METHOD(data_arrays),
                              METHOD(rows),
                              METHOD(shape),
                              METHOD(count),
                              METHOD(data_info),
                              METHOD(data_names),
                              METHOD(data_labels),
                              METHOD(data_rows),
                              METHOD(data_save),
                              {0}};
