/* arrow.c - rows of Arrow arrays, through the Arrow C data and stream interfaces: polars, pyarrow,
 * duckdb.
 *
 * Rows are lists of floats: fixed-size lists, or lists that all have the same length. They may be
 * the only column of a table, and come in any number of chunks. */
#include "koofu_py.h"

#include <stdlib.h>
#include <string.h>

/* From the specification. */
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
  bool in_table; /* the array is a struct with this single column */
  list_kind kind;
  int64_t columns; /* fixed-size lists only */
  kf_dtype dtype;
  size_t size; /* of an element */
} layout;

/* --- the schema ------------------------------------------------------------------------------- */

static bool fail_format(const struct ArrowSchema *schema, const char *what) {
  PyErr_Format(
      PyExc_TypeError,
      "%s has the Arrow format '%s'; rows are lists of float16, float32 or float64, of one "
      "length",
      what, schema->format);
  return false;
}

static bool fail_array(const char *what, const char *cause) {
  PyErr_Format(PyExc_ValueError, "%s is an Arrow array that %s", what, cause);
  return false;
}

static bool check_schema(const struct ArrowSchema *s, const char *what) {
  if (s == NULL) return fail_array(what, "lacks a child");
  if (s->release == NULL) return fail_array(what, "has been released");
  if (s->format == NULL) return fail_array(what, "has no format");
  if (s->dictionary != NULL) return fail_array(what, "is encoded by a dictionary");
  if (s->n_children < 0 || (s->n_children > 0 && s->children == NULL))
    return fail_array(what, "lacks children that its schema announces");
  return true;
}

static bool read_element(layout *l, const struct ArrowSchema *list, const char *what) {
  static const struct {
    const char *format;
    kf_dtype dtype;
    size_t size;
  } known[] = {{"e", KF_F16, 2}, {"f", KF_F32, 4}, {"g", KF_F64, 8}};
  if (list->n_children != 1) return fail_format(list, what);
  const struct ArrowSchema *element = list->children[0];
  if (!check_schema(element, what)) return false;
  for (size_t i = 0; i < COUNT_OF(known); i++)
    if (strcmp(element->format, known[i].format) == 0) {
      l->dtype = known[i].dtype;
      l->size = known[i].size;
      return true;
    }
  return fail_format(element, what);
}

/* The number in '+w:16'; -1: invalid. */
static int64_t fixed_length(const char *format) {
  const char *digits = format + strlen("+w:");
  bool plain = digits[0] != '\0' && digits[strspn(digits, "0123456789")] == '\0';
  return plain ? strtoll(digits, NULL, 10) : -1; /* LLONG_MAX if too large */
}

static bool read_schema(rows *r, layout *l, const struct ArrowSchema *schema, const char *what) {
  *l = (layout){0};
  if (!check_schema(schema, what)) return false;
  if (strcmp(schema->format, "+s") == 0) {
    if (schema->n_children != 1) {
      PyErr_Format(PyExc_ValueError,
                   "%s is a table of %lld columns; give the one that holds the rows", what,
                   (long long)schema->n_children);
      return false;
    }
    l->in_table = true;
    schema = schema->children[0];
    if (!check_schema(schema, what)) return false;
  }
  if (strncmp(schema->format, "+w:", 3) == 0) {
    l->kind = LIST_FIXED;
    l->columns = fixed_length(schema->format);
    if (l->columns < 0) return fail_format(schema, what);
    if (!rows_columns(r, l->columns, what)) return false;
  } else if (strcmp(schema->format, "+l") == 0) {
    l->kind = LIST_32;
  } else if (strcmp(schema->format, "+L") == 0) {
    l->kind = LIST_64;
  } else {
    return fail_format(schema, what);
  }
  return read_element(l, schema, what);
}

/* --- one chunk -------------------------------------------------------------------------------- */

/* Everything an array says about itself is checked, since pyarrow, for one, loads files without
 * validating them. Only the sizes of buffers are trusted, since the interface does not have
 * them. */

