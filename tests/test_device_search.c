/* test_device_search.c - searching on devices gives the answers of brute force, to the bit: all
 * kinds of data, pieces, overflows, several devices, wrong guesses, faults. With the twin, or the
 * plug-in in KOOFU_TEST_PLUGIN. */
#include "device.h"
#include "problems.h"

#include "device/device.h"
#include "search/device_rows.h"

static const kf_metric metrics[] = {KF_METRIC_COSINE, KF_METRIC_INNER, KF_METRIC_EUCLIDEAN};

/* --- calling
 * ----------------------------------------------------------------------------------- */

typedef struct answers {
  int64_t *rows;
  double *scores;
  uint64_t candidates;
  kf_status status;
} answers;

static answers ask(kf_ctx *ctx, const kf_index *index, const problem *p, uint32_t k,
                   const int64_t *leave_out) {
  answers a = {.rows = malloc(p->n_queries * k * sizeof *a.rows),
               .scores = malloc(p->n_queries * k * sizeof *a.scores)};
  memset(a.rows, 0xff, p->n_queries * k * sizeof *a.rows);
  kf_search_report report = {0};
  a.status = search_all(ctx, index, p, k, 0, leave_out, a.rows, a.scores, &report);
  a.candidates = report.candidates;
  return a;
}

static void free_answers(answers *a) {
  free(a->rows);
  free(a->scores);
}
AUTO_STRUCT(answers, free_answers)

/* The answers of a context must be those of the CPU. */
static void compare(kf_ctx *ctx, const kf_index *index, const problem *p, uint32_t k,
                    const int64_t *leave_out) {
  AUTO(kf_ctx) *cpu = device_ctx(1, "cpu");
  AUTO(answers) found = ask(ctx, index, p, k, leave_out), wanted = ask(cpu, index, p, k, leave_out);
  assert_int_equal(wanted.status, KF_OK);
  if (found.status != KF_OK) fail_msg("%s, k %u: %s", p->kind->name, k, kf_errmsg(ctx));
  for (uint64_t i = 0; i < p->n_queries * k; i++)
    if (found.rows[i] != wanted.rows[i] || !same_bits(found.scores[i], wanted.scores[i]))
      fail_msg("%s, N %" PRIu64 ", D %u, k %u, seed %" PRIu64 ": query %" PRIu64 ", place %" PRIu64
               ": row %" PRId64 " (%a), wanted %" PRId64 " (%a)",
               p->kind->name, p->shape.n, p->shape.dim, k, p->shape.seed, i / k, i % k,
               found.rows[i], found.scores[i], wanted.rows[i], wanted.scores[i]);
  /* Copies are not scored. */
  assert_true(found.candidates >= p->n_queries * (index->devices->copies.n > 0 ? 1 : k));
}

/* Makes a problem and an index, and compares for some k. */
static void try(const char *device, const kind *of, kf_metric metric, uint64_t n, uint32_t dim,
                uint64_t n_queries, const uint32_t *ks, size_t n_ks) {
  AUTO(problem) p = make_problem(of, n, dim, n_queries, 7 + n);
  AUTO(kf_ctx) *ctx = device_ctx(2, device);
  AUTO(kf_index) *index = index_of(ctx, &p, metric, false, NULL);
  for (size_t i = 0; i < n_ks; i++) compare(ctx, index, &p, ks[i], NULL);
}

/* --- devices with less than they have --------------------------------------------------------- */

/* Replaces the table of every device by one with less memory, less room for survivors and guesses
 * that are too high. */
static struct {
  const kf_device_api *real;
  kf_device_api table;
  uint64_t memory, hits;
  bool high; /* guesses are too high */
  uint64_t more, repeats, survivors, pieces;
} less;

static kf_dev_status less_memory(kf_dev *dev, uint64_t *bytes) {
  kf_dev_status status = less.real->memory_left(dev, bytes);
  if (less.memory > 0 && *bytes > less.memory) *bytes = less.memory;
  return status;
}

/* Devices differ in their overheads. */
static uint64_t rows_alone(const kf_dev_piece *piece) {
  uint64_t bytes = piece->n * piece->space->padded;
  if (piece->values != KF_DEV_NO_VALUES) bytes += piece->n * piece->space->dim * sizeof(float);
  return bytes;
}

static uint64_t no_bytes(const kf_dev_space *space, uint32_t most, uint32_t best, uint64_t hits) {
  (void)space, (void)most, (void)best, (void)hits;
  return 0;
}

static kf_dev_status less_hits(kf_dev *dev, const kf_dev_space *space, uint32_t most, uint32_t best,
                               uint64_t hits, kf_dev_queries **out) {
  if (less.hits > 0 && hits > less.hits) hits = less.hits;
  return less.real->queries_new(dev, space, most, best, hits, out);
}

static kf_dev_status count_pieces(kf_dev *dev, const kf_dev_piece *piece, kf_dev_rows **out) {
  less.pieces++;
  return less.real->rows_new(dev, piece, out);
}

static kf_dev_status less_scan(kf_dev_queries *queries, const kf_dev_rows *rows, uint64_t *hits) {
  kf_dev_status status = less.real->scan(queries, rows, hits);
  less.more += status == KF_DEV_MORE;
  return status;
}

static kf_dev_status less_survivors(kf_dev_queries *queries, const kf_dev_rows *rows,
                                    uint32_t *query, int64_t *row, uint64_t *n) {
  kf_dev_status status = less.real->survivors(queries, rows, query, row, n);
  less.survivors += *n;
  return status;
}

