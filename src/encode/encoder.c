/* encoder.c - loading an encoder: config.c, preprocess.c, tokenizer_load.c and tower_load.c put
 * together, with a checksum of everything that embeddings depend on. */
#include "encode/tower.h"

#include <inttypes.h>

static void describe_tower(kf_string *text, const char *name, const kf_tower_config *c) {
  char eps[32];
  if (!c->present) return;
  kf_format_f64((double)c->eps, eps);
  kf_string_addf(text,
                 "%s %" PRIu32 " %" PRIu32 " %" PRIu32 " %" PRIu32 " %d %s %" PRIu32 " %" PRIu32
                 " %" PRIu32 " %" PRIu32 " %" PRId64 "\n",
                 name, c->width, c->inner, c->layers, c->heads, (int)c->activation, eps,
                 c->image_size, c->patch_size, c->context, c->vocabulary, c->end);
}

static void describe_preprocess(kf_string *text, const kf_preprocess *p) {
  kf_string_addf(text, "pixels %d %" PRIu32 " %" PRIu32 " %" PRIu32 " %d %d %" PRIu32 " %" PRIu32,
                 p->resize, p->shortest_edge, p->resize_width, p->resize_height, (int)p->resample,
                 p->crop, p->crop_width, p->crop_height);
  const double values[] = {p->rescale ? p->rescale_factor : 1,
                           p->mean[0],
                           p->mean[1],
                           p->mean[2],
                           p->std[0],
                           p->std[1],
                           p->std[2]};
  for (size_t i = 0; i < (p->normalize ? 7u : 1u); i++) {
    char number[32];
    kf_format_f64(values[i], number);
    kf_string_addf(text, " %s", number);
  }
}

/* Adds everything besides the weights that embeddings depend on. */
static kf_status add_settings(const kf_encoder *e, kf_checksum *sum, kf_err *err) {
  kf_string text = {0};
  kf_string_addf(&text, "koofu.encoder 1 %d %d %" PRIu32 "\n", (int)e->precision,
                 (int)e->config.family, e->config.dim);
  describe_tower(&text, "image", &e->config.image);
  describe_tower(&text, "text", &e->config.text);
  if (e->config.image.present) describe_preprocess(&text, &e->preprocess);
  bool ok = !text.failed;
  if (ok) kf_checksum_add(sum, text.data, text.n);
  kf_string_clear(&text);
  return ok ? KF_OK : kf_fail_memory(err);
}

static kf_status choose_towers(kf_encoder *e, const char *folder, const kf_encoder_options *options,
                               kf_err *err) {
  bool images = options->images != KF_OFF, text = options->text != KF_OFF;
  if (!images && !text)
    return kf_fail(err, KF_ERR_ARG, "kf_encoder_load: images and text are both off");
  e->config.image.present = e->config.image.present && images;
  e->config.text.present = e->config.text.present && text;
  if (e->config.image.present || e->config.text.present) return KF_OK;
  return kf_fail(err, KF_ERR_ARG, "%s: the model has no %s", folder,
                 images                                 ? "image tower"
                 : e->config.family == KF_FAMILY_SIGLIP ? "text tower that koofu reads (SigLIP)"
                                                        : "text tower");
}

static kf_status load_tokenizer(kf_encoder *e, const char *folder, kf_err *err) {
  KF_TRY(kf_tokenizer_load(folder, &e->tokenizer, err));
  int64_t end = e->config.text.end;
  if (end == 2 || end == kf_tokenizer_end(e->tokenizer)) return KF_OK;
  return kf_fail_file(err, folder,
                      "the tokenizer ends a text with token %" PRId32
                      ", but config.json says eos_token_id %" PRId64,
                      kf_tokenizer_end(e->tokenizer), end);
}

static kf_status load(kf_ctx *ctx, const char *folder, const kf_encoder_options *options,
                      kf_encoder *e) {
  kf_err *err = &ctx->err;
  KF_TRY(kf_config_read(folder, &e->config, err));
  KF_TRY(choose_towers(e, folder, options, err));
  e->precision = options->precision == KF_PRECISION_AUTO ? KF_PRECISION_BF16 : options->precision;
  e->net = e->precision == KF_PRECISION_F32 ? ctx->kernels->net_f32 : ctx->kernels->net_bf16;
  e->max_pixels = options->max_pixels;
  if (e->config.image.present)
    KF_TRY(kf_preprocess_read(folder, e->config.image.image_size, &e->preprocess, err));
  if (e->config.text.present) KF_TRY(load_tokenizer(e, folder, err));
  kf_checksum sum;
  kf_checksum_start(&sum);
  KF_TRY(add_settings(e, &sum, err));
  KF_TRY(kf_towers_load(ctx, e, folder, &sum));
  e->checksum = kf_checksum_value(&sum);
  return KF_OK;
}

kf_status kf_encoder_load(kf_ctx *ctx, const char *folder, const kf_encoder_options *options,
                          kf_encoder **out) {
  KF_ENTER(ctx, folder != NULL && out != NULL);
  KF_OPTIONS(kf_encoder_options, o, options);
  if (o.precision > KF_PRECISION_BF16 || (int)o.precision < 0)
    return kf_fail(err, KF_ERR_ARG, "kf_encoder_load: invalid precision %d", (int)o.precision);
  kf_encoder *e = kf_alloc_zero(1, sizeof *e);
  if (e == NULL) return kf_fail_memory(err);
  KF_HAND_OUT(load(ctx, folder, &o, e), out, e, kf_encoder_free);
}

void kf_encoder_free(kf_encoder *encoder) {
  if (encoder == NULL) return;
  kf_tokenizer_free(encoder->tokenizer);
  kf_arena_free(&encoder->memory);
  kf_free(encoder);
}

uint32_t kf_encoder_dim(const kf_encoder *encoder) { return encoder->config.dim; }
uint32_t kf_encoder_image_size(const kf_encoder *encoder) {
  return encoder->config.image.present ? encoder->config.image.image_size : 0;
}
uint32_t kf_encoder_context(const kf_encoder *encoder) {
  return encoder->config.text.present ? encoder->config.text.context : 0;
}
kf_precision kf_encoder_precision(const kf_encoder *encoder) { return encoder->precision; }
uint64_t kf_encoder_bytes(const kf_encoder *encoder) { return encoder->bytes; }
uint64_t kf_encoder_checksum(const kf_encoder *encoder) { return encoder->checksum; }
