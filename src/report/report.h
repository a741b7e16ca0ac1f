/* report.h - the sections of the page, for the files of this room. Each writes nothing where its
 * part of the content is not there. */
#ifndef KF_REPORT_REPORT_H
#define KF_REPORT_REPORT_H

#include "report/chart.h"

/* --- page.c ----------------------------------------------------------------------------------- */

/* <section> with a heading, and its end. */
void kf_section_begin(kf_string *out, const char *id, const char *heading);
void kf_section_end(kf_string *out);
/* A figure with a headline (markup), and its end with what to look at (markup; NULL: nothing). */
void kf_figure_begin(kf_string *out, const char *headline);
void kf_figure_end(kf_string *out, const char *caption);
/* The name of a class, escaped, at most so many characters (0: all); "class 17" where it has none.
 */
void kf_put_class(kf_string *out, const kf_report_content *c, uint32_t k, size_t most);
size_t kf_class_characters(const kf_report_content *c, uint32_t k, size_t most);

/* --- sweep.c: what a sweep says --------------------------------------------------------------- */

/* The lambda of a cell for the statistics of all rows: folds have fewer rows and less scatter, and
 * only the relative one means the same there. */
double kf_cell_lambda(const kf_report_content *c, const kf_sweep_cell *cell);

/* The place in a sweep that the others are compared with: that of the model, or next to it. */
typedef struct kf_place {
  double lambda;
  uint32_t dim, most_dim; /* most_dim: the largest there is */
  kf_metric metric;
  uint32_t set;
  kf_part by;              /* images, unless it is changed */
  kf_centre centre; /* of mapped text; 0: there is none */
} kf_place;
/* false: there is no sweep, or no cell in the mapped space. */
bool kf_sweep_place(const kf_report_content *c, kf_place *out);
/* The cell of a place, in the mapped or the original space; NULL: none. */
const kf_sweep_cell *kf_sweep_find(const kf_report_content *c, const kf_place *place, bool raw,
                                   uint32_t k);
/* The first `room` numbers of neighbours that cells of images have, 0 for prototypes; returns how
 * many. */
size_t kf_sweep_ks(const kf_sweep *sweep, uint32_t *k, size_t room);
/* Adds the cells that differ from the place in one thing alone as a curve; none where there are
 * fewer than two, or less than `low` in x. */
typedef enum kf_along { KF_ALONG_LAMBDA, KF_ALONG_DIM, KF_ALONG_K } kf_along;
void kf_sweep_curve(kf_chart *chart, const kf_report_content *c, const kf_place *place,
                    kf_along along, bool raw, uint32_t k, const char *name, unsigned colour);
/* Adds a cell of the original space as a baseline. */
void kf_sweep_baseline(kf_chart *chart, const kf_report_content *c, const kf_place *place,
                       uint32_t k, const char *name, unsigned colour);
/* All cells, as a table that opens. */
void kf_sweep_table(kf_string *out, const kf_report_content *c);
/* "prototypes", "15-NN" */
kf_shown kf_show_classifier(uint32_t k);

/* --- curves.c: scales that several sections have ----------------------------------------------- */

/* The lambdas there are, of the sweep alone or of the choice as well; false: fewer than two. */
bool kf_lambda_range(const kf_report_content *c, bool swept, double *low, double *high);
/* Begins a chart over lambda. */
void kf_lambda_axis(kf_chart *chart, kf_string *out, const kf_report_content *c, double low,
                    double high);
/* The same for dimensions. `above` must live as long as the chart. */
bool kf_dim_range(const kf_report_content *c, bool swept, double *low, double *high);
void kf_dim_axis(kf_chart *chart, kf_string *out, const kf_report_content *c, double low,
                 double high, kf_shown *above);

/* --- the sections ----------------------------------------------------------------------------- */

void kf_report_summary(kf_string *out, const kf_report_content *c);    /* summary.c */
void kf_report_text(kf_string *out, const kf_report_content *c);       /* text.c */
void kf_report_lambda(kf_string *out, const kf_report_content *c);     /* curves.c */
void kf_report_dims(kf_string *out, const kf_report_content *c);       /* curves.c */
void kf_report_neighbours(kf_string *out, const kf_report_content *c); /* curves.c */
void kf_report_within(kf_string *out, const kf_model *model);          /* spectra.c: two figures */
void kf_report_between(kf_string *out, const kf_model *model);
void kf_report_shots(kf_string *out, const kf_report_content *c);   /* shots.c */
void kf_report_map(kf_string *out, const kf_report_content *c);     /* map.c */
void kf_report_classes(kf_string *out, const kf_report_content *c); /* classes.c */
void kf_report_errors(kf_string *out, const kf_report_content *c);  /* errors.c */

extern const char *const kf_report_style[]; /* style.c: ended by NULL */

#endif
