/* prompting.h - class names and templates to prompts. */
#ifndef CLI_PROMPTING_H
#define CLI_PROMPTING_H

#include "cli.h"

#include <stdio.h>

/* The lines of a file without their ends, each a string, with NULL after the last; `text` holds them
 * all. */
typedef struct line_list {
  char *text;
  char **items;
  size_t n;
} line_list;
int read_lines(cli_run *cli, const char *path, line_list *lines);
void lines_free(line_list *lines);

/* A class: its label, and its names for prompts, separated by commas. */
typedef struct prompt_class {
  const char *label;
  char *names;
  int whole; /* one name, which may hold commas */
} prompt_class;

typedef struct prompt_set {
  line_list class_lines, name_lines, template_lines;
  prompt_class *classes; /* [n_classes], and one without names */
  size_t n_classes;
  const char *const *templates;
  size_t n_templates;
  const char *repeats_advice; /* what to do about a name that appears twice */
} prompt_set;

/* The classes of --classes, looked up in --names if given, and these templates: a file, or built
 * in. */
int prompts_read(cli_run *cli, const char *templates, prompt_set *out);
int prompts_templates(cli_run *cli, const char *templates, prompt_set *out);
/* Classes named after folders, "n01440764_tench" or "red_fox". The names must outlive the set. */
int prompts_of_folders(cli_run *cli, const char *const *names, uint32_t n, prompt_set *out);
void prompts_free(prompt_set *set);

/* Every class with every template, class by class. */
typedef void (*prompt_fn)(void *argument, size_t class, const char *template, const char *name,
                          size_t length);
void prompts_each(const prompt_set *set, int all_names, prompt_fn use, void *argument);
void print_prompt(FILE *file, const char *template, const char *name, size_t length);

#endif
