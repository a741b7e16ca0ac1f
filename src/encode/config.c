/* config.c - config.json of a model folder.
 *
 * A missing setting has the default of the reference's configuration classes: a file with nothing
 * but {"model_type": "clip"} is ViT-B/32. A `text_config_dict` or `vision_config_dict`, which early
 * files have beside text_config and vision_config, replaces these entirely: the reference completes
 * it with defaults, and then all of its values win.
 *
 * There is no setting for biases: only the final projections and CLIP's patches have none. */
#include "encode/folder.h"
#include "encode/tower.h"

#include <inttypes.h>
#include <string.h>

#define CONFIG_MAX ((uint64_t)16 << 20) /* bytes */

#define MAX_LAYERS  1024u
#define MAX_INNER   (1u << 20)
#define MAX_PIXELS  4096u /* a side */
#define MAX_PATCHES 16384u
#define MAX_CONTEXT 16384u
#define MAX_WORDS   (1u << 24)

/* --- values ---------------------------------------------------------------------------------- */

typedef struct section {
  const kf_json_file *file;
  const char *name;      /* "vision_config.", or "" */
  const kf_json *object; /* NULL: everything has its default value */
  kf_err *err;
} section;

static const kf_json *find(const section *s, const char *key) {
  return kf_json_get(&s->file->doc, s->object, key);
}

/* "FILE: SECTION.KEY is ..." */
static __attribute__((format(printf, 3, 4))) kf_status bad(const section *s, const char *key,
                                                           const char *format, ...) {
  char message[256];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  return kf_fail_file(s->err, s->file->path, "%s%s%s", s->name, key, message);
}

static kf_status read_count(const section *s, const char *key, uint32_t preset, uint32_t most,
                            uint32_t *out) {
  *out = preset;
  const kf_json *node = find(s, key);
  if (node == NULL) return KF_OK;
  int64_t value;
  if (!kf_json_i64(node, &value)) return bad(s, key, " is not a whole number");
  if (value < 1 || value > (int64_t)most)
    return bad(s, key, " is %" PRId64 ", but must be from 1 to %" PRIu32, value, most);
  *out = (uint32_t)value;
  return KF_OK;
}

static kf_status read_eps(const section *s, double preset, float *out) {
  const kf_json *node = find(s, "layer_norm_eps");
  double value = preset;
  if (node != NULL) {
    const char *end = NULL;
    value = node->kind == KF_JSON_NUMBER ? kf_parse_f64(node->text, &end) : -1;
  }
  *out = (float)value;
  if (value > 0 && value < 1 && *out > 0) return KF_OK;
  return bad(s, "layer_norm_eps", " is not a number between 0 and 1");
}

static kf_status read_activation(const section *s, const char *preset, kf_activation *out) {
  static const struct {
    const char *name;
    kf_activation value;
  } known[] = {{"quick_gelu", KF_ACT_QUICK_GELU},
               {"gelu", KF_ACT_GELU},
               {"gelu_python", KF_ACT_GELU},
               {"gelu_new", KF_ACT_GELU_TANH},
               {"gelu_pytorch_tanh", KF_ACT_GELU_TANH},
               {"gelu_python_tanh", KF_ACT_GELU_TANH}};
  const kf_json *node = find(s, "hidden_act");
  const char *name = node == NULL ? preset : kf_json_string(node);
  if (name == NULL) return bad(s, "hidden_act", " is not a string");
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
    if (strcmp(name, known[i].name) != 0) continue;
    *out = known[i].value;
    return KF_OK;
  }
  return bad(s, "hidden_act", " is '%.40s'; quick_gelu, gelu and gelu_pytorch_tanh are supported",
             name);
}

static kf_status read_end(const section *s, int64_t *out) {
  *out = 49407;
  const kf_json *node = find(s, "eos_token_id");
  if (node == NULL || (kf_json_i64(node, out) && *out >= 0)) return KF_OK;
  return bad(s, "eos_token_id", " is not a token");
}

/* --- towers ---------------------------------------------------------------------------------- */

static kf_status read_tower(const section *s, uint32_t width, uint32_t heads, const char *act,
                            double eps, kf_tower_config *c) {
  *c = (kf_tower_config){.present = true};
  KF_TRY(read_count(s, "hidden_size", width, KF_MAX_DIM, &c->width));
  KF_TRY(read_count(s, "intermediate_size", 4 * width, MAX_INNER, &c->inner));
  KF_TRY(read_count(s, "num_hidden_layers", 12, MAX_LAYERS, &c->layers));
  KF_TRY(read_count(s, "num_attention_heads", heads, KF_MAX_DIM, &c->heads));
  if (c->width % c->heads != 0)
    return bad(s, "hidden_size", " %" PRIu32 " is not a multiple of num_attention_heads %" PRIu32,
               c->width, c->heads);
  KF_TRY(read_activation(s, act, &c->activation));
  return read_eps(s, eps, &c->eps);
}

