/* args.c - parses a command line by the tables. */
#include "options.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct reader {
  const cli_command *command;
  char **word; /* argv, NULL-terminated */
  cli_args *args;
  char *message;
  size_t size;
} reader;

#define FAIL(r, ...) (snprintf((r)->message, (r)->size, __VA_ARGS__), -1)

const cli_option *option_next(option_walk *walk, const cli_group **group) {
  for (;;) {
    const cli_group *const *groups = walk->command->groups;
    const cli_group *now = groups ? groups[walk->group] : NULL;
    int last = now == NULL;
    if (last) now = &global_options;
    const cli_option *found = &now->options[walk->index];
    if (found->name) {
      walk->index++;
      if (group) *group = now;
      return found;
    }
    if (last) return NULL;
    walk->group++;
    walk->index = 0;
  }
}

const cli_option *find_option(const cli_command *command, const char *name, size_t length) {
  option_walk walk = {.command = command};
  for (const cli_option *o; (o = option_next(&walk, NULL)) != NULL;)
    if (strlen(o->name) == length && memcmp(o->name, name, length) == 0) return o;
  return NULL;
}

shown show_option(const cli_option *o) {
  shown out;
  if (o->letter)
    snprintf(out.text, sizeof out.text, "-%c", o->letter);
  else
    snprintf(out.text, sizeof out.text, "--%s", o->name);
  return out;
}

static const cli_option *find_letter(const cli_command *command, char letter) {
  option_walk walk = {.command = command};
  for (const cli_option *o; (o = option_next(&walk, NULL)) != NULL;)
    if (o->letter == letter) return o;
  return NULL;
}

static int no_such_option(reader *r, const char *name, size_t length) {
  char typed[64];
  snprintf(typed, sizeof typed, "%.*s", (int)(length < 60 ? length : 60), name);
  suggestion guess = {.typed = typed};
  option_walk walk = {.command = r->command};
  for (const cli_option *o; (o = option_next(&walk, NULL)) != NULL;)
    if (!o->hidden) suggest(&guess, o->name);
  char letter = guess.synonym ? find_option(r->command, guess.best, strlen(guess.best))->letter : 0;
  if (letter) return FAIL(r, "there is no option '--%s' (did you mean '-%c'?)", typed, letter);
  if (guess.best)
    return FAIL(r, "there is no option '--%s' (did you mean '--%s'?)", typed, guess.best);
  return FAIL(r, "there is no option '--%s'", typed);
}

int parse_number(const char *option, const char *text, int64_t low, int64_t high, int64_t *out,
                 char *message, size_t size) {
  const char *digits = text[0] == '-' ? text + 1 : text;
  int plain = *digits != '\0' && strspn(digits, "0123456789") == strlen(digits);
  errno = 0;
  long long value = plain ? strtoll(text, NULL, 10) : 0;
  if (plain && errno == 0 && value >= low && value <= high) {
    *out = value;
    return 0;
  }
  snprintf(message, size, "%s must be a whole number from %lld to %lld, not '%.60s'", option,
           (long long)low, (long long)high, text);
  return -1;
}

int parse_choice(const char *option, const char *text, const char *const *choices, char *message,
                 size_t size) {
  suggestion guess = {.typed = text};
  int used = snprintf(message, size, "%s must be ", option);
  size_t at = used > 0 ? (size_t)used : 0;
  for (int i = 0; choices[i]; i++) {
    if (strcmp(choices[i], text) == 0) return i;
    suggest(&guess, choices[i]);
    const char *joint = i == 0 ? "" : choices[i + 1] ? ", " : " or ";
    if (at < size) at += (size_t)snprintf(message + at, size - at, "%s%s", joint, choices[i]);
  }
  if (at < size) at += (size_t)snprintf(message + at, size - at, ", not '%.60s'", text);
  if (at < size && guess.best)
    snprintf(message + at, size - at, " (did you mean '%s'?)", guess.best);
  return -1;
}

/* An empty message: a sentence would be printed as a usage error. */
static int fail_memory(const reader *r) {
  r->message[0] = '\0';
  return -1;
}

static int list_add(reader *r, cli_list *list, const char *item) {
  const char **items = realloc(list->items, (list->n + 1) * sizeof *items);
  if (!items) return fail_memory(r);
  list->items = items;
  list->items[list->n++] = item;
  return 0;
}

