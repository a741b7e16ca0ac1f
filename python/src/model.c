/* model.c - fitting, models and their use. */
#include "koofu_py.h"

#include <stdlib.h>
#include <string.h>

/* --- fitting ---------------------------------------------------------------------------------- */

static const field fit_fields[] = {
    {"lambda", FIELD_F64, offsetof(kf_fit_options, lambda.value)},
    {"lambda_unit", FIELD_I32, offsetof(kf_fit_options, lambda.unit)},
    {"dim", FIELD_U32, offsetof(kf_fit_options, dim)},
    {"choose_dim", FIELD_I32, offsetof(kf_fit_options, choose_dim)},
    {"centre", FIELD_I32, offsetof(kf_fit_options, centre)},
    {"metric", FIELD_I32, offsetof(kf_fit_options, metric)},
    {"normalize", FIELD_I32, offsetof(kf_fit_options, stats_options.normalize)},
    {"exponent", FIELD_I32, offsetof(kf_fit_options, stats_options.exponent)},
    {"fixed_exponent", FIELD_I32, offsetof(kf_fit_options, stats_options.fixed_exponent)},
    {"one_se", FIELD_I32, offsetof(kf_fit_options, one_se)},
    {"sample", FIELD_U64, offsetof(kf_fit_options, sample)},
    {"folds", FIELD_U32, offsetof(kf_fit_options, folds)},
    {"margin", FIELD_F64, offsetof(kf_fit_options, margin)},
    {"method", FIELD_I32, offsetof(kf_fit_options, method)},
    {"criterion", FIELD_I32, offsetof(kf_fit_options, criterion)},
    {"priors", FIELD_I32, offsetof(kf_fit_options, priors)},
    {"reject", FIELD_F64, offsetof(kf_fit_options, reject)},
};

bool fit_options(kf_fit_options *o, PyObject *options) {
  return fields_fill(o, fit_fields, COUNT_OF(fit_fields), options);
}

static const field report_fields[] = {
    {"rows", FIELD_U64, offsetof(kf_fit_report, rows)},
    {"unlabelled", FIELD_U64, offsetof(kf_fit_report, n_unlabelled)},
    {"bad", FIELD_U64, offsetof(kf_fit_report, n_bad)},
    {"lambda_", FIELD_F64, offsetof(kf_fit_report, lambda)},
    {"mean_eigenvalue", FIELD_F64, offsetof(kf_fit_report, mean_eigenvalue)},
    {"alpha", FIELD_F64, offsetof(kf_fit_report, alpha)},
    {"dim", FIELD_U32, offsetof(kf_fit_report, dim)},
    {"n", FIELD_U64, offsetof(kf_fit_report, n)},
    {"right", FIELD_U64, offsetof(kf_fit_report, right)},
    {"standard_error", FIELD_F64, offsetof(kf_fit_report, standard_error)},
    {"compared", FIELD_U64, offsetof(kf_fit_report, n_compared)},
    {"near", FIELD_U64, offsetof(kf_fit_report, n_near)},
    {"many_near", FIELD_I32, offsetof(kf_fit_report, many_near)},
    {"by_all_rows", FIELD_I32, offsetof(kf_fit_report, by_all_rows)},
};

/* The objects that a fit takes. */
typedef struct fit_parts {
  kf_data *data;
  kf_text *text;
  kf_stats *stats, *between;
  kf_model *like;
  double alpha;
  Py_buffer groups;
  bool has_alpha, has_groups;
} fit_parts;

static bool take_parts(fit_parts *p, PyObject *const *args) {
  if (!capsule_maybe(args[0], CAPSULE_DATA, (void **)&p->data) ||
      !capsule_maybe(args[2], CAPSULE_TEXT, (void **)&p->text) ||
      !capsule_maybe(args[4], CAPSULE_STATS, (void **)&p->stats) ||
      !capsule_maybe(args[5], CAPSULE_STATS, (void **)&p->between) ||
      !capsule_maybe(args[7], CAPSULE_MODEL, (void **)&p->like))
    return false;
  p->has_alpha = args[3] != Py_None;
  if (p->has_alpha && !take_double(args[3], &p->alpha)) return false;
  if (args[6] == Py_None) return true;
  uint64_t count = p->data != NULL ? kf_data_rows(p->data) : 0;
  p->has_groups = take_buffer(args[6], &p->groups, false, sizeof(uint32_t), count);
  return p->has_groups;
}

