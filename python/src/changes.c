/* changes.c - changes of galleries, and filters: which rows take part in a search. */
#include "koofu_py.h"

/* --- changes ---------------------------------------------------------------------------------- */

PyObject *change_tuple(const kf_gallery_change *c) {
  return Py_BuildValue("(KKKKKK)", (unsigned long long)c->rows, (unsigned long long)c->added,
                       (unsigned long long)c->removed, (unsigned long long)c->missing,
                       (unsigned long long)c->bytes, (unsigned long long)c->changes);
}

/* gallery_remove(path, ids) -> change_tuple */
static PyObject *py_gallery_remove(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  const char *path, **ids;
  size_t n_ids;
  kf_gallery_change change = {0};
  call c;
  if (!check_count("gallery_remove", n, 2) || !take_path(args[0], &path) ||
      !take_strings(args[1], &ids, &n_ids))
    return NULL;
  bool fine = call_begin(&c, module);
  if (fine) {
    kf_id_list list = {.ids = ids, .n = n_ids};
    RUN(&c, kf_gallery_remove(c.ctx, path, &list, &change));
    fine = call_end(&c);
  }
  PyMem_Free(ids);
  return fine ? change_tuple(&change) : NULL;
}

/* gallery_compact(path) -> change_tuple */
static PyObject *py_gallery_compact(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  const char *path;
  kf_gallery_change change = {0};
  call c;
  if (!check_count("gallery_compact", n, 1) || !take_path(args[0], &path)) return NULL;
  return CALL(&c, module, kf_gallery_compact(c.ctx, path, &change)) ? change_tuple(&change) : NULL;
}

/* --- filters ---------------------------------------------------------------------------------- */

/* A filter refers to its gallery, so its capsule keeps that of the gallery. */
static void filter_destroy(PyObject *capsule) {
  kf_filter_free(PyCapsule_GetPointer(capsule, CAPSULE_FILTER));
  Py_XDECREF(PyCapsule_GetContext(capsule));
}

static PyObject *filter_capsule(kf_filter *filter, PyObject *gallery) {
  PyObject *capsule = PyCapsule_New(filter, CAPSULE_FILTER, filter_destroy);
  if (capsule == NULL) {
    kf_filter_free(filter);
    return NULL;
  }
  if (PyCapsule_SetContext(capsule, gallery) == 0) {
    Py_INCREF(gallery);
    return capsule;
  }
  Py_DECREF(capsule); /* frees the filter */
  return NULL;
}

bool filter_take(PyObject *capsule, const kf_filter **out) {
  void *filter;
  if (!capsule_maybe(capsule, CAPSULE_FILTER, &filter)) return false;
  *out = filter;
  return true;
}

/* filter_new(gallery, classes | None, ids | None) -> (filter, number of rows) */
static PyObject *py_filter_new(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  const char **names = NULL, **ids = NULL;
  size_t n_names = 0, n_ids = 0;
  kf_filter *filter = NULL;
  call c;
  if (!check_count("filter_new", n, 3)) return NULL;
  const kf_gallery *g = capsule_get(args[0], CAPSULE_GALLERY);
  bool fine = g != NULL && take_strings(args[1], &names, &n_names) &&
              take_strings(args[2], &ids, &n_ids) && call_begin(&c, module);
  if (fine) {
    kf_id_list list = {.ids = ids, .n = n_ids};
    kf_filter_options o = {
        .names = names, .n_names = n_names, .ids = args[2] != Py_None ? &list : NULL};
    RUN(&c, kf_filter_new(c.ctx, g, &o, &filter));
    fine = call_end(&c);
    if (!fine) kf_filter_free(filter);
  }
  PyMem_Free(names);
  PyMem_Free(ids);
  if (!fine) return NULL;
  unsigned long long left = kf_filter_rows(filter);
  PyObject *capsule = filter_capsule(filter, args[0]);
  return capsule != NULL ? Py_BuildValue("(NK)", capsule, left) : NULL;
}

PyMethodDef change_methods[] = {
    METHOD(gallery_remove), METHOD(gallery_compact), METHOD(filter_new), {0}};
