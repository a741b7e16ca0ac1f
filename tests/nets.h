/* nets.h - compares a kernel of towers with the plain one, to the bit; shared by test_net.c
 * (real instructions) and test_net_amx.c (emulated tiles). */
#ifndef KF_TEST_NETS_H
#define KF_TEST_NETS_H

#include "test.h"

#include "base/base.h"
#include "kernel/kernel.h"

#include <math.h>

/* Values typical of towers; of every magnitude, with zeros of both signs and denormals; such that
 * products and sums are near the smallest normal number; or near the largest. */
typedef enum values { ORDINARY, WILD, SMALL, LARGE, KINDS } values;

static inline float random_value(uint64_t *seed, values kind) {
  float x = (float)test_uniform(seed);
  switch (kind) {
  case WILD:
    switch (test_random(seed) % 8) {
    case 0: return 0;
    case 1: return -0.0f;
    case 2: return x * 0x1p-130f;
    default: return ldexpf(x, (int)(test_random(seed) % 60) - 40);
    }
  case SMALL: return ldexpf(x, -(int)(test_random(seed) % 12) - 57);
  case LARGE: return ldexpf(x, (int)(test_random(seed) % 8) + 52);
  default: return x;
  }
}

static inline float *random_rows(size_t n, uint64_t *seed, values kind) {
  float *x = kf_alloc(n, sizeof *x);
  assert_non_null(x);
  for (size_t i = 0; i < n; i++) x[i] = random_value(seed, kind);
  return x;
}

/* Memory with garbage in it. */
static inline void *used_memory(size_t size) {
  void *p = kf_alloc(1, size);
  assert_non_null(p);
  memset(p, 0x5a, size);
  return p;
}

static inline void *prepared_rows(const kf_net_kernel *net, const float *x, size_t m, size_t k) {
  assert_int_equal(net->rows_size(m, k) % 64, 0);
  void *rows = used_memory(net->rows_size(m, k));
  size_t some = m / 3; /* in two parts */
  net->prepare(x, k, 0, some, k, rows);
  net->prepare(x + some * k, k, some, m - some, k, rows);
  return rows;
}

static inline void *packed_weights(const kf_net_kernel *net, const float *w, size_t n, size_t k) {
  assert_int_equal(net->weights_size(n, k) % 64, 0);
  void *packed = used_memory(net->weights_size(n, k));
  for (size_t first = 0; first < n; first += KF_NET_PANEL)
    net->pack(w + first * k, n, k, first, n - first < KF_NET_PANEL ? n - first : KF_NET_PANEL,
              packed);
  return packed;
}

static inline void start(const kf_net_kernel *net) {
  if (net->begin != NULL) net->begin();
}
static inline void stop(const kf_net_kernel *net) {
  if (net->end != NULL) net->end();
}

static inline void run_attention(const kf_net_kernel *net, const kf_net_attention *attention) {
  kf_net_attention a = *attention;
  a.workspace = used_memory(net->attention_size(a.keys, a.dim));
  start(net);
  net->attention(&a);
  stop(net);
  kf_free(a.workspace);
}

static inline uint32_t bits_of(float x) {
  uint32_t all;
  memcpy(&all, &x, sizeof all);
  return all;
}

/* All NaNs count as one. */
static inline void assert_same(const float *got, const float *want, size_t n, const char *what) {
  for (size_t i = 0; i < n; i++)
    if (bits_of(got[i]) != bits_of(want[i]) && !(isnan(got[i]) && isnan(want[i])))
      fail_msg("%s: element %zu is %a, not %a", what, i, (double)got[i], (double)want[i]);
}

typedef struct shape {
  size_t m, k, n;
} shape;

/* One product: to f32 rows with and without adding to their old values, in one call and in two
 * column ranges; and to prepared rows, which are read back through a second product with weights of
 * 0 and 1. */
