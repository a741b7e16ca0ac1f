/* ql.c - solves small tridiagonal matrices by implicit QL with Wilkinson's shift (Francis,
 * Kublanovskaya). These are the leaves of divide and conquer, which costs more than it saves
 * there. */
#include "model/eigen.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define MAX_SWEEPS 60 /* per eigenvalue; two are usual */

typedef struct leaf {
  const kf_kernels *kernels;
  size_t n;
  double *d, *e;
  double rows[KF_QL_MOST * KF_QL_MOST]; /* vectors, always of full width, which is faster */
} leaf;

/* The first m >= l at which T splits. */
static size_t find_split(const leaf *t, size_t l, double negligible) {
  size_t m = l;
  for (; m + 1 < t->n; m++) {
    double scale = fabs(t->d[m]) + fabs(t->d[m + 1]);
    if (fabs(t->e[m]) <= DBL_EPSILON * scale || fabs(t->e[m]) <= negligible) break;
  }
  return m;
}

/* One sweep over the block [l, m]. */
static void sweep(leaf *t, size_t l, size_t m) {
  double *d = t->d, *e = t->e, cosine[KF_QL_MOST], sine[KF_QL_MOST];
  double shift = (d[l + 1] - d[l]) / (2 * e[l]);
  double root = sqrt(shift * shift + 1);
  double f = d[m] - d[l] + e[l] / (shift + (shift >= 0 ? root : -root));
  double s = 1, c = 1, p = 0;
  size_t i = m, count = 0;
  while (i-- > l) {
    double y = s * e[i], b = c * e[i], r = sqrt(y * y + f * f);
    e[i + 1] = r;
    if (r == 0) break; /* T split during the sweep: start again on the smaller block */
    s = y / r;
    c = f / r;
    f = d[i + 1] - p;
    r = (d[i] - f) * s + 2 * c * b;
    p = s * r;
    d[i + 1] = f + p;
    f = c * r - b;
    cosine[count] = c;
    sine[count++] = s;
  }
  bool whole = count == m - l;
  d[whole ? l : i + 1] -= p;
  if (whole) e[l] = f;
  e[m] = 0;
  t->kernels->rotate(t->rows, KF_QL_MOST, KF_QL_MOST, m - 1, cosine, sine, count);
}

kf_status kf_ql(const kf_kernels *kernels, size_t n, double negligible, double *d, double *e,
                double *q, size_t ld, kf_err *err) {
  leaf t = {.kernels = kernels, .n = n, .d = d, .e = e};
  for (size_t i = 0; i < n; i++) t.rows[i * KF_QL_MOST + i] = 1;
  for (size_t l = 0; l < n; l++)
    for (int sweeps = 0;; sweeps++) {
      size_t m = find_split(&t, l, negligible);
      if (m == l) break;
      if (sweeps == MAX_SWEEPS)
        return kf_fail(err, KF_ERR_INTERNAL, "the eigensolver did not converge");
      sweep(&t, l, m);
    }
  for (size_t i = 0; i < n; i++) memcpy(q + i * ld, t.rows + i * KF_QL_MOST, n * sizeof *q);
  return KF_OK;
}