static kf_status read_image_tower(const section *s, kf_family family, kf_tower_config *c) {
  bool clip = family == KF_FAMILY_CLIP;
  KF_TRY(read_tower(s, 768, 12, clip ? "quick_gelu" : "gelu_pytorch_tanh", clip ? 1e-5 : 1e-6, c));
  uint32_t channels;
  KF_TRY(read_count(s, "num_channels", 3, 65536, &channels));
  if (channels != 3)
    return bad(s, "num_channels", " is %" PRIu32 ", but pictures have 3", channels);
  KF_TRY(read_count(s, "image_size", 224, MAX_PIXELS, &c->image_size));
  KF_TRY(read_count(s, "patch_size", clip ? 32 : 16, MAX_PIXELS, &c->patch_size));
  if (c->patch_size > c->image_size)
    return bad(s, "patch_size", " %" PRIu32 " is larger than image_size %" PRIu32, c->patch_size,
               c->image_size);
  if (kf_patches(c) > MAX_PATCHES)
    return bad(s, "image_size",
               " %" PRIu32 " with patch_size %" PRIu32 " makes %" PRIu32
               " patches, more than the limit of %u",
               c->image_size, c->patch_size, kf_patches(c), MAX_PATCHES);
  const kf_json *head = find(s, "vision_use_head");
  if (!clip && head != NULL && (head->kind != KF_JSON_BOOL || head->text[0] != 't'))
    return bad(s, "vision_use_head", " is off; without a head there are no embeddings");
  return KF_OK;
}

static kf_status read_text_tower(const section *s, kf_tower_config *c) {
  KF_TRY(read_tower(s, 512, 8, "quick_gelu", 1e-5, c));
  KF_TRY(read_count(s, "max_position_embeddings", 77, MAX_CONTEXT, &c->context));
  KF_TRY(read_count(s, "vocab_size", 49408, MAX_WORDS, &c->vocabulary));
  return read_end(s, &c->end);
}

/* The meaning of a model_type. `nested`: each tower has its own object. */
typedef struct model_kind {
  const char *type;
  kf_family family;
  bool image, text, nested;
} model_kind;
static const model_kind kinds[] = {{"clip", KF_FAMILY_CLIP, true, true, true},
                                   {"clip_vision_model", KF_FAMILY_CLIP, true, false, false},
                                   {"clip_text_model", KF_FAMILY_CLIP, false, true, false},
                                   {"siglip", KF_FAMILY_SIGLIP, true, false, true},
                                   {"siglip_vision_model", KF_FAMILY_SIGLIP, true, false, false}};

/* Finds the object of OLD_KEY or, without it, of KEY. */
static kf_status find_section(const section *root, const char *key, const char *old_key,
                              const char *name, section *out) {
  const kf_json *node = find(root, old_key);
  if (node == NULL || node->kind == KF_JSON_NULL) node = find(root, key);
  if (node != NULL && node->kind == KF_JSON_NULL) node = NULL;
  *out = (section){root->file, name, node, root->err};
  if (node == NULL || node->kind == KF_JSON_OBJECT) return KF_OK;
  return bad(root, key, " is not a JSON object");
}

static kf_status read_towers(const section *root, const model_kind *kind, kf_encoder_config *out) {
  section image = *root, text = *root;
  out->family = kind->family;
  if (kind->nested)
    KF_TRY(find_section(root, "vision_config", "vision_config_dict", "vision_config.", &image));
  if (kind->nested && kind->text)
    KF_TRY(find_section(root, "text_config", "text_config_dict", "text_config.", &text));
  if (kind->image) KF_TRY(read_image_tower(&image, kind->family, &out->image));
  if (kind->text) KF_TRY(read_text_tower(&text, &out->text));
  if (kind->family == KF_FAMILY_CLIP)
    return read_count(root, "projection_dim", 512, KF_MAX_DIM, &out->dim);
  out->dim = out->image.width;
  return KF_OK;
}

static kf_status read_root(const section *root, kf_encoder_config *out) {
  const char *type = kf_json_string(find(root, "model_type"));
  if (type == NULL) return kf_fail_file(root->err, root->file->path, "has no model_type");
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (strcmp(type, kinds[i].type) == 0) return read_towers(root, &kinds[i], out);
  return bad(root, "model_type", " is '%.40s'; clip and siglip are supported", type);
}

kf_status kf_config_read(const char *folder, kf_encoder_config *out, kf_err *err) {
  *out = (kf_encoder_config){0};
  kf_json_file file;
  if (!kf_is_directory(folder)) return kf_fail_no_config(folder, err);
  KF_TRY(kf_json_file_read(&file, folder, "config.json", CONFIG_MAX, err));
  section root = {.file = &file, .name = "", .object = file.doc.nodes, .err = err};
  kf_status status = file.found ? read_root(&root, out) : kf_fail_no_config(folder, err);
  kf_json_file_clear(&file);
  return status;
}
