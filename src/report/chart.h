/* chart.h - accuracy over one setting: curves, baselines, a band, a mark, and numbers that the
 * style sheet shows under the pointer. */
#ifndef KF_REPORT_CHART_H
#define KF_REPORT_CHART_H

#include "report/svg.h"

typedef struct kf_point {
  double x;
  uint64_t hits, n;
  double low, high; /* range of the share; equal: no band */
} kf_point;

typedef enum kf_curve_kind {
  KF_CURVE_DOTS, /* a line with its points */
  KF_CURVE_FINE, /* a thin line of many points */
  KF_CURVE_BASE  /* a dashed line over the whole width, at the height of its only point */
} kf_curve_kind;

typedef struct kf_curve {
  char name[64]; /* markup; "": not in the key */
  unsigned colour;
  kf_curve_kind kind;
  size_t n;
  kf_point *points; /* by rising x; owned by the chart */
} kf_curve;

#define KF_MAX_CURVES 12
typedef struct kf_chart {
  kf_plot plot;
  size_t n;
  kf_curve curves[KF_MAX_CURVES];
  const char *label;           /* for screen readers */
  const char *x_name, *y_name; /* markup */
  kf_ticks x_ticks;            /* kf_ticks_log, unless changed */
  const char *above_name;      /* a second scale; NULL: none */
  kf_ticks above_ticks;
  kf_tick_fn above_show;
  double above_factor;
  double band_low, band_high; /* shares; equal: no band */
  double mark;                /* a chosen x; 0: none */
  kf_tick_fn reading;         /* formats x under the pointer; gets above_factor */
} kf_chart;

/* Begins a chart with x from low to high on a logarithmic scale; two: with room for a second scale
 * at the top. */
void kf_chart_begin(kf_chart *chart, kf_string *out, double low, double high, bool two);
/* Adds a curve with room for n points; NULL: too many curves, or no memory. */
kf_curve *kf_chart_curve(kf_chart *chart, kf_curve_kind kind, size_t n, const char *name,
                         unsigned colour);
/* Adds a point, keeping x rising. */
void kf_curve_add(kf_curve *curve, double x, uint64_t hits, uint64_t n);
/* Adds a baseline. */
void kf_chart_baseline(kf_chart *chart, const char *name, unsigned colour, uint64_t hits,
                       uint64_t n);
/* Chooses the scale of y and draws the chart. */
void kf_chart_draw(kf_chart *chart);
void kf_chart_clear(kf_chart *chart);

#endif
