/* progress.c - progress on the terminal or in a log, and signals that stop the work. */
#include "cli.h"

#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t stop; /* the signal, or 0 */

static void on_signal(int number) { stop = number; }

/* The first signal asks the work to stop, which leaves nothing half-written. It also removes the
 * handler, so a second signal ends the process. */
void catch_signals(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_signal;
  action.sa_flags = (int)SA_RESETHAND | SA_RESTART;
  sigemptyset(&action.sa_mask);
  const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
  for (size_t i = 0; i < COUNT_OF(numbers); i++) {
    struct sigaction before;
    /* Keep ignoring what nohup and shells without job control ignore. */
    if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
      sigaction(numbers[i], &action, NULL);
  }
}

int stop_wanted(void) { return stop; }

void end_by_signal(void) {
  if (!stop) return;
  signal(stop, SIG_DFL);
  raise(stop);
}

double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

void progress_start(cli_progress *progress, int quiet, int verbose, int lines) {
  progress->shown = !quiet && isatty(STDERR_FILENO);
  progress->lines = quiet || progress->shown ? -1 : lines;
  progress->last_draw = now();
  progress->timings = !quiet && verbose >= 2;
}

void progress_clear(cli_progress *progress) {
  if (progress->drawn) fputs("\r\033[K", stderr);
  progress->drawn = 0;
}

static void end_stage(cli_progress *progress, double time) {
  progress_clear(progress);
  if (progress->timings && progress->stage[0])
    fprintf(stderr, "%s: %s\n", progress->stage, show_seconds(time - progress->begun).text);
  progress->stage[0] = '\0';
}

void progress_end(cli_run *cli) { end_stage(&cli->progress, now()); }

/* What a stage counts; NULL: it has no useful rate. */
static const char *unit_of(const char *stage, uint64_t total) {
  if (strcmp(stage, "embed") == 0) return "pictures";
  if (strcmp(stage, "texts") == 0) return "texts";
  if (strcmp(stage, "weights") == 0) return NULL;
  /* few steps, such as those of a fit */
  return total == 0 || total > 1000 ? "rows" : NULL;
}

/* stats   45 %   312,000 rows/s   0:12 left */
static void draw(cli_progress *progress, uint64_t done, uint64_t total, double elapsed) {
  fprintf(stderr, progress->shown ? "\r\033[K%-10s" : "%-10s", progress->stage);
  if (total) {
    double part = (double)done / (double)total;
    fprintf(stderr, "  %3.0f %%", 100 * (part < 1 ? part : 1));
  }
  if (elapsed > 0.5 && done > progress->first) {
    double rate = (double)(done - progress->first) / elapsed;
    const char *unit = unit_of(progress->stage, total);
    if (unit) fprintf(stderr, "  %s %s/s", show_rate(rate).text, unit);
    if (total > done) {
      long left = (long)((double)(total - done) / rate);
      fprintf(stderr, "  %ld:%02ld left", left / 60, left % 60);
    }
  }
  if (!progress->shown) putc('\n', stderr);
  fflush(stderr);
  progress->drawn = progress->shown;
}

static int update(cli_progress *progress, const char *stage, uint64_t done, uint64_t total) {
  if (progress->shown || progress->timings || progress->lines >= 0) {
    double time = now(), wait = progress->shown ? 0.1 : (double)progress->lines;
    char name[sizeof progress->stage];
    snprintf(name, sizeof name, "%s", stage);
    if (strcmp(name, progress->stage) != 0 || done < progress->done) {
      end_stage(progress, time);
      memcpy(progress->stage, name, sizeof name);
      progress->begun = time;
      progress->first = done;
    }
    progress->done = done;
    if (wait >= 0 && time - progress->last_draw >= wait) {
      draw(progress, done, total, time - progress->begun);
      progress->last_draw = time;
    }
  }
  return stop;
}

int progress_callback(void *user, const char *stage, uint64_t done, uint64_t total) {
  cli_run *cli = user;
  return cli->progress.own ? stop : update(&cli->progress, stage, done, total);
}

int progress_report(cli_run *cli, const char *stage, uint64_t done, uint64_t total) {
  cli->progress.own = 1;
  return update(&cli->progress, stage, done, total);
}
