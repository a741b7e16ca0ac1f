/* sweep.h - the plan of a sweep (sweep_plan.c) and its run (sweep_run.c); private to sweep*.c. */
#ifndef KF_CHOOSE_SWEEP_H
#define KF_CHOOSE_SWEEP_H

#include "choose/choose.h"

/* Kinds of work at one lambda, in the order of execution. Text comes first, since it may be
 * rejected. */
typedef enum kf_sweep_kind {
  KF_SWEEP_RAW_TEXT,
  KF_SWEEP_TEXT,
  KF_SWEEP_FUSED,
  KF_SWEEP_RAW_PROTOTYPES,
  KF_SWEEP_RAW_NEIGHBOURS,
  KF_SWEEP_PROTOTYPES,
  KF_SWEEP_NEIGHBOURS,
  KF_SWEEP_LEAVE_ONE_OUT
} kf_sweep_kind;

/* The work for a cell, as keys to sort by. Cells that agree in all keys before KF_SWEEP_SHARED
 * share an object, such as a fused model or a gallery. Cells that agree in all keys share a pass
 * over the test rows. */
enum {
  KF_SWEEP_BY_LAMBDA, /* its number in the options; 0 if any will do */
  KF_SWEEP_BY_KIND,
  KF_SWEEP_BY_DIM,    /* 0: a pass serves all dimensions */
  KF_SWEEP_BY_TEXT,   /* centring */
  KF_SWEEP_BY_METRIC, /* of a gallery */
  KF_SWEEP_SHARED,
  KF_SWEEP_BY_SET = KF_SWEEP_SHARED,
  KF_SWEEP_BY_PASS_METRIC,
  KF_SWEEP_KEYS
};
typedef struct kf_sweep_work {
  uint64_t key[KF_SWEEP_KEYS];
  size_t cell, lambda; /* their numbers */
} kf_sweep_work;

typedef struct kf_sweep_plan {
  kf_sweep_options options; /* with all lists filled in, except class sets */
  uint32_t n_sets;          /* at least 1 */
  uint32_t *classifiers;    /* [n_classifiers] 0 for prototypes, and each k */
  size_t n_classifiers;
  uint32_t usual_dim;
  kf_centre usual_centre;
  size_t n_cells;
  kf_sweep_cell *cells; /* settings, in the documented order; NULL while they are counted */
  kf_sweep_work *work;  /* [n_cells] in the order of execution */
  kf_arena arena;
} kf_sweep_plan;

/* Checks and completes the options and lays out the work. train: there are training rows. folds:
 * the sweep is over folds. The plan must be cleared on failure, too. Errors go to the context. */
kf_status kf_sweep_plan_make(kf_ctx *ctx, kf_sweep_plan *plan, const kf_sweep_options *options,
                             const kf_stats *stats, bool train, bool folds, double mean_eigenvalue);
void kf_sweep_plan_clear(kf_sweep_plan *plan);
/* How many of n items, from the first on, agree with the first one in `keys` keys. */
size_t kf_sweep_agreeing(const kf_sweep_work *work, size_t n, size_t keys);
/* Whether alpha is chosen, which is a separate step. */
static inline bool kf_sweep_chooses_alpha(const kf_sweep_plan *plan) {
  return plan->options.fuse && plan->options.n_alphas != 1;
}

/* A plan and the rows it is run on. */
typedef struct kf_sweep_job {
  kf_ctx *ctx;
  const kf_sweep_plan *plan;
  const kf_stats *stats; /* of the training rows */
  const kf_data *train, *test;
  const kf_truth *truth;   /* of the test rows; NULL: labels */
  const kf_row_list *fold; /* the test rows, if they are of a fold */
  double judged;           /* about how many rows are judged, of each fold */
  kf_sweep *sweep;
  kf_stage *stage;
  /* While it runs. */
  kf_fitter *fitter;
  kf_model *model; /* of lambda number `fitted`; NULL: none yet */
  size_t fitted;
  double *alphas; /* [n_lambdas] of fused cells; NULL: not known yet */
  kf_arena arena;
} kf_sweep_job;
/* Adds hits to the cells of the sweep. Errors go to the context. */
kf_status kf_sweep_run(kf_sweep_job *job);
/* About how much a run costs, as kf_cost_of_search does. With folds, on one of them. */
double kf_sweep_cost(const kf_sweep_job *job);

#endif
