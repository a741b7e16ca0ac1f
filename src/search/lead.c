/* lead.c - the leading directions of rows.
 *
 * A first pass over n directions instead of D columns reads and multiplies less, if the rest of
 * rows and queries is short. With P [n][D] in f32, orthonormal but for e = |P P' - I|, the exact
 * projection of y to its rows has at least the length |P y| / sqrt(1 + e), and
 *
 *     p . y = (P p)' (P P')^-1 (P y) + (rest of p) . (rest of y)
 *
 * u = P y is computed in f32 with an error of d (|y| + TINY), d = 1.01 sqrt(n) (D + 8) 2^-24: a sum
 * of D products of rounded numbers, in each of n elements; TINY is far above what underflow can do.
 * With share = 3 d + 2 e, the rest of y is not longer than
 *
 *     t = sqrt(max(0, |y|^2 - |u|^2) + share (|y| + TINY)^2)
 *
 * and by Cauchy-Schwarz p . y is at most u_p . u_y + t_p t_y + share (|p| + TINY) (|y| + TINY).
 *
 * The directions are the first eigenvectors of a sample's covariance, mixed so that no element is
 * much larger than the others and 8 bits serve all equally well. Whether they pay is tried on the
 * sample: some of its rows act as queries, and the survivors among the others are counted. Any
 * directions give the same answers. */
#include "search/lead.h"
#include "search/index.h"

#include <math.h>
#include <string.h>

enum {
  SAMPLE = 2048,    /* rows */
  QUERIES = 64,     /* of them */
  STEP = 64,        /* directions are tried in multiples of this */
  MIN_ROWS = 32768, /* for the sample to be worth its time */
  MIN_DIM = 129,    /* likewise */
  MAX_DIM = 2048
};

static double error_of(uint32_t n, uint32_t dim) { return 1.01 * sqrt(n) * (dim + 8.0) * 0x1p-24; }

void kf_lead_see(const kf_lead *lead, const kf_kernels *kernels, uint32_t dim, const float *columns,
                 const double *length2, uint32_t rows, float *workspace, float *out) {
  uint32_t n = lead->n;
  memset(workspace, 0, (uint64_t)rows * n * sizeof *workspace);
  kernels->gemm_tn_f32(columns, KF_LEAD_ROWS, lead->basis, n, workspace, n, rows, n, dim);
  for (uint32_t r = 0; r < rows; r++) {
    const float *u = workspace + (uint64_t)r * n;
    float *to = out + r * ((uint64_t)n + KF_LEAD_TAIL);
    double u2 = kernels->norm2(u, n), length = sqrt(length2[r]) + KF_LEAD_TINY;
    double left2 = length2[r] > u2 ? length2[r] - u2 : 0;
    memcpy(to, u, n * sizeof *u);
    float rest = (float)(0.5 * sqrt(left2 + lead->share * length * length));
    for (uint32_t i = 0; i < KF_LEAD_TAIL; i++) to[n + i] = nextafterf(rest, INFINITY);
  }
}

double kf_lead_largest(const kf_lead *lead, const float *seen) {
  double largest = 0;
  for (uint32_t i = 0; i < lead->n + KF_LEAD_TAIL; i++)
    largest = fmax(largest, fabs((double)seen[i]));
  return largest;
}

/* --- a sample -------------------------------------------------------------------------------- */

typedef struct sample {
  uint32_t n;      /* rows */
  float *columns;  /* [dim][n] centred, of length 1 at most */
  float *offset;   /* [n] h of each, in the same units */
  float *turned;   /* [dim][n] in the basis of eigenvectors */
  double *vectors; /* [dim][dim] eigenvectors, the largest first */
} sample;

static kf_status take_sample(const kf_index *index, const kf_kernels *kernels, sample *s,
                             float *row, double *y, kf_err *err) {
  uint32_t dim = index->dim;
  double longest2 = 0;
  for (uint32_t i = 0; i < s->n; i++) { /* spread over all rows, in no particular order */
    uint64_t place = (uint64_t)i * 1031 % s->n;
    uint64_t number = (uint64_t)((double)place / s->n * (double)index->n);
    KF_TRY(index->source.fetch(index->source.self, kernels, number, 1, row, err));
    kf_centre_row(index, row, kf_row_scale(index, kernels->norm2(row, dim)), y);
    double length2 = kernels->dot(dim, y, y);
    s->offset[i] = index->metric == KF_METRIC_EUCLIDEAN
                       ? (float)(length2 / 2)
                       : (float)-kernels->dot(dim, index->centre, y);
    longest2 = fmax(longest2, length2);
    for (uint32_t j = 0; j < dim; j++) s->columns[(uint64_t)j * s->n + i] = (float)y[j];
  }
  double scale = longest2 > 0 ? 1 / sqrt(longest2) : 0;
  for (uint64_t i = 0; i < (uint64_t)dim * s->n; i++)
    s->columns[i] = (float)((double)s->columns[i] * scale);
  for (uint32_t i = 0; i < s->n; i++) s->offset[i] = (float)((double)s->offset[i] * scale * scale);
  return KF_OK;
}

