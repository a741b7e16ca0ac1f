/* test_image.c - pictures: what Pillow and the reference's image processors return for them is
 * stored in tests/golden/images (make_images.py); damage, truncation and bombs are made here. */
#include "files.h"
#include "picture_file.h"

#include "encode/codec.h"

static kf_err err;
static uint8_t nothing[1];

#define GOLDEN KOOFU_SOURCE_DIR "/tests/golden/images/"

static uint64_t fnv(const void *bytes, size_t n) {
  const uint8_t *p = bytes;
  uint64_t value = UINT64_C(0xcbf29ce484222325);
  for (size_t i = 0; i < n; i++) value = (value ^ p[i]) * UINT64_C(0x100000001b3);
  return value;
}

static const char *golden(const char *name) {
  static char path[4096];
  snprintf(path, sizeof path, GOLDEN "%s", name);
  return path;
}

/* A format that this build leaves out is not a failure. */
static bool left_out(void) { return strstr(err.message, "this build of koofu does not read"); }

static bool reads(const char *ending) {
  char name[64];
  snprintf(name, sizeof name, "%s%s", strcmp(ending, ".jpg") == 0 ? "exif1-le" : "exif1", ending);
  kf_image image;
  kf_status status = read_picture(golden(name), &image, &err);
  kf_image_clear(&image);
  if (status != KF_OK && !left_out()) fail_msg("%s", err.message);
  return status == KF_OK;
}

static void assert_bad(kf_status status, const char *name, const char *cause) {
  if (status != KF_ERR_DATA || strstr(err.message, name) == NULL ||
      strstr(err.message, cause) == NULL)
    fail_msg("status %d, message '%s'; wanted '%s' and '%s'", (int)status, err.message, name,
             cause);
}

static void assert_refused_bytes(const void *bytes, size_t n, uint64_t max_pixels,
                                 const char *cause) {
  kf_image image = {.rgb = nothing};
  kf_status status = kf_image_decode(bytes, n, max_pixels, "NAME", &image, &err);
  assert_null(image.rgb);
  assert_bad(status, "NAME: ", cause);
}

/* --- what is stored --------------------------------------------------------------------------- */

TEST(every_kind_decodes_as_in_pillow) {
  FILE *list = fopen(golden("expected.txt"), "r");
  assert_non_null(list);
  char name[128];
  unsigned width, height;
  unsigned long long hash;
  int n = 0;
  while (fscanf(list, "%127s %u %u %llx", name, &width, &height, &hash) == 4) {
    kf_image image;
    n++;
    if (read_picture(golden(name), &image, &err) != KF_OK) {
      if (left_out()) continue;
      fail_msg("%s", err.message);
    }
    if (image.width != width || image.height != height)
      fail_msg("%s: %u x %u, not %u x %u", name, image.width, image.height, width, height);
    if (fnv(image.rgb, (size_t)3 * width * height) != hash) fail_msg("%s: other pixels", name);
    kf_image_clear(&image);
  }
  fclose(list);
  assert_true(n > 150);
}

static kf_image noise(uint32_t width, uint32_t height) {
  kf_image image = {.width = width, .height = height, .rgb = kf_alloc((size_t)width * height, 3)};
  assert_non_null(image.rgb);
  uint64_t seed = 1;
  for (size_t i = 0; i < (size_t)3 * width * height; i++)
    image.rgb[i] = (uint8_t)(test_random(&seed) >> 56);
  return image;
}

static uint8_t *resized(const kf_image *image, uint32_t width, uint32_t height, kf_resample filter,
                        kf_box box) {
  uint8_t *out = kf_alloc((size_t)box.width * box.height, 3);
  assert_non_null(out);
  if (kf_resize(image, width, height, filter, &box, out, &err) != KF_OK)
    fail_msg("%s", err.message);
  return out;
}

static kf_resample filter_named(const char *name) {
  return strcmp(name, "bilinear") == 0  ? KF_RESAMPLE_BILINEAR
         : strcmp(name, "lanczos") == 0 ? KF_RESAMPLE_LANCZOS
                                        : KF_RESAMPLE_BICUBIC;
}

