/* test_search_random.c - the search beside brute force in exact arithmetic, on small problems drawn
 * at random: metric, shape, data, threads, batches, rows left out. A failure names the seed of its
 * problem. */
#include "problems.h"

#include "search/exact.h"

enum { PROBLEMS = 2000, FIRST_SEED = 20240601 };

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
  AUTO(problem) p = make_problem(of, n, dim, n_queries, seed);
  if (seed % 5 == 0) round_problem(&p, seed % 2 == 0 ? KF_F16 : KF_BF16);
  AUTO(answer) a = solve(&p, metric);
  AUTOFREE int64_t *leave_out = malloc(n_queries * sizeof *leave_out);
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
  if (seed % 4 == 1 && dim > 1) h.lead = 1 + (uint32_t)(test_random(&state) % (dim - 1));
  h.resident = seed / 16 % 2 == 0;
  check(&a, &h, ks, 3, leaving ? leave_out : NULL);
}

TEST(random_problems) {
  for (uint64_t i = 0; i < PROBLEMS; i++) one_problem(FIRST_SEED + i);
}

/* --- the arithmetic --------------------------------------------------------------------------- */

static void compare_pair(const problem *p, kf_metric metric, const float *q, const float *x,
                         const float *y, uint64_t count[3]) {
  uint32_t dim = p->shape.dim;
  exact_score a = exact_score_of(metric, q, x, dim), b = exact_score_of(metric, q, y, dim);
  int want = exact_order(metric, &a, &b);
  int fine = kf_fine_compare(kf_exact_fine(metric, q, x, dim), kf_exact_fine(metric, q, y, dim));
  int found = kf_exact_compare(metric, q, x, y, dim);
  if (found != want || kf_exact_compare(metric, q, y, x, dim) != -want ||
      (fine != 0 && fine != want))
    fail_msg("%s, %s, D %u, seed %" PRIu64 ": %d and %d, wanted %d", p->kind->name,
             metric_name(metric), dim, p->shape.seed, found, fine, want);
  count[want == 0 ? 0 : fine == 0 ? 1 : 2]++;
}

/* Pairs of rows of every kind, and rows that differ in one element by as little as can be. */
TEST(exact_comparisons) {
  enum { ROWS = 24 };
  uint64_t count[3] = {0}; /* equal; separated exactly; in a hundred bits */
  for (size_t t = 0; t < N_KINDS; t++)
    for (uint64_t seed = 1; seed <= 12; seed++) {
      uint32_t dim = (uint32_t)(seed * seed);
      AUTO(problem) p = make_problem(&kinds[t], ROWS, dim, ROWS, seed);
      AUTOFREE float *near = malloc(dim * sizeof *near);
      for (uint64_t i = 0; i < ROWS; i++) {
        const float *q = p.queries + i * dim, *x = p.rows + i * dim;
        memcpy(near, x, dim * sizeof *near);
        near[i % dim] = nextafterf(near[i % dim], 0);
        for (kf_metric metric = KF_METRIC_COSINE; metric <= KF_METRIC_INNER; metric++) {
          compare_pair(&p, metric, q, x, x, count);
          compare_pair(&p, metric, q, x, near, count);
          compare_pair(&p, metric, x, x, near, count);
          compare_pair(&p, metric, q, x, p.rows + (i + 1) % ROWS * dim, count);
        }
      }
    }
  print_message("%" PRIu64 " pairs equal, %" PRIu64 " told apart exactly, %" PRIu64 " before\n",
                count[0], count[1], count[2]);
  for (int i = 0; i < 3; i++) assert_true(count[i] > 0);
}
