/* test_stats.c - the statistics are the integers they claim to be, to the bit, however they are
 * made. */
#include "test.h"

#include "stats/stats.h"

#include <float.h>
#include <math.h>

/* --- a small world --------------------------------------------------------------------------- */

enum { N = 5003, D = 37, K = 11 };
static float rows[N * D];
static int32_t labels[N];

static void make_rows(void) {
  uint64_t seed = 1;
  for (size_t i = 0; i < N; i++) {
    labels[i] = (int32_t)(test_random(&seed) % K);
    for (size_t j = 0; j < D; j++)
      rows[i * D + j] = (float)(test_normal(&seed) * 3 + (double)(labels[i] % 5) + 1);
  }
}

static kf_stats *stats_of(kf_ctx *ctx, const float *x, const int32_t *y, uint64_t n,
                          const kf_stats_options *options) {
  AUTO(kf_data) *data = NULL;
  kf_stats *s;
  assert_ok(ctx, kf_data_open_memory(ctx, x, n, D, y, NULL, K, &data));
  assert_ok(ctx, kf_stats_new_from_data(ctx, data, options, &s));
  return s;
}

static void assert_same(const kf_stats *a, const kf_stats *b) {
  assert_int_equal(a->dim, b->dim);
  assert_int_equal(a->n_classes, b->n_classes);
  assert_int_equal(a->exponent, b->exponent);
  assert_int_equal(a->rows, b->rows);
  assert_memory_equal(a->counts, b->counts, a->n_classes * sizeof *a->counts);
  assert_memory_equal(a->sums, b->sums, (size_t)a->n_classes * a->dim * sizeof *a->sums);
  assert_memory_equal(a->moments, b->moments, kf_triangle(a->dim) * sizeof *a->moments);
}

/* --- the definition --------------------------------------------------------------------------- */

/* The integers of one row, by the book: canonical length, one division, one product, one rounding.
 */
static void fixed_row(const float *x, int64_t *out) {
  double lane[8] = {0};
  for (size_t j = 0; j < D; j++) lane[j % 8] += (double)x[j] * (double)x[j];
  double norm2 =
      ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
  double scale = 4194304.0 / sqrt(norm2);
  for (size_t j = 0; j < D; j++) out[j] = llrint((double)x[j] * scale);
}

TEST(definition) {
  AUTO(kf_ctx) *ctx = test_ctx(2, KF_ISA_AUTO);
  AUTO(kf_stats) *s = stats_of(ctx, rows, labels, N, NULL);
  static int64_t sums[K * D], moments[D * D], x[D];
  int64_t counts[K] = {0};
  memset(sums, 0, sizeof sums);
  memset(moments, 0, sizeof moments);
  for (size_t i = 0; i < N; i++) {
    fixed_row(rows + i * D, x);
    counts[labels[i]]++;
    for (size_t j = 0; j < D; j++) sums[(size_t)labels[i] * D + j] += x[j];
    for (size_t p = 0; p < D; p++)
      for (size_t q = 0; q < D; q++) moments[p * D + q] += x[p] * x[q];
  }
  assert_int_equal(kf_stats_rows(s), N);
  for (uint32_t k = 0; k < K; k++) {
    assert_int_equal(kf_stats_count(s, k), counts[k]);
    assert_memory_equal(kf_stats_class_sum(s, k), sums + k * D, D * sizeof *sums);
  }
  for (uint32_t p = 0; p < D; p++)
    for (uint32_t q = 0; q < D; q++) {
      int64_t hi;
      uint64_t lo;
      kf_stats_moment(s, p, q, &hi, &lo);
      assert_int_equal(lo, (uint64_t)moments[p * D + q]);
      assert_int_equal(hi, moments[p * D + q] < 0 ? -1 : 0);
    }
}

/* --- bits ------------------------------------------------------------------------------------- */

