/* curves.c - accuracy over lambda, over the number of dimensions, and over neighbours. */
#include "report/report.h"

#include <math.h>

/* --- lambda ----------------------------------------------------------------------------------- */

static double mean_eigenvalue(const kf_report_content *c) {
  if (c->lambda != NULL) return c->lambda->mean_eigenvalue;
  if (c->sweep != NULL) return c->sweep->mean_eigenvalue;
  return c->model != NULL ? kf_model_mean_eigenvalue(c->model) : 0;
}

static void stretch(double *low, double *high, double value) {
  if (!(value > 0)) return; /* a logarithmic axis has no place for it */
  *low = fmin(*low, value);
  *high = fmax(*high, value);
}

bool kf_lambda_range(const kf_report_content *c, bool swept, double *low, double *high) {
  *low = INFINITY, *high = 0;
  for (size_t i = 0; !swept && c->lambda != NULL && i < c->lambda->n_points; i++)
    stretch(low, high, c->lambda->points[i].lambda);
  for (size_t i = 0; c->sweep != NULL && i < c->sweep->n_cells; i++)
    if (!c->sweep->cells[i].raw) stretch(low, high, kf_cell_lambda(c, &c->sweep->cells[i]));
  return *high > *low;
}

static kf_shown read_lambda(double x, double factor) {
  kf_shown out;
  if (factor > 0)
    snprintf(out.text, sizeof out.text, "λ = %.16s (%.16s)", kf_show_real(x).text,
             kf_show_times(x * factor).text);
  else
    snprintf(out.text, sizeof out.text, "λ = %.40s", kf_show_real(x).text);
  return out;
}

static void add_left_out(kf_chart *chart, const kf_lambda_choice *choice) {
  kf_curve *curve = kf_chart_curve(chart, KF_CURVE_DOTS, choice->n_points, "leave one out");
  if (curve == NULL) return;
  for (size_t i = 0; i < choice->n_points; i++)
    if (choice->points[i].lambda > 0)
      curve->points[curve->n++] =
          (kf_point){.x = choice->points[i].lambda, .hits = choice->points[i].top1, .n = choice->n};
  double best = kf_share(choice->points[choice->best].top1, choice->n);
  chart->band_low = best - choice->standard_error;
  chart->band_high = best;
}

static void relative_axis(kf_chart *chart, double mean) {
  if (!(mean > 0)) return;
  chart->above_name = "relative to the mean eigenvalue";
  chart->above_ticks = kf_ticks_log(chart->plot.x.low / mean, chart->plot.x.high / mean);
  for (size_t i = 0; i < chart->above_ticks.n; i++) chart->above_ticks.at[i] *= mean;
  chart->above_show = kf_tick_times;
  chart->above_factor = 1 / mean;
}

void kf_lambda_axis(kf_chart *chart, kf_string *out, const kf_report_content *c, double low,
                    double high) {
  kf_chart_begin(chart, out, low, high, true, mean_eigenvalue(c) > 0);
  chart->x_name = "λ, absolute";
  chart->x_ticks = kf_ticks_log(chart->plot.x.low, chart->plot.x.high);
  chart->reading = read_lambda;
  relative_axis(chart, mean_eigenvalue(c));
  chart->mark = c->model != NULL    ? kf_model_lambda(c->model)
                : c->lambda != NULL ? c->lambda->lambda
                                    : 0;
  chart->mark_name = "chosen";
}

static void lambda_chart(kf_string *out, const kf_report_content *c, double low, double high) {
  kf_chart chart;
  kf_place place;
  kf_lambda_axis(&chart, out, c, low, high);
  chart.label = "Accuracy over the regulariser lambda";
  if (c->lambda != NULL) add_left_out(&chart, c->lambda);
  if (kf_sweep_place(c, &place)) {
    size_t before = chart.n;
    place.dim = place.most_dim;
    kf_sweep_curve(&chart, c, &place, KF_ALONG_LAMBDA, false, 0,
                   c->sweep->folds ? "held-out folds" : "test rows", 1);
    if (chart.n > before) kf_sweep_baseline(&chart, c, &place, 0, "raw space", 5);
  }
  kf_figure_begin(out, "Accuracy over λ");
  kf_chart_draw(&chart);
  kf_figure_end(out, c->lambda != NULL
                         ? "The band reaches one standard error below the best accuracy: what "
                           "lies in it is as good as the best, as far as these rows can tell."
                         : NULL);
  kf_chart_clear(&chart);
}

