/* shortlist.h - the survivors of one query: rows that may still be among its k nearest. Stays in
 * this room. */
#ifndef KF_SHORTLIST_H
#define KF_SHORTLIST_H

#include "search/exact.h"
#include "search/index.h"

/* A survivor that is not scored yet, with an upper bound of its key. */
typedef struct kf_pending {
  double upper;
  uint64_t row;
} kf_pending;

/* A row with its canonical score; smaller values are nearer. */
typedef struct kf_scored {
  double value; /* minus the cosine or the dot product, or the squared distance */
  uint64_t row;
} kf_scored;

typedef struct kf_shortlist {
  /* The floor: k rows are known to have keys of at least this, so rows below it are out. */
  double least;
  /* A guess of the final floor; minus infinity: none. If `least` ends below it, it was wrong, and
   * the list is not the answer. */
  double guess;
  uint32_t n_pending, n_scored;
  uint32_t prefetched; /* pending rows prefetched since kf_shortlist_sort */
  kf_pending *pending; /* [capacity] */
  double *lower;       /* [k] the best lower bounds so far, the smallest first */
  kf_scored *scored;   /* [k] in order: by score, then by row */
  kf_fine *fine;       /* [k] their scores to more digits; high is NaN where not known */
  bool refined;        /* `fine` is in use */
  bool in_order;       /* pending rows are sorted (kf_shortlist_sort) */
  bool last;           /* the guess is final: kf_shortlist_mean will not be called */
} kf_shortlist;

/* Empties the list. */
void kf_shortlist_start(kf_shortlist *list, uint32_t k);

/* The mean of the best half of k lower bounds; not finite if there are fewer. */
double kf_shortlist_mean(const kf_shortlist *list, uint32_t k);

/* Announces n different rows with at least these keys; called before any row is offered. Returns
 * the mean of the best half of the k largest. */
double kf_shortlist_expect(kf_shortlist *list, uint32_t k, const double *lower, uint32_t n);

/* Whether a row with this upper bound is out, by the floor or by the guess. */
static inline bool kf_shortlist_is_out(const kf_shortlist *list, double upper) {
  return upper < list->least || upper < list->guess;
}

/* Adds a row, unless it is out. There must be room for it. */
void kf_shortlist_offer(kf_shortlist *list, uint32_t k, double upper, double lower, uint64_t row);

/* Scores rows against one query. */
typedef struct kf_scorer {
  const kf_index *index;
  const kf_kernels *kernels;
  const kf_query *query;
  const float *x;      /* the query as given */
  float *fetched;      /* [KF_SCORE_ROWS][dim] for rows in place or in 16 bits */
  kf_pending *sorted;  /* [capacity of the list], workspace; NULL: no row is pending */
  uint64_t candidates; /* rows scored so far */
} kf_scorer;
#define KF_SCORE_ROWS 4u
/* The canonical scores of n <= KF_SCORE_ROWS rows. */
kf_status kf_score_rows(kf_scorer *scorer, const uint64_t *numbers, uint32_t n, kf_scored *out,
                        kf_err *err);
/* Canonical scores that differ by more than this from `value` are in their exact order. Negative:
 * canonical scores decide by themselves. share: of the query. */
static inline double kf_clear(const kf_index *index, double share, double value) {
  if (index->source.canonical) return -1;
  double clear = 2 * share;
  /* A distance of more than twice this one differs by far more than their errors. */
  if (index->metric == KF_METRIC_EUCLIDEAN) clear *= 1.5 * value;
  if (index->metric == KF_METRIC_INNER) clear *= index->longest + index->centre_length;
  return clear;
}
/* Adds a row with its canonical score. */
kf_status kf_shortlist_note(kf_shortlist *list, uint32_t k, const kf_scorer *scorer,
                            kf_scored scored, kf_err *err);

/* Makes room in a full list: drops rows that are out; if that is not enough, scores the best ones,
 * which raises the floor; as a last resort scores all that may matter. margin: an upper bound is
 * about this much above its key. */
kf_status kf_shortlist_make_room(kf_shortlist *list, uint32_t k, uint32_t capacity, double margin,
                                 kf_scorer *scorer, kf_err *err);
/* Sorts pending rows into the order in which kf_shortlist_settle scores them. */
void kf_shortlist_sort(kf_shortlist *list, kf_pending *sorted);
/* Scores pending rows, best first, until no other can be among the k nearest. next: the list that
 * will be settled next, or NULL: its rows are prefetched meanwhile. */
kf_status kf_shortlist_settle(kf_shortlist *list, uint32_t k, kf_shortlist *next, kf_scorer *scorer,
                              kf_err *err);
/* Adds the rows of another list of the same query, which covers other rows. */
kf_status kf_shortlist_merge(kf_shortlist *list, const kf_shortlist *other, uint32_t k,
                             uint32_t capacity, double margin, kf_scorer *scorer, kf_err *err);

#endif
