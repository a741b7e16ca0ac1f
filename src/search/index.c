/* index.c - builds an index: centres rows, rounds them to 8 bits with a scale for each block, packs
 * them in panels, and measures the rounding error row by row. */
#include "search/device_rows.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* f64 rounding changes a length or an error by far less than this factor. */
#define SLACK        (1 + 0x1p-20)
#define LARGEST_BYTE 127 /* the largest magnitude of bytes of rows */

float kf_round_up(double x) {
  float y = (float)(x * SLACK);
  return y < FLT_MAX ? nextafterf(y, INFINITY) : INFINITY;
}

double kf_rounding_share(const kf_index *index) { return (index->dim + 64) * 0x1p-51; }

/* --- one row to 8 bits ----------------------------------------------------------------------- */

double kf_row_scale(const kf_index *index, double norm2) {
  if (index->metric != KF_METRIC_COSINE) return 1;
  return norm2 > 0 ? 1 / sqrt(norm2) : 0;
}

double kf_centre_row(const kf_index *index, const float *x, double scale, double *y) {
  double largest = 0;
  for (uint32_t i = 0; i < index->dim; i++) y[i] = (double)x[i] * scale - index->centre[i];
  for (uint32_t i = 0; i < index->dim; i++) largest = fabs(y[i]) > largest ? fabs(y[i]) : largest;
  return largest;
}

float kf_scale_for(double largest, int most) {
  float scale =
      (float)(largest / most * (1 + 0x1p-22)); /* still large enough once rounded to f32 */
  return scale > FLT_MIN ? scale : 0;
}

void kf_round_row(float scale, double *y, uint32_t n, uint32_t padded, int8_t *bytes) {
  double inverse = scale > 0 ? 1 / (double)scale : 0;
  const double shift = 0x1.8p52; /* adding and subtracting it rounds to an integer */
  for (uint32_t i = 0; i < n; i++) {
    double b = (y[i] * inverse + shift) - shift;
    y[i] -= (double)scale * b;
    bytes[i] = (int8_t)b;
  }
  memset(bytes + n, 0, padded - n);
}

static void place(kf_index *index, uint64_t row, const int8_t *bytes) {
  uint8_t *to = index->packed + row / KF_PANEL * KF_PANEL * index->padded + row % KF_PANEL * 4;
  for (uint32_t i = 0; i < index->padded; i += 4, to += 4 * KF_PANEL)
    for (uint32_t j = 0; j < 4; j++) to[j] = (uint8_t)(bytes[i + j] + 128);
}

double kf_row_scale_at(const kf_index *index, uint64_t row) {
  return index->norm2 != NULL ? kf_row_scale(index, index->norm2[row]) : 1;
}

kf_measured kf_measure(const kf_index *index, const kf_kernels *kernels, double largest,
                       const double *y) {
  kf_measured m = {.largest = largest, .length2 = kernels->dot(index->dim, y, y)};
  m.h = index->metric == KF_METRIC_EUCLIDEAN ? m.length2 / 2
                                             : -kernels->dot(index->dim, index->centre, y);
  return m;
}

/* Packs a row (or its leading directions) and widens the bounds of its block. Overwrites `seen`. */
static void set_row(kf_index *index, const kf_kernels *kernels, uint64_t row, const kf_measured *m,
                    kf_row_block *block, double *seen, int8_t *bytes) {
  double seen2 = index->lead.n > 0 ? kernels->dot(index->seen, seen, seen) : m->length2;
  double length = sqrt(fmax(seen2, m->length2));
  bool fits = kf_fits_bytes(m) &&
              (block->scale == 0 || m->largest < (LARGEST_BYTE + 0.4) * (double)block->scale);
  if (fits) {
    kf_round_row(block->scale, seen, index->seen, index->padded, bytes);
    index->offset[row] = (float)m->h;
    block->length = fmaxf(block->length, kf_round_up(length));
    block->error = fmaxf(block->error, kf_round_up(sqrt(kernels->dot(index->seen, seen, seen))));
    block->offset = fmaxf(block->offset, fabsf(index->offset[row]));
  } else {
    memset(bytes, 0, index->padded);
    index->offset[row] = -INFINITY;
  }
  block->longest = fmaxf(block->longest, kf_round_up(length));
  place(index, row, bytes);
}

