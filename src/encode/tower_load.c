/* tower_load.c - loads the weights of the towers.
 *
 * First a plan is made: every tensor that the config asks for is found, and its type and shape are
 * checked. Only then is memory taken, one block for everything, so a file with false sizes costs
 * nothing. Then each item of the plan is read by one thread: a panel of rows at a time is converted
 * to f32, checked for NaN and infinities, and packed. Besides the packed weights, memory holds only
 * these rows for each thread.
 *
 * Matrices are packed for the kernels; queries, keys and values are stacked into one matrix.
 * Vectors and positions become f32. The table of tokens keeps the type of the file, since few of
 * its rows are read.
 *
 * A tensor named as part of a loaded tower that the config does not ask for is an error: the config
 * describes another model, and embeddings would be silently wrong. Other tensors are only logged,
 * as in the reference. */
#include "encode/tower.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

/* --- the plan -------------------------------------------------------------------------------- */

typedef enum item_kind { ITEM_MATRIX, ITEM_VECTOR, ITEM_TABLE } item_kind;

/* One or three tensors that are stacked in memory. */
typedef struct item {
  item_kind kind;
  uint32_t n_sources; /* tensors of one shape, stacked */
  struct kf_weight *source[3];
  uint64_t sum[3]; /* checksums */
  size_t n, k;     /* rows and columns of one source; a vector has one column */
  uint64_t offset; /* in the block of memory */
  void *target;    /* the pointer to set to it */
} item;

typedef struct workspace {
  unsigned char *raw; /* elements as in the file */
  float *values;
} workspace;

typedef struct plan {
  kf_ctx *ctx;
  kf_encoder *encoder;
  const kf_net_kernel *net;
  kf_weights weights;
  kf_status status; /* of planning */
  item *items;
  size_t n, room;
  size_t n_text;    /* items of the text tower, which come first */
  uint64_t bytes;   /* of the block of memory */
  size_t stage;     /* elements that a thread converts at a time */
  uint64_t to_read; /* bytes in files */
  unsigned char *memory;
  kf_arena workspace_arena;
  workspace *workspaces; /* [threads] */
  atomic_uint_fast64_t done;
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
  if (weight == NULL) return kf_fail_file(err, p->weights.path, "there is no tensor '%s'", name);
  const kf_st_tensor *t = weight->tensor;
  if (t->type != KF_TYPE_F32 && t->type != KF_TYPE_F16 && t->type != KF_TYPE_BF16)
    return kf_fail_file(err, weight->st->in.path, "tensor '%s' is %s, but must be F32, F16 or BF16",
                        name, t->type_name);
  bool fits = t->ndim == wanted.ndim;
  for (uint32_t i = 0; fits && i < wanted.ndim; i++) fits = t->shape[i] == wanted.size[i];
  if (!fits) {
    char has[200], must[200];
    write_shape(has, sizeof has, t->ndim, t->shape);
    write_shape(must, sizeof must, wanted.ndim, wanted.size);
    return kf_fail_file(err, weight->st->in.path,
                        "tensor '%s' has the shape %s, but config.json asks for %s", name, has,
                        must);
  }
  weight->used = true;
  *out = weight;
  return KF_OK;
}

/* Bytes of an element of a vector or table in memory. */
static size_t element_bytes(const item *it) {
  return it->kind == ITEM_TABLE ? kf_type_size(it->source[0]->tensor->type) : sizeof(float);
}

/* Bytes of an item in memory. All sizes are those of tensors in files. */
static uint64_t item_bytes(const plan *p, const item *it) {
  size_t rows = it->n * it->n_sources;
  if (it->kind == ITEM_MATRIX) return p->net->weights_size(rows, it->k);
  return (rows * it->k * element_bytes(it) + 63) / 64 * 64;
}

/* Plans the tensors PREFIX + names[i] + SUFFIX of one shape; *target will point to them. Does
 * nothing after a failure, which p->status keeps. */
static void add_item(plan *p, item_kind kind, void *target, const char *prefix,
                     const char *const *names, uint32_t n_names, const char *suffix, shape s) {
  item new = {.kind = kind, .n_sources = n_names, .target = target, .n = 1, .k = 1};
  if (p->status != KF_OK) return;
  if (!kf_grow((void **)&p->items, &p->room, p->n, sizeof *p->items))
    p->status = kf_fail_memory(&p->ctx->err);
  for (uint32_t i = 0; p->status == KF_OK && i < n_names; i++) {
    char name[NAME_SIZE];
    snprintf(name, sizeof name, "%s%s%s", prefix, names[i], suffix);
    p->status = find_tensor(p, name, s, &new.source[i], &p->ctx->err);
    if (p->status == KF_OK) p->to_read += new.source[i]->tensor->bytes;
  }
  if (p->status != KF_OK) return;
  for (uint32_t i = 0; i < s.ndim; i++)
    *(i == 0 || kind == ITEM_VECTOR ? &new.n : &new.k) *= s.size[i];
  new.offset = p->bytes;
  p->bytes += item_bytes(p, &new);
  size_t stage = kind == ITEM_MATRIX ? KF_NET_PANEL * new.k : 0;
  if (stage > p->stage) p->stage = stage;
  p->items[p->n++] = new;
}

