/* twin_search.c - the search of device_api.h in plain C, straight from its definition. */
#include "twin/twin.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST 1e15
#define SLACK   (1 + 0x1p-20)

/* --- sums ------------------------------------------------------------------------------------- */

static double add_lanes(const double lane[8]) {
  return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

static double dot_of(const float *x, const float *y, uint32_t dim) {
  double lane[8] = {0};
  for (uint32_t i = 0; i < dim; i++) lane[i % 8] += (double)x[i] * (double)y[i];
  return add_lanes(lane);
}

static double distance_of(const float *x, const float *y, uint32_t dim) {
  double lane[8] = {0};
  for (uint32_t i = 0; i < dim; i++) {
    double d = (double)x[i] - (double)y[i];
    lane[i % 8] += d * d;
  }
  return add_lanes(lane);
}

static float from_half(uint16_t h) {
  int exponent = h >> 10 & 31;
  double mantissa = h & 1023;
  double x = exponent > 0 ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24);
  return (float)(h >> 15 ? -x : x);
}

static float from_brain(uint16_t h) {
  uint32_t bits = (uint32_t)h << 16;
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* --- rows ------------------------------------------------------------------------------------- */

struct kf_dev_rows {
  kf_dev *dev;
  kf_dev_piece piece;
  kf_dev_space space;
  uint32_t tile_rows;
  uint64_t bytes_taken;
  int8_t *bytes;
  uint32_t *numbers;
  kf_dev_tile *tiles;
  void *values;
  double *norm2;
  float *row; /* [dim] workspace */
};

static uint32_t rows_of_a_tile(void) { return (uint32_t)kf_twin.tile_rows; }

uint64_t kf_twin_rows_bytes(const kf_dev_piece *piece) {
  uint64_t places = piece->n_tiles * rows_of_a_tile(), dim = piece->space->dim;
  uint64_t each = piece->values == KF_DEV_NO_VALUES ? 0 : piece->values == KF_DEV_F32 ? 4 : 2;
  return places * (piece->space->padded + 4) + piece->n_tiles * sizeof(kf_dev_tile) +
         piece->n * dim * each + (each > 0 ? piece->n * sizeof(double) : 0);
}

kf_dev_status kf_twin_rows_new(kf_dev *dev, const kf_dev_piece *piece, kf_dev_rows **out) {
  if (kf_twin_enter(dev) != KF_DEV_OK) return KF_DEV_LOST;
  uint64_t bytes = kf_twin_rows_bytes(piece), places = piece->n_tiles * rows_of_a_tile();
  if (!kf_twin_take(dev, bytes)) return KF_DEV_MEMORY;
  kf_dev_rows *r = calloc(1, sizeof *r);
  if (r == NULL) abort();
  r->dev = dev;
  r->piece = *piece;
  r->space = *piece->space;
  r->tile_rows = rows_of_a_tile();
  r->bytes_taken = bytes;
  r->bytes = malloc(places * r->space.padded);
  r->numbers = malloc(places * sizeof *r->numbers);
  r->tiles = malloc(piece->n_tiles * sizeof *r->tiles);
  r->row = malloc(r->space.dim * sizeof *r->row);
  if (piece->values != KF_DEV_NO_VALUES) {
    r->values = malloc(piece->n * r->space.dim * (piece->values == KF_DEV_F32 ? 4 : 2));
    r->norm2 = calloc(piece->n, sizeof *r->norm2);
    if (r->values == NULL || r->norm2 == NULL) abort();
  }
  if (r->bytes == NULL || r->numbers == NULL || r->tiles == NULL || r->row == NULL) abort();
  kf_twin_count(&kf_twin.pieces, 1);
  *out = r;
  return KF_DEV_OK;
}

void kf_twin_rows_free(kf_dev *dev, kf_dev_rows *r) {
  kf_twin_give(dev, r->bytes_taken);
  free(r->bytes);
  free(r->numbers);
  free(r->tiles);
  free(r->values);
  free(r->norm2);
  free(r->row);
  free(r);
}

kf_dev_status kf_twin_rows_put_tiles(kf_dev_rows *r, uint64_t first, uint64_t n,
                                     const int8_t *bytes, const uint32_t *numbers,
                                     const kf_dev_tile *tiles) {
  if (kf_twin_enter(r->dev) != KF_DEV_OK) return KF_DEV_LOST;
  if (first + n > r->piece.n_tiles) return kf_twin_fail(r->dev, KF_DEV_FAILED, "too many tiles");
  uint64_t at = first * r->tile_rows, places = n * r->tile_rows;
  memcpy(r->bytes + at * r->space.padded, bytes, places * r->space.padded);
  memcpy(r->numbers + at, numbers, places * sizeof *numbers);
  memcpy(r->tiles + first, tiles, n * sizeof *tiles);
  return KF_DEV_OK;
}

kf_dev_status kf_twin_rows_put_values(kf_dev_rows *r, uint64_t first, uint64_t n,
                                      const void *values, const double *norm2) {
  if (kf_twin_enter(r->dev) != KF_DEV_OK) return KF_DEV_LOST;
  if (r->values == NULL || first + n > r->piece.n)
    return kf_twin_fail(r->dev, KF_DEV_FAILED, "too many rows");
  uint64_t size = r->space.dim * (r->piece.values == KF_DEV_F32 ? 4u : 2u);
  memcpy((char *)r->values + first * size, values, n * size);
  if (norm2 != NULL) memcpy(r->norm2 + first, norm2, n * sizeof *norm2);
  return KF_DEV_OK;
}

static const float *row_at(const kf_dev_rows *r, uint32_t number) {
  uint64_t dim = r->space.dim;
  if (r->piece.values == KF_DEV_F32) return (const float *)r->values + number * dim;
  const uint16_t *half = (const uint16_t *)r->values + number * dim;
  bool brain = r->piece.values == KF_DEV_BF16;
  for (uint64_t i = 0; i < dim; i++) r->row[i] = brain ? from_brain(half[i]) : from_half(half[i]);
  return r->row;
}

/* --- queries ---------------------------------------------------------------------------------- */

typedef struct query {
  double norm2, base, length, least;
  double factor, by_length, by_error, fixed;
  int64_t leave_out;
  bool chosen;
} query;

typedef struct hit {
  uint32_t query, place;
} hit;

struct kf_dev_queries {
  kf_dev *dev;
  kf_dev_space space;
  double *centre;
  uint32_t most, best, n;
  uint64_t room, n_hits, bytes_taken;
  float *x;
  int8_t *bytes;
  query *query;
  kf_dev_scored *lists;
  hit *hits;
};

uint64_t kf_twin_queries_bytes(const kf_dev_space *space, uint32_t most, uint32_t best,
                               uint64_t hits) {
  return most * (space->dim * sizeof(float) + space->padded + sizeof(query) +
                 best * sizeof(kf_dev_scored)) +
         hits * sizeof(hit);
}

kf_dev_status kf_twin_queries_new(kf_dev *dev, const kf_dev_space *space, uint32_t most,
                                  uint32_t best, uint64_t hits, kf_dev_queries **out) {
  if (kf_twin_enter(dev) != KF_DEV_OK) return KF_DEV_LOST;
  uint64_t bytes = kf_twin_queries_bytes(space, most, best, hits);
  if (!kf_twin_take(dev, bytes)) return KF_DEV_MEMORY;
  kf_dev_queries *q = calloc(1, sizeof *q);
  if (q == NULL) abort();
  q->dev = dev;
  q->space = *space;
  q->most = most;
  q->best = best;
  q->room = kf_twin.hits > 0 && kf_twin.hits < hits ? kf_twin.hits : hits;
  q->bytes_taken = bytes;
  q->centre = malloc(space->dim * sizeof *q->centre);
  q->x = malloc((uint64_t)most * space->dim * sizeof *q->x);
  q->bytes = malloc((uint64_t)most * space->padded);
  q->query = calloc(most, sizeof *q->query);
  q->lists = calloc((uint64_t)most * best, sizeof *q->lists);
  q->hits = malloc((q->room + 1) * sizeof *q->hits);
  if (!q->centre || !q->x || !q->bytes || !q->query || !q->lists || !q->hits) abort();
  memcpy(q->centre, space->centre, space->dim * sizeof *q->centre);
  *out = q;
  return KF_DEV_OK;
}

void kf_twin_queries_free(kf_dev *dev, kf_dev_queries *q) {
  kf_twin_give(dev, q->bytes_taken);
  free(q->centre);
  free(q->x);
  free(q->bytes);
  free(q->query);
  free(q->lists);
  free(q->hits);
  free(q);
}

static float round_up(double x) {
  float y = (float)(x * SLACK);
  return y < FLT_MAX ? nextafterf(y, INFINITY) : INFINITY;
}

/* Gives a query bounds for which every row may be near. */
static void take_all_rows(query *to) {
  to->factor = 0;
  to->by_length = to->by_error = to->fixed = INFINITY;
}

/* Rounds y [dim] to bytes up to 127, and sets the bounds: kf_query_factor, kf_query_round. */
static void round_query(const kf_dev_queries *q, query *to, double largest, double *y,
                        int8_t *bytes) {
  const kf_dev_space *s = &q->space;
  float factor = (float)(largest / 127 * (1 + 0x1p-22));
  if (!(factor > FLT_MIN)) factor = 0;
  if ((double)factor < s->least_factor) factor = round_up(s->least_factor);
  if (factor > 0 && !(largest < 127.4 * (double)factor)) {
    take_all_rows(to);
    return;
  }
  double inverse = factor > 0 ? 1 / (double)factor : 0, error2 = 0, bytes2 = 0;
  for (uint32_t i = 0; i < s->dim; i++) {
    double b = rint(y[i] * inverse), e = y[i] - (double)factor * b;
    bytes[i] = (int8_t)b;
    error2 += e * e;
    bytes2 += b * b;
  }
  double error = sqrt(error2) * SLACK, gamma = s->rounding_share;
  to->factor = (double)factor;
  to->by_error = (double)factor * sqrt(bytes2) * (SLACK * SLACK);
  if (s->metric == KF_DEV_EUCLIDEAN) {
    to->by_length = error * SLACK + 4 * gamma * to->length;
    to->fixed = 2 * gamma * to->length * to->length;
  } else {
    to->by_length = error * SLACK + gamma * to->length;
    to->fixed = gamma * to->length * s->centre_length;
  }
}

static void start_query(const kf_dev_queries *q, uint32_t i, double *y) {
  const kf_dev_space *s = &q->space;
  const float *x = q->x + (uint64_t)i * s->dim;
  int8_t *bytes = q->bytes + (uint64_t)i * s->padded;
  query *to = &q->query[i];
  to->norm2 = dot_of(x, x, s->dim);
  double scale = s->metric != KF_DEV_COSINE ? 1 : to->norm2 > 0 ? 1 / sqrt(to->norm2) : 0;
  double largest = 0, length2 = 0, base = 0;
  for (uint32_t c = 0; c < s->dim; c++) {
    y[c] = (double)x[c] * scale - q->centre[c];
    largest = fmax(largest, fabs(y[c]));
    length2 += y[c] * y[c];
    base += (double)x[c] * scale * q->centre[c];
  }
  to->length = sqrt(length2) * SLACK;
  to->base = length2;
  if (s->metric != KF_DEV_EUCLIDEAN) {
    to->base = base;
    to->length += 2 * s->centre_length;
  }
  memset(bytes, 0, s->padded);
  if (to->length < LONGEST)
    round_query(q, to, largest, y, bytes);
  else
    take_all_rows(to);
}

kf_dev_status kf_twin_queries_put(kf_dev_queries *q, const float *x, uint32_t n,
                                  const int64_t *leave_out) {
  if (kf_twin_enter(q->dev) != KF_DEV_OK) return KF_DEV_LOST;
  if (n > q->most) return kf_twin_fail(q->dev, KF_DEV_FAILED, "too many queries");
  double *y = malloc(q->space.dim * sizeof *y);
  if (y == NULL) abort();
  q->n = n;
  memcpy(q->x, x, (uint64_t)n * q->space.dim * sizeof *x);
  for (uint32_t i = 0; i < n; i++) {
    start_query(q, i, y);
    q->query[i].least = -INFINITY;
    q->query[i].leave_out = leave_out != NULL ? leave_out[i] : -1;
    q->query[i].chosen = true;
    for (uint32_t t = 0; t < q->best; t++) q->lists[(uint64_t)i * q->best + t].row = -1;
  }
  free(y);
  return KF_DEV_OK;
}

/* --- the first pass --------------------------------------------------------------------------- */

/* The bounds of the key of the row at a place. */
static void bounds_of(const kf_dev_queries *q, uint32_t i, const kf_dev_rows *r, uint64_t place,
                      double *low, double *high) {
  const kf_dev_tile *tile = &r->tiles[place / r->tile_rows];
  const query *of = &q->query[i];
  const int8_t *a = q->bytes + (uint64_t)i * q->space.padded,
               *b = r->bytes + place * r->space.padded;
  int32_t dot = 0;
  for (uint32_t c = 0; c < r->space.padded; c++) dot += a[c] * b[c];
  double v = dot * of->factor * (double)tile->scale;
  double margin =
      r->space.bound_scale * (of->by_length * (double)tile->length +
                              of->by_error * (double)tile->error + of->fixed + (double)tile->fixed);
  *low = v - (double)tile->high - margin;
  *high = v - (double)tile->low + margin;
  if (!(tile->scale > 0) || !isfinite(*high) || !isfinite(*low)) {
    *low = -INFINITY;
    *high = INFINITY;
  }
}

static int falling(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x < y) - (x > y);
}

