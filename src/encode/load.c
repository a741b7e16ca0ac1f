/* load.c - the weights of the towers: which tensors there must be, and where they go.
 *
 * First every tensor that the config asks for is found and its type and shape compared (a plan); only
 * then memory is taken, one block for everything, so that a file that promises too much costs nothing.
 * Then the parts of the plan are read, each by one thread: 32 rows at a time are converted to f32,
 * looked through for NaN and infinities, and packed. What is in memory besides the packed weights is
 * these rows, one set for each thread.
 *
 * Matrices are packed for the kernels; queries, keys and values lie one below the other as one matrix.
 * Vectors and positions become f32. The table of tokens, of which few rows are ever read, stays as it
 * is in the file.
 *
 * A tensor that belongs to a wanted tower and has no place in it is an error: the config then describes
 * another model, and embeddings would be wrong without a word. Tensors elsewhere are only remarked upon,
 * as the reference does. */
#include "encode/tower.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

/* --- the plan -------------------------------------------------------------------------------- */

typedef enum part_kind { PART_MATRIX, PART_VECTOR, PART_TABLE } part_kind;

/* One or three tensors that make one thing in memory. */
typedef struct member {
  part_kind kind;
  uint32_t n_sources; /* tensors of one shape, one below the other */
  struct kf_weight *source[3];
  uint64_t hash[3];
  size_t n, k;     /* rows and columns of one source; a vector has one column */
  uint64_t offset; /* in the block of memory */
  void *target;    /* the pointer that will point there */
} member;

typedef struct plan {
  kf_ctx *ctx;
  const kf_net_kernel *net;
  kf_weights weights;
  member *parts;
  size_t n, room;
  uint64_t bytes;   /* of the block of memory */
  size_t stage;     /* elements that a thread converts at a time */
  uint64_t to_read; /* bytes in files */
  unsigned char *memory;
  atomic_uint_fast64_t done;
  uint64_t reported; /* by the caller's thread */
} plan;

typedef struct shape {
  uint32_t ndim;
  uint64_t size[4];
} shape;

#define SHAPE1(a)          ((shape){1, {(a)}})
#define SHAPE2(a, b)       ((shape){2, {(a), (b)}})
#define SHAPE3(a, b, c)    ((shape){3, {(a), (b), (c)}})
#define SHAPE4(a, b, c, d) ((shape){4, {(a), (b), (c), (d)}})

#define NAME_SIZE 160

static void write_shape(char *text, size_t size, uint32_t ndim, const uint64_t *sizes) {
  size_t at = (size_t)snprintf(text, size, "[");
  for (uint32_t i = 0; i < ndim && at < size; i++)
    at += (size_t)snprintf(text + at, size - at, "%s%" PRIu64, i > 0 ? ", " : "", sizes[i]);
  if (at < size) snprintf(text + at, size - at, "]");
}

static kf_status find_tensor(plan *p, const char *name, shape wanted, struct kf_weight **out,
                             kf_err *err) {
  struct kf_weight *weight = kf_weights_find(&p->weights, name);
  if (weight == NULL)
    return kf_fail(err, KF_ERR_DATA, "%s: there is no tensor '%s'", p->weights.path, name);
  const kf_st_tensor *t = weight->tensor;
  if (t->type != KF_TYPE_F32 && t->type != KF_TYPE_F16 && t->type != KF_TYPE_BF16) {
    return kf_fail(err, KF_ERR_DATA, "%s: tensor '%s' is %s, but must be F32, F16 or BF16",
                   weight->st->in.path, name, t->type_name);
  }
  bool fits = t->ndim == wanted.ndim;
  for (uint32_t i = 0; fits && i < wanted.ndim; i++) fits = t->shape[i] == wanted.size[i];
  if (!fits) {
    char has[200], must[200];
    write_shape(has, sizeof has, t->ndim, t->shape);
    write_shape(must, sizeof must, wanted.ndim, wanted.size);
    return kf_fail(err, KF_ERR_DATA,
                   "%s: tensor '%s' has the shape %s, but config.json asks for %s",
                   weight->st->in.path, name, has, must);
  }
  weight->used = true;
  *out = weight;
  return KF_OK;
}

