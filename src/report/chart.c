/* chart.c - charts of accuracy over one setting.
 *
 * Numbers appear under the pointer without scripts: every x of the first curve has a strip of full
 * height, followed by a group with a line, dots and numbers that the style sheet shows while the
 * pointer is over the strip. On a phone a tap does the same. */
#include "report/chart.h"

#include <math.h>
#include <string.h>

enum { WIDTH = 480, HEIGHT = 316, LEFT = 40, RIGHT = 466, TOP = 34, TOP_OF_TWO = 64, BELOW = 46 };

void kf_chart_begin(kf_chart *c, kf_string *out, double low, double high, bool two) {
  *c = (kf_chart){.y_name = "top-1 accuracy, %"};
  c->plot = (kf_plot){.out = out, .width = WIDTH, .height = HEIGHT + (two ? 24 : 0)};
  c->plot.x = (kf_scale){low, high, LEFT, RIGHT, true};
  c->plot.y = (kf_scale){.from = c->plot.height - BELOW, .to = two ? TOP_OF_TWO : TOP};
  kf_scale_widen(&c->plot.x);
  c->x_ticks = kf_ticks_log(c->plot.x.low, c->plot.x.high);
}

kf_curve *kf_chart_curve(kf_chart *c, kf_curve_kind kind, size_t n, const char *name,
                         unsigned colour) {
  if (c->n == KF_MAX_CURVES) return NULL;
  kf_curve *curve = &c->curves[c->n];
  *curve = (kf_curve){.kind = kind, .colour = colour};
  curve->points = kf_alloc(n, sizeof *curve->points);
  if (curve->points == NULL) {
    c->plot.out->failed = true;
    return NULL;
  }
  snprintf(curve->name, sizeof curve->name, "%s", name);
  c->n++;
  return curve;
}

void kf_curve_add(kf_curve *curve, double x, uint64_t hits, uint64_t n) {
  size_t at = curve->n++;
  for (; at > 0 && curve->points[at - 1].x > x; at--) curve->points[at] = curve->points[at - 1];
  curve->points[at] = (kf_point){.x = x, .hits = hits, .n = n};
}

void kf_chart_baseline(kf_chart *c, const char *name, unsigned colour, uint64_t hits, uint64_t n) {
  kf_curve *curve = kf_chart_curve(c, KF_CURVE_BASE, 1, name, colour);
  if (curve != NULL) kf_curve_add(curve, 0, hits, n);
}

void kf_chart_clear(kf_chart *c) {
  for (size_t i = 0; i < c->n; i++) kf_free(c->curves[i].points);
  c->n = 0;
}

static double height(const kf_chart *c, const kf_point *p) {
  return kf_scale_at(&c->plot.y, kf_share(p->hits, p->n));
}

/* --- scale ------------------------------------------------------------------------------------ */

/* From the lowest to the highest share, with a margin, rounded. */
static void fit_y(kf_chart *c) {
  double low = INFINITY, high = -INFINITY;
  for (size_t i = 0; i < c->n; i++)
    for (size_t j = 0; j < c->curves[i].n; j++) {
      const kf_point *p = &c->curves[i].points[j];
      double share = kf_share(p->hits, p->n);
      low = fmin(low, p->high > p->low ? p->low : share);
      high = fmax(high, p->high > p->low ? p->high : share);
    }
  if (!(low <= high)) low = 0, high = 1;
  double margin = fmax(0.08 * (high - low), 0.005);
  kf_ticks ticks = kf_ticks_linear(low - margin, high + margin, 5);
  double step = ticks.n > 1 ? ticks.at[1] - ticks.at[0] : 0.1;
  c->plot.y.low = fmax(floor((low - margin) / step) * step, 0);
  c->plot.y.high = fmin(high + margin, 1);
  kf_scale_widen(&c->plot.y);
}

/* --- key -------------------------------------------------------------------------------------- */

