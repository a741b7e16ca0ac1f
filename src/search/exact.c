/* exact.c - scores without rounding.
 *
 * The product of two f32 is exact in f64, at least 2^-298 and below 2^256. A sum of such products
 * is kept as an integer in units of 2^-352, in 32-bit digits, enough for the widest rows. A cosine
 * is compared by its square times |q|^2, that is (q . x)^2 / |x|^2, and two of these by
 * cross-multiplication. */
#include "search/exact.h"

#include <math.h>
#include <string.h>

enum { DIGITS = 22, SQUARE = 2 * DIGITS, CUBE = 3 * DIGITS, UNIT = 352 };

/* --- sums of products ------------------------------------------------------------------------- */

/* Digits may be negative or overdue for a carry: up to 2^18 products of at most 2^33 each. */
typedef struct sum {
  int64_t digit[DIGITS];
} sum;

/* Adds sign * x * y; sign: 1, -1 or -2. */
static void add_product(sum *s, float x, float y, int sign) {
  double product = (double)x * (double)y * sign;
  uint64_t bits;
  if (product == 0) return;
  memcpy(&bits, &product, sizeof bits);
  uint64_t mantissa = (bits & 0xfffffffffffff) | (uint64_t)1 << 52;
  unsigned at = (unsigned)(bits >> 52 & 0x7ff) + UNIT - 1075, shift = at % 32;
  uint64_t low = (mantissa & UINT32_MAX) << shift, high = (mantissa >> 32) << shift;
  int64_t part[3] = {(int64_t)(low & UINT32_MAX), (int64_t)((low >> 32) + (high & UINT32_MAX)),
                     (int64_t)(high >> 32)};
  int64_t *to = s->digit + at / 32;
  for (int i = 0; i < 3; i++) to[i] += bits >> 63 ? -part[i] : part[i];
}

/* Sign and magnitude. */
typedef struct number {
  int sign; /* 0: zero */
  uint32_t digit[DIGITS];
} number;

/* Propagates carries; returns the last one. */
static int64_t carry(const sum *s, int sign, uint32_t *digit) {
  int64_t over = 0;
  for (int i = 0; i < DIGITS; i++) {
    int64_t value = sign * s->digit[i] + over;
    digit[i] = (uint32_t)(uint64_t)value;
    over = (value - (int64_t)digit[i]) / ((int64_t)1 << 32);
  }
  return over;
}

static number number_of(const sum *s) {
  number n = {.sign = 1};
  if (carry(s, 1, n.digit) < 0) {
    n.sign = -1;
    carry(s, -1, n.digit);
  }
  int top = DIGITS - 1;
  while (top >= 0 && n.digit[top] == 0) top--;
  if (top < 0) n.sign = 0;
  return n;
}

static number dot_of(const float *x, const float *y, uint32_t dim) {
  sum s = {{0}};
  for (uint32_t i = 0; i < dim; i++) add_product(&s, x[i], y[i], 1);
  return number_of(&s);
}

static number distance_of(const float *x, const float *y, uint32_t dim) {
  sum s = {{0}};
  for (uint32_t i = 0; i < dim; i++) {
    add_product(&s, x[i], x[i], 1);
    add_product(&s, x[i], y[i], -2);
    add_product(&s, y[i], y[i], 1);
  }
  return number_of(&s);
}

/* --- comparing -------------------------------------------------------------------------------- */

static int compare_digits(const uint32_t *x, const uint32_t *y, int n) {
  while (n > 0 && x[n - 1] == y[n - 1]) n--;
  return n == 0 ? 0 : x[n - 1] > y[n - 1] ? 1 : -1;
}

static int compare_numbers(const number *x, const number *y) {
  if (x->sign != y->sign) return x->sign > y->sign ? 1 : -1;
  return x->sign * compare_digits(x->digit, y->digit, DIGITS);
}

/* out[n + DIGITS] = x[n] * y[DIGITS] */
static void multiply(const uint32_t *x, int n, const uint32_t *y, uint32_t *out) {
  memset(out, 0, (size_t)(n + DIGITS) * sizeof *out);
  for (int i = 0; i < n; i++) {
    uint64_t over = 0;
    for (int j = 0; j < DIGITS && x[i] > 0; j++) {
      over += (uint64_t)x[i] * y[j] + out[i + j];
      out[i + j] = (uint32_t)over;
      over >>= 32;
    }
    if (x[i] > 0) out[i + DIGITS] = (uint32_t)over;
  }
}