TEST(resizes_as_pillow) {
  FILE *list = fopen(golden("resize.txt"), "r");
  assert_non_null(list);
  char name[16];
  unsigned w, h, width, height;
  unsigned long long hash;
  int n = 0;
  while (fscanf(list, "%u %u %u %u %15s %llx", &w, &h, &width, &height, name, &hash) == 6) {
    kf_image image = noise(w, h);
    kf_box all = {.width = width, .height = height};
    uint8_t *out = resized(&image, width, height, filter_named(name), all);
    if (fnv(out, (size_t)3 * width * height) != hash)
      fail_msg("%u x %u to %u x %u, %s: other pixels", w, h, width, height, name);
    kf_free(out);
    kf_image_clear(&image);
    n++;
  }
  fclose(list);
  assert_true(n > 60);
}

/* A part of a resized picture is that part of the whole, in either order of the passes. */
TEST(parts_equal_the_whole) {
  static const uint32_t shapes[][4] = {{50, 40, 30, 31}, {20, 90, 30, 31}, {50, 31, 30, 31},
                                       {30, 80, 30, 31}, {9, 9, 60, 70},   {30, 31, 30, 31}};
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
    uint32_t width = shapes[s][2], height = shapes[s][3];
    kf_image image = noise(shapes[s][0], shapes[s][1]);
    uint8_t *whole = resized(&image, width, height, KF_RESAMPLE_BICUBIC,
                             (kf_box){.width = width, .height = height});
    for (uint32_t cut = 1; cut < 12; cut++) {
      kf_box box = {.left = cut, .top = cut + 2, .width = width - 12, .height = height - 14};
      uint8_t *part = resized(&image, width, height, KF_RESAMPLE_BICUBIC, box);
      for (uint32_t y = 0; y < box.height; y++)
        assert_memory_equal(part + (size_t)y * box.width * 3,
                            whole + ((size_t)(y + box.top) * width + box.left) * 3,
                            (size_t)box.width * 3);
      kf_free(part);
    }
    kf_free(whole);
    kf_image_clear(&image);
  }
}

static kf_status read_config(const char *json, uint32_t size, kf_preprocess *p) {
  write_text("preprocessor_config.json", json);
  return kf_preprocess_read(folder, size, p, &err);
}

TEST(preprocesses_as_the_reference) {
  FILE *list = fopen(golden("preprocess.txt"), "r");
  assert_non_null(list);
  char name[128], json[512];
  unsigned size;
  unsigned long long hash;
  int n = 0;
  while (fscanf(list, "%127s %u %511s %llx", name, &size, json, &hash) == 4) {
    static float out[3 * 32 * 32];
    kf_preprocess p;
    kf_image image;
    n++;
    assert_int_equal(size, 32);
    if (read_config(json, size, &p) != KF_OK) fail_msg("%s", err.message);
    if (read_picture(golden(name), &image, &err) != KF_OK) {
      if (left_out()) continue;
      fail_msg("%s", err.message);
    }
    if (kf_preprocess_run(&p, &image, name, out, &err) != KF_OK) fail_msg("%s", err.message);
    if (fnv(out, sizeof out) != hash) fail_msg("%s with %s: other pixels", name, json);
    kf_image_clear(&image);
  }
  fclose(list);
  assert_true(n > 40);
}

/* --- damage ----------------------------------------------------------------------------------- */

static const char *const small[] = {
    "exif6-le.jpg",   "grey-progressive.jpg",       "cmyk.jpg",
    "rgb8-13x19.png", "palette-alpha4-i-13x19.png", "exif3-after.png",
    "exif3.webp",     "lossless-alpha.webp",        "q50.webp",
    "animated.webp"};
enum { N_SMALL = sizeof small / sizeof *small };

/* A copy of exactly n bytes, so that a sanitizer sees a read past its end. */
static void *exact_copy(const char *bytes, size_t n) {
  void *copy = malloc(n > 0 ? n : 1);
  assert_non_null(copy);
  memcpy(copy, bytes, n);
  return copy;
}

