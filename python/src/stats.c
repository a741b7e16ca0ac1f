/* stats.c - statistics. To Python they are immutable: a merge makes new ones. */
#include "koofu_py.h"

#include <stdlib.h>

static const field stats_fields[] = {
    {"normalize", FIELD_I32, offsetof(kf_stats_options, normalize)},
    {"exponent", FIELD_I32, offsetof(kf_stats_options, exponent)},
    {"fixed_exponent", FIELD_I32, offsetof(kf_stats_options, fixed_exponent)},
};

/* stats_of(data, options) */
static PyObject *py_stats_of(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  kf_stats_options o = {0};
  kf_stats *stats = NULL;
  call c;
  if (!check_count("stats_of", n, 2)) return NULL;
  const kf_data *data = capsule_get(args[0], CAPSULE_DATA);
  if (data == NULL || !fields_fill(&o, stats_fields, COUNT_OF(stats_fields), args[1]) ||
      !call_begin(&c, module))
    return NULL;
  RUN(&c, kf_stats_new_from_data(c.ctx, data, &o, &stats));
  return call_capsule(&c, stats, CAPSULE_STATS);
}

/* Empty statistics with the classes and options of others. */
static kf_status new_like(kf_ctx *ctx, const kf_stats *other, kf_stats **out) {
  uint32_t n = kf_stats_classes(other);
  const char **names = NULL;
  if (kf_stats_class_name(other, 0) != NULL) {
    names = malloc(n * sizeof *names);
    if (names == NULL) return KF_ERR_MEM;
    for (uint32_t k = 0; k < n; k++) names[k] = kf_stats_class_name(other, k);
  }
  kf_stats_options o = {.normalize = kf_stats_normalized(other) ? KF_ON : KF_OFF};
  if (o.normalize == KF_OFF) {
    o.exponent = kf_stats_exponent(other);
    o.fixed_exponent = 1;
  }
  kf_status status = kf_stats_new(ctx, kf_stats_dim(other), n, names, &o, out);
  free(names);
  return status;
}

static const kf_stats *stats_at(PyObject *parts, Py_ssize_t i) {
  return capsule_get(PyTuple_GetItem(parts, i), CAPSULE_STATS);
}

static bool check_parts(PyObject *parts) {
  Py_ssize_t count = PyTuple_Size(parts);
  if (count == 0) PyErr_SetString(PyExc_ValueError, "there are no statistics to merge");
  for (Py_ssize_t i = 0; i < count; i++)
    if (stats_at(parts, i) == NULL) return false;
  return count > 0;
}

/* stats_merged([stats, …]) */
static PyObject *py_stats_merged(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  kf_stats *sum = NULL;
  call c;
  PyObject *merged = NULL;
  if (!check_count("stats_merged", n, 1)) return NULL;
  PyObject *parts = take_items(args[0]);
  if (parts != NULL && check_parts(parts) && call_begin(&c, module)) {
    const kf_stats *first = stats_at(parts, 0);
    bool fine = RUN(&c, new_like(c.ctx, first, &sum));
    for (Py_ssize_t i = 0; fine && i < PyTuple_Size(parts); i++) {
      const kf_stats *next = stats_at(parts, i);
      fine = RUN(&c, kf_stats_merge(c.ctx, sum, next));
    }
    merged = call_capsule(&c, sum, CAPSULE_STATS);
  }
  Py_XDECREF(parts);
  return merged;
}

/* stats_less(stats, other) */
static PyObject *py_stats_less(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  kf_stats *rest = NULL;
  call c;
  if (!check_count("stats_less", n, 2)) return NULL;
  const kf_stats *whole = capsule_get(args[0], CAPSULE_STATS);
  const kf_stats *part = capsule_get(args[1], CAPSULE_STATS);
  if (whole == NULL || part == NULL || !call_begin(&c, module)) return NULL;
  if (RUN(&c, new_like(c.ctx, whole, &rest)) && RUN(&c, kf_stats_merge(c.ctx, rest, whole)))
    RUN(&c, kf_stats_subtract(c.ctx, rest, part));
  return call_capsule(&c, rest, CAPSULE_STATS);
}

static PyObject *py_stats_save(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  const char *path;
  call c;
  if (!check_count("stats_save", n, 2)) return NULL;
  const kf_stats *stats = capsule_get(args[0], CAPSULE_STATS);
  if (stats == NULL || !take_path(args[1], &path)) return NULL;
  return CALL(&c, module, kf_stats_save(c.ctx, stats, path)) ? Py_NewRef(Py_None) : NULL;
}