static void add_vector(plan *p, const float **target, const char *prefix, const char *name,
                       shape s) {
  add_item(p, ITEM_VECTOR, target, prefix, &name, 1, "", s);
}

/* NAME.weight [n][k] and, if `bias`, NAME.bias [n]. */
static void add_linear(plan *p, kf_linear *out, const char *prefix, const char *name, size_t n,
                       size_t k, bool bias) {
  *out = (kf_linear){.n = n, .k = k};
  add_item(p, ITEM_MATRIX, &out->weights, prefix, &name, 1, ".weight", SHAPE2(n, k));
  if (bias) add_item(p, ITEM_VECTOR, &out->bias, prefix, &name, 1, ".bias", SHAPE1(n));
}

static void add_norm(plan *p, kf_norm *out, const char *prefix, const char *name, uint32_t width) {
  add_item(p, ITEM_VECTOR, &out->gamma, prefix, &name, 1, ".weight", SHAPE1(width));
  add_item(p, ITEM_VECTOR, &out->beta, prefix, &name, 1, ".bias", SHAPE1(width));
}

/* Queries, keys and values, as n matrices [3 d / n][d] and n biases. */
static void add_qkv(plan *p, kf_linear *out, const char *prefix, const char *const *names,
                    uint32_t n, size_t d) {
  *out = (kf_linear){.n = 3 * d, .k = d};
  add_item(p, ITEM_MATRIX, &out->weights, prefix, names, n, "weight", SHAPE2(3 * d / n, d));
  add_item(p, ITEM_VECTOR, &out->bias, prefix, names, n, "bias", SHAPE1(3 * d / n));
}

/* The part of a layer after the attention. */
static void add_rest(plan *p, kf_layer *layer, const kf_tower_config *c, const char *prefix,
                     const char *out, const char *norm) {
  size_t d = c->width;
  add_linear(p, &layer->out, prefix, out, d, d, true);
  add_norm(p, &layer->norm_mlp, prefix, norm, c->width);
  add_linear(p, &layer->fc1, prefix, "mlp.fc1", c->inner, d, true);
  add_linear(p, &layer->fc2, prefix, "mlp.fc2", d, c->inner, true);
}

static void add_layers(plan *p, kf_tower *tower, const char *prefix) {
  static const char *const names[] = {"self_attn.q_proj.", "self_attn.k_proj.",
                                      "self_attn.v_proj."};
  const kf_tower_config *c = &tower->config;
  if (p->status == KF_OK && KF_TAKE_ZERO(&p->encoder->memory, tower->layers, c->layers) == NULL)
    p->status = kf_fail_memory(&p->ctx->err);
  for (uint32_t i = 0; p->status == KF_OK && i < c->layers; i++) {
    kf_layer *layer = &tower->layers[i];
    char name[NAME_SIZE];
    snprintf(name, sizeof name, "%sencoder.layers.%" PRIu32 ".", prefix, i);
    add_norm(p, &layer->norm_attention, name, "layer_norm1", c->width);
    add_qkv(p, &layer->qkv, name, names, 3, c->width);
    add_rest(p, layer, c, name, "self_attn.out_proj", "layer_norm2");
  }
}

/* SigLIP's attention pooling: torch's MultiheadAttention with a learnt query. */
static void add_head(plan *p, kf_tower *tower) {
  static const char prefix[] = "vision_model.head.";
  static const char *const names[] = {"attention.in_proj_"};
  uint32_t d = tower->config.width;
  add_vector(p, &tower->probe, prefix, "probe", SHAPE3(1, 1, d));
  add_qkv(p, &tower->head.qkv, prefix, names, 1, d);
  add_rest(p, &tower->head, &tower->config, prefix, "attention.out_proj", "layernorm");
}

