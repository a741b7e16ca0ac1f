/* problems.h - rows and queries of many kinds, and their nearest rows by brute force: what the
 * tests of the search compare it with.
 *
 * The kinds are chosen to defeat a search whose first pass uses 8-bit copies of the rows:
 * differences far below the step of eight bits, equal rows by the hundred, lengths of all
 * magnitudes, rows that are rounded as unluckily as can be. Row i of a kind depends on its number
 * and the seed alone. */
#ifndef KF_TEST_PROBLEMS_H
#define KF_TEST_PROBLEMS_H

#include "exact_order.h"
#include "test.h"

#include "file/file.h"
#include "search/search.h"

#include <inttypes.h>
#include <math.h>

/* --- kinds of rows --------------------------------------------------------------------------- */

typedef struct shape {
  uint64_t n;
  uint32_t dim;
  uint64_t seed;
} shape;

/* A different vector for every number and every seed. */
static inline void normals(const shape *s, uint64_t number, double scale, float *x) {
  uint64_t state = s->seed * 1000000007u + number;
  for (uint32_t j = 0; j < s->dim; j++) x[j] = (float)(scale * test_normal(&state));
}

static inline uint64_t hash(const shape *s, uint64_t number) {
  uint64_t state = s->seed + (number << 20);
  return test_random(&state);
}

static inline void gaussian(const shape *s, uint64_t i, float *x) { normals(s, i, 1, x); }

/* Five centres, and differences of a few units in the last place of f32 around them. */
static inline void tight_clusters(const shape *s, uint64_t i, float *x) {
  uint64_t state = hash(s, i);
  normals(s, i % 5, 1, x);
  for (uint32_t j = 0; j < s->dim; j++)
    x[j] = (float)((double)x[j] * (1 + 1e-6 * test_normal(&state)));
}

/* The same with differences of about one 8-bit step. */
static inline void loose_clusters(const shape *s, uint64_t i, float *x) {
  uint64_t state = hash(s, i);
  normals(s, i % 5, 1, x);
  for (uint32_t j = 0; j < s->dim; j++) x[j] = (float)((double)x[j] + 0.02 * test_normal(&state));
}

static inline void every_row_thrice(const shape *s, uint64_t i, float *x) {
  normals(s, i % ((s->n + 2) / 3), 1, x);
}

static inline void blocks_of_700(const shape *s, uint64_t i, float *x) {
  normals(s, i / 700, 1, x);
}

static inline void all_equal(const shape *s, uint64_t i, float *x) {
  (void)i;
  normals(s, 0, 1, x);
}

/* Equal but for one element, which is up to three units in the last place away. */
static inline void one_ulp(const shape *s, uint64_t i, float *x) {
  normals(s, 0, 1, x);
  float *y = x + i % s->dim;
  for (uint64_t t = i % 7; t > 3; t--) *y = nextafterf(*y, INFINITY);
  for (uint64_t t = i % 7; t < 3; t++) *y = nextafterf(*y, -INFINITY);
}

static inline void huge(const shape *s, uint64_t i, float *x) { normals(s, i, 1e30, x); }

/* Elements up to nearly the largest f32; sums of their squares are far beyond it. */
static inline void largest(const shape *s, uint64_t i, float *x) {
  uint64_t state = hash(s, i);
  for (uint32_t j = 0; j < s->dim; j++) x[j] = (float)(3e38 * test_uniform(&state));
}

static inline void one_huge_row(const shape *s, uint64_t i, float *x) {
  normals(s, i, i == s->n / 2 ? 1e30 : 1, x);
}

static inline void tiny(const shape *s, uint64_t i, float *x) { normals(s, i, 1e-30, x); }
static inline void denormal(const shape *s, uint64_t i, float *x) { normals(s, i, 1e-42, x); }

/* Products of two elements are about as small as f32 can be; the width decides how small. */
static inline void tiny_products(const shape *s, uint64_t i, float *x) {
  normals(s, i, pow(10, -18 - (double)(s->dim % 5)), x);
}

/* On both sides of the length above which rows are not rounded to 8 bits. */
static inline void lengths_around_1e15(const shape *s, uint64_t i, float *x) {
  normals(s, i, pow(10, 13 + (double)(i % 4)) / sqrt(s->dim), x);
}

