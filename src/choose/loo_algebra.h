/* loo_algebra.h - one row left out: scores and their bounds (loo_algebra.c), for the pass over rows
 * (loo.c) alone. */
#ifndef KF_CHOOSE_LOO_ALGEBRA_H
#define KF_CHOOSE_LOO_ALGEBRA_H

#include "choose/loo.h"

struct kf_loo {
  kf_ctx *ctx;
  const kf_stats *stats;
  const kf_data *data;
  bool euclidean;
  double e; /* by how much the mean of all rows moves: 1 / (N - 1), or 0 if it does not count */
  uint32_t dim;
  uint32_t n;        /* classes with rows */
  int32_t *number;   /* [n] of each */
  int32_t *place;    /* [n_classes] among them, or -1 */
  kf_fitter *fitter; /* S_w = V^T diag(values) V; the caller's */
  kf_matrix turn;    /* V^T, [D][D], from minus the centre */
  double *centre;    /* [D] in the basis V; zeros if rows are not centred */
  double *means;     /* [n][D] class means in the basis V, centred */
  double *text;      /* [n][D] text prototypes in the basis V, of unit length; NULL: without text */
  kf_arena arena;
};

/* Columns of the index. */
static inline uint32_t kf_loo_width(const kf_loo *loo) {
  return loo->text != NULL ? 2 * loo->dim : loo->dim;
}

/* Everything that depends on lambda. */
typedef struct kf_loo_view {
  const kf_loo *loo;
  double unit;     /* A is kept times this power of two, so that no lambda takes it out of range */
  double *inverse; /* [D] unit / (values + lambda): A */
  double *root;    /* [D] its square root */
  double *length2; /* [n] p_j.p_j */
  double shortest, longest; /* of the p_j */
  double shrink;            /* by which distances are divided for the index: numbers near 1 */
  kf_index *index;          /* of the p_j: unit vectors for cosine */
  kf_arena arena;
} kf_loo_view;
/* lambda: absolute. indexed: for kf_index_reaching. The view must be cleared on failure, too. Errors go
 * to the context. */
kf_status kf_loo_view_start(kf_loo_view *view, const kf_loo *loo, double lambda, bool indexed);
void kf_loo_view_clear(kf_loo_view *view);

/* A row that is left out, at one lambda. */
typedef struct kf_loo_row {
  uint32_t own;          /* place of its class */
  double c, f, q, a, v2; /* q = u.u, a = u.v, v2 = v.v */
  double length;         /* |x| without itself */
  double score;          /* of its own class: a cosine, or a squared distance */
  const double *ax, *ad; /* A x, A d */
  uint32_t beaten;       /* classes that come before its own */
  /* with text: */
  const double *x; /* itself, of unit length and not centred */
  double alpha;
  double both; /* text score + alpha * score of its own class */
} kf_loo_row;
/* x: [D] in the basis V, centred; ax, ad, u, v: [D], to be filled in. */
kf_loo_row kf_loo_row_take(const kf_loo_view *view, const double *x, uint32_t own, double *ax,
                           double *ad, double *u, double *v);
/* Adds text, for x of unit length and not centred. */
void kf_loo_row_add_text(const kf_loo_view *view, kf_loo_row *row, const double *x, double alpha);

/* Of another class than the row's own. */
double kf_loo_score(const kf_loo_view *view, const kf_loo_row *row, uint32_t j);
/* Whether class j comes before the row's own. */
bool kf_loo_comes_before(const kf_loo_view *view, const kf_loo_row *row, uint32_t j);
/* Fills in what the index is asked, query [width], and returns the score that a class must reach
 * there to be able to come before the row's own. */
double kf_loo_ask(const kf_loo_view *view, const kf_loo_row *row, const double *u, const double *v,
                  float *query);

#endif
