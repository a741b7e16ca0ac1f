/* cmocka.h - the part of cmocka that the tests of devices use, for GPU machines on which nothing
 * can be installed. tests/devices/CMakeLists.txt uses the real one where it is installed. */
#ifndef KF_PLAIN_CMOCKA_H
#define KF_PLAIN_CMOCKA_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CMUnitTest {
  const char *name;
  void (*test_func)(void **state);
  int (*setup_func)(void **state);
  int (*teardown_func)(void **state);
  void *initial_state;
};

enum { PLAIN_FAILED = 1, PLAIN_SKIPPED = 2 };
__attribute__((weak)) jmp_buf plain_end; /* of the running case; shared by all files */

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

/* Runs one case; returns how it ended. */
static inline int plain_run(const struct CMUnitTest *test) {
  void *state = test->initial_state;
  print_message("[ RUN      ] %s\n", test->name);
  int volatile end = setjmp(plain_end);
  if (end == 0) {
    if (test->setup_func != NULL && test->setup_func(&state) != 0) fail_msg("the setup failed");
    test->test_func(&state);
  }
  if (test->teardown_func != NULL && test->teardown_func(&state) != 0) end = PLAIN_FAILED;
  const char *words[] = {"      OK", " FAILED ", " SKIPPED"};
  print_message("[ %s ] %s\n", words[end], test->name);
  return end;
}

static inline int _cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests,
                                          size_t n, int (*before)(void **), int (*after)(void **)) {
  void *state = NULL;
  int count[3] = {0};
  if (before != NULL && before(&state) != 0) return 1;
  for (size_t i = 0; i < n; i++) count[plain_run(&tests[i])]++;
  if (after != NULL && after(&state) != 0) count[PLAIN_FAILED]++;
  print_message("[  PASSED  ] %s: %d test(s), skipped %d, failed %d.\n", name, count[0],
                count[PLAIN_SKIPPED], count[PLAIN_FAILED]);
  return count[PLAIN_FAILED];
}

#endif
