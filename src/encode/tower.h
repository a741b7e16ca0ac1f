/* tower.h - the two towers of an encoder: their configuration and weights, and how rows go through
 * them. Private to this room.
 *
 *     config.c      config.json to kf_encoder_config
 *     weights.c     the files with tensors, one or many
 *     tower_load.c  tensors to packed weights, each checked against the config
 *     tower.c       pixels and tokens to embeddings, a batch at a time
 *     encoder.c     loading an encoder
 *     encode.c      the public functions that encode: files, threads, progress */
#ifndef KF_TOWER_H
#define KF_TOWER_H

#include "file/file.h"
#include "encode/image.h"
#include "encode/tokenizer.h"

/* --- config ---------------------------------------------------------------------------------- */

typedef enum kf_family { KF_FAMILY_CLIP, KF_FAMILY_SIGLIP } kf_family;

typedef struct kf_tower_config {
  bool present;
  uint32_t width;  /* hidden_size */
  uint32_t inner;  /* intermediate_size */
  uint32_t layers; /* num_hidden_layers */
  uint32_t heads;  /* num_attention_heads; divides width */
  kf_activation activation;
  float eps;                       /* layer_norm_eps */
  uint32_t image_size, patch_size; /* images */
  uint32_t context, vocabulary;    /* text: max_position_embeddings, vocab_size */
  int64_t end;                     /* text: eos_token_id; 2 means the largest token of a text */
} kf_tower_config;

typedef struct kf_encoder_config {
  kf_family family;
  uint32_t dim; /* of embeddings: projection_dim, or SigLIP's hidden_size */
  kf_tower_config image, text;
} kf_encoder_config;

/* Reads FOLDER/config.json; missing settings get the reference's values. The bounds of all numbers
 * make products of two of them safe. */
kf_status kf_config_read(const char *folder, kf_encoder_config *out, kf_err *err);

/* Patches of a picture. Those that do not fit whole are left out, as in the reference. */
static inline uint32_t kf_patches(const kf_tower_config *c) {
  return (c->image_size / c->patch_size) * (c->image_size / c->patch_size);
}

/* --- weight files ---------------------------------------------------------------------------- */

typedef struct kf_weights_file {
  kf_st st;
  kf_dict *names; /* of its tensors, to their numbers */
} kf_weights_file;

typedef struct kf_weights {
  kf_arena memory;
  const char *path; /* model.safetensors, or the index: for messages */
  uint32_t n_files;
  kf_weights_file *files;
  uint32_t n_tensors; /* in all files together */
  struct kf_weight {
    const char *name;
    const kf_st *st;
    const kf_st_tensor *tensor;
    bool used;
  } * tensors;
  kf_dict *names; /* to numbers of `tensors` */
} kf_weights;

/* Opens FOLDER/model.safetensors, or the files that FOLDER/model.safetensors.index.json names. Must
 * be closed after a failure too. */
kf_status kf_weights_open(kf_weights *weights, const char *folder, kf_err *err);
void kf_weights_close(kf_weights *weights);
struct kf_weight *kf_weights_find(const kf_weights *weights, const char *name); /* NULL: absent */
/* Adds name, type, shape and a few bytes of every tensor of floats, sorted by name: this tells
 * models apart without reading whole files. */
kf_status kf_weights_sample(const kf_weights *weights, kf_checksum *sum, kf_err *err);

/* --- towers ---------------------------------------------------------------------------------- */

typedef struct kf_linear {
  size_t n, k;
  const void *weights; /* packed [n][k] */
  const float *bias;   /* [n], or NULL */
} kf_linear;

typedef struct kf_norm {
  const float *gamma, *beta; /* [width] */
} kf_norm;

typedef struct kf_layer {
  kf_norm norm_attention, norm_mlp;
  kf_linear qkv, out; /* qkv: queries, keys and values, stacked */
  kf_linear fc1, fc2;
} kf_layer;