/* Bytes of a part in memory. All sizes are those of tensors in files. */
static uint64_t part_bytes(const plan *p, const member *part) {
  size_t rows = part->n * part->n_sources;
  if (part->kind == PART_MATRIX) return p->net->weights_size(rows, part->k);
  size_t size = part->kind == PART_TABLE ? kf_type_size(part->source[0]->tensor->type) : 4;
  return (rows * part->k * size + 63) / 64 * 64;
}

/* Plans tensors PREFIX + names[0], names[1], … of one shape; *target will point to them. */
static kf_status add_part(plan *p, part_kind kind, void *target, const char *prefix,
                          const char *const *names, uint32_t n_names, shape s, kf_err *err) {
  if (!kf_grow((void **)&p->parts, &p->room, p->n, sizeof *p->parts)) return kf_fail_memory(err);
  member new = {.kind = kind, .n_sources = n_names, .target = target, .n = 1, .k = 1};
  for (uint32_t i = 0; i < n_names; i++) {
    char name[NAME_SIZE];
    snprintf(name, sizeof name, "%s%s", prefix, names[i]);
    KF_TRY(find_tensor(p, name, s, &new.source[i], err));
    p->to_read += new.source[i]->tensor->bytes;
  }
  for (uint32_t i = 0; i < s.ndim; i++)
    *(i == 0 || kind == PART_VECTOR ? &new.n : &new.k) *= s.size[i];
  new.offset = p->bytes;
  p->bytes += part_bytes(p, &new);
  size_t stage = kind == PART_MATRIX ? KF_NET_PANEL * new.k : 0;
  if (stage > p->stage) p->stage = stage;
  p->parts[p->n++] = new;
  return KF_OK;
}

static kf_status add_vector(plan *p, const float **target, const char *prefix, const char *name,
                            shape s, kf_err *err) {
  return add_part(p, PART_VECTOR, target, prefix, &name, 1, s, err);
}

/* NAME.weight [n][k] and, where there is one, NAME.bias. */
static kf_status add_linear(plan *p, kf_linear *out, const char *prefix, const char *name, size_t n,
                            size_t k, bool bias, kf_err *err) {
  char weight[64], bias_name[64];
  const char *const names[] = {weight, bias_name};
  snprintf(weight, sizeof weight, "%s.weight", name);
  snprintf(bias_name, sizeof bias_name, "%s.bias", name);
  *out = (kf_linear){.n = n, .k = k};
  KF_TRY(add_part(p, PART_MATRIX, &out->weights, prefix, names, 1, SHAPE2(n, k), err));
  if (!bias) return KF_OK;
  return add_part(p, PART_VECTOR, &out->bias, prefix, names + 1, 1, SHAPE1(n), err);
}

static kf_status add_norm(plan *p, kf_norm *out, const char *prefix, const char *name,
                          uint32_t width, kf_err *err) {
  char weight[64], bias[64];
  snprintf(weight, sizeof weight, "%s.weight", name);
  snprintf(bias, sizeof bias, "%s.bias", name);
  KF_TRY(add_vector(p, &out->gamma, prefix, weight, SHAPE1(width), err));
  return add_vector(p, &out->beta, prefix, bias, SHAPE1(width), err);
}

static kf_status add_layer(plan *p, kf_layer *out, const kf_tower_config *c, const char *prefix,
                           kf_err *err) {
  static const char *const weights[] = {"self_attn.q_proj.weight", "self_attn.k_proj.weight",
                                        "self_attn.v_proj.weight"};
  static const char *const biases[] = {"self_attn.q_proj.bias", "self_attn.k_proj.bias",
                                       "self_attn.v_proj.bias"};
  size_t d = c->width;
  KF_TRY(add_norm(p, &out->norm1, prefix, "layer_norm1", c->width, err));
  out->qkv = (kf_linear){.n = 3 * d, .k = d};
  KF_TRY(add_part(p, PART_MATRIX, &out->qkv.weights, prefix, weights, 3, SHAPE2(d, d), err));
  KF_TRY(add_part(p, PART_VECTOR, &out->qkv.bias, prefix, biases, 3, SHAPE1(d), err));
  KF_TRY(add_linear(p, &out->out, prefix, "self_attn.out_proj", d, d, true, err));
  KF_TRY(add_norm(p, &out->norm2, prefix, "layer_norm2", c->width, err));
  KF_TRY(add_linear(p, &out->fc1, prefix, "mlp.fc1", c->inner, d, true, err));
  return add_linear(p, &out->fc2, prefix, "mlp.fc2", d, c->inner, true, err);
}

