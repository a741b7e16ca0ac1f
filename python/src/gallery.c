/* gallery.c - galleries: nearest rows and votes. */
#include "koofu_py.h"

static const field gallery_fields[] = {
    {"metric", FIELD_I32, offsetof(kf_gallery_options, metric)},
    {"k", FIELD_U32, offsetof(kf_gallery_options, k)},
    {"append_to", FIELD_PATH, offsetof(kf_gallery_options, append_to)},
    {"again", FIELD_I32, offsetof(kf_gallery_options, again)},
    {"dtype", FIELD_I32, offsetof(kf_gallery_options, dtype)},
    {"replace", FIELD_I32, offsetof(kf_gallery_options, replace)},
};

/* gallery_new(data, model | None, options) */
static PyObject *py_gallery_new(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  kf_gallery_options o = {0};
  kf_gallery *gallery = NULL;
  void *model;
  call c;
  if (!check_count("gallery_new", n, 3)) return NULL;
  const kf_data *data = capsule_get(args[0], CAPSULE_DATA);
  if (data == NULL || !capsule_maybe(args[1], CAPSULE_MODEL, &model) ||
      !fields_fill(&o, gallery_fields, COUNT_OF(gallery_fields), args[2]) ||
      !call_begin(&c, module))
    return NULL;
  RUN(&c, kf_gallery_new(c.ctx, data, model, &o, &gallery));
  return call_capsule(&c, gallery, CAPSULE_GALLERY);
}

/* gallery_save(data, model | None, options, path) -> (whether the batch was a repeat,
 * change_tuple) */
static PyObject *py_gallery_save(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  kf_gallery_options o = {0};
  const char *path;
  void *model;
  int repeated = 0;
  kf_gallery_change change = {0};
  call c;
  if (!check_count("gallery_save", n, 4)) return NULL;
  const kf_data *data = capsule_get(args[0], CAPSULE_DATA);
  if (data == NULL || !capsule_maybe(args[1], CAPSULE_MODEL, &model) ||
      !fields_fill(&o, gallery_fields, COUNT_OF(gallery_fields), args[2]) ||
      !take_path(args[3], &path) || !call_begin(&c, module))
    return NULL;
  o.repeated = &repeated;
  o.change = &change;
  RUN(&c, kf_gallery_save(c.ctx, data, model, &o, path));
  if (!call_end(&c)) return NULL;
  return Py_BuildValue("(NN)", PyBool_FromLong(repeated), change_tuple(&change));
}

/* gallery_load(paths, rerank_from_disk): all of them as one */
static PyObject *py_gallery_load(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  const char **paths;
  size_t n_paths;
  uint32_t from_disk;
  kf_gallery *gallery = NULL;
  call c;
  if (!check_count("gallery_load", n, 2) || !take_u32(args[1], &from_disk) ||
      !take_strings(args[0], &paths, &n_paths))
    return NULL;
  PyObject *made = NULL;
  if (n_paths == 0) {
    PyErr_SetString(PyExc_ValueError, "there is no path");
  } else if (call_begin(&c, module)) {
    kf_gallery_load_options o = {
        .rerank_from_disk = from_disk != 0, .more = paths + 1, .n_more = n_paths - 1};
    RUN(&c, kf_gallery_load(c.ctx, paths[0], &o, &gallery));
    made = call_capsule(&c, gallery, CAPSULE_GALLERY);
  }
  PyMem_Free(paths);
  return made;
}

/* --- contents --------------------------------------------------------------------------------- */

static const char *class_name(const void *gallery, uint32_t k) {
  return kf_gallery_class_name(gallery, k);
}

/* gallery_info(gallery) -> (rows, dim_in, dim, metric, mapped, k, has_labels, classes, names,
 * has_ids, bytes of memory, dtype) */
static PyObject *py_gallery_info(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  (void)module;
  if (!check_count("gallery_info", n, 1)) return NULL;
  const kf_gallery *g = capsule_get(args[0], CAPSULE_GALLERY);
  if (g == NULL) return NULL;
  PyObject *names = names_list(class_name, g, kf_gallery_classes(g));
  if (names == NULL) return NULL;
  return Py_BuildValue(
      "(KIIsiIiINiKi)", (unsigned long long)kf_gallery_rows(g), kf_gallery_dim_in(g),
      kf_gallery_dim(g), kf_metric_name(kf_gallery_metric(g)), kf_gallery_mapped(g),
      kf_gallery_k(g), kf_gallery_has_labels(g), kf_gallery_classes(g), names,
      kf_gallery_id(g, 0) != NULL, (unsigned long long)kf_index_bytes(kf_gallery_index(g)),
      (int)kf_gallery_dtype(g));
}