TEST(truncated_files_are_errors) {
  for (size_t f = 0; f < N_SMALL; f++) {
    if (!reads(strrchr(small[f], '.'))) continue;
    size_t size;
    AUTOFREE char *bytes = test_read(golden(small[f]), &size);
    /* The last chunk of a PNG is empty, and its checksum is not waited for. */
    size_t least = strstr(small[f], ".png") != NULL ? size - 4 : size;
    for (size_t n = 0; n < least; n++) {
      AUTOFREE void *copy = exact_copy(bytes, n);
      kf_image image;
      kf_status status = kf_image_decode(copy, n, 0, small[f], &image, &err);
      if (status != KF_ERR_DATA)
        fail_msg("%s cut to %zu of %zu bytes: %d", small[f], n, size, status);
      assert_non_null(strstr(err.message, small[f]));
    }
  }
}

TEST(damaged_files_end_well) {
  for (size_t f = 0; f < N_SMALL; f++) {
    size_t size;
    AUTOFREE char *bytes = test_read(golden(small[f]), &size);
    for (size_t n = 0; n < size; n++) {
      char kept = bytes[n];
      bytes[n] = (char)(bytes[n] ^ (1 << n % 8));
      AUTOFREE void *copy = exact_copy(bytes, size);
      kf_image image;
      if (kf_image_decode(copy, size, 1 << 20, small[f], &image, &err) != KF_OK) {
        assert_int_equal(err.status, KF_ERR_DATA);
        assert_null(image.rgb);
      }
      kf_image_clear(&image);
      bytes[n] = kept;
    }
  }
}

TEST(what_is_no_picture_is_refused) {
  kf_image image;
  assert_refused_bytes("GIF89a", 6, 0, "is a GIF picture; JPEG, PNG and WebP can be read");
  assert_refused_bytes("GIF88a", 6, 0, "is not a JPEG, PNG or WebP picture");
  assert_refused_bytes("", 0, 0, "is not a JPEG, PNG or WebP picture");
  assert_refused_bytes("RIFF\4\0\0\0WAVE", 12, 0, "is not a JPEG, PNG or WebP picture");
  assert_int_equal(read_picture(at("none.jpg"), &image, &err), KF_ERR_IO);
  assert_non_null(strstr(err.message, "none.jpg"));
  assert_bad(read_picture(folder, &image, &err), folder, "is a directory");
  assert_bad(read_picture(write_text("empty.png", ""), &image, &err), "empty.png", "is empty");
  if (reads(".jpg"))
    assert_refused_bytes("\xff\xd8\xff\xd9", 4, 0,
                         "is a damaged JPEG: JPEG datastream contains no image");
  if (reads(".png")) assert_refused_bytes("\x89PNG\r\n\x1a\n", 8, 0, "is a truncated PNG");
  if (reads(".webp")) assert_refused_bytes("RIFF\4\0\0\0WEBP", 12, 0, "WebP");
}

/* Writes another size over that of a picture; the checksum of a PNG's header is corrected. */
static uint32_t crc(const uint8_t *p, size_t n) {
  uint32_t value = 0xffffffff;
  while (n-- > 0) {
    value ^= *p++;
    for (int k = 0; k < 8; k++) value = value >> 1 ^ (value & 1 ? 0xedb88320 : 0);
  }
  return ~value;
}

static void put_be(uint8_t *p, uint32_t value, int n) {
  for (int i = 0; i < n; i++) p[i] = (uint8_t)(value >> 8 * (n - 1 - i));
}

TEST(png_bombs_are_refused) {
  if (!reads(".png")) test_skip(".png decoder");
  static const struct {
    uint32_t width, height;
    const char *cause;
  } cases[] = {{50000, 50000, "50000 x 50000 pixels are more than the limit of 178956970"},
               {0x7fffffff, 0x7fffffff, "decompression bomb"},
               {20000000, 1, "has 20000000 x 1 pixels; a side may have at most 16777216"},
               {0, 5, "PNG"},
               {0xffffffff, 1, "PNG"}};
  size_t size;
  AUTOFREE uint8_t *bytes = (uint8_t *)test_read(golden("rgb8-13x19.png"), &size);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    put_be(bytes + 16, cases[i].width, 4);
    put_be(bytes + 20, cases[i].height, 4);
    put_be(bytes + 29, crc(bytes + 12, 17), 4);
    assert_refused_bytes(bytes, size, 0, cases[i].cause);
  }
}

