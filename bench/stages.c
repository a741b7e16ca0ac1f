/* stages.c - how long each stage of kf_fit takes, best of five, in milliseconds.
 *
 *     cc -O2 -Iinclude bench/stages.c build/libkoofu.a -lpthread -lm -o build/stages
 *     build/stages STATS.safetensors THREADS */
#include <koofu.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MOST = 16, ROUNDS = 5 };
static double best[MOST + 1], last;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static void keep(uint64_t stage, double spent) {
  if (stage <= MOST && (best[stage] == 0 || spent < best[stage])) best[stage] = spent;
}

/* Called before the first stage with 0, and after stage n with n. */
static int note(void *user, const char *what, uint64_t done, uint64_t total) {
  (void)user;
  (void)what;
  (void)total;
  double t = now();
  if (done > 0) keep(done, t - last);
  last = t;
  return 0;
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  kf_ctx_options options = {.threads = (unsigned)atoi(argv[2]), .progress = note};
  kf_ctx *ctx = NULL;
  kf_stats *stats = NULL;
  kf_status status = kf_ctx_new(&options, &ctx);
  if (status == KF_OK) status = kf_stats_load(ctx, argv[1], &stats);
  for (int round = 0; round < ROUNDS && status == KF_OK; round++) {
    kf_model *model = NULL;
    double begun = now();
    status = kf_fit_stats(ctx, stats, NULL, &model);
    keep(MOST, now() - begun);
    kf_model_free(model);
  }
  if (status != KF_OK) fprintf(stderr, "stages: %s\n", kf_errmsg(ctx));
  for (int i = 1; i < MOST && best[i] > 0; i++) printf("stage %d: %.0f ms\n", i, best[i]);
  if (status == KF_OK) printf("together: %.0f ms\n", best[MOST]);
  kf_stats_free(stats);
  kf_ctx_free(ctx);
  return status == KF_OK ? 0 : 1;
}
