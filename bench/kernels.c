/* kernels.c - matrix products with the kernels of the towers: a side of the benchmarks (side.py).
 *
 *     kernels THREADS
 *
 * A line `ISA PRECISION M K N` measures a product with bias, and a GELU if N > K, to prepared or
 * f32 rows, with outputs divided among the threads. The answer is the best run within a fifth of a
 * second. */
#include "kernel/kernel.h"
#include "serve.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define SECONDS 0.2

typedef struct work {
  const kf_net_kernel *net;
  kf_net_product product;
} work;

static void *run_share(void *arg) {
  work *w = arg;
  if (w->net->begin != NULL) w->net->begin();
  w->net->multiply(&w->product);
  if (w->net->end != NULL) w->net->end();
  return NULL;
}

static void measure(work *shares, unsigned threads, bench_time *best) {
  for (bench_time begun = bench_now(); bench_since(begun).wall < SECONDS;) {
    pthread_t other[64];
    bench_time from = bench_now();
    for (unsigned t = 1; t < threads; t++)
      if (pthread_create(&other[t], NULL, run_share, &shares[t]) != 0) abort();
    run_share(&shares[0]);
    for (unsigned t = 1; t < threads; t++) pthread_join(other[t], NULL);
    bench_time spent = bench_since(from);
    if (best->wall == 0 || spent.wall < best->wall) *best = spent;
  }
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

static void multiply(const kf_net_kernel *net, size_t m, size_t k, size_t n, unsigned threads,
                     bench_time *best) {
  float *x = numbers(m * k), *w = numbers(n * k), *bias = numbers(n);
  void *rows = room(net->rows_size(m, k)), *weights = room(net->weights_size(n, k));
  void *next = room(net->rows_size(m, n));
  float *out = room(m * n * sizeof *out);
  net->prepare(x, k, 0, m, k, rows);
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
  measure(shares, threads, best);
  free(x), free(w), free(bias), free(rows), free(weights), free(next), free(out);
}

static const kf_net_kernel *kernel_named(const char *isa, const char *precision) {
  for (int i = KF_ISA_PLAIN; kf_isa_name((kf_isa)i) != NULL; i++) {
    const kf_kernels *k =
        strcmp(isa, kf_isa_name((kf_isa)i)) == 0 ? kf_kernels_for((kf_isa)i) : NULL;
    if (k != NULL) return strcmp(precision, "bf16") == 0 ? k->net_bf16 : k->net_f32;
  }
  return NULL;
}

static int answer(void *user, char *line, bench_time *spent) {
  char isa[16], precision[16];
  size_t m = 0, k = 0, n = 0;
  int read = sscanf(line, "%15s %15s %zu %zu %zu", isa, precision, &m, &k, &n);
  const kf_net_kernel *net = read == 5 ? kernel_named(isa, precision) : NULL;
  if (net == NULL) {
    fprintf(stderr, "kernels: no '%s' here\n", line);
    return 1;
  }
  multiply(net, m, k, n, *(const unsigned *)user, spent);
  return 0;
}

int main(int argc, char **argv) {
  unsigned threads = argc == 2 ? (unsigned)atoi(argv[1]) : 0;
  if (threads < 1 || threads > 64) return 2;
  return bench_serve("kernels", answer, &threads);
}
