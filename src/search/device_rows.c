/* device_rows.c - brings the rows of an index to devices, in tiles.
 *
 * A tile has one scale and one interval of h for all its rows, so its rows should be alike. Rows
 * are therefore sorted by the size of their largest number, in steps of an octave (a quarter of one
 * if there are many tiles), and within a step by h. So outliers share tiles with one another and
 * spoil no others. Rows too long for bytes come last, in tiles whose rows are always hits.
 *
 * A device holds, in order of preference: bytes and rows as given; bytes alone, and the host
 * scores; bytes, piece by piece. */
#include "search/device_rows.h"

#include <float.h>
#include <string.h>

#define CHUNK_BYTES  (32u << 20)           /* of tiles that are made and sent together */
#define WINDOW_BYTES ((uint64_t)512 << 20) /* of rows that are fetched and sorted together */
#define MANY_TILES   1024u
#define LEAST_PIECE  1024u /* rows */
#define FEW_QUERIES  16u
#define FEW_BEST     32u
#define FEW_HITS     4096u
#define ROWS_AT_ONCE 1024u

kf_status kf_lane_check(const kf_lane *lane, kf_dev_status status, const char *what,
                        kf_device_fault *fault, kf_err *err) {
  if (status == KF_DEV_OK) return KF_OK;
  fault->happened = true;
  return kf_device_fail(lane->device, status, what, err);
}

/* --- sorting ---------------------------------------------------------------------------------- */

typedef struct sort_key {
  uint64_t key;  /* orders by step, then by h */
  uint32_t row;  /* of the window */
  float largest; /* upper bound of the numbers of the row */
} sort_key;

#define TOO_LONG UINT64_MAX

/* The bits of h as an integer that rises with it. */
static uint32_t rising_bits(double h) {
  float x = (float)h;
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits >> 31 ? ~bits : bits | 1u << 31;
}

static uint64_t key_of(const kf_measured *m, bool fine) {
  int exponent;
  if (!kf_fits_bytes(m)) return TOO_LONG;
  double mantissa = frexp(m->largest, &exponent); /* from 0.5 up to 1 */
  uint64_t step = m->largest > 0 ? (uint64_t)(exponent + 1100) * 4 : 0;
  if (fine && m->largest > 0) step += (uint64_t)((mantissa - 0.5) * 8);
  return step << 32 | rising_bits(m->h);
}

/* A stable radix sort by key. The two arrays may swap. */
static void sort_keys(sort_key **keys_at, sort_key **other_at, uint64_t n) {
  for (unsigned shift = 0; shift < 64; shift += 8) {
    sort_key *keys = *keys_at, *other = *other_at;
    uint64_t count[257] = {0};
    for (uint64_t i = 0; i < n; i++) count[(keys[i].key >> shift & 255) + 1]++;
    bool same = false;
    for (unsigned b = 1; b <= 256; b++) same = same || count[b] == n;
    for (unsigned b = 1; b <= 256; b++) count[b] += count[b - 1];
    if (same) continue;
    for (uint64_t i = 0; i < n; i++) other[count[keys[i].key >> shift & 255]++] = keys[i];
    *keys_at = other;
    *other_at = keys;
  }
}

/* --- tiles ------------------------------------------------------------------------------------ */

/* Rows that are sorted together: a whole piece or, if rows must be fetched, a part of one. */
typedef struct window {
  kf_ctx *ctx;
  const kf_index *index;
  const kf_lane *lane;
  uint64_t first, n;    /* rows of the index */
  uint64_t piece_first; /* first row of its piece */
  float *fetched;       /* [n][dim]; NULL: the index has them */
  sort_key *keys;       /* [n] */
  uint64_t different;   /* keys: rows without copies */
  uint64_t *start;      /* [tiles + 1] the first key of each tile */
  uint64_t tiles;
  uint64_t breaks; /* early ends of tiles that the piece may still have */
  double *y;       /* [threads][dim] */
  float *x;        /* [threads][dim] */
  kf_tiles out;    /* tiles of the current chunk */
  uint64_t tile;   /* the first of them */
  bool fine;       /* steps of a quarter of an octave */
} window;

