/* A model file. If it loads, it must save and load unchanged, and classify a row. */
#include "fuzz.h"

#include <stdlib.h>

static void keep(kf_ctx *ctx, const kf_model *model) {
  const char *once = fuzz_path("once.safetensors"), *twice = fuzz_path("twice.safetensors");
  kf_model *again;
  if (kf_model_save(ctx, model, once) != KF_OK || kf_model_load(ctx, once, &again) != KF_OK ||
      kf_model_save(ctx, again, twice) != KF_OK)
    abort();
  kf_model_free(again);
  fuzz_same_bytes(once, twice);
}

static void use(kf_ctx *ctx, const char *path) {
  kf_model *model;
  if (kf_model_load(ctx, path, &model) != KF_OK) return;
  keep(ctx, model);
  uint32_t dim = kf_model_dim_in(model);
  float *row = malloc(dim * sizeof *row);
  if (row == NULL) abort();
  for (uint32_t i = 0; i < dim; i++) row[i] = 1;
  int32_t class;
  double score;
  kf_classify(ctx, model, row, 1, NULL, &class, &score);
  free(row);
  kf_model_free(model);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  return fuzz_with_checked_file(data, size, use);
}