/* The 13 x 19 picture with n texts of `length` bytes each before its pixels. */
static uint8_t *with_texts(uint32_t n, uint32_t length, size_t *size) {
  enum { HEAD = 33, FRAME = 12 }; /* signature and IHDR; length, type and checksum */
  AUTOFREE uint8_t *bytes = (uint8_t *)test_read(golden("rgb8-13x19.png"), size);
  uint8_t *file = malloc(*size + n * (size_t)(FRAME + length)), *at = file + HEAD;
  assert_non_null(file);
  memcpy(file, bytes, HEAD);
  if (n > 0) {
    put_be(at, length, 4);
    memset(at + 4, 'x', length + 4);
    memcpy(at + 4, "tEXtx", 6); /* with the keyword and its NUL */
    put_be(at + 8 + length, crc(at + 4, length + 4), 4);
  }
  for (uint32_t i = 0; i < n; i++, at += FRAME + length)
    if (i > 0) memcpy(at, file + HEAD, FRAME + length);
  memcpy(at, bytes + HEAD, *size - HEAD);
  *size += n * (size_t)(FRAME + length);
  return file;
}

static uint64_t cost_of(const uint8_t *bytes, size_t size) {
  kf_codec codec = {.bytes = bytes, .n = size, .max_pixels = 1000, .name = "it", .size_only = true};
  assert_int_equal(kf_png_decode(&codec, &err), KF_OK);
  return codec.cost;
}

/* A compressed text may become as large as deflate allows. */
TEST(packed_texts_of_png) {
  if (!reads(".png")) test_skip(".png decoder");
  for (uint32_t length = 2; length <= 1 << 20; length *= 2) {
    size_t size;
    AUTOFREE uint8_t *bytes = with_texts(1, length, &size);
    uint64_t most = UINT64_C(1032) * length, cap = 64 << 20;
    memcpy(memmem(bytes, size, "tEXt", 4), "zTXt", 4);
    assert_true(cost_of(bytes, size) >= (most < cap ? most : cap));
    assert_true(cost_of(bytes, size) < cap + 10000);
  }
}

/* What a PNG keeps besides its pixels is taken from the budget of pictures, and is limited. */
TEST(texts_of_png) {
  if (!reads(".png")) test_skip(".png decoder");
  static const struct {
    uint32_t n, length;
    bool read;
  } cases[] = {{0, 0, true},         {1, 1 << 20, true}, {9, 1 << 20, true},
               {65, 1 << 20, false}, {999, 10, true},    {1001, 10, false}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    size_t size;
    AUTOFREE uint8_t *bytes = with_texts(cases[i].n, cases[i].length, &size);
    uint64_t texts = (uint64_t)cases[i].n * cases[i].length, cost = cost_of(bytes, size);
    assert_true(cost >= (texts < 64 << 20 ? texts : 64 << 20));
    assert_true(cost < 3 * texts + 2000 * (cases[i].n + UINT64_C(10)));
    kf_image image;
    kf_status status = kf_image_decode(bytes, size, 0, "NAME", &image, &err);
    if (cases[i].read)
      assert_int_equal(status, KF_OK);
    else
      assert_bad(status, "NAME: ", "too many texts and profiles: more than 64 MiB, or 1,000");
    kf_image_clear(&image);
  }
}

TEST(jpeg_bombs_are_refused) {
  if (!reads(".jpg")) test_skip(".jpg decoder");
  size_t size;
  AUTOFREE uint8_t *bytes = (uint8_t *)test_read(golden("q75-s2.jpg"), &size);
  uint8_t *frame = memmem(bytes, size, "\xff\xc0", 2);
  assert_non_null(frame);
  put_be(frame + 5, 65000, 2);
  put_be(frame + 7, 65001, 2);
  assert_refused_bytes(bytes, size, 0, "65001 x 65000 pixels are more than the limit");
  put_be(frame + 5, 0, 2);
  assert_refused_bytes(bytes, size, 0, "JPEG");
}

