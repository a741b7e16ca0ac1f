/* cmd_prompts.c - koofu prompts: class names and templates to prompts for a text encoder. */
#include "cli.h"
#include "commands.h"
#include "templates.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- lines of a file -------------------------------------------------------------------------- */

/* The lines of a file without their ends, each a string of its own, with NULL behind the last;
 * `text` holds them all. */
typedef struct line_list {
  char *text;
  char **items;
  size_t n;
} line_list;

static void lines_free(line_list *lines) {
  free(lines->text);
  free(lines->items);
}

static int read_all(cli_run *cli, const char *path, char **text, size_t *length) {
  FILE *file = fopen(path, "rb");
  if (!file) return fail_with(cli, EXIT_IO, "%s: cannot be opened: %s", path, strerror(errno));
  size_t room = 0;
  errno = 0;
  ssize_t n = getdelim(text, &room, '\0', file);
  int failed = ferror(file), code = errno, more = fgetc(file) != EOF;
  fclose(file);
  if (failed) return fail_with(cli, EXIT_IO, "%s: cannot be read: %s", path, strerror(code));
  if (more || (n > 0 && (*text)[n - 1] == '\0'))
    return fail_with(cli, EXIT_BAD_DATA, "%s: holds a NUL byte, so this is no text", path);
  *length = n > 0 ? (size_t)n : 0;
  return EXIT_OK;
}

/* A text encoder has no use for other bytes. */
static int check_utf8(cli_run *cli, const char *path, const line_list *lines) {
  for (size_t i = 0; i < lines->n; i++)
    for (const unsigned char *p = (const unsigned char *)lines->items[i]; *p;) {
      int length = utf8_length(p);
      if (!length)
        return fail_with(cli, EXIT_BAD_DATA, "%s: line %zu is not valid UTF-8", path, i + 1);
      p += length;
    }
  return EXIT_OK;
}

static int split_lines(cli_run *cli, line_list *lines, size_t length) {
  size_t most = 2;
  for (size_t i = 0; i < length; i++) most += lines->text[i] == '\n';
  lines->items = calloc(most, sizeof *lines->items);
  if (!lines->items) return fail(cli, KF_ERR_MEM);
  char *at = lines->text, *end = at + length;
  if (length >= 3 && memcmp(at, "\xEF\xBB\xBF", 3) == 0) at += 3; /* a byte order mark */
  while (at < end) {
    char *stop = memchr(at, '\n', (size_t)(end - at));
    if (!stop) stop = end;
    *stop = '\0';
    if (stop > at && stop[-1] == '\r') stop[-1] = '\0';
    lines->items[lines->n++] = at;
    at = stop + 1;
  }
  return EXIT_OK;
}

static int read_lines(cli_run *cli, const char *path, line_list *lines) {
  size_t length = 0;
  int result = read_all(cli, path, &lines->text, &length);
  if (result == EXIT_OK) result = split_lines(cli, lines, length);
  if (result == EXIT_OK && lines->n == 0)
    result = fail_with(cli, EXIT_BAD_DATA, "%s: is empty", path);
  return result == EXIT_OK ? check_utf8(cli, path, lines) : result;
}

/* --- names ------------------------------------------------------------------------------------ */

/* A class: what it is called in labels, and the names for prompts, separated by commas. */
typedef struct prompt_class {
  const char *label;
  char *names;
  int whole; /* the name was in quotation marks, and a comma is part of it */
} prompt_class;

typedef struct prompts_job {
  cli_run *cli;
  line_list class_lines, name_lines, template_lines;
  prompt_class *classes; /* [n_classes], and one without names */
  size_t n_classes;
  const char *const *templates;
  size_t n_templates;
  out_file out, labels;
  uint64_t n_prompts;
} prompts_job;

static int is_space(char c) { return c == ' ' || c == '\t'; }

static char *trim(char *text) {
  while (is_space(*text)) text++;
  for (size_t n = strlen(text); n > 0 && is_space(text[n - 1]);) text[--n] = '\0';
  return text;
}

/* A '#' at the beginning of a line or behind a blank begins a comment. */
static void cut_comment(char *text) {
  for (char *c = text; *c; c++)
    if (*c == '#' && (c == text || is_space(c[-1]))) {
      *c = '\0';
      return;
    }
}

/* 'name', # comment: as in the list of a Python program. NULL: what follows the quotation mark is
 * neither a comma nor a comment. */
static char *unquote(char *text) {
  char *end = strrchr(text + 1, *text);
  for (char *c = text + 1; *c; c++) /* the last mark before a comment */
    if (*c == *text && (c[1] == ',' || c[1] == '\0' || is_space(c[1]))) {
      end = c;
      break;
    }
  if (!end) return NULL;
  char *rest = end + 1;
  if (*rest == ',') rest++;
  cut_comment(rest);
  if (*trim(rest)) return NULL;
  *end = '\0';
  return text + 1;
}

