/* device_search.c - the k nearest rows, found by devices.
 *
 * Every device searches its share of the rows and returns, for each query, a list of slightly more
 * than k rows by canonical score. The host merges the lists. Where two canonical scores are too
 * close to trust their order, exact scores decide, as on the CPU (shortlist.c). If such a tie may
 * reach past the end of a list, or a device has no room for the survivors of a query, the CPU
 * searches for that query. So the answers are those of the CPU, to the bit.
 *
 * A device guesses a key for each query that about k rows should reach, collects the rows whose
 * keys may reach it, and scores them. If k of them do reach it, no other row matters. Otherwise it
 * now knows a key that k rows certainly have, and collects once more (docs/gpu.md). */
#include "search/device_rows.h"
#include "search/nearest.h"

#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

/* --- whether it pays -------------------------------------------------------------------------- */

/* Measured with bench/cuda/worth.c (docs/gpu.md). Products are rows x queries x columns. */
#define WORTH_PRODUCTS 0x1p25 /* of a call: a quarter of a millisecond */
#define WORTH_A_PART   0x1p26 /* of a call in a pass, for each of its threads: a millisecond */
#define WORTH_A_START  0x1p36 /* of all calls, for each thread: a quarter of a second */

/* The number of queries for which the CPU takes as long as copying the rows to a device. Narrow
 * rows are searched fast, and copying costs something per row. */
static double worth_a_copy(const kf_index *index) { return 2048 + 600e3 / index->dim; }

#define MAX_LONG_QUERIES 4096u /* searched together with longer lists */
#define LONGER           16u   /* times longer lists, for ties that reach past the end of one */

/* Rows in a list: k and a few more, among which exact scores may choose. */
static uint32_t list_rows(uint32_t k) { return (k + 5 + 3) / 4 * 4; }

static double products_of(const kf_request *r) {
  return (double)r->n * (double)r->index->n * r->index->dim;
}

/* A first check without a lock, so that searches on the CPU never wait for a device. */
static kf_status may_try(kf_ctx *ctx, const kf_request *r, bool *out) {
  kf_devices *devices = NULL;
  *out = kf_devices_asked(ctx) || products_of(r) >= WORTH_PRODUCTS;
  if (!*out || !(kf_devices_asked(ctx) || kf_devices_known(ctx))) return KF_OK;
  KF_TRY(kf_devices_for(ctx, &devices));
  *out = devices->n > 0;
  return KF_OK;
}

/* Whether starting a device and copying the rows there costs little beside searching on the CPU.
 * With the lock of the index. */
static bool is_worth(const kf_ctx *ctx, const kf_request *r) {
  struct kf_index_devices *own = r->index->devices;
  if (kf_devices_asked(ctx)) return true;
  own->asked += r->n;
  own->products += products_of(r);
  if (own->refused) return false;
  if (own->rows != NULL) return true;
  return (double)own->asked >= worth_a_copy(r->index) &&
         (kf_devices_known(ctx) || own->products >= WORTH_A_START * ctx->threads);
}

/* --- a search --------------------------------------------------------------------------------- */

/* The state of a query after a search: LEFT to the CPU, or OPEN: the end of its list is in
 * doubt. */
enum { ANSWERED, LEFT, OPEN };

typedef struct job {
  kf_ctx *ctx; /* NULL: the calling thread alone, which is one of a pass */
  kf_err *err;
  const kf_request *r;
  kf_device_rows *on;
  uint32_t best;      /* rows of a list */
  bool longest;       /* lists cannot become longer */
  uint32_t batch;     /* queries that are searched together, at most */
  uint64_t first;     /* number of the first query of the current batch */
  uint32_t n;         /* queries of the batch */
  const float *given; /* [n][dim] the queries that go to the devices */
  bool locked;        /* the caller's queries are in page-locked memory */
  bool hosted;        /* the host scores for some lane, and needs: */
  kf_query *query;    /* [batch] */
  const kf_copies *copies;
  int64_t *leave_out;  /* [batch] for the devices, if some rows are copies */
  unsigned char *left; /* [lanes][batch] states */
  double *norm2;       /* [batch] canonical squared lengths of queries, if they matter */
  atomic_bool bad;     /* a query is invalid: the search fails */
  /* Lists arrive from the devices in portions, and are processed while others arrive. */
  pthread_mutex_t lock;
  pthread_cond_t changed;
  uint32_t arrived[KF_MOST_DEVICES]; /* queries whose lists have arrived, by lane */
  uint32_t to_measure, measured;     /* queries */
  uint32_t to_look_at;               /* queries measured while devices search */
  atomic_uint ready;                 /* queries that can be answered */
  atomic_bool failed;                /* a lane failed */
  atomic_bool unsound;               /* a list is invalid */
  uint64_t candidates[KF_MOST_DEVICES];
  kf_device_fault fault[KF_MOST_DEVICES];
  /* workspace of workers */
  double *wide;        /* [threads][2 * dim] */
  float *fetched;      /* [threads][KF_SCORE_ROWS][dim] */
  kf_dev_scored *all;  /* [threads][best] a merged list */
  kf_scored *scored;   /* [threads][k] */
  kf_scored *expanded; /* the same */
  kf_fine *fine;       /* [threads][k] */
  double *lower;       /* [threads][k] */
  kf_arena arena;
} job;

static size_t threads_of(const job *j) { return j->ctx != NULL ? j->ctx->threads : 1; }

static kf_status run_tasks(const job *j, size_t n, kf_task_fn task, void *argument) {
  if (j->ctx != NULL) return kf_parallel(j->ctx, n, task, argument);
  for (size_t i = 0; i < n; i++) KF_TRY(task(argument, i, 0, j->err));
  return KF_OK;
}

static const float *query_row(const job *j, uint32_t i) {
  return j->r->queries + (j->first + i) * j->r->index->dim;
}

