/* image.c - which decoder a picture needs, how large it may be, and turning it the right way up. */
#include "encode/codec.h"

#include <string.h>

void kf_image_clear(kf_image *image) {
  kf_free(image->rgb);
  *image = (kf_image){0};
}

/* Longer sides are absurd; below this the weights of a resize take at most some 400 MB. */
#define MAX_SIDE (1u << 24)

kf_status kf_codec_size(kf_codec *codec, uint64_t width, uint64_t height, kf_err *err) {
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
  codec->image = (kf_image){
      .width = (uint32_t)width, .height = (uint32_t)height, .rgb = kf_alloc(width * height, 3)};
  return codec->image.rgb != NULL ? KF_OK : kf_fail_memory(err);
}

/* --- the right way up ------------------------------------------------------------------------- */

/* 2 to 4: rows stay rows, read from the right, from both ends, or from the bottom; 5 to 8: rows
 * become columns, read as they are, from the bottom, from both ends, or from the right. In squares of
 * 32 pixels, which stay in the cache. */
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

kf_status kf_image_decode(const void *bytes, size_t n, uint64_t max_pixels, const char *name,
                          kf_image *out, kf_err *err) {
  *out = (kf_image){0};
  kf_codec codec = {.bytes = bytes,
                    .n = n,
                    .max_pixels = max_pixels != 0 ? max_pixels : KF_MAX_PIXELS,
                    .name = name,
                    .orientation = 1};
  kf_status status = decode(&codec, err);
  if (status == KF_OK) status = turn(&codec.image, codec.orientation, err);
  if (status == KF_OK)
    *out = codec.image;
  else
    kf_image_clear(&codec.image);
  return status;
}

kf_status kf_image_read(const char *path, uint64_t max_pixels, kf_image *out, kf_err *err) {
  return kf_image_read_sum(path, max_pixels, out, NULL, err);
}

kf_status kf_image_read_sum(const char *path, uint64_t max_pixels, kf_image *out, uint64_t *sum,
                            kf_err *err) {
  *out = (kf_image){0};
  char *bytes;
  uint64_t n;
  if (sum != NULL) *sum = KF_NO_SUM;
  KF_TRY(kf_read_file(path, KF_MAX_IMAGE_FILE, &bytes, &n, err));
  kf_checksum of_bytes;
  kf_checksum_start(&of_bytes);
  if (sum != NULL) kf_checksum_add(&of_bytes, bytes, n);
  if (sum != NULL) *sum = kf_checksum_value(&of_bytes);
  kf_status status = kf_image_decode(bytes, (size_t)n, max_pixels, path, out, err);
  kf_free(bytes);
  return status;
}
