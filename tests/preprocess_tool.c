/* preprocess_tool.c - what the preprocessor makes of pictures, for tests/oracle/images.py.
 *
 *   preprocess_tool pixels FOLDER SIZE OUT PICTURE...   f32 [n][3][SIZE][SIZE] to the file OUT
 *   preprocess_tool decode OUT PICTURE                  u32 width, u32 height and RGB to the file OUT
 *   preprocess_tool time FOLDER SIZE N PICTURE...       milliseconds a picture, decoding and the rest
 *
 * A picture that cannot be read is reported on standard error, its values in OUT are NaN, and the
 * exit status is 1. */
#include "picture_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static kf_err err;

static int fail(void) {
  fprintf(stderr, "%s\n", err.message);
  return 1;
}

static int pixels(const char *folder, uint32_t size, const char *out, char **paths, int n) {
  kf_preprocess p;
  if (kf_preprocess_read(folder, size, &p, &err) != KF_OK) return fail();
  size_t values = 3 * (size_t)size * size;
  float *result = malloc(values * sizeof *result);
  FILE *file = fopen(out, "wb");
  int status = result == NULL || file == NULL;
  for (int i = 0; i < n && file != NULL && result != NULL; i++) {
    kf_image image;
    kf_status read = read_picture(paths[i], &image, &err);
    if (read == KF_OK) read = kf_preprocess_run(&p, &image, paths[i], result, &err);
    if (read != KF_OK) {
      status = fail();
      for (size_t k = 0; k < values; k++) result[k] = NAN;
    }
    kf_image_clear(&image);
    if (fwrite(result, sizeof *result, values, file) != values) status = 1;
  }
  free(result);
  return (file != NULL && fclose(file) != 0) || status;
}

static int decode(const char *out, const char *path) {
  kf_image image;
  if (read_picture(path, &image, &err) != KF_OK) return fail();
  FILE *file = fopen(out, "wb");
  if (file == NULL) return 1;
  size_t n = (size_t)image.width * image.height * 3;
  fwrite(&image.width, 4, 1, file);
  fwrite(&image.height, 4, 1, file);
  int status = fwrite(image.rgb, 1, n, file) != n;
  kf_image_clear(&image);
  return fclose(file) != 0 || status;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static int measure(const char *folder, uint32_t size, int repeats, char **paths, int n) {
  kf_preprocess p;
  if (kf_preprocess_read(folder, size, &p, &err) != KF_OK) return fail();
  float *result = malloc(3 * (size_t)size * size * sizeof *result);
  double reading = 0, running = 0;
  kf_status status = result != NULL ? KF_OK : kf_fail_memory(&err);
  for (int k = 0; status == KF_OK && k < repeats * n; k++) {
    kf_image image = {0};
    double start = now();
    status = read_picture(paths[k % n], &image, &err);
    double middle = now();
    if (status == KF_OK) status = kf_preprocess_run(&p, &image, paths[k % n], result, &err);
    reading += middle - start;
    running += now() - middle;
    kf_image_clear(&image);
  }
  free(result);
  if (status != KF_OK) return fail();
  printf("%.3f ms read and decoded, %.3f ms resized and normalised\n", reading / (repeats * n),
         running / (repeats * n));
  return 0;
}

int main(int argc, char **argv) {
  if (argc >= 6 && strcmp(argv[1], "pixels") == 0)
    return pixels(argv[2], (uint32_t)atoi(argv[3]), argv[4], argv + 5, argc - 5);
  if (argc == 4 && strcmp(argv[1], "decode") == 0) return decode(argv[2], argv[3]);
  if (argc >= 6 && strcmp(argv[1], "time") == 0)
    return measure(argv[2], (uint32_t)atoi(argv[3]), atoi(argv[4]), argv + 5, argc - 5);
  fprintf(stderr, "usage: see preprocess_tool.c\n");
  return 2;
}