TEST(threads_and_instruction_sets) {
  AUTO(kf_ctx) *reference_ctx = test_ctx(1, KF_ISA_PLAIN);
  AUTO(kf_stats) *reference = stats_of(reference_ctx, rows, labels, N, NULL);
  const unsigned threads[] = {1, 2, 3, 8};
  for (int isa = KF_ISA_AUTO; isa <= KF_ISA_AMX; isa++)
    for (size_t t = 0; t < 4; t++) {
      if (!test_has_isa((kf_isa)isa)) continue;
      AUTO(kf_ctx) *ctx = test_ctx(threads[t], (kf_isa)isa);
      AUTO(kf_stats) *s = stats_of(ctx, rows, labels, N, NULL);
      assert_same(s, reference);
    }
}

/* Cuts the rows into shards, adds them up in a random tree in random order. */
TEST(shards_in_any_tree) {
  AUTO(kf_ctx) *ctx = test_ctx(2, KF_ISA_AUTO);
  AUTO(kf_stats) *whole = stats_of(ctx, rows, labels, N, NULL);
  const size_t counts[] = {1, 2, 7};
  uint64_t seed = 9;
  for (size_t c = 0; c < 3; c++)
    for (int trial = 0; trial < 5; trial++) {
      kf_stats *part[7];
      size_t n = counts[c];
      for (size_t p = 0; p < n; p++) {
        size_t first = N * p / n, end = N * (p + 1) / n;
        part[p] = stats_of(ctx, rows + first * D, labels + first, end - first, NULL);
      }
      while (n > 1) { /* merge two at random */
        size_t a = test_random(&seed) % n, b = test_random(&seed) % (n - 1);
        if (b >= a) b++;
        assert_ok(ctx, kf_stats_merge(ctx, part[a], part[b]));
        kf_stats_free(part[b]);
        part[b] = part[--n];
      }
      assert_same(part[0], whole);
      kf_stats_free(part[0]);
    }
}

TEST(adding_in_steps) {
  AUTO(kf_ctx) *ctx = test_ctx(2, KF_ISA_AUTO);
  AUTO(kf_stats) *whole = stats_of(ctx, rows, labels, N, NULL), *s = NULL;
  assert_ok(ctx, kf_stats_new(ctx, D, K, NULL, NULL, &s));
  for (size_t first = 0; first < N; first += 700) {
    size_t n = N - first < 700 ? N - first : 700;
    assert_ok(ctx, kf_stats_add(ctx, s, rows + first * D, labels + first, n));
  }
  assert_same(s, whole);
  /* Taking a part away leaves the rest, to the bit. */
  AUTO(kf_stats) *part = stats_of(ctx, rows, labels, 1000, NULL);
  AUTO(kf_stats) *rest = stats_of(ctx, rows + 1000 * D, labels + 1000, N - 1000, NULL);
  assert_ok(ctx, kf_stats_subtract(ctx, s, part));
  assert_same(s, rest);
  assert_error(ctx, KF_ERR_DATA, "fewer rows", kf_stats_subtract(ctx, part, s));
  /* As many rows of the classes, but not these rows. */
  for (uint64_t i = 0; i < K * D; i++) part->sums[i] = -part->sums[i] - 1000000000;
  assert_error(ctx, KF_ERR_DATA, "not those of a subset", kf_stats_subtract(ctx, rest, part));
  assert_same(s, rest);
}

TEST(failed_add_changes_nothing) {
  AUTO(kf_ctx) *ctx = test_ctx(2, KF_ISA_AUTO);
  AUTO(kf_stats) *s = stats_of(ctx, rows, labels, 100, NULL),
                 *before = stats_of(ctx, rows, labels, 100, NULL);
  float bad[3 * D];
  int32_t y[3] = {0, 1, 2};
  memcpy(bad, rows, sizeof bad);
  bad[2 * D + 5] = NAN;
  assert_error(ctx, KF_ERR_DATA, "row 2", kf_stats_add(ctx, s, bad, y, 3));
  memset(bad + 2 * D, 0, D * sizeof *bad);
  assert_error(ctx, KF_ERR_DATA, "is NaN, infinite or zero", kf_stats_add(ctx, s, bad, y, 3));
  y[1] = K;
  assert_error(ctx, KF_ERR_DATA, "label 11", kf_stats_add(ctx, s, rows, y, 3));
  assert_same(s, before);
  y[1] = KF_LABEL_NONE; /* rows without a label may be anything */
  y[2] = KF_LABEL_BAD;
  assert_ok(ctx, kf_stats_add(ctx, s, bad, y, 3));
  assert_int_equal(kf_stats_rows(s), 101);
}

