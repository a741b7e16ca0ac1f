/* net.c - how fast the kernels of towers multiply, beside what the machine can do at most.
 *
 *     cc -O2 -Iinclude -Isrc bench/net.c build/libkoofu.a -lpthread -lm -o build/net
 *     build/net [THREADS] [SECONDS]          # default: 1 thread, 0.5 s for each figure
 *
 * Prints GFLOP/s, the best of as many repeats as the seconds hold: products with bias, and a
 * GELU where n > k, to prepared or f32 rows; `peak` multiplies registers alone. Threads share
 * the outputs of a product. */
#include "kernel/kernel.h"

#include <immintrin.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* --- peaks ----------------------------------------------------------------------------------- */

enum { TURNS = 100000, CHAINS = 12 };

#define PEAK(name, isa, type, zero, step)                                                          \
  __attribute__((target(isa))) static void name(void) {                                            \
    type sum[CHAINS];                                                                              \
    _Pragma("GCC unroll 12") for (int i = 0; i < CHAINS; i++) sum[i] = zero;                       \
    for (int t = 0; t < TURNS; t++) {                                                              \
      _Pragma("GCC unroll 12") for (int i = 0; i < CHAINS; i++) {                                  \
        __asm__ volatile(step : "+v"(sum[i]) : "v"(zero));                                         \
      }                                                                                            \
    }                                                                                              \
  }
PEAK(peak_avx2, "avx2,fma", __m256, _mm256_setzero_ps(), "vfmadd231ps %1, %1, %0")
PEAK(peak_avx512, "avx512f", __m512, _mm512_setzero_ps(), "vfmadd231ps %1, %1, %0")
PEAK(peak_bf16, "avx512f", __m512, _mm512_setzero_ps(), "vdpbf16ps %1, %1, %0")

/* --- products -------------------------------------------------------------------------------- */

typedef struct work {
  const kf_net_kernel *net;
  void (*peak)(void);
  kf_net_product product;
} work;

static void *run_share(void *arg) {
  work *w = arg;
  if (w->net == NULL) {
    w->peak();
    return NULL;
  }
  if (w->net->begin != NULL) w->net->begin();
  w->net->multiply(&w->product);
  if (w->net->end != NULL) w->net->end();
  return NULL;
}

static double measure(work *shares, unsigned threads, double seconds) {
  double best = 1e9;
  for (double begun = now(); now() - begun < seconds;) {
    pthread_t other[64];
    double from = now();
    for (unsigned t = 1; t < threads; t++)
      if (pthread_create(&other[t], NULL, run_share, &shares[t]) != 0) abort();
    run_share(&shares[0]);
    for (unsigned t = 1; t < threads; t++) pthread_join(other[t], NULL);
    double spent = now() - from;
    best = spent < best ? spent : best;
  }
  return best;
}

static void *room(size_t size) {
  void *p = aligned_alloc(64, (size + 63) / 64 * 64);
  if (p == NULL) abort();
  memset(p, 0, size);
  return p;
}

static float *numbers(size_t n) {
  float *x = room(n * sizeof *x);
  uint32_t state = 1;
  for (size_t i = 0; i < n; i++) {
    state = state * 1664525u + 1013904223u;
    x[i] = (float)(int32_t)state * 0x1p-31f;
  }
  return x;
}

static double product_speed(const kf_net_kernel *net, size_t m, size_t k, size_t n,
                            unsigned threads, double seconds) {
  float *x = numbers(m * k), *w = numbers(n * k), *bias = numbers(n);
  void *rows = room(m * net->row_size(k)), *weights = room(net->weights_size(n, k));
  void *next = room(m * net->row_size(n));
  float *out = room(m * n * sizeof *out);
  net->prepare(x, k, m, k, rows);
  for (size_t j = 0; j < n; j += KF_NET_PANEL)
    net->pack(w + j * k, n, k, j, n - j < KF_NET_PANEL ? n - j : KF_NET_PANEL, weights);
  work shares[64];
  for (unsigned t = 0; t < threads; t++) {
    size_t panels = (n + KF_NET_PANEL - 1) / KF_NET_PANEL;
    size_t first = panels * t / threads * KF_NET_PANEL;
    size_t end = panels * (t + 1) / threads * KF_NET_PANEL;
    shares[t] = (work){.net = net,
                       .product = {.x = rows,
                                   .m = m,
                                   .k = k,
                                   .weights = weights,
                                   .n = n,
                                   .first = first,
                                   .end = end < n ? end : n,
                                   .bias = bias,
                                   .activation = n > k ? KF_ACT_QUICK_GELU : KF_ACT_NONE,
                                   .out = n > k ? NULL : out,
                                   .stride = n,
                                   .prepared = next}};
  }
  double best = measure(shares, threads, seconds);
  free(x), free(w), free(bias), free(rows), free(weights), free(next), free(out);
  return 2e-9 * (double)m * (double)k * (double)n / best;
}

