/* A .safetensors data set: header, tensors, labels and class names inside. */
#include "fuzz.h"

static void use(kf_ctx *ctx, const char *path) { fuzz_read_data(ctx, path, &(kf_data_options){0}); }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  return fuzz_with_file(".safetensors", data, size, use);
}
