/* shortlist.c - which rows may yet be among the k nearest.
 *
 * A row comes with bounds of its key. While k rows are known to have keys of at least `least`, a
 * row whose upper bound is below that is out, strictly: it cannot even tie. Rows that are left over
 * in the end are scored from the largest upper bound down, and as soon as k scores are known that
 * the next upper bound does not reach, the answer is complete. */
#include "search/shortlist.h"

#include <math.h>

void kf_shortlist_start(kf_shortlist *list) {
  list->least = -INFINITY;
  list->n_pending = list->n_lower = list->n_scored = 0;
}

/* --- lower bounds ---------------------------------------------------------------------------- */

static void sift_down(double *heap, uint32_t n, double x) {
  uint32_t at = 0, child;
  while ((child = 2 * at + 1) < n) {
    if (child + 1 < n && heap[child + 1] < heap[child]) child++;
    if (!(heap[child] < x)) break;
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = x;
}

static void sift_up(double *heap, uint32_t at, double x) {
  for (; at > 0 && x < heap[(at - 1) / 2]; at = (at - 1) / 2) heap[at] = heap[(at - 1) / 2];
  heap[at] = x;
}

static void note_lower(kf_shortlist *list, uint32_t k, double lower) {
  if (list->n_lower < k)
    sift_up(list->lower, list->n_lower++, lower);
  else if (lower > list->lower[0])
    sift_down(list->lower, k, lower);
  else
    return;
  if (list->n_lower == k && list->lower[0] > list->least) list->least = list->lower[0];
}

void kf_shortlist_offer(kf_shortlist *list, uint32_t k, double upper, double lower, uint64_t row) {
  if (upper < list->least) return;
  list->pending[list->n_pending++] = (kf_pending){.upper = upper, .lower = lower, .row = row};
  note_lower(list, k, lower);
}

/* --- scores ---------------------------------------------------------------------------------- */

static void note_score(kf_shortlist *list, uint32_t k, const kf_scorer *scorer, kf_scored s) {
  kf_scored *to = list->scored;
  uint32_t at = list->n_scored;
  if (at == k) at = k - 1;
  if (list->n_scored == k &&
      (s.value > to[at].value || (s.value == to[at].value && s.row > to[at].row)))
    return;
  for (; at > 0 &&
         (s.value < to[at - 1].value || (s.value == to[at - 1].value && s.row < to[at - 1].row));
       at--)
    to[at] = to[at - 1];
  to[at] = s;
  if (list->n_scored < k) list->n_scored++;
  if (list->n_scored < k) return;
  double worst = to[k - 1].value;
  double key = kf_key(scorer->index, scorer->query,
                      scorer->index->metric == KF_METRIC_EUCLIDEAN ? worst : -worst);
  if (key > list->least) list->least = key;
}

/* The rows themselves, in memory or fetched. */
static kf_status find_rows(const kf_scorer *s, const uint64_t *numbers, uint32_t n,
                           const float **rows, kf_err *err) {
  const kf_index *index = s->index;
  for (uint32_t i = 0; i < n; i++) {
    float *fetched = s->fetched + i * index->dim;
    rows[i] = index->in_place ? fetched : index->rows + numbers[i] * index->dim;
    if (index->in_place)
      KF_TRY(index->source.fetch(index->source.self, s->kernels, numbers[i], 1, fetched, err));
  }
  return KF_OK;
}

static kf_status score(kf_shortlist *list, uint32_t k, kf_scorer *s, const uint64_t *numbers,
                       uint32_t n, kf_err *err) {
  const float *rows[KF_SCORE_ROWS];
  double value[KF_SCORE_ROWS];
  bool euclidean = s->index->metric == KF_METRIC_EUCLIDEAN;
  KF_TRY(find_rows(s, numbers, n, rows, err));
  (euclidean ? s->kernels->distances : s->kernels->dots)(s->x, rows, n, s->index->dim, value);
  for (uint32_t i = 0; i < n; i++)
    note_score(list, k, s,
               (kf_scored){.value = euclidean ? value[i] : -value[i], .row = numbers[i]});
  s->candidates += n;
  return KF_OK;
}

/* --- pending rows ---------------------------------------------------------------------------- */

static void drop(kf_shortlist *list) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < list->n_pending; i++)
    if (!(list->pending[i].upper < list->least)) list->pending[kept++] = list->pending[i];
  list->n_pending = kept;
}

/* The pending rows as a heap with the largest upper bound on top. */
static void settle_down(kf_pending *heap, uint32_t n, uint32_t at) {
  kf_pending x = heap[at];
  uint32_t child;
  while ((child = 2 * at + 1) < n) {
    if (child + 1 < n && heap[child + 1].upper > heap[child].upper) child++;
    if (!(heap[child].upper > x.upper)) break;
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = x;
}

static uint64_t pop(kf_shortlist *list) {
  uint64_t row = list->pending[0].row;
  list->pending[0] = list->pending[--list->n_pending];
  if (list->n_pending > 1) settle_down(list->pending, list->n_pending, 0);
  return row;
}

kf_status kf_shortlist_settle(kf_shortlist *list, uint32_t k, kf_scorer *scorer, kf_err *err) {
  drop(list);
  if (!scorer->index->in_place)
    for (uint32_t i = 0; i < list->n_pending; i++)
      __builtin_prefetch(scorer->index->rows + list->pending[i].row * scorer->index->dim);
  for (uint32_t i = list->n_pending / 2; i-- > 0;) settle_down(list->pending, list->n_pending, i);
  while (list->n_pending > 0) {
    uint64_t numbers[KF_SCORE_ROWS];
    uint32_t n = 0;
    while (n < KF_SCORE_ROWS && list->n_pending > 0 && !(list->pending[0].upper < list->least))
      numbers[n++] = pop(list);
    if (n == 0) break;
    KF_TRY(score(list, k, scorer, numbers, n, err));
  }
  list->n_pending = 0;
  return KF_OK;
}

kf_status kf_shortlist_make_room(kf_shortlist *list, uint32_t k, uint32_t capacity,
                                 kf_scorer *scorer, kf_err *err) {
  drop(list);
  if (list->n_pending <= capacity / 4 * 3) return KF_OK;
  return kf_shortlist_settle(list, k, scorer, err);
}

kf_status kf_shortlist_merge(kf_shortlist *list, const kf_shortlist *other, uint32_t k,
                             uint32_t capacity, kf_scorer *scorer, kf_err *err) {
  if (other->least > list->least) list->least = other->least;
  for (uint32_t i = 0; i < other->n_scored; i++) note_score(list, k, scorer, other->scored[i]);
  for (uint32_t i = 0; i < other->n_pending; i++) {
    const kf_pending *p = &other->pending[i];
    if (list->n_pending == capacity) KF_TRY(kf_shortlist_make_room(list, k, capacity, scorer, err));
    kf_shortlist_offer(list, k, p->upper, p->lower, p->row);
  }
  return KF_OK;
}