static inline void check_product(const kf_net_kernel *net, const kf_net_kernel *plain, shape s,
                                 values kind, kf_activation activation, uint64_t seed) {
  const kf_net_kernel *kernel[2] = {net, plain};
  size_t stride = s.n + 3, size = s.m * stride;
  float *x = random_rows(s.m * s.k, &seed, kind), *w = random_rows(s.n * s.k, &seed, kind);
  float *bias = random_rows(s.n, &seed, kind), *before = random_rows(size, &seed, kind);
  float *unit = kf_alloc(s.n * s.n, sizeof *unit), *out[3][2];
  assert_non_null(unit);
  for (size_t i = 0; i < s.n * s.n; i++) unit[i] = i / s.n == i % s.n;
  for (size_t t = 0; t < 2; t++) {
    const kf_net_kernel *by = kernel[t];
    void *rows = prepared_rows(by, x, s.m, s.k), *weights = packed_weights(by, w, s.n, s.k);
    void *next = used_memory(by->rows_size(s.m, s.n)), *ones = packed_weights(by, unit, s.n, s.n);
    for (size_t i = 0; i < 3; i++) {
      out[i][t] = kf_alloc(size, sizeof *before);
      memcpy(out[i][t], before, size * sizeof *before);
    }
    kf_net_product p = {.x = rows,
                        .m = s.m,
                        .k = s.k,
                        .weights = weights,
                        .n = s.n,
                        .end = s.n,
                        .out = out[0][t],
                        .stride = stride};
    start(by);
    by->multiply(&p);
    p.bias = bias, p.activation = activation, p.add = true, p.out = out[1][t];
    p.end = s.n > KF_NET_PANEL ? (s.n - 1) / 2 / KF_NET_PANEL * KF_NET_PANEL + KF_NET_PANEL : s.n;
    if (p.end > s.n) p.end = s.n;
    by->multiply(&p);
    size_t cut = p.end;
    p.first = cut, p.end = s.n;
    if (cut < s.n) by->multiply(&p);
    p.out = NULL, p.prepared = next;
    if (cut < s.n) by->multiply(&p);
    p.first = 0, p.end = cut;
    by->multiply(&p);
    kf_net_product q = {.x = next,
                        .m = s.m,
                        .k = s.n,
                        .weights = ones,
                        .n = s.n,
                        .end = s.n,
                        .out = out[2][t],
                        .stride = stride};
    by->multiply(&q);
    stop(by);
    kf_free(rows), kf_free(weights), kf_free(next), kf_free(ones);
  }
  char what[128];
  snprintf(what, sizeof what, "%zu x %zu x %zu, values %d, activation %d", s.m, s.k, s.n, (int)kind,
           (int)activation);
  for (size_t i = 0; i < 3; i++) {
    assert_same(out[i][0], out[i][1], size, what);
    kf_free(out[i][0]), kf_free(out[i][1]);
  }
  kf_free(x), kf_free(w), kf_free(bias), kf_free(before), kf_free(unit);
}

static inline void check_products(const kf_net_kernel *net, const kf_net_kernel *plain) {
  static const shape shapes[] = {{1, 1, 1},    {2, 3, 2},     {5, 31, 33},   {6, 32, 32},
                                 {7, 33, 31},  {13, 64, 65},  {16, 100, 64}, {17, 65, 100},
                                 {33, 40, 17}, {50, 257, 70}, {31, 1100, 5}, {205, 35, 40},
                                 {3, 20, 300}, {1, 2100, 37}};
  uint64_t seed = 17;
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (values kind = ORDINARY; kind < KINDS; kind++)
      check_product(net, plain, shapes[i], kind, (kf_activation)((i + kind) % 4), seed++);
  for (size_t i = 0; i < 40; i++) {
    shape s = {1 + test_random(&seed) % 40, 1 + test_random(&seed) % 90,
               1 + test_random(&seed) % 90};
    check_product(net, plain, s, (values)(i % KINDS), (kf_activation)(i / 4 % 4), seed);
  }
}

