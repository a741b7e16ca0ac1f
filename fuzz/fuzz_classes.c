/* A text file with one class name per line, for two rows labelled with text. */
#include "fuzz.h"

static void use(kf_ctx *ctx, const char *path) {
  const char *const labels[] = {fuzz_write("labels.txt", "cat\ndog\n", 8)};
  kf_data_options options = {.labels = labels, .n_labels = 1, .classes = path};
  fuzz_read_data(ctx, fuzz_plain_rows(2), &options);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  return fuzz_with_file(".classes", data, size, use);
}
