/* shortlist.h - the rows that may still be among the k nearest of one query. Stays in this room. */
#ifndef KF_SHORTLIST_H
#define KF_SHORTLIST_H

#include "search/exact.h"
#include "search/index.h"

/* A row with an upper bound of its key. */
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
  /* k rows are known to have keys of at least this; rows below it are out. */
  double least;
  /* The same, but a guess; minus infinity: none. If `least` is below it in the end, it was wrong, and
   * the list is not the answer. */
  double guess;
  uint32_t n_pending, n_scored;
  uint32_t asked;      /* pending rows that are prefetched, since kf_shortlist_ready */
  kf_pending *pending; /* [capacity] */
  double *lower;       /* [k] the best lower bounds so far, the smallest first */
  kf_scored *scored;   /* [k] in order: by score, then by row */
  kf_fine *fine;       /* [k] of them; high is NaN where it is not known */
  bool refined;        /* some are; otherwise `fine` is not in use */
  bool ready;          /* pending rows are in order, since kf_shortlist_ready */
  bool last;           /* the guess is the last one: kf_shortlist_mean will not be asked for */
} kf_shortlist;

/* Empties the list. */
void kf_shortlist_start(kf_shortlist *list, uint32_t k);

/* The mean of the best half of k lower bounds; not finite if there are fewer. */
double kf_shortlist_mean(const kf_shortlist *list, uint32_t k);

/* Says that n different rows with at least these keys will be offered; called before the first is.
 * Returns the mean of the best half of the k largest. */
double kf_shortlist_expect(kf_shortlist *list, uint32_t k, const double *lower, uint32_t n);

/* Whether a row with this upper bound cannot be among the k nearest, or is not, by a guess. */
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
  float *fetched;      /* [KF_SCORE_ROWS][dim], for rows in place or in f16; at least 2 */
  kf_pending *sorted;  /* [capacity of the list], workspace; NULL: no row is pending */
  uint64_t candidates; /* rows scored so far */
} kf_scorer;
#define KF_SCORE_ROWS 4u
/* The canonical scores of n <= KF_SCORE_ROWS rows. */
kf_status kf_score_rows(kf_scorer *scorer, const uint64_t *numbers, uint32_t n, kf_scored *out,
                        kf_err *err);
/* A row whose canonical score differs by more than this from `value` certainly is nearer, or
 * farther. Negative: canonical scores decide. share: of the query. */
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
 * which puts others out; and as a last resort scores all that may matter. margin: the upper bound
 * of a row is about this much above its key. */
kf_status kf_shortlist_make_room(kf_shortlist *list, uint32_t k, uint32_t capacity, double margin,
                                 kf_scorer *scorer, kf_err *err);
/* Puts pending rows in the order in which kf_shortlist_settle scores them. */
void kf_shortlist_ready(kf_shortlist *list, kf_pending *sorted);
/* Scores pending rows, best first, until no other can be among the k nearest; none is pending
 * afterwards. next: another list, which is ready and will be settled next, or NULL: its rows are
 * prefetched meanwhile. */
kf_status kf_shortlist_settle(kf_shortlist *list, uint32_t k, kf_shortlist *next, kf_scorer *scorer,
                              kf_err *err);
/* Adds the rows of another list of the same query, over other rows. */
kf_status kf_shortlist_merge(kf_shortlist *list, const kf_shortlist *other, uint32_t k,
                             uint32_t capacity, double margin, kf_scorer *scorer, kf_err *err);

#endif
