/* steps.c - what many commands do: open data, load a model, read statistics, say what was written.
 */
#include "cli.h"

#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>

/* --- inputs ----------------------------------------------------------------------------------- */

int data_options_given(const cli_args *a) {
  return a->labels.n || a->classes || a->tensor || a->label_tensor || a->skip_bad || a->only;
}

static int open_some(cli_run *cli, const char *const *paths, size_t n, const cli_list *label_files,
                     const char *only, label_use use, kf_data **out) {
  const cli_args *a = &cli->args;
  if (a->allow_unknown && !a->classes)
    return fail_usage(cli, "--skip-unknown needs --classes FILE");
  cli_strings labels;
  if (expand_labels(label_files, &labels)) return fail_with(cli, EXIT_INTERNAL, "out of memory");
  kf_data_options options = {
      .labels = (const char *const *)labels.items,
      .n_labels = labels.n,
      .classes = a->classes,
      .tensor = a->tensor,
      .label_tensor = a->label_tensor,
      .inner_labels = use == LABELS_IGNORED ? KF_OFF : KF_ON,
      .skip_bad = a->skip_bad,
      .allow_unlabelled = a->allow_unlabelled || use == LABELS_WANTED,
      .allow_unknown = a->allow_unknown || (use == LABELS_WANTED && a->classes),
      .only = only,
  };
  kf_status status = kf_data_open(cli->ctx, paths, n, &options, out);
  strings_free(&labels);
  if (status != KF_OK) return fail(cli, status);
  int result = check_replaces_no_data(cli, *out, a->output);
  if (result == EXIT_OK) return EXIT_OK;
  kf_data_free(*out);
  *out = NULL;
  return result;
}

int open_rows(cli_run *cli, const char *const *paths, size_t n, const cli_list *label_files,
              label_use use, kf_data **out) {
  return open_some(cli, paths, n, label_files, NULL, use, out);
}

/* --only is about the rows that a command is for, not about test rows beside them. */
int open_data(cli_run *cli, size_t first, label_use use, kf_data **out) {
  const cli_list *operands = &cli->args.operands;
  return open_some(cli, operands->items + first, operands->n - first, &cli->args.labels,
                   cli->args.only, use, out);
}

int open_test(cli_run *cli, kf_data **out) {
  const cli_args *a = &cli->args;
  if (!a->test.n && a->test_labels.n) return fail_usage(cli, "--test-labels needs --test DATA");
  if (!a->test.n) return EXIT_OK;
  return open_rows(cli, a->test.items, a->test.n, &a->test_labels, LABELS_WANTED, out);
}

/* What to do with a file of one kind where a model or a gallery is wanted. */
static const char *advice(const char *kind, const char *wanted) {
  int is_model = strcmp(kind, "model") == 0, gallery_wanted = strcmp(wanted, "gallery") == 0;
  if (gallery_wanted)
    return is_model ? "make one with 'koofu index DATA --model MODEL'"
                    : "make one with 'koofu index DATA'";
  if (strcmp(kind, "gallery") == 0)
    return "'koofu classify' and 'koofu eval' take it behind --gallery";
  return strcmp(kind, "statistics") == 0 ? "make one with 'koofu fit STATISTICS'"
                                         : "make one with 'koofu fit DATA'";
}

/* Whether a file is sound, but of another kind; says so. */
static int is_another_kind(cli_run *cli, const char *path, const char *wanted) {
  kf_info *info;
  if (kf_info_read(cli->ctx, path, &info) != KF_OK) return 0;
  const char *kind = info->kind;
  int other = strcmp(kind, wanted) != 0;
  int one = !strcmp(kind, "model") || !strcmp(kind, "gallery") || !strcmp(kind, "data set");
  if (other)
    fail_with(cli, EXIT_BAD_DATA, "%s: %s %s, not a %s; %s", path, one ? "is a" : "holds", kind,
              wanted, advice(kind, wanted));
  kf_info_free(info);
  return other;
}

int fail_load(cli_run *cli, kf_status status, const char *path, const char *wanted) {
  char message[10240];
  snprintf(message, sizeof message, "%s", kf_errmsg(cli->ctx));
  if (status != KF_ERR_DATA) return fail(cli, status);
  if (!is_another_kind(cli, path, wanted)) fail_with(cli, EXIT_BAD_DATA, "%s", message);
  return EXIT_BAD_DATA;
}

int load_model(cli_run *cli, const char *path, kf_model **out) {
  kf_status status = kf_model_load(cli->ctx, path, out);
  return status == KF_OK ? EXIT_OK : fail_load(cli, status, path, "model");
}