static kf_dev_status less_luck(kf_dev_queries *queries, const kf_dev_rows *rows, uint32_t rank,
                               int proven) {
  static uint32_t numbers[4096];
  static double least[4096];
  uint32_t n = 0;
  kf_dev_status status = less.real->guess(queries, rows, rank, proven);
  if (status != KF_DEV_OK || proven || !less.high) return status;
  status = less.real->chosen(queries, numbers, least, &n);
  for (uint32_t i = 0; i < n; i++) least[i] += fabs(least[i]) + 1;
  return status == KF_DEV_OK ? less.real->choose(queries, numbers, n, least) : status;
}

static kf_dev_status less_settled(kf_dev_queries *queries, uint32_t k, double slack,
                                  uint32_t *left) {
  kf_dev_status status = less.real->settle(queries, k, slack, left);
  less.repeats += *left;
  return status;
}

static void less_begin(const kf_devices *devices) {
  less.real = devices->device[0]->api;
  less.table = *less.real;
  less.table.memory_left = less_memory;
  less.table.rows_bytes = rows_alone;
  less.table.queries_bytes = no_bytes;
  less.table.queries_new = less_hits;
  less.table.rows_new = count_pieces;
  less.table.scan = less_scan;
  less.table.survivors = less_survivors;
  less.table.guess = less_luck;
  less.table.settle = less_settled;
  for (uint32_t i = 0; i < devices->n; i++) devices->device[i]->api = &less.table;
}

static void less_end(const kf_devices *devices) {
  for (uint32_t i = 0; i < devices->n; i++) devices->device[i]->api = less.real;
}

/* --- right answers ---------------------------------------------------------------------------- */

TEST(kinds_of_data) {
  for (size_t t = 0; t < N_KINDS; t++)
    for (size_t m = 0; m < 3; m++)
      if (!kinds[t].zeros || metrics[m] != KF_METRIC_COSINE)
        try("cuda", &kinds[t], metrics[m], 1000, 24, 20, (uint32_t[]){1, 10, 100}, 3);
}

TEST(sizes) {
  const uint64_t rows[] = {1, 2, 31, 32, 33, 191, 192, 193, 2500};
  const uint32_t dims[] = {1, 15, 16, 17, 33, 130};
  for (size_t i = 0; i < 9; i++)
    for (size_t d = 0; d < 6; d++) {
      uint32_t most = rows[i] < 20 ? (uint32_t)rows[i] : 20;
      try("cuda", &kinds[0], metrics[(i + d) % 3], rows[i], dims[d], 5, (uint32_t[]){1, most}, 2);
    }
}

TEST(many_neighbours) {
  for (size_t m = 0; m < 3; m++) {
    try("cuda", kind_named("gaussian"), metrics[m], 3000, 48, 12, (uint32_t[]){1, 100, 1024}, 3);
    try("cuda", kind_named("every row thrice"), metrics[m], 3000, 20, 6, (uint32_t[]){100, 1024},
        2);
  }
  if (device_twin() != NULL) { /* lists too long for the device */
    device_twin()->most_best = 64;
    try("cuda", kind_named("gaussian"), KF_METRIC_COSINE, 900, 20, 8, (uint32_t[]){10, 400}, 2);
  }
}

/* Random problems with every setting, compared with brute force in exact arithmetic and with the
 * CPU. */
typedef struct drawn {
  problem p;
  kf_metric metric;
  uint32_t k, n_devices;
  int64_t *leave_out;    /* [n_queries]; NULL: none */
  uint64_t window;       /* see kf_index_devices */
  uint64_t memory, hits; /* of devices; 0: enough */
  bool in_place, lead, high;
} drawn;

static void draw_problem(uint64_t seed, drawn *out, answer *a) {
  uint64_t s = seed;
  const kind *of = &kinds[test_random(&s) % N_KINDS];
  *out = (drawn){.metric = metrics[test_random(&s) % 3], .n_devices = 1};
  if (of->zeros && out->metric == KF_METRIC_COSINE) out->metric = KF_METRIC_INNER;
  uint64_t n = 1 + test_random(&s) % (seed % 50 == 7 ? 20000 : 1500);
  uint64_t n_queries = 1 + test_random(&s) % 30;
  uint32_t dim = 1 + (uint32_t)(test_random(&s) % 80);
  if (seed % 4 == 2)
    dim = 128 + (uint32_t)(test_random(&s) % 200); /* rows with upper bounds first */
  if (seed % 64 == 2) dim = 1281 + (uint32_t)(test_random(&s) % 64); /* and too wide for wgmma */
  out->p = make_problem(of, n, dim, n_queries, seed);
  if (seed % 5 < 2) round_problem(&out->p, seed % 5 == 0 ? KF_F16 : KF_BF16);
  *a = solve(&out->p, out->metric);
  bool leaving = n > 1 && test_random(&s) % 2 == 0;
  if (leaving) out->leave_out = malloc(n_queries * sizeof *out->leave_out);
  for (uint64_t q = 0; q < n_queries && leaving; q++)
    out->leave_out[q] = test_random(&s) % 2 == 0 ? -1 : a->rows[q * n + test_random(&s) % n];
  uint64_t most = n - leaving < KF_MAX_NEIGHBOURS ? n - leaving : KF_MAX_NEIGHBOURS;
  out->k = 1 + (uint32_t)(test_random(&s) % (seed % 3 == 0 ? most : most < 20 ? most : 20));
  out->in_place = test_random(&s) % 4 == 0;
  out->lead = seed % 7 == 3 && dim > 2;
  out->window = 1 + test_random(&s) % n;
  out->high = test_random(&s) % 4 == 0;
  if (seed % 3 == 1) out->hits = 1 + test_random(&s) % 3000;
  if (test_random(&s) % 4 == 1) out->memory = 40000 + test_random(&s) % 400000;
  if (device_twin() != NULL || device_between() != NULL)
    out->n_devices = 1 + (uint32_t)(test_random(&s) % 3);
}

