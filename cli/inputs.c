/* inputs.c - opens data sets, loads models, and reads or computes statistics. */
#include "inputs.h"
#include "sink.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- files of a rank -------------------------------------------------------------------------- */

/* A path with the number of this rank in place of every "%r"; NULL: out of memory. */
static const char *path_of_rank(cli_run *cli, const char *path) {
  for (const char *at; path && (at = strstr(path, "%r")) != NULL;)
    path = own_format(cli, "%.*s%u%s", (int)(at - path), path, kf_ctx_rank(cli->ctx), at + 2);
  return path;
}

/* Puts the number of this rank into a list of paths. *own becomes 1 if any path has it. */
static int take_rank_paths(cli_run *cli, const char *const **paths, size_t n, int *own) {
  const char **list = own_memory(cli, n + 1, sizeof *list);
  if (!list) return fail(cli, KF_ERR_MEM);
  for (size_t i = 0; i < n; i++) {
    *own |= strstr((*paths)[i], "%r") != NULL;
    list[i] = path_of_rank(cli, (*paths)[i]);
    if (!list[i]) return fail(cli, KF_ERR_MEM);
  }
  *paths = list;
  return EXIT_OK;
}

static int open_rows(cli_run *cli, const char *const *paths, size_t n, const cli_list *labels,
                     const char *only, label_use use, kf_data **out) {
  const struct data_args *d = &cli->args.data;
  if (!d->classes) TRY(need(cli, "skip-unknown", "--classes FILE"));
  kf_data_options options = {
      .labels = labels->items,
      .n_labels = labels->n,
      .classes = d->classes,
      .tensor = d->tensor,
      .label_tensor = d->label_tensor,
      .inner_labels = use == LABELS_IGNORED ? KF_OFF : KF_ON,
      .skip_bad = d->skip_bad,
      .allow_unlabelled = d->allow_unlabelled || use == LABELS_WANTED,
      .allow_unknown = d->allow_unknown || (use == LABELS_WANTED && d->classes),
      .only = only,
      .label_column = d->label_column,
      .order = (kf_order)d->order,
      .id_column = d->id_column,
  };
  int own = 0, own_labels = 0;
  if (d->rank_files) {
    TRY(take_rank_paths(cli, &paths, n, &own));
    TRY(take_rank_paths(cli, &options.labels, options.n_labels, &own_labels));
    options.own_files = (uint64_t)own;
  }
  TRY(own_data(cli, kf_data_open(cli->ctx, paths, n, &options, out), out));
  return check_replaces_no_data(cli, *out, cli->args.output);
}

/* --only is about these rows, not about test rows. */
int open_data(cli_run *cli, size_t first, label_use use, kf_data **out) {
  TRY(need(cli, "precision max-pixels", "--encoder CLIP-DIR"));
  const cli_list *operands = &cli->args.operands;
  return open_rows(cli, operands->items + first, operands->n - first, &cli->args.data.labels,
                   cli->args.data.only, use, out);
}

int read_id(cli_run *cli, const kf_data *data, uint64_t row, const char **id) {
  enum { ID_SIZE = 65537 };
  *id = NULL;
  if (!data || !kf_data_has_ids(data)) return EXIT_OK;
  if (!cli->id) cli->id = own_memory(cli, ID_SIZE, 1);
  if (!cli->id) return fail(cli, KF_ERR_MEM);
  *id = cli->id;
  return result_of(cli, kf_data_get_id(cli->ctx, data, row, cli->id, ID_SIZE));
}

/* Hints about labels do not apply to --groups. */
static int fail_groups(cli_run *cli, kf_status status) {
  kf_hint hint = kf_errhint(cli->ctx);
  if (hint != KF_HINT_SKIP_UNLABELLED && hint != KF_HINT_LABEL_COLUMN) return fail(cli, status);
  return fail_with(cli, EXIT_BAD_DATA,
                   "%s; --groups takes one group for each row, and nothing else",
                   kf_errmsg(cli->ctx));
}