static void add_image_tower(plan *p, const kf_encoder_config *config, kf_tower *tower) {
  static const char prefix[] = "vision_model.", in[] = "vision_model.embeddings.";
  static const char *const patch[] = {"patch_embedding."};
  const kf_tower_config *c = &config->image;
  bool clip = config->family == KF_FAMILY_CLIP;
  size_t d = c->width, side = c->patch_size;
  tower->config = *c;
  tower->patch = (kf_linear){.n = d, .k = 3 * side * side};
  add_item(p, ITEM_MATRIX, &tower->patch.weights, in, patch, 1, "weight", SHAPE4(d, 3, side, side));
  if (!clip) add_item(p, ITEM_VECTOR, &tower->patch.bias, in, patch, 1, "bias", SHAPE1(d));
  if (clip) add_vector(p, &tower->class_token, in, "class_embedding", SHAPE1(d));
  add_vector(p, &tower->positions, in, "position_embedding.weight",
             SHAPE2(kf_patches(c) + (clip ? 1u : 0u), d));
  if (clip) add_norm(p, &tower->before, prefix, "pre_layrnorm", c->width);
  add_layers(p, tower, prefix);
  add_norm(p, &tower->after, prefix, "post_layernorm", c->width);
  if (clip)
    add_linear(p, &tower->projection, "", "visual_projection", config->dim, d, false);
  else
    add_head(p, tower);
}

static void add_text_tower(plan *p, const kf_encoder_config *config, kf_tower *tower) {
  static const char prefix[] = "text_model.";
  static const char *const table[] = {"embeddings.token_embedding.weight"};
  const kf_tower_config *c = &config->text;
  tower->config = *c;
  add_item(p, ITEM_TABLE, &tower->tokens, prefix, table, 1, "", SHAPE2(c->vocabulary, c->width));
  if (p->n > 0) tower->tokens_type = p->items[p->n - 1].source[0]->tensor->type;
  add_vector(p, &tower->positions, prefix, "embeddings.position_embedding.weight",
             SHAPE2(c->context, c->width));
  add_layers(p, tower, prefix);
  add_norm(p, &tower->after, prefix, "final_layer_norm", c->width);
  add_linear(p, &tower->projection, "", "text_projection", config->dim, c->width, false);
}

/* --- other tensors ---------------------------------------------------------------------------- */

static kf_status check_extras(const plan *p, const kf_encoder_config *config, kf_err *err) {
  uint32_t n = 0;
  const char *first = NULL;
  for (uint32_t i = 0; i < p->weights.n_tensors; i++) {
    const struct kf_weight *w = &p->weights.tensors[i];
    bool image =
        kf_starts_with(w->name, "vision_model.") || kf_starts_with(w->name, "visual_projection.");
    bool text =
        kf_starts_with(w->name, "text_model.") || kf_starts_with(w->name, "text_projection.");
    if (w->used || kf_ends_with(w->name, ".position_ids")) continue;
    if ((image && config->image.present) || (text && config->text.present))
      return kf_fail_file(err, w->st->in.path,
                          "tensor '%.100s' has no place in the tower that config.json describes",
                          w->name);
    if (image || text || kf_starts_with(w->name, "logit_")) continue;
    if (n++ == 0) first = w->name;
  }
  if (n > 0)
    kf_log(p->ctx, "%s: ignored %" PRIu32 " %s in no tower: '%.100s'%s", p->weights.path, n,
           n > 1 ? "tensors that are" : "tensor that is", first, n > 1 ? ", …" : "");
  return KF_OK;
}

/* --- reading --------------------------------------------------------------------------------- */

/* Reads n elements of a tensor: to raw as in the file, and to values as f32. */
static kf_status read_elements(const plan *p, const struct kf_weight *w, uint64_t first, size_t n,
                               void *raw, float *values, kf_checksum *sum, kf_err *err) {
  const kf_st_tensor *t = w->tensor;
  size_t size = kf_type_size(t->type);
  KF_TRY(kf_in_read(&w->st->in, t->offset + first * size, raw, n * size, err));
  kf_checksum_add(sum, raw, n * size);
  kf_decode_f32(p->ctx->kernels, t->type, raw, n, values);
  double norm2 = p->ctx->kernels->norm2(values, n); /* the sum of finite squares is finite */
  if (norm2 - norm2 == 0) return KF_OK;
  return kf_fail_file(err, w->st->in.path, "tensor '%s' holds NaN or infinite weights", w->name);
}

static kf_status read_matrix(const plan *p, const item *it, const workspace *s, kf_checksum *sum,
                             kf_err *err) {
  size_t total = it->n * it->n_sources, k = it->k;
  for (size_t row = 0; row < total; row += KF_NET_PANEL) {
    size_t count = total - row < KF_NET_PANEL ? total - row : KF_NET_PANEL;
    for (size_t r = row, take; r < row + count; r += take) {
      size_t source = r / it->n, in = r % it->n;
      take = it->n - in < row + count - r ? it->n - in : row + count - r;
      KF_TRY(read_elements(p, it->source[source], in * k, take * k, s->raw,
                           s->values + (r - row) * k, &sum[source], err));
    }
    p->net->pack(s->values, total, k, row, count, p->memory + it->offset);
  }
  return KF_OK;
}