static inline void lengths_of_40_decades(const shape *s, uint64_t i, float *x) {
  normals(s, i, pow(10, (double)(i % 41) - 20), x);
}

static inline void columns_of_12_decades(const shape *s, uint64_t i, float *x) {
  normals(s, i, 1, x);
  for (uint32_t j = 0; j < s->dim; j++) x[j] = (float)((double)x[j] * pow(10, j % 13 - 6.0));
}

static inline void uneven_lengths(const shape *s, uint64_t i, float *x) {
  uint64_t state = hash(s, i);
  normals(s, i, exp(1.5 * test_normal(&state)), x);
}

/* Like CLIP embeddings: one column holds 0.7 of the length of every row. */
static inline void cone(const shape *s, uint64_t i, float *x) {
  uint64_t state = hash(s, i);
  normals(s, i, sqrt(0.51 / s->dim), x);
  x[s->dim / 2] = (float)(0.7 + 0.01 * test_normal(&state));
}

static inline void one_hot(const shape *s, uint64_t i, float *x) {
  memset(x, 0, s->dim * sizeof *x);
  x[hash(s, i) % s->dim] = 1;
}

/* Elements of -1, 0 and 1: many rows have the same score without being equal. */
static inline void ternary(const shape *s, uint64_t i, float *x) {
  uint64_t state = hash(s, i);
  for (uint32_t j = 0; j < s->dim; j++) x[j] = (float)(test_random(&state) % 3) - 1;
}

/* All elements are extreme, so integer sums reach their extremes. Odd rows are the negatives of the
 * even rows before them, so the mean of an even number of rows is zero. */
static inline void signs(const shape *s, uint64_t i, float *x) {
  uint64_t state = hash(s, i / 2);
  for (uint32_t j = 0; j < s->dim; j++) {
    bool up = i < 2 || test_random(&state) % 2 == 0;
    x[j] = up == (i % 2 == 0) ? 1 : -1;
  }
}

/* Integer multiples of a few rows of small integers, and sums of two of these: rows that are
 * parallel but not equal, and others with the same cosine by chance. */
static inline void multiples(const shape *s, uint64_t i, float *x) {
  uint64_t state = hash(s, i), which = test_random(&state) % 9, other = test_random(&state) % 9;
  float times = (float)(1 + test_random(&state) % 11), plus = (float)(test_random(&state) % 3 / 2);
  uint64_t a = s->seed * 31 + which, b = s->seed * 31 + other;
  for (uint32_t j = 0; j < s->dim; j++) {
    x[j] = times * ((float)(test_random(&a) % 5) - 2);
    x[j] += plus * times * ((float)(test_random(&b) % 5) - 2);
  }
}

/* Around one direction, at angles of 1e-3 to 1e-7 and lengths of three decades. */
static inline void narrow_cone(const shape *s, uint64_t i, float *x) {
  uint64_t state = hash(s, i);
  double angle = pow(10, -3 - (double)(s->seed % 5)), length = pow(10, 3 * test_uniform(&state));
  normals(s, 0, 1, x);
  for (uint32_t j = 0; j < s->dim; j++)
    x[j] = (float)(length * ((double)x[j] + angle * test_normal(&state)));
}

static inline void some_zero(const shape *s, uint64_t i, float *x) {
  normals(s, i, i % 3 == 0 ? 0 : 1, x);
}

/* Lengths e^-40 to e^40: the longest do not fit 8 bits and are handled in separate batches. */
static inline void wild_lengths(const shape *s, uint64_t i, float *x) {
  uint64_t state = hash(s, i);
  normals(s, i, exp(40 * test_uniform(&state)), x);
}

/* Any length that f32 can hold, from denormal numbers to nearly the largest. */
static inline double any_scale(const shape *s, uint64_t i) {
  uint64_t state = hash(s, i);
  return ldexp(1 + fabs(test_uniform(&state)), (int)(test_random(&state) % 272) - 148);
}

static inline void any_length(const shape *s, uint64_t i, float *x) {
  normals(s, i, any_scale(s, i), x);
}