/* Samples every other tile, so that guesses are sometimes wrong. */
kf_dev_status kf_twin_guess(kf_dev_queries *q, const kf_dev_rows *r, uint32_t count, int proven) {
  if (kf_twin_enter(q->dev) != KF_DEV_OK) return KF_DEV_LOST;
  uint64_t places = r->piece.n_tiles * r->tile_rows;
  double *keys = malloc((places + 1) * sizeof *keys);
  if (keys == NULL) abort();
  for (uint32_t i = 0; i < q->n; i++) {
    uint64_t n = 0, wanted = proven ? count : (count + 1) / 2;
    if (!q->query[i].chosen) continue;
    for (uint64_t place = 0; place < places; place++) {
      double low, high;
      uint32_t number = r->numbers[place];
      if (place / r->tile_rows % 2 == 1 || number == UINT32_MAX) continue;
      if (r->piece.first + number == q->query[i].leave_out) continue;
      bounds_of(q, i, r, place, &low, &high);
      keys[n++] = proven ? low : (low + high) / 2;
    }
    qsort(keys, n, sizeof *keys, falling);
    double least = n >= wanted && !isnan(keys[wanted - 1]) ? keys[wanted - 1] : -INFINITY;
    if (!proven && kf_twin.guess == 1) least = least + fabs(least) + 1;
    if (kf_twin.guess == 2) least = -INFINITY;
    if (!proven || least > q->query[i].least) q->query[i].least = least;
  }
  free(keys);
  return KF_DEV_OK;
}

