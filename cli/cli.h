/* cli.h - a run of one command: its arguments and context, errors, notes and ownership.
 *
 * The command line sees only the public headers and the C library. */
#ifndef CLI_H
#define CLI_H

#include "options.h"
#include "progress.h"

#define COUNT_OF(array)          (sizeof(array) / sizeof *(array))
#define PRINTF_LIKE(text, first) __attribute__((format(printf, text, first)))

/* Exit statuses; help_text.c describes them. */
enum { EXIT_OK = 0, EXIT_INTERNAL = 1, EXIT_USAGE = 2, EXIT_BAD_DATA = 3, EXIT_IO = 4 };

typedef struct cli_run {
  const cli_command *command; /* NULL: koofu itself */
  int stopped;                /* by a signal */
  int muted;                  /* notes of the library are not shown */
  cli_args args;
  kf_ctx *ctx;
  cli_progress progress;
  double begun;
  const kf_comm *comm;     /* NULL: one process */
  char *id;                /* of a row (read_id); NULL: none was read */
  char said[1024];         /* the last error that was printed */
  struct cli_owned *owned; /* [n_owned] (owned.c) */
  size_t n_owned;
  struct cli_stream *streams; /* that were read (streams.c); NULL: none */
} cli_run;

/* Each prints "koofu COMMAND: message" to stderr and returns the exit status. */
int fail(cli_run *cli, kf_status status);                      /* the library's message and hint */
int fail_in(cli_run *cli, kf_status status, const char *path); /* the same after "PATH: " */
int fail_usage(cli_run *cli, const char *format, ...) PRINTF_LIKE(2, 3);
int fail_with(cli_run *cli, int exit_status, const char *format, ...) PRINTF_LIKE(3, 4);
int exit_status_of(kf_status status);
/* EXIT_OK for KF_OK, otherwise fail(). */
int result_of(cli_run *cli, kf_status status);
/* Returns the exit status of a step that fails. */
#define TRY(step)                                                                                  \
  do {                                                                                             \
    int failed_ = (step);                                                                          \
    if (failed_ != EXIT_OK) return failed_;                                                        \
  } while (0)

/* The first of these options (names without dashes, separated by spaces) that was given, or
 * NULL. */
const cli_option *given(const cli_run *cli, const char *names);
/* Fail if one of these options was given: "--NAME cannot be used with ...", "--NAME needs ...". */
int refuse(cli_run *cli, const char *names, const char *format, ...) PRINTF_LIKE(3, 4);
int need(cli_run *cli, const char *names, const char *format, ...) PRINTF_LIKE(3, 4);

/* Prints a note to stderr, unless -q. */
void say(cli_run *cli, const char *format, ...) PRINTF_LIKE(2, 3);

/* Whether several processes share the work. */
static inline int has_ranks(const cli_run *cli) { return cli->comm && cli->comm->size > 1; }
/* At the end of a run, all ranks agree on how it went. Returns the exit status (ranks.c). */
int settle(cli_run *cli, int exit_status);

/* A hint of the library in the words of the command line, or NULL (hints.c). */
const char *hint_for(const cli_command *command, kf_hint hint);

/* --- what a run owns, freed when it ends (owned.c) -------------------------------------------- */

/* Hands an object to the run and returns the exit status. own_data and so on take the result of
 * a library call, or report its failure. */
int own(cli_run *cli, void *object, void (*release)(void *object));
#define OWNED(TYPE)                                                                                \
  static inline void release_##TYPE(void *object) { kf_##TYPE##_free(object); }                    \
  static inline int own_##TYPE(cli_run *cli, kf_status status, kf_##TYPE **object) {               \
    return status == KF_OK ? own(cli, *object, release_##TYPE) : fail(cli, status);                \
  }
OWNED(analysis)
OWNED(calibration)
OWNED(class_names)
OWNED(class_set)
OWNED(classifier)
OWNED(data)
OWNED(encoder)
OWNED(filter)
OWNED(fit_report)
OWNED(gallery)
OWNED(hierarchy)
OWNED(info)
OWNED(k_choice)
OWNED(lambda_choice)
OWNED(model)
OWNED(pictures)
OWNED(prompts)
OWNED(reader)
OWNED(shots)
OWNED(stats)
OWNED(sweep)
OWNED(text)
OWNED(truth)
OWNED(verdicts)
#undef OWNED

void *own_memory(cli_run *cli, size_t n, size_t size); /* zeroed; NULL: out of memory */
/* Formatted text; NULL: out of memory. */
const char *own_format(cli_run *cli, const char *format, ...) PRINTF_LIKE(2, 3);
void free_owned(cli_run *cli); /* in reverse order */

#endif
