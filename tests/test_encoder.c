/* test_encoder.c - encoders against the reference, on golden models of every kind; the same bits
 * whatever the threads, instruction set and batch; pictures that cannot be read; progress. */
#include "models.h"

#include "encode/image.h"

#include <math.h>

/* --- the reference --------------------------------------------------------------------------- */

/* The documented limits; f32 is in fact far closer. */
static void compare_rows(const char *model, const char *what, const float *rows, const golden *want,
                         kf_precision precision) {
  double limit = precision == KF_PRECISION_F32 ? 1 - 1e-9 : 0.9999, apart = 0;
  for (size_t i = 0; i < want->n; i++) {
    const float *a = rows + i * want->columns, *b = (float *)want->values + i * want->columns;
    double aa = 0, bb = 0, ab = 0;
    for (size_t j = 0; j < want->columns; j++) {
      aa += (double)a[j] * a[j];
      bb += (double)b[j] * b[j];
      ab += (double)a[j] * b[j];
      apart = fmax(apart, fabs((double)a[j] - b[j]));
    }
    if (!(ab / sqrt(aa * bb) >= limit))
      fail_msg("%s, %s %zu: cosine %.9f", model, what, i, ab / sqrt(aa * bb));
  }
  if (!(apart <= (precision == KF_PRECISION_F32 ? 5e-6 : 0.05)))
    fail_msg("%s, %s: apart by %g", model, what, apart);
}

typedef kf_status (*encode_fn)(kf_ctx *ctx, const kf_encoder *encoder, const void *input,
                               uint64_t n, float *out);
static kf_status encode_pixels(kf_ctx *ctx, const kf_encoder *e, const void *in, uint64_t n,
                               float *out) {
  return kf_encode_pixels(ctx, e, in, n, out);
}
static kf_status encode_tokens(kf_ctx *ctx, const kf_encoder *e, const void *in, uint64_t n,
                               float *out) {
  return kf_encode_tokens(ctx, e, in, n, out);
}
static kf_status encode_texts(kf_ctx *ctx, const kf_encoder *e, const void *in, uint64_t n,
                              float *out) {
  return kf_encode_texts(ctx, e, in, n, out);
}
static kf_status encode_pictures(kf_ctx *ctx, const kf_encoder *e, const void *in, uint64_t n,
                                 float *out) {
  return kf_encode_images(ctx, e, in, n, out, NULL);
}

/* Inputs and expected outputs. */
static const struct {
  const char *input, *output;
  const void *given; /* NULL: the tensor `input` */
  encode_fn encode;
} ways[] = {{"pixels", "image", NULL, encode_pixels},
            {"pictures", "pictures", model_pictures, encode_pictures},
            {"tokens", "text", NULL, encode_tokens},
            {"texts", "text", model_texts, encode_texts}};
enum { N_WAYS = sizeof ways / sizeof ways[0] };

static void compare_model(kf_ctx *ctx, const char *model, kf_precision precision) {
  AUTO(kf_encoder) *encoder = load_model(ctx, model, precision);
  int compared = 0;
  for (int w = 0; w < N_WAYS; w++) {
    golden want = read_golden(model, ways[w].output);
    if (want.values == NULL) continue;
    golden in = read_golden(model, ways[w].input);
    assert_int_equal(kf_encoder_dim(encoder), want.columns);
    AUTOFREE float *rows = malloc(want.n * want.columns * sizeof *rows);
    assert_non_null(rows);
    const void *given = ways[w].given != NULL ? ways[w].given : in.values;
    assert_ok(ctx, ways[w].encode(ctx, encoder, given, want.n, rows));
    compare_rows(model, ways[w].input, rows, &want, precision);
    free(in.values);
    free(want.values);
    compared++;
  }
  assert_true(compared >= 2);
}

TEST(equals_the_reference) {
  AUTO(kf_ctx) *ctx = test_ctx(2, KF_ISA_AUTO);
  for (int m = 0; m < N_MODELS; m++) {
    compare_model(ctx, all_models[m], KF_PRECISION_F32);
    compare_model(ctx, all_models[m], KF_PRECISION_BF16);
  }
}

