/* test_encoder_bad.c - invalid model folders: every defect is refused with the name of the file,
 * tensor or setting. Each case changes one thing in a copy of a golden model. */
#include "models.h"

#include <math.h>
#include <unistd.h>

static const char *folder; /* holds the copy */
static kf_ctx *ctx;
static char said[1024]; /* the last log message */

static void listen(void *user, const char *message) {
  (void)user;
  snprintf(said, sizeof said, "%s", message);
}

static int begin(void **state) {
  (void)state;
  folder = test_folder();
  kf_ctx_options options = {.threads = 2, .log = listen};
  return kf_ctx_new(&options, &ctx) == KF_OK ? 0 : 1;
}

static int finish(void **state) {
  (void)state;
  kf_ctx_free(ctx);
  test_remove(folder);
  return 0;
}

/* --- changing a copy ------------------------------------------------------------------------- */

static const char *copy_of(const char *model) {
  static char path[300];
  char command[1024];
  snprintf(path, sizeof path, "%s/model", folder);
  snprintf(command, sizeof command, "rm -rf '%s' && cp -r '" MODELS "/%s' '%s'", path, model, path);
  assert_int_equal(system(command), 0);
  return path;
}

static void write_all(const char *path, const char *bytes, size_t n) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, n, file), n);
  assert_int_equal(fclose(file), 0);
}

/* Replaces the first `from` after the first `after` in a file of the copy. */
static void replace(const char *name, const char *after, const char *from, const char *to) {
  char path[400];
  size_t n;
  snprintf(path, sizeof path, "%s/model/%s", folder, name);
  AUTOFREE char *text = test_read(path, &n);
  char *start = memmem(text, n, after, strlen(after));
  assert_non_null(start);
  char *at = memmem(start, n - (size_t)(start - text), from, strlen(from));
  assert_non_null(at);
  size_t head = (size_t)(at - text), cut = strlen(from), put = strlen(to);
  AUTOFREE char *changed = malloc(n + put);
  assert_non_null(changed);
  memcpy(changed, text, head);
  memcpy(changed + head, to, put);
  memcpy(changed + head + put, at + cut, n - head - cut);
  write_all(path, changed, n - cut + put);
}

static void refused(const char *cause) {
  char path[400];
  snprintf(path, sizeof path, "%s/model", folder);
  kf_encoder *encoder = NULL;
  kf_status status =
      kf_encoder_load(ctx, path, &(kf_encoder_options){.precision = KF_PRECISION_F32}, &encoder);
  assert_null(encoder);
  if ((status != KF_ERR_DATA && status != KF_ERR_IO) || strstr(kf_errmsg(ctx), cause) == NULL)
    fail_msg("status %d, message '%s'; wanted '%s'", (int)status, kf_errmsg(ctx), cause);
}

static kf_encoder *accepted(void) {
  char path[400];
  kf_encoder *encoder = NULL;
  snprintf(path, sizeof path, "%s/model", folder);
  said[0] = '\0';
  assert_ok(ctx, kf_encoder_load(ctx, path, &(kf_encoder_options){.precision = KF_PRECISION_F32},
                                 &encoder));
  return encoder;
}

/* --- config.json ----------------------------------------------------------------------------- */

