/* latency.c - how long the library takes to search for one query, with which the server is
 * compared.
 *
 *     serve_latency GALLERY QUERIES K SECONDS    prints the median in milliseconds */
#include <koofu.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MOST 100000u

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Searches for the first query again and again; the first tenth of the time does not count. */
static kf_status time_searches(kf_ctx *ctx, const kf_gallery *g, const float *query, uint32_t k,
                               double seconds, double *median) {
  int64_t *rows = calloc(k, sizeof *rows);
  double *scores = calloc(k, sizeof *scores), *times = calloc(MOST, sizeof *times);
  kf_status status = rows && scores && times ? KF_OK : KF_ERR_MEM;
  size_t n = 0;
  double begun = now();
  while (status == KF_OK && n < MOST && now() - begun < seconds) {
    double from = now();
    status = kf_gallery_search(ctx, g, query, 1, k, NULL, rows, scores, NULL);
    if (from - begun > seconds / 10) times[n++] = now() - from;
  }
  if (n > 0) qsort(times, n, sizeof *times, by_value);
  *median = n > 0 ? times[n / 2] : 0;
  free(rows);
  free(scores);
  free(times);
  return status;
}

int main(int argc, char **argv) {
  if (argc != 5) return 2;
  kf_ctx *ctx = NULL;
  kf_gallery *g = NULL;
  kf_data *queries = NULL;
  const char *path = argv[2];
  double median = 0;
  kf_status status = kf_ctx_new(NULL, &ctx);
  if (status == KF_OK) status = kf_gallery_load(ctx, argv[1], NULL, &g);
  if (status == KF_OK)
    status = kf_data_open(ctx, &path, 1, &(kf_data_options){.allow_unlabelled = 1}, &queries);
  float *query = status == KF_OK ? calloc(kf_data_dim(queries), sizeof *query) : NULL;
  if (status == KF_OK && query == NULL) status = KF_ERR_MEM;
  if (status == KF_OK) status = kf_data_get(ctx, queries, 0, 1, query, NULL);
  if (status == KF_OK)
    status = time_searches(ctx, g, query, (uint32_t)atoi(argv[3]), atof(argv[4]), &median);
  if (status == KF_OK)
    printf("%.3f\n", median * 1e3);
  else
    fprintf(stderr, "%s\n", ctx ? kf_errmsg(ctx) : "out of memory");
  free(query);
  kf_data_free(queries);
  kf_gallery_free(g);
  kf_ctx_free(ctx);
  return status != KF_OK;
}
