/* encoder.c - loads an encoder: config.c, preprocess.c, tokenizer_load.c and tower_load.c together,
 * with a checksum of everything that embeddings depend on. */
#include "encode/tower.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

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

/* Clears the text. */
static kf_status add_text(kf_string *text, kf_checksum *sum, kf_err *err) {
  bool failed = text->failed;
  if (!failed) kf_checksum_add(sum, text->data, text->n);
  kf_string_clear(text);
  return failed ? kf_fail_memory(err) : KF_OK;
}

/* Adds everything but the weights that embeddings depend on; without `with_text`, only what those
 * of pictures depend on. */
static kf_status add_settings(const kf_encoder *e, bool with_text, kf_checksum *sum, kf_err *err) {
  kf_string text = {0};
  kf_string_addf(&text, "koofu.encoder 1 %d %d %" PRIu32 "\n", (int)e->precision,
                 (int)e->config.family, e->config.dim);
  describe_tower(&text, "image", &e->config.image);
  if (with_text) describe_tower(&text, "text", &e->config.text);
  if (e->config.image.present) describe_preprocess(&text, &e->preprocess);
  return add_text(&text, sum, err);
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

/* --- which model it is ------------------------------------------------------------------------ */

/* Adds the settings of all towers in the folder. */
static kf_status add_model(const kf_encoder_config *c, kf_checksum *sum, kf_err *err) {
  kf_string text = {0};
  kf_string_addf(&text, "koofu.origin 1 %d %" PRIu32 "\n", (int)c->family, c->dim);
  describe_tower(&text, "image", &c->image);
  describe_tower(&text, "text", &c->text);
  return add_text(&text, sum, err);
}

static char *last_slash(char *path) {
  char *slash = strrchr(path, '/');
  return slash != NULL ? slash : path;
}

/* Downloads are stored as "…/models--openai--clip-vit-base-patch32/snapshots/HASH". Cuts such a
 * path after the name of the model; false: it is another path, and stays. */
static bool cut_snapshot(char *path) {
  char *hash = last_slash(path);
  if (hash == path || strlen(hash + 1) != 40) return false;
  *hash = '\0';
  char *snapshots = last_slash(path);
  bool kept = strcmp(snapshots, "/snapshots") == 0;
  if (kept) *snapshots = '\0';
  kept = kept && kf_starts_with(last_slash(path), "/models--");
  if (kept) return true;
  if (*snapshots == '\0') *snapshots = '/';
  *hash = '/';
  return false;
}

/* The name of a folder after resolving links and dots, as printable UTF-8 that fits. */
static void name_folder(const char *folder, char *name, size_t size) {
  char path[PATH_MAX];
  if (realpath(folder, path) == NULL) snprintf(path, sizeof path, "/%.*s", PATH_MAX - 2, folder);
  bool snapshot = cut_snapshot(path);
  const char *last = last_slash(path) + 1;
  if (snapshot) last += strlen("models--");
  bool utf8 = kf_utf8_valid(last, strlen(last));
  size_t n = 0;
  for (const char *c = last; *c != '\0' && n + 1 < size; c++) {
    unsigned char byte = (unsigned char)*c;
    bool dashes = snapshot && c[0] == '-' && c[1] == '-';
    name[n++] = dashes ? '/' : byte < ' ' || byte == 127 || (byte > 127 && !utf8) ? '?' : *c;
    c += dashes;
  }
  name[n] = '\0';
  while (n > 0 && !kf_utf8_valid(name, n)) name[--n] = '\0'; /* cut within a character */
  if (n == 0) snprintf(name, size, "?");
}

static kf_status load(kf_ctx *ctx, const char *folder, const kf_encoder_options *options,
                      kf_encoder *e) {
  kf_err *err = &ctx->err;
  kf_encoder_sums sums;
  kf_checksum_start(&sums.all);
  kf_checksum_start(&sums.images);
  kf_checksum_start(&sums.model);
  KF_TRY(kf_config_read(folder, &e->config, err));
  KF_TRY(add_model(&e->config, &sums.model, err));
  KF_TRY(choose_towers(e, folder, options, err));
  e->precision = options->precision == KF_PRECISION_AUTO ? KF_PRECISION_BF16 : options->precision;
  e->net = e->precision == KF_PRECISION_F32 ? ctx->kernels->net_f32 : ctx->kernels->net_bf16;
  e->max_pixels = options->max_pixels;
  if (e->config.image.present)
    KF_TRY(kf_preprocess_read(folder, e->config.image.image_size, &e->preprocess, err));
  if (e->config.text.present) KF_TRY(load_tokenizer(e, folder, err));
  KF_TRY(add_settings(e, true, &sums.all, err));
  KF_TRY(add_settings(e, false, &sums.images, err));
  KF_TRY(kf_towers_load(ctx, e, folder, &sums));
  e->checksum = kf_checksum_value(&sums.all);
  e->image_checksum = kf_checksum_value(&sums.images);
  char name[sizeof e->origin.name];
  name_folder(folder, name, sizeof name);
  kf_origin_set(&e->origin, name, kf_checksum_value(&sums.model), folder);
  e->origin.any = ctx->options.any_encoder != 0;
  return KF_OK;
}

kf_status kf_encoder_load(kf_ctx *ctx, const char *folder, const kf_encoder_options *options,
                          kf_encoder **out) {
  KF_NOTHING(out);
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
const kf_origin *kf_encoder_origin(const kf_encoder *encoder) { return &encoder->origin; }