/* The run of lambdas around the best that are within one standard error of it. */
static void plateau(const kf_lambda_choice *choice, double *from, double *to) {
  double least = kf_share(choice->points[choice->best].top1, choice->n) - choice->standard_error;
  size_t first = choice->best, last = first;
  while (first > 0 && kf_share(choice->points[first - 1].top1, choice->n) >= least) first--;
  while (last + 1 < choice->n_points && kf_share(choice->points[last + 1].top1, choice->n) >= least)
    last++;
  *from = choice->points[first].lambda;
  *to = choice->points[last].lambda;
}

/* What the model has, where that is not what prototypes alone would choose. */
static void other_lambda(kf_string *out, const kf_model *model, double chosen) {
  if (model == NULL || fabs(kf_model_lambda(model) - chosen) <= 1e-9 * chosen) return;
  kf_string_addf(out, " The model has %s%s.", kf_show_real(kf_model_lambda(model)).text,
                 kf_model_fused(model) ? ", together with text" : "");
}

static void lambda_words(kf_string *out, const kf_report_content *c) {
  const kf_lambda_choice *choice = c->lambda;
  const kf_lambda_point *best = &choice->points[choice->best];
  double from, to;
  plateau(choice, &from, &to);
  kf_string_addf(out,
                 "<p class=\"lead\">Leaving out each of %s training rows in turn, accuracy is ",
                 kf_show_count(choice->n).text);
  kf_string_addf(out, "highest at λ = %s, <b>%s</b>", kf_show_real(best->lambda).text,
                 kf_show_percent(best->top1, choice->n).text);
  if (choice->mean_eigenvalue > 0)
    kf_string_addf(out, ", which is %s the mean eigenvalue of the scatter within classes",
                   kf_show_times(best->lambda / choice->mean_eigenvalue).text);
  if (from > 0 && to > from)
    kf_string_addf(out, ". It stays within one standard error (%s points) from %s to %s",
                   kf_show_points(choice->standard_error).text, kf_show_real(from).text,
                   kf_show_real(to).text);
  if (choice->chosen != choice->best)
    kf_string_addf(out, ". Chosen was %s", kf_show_real(choice->lambda).text);
  kf_put(out, ".");
  other_lambda(out, c->model, choice->lambda);
  kf_put(out, "</p>\n");
}

void kf_report_lambda(kf_string *out, const kf_report_content *c) {
  double low, high;
  bool curve = kf_lambda_range(c, false, &low, &high);
  if (!curve && c->model == NULL) return;
  kf_section_begin(out, "lambda", "The regulariser λ");
  if (c->lambda != NULL && c->lambda->n_points > 0) lambda_words(out, c);
  kf_put(out, "<div class=\"pair\">\n");
  if (curve) lambda_chart(out, c, low, high);
  if (c->model != NULL) kf_report_within(out, c->model);
  kf_put(out, "</div>\n");
  kf_section_end(out);
}

/* --- dimensions ------------------------------------------------------------------------------- */

static kf_shown read_dim(double x, double factor) {
  kf_shown out;
  snprintf(out.text, sizeof out.text, "%.0f dimensions, %.24s", x, kf_show_bytes(x * factor).text);
  return out;
}

static double memory_rows(const kf_report_content *c) {
  return c->train_rows > 0 ? (double)c->train_rows : 1e6;
}

/* Below a few dimensions nothing is right, and a curve from 1 on would be mostly that. */
bool kf_dim_range(const kf_report_content *c, bool swept, double *low, double *high) {
  *low = INFINITY, *high = 0;
  if (!swept && c->dim != NULL && c->dim->n_points > 0) {
    uint32_t last = c->dim->points[c->dim->n_points - 1].dim;
    stretch(low, high, last > 64 ? 4 : 1);
    stretch(low, high, last);
  }
  for (size_t i = 0; c->sweep != NULL && i < c->sweep->n_cells; i++)
    if (!c->sweep->cells[i].raw) stretch(low, high, c->sweep->cells[i].dim);
  return *high > *low;
}

