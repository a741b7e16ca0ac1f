/* hub.c - a model as a folder for the Hugging Face hub: model.safetensors, which is the model's own
 * file, config.json with the classes, and README.md with the metadata that the hub shows.
 *
 * The folder may exist, for example as a clone of the hub's repository. Files from elsewhere are
 * not replaced: config.json and model.safetensors were written by koofu if config.json says so. An
 * existing README.md is left alone, since people edit it. */
#include "export/export.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CONFIG  "config.json"
#define WEIGHTS "model.safetensors"
#define README  "README.md"

enum { MAX_CONFIG = 1 << 28 }; /* bytes */

/* --- config.json ------------------------------------------------------------------------------ */

static void add_number(kf_string *to, const char *key, double value) {
  char text[32];
  kf_format_f64(value, text);
  kf_string_addf(to, "  \"%s\": %s,\n", key, text);
}

/* {"0": "cat", ...}, or the other way round. */
static void add_labels(kf_string *to, const kf_model *m, bool by_name) {
  kf_string_addf(to, "  \"%s\": {", by_name ? "label2id" : "id2label");
  for (uint32_t k = 0; k < m->n_classes; k++) {
    char number[16];
    snprintf(number, sizeof number, "%u", k);
    const char *name = m->names.n > 0 ? m->names.name[k] : number;
    kf_string_addf(to, "%s\n    ", k > 0 ? "," : "");
    kf_string_add_json(to, by_name ? name : number);
    kf_string_add(to, ": ", 2);
    if (by_name)
      kf_string_add(to, number, strlen(number));
    else
      kf_string_add_json(to, name);
  }
  kf_string_addf(to, "\n  }%s\n", by_name ? "" : ",");
}

static void make_config(const kf_model *m, const kf_export_options *o, kf_string *to) {
  (void)o;
  kf_string_addf(to, "{\n  \"library_name\": \"koofu\",\n  \"model_type\": \"koofu\",\n"
                     "  \"koofu_version\": \"" KF_VERSION "\",\n");
  kf_string_addf(to, "  \"dim_in\": %u,\n  \"dim_out\": %u,\n  \"num_labels\": %u,\n",
                 m->map.dim_in, m->map.dim_out, m->n_classes);
  kf_string_addf(to, "  \"normalized\": %s,\n  \"metric\": \"%s\",\n  \"fused\": %s,\n",
                 m->map.normalized ? "true" : "false",
                 kf_metric_name(kf_metric_for(KF_METRIC_DEFAULT, m->map.normalized)),
                 m->text != NULL ? "true" : "false");
  if (m->temperature > 0) add_number(to, "temperature", m->temperature);
  if (m->map.origin.known) {
    kf_string_addf(to, "  \"encoder\": ");
    kf_string_add_json(to, m->map.origin.name);
    kf_string_add(to, ",\n", 2);
  }
  add_labels(to, m, false);
  add_labels(to, m, true);
  kf_string_add(to, "}\n", 2);
}

/* --- README.md -------------------------------------------------------------------------------- */

/* A line of YAML, where a JSON string is a valid string. */
static void add_line(kf_string *to, const char *key, const char *value) {
  if (value == NULL) return;
  kf_string_addf(to, "%s: ", key);
  kf_string_add_json(to, value);
  kf_string_add(to, "\n", 1);
}

/* Foreign text without the characters that Markdown interprets. */
static void add_plain(kf_string *to, const char *text) {
  char shown[KF_SHOWN_SIZE];
  size_t n;
  for (size_t at = 0; (n = kf_escape_next(text, &at, shown)) > 0;)
    if (strpbrk(shown, "`|<>[]*&") == NULL) kf_string_add(to, shown, n);
}