static kf_scorer scorer_for(const job *j, uint32_t i, const kf_query *query, size_t worker) {
  uint64_t dim = j->r->index->dim;
  return (kf_scorer){.index = j->r->index,
                     .kernels = j->r->kernels,
                     .query = query,
                     .x = query_row(j, i),
                     .fetched = j->fetched + worker * KF_SCORE_ROWS * dim};
}

static bool comes_before(const kf_dev_scored *x, const kf_dev_scored *y) {
  return x->score < y->score || (x->score == y->score && x->row < y->row);
}

/* Inserts a row into a list, if it belongs there; empty places are at the end. */
static void list_add(kf_dev_scored *list, uint32_t room, kf_dev_scored x) {
  uint32_t at = room;
  while (at > 0 && (list[at - 1].row < 0 || !comes_before(&list[at - 1], &x))) at--;
  if (at == room) return;
  memmove(list + at + 1, list + at, (room - at - 1) * sizeof *list);
  list[at] = x;
}

static void list_clear(kf_dev_scored *list, uint32_t room) {
  for (uint32_t i = 0; i < room; i++) list[i].row = -1;
}

/* --- a lane at work --------------------------------------------------------------------------- */

typedef struct walk {
  job *j;
  kf_lane *lane;
  uint32_t number;       /* of the lane */
  const kf_piece *piece; /* the current one */
  unsigned char *left;   /* [batch] states */
  bool again;            /* second round, with keys that k rows certainly have */
  kf_err *err;
  /* scores the survivors of the chosen queries */
  kf_status (*take)(struct walk *w, const uint32_t *numbers, uint32_t n, uint64_t hits);
  /* if the host scores */
  double *least;     /* [batch] */
  uint32_t *numbers; /* [batch] */
} walk;

#define CALL(w, function, ...)                                                                     \
  KF_TRY_LANE((w)->lane, (w)->lane->device->api->function(__VA_ARGS__),                            \
              &(w)->j->fault[(w)->number], (w)->err)

static kf_status fail_host(walk *w) {
  w->j->fault[w->number].happened = true;
  return kf_fail_memory(w->err);
}

static void leave_to_cpu(const walk *w, const uint32_t *numbers, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) w->left[numbers[i]] = LEFT;
}

/* Scans for the chosen queries, in parts if there is no room for all survivors. A query with too
 * many survivors is left to the CPU. */
static kf_status scan_chosen(walk *w, const uint32_t *numbers, uint32_t n) {
  kf_lane *lane = w->lane;
  uint64_t hits = 0;
  if (atomic_load(&w->j->bad)) return KF_OK;
  kf_dev_status status = lane->device->api->scan(lane->room.queries, w->piece->rows, &hits);
  if (status != KF_DEV_MORE) {
    KF_TRY_LANE(lane, status, &w->j->fault[w->number], w->err);
    w->j->candidates[w->number] += hits;
    return w->take(w, numbers, n, hits);
  }
  if (n == 1 || hits / n > lane->room.hits) {
    leave_to_cpu(w, numbers, n);
    return KF_OK;
  }
  uint64_t parts = hits / lane->room.hits + 2;
  if (parts > n) parts = n;
  for (uint64_t p = 0; p < parts; p++) {
    uint32_t from = (uint32_t)(n * p / parts), to = (uint32_t)(n * (p + 1) / parts);
    CALL(w, choose, lane->room.queries, numbers + from, to - from, NULL);
    KF_TRY(scan_chosen(w, numbers + from, to - from));
  }
  return KF_OK;
}

/* --- waiting for lists ------------------------------------------------------------------------ */

#define ANSWERS_AT_ONCE 256u                   /* queries */
#define LISTS_AT_ONCE   (24 * ANSWERS_AT_ONCE) /* copied from a device together */

/* With the lock. */
static void count_ready(job *j) {
  uint32_t ready = j->measured;
  for (uint32_t i = 0; i < j->on->n; i++)
    if (j->arrived[i] < ready) ready = j->arrived[i];
  atomic_store(&j->ready, ready);
  pthread_cond_broadcast(&j->changed);
}

static void lists_arrived(job *j, uint32_t lane, uint32_t n) {
  pthread_mutex_lock(&j->lock);
  j->arrived[lane] = n;
  count_ready(j);
  pthread_mutex_unlock(&j->lock);
}

/* Queries count as measured only once all are, because threads finish in any order. */
static void queries_measured(job *j, uint32_t n) {
  pthread_mutex_lock(&j->lock);
  j->to_measure -= n;
  if (j->to_measure == 0) j->measured = j->n;
  count_ready(j);
  pthread_mutex_unlock(&j->lock);
}

static void give_up(job *j, atomic_bool *why) {
  pthread_mutex_lock(&j->lock);
  atomic_store(why, true);
  pthread_cond_broadcast(&j->changed);
  pthread_mutex_unlock(&j->lock);
}

static bool is_over(job *j, uint32_t n) {
  return atomic_load(&j->ready) >= n || atomic_load(&j->failed) || atomic_load(&j->bad);
}

/* Waits for the first n queries; false: the search has failed. */
static bool wait_for(job *j, uint32_t n) {
  pthread_mutex_lock(&j->lock);
  while (!is_over(j, n) && atomic_load(&j->ready) == 0) pthread_cond_wait(&j->changed, &j->lock);
  pthread_mutex_unlock(&j->lock);
  while (!is_over(j, n)) sched_yield(); /* the rest arrives soon */
  return !atomic_load(&j->failed) && !atomic_load(&j->bad);
}

/* --- the device scores ------------------------------------------------------------------------ */

