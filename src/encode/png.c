/* png.c - PNG through libspng, to what Pillow gives after convert("RGB"):
 *
 *   grey of 1, 2 or 4 bits    scaled to 0 … 255
 *   grey of 16 bits           values above 255 become 255 (Pillow keeps such pictures as numbers)
 *   other 16-bit pictures     the upper byte
 *   palette                   its colour; black if the palette has none
 *   transparency              dropped, not blended
 *
 * The library does all of this except for 16-bit grey. The file is read to its end: EXIF may follow
 * the pixels, and a file that ends before its last chunk is truncated, though Pillow accepts it. */
#include "encode/codec.h"

#ifndef KF_WITH_PNG

kf_status kf_png_decode(kf_codec *codec, kf_err *err) {
  return kf_fail_file(err, codec->name, "is a PNG, which this build of koofu does not read");
}

#else

#include <stdlib.h>
#include <string.h>

#include <spng.h>

/* Limit on the bytes of all chunks that the library keeps besides the pixels, such as profiles and
 * texts once unpacked. It limits their number itself. */
#define KEPT_LIMIT (64u << 20)

/* zlib reports a failed allocation as a damaged stream, so it is noted where it happens. */
static _Thread_local bool out_of_memory;

static void *noted(void *memory) {
  if (memory == NULL) out_of_memory = true;
  return memory;
}
static void *take(size_t size) { return noted(malloc(size)); }
static void *take_more(void *memory, size_t size) { return noted(realloc(memory, size)); }
static void *take_zero(size_t n, size_t size) { return noted(calloc(n, size)); }

static kf_status fail(const kf_codec *codec, int error, kf_err *err) {
  if (error == SPNG_EMEM || out_of_memory) return kf_fail_memory(err);
  if (error == SPNG_EOVERFLOW)
    return kf_fail_file(err, codec->name,
                        "is a PNG too large to decode, as a decompression bomb would be");
  if (error == SPNG_ECHUNK_LIMITS)
    return kf_fail_file(err, codec->name,
                        "is a PNG with too many texts and profiles: more than %u MiB, or 1,000",
                        KEPT_LIMIT >> 20);
  bool truncated = error == SPNG_EOF || error == SPNG_IO_EOF;
  return kf_fail_file(err, codec->name, "is a %s PNG: %s", truncated ? "truncated" : "damaged",
                      spng_strerror(error));
}

/* --- chunks besides the pixels ---------------------------------------------------------- */

