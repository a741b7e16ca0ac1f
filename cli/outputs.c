/* outputs.c - checks outputs before the work starts, and says what was written. */
#include "sink.h"

#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>

int is_stdout(const char *path) { return !path || strcmp(path, "-") == 0; }

int ends_with(const char *text, const char *end) {
  size_t n = strlen(text), m = strlen(end);
  return n >= m && strcmp(text + n - m, end) == 0;
}

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

/* Whether an output is a file that the command line names as an input. Files in folders and
 * patterns are known only once the data are open (check_replaces_no_data). */
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

int check_output(cli_run *cli, const char *path) {
  if (is_stdout(path)) return fail_usage(cli, "the output needs a file name, not '-'");
  struct stat info;
  if (stat(path, &info) == 0 && is_named_input(cli, &info)) return fail_both(cli, path);
  kf_output *output;
  TRY(result_of(cli, kf_output_open(cli->ctx, path, &output)));
  kf_output_free(output);
  return EXIT_OK;
}

static const char *const endings[] = {".txt",   ".tsv",     ".csv", ".json", /* as sink_format */
                                      ".jsonl", ".parquet", ".npy", ".safetensors"};

static int fail_ending(cli_run *cli, const char *path, const char *what, unsigned formats) {
  char list[128] = "";
  for (size_t i = 0, n = 0; i < COUNT_OF(endings); i++) {
    if (!(formats & 1u << i)) continue;
    const char *before = n == 0 ? "" : formats >> i > 1 ? ", " : " or ";
    n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", before, endings[i]);
  }
  return fail_usage(cli, "%s: the name of %s must end in %s", path, what, list);
}

sink_format format_of(const cli_run *cli, const char *path) {
  if (is_stdout(path)) return cli->args.json ? SINK_JSON : SINK_TEXT;
  for (size_t i = 0; i < COUNT_OF(endings); i++)
    if (ends_with(path, endings[i])) return (sink_format)i;
  const char *slash = strrchr(path, '/');
  return strchr(slash ? slash : path, '.') ? SINK_UNKNOWN : SINK_TEXT;
}

int check_format(cli_run *cli, const char *path, const char *what, unsigned formats) {
  if (path == cli->args.output && is_stdout(path) && (formats & FORMAT(SINK_TEXT))) return EXIT_OK;
  TRY(check_output(cli, path));
  return formats & 1u << format_of(cli, path) ? EXIT_OK : fail_ending(cli, path, what, formats);
}

int check_safetensors(cli_run *cli, const char *path, const char *what) {
  return check_format(cli, path, what, FORMAT(SINK_SAFETENSORS));
}

static int write_nothing(cli_run *cli, const char *path) {
  kf_output *output;
  TRY(result_of(cli, kf_output_open(cli->ctx, path, &output)));
  return result_of(cli, kf_output_commit(cli->ctx, output));
}

/* The library refuses to write a file twice in one transaction, so this tries one. */
int check_outputs_differ(cli_run *cli, const char *a, const char *b) {
  if (is_stdout(a) || is_stdout(b)) return EXIT_OK;
  TRY(result_of(cli, kf_outputs_begin(cli->ctx)));
  int result = write_nothing(cli, a);
  if (result == EXIT_OK) result = write_nothing(cli, b);
  kf_outputs_abort(cli->ctx);
  return result;
}

void say_written(cli_run *cli, const char *path, const char *format, ...) {
  char text[512];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  progress_end(cli);
  say(cli, "wrote %s: %s (%s)", path, text, show_seconds(now() - cli->begun).text);
}

/* The type of the rows in a file: that of --dtype or, in a gallery that has grown, its own. */
static const char *dtype_written(const cli_run *cli, const kf_info *info) {
  for (size_t i = 0; i < info->n_tensors && strcmp(info->kind, "gallery") == 0; i++)
    if (strcmp(info->tensors[i].name, "embeddings") == 0)
      return strcmp(info->tensors[i].dtype, "BF16") == 0  ? "bf16"
             : strcmp(info->tensors[i].dtype, "F16") == 0 ? "f16"
                                                          : "f32";
  return kf_dtype_name((kf_dtype)cli->args.dtype);
}

/* Counts the rows of the file itself, so those left out are not included. */
void say_data_written(cli_run *cli, const char *path) {
  kf_info *info;
  if (cli->args.common.quiet || kf_info_read(cli->ctx, path, &info) != KF_OK) return;
  say_written(cli, path, "%s of %u %s, %s", show_counted(info->rows, "row", "rows").text,
              info->dim_out ? info->dim_out : info->dim, dtype_written(cli, info),
              info->classes ? show_counted(info->classes, "class", "classes").text : "no labels");
  kf_info_free(info);
}

int save_stats(cli_run *cli, const kf_stats *stats, const char *path) {
  kf_status status = kf_stats_save(cli->ctx, stats, path);
  if (status == KF_OK)
    say_written(cli, path, "%s of %u, %s", show_counted(kf_stats_rows(stats), "row", "rows").text,
                kf_stats_dim(stats),
                show_counted(kf_stats_classes(stats), "class", "classes").text);
  return result_of(cli, status);
}
