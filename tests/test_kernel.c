/* test_kernel.c - every kernel of every instruction set gives the bits of the plain one, on odd
 * sizes and at extreme values. One case for each check and instruction set; missing instruction
 * sets are skipped. */
#include "kernel/fused.h"
#include "scans.h"
#include "tiles.h"

#include <math.h>

static const size_t sizes[] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100, 257, 768, 1021};
#define N_SIZES (sizeof sizes / sizeof *sizes)
#define MOST    1100

static void fill_f32(float *x, size_t n, uint64_t seed) {
  for (size_t i = 0; i < n; i++) {
    double scale = ldexp(1.0, (int)(test_random(&seed) % 60) - 30);
    x[i] = (float)(test_uniform(&seed) * scale);
  }
}

static void fill_f64(double *x, size_t n, uint64_t seed) {
  for (size_t i = 0; i < n; i++) x[i] = test_uniform(&seed);
}

static void assert_bits(const void *a, const void *b, size_t n) { assert_memory_equal(a, b, n); }

/* --- half precision -------------------------------------------------------------------------- */

static void check_f16(const kf_kernels *fast, const kf_kernels *plain) {
  enum { ALL = 65536 };
  static uint16_t in[ALL], back[ALL];
  static float a[ALL], b[ALL];
  size_t n = 0;
  for (uint32_t h = 0; h < ALL; h++)
    if ((h & 0x7c00u) != 0x7c00u || (h & 0x3ffu) == 0) in[n++] = (uint16_t)h; /* all but NaNs */
  fast->f16_to_f32(in, n, a);
  plain->f16_to_f32(in, n, b);
  assert_bits(a, b, n * sizeof *a);
  plain->f32_to_f16(b, n, back);
  assert_bits(back, in, n * sizeof *in);
}

static void check_to_f16(const kf_kernels *fast, const kf_kernels *plain) {
  enum { N = 200000 };
  static float x[N];
  static uint16_t a[N], b[N];
  uint64_t seed = 5;
  for (size_t i = 0; i < N; i++) { /* all exponents, and many exact ties */
    uint32_t bits = (uint32_t)test_random(&seed);
    if (i % 2) bits &= 0xfffff000u;
    memcpy(&x[i], &bits, sizeof bits);
    if (isnan(x[i])) x[i] = 65519.996f;
  }
  fast->f32_to_f16(x, N, a);
  plain->f32_to_f16(x, N, b);
  assert_bits(a, b, sizeof a);
}

/* --- canonical sums -------------------------------------------------------------------------- */

static void check_sums(const kf_kernels *fast, const kf_kernels *plain) {
  static float x[MOST], rows[7 * MOST];
  static double u[MOST], v[MOST];
  for (size_t s = 0; s < N_SIZES; s++) {
    size_t n = sizes[s];
    fill_f32(x, n, s);
    fill_f32(rows, 7 * MOST, 100 + s);
    fill_f64(u, n, 200 + s);
    fill_f64(v, n, 300 + s);
    double a = fast->norm2(x, n), b = plain->norm2(x, n);
    assert_bits(&a, &b, sizeof a);
    a = fast->dot(n, u, v);
    b = plain->dot(n, u, v);
    assert_bits(&a, &b, sizeof a);
    for (size_t m = 1; m <= 7; m++) {
      double p[7], q[7];
      const float *row[7];
      for (size_t r = 0; r < m; r++) row[r] = rows + r * MOST;
      fast->dots(x, row, m, n, p);
      plain->dots(x, row, m, n, q);
      assert_bits(p, q, m * sizeof *p);
      fast->distances(x, row, m, n, p);
      plain->distances(x, row, m, n, q);
      assert_bits(p, q, m * sizeof *p);
    }
  }
}

static void check_not_finite(const kf_kernels *fast, const kf_kernels *plain) {
  (void)plain;
  float x[19];
  for (size_t at = 0; at < 19; at++) {
    for (size_t i = 0; i < 19; i++) x[i] = 1;
    x[at] = NAN;
    assert_true(isnan(fast->norm2(x, 19)));
    x[at] = -INFINITY;
    assert_true(isinf(fast->norm2(x, 19)));
  }
}

