/* within.c - all rows that are near enough, and groups of near-duplicates.
 *
 * The number of answers is not known in advance. Each call of the library returns the answers of
 * some queries, which are kept in a list; at the end they are copied to arrays of the right size
 * and freed one by one. */
#include "koofu_py.h"

#include <stdlib.h>
#include <string.h>

typedef struct part {
  struct part *next;
  kf_ranges *ranges;
} part;

typedef struct range_search {
  call *call;
  const kf_gallery *gallery;
  double limit;
  query_options given;
  part *parts, **end;
  uint64_t queries, answers; /* so far */
  uint64_t total;            /* queries */
} range_search;

static void free_first(range_search *s) {
  part *first = s->parts;
  s->parts = first->next;
  kf_ranges_free(first->ranges);
  free(first);
}

static kf_status keep(range_search *s, kf_ranges *ranges) {
  part *p = malloc(sizeof *p);
  if (p == NULL) {
    kf_ranges_free(ranges);
    return KF_ERR_MEM;
  }
  *p = (part){.ranges = ranges};
  *s->end = p;
  s->end = &p->next;
  s->queries += ranges->queries;
  s->answers += ranges->queries > 0 ? ranges->ends[ranges->queries - 1] : 0;
  return KF_OK;
}

/* block NULL: the queries are rows of the gallery. */
static kf_status within_block(void *argument, kf_ctx *ctx, uint64_t first, uint64_t n,
                              const float *block) {
  range_search *s = argument;
  kf_status status =
      s->given.options.text_mean != NULL ? kf_gallery_prepare_text(ctx, s->gallery) : KF_OK;
  for (uint64_t done = 0; status == KF_OK && done < n;) {
    kf_ranges *r;
    kf_search_options o = s->given.options;
    if (o.leave_out != NULL) o.leave_out += first + done;
    status = block != NULL
                 ? kf_gallery_within(ctx, s->gallery, block + done * kf_gallery_dim_in(s->gallery),
                                     n - done, s->limit, &o, &r, NULL)
                 : kf_gallery_within_itself(ctx, s->gallery, first + done, n - done, s->limit,
                                            o.only, &r, NULL);
    if (status != KF_OK) break;
    done += r->queries;
    status = keep(s, r);
    if (status == KF_OK) status = call_look(s->call, s->queries, s->total);
  }
  return status;
}

/* --- to arrays -------------------------------------------------------------------------------- */

/* A bytearray for n numbers of 8 bytes. */
static PyObject *numbers(uint64_t n) {
  if (n <= PY_SSIZE_T_MAX / 8) return PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)(8 * n));
  return PyErr_NoMemory();
}

static kf_status copy_parts(range_search *s, int64_t *ends, int64_t *found, double *scores) {
  uint64_t before = 0;
  *ends++ = 0;
  for (; s->parts != NULL; free_first(s)) {
    const kf_ranges *r = s->parts->ranges;
    for (uint64_t i = 0; i < r->queries; i++) *ends++ = (int64_t)(before + r->ends[i]);
    uint64_t n = r->queries > 0 ? r->ends[r->queries - 1] : 0;
    if (n == 0) continue;
    memcpy(found + before, r->rows, n * sizeof *found);
    memcpy(scores + before, r->scores, n * sizeof *scores);
    before += n;
  }
  return KF_OK;
}

/* Ends the call: (0 and the ends of all queries, rows, scores), as bytearrays. */
static PyObject *hand_out(range_search *s, call *c) {
  PyObject *arrays[3] = {0};
  if (c->status == KF_OK && !PyErr_Occurred()) {
    const uint64_t n[3] = {s->queries + 1, s->answers, s->answers};
    bool fine = true;
    for (int i = 0; fine && i < 3; i++) fine = (arrays[i] = numbers(n[i])) != NULL;
    if (fine) {
      void *to[3];
      for (int i = 0; i < 3; i++) to[i] = PyByteArray_AsString(arrays[i]);
      RUN(c, copy_parts(s, to[0], to[1], to[2]));
    }
  }
  while (s->parts != NULL) free_first(s);
  if (call_end(c)) return Py_BuildValue("(NNN)", arrays[0], arrays[1], arrays[2]);
  for (int i = 0; i < 3; i++) Py_XDECREF(arrays[i]);
  return NULL;
}

/* --- the functions ---------------------------------------------------------------------------- */

/* gallery_within(gallery, rows, limit, leave_out | None, text_mean | None, filter | None) -> three
 * bytearrays: int64, int64, f64 */
static PyObject *py_gallery_within(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  range_search s = {0};
  s.end = &s.parts;
  source from;
  call c;
  if (!check_count("gallery_within", n, 6)) return NULL;
  s.gallery = capsule_get(args[0], CAPSULE_GALLERY);
  if (s.gallery == NULL || !take_double(args[2], &s.limit) ||
      !query_options_take(&s.given, s.gallery, args + 3))
    return NULL;
  PyObject *answers = NULL;
  if (call_begin(&c, module)) {
    s.call = &c;
    if (source_open(&from, &c, args[1], "X")) {
      from.block = KF_WITHIN_QUERIES;
      s.total = from.n;
      if (check_queries(&from, s.gallery, &s.given)) source_each(&from, &c, within_block, &s);
      source_close(&from);
    }
    answers = hand_out(&s, &c);
  }
  query_options_release(&s.given);
  return answers;
}

/* gallery_within_itself(gallery, first, n, limit, filter | None) -> as gallery_within */
static PyObject *py_gallery_within_itself(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  range_search s = {0};
  s.end = &s.parts;
  uint64_t first, count;
  call c;
  if (!check_count("gallery_within_itself", n, 5)) return NULL;
  s.gallery = capsule_get(args[0], CAPSULE_GALLERY);
  if (s.gallery == NULL || !take_u64(args[1], &first) || !take_u64(args[2], &count) ||
      !take_double(args[3], &s.limit) || !filter_take(args[4], &s.given.options.only) ||
      !call_begin(&c, module))
    return NULL;
  s.call = &c;
  s.total = count;
  RUN(&c, within_block(&s, c.ctx, first, count, NULL));
  return hand_out(&s, &c);
}

/* gallery_unique(gallery, limit, out) -> (groups, copies, pairs); out: int64 */
static PyObject *py_gallery_unique(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  double limit;
  Py_buffer out;
  kf_unique found = {0};
  call c;
  if (!check_count("gallery_unique", n, 3)) return NULL;
  const kf_gallery *g = capsule_get(args[0], CAPSULE_GALLERY);
  if (g == NULL || !take_double(args[1], &limit) ||
      !take_buffer(args[2], &out, true, sizeof(uint64_t), kf_gallery_rows(g)))
    return NULL;
  bool fine = CALL(&c, module, kf_gallery_unique(c.ctx, g, limit, out.buf, &found));
  PyBuffer_Release(&out);
  if (!fine) return NULL;
  return Py_BuildValue("(KKK)", (unsigned long long)found.groups, (unsigned long long)found.copies,
                       (unsigned long long)found.pairs);
}

PyMethodDef within_methods[] = {
    METHOD(gallery_within), METHOD(gallery_within_itself), METHOD(gallery_unique), {0}};
