/* cli.h - what the commands share. The command line sees koofu.h and the C library, nothing else.
 */
#ifndef CLI_H
#define CLI_H

#include "args.h"
#include "koofu.h"

#include <stdio.h>

#define COUNT_OF(array)          (sizeof(array) / sizeof *(array))
#define PRINTF_LIKE(text, first) __attribute__((format(printf, text, first)))

/* --- exit statuses (described in help_text.c)
 * ----------------------------------------------------- */

enum { EXIT_OK = 0, EXIT_INTERNAL = 1, EXIT_USAGE = 2, EXIT_BAD_DATA = 3, EXIT_IO = 4 };

/* --- a run of one command
 * ------------------------------------------------------------------------- */

/* The progress line on a terminal, and the wish to stop. */
typedef struct cli_progress {
  int shown;     /* stderr is a terminal and nobody asked for silence */
  int timings;   /* say how long each stage took */
  int own;       /* a command reports for itself (progress_report); the library is not shown */
  int drawn;     /* there is a line on the screen */
  char what[32]; /* the stage */
  uint64_t done;
  double begun;     /* when the stage began */
  double last_draw; /* when the line was last drawn */
} cli_progress;

typedef struct cli_run {
  const cli_command *command; /* NULL: koofu itself */
  int stopped;                /* by a signal */
  cli_args args;
  kf_ctx *ctx;
  cli_progress progress;
  double begun;
} cli_run;

extern const cli_command *const commands[]; /* NULL-terminated, in the order of the help */
const cli_command *find_command(const char *name);
int no_such_command(cli_run *cli,
                    const char *name); /* a usage error, with the closest one there is */

/* Each prints "koofu COMMAND: message" on stderr and returns the exit status. */
int fail(cli_run *cli, kf_status status); /* with the library's message */
/* The same, naming a file, for calls that do not know of it. */
int fail_in(cli_run *cli, kf_status status, const char *path);
int fail_usage(cli_run *cli, const char *format, ...) PRINTF_LIKE(2, 3);
int fail_with(cli_run *cli, int exit_status, const char *format, ...) PRINTF_LIKE(3, 4);
/* A remark on stderr, unless -q. */
void say(cli_run *cli, const char *format, ...) PRINTF_LIKE(2, 3);

/* --- progress.c
 * ----------------------------------------------------------------------------------- */

double now(void); /* seconds */
void progress_start(cli_progress *progress, int quiet, int verbose);
/* The library's callback; user is the cli. */
int progress_callback(void *user, const char *what, uint64_t done, uint64_t total);
/* A command's own report: 0, or non-zero where it should stop. */
int progress_report(cli_run *cli, const char *what, uint64_t done, uint64_t total);
void progress_clear(cli_progress *progress); /* before anything else is printed */
void progress_end(cli_run *cli);             /* after the last stage */
void catch_signals(void);
int stop_wanted(void); /* SIGINT, SIGTERM or SIGHUP arrived */
/* Ends the process by the signal that stopped the work, so that a shell loop around it ends, too.
 */
void end_by_signal(void);

/* --- steps.c: what many commands do first
 * ----------------------------------------------------------- */

/* How a command sees labels. */
typedef enum label_use {
  LABELS_NEEDED, /* a row without a label is an error, unless an option says otherwise */
  LABELS_WANTED, /* rows without a label, or with one not in --classes, are fine */
  LABELS_IGNORED
} label_use;

/* Opens operands `first` and up as one data set, which the output (-o) must not be a file of.
 * Returns an exit status. */
int open_data(cli_run *cli, size_t first, label_use use, kf_data **out);
int load_model(cli_run *cli, kf_model **out); /* operand 0 */
uint32_t classes_with_rows(const kf_model *model);
/* Statistics of the operands as data. */
int data_stats(cli_run *cli, kf_stats **out);
/* Statistics from the operands: one statistics file, or data. */
int read_stats(cli_run *cli, kf_stats **out);
kf_synth_options world_of(const cli_args *args); /* what world_options say */
/* "wrote PATH: ..." and how long it took, unless -q. */
void say_written(cli_run *cli, const char *path, const char *format, ...) PRINTF_LIKE(3, 4);
void say_data_written(cli_run *cli, const char *path);
int save_stats(cli_run *cli, const kf_stats *stats, const char *path); /* and says so */

