/* models.h - the golden models, for the tests of encoders: tests/golden/make_models.py made them
 * and recorded what the reference gives for their inputs. */
#ifndef KF_TEST_MODELS_H
#define KF_TEST_MODELS_H

#include "test.h"

#include "encode/tower.h"

#define MODELS KOOFU_SOURCE_DIR "/tests/golden/models"

static const char *const all_models[] = {"clip-f32",    "clip-f16",  "clip-bf16",
                                         "clip-vision", "clip-text", "siglip"};
enum { N_MODELS = sizeof all_models / sizeof all_models[0] };

/* The texts of make_models.py. */
static const char *const model_texts[] = {
    "a photo of a cat",
    "the photo",
    "",
    "a painting of the sea, at night",
    "cat",
    "one two three four five six seven eight nine ten eleven twelve"};
static const char *const model_pictures[] = {MODELS "/pictures/a.png", MODELS "/pictures/b.png",
                                             MODELS "/pictures/c.png"};

typedef struct golden {
  size_t n, columns; /* of all dimensions but the first */
  void *values;      /* f32 or i32; NULL: the model has no such thing; free() */
} golden;

/* A tensor of expected.safetensors: "pixels", "image", "pictures", "tokens", "text". */
static inline golden read_golden(const char *model, const char *name) {
  char path[512];
  kf_err err;
  kf_st st;
  golden g = {0};
  snprintf(path, sizeof path, MODELS "/%s/expected.safetensors", model);
  assert_int_equal(kf_st_open(&st, path, &err), KF_OK);
  const kf_st_tensor *t = kf_st_find(&st, name);
  if (t != NULL) {
    g.n = (size_t)t->shape[0];
    g.columns = (size_t)(t->bytes / 4) / g.n;
    g.values = malloc((size_t)t->bytes);
    assert_non_null(g.values);
    assert_int_equal(kf_st_read_all(&st, t, g.values, &err), KF_OK);
  }
  kf_st_close(&st);
  return g;
}

static inline kf_encoder *load_model(kf_ctx *ctx, const char *name, kf_precision precision) {
  char path[512];
  kf_encoder *encoder = NULL;
  snprintf(path, sizeof path, MODELS "/%s", name);
  assert_ok(ctx,
            kf_encoder_load(ctx, path, &(kf_encoder_options){.precision = precision}, &encoder));
  return encoder;
}

#endif