/* --- extremes --------------------------------------------------------------------------------- */

/* The largest integers there are, for more rows than the design point of 19 million: raw rows of
 * equal magnitude are 2^22 in every column; 2^19 of them pass the 64-bit sums of a worker, and
 * doubling six times gives 33,554,432 rows, whose moments pass 64 bits. */
TEST(no_overflow) {
  enum { MANY = 1 << 19, WIDTH = 3 };
  AUTOFREE float *x = malloc((size_t)MANY * WIDTH * sizeof *x);
  AUTOFREE int32_t *y = malloc(MANY * sizeof *y);
  for (size_t i = 0; i < MANY; i++) {
    y[i] = 0;
    x[i * WIDTH] = 8;
    x[i * WIDTH + 1] = -8;
    x[i * WIDTH + 2] = i % 2 ? 8 : -8;
  }
  for (int isa = KF_ISA_PLAIN; isa <= KF_ISA_AMX; isa++) {
    if (!test_has_isa((kf_isa)isa)) continue;
    AUTO(kf_ctx) *ctx = test_ctx(1, (kf_isa)isa);
    AUTO(kf_data) *data = NULL;
    AUTO(kf_stats) *s = NULL;
    assert_ok(ctx, kf_data_open_memory(ctx, x, MANY, WIDTH, y, NULL, 1, &data));
    assert_ok(ctx, kf_stats_new_from_data(ctx, data, &(kf_stats_options){.normalize = KF_OFF}, &s));
    assert_int_equal(kf_stats_exponent(s), 19); /* 8 * 2^19 = 2^22 */
    for (int i = 0; i < 6; i++) {
      AUTO(kf_stats) *copy = NULL;
      assert_ok(ctx, kf_stats_new(ctx, WIDTH, 1, NULL,
                                  &(kf_stats_options){.normalize = KF_OFF, .exponent = 19}, &copy));
      assert_ok(ctx, kf_stats_merge(ctx, copy, s));
      assert_ok(ctx, kf_stats_merge(ctx, s, copy));
    }
    kf_i128 want = (kf_i128)MANY * 64 << 44; /* 2^69 */
    assert_int_equal(kf_stats_rows(s), (uint64_t)MANY * 64);
    assert_true(s->moments[0] == want && s->moments[1] == -want && s->moments[2] == 0);
    assert_int_equal(s->sums[0], (int64_t)MANY * 64 << 22);
    assert_int_equal(s->sums[1], -((int64_t)MANY * 64 << 22));
  }
}

/* ImageNet-21K's classes at CLIP ViT-L/14's dimension, through a file and back. */
TEST(many_classes) {
  enum { CLASSES = 21841, WIDTH = 768, ROWS = 2 * CLASSES };
  AUTO(kf_ctx) *ctx = test_ctx(2, KF_ISA_AUTO);
  AUTO(kf_data) *world = NULL;
  kf_synth_options synth = {.classes = CLASSES, .dim = WIDTH, .per_class = 2};
  assert_ok(ctx, kf_synth_open(ctx, &synth, &world));
  AUTO(kf_stats) *s = NULL, *back = NULL;
  assert_ok(ctx, kf_stats_new_from_data(ctx, world, NULL, &s));
  assert_int_equal(kf_stats_rows(s), ROWS);
  assert_int_equal(kf_stats_classes(s), CLASSES);
  const char *folder = test_folder();
  assert_ok(ctx, kf_stats_save(ctx, s, test_path(folder, "s.safetensors")));
  assert_ok(ctx, kf_stats_load(ctx, test_path(folder, "s.safetensors"), &back));
  assert_same(s, back);
  assert_true(kf_names_equal(&s->names, &back->names));
  test_remove(folder);
}

