/* koofu_py.h - the extension module koofu._koofu: functions over capsules, nothing else.
 *
 * SPDX-License-Identifier: Apache-2.0
 *
 * Every function here does one thing for a class of the package (../koofu): it takes arguments apart,
 * lets go of the interpreter, calls the library, and makes a Python object of the answer. What a
 * user sees, names, defaults and words, is in Python. */
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

/* A call has a context of its own while it lasts. Contexts are kept for later calls: as many as there
 * have been calls at the same time. */
typedef struct call {
  struct slot *slot;
  kf_ctx *ctx;
  PyObject *module;
  kf_status status;
  bool away; /* the interpreter is free for other threads */
} call;

/* false: an exception is set, and the call has not begun. */
bool call_begin(call *c, PyObject *module);
/* Lets go of the interpreter; false: the call has failed already. */
bool call_leave(call *c);
/* Takes it back. true: all is well. */
bool call_return(call *c, kf_status status);
/* Runs an expression that gives a kf_status, unless one has failed before, while other threads may
 * use the interpreter. true: all is well. */
#define RUN(c, expression) call_return((c), call_leave(c) ? (expression) : (c)->status)
/* A whole call of one expression. true: all is well. */
#define CALL(c, module, expression)                                                                \
  (call_begin((c), (module)) && (RUN((c), (expression)), call_end(c)))
/* Between blocks of long work, without the interpreter: KF_ERR_CANCELLED if the user interrupts. */
kf_status call_look(call *c);
/* Ends the call. false: an exception is set, because of the library, an interrupt or what was set
 * before. */
bool call_end(call *c);

