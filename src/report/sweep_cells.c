/* sweep_cells.c - reads a sweep: the cells along one axis, with all else as in the model. */
#include "report/sections.h"

static double wanted_lambda(const kf_page *c) {
  if (c->model != NULL) return kf_model_lambda(c->model);
  return c->lambda != NULL ? c->lambda->lambda : 0;
}

static double wanted_dim(const kf_page *c) {
  if (c->model != NULL) return kf_model_dim_out(c->model);
  return c->dim != NULL ? c->dim->dim : KF_MAX_DIM;
}

/* The distance of two numbers on a logarithmic scale; 0 is infinitely far from all others. */
static double apart(double a, double b) {
  return a > 0 && b > 0 ? fabs(log(a / b)) : a == b ? 0 : INFINITY;
}

double kf_cell_lambda(const kf_page *c, const kf_sweep_cell *cell) {
  double mean = c->sweep->mean_eigenvalue;
  return mean > 0 && cell->relative > 0 ? cell->relative * mean : cell->lambda;
}

static bool same_lambda(double a, double b) { return apart(a, b) < 1e-9; }

bool kf_sweep_setting(const kf_page *c, kf_setting *out) {
  bool found = false;
  for (size_t i = 0; c->sweep != NULL && i < c->sweep->n_cells; i++) {
    const kf_sweep_cell *cell = &c->sweep->cells[i];
    if (cell->raw) continue;
    double lambda = kf_cell_lambda(c, cell);
    if (!found)
      *out = (kf_setting){.lambda = lambda,
                          .dim = cell->dim,
                          .largest_dim = cell->dim,
                          .metric = cell->metric,
                          .set = cell->set,
                          .by = KF_PART_IMAGES};
    found = true;
    if (out->centre == 0 || cell->text == KF_CENTRE_MODALITY) out->centre = cell->text;
    if (cell->metric != out->metric || cell->set != out->set) continue;
    if (apart(lambda, wanted_lambda(c)) < apart(out->lambda, wanted_lambda(c)))
      out->lambda = lambda;
    if (apart(cell->dim, wanted_dim(c)) < apart(out->dim, wanted_dim(c))) out->dim = cell->dim;
    if (cell->dim > out->largest_dim) out->largest_dim = cell->dim;
  }
  return found;
}

static kf_part answered_by(const kf_sweep_cell *cell) {
  return cell->fused ? KF_PART_FUSED : cell->text ? KF_PART_TEXT : KF_PART_IMAGES;
}

/* The original space has one dimension, no lambda and no centring; fused cells have one metric. */
static bool fits(const kf_page *c, const kf_sweep_cell *cell, const kf_setting *setting, bool raw) {
  kf_part by = answered_by(cell);
  return by == setting->by && (cell->raw != 0) == raw && cell->set == setting->set &&
         (by == KF_PART_FUSED || cell->metric == setting->metric) &&
         (by != KF_PART_TEXT || raw || cell->text == setting->centre) &&
         (raw ||
          (cell->dim == setting->dim && same_lambda(kf_cell_lambda(c, cell), setting->lambda)));
}

const kf_sweep_cell *kf_sweep_find(const kf_page *c, const kf_setting *setting, bool raw,
                                   uint32_t k) {
  for (size_t i = 0; c->sweep != NULL && i < c->sweep->n_cells; i++)
    if (c->sweep->cells[i].k == k && fits(c, &c->sweep->cells[i], setting, raw))
      return &c->sweep->cells[i];
  return NULL;
}

size_t kf_sweep_ks(const kf_sweep *sweep, uint32_t *k, size_t room) {
  size_t n = 0;
  for (size_t i = 0; i < sweep->n_cells; i++) {
    bool known = answered_by(&sweep->cells[i]) != KF_PART_IMAGES;
    for (size_t j = 0; j < n; j++) known = known || k[j] == sweep->cells[i].k;
    if (!known && n < room) k[n++] = sweep->cells[i].k;
  }
  return n;
}

/* --- curves ----------------------------------------------------------------------------------- */

static double along_x(const kf_page *c, const kf_sweep_cell *cell, kf_along along) {
  return along == KF_ALONG_LAMBDA ? kf_cell_lambda(c, cell)
         : along == KF_ALONG_DIM  ? (double)cell->dim
                                  : (double)cell->k;
}