/* Survivors come out by query. */
kf_dev_status kf_twin_scan(kf_dev_queries *q, const kf_dev_rows *r, uint64_t *hits) {
  if (kf_twin_enter(q->dev) != KF_DEV_OK) return KF_DEV_LOST;
  uint64_t places = r->piece.n_tiles * r->tile_rows, n = 0;
  for (uint32_t i = 0; i < q->n; i++)
    for (uint64_t place = 0; place < places && q->query[i].chosen; place++) {
      double low, high;
      uint32_t number = r->numbers[place];
      if (number == UINT32_MAX || r->piece.first + number == q->query[i].leave_out) continue;
      bounds_of(q, i, r, place, &low, &high);
      if (high < q->query[i].least) continue;
      if (n < q->room) q->hits[n] = (hit){i, (uint32_t)place};
      n++;
    }
  *hits = n;
  q->n_hits = n <= q->room ? n : 0;
  kf_twin_count(&kf_twin.scans, 1);
  if (n <= q->room) return KF_DEV_OK;
  kf_twin_count(&kf_twin.more, 1);
  return kf_twin_fail(q->dev, KF_DEV_MORE, "there is no room for all survivors");
}

/* --- scores ----------------------------------------------------------------------------------- */

static double score_of(const kf_dev_queries *q, uint32_t i, const kf_dev_rows *r, uint32_t number) {
  const float *x = q->x + (uint64_t)i * q->space.dim, *y = row_at(r, number);
  if (q->space.metric == KF_DEV_EUCLIDEAN) return distance_of(x, y, q->space.dim);
  double dot = dot_of(x, y, q->space.dim);
  if (q->space.metric == KF_DEV_INNER) return -dot;
  double lengths2 = q->query[i].norm2 * r->norm2[number];
  return -(lengths2 > 0 ? dot / sqrt(lengths2) : 0);
}

