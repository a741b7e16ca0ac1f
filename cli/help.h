/* help.h - help, man pages and completions, made from the tables. command NULL: koofu itself. */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include "args.h"

#include <stdio.h>

/* Texts about koofu itself (help_text.c). */
typedef struct cli_topic {
  const char *title;
  const char *text; /* as in command.details */
} cli_topic;
extern const char program_summary[];
extern const char program_details[];
extern const cli_example program_examples[];
extern const cli_topic program_topics[]; /* exit status, environment; ended by title NULL */

void print_help(FILE *file, const cli_command *command);
void print_long_help(FILE *file, const cli_command *command);
void print_man(FILE *file, const cli_command *command);
void print_completion(FILE *file, int shell); /* position in shell_choices */
extern const char *const shell_choices[];

/* Calls print for every option of a command that the help shows. */
typedef void (*option_fn)(FILE *file, const cli_command *command, const cli_option *option);
void each_option(FILE *file, const cli_command *command, option_fn print);
/* The same, with `title` printed before the title of each group. */
void each_titled_option(FILE *file, const cli_command *command, const char *title,
                        void (*print)(FILE *file, const cli_option *option));

#endif