/* Scores, then collects again for queries whose guess was too high. */
static kf_status take_scored(walk *w, const uint32_t *numbers, uint32_t n, uint64_t hits) {
  (void)numbers;
  (void)hits;
  kf_lane *lane = w->lane;
  uint32_t k = w->j->r->k, left = 0;
  CALL(w, score, lane->room.queries, w->piece->rows);
  if (lane->different <= k || w->again) return KF_OK; /* all rows, or provably enough */
  CALL(w, settle, lane->room.queries, k, w->j->r->index->source.canonical ? 0 : 1, &left);
  if (left == 0) return KF_OK;
  uint32_t *again = kf_alloc(n, sizeof *again);
  if (again == NULL) return fail_host(w);
  kf_status status =
      kf_lane_check(lane, lane->device->api->chosen(lane->room.queries, again, NULL, &left),
                    "search", &w->j->fault[w->number], w->err);
  if (status == KF_OK)
    status = kf_lane_check(lane, lane->device->api->guess(lane->room.queries, w->piece->rows, k, 1),
                           "search", &w->j->fault[w->number], w->err);
  w->again = true;
  if (status == KF_OK) status = scan_chosen(w, again, left);
  w->again = false;
  kf_free(again);
  return status;
}

static kf_status search_scoring(walk *w) {
  kf_lane *lane = w->lane;
  w->take = take_scored;
  w->piece = &lane->pieces[0];
  if (lane->different > w->j->r->k)
    CALL(w, guess, lane->room.queries, w->piece->rows, w->j->r->k, 0);
  KF_TRY(scan_chosen(w, w->numbers, w->j->n));
  for (uint32_t first = 0, n; first < w->j->n; first += n) {
    n = w->j->n - first < LISTS_AT_ONCE ? w->j->n - first : LISTS_AT_ONCE;
    CALL(w, answers, lane->room.queries, first, n,
         lane->room.answers + (uint64_t)first * lane->room.best);
    lists_arrived(w->j, w->number, first + n);
  }
  return KF_OK;
}

/* --- the host scores -------------------------------------------------------------------------- */

typedef struct survivors {
  const walk *w;
  uint64_t *end;         /* [n] of the rows of a query */
  const int64_t *sorted; /* by query */
} survivors;

#define QUERIES_AT_ONCE 16u

static kf_status score_survivors(void *argument, size_t i, size_t worker, kf_err *err) {
  const survivors *s = argument;
  const job *j = s->w->j;
  const kf_lane *lane = s->w->lane;
  for (uint32_t q = (uint32_t)i * QUERIES_AT_ONCE; q < (i + 1) * QUERIES_AT_ONCE && q < j->n; q++) {
    kf_scorer scorer = scorer_for(j, q, &j->query[q], worker);
    uint64_t at = q > 0 ? s->end[q - 1] : 0, n;
    for (; at < s->end[q]; at += n) {
      kf_scored scored[KF_SCORE_ROWS];
      uint64_t numbers[KF_SCORE_ROWS];
      n = s->end[q] - at < KF_SCORE_ROWS ? s->end[q] - at : KF_SCORE_ROWS;
      for (uint64_t t = 0; t < n; t++) numbers[t] = (uint64_t)s->sorted[at + t];
      KF_TRY(kf_score_rows(&scorer, numbers, (uint32_t)n, scored, err));
      for (uint64_t t = 0; t < n; t++)
        list_add(lane->room.answers + (uint64_t)q * lane->room.best, lane->room.best,
                 (kf_dev_scored){scored[t].value, (int64_t)scored[t].row});
    }
  }
  return KF_OK;
}

/* Sorts survivors by query. */
static void sort_survivors(survivors *s, const uint32_t *query, const int64_t *row, uint64_t n,
                           int64_t *sorted) {
  uint32_t queries = s->w->j->n;
  for (uint64_t i = 0; i < n; i++) s->end[query[i]]++;
  uint64_t sum = 0;
  for (uint32_t q = 0; q < queries; q++) {
    uint64_t count = s->end[q];
    s->end[q] = sum;
    sum += count;
  }
  for (uint64_t i = 0; i < n; i++) sorted[s->end[query[i]]++] = row[i];
  s->sorted = sorted;
}

static kf_status take_unscored(walk *w, const uint32_t *numbers, uint32_t n, uint64_t hits) {
  (void)numbers;
  (void)n;
  kf_lane *lane = w->lane;
  survivors s = {.w = w};
  uint32_t *query;
  int64_t *row, *sorted;
  kf_arena arena = {0};
  KF_TAKE(&arena, query, hits);
  KF_TAKE(&arena, row, hits);
  KF_TAKE(&arena, sorted, hits);
  KF_TAKE_ZERO(&arena, s.end, w->j->n);
  kf_status status =
      arena.failed ? fail_host(w)
                   : kf_lane_check(lane,
                                   lane->device->api->survivors(lane->room.queries, w->piece->rows,
                                                                query, row, &hits),
                                   "search", &w->j->fault[w->number], w->err);
  if (status == KF_OK) {
    sort_survivors(&s, query, row, hits, sorted);
    status =
        run_tasks(w->j, (w->j->n + QUERIES_AT_ONCE - 1) / QUERIES_AT_ONCE, score_survivors, &s);
  }
  kf_arena_free(&arena);
  return status;
}

/* A key that k rows in the list of a query certainly have. */
static double proven_key(const walk *w, uint32_t i) {
  const kf_index *index = w->j->r->index;
  const kf_dev_scored *last =
      w->lane->room.answers + (uint64_t)i * w->lane->room.best + w->j->r->k - 1;
  if (last->row < 0) return -INFINITY;
  double score = index->metric == KF_METRIC_EUCLIDEAN ? last->score : -last->score;
  double key = kf_key(index, &w->j->query[i], score);
  if (index->source.canonical) return key;
  return key - kf_key_error(index, &w->j->query[i], (uint64_t)last->row, score);
}