int read_groups(cli_run *cli, const kf_data *data, const uint32_t **out) {
  const cli_args *a = &cli->args;
  if (!a->fit.groups) return EXIT_OK;
  if (!data) return fail_usage(cli, "--groups needs the rows themselves, not statistics");
  if (a->data.only) TRY(refuse(cli, "groups", "--only"));
  kf_data_options options = {.labels = &a->fit.groups,
                             .n_labels = 1,
                             .tensor = a->data.tensor,
                             .inner_labels = KF_OFF,
                             .order = (kf_order)a->data.order};
  kf_data *grouped;
  kf_status status = kf_data_open(cli->ctx, a->operands.items, a->operands.n, &options, &grouped);
  if (status != KF_OK) return fail_groups(cli, status);
  TRY(own_data(cli, KF_OK, &grouped));
  int32_t *groups = own_memory(cli, kf_data_rows(grouped), sizeof *groups);
  if (!groups) return fail(cli, KF_ERR_MEM);
  *out = (const uint32_t *)groups;
  return result_of(cli, kf_data_labels(cli->ctx, grouped, groups));
}

int open_test(cli_run *cli, const kf_truth *truth, kf_data **out) {
  const struct test_args *t = &cli->args.test;
  if (!t->data.n) return need(cli, "test-labels", "--test DATA");
  TRY(open_rows(cli, t->data.items, t->data.n, &t->labels, NULL, LABELS_WANTED, out));
  if (truth || kf_data_has_labels(*out)) return EXIT_OK;
  return fail_with(
      cli, EXIT_BAD_DATA,
      "%s: the test rows have no labels; give a label file with --test-labels, or their "
      "column with --label-column",
      t->data.items[0]);
}

/* --- kinds of files --------------------------------------------------------------------------- */

int check_kind(cli_run *cli, const char *path, const char *kind, int *found) {
  kf_info *info = NULL;
  kf_status status = kf_info_read(cli->ctx, path, &info);
  *found = status == KF_OK && strcmp(info->kind, kind) == 0;
  kf_info_free(info);
  int missing = status == KF_ERR_IO && access(path, F_OK) != 0; /* as loading it will report */
  return status == KF_OK || status == KF_ERR_DATA || missing ? EXIT_OK : fail(cli, status);
}

/* --- models ----------------------------------------------------------------------------------- */

/* What to do with a file of this kind where a model or gallery is wanted. */
static const char *advice(const char *kind, const char *wanted) {
  int is_model = strcmp(kind, "model") == 0, gallery_wanted = strcmp(wanted, "gallery") == 0;
  if (gallery_wanted)
    return is_model ? "make one with 'koofu index DATA --model MODEL'"
                    : "make one with 'koofu index DATA'";
  if (strcmp(kind, "gallery") == 0)
    return "'koofu search', 'koofu classify' and 'koofu eval' take it";
  return strcmp(kind, "statistics") == 0 ? "make one with 'koofu fit STATISTICS'"
                                         : "make one with 'koofu fit DATA'";
}

/* Reports a sound file of another kind; returns whether it is one. */
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
  /* A hint is about the content of a file, not about its kind. */
  if (status != KF_ERR_DATA || kf_errhint(cli->ctx) != KF_HINT_NONE) return fail(cli, status);
  char message[10240];
  snprintf(message, sizeof message, "%s", kf_errmsg(cli->ctx));
  if (!is_another_kind(cli, path, wanted)) fail_with(cli, EXIT_BAD_DATA, "%s", message);
  return EXIT_BAD_DATA;
}

int load_model(cli_run *cli, const char *path, kf_model **out) {
  kf_status status = kf_model_load(cli->ctx, path, out);
  return status == KF_OK ? own_model(cli, KF_OK, out) : fail_load(cli, status, path, "model");
}

kf_metric metric_for(const cli_args *a, const kf_model *model) {
  if (a->metric) return (kf_metric)a->metric;
  return kf_model_normalized(model) ? KF_METRIC_COSINE : KF_METRIC_EUCLIDEAN;
}

/* --- statistics ------------------------------------------------------------------------------- */

