/* test_origin.c - which encoder embeddings come from, through the C interface: passed on from data
 * to models and galleries, and what happens when two meet. Sessions: tests/cli/test_encoders.py. */
#include "files.h"

#include "encode/tower.h"

#define CLIP KOOFU_SOURCE_DIR "/tests/golden/models/clip-f32"

static const float rows[6][4] = {{1, 0, 0, 0.1f},    {0.9f, 0.1f, 0, 0}, {0, 1, 0, 0},
                                 {0, 0.8f, 0.1f, 0}, {0, 0, 1, 0.2f},    {0.1f, 0, 0.9f, 0}};
static const int32_t labels[6] = {0, 0, 1, 1, 2, 2};

/* A data set in a file, made by an encoder of this name and checksum; 0: not known. */
static kf_data *data_of(kf_ctx *with, const char *file, const char *name, uint64_t checksum) {
  kf_data *data = NULL, *again = NULL;
  const char *path = at(file);
  assert_ok(with, kf_data_open_memory(with, rows[0], 6, 4, labels, NULL, 3, &data));
  if (checksum != 0) kf_origin_set(&data->origin, name, checksum, "memory");
  assert_ok(with, kf_data_save(with, data, KF_F32, path));
  kf_data_free(data);
  assert_ok(with, kf_data_open(with, &path, 1, NULL, &again));
  return again;
}

static kf_model *model_of(kf_ctx *with, const kf_data *data) {
  kf_model *model = NULL, *again = NULL;
  kf_fit_options options = {.lambda = {1, KF_LAMBDA_RELATIVE}};
  assert_ok(with, kf_fit(with, data, &options, &model, NULL));
  assert_ok(with, kf_model_save(with, model, at("model.safetensors")));
  assert_ok(with, kf_model_load(with, at("model.safetensors"), &again));
  assert_int_equal(kf_origin_checksum(kf_model_origin(model)),
                   kf_origin_checksum(kf_model_origin(again)));
  kf_model_free(model);
  return again;
}

TEST(handed_on) {
  AUTO(kf_data) *data = data_of(ctx, "a.safetensors", "one", 0x123456789abcdef0u);
  assert_string_equal(kf_origin_name(kf_data_origin(data)), "one");
  AUTO(kf_stats) *stats = NULL, *loaded = NULL;
  assert_ok(ctx, kf_stats_new_from_data(ctx, data, NULL, &stats));
  assert_ok(ctx, kf_stats_save(ctx, stats, at("s.safetensors")));
  assert_ok(ctx, kf_stats_load(ctx, at("s.safetensors"), &loaded));
  assert_int_equal(kf_origin_checksum(kf_stats_origin(loaded)), 0x123456789abcdef0u);
  AUTO(kf_text) *text = NULL;
  assert_ok(ctx, kf_text_new(ctx, data, NULL, &text));
  assert_string_equal(kf_origin_name(kf_text_origin(text)), "one");
  AUTO(kf_model) *model = model_of(ctx, data), *fused = NULL;
  assert_ok(ctx, kf_model_new_fused(ctx, model, text, 1, &fused));
  assert_string_equal(kf_origin_name(kf_model_origin(fused)), "one");
  AUTO(kf_gallery) *gallery = NULL;
  assert_ok(ctx, kf_gallery_new(ctx, data, model, NULL, &gallery));
  assert_string_equal(kf_origin_name(kf_gallery_origin(gallery)), "one");
}

TEST(unknown) {
  AUTO(kf_data) *data = data_of(ctx, "a.safetensors", "", 0);
  AUTO(kf_data) *known = data_of(ctx, "b.safetensors", "two", 2);
  AUTO(kf_model) *model = model_of(ctx, data);
  assert_null(kf_data_origin(data));
  assert_null(kf_model_origin(model));
  assert_null(kf_origin_name(NULL));
  assert_int_equal(kf_origin_checksum(NULL), 0);
  assert_ok(ctx, kf_origins_agree(ctx, NULL, kf_data_origin(known)));
  assert_ok(ctx, kf_origins_agree(ctx, kf_data_origin(known), NULL));
  kf_eval_result eval;
  assert_ok(ctx, kf_eval(ctx, model, known, NULL, &eval));
}

