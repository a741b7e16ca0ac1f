/* A preprocessor_config.json. If it is accepted, it must work on pictures of odd shapes. */
#include "fuzz.h"

#include "encode/image.h"

#include <stdlib.h>
#include <string.h>

enum { SIZE = 16 };

static void run(const kf_preprocess *p, uint32_t width, uint32_t height) {
  static uint8_t rgb[65536 * 3];
  static float out[3 * SIZE * SIZE];
  kf_image image = {.width = width, .height = height, .rgb = rgb};
  kf_err err;
  kf_preprocess_run(p, &image, "picture", out, &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char folder[128];
  strcpy(folder, fuzz_write("preprocessor_config.json", data, size));
  *strrchr(folder, '/') = '\0';
  kf_err err = {0};
  kf_preprocess p;
  if (kf_preprocess_read(folder, SIZE, &p, &err) == KF_OK) {
    run(&p, 16, 16);
    run(&p, 1, 1);
    run(&p, 64, 3);
    run(&p, 5, 60);
    if (p.shortest_edge == 65536) run(&p, 65536, 1); /* 2^32 columns */
  } else if (err.message[0] == '\0') {
    abort(); /* every failure has a message */
  }
  return 0;
}
