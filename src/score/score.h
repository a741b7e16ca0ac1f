/* score.h - which rows of a data set can be scored, which classes are right for them, and the pass
 * over these rows. */
#ifndef KF_SCORE_H
#define KF_SCORE_H

#include "search/gallery.h"

/* --- known classes (match.c) ------------------------------------------------------------------ */

/* The classes that rows are scored against: those of a model or of a gallery. */
typedef struct kf_known {
  const char *what; /* "the model", for messages */
  uint32_t n_classes;
  const kf_names *names;
  const int64_t *counts;     /* [n_classes]; a class without rows is not known */
  const unsigned char *mask; /* [n_classes] 1: the class takes part; NULL: all do */
} kf_known;
kf_known kf_known_model(const kf_model *model, kf_part part);
kf_known kf_known_gallery(const kf_gallery *gallery);

/* Reads a decimal number, capped at `most`; false: something other than digits. */
bool kf_read_digits(const char *text, size_t length, uint64_t most, uint64_t *out);

/* --- class sets (class_set.c) ----------------------------------------------------------------- */

struct kf_class_set {
  kf_names names;
  kf_dict *map;
  char from[]; /* for messages: the path, or "the class set" */
};

/* Sets the mask of `known`, taken from the arena, to the classes of a set (NULL: all). Logs unknown
 * classes; KF_ERR_DATA if none is known. The error goes to the context. */
kf_status kf_known_restrict(kf_ctx *ctx, kf_known *known, const kf_class_set *set, kf_arena *arena);

/* --- right classes (match.c) ------------------------------------------------------------------ */

struct kf_truth {
  uint64_t rows;
  uint64_t *ends;     /* [rows] where the classes of each row end in the list */
  int32_t *classes;   /* of all rows, one after the other */
  uint32_t n_classes; /* names, or the largest number + 1 */
  kf_names names;     /* n = 0: no names */
  char path[];
};

/* The truth of some rows. */
kf_status kf_truth_pick(const kf_truth *truth, const uint64_t *rows, uint64_t n, kf_truth **out,
                        kf_err *err);

/* The right classes of a row, in known numbers. */
typedef struct kf_right {
  const int32_t *classes;
  uint32_t n;
} kf_right;

/* Whether a row is scored, or why not. */
typedef enum kf_fate {
  KF_FATE_SCORED,
  KF_FATE_UNLABELLED, /* no label */
  KF_FATE_ABSENT,     /* its classes are not known, or do not take part */
  KF_FATE_BAD,        /* NaN, infinite or zero (skip_bad) */
  KF_FATE_EXCLUDED    /* the truth has no class for it */
} kf_fate;

/* The labels of a data set, or a truth, in known numbers. */
typedef struct kf_judge {
  kf_known known;
  const kf_truth *truth; /* NULL: labels */
  uint32_t n_classes;    /* of the labels or of the truth */
  int32_t *to;           /* [n_classes] known number, or -1 */
  uint64_t *ends;        /* with a truth: as there, of the known classes */
  int32_t *right;
  kf_arena arena;
} kf_judge;

/* Classes are matched by name if both sides have names, by number if neither has; KF_ERR_DATA if
 * only one has, if there are neither labels nor a truth, or if a truth has another number of rows.
 * set NULL: all classes take part. data NULL: labels are known numbers already. Names, counts and
 * truth must outlive the judge, which must be cleared after a failure, too. Errors go to the
 * context. */
kf_status kf_judge_start(kf_ctx *ctx, kf_judge *judge, kf_known known, const kf_class_set *set,
                         const kf_data *data, uint64_t rows, const kf_truth *truth);
void kf_judge_clear(kf_judge *judge);
/* The fate of a row with this label; if it is scored, *right is filled in. */
kf_fate kf_judge_row(const kf_judge *judge, uint64_t row, int32_t label, kf_right *right);

bool kf_is_right(const kf_right *right, int32_t class);
/* The position of the first right answer among `top`, best first; `top` if none is right. */
uint32_t kf_right_position(const kf_right *right, const int32_t *answers, uint32_t top);

/* --- errors by class (analysis.c) ------------------------------------------------------------- */

#define KF_TOP 5u /* answers for each row, at most */

