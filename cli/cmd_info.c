/* cmd_info.c - koofu info: what is in a file. */
#include "commands.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Longer metadata is cut in text, never in --json. */
enum { META_SHOWN = 60 };

static void print_line(const char *name, const char *value) { printf("  %-12s %s\n", name, value); }

/* The last of the alike columns that are numbered on from this one: dimensions, by the hundred. */
static size_t last_alike(const kf_info *info, size_t first) {
  const kf_tensor_info *a = &info->tensors[first];
  size_t stem = strlen(a->name), last = first;
  while (stem > 0 && a->name[stem - 1] >= '0' && a->name[stem - 1] <= '9') stem--;
  unsigned long long number = strtoull(a->name + stem, NULL, 10);
  for (; a->name[stem] && last + 1 < info->n_tensors; last++) {
    const kf_tensor_info *b = &info->tensors[last + 1];
    char next[32];
    snprintf(next, sizeof next, "%llu", ++number);
    if (strncmp(a->name, b->name, stem) != 0 || strcmp(b->name + stem, next) != 0 ||
        strcmp(a->dtype, b->dtype) != 0 || a->ndim != 1 || b->ndim != 1 ||
        a->shape[0] != b->shape[0])
      break;
  }
  return last;
}

static void print_tensor(const kf_tensor_info *tensor, const char *last, int width) {
  printf("    ");
  print_escaped(stdout, tensor->name);
  size_t length = strlen(tensor->name);
  if (last) {
    printf(" to ");
    print_escaped(stdout, last);
    length += 4 + strlen(last);
  }
  printf("%*s  ", length < (size_t)width ? width - (int)length : 0, "");
  print_plain(stdout, tensor->dtype);
  printf(" [");
  for (uint32_t i = 0; i < tensor->ndim; i++)
    printf("%s%llu", i ? ", " : "", (unsigned long long)tensor->shape[i]);
  printf("]\n");
}

static void print_tensors(const kf_info *info) {
  int width = 0;
  for (size_t i = 0; i < info->n_tensors; i++) {
    size_t length = strlen(info->tensors[i].name);
    if (length < 40 && (int)length > width) width = (int)length;
  }
  int text = strcmp(info->format, "csv") == 0 || strcmp(info->format, "tsv") == 0;
  int unread = text && strcmp(info->kind, "table") == 0;
  printf("  %s\n", unread ? "first line" : text ? "columns" : "tensors");
  for (size_t i = 0, last; i < info->n_tensors; i = last + 1) {
    last = last_alike(info, i);
    print_tensor(&info->tensors[i], last > i ? info->tensors[last].name : NULL, width);
  }
}

static void print_meta(const kf_info *info) {
  printf("  metadata\n");
  for (size_t i = 0; i < info->n_meta; i++) {
    const char *value = info->meta_values[i];
    size_t length = strlen(value);
    size_t most = length < META_SHOWN ? length : META_SHOWN;
    while (((unsigned char)value[most] & 0xc0) == 0x80) most--; /* a whole character */
    char cut[META_SHOWN + 1];
    snprintf(cut, sizeof cut, "%.*s", (int)most, value);
    printf("    ");
    print_escaped(stdout, info->meta_keys[i]);
    printf(" = ");
    print_escaped(stdout, cut);
    if (length > META_SHOWN) printf("... (%s)", show_bytes(length).text);
    printf("\n");
  }
}

static const char *metric_of(const kf_info *info) {
  return strcmp(info->kind, "gallery") == 0 ? kf_info_meta(info, "metric") : NULL;
}

/* Whether the file holds a map: a model, or a gallery made with one. */
static int is_mapped(const kf_info *info) {
  int found = 0;
  for (size_t i = 0; i < info->n_tensors; i++)
    found |= strcmp(info->tensors[i].name, "transform") == 0;
  return found && info->dim_out > 0;
}

static const char *name_of_rows(const char *kind) {
  if (strcmp(kind, "labels") == 0 || strcmp(kind, "lines") == 0) return kind;
  return strcmp(kind, "table") == 0 ? "records" : "rows";
}

static void print_encoder(const kf_info *info) {
  printf("  %-12s ", "encoder");
  print_escaped(stdout, info->encoder);
  printf(" (%08x)\n", (unsigned)(info->encoder_checksum >> 32));
}

/* The checksums of the text, and of the encoder, prompts and classes that it was made from. */
static void print_text_source(const kf_info *info) {
  const char *from = kf_info_meta(info, "text_from");
  const char *made_with = kf_info_meta(info, "text_made_with");
  if (!from) return;
  printf("  %-12s %.16s", "text", from);
  if (made_with) printf(", of prompts %.16s", made_with);
  printf("\n");
}