/* --- raw norms -------------------------------------------------------------------------------- */

TEST(raw_norms) {
  AUTO(kf_ctx) *ctx = test_ctx(2, KF_ISA_AUTO);
  kf_stats_options raw = {.normalize = KF_OFF};
  kf_stats *s = stats_of(ctx, rows, labels, N, &raw), *t,
           *unit = stats_of(ctx, rows, labels, N, NULL);
  float largest = 0;
  for (size_t i = 0; i < N * D; i++) largest = fmaxf(largest, fabsf(rows[i]));
  double top = ldexp((double)largest, s->exponent);
  assert_true(top <= 4194304.0 && 2 * top > 4194304.0);
  assert_int_equal(kf_stats_normalized(s), 0);
  assert_error(ctx, KF_ERR_DATA, "cannot be combined", kf_stats_merge(ctx, s, unit));
  kf_stats_options coarse = {.normalize = KF_OFF, .exponent = s->exponent - 1, .fixed_exponent = 1};
  t = stats_of(ctx, rows, labels, N, &coarse);
  assert_error(ctx, KF_ERR_DATA, "both need the smaller one", kf_stats_merge(ctx, s, t));
  assert_int_equal(kf_errhint(ctx), KF_HINT_EXPONENT);
  kf_stats_free(t);
  /* A row that is left out does not set the unit of those that are not. */
  float wild[3 * D];
  int32_t y[3] = {0, KF_LABEL_NONE, 1};
  memcpy(wild, rows, sizeof wild);
  wild[D] = 1e20f;
  kf_stats *calm = stats_of(ctx, wild, y, 3, &raw);
  assert_true(kf_stats_exponent(calm) > 10);
  kf_stats_free(calm);
  AUTO(kf_data) *data = NULL;
  kf_stats_options fine = {.normalize = KF_OFF, .exponent = s->exponent + 1, .fixed_exponent = 1};
  assert_ok(ctx, kf_data_open_memory(ctx, rows, N, D, labels, NULL, K, &data));
  assert_error(ctx, KF_ERR_DATA, "exponent", kf_stats_new_from_data(ctx, data, &fine, &t));
  kf_stats_free(s);
  kf_stats_free(unit);
}

/* --- classes with names ----------------------------------------------------------------------- */

static kf_stats *named(kf_ctx *ctx, const char *const *names, uint32_t k, size_t first) {
  kf_stats *s;
  int32_t y[40];
  for (int i = 0; i < 40; i++) y[i] = i % (int)k;
  assert_ok(ctx, kf_stats_new(ctx, D, k, names, NULL, &s));
  assert_ok(ctx, kf_stats_add(ctx, s, rows + first * D, y, 40));
  return s;
}

TEST(names_are_matched) {
  AUTO(kf_ctx) *ctx = test_ctx(1, KF_ISA_AUTO);
  const char *const one[] = {"cat", "ant"}, *const two[] = {"bee", "cat", "dog"};
  AUTO(kf_stats) *a = named(ctx, one, 2, 0), *b = named(ctx, two, 3, 100),
                 *c = named(ctx, one, 2, 200);
  AUTO(kf_stats) *cats = named(ctx, one, 2, 0);
  assert_ok(ctx, kf_stats_merge(ctx, cats, c)); /* same list: its order stays */
  assert_string_equal(kf_stats_class_name(cats, 0), "cat");
  assert_ok(ctx, kf_stats_merge(ctx, cats, b)); /* another list: the sorted union */
  const char *const want[] = {"ant", "bee", "cat", "dog"};
  for (uint32_t k = 0; k < 4; k++) assert_string_equal(kf_stats_class_name(cats, k), want[k]);
  assert_int_equal(kf_stats_count(cats, 0), 40);
  assert_int_equal(kf_stats_count(cats, 2), 40 + 13);
  assert_ok(ctx, kf_stats_merge(ctx, a, b)); /* any tree gives the same */
  assert_ok(ctx, kf_stats_merge(ctx, c, a));
  assert_same(c, cats);
  AUTO(kf_stats) *bare = stats_of(ctx, rows, labels, 50, NULL);
  assert_error(ctx, KF_ERR_DATA, "have names", kf_stats_merge(ctx, bare, c));
  assert_int_equal(kf_errhint(ctx), KF_HINT_CLASSES);
}

