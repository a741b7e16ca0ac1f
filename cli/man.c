/* man.c - man pages (roff, man macros) from the tables: koofu help --man COMMAND. */
#include "commands.h"
#include "help.h"

#include <ctype.h>
#include <string.h>

/* Prints n bytes, escaped so that roff interprets none of them and the rendered text can be
 * pasted. */
static void print_n(FILE *file, const char *text, size_t n) {
  if (n && (text[0] == '.' || text[0] == '\'')) fputs("\\&", file);
  for (size_t i = 0; i < n; i++) {
    switch (text[i]) {
    case '\\': fputs("\\e", file); break;
    case '-': fputs("\\-", file); break;
    case '\'': fputs("\\(aq", file); break;
    case '`': fputs("\\(ga", file); break;
    case '^': fputs("\\(ha", file); break;
    case '~': fputs("\\(ti", file); break;
    default: putc(text[i], file);
    }
  }
}

static void print(FILE *file, const char *text) { print_n(file, text, strlen(text)); }

static void print_heading(FILE *file, const char *title) {
  fputs(".SH ", file);
  for (const char *p = title; *p; p++) putc(toupper((unsigned char)*p), file);
  putc('\n', file);
}

/* Lines that start with a space are not filled. */
static void print_paragraphs(FILE *file, const char *text) {
  int fixed = 0;
  while (*text) {
    size_t length = strcspn(text, "\n");
    int now_fixed = *text == ' ';
    if (now_fixed != fixed) fputs(now_fixed ? ".PP\n.EX\n" : ".EE\n", file);
    fixed = now_fixed;
    if (length == 0)
      fputs(".PP\n", file);
    else {
      print_n(file, text + now_fixed, length - (size_t)now_fixed);
      putc('\n', file);
    }
    text += length;
    text += *text == '\n';
  }
  if (fixed) fputs(".EE\n", file);
}

/* font: 'B' (bold) or 'I' (italic). */
static void print_in(FILE *file, char font, const char *text) {
  fprintf(file, "\\f%c", font);
  print(file, text);
  fputs("\\fR", file);
}

static void print_option(FILE *file, const cli_option *o) {
  fputs(".TP\n", file);
  if (o->letter) fprintf(file, "\\fB\\-%c\\fR, ", o->letter);
  fputs("\\fB\\-\\-", file);
  print(file, o->name);
  fputs("\\fR", file);
  if (o->value) {
    putc(' ', file);
    print_in(file, 'I', o->value);
  }
  putc('\n', file);
  print(file, o->help);
  fputs(".\n", file);
}

static void print_examples(FILE *file, const cli_example *examples) {
  if (!examples) return;
  print_heading(file, "examples");
  for (const cli_example *e = examples; e->line; e++) {
    fputs(".TP\n", file);
    print(file, e->title);
    fputs("\n.EX\n", file);
    print(file, e->line);
    fputs("\n.EE\n", file);
  }
}

/* The page's name, "koofu-fit". */
static void print_title(FILE *file, const cli_command *command, const char *summary) {
  const char *joint = command ? "-" : "", *name = command ? command->name : "";
  fputs(".TH KOOFU", file);
  for (const char *p = joint; *p; p++) fputs("\\-", file);
  for (const char *p = name; *p; p++)
    *p == '-' ? fputs("\\-", file) : putc(toupper((unsigned char)*p), file);
  fprintf(file, " 1 \"\" \"koofu %s\" \"koofu manual\"\n", kf_version());
  print_heading(file, "name");
  fputs("koofu", file);
  print(file, joint);
  print(file, name);
  fputs(" \\- ", file);
  print(file, summary);
  putc('\n', file);
}

static void print_synopsis(FILE *file, const cli_command *command) {
  print_heading(file, "synopsis");
  fputs("\\fBkoofu ", file);
  print(file, command->name);
  fputs("\\fR", file);
  if (command->operands) {
    putc(' ', file);
    print_in(file, 'I', command->operands);
  }
  option_walk walk = {.command = command};
  for (const cli_option *o; (o = option_next(&walk, NULL)) != NULL;) {
    if (!o->required) continue;
    putc(' ', file);
    print_in(file, 'B', show_option(o).text);
    putc(' ', file);
    print_in(file, 'I', o->value);
  }
  fputs(" [\\fIOPTION\\fR...]\n", file);
}

static void print_topics(FILE *file) {
  for (const cli_topic *t = program_topics; t->title; t++) {
    print_heading(file, t->title);
    print_paragraphs(file, t->text);
  }
}

static void print_see_also(FILE *file, const cli_command *without) {
  print_heading(file, "see also");
  if (without) fputs(".BR koofu (1),\n", file);
  for (const cli_command *const *c = commands; *c; c++) {
    if (*c == without) continue;
    fputs(".BR koofu\\-", file);
    print(file, (*c)->name);
    /* no comma after the last */
    int last = !c[1] || (c[1] == without && !c[2]);
    fputs(last ? " (1)\n" : " (1),\n", file);
  }
}

static void print_program_page(FILE *file) {
  print_title(file, NULL, program_summary);
  print_heading(file, "synopsis");
  fputs("\\fBkoofu\\fR \\fICOMMAND\\fR [\\fIARGUMENT\\fR...] [\\fIOPTION\\fR...]\n", file);
  print_heading(file, "description");
  print_paragraphs(file, program_details);
  print_heading(file, "commands");
  for (const cli_command *const *c = commands; *c; c++) {
    fputs(".TP\n.B ", file);
    print(file, (*c)->name);
    putc('\n', file);
    print(file, (*c)->summary);
    putc('\n', file);
  }
  print_heading(file, global_options.title);
  for (const cli_option *o = global_options.options; o->name; o++) print_option(file, o);
  print_topics(file);
  print_examples(file, program_examples);
  print_see_also(file, NULL);
}

void print_man(FILE *file, const cli_command *command) {
  if (!command) {
    print_program_page(file);
    return;
  }
  print_title(file, command, command->summary);
  print_synopsis(file, command);
  print_heading(file, "description");
  print_paragraphs(file, command->details);
  print_heading(file, "options");
  each_titled_option(file, command, ".SS ", print_option);
  print_topics(file);
  print_examples(file, command->examples);
  print_see_also(file, command);
}