static void add_validated(kf_chart *chart, const kf_dim_choice *choice) {
  kf_curve *curve =
      kf_chart_curve(chart, KF_CURVE_FINE, choice->n_points, "prototypes, cross-validated");
  if (curve == NULL) return;
  curve->colour = 0;
  for (size_t i = 0; i < choice->n_points; i++)
    if (choice->points[i].dim >= chart->plot.x.low)
      curve->points[curve->n++] =
          (kf_point){.x = choice->points[i].dim, .hits = choice->points[i].top1, .n = choice->n};
}

/* Prototypes and up to three numbers of neighbours, and the original space of each. */
static void add_swept(kf_chart *chart, const kf_report_content *c, const kf_place *place) {
  uint32_t ks[4];
  size_t n = kf_sweep_ks(c->sweep, ks, 4);
  for (size_t i = 0; i < n; i++)
    kf_sweep_curve(chart, c, place, KF_ALONG_DIM, false, ks[i], kf_show_classifier(ks[i]).text,
                   (unsigned)i);
  for (size_t i = 0; i < n; i++)
    kf_sweep_baseline(chart, c, place, ks[i], i == 0 ? "raw space" : "", (unsigned)i);
}

void kf_dim_axis(kf_chart *chart, kf_string *out, const kf_report_content *c, double low,
                 double high, kf_shown *above) {
  kf_chart_begin(chart, out, low, high, true, true);
  chart->x_name = "dimensions kept";
  chart->x_ticks = chart->above_ticks = kf_ticks_halves(low, high);
  chart->reading = read_dim;
  if (c->train_rows > 0)
    snprintf(above->text, sizeof above->text, "memory of %.26s rows",
             kf_show_count(c->train_rows).text);
  else
    snprintf(above->text, sizeof above->text, "memory per million rows");
  chart->above_name = above->text;
  chart->above_show = kf_tick_bytes;
  chart->above_factor = 4 * memory_rows(c);
  chart->mark = c->model != NULL ? kf_model_dim_out(c->model) : c->dim != NULL ? c->dim->dim : 0;
  chart->mark_name = "chosen";
}

static void dim_chart(kf_string *out, const kf_report_content *c, double low, double high) {
  kf_chart chart;
  kf_place place;
  kf_shown above;
  kf_dim_axis(&chart, out, c, low, high, &above);
  chart.label = "Accuracy over the number of dimensions";
  if (kf_sweep_place(c, &place)) add_swept(&chart, c, &place);
  if (c->dim != NULL) add_validated(&chart, c->dim);
  kf_figure_begin(out, "Accuracy over dimensions");
  kf_chart_draw(&chart);
  kf_figure_end(
      out, "Dashed: the same in the original space, with all its dimensions. Above: what the rows "
           "of a gallery take in f32.");
  kf_chart_clear(&chart);
}

/* The smallest number of dimensions of the sweep, fewer than all, with at least the accuracy of the
 * raw space. */
