/* cmd_help.c - koofu help: help on a command; also, for packagers, man pages and completions. */
#include "cli.h"
#include "commands.h"

#include <string.h>

const char *const shell_choices[] = {"bash", "zsh", "fish", NULL};

static int run(cli_run *cli) {
  const cli_args *a = &cli->args;
  if (a->completion) {
    print_completion(stdout, a->completion - 1);
    return EXIT_OK;
  }
  const cli_command *about = NULL;
  if (a->operands.n && strcmp(a->operands.items[0], "koofu") != 0) {
    about = find_command(a->operands.items[0]);
    if (!about) return no_such_command(cli, a->operands.items[0]);
  }
  if (a->man)
    print_man(stdout, about);
  else if (a->operands.n)
    print_long_help(stdout, about);
  else
    print_help(stdout, NULL);
  return EXIT_OK;
}

static const cli_group own_options = {
    "For packagers",
    (const cli_option[]){{"man", 0, OPTION_FLAG, offsetof(cli_args, man), OPTION_HIDDEN, NULL,
                          "print the man page", 0, 0, NULL},
                         {"completion", 0, OPTION_CHOICE, offsetof(cli_args, completion),
                          OPTION_HIDDEN, "SHELL", "print completions for bash, zsh or fish", 1, 0,
                          shell_choices},
                         {0}}};

const cli_command help_command = {
    .name = "help",
    .operands = "[COMMAND]",
    .max_operands = 1,
    .summary = "print help on a command",
    .details = "The same as 'koofu COMMAND --long-help'; without a COMMAND, the list of commands.",
    .groups = (const cli_group *const[]){&own_options, NULL},
    .run = run,
};