/* --- scatter ---------------------------------------------------------------------------------- */

static void assert_trace(kf_ctx *ctx, const kf_stats *s, const double *s_w) {
  double want = 0, trace, norm2;
  for (size_t i = 0; i < D; i++) want += s_w[i * D + i];
  assert_ok(ctx, kf_measure_within(ctx, s, &trace, &norm2));
  assert_true(trace == want);
}

/* Against sums over the integer rows in long double, around the true means. */
TEST(scatter_matrices) {
  AUTO(kf_ctx) *ctx = test_ctx(2, KF_ISA_AUTO);
  AUTO(kf_stats) *s = stats_of(ctx, rows, labels, N, NULL);
  static double s_w[D * D], s_b[D * D], mean[D];
  static long double x[N][D], mu[K][D], all[D], w[D][D], b[D][D];
  long double n[K] = {0};
  memset(mu, 0, sizeof mu);
  memset(all, 0, sizeof all);
  memset(w, 0, sizeof w);
  memset(b, 0, sizeof b);
  assert_ok(ctx, kf_stats_scatter(ctx, s, s_w, s_b, mean));
  assert_trace(ctx, s, s_w);
  for (size_t i = 0; i < N; i++) {
    int64_t fixed[D];
    fixed_row(rows + i * D, fixed);
    n[labels[i]]++;
    for (size_t j = 0; j < D; j++) {
      x[i][j] = (long double)fixed[j] / 4194304.0L;
      mu[labels[i]][j] += x[i][j];
      all[j] += x[i][j];
    }
  }
  for (size_t j = 0; j < D; j++) {
    all[j] /= N;
    for (size_t k = 0; k < K; k++) mu[k][j] /= n[k];
  }
  for (size_t p = 0; p < D; p++)
    for (size_t q = 0; q < D; q++) {
      for (size_t i = 0; i < N; i++)
        w[p][q] += (x[i][p] - mu[labels[i]][p]) * (x[i][q] - mu[labels[i]][q]);
      for (size_t k = 0; k < K; k++) b[p][q] += n[k] * (mu[k][p] - all[p]) * (mu[k][q] - all[q]);
    }
  for (size_t p = 0; p < D; p++) {
    assert_true(fabsl((long double)mean[p] - all[p]) < 1e-15L);
    for (size_t q = 0; q < D; q++) {
      assert_true(fabsl((long double)s_w[p * D + q] - w[p][q]) < 1e-12L * w[0][0]);
      assert_true(fabsl((long double)s_b[p * D + q] - b[p][q]) < 1e-12L * b[0][0]);
      assert_true(s_w[p * D + q] == s_w[q * D + p] && s_b[p * D + q] == s_b[q * D + p]);
    }
  }
}

/* Many classes of 7 rows, which are summed alone, and classes of 1 to 10, which are summed by bits.
 * S_w from the integers themselves: n_k M_k - s_k s_k^T, over n_k. */