static void make_readme(const kf_model *m, const kf_export_options *o, kf_string *to) {
  const kf_origin *origin = &m->map.origin;
  kf_string_addf(to, "---\nlibrary_name: koofu\npipeline_tag: image-classification\n"
                     "tags:\n- koofu\n- clip\n- linear-discriminant-analysis\n");
  add_line(to, "license", o->license);
  add_line(to, "base_model", o->base_model);
  kf_string_addf(to, "---\n\n# Koo-Fu classifier\n\n"
                     "A linear map of CLIP embeddings, found in closed form, and the nearest class "
                     "in its space.\n\n| | |\n| --- | --- |\n");
  kf_string_addf(to, "| classes | %u |\n| embeddings | %u dimensions |\n| mapped to | %u |\n",
                 m->n_classes, m->map.dim_in, m->map.dim_out);
  kf_string_addf(to, "| fitted to | %llu rows%s |\n", (unsigned long long)m->rows,
                 m->text != NULL ? " and the text of the classes" : "");
  if (origin->known) {
    kf_string_addf(to, "| encoder | ");
    add_plain(to, origin->name);
    kf_string_add(to, " |\n", 3);
  }
  kf_string_addf(to, "\nThe classes are in `" CONFIG "`.\n\n```python\nimport koofu\n\n"
                     "model = koofu.Model.load(\"" WEIGHTS "\")\n"
                     "model.predict(embeddings)    # classes\n"
                     "model.transform(embeddings)  # mapped rows\n```\n");
}

/* --- the folder ------------------------------------------------------------------------------- */

typedef struct folder {
  kf_ctx *ctx;
  const kf_model *model;
  const kf_export_options *options;
  const char *path;
  const char *config, *weights, *readme;
  kf_arena arena;
} folder;

static bool is_there(const char *path) {
  struct stat info;
  return lstat(path, &info) == 0;
}

/* Whether config.json was written by koofu. */
static kf_status find_owner(const folder *f, bool *by_koofu) {
  kf_err *err = &f->ctx->err;
  kf_json_doc doc = {0};
  *by_koofu = false;
  kf_status status = kf_json_load_object(f->config, MAX_CONFIG, &doc, err);
  if (status == KF_OK) {
    const char *type = kf_json_string(kf_json_get(&doc, &doc.nodes[0], "model_type"));
    *by_koofu = type != NULL && strcmp(type, "koofu") == 0;
  }
  kf_json_clear(&doc);
  return status == KF_ERR_MEM ? status : KF_OK;
}

static kf_status enter(folder *f) {
  kf_err *err = &f->ctx->err;
  f->config = kf_path_join_in(&f->arena, f->path, CONFIG);
  f->weights = kf_path_join_in(&f->arena, f->path, WEIGHTS);
  f->readme = kf_path_join_in(&f->arena, f->path, README);
  if (f->arena.failed) return kf_fail_memory(err);
  if (mkdir(f->path, 0777) == 0) return KF_OK;
  if (errno != EEXIST) return kf_fail_errno(err, f->path, "cannot be created", errno);
  if (!kf_is_directory(f->path)) return kf_fail(err, KF_ERR_IO, "%s: is not a folder", f->path);
  const char *there = is_there(f->config) ? CONFIG : is_there(f->weights) ? WEIGHTS : NULL;
  if (there == NULL) return KF_OK;
  bool by_koofu;
  KF_TRY(find_owner(f, &by_koofu));
  if (by_koofu) return KF_OK;
  return kf_fail(err, KF_ERR_ARG,
                 "%s: holds %s, which was not written by koofu and would be replaced; write to "
                 "another folder, or move it away",
                 f->path, there);
}

typedef void (*make_fn)(const kf_model *model, const kf_export_options *options, kf_string *to);

static kf_status write_text(const folder *f, make_fn make, const char *path) {
  kf_string text = {0};
  make(f->model, f->options, &text);
  kf_status status = kf_string_write(f->ctx, &text, path);
  kf_string_clear(&text);
  return status;
}

/* Held-back files are renamed from the last to the first, so config.json is first in place: if the
 * process is killed halfway, the next one still recognises the folder. */
static kf_status fill(const folder *f) {
  KF_TRY(kf_model_save(f->ctx, f->model, f->weights));
  if (is_there(f->readme))
    kf_log(f->ctx, "%s: exists, and is left as it is", f->readme);
  else
    KF_TRY(write_text(f, make_readme, f->readme));
  return write_text(f, make_config, f->config);
}

static bool is_text(const char *text) { return text == NULL || kf_utf8_valid(text, strlen(text)); }

kf_status kf_export_hub(kf_ctx *ctx, const kf_model *model, const kf_export_options *o,
                        const char *path) {
  if (!is_text(o->license) || !is_text(o->base_model))
    return kf_fail(&ctx->err, KF_ERR_ARG, "the licence or the base model is not valid UTF-8");
  folder f = {.ctx = ctx, .model = model, .options = o, .path = path};
  kf_status status = enter(&f);
  if (status == KF_OK) status = fill(&f);
  kf_arena_free(&f.arena);
  return status;
}