/* --- exact moments --------------------------------------------------------------------------- */

static void check_quantize(const kf_kernels *fast, const kf_kernels *plain) {
  static float x[MOST];
  static int32_t a[MOST], b[MOST];
  for (size_t s = 0; s < N_SIZES; s++) {
    size_t n = sizes[s];
    uint64_t seed = s;
    for (size_t i = 0; i < n; i++) x[i] = (float)test_uniform(&seed);
    x[0] = 1;
    if (n > 1) x[1] = 0x1.8p-22f;  /* a tie: 1.5 units */
    if (n > 2) x[2] = -0x1.4p-20f; /* and -5, exactly */
    for (int k = 0; k < 2; k++) {
      double scale = k == 0 ? (double)KF_FIXED_ONE : 3141592.25;
      fast->quantize(x, n, scale, a);
      plain->quantize(x, n, scale, b);
      assert_bits(a, b, n * sizeof *a);
    }
  }
}

static void check_moments(const kf_kernels *fast, const kf_kernels *plain) {
  (void)plain;
  check_random_tiles(fast->moment);
  check_extreme_tiles(fast->moment);
}

/* --- searching ------------------------------------------------------------------------------- */

static void check_all_scans(const kf_kernels *fast, const kf_kernels *plain) {
  (void)plain;
  check_scans(fast->scan);
#ifdef KF_SIMD
#endif
}

/* --- linear algebra -------------------------------------------------------------------------- */

/* Random numbers, and the extremes with bytes of 255 and 0. */
static void check_bytes(const kf_kernels *fast, const kf_kernels *plain) {
  static const uint32_t widths[] = {64, 128, 192, 768, 1024, 8448, 65536};
  for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
    for (int way = 0; way < 4; way++) {
      uint32_t n = widths[w];
      uint64_t seed = n + (unsigned)way;
      AUTOFREE int8_t *query = malloc(n);
      AUTOFREE uint8_t *row = malloc(n);
      int64_t wanted = 0;
      for (uint32_t i = 0; i < n; i++) {
        int x = (int)(test_random(&seed) % 255) - 127;
        query[i] = (int8_t)(way == 0 ? x : way == 1 ? 127 : way == 2 ? -127 : i % 2 ? 127 : -127);
        row[i] = way == 0 ? (uint8_t)test_random(&seed) : way == 3 && i % 2 ? 0 : 255;
        wanted += query[i] * row[i];
      }
      assert_int_equal(plain->byte_dot(query, row, n), wanted);
      assert_int_equal(fast->byte_dot(query, row, n), wanted);
    }
}

/* High and low parts add up to every number, and high parts are never -128. */
TEST(fine_parts) {
  for (int32_t x = -KF_FINE_MOST; x <= KF_FINE_MOST; x++) {
    int high = kf_fine_high(x), low = kf_fine_low(x);
    assert_int_equal(128 * high + low, x);
    assert_in_range(high + 127, 0, 254);
    assert_in_range(low + 64, 0, 127);
  }
}

static void check_gemm(const kf_kernels *fast, const kf_kernels *plain) {
  const size_t shapes[][3] = {{1, 1, 1},     {1, 67, 35},  {3, 32, 16},   {5, 41, 203},
                              {8, 24, 10},   {9, 25, 193}, {64, 96, 192}, {65, 100, 385},
                              {130, 7, 200}, {7, 64, 0},   {193, 65, 193}};
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
    size_t m = shapes[s][0], n = shapes[s][1], depth = shapes[s][2];
    AUTOFREE double *a = kf_alloc(depth * (m + 3), sizeof *a),
                    *b = kf_alloc(depth * (n + 1), sizeof *b);
    AUTOFREE double *c = kf_alloc(m * (n + 2), sizeof *c), *d = kf_alloc(m * (n + 2), sizeof *d);
    fill_f64(a, depth * (m + 3), s);
    fill_f64(b, depth * (n + 1), 50 + s);
    fill_f64(c, m * (n + 2), 90 + s);
    memcpy(d, c, m * (n + 2) * sizeof *c);
    fast->gemm_tn(a, m + 3, b, n + 1, c, n + 2, m, n, depth);
    plain->gemm_tn(a, m + 3, b, n + 1, d, n + 2, m, n, depth);
    assert_bits(c, d, m * (n + 2) * sizeof *c);
  }
}