/* (q . x)^2 |y|^2 */
static void cross_product(const number *dot, const number *norm2, uint32_t out[CUBE]) {
  uint32_t square[SQUARE];
  multiply(dot->digit, DIGITS, dot->digit, square);
  multiply(square, SQUARE, norm2->digit, out);
}

static int compare_cosines(const float *q, const float *x, const float *y, uint32_t dim) {
  number qx = dot_of(q, x, dim), qy = dot_of(q, y, dim);
  if (qx.sign != qy.sign) return qx.sign > qy.sign ? 1 : -1;
  number xx = dot_of(x, x, dim), yy = dot_of(y, y, dim);
  uint32_t left[CUBE], right[CUBE];
  cross_product(&qx, &yy, left);
  cross_product(&qy, &xx, right);
  return qx.sign * compare_digits(left, right, CUBE);
}

int kf_exact_compare(kf_metric metric, const float *q, const float *x, const float *y,
                     uint32_t dim) {
  if (metric == KF_METRIC_COSINE) return compare_cosines(q, x, y, dim);
  bool distances = metric == KF_METRIC_EUCLIDEAN;
  number a = (distances ? distance_of : dot_of)(q, x, dim);
  number b = (distances ? distance_of : dot_of)(q, y, dim);
  return distances ? compare_numbers(&b, &a) : compare_numbers(&a, &b);
}

/* --- a hundred bits --------------------------------------------------------------------------- */

/* x + y for |x| >= |y|. */
static kf_fine quick_sum(double x, double y) {
  double s = x + y;
  return (kf_fine){s, y - (s - x)};
}

static kf_fine product(double x, double y) { /* Dekker's */
  const double splitter = 0x1p27 + 1;
  double p = x * y, a = splitter * x, b = splitter * y;
  double xh = a - (a - x), xl = x - xh, yh = b - (b - y), yl = y - yh;
  return (kf_fine){p, ((xh * yh - p) + xh * yl + xl * yh) + xl * yl};
}

static kf_fine times(kf_fine x, kf_fine y) {
  kf_fine p = product(x.high, y.high);
  return quick_sum(p.high, p.low + (x.high * y.low + x.low * y.high));
}

static kf_fine divided(kf_fine x, kf_fine y) {
  double first = x.high / y.high;
  kf_fine p = times(y, (kf_fine){first, 0});
  return quick_sum(first, ((x.high - p.high) + (x.low - p.low)) / y.high);
}

/* The first five digits, 129 bits or more. */
static kf_fine fine_of(const number *n) {
  kf_fine f = {0, 0};
  int top = DIGITS - 1;
  while (top > 0 && n->digit[top] == 0) top--;
  for (int i = top; i >= 0 && i > top - 5; i--) {
    kf_fine s = quick_sum(f.high, ldexp(n->digit[i], 32 * i - UNIT)); /* in falling order */
    f = quick_sum(s.high, s.low + f.low);
  }
  return (kf_fine){n->sign * f.high, n->sign * f.low};
}

kf_fine kf_exact_fine(kf_metric metric, const float *q, const float *x, uint32_t dim) {
  if (metric == KF_METRIC_EUCLIDEAN) {
    number distance = distance_of(q, x, dim);
    kf_fine f = fine_of(&distance);
    return (kf_fine){-f.high, -f.low};
  }
  number dot = dot_of(q, x, dim);
  kf_fine f = fine_of(&dot);
  if (metric != KF_METRIC_COSINE || dot.sign == 0) return f;
  number norm2 = dot_of(x, x, dim);
  kf_fine square = divided(times(f, f), fine_of(&norm2));
  return (kf_fine){dot.sign * square.high, dot.sign * square.low};
}

int kf_fine_compare(kf_fine x, kf_fine y) {
  double apart = (x.high - y.high) + (x.low - y.low);
  double error = 0x1p-96 * (fabs(x.high) + fabs(y.high));
  return apart > error ? 1 : apart < -error ? -1 : 0;
}