static const float *row_at(const window *w, uint64_t row, size_t worker) {
  const kf_index *index = w->index;
  if (w->fetched != NULL) return w->fetched + row * index->dim;
  if (index->rows != NULL) return index->rows + (w->first + row) * index->dim;
  float *x = w->x + worker * index->dim;
  kf_index_copy(index, w->ctx->kernels, w->first + row, 1, x);
  return x;
}

static kf_measured measure_at(const window *w, uint64_t row, size_t worker, double *y) {
  double scale = kf_row_scale_at(w->index, w->first + row);
  double largest = kf_centre_row(w->index, row_at(w, row, worker), scale, y);
  return kf_measure(w->index, w->ctx->kernels, largest, y);
}

static float step_down(double x) { return nextafterf((float)x, -INFINITY); }
static float step_up(double x) { return nextafterf((float)x, INFINITY); }

static kf_status measure_rows(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)err;
  const window *w = argument;
  uint64_t first = (uint64_t)i * ROWS_AT_ONCE;
  uint64_t end = first + ROWS_AT_ONCE < w->n ? first + ROWS_AT_ONCE : w->n;
  for (uint64_t row = first; row < end; row++) {
    if (kf_is_copy(&w->index->devices->copies, w->first + row)) continue;
    kf_measured m = measure_at(w, row, worker, w->y + worker * w->index->dim);
    w->keys[row] =
        (sort_key){.key = key_of(&m, w->fine), .row = (uint32_t)row, .largest = step_up(m.largest)};
  }
  return KF_OK;
}

/* Widens the bounds of a tile for another row. */
static void widen(kf_dev_tile *tile, const kf_measured *m, double error) {
  tile->length = fmaxf(tile->length, kf_round_up(sqrt(m->length2)));
  tile->error = fmaxf(tile->error, kf_round_up(error));
  tile->low = fminf(tile->low, step_down(m->h));
  tile->high = fmaxf(tile->high, step_up(m->h));
}

/* The part of the margin that does not depend on the query, as for a block of the index. */
static float fixed_part(const kf_index *index, const kf_dev_tile *tile) {
  double length = index->metric == KF_METRIC_EUCLIDEAN ? (double)tile->length : 0;
  double h = fmax(fabs((double)tile->low), fabs((double)tile->high));
  return kf_round_up(2 * kf_rounding_share(index) * length * length + 0x1p-23 * h + 0x1p-148);
}

/* Fills a tile with the rows of keys [from, from + n); the other places stay empty. */
static void make_tile(const window *w, uint64_t at, uint64_t from, uint64_t n, bool always,
                      size_t worker) {
  const kf_index *index = w->index;
  uint32_t rows = w->lane->device->api->tile_rows, padded = w->lane->space.padded;
  int8_t *bytes = w->out.bytes + at * rows * padded;
  uint32_t *numbers = w->out.numbers + at * rows;
  kf_dev_tile tile = {.scale = 1, .low = FLT_MAX, .high = -FLT_MAX};
  double largest = 0, *y = w->y + worker * index->dim;
  for (uint64_t i = 0; !always && i < n; i++)
    largest = fmax(largest, (double)w->keys[from + i].largest);
  float scale = kf_scale_for(largest, 127);
  if (scale > 0) tile.scale = scale;
  for (uint64_t i = 0; i < n && !always; i++, bytes += padded) {
    kf_measured m = measure_at(w, w->keys[from + i].row, worker, y);
    kf_round_row(scale, y, index->dim, padded, bytes);
    widen(&tile, &m, sqrt(w->ctx->kernels->dot(index->dim, y, y)));
  }
  uint64_t empty = rows - (always ? 0 : n);
  memset(bytes, 0, empty * padded);
  for (uint64_t i = 0; i < rows; i++)
    numbers[i] = i < n ? (uint32_t)(w->first - w->piece_first) + w->keys[from + i].row : UINT32_MAX;
  if (always) tile = (kf_dev_tile){.length = INFINITY, .error = INFINITY};
  if (n == 0) tile.high = tile.low;
  tile.fixed = always || n == 0 ? 0 : fixed_part(index, &tile);
  w->out.tile[at] = tile;
}

/* How many tiles may end early because the next row is far larger. Few, since empty places are
 * scanned too. */
