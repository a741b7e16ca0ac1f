/* image.c - chooses the decoder of a picture, limits its size, and turns it the right way up. */
#include "encode/codec.h"

#include <string.h>
#include <sys/stat.h>

void kf_image_clear(kf_image *image) {
  kf_free(image->rgb);
  if (image->budget != NULL) kf_budget_give(image->budget, image->taken);
  *image = (kf_image){0};
}

/* Longer sides are refused; with this one the weights of a resize take about 400 MB. */
#define MAX_SIDE (1u << 24)

/* Bytes of a decoded picture and of the weights for resizing it. */
static uint64_t held(uint64_t width, uint64_t height) {
  return 3 * width * height + 24 * (width + height);
}

kf_status kf_codec_size(kf_codec *codec, uint64_t width, uint64_t height, uint64_t decoder,
                        kf_err *err) {
  unsigned long long w = width, h = height, most = codec->max_pixels;
  if (width == 0 || height == 0)
    return kf_fail_file(err, codec->name, "has an impossible size of %llu x %llu pixels", w, h);
  if (height > codec->max_pixels / width)
    return kf_fail_hint(err, KF_ERR_DATA, KF_HINT_MAX_PIXELS,
                        "%s: %llu x %llu pixels are more than the limit of %llu, which guards "
                        "against decompression bombs",
                        codec->name, w, h, most);
  if (width > MAX_SIDE || height > MAX_SIDE)
    return kf_fail_file(err, codec->name, "has %llu x %llu pixels; a side may have at most %u", w,
                        h, MAX_SIDE);
  uint64_t turned = 3 * width * height; /* made after the decoder has freed its memory */
  codec->cost = held(width, height) + (decoder > turned ? decoder : turned);
  if (codec->size_only) return KF_OK;
  codec->image = (kf_image){
      .width = (uint32_t)width, .height = (uint32_t)height, .rgb = kf_alloc(width * height, 3)};
  return codec->image.rgb != NULL ? KF_OK : kf_fail_memory(err);
}

/* --- the right way up ------------------------------------------------------------------------- */

/* Orientations 2 to 4 keep rows, read from the right, from the right and the bottom, or from the
 * bottom; 5 to 8 turn rows into columns, read as they are, from the bottom, from both, or from the
 * right. Works in squares of 32 pixels, which stay in the cache. */
static kf_status turn(kf_image *image, int orientation, kf_err *err) {
  enum { SQUARE = 32 };
  if (orientation < 2) return KF_OK;
  bool turned = orientation >= 5;
  bool from_bottom = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  bool from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  uint32_t w = turned ? image->height : image->width, h = turned ? image->width : image->height;
  uint8_t *to = kf_alloc((uint64_t)w * h, 3);
  if (to == NULL) return kf_fail_memory(err);
  for (uint32_t y0 = 0; y0 < h; y0 += SQUARE)
    for (uint32_t x0 = 0; x0 < w; x0 += SQUARE)
      for (uint32_t y = y0; y < h && y < y0 + SQUARE; y++)
        for (uint32_t x = x0; x < w && x < x0 + SQUARE; x++) {
          size_t row = turned ? x : y, column = turned ? y : x;
          if (from_bottom) row = image->height - 1 - row;
          if (from_right) column = image->width - 1 - column;
          const uint8_t *from = image->rgb + (row * image->width + column) * 3;
          for (size_t c = 0; c < 3; c++) to[((size_t)y * w + x) * 3 + c] = from[c];
        }
  kf_free(image->rgb);
  *image = (kf_image){.width = w, .height = h, .rgb = to};
  return KF_OK;
}

/* --- decoding --------------------------------------------------------------------------------- */

static kf_status decode(kf_codec *codec, kf_err *err) {
  bool readable;
  const char *format = kf_picture_format(codec->bytes, codec->n, &readable);
  if (format == NULL) return kf_fail_file(err, codec->name, "is not a JPEG, PNG or WebP picture");
  if (!readable)
    return kf_fail_file(err, codec->name, "is a %s picture; JPEG, PNG and WebP can be read",
                        format);
  if (strcmp(format, "JPEG") == 0) return kf_jpeg_decode(codec, err);
  return strcmp(format, "PNG") == 0 ? kf_png_decode(codec, err) : kf_webp_decode(codec, err);
}

static kf_codec codec_for(const void *bytes, size_t n, uint64_t max_pixels, const char *name) {
  return (kf_codec){.bytes = bytes,
                    .n = n,
                    .max_pixels = max_pixels != 0 ? max_pixels : KF_MAX_PIXELS,
                    .name = name,
                    .orientation = 1};
}