/* fit(data | None, options, text, alpha, stats, between, groups, like) -> (model, report | None) */
static PyObject *py_fit(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  fit_parts p = {0};
  kf_fit_options o = {0};
  kf_model *model = NULL;
  kf_fit_report *report = NULL;
  call c;
  if (!check_count("fit", n, 8) || !take_parts(&p, args)) return NULL;
  bool fine = fit_options(&o, args[1]) && call_begin(&c, module);
  PyObject *capsule = NULL, *chosen = NULL;
  if (fine) {
    o.text = p.text;
    o.alpha = p.has_alpha ? &p.alpha : NULL;
    o.stats = p.stats;
    o.between = p.between;
    o.like = p.like;
    o.groups = p.has_groups ? p.groups.buf : NULL;
    if (p.data == NULL)
      RUN(&c, kf_fit_stats(c.ctx, p.stats, &o, &model));
    else
      RUN(&c, kf_fit(c.ctx, p.data, &o, &model, &report));
    capsule = call_capsule(&c, model, CAPSULE_MODEL);
  }
  if (p.has_groups) PyBuffer_Release(&p.groups);
  if (capsule != NULL)
    chosen = report == NULL ? Py_NewRef(Py_None)
                            : fields_dict(report, report_fields, COUNT_OF(report_fields));
  kf_fit_report_free(report);
  PyObject *both = chosen != NULL ? PyTuple_Pack(2, capsule, chosen) : NULL;
  Py_XDECREF(capsule);
  Py_XDECREF(chosen);
  return both;
}

/* parse_lambda(text) -> (value, unit) */
static PyObject *py_parse_lambda(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  const char *text;
  kf_lambda lambda = {0};
  call c;
  if (!check_count("parse_lambda", n, 1) || !take_path(args[0], &text)) return NULL;
  return CALL(&c, module, kf_lambda_parse(c.ctx, text, &lambda))
             ? Py_BuildValue("(di)", lambda.value, (int)lambda.unit)
             : NULL;
}

/* --- files ------------------------------------------------------------------------------------ */

static PyObject *py_model_save(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  const char *path;
  call c;
  if (!check_count("model_save", n, 2)) return NULL;
  const kf_model *model = capsule_get(args[0], CAPSULE_MODEL);
  if (model == NULL || !take_path(args[1], &path)) return NULL;
  return CALL(&c, module, kf_model_save(c.ctx, model, path)) ? Py_NewRef(Py_None) : NULL;
}

static const field export_fields[] = {
    {"normalize", FIELD_I32, offsetof(kf_export_options, normalize)},
    {"metric", FIELD_I32, offsetof(kf_export_options, metric)},
    {"raw", FIELD_I32, offsetof(kf_export_options, raw)},
    {"part", FIELD_I32, offsetof(kf_export_options, part)},
    {"temperature", FIELD_F64, offsetof(kf_export_options, temperature)},
    {"gallery", FIELD_PATH, offsetof(kf_export_options, gallery)},
    {"inline_bytes", FIELD_U64, offsetof(kf_export_options, inline_bytes)},
    {"single", FIELD_I32, offsetof(kf_export_options, single)},
    {"license", FIELD_TEXT, offsetof(kf_export_options, license)},
    {"base_model", FIELD_TEXT, offsetof(kf_export_options, base_model)},
};

/* model_export(model, options, path) */
static PyObject *py_model_export(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  kf_export_options o = {0};
  const char *path;
  call c;
  if (!check_count("model_export", n, 3)) return NULL;
  const kf_model *model = capsule_get(args[0], CAPSULE_MODEL);
  if (model == NULL || !fields_fill(&o, export_fields, COUNT_OF(export_fields), args[1]) ||
      !take_path(args[2], &path))
    return NULL;
  return CALL(&c, module, kf_export(c.ctx, model, &o, path)) ? Py_NewRef(Py_None) : NULL;
}

static PyObject *py_model_load(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  const char *path;
  kf_model *model = NULL;
  call c;
  if (!check_count("model_load", n, 1) || !take_path(args[0], &path) || !call_begin(&c, module))
    return NULL;
  RUN(&c, kf_model_load(c.ctx, path, &model));
  return call_capsule(&c, model, CAPSULE_MODEL);
}