/* The last scan, again and again. */
TEST(jpegs_of_many_scans_are_refused) {
  if (!reads(".jpg")) test_skip(".jpg decoder");
  size_t size;
  AUTOFREE char *bytes = test_read(golden("grey-progressive.jpg"), &size);
  size_t head = 0;
  for (size_t i = 0; i + 1 < size; i++)
    if (memcmp(bytes + i, "\xff\xda", 2) == 0) head = i;
  assert_true(head > 0);
  const char *last = bytes + head;
  size_t scan = size - 2 - head; /* without the end of the image */
  AUTOFREE char *many = malloc(head + 200 * scan + 2);
  assert_non_null(many);
  memcpy(many, bytes, head);
  for (size_t k = 0; k < 200; k++) memcpy(many + head + k * scan, last, scan);
  memcpy(many + head + 20 * scan, "\xff\xd9", 2);
  kf_image image;
  assert_int_equal(kf_image_decode(many, head + 20 * scan + 2, 0, "NAME", &image, &err), KF_OK);
  kf_image_clear(&image);
  memcpy(many + head + 20 * scan, last, 2);
  memcpy(many + head + 200 * scan, "\xff\xd9", 2);
  assert_refused_bytes(many, head + 200 * scan + 2, 0, "is a JPEG of more than 100 scans");
}

TEST(webp_bombs_are_refused) {
  if (!reads(".webp")) test_skip(".webp decoder");
  size_t size;
  AUTOFREE uint8_t *bytes = (uint8_t *)test_read(golden("animated.webp"), &size);
  memset(bytes + 24, 0xff, 6); /* the canvas: 2^24 x 2^24 */
  assert_refused_bytes(bytes, size, 0, "16777216 x 16777216 pixels are more than the limit");
}

TEST(the_limit_is_that_of_the_caller) {
  static const char *const names[] = {"q75-s2.jpg", "shape-67x65.png", "q50.webp"};
  for (size_t f = 0; f < 3; f++) {
    if (!reads(strrchr(names[f], '.'))) continue;
    size_t size;
    AUTOFREE char *bytes = test_read(golden(names[f]), &size);
    kf_image image;
    assert_int_equal(kf_image_decode(bytes, size, 0, names[f], &image, &err), KF_OK);
    uint64_t pixels = (uint64_t)image.width * image.height;
    kf_image_clear(&image);
    assert_int_equal(kf_image_decode(bytes, size, pixels, names[f], &image, &err), KF_OK);
    kf_image_clear(&image);
    assert_refused_bytes(bytes, size, pixels - 1, "more than the limit");
  }
}

/* Damaged EXIF leaves the picture as it is; the tag is found after others, in either byte order,
 * and in a list of values. */
