/* judge.c - judging models: accuracy, sweeps, comparisons, the report. */
#include "koofu_py.h"

/* --- truth and class sets --------------------------------------------------------------------- */

/* class_set(names) */
static PyObject *py_class_set(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  const char **names;
  size_t count;
  kf_class_set *set = NULL;
  call c;
  PyObject *capsule = NULL;
  if (!check_count("class_set", n, 1) || !take_strings(args[0], &names, &count)) return NULL;
  if (call_begin(&c, module)) {
    RUN(&c, kf_class_set_new(c.ctx, names, (uint32_t)count, &set));
    capsule = call_capsule(&c, set, CAPSULE_SET);
  }
  PyMem_Free(names);
  return capsule;
}

static const field truth_fields[] = {
    {"classes", FIELD_PATH, offsetof(kf_truth_options, classes)},
    {"ids", FIELD_PATH, offsetof(kf_truth_options, ids)},
};

/* truth_load(path, options) */
static PyObject *py_truth_load(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  const char *path;
  kf_truth_options o = {0};
  kf_truth *truth = NULL;
  call c;
  if (!check_count("truth_load", n, 2) || !take_path(args[0], &path) ||
      !fields_fill(&o, truth_fields, COUNT_OF(truth_fields), args[1]) || !call_begin(&c, module))
    return NULL;
  RUN(&c, kf_truth_load(c.ctx, path, &o, &truth));
  return call_capsule(&c, truth, CAPSULE_TRUTH);
}

/* truth_info(truth) -> (rows, classes) */
static PyObject *py_truth_info(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  (void)module;
  if (!check_count("truth_info", n, 1)) return NULL;
  const kf_truth *t = capsule_get(args[0], CAPSULE_TRUTH);
  if (t == NULL) return NULL;
  return Py_BuildValue("(KI)", (unsigned long long)kf_truth_rows(t), kf_truth_classes(t));
}

/* --- accuracy --------------------------------------------------------------------------------- */

static const field eval_fields[] = {
    {"metric", FIELD_I32, offsetof(kf_eval_options, metric)},
    {"include_raw", FIELD_I32, offsetof(kf_eval_options, include_raw)},
    {"include_mapped", FIELD_I32, offsetof(kf_eval_options, include_mapped)},
    {"part", FIELD_I32, offsetof(kf_eval_options, part)},
};
static const field result_fields[] = {
    {"rows", FIELD_U64, offsetof(kf_eval_result, rows)},
    {"n", FIELD_U64, offsetof(kf_eval_result, n)},
    {"unlabelled", FIELD_U64, offsetof(kf_eval_result, n_unlabelled)},
    {"absent", FIELD_U64, offsetof(kf_eval_result, n_absent)},
    {"bad", FIELD_U64, offsetof(kf_eval_result, n_bad)},
    {"excluded", FIELD_U64, offsetof(kf_eval_result, n_excluded)},
    {"absent_classes", FIELD_U32, offsetof(kf_eval_result, absent_classes)},
    {"top1", FIELD_U64, offsetof(kf_eval_result, top1)},
    {"top5", FIELD_U64, offsetof(kf_eval_result, top5)},
    {"raw_top1", FIELD_U64, offsetof(kf_eval_result, raw_top1)},
    {"raw_top5", FIELD_U64, offsetof(kf_eval_result, raw_top5)},
};

static PyObject *result_dict(const kf_eval_result *result) {
  return fields_dict(result, result_fields, COUNT_OF(result_fields));
}