TEST(tells_about_itself) {
  AUTO(kf_ctx) *ctx = test_ctx(1, KF_ISA_AUTO);
  AUTO(kf_encoder) *both = load_model(ctx, "clip-f32", KF_PRECISION_AUTO);
  assert_int_equal(kf_encoder_dim(both), 24);
  assert_int_equal(kf_encoder_image_size(both), 32);
  assert_int_equal(kf_encoder_context(both), 16);
  assert_int_equal(kf_encoder_precision(both), KF_PRECISION_BF16);
  assert_true(kf_encoder_bytes(both) > 100000);
  AUTO(kf_encoder) *image = NULL, *text = NULL;
  const char *folder = MODELS "/clip-f32";
  assert_ok(ctx, kf_encoder_load(ctx, folder, &(kf_encoder_options){.text = KF_OFF}, &image));
  assert_ok(ctx, kf_encoder_load(ctx, folder, &(kf_encoder_options){.images = KF_OFF}, &text));
  assert_int_equal(kf_encoder_context(image), 0);
  assert_int_equal(kf_encoder_image_size(text), 0);
  assert_int_equal(kf_encoder_bytes(image) + kf_encoder_bytes(text), kf_encoder_bytes(both));
  float row[24];
  int32_t tokens[16];
  uint32_t n;
  assert_error(ctx, KF_ERR_ARG, "text tower", kf_encode_texts(ctx, image, model_texts, 1, row));
  assert_error(ctx, KF_ERR_ARG, "text tower", kf_tokenize(ctx, image, "cat", tokens, &n));
  assert_error(ctx, KF_ERR_ARG, "image tower",
               kf_encode_images(ctx, text, model_pictures, 1, row, NULL));
  assert_ok(ctx, kf_tokenize(ctx, text, "the photo", tokens, &n));
  assert_int_equal(n, 4);
  golden want = read_golden("clip-f32", "tokens");
  assert_memory_equal(tokens, (int32_t *)want.values + 16, sizeof tokens);
  free(want.values);
  kf_encoder *none = NULL;
  assert_error(
      ctx, KF_ERR_ARG, "both off",
      kf_encoder_load(ctx, folder, &(kf_encoder_options){.images = KF_OFF, .text = KF_OFF}, &none));
  assert_error(
      ctx, KF_ERR_ARG, "no image tower",
      kf_encoder_load(ctx, MODELS "/clip-text", &(kf_encoder_options){.text = KF_OFF}, &none));
  assert_error(ctx, KF_ERR_ARG, "precision",
               kf_encoder_load(ctx, folder, &(kf_encoder_options){.precision = 7}, &none));
}

/* On is the default; off, and only off, leaves a tower out. */
TEST(switches) {
  AUTO(kf_ctx) *ctx = test_ctx(2, KF_ISA_AUTO);
  const char *folder = MODELS "/clip-f32";
  static const kf_switch all[] = {KF_DEFAULT, KF_ON, KF_OFF};
  for (int i = 0; i < 3; i++)
    for (int t = 0; t < 3; t++) {
      if (all[i] == KF_OFF && all[t] == KF_OFF) continue;
      AUTO(kf_encoder) *e = NULL;
      kf_encoder_options options = {.images = all[i], .text = all[t]};
      assert_ok(ctx, kf_encoder_load(ctx, folder, &options, &e));
      assert_int_equal(kf_encoder_image_size(e) > 0, all[i] != KF_OFF);
      assert_int_equal(kf_encoder_context(e) > 0, all[t] != KF_OFF);
    }
  kf_encoder *none = NULL;
  kf_encoder_options newer = {.reserved = {0, 0, 0, 1}};
  assert_error(ctx, KF_ERR_ARG, "not zeroed", kf_encoder_load(ctx, folder, &newer, &none));
  assert_null(none);
}

/* A picture that goes through kf_preprocess_image and kf_encode_pixels is the same. */
TEST(pixels_are_the_pictures) {
  AUTO(kf_ctx) *ctx = test_ctx(2, KF_ISA_AUTO);
  AUTO(kf_encoder) *e = load_model(ctx, "clip-f32", KF_PRECISION_F32);
  static float pixels[3 * 3 * 32 * 32], a[3 * 24], b[3 * 24];
  for (int i = 0; i < 3; i++)
    assert_ok(ctx, kf_preprocess_image(ctx, e, model_pictures[i], pixels + i * 3 * 32 * 32));
  assert_ok(ctx, kf_encode_pixels(ctx, e, pixels, 3, a));
  assert_ok(ctx, kf_encode_images(ctx, e, model_pictures, 3, b, NULL));
  assert_memory_equal(a, b, sizeof a);
}

/* --- the same bits --------------------------------------------------------------------------- */

enum { COPIES = 7 };

/* The inputs `copies` times one after the other. */
static void *repeat(const golden *in, size_t copies) {
  size_t bytes = in->n * in->columns * 4;
  char *all = malloc(bytes * copies);
  assert_non_null(all);
  for (size_t i = 0; i < copies; i++) memcpy(all + i * bytes, in->values, bytes);
  return all;
}