/* Outputs computed in parts equal those of one call, and nothing else is written. */
static inline void check_parts(const kf_net_kernel *net, const kf_net_kernel *plain) {
  (void)plain;
  enum { M = 37, K = 50, N = 165, PART = 64, PARTS_OF_N = 3, STRIDE = 70, STEP = M * STRIDE + 5 };
  uint64_t seed = 29;
  float *x = random_rows(M * K, &seed, ORDINARY), *w = random_rows(N * K, &seed, ORDINARY);
  float *want = random_rows(M * N, &seed, ORDINARY),
        *out = kf_alloc(PARTS_OF_N * STEP, sizeof *out);
  float *before = kf_alloc(PARTS_OF_N * STEP, sizeof *before);
  void *rows = prepared_rows(net, x, M, K), *weights = packed_weights(net, w, N, K);
  for (size_t i = 0; i < PARTS_OF_N * STEP; i++) out[i] = before[i] = -1;
  for (size_t i = 0; i < M * N; i++) {
    size_t at = i % N / PART * STEP + i / N * STRIDE + i % N % PART;
    out[at] = want[i];
  }
  kf_net_product p = {
      .x = rows, .m = M, .k = K, .weights = weights, .n = N, .end = N, .out = want, .stride = N};
  p.add = true;
  start(net);
  net->multiply(&p);
  p.out = out, p.stride = STRIDE, p.part = PART, p.part_step = STEP;
  p.end = 96;
  net->multiply(&p);
  p.first = 96, p.end = N;
  net->multiply(&p);
  stop(net);
  for (size_t i = 0; i < M * N; i++)
    before[i % N / PART * STEP + i / N * STRIDE + i % N % PART] = want[i];
  assert_same(out, before, PARTS_OF_N * STEP, "parts");
  kf_free(x), kf_free(w), kf_free(want), kf_free(out), kf_free(before), kf_free(rows);
  kf_free(weights);
}

/* Two products whose sum is a little below the smallest normal number, in steps finer than a
 * denormal's: whether it is flushed is decided after rounding to 24 bits. */
static inline void check_edge_of_denormals(const kf_net_kernel *net, const kf_net_kernel *plain) {
  enum { CASES = 2000, K = 8, N = 32 };
  float x[K] = {0}, *w = kf_alloc(N * K, sizeof *w), got[N], want[N];
  uint64_t seed = 23;
  for (int c = 0; c < CASES; c++) {
    memset(x, 0, sizeof x);
    memset(w, 0, N * K * sizeof *w);
    if (c % 8 == 0) { /* denormals that bf16 would round to a normal number, as row and as weight */
      x[1] = 0x1.fffffcp-127f, x[3] = 0x1p100f;
      for (size_t j = 0; j < N; j++) w[j * K + 1] = 0x1p100f, w[j * K + 3] = 0x1.fffffcp-127f;
    }
    x[0] = 0x1p-63f, x[2] = 0x1p-70f, x[4] = 0x1p-75f;
    for (size_t j = 0; j < N; j++) { /* 2^-126, less 2^-148 … 2^-152, and some more below that */
      w[j * K] = c % 2 ? -0x1p-63f : 0x1p-63f;
      w[j * K + 2] =
          ldexpf((float)(test_random(&seed) % 255 + 1), -83 - (int)(test_random(&seed) % 8));
      w[j * K + 4] = ldexpf((float)(test_random(&seed) % 255), -86 - (int)(test_random(&seed) % 8));
      if (w[j * K] > 0) w[j * K + 2] = -w[j * K + 2];
      if (test_random(&seed) % 2) w[j * K + 4] = -w[j * K + 4];
    }
    for (int t = 0; t < 2; t++) {
      const kf_net_kernel *by = t == 0 ? net : plain;
      void *rows = prepared_rows(by, x, 1, K), *weights = packed_weights(by, w, N, K);
      kf_net_product p = {.x = rows,
                          .m = 1,
                          .k = K,
                          .weights = weights,
                          .n = N,
                          .end = N,
                          .out = t == 0 ? got : want,
                          .stride = N};
      start(by);
      by->multiply(&p);
      stop(by);
      kf_free(rows), kf_free(weights);
    }
    assert_same(got, want, N, "near the smallest normal number");
  }
  kf_free(w);
}

