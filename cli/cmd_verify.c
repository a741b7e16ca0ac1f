/* cmd_verify.c - koofu verify: checks whether files are sound and belong together. */
#include "commands.h"

#include <string.h>

/* One file; info NULL: it is not sound. */
typedef struct verified {
  const char *path;
  kf_info *info;
  char text[2][17]; /* checksums of a data set taken as text, scaled and as it is; "": none */
} verified;

static const char *meta(const verified *v, const char *key) {
  return v->info ? kf_info_meta(v->info, key) : NULL;
}

/* The file with the statistics that a model or gallery was fitted from, or NULL. */
static const char *find_statistics(const verified *files, size_t n, const char *checksum) {
  for (size_t i = 0; checksum && i < n; i++) {
    const char *other = meta(&files[i], "checksum");
    if (other && strcmp(files[i].info->kind, "statistics") == 0 && strcmp(other, checksum) == 0)
      return files[i].path;
  }
  return NULL;
}

static const char *find_text(const verified *files, size_t n, const char *checksum) {
  for (size_t i = 0; checksum && i < n; i++)
    if (strcmp(files[i].text[0], checksum) == 0 || strcmp(files[i].text[1], checksum) == 0)
      return files[i].path;
  return NULL;
}

static void print_source(const char *label, const char *checksum, const char *found) {
  printf("%s %.16s", label, checksum);
  if (!found) return;
  printf(" (");
  print_plain(stdout, found);
  printf(")");
}

static void print_text(cli_run *cli, const verified *files, size_t n, const verified *v) {
  const char *by = meta(v, "fitted_by"), *from = meta(v, "fitted_from");
  const char *text = meta(v, "text_from"), *made_with = meta(v, "text_made_with");
  const char *checksum = meta(v, "checksum");
  print_plain(stdout, stream_name(cli, v->path));
  printf(": sound, %s", v->info->kind);
  if (checksum) printf(", checksum %.16s", checksum);
  if (by) {
    printf(", fitted by ");
    print_plain(stdout, by);
  }
  if (from && !by) printf(", fitted");
  if (from) print_source(" from statistics", from, find_statistics(files, n, from));
  if (text) print_source(", with text", text, find_text(files, n, text));
  if (made_with) printf(" of prompts %.16s", made_with);
  printf("\n");
}

static void print_json(cli_run *cli, const verified *files, size_t n, const verified *v) {
  static const char *const keys[] = {"checksum", "fitted_by", "fitted_from", "text_from",
                                     "text_made_with"};
  cli_json j = jw_begin(stdout);
  jw_text(&j, "path", stream_name(cli, v->path));
  jw_flag(&j, "sound", v->info != NULL);
  if (!v->info) {
    jw_end(&j);
    return;
  }
  jw_text(&j, "kind", v->info->kind);
  jw_count(&j, "rows", v->info->rows);
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (meta(v, keys[i])) jw_text(&j, keys[i], meta(v, keys[i]));
  const char *found = find_statistics(files, n, meta(v, "fitted_from"));
  if (found) jw_text(&j, "statistics", found);
  found = find_text(files, n, meta(v, "text_from"));
  if (found) jw_text(&j, "text", found);
  jw_end(&j);
}

/* The checksum of a data set taken as text (kf_text_checksum). */
static void sum_text(cli_run *cli, const kf_data *data, kf_switch unit, char digits[17]) {
  kf_text_options options = {.unit_rows = unit, .unit_mean = unit};
  kf_text *text;
  if (kf_text_new(cli->ctx, data, &options, &text) != KF_OK) return; /* not text */
  snprintf(digits, 17, "%016llx", (unsigned long long)kf_text_checksum(text));
  kf_text_free(text);
}

/* Takes data sets as text if a model has some, to find out whose text it is. */
static void sum_texts(cli_run *cli, verified *files, size_t n) {
  int wanted = 0;
  for (size_t i = 0; i < n; i++) wanted = wanted || meta(&files[i], "text_from");
  cli->muted = 1; /* notes were printed when the files were verified */
  for (size_t i = 0; wanted && i < n; i++) {
    kf_data *data;
    if (!files[i].info || strcmp(files[i].info->kind, "data set") != 0) continue;
    if (kf_data_open(cli->ctx, &files[i].path, 1, NULL, &data) != KF_OK) continue;
    sum_text(cli, data, KF_ON, files[i].text[0]);
    sum_text(cli, data, KF_OFF, files[i].text[1]);
    kf_data_free(data);
  }
  cli->muted = 0;
}

/* Reads all files first, so that each can be compared with the others. */
static int verify_all(cli_run *cli, verified *files, size_t n) {
  int result = EXIT_OK;
  for (size_t i = 0; i < n && !stop_wanted(); i++) {
    verified *v = &files[i];
    v->path = cli->args.operands.items[i];
    kf_status status = kf_verify(cli->ctx, v->path, &v->info);
    if (status == KF_OK) {
      TRY(own_info(cli, KF_OK, &v->info));
      continue;
    }
    int failed = fail(cli, status);
    if (result == EXIT_OK) result = failed;
  }
  if (!stop_wanted()) sum_texts(cli, files, n);
  progress_end(cli);
  if (stop_wanted()) return fail(cli, KF_ERR_CANCELLED);
  for (size_t i = 0; i < n; i++)
    if (cli->args.json)
      print_json(cli, files, n, &files[i]);
    else if (files[i].info)
      print_text(cli, files, n, &files[i]);
  return result;
}

static int run_verify(cli_run *cli) {
  size_t n = cli->args.operands.n;
  verified *files = own_memory(cli, n, sizeof *files);
  if (!files) return fail(cli, KF_ERR_MEM);
  return verify_all(cli, files, n);
}

static const cli_group own_options = {
    "Options", OPTIONS({JSON, .help = "one JSON object per file, each on its own line"})};

const cli_command verify_command = {
    .name = "verify",
    .operands = "FILE...",
    .summary = "check files for damage and show where they came from",
    .details = "Reads each file whole. Statistics, models and galleries must match their checksum "
               "and keep all rules of their formats; every row of a data set must be finite and "
               "not zero, and every label must be a class; arrays of an .npz must match their "
               "checksums, and a .tar must be complete.\n\n"
               "Models and galleries name the version that fitted them and the checksum of the "
               "statistics they were fitted from. If those statistics are among the files, their "
               "name is printed as well. Equal statistics have equal checksums, whatever files, "
               "machines and threads they come from. Models with text also name the checksum of "
               "its rows and class names and, if 'koofu embed-text' made it, one of encoder, "
               "prompts and classes; the text is looked for among the data sets.\n\n"
               "A file that is not sound is named with the reason, the others are still checked, "
               "and the exit status is that of the first failure.",
    .groups = GROUPS(&own_options),
    .examples = EXAMPLES({"After a copy", "koofu verify model.safetensors gallery.safetensors"},
                         {"Which statistics is this model from?",
                          "koofu verify model.safetensors stats/*.safetensors"}),
    .run = run_verify,
};
