/* svg.h - draws SVG inside the page: scales, ticks, axes, paths, labels.
 *
 * The style sheet (style.c) sets colours and type through classes: s0 … s5 for strokes, f0 … f5 for
 * fills. A picture is as wide as its column; coordinates are those of its viewBox. */
#ifndef KF_REPORT_SVG_H
#define KF_REPORT_SVG_H

#include "report/write.h"

/* Maps values to coordinates. */
typedef struct kf_scale {
  double low, high; /* values; a logarithmic scale needs 0 < low < high */
  double from, to;  /* the coordinates of these two */
  bool log;
} kf_scale;
/* Values outside the range are drawn on the edge, so no path leaves its picture. */
double kf_scale_at(const kf_scale *scale, double value);
/* Ensures low < high. */
void kf_scale_widen(kf_scale *scale);

#define KF_MAX_TICKS 24
typedef struct kf_ticks {
  size_t n;
  double at[KF_MAX_TICKS]; /* most important first: labels that would overlap are dropped */
} kf_ticks;
/* Round numbers between low and high, about this many. */
kf_ticks kf_ticks_linear(double low, double high, int about);
/* Powers of ten and, if there are few of them, 2 and 5 times these. */
kf_ticks kf_ticks_log(double low, double high);
/* high, high/2, high/4, …, down to low. */
kf_ticks kf_ticks_halves(double low, double high);

/* A picture with a plot area. */
typedef struct kf_plot {
  kf_string *out;
  double width, height;
  kf_scale x, y; /* x.from is the left edge of the area, y.from the bottom edge */
} kf_plot;

/* label: for screen readers. */
void kf_plot_begin(const kf_plot *plot, const char *label);
void kf_plot_end(const kf_plot *plot);

/* Formats the label of a tick. */
typedef kf_shown (*kf_tick_fn)(double value, double factor);
kf_shown kf_tick_real(double value, double factor);    /* value * factor */
kf_shown kf_tick_percent(double value, double factor); /* 0.55 is 55 */
kf_shown kf_tick_bytes(double value, double factor);   /* value * factor bytes */
kf_shown kf_tick_times(double value, double factor);   /* 0.3x */

/* Horizontal lines with labels on the left, and a title at the top left (NULL: none). */
void kf_axis_y(const kf_plot *plot, const kf_ticks *ticks, kf_tick_fn show, const char *title);
/* The line at the bottom with ticks, labels and a title in the middle; `above`: the line at the
 * top, with a title on the right. */
void kf_axis_x(const kf_plot *plot, const kf_ticks *ticks, kf_tick_fn show, double factor,
               bool above, const char *title);

/* One decimal, or none if it is zero: nobody can see less than a tenth of a pixel. */
kf_shown kf_svg_number(double value);
/* <text class=… x= y=>TEXT</text>; text is markup. */
void kf_svg_text(kf_string *out, const char *class, double x, double y, const char *text);
void kf_svg_text_begin(kf_string *out, const char *class, double x, double y);
/* <rect … and <circle …, not closed yet; class NULL: none. */
void kf_svg_rect(kf_string *out, const char *class, double x, double y, double width,
                 double height);
void kf_svg_circle(kf_string *out, const char *class, double x, double y, double r);
void kf_svg_line(kf_string *out, const char *class, double x1, double y1, double x2, double y2);

/* A path, point by point. Invisible points (less than half a pixel further, at the same height) are
 * left out. */
typedef struct kf_path {
  kf_string *out;
  bool begun;
  double x, y;
} kf_path;
void kf_path_begin(kf_path *path, kf_string *out, const char *class);
void kf_path_to(kf_path *path, double x, double y);
void kf_path_end(kf_path *path, bool closed);

#endif