TEST(lies_in_the_config) {
  static const struct {
    const char *after, *from, *to, *cause;
  } lies[] = {
      {"", "\"model_type\": \"clip\"", "\"model_kind\": \"clip\"", "no model_type"},
      {"", "\"model_type\": \"clip\"", "\"model_type\": \"bert\"", "model_type is 'bert'"},
      {"", "\"text_config\": {", "\"text_config\": 7, \"other\": {",
       "text_config is not a JSON object"},
      {"", "\"projection_dim\": 24", "\"projection_dim\": 0", "projection_dim is 0"},
      {"", "\"projection_dim\": 24", "\"projection_dim\": 23",
       "'text_projection.weight' has the shape [24, 32]"},
      {"", "\"projection_dim\": 24", "\"projection_dim\": null",
       "projection_dim is not a whole number"},
      {"vision_config", "\"num_attention_heads\": 3", "\"num_attention_heads\": 5",
       "vision_config.hidden_size 48 is not a multiple of num_attention_heads 5"},
      {"vision_config", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 0",
       "vision_config.num_hidden_layers is 0"},
      {"vision_config", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 2147483648",
       "vision_config.num_hidden_layers is 2147483648"},
      {"vision_config", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": -1",
       "num_hidden_layers is -1"},
      {"vision_config", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 2.5",
       "num_hidden_layers is not a whole number"},
      {"vision_config", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1",
       "'vision_model.encoder.layers.1."},
      {"vision_config", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3",
       "no tensor 'vision_model.encoder.layers.2.layer_norm1.weight'"},
      {"vision_config", "\"hidden_size\": 48", "\"hidden_size\": 9999999",
       "vision_config.hidden_size is 9999999"},
      {"vision_config", "\"hidden_size\": 48,", "",
       "'vision_model.embeddings.patch_embedding.weight'"},
      {"vision_config", "\"intermediate_size\": 96", "\"intermediate_size\": 97",
       "'vision_model.encoder.layers.0.mlp.fc1.weight' has the shape [96, 48], but config.json "
       "asks for [97, 48]"},
      {"vision_config", "\"image_size\": 32", "\"image_size\": 4", "patch_size 8 is larger"},
      {"vision_config", "\"image_size\": 32", "\"image_size\": 4097", "image_size is 4097"},
      {"vision_config", "\"patch_size\": 8", "\"patch_size\": 0", "patch_size is 0"},
      {"vision_config", "\"num_channels\": 3", "\"num_channels\": 1", "num_channels is 1"},
      {"vision_config", "quick_gelu", "relu", "hidden_act is 'relu'"},
      {"vision_config", "\"quick_gelu\"", "3", "hidden_act is not a string"},
      {"vision_config", "\"layer_norm_eps\": 1e-05", "\"layer_norm_eps\": -1", "layer_norm_eps"},
      {"vision_config", "\"layer_norm_eps\": 1e-05", "\"layer_norm_eps\": 1e-60", "layer_norm_eps"},
      {"vision_config", "\"layer_norm_eps\": 1e-05", "\"layer_norm_eps\": \"1\"", "layer_norm_eps"},
      {"text_config", "\"vocab_size\": 525", "\"vocab_size\": 526",
       "'text_model.embeddings.token_embedding.weight'"},
      {"text_config", "\"max_position_embeddings\": 16", "\"max_position_embeddings\": 77",
       "'text_model.embeddings.position_embedding.weight'"},
      {"text_config", "\"eos_token_id\": 2", "\"eos_token_id\": [2]", "text_config.eos_token_id"},
      {"text_config", "\"eos_token_id\": 2", "\"eos_token_id\": 5", "eos_token_id 5"},
      {"", "{", "[", "config.json"},
  };
  for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
    copy_of("clip-f32");
    replace("config.json", lies[i].after, lies[i].from, lies[i].to);
    refused(lies[i].cause);
  }
  copy_of("clip-f32");
  unlink(test_path(folder, "model/config.json"));
  refused("model: not a model folder: config.json cannot be opened");
}

/* --- folders that users have ----------------------------------------------------------------- */

/* Runs a shell command in the copy. */
static void in_copy(const char *command) {
  char line[1024];
  copy_of("clip-f32");
  snprintf(line, sizeof line, "cd '%s/model' && %s", folder, command);
  assert_int_equal(system(line), 0);
}

TEST(other_kinds_of_folders) {
  static const struct {
    const char *command, *cause;
  } kinds[] = {
      {"mv model.safetensors pytorch_model.bin",
       "model: has its weights in pytorch_model.bin, a pickle"},
      {"rm model.safetensors && echo {} > pytorch_model.bin.index.json", ".save_pretrained('"},
      {"rm config.json && mv model.safetensors open_clip_model.safetensors",
       "in the format of open_clip (open_clip_model.safetensors)"},
      {"rm config.json model.safetensors && echo {} > open_clip_config.json",
       "model: is a model in the format of open_clip (open_clip_config.json)"},
      {"mv model.safetensors open_clip_pytorch_model.bin",
       "in the format of open_clip (open_clip_pytorch_model.bin)"},
      {"rm model.safetensors", "model: has neither model.safetensors nor "},
      {"mkdir 0_CLIPModel && mv config.json model.safetensors 0_CLIPModel",
       "the model is in its folder 0_CLIPModel"},
      {"mkdir -p snapshots/abc && mv config.json model.safetensors snapshots/abc",
       "model/snapshots/abc"},
      {"cd .. && rm -r model && echo x > model", "model: is a file; a model is the folder with"},
      {"cd .. && rm -r model", "model: not a model folder: config.json cannot be opened"},
  };
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    in_copy(kinds[i].command);
    refused(kinds[i].cause);
  }
}