void say_rows_left_out(cli_run *cli, uint64_t rows, uint64_t unlabelled, uint64_t bad) {
  uint64_t out = unlabelled + bad;
  const char *label = cli->args.data.allow_unknown ? "without a known label" : "without a label";
  char parts[96] = "";
  int n =
      unlabelled ? snprintf(parts, sizeof parts, "%s %s", show_count(unlabelled).text, label) : 0;
  if (bad)
    snprintf(parts + n, sizeof parts - (size_t)n, "%s%s bad", n ? ", " : "", show_count(bad).text);
  if (out)
    say(cli, "left out %s of %s: %s", show_count(out).text,
        show_counted(out + rows, "row", "rows").text, parts);
}

kf_stats_options stats_options_of(const cli_args *a) {
  return (kf_stats_options){.normalize = a->stats.no_normalize ? KF_OFF : KF_ON,
                            .exponent = (int)a->stats.exponent.value,
                            .fixed_exponent = a->stats.exponent.given,
                            .checkpoint = a->stats.checkpoint};
}

int load_stats(cli_run *cli, const char *path, kf_stats **out) {
  return own_stats(cli, kf_stats_load(cli->ctx, path, out), out);
}

/* Refuses options that contradict each other or a statistics file. */
static int check_stats_options(cli_run *cli, const kf_stats *loaded) {
  if (!cli->args.stats.no_normalize) TRY(need(cli, "exponent", "--no-normalize"));
  if (!loaded) return EXIT_OK;
  return refuse(cli, DATA_OPTIONS " skip-unlabelled skip-unknown no-normalize",
                "%s, which holds statistics", cli->args.operands.items[0]);
}

static int is_regular(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

/* A file that cannot be loaded as statistics is data, unless it is damaged. */
static int load_if_stats(cli_run *cli, const char *path, kf_stats **out) {
  if (kf_stats_load(cli->ctx, path, out) == KF_OK) return own_stats(cli, KF_OK, out);
  kf_info *info;
  TRY(result_of(cli, kf_info_read(cli->ctx, path, &info)));
  int is_stats = strcmp(info->kind, "statistics") == 0;
  kf_info_free(info);
  return is_stats ? load_stats(cli, path, out) : EXIT_OK;
}

/* Several statistics files are not one data set. */
static int refuse_several_stats(cli_run *cli, const char *path) {
  int found;
  TRY(check_kind(cli, path, "statistics", &found));
  if (!found) return EXIT_OK;
  return fail_with(cli, EXIT_BAD_DATA,
                   "%s: holds statistics; merge statistics files with 'koofu merge' first", path);
}

int take_stats(cli_run *cli, kf_stats **out) {
  const cli_list *operands = &cli->args.operands;
  const char *path = operands->items[0];
  if (is_stream(cli, path) || (ends_with(path, ".safetensors") && is_regular(path)))
    TRY(operands->n == 1 ? load_if_stats(cli, path, out) : refuse_several_stats(cli, path));
  return check_stats_options(cli, *out);
}

int data_stats(cli_run *cli, kf_data **rows, kf_stats **out) {
  kf_stats_options options = stats_options_of(&cli->args);
  TRY(check_stats_options(cli, NULL));
  TRY(open_data(cli, 0, LABELS_NEEDED, rows));
  TRY(own_stats(cli, kf_stats_new_from_data(cli->ctx, *rows, &options, out), out));
  uint64_t n = kf_stats_rows(*out), unlabelled = kf_data_unlabelled(*rows);
  say_rows_left_out(cli, n, unlabelled, kf_data_rows(*rows) - n - unlabelled);
  return EXIT_OK;
}

int read_stats(cli_run *cli, kf_data **rows, kf_stats **out) {
  TRY(take_stats(cli, out));
  return *out ? EXIT_OK : data_stats(cli, rows, out);
}

kf_synth_options world_of(const cli_args *a) {
  return (kf_synth_options){.seed = (uint64_t)a->world.seed.value,
                            .classes = (uint32_t)a->world.classes.value,
                            .dim = (uint32_t)a->world.dim.value,
                            .per_class = (uint64_t)a->world.per_class.value,
                            .split = (uint32_t)a->world.split.value};
}