/* The eigenvectors of the covariance; f32 is enough, since any directions will do. */
static kf_status find_vectors(kf_ctx *ctx, uint32_t dim, sample *s) {
  uint64_t size = (uint64_t)dim * dim;
  float *rows, *products;
  double *values, *a;
  kf_arena arena = {0};
  KF_TAKE(&arena, rows, (uint64_t)s->n * dim);
  KF_TAKE_ZERO(&arena, products, size);
  KF_TAKE(&arena, values, dim);
  KF_TAKE(&arena, a, size);
  kf_status status = arena.failed ? kf_fail_memory(&ctx->err) : KF_OK;
  if (status == KF_OK) {
    for (uint32_t j = 0; j < dim; j++)
      for (uint32_t i = 0; i < s->n; i++)
        rows[(uint64_t)i * dim + j] = s->columns[(uint64_t)j * s->n + i];
    ctx->kernels->gemm_tn_f32(rows, dim, rows, dim, products, dim, dim, dim, s->n);
    for (uint64_t i = 0; i < size; i++) a[i] = (double)products[i];
    status = kf_eigen(ctx, dim, a, values, s->vectors);
  }
  kf_arena_free(&arena);
  return status;
}

/* --- do they pay? ---------------------------------------------------------------------------- */

typedef struct trial {
  const sample *s;
  float *dots;  /* [QUERIES][n] over the directions so far */
  float *left2; /* [n] the rest of the squared length of each row */
  float *floor; /* [QUERIES] the key of the second neighbour */
} trial;

/* The share of rows that survive for query q, with the directions so far. */
static double share_left(const trial *t, uint32_t q) {
  uint32_t left = 0;
  for (uint32_t i = 0; i < t->s->n; i++) {
    float rest = t->left2[q] * t->left2[i];
    float bound = t->dots[q * t->s->n + i] - t->s->offset[i] - t->floor[q];
    left += bound >= 0 || bound * bound <= rest;
  }
  return (double)left / t->s->n;
}

static void find_floors(trial *t) {
  for (uint32_t q = 0; q < QUERIES; q++) {
    float best[2] = {-INFINITY, -INFINITY};
    for (uint32_t i = 0; i < t->s->n; i++) {
      float key = t->dots[q * t->s->n + i] - t->s->offset[i];
      if (i == q || !(key > best[1])) continue;
      best[1] = key > best[0] ? best[0] : key;
      if (key > best[0]) best[0] = key;
    }
    t->floor[q] = best[1];
  }
}

/* Adds directions [from, from + STEP) to the products. */
static void add_directions(const kf_kernels *kernels, const trial *t, uint32_t from, uint32_t n) {
  const float *x = t->s->turned + (uint64_t)from * t->s->n;
  kernels->gemm_tn_f32(x, t->s->n, x, t->s->n, t->dots, t->s->n, QUERIES, t->s->n, n);
  for (uint32_t j = 0; j < n; j++)
    for (uint32_t i = 0; i < t->s->n; i++) {
      float u = x[(uint64_t)j * t->s->n + i];
      t->left2[i] -= u * u;
      if (t->left2[i] < 0) t->left2[i] = 0;
    }
}

static void start_trial(const trial *t, uint32_t dim) {
  memset(t->dots, 0, QUERIES * (uint64_t)t->s->n * sizeof *t->dots);
  memset(t->left2, 0, t->s->n * sizeof *t->left2);
  for (uint32_t j = 0; j < dim; j++)
    for (uint32_t i = 0; i < t->s->n; i++) {
      float u = t->s->turned[(uint64_t)j * t->s->n + i];
      t->left2[i] += u * u;
    }
}

/* Finds floors from all directions, then starts again with none. */
static void prepare_trial(const kf_kernels *kernels, trial *t, uint32_t dim) {
  start_trial(t, dim);
  add_directions(kernels, t, 0, dim);
  find_floors(t);
  start_trial(t, dim);
}

/* The number of directions with the least work for a row and a query; 0: whole rows are about as
 * good. Rescoring a survivor costs about as much as scanning `row` + 4 D columns, and there are
 * `more` times as many survivors as here, since floors start low. */
static uint32_t choose(const kf_kernels *kernels, trial *t, uint32_t dim) {
  const double more = 2, row = 2048;
  double least = 0.6 * dim;
  uint32_t best = 0;
  prepare_trial(kernels, t, dim);
  for (uint32_t n = STEP; n < 0.6 * dim; n += STEP) {
    add_directions(kernels, t, n - STEP, STEP);
    double left = 0;
    for (uint32_t q = 0; q < QUERIES; q++) left += share_left(t, q) / QUERIES;
    double cost = n + more * left * (row + 4 * dim);
    if (cost < least) {
      least = cost;
      best = n;
    }
  }
  return best;
}

