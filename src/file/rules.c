/* rules.c - the rules that models, galleries, statistics and ids must satisfy: a list for each.
 *
 * A checksum guards against damage, not against a file that was made wrong. So every number that is
 * used is checked when it is loaded, here and nowhere else, and other code need not expect a NaN,
 * an index out of range or a vector that should have unit length and does not. docs/formats.md
 * lists the same rules, and a test breaks each of them.
 *
 * Files written by koofu must pass, with their rounding, and so must files of other writers that
 * compute in f32. Tolerances:
 *   unit rows: 1e-5 of the square. Rounding to f32 moves every element by at most 2^-24 of itself,
 *     so the square by 1.2e-7; the rest is for sums in f32.
 *   statistics of unit rows: 1e-4. Rounding to multiples of 2^-22 moves a row by at most
 *     sqrt(D) 2^-23, which is 3.1e-5 for D = 65,536, and its square by twice that.
 *   the mean eigenvalue: 2e-6 of the largest. A fit sets eigenvalues that rounding made negative,
 *     down to -1e-6 of the largest, to 0.
 * With elements of a map of at most 1e200, mapped rows of f32 are finite in f64. */
#include "file/rules.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define MAX_ROWS_F64 ((double)KF_MAX_ROWS)

/* clang-format off */
/* maps, of models and galleries */
static const kf_rule map_rules[] = {
    {"normalized", "`0` or `1`", kf_rule_word, 0, 0, "0,1", true},
    {"centre", "`none` or `mean`", kf_rule_word, 0, 0, "none,mean", true},
    {"method", "`shrunk`", kf_rule_word, 0, 0, "shrunk", true},
    {"lambda", "a number, 0 or above", kf_rule_number, 0, DBL_MAX, NULL, true},
    {"transform", "finite, at most 10^200 in magnitude", kf_rule_elements, -1e200, 1e200, NULL, false},
    {"transform", "no row of zeros", kf_rule_directions, 0, 0, NULL, false},
    {"mean", "finite, at most 2^128 in magnitude", kf_rule_elements, -0x1p128, 0x1p128, NULL, false},
    {"mean", "at most 1 long, to 10^-4, if `normalized` is `1`", kf_rule_mean, 0, 0, NULL, false},
    {0}};

/* models */
static const kf_rule model_rules[] = {
    {"rows", "a whole number, 1 to 2^40", kf_rule_whole, 1, MAX_ROWS_F64, NULL, true},
    {"mean_eigenvalue", "a number, 0 or above", kf_rule_number, 0, DBL_MAX, NULL, true},
    {"within_rank", "a whole number, 0 to 65,536", kf_rule_whole, 0, KF_MAX_DIM, NULL, true},
    {"prior", "a number above 0, at most 64", kf_rule_positive, 0, 64, NULL, true},
    {"prior", "only if `method` is `shrunk`", kf_rule_only_if, 0, 0, "method=shrunk", true},
    {"temperature", "a number above 0", kf_rule_positive, 0, DBL_MAX, NULL, true},
    {"reject_share", "a number above 0, at most 1", kf_rule_positive, 0, 1, NULL, true},
    {"reject_share", "present with `reject`, absent without", kf_rule_together, 0, 0, "reject", true},
    {"alpha", "a number, 0 to 10^6", kf_rule_number, 0, KF_MAX_ALPHA, NULL, true},
    {"alpha", "present with `text`, absent without", kf_rule_together, 0, 0, "text", true},
    {"alpha", "present with `fused_prototypes`, absent without", kf_rule_together, 0, 0, "fused_prototypes", true},
    {"alpha", "present with `text_given`, absent without", kf_rule_together, 0, 0, "text_given", true},
    {"alpha", "only if `normalized` is `1`", kf_rule_only_if, 0, 0, "normalized=1", true},
    {"reject", "a number: at most 1 + `alpha` (without text: 1) in magnitude, to 10^-3, or less by up to 28 `prior`; 0 or above if `normalized` is `0`", kf_rule_reject, 0, 0, NULL, true},
    {"signal", "only if `method` is `shrunk`", kf_rule_only_if, 0, 0, "method=shrunk", true},
    {"signal", "only if `centre` is `mean`", kf_rule_only_if, 0, 0, "centre=mean", true},
    {"within_eigenvalues", "finite, 0 or above", kf_rule_elements, 0, DBL_MAX, NULL, false},
    {"within_eigenvalues", "descending", kf_rule_descending, 0, 0, NULL, false},
    {"within_eigenvalues", "above 0 for the first `within_rank`, 0 for the others", kf_rule_rank, 0, 0, NULL, false},
    {"within_eigenvalues", "`mean_eigenvalue` on average, to 2 10^-6 of the first", kf_rule_trace, 0, 0, NULL, false},
    {"between_eigenvalues", "finite, 0 or above", kf_rule_elements, 0, DBL_MAX, NULL, false},
    {"between_eigenvalues", "descending", kf_rule_descending, 0, 0, NULL, false},
    {"signal", "finite, 0 or above", kf_rule_elements, 0, DBL_MAX, NULL, false},
    {"signal", "descending", kf_rule_descending, 0, 0, NULL, false},
    {"counts", "0 to 2^40", kf_rule_elements, 0, MAX_ROWS_F64, NULL, false},
    {"counts", "above 0 for at least one class", kf_rule_any, 0, 0, NULL, false},
    {"class_means", "finite", kf_rule_elements, -FLT_MAX, FLT_MAX, NULL, false},
    {"class_means", "zeros where `counts` is 0", kf_rule_zeros, 0, 0, "counts", false},
    {"prototype_lengths", "finite, 0 or above", kf_rule_elements, 0, DBL_MAX, NULL, false},
    {"prototype_lengths", "0 where `counts` is 0", kf_rule_zeros, 0, 0, "counts", false},
    {"prototypes", "finite", kf_rule_elements, -FLT_MAX, FLT_MAX, NULL, false},
    {"prototypes", "unit rows where `prototype_lengths` is above 0, zeros elsewhere", kf_rule_units, 0, 0, "prototype_lengths", false},
    {"text_given", "0 or 1", kf_rule_elements, 0, 1, NULL, false},
    {"text_given", "1 for at least two classes with rows", kf_rule_given, 0, 0, NULL, false},
    {"text", "finite", kf_rule_elements, -FLT_MAX, FLT_MAX, NULL, false},
    {"text", "unit rows where `text_given` is 1, unit rows or zeros where only `counts` is above 0, zeros elsewhere", kf_rule_text, 0, 0, NULL, false},
    {"fused_prototypes", "finite", kf_rule_elements, -FLT_MAX, FLT_MAX, NULL, false},
    {"fused_prototypes", "the row of `prototypes` where `counts` is above 0, unit rows or zeros where only `text_given` is 1, zeros elsewhere", kf_rule_fused, 0, 0, NULL, false},
    {0}};