static inline void zero_and_denormal(const shape *s, uint64_t i, float *x) {
  uint64_t state = hash(s, i);
  const double scales[] = {0, 1e-44, 1e-40, 1e-38, 1e-20, 1};
  normals(s, i, scales[test_random(&state) % 6], x);
}

static inline void one_huge_among_tiny(const shape *s, uint64_t i, float *x) {
  normals(s, i, i == s->n / 2 ? 1e30 : 1e-30, x);
}

/* Too long for 8 bits, except one row in eight. */
static inline void mostly_too_long(const shape *s, uint64_t i, float *x) {
  normals(s, i, i % 8 == 3 ? 1 : 1e16, x);
}

/* --- and with queries unlike the rows (numbers from n on) --- */

static inline void negative_products(const shape *s, uint64_t i, float *x) {
  normals(s, i, 1, x);
  for (uint32_t j = 0; j < s->dim; j++) x[j] = i < s->n ? fabsf(x[j]) : -fabsf(x[j]);
}

static inline void far_queries(const shape *s, uint64_t i, float *x) {
  normals(s, i, i < s->n ? 1 : 1e20, x);
}

static inline void far_rows(const shape *s, uint64_t i, float *x) {
  normals(s, i, i < s->n ? 1e20 : 1, x);
}

/* Queries of all lengths; all rows have the same length, which is random. */
static inline void queries_of_any_length(const shape *s, uint64_t i, float *x) {
  normals(s, i, any_scale(s, i < s->n ? 0 : i), x);
}

/* Rows of all lengths; all queries have the same length. */
static inline void rows_of_any_length(const shape *s, uint64_t i, float *x) {
  normals(s, i, any_scale(s, i < s->n ? i : s->n), x);
}

/* Queries of a few units of 2^-149, whose length f32 cannot hold, and long rows in opposite pairs,
 * so that the centre is zero. */
static inline void denormal_queries(const shape *s, uint64_t i, float *x) {
  uint64_t state = hash(s, i < s->n ? i / 2 : i);
  double sign = i < s->n && i % 2 == 1 ? -1 : 1, step = i < s->n ? 1e12 : 0x1p-149;
  uint64_t most = i < s->n ? 127 : 2;
  for (uint32_t j = 0; j < s->dim; j++)
    x[j] = (float)(sign * step * ((double)(test_random(&state) % (2 * most + 1)) - (double)most));
}

static inline void zero_queries(const shape *s, uint64_t i, float *x) {
  normals(s, i, i < s->n ? 1 : 0, x);
}

/* In units of 1/127 of the largest element, queries and every second pair of rows are integers; the
 * other pairs are rounded by nearly half a unit in every element, always away from the queries. The
 * second row of a pair is minus the first, so the mean of up to 1,024 rows is zero. */
static inline void unlucky_rounding(const shape *s, uint64_t i, float *x) {
  uint64_t direction = s->seed, state = hash(s, i < s->n ? i / 2 : i);
  for (uint32_t j = 0; j < s->dim; j++) {
    double sign = test_random(&direction) % 2 == 0 ? 1 : -1;
    double value = (double)(test_random(&state) % 7) - 3;
    if (i >= s->n) value = sign * (124 + value);
    if (i < s->n && i / 2 % 2 == 0) value += 0.49 * sign;
    if (j == 0) value = 127;
    x[j] = (float)(i < s->n && i % 2 == 1 ? -value : value);
  }
}

/* The same with queries whose rounding is unlucky for every second pair of rows. The other rows are
 * short and lose little, so they look too good in comparison. */
static inline void unlucky_queries(const shape *s, uint64_t i, float *x) {
  uint64_t direction = s->seed, state = hash(s, i < s->n ? i / 2 : i);
  for (uint32_t j = 0; j < s->dim; j++) {
    double sign = test_random(&direction) % 2 == 0 ? 1 : -1;
    uint64_t random = test_random(&state);
    double value = 0;
    if (i >= s->n)
      value = j == 0 ? 127 : (double)(random % 7) - 3 + 0.49 * sign;
    else if (i / 2 % 2 == 0)
      value = j == 0 ? 127 : sign * (double)(60 + random % 7);
    else if (j == 0)
      value = (double)(127 + random % 21);
    x[j] = (float)(i < s->n && i % 2 == 1 ? -value : value);
  }
}