/* Every activation of n products of 1 with a weight each, plus the biases if there are any. */
static inline void compare_activations(const kf_net_kernel *net, const kf_net_kernel *plain,
                                       const float *w, const float *bias, size_t n,
                                       const char *what) {
  float one = 1, *out[2];
  for (kf_activation a = KF_ACT_NONE; a <= KF_ACT_GELU_TANH; a++) {
    for (int t = 0; t < 2; t++) {
      const kf_net_kernel *by = t == 0 ? net : plain;
      void *rows = prepared_rows(by, &one, 1, 1), *weights = packed_weights(by, w, n, 1);
      out[t] = kf_alloc(n, sizeof **out);
      kf_net_product p = {.x = rows,
                          .m = 1,
                          .k = 1,
                          .weights = weights,
                          .n = n,
                          .end = n,
                          .bias = bias,
                          .activation = a,
                          .out = out[t],
                          .stride = n};
      start(by);
      by->multiply(&p);
      stop(by);
      kf_free(rows), kf_free(weights);
    }
    assert_same(out[0], out[1], n, what);
    kf_free(out[0]), kf_free(out[1]);
  }
}

/* Activations of many values, including those beyond the cut-offs. */
static inline void check_activations(const kf_net_kernel *net, const kf_net_kernel *plain) {
  enum { N = 6000 };
  AUTOFREE float *w = kf_alloc(N, sizeof *w);
  for (size_t i = 0; i < N; i++) w[i] = ((float)i - N / 2) * (i % 3 ? 0x1.01p-8f : 0x1.01p-4f);
  w[0] = INFINITY, w[1] = -INFINITY, w[2] = NAN, w[3] = -0.0f, w[4] = 0x1p-140f;
  compare_activations(net, plain, w, NULL, N, "activation");
}

/* Activations of numbers from the whole range of f32, as biases: steps of a prime through their
 * bits, and the powers of two with their neighbours, where quotients are hardest to round. */
static inline void check_many_activations(const kf_net_kernel *net, const kf_net_kernel *plain) {
  enum { STEPS = 40000, PRIME = 107351, POWERS = 256 * 3, N = STEPS + 2 * POWERS };
  float *zero = kf_alloc_zero(N, sizeof *zero), *bias = kf_alloc(N, sizeof *bias);
  for (uint32_t i = 0; i < N; i++) {
    uint32_t power = i - STEPS, bits = (power % 256 << 23) + power / 512 - 1u;
    if (i < STEPS)
      bits = i * PRIME;
    else if (power / 256 % 2 == 1)
      bits |= 0x80000000u;
    memcpy(&bias[i], &bits, sizeof bits);
  }
  compare_activations(net, plain, zero, bias, N, "activation of a bias");
  kf_free(zero), kf_free(bias);
}

/* The padding after the last column of a prepared row is zero, whatever was in memory: infinite
 * outputs still add up to infinity. */
static inline void check_padding(const kf_net_kernel *net, const kf_net_kernel *plain) {
  (void)plain;
  enum { N = 5 };
  float x = INFINITY, ones[N] = {1, 1, 1, 1, 1}, out;
  void *rows = prepared_rows(net, &x, 1, 1), *first = packed_weights(net, ones, N, 1);
  void *next = used_memory(net->rows_size(1, N)), *second = packed_weights(net, ones, 1, N);
  memset(next, 0xff, net->rows_size(1, N)); /* no numbers */
  kf_net_product p = {
      .x = rows, .m = 1, .k = 1, .weights = first, .n = N, .end = N, .prepared = next};
  kf_net_product q = {
      .x = next, .m = 1, .k = N, .weights = second, .n = 1, .end = 1, .out = &out, .stride = 1};
  start(net);
  net->multiply(&p);
  net->multiply(&q);
  stop(net);
  assert_true(out == INFINITY);
  kf_free(rows), kf_free(first), kf_free(next), kf_free(second);
}

