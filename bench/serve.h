/* serve.h - for sides of the benchmarks written in C. side.py documents the protocol. */
#ifndef KOOFU_BENCH_SERVE_H
#define KOOFU_BENCH_SERVE_H

#include <stdio.h>
#include <time.h>

/* Seconds of wall clock and of CPU time. */
typedef struct bench_time {
  double wall, busy;
} bench_time;

static inline double bench_clock(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline bench_time bench_now(void) {
  return (bench_time){bench_clock(CLOCK_MONOTONIC), bench_clock(CLOCK_PROCESS_CPUTIME_ID)};
}

static inline bench_time bench_since(bench_time start) {
  bench_time now = bench_now();
  return (bench_time){now.wall - start.wall, now.busy - start.busy};
}

/* Handles a line. Non-zero: the side ends, after an error message on standard error. */
typedef int bench_answer(void *user, char *line, bench_time *spent);

static inline int bench_serve(const char *what, bench_answer *answer, void *user) {
  char line[4096];
  printf("ready %s\n", what);
  fflush(stdout);
  while (fgets(line, sizeof line, stdin) != NULL) {
    bench_time spent = {0};
    for (char *end = line; *end != 0; end++)
      if (*end == '\n') *end = 0;
    if (answer(user, line, &spent) != 0) return 1;
    printf("%.9g %.9g\n", spent.wall, spent.busy);
    fflush(stdout);
  }
  return 0;
}

#endif
