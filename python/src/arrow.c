/* arrow.c - rows of Arrow arrays, by the Arrow C data and stream interfaces: polars, pyarrow, duckdb.
 *
 * Rows are lists of floats: fixed-size lists, or lists that all have the same length. They may be the
 * only column of a table, and come in any number of chunks. */
#include "koofu_py.h"

#include <stdlib.h>
#include <string.h>

/* As the specification has them. */
struct ArrowSchema {
  const char *format, *name, *metadata;
  int64_t flags, n_children;
  struct ArrowSchema **children, *dictionary;
  void (*release)(struct ArrowSchema *);
  void *private_data;
};
struct ArrowArray {
  int64_t length, null_count, offset, n_buffers, n_children;
  const void **buffers;
  struct ArrowArray **children, *dictionary;
  void (*release)(struct ArrowArray *);
  void *private_data;
};
struct ArrowArrayStream {
  int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *);
  int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *);
  const char *(*get_last_error)(struct ArrowArrayStream *);
  void (*release)(struct ArrowArrayStream *);
  void *private_data;
};

typedef enum list_kind { LIST_FIXED, LIST_32, LIST_64 } list_kind;

/* What the schema says about a column of rows. */
typedef struct layout {
  bool in_table; /* the array is a struct with this column alone */
  list_kind kind;
  int64_t columns; /* fixed-size lists only */
  kf_dtype dtype;
  size_t size; /* of an element */
} layout;

/* --- the schema ------------------------------------------------------------------------------------------ */

static bool fail_schema(const struct ArrowSchema *schema, const char *what) {
  PyErr_Format(
      PyExc_TypeError,
      "%s has the Arrow format '%s'; rows are lists of float16, float32 or float64, of one "
      "length",
      what, schema->format);
  return false;
}

static bool read_element(layout *l, const struct ArrowSchema *list, const char *what) {
  const char *format = list->n_children == 1 ? list->children[0]->format : "";
  static const struct {
    const char *format;
    kf_dtype dtype;
    size_t size;
  } known[] = {{"e", KF_F16, 2}, {"f", KF_F32, 4}, {"g", KF_F64, 8}};
  for (size_t i = 0; i < COUNT_OF(known); i++)
    if (strcmp(format, known[i].format) == 0) {
      l->dtype = known[i].dtype;
      l->size = known[i].size;
      return true;
    }
  return fail_schema(list->n_children == 1 ? list->children[0] : list, what);
}

static bool read_schema(layout *l, const struct ArrowSchema *schema, const char *what) {
  *l = (layout){0};
  if (strcmp(schema->format, "+s") == 0) {
    if (schema->n_children != 1) {
      PyErr_Format(PyExc_ValueError,
                   "%s is a table of %lld columns; give the one that holds the rows", what,
                   (long long)schema->n_children);
      return false;
    }
    l->in_table = true;
    schema = schema->children[0];
  }
  if (strncmp(schema->format, "+w:", 3) == 0) {
    l->kind = LIST_FIXED;
    l->columns = strtoll(schema->format + 3, NULL, 10);
  } else if (strcmp(schema->format, "+l") == 0) {
    l->kind = LIST_32;
  } else if (strcmp(schema->format, "+L") == 0) {
    l->kind = LIST_64;
  } else {
    return fail_schema(schema, what);
  }
  return read_element(l, schema, what);
}

/* --- one chunk ------------------------------------------------------------------------------------------- */

/* Whether elements [first, first + n) are all there; *at: the first that is not. */
static bool all_valid(const struct ArrowArray *array, int64_t first, int64_t n, int64_t *at) {
  if (array->null_count == 0 || array->n_buffers < 1 || array->buffers[0] == NULL) return true;
  const unsigned char *bits = array->buffers[0];
  for (int64_t i = first; i < first + n; i++)
    if ((bits[i / 8] >> (i % 8) & 1) == 0) {
      *at = i - first;
      return false;
    }
  return true;
}

static bool fail_null(const rows *r, int64_t row, const char *where, const char *what) {
  PyErr_Format(PyExc_ValueError, "%s: row %llu is missing%s (null)", what,
               (unsigned long long)r->total + (unsigned long long)row, where);
  return false;
}

static int64_t list_end(const struct ArrowArray *list, const layout *l, int64_t i) {
  const void *offsets = list->buffers[1];
  return l->kind == LIST_32 ? ((const int32_t *)offsets)[i] : ((const int64_t *)offsets)[i];
}

/* Where the elements of rows [first, first + n) begin, and how long each row is. */
static bool find_elements(const rows *r, const struct ArrowArray *list, const layout *l,
                          int64_t first, int64_t n, int64_t *begin, int64_t *columns,
                          const char *what) {
  if (l->kind == LIST_FIXED) {
    *columns = l->columns;
    *begin = first * l->columns;
    return true;
  }
  *begin = list_end(list, l, first);
  *columns = list_end(list, l, first + 1) - *begin;
  for (int64_t i = 1; i < n; i++) {
    int64_t length = list_end(list, l, first + i + 1) - list_end(list, l, first + i);
    if (length == *columns) continue;
    PyErr_Format(PyExc_ValueError, "%s: row %llu has %lld columns, and row %llu has %lld", what,
                 (unsigned long long)r->total, (long long)*columns,
                 (unsigned long long)r->total + (unsigned long long)i, (long long)length);
    return false;
  }
  return true;
}

