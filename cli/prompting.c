/* prompting.c - class names and templates to prompts: for 'koofu prompts', which prints them, and for
 * commands that have an encoder at hand. */
#include "json.h"
#include "prompting.h"
#include "templates.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- lines of a file -------------------------------------------------------------------------- */

void lines_free(line_list *lines) {
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
    for (const unsigned char *p = (const unsigned char *)lines->items[i]; p && *p;) {
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

int read_lines(cli_run *cli, const char *path, line_list *lines) {
  size_t length = 0;
  int result = read_all(cli, path, &lines->text, &length);
  if (result == EXIT_OK) result = split_lines(cli, lines, length);
  if (result == EXIT_OK && lines->n == 0)
    result = fail_with(cli, EXIT_BAD_DATA, "%s: is empty", path);
  return result == EXIT_OK ? check_utf8(cli, path, lines) : result;
}

/* --- names ------------------------------------------------------------------------------------ */

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
static int check_classes(cli_run *cli, const prompt_set *j) {
  const cli_args *a = &cli->args;
  int by_label = a->prompts.names || (a->prompts.repeats && a->prompts.label_output);
  if (a->prompts.repeats && !by_label) return EXIT_OK;
  numbered *list = calloc(j->n_classes, sizeof *list);
  if (!list) return fail(cli, KF_ERR_MEM);
  for (size_t k = 0; j->classes[k].names; k++) {
    const prompt_class *c = &j->classes[k];
    list[k] = (numbered){c->label, by_label ? strlen(c->label) : first_name(c), k + 1, NULL};
  }
  int result =
      check_repeats(cli, a->data.classes, list, j->n_classes, by_label ? "" : j->repeats_advice);
  free(list);
  return result;
}

/* "CLASS<tab>NAMES": ends the class and returns the names; NULL: there is no tab. */
static char *behind_tab(char *line) {
  char *tab = strchr(line, '\t');
  if (tab) *tab = '\0';
  return tab ? tab + 1 : NULL;
}

static int find_names(cli_run *cli, const prompt_set *j, const numbered *known, size_t n) {
  for (size_t k = 0; j->classes[k].label; k++) { /* an empty one is the last */
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
                       cli->args.prompts.names, wanted.text, cli->args.data.classes, k + 1);
    int result =
        read_name(cli, cli->args.prompts.names, known[low].line, known[low].names, &j->classes[k]);
    if (result != EXIT_OK) return result;
  }
  return EXIT_OK;
}

/* --names: the lines of --classes are looked up there. */
static int look_up(cli_run *cli, prompt_set *j) {
  line_list *lines = &j->name_lines;
  int result = read_lines(cli, cli->args.prompts.names, lines);
  numbered *known = calloc(lines->n + 1, sizeof *known);
  if (!known) return fail(cli, KF_ERR_MEM);
  for (size_t i = 0; result == EXIT_OK && lines->items[i]; i++) {
    char *names = behind_tab(lines->items[i]);
    if (!names)
      result = fail_with(cli, EXIT_BAD_DATA, "%s: line %zu has no tab behind the class",
                         cli->args.prompts.names, i + 1);
    known[i] = (numbered){lines->items[i], strlen(lines->items[i]), i + 1, names};
  }
  if (result == EXIT_OK) result = check_repeats(cli, cli->args.prompts.names, known, lines->n, "");
  if (result == EXIT_OK) result = find_names(cli, j, known, lines->n);
  free(known);
  return result;
}

static int read_classes(cli_run *cli, prompt_set *j) {
  int result = read_lines(cli, cli->args.data.classes, &j->class_lines);
  if (result != EXIT_OK) return result;
  j->classes = calloc(j->class_lines.n + 1, sizeof *j->classes);
  if (!j->classes) return fail(cli, KF_ERR_MEM);
  for (size_t k = 0; j->class_lines.items[k]; k++) {
    prompt_class *c = &j->classes[k];
    if (strchr(j->class_lines.items[k], '\t'))
      return fail_with(cli, EXIT_BAD_DATA,
                       "%s: line %zu holds a tab; lines 'CLASS<tab>NAME' go behind --names",
                       cli->args.data.classes, k + 1);
    result = read_name(cli, cli->args.data.classes, k + 1, j->class_lines.items[k], c);
    if (result != EXIT_OK) return result;
    c->label = c->names;
    j->n_classes++;
  }
  result = check_classes(cli, j);
  return result == EXIT_OK && cli->args.prompts.names ? look_up(cli, j) : result;
}

/* --- templates -------------------------------------------------------------------------------- */

int prompts_templates(cli_run *cli, const char *path, prompt_set *j) {
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

int prompts_read(cli_run *cli, const char *templates, prompt_set *out) {
  int result = prompts_templates(cli, templates, out);
  return result == EXIT_OK ? read_classes(cli, out) : result;
}

void prompts_free(prompt_set *set) {
  free(set->classes);
  lines_free(&set->class_lines);
  lines_free(&set->name_lines);
  lines_free(&set->template_lines);
}

void print_prompt(FILE *file, const char *template, const char *name, size_t length) {
  for (const char *at; (at = strstr(template, "{}")); template = at + 2)
    fprintf(file, "%.*s%.*s", (int)(at - template), template, (int)length, name);
  fputs(template, file);
}

/* The first of several names, or each. */
static void use_class(const prompt_set *set, size_t k, int all_names, prompt_fn use,
                      void *argument) {
  const prompt_class *c = &set->classes[k];
  for (const char *name = c->names; *name;) {
    size_t length = c->whole ? strlen(name) : strcspn(name, ","), end = length;
    while (end > 0 && is_space(name[end - 1])) end--;
    for (size_t t = 0; end > 0 && t < set->n_templates; t++)
      use(argument, k, set->templates[t], name, end);
    if (end > 0 && !all_names) return;
    name += length + (name[length] == ',');
    while (is_space(*name)) name++;
  }
}

void prompts_each(const prompt_set *set, int all_names, prompt_fn use, void *argument) {
  for (size_t k = 0; k < set->n_classes; k++) use_class(set, k, all_names, use, argument);
}

/* --- names of folders ------------------------------------------------------------------------- */

/* "n01440764_tench" and "017.Cardinal" begin with a number of their own, which is no word; a name that
 * is nothing else is left as it is. */
static const char *behind_number(const char *name) {
  const char *c = name;
  int wordnet = *c == 'n' && strspn(c + 1, "0123456789") == 8;
  if (wordnet) c++;
  size_t digits = strspn(c, "0123456789");
  c += digits;
  size_t marks = strspn(c, wordnet ? "_- " : "._- ");
  return digits && marks && isalpha((unsigned char)c[marks]) ? c + marks : name;
}

/* Underscores are blanks. */
static void copy_spoken(const char *name, char *out) {
  for (const char *c = behind_number(name); *c; c++) {
    int blank = *c == '_' || is_space(*c);
    if (!blank || (out[0] && out[strlen(out) - 1] != ' ')) {
      size_t n = strlen(out);
      out[n] = blank ? ' ' : *c;
      out[n + 1] = '\0';
    }
  }
  trim(out);
  if (!*out) strcpy(out, name);
}

int prompts_of_folders(cli_run *cli, const char *const *names, uint32_t n, prompt_set *out) {
  size_t bytes = 0;
  for (uint32_t k = 0; k < n; k++) bytes += strlen(names[k]) + 1;
  out->class_lines.text = calloc(bytes ? bytes : 1, 1);
  out->classes = calloc((size_t)n + 1, sizeof *out->classes);
  if (!out->class_lines.text || !out->classes) return fail(cli, KF_ERR_MEM);
  char *at = out->class_lines.text;
  for (uint32_t k = 0; k < n; k++, at += strlen(names[k - 1]) + 1) {
    copy_spoken(names[k], at);
    out->classes[k] = (prompt_class){.label = names[k], .names = at, .whole = 1};
  }
  out->n_classes = n;
  return EXIT_OK;
}