static kf_status add_layers(plan *p, kf_tower *tower, const char *prefix, kf_err *err) {
  tower->layers = kf_alloc_zero(tower->config.layers, sizeof *tower->layers);
  if (tower->layers == NULL) return kf_fail_memory(err);
  for (uint32_t i = 0; i < tower->config.layers; i++) {
    char name[NAME_SIZE];
    snprintf(name, sizeof name, "%sencoder.layers.%" PRIu32 ".", prefix, i);
    KF_TRY(add_layer(p, &tower->layers[i], &tower->config, name, err));
  }
  return KF_OK;
}

/* SigLIP's attention pooling: torch's MultiheadAttention with a learnt query. */
static kf_status add_head(plan *p, kf_tower *tower, kf_err *err) {
  static const char prefix[] = "vision_model.head.";
  static const char *const names[] = {"attention.in_proj_weight", "attention.in_proj_bias"};
  kf_layer *head = &tower->head;
  size_t d = tower->config.width, inner = tower->config.inner;
  KF_TRY(add_vector(p, &tower->probe, prefix, "probe", SHAPE3(1, 1, d), err));
  head->qkv = (kf_linear){.n = 3 * d, .k = d};
  KF_TRY(add_part(p, PART_MATRIX, &head->qkv.weights, prefix, names, 1, SHAPE2(3 * d, d), err));
  KF_TRY(add_part(p, PART_VECTOR, &head->qkv.bias, prefix, names + 1, 1, SHAPE1(3 * d), err));
  KF_TRY(add_linear(p, &head->out, prefix, "attention.out_proj", d, d, true, err));
  KF_TRY(add_norm(p, &head->norm2, prefix, "layernorm", tower->config.width, err));
  KF_TRY(add_linear(p, &head->fc1, prefix, "mlp.fc1", inner, d, true, err));
  return add_linear(p, &head->fc2, prefix, "mlp.fc2", d, inner, true, err);
}

static kf_status add_image_tower(plan *p, const kf_model_config *config, kf_tower *tower,
                                 kf_err *err) {
  static const char prefix[] = "vision_model.", in[] = "vision_model.embeddings.";
  static const char *const patch[] = {"patch_embedding.weight", "patch_embedding.bias"};
  const kf_tower_config *c = &config->image;
  bool clip = config->family == KF_FAMILY_CLIP;
  size_t d = c->width, side = c->patch_size;
  tower->config = *c;
  tower->patch = (kf_linear){.n = d, .k = 3 * side * side};
  KF_TRY(
      add_part(p, PART_MATRIX, &tower->patch.weights, in, patch, 1, SHAPE4(d, 3, side, side), err));
  if (!clip) KF_TRY(add_vector(p, &tower->patch.bias, in, patch[1], SHAPE1(d), err));
  if (clip) KF_TRY(add_vector(p, &tower->class_token, in, "class_embedding", SHAPE1(d), err));
  KF_TRY(add_vector(p, &tower->positions, in, "position_embedding.weight",
                    SHAPE2(kf_patches(c) + (clip ? 1u : 0u), d), err));
  if (clip) KF_TRY(add_norm(p, &tower->before, prefix, "pre_layrnorm", c->width, err));
  KF_TRY(add_layers(p, tower, prefix, err));
  KF_TRY(add_norm(p, &tower->after, prefix, "post_layernorm", c->width, err));
  if (!clip) return add_head(p, tower, err);
  return add_linear(p, &tower->projection, "", "visual_projection", config->dim, d, false, err);
}

static kf_status add_text_tower(plan *p, const kf_model_config *config, kf_tower *tower,
                                kf_err *err) {
  static const char prefix[] = "text_model.";
  static const char *const table[] = {"embeddings.token_embedding.weight"};
  const kf_tower_config *c = &config->text;
  tower->config = *c;
  KF_TRY(add_part(p, PART_TABLE, &tower->tokens, prefix, table, 1, SHAPE2(c->vocabulary, c->width),
                  err));
  tower->tokens_type = p->parts[p->n - 1].source[0]->tensor->type;
  KF_TRY(add_vector(p, &tower->positions, prefix, "embeddings.position_embedding.weight",
                    SHAPE2(c->context, c->width), err));
  KF_TRY(add_layers(p, tower, prefix, err));
  KF_TRY(add_norm(p, &tower->after, prefix, "final_layer_norm", c->width, err));
  return add_linear(p, &tower->projection, "", "text_projection", config->dim, c->width, false,
                    err);
}