static bool add_chunk(rows *r, const struct ArrowArray *array, const layout *l, const char *what) {
  int64_t n = array->length, first = array->offset, at = 0, begin, columns;
  const struct ArrowArray *list = array;
  if (n == 0) return true;
  if (l->in_table) {
    if (!all_valid(array, first, n, &at)) return fail_null(r, at, "", what);
    list = array->children[0];
    first += list->offset;
  }
  if (!all_valid(list, first, n, &at)) return fail_null(r, at, "", what);
  if (!find_elements(r, list, l, first, n, &begin, &columns, what)) return false;
  if (!rows_columns(r, columns < 0 ? 0 : (uint64_t)columns, what)) return false;
  const struct ArrowArray *elements = list->children[0];
  begin += elements->offset;
  if (!all_valid(elements, begin, n * columns, &at))
    return fail_null(r, at / columns, " a column", what);
  return rows_add(r,
                  &(kf_array){.rows = (const char *)elements->buffers[1] + begin * (int64_t)l->size,
                              .n = (uint64_t)n,
                              .dtype = l->dtype});
}

/* --- arrays and streams ------------------------------------------------------------------------------------ */

static void release_array(void *what) {
  struct ArrowArray *array = what;
  if (array->release != NULL) array->release(array);
  PyMem_Free(array);
}

/* Moves an array to where it lives as long as the rows. NULL: an exception is set. */
static struct ArrowArray *keep_array(rows *r, struct ArrowArray *from) {
  struct ArrowArray *array = PyMem_Malloc(sizeof *array);
  if (array == NULL) {
    if (from->release != NULL) from->release(from);
    PyErr_NoMemory();
    return NULL;
  }
  *array = *from;
  from->release = NULL;
  return rows_keep(r, release_array, array) ? array : NULL;
}

static bool fail_stream(struct ArrowArrayStream *stream, const char *what) {
  if (PyErr_Occurred()) return false;
  const char *cause = stream->get_last_error(stream);
  PyErr_Format(PyExc_ValueError, "%s: the Arrow stream failed: %s", what,
               cause != NULL ? cause : "no reason was given");
  return false;
}

static bool add_stream(rows *r, struct ArrowArrayStream *stream, const char *what) {
  struct ArrowSchema schema = {0};
  layout l;
  if (stream->get_schema(stream, &schema) != 0) return fail_stream(stream, what);
  bool fine = read_schema(&l, &schema, what);
  if (schema.release != NULL) schema.release(&schema);
  if (fine && l.kind == LIST_FIXED) fine = rows_columns(r, (uint64_t)l.columns, what);
  while (fine) {
    struct ArrowArray next = {0};
    if (stream->get_next(stream, &next) != 0) return fail_stream(stream, what);
    if (next.release == NULL) break;
    struct ArrowArray *kept = keep_array(r, &next);
    fine = kept != NULL && add_chunk(r, kept, &l, what);
  }
  return fine;
}

static int from_stream(rows *r, PyObject *object, const char *what) {
  PyObject *capsule = PyObject_CallMethod(object, "__arrow_c_stream__", NULL);
  if (capsule == NULL) return -1;
  struct ArrowArrayStream *stream = PyCapsule_GetPointer(capsule, "arrow_array_stream");
  bool fine = stream != NULL && add_stream(r, stream, what);
  Py_DECREF(capsule); /* releases the stream */
  return fine ? 1 : -1;
}

static int from_array(rows *r, PyObject *object, const char *what) {
  PyObject *both = PyObject_CallMethod(object, "__arrow_c_array__", NULL), *first, *second;
  if (both == NULL) return -1;
  bool fine = PyArg_ParseTuple(both, "OO", &first, &second);
  struct ArrowSchema *schema = fine ? PyCapsule_GetPointer(first, "arrow_schema") : NULL;
  struct ArrowArray *array = schema != NULL ? PyCapsule_GetPointer(second, "arrow_array") : NULL;
  layout l;
  fine = array != NULL && read_schema(&l, schema, what);
  if (fine && l.kind == LIST_FIXED) fine = rows_columns(r, (uint64_t)l.columns, what);
  if (fine) {
    struct ArrowArray *kept = keep_array(r, array);
    fine = kept != NULL && add_chunk(r, kept, &l, what);
  }
  Py_DECREF(both);
  return fine ? 1 : -1;
}

int rows_from_arrow(rows *r, PyObject *object, const char *what) {
  if (PyObject_HasAttrString(object, "__arrow_c_stream__")) return from_stream(r, object, what);
  if (PyObject_HasAttrString(object, "__arrow_c_array__")) return from_array(r, object, what);
  return 0;
}