TEST(different) {
  AUTO(kf_data) *a = data_of(ctx, "a.safetensors", "one", 0xaaaaaaaa00000000u);
  AUTO(kf_data) *b = data_of(ctx, "b.safetensors", "one", 0xbbbbbbbb00000000u);
  AUTO(kf_model) *model = model_of(ctx, a);
  kf_eval_result eval;
  kf_status status = kf_eval(ctx, model, b, NULL, &eval);
  assert_failed(status, KF_ERR_DATA, "b.safetensors: the encoder is one (bbbbbbbb)",
                "model.safetensors is one (aaaaaaaa)");
  assert_int_equal(kf_errhint(ctx), KF_HINT_ANY_ENCODER);
  assert_int_equal(kf_origins_agree(ctx, kf_data_origin(a), kf_data_origin(b)), KF_ERR_DATA);
  assert_ok(ctx, kf_origins_agree(ctx, kf_data_origin(a), kf_model_origin(model)));

  /* What a context with any_encoder opens can be combined with anything, whichever context uses
   * it. */
  AUTO(kf_ctx) *any = NULL;
  assert_int_equal(kf_ctx_new(&(kf_ctx_options){.threads = 1, .any_encoder = 1}, &any), KF_OK);
  AUTO(kf_data) *free_b = data_of(any, "b.safetensors", "one", 0xbbbbbbbb00000000u);
  assert_ok(ctx, kf_eval(ctx, model, free_b, NULL, &eval));
  assert_ok(any, kf_origins_agree(any, kf_data_origin(a), kf_data_origin(b)));
}

/* Once two encoders are mixed, a third cannot make it one again. */
TEST(joining) {
  kf_err err;
  kf_origin into = {0}, one = {0}, two = {.any = true}, none = {0};
  kf_origin_set(&one, "one", 1, "a");
  kf_origin_set(&two, "two", 2, "b");
  assert_true(two.any);
  assert_int_equal(kf_origin_join(&into, &none, &err), KF_OK);
  assert_null(kf_origin_known(&into));
  assert_int_equal(kf_origin_join(&into, &one, &err), KF_OK);
  assert_int_equal(into.checksum, 1);
  assert_int_equal(kf_origin_join(&into, &none, &err), KF_OK);
  assert_int_equal(into.checksum, 1);
  assert_int_equal(kf_origin_join(&into, &two, &err), KF_OK);
  assert_null(kf_origin_known(&into));
  assert_int_equal(kf_origin_join(&into, &one, &err), KF_OK);
  assert_null(kf_origin_known(&into));
  two.any = false;
  assert_int_equal(kf_origin_join(&one, &two, &err), KF_ERR_DATA);
  assert_int_equal(one.checksum, 1);
}

/* The end of a long path stays, from a whole character on. */
TEST(long_paths) {
  char path[1024];
  for (size_t shift = 0; shift < 2; shift++) {
    size_t n = shift;
    memset(path, 'x', sizeof path);
    while (n < 1000) n += (size_t)snprintf(path + n, sizeof path - n, "\u00e4");
    snprintf(path + n, sizeof path - n, "/end");
    kf_origin origin = {0};
    kf_origin_set(&origin, "name", 1, path);
    assert_true(kf_utf8_valid(origin.from, strlen(origin.from)));
    assert_true(strlen(origin.from) > 200);
    assert_string_equal(origin.from + strlen(origin.from) - 4, "/end");
  }
}

/* One model, whichever of its towers are loaded. */
TEST(towers) {
  kf_encoder_options all[] = {{.images = KF_ON},
                              {.images = KF_OFF},
                              {.text = KF_OFF},
                              {.text = KF_OFF, .precision = KF_PRECISION_F32}};
  uint64_t image_checksum = 0, origin = 0;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    AUTO(kf_encoder) *e = NULL;
    assert_ok(ctx, kf_encoder_load(ctx, CLIP, &all[i], &e));
    assert_string_equal(kf_origin_name(kf_encoder_origin(e)), "clip-f32");
    if (i == 0) image_checksum = e->image_checksum;
    if (i == 0) origin = kf_origin_checksum(kf_encoder_origin(e));
    assert_int_equal(kf_origin_checksum(kf_encoder_origin(e)), origin);
    /* The image tower alone is the same without the text; its precision is part of it. */
    if (i == 2) assert_int_equal(e->image_checksum, image_checksum);
    if (i == 2) assert_int_equal(e->checksum, image_checksum);
    if (i == 3) assert_true(e->image_checksum != image_checksum);
  }
}

FIXTURES(.before = make_test_folder, .after = remove_test_folder);
