/* webp.c - WebP through libwebp: lossy and lossless, without transparency; of an animation the
 * first frame on a black background, as Pillow shows it.
 *
 * The file is a RIFF: chunks of four letters, a size, and data padded to an even number of bytes.
 * They are walked here for the orientation and the first frame; the size of the RIFF shows whether
 * the file is truncated. */
#include "encode/codec.h"

#ifndef KF_WITH_WEBP

kf_status kf_webp_decode(kf_codec *codec, kf_err *err) {
  return kf_fail_file(err, codec->name, "is a WebP, which this build of koofu does not read");
}

#else

#include <string.h>

#include <webp/decode.h>

enum { FLAG_ANIMATION = 2, FLAG_XMP = 4, FLAG_EXIF = 8, FRAME_HEAD = 16 };

static uint32_t le24(const uint8_t *p) {
  return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16;
}
static uint32_t le32(const uint8_t *p) { return le24(p) | (uint32_t)p[3] << 24; }

/* --- chunks ----------------------------------------------------------------------------------- */

typedef struct chunk {
  const uint8_t *tag, *data;
  size_t n;
} chunk;

/* Takes the next chunk, cut at `end` if it is longer; false: there is none. */
static bool next_chunk(const uint8_t **p, const uint8_t *end, chunk *out) {
  size_t left = (size_t)(end - *p);
  if (left < 8) return false;
  size_t n = le32(*p + 4), room = left - 8;
  *out = (chunk){.tag = *p, .data = *p + 8, .n = n < room ? n : room};
  *p = n < room ? out->data + n + (n & 1) : end;
  return true;
}

static bool is(const chunk *c, const char *tag) { return memcmp(c->tag, tag, 4) == 0; }

typedef struct chunks {
  uint8_t flags; /* of VP8X */
  chunk canvas;  /* VP8X */
  chunk frame;   /* the first ANMF */
  chunk exif, xmp;
} chunks;

static void find_chunks(const uint8_t *p, const uint8_t *end, chunks *out) {
  *out = (chunks){0};
  chunk c;
  while (next_chunk(&p, end, &c)) {
    if (is(&c, "VP8X") && c.n >= 10 && out->canvas.data == NULL) {
      out->canvas = c;
      out->flags = c.data[0];
    }
    if (is(&c, "ANMF") && out->frame.data == NULL) out->frame = c;
    if (is(&c, "EXIF") && out->exif.data == NULL) out->exif = c;
    if (is(&c, "XMP ") && out->xmp.data == NULL) out->xmp = c;
  }
}

static int orientation_of(const chunks *found) {
  int exif = 0, xmp = 0;
  if ((found->flags & FLAG_EXIF) != 0 && found->exif.data != NULL)
    exif = kf_exif_orientation(found->exif.data, found->exif.n);
  if ((found->flags & FLAG_XMP) != 0 && found->xmp.data != NULL)
    xmp = kf_xmp_orientation(found->xmp.data, found->xmp.n);
  return kf_orientation(exif, xmp);
}

/* --- pixels ----------------------------------------------------------------------------------- */

static kf_status fail(const kf_codec *codec, VP8StatusCode code, kf_err *err) {
  /* USER_ABORT: the library found no memory for its output. */
  if (code == VP8_STATUS_OUT_OF_MEMORY || code == VP8_STATUS_USER_ABORT) return kf_fail_memory(err);
  bool truncated = code == VP8_STATUS_NOT_ENOUGH_DATA || code == VP8_STATUS_SUSPENDED;
  return kf_fail_file(err, codec->name, "is a %s WebP", truncated ? "truncated" : "damaged");
}

