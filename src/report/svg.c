/* svg.c - scales, ticks, axes, paths and labels. */
#include "report/svg.h"

#include <math.h>
#include <string.h>

/* --- scales ----------------------------------------------------------------------------------- */

double kf_scale_at(const kf_scale *s, double value) {
  double v = s->log ? log(fmax(value, s->low)) : value;
  double low = s->log ? log(s->low) : s->low, high = s->log ? log(s->high) : s->high;
  double share = fmin(fmax((v - low) / (high - low), 0), 1);
  return s->from + share * (s->to - s->from);
}

void kf_scale_widen(kf_scale *s) {
  if (s->log && !(s->low > 0)) s->low = s->high > 0 ? s->high / 10 : 1;
  if (s->high > s->low) return;
  double step = s->log ? 0 : fmax(fabs(s->low), 1) * 0.1;
  s->high = s->log ? s->low * 2 : s->low + step;
  s->low = s->log ? s->low / 2 : s->low - step;
}

/* --- ticks ------------------------------------------------------------------------------------ */

static void add_tick(kf_ticks *ticks, double at) {
  if (ticks->n < KF_MAX_TICKS) ticks->at[ticks->n++] = at;
}

kf_ticks kf_ticks_linear(double low, double high, int about) {
  kf_ticks ticks = {0};
  double rough = (high - low) / about, power = pow(10, floor(log10(rough)));
  double ratio = rough / power;
  double step = power * (ratio < 1.5 ? 1 : ratio < 3.5 ? 2 : ratio < 7.5 ? 5 : 10);
  double first = ceil(low / step - 1e-9);
  for (int i = 0; (first + i) * step <= high + 1e-9 * step && i < KF_MAX_TICKS; i++)
    add_tick(&ticks, (first + i) * step);
  return ticks;
}

kf_ticks kf_ticks_log(double low, double high) {
  kf_ticks ticks = {0};
  int first = (int)ceil(log10(low) - 1e-9), last = (int)floor(log10(high) + 1e-9);
  int every = (last - first) / (KF_MAX_TICKS / 2) + 1;
  for (int e = first; e <= last; e += every) add_tick(&ticks, pow(10, e));
  if (log10(high / low) > 2.5) return ticks;
  static const double between[] = {2, 5};
  for (int e = first - 1; e <= last; e++)
    for (int i = 0; i < 2; i++) {
      double v = between[i] * pow(10, e);
      if (v >= low && v <= high) add_tick(&ticks, v);
    }
  return ticks;
}

kf_ticks kf_ticks_halves(double low, double high) {
  kf_ticks ticks = {0};
  for (int v = (int)high; v >= low && v >= 1; v /= 2) add_tick(&ticks, v);
  return ticks;
}

kf_shown kf_tick_real(double value, double factor) { return kf_show_real(value * factor); }

kf_shown kf_tick_percent(double value, double factor) {
  return kf_showf("%.4g", 100 * value * factor);
}

kf_shown kf_tick_bytes(double value, double factor) { return kf_show_bytes(value * factor); }

kf_shown kf_tick_times(double value, double factor) { return kf_show_times(value * factor); }

/* --- elements --------------------------------------------------------------------------------- */

kf_shown kf_svg_number(double value) {
  kf_shown out = kf_showf("%.1f", value);
  size_t n = strlen(out.text);
  if (n > 2 && strcmp(out.text + n - 2, ".0") == 0) out.text[n - 2] = '\0';
  return strcmp(out.text, "-0") == 0 ? kf_showf("0") : out;
}

void kf_svg_text(kf_string *out, const char *class, double x, double y, const char *text) {
  kf_svg_text_begin(out, class, x, y);
  kf_put(out, text);
  kf_put(out, "</text>\n");
}

void kf_svg_text_begin(kf_string *out, const char *class, double x, double y) {
  kf_string_addf(out, "<text class=\"%s\" x=\"%s\" y=\"%s\">", class, kf_svg_number(x).text,
                 kf_svg_number(y).text);
}

void kf_svg_rect(kf_string *out, const char *class, double x, double y, double width,
                 double height) {
  kf_put(out, "<rect");
  if (class != NULL) kf_string_addf(out, " class=\"%s\"", class);
  kf_string_addf(out, " x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\"", kf_svg_number(x).text,
                 kf_svg_number(y).text, kf_svg_number(width).text, kf_svg_number(height).text);
}

