/* solver.c - the eigensolver, and a fit from statistics: a side of the benchmarks (side.py).
 *
 *     solver THREADS ISA [-v]
 *
 * A line `eigen D` measures all eigenvectors of a scatter matrix, `product D` the product of two
 * square matrices, `fit STATS.safetensors` a model from statistics in memory. -v prints the stages
 * of every fit to standard error. */
#include "model/model.h"
#include "serve.h"

#include <stdlib.h>
#include <string.h>

typedef struct solver {
  kf_ctx *ctx;
  /* The last problems are kept, so that only solving is timed. */
  uint32_t n;
  double *a, *copy, *values, *vectors;
  char *path;
  kf_stats *stats;
} solver;

/* --- matrices --------------------------------------------------------------------------------- */

/* Uniform in [-1, 1). */
static double next(uint64_t *seed) {
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  return (double)(int32_t)(*seed >> 32) * 0x1p-31;
}

/* A scatter matrix of 2 n rows whose columns decrease by a factor of 100, like those of
 * embeddings. */
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

static void forget_matrix(solver *s) {
  free(s->a);
  free(s->copy);
  free(s->values);
  free(s->vectors);
  s->a = s->copy = s->values = s->vectors = NULL;
  s->n = 0;
}

static kf_status make_matrix(solver *s, uint32_t n) {
  size_t size = (size_t)n * n * sizeof(double);
  if (n == s->n) return KF_OK;
  forget_matrix(s);
  s->a = malloc(size);
  s->copy = malloc(size);
  s->vectors = malloc(size);
  s->values = malloc(n * sizeof(double));
  if (s->a == NULL || s->copy == NULL || s->vectors == NULL || s->values == NULL) return KF_ERR_MEM;
  s->n = n;
  return fill(s->ctx, n, s->a);
}

static kf_status eigen(solver *s, uint32_t n, bench_time *spent) {
  kf_status status = make_matrix(s, n);
  if (status != KF_OK) return status;
  memcpy(s->copy, s->a, (size_t)n * n * sizeof(double));
  bench_time start = bench_now();
  status = kf_eigen(s->ctx, n, s->copy, s->values, s->vectors);
  *spent = bench_since(start);
  return status;
}

static kf_status product(solver *s, uint32_t n, bench_time *spent) {
  kf_status status = make_matrix(s, n);
  if (status != KF_OK) return status;
  bench_time start = bench_now();
  status = kf_multiply(
      s->ctx, (kf_product){.a = s->a, .b = s->a, .c = s->copy, .m = n, .n = n, .depth = n});
  *spent = bench_since(start);
  return status;
}

/* --- fits ------------------------------------------------------------------------------------- */

/* Called before the first stage with 0, and after stage n with n. */
static int print_stage(void *last, const char *what, uint64_t done, uint64_t total) {
  (void)what;
  bench_time *t = last;
  bench_time spent = bench_since(*t);
  if (done > 0)
    fprintf(stderr, "stage %d of %d: %.1f ms, %.1f of processor time\n", (int)done, (int)total,
            1e3 * spent.wall, 1e3 * spent.busy);
  *t = bench_now();
  return 0;
}

static kf_status fit(solver *s, const char *path, bench_time *spent) {
  kf_status status = KF_OK;
  if (s->path == NULL || strcmp(path, s->path) != 0) {
    kf_stats_free(s->stats);
    free(s->path);
    s->stats = NULL;
    s->path = strdup(path);
    if (s->path == NULL) return KF_ERR_MEM;
    status = kf_stats_load(s->ctx, path, &s->stats);
  }
  if (status != KF_OK) return status;
  kf_model *model = NULL;
  bench_time start = bench_now();
  status = kf_fit_stats(s->ctx, s->stats, NULL, &model);
  *spent = bench_since(start);
  kf_model_free(model);
  return status;
}

static int answer(void *user, char *line, bench_time *spent) {
  solver *s = user;
  kf_status status = KF_ERR_ARG;
  if (strncmp(line, "eigen ", 6) == 0)
    status = eigen(s, (uint32_t)strtoul(line + 6, NULL, 10), spent);
  else if (strncmp(line, "product ", 8) == 0)
    status = product(s, (uint32_t)strtoul(line + 8, NULL, 10), spent);
  else if (strncmp(line, "fit ", 4) == 0)
    status = fit(s, line + 4, spent);
  if (status != KF_OK) fprintf(stderr, "solver: '%s': %s\n", line, kf_errmsg(s->ctx));
  return status != KF_OK;
}

static kf_isa isa_named(const char *name) {
  for (int i = 0; kf_isa_name((kf_isa)i) != NULL; i++)
    if (strcmp(name, kf_isa_name((kf_isa)i)) == 0) return (kf_isa)i;
  return KF_ISA_AUTO;
}

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  bench_time last = bench_now();
  kf_ctx_options options = {.threads = (unsigned)atoi(argv[1]),
                            .isa = isa_named(argv[2]),
                            .progress = argc > 3 ? print_stage : NULL,
                            .user = &last};
  solver s = {0};
  if (kf_ctx_new(&options, &s.ctx) != KF_OK) return 1;
  int status = bench_serve("solver", answer, &s);
  forget_matrix(&s);
  kf_stats_free(s.stats);
  free(s.path);
  kf_ctx_free(s.ctx);
  return status;
}