/* Rounds a whole row to 8 bits with a scale of its own; y becomes the rounding error. */
static void set_fine(kf_index *index, const kf_kernels *kernels, uint64_t row, double largest,
                     double *y) {
  float scale = kf_scale_for(largest < KF_LONGEST ? largest : 0, LARGEST_BYTE);
  if (!(largest < KF_LONGEST)) memset(y, 0, index->dim * sizeof *y); /* always survives */
  uint8_t *to = index->fine + row * index->fine_dim;
  kf_round_row(scale, y, index->dim, index->fine_dim, (int8_t *)to);
  for (uint32_t i = 0; i < index->fine_dim; i++) to[i] ^= 128; /* + 128 */
  index->fine_scale[row] = scale;
  index->fine_error[row] = kf_round_up(sqrt(kernels->dot(index->dim, y, y)));
}

/* A place after the last row: no hit, unless every place is. */
static void fill_row(kf_index *index, uint64_t row, int8_t *bytes) {
  memset(bytes, 0, index->padded);
  place(index, row, bytes);
  index->offset[row] = INFINITY;
}

/* --- queries and bounds ---------------------------------------------------------------------- */

double kf_query_share(const kf_index *index, double norm2) {
  double share = (index->dim + 64) * 0x1p-54; /* (D/2 + 32) u, which is generous */
  return index->metric == KF_METRIC_INNER ? share * (sqrt(norm2) * SLACK) : share;
}

kf_query kf_query_start(const kf_index *index, const kf_kernels *kernels, const float *x,
                        double *workspace) {
  double *p = workspace, *other = workspace + index->dim;
  kf_query q = {.norm2 = kernels->norm2(x, index->dim)};
  double scale = kf_row_scale(index, q.norm2);
  q.largest = kf_centre_row(index, x, scale, p);
  double length2 = kernels->dot(index->dim, p, p);
  q.base = length2;
  q.length = sqrt(length2) * SLACK;
  if (index->metric != KF_METRIC_EUCLIDEAN) {
    for (uint32_t i = 0; i < index->dim; i++) other[i] = (double)x[i] * scale;
    q.base = kernels->dot(index->dim, other, index->centre);
    q.length += 2 * index->centre_length;
  }
  if (!(q.length < KF_LONGEST)) q.largest = INFINITY;
  q.share = kf_query_share(index, q.norm2);
  return q;
}

float kf_query_factor(const kf_index *index, const kf_kernels *kernels, double largest) {
  float factor = kf_scale_for(largest, kf_scan_most(kernels->scan, index->padded));
  return (double)factor < index->least_factor ? kf_round_up(index->least_factor) : factor;
}

/* The margin that a query's rounding error and the arithmetic contribute. */
static void set_bounds(const kf_index *index, const kf_query *query, double error,
                       double *by_length, double *fixed) {
  double gamma = kf_rounding_share(index);
  if (index->metric == KF_METRIC_EUCLIDEAN) {
    *by_length = error * SLACK + 4 * gamma * query->length;
    *fixed = 2 * gamma * query->length * query->length;
  } else {
    *by_length = error * SLACK + gamma * query->length;
    *fixed = gamma * query->length * index->centre_length;
  }
}