/* gallery_labels(gallery, out): int32 */
static PyObject *py_gallery_labels(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  (void)module;
  Py_buffer out;
  if (!check_count("gallery_labels", n, 2)) return NULL;
  const kf_gallery *g = capsule_get(args[0], CAPSULE_GALLERY);
  if (g == NULL || !take_buffer(args[1], &out, true, sizeof(int32_t), kf_gallery_rows(g)))
    return NULL;
  int32_t *labels = out.buf;
  for (uint64_t i = 0; i < kf_gallery_rows(g); i++) labels[i] = kf_gallery_label(g, i);
  PyBuffer_Release(&out);
  Py_RETURN_NONE;
}

/* gallery_id(gallery, row) -> str | None */
static PyObject *py_gallery_id(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  (void)module;
  uint64_t row;
  if (!check_count("gallery_id", n, 2)) return NULL;
  const kf_gallery *g = capsule_get(args[0], CAPSULE_GALLERY);
  if (g == NULL || !take_u64(args[1], &row)) return NULL;
  const char *id = kf_gallery_id(g, row);
  return id != NULL ? PyUnicode_FromString(id) : Py_NewRef(Py_None);
}

/* gallery_ids(gallery) -> a list of str; None if rows have none */
static PyObject *py_gallery_ids(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  (void)module;
  if (!check_count("gallery_ids", n, 1)) return NULL;
  const kf_gallery *g = capsule_get(args[0], CAPSULE_GALLERY);
  if (g == NULL) return NULL;
  if (kf_gallery_id(g, 0) == NULL) Py_RETURN_NONE;
  PyObject *list = PyList_New((Py_ssize_t)kf_gallery_rows(g));
  for (uint64_t i = 0; list != NULL && i < kf_gallery_rows(g); i++) {
    PyObject *id = PyUnicode_FromString(kf_gallery_id(g, i));
    if (id == NULL || PyList_SetItem(list, (Py_ssize_t)i, id) != 0) Py_CLEAR(list);
  }
  return list;
}

/* gallery_files(gallery, rows, out_files, out_own): int64; -1 where there is no such row */
static PyObject *py_gallery_files(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  (void)module;
  Py_buffer wanted, files, own;
  if (!check_count("gallery_files", n, 4)) return NULL;
  const kf_gallery *g = capsule_get(args[0], CAPSULE_GALLERY);
  if (g == NULL || !take_buffer(args[1], &wanted, false, sizeof(int64_t), ANY_COUNT)) return NULL;
  uint64_t count = (size_t)wanted.len / sizeof(int64_t);
  bool fine = take_buffer(args[2], &files, true, sizeof(int64_t), count);
  if (fine) {
    fine = take_buffer(args[3], &own, true, sizeof(int64_t), count);
    for (uint64_t i = 0; fine && i < count; i++) {
      int64_t row = ((const int64_t *)wanted.buf)[i];
      bool here = row >= 0 && (uint64_t)row < kf_gallery_rows(g);
      uint64_t there = 0, file = here ? kf_gallery_file_of(g, (uint64_t)row, &there) : 0;
      ((int64_t *)files.buf)[i] = here ? (int64_t)file : -1;
      ((int64_t *)own.buf)[i] = here ? (int64_t)there : -1;
    }
    if (fine) PyBuffer_Release(&own);
    PyBuffer_Release(&files);
  }
  PyBuffer_Release(&wanted);
  return fine ? Py_NewRef(Py_None) : NULL;
}

/* --- searching -------------------------------------------------------------------------------- */

typedef struct search {
  const kf_gallery *gallery;
  uint32_t k;
  query_options given;
  kf_vote_options votes;
  int64_t *rows;
  int32_t *classes;
  double *scores;
} search;