/* Chooses queries by number with these keys; where a key is unknown, the device guesses one. */
static kf_status choose_proven(walk *w, const uint32_t *numbers, uint32_t n, const double *least) {
  bool unknown = false;
  for (uint32_t i = 0; i < n; i++) unknown = unknown || !(least[i] > -INFINITY);
  CALL(w, choose, w->lane->room.queries, numbers, n, least);
  if (unknown && w->piece->different > w->j->r->k)
    CALL(w, guess, w->lane->room.queries, w->piece->rows, w->j->r->k, 1);
  return KF_OK;
}

/* The first piece: with guesses, then again for queries whose guess was too high. */
static kf_status search_first(walk *w) {
  kf_lane *lane = w->lane;
  uint32_t n = w->j->n, failed = 0;
  if (w->piece->different <= w->j->r->k) return scan_chosen(w, w->numbers, n);
  CALL(w, guess, lane->room.queries, w->piece->rows, w->j->r->k, 0);
  CALL(w, chosen, lane->room.queries, w->numbers, w->least, &n);
  KF_TRY(scan_chosen(w, w->numbers, n));
  for (uint32_t i = 0; i < n; i++) {
    double proven = proven_key(w, i);
    if (w->left[i] || proven >= w->least[i]) continue;
    list_clear(lane->room.answers + (uint64_t)i * lane->room.best, lane->room.best);
    w->least[failed] = proven;
    w->numbers[failed++] = i;
  }
  if (failed == 0) return KF_OK;
  KF_TRY(choose_proven(w, w->numbers, failed, w->least));
  return scan_chosen(w, w->numbers, failed);
}

/* Any other piece: the lists so far give the keys. */
static kf_status search_next(walk *w) {
  for (uint32_t i = 0; i < w->j->n; i++) {
    w->numbers[i] = i;
    w->least[i] = proven_key(w, i);
  }
  KF_TRY(choose_proven(w, w->numbers, w->j->n, w->least));
  return scan_chosen(w, w->numbers, w->j->n);
}

/* Brings a piece to the device. */
static kf_status bring(const walk *w, kf_piece *piece) {
  return kf_lane_check(w->lane, kf_piece_bring(w->lane, piece), "search", &w->j->fault[w->number],
                       w->err);
}

static kf_status search_pieces(walk *w) {
  kf_lane *lane = w->lane;
  w->take = take_unscored;
  for (uint32_t i = 0; i < w->j->n; i++)
    list_clear(lane->room.answers + (uint64_t)i * lane->room.best, lane->room.best);
  kf_status status = bring(w, &lane->pieces[0]);
  for (uint32_t p = 0; status == KF_OK && p < lane->n_pieces; p++) {
    w->piece = &lane->pieces[p];
    if (p + 1 < lane->n_pieces) status = bring(w, &lane->pieces[p + 1]);
    if (status == KF_OK) status = (p == 0 ? search_first : search_next)(w);
    if (!lane->stays) kf_piece_drop(lane, &lane->pieces[p]);
  }
  for (uint32_t p = 0; p < lane->n_pieces && !lane->stays; p++)
    kf_piece_drop(lane, &lane->pieces[p]);
  return status;
}

/* --- all lanes -------------------------------------------------------------------------------- */

static kf_status run_walk(walk *w) {
  job *j = w->j;
  kf_arena arena = {0};
  KF_TAKE(&arena, w->numbers, j->n);
  if (!w->lane->scores) KF_TAKE(&arena, w->least, j->n);
  if (arena.failed) return fail_host(w);
  for (uint32_t i = 0; i < j->n; i++) w->numbers[i] = i;
  const int64_t *leave_out = j->r->leave_out == NULL ? NULL
                             : j->leave_out != NULL  ? j->leave_out
                                                     : j->r->leave_out + j->first;
  kf_dev_status put =
      w->lane->device->api->queries_put(w->lane->room.queries, j->given, j->n, leave_out);
  kf_status status = kf_lane_check(w->lane, put, "search", &j->fault[w->number], w->err);
  if (status == KF_OK) status = (w->lane->scores ? search_scoring : search_pieces)(w);
  kf_arena_free(&arena);
  return status;
}

static kf_status search_lane(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)worker;
  job *j = argument;
  walk w = {.j = j,
            .lane = &j->on->lanes[i],
            .number = (uint32_t)i,
            .left = j->left + i * j->batch,
            .err = err};
  pthread_mutex_lock(&w.lane->device->lock);
  kf_status status = run_walk(&w);
  pthread_mutex_unlock(&w.lane->device->lock);
  if (status != KF_OK) give_up(j, &j->failed);
  return status;
}

/* --- answers ---------------------------------------------------------------------------------- */

/* A valid list holds rows of its lane, each once, in order. */
static bool is_sound(const kf_lane *lane, const kf_dev_scored *list, uint32_t room) {
  for (uint32_t t = 0; t < room && list[t].row >= 0; t++) {
    if ((uint64_t)list[t].row - lane->first >= lane->n) return false;
    if (t > 0 && !comes_before(&list[t - 1], &list[t])) return false;
  }
  return true;
}

/* An invalid list must never become an answer. */
static kf_status check_lists(job *j, uint32_t q, kf_err *err) {
  for (uint32_t i = 0; i < j->on->n; i++) {
    const kf_lane *lane = &j->on->lanes[i];
    if (is_sound(lane, lane->room.answers + (uint64_t)q * lane->room.best, lane->room.best))
      continue;
    atomic_store(&j->unsound, true);
    return kf_fail(
        err, KF_ERR_INTERNAL,
        "%s (%s), search: the nearest rows of query %llu are out of order or duplicated; "
        "this is a bug in koofu, please report it",
        lane->device->name, lane->device->info.name, (unsigned long long)(j->first + q));
  }
  return KF_OK;
}

