/* score.h - which rows of a data set can be scored, and which classes are right for them; shared by
 * the accuracies of this room and those above it. */
#ifndef KF_SCORE_H
#define KF_SCORE_H

#include "search/gallery.h"

/* --- what is known (match.c) ------------------------------------------------------------------ */

/* The classes that rows are scored against: those of a model or of a gallery. */
typedef struct kf_known {
  const char *what; /* "model", for messages */
  uint32_t n_classes;
  const kf_names *names;
  const int64_t *counts;     /* [n_classes]; a class without rows is not known */
  const unsigned char *part; /* [n_classes] 1: the class takes part; NULL: all do */
} kf_known;
kf_known kf_known_model(const kf_model *model, kf_part part);
kf_known kf_known_gallery(const kf_gallery *gallery);

/* --- what is right ---------------------------------------------------------------------------- */

struct kf_truth {
  char *path;
  uint64_t rows;
  uint64_t *ends;     /* [rows] where the classes of each row end in the list */
  int32_t *classes;   /* of all rows, one after the other */
  uint32_t n_classes; /* names, or the largest number + 1 */
  kf_names names;     /* n = 0: no names */
};

/* The right classes of a row, in known numbers. */
typedef struct kf_right {
  const int32_t *classes;
  uint32_t n;
} kf_right;

/* What becomes of a row. */
typedef enum kf_fate {
  KF_FATE_SCORED,
  KF_FATE_UNLABELLED, /* no label */
  KF_FATE_ABSENT,     /* its classes are not known, or do not take part */
  KF_FATE_BAD,        /* NaN, infinite or zero (skip_bad) */
  KF_FATE_EXCLUDED    /* the truth has no class for it */
} kf_fate;

/* The labels of a data set, or a truth, in known numbers. */
typedef struct kf_judge {
  const kf_truth *truth; /* NULL: labels */
  uint32_t n_classes;    /* of the labels or of the truth */
  int32_t *to;           /* [n_classes] known number, or -1 */
  uint64_t *ends;        /* with a truth: as there, of what is known */
  int32_t *right;
} kf_judge;

/* Classes are matched by name where both sides have names, by number where neither has; KF_ERR_DATA
 * where only one has, where there are no labels and no truth, or where a truth is not of as many
 * rows. data NULL: labels are in known numbers already. The truth must outlive the judge. */
kf_status kf_judge_start(kf_judge *judge, const kf_known *known, const kf_data *data, uint64_t rows,
                         const kf_truth *truth, kf_err *err);
void kf_judge_clear(kf_judge *judge);
/* What becomes of a row with this label; where it is scored, *right is filled in. */
kf_fate kf_judge_row(const kf_judge *judge, uint64_t row, int32_t label, kf_right *right);

bool kf_is_right(const kf_right *right, int32_t class);
/* The place of the first right answer among `top`, best first; `top` where there is none. */
uint32_t kf_right_rank(const kf_right *right, const int32_t *answers, uint32_t top);

/* --- counting --------------------------------------------------------------------------------- */

typedef struct kf_tally {
  kf_eval_result sum;    /* counts of rows; hits are for others to add */
  unsigned char *absent; /* [judge classes] 1: rows of this class were left out */
} kf_tally;

/* n empty ones, one for each worker; NULL: out of memory. */
kf_tally *kf_tallies_new(const kf_judge *judge, unsigned n);
void kf_tallies_free(kf_tally *tallies);
/* All of them together, absent_classes and hits included; bytes between members are zero. */
void kf_tallies_sum(const kf_tally *tallies, unsigned n, const kf_judge *judge,
                    kf_eval_result *sum);

/* Counts a row and says what becomes of it. */
kf_fate kf_count_row(kf_tally *tally, const kf_judge *judge, uint64_t row, int32_t label,
                     kf_right *right);
/* Counts rows [first, first + n) and moves those that are scored to the front of rows [n][dim], of
 * norm2 and of numbers (row numbers of the data set; both may be NULL), with what is right for them.
 * Returns how many there are. */
uint64_t kf_keep_scored(kf_tally *tally, const kf_judge *judge, uint64_t first, uint64_t n,
                        uint32_t dim, float *rows, const int32_t *labels, double *norm2,
                        kf_right *right, uint64_t *numbers);
/* KF_ERR_DATA where no row could be scored. */
kf_status kf_check_scored(const kf_known *known, const kf_eval_result *sum, kf_err *err);

/* --- class sets (class_set.c) ----------------------------------------------------------------- */

struct kf_class_set {
  char *path; /* NULL: not from a file */
  kf_names names;
  kf_dict *map;
};

/* Fills mask [known->n_classes] for kf_known.part, and remarks on classes that are not known;
 * KF_ERR_DATA where none is. The error goes to the context. */
kf_status kf_class_set_mask(kf_ctx *ctx, const kf_class_set *set, const kf_known *known,
                            unsigned char *mask);

#endif
