/* test_net.c - the arithmetic of towers: the plain kernels against mathematics in f64, and every
 * other one against the plain ones, to the bit. Kernels that this machine cannot run are skipped,
 * one case for each check. */
#include "nets.h"

#include <math.h>

/* --- the plain kernels against mathematics --------------------------------------------------- */

static void naive_product(const kf_net_product *p, const float *x, const float *w, double *out) {
  for (size_t i = 0; i < p->m; i++)
    for (size_t j = 0; j < p->n; j++) {
      double sum = p->bias != NULL ? (double)p->bias[j] : 0;
      for (size_t c = 0; c < p->k; c++) sum += (double)x[i * p->k + c] * (double)w[j * p->k + c];
      out[i * p->n + j] = sum;
    }
}

static void check_product_value(const kf_net_kernel *net, double tolerance) {
  enum { M = 5, K = 77, N = 45 };
  uint64_t seed = 3;
  float *x = random_rows(M * K, &seed, ORDINARY), *w = random_rows(N * K, &seed, ORDINARY);
  float *bias = random_rows(N, &seed, ORDINARY), out[M * N];
  double want[M * N];
  void *rows = prepared_rows(net, x, M, K), *weights = packed_weights(net, w, N, K);
  kf_net_product p = {.x = rows,
                      .m = M,
                      .k = K,
                      .weights = weights,
                      .n = N,
                      .end = N,
                      .bias = bias,
                      .out = out,
                      .stride = N};
  net->multiply(&p);
  naive_product(&p, x, w, want);
  for (size_t i = 0; i < M * N; i++)
    if (fabs((double)out[i] - want[i]) > tolerance * sqrt(K))
      fail_msg("element %zu is %g, not %g", i, (double)out[i], want[i]);
  kf_free(x), kf_free(w), kf_free(bias), kf_free(rows), kf_free(weights);
}

TEST(products) {
  check_product_value(&kf_net_plain_f32, 0x1p-20);
  check_product_value(&kf_net_plain_bf16, 0x1p-7);
}

/* Ties, denormals, the largest values, infinities and NaN. */
TEST(rounding) {
  static const uint32_t cases[][2] = {
      {0x3f800000, 0x3f800000}, {0x3f808000, 0x3f800000}, {0x3f808001, 0x3f810000},
      {0x3f818000, 0x3f820000}, {0x3f817fff, 0x3f810000}, {0x007fffff, 0x00000000},
      {0x807fffff, 0x80000000}, {0x00000001, 0x00000000}, {0x00800000, 0x00800000},
      {0x00808000, 0x00800000}, {0x7f7fffff, 0x7f800000}, {0xff7f0000, 0xff7f0000},
      {0x7f800000, 0x7f800000}, {0xff800000, 0xff800000}, {0x7f800001, 0x7fc00000},
      {0xffc01234, 0xffc00000}, {0x80000000, 0x80000000}};
  const kf_net_kernel *net = &kf_net_plain_bf16;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    float x, row[KF_NET_STEP];
    uint32_t got;
    memcpy(&x, &cases[i][0], sizeof x);
    net->prepare(&x, 1, 0, 1, 1, row);
    memcpy(&got, row, sizeof got);
    if (got != cases[i][1]) fail_msg("%08x becomes %08x", cases[i][0], got);
  }
}

/* The activation of x, by a product with 1. */
static float activated(const kf_net_kernel *net, kf_activation activation, float x) {
  float one = 1, out;
  char rows[512] __attribute__((aligned(64))), weights[8192] __attribute__((aligned(64)));
  assert_true(net->rows_size(1, 1) <= sizeof rows && net->weights_size(1, 1) <= sizeof weights);
  net->prepare(&x, 1, 0, 1, 1, rows);
  net->pack(&one, 1, 1, 0, 1, weights);
  kf_net_product p = {.x = rows,
                      .m = 1,
                      .k = 1,
                      .weights = weights,
                      .n = 1,
                      .end = 1,
                      .activation = activation,
                      .out = &out,
                      .stride = 1};
  net->multiply(&p);
  return out;
}

