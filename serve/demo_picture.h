/* demo_picture.h - pictures for the rows of koofu serve --demo, whose synthetic world has none. */
#ifndef SERVE_DEMO_PICTURE_H
#define SERVE_DEMO_PICTURE_H

#include "text.h"

/* Writes an SVG of 192 x 192 pixels: the class determines shape and colours, the row their
 * position, size and angle. The same arguments give the same bytes. */
void demo_picture(sv_text *out, uint32_t class_number, uint64_t row);

#endif
