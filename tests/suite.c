/* suite.c - main of the unit tests: runs all suites linked to it, one suite, or those cases of a
 * suite whose names match a pattern. Exits with 77, which ctest shows as skipped, if every case was
 * skipped. */
#include "test.h"

#include <fnmatch.h>

enum { WRONG_USE = 2, ALL_SKIPPED = 77 };

static test_suite *suites; /* in reverse order */
static size_t n_skipped;   /* in the current suite */

/* dir/test_NAME.c */
static void name_suite(test_suite *suite, const char *file) {
  const char *slash = strrchr(file, '/');
  snprintf(suite->name, sizeof suite->name, "%s",
           (slash == NULL ? file : slash + 1) + strlen("test_"));
  *strrchr(suite->name, '.') = '\0';
}

void test_add(test_suite *suite, const char *file, const char *name, void (*run)(void **),
              void *state) {
  if (suite->n == 0) {
    name_suite(suite, file);
    suite->next = suites;
    suites = suite;
  }
  if (suite->n == TEST_MOST_CASES) {
    fprintf(stderr, "%s: more than %d cases\n", file, TEST_MOST_CASES);
    abort();
  }
  suite->cases[suite->n++] = (struct CMUnitTest){.name = name,
                                                 .test_func = run,
                                                 .setup_func = suite->before_each,
                                                 .teardown_func = suite->after_each,
                                                 .initial_state = state};
}

void test_skip(const char *missing) {
  print_message(TEST_SKIPPED, missing);
  n_skipped++;
  skip();
}

/* Removes the cases whose names do not match the pattern. */
static void select_cases(test_suite *suite, const char *pattern) {
  size_t n = 0;
  for (size_t i = 0; i < suite->n; i++)
    if (fnmatch(pattern, suite->cases[i].name, 0) == 0) suite->cases[n++] = suite->cases[i];
  suite->n = n;
}

static int run_suite(test_suite *suite) {
  n_skipped = 0;
  int failed =
      _cmocka_run_group_tests(suite->name, suite->cases, suite->n, suite->before, suite->after);
  return failed == 0 && n_skipped == suite->n ? ALL_SKIPPED : failed != 0;
}

static int run_all(void) {
  bool failed = false, passed = false;
  for (test_suite *suite = suites; suite != NULL; suite = suite->next) {
    int result = run_suite(suite);
    failed |= result == 1;
    passed |= result == 0;
  }
  return failed ? 1 : passed ? 0 : ALL_SKIPPED;
}

int main(int argc, char **argv) {
  if (argc == 1) return run_all();
  for (test_suite *suite = suites; suite != NULL; suite = suite->next) {
    if (strcmp(suite->name, argv[1]) != 0) continue;
    if (argc > 2) select_cases(suite, argv[2]);
    if (suite->n > 0) return run_suite(suite);
  }
  fprintf(stderr, "usage: %s [SUITE [PATTERN OF CASES]]; suites:", argv[0]);
  for (test_suite *suite = suites; suite != NULL; suite = suite->next)
    fprintf(stderr, " %s", suite->name);
  fprintf(stderr, "\n");
  return WRONG_USE;
}
