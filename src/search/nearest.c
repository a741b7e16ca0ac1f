/* nearest.c - the k nearest rows of a batch of queries.
 *
 * A batch of queries, rounded to bytes, is multiplied with the packed rows block by block; a block
 * stays in the second-level cache while all queries pass over it. Scores do not leave the kernel:
 * it compares them with the floor of each query and returns only the rows that reach it, the
 * survivors. These go to the query's shortlist, which raises its floor. The first floor comes from
 * the best of the first rows. With many queries, the final floor of each is guessed from its first
 * rows (guess.h); a query whose guess was too high is searched again.
 *
 * Many queries are divided among threads; few queries are searched by all threads together, each in
 * its own slice of the rows, and the shortlists are merged. */
#include "search/nearest.h"
#include "search/guess.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_BATCH       384u        /* queries of a batch */
#define MAX_BATCH_BYTES (16u << 20) /* of the shortlists of a batch */
#define MIN_SPAN        64u         /* rows of a span; spans grow by half, up to a block */
#define MIN_QUERIES     8u          /* per thread; with fewer, rows are divided instead */

/* --- searchers ------------------------------------------------------------------------------- */

/* Which queries of a request are searched, and how. */
typedef struct search_plan {
  const uint64_t *numbers; /* [n] queries of the request; NULL: all, in order */
  uint64_t n;
  const kf_guesser *guesser; /* NULL: no floor is guessed */
  kf_guess_sample *samples;  /* [n] out: what a guesser learns from; NULL: not wanted */
  unsigned char *again;      /* [n] out: 1 where the guess was too high, so there is no answer */
} search_plan;

/* The workspace of a thread that searches batch after batch. */
typedef struct searcher {
  const kf_request *r;
  const kf_index *index;
  uint32_t k, capacity;
  const search_plan *plan;
  uint64_t first;         /* place in the plan of the first query of the current batch */
  float *queries;         /* [batch][dim] its queries */
  kf_query_strips strips; /* the same, rounded; the arrays below use their places */
  double *margin;         /* [batch] in the current block */
  double *predictors;     /* [batch][KF_GUESS_LOOKS] what guesses are made from; NaN: not known */
  kf_shortlist *lists;    /* [batch] */
  float *fetched;         /* [KF_SCORE_ROWS][dim] */
  int32_t *peaks;         /* [strip][KF_PEAKS] */
  double *lowest;         /* [strip][KF_PEAKS] */
  kf_pending *sorted;     /* [capacity] */
  uint64_t candidates;
  uint64_t guessed, wrong; /* queries with a guess, and those whose guess was too high */
  kf_arena arena;
} searcher;

/* Room for pending rows of a query: well above k, or the list would be scored again and again. */
static uint32_t capacity_for(uint32_t k) { return 2 * k + 256; }

/* Queries of a batch, of n in all. */
static uint32_t batch_for(uint32_t k, uint64_t n) {
  uint64_t each = capacity_for(k) * sizeof(kf_pending) +
                  k * (sizeof(double) + sizeof(kf_scored) + sizeof(kf_fine));
  uint64_t most = MAX_BATCH_BYTES / each;
  if (most > MAX_BATCH) most = MAX_BATCH;
  if (most > n) most = n;
  return most < 1 ? 1 : (uint32_t)most;
}

