/* cli.h - what the commands share. The command line sees koofu.h and the C library, nothing else.
 */
#ifndef CLI_H
#define CLI_H

#include "args.h"
#include "koofu.h"

#include <stdio.h>

#define COUNT_OF(array)          (sizeof(array) / sizeof *(array))
#define PRINTF_LIKE(text, first) __attribute__((format(printf, text, first)))

/* --- exit statuses (described in help_text.c) ------------------------------------------------- */

enum { EXIT_OK = 0, EXIT_INTERNAL = 1, EXIT_USAGE = 2, EXIT_BAD_DATA = 3, EXIT_IO = 4 };

/* JSON on its way to a file (json.c). */
typedef struct cli_json {
  FILE *file;
  int comma; /* the next value needs one before it */
} cli_json;

/* --- a run of one command --------------------------------------------------------------------- */

/* The progress line on a terminal, and the wish to stop. */
typedef struct cli_progress {
  int shown;     /* stderr is a terminal and nobody asked for silence */
  int timings;   /* say how long each stage took */
  int own;       /* a command reports for itself (progress_report); the library is not shown */
  int drawn;     /* there is a line on the screen */
  char what[32]; /* the stage */
  uint64_t done;
  uint64_t first;   /* what was done when the stage began: an earlier run may have been at it */
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
/* What to do about an error, in the words of the command line; NULL: nothing to say (hints.c). */
const char *hint_for(const cli_command *command, kf_hint hint);
int fail_usage(cli_run *cli, const char *format, ...) PRINTF_LIKE(2, 3);
int fail_with(cli_run *cli, int exit_status, const char *format, ...) PRINTF_LIKE(3, 4);
/* A remark on stderr, unless -q. */
void say(cli_run *cli, const char *format, ...) PRINTF_LIKE(2, 3);

/* --- progress.c ------------------------------------------------------------------------------- */

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

/* --- steps.c: what many commands do first ----------------------------------------------------- */

/* How a command sees labels. */
typedef enum label_use {
  LABELS_NEEDED, /* a row without a label is an error, unless an option says otherwise */
  LABELS_WANTED, /* rows without a label, or with one not in --classes, are fine */
  LABELS_IGNORED
} label_use;

/* Opens operands `first` and up as one data set, which the output (-o) must not be a file of.
 * Returns an exit status. */
int open_data(cli_run *cli, size_t first, label_use use, kf_data **out);
/* The same for other paths and files of labels. */
int open_rows(cli_run *cli, const char *const *paths, size_t n, const cli_list *label_files,
              label_use use, kf_data **out);
int open_test(cli_run *cli, kf_data **out); /* --test; *out stays NULL without it */
/* Whether an option on the rows and labels of data is there. */
int data_options_given(const cli_args *args);
int load_model(cli_run *cli, const char *path, kf_model **out);
/* Says why a file could not be loaded as a `wanted` ("model", "gallery"); of one that is something
 * else, what it is and what to do. */
int fail_load(cli_run *cli, kf_status status, const char *path, const char *wanted);
/* Statistics of the operands as data. */
int data_stats(cli_run *cli, kf_data **rows, kf_stats **out); /* rows may be NULL */
/* Statistics from the operands: one statistics file, or data. */
int read_stats(cli_run *cli, kf_data **rows, kf_stats **out); /* *rows stays NULL for a file */
int is_stats_file(cli_run *cli, int *yes); /* whether the operands are one statistics file */
int load_stats(cli_run *cli, const char *path, kf_stats **out);
kf_stats_options stats_options_of(const cli_args *args);
kf_synth_options world_of(const cli_args *args);              /* what world_options say */
/* "wrote PATH: ..." and how long it took, unless -q. */
void say_written(cli_run *cli, const char *path, const char *format, ...) PRINTF_LIKE(3, 4);
void say_data_written(cli_run *cli, const char *path);
int save_stats(cli_run *cli, const kf_stats *stats, const char *path); /* and says so */

/* --- choosing.c: how to fit, and what a fit chose ----------------------------------------------- */

/* What the options say; alpha must outlive the options. */
int read_fit_options(cli_run *cli, kf_fit_options *options, double *alpha);
/* --fuse: whether alpha is to be chosen, and otherwise what it is. */
int read_fuse(cli_run *cli, int *automatic, double *alpha);
/* Refuses options on choosing if nothing is chosen. */
int check_choose_options(cli_run *cli);
/* Says how many training rows were left out, if any. */
void say_rows_left_out(cli_run *cli, uint64_t rows, uint64_t unlabelled, uint64_t bad);
/* Says what a fit chose and how good it is. */
void say_fit_choices(cli_run *cli, const kf_fit_report *report);

/* --- sweep_shots.c: koofu sweep --shots -------------------------------------------------------- */

enum { TABLE_TEXT, TABLE_CSV, TABLE_JSON }; /* --format of a sweep */
int sweep_shots(cli_run *cli);
/* --shots and --seeds: the curves, to be freed. text and truth may be NULL. */
int draw_shots(cli_run *cli, const kf_data *train, const kf_data *test, const kf_text *text,
               const kf_truth *truth, kf_shots **out);

/* --- blocks.c --------------------------------------------------------------------------------- */

/* The rows that a command is asked about: a data set, or pictures and what makes rows of them. */
typedef struct cli_queries {
  kf_data *data; /* NULL: pictures */
  kf_pictures *pictures;
  kf_encoder *encoder;
  uint64_t n; /* bad ones included */
  uint32_t dim;
} cli_queries;
/* Operands `first` and up: data, or with --encoder pictures. What is there is to be freed also where it
 * fails. */
int queries_open(cli_run *cli, size_t first, cli_queries *out);
void queries_free(cli_queries *queries);
/* A number of rows that fits a block of pictures, and is at most `most`. */
uint64_t queries_block(const cli_queries *queries, uint64_t most);

/* Rows in hand. Bad ones (--skip-bad) are left out and counted. */
typedef struct row_block {
  const cli_queries *from;
  kf_reader *reader;
  uint64_t n;              /* rows in hand */
  const float *rows;       /* [n][D] */
  const uint64_t *numbers; /* [n] number of each row in the data set, or of its picture */
  uint64_t n_bad;          /* so far */
} row_block;
int block_make(cli_run *cli, row_block *block, const cli_queries *from, uint64_t room);
/* The next `n` rows, which begin at `first`: as many as there is room for, or all that are left. */
int block_read(cli_run *cli, row_block *block, uint64_t first, uint64_t n);
void block_free(row_block *block);
/* The path of the picture of row i in hand; NULL for rows of a data set. */
const char *block_name(const row_block *block, uint64_t i);

/* --- galleries.c: what the commands on galleries share ---------------------------------------- */

int load_gallery(cli_run *cli, const char *path, kf_gallery **out);
int info_is_mapped(const kf_info *info); /* a map is inside: a model, or a gallery made with one */
/* Refuses rows, operands 1 and up, that a map must not be applied to again; the message ends with
 * what to do otherwise, or "". */
int check_unmapped(cli_run *cli, const kf_data *data, const char *otherwise);
/* Refuses options on votes that do not go together. */
int check_vote_options(cli_run *cli);
double vote_temperature(const cli_args *args); /* --temperature, or the usual one */
/* The gallery of --gallery, with labels, in the original space or in that of the model. It is
 * handed out, to be freed, also where it is refused. */
int load_voters(cli_run *cli, const kf_model *model, kf_gallery **out);
/* -k, or 15 where there are so many rows; `most` of them take part in a search of the gallery at
 * `path`. */
int choose_neighbours(cli_run *cli, const char *path, uint64_t most, uint32_t *k);
/* -k auto: the k that does well when rows of the gallery are left out in turn; says which. */
int neighbours_by_themselves(cli_run *cli, const kf_gallery *gallery, uint32_t *k);
int check_neighbours(cli_run *cli, const char *path, uint64_t most, uint32_t k);
/* How many of the queries to read at a time. */
uint64_t query_block(const cli_run *cli, const kf_gallery *gallery, uint32_t k, uint64_t queries);

/* --- judging.c: truth, class sets, errors by class -------------------------------------------- */

/* What judge_options say; what was not asked for is NULL. Both are handed out, to be freed, also
 * where one fails. */
int load_judging(cli_run *cli, kf_truth **truth, kf_class_set **set);
void print_errors(const kf_model *model, const kf_analysis *analysis);
void print_json_errors(cli_json *j, const kf_model *model, const kf_analysis *analysis);
/* Writes --per-class and --confusions, where they are given. */
int write_tables(cli_run *cli, const kf_model *model, const kf_analysis *analysis);
/* NAME, NAME_low and NAME_high, as fractions; null where it is not known. */
void print_json_share(cli_json *j, const char *name, uint64_t hits, uint64_t n, int known);

/* --- texts.c: classes by text ------------------------------------------------------------------ */

/* A model's map with text in place of class means: as it is, for the original space, and centred by
 * --text-centre, for the model's. */
typedef struct cli_zero_shot {
  kf_text *text;
  kf_model *raw, *mapped;
} cli_zero_shot;
/* Refuses options on text without --text. */
int check_text_options(cli_run *cli);
int load_text(cli_run *cli, kf_text **out); /* --text */
/* --text for a sweep of these statistics; says which classes only one of them has. */
int load_text_for(cli_run *cli, const kf_stats *stats, kf_text **out);
int load_text_of(cli_run *cli, const kf_data *data, kf_text **out); /* the same for rows */
/* Loads --text, says which classes only one of text and model has, and makes the models. What is
 * there is handed out, to be freed, also where it fails. */
int load_zero_shot(cli_run *cli, const kf_model *model, cli_zero_shot *out);
void zero_shot_free(cli_zero_shot *zero);
/* Writes text prototypes to -o and says how many embeddings they are from, which `one` and `many`
 * name. */
int save_text(cli_run *cli, const kf_text *text, uint64_t n, const char *one, const char *many);
/* Says which classes of the data have no text. */
int remark_on_text(cli_run *cli, const kf_data *data, const kf_text *text);
const char *text_centre_name(const cli_args *args); /* never NULL */

/* --- encoders.c: pictures and words to rows ---------------------------------------------------- */

/* Which towers a command needs. */
typedef enum tower_use { TOWER_IMAGES, TOWER_TEXT, TOWER_BOTH } tower_use;
/* TOWER_BOTH: the text tower where there is one. */
int load_encoder(cli_run *cli, const char *folder, tower_use use, kf_encoder **out);
/* Pictures that are named by operands `first` and up, or by --list. */
int open_pictures(cli_run *cli, size_t first, kf_pictures **out);
kf_embed_options embed_options_of(const cli_args *args);
/* Embeds pictures to a data set, resuming an earlier run, and says so. */
int embed_pictures(cli_run *cli, const kf_encoder *encoder, const kf_pictures *pictures,
                   const char *path);
/* Says how many pictures an earlier run had done, and how many were left out. */
void say_pictures(cli_run *cli, const kf_embed_report *report);
/* After a run that was stopped: says whether finished shards of the data set at `path` are kept. */
void say_kept(cli_run *cli, const char *path);

/* --- outputs.c: what may be written where; each returns an exit status ------------------------ */

/* Refuses an output (-o or another) that cannot be, or that would replace an input that is named on
 * the command line. */
int check_output(cli_run *cli, const char *path);
/* The same for a native file, which `what` names: "data set". */
int check_safetensors(cli_run *cli, const char *path, const char *what);
/* Refuses an output that is a file of the data, which a folder or pattern may stand for. */
int check_replaces_no_data(cli_run *cli, const kf_data *data, const char *path);
/* Refuses two outputs that are one file; b may be NULL. */
int check_outputs_differ(cli_run *cli, const char *a, const char *b);
int is_stdout(const char *path); /* NULL or "-" */
int ends_with(const char *text, const char *end);

/* --- label_files.c ---------------------------------------------------------------------------- */

typedef struct cli_strings {
  char **items;
  size_t n;
} cli_strings;
/* The files of --labels, with patterns expanded. -1: out of memory. */
int expand_labels(const cli_list *given, cli_strings *out);
void strings_free(cli_strings *strings);

/* --- out_file.c: results to stdout, or to a file that appears whole or not at all ------------- */

typedef struct out_file {
  FILE *file;
  const char *path; /* as it was given; NULL: stdout */
  char *target;     /* where it leads; the file it replaces may be behind a link */
  char *temporary;  /* its name until it is complete; NULL: it has none */
  int finished;     /* all of it is on the disk, under its temporary name */
} out_file;
int out_file_open(cli_run *cli, out_file *out, const char *path); /* NULL or "-": stdout */
/* What may fail for want of space; of several files, finish all before one is committed. */
int out_file_finish(cli_run *cli, out_file *out);
int out_file_commit(cli_run *cli, out_file *out); /* finishes it first */
void out_file_abort(out_file *out);               /* does nothing after a commit */
/* Closes it and says what failed; the reason is in errno. Returns the exit status. */
int out_file_fail(cli_run *cli, out_file *out, const char *what);

/* --- array_out.c: row numbers and scores, [n, k] each, in .npy or .safetensors ---------------- */

typedef struct array_out {
  out_file files[2]; /* .npy: row numbers, scores; .safetensors: both in the first */
  off_t at[2];       /* where the two arrays begin */
  char *scores_path; /* .npy alone */
  uint32_t k;
} array_out;
int array_out_open(cli_run *cli, array_out *out, const char *path, uint64_t n, uint32_t k,
                   const char *metric);
/* Answers [n][k] of the queries from `first` on. */
int array_out_put(cli_run *cli, array_out *out, uint64_t first, uint64_t n, const int64_t *rows,
                  const double *scores);
int array_out_commit(cli_run *cli, array_out *out); /* both files, or none */
void array_out_abort(array_out *out);               /* after a commit it frees what is left */
/* OUT_scores.npy for OUT.npy, to be freed; NULL: out of memory. */
char *scores_path(const char *path);

/* --- format.c: numbers and names for people --------------------------------------------------- */

typedef struct shown {
  char text[64];
} shown;
shown show_count(uint64_t n);                                      /* 1,281,167 */
shown show_counted(uint64_t n, const char *one, const char *many); /* 1 row, 12 rows */
shown show_rate(double a_second);                                  /* 1,234 or 2.5 */
shown show_bytes(uint64_t n);                                      /* 1.2 MiB */
shown show_seconds(double seconds);                                /* 0.25 s, 3:07 min */
shown show_real(double value);                                     /* 0.465696 */
shown show_relative(double lambda, double mean_eigenvalue);        /* 0.3x */
shown show_percent(uint64_t hits, uint64_t n);                     /* 54.83 % */
shown show_interval(uint64_t hits, uint64_t n);                    /* [53.05, 56.61] */
/* Prints text with tabs, line ends, backslashes and control characters escaped. */
void print_escaped(FILE *file, const char *text);
/* A class by its name, or by its number where it has none. */
void print_class(FILE *file, const char *name, int32_t number);
/* Prints text with '?' for control characters, so that no file steers a terminal by its name. */
void print_plain(FILE *file, const char *text);

/* --- json.c ----------------------------------------------------------------------------------- */

/* Length of the UTF-8 character at p (RFC 3629), which a NUL ends, or 0 where there is none. */
int utf8_length(const unsigned char *p);
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

/* --- help.c, man.c, completion.c: made from the tables ---------------------------------------- */

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