static void note(kf_dev_scored *list, uint32_t best, kf_dev_scored x) {
  uint32_t at = best;
  while (at > 0 && (list[at - 1].row < 0 || list[at - 1].score > x.score ||
                    (list[at - 1].score == x.score && list[at - 1].row > x.row)))
    at--;
  if (at == best) return;
  memmove(list + at + 1, list + at, (best - at - 1) * sizeof *list);
  list[at] = x;
}

/* The key of a score minus its rounding error. */
static double proven_key(const kf_dev_queries *q, uint32_t i, double score, double slack) {
  const kf_dev_space *s = &q->space;
  const query *of = &q->query[i];
  if (s->metric != KF_DEV_EUCLIDEAN)
    return -score - of->base -
           slack * s->rounding_share * of->length * (s->longest + s->centre_length);
  double reach = 2 * of->length + 2 * sqrt(score);
  return (of->base - score) / 2 - slack * 2 * s->rounding_share * reach * reach;
}

/* Survivors are scored as in cuda/score.cu, in batches of these. */
#define BATCH 48u

typedef struct survivor {
  uint32_t place;
  double upper; /* its key is not above this */
} survivor;

/* Scores the survivors whose upper bound is at least `from`. The bound of a scored survivor becomes
 * NaN, so no row is scored twice. */