static uint64_t most_breaks(uint64_t tiles) { return tiles / 16 < 8 ? tiles / 16 : 8; }
static uint64_t tiles_for(const kf_lane *lane, uint64_t rows) {
  uint32_t each = lane->device->api->tile_rows;
  return (rows + each - 1) / each;
}

/* Divides sorted rows into tiles; rows that are too long have tiles of their own. */
static void divide(window *w) {
  uint64_t rows = w->lane->device->api->tile_rows, tile = 0;
  const sort_key *keys = w->keys;
  w->start[0] = 0;
  for (uint64_t i = 1; i < w->different; i++) {
    uint64_t first = keys[w->start[tile]].key;
    bool jump = keys[i].key == TOO_LONG ? first != TOO_LONG
                                        : w->breaks > 0 && keys[i].key >> 34 >= (first >> 34) + 2;
    if (!jump && i - w->start[tile] < rows) continue;
    if (jump && keys[i].key != TOO_LONG) w->breaks--;
    w->start[++tile] = i;
  }
  w->tiles = w->different > 0 ? tile + 1 : 0;
  w->start[w->tiles] = w->different;
}

static kf_status make_one(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)err;
  const window *w = argument;
  uint64_t from = w->start[w->tile + i], n = w->start[w->tile + i + 1] - from;
  make_tile(w, i, from, n, n > 0 && w->keys[from].key == TOO_LONG, worker);
  return KF_OK;
}

/* Keeps only the first of equal rows. */
static void leave_out_copies(window *w) {
  const kf_copies *copies = &w->index->devices->copies;
  w->different = 0;
  for (uint64_t row = 0; row < w->n; row++)
    if (!kf_is_copy(copies, w->first + row)) w->keys[w->different++] = w->keys[row];
}

/* Fetches rows, if need be, and sorts them. */
static kf_status sort_window(window *w, sort_key **other) {
  const kf_index *index = w->index;
  if (w->fetched != NULL)
    KF_TRY(index->source.fetch(index->source.self, w->ctx->kernels, w->first, w->n, w->fetched,
                               &w->ctx->err));
  KF_TRY(kf_parallel(w->ctx, (size_t)((w->n + ROWS_AT_ONCE - 1) / ROWS_AT_ONCE), measure_rows, w));
  leave_out_copies(w);
  sort_keys(&w->keys, other, w->different);
  divide(w);
  return KF_OK;
}

/* --- memory of the host ----------------------------------------------------------------------- */

/* Two chunks of tiles, page-locked if possible: one is made while the other is sent. */
typedef struct chunks {
  const kf_lane *lane;
  uint64_t tiles; /* in each */
  uint64_t size;  /* bytes of each */
  kf_tiles half[2];
  void *locked[2];
  kf_arena arena;
} chunks;

static void chunks_free(chunks *c) {
  const kf_device *d = c->lane->device;
  for (int i = 0; i < 2; i++)
    if (c->locked[i] != NULL) d->api->host_free(d->dev, c->locked[i]);
  kf_arena_free(&c->arena);
}

static bool chunks_take(chunks *c, const kf_lane *lane, uint64_t most) {
  uint64_t rows = lane->device->api->tile_rows, each = rows * lane->space.padded;
  const kf_device *d = lane->device;
  *c = (chunks){.lane = lane, .tiles = CHUNK_BYTES / each > 0 ? CHUNK_BYTES / each : 1};
  if (c->tiles > most) c->tiles = most;
  c->size = c->tiles * each;
  for (int i = 0; i < 2; i++) {
    c->locked[i] = d->api->host_alloc(d->dev, c->tiles * each);
    c->half[i].bytes = c->locked[i];
    if (c->locked[i] == NULL) KF_TAKE(&c->arena, c->half[i].bytes, c->tiles * each);
    KF_TAKE(&c->arena, c->half[i].numbers, c->tiles * rows);
    KF_TAKE(&c->arena, c->half[i].tile, c->tiles);
  }
  return !c->arena.failed;
}

/* --- a piece ---------------------------------------------------------------------------------- */

/* Making a piece, window by window: into its own memory, or on the device. */
typedef struct maker {
  kf_ctx *ctx;
  const kf_index *index;
  kf_lane *lane;
  kf_piece *piece;
  kf_device_fault *fault;
  uint64_t tile; /* the next one of the piece */
  window w;
  sort_key *other;
  chunks chunks;
} maker;