/* More than fits in memory. Sums of a few of these, in bytes, do not overflow. */
#define MAX_ELEMENTS (INT64_MAX / 32)

/* Whether an array has the parts that its format requires, and possible sizes. */
static bool check_array(const struct ArrowArray *a, int64_t n_buffers, int64_t n_children,
                        const char *what) {
  if (a == NULL) return fail_array(what, "lacks a child");
  if (a->release == NULL) return fail_array(what, "has been released");
  if (a->length < 0 || a->offset < 0 || a->length > MAX_ELEMENTS || a->offset > MAX_ELEMENTS)
    return fail_array(what, "has an impossible length or offset");
  if (a->n_buffers != n_buffers || a->buffers == NULL)
    return fail_array(what, "has the wrong number of buffers for its format");
  if (a->n_children != n_children || (n_children > 0 && a->children == NULL))
    return fail_array(what, "has the wrong number of children for its format");
  if (a->dictionary != NULL) return fail_array(what, "is encoded by a dictionary");
  if (a->null_count < -1 || a->null_count > a->length ||
      (a->null_count > 0 && a->buffers[0] == NULL))
    return fail_array(what, "has an impossible number of nulls");
  return true;
}

/* Whether no element of [first, first + n) is null; *at: the first that is. */
static bool all_valid(const struct ArrowArray *array, int64_t first, int64_t n, int64_t *at) {
  if (array->null_count == 0 || array->buffers[0] == NULL) return true;
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

/* Addresses need not be aligned. */
static int64_t list_end(const struct ArrowArray *list, const layout *l, int64_t i) {
  const char *offsets = list->buffers[1];
  int64_t end;
  if (l->kind == LIST_32) {
    int32_t narrow;
    memcpy(&narrow, offsets + i * (int64_t)sizeof narrow, sizeof narrow);
    return narrow;
  }
  memcpy(&end, offsets + i * (int64_t)sizeof end, sizeof end);
  return end;
}

/* Where the elements of rows [first, first + n) begin, and how long each row is. */
static bool find_elements(const rows *r, const struct ArrowArray *list, const layout *l,
                          int64_t first, int64_t n, int64_t *begin, int64_t *columns,
                          const char *what) {
  int64_t there = list->children[0]->length, end;
  if (l->kind == LIST_FIXED) {
    if (first + n > there / l->columns)
      return fail_array(what, "has fewer elements than its rows need");
    *columns = l->columns;
    *begin = first * l->columns;
    return true;
  }
  if (list->buffers[1] == NULL) return fail_array(what, "has no offsets");
  *begin = end = list_end(list, l, first);
  if (end < 0) return fail_array(what, "has a negative offset");
  for (int64_t i = 0; i < n; i++) {
    int64_t from = end;
    end = list_end(list, l, first + i + 1);
    if (end < from || end > there) {
      PyErr_Format(PyExc_ValueError,
                   "%s: row %llu has elements %lld to %lld of an Arrow array of %lld", what,
                   (unsigned long long)r->total + (unsigned long long)i, (long long)from,
                   (long long)end, (long long)there);
      return false;
    }
    if (i == 0) *columns = end - from;
    if (end - from == *columns) continue;
    PyErr_Format(PyExc_ValueError, "%s: row %llu has %lld columns, and row %llu has %lld", what,
                 (unsigned long long)r->total, (long long)*columns,
                 (unsigned long long)r->total + (unsigned long long)i, (long long)(end - from));
    return false;
  }
  return true;
}

static bool add_chunk(rows *r, const struct ArrowArray *array, const layout *l, const char *what) {
  int64_t n = array->length, first = 0, at = 0, begin = 0, columns = 0;
  if (l->in_table && !check_array(array, 1, 1, what)) return false;
  const struct ArrowArray *list = l->in_table ? array->children[0] : array;
  if (!check_array(list, l->kind == LIST_FIXED ? 1 : 2, 1, what)) return false;
  const struct ArrowArray *elements = list->children[0];
  if (!check_array(elements, 2, 0, what)) return false;
  if (l->in_table) first = array->offset;
  if (first + n > list->length) return fail_array(what, "has fewer rows than its table");
  if (n == 0) return true;
  if (l->in_table && !all_valid(array, first, n, &at)) return fail_null(r, at, "", what);
  first += list->offset;
  if (!all_valid(list, first, n, &at)) return fail_null(r, at, "", what);
  if (!find_elements(r, list, l, first, n, &begin, &columns, what)) return false;
  if (!rows_columns(r, columns, what)) return false;
  begin += elements->offset;
  if (elements->buffers[1] == NULL) return fail_array(what, "has no values");
  if (!all_valid(elements, begin, n * columns, &at))
    return fail_null(r, at / columns, " a column", what);
  return rows_add(r,
                  &(kf_array){.rows = (const char *)elements->buffers[1] + begin * (int64_t)l->size,
                              .n = (uint64_t)n,
                              .dtype = l->dtype},
                  what);
}

/* --- arrays and streams ----------------------------------------------------------------------- */

static void release_schema(void *what) {
  struct ArrowSchema *schema = what;
  if (schema->release != NULL) schema->release(schema);
}

static void release_array(void *what) {
  struct ArrowArray *array = what;
  if (array->release != NULL) array->release(array);
  PyMem_Free(array);
}

/* Moves an array into memory that lives as long as the rows. NULL: an exception is set. */
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
  const char *cause = stream->get_last_error != NULL ? stream->get_last_error(stream) : NULL;
  PyErr_Format(PyExc_ValueError, "%s: the Arrow stream failed: %s", what,
               cause != NULL ? cause : "no reason was given");
  return false;
}