static void take_rows(kf_dev_queries *q, uint32_t i, const kf_dev_rows *r, survivor *some,
                      uint32_t n, double from) {
  for (uint32_t h = 0; h < n; h++) {
    if (!(some[h].upper >= from)) continue;
    uint32_t number = r->numbers[some[h].place];
    note(q->lists + (uint64_t)i * q->best, q->best,
         (kf_dev_scored){score_of(q, i, r, number), r->piece.first + number});
    some[h].upper = NAN;
  }
}

/* A bound that at least `wanted` of n survivors reach, but not many more; minus infinity: all reach
 * it. */
static double cut(const survivor *some, uint32_t n, uint32_t wanted) {
  double uppers[BATCH];
  if (n <= wanted + wanted / 2 + 8) return -INFINITY;
  for (uint32_t h = 0; h < n; h++) uppers[h] = some[h].upper;
  qsort(uppers, n, sizeof *uppers, falling);
  return uppers[wanted - 1];
}

/* The key of the last of a query's best rows; minus infinity if the list is not full. */
static double bar_of(const kf_dev_queries *q, uint32_t i) {
  const kf_dev_scored *last = q->lists + (uint64_t)i * q->best + q->best - 1;
  return last->row < 0 ? -INFINITY : proven_key(q, i, last->score, 0);
}

static void score_batch(kf_dev_queries *q, uint32_t i, const kf_dev_rows *r, survivor *some,
                        uint32_t n) {
  const kf_dev_scored *list = q->lists + (uint64_t)i * q->best;
  uint32_t kept = 0;
  while (kept < q->best && list[kept].row >= 0) kept++;
  double likely = kept < q->best ? cut(some, n, q->best - kept) : -INFINITY;
  take_rows(q, i, r, some, n, fmax(likely, bar_of(q, i)));
  if (bar_of(q, i) < likely) take_rows(q, i, r, some, n, bar_of(q, i));
}

