/* config.c - config.json of a model folder.
 *
 * What is not said there has the value that the reference's configuration classes give it, so that a
 * file with nothing but {"model_type": "clip"} is ViT-B/32. A `text_config_dict` or
 * `vision_config_dict`, which early files have beside text_config and vision_config, replaces these
 * whole: the reference fills it up with default values first, and then lets all of them win.
 *
 * The reference has no setting for biases: the projections at the end, CLIP's patches and nothing else
 * do without. */
#include "encode/tower.h"

#include <inttypes.h>
#include <string.h>

#define CONFIG_CAP ((uint64_t)16 << 20)

static kf_status parse_file(const kf_in *in, uint64_t cap, kf_json_doc *doc, kf_err *err) {
  if (in->size > cap) {
    return kf_fail(err, KF_ERR_DATA, "%s: has %" PRIu64 " bytes, more than the limit of %" PRIu64,
                   in->path, in->size, cap);
  }
  char *text = kf_alloc(in->size, 1);
  if (text == NULL) return kf_fail_memory(err);
  kf_status status = kf_in_read(in, 0, text, in->size, err);
  if (status == KF_OK) status = kf_json_parse(doc, text, in->size, in->path, err);
  kf_free(text);
  if (status == KF_OK && doc->nodes[0].kind != KF_JSON_OBJECT) {
    kf_json_clear(doc);
    status = kf_fail(err, KF_ERR_DATA, "%s: is no JSON object", in->path);
  }
  return status;
}

kf_status kf_json_read(const char *folder, const char *name, uint64_t cap, kf_json_doc *doc,
                       kf_err *err) {
  char *path = kf_path_join(folder, name);
  if (path == NULL) return kf_fail_memory(err);
  kf_in in;
  kf_status status = kf_in_open(&in, path, err);
  kf_free(path);
  if (status != KF_OK) return status;
  status = parse_file(&in, cap, doc, err);
  kf_in_close(&in);
  return status;
}

/* --- values ---------------------------------------------------------------------------------- */

typedef struct section {
  const char *path; /* of the file */
  const char *name; /* "vision_config.", or "" */
  const kf_json_doc *doc;
  const kf_json *object; /* NULL: everything has its default value */
} section;

static const kf_json *find(const section *s, const char *key) {
  return s->object == NULL ? NULL : kf_json_get(s->doc, s->object, key);
}

static kf_status read_count(const section *s, const char *key, uint32_t preset, uint32_t most,
                            uint32_t *out, kf_err *err) {
  *out = preset;
  const kf_json *node = find(s, key);
  if (node == NULL) return KF_OK;
  int64_t value;
  if (!kf_json_i64(node, &value)) {
    return kf_fail(err, KF_ERR_DATA, "%s: %s%s is no whole number", s->path, s->name, key);
  }
  if (value < 1 || value > (int64_t)most) {
    return kf_fail(err, KF_ERR_DATA, "%s: %s%s is %" PRId64 ", but must be from 1 to %" PRIu32,
                   s->path, s->name, key, value, most);
  }
  *out = (uint32_t)value;
  return KF_OK;
}

static kf_status read_eps(const section *s, double preset, float *out, kf_err *err) {
  const kf_json *node = find(s, "layer_norm_eps");
  double value = preset;
  if (node != NULL) {
    const char *end = NULL;
    value = node->kind == KF_JSON_NUMBER ? kf_parse_f64(node->text, &end) : -1;
  }
  *out = (float)value;
  if (value > 0 && value < 1 && *out > 0) return KF_OK;
  return kf_fail(err, KF_ERR_DATA, "%s: %slayer_norm_eps is no number between 0 and 1", s->path,
                 s->name);
}