static uint64_t window_rows(const kf_index *index, uint64_t n) {
  uint64_t fit = WINDOW_BYTES / (index->dim * sizeof(float));
  if (index->devices->window > 0) fit = index->devices->window;
  return index->in_place && n > fit ? fit : n;
}

/* The tiles of n rows, `different` of them without copies, if none ends early. Each window may
 * leave its last tile, and its last tile of rows that are too long, not quite full. */
static uint64_t full_tiles(const kf_index *index, const kf_lane *lane, uint64_t n,
                           uint64_t different) {
  if (different == 0) return 1; /* an empty tile */
  uint64_t each = window_rows(index, n), windows = (n + each - 1) / each;
  return tiles_for(lane, different) + (windows > 1 ? 2 * windows : 1);
}
/* The same with room for tiles that end early. */
static uint64_t piece_tiles(const kf_index *index, const kf_lane *lane, uint64_t n,
                            uint64_t different) {
  uint64_t tiles = full_tiles(index, lane, n, different);
  return tiles + most_breaks(tiles);
}

/* Makes the tiles of a sorted window in the memory of the piece. */
static kf_status keep_tiles(maker *m, uint64_t n) {
  uint64_t rows = m->lane->device->api->tile_rows;
  kf_tiles *kept = &m->piece->kept;
  m->w.tile = 0;
  m->w.out = (kf_tiles){.bytes = kept->bytes + m->tile * rows * m->lane->space.padded,
                        .numbers = kept->numbers + m->tile * rows,
                        .tile = kept->tile + m->tile};
  m->tile += n;
  return kf_parallel(m->ctx, (size_t)n, make_one, &m->w);
}

/* Makes them chunk by chunk and sends them to the device. */
static kf_status send_tiles(maker *m, uint64_t n) {
  const kf_device_api *api = m->lane->device->api;
  kf_err *err = &m->ctx->err;
  unsigned turn = 0;
  for (uint64_t tile = 0, some; tile < n; tile += some, turn ^= 1) {
    some = n - tile < m->chunks.tiles ? n - tile : m->chunks.tiles;
    const kf_tiles *half = &m->chunks.half[turn];
    m->w.tile = tile;
    m->w.out = *half;
    KF_TRY(kf_parallel(m->ctx, (size_t)some, make_one, &m->w));
    /* After this the other half has been sent and can be reused. */
    KF_TRY_LANE(m->lane, api->wait(m->lane->device->dev), m->fault, err);
    KF_TRY_LANE(
        m->lane,
        api->rows_put_tiles(m->piece->rows, m->tile, some, half->bytes, half->numbers, half->tile),
        m->fault, err);
    m->tile += some;
  }
  KF_TRY_LANE(m->lane, api->wait(m->lane->device->dev), m->fault, err);
  return KF_OK;
}

#define COPIED ((size_t)1 << 20)

typedef struct copy_job {
  const char *from;
  char *to;
  uint64_t bytes;
} copy_job;

static kf_status copy_some(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)worker;
  (void)err;
  const copy_job *j = argument;
  uint64_t at = i * COPIED, left = j->bytes - at;
  memcpy(j->to + at, j->from + at, left < COPIED ? left : COPIED);
  return KF_OK;
}

/* Sends rows as given, through the same page-locked memory, which is faster. */
static kf_status send_values(maker *m) {
  const kf_index *index = m->index;
  const kf_device_api *api = m->lane->device->api;
  uint64_t dim = index->dim, at = m->w.first - m->w.piece_first, some;
  uint64_t size = dim * (index->halves != NULL ? sizeof *index->halves : sizeof(float));
  uint64_t chunk = m->chunks.size / size > 0 ? m->chunks.size / size : 1;
  unsigned turn = 0;
  for (uint64_t i = 0; i < m->w.n; i += some, turn ^= 1) {
    uint64_t row = m->w.first + i;
    some = m->w.n - i < chunk ? m->w.n - i : chunk;
    const char *values = m->w.fetched != NULL    ? (const char *)(m->w.fetched + i * dim)
                         : index->halves != NULL ? (const char *)(index->halves + row * dim)
                                                 : (const char *)(index->rows + row * dim);
    if (some * size <= m->chunks.size) {
      copy_job j = {values, (char *)m->chunks.half[turn].bytes, some * size};
      KF_TRY(kf_parallel(m->ctx, (size_t)((j.bytes + COPIED - 1) / COPIED), copy_some, &j));
      values = j.to;
    }
    KF_TRY_LANE(m->lane, api->wait(m->lane->device->dev), m->fault, &m->ctx->err);
    KF_TRY_LANE(m->lane,
                api->rows_put_values(m->piece->rows, at + i, some, values,
                                     index->norm2 != NULL ? index->norm2 + row : NULL),
                m->fault, &m->ctx->err);
  }
  return kf_lane_check(m->lane, api->wait(m->lane->device->dev), "search", m->fault, &m->ctx->err);
}