void kf_query_round(const kf_index *index, const kf_kernels *kernels, const float *x,
                    const float *seen, float factor, double *workspace, kf_query *query,
                    int8_t *bytes) {
  int most = kf_scan_most(kernels->scan, index->padded);
  double bytes2 = 0;
  /* The factor is 0 if all queries of a strip are too long; then the bytes are not used. */
  bool fits =
      factor > 0 ? query->largest < (most + 0.4) * (double)factor : query->largest < INFINITY;
  if (!fits) {
    memset(bytes, 0, index->padded);
    query->by_length = query->by_error = query->fixed = INFINITY;
    return;
  }
  if (seen == NULL) kf_centre_row(index, x, kf_row_scale(index, query->norm2), workspace);
  for (uint32_t i = 0; seen != NULL && i < index->seen; i++) workspace[i] = (double)seen[i];
  kf_round_row(factor, workspace, index->seen, index->padded, bytes);
  for (uint32_t i = 0; i < index->seen; i++) bytes2 += bytes[i] * bytes[i];
  double error = sqrt(kernels->dot(index->seen, workspace, workspace)) * SLACK;
  query->by_error = (double)factor * sqrt(bytes2) * (SLACK * SLACK);
  set_bounds(index, query, error, &query->by_length, &query->fixed);
  if (seen == NULL) return;
  bool euclidean = index->metric == KF_METRIC_EUCLIDEAN;
  double length =
      query->length - (euclidean ? 0 : 2 * index->centre_length); /* upper bound of |p| */
  double hidden = index->lead.share * (length * SLACK + 0x1p-40 * query->length + KF_LEAD_TINY);
  query->by_length += hidden;
  query->fixed += hidden * KF_LEAD_TINY;
}

void kf_query_round_fine(const kf_index *index, const kf_kernels *kernels, const float *x,
                         double *workspace, kf_query *query, int8_t *parts) {
  const kf_weights unknown = {INFINITY, INFINITY, INFINITY};
  double largest = kf_centre_row(index, x, kf_row_scale(index, query->norm2), workspace);
  int8_t *high = parts, *low = parts + index->fine_dim;
  memset(parts, 0, 2 * (size_t)index->fine_dim);
  query->fine_factor = 0;
  query->fine_start[0] = query->fine_start[1] = 0;
  query->fine[0] = query->fine[1] = unknown;
  if (!(largest < KF_LONGEST)) return;
  float factor = kf_scale_for(largest, KF_FINE_MOST);
  double inverse = factor > 0 ? 1 / (double)factor : 0, high2 = 0, whole2 = 0, low_error2 = 0;
  const double shift = 0x1.8p52;
  for (uint32_t i = 0; i < index->dim; i++) {
    double whole = (workspace[i] * inverse + shift) - shift;
    high[i] = kf_fine_high((int32_t)whole);
    low[i] = kf_fine_low((int32_t)whole);
    double error = workspace[i] - (double)factor * (128 * high[i]);
    workspace[i] -= (double)factor * whole;
    high2 += high[i] * high[i];
    whole2 += whole * whole;
    low_error2 += error * error;
    query->fine_start[0] += 128 * high[i];
    query->fine_start[1] += 128 * low[i];
  }
  double errors[] = {sqrt(low_error2), sqrt(kernels->dot(index->dim, workspace, workspace))};
  double lengths[] = {128 * sqrt(high2), sqrt(whole2)};
  for (int i = 0; i < 2; i++) {
    kf_weights *w = &query->fine[i];
    w->by_error = (double)factor * lengths[i] * (SLACK * SLACK);
    set_bounds(index, query, errors[i] * SLACK, &w->by_length, &w->fixed);
  }
  query->fine_factor = (double)factor;
}

double kf_key(const kf_index *index, const kf_query *query, double score) {
  return index->metric == KF_METRIC_EUCLIDEAN ? (query->base - score) / 2 : score - query->base;
}

double kf_key_error(const kf_index *index, const kf_query *query, uint64_t row, double score) {
  double gamma = kf_rounding_share(index), length = kf_row_length(index, query, row, score);
  if (index->metric != KF_METRIC_EUCLIDEAN)
    return gamma * query->length * (length + index->centre_length);
  return 2 * gamma * (query->length + length) * (query->length + length);
}

/* --- the centre ------------------------------------------------------------------------------ */

#define SAMPLE 1024u

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* The centre: the mean of a sample of rows, without outliers in length. Any centre gives the same
 * answers; a good one leaves small numbers to round. */