/* evaluate(model, data, options, truth | None, set | None) -> a dictionary */
static PyObject *py_evaluate(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  kf_eval_options o = {0};
  kf_eval_result result = {0};
  void *truth, *set;
  call c;
  if (!check_count("evaluate", n, 5)) return NULL;
  const kf_model *model = capsule_get(args[0], CAPSULE_MODEL);
  const kf_data *data = model != NULL ? capsule_get(args[1], CAPSULE_DATA) : NULL;
  if (data == NULL || !fields_fill(&o, eval_fields, COUNT_OF(eval_fields), args[2]) ||
      !capsule_maybe(args[3], CAPSULE_TRUTH, &truth) ||
      !capsule_maybe(args[4], CAPSULE_SET, &set) || !call_begin(&c, module))
    return NULL;
  o.truth = truth;
  o.set = set;
  RUN(&c, kf_eval(c.ctx, model, data, &o, &result));
  return call_end(&c) ? result_dict(&result) : NULL;
}

/* interval95(hits, n) -> (low, high) */
static PyObject *py_interval95(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  (void)module;
  uint64_t hits, count;
  double low, high;
  if (!check_count("interval95", n, 2) || !take_u64(args[0], &hits) || !take_u64(args[1], &count))
    return NULL;
  kf_interval95(hits, count, &low, &high);
  return Py_BuildValue("(dd)", low, high);
}

/* A list of numbers as an array, or NULL for None. Free it with PyMem_Free. */
static bool take_numbers(PyObject *list, uint32_t **out, size_t *n) {
  *out = NULL;
  *n = 0;
  if (list == Py_None) return true;
  PyObject *items = take_items(list);
  if (items == NULL) return false;
  Py_ssize_t length = PyTuple_Size(items);
  uint32_t *numbers = PyMem_Malloc(((size_t)length + 1) * sizeof *numbers);
  bool fine = numbers != NULL;
  if (!fine) PyErr_NoMemory();
  for (Py_ssize_t i = 0; fine && i < length; i++)
    fine = take_u32(PyTuple_GetItem(items, i), &numbers[i]);
  Py_DECREF(items);
  if (!fine) {
    PyMem_Free(numbers);
    return false;
  }
  *out = numbers;
  *n = (size_t)length;
  return true;
}

/* gallery_evaluate(gallery, data | None, k, weighted, temperature, truth | None, set | None) -> a
 * dictionary */
static PyObject *py_gallery_evaluate(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  kf_gallery_eval_options o = {0};
  kf_eval_result result = {0};
  kf_hits hits = {0};
  uint32_t k, weighted;
  void *data, *truth, *set;
  call c;
  if (!check_count("gallery_evaluate", n, 7)) return NULL;
  const kf_gallery *gallery = capsule_get(args[0], CAPSULE_GALLERY);
  if (gallery == NULL || !capsule_maybe(args[1], CAPSULE_DATA, &data) ||
      !take_u32(args[3], &weighted) || !take_double(args[4], &o.temperature) ||
      !capsule_maybe(args[5], CAPSULE_TRUTH, &truth) ||
      !capsule_maybe(args[6], CAPSULE_SET, &set) || !take_u32(args[2], &k))
    return NULL;
  o.k = &k;
  o.n_k = 1;
  o.weighted = weighted != 0;
  o.truth = truth;
  o.set = set;
  if (!CALL(&c, module, kf_gallery_eval(c.ctx, gallery, data, &o, &result, &hits, NULL)))
    return NULL;
  result.top1 = hits.top1;
  result.top5 = hits.top5;
  return result_dict(&result);
}

/* --- comparisons ------------------------------------------------------------------------------ */

static const field analysis_fields[] = {
    {"metric", FIELD_I32, offsetof(kf_analysis_options, metric)},
    {"raw", FIELD_I32, offsetof(kf_analysis_options, raw)},
};

/* verdicts(model, data, options, truth | None, set | None) */
static PyObject *py_verdicts(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  kf_analysis_options o = {0};
  kf_verdicts *verdicts = NULL;
  void *truth, *set;
  call c;
  if (!check_count("verdicts", n, 5)) return NULL;
  const kf_model *model = capsule_get(args[0], CAPSULE_MODEL);
  const kf_data *data = model != NULL ? capsule_get(args[1], CAPSULE_DATA) : NULL;
  if (data == NULL || !fields_fill(&o, analysis_fields, COUNT_OF(analysis_fields), args[2]) ||
      !capsule_maybe(args[3], CAPSULE_TRUTH, &truth) ||
      !capsule_maybe(args[4], CAPSULE_SET, &set) || !call_begin(&c, module))
    return NULL;
  o.truth = truth;
  o.set = set;
  RUN(&c, kf_verdicts_new(c.ctx, model, data, &o, &verdicts));
  return call_capsule(&c, verdicts, CAPSULE_VERDICTS);
}