/* --- what is left over ----------------------------------------------------------------------- */

static bool begins(const char *name, const char *prefix) {
  return strncmp(name, prefix, strlen(prefix)) == 0;
}

static bool ends(const char *name, const char *ending) {
  size_t n = strlen(name), m = strlen(ending);
  return n >= m && strcmp(name + n - m, ending) == 0;
}

static kf_status check_extras(const plan *p, const kf_model_config *config, kf_err *err) {
  uint32_t n = 0;
  const char *first = NULL;
  for (uint32_t i = 0; i < p->weights.n_tensors; i++) {
    const struct kf_weight *w = &p->weights.tensors[i];
    bool image = begins(w->name, "vision_model.") || begins(w->name, "visual_projection.");
    bool text = begins(w->name, "text_model.") || begins(w->name, "text_projection.");
    if (w->used || ends(w->name, ".position_ids")) continue;
    if ((image && config->image.present) || (text && config->text.present)) {
      return kf_fail(err, KF_ERR_DATA,
                     "%s: tensor '%.100s' has no place in the tower that config.json describes",
                     w->st->in.path, w->name);
    }
    if (image || text || begins(w->name, "logit_")) continue;
    if (n++ == 0) first = w->name;
  }
  if (n > 0)
    kf_log(p->ctx, "%s: %" PRIu32 " tensors belong to no tower and are left out: '%.100s'%s",
           p->weights.path, n, first, n > 1 ? ", …" : "");
  return KF_OK;
}

/* --- reading --------------------------------------------------------------------------------- */

typedef struct stage {
  unsigned char *raw; /* elements as in the file */
  float *values;
} stage;

static bool all_finite(const float *x, size_t n) {
  uint32_t bad = 0;
  for (size_t i = 0; i < n; i++) {
    uint32_t bits;
    memcpy(&bits, x + i, sizeof bits);
    bad |= (bits & 0x7F800000u) == 0x7F800000u;
  }
  return bad == 0;
}

/* Reads n elements of a tensor: as they are to raw, and as f32 to values. */
static kf_status read_piece(const plan *p, const struct kf_weight *w, uint64_t first, size_t n,
                            void *raw, float *values, kf_checksum *hash, kf_err *err) {
  const kf_st_tensor *t = w->tensor;
  size_t size = kf_type_size(t->type);
  KF_TRY(kf_in_read(&w->st->in, t->offset + first * size, raw, n * size, err));
  kf_checksum_add(hash, raw, n * size);
  kf_decode_f32(p->ctx->kernels, t->type, raw, n, values);
  if (all_finite(values, n)) return KF_OK;
  return kf_fail(err, KF_ERR_DATA, "%s: tensor '%s' holds NaN or infinite weights", w->st->in.path,
                 w->name);
}

static kf_status read_matrix(const plan *p, member *part, const stage *s, kf_checksum *hash,
                             kf_err *err) {
  size_t total = part->n * part->n_sources, k = part->k;
  for (size_t row = 0; row < total; row += KF_NET_PANEL) {
    size_t count = total - row < KF_NET_PANEL ? total - row : KF_NET_PANEL;
    for (size_t r = row, take; r < row + count; r += take) {
      size_t source = r / part->n, in = r % part->n;
      take = part->n - in < row + count - r ? part->n - in : row + count - r;
      KF_TRY(read_piece(p, part->source[source], in * k, take * k, s->raw,
                        s->values + (r - row) * k, &hash[source], err));
    }
    p->net->pack(s->values, total, k, row, count, p->memory + part->offset);
  }
  return KF_OK;
}