static kf_status find_centre(kf_index *index, const kf_kernels *kernels, kf_err *err) {
  uint32_t dim = index->dim;
  uint64_t n = index->n < SAMPLE ? index->n : SAMPLE;
  float *rows;
  double *length2, *sorted, *scale;
  kf_arena arena = {0};
  KF_TAKE(&arena, rows, n * dim);
  KF_TAKE(&arena, length2, n);
  KF_TAKE(&arena, sorted, n);
  KF_TAKE(&arena, scale, n);
  kf_status status = arena.failed ? kf_fail_memory(err) : KF_OK;
  for (uint64_t i = 0; status == KF_OK && i < n; i++) {
    uint64_t row = (uint64_t)((double)i / (double)n * (double)index->n);
    float *x = rows + i * dim;
    status = index->source.fetch(index->source.self, kernels, row, 1, x, err);
    if (status != KF_OK) break;
    double norm2 = kernels->norm2(x, dim);
    scale[i] = kf_row_scale(index, norm2);
    sorted[i] = length2[i] = index->metric == KF_METRIC_COSINE ? norm2 > 0 : norm2;
  }
  uint64_t used = 0;
  if (status == KF_OK) {
    qsort(sorted, n, sizeof *sorted, by_value);
    for (uint64_t i = 0; i < n; i++)
      if (length2[i] <= 16 * sorted[n / 2] && length2[i] < KF_LONGEST * KF_LONGEST) {
        used++;
        for (uint32_t j = 0; j < dim; j++) index->centre[j] += (double)rows[i * dim + j] * scale[i];
      }
    for (uint32_t j = 0; used > 0 && j < dim; j++) index->centre[j] /= (double)used;
    index->centre_length = sqrt(kernels->dot(dim, index->centre, index->centre)) * SLACK;
  }
  kf_arena_free(&arena);
  return status;
}

/* --- building -------------------------------------------------------------------------------- */

#define MANY_QUERIES 4096u        /* enough for leading directions to pay for finding them */
#define BLOCK_BYTES  (256u << 10) /* of packed rows: half of a small second-level cache */
#define MOST_ROWS    4096u

static uint32_t choose_block(const kf_index *index) {
  const uint32_t step = KF_PANELS_STEP * KF_PANEL;
  uint64_t rows = BLOCK_BYTES / (index->padded + index->fine_dim),
           all = (index->n + step - 1) / step * step;
  if (rows > MOST_ROWS) rows = MOST_ROWS;
  if (rows > all) rows = all;
  return rows < step ? step : (uint32_t)(rows / step * step);
}

static kf_status make_arrays(kf_index *index, kf_err *err) {
  uint64_t places = index->n_blocks * index->block_rows;
  kf_arena *arena = &index->arena;
  index->packed = kf_arena_take(arena, places, index->padded);
  KF_TAKE(arena, index->offset, places);
  KF_TAKE(arena, index->blocks, index->n_blocks);
  if (!index->in_place && index->source.dtype != KF_F32)
    KF_TAKE(arena, index->halves, index->n * index->dim);
  else if (!index->in_place && index->source.resident == NULL)
    KF_TAKE(arena, index->kept, index->n * index->dim);
  index->rows = index->kept != NULL ? index->kept : index->source.resident;
  if (index->metric == KF_METRIC_COSINE) KF_TAKE(arena, index->norm2, index->n);
  if (index->fine_dim > 0) {
    KF_TAKE(arena, index->fine, places * index->fine_dim);
    KF_TAKE(arena, index->fine_scale, places);
    KF_TAKE(arena, index->fine_error, places);
  }
  return arena->failed ? kf_fail_memory(err) : KF_OK;
}

/* The scale of a block: that of its largest number, except that a few rows far above the others are
 * set aside and always survive. largest: [n], gets sorted. */
static float block_scale(double *largest, uint64_t n) {
  qsort(largest, n, sizeof *largest, by_value);
  uint64_t last = n - 1, least = n - 1 - n / 64;
  while (last > least && largest[last] > 8 * largest[n / 2]) last--;
  return kf_scale_for(largest[last] < KF_LONGEST ? largest[last] : 0, LARGEST_BYTE);
}

typedef struct build_job {
  kf_ctx *ctx;
  kf_index *index;
} build_job;