static void put_key(const kf_chart *c) {
  kf_string *out = c->plot.out;
  kf_put(out, "<ul class=\"key\">");
  for (size_t i = 0; i < c->n; i++) {
    const kf_curve *v = &c->curves[i];
    if (v->name[0] == '\0') continue;
    const char *kind = v->kind == KF_CURVE_BASE   ? "base"
                       : v->kind == KF_CURVE_FINE ? "fine"
                                                  : "line";
    kf_string_addf(out,
                   "<li><svg viewBox=\"0 0 24 10\" aria-hidden=\"true\"><path class=\"%s s%u\" "
                   "d=\"M1 5H23\"/>",
                   kind, v->colour);
    if (v->kind == KF_CURVE_DOTS)
      kf_string_addf(out, "<circle class=\"dot s%u\" cx=\"12\" cy=\"5\" r=\"3\"/>", v->colour);
    kf_put(out, "</svg>");
    kf_put(out, v->name);
    kf_put(out, "</li>");
  }
  kf_put(out, "</ul>\n");
}

/* --- inside the plot -------------------------------------------------------------------------- */

static void put_band(const kf_chart *c) {
  if (!(c->band_high > c->band_low)) return;
  const kf_plot *p = &c->plot;
  double top = kf_scale_at(&p->y, c->band_high), bottom = kf_scale_at(&p->y, c->band_low);
  kf_svg_rect(p->out, "band", p->x.from, top, p->x.to - p->x.from, fmax(bottom - top, 1));
  kf_put(p->out, "/>\n");
}

static void put_mark(const kf_chart *c) {
  if (!(c->mark > 0)) return;
  const kf_plot *p = &c->plot;
  double x = kf_scale_at(&p->x, c->mark);
  bool right = x > (p->x.from + p->x.to) / 2;
  kf_svg_line(p->out, "mark", x, p->y.from, x, p->y.to);
  kf_svg_text(p->out, right ? "note end" : "note", x + (right ? -6 : 6), p->y.from - 10, "chosen");
}

static void put_dot(kf_string *out, unsigned colour, double x, double y, double r) {
  kf_svg_circle(out, kf_showf("dot s%u", colour).text, x, y, r);
  kf_put(out, "/>\n");
}

/* The band around a curve, if its points have ranges. */
static void put_spread(const kf_chart *c, const kf_curve *v) {
  const kf_plot *p = &c->plot;
  bool varies = false;
  for (size_t i = 0; i < v->n; i++) varies |= v->points[i].high > v->points[i].low;
  if (!varies || v->kind == KF_CURVE_BASE) return;
  kf_path path;
  kf_path_begin(&path, p->out, kf_showf("spread f%u", v->colour).text);
  for (size_t i = 0; i < v->n; i++)
    kf_path_to(&path, kf_scale_at(&p->x, v->points[i].x), kf_scale_at(&p->y, v->points[i].high));
  for (size_t i = v->n; i-- > 0;)
    kf_path_to(&path, kf_scale_at(&p->x, v->points[i].x), kf_scale_at(&p->y, v->points[i].low));
  kf_path_end(&path, true);
}

static void put_curve(const kf_chart *c, const kf_curve *v) {
  const kf_plot *p = &c->plot;
  if (v->n == 0) return;
  if (v->kind == KF_CURVE_BASE) {
    double y = height(c, v->points);
    kf_svg_line(p->out, kf_showf("base s%u", v->colour).text, p->x.from, y, p->x.to, y);
    return;
  }
  kf_path path;
  const char *kind = v->kind == KF_CURVE_FINE ? "fine" : "line";
  kf_path_begin(&path, p->out, kf_showf("%s s%u", kind, v->colour).text);
  for (size_t i = 0; i < v->n; i++)
    kf_path_to(&path, kf_scale_at(&p->x, v->points[i].x), height(c, &v->points[i]));
  kf_path_end(&path, false);
  for (size_t i = 0; i < v->n && v->kind == KF_CURVE_DOTS; i++)
    put_dot(p->out, v->colour, kf_scale_at(&p->x, v->points[i].x), height(c, &v->points[i]), 2.6);
}

/* --- readings --------------------------------------------------------------------------------- */

/* One number of a reading. */
typedef struct value {
  unsigned colour;
  const kf_point *point;
  double y, label; /* heights of the dot and of its number */
} value;

