/* rules_tensors.c - checks of tensors in memory. The code that needs a tensor
 * reports it if it is absent. */
#include "file/rules.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static uint64_t size_of(const kf_st_field *f) { return f->shape[0] * f->shape[1]; }

static const kf_st_field *subject_of(const kf_rule *rule, const kf_contents *c) {
  const kf_st_field *f = kf_field(c, rule->subject);
  return f != NULL && f->memory != NULL ? f : NULL;
}

/* --- elements ------------------------------------------------------------------------------ */

#define ELEMENTS_AT_ONCE 4096u

static bool within(const kf_rule *rule, double value) {
  return value >= rule->low && value <= rule->high;
}

/* Whether elements [first, end) satisfy the rule. Large tensors are f32 or f64; for those the loop
 * has no calls and no branches, so that compilers vectorise it. */
static bool all_within(const kf_rule *rule, const kf_st_field *f, uint64_t first, uint64_t end) {
  const double low = rule->low, high = rule->high;
  int inside = 1;
  if (f->type == KF_TYPE_F32) {
    const float *x = f->memory;
    for (uint64_t i = first; i < end; i++) inside &= ((double)x[i] >= low) & ((double)x[i] <= high);
  } else if (f->type == KF_TYPE_F64) {
    const double *x = f->memory;
    for (uint64_t i = first; i < end; i++) inside &= (x[i] >= low) & (x[i] <= high);
  } else {
    for (uint64_t i = first; i < end; i++) inside &= within(rule, kf_field_at(f, i));
  }
  return inside != 0;
}

kf_status kf_rule_elements(const kf_rule *rule, const kf_contents *c, kf_err *err) {
  const kf_st_field *f = subject_of(rule, c);
  uint64_t n = f != NULL ? size_of(f) : 0, end;
  for (uint64_t first = 0; first < n; first = end) {
    end = n - first < ELEMENTS_AT_ONCE ? n : first + ELEMENTS_AT_ONCE;
    if (all_within(rule, f, first, end)) continue;
    for (uint64_t i = first; i < end; i++)
      if (!within(rule, kf_field_at(f, i))) return kf_fail_element(rule, c, f, i, err);
  }
  return KF_OK;
}

kf_status kf_rule_descending(const kf_rule *rule, const kf_contents *c, kf_err *err) {
  const kf_st_field *f = subject_of(rule, c);
  for (uint64_t i = 1; f != NULL && i < size_of(f); i++)
    if (kf_field_at(f, i) > kf_field_at(f, i - 1)) return kf_fail_element(rule, c, f, i, err);
  return KF_OK;
}

kf_status kf_rule_any(const kf_rule *rule, const kf_contents *c, kf_err *err) {
  const kf_st_field *f = subject_of(rule, c);
  if (f == NULL) return KF_OK;
  for (uint64_t i = 0; i < size_of(f); i++)
    if (kf_field_at(f, i) > 0) return KF_OK;
  return kf_fail_file(err, c->path,
                      "all %" PRIu64 " elements of tensor '%s' are 0; they must be: %s", size_of(f),
                      f->name, rule->says);
}

/* --- eigenvalues --------------------------------------------------------------------------- */

kf_status kf_rule_rank(const kf_rule *rule, const kf_contents *c, kf_err *err) {
  const kf_st_field *f = subject_of(rule, c);
  if (f == NULL || c->st == NULL) return KF_OK;
  double matrix_rank = kf_meta_number(c, "within_rank");
  for (uint64_t i = 0; i < size_of(f); i++)
    if ((kf_field_at(f, i) > 0) != ((double)i < matrix_rank))
      return kf_fail_element(rule, c, f, i, err);
  if (matrix_rank <= (double)size_of(f)) return KF_OK;
  return kf_fail_file(err, c->path,
                      "metadata 'within_rank' is %.0f, more than the %" PRIu64
                      " elements of tensor '%s'",
                      matrix_rank, size_of(f), f->name);
}

kf_status kf_rule_trace(const kf_rule *rule, const kf_contents *c, kf_err *err) {
  const kf_st_field *f = subject_of(rule, c);
  if (f == NULL || c->st == NULL) return KF_OK;
  double mean = 0, stored = kf_meta_number(c, "mean_eigenvalue"), n = (double)size_of(f);
  for (uint64_t i = 0; i < size_of(f); i++) mean += kf_field_at(f, i) / n;
  if (fabs(mean - stored) <= 2e-6 * kf_field_at(f, 0)) return KF_OK;
  return kf_fail_file(
      err, c->path,
      "metadata 'mean_eigenvalue' is %.9g, but the elements of tensor '%s' are %.9g "
      "on average; they must be: %s",
      stored, f->name, mean, rule->says);
}

/* --- rows ---------------------------------------------------------------------------------- */

static bool zeros(const kf_st_field *f, uint64_t row) {
  for (uint64_t i = row * f->shape[1]; i < (row + 1) * f->shape[1]; i++)
    if (kf_field_at(f, i) != 0) return false;
  return true;
}