static void check_gemm_f32(const kf_kernels *fast, const kf_kernels *plain) {
  const size_t shapes[][3] = {{1, 1, 1},   {1, 67, 35},    {3, 32, 16},    {5, 41, 203},
                              {8, 48, 10}, {9, 49, 193},   {64, 100, 1},   {65, 7, 385},
                              {7, 64, 0},  {13, 129, 203}, {193, 65, 193}, {200, 130, 40}};
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
    size_t m = shapes[s][0], n = shapes[s][1], depth = shapes[s][2];
    AUTOFREE float *a = kf_alloc(depth * (m + 3), sizeof *a),
                   *b = kf_alloc(depth * (n + 1), sizeof *b);
    AUTOFREE float *c = kf_alloc(m * (n + 2), sizeof *c), *d = kf_alloc(m * (n + 2), sizeof *d);
    fill_f32(a, depth * (m + 3), s);
    fill_f32(b, depth * (n + 1), 50 + s);
    fill_f32(c, m * (n + 2), 90 + s);
    memcpy(d, c, m * (n + 2) * sizeof *c);
    fast->gemm_tn_f32(a, m + 3, b, n + 1, c, n + 2, m, n, depth);
    plain->gemm_tn_f32(a, m + 3, b, n + 1, d, n + 2, m, n, depth);
    assert_bits(c, d, m * (n + 2) * sizeof *c);
  }
}

static void check_list(const kf_kernels *fast, const kf_kernels *plain) {
  static float x[MOST], far[MOST], scale[MOST], offset[MOST];
  static uint32_t list[2][MOST];
  for (size_t s = 0; s < N_SIZES; s++) {
    size_t n = sizes[s], i = n / 2;
    fill_f32(x, n, s);
    fill_f32(far, n, s + 10);
    fill_f32(scale, n, s + 20);
    fill_f32(offset, n, s + 40);
    float edge = (x[i] + 0.3f * far[i]) * scale[i] - offset[i]; /* exactly one of the values */
    const float lows[] = {0.1f, edge, INFINITY, -INFINITY};
    for (size_t t = 0; t < 4; t++) {
      size_t a = fast->list_reaching(x, far, 0.3f, scale, offset, n, lows[t], list[0]);
      size_t b = plain->list_reaching(x, far, 0.3f, scale, offset, n, lows[t], list[1]);
      assert_int_equal(a, b);
      assert_bits(list[0], list[1], a * sizeof *list[0]);
      assert_true(t != 1 || n == 0 || a > 0);
    }
  }
}

static void check_vectors(const kf_kernels *fast, const kf_kernels *plain) {
  enum { ROWS = 9 };
  static double rows[ROWS * MOST], x[MOST], y[2][MOST], factor[ROWS];
  double dots[2][ROWS];
  for (size_t s = 0; s < N_SIZES; s++) {
    size_t n = sizes[s];
    fill_f64(rows, ROWS * MOST, s);
    fill_f64(x, MOST, s + 20);
    fill_f64(factor, ROWS, s + 40);
    for (size_t m = 0; m <= ROWS; m++) {
      for (int k = 0; k < 2; k++) fill_f64(y[k], MOST, s + 60);
      fast->row_dots(rows, MOST, m, n, x, dots[0]);
      plain->row_dots(rows, MOST, m, n, x, dots[1]);
      assert_bits(dots[0], dots[1], m * sizeof dots[0][0]);
      fast->add_rows(rows, MOST, m, n, factor, y[0]);
      plain->add_rows(rows, MOST, m, n, factor, y[1]);
      assert_bits(y[0], y[1], sizeof y[0]);
    }
    if (n + 8 > MOST) continue;
    fast->symmetric_rows(n / 8 * 8, rows, MOST, x, y[0]);
    plain->symmetric_rows(n / 8 * 8, rows, MOST, x, y[1]);
    assert_bits(y[0], y[1], sizeof y[0]);
  }
}