/* Whether a cell lies on the line through the setting along an axis. */
static bool on_line(const kf_page *c, const kf_sweep_cell *cell, const kf_setting *setting,
                    kf_along along, bool raw, uint32_t k) {
  kf_setting here = *setting;
  if (along == KF_ALONG_LAMBDA) here.lambda = kf_cell_lambda(c, cell);
  if (along == KF_ALONG_DIM) here.dim = cell->dim;
  bool neighbours = along == KF_ALONG_K ? cell->k > 0 : cell->k == k;
  return neighbours && fits(c, cell, &here, raw);
}

void kf_sweep_curve(kf_chart *chart, const kf_page *c, const kf_setting *setting, kf_along along,
                    bool raw, uint32_t k, const char *name, unsigned colour) {
  kf_curve *curve = kf_chart_curve(chart, KF_CURVE_DOTS, c->sweep->n_cells, name, colour);
  if (curve == NULL) return;
  for (size_t i = 0; i < c->sweep->n_cells; i++) {
    const kf_sweep_cell *cell = &c->sweep->cells[i];
    double x = along_x(c, cell, along);
    if (x >= chart->plot.x.low && x <= chart->plot.x.high &&
        on_line(c, cell, setting, along, raw, k))
      kf_curve_add(curve, x, cell->top1, cell->n);
  }
  if (curve->n >= 2) return;
  kf_free(curve->points);
  chart->n--;
}

void kf_sweep_baseline(kf_chart *chart, const kf_page *c, const kf_setting *setting, uint32_t k,
                       const char *name, unsigned colour) {
  const kf_sweep_cell *cell = kf_sweep_find(c, setting, true, k);
  if (cell != NULL) kf_chart_baseline(chart, name, colour, cell->top1, cell->n);
}

void kf_sample_words(kf_string *out, const kf_page *c, const char *what) {
  if (c->n_judged >= c->n_to_judge) return;
  kf_string_addf(out,
                 "<p class=\"caption\">%s judged on a sample of %s of %s rows, the same share of "
                 "each class. With 95\u202F%% confidence, accuracies of all rows are within "
                 "%s points.</p>\n",
                 what, kf_show_count(c->n_judged).text, kf_show_count(c->n_to_judge).text,
                 kf_show_points(c->sample_error).text);
}

/* --- the table -------------------------------------------------------------------------------- */

kf_shown kf_show_classifier(uint32_t k) {
  return k == 0 ? kf_showf("prototypes") : kf_showf("%u-NN", k);
}

static void put_cell(kf_string *out, const kf_page *c, const kf_sweep_cell *cell) {
  kf_string_addf(out, "<tr><th scope=\"row\">%s</th><td>%s</td><td>%u</td>",
                 cell->raw ? "raw" : "Koo-Fu",
                 cell->fused  ? "text and prototypes"
                 : cell->text ? "text"
                              : kf_show_classifier(cell->k).text,
                 cell->dim);
  if (cell->raw)
    kf_put(out, "<td>–</td>");
  else
    kf_string_addf(out, "<td>%s (%s)</td>", kf_show_real(kf_cell_lambda(c, cell)).text,
                   kf_show_times(cell->relative).text);
  kf_string_addf(out, "<td>%s</td><td class=\"soft\">%s</td><td>%s</td></tr>\n",
                 kf_show_percent(cell->top1, cell->n).text,
                 kf_show_interval(cell->top1, cell->n).text,
                 kf_show_percent(cell->top5, cell->n).text);
}

void kf_sweep_table(kf_string *out, const kf_page *c) {
  enum { MAX_LINES = 400 };
  if (c->sweep == NULL || c->sweep->n_cells == 0) return;
  size_t n = c->sweep->n_cells < MAX_LINES ? c->sweep->n_cells : MAX_LINES;
  kf_string_addf(out, "<details><summary>%s of the sweep as a table</summary>\n",
                 n < c->sweep->n_cells ? "The first 400 numbers" : "All numbers");
  kf_table_begin(out, "sweep",
                 KF_HEAD("space") KF_HEAD("classifier") KF_HEAD("dimensions") KF_HEAD("λ")
                     KF_HEAD("top-1") KF_HEAD("95 % interval") KF_HEAD("top-5"));
  for (size_t i = 0; i < n; i++) put_cell(out, c, &c->sweep->cells[i]);
  kf_table_end(out);
  kf_put(out, "</details>\n");
}
