/* thumbnail.c - small copies of pictures, as files in memory or data URIs: decoded and resized as
 * for an encoder, then written as JPEG, or as PNG in builds without JPEG. */
#include "encode/encode.h"
#include "encode/image.h"

#include <stdlib.h>
#include <string.h>

/* --- base64 ----------------------------------------------------------------------------------- */

static kf_status put_uri(const char *type, const uint8_t *bytes, size_t n, char **out,
                         kf_err *err) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  size_t head = strlen(type), length = head + (n + 2) / 3 * 4;
  char *uri = kf_alloc(length + 1, 1);
  if (uri == NULL) return kf_fail_memory(err);
  memcpy(uri, type, head + 1);
  char *to = uri + head;
  for (size_t i = 0; i < n; i += 3) {
    uint32_t second = i + 1 < n ? bytes[i + 1] : 0, third = i + 2 < n ? bytes[i + 2] : 0;
    uint32_t three = (uint32_t)bytes[i] << 16 | second << 8 | third;
    *to++ = digits[three >> 18];
    *to++ = digits[three >> 12 & 63];
    *to++ = i + 1 < n ? digits[three >> 6 & 63] : '=';
    *to++ = i + 2 < n ? digits[three & 63] : '=';
  }
  *to = '\0';
  *out = uri;
  return KF_OK;
}

/* --- writing a picture ------------------------------------------------------------------------ */

/* The bytes of a file, from malloc. */
typedef struct written {
  const char *type; /* "data:image/…;base64," */
  uint8_t *bytes;
  size_t n;
} written;

#if defined(KF_WITH_JPEG)

#include <setjmp.h>

#include <jpeglib.h>
#include <jerror.h>

enum { QUALITY = 80 };

/* libjpeg reports errors by longjmp, so everything owned lives outside the function that is
 * left. */
typedef struct jpeg_writer {
  struct jpeg_compress_struct jpeg;
  struct jpeg_error_mgr errors;
  jmp_buf jump;
  unsigned char *bytes; /* from malloc */
  unsigned long n;
  int code; /* of the error */
} jpeg_writer;

static _Noreturn void on_error(j_common_ptr common) {
  jpeg_writer *w = common->client_data;
  w->code = common->err->msg_code;
  longjmp(w->jump, 1);
}

static void on_output(j_common_ptr common) { (void)common; }

/* Any call of the library may leave it by longjmp. */
static void write_jpeg(jpeg_writer *w, const kf_image *image) {
  jpeg_create_compress(&w->jpeg);
  jpeg_mem_dest(&w->jpeg, &w->bytes, &w->n);
  w->jpeg.image_width = image->width;
  w->jpeg.image_height = image->height;
  w->jpeg.input_components = 3;
  w->jpeg.in_color_space = JCS_RGB;
  jpeg_set_defaults(&w->jpeg);
  jpeg_set_quality(&w->jpeg, QUALITY, TRUE);
  w->jpeg.optimize_coding = TRUE;
  w->jpeg.comp_info[0].h_samp_factor = w->jpeg.comp_info[0].v_samp_factor = 1; /* colours in full */
  jpeg_start_compress(&w->jpeg, TRUE);
  while (w->jpeg.next_scanline < w->jpeg.image_height) {
    JSAMPROW row = image->rgb + (size_t)w->jpeg.next_scanline * image->width * 3;
    jpeg_write_scanlines(&w->jpeg, &row, 1);
  }
  jpeg_finish_compress(&w->jpeg);
}

static kf_status encode(const kf_image *image, const char *path, written *out, kf_err *err) {
  jpeg_writer *w = kf_alloc_zero(1, sizeof *w);
  if (w == NULL) return kf_fail_memory(err);
  w->jpeg.err = jpeg_std_error(&w->errors);
  w->errors.error_exit = on_error;
  w->errors.output_message = on_output;
  w->jpeg.client_data = w;
  kf_status status = KF_OK;
  if (setjmp(w->jump) == 0)
    write_jpeg(w, image);
  else
    status = w->code == JERR_OUT_OF_MEMORY
                 ? kf_fail_memory(err)
                 : kf_fail_with(err, KF_ERR_INTERNAL, KF_HINT_NONE, path,
                                "its thumbnail cannot be written (libjpeg error %d)", w->code);
  if (status == KF_OK)
    *out = (written){"data:image/jpeg;base64,", w->bytes, w->n};
  else
    free(w->bytes);
  jpeg_destroy_compress(&w->jpeg);
  kf_free(w);
  return status;
}

#elif defined(KF_WITH_PNG)

#include <spng.h>

static kf_status encode(const kf_image *image, const char *path, written *out, kf_err *err) {
  struct spng_ihdr head = {.width = image->width,
                           .height = image->height,
                           .bit_depth = 8,
                           .color_type = SPNG_COLOR_TYPE_TRUECOLOR};
  spng_ctx *png = spng_ctx_new(SPNG_CTX_ENCODER);
  if (png == NULL) return kf_fail_memory(err);
  size_t n = 0, size = (size_t)image->width * image->height * 3;
  int error = spng_set_option(png, SPNG_ENCODE_TO_BUFFER, 1);
  if (error == 0) error = spng_set_ihdr(png, &head);
  if (error == 0)
    error = spng_encode_image(png, image->rgb, size, SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE);
  uint8_t *bytes = error == 0 ? spng_get_png_buffer(png, &n, &error) : NULL;
  kf_status status = KF_OK;
  if (bytes != NULL)
    *out = (written){"data:image/png;base64,", bytes, n};
  else if (error == SPNG_EMEM)
    status = kf_fail_memory(err);
  else
    status = kf_fail_with(err, KF_ERR_INTERNAL, KF_HINT_NONE, path,
                          "its thumbnail cannot be written: %s", spng_strerror(error));
  spng_ctx_free(png);
  return status;
}