/* A name on a hub is two words with a slash, if there is no such folder. */
TEST(names_on_a_hub) {
  static const struct {
    const char *path;
    bool hub;
  } names[] = {{"openai/clip-vit-base-patch32", true},
               {"Org_1/Model.v2", true},
               {"openai/clip/x", false},
               {"./clip", false},
               {"../clip", false},
               {"openai/.clip", false},
               {"no-such-clip", false},
               {"no-such/", false},
               {"/no/such", false},
               {"no-such/a b", false}};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    kf_encoder *encoder = NULL;
    assert_int_equal(kf_encoder_load(ctx, names[i].path, NULL, &encoder), KF_ERR_IO);
    bool hub = strstr(kf_errmsg(ctx), "name of a model on a hub, download its files") != NULL;
    assert_int_equal(hub, names[i].hub);
    assert_int_equal(strncmp(kf_errmsg(ctx), names[i].path, strlen(names[i].path)), 0);
  }
}

TEST(many_patches_are_refused) {
  copy_of("clip-f32");
  replace("config.json", "vision_config", "\"image_size\": 32", "\"image_size\": 4096");
  replace("config.json", "vision_config", "\"patch_size\": 8", "\"patch_size\": 2");
  refused("makes 4194304 patches");
}

static void assert_same_config(const kf_tower_config *a, const kf_tower_config *b) {
  assert_int_equal(a->present, b->present);
  assert_int_equal(a->width, b->width);
  assert_int_equal(a->inner, b->inner);
  assert_int_equal(a->layers, b->layers);
  assert_int_equal(a->heads, b->heads);
  assert_int_equal(a->activation, b->activation);
  assert_true(a->eps == b->eps);
  assert_int_equal(a->image_size, b->image_size);
  assert_int_equal(a->patch_size, b->patch_size);
  assert_int_equal(a->context, b->context);
  assert_int_equal(a->vocabulary, b->vocabulary);
  assert_int_equal(a->end, b->end);
}

TEST(defaults_are_the_references) {
  kf_err err;
  kf_encoder_config c;
  copy_of("clip-f32");
  write_all(test_path(folder, "model/config.json"), "{\"model_type\": \"clip\"}", 22);
  const char *path = test_path(folder, "model");
  assert_int_equal(kf_config_read(path, &c, &err), KF_OK);
  assert_int_equal(c.dim, 512);
  kf_tower_config image = {.present = true,
                           .width = 768,
                           .inner = 3072,
                           .layers = 12,
                           .heads = 12,
                           .activation = KF_ACT_QUICK_GELU,
                           .eps = 1e-5f,
                           .image_size = 224,
                           .patch_size = 32};
  kf_tower_config text = {.present = true,
                          .width = 512,
                          .inner = 2048,
                          .layers = 12,
                          .heads = 8,
                          .activation = KF_ACT_QUICK_GELU,
                          .eps = 1e-5f,
                          .context = 77,
                          .vocabulary = 49408,
                          .end = 49407};
  assert_same_config(&c.image, &image);
  assert_same_config(&c.text, &text);
  write_all(test_path(folder, "model/config.json"), "{\"model_type\": \"siglip\"}", 24);
  assert_int_equal(kf_config_read(path, &c, &err), KF_OK);
  image.patch_size = 16;
  image.eps = 1e-6f;
  image.activation = KF_ACT_GELU_TANH;
  assert_int_equal(c.dim, 768);
  assert_same_config(&c.image, &image);
  assert_false(c.text.present);
}