/* Makes a searcher from a zeroed one; after a failure it is zeroed again. */
static kf_status searcher_make(searcher *f, const kf_request *r, const search_plan *plan,
                               uint32_t batch, kf_err *err) {
  const kf_index *index = r->index;
  uint64_t strip = r->kernels->scan->strip, k = r->k, capacity = capacity_for(r->k);
  kf_arena *arena = &f->arena;
  kf_pending *pending;
  double *lower;
  kf_scored *scored;
  kf_fine *fine;
  f->r = r;
  f->plan = plan;
  f->index = index;
  f->k = r->k;
  f->capacity = capacity_for(r->k);
  kf_query_strips_make(&f->strips, index, r->kernels, batch, arena);
  KF_TAKE(arena, f->queries, batch * (uint64_t)index->dim);
  KF_TAKE(arena, f->margin, batch);
  KF_TAKE(arena, f->predictors, batch * (uint64_t)KF_GUESS_LOOKS);
  KF_TAKE(arena, f->lists, batch);
  KF_TAKE(arena, f->fetched, KF_SCORE_ROWS * (uint64_t)index->dim);
  KF_TAKE(arena, f->peaks, strip * KF_PEAKS);
  KF_TAKE(arena, f->lowest, strip * KF_PEAKS);
  KF_TAKE(arena, f->sorted, capacity);
  KF_TAKE(arena, pending, batch * capacity);
  KF_TAKE(arena, lower, batch * k);
  KF_TAKE(arena, scored, batch * k);
  KF_TAKE(arena, fine, batch * k);
  if (arena->failed) {
    kf_arena_free(arena);
    *f = (searcher){0};
    return kf_fail_memory(err);
  }
  for (uint32_t i = 0; i < batch; i++)
    f->lists[i] = (kf_shortlist){.pending = pending + i * capacity,
                                 .lower = lower + i * k,
                                 .scored = scored + i * k,
                                 .fine = fine + i * k};
  return KF_OK;
}

/* --- the first pass -------------------------------------------------------------------------- */

static uint64_t number_at(const search_plan *plan, uint64_t place) {
  return plan->numbers != NULL ? plan->numbers[place] : place;
}

/* Queries are read many times, so they are copied side by side, aligned to a cache line. */
static void take_queries(searcher *f, uint64_t first, uint32_t n) {
  uint64_t dim = f->index->dim;
  f->first = first;
  for (uint32_t i = 0; i < n; i++)
    memcpy(f->queries + i * dim, f->r->queries + number_at(f->plan, first + i) * dim,
           dim * sizeof *f->queries);
  kf_query_strips_take(&f->strips, f->queries, n, true);
  for (uint32_t i = 0; i < n; i++) kf_shortlist_start(&f->lists[i], f->k);
  for (uint32_t i = 0; i < n * KF_GUESS_LOOKS; i++) f->predictors[i] = NAN;
}

static uint64_t place_of(const searcher *f, uint32_t i) { return f->first + f->strips.order[i]; }
static uint64_t query_at(const searcher *f, uint32_t i) {
  return number_at(f->plan, place_of(f, i));
}

/* The row that query i leaves out; negative: none. */
static int64_t left_out(const searcher *f, uint32_t i) {
  return f->r->leave_out != NULL ? f->r->leave_out[query_at(f, i)] : -1;
}

static kf_scorer scorer_for(searcher *f, uint32_t i) {
  return (kf_scorer){.index = f->index,
                     .kernels = f->r->kernels,
                     .query = &f->strips.query[i],
                     .x = kf_strips_row(&f->strips, i),
                     .fetched = f->fetched,
                     .sorted = f->sorted};
}

static kf_status make_room(searcher *f, uint32_t i, kf_err *err) {
  kf_scorer scorer = scorer_for(f, i);
  KF_TRY(kf_shortlist_make_room(&f->lists[i], f->k, f->capacity, f->margin[i], &scorer, err));
  f->candidates += scorer.candidates;
  return KF_OK;
}

static inline bool takes_part(const searcher *f, uint32_t i, uint64_t row) {
  return row < f->index->n && (f->r->leave_out == NULL || left_out(f, i) != (int64_t)row) &&
         kf_filter_takes(f->r->only, row);
}

static inline kf_status take_hit(searcher *f, uint32_t i, uint64_t row, double value, double margin,
                                 kf_err *err) {
  kf_shortlist *list = &f->lists[i];
  double upper = value + margin, lower = value - margin;
  bool known = isfinite(upper); /* otherwise the row or query has no 8-bit form */
  if (list->n_pending == f->capacity) KF_TRY(make_room(f, i, err));
  kf_shortlist_offer(list, f->k, known ? upper : INFINITY, known ? lower : -INFINITY, row);
  return KF_OK;
}

/* Whole 8-bit rows and queries come from the second- or third-level cache. (Always inline, as
 * kf_row_prefetch.) */
