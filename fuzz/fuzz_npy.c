/* A .npy as embeddings, and as the labels of four rows. */
#include "fuzz.h"

static void use(kf_ctx *ctx, const char *path) {
  fuzz_read_data(ctx, path, &(kf_data_options){0});
  const char *const labels[] = {path};
  fuzz_read_data(ctx, fuzz_plain_rows(4), &(kf_data_options){.labels = labels, .n_labels = 1});
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  return fuzz_with_file(".npy", data, size, use);
}
