/* image.h - pictures: decoding, resizing, and a model's preprocessing. Private to this room. */
#ifndef KF_IMAGE_H
#define KF_IMAGE_H

#include "base/base.h"

/* --- pictures --------------------------------------------------------------------------------- */

/* A picture as Pillow has it after exif_transpose and convert("RGB"). */
typedef struct kf_image {
  uint32_t width, height;
  uint8_t *rgb;      /* [height][width][3], kf_free */
  kf_budget *budget; /* NULL: none */
  uint64_t taken;    /* bytes, which kf_image_clear gives back to the budget */
} kf_image;

/* Pillow's limit. */
#define KF_MAX_PIXELS UINT64_C(178956970)

/* Decodes a JPEG, PNG or WebP, recognised by its magic bytes. `name` is for messages: "NAME: …".
 * Pictures of more than max_pixels (0: KF_MAX_PIXELS) are refused before memory is taken for them.
 * KF_ERR_DATA: not a picture, truncated, damaged, too large, or of a format that this build leaves
 * out. Any thread may call it. */
kf_status kf_image_decode(const void *bytes, size_t n, uint64_t max_pixels, const char *name,
                          kf_image *out, kf_err *err);
/* The same, but takes the memory for decoding from a budget first; kf_image_clear gives back what
 * the picture holds. */
kf_status kf_image_decode_within(const void *bytes, size_t n, uint64_t max_pixels,
                                 kf_budget *budget, const char *name, kf_image *out, kf_err *err);
/* KF_ERR_DATA if a picture has no pixels, or more than are allowed. */
kf_status kf_image_check(const kf_image *image, uint64_t max_pixels, const char *name, kf_err *err);
/* kf_image_decode for a file of at most 1 GiB. The memory for file, decoder and picture is taken
 * from a budget first (NULL: none); kf_image_clear gives it back. A thread may hold one such
 * picture at a time. *sum (NULL: not wanted): the checksum of the file's bytes, even if they are
 * not a picture; KF_NO_SUM if they cannot be read. */
kf_status kf_image_read_sum(const kf_extent *extent, uint64_t max_pixels, kf_budget *budget,
                            kf_image *out, uint64_t *sum, kf_err *err);
#define KF_NO_SUM         0u
#define KF_MAX_IMAGE_FILE ((uint64_t)1 << 30) /* bytes */
void kf_image_clear(kf_image *image);

/* --- which format (format.c) ------------------------------------------------------------------ */

/* The name of a format by the magic bytes of a file, and whether kf_image_decode reads it; NULL:
 * not a picture of a known format. */
const char *kf_picture_format(const uint8_t *bytes, size_t n, bool *readable);

typedef enum kf_look {
  KF_LOOK_OTHER,   /* not a picture */
  KF_LOOK_PICTURE, /* by its extension, or by its magic bytes, which can be read */
  KF_LOOK_UNREAD   /* by either, a picture of a format that cannot be read */
} kf_look;
/* What a file in a folder is. */
kf_look kf_look_at(const char *path);

/* --- resizing --------------------------------------------------------------------------------- */

typedef enum kf_resample {
  KF_RESAMPLE_BICUBIC,
  KF_RESAMPLE_BILINEAR,
  KF_RESAMPLE_LANCZOS
} kf_resample;

/* A part of a picture, in pixels. */
typedef struct kf_box {
  uint32_t left, top, width, height;
} kf_box;

/* Computes the part `box` of the picture resized to width x height, to the bit as Pillow does:
 * out[box.height][box.width][3]. */
kf_status kf_resize(const kf_image *image, uint32_t width, uint32_t height, kf_resample filter,
                    const kf_box *box, uint8_t *out, kf_err *err);

/* --- preprocessing ---------------------------------------------------------------------------- */

/* The settings of preprocessor_config.json. */
typedef struct kf_preprocess {
  uint32_t image_size; /* of the result */
  bool resize;
  uint32_t shortest_edge; /* 0: resize to resize_width x resize_height, whatever the shape */
  uint32_t resize_width, resize_height;
  kf_resample resample;
  bool crop; /* centre crop, with zeros around a smaller picture */
  uint32_t crop_width, crop_height;
  bool rescale;
  double rescale_factor; /* 1/255 */
  bool normalize;
  double mean[3], std[3];
} kf_preprocess;

/* Reads preprocessor_config.json (of CLIP's or SigLIP's image processor, in old or new spelling) or
 * the image processor in processor_config.json; without either, takes CLIP's own values and
 * image_size, the size in the model's config. KF_ERR_DATA if pictures come out in another size. */
kf_status kf_preprocess_read(const char *folder, uint32_t image_size, kf_preprocess *out,
                             kf_err *err);

/* The pixels that go into the tower: out[3][image_size][image_size]. KF_ERR_DATA ("NAME: …") if the
 * picture does not come out in this size. */
kf_status kf_preprocess_run(const kf_preprocess *p, const kf_image *image, const char *name,
                            float *out, kf_err *err);

#endif