/* Merges the lists of all lanes. */
static const kf_dev_scored *merge(const job *j, uint32_t i, kf_dev_scored *list) {
  const kf_lane *lanes = j->on->lanes;
  const kf_dev_scored *first = lanes[0].room.answers + (uint64_t)i * lanes[0].room.best;
  if (j->on->n == 1) return first;
  memcpy(list, first, j->best * sizeof *list);
  for (uint32_t l = 1; l < j->on->n; l++) {
    const kf_dev_scored *other = lanes[l].room.answers + (uint64_t)i * lanes[l].room.best;
    for (uint32_t t = 0; t < j->best && other[t].row >= 0; t++) list_add(list, j->best, other[t]);
  }
  return list;
}

/* --- copies: a row in a list stands for all equal rows ----------------------------- */

/* The rows that a row in the list of query i stands for, rising, at most `room`. */
static uint32_t expand(const job *j, uint32_t i, const kf_dev_scored *x, kf_scored *out,
                       uint32_t room) {
  int64_t without = j->r->leave_out != NULL ? j->r->leave_out[j->first + i] : -1;
  uint32_t n = 0;
  for (uint64_t row = (uint64_t)x->row; n < room; row = j->copies->next[row]) {
    if ((int64_t)row != without) out[n++] = (kf_scored){x->score, row};
    if (j->copies->n == 0 || j->copies->next[row] == KF_NO_COPY) break;
  }
  return n;
}

/* How many entries of a list make k rows; best + 1: all make fewer. */
static uint32_t count_needed(const job *j, uint32_t i, const kf_dev_scored *list,
                             kf_scored *workspace) {
  uint32_t k = j->r->k, n = 0;
  for (uint32_t t = 0; t < j->best && list[t].row >= 0; t++) {
    n += expand(j, i, &list[t], workspace, k - n);
    if (n == k) return t + 1;
  }
  return j->best + 1;
}

/* How far apart scores must be for their order to be certain. That of canonical scores always is,
 * except that copies of rows with equal scores interleave. */
static double clear_of(const job *j, double share, double score) {
  double clear = kf_clear(j->r->index, share, score);
  return clear < 0 && j->copies->n > 0 ? 0 : clear;
}

/* Whether the first n entries are certainly in order, and certainly before the others. */
static bool is_clear(const job *j, const kf_dev_scored *list, uint32_t n, double share) {
  for (uint32_t t = 1; t <= n && t < j->best && list[t].row >= 0; t++)
    if (!(list[t].score - list[t - 1].score > clear_of(j, share, list[t].score))) return false;
  return true;
}

/* Whether a row that is not in the list may come before entry n - 1. */
static bool is_open(const job *j, const kf_dev_scored *list, uint32_t n, double share) {
  const kf_dev_scored *last = &list[j->best - 1];
  if (last->row < 0 || j->r->index->source.canonical) return false;
  return !(last->score - list[n - 1].score > kf_clear(j->r->index, share, last->score));
}

/* Exact scores order the first n entries and those that may tie with them. */
static kf_status answer_closely(const job *j, uint32_t i, const kf_dev_scored *list, uint32_t n,
                                double share, size_t worker, kf_err *err) {
  uint32_t k = j->r->k;
  kf_query query = kf_query_start(j->r->index, j->r->kernels, query_row(j, i),
                                  j->wide + worker * 2 * j->r->index->dim);
  kf_scorer scorer = scorer_for(j, i, &query, worker);
  kf_shortlist exact = {.lower = j->lower + worker * k,
                        .scored = j->scored + worker * k,
                        .fine = j->fine + worker * k};
  kf_scored *some = j->expanded + worker * k;
  kf_shortlist_start(&exact, k);
  for (uint32_t t = 0; t < j->best && list[t].row >= 0; t++) {
    if (t >= n && list[t].score - list[n - 1].score > clear_of(j, share, list[t].score)) break;
    uint32_t copies = expand(j, i, &list[t], some, k);
    for (uint32_t c = 0; c < copies; c++)
      KF_TRY(kf_shortlist_note(&exact, k, &scorer, some[c], err));
  }
  kf_request_answer(j->r, j->first + i, exact.scored);
  return KF_OK;
}

static kf_status answer_one(const job *j, uint32_t q, double share, size_t worker, kf_err *err) {
  uint32_t k = j->r->k;
  kf_scored *scored = j->scored + worker * k;
  const kf_dev_scored *list = merge(j, q, j->all + worker * j->best);
  uint32_t n = count_needed(j, q, list, scored), at = 0;
  if (n > j->best) {
    j->left[q] = LEFT;
  } else if (is_open(j, list, n, share)) {
    j->left[q] = OPEN;
  } else if (!is_clear(j, list, n, share)) {
    return answer_closely(j, q, list, n, share, worker, err);
  } else {
    for (uint32_t t = 0; t < n; t++) at += expand(j, q, &list[t], scored + at, k - at);
    kf_request_answer(j->r, j->first + q, scored);
  }
  return KF_OK;
}

static kf_status answer_some(void *argument, size_t i, size_t worker, kf_err *err) {
  job *j = argument;
  const kf_index *index = j->r->index;
  uint32_t end = (uint32_t)(i + 1) * ANSWERS_AT_ONCE;
  double share = kf_query_share(index, 1);
  for (uint32_t q = (uint32_t)i * ANSWERS_AT_ONCE; q < end && q < j->n; q++) {
    for (uint32_t l = 1; l < j->on->n; l++) j->left[q] |= j->left[l * j->batch + q];
    if (j->left[q]) continue;
    KF_TRY(check_lists(j, q, err));
    if (index->metric == KF_METRIC_INNER) share = kf_query_share(index, j->norm2[q]);
    KF_TRY(answer_one(j, q, share, worker, err));
  }
  return KF_OK;
}

/* --- remaining queries ----------------------------------------------------------------------- */