static const field comparison_fields[] = {
    {"rows", FIELD_U64, offsetof(kf_comparison, rows)},
    {"n", FIELD_U64, offsetof(kf_comparison, n)},
    {"both", FIELD_U64, offsetof(kf_comparison, both)},
    {"neither", FIELD_U64, offsetof(kf_comparison, neither)},
    {"only_a", FIELD_U64, offsetof(kf_comparison, only_a)},
    {"only_b", FIELD_U64, offsetof(kf_comparison, only_b)},
    {"difference", FIELD_F64, offsetof(kf_comparison, difference)},
    {"low", FIELD_F64, offsetof(kf_comparison, low)},
    {"high", FIELD_F64, offsetof(kf_comparison, high)},
    {"p", FIELD_F64, offsetof(kf_comparison, p)},
};

/* compare(verdicts, verdicts) -> a dictionary */
static PyObject *py_compare(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  kf_comparison result = {0};
  call c;
  if (!check_count("compare", n, 2)) return NULL;
  const kf_verdicts *a = capsule_get(args[0], CAPSULE_VERDICTS);
  const kf_verdicts *b = a != NULL ? capsule_get(args[1], CAPSULE_VERDICTS) : NULL;
  if (b == NULL) return NULL;
  return CALL(&c, module, kf_compare(c.ctx, a, b, &result))
             ? fields_dict(&result, comparison_fields, COUNT_OF(comparison_fields))
             : NULL;
}

/* --- sweeps ----------------------------------------------------------------------------------- */

static const field sweep_fields[] = {
    {"centre", FIELD_I32, offsetof(kf_sweep_options, centre)},
    {"include_raw", FIELD_I32, offsetof(kf_sweep_options, include_raw)},
    {"include_prototypes", FIELD_I32, offsetof(kf_sweep_options, include_prototypes)},
    {"folds", FIELD_U32, offsetof(kf_sweep_options, folds)},
    {"leave_one_out", FIELD_I32, offsetof(kf_sweep_options, leave_one_out)},
    {"sample", FIELD_U64, offsetof(kf_sweep_options, sample)},
    {"fuse", FIELD_I32, offsetof(kf_sweep_options, fuse)},
    {"method", FIELD_I32, offsetof(kf_sweep_options, method)},
    {"priors", FIELD_I32, offsetof(kf_sweep_options, priors)},
};

/* The lists that a sweep takes. */
typedef struct sweep_lists {
  kf_lambda *lambdas;
  uint32_t *dims, *k, *metrics;
} sweep_lists;

static void lists_free(sweep_lists *l) {
  PyMem_Free(l->lambdas);
  PyMem_Free(l->dims);
  PyMem_Free(l->k);
  PyMem_Free(l->metrics);
}

/* [(value, unit), …] or None */
static bool take_lambdas(PyObject *list, kf_lambda **out, size_t *n) {
  if (list == Py_None) return true;
  PyObject *items = take_items(list);
  if (items == NULL) return false;
  Py_ssize_t length = PyTuple_Size(items);
  *out = PyMem_Calloc((size_t)length + 1, sizeof **out);
  bool fine = *out != NULL;
  if (!fine) PyErr_NoMemory();
  for (Py_ssize_t i = 0; fine && i < length; i++) {
    int unit = 0;
    PyObject *item = PyTuple_GetItem(items, i);
    fine = check_tuple(item, "a lambda with its unit") &&
           PyArg_ParseTuple(item, "di;a lambda is a number and its unit", &(*out)[i].value, &unit);
    (*out)[i].unit = (kf_lambda_unit)unit;
  }
  Py_DECREF(items);
  *n = (size_t)length;
  return fine;
}