/* Every activation name that both the reference and koofu know. */
TEST(names_of_activations) {
  static const struct {
    const char *name;
    kf_activation activation;
  } known[] = {{"quick_gelu", KF_ACT_QUICK_GELU},
               {"gelu", KF_ACT_GELU},
               {"gelu_python", KF_ACT_GELU},
               {"gelu_new", KF_ACT_GELU_TANH},
               {"gelu_pytorch_tanh", KF_ACT_GELU_TANH},
               {"gelu_python_tanh", KF_ACT_GELU_TANH}};
  copy_of("clip-f32");
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
    kf_err err;
    kf_encoder_config c;
    char text[200];
    int n = snprintf(text, sizeof text,
                     "{\"model_type\": \"clip\", \"vision_config\": {\"hidden_act\": \"%s\"}}",
                     known[i].name);
    write_all(test_path(folder, "model/config.json"), text, (size_t)n);
    assert_int_equal(kf_config_read(test_path(folder, "model"), &c, &err), KF_OK);
    assert_int_equal(c.image.activation, known[i].activation);
    assert_int_equal(c.text.activation, KF_ACT_QUICK_GELU);
  }
}

TEST(settings_that_cannot_be) {
  copy_of("siglip");
  kf_encoder_free(accepted());
  replace("config.json", "\"vision_config\"", "{", "{\"vision_use_head\": true, ");
  kf_encoder_free(accepted());
  replace("config.json", "vision_use_head", "true", "false");
  refused("vision_use_head is off; without a head there are no embeddings");
  copy_of("clip-f32");
  assert_int_equal(truncate(test_path(folder, "model/config.json"), (16 << 20) + 1), 0);
  refused("config.json: has 16777217 bytes, more than the limit of 16777216");
}

/* --- tensors --------------------------------------------------------------------------------- */

#define OUT_PROJ "vision_model.encoder.layers.1.self_attn.out_proj.weight"

TEST(changed_tensors) {
  /* The new text is as long as the old one, so that the header stays valid. */
  static const struct {
    const char *after, *from, *to, *cause;
  } changes[] = {
      {"", OUT_PROJ, "vision_model.encoder.layers.1.self_attn.out_prox.weight",
       "there is no tensor '" OUT_PROJ "'"},
      {"", "visual_projection.weight", "visual_projektion.weight",
       "there is no tensor 'visual_projection.weight'"},
      {"\"visual_projection.weight", "[24,48]", "[48,24]",
       "'visual_projection.weight' has the shape [48, 24], but config.json asks for [24, 48]"},
      {"\"" OUT_PROJ, "\"F32\"", "\"I32\"", "'" OUT_PROJ "' is I32"},
      {"\"" OUT_PROJ, "[48,48]", "[48,49]", "'" OUT_PROJ "' needs"},
      {"", "logit_scale\"", "text_model.\"", "'text_model.' has no place"},
  };
  for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
    copy_of("clip-f32");
    assert_int_equal(strlen(changes[i].from), strlen(changes[i].to));
    replace("model.safetensors", changes[i].after, changes[i].from, changes[i].to);
    refused(changes[i].cause);
  }
}

/* The same in the header of the weights, whose length may change. */
static void replace_in_header(const char *after, const char *from, const char *to) {
  char path[400];
  size_t n;
  uint64_t length;
  replace("model.safetensors", after, from, to);
  snprintf(path, sizeof path, "%s/model/model.safetensors", folder);
  AUTOFREE char *bytes = test_read(path, &n);
  memcpy(&length, bytes, sizeof length);
  length += strlen(to) - strlen(from);
  memcpy(bytes, &length, sizeof length);
  write_all(path, bytes, n);
}

/* Writes 4 bytes into a tensor of the copy, at an element. */
static void poke(const char *name, uint64_t element, float value) {
  char path[400];
  kf_err err;
  kf_st st;
  snprintf(path, sizeof path, "%s/model/model.safetensors", folder);
  assert_int_equal(kf_st_open(&st, path, &err), KF_OK);
  const kf_st_tensor *t = kf_st_find(&st, name);
  assert_non_null(t);
  FILE *file = fopen(path, "r+b");
  assert_non_null(file);
  assert_int_equal(fseek(file, (long)(t->offset + 4 * element), SEEK_SET), 0);
  assert_int_equal(fwrite(&value, 4, 1, file), 1);
  assert_int_equal(fclose(file), 0);
  kf_st_close(&st);
}