/* Rows and queries that 8 bits hold exactly, in steps of 1 and 3 in turn, rows again in pairs.
 * Products of long ones differ only in the last bits of f32, and the steps round differently: the
 * bound must include the rounding of f32 arithmetic. */
static inline void long_integers(const shape *s, uint64_t i, float *x) {
  uint64_t same = s->seed, state = hash(s, i < s->n ? i / 2 : i);
  float step = i / 2 % 2 == 0 ? 1 : 3, sign = i % 2 == 0 ? 1 : -1;
  if (i >= s->n) {
    for (uint32_t j = 0; j < s->dim; j++) x[j] = (float)(90 + test_random(&state) % 37);
    x[0] = 0; /* the column of the rows' largest element */
    x[s->dim - 1] = 127;
    for (uint32_t j = 0; j < s->dim; j++) x[j] *= 1 + 0x4dp-10f;
    return;
  }
  for (uint32_t j = 0; j < s->dim; j++) x[j] = (float)(90 + test_random(&same) % 12 * 3);
  x[test_random(&state) % s->dim] += step;
  x[test_random(&state) % s->dim] -= step;
  x[0] = 127 * step;
  for (uint32_t j = 0; j < s->dim; j++) x[j] *= sign;
}

/* Rows with a run of m elements of 720,720 / m, whose products with constant queries are equal to
 * the last bit. 8 bits hold them almost exactly, so the bound must cover the rounding of the
 * arithmetic itself. */
static inline void equal_products(const shape *s, uint64_t i, float *x) {
  uint64_t at = hash(s, i), m = 1 + at % (s->dim < 16 ? s->dim : 16);
  for (uint32_t j = 0; j < s->dim; j++) x[j] = i < s->n ? 0 : (float)(1 + i % 100);
  for (uint64_t t = 0; i < s->n && t < m; t++) x[((at >> 8) + t) % s->dim] = (float)(720720 / m);
}

typedef struct kind {
  const char *name;
  void (*row)(const shape *s, uint64_t i, float *x);
  bool zeros;       /* some rows or queries are zero: not for cosine */
  bool own_queries; /* all queries are made by `row` */
} kind;

static const kind kinds[] = {
    {.name = "gaussian", .row = gaussian},
    {.name = "tight clusters", .row = tight_clusters},
    {.name = "loose clusters", .row = loose_clusters},
    {.name = "every row thrice", .row = every_row_thrice},
    {.name = "blocks of 700", .row = blocks_of_700},
    {.name = "all equal", .row = all_equal},
    {.name = "one ulp", .row = one_ulp},
    {.name = "huge", .row = huge},
    {.name = "largest", .row = largest},
    {.name = "one huge row", .row = one_huge_row},
    {.name = "tiny", .row = tiny},
    {.name = "denormal", .row = denormal},
    {.name = "tiny products", .row = tiny_products},
    {.name = "lengths around 1e15", .row = lengths_around_1e15},
    {.name = "lengths of 40 decades", .row = lengths_of_40_decades},
    {.name = "columns of 12 decades", .row = columns_of_12_decades},
    {.name = "uneven lengths", .row = uneven_lengths},
    {.name = "cone", .row = cone},
    {.name = "one-hot", .row = one_hot},
    {.name = "ternary", .row = ternary},
    {.name = "signs", .row = signs},
    {.name = "multiples", .row = multiples},
    {.name = "narrow cone", .row = narrow_cone},
    {.name = "some zero", .row = some_zero, .zeros = true},
    {.name = "wild lengths", .row = wild_lengths},
    {.name = "any length", .row = any_length},
    {.name = "zero and denormal", .row = zero_and_denormal, .zeros = true},
    {.name = "one huge among tiny", .row = one_huge_among_tiny},
    {.name = "mostly too long", .row = mostly_too_long},
    {.name = "negative products", .row = negative_products, .own_queries = true},
    {.name = "far queries", .row = far_queries, .own_queries = true},
    {.name = "far rows", .row = far_rows, .own_queries = true},
    {.name = "queries of any length", .row = queries_of_any_length, .own_queries = true},
    {.name = "rows of any length", .row = rows_of_any_length, .own_queries = true},
    {.name = "denormal queries", .row = denormal_queries, .own_queries = true},
    {.name = "zero queries", .row = zero_queries, .zeros = true, .own_queries = true},
    {.name = "unlucky rounding", .row = unlucky_rounding, .own_queries = true},
    {.name = "unlucky queries", .row = unlucky_queries, .own_queries = true},
    {.name = "long integers", .row = long_integers, .own_queries = true},
    {.name = "equal products", .row = equal_products, .own_queries = true},
};
#define N_KINDS (sizeof kinds / sizeof kinds[0])

