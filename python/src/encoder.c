/* encoder.c - pictures and words to embeddings. */
#include "koofu_py.h"

static const field load_fields[] = {
    {"precision", FIELD_I32, offsetof(kf_encoder_options, precision)},
    {"images", FIELD_I32, offsetof(kf_encoder_options, images)},
    {"text", FIELD_I32, offsetof(kf_encoder_options, text)},
    {"max_pixels", FIELD_U64, offsetof(kf_encoder_options, max_pixels)},
};

/* encoder_load(folder, options) */
static PyObject *py_encoder_load(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  const char *folder;
  kf_encoder_options o = {0};
  kf_encoder *encoder = NULL;
  call c;
  if (!check_count("encoder_load", n, 2) || !take_path(args[0], &folder) ||
      !fields_fill(&o, load_fields, COUNT_OF(load_fields), args[1]) || !call_begin(&c, module))
    return NULL;
  RUN(&c, kf_encoder_load(c.ctx, folder, &o, &encoder));
  return call_capsule(&c, encoder, CAPSULE_ENCODER);
}

/* encoder_info(encoder) -> (dim, image_size, context, precision, bytes, checksum, name) */
static PyObject *py_encoder_info(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  (void)module;
  if (!check_count("encoder_info", n, 1)) return NULL;
  const kf_encoder *e = capsule_get(args[0], CAPSULE_ENCODER);
  if (e == NULL) return NULL;
  return Py_BuildValue(
      "(IIIiKKs)", kf_encoder_dim(e), kf_encoder_image_size(e), kf_encoder_context(e),
      (int)kf_encoder_precision(e), (unsigned long long)kf_encoder_bytes(e),
      (unsigned long long)kf_encoder_checksum(e), kf_origin_name(kf_encoder_origin(e)));
}

/* --- pictures --------------------------------------------------------------------------------- */

/* Output for embeddings, and the status of each picture (NULL: the first bad one fails the
 * call). */
typedef struct target {
  Py_buffer out;
  kf_status *status;
} target;

static bool target_take(target *t, const kf_encoder *e, uint64_t n, PyObject *out, bool skip) {
  *t = (target){0};
  if (!take_buffer(out, &t->out, true, sizeof(float), table_size(n, kf_encoder_dim(e))))
    return false;
  if (!skip) return true;
  t->status = PyMem_Calloc(n + 1, sizeof *t->status);
  if (t->status != NULL) return true;
  PyBuffer_Release(&t->out);
  return PyErr_NoMemory(), false;
}

/* The numbers of the bad pictures, as a list. */
static PyObject *target_close(target *t, uint64_t n, bool fine) {
  PyObject *bad = fine ? PyList_New(0) : NULL;
  for (uint64_t i = 0; bad != NULL && t->status != NULL && i < n; i++) {
    if (t->status[i] == KF_OK) continue;
    PyObject *number = PyLong_FromUnsignedLongLong(i);
    if (number == NULL || PyList_Append(bad, number) != 0) Py_CLEAR(bad);
    Py_XDECREF(number);
  }
  PyBuffer_Release(&t->out);
  PyMem_Free(t->status);
  return bad;
}

/* encode_paths(encoder, paths, skip, out) -> numbers of bad pictures */
static PyObject *py_encode_paths(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  const char **paths;
  size_t count;
  uint32_t skip;
  target t;
  call c;
  if (!check_count("encode_paths", n, 4)) return NULL;
  const kf_encoder *e = capsule_get(args[0], CAPSULE_ENCODER);
  if (e == NULL || !take_u32(args[2], &skip) || !take_strings(args[1], &paths, &count)) return NULL;
  PyObject *bad = NULL;
  if (target_take(&t, e, count, args[3], skip != 0)) {
    bool fine = CALL(&c, module, kf_encode_images(c.ctx, e, paths, count, t.out.buf, t.status));
    bad = target_close(&t, count, fine);
  }
  PyMem_Free(paths);
  return bad;
}

/* Pictures in memory: the bytes of files, or arrays [height][width][3] of bytes. */
typedef struct pictures {
  kf_image_bytes *list;
  Py_buffer *views;
  size_t n;
} pictures;

static void pictures_release(pictures *p) {
  while (p->n > 0) PyBuffer_Release(&p->views[--p->n]);
  PyMem_Free(p->views);
  PyMem_Free(p->list);
}

static bool add_picture(pictures *p, PyObject *object) {
  Py_buffer *view = &p->views[p->n];
  if (PyObject_GetBuffer(object, view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) != 0) return false;
  kf_image_bytes *to = &p->list[p->n++];
  *to = (kf_image_bytes){.bytes = view->buf, .n = (uint64_t)view->len};
  if (view->ndim == 1 && view->itemsize == 1) return true;
  if (view->ndim == 3 && view->shape[2] == 3 && view->itemsize == 1 && view->shape[0] > 0 &&
      view->shape[1] > 0 && view->shape[0] < UINT32_MAX && view->shape[1] < UINT32_MAX) {
    to->height = (uint32_t)view->shape[0];
    to->width = (uint32_t)view->shape[1];
    return true;
  }
  PyErr_Format(PyExc_ValueError,
               "picture %zu is not the bytes of a file, nor a uint8 array of height, width and 3 "
               "colours",
               p->n - 1);
  return false;
}

static bool pictures_take(pictures *p, PyObject *list) {
  *p = (pictures){0};
  PyObject *items = take_items(list);
  if (items == NULL) return false;
  Py_ssize_t n = PyTuple_Size(items);
  p->list = PyMem_Calloc((size_t)n + 1, sizeof *p->list);
  p->views = PyMem_Calloc((size_t)n + 1, sizeof *p->views);
  bool fine = p->list != NULL && p->views != NULL;
  if (!fine) PyErr_NoMemory();
  for (Py_ssize_t i = 0; fine && i < n; i++) fine = add_picture(p, PyTuple_GetItem(items, i));
  Py_DECREF(items); /* the views keep the objects alive */
  if (!fine) pictures_release(p);
  return fine;
}