static kf_status make_windows(maker *m) {
  const kf_dev_piece *piece = &m->piece->is;
  uint64_t each = window_rows(m->index, piece->n);
  for (uint64_t at = 0; at < piece->n; at += each) {
    uint64_t n = piece->n - at < each ? piece->n - at : each;
    m->w.first = (uint64_t)piece->first + at;
    m->w.n = n;
    KF_TRY(sort_window(&m->w, &m->other));
    KF_TRY((m->lane->stays ? send_tiles : keep_tiles)(m, m->w.tiles));
    if (m->lane->scores) KF_TRY(send_values(m));
  }
  uint64_t empty = piece->n_tiles - m->tile; /* not needed */
  memset(m->w.start, 0, (empty + 1) * sizeof *m->w.start);
  return (m->lane->stays ? send_tiles : keep_tiles)(m, empty);
}

/* Too little host memory for the device counts as a fault of the device. */
static kf_status fail_host(maker *m) {
  m->fault->happened = true;
  return kf_fail_memory(&m->ctx->err);
}

static kf_status make_piece(kf_ctx *ctx, const kf_index *index, kf_lane *lane, kf_piece *piece,
                            kf_device_fault *fault) {
  uint64_t rows = window_rows(index, piece->is.n), tiles = piece->is.n_tiles;
  uint64_t tile_rows = lane->device->api->tile_rows, threads = ctx->threads;
  maker m = {.ctx = ctx, .index = index, .lane = lane, .piece = piece, .fault = fault};
  kf_arena arena = {0};
  m.w = (window){.ctx = ctx,
                 .index = index,
                 .lane = lane,
                 .piece_first = (uint64_t)piece->is.first,
                 .breaks = most_breaks(full_tiles(index, lane, piece->is.n, piece->different)),
                 .fine = tiles > MANY_TILES};
  KF_TAKE(&arena, m.w.keys, rows);
  KF_TAKE(&arena, m.other, rows);
  KF_TAKE(&arena, m.w.start, tiles + 1);
  KF_TAKE(&arena, m.w.y, threads * index->dim);
  KF_TAKE(&arena, m.w.x, threads * index->dim);
  if (index->in_place) KF_TAKE(&arena, m.w.fetched, rows * index->dim);
  if (!lane->stays) {
    piece->kept.n = piece->is.n_tiles;
    KF_TAKE(&lane->arena, piece->kept.bytes, piece->kept.n * tile_rows * lane->space.padded);
    KF_TAKE(&lane->arena, piece->kept.numbers, piece->kept.n * tile_rows);
    KF_TAKE(&lane->arena, piece->kept.tile, piece->kept.n);
  }
  m.chunks.lane = lane;
  bool there = !arena.failed && !lane->arena.failed;
  if (there && lane->stays) there = chunks_take(&m.chunks, lane, tiles);
  kf_status status = there ? make_windows(&m) : fail_host(&m);
  chunks_free(&m.chunks);
  kf_arena_free(&arena);
  return status;
}

kf_dev_status kf_piece_bring(const kf_lane *lane, kf_piece *piece) {
  const kf_device_api *api = lane->device->api;
  if (piece->rows != NULL) return KF_DEV_OK;
  kf_dev_status status = api->rows_new(lane->device->dev, &piece->is, &piece->rows);
  if (status != KF_DEV_OK) return status;
  return api->rows_put_tiles(piece->rows, 0, piece->kept.n, piece->kept.bytes, piece->kept.numbers,
                             piece->kept.tile);
}

