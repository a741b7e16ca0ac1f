/* test.h - shared by the C tests: cmocka, a context, random numbers, a temporary folder. */
#ifndef KF_TEST_H
#define KF_TEST_H

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "koofu.h"
#include "koofu_comm.h"
#include "koofu_encode.h"
#include "koofu_files.h"
#include "koofu_judge.h"

/* --- cases that this machine cannot run ------------------------------------------------------ */

/* tools/skipped.py looks for these lines. */
#define TEST_SKIPPED "skipped: no %s here\n"

static unsigned test_n_skipped;

/* Skips this case for want of an instruction set or a library. */
static inline void test_skip(const char *missing) {
  print_message(TEST_SKIPPED, missing);
  test_n_skipped++;
  skip();
}

/* What main returns: 77, which ctest shows as skipped, if test_skip skipped all cases. */
static inline int test_result(int failed, size_t cases) {
  return failed == 0 && test_n_skipped == cases ? 77 : failed;
}

/* kf_isa_available, for loops over instruction sets: names a missing one, once. */
static inline bool test_has_isa(kf_isa isa) {
  static bool told[16];
  if (kf_isa_available(isa)) return true;
  if (!told[isa]) print_message(TEST_SKIPPED, kf_isa_name(isa));
  told[isa] = true;
  return false;
}

/* --------------------------------------------------------------------------------------------- */

/* splitmix64, so that every run tests the same numbers. */
static inline uint64_t test_random(uint64_t *state) {
  uint64_t z = (*state += 0x9E3779B97F4A7C15u);
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}

/* Uniform in [-1, 1). */
static inline double test_uniform(uint64_t *state) {
  return (double)(int64_t)test_random(state) * 0x1p-63;
}

/* Nearly normal: mean 0, variance 1. */
static inline double test_normal(uint64_t *state) {
  double sum = 0;
  for (int i = 0; i < 12; i++) sum += test_uniform(state);
  return sum / 2;
}

static inline kf_ctx *test_ctx(unsigned threads, kf_isa isa) {
  kf_ctx *ctx = NULL;
  kf_ctx_options options = {.threads = threads, .isa = isa};
  assert_int_equal(kf_ctx_new(&options, &ctx), KF_OK);
  return ctx;
}

/* Fails with koofu's own message. */
#define assert_ok(ctx, call)                                                                       \
  do {                                                                                             \
    kf_status test_status = (call);                                                                \
    if (test_status != KF_OK) fail_msg("%s: %s", #call, kf_errmsg(ctx));                           \
  } while (0)

/* The call must fail with this status, and its message must hold the text. */
#define assert_error(ctx, status, text, call)                                                      \
  do {                                                                                             \
    kf_status test_status = (call);                                                                \
    if (test_status != (status) || strstr(kf_errmsg(ctx), (text)) == NULL)                         \
      fail_msg("%s: status %d, message '%s'; wanted %d with '%s'", #call, (int)test_status,        \
               kf_errmsg(ctx), (int)(status), (text));                                             \
  } while (0)

/* For tests that write thousands of files, of which none has to outlive the machine: fsync would take
 * most of their time. */
static inline void test_in_memory(void) {
  if (getenv("TMPDIR") == NULL && access("/dev/shm", W_OK) == 0) setenv("TMPDIR", "/dev/shm", 1);
}

/* A new folder under the temporary one; the name is static. */
static inline const char *test_folder(void) {
  static char folder[256];
  const char *base = getenv("TMPDIR");
  snprintf(folder, sizeof folder, "%s/koofu-test-XXXXXX", base != NULL ? base : "/tmp");
  assert_non_null(mkdtemp(folder));
  return folder;
}

static inline void test_remove(const char *folder) {
  char command[512];
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  assert_int_equal(system(command), 0);
}

/* folder/name in one of a few static buffers. */
static inline const char *test_path(const char *folder, const char *name) {
  static char paths[8][512];
  static unsigned next;
  char *path = paths[next++ % 8];
  snprintf(path, sizeof paths[0], "%s/%s", folder, name);
  return path;
}

/* The number of entries in a folder, hidden ones as well. */
static inline int test_entries(const char *folder) {
  DIR *dir = opendir(folder);
  int n = 0;
  assert_non_null(dir);
  for (const struct dirent *entry; (entry = readdir(dir)) != NULL;)
    n += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
  closedir(dir);
  return n;
}

/* The whole of a file; the caller frees it. */
static inline char *test_read(const char *path, size_t *size) {
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  fseek(file, 0, SEEK_END);
  *size = (size_t)ftell(file);
  rewind(file);
  char *bytes = malloc(*size + 1);
  assert_non_null(bytes);
  assert_int_equal(fread(bytes, 1, *size, file), *size);
  fclose(file);
  return bytes;
}

static inline void assert_same_file(const char *a, const char *b) {
  size_t n, m;
  char *x = test_read(a, &n), *y = test_read(b, &m);
  assert_int_equal(n, m);
  assert_memory_equal(x, y, n);
  free(x);
  free(y);
}

/* Options for tests of the paper's method, whose formulas are the simpler ones. */
static inline const kf_fit_options *paper(void) {
  static const kf_fit_options options = {.method = KF_METHOD_PAPER};
  return &options;
}

#endif