static PyObject *py_model_to_bytes(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  kf_bytes *bytes = NULL;
  call c;
  if (!check_count("model_to_bytes", n, 1)) return NULL;
  const kf_model *model = capsule_get(args[0], CAPSULE_MODEL);
  if (model == NULL || !call_begin(&c, module)) return NULL;
  RUN(&c, kf_bytes_new_of_model(c.ctx, model, &bytes));
  return bytes_object(&c, bytes);
}

static PyObject *py_model_from_bytes(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  Py_buffer bytes;
  kf_model *model = NULL;
  call c;
  if (!check_count("model_from_bytes", n, 1) || !take_buffer(args[0], &bytes, false, 1, ANY_COUNT))
    return NULL;
  PyObject *capsule = NULL;
  if (call_begin(&c, module)) {
    RUN(&c, kf_model_load_bytes(c.ctx, bytes.buf, (uint64_t)bytes.len, &model));
    capsule = call_capsule(&c, model, CAPSULE_MODEL);
  }
  PyBuffer_Release(&bytes);
  return capsule;
}

/* --- models from models ----------------------------------------------------------------------- */

/* model_with_class(model, name, data) */
static PyObject *py_model_with_class(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  const char *name;
  kf_model *more = NULL;
  call c;
  if (!check_count("model_with_class", n, 3)) return NULL;
  const kf_model *model = capsule_get(args[0], CAPSULE_MODEL);
  if (model == NULL || !take_path(args[1], &name)) return NULL;
  const kf_data *data = capsule_get(args[2], CAPSULE_DATA);
  if (data == NULL || !call_begin(&c, module)) return NULL;
  RUN(&c, kf_model_new_with_class(c.ctx, model, name, data, &more));
  return call_capsule(&c, more, CAPSULE_MODEL);
}

/* model_with_text(model, text, kind, number): kind 0 zero-shot (number: centre), 1 fused (number:
 * alpha), 2 more text. */
static PyObject *py_model_with_text(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  uint32_t kind, centre = 0;
  double alpha = 0;
  kf_model *more = NULL;
  call c;
  if (!check_count("model_with_text", n, 4)) return NULL;
  const kf_model *model = capsule_get(args[0], CAPSULE_MODEL);
  const kf_text *text = model != NULL ? capsule_get(args[1], CAPSULE_TEXT) : NULL;
  if (text == NULL || !take_u32(args[2], &kind) ||
      !(kind == 0 ? take_u32(args[3], &centre) : take_double(args[3], &alpha)) ||
      !call_begin(&c, module))
    return NULL;
  if (kind == 0)
    RUN(&c, kf_model_new_zero_shot(c.ctx, model, text, (kf_centre)centre, &more));
  else if (kind == 1)
    RUN(&c, kf_model_new_fused(c.ctx, model, text, alpha, &more));
  else
    RUN(&c, kf_model_new_with_text(c.ctx, model, text, &more));
  return call_capsule(&c, more, CAPSULE_MODEL);
}

/* --- contents --------------------------------------------------------------------------------- */

static const char *class_name(const void *model, uint32_t k) {
  return kf_model_class_name(model, k);
}

static PyObject *py_model_names(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  (void)module;
  if (!check_count("model_names", n, 1)) return NULL;
  const kf_model *m = capsule_get(args[0], CAPSULE_MODEL);
  return m == NULL ? NULL : names_list(class_name, m, kf_model_classes(m));
}

/* model_info(model) -> a dictionary */
static PyObject *py_model_info(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  (void)module;
  if (!check_count("model_info", n, 1)) return NULL;
  const kf_model *m = capsule_get(args[0], CAPSULE_MODEL);
  if (m == NULL) return NULL;
  double share, reject = kf_model_reject(m, &share);
  return Py_BuildValue(
      "{sI sI sI si si si si sd sd sd sd sd si sd sI sz}", "dim_in", kf_model_dim_in(m), "dim_out",
      kf_model_dim_out(m), "classes", kf_model_classes(m), "normalized", kf_model_normalized(m),
      "centre", (int)kf_model_centre(m), "method", (int)kf_model_method(m), "priors",
      (int)kf_model_priors(m), "lambda_", kf_model_lambda(m), "mean_eigenvalue",
      kf_model_mean_eigenvalue(m), "temperature", kf_model_temperature(m), "reject", reject,
      "reject_share", share, "fused", kf_model_fused(m), "alpha", kf_model_alpha(m), "answers",
      kf_model_answers(m, KF_PART_DEFAULT), "encoder", kf_origin_name(kf_model_origin(m)));
}

