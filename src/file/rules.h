/* rules.h - the rules for koofu files and their checks, for this room and its tests. */
#ifndef KF_RULES_H
#define KF_RULES_H

#include "file/file_internal.h"

typedef struct kf_rule kf_rule;
/* The type of the checks below. */
typedef kf_status kf_rule_check(const kf_rule *rule, const kf_contents *c, kf_err *err);

struct kf_rule {
  const char *subject; /* a tensor or a metadata key */
  const char *says;    /* the requirement, as in docs/formats.md */
  kf_rule_check *check;
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

kf_rule_check kf_rule_whole, kf_rule_number; /* low to high */
kf_rule_check kf_rule_positive;              /* above 0, to high */
kf_rule_check kf_rule_word;                  /* one of a,b,c in `other` */
kf_rule_check kf_rule_together;              /* present if and only if `other` is */
kf_rule_check kf_rule_only_if; /* present only if metadata has `other`, as key=value */
kf_rule_check kf_rule_exponent, kf_rule_reject;

/* --- checks of tensors (rules_tensors.c) --------------------------------------------------- */

kf_rule_check kf_rule_elements; /* low to high */
kf_rule_check kf_rule_descending;
kf_rule_check kf_rule_any;        /* at least one element above 0 */
kf_rule_check kf_rule_directions; /* no row of zeros */
kf_rule_check kf_rule_zeros;      /* rows of zeros where `other` is 0 */
kf_rule_check kf_rule_units;      /* unit rows where `other` is above 0, zeros elsewhere */
kf_rule_check kf_rule_mean, kf_rule_rank, kf_rule_trace, kf_rule_given, kf_rule_text, kf_rule_fused;
kf_rule_check kf_rule_gallery_rows, kf_rule_gallery_units, kf_rule_labels;
kf_rule_check kf_rule_id_ends, kf_rule_id_bytes, kf_rule_id_last;

/* --- checks of sums (rules_sums.c) --------------------------------------------------------- */

kf_rule_check kf_rule_total, kf_rule_class_sums, kf_rule_class_lengths, kf_rule_moments;
kf_rule_check kf_rule_squares, kf_rule_products, kf_rule_lengths;

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