static inline const kind *kind_named(const char *name) {
  for (size_t i = 0; i < N_KINDS; i++)
    if (strcmp(kinds[i].name, name) == 0) return &kinds[i];
  fail_msg("there is no kind '%s'", name);
  return NULL;
}

/* --- problems -------------------------------------------------------------------------------- */

typedef struct problem {
  const kind *kind;
  shape shape;
  uint64_t n_queries;
  float *rows;  /* [n][dim] */
  float *given; /* the rows before rounding to `dtype`; NULL: not rounded */
  kf_dtype dtype;
  float *queries; /* [n_queries][dim] */
} problem;

/* A row of the kind; if it is zero by chance, one element becomes the smallest denormal. */
static inline void make_row(const problem *p, uint64_t i, float *x) {
  p->kind->row(&p->shape, i, x);
  uint32_t j = 0;
  while (j < p->shape.dim && x[j] == 0) j++;
  if (j == p->shape.dim && !p->kind->zeros) x[0] = 0x1p-149f;
}

/* Of three queries one is a row, one is nearly a row and one is new. */
static inline void make_query(const problem *p, uint64_t q, float *x) {
  uint64_t n = p->shape.n, state = hash(&p->shape, n + q);
  if (p->kind->own_queries || q % 3 == 2) {
    make_row(p, n + q, x);
    return;
  }
  memcpy(x, p->rows + test_random(&state) % n * p->shape.dim, p->shape.dim * sizeof *x);
  for (uint32_t j = 0; q % 3 == 1 && j < p->shape.dim; j++)
    x[j] = (float)((double)x[j] * (1 + 1e-3 * test_uniform(&state)));
}

static inline problem make_problem(const kind *of, uint64_t n, uint32_t dim, uint64_t n_queries,
                                   uint64_t seed) {
  problem p = {.kind = of, .shape = {n, dim, seed}, .n_queries = n_queries, .dtype = KF_F32};
  p.rows = malloc(n * dim * sizeof *p.rows);
  p.queries = malloc(n_queries * dim * sizeof *p.queries);
  assert_true(p.rows != NULL && p.queries != NULL);
  for (uint64_t i = 0; i < n; i++) make_row(&p, i, p.rows + i * dim);
  for (uint64_t q = 0; q < n_queries; q++) make_query(&p, q, p.queries + q * dim);
  return p;
}

/* Rounds the rows to f16 or bf16, unless a row becomes infinite or zero. The index gets the rows as
 * they were. */
static inline void round_problem(problem *p, kf_dtype dtype) {
  uint64_t size = p->shape.n * p->shape.dim;
  uint16_t *half = malloc(size * sizeof *half);
  float *rounded = malloc(size * sizeof *rounded);
  assert_true(half != NULL && rounded != NULL);
  kf_encode_f32(&kf_kernels_plain, kf_type_of(dtype), p->rows, size, half);
  kf_decode_f32(&kf_kernels_plain, kf_type_of(dtype), half, size, rounded);
  bool fits = true;
  for (uint64_t i = 0; fits && i < p->shape.n; i++) {
    double before = kf_kernels_plain.norm2(p->rows + i * p->shape.dim, p->shape.dim);
    double after = kf_kernels_plain.norm2(rounded + i * p->shape.dim, p->shape.dim);
    fits = isfinite(after) && (after > 0 || before == 0);
  }
  free(half);
  if (fits) {
    p->given = p->rows;
    p->rows = rounded;
    p->dtype = dtype;
  } else {
    free(rounded);
  }
}

