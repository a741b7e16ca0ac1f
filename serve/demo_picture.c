/* demo_picture.c - a picture for each row of the demo: the shape and colours of its class. */
#include "demo_picture.h"

/* SVG outlines around the origin, about 20 units wide. */
static const char *const SHAPES[] = {
    "M-10 0a10 10 0 1 0 20 0a10 10 0 1 0-20 0z",                                      /* disc */
    "M0-11.5 10.5 8h-21z",                                                            /* triangle */
    "M-8-9h16a1 1 0 0 1 1 1v16a1 1 0 0 1-1 1h-16a1 1 0 0 1-1-1v-16a1 1 0 0 1 1-1z",   /* square */
    "M0-12 3.2-4.4 11.4-3.7 5.2 1.7 7.1 9.7 0 5.4-7.1 9.7-5.2 1.7-11.4-3.7-3.2-4.4z", /* star */
    "M0-13 9 0 0 13-9 0z",                                                            /* diamond */
    "M-11 0a11 11 0 1 0 22 0a11 11 0 1 0-22 0zM-6 0a6 6 0 1 1 12 0a6 6 0 1 1-12 0z",  /* ring */
    "M5.5-9.5h-11L-11 0l5.5 9.5h11L11 0z",                                            /* hexagon */
    "M-3.5-11h7v7.5h7.5v7h-7.5v7.5h-7v-7.5h-7.5v-7h7.5z",                             /* cross */
    "M4-11a11 11 0 1 0 0 22a13 13 0 0 1 0-22z",                                       /* moon */
    "M0-13c9 7 9 17 0 26c-9-9-9-19 0-26z",                                            /* leaf */
    "M-11-4c5.5-9 5.5 5 11 0s5.5-9 11 0v8c-5.5-9-5.5-5-11 0c-5.5 5-5.5-9-11 0z",      /* wave */
    "M-11-3 0-11 11-3v6L0-4l-11 7zM-11 7 0-1 11 7v5L0 5l-11 7z",                      /* chevrons */
};
#define SHAPE_COUNT (sizeof SHAPES / sizeof *SHAPES)

/* A random number from low to high - 1 (splitmix64). */
static int draw(uint64_t *state, int low, int high) {
  uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return low + (int)((z ^ (z >> 31)) % (uint64_t)(high - low));
}

/* Every draw is a statement of its own, since arguments are evaluated in any order. */
static void put_ground(sv_text *t, unsigned hue, uint64_t *state) {
  const int angle = draw(state, 20, 120);
  const int light = draw(state, 86, 93);
  const int dark = draw(state, 72, 82);
  sv_putf(t,
          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"192\" height=\"192\" viewBox=\"0 0 64 "
          "64\">"
          "<defs><linearGradient id=\"g\" gradientTransform=\"rotate(%d .5 .5)\">"
          "<stop stop-color=\"hsl(%u,48%%,%d%%)\"/>"
          "<stop offset=\"1\" stop-color=\"hsl(%u,44%%,%d%%)\"/>"
          "</linearGradient></defs><rect width=\"64\" height=\"64\" fill=\"url(#g)\"/>",
          angle, hue, light, (hue + 28) % 360, dark);
  for (int i = 0; i < 6; i++) {
    const int x = draw(state, 0, 64);
    const int y = draw(state, 0, 64);
    const int radius = draw(state, 3, 13);
    const int opacity = draw(state, 12, 32);
    sv_putf(t, "<circle cx=\"%d\" cy=\"%d\" r=\"%d\" fill=\"#fff\" fill-opacity=\".%d\"/>", x, y,
            radius, opacity);
  }
}

/* One shape: the large one is near the middle. Sizes are in hundredths. */
static void put_shape(sv_text *t, const char *shape, unsigned hue, bool large, int angle,
                      uint64_t *state) {
  const int light = large ? draw(state, 34, 46) : draw(state, 48, 60);
  const int x = large ? draw(state, 26, 39) : draw(state, 9, 56);
  const int y = large ? draw(state, 26, 39) : draw(state, 9, 56);
  const int size = large ? draw(state, 130, 190) : draw(state, 45, 80);
  sv_putf(t,
          "<path transform=\"translate(%d %d) rotate(%d) scale(%d.%02d)\" fill-rule=\"evenodd\" "
          "fill=\"hsl(%u,52%%,%d%%)\" d=\"%s\"/>",
          x, y, angle, size / 100, size % 100, hue, light, shape);
}

/* Hues follow the golden angle, so that classes with neighbouring numbers differ. */
void demo_picture(sv_text *t, uint32_t class_number, uint64_t row) {
  uint64_t state = row * UINT64_C(0xd1342543de82ef95) + class_number;
  const unsigned hue = (unsigned)(((uint64_t)class_number * 1375 + 340) / 10 % 360);
  const char *shape = SHAPES[class_number % SHAPE_COUNT];
  const int angle = draw(&state, -28, 29);
  put_ground(t, hue, &state);
  put_shape(t, shape, hue, true, angle, &state);
  for (uint32_t i = 0; i < class_number % 3; i++)
    put_shape(t, shape, (hue + 170) % 360, false, angle, &state);
  sv_puts(t, "</svg>\n");
}