static const kf_sweep_cell *cheapest(const kf_report_content *c, const kf_place *place,
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

static void cheapest_words(kf_string *out, const kf_report_content *c) {
  kf_place place;
  if (!kf_sweep_place(c, &place)) return;
  const kf_sweep_cell *raw = kf_sweep_find(c, &place, true, 0);
  const kf_sweep_cell *cell = raw != NULL ? cheapest(c, &place, raw) : NULL;
  if (cell == NULL) return;
  kf_string_addf(out,
                 "<b>%u of %u dimensions</b> are right for %s, no less than the raw space (%s). ",
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
    kf_string_addf(out, "; %u are the fewest that come close enough (%s)", chosen->dim,
                   kf_show_percent(chosen->top1, choice->n).text);
  kf_put(out, ".");
}

void kf_report_dims(kf_string *out, const kf_report_content *c) {
  double low, high;
  bool curve = kf_dim_range(c, false, &low, &high);
  if (!curve && c->model == NULL) return;
  kf_section_begin(out, "dimensions", "Dimensions");
  kf_put(out, "<p class=\"lead\">");
  cheapest_words(out, c);
  if (c->dim != NULL) dim_words(out, c->dim);
  kf_put(out, "</p>\n<div class=\"pair\">\n");
  if (curve) dim_chart(out, c, low, high);
  if (c->model != NULL) kf_report_between(out, c->model);
  kf_put(out, "</div>\n");
  kf_section_end(out);
}

/* --- neighbours ------------------------------------------------------------------------------- */

static kf_shown read_k(double x, double factor) {
  (void)factor;
  kf_shown out;
  snprintf(out.text, sizeof out.text, "k = %.0f", x);
  return out;
}

static bool k_range(const kf_report_content *c, double *low, double *high) {
  *low = INFINITY, *high = 0;
  for (size_t i = 0; c->sweep != NULL && i < c->sweep->n_cells; i++)
    stretch(low, high, c->sweep->cells[i].k);
  return *high > *low;
}

static void add_each_k(kf_chart *chart, const kf_k_choice *choice) {
  kf_curve *curve = kf_chart_curve(chart, KF_CURVE_FINE, choice->n_points, "leave one out");
  if (curve == NULL) return;
  curve->colour = 2;
  for (size_t i = 0; i < choice->n_points; i++)
    curve->points[curve->n++] =
        (kf_point){.x = choice->points[i].k, .hits = choice->points[i].top1, .n = choice->n};
}

static void add_swept_k(kf_chart *chart, const kf_report_content *c, const kf_place *place) {
  kf_place all = *place;
  all.dim = place->most_dim;
  char name[64];
  snprintf(name, sizeof name, "Koo-Fu, %u dimensions", place->dim);
  kf_sweep_curve(chart, c, place, KF_ALONG_K, false, 0, name, 0);
  snprintf(name, sizeof name, "Koo-Fu, %u dimensions", all.dim);
  if (all.dim != place->dim) kf_sweep_curve(chart, c, &all, KF_ALONG_K, false, 0, name, 1);
  kf_sweep_curve(chart, c, place, KF_ALONG_K, true, 0, "raw", 5);
}

static void begin_k(kf_chart *chart, kf_string *out, double low, double high, const char *label) {
  kf_chart_begin(chart, out, low, high, true, false);
  chart->label = label;
  chart->x_name = "neighbours that vote, k";
  chart->x_ticks = kf_ticks_log(chart->plot.x.low, chart->plot.x.high);
  chart->reading = read_k;
}

static void swept_k_chart(kf_string *out, const kf_report_content *c, double low, double high) {
  kf_chart chart;
  kf_place place;
  begin_k(&chart, out, low, high, "Accuracy over the number of neighbours");
  if (kf_sweep_place(c, &place)) add_swept_k(&chart, c, &place);
  kf_figure_begin(out, c->sweep != NULL && c->sweep->folds ? "Accuracy over k, held-out folds"
                                                           : "Accuracy over k, test rows");
  kf_chart_draw(&chart);
  kf_figure_end(out, NULL);
  kf_chart_clear(&chart);
}

static void chosen_k_chart(kf_string *out, const kf_k_choice *choice) {
  kf_chart chart;
  begin_k(&chart, out, choice->points[0].k, choice->points[choice->n_points - 1].k,
          "Accuracy over the number of neighbours, leaving out each row in turn");
  add_each_k(&chart, choice);
  chart.mark = choice->k;
  chart.mark_name = "chosen";
  kf_figure_begin(out, "Choosing k: leave one out");
  kf_chart_draw(&chart);
  kf_figure_end(out, "This flatters a map that was fitted on the same rows: look at where the "
                     "curve is high, not at how high it is.");
  kf_chart_clear(&chart);
}

static void k_words(kf_string *out, const kf_k_choice *choice) {
  for (size_t i = 0; i < choice->n_points; i++) {
    if (choice->points[i].k != choice->k) continue;
    kf_string_addf(out, "<p>Leaving out each of %s rows in turn, <b>k = %u</b> is right for %s",
                   kf_show_count(choice->n).text, choice->k,
                   kf_show_percent(choice->points[i].top1, choice->n).text);
    if (choice->best != choice->k) kf_string_addf(out, ", close to the best, k = %u", choice->best);
    kf_put(out, ".</p>\n");
  }
}

void kf_report_neighbours(kf_string *out, const kf_report_content *c) {
  double low, high;
  bool swept = k_range(c, &low, &high), chosen = c->k != NULL && c->k->n_points > 0;
  bool table = c->sweep != NULL && c->sweep->n_cells > 0;
  if (!swept && !chosen && !table) return;
  kf_section_begin(out, "neighbours", swept || chosen ? "Neighbours" : "All settings");
  if (chosen) k_words(out, c->k);
  kf_put(out, "<div class=\"pair\">\n");
  if (swept) swept_k_chart(out, c, low, high);
  if (chosen) chosen_k_chart(out, c->k);
  kf_put(out, "</div>\n");
  kf_sweep_table(out, c);
  kf_section_end(out);
}