static PyObject *py_stats_load(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  const char *path;
  kf_stats *stats = NULL;
  call c;
  if (!check_count("stats_load", n, 1) || !take_path(args[0], &path) || !call_begin(&c, module))
    return NULL;
  RUN(&c, kf_stats_load(c.ctx, path, &stats));
  return call_capsule(&c, stats, CAPSULE_STATS);
}

static PyObject *py_stats_to_bytes(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  kf_bytes *bytes = NULL;
  call c;
  if (!check_count("stats_to_bytes", n, 1)) return NULL;
  const kf_stats *stats = capsule_get(args[0], CAPSULE_STATS);
  if (stats == NULL || !call_begin(&c, module)) return NULL;
  RUN(&c, kf_bytes_new_of_stats(c.ctx, stats, &bytes));
  return bytes_object(&c, bytes);
}

static PyObject *py_stats_from_bytes(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  Py_buffer bytes;
  kf_stats *stats = NULL;
  call c;
  if (!check_count("stats_from_bytes", n, 1) || !take_buffer(args[0], &bytes, false, 1, ANY_COUNT))
    return NULL;
  PyObject *capsule = NULL;
  if (call_begin(&c, module)) {
    RUN(&c, kf_stats_load_bytes(c.ctx, bytes.buf, (uint64_t)bytes.len, &stats));
    capsule = call_capsule(&c, stats, CAPSULE_STATS);
  }
  PyBuffer_Release(&bytes);
  return capsule;
}

/* --- contents --------------------------------------------------------------------------------- */

static const char *class_name(const void *stats, uint32_t k) {
  return kf_stats_class_name(stats, k);
}

/* stats_info(stats) -> (rows, dim, classes, normalized, exponent) */
static PyObject *py_stats_info(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  (void)module;
  if (!check_count("stats_info", n, 1)) return NULL;
  const kf_stats *s = capsule_get(args[0], CAPSULE_STATS);
  if (s == NULL) return NULL;
  return Py_BuildValue("(KIIii)", (unsigned long long)kf_stats_rows(s), kf_stats_dim(s),
                       kf_stats_classes(s), kf_stats_normalized(s), kf_stats_exponent(s));
}

static PyObject *py_stats_names(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  (void)module;
  if (!check_count("stats_names", n, 1)) return NULL;
  const kf_stats *s = capsule_get(args[0], CAPSULE_STATS);
  return s == NULL ? NULL : names_list(class_name, s, kf_stats_classes(s));
}

/* stats_counts(stats, out): int64 */
static PyObject *py_stats_counts(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  (void)module;
  Py_buffer out;
  if (!check_count("stats_counts", n, 2)) return NULL;
  const kf_stats *s = capsule_get(args[0], CAPSULE_STATS);
  if (s == NULL || !take_buffer(args[1], &out, true, sizeof(int64_t), kf_stats_classes(s)))
    return NULL;
  int64_t *counts = out.buf;
  for (uint32_t k = 0; k < kf_stats_classes(s); k++) counts[k] = kf_stats_count(s, k);
  PyBuffer_Release(&out);
  Py_RETURN_NONE;
}

/* stats_scatter(stats, within, between, mean): f64 */
static PyObject *py_stats_scatter(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  Py_buffer out[3];
  call c;
  if (!check_count("stats_scatter", n, 4)) return NULL;
  const kf_stats *s = capsule_get(args[0], CAPSULE_STATS);
  if (s == NULL) return NULL;
  uint64_t d = kf_stats_dim(s), sizes[3] = {d * d, d * d, d};
  int taken = 0;
  while (taken < 3 && take_buffer(args[taken + 1], &out[taken], true, sizeof(double), sizes[taken]))
    taken++;
  bool fine = taken == 3 &&
              CALL(&c, module, kf_stats_scatter(c.ctx, s, out[0].buf, out[1].buf, out[2].buf));
  while (taken > 0) PyBuffer_Release(&out[--taken]);
  return fine ? Py_NewRef(Py_None) : NULL;
}

PyMethodDef stats_methods[] = {
    METHOD(stats_of),    METHOD(stats_merged),   METHOD(stats_less),       METHOD(stats_save),
    METHOD(stats_load),  METHOD(stats_to_bytes), METHOD(stats_from_bytes), METHOD(stats_info),
    METHOD(stats_names), METHOD(stats_counts),   METHOD(stats_scatter),    {0}};