/* The names in a line; the line is cut up. */
static int read_name(cli_run *cli, const char *path, size_t line, char *text, prompt_class *out) {
  text = out->names = trim(text);
  out->whole = *text == '\'' || *text == '"';
  if (out->whole) {
    text = unquote(text);
    if (!text)
      return fail_with(cli, EXIT_BAD_DATA, "%s: line %zu: the quotation mark does not end a name",
                       path, line);
  } else {
    cut_comment(text);
  }
  out->names = trim(text);
  size_t n = strlen(out->names);
  if (!out->whole && n > 0 && out->names[n - 1] == ',') out->names[n - 1] = '\0';
  if (!*out->names)
    return fail_with(cli, EXIT_BAD_DATA, "%s: line %zu is empty, where a class name must be", path,
                     line);
  return EXIT_OK;
}

/* --- classes ---------------------------------------------------------------------------------- */

typedef struct numbered {
  const char *text;
  size_t length, line;
  char *names; /* behind a tab; NULL: there are none */
} numbered;

static int same_text(const numbered *x, const numbered *y) {
  return x->length == y->length && memcmp(x->text, y->text, x->length) == 0;
}

static int by_text(const void *a, const void *b) {
  const numbered *x = a, *y = b;
  int order = memcmp(x->text, y->text, x->length < y->length ? x->length : y->length);
  if (order) return order;
  if (x->length != y->length) return x->length < y->length ? -1 : 1;
  return (x->line > y->line) - (x->line < y->line);
}

/* Refuses lines that are there twice. */
static int check_repeats(cli_run *cli, const char *path, numbered *list, size_t n,
                         const char *advice) {
  qsort(list, n, sizeof *list, by_text);
  size_t at = 0; /* the earliest line that repeats another, behind its first place in the list */
  for (size_t i = 1; i < n; i++)
    if (same_text(&list[i], &list[i - 1]) && (!at || list[i].line < list[at].line)) at = i;
  if (!at) return EXIT_OK;
  return fail_with(cli, EXIT_BAD_DATA, "%s: line %zu repeats the class name '%.*s' of line %zu%s",
                   path, list[at].line, (int)(list[at].length < 64 ? list[at].length : 64),
                   list[at].text, list[at - 1].line, advice);
}

/* The first of the names of a class, without the blanks behind it. */
static size_t first_name(const prompt_class *c) {
  size_t n = c->whole ? strlen(c->names) : strcspn(c->names, ",");
  while (n > 0 && is_space(c->names[n - 1])) n--;
  return n;
}

/* Classes differ by the lines of --classes where these are labels, and by their prompts. */
static int check_classes(prompts_job *j) {
  cli_run *cli = j->cli;
  const cli_args *a = &cli->args;
  int by_label = a->names || (a->repeats && a->label_output);
  if (a->repeats && !by_label) return EXIT_OK;
  numbered *list = calloc(j->n_classes, sizeof *list);
  if (!list) return fail(cli, KF_ERR_MEM);
  for (size_t k = 0; j->classes[k].names; k++) {
    const prompt_class *c = &j->classes[k];
    list[k] = (numbered){c->label, by_label ? strlen(c->label) : first_name(c), k + 1, NULL};
  }
  int result =
      check_repeats(cli, a->classes, list, j->n_classes, by_label ? "" : " (--repeats allows it)");
  free(list);
  return result;
}

/* "CLASS<tab>NAMES": ends the class and returns the names; NULL: there is no tab. */
static char *behind_tab(char *line) {
  char *tab = strchr(line, '\t');
  if (tab) *tab = '\0';
  return tab ? tab + 1 : NULL;
}

static int find_names(prompts_job *j, const numbered *known, size_t n) {
  cli_run *cli = j->cli;
  for (size_t k = 0; k < j->n_classes; k++) {
    numbered wanted = {j->classes[k].label, strlen(j->classes[k].label), 0, NULL};
    size_t low = 0, high = n; /* the first line that is not before it */
    while (low < high) {
      size_t middle = (low + high) / 2;
      if (by_text(&known[middle], &wanted) < 0)
        low = middle + 1;
      else
        high = middle;
    }
    if (low == n || !same_text(&known[low], &wanted))
      return fail_with(cli, EXIT_BAD_DATA, "%s: has no line for the class '%.64s' of %s, line %zu",
                       cli->args.names, wanted.text, cli->args.classes, k + 1);
    int result = read_name(cli, cli->args.names, known[low].line, known[low].names, &j->classes[k]);
    if (result != EXIT_OK) return result;
  }
  return EXIT_OK;
}