/* model_array(model, name) -> a copy of an array, as bytes */
static PyObject *py_model_array(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  (void)module;
  const char *name;
  if (!check_count("model_array", n, 2)) return NULL;
  const kf_model *m = capsule_get(args[0], CAPSULE_MODEL);
  if (m == NULL || !take_path(args[1], &name)) return NULL;
  uint64_t d = kf_model_dim_in(m), l = kf_model_dim_out(m), k = kf_model_classes(m);
  const struct {
    const char *name;
    const void *memory;
    uint64_t bytes;
  } arrays[] = {
      {"transform", kf_model_transform_matrix(m), l * d * sizeof(double)},
      {"mean", kf_model_mean(m), d * sizeof(double)},
      {"within_eigenvalues", kf_model_within_eigenvalues(m), d * sizeof(double)},
      {"between_eigenvalues", kf_model_between_eigenvalues(m), d * sizeof(double)},
      {"class_means", kf_model_class_means(m), k * d * sizeof(float)},
      {"prototypes", kf_model_prototypes(m), k * l * sizeof(float)},
      {"prototype_lengths", kf_model_prototype_lengths(m), k * sizeof(double)},
  };
  for (size_t i = 0; i < COUNT_OF(arrays); i++)
    if (strcmp(arrays[i].name, name) == 0)
      return PyBytes_FromStringAndSize(arrays[i].memory, (Py_ssize_t)arrays[i].bytes);
  PyErr_Format(PyExc_ValueError, "a model has no array %s", name);
  return NULL;
}

/* model_counts(model, out): int64 */
static PyObject *py_model_counts(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  (void)module;
  Py_buffer out;
  if (!check_count("model_counts", n, 2)) return NULL;
  const kf_model *m = capsule_get(args[0], CAPSULE_MODEL);
  if (m == NULL || !take_buffer(args[1], &out, true, sizeof(int64_t), kf_model_classes(m)))
    return NULL;
  int64_t *counts = out.buf;
  for (uint32_t k = 0; k < kf_model_classes(m); k++) counts[k] = kf_model_count(m, k);
  PyBuffer_Release(&out);
  Py_RETURN_NONE;
}

/* --- use -------------------------------------------------------------------------------------- */

/* The library gets a pointer and cannot check the columns. */
static bool check_columns(const source *s, uint32_t dim, const char *of) {
  if (s->dim == dim || s->n == 0) return true;
  PyErr_Format(PyExc_ValueError, "X has %u columns, but the %s takes %u", s->dim, of, dim);
  return false;
}

typedef struct use {
  const kf_model *model;
  kf_transform_options transform;
  kf_classify_options classify;
  kf_classifier *classifier; /* NULL before the first block */
  uint32_t top;
  float *mapped;
  int32_t *classes;
  double *scores, *probabilities;
} use;

static kf_status transform_block(void *argument, kf_ctx *ctx, uint64_t first, uint64_t n,
                                 const float *block) {
  const use *u = argument;
  return kf_transform(ctx, u->model, block, n, &u->transform,
                      u->mapped + first * kf_model_dim_out(u->model));
}

static kf_status classify_block(void *argument, kf_ctx *ctx, uint64_t first, uint64_t n,
                                const float *block) {
  use *u = argument;
  uint64_t to = first * u->top;
  double *scores = u->scores != NULL ? u->scores + to : NULL;
  kf_status status = KF_OK;
  if (u->classifier == NULL)
    status = kf_classifier_new(ctx, u->model, &u->classify, &u->classifier);
  if (status != KF_OK) return status;
  if (u->probabilities == NULL)
    return kf_classifier_classify(ctx, u->classifier, block, n, u->classes + to, scores);
  return kf_classifier_probabilities(ctx, u->classifier, block, n, u->classes + to, scores,
                                     u->probabilities + to);
}