static inline void free_problem(problem *p) {
  free(p->rows);
  free(p->given);
  free(p->queries);
}
AUTO_STRUCT(problem, free_problem)

/* --- brute force ----------------------------------------------------------------------------- */

/* All rows, nearest first, for each query, and their scores. Ordered by exact score, then by row
 * number. */
typedef struct answer {
  const problem *problem;
  kf_metric metric;
  int64_t *rows;  /* [n_queries][n] */
  double *scores; /* [n_queries][n] */
} answer;

/* The canonical sum of docs/numerics.md: lane i mod 8, then the tree. */
static inline double sum_by_hand(const float *x, const float *y, uint32_t dim, bool distance) {
  double lane[8] = {0};
  for (uint32_t i = 0; i < dim; i++) {
    double a = (double)x[i], b = (double)y[i];
    double term = distance ? (a - b) * (a - b) : a * b;
    lane[i % 8] += term;
  }
  return kf_add_lanes(lane);
}

static inline double norm2_by_hand(const float *x, const problem *p) {
  return sum_by_hand(x, x, p->shape.dim, false);
}

typedef struct ranked {
  double value; /* smaller is better: minus the product, or the squared distance */
  double error; /* an upper bound of its rounding error */
  int64_t row;
  const float *query, *x;
  const problem *problem;
  kf_metric metric;
  exact_score *exact; /* computed when first needed */
} ranked;

static inline void find_exact(ranked *r) {
  if (r->exact != NULL) return;
  r->exact = malloc(sizeof *r->exact);
  assert_non_null(r->exact);
  *r->exact = exact_score_of(r->metric, r->query, r->x, r->problem->shape.dim);
}

/* Exact scores are computed only where rounded ones are close. */
static inline int by_rank(const void *a, const void *b) {
  ranked *x = (ranked *)(uintptr_t)a, *y = (ranked *)(uintptr_t)b;
  if (fabs(x->value - y->value) > x->error + y->error) return x->value < y->value ? -1 : 1;
  if (memcmp(x->x, y->x, x->problem->shape.dim * sizeof *x->x) != 0) {
    find_exact(x);
    find_exact(y);
    int order = exact_order(x->metric, x->exact, y->exact);
    if (order != 0) return -order;
  }
  return x->row < y->row ? -1 : 1;
}

/* The value that is minimised: minus the cosine or product, or the squared distance. q2 and x2:
 * squared lengths. */
static inline double value_by_hand(const float *q, const float *x, uint32_t dim, kf_metric metric,
                                   double q2, double x2) {
  if (metric == KF_METRIC_EUCLIDEAN) return sum_by_hand(q, x, dim, true);
  double dot = sum_by_hand(q, x, dim, false);
  if (metric == KF_METRIC_COSINE) dot /= sqrt(q2 * x2);
  return 0 - dot;
}

static inline ranked rank_row(const problem *p, kf_metric metric, uint64_t q, uint64_t i, double q2,
                              double x2) {
  uint32_t dim = p->shape.dim;
  const float *query = p->queries + q * dim, *x = p->rows + i * dim;
  double value = value_by_hand(query, x, dim, metric, q2, x2), size = 1;
  if (metric == KF_METRIC_EUCLIDEAN) size = value;
  if (metric == KF_METRIC_INNER) size = sqrt(q2) * sqrt(x2);
  return (ranked){.value = value,
                  .error = (dim + 20) * 0x1p-52 * size,
                  .row = (int64_t)i,
                  .query = query,
                  .x = x,
                  .problem = p,
                  .metric = metric};
}

