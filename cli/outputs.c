/* outputs.c - what may be written where: said before the work rather than after it. */
#include "cli.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int is_stdout(const char *path) { return !path || strcmp(path, "-") == 0; }

int ends_with(const char *text, const char *end) {
  size_t n = strlen(text), m = strlen(end);
  return n >= m && strcmp(text + n - m, end) == 0;
}

/* --- outputs that are inputs ------------------------------------------------------------------ */

static int fail_both(cli_run *cli, const char *path) {
  return fail_with(cli, EXIT_USAGE, "%s: is both input and output", path);
}

static int same_file(const struct stat *output, const char *input) {
  struct stat info;
  return input && stat(input, &info) == 0 && S_ISREG(info.st_mode) &&
         info.st_dev == output->st_dev && info.st_ino == output->st_ino;
}

static int same_as_one_of(const struct stat *output, const char *const *inputs, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (same_file(output, inputs[i])) return 1;
  return 0;
}

/* Whether an output is a file that the command line names; -1: out of memory. */
static int is_named_input(const cli_args *a, const struct stat *output) {
  if (same_as_one_of(output, a->operands.items, a->operands.n) || same_file(output, a->classes) ||
      same_file(output, a->between) || same_file(output, a->model) || same_file(output, a->ids) ||
      same_file(output, a->gallery) || same_file(output, a->truth) ||
      same_file(output, a->truth_classes) || same_file(output, a->class_set) ||
      same_file(output, a->hierarchy) || same_file(output, a->set) || same_file(output, a->all) ||
      same_file(output, a->names) || same_file(output, a->text) ||
      same_file(output, a->templates) || same_file(output, a->list) ||
      same_file(output, a->prompts) || same_as_one_of(output, a->unknown.items, a->unknown.n) ||
      same_as_one_of(output, a->test.items, a->test.n) ||
      same_as_one_of(output, a->test_labels.items, a->test_labels.n))
    return 1;
  cli_strings labels;
  if (expand_labels(&a->labels, &labels)) return -1;
  int found = same_as_one_of(output, (const char *const *)labels.items, labels.n);
  strings_free(&labels);
  return found;
}

int check_replaces_no_data(cli_run *cli, const kf_data *data, const char *path) {
  return !is_stdout(path) && kf_data_reads(data, path) ? fail_both(cli, path) : EXIT_OK;
}

/* --- outputs that cannot be ------------------------------------------------------------------- */

/* Length of the folder part of a path, with its slash; 0 where there is none. */
static size_t folder_length(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? (size_t)(slash - path) + 1 : 0;
}

/* Whether a file can be made in the folder of `target`, to which `path` leads. */
static int check_folder(cli_run *cli, const char *path, const char *target) {
  size_t length = folder_length(target);
  char *folder = length ? strndup(target, length) : strdup(".");
  if (!folder) return fail_with(cli, EXIT_INTERNAL, "out of memory");
  struct stat info;
  int refused = stat(folder, &info) != 0 || access(folder, W_OK | X_OK) != 0;
  int code = errno;
  free(folder);
  if (!refused) return EXIT_OK;
  return fail_with(cli, EXIT_IO, "%s: cannot be created: %s", path, strerror(code));
}

int check_output(cli_run *cli, const char *path) {
  if (is_stdout(path))
    return fail_usage(cli, "the output is binary and needs a file name, not '-'");
  struct stat info;
  if (stat(path, &info) != 0) return check_folder(cli, path, path);
  if (S_ISDIR(info.st_mode))
    return fail_with(cli, EXIT_IO, "%s: is a directory where a file is expected", path);
  if (!S_ISREG(info.st_mode))
    return fail_with(cli, EXIT_IO, "%s: is not a regular file and cannot be replaced", path);
  int input = is_named_input(&cli->args, &info);
  if (input < 0) return fail_with(cli, EXIT_INTERNAL, "out of memory");
  if (input) return fail_both(cli, path);
  char target[PATH_MAX]; /* where the path is a link, its target is what is replaced */
  return check_folder(cli, path, realpath(path, target) ? target : path);
}

int check_safetensors(cli_run *cli, const char *path, const char *what) {
  int result = check_output(cli, path);
  if (result != EXIT_OK || ends_with(path, ".safetensors")) return result;
  return fail_usage(cli, "%s: the name of a %s must end in .safetensors", path, what);
}

/* --- two outputs ------------------------------------------------------------------------------ */

/* Where a path leads, as a folder and a name in it. Links are followed, also those to a file that
 * does not exist yet: the first output may be about to make it. */
typedef struct place {
  struct stat folder;
  char name[PATH_MAX];
} place;

enum { MOST_LINKS = 40 };

/* Replaces a path that is a link by what it points to: 1; 0 where it is none. */
static int follow(char path[PATH_MAX]) {
  char link[PATH_MAX];
  ssize_t length = readlink(path, link, sizeof link - 1);
  if (length < 0) return 0;
  link[length] = '\0';
  size_t folder = link[0] == '/' ? 0 : folder_length(path);
  if (folder + (size_t)length >= PATH_MAX) return 0;
  memcpy(path + folder, link, (size_t)length + 1);
  return 1;
}

/* -1: there is no such folder, or no end to the links. */
static int find_place(const char *given, place *out) {
  char path[PATH_MAX];
  if (strlen(given) >= sizeof path) return -1;
  strcpy(path, given);
  for (int links = 0; follow(path);)
    if (++links > MOST_LINKS) return -1;
  size_t length = folder_length(path);
  strcpy(out->name, path + length);
  if (length == 0)
    strcpy(path, ".");
  else
    path[length] = '\0';
  return stat(path, &out->folder);
}

int check_outputs_differ(cli_run *cli, const char *a, const char *b) {
  place one, two;
  if (!b || find_place(a, &one) != 0 || find_place(b, &two) != 0) return EXIT_OK;
  if (one.folder.st_dev != two.folder.st_dev || one.folder.st_ino != two.folder.st_ino ||
      strcmp(one.name, two.name) != 0)
    return EXIT_OK;
  return fail_usage(cli, "%s: two outputs cannot be one file", b);
}