TEST(weights_that_are_no_numbers) {
  static const struct {
    const char *name;
    uint64_t element;
    float value;
  } bad[] = {{OUT_PROJ, 48 * 48 - 1, NAN},
             {"text_model.embeddings.token_embedding.weight", 525 * 32 - 1, INFINITY},
             {"vision_model.embeddings.class_embedding", 3, -INFINITY},
             {"vision_model.encoder.layers.0.self_attn.v_proj.bias", 47, NAN},
             {"vision_model.encoder.layers.0.self_attn.k_proj.weight", 5, NAN}};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    copy_of("clip-f32");
    poke(bad[i].name, bad[i].element, bad[i].value);
    char cause[200];
    snprintf(cause, sizeof cause, "tensor '%s' holds NaN or infinite weights", bad[i].name);
    refused(cause);
  }
}

/* Finite weights may still be too large. Skipping bad pictures also skips these. */
TEST(embeddings_that_overflow) {
  copy_of("clip-f32");
  poke("vision_model.post_layernorm.weight", 0, 1e30f);
  poke("visual_projection.weight", 0, 1e30f);
  AUTO(kf_encoder) *encoder = accepted();
  const char *path = MODELS "/pictures/a.png";
  float row[64] = {1};
  kf_status status = KF_OK;
  assert_true(kf_encoder_dim(encoder) <= 64);
  assert_error(ctx, KF_ERR_DATA, "a.png: the embedding is not finite",
               kf_encode_images(ctx, encoder, &path, 1, row, NULL));
  said[0] = '\0';
  assert_ok(ctx, kf_encode_images(ctx, encoder, &path, 1, row, &status));
  assert_int_equal(status, KF_ERR_DATA);
  assert_non_null(strstr(said, "a.png: the embedding is not finite"));
  for (uint32_t d = 0; d < kf_encoder_dim(encoder); d++) assert_true(row[d] == 0);
}

/* Every weight counts, and so does every setting. */
TEST(checksum_of_changes) {
  copy_of("clip-f32");
  kf_encoder *before = accepted();
  poke("text_model.final_layer_norm.bias", 31, 0.25f);
  kf_encoder *after = accepted();
  assert_true(kf_encoder_checksum(before) != kf_encoder_checksum(after));
  replace("config.json", "vision_config", "\"layer_norm_eps\": 1e-05", "\"layer_norm_eps\": 1e-06");
  kf_encoder *other = accepted();
  assert_true(kf_encoder_checksum(other) != kf_encoder_checksum(after));
  replace("preprocessor_config.json", "image_mean", "0.48145466", "0.48145467");
  AUTO(kf_encoder) *shifted = accepted();
  assert_true(kf_encoder_checksum(other) != kf_encoder_checksum(shifted));
  kf_encoder_free(before);
  kf_encoder_free(after);
  kf_encoder_free(other);
  /* The same bytes in another type are different numbers. */
  copy_of("clip-f16");
  before = accepted();
  replace_in_header("\"vision_model.post_layernorm.bias\"", "\"F16\"", "\"BF16\"");
  after = accepted();
  assert_true(kf_encoder_checksum(before) != kf_encoder_checksum(after));
  kf_encoder_free(before);
  kf_encoder_free(after);
}

TEST(extras_are_told) {
  copy_of("clip-f32");
  kf_encoder_free(accepted());
  assert_string_equal(said, "");
  replace("model.safetensors", "", "logit_scale", "other_scale");
  kf_encoder_free(accepted());
  assert_non_null(strstr(said, "'other_scale'"));
  /* Old files hold position ids, which are not worth a note. */
  replace_in_header("", "other_scale", "vision_model.embeddings.position_ids");
  kf_encoder_free(accepted());
  assert_string_equal(said, "");
}

