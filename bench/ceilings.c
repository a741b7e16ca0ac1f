/* ceilings.c - peak rates of this machine: a side of the benchmarks (side.py).
 *
 *     ceilings THREADS
 *
 * A line `f32 avx512` measures 10^9 operations of that kind with that instruction set, over all
 * threads; `memory BYTES` measures reading an array of that size once, each thread its own part.
 * The answer is the best of several tries. Operands stay in registers, so only the arithmetic is
 * measured, not the loads that real code needs. A multiplication and an addition are two
 * operations. */
#include "serve.h"

#include <cpuid.h>
#include <immintrin.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { TRIES = 5, TURNS = 4000000, CHAINS = 12, MAX_THREADS = 256, STREAMS = 8 };

/* --- registers -------------------------------------------------------------------------------- */

/* CHAINS independent sums hide the latency of an instruction on all machines tested. */
#define PEAK(name, isa, type, one, step)                                                           \
  __attribute__((target(isa))) static void name(void) {                                            \
    type sum[CHAINS], x = one, t = x;                                                              \
    _Pragma("GCC unroll 12") for (int i = 0; i < CHAINS; i++) sum[i] = x;                          \
    for (int n = 0; n < TURNS; n++) {                                                              \
      _Pragma("GCC unroll 12") for (int i = 0; i < CHAINS; i++) {                                  \
        __asm__ volatile(step : "+v"(sum[i]), "=&v"(t) : "v"(x));                                  \
      }                                                                                            \
    }                                                                                              \
  }
PEAK(f32_avx2, "avx2,fma", __m256, _mm256_set1_ps(0.5f), "vfmadd231ps %2, %2, %0")
PEAK(f64_avx2, "avx2,fma", __m256d, _mm256_set1_pd(0.5), "vfmadd231pd %2, %2, %0")
PEAK(int8_avx2, "avx2", __m256i, _mm256_set1_epi8(3),
     "vpmaddubsw %2, %2, %1; vpmaddwd %2, %1, %1; vpaddd %1, %0, %0")
PEAK(f32_avx512, "avx512f", __m512, _mm512_set1_ps(0.5f), "vfmadd231ps %2, %2, %0")
PEAK(f64_avx512, "avx512f", __m512d, _mm512_set1_pd(0.5), "vfmadd231pd %2, %2, %0")
PEAK(int8_avx512, "avx512f", __m512i, _mm512_set1_epi32(0x03050403), "vpdpbusd %2, %2, %0")
PEAK(int16_avx512, "avx512f", __m512i, _mm512_set1_epi32(0x00030005), "vpdpwssd %2, %2, %0")
PEAK(bf16_avx512, "avx512f", __m512, _mm512_set1_ps(0.5f), "vdpbf16ps %2, %2, %0")

/* --- tiles ------------------------------------------------------------------------------------ */

typedef struct tile_config {
  uint8_t palette, start_row, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
} tile_config;

/* Static, since gcc does not know that _tile_loadconfig reads it and drops stores to a local
 * one. */
static const tile_config config = {
    .palette = 1,
    .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
    .rows = {16, 16, 16, 16, 16, 16, 16, 16},
};
static volatile uint8_t values[1024]; /* volatile for the same reason */

/* Four sums, and two tiles of each input; one product counts as 16 instructions. */
#define TILES(name, isa, multiply)                                                                 \
  __attribute__((target("amx-tile," isa))) static void name(void) {                                \
    _tile_loadconfig(&config);                                                                     \
    _tile_zero(0);                                                                                 \
    _tile_zero(1);                                                                                 \
    _tile_zero(2);                                                                                 \
    _tile_zero(3);                                                                                 \
    _tile_loadd(4, (const void *)values, 64);                                                      \
    _tile_loadd(5, (const void *)values, 64);                                                      \
    _tile_loadd(6, (const void *)values, 64);                                                      \
    _tile_loadd(7, (const void *)values, 64);                                                      \
    for (int n = 0; n < TURNS / 16 * CHAINS / 4; n++) {                                            \
      multiply(0, 4, 6);                                                                           \
      multiply(1, 4, 7);                                                                           \
      multiply(2, 5, 6);                                                                           \
      multiply(3, 5, 7);                                                                           \
    }                                                                                              \
    _tile_release();                                                                               \
  }
TILES(int8_amx, "amx-int8", _tile_dpbssd)
TILES(bf16_amx, "amx-bf16", _tile_dpbf16ps)

enum { HAS_BF16 = 1 << 22, HAS_TILE = 1 << 24, HAS_INT8 = 1 << 25 }; /* CPUID 7, EDX */
enum { ASK_FOR_STATE = 0x1023, TILE_DATA = 18 };                     /* arch_prctl */

static int has_amx(void) {
  unsigned a, b, c, d, wanted = HAS_TILE | HAS_INT8 | HAS_BF16;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & wanted) == wanted &&
         syscall(SYS_arch_prctl, ASK_FOR_STATE, TILE_DATA) == 0;
}

