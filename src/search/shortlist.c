/* shortlist.c - which rows may still be among the k nearest.
 *
 * A row comes with bounds of its key. Once k rows are known to have keys of at least `least`, a row
 * whose upper bound is below that is out: it cannot even tie. The survivors are scored, roughly
 * from the largest upper bound down, and each score may put others out.
 *
 * Scores are canonical sums in f64. Where two are so close that rounding may have put them in
 * the wrong order, they are computed again to about a hundred bits and, if that is not enough,
 * exactly. */
#include "search/shortlist.h"

#include <math.h>
#include <string.h>

static void forget_bounds(kf_shortlist *list, uint32_t k) {
  for (uint32_t i = 0; i < k; i++) list->lower[i] = -INFINITY;
}

void kf_shortlist_start(kf_shortlist *list, uint32_t k) {
  list->least = list->guess = -INFINITY;
  list->n_pending = list->n_scored = 0;
  list->refined = list->in_order = list->last = false;
  forget_bounds(list, k);
}

/* --- lower bounds ---------------------------------------------------------------------------- */

/* Replaces the smallest of k by x. Up to MAX_SORTED are kept in rising order, by a loop without
 * branches that compilers vectorise; more are a heap, which rising order is as well. */
#define MAX_SORTED 64u
static void replace_smallest(double *lower, uint32_t k, double x) {
  if (k <= MAX_SORTED) {
    for (uint32_t i = 0; i + 1 < k; i++) {
      double y = lower[i] > x ? lower[i] : x;
      lower[i] = lower[i + 1] < y ? lower[i + 1] : y;
    }
    lower[k - 1] = lower[k - 1] > x ? lower[k - 1] : x;
    return;
  }
  uint32_t at = 0, child;
  while ((child = 2 * at + 1) < k) {
    if (child + 1 < k && lower[child + 1] < lower[child]) child++;
    if (!(lower[child] < x)) break;
    lower[at] = lower[child];
    at = child;
  }
  lower[at] = x;
}

/* The first of the best half of k. */
static uint32_t half(uint32_t k) { return k / 2; }

/* A bound that is not above the guess cannot raise `least` above it; it only matters for the next
 * guess, and only in the best half. */
static void note_lower(kf_shortlist *list, uint32_t k, double lower) {
  if (!(lower > list->lower[0])) return;
  if (lower <= list->guess && (list->last || lower <= list->lower[half(k)])) return;
  replace_smallest(list->lower, k, lower);
  if (list->lower[0] > list->least) list->least = list->lower[0];
}

double kf_shortlist_mean(const kf_shortlist *list, uint32_t k) {
  double sum = 0;
  for (uint32_t i = half(k); i < k; i++) sum += list->lower[i];
  return sum / (k - half(k));
}

double kf_shortlist_expect(kf_shortlist *list, uint32_t k, const double *lower, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) note_lower(list, k, lower[i]);
  double mean = kf_shortlist_mean(list, k);
  forget_bounds(list, k); /* the rows themselves will be offered */
  return mean;
}

void kf_shortlist_offer(kf_shortlist *list, uint32_t k, double upper, double lower, uint64_t row) {
  if (kf_shortlist_is_out(list, upper)) return;
  list->in_order = false;
  list->pending[list->n_pending++] = (kf_pending){.upper = upper, .row = row};
  note_lower(list, k, lower);
}

/* --- scores ---------------------------------------------------------------------------------- */

static double key_of(const kf_scorer *s, double value) {
  return kf_key(s->index, s->query, s->index->metric == KF_METRIC_EUCLIDEAN ? value : -value);
}

/* A lower bound of the key of a scored row; of its exact score, where exact scores decide. */
static double least_key(const kf_scorer *s, const kf_scored *scored) {
  double key = key_of(s, scored->value);
  if (s->index->source.canonical) return key;
  return key - kf_key_error(s->index, s->query, scored->row, scored->value);
}

static kf_status find_rows(const kf_scorer *s, const uint64_t *numbers, uint32_t n,
                           const float **rows, kf_err *err) {
  const kf_index *index = s->index;
  for (uint32_t i = 0; i < n; i++) {
    float *fetched = s->fetched + i * index->dim;
    rows[i] = index->rows != NULL ? index->rows + numbers[i] * index->dim : fetched;
    if (index->in_place)
      KF_TRY(index->source.fetch(index->source.self, s->kernels, numbers[i], 1, fetched, err));
    else if (index->halves != NULL)
      kf_index_copy(index, s->kernels, numbers[i], 1, fetched);
  }
  return KF_OK;
}