#define PREFETCH_HITS 3 /* ahead */
static inline __attribute__((always_inline)) void prefetch_bytes(const void *x, uint64_t n) {
  for (uint64_t i = 0; i < n && i < 1024; i += 64) __builtin_prefetch((const char *)x + i);
}

/* Rescores a hit of the leading directions with its whole 8-bit row: first against the high halves
 * of the query's numbers, which rule out most rows, then against the low halves too. */
static kf_status take_fine(searcher *f, uint32_t i, uint64_t row, kf_err *err) {
  const kf_index *index = f->index;
  const kf_query *q = &f->strips.query[i];
  const kf_row_block *block = &index->blocks[row / index->block_rows];
  uint64_t dim = index->fine_dim;
  const int8_t *high = f->strips.fine + i * 2 * dim, *low = high + dim;
  const uint8_t *x = index->fine + row * dim;
  double offset = (double)index->offset[row];
  if (!(offset > -INFINITY)) return take_hit(f, i, row, INFINITY, 0, err); /* no 8-bit form */
  double one = q->fine_factor * (double)index->fine_scale[row];
  double dot = 128.0 * (f->r->kernels->byte_dot(high, x, dim) - q->fine_start[0]);
  double most = dot * one - offset + kf_fine_margin(index, &q->fine[0], block, row);
  if (kf_shortlist_is_out(&f->lists[i], most)) return KF_OK;
  dot += f->r->kernels->byte_dot(low, x, dim) - q->fine_start[1];
  return take_hit(f, i, row, dot * one - offset, kf_fine_margin(index, &q->fine[1], block, row),
                  err);
}

/* The hits of a strip, rescored. */
static kf_status take_all_fine(searcher *f, uint32_t first, uint64_t row, size_t n, kf_err *err) {
  const kf_index *index = f->index;
  uint64_t dim = index->fine_dim;
  for (const kf_hit *h = f->strips.hits, *end = h + n; h < end; h++) {
    uint32_t i = first + h->query;
    uint64_t at = row + h->row;
    if (end - h > PREFETCH_HITS) {
      prefetch_bytes(index->fine + (row + h[PREFETCH_HITS].row) * dim, dim);
      prefetch_bytes(f->strips.fine + (first + h[PREFETCH_HITS].query) * 2 * dim, dim);
    }
    if (takes_part(f, i, at)) KF_TRY(take_fine(f, i, at, err));
  }
  return KF_OK;
}

/* One strip of queries against rows of one block. While it runs, `next` is prefetched. */
static kf_status scan_strip(searcher *f, uint32_t strip, uint64_t row, uint64_t rows,
                            const uint8_t *next, size_t next_size, kf_err *err) {
  const kf_index *index = f->index;
  kf_query_strips *g = &f->strips;
  const kf_row_block *block = &index->blocks[row / index->block_rows];
  double value_of_one;
  kf_scan s = kf_query_strips_scan(g, strip, row, rows, &value_of_one);
  uint32_t first = kf_strip_first(g, strip);
  for (uint32_t i = first; i < first + s.n; i++) {
    f->margin[i] = kf_margin(index, &g->query[i], block);
    g->floor[i] =
        kf_floor(fmax(f->lists[i].least, f->lists[i].guess), f->margin[i], value_of_one, block);
  }
  s.next = next;
  s.next_size = next_size;
  size_t n_hits = g->scan->scan(&s);
  if (index->fine_dim > 0) return take_all_fine(f, first, row, n_hits, err);
  double factor = (double)g->factor[strip] * (double)block->scale;
  for (const kf_hit *h = g->hits; h < g->hits + n_hits; h++) {
    uint32_t i = first + h->query;
    uint64_t at = row + h->row;
    double value = (double)h->dot * factor - (double)index->offset[at];
    if (takes_part(f, i, at)) KF_TRY(take_hit(f, i, at, value, f->margin[i], err));
  }
  return KF_OK;
}

/* --- the first floor ------------------------------------------------------------------------- */