static int has_avx2(void) {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
static int has_avx512(void) { return __builtin_cpu_supports("avx512vnni"); }
static int has_bf16(void) { return __builtin_cpu_supports("avx512bf16"); }

/* --- memory ----------------------------------------------------------------------------------- */

enum { LINE = 64 };

static char *array;
static size_t lines;
static uint64_t sums[MAX_THREADS]; /* so that the reads are not optimised away */

__attribute__((target("avx2"))) static uint64_t read_part(const char *at, const char *end) {
  __m256i sum[STREAMS];
  for (int i = 0; i < STREAMS; i++) sum[i] = _mm256_setzero_si256();
  for (; at + STREAMS * sizeof *sum <= end; at += STREAMS * sizeof *sum)
    for (int i = 0; i < STREAMS; i++)
      sum[i] = _mm256_xor_si256(sum[i], _mm256_load_si256((const __m256i *)at + i));
  for (int i = 1; i < STREAMS; i++) sum[0] = _mm256_xor_si256(sum[0], sum[i]);
  return (uint64_t)_mm256_extract_epi64(sum[0], 0);
}

static int make_array(size_t bytes) {
  if (bytes / LINE == lines) return 0;
  free(array);
  lines = bytes / LINE;
  array = aligned_alloc(2u << 20, (bytes + (2u << 20) - 1) >> 21 << 21);
  if (array == NULL || lines == 0) return 1;
  memset(array, 1, lines * LINE);
  return 0;
}

/* --- threads ---------------------------------------------------------------------------------- */

static const struct peak {
  const char *name;
  int (*available)(void);
  void (*run)(void);
  double operations; /* of one of TURNS * CHAINS instructions */
} peaks[] = {
    {"f32 avx2", has_avx2, f32_avx2, 16},
    {"f64 avx2", has_avx2, f64_avx2, 8},
    {"int8 avx2", has_avx2, int8_avx2, 64},
    {"f32 avx512", has_avx512, f32_avx512, 32},
    {"f64 avx512", has_avx512, f64_avx512, 16},
    {"int8 avx512", has_avx512, int8_avx512, 128},
    {"int16 avx512", has_avx512, int16_avx512, 64},
    {"bf16 avx512", has_bf16, bf16_avx512, 64},
    {"int8 amx", has_amx, int8_amx, 2.0 * 16 * 16 * 64 / 16},
    {"bf16 amx", has_amx, bf16_amx, 2.0 * 16 * 16 * 32 / 16},
};

static unsigned threads;
static pthread_barrier_t barrier;
static void (*work)(void);       /* NULL: reading the array */
static double busy[MAX_THREADS]; /* of the last try */
static bench_time best;

static void *thread(void *number) {
  size_t me = (size_t)(uintptr_t)number;
  for (int i = 0; i < TRIES; i++) {
    pthread_barrier_wait(&barrier);
    double wall = bench_clock(CLOCK_MONOTONIC), mine = bench_clock(CLOCK_THREAD_CPUTIME_ID);
    if (work != NULL)
      work();
    else
      sums[me] ^= read_part(array + LINE * (lines * me / threads),
                            array + LINE * (lines * (me + 1) / threads));
    busy[me] = bench_clock(CLOCK_THREAD_CPUTIME_ID) - mine;
    pthread_barrier_wait(&barrier);
    bench_time spent = {.wall = bench_clock(CLOCK_MONOTONIC) - wall};
    if (me > 0) continue;
    for (unsigned t = 0; t < threads; t++) spent.busy += busy[t];
    if (i == 0 || spent.wall < best.wall) best.wall = spent.wall;
    if (i == 0 || spent.busy < best.busy) best.busy = spent.busy;
  }
  return NULL;
}

static void run_threads(void) {
  pthread_t others[MAX_THREADS];
  pthread_barrier_init(&barrier, NULL, threads);
  for (size_t i = 1; i < threads; i++)
    if (pthread_create(&others[i], NULL, thread, (void *)(uintptr_t)i) != 0) abort();
  thread(NULL);
  for (size_t i = 1; i < threads; i++) pthread_join(others[i], NULL);
  pthread_barrier_destroy(&barrier);
}

static int answer(void *user, char *text, bench_time *spent) {
  (void)user;
  double scale = 1;
  if (strncmp(text, "memory ", 7) == 0) {
    if (make_array((size_t)strtoull(text + 7, NULL, 10)) != 0) return 1;
    work = NULL;
  } else {
    const struct peak *p = peaks, *end = peaks + sizeof peaks / sizeof *peaks;
    while (p < end && strcmp(p->name, text) != 0) p++;
    if (p == end || !p->available()) {
      fprintf(stderr, "ceilings: no '%s' here\n", text);
      return 1;
    }
    work = p->run;
    scale = 1e9 / (p->operations * TURNS * CHAINS * threads);
  }
  run_threads();
  *spent = (bench_time){best.wall * scale, best.busy * scale};
  return 0;
}

int main(int argc, char **argv) {
  threads = argc == 2 ? (unsigned)strtoul(argv[1], NULL, 10) : 0;
  if (threads == 0 || threads > MAX_THREADS) return 2;
  /* As bf16, numbers of both signs around 1; zeros cost less power. */
  for (int i = 0; i < 1024; i++)
    values[i] = (uint8_t)(i % 2 == 0 ? i % 251 : i % 4 == 1 ? 0x3f : 0xbf);
  return bench_serve("ceilings", answer, NULL);
}
