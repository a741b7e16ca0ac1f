/* read_memory.c - how fast threads can read an array, each its own part, best of twenty.
 *
 *     cc -O3 -march=native -pthread bench/read_memory.c -o read_memory
 *     read_memory BYTES THREADS      # prints: seconds GB/s
 *
 * bench/search.py --latency builds and runs it: no search can be faster than reading its rows once.
 * For another machine with AVX-512: -march=x86-64-v4 -static. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 20, MOST = 1024, STREAMS = 8 };
typedef uint64_t line __attribute__((vector_size(64)));

static pthread_barrier_t barrier;
static unsigned threads;
static size_t lines;
static const line *array;
static line sums[MOST]; /* kept, so that the reading is not optimised away */
static double best = 1e30;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static line read_part(const line *at, const line *end) {
  line sum[STREAMS] = {{0}};
  for (; at + STREAMS <= end; at += STREAMS)
    for (int i = 0; i < STREAMS; i++) sum[i] ^= at[i];
  for (; at < end; at++) sum[0] ^= *at;
  for (int i = 1; i < STREAMS; i++) sum[0] ^= sum[i];
  return sum[0];
}

static void *work(void *number) {
  size_t me = (size_t)(uintptr_t)number;
  const line *begin = array + lines * me / threads, *end = array + lines * (me + 1) / threads;
  for (int round = 0; round < ROUNDS; round++) {
    pthread_barrier_wait(&barrier);
    double start = now();
    sums[me] ^= read_part(begin, end);
    pthread_barrier_wait(&barrier);
    double spent = now() - start;
    if (me == 0 && spent < best) best = spent;
  }
  return NULL;
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  lines = (size_t)strtoull(argv[1], NULL, 10) / sizeof(line);
  threads = (unsigned)strtoul(argv[2], NULL, 10);
  if (lines == 0 || threads == 0 || threads > MOST) return 2;
  void *memory = aligned_alloc(2u << 20, (lines * sizeof(line) + (2u << 20) - 1) >> 21 << 21);
  if (memory == NULL) return 1;
  memset(memory, 1, lines * sizeof(line));
  array = memory;
  pthread_barrier_init(&barrier, NULL, threads);
  pthread_t thread[MOST];
  for (unsigned i = 1; i < threads; i++)
    if (pthread_create(&thread[i], NULL, work, (void *)(uintptr_t)i) != 0) return 1;
  work(NULL);
  for (unsigned i = 1; i < threads; i++) pthread_join(thread[i], NULL);
  printf("%.6f %.2f\n", best, (double)lines * sizeof(line) / best * 1e-9);
  free(memory);
  return 0;
}