/* Probabilities of a row. */
typedef struct kf_chance {
  double answer; /* of the best class */
  double right;  /* of the right classes together */
  double nll;    /* minus the logarithm of that */
  double brier;  /* squared distance from the truth, in which all right classes count as one */
} kf_chance;

/* A row that is scored, and its answers in one space. */
typedef struct kf_answer {
  uint64_t row; /* of the data set */
  kf_right right;
  bool raw;               /* the original space */
  const int32_t *answers; /* [top] best first */
  const double *scores;   /* [top] */
  uint32_t top;
  const kf_chance *chance; /* NULL: no probabilities */
  size_t worker;
} kf_answer;
/* What becomes an analysis: the outcome of every row of a data set. */
typedef struct kf_outcomes {
  struct kf_outcome *rows; /* [rows of the data set] */
  unsigned char *position; /* [rows] of the right class among the answers; KF_TOP: not among them */
  struct kf_mistake_list *mistakes; /* [threads]; NULL: not wanted */
  struct kf_chance_sums *chances;   /* [threads] */
  bool echoes; /* another rank adds the same rows: mistakes and probabilities are left to it */
} kf_outcomes;
/* The caller checks the arena. */
void kf_outcomes_take(kf_outcomes *all, const kf_ctx *ctx, uint64_t rows, bool mistakes,
                      kf_arena *arena);
/* Adds the answers to a row, once. On any worker; errors are reported at the end. Mistakes and
 * probabilities are added up over the ranks, all others are those of the rows that a rank has in a
 * shared pass. Returns the position of the right class. */
uint32_t kf_outcomes_add(const kf_outcomes *all, const kf_answer *row);
/* Frees what the arena does not have, also if the status is a failure. temperature: of the
 * probabilities; 0: there are none. */
kf_status kf_outcomes_end(kf_ctx *ctx, kf_status status, const kf_outcomes *all,
                          const kf_data *data, double temperature, const kf_eval_result *totals,
                          kf_analysis *out);
/* An empty analysis of n_classes. */
kf_analysis *kf_analysis_empty(uint32_t n_classes, kf_err *err);

/* --- counting rows (judged.c) ----------------------------------------------------------------- */

typedef struct kf_tally {
  kf_eval_result sum;    /* counts of rows; the caller adds the hits */
  unsigned char *absent; /* [judge classes] 1: rows of this class were left out */
} kf_tally;

/* n empty tallies, one for each worker; NULL: out of memory. */
kf_tally *kf_tallies_take(kf_arena *arena, const kf_judge *judge, unsigned n);
/* The sum of n tallies, with absent_classes and hits; padding bytes are zero. */
void kf_tallies_sum(const kf_tally *tallies, unsigned n, const kf_judge *judge,
                    kf_eval_result *sum);
/* Counts a row and returns its fate. */
kf_fate kf_count_row(kf_tally *tally, const kf_judge *judge, uint64_t row, int32_t label,
                     kf_right *right);
/* KF_ERR_DATA if no row could be scored. */
kf_status kf_check_scored(const kf_judge *judge, const kf_eval_result *sum, kf_err *err);

/* --- one pass over judged rows (judged.c) ----------------------------------------------------- */

/* The scored rows of a batch. */
typedef struct kf_judged {
  uint64_t n;
  const float *rows; /* [n][dim] */
  const double *norm2;
  const kf_right *right;  /* [n] */
  const uint64_t *number; /* [n] rows of the data set */
  size_t worker;
  kf_tally *tally; /* the worker's own, as is the workspace */
  void *workspace;
} kf_judged;

/* Members as in kf_pass, where the names are the same. */
typedef struct kf_judged_pass {
  const char *what;
  uint64_t rows;
  size_t workers;
  const kf_judge *judge;
  bool unjudged; /* score every row that is not bad, without right classes */
  bool shared;   /* counts are summed over all ranks; results of `work` are not */
  kf_status (*work)(void *argument, const kf_judged *rows, kf_err *err);
  void *argument;
  size_t workspace_size;
  void (*make_workspace)(const void *argument, void *workspace, kf_arena *arena);
} kf_judged_pass;
/* Counts all rows and hands the scored ones to `work`. Errors go to the context. */
kf_status kf_each_judged(kf_ctx *ctx, const kf_data *data, const kf_judged_pass *pass,
                         kf_eval_result *counts);

#endif
