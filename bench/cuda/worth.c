/* worth.c - the size from which a GPU is faster than the CPU: the source of the thresholds of
 * `auto`.
 *
 *     worth [--plugin FILE] [--threads N] [--only statistics|search|use]
 *
 * Each line is one call of the library on the CPU and on an open GPU, in milliseconds; `first` is
 * the first call on the GPU, including the copies that stay there. Medians of up to five. Sizes are
 * in the unit of the thresholds, products per thread. The exit status is 1 if answers differ. */
#include "koofu_comm.h"
#include "koofu_files.h"
#include "made_rows.h"

#include <time.h>

static kf_ctx *cpu, *gpu;
static int wrong;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* --- timing ----------------------------------------------------------------------------------- */

typedef void (*call_fn)(kf_ctx *ctx, void *job, void *out);

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* The median of up to five calls, fewer if they take more than a quarter of a second in all. */
static double time_of(kf_ctx *ctx, call_fn call, void *job, void *out) {
  double times[5], sum = 0;
  int n = 0;
  while (n < 5 && (n == 0 || sum < 0.25)) {
    double begin = now();
    call(ctx, job, out);
    times[n] = now() - begin;
    sum += times[n++];
  }
  qsort(times, (size_t)n, sizeof *times, by_size);
  return times[n / 2];
}

#define LONGEST 0x1p40 /* products per thread: seconds */

static void compare(const char *what, call_fn call, void *job, size_t size, double work) {
  if (work / kf_ctx_threads(cpu) > LONGEST) return;
  void *a = need(calloc(size + 1, 1)), *b = need(calloc(size + 1, 1));
  double begin = now();
  call(gpu, job, b);
  double first = now() - begin;
  double on_cpu = time_of(cpu, call, job, a);
  bool same_first = memcmp(a, b, size) == 0;
  double on_gpu = time_of(gpu, call, job, b);
  bool same = same_first && memcmp(a, b, size) == 0;
  printf("%-44s 2^%4.1f a thread  cpu %9.3f  gpu %9.3f  first %9.3f  %6.2f times%s\n", what,
         log2(work / kf_ctx_threads(cpu)), 1e3 * on_cpu, 1e3 * on_gpu, 1e3 * first, on_cpu / on_gpu,
         same ? "" : "  WRONG");
  fflush(stdout);
  wrong += !same;
  free(a);
  free(b);
}

static float *made(uint64_t n, uint32_t dim, uint64_t seed) {
  float *rows = need(malloc(n * dim * sizeof *rows));
  fill_rows(rows, n, dim, seed, KIND_NORMAL);
  return rows;
}

/* --- search ----------------------------------------------------------------------------------- */

typedef struct search_job {
  kf_index *index;
  const float *queries;
  uint64_t n;
} search_job;

enum { NEIGHBOURS = 10 };

static void search(kf_ctx *ctx, void *job, void *out) {
  const search_job *j = job;
  check_ok(ctx, kf_search(ctx, j->index, j->queries, j->n, NEIGHBOURS, NULL, out, NULL, NULL));
}

static void searches(uint32_t dim) {
  static const uint64_t sizes[] = {1000, 10000, 100000, 1000000};
  static const uint64_t asked[] = {1, 16, 256, 4096, 50000};
  float *queries = made(50000, dim, 77);
  for (int s = 0; s < 4; s++) {
    float *rows = made(sizes[s], dim, 5);
    search_job j = {.queries = queries};
    check_ok(cpu, kf_index_new(cpu, rows, sizes[s], dim, NULL, &j.index));
    for (int q = 0; q < 5; q++) {
      char what[64];
      j.n = asked[q];
      snprintf(what, sizeof what, "search %u columns, %llu rows, %llu queries", dim,
               (unsigned long long)sizes[s], (unsigned long long)asked[q]);
      compare(what, search, &j, j.n * NEIGHBOURS * sizeof(int64_t),
              (double)j.n * (double)sizes[s] * dim);
    }
    kf_index_free(j.index);
    free(rows);
  }
  free(queries);
}

/* --- statistics ------------------------------------------------------------------------------- */

typedef struct stats_job {
  const float *rows;
  const int32_t *labels;
  uint64_t n;
  uint32_t dim, classes;
  kf_stats *kept; /* of the last call */
} stats_job;

static void add_up(kf_ctx *ctx, void *job, void *out) {
  stats_job *j = job;
  kf_data *data;
  (void)out; /* compared by stats.c */
  kf_stats_free(j->kept);
  check_ok(ctx,
           kf_data_open_memory(ctx, j->rows, j->n, j->dim, j->labels, NULL, j->classes, &data));
  check_ok(ctx, kf_stats_new_from_data(ctx, data, NULL, &j->kept));
  kf_data_free(data);
}

static stats_job labelled(uint64_t n, uint32_t dim, uint32_t classes) {
  stats_job j = {.rows = made(n, dim, 9), .n = n, .dim = dim, .classes = classes};
  int32_t *labels = need(malloc(n * sizeof *labels));
  for (uint64_t i = 0; i < n; i++) labels[i] = (int32_t)(i % classes);
  j.labels = labels;
  return j;
}