/* statistics */
static const kf_rule stats_rules[] = {
    {"rows", "a whole number, 0 to 2^40", kf_rule_whole, 0, MAX_ROWS_F64, NULL, true},
    {"dim", "a whole number, 1 to 65,536", kf_rule_whole, 1, KF_MAX_DIM, NULL, true},
    {"normalized", "`0` or `1`", kf_rule_word, 0, 0, "0,1", true},
    {"exponent", "a whole number, -200 to 200; 22 if `normalized` is `1`", kf_rule_exponent, -200, 200, NULL, true},
    {"counts", "0 to 2^40", kf_rule_elements, 0, MAX_ROWS_F64, NULL, false},
    {"counts", "`rows` in all", kf_rule_total, 0, 0, NULL, false},
    {"class_sums", "at most 2^22 and 2^(128 + `exponent`) times `counts` in magnitude", kf_rule_class_sums, 0, 0, NULL, false},
    {"class_sums", "at most 2^22 times `counts` long, to 10^-4, if `normalized` is `1`", kf_rule_class_lengths, 0, 0, NULL, false},
    {"moments_high", "moments at most 2^44 and 2^(256 + 2 `exponent`) times `rows` in magnitude", kf_rule_moments, 0, 0, NULL, false},
    {"moments_high", "moments (i, i) at least the sum over classes of `class_sums`^2 / `counts`, to 10^-8", kf_rule_squares, 0, 0, NULL, false},
    {"moments_high", "the square of moment (i, j) at most the product of (i, i) and (j, j), to 10^-9", kf_rule_products, 0, 0, NULL, false},
    {"moments_high", "moments (i, i) 2^44 times `rows` in all, to 10^-4, if `normalized` is `1`", kf_rule_lengths, 0, 0, NULL, false},
    {0}};