static inline answer solve(const problem *p, kf_metric metric) {
  uint64_t n = p->shape.n;
  bool euclid = metric == KF_METRIC_EUCLIDEAN;
  answer a = {.problem = p, .metric = metric};
  a.rows = calloc(p->n_queries * n, sizeof *a.rows);
  a.scores = calloc(p->n_queries * n, sizeof *a.scores);
  AUTOFREE ranked *all = malloc(n * sizeof *all);
  AUTOFREE double *norm2 = malloc(n * sizeof *norm2);
  assert_true(a.rows != NULL && a.scores != NULL && all != NULL && norm2 != NULL);
  for (uint64_t i = 0; i < n; i++) norm2[i] = norm2_by_hand(p->rows + i * p->shape.dim, p);
  for (uint64_t q = 0; q < p->n_queries; q++) {
    double q2 = norm2_by_hand(p->queries + q * p->shape.dim, p);
    for (uint64_t i = 0; i < n; i++) all[i] = rank_row(p, metric, q, i, q2, norm2[i]);
    qsort(all, n, sizeof *all, by_rank);
    for (uint64_t t = 0; t < n; t++) {
      a.rows[q * n + t] = all[t].row;
      a.scores[q * n + t] = euclid ? sqrt(all[t].value) : 0 - all[t].value;
      free(all[t].exact);
    }
  }
  return a;
}

static inline void free_answer(answer *a) {
  free(a->rows);
  free(a->scores);
}
AUTO_STRUCT(answer, free_answer)

/* --- the library, called in various ways, against it
 * ------------------------------------------------ */

typedef struct how {
  kf_isa isa;
  unsigned threads;
  uint64_t batch; /* queries in one call; 0: all */
  bool in_place, from_data;
  uint32_t lead; /* leading directions of the first pass; 0: whole rows */
  bool resident; /* rows are not copied, if they are f32 and not in place */
} how;

static inline kf_status fetch_problem(const void *self, const kf_kernels *kernels, uint64_t first,
                                      uint64_t n, float *rows, kf_err *err) {
  const problem *p = self;
  (void)kernels, (void)err;
  memcpy(rows, p->rows + first * p->shape.dim, n * p->shape.dim * sizeof *rows);
  return KF_OK;
}

/* An index whose first pass uses leading directions, whatever its size, or whose rows are
 * resident. */
static inline kf_index *given_index_of(kf_ctx *ctx, const problem *p, kf_metric metric,
                                       const how *h) {
  kf_source source = {.rows = p->shape.n,
                      .dim = p->shape.dim,
                      .fetch = fetch_problem,
                      .self = p,
                      .lead = h->lead,
                      .dtype = p->dtype};
  if (h->resident && !h->in_place && p->given == NULL) source.resident = p->rows;
  kf_index *index;
  assert_ok(ctx, kf_index_build(ctx, &source, metric, h->in_place, &index));
  return index;
}

static inline kf_index *leading_index_of(kf_ctx *ctx, const problem *p, kf_metric metric,
                                         bool in_place, uint32_t lead) {
  return given_index_of(ctx, p, metric, &(how){.in_place = in_place, .lead = lead});
}

static inline kf_index *index_of(kf_ctx *ctx, const problem *p, kf_metric metric, bool in_place,
                                 const kf_data *data) {
  kf_index *index;
  kf_index_options options = {.metric = metric, .rows_in_place = in_place};
  const float *rows = p->given != NULL ? p->given : p->rows;
  if (p->given != NULL) options.dtype = p->dtype;
  if (data != NULL)
    assert_ok(ctx, kf_index_new_from_data(ctx, data, &options, &index));
  else
    assert_ok(ctx, kf_index_new(ctx, rows, p->shape.n, p->shape.dim, &options, &index));
  return index;
}

/* The k nearest rows of every query, `batch` queries per call; rows and scores are
 * [n_queries][k]. */
static inline kf_status search_all(kf_ctx *ctx, const kf_index *index, const problem *p, uint32_t k,
                                   uint64_t batch, const int64_t *leave_out, int64_t *rows,
                                   double *scores, kf_search_report *report) {
  if (batch == 0) batch = p->n_queries;
  for (uint64_t q = 0; q < p->n_queries; q += batch) {
    uint64_t n = p->n_queries - q < batch ? p->n_queries - q : batch;
    kf_search_options options = {.leave_out = leave_out != NULL ? leave_out + q : NULL};
    kf_status status = kf_search(ctx, index, p->queries + q * p->shape.dim, n, k, &options,
                                 rows + q * k, scores != NULL ? scores + q * k : NULL, report);
    if (status != KF_OK) return status;
  }
  return KF_OK;
}

