/* secular.c - the roots of the secular equation,
 *
 *     w(x) = 1 / rho + sum_j z_j^2 / (d_j - x) = 0,
 *
 * which are the eigenvalues of diag(d) + rho z z^T. w rises from minus to plus infinity between two
 * poles, so root i lies between d_i and d_{i+1}, and the last one between d_{n-1} and d_{n-1} +
 * rho z.z.
 *
 * A root may be closer to a pole than the spacing of floating-point numbers there, and eigenvectors
 * need its distance from every pole to full relative precision. So roots are kept as distances from
 * the nearer pole (Gu and Eisenstat). The iteration replaces w by c + s_1 / (d_p - x) + s_2 /
 * (d_{p+1} - x), where p and p + 1 are the poles around the root, which matches w and its slope at
 * the last iterate (Li, LAPACK Working Note 89). It uses the 'fixed weight', where the nearer pole
 * keeps its z^2, or if that is slow the 'middle way', where each pole has the slope of all poles on
 * its side. Every iterate narrows a bracket, and one outside it is replaced by a bisection, so the
 * iteration ends whatever the rounding errors. */
#include "model/eigen.h"

#include <float.h>
#include <math.h>

#define MAX_STEPS 200 /* five are usual; bisection alone needs about seventy */

typedef struct secular {
  const kf_kernels *kernels;
  size_t n, p; /* p: the left one of the two poles */
  const double *d, *z;
  double inverse_rho;
  double origin; /* a pole */
  bool left;     /* it is pole p */
  bool last;     /* the root lies right of both poles */
  double sign;   /* of x; |x| lies in (low, high) */
  double low, high;
  double x;
  double left_sum, right_sum, left_slope, right_slope; /* over poles up to p, and beyond */
  double w;
} secular;

static void evaluate(secular *s) {
  size_t split = s->p + 1;
  double sums[2];
  s->kernels->secular_sums(split, s->d, s->z, s->origin, s->x, sums);
  s->left_sum = sums[0];
  s->left_slope = sums[1];
  s->kernels->secular_sums(s->n - split, s->d + split, s->z + split, s->origin, s->x, sums);
  s->right_sum = sums[0];
  s->right_slope = sums[1];
  s->w = s->inverse_rho + (s->left_sum + s->right_sum);
}

/* The root of c x^2 - a x + b that lies between the poles, without cancellation. */
static double between_poles(double a, double b, double c) {
  double root = sqrt(fabs(a * a - 4 * b * c));
  return a <= 0 ? (a - root) / (2 * c) : 2 * b / (a + root);
}

/* The larger root. */
static double beyond_poles(double a, double b, double c) {
  double root = sqrt(fabs(a * a - 4 * b * c));
  return a >= 0 ? (a + root) / (2 * c) : 2 * b / (a - root);
}

/* The middle of the bracket, on a logarithmic scale while that is wide. */
static void bisect(secular *s) {
  bool wide = s->high > 8 * s->low;
  s->x = s->sign * (wide ? sqrt(s->low) * sqrt(s->high) : s->low + (s->high - s->low) / 2);
}

static void move_to(secular *s, double x) {
  double size = s->sign * x;
  if (size > s->low && size < s->high)
    s->x = x;
  else
    bisect(s);
}

/* Sets the origin, the bracket and a first x, for which all poles but two are taken as constant. */
static void start(secular *s, size_t i, double rho) {
  const double *d = s->d, *z = s->z;
  size_t p = s->p;
  double gap = d[p + 1] - d[p], square[2] = {z[p] * z[p], z[p + 1] * z[p + 1]};
  s->last = i == s->n - 1;
  s->origin = d[i];
  s->sign = 1;
  s->high = s->last ? rho * s->kernels->dot(s->n, z, z) : gap / 2;
  s->x = s->last ? s->high / 2 : s->high;
  evaluate(s);
  s->left = !s->last && s->w >= 0;
  double c =
      s->w - square[0] / ((d[p] - s->origin) - s->x) - square[1] / ((d[p + 1] - s->origin) - s->x);
  double sum = square[0] + square[1], guess;
  if (s->last) {
    s->low = rho * square[1] / 2;
    s->high *= 1 + 8 * DBL_EPSILON;
    guess = beyond_poles(sum - c * gap, -square[1] * gap, c);
  } else if (s->left) {
    s->low = square[0] / (s->inverse_rho + s->right_sum) / 2;
    guess = between_poles(c * gap + sum, square[0] * gap, c);
  } else {
    s->origin = d[p + 1];
    s->sign = -1;
    s->low = square[1] / -s->left_sum / 2;
    guess = between_poles(sum - c * gap, -square[1] * gap, c);
  }
  move_to(s, guess);
}

/* The next x by one of the two interpolations. */
static double interpolate(const secular *s, bool middle) {
  double gap = s->d[s->p + 1] - s->d[s->p], w = s->w, slope = s->left_slope + s->right_slope;
  double left = (s->d[s->p] - s->origin) - s->x, right = (s->d[s->p + 1] - s->origin) - s->x;
  double a = (left + right) * w - left * right * slope, b = left * right * w, c;
  if (middle || s->last) {
    c = w - left * s->left_slope - right * s->right_slope;
  } else if (s->left) {
    double q = s->z[s->p] / left;
    c = w - right * slope + gap * (q * q);
  } else {
    double q = s->z[s->p + 1] / right;
    c = w - left * slope - gap * (q * q);
  }
  double step = s->last ? beyond_poles(a, b, c) : between_poles(a, b, c);
  if (!(step * w < 0)) step = -w / slope; /* rounding; Newton's step has the right direction */
  return s->x + step;
}

/* Whether w is zero up to rounding errors or the bracket cannot be narrowed further. Otherwise
 * narrows it. */
static bool found(secular *s) {
  double size = fabs(s->x), all = s->right_sum - s->left_sum;
  if (s->last) all = -(s->left_sum + s->right_sum);
  double noise = 8 * all + s->inverse_rho + size * (s->left_slope + s->right_slope);
  if (fabs(s->w) <= DBL_EPSILON * noise) return true;
  if ((s->w < 0) == (s->sign > 0))
    s->low = fmax(s->low, size);
  else
    s->high = fmin(s->high, size);
  return s->high - s->low <= 2 * DBL_EPSILON * s->high;
}

kf_status kf_secular_root(const kf_kernels *kernels, size_t n, const double *d, const double *z,
                          double rho, size_t i, double *origin, double *x, kf_err *err) {
  secular s = {.kernels = kernels, .n = n, .d = d, .z = z, .inverse_rho = 1 / rho};
  s.p = i < n - 1 ? i : n - 2;
  start(&s, i, rho);
  bool middle = false;
  double before = INFINITY;
  for (int step = 0; step < MAX_STEPS; step++) {
    evaluate(&s);
    if (!isfinite(s.w)) break;
    if (found(&s)) {
      *origin = s.origin;
      *x = s.x;
      return KF_OK;
    }
    if (fabs(s.w) > before / 8) middle = !middle;
    before = fabs(s.w);
    if (step % 8 == 7)
      bisect(&s);
    else
      move_to(&s, interpolate(&s, middle));
  }
  return kf_fail(err, KF_ERR_INTERNAL, "the eigensolver did not converge");
}
