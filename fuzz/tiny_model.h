/* tiny_model.h - for the fuzz targets of encoders: the weights, all zero, of a CLIP image tower of
 * four columns and one layer, in any number of files. */
#ifndef KF_TINY_MODEL_H
#define KF_TINY_MODEL_H

#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TINY_CONFIG                                                                                \
  "{\"model_type\": \"clip_vision_model\", \"hidden_size\": 4, \"intermediate_size\": 5, "         \
  "\"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"image_size\": 4, \"patch_size\": 2, "   \
  "\"projection_dim\": 3}"

static const struct {
  const char *name, *shape;
  unsigned elements;
} tiny_tensors[] = {
    {"vision_model.embeddings.class_embedding", "[4]", 4},
    {"vision_model.embeddings.patch_embedding.weight", "[4,3,2,2]", 48},
    {"vision_model.embeddings.position_embedding.weight", "[5,4]", 20},
    {"vision_model.pre_layrnorm.weight", "[4]", 4},
    {"vision_model.pre_layrnorm.bias", "[4]", 4},
    {"vision_model.encoder.layers.0.layer_norm1.weight", "[4]", 4},
    {"vision_model.encoder.layers.0.layer_norm1.bias", "[4]", 4},
    {"vision_model.encoder.layers.0.self_attn.q_proj.weight", "[4,4]", 16},
    {"vision_model.encoder.layers.0.self_attn.q_proj.bias", "[4]", 4},
    {"vision_model.encoder.layers.0.self_attn.k_proj.weight", "[4,4]", 16},
    {"vision_model.encoder.layers.0.self_attn.k_proj.bias", "[4]", 4},
    {"vision_model.encoder.layers.0.self_attn.v_proj.weight", "[4,4]", 16},
    {"vision_model.encoder.layers.0.self_attn.v_proj.bias", "[4]", 4},
    {"vision_model.encoder.layers.0.self_attn.out_proj.weight", "[4,4]", 16},
    {"vision_model.encoder.layers.0.self_attn.out_proj.bias", "[4]", 4},
    {"vision_model.encoder.layers.0.layer_norm2.weight", "[4]", 4},
    {"vision_model.encoder.layers.0.layer_norm2.bias", "[4]", 4},
    {"vision_model.encoder.layers.0.mlp.fc1.weight", "[5,4]", 20},
    {"vision_model.encoder.layers.0.mlp.fc1.bias", "[5]", 5},
    {"vision_model.encoder.layers.0.mlp.fc2.weight", "[4,5]", 20},
    {"vision_model.encoder.layers.0.mlp.fc2.bias", "[4]", 4},
    {"vision_model.post_layernorm.weight", "[4]", 4},
    {"vision_model.post_layernorm.bias", "[4]", 4},
    {"visual_projection.weight", "[3,4]", 12},
};
enum { N_TINY = sizeof tiny_tensors / sizeof tiny_tensors[0] };

/* Writes tensors [first, end) to a file. */
static inline void tiny_write(const char *name, unsigned first, unsigned end) {
  static char bytes[8192];
  size_t at = 8, offset = 0;
  for (unsigned i = first; i < end; i++) {
    size_t more = 4 * (size_t)tiny_tensors[i].elements;
    at += (size_t)snprintf(bytes + at, sizeof bytes - at,
                           "%s\"%s\":{\"dtype\":\"F32\",\"shape\":%s,\"data_offsets\":[%zu,%zu]}",
                           i == first ? "{" : ",", tiny_tensors[i].name, tiny_tensors[i].shape,
                           offset, offset + more);
    offset += more;
  }
  bytes[at++] = '}';
  uint64_t length = at - 8;
  if (at + offset > sizeof bytes) abort();
  memcpy(bytes, &length, 8);
  memset(bytes + at, 0, offset);
  fuzz_write(name, bytes, at + offset);
}

/* Loads the folder that a file is in, and encodes a picture with what was loaded. */
static inline void tiny_use(const char *file) {
  char folder[200];
  snprintf(folder, sizeof folder, "%s", file);
  *strrchr(folder, '/') = '\0';
  kf_ctx *ctx;
  kf_encoder *encoder;
  if (kf_ctx_new(&(kf_ctx_options){.threads = 1, .isa = KF_ISA_PLAIN}, &ctx) != KF_OK) abort();
  if (kf_encoder_load(ctx, folder, NULL, &encoder) == KF_OK) {
    float pixels[3 * 5 * 5] = {1}, row[3];
    uint32_t size = kf_encoder_image_size(encoder); /* the weights allow for four whole patches */
    if (size < 4 || size > 5 || kf_encoder_dim(encoder) != 3) abort();
    if (kf_encode_pixels(ctx, encoder, pixels, 1, row) != KF_OK) abort();
    kf_encoder_free(encoder);
  } else if (kf_errmsg(ctx)[0] == '\0') {
    abort(); /* every failure has a message */
  }
  kf_ctx_free(ctx);
}

#endif
