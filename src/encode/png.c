/* png.c - PNG through libspng, row by row, to what Pillow gives after convert("RGB"):
 *
 *   grey of 1, 2 or 4 bits    scaled to 0 … 255
 *   grey of 16 bits           values above 255 become 255 (Pillow keeps such pictures as numbers)
 *   other 16-bit pictures     the upper byte
 *   palette                   its colour; black if the palette has none
 *   transparency              dropped, not blended
 *
 * The library hands out rows as they are in the file, including those of the seven passes of an
 * interlaced picture, and we put pixels where they belong: only one row is kept besides the
 * picture. The file is read to its end: EXIF may follow the pixels, and a file that ends before its
 * last chunk is truncated, though Pillow accepts it. */
#include "encode/codec.h"

#ifndef KF_WITH_PNG

kf_status kf_png_decode(kf_codec *codec, kf_err *err) {
  return kf_fail_file(err, codec->name, "is a PNG, which this build of koofu does not read");
}

#else

#include <stdlib.h>
#include <string.h>

#include <spng.h>

/* Limit on all chunks that the library keeps besides the pixels: it unpacks profiles and texts. It
 * limits their number itself. */
#define KEPT_LIMIT (64u << 20)

/* A failed allocation in zlib is reported as a damaged stream, so we note it where it happens. */
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
  bool short_of = error == SPNG_EOF || error == SPNG_IO_EOF;
  return kf_fail_file(err, codec->name, "is a %s PNG: %s", short_of ? "truncated" : "damaged",
                      spng_strerror(error));
}

/* --- what is kept besides the pixels ---------------------------------------------------------- */