typedef struct build_workspace {
  double *y;       /* [dim + KF_LEAD_TAIL] */
  double *largest; /* [n] */
  int8_t *bytes;   /* [padded] */
  /* with leading directions; otherwise NULL */
  kf_measured *row; /* [n] */
  float *seen;      /* [n][index->seen] */
  float *columns;   /* [dim][KF_LEAD_ROWS] */
  float *products;  /* [KF_LEAD_ROWS][lead.n] */
} build_workspace;

static kf_row_block start_block(double *largest, uint64_t n) {
  return (kf_row_block){.scale = block_scale(largest, n)};
}

/* Packs whole rows. */
static kf_row_block build_whole(kf_index *index, const kf_kernels *kernels, uint64_t first,
                                uint64_t n, const float *rows, const build_workspace *s) {
  uint64_t dim = index->dim;
  for (uint64_t i = 0; i < n; i++)
    s->largest[i] = kf_centre_row(index, rows + i * dim, kf_row_scale_at(index, first + i), s->y);
  kf_row_block block = start_block(s->largest, n);
  for (uint64_t i = 0; i < n; i++) {
    double scale = kf_row_scale_at(index, first + i);
    double largest = kf_centre_row(index, rows + i * dim, scale, s->y);
    kf_measured m = kf_measure(index, kernels, largest, s->y);
    set_row(index, kernels, first + i, &m, &block, s->y, s->bytes);
  }
  return block;
}

/* Projects up to KF_LEAD_ROWS rows, from row i of the block on, and rounds them whole. */
static void project_rows(kf_index *index, const kf_kernels *kernels, uint64_t first, uint64_t i,
                         uint32_t n, const float *rows, const build_workspace *s) {
  double length2[KF_LEAD_ROWS] = {0};
  for (uint32_t r = 0; r < n; r++) {
    double largest = kf_centre_row(index, rows + (i + r) * index->dim,
                                   kf_row_scale_at(index, first + i + r), s->y);
    s->row[i + r] = kf_measure(index, kernels, largest, s->y);
    length2[r] = s->row[i + r].length2;
    for (uint32_t j = 0; j < index->dim; j++) s->columns[j * KF_LEAD_ROWS + r] = (float)s->y[j];
    set_fine(index, kernels, first + i + r, largest, s->y);
  }
  float *seen = s->seen + i * index->seen;
  kf_lead_see(&index->lead, kernels, index->dim, s->columns, length2, n, s->products, seen);
  for (uint32_t r = 0; r < n; r++)
    s->row[i + r].largest = s->largest[i + r] =
        kf_lead_largest(&index->lead, seen + r * (uint64_t)index->seen);
}

/* Packs leading directions, and keeps whole rows in 8 bits for rescoring. */
static kf_row_block build_leading(kf_index *index, const kf_kernels *kernels, uint64_t first,
                                  uint64_t n, const float *rows, const build_workspace *s) {
  for (uint64_t i = 0; i < n; i += KF_LEAD_ROWS)
    project_rows(index, kernels, first, i, (uint32_t)(n - i < KF_LEAD_ROWS ? n - i : KF_LEAD_ROWS),
                 rows, s);
  kf_row_block block = start_block(s->largest, n);
  for (uint64_t i = 0; i < n; i++) {
    for (uint32_t j = 0; j < index->seen; j++) s->y[j] = (double)s->seen[i * index->seen + j];
    set_row(index, kernels, first + i, &s->row[i], &block, s->y, s->bytes);
  }
  return block;
}

/* Pads a block, and adds to its bounds what does not depend on a row. */
static void end_block(kf_index *index, uint64_t number, uint64_t n, kf_row_block block,
                      int8_t *bytes) {
  uint64_t first = number * index->block_rows;
  for (uint64_t i = n; i < index->block_rows; i++) fill_row(index, first + i, bytes);
  double length = index->metric == KF_METRIC_EUCLIDEAN ? (double)block.length : 0;
  block.fixed = kf_round_up(2 * kf_rounding_share(index) * length * length +
                            0x1p-23 * (double)block.offset + 0x1p-148); /* offsets are f32 */
  index->blocks[number] = block;
}