/* Decodes a file or a bare frame to rgb, which has room for `size` bytes. */
static kf_status decode_at(const kf_codec *codec, const uint8_t *bytes, size_t n, uint8_t *rgb,
                           size_t size, kf_err *err) {
  WebPDecoderConfig config;
  if (!WebPInitDecoderConfig(&config))
    return kf_fail(err, KF_ERR_INTERNAL, "libwebp is not the version that koofu was built with");
  config.output.colorspace = MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA.rgba = rgb;
  config.output.u.RGBA.stride = (int)(codec->image.width * 3);
  config.output.u.RGBA.size = size;
  VP8StatusCode code = WebPDecode(bytes, n, &config);
  WebPFreeDecBuffer(&config.output);
  return code == VP8_STATUS_OK ? KF_OK : fail(codec, code, err);
}

static kf_status decode_still(kf_codec *codec, size_t n, kf_err *err) {
  WebPBitstreamFeatures features;
  VP8StatusCode code = WebPGetFeatures(codec->bytes, n, &features);
  if (code != VP8_STATUS_OK) return fail(codec, code, err);
  uint64_t width = (uint64_t)features.width, height = (uint64_t)features.height;
  KF_TRY(kf_codec_size(codec, width, height, 4 * width * height, err));
  if (codec->size_only) return KF_OK;
  size_t size = (size_t)codec->image.width * codec->image.height * 3;
  return decode_at(codec, codec->bytes, n, codec->image.rgb, size, err);
}

/* The first frame may cover only a part of the canvas. */
static kf_status decode_frame(kf_codec *codec, const chunks *found, kf_err *err) {
  const uint8_t *head = found->frame.data;
  if (head == NULL || found->frame.n < FRAME_HEAD)
    return kf_fail_file(err, codec->name, "is an animated WebP without a frame");
  uint64_t x = 2 * (uint64_t)le24(head), y = 2 * (uint64_t)le24(head + 3);
  uint64_t width = le24(head + 6) + UINT64_C(1), height = le24(head + 9) + UINT64_C(1);
  uint64_t across = le24(found->canvas.data + 4) + UINT64_C(1);
  uint64_t down = le24(found->canvas.data + 7) + UINT64_C(1);
  KF_TRY(kf_codec_size(codec, across, down, 4 * across * down, err));
  if (codec->size_only) return KF_OK;
  const kf_image *image = &codec->image;
  if (x + width > image->width || y + height > image->height)
    return kf_fail_file(err, codec->name,
                        "is a damaged WebP: its first frame lies outside the picture");
  const uint8_t *p = head + FRAME_HEAD, *end = head + found->frame.n;
  chunk c;
  do {
    if (!next_chunk(&p, end, &c))
      return kf_fail_file(err, codec->name, "is a damaged WebP: its first frame has no picture");
  } while (!is(&c, "VP8 ") && !is(&c, "VP8L"));
  WebPBitstreamFeatures features;
  VP8StatusCode code = WebPGetFeatures(c.data, c.n, &features);
  if (code != VP8_STATUS_OK) return fail(codec, code, err);
  if ((uint64_t)features.width != width || (uint64_t)features.height != height)
    return kf_fail_file(err, codec->name, "is a damaged WebP: its first frame has two sizes");
  size_t stride = (size_t)image->width * 3, size = stride * image->height;
  size_t start = (size_t)y * stride + (size_t)x * 3;
  memset(image->rgb, 0, size);
  return decode_at(codec, c.data, c.n, image->rgb + start, size - start, err);
}

kf_status kf_webp_decode(kf_codec *codec, kf_err *err) {
  size_t n = (size_t)le32(codec->bytes + 4) + 8;
  if (n > codec->n) return fail(codec, VP8_STATUS_NOT_ENOUGH_DATA, err);
  if (n < 12) return fail(codec, VP8_STATUS_BITSTREAM_ERROR, err);
  chunks found;
  find_chunks(codec->bytes + 12, codec->bytes + n, &found);
  codec->orientation = orientation_of(&found);
  if ((found.flags & FLAG_ANIMATION) != 0) return decode_frame(codec, &found, err);
  return decode_still(codec, n, err);
}

#endif
