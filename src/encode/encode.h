/* encode.h - what the encoder shows the rest of the house: nothing but what koofu.h has. Its own
 * headers (image.h, tokenizer.h, tower.h) stay in the room, which sees base and file. */
#ifndef KF_ENCODE_H
#define KF_ENCODE_H

#include "file/file.h"

#endif
