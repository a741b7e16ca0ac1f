/* eigen.c - how long the eigensolver takes, best of several rounds, in milliseconds of wall clock
 * and of processor time; and the rate of the product below it.
 *
 *     cc -O2 -Isrc -Iinclude bench/eigen.c build/libkoofu.a -lpthread -lm -o build/bench_eigen
 *     build/bench_eigen THREADS D … */
#include "model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double seconds(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Uniform in [-1, 1). */
static double next(uint64_t *seed) {
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  return (double)(int32_t)(*seed >> 32) * 0x1p-31;
}

/* A scatter matrix of 2 n rows whose columns fall in size by a factor of 100, as embeddings' do. */
static kf_status fill(kf_ctx *ctx, uint32_t n, double *a) {
  uint64_t seed = n;
  double *rows = malloc((size_t)2 * n * n * sizeof *rows);
  if (rows == NULL) return KF_ERR_MEM;
  for (size_t i = 0; i < (size_t)2 * n * n; i++)
    rows[i] = next(&seed) / (1 + 99 * (double)(i % n) / n) + 0.5 * (i % n == 0 ? 0 : rows[i - 1]);
  kf_status status = kf_multiply(
      ctx, (kf_product){.a = rows, .b = rows, .c = a, .m = n, .n = n, .depth = 2 * (size_t)n});
  for (size_t i = 0; i < n; i++)
    for (size_t j = 0; j < i; j++) a[i * n + j] = a[j * n + i];
  free(rows);
  return status;
}

static kf_status measure(kf_ctx *ctx, uint32_t n) {
  size_t size = (size_t)n * n;
  double *a = malloc(size * sizeof *a), *copy = malloc(size * sizeof *a);
  double *values = malloc(n * sizeof *a), *vectors = malloc(size * sizeof *a);
  double wall = 1e9, busy = 1e9, product = 1e9;
  if (a == NULL || copy == NULL || values == NULL || vectors == NULL) return KF_ERR_MEM;
  kf_status status = fill(ctx, n, a);
  for (int round = 0; round < (n < 600 ? 20 : 7) && status == KF_OK; round++) {
    memcpy(copy, a, size * sizeof *a);
    double t = seconds(CLOCK_MONOTONIC), c = seconds(CLOCK_PROCESS_CPUTIME_ID);
    status = kf_eigen(ctx, n, copy, values, vectors);
    t = seconds(CLOCK_MONOTONIC) - t;
    c = seconds(CLOCK_PROCESS_CPUTIME_ID) - c;
    wall = t < wall ? t : wall;
    busy = c < busy ? c : busy;
    t = seconds(CLOCK_MONOTONIC);
    if (status == KF_OK)
      status = kf_multiply(
          ctx, (kf_product){.a = vectors, .b = a, .c = copy, .m = n, .n = n, .depth = n});
    t = seconds(CLOCK_MONOTONIC) - t;
    product = t < product ? t : product;
  }
  if (status == KF_OK)
    printf("D = %4u: %8.2f ms (%8.2f of processor time), product %.1f GFLOP/s\n", n, 1e3 * wall,
           1e3 * busy, 2e-9 * (double)size * n / product);
  free(a);
  free(copy);
  free(values);
  free(vectors);
  return status;
}

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  kf_ctx_options options = {.threads = (unsigned)atoi(argv[1])};
  kf_ctx *ctx = NULL;
  kf_status status = kf_ctx_new(&options, &ctx);
  for (int i = 2; i < argc && status == KF_OK; i++) status = measure(ctx, (uint32_t)atoi(argv[i]));
  if (status != KF_OK) fprintf(stderr, "eigen: %s\n", ctx != NULL ? kf_errmsg(ctx) : "no context");
  kf_ctx_free(ctx);
  return status == KF_OK ? 0 : 1;
}