TEST(activations) {
  const double eps = 0x1p-24;
  for (int at = -12 * 1024; at <= 12 * 1024; at++) {
    float x = (float)at / 1024;
    double d = (double)x, u = 2 * sqrt(2 / M_PI) * (d + 0.044715 * d * d * d);
    double want[] = {d, d / (1 + exp(-1.702 * d)), d * erfc(-d * M_SQRT1_2) / 2, d / (1 + exp(-u))};
    /* The argument of exp is rounded: that many units. Where 1 + erf cancels the error is one of
     * 1. */
    double allowed[] = {0, (4 + 1.8 * fabs(d)) * eps * fabs(want[1]),
                        3 * eps * fmax(fabs(want[2]), fabs(d) / 2),
                        (4 + 3 * fabs(u)) * eps * fabs(want[3])};
    for (kf_activation a = KF_ACT_NONE; a <= KF_ACT_GELU_TANH; a++) {
      double got = (double)activated(&kf_net_plain_f32, a, x);
      if (!(fabs(got - want[a]) <= allowed[a] + 1e-36))
        fail_msg("activation %d of %.9g is %.9g, not %.9g", (int)a, d, got, want[a]);
    }
  }
  for (kf_activation a = KF_ACT_NONE; a <= KF_ACT_GELU_TANH; a++) {
    assert_true(isnan(activated(&kf_net_plain_f32, a, NAN)));
    assert_true(activated(&kf_net_plain_f32, a, 1e30f) == 1e30f);
    if (a != KF_ACT_NONE) assert_true(fabsf(activated(&kf_net_plain_f32, a, -50.0f)) < 1e-30f);
  }
}

TEST(layer_norms) {
  enum { D = 77 };
  uint64_t seed = 9;
  float *x = random_rows(2 * D, &seed, ORDINARY), *gamma = random_rows(D, &seed, ORDINARY);
  float *beta = random_rows(D, &seed, ORDINARY), out[D];
  for (size_t i = 0; i < D; i++) x[i] += 100;
  kf_net_plain_f32.layer_norm(x, D, 1, D, gamma, beta, 1e-5f, out, D);
  double mean = 0, variance = 0;
  for (size_t i = 0; i < D; i++) mean += (double)x[i] / D;
  for (size_t i = 0; i < D; i++) variance += ((double)x[i] - mean) * ((double)x[i] - mean) / D;
  for (size_t i = 0; i < D; i++) {
    double h = ((double)x[i] - mean) / sqrt(variance + (double)1e-5f);
    assert_true(fabs((double)out[i] - (h * (double)gamma[i] + (double)beta[i])) < 1e-6);
  }
  kf_free(x), kf_free(gamma), kf_free(beta);
}

static void check_attention_value(const kf_net_kernel *net, double tolerance) {
  enum { N = 37, D = 20 };
  uint64_t seed = 11;
  float *q = random_rows(N * D, &seed, ORDINARY), *k = random_rows(N * D, &seed, ORDINARY);
  float *v = random_rows(N * D, &seed, ORDINARY), out[N * D];
  for (int causal = 0; causal < 2; causal++) {
    run_attention(net, &(kf_net_attention){.q = q,
                                           .k = k,
                                           .v = v,
                                           .q_stride = D,
                                           .kv_stride = D,
                                           .queries = N,
                                           .keys = N,
                                           .dim = D,
                                           .scale = 0.7f,
                                           .causal = causal,
                                           .out = out,
                                           .out_stride = D});
    for (size_t i = 0; i < N; i++) {
      double e[N], sum = 0;
      for (size_t j = 0; j < N; j++) {
        double s = 0;
        for (size_t c = 0; c < D; c++) s += (double)q[i * D + c] * (double)k[j * D + c];
        sum += e[j] = causal && j > i ? 0 : exp((double)0.7f * s);
      }
      for (size_t c = 0; c < D; c++) {
        double want = 0;
        for (size_t j = 0; j < N; j++) want += e[j] / sum * (double)v[j * D + c];
        if (fabs((double)out[i * D + c] - want) > tolerance)
          fail_msg("query %zu, column %zu: %g, not %g", i, c, (double)out[i * D + c], want);
      }
    }
  }
  kf_free(q), kf_free(k), kf_free(v);
}