#define PEAK_ROWS   1024u
#define MAX_WRONG   16u /* wrong guesses that are tolerated, plus one in WRONG_SHARE */
#define WRONG_SHARE 8u

/* How many of `rows` rows the first floor is found from; 0: too few to pay, or k is too large. */
static uint64_t peak_rows(const searcher *f, uint64_t rows) {
  uint64_t some = rows / 8 / KF_PEAKS * KF_PEAKS;
  if (some == 0 || f->k > KF_PEAKS / 2) return 0;
  if (f->index->lead.n > 0) return 0; /* leading directions give no lower bound */
  if (f->r->only != NULL) return 0;   /* the best rows may not take part */
  return some < PEAK_ROWS ? some : PEAK_ROWS;
}

/* Raises lower[r] to the lower bound that peak r of query i in a block implies. A peak is off by
 * the rounding of its offset; one beyond the limit implies nothing. */
static void raise_lowers(const searcher *f, uint32_t i, const kf_row_block *block,
                         double value_of_one, const int32_t *peaks, double *lower) {
  double margin = kf_margin(f->index, &f->strips.query[i], block);
  double off = 0x1p-22 * (double)block->offset / value_of_one + 3;
  for (uint32_t r = 0; r < KF_PEAKS; r++) {
    double value = ((double)peaks[r] - off) * value_of_one;
    double least = value - 0x1p-40 * fabs(value) - margin;
    if (abs(peaks[r]) < KF_SCAN_LIMIT / 2 && least > lower[r]) lower[r] = least;
  }
}

/* Guesses the final floor of query i, unless too many guesses were wrong: searching a query twice
 * costs more than the hits that a guess saves. */
static void guess_floor(searcher *f, uint32_t i, uint32_t look, double predictor) {
  kf_shortlist *list = &f->lists[i];
  f->predictors[i * KF_GUESS_LOOKS + look] = predictor;
  if (f->plan->guesser == NULL || f->wrong > MAX_WRONG + f->guessed / WRONG_SHARE) return;
  double guess = kf_guess(f->plan->guesser, look, predictor);
  if (!(guess > list->guess)) return;
  f->guessed += list->guess == -INFINITY;
  list->guess = guess;
}

/* The rows, of n, after which guess number `look` is made; 0: never. The first comes with the
 * peaks. */
static uint64_t look_after(uint32_t look, uint64_t n) {
  uint64_t rows = (uint64_t)PEAK_ROWS << look;
  return look < KF_GUESS_LOOKS && rows <= n / 3 ? rows : 0;
}

/* Guesses the floors of all queries. */
static void guess_all(searcher *f, uint32_t look, bool last) {
  for (uint32_t i = 0; i < f->strips.n; i++) {
    guess_floor(f, i, look, kf_shortlist_mean(&f->lists[i], f->k));
    f->lists[i].last = last;
  }
}

/* Splits the rows from `begun` on by their number modulo KF_PEAKS. The best rows of different
 * remainders are different rows, so the k-th best of them is a valid floor. Without it nearly all
 * of the first rows would be hits. */
static void find_first_floor(searcher *f, uint32_t strip, uint64_t begun, uint64_t rows) {
  const kf_index *index = f->index;
  const kf_query_strips *g = &f->strips;
  uint32_t first = kf_strip_first(g, strip), n = 0;
  for (size_t i = 0; i < g->scan->strip * KF_PEAKS; i++) f->lowest[i] = -INFINITY;
  for (uint64_t row = begun, step; row < begun + rows; row += step) {
    step = index->block_rows - row % index->block_rows;
    if (step > begun + rows - row) step = begun + rows - row;
    double value_of_one;
    kf_scan s = kf_query_strips_scan(g, strip, row, step, &value_of_one);
    n = (uint32_t)s.n;
    if (!(value_of_one > 0)) continue;
    g->scan->peaks(&s, f->peaks);
    for (uint32_t i = 0; i < n; i++)
      raise_lowers(f, first + i, &index->blocks[row / index->block_rows], value_of_one,
                   f->peaks + i * KF_PEAKS, f->lowest + i * KF_PEAKS);
  }
  for (uint32_t i = 0; i < n; i++) {
    int64_t without = left_out(f, first + i);
    bool among = without >= (int64_t)begun && without < (int64_t)(begun + rows);
    if (among) f->lowest[i * KF_PEAKS + (uint64_t)without % KF_PEAKS] = -INFINITY;
    double predictor =
        kf_shortlist_expect(&f->lists[first + i], f->k, f->lowest + i * KF_PEAKS, KF_PEAKS);
    guess_floor(f, first + i, 0, predictor);
  }
}