/* All at once, repeated many times, and one by one: each row must have the bits of `want`. */
static void compare_bits(kf_ctx *ctx, const kf_encoder *e, int way, const golden *in, size_t dim,
                         const float *want) {
  size_t n = in->n, row = dim * sizeof(float);
  AUTOFREE float *rows = malloc(COPIES * n * row);
  assert_non_null(rows);
  AUTOFREE void *many = repeat(in, COPIES);
  assert_ok(ctx, ways[way].encode(ctx, e, in->values, n, rows));
  assert_memory_equal(rows, want, n * row);
  assert_ok(ctx, ways[way].encode(ctx, e, many, COPIES * n, rows));
  for (size_t i = 0; i < COPIES; i++) assert_memory_equal(rows + i * n * dim, want, n * row);
  for (size_t i = 0; i < n; i++) {
    const char *one = (const char *)in->values + i * in->columns * 4;
    assert_ok(ctx, ways[way].encode(ctx, e, one, 1, rows));
    assert_memory_equal(rows, want + i * dim, row);
  }
}

/* The bits of one model and precision, everywhere the same as with plain kernels and one thread. */
static void compare_everywhere(const char *model, int way, kf_precision precision) {
  golden in = read_golden(model, ways[way].input);
  if (in.values == NULL) return;
  AUTO(kf_ctx) *plain = test_ctx(1, KF_ISA_PLAIN);
  AUTO(kf_encoder) *reference = load_model(plain, model, precision);
  size_t dim = kf_encoder_dim(reference);
  AUTOFREE float *want = malloc(in.n * dim * sizeof *want);
  assert_non_null(want);
  assert_ok(plain, ways[way].encode(plain, reference, in.values, in.n, want));
  for (int isa = KF_ISA_PLAIN; isa <= KF_ISA_AMX; isa++) {
    if (!test_has_isa((kf_isa)isa)) continue;
    static const unsigned threads[] = {1, 2, 5};
    for (int t = 0; t < 3; t++) {
      AUTO(kf_ctx) *ctx = test_ctx(threads[t], (kf_isa)isa);
      AUTO(kf_encoder) *e = load_model(ctx, model, precision);
      assert_int_equal(kf_encoder_checksum(e), kf_encoder_checksum(reference));
      compare_bits(ctx, e, way, &in, dim, want);
      if (t == 0) compare_bits(plain, e, way, &in, dim, want); /* with a different context */
    }
  }
  free(in.values);
}

TEST(same_bits_everywhere) {
  for (int m = 0; m < N_MODELS; m++)
    for (int way = 0; way < N_WAYS; way++)
      if (ways[way].given == NULL)
        for (int p = KF_PRECISION_F32; p <= KF_PRECISION_BF16; p++)
          compare_everywhere(all_models[m], way, (kf_precision)p);
}

/* --- checksum -------------------------------------------------------------------------------- */

TEST(checksum_tells_encoders_apart) {
  AUTO(kf_ctx) *ctx = test_ctx(2, KF_ISA_AUTO);
  uint64_t seen[2 * N_MODELS] = {0};
  size_t n = 0;
  for (int m = 0; m < N_MODELS; m++) {
    for (int p = KF_PRECISION_F32; p <= KF_PRECISION_BF16; p++) {
      AUTO(kf_encoder) *e = load_model(ctx, all_models[m], (kf_precision)p);
      for (size_t i = 0; i < n; i++) assert_true(seen[i] != kf_encoder_checksum(e));
      seen[n++] = kf_encoder_checksum(e);
    }
  }
}

/* --- pictures that cannot be read ------------------------------------------------------------ */

typedef struct listener {
  char text[4096];
  unsigned progress, stop_at;
  uint64_t done, total;
} listener;

static void listen(void *user, const char *message) {
  listener *l = user;
  size_t n = strlen(l->text);
  snprintf(l->text + n, sizeof l->text - n, "%s\n", message);
}

static int count(void *user, const char *what, uint64_t done, uint64_t total) {
  listener *l = user;
  if (strcmp(what, "images") != 0 && strcmp(what, "texts") != 0 && strcmp(what, "weights") != 0)
    fail_msg("progress of '%s'", what);
  assert_true(done <= total);
  l->done = done;
  l->total = total;
  return ++l->progress == l->stop_at;
}

static kf_ctx *listening(listener *l, unsigned threads) {
  kf_ctx *ctx = NULL;
  kf_ctx_options options = {.threads = threads, .progress = count, .log = listen, .user = l};
  assert_int_equal(kf_ctx_new(&options, &ctx), KF_OK);
  return ctx;
}