static kf_status search_on(kf_ctx *ctx, const kf_request *r, kf_device_rows *on, uint32_t best,
                           bool *fault, kf_err *err);

/* Searches for open queries again with longer lists, since more rows tie than a list holds. Queries
 * for which the longest list is too short go to the CPU. */
static kf_status search_longer(job *j, const kf_request *some) {
  uint32_t most = j->on->lanes[0].device->api->most_best;
  uint32_t best = j->best < most / LONGER ? j->best * LONGER : most / 4 * 4;
  for (uint32_t i = 0; i < j->on->n; i++) kf_lane_swap_rooms(&j->on->lanes[i]);
  kf_status status = search_on(j->ctx, some, j->on, best, &j->fault[0].happened, j->err);
  for (uint32_t i = 0; i < j->on->n; i++) kf_lane_swap_rooms(&j->on->lanes[i]);
  return status;
}

static bool can_be_longer(const job *j) {
  return !j->longest && j->best < j->on->lanes[0].device->api->most_best / 4 * 4;
}

typedef struct rest {
  kf_request some;
  uint64_t *number; /* [n] their numbers in the request */
  kf_arena arena;
} rest;

/* Collects the queries of the batch in state `left`. */
static kf_status collect(const job *j, unsigned char left, rest *out) {
  const kf_request *r = j->r;
  uint64_t n = 0, dim = r->index->dim, at = 0;
  for (uint32_t i = 0; i < j->n; i++) n += j->left[i] == left;
  *out = (rest){.some = {.index = r->index,
                         .kernels = r->kernels,
                         .n = n,
                         .k = r->k,
                         .candidates = r->candidates}};
  float *queries;
  int64_t *leave_out;
  if (n == 0) return KF_OK;
  KF_TAKE(&out->arena, queries, n * dim);
  KF_TAKE(&out->arena, leave_out, n);
  KF_TAKE(&out->arena, out->some.rows, n * r->k);
  KF_TAKE(&out->arena, out->some.scores, n * r->k);
  if (r->scored != NULL) KF_TAKE(&out->arena, out->some.scored, n * r->k);
  KF_TAKE(&out->arena, out->number, n);
  if (out->arena.failed) return kf_fail_memory(j->err);
  for (uint32_t i = 0; i < j->n; i++) {
    if (j->left[i] != left) continue;
    memcpy(queries + at * dim, query_row(j, i), dim * sizeof *queries);
    leave_out[at] = r->leave_out != NULL ? r->leave_out[j->first + i] : -1;
    out->number[at++] = j->first + i;
  }
  out->some.queries = queries;
  out->some.leave_out = r->leave_out != NULL ? leave_out : NULL;
  return KF_OK;
}

static void copy_answers(const kf_request *r, const rest *from) {
  uint64_t k = r->k;
  for (uint64_t i = 0; i < from->some.n; i++) {
    uint64_t to = from->number[i];
    if (r->scored != NULL) {
      memcpy(r->scored + to * k, from->some.scored + i * k, k * sizeof *r->scored);
      continue;
    }
    memcpy(r->rows + to * k, from->some.rows + i * k, k * sizeof *r->rows);
    if (r->scores != NULL)
      memcpy(r->scores + to * k, from->some.scores + i * k, k * sizeof *r->scores);
  }
}

static kf_status leave_to_host(job *j, const kf_request *some) {
  j->r->index->devices->left_over += some->n;
  return j->ctx != NULL ? kf_nearest_on_threads(j->ctx, some) : kf_nearest_on_thread(some, j->err);
}

/* Answers the queries of the batch in state `left`. */
static kf_status answer_rest(job *j, unsigned char left) {
  rest of;
  kf_status status = collect(j, left, &of);
  if (status == KF_OK && of.some.n > 0) {
    if (left == OPEN && can_be_longer(j))
      status = search_longer(j, &of.some);
    else
      status = leave_to_host(j, &of.some);
  }
  if (status == KF_OK) copy_answers(j->r, &of);
  kf_arena_free(&of.arena);
  return status;
}

/* --- batches ---------------------------------------------------------------------------------- */

static size_t parts_of(uint32_t queries) {
  return (queries + ANSWERS_AT_ONCE - 1) / ANSWERS_AT_ONCE;
}

/* Measures some queries, if lengths matter, and checks them if asked. */
static kf_status measure_queries(job *j, uint32_t first, kf_err *err) {
  const kf_index *index = j->r->index;
  uint32_t last = j->n - first < ANSWERS_AT_ONCE ? j->n : first + ANSWERS_AT_ONCE;
  for (uint32_t q = first; j->norm2 != NULL && q < last; q++) {
    j->norm2[q] = j->r->kernels->norm2(query_row(j, q), index->dim);
    if (!j->r->check) continue;
    kf_status status =
        kf_check_norm2("query", j->first + q, j->norm2[q], index->metric == KF_METRIC_COSINE, err);
    if (status == KF_OK) continue;
    give_up(j, &j->bad);
    return status;
  }
  queries_measured(j, last - first);
  return KF_OK;
}

static kf_status start_queries(void *argument, size_t i, size_t worker, kf_err *err) {
  job *j = argument;
  uint64_t dim = j->r->index->dim;
  uint32_t first = (uint32_t)i * ANSWERS_AT_ONCE, left = j->n - first;
  uint32_t n = left < ANSWERS_AT_ONCE ? left : ANSWERS_AT_ONCE;
  float *locked = j->locked ? NULL : j->on->lanes[0].room.given;
  if (locked != NULL) memcpy(locked + first * dim, query_row(j, first), n * dim * sizeof *locked);
  for (uint32_t q = first; j->hosted && q < first + n; q++)
    j->query[q] =
        kf_query_start(j->r->index, j->r->kernels, query_row(j, q), j->wide + worker * 2 * dim);
  return measure_queries(j, first, err);
}