/* Whether a row of f32 has unit length. */
static bool unit(const kf_contents *c, const kf_st_field *f, uint64_t row) {
  const float *x = (const float *)f->memory + row * f->shape[1];
  return fabs(c->kernels->norm2(x, f->shape[1]) - 1) < 1e-5;
}

static kf_status not_unit(const kf_rule *rule, const kf_contents *c, uint64_t row, kf_err *err) {
  return kf_fail_tensor_row(rule, c, row, "does not have unit length", err);
}

static kf_status not_zeros(const kf_rule *rule, const kf_contents *c, uint64_t row, kf_err *err) {
  return kf_fail_tensor_row(rule, c, row, "is not zeros", err);
}

kf_status kf_rule_directions(const kf_rule *rule, const kf_contents *c, kf_err *err) {
  const kf_st_field *f = subject_of(rule, c);
  for (uint64_t k = 0; f != NULL && k < f->shape[0]; k++)
    if (zeros(f, k)) return kf_fail_tensor_row(rule, c, k, "is all zeros", err);
  return KF_OK;
}

kf_status kf_rule_zeros(const kf_rule *rule, const kf_contents *c, kf_err *err) {
  const kf_st_field *f = subject_of(rule, c), *other = kf_field(c, rule->other);
  for (uint64_t k = 0; f != NULL && other != NULL && k < f->shape[0]; k++)
    if (kf_field_at(other, k) == 0 && !zeros(f, k)) return not_zeros(rule, c, k, err);
  return KF_OK;
}

kf_status kf_rule_units(const kf_rule *rule, const kf_contents *c, kf_err *err) {
  const kf_st_field *f = subject_of(rule, c), *other = kf_field(c, rule->other);
  for (uint64_t k = 0; f != NULL && other != NULL && k < f->shape[0]; k++) {
    bool wanted = kf_field_at(other, k) > 0;
    if (wanted && !unit(c, f, k)) return not_unit(rule, c, k, err);
    if (!wanted && !zeros(f, k)) return not_zeros(rule, c, k, err);
  }
  return KF_OK;
}

kf_status kf_rule_mean(const kf_rule *rule, const kf_contents *c, kf_err *err) {
  const kf_st_field *f = subject_of(rule, c);
  if (f == NULL || !kf_meta_is(c, "normalized", "1")) return KF_OK;
  double norm2 = 0;
  for (uint64_t i = 0; i < size_of(f); i++) norm2 += kf_field_at(f, i) * kf_field_at(f, i);
  if (sqrt(norm2) <= 1 + 1e-4) return KF_OK;
  return kf_fail_file(err, c->path, "tensor '%s' has the length %.9g; it must be: %s", f->name,
                      sqrt(norm2), rule->says);
}

/* --- text ---------------------------------------------------------------------------------- */

kf_status kf_rule_given(const kf_rule *rule, const kf_contents *c, kf_err *err) {
  const kf_st_field *f = subject_of(rule, c), *counts = kf_field(c, "counts");
  uint64_t both = 0;
  if (f == NULL || counts == NULL) return KF_OK;
  for (uint64_t k = 0; k < f->shape[0]; k++)
    both += kf_field_at(f, k) > 0 && kf_field_at(counts, k) > 0;
  if (both >= 2) return KF_OK;
  return kf_fail_file(err, c->path,
                      "tensor '%s' is 1 for %" PRIu64 " classes with rows; it must be: %s", f->name,
                      both, rule->says);
}

/* Predicted rows have unit length, unless the prediction was zero. */
static kf_status check_text_row(const kf_rule *rule, const kf_contents *c, const kf_st_field *f,
                                uint64_t k, bool known, bool predicted, kf_err *err) {
  if ((predicted || !known) && zeros(f, k)) return KF_OK;
  if (!known && !predicted) return not_zeros(rule, c, k, err);
  return unit(c, f, k) ? KF_OK : not_unit(rule, c, k, err);
}

kf_status kf_rule_text(const kf_rule *rule, const kf_contents *c, kf_err *err) {
  const kf_st_field *f = subject_of(rule, c), *given = kf_field(c, "text_given");
  const kf_st_field *counts = kf_field(c, "counts");
  for (uint64_t k = 0; f != NULL && given != NULL && counts != NULL && k < f->shape[0]; k++) {
    bool known = kf_field_at(given, k) > 0;
    KF_TRY(check_text_row(rule, c, f, k, known, !known && kf_field_at(counts, k) > 0, err));
  }
  return KF_OK;
}

kf_status kf_rule_fused(const kf_rule *rule, const kf_contents *c, kf_err *err) {
  const kf_st_field *f = subject_of(rule, c), *own = kf_field(c, "prototypes");
  const kf_st_field *given = kf_field(c, "text_given"), *counts = kf_field(c, "counts");
  if (f == NULL || own == NULL || given == NULL || counts == NULL) return KF_OK;
  size_t bytes = f->shape[1] * sizeof(float);
  for (uint64_t k = 0; k < f->shape[0]; k++) {
    if (kf_field_at(counts, k) == 0)
      KF_TRY(check_text_row(rule, c, f, k, false, kf_field_at(given, k) > 0, err));
    else if (memcmp((char *)f->memory + k * bytes, (char *)own->memory + k * bytes, bytes) != 0)
      return kf_fail_tensor_row(rule, c, k, "is not that of 'prototypes'", err);
  }
  return KF_OK;
}

