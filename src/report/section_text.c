/* section_text.c - what text adds to prototypes, over lambda, alpha and dimensions. */
#include "report/sections.h"

/* The same colours as on the whole page. */
enum { COLOUR_IMAGES = 0, COLOUR_BOTH = 1, COLOUR_TEXT = 2, COLOUR_RAW = 5 };

/* --- accuracy over lambda and dimensions ------------------------------------------------------ */

static bool has_text(const kf_page *c) {
  for (size_t i = 0; c->sweep != NULL && i < c->sweep->n_cells; i++)
    if (!c->sweep->cells[i].raw && (c->sweep->cells[i].text || c->sweep->cells[i].fused))
      return true;
  return false;
}

static void add_curve(kf_chart *chart, const kf_page *c, const kf_setting *setting, kf_part by,
                      kf_along along, const char *name, unsigned colour) {
  kf_setting here = kf_setting_by(setting, by);
  kf_sweep_curve(chart, c, &here, along, false, 0, name, colour);
}

/* The fused curve comes first: numbers are shown at the points of the first curve. */
static void add_curves(kf_chart *chart, const kf_page *c, const kf_setting *setting,
                       kf_along along) {
  kf_setting text = kf_setting_by(setting, KF_PART_TEXT);
  add_curve(chart, c, setting, KF_PART_FUSED, along, "text and prototypes", COLOUR_BOTH);
  add_curve(chart, c, setting, KF_PART_IMAGES, along, "prototypes", COLOUR_IMAGES);
  add_curve(chart, c, setting, KF_PART_TEXT, along, "text, mapped", COLOUR_TEXT);
  kf_sweep_baseline(chart, c, &text, 0, "text, raw space", COLOUR_TEXT);
  kf_sweep_baseline(chart, c, setting, 0, "prototypes, raw space", COLOUR_RAW);
}

static void lambda_figure(kf_string *out, const kf_page *c, const kf_setting *setting) {
  double low, high;
  kf_chart chart;
  kf_setting all = *setting;
  all.dim = setting->largest_dim;
  if (!kf_lambda_range(c, true, &low, &high)) return;
  kf_lambda_axis(&chart, out, c, low, high);
  chart.label = "Accuracy of text and prototypes over the regulariser lambda";
  add_curves(&chart, c, &all, KF_ALONG_LAMBDA);
  kf_figure_chart(
      &chart, c->sweep->folds ? "Accuracy over λ, held-out folds" : "Accuracy over λ, test rows",
      "With all dimensions. α is chosen for each λ, unless it was given.");
}

static void dim_figure(kf_string *out, const kf_page *c, const kf_setting *setting) {
  double low, high;
  kf_chart chart;
  kf_shown above;
  if (!kf_dim_range(c, true, &low, &high)) return;
  kf_dim_axis(&chart, out, c, low, high, &above);
  chart.label = "Accuracy of text and prototypes over the number of dimensions";
  add_curves(&chart, c, setting, KF_ALONG_DIM);
  kf_figure_chart(&chart,
                  c->sweep->folds ? "Accuracy over dimensions, held-out folds"
                                  : "Accuracy over dimensions, test rows",
                  "Dimensions of the prototypes; the text keeps all of its own.");
}

/* --- accuracy over alpha ---------------------------------------------------------------------- */

static kf_shown read_alpha(double x, double factor) {
  (void)factor;
  return kf_showf("α = %.40s", kf_show_real(x).text);
}

/* Adds the points at the chosen lambda; a logarithmic scale has no 0. */
static void add_alphas(kf_chart *chart, const kf_fuse_choice *choice) {
  kf_curve *curve =
      kf_chart_curve(chart, KF_CURVE_DOTS, choice->n_points, "text and prototypes", COLOUR_BOTH);
  if (curve == NULL) return;
  for (size_t i = 0; i < choice->n_points; i++) {
    const kf_fuse_point *p = &choice->points[i];
    if (p->lambda != choice->points[choice->chosen].lambda || !(p->alpha > 0)) continue;
    kf_curve_add(curve, p->alpha, p->top1, choice->n);
  }
}

static double alpha_of(const kf_page *c) {
  return c->model != NULL && kf_model_fused(c->model) ? kf_model_alpha(c->model) : c->fuse->alpha;
}

static void alpha_figure(kf_string *out, const kf_page *c) {
  const kf_fuse_choice *choice = c->fuse;
  double low = INFINITY, high = 0;
  for (size_t i = 0; i < choice->n_points; i++) kf_stretch(&low, &high, choice->points[i].alpha);
  if (!(high > low)) return;
  kf_chart chart;
  kf_chart_begin(&chart, out, low, high, false);
  chart.label = "Leave-one-out accuracy over alpha";
  chart.x_name = "α, weight of the prototypes next to the text";
  chart.reading = read_alpha;
  add_alphas(&chart, choice);
  kf_chart_baseline(&chart, "text alone (α = 0)", COLOUR_TEXT, choice->text_top1, choice->n);
  double best = kf_share(choice->points[choice->chosen].top1, choice->n);
  chart.band_low = best - choice->standard_error;
  chart.band_high = best;
  double mark = alpha_of(c);
  if (mark >= low && mark <= high) chart.mark = mark;
  kf_figure_chart(&chart, "Choosing α: leave one out",
                  choice->criterion == KF_CRITERION_LIKELIHOOD
                      ? "Band: one standard error below the accuracy where classes are most likely."
                      : "Band: one standard error below the best accuracy.");
}

static void put_words(kf_string *out, const kf_page *c) {
  const kf_fuse_choice *f = c->fuse;
  kf_put(out, "<p class=\"lead\">");
  if (f != NULL && f->n_points == 0)
    kf_string_addf(
        out,
        "No class has two rows, so no row can be left out to choose α, which has a cautious "
        "default of %s. ",
        kf_show_real(f->alpha).text);
  if (f != NULL && f->n_points > 0) {
    const kf_fuse_point *chosen = &f->points[f->chosen];
    kf_string_addf(out,
                   "Leaving out each of %s training rows in turn, text and prototypes together are "
                   "right for <b>%s</b>",
                   kf_show_count(f->n).text, kf_show_percent(chosen->top1, f->n).text);
    kf_string_addf(out, " with λ = %s and α = %s; text alone for %s. ",
                   kf_show_real(chosen->lambda).text, kf_show_real(chosen->alpha).text,
                   kf_show_percent(f->text_top1, f->n).text);
    if (alpha_of(c) != f->alpha)
      kf_string_addf(out, "The model uses α = %s. ", kf_show_real(alpha_of(c)).text);
  }
  if (f != NULL)
    kf_put(out, "The score of a class is the cosine with its text plus α times that with its "
                "prototype.");
  kf_put(out, "</p>\n");
}

void kf_section_text(kf_string *out, const kf_page *c) {
  kf_setting setting;
  bool swept = has_text(c) && kf_sweep_setting(c, &setting);
  if (!swept && c->fuse == NULL) return;
  kf_section_begin(out, "text", "Names and pictures");
  put_words(out, c);
  kf_put(out, "<div class=\"pair\">\n");
  if (swept) lambda_figure(out, c, &setting);
  if (c->fuse != NULL && c->fuse->n_points > 0) alpha_figure(out, c);
  if (swept) dim_figure(out, c, &setting);
  kf_put(out, "</div>\n");
  if (swept) kf_sample_words(out, c, "Accuracies over λ and dimensions are");
  kf_section_end(out);
}
