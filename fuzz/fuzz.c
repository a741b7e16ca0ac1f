/* fuzz.c - files for the fuzz targets, and what they do with a data set. */
#include "fuzz.h"

#include "base/base.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_FILES = 16, BLOCK = 256 };

static char folder[64];
static char paths[MAX_FILES][512];
static size_t n_paths;

static void must(int holds) {
  if (!holds) {
    perror("fuzz");
    abort();
  }
}

/* --- files ----------------------------------------------------------------------------------- */

static void remove_folder(void) {
  for (size_t i = 0; i < n_paths; i++) unlink(paths[i]);
  rmdir(folder);
}

/* In memory where possible: a run writes millions of files. */
static void make_folder(void) {
  if (folder[0] != '\0') return;
  strcpy(folder,
         access("/dev/shm", W_OK) == 0 ? "/dev/shm/koofu-fuzz-XXXXXX" : "/tmp/koofu-fuzz-XXXXXX");
  must(mkdtemp(folder) != NULL);
  atexit(remove_folder);
}

const char *fuzz_path(const char *name) {
  make_folder();
  char path[sizeof paths[0]];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  for (size_t i = 0; i < n_paths; i++)
    if (strcmp(paths[i], path) == 0) return paths[i];
  must(n_paths < MAX_FILES);
  return strcpy(paths[n_paths++], path);
}

const char *fuzz_write(const char *name, const void *data, size_t size) {
  const char *path = fuzz_path(name);
  FILE *file = fopen(path, "wb");
  must(file != NULL);
  must(size == 0 || fwrite(data, 1, size, file) == size);
  must(fclose(file) == 0);
  return path;
}

void fuzz_same_bytes(const char *a, const char *b) {
  FILE *first = fopen(a, "rb"), *second = fopen(b, "rb");
  must(first != NULL && second != NULL);
  for (int c = 0; c != EOF;) {
    c = getc(first);
    if (getc(second) != c) abort();
  }
  fclose(first);
  fclose(second);
}

const char *fuzz_plain_rows(uint32_t n) {
  uint32_t *words = malloc((2 + (size_t)n) * sizeof *words);
  must(words != NULL);
  words[0] = n;
  words[1] = 1;
  float one = 1;
  for (uint32_t i = 0; i < n; i++) memcpy(words + 2 + i, &one, sizeof one);
  const char *path = fuzz_write("rows.fbin", words, (2 + (size_t)n) * sizeof *words);
  free(words);
  return path;
}

/* --- one input ------------------------------------------------------------------------------- */

int fuzz_with_file(const char *ending, const uint8_t *data, size_t size,
                   void (*use)(kf_ctx *ctx, const char *path)) {
  char name[32];
  snprintf(name, sizeof name, "input%s", ending);
  const char *path = fuzz_write(name, data, size);
  kf_ctx *ctx;
  kf_ctx_options options = {.threads = 1, .isa = KF_ISA_PLAIN};
  must(kf_ctx_new(&options, &ctx) == KF_OK);
  use(ctx, path);
  kf_ctx_free(ctx);
  return 0;
}

int fuzz_with_checked_file(const uint8_t *data, size_t size,
                           void (*use)(kf_ctx *ctx, const char *path)) {
  static const char key[] = "\"checksum\":\"";
  uint8_t *copy = malloc(size + 1);
  must(copy != NULL);
  memcpy(copy, data, size);
  uint8_t *digits = memmem(copy, size, key, sizeof key - 1);
  if (digits != NULL && (size_t)(copy + size - digits) >= sizeof key - 1 + 16) {
    digits += sizeof key - 1;
    memset(digits, '0', 16);
    kf_checksum hash;
    kf_checksum_start(&hash);
    kf_checksum_add(&hash, copy, size);
    char text[17];
    snprintf(text, sizeof text, "%016llx", (unsigned long long)kf_checksum_value(&hash));
    memcpy(digits, text, 16);
  }
  int result = fuzz_with_file(".safetensors", copy, size, use);
  free(copy);
  return result;
}

/* --- data sets ------------------------------------------------------------------------------- */

static void read_rows(kf_ctx *ctx, const kf_data *data) {
  uint64_t n = kf_data_rows(data);
  float *rows = malloc((size_t)BLOCK * kf_data_dim(data) * sizeof *rows);
  must(rows != NULL);
  int32_t labels[BLOCK];
  for (uint64_t first = 0; first < n; first += BLOCK) {
    uint64_t count = n - first < BLOCK ? n - first : BLOCK;
    if (kf_data_get(ctx, data, first, count, rows, labels) != KF_OK) break;
    for (uint64_t i = 0; i < count; i++)
      if (labels[i] >= 0 && (uint32_t)labels[i] >= kf_data_classes(data)) abort();
  }
  free(rows);
}

static void read_ids(kf_ctx *ctx, const kf_data *data) {
  static char id[65537]; /* the longest there may be */
  for (uint64_t row = 0; kf_data_has_ids(data) && row < kf_data_rows(data) && row < 64; row++)
    if (kf_data_get_id(ctx, data, row, id, sizeof id) == KF_OK && id[0] == '\0') abort();
  if (kf_data_get_id(ctx, data, kf_data_rows(data), id, sizeof id) == KF_OK ||
      kf_data_get_id(ctx, data, 0, id, 1) == KF_OK)
    abort(); /* there is no such row, or no room for its id */
}

static void read_all(kf_ctx *ctx, const kf_data *data) {
  read_rows(ctx, data);
  read_ids(ctx, data);
}

void fuzz_read_data(kf_ctx *ctx, const char *path, const kf_data_options *options) {
  kf_data_options chosen = *options;
  for (int lenient = 0; lenient < 2; lenient++) {
    chosen.skip_bad = chosen.allow_unlabelled = chosen.allow_unknown = lenient;
    kf_data *data;
    if (kf_data_open(ctx, &path, 1, &chosen, &data) != KF_OK) {
      if (kf_errmsg(ctx)[0] == '\0') abort(); /* every failure has a message */
      continue;
    }
    read_all(ctx, data);
    kf_data_free(data);
  }
}

/* Saves what was saved once more: both files must have the same bytes. */
static void save(kf_ctx *ctx, const kf_data *data) {
  const char *once = fuzz_path("once.safetensors"), *twice = fuzz_path("twice.safetensors");
  if (kf_data_save(ctx, data, KF_F32, once) != KF_OK) return;
  kf_data *again;
  if (kf_data_open(ctx, &once, 1, &(kf_data_options){.allow_unlabelled = 1}, &again) != KF_OK ||
      kf_data_save(ctx, again, KF_F32, twice) != KF_OK)
    abort();
  kf_data_free(again);
  fuzz_same_bytes(once, twice);
}

void fuzz_keep_data(kf_ctx *ctx, const char *const *files, size_t n) {
  for (int lenient = 0; lenient < 2; lenient++) {
    kf_data *data;
    kf_data_options options = {
        .skip_bad = lenient, .allow_unlabelled = lenient, .allow_unknown = lenient};
    if (kf_data_open(ctx, files, n, &options, &data) != KF_OK) {
      if (kf_errmsg(ctx)[0] == '\0') abort(); /* every failure has a message */
      continue;
    }
    read_all(ctx, data);
    save(ctx, data);
    kf_data_free(data);
  }
}