TEST(equal_counts) {
  enum { EQUAL = 300, CLASSES = EQUAL + 10, ROWS = EQUAL * 7 + 55 };
  static int32_t of[ROWS];
  static long double sum[CLASSES][D], count[CLASSES], w[D][D];
  static double s_w[D * D];
  size_t at = 0;
  for (int32_t k = 0; k < CLASSES; k++)
    for (int32_t i = 0; i < (k < EQUAL ? 7 : k - EQUAL + 1); i++) of[at++] = k;
  AUTO(kf_ctx) *ctx = test_ctx(2, KF_ISA_AUTO);
  AUTO(kf_data) *data = NULL;
  AUTO(kf_stats) *s = NULL;
  assert_ok(ctx, kf_data_open_memory(ctx, rows, ROWS, D, of, NULL, CLASSES, &data));
  assert_ok(ctx, kf_stats_new_from_data(ctx, data, NULL, &s));
  assert_ok(ctx, kf_stats_scatter(ctx, s, s_w, NULL, NULL));
  assert_trace(ctx, s, s_w);
  for (size_t i = 0; i < ROWS; i++) {
    int64_t fixed[D];
    fixed_row(rows + i * D, fixed);
    count[of[i]]++;
    for (size_t p = 0; p < D; p++) {
      sum[of[i]][p] += (long double)fixed[p];
      for (size_t q = 0; q < D; q++) w[p][q] += (long double)fixed[p] * (long double)fixed[q];
    }
  }
  for (size_t p = 0; p < D; p++)
    for (size_t q = 0; q < D; q++) {
      for (size_t k = 0; k < CLASSES; k++) w[p][q] -= sum[k][p] * sum[k][q] / count[k];
      assert_true(fabsl((long double)s_w[p * D + q] - w[p][q] * 0x1p-44L) < 1e-12L * ROWS);
    }
}

/* Narrow classes far apart: S_w is a tiny part of the moments and still right to 1e-12, against
 * exact sums over the integer rows (128-bit: n_k M_k - s_k s_k^T is an integer). */
TEST(narrow_classes) {
  AUTO(kf_ctx) *ctx = test_ctx(2, KF_ISA_AUTO);
  for (int power = 1; power <= 4; power++) {
    static float x[N * D];
    uint64_t seed = (uint64_t)power;
    for (size_t i = 0; i < N; i++)
      for (size_t j = 0; j < D; j++) {
        double centre = sin((double)(labels[i] * 37 + (int32_t)j) * 1.7) + 0.7;
        x[i * D + j] = (float)(centre + pow(10, -power) * test_normal(&seed));
      }
    AUTO(kf_stats) *s = stats_of(ctx, x, labels, N, NULL);
    static double s_w[D * D];
    static kf_i128 moment[K][D][D];
    memset(moment, 0, sizeof moment);
    assert_ok(ctx, kf_stats_scatter(ctx, s, s_w, NULL, NULL));
    assert_trace(ctx, s, s_w);
    for (size_t i = 0; i < N; i++) {
      int64_t fixed[D];
      fixed_row(x + i * D, fixed);
      for (size_t p = 0; p < D; p++)
        for (size_t q = 0; q < D; q++) moment[labels[i]][p][q] += (kf_i128)fixed[p] * fixed[q];
    }
    double scale = 0, worst = 0;
    for (size_t p = 0; p < D; p++)
      for (size_t q = 0; q < D; q++) {
        long double want = 0;
        for (size_t k = 0; k < K; k++)
          want += (long double)(moment[k][p][q] * s->counts[k] -
                                (kf_i128)s->sums[k * D + p] * s->sums[k * D + q]) /
                  (long double)s->counts[k];
        want = ldexpl(want, -44);
        scale = fmax(scale, (double)fabsl(want));
        worst = fmax(worst, (double)fabsl((long double)s_w[p * D + q] - want));
      }
    assert_true(worst <= 1e-12 * scale);
  }
}

/* More classes than a worker holds rows before it empties its sums, all with the same count: the
 * sums must count twice wherever they are emptied, and equal rows leave nothing of S_w. */
TEST(very_many_classes) {
  enum { CLASSES = 600000, WIDTH = 3 };
  AUTO(kf_ctx) *ctx = test_ctx(1, KF_ISA_AUTO);
  AUTOFREE float *x = malloc((size_t)2 * CLASSES * WIDTH * sizeof *x);
  AUTOFREE int32_t *y = malloc((size_t)2 * CLASSES * sizeof *y);
  uint64_t seed = 1;
  for (size_t k = 0; k < CLASSES; k++)
    for (size_t d = 0; d < WIDTH; d++)
      x[2 * k * WIDTH + d] = x[(2 * k + 1) * WIDTH + d] = (float)(test_uniform(&seed) + 1.5);
  for (size_t i = 0; i < 2 * CLASSES; i++) y[i] = (int32_t)(i / 2);
  AUTO(kf_stats) *s = NULL;
  double s_w[WIDTH * WIDTH];
  assert_ok(ctx, kf_stats_new(ctx, WIDTH, CLASSES, NULL, NULL, &s));
  assert_ok(ctx, kf_stats_add(ctx, s, x, y, 2 * CLASSES));
  assert_ok(ctx, kf_stats_scatter(ctx, s, s_w, NULL, NULL));
  for (size_t i = 0; i < WIDTH * WIDTH; i++) assert_true(s_w[i] == 0);
}

