/* A .fvecs file. */
#include "fuzz.h"

static void use(kf_ctx *ctx, const char *path) { fuzz_read_data(ctx, path, &(kf_data_options){0}); }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  return fuzz_with_file(".fvecs", data, size, use);
}