TEST(exif_is_read_with_care) {
  if (!reads(".jpg")) test_skip(".jpg decoder");
  static const struct {
    const char *exif;
    size_t n;
    bool turned; /* by a quarter */
  } cases[] = {
#define EXIF(turned, text) {text, sizeof text - 1, turned}
      EXIF(true, "Exif\0\0II*\0\10\0\0\0\1\0\22\1\3\0\1\0\0\0\6\0\0\0\0\0\0\0"),
      EXIF(true, "Exif\0\0MM\0*\0\0\0\10\0\2\1\1\0\3\0\0\0\1\0\1\0\0\1\22\0\4\0\0\0\1\0\0\0\6"),
      EXIF(true, "Exif\0\0II*\0\10\0\0\0\1\0\22\1\3\0\4\0\0\0\26\0\0\0\10\0\0\0\0\0\0\0"),
      EXIF(false, "Exif\0\0II*\0\10\0\0\0\1\0\22\1\3\0\4\0\0\0\27\0\0\0\10\0\0\0\0\0\0\0"),
      EXIF(false, "Exif\0\0II*\0\10\0\0\0\1\0\22\1\3\0\377\377\377\377\6\0\0\0"),
      EXIF(false, "Exif\0\0II*\0\10\0\0\0\1\0\22\1\1\0\1\0\0\0\6\0\0\0"),
      EXIF(false, "Exif\0\0II*\0\10\0\0\0\1\0\22\1\3\0\0\0\0\0\6\0\0\0"),
      EXIF(false, "Exif\0\0II*\0\10\0\0\0\377\377\22\1\3\0\1\0\0\0\11\0\0\0"),
      EXIF(false, "Exif\0\0II*\0\376\377\377\377\1\0\22\1\3\0\1\0\0\0\6\0\0\0"),
      EXIF(false, "Exif\0\0II*\0\377\377\377\377"),
      EXIF(false, "Exif\0\0IM*\0\10\0\0\0\1\0\22\1\3\0\1\0\0\0\6\0\0\0"),
      EXIF(false, "Exif\0\0II*\0\10\0\0\0\1\0\22\1\3\0\1\0\0\0\6\0\0"),
      EXIF(false, "Exif\0\0II*\0\10\0\0\0\1"),
      EXIF(false, "Exif\0\0II*\0"),
      EXIF(false, "Exif\0\0"),
      EXIF(false, "Exif\0"),
#undef EXIF
  };
  size_t size;
  AUTOFREE char *bytes = test_read(golden("q75-s2.jpg"), &size);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    AUTOFREE char *file = malloc(size + cases[i].n + 4);
    assert_non_null(file);
    memcpy(file, "\xff\xd8\xff\xe1", 4);
    put_be((uint8_t *)file + 4, (uint32_t)cases[i].n + 2, 2);
    memcpy(file + 6, cases[i].exif, cases[i].n);
    memcpy(file + 6 + cases[i].n, bytes + 2, size - 2);
    kf_image image;
    assert_int_equal(kf_image_decode(file, size + cases[i].n + 4, 0, "NAME", &image, &err), KF_OK);
    if ((image.width < image.height) != cases[i].turned) fail_msg("case %zu", i);
    kf_image_clear(&image);
  }
}

/* If a PNG has EXIF in two places, its eXIf chunk counts. */
TEST(exif_twice_in_png) {
  if (!reads(".png")) test_skip(".png decoder");
  static const char exif[] = "\0\0\0\26eXIfII*\0\10\0\0\0\1\0\22\1\3\0\1\0\0\0\1\0\0\0....";
  enum { HEAD = 33, CHUNK = sizeof exif - 1 };
  size_t size;
  AUTOFREE uint8_t *bytes = (uint8_t *)test_read(golden("raw-profile.png"), &size),
                   *file = malloc(size + CHUNK);
  assert_non_null(file);
  memcpy(file, bytes, HEAD); /* the mark of the file, and IHDR */
  memcpy(file + HEAD, exif, CHUNK);
  put_be(file + HEAD + CHUNK - 4, crc(file + HEAD + 4, CHUNK - 8), 4);
  memcpy(file + HEAD + CHUNK, bytes + HEAD, size - HEAD);
  kf_image turned, image;
  assert_int_equal(kf_image_decode(bytes, size, 0, "NAME", &turned, &err), KF_OK);
  assert_int_equal(kf_image_decode(file, size + CHUNK, 0, "NAME", &image, &err), KF_OK);
  assert_true(turned.width != turned.height);
  assert_int_equal(image.width, turned.height); /* which leaves it unchanged */
  assert_int_equal(image.height, turned.width);
  kf_image_clear(&image);
  kf_image_clear(&turned);
}

/* If a JPEG has two blocks, the first counts, as in Pillow. */
TEST(exif_twice_in_jpeg) {
  if (!reads(".jpg")) test_skip(".jpg decoder");
  static const char exif[] = "\xff\xe1\0\36Exif\0\0II*\0\10\0\0\0\1\0\22\1\3\0\1\0\0\0\6\0\0\0";
  enum { BLOCK = sizeof exif - 1, ORIENTATION = BLOCK - 4 };
  size_t size;
  AUTOFREE char *bytes = test_read(golden("q75-s2.jpg"), &size),
                *file = malloc(size + 2 * (size_t)BLOCK);
  assert_non_null(file);
  for (int first = 1; first <= 6; first += 5) {
    memcpy(file, bytes, 2);
    memcpy(file + 2, exif, BLOCK);
    memcpy(file + 2 + BLOCK, exif, BLOCK);
    file[2 + ORIENTATION] = (char)first;
    file[2 + BLOCK + ORIENTATION] = (char)(7 - first);
    memcpy(file + 2 + 2 * BLOCK, bytes + 2, size - 2);
    kf_image image;
    assert_int_equal(kf_image_decode(file, size + 2 * (size_t)BLOCK, 0, "NAME", &image, &err),
                     KF_OK);
    assert_int_equal(image.width < image.height, first == 6);
    kf_image_clear(&image);
  }
}