static kf_status search_block(void *argument, kf_ctx *ctx, uint64_t first, uint64_t n,
                              const float *block) {
  search *s = argument;
  kf_search_options o = s->given.options;
  if (o.leave_out != NULL) o.leave_out += first;
  kf_status status = o.text_mean != NULL ? kf_gallery_prepare_text(ctx, s->gallery) : KF_OK;
  if (status != KF_OK) return status;
  return kf_gallery_search(ctx, s->gallery, block, n, s->k, &o, s->rows + first * s->k,
                           s->scores + first * s->k, NULL);
}

static kf_status vote_block(void *argument, kf_ctx *ctx, uint64_t first, uint64_t n,
                            const float *block) {
  search *s = argument;
  return kf_gallery_classify(ctx, s->gallery, block, n, &s->votes, s->classes + first * s->k,
                             s->scores + first * s->k, NULL);
}

/* The two output arrays, [rows][k]; size: of an element of the first. */
static bool take_answers(search *s, PyObject *const *args, size_t size, uint64_t count,
                         Py_buffer out[2]) {
  if (!take_buffer(args[0], &out[0], true, size, count)) return false;
  if (!take_buffer(args[1], &out[1], true, sizeof(double), count)) {
    PyBuffer_Release(&out[0]);
    return false;
  }
  s->rows = out[0].buf;
  s->classes = out[0].buf;
  s->scores = out[1].buf;
  return true;
}

bool query_options_take(query_options *q, const kf_gallery *g, PyObject *const *args) {
  *q = (query_options){0};
  if (!filter_take(args[2], &q->options.only)) return false;
  if (args[0] != Py_None) {
    q->has_leave_out = take_buffer(args[0], &q->leave_out, false, sizeof(int64_t), ANY_COUNT);
    if (!q->has_leave_out) return false;
    q->options.leave_out = q->leave_out.buf;
  }
  if (args[1] == Py_None) return true;
  q->has_mean = take_buffer(args[1], &q->mean, false, sizeof(double), kf_gallery_dim_in(g));
  q->options.text_mean = q->has_mean ? q->mean.buf : NULL;
  if (!q->has_mean) query_options_release(q);
  return q->has_mean;
}

void query_options_release(query_options *q) {
  if (q->has_leave_out) PyBuffer_Release(&q->leave_out);
  if (q->has_mean) PyBuffer_Release(&q->mean);
}

bool check_queries(const source *from, const kf_gallery *g, const query_options *q) {
  if (from->n > 0 && from->dim != kf_gallery_dim_in(g)) {
    PyErr_Format(PyExc_ValueError, "X has %u columns, but the gallery takes %u", from->dim,
                 kf_gallery_dim_in(g));
    return false;
  }
  if (!q->has_leave_out || (uint64_t)q->leave_out.len / sizeof(int64_t) == from->n) return true;
  PyErr_SetString(PyExc_ValueError, "leave_out does not have the length of X");
  return false;
}

static void search_rows(search *s, call *c, PyObject *object, PyObject *const *answers, size_t size,
                        block_fn work) {
  source from;
  Py_buffer out[2];
  if (!source_open(&from, c, object, "X")) return;
  if (check_queries(&from, s->gallery, &s->given) &&
      take_answers(s, answers, size, table_size(from.n, s->k), out)) {
    from.block = kf_gallery_batch(c->ctx, s->gallery);
    source_each(&from, c, work, s);
    PyBuffer_Release(&out[0]);
    PyBuffer_Release(&out[1]);
  }
  source_close(&from);
}

/* gallery_search(gallery, rows, k, leave_out | None, text_mean | None, filter | None, out_rows,
 * out_scores) */
static PyObject *py_gallery_search(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  search s = {0};
  call c;
  if (!check_count("gallery_search", n, 8)) return NULL;
  s.gallery = capsule_get(args[0], CAPSULE_GALLERY);
  if (s.gallery == NULL || !take_u32(args[2], &s.k) ||
      !query_options_take(&s.given, s.gallery, args + 3))
    return NULL;
  bool fine = call_begin(&c, module);
  if (fine) {
    search_rows(&s, &c, args[1], args + 6, sizeof(int64_t), search_block);
    fine = call_end(&c);
  }
  query_options_release(&s.given);
  return fine ? Py_NewRef(Py_None) : NULL;
}

