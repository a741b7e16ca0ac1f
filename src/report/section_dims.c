/* section_dims.c - accuracy and memory over the number of dimensions, next to the spectrum that
 * orders them. */
#include "report/sections.h"

static kf_shown read_dim(double x, double factor) {
  return kf_showf("%.0f dimensions, %.24s", x, kf_show_bytes(x * factor).text);
}

static double memory_rows(const kf_page *c) {
  return c->train_rows > 0 ? (double)c->train_rows : 1e6;
}

/* Starts at 4 dimensions if there are many: below, nothing is right. */
bool kf_dim_range(const kf_page *c, bool swept, double *low, double *high) {
  *low = INFINITY, *high = 0;
  if (!swept && c->dim != NULL && c->dim->n_points > 0) {
    uint32_t last = c->dim->points[c->dim->n_points - 1].dim;
    kf_stretch(low, high, last > 64 ? 4 : 1);
    kf_stretch(low, high, last);
  }
  for (size_t i = 0; c->sweep != NULL && i < c->sweep->n_cells; i++)
    if (!c->sweep->cells[i].raw) kf_stretch(low, high, c->sweep->cells[i].dim);
  return *high > *low;
}

static void add_validated(kf_chart *chart, const kf_dim_choice *choice) {
  kf_curve *curve =
      kf_chart_curve(chart, KF_CURVE_FINE, choice->n_points, "prototypes, cross-validated", 0);
  if (curve == NULL) return;
  for (size_t i = 0; i < choice->n_points; i++)
    if (choice->points[i].dim >= chart->plot.x.low)
      kf_curve_add(curve, choice->points[i].dim, choice->points[i].top1, choice->n);
}

/* Prototypes and up to three values of k, and the original space of each. */
static void add_swept(kf_chart *chart, const kf_page *c, const kf_place *place) {
  uint32_t ks[4];
  size_t n = kf_sweep_ks(c->sweep, ks, 4);
  for (size_t i = 0; i < n; i++)
    kf_sweep_curve(chart, c, place, KF_ALONG_DIM, false, ks[i], kf_show_classifier(ks[i]).text,
                   (unsigned)i);
  for (size_t i = 0; i < n; i++)
    kf_sweep_baseline(chart, c, place, ks[i], i == 0 ? "raw space" : "", (unsigned)i);
}

void kf_dim_axis(kf_chart *chart, kf_string *out, const kf_page *c, double low, double high,
                 kf_shown *above) {
  kf_chart_begin(chart, out, low, high, true);
  chart->x_name = "dimensions kept";
  chart->x_ticks = chart->above_ticks = kf_ticks_halves(low, high);
  chart->reading = read_dim;
  *above = c->train_rows > 0 ? kf_showf("memory of %.26s rows", kf_show_count(c->train_rows).text)
                             : kf_showf("memory per million rows");
  chart->above_name = above->text;
  chart->above_show = kf_tick_bytes;
  chart->above_factor = 4 * memory_rows(c);
  chart->mark = c->model != NULL ? kf_model_dim_out(c->model) : c->dim != NULL ? c->dim->dim : 0;
}

static void dim_chart(kf_string *out, const kf_page *c, double low, double high) {
  kf_chart chart;
  kf_place place;
  kf_shown above;
  kf_dim_axis(&chart, out, c, low, high, &above);
  chart.label = "Accuracy over the number of dimensions";
  if (kf_sweep_place(c, &place)) add_swept(&chart, c, &place);
  if (c->dim != NULL) add_validated(&chart, c->dim);
  kf_figure_chart(
      &chart, "Accuracy over dimensions",
      "Dashed: the original space with all its dimensions. Top scale: memory of a gallery in "
      "f32.");
}

/* The fewest dimensions in the sweep, but not all, with at least the accuracy of the raw space. */
static const kf_sweep_cell *cheapest(const kf_page *c, const kf_place *place,
                                     const kf_sweep_cell *raw) {
  const kf_sweep_cell *found = NULL;
  for (size_t i = 0; i < c->sweep->n_cells; i++) {
    kf_place here = *place;
    here.dim = c->sweep->cells[i].dim;
    const kf_sweep_cell *cell = kf_sweep_find(c, &here, false, raw->k);
    if (cell != NULL && cell->dim < raw->dim && (found == NULL || cell->dim < found->dim) &&
        kf_share(cell->top1, cell->n) >= kf_share(raw->top1, raw->n))
      found = cell;
  }
  return found;
}

static void cheapest_words(kf_string *out, const kf_page *c) {
  kf_place place;
  if (!kf_sweep_place(c, &place)) return;
  const kf_sweep_cell *raw = kf_sweep_find(c, &place, true, 0);
  const kf_sweep_cell *cell = raw != NULL ? cheapest(c, &place, raw) : NULL;
  if (cell == NULL) return;
  kf_string_addf(
      out, "<b>%u of %u dimensions</b> are right for %s, at least as many as the raw space (%s). ",
      cell->dim, raw->dim, kf_show_percent(cell->top1, cell->n).text,
      kf_show_percent(raw->top1, raw->n).text);
}

static const kf_dim_point *dim_point(const kf_dim_choice *choice, uint32_t dim) {
  for (size_t i = 0; i < choice->n_points; i++)
    if (choice->points[i].dim == dim) return &choice->points[i];
  return NULL;
}

static void dim_words(kf_string *out, const kf_dim_choice *choice) {
  const kf_dim_point *chosen = dim_point(choice, choice->dim);
  const kf_dim_point *best = dim_point(choice, choice->best);
  if (chosen == NULL || best == NULL) return;
  kf_string_addf(out, "Cross-validated on %s training rows, accuracy is highest with %u (%s)",
                 kf_show_count(choice->n).text, best->dim,
                 kf_show_percent(best->top1, choice->n).text);
  if (chosen != best)
    kf_string_addf(out, "; %u are the fewest within the tolerance (%s)", chosen->dim,
                   kf_show_percent(chosen->top1, choice->n).text);
  kf_put(out, ".");
}

void kf_section_dims(kf_string *out, const kf_page *c) {
  double low, high;
  bool curve = kf_dim_range(c, false, &low, &high);
  if (!curve && c->model == NULL) return;
  kf_section_begin(out, "dimensions", "Dimensions");
  kf_put(out, "<p class=\"lead\">");
  cheapest_words(out, c);
  if (c->dim != NULL) dim_words(out, c->dim);
  kf_put(out, "</p>\n<div class=\"pair\">\n");
  if (curve) dim_chart(out, c, low, high);
  if (c->model != NULL) kf_spectrum_between(out, c->model);
  kf_put(out, "</div>\n");
  kf_section_end(out);
}
