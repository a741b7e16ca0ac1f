/* pictures.h - a list of pictures: what koofu.h does not show. Stays in its room. */
#ifndef KF_PICTURES_H
#define KF_PICTURES_H

#include "file/file.h"

const kf_names *kf_pictures_names(const kf_pictures *pictures); /* of classes */

#endif
