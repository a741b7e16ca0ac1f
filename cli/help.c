/* help.c - the short and the long help, made from the tables. */
#include "commands.h"
#include "help.h"

#include <ctype.h>
#include <string.h>

enum { WIDTH = 80, HELP_COLUMN = 27 };

/* Prints one paragraph from column `column` on, further lines indented by `indent`. */
static void print_paragraph(FILE *file, const char *text, size_t indent, size_t column) {
  int first = 1;
  while (*text && *text != '\n') {
    size_t length = strcspn(text, " \n");
    if (!first && column + 1 + length > WIDTH) {
      fprintf(file, "\n%*s", (int)indent, "");
      column = indent;
    } else if (!first) {
      putc(' ', file);
      column++;
    }
    fwrite(text, 1, length, file);
    column += length;
    text += length;
    text += *text == ' ';
    first = 0;
  }
  putc('\n', file);
}

/* Lines that start with a space are not filled. */
static void print_paragraphs(FILE *file, const char *text) {
  while (*text) {
    size_t length = strcspn(text, "\n");
    if (length == 0)
      putc('\n', file);
    else if (*text == ' ')
      fprintf(file, " %.*s\n", (int)length, text);
    else
      print_paragraph(file, text, 0, 0);
    text += length;
    text += *text == '\n';
  }
}

static void print_entry(FILE *file, const char *label, const char *help) {
  int used = fprintf(file, "  %s", label);
  if (used + 2 > HELP_COLUMN) {
    putc('\n', file);
    used = 0;
  }
  fprintf(file, "%*s", HELP_COLUMN - used, "");
  print_paragraph(file, help, HELP_COLUMN, HELP_COLUMN);
}

static void print_option(FILE *file, const cli_option *o) {
  char label[96], letter[8] = "";
  if (o->letter) snprintf(letter, sizeof letter, "-%c, ", o->letter);
  snprintf(label, sizeof label, "%4s--%s%s%s", letter, o->name, o->value ? " " : "",
           o->value ? o->value : "");
  print_entry(file, label, o->help);
}

void each_option(FILE *file, const cli_command *command, option_fn print) {
  option_walk walk = {.command = command};
  for (const cli_option *o; (o = option_next(&walk, NULL)) != NULL;)
    if (!o->hidden) print(file, command, o);
}

void each_titled_option(FILE *file, const cli_command *command, const char *title,
                        void (*print)(FILE *file, const cli_option *option)) {
  option_walk walk = {.command = command};
  const cli_group *group, *before = NULL;
  for (const cli_option *o; (o = option_next(&walk, &group)) != NULL;) {
    if (o->hidden) continue;
    if (group != before) fprintf(file, "%s%s\n", title, group->title);
    before = group;
    print(file, o);
  }
}

/* Includes required options: "-o OUT.safetensors". */
static void print_usage(FILE *file, const cli_command *command) {
  fprintf(file, "usage: koofu %s", command->name);
  if (command->operands) fprintf(file, " %s", command->operands);
  option_walk walk = {.command = command};
  for (const cli_option *o; (o = option_next(&walk, NULL)) != NULL;) {
    if (o->required) fprintf(file, " %s %s", show_option(o).text, o->value);
  }
  fputs(" [OPTION...]\n", file);
}

static void print_summary(FILE *file, const cli_command *command) {
  fprintf(file, "\n%c%s.\n", toupper((unsigned char)command->summary[0]), command->summary + 1);
}

static void print_examples(FILE *file, const cli_example *examples) {
  if (!examples) return;
  fputs("\nExamples\n", file);
  for (const cli_example *e = examples; e->line; e++)
    fprintf(file, "  # %s\n  %s\n", e->title, e->line);
}

static void print_program(FILE *file) {
  fprintf(file, "koofu %s: %s\n\nusage: koofu COMMAND [ARGUMENT...] [OPTION...]\n\n", kf_version(),
          program_summary);
  for (const cli_command *const *c = commands; *c; c++)
    fprintf(file, "  %-15s  %s\n", (*c)->name, (*c)->summary);
}

void print_help(FILE *file, const cli_command *command) {
  if (!command) {
    print_program(file);
    fputs("\n'koofu COMMAND -h' lists the options of a command, 'koofu COMMAND -H' says more.\n"
          "Start with 'koofu demo'.\n",
          file);
    return;
  }
  print_usage(file, command);
  print_summary(file, command);
  each_titled_option(file, command, "\n", print_option);
}

void print_long_help(FILE *file, const cli_command *command) {
  if (command) {
    print_usage(file, command);
    print_summary(file, command);
    putc('\n', file);
    print_paragraphs(file, command->details);
    each_titled_option(file, command, "\n", print_option);
    print_examples(file, command->examples);
    return;
  }
  print_program(file);
  putc('\n', file);
  print_paragraphs(file, program_details);
  for (const cli_topic *t = program_topics; t->title; t++) {
    fprintf(file, "\n%s\n", t->title);
    print_paragraphs(file, t->text);
  }
  print_examples(file, program_examples);
}
