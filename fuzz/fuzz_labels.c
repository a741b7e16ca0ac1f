/* A text file with one label per line, for as many rows as it has lines. */
#include "fuzz.h"

static uint32_t count_lines(const uint8_t *data, size_t size) {
  uint32_t n = 0;
  for (size_t i = 0; i < size; i++) n += data[i] == '\n' || i == size - 1;
  return n;
}

static uint32_t n_lines;

static void use(kf_ctx *ctx, const char *path) {
  const char *const labels[] = {path};
  fuzz_read_data(ctx, fuzz_plain_rows(n_lines),
                 &(kf_data_options){.labels = labels, .n_labels = 1});
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  n_lines = count_lines(data, size);
  return fuzz_with_file(".txt", data, size, use);
}