void kf_piece_drop(const kf_lane *lane, kf_piece *piece) {
  if (piece->rows == NULL) return;
  lane->device->api->rows_free(lane->device->dev, piece->rows);
  piece->rows = NULL;
}

/* --- a lane ----------------------------------------------------------------------------------- */

static void lane_space(const kf_index *index, kf_lane *lane) {
  static const kf_dev_metric metrics[] = {[KF_METRIC_COSINE] = KF_DEV_COSINE,
                                          [KF_METRIC_INNER] = KF_DEV_INNER,
                                          [KF_METRIC_EUCLIDEAN] = KF_DEV_EUCLIDEAN};
  uint32_t pad = lane->device->api->pad;
  lane->space = (kf_dev_space){
      .metric = metrics[index->metric],
      .dim = index->dim,
      .padded = (index->dim + pad - 1) / pad * pad,
      .centre_length = index->centre_length,
      .longest = index->metric == KF_METRIC_COSINE ? 2 + index->centre_length : index->longest,
      .least_factor = index->least_factor,
      .bound_scale = index->bound_scale,
      .rounding_share = kf_rounding_share(index),
      .centre = index->centre};
}

/* Room for queries. */
static void drop_room(kf_lane *lane) {
  const kf_device *d = lane->device;
  kf_room *room = &lane->room;
  if (room->queries != NULL) d->api->queries_free(d->dev, room->queries);
  for (int i = 0; i < 2; i++)
    if (room->locked[i] != NULL) d->api->host_free(d->dev, room->locked[i]);
  kf_arena_free(&room->lists);
  *room = (kf_room){0};
}

void kf_lane_swap_rooms(kf_lane *lane) {
  kf_room other = lane->room;
  lane->room = lane->longer;
  lane->longer = other;
}

static void lane_clear(kf_lane *lane) {
  const kf_device *d = lane->device;
  if (kf_device_here(d)) {
    pthread_mutex_lock(&lane->device->lock);
    for (int i = 0; i < 2; i++) {
      drop_room(lane);
      kf_lane_swap_rooms(lane);
    }
    for (uint32_t i = 0; i < lane->n_pieces; i++) kf_piece_drop(lane, &lane->pieces[i]);
    pthread_mutex_unlock(&lane->device->lock);
  }
  kf_arena_free(&lane->room.lists);
  kf_arena_free(&lane->longer.lists);
  kf_arena_free(&lane->arena);
}

/* Divides the lane into pieces of `each` rows. */
static bool take_pieces(const kf_index *index, kf_lane *lane, uint64_t each) {
  bool brain = index->source.dtype == KF_BF16;
  kf_dev_type type = index->halves == NULL ? KF_DEV_F32 : brain ? KF_DEV_BF16 : KF_DEV_F16;
  lane->n_pieces = (uint32_t)((lane->n + each - 1) / each);
  KF_TAKE_ZERO(&lane->arena, lane->pieces, lane->n_pieces);
  for (uint32_t i = 0; i < lane->n_pieces && !lane->arena.failed; i++) {
    uint64_t at = i * each, n = lane->n - at < each ? lane->n - at : each;
    uint64_t different = n - kf_copies_in(&index->devices->copies, lane->first + at, n);
    lane->pieces[i].different = different;
    lane->pieces[i].is = (kf_dev_piece){.space = &lane->space,
                                        .first = (int64_t)(lane->first + at),
                                        .n = n,
                                        .n_tiles = piece_tiles(index, lane, n, different),
                                        .values = lane->scores ? type : KF_DEV_NO_VALUES};
  }
  return !lane->arena.failed;
}

/* Starts again with other pieces. */
static void forget_pieces(kf_lane *lane) {
  for (uint32_t i = 0; i < lane->n_pieces; i++) kf_piece_drop(lane, &lane->pieces[i]);
  lane->n_pieces = 0;
  kf_arena_free(&lane->arena);
}

