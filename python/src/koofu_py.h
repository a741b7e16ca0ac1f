/* koofu_py.h - the extension module koofu._koofu: functions over capsules, nothing else.
 *
 * SPDX-License-Identifier: Apache-2.0
 *
 * Each function serves a class of the package (../koofu): it checks arguments, releases the
 * interpreter, calls the library, and converts the answer to a Python object. What a user sees
 * (names, defaults, words) is in Python. */
#ifndef KOOFU_PY_H
#define KOOFU_PY_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>

#include "koofu.h"
#include "koofu_comm.h"
#include "koofu_encode.h"
#include "koofu_files.h"
#include "koofu_judge.h"

_Static_assert(PY_VERSION_HEX >= 0x030B0000, "koofu needs Python 3.11 or newer");

/* --- calls of the library (call.c) ------------------------------------------------------------ */

/* A call has a context to itself. Contexts are reused by later calls, so there are as many as there
 * ever were simultaneous calls. */
typedef struct call {
  struct slot *slot;
  kf_ctx *ctx;
  PyObject *module;
  kf_status status;
  bool away; /* the interpreter is released */
} call;

/* false: an exception is set, and the call has not begun. */
bool call_begin(call *c, PyObject *module);
/* Releases the interpreter. False: the call has already failed. */
bool call_leave(call *c);
/* Takes the interpreter back. True: no failure. */
bool call_return(call *c, kf_status status);
/* Evaluates an expression of type kf_status without the interpreter, unless an earlier one failed.
 * True: no failure. */
#define RUN(c, expression) call_return((c), call_leave(c) ? (expression) : (c)->status)
/* A whole call with one expression. False: an exception is set. */
#define CALL(c, module, expression)                                                                \
  (call_begin((c), (module)) && (RUN((c), (expression)), call_end(c)))
/* To be called between blocks of long work, without the interpreter: `done` of `total` rows.
 * KF_ERR_CANCELLED: interrupted. */
kf_status call_look(call *c, uint64_t done, uint64_t total);
/* Ends the call. False: an exception is set, by the library, an interrupt or earlier code. */
bool call_end(call *c);

PyObject *py_configure(PyObject *module, PyObject *const *args, Py_ssize_t n);
PyObject *py_set_hooks(PyObject *module, PyObject *const *args, Py_ssize_t n);
PyObject *py_threads(PyObject *module, PyObject *const *args, Py_ssize_t n);
/* State of the module: functions that make an exception, log a note, and show progress. */
typedef struct hooks {
  PyObject *error, *note, *report;
} hooks;

/* --- arguments and results (convert.c) -------------------------------------------------------- */

bool check_count(const char *function, Py_ssize_t n, Py_ssize_t wanted);

/* A member of an option or result struct, by its name in a dictionary. */
typedef enum field_kind {
  FIELD_I32,
  FIELD_U32,
  FIELD_U64,
  FIELD_F64,
  FIELD_PATH,
  FIELD_TEXT
} field_kind;
typedef struct field {
  const char *name;
  field_kind kind;
  size_t offset;
} field;
/* Sets members from a dictionary (or None); others stay unchanged. Paths are bytes, texts str; both
 * are borrowed from the dictionary. */
bool fields_fill(void *to, const field *fields, size_t n, PyObject *from);
/* A new dictionary with the members. */
PyObject *fields_dict(const void *from, const field *fields, size_t n);
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* A new tuple with the items of a list or tuple, from which items may be borrowed: Python code that
 * runs in the meantime cannot change it. NULL: an exception is set. */
PyObject *take_items(PyObject *list);
/* For PyArg_ParseTuple, which raises SystemError for anything but a tuple. */
bool check_tuple(PyObject *object, const char *what);
/* The strings (str or bytes) of a list or tuple; NULL for None. Free *out with PyMem_Free; the
 * strings are borrowed from the list. */
bool take_strings(PyObject *list, const char ***out, size_t *n);
bool take_path(PyObject *bytes, const char **out);
bool take_u32(PyObject *number, uint32_t *out);
bool take_u64(PyObject *number, uint64_t *out);
bool take_double(PyObject *number, double *out);
/* A contiguous buffer of `count` items of `size` bytes. */
bool take_buffer(PyObject *object, Py_buffer *view, bool writable, size_t size, uint64_t count);
#define ANY_COUNT UINT64_MAX
/* n * columns or, if that overflows, a size that no buffer has. */
uint64_t table_size(uint64_t n, uint64_t columns);
/* The n names that a function like kf_model_class_name returns, as a list of str; None if classes
 * have no names. */
PyObject *names_list(const char *(*name)(const void *, uint32_t), const void *of, uint32_t n);

/* Ends a call that makes bytes: converts them to a Python object and frees them. */
PyObject *bytes_object(call *c, kf_bytes *bytes);

/* --- capsules --------------------------------------------------------------------------------- */

#define CAPSULE_ROWS     "koofu.rows"
#define CAPSULE_DATA     "koofu.data"
#define CAPSULE_STATS    "koofu.stats"
#define CAPSULE_MODEL    "koofu.model"
#define CAPSULE_TEXT     "koofu.text"
#define CAPSULE_GALLERY  "koofu.gallery"
#define CAPSULE_FILTER   "koofu.filter"
#define CAPSULE_ENCODER  "koofu.encoder"
#define CAPSULE_SET      "koofu.class_set"
#define CAPSULE_TRUTH    "koofu.truth"
#define CAPSULE_VERDICTS "koofu.verdicts"

