/* section_lambda.c - accuracy over lambda, next to the spectrum it regularises. */
#include "report/sections.h"

static double mean_eigenvalue(const kf_page *c) {
  if (c->lambda != NULL) return c->lambda->mean_eigenvalue;
  if (c->sweep != NULL) return c->sweep->mean_eigenvalue;
  return c->model != NULL ? kf_model_mean_eigenvalue(c->model) : 0;
}

bool kf_lambda_range(const kf_page *c, bool swept, double *low, double *high) {
  *low = INFINITY, *high = 0;
  for (size_t i = 0; !swept && c->lambda != NULL && i < c->lambda->n_points; i++)
    kf_stretch(low, high, c->lambda->points[i].lambda);
  for (size_t i = 0; c->sweep != NULL && i < c->sweep->n_cells; i++)
    if (!c->sweep->cells[i].raw) kf_stretch(low, high, kf_cell_lambda(c, &c->sweep->cells[i]));
  return *high > *low;
}

static kf_shown read_lambda(double x, double factor) {
  if (!(factor > 0)) return kf_showf("λ = %.40s", kf_show_real(x).text);
  return kf_showf("λ = %.28s (%.28s)", kf_show_real(x).text, kf_show_times(x * factor).text);
}

static bool by_likelihood(const kf_lambda_choice *choice) {
  return choice->criterion == KF_CRITERION_LIKELIHOOD;
}

/* The standard error of the best point. By likelihood, choice->standard_error is that of more rows
 * than the curve has. */
static double curve_error(const kf_lambda_choice *choice) {
  if (!by_likelihood(choice) || choice->n == 0) return choice->standard_error;
  double p = kf_share(choice->points[choice->best].top1, choice->n);
  return sqrt(p * (1 - p) / (double)choice->n);
}