/* All rows in one piece on the device. KF_DEV_MEMORY: they do not fit. */
static kf_dev_status place_whole(const kf_index *index, kf_lane *lane, bool values, uint64_t room) {
  const kf_device *d = lane->device;
  lane->scores = values;
  lane->stays = true;
  if (lane->n >= UINT32_MAX || !take_pieces(index, lane, lane->n)) return KF_DEV_MEMORY;
  if (d->api->rows_bytes(&lane->pieces[0].is) > room) return KF_DEV_MEMORY;
  return d->api->rows_new(d->dev, &lane->pieces[0].is, &lane->pieces[0].rows);
}

/* Pieces small enough for two to fit: one is copied while the other is scanned. */
static kf_dev_status place_pieces(const kf_index *index, kf_lane *lane, uint64_t room) {
  const kf_device *d = lane->device;
  lane->scores = lane->stays = false;
  uint64_t each = lane->n < UINT32_MAX ? (lane->n + 1) / 2 : (uint64_t)1 << 31;
  for (; each >= LEAST_PIECE; each = (each + 1) / 2) {
    forget_pieces(lane);
    if (!take_pieces(index, lane, each)) return KF_DEV_MEMORY;
    if (2 * d->api->rows_bytes(&lane->pieces[0].is) <= room) return KF_DEV_OK;
  }
  return KF_DEV_MEMORY;
}

static kf_status fill_lane(kf_ctx *ctx, const kf_index *index, kf_lane *lane,
                           kf_device_fault *fault) {
  const kf_device *d = lane->device;
  uint64_t left = 0;
  lane_space(index, lane);
  kf_dev_status status = d->api->memory_left(d->dev, &left);
  /* The rest is for queries: an eighth, or at least what FEW_QUERIES need. */
  uint64_t few = d->api->queries_bytes(&lane->space, FEW_QUERIES, FEW_BEST, FEW_HITS);
  uint64_t rest = left / 8 > few ? left / 8 : few, room = left > rest ? left - rest : 0;
  if (status == KF_DEV_OK) status = place_whole(index, lane, true, room);
  if (status == KF_DEV_MEMORY) {
    forget_pieces(lane);
    status = place_whole(index, lane, false, room);
  }
  if (status == KF_DEV_MEMORY) {
    forget_pieces(lane);
    status = place_pieces(index, lane, room);
    if (status == KF_DEV_MEMORY) {
      fault->happened = true;
      return kf_fail(&ctx->err, KF_ERR_MEM,
                     "%s (%s), search: %llu bytes of memory are too few to search with", d->name,
                     d->info.name, (unsigned long long)left);
    }
  }
  KF_TRY_LANE(lane, status, fault, &ctx->err);
  for (uint32_t i = 0; i < lane->n_pieces; i++)
    KF_TRY(make_piece(ctx, index, lane, &lane->pieces[i], fault));
  return KF_OK;
}

/* --- room for queries ------------------------------------------------------------------------- */

#define MOST_QUERIES 65536u
#define QUERIES_STEP 1024u
#define MANY_HITS    (1u << 20)

/* As much room as there is memory for, at most for `most` queries. */
static kf_dev_status take_room(kf_lane *lane, uint64_t most, uint32_t best) {
  const kf_device *d = lane->device;
  uint64_t few = most * (best > 64 ? 8 * (uint64_t)best : 512), hits = 4 * few, left = 0;
  if (hits < MANY_HITS) hits = MANY_HITS;
  kf_dev_status status = d->api->memory_left(d->dev, &left);
  if (status != KF_DEV_OK) return status;
  uint64_t pieces = lane->stays ? 0 : 2 * d->api->rows_bytes(&lane->pieces[0].is);
  left = left > pieces ? left - pieces : 0;
  while (hits > few && d->api->queries_bytes(&lane->space, (uint32_t)most, best, hits) > left / 4)
    hits /= 2;
  for (;;) {
    status = KF_DEV_MEMORY;
    if (d->api->queries_bytes(&lane->space, (uint32_t)most, best, hits) <= left)
      status = d->api->queries_new(d->dev, &lane->space, (uint32_t)most, best, hits,
                                   &lane->room.queries);
    if (status != KF_DEV_MEMORY) break;
    if (hits > most * 4 * best && hits > FEW_HITS)
      hits /= 2;
    else if (most > 1)
      most = (most + 1) / 2;
    else
      break;
  }
  if (status != KF_DEV_OK) return status;
  lane->room.most = (uint32_t)most;
  lane->room.best = best;
  lane->room.hits = hits;
  return KF_DEV_OK;
}