/* Queries that go to devices unchanged are measured while the devices search; answers are made
 * while lists arrive. Tasks start in order, so no task waits for one that has not started. */
static kf_status search_measure_answer(void *argument, size_t i, size_t worker, kf_err *err) {
  job *j = argument;
  if (i < j->on->n) return search_lane(j, i, worker, err);
  size_t part = i - j->on->n, parts = parts_of(j->to_look_at);
  if (part < parts) return measure_queries(j, (uint32_t)part * ANSWERS_AT_ONCE, err);
  part -= parts;
  uint64_t end = (part + 1) * ANSWERS_AT_ONCE;
  if (!wait_for(j, end < j->n ? (uint32_t)end : j->n)) return KF_OK;
  return answer_some(j, part, worker, err);
}

/* A row that has copies stands for them on the devices, so leaving it out is left to the host. */
static void tell_left_out(const job *j) {
  for (uint32_t i = 0; j->leave_out != NULL && i < j->n; i++) {
    int64_t row = j->r->leave_out[j->first + i];
    bool has =
        row >= 0 && (uint64_t)row < j->r->index->n && kf_has_copies(j->copies, (uint64_t)row);
    j->leave_out[i] = has ? -1 : row;
  }
}

static void batch_start(job *j) {
  memset(j->left, 0, (uint64_t)j->on->n * j->batch);
  memset(j->arrived, 0, sizeof j->arrived);
  atomic_store(&j->ready, 0);
  j->measured = 0;
  j->to_measure = j->n;
}

static kf_status search_batch(job *j) {
  const float *locked = j->locked ? NULL : j->on->lanes[0].room.given;
  size_t parts = parts_of(j->n);
  batch_start(j);
  bool seen = locked != NULL || j->hosted;
  j->to_look_at = seen ? 0 : j->n;
  if (seen) KF_TRY(run_tasks(j, parts, start_queries, j));
  j->given = locked != NULL ? locked : query_row(j, 0);
  tell_left_out(j);
  if (j->hosted) { /* lanes go parallel themselves */
    for (uint32_t i = 0; i < j->on->n; i++) KF_TRY(search_lane(j, i, 0, j->err));
    KF_TRY(run_tasks(j, parts, answer_some, j));
  } else {
    KF_TRY(run_tasks(j, j->on->n + parts_of(j->to_look_at) + parts, search_measure_answer, j));
  }
  KF_TRY(answer_rest(j, LEFT));
  return answer_rest(j, OPEN);
}

/* Takes memory on the devices and on the host. */
static kf_status job_make(job *j, uint32_t best) {
  const kf_request *r = j->r;
  uint64_t threads = threads_of(j), dim = r->index->dim;
  uint64_t n = j->longest && r->n > MAX_LONG_QUERIES ? MAX_LONG_QUERIES : r->n; /* at a time */
  j->best = UINT32_MAX;
  j->batch = UINT32_MAX;
  for (uint32_t i = 0; i < j->on->n; i++) {
    kf_lane *lane = &j->on->lanes[i];
    pthread_mutex_lock(&lane->device->lock);
    if (i == 0) j->locked = lane->device->api->host_locked(lane->device->dev, r->queries) != 0;
    kf_status status = kf_lane_room(lane, n, best, i == 0 && !j->locked, &j->fault[i], j->err);
    pthread_mutex_unlock(&lane->device->lock);
    KF_TRY(status);
    if (lane->room.best < j->best) j->best = lane->room.best;
    if (lane->room.most < j->batch) j->batch = lane->room.most;
    j->hosted = j->hosted || !lane->scores;
  }
  if (j->batch > r->n) j->batch = (uint32_t)r->n;
  KF_TAKE(&j->arena, j->left, (uint64_t)j->on->n * j->batch);
  if (j->hosted) KF_TAKE(&j->arena, j->query, j->batch);
  if (r->check || r->index->metric == KF_METRIC_INNER) KF_TAKE(&j->arena, j->norm2, j->batch);
  KF_TAKE(&j->arena, j->wide, threads * 2 * dim);
  KF_TAKE(&j->arena, j->fetched, threads * KF_SCORE_ROWS * dim);
  KF_TAKE(&j->arena, j->all, threads * j->best);
  KF_TAKE(&j->arena, j->scored, threads * r->k);
  KF_TAKE(&j->arena, j->expanded, threads * r->k);
  if (j->copies->n > 0 && r->leave_out != NULL) KF_TAKE(&j->arena, j->leave_out, j->batch);
  KF_TAKE(&j->arena, j->fine, threads * r->k);
  KF_TAKE(&j->arena, j->lower, threads * r->k);
  return j->arena.failed ? kf_fail_memory(j->err) : KF_OK;
}

/* With lists of `best` rows. *fault: a device could not do it. ctx NULL: on the calling thread.
 * With the lock of the index. */
static kf_status search_on(kf_ctx *ctx, const kf_request *r, kf_device_rows *on, uint32_t best,
                           bool *fault, kf_err *err) {
  job j = {.ctx = ctx,
           .err = err,
           .r = r,
           .on = on,
           .copies = &r->index->devices->copies,
           .longest = best > list_rows(r->k)};
  pthread_mutex_init(&j.lock, NULL);
  pthread_cond_init(&j.changed, NULL);
  kf_status status = job_make(&j, best);
  for (uint64_t first = 0; status == KF_OK && first < r->n; first += j.batch) {
    j.first = first;
    j.n = r->n - first < j.batch ? (uint32_t)(r->n - first) : j.batch;
    status = search_batch(&j);
  }
  if (atomic_load(&j.unsound)) *fault = true;
  for (uint32_t i = 0; i < on->n; i++) {
    *fault = *fault || j.fault[i].happened;
    kf_request_count(r, j.candidates[i]);
  }
  pthread_cond_destroy(&j.changed);
  pthread_mutex_destroy(&j.lock);
  kf_arena_free(&j.arena);
  return status;
}

