/* replay_main.c - runs a fuzz target over stored inputs without libFuzzer: replay_X FOLDER…
 *
 * Part of `make test`, so that bugs found by fuzzing stay fixed. */
#include "fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int replay(const char *path) {
  FILE *file = fopen(path, "rb");
  if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
    perror(path);
    return 1;
  }
  size_t size = (size_t)ftell(file);
  rewind(file);
  uint8_t *data = malloc(size + 1);
  int failed = data == NULL || fread(data, 1, size, file) != size;
  fclose(file);
  if (!failed) LLVMFuzzerTestOneInput(data, size);
  free(data);
  return failed;
}

/* Returns the number of inputs that ran, or -1. */
static int replay_folder(const char *folder) {
  DIR *entries = opendir(folder);
  if (entries == NULL) {
    perror(folder);
    return -1;
  }
  int n = 0;
  for (const struct dirent *entry; n >= 0 && (entry = readdir(entries)) != NULL;) {
    if (entry->d_name[0] == '.') continue;
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    n = replay(path) == 0 ? n + 1 : -1;
  }
  closedir(entries);
  return n;
}

int main(int argc, char **argv) {
  int total = 0;
  for (int i = 1; i < argc; i++) {
    int n = replay_folder(argv[i]);
    if (n < 0) return 1;
    total += n;
  }
  printf("%d inputs\n", total);
  return total > 0 ? 0 : 1; /* an empty corpus is an error */
}