static kf_status read_vector(const plan *p, const item *it, const workspace *s, kf_checksum *sum,
                             kf_err *err) {
  size_t total = it->n * it->k, size = element_bytes(it);
  bool table = it->kind == ITEM_TABLE;
  for (uint32_t i = 0; i < it->n_sources; i++) {
    for (size_t at = 0; at < total; at += p->stage) {
      size_t n = total - at < p->stage ? total - at : p->stage;
      unsigned char *to = p->memory + it->offset + (i * total + at) * size;
      KF_TRY(read_elements(p, it->source[i], at, n, table ? to : s->raw, s->values, &sum[i], err));
      if (!table) memcpy(to, s->values, n * sizeof *s->values);
    }
  }
  return KF_OK;
}

static kf_status read_task(void *argument, size_t i, size_t worker, kf_err *err) {
  plan *p = argument;
  item *it = &p->items[i];
  kf_checksum sum[3];
  uint64_t bytes = 0;
  for (uint32_t s = 0; s < it->n_sources; s++) kf_checksum_start(&sum[s]);
  KF_TRY((it->kind == ITEM_MATRIX ? read_matrix : read_vector)(p, it, &p->workspaces[worker], sum,
                                                               err));
  for (uint32_t s = 0; s < it->n_sources; s++) {
    it->sum[s] = kf_checksum_value(&sum[s]);
    bytes += it->source[s]->tensor->bytes;
  }
  uint64_t done = atomic_fetch_add(&p->done, bytes) + bytes;
  return kf_task_progress(p->ctx, worker, "weights", done, p->to_read, err);
}

/* Adds names, types and checksums of the tensors from item `first` on, in the order of the plan. */
static void add_sums(const plan *p, size_t first, kf_checksum *sum) {
  for (size_t i = first; i < p->n; i++) {
    for (uint32_t j = 0; j < p->items[i].n_sources; j++) {
      const struct kf_weight *w = p->items[i].source[j];
      kf_checksum_add(sum, w->name, strlen(w->name) + 1);
      kf_checksum_add(sum, w->tensor->type_name, strlen(w->tensor->type_name) + 1);
      kf_checksum_add(sum, &p->items[i].sum[j], sizeof p->items[i].sum[j]);
    }
  }
}

static kf_status make_plan(plan *p, const char *folder, kf_err *err) {
  kf_encoder *e = p->encoder;
  KF_TRY(kf_weights_open(&p->weights, folder, err));
  if (e->config.text.present) add_text_tower(p, &e->config, &e->text);
  p->n_text = p->n;
  if (e->config.image.present) add_image_tower(p, &e->config, &e->image);
  return p->status == KF_OK ? check_extras(p, &e->config, err) : p->status;
}

static kf_status carry_out(plan *p, kf_err *err) {
  KF_TAKE(&p->encoder->memory, p->memory, p->bytes);
  p->encoder->bytes = p->bytes;
  KF_TAKE_ZERO(&p->workspace_arena, p->workspaces, p->ctx->threads);
  for (unsigned t = 0; !p->workspace_arena.failed && t < p->ctx->threads; t++) {
    KF_TAKE(&p->workspace_arena, p->workspaces[t].raw, p->stage * sizeof(float));
    KF_TAKE(&p->workspace_arena, p->workspaces[t].values, p->stage);
  }
  if (p->memory == NULL || p->workspace_arena.failed) return kf_fail_memory(err);
  for (size_t i = 0; i < p->n; i++) {
    const unsigned char *at = p->memory + p->items[i].offset;
    memcpy(p->items[i].target, &at, sizeof at);
  }
  KF_TRY(kf_parallel(p->ctx, p->n, read_task, p));
  return kf_progress(p->ctx, "weights", p->to_read, p->to_read);
}

kf_status kf_towers_load(kf_ctx *ctx, kf_encoder *encoder, const char *folder,
                         kf_encoder_sums *sums) {
  plan p = {.ctx = ctx, .encoder = encoder, .net = encoder->net, .stage = 1 << 16};
  kf_status status = make_plan(&p, folder, &ctx->err);
  if (status == KF_OK) status = kf_weights_sample(&p.weights, &sums->model, &ctx->err);
  if (status == KF_OK) status = carry_out(&p, &ctx->err);
  if (status == KF_OK) add_sums(&p, 0, &sums->all);
  if (status == KF_OK) add_sums(&p, p.n_text, &sums->images);
  kf_weights_close(&p.weights);
  kf_arena_free(&p.workspace_arena);
  kf_free(p.items);
  return status;
}