/* Inserts a number in order, unless it is already there. */
static int numbers_add(reader *r, cli_numbers *numbers, uint32_t number) {
  size_t at = 0;
  while (at < numbers->n && numbers->items[at] < number) at++;
  if (at < numbers->n && numbers->items[at] == number) return 0;
  uint32_t *items = realloc(numbers->items, (numbers->n + 1) * sizeof *items);
  if (!items) return fail_memory(r);
  memmove(items + at + 1, items + at, (numbers->n - at) * sizeof *items);
  items[at] = number;
  numbers->items = items;
  numbers->n++;
  return 0;
}

/* "1,10,15", in any order. */
static int store_numbers(reader *r, const cli_option *o, const char *option, const char *text) {
  cli_numbers *numbers = (cli_numbers *)(void *)((char *)r->args + o->at);
  numbers->n = 0;
  numbers->automatic = 0;
  for (;;) {
    size_t length = strcspn(text, ",");
    char piece[64];
    snprintf(piece, sizeof piece, "%.*s", (int)(length < 60 ? length : 60), text);
    int64_t number;
    if (parse_number(option, piece, o->low, o->high, &number, r->message, r->size)) return -1;
    if (numbers_add(r, numbers, (uint32_t)number)) return -1;
    if (!text[length]) return 0;
    text += length + 1;
  }
}

int parse_real(const char *text, double *out) {
  char *end = NULL;
  int plain = *text && strspn(text, "0123456789.eE+-") == strlen(text);
  *out = plain ? strtod(text, &end) : 0;
  return plain && !*end && isfinite(*out);
}

static int store_real(reader *r, const cli_option *o, const char *option, const char *text) {
  cli_real *real = (cli_real *)(void *)((char *)r->args + o->at);
  real->given = parse_real(text, &real->value) && (o->any || real->value > 0);
  if (real->given) return 0;
  return FAIL(r, "%s must be a number%s, not '%.60s'", option, o->any ? "" : " above 0", text);
}

static int store_auto(const cli_option *o, void *at) {
  if (o->kind == OPTION_NUMBER)
    *(cli_number *)at = (cli_number){.given = 1, .automatic = 1};
  else
    *(cli_numbers *)at = (cli_numbers){.items = ((cli_numbers *)at)->items, .automatic = 1};
  return 0;
}

/* Stores the value of an option that the user typed as `option`; text is "" without a value. A
 * list collects its values; otherwise the last one counts, so a script can append options to a
 * command line. */
static int store(reader *r, const cli_option *o, const char *option, const char *text) {
  void *at = (char *)r->args + o->at;
  if (o->automatic && strcmp(text, "auto") == 0) return store_auto(o, at);
  switch (o->kind) {
  case OPTION_FLAG: *(int *)at = 1; return 0;
  case OPTION_COUNT: ++*(int *)at; return 0;
  case OPTION_TEXT:
    if (!*text && !o->any) return FAIL(r, "%s needs a value that is not empty", option);
    *(const char **)at = text;
    return 0;
  case OPTION_LIST:
    if (!*text) return FAIL(r, "%s needs a value that is not empty", option);
    return list_add(r, at, text);
  case OPTION_NUMBER: {
    cli_number *number = at;
    *number = (cli_number){.given = 1};
    return parse_number(option, text, o->low, o->high, &number->value, r->message, r->size);
  }
  case OPTION_NUMBERS: return store_numbers(r, o, option, text);
  case OPTION_REAL: return store_real(r, o, option, text);
  case OPTION_CHOICE: {
    int position = parse_choice(option, text, o->choices, r->message, r->size);
    *(int *)at = (int)o->low + position;
    return position < 0 ? -1 : 0;
  }
  }
  return FAIL(r, "%s has an unknown kind", option);
}

/* Takes the next word as a value, unless it is an option of this command. */
static const char *next_value(reader *r) {
  const char *word = r->word[1];
  if (!word) return NULL;
  if (strncmp(word, "--", 2) == 0 && find_option(r->command, word + 2, strcspn(word + 2, "=")))
    return NULL;
  r->word++;
  return word;
}

