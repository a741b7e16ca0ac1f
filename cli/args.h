/* args.h - what a command line may say (tables of options) and what it said (struct args).
 *
 * Everything that is known about an option or a command stands in one table entry; the parser, the
 * two help texts, the man pages and the shell completions are all made from it. */
#ifndef CLI_ARGS_H
#define CLI_ARGS_H

#include <stddef.h>
#include <stdint.h>

typedef enum option_kind {
  OPTION_FLAG,    /* int: 1 where given */
  OPTION_COUNT,   /* int: how often it was given */
  OPTION_TEXT,    /* const char *: the value */
  OPTION_LIST,    /* list: all values, in order */
  OPTION_NUMBER,  /* number: a whole number from low to high */
  OPTION_NUMBERS, /* numbers: such numbers, separated by commas */
  OPTION_REAL,    /* real: a number above 0 */
  OPTION_CHOICE   /* int: low + the position of the value among the choices */
} option_kind;

typedef enum option_flags {
  OPTION_REQUIRED = 1,
  OPTION_HIDDEN = 2,
  OPTION_AUTO = 4 /* a number or numbers may be 'auto' as well */
} option_flags;

typedef struct cli_option {
  const char *name; /* without the dashes; NULL ends a table */
  char letter;      /* 0: none */
  option_kind kind;
  size_t at; /* offset of the value in struct args */
  unsigned flags;
  const char *value; /* what the help calls the value; NULL: the option has none */
  const char *help;  /* one line, no capital, no full stop */
  int64_t low, high;
  const char *const *choices; /* NULL-terminated */
} cli_option;

typedef struct cli_group {
  const char *title;
  const cli_option *options;
} cli_group;

/* A command line and what it does: "$ what" in the help. */
typedef struct cli_example {
  const char *what;
  const char *line;
} cli_example;

#define ANY_NUMBER SIZE_MAX

struct cli_run;
typedef struct cli_command {
  const char *name;
  const char *operands; /* "MODEL DATA..." */
  size_t min_operands;
  size_t max_operands; /* ANY_NUMBER: no limit */
  const char *missing; /* what to say when operands are missing: "the model and the data are" */
  const char *missing_rest; /* the same where the first one is there; NULL: as missing */
  const char *summary;      /* one line, no capital, no full stop */
  /* Paragraphs with an empty line between them; lines that start with a space stay as they are. */
  const char *details;
  const cli_group *const *groups; /* NULL-terminated, without the global one; NULL: none */
  const cli_example *examples;    /* ended by an entry with line NULL; NULL: none */
  int (*run)(struct cli_run *cli);
} cli_command;

typedef struct cli_list {
  const char **items;
  size_t n;
} cli_list;

typedef struct cli_number {
  int64_t value;
  int given;
  int automatic; /* 'auto' was given instead of a number */
} cli_number;

/* Rising, each one once. */
typedef struct cli_numbers {
  uint32_t *items;
  size_t n;
  int automatic;
} cli_numbers;

typedef struct cli_real {
  double value;
  int given;
} cli_real;

typedef struct cli_args {
  cli_list operands;
  /* on every command */
  int help, long_help, quiet, verbose;
  cli_number threads;
  int isa;
  /* data sets */
  cli_list labels;
  const char *classes, *tensor, *label_tensor, *only;
  int skip_bad, allow_unlabelled, allow_unknown;
  /* statistics and fitting */
  int no_normalize;
  cli_number exponent, dim;
  const char *lambda, *between;
  int centre;
  /* choosing */
  int one_se;
  cli_number sample, folds;
  cli_real tolerance;
  cli_numbers dims;
  cli_list test, test_labels, class_sets;
  const char *lambdas;
  int table_format, no_prototypes, no_raw, leave_one_out;
  cli_numbers shots;
  cli_number seeds;
  /* results */
  const char *output, *text_output, *title;
  int dtype, metric, raw, json;
  cli_number top;
  /* galleries */
  const char *model, *ids, *append, *gallery;
  cli_number neighbours;
  cli_numbers neighbour_list;
  int itself, rerank_from_disk, weighted;
  cli_real temperature;
  /* judging */
  const char *truth, *truth_classes, *class_set, *class_table, *confusions;
  const char *hierarchy, *set, *all, *names;
  cli_list unknown;
  int errors;
  /* text */
  const char *text, *fuse, *templates, *label_output;
  int by_text, part, text_centre, text_as_is, no_unit_rows, no_unit_mean, all_names, repeats;
  /* encoders */
  const char *encoder, *list, *prompts;
  int precision, normalize, no_resume, prompt_rows, no_text;
  cli_number shard, max_pixels;
  /* synthetic worlds */
  cli_number world_classes, world_dim, per_class, test_per_class, split, seed;
  /* help */
  int man;
  int completion;
} cli_args;

/* Options that several commands share (options.c). */
extern const cli_group global_options;  /* every command has these */
extern const cli_group label_options;   /* --labels, --classes, --label-tensor */
extern const cli_group row_options;     /* --tensor, --skip-bad */
extern const cli_group strict_options;  /* --skip-unlabelled, --skip-unknown */
extern const cli_group only_options;    /* --only */
extern const cli_group stats_options;   /* --no-normalize, --exponent */
extern const cli_group choose_options;  /* --one-se, --sample, --folds, --tolerance */
extern const cli_group world_options;   /* --classes, --dim, --per-class, --seed */
extern const cli_group vote_options;    /* --gallery, --weighted, --temperature */
extern const cli_group truth_options;   /* of test rows beside training rows: --truth, … */
extern const cli_group judge_options;   /* --truth, --truth-classes, --ids, --class-set */
extern const cli_group text_options;    /* --text, --text-centre, --text-as-is */
extern const cli_group tower_options;   /* --precision */
extern const cli_group encoder_options; /* --encoder, --precision, --max-pixels */
extern const cli_group picture_options; /* --max-pixels, --skip-bad, --shard, --no-resume */
extern const char *const dtype_choices[];
extern const char *const metric_choices[];         /* of prototypes */
extern const char *const gallery_metric_choices[]; /* those and the inner product */
extern const char *const centre_choices[];
extern const char *const part_choices[];        /* kf_part, from 1 */
extern const char *const text_centre_choices[]; /* kf_centre, from 1 */

/* Walks through every option of a command, the global ones last; NULL at the end. */
typedef struct option_walk {
  const cli_command *command;
  size_t group, index;
} option_walk;
const cli_option *option_next(option_walk *walk, const cli_group **group);

/* Reads the words after the command's name. Returns 0, or -1 with one sentence in message. */
int args_parse(const cli_command *command, int argc, char **argv, cli_args *out, char *message,
               size_t size);
void args_free(cli_args *args);

/* The whole of text as a number from low to high; otherwise -1 and a sentence on `what`. */
int parse_number(const char *what, const char *text, int64_t low, int64_t high, int64_t *out,
                 char *message, size_t size);
/* The position of text among the choices; otherwise -1 and a sentence on `what`. */
int parse_choice(const char *what, const char *text, const char *const *choices, char *message,
                 size_t size);

/* The best guess at what was meant (suggest.c): offer every candidate, then look at best. */
typedef struct suggestion {
  const char *typed;
  const char *best; /* NULL: nothing is close */
  size_t distance;
  int synonym; /* it is another word for the same */
} suggestion;
void suggest(suggestion *guess, const char *candidate);

#endif
