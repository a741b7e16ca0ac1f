/* stats.c - statistics and a fit on a GPU and on the CPU, with ordinary calls of the library, from
 * a file in the page cache. See run.sh.
 *
 *     stats [--plugin FILE] [--repeat R] [--least MILLIONS] DATA
 *
 * Statistics and models must have the same bytes, and the device must process at least this many
 * million rows per second; otherwise the exit status is 1. */
#include "koofu_comm.h"
#include "koofu_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_REPEATS = 100 };

typedef struct side {
  const char *name;
  kf_ctx *ctx;
  kf_data *data;
  double stats[MAX_REPEATS], fit[MAX_REPEATS]; /* seconds */
  kf_bytes *of_stats, *of_model;               /* as in their files */
} side;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void try(const side *s, kf_status status) {
  if (status == KF_OK) return;
  fprintf(stderr, "stats: %s: %s\n", s->name, kf_errmsg(s->ctx));
  exit(1);
}

static void start(side *s, const char *name, const char *plugin, const char *path) {
  const kf_device_list *devices;
  s->name = name;
  kf_ctx_options options = {.device = name, .device_plugin = plugin};
  if (kf_ctx_new(&options, &s->ctx) != KF_OK) exit(1);
  double begin = now();
  try(s, kf_devices_find(s->ctx, &devices));
  if (devices->n > 0)
    printf("%s: %s, opened in %.2f s\n", name, devices->devices[0].name, now() - begin);
  else
    printf("%s: %u threads, %s\n", name, kf_ctx_threads(s->ctx), kf_isa_name(kf_ctx_isa(s->ctx)));
  try(s, kf_data_open(s->ctx, &path, 1, NULL, &s->data));
}

static void make_stats(side *s, int round) {
  kf_stats *stats;
  double begin = now();
  try(s, kf_stats_new_from_data(s->ctx, s->data, NULL, &stats));
  s->stats[round] = now() - begin;
  if (round == 0) try(s, kf_bytes_new_of_stats(s->ctx, stats, &s->of_stats));
  kf_stats_free(stats);
}

static void make_model(side *s, int round) {
  kf_model *model;
  double begin = now();
  try(s, kf_fit(s->ctx, s->data, NULL, &model, NULL));
  s->fit[round] = now() - begin;
  if (round == 0) try(s, kf_bytes_new_of_model(s->ctx, model, &s->of_model));
  kf_model_free(model);
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Returns million rows per second. */
static double tell(const char *what, const char *name, double *seconds, int n, uint64_t rows) {
  double first = seconds[0];
  qsort(seconds, (size_t)n, sizeof *seconds, by_size);
  double median = seconds[n / 2];
  printf("%-10s %-4s  first %.3f s, median of %d %.3f s (%.3f – %.3f), %.2f million rows/s\n", what,
         name, first, n, median, seconds[0], seconds[n - 1], (double)rows / median / 1e6);
  return (double)rows / median / 1e6;
}

static int differ(const char *what, const kf_bytes *a, const kf_bytes *b) {
  uint64_t n = kf_bytes_size(a);
  int same = n == kf_bytes_size(b) && memcmp(kf_bytes_data(a), kf_bytes_data(b), n) == 0;
  printf("%s: %s\n", what, same ? "the same bytes" : "OTHER BYTES");
  return !same;
}

static void end(side *s) {
  kf_bytes_free(s->of_stats);
  kf_bytes_free(s->of_model);
  kf_data_free(s->data);
  kf_ctx_free(s->ctx);
}

int main(int argc, char **argv) {
  const char *plugin = NULL, *path = NULL;
  int repeat = 5;
  double least = 0;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--plugin") == 0 && i + 1 < argc)
      plugin = argv[++i];
    else if (strcmp(argv[i], "--repeat") == 0 && i + 1 < argc)
      repeat = (int)strtol(argv[++i], NULL, 10);
    else if (strcmp(argv[i], "--least") == 0 && i + 1 < argc)
      least = strtod(argv[++i], NULL);
    else
      path = argv[i];
  }
  if (path == NULL || repeat < 1 || repeat > MAX_REPEATS) {
    fprintf(stderr, "usage: stats [--plugin FILE] [--repeat R] [--least MILLIONS] DATA\n");
    return 2;
  }
  static side gpu, cpu;
  start(&gpu, "cuda", plugin, path);
  start(&cpu, "cpu", NULL, path);
  side *sides[] = {&gpu, &cpu};
  for (int round = 0; round < repeat; round++)
    for (int i = 0; i < 2; i++) {
      make_stats(sides[i], round);
      make_model(sides[i], round);
    }
  uint64_t rows = kf_data_rows(gpu.data);
  printf("%llu rows of %u, %u classes\n", (unsigned long long)rows, kf_data_dim(gpu.data),
         kf_data_classes(gpu.data));
  double rate = tell("statistics", gpu.name, gpu.stats, repeat, rows);
  tell("statistics", cpu.name, cpu.stats, repeat, rows);
  for (int i = 0; i < 2; i++) tell("fit", sides[i]->name, sides[i]->fit, repeat, rows);
  if (least > 0)
    printf("at least %.1f million rows/s: %s\n", least, rate >= least ? "kept" : "MISSED");
  int wrong = rate < least;
  wrong |= differ("statistics", gpu.of_stats, cpu.of_stats);
  wrong |= differ("fit", gpu.of_model, cpu.of_model);
  end(&gpu);
  end(&cpu);
  return wrong;
}
