/* jpeg.c - JPEG through libjpeg-turbo, as Pillow uses it: the accurate integer transform and fancy
 * upsampling; the library converts grey and colour to RGB, and four components to CMYK, inverted as
 * Adobe writes them, which becomes RGB by Pillow's rule.
 *
 * libjpeg reports errors by longjmp, so everything owned lives in one struct outside the function
 * that may be left that way. As in Pillow, a warning that the data end early is an error, and other
 * warnings are ignored. A progressive file may hold any number of scans, each of which costs a pass
 * over the picture: more than MAX_SCANS are refused, as the library's authors advise. */
#include "encode/codec.h"

#ifndef KF_WITH_JPEG

kf_status kf_jpeg_decode(kf_codec *codec, kf_err *err) {
  return kf_fail_file(err, codec->name, "is a JPEG, which this build of koofu does not read");
}

#else

#include <setjmp.h>
#include <string.h>

#include <jpeglib.h>
#include <jerror.h>

enum { MAX_SCANS = 100 };

typedef struct jpeg_reader {
  struct jpeg_decompress_struct jpeg;
  struct jpeg_error_mgr errors;
  struct jpeg_progress_mgr progress;
  jmp_buf jump;
  kf_codec *codec;
  kf_err *err;
  kf_status status;
  uint8_t *line; /* a row of CMYK, or NULL */
} jpeg_reader;

/* --- what libjpeg calls ----------------------------------------------------------------------- */

static _Noreturn void leave(jpeg_reader *r, kf_status status) {
  r->status = status;
  longjmp(r->jump, 1);
}

static void on_error(j_common_ptr common) {
  jpeg_reader *r = common->client_data;
  if (common->err->msg_code == JERR_OUT_OF_MEMORY) leave(r, kf_fail_memory(r->err));
  char text[JMSG_LENGTH_MAX];
  common->err->format_message(common, text);
  leave(r, kf_fail_file(r->err, r->codec->name, "is a damaged JPEG: %s", text));
}

static void on_message(j_common_ptr common, int level) {
  jpeg_reader *r = common->client_data;
  if (level < 0 && common->err->msg_code == JWRN_JPEG_EOF)
    leave(r, kf_fail_file(r->err, r->codec->name, "is a truncated JPEG: its data end early"));
}

static void on_progress(j_common_ptr common) {
  jpeg_reader *r = common->client_data;
  if (r->jpeg.input_scan_number > MAX_SCANS)
    leave(r, kf_fail_file(r->err, r->codec->name, "is a JPEG of more than %d scans", MAX_SCANS));
}

static void on_output(j_common_ptr common) { (void)common; }

/* --- reading ---------------------------------------------------------------------------------- */

static int orientation_of(const struct jpeg_decompress_struct *jpeg) {
  static const char exif_mark[] = "Exif\0"; /* the NUL of each string belongs to the mark */
  static const char xmp_mark[] = "http://ns.adobe.com/xap/1.0/";
  int exif = 0, xmp = 0;
  bool seen = false;
  for (jpeg_saved_marker_ptr m = jpeg->marker_list; m != NULL; m = m->next) {
    if (m->data_length >= sizeof exif_mark && memcmp(m->data, exif_mark, sizeof exif_mark) == 0) {
      if (!seen) exif = kf_exif_orientation(m->data, m->data_length);
      seen = true;
    } else if (m->data_length >= sizeof xmp_mark &&
               memcmp(m->data, xmp_mark, sizeof xmp_mark) == 0) {
      xmp = kf_xmp_orientation(m->data + sizeof xmp_mark, m->data_length - sizeof xmp_mark);
    }
  }
  return kf_orientation(exif, xmp);
}

/* a * b / 255, rounded. */
static uint32_t scale255(uint32_t a, uint32_t b) {
  uint32_t product = a * b + 128;
  return (product + (product >> 8)) >> 8;
}

/* The file holds 255 - ink. */
static void cmyk_to_rgb(const uint8_t *cmyk, uint32_t width, uint8_t *rgb) {
  for (size_t x = 0; x < width; x++) {
    uint32_t light = cmyk[4 * x + 3];
    for (size_t c = 0; c < 3; c++)
      rgb[3 * x + c] = (uint8_t)(light - scale255(255u - cmyk[4 * x + c], light));
  }
}

static void read_rows(jpeg_reader *r) {
  const kf_image *image = &r->codec->image;
  size_t stride = (size_t)image->width * 3;
  while (r->jpeg.output_scanline < r->jpeg.output_height) {
    uint8_t *rgb = image->rgb + r->jpeg.output_scanline * stride;
    JSAMPROW row = r->line != NULL ? r->line : rgb;
    jpeg_read_scanlines(&r->jpeg, &row, 1);
    if (r->line != NULL) cmyk_to_rgb(r->line, image->width, rgb);
  }
}

/* Bytes of memory that the library takes: markers, at most the size of the file, and a few rows or,
 * with several scans, all coefficients. */
static uint64_t memory_of(const struct jpeg_decompress_struct *jpeg, size_t file) {
  uint64_t bytes = file + 64 * (uint64_t)jpeg->image_width;
  if (!jpeg_has_multiple_scans((j_decompress_ptr)(uintptr_t)jpeg)) return bytes;
  for (int i = 0; i < jpeg->num_components; i++) {
    const jpeg_component_info *c = &jpeg->comp_info[i];
    bytes += (uint64_t)c->width_in_blocks * c->height_in_blocks * sizeof(JBLOCK);
  }
  return bytes;
}

/* Any call of the library may leave it by longjmp. */
static kf_status read_jpeg(jpeg_reader *r) {
  kf_codec *codec = r->codec;
  jpeg_create_decompress(&r->jpeg);
  r->jpeg.progress = &r->progress;
  jpeg_mem_src(&r->jpeg, codec->bytes, (unsigned long)codec->n);
  if (!codec->size_only) jpeg_save_markers(&r->jpeg, JPEG_APP0 + 1, 0xffff);
  jpeg_read_header(&r->jpeg, TRUE);
  int components = r->jpeg.num_components;
  if (components != 1 && components != 3 && components != 4)
    return kf_fail_file(r->err, codec->name, "is a JPEG of %d components; 1, 3 and 4 are supported",
                        components);
  codec->orientation = orientation_of(&r->jpeg);
  KF_TRY(kf_codec_size(codec, r->jpeg.image_width, r->jpeg.image_height,
                       memory_of(&r->jpeg, codec->n), r->err));
  if (codec->size_only) return KF_OK;
  r->jpeg.out_color_space = components == 4 ? JCS_CMYK : JCS_RGB;
  if (components == 4 && (r->line = kf_alloc(codec->image.width, 4)) == NULL)
    return kf_fail_memory(r->err);
  jpeg_start_decompress(&r->jpeg);
  read_rows(r);
  jpeg_finish_decompress(&r->jpeg);
  return KF_OK;
}

kf_status kf_jpeg_decode(kf_codec *codec, kf_err *err) {
  jpeg_reader *r = kf_alloc_zero(1, sizeof *r);
  if (r == NULL) return kf_fail_memory(err);
  r->codec = codec;
  r->err = err;
  r->jpeg.err = jpeg_std_error(&r->errors);
  r->errors.error_exit = on_error;
  r->errors.emit_message = on_message;
  r->errors.output_message = on_output;
  r->progress.progress_monitor = on_progress;
  r->jpeg.client_data = r;
  if (setjmp(r->jump) == 0) r->status = read_jpeg(r);
  kf_status status = r->status;
  jpeg_destroy_decompress(&r->jpeg);
  kf_free(r->line);
  kf_free(r);
  return status;
}

#endif
