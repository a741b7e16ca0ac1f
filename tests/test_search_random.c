/* test_search_random.c - the search beside brute force on small problems drawn at random: metric,
 * shape, data, threads, batches, rows left out. A failure names the seed of its problem. */
#include "problems.h"

enum { PROBLEMS = 600, FIRST_SEED = 20240601 };

/* Between 1 and limit, small numbers as often as large ones. */
static uint64_t draw(uint64_t limit, uint64_t *state) {
  uint64_t bound = limit >> test_random(state) % 6;
  return 1 + test_random(state) % (bound > 0 ? bound : 1);
}

static kf_isa draw_isa(uint64_t *state) {
  kf_isa isa;
  do isa = (kf_isa)(1 + test_random(state) % 4);
  while (!test_has_isa(isa));
  return isa;
}

static void one_problem(uint64_t seed) {
  uint64_t state = seed;
  const kind *of = &kinds[test_random(&state) % N_KINDS];
  kf_metric metric = (kf_metric)(1 + test_random(&state) % 3);
  if (of->zeros && metric == KF_METRIC_COSINE) metric = KF_METRIC_INNER;
  bool many = seed % 8 == 0; /* rows, so that there is a first floor */
  uint64_t n = many ? 4096 + draw(8000, &state) : draw(1500, &state);
  uint64_t n_queries = draw(many ? 40 : 60, &state);
  uint32_t dim = (uint32_t)draw(many ? 40 : 300, &state);
  problem p = make_problem(of, n, dim, n_queries, seed);
  answer a = solve(&p, metric);
  int64_t *leave_out = malloc(n_queries * sizeof *leave_out);
  for (uint64_t q = 0; q < n_queries; q++) /* about half of them leave out one of the best */
    leave_out[q] = test_random(&state) % 2 == 0 ? -1 : a.rows[q * n + draw(n, &state) - 1];
  bool leaving = n > 1 && test_random(&state) % 2 == 0;
  uint64_t most = n - leaving < KF_MAX_NEIGHBOURS ? n - leaving : KF_MAX_NEIGHBOURS;
  uint32_t ks[] = {(uint32_t)draw(most, &state), (uint32_t)draw(most, &state), (uint32_t)most};
  how h = {.isa = draw_isa(&state),
           .threads = (unsigned)draw(5, &state),
           .batch = draw(n_queries, &state),
           .in_place = test_random(&state) % 2 == 0,
           .from_data = test_random(&state) % 2 == 0};
  check(&a, &h, ks, 3, leaving ? leave_out : NULL);
  free(leave_out);
  free_answer(&a);
  free_problem(&p);
}

static void random_problems(void **state) {
  (void)state;
  for (uint64_t i = 0; i < PROBLEMS; i++) one_problem(FIRST_SEED + i);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(random_problems)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
