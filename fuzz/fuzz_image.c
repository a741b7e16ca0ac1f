/* A picture of any format, decoded under a small memory limit and preprocessed. */
#include "fuzz.h"

#include "encode/image.h"

#include <stdlib.h>
#include <string.h>

enum { SIZE = 32, MAX_PIXELS = 1 << 18 };

static uint32_t crc(const uint8_t *p, size_t n) {
  uint32_t value = 0xffffffff;
  while (n-- > 0) {
    value ^= *p++;
    for (int k = 0; k < 8; k++) value = value >> 1 ^ (value & 1 ? 0xedb88320 : 0);
  }
  return ~value;
}

/* Corrects the checksums of a PNG, which a fuzzer cannot guess. */
static void mend(uint8_t *bytes, size_t n) {
  if (n < 8 || memcmp(bytes, "\x89PNG", 4) != 0) return;
  for (size_t at = 8; n - at >= 12;) {
    uint8_t *p = bytes + at;
    size_t length = (size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3];
    if (length > n - at - 12) return;
    uint32_t value = crc(p + 4, length + 4);
    for (int i = 0; i < 4; i++) p[8 + length + (size_t)i] = (uint8_t)(value >> (24 - 8 * i));
    at += length + 12;
  }
}

/* The shape of the picture chooses one of the preprocessings. */
static kf_preprocess choose(const kf_image *image) {
  kf_preprocess p = {.image_size = SIZE,
                     .resize = true,
                     .shortest_edge = image->width % 2 == 0 ? SIZE : 0,
                     .resize_width = SIZE,
                     .resize_height = SIZE,
                     .resample = (kf_resample)(image->height % 3),
                     .crop = true,
                     .crop_width = SIZE,
                     .crop_height = SIZE,
                     .rescale = true,
                     .rescale_factor = 1 / 255.0};
  return p;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  uint8_t *copy = malloc(size > 0 ? size : 1);
  if (copy == NULL) abort();
  if (size > 0) memcpy(copy, data, size);
  mend(copy, size);
  kf_err err;
  kf_image image;
  static float out[3 * SIZE * SIZE];
  if (kf_image_decode(copy, size, MAX_PIXELS, "input", &image, &err) == KF_OK) {
    kf_preprocess p = choose(&image);
    if ((uint64_t)image.width * image.height > MAX_PIXELS) abort();
    if (kf_preprocess_run(&p, &image, "input", out, &err) != KF_OK) abort();
  } else if (strncmp(err.message, "input: ", 7) != 0) {
    abort(); /* every failure names the picture */
  }
  kf_image_clear(&image);
  free(copy);
  return 0;
}