/* --- span by span ---------------------------------------------------------------------------- */

/* The rows of the span that begins at `row`, when floors come from `seen` rows. Spans grow with
 * `seen`, because each raises the floors; they end where a block does. */
static uint64_t span_rows(const kf_index *index, uint64_t row, uint64_t seen) {
  uint64_t rows = index->block_rows - row % index->block_rows;
  uint64_t most = seen / 2 / MIN_SPAN * MIN_SPAN;
  if (most < MIN_SPAN) most = MIN_SPAN;
  return rows < most ? rows : most;
}

/* A sparse filter: looks at each row that takes part, without a pass over all. */
static kf_status take_few(searcher *f, uint64_t first, uint64_t last, kf_err *err) {
  const kf_filter *only = f->r->only;
  for (uint64_t at = 0; at < only->n; at++) {
    uint64_t row = only->rows[at];
    for (uint32_t i = 0; row >= first && row < last && i < f->strips.n; i++)
      if (takes_part(f, i, row)) KF_TRY(take_hit(f, i, row, INFINITY, 0, err));
  }
  return KF_OK;
}

/* Blocks [block, end), span by span. While a strip of queries passes over a span, its share of the
 * next span is prefetched, except with one or two strips, which already read at the speed of
 * memory. */
static kf_status scan_blocks(searcher *f, uint64_t block, uint64_t end, kf_err *err) {
  const kf_index *index = f->index;
  const kf_scan_kernel *scan = f->strips.scan;
  uint64_t begun = block * index->block_rows, last = end * index->block_rows, rows;
  uint32_t strips = f->strips.n_strips;
  uint64_t seen = peak_rows(f, last - begun);
  uint32_t look = 1;
  bool looks = f->plan->guesser != NULL || f->plan->samples != NULL;
  kf_status status = KF_OK;
  if (f->r->only != NULL && f->r->only->sparse) return take_few(f, begun, last, err);
  if (scan->begin != NULL) scan->begin(index->padded);
  for (uint32_t g = 0; seen > 0 && g < strips; g++) find_first_floor(f, g, begun, seen);
  for (uint64_t row = begun; status == KF_OK && row < last; row += rows) {
    if (seen < row - begun) seen = row - begun;
    rows = span_rows(index, row, seen);
    const uint8_t *next = index->packed + (row + rows) * index->padded;
    bool ask = strips > 2 && row + rows < last;
    size_t size = ask ? span_rows(index, row + rows, seen) * index->padded : 0;
    for (uint32_t g = 0; status == KF_OK && g < strips; g++) {
      size_t from = size * g / strips, to = size * (g + 1) / strips;
      status = scan_strip(f, g, row, rows, next + from, to - from, err);
    }
    uint64_t after = look_after(look, last - begun);
    if (looks && after > 0 && row + rows - begun >= after) {
      guess_all(f, look, look_after(look + 1, last - begun) == 0);
      look++;
    }
  }
  if (scan->end != NULL) scan->end();
  return status;
}

/* --- the answer ------------------------------------------------------------------------------ */

void kf_request_answer(const kf_request *r, uint64_t query, const kf_scored *scored) {
  for (uint32_t t = 0; r->scored != NULL && t < r->k; t++) {
    kf_scored *to = &r->scored[query * r->k + t];
    *to = scored[t];
    to->row += r->index->source.first;
  }
  if (r->scored != NULL) return;
  double value = -INFINITY; /* exact order may contradict rounded scores: those become equal */
  for (uint32_t t = 0; t < r->k; t++) {
    uint64_t at = query * r->k + t;
    if (!(scored[t].value < value)) value = scored[t].value;
    r->rows[at] = (int64_t)scored[t].row;
    if (r->scores != NULL)
      r->scores[at] = r->index->metric == KF_METRIC_EUCLIDEAN ? sqrt(value) : -value;
  }
}

