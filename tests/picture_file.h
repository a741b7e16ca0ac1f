/* picture_file.h - reads one picture file, without a budget or a checksum. */
#ifndef KF_TEST_PICTURE_FILE_H
#define KF_TEST_PICTURE_FILE_H

#include "encode/image.h"

static inline kf_status read_picture(const char *path, kf_image *out, kf_err *err) {
  kf_extent extent = kf_extent_file(path);
  return kf_image_read_sum(&extent, 0, NULL, out, NULL, err);
}

#endif