/* The version, the statistics, and the options that give the same model again. */
static void print_fit(const kf_info *info) {
  const char *by = kf_info_meta(info, "fitted_by"), *from = kf_info_meta(info, "fitted_from");
  const char *centre = kf_info_meta(info, "centre");
  if (!by || !from || !centre) return;
  printf("  %-12s ", "fitted");
  printf("by ");
  print_escaped(stdout, by);
  printf(" from statistics %.16s", from);
  if (strcmp(info->kind, "model") == 0) {
    printf("\n  %-12s koofu fit --method %s --lambda %s --dim %u --centre %s", "command",
           method_choices[info->method - 1], kf_info_meta(info, "lambda"), info->dim_out, centre);
    if (!info->normalized) printf(" --no-normalize");
    if (kf_info_meta(info, "alpha")) printf(" --text TEXT --fuse %s", kf_info_meta(info, "alpha"));
  }
  printf("\n");
}

static void print_text(const char *path, const kf_info *info) {
  print_plain(stdout, path);
  printf(": %s (%s, %s)\n", info->kind, info->format, show_bytes(info->bytes).text);
  int is_text = strcmp(info->kind, "lines") == 0;
  if (strcmp(info->kind, "tensors") != 0)
    print_line(name_of_rows(info->kind), show_count(info->rows).text);
  char text[128];
  if (is_mapped(info))
    snprintf(text, sizeof text, "%u -> %u", info->dim, info->dim_out);
  else
    snprintf(text, sizeof text, "%u", info->dim);
  if (info->dim) print_line("dimensions", text);
  if (info->classes) print_line(is_text ? "distinct" : "classes", show_count(info->classes).text);
  if (info->ids) print_line("ids", "one for each row");
  if (info->encoder) print_encoder(info);
  if (info->normalized >= 0)
    print_line("row length", info->normalized ? "scaled to 1" : "not scaled");
  if (strcmp(info->kind, "statistics") == 0) {
    snprintf(text, sizeof text, "2^%d", -info->exponent);
    print_line("unit", text);
  }
  if (info->method) print_line("method", method_choices[info->method - 1]);
  if (info->priors) print_line("priors", priors_choices[info->priors - 1]);
  if (strcmp(info->kind, "model") == 0) print_line("lambda", show_real(info->lambda).text);
  if (info->temperature > 0) print_line("temperature", show_real(info->temperature).text);
  if (info->reject_share > 0) {
    snprintf(text, sizeof text, "%s, which keeps %g %% of known rows", show_real(info->reject).text,
             100 * info->reject_share);
    print_line("reject", text);
  }
  if (metric_of(info)) print_line("metric", metric_of(info));
  print_fit(info);
  print_text_source(info);
  if (info->n_tensors) print_tensors(info);
  if (info->n_meta) print_meta(info);
}

static void print_json_tensors(cli_json *j, const kf_info *info) {
  jw_open(j, "tensors", '[');
  for (size_t i = 0; i < info->n_tensors; i++) {
    const kf_tensor_info *tensor = &info->tensors[i];
    jw_open(j, NULL, '{');
    jw_text(j, "name", tensor->name);
    jw_text(j, "dtype", tensor->dtype);
    jw_open(j, "shape", '[');
    for (uint32_t k = 0; k < tensor->ndim; k++) jw_count(j, NULL, tensor->shape[k]);
    jw_close(j, "]}");
  }
  jw_close(j, "]");
}

static void print_json(const char *path, const kf_info *info) {
  cli_json j = jw_begin(stdout);
  jw_text(&j, "path", path);
  jw_text(&j, "format", info->format);
  jw_text(&j, "kind", info->kind);
  jw_count(&j, "bytes", info->bytes);
  jw_count(&j, "rows", info->rows);
  jw_count(&j, "dim", info->dim);
  jw_count(&j, "classes", info->classes);
  if (info->ids) jw_flag(&j, "ids", 1);
  if (info->encoder) jw_text(&j, "encoder", info->encoder);
  if (info->normalized >= 0) jw_flag(&j, "normalized", info->normalized);
  if (strcmp(info->kind, "statistics") == 0) jw_number(&j, "exponent", info->exponent);
  if (info->dim_out) jw_count(&j, "dim_out", info->dim_out);
  if (info->method) jw_text(&j, "method", method_choices[info->method - 1]);
  if (info->priors) jw_text(&j, "priors", priors_choices[info->priors - 1]);
  if (strcmp(info->kind, "model") == 0) jw_real(&j, "lambda", info->lambda);
  if (info->temperature > 0) jw_real(&j, "temperature", info->temperature);
  if (info->reject_share > 0) jw_real(&j, "reject", info->reject);
  if (info->reject_share > 0) jw_real(&j, "reject_share", info->reject_share);
  if (metric_of(info)) jw_text(&j, "metric", metric_of(info));
  print_json_tensors(&j, info);
  jw_open(&j, "metadata", '{');
  for (size_t i = 0; i < info->n_meta; i++) jw_text(&j, info->meta_keys[i], info->meta_values[i]);
  jw_close(&j, "}");
  jw_end(&j);
}