/* Scores the pending rows of query i and writes its answer, unless its guess was above the floor
 * and may have ruled out rows of the answer. */
static kf_status answer_query(searcher *f, uint32_t i, kf_shortlist *next, kf_err *err) {
  const search_plan *plan = f->plan;
  kf_shortlist *list = &f->lists[i];
  kf_scorer scorer = scorer_for(f, i);
  KF_TRY(kf_shortlist_settle(list, f->k, next, &scorer, err));
  f->candidates += scorer.candidates;
  if (list->least < list->guess) {
    f->wrong++;
    plan->again[place_of(f, i)] = 1;
    return KF_OK;
  }
  if (plan->samples != NULL) {
    kf_guess_sample *sample = &plan->samples[place_of(f, i)];
    memcpy(sample->predictor, f->predictors + i * KF_GUESS_LOOKS, sizeof sample->predictor);
    sample->key = list->least;
  }
  kf_request_answer(f->r, query_at(f, i), list->scored);
  return KF_OK;
}

/* At most `batch` queries of the plan, from `first` on. */
static kf_status search_batch(searcher *f, uint64_t first, uint32_t batch, kf_err *err) {
  uint64_t left = f->plan->n - first;
  take_queries(f, first, left < batch ? (uint32_t)left : batch);
  KF_TRY(scan_blocks(f, 0, f->index->n_blocks, err));
  for (uint32_t i = 0; i < f->strips.n; i++) {
    bool last = i + 1 == f->strips.n;
    if (!last) kf_shortlist_sort(&f->lists[i + 1], f->sorted);
    KF_TRY(answer_query(f, i, last ? NULL : &f->lists[i + 1], err));
  }
  return KF_OK;
}

kf_status kf_nearest_on_thread(const kf_request *r, kf_err *err) {
  if (r->n == 0) return KF_OK;
  uint32_t batch = batch_for(r->k, r->n);
  search_plan plan = {.n = r->n};
  searcher f = {0};
  kf_status status = searcher_make(&f, r, &plan, batch, err);
  for (uint64_t first = 0; status == KF_OK && first < r->n; first += batch)
    status = search_batch(&f, first, batch, err);
  kf_request_count(r, f.candidates);
  kf_arena_free(&f.arena);
  return status;
}

/* --- many queries, divided among threads ----------------------------------------------------- */

typedef struct parallel_job {
  const kf_request *r;
  const search_plan *plan;
  uint32_t batch;
  uint64_t slices;     /* of the rows, if these are divided */
  searcher *searchers; /* one for each worker, or for each slice */
} parallel_job;

static kf_status batch_task(void *argument, size_t i, size_t worker, kf_err *err) {
  const parallel_job *j = argument;
  searcher *f = &j->searchers[worker];
  if (f->r == NULL) KF_TRY(searcher_make(f, j->r, j->plan, j->batch, err));
  return search_batch(f, (uint64_t)i * j->batch, j->batch, err);
}

/* --- few queries, rows divided among threads ------------------------------------------------- */

static kf_status slice_task(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)worker;
  const parallel_job *j = argument;
  KF_TRY(searcher_make(&j->searchers[i], j->r, j->plan, j->batch, err));
  take_queries(&j->searchers[i], 0, (uint32_t)j->plan->n);
  uint64_t blocks = j->r->index->n_blocks;
  return scan_blocks(&j->searchers[i], blocks * i / j->slices, blocks * (i + 1) / j->slices, err);
}

static kf_status merge_slices(const parallel_job *j, kf_err *err) {
  searcher *f = &j->searchers[0];
  for (uint32_t i = 0; i < j->plan->n; i++) {
    kf_scorer scorer = scorer_for(f, i);
    for (uint64_t s = 1; s < j->slices; s++)
      KF_TRY(kf_shortlist_merge(&f->lists[i], &j->searchers[s].lists[i], f->k, f->capacity,
                                f->margin[i], &scorer, err));
    f->candidates += scorer.candidates;
    KF_TRY(answer_query(f, i, NULL, err));
  }
  return KF_OK;
}