/* The twin has limits of its own; for other devices they are put in front. */
static kf_devices *limit_devices(kf_ctx *ctx, const drawn *d, uint64_t seed) {
  kf_twin_state *twin = device_twin();
  kf_devices *devices = NULL;
  if (twin != NULL) {
    twin->tile_rows = 8u << seed % 4;
    twin->guess = seed % 3;
    twin->locked = seed % 2;
    twin->hits = d->hits;
    if (d->memory > 0) twin->memory = twin->used + d->memory;
    return NULL;
  }
  less.memory = d->memory;
  less.hits = d->hits;
  less.high = d->high;
  assert_ok(ctx, kf_devices_for(ctx, &devices));
  less_begin(devices);
  return devices;
}

static void one_problem(uint64_t seed) {
  answer a;
  drawn d;
  draw_problem(seed, &d, &a);
  const problem *p = &d.p;
  const char *const devices[] = {"cuda", "cuda:0,cuda:1", "cuda:2,cuda:0,cuda:1"};
  device_reset(NULL);
  device_show(d.n_devices);
  kf_ctx *ctx = device_ctx(1 + (unsigned)(seed % 3), devices[d.n_devices - 1]);
  kf_ctx *cpu = device_ctx(1, "cpu");
  kf_devices *limited = limit_devices(ctx, &d, seed);
  kf_index *index = d.lead ? leading_index_of(ctx, p, d.metric, d.in_place, p->shape.dim / 2)
                           : index_of(ctx, p, d.metric, d.in_place, NULL);
  index->devices->window = d.window;
  answers found = ask(ctx, index, p, d.k, d.leave_out);
  answers wanted = ask(cpu, index, p, d.k, d.leave_out);
  char text[256] = "";
  bool short_of_memory = found.status == KF_ERR_MEM && d.memory > 0;
  if (found.status != KF_OK) snprintf(text, sizeof text, "%.200s", kf_errmsg(ctx));
  bool wrong = found.status != KF_OK ||
               count_wrong(&a, d.k, d.leave_out, found.rows, found.scores, text) > 0 ||
               count_wrong(&a, d.k, d.leave_out, wanted.rows, wanted.scores, text) > 0;
  if (!short_of_memory && wrong)
    fail_msg("%s, %s, seed %" PRIu64 ", N %" PRIu64 ", D %u, k %u: %s", p->kind->name,
             metric_name(d.metric), seed, p->shape.n, p->shape.dim, d.k, text);
  free_answers(&found);
  free_answers(&wanted);
  kf_index_free(index);
  if (limited != NULL) less_end(limited);
  kf_ctx_free(cpu);
  kf_ctx_free(ctx);
  if (device_twin() != NULL) assert_int_equal(device_twin()->used, 0); /* nothing is left there */
  free(d.leave_out);
  free_answer(&a);
  free_problem(&d.p);
}

/* KOOFU_TEST_PROBLEMS selects some, as in "1-150". */
TEST(random_problems) {
  unsigned long long first = 1, last = 150;
  const char *range = getenv("KOOFU_TEST_PROBLEMS");
  if (range != NULL && sscanf(range, "%llu-%llu", &first, &last) != 2) fail_msg("%s", range);
  for (uint64_t seed = first; seed <= last; seed++) one_problem(seed);
}

/* The rows of a .npy file of f32; NULL: there is no such file. */
static float *read_npy(kf_ctx *ctx, const char *path, uint64_t *n, uint32_t *dim) {
  kf_data *data;
  if (access(path, R_OK) != 0) return NULL;
  assert_ok(ctx, kf_data_open(ctx, &path, 1, NULL, &data));
  *n = kf_data_rows(data);
  *dim = kf_data_dim(data);
  float *rows = malloc(*n * *dim * sizeof *rows);
  assert_ok(ctx, kf_data_get(ctx, data, 0, *n, rows, NULL));
  kf_data_free(data);
  return rows;
}

/* Lengths e^-40 to e^40: all survivors of a query may be rows too long for bytes. Includes the
 * problem in which rows once came twice. */
TEST(doubled_rows) {
  const char *folder = KOOFU_SOURCE_DIR "/../shared/research/gpu-search";
  AUTO(kf_ctx) *ctx = device_ctx(2, "cuda");
  AUTO(problem) stored = {.kind = kind_named("wild lengths")};
  stored.rows = read_npy(ctx, test_path(folder, "x0.npy"), &stored.shape.n, &stored.shape.dim);
  stored.queries = read_npy(ctx, test_path(folder, "q0.npy"), &stored.n_queries, &stored.shape.dim);
  if (stored.rows == NULL) print_message(TEST_SKIPPED, "problem of a trial");
  for (size_t i = 0; i < 12; i++) {
    problem p = i < 3 ? stored : make_problem(stored.kind, 783, 257, 25, i);
    if (i < 3 && stored.rows == NULL) continue;
    kf_index *index = index_of(ctx, &p, metrics[i % 3], false, NULL);
    for (uint32_t k = 1; k < 40; k += 7) compare(ctx, index, &p, k, NULL);
    kf_index_free(index);
    if (i >= 3) free_problem(&p);
  }
}