kf_status kf_lane_room(kf_lane *lane, uint64_t n, uint32_t best, bool given, kf_device_fault *fault,
                       kf_err *err) {
  const kf_device *d = lane->device;
  uint64_t most = (n + QUERIES_STEP - 1) / QUERIES_STEP * QUERIES_STEP;
  if (most > MOST_QUERIES) most = MOST_QUERIES;
  if (lane->room.queries == NULL || lane->room.asked < most || lane->room.best < best ||
      lane->room.best > 2 * best) {
    drop_room(lane);
    KF_TRY_LANE(lane, take_room(lane, most, best), fault, err);
    lane->room.asked = most;
    uint64_t lists = lane->room.most * (uint64_t)best;
    lane->room.answers = lane->room.locked[0] =
        d->api->host_alloc(d->dev, lists * sizeof *lane->room.answers);
    if (lane->room.answers == NULL) KF_TAKE(&lane->room.lists, lane->room.answers, lists);
  }
  if (given && lane->room.given == NULL)
    lane->room.given = lane->room.locked[1] = d->api->host_alloc(
        d->dev, lane->room.most * (uint64_t)lane->space.dim * sizeof *lane->room.given);
  if (!lane->room.lists.failed) return KF_OK;
  fault->happened = true;
  return kf_fail_memory(err);
}

/* --- all lanes -------------------------------------------------------------------------------- */

void kf_device_rows_free(kf_device_rows *rows) {
  if (rows == NULL) return;
  for (uint32_t i = 0; i < rows->n; i++) {
    lane_clear(&rows->lanes[i]);
    kf_device_release(rows->lanes[i].device);
  }
  kf_free(rows);
}

bool kf_device_rows_on(const kf_device_rows *rows, const kf_devices *devices) {
  if (rows == NULL || rows->n > devices->n) return false;
  for (uint32_t i = 0; i < rows->n; i++)
    if (rows->lanes[i].device != devices->device[i]) return false;
  return true;
}

/* Once for an index. */
static kf_status find_copies(kf_ctx *ctx, const kf_index *index, kf_device_fault *fault) {
  struct kf_index_devices *own = index->devices;
  if (own->looked) return KF_OK;
  kf_status status = kf_copies_find(ctx, index, &own->copies);
  fault->happened = status != KF_OK;
  own->looked = status == KF_OK;
  return status;
}

kf_status kf_device_rows_new(kf_ctx *ctx, const kf_index *index, const kf_devices *devices,
                             kf_device_fault *fault, kf_device_rows **out) {
  kf_device_rows *rows = kf_alloc_zero(1, sizeof *rows);
  if (rows == NULL) return kf_fail_memory(&ctx->err);
  kf_status status = find_copies(ctx, index, fault);
  uint64_t n = devices->n < index->n ? devices->n : index->n;
  for (uint64_t i = 0; status == KF_OK && i < n; i++) {
    kf_lane *lane = &rows->lanes[i];
    lane->device = kf_device_hold(devices->device[i]);
    lane->first = index->n / n * i + (i < index->n % n ? i : index->n % n);
    lane->n = index->n / n + (i < index->n % n);
    lane->different = lane->n - kf_copies_in(&index->devices->copies, lane->first, lane->n);
    rows->n++;
    pthread_mutex_lock(&lane->device->lock);
    status = fill_lane(ctx, index, lane, fault);
    pthread_mutex_unlock(&lane->device->lock);
  }
  KF_HAND_OUT(status, out, rows, kf_device_rows_free);
}

struct kf_index_devices *kf_index_devices_new(void) {
  struct kf_index_devices *d = kf_alloc_zero(1, sizeof *d);
  if (d == NULL) return NULL;
  pthread_mutex_init(&d->lock, NULL);
  kf_slots_owner_make(&d->map);
  return d;
}

void kf_index_devices_free(struct kf_index_devices *d) {
  if (d == NULL) return;
  kf_device_rows_free(d->rows);
  kf_copies_clear(&d->copies);
  kf_slots_owner_clear(&d->map);
  pthread_mutex_destroy(&d->lock);
  kf_free(d);
}