static uint64_t rows_of_block(const kf_index *index, uint64_t number) {
  uint64_t left = index->n - number * index->block_rows;
  return left < index->block_rows ? left : index->block_rows;
}

static kf_status make_workspace(const kf_index *index, uint64_t n, build_workspace *s,
                                kf_arena *arena, kf_err *err) {
  KF_TAKE(arena, s->y, index->dim + (uint64_t)KF_LEAD_TAIL);
  KF_TAKE(arena, s->largest, n);
  KF_TAKE(arena, s->bytes, index->padded);
  if (index->lead.n > 0) {
    KF_TAKE(arena, s->row, n);
    KF_TAKE(arena, s->seen, n * index->seen);
    KF_TAKE(arena, s->columns, index->dim * (uint64_t)KF_LEAD_ROWS);
    KF_TAKE(arena, s->products, index->lead.n * (uint64_t)KF_LEAD_ROWS);
  }
  return arena->failed ? kf_fail_memory(err) : KF_OK;
}

/* Reads n rows into the index or, if it keeps none, into the arena. */
static kf_status read_rows(const kf_index *index, const kf_kernels *kernels, uint64_t first,
                           uint64_t n, const float **rows, kf_arena *arena, kf_err *err) {
  float *to = NULL;
  if (index->source.resident != NULL) {
    *rows = index->rows + first * index->dim;
    return KF_OK;
  }
  if (index->kept != NULL)
    to = index->kept + first * index->dim;
  else if (KF_TAKE(arena, to, n * index->dim) == NULL)
    return kf_fail_memory(err);
  *rows = to;
  return index->source.fetch(index->source.self, kernels, first, n, to, err);
}

/* Keeps 16-bit copies and squared lengths, if the index has them. */
static void keep_rows(kf_index *index, const kf_kernels *kernels, uint64_t first, uint64_t n,
                      const float *rows) {
  if (index->halves != NULL)
    kf_encode_f32(kernels, kf_type_of(index->source.dtype), rows, n * index->dim,
                  index->halves + first * index->dim);
  for (uint64_t i = 0; index->norm2 != NULL && i < n; i++)
    index->norm2[first + i] = kernels->norm2(rows + i * index->dim, index->dim);
}

/* Reads the rows of a block and packs them. */
static kf_status build_block(void *argument, size_t i, size_t worker, kf_err *err) {
  const build_job *j = argument;
  kf_index *index = j->index;
  const kf_kernels *kernels = j->ctx->kernels;
  uint64_t first = (uint64_t)i * index->block_rows, n = rows_of_block(index, i);
  const float *rows = NULL;
  build_workspace s = {0};
  kf_arena arena = {0};
  kf_status status = make_workspace(index, n, &s, &arena, err);
  if (status == KF_OK) status = read_rows(index, kernels, first, n, &rows, &arena, err);
  if (status == KF_OK) keep_rows(index, kernels, first, n, rows);
  if (status == KF_OK) {
    kf_row_block block =
        (s.row != NULL ? build_leading : build_whole)(index, kernels, first, n, rows, &s);
    end_block(index, i, n, block, s.bytes);
  }
  kf_arena_free(&arena);
  if (status != KF_OK) return status;
  bool long_work = index->n * index->dim > (1u << 26);
  return kf_task_progress(j->ctx, worker, long_work ? "load" : NULL, first + n, index->n, err);
}

/* --- the index ------------------------------------------------------------------------------- */

/* The longest row, and as least_factor the median over blocks of the factor at which their offsets
 * reach 2^27. */
static kf_status sum_up_blocks(kf_index *index, kf_err *err) {
  double *factor = kf_alloc(index->n_blocks, sizeof *factor);
  if (factor == NULL) return kf_fail_memory(err);
  uint64_t n = 0;
  for (uint64_t i = 0; i < index->n_blocks; i++) {
    const kf_row_block *b = &index->blocks[i];
    index->longest = fmax(index->longest, (double)b->longest);
    if (b->scale > 0) factor[n++] = (double)b->offset / (double)b->scale * 0x1p-27;
  }
  qsort(factor, n, sizeof *factor, by_value);
  if (n > 0) index->least_factor = factor[n / 2];
  kf_free(factor);
  return KF_OK;
}