/* A NaN key gives NaN, whatever its bits: the exponential adds to the exponent field and must not
 * turn a NaN into a weight. */
static inline void check_nan(const kf_net_kernel *net, const kf_net_kernel *plain) {
  (void)plain;
  enum { KEYS = 3, DIM = 4 };
  float q[DIM] = {1, 1, 1, 1}, k[KEYS * DIM] = {0}, v[KEYS * DIM] = {0}, out[DIM];
  AUTOFREE void *workspace = used_memory(net->attention_size(KEYS, DIM));
  kf_net_attention a = {.q = q,
                        .k = k,
                        .v = v,
                        .q_stride = DIM,
                        .kv_stride = DIM,
                        .queries = 1,
                        .keys = KEYS,
                        .dim = DIM,
                        .scale = 0.5f,
                        .out = out,
                        .out_stride = DIM,
                        .workspace = workspace};
  for (uint32_t payload = 0; payload < 512; payload++) {
    uint32_t bits = 0x7fc00000u | payload;
    memcpy(&k[DIM + 2], &bits, sizeof bits);
    start(net);
    net->attention(&a);
    stop(net);
    for (int c = 0; c < DIM; c++)
      if (!isnan(out[c])) fail_msg("a key of %08x leaves %a", bits, (double)out[c]);
  }
}

/* Outside the kernel the processor treats denormals as before, since the caller depends on it. */
static inline void check_denormals_after(const kf_net_kernel *net, const kf_net_kernel *plain) {
  (void)plain;
  float x = 1, w = 1, out = 0;
  void *rows = prepared_rows(net, &x, 1, 1), *weights = packed_weights(net, &w, 1, 1);
  start(net);
  net->multiply(&(kf_net_product){
      .x = rows, .m = 1, .k = 1, .weights = weights, .n = 1, .end = 1, .out = &out, .stride = 1});
  stop(net);
  volatile float small = 0x1p-126f;
  small *= 0.5f; /* lost where results are flushed */
  small *= 2;    /* and here where operands are flushed */
  assert_true(out == 1 && small == 0x1p-126f);
  kf_free(rows), kf_free(weights);
}

/* A row gives the same alone and among others. */
static inline void check_rows_alone(const kf_net_kernel *net, const kf_net_kernel *plain) {
  (void)plain;
  enum { M = 210, K = 200, N = 70 };
  uint64_t seed = 29;
  float *x = random_rows(M * K, &seed, ORDINARY), *w = random_rows(N * K, &seed, ORDINARY);
  float *all = kf_alloc(M * N, sizeof *all), one[N];
  char *rows = prepared_rows(net, x, M, K);
  void *weights = packed_weights(net, w, N, K);
  kf_net_product p = {
      .x = rows, .m = M, .k = K, .weights = weights, .n = N, .end = N, .out = all, .stride = N};
  start(net);
  net->multiply(&p);
  p.out = one, p.m = 1;
  for (size_t i = 0; i < M; i++) {
    AUTOFREE void *row = prepared_rows(net, x + i * K, 1, K);
    p.x = row;
    net->multiply(&p);
    assert_same(all + i * N, one, N, "a row alone");
  }
  stop(net);
  kf_free(x), kf_free(w), kf_free(all), kf_free(rows), kf_free(weights);
}

static inline void check_layer_norms(const kf_net_kernel *net, const kf_net_kernel *plain) {
  static const size_t widths[] = {1, 2, 7, 8, 9, 15, 16, 31, 64, 77, 768, 1021};
  uint64_t seed = 31;
  for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
    enum { M = 5 };
    size_t d = widths[i], stride = d + 5;
    float *x = random_rows(M * stride, &seed, i % 2 ? WILD : ORDINARY);
    float *gamma = random_rows(d, &seed, ORDINARY), *beta = random_rows(d, &seed, ORDINARY);
    float *want = kf_alloc(M * d, sizeof *want), *got = kf_alloc(M * d, sizeof *got);
    plain->layer_norm(x, stride, M, d, gamma, beta, 1e-5f, want, d);
    net->layer_norm(x, stride, M, d, gamma, beta, 1e-5f, got, d);
    assert_same(got, want, M * d, "layer norm");
    net->layer_norm(x, stride, M, d, gamma, beta, 1e-5f, x, stride); /* in place */
    for (size_t r = 0; r < M; r++)
      assert_same(x + r * stride, want + r * d, d, "layer norm in place");
    kf_free(x), kf_free(gamma), kf_free(beta), kf_free(want), kf_free(got);
  }
}