static kf_status try_directions(const kf_kernels *kernels, uint32_t dim, sample *s, uint32_t *out,
                                kf_err *err) {
  trial t = {.s = s};
  float *turn;
  kf_arena arena = {0};
  KF_TAKE(&arena, turn, (uint64_t)dim * dim);
  KF_TAKE(&arena, t.dots, QUERIES * (uint64_t)s->n);
  KF_TAKE(&arena, t.left2, s->n);
  KF_TAKE(&arena, t.floor, QUERIES);
  kf_status status = arena.failed ? kf_fail_memory(err) : KF_OK;
  if (status == KF_OK) {
    for (uint32_t j = 0; j < dim; j++)
      for (uint32_t i = 0; i < dim; i++)
        turn[(uint64_t)i * dim + j] = (float)s->vectors[(uint64_t)j * dim + i];
    memset(s->turned, 0, (uint64_t)dim * s->n * sizeof *s->turned);
    kernels->gemm_tn_f32(turn, dim, s->columns, s->n, s->turned, s->n, dim, s->n, dim);
    *out = choose(kernels, &t, dim);
  }
  kf_arena_free(&arena);
  return status;
}

/* --- the basis ------------------------------------------------------------------------------- */

/* Mixes n vectors, strong ones with weak ones, by Hadamard matrices of the largest power of 2 that
 * divides n. */
static void mix(double *vectors, uint32_t n, uint32_t dim) {
  uint32_t size = n & (0 - n), sets = n / size;
  for (uint32_t half = 1; half < size; half *= 2)
    for (uint32_t i = 0; i < size; i++) {
      if (i & half) continue;
      for (uint32_t g = 0; g < sets; g++) {
        double *x = vectors + ((uint64_t)i * sets + g) * dim;
        double *y = vectors + ((uint64_t)(i + half) * sets + g) * dim;
        for (uint32_t j = 0; j < dim; j++) {
          double sum = (x[j] + y[j]) * 0x1.6a09e667f3bcdp-1,
                 less = (x[j] - y[j]) * 0x1.6a09e667f3bcdp-1;
          x[j] = sum;
          y[j] = less;
        }
      }
    }
}

/* Makes the basis from the first n vectors, mixed, and measures how far it is from orthonormal. */
static kf_status make_basis(kf_index *index, const kf_kernels *kernels, double *vectors, uint32_t n,
                            kf_err *err) {
  kf_lead *lead = &index->lead;
  uint32_t dim = index->dim;
  double *wide, *products, off2 = 0;
  kf_arena arena = {0};
  KF_TAKE(&arena, wide, (uint64_t)dim * n);
  KF_TAKE_ZERO(&arena, products, (uint64_t)n * n);
  KF_TAKE(&index->arena, lead->basis, (uint64_t)dim * n);
  kf_status status = arena.failed || index->arena.failed ? kf_fail_memory(err) : KF_OK;
  if (status == KF_OK) {
    mix(vectors, n, dim);
    for (uint32_t i = 0; i < dim; i++)
      for (uint32_t j = 0; j < n; j++) {
        uint64_t at = (uint64_t)i * n + j;
        lead->basis[at] = (float)vectors[(uint64_t)j * dim + i];
        wide[at] = (double)lead->basis[at];
      }
    kernels->gemm_tn(wide, n, wide, n, products, n, n, n, dim);
    for (uint64_t i = 0; i < (uint64_t)n * n; i++) {
      double x = products[i] - (i % (n + 1ull) == 0);
      off2 += x * x;
    }
    double off = 1.01 * sqrt(off2) + 1e-9;
    lead->share = 3 * error_of(n, dim) + 2 * off;
    lead->n = lead->share < 0.1 ? n : 0; /* also if it is NaN */
  }
  kf_arena_free(&arena);
  return status;
}

kf_status kf_lead_find(kf_ctx *ctx, kf_index *index, uint32_t given) {
  kf_err *err = &ctx->err;
  uint32_t dim = index->dim, n = given;
  if (given == 0 && (index->n < MIN_ROWS || dim < MIN_DIM || dim > MAX_DIM)) return KF_OK;
  sample s = {.n = index->n < SAMPLE ? (uint32_t)index->n : SAMPLE};
  float *row;
  double *y;
  kf_arena arena = {0};
  KF_TAKE(&arena, s.columns, (uint64_t)dim * s.n);
  KF_TAKE(&arena, s.turned, (uint64_t)dim * s.n);
  KF_TAKE(&arena, s.offset, s.n);
  KF_TAKE(&arena, s.vectors, (uint64_t)dim * dim);
  KF_TAKE(&arena, row, dim);
  KF_TAKE(&arena, y, dim);
  kf_status status =
      arena.failed ? kf_fail_memory(err) : take_sample(index, ctx->kernels, &s, row, y, err);
  if (status == KF_OK) status = find_vectors(ctx, dim, &s);
  if (status == KF_OK && given == 0) status = try_directions(ctx->kernels, dim, &s, &n, err);
  if (status == KF_OK && n > 0) status = make_basis(index, ctx->kernels, s.vectors, n, err);
  kf_arena_free(&arena);
  return status;
}
