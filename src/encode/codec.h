/* codec.h - what the decoders of pictures share. Stays among them. */
#ifndef KF_CODEC_H
#define KF_CODEC_H

#include "encode/image.h"

/* What a decoder is given, and what it leaves behind. */
typedef struct kf_codec {
  const uint8_t *bytes;
  size_t n;
  uint64_t max_pixels;
  const char *name;
  kf_image image;  /* upright only after kf_image_turn; freed by kf_image_decode on failure */
  int orientation; /* 1 … 8, as EXIF counts */
} kf_codec;

/* Takes memory for a picture, once its size has been found to be reasonable. */
kf_status kf_codec_size(kf_codec *codec, uint64_t width, uint64_t height, kf_err *err);

kf_status kf_jpeg_decode(kf_codec *codec, kf_err *err);
kf_status kf_png_decode(kf_codec *codec, kf_err *err);
kf_status kf_webp_decode(kf_codec *codec, kf_err *err);

/* The orientation in a TIFF block, with or without "Exif\0\0" before it; 0: it has none. */
int kf_exif_orientation(const uint8_t *bytes, size_t n);
/* The orientation in XMP; 0: it has none. */
int kf_xmp_orientation(const uint8_t *bytes, size_t n);
/* What counts of the two: EXIF first; 1 where neither says anything that can be followed. */
int kf_orientation(int exif, int xmp);

#endif