/* --names: the lines of --classes are looked up there. */
static int look_up(prompts_job *j) {
  cli_run *cli = j->cli;
  line_list *lines = &j->name_lines;
  int result = read_lines(cli, cli->args.names, lines);
  numbered *known = calloc(lines->n + 1, sizeof *known);
  if (!known) return fail(cli, KF_ERR_MEM);
  for (size_t i = 0; result == EXIT_OK && lines->items[i]; i++) {
    char *names = behind_tab(lines->items[i]);
    if (!names)
      result = fail_with(cli, EXIT_BAD_DATA, "%s: line %zu has no tab behind the class",
                         cli->args.names, i + 1);
    known[i] = (numbered){lines->items[i], strlen(lines->items[i]), i + 1, names};
  }
  if (result == EXIT_OK) result = check_repeats(cli, cli->args.names, known, lines->n, "");
  if (result == EXIT_OK) result = find_names(j, known, lines->n);
  free(known);
  return result;
}

static int read_classes(prompts_job *j) {
  cli_run *cli = j->cli;
  int result = read_lines(cli, cli->args.classes, &j->class_lines);
  if (result != EXIT_OK) return result;
  j->classes = calloc(j->class_lines.n + 1, sizeof *j->classes);
  if (!j->classes) return fail(cli, KF_ERR_MEM);
  for (size_t k = 0; j->class_lines.items[k]; k++) {
    prompt_class *c = &j->classes[k];
    if (strchr(j->class_lines.items[k], '\t'))
      return fail_with(cli, EXIT_BAD_DATA,
                       "%s: line %zu holds a tab; lines 'CLASS<tab>NAME' go behind --names",
                       cli->args.classes, k + 1);
    result = read_name(cli, cli->args.classes, k + 1, j->class_lines.items[k], c);
    if (result != EXIT_OK) return result;
    c->label = c->names;
    j->n_classes++;
  }
  result = check_classes(j);
  return result == EXIT_OK && cli->args.names ? look_up(j) : result;
}

/* --- templates -------------------------------------------------------------------------------- */

static int read_templates(prompts_job *j) {
  cli_run *cli = j->cli;
  const char *path = cli->args.templates;
  j->templates = builtin_templates(path, &j->n_templates);
  if (j->templates) return EXIT_OK;
  int result = read_lines(cli, path, &j->template_lines);
  for (size_t i = 0; result == EXIT_OK && j->template_lines.items[i]; i++)
    if (!strstr(j->template_lines.items[i], "{}"))
      result =
          fail_with(cli, EXIT_BAD_DATA, "%s: line %zu has no {}, where the name goes", path, i + 1);
  j->templates = (const char *const *)j->template_lines.items;
  j->n_templates = j->template_lines.n;
  return result;
}

/* --- prompts ---------------------------------------------------------------------------------- */

static void print_prompt(FILE *file, const char *template, const char *name, size_t length) {
  for (const char *at; (at = strstr(template, "{}")); template = at + 2)
    fprintf(file, "%.*s%.*s", (int)(at - template), template, (int)length, name);
  fprintf(file, "%s\n", template);
}

static void write_name(prompts_job *j, const prompt_class *c, const char *name, size_t length) {
  for (size_t t = 0; t < j->n_templates; t++) {
    print_prompt(j->out.file, j->templates[t], name, length);
    if (j->labels.file) fprintf(j->labels.file, "%s\n", c->label);
    j->n_prompts++;
  }
}

/* The first of several names, or with --all-names each. */
static void write_class(prompts_job *j, const prompt_class *c) {
  for (const char *name = c->names; *name;) {
    size_t length = c->whole ? strlen(name) : strcspn(name, ","), end = length;
    while (end > 0 && is_space(name[end - 1])) end--;
    if (end > 0) write_name(j, c, name, end);
    if (end > 0 && !j->cli->args.all_names) return;
    name += length + (name[length] == ',');
    while (is_space(*name)) name++;
  }
}

static int write_prompts(prompts_job *j) {
  cli_run *cli = j->cli;
  const cli_args *a = &cli->args;
  int result = out_file_open(cli, &j->out, a->output);
  if (result == EXIT_OK && a->label_output)
    result = out_file_open(cli, &j->labels, a->label_output);
  if (result != EXIT_OK) return result;
  for (size_t k = 0; k < j->n_classes; k++) write_class(j, &j->classes[k]);
  result = out_file_finish(cli, &j->out);
  if (result == EXIT_OK && a->label_output) result = out_file_commit(cli, &j->labels);
  if (result == EXIT_OK) result = out_file_commit(cli, &j->out);
  if (result == EXIT_OK && !is_stdout(a->output))
    say_written(cli, a->output, "%s of %s", show_counted(j->n_prompts, "prompt", "prompts").text,
                show_counted(j->n_classes, "class", "classes").text);
  return result;
}