/* Numbers of all magnitudes, including zeros and numbers whose products underflow. */
static double odd_number(uint64_t *seed) {
  static const double odd[] = {0, -0.0, 0x1p-600, -0x1p-600, 0x1p-1074, 0x1.8p-538, 0x1p300, 1};
  if (test_random(seed) % 4 == 0) return odd[test_random(seed) % 8];
  return ldexp(test_uniform(seed), (int)(test_random(seed) % 80) - 40);
}

static float odd_number_f32(uint64_t *seed) {
  static const float odd[] = {0, -0.0f, 0x1p-80f, -0x1p-80f, 0x1p-149f, 0x1.8p-70f, 0x1p30f, 1};
  if (test_random(seed) % 4 == 0) return odd[test_random(seed) % 8];
  return ldexpf((float)test_uniform(seed), (int)(test_random(seed) % 40) - 20);
}

/* Sums use fused steps, in tiles, at their edges and with few rows: compared with fma itself. */
static void check_fused(const kf_kernels *fast, const kf_kernels *plain) {
  enum { M = 200, N = 70, DEPTH = 5 };
  static double a[DEPTH * M], b[DEPTH * N], c[M * N], want[M * N];
  static float x[DEPTH * M], y[DEPTH * N], z[M * N], want_f32[M * N];
  const size_t rows[] = {1, 5, 13, M};
  (void)plain;
  for (uint64_t seed = 1; seed < 40; seed++)
    for (size_t r = 0; r < 4; r++) {
      size_t m = rows[r];
      uint64_t state = seed * 4 + r;
      for (size_t i = 0; i < DEPTH * m; i++)
        a[i] = odd_number(&state), x[i] = odd_number_f32(&state);
      for (size_t i = 0; i < DEPTH * N; i++)
        b[i] = odd_number(&state), y[i] = odd_number_f32(&state);
      for (size_t i = 0; i < m * N; i++) {
        c[i] = want[i] = odd_number(&state);
        z[i] = want_f32[i] = odd_number_f32(&state);
        for (size_t k = 0; k < DEPTH; k++) {
          want[i] = fma(a[k * m + i / N], b[k * N + i % N], want[i]);
          want_f32[i] = fmaf(x[k * m + i / N], y[k * N + i % N], want_f32[i]);
        }
      }
      fast->gemm_tn(a, m, b, N, c, N, m, N, DEPTH);
      fast->gemm_tn_f32(x, m, y, N, z, N, m, N, DEPTH);
      assert_bits(c, want, m * N * sizeof *c);
      assert_bits(z, want_f32, m * N * sizeof *z);
    }
}

/* Lanes that are -0 stay -0, wherever the row is in a batch. */
static void check_small_products(const kf_kernels *fast, const kf_kernels *plain) {
  enum { ROWS = 11, MOST_COLUMNS = 20 };
  double rows[ROWS * MOST_COLUMNS], x[MOST_COLUMNS], dots[2][ROWS];
  for (size_t i = 0; i < ROWS * MOST_COLUMNS; i++) rows[i] = -0x1p-600;
  for (size_t i = 0; i < MOST_COLUMNS; i++) x[i] = 0x1p-600;
  for (size_t n = 1; n <= MOST_COLUMNS; n++) {
    double a = fast->dot(n, rows, x), b = plain->dot(n, rows, x);
    assert_true(a == 0 && (signbit(a) != 0) == (n >= 8));
    assert_bits(&a, &b, sizeof a);
    fast->row_dots(rows, MOST_COLUMNS, ROWS, n, x, dots[0]);
    plain->row_dots(rows, MOST_COLUMNS, ROWS, n, x, dots[1]);
    assert_bits(dots[0], dots[1], sizeof dots[0]);
  }
}

/* fma without an instruction: numbers of all magnitudes, cancellation, ties and near ties, overflow
 * and underflow. */