static bool add_stream(rows *r, struct ArrowArrayStream *stream, const char *what) {
  struct ArrowSchema schema = {0};
  layout l;
  if (stream->release == NULL || stream->get_schema == NULL || stream->get_next == NULL)
    return fail_array(what, "has been released");
  if (stream->get_schema(stream, &schema) != 0) return fail_stream(stream, what);
  bool fine = read_schema(r, &l, &schema, what);
  rows_let_go(release_schema, &schema);
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
  struct ArrowArrayStream *stream = rows_capsule(capsule, "arrow_array_stream", what);
  bool fine = stream != NULL && add_stream(r, stream, what);
  rows_let_go(rows_decref, capsule); /* and with it the stream */
  return fine ? 1 : -1;
}

static int from_array(rows *r, PyObject *object, const char *what) {
  PyObject *both = PyObject_CallMethod(object, "__arrow_c_array__", NULL), *first, *second;
  if (both == NULL) return -1;
  bool fine =
      check_tuple(both, "a tuple from __arrow_c_array__") &&
      PyArg_ParseTuple(both, "OO;__arrow_c_array__ must return two capsules", &first, &second);
  struct ArrowSchema *schema = fine ? rows_capsule(first, "arrow_schema", what) : NULL;
  struct ArrowArray *array = schema != NULL ? rows_capsule(second, "arrow_array", what) : NULL;
  layout l;
  fine = array != NULL && read_schema(r, &l, schema, what);
  if (fine && array->release == NULL) fine = fail_array(what, "has been released");
  if (fine) {
    struct ArrowArray *kept = keep_array(r, array);
    fine = kept != NULL && add_chunk(r, kept, &l, what);
  }
  rows_let_go(rows_decref, both);
  return fine ? 1 : -1;
}

int rows_from_arrow(rows *r, PyObject *object, const char *what) {
  if (PyObject_HasAttrString(object, "__arrow_c_stream__")) return from_stream(r, object, what);
  if (PyObject_HasAttrString(object, "__arrow_c_array__")) return from_array(r, object, what);
  return 0;
}
