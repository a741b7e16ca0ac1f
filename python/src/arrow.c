#include "koofu_py.h"
int rows_from_arrow(rows *r, PyObject *object, const char *what) {
  (void)r;
  (void)object;
  (void)what;
  return 0;
}