/* transform(model, rows, normalize, out): f32 */
static PyObject *py_transform(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  use u = {0};
  uint32_t normalize;
  source s;
  call c;
  if (!check_count("transform", n, 4)) return NULL;
  u.model = capsule_get(args[0], CAPSULE_MODEL);
  if (u.model == NULL || !take_u32(args[2], &normalize) || !call_begin(&c, module)) return NULL;
  u.transform.normalize = (kf_switch)normalize;
  if (source_open(&s, &c, args[1], "X")) {
    Py_buffer out;
    uint32_t dim = kf_model_dim_out(u.model);
    if (check_columns(&s, kf_model_dim_in(u.model), "model") &&
        take_buffer(args[3], &out, true, sizeof(float), table_size(s.n, dim))) {
      u.mapped = out.buf;
      source_each(&s, &c, transform_block, &u);
      PyBuffer_Release(&out);
    }
    source_close(&s);
  }
  return call_end(&c) ? Py_NewRef(Py_None) : NULL;
}

/* Output buffers [rows][top]; optional ones may be absent. */
typedef struct answers {
  Py_buffer classes, scores, probabilities;
  bool has_classes, has_scores, has_probabilities;
} answers;

static void answers_release(answers *a) {
  if (a->has_classes) PyBuffer_Release(&a->classes);
  if (a->has_scores) PyBuffer_Release(&a->scores);
  if (a->has_probabilities) PyBuffer_Release(&a->probabilities);
}

static bool answers_take(answers *a, PyObject *const *args, uint64_t count) {
  a->has_classes = take_buffer(args[0], &a->classes, true, sizeof(int32_t), count);
  if (!a->has_classes) return false;
  if (args[1] != Py_None) {
    a->has_scores = take_buffer(args[1], &a->scores, true, sizeof(double), count);
    if (!a->has_scores) return false;
  }
  if (args[2] == Py_None) return true;
  a->has_probabilities = take_buffer(args[2], &a->probabilities, true, sizeof(double), count);
  return a->has_probabilities;
}

/* classify(model, rows, top, metric, raw, part, temperature, classes, scores | None,
 * probabilities | None) */
static PyObject *py_classify(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  use u = {0};
  uint32_t metric, raw, part;
  source s;
  call c;
  if (!check_count("classify", n, 10)) return NULL;
  u.model = capsule_get(args[0], CAPSULE_MODEL);
  if (u.model == NULL || !take_u32(args[2], &u.top) || !take_u32(args[3], &metric) ||
      !take_u32(args[4], &raw) || !take_u32(args[5], &part) ||
      !take_double(args[6], &u.classify.temperature) || !call_begin(&c, module))
    return NULL;
  if (u.top == 0) u.top = 1; /* as in the library */
  u.classify.top = u.top;
  u.classify.metric = (kf_metric)metric;
  u.classify.raw = raw != 0;
  u.classify.part = (kf_part)part;
  if (source_open(&s, &c, args[1], "X")) {
    answers a = {0};
    if (check_columns(&s, kf_model_dim_in(u.model), "model") &&
        answers_take(&a, args + 7, table_size(s.n, u.top))) {
      u.classes = a.classes.buf;
      u.scores = a.has_scores ? a.scores.buf : NULL;
      u.probabilities = a.has_probabilities ? a.probabilities.buf : NULL;
      source_each(&s, &c, classify_block, &u);
      kf_classifier_free(u.classifier);
    }
    answers_release(&a);
    source_close(&s);
  }
  return call_end(&c) ? Py_NewRef(Py_None) : NULL;
}

/* Scores or probabilities of all classes, [rows][classes], by number. */
typedef struct table {
  const kf_model *model;
  kf_classify_options options;
  kf_classifier *classifier; /* NULL before the first block */
  bool probabilities;
  double sign, absent; /* factor of scores; value of classes that take no part */
  uint32_t classes, answers;
  double *out;
} table;

static kf_status table_rows(const table *t, kf_ctx *ctx, uint64_t n, const float *block,
                            double *out, int32_t *found, double *values, double *unused) {
  kf_status status =
      t->probabilities
          ? kf_classifier_probabilities(ctx, t->classifier, block, n, found, unused, values)
          : kf_classifier_classify(ctx, t->classifier, block, n, found, values);
  if (status != KF_OK) return status;
  for (uint64_t i = 0; i < n * t->classes; i++) out[i] = t->absent;
  for (uint64_t i = 0; i < n; i++)
    for (uint32_t j = 0; j < t->answers; j++)
      out[i * t->classes + (uint32_t)found[i * t->answers + j]] =
          t->sign * values[i * t->answers + j];
  return KF_OK;
}

