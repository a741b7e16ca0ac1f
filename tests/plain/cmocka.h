/* cmocka.h - the part of cmocka that the tests of devices use, for GPU machines on which nothing can be
 * installed. tests/devices/CMakeLists.txt takes the real one where it is there. */
#ifndef KF_PLAIN_CMOCKA_H
#define KF_PLAIN_CMOCKA_H

#include <fnmatch.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CMUnitTest {
  const char *name;
  void (*test)(void **state);
  int (*setup)(void **state);
  int (*teardown)(void **state);
};
#define cmocka_unit_test(f)                                                                        \
  { #f, f, NULL, NULL }
#define cmocka_unit_test_setup_teardown(f, setup, teardown)                                        \
  { #f, f, setup, teardown }

enum { PLAIN_FAILED = 1, PLAIN_SKIPPED = 2 };
static jmp_buf plain_end; /* of the case that runs */

static inline void print_message(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vprintf(format, arguments);
  va_end(arguments);
  fflush(stdout);
}

static inline _Noreturn void plain_fail(const char *file, int line, const char *what) {
  print_message("%s:%d: %s\n", file, line, what);
  longjmp(plain_end, PLAIN_FAILED);
}
static inline _Noreturn void plain_skip(void) { longjmp(plain_end, PLAIN_SKIPPED); }

#define skip() plain_skip()
#define fail() plain_fail(__FILE__, __LINE__, "failed")
#define fail_msg(...)                                                                              \
  do {                                                                                             \
    print_message(__VA_ARGS__);                                                                    \
    print_message("\n");                                                                           \
    fail();                                                                                        \
  } while (0)
#define PLAIN_CHECK(holds, what)                                                                   \
  do {                                                                                             \
    if (!(holds)) plain_fail(__FILE__, __LINE__, what);                                            \
  } while (0)

#define assert_true(x)               PLAIN_CHECK(x, #x " is not true")
#define assert_false(x)              PLAIN_CHECK(!(x), #x " is not false")
#define assert_null(x)               PLAIN_CHECK((x) == NULL, #x " is not NULL")
#define assert_non_null(x)           PLAIN_CHECK((x) != NULL, #x " is NULL")
#define assert_ptr_equal(x, y)       PLAIN_CHECK((const void *)(x) == (const void *)(y), #x " is not " #y)
#define assert_string_equal(x, y)    PLAIN_CHECK(strcmp(x, y) == 0, #x " is not " #y)
#define assert_memory_equal(x, y, n) PLAIN_CHECK(memcmp(x, y, n) == 0, #x " and " #y " differ")
#define assert_int_not_equal(x, y)   PLAIN_CHECK((intmax_t)(x) != (intmax_t)(y), #x " is " #y)
#define assert_in_range(x, low, high)                                                              \
  PLAIN_CHECK((uintmax_t)(x) >= (uintmax_t)(low) && (uintmax_t)(x) <= (uintmax_t)(high),           \
              #x " is not in " #low " … " #high)
#define assert_int_equal(x, y)                                                                     \
  do {                                                                                             \
    intmax_t plain_x = (intmax_t)(x), plain_y = (intmax_t)(y);                                     \
    if (plain_x != plain_y) print_message("%jd, not %jd\n", plain_x, plain_y);                     \
    PLAIN_CHECK(plain_x == plain_y, #x " is not " #y);                                             \
  } while (0)

static const char *plain_filter; /* a pattern that names of cases match; NULL: all do */
static inline void cmocka_set_test_filter(const char *pattern) { plain_filter = pattern; }

/* Runs one case; what it ends with. */
static inline int plain_run(const struct CMUnitTest *test) {
  void *state = NULL;
  print_message("[ RUN      ] %s\n", test->name);
  int volatile end = setjmp(plain_end);
  if (end == 0) {
    if (test->setup != NULL && test->setup(&state) != 0) fail_msg("the setup failed");
    test->test(&state);
  }
  if (test->teardown != NULL && test->teardown(&state) != 0) end = PLAIN_FAILED;
  const char *words[] = {"      OK", " FAILED ", " SKIPPED"};
  print_message("[ %s ] %s\n", words[end], test->name);
  return end;
}

static inline int plain_run_all(const struct CMUnitTest *tests, size_t n, int (*before)(void **),
                                int (*after)(void **)) {
  void *state = NULL;
  int count[3] = {0};
  if (before != NULL && before(&state) != 0) return 1;
  for (size_t i = 0; i < n; i++)
    if (plain_filter == NULL || fnmatch(plain_filter, tests[i].name, 0) == 0)
      count[plain_run(&tests[i])]++;
  if (after != NULL && after(&state) != 0) count[PLAIN_FAILED]++;
  print_message("[  PASSED  ] %d test(s), skipped %d, failed %d.\n", count[0], count[PLAIN_SKIPPED],
                count[PLAIN_FAILED]);
  return count[PLAIN_FAILED];
}
#define cmocka_run_group_tests(tests, before, after)                                               \
  plain_run_all(tests, sizeof(tests) / sizeof *(tests), before, after)

#endif