TEST(attentions) {
  check_attention_value(&kf_net_plain_f32, 1e-6);
  check_attention_value(&kf_net_plain_bf16, 0.02);
}

/* --- every kernel against the plain one ------------------------------------------------------ */

#ifdef KF_SIMD
static bool has_avx2(void) { return kf_kernels_for(KF_ISA_AVX2) != NULL; }
static bool has_avx512(void) { return kf_kernels_for(KF_ISA_AVX512) != NULL; }
static bool has_amx_bf16(void) { return kf_isa_available(KF_ISA_AMX); }
#define IF_BUILT(kernel, here) &(kernel), here
#else
static bool missing(void) { return false; }
#define IF_BUILT(kernel, here) NULL, missing
#endif

/* bf16 by FMA is run too where VDPBF16PS would be taken. */
static const struct candidate {
  const char *name;
  const kf_net_kernel *net;
  bool (*here)(void);
} candidates[] = {{"avx2_f32", IF_BUILT(kf_net_avx2_f32, has_avx2)},
                  {"avx2_bf16", IF_BUILT(kf_net_avx2_bf16, has_avx2)},
                  {"avx512_f32", IF_BUILT(kf_net_avx512_f32, has_avx512)},
                  {"avx512_bf16_by_fma", IF_BUILT(kf_net_avx512_bf16, has_avx512)},
                  {"avx512_bf16", IF_BUILT(kf_net_avx512bf16, kf_has_avx512bf16)},
                  {"amx_bf16", IF_BUILT(kf_net_amx, has_amx_bf16)}};

static const struct check {
  const char *name;
  void (*run)(const kf_net_kernel *net, const kf_net_kernel *plain);
} checks[] = {{"products", check_products},
              {"parts", check_parts},
              {"edges", check_edge_of_denormals},
              {"padding", check_padding},
              {"no_numbers", check_nan},
              {"activations", check_activations},
              {"activations_of_all", check_many_activations},
              {"rows", check_rows_alone},
              {"norms", check_layer_norms},
              {"attention", check_attentions},
              {"attended", check_attended},
              {"denormals", check_denormals_after}};
enum {
  N_CANDIDATES = sizeof candidates / sizeof *candidates,
  N_CHECKS = sizeof checks / sizeof *checks
};

typedef struct test_case {
  char name[40];
  const struct candidate *candidate;
  const struct check *check;
} test_case;

static void run_case(void **state) {
  const test_case *c = *state;
  if (!c->candidate->here()) test_skip(c->candidate->name);
  const kf_net_kernel *net = c->candidate->net;
  c->check->run(net, net->precision == KF_F32 ? &kf_net_plain_f32 : &kf_net_plain_bf16);
}

/* Checks against a definition, so that the plain kernels are checked too. */
TEST(plain_alone) {
  const kf_net_kernel *nets[] = {&kf_net_plain_f32, &kf_net_plain_bf16};
  for (size_t i = 0; i < 2; i++) {
    check_parts(nets[i], NULL);
    check_attended(nets[i], NULL);
    check_padding(nets[i], NULL);
    check_nan(nets[i], NULL);
    check_rows_alone(nets[i], NULL);
  }
}

TESTS {
  static test_case cases[N_CANDIDATES * N_CHECKS];
  for (size_t i = 0; i < N_CANDIDATES * N_CHECKS; i++) {
    test_case *c = &cases[i];
    c->candidate = &candidates[i / N_CHECKS];
    c->check = &checks[i % N_CHECKS];
    snprintf(c->name, sizeof c->name, "%s.%s", c->check->name, c->candidate->name);
    ADD_TEST(c->name, run_case, c);
  }
}