/* encode_pictures(encoder, list, skip, out) -> numbers of bad pictures */
static PyObject *py_encode_pictures(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  pictures p;
  uint32_t skip;
  target t;
  call c;
  if (!check_count("encode_pictures", n, 4)) return NULL;
  const kf_encoder *e = capsule_get(args[0], CAPSULE_ENCODER);
  if (e == NULL || !take_u32(args[2], &skip) || !pictures_take(&p, args[1])) return NULL;
  PyObject *bad = NULL;
  if (target_take(&t, e, p.n, args[3], skip != 0)) {
    bool fine = CALL(&c, module, kf_encode_image_bytes(c.ctx, e, p.list, p.n, t.out.buf, t.status));
    bad = target_close(&t, p.n, fine);
  }
  pictures_release(&p);
  return bad;
}

static const field embed_fields[] = {
    {"dtype", FIELD_I32, offsetof(kf_embed_options, dtype)},
    {"normalize", FIELD_I32, offsetof(kf_embed_options, normalize)},
    {"skip_bad", FIELD_I32, offsetof(kf_embed_options, skip_bad)},
    {"resume", FIELD_I32, offsetof(kf_embed_options, resume)},
    {"metadata", FIELD_PATH, offsetof(kf_embed_options, metadata)},
};
static const field embedded_fields[] = {
    {"rows", FIELD_U64, offsetof(kf_embed_report, rows)},
    {"skipped", FIELD_U64, offsetof(kf_embed_report, skipped)},
    {"resumed", FIELD_U64, offsetof(kf_embed_report, resumed)},
    {"reused", FIELD_U64, offsetof(kf_embed_report, reused)},
    {"unchanged", FIELD_I32, offsetof(kf_embed_report, unchanged)},
};

/* embed(encoder, paths, label key | None, options, path) -> a dictionary */
static PyObject *py_embed(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  const char **paths, *path;
  size_t count;
  kf_embed_options o = {0};
  kf_pictures_options archives = {0};
  kf_embed_report report = {0};
  kf_pictures *list = NULL;
  call c;
  if (!check_count("embed", n, 5)) return NULL;
  const kf_encoder *e = capsule_get(args[0], CAPSULE_ENCODER);
  if (e == NULL || (args[2] != Py_None && !take_path(args[2], &archives.label_key)) ||
      !fields_fill(&o, embed_fields, COUNT_OF(embed_fields), args[3]) ||
      !take_path(args[4], &path) || !take_strings(args[1], &paths, &count))
    return NULL;
  bool fine = call_begin(&c, module);
  if (fine) {
    if (RUN(&c, kf_pictures_open_with(c.ctx, paths, count, &archives, &list)))
      RUN(&c, kf_embed(c.ctx, e, list, &o, path, &report));
    kf_pictures_free(list);
    fine = call_end(&c);
  }
  PyMem_Free(paths);
  return fine ? fields_dict(&report, embedded_fields, COUNT_OF(embedded_fields)) : NULL;
}

/* --- words ------------------------------------------------------------------------------------ */

/* encode_texts(encoder, texts, out) */
static PyObject *py_encode_texts(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  const char **texts;
  size_t count;
  target t;
  call c;
  if (!check_count("encode_texts", n, 3)) return NULL;
  const kf_encoder *e = capsule_get(args[0], CAPSULE_ENCODER);
  if (e == NULL || !take_strings(args[1], &texts, &count)) return NULL;
  bool fine = target_take(&t, e, count, args[2], false);
  if (fine) {
    fine = CALL(&c, module, kf_encode_texts(c.ctx, e, texts, count, t.out.buf));
    PyBuffer_Release(&t.out);
  }
  PyMem_Free(texts);
  return fine ? Py_NewRef(Py_None) : NULL;
}

/* tokenize(encoder, text, out) -> number of tokens before the padding; out: int32 [context] */
static PyObject *py_tokenize(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  const char *text;
  Py_buffer out;
  uint32_t count = 0;
  call c;
  if (!check_count("tokenize", n, 3)) return NULL;
  const kf_encoder *e = capsule_get(args[0], CAPSULE_ENCODER);
  if (e == NULL || !take_path(args[1], &text) ||
      !take_buffer(args[2], &out, true, sizeof(int32_t), kf_encoder_context(e)))
    return NULL;
  bool fine = CALL(&c, module, kf_tokenize(c.ctx, e, text, out.buf, &count));
  PyBuffer_Release(&out);
  return fine ? PyLong_FromUnsignedLong(count) : NULL;
}

/* encoder_text_mean(encoder, out): f64 */
static PyObject *py_encoder_text_mean(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  Py_buffer out;
  call c;
  if (!check_count("encoder_text_mean", n, 2)) return NULL;
  const kf_encoder *e = capsule_get(args[0], CAPSULE_ENCODER);
  if (e == NULL || !take_buffer(args[1], &out, true, sizeof(double), kf_encoder_dim(e)))
    return NULL;
  bool fine = CALL(&c, module, kf_encoder_text_mean(c.ctx, e, out.buf));
  PyBuffer_Release(&out);
  return fine ? Py_NewRef(Py_None) : NULL;
}

PyMethodDef encoder_methods[] = {METHOD(encoder_load),
                                 METHOD(encoder_info),
                                 METHOD(encode_paths),
                                 METHOD(encode_pictures),
                                 METHOD(embed),
                                 METHOD(encode_texts),
                                 METHOD(tokenize),
                                 METHOD(encoder_text_mean),
                                 {0}};
