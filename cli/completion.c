/* completion.c - shell completions from the tables: koofu help --completion SHELL. */
#include "commands.h"
#include "help.h"

#include <string.h>

static void print_choices(FILE *file, const cli_option *o) {
  for (size_t i = 0; o->choices[i]; i++) fprintf(file, "%s%s", i ? " " : "", o->choices[i]);
}

static void print_commands(FILE *file) {
  for (size_t i = 0; commands[i]; i++) fprintf(file, "%s%s", i ? " " : "", commands[i]->name);
}

/* Text inside single quotes; `special` characters get a backslash (zsh's brackets and colons). */
static void print_quoted(FILE *file, const char *text, const char *special, const char *quote) {
  for (const char *p = text; *p; p++) {
    if (*p == '\'')
      fputs(quote, file);
    else if (strchr(special, *p))
      fprintf(file, "\\%c", *p);
    else
      putc(*p, file);
  }
}

static int takes_a_file(const cli_option *o) {
  return o->kind == OPTION_TEXT || o->kind == OPTION_LIST;
}

static void bash_name(FILE *file, const cli_command *command, const cli_option *o) {
  (void)command;
  fprintf(file, " --%s", o->name);
  if (o->letter) fprintf(file, " -%c", o->letter);
}

static void bash_value(FILE *file, const cli_command *command, const cli_option *o) {
  if (!o->value) return;
  fprintf(file, "    %s:--%s", command->name, o->name);
  if (o->letter) fprintf(file, "|%s:-%c", command->name, o->letter);
  fputs(") ", file);
  if (o->choices) {
    fputs("COMPREPLY=($(compgen -W \"", file);
    print_choices(file, o);
    fputs("\" -- \"$word\")); ", file);
  }
  fputs("return ;;\n", file);
}

static void print_bash(FILE *file) {
  fputs("# bash completion for koofu; made by 'koofu help --completion bash'\n"
        "_koofu() {\n"
        "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
        "  local command=${COMP_WORDS[1]} options=\n"
        "  COMPREPLY=()\n"
        "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
        "    COMPREPLY=($(compgen -W \"",
        file);
  print_commands(file);
  fputs("\" -- \"$word\"))\n"
        "    return\n"
        "  fi\n"
        "  case $command:$before in\n",
        file);
  for (const cli_command *const *c = commands; *c; c++) each_option(file, *c, bash_value);
  fputs("    help:*) COMPREPLY=($(compgen -W \"", file);
  print_commands(file);
  fputs("\" -- \"$word\")) ;;\n"
        "  esac\n"
        "  case $word in -*) ;; *) return ;; esac\n"
        "  case $command in\n",
        file);
  for (const cli_command *const *c = commands; *c; c++) {
    fprintf(file, "    %s) options=\"", (*c)->name);
    each_option(file, *c, bash_name);
    fputs("\" ;;\n", file);
  }
  fputs("  esac\n"
        "  COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n"
        "}\n"
        "complete -o default -F _koofu koofu\n",
        file);
}

static void zsh_spec(FILE *file, const cli_option *o, const char *dashes, const char *name,
                     const char *joint) {
  fprintf(file, "        '%s%s%s%s[", o->kind == OPTION_LIST || o->kind == OPTION_COUNT ? "*" : "",
          dashes, name, o->value ? joint : "");
  print_quoted(file, o->help, "[]:\\", "'\\''");
  putc(']', file);
  if (o->choices) {
    fprintf(file, ":%s:(", o->value);
    print_choices(file, o);
    putc(')', file);
  } else if (o->value)
    fprintf(file, ":%s:%s", o->value, takes_a_file(o) ? "_files" : "");
  fputs("' \\\n", file);
}

static void zsh_option(FILE *file, const cli_command *command, const cli_option *o) {
  (void)command;
  if (o->letter) zsh_spec(file, o, "-", (const char[]){o->letter, '\0'}, "+");
  zsh_spec(file, o, "--", o->name, "=");
}

static void print_zsh(FILE *file) {
  fputs("#compdef koofu\n"
        "# zsh completion for koofu; made by 'koofu help --completion zsh'\n"
        "_koofu() {\n"
        "  local -a commands\n"
        "  commands=(\n",
        file);
  for (const cli_command *const *c = commands; *c; c++) {
    fprintf(file, "    '%s:", (*c)->name);
    print_quoted(file, (*c)->summary, ":\\", "'\\''");
    fputs("'\n", file);
  }
  fputs("  )\n"
        "  if (( CURRENT == 2 )); then\n"
        "    _describe command commands\n"
        "    return\n"
        "  fi\n"
        "  local command=$words[2]\n"
        "  shift words\n"
        "  (( CURRENT-- ))\n"
        "  case $command in\n",
        file);
  for (const cli_command *const *c = commands; *c; c++) {
    fprintf(file, "    %s)\n      _arguments \\\n", (*c)->name);
    each_option(file, *c, zsh_option);
    fputs("        '*:file:_files' ;;\n", file);
  }
  fputs("  esac\n"
        "}\n"
        "_koofu \"$@\"\n",
        file);
}

static void fish_option(FILE *file, const cli_command *command, const cli_option *o) {
  fprintf(file, "complete -c koofu -n '__fish_seen_subcommand_from %s' -l %s", command->name,
          o->name);
  if (o->letter) fprintf(file, " -s %c", o->letter);
  if (o->choices) {
    fputs(" -x -a '", file);
    print_choices(file, o);
    putc('\'', file);
  } else if (o->value)
    fputs(takes_a_file(o) ? " -r -F" : " -x", file);
  fputs(" -d '", file);
  print_quoted(file, o->help, "\\", "\\'");
  fputs("'\n", file);
}

static void print_fish(FILE *file) {
  fputs("# fish completion for koofu; made by 'koofu help --completion fish'\n", file);
  for (const cli_command *const *c = commands; *c; c++) {
    fprintf(file, "complete -c koofu -n __fish_use_subcommand -f -a %s -d '", (*c)->name);
    print_quoted(file, (*c)->summary, "\\", "\\'");
    fputs("'\n", file);
    each_option(file, *c, fish_option);
  }
}

void print_completion(FILE *file, int shell) {
  static void (*const printers[])(FILE *) = {print_bash, print_zsh, print_fish};
  printers[shell](file); /* in the order of shell_choices */
}
