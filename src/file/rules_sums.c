/* rules_sums.c - checks of statistics: sums that no rows can produce might overflow later, or give
 * matrices without a square root. |X| <= 2^22 bounds a class sum by 2^22 n_k and a moment by 2^44
 * N; since rows are f32, 2^128 n_k and 2^256 N bound both in real units. The other checks are
 * Cauchy-Schwarz inequalities, which cost no more than reading. */
#include "file/rules.h"

#include <inttypes.h>
#include <math.h>

typedef struct sums {
  const int64_t *counts, *sums;
  const kf_i128 *moments;
  uint64_t classes, dim;
  double rows;
  double largest; /* |X| at most */
} sums;

/* false: some are not in memory. */
static bool find_sums(const kf_contents *c, sums *s) {
  const kf_st_field *counts = kf_field(c, "counts"), *class_sums = kf_field(c, "class_sums");
  if (counts == NULL || class_sums == NULL || c->moments == NULL || c->st == NULL) return false;
  *s = (sums){.counts = counts->memory,
              .sums = class_sums->memory,
              .moments = c->moments,
              .classes = class_sums->shape[0],
              .dim = class_sums->shape[1],
              .rows = kf_meta_number(c, "rows"),
              .largest = fmin(KF_FIXED_ONE, ldexp(1.0, 128 + (int)kf_meta_number(c, "exponent")))};
  return true;
}

kf_status kf_rule_total(const kf_rule *rule, const kf_contents *c, kf_err *err) {
  const kf_st_field *f = kf_field(c, rule->subject);
  int64_t rows;
  uint64_t sum = 0; /* 2^22 counts of at most 2^40 each */
  if (f == NULL || c->st == NULL) return KF_OK;
  KF_TRY(kf_st_meta_i64(c->st, "rows", &rows, err));
  for (uint64_t k = 0; k < f->shape[0]; k++) sum += (uint64_t)((const int64_t *)f->memory)[k];
  if (sum == (uint64_t)rows) return KF_OK;
  return kf_fail_file(err, c->path,
                      "the counts of the classes add up to %" PRIu64
                      " rows, but the header says %" PRId64,
                      sum, rows);
}

kf_status kf_rule_class_sums(const kf_rule *rule, const kf_contents *c, kf_err *err) {
  (void)rule;
  sums s;
  if (!find_sums(c, &s)) return KF_OK;
  for (uint64_t k = 0; k < s.classes; k++)
    for (uint64_t i = 0; i < s.dim; i++) {
      int64_t sum = s.sums[k * s.dim + i];
      if (fabs((double)sum) > s.largest * (double)s.counts[k])
        return kf_fail_file(err, c->path,
                            "the sum of class %" PRIu64 ", column %" PRIu64
                            " is too large for %" PRId64 " rows",
                            k, i, s.counts[k]);
    }
  return KF_OK;
}

kf_status kf_rule_class_lengths(const kf_rule *rule, const kf_contents *c, kf_err *err) {
  (void)rule;
  sums s;
  if (!find_sums(c, &s) || !kf_meta_is(c, "normalized", "1")) return KF_OK;
  for (uint64_t k = 0; k < s.classes; k++) {
    double norm2 = 0, most = (double)s.counts[k] * KF_FIXED_ONE * (1 + 1e-4);
    for (uint64_t i = 0; i < s.dim; i++)
      norm2 += (double)s.sums[k * s.dim + i] * (double)s.sums[k * s.dim + i];
    if (norm2 > most * most)
      return kf_fail_file(err, c->path,
                          "the sum of class %" PRIu64 " is longer than %" PRId64
                          " unit rows can make it",
                          k, s.counts[k]);
  }
  return KF_OK;
}

kf_status kf_rule_moments(const kf_rule *rule, const kf_contents *c, kf_err *err) {
  (void)rule;
  sums s;
  if (!find_sums(c, &s)) return KF_OK;
  kf_i128 limit = (kf_i128)(s.rows * (s.largest * s.largest));
  for (uint64_t i = 0, at = 0; i < s.dim; i++)
    for (uint64_t j = i; j < s.dim; j++, at++)
      if (s.moments[at] > limit || s.moments[at] < -limit)
        return kf_fail_file(err, c->path,
                            "second moment (%" PRIu64 ", %" PRIu64 ") is too large for %.0f rows",
                            i, j, s.rows);
  return KF_OK;
}

/* Where (i, i) is in the triangle. */
static uint64_t diagonal(const sums *s, uint64_t i) { return i * (2 * s->dim - i + 1) / 2; }

/* The scatter within classes has no negative squares. */
kf_status kf_rule_squares(const kf_rule *rule, const kf_contents *c, kf_err *err) {
  (void)rule;
  sums s;
  if (!find_sums(c, &s)) return KF_OK;
  double *least = kf_alloc_zero(s.dim, sizeof *least);
  if (least == NULL) return kf_fail_memory(err);
  for (uint64_t k = 0; k < s.classes; k++)
    for (uint64_t i = 0; s.counts[k] > 0 && i < s.dim; i++) {
      double sum = (double)s.sums[k * s.dim + i];
      least[i] += sum * (sum / (double)s.counts[k]);
    }
  kf_status status = KF_OK;
  for (uint64_t i = 0; status == KF_OK && i < s.dim; i++)
    if ((double)s.moments[diagonal(&s, i)] < least[i] * (1 - 1e-8))
      status = kf_fail_file(
          err, c->path,
          "second moment (%" PRIu64 ", %" PRIu64 ") is smaller than the class sums allow", i, i);
  kf_free(least);
  return status;
}

static kf_status compare_products(const sums *s, const double *root, const char *path,
                                  kf_err *err) {
  for (uint64_t i = 0, at = 0; i < s->dim; i++)
    for (uint64_t j = i; j < s->dim; j++, at++)
      if (fabs((double)s->moments[at]) > root[i] * root[j] * (1 + 1e-9))
        return kf_fail_file(err, path,
                            "second moment (%" PRIu64 ", %" PRIu64
                            ") is larger than those of its two columns allow",
                            i, j);
  return KF_OK;
}

kf_status kf_rule_products(const kf_rule *rule, const kf_contents *c, kf_err *err) {
  (void)rule;
  sums s;
  if (!find_sums(c, &s)) return KF_OK;
  double *root = kf_alloc(s.dim, sizeof *root);
  if (root == NULL) return kf_fail_memory(err);
  for (uint64_t i = 0; i < s.dim; i++) root[i] = sqrt((double)s.moments[diagonal(&s, i)]);
  kf_status status = compare_products(&s, root, c->path, err);
  kf_free(root);
  return status;
}

kf_status kf_rule_lengths(const kf_rule *rule, const kf_contents *c, kf_err *err) {
  (void)rule;
  sums s;
  if (!find_sums(c, &s) || !kf_meta_is(c, "normalized", "1")) return KF_OK;
  double trace = 0, wanted = s.rows * 0x1p44;
  for (uint64_t i = 0; i < s.dim; i++) trace += (double)s.moments[diagonal(&s, i)];
  if (fabs(trace - wanted) <= 1e-4 * wanted) return KF_OK;
  return kf_fail_file(err, c->path,
                      "the second moments are those of %.9g unit rows, but the header says %.0f",
                      trace * 0x1p-44, s.rows);
}
