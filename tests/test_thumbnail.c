/* test_thumbnail.c - small copies of pictures: the URI holds the picture, shrunk and the right way
 * up; an unreadable file fails and leaves nothing behind. */
#include "files.h"

#include "encode/encode.h"
#include "picture_file.h"

#include <sys/stat.h>

static kf_err err;

#define GOLDEN KOOFU_SOURCE_DIR "/tests/golden/images/"

static int digit(char c) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const char *found = c != '\0' ? strchr(digits, c) : NULL;
  return found != NULL ? (int)(found - digits) : -1;
}

/* The bytes of a data URI; fails on anything but base64 in full groups of four. */
static uint8_t *bytes_of(const char *uri, size_t *n) {
  const char *text = strstr(uri, ";base64,");
  assert_true(strncmp(uri, "data:image/", 11) == 0);
  assert_non_null(text);
  if (text == NULL) abort(); /* for the analyser */
  text += 8;
  size_t length = strlen(text);
  assert_true(length > 0 && length % 4 == 0);
  uint8_t *bytes = malloc(length / 4 * 3);
  assert_non_null(bytes);
  *n = 0;
  for (size_t i = 0; i < length; i += 4) {
    size_t digits = i + 4 < length || text[i + 3] != '=' ? 4 : text[i + 2] != '=' ? 3 : 2;
    uint32_t bits = 0;
    for (size_t d = 0; d < 4; d++) {
      int value = d < digits ? digit(text[i + d]) : 0;
      assert_true(value >= 0);
      bits = bits << 6 | (uint32_t)value;
    }
    for (size_t b = 0; b + 1 < digits; b++) bytes[(*n)++] = (uint8_t)(bits >> (16 - 8 * b));
  }
  return bytes;
}

static kf_image decoded(const kf_thumbnail *t) {
  size_t n;
  kf_image image;
  AUTOFREE uint8_t *bytes = bytes_of(t->uri, &n);
  if (kf_image_decode(bytes, n, 0, "URI", &image, &err) != KF_OK) fail_msg("%s", err.message);
  assert_int_equal(image.width, t->width);
  assert_int_equal(image.height, t->height);
  return image;
}

/* The mean distance of two pictures of the same size, in 255ths. */
static double distance(const uint8_t *a, const uint8_t *b, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += a[i] > b[i] ? a[i] - b[i] : b[i] - a[i];
  return sum / (double)n;
}

static bool left_out(void) {
  return strstr(err.message, "this build of koofu does not read") != NULL ||
         strstr(err.message, "this build of koofu cannot write pictures") != NULL;
}

static kf_thumbnail read_golden(const char *name, uint32_t side) {
  char path[4096];
  kf_thumbnail t;
  snprintf(path, sizeof path, GOLDEN "%s", name);
  if (kf_thumbnail_read(path, side, NULL, &t, &err) != KF_OK) {
    if (left_out()) test_skip("codec");
    fail_msg("%s", err.message);
  }
  return t;
}

/* --- tests ------------------------------------------------------------------------------------ */

TEST(it_is_the_picture_made_small) {
  for (uint32_t side = 8; side <= 40; side += 8) {
    kf_thumbnail t = read_golden("exif1.png", side);
    kf_image whole, small = decoded(&t);
    assert_int_equal(read_picture(GOLDEN "exif1.png", &whole, &err), KF_OK);
    assert_int_equal(t.width, side < whole.width ? side : whole.width);
    kf_box box = {.width = t.width, .height = t.height};
    uint8_t *expected = kf_alloc((uint64_t)t.width * t.height, 3);
    assert_non_null(expected);
    assert_int_equal(
        kf_resize(&whole, t.width, t.height, KF_RESAMPLE_BICUBIC, &box, expected, &err), KF_OK);
    double far = distance(expected, small.rgb, (size_t)t.width * t.height * 3);
    if (far > 12) /* of noise in JPEG; another picture: 60 and more */
      fail_msg("side %u: pixels differ by %.1f on average", side, far);
    kf_free(expected);
    kf_image_clear(&whole);
    kf_image_clear(&small);
    kf_thumbnail_clear(&t);
    assert_null(t.uri);
  }
}

