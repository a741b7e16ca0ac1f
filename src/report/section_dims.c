/* section_dims.c - accuracy and memory over the number of dimensions, next to the spectrum that
 * orders them, and the cost of fewer dimensions. */
#include "report/sections.h"

static kf_shown read_dim(double x, double factor) {
  return kf_showf("%.0f dimensions, %.24s", x, kf_show_bytes(x * factor).text);
}

static double memory_rows(const kf_page *c) {
  return c->train_rows > 0 ? (double)c->train_rows : 1e6;
}

/* Starts at 4 if there are many dimensions: with fewer, almost no answer is right. */
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

/* Prototypes and up to three values of k, each with its baseline in the original space. */
static void add_swept(kf_chart *chart, const kf_page *c, const kf_setting *setting) {
  uint32_t ks[4];
  size_t n = kf_sweep_ks(c->sweep, ks, 4);
  for (size_t i = 0; i < n; i++)
    kf_sweep_curve(chart, c, setting, KF_ALONG_DIM, false, ks[i], kf_show_classifier(ks[i]).text,
                   (unsigned)i);
  for (size_t i = 0; i < n; i++)
    kf_sweep_baseline(chart, c, setting, ks[i], i == 0 ? "raw space" : "", (unsigned)i);
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
  kf_setting setting;
  kf_shown above;
  kf_dim_axis(&chart, out, c, low, high, &above);
  chart.label = "Accuracy over the number of dimensions";
  if (kf_sweep_setting(c, &setting)) add_swept(&chart, c, &setting);
  if (c->dim != NULL) add_validated(&chart, c->dim);
  kf_figure_chart(
      &chart, "Accuracy over dimensions",
      "Dashed: the original space with all its dimensions. Top scale: memory of a gallery in "
      "f32.");
}

/* The fewest dimensions in the sweep, less than all, that reach the accuracy of the raw space. */
static const kf_sweep_cell *cheapest(const kf_page *c, const kf_setting *setting,
                                     const kf_sweep_cell *raw) {
  const kf_sweep_cell *found = NULL;
  for (size_t i = 0; i < c->sweep->n_cells; i++) {
    kf_setting here = *setting;
    here.dim = c->sweep->cells[i].dim;
    const kf_sweep_cell *cell = kf_sweep_find(c, &here, false, raw->k);
    if (cell != NULL && cell->dim < raw->dim && (found == NULL || cell->dim < found->dim) &&
        kf_share(cell->top1, cell->n) >= kf_share(raw->top1, raw->n))
      found = cell;
  }
  return found;
}

static void cheapest_words(kf_string *out, const kf_page *c) {
  kf_setting setting;
  if (!kf_sweep_setting(c, &setting)) return;
  const kf_sweep_cell *raw = kf_sweep_find(c, &setting, true, 0);
  const kf_sweep_cell *cell = raw != NULL ? cheapest(c, &setting, raw) : NULL;
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
  if (chosen == NULL) return;
  kf_shown margin = kf_show_points(choice->margin);
  if (choice->dim == choice->n_points)
    kf_string_addf(out,
                   "Cross-validation on %s training rows does not show that fewer than all %u "
                   "dimensions lose at most %s points.",
                   kf_show_count(choice->n).text, choice->dim, margin.text);
  else
    kf_string_addf(out,
                   "By cross-validation on %s training rows, %u of %zu dimensions lose at most %s "
                   "points with 95 %% confidence.",
                   kf_show_count(choice->n).text, choice->dim, choice->n_points, margin.text);
}

/* --- the cost of fewer ------------------------------------------------------------------------ */

/* All dimensions and halves of them, one less than the classes, the fewest within the margin, and
 * those of the model. */
static bool in_table(const kf_page *c, uint32_t dim) {
  const kf_dim_choice *choice = c->dim;
  bool listed = dim == choice->dim || dim == choice->same;
  if (c->model != NULL)
    listed |= dim == kf_model_dim_out(c->model) || dim + 1 == kf_model_classes(c->model);
  for (size_t half = choice->n_points; half > 1; half /= 2) listed |= dim == half;
  return listed;
}

static void put_cost(kf_string *out, const kf_page *c, size_t i) {
  const kf_dim_point *p = &c->dim->points[i];
  double n = (double)c->dim->n, loss = ((double)p->lost - (double)p->won) / n;
  bool own = c->model != NULL && kf_model_dim_out(c->model) == p->dim;
  kf_string_addf(out, "<tr%s><td>%s</td><td>%s</td><td>%s</td>", own ? " class=\"mapped\"" : "",
                 kf_show_count(p->dim).text, kf_show_bytes(4 * memory_rows(c) * p->dim).text,
                 kf_show_percent(p->top1, c->dim->n).text);
  if (p->dim == c->dim->n_points)
    kf_put(out, "<td>–</td><td>–</td></tr>\n");
  else
    kf_string_addf(out, "<td>%s%s</td><td>%s%s</td></tr>\n", loss < 0 ? "−" : "",
                   kf_show_points(fabs(loss)).text, kf_dim_upper95(c->dim, i) < 0 ? "−" : "",
                   kf_show_points(fabs(kf_dim_upper95(c->dim, i))).text);
}

static void cost_table(kf_string *out, const kf_page *c) {
  if (c->dim == NULL || c->dim->n_points < 2 || c->dim->n == 0) return;
  kf_figure_begin(out, "What fewer dimensions cost");
  kf_table_begin(out, "what fewer dimensions cost",
                 KF_HEAD("dims") KF_HEAD("memory") KF_HEAD("right") KF_HEAD("lost, points")
                     KF_HEAD("at most"));
  for (size_t i = c->dim->n_points; i-- > 0;)
    if (in_table(c, c->dim->points[i].dim)) put_cost(out, c, i);
  kf_table_end(out);
  kf_string_addf(
      out,
      "<figcaption>Prototypes on %s training rows, left out in %u folds, compared with all "
      "dimensions on the same rows. At most: with 95 %% confidence.</figcaption>\n",
      kf_show_count(c->dim->n).text, c->dim->folds);
  kf_figure_end(out, NULL);
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
  cost_table(out, c);
  if (c->sweep != NULL) kf_sample_words(out, c, "Curves with dots and their dashed lines are");
  kf_section_end(out);
}