TEST(files_that_end_early) {
  copy_of("clip-f32");
  char path[400];
  size_t n;
  snprintf(path, sizeof path, "%s/model/model.safetensors", folder);
  free(test_read(path, &n));
  assert_int_equal(truncate(path, (off_t)n - 4), 0);
  refused("model.safetensors: the file is truncated: tensor");
  assert_int_equal(truncate(path, 5), 0);
  refused("too few for a .safetensors");
  unlink(path);
  refused("neither model.safetensors nor");
}

/* --- several files --------------------------------------------------------------------------- */

TEST(indexes) {
  static const struct {
    const char *from, *to, *cause;
  } lies[] = {
      {"\"model-00002-of-00003.safetensors\"", "\"../model/model-00002-of-00003.safetensors\"",
       "not the name of a file in the same folder"},
      {"\"model-00002-of-00003.safetensors\"", "\"/etc/passwd\"", "not the name of a file"},
      {"\"model-00002-of-00003.safetensors\"", "\"\"", "not the name of a file"},
      {"\"model-00002-of-00003.safetensors\"", "\"..\"", "not the name of a file"},
      {"\"model-00002-of-00003.safetensors\"", "17", "not the name of a file"},
      {"\"model-00002-of-00003.safetensors\"", "\"model-00009-of-00003.safetensors\"",
       "model-00009-of-00003.safetensors: cannot be opened"},
      {"\"model-00002-of-00003.safetensors\"", "\"model-00003-of-00003.safetensors\"",
       "model-00003-of-00003.safetensors: there is no tensor '"},
      {"\"model-00002-of-00003.safetensors\"", "\"config.json\"",
       "config.json: is not a .safetensors"},
      {"weight_map", "weight_mop", "no object 'weight_map'"},
      {"\"visual_projection.weight\"", "\"visual_projection.wait\"",
       "no tensor 'visual_projection.wait'"},
      {"{", "[", "index.json"},
  };
  for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
    copy_of("clip-bf16");
    replace("model.safetensors.index.json", "", lies[i].from, lies[i].to);
    refused(lies[i].cause);
  }
  copy_of("clip-bf16");
  unlink(test_path(folder, "model/model-00003-of-00003.safetensors"));
  refused("model-00003-of-00003.safetensors: cannot be opened");
}

/* One file under more names than files may be open at a time. */
TEST(too_many_files) {
  enum { FILES = 257 };
  kf_string header = {0}, index = {0};
  copy_of("clip-bf16");
  kf_string_addf(&header, "........{");
  kf_string_addf(&index, "{\"weight_map\": {");
  for (int i = 0; i < FILES; i++) {
    const char *comma = i > 0 ? "," : "";
    kf_string_addf(&header, "%s\"t%d\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[%d,%d]}",
                   comma, i, 4 * i, 4 * i + 4);
    kf_string_addf(&index, "%s\"t%d\": \"%d.safetensors\"", comma, i, i);
  }
  kf_string_addf(&header, "}");
  kf_string_addf(&index, "}}");
  uint64_t length = header.n - sizeof length;
  memcpy(header.data, &length, sizeof length);
  static const char zeros[4 * FILES];
  kf_string_add(&header, zeros, sizeof zeros);
  write_all(test_path(folder, "model/0.safetensors"), header.data, header.n);
  write_all(test_path(folder, "model/model.safetensors.index.json"), index.data, index.n);
  for (int i = 1; i < FILES; i++) {
    char name[40];
    snprintf(name, sizeof name, "model/%d.safetensors", i);
    assert_int_equal(symlink("0.safetensors", test_path(folder, name)), 0);
  }
  refused("names more than 256 files");
  kf_string_clear(&header);
  kf_string_clear(&index);
}

/* --- the end of a text ------------------------------------------------------------------------ */

/* The first end token. If there is none, the reference's search returns the first token, and so
 * does koofu; with the old number 2 it is the first of the largest. */