TEST(bad_pictures_are_told) {
  enum { N = 41 };
  const char *paths[N];
  for (int i = 0; i < N; i++) paths[i] = model_pictures[i % 3];
  paths[0] = MODELS "/pictures/none.png";
  paths[7] = MODELS "/README";
  paths[8] = MODELS "/clip-f32/config.json";
  paths[40] = MODELS "/pictures";
  for (unsigned threads = 1; threads <= 100; threads = threads * 3 + 1) {
    listener l = {0};
    AUTO(kf_ctx) *ctx = listening(&l, threads);
    AUTO(kf_encoder) *e = load_model(ctx, "clip-f32", KF_PRECISION_F32);
    static float rows[N * 24], good[3 * 24];
    kf_status status[N];
    assert_ok(ctx, kf_encode_images(ctx, e, model_pictures, 3, good, NULL));
    memset(rows, 1, sizeof rows);
    assert_ok(ctx, kf_encode_images(ctx, e, paths, N, rows, status));
    static const float zeros[24];
    for (int i = 0; i < N; i++) {
      bool bad = i == 0 || i == 7 || i == 8 || i == 40;
      assert_int_equal(status[i], !bad ? KF_OK : i == 0 ? KF_ERR_IO : KF_ERR_DATA);
      assert_memory_equal(rows + i * 24, bad ? zeros : good + i % 3 * 24, sizeof zeros);
    }
    const char *a = strstr(l.text, "none.png"), *b = strstr(l.text, "README"),
               *c = strstr(l.text, "config.json"), *d = strstr(l.text, "pictures: ");
    assert_true(a != NULL && b > a && c > b && d > c);
    assert_error(ctx, KF_ERR_IO, "none.png", kf_encode_images(ctx, e, paths, N, rows, NULL));
    assert_error(ctx, KF_ERR_DATA, "README",
                 kf_encode_images(ctx, e, paths + 1, N - 1, rows, NULL));
    assert_ok(ctx, kf_encode_images(ctx, e, paths + 7, 2, rows, status)); /* none is left */
  }
}

/* The bytes of a file, in a block of that size; free() them. */
static kf_image_bytes read_whole(const char *path) {
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  assert_int_equal(fseek(file, 0, SEEK_END), 0);
  size_t n = (size_t)ftell(file);
  rewind(file);
  unsigned char *bytes = malloc(n);
  assert_non_null(bytes);
  assert_int_equal(fread(bytes, 1, n, file), n);
  fclose(file);
  return (kf_image_bytes){.bytes = bytes, .n = n};
}

TEST(pictures_in_memory) {
  enum { N = 9 };
  static float want[3 * 24], rows[N * 24];
  static const float zeros[24];
  kf_image_bytes files[3], in[N];
  for (int i = 0; i < 3; i++) files[i] = read_whole(model_pictures[i]);
  for (unsigned threads = 1; threads <= 40; threads = threads * 3 + 1) {
    AUTO(kf_ctx) *ctx = test_ctx(threads, KF_ISA_AUTO);
    AUTO(kf_encoder) *e = load_model(ctx, "clip-f32", KF_PRECISION_F32);
    kf_status status[N];
    assert_ok(ctx, kf_encode_images(ctx, e, model_pictures, 3, want, NULL));
    for (int i = 0; i < N; i++) in[i] = files[i % 3];
    in[4].n = 20;
    in[7] = (kf_image_bytes){.bytes = "no picture", .n = 10};
    assert_ok(ctx, kf_encode_image_bytes(ctx, e, in, N, rows, status));
    for (int i = 0; i < N; i++) {
      assert_int_equal(status[i], i == 4 || i == 7 ? KF_ERR_DATA : KF_OK);
      assert_memory_equal(rows + i * 24, status[i] != KF_OK ? zeros : want + i % 3 * 24,
                          sizeof zeros);
    }
    assert_error(ctx, KF_ERR_DATA, "picture 4: ", kf_encode_image_bytes(ctx, e, in, N, rows, NULL));
    kf_image image; /* the same from pixels */
    kf_err err;
    assert_int_equal(kf_image_decode(files[1].bytes, files[1].n, 0, "", &image, &err), KF_OK);
    in[0] = (kf_image_bytes){.bytes = image.rgb,
                             .n = (uint64_t)3 * image.width * image.height,
                             .width = image.width,
                             .height = image.height};
    assert_ok(ctx, kf_encode_image_bytes(ctx, e, in, 1, rows, NULL));
    assert_memory_equal(rows, want + 24, sizeof zeros);
    in[0].n--;
    assert_error(ctx, KF_ERR_ARG, "picture 0 has no bytes, or not 3 for each pixel",
                 kf_encode_image_bytes(ctx, e, in, 1, rows, NULL));
    in[0] = (kf_image_bytes){.bytes = image.rgb, .n = 0, .width = 4};
    assert_error(ctx, KF_ERR_DATA, "impossible size",
                 kf_encode_image_bytes(ctx, e, in, 1, rows, NULL));
    kf_image_clear(&image);
  }
  for (int i = 0; i < 3; i++) free((void *)(uintptr_t)files[i].bytes);
}