kf_status kf_image_decode(const void *bytes, size_t n, uint64_t max_pixels, const char *name,
                          kf_image *out, kf_err *err) {
  *out = (kf_image){0};
  kf_codec codec = codec_for(bytes, n, max_pixels, name);
  kf_status status = decode(&codec, err);
  if (status == KF_OK) status = turn(&codec.image, codec.orientation, err);
  if (status == KF_OK)
    *out = codec.image;
  else
    kf_image_clear(&codec.image);
  return status;
}

/* Hands the picture its share of what was taken from the budget; *taken becomes the rest. */
static void keep_part(kf_image *image, kf_budget *budget, uint64_t *taken) {
  uint64_t rest = held(image->width, image->height);
  image->budget = budget;
  image->taken = rest < *taken ? rest : *taken;
  *taken -= image->taken;
}

kf_status kf_image_decode_within(const void *bytes, size_t n, uint64_t max_pixels,
                                 kf_budget *budget, const char *name, kf_image *out, kf_err *err) {
  *out = (kf_image){0};
  kf_codec codec = codec_for(bytes, n, max_pixels, name);
  codec.size_only = true;
  KF_TRY(decode(&codec, err));
  uint64_t taken = codec.cost;
  kf_budget_take(budget, taken);
  kf_status status = kf_image_decode(bytes, n, max_pixels, name, out, err);
  if (status == KF_OK) keep_part(out, budget, &taken);
  kf_budget_give(budget, taken);
  return status;
}

kf_status kf_image_check(const kf_image *image, uint64_t max_pixels, const char *name,
                         kf_err *err) {
  kf_codec codec = codec_for(NULL, 0, max_pixels, name);
  codec.size_only = true;
  return kf_codec_size(&codec, image->width, image->height, 0, err);
}

/* --- files ------------------------------------------------------------------------------------ */

/* The size of the file; reading it will report errors. */
static uint64_t size_of(const kf_extent *extent) {
  struct stat info;
  uint64_t size = extent->size;
  if (size == KF_WHOLE_FILE)
    size = stat(extent->file, &info) == 0 && info.st_size > 0 ? (uint64_t)info.st_size : 0;
  return size < KF_MAX_IMAGE_FILE ? size : KF_MAX_IMAGE_FILE;
}

/* A file that is read and decoded. */
typedef struct reading {
  const kf_extent *extent;
  uint64_t max_pixels;
  kf_budget *budget;
  uint64_t taken; /* from the budget */
  char *bytes;
  uint64_t n;
  uint64_t *sum; /* of the bytes; NULL: not wanted */
} reading;

static kf_status read_bytes(reading *r, uint64_t take, kf_err *err) {
  if (r->budget != NULL) kf_budget_take(r->budget, take);
  r->taken = take;
  KF_TRY(kf_read_extent(r->extent, KF_MAX_IMAGE_FILE, &r->bytes, &r->n, err));
  if (r->sum == NULL) return KF_OK;
  kf_checksum of_bytes;
  kf_checksum_start(&of_bytes);
  kf_checksum_add(&of_bytes, r->bytes, r->n);
  *r->sum = kf_checksum_value(&of_bytes);
  return KF_OK;
}

static void drop_bytes(reading *r) {
  kf_free(r->bytes);
  r->bytes = NULL;
  if (r->budget != NULL) kf_budget_give(r->budget, r->taken);
  r->taken = 0;
}

/* Takes the memory for decoding from the budget. If that means waiting, the file is released first
 * and read again afterwards: a waiter holds nothing, so there is no deadlock. */
static kf_status take_room(reading *r, kf_err *err) {
  kf_codec codec = codec_for(r->bytes, (size_t)r->n, r->max_pixels, r->extent->name);
  codec.size_only = true;
  KF_TRY(decode(&codec, err));
  uint64_t all = r->taken + codec.cost;
  if (kf_budget_try(r->budget, r->taken, codec.cost)) {
    r->taken = all;
    return KF_OK;
  }
  drop_bytes(r);
  return read_bytes(r, all, err);
}

static kf_status decode_bytes(reading *r, kf_image *out, kf_err *err) {
  if (r->budget != NULL) KF_TRY(take_room(r, err));
  return kf_image_decode(r->bytes, (size_t)r->n, r->max_pixels, r->extent->name, out, err);
}

kf_status kf_image_read_sum(const kf_extent *extent, uint64_t max_pixels, kf_budget *budget,
                            kf_image *out, uint64_t *sum, kf_err *err) {
  *out = (kf_image){0};
  reading r = {.extent = extent, .max_pixels = max_pixels, .budget = budget, .sum = sum};
  if (sum != NULL) *sum = KF_NO_SUM;
  kf_status status = read_bytes(&r, budget != NULL ? size_of(extent) : 0, err);
  if (status == KF_OK) status = decode_bytes(&r, out, err);
  if (status == KF_OK && budget != NULL) keep_part(out, budget, &r.taken);
  drop_bytes(&r);
  return status;
}