static bool take_lists(sweep_lists *l, kf_sweep_options *o, PyObject *const *args) {
  if (!take_lambdas(args[0], &l->lambdas, &o->n_lambdas) ||
      !take_numbers(args[1], &l->dims, &o->n_dims) || !take_numbers(args[2], &l->k, &o->n_k) ||
      !take_numbers(args[3], &l->metrics, &o->n_metrics))
    return false;
  o->lambdas = l->lambdas;
  o->dims = l->dims;
  o->k = l->k;
  _Static_assert(sizeof(kf_metric) == sizeof(uint32_t), "metrics are passed as numbers");
  o->metrics = (const kf_metric *)(const void *)l->metrics;
  return true;
}

static PyObject *cell_tuple(const kf_sweep_cell *c) {
  const char *kind = c->fused                       ? "fused"
                     : c->text != KF_CENTRE_DEFAULT ? "text"
                     : c->k > 0                     ? "neighbours"
                                                    : "prototypes";
  return Py_BuildValue("(sOddIIsdKKK)", kind, c->raw ? Py_True : Py_False, c->lambda, c->relative,
                       c->dim, c->k, kf_metric_name(c->metric), c->alpha, (unsigned long long)c->n,
                       (unsigned long long)c->top1, (unsigned long long)c->top5);
}

static PyObject *cells_list(const kf_sweep *sweep) {
  PyObject *list = PyList_New((Py_ssize_t)sweep->n_cells);
  for (size_t i = 0; list != NULL && i < sweep->n_cells; i++) {
    PyObject *item = cell_tuple(&sweep->cells[i]);
    if (item == NULL || PyList_SetItem(list, (Py_ssize_t)i, item) != 0) Py_CLEAR(list);
  }
  return list;
}

/* sweep(stats, train | None, test | None, options, truth | None, text | None, lambdas, dims, k,
 * metrics) -> [cell, ...] */
static PyObject *py_sweep(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  kf_sweep_options o = {0};
  sweep_lists lists = {0};
  kf_sweep *sweep = NULL;
  void *train, *test, *truth, *text;
  call c;
  if (!check_count("sweep", n, 10)) return NULL;
  const kf_stats *stats = capsule_get(args[0], CAPSULE_STATS);
  if (stats == NULL || !capsule_maybe(args[1], CAPSULE_DATA, &train) ||
      !capsule_maybe(args[2], CAPSULE_DATA, &test) ||
      !fields_fill(&o, sweep_fields, COUNT_OF(sweep_fields), args[3]) ||
      !capsule_maybe(args[4], CAPSULE_TRUTH, &truth) ||
      !capsule_maybe(args[5], CAPSULE_TEXT, &text))
    return NULL;
  PyObject *result = NULL;
  if (take_lists(&lists, &o, args + 6) && call_begin(&c, module)) {
    o.truth = truth;
    o.text = text;
    RUN(&c, kf_sweep_new(c.ctx, stats, train, test, &o, &sweep));
    if (call_end(&c)) result = cells_list(sweep);
    kf_sweep_free(sweep);
  }
  lists_free(&lists);
  return result;
}

/* --- the report ------------------------------------------------------------------------------- */