/* EXIF that the header of a WebP does not announce is ignored. */
TEST(webp_without_its_flag) {
  if (!reads(".webp")) test_skip(".webp decoder");
  size_t size;
  AUTOFREE char *bytes = test_read(golden("exif5.webp"), &size);
  kf_image turned, image;
  assert_int_equal(kf_image_decode(bytes, size, 0, "NAME", &turned, &err), KF_OK);
  bytes[20] = (char)(bytes[20] & ~8);
  assert_int_equal(kf_image_decode(bytes, size, 0, "NAME", &image, &err), KF_OK);
  assert_true(turned.width != turned.height);
  assert_int_equal(image.width, turned.height);
  kf_image_clear(&image);
  kf_image_clear(&turned);
}

/* A chunk of odd size is followed by one more byte; what comes after it is found all the same. */
TEST(odd_chunks_of_webp) {
  if (!reads(".webp")) test_skip(".webp decoder");
  static const char odd[] = "ODD!\3\0\0\0abc"; /* and the NUL of the string */
  size_t size, more = sizeof odd;
  AUTOFREE char *bytes = test_read(golden("exif5.webp"), &size), *file = malloc(size + more);
  assert_non_null(file);
  assert_memory_equal(bytes + 12, "VP8X", 4);
  memcpy(file, bytes, 30); /* RIFF and VP8X */
  memcpy(file + 30, odd, more);
  memcpy(file + 30 + more, bytes + 30, size - 30);
  for (int i = 0; i < 4; i++) file[4 + i] = (char)((size + more - 8) >> 8 * i);
  kf_image plain, image;
  assert_int_equal(kf_image_decode(bytes, size, 0, "NAME", &plain, &err), KF_OK);
  assert_int_equal(kf_image_decode(file, size + more, 0, "NAME", &image, &err), KF_OK);
  assert_int_equal(image.width, plain.width); /* rotated as EXIF says, which comes last */
  assert_int_equal(image.height, plain.height);
  assert_memory_equal(image.rgb, plain.rgb, (size_t)3 * plain.width * plain.height);
  kf_image_clear(&image);
  kf_image_clear(&plain);
}

/* --- configurations --------------------------------------------------------------------------- */

TEST(spellings_of_configurations) {
  kf_preprocess p;
  assert_int_equal(read_config("{\"size\": 336, \"crop_size\": 336, \"do_pad\": null}", 336, &p),
                   KF_OK);
  assert_true(p.resize && p.crop && p.rescale && p.normalize);
  assert_int_equal(p.shortest_edge, 336);
  assert_int_equal(p.crop_height, 336);
  assert_int_equal(p.resample, KF_RESAMPLE_BICUBIC);
  assert_true(p.mean[0] == 0.48145466 && p.std[2] == 0.27577711 && p.rescale_factor == 1 / 255.0);
  assert_int_equal(read_config("{\"image_processor_type\": \"SiglipImageProcessorFast\", \"size\": "
                               "{\"height\": 256, \"width\": 256}, \"image_mean\": 0.25}",
                               256, &p),
                   KF_OK);
  assert_true(!p.crop && p.shortest_edge == 0 && p.resize_width == 256);
  assert_true(p.mean[1] == 0.25 && p.std[1] == 0.5);

  char deep[1200]; /* a folder may have a long name */
  size_t n = (size_t)snprintf(deep, sizeof deep, "%s", folder);
  while (n < 1000) n += (size_t)snprintf(deep + n, sizeof deep - n, "/.");
  assert_int_equal(kf_preprocess_read(deep, 256, &p, &err), KF_OK);
  assert_true(p.mean[1] == 0.25);

  remove(at("preprocessor_config.json"));
  write_text("processor_config.json", "{\"image_processor\": {\"size\": {\"shortest_edge\": 99}, "
                                      "\"crop_size\": {\"height\": 64, \"width\": 64}}}");
  assert_int_equal(kf_preprocess_read(folder, 64, &p, &err), KF_OK);
  assert_int_equal(p.shortest_edge, 99);
  write_text("processor_config.json", "{\"processor_class\": \"CLIPProcessor\"}");
  assert_int_equal(kf_preprocess_read(folder, 64, &p, &err), KF_OK);
  assert_int_equal(p.shortest_edge, 64);
  remove(at("processor_config.json"));
  assert_int_equal(kf_preprocess_read(folder, 64, &p, &err), KF_OK);
  assert_int_equal(p.shortest_edge, 64);
  assert_int_equal(p.crop_width, 64);
}

