/* text.c - text prototypes. */
#include "koofu_py.h"

static const field text_fields[] = {
    {"per_class", FIELD_U32, offsetof(kf_text_options, per_class)},
    {"unit_rows", FIELD_I32, offsetof(kf_text_options, unit_rows)},
    {"unit_mean", FIELD_I32, offsetof(kf_text_options, unit_mean)},
};

/* text_of(data, names | None, options) */
static PyObject *py_text_of(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  kf_text_options o = {0};
  const char **names = NULL;
  kf_text *text = NULL;
  call c;
  if (!check_count("text_of", n, 3)) return NULL;
  const kf_data *data = capsule_get(args[0], CAPSULE_DATA);
  if (data == NULL || !take_strings(args[1], &names, &o.n_names)) return NULL;
  PyObject *capsule = NULL;
  if (fields_fill(&o, text_fields, COUNT_OF(text_fields), args[2]) && call_begin(&c, module)) {
    o.names = names;
    RUN(&c, kf_text_new(c.ctx, data, &o, &text));
    capsule = call_capsule(&c, text, CAPSULE_TEXT);
  }
  PyMem_Free(names);
  return capsule;
}

static const field prompt_fields[] = {
    {"classes", FIELD_PATH, offsetof(kf_prompts_options, classes)},
    {"folders", FIELD_I32, offsetof(kf_prompts_options, folders)},
    {"spoken", FIELD_PATH, offsetof(kf_prompts_options, spoken)},
    {"templates", FIELD_PATH, offsetof(kf_prompts_options, templates)},
    {"all_names", FIELD_I32, offsetof(kf_prompts_options, all_names)},
    {"repeats", FIELD_I32, offsetof(kf_prompts_options, repeats)},
};

/* text_of_prompts(encoder, names | None, options) */
static PyObject *py_text_of_prompts(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  kf_prompts_options o = {0};
  const char **names = NULL;
  kf_prompts *prompts = NULL;
  kf_text *text = NULL;
  call c;
  if (!check_count("text_of_prompts", n, 3)) return NULL;
  const kf_encoder *encoder = capsule_get(args[0], CAPSULE_ENCODER);
  if (encoder == NULL || !take_strings(args[1], &names, &o.n_names)) return NULL;
  PyObject *capsule = NULL;
  if (fields_fill(&o, prompt_fields, COUNT_OF(prompt_fields), args[2]) && call_begin(&c, module)) {
    o.names = names;
    if (RUN(&c, kf_prompts_new(c.ctx, &o, &prompts)))
      RUN(&c, kf_text_new_from_prompts(c.ctx, encoder, prompts, NULL, &text));
    kf_prompts_free(prompts);
    capsule = call_capsule(&c, text, CAPSULE_TEXT);
  }
  PyMem_Free(names);
  return capsule;
}

/* text_of_model(model) */
static PyObject *py_text_of_model(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  kf_text *text = NULL;
  call c;
  if (!check_count("text_of_model", n, 1)) return NULL;
  const kf_model *model = capsule_get(args[0], CAPSULE_MODEL);
  if (model == NULL || !call_begin(&c, module)) return NULL;
  RUN(&c, kf_text_new_of_model(c.ctx, model, &text));
  return call_capsule(&c, text, CAPSULE_TEXT);
}

static PyObject *py_text_save(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  const char *path;
  call c;
  if (!check_count("text_save", n, 2)) return NULL;
  const kf_text *text = capsule_get(args[0], CAPSULE_TEXT);
  if (text == NULL || !take_path(args[1], &path)) return NULL;
  return CALL(&c, module, kf_text_save(c.ctx, text, path)) ? Py_NewRef(Py_None) : NULL;
}

/* --- contents --------------------------------------------------------------------------------- */

static const char *class_name(const void *text, uint32_t k) { return kf_text_class_name(text, k); }

/* text_info(text) -> (classes, dim, names | None, rows as bytes, checksum) */
static PyObject *py_text_info(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  (void)module;
  if (!check_count("text_info", n, 1)) return NULL;
  const kf_text *t = capsule_get(args[0], CAPSULE_TEXT);
  if (t == NULL) return NULL;
  uint32_t classes = kf_text_classes(t), dim = kf_text_dim(t);
  Py_ssize_t bytes = (Py_ssize_t)(sizeof(float) * classes * dim);
  PyObject *names = names_list(class_name, t, classes);
  if (names == NULL) return NULL;
  return Py_BuildValue("(IINy#K)", classes, dim, names, (const char *)kf_text_rows(t), bytes,
                       (unsigned long long)kf_text_checksum(t));
}

/* text_mean(data, out): f64 */
static PyObject *py_text_mean(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  Py_buffer out;
  call c;
  if (!check_count("text_mean", n, 2)) return NULL;
  const kf_data *data = capsule_get(args[0], CAPSULE_DATA);
  if (data == NULL || !take_buffer(args[1], &out, true, sizeof(double), kf_data_dim(data)))
    return NULL;
  bool fine = CALL(&c, module, kf_text_mean(c.ctx, data, out.buf));
  PyBuffer_Release(&out);
  return fine ? Py_NewRef(Py_None) : NULL;
}

PyMethodDef text_methods[] = {METHOD(text_of),
                              METHOD(text_of_prompts),
                              METHOD(text_of_model),
                              METHOD(text_save),
                              METHOD(text_info),
                              METHOD(text_mean),
                              {0}};
