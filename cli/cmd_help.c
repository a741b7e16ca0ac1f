/* cmd_help.c - koofu help: help on a command and, for packagers, man pages and completions. */
#include "commands.h"
#include "help.h"

#include <string.h>

const char *const shell_choices[] = {"bash", "zsh", "fish", NULL};

static int run_help(cli_run *cli) {
  const cli_args *a = &cli->args;
  if (a->help.completion) {
    print_completion(stdout, a->help.completion - 1);
    return EXIT_OK;
  }
  const cli_command *about = NULL;
  if (a->operands.n && strcmp(a->operands.items[0], "koofu") != 0) {
    about = find_command(a->operands.items[0]);
    if (!about) return no_such_command(cli, a->operands.items[0]);
  }
  if (a->help.man)
    print_man(stdout, about);
  else if (a->operands.n)
    print_long_help(stdout, about);
  else
    print_help(stdout, NULL);
  return EXIT_OK;
}

static const cli_group own_options = {
    "For packagers", OPTIONS({FLAG("man", help.man), .hidden = 1, .help = "print the man page"},
                             {CHOICE("completion", help.completion, "SHELL", 1, shell_choices),
                              .hidden = 1, .help = "print completions for bash, zsh or fish"})};

const cli_command help_command = {
    .name = "help",
    .operands = "[COMMAND]",
    .summary = "print help on a command",
    .details = "The same as 'koofu COMMAND --long-help'; without a COMMAND, the list of commands.",
    .groups = GROUPS(&own_options),
    .run = run_help,
    .shared = 1,
};