/* Bounds in f32 must hold where their products are denormal. */
TEST(next_to_nothing) {
  for (uint64_t seed = 1; seed <= 40; seed++) {
    uint32_t dim = 1 + (uint32_t)(seed % 4);
    AUTO(problem) p = make_problem(kind_named("denormal queries"), 1500, dim, 40, seed);
    AUTO(kf_ctx) *ctx = device_ctx(2, "cuda");
    AUTO(kf_index) *index = index_of(ctx, &p, metrics[1 + seed % 2], false, NULL);
    for (uint32_t k = 1; k < 1000; k *= 4) compare(ctx, index, &p, k, NULL);
  }
}

/* Rows in f16 and bf16 are scored on the device as well. */
TEST(halves) {
  const char *const names[] = {"gaussian", "loose clusters", "cone", "every row thrice"};
  for (size_t i = 0; i < 24; i++) {
    AUTO(problem) p = make_problem(kind_named(names[i / 6]), 1500, 20 + 7 * (uint32_t)i, 30, i);
    AUTO(kf_ctx) *ctx = device_ctx(2, "cuda");
    kf_index_options options = {.metric = metrics[i % 3], .dtype = i % 2 ? KF_BF16 : KF_F16};
    AUTO(kf_index) *index = NULL;
    assert_ok(ctx, kf_index_new(ctx, p.rows, p.shape.n, p.shape.dim, &options, &index));
    compare(ctx, index, &p, 10, NULL);
    const kf_lane *lane = &index->devices->rows->lanes[0];
    assert_true(lane->scores);
    assert_int_equal(lane->pieces[0].is.values, i % 2 ? KF_DEV_BF16 : KF_DEV_F16);
  }
}

/* Canonical scores decide for prototypes. */
TEST(canonical) {
  const char *const names[] = {"gaussian", "one ulp", "ternary"};
  for (size_t t = 0; t < 3; t++)
    for (size_t m = 1; m < 3; m++) {
      AUTO(problem) p = make_problem(kind_named(names[t]), 600, 30, 20, 3);
      AUTO(kf_ctx) *ctx = device_ctx(2, "cuda");
      kf_source source = {
          .rows = 600, .dim = 30, .fetch = fetch_problem, .self = &p, .canonical = true};
      AUTO(kf_index) *index = NULL;
      assert_ok(ctx, kf_index_build(ctx, &source, metrics[m], false, &index));
      compare(ctx, index, &p, 5, NULL);
      compare(ctx, index, &p, 64, NULL);
    }
}

/* --- equally near rows ---------------------------------------------------------- */

/* A problem in which each of the first rows has `copies` copies at scattered places; scaled:
 * multiples instead. Queries are near the first rows. */
static problem with_copies(uint64_t n, uint32_t dim, uint64_t copies, bool scaled) {
  problem p = make_problem(kind_named("gaussian"), n, dim, 24, copies);
  uint64_t different = n / copies > 0 ? n / copies : 1, seed = 5;
  for (uint64_t i = 0; scaled && i < different * dim; i++)
    p.rows[i] = rintf(4 * p.rows[i]) + (i % dim == 0 ? 100 : 0);
  for (uint64_t i = different; i < n; i++) {
    uint64_t of = test_random(&seed) % different;
    for (uint32_t d = 0; d < dim; d++)
      p.rows[i * dim + d] = p.rows[of * dim + d] * (scaled ? (float)(i + 1) : 1);
  }
  for (uint64_t q = 0; q < p.n_queries; q++)
    for (uint32_t d = 0; d < dim; d++)
      p.queries[q * dim + d] =
          p.rows[q % different * dim + d] + (q % 3 == 0 ? 0.01F * (float)d : 0);
  return p;
}

/* Devices answer with any number of copies. */
TEST(copies) {
  const uint64_t counts[] = {2, 50, 5000};
  for (size_t c = 0; c < 3; c++)
    for (size_t m = 0; m < 3; m++)
      for (int devices = 1; devices <= 3; devices += 2) {
        if (!device_show(3) && devices > 1) continue;
        AUTO(problem) p = with_copies(c == 2 ? 6000 : 900, 12, counts[c], false);
        AUTO(kf_ctx) *ctx = device_ctx(2, devices == 1 ? "cuda" : "cuda:0,cuda:1,cuda:2");
        AUTO(kf_index) *index = index_of(ctx, &p, metrics[m], m == c, NULL);
        if (m == c) index->devices->window = 70; /* rows in place sorted together */
        int64_t leave_out[24];
        for (uint64_t q = 0; q < 24; q++) leave_out[q] = (int64_t)(q * 37 % p.shape.n);
        compare(ctx, index, &p, 1, NULL);
        compare(ctx, index, &p, 15, NULL);
        compare(ctx, index, &p, 15, leave_out);
        for (uint64_t q = 0; q < 24; q++) leave_out[q] = (int64_t)(q % 5);
        compare(ctx, index, &p, 200, leave_out);
        assert_true(index->devices->copies.n > 0);
        assert_int_equal(index->devices->left_over, 0);
      }
}

