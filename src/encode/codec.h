/* codec.h - the interface of the decoders of pictures. Private to them and image.c. */
#ifndef KF_CODEC_H
#define KF_CODEC_H

#include "encode/image.h"

/* The input and output of a decoder. */
typedef struct kf_codec {
  const uint8_t *bytes;
  size_t n;
  uint64_t max_pixels;
  const char *name;
  bool size_only;  /* the decoder returns after kf_codec_size */
  uint64_t cost;   /* bytes of memory for decoding and turning, set by kf_codec_size */
  kf_image image;  /* not yet turned; kf_image_decode frees it on failure */
  int orientation; /* 1 … 8, as in EXIF */
} kf_codec;

/* Checks the size of a picture and, unless `size_only`, allocates it. decoder: bytes that the
 * decoder itself needs. */
kf_status kf_codec_size(kf_codec *codec, uint64_t width, uint64_t height, uint64_t decoder,
                        kf_err *err);

kf_status kf_jpeg_decode(kf_codec *codec, kf_err *err);
kf_status kf_png_decode(kf_codec *codec, kf_err *err);
kf_status kf_webp_decode(kf_codec *codec, kf_err *err);

/* The orientation in a TIFF block, with or without "Exif\0\0" before it; 0: none. */
int kf_exif_orientation(const uint8_t *bytes, size_t n);
/* The orientation in XMP; 0: none. */
int kf_xmp_orientation(const uint8_t *bytes, size_t n);
/* The valid one of the two, EXIF first; 1 if there is none. */
int kf_orientation(int exif, int xmp);

#endif