TEST(fused_by_parts) {
  enum { N = 300000 };
  uint64_t seed = 11;
  for (size_t i = 0; i < N; i++) {
    int wide = i % 8 == 0 ? 2100 : 120; /* exponents */
    double x[3];
    float y[3];
    for (int j = 0; j < 3; j++) {
      uint64_t bits = test_random(&seed) >> (test_random(&seed) % 53); /* often few bits */
      int power = (int)(test_random(&seed) % (uint64_t)wide) - wide / 2;
      x[j] = ldexp((double)(int64_t)(bits << 1) * (bits & 1 ? 1 : -1), power - 60);
      y[j] = (float)ldexp((double)(bits >> 40), power / 4 - 20) * (bits & 2 ? 1.0f : -1.0f);
    }
    if (i % 3 == 0) { /* minus the product, nearly or except for the last bit */
      x[2] = -x[0] * x[1] * (i % 2 ? 1 : 1 + 0x1p-52);
      y[2] = -y[0] * y[1] * (i % 2 ? 1 : 1 + 0x1p-23f);
    } else if (i % 3 == 1) { /* nearly a tie: half a unit in the last place of the sum */
      x[2] = ldexp(x[0] * x[1], 53 + (int)(i / 3 % 3));
      y[2] = ldexpf(y[0] * y[1], 24 + (int)(i / 3 % 3));
    }
    double want = fma(x[0], x[1], x[2]), got = kf_fma_by_parts(x[0], x[1], x[2]);
    if (isnan(want)) continue; /* infinity minus infinity */
    assert_bits(&got, &want, sizeof got);
    float want_f32 = fmaf(y[0], y[1], y[2]);
    float got_f32 = kf_fmaf_by_parts(y[0], y[1], y[2]);
    if (isnan(want_f32)) continue;
    assert_bits(&got_f32, &want_f32, sizeof got_f32);
  }
  const double odd[][3] = {{0, -1, -0.0},
                           {-0.0, 1, 0.0},
                           {0x1p-600, 0x1p-600, 0},
                           {INFINITY, 1, 2},
                           {0x1p1000, 0x1p1000, -INFINITY},
                           {0x1p1023, 2, -0x1p1023},
                           {0x1.8p-538, 0x1p-537, 0x1p-1074},
                           {1, 1, -INFINITY}};
  for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
    double want = fma(odd[i][0], odd[i][1], odd[i][2]);
    double got = kf_fma_by_parts(odd[i][0], odd[i][1], odd[i][2]);
    assert_bits(&got, &want, sizeof got);
    float w = fmaf((float)odd[i][0], (float)odd[i][1], (float)odd[i][2]);
    float g = kf_fmaf_by_parts((float)odd[i][0], (float)odd[i][1], (float)odd[i][2]);
    if (!isnan(w)) assert_bits(&g, &w, sizeof g);
  }
  assert_true(isnan(kf_fma_by_parts(NAN, 0, 1)) && isnan(kf_fma_by_parts(1, 1, NAN)));
  assert_true(isnan(kf_fmaf_by_parts(NAN, 0, 1)) && isnan(kf_fmaf_by_parts(0, INFINITY, 1)));
}

/* Poles 1, 2, … with a root next to each, sometimes very close. */
static void check_secular(const kf_kernels *fast, const kf_kernels *plain) {
  static double d[MOST], z[MOST], origin[MOST], x[MOST], out[2][MOST];
  for (size_t s = 0; s < N_SIZES; s++) {
    size_t n = sizes[s];
    fill_f64(z, n, s);
    for (size_t j = 0; j < n; j++) {
      d[j] = (double)(j + 1);
      origin[j] = d[j];
      x[j] = j % 3 == 0 ? 1e-30 : 0.37;
    }
    for (size_t root = 0; root < n; root += 1 + n / 5) {
      double sums[2][2], p, q;
      fast->secular_sums(n, d, z, origin[root], x[root], sums[0]);
      plain->secular_sums(n, d, z, origin[root], x[root], sums[1]);
      assert_bits(sums[0], sums[1], sizeof sums[0]);
      p = fast->secular_vector(n, d, z, origin[root], x[root], out[0]);
      q = plain->secular_vector(n, d, z, origin[root], x[root], out[1]);
      assert_bits(&p, &q, sizeof p);
      assert_bits(out[0], out[1], n * sizeof out[0][0]);
    }
    for (size_t first = 0; first < n; first += 1 + n / 3) {
      memset(out, 0, sizeof out);
      fast->secular_weights(n, d, origin, x, first, n - first / 2, out[0]);
      plain->secular_weights(n, d, origin, x, first, n - first / 2, out[1]);
      assert_bits(out[0], out[1], sizeof out[0]);
    }
  }
}