static uint32_t be32(const uint8_t *p) {
  return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Whether a chunk may be deflated; an iTXt has a flag for it, but not at a fixed offset. */
static bool is_packed(const uint8_t *type) {
  return memcmp(type, "zTXt", 4) == 0 || memcmp(type, "iTXt", 4) == 0 ||
         memcmp(type, "iCCP", 4) == 0;
}

/* An upper bound on the bytes that the library keeps of chunks, which is also set as its limit:
 * three times their length (sPLT) or, for packed ones, twice the largest ratio of deflate, since
 * its buffers double; plus a constant for each. */
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

/* --- rows ------------------------------------------------------------------------------------- */

/* Where the pixels of an interlacing pass begin, and how far apart they are. The eighth is for
 * pictures that are not interlaced. */
typedef struct png_pass {
  uint8_t x, dx;
} png_pass;
static const png_pass passes[8] = {{0, 8}, {4, 8}, {0, 4}, {2, 4}, {0, 2}, {1, 2}, {0, 1}, {0, 1}};

/* The value of `bits` bits at position i of a row; bits divide 8. */
static unsigned packed(const uint8_t *row, uint32_t i, unsigned bits) {
  size_t at = (size_t)i * bits;
  return (unsigned)row[at / 8] >> (8 - bits - at % 8) & ((1u << bits) - 1);
}

/* Writes n pixels of a row, `step` bytes apart. */
static void put_grey(const struct spng_ihdr *head, const uint8_t *row, uint32_t n, uint8_t *rgb,
                     size_t step) {
  unsigned bits = head->bit_depth;
  for (uint32_t i = 0; i < n; i++, rgb += step) {
    unsigned v;
    if (bits == 16)
      v = row[2 * (size_t)i] != 0 ? 255 : row[2 * (size_t)i + 1];
    else if (bits == 8)
      v = row[i];
    else
      v = packed(row, i, bits) * (255 / ((1u << bits) - 1));
    rgb[0] = rgb[1] = rgb[2] = (uint8_t)v;
  }
}

static void put_palette(const struct spng_ihdr *head, const struct spng_plte *palette,
                        const uint8_t *row, uint32_t n, uint8_t *rgb, size_t step) {
  for (uint32_t i = 0; i < n; i++, rgb += step) {
    unsigned v = head->bit_depth == 8 ? row[i] : packed(row, i, head->bit_depth);
    struct spng_plte_entry colour = {0};
    if (v < palette->n_entries) colour = palette->entries[v];
    rgb[0] = colour.red;
    rgb[1] = colour.green;
    rgb[2] = colour.blue;
  }
}

/* Samples of 1 or 2 bytes, upper byte first; `green` and `blue` are offsets in a pixel. */
static void put_samples(const uint8_t *row, uint32_t n, size_t pixel, size_t green, size_t blue,
                        uint8_t *rgb, size_t step) {
  for (uint32_t i = 0; i < n; i++, rgb += step, row += pixel) {
    rgb[0] = row[0];
    rgb[1] = row[green];
    rgb[2] = row[blue];
  }
}

static void put_row(const struct spng_ihdr *head, const struct spng_plte *palette,
                    const uint8_t *row, png_pass p, uint8_t *rgb) {
  uint32_t n = (head->width - p.x + p.dx - 1u) / p.dx;
  size_t sample = head->bit_depth == 16 ? 2 : 1, step = 3u * (size_t)p.dx;
  rgb += 3u * (size_t)p.x;
  switch (head->color_type) {
  case SPNG_COLOR_TYPE_GRAYSCALE: put_grey(head, row, n, rgb, step); break;
  case SPNG_COLOR_TYPE_INDEXED: put_palette(head, palette, row, n, rgb, step); break;
  case SPNG_COLOR_TYPE_GRAYSCALE_ALPHA: put_samples(row, n, 2 * sample, 0, 0, rgb, step); break;
  case SPNG_COLOR_TYPE_TRUECOLOR:
    put_samples(row, n, 3 * sample, sample, 2 * sample, rgb, step);
    break;
  default: put_samples(row, n, 4 * sample, sample, 2 * sample, rgb, step); break;
  }
}

static int read_rows(spng_ctx *png, const kf_codec *codec, const struct spng_ihdr *head,
                     const struct spng_plte *palette, uint8_t *row, size_t row_size) {
  bool interlaced = head->interlace_method != SPNG_INTERLACE_NONE;
  for (;;) {
    struct spng_row_info info;
    int error = spng_get_row_info(png, &info);
    if (error != 0) return error;
    error = spng_decode_scanline(png, row, row_size);
    if (error != 0 && error != SPNG_EOI) return error;
    uint8_t *rgb = codec->image.rgb + (size_t)info.row_num * head->width * 3;
    put_row(head, palette, row, passes[interlaced ? info.pass : 7], rgb);
    if (error == SPNG_EOI) return 0;
  }
}

/* --- the right way up ------------------------------------------------------------------------- */

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/* ImageMagick's older form: three lines, and then EXIF in hexadecimal digits. */
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

/* Looks for XMP and, if there is no eXIf chunk, for EXIF in texts. */
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
  struct spng_plte palette = {0};
  uint64_t kept = kept_bytes(codec);
  int error = spng_set_chunk_limits(png, kept, kept);
  if (error == 0) error = spng_set_png_buffer(png, codec->bytes, codec->n);
  if (error == 0) error = spng_get_ihdr(png, &head);
  if (error != 0) return fail(codec, error, err);
  KF_TRY(kf_codec_size(codec, head.width, head.height, 32 * (uint64_t)head.width + kept, err));
  if (codec->look) return KF_OK;
  error = spng_decode_image(png, NULL, 0, SPNG_FMT_RAW, SPNG_DECODE_PROGRESSIVE);
  if (error == 0 && head.color_type == SPNG_COLOR_TYPE_INDEXED)
    error = spng_get_plte(png, &palette);
  if (error != 0) return fail(codec, error, err);
  size_t row_size = ((size_t)head.width * 64 + 7) / 8; /* 8 bytes a pixel at most */
  uint8_t *row = kf_alloc(row_size, 1);
  if (row == NULL) return kf_fail_memory(err);
  error = read_rows(png, codec, &head, &palette, row, row_size);
  kf_free(row);
  if (error != 0) return fail(codec, error, err);
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
