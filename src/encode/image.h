/* image.h - pictures: decoding, and what a model's preprocessor makes of them. Stays in its room. */
#ifndef KF_IMAGE_H
#define KF_IMAGE_H

#include "base/base.h"

/* A picture as the reference's Pillow would hold it after exif_transpose and convert("RGB"). */
typedef struct kf_image {
  uint32_t width, height;
  uint8_t *rgb; /* [height][width][3], kf_free */
} kf_image;

/* Decodes a JPEG, PNG or WebP, told by its first bytes. `name` is for messages: "NAME: …". Pictures
 * of more than max_pixels are refused before memory is taken for them. KF_ERR_DATA: not a picture,
 * truncated, damaged, too large, or of a format this build leaves out. */
kf_status kf_image_decode(const void *bytes, size_t n, uint64_t max_pixels, const char *name,
                          kf_image *out, kf_err *err);
void kf_image_clear(kf_image *image);

/* What preprocessor_config.json says. */
typedef enum kf_resample {
  KF_RESAMPLE_BICUBIC,
  KF_RESAMPLE_BILINEAR,
  KF_RESAMPLE_LANCZOS
} kf_resample;
typedef struct kf_preprocess {
  bool resize;
  uint32_t shortest_edge; /* 0: resize to resize_width x resize_height whatever the shape */
  uint32_t resize_width, resize_height;
  kf_resample resample;
  bool crop; /* centre crop, zeros where the picture is smaller */
  uint32_t crop_width, crop_height;
  bool rescale;
  double rescale_factor; /* 1/255 */
  bool normalize;
  double mean[3], std[3];
} kf_preprocess;

/* Reads preprocessor_config.json (as CLIP's or SigLIP's image processor writes it, old or new spelling);
 * `image_size` is what the model's config wants: a result of another size is KF_ERR_DATA. A file that is not
 * there gives CLIP's own values. */
kf_status kf_preprocess_read(const char *folder, uint32_t image_size, kf_preprocess *out,
                             kf_err *err);

/* The pixels that go into the tower: out[3][image_size][image_size]. */
kf_status kf_preprocess_run(const kf_preprocess *p, const kf_image *image, const char *name,
                            float *out, kf_err *err);

#endif