/* Brings the rows of an index to the devices, unless they are there. With the lock of the index. */
static kf_status bring_rows(kf_ctx *ctx, const kf_index *index, const kf_devices *devices,
                            bool *fault) {
  struct kf_index_devices *own = index->devices;
  if (own->rows != NULL && kf_device_rows_on(own->rows, devices)) return KF_OK;
  kf_device_fault making = {0};
  kf_device_rows_free(own->rows);
  own->rows = NULL;
  kf_status status = kf_device_rows_new(ctx, index, devices, &making, &own->rows);
  *fault = making.happened;
  return status;
}

/* The devices for a request; NULL: it is not worth it, or they cannot do it. With the lock of the
 * index. */
static kf_status find_devices(kf_ctx *ctx, const kf_request *r, kf_devices **out) {
  kf_devices *devices = NULL;
  if (!is_worth(ctx, r)) return KF_OK;
  KF_TRY(kf_devices_for(ctx, &devices));
  if (devices->n > 0 && list_rows(r->k) <= devices->device[0]->api->most_best) *out = devices;
  return KF_OK;
}

/* With the lock of the index; *done: it was worth it. */
static kf_status search_if_worth(kf_ctx *ctx, const kf_request *r, bool *fault, bool *done) {
  kf_devices *devices = NULL;
  KF_TRY(find_devices(ctx, r, &devices));
  if (devices == NULL) return KF_OK;
  *done = true;
  KF_TRY(bring_rows(ctx, r->index, devices, fault));
  return search_on(ctx, r, r->index->devices->rows, list_rows(r->k), fault, &ctx->err);
}

/* Drops the rows on devices after a fault. */
static void forget_rows(struct kf_index_devices *own) {
  kf_device_rows_free(own->rows);
  own->rows = NULL;
  own->refused = true;
}

/* The context's error was a fault of its devices. */
static kf_status take_fault(kf_ctx *ctx) {
  kf_err failure = ctx->err;
  ctx->err = (kf_err){0};
  return kf_devices_failed(ctx, &failure);
}

kf_status kf_nearest_on_devices(kf_ctx *ctx, const kf_request *request, bool *done) {
  struct kf_index_devices *own = request->index->devices;
  uint64_t found = 0; /* counts only if the devices answer */
  kf_request with_count = *request, *r = &with_count;
  r->candidates = &found;
  bool fault = false, may = false;
  KF_TRY(may_try(ctx, r, &may));
  if (!may) return KF_OK;
  pthread_mutex_lock(&own->lock);
  kf_status status = search_if_worth(ctx, r, &fault, done);
  if (status != KF_OK && fault) forget_rows(own);
  pthread_mutex_unlock(&own->lock);
  if (status == KF_OK) kf_request_count(request, found);
  if (status == KF_OK || !fault) return status;
  *done = false;
  return take_fault(ctx);
}

/* --- on the threads of a pass ---------------------------------------------------------------- */

/* With the lock of the index. */
static kf_status begin_use(kf_ctx *ctx, const kf_request *r, kf_nearest_use *use, bool *fault) {
  kf_devices *devices = NULL;
  KF_TRY(find_devices(ctx, r, &devices));
  if (devices == NULL) return KF_OK;
  KF_TRY(bring_rows(ctx, r->index, devices, fault));
  use->devices = devices;
  return KF_OK;
}

kf_status kf_nearest_begin(kf_ctx *ctx, const kf_index *index, uint64_t n, uint64_t each,
                           uint32_t k, kf_nearest_use *use) {
  struct kf_index_devices *own = index->devices;
  kf_request r = {.index = index, .n = n, .k = k};
  bool fault = false;
  *use = (kf_nearest_use){.index = index, .kernels = ctx->kernels};
  double products = (double)(each < n ? each : n) * (double)index->n * index->dim;
  bool may = kf_devices_asked(ctx) || products >= WORTH_A_PART * ctx->threads;
  pthread_mutex_lock(&own->lock);
  kf_status status = may ? begin_use(ctx, &r, use, &fault) : KF_OK;
  if (status != KF_OK && fault) forget_rows(own);
  pthread_mutex_unlock(&own->lock);
  if (fault) status = take_fault(ctx);
  return kf_agree_on(ctx, status); /* the devices of ranks may differ */
}

kf_status kf_nearest_end(kf_ctx *ctx, kf_nearest_use *use, kf_status status) {
  if (use->devices == NULL || !use->failed || status != KF_OK) return status;
  return kf_devices_failed(ctx, &use->err);
}

/* Searches on the devices; *done: they answered. */
static kf_status use_devices(kf_nearest_use *use, const kf_request *r, bool *done, kf_err *err) {
  struct kf_index_devices *own = use->index->devices;
  bool fault = false;
  kf_status status = KF_OK;
  pthread_mutex_lock(&own->lock);
  if (!use->failed && kf_device_rows_on(own->rows, use->devices)) {
    status = search_on(NULL, r, own->rows, list_rows(r->k), &fault, err);
    *done = status == KF_OK;
    if (status != KF_OK && fault) {
      forget_rows(own);
      use->failed = true;
      use->err = *err;
    }
  }
  pthread_mutex_unlock(&own->lock);
  return fault && !use->devices->asked ? KF_OK : status;
}

kf_status kf_nearest_in_pass(kf_nearest_use *use, const kf_request *request, kf_err *err) {
  kf_request r = *request;
  bool done = r.n == 0;
  r.index = use->index;
  r.kernels = use->kernels;
  if (!done && use->devices != NULL) KF_TRY(use_devices(use, &r, &done, err));
  return done ? KF_OK : kf_nearest_on_thread(&r, err);
}