static void say_left_out(cli_run *cli, const kf_data *data, const kf_stats *stats) {
  uint64_t out = kf_data_rows(data) - kf_stats_rows(stats);
  uint64_t unlabelled = kf_data_unlabelled(data);
  if (out > 0)
    say(cli, "left out %s of %s: %s without a label, %s bad", show_count(out).text,
        show_counted(kf_data_rows(data), "row", "rows").text, show_count(unlabelled).text,
        show_count(out - unlabelled).text);
}

static int exponent_alone(cli_run *cli) {
  if (!cli->args.exponent.given || cli->args.no_normalize) return EXIT_OK;
  return fail_usage(cli, "--exponent needs --no-normalize");
}

kf_stats_options stats_options_of(const cli_args *a) {
  return (kf_stats_options){.normalize = a->no_normalize ? KF_OFF : KF_ON,
                            .exponent = (int)a->exponent.value,
                            .fixed_exponent = a->exponent.given};
}

int load_stats(cli_run *cli, const char *path, kf_stats **out) {
  kf_status status = kf_stats_load(cli->ctx, path, out);
  return status == KF_OK ? EXIT_OK : fail(cli, status);
}

int data_stats(cli_run *cli, kf_data **rows, kf_stats **out) {
  kf_stats_options options = stats_options_of(&cli->args);
  kf_data *data = NULL;
  int result = exponent_alone(cli);
  if (result == EXIT_OK) result = open_data(cli, 0, LABELS_NEEDED, &data);
  if (result != EXIT_OK) return result;
  kf_status status = kf_stats_new_from_data(cli->ctx, data, &options, out);
  if (status == KF_OK)
    say_left_out(cli, data, *out);
  else
    result = fail(cli, status);
  if (rows && result == EXIT_OK)
    *rows = data;
  else
    kf_data_free(data);
  return result;
}

static int is_regular(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

/* Looks into a single .safetensors file; everything else is data. */
int is_stats_file(cli_run *cli, int *yes) {
  const cli_list *operands = &cli->args.operands;
  *yes = 0;
  if (operands->n != 1 || !ends_with(operands->items[0], ".safetensors")) return EXIT_OK;
  if (!is_regular(operands->items[0])) return EXIT_OK;
  kf_info *info;
  kf_status status = kf_info_read(cli->ctx, operands->items[0], &info);
  if (status != KF_OK) return fail(cli, status);
  *yes = strcmp(info->kind, "statistics") == 0;
  kf_info_free(info);
  return EXIT_OK;
}

int read_stats(cli_run *cli, kf_data **rows, kf_stats **out) {
  const cli_args *a = &cli->args;
  int ready;
  int result = is_stats_file(cli, &ready);
  if (result != EXIT_OK) return result;
  if (!ready) return data_stats(cli, rows, out);
  if (data_options_given(a) || a->allow_unlabelled || a->allow_unknown || a->no_normalize ||
      a->exponent.given)
    return fail_usage(cli,
                      "%s is a statistics file, for which options on rows and labels have no "
                      "meaning",
                      a->operands.items[0]);
  kf_status status = kf_stats_load(cli->ctx, a->operands.items[0], out);
  return status == KF_OK ? EXIT_OK : fail(cli, status);
}

kf_synth_options world_of(const cli_args *a) {
  return (kf_synth_options){.seed = (uint64_t)a->seed.value,
                            .classes = (uint32_t)a->world_classes.value,
                            .dim = (uint32_t)a->world_dim.value,
                            .per_class = (uint64_t)a->per_class.value};
}

/* --- outputs ---------------------------------------------------------------------------------- */

void say_written(cli_run *cli, const char *path, const char *format, ...) {
  char text[512];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  progress_end(cli);
  say(cli, "wrote %s: %s (%s)", path, text, show_seconds(now() - cli->begun).text);
}

/* What the file itself says, so that rows that were left out are not counted. */
void say_data_written(cli_run *cli, const char *path) {
  kf_info *info;
  if (cli->args.quiet || kf_info_read(cli->ctx, path, &info) != KF_OK) return;
  const char *rows = info->rows == 1 ? "row" : "rows";
  const char *type = kf_dtype_name((kf_dtype)cli->args.dtype);
  uint32_t dim = info->dim_out ? info->dim_out : info->dim;
  if (info->classes)
    say_written(cli, path, "%s %s of %u %s, %s", show_count(info->rows).text, rows, dim, type,
                show_counted(info->classes, "class", "classes").text);
  else
    say_written(cli, path, "%s %s of %u %s, no labels", show_count(info->rows).text, rows, dim,
                type);
  kf_info_free(info);
}

int save_stats(cli_run *cli, const kf_stats *stats, const char *path) {
  kf_status status = kf_stats_save(cli->ctx, stats, path);
  if (status != KF_OK) return fail(cli, status);
  say_written(cli, path, "%s of %u, %s", show_counted(kf_stats_rows(stats), "row", "rows").text,
              kf_stats_dim(stats), show_counted(kf_stats_classes(stats), "class", "classes").text);
  return EXIT_OK;
}