/* Batches of equal size, the same number for each thread, so that no thread waits long for the last
 * one; in whole strips if the batch is large. */
static uint32_t even_batch(uint64_t n, uint32_t most, unsigned threads, size_t strip) {
  uint64_t rounds = (n + (uint64_t)most * threads - 1) / ((uint64_t)most * threads);
  uint64_t batches = rounds * threads;
  uint64_t batch = batches < 2 ? n : (n + batches - 1) / batches;
  uint64_t whole = (batch + strip - 1) / strip * strip;
  if (batch > 4 * strip && whole <= most) batch = whole;
  return batch > 0 ? (uint32_t)batch : 1;
}

static kf_status search_planned(kf_ctx *ctx, const kf_request *r, const search_plan *plan) {
  uint64_t n = plan->n;
  const kf_index *index = r->index;
  parallel_job j = {.r = r, .plan = plan, .batch = batch_for(r->k, n), .slices = ctx->threads};
  bool few = n <= (uint64_t)MIN_QUERIES * ctx->threads && n <= j.batch && ctx->threads > 1 &&
             index->n_blocks >= ctx->threads;
  if (!few) j.batch = even_batch(n, j.batch, ctx->threads, r->kernels->scan->strip);
  j.searchers = kf_alloc_zero(ctx->threads, sizeof *j.searchers);
  if (j.searchers == NULL) return kf_fail_memory(&ctx->err);
  kf_status status = few ? kf_parallel(ctx, (size_t)j.slices, slice_task, &j)
                         : kf_parallel(ctx, (size_t)((n + j.batch - 1) / j.batch), batch_task, &j);
  if (status == KF_OK && few) status = merge_slices(&j, &ctx->err);
  for (unsigned i = 0; i < ctx->threads; i++) {
    kf_request_count(r, j.searchers[i].candidates);
    kf_arena_free(&j.searchers[i].arena);
  }
  kf_free(j.searchers);
  return status;
}

/* --- with guesses ----------------------------------------------------------------------------- */

/* Whether there are enough queries to learn from a sample, and enough rows for floors to keep
 * rising. */
static bool guesses_pay(const kf_request *r) {
  return r->n >= 8ull * KF_GUESS_SAMPLES && r->index->n >= 32ull * PEAK_ROWS &&
         r->k <= KF_PEAKS / 2 && r->index->lead.n == 0 && r->only == NULL;
}

/* Orders the queries: KF_GUESS_SAMPLES of them, spread over all, then the rest. */
static void divide_queries(uint64_t n, uint64_t *numbers) {
  uint64_t *sample = numbers, *rest = numbers + KF_GUESS_SAMPLES, taken = 0;
  for (uint64_t i = 0; i < n; i++) {
    bool take = taken < KF_GUESS_SAMPLES && i / (n / KF_GUESS_SAMPLES) == taken;
    if (take)
      sample[taken++] = i;
    else
      *rest++ = i;
  }
}

/* Searches a sample, then the rest with floors guessed from what the sample found, then once more
 * the queries whose guess was too high. */
static kf_status search_guessing(kf_ctx *ctx, const kf_request *r) {
  uint64_t *numbers, rest = r->n - KF_GUESS_SAMPLES, wrong = 0;
  unsigned char *again;
  kf_guess_sample *samples;
  kf_arena arena = {0};
  KF_TAKE(&arena, numbers, r->n);
  KF_TAKE_ZERO(&arena, again, rest);
  KF_TAKE(&arena, samples, KF_GUESS_SAMPLES);
  kf_status status = arena.failed ? kf_fail_memory(&ctx->err) : KF_OK;
  if (status == KF_OK) {
    divide_queries(r->n, numbers);
    search_plan plan = {.numbers = numbers, .n = KF_GUESS_SAMPLES, .samples = samples};
    status = search_planned(ctx, r, &plan);
  }
  if (status == KF_OK) {
    kf_guesser guesser = kf_guesser_of(samples, KF_GUESS_SAMPLES);
    search_plan plan = {
        .numbers = numbers + KF_GUESS_SAMPLES, .n = rest, .guesser = &guesser, .again = again};
    status = search_planned(ctx, r, &plan);
  }
  for (uint64_t i = 0; status == KF_OK && i < rest; i++)
    if (again[i] != 0) numbers[wrong++] = numbers[KF_GUESS_SAMPLES + i];
  if (wrong > 0) {
    search_plan plan = {.numbers = numbers, .n = wrong};
    status = search_planned(ctx, r, &plan);
  }
  kf_arena_free(&arena);
  return status;
}