TEST(ends_of_texts) {
  static const int32_t tokens[] = {5, 9, 7, 9, 7, 2};
  static const struct {
    int64_t end;
    uint32_t context, at;
  } cases[] = {{7, 6, 2}, {5, 6, 0}, {9, 6, 1}, {4, 6, 0}, {7, 2, 0}, {2, 6, 1}, {2, 1, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    kf_tower_config config = {.context = cases[i].context, .end = cases[i].end};
    assert_int_equal(kf_text_end(&config, tokens), cases[i].at);
  }
}

/* --- large models ----------------------------------------------------------------------------- */

/* A tensor of the copy gets more rows: new ones after all data, rising from 0 to 1. The old ones
 * stay as an unused tensor. */
static void make_longer(const char *name, size_t rows, size_t width) {
  char path[400], quoted[100], entry[300];
  size_t n, more = rows * width * sizeof(float);
  uint64_t length;
  snprintf(path, sizeof path, "%s/model/model.safetensors", folder);
  AUTOFREE char *bytes = test_read(path, &n), *longer = malloc(n + more);
  assert_non_null(longer);
  memcpy(&length, bytes, sizeof length);
  memcpy(longer, bytes, n);
  for (size_t i = 0; i < rows * width; i++) {
    float value = (float)i / (float)(rows * width);
    memcpy(longer + n + i * sizeof value, &value, sizeof value);
  }
  write_all(path, longer, n + more);
  size_t end = n - sizeof length - (size_t)length; /* of the data, as offsets count */
  snprintf(quoted, sizeof quoted, "\"%s\"", name);
  snprintf(entry, sizeof entry,
           "%s:{\"dtype\":\"F32\",\"shape\":[%zu,%zu],\"data_offsets\":[%zu,%zu]},\"old_rows\"",
           quoted, rows, width, end, end + more);
  replace_in_header("", quoted, entry);
}

enum { LARGE_DIM = 24 };

/* Three inputs of which the first and the last are the same, together and one by one. */
static void compare_three(kf_encoder *e, const void *inputs, size_t size, bool images) {
  float rows[3 * LARGE_DIM], one[LARGE_DIM];
  assert_ok(ctx, images ? kf_encode_pixels(ctx, e, inputs, 3, rows)
                        : kf_encode_tokens(ctx, e, inputs, 3, rows));
  assert_memory_equal(rows, rows + 2 * LARGE_DIM, sizeof one);
  assert_memory_not_equal(rows, rows + LARGE_DIM, sizeof one);
  for (size_t i = 0; i < 3; i++) {
    const void *input = (const char *)inputs + i * size;
    assert_ok(ctx, images ? kf_encode_pixels(ctx, e, input, 1, one)
                          : kf_encode_tokens(ctx, e, input, 1, one));
    assert_memory_equal(rows + i * LARGE_DIM, one, sizeof one);
  }
}

/* A text may have more rows than a usual batch. */
TEST(long_contexts) {
  enum { LONG = 600 };
  copy_of("clip-f32");
  make_longer("text_model.embeddings.position_embedding.weight", LONG, 32);
  replace("config.json", "text_config", "\"max_position_embeddings\": 16",
          "\"max_position_embeddings\": 600");
  AUTO(kf_encoder) *e = accepted();
  assert_int_equal(kf_encoder_context(e), LONG);
  static int32_t tokens[3 * LONG];
  for (int i = 0; i < 3 * LONG; i++) tokens[i] = 1 + i % LONG % 7;
  tokens[LONG - 1] = tokens[LONG + 4] = tokens[3 * LONG - 1] = 524; /* long, short, long */
  compare_three(e, tokens, LONG * sizeof *tokens, false);
}

/* And so may a picture: ViT-L/14 at 336 pixels has 577. */
TEST(large_pictures) {
  enum { SIDE = 184, ROWS = 23 * 23 + 1, PIXELS = 3 * SIDE * SIDE };
  copy_of("clip-f32");
  make_longer("vision_model.embeddings.position_embedding.weight", ROWS, 48);
  replace("config.json", "vision_config", "\"image_size\": 32", "\"image_size\": 184");
  unlink(test_path(folder, "model/preprocessor_config.json"));
  AUTO(kf_encoder) *e = accepted();
  assert_int_equal(kf_encoder_image_size(e), SIDE);
  static float pixels[3 * PIXELS];
  for (size_t i = 0; i < 3 * PIXELS; i++)
    pixels[i] = (float)(i % PIXELS % 101) / (i / PIXELS == 1 ? 70 : 101);
  compare_three(e, pixels, PIXELS * sizeof *pixels, true);
}

FIXTURES(.before = begin, .after = finish);
