/* Two .safetensors files as one data set: columns, class names, labels and encoders of both must go
 * together. The first two bytes are the length of the first file. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

static void read_both(const char *const paths[2], int any_encoder) {
  kf_ctx *ctx;
  kf_ctx_options options = {.threads = 1, .isa = KF_ISA_PLAIN, .any_encoder = any_encoder};
  if (kf_ctx_new(&options, &ctx) != KF_OK) abort();
  fuzz_keep_data(ctx, paths, 2);
  kf_data *first, *second;
  if (kf_data_open(ctx, &paths[0], 1, NULL, &first) == KF_OK &&
      kf_data_open(ctx, &paths[1], 1, NULL, &second) == KF_OK) {
    const kf_origin *a = kf_data_origin(first), *b = kf_data_origin(second);
    int agree = kf_origins_agree(ctx, a, b) == KF_OK;
    int same = a == NULL || b == NULL || kf_origin_checksum(a) == kf_origin_checksum(b);
    if (agree != (same || any_encoder)) abort();
    if (a != NULL && kf_origin_name(a)[0] == '\0') abort();
    kf_data_free(second);
  }
  kf_data_free(first);
  kf_ctx_free(ctx);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 2) return 0;
  size_t length = data[0] | (size_t)data[1] << 8;
  if (length > size - 2) length = size - 2;
  /* A long path: messages keep its end, which starts in the middle of a character here. */
  char name[256];
  for (size_t i = 0; i < 230; i++) name[i] = "\xc3\xa9"[i % 2];
  strcpy(name + 230, ".safetensors");
  const char *const paths[] = {
      fuzz_write(name, data + 2, length),
      fuzz_write("second.safetensors", data + 2 + length, size - 2 - length)};
  read_both(paths, 0);
  read_both(paths, 1);
  return 0;
}