/* Rows in place are sorted in windows; copies of a row are in several windows. */
TEST(windows_with_copies) {
  const char *const names[] = {"every row thrice", "multiples"};
  for (size_t i = 0; i < 2; i++)
    for (uint64_t window = 33; window < 900; window *= 2)
      for (size_t m = 0; m < 3; m++) {
        AUTO(problem) p = make_problem(kind_named(names[i]), 1120, 12, 6, window);
        AUTO(kf_ctx) *ctx = device_ctx(2, "cuda");
        AUTO(kf_index) *index = index_of(ctx, &p, metrics[m], true, NULL);
        index->devices->window = window;
        compare(ctx, index, &p, 10, NULL);
      }
}

/* Ties that are not copies: a list that does not reach their end is made longer; beyond the longest
 * list the CPU answers. */
TEST(longer_lists) {
  const uint64_t counts[] = {20, 200, 5000};
  for (size_t c = 0; c < 3; c++) {
    AUTO(problem) p = with_copies(6000, 12, counts[c], true);
    AUTO(kf_ctx) *ctx = device_ctx(2, "cuda");
    AUTO(kf_index) *index = index_of(ctx, &p, KF_METRIC_COSINE, false, NULL);
    compare(ctx, index, &p, 10, NULL);
    if (c < 2) assert_int_equal(index->devices->left_over, 0);
    if (c == 2) assert_true(index->devices->left_over > 0);
  }
}

/* The number of wrong queries if the bound is multiplied by `scale`. */
static uint64_t wrong_with_bound(const answer *a, double scale) {
  enum { K = 15 };
  char text[256];
  AUTO(kf_ctx) *ctx = device_ctx(1, "cuda");
  AUTO(kf_index) *index = index_of(ctx, a->problem, a->metric, false, NULL);
  index->bound_scale = scale;
  AUTO(answers) found = ask(ctx, index, a->problem, K, NULL);
  assert_int_equal(found.status, KF_OK);
  uint64_t wrong = count_wrong(a, K, NULL, found.rows, found.scores, text);
  return wrong;
}

TEST(bound_is_needed) {
  const char *const names[] = {"loose clusters", "cone", "unlucky rounding"};
  for (size_t m = 0; m < 3; m++) {
    uint64_t wrong = 0;
    for (size_t i = 0; i < 3; i++) {
      AUTO(problem) p = make_problem(kind_named(names[i]), 3001, 64, 60, 41);
      AUTO(answer) a = solve(&p, metrics[m]);
      assert_int_equal(wrong_with_bound(&a, 1), 0);
      wrong += wrong_with_bound(&a, 0);
    }
    print_message("%s: %" PRIu64 " of 180 queries wrong without the bound\n",
                  metric_name(metrics[m]), wrong);
    assert_true(wrong > 0);
  }
}

/* --- limits ----------------------------------------------------------------------------------- */

#define K15 ((uint32_t[]){1, 15})

/* Device memory for everything, for bytes alone, for pieces, and for nothing. */
TEST(little_memory) {
  kf_twin_state *twin = device_need_twin();
  bool scored = false, hosted = false, pieces = false;
  for (uint64_t memory = 4 << 20; memory >= 1 << 16; memory = memory / 4 * 3) {
    AUTO(problem) p = make_problem(kind_named("gaussian"), 9000, 40, 30, 5);
    device_reset(NULL);
    twin->memory = memory;
    kf_ctx *ctx = device_ctx(2, "cuda");
    kf_index *index = index_of(ctx, &p, KF_METRIC_COSINE, false, NULL);
    answers once = ask(ctx, index, &p, 3, NULL);
    if (once.status == KF_OK) {
      compare(ctx, index, &p, 15, NULL);
      scored |= twin->scored > 0;
      hosted |= twin->survivors > 0;
      pieces |= twin->pieces > 2;
    } else {
      assert_int_equal(once.status, KF_ERR_MEM);
      assert_non_null(strstr(kf_errmsg(ctx), "cuda:0"));
    }
    free_answers(&once);
    kf_index_free(index);
    kf_ctx_free(ctx);
    assert_int_equal(twin->used, 0);
  }
  assert_true(scored && hosted && pieces);
}

/* The same on any device. */
TEST(less_of_everything) {
  const struct {
    uint64_t memory, hits;
    bool high;
  } ways[] = {{0, 0, true},         {0, 700, false},    {1500000, 0, false}, {1500000, 0, true},
              {1500000, 900, true}, {400000, 0, false}, {400000, 2000, true}};
  AUTO(kf_ctx) *ctx = device_ctx(2, "cuda");
  kf_devices *devices;
  assert_ok(ctx, kf_devices_for(ctx, &devices));
  less_begin(devices);
  const char *const names[] = {"gaussian", "every row thrice", "cone", "uneven lengths"};
  for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
    less.more = less.repeats = less.survivors = less.pieces = 0;
    less.memory = ways[w].memory;
    less.hits = ways[w].hits;
    less.high = ways[w].high;
    for (size_t m = 0; m < 3; m++) {
      AUTO(problem) p = make_problem(kind_named(names[(w + m) % 4]), 20000, 30, 40, 5 + w);
      AUTO(kf_index) *index = index_of(ctx, &p, metrics[m], false, NULL);
      compare(ctx, index, &p, 15, NULL);
    }
    assert_true(less.more > 0 || less.hits == 0);
    assert_true(less.survivors > 0 || less.memory == 0);
    assert_int_equal(less.pieces, less.memory == 400000 ? 3 * 4 : 3);
    assert_true(less.repeats > 0 || !less.high || less.memory > 0);
  }
  less_end(devices);
}

