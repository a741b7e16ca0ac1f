/* args.h - option tables, commands and the parser.
 *
 * The table entry of an option or command says everything about it: the parser, both help texts,
 * the man pages and the shell completions are made from it. */
#ifndef CLI_ARGS_H
#define CLI_ARGS_H

#include "format.h"

#include <stddef.h>
#include <stdint.h>

typedef enum option_kind {
  OPTION_FLAG,    /* int: 1 if given */
  OPTION_COUNT,   /* int: how often it was given */
  OPTION_TEXT,    /* const char *: the value */
  OPTION_LIST,    /* cli_list: all values, in order */
  OPTION_NUMBER,  /* cli_number: a whole number from low to high */
  OPTION_NUMBERS, /* cli_numbers: such numbers, separated by commas */
  OPTION_REAL,    /* cli_real: a number above 0, or any */
  OPTION_CHOICE   /* int: low + the position of the value among the choices */
} option_kind;

typedef struct cli_option {
  const char *name; /* without the dashes; NULL ends a table */
  char letter;      /* 0: none */
  option_kind kind;
  size_t at;              /* offset of the value in cli_args */
  unsigned required : 1;  /* OPTION_TEXT only */
  unsigned hidden : 1;    /* not in the help */
  unsigned automatic : 1; /* a number or numbers may also be 'auto' */
  unsigned input : 1;     /* a file that is read, which no output may replace */
  unsigned any : 1;       /* a real may also be 0 or below */
  const char *value;      /* what the help calls the value; NULL: the option has none */
  const char *help;       /* one line, no capital, no full stop */
  int64_t low, high;
  const char *const *choices; /* NULL-terminated */
} cli_option;

/* The beginning of a table entry: name, member, what the help calls the value, limits. */
#define AT(MEMBER)            offsetof(cli_args, MEMBER)
#define FLAG(NAME, MEMBER)    .name = NAME, .kind = OPTION_FLAG, .at = AT(MEMBER)
#define COUNTED(NAME, MEMBER) .name = NAME, .kind = OPTION_COUNT, .at = AT(MEMBER)
#define TEXT(NAME, MEMBER, VALUE)                                                                  \
  .name = NAME, .kind = OPTION_TEXT, .at = AT(MEMBER), .value = VALUE
#define LIST(NAME, MEMBER, VALUE)                                                                  \
  .name = NAME, .kind = OPTION_LIST, .at = AT(MEMBER), .value = VALUE
#define REAL(NAME, MEMBER, VALUE)                                                                  \
  .name = NAME, .kind = OPTION_REAL, .at = AT(MEMBER), .value = VALUE
#define NUMBER(NAME, MEMBER, VALUE, LOW, HIGH)                                                     \
  .name = NAME, .kind = OPTION_NUMBER, .at = AT(MEMBER), .value = VALUE, .low = LOW, .high = HIGH
#define NUMBERS(NAME, MEMBER, VALUE, LOW, HIGH)                                                    \
  .name = NAME, .kind = OPTION_NUMBERS, .at = AT(MEMBER), .value = VALUE, .low = LOW, .high = HIGH
#define CHOICE(NAME, MEMBER, VALUE, FIRST, CHOICES)                                                \
  .name = NAME, .kind = OPTION_CHOICE, .at = AT(MEMBER), .value = VALUE, .low = FIRST,             \
  .choices = CHOICES
/* An input file, and several. */
#define INPUT(NAME, MEMBER, VALUE)  TEXT(NAME, MEMBER, VALUE), .input = 1
#define INPUTS(NAME, MEMBER, VALUE) LIST(NAME, MEMBER, VALUE), .input = 1

typedef struct cli_group {
  const char *title;
  const cli_option *options;
} cli_group;
#define OPTIONS(...) ((const cli_option[]){__VA_ARGS__, {0}})

/* An example: a command line and what it does. */
typedef struct cli_example {
  const char *title;
  const char *line;
} cli_example;

struct cli_run;
typedef struct cli_command {
  const char *name;
  /* "MODEL DATA...|STATS": a word for each operand; [optional] ones may be missing, and dots
   * mean any number. NULL: none. */
  const char *operands;
  const char *summary; /* one line, no capital, no full stop */
  /* Paragraphs with an empty line between them; lines that start with a space are not filled. */
  const char *details;
  const cli_group *const *groups; /* NULL-terminated, without the global one; NULL: none */
  const cli_example *examples;    /* ended by an entry with line NULL; NULL: none */
  int (*run)(struct cli_run *cli);
  int shared; /* can run on several ranks (koofu-mpi) */
} cli_command;
#define GROUPS(...)   ((const cli_group *const[]){__VA_ARGS__, NULL})
#define EXAMPLES(...) ((const cli_example[]){__VA_ARGS__, {NULL, NULL}})

typedef struct cli_list {
  const char **items;
  size_t n;
} cli_list;

typedef struct cli_number {
  int64_t value;
  int given;
  int automatic; /* 'auto' was given instead of a number */
} cli_number;

/* Rising and distinct. */
typedef struct cli_numbers {
  uint32_t *items;
  size_t n;
  int automatic;
} cli_numbers;

typedef struct cli_real {
  double value;
  int given;
} cli_real;

/* Walks through all options of a command, the global ones last; returns NULL at the end. */
typedef struct option_walk {
  const cli_command *command;
  size_t group, index;
} option_walk;
const cli_option *option_next(option_walk *walk, const cli_group **group);

shown show_option(const cli_option *option); /* as it is typed: "-k", "--json" */
/* NULL if the command has no such option. name[length] need not be NUL. */
const cli_option *find_option(const cli_command *command, const char *name, size_t length);

/* Parses the words after the command's name. Returns 0, or -1 with one sentence in message,
 * which is empty if memory ran out. */
struct cli_args;
int args_parse(const cli_command *command, int argc, char **argv, struct cli_args *out,
               char *message, size_t size);
void args_free(const cli_command *command, struct cli_args *args);

/* Parses all of text as a number from low to high. Returns 0, or -1 with a sentence about
 * `name`. */
int parse_number(const char *name, const char *text, int64_t low, int64_t high, int64_t *out,
                 char *message, size_t size);
int parse_real(const char *text, double *out); /* 1 if all of text is a finite number */
/* Returns the position of text among the choices, or -1 with a sentence about `name`. */
int parse_choice(const char *name, const char *text, const char *const *choices, char *message,
                 size_t size);

/* The best guess at what was meant (suggest.c): offer every candidate, then read `best`. */
typedef struct suggestion {
  const char *typed;
  const char *best; /* NULL: nothing is close */
  size_t distance;
  int synonym; /* it is another word for the same thing */
} suggestion;
void suggest(suggestion *guess, const char *candidate);

#endif
