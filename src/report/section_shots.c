/* section_shots.c - how many rows per class are enough: accuracy over shots, with its range over
 * draws. */
#include "report/sections.h"

static const char *const titles[KF_SHOTS_CLASSIFIERS] = {"raw space", "Koo-Fu", "text alone",
                                                         "text and Koo-Fu"};
static const unsigned colours[KF_SHOTS_CLASSIFIERS] = {5, 0, 2, 1};

static kf_shown read_shots(double x, double factor) {
  (void)factor;
  return kf_showf("%.0f per class", x);
}

/* Text alone does not depend on shots, so it is a line over the whole width. */
static void add_curve(kf_chart *chart, const kf_shots *s, kf_shots_classifier classifier,
                      bool top5) {
  bool base = classifier == KF_SHOTS_TEXT;
  kf_curve *curve = kf_chart_curve(chart, base ? KF_CURVE_BASE : KF_CURVE_DOTS, s->n_sizes,
                                   titles[classifier], colours[classifier]);
  if (curve == NULL) return;
  for (size_t i = 0; i < (base ? 1 : s->n_sizes); i++) {
    kf_point *point = &curve->points[curve->n++];
    kf_spread spread;
    kf_shots_spread(s, i, classifier, top5, &spread);
    *point = (kf_point){.x = s->sizes[i].shots, .low = spread.low, .high = spread.high};
    for (uint32_t seed = 0; seed < s->seeds; seed++) {
      const kf_shots_point *p = kf_shots_at(s, i, seed, classifier);
      point->hits += top5 ? p->top5 : p->top1;
      point->n += p->n;
    }
  }
}

static void shots_chart(kf_string *out, const kf_shots *s, bool top5) {
  kf_chart chart;
  double low = s->sizes[0].shots, high = s->sizes[s->n_sizes - 1].shots;
  kf_chart_begin(&chart, out, low, high, false);
  chart.label = top5 ? "Top-5 accuracy over the number of rows per class"
                     : "Top-1 accuracy over the number of rows per class";
  if (top5) chart.y_name = "top-5 accuracy, %";
  chart.x_name = "training rows per class";
  chart.x_ticks.n = 0;
  for (size_t i = s->n_sizes; i-- > 0 && chart.x_ticks.n < KF_MAX_TICKS;)
    chart.x_ticks.at[chart.x_ticks.n++] = s->sizes[i].shots;
  chart.reading = read_shots;
  static const kf_shots_classifier order[] = {KF_SHOTS_KOOFU, KF_SHOTS_FUSED, KF_SHOTS_TEXT,
                                              KF_SHOTS_RAW};
  for (size_t i = 0; i < KF_SHOTS_CLASSIFIERS; i++)
    if ((size_t)order[i] < s->n_classifiers) add_curve(&chart, s, order[i], top5);
  kf_figure_chart(
      &chart, top5 ? "Top-5 accuracy over shots" : "Top-1 accuracy over shots",
      top5 || s->seeds == 1 ? NULL : "Lines: means over all draws. Bands: worst to best draw.");
}

static kf_shown percent_of(const kf_shots *s, size_t size, kf_shots_classifier classifier) {
  kf_spread spread;
  kf_shots_spread(s, size, classifier, 0, &spread);
  return kf_showf("%.2f\u202f%%", 100 * spread.mean);
}

static void shots_words(kf_string *out, const kf_shots *s) {
  size_t last = s->n_sizes - 1;
  const kf_shots_size *z = &s->sizes[last];
  kf_string_addf(out, "<p class=\"lead\">With %u row%s per class, ", z->shots,
                 z->shots == 1 ? "" : "s");
  if (s->n_classifiers > KF_SHOTS_FUSED)
    kf_string_addf(out, "text and prototypes together are right for <b>%s</b>, text alone for %s, ",
                   percent_of(s, last, KF_SHOTS_FUSED).text,
                   percent_of(s, last, KF_SHOTS_TEXT).text);
  kf_string_addf(out, "Koo-Fu prototypes for %s, raw prototypes for %s. ",
                 percent_of(s, last, KF_SHOTS_KOOFU).text, percent_of(s, last, KF_SHOTS_RAW).text);
  kf_put(out, "The rows are drawn from the training rows");
  if (s->seeds > 1) kf_string_addf(out, ", %u times for each number of shots", s->seeds);
  kf_put(out, "; everything is chosen from the drawn rows alone.");
  if (z->fewer > 0)
    kf_string_addf(out, " %s of %s classes have fewer than %u rows and contribute all of them.",
                   kf_show_count(z->fewer).text, kf_show_count(s->classes).text, z->shots);
  if (s->sizes[0].shots == 1)
    kf_string_addf(out, " One row per class leaves no scatter within classes; %s.",
                   s->method == KF_METHOD_PAPER ? "the map is then a rotation"
                                                : "the scatter of all rows is used instead");
  kf_put(out, "</p>\n");
}

static void table_line(kf_string *out, const kf_shots *s, size_t size,
                       kf_shots_classifier classifier) {
  kf_string_addf(out, "<tr><td>%u</td><td>%s</td><td>%s</td>", s->sizes[size].shots,
                 titles[classifier], kf_show_count(s->sizes[size].rows).text);
  for (int top5 = 0; top5 < 2; top5++) {
    kf_spread spread;
    kf_shots_spread(s, size, classifier, top5, &spread);
    kf_string_addf(out, "<td>%.2f</td><td>%.2f</td><td>%.2f–%.2f</td>", 100 * spread.mean,
                   100 * spread.deviation, 100 * spread.low, 100 * spread.high);
  }
  kf_put(out, "</tr>\n");
}

static void shots_table(kf_string *out, const kf_shots *s) {
  kf_put(out, "<details><summary>All numbers as a table</summary>\n");
  kf_table_begin(out, "shots",
                 KF_HEAD("shots") KF_HEAD("classifier") KF_HEAD("rows") KF_HEAD("top-1")
                     KF_HEAD("sd") KF_HEAD("min–max") KF_HEAD("top-5") KF_HEAD("sd")
                         KF_HEAD("min–max"));
  for (size_t i = 0; i < s->n_sizes; i++)
    for (size_t c = 0; c < s->n_classifiers; c++) table_line(out, s, i, (kf_shots_classifier)c);
  kf_table_end(out);
  kf_put(out, "</details>\n");
}

void kf_section_shots(kf_string *out, const kf_page *c) {
  const kf_shots *s = c->shots;
  if (s == NULL || s->n_sizes == 0) return;
  kf_section_begin(out, "shots", "Few shots");
  shots_words(out, s);
  kf_put(out, "<div class=\"pair\">\n");
  shots_chart(out, s, false);
  shots_chart(out, s, true);
  kf_put(out, "</div>\n");
  shots_table(out, s);
  kf_section_end(out);
}