/* Little room for survivors: queries are searched in parts, some by the CPU. */
TEST(little_room_for_survivors) {
  kf_twin_state *twin = device_need_twin();
  for (uint64_t hits = 1; hits < 100000; hits *= 6) {
    device_reset(NULL);
    twin->hits = hits;
    try("cuda", kind_named("cone"), KF_METRIC_COSINE, 2000, 24, 40, K15, 2);
    if (hits < 100) assert_true(twin->more > 0);
    twin->memory = 300000; /* the host scores */
    try("cuda", kind_named("cone"), KF_METRIC_EUCLIDEAN, 2000, 24, 40, K15, 2);
  }
}

TEST(wrong_guesses) {
  kf_twin_state *twin = device_need_twin();
  for (uint64_t guess = 0; guess < 3; guess++)
    for (size_t m = 0; m < 3; m++) {
      device_reset(NULL);
      twin->guess = guess;
      try("cuda", kind_named("loose clusters"), metrics[m], 1500, 24, 40, K15, 2);
      if (guess == 1) assert_true(twin->repeats >= 40);
      if (guess == 2) assert_int_equal(twin->repeats, 0);
      twin->memory = 150000;
      try("cuda", kind_named("loose clusters"), metrics[m], 1500, 24, 40, K15, 2);
      assert_true(twin->survivors > 0);
    }
}

TEST(several_devices) {
  device_need(5);
  const char *const devices[] = {"cuda:0,cuda:1", "cuda:4,cuda:1,cuda:0",
                                 "cuda:0,cuda:1,cuda:2,cuda:3,cuda:4"};
  for (size_t d = 0; d < 3; d++)
    for (size_t t = 0; t < N_KINDS; t += 3) {
      kf_metric metric = kinds[t].zeros ? KF_METRIC_INNER : metrics[(t + d) % 3];
      try(devices[d], &kinds[t], metric, 700, 20, 12, K15, 2);
    }
  try(devices[2], &kinds[0], KF_METRIC_COSINE, 3, 20, 4, (uint32_t[]){1, 3}, 2); /* fewer rows */
  try(devices[2], &kinds[0], KF_METRIC_COSINE, 40, 20, 4, (uint32_t[]){20, 40}, 2);
}

/* Rows of very different lengths do not loosen each other's bounds: few survive. */
TEST(outliers) {
  enum { N = 8000, D = 48, Q = 50, K = 10 };
  uint64_t candidates[2];
  for (int i = 0; i < 2; i++) {
    AUTO(problem) p = make_problem(kind_named("gaussian"), N, D, Q, 11);
    for (uint64_t r = 0; i == 1 && r < N; r += 100) /* one row in a hundred */
      for (uint32_t c = 0; c < D; c++) p.rows[r * D + c] *= 1000;
    AUTO(kf_ctx) *ctx = device_ctx(2, "cuda");
    AUTO(kf_index) *index = index_of(ctx, &p, KF_METRIC_EUCLIDEAN, false, NULL);
    compare(ctx, index, &p, K, NULL);
    AUTO(answers) a = ask(ctx, index, &p, K, NULL);
    candidates[i] = a.candidates;
  }
  print_message("%.1f candidates a query, %.1f with outliers\n", (double)candidates[0] / Q,
                (double)candidates[1] / Q);
  assert_true(candidates[1] < 2 * candidates[0]);
}

/* --- faults ----------------------------------------------------------------------------------- */

/* Large enough for a device to be used automatically. */
static problem worthwhile(void) { return make_problem(kind_named("gaussian"), 64, 768, 2900, 17); }

static problem small(void) { return make_problem(kind_named("cone"), 6000, 20, 10, 17); }

/* The device is lost in call n; false: there were fewer calls. */
static bool lose(const problem *p, bool asked, uint64_t call, uint64_t memory) {
  kf_twin_state *twin = device_twin();
  const kf_device_list *found;
  device_reset(NULL);
  if (memory > 0) twin->memory = memory;
  kf_ctx *ctx = device_ctx(2, asked ? "cuda" : NULL);
  assert_ok(ctx, kf_devices_find(ctx, &found));
  kf_index *index = index_of(ctx, p, KF_METRIC_COSINE, false, NULL);
  device_n_heard = 0;
  twin->lose_call = call;
  answers a = ask(ctx, index, p, 3, NULL);
  bool ended = twin->lose_call > 0;
  if (ended) {
    assert_int_equal(a.status, KF_OK);
    assert_true(twin->scored + twin->survivors > 0);
  } else if (asked) {
    assert_int_equal(a.status, KF_ERR_IO);
    assert_string_equal(kf_errmsg(ctx), "cuda:0 (plain twin 0), search: the device was lost");
  } else {
    assert_int_equal(a.status, KF_OK);
    assert_true(device_n_heard == 1 && device_said("the CPU takes over: cuda:0"));
    assert_int_equal(found->n, 0);
    compare(ctx, index, p, 3, NULL); /* and goes on */
    assert_int_equal(device_n_heard, 1);
  }
  free_answers(&a);
  kf_index_free(index);
  kf_ctx_free(ctx);
  assert_int_equal(twin->used, 0);
  return !ended;
}

TEST(lost) {
  device_need_twin();
  problem p = small();
  const uint64_t memories[] = {0, 400000, 180000}; /* all; bytes; pieces */
  for (size_t m = 0; m < 3; m++)
    for (uint64_t call = 1; lose(&p, true, call, memories[m]);) call++;
  free_problem(&p);
  p = worthwhile();
  for (uint64_t call = 1; lose(&p, false, call, 0);) call += 5;
  free_problem(&p);
}