static void clear(stats_job *j) {
  kf_stats_free(j->kept);
  free((void *)(uintptr_t)j->rows);
  free((void *)(uintptr_t)j->labels);
}

static void statistics(uint32_t dim) {
  stats_job j = labelled(1000000, dim, 100);
  for (uint64_t n = 1000; n <= 1000000; n *= 10)
    for (uint64_t times = 1; times <= 3 && times * n <= 1000000; times += 2) {
      char what[64];
      j.n = times * n;
      snprintf(what, sizeof what, "statistics %u columns, %llu rows", dim, (unsigned long long)j.n);
      compare(what, add_up, &j, 0, (double)j.n * dim * dim);
    }
  clear(&j);
}

/* --- using a model ---------------------------------------------------------------------------- */

typedef struct use_job {
  kf_model *model;
  kf_classifier *classifier;
  const float *rows;
  uint64_t n;
} use_job;

static void transform(kf_ctx *ctx, void *job, void *out) {
  const use_job *j = job;
  check_ok(ctx, kf_transform(ctx, j->model, j->rows, j->n, NULL, out));
}

static void classify(kf_ctx *ctx, void *job, void *out) {
  const use_job *j = job;
  check_ok(ctx, kf_classifier_classify(ctx, j->classifier, j->rows, j->n, out, NULL));
}

static void weigh(kf_ctx *ctx, void *job, void *out) {
  const use_job *j = job;
  double *probabilities = out;
  int32_t *classes = (int32_t *)(void *)(probabilities + j->n);
  check_ok(ctx, kf_classifier_probabilities(ctx, j->classifier, j->rows, j->n, classes, NULL,
                                            probabilities));
}

static void use(uint32_t dim, uint32_t dim_out, uint32_t classes, uint64_t most, bool transforms) {
  static const uint64_t sizes[] = {64, 256, 1024, 4096, 16384, 65536, 262144};
  stats_job s = labelled(3 * (uint64_t)classes > 4000 ? 3 * (uint64_t)classes : 4000, dim, classes);
  add_up(cpu, &s, NULL);
  kf_fit_options fit = {.lambda = {1, KF_LAMBDA_RELATIVE}, .dim = dim_out};
  use_job j = {.rows = made(most, dim, 3)};
  check_ok(cpu, kf_fit_stats(cpu, s.kept, &fit, &j.model));
  kf_classify_options options = {.temperature = 20};
  check_ok(cpu, kf_classifier_new(cpu, j.model, &options, &j.classifier));
  for (int i = 0; i < 7 && sizes[i] <= most; i++) {
    char what[96];
    unsigned long long n = j.n = sizes[i];
    double map = (double)n * dim * dim_out, all = map + (double)n * classes * dim_out;
    snprintf(what, sizeof what, "transform %u to %u, %llu rows", dim, dim_out, n);
    if (transforms) compare(what, transform, &j, n * dim_out * sizeof(float), map);
    snprintf(what, sizeof what, "classify %u to %u, %u classes, %llu rows", dim, dim_out, classes,
             n);
    compare(what, classify, &j, n * sizeof(int32_t), all);
    snprintf(what, sizeof what, "probabilities, %u classes, %llu rows", classes, n);
    compare(what, weigh, &j, n * 12, all);
  }
  kf_classifier_free(j.classifier);
  kf_model_free(j.model);
  free((void *)(uintptr_t)j.rows);
  clear(&s);
}

static kf_ctx *context(const char *device, const char *plugin, unsigned threads) {
  kf_ctx *ctx = NULL;
  const kf_device_list *devices;
  kf_ctx_options options = {.threads = threads, .device = device, .device_plugin = plugin};
  if (kf_ctx_new(&options, &ctx) != KF_OK) exit(1);
  double begin = now();
  check_ok(ctx, kf_devices_find(ctx, &devices));
  printf("%s: %s, %u threads, opened in %.3f s\n", device,
         devices->n > 0 ? devices->devices[0].name : kf_isa_name(kf_ctx_isa(ctx)),
         kf_ctx_threads(ctx), now() - begin);
  return ctx;
}

int main(int argc, char **argv) {
  const char *plugin = NULL, *only = NULL;
  unsigned threads = 0;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--only") == 0) only = argv[i + 1];
    if (strcmp(argv[i], "--plugin") == 0) plugin = argv[i + 1];
    if (strcmp(argv[i], "--threads") == 0) threads = (unsigned)strtoul(argv[i + 1], NULL, 10);
  }
  cpu = context("cpu", plugin, threads);
  gpu = context("cuda", plugin, threads);
  if (only == NULL || strcmp(only, "statistics") == 0) {
    statistics(64);
    statistics(768);
  }
  if (only == NULL || strcmp(only, "search") == 0) {
    searches(64);
    searches(768);
  }
  if (only == NULL || strcmp(only, "use") == 0) {
    use(64, 32, 100, 262144, true);
    use(768, 256, 1000, 262144, true);
    use(768, 256, 21841, 16384, false);
  }
  kf_ctx_free(gpu);
  kf_ctx_free(cpu);
  return wrong > 0;
}