/* --- outputs.c: what may be written where; each returns an exit status
 * ------------------------------- */

/* Refuses an output (-o or another) that cannot be, or that would replace an input that is named on
 * the command line. */
int check_output(cli_run *cli, const char *path);
int check_data_output(cli_run *cli, const char *path); /* the same for a native data set */
/* Refuses -o where it would replace a file of the data, which a folder or pattern may stand for. */
int check_replaces_no_data(cli_run *cli, const kf_data *data);
/* Refuses two outputs that are one file; b may be NULL. */
int check_outputs_differ(cli_run *cli, const char *a, const char *b);
int is_stdout(const char *path); /* NULL or "-" */
int ends_with(const char *text, const char *end);

/* --- label_files.c
 * --------------------------------------------------------------------------------- */

typedef struct cli_strings {
  char **items;
  size_t n;
} cli_strings;
/* The files of --labels, with patterns expanded. -1: out of memory. */
int expand_labels(const cli_list *given, cli_strings *out);
void strings_free(cli_strings *strings);

/* --- text_out.c: text to stdout, or to a file that appears whole or not at all
 * ----------------------- */

typedef struct text_out {
  FILE *file;
  const char *path; /* as it was given; NULL: stdout */
  char *target;     /* where it leads; the file it replaces may be behind a link */
  char *temporary;  /* its name until it is complete; NULL: it has none */
} text_out;
int text_out_open(cli_run *cli, text_out *out, const char *path); /* NULL or "-": stdout */
int text_out_commit(cli_run *cli, text_out *out);
void text_out_abort(text_out *out); /* does nothing after a commit */
/* Prints text with tabs, line ends, backslashes and control characters escaped. */
void print_escaped(FILE *file, const char *text);
/* Prints text with '?' for control characters, so that no file steers a terminal by its name. */
void print_plain(FILE *file, const char *text);

/* --- format.c: numbers for people
 * --------------------------------------------------------------------- */

typedef struct shown {
  char text[64];
} shown;
shown show_count(uint64_t n);                                      /* 1,281,167 */
shown show_counted(uint64_t n, const char *one, const char *many); /* 1 row, 12 rows */
shown show_bytes(uint64_t n);                                      /* 1.2 MiB */
shown show_seconds(double seconds);                                /* 0.25 s, 3:07 min */
shown show_real(double value);                                     /* 0.465696 */
shown show_percent(uint64_t hits, uint64_t n);                     /* 54.83 % */
shown show_interval(uint64_t hits, uint64_t n);                    /* [53.05, 56.61] */

/* --- json.c
 * ------------------------------------------------------------------------------------------- */

typedef struct cli_json {
  FILE *file;
  int comma; /* the next value needs one before it */
} cli_json;
/* key is NULL inside a list. Values that JSON lacks (NaN, infinity) become null. */
void jw_open(cli_json *j, const char *key, char bracket);
void jw_close(cli_json *j, char bracket);
void jw_text(cli_json *j, const char *key, const char *value); /* NULL: null */
void jw_count(cli_json *j, const char *key, uint64_t value);
void jw_number(cli_json *j, const char *key, int64_t value);
void jw_real(cli_json *j, const char *key, double value);
void jw_flag(cli_json *j, const char *key, int value);
void jw_null(cli_json *j, const char *key);
void jw_end_line(cli_json *j); /* after a whole document */

/* --- help.c, man.c, completion.c: made from the tables
 * ------------------------------------------------- */

/* Texts of koofu itself (help_text.c). */
typedef struct cli_topic {
  const char *title;
  const char *text; /* as in command.details */
} cli_topic;
extern const char program_summary[];
extern const char program_details[];
extern const cli_example program_examples[];
extern const cli_topic program_topics[]; /* exit status, environment; ended by title NULL */

/* command NULL: koofu itself. */
void print_help(FILE *file, const cli_command *command);
void print_long_help(FILE *file, const cli_command *command);
void print_man(FILE *file, const cli_command *command);
void print_completion(FILE *file, int shell); /* position in shell_choices */
extern const char *const shell_choices[];

#endif