static const kf_point *find_point(const kf_curve *v, double x) {
  for (size_t i = 0; i < v->n && v->kind != KF_CURVE_BASE; i++)
    if (v->points[i].x == x) return &v->points[i];
  return NULL;
}

/* The values of all curves at x, from the top down, spaced so that the numbers do not overlap. */
static size_t read_values(const kf_chart *c, double x, value *values) {
  size_t n = 0;
  for (size_t i = 0; i < c->n; i++) {
    const kf_point *point = find_point(&c->curves[i], x);
    if (point == NULL) continue;
    value v = {c->curves[i].colour, point, height(c, point), 0};
    size_t at = n++;
    for (; at > 0 && values[at - 1].y > v.y; at--) values[at] = values[at - 1];
    values[at] = v;
  }
  double room = 14, next = c->plot.y.to + 10;
  for (size_t i = 0; i < n; i++) {
    double most = c->plot.y.from - room * (double)(n - 1 - i) - 4;
    values[i].label = fmin(fmax(values[i].y, next), most);
    next = values[i].label + room;
  }
  return n;
}

static void put_reading(const kf_chart *c, double x, double from, double to) {
  const kf_plot *p = &c->plot;
  value values[KF_MAX_CURVES];
  size_t n = read_values(c, x, values);
  double at = kf_scale_at(&p->x, x);
  bool left = at > p->x.from + 0.75 * (p->x.to - p->x.from);
  kf_put(p->out, "<g class=\"read\">");
  kf_svg_rect(p->out, NULL, from, p->y.to, to - from, p->y.from - p->y.to);
  kf_put(p->out, "/><g>");
  kf_svg_line(p->out, "rule", at, p->y.from, at, p->y.to);
  kf_svg_text(p->out, "tip end", p->x.to, 14, c->reading(x, c->above_factor).text);
  for (size_t i = 0; i < n; i++) {
    kf_shown class = kf_showf("tip%s f%u", left ? " end" : "", values[i].colour);
    double share = kf_share(values[i].point->hits, values[i].point->n);
    put_dot(p->out, values[i].colour, at, values[i].y, 3.6);
    kf_svg_text(p->out, class.text, at + (left ? -8 : 8), values[i].label + 4,
                kf_showf("%.2f", 100 * share).text);
  }
  kf_put(p->out, "</g></g>\n");
}

/* The next point of a curve that is at least 6 pixels further right; v->n: none. */
static size_t next_reading(const kf_chart *c, const kf_curve *v, size_t i) {
  double here = kf_scale_at(&c->plot.x, v->points[i].x);
  for (i++; i < v->n && kf_scale_at(&c->plot.x, v->points[i].x) - here < 6; i++) {
  }
  return i;
}

static void put_readings(const kf_chart *c) {
  const kf_curve *v = c->curves;
  if (c->n == 0 || v->kind == KF_CURVE_BASE || v->n == 0) return;
  const kf_scale *x = &c->plot.x;
  double from = x->from;
  for (size_t i = 0; i < v->n;) {
    size_t next = next_reading(c, v, i);
    double to = x->to;
    if (next < v->n) to = (kf_scale_at(x, v->points[i].x) + kf_scale_at(x, v->points[next].x)) / 2;
    put_reading(c, v->points[i].x, from, to);
    from = to;
    i = next;
  }
}

void kf_chart_draw(kf_chart *c) {
  fit_y(c);
  if (c->n > 1) put_key(c);
  kf_plot_begin(&c->plot, c->label);
  put_band(c);
  kf_ticks ticks = kf_ticks_linear(c->plot.y.low, c->plot.y.high, 5);
  kf_axis_y(&c->plot, &ticks, kf_tick_percent, c->y_name);
  kf_axis_x(&c->plot, &c->x_ticks, kf_tick_real, 1, false, c->x_name);
  if (c->above_name != NULL)
    kf_axis_x(&c->plot, &c->above_ticks, c->above_show, c->above_factor, true, c->above_name);
  put_mark(c);
  for (size_t i = c->n; i-- > 0;) put_spread(c, &c->curves[i]);
  for (size_t i = c->n; i-- > 0;) put_curve(c, &c->curves[i]);
  put_readings(c);
  kf_plot_end(&c->plot);
}
