/* encode.h - the interface of this room besides koofu_encode.h. */
#ifndef KF_ENCODE_H
#define KF_ENCODE_H

#include "base/base.h"

/* A small copy of a picture, for a page. */
typedef struct kf_thumbnail {
  uint32_t width, height;
  char *uri; /* "data:image/…;base64,…", kf_free: letters, digits and ":/;,+=" alone */
} kf_thumbnail;

/* Reads the picture at `path`, turns it the right way up, and shrinks it until its longer side is
 * at most `side` pixels. About 8 kB for a side of 160 in JPEG; builds without JPEG write PNG, six
 * times as large. Fails on a file that is missing, not a regular file, not a picture, damaged, or
 * has more pixels than Pillow accepts. Decoding takes memory from the budget (NULL: none). May be
 * called on any thread. */
kf_status kf_thumbnail_read(const char *path, uint32_t side, kf_budget *budget, kf_thumbnail *out,
                            kf_err *err);
void kf_thumbnail_clear(kf_thumbnail *thumbnail);

#endif
