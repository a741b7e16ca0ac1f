/* shortlist.h - the rows that may yet be among the k nearest of one query. Stays in this room. */
#ifndef KF_SHORTLIST_H
#define KF_SHORTLIST_H

#include "search/index.h"

/* A row whose key is known not to be above a number. */
typedef struct kf_pending {
  double upper;
  uint64_t row;
} kf_pending;

/* A row whose canonical score is known; smaller values are nearer. */
typedef struct kf_scored {
  double value; /* minus the dot product, or the squared distance */
  uint64_t row;
} kf_scored;

typedef struct kf_shortlist {
  /* k rows are known to have keys of at least this; rows below it are out. */
  double least;
  uint32_t n_pending, n_scored;
  kf_pending *pending; /* [capacity] */
  double *lower;       /* [k] the best lower bounds so far, the smallest first */
  kf_scored *scored;   /* [k] in order: by value, then by row */
} kf_shortlist;

/* Empties the list. */
void kf_shortlist_start(kf_shortlist *list, uint32_t k);

/* There are n different rows, yet to be offered, with keys of at least these; called before the first
 * row is. */
void kf_shortlist_expect(kf_shortlist *list, uint32_t k, const double *lower, uint32_t n);

/* Takes note of a row. There must be room for it. */
void kf_shortlist_offer(kf_shortlist *list, uint32_t k, double upper, double lower, uint64_t row);

/* What scoring needs: one query. */
typedef struct kf_scorer {
  const kf_index *index;
  const kf_kernels *kernels;
  const kf_query *query;
  const float *x;      /* the query as the scores are to see it */
  float *fetched;      /* [KF_SCORE_ROWS][dim], for rows in place */
  uint64_t candidates; /* rows scored; counts on */
} kf_scorer;
#define KF_SCORE_ROWS 4u

/* Makes room in a list that is full: drops rows that are out; where that is not enough, scores the
 * best, so that others are; and where that is not enough, all that may matter. margin: the upper
 * bound of a row is about this much above its key. */
kf_status kf_shortlist_make_room(kf_shortlist *list, uint32_t k, uint32_t capacity, double margin,
                                 kf_scorer *scorer, kf_err *err);
/* Scores pending rows, best first, until no other can be among the k nearest; none is pending
 * afterwards. */
kf_status kf_shortlist_settle(kf_shortlist *list, uint32_t k, kf_scorer *scorer, kf_err *err);
/* Adds what another list of the same query, over other rows, holds. */
kf_status kf_shortlist_merge(kf_shortlist *list, const kf_shortlist *other, uint32_t k,
                             uint32_t capacity, double margin, kf_scorer *scorer, kf_err *err);

#endif
