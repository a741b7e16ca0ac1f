/* describe.c - what a model folder is, without loading it: its settings, the headers of its
 * weights, its tokenizer. */
#include "encode/tower.h"

static void describe_tower(const kf_tower_config *c, kf_tower_info *out) {
  if (c->present) *out = (kf_tower_info){c->layers, c->width, c->heads};
}

/* All tensors of floats, of the towers or not, as the reference counts them. */
static kf_status count_parameters(const char *folder, kf_encoder_info *out, kf_err *err) {
  kf_weights w;
  kf_status status = kf_weights_open(&w, folder, err);
  for (uint32_t i = 0; status == KF_OK && i < w.n_tensors; i++) {
    const kf_st_tensor *t = w.tensors[i].tensor;
    if (!kf_type_is_float(t->type)) continue;
    uint64_t n = 1;
    for (uint32_t k = 0; k < t->ndim; k++) n *= t->shape[k];
    out->parameters += n;
    out->bytes += t->bytes;
    out->dtype = t->type_name;
  }
  kf_weights_close(&w);
  if (status != KF_OK || out->parameters > 0) return status;
  return kf_fail_file(err, folder, "has no weights");
}

kf_status kf_encoder_describe(kf_ctx *ctx, const char *folder, kf_encoder_info *out) {
  KF_ENTER(ctx, folder != NULL && out != NULL);
  kf_encoder_config c;
  kf_encoder_info info = {0};
  KF_TRY(kf_config_read(folder, &c, err));
  KF_TRY(count_parameters(folder, &info, err));
  info.family = c.family == KF_FAMILY_CLIP ? "CLIP" : "SigLIP";
  info.dim = c.dim;
  describe_tower(&c.image, &info.image);
  describe_tower(&c.text, &info.text);
  info.image_size = c.image.image_size;
  info.patch_size = c.image.patch_size;
  info.context = c.text.context;
  info.vocabulary = c.text.vocabulary;
  if (c.text.present) {
    kf_tokenizer *tokenizer = NULL;
    KF_TRY(kf_tokenizer_load(folder, &tokenizer, err));
    kf_tokenizer_free(tokenizer);
  }
  *out = info;
  return KF_OK;
}