static kf_status read_activation(const section *s, const char *preset, kf_activation *out,
                                 kf_err *err) {
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
  for (size_t i = 0; name != NULL && i < sizeof known / sizeof known[0]; i++) {
    if (strcmp(name, known[i].name) != 0) continue;
    *out = known[i].value;
    return KF_OK;
  }
  return kf_fail(err, KF_ERR_DATA,
                 "%s: %shidden_act is '%.40s'; quick_gelu, gelu and gelu_pytorch_tanh are known",
                 s->path, s->name, name != NULL ? name : "no string");
}

/* The token that ends a text. */
static kf_status read_end(const section *s, int64_t *out, kf_err *err) {
  *out = 49407;
  const kf_json *node = find(s, "eos_token_id");
  if (node == NULL || (kf_json_i64(node, out) && *out >= 0)) return KF_OK;
  return kf_fail(err, KF_ERR_DATA, "%s: %seos_token_id is no token", s->path, s->name);
}

/* --- towers ---------------------------------------------------------------------------------- */

#define MOST_LAYERS  1024u
#define MOST_INNER   (1u << 20)
#define MOST_PIXELS  4096u /* a side */
#define MOST_PATCHES 16384u
#define MOST_CONTEXT 16384u
#define MOST_WORDS   (1u << 24)

static kf_status read_tower(const section *s, uint32_t width, uint32_t heads, const char *act,
                            double eps, kf_tower_config *c, kf_err *err) {
  *c = (kf_tower_config){.present = true};
  KF_TRY(read_count(s, "hidden_size", width, KF_MAX_DIM, &c->width, err));
  KF_TRY(read_count(s, "intermediate_size", 4 * width, MOST_INNER, &c->inner, err));
  KF_TRY(read_count(s, "num_hidden_layers", 12, MOST_LAYERS, &c->layers, err));
  KF_TRY(read_count(s, "num_attention_heads", heads, KF_MAX_DIM, &c->heads, err));
  if (c->width % c->heads != 0) {
    return kf_fail(err, KF_ERR_DATA,
                   "%s: %shidden_size %" PRIu32 " is no multiple of num_attention_heads %" PRIu32,
                   s->path, s->name, c->width, c->heads);
  }
  KF_TRY(read_activation(s, act, &c->activation, err));
  return read_eps(s, eps, &c->eps, err);
}

static kf_status read_image_tower(const section *s, kf_family family, kf_tower_config *c,
                                  kf_err *err) {
  bool clip = family == KF_FAMILY_CLIP;
  KF_TRY(read_tower(s, 768, 12, clip ? "quick_gelu" : "gelu_pytorch_tanh", clip ? 1e-5 : 1e-6, c,
                    err));
  uint32_t channels;
  KF_TRY(read_count(s, "num_channels", 3, 65536, &channels, err));
  if (channels != 3) {
    return kf_fail(err, KF_ERR_DATA, "%s: %snum_channels is %" PRIu32 ", but pictures have 3",
                   s->path, s->name, channels);
  }
  KF_TRY(read_count(s, "image_size", 224, MOST_PIXELS, &c->image_size, err));
  KF_TRY(read_count(s, "patch_size", clip ? 32 : 16, MOST_PIXELS, &c->patch_size, err));
  if (c->patch_size > c->image_size) {
    return kf_fail(err, KF_ERR_DATA,
                   "%s: %spatch_size %" PRIu32 " is larger than image_size %" PRIu32, s->path,
                   s->name, c->patch_size, c->image_size);
  }
  if (kf_patches(c) > MOST_PATCHES) {
    return kf_fail(err, KF_ERR_DATA,
                   "%s: %simage_size %" PRIu32 " with patch_size %" PRIu32 " makes %" PRIu32
                   " patches, more than the limit of %u",
                   s->path, s->name, c->image_size, c->patch_size, kf_patches(c), MOST_PATCHES);
  }
  const kf_json *head = find(s, "vision_use_head");
  if (!clip && head != NULL && (head->kind != KF_JSON_BOOL || head->text[0] != 't')) {
    return kf_fail(err, KF_ERR_DATA,
                   "%s: %svision_use_head: without a head there are no embeddings", s->path,
                   s->name);
  }
  return KF_OK;
}