static int read_long(reader *r) {
  const char *name = *r->word + 2;
  size_t length = strcspn(name, "=");
  const cli_option *o = find_option(r->command, name, length);
  if (!o) return no_such_option(r, name, length);
  const char *value = name[length] == '=' ? name + length + 1 : NULL;
  char option[64];
  snprintf(option, sizeof option, "--%s", o->name);
  if (!o->value) return value ? FAIL(r, "%s takes no value", option) : store(r, o, option, "");
  if (!value) value = next_value(r);
  if (!value) return FAIL(r, "%s needs a value: %s %s", option, option, o->value);
  return store(r, o, option, value);
}

/* A word of single letters: -v, -qv, -oFILE, -o FILE. */
static int read_letters(reader *r) {
  for (const char *letter = *r->word + 1; *letter; letter++) {
    const cli_option *o = find_letter(r->command, *letter);
    if (!o) return FAIL(r, "there is no option '-%.1s'", letter);
    const char option[] = {'-', *letter, '\0'};
    if (!o->value) {
      if (store(r, o, option, "")) return -1;
      continue;
    }
    const char *value = letter[1] ? letter + 1 : next_value(r);
    if (!value) return FAIL(r, "%s needs a value: %s %s", option, option, o->value);
    return store(r, o, option, value);
  }
  return 0;
}

/* The least and largest number of operands of a command. */
static void count_operands(const char *operands, size_t *least, size_t *most) {
  *least = *most = 0;
  for (const char *word = operands ? operands : ""; *word; word += strspn(word, " ")) {
    size_t length = strcspn(word, " ");
    *least += *word != '[';
    if (*most < SIZE_MAX) ++*most;
    if (memmem(word, length, "...", 3)) *most = SIZE_MAX;
    word += length;
  }
}

/* "DATA...|STATS" is missing: "DATA or STATS". */
static int fail_operand(reader *r, size_t index) {
  const char *word = r->command->operands;
  for (; index > 0; index--) word = strchr(word, ' ') + 1;
  char text[64] = "";
  for (size_t n = 0, end = strcspn(word, " "); end > 0; word++, end--) {
    if (*word == '.') continue;
    n += (size_t)snprintf(text + n, sizeof text - n, *word == '|' ? " or " : "%c", *word);
  }
  return FAIL(r, "missing argument: %s", text);
}

static int check_complete(reader *r) {
  const cli_command *command = r->command;
  const cli_list *operands = &r->args->operands;
  size_t least, most;
  count_operands(command->operands, &least, &most);
  if (operands->n < least) return fail_operand(r, operands->n);
  if (operands->n > most) return FAIL(r, "unexpected argument '%.200s'", operands->items[most]);
  option_walk walk = {.command = command};
  for (const cli_option *o; (o = option_next(&walk, NULL)) != NULL;) {
    if (o->required && !*(const char **)((char *)r->args + o->at))
      return FAIL(r, "missing option %s %s", show_option(o).text, o->value);
  }
  return 0;
}

int args_parse(const cli_command *command, int argc, char **argv, cli_args *out, char *message,
               size_t size) {
  reader r = {.command = command, .word = argv, .args = out, .message = message, .size = size};
  int options = 1;
  for (; r.word < argv + argc; r.word++) {
    const char *word = *r.word;
    int failed;
    if (options && strcmp(word, "--") == 0) {
      options = 0;
      continue;
    }
    if (options && strncmp(word, "--", 2) == 0)
      failed = read_long(&r);
    else if (options && word[0] == '-' && word[1])
      failed = read_letters(&r);
    else if (!*word)
      failed = FAIL(&r, "an argument is empty");
    else
      failed = list_add(&r, &out->operands, word);
    if (failed) return -1;
  }
  return out->common.help || out->common.long_help ? 0 : check_complete(&r);
}

void args_free(const cli_command *command, cli_args *args) {
  option_walk walk = {.command = command};
  free(args->operands.items);
  for (const cli_option *o; command && (o = option_next(&walk, NULL)) != NULL;) {
    void *at = (char *)args + o->at;
    if (o->kind == OPTION_LIST) free(((cli_list *)at)->items);
    if (o->kind == OPTION_NUMBERS) free(((cli_numbers *)at)->items);
  }
}