/* --- encoders --------------------------------------------------------------------------------- */

static void print_tower(cli_run *cli, const char *name, const char *input, const kf_tower_info *t) {
  print_line(name, t->layers ? own_format(cli, "%s; %s of %u, %s", input,
                                          show_counted(t->layers, "layer", "layers").text, t->width,
                                          show_counted(t->heads, "head", "heads").text)
                             : "none");
}

static void print_folder(cli_run *cli, const char *path, const kf_encoder_info *e) {
  print_plain(stdout, path);
  printf(": encoder (%s, %s of weights)\n", e->family, show_bytes(e->bytes).text);
  print_line("dimensions", own_format(cli, "%u", e->dim));
  print_tower(
      cli, "pictures",
      own_format(cli, "%u x %u pixels, patches of %u", e->image_size, e->image_size, e->patch_size),
      &e->image);
  print_tower(
      cli, "words",
      own_format(cli, "%u tokens, %s in the tokenizer", e->context, show_count(e->vocabulary).text),
      &e->text);
  print_line("parameters", own_format(cli, "%s, %s", show_count(e->parameters).text, e->dtype));
}

static void json_tower(cli_json *j, const char *name, const kf_tower_info *t) {
  jw_open(j, name, '{');
  jw_count(j, "layers", t->layers);
  jw_count(j, "width", t->width);
  jw_count(j, "heads", t->heads);
  jw_close(j, "}");
}

static void json_folder(const char *path, const kf_encoder_info *e) {
  cli_json j = jw_begin(stdout);
  jw_text(&j, "path", path);
  jw_text(&j, "format", "folder");
  jw_text(&j, "kind", "encoder");
  jw_text(&j, "family", e->family);
  jw_count(&j, "bytes", e->bytes);
  jw_count(&j, "dim", e->dim);
  json_tower(&j, "image", &e->image);
  json_tower(&j, "text", &e->text);
  jw_count(&j, "image_size", e->image_size);
  jw_count(&j, "patch_size", e->patch_size);
  jw_count(&j, "context", e->context);
  jw_count(&j, "vocabulary", e->vocabulary);
  jw_count(&j, "parameters", e->parameters);
  jw_text(&j, "dtype", e->dtype);
  jw_end(&j);
}

static int describe_folder(cli_run *cli, const char *path) {
  kf_encoder_info e;
  TRY(result_of(cli, kf_encoder_describe(cli->ctx, path, &e)));
  if (cli->args.json)
    json_folder(path, &e);
  else
    print_folder(cli, path, &e);
  return EXIT_OK;
}

/* --- the command ------------------------------------------------------------------------------ */

static int describe(cli_run *cli, const char *path) {
  struct stat file;
  kf_info *info;
  if (stat(path, &file) == 0 && S_ISDIR(file.st_mode)) return describe_folder(cli, path);
  TRY(result_of(cli, kf_info_read(cli->ctx, path, &info)));
  (cli->args.json ? print_json : print_text)(stream_name(cli, path), info);
  kf_info_free(info);
  return EXIT_OK;
}

static int run_info(cli_run *cli) {
  int result = EXIT_OK;
  for (size_t i = 0; i < cli->args.operands.n && !stop_wanted(); i++) {
    int failed = describe(cli, cli->args.operands.items[i]);
    if (result == EXIT_OK) result = failed;
  }
  return stop_wanted() ? fail(cli, KF_ERR_CANCELLED) : result;
}

static const cli_group own_options = {
    "Options", OPTIONS({JSON, .help = "one JSON object per file, each on its own line"})};

const cli_command info_command = {
    .name = "info",
    .operands = "FILE|CLIP-DIR...",
    .summary = "describe any file that koofu reads or writes, or an encoder",
    .details = "Says what a file is (embeddings, labels, data set, statistics, model, gallery, "
               "answers, tensors, table, lines of text), its size, rows, dimensions, classes, "
               "tensors and metadata; of the folder of an encoder its towers, input, tokenizer "
               "and parameters. Statistics, models and galleries are read whole and their "
               "checksum is verified, so a description also means that the file is sound. Other "
               "files are judged by their headers.\n\n"
               "If a file cannot be described, the others still are; the exit status is that of "
               "the first failure.",
    .groups = GROUPS(&own_options),
    .examples = EXAMPLES({"What is this?", "koofu info model.safetensors"},
                         {"An encoder", "koofu info clip"},
                         {"Its number of classes, for a script",
                          "koofu info --json model.safetensors | jq .classes"}),
    .run = run_info,
};