static int check_options(cli_run *cli) {
  const cli_args *a = &cli->args;
  int result = is_stdout(a->output) ? EXIT_OK : check_output(cli, a->output);
  if (a->all_names && !a->label_output)
    return fail_usage(cli, "--all-names needs --label-output FILE, since classes then have "
                           "different numbers of prompts");
  if (a->repeats && a->names)
    return fail_usage(cli, "--repeats has no meaning with --names, where names may repeat and "
                           "classes may not");
  if (result == EXIT_OK && a->label_output) {
    result = check_output(cli, a->label_output);
    if (result == EXIT_OK && !is_stdout(a->output))
      result = check_outputs_differ(cli, a->output, a->label_output);
  }
  return result;
}

static int run(cli_run *cli) {
  prompts_job j;
  memset(&j, 0, sizeof j);
  j.cli = cli;
  int result = check_options(cli);
  if (result == EXIT_OK) result = read_templates(&j);
  if (result == EXIT_OK) result = read_classes(&j);
  if (result == EXIT_OK) result = write_prompts(&j);
  out_file_abort(&j.out);
  out_file_abort(&j.labels);
  free(j.classes);
  lines_free(&j.class_lines);
  lines_free(&j.name_lines);
  lines_free(&j.template_lines);
  return result;
}

static const cli_group own_options = {
    "Options",
    (const cli_option[]){
        {"classes", 0, OPTION_TEXT, offsetof(cli_args, classes), OPTION_REQUIRED, "FILE",
         "class names, one a line", 0, 0, NULL},
        {"templates", 0, OPTION_TEXT, offsetof(cli_args, templates), OPTION_REQUIRED, "FILE",
         "templates, one a line, with {} for the name; or builtin1, builtin7, builtin80", 0, 0,
         NULL},
        {"names", 0, OPTION_TEXT, offsetof(cli_args, names), 0, "FILE",
         "lines 'CLASS<tab>NAME, ...', such as WordNet's: --classes are looked up here", 0, 0,
         NULL},
        {"all-names", 0, OPTION_FLAG, offsetof(cli_args, all_names), 0, NULL,
         "prompts for each of several names of a class, instead of the first", 0, 0, NULL},
        {"repeats", 0, OPTION_FLAG, offsetof(cli_args, repeats), 0, NULL,
         "several classes may have the same name", 0, 0, NULL},
        {"label-output", 0, OPTION_TEXT, offsetof(cli_args, label_output), 0, "FILE",
         "also write the class of each prompt, one a line, for --labels", 0, 0, NULL},
        {"output", 'o', OPTION_TEXT, offsetof(cli_args, output), 0, "FILE",
         "where to write (default: standard output)", 0, 0, NULL},
        {0}}};

const cli_command prompts_command = {
    .name = "prompts",
    .operands = "",
    .summary = "make prompts out of class names and templates",
    .details =
        "Writes one prompt a line, class by class: the first class with all templates, then the "
        "second one. Embed the lines with the text encoder that belongs to the images, in this "
        "order, and 'koofu text-prototypes --classes FILE' makes a prototype of each class.\n\n"
        "Of several names of a class, separated by commas, the first is taken; --all-names makes "
        "prompts of each, and --label-output says which class each prompt belongs to. A name in "
        "quotation marks is taken whole, and a comma behind it does not count. '#' at the "
        "beginning of a line or behind a blank begins a comment. An empty line is an error; so is "
        "a name that is there twice, unless --repeats allows it: such classes cannot be told "
        "apart by text.\n\n"
        "builtin1 is 'image of {}', the paper's single prompt. builtin7 are the seven templates of "
        "OpenAI's notebook for ImageNet, which are likely, not certainly, those of the paper. "
        "builtin80 are the 80 of the same notebook.",
    .groups = (const cli_group *const[]){&own_options, NULL},
    .examples =
        (const cli_example[]){
            {"One prompt for each class",
             "koofu prompts --classes names.txt --templates builtin1 -o prompts.txt"},
            {"ImageNet's classes by WordNet's names, seven prompts each (synset_7)",
             "koofu prompts --classes imagenet_synsets.txt --names node_names.txt --templates "
             "builtin7 -o prompts.txt"},
            {"Modified names, two of which are there twice (mod_7)",
             "koofu prompts --classes modified_classnames.txt --repeats --templates builtin7 -o "
             "prompts.txt"},
            {NULL, NULL}},
    .run = run,
};
