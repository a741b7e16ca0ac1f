/* amx_peak.c - how many operations a second the AMX units of this machine do, int8 and bf16.
 *
 *     gcc -O2 -static -pthread -mamx-tile -mamx-int8 -mamx-bf16 bench/amx_peak.c -o amx_peak
 *     amx_peak [THREADS...]          # default: 1 2; prints: type threads GOP/s
 *
 * Four accumulators and two tiles of each input stay in registers, so that nothing but the products
 * is measured: a real product of matrices has to load tiles as well. A multiplication and an
 * addition are two operations. */
#include <cpuid.h>
#include <immintrin.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 7, STEPS = 2000000, MOST = 1024, SIZE = 1024 };
enum { HAS_BF16 = 1 << 22, HAS_TILE = 1 << 24, HAS_INT8 = 1 << 25 };             /* CPUID 7, EDX */
enum { ASK_FOR_STATE = 0x1023, TILE_DATA = 18 };                                 /* arch_prctl */
enum { INT8_OPERATIONS = 2 * 16 * 16 * 64, BF16_OPERATIONS = 2 * 16 * 16 * 32 }; /* a product */

typedef struct tile_config {
  uint8_t palette, start_row, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
} tile_config;

/* Static: gcc does not see that _tile_loadconfig reads it, and drops stores into a local one. */
static const tile_config config = {
    .palette = 1,
    .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
    .rows = {16, 16, 16, 16, 16, 16, 16, 16},
};
static const uint8_t zeros[SIZE];
static volatile uint8_t values[SIZE]; /* volatile for the same reason */

static pthread_barrier_t barrier;
static int use_bf16;
static double best;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void products_int8(void) {
  for (int i = 0; i < STEPS; i++) {
    _tile_dpbssd(0, 4, 6);
    _tile_dpbssd(1, 4, 7);
    _tile_dpbssd(2, 5, 6);
    _tile_dpbssd(3, 5, 7);
  }
}

static void products_bf16(void) {
  for (int i = 0; i < STEPS; i++) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
}

static void *work(void *number) {
  _tile_loadconfig(&config);
  _tile_loadd(0, zeros, 64);
  _tile_loadd(1, zeros, 64);
  _tile_loadd(2, zeros, 64);
  _tile_loadd(3, zeros, 64);
  _tile_loadd(4, (const void *)values, 64);
  _tile_loadd(5, (const void *)values, 64);
  _tile_loadd(6, (const void *)values, 64);
  _tile_loadd(7, (const void *)values, 64);
  for (int round = 0; round < ROUNDS; round++) {
    pthread_barrier_wait(&barrier);
    double start = now();
    if (use_bf16)
      products_bf16();
    else
      products_int8();
    pthread_barrier_wait(&barrier);
    double spent = now() - start;
    if (number == NULL && (best == 0 || spent < best)) best = spent;
  }
  _tile_release();
  return NULL;
}

static int measure(int bf16, unsigned threads) {
  pthread_t thread[MOST];
  use_bf16 = bf16;
  best = 0;
  pthread_barrier_init(&barrier, NULL, threads);
  for (unsigned i = 1; i < threads; i++)
    if (pthread_create(&thread[i], NULL, work, (void *)(uintptr_t)i) != 0) return 1;
  work(NULL);
  for (unsigned i = 1; i < threads; i++) pthread_join(thread[i], NULL);
  pthread_barrier_destroy(&barrier);
  double operations = 4.0 * STEPS * threads * (bf16 ? BF16_OPERATIONS : INT8_OPERATIONS);
  printf("%s %u %.0f\n", bf16 ? "bf16" : "int8", threads, operations / best * 1e-9);
  fflush(stdout);
  return 0;
}

static int has_amx(void) {
  unsigned a, b, c, d, wanted = HAS_TILE | HAS_INT8 | HAS_BF16;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & wanted) == wanted &&
         syscall(SYS_arch_prctl, ASK_FOR_STATE, TILE_DATA) == 0;
}

int main(int argc, char **argv) {
  if (!has_amx()) {
    fprintf(stderr, "amx_peak: this machine has no AMX\n");
    return 3;
  }
  for (int i = 0; i < SIZE; i++)
    values[i] = (uint8_t)(i % 61 + 1); /* no zeros, which cost less power */
  static char *usual[] = {"amx_peak", "1", "2"};
  if (argc < 2) {
    argc = 3;
    argv = usual;
  }
  for (int i = 1; i < argc; i++) {
    unsigned threads = (unsigned)strtoul(argv[i], NULL, 10);
    if (threads == 0 || threads > MOST) return 2;
    if (measure(0, threads) != 0 || measure(1, threads) != 0) return 1;
  }
  return 0;
}