kf_status kf_nearest_on_threads(kf_ctx *ctx, const kf_request *r) {
  if (guesses_pay(r)) return search_guessing(ctx, r);
  search_plan plan = {.n = r->n};
  return search_planned(ctx, r, &plan);
}

#define CHECK_TASK 256u /* queries */

static kf_status check_task(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)worker;
  const kf_request *r = argument;
  uint64_t first = (uint64_t)i * CHECK_TASK,
           last = first + CHECK_TASK < r->n ? first + CHECK_TASK : r->n;
  uint32_t dim = r->index->dim;
  bool direction = r->index->metric == KF_METRIC_COSINE;
  for (uint64_t q = first; q < last; q++)
    KF_TRY(
        kf_check_norm2("query", q, r->kernels->norm2(r->queries + q * dim, dim), direction, err));
  return KF_OK;
}

static kf_status check_queries(kf_ctx *ctx, const kf_request *r) {
  kf_request own = *r; /* tasks take no const */
  return kf_parallel(ctx, (size_t)((r->n + CHECK_TASK - 1) / CHECK_TASK), check_task, &own);
}

kf_status kf_nearest_on_rank(kf_ctx *ctx, const kf_request *r) {
  bool done = false;
  if (r->n == 0) return KF_OK;
  if (r->only == NULL) KF_TRY(kf_nearest_on_devices(ctx, r, &done)); /* devices know no filter */
  if (done) return KF_OK;
  if (r->check) KF_TRY(check_queries(ctx, r));
  return kf_nearest_on_threads(ctx, r);
}

/* --- several ranks --------------------------------------------------------------------------- */

/* Each rank has the whole index, and searches for its share of the queries. */
static kf_status share_queries(kf_ctx *ctx, const kf_request *all) {
  kf_range own = kf_share_of(&ctx->ranks, all->n, 1);
  kf_request r = *all;
  r.queries += own.first * r.index->dim;
  r.n = own.last - own.first;
  if (r.leave_out != NULL) r.leave_out += own.first;
  r.rows += own.first * r.k;
  if (r.scores != NULL) r.scores += own.first * r.k;
  kf_status status = kf_nearest_on_rank(ctx, &r);
  kf_share_ends(&ctx->ranks, all->n, 1);
  status = kf_join(ctx, status, all->rows, r.k * sizeof *all->rows);
  if (all->scores == NULL || status != KF_OK) return status;
  kf_share_ends(&ctx->ranks, all->n, 1);
  return kf_join(ctx, status, all->scores, r.k * sizeof *all->scores);
}

kf_status kf_nearest(kf_ctx *ctx, const kf_request *request) {
  uint64_t found = 0;
  kf_request r = *request;
  r.kernels = ctx->kernels;
  r.candidates = &found;
  if (r.check && kf_is_shared(&ctx->ranks)) { /* all ranks have the same queries, and fail alike */
    KF_TRY(check_queries(ctx, &r));
    r.check = false;
  }
  kf_status status = r.index->source.all > 0     ? kf_nearest_in_parts(ctx, &r)
                     : kf_is_shared(&ctx->ranks) ? share_queries(ctx, &r)
                                                 : kf_nearest_on_rank(ctx, &r);
  KF_TRY(kf_sum_u64(ctx, status, &found, 1));
  kf_request_count(request, found);
  return KF_OK;
}