/* Finds the centre, leading directions if they pay, and the sizes that follow. */
static kf_status prepare(kf_ctx *ctx, kf_index *index) {
  const kf_source *source = &index->source;
  KF_TAKE_ZERO(&index->arena, index->centre, index->dim);
  if (index->arena.failed) return kf_fail_memory(&ctx->err);
  KF_TRY(find_centre(index, ctx->kernels, &ctx->err));
  if (source->lead > 0 || source->queries >= MANY_QUERIES)
    KF_TRY(kf_lead_find(ctx, index, source->lead));
  index->seen = index->lead.n > 0 ? index->lead.n + KF_LEAD_TAIL : index->dim;
  index->padded = kf_scan_dim(index->seen);
  index->fine_dim = index->lead.n > 0 ? (index->dim + KF_FINE - 1) / KF_FINE * KF_FINE : 0;
  index->block_rows = choose_block(index);
  index->n_blocks = (index->n + index->block_rows - 1) / index->block_rows;
  return make_arrays(index, &ctx->err);
}

kf_status kf_index_build(kf_ctx *ctx, const kf_source *source, kf_metric metric, bool in_place,
                         kf_index **out) {
  kf_index *index = kf_alloc_zero(1, sizeof *index);
  uint64_t values;
  if (index == NULL ||
      !kf_mul_u64(source->rows, 2 * (uint64_t)source->dim * sizeof(float), &values)) {
    kf_free(index);
    kf_free(source->owned);
    return kf_fail_memory(&ctx->err);
  }
  index->source = *source;
  index->metric = metric;
  index->n = source->rows;
  index->dim = source->dim;
  index->in_place = in_place;
  index->bound_scale = 1;
  index->devices = kf_index_devices_new();
  kf_status status = index->devices != NULL ? prepare(ctx, index) : kf_fail_memory(&ctx->err);
  build_job j = {.ctx = ctx, .index = index};
  if (status == KF_OK) status = kf_parallel(ctx, (size_t)index->n_blocks, build_block, &j);
  if (status == KF_OK) status = sum_up_blocks(index, &ctx->err);
  KF_HAND_OUT(status, out, index, kf_index_free);
}

void kf_index_free(kf_index *index) {
  if (index == NULL) return;
  kf_index_devices_free(index->devices);
  kf_arena_free(&index->arena);
  kf_free(index->source.owned);
  kf_free(index);
}

double kf_index_own_max_length(const kf_index *index) {
  return index->longest + index->centre_length;
}

void kf_index_raise_max_length(kf_index *index, double length) {
  index->farthest = fmax(index->farthest, length);
}

uint64_t kf_index_rows(const kf_index *index) { return index->n; }
uint32_t kf_index_dim(const kf_index *index) { return index->dim; }
kf_metric kf_index_metric(const kf_index *index) { return index->metric; }

void kf_index_copy(const kf_index *index, const kf_kernels *kernels, uint64_t first, uint64_t n,
                   float *rows) {
  uint64_t dim = index->dim;
  if (index->rows != NULL)
    memcpy(rows, index->rows + first * dim, n * dim * sizeof *rows);
  else
    kf_decode_f32(kernels, kf_type_of(index->source.dtype), index->halves + first * dim, n * dim,
                  rows);
}

uint64_t kf_index_bytes(const kf_index *index) {
  uint64_t places = index->n_blocks * index->block_rows;
  uint64_t bytes = places * (index->padded + sizeof(float)) + index->dim * sizeof(double) +
                   index->n_blocks * sizeof *index->blocks;
  if (index->norm2 != NULL) bytes += index->n * sizeof *index->norm2;
  if (index->fine_dim > 0) bytes += places * (index->fine_dim + 2 * sizeof(float));
  bytes += (uint64_t)index->dim * index->lead.n * sizeof(float);
  if (index->in_place || index->source.resident != NULL) return bytes;
  return bytes +
         index->n * index->dim * (index->halves != NULL ? sizeof *index->halves : sizeof(float));
}