/* Device allocation n fails, optionally all later ones too; false: there were fewer. */
static bool starve(const problem *p, bool asked, bool after, uint64_t allocation) {
  kf_twin_state *twin = device_twin();
  const kf_device_list *found;
  device_reset(NULL);
  kf_ctx *ctx = device_ctx(2, asked ? "cuda" : NULL);
  assert_ok(ctx, kf_devices_find(ctx, &found));
  kf_index *index = index_of(ctx, p, KF_METRIC_EUCLIDEAN, false, NULL);
  device_n_heard = 0;
  twin->fail_allocation = allocation;
  twin->fail_after = after;
  answers a = ask(ctx, index, p, 3, NULL);
  bool ended = twin->allocations < allocation;
  if (a.status != KF_OK) {
    assert_true(asked && after);
    assert_int_equal(a.status, KF_ERR_MEM);
    assert_non_null(strstr(kf_errmsg(ctx), "cuda:0"));
  } else if (device_n_heard > 0) {
    assert_true(!asked && after && device_said("the CPU takes over: cuda:0"));
    compare(ctx, index, p, 3, NULL);
    assert_int_equal(device_n_heard, 1); /* it is not tried again */
  }
  free_answers(&a);
  kf_index_free(index);
  kf_ctx_free(ctx);
  assert_int_equal(twin->used, 0);
  return !ended;
}

TEST(no_memory) {
  device_need_twin();
  problem p = small();
  for (int after = 0; after < 2; after++)
    for (uint64_t call = 1; starve(&p, true, after, call);) call++;
  free_problem(&p);
  p = worthwhile();
  for (uint64_t call = 1; starve(&p, false, true, call);) call += 2;
  free_problem(&p);
}

/* --- invalid lists ---------------------------------------------------------------------- */

static struct {
  const kf_device_api *real;
  void (*spoil)(kf_dev_scored *list, uint32_t n);
} spoilt;

static void double_a_row(kf_dev_scored *list, uint32_t n) {
  memmove(list + 3, list + 2, (n - 3) * sizeof *list);
}
static void swap_rows(kf_dev_scored *list, uint32_t n) {
  kf_dev_scored first = list[n - 2];
  list[n - 2] = list[n - 1];
  list[n - 1] = first;
}
static void name_no_row(kf_dev_scored *list, uint32_t n) { list[n / 2].row += 100000; }
static void score_nothing(kf_dev_scored *list, uint32_t n) { list[n - 1].score = NAN; }

static kf_dev_status spoil_answers(kf_dev_queries *queries, uint32_t first, uint32_t n,
                                   kf_dev_scored *best) {
  enum { K5 = 12 }; /* rows in a list for k = 5 */
  kf_dev_status status = spoilt.real->answers(queries, first, n, best);
  for (uint32_t i = 0; i < n; i++)
    if (first + i == 7) spoilt.spoil(best + (size_t)i * K5, K5);
  return status;
}

/* A list with a duplicate, out of order or out of range is a device error, not an answer. */
TEST(unsound_lists) {
  void (*const ways[])(kf_dev_scored *, uint32_t) = {double_a_row, swap_rows, name_no_row,
                                                     score_nothing};
  AUTO(problem) p = worthwhile();
  for (size_t i = 0; i < 8; i++) {
    bool asked = i % 2 == 0;
    device_n_heard = 0;
    AUTO(kf_ctx) *ctx = device_ctx(2, asked ? "cuda" : NULL);
    kf_devices *devices;
    const kf_device_list *found;
    assert_ok(ctx, kf_devices_find(ctx, &found));
    assert_ok(ctx, kf_devices_for(ctx, &devices));
    kf_device *device = kf_device_hold(devices->device[0]);
    spoilt.real = device->api;
    spoilt.spoil = ways[i / 2];
    kf_device_api table = *device->api;
    table.answers = spoil_answers;
    device->api = &table;
    AUTO(kf_index) *index = index_of(ctx, &p, metrics[i % 3], false, NULL);
    AUTO(answers) a = ask(ctx, index, &p, 5, NULL);
    if (asked) {
      assert_int_equal(a.status, KF_ERR_INTERNAL);
      assert_non_null(
          strstr(kf_errmsg(ctx), "the nearest rows of query 7 are out of order or duplicated"));
    } else {
      assert_true(device_n_heard == 1 && device_said("the CPU takes over: cuda:0"));
      compare(ctx, index, &p, 5, NULL);
    }
    device->api = spoilt.real;
    kf_device_release(device);
  }
}

/* --- when it is used -------------------------------------------------------------------------- */

TEST(where_it_pays) {
  kf_twin_state *twin = device_need_twin();
  AUTO(problem) p = worthwhile();
  p.n_queries = 1400;
  kf_ctx *ctx = device_ctx(2, NULL);
  kf_index *index = index_of(ctx, &p, KF_METRIC_COSINE, false, NULL);
  uint64_t calls = twin->calls;
  compare(ctx, index, &p, 3, NULL); /* not worth opening a device */
  assert_int_equal(twin->calls, calls);
  const kf_device_list *found;
  assert_ok(ctx, kf_devices_find(ctx, &found));
  p.n_queries = 100;
  compare(ctx, index, &p, 3, NULL); /* too little work */
  assert_int_equal(twin->calls, calls);
  p.n_queries = 1000;
  compare(ctx, index, &p, 3, NULL); /* not worth a copy of the rows */
  assert_int_equal(twin->calls, calls);
  p.n_queries = 1400;
  compare(ctx, index, &p, 3, NULL);
  assert_true(twin->calls > calls && twin->scored > 0);
  kf_ctx *cpu = device_ctx(2, "cpu");
  calls = twin->calls;
  compare(cpu, index, &p, 3, NULL);
  assert_int_equal(twin->calls, calls);
  kf_ctx_free(cpu);
  kf_ctx_free(ctx);
  kf_index_free(index); /* after the context that copied it to the device */
  assert_int_equal(twin->used, 0);
}