TEST(bad_input_is_refused) {
  AUTO(kf_ctx) *ctx = test_ctx(2, KF_ISA_AUTO);
  AUTO(kf_encoder) *e = load_model(ctx, "clip-f32", KF_PRECISION_F32);
  static float pixels[2 * 3 * 32 * 32], rows[2 * 24];
  pixels[3 * 32 * 32 + 5] = NAN;
  assert_error(ctx, KF_ERR_DATA, "picture 1: the embedding is not finite",
               kf_encode_pixels(ctx, e, pixels, 2, rows));
  int32_t tokens[2 * 16] = {0};
  tokens[16] = 525;
  assert_error(ctx, KF_ERR_DATA, "text 1: token 525", kf_encode_tokens(ctx, e, tokens, 2, rows));
  tokens[16] = -1;
  assert_error(ctx, KF_ERR_DATA, "text 1: token -1", kf_encode_tokens(ctx, e, tokens, 2, rows));
  const char *texts[] = {"fine", "bad \xff", NULL};
  assert_error(ctx, KF_ERR_DATA, "text 1", kf_encode_texts(ctx, e, texts, 2, rows));
  assert_error(ctx, KF_ERR_ARG, "text 2 is NULL", kf_encode_texts(ctx, e, texts, 3, rows));
  assert_error(ctx, KF_ERR_ARG, "path 2 is NULL", kf_encode_images(ctx, e, texts, 3, rows, NULL));
  assert_error(ctx, KF_ERR_ARG, "NULL", kf_encode_images(ctx, NULL, texts, 1, rows, NULL));
  assert_error(ctx, KF_ERR_ARG, "NULL", kf_encode_images(ctx, e, NULL, 1, rows, NULL));
  assert_error(ctx, KF_ERR_ARG, "NULL", kf_encode_images(ctx, e, texts, 1, NULL, NULL));
  assert_error(ctx, KF_ERR_ARG, "NULL", kf_encode_pixels(ctx, e, NULL, 1, rows));
  assert_error(ctx, KF_ERR_ARG, "NULL", kf_encode_texts(ctx, e, NULL, 1, rows));
  assert_error(ctx, KF_ERR_ARG, "NULL", kf_preprocess_image(ctx, e, NULL, pixels));
  assert_error(ctx, KF_ERR_ARG, "NULL", kf_tokenize(ctx, e, "cat", NULL, NULL));
  assert_int_equal(kf_encode_images(NULL, e, texts, 1, rows, NULL), KF_ERR_ARG);
  assert_ok(ctx, kf_encode_images(ctx, e, NULL, 0, NULL, NULL));
  assert_ok(ctx, kf_encode_pixels(ctx, e, NULL, 0, NULL));
  assert_ok(ctx, kf_encode_texts(ctx, e, NULL, 0, NULL));
}

/* --- progress -------------------------------------------------------------------------------- */

TEST(progress_and_stopping) {
  enum { N = 300 };
  const char *paths[N], *texts[N];
  for (int i = 0; i < N; i++) paths[i] = model_pictures[i % 3], texts[i] = model_texts[i % 6];
  for (unsigned threads = 1; threads < 5; threads += 2) {
    listener l = {0};
    AUTO(kf_ctx) *ctx = listening(&l, threads);
    AUTO(kf_encoder) *e = load_model(ctx, "clip-f32", KF_PRECISION_BF16);
    static float rows[N * 24];
    assert_true(l.progress > 0 && l.done == l.total);
    l = (listener){0};
    assert_ok(ctx, kf_encode_images(ctx, e, paths, N, rows, NULL));
    assert_true(l.done == N && l.total == N);
    l = (listener){.stop_at = 1};
    assert_int_equal(kf_encode_images(ctx, e, paths, N, rows, NULL), KF_ERR_CANCELLED);
    l = (listener){.stop_at = 1};
    assert_int_equal(kf_encode_texts(ctx, e, texts, N, rows), KF_ERR_CANCELLED);
    l = (listener){.stop_at = 1};
    kf_encoder *none = NULL;
    assert_int_equal(kf_encoder_load(ctx, MODELS "/clip-f32", NULL, &none), KF_ERR_CANCELLED);
    assert_null(none);
  }
}