static inline bool same_bits(double x, double y) {
  uint64_t a, b;
  memcpy(&a, &x, sizeof a);
  memcpy(&b, &y, sizeof b);
  return a == b;
}

/* The number of queries with a wrong row number or a wrong bit in a score (scores may be NULL);
 * text describes the first. A score that rounding put out of order is reported as that of the row
 * before. */
static inline uint64_t count_wrong(const answer *a, uint32_t k, const int64_t *leave_out,
                                   const int64_t *rows, const double *scores, char text[256]) {
  uint64_t n = a->problem->shape.n, wrong = 0;
  for (uint64_t q = 0; q < a->problem->n_queries; q++) {
    uint64_t at = q * n, t;
    double score = a->metric == KF_METRIC_EUCLIDEAN ? 0 : INFINITY;
    for (t = 0; t < k; t++, at++) {
      if (leave_out != NULL && a->rows[at] == leave_out[q]) at++;
      uint64_t place = q * k + t;
      if (rows[place] != a->rows[at]) break;
      bool better =
          a->metric == KF_METRIC_EUCLIDEAN ? a->scores[at] < score : a->scores[at] > score;
      if (!better) score = a->scores[at];
      if (scores != NULL && !same_bits(scores[place], score)) break;
    }
    if (t == k) continue;
    if (wrong++ == 0)
      snprintf(
          text, 256,
          "query %" PRIu64 ", place %" PRIu64 ": row %" PRId64 " (%a), wanted %" PRId64 " (%a)", q,
          t, rows[q * k + t], scores != NULL ? scores[q * k + t] : 0.0, a->rows[at], a->scores[at]);
  }
  return wrong;
}

static inline const char *metric_name(kf_metric metric) {
  return metric == KF_METRIC_COSINE ? "cosine" : metric == KF_METRIC_INNER ? "inner" : "Euclidean";
}

/* For each k of the list, the index searched in this way must give the answers of brute force. */
static inline void check(const answer *a, const how *h, const uint32_t *ks, size_t n_ks,
                         const int64_t *leave_out) {
  const problem *p = a->problem;
  AUTO(kf_ctx) *ctx = test_ctx(h->threads, h->isa);
  AUTO(kf_data) *data = NULL;
  if (h->from_data)
    assert_ok(ctx, kf_data_open_memory(ctx, p->given != NULL ? p->given : p->rows, p->shape.n,
                                       p->shape.dim, NULL, NULL, 0, &data));
  AUTO(kf_index) *index = h->lead > 0 || h->resident
                              ? given_index_of(ctx, p, a->metric, h)
                              : index_of(ctx, p, a->metric, h->in_place, data);
  for (size_t i = 0; i < n_ks; i++) {
    uint32_t k = ks[i];
    AUTOFREE int64_t *rows = malloc(p->n_queries * k * sizeof *rows);
    AUTOFREE double *scores = malloc(p->n_queries * k * sizeof *scores);
    memset(rows, 0xff, p->n_queries * k * sizeof *rows);
    char text[256] = "";
    kf_status status = search_all(ctx, index, p, k, h->batch, leave_out, rows, scores, NULL);
    if (status != KF_OK) snprintf(text, sizeof text, "%s", kf_errmsg(ctx));
    if (status != KF_OK || count_wrong(a, k, leave_out, rows, scores, text) > 0)
      fail_msg("%s, %s, seed %" PRIu64 ": N %" PRIu64 ", D %u (%u), k %u, %s, threads %u, "
               "batch %" PRIu64 "%s%s%s%s: %s",
               p->kind->name, metric_name(a->metric), p->shape.seed, p->shape.n, p->shape.dim,
               h->lead, k, kf_isa_name(h->isa), h->threads, h->batch,
               h->in_place ? ", in place" : "",
               p->dtype == KF_F16    ? ", f16"
               : p->dtype == KF_BF16 ? ", bf16"
                                     : "",
               h->from_data ? ", from data" : "", leave_out != NULL ? ", leaving out" : "", text);
  }
}

#endif
