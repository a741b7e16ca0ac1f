/* demo_picture.h - pictures for the rows of `koofu serve --demo`, whose synthetic world has none. */
#ifndef SERVE_DEMO_PICTURE_H
#define SERVE_DEMO_PICTURE_H

#include <stddef.h>
#include <stdint.h>

/* Enough room for any picture, with its NUL. */
#define DEMO_PICTURE_ROOM 4096

/* Writes an SVG of 192 x 192 pixels: shape and colours are those of the class, their place, size
 * and turn those of the row. The same arguments give the same bytes. Returns its length without the
 * NUL, or 0 if it does not fit. */
size_t demo_picture(uint32_t class_number, uint64_t row, char *out, size_t room);

#endif