TEST(sides_keep_their_proportion) {
  kf_thumbnail wide = read_golden("exif1.png", 21); /* of 31 x 20 pixels */
  assert_int_equal(wide.width, 21);
  assert_int_equal(wide.height, 14); /* 13.55, rounded */
  kf_thumbnail one = read_golden("exif1.png", 1);
  assert_int_equal(one.width, 1);
  assert_int_equal(one.height, 1);
  kf_thumbnail tall = read_golden("exif6.png", 1000), flat = read_golden("exif1.png", 1000);
  assert_int_equal(tall.width, flat.height);
  assert_int_equal(tall.height, flat.width);
  assert_true(tall.width != tall.height);
  kf_thumbnail_clear(&wide);
  kf_thumbnail_clear(&one);
  kf_thumbnail_clear(&tall);
  kf_thumbnail_clear(&flat);
}

static void assert_unreadable(const char *path, kf_status status, const char *cause) {
  kf_thumbnail t = {.width = 1, .uri = (char *)1};
  assert_int_equal(kf_thumbnail_read(path, 64, NULL, &t, &err), status);
  assert_true(t.uri == NULL && t.width == 0);
  if (strstr(err.message, cause) == NULL) fail_msg("'%s' without '%s'", err.message, cause);
}

TEST(what_is_no_picture_fails) {
  assert_unreadable(at("none.jpg"), KF_ERR_IO, "none.jpg");
  assert_unreadable("http://localhost/a.jpg", KF_ERR_IO, "cannot be opened");
  assert_unreadable(folder, KF_ERR_DATA, "is a directory");
  assert_unreadable("/dev/null", KF_ERR_DATA, "is not a regular file");
  assert_unreadable(write_text("text.jpg", "<script>"), KF_ERR_DATA, "is not a JPEG, PNG or WebP");
  assert_int_equal(mkfifo(at("pipe.jpg"), 0600), 0);
  assert_unreadable(at("pipe.jpg"), KF_ERR_DATA, "is not a regular file"); /* and does not wait */
  kf_thumbnail t;
  assert_int_equal(kf_thumbnail_read(GOLDEN "exif1.png", 0, NULL, &t, &err), KF_ERR_ARG);
}

/* In memory the bytes are those of the URI. */
TEST(it_is_the_same_in_memory) {
  static const char path[] = GOLDEN "exif6-be.jpg";
  AUTO(kf_ctx) *own = NULL;
  kf_bytes *small;
  kf_thumbnail t;
  size_t n, n_uri;
  assert_int_equal(kf_ctx_new(&(kf_ctx_options){.threads = 1}, &own), KF_OK);
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  AUTOFREE uint8_t *bytes = malloc(1 << 20);
  assert_non_null(bytes);
  n = fread(bytes, 1, 1 << 20, file);
  fclose(file);
  assert_int_equal(kf_thumbnail_read(path, 9, NULL, &t, &err), KF_OK);
  AUTOFREE uint8_t *wanted = bytes_of(t.uri, &n_uri);
  kf_image_bytes picture = {.bytes = bytes, .n = n};
  assert_int_equal(kf_thumbnail_new(own, &picture, 9, 0, &small), KF_OK);
  assert_int_equal(kf_bytes_size(small), n_uri);
  assert_memory_equal(kf_bytes_data(small), wanted, n_uri);
  kf_bytes_free(small);
  kf_thumbnail_clear(&t);
  assert_int_equal(kf_thumbnail_new(own, &picture, 0, 0, &small), KF_ERR_ARG);
  assert_int_equal(kf_thumbnail_new(own, &picture, 9, 4, &small),
                   KF_ERR_DATA); /* too many pixels */
  picture.n = 20;
  assert_int_equal(kf_thumbnail_new(own, &picture, 9, 0, &small), KF_ERR_DATA);
  assert_null(small);
  uint8_t pixels[2 * 3 * 3] = {255};
  kf_image_bytes plain = {.bytes = pixels, .n = sizeof pixels, .width = 2, .height = 3};
  assert_int_equal(kf_thumbnail_new(own, &plain, 9, 0, &small), KF_OK);
  kf_bytes_free(small);
  plain.n--;
  assert_int_equal(kf_thumbnail_new(own, &plain, 9, 0, &small), KF_ERR_ARG);
}

FIXTURES(.before = make_test_folder, .after = remove_test_folder);