/* --- galleries ----------------------------------------------------------------------------- */

static kf_status fail_row(const kf_contents *c, uint64_t row, const char *cause, kf_err *err) {
  return kf_fail(err, KF_ERR_DATA, "%s, row %" PRIu64 ": %s", c->path, c->first + row, cause);
}

static double norm2_of(const kf_contents *c, const kf_st_field *f, uint64_t row) {
  return c->kernels->norm2((const float *)f->memory + row * f->shape[1], f->shape[1]);
}

kf_status kf_rule_gallery_rows(const kf_rule *rule, const kf_contents *c, kf_err *err) {
  const kf_st_field *f = subject_of(rule, c);
  for (uint64_t i = 0; f != NULL && !c->direction && i < f->shape[0]; i++)
    if (!isfinite(norm2_of(c, f, i))) return fail_row(c, i, "has a NaN or an infinity", err);
  return KF_OK;
}

/* Checking the norm once also finds rows that are not finite. */
kf_status kf_rule_gallery_units(const kf_rule *rule, const kf_contents *c, kf_err *err) {
  const kf_st_field *f = subject_of(rule, c);
  double slack = c->type == KF_TYPE_F16 ? 1e-3 : c->type == KF_TYPE_BF16 ? 8e-3 : 1e-5;
  for (uint64_t i = 0; f != NULL && c->direction && i < f->shape[0]; i++) {
    double norm2 = norm2_of(c, f, i);
    if (!isfinite(norm2)) return fail_row(c, i, "has a NaN or an infinity", err);
    if (norm2 == 0) return fail_row(c, i, "is zero and has no direction", err);
    if (c->unit && !(fabs(norm2 - 1) < slack))
      return fail_row(c, i, "does not have unit length, as mapped rows of a cosine gallery must",
                      err);
  }
  return KF_OK;
}

kf_status kf_rule_labels(const kf_rule *rule, const kf_contents *c, kf_err *err) {
  const kf_st_field *f = subject_of(rule, c);
  for (uint64_t i = 0; f != NULL && i < f->shape[0]; i++) {
    int32_t label = ((const int32_t *)f->memory)[i];
    if (label < KF_LABEL_NONE || label >= (int64_t)c->n_classes)
      return kf_fail_file(err, c->path,
                          "the label of row %" PRIu64 " is %" PRId32 ", it must be -1 to %" PRIu32,
                          i, label, c->n_classes - 1);
  }
  return KF_OK;
}

/* --- ids: the end before the first id and all ends are in memory, and the bytes between */

kf_status kf_rule_id_ends(const kf_rule *rule, const kf_contents *c, kf_err *err) {
  const kf_st_field *f = subject_of(rule, c), *bytes = kf_field(c, KF_TENSOR_ID_BYTES);
  if (f == NULL || bytes == NULL || c->rules != &kf_set_rules) return KF_OK;
  const int64_t *ends = f->memory;
  for (uint64_t i = 0; i + 1 < f->shape[0]; i++)
    if (ends[i] < 0 || ends[i + 1] <= ends[i] || (uint64_t)ends[i + 1] > bytes->shape[0] ||
        ends[i + 1] - ends[i] > KF_LINE_MAX)
      return kf_fail_file(err, c->path,
                          "the id of row %" PRIu64 " goes from byte %" PRId64 " to %" PRId64
                          " of %" PRIu64 "; an id has 1 to %d bytes",
                          c->first + i, ends[i], ends[i + 1], bytes->shape[0], KF_LINE_MAX);
  return KF_OK;
}

kf_status kf_rule_id_bytes(const kf_rule *rule, const kf_contents *c, kf_err *err) {
  const kf_st_field *f = subject_of(rule, c), *all = kf_field(c, KF_TENSOR_ID_ENDS);
  if (f == NULL || all == NULL || c->rules != &kf_set_rules) return KF_OK;
  const int64_t *ends = all->memory;
  for (uint64_t i = 0; i + 1 < all->shape[0]; i++) {
    const char *id = (const char *)f->memory + (ends[i] - ends[0]);
    size_t length = (size_t)(ends[i + 1] - ends[i]);
    if (memchr(id, '\0', length) != NULL || !kf_utf8_valid(id, length))
      return kf_fail_file(err, c->path, "the id of row %" PRIu64 " is not valid UTF-8",
                          c->first + i);
  }
  return KF_OK;
}

kf_status kf_rule_id_last(const kf_rule *rule, const kf_contents *c, kf_err *err) {
  const kf_st_field *f = subject_of(rule, c), *bytes = kf_field(c, KF_TENSOR_ID_BYTES);
  if (f == NULL || bytes == NULL) return KF_OK;
  int64_t last = ((const int64_t *)f->memory)[f->shape[0] - 1];
  if ((uint64_t)last == bytes->shape[0]) return KF_OK;
  return kf_fail_file(err, c->path, "the ids end at byte %" PRId64 " of %" PRIu64, last,
                      bytes->shape[0]);
}