static kf_status search_itself(search *s, call *c, uint64_t first, uint64_t n) {
  uint64_t batch = kf_gallery_batch(c->ctx, s->gallery);
  kf_status status = KF_OK;
  for (uint64_t done = 0; status == KF_OK && done < n; done += batch) {
    uint64_t count = n - done < batch ? n - done : batch;
    status = kf_gallery_search_itself(c->ctx, s->gallery, first + done, count, s->k,
                                      s->rows + done * s->k, s->scores + done * s->k, NULL);
    if (status == KF_OK) status = call_look(c, done + count, n);
  }
  return status;
}

/* The library checks this too, but block by block. */
static bool check_stretch(const kf_gallery *g, uint64_t first, uint64_t n) {
  uint64_t all = kf_gallery_rows(g);
  if (first <= all && n <= all - first) return true;
  PyErr_Format(PyExc_ValueError, "%llu rows from row %llu of a gallery of %llu rows",
               (unsigned long long)n, (unsigned long long)first, (unsigned long long)all);
  return false;
}

/* gallery_itself(gallery, first, n, k, out_rows, out_scores) */
static PyObject *py_gallery_itself(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  search s = {0};
  uint64_t first, count;
  Py_buffer out[2];
  call c;
  if (!check_count("gallery_itself", n, 6)) return NULL;
  s.gallery = capsule_get(args[0], CAPSULE_GALLERY);
  if (s.gallery == NULL || !take_u64(args[1], &first) || !take_u64(args[2], &count) ||
      !take_u32(args[3], &s.k) || !check_stretch(s.gallery, first, count) ||
      !take_answers(&s, args + 4, sizeof(int64_t), table_size(count, s.k), out))
    return NULL;
  bool fine = CALL(&c, module, search_itself(&s, &c, first, count));
  PyBuffer_Release(&out[0]);
  PyBuffer_Release(&out[1]);
  return fine ? Py_NewRef(Py_None) : NULL;
}

static const field vote_fields[] = {
    {"k", FIELD_U32, offsetof(kf_vote_options, k)},
    {"top", FIELD_U32, offsetof(kf_vote_options, top)},
    {"weighted", FIELD_I32, offsetof(kf_vote_options, weighted)},
    {"temperature", FIELD_F64, offsetof(kf_vote_options, temperature)},
};

/* gallery_vote(gallery, rows, options, filter | None, out_classes, out_votes) */
static PyObject *py_gallery_vote(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  search s = {0};
  call c;
  if (!check_count("gallery_vote", n, 6)) return NULL;
  s.gallery = capsule_get(args[0], CAPSULE_GALLERY);
  if (s.gallery == NULL || !fields_fill(&s.votes, vote_fields, COUNT_OF(vote_fields), args[2]) ||
      !filter_take(args[3], &s.votes.only) || !call_begin(&c, module))
    return NULL;
  s.k = s.votes.top > 0 ? s.votes.top : 1;
  search_rows(&s, &c, args[1], args + 4, sizeof(int32_t), vote_block);
  return call_end(&c) ? Py_NewRef(Py_None) : NULL;
}

/* choose_k(data, model | None) -> k */
static PyObject *py_choose_k(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  void *model;
  kf_k_choice *choice = NULL;
  call c;
  if (!check_count("choose_k", n, 2)) return NULL;
  const kf_data *data = capsule_get(args[0], CAPSULE_DATA);
  if (data == NULL || !capsule_maybe(args[1], CAPSULE_MODEL, &model) || !call_begin(&c, module))
    return NULL;
  RUN(&c, kf_k_choice_new_for_rows(c.ctx, data, model, NULL, &choice));
  PyObject *k = call_end(&c) ? PyLong_FromUnsignedLong(choice->k) : NULL;
  kf_k_choice_free(choice);
  return k;
}

PyMethodDef gallery_methods[] = {METHOD(gallery_new),
                                 METHOD(gallery_save),
                                 METHOD(gallery_load),
                                 METHOD(gallery_info),
                                 METHOD(gallery_labels),
                                 METHOD(gallery_id),
                                 METHOD(gallery_ids),
                                 METHOD(gallery_files),
                                 METHOD(gallery_search),
                                 METHOD(gallery_itself),
                                 METHOD(gallery_vote),
                                 METHOD(choose_k),
                                 {0}};