static double value_error(const kf_scorer *s, const kf_scored *scored) {
  return kf_score_error(s->index, s->query, scored->row, scored->value);
}

static const kf_fine unknown = {NAN, NAN};

static void refine(kf_shortlist *list, uint32_t k) {
  for (uint32_t i = 0; i < k && !list->refined; i++) list->fine[i] = unknown;
  list->refined = true;
}

/* A row that is about to be inserted. */
typedef struct newcomer {
  kf_scored scored;
  double clear; /* see kf_clear */
  kf_fine fine;
} newcomer;

static newcomer newcomer_of(const kf_scorer *s, kf_scored scored) {
  return (newcomer){.scored = scored,
                    .clear = kf_clear(s->index, s->query->share, scored.value),
                    .fine = unknown};
}

/* Whether two rows kept in 16 bits are equal. */
static bool same_halves(const kf_index *index, uint64_t a, uint64_t b) {
  const uint16_t *x = index->halves;
  size_t dim = index->dim;
  return x != NULL && memcmp(x + a * dim, x + b * dim, dim * sizeof *x) == 0;
}

/* Compares a row with the one at place `at`: 1 if it is nearer, -1 if farther, 0 if equal. *out
 * holds what canonical scores say, and is left alone where they suffice. */
static kf_status compare_closely(kf_shortlist *list, uint32_t k, const kf_scorer *s, newcomer *x,
                                 uint32_t at, int *out, kf_err *err) {
  const float *rows[2];
  const kf_index *index = s->index;
  const kf_scored *y = &list->scored[at];
  if (fabs(y->value - x->scored.value) > value_error(s, &x->scored) + value_error(s, y))
    return KF_OK;
  *out = 0;
  bool even = x->scored.value == y->value;
  if (even && same_halves(index, x->scored.row, y->row)) return KF_OK;
  KF_TRY(find_rows(s, (uint64_t[]){x->scored.row, y->row}, 2, rows, err));
  if (even && memcmp(rows[0], rows[1], index->dim * sizeof **rows) == 0) return KF_OK;
  refine(list, k);
  kf_fine *fine[] = {&x->fine, &list->fine[at]};
  for (int i = 0; i < 2; i++)
    if (isnan(fine[i]->high)) *fine[i] = kf_exact_fine(index->metric, s->x, rows[i], index->dim);
  *out = kf_fine_compare(*fine[0], *fine[1]);
  if (*out == 0) *out = kf_exact_compare(index->metric, s->x, rows[0], rows[1], index->dim);
  return KF_OK;
}

/* Whether a row comes before the one at place `at`. */
static inline kf_status comes_before(kf_shortlist *list, uint32_t k, const kf_scorer *s,
                                     newcomer *x, uint32_t at, bool *out, kf_err *err) {
  const kf_scored *y = &list->scored[at];
  double apart = y->value - x->scored.value;
  int nearer = (apart > 0) - (apart < 0);
  if (!(fabs(apart) > x->clear)) KF_TRY(compare_closely(list, k, s, x, at, &nearer, err));
  *out = nearer != 0 ? nearer > 0 : x->scored.row < y->row;
  return KF_OK;
}

static void insert(kf_shortlist *list, uint32_t k, const newcomer *x, uint32_t at) {
  if (list->n_scored < k) list->n_scored++;
  size_t after = list->n_scored - at - 1;
  if (!isnan(x->fine.high)) refine(list, k);
  memmove(list->scored + at + 1, list->scored + at, after * sizeof *list->scored);
  list->scored[at] = x->scored;
  if (!list->refined) return;
  memmove(list->fine + at + 1, list->fine + at, after * sizeof *list->fine);
  list->fine[at] = x->fine;
}

