/* Any file given to every reader: the first byte chooses its extension, or that it has none. */
#include "fuzz.h"

#include <stdlib.h>

static void must_say(const kf_ctx *ctx, kf_status status) {
  if (status != KF_OK && kf_errmsg(ctx)[0] == '\0') abort(); /* every failure has a message */
}

static void use(kf_ctx *ctx, const char *path) {
  kf_stats *stats;
  kf_model *model;
  kf_gallery *gallery;
  kf_info *info;
  fuzz_read_data(ctx, path, &(kf_data_options){0});
  const char *const labels[] = {path};
  fuzz_read_data(ctx, fuzz_plain_rows(4), &(kf_data_options){.labels = labels, .n_labels = 1});
  must_say(ctx, kf_stats_load(ctx, path, &stats));
  must_say(ctx, kf_model_load(ctx, path, &model));
  must_say(ctx, kf_gallery_load(ctx, path, NULL, &gallery));
  must_say(ctx, kf_info_read(ctx, path, &info));
  kf_stats_free(stats);
  kf_model_free(model);
  kf_gallery_free(gallery);
  kf_info_free(info);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char *const endings[] = {"",      ".jpg",   ".dat",         ".npy", ".npz",
                                        ".fbin", ".fvecs", ".safetensors", ".csv", ".txt"};
  if (size == 0) return 0;
  return fuzz_with_file(endings[data[0] % (sizeof endings / sizeof *endings)], data + 1, size - 1,
                        use);
}