/* Attention to prepared rows writes what preparing its f32 rows would, there and nowhere else. */
static inline void check_attended(const kf_net_kernel *net, const kf_net_kernel *plain) {
  (void)plain;
  enum { QUERIES_NOW = 37, KEYS = 41, ROW = 3, ROWS = ROW + QUERIES_NOW + 2 };
  static const size_t dims[] = {32, 64, 160};
  uint64_t seed = 43;
  for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
    size_t dim = dims[i], depth = dim + 2 * KF_NET_STEP;
    float *q = random_rows(QUERIES_NOW * dim, &seed, ORDINARY);
    float *kv = random_rows(KEYS * 2 * dim, &seed, ORDINARY);
    float *x = random_rows(ROWS * depth, &seed, ORDINARY);
    void *got = prepared_rows(net, x, ROWS, depth), *want;
    kf_net_attention a = {.q = q,
                          .k = kv,
                          .v = kv + dim,
                          .q_stride = dim,
                          .kv_stride = 2 * dim,
                          .queries = QUERIES_NOW,
                          .keys = KEYS,
                          .dim = dim,
                          .scale = 0.3f,
                          .out = x + ROW * depth + KF_NET_STEP,
                          .out_stride = depth};
    run_attention(net, &a);
    want = prepared_rows(net, x, ROWS, depth);
    a.out = NULL, a.prepared = got, a.row = ROW, a.column = KF_NET_STEP, a.depth = depth;
    run_attention(net, &a);
    assert_memory_equal(got, want, net->rows_size(ROWS, depth));
    kf_free(q), kf_free(kv), kf_free(x), kf_free(got), kf_free(want);
  }
}

static inline void check_attentions(const kf_net_kernel *net, const kf_net_kernel *plain) {
  static const size_t shapes[][3] = {{1, 1, 1},    {2, 2, 3},     {7, 7, 64},   {50, 50, 64},
                                     {33, 33, 80}, {77, 77, 20},  {1, 65, 72},  {130, 130, 33},
                                     {97, 10, 64}, {20, 257, 16}, {19, 40, 168}};
  uint64_t seed = 37;
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (int causal = 0; causal < (shapes[i][0] == shapes[i][1] ? 2 : 1); causal++) {
      size_t queries = shapes[i][0], keys = shapes[i][1], dim = shapes[i][2];
      size_t qs = dim + 3, kvs = 3 * dim, os = dim + 1;
      float *q = random_rows(queries * qs, &seed, ORDINARY);
      float *kv = random_rows(keys * kvs, &seed, ORDINARY), *out[2];
      for (size_t j = 0; j < queries * qs; j++) q[j] *= i % 2 ? 30.0f : 3.0f;
      for (int t = 0; t < 2; t++) {
        out[t] = used_memory(queries * os * sizeof **out);
        run_attention(t == 0 ? net : plain, &(kf_net_attention){.q = q,
                                                                .k = kv,
                                                                .v = kv + dim,
                                                                .q_stride = qs,
                                                                .kv_stride = kvs,
                                                                .queries = queries,
                                                                .keys = keys,
                                                                .dim = dim,
                                                                .scale = 0.3f,
                                                                .causal = causal,
                                                                .out = out[t],
                                                                .out_stride = os});
      }
      assert_same(out[0], out[1], queries * os, "attention");
      kf_free(q), kf_free(kv), kf_free(out[0]), kf_free(out[1]);
    }
}

#endif