/* Short lists are searched from the end, where most rows go; long ones by bisection. */
static kf_status note_score(kf_shortlist *list, uint32_t k, const kf_scorer *scorer, newcomer x,
                            kf_err *err) {
  uint32_t low = 0, high = list->n_scored;
  bool full = high == k;
  double clear = x.clear > 0 ? x.clear : 0;
  while (high > 0 && high <= MAX_SORTED && list->scored[high - 1].value - x.scored.value > clear)
    high--;
  while (low < high) {
    bool before, last = high == list->n_scored && full;
    uint32_t at = last || high <= MAX_SORTED ? high - 1 : low + (high - low) / 2;
    KF_TRY(comes_before(list, k, scorer, &x, at, &before, err));
    if (before)
      high = at;
    else if (last)
      return KF_OK;
    else
      low = at + 1;
  }
  insert(list, k, &x, high);
  if (list->n_scored < k) return KF_OK;
  double key = least_key(scorer, &list->scored[k - 1]);
  if (key > list->least) list->least = key;
  return KF_OK;
}

kf_status kf_score_rows(kf_scorer *s, const uint64_t *numbers, uint32_t n, kf_scored *out,
                        kf_err *err) {
  const float *rows[KF_SCORE_ROWS];
  double value[KF_SCORE_ROWS];
  bool euclidean = s->index->metric == KF_METRIC_EUCLIDEAN;
  KF_TRY(find_rows(s, numbers, n, rows, err));
  (euclidean ? s->kernels->distances : s->kernels->dots)(s->x, rows, n, s->index->dim, value);
  for (uint32_t i = 0; s->index->norm2 != NULL && i < n; i++)
    value[i] = kf_cosine(value[i], s->query->norm2, s->index->norm2[numbers[i]]);
  for (uint32_t i = 0; i < n; i++)
    out[i] = (kf_scored){.value = euclidean ? value[i] : -value[i], .row = numbers[i]};
  s->candidates += n;
  return KF_OK;
}

kf_status kf_shortlist_note(kf_shortlist *list, uint32_t k, const kf_scorer *scorer,
                            kf_scored scored, kf_err *err) {
  return note_score(list, k, scorer, newcomer_of(scorer, scored), err);
}

static kf_status score(kf_shortlist *list, uint32_t k, kf_scorer *s, const uint64_t *numbers,
                       uint32_t n, kf_err *err) {
  kf_scored scored[KF_SCORE_ROWS];
  KF_TRY(kf_score_rows(s, numbers, n, scored, err));
  for (uint32_t i = 0; i < n; i++) KF_TRY(kf_shortlist_note(list, k, s, scored[i], err));
  return KF_OK;
}

/* --- pending rows ---------------------------------------------------------------------------- */

/* Drops pending rows that are out. Without branches, since half would be mispredicted. */
static void drop(kf_shortlist *list) {
  uint32_t kept = 0;
  double least = list->least > list->guess ? list->least : list->guess;
  for (uint32_t i = 0; i < list->n_pending; i++) {
    list->pending[kept] = list->pending[i];
    kept += !(list->pending[i].upper < least);
  }
  list->n_pending = kept;
}

/* Sorts pending rows by falling upper bound, roughly (into STEPS buckets): the order decides how
 * many rows are scored, not which are found. */
#define STEPS 64
static void put_in_order(kf_shortlist *list, kf_pending *sorted) {
  kf_pending *x = list->pending;
  uint32_t n = list->n_pending, places[STEPS + 1] = {0};
  double most = -INFINITY, least = INFINITY;
  for (uint32_t i = 0; i < n; i++) {
    double upper = x[i].upper < INFINITY ? x[i].upper : -INFINITY;
    most = upper > most ? upper : most;
    least = x[i].upper < least ? x[i].upper : least;
  }
  double per = most - least > 1e-300 ? (STEPS - 2) / (most - least) : 0;
#define STEP_OF(upper) ((upper) <= most ? 1 + (uint32_t)(int32_t)((most - (upper)) * per) : 0)
  for (uint32_t i = 0; i < n; i++) places[STEP_OF(x[i].upper) + 1]++;
  for (uint32_t i = 0; i < STEPS; i++) places[i + 1] += places[i];
  for (uint32_t i = 0; i < n; i++) sorted[places[STEP_OF(x[i].upper)]++] = x[i];
#undef STEP_OF
  memcpy(x, sorted, n * sizeof *x);
}

/* Prefetches pending rows up to number `to`. (Always inline, as kf_row_prefetch.) */
#define AHEAD       (2 * KF_SCORE_ROWS) /* rows of this list */
#define AHEAD_BYTES 8192u               /* of rows of the next list */
static inline __attribute__((always_inline)) void
prefetch_rows(kf_shortlist *list, const kf_index *index, uint32_t to) {
  for (; list->prefetched < to && list->prefetched < list->n_pending && !index->in_place;
       list->prefetched++) {
    uint64_t row = list->pending[list->prefetched].row;
    if (index->norm2 != NULL) __builtin_prefetch(index->norm2 + row);
    kf_row_prefetch(index, row);
  }
}

