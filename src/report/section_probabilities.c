/* section_probabilities.c - how far probabilities can be trusted: accuracy against confidence. */
#include "report/sections.h"

static void put_bin(kf_string *out, const kf_plot *p, const kf_calibration_bin *b, uint64_t most) {
  double low, high, x = kf_scale_at(&p->x, b->confidence);
  kf_interval95(b->top1, b->n, &low, &high);
  double share = kf_share(b->n, most), height = 26 * share;
  kf_put(out, "<g class=\"bin\">");
  kf_string_addf(
      out,
      "<title>%.0f to %.0f\u202F%% sure, %.1f\u202F%% on average: %s of %s rows are right</title>",
      100 * b->low, 100 * b->high, 100 * b->confidence, kf_show_percent(b->top1, b->n).text,
      kf_show_count(b->n).text);
  double left = kf_scale_at(&p->x, b->low), right = kf_scale_at(&p->x, b->high);
  kf_svg_rect(out, "column f5", left + 1, p->y.from - height, right - left - 2, height);
  kf_put(out, "/>");
  kf_svg_line(out, "whisker s0", x, kf_scale_at(&p->y, low), x, kf_scale_at(&p->y, high));
  kf_svg_circle(out, "dot s0", x, kf_scale_at(&p->y, kf_share(b->top1, b->n)), 3.4);
  kf_put(out, "/></g>\n");
}

static void put_reliability(kf_string *out, const kf_calibration *c) {
  kf_plot p = {.out = out, .width = 480, .height = 316};
  p.x = (kf_scale){0, 1, 40, 466, false};
  p.y = (kf_scale){0, 1, 270, 34, false};
  kf_ticks ticks = kf_ticks_linear(0, 1, 5);
  uint64_t most = 1;
  for (size_t i = 0; i < KF_CALIBRATION_BINS; i++) most = c->bins[i].n > most ? c->bins[i].n : most;
  kf_figure_begin(out, "Reliability");
  kf_plot_begin(&p, "Accuracy of rows by the probability of their answers");
  kf_axis_y(&p, &ticks, kf_tick_percent, "right, %");
  kf_axis_x(&p, &ticks, kf_tick_percent, 1, false, "probability of the answer, %");
  kf_svg_line(out, "mark", p.x.from, p.y.from, p.x.to, p.y.to);
  for (size_t i = 0; i < KF_CALIBRATION_BINS; i++)
    if (c->bins[i].n > 0) put_bin(out, &p, &c->bins[i], most);
  kf_plot_end(&p);
  kf_figure_end(
      out, "Rows in 15 bins by the probability of their answer. Dots show how many are right, "
           "with 95 % intervals; on the dotted line, probabilities are exact. Grey columns show "
           "how many rows each bin has.");
}

static void put_figures(kf_string *out, const kf_calibration *c, bool left_out) {
  kf_figure_table_begin(out, "How far probabilities can be trusted", "probabilities",
                        left_out ? KF_HEAD("measure") KF_HEAD("rows left out")
                                 : KF_HEAD("measure") KF_HEAD("test rows"));
  kf_string_addf(
      out, "<tr><th scope=\"row\">expected calibration error</th><td>%.2f\u202F%%</td></tr>\n",
      100 * c->ece);
  kf_string_addf(out, "<tr><th scope=\"row\">negative log-likelihood</th><td>%.4f</td></tr>\n",
                 c->nll);
  kf_string_addf(out, "<tr><th scope=\"row\">Brier score</th><td>%.4f</td></tr>\n", c->brier);
  kf_string_addf(out, "<tr><th scope=\"row\">temperature</th><td>%s</td></tr>\n",
                 kf_show_real(c->temperature).text);
  kf_figure_table_end(out);
}

void kf_section_probabilities(kf_string *out, const kf_page *c) {
  const kf_calibration *k = c->analysis != NULL ? c->analysis->calibration : NULL;
  if (k == NULL) return;
  kf_errors_begin(out, c, "probabilities", "Probabilities");
  kf_string_addf(
      out,
      "<p class=\"lead\">The model is <b>%.1f\u202F%%</b> sure of its answers on average, "
      "and <b>%s</b> of them are right.</p>\n",
      100 * k->confidence, kf_show_percent(k->totals.top1, k->totals.n).text);
  kf_put(out, "<div class=\"pair\">\n");
  put_reliability(out, k);
  put_figures(out, k, c->left_out);
  kf_put(out, "</div>\n");
  kf_section_end(out);
}