typedef struct kf_tower {
  kf_tower_config config;
  kf_layer *layers;
  const float *positions; /* [rows][width] */
  /* Images. */
  kf_linear patch;
  const float *class_token; /* CLIP */
  kf_norm before;           /* CLIP */
  /* Text: a table [vocabulary][width] as in the file. */
  const void *tokens;
  kf_type tokens_type;
  /* The end. */
  kf_norm after;
  kf_linear projection; /* CLIP */
  kf_layer head;      /* SigLIP: one query, the probe, over all rows; norm_attention is not used */
  const float *probe; /* [width] */
} kf_tower;

struct kf_encoder {
  kf_arena memory;
  kf_encoder_config config;
  kf_precision precision;
  const kf_net_kernel *net; /* what the weights are packed for, whatever context runs them */
  kf_tower image, text;
  uint64_t bytes; /* of the weights in memory */
  uint64_t checksum;
  uint64_t image_checksum; /* that of the image tower alone */
  kf_origin origin;
  uint64_t max_pixels; /* 0: the usual limit */
  kf_preprocess preprocess;
  kf_tokenizer *tokenizer; /* NULL without text */
};

/* Checksums of everything that embeddings depend on. */
typedef struct kf_encoder_sums {
  kf_checksum all;    /* the loaded towers */
  kf_checksum images; /* the image tower, whether or not there is text */
  kf_checksum model;  /* the model in the folder, whichever part of it is loaded */
} kf_encoder_sums;

/* Reads, checks and packs the weights of the towers that are present in the encoder's config. Sets
 * its towers and `bytes`, and adds the names and bytes of all tensors to the sums. */
kf_status kf_towers_load(kf_ctx *ctx, kf_encoder *encoder, const char *folder,
                         kf_encoder_sums *sums);

/* --- walking through a tower ----------------------------------------------------------------- */

/* A batch of sequences (pictures or texts) on its way through a tower, and the memory for it. No
 * row depends on the rest of the batch. */
typedef struct kf_walk kf_walk;

/* Takes memory for `rows` rows in at most `sequences` sequences from the arena; NULL: out of
 * memory. split: the context's threads share the work on a batch, and only the context's own thread
 * may call the functions below; otherwise any one thread does all of it, and nothing can fail. */
kf_walk *kf_walk_new(kf_ctx *ctx, const kf_encoder *encoder, const kf_tower *tower, size_t rows,
                     size_t sequences, bool split, kf_arena *arena);

/* Rows of a picture: patches, and CLIP's class token before them. */
size_t kf_image_rows(const kf_encoder *encoder);
/* Puts pixels [3][size][size] into the batch as picture i. */
void kf_walk_put_image(kf_walk *walk, size_t i, const float *pixels);
/* Embeddings of the first n pictures of the batch: out[n][dim]. */
kf_status kf_walk_images(kf_walk *walk, size_t n, float *out);
/* Embeddings of n texts: out[n][dim]. tokens[i] are the lengths[i] tokens of text i, which is
 * embedded at its last one. */
kf_status kf_walk_texts(kf_walk *walk, const int32_t *const *tokens, const uint32_t *lengths,
                        size_t n, float *out);

/* --- pictures with their checksums ------------------------------------------------------------ */

/* kf_encode_images for files and members of archives, with the checksums of their bytes as they
 * were read: sums[n] (kf_image_read_sum); NULL: not wanted. An unreadable picture has
 * KF_HINT_SKIP_PICTURES. */
kf_status kf_encode_extents(kf_ctx *ctx, const kf_encoder *encoder, const kf_extent *extents,
                            uint64_t n, float *out, kf_status *status, uint64_t *sums);

/* --- texts as tokens ------------------------------------------------------------------------- */

/* The position at which a text of `context` tokens is embedded, as the reference finds it. */
uint32_t kf_text_end(const kf_tower_config *config, const int32_t *tokens);
/* kf_encode_texts for tokens[n][context]. */
kf_status kf_encode_tokens(kf_ctx *ctx, const kf_encoder *encoder, const int32_t *tokens,
                           uint64_t n, float *out);

#endif