/* Scores up to `most` of the sorted pending rows whose upper bounds are at least `margin` above the
 * floor. */
static kf_status score_best(kf_shortlist *list, uint32_t k, uint32_t most, double margin,
                            kf_shortlist *next, kf_scorer *scorer, kf_err *err) {
  const kf_index *index = scorer->index;
  uint32_t kept = 0, at = 0, ahead = (uint32_t)(AHEAD_BYTES / (index->dim * sizeof(float) + 1));
  if (ahead < AHEAD) ahead = AHEAD;
  while (at < list->n_pending) {
    uint64_t numbers[KF_SCORE_ROWS];
    uint32_t taken = 0;
    for (; at < list->n_pending && taken < KF_SCORE_ROWS; at++)
      if (most > 0 && !kf_shortlist_is_out(list, list->pending[at].upper - margin)) {
        numbers[taken++] = list->pending[at].row;
        most--;
      } else
        list->pending[kept++] = list->pending[at];
    if (taken == 0) continue;
    if (most > 0) prefetch_rows(list, index, at + AHEAD);
    if (next != NULL && next->prefetched < ahead)
      prefetch_rows(next, index, next->prefetched + KF_SCORE_ROWS);
    KF_TRY(score(list, k, scorer, numbers, taken, err));
  }
  list->n_pending = kept;
  return KF_OK;
}

void kf_shortlist_sort(kf_shortlist *list, kf_pending *sorted) {
  drop(list);
  put_in_order(list, sorted);
  list->prefetched = 0;
  list->in_order = true;
}

kf_status kf_shortlist_settle(kf_shortlist *list, uint32_t k, kf_shortlist *next, kf_scorer *scorer,
                              kf_err *err) {
  if (!list->in_order) kf_shortlist_sort(list, scorer->sorted);
  KF_TRY(score_best(list, k, UINT32_MAX, 0, next, scorer, err));
  list->n_pending = 0;
  list->in_order = false;
  return KF_OK;
}

/* Replaces the lower bounds by the keys of the best scores, if these are larger. Error bounds
 * differ from row to row, so the keys are made monotone. */
static void take_scores_as_bounds(kf_shortlist *list, uint32_t k, const kf_scorer *scorer) {
  if (list->n_scored < k || least_key(scorer, &list->scored[k - 1]) < list->lower[0]) return;
  for (uint32_t i = 0; i < k; i++) {
    double key = least_key(scorer, &list->scored[i]);
    double *to = &list->lower[k - 1 - i];
    *to = i > 0 && to[1] < key ? to[1] : key;
  }
}

kf_status kf_shortlist_make_room(kf_shortlist *list, uint32_t k, uint32_t capacity, double margin,
                                 kf_scorer *scorer, kf_err *err) {
  drop(list);
  if (list->n_pending <= capacity / 2) return KF_OK;
  kf_shortlist_sort(list, scorer->sorted);
  KF_TRY(score_best(list, k, k, margin, NULL, scorer, err));
  take_scores_as_bounds(list, k, scorer);
  drop(list);
  list->in_order = false;
  if (list->n_pending <= capacity / 4 * 3) return KF_OK;
  return kf_shortlist_settle(list, k, NULL, scorer, err);
}

kf_status kf_shortlist_merge(kf_shortlist *list, const kf_shortlist *other, uint32_t k,
                             uint32_t capacity, double margin, kf_scorer *scorer, kf_err *err) {
  if (other->least > list->least) list->least = other->least;
  if (other->guess > list->guess) list->guess = other->guess; /* its rows below it are lost */
  list->in_order = false;
  for (uint32_t i = 0; i < other->n_scored; i++)
    KF_TRY(note_score(list, k, scorer, newcomer_of(scorer, other->scored[i]), err));
  for (uint32_t i = 0; i < k; i++) note_lower(list, k, other->lower[i]);
  for (uint32_t i = 0; i < other->n_pending; i++) {
    if (other->pending[i].upper < list->least) continue;
    if (list->n_pending == capacity)
      KF_TRY(kf_shortlist_make_room(list, k, capacity, margin, scorer, err));
    list->pending[list->n_pending++] = other->pending[i];
  }
  return KF_OK;
}
