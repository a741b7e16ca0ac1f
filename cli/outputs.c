/* outputs.c - checks outputs before the work rather than after it, and says what was written. */
#include "sink.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
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
  return fail_with(cli, EXIT_USAGE, "%s is both an input and the output", path);
}

static int same_file(const struct stat *output, const char *input) {
  struct stat info;
  return input && stat(input, &info) == 0 && S_ISREG(info.st_mode) &&
         info.st_dev == output->st_dev && info.st_ino == output->st_ino;
}

static int same_as_one_of(const struct stat *output, const cli_list *inputs) {
  int same = 0;
  for (size_t i = 0; i < inputs->n && !same; i++) same = same_file(output, inputs->items[i]);
  return same;
}

/* Whether an output is a file that the command line names as an input. Files that folders and
 * patterns stand for are known once the data are open: check_replaces_no_data. */
static int is_named_input(const cli_run *cli, const struct stat *output) {
  const cli_args *a = &cli->args;
  int found = same_as_one_of(output, &a->operands);
  option_walk walk = {.command = cli->command};
  for (const cli_option *o; !found && (o = option_next(&walk, NULL)) != NULL;) {
    const void *at = (const char *)a + o->at;
    if (o->input && o->kind == OPTION_TEXT) found = same_file(output, *(const char *const *)at);
    if (o->input && o->kind == OPTION_LIST) found = same_as_one_of(output, at);
  }
  return found;
}

int check_replaces_no_data(cli_run *cli, const kf_data *data, const char *path) {
  return !is_stdout(path) && kf_data_reads(data, path) ? fail_both(cli, path) : EXIT_OK;
}

/* --- outputs that cannot be written ----------------------------------------------------------- */

int check_output(cli_run *cli, const char *path) {
  if (is_stdout(path)) return fail_usage(cli, "the output needs a file name, not '-'");
  struct stat info;
  if (stat(path, &info) == 0 && is_named_input(cli, &info)) return fail_both(cli, path);
  kf_output *output;
  TRY(result_of(cli, kf_output_open(cli->ctx, path, &output)));
  kf_output_free(output);
  return EXIT_OK;
}

int check_text_output(cli_run *cli, const char *path) {
  return is_stdout(path) ? EXIT_OK : check_output(cli, path);
}

int check_data_set(cli_run *cli, const char *path) {
  TRY(check_output(cli, path));
  if (ends_with(path, ".safetensors") || ends_with(path, ".parquet")) return EXIT_OK;
  return fail_usage(cli, "%s: the name of a data set must end in .safetensors or .parquet", path);
}

int check_safetensors(cli_run *cli, const char *path, const char *what) {
  TRY(check_output(cli, path));
  if (ends_with(path, ".safetensors")) return EXIT_OK;
  return fail_usage(cli, "%s: the name of a %s must end in .safetensors", path, what);
}

/* --- two outputs ------------------------------------------------------------------------------ */

/* Length of the folder part of a path, with its slash; 0 without one. */
static size_t folder_length(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? (size_t)(slash - path) + 1 : 0;
}

/* Where a path leads: a folder and a name in it. Links are followed even to a file that does not
 * exist yet, since the first output may be about to create it. */
typedef struct place {
  struct stat folder;
  char name[PATH_MAX];
} place;

enum { MOST_LINKS = 40 };

/* Replaces a path that is a link by what it points to. 0: it is not a link. */
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

/* -1: there is no such folder, or too many links. */
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

/* --- what was written ------------------------------------------------------------------------- */

void say_written(cli_run *cli, const char *path, const char *format, ...) {
  char text[512];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  progress_end(cli);
  say(cli, "wrote %s: %s (%s)", path, text, show_seconds(now() - cli->begun).text);
}

/* The type of the rows in a file of ours: that of --dtype, unless they were added to others. */
static const char *dtype_written(const cli_run *cli, const kf_info *info) {
  for (size_t i = 0; i < info->n_tensors && strcmp(info->kind, "gallery") == 0; i++)
    if (strcmp(info->tensors[i].name, "embeddings") == 0)
      return strcmp(info->tensors[i].dtype, "BF16") == 0  ? "bf16"
             : strcmp(info->tensors[i].dtype, "F16") == 0 ? "f16"
                                                          : "f32";
  return kf_dtype_name((kf_dtype)cli->args.dtype);
}

/* By the file itself, so rows that were left out are not counted. */
void say_data_written(cli_run *cli, const char *path) {
  kf_info *info;
  if (cli->args.common.quiet || kf_info_read(cli->ctx, path, &info) != KF_OK) return;
  say_written(cli, path, "%s of %u %s, %s", show_counted(info->rows, "row", "rows").text,
              info->dim_out ? info->dim_out : info->dim, dtype_written(cli, info),
              info->classes ? show_counted(info->classes, "class", "classes").text : "no labels");
  kf_info_free(info);
}

int save_data(cli_run *cli, const kf_data *data, const char *path) {
  kf_status status = kf_data_save(cli->ctx, data, (kf_dtype)cli->args.dtype, path);
  if (status == KF_OK) say_data_written(cli, path);
  return result_of(cli, status);
}

int save_stats(cli_run *cli, const kf_stats *stats, const char *path) {
  kf_status status = kf_stats_save(cli->ctx, stats, path);
  if (status == KF_OK)
    say_written(cli, path, "%s of %u, %s", show_counted(kf_stats_rows(stats), "row", "rows").text,
                kf_stats_dim(stats),
                show_counted(kf_stats_classes(stats), "class", "classes").text);
  return result_of(cli, status);
}
