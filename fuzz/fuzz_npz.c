/* An .npz as a data set, by default array and by name, and as the labels of four rows. */
#include "fuzz.h"

#include <stdio.h>

static void use(kf_ctx *ctx, const char *path) {
  char array[160];
  snprintf(array, sizeof array, "%s:x", path);
  fuzz_read_data(ctx, path, &(kf_data_options){0});
  fuzz_read_data(ctx, array, &(kf_data_options){.inner_labels = KF_OFF});
  const char *const labels[] = {path};
  fuzz_read_data(ctx, fuzz_plain_rows(4), &(kf_data_options){.labels = labels, .n_labels = 1});
  kf_info *info;
  if (kf_info_read(ctx, path, &info) == KF_OK) kf_info_free(info);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  return fuzz_with_file(".npz", data, size, use);
}