static kf_status table_block(void *argument, kf_ctx *ctx, uint64_t first, uint64_t n,
                             const float *block) {
  table *t = argument;
  kf_status status = KF_OK;
  if (t->classifier == NULL) status = kf_classifier_new(ctx, t->model, &t->options, &t->classifier);
  if (status != KF_OK) return status; /* without one, answers may be 0 */
  uint64_t size = ((uint64_t)1 << 20) / t->answers + 1, dim = kf_model_dim_in(t->model);
  if (size > n) size = n;
  int32_t *found = malloc(size * t->answers * sizeof *found);
  double *values = malloc(2 * size * t->answers * sizeof *values);
  status = found == NULL || values == NULL ? KF_ERR_MEM : KF_OK;
  for (uint64_t i = 0; status == KF_OK && i < n; i += size) {
    uint64_t count = n - i < size ? n - i : size;
    status = table_rows(t, ctx, count, block + i * dim, t->out + (first + i) * t->classes, found,
                        values, values + size * t->answers);
  }
  free(found);
  free(values);
  return status;
}

/* score_table(model, rows, metric, raw, part, temperature, probabilities, sign, absent, out) */
static PyObject *py_score_table(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  table t = {0};
  uint32_t metric, raw, part, probabilities;
  source s;
  call c;
  if (!check_count("score_table", n, 10)) return NULL;
  t.model = capsule_get(args[0], CAPSULE_MODEL);
  if (t.model == NULL || !take_u32(args[2], &metric) || !take_u32(args[3], &raw) ||
      !take_u32(args[4], &part) || !take_double(args[5], &t.options.temperature) ||
      !take_u32(args[6], &probabilities) || !take_double(args[7], &t.sign) ||
      !take_double(args[8], &t.absent) || !call_begin(&c, module))
    return NULL;
  t.options.metric = (kf_metric)metric;
  t.options.raw = raw != 0;
  t.options.part = (kf_part)part;
  t.probabilities = probabilities != 0;
  t.classes = kf_model_classes(t.model);
  t.answers = t.options.top = kf_model_answers(t.model, t.options.part);
  if (source_open(&s, &c, args[1], "X")) {
    Py_buffer out;
    if (check_columns(&s, kf_model_dim_in(t.model), "model") &&
        take_buffer(args[9], &out, true, sizeof(double), table_size(s.n, t.classes))) {
      t.out = out.buf;
      source_each(&s, &c, table_block, &t);
      kf_classifier_free(t.classifier);
      PyBuffer_Release(&out);
    }
    source_close(&s);
  }
  return call_end(&c) ? Py_NewRef(Py_None) : NULL;
}

/* transform_data(model, data, normalize, dtype, path) */
static PyObject *py_transform_data(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  uint32_t normalize, dtype;
  const char *path;
  call c;
  if (!check_count("transform_data", n, 5)) return NULL;
  const kf_model *model = capsule_get(args[0], CAPSULE_MODEL);
  const kf_data *data = model != NULL ? capsule_get(args[1], CAPSULE_DATA) : NULL;
  if (data == NULL || !take_u32(args[2], &normalize) || !take_u32(args[3], &dtype) ||
      !take_path(args[4], &path) || !call_begin(&c, module))
    return NULL;
  kf_transform_options o = {.normalize = (kf_switch)normalize};
  RUN(&c, kf_transform_data(c.ctx, model, data, &o, (kf_dtype)dtype, path));
  return call_end(&c) ? Py_NewRef(Py_None) : NULL;
}

PyMethodDef model_methods[] = {METHOD(fit),
                               METHOD(parse_lambda),
                               METHOD(model_save),
                               METHOD(model_export),
                               METHOD(model_load),
                               METHOD(model_to_bytes),
                               METHOD(model_from_bytes),
                               METHOD(model_with_class),
                               METHOD(model_with_text),
                               METHOD(model_names),
                               METHOD(model_info),
                               METHOD(model_array),
                               METHOD(model_counts),
                               METHOD(transform),
                               METHOD(transform_data),
                               METHOD(classify),
                               METHOD(score_table),
                               {0}};
