/* module.c - the module: the functions of all files, and its state. */
#include "koofu_py.h"

#include <string.h>

static PyObject *py_status_name(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  (void)module;
  uint32_t status;
  if (!check_count("status_name", n, 1) || !take_u32(args[0], &status)) return NULL;
  return PyUnicode_FromString(kf_status_name((kf_status)status));
}

static PyMethodDef methods[] = {
    METHOD(configure), METHOD(threads), METHOD(set_hooks), METHOD(status_name), {0}};

static int fill_module(PyObject *module) {
  PyMethodDef *const more[] = {data_methods,    stats_methods,   model_methods,   text_methods,
                               gallery_methods, encoder_methods, judge_methods,   change_methods,
                               within_methods,  file_methods,    callback_methods};
  for (size_t i = 0; i < COUNT_OF(more); i++)
    if (PyModule_AddFunctions(module, more[i]) != 0) return -1;
  return PyModule_AddStringConstant(module, "version", kf_version());
}

static int visit_state(PyObject *module, visitproc visit, void *arg) {
  hooks *h = PyModule_GetState(module);
  Py_VISIT(h->error);
  Py_VISIT(h->note);
  Py_VISIT(h->report);
  return 0;
}

static int clear(PyObject *module) {
  hooks *h = PyModule_GetState(module);
  Py_CLEAR(h->error);
  Py_CLEAR(h->note);
  Py_CLEAR(h->report);
  return 0;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)(uintptr_t)fill_module},
#ifdef Py_mod_multiple_interpreters
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
#ifdef Py_mod_gil
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "koofu._koofu",
    .m_doc = "The C library koofu, as functions over capsules. Use the classes of koofu instead.",
    .m_size = sizeof(hooks),
    .m_methods = methods,
    .m_slots = slots,
    .m_traverse = visit_state,
    .m_clear = clear,
};

PyMODINIT_FUNC PyInit__koofu(void) { return PyModuleDef_Init(&definition); }
