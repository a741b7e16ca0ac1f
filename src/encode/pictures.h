/* pictures.h - what a list of pictures shows the rest of its room, besides what koofu.h has. */
#ifndef KF_PICTURES_H
#define KF_PICTURES_H

#include "file/file.h"

const kf_names *kf_pictures_names(const kf_pictures *pictures); /* of classes */

#endif
