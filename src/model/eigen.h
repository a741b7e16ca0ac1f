/* eigen.h - the parts of the symmetric eigensolver (eigen.c); private to them. */
#ifndef KF_EIGEN_H
#define KF_EIGEN_H

#include "model/model.h"

/* --- tridiagonal.c ---------------------------------------------------------------------------- */

/* A = Q T Q^T. */
typedef struct kf_tridiagonal {
  size_t n, ld; /* ld: a multiple of 8, at least n */
  double *a;    /* [n, rounded up to 8][ld] A, the rest zero; row i becomes reflector i */
  double *d;    /* [n] diagonal of T */
  double *e;    /* [n] e[i] couples i and i + 1; e[n - 1] = 0 */
  double *tau;  /* [n] */
} kf_tridiagonal;
kf_status kf_tridiagonalize(kf_ctx *ctx, kf_tridiagonal *t);
/* z := Q z, vectors in the first `columns` columns of z [n][ld]; workspace [n][ld]. */
kf_status kf_apply_reflectors(kf_ctx *ctx, const kf_tridiagonal *t, size_t columns, double *z,
                              double *workspace);

/* --- divide.c --------------------------------------------------------------------------------- */

/* Finds the eigenvalues d [n] of T, in no order, and its eigenvectors, the columns of q [n][ld]; q
 * NULL: values alone. Destroys e. workspace: two of [n][ld]; without vectors only the second. */
kf_status kf_divide(kf_ctx *ctx, size_t n, size_t ld, double *d, double *e, double *q,
                    double *workspace[2]);

/* --- ql.c ------------------------------------------------------------------------------------- */

#define KF_QL_MOST 32u
/* The same for n <= KF_QL_MOST, with vectors in rows of q [n][ld]. Couplings of at most
 * `negligible` count as zero. */
kf_status kf_ql(const kf_kernels *kernels, size_t n, double negligible, double *d, double *e,
                double *q, size_t ld, kf_err *err);

/* --- secular.c -------------------------------------------------------------------------------- */

/* Finds root i of 1 / rho + sum_j z_j^2 / (d_j - x), n >= 2, rho > 0, d strictly rising, as a pole
 * and the distance from it. */
kf_status kf_secular_root(const kf_kernels *kernels, size_t n, const double *d, const double *z,
                          double rho, size_t i, double *origin, double *x, kf_err *err);

#endif