static uint32_t be32(const uint8_t *p) {
  return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Whether a chunk may be deflated; iTXt has a flag for it, but not at a fixed offset. */
static bool is_packed(const uint8_t *type) {
  return memcmp(type, "zTXt", 4) == 0 || memcmp(type, "iTXt", 4) == 0 ||
         memcmp(type, "iCCP", 4) == 0;
}

/* An upper bound on the bytes of chunks that the library keeps, which is also set as its limit:
 * three times their length (sPLT) or, if deflated, twice the largest ratio of deflate, since its
 * buffers double; plus a constant for each chunk. */
static uint64_t kept_bytes(const kf_codec *codec) {
  enum { SIGNATURE = 8, FRAME = 12, OWN = 1024, PLAIN = 3, PACKED = 2 * 1032 };
  uint64_t kept = OWN;
  for (size_t at = SIGNATURE; codec->n >= FRAME && at <= codec->n - FRAME;) {
    const uint8_t *p = codec->bytes + at;
    uint64_t length = be32(p);
    if (length > codec->n - at - FRAME) length = codec->n - at - FRAME; /* truncated */
    if (memcmp(p + 4, "IDAT", 4) != 0) kept += OWN + length * (is_packed(p + 4) ? PACKED : PLAIN);
    at += FRAME + (size_t)length;
  }
  return kept < KEPT_LIMIT ? kept : KEPT_LIMIT;
}

/* --- pixels ----------------------------------------------------------------------------------- */

static bool is_grey16(const struct spng_ihdr *head) {
  return head->color_type == SPNG_COLOR_TYPE_GRAYSCALE && head->bit_depth == 16;
}

static kf_status read_grey16(spng_ctx *png, const kf_codec *codec, kf_err *err) {
  size_t n = (size_t)codec->image.width * codec->image.height;
  uint8_t *rgb = codec->image.rgb;
  uint16_t *grey = kf_alloc(n, sizeof *grey);
  if (grey == NULL) return kf_fail_memory(err);
  int error = spng_decode_image(png, grey, n * sizeof *grey, SPNG_FMT_PNG, 0);
  for (size_t i = 0; error == 0 && i < n; i++, rgb += 3)
    rgb[0] = rgb[1] = rgb[2] = (uint8_t)(grey[i] < 255 ? grey[i] : 255);
  kf_free(grey);
  return error == 0 ? KF_OK : fail(codec, error, err);
}

static kf_status read_pixels(spng_ctx *png, const kf_codec *codec, const struct spng_ihdr *head,
                             kf_err *err) {
  if (is_grey16(head)) return read_grey16(png, codec, err);
  size_t size = (size_t)head->width * head->height * 3;
  int error = spng_decode_image(png, codec->image.rgb, size, SPNG_FMT_RGB8, 0);
  return error == 0 ? KF_OK : fail(codec, error, err);
}

/* --- the right way up ------------------------------------------------------------------------- */

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/* ImageMagick's older format: three lines, then EXIF in hexadecimal digits. */
static int raw_profile_orientation(char *text, size_t n) {
  char *p = text, *end = text + n;
  for (int line = 0; line < 3; line++) {
    p = memchr(p, '\n', (size_t)(end - p));
    if (p == NULL) return 0;
    p++;
  }
  uint8_t *out = (uint8_t *)text; /* never ahead of p */
  size_t n_out = 0;
  int upper = -1;
  for (; p < end; p++) {
    int digit = hex_digit(*p);
    if (digit < 0) continue;
    if (upper >= 0) out[n_out++] = (uint8_t)(upper << 4 | digit);
    upper = upper >= 0 ? -1 : digit;
  }
  return kf_exif_orientation(out, n_out);
}

/* Looks for XMP in texts and, if there is no eXIf chunk, for EXIF. */
static kf_status texts_orientation(spng_ctx *png, int *exif, int *xmp, bool has_exif, kf_err *err) {
  uint32_t n = 0;
  if (spng_get_text(png, NULL, &n) != 0 || n == 0) return KF_OK;
  struct spng_text *texts = kf_alloc(n, sizeof *texts);
  if (texts == NULL) return kf_fail_memory(err);
  if (spng_get_text(png, texts, &n) != 0) n = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (strcmp(texts[i].keyword, "XML:com.adobe.xmp") == 0)
      *xmp = kf_xmp_orientation((const uint8_t *)texts[i].text, texts[i].length);
    else if (!has_exif && strcmp(texts[i].keyword, "Raw profile type exif") == 0)
      *exif = raw_profile_orientation(texts[i].text, texts[i].length);
  }
  kf_free(texts);
  return KF_OK;
}

static kf_status find_orientation(spng_ctx *png, kf_codec *codec, kf_err *err) {
  int error = spng_decode_chunks(png);
  if (error != 0) return fail(codec, error, err);
  struct spng_exif chunk;
  int exif = 0, xmp = 0;
  bool has_exif = spng_get_exif(png, &chunk) == 0;
  if (has_exif) exif = kf_exif_orientation((const uint8_t *)chunk.data, chunk.length);
  KF_TRY(texts_orientation(png, &exif, &xmp, has_exif, err));
  codec->orientation = kf_orientation(exif, xmp);
  return KF_OK;
}

static kf_status read_png(spng_ctx *png, kf_codec *codec, kf_err *err) {
  struct spng_ihdr head;
  uint64_t kept = kept_bytes(codec);
  int error = spng_set_chunk_limits(png, kept, kept);
  if (error == 0) error = spng_set_png_buffer(png, codec->bytes, codec->n);
  if (error == 0) error = spng_get_ihdr(png, &head);
  if (error != 0) return fail(codec, error, err);
  uint64_t rows = 32 * (uint64_t)head.width;
  uint64_t grey = is_grey16(&head) ? 2 * (uint64_t)head.width * head.height : 0;
  KF_TRY(kf_codec_size(codec, head.width, head.height, rows + grey + kept, err));
  if (codec->size_only) return KF_OK;
  KF_TRY(read_pixels(png, codec, &head, err));
  return find_orientation(png, codec, err);
}

kf_status kf_png_decode(kf_codec *codec, kf_err *err) {
  struct spng_alloc memory = {take, take_more, take_zero, free};
  out_of_memory = false;
  spng_ctx *png = spng_ctx_new2(&memory, 0);
  if (png == NULL) return kf_fail_memory(err);
  kf_status status = read_png(png, codec, err);
  spng_ctx_free(png);
  return status;
}

#endif