/* 12 heads of 64 columns; a head has 4 m^2 64 operations. */
static double attention_speed(const kf_net_kernel *net, size_t m, double seconds) {
  enum { DIM = 64, HEADS = 12, WIDE = 3 * DIM * HEADS };
  float *qkv = numbers(m * WIDE), *out = room(m * DIM * HEADS * sizeof *out);
  void *scratch = room(net->attention_size(m, DIM));
  double best = 1e9;
  if (net->begin != NULL) net->begin();
  for (double begun = now(); now() - begun < seconds;) {
    double from = now();
    for (size_t h = 0; h < HEADS; h++) {
      const float *q = qkv + h * DIM;
      net->attention(&(kf_net_attention){.q = q,
                                         .k = q + DIM * HEADS,
                                         .v = q + 2 * DIM * HEADS,
                                         .q_stride = WIDE,
                                         .kv_stride = WIDE,
                                         .queries = m,
                                         .keys = m,
                                         .dim = DIM,
                                         .scale = 0.125f,
                                         .out = out + h * DIM,
                                         .out_stride = DIM * HEADS,
                                         .scratch = scratch});
    }
    double spent = now() - from;
    best = spent < best ? spent : best;
  }
  if (net->end != NULL) net->end();
  free(qkv), free(out), free(scratch);
  return 4e-9 * HEADS * DIM * (double)m * (double)m / best;
}

static double peak_speed(void (*peak)(void), double operations, unsigned threads, double seconds) {
  work shares[64];
  for (unsigned t = 0; t < threads; t++) shares[t] = (work){.peak = peak};
  return 1e-9 * operations * TURNS * CHAINS * threads / measure(shares, threads, seconds);
}

int main(int argc, char **argv) {
  unsigned threads = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
  double seconds = argc > 2 ? atof(argv[2]) : 0.5;
  if (threads < 1 || threads > 64) return 2;
  static const size_t shapes[][3] = {
      {400, 768, 3072}, {400, 3072, 768}, {514, 1024, 4096}, {50, 768, 768}};
  const kf_kernels *avx2 = kf_kernels_for(KF_ISA_AVX2), *avx512 = kf_kernels_for(KF_ISA_AVX512);
  const kf_kernels *amx = kf_kernels_for(KF_ISA_AMX);
  bool bf16 = kf_has_avx512bf16();
  struct {
    const char *name;
    const kf_net_kernel *net;
    void (*peak)(void);
    double operations; /* of one instruction of the peak */
  } all[] = {{"avx2 f32", avx2 != NULL ? &kf_net_avx2_f32 : NULL, peak_avx2, 16},
             {"avx2 bf16", avx2 != NULL ? &kf_net_avx2_bf16 : NULL, peak_avx2, 16},
             {"avx512 f32", avx512 != NULL ? &kf_net_avx512_f32 : NULL, peak_avx512, 32},
             {"avx512 bf16 by FMA", avx512 != NULL ? &kf_net_avx512_bf16 : NULL, peak_avx512, 32},
             {"avx512 bf16", bf16 ? &kf_net_avx512bf16 : NULL, peak_bf16, 64},
             {"amx bf16", amx != NULL ? amx->net_bf16 : NULL, NULL, 0}};
  printf("%-20s %8s", "GFLOP/s", "peak");
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
    char shape[32];
    snprintf(shape, sizeof shape, "%zux%zux%zu", shapes[s][0], shapes[s][1], shapes[s][2]);
    printf(" %14s", shape);
  }
  printf("  attention 50, 257\n");
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    if (all[i].net == NULL) continue;
    double peak =
        all[i].peak == NULL ? 0 : peak_speed(all[i].peak, all[i].operations, threads, seconds);
    printf("%-20s %8.1f", all[i].name, peak);
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
      double speed =
          product_speed(all[i].net, shapes[s][0], shapes[s][1], shapes[s][2], threads, seconds);
      printf(" %8.1f", speed);
      if (peak > 0) printf(" %3.0f %%", 100 * speed / peak);
      fflush(stdout);
    }
    printf("  %8.1f %8.1f\n", attention_speed(all[i].net, 50, seconds / 4),
           attention_speed(all[i].net, 257, seconds / 4));
  }
  return 0;
}
