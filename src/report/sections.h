/* sections.h - the sections of the page, for the files of this room. A section without content
 * writes nothing. */
#ifndef KF_REPORT_SECTIONS_H
#define KF_REPORT_SECTIONS_H

#include "report/chart.h"
#include "report/report.h"

#include <math.h>

/* --- page.c ----------------------------------------------------------------------------------- */

/* The head of a page, up to <main>. Its content policy allows only the page's own style and, with
 * `pictures`, data URIs as images, whatever is in names. `style`: more rules, or NULL. */
void kf_page_begin(kf_string *out, const char *title, bool pictures, const char *style);

void kf_section_begin(kf_string *out, const char *id, const char *heading);
void kf_section_end(kf_string *out);
/* A figure with a headline, and its end with a caption (NULL: none); both are markup. */
void kf_figure_begin(kf_string *out, const char *headline);
void kf_figure_end(kf_string *out, const char *caption);
/* A chart in a figure of its own; clears the chart. */
void kf_figure_chart(kf_chart *chart, const char *headline, const char *caption);
/* A table that scrolls if it is too wide, and its end. `label` is for screen readers; `heads` is
 * the markup of its head cells. */
void kf_table_begin(kf_string *out, const char *label, const char *heads);
void kf_table_end(kf_string *out);
/* The same in a figure of its own, without a caption. */
void kf_figure_table_begin(kf_string *out, const char *headline, const char *label,
                           const char *heads);
void kf_figure_table_end(kf_string *out);
#define KF_HEAD(text)       "<th scope=\"col\">" text "</th>"
#define KF_HEAD_WORDS(text) "<th scope=\"col\" class=\"words\">" text "</th>"
/* A section about the analysis, which says so if its rows are training rows left out. */
void kf_errors_begin(kf_string *out, const kf_page *c, const char *id, const char *heading);
/* The name of a class, escaped, at most `most` characters (0: all); "class 17" if it has none. */
void kf_put_class(kf_string *out, const kf_page *c, uint32_t k, size_t most);
size_t kf_class_characters(const kf_page *c, uint32_t k, size_t most);

/* Whether any of the worst rows has a picture. */
bool kf_page_has_pictures(const kf_page *c);

/* --- sweep_cells.c: reading a sweep ----------------------------------------------------------- */

/* The lambda of a cell, converted to all rows: folds have fewer rows and less scatter, so only the
 * relative lambda carries over. */
double kf_cell_lambda(const kf_page *c, const kf_sweep_cell *cell);

/* The setting in a sweep that others are compared with: that of the model, or the closest to it. */
typedef struct kf_setting {
  double lambda;
  uint32_t dim, largest_dim; /* largest_dim: the largest in the sweep */
  kf_metric metric;
  uint32_t set;
  kf_part by;       /* which part answers: images, unless changed */
  kf_centre centre; /* of mapped text; 0: no text */
} kf_setting;
/* The same setting, answered by another part. */
static inline kf_setting kf_setting_by(const kf_setting *setting, kf_part by) {
  kf_setting here = *setting;
  here.by = by;
  return here;
}
/* false: no sweep, or no cell in the mapped space. */
bool kf_sweep_setting(const kf_page *c, kf_setting *out);
/* The cell with a setting, in the mapped or the original space; NULL: none. */
const kf_sweep_cell *kf_sweep_find(const kf_page *c, const kf_setting *setting, bool raw,
                                   uint32_t k);
/* The first `room` values of k that cells of images have, 0 for prototypes; returns how many. */
size_t kf_sweep_ks(const kf_sweep *sweep, uint32_t *k, size_t room);
/* Adds a curve of the cells that differ from the setting only in one respect, if the chart has two
 * or more of them. */
typedef enum kf_along { KF_ALONG_LAMBDA, KF_ALONG_DIM, KF_ALONG_K } kf_along;
void kf_sweep_curve(kf_chart *chart, const kf_page *c, const kf_setting *setting, kf_along along,
                    bool raw, uint32_t k, const char *name, unsigned colour);
/* Adds a cell of the original space as a baseline. */
void kf_sweep_baseline(kf_chart *chart, const kf_page *c, const kf_setting *setting, uint32_t k,
                       const char *name, unsigned colour);
/* All cells, as a table that is closed at first. */
void kf_sweep_table(kf_string *out, const kf_page *c);
/* "prototypes", "15-NN" */
kf_shown kf_show_classifier(uint32_t k);

/* --- scales that several sections use --------------------------------------------------------- */

/* Extends the range of a logarithmic axis; 0 has no place on it. */
static inline void kf_stretch(double *low, double *high, double value) {
  if (!(value > 0)) return;
  *low = fmin(*low, value);
  *high = fmax(*high, value);
}
/* The range of lambda in the sweep and, unless `swept`, in the choice; false: fewer than two
 * values. */
bool kf_lambda_range(const kf_page *c, bool swept, double *low, double *high);
/* Begins a chart over lambda. */
void kf_lambda_axis(kf_chart *chart, kf_string *out, const kf_page *c, double low, double high);
/* The same for dimensions. `above` must live as long as the chart. */
bool kf_dim_range(const kf_page *c, bool swept, double *low, double *high);
void kf_dim_axis(kf_chart *chart, kf_string *out, const kf_page *c, double low, double high,
                 kf_shown *above);

/* "Curves with dots are judged on a sample of ...", if sweeps are; `what` is the subject. */
void kf_sample_words(kf_string *out, const kf_page *c, const char *what);

/* --- the sections, in the order of the page; each is in the file of its name ------------------ */

void kf_section_summary(kf_string *out, const kf_page *c);
void kf_section_text(kf_string *out, const kf_page *c);
void kf_section_lambda(kf_string *out, const kf_page *c);
void kf_section_dims(kf_string *out, const kf_page *c);
void kf_section_neighbours(kf_string *out, const kf_page *c);
void kf_section_shots(kf_string *out, const kf_page *c);
void kf_section_map(kf_string *out, const kf_page *c);
void kf_section_classes(kf_string *out, const kf_page *c);
void kf_section_confusions(kf_string *out, const kf_page *c);
void kf_section_margins(kf_string *out, const kf_page *c);
void kf_section_probabilities(kf_string *out, const kf_page *c);
void kf_section_worst(kf_string *out, const kf_page *c);

/* Figures for the sections on lambda and dimensions (spectra.c). */
void kf_spectrum_within(kf_string *out, const kf_model *model);
void kf_spectrum_between(kf_string *out, const kf_model *model);

extern const char *const kf_page_style[]; /* style.c; NULL-terminated */

#endif