PyObject *py_configure(PyObject *module, PyObject *const *args, Py_ssize_t n);
PyObject *py_set_hooks(PyObject *module, PyObject *const *args, Py_ssize_t n);
PyObject *py_threads(PyObject *module, PyObject *const *args, Py_ssize_t n);
/* Of the module: what to call when something is wrong, or worth a note. */
typedef struct hooks {
  PyObject *error, *note;
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
/* Fills in members from a dictionary (or None); what it lacks stays as it is. Paths are bytes, texts
 * str; both stay the dictionary's. */
bool fields_fill(void *to, const field *fields, size_t n, PyObject *from);
/* A new dictionary of the members. */
PyObject *fields_dict(const void *from, const field *fields, size_t n);
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* The items of a list or tuple as a tuple of our own: items are borrowed from it, and code that runs
 * meanwhile cannot change it. NULL: an exception is set. */
PyObject *take_items(PyObject *list);
/* For PyArg_ParseTuple, which reports anything but a tuple as a SystemError. */
bool check_tuple(PyObject *object, const char *what);
/* Strings of a list or tuple, str or bytes, or NULL for None; `out` is freed with PyMem_Free, the
 * strings are the list's. */
bool take_strings(PyObject *list, const char ***out, size_t *n);
bool take_path(PyObject *bytes, const char **out);
bool take_u32(PyObject *number, uint32_t *out);
bool take_u64(PyObject *number, uint64_t *out);
bool take_double(PyObject *number, double *out);
/* A contiguous buffer of `count` items of `size` bytes. */
bool take_buffer(PyObject *object, Py_buffer *view, bool writable, size_t size, uint64_t count);
#define ANY_COUNT UINT64_MAX
/* n * columns; if that overflows, a number of items that no buffer has. */
uint64_t table_size(uint64_t n, uint64_t columns);
/* The length of the list that a function like kf_model_class_name gives, as a list of str; None if
 * classes have no names. */
PyObject *names_list(const char *(*name)(const void *, uint32_t), const void *of, uint32_t n);

/* Ends a call that makes bytes: a Python object of them, and frees them. */
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

/* A capsule that owns `object`, which is freed if there can be none. */
PyObject *capsule_new(void *object, const char *name);
/* Ends a call that makes an object: a capsule that owns it. NULL: an exception is set. */
PyObject *call_capsule(call *c, void *object, const char *name);
void *capsule_get(PyObject *capsule, const char *name); /* NULL: an exception is set */
/* The same, or NULL for None; false: an exception is set. */
bool capsule_maybe(PyObject *capsule, const char *name, void **out);

/* --- rows (rows.c, dlpack.c, arrow.c) --------------------------------------------------------- */

/* The rows of a Python object where they are, without a copy, and what keeps them there. */
typedef struct rows {
  kf_array *arrays;
  size_t n, room;
  uint32_t dim;
  uint64_t total;
  struct keeper *keepers;
} rows;
/* false: an exception is set, and there is nothing to release. `what` is the name of the argument. */
bool rows_take(rows *r, PyObject *object, const char *what);
void rows_release(rows *r);
/* For sources: adds an array, and something to release with the rows. */
bool rows_add(rows *r, const kf_array *array, const char *what);
bool rows_keep(rows *r, void (*release)(void *), void *what);
/* Two dimensions as an object describes them, which may be wrong. */
typedef struct strided {
  const void *data;               /* element (0, 0) */
  const int64_t *shape, *strides; /* [2] */
  int64_t unit;                   /* of strides, in bytes */
  kf_dtype dtype;
  size_t size; /* of an element */
} strided;
bool rows_add_strided(rows *r, const strided *s, const char *what);
bool rows_check_ndim(int ndim, const char *what);
/* Releases something of another library, which may run Python and must not see an exception that is
 * under way. */
void rows_let_go(void (*release)(void *), void *what);
void rows_decref(void *object); /* a `release` */
/* The pointer in a capsule of another library. NULL: an exception is set. */
void *rows_capsule(PyObject *capsule, const char *name, const char *what);
/* -1: an exception is set; 0: the object is not of this kind; 1: taken. */
int rows_from_dlpack(rows *r, PyObject *object, const char *what);
int rows_from_arrow(rows *r, PyObject *object, const char *what);
/* Sets or compares the number of columns. */
bool rows_columns(rows *r, int64_t dim, const char *what);
/* rows(object, what) -> a capsule that every function takes in the place of the object: some, as Arrow
 * streams, can be asked for their rows but once. */
PyObject *py_rows(PyObject *module, PyObject *const *args, Py_ssize_t n);
/* As one array of packed f32, or NULL if they are not. */
const float *rows_plain(const rows *r);

/* --- data sets (data.c) ----------------------------------------------------------------------- */

/* Rows to work on: a capsule of a data set, or arrays. */
typedef struct source {
  kf_data *data; /* NULL: `plain` */
  kf_data *own;
  const float *plain;
  uint64_t n;
  uint32_t dim;
  uint64_t block; /* rows at a time; 0: as many as are good */
  rows held;
} source;
bool source_open(source *s, call *c, PyObject *object, const char *what);
void source_close(source *s);
/* Calls `work` with blocks of rows, in order and without the interpreter. */
typedef kf_status (*block_fn)(void *argument, kf_ctx *ctx, uint64_t first, uint64_t n,
                              const float *rows);
bool source_each(source *s, call *c, block_fn work, void *argument);

/* --- galleries (gallery.c, living.c, within.c) ------------------------------------------------ */

/* The filter of a capsule, or NULL for None; false: an exception is set. */
bool filter_take(PyObject *capsule, const kf_filter **out);
/* Columns as the gallery takes them, and as many rows to leave out as there are queries: the library sees
 * pointers, and could not tell. */
bool check_queries(const source *from, const kf_gallery *g, bool leaves, uint64_t n_leaves);
/* (rows, added, removed, missing, bytes, changes) */
PyObject *change_tuple(const kf_gallery_change *change);

/* kf_fit_options from a dictionary (model.c). */
bool fit_options(kf_fit_options *o, PyObject *options);

/* --- the functions ---------------------------------------------------------------------------- */

#define METHOD(name)                                                                               \
  { #name, (PyCFunction)(void (*)(void))py_##name, METH_FASTCALL, NULL }
extern PyMethodDef data_methods[], stats_methods[], model_methods[], text_methods[],
    gallery_methods[], encoder_methods[], judge_methods[];
extern PyMethodDef brought_methods[], living_methods[], within_methods[], file_methods[];

#endif