static void add_left_out(kf_chart *chart, const kf_lambda_choice *choice) {
  kf_curve *curve = kf_chart_curve(chart, KF_CURVE_DOTS, choice->n_points, "leave one out", 0);
  if (curve == NULL) return;
  for (size_t i = 0; i < choice->n_points; i++)
    if (choice->points[i].lambda > 0)
      kf_curve_add(curve, choice->points[i].lambda, choice->points[i].top1, choice->n);
  double best = kf_share(choice->points[choice->best].top1, choice->n);
  chart->band_low = best - curve_error(choice);
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

void kf_lambda_axis(kf_chart *chart, kf_string *out, const kf_page *c, double low, double high) {
  kf_chart_begin(chart, out, low, high, mean_eigenvalue(c) > 0);
  chart->x_name = "λ, absolute";
  chart->reading = read_lambda;
  relative_axis(chart, mean_eigenvalue(c));
  chart->mark = c->model != NULL    ? kf_model_lambda(c->model)
                : c->lambda != NULL ? c->lambda->lambda
                                    : 0;
}

static void lambda_chart(kf_string *out, const kf_page *c, double low, double high) {
  kf_chart chart;
  kf_setting setting;
  kf_lambda_axis(&chart, out, c, low, high);
  chart.label = "Accuracy over the regulariser lambda";
  if (c->lambda != NULL) add_left_out(&chart, c->lambda);
  if (kf_sweep_setting(c, &setting)) {
    size_t before = chart.n;
    setting.dim = setting.largest_dim;
    kf_sweep_curve(&chart, c, &setting, KF_ALONG_LAMBDA, false, 0,
                   c->sweep->folds ? "held-out folds" : "test rows", 1);
    if (chart.n > before) kf_sweep_baseline(&chart, c, &setting, 0, "raw space", 5);
  }
  kf_figure_chart(&chart, "Accuracy over λ",
                  c->lambda == NULL ? NULL
                  : by_likelihood(c->lambda)
                      ? "Band: one standard error below the accuracy where classes are most "
                        "likely. As far as these rows can tell, everything in it is as good."
                      : "Band: one standard error below the best accuracy. As far as these rows "
                        "can tell, everything in it is as good as the best.");
}

/* The lambdas around the best one that are within one standard error of it. */
static void plateau(const kf_lambda_choice *choice, double *from, double *to) {
  double least = kf_share(choice->points[choice->best].top1, choice->n) - curve_error(choice);
  size_t first = choice->best, last = first;
  while (first > 0 && kf_share(choice->points[first - 1].top1, choice->n) >= least) first--;
  while (last + 1 < choice->n_points && kf_share(choice->points[last + 1].top1, choice->n) >= least)
    last++;
  *from = choice->points[first].lambda;
  *to = choice->points[last].lambda;
}

/* The lambda of the model, if it is not the one that prototypes alone would choose. */
static void other_lambda(kf_string *out, const kf_model *model, double chosen) {
  if (model == NULL || fabs(kf_model_lambda(model) - chosen) <= 1e-9 * chosen) return;
  kf_string_addf(out, " The model uses %s%s.", kf_show_real(kf_model_lambda(model)).text,
                 kf_model_fused(model) ? ", chosen together with α" : "");
}

static void relative_words(kf_string *out, const kf_lambda_choice *choice, double lambda) {
  kf_string_addf(out, "at λ = %s", kf_show_real(lambda).text);
  if (choice->mean_eigenvalue > 0)
    kf_string_addf(out, ", %s the mean eigenvalue of the scatter within classes",
                   kf_show_times(lambda / choice->mean_eigenvalue).text);
  kf_put(out, ".");
}

static void likelihood_words(kf_string *out, const kf_lambda_choice *choice) {
  kf_string_addf(out,
                 "Leaving out each of %s training rows in turn, their classes are most likely ",
                 kf_show_count(choice->n_all).text);
  relative_words(out, choice, choice->points[choice->best].lambda);
  if (choice->chosen != choice->best)
    kf_string_addf(out, " The choice is %s, within one standard error of that.",
                   kf_show_real(choice->lambda).text);
  kf_string_addf(out, " At this λ <b>%s</b> of them are classified correctly.",
                 kf_show_percent(choice->all.top1, choice->n_all).text);
}

static void accuracy_words(kf_string *out, const kf_lambda_choice *choice) {
  const kf_lambda_point *best = &choice->points[choice->best];
  kf_string_addf(out,
                 "Leaving out each of %s training rows in turn, accuracy is highest, <b>%s</b>, ",
                 kf_show_count(choice->n).text, kf_show_percent(best->top1, choice->n).text);
  relative_words(out, choice, best->lambda);
}

static void lambda_words(kf_string *out, const kf_page *c) {
  const kf_lambda_choice *choice = c->lambda;
  double from, to;
  plateau(choice, &from, &to);
  kf_put(out, "<p class=\"lead\">");
  if (by_likelihood(choice))
    likelihood_words(out, choice);
  else
    accuracy_words(out, choice);
  if (from > 0 && to > from) {
    if (by_likelihood(choice) && choice->n < choice->n_all)
      kf_string_addf(out, " The curve, of %s rows,", kf_show_count(choice->n).text);
    else
      kf_put(out, by_likelihood(choice) ? " Accuracy" : " It");
    kf_string_addf(out, " stays within one standard error (%s points) from %s to %s.",
                   kf_show_points(curve_error(choice)).text, kf_show_real(from).text,
                   kf_show_real(to).text);
  }
  if (choice->chosen != choice->best && !by_likelihood(choice))
    kf_string_addf(out, " The choice is %s.", kf_show_real(choice->lambda).text);
  other_lambda(out, c->model, choice->lambda);
  kf_put(out, "</p>\n");
}

void kf_section_lambda(kf_string *out, const kf_page *c) {
  double low, high;
  bool curve = kf_lambda_range(c, false, &low, &high);
  if (!curve && c->model == NULL) return;
  kf_section_begin(out, "lambda", "The regulariser λ");
  if (c->lambda != NULL && c->lambda->n_points > 0) lambda_words(out, c);
  kf_put(out, "<div class=\"pair\">\n");
  if (curve) lambda_chart(out, c, low, high);
  if (c->model != NULL) kf_spectrum_within(out, c->model);
  kf_put(out, "</div>\n");
  if (curve && c->sweep != NULL)
    kf_sample_words(out, c,
                    c->sweep->folds > 0 ? "Held-out folds are" : "The curve of test rows is");
  kf_section_end(out);
}