/* --- threads ---------------------------------------------------------------------------------- */

typedef struct user {
  const kf_index *index;
  const problem *p;
  answers wanted;
  const char *device;
  uint64_t wrong;
} user;

static void *search_often(void *argument) {
  user *u = argument;
  AUTO(kf_ctx) *ctx = device_ctx(2, u->device);
  for (uint32_t i = 0; i < 6; i++) {
    AUTO(answers) a = ask(ctx, u->index, u->p, 5, NULL);
    u->wrong += a.status != KF_OK ||
                memcmp(a.rows, u->wanted.rows, u->p->n_queries * 5 * sizeof *a.rows) != 0;
  }
  return NULL;
}

/* Contexts of several threads share an index, on the same devices or on others. */
TEST(shared_index) {
  enum { USERS = 4 };
  const char *const devices[] = {"cuda:0", "cuda:0", "cuda:0,cuda:1", "cpu"};
  bool several = device_show(2);
  AUTO(problem) p = make_problem(kind_named("cone"), 2000, 32, 60, 23);
  AUTO(kf_ctx) *cpu = device_ctx(1, "cpu");
  AUTO(kf_index) *index = index_of(cpu, &p, KF_METRIC_COSINE, false, NULL);
  AUTO(answers) wanted = ask(cpu, index, &p, 5, NULL);
  pthread_t threads[USERS];
  user users[USERS];
  for (int i = 0; i < USERS; i++) {
    users[i] = (user){.index = index, .p = &p, .wanted = wanted};
    users[i].device = several || i != 2 ? devices[i] : "cuda";
    assert_int_equal(pthread_create(&threads[i], NULL, search_often, &users[i]), 0);
  }
  for (int i = 0; i < USERS; i++) {
    pthread_join(threads[i], NULL);
    assert_int_equal(users[i].wrong, 0);
  }
}

/* Queries in page-locked memory are checked while devices search: the first bad one is reported as
 * on the CPU. */
TEST(bad_queries) {
  kf_twin_state *twin = device_twin();
  AUTO(problem) p = make_problem(&kinds[0], 3000, 40, 700, 3);
  AUTOFREE int64_t *rows = malloc(700 * 3 * sizeof *rows);
  AUTO(kf_ctx) *ctx = device_ctx(2, "cuda");
  for (int i = 0; i < 6; i++) {
    if (twin != NULL) twin->locked = i % 2 != 0;
    AUTO(kf_index) *index = index_of(ctx, &p, metrics[i / 2], false, NULL);
    float *later = &p.queries[613 * 40 + 7], *first = &p.queries[300 * 40];
    float good[] = {*later, *first};
    assert_ok(ctx, kf_search(ctx, index, p.queries, 700, 3, NULL, rows, NULL, NULL));
    *later = NAN;
    assert_error(ctx, KF_ERR_DATA, "query 613 has a NaN",
                 kf_search(ctx, index, p.queries, 700, 3, NULL, rows, NULL, NULL));
    *first = INFINITY;
    assert_error(ctx, KF_ERR_DATA, "query 300 has a NaN",
                 kf_search(ctx, index, p.queries, 700, 3, NULL, rows, NULL, NULL));
    *later = good[0];
    *first = good[1];
  }
}

/* Enough queries for lists to arrive in parts and be merged while others arrive. A bad query, or a
 * device lost between parts, ends the search without a deadlock. */
TEST(lists_in_parts) {
  kf_twin_state *twin = device_twin();
  AUTO(problem) p = make_problem(kind_named("gaussian"), 50, 8, 14000, 3);
  AUTOFREE int64_t *rows = malloc(p.n_queries * 3 * sizeof *rows);
  for (int i = 0; i < 6; i++) {
    bool several = device_show(2);
    if (twin != NULL) twin->locked = i % 2 != 0;
    AUTO(kf_ctx) *ctx = device_ctx(i < 4 ? 4 : 1, several && i % 4 > 1 ? "cuda:0,cuda:1" : "cuda");
    AUTO(kf_index) *index = index_of(ctx, &p, metrics[i % 3], false, NULL);
    compare(ctx, index, &p, 3, NULL);
    float *bad = &p.queries[9000 * 8], good = *bad;
    *bad = NAN;
    assert_error(ctx, KF_ERR_DATA, "query 9000 has a NaN",
                 kf_search(ctx, index, p.queries, p.n_queries, 3, NULL, rows, NULL, NULL));
    *bad = good;
    if (twin != NULL) {
      uint64_t before = twin->calls;
      compare(ctx, index, &p, 3, NULL);
      twin->lose_call = twin->calls - before - 1; /* before the last part but one */
      assert_error(ctx, KF_ERR_IO, "the device was lost",
                   kf_search(ctx, index, p.queries, p.n_queries, 3, NULL, rows, NULL, NULL));
    }
  }
}

FIXTURES(.before = device_keep, .after = device_let_go, .before_each = device_reset,
         .after_each = device_reset);
