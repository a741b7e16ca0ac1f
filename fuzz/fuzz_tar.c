/* A .tar as a list of pictures, with classes from .cls and from JSON; every picture is opened. */
#include "encode/pictures.h"
#include "fuzz.h"

static void look(kf_ctx *ctx, const char *path, const char *label_key) {
  kf_pictures *list;
  if (kf_pictures_open_with(ctx, &path, 1, &(kf_pictures_options){.label_key = label_key}, &list) !=
      KF_OK)
    return;
  for (uint64_t i = 0; i < kf_pictures_count(list); i++) {
    kf_extent extent = kf_pictures_extent(list, i);
    kf_err err;
    char *bytes;
    uint64_t n;
    if (kf_read_extent(&extent, 1 << 20, &bytes, &n, &err) == KF_OK) kf_free(bytes);
  }
  kf_err err;
  (void)kf_metadata_write(ctx, list, NULL, true, "/dev/null", &err);
  kf_pictures_free(list);
}

static void use(kf_ctx *ctx, const char *path) {
  look(ctx, path, NULL);
  look(ctx, path, "kind");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  return fuzz_with_file(".tar", data, size, use);
}