static kf_status read_elements(const plan *p, member *part, const stage *s, kf_checksum *hash,
                               kf_err *err) {
  size_t total = part->n * part->k;
  for (uint32_t i = 0; i < part->n_sources; i++) {
    for (size_t at = 0; at < total; at += p->stage) {
      size_t n = total - at < p->stage ? total - at : p->stage, size = 4;
      if (part->kind == PART_TABLE) size = kf_type_size(part->source[i]->tensor->type);
      unsigned char *to = p->memory + part->offset + (i * total + at) * size;
      bool table = part->kind == PART_TABLE;
      KF_TRY(read_piece(p, part->source[i], at, n, table ? to : s->raw, s->values, &hash[i], err));
      if (!table) memcpy(to, s->values, n * sizeof *s->values);
    }
  }
  return KF_OK;
}

static kf_status read_part(plan *p, member *part, const stage *s, kf_err *err) {
  kf_checksum hash[3];
  for (uint32_t i = 0; i < part->n_sources; i++) kf_checksum_start(&hash[i]);
  KF_TRY(part->kind == PART_MATRIX ? read_matrix(p, part, s, hash, err)
                                   : read_elements(p, part, s, hash, err));
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < part->n_sources; i++) {
    part->hash[i] = kf_checksum_value(&hash[i]);
    bytes += part->source[i]->tensor->bytes;
  }
  atomic_fetch_add(&p->done, bytes);
  return KF_OK;
}

static kf_status read_task(void *argument, size_t i, size_t worker, kf_err *err) {
  plan *p = argument;
  stage s = {.raw = kf_alloc(p->stage, 4), .values = kf_alloc(p->stage, sizeof *s.values)};
  kf_status status =
      s.raw != NULL && s.values != NULL ? read_part(p, &p->parts[i], &s, err) : kf_fail_memory(err);
  kf_free(s.raw);
  kf_free(s.values);
  if (status == KF_OK && worker == 0) { /* the caller's own thread */
    p->reported = atomic_load(&p->done);
    status = kf_progress(p->ctx, "weights", p->reported, p->to_read);
    if (status != KF_OK) *err = p->ctx->err;
  }
  return status;
}

/* Names, types and bytes of all tensors, in the order of the plan, whichever thread read them. */
static void hash_parts(const plan *p, kf_checksum *hash) {
  for (size_t i = 0; i < p->n; i++) {
    for (uint32_t j = 0; j < p->parts[i].n_sources; j++) {
      const struct kf_weight *w = p->parts[i].source[j];
      kf_checksum_add(hash, w->name, strlen(w->name) + 1);
      kf_checksum_add(hash, w->tensor->type_name, strlen(w->tensor->type_name) + 1);
      kf_checksum_add(hash, &p->parts[i].hash[j], sizeof p->parts[i].hash[j]);
    }
  }
}

static kf_status make_plan(plan *p, kf_encoder *encoder, const char *folder, kf_err *err) {
  KF_TRY(kf_weights_open(&p->weights, folder, err));
  const kf_model_config *config = &encoder->config;
  if (config->text.present) KF_TRY(add_text_tower(p, config, &encoder->text, err));
  if (config->image.present) KF_TRY(add_image_tower(p, config, &encoder->image, err));
  return check_extras(p, config, err);
}

static kf_status carry_out(plan *p, kf_encoder *encoder) {
  encoder->memory = p->memory = kf_alloc(p->bytes, 1);
  encoder->bytes = p->bytes;
  if (p->memory == NULL) return kf_fail_memory(&p->ctx->err);
  for (size_t i = 0; i < p->n; i++) {
    const unsigned char *at = p->memory + p->parts[i].offset;
    memcpy(p->parts[i].target, &at, sizeof at);
  }
  KF_TRY(kf_parallel(p->ctx, p->n, read_task, p));
  return p->reported == p->to_read ? KF_OK : kf_progress(p->ctx, "weights", p->to_read, p->to_read);
}

kf_status kf_towers_load(kf_ctx *ctx, kf_encoder *encoder, const char *folder, kf_checksum *hash) {
  plan p = {.ctx = ctx, .net = encoder->net, .stage = 1 << 16};
  kf_status status = make_plan(&p, encoder, folder, &ctx->err);
  if (status == KF_OK) status = carry_out(&p, encoder);
  if (status == KF_OK) hash_parts(&p, hash);
  kf_weights_close(&p.weights);
  kf_free(p.parts);
  return status;
}