/* A capsule that owns `object`. NULL: an exception is set, and the object is freed. */
PyObject *capsule_new(void *object, const char *name);
/* Ends a call that makes an object: a capsule that owns it. NULL: an exception is set. */
PyObject *call_capsule(call *c, void *object, const char *name);
void *capsule_get(PyObject *capsule, const char *name); /* NULL: an exception is set */
/* The same, or NULL for None; false: an exception is set. */
bool capsule_maybe(PyObject *capsule, const char *name, void **out);

/* --- rows (rows.c, dlpack.c, arrow.c) --------------------------------------------------------- */

/* The rows of a Python object, not copied, and what keeps them alive. */
typedef struct rows {
  kf_array *arrays;
  size_t n, room;
  uint32_t dim;
  uint64_t total;
  struct keeper *keepers;
} rows;
/* False: an exception is set, and nothing is to be released. what: the name of the argument. */
bool rows_take(rows *r, PyObject *object, const char *what);
void rows_release(rows *r);
/* For the sources of rows: add an array, and something to release with the rows. */
bool rows_add(rows *r, const kf_array *array, const char *what);
bool rows_keep(rows *r, void (*release)(void *), void *what);
/* A 2-D array as an object describes it, perhaps wrongly. */
typedef struct strided {
  const void *data;               /* element (0, 0) */
  const int64_t *shape, *strides; /* [2] */
  int64_t unit;                   /* bytes per unit of the strides */
  kf_dtype dtype;
  size_t size; /* of an element */
} strided;
bool rows_add_strided(rows *r, const strided *s, const char *what);
bool rows_check_ndim(int ndim, const char *what);
/* Releases an object of another library, which may run Python code; a pending exception is set
 * aside meanwhile. */
void rows_let_go(void (*release)(void *), void *what);
void rows_decref(void *object); /* a `release` */
/* The pointer in a capsule of another library. NULL: an exception is set. */
void *rows_capsule(PyObject *capsule, const char *name, const char *what);
/* 1: taken; 0: the object is not of this kind; -1: an exception is set. */
int rows_from_dlpack(rows *r, PyObject *object, const char *what);
int rows_from_arrow(rows *r, PyObject *object, const char *what);
/* Sets the number of columns, or checks that it is the same as before. */
bool rows_columns(rows *r, int64_t dim, const char *what);
/* rows(object, what) -> a capsule that all functions accept instead of the object: some objects,
 * such as Arrow streams, give their rows only once. */
PyObject *py_rows(PyObject *module, PyObject *const *args, Py_ssize_t n);
/* The rows, if they are one packed f32 array; otherwise NULL. */
const float *rows_plain(const rows *r);

/* --- data sets (data.c) ----------------------------------------------------------------------- */

/* Input rows: a capsule of a data set, or arrays. */
typedef struct source {
  kf_data *data; /* NULL: rows are in `plain` */
  kf_data *own;  /* `data`, if the source opened it */
  const float *plain;
  uint64_t n;
  uint32_t dim;
  uint64_t block; /* rows at a time; 0: a good number */
  rows held;
} source;
bool source_open(source *s, call *c, PyObject *object, const char *what);
void source_close(source *s);
/* Calls `work` for all rows, block by block, in order and without the interpreter. */
typedef kf_status (*block_fn)(void *argument, kf_ctx *ctx, uint64_t first, uint64_t n,
                              const float *rows);
bool source_each(source *s, call *c, block_fn work, void *argument);

/* --- galleries (gallery.c, changes.c, within.c) ----------------------------------------------- */

/* The filter of a capsule, or NULL for None; false: an exception is set. */
bool filter_take(PyObject *capsule, const kf_filter **out);
/* Options of a search, and the buffers they point into. */
typedef struct query_options {
  kf_search_options options;
  Py_buffer leave_out, mean;
  bool has_leave_out, has_mean;
} query_options;
/* args: leave_out, text_mean and a filter, or None. */
bool query_options_take(query_options *q, const kf_gallery *g, PyObject *const *args);
void query_options_release(query_options *q);
/* Whether queries have the right columns, and leave_out is as long. The library gets pointers and
 * cannot tell. */
bool check_queries(const source *from, const kf_gallery *g, const query_options *q);
/* (rows, added, removed, missing, bytes, changes) */
PyObject *change_tuple(const kf_gallery_change *change);

/* Sets members from a dictionary (model.c). */
bool fit_options(kf_fit_options *o, PyObject *options);

/* --- the functions ---------------------------------------------------------------------------- */

#define METHOD(name)                                                                               \
  { #name, (PyCFunction)(void (*)(void))py_##name, METH_FASTCALL, NULL }
extern PyMethodDef data_methods[], stats_methods[], model_methods[], text_methods[],
    gallery_methods[], encoder_methods[], judge_methods[];
extern PyMethodDef callback_methods[], change_methods[], within_methods[], file_methods[];

#endif