/* --- files ------------------------------------------------------------------------------------ */

TEST(files) {
  AUTO(kf_ctx) *ctx = test_ctx(2, KF_ISA_AUTO);
  const char *folder = test_folder();
  char path[512], again[512];
  snprintf(path, sizeof path, "%s/s.safetensors", folder);
  snprintf(again, sizeof again, "%s/again.safetensors", folder);
  kf_stats *s = stats_of(ctx, rows, labels, N, NULL), *back;
  assert_ok(ctx, kf_stats_save(ctx, s, path));
  assert_ok(ctx, kf_stats_load(ctx, path, &back));
  assert_same(s, back);
  assert_ok(ctx, kf_stats_save(ctx, back, again));
  assert_same_file(path, again);
  kf_stats_free(back);
  /* Sums and moments that no rows could give are refused, to the unit; test_rules.c has more. */
  int64_t *sum = &s->sums[3], most = s->counts[0] * KF_FIXED_ONE, was = *sum;
  for (int beyond = -1; beyond <= 1; beyond++) {
    *sum = beyond == 0 ? most : beyond * (most + 1);
    assert_ok(ctx, kf_stats_save(ctx, s, again));
    assert_error(ctx, KF_ERR_DATA, beyond != 0 ? "class 0, column 3" : "sum of class 0 is longer",
                 kf_stats_load(ctx, again, &back));
  }
  *sum = was;
  kf_i128 moment = s->moments[5], limit = (kf_i128)N << 44;
  s->moments[5] = -limit - 1;
  assert_ok(ctx, kf_stats_save(ctx, s, again));
  assert_error(ctx, KF_ERR_DATA, "second moment (0, 5)", kf_stats_load(ctx, again, &back));
  s->moments[5] = moment;
  /* Any flipped byte is noticed. */
  size_t size;
  char *bytes = test_read(path, &size);
  uint64_t seed = 3;
  for (int trial = 0; trial < 200; trial++) {
    size_t at = trial < 40 ? (size_t)trial * 12 : test_random(&seed) % size;
    bytes[at] ^= 0x10;
    FILE *file = fopen(again, "wb");
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
    bytes[at] ^= 0x10;
    assert_error(ctx, KF_ERR_DATA, again, kf_stats_load(ctx, again, &back));
  }
  free(bytes);
  test_remove(folder);
  kf_stats_free(s);
}

static int setup(void **state) {
  (void)state;
  make_rows();
  return 0;
}

TEST(indices_out_of_range) {
  AUTO(kf_ctx) *ctx = test_ctx(1, KF_ISA_AUTO);
  AUTO(kf_stats) *s = stats_of(ctx, rows, labels, N, NULL);
  int64_t hi = 5;
  uint64_t lo = 5;
  assert_true(kf_stats_count(s, K - 1) > 0);
  assert_int_equal(kf_stats_count(s, K), 0);
  assert_non_null(kf_stats_class_sum(s, K - 1));
  assert_null(kf_stats_class_sum(s, K));
  assert_null(kf_stats_class_sum(s, UINT32_MAX));
  assert_null(kf_stats_class_name(s, K));
  kf_stats_moment(s, D - 1, D - 1, &hi, &lo);
  assert_true(hi == 0 && lo > 0);
  for (int side = 0; side < 2; side++) {
    hi = 5;
    lo = 5;
    kf_stats_moment(s, side ? D : 0, side ? 0 : D, &hi, &lo);
    assert_true(hi == 0 && lo == 0);
  }
}

FIXTURES(.before = setup);
