/* encode.h - what the rooms above see of this one besides koofu_encode.h. */
#ifndef KF_ENCODE_H
#define KF_ENCODE_H

#include "base/base.h"

/* A small copy of a picture, for a page. */
typedef struct kf_thumbnail {
  uint32_t width, height;
  char *uri; /* "data:image/…;base64,…", kf_free: letters, digits and ":/;,+=" alone */
} kf_thumbnail;

/* Reads the picture at `path`, right way up, and shrinks it until its longer side is at most `side`
 * pixels; a smaller one keeps its size. Some 8 kB for a side of 160 in JPEG; in PNG, by builds
 * without JPEG, six times as much. Fails as kf_image_read does: on a file that is missing, is no
 * regular file or no picture, is damaged, or has more pixels than Pillow takes. The whole picture is
 * in memory meanwhile, taken from the budget (NULL: none). Any thread may call it. */
kf_status kf_thumbnail_read(const char *path, uint32_t side, kf_budget *budget, kf_thumbnail *out,
                            kf_err *err);
void kf_thumbnail_clear(kf_thumbnail *thumbnail);

#endif
