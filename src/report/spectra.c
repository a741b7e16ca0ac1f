/* spectra.c - the spectra of a model: the eigenvalues of S_w next to lambda, and gamma. */
#include "report/sections.h"

enum { WIDTH = 480, HEIGHT = 340, LEFT = 50, RIGHT = 466, TOP = 34, BELOW = 46 };

/* Eigenvalues of S_w below this share of lambda make no visible difference and would only stretch
 * the axis; nor do gammas below a tenth of this share of the largest. */
static const double NEGLIGIBLE = 1e-3;

static size_t above(const double *values, size_t n, double least) {
  size_t count = 0;
  while (count < n && values[count] >= least && values[count] > 0) count++;
  return count;
}

/* A falling spectrum on a logarithmic scale; `also`: a value that the scale must include, or 0. */
static kf_plot spectrum_plot(kf_string *out, const double *values, size_t n, double also) {
  double least = also > 0 ? also * NEGLIGIBLE : values[0] * NEGLIGIBLE / 10;
  size_t shown = above(values, n, least);
  double low = shown > 0 ? values[shown - 1] : 1, high = shown > 0 ? values[0] : 10;
  if (also > 0) low = fmin(low, also), high = fmax(high, also);
  kf_plot p = {.out = out, .width = WIDTH, .height = HEIGHT};
  p.x = (kf_scale){1, (double)(also > 0 ? n : shown), LEFT, RIGHT, false};
  p.y = (kf_scale){low / 1.3, high * 1.3, HEIGHT - BELOW, TOP, true};
  kf_scale_widen(&p.x);
  kf_scale_widen(&p.y);
  return p;
}

static void put_axes(const kf_plot *p, const char *y_name) {
  kf_ticks x = kf_ticks_linear(p->x.low, p->x.high, 5), y = kf_ticks_log(p->y.low, p->y.high);
  kf_axis_y(p, &y, kf_tick_real, NULL);
  kf_axis_x(p, &x, kf_tick_real, 1, false, "direction");
  kf_svg_text(p->out, "name", 0, 14, y_name);
}

static void put_values(const kf_plot *p, const double *values, size_t n, const char *class) {
  kf_path path;
  size_t shown = above(values, n, p->y.low), step = shown / 400 + 1;
  kf_path_begin(&path, p->out, class);
  for (size_t i = 0; i < shown; i += i + step < shown || i + 1 == shown ? step : shown - 1 - i)
    kf_path_to(&path, kf_scale_at(&p->x, (double)(i + 1)), kf_scale_at(&p->y, values[i]));
  kf_path_end(&path, false);
}

void kf_spectrum_within(kf_string *out, const kf_model *model) {
  const double *values = kf_model_within_eigenvalues(model);
  size_t n = kf_model_dim_in(model);
  double lambda = kf_model_lambda(model);
  kf_plot p = spectrum_plot(out, values, n, lambda);
  kf_figure_begin(out, "Spectrum of the scatter within classes");
  kf_plot_begin(&p, "Eigenvalues of the scatter within classes, and lambda");
  put_axes(&p, "eigenvalue of S_w");
  if (lambda > 0) {
    double y = kf_scale_at(&p.y, lambda);
    kf_svg_line(out, "mark", p.x.from, y, p.x.to, y);
    kf_svg_text(out, "note end", p.x.to - 4, y - 7, "λ");
  }
  put_values(&p, values, n, "line s0");
  kf_plot_end(&p);
  char caption[256];
  snprintf(caption, sizeof caption,
           "%s of %s directions lie above λ and are whitened; those far below it keep their scale.",
           kf_show_count(above(values, n, lambda)).text, kf_show_count(n).text);
  kf_figure_end(out, caption);
}

/* How many of the first directions make up this share of the sum. */
static size_t holding(const double *values, size_t n, double share) {
  double sum = 0, part = 0;
  for (size_t i = 0; i < n; i++) sum += values[i];
  size_t count = 0;
  while (count < n && part < share * sum) part += values[count++];
  return count;
}

void kf_spectrum_between(kf_string *out, const kf_model *model) {
  const double *values = kf_model_between_eigenvalues(model);
  size_t n = kf_model_dim_in(model), kept = kf_model_dim_out(model);
  kf_plot p = spectrum_plot(out, values, n, 0);
  kf_figure_begin(out, "Spectrum between classes, whitened");
  kf_plot_begin(&p, "gamma, the scatter between classes along each direction");
  put_axes(&p, "γ, scatter between classes relative to within");
  if ((double)kept < p.x.high) {
    double x = kf_scale_at(&p.x, (double)kept);
    bool right = x > (LEFT + RIGHT) / 2.0;
    kf_svg_line(out, "mark", x, p.y.from, x, p.y.to);
    kf_svg_text(out, right ? "note end" : "note", x + (right ? -6 : 6), p.y.to + 14,
                kf_showf("%zu kept", kept).text);
  }
  put_values(&p, values, n, "line s2");
  kf_plot_end(&p);
  char caption[256];
  size_t half = holding(values, n, 0.5);
  snprintf(
      caption, sizeof caption,
      "Directions, most discriminative first. The first %s%s half of the sum of γ, the first %s "
      "nine tenths.",
      half == 1 ? "" : kf_show_count(half).text, half == 1 ? "holds" : " hold",
      kf_show_count(holding(values, n, 0.9)).text);
  kf_figure_end(out, caption);
}