/* galleries */
static const kf_rule gallery_rules[] = {
    {"metric", "`cosine`, `euclidean` or `inner`", kf_rule_word, 0, 0, "cosine,euclidean,inner", true},
    {"k", "a whole number, 1 to 1,024", kf_rule_whole, 1, KF_MAX_NEIGHBOURS, NULL, true},
    {"mean", "present with a map (the tensor transform), absent without", kf_rule_together, 0, 0, "transform", true},
    {"normalized", "present with a map (the tensor transform), absent without", kf_rule_together, 0, 0, "transform", true},
    {"centre", "present with a map (the tensor transform), absent without", kf_rule_together, 0, 0, "transform", true},
    {"lambda", "present with a map (the tensor transform), absent without", kf_rule_together, 0, 0, "transform", true},
    {"embeddings", "finite", kf_rule_gallery_rows, 0, 0, NULL, false},
    {"embeddings", "not zero if `metric` is `cosine`, and then unit rows with a map (to 10^-5, F16 to 10^-3, BF16 to 0.008)", kf_rule_gallery_units, 0, 0, NULL, false},
    {"labels", "-1 to K - 1, with K names in `classes`; without names -1 to 2^22 - 1", kf_rule_labels, 0, 0, NULL, false},
    {"id_ends", "the last one is the length of `id_bytes`", kf_rule_id_last, 0, 0, NULL, false},
    {0}};

/* ids, of data sets and galleries */
static const kf_rule id_rules[] = {
    {"id_ends", "present with `id_bytes`, absent without", kf_rule_together, 0, 0, "id_bytes", true},
    {"id_ends", "ascending from 0 in steps of 1 to 65,536, none beyond `id_bytes`", kf_rule_id_ends, 0, 0, NULL, false},
    {"id_bytes", "each id is UTF-8 without NUL", kf_rule_id_bytes, 0, 0, NULL, false},
    {0}};
/* clang-format on */

const kf_rules kf_model_rules = {{map_rules, model_rules}};
const kf_rules kf_gallery_rules = {{map_rules, gallery_rules, id_rules}};
const kf_rules kf_stats_rules = {{stats_rules}};
const kf_rules kf_set_rules = {{id_rules}};

static kf_status check_all(const kf_contents *c, bool header, kf_err *err) {
  for (size_t i = 0; i < KF_RULE_LISTS; i++)
    for (const kf_rule *r = c->rules->lists[i]; r != NULL && r->subject != NULL; r++)
      if (r->header == header) KF_TRY(r->check(r, c, err));
  return KF_OK;
}

kf_status kf_check_header(const kf_rules *rules, const kf_st *st, kf_err *err) {
  return check_all(&(kf_contents){.rules = rules, .path = st->in.path, .st = st}, true, err);
}

kf_status kf_check_tensors(const kf_contents *c, kf_err *err) { return check_all(c, false, err); }

/* --- what checks share --------------------------------------------------------------------- */

const kf_st_field *kf_field(const kf_contents *c, const char *name) {
  for (size_t i = 0; i < c->n_fields; i++)
    if (strcmp(c->fields[i].name, name) == 0) return &c->fields[i];
  return NULL;
}

double kf_field_at(const kf_st_field *f, uint64_t i) {
  switch (f->type) {
  case KF_TYPE_F64: return ((const double *)f->memory)[i];
  case KF_TYPE_F32: return (double)((const float *)f->memory)[i];
  case KF_TYPE_I64: return (double)((const int64_t *)f->memory)[i];
  default: return ((const unsigned char *)f->memory)[i];
  }
}

bool kf_meta_is(const kf_contents *c, const char *key, const char *value) {
  const char *given = c->st != NULL ? kf_st_meta(c->st, key) : NULL;
  return given != NULL && strcmp(given, value) == 0;
}

double kf_meta_number(const kf_contents *c, const char *key) {
  const char *text = c->st != NULL ? kf_st_meta(c->st, key) : NULL, *end;
  return text != NULL ? kf_parse_f64(text, &end) : 0;
}

kf_status kf_fail_element(const kf_rule *rule, const kf_contents *c, const kf_st_field *f,
                          uint64_t i, kf_err *err) {
  char place[64], is[64];
  unsigned long long row = c->first + i / f->shape[1], column = i % f->shape[1];
  double value = kf_field_at(f, i);
  if (f->ndim == 1)
    snprintf(place, sizeof place, "%llu", row);
  else
    snprintf(place, sizeof place, "[%llu, %llu]", row, column);
  if (isfinite(value))
    snprintf(is, sizeof is, "%.9g", value);
  else
    snprintf(is, sizeof is, "not finite");
  return kf_fail_file(err, c->path, "element %s of tensor '%s' is %s; it must be: %s", place,
                      f->name, is, rule->says);
}

kf_status kf_fail_tensor_row(const kf_rule *rule, const kf_contents *c, uint64_t row,
                             const char *what, kf_err *err) {
  return kf_fail_file(err, c->path, "row %llu of tensor '%s' %s; it must be: %s",
                      (unsigned long long)(c->first + row), rule->subject, what, rule->says);
}