static kf_status read_text_tower(const section *s, kf_tower_config *c, kf_err *err) {
  KF_TRY(read_tower(s, 512, 8, "quick_gelu", 1e-5, c, err));
  KF_TRY(read_count(s, "max_position_embeddings", 77, MOST_CONTEXT, &c->context, err));
  KF_TRY(read_count(s, "vocab_size", 49408, MOST_WORDS, &c->vocabulary, err));
  return read_end(s, &c->end, err);
}

/* --- the file -------------------------------------------------------------------------------- */

/* The object KEY_dict, or else KEY. */
static kf_status find_section(const section *root, const char *key, const char *old_key,
                              const char *name, section *out, kf_err *err) {
  *out = *root;
  const kf_json *node = kf_json_get(root->doc, root->object, old_key);
  if (node == NULL || node->kind == KF_JSON_NULL) node = kf_json_get(root->doc, root->object, key);
  out->name = name;
  out->object = node == NULL || node->kind == KF_JSON_NULL ? NULL : node;
  if (out->object == NULL || node->kind == KF_JSON_OBJECT) return KF_OK;
  return kf_fail(err, KF_ERR_DATA, "%s: %s is no JSON object", root->path, key);
}

static kf_status read_both(const section *root, kf_family family, kf_model_config *out,
                           kf_err *err) {
  section image, text;
  out->family = family;
  KF_TRY(find_section(root, "vision_config", "vision_config_dict", "vision_config.", &image, err));
  KF_TRY(read_image_tower(&image, family, &out->image, err));
  if (family == KF_FAMILY_SIGLIP) {
    out->dim = out->image.width;
    return KF_OK;
  }
  KF_TRY(find_section(root, "text_config", "text_config_dict", "text_config.", &text, err));
  KF_TRY(read_text_tower(&text, &out->text, err));
  return read_count(root, "projection_dim", 512, KF_MAX_DIM, &out->dim, err);
}

static kf_status read_root(const section *root, kf_model_config *out, kf_err *err) {
  const char *type = kf_json_string(kf_json_get(root->doc, root->object, "model_type"));
  if (type == NULL) return kf_fail(err, KF_ERR_DATA, "%s: there is no model_type", root->path);
  if (strcmp(type, "clip") == 0) return read_both(root, KF_FAMILY_CLIP, out, err);
  if (strcmp(type, "siglip") == 0) return read_both(root, KF_FAMILY_SIGLIP, out, err);
  if (strcmp(type, "clip_vision_model") == 0) {
    KF_TRY(read_image_tower(root, KF_FAMILY_CLIP, &out->image, err));
    return read_count(root, "projection_dim", 512, KF_MAX_DIM, &out->dim, err);
  }
  if (strcmp(type, "clip_text_model") == 0) {
    KF_TRY(read_text_tower(root, &out->text, err));
    return read_count(root, "projection_dim", 512, KF_MAX_DIM, &out->dim, err);
  }
  if (strcmp(type, "siglip_vision_model") == 0) {
    out->family = KF_FAMILY_SIGLIP;
    KF_TRY(read_image_tower(root, KF_FAMILY_SIGLIP, &out->image, err));
    out->dim = out->image.width;
    return KF_OK;
  }
  return kf_fail(err, KF_ERR_DATA, "%s: model_type is '%.40s'; clip and siglip are known",
                 root->path, type);
}

kf_status kf_config_read(const char *folder, kf_model_config *out, kf_err *err) {
  *out = (kf_model_config){0};
  kf_json_doc doc;
  KF_TRY(kf_json_read(folder, "config.json", CONFIG_CAP, &doc, err));
  char *path = kf_path_join(folder, "config.json");
  section root = {.path = path, .name = "", .doc = &doc, .object = &doc.nodes[0]};
  kf_status status = path != NULL ? read_root(&root, out, err) : kf_fail_memory(err);
  kf_free(path);
  kf_json_clear(&doc);
  return status;
}
