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

/* --- suites ----------------------------------------------------------------------------------- */

/* Each test_*.c is a suite, named after the file. TEST(name) { … } is one of its cases, which run
 * in the order of the file. FIXTURES(.before = f, .after = g) sets functions around all cases,
 * .before_each and .after_each around every case. suite.c has main. */
enum { TEST_MOST_CASES = 128 };

typedef struct test_suite {
  int (*before)(void **state), (*after)(void **state);
  int (*before_each)(void **state), (*after_each)(void **state);
  char name[32];
  struct CMUnitTest cases[TEST_MOST_CASES];
  size_t n;
  struct test_suite *next;
} test_suite;

/* Adds a case; `file` is __BASE_FILE__. */
void test_add(test_suite *suite, const char *file, const char *name, void (*run)(void **state),
              void *state);

__attribute__((unused)) static test_suite test_here;

#define FIXTURES(...) static test_suite test_here = {__VA_ARGS__}

#define TEST(case_name)                                                                            \
  static void run_##case_name##_test(void **state);                                                \
  __attribute__((constructor)) static void add_##case_name##_test(void) {                          \
    test_add(&test_here, __BASE_FILE__, #case_name, run_##case_name##_test, NULL);                 \
  }                                                                                                \
  static void run_##case_name##_test(__attribute__((unused)) void **state)

/* Cases from a table: a body that calls ADD_TEST for each. */
#define TESTS                      __attribute__((constructor)) static void test_add_table(void)
#define ADD_TEST(name, run, state) test_add(&test_here, __BASE_FILE__, name, run, state)

/* --- cases that this machine cannot run ------------------------------------------------------ */

/* The line that tools/skipped.py looks for. */
#define TEST_SKIPPED "skipped: no %s here\n"

/* Skips this case because an instruction set or a library is missing. */
void test_skip(const char *missing);

/* kf_isa_available for loops over instruction sets; reports a missing one once. */
static inline bool test_has_isa(kf_isa isa) {
  static bool told[16];
  if (kf_isa_available(isa)) return true;
  if (!told[isa]) print_message(TEST_SKIPPED, kf_isa_name(isa));
  told[isa] = true;
  return false;
}

/* --------------------------------------------------------------------------------------------- */

/* splitmix64: every run tests the same numbers. */
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

/* AUTO(kf_data) *data = NULL; AUTO(world) w = …; AUTOFREE char *bytes = …; are freed at the end of
 * their scope, in reverse order; not after a failed check. */
#define AUTO(type) __attribute__((cleanup(auto_##type))) type
#define AUTOFREE   __attribute__((cleanup(free_variable)))

/* What AUTO needs for a type: TYPE_free, or a function that takes a pointer to the struct. */
#define AUTO_OBJECT(type)                                                                          \
  static inline void auto_##type(type **object) { type##_free(*object); }
#define AUTO_STRUCT(type, clear)                                                                   \
  static inline void auto_##type(type *object) { clear(object); }

static inline void free_variable(void *variable) {
  void *memory;
  memcpy(&memory, variable, sizeof memory);
  free(memory);
}

AUTO_OBJECT(kf_analysis)
AUTO_OBJECT(kf_bytes)
AUTO_OBJECT(kf_calibration)
AUTO_OBJECT(kf_class_names)
AUTO_OBJECT(kf_class_set)
AUTO_OBJECT(kf_ctx)
AUTO_OBJECT(kf_data)
AUTO_OBJECT(kf_dim_choice)
AUTO_OBJECT(kf_encoder)
AUTO_OBJECT(kf_filter)
AUTO_OBJECT(kf_fit_report)
AUTO_OBJECT(kf_fuse_choice)
AUTO_OBJECT(kf_gallery)
AUTO_OBJECT(kf_hierarchy)
AUTO_OBJECT(kf_index)
AUTO_OBJECT(kf_info)
AUTO_OBJECT(kf_k_choice)
AUTO_OBJECT(kf_lambda_choice)
AUTO_OBJECT(kf_model)
AUTO_OBJECT(kf_pictures)
AUTO_OBJECT(kf_prompts)
AUTO_OBJECT(kf_ranges)
AUTO_OBJECT(kf_reader)
AUTO_OBJECT(kf_shots)
AUTO_OBJECT(kf_stats)
AUTO_OBJECT(kf_sweep)
AUTO_OBJECT(kf_text)
AUTO_OBJECT(kf_truth)
AUTO_OBJECT(kf_verdicts)

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

/* A fixture for suites that write thousands of files: temporary folders go to memory, where fsync
 * costs nothing. */
static inline int test_in_memory(void **state) {
  (void)state;
  return getenv("TMPDIR") != NULL || access("/dev/shm", W_OK) != 0
             ? 0
             : setenv("TMPDIR", "/dev/shm", 1);
}

/* Makes a new temporary folder; the name is static. */
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

/* folder/name, in one of eight static buffers. */
static inline const char *test_path(const char *folder, const char *name) {
  static char paths[8][512];
  static unsigned next;
  char *path = paths[next++ % 8];
  snprintf(path, sizeof paths[0], "%s/%s", folder, name);
  return path;
}

/* The number of entries in a folder, including hidden ones. */
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
  AUTOFREE char *x = test_read(a, &n), *y = test_read(b, &m);
  assert_int_equal(n, m);
  assert_memory_equal(x, y, n);
}

/* Options for the paper's method, whose formulas are simpler. */
static inline const kf_fit_options *paper(void) {
  static const kf_fit_options options = {.method = KF_METHOD_PAPER};
  return &options;
}

#endif
