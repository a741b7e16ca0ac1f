/* progress.h - the progress line on a terminal, the clock, and signals. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdint.h>

struct cli_run;

typedef struct cli_progress {
  int shown;   /* stderr is a terminal, and -q was not given */
  int lines;   /* otherwise: seconds between lines of progress; below 0: none */
  int timings; /* print how long each stage took */
  int own;     /* the command reports progress itself; the library's reports are ignored */
  int drawn;   /* there is a line on the screen */
  char stage[32];
  uint64_t done;
  uint64_t first;   /* done when the stage began, perhaps by an earlier run */
  double begun;     /* when the stage began */
  double last_draw; /* when the line was last drawn */
} cli_progress;

double now(void); /* seconds */
/* lines: as in the struct, for a stderr that is not a terminal. */
void progress_start(cli_progress *progress, int quiet, int verbose, int lines);
/* The library's callback; user is the cli_run. */
int progress_callback(void *user, const char *stage, uint64_t done, uint64_t total);
/* A command's own report. Returns non-zero if the command should stop. */
int progress_report(struct cli_run *cli, const char *stage, uint64_t done, uint64_t total);
void progress_clear(cli_progress *progress); /* before anything else is printed */
void progress_end(struct cli_run *cli);      /* after the last stage */

void catch_signals(void);
int stop_wanted(void); /* SIGINT, SIGTERM or SIGHUP arrived */
/* Ends the process by the signal that stopped the work, so a shell loop around it ends as well. */
void end_by_signal(void);

#endif
