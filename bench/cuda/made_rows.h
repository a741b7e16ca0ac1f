/* made_rows.h - rows for searches: random, or those of a file, repeated; and brute-force search. */
#ifndef KF_BENCH_MADE_ROWS_H
#define KF_BENCH_MADE_ROWS_H

#include "koofu.h"

#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAKERS 16

static inline void *need(void *memory) {
  if (memory != NULL) return memory;
  fprintf(stderr, "knn: out of memory\n");
  exit(1);
}

static inline void check_ok(kf_ctx *ctx, kf_status status) {
  if (status == KF_OK) return;
  fprintf(stderr, "knn: %s\n", kf_errmsg(ctx));
  exit(1);
}

/* Calls work(job, i) for i = 0 … MAKERS-1, each on its own thread. */
typedef struct maker {
  void (*work)(void *job, unsigned i);
  void *job;
  unsigned number;
} maker;
static inline void *maker_run(void *argument) {
  const maker *m = argument;
  m->work(m->job, m->number);
  return NULL;
}
static inline void make_all(void (*work)(void *job, unsigned i), void *job) {
  pthread_t thread[MAKERS];
  maker makers[MAKERS];
  for (unsigned i = 0; i < MAKERS; i++) {
    makers[i] = (maker){work, job, i};
    if (pthread_create(&thread[i], NULL, maker_run, &makers[i]) != 0) need(NULL);
  }
  for (unsigned i = 0; i < MAKERS; i++) pthread_join(thread[i], NULL);
}

/* --- random rows ------------------------------------------------------------------------------ */

enum { KIND_NORMAL, KIND_CLUSTERS, KIND_OUTLIERS, KIND_COPIES, N_KINDS };
static const char *const kinds[] = {"normal", "clusters", "outliers", "copies"};

static inline uint64_t mix(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdull;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ull;
  return x ^ x >> 33;
}

/* Approximately normal, from the eight uniform bytes of one hash. */
static inline float normal(uint64_t seed) {
  uint64_t x = mix(seed);
  uint64_t pairs = (x & 0x00ff00ff00ff00ffull) + (x >> 8 & 0x00ff00ff00ff00ffull);
  uint32_t sum = (uint32_t)(pairs & 0xffff) + (uint32_t)(pairs >> 16 & 0xffff) +
                 (uint32_t)(pairs >> 32 & 0xffff) + (uint32_t)(pairs >> 48);
  return ((float)sum - 1020.0f) * (1.0f / 209.0f);
}

typedef struct fill_job {
  float *rows;
  uint64_t n, seed;
  uint32_t dim;
  int kind;
} fill_job;

static inline void fill_row(const fill_job *j, uint64_t i, float *row) {
  bool copy = j->kind == KIND_COPIES && i % 1000 != 0;
  uint64_t from = copy ? i / 7 * 7 : i; /* seven of each */
  uint64_t centre = mix(i + j->seed) % 1000;
  for (uint32_t c = 0; c < j->dim; c++) {
    float x = normal(j->seed + from * j->dim + c);
    if (j->kind == KIND_CLUSTERS) x = 0.5f * x + normal(centre * j->dim + c) + 0.3f;
    if (j->kind == KIND_OUTLIERS && mix(i) % 5000 == 0 && c % 37 == mix(i) % 37) x *= 40;
    row[c] = x;
  }
}

static inline void fill_some(void *job, unsigned part) {
  const fill_job *j = job;
  for (uint64_t i = j->n * part / MAKERS; i < j->n * (part + 1) / MAKERS; i++) {
    float *row = j->rows + i * j->dim;
    double sum = 0;
    fill_row(j, i, row);
    for (uint32_t c = 0; c < j->dim; c++) sum += (double)row[c] * (double)row[c];
    float scale = (float)(1 / sqrt(sum));
    for (uint32_t c = 0; c < j->dim; c++) row[c] *= scale;
  }
}

/* Rows of unit length. */
static inline void fill_rows(float *rows, uint64_t n, uint32_t dim, uint64_t seed, int kind) {
  fill_job job = {rows, n, seed, dim, kind};
  make_all(fill_some, &job);
}

/* --- rows of a file --------------------------------------------------------------------------- */

static inline uint32_t file_dim(kf_ctx *ctx, const char *path) {
  kf_data *data;
  check_ok(ctx, kf_data_open(ctx, &path, 1, NULL, &data));
  uint32_t dim = kf_data_dim(data);
  kf_data_free(data);
  return dim;
}

typedef struct repeat_job {
  float *rows;
  uint64_t given, n;
  uint32_t dim;
} repeat_job;

static inline void repeat_some(void *job, unsigned part) {
  const repeat_job *j = job;
  uint64_t more = j->n - j->given;
  for (uint64_t i = more * part / MAKERS; i < more * (part + 1) / MAKERS; i++)
    memcpy(j->rows + (j->given + i) * j->dim, j->rows + i % j->given * j->dim,
           j->dim * sizeof *j->rows);
}

/* The rows of a file, repeated. */
static inline void read_rows(kf_ctx *ctx, const char *path, float *rows, uint64_t n, uint32_t dim) {
  kf_data *data;
  check_ok(ctx, kf_data_open(ctx, &path, 1, NULL, &data));
  uint64_t given = kf_data_rows(data) < n ? kf_data_rows(data) : n;
  if (given == 0 || kf_data_dim(data) != dim) {
    fprintf(stderr, "knn: %s does not have rows of %u columns\n", path, dim);
    exit(1);
  }
  check_ok(ctx, kf_data_get(ctx, data, 0, given, rows, NULL));
  kf_data_free(data);
  repeat_job job = {rows, given, n, dim};
  make_all(repeat_some, &job);
}

/* --- brute force ------------------------------------------------------------------------------ */

typedef struct brute_job {
  const float *rows, *query;
  uint64_t n;
  uint32_t dim;
  double *scores; /* [n] */
} brute_job;

static inline void brute_some(void *job, unsigned part) {
  const brute_job *j = job;
  for (uint64_t i = j->n * part / MAKERS; i < j->n * (part + 1) / MAKERS; i++) {
    const float *row = j->rows + i * j->dim;
    double lane[8] = {0};
    for (uint32_t c = 0; c < j->dim; c++) lane[c % 8] += (double)row[c] * (double)j->query[c];
    j->scores[i] =
        ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
  }
}

/* The number of rows in a list that are not among the k nearest by inner product in f64. */
static inline uint64_t brute_wrong(brute_job *job, const int64_t *list, uint32_t k) {
  uint64_t wrong = 0;
  make_all(brute_some, job);
  for (uint32_t t = 0; t < k; t++) {
    uint64_t best = 0;
    for (uint64_t i = 1; i < job->n; i++)
      if (job->scores[i] > job->scores[best]) best = i;
    wrong += list[t] != (int64_t)best;
    job->scores[best] = -INFINITY;
  }
  return wrong;
}

#endif