static void check_rotate(const kf_kernels *fast, const kf_kernels *plain) {
  enum { ROWS = 20, STRIDE = 80 };
  static double p[ROWS * STRIDE], q[ROWS * STRIDE];
  double c[ROWS], s[ROWS];
  for (size_t n = 1; n <= 75; n += 1) {
    fill_f64(p, ROWS * STRIDE, n);
    memcpy(q, p, sizeof p);
    for (size_t t = 0; t < ROWS; t++) {
      c[t] = cos((double)(t + n));
      s[t] = sin((double)(t + n));
    }
    fast->rotate(p, STRIDE, n, 17, c, s, 14);
    plain->rotate(q, STRIDE, n, 17, c, s, 14);
    assert_bits(p, q, sizeof p);
  }
}

TEST(isa_names) {
  assert_string_equal(kf_isa_name(KF_ISA_AMX), "amx");
  assert_null(kf_isa_name((kf_isa)5));
  assert_true(kf_isa_available(KF_ISA_AUTO) && kf_isa_available(KF_ISA_PLAIN));
  kf_ctx *ctx = NULL;
  assert_int_equal(kf_ctx_new(&(kf_ctx_options){.isa = (kf_isa)9}, &ctx), KF_ERR_ARG);
  assert_int_equal(kf_ctx_new(&(kf_ctx_options){.threads = 5000}, &ctx), KF_ERR_ARG);
}

/* --- cases ----------------------------------------------------------------------------------- */

typedef struct check {
  const char *name;
  void (*run)(const kf_kernels *fast, const kf_kernels *plain);
  kf_isa first; /* KF_ISA_PLAIN: against a definition, so that the plain kernel is checked too */
} check;

static const check checks[] = {{"f16_to_f32", check_f16, KF_ISA_AVX2},
                               {"f32_to_f16", check_to_f16, KF_ISA_AVX2},
                               {"canonical_sums", check_sums, KF_ISA_AVX2},
                               {"not_finite", check_not_finite, KF_ISA_PLAIN},
                               {"quantize", check_quantize, KF_ISA_AVX2},
                               {"moments", check_moments, KF_ISA_PLAIN},
                               {"scan", check_all_scans, KF_ISA_PLAIN},
                               {"bytes", check_bytes, KF_ISA_PLAIN},
                               {"gemm", check_gemm, KF_ISA_AVX2},
                               {"gemm_f32", check_gemm_f32, KF_ISA_AVX2},
                               {"fused", check_fused, KF_ISA_PLAIN},
                               {"small_products", check_small_products, KF_ISA_PLAIN},
                               {"list", check_list, KF_ISA_AVX2},
                               {"vectors", check_vectors, KF_ISA_AVX2},
                               {"rotations", check_rotate, KF_ISA_AVX2},
                               {"secular", check_secular, KF_ISA_AVX2}};
enum { N_CHECKS = sizeof checks / sizeof *checks, N_ISAS = KF_ISA_AMX + 1 };

typedef struct test_case {
  char name[40];
  const check *check;
  kf_isa isa;
} test_case;

static void run_case(void **state) {
  const test_case *c = *state;
  const kf_kernels *fast = kf_kernels_for(c->isa);
  if (fast == NULL) test_skip(kf_isa_name(c->isa));
  c->check->run(fast, &kf_kernels_plain);
}

TESTS {
  static test_case cases[N_CHECKS * N_ISAS];
  test_case *c = cases;
  for (size_t i = 0; i < N_CHECKS; i++)
    for (kf_isa isa = checks[i].first; isa <= KF_ISA_AMX; isa++, c++) {
      *c = (test_case){.check = &checks[i], .isa = isa};
      snprintf(c->name, sizeof c->name, "%s.%s", checks[i].name, kf_isa_name(isa));
      ADD_TEST(c->name, run_case, c);
    }
}
