/* section_neighbours.c - accuracy over k, and the whole sweep as a table. */
#include "report/sections.h"

static kf_shown read_k(double x, double factor) {
  (void)factor;
  return kf_showf("k = %.0f", x);
}

static bool k_range(const kf_page *c, double *low, double *high) {
  *low = INFINITY, *high = 0;
  for (size_t i = 0; c->sweep != NULL && i < c->sweep->n_cells; i++)
    kf_stretch(low, high, c->sweep->cells[i].k);
  return *high > *low;
}

static void add_each_k(kf_chart *chart, const kf_k_choice *choice) {
  kf_curve *curve = kf_chart_curve(chart, KF_CURVE_FINE, choice->n_points,
                                   choice->folds > 0 ? "held-out folds" : "leave one out", 2);
  if (curve == NULL) return;
  for (size_t i = 0; i < choice->n_points; i++)
    kf_curve_add(curve, choice->points[i].k, choice->points[i].top1, choice->n);
}

static void add_swept_k(kf_chart *chart, const kf_page *c, const kf_setting *setting) {
  kf_setting all = *setting;
  all.dim = setting->largest_dim;
  kf_sweep_curve(chart, c, setting, KF_ALONG_K, false, 0,
                 kf_showf("Koo-Fu, %u dimensions", setting->dim).text, 0);
  if (all.dim != setting->dim)
    kf_sweep_curve(chart, c, &all, KF_ALONG_K, false, 0,
                   kf_showf("Koo-Fu, %u dimensions", all.dim).text, 1);
  kf_sweep_curve(chart, c, setting, KF_ALONG_K, true, 0, "raw", 5);
}

static void begin_k(kf_chart *chart, kf_string *out, double low, double high, const char *label) {
  kf_chart_begin(chart, out, low, high, false);
  chart->label = label;
  chart->x_name = "voting neighbours, k";
  chart->reading = read_k;
}

static void swept_k_chart(kf_string *out, const kf_page *c, double low, double high) {
  kf_chart chart;
  kf_setting setting;
  begin_k(&chart, out, low, high, "Accuracy over the number of neighbours");
  if (kf_sweep_setting(c, &setting)) add_swept_k(&chart, c, &setting);
  kf_figure_chart(&chart,
                  c->sweep != NULL && c->sweep->folds ? "Accuracy over k, held-out folds"
                                                      : "Accuracy over k, test rows",
                  NULL);
}

static void chosen_k_chart(kf_string *out, const kf_k_choice *choice) {
  kf_chart chart;
  begin_k(&chart, out, choice->points[0].k, choice->points[choice->n_points - 1].k,
          choice->folds > 0
              ? "Accuracy over the number of neighbours, training rows in folds"
              : "Accuracy over the number of neighbours, leaving out each row in turn");
  add_each_k(&chart, choice);
  chart.mark = choice->k;
  kf_figure_chart(&chart,
                  choice->folds > 0 ? "Choosing k: training rows in folds"
                                    : "Choosing k: leave one out",
                  choice->folds > 0 ? "Neither the map nor the neighbours come from the fold "
                                      "of the row that is judged."
                                    : NULL);
}

static void k_words(kf_string *out, const kf_k_choice *choice) {
  for (size_t i = 0; i < choice->n_points; i++) {
    if (choice->points[i].k != choice->k) continue;
    kf_string_addf(out, "<p>Of %s training rows %s, <b>k = %u</b> is right for %s",
                   kf_show_count(choice->n).text,
                   choice->folds > 0 ? "in folds that their map has not seen" : "left out in turn",
                   choice->k, kf_show_percent(choice->points[i].top1, choice->n).text);
    if (choice->best != choice->k) kf_string_addf(out, ", close to the best, k = %u", choice->best);
    kf_put(out, ".</p>\n");
  }
}

void kf_section_neighbours(kf_string *out, const kf_page *c) {
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
  kf_sample_words(out, c, "All these are");
  kf_sweep_table(out, c);
  kf_section_end(out);
}