#else

static kf_status encode(const kf_image *image, const char *path, written *out, kf_err *err) {
  (void)image;
  (void)out;
  return kf_fail_file(err, path, "this build of koofu cannot write pictures");
}

#endif

/* --- shrinking -------------------------------------------------------------------------------- */

/* The length, rounded, of the shorter side when the longer one becomes `side`. */
static uint32_t shorter(uint32_t own, uint32_t longer, uint32_t side) {
  uint64_t length = ((uint64_t)own * side + longer / 2) / longer;
  return length > 0 ? (uint32_t)length : 1;
}

/* Replaces the picture by a smaller copy if a side is longer than `side`. */
static kf_status shrink(kf_image *image, uint32_t side, kf_err *err) {
  uint32_t w = image->width, h = image->height;
  if (w <= side && h <= side) return KF_OK;
  kf_box box = {.width = w >= h ? side : shorter(w, h, side),
                .height = w >= h ? shorter(h, w, side) : side};
  kf_image small = {.width = box.width, .height = box.height};
  small.rgb = kf_alloc((uint64_t)box.width * box.height, 3);
  if (small.rgb == NULL) return kf_fail_memory(err);
  kf_status status =
      kf_resize(image, box.width, box.height, KF_RESAMPLE_BICUBIC, &box, small.rgb, err);
  if (status != KF_OK) {
    kf_image_clear(&small);
    return status;
  }
  kf_image_clear(image);
  *image = small;
  return KF_OK;
}

kf_status kf_thumbnail_read(const char *path, uint32_t side, kf_budget *budget, kf_thumbnail *out,
                            kf_err *err) {
  *out = (kf_thumbnail){0};
  if (side == 0) return kf_fail(err, KF_ERR_ARG, "a thumbnail has at least one pixel");
  kf_image image;
  kf_extent extent = kf_extent_file(path);
  KF_TRY(kf_image_read_sum(&extent, 0, budget, &image, NULL, err));
  written file = {0};
  kf_status status = shrink(&image, side, err);
  if (status == KF_OK) status = encode(&image, path, &file, err);
  if (status == KF_OK) status = put_uri(file.type, file.bytes, file.n, &out->uri, err);
  free(file.bytes);
  if (status == KF_OK) {
    out->width = image.width;
    out->height = image.height;
  }
  kf_image_clear(&image);
  return status;
}

void kf_thumbnail_clear(kf_thumbnail *thumbnail) {
  kf_free(thumbnail->uri);
  *thumbnail = (kf_thumbnail){0};
}

/* --- in memory -------------------------------------------------------------------------------- */

static kf_status hand_out(const written *file, kf_bytes **out, kf_err *err) {
  kf_bytes *bytes = kf_alloc_zero(1, sizeof *bytes);
  if (bytes != NULL) bytes->data = kf_alloc(file->n, 1);
  if (bytes == NULL || bytes->data == NULL) {
    kf_bytes_free(bytes);
    return kf_fail_memory(err);
  }
  memcpy(bytes->data, file->bytes, file->n);
  bytes->n = bytes->room = file->n;
  *out = bytes;
  return KF_OK;
}

static kf_status read_picture(kf_ctx *ctx, const kf_image_bytes *p, uint64_t max_pixels,
                              kf_image *out) {
  kf_err *err = &ctx->err;
  uint64_t n = (uint64_t)3 * p->width * p->height;
  if (p->width == 0 && p->height == 0)
    return kf_image_decode_within(p->bytes, (size_t)p->n, max_pixels, &ctx->pictures, "picture",
                                  out, err);
  *out = (kf_image){.width = p->width, .height = p->height};
  KF_TRY(kf_image_check(out, max_pixels, "picture", err));
  if (p->n != n)
    return kf_fail(err, KF_ERR_ARG, "the picture does not have 3 bytes for each pixel");
  out->rgb = kf_alloc(n, 1);
  if (out->rgb == NULL) return kf_fail_memory(err);
  memcpy(out->rgb, p->bytes, n);
  return KF_OK;
}

kf_status kf_thumbnail_new(kf_ctx *ctx, const kf_image_bytes *picture, uint32_t side,
                           uint64_t max_pixels, kf_bytes **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, picture != NULL && picture->bytes != NULL && out != NULL);
  KF_TRY(kf_check_reserved(picture->reserved, sizeof picture->reserved, __func__, err));
  if (side == 0) return kf_fail(err, KF_ERR_ARG, "a thumbnail has at least one pixel");
  kf_image image;
  KF_TRY(read_picture(ctx, picture, max_pixels, &image));
  written file = {0};
  kf_status status = shrink(&image, side, err);
  if (status == KF_OK) status = encode(&image, "picture", &file, err);
  if (status == KF_OK) status = hand_out(&file, out, err);
  free(file.bytes);
  kf_image_clear(&image);
  return status;
}