void kf_svg_circle(kf_string *out, const char *class, double x, double y, double r) {
  kf_string_addf(out, "<circle class=\"%s\" cx=\"%s\" cy=\"%s\" r=\"%s\"", class,
                 kf_svg_number(x).text, kf_svg_number(y).text, kf_svg_number(r).text);
}

void kf_svg_line(kf_string *out, const char *class, double x1, double y1, double x2, double y2) {
  kf_string_addf(out, "<line class=\"%s\" x1=\"%s\" y1=\"%s\" x2=\"%s\" y2=\"%s\"/>\n", class,
                 kf_svg_number(x1).text, kf_svg_number(y1).text, kf_svg_number(x2).text,
                 kf_svg_number(y2).text);
}

void kf_path_begin(kf_path *path, kf_string *out, const char *class) {
  *path = (kf_path){.out = out};
  kf_string_addf(out, "<path class=\"%s\" d=\"", class);
}

void kf_path_to(kf_path *path, double x, double y) {
  if (path->begun && fabs(x - path->x) < 0.5 && fabs(y - path->y) < 0.05) return;
  kf_string_addf(path->out, "%s%s %s", path->begun ? "L" : "M", kf_svg_number(x).text,
                 kf_svg_number(y).text);
  path->begun = true;
  path->x = x;
  path->y = y;
}

void kf_path_end(kf_path *path, bool closed) {
  kf_put(path->out, closed && path->begun ? "Z\"/>\n" : "\"/>\n");
}

/* --- plots and axes --------------------------------------------------------------------------- */

void kf_plot_begin(const kf_plot *p, const char *label) {
  kf_string_addf(p->out, "<svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"", p->width,
                 p->height);
  kf_put_text(p->out, label, 0);
  kf_put(p->out, "\">\n");
}

void kf_plot_end(const kf_plot *p) { kf_put(p->out, "</svg>\n"); }

void kf_axis_y(const kf_plot *p, const kf_ticks *ticks, kf_tick_fn show, const char *title) {
  for (size_t i = 0; i < ticks->n; i++) {
    double y = kf_scale_at(&p->y, ticks->at[i]);
    kf_svg_line(p->out, "grid", p->x.from, y, p->x.to, y);
    kf_svg_text(p->out, "tick end", p->x.from - 7, y + 4, show(ticks->at[i], 1).text);
  }
  if (title != NULL) kf_svg_text(p->out, "name", 0, 14, title);
}

/* The approximate width of a label. Counts characters: narrow spaces and superscripts have several
 * bytes. */
static double label_width(const char *text) {
  size_t n = 0;
  for (; *text != '\0'; text++) n += ((unsigned char)*text & 0xC0) != 0x80;
  return 7.4 * (double)n + 7;
}

/* Whether a label of this width at x would overlap an earlier one. */
static bool overlaps(const double (*taken)[2], size_t n, double x, double width) {
  for (size_t i = 0; i < n; i++)
    if (fabs(x - taken[i][0]) < (width + taken[i][1]) / 2) return true;
  return false;
}

void kf_axis_x(const kf_plot *p, const kf_ticks *ticks, kf_tick_fn show, double factor, bool above,
               const char *title) {
  double edge = above ? p->y.to : p->y.from, out = above ? -1 : 1;
  double taken[KF_MAX_TICKS][2];
  size_t n = 0;
  kf_svg_line(p->out, above ? "grid" : "axis", p->x.from, edge, p->x.to, edge);
  for (size_t i = 0; i < ticks->n; i++) {
    double x = kf_scale_at(&p->x, ticks->at[i]);
    kf_shown label = show(ticks->at[i], factor);
    double width = label_width(label.text);
    kf_svg_line(p->out, above ? "grid" : "axis", x, edge, x, edge + 4 * out);
    x = fmin(fmax(x, width / 2 - 4), p->width - width / 2 + 4);
    if (overlaps((const double(*)[2])taken, n, x, width)) continue;
    kf_svg_text(p->out, "tick mid", x, above ? edge - 8 : edge + 18, label.text);
    taken[n][0] = x;
    taken[n++][1] = width;
  }
  if (above)
    kf_svg_text(p->out, "name end", p->x.to, edge - 26, title);
  else
    kf_svg_text(p->out, "name mid", (p->x.from + p->x.to) / 2, edge + 38, title);
}
