/* knn.c - the paper's table of search times, through the library as anybody would call it: rows in
 * an index, queries and answers on the host. See run.sh. Prints one line for each width:
 *
 *     knn [--rows N] [--queries Q] [--k K] [--kind normal|clusters|outliers|copies] [--f16]
 *         [--pinned] [--check QUERIES] [--repeat R] [--plugin FILE] [--device NAME] DIM...
 *
 * --pinned: queries are in page-locked memory. --check: so many queries are searched for on the CPU
 * as well, and lists and scores must be equal. */
#include "device/device_api.h"
#include "koofu.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct settings {
  uint64_t rows, queries, check;
  uint32_t k;
  int kind, f16, pinned, repeat;
  const char *plugin, *device;
} settings;

static const char *const kinds[] = {"normal", "clusters", "outliers", "copies"};

/* Figures measured elsewhere, seconds: the paper's, and FAISS 1.15 in fp32 on an H200, for 50,000
 * queries in 1,281,167 rows, k = 15. */
static const struct peer {
  uint32_t dim;
  double paper, faiss;
} peers[] = {{768, 2.47, 2.197}, {640, 2.37, 2.099}, {512, 1.97, 1.786}, {384, 1.57, 1.371},
             {256, 1.23, 1.077}, {192, 1.00, 0.866}, {128, 0.76, 0.661}, {96, 0.63, 0.540},
             {76, 0.59, 0.502},  {64, 0.55, 0.467},  {32, 0.45, 0.383}};
#define INT8_PEAK 1979e12 /* operations per second of an H100 or H200, dense */

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *need(void *memory) {
  if (memory != NULL) return memory;
  fprintf(stderr, "knn: out of memory\n");
  exit(1);
}

/* --- rows ------------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdull;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ull;
  return x ^ x >> 33;
}

/* About normal, from one hash: eight uniform bytes. */
static float normal(uint64_t seed) {
  uint64_t x = mix(seed);
  uint64_t pairs = (x & 0x00ff00ff00ff00ffull) + (x >> 8 & 0x00ff00ff00ff00ffull);
  uint32_t sum = (uint32_t)(pairs & 0xffff) + (uint32_t)(pairs >> 16 & 0xffff) +
                 (uint32_t)(pairs >> 32 & 0xffff) + (uint32_t)(pairs >> 48);
  return ((float)sum - 1020.0f) * (1.0f / 209.0f);
}

typedef struct fill_job {
  float *rows;
  uint64_t first, last, seed;
  uint32_t dim;
  int kind;
} fill_job;

static void fill_row(const fill_job *j, uint64_t i, float *row) {
  uint64_t from = j->kind == 3 && i % 1000 != 0 ? i / 7 * 7 : i; /* seven copies of each */
  uint64_t centre = mix(i + j->seed) % 1000;
  for (uint32_t c = 0; c < j->dim; c++) {
    float x = normal(j->seed + from * j->dim + c);
    if (j->kind == 1) x = 0.5f * x + normal(centre * j->dim + c) + 0.3f;
    if (j->kind == 2 && mix(i) % 5000 == 0 && c % 37 == mix(i) % 37) x *= 40;
    row[c] = x;
  }
}

static void *fill(void *argument) {
  const fill_job *j = argument;
  for (uint64_t i = j->first; i < j->last; i++) {
    float *row = j->rows + i * j->dim;
    double sum = 0;
    fill_row(j, i, row);
    for (uint32_t c = 0; c < j->dim; c++) sum += (double)row[c] * (double)row[c];
    float scale = (float)(1 / sqrt(sum));
    for (uint32_t c = 0; c < j->dim; c++) row[c] *= scale;
  }
  return NULL;
}

#define FILLERS 16
static void fill_rows(float *rows, uint64_t n, uint32_t dim, uint64_t seed, int kind) {
  pthread_t thread[FILLERS];
  fill_job job[FILLERS];
  for (unsigned i = 0; i < FILLERS; i++) {
    job[i] = (fill_job){rows, n * i / FILLERS, n * (i + 1) / FILLERS, seed, dim, kind};
    if (pthread_create(&thread[i], NULL, fill, &job[i]) != 0) need(NULL);
  }
  for (unsigned i = 0; i < FILLERS; i++) pthread_join(thread[i], NULL);
}

/* --- page-locked memory ----------------------------------------------------------------------- */

