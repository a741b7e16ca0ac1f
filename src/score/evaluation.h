/* evaluation.h - the nearest prototypes of judged rows, shared by accuracies, errors by class, open
 * sets, comparisons and verdicts; private to this room. */
#ifndef KF_SCORE_EVALUATION_H
#define KF_SCORE_EVALUATION_H

#include "score/score.h"

/* Options for the one space of kf_analysis_options. */
static inline kf_eval_options kf_one_space(const kf_analysis_options *o) {
  return (kf_eval_options){.metric = o->metric,
                           .include_raw = o->raw ? KF_ON : KF_OFF,
                           .include_mapped = o->raw ? KF_OFF : KF_ON,
                           .truth = o->truth,
                           .set = o->set};
}

typedef struct kf_evaluation {
  kf_ctx *ctx;
  const kf_data *data;
  kf_judge judge;
  kf_prototypes *mapped, *raw; /* NULL: not wanted */
  uint32_t top;
  double temperature; /* 0: no probabilities. With one space it may be set after the start */
} kf_evaluation;

/* Called on any worker, for rows in any order, once for each space. */
typedef void (*kf_answer_fn)(void *argument, kf_tally *tally, const kf_answer *row);

/* top: answers for each row, at most KF_TOP; there are fewer if fewer classes take part. The
 * evaluation must be cleared after a failure, too. Errors go to the context. */
kf_status kf_evaluation_start(kf_evaluation *e, kf_ctx *ctx, const kf_model *model,
                              const kf_data *data, const kf_eval_options *options, uint32_t top);
/* Passes all scored rows to `use` and sums the tallies; KF_ERR_DATA if no row is scored. If
 * `others` is not NULL, it takes the rows of `others` instead: all that are not bad, without right
 * classes. */
kf_status kf_evaluation_run(const kf_evaluation *e, const kf_data *others, kf_answer_fn use,
                            void *argument, kf_eval_result *counts);
void kf_evaluation_clear(kf_evaluation *e);
/* Starts, runs and clears an evaluation. *counts is unchanged after a failure. */
kf_status kf_evaluate(kf_ctx *ctx, const kf_model *model, const kf_data *data,
                      const kf_eval_options *options, uint32_t top, kf_answer_fn use,
                      void *argument, kf_eval_result *counts);

/* --- calibration (calibration.c) -------------------------------------------------------------- */

/* Sums over the rows of one worker, in units of 2^-40, so that they do not depend on the order. */
typedef struct kf_chance_sums {
  kf_i128 nll, brier;
  uint64_t n[KF_CALIBRATION_BINS], top1[KF_CALIBRATION_BINS];
  kf_i128 confidence[KF_CALIBRATION_BINS];
} kf_chance_sums;
void kf_chance_add(kf_chance_sums *sums, const kf_chance *chance, bool right);
/* Adds the sums of all ranks to those of worker 0. */
kf_status kf_chance_add_ranks(kf_ctx *ctx, kf_chance_sums *sums, unsigned workers);
/* Fills in *out from the sums of all workers and the counts of their rows. */
void kf_calibration_fill(kf_calibration *out, const kf_chance_sums *sums, unsigned workers,
                         double temperature, const kf_eval_result *counts);

/* --- wrong answers (mistakes.c) ---------------------------------------------------------- */

/* The wrong answers of one worker. Zero-initialise. */
typedef struct kf_mistake_list {
  kf_mistake *at;
  size_t n, room;
  bool failed; /* out of memory */
} kf_mistake_list;
/* Adds a row whose answer is wrong. */
void kf_mistake_add(kf_mistake_list *list, const kf_answer *row, double margin);
/* All wrong answers, including those of other ranks, sorted by row, to be freed with kf_free.
 * Clears the lists. KF_ERR_MEM if one has failed. */
kf_status kf_mistakes_join(kf_ctx *ctx, kf_mistake_list *lists, unsigned n, kf_mistake **out,
                           size_t *n_out);

/* --- verdicts (verdicts.c) -------------------------------------------------------------------- */

enum { KF_VERDICT_NONE = 0, KF_VERDICT_RIGHT = 1, KF_VERDICT_WRONG = 2 };

struct kf_verdicts {
  uint64_t rows;
  kf_eval_result counts;
  kf_origin origin;   /* of the model; unknown for answers from a file */
  unsigned char of[]; /* [rows] */
};

#endif
