/* rules.h - the rules for koofu files and their checks, for this room and its tests. */
#ifndef KF_RULES_H
#define KF_RULES_H

#include "file/file_internal.h"

typedef struct kf_rule kf_rule;
typedef kf_status (*kf_rule_fn)(const kf_rule *rule, const kf_contents *c, kf_err *err);

struct kf_rule {
  const char *subject; /* a tensor or a metadata key */
  const char *says;    /* the requirement, as in docs/formats.md */
  kf_rule_fn check;
  double low, high;  /* bounds of numbers */
  const char *other; /* a second tensor or key, or the allowed words */
  bool header;       /* checked before tensors are in memory */
};

/* Checked in this order. A list ends with a rule without a subject. */
#define KF_RULE_LISTS 3
struct kf_rules {
  const kf_rule *lists[KF_RULE_LISTS]; /* NULL: none */
};

/* --- checks of metadata (rules_header.c) --------------------------------------------------- */

kf_status kf_rule_whole(const kf_rule *rule, const kf_contents *c, kf_err *err);  /* low to high */
kf_status kf_rule_number(const kf_rule *rule, const kf_contents *c, kf_err *err); /* low to high */
kf_status kf_rule_positive(const kf_rule *rule, const kf_contents *c, kf_err *err); /* above 0 */
kf_status kf_rule_word(const kf_rule *rule, const kf_contents *c, kf_err *err); /* a,b,c in other */
/* The subject and `other` are both present or both absent. */
kf_status kf_rule_together(const kf_rule *rule, const kf_contents *c, kf_err *err);
/* The subject is present only if metadata has `other`, as key=value. */
kf_status kf_rule_only_if(const kf_rule *rule, const kf_contents *c, kf_err *err);
kf_status kf_rule_exponent(const kf_rule *rule, const kf_contents *c, kf_err *err);
kf_status kf_rule_reject(const kf_rule *rule, const kf_contents *c, kf_err *err);

/* --- checks of tensors (rules_tensors.c) --------------------------------------------------- */

kf_status kf_rule_elements(const kf_rule *rule, const kf_contents *c,
                           kf_err *err); /* low to high */
kf_status kf_rule_descending(const kf_rule *rule, const kf_contents *c, kf_err *err);
kf_status kf_rule_any(const kf_rule *rule, const kf_contents *c, kf_err *err); /* one above 0 */
/* No row is all zeros. */
kf_status kf_rule_directions(const kf_rule *rule, const kf_contents *c, kf_err *err);
/* Rows are zeros where `other` is 0. */
kf_status kf_rule_zeros(const kf_rule *rule, const kf_contents *c, kf_err *err);
/* Rows have unit length where `other` is above 0, and are zeros elsewhere. */
kf_status kf_rule_units(const kf_rule *rule, const kf_contents *c, kf_err *err);
kf_status kf_rule_mean(const kf_rule *rule, const kf_contents *c, kf_err *err);
kf_status kf_rule_rank(const kf_rule *rule, const kf_contents *c, kf_err *err);
kf_status kf_rule_trace(const kf_rule *rule, const kf_contents *c, kf_err *err);
kf_status kf_rule_given(const kf_rule *rule, const kf_contents *c, kf_err *err);
kf_status kf_rule_text(const kf_rule *rule, const kf_contents *c, kf_err *err);
kf_status kf_rule_fused(const kf_rule *rule, const kf_contents *c, kf_err *err);
kf_status kf_rule_gallery_rows(const kf_rule *rule, const kf_contents *c, kf_err *err);
kf_status kf_rule_gallery_units(const kf_rule *rule, const kf_contents *c, kf_err *err);
kf_status kf_rule_labels(const kf_rule *rule, const kf_contents *c, kf_err *err);
kf_status kf_rule_id_ends(const kf_rule *rule, const kf_contents *c, kf_err *err);
kf_status kf_rule_id_bytes(const kf_rule *rule, const kf_contents *c, kf_err *err);
kf_status kf_rule_id_last(const kf_rule *rule, const kf_contents *c, kf_err *err);

/* --- checks of sums (rules_sums.c) --------------------------------------------------------- */

kf_status kf_rule_total(const kf_rule *rule, const kf_contents *c, kf_err *err);
kf_status kf_rule_class_sums(const kf_rule *rule, const kf_contents *c, kf_err *err);
kf_status kf_rule_class_lengths(const kf_rule *rule, const kf_contents *c, kf_err *err);
kf_status kf_rule_moments(const kf_rule *rule, const kf_contents *c, kf_err *err);
kf_status kf_rule_squares(const kf_rule *rule, const kf_contents *c, kf_err *err);
kf_status kf_rule_products(const kf_rule *rule, const kf_contents *c, kf_err *err);
kf_status kf_rule_lengths(const kf_rule *rule, const kf_contents *c, kf_err *err);

/* --- what checks share (rules.c) ----------------------------------------------------------- */

/* A tensor in memory; NULL: absent. */
const kf_st_field *kf_field(const kf_contents *c, const char *name);
/* Element i as a number. */
double kf_field_at(const kf_st_field *field, uint64_t i);
bool kf_meta_is(const kf_contents *c, const char *key, const char *value);
/* A number that an earlier rule has checked; 0: absent. */
double kf_meta_number(const kf_contents *c, const char *key);
/* KF_ERR_DATA: "FILE: element [row, column] of tensor 'NAME' is VALUE; it must be: …". i counts
 * elements in memory. Vectors have no column. */
kf_status kf_fail_element(const kf_rule *rule, const kf_contents *c, const kf_st_field *field,
                          uint64_t i, kf_err *err);
/* KF_ERR_DATA: "FILE: row K of tensor 'NAME' WHAT; it must be: …". */
kf_status kf_fail_tensor_row(const kf_rule *rule, const kf_contents *c, uint64_t row,
                             const char *what, kf_err *err);

#endif