typedef struct locked {
  const kf_device_api *api;
  kf_dev *dev;
} locked;

static void locked_open(locked *l, const settings *s) {
  char message[256] = "";
  void *library = dlopen(s->plugin, RTLD_NOW);
  void *symbol = library != NULL ? dlsym(library, KF_DEVICE_SYMBOL) : NULL;
  if (symbol == NULL) {
    fprintf(stderr, "knn: --pinned needs --plugin FILE\n");
    exit(1);
  }
  kf_device_plugin_fn plugin;
  memcpy(&plugin, &symbol, sizeof plugin);
  l->api = plugin(KF_DEVICE_VERSION);
  if (l->api == NULL || l->api->open(0, &l->dev, message, sizeof message) != KF_DEV_OK) {
    fprintf(stderr, "knn: %s\n", message);
    exit(1);
  }
}

/* --- one width -------------------------------------------------------------------------------- */

static void check_ok(kf_ctx *ctx, kf_status status) {
  if (status == KF_OK) return;
  fprintf(stderr, "knn: %s\n", kf_errmsg(ctx));
  exit(1);
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* How many of the lists of some queries, spread over all, are not those of the CPU. */
static uint64_t count_wrong(const settings *s, const kf_index *index, const float *queries,
                            uint32_t dim, const int64_t *rows, const double *scores) {
  kf_ctx_options options = {.device = "cpu"};
  kf_ctx *cpu;
  if (s->check == 0) return 0;
  check_ok(NULL, kf_ctx_new(&options, &cpu));
  uint64_t n = s->check < s->queries ? s->check : s->queries, wrong = 0, k = s->k;
  float *some = need(malloc(n * dim * sizeof *some));
  int64_t *cpu_rows = need(malloc(n * k * sizeof *cpu_rows));
  double *cpu_scores = need(malloc(n * k * sizeof *cpu_scores));
  for (uint64_t i = 0; i < n; i++)
    memcpy(some + i * dim, queries + i * s->queries / n * dim, dim * sizeof *some);
  check_ok(cpu, kf_search(cpu, index, some, n, s->k, NULL, cpu_rows, cpu_scores, NULL));
  for (uint64_t i = 0; i < n; i++) {
    uint64_t at = i * s->queries / n * k;
    wrong += memcmp(rows + at, cpu_rows + i * k, k * sizeof *rows) != 0 ||
             memcmp(scores + at, cpu_scores + i * k, k * sizeof *scores) != 0;
  }
  free(some);
  free(cpu_rows);
  free(cpu_scores);
  kf_ctx_free(cpu);
  return wrong;
}

static void print_line(const settings *s, uint32_t dim, const double *times, double candidates,
                       double build, double first, uint64_t wrong) {
  double middle = times[s->repeat / 2];
  double operations = 2.0 * (double)s->rows * (double)s->queries * dim;
  printf("%4u %10.3f %9.3f %9.3f %6.0f %5.1f%% %9.1f", dim, middle * 1e3, times[0] * 1e3,
         times[s->repeat - 1] * 1e3, operations / middle * 1e-12,
         operations / middle / INT8_PEAK * 100, candidates);
  int same = s->rows == 1281167 && s->queries == 50000 && s->k == 15;
  for (size_t i = 0; i < sizeof peers / sizeof *peers && same; i++)
    if (peers[i].dim == dim)
      printf("  paper %.2f s, %.1f x; FAISS %.3f s, %.1f x", peers[i].paper,
             peers[i].paper / middle, peers[i].faiss, peers[i].faiss / middle);
  printf("  (index %.2f s, first search %.2f s)", build, first);
  if (s->check > 0) printf("  %llu wrong", (unsigned long long)wrong);
  printf("\n");
  fflush(stdout);
}

static uint64_t run(const settings *s, kf_ctx *ctx, const locked *l, uint32_t dim) {
  float *rows = need(malloc(s->rows * dim * sizeof *rows));
  size_t size = s->queries * dim * sizeof(float);
  float *queries = need(s->pinned ? l->api->host_alloc(l->dev, size) : malloc(size));
  int64_t *found = need(malloc(s->queries * s->k * sizeof *found));
  double *scores = need(malloc(s->queries * s->k * sizeof *scores));
  double *times = need(malloc((size_t)s->repeat * sizeof *times));
  fill_rows(rows, s->rows, dim, (uint64_t)1 << 40, s->kind);
  fill_rows(queries, s->queries, dim, (uint64_t)1 << 50, s->kind);
  kf_index_options options = {
      .metric = KF_METRIC_INNER, .rows_in_place = 1, .dtype = s->f16 ? KF_F16 : KF_F32};
  if (s->f16) options.rows_in_place = 0;
  kf_index *index;
  double start = now();
  check_ok(ctx, kf_index_new(ctx, rows, s->rows, dim, &options, &index));
  double build = now() - start;
  kf_search_report report = {0};
  start = now();
  check_ok(ctx, kf_search(ctx, index, queries, s->queries, s->k, NULL, found, scores, &report));
  double first = now() - start, candidates = (double)report.candidates / (double)s->queries;
  for (int i = 0; i < s->repeat; i++) {
    start = now();
    check_ok(ctx, kf_search(ctx, index, queries, s->queries, s->k, NULL, found, scores, NULL));
    times[i] = now() - start;
  }
  qsort(times, (size_t)s->repeat, sizeof *times, by_value);
  uint64_t wrong = count_wrong(s, index, queries, dim, found, scores);
  print_line(s, dim, times, candidates, build, first, wrong);
  kf_index_free(index);
  free(rows);
  if (s->pinned)
    l->api->host_free(l->dev, queries);
  else
    free(queries);
  free(found);
  free(scores);
  free(times);
  return wrong;
}

/* --- options ---------------------------------------------------------------------------------- */

static int kind_of(const char *name) {
  for (int i = 0; i < 4; i++)
    if (strcmp(name, kinds[i]) == 0) return i;
  fprintf(stderr, "knn: unknown kind '%s'\n", name);
  exit(1);
}

/* Takes one option; returns how many words it was, or 0 if it is none. */
static int take(settings *s, int left, char **word) {
  if (strcmp(word[0], "--f16") == 0) return s->f16 = 1;
  if (strcmp(word[0], "--pinned") == 0) return s->pinned = 1;
  if (strncmp(word[0], "--", 2) != 0 || left < 2) return 0;
  const char *name = word[0] + 2, *value = word[1];
  if (strcmp(name, "rows") == 0) s->rows = strtoull(value, NULL, 10);
  if (strcmp(name, "queries") == 0) s->queries = strtoull(value, NULL, 10);
  if (strcmp(name, "k") == 0) s->k = (uint32_t)strtoul(value, NULL, 10);
  if (strcmp(name, "kind") == 0) s->kind = kind_of(value);
  if (strcmp(name, "check") == 0) s->check = strtoull(value, NULL, 10);
  if (strcmp(name, "repeat") == 0) s->repeat = (int)strtol(value, NULL, 10);
  if (strcmp(name, "plugin") == 0) s->plugin = value;
  if (strcmp(name, "device") == 0) s->device = value;
  return 2;
}

int main(int argc, char **argv) {
  settings s = {
      .rows = 1281167, .queries = 50000, .k = 15, .check = 200, .repeat = 5, .device = "cuda"};
  int at = 1, words;
  uint64_t wrong = 0;
  locked l = {0};
  while (at < argc && (words = take(&s, argc - at, argv + at)) > 0) at += words;
  if (s.repeat < 1) s.repeat = 1;
  kf_ctx_options options = {.device = s.device, .device_plugin = s.plugin};
  kf_ctx *ctx;
  const kf_device_list *devices;
  check_ok(NULL, kf_ctx_new(&options, &ctx));
  check_ok(ctx, kf_devices_find(ctx, &devices));
  if (s.pinned) locked_open(&l, &s);
  printf("%s, %llu rows%s, %llu queries%s, k = %u, %s, median of %d\n",
         devices->n > 0 ? devices->devices[0].name : "CPU", (unsigned long long)s.rows,
         s.f16 ? " in f16" : "", (unsigned long long)s.queries,
         s.pinned ? " in page-locked memory" : "", s.k, kinds[s.kind], s.repeat);
  printf("   d         ms     least      most TOP/s   peak survivors\n");
  for (; at < argc; at++) wrong += run(&s, ctx, &l, (uint32_t)strtoul(argv[at], NULL, 10));
  if (s.pinned) l.api->close(l.dev);
  kf_ctx_free(ctx);
  return wrong > 0;
}