static const field page_fields[] = {
    {"title", FIELD_TEXT, offsetof(kf_report_options, title)},
    {"train_name", FIELD_TEXT, offsetof(kf_report_options, train_name)},
    {"test_name", FIELD_TEXT, offsetof(kf_report_options, test_name)},
    {"seeds", FIELD_U32, offsetof(kf_report_options, seeds)},
    {"neighbours", FIELD_I32, offsetof(kf_report_options, neighbours)},
    {"sample", FIELD_U64, offsetof(kf_report_options, sample)},
};
static const field page_results[] = {
    {"rows", FIELD_U64, offsetof(kf_report_result, rows)},
    {"classes", FIELD_U32, offsetof(kf_report_result, classes)},
    {"dim_in", FIELD_U32, offsetof(kf_report_result, dim_in)},
    {"dim", FIELD_U32, offsetof(kf_report_result, dim)},
    {"lambda_", FIELD_F64, offsetof(kf_report_result, lambda)},
    {"mean_eigenvalue", FIELD_F64, offsetof(kf_report_result, mean_eigenvalue)},
    {"alpha", FIELD_F64, offsetof(kf_report_result, alpha)},
    {"n", FIELD_U64, offsetof(kf_report_result, n)},
    {"right", FIELD_U64, offsetof(kf_report_result, right)},
    {"standard_error", FIELD_F64, offsetof(kf_report_result, standard_error)},
    {"test_n", FIELD_U64, offsetof(kf_report_result, eval.n)},
    {"test_top1", FIELD_U64, offsetof(kf_report_result, eval.top1)},
    {"test_top5", FIELD_U64, offsetof(kf_report_result, eval.top5)},
    {"test_raw_top1", FIELD_U64, offsetof(kf_report_result, eval.raw_top1)},
    {"n_judged", FIELD_U64, offsetof(kf_report_result, n_judged)},
    {"n_to_judge", FIELD_U64, offsetof(kf_report_result, n_to_judge)},
    {"sample_error", FIELD_F64, offsetof(kf_report_result, sample_error)},
    {"held_n", FIELD_U64, offsetof(kf_report_result, held_n)},
    {"held_top1", FIELD_U64, offsetof(kf_report_result, held_top1)},
    {"held_raw_top1", FIELD_U64, offsetof(kf_report_result, held_raw_top1)},
};

/* report(train, path, options, fit options, test | None, truth | None, model | None, text | None,
 * dims, k, shots) -> a dictionary */
static PyObject *py_report(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  kf_report_options o = {0};
  kf_report_result result = {0};
  const char *path;
  void *test, *truth, *model, *text;
  uint32_t *dims = NULL, *k = NULL, *shots = NULL;
  call c;
  if (!check_count("report", n, 11)) return NULL;
  const kf_data *train = capsule_get(args[0], CAPSULE_DATA);
  if (train == NULL || !take_path(args[1], &path) ||
      !fields_fill(&o, page_fields, COUNT_OF(page_fields), args[2]) ||
      !fit_options(&o.fit, args[3]) || !capsule_maybe(args[4], CAPSULE_DATA, &test) ||
      !capsule_maybe(args[5], CAPSULE_TRUTH, &truth) ||
      !capsule_maybe(args[6], CAPSULE_MODEL, &model) ||
      !capsule_maybe(args[7], CAPSULE_TEXT, &text))
    return NULL;
  bool fine = take_numbers(args[8], &dims, &o.n_dims) && take_numbers(args[9], &k, &o.n_k) &&
              take_numbers(args[10], &shots, &o.n_shots) && call_begin(&c, module);
  if (fine) {
    o.test = test;
    o.truth = truth;
    o.model = model;
    o.fit.text = text;
    o.dims = dims;
    o.k = k;
    o.shots = shots;
    RUN(&c, kf_report_write(c.ctx, train, &o, path, &result));
    fine = call_end(&c);
  }
  PyMem_Free(dims);
  PyMem_Free(k);
  PyMem_Free(shots);
  return fine ? fields_dict(&result, page_results, COUNT_OF(page_results)) : NULL;
}

PyMethodDef judge_methods[] = {METHOD(class_set),
                               METHOD(truth_load),
                               METHOD(truth_info),
                               METHOD(evaluate),
                               METHOD(interval95),
                               METHOD(gallery_evaluate),
                               METHOD(verdicts),
                               METHOD(compare),
                               METHOD(sweep),
                               METHOD(report),
                               {0}};
