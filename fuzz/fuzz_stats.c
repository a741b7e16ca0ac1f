/* A statistics file. If it loads, it must save unchanged, merge with itself, and fit. */
#include "fuzz.h"

#include <stdlib.h>

static void keep(kf_ctx *ctx, const kf_stats *stats) {
  const char *once = fuzz_path("once.safetensors"), *twice = fuzz_path("twice.safetensors");
  kf_stats *again;
  if (kf_stats_save(ctx, stats, once) != KF_OK || kf_stats_load(ctx, once, &again) != KF_OK ||
      kf_stats_save(ctx, again, twice) != KF_OK)
    abort();
  kf_stats_free(again);
  fuzz_same_bytes(once, twice);
}

static void use(kf_ctx *ctx, const char *path) {
  kf_stats *stats, *twin;
  if (kf_stats_load(ctx, path, &stats) != KF_OK) return;
  keep(ctx, stats);
  if (kf_stats_load(ctx, path, &twin) == KF_OK) {
    kf_stats_merge(ctx, twin, stats);
    kf_stats_free(twin);
  }
  kf_model *model;
  if (kf_stats_dim(stats) <= 64 && kf_fit_stats(ctx, stats, NULL, &model) == KF_OK)
    kf_model_free(model);
  kf_stats_free(stats);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  return fuzz_with_checked_file(data, size, use);
}