TEST(bad_configurations_are_named) {
  static const struct {
    const char *json, *cause;
  } cases[] = {
      {"[]", "is not a JSON object"},
      {"{", ""},
      {"{\"size\": 0}", "'size' is not a number"},
      {"{\"size\": 1e9}", "'size' is not a number"},
      {"{\"size\": \"224\"}", "'size'"},
      {"{\"size\": {\"shortest_edge\": 224, \"longest_edge\": 300}}", "'size'"},
      {"{\"size\": {\"height\": 224}}", "'size'"},
      {"{\"crop_size\": {\"height\": 224, \"width\": -1}}", "'crop_size'"},
      {"{\"crop_size\": 200}", "'crop_size' makes 200 x 200 pixels, but the model takes 224 x 224"},
      {"{\"do_center_crop\": false, \"size\": {\"height\": 9, \"width\": 224}}",
       "'size' makes 224 x 9 pixels"},
      {"{\"resample\": 0}", "'resample' is 0 (nearest); lanczos"},
      {"{\"resample\": 5}", "'resample' is 5 (hamming)"},
      {"{\"resample\": 6}", "'resample' is not a filter"},
      {"{\"resample\": \"bicubic\"}", "'resample' is not"},
      {"{\"do_resize\": 1}", "'do_resize' is not true or false"},
      {"{\"do_normalize\": \"yes\"}", "'do_normalize' is not true or false"},
      {"{\"do_convert_rgb\": 3}", "'do_convert_rgb' is not"},
      {"{\"do_pad\": true}", "'do_pad' is true"},
      {"{\"image_mean\": [0.5, 0.5]}", "'image_mean' is not three numbers"},
      {"{\"image_mean\": [0.5, 0.5, \"x\"]}", "'image_mean'"},
      {"{\"image_std\": [0.5, 0.5, 0]}", "'image_std' is not three numbers other than 0"},
      {"{\"image_std\": [0.5, 0.5, 1e-300]}", "'image_std'"},
      {"{\"image_std\": 0}", "'image_std'"},
      {"{\"rescale_factor\": null, \"rescale_factor\": 1}", ""},
      {"{\"rescale_factor\": true}", "'rescale_factor' is not a number"},
      {"{\"image_processor_type\": \"DetrImageProcessor\"}", "DetrImageProcessor"},
      {"{\"image_processor_type\": 4}", "'image_processor_type' is not a string"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    kf_preprocess p;
    assert_bad(read_config(cases[i].json, 224, &p), "preprocessor_config.json", cases[i].cause);
  }
  remove(at("preprocessor_config.json"));
}

TEST(results_of_another_size_are_refused) {
  kf_preprocess p;
  float out[3 * 8 * 8];
  kf_image image = noise(8, 12), square = noise(5, 5);
  assert_int_equal(read_config("{\"do_center_crop\": false, \"size\": 8}", 8, &p), KF_OK);
  assert_bad(kf_preprocess_run(&p, &image, "NAME", out, &err), "NAME",
             "becomes 8 x 12 pixels, but the model takes 8 x 8");
  assert_int_equal(kf_preprocess_run(&p, &square, "NAME", out, &err), KF_OK);
  kf_image_clear(&image);
  kf_image_clear(&square);
  remove(at("preprocessor_config.json"));
}

FIXTURES(.before = make_test_folder, .after = remove_test_folder);