kf_dev_status kf_twin_score(kf_dev_queries *q, const kf_dev_rows *r) {
  if (kf_twin_enter(q->dev) != KF_DEV_OK) return KF_DEV_LOST;
  if (r->values == NULL) return kf_twin_fail(q->dev, KF_DEV_FAILED, "there are no values");
  survivor batch[BATCH];
  uint32_t n = 0;
  for (uint64_t h = 0; h < q->n_hits; h++) {
    double low;
    uint32_t i = q->hits[h].query;
    batch[n].place = q->hits[h].place;
    bounds_of(q, i, r, q->hits[h].place, &low, &batch[n++].upper);
    if (n < BATCH && h + 1 < q->n_hits && q->hits[h + 1].query == i) continue;
    score_batch(q, i, r, batch, n);
    n = 0;
  }
  kf_twin_count(&kf_twin.scored, q->n_hits);
  return KF_DEV_OK;
}

kf_dev_status kf_twin_survivors(kf_dev_queries *q, const kf_dev_rows *r, uint32_t *whose,
                                int64_t *row, uint64_t *n) {
  if (kf_twin_enter(q->dev) != KF_DEV_OK) return KF_DEV_LOST;
  for (uint64_t h = 0; h < q->n_hits; h++) {
    whose[h] = q->hits[h].query;
    row[h] = r->piece.first + r->numbers[q->hits[h].place];
  }
  *n = q->n_hits;
  kf_twin_count(&kf_twin.survivors, q->n_hits);
  return KF_DEV_OK;
}

/* --- certificates ----------------------------------------------------------------------------- */

kf_dev_status kf_twin_settle(kf_dev_queries *q, uint32_t k, double slack, uint32_t *left) {
  if (kf_twin_enter(q->dev) != KF_DEV_OK) return KF_DEV_LOST;
  *left = 0;
  for (uint32_t i = 0; i < q->n; i++) {
    kf_dev_scored *list = q->lists + (uint64_t)i * q->best;
    if (!q->query[i].chosen) continue;
    double proven = list[k - 1].row < 0 ? -INFINITY : proven_key(q, i, list[k - 1].score, slack);
    q->query[i].chosen = list[k - 1].row < 0 || proven < q->query[i].least;
    if (!q->query[i].chosen) continue;
    q->query[i].least = proven;
    for (uint32_t t = 0; t < q->best; t++) list[t].row = -1;
    ++*left;
  }
  kf_twin_count(&kf_twin.repeats, *left);
  return KF_DEV_OK;
}

kf_dev_status kf_twin_choose(kf_dev_queries *q, const uint32_t *numbers, uint32_t n,
                             const double *least) {
  if (kf_twin_enter(q->dev) != KF_DEV_OK) return KF_DEV_LOST;
  bool all = n == UINT32_MAX;
  for (uint32_t i = 0; i < q->n; i++) q->query[i].chosen = all;
  for (uint32_t i = 0; i < (all ? q->n : n); i++) {
    query *of = &q->query[all ? i : numbers[i]];
    of->chosen = true;
    if (least != NULL) of->least = least[i];
  }
  return KF_DEV_OK;
}

kf_dev_status kf_twin_chosen(kf_dev_queries *q, uint32_t *numbers, double *least, uint32_t *n) {
  if (kf_twin_enter(q->dev) != KF_DEV_OK) return KF_DEV_LOST;
  *n = 0;
  for (uint32_t i = 0; i < q->n; i++) {
    if (!q->query[i].chosen) continue;
    if (numbers != NULL) numbers[*n] = i;
    if (least != NULL) least[*n] = q->query[i].least;
    ++*n;
  }
  return KF_DEV_OK;
}

kf_dev_status kf_twin_answers(kf_dev_queries *q, uint32_t first, uint32_t n, kf_dev_scored *best) {
  if (kf_twin_enter(q->dev) != KF_DEV_OK) return KF_DEV_LOST;
  if (first > q->n || n > q->n - first)
    return kf_twin_fail(q->dev, KF_DEV_FAILED, "answers of more queries than there are");
  memcpy(best, q->lists + (uint64_t)first * q->best, (uint64_t)n * q->best * sizeof *best);
  return KF_DEV_OK;
}
