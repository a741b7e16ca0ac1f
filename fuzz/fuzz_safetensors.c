/* A .safetensors data set: header, tensors, labels, class names and ids inside. */
#include "fuzz.h"

static void use(kf_ctx *ctx, const char *path) { fuzz_keep_data(ctx, &path, 1); }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  return fuzz_with_file(".safetensors", data, size, use);
}
