/* section_margins.c - how far the margin between the two best answers can be trusted. */
#include "report/sections.h"

static bool usable(const kf_margin_bin *b) {
  return b->n > 0 && isfinite(b->low) && isfinite(b->high);
}

static void put_bin(kf_string *out, const kf_plot *p, const kf_margin_bin *b) {
  double low, high, x = kf_scale_at(&p->x, (b->low + b->high) / 2);
  double y = kf_scale_at(&p->y, kf_share(b->top1, b->n));
  kf_interval95(b->top1, b->n, &low, &high);
  kf_put(out, "<g class=\"bin\">");
  kf_string_addf(out, "<title>margin %s to %s: %s of %s rows are right</title>",
                 kf_show_real(b->low).text, kf_show_real(b->high).text,
                 kf_show_percent(b->top1, b->n).text, kf_show_count(b->n).text);
  kf_svg_line(out, "whisker s0", x, kf_scale_at(&p->y, low), x, kf_scale_at(&p->y, high));
  kf_svg_line(out, "line s0", kf_scale_at(&p->x, b->low), y, kf_scale_at(&p->x, b->high), y);
  kf_svg_circle(out, "dot s0", x, y, 3.4);
  kf_put(out, "/></g>\n");
}

static void put_margins(kf_string *out, const kf_analysis *a) {
  kf_plot p = {.out = out, .width = 480, .height = 316};
  p.x = (kf_scale){INFINITY, -INFINITY, 40, 466, false};
  p.y = (kf_scale){0, 1, 270, 34, false};
  for (size_t i = 0; i < a->n_bins; i++) {
    if (!usable(&a->bins[i])) continue;
    p.x.low = fmin(p.x.low, a->bins[i].low);
    p.x.high = fmax(p.x.high, a->bins[i].high);
  }
  kf_scale_widen(&p.x);
  kf_ticks x = kf_ticks_linear(p.x.low, p.x.high, 5), y = kf_ticks_linear(0, 1, 5);
  kf_figure_begin(out, "Accuracy by margin");
  kf_plot_begin(&p, "Accuracy of rows by their margin");
  kf_axis_y(&p, &y, kf_tick_percent, "right, %");
  kf_axis_x(&p, &x, kf_tick_real, 1, false, "margin: best score minus second best");
  for (size_t i = 0; i < a->n_bins; i++)
    if (usable(&a->bins[i])) put_bin(out, &p, &a->bins[i]);
  kf_plot_end(&p);
  kf_figure_end(out,
                "Each dot stands for about the same number of rows. Horizontal lines show their "
                "range of margins, vertical lines 95 % intervals.");
}

/* Accuracy if only the rows with margins in the upper bins are answered. */
static void put_selective(kf_string *out, const kf_analysis *a) {
  uint64_t n = 0, top1 = 0, all = 0;
  for (size_t i = 0; i < a->n_bins; i++) all += a->bins[i].n;
  kf_figure_table_begin(out, "Answering only when the margin is wide", "margins",
                        KF_HEAD("rows answered") KF_HEAD("margin at least") KF_HEAD("right"));
  for (size_t i = a->n_bins; i-- > 0;) {
    if (!usable(&a->bins[i])) continue;
    n += a->bins[i].n;
    top1 += a->bins[i].top1;
    kf_string_addf(out, "<tr><th scope=\"row\">%.0f %%</th><td>%s</td><td>%s</td></tr>\n",
                   100 * kf_share(n, all), kf_show_real(a->bins[i].low).text,
                   kf_show_percent(top1, n).text);
  }
  kf_figure_table_end(out);
}

static bool any_usable(const kf_analysis *a) {
  for (size_t i = 0; i < a->n_bins; i++)
    if (usable(&a->bins[i])) return true;
  return false;
}

static void put_margin_words(kf_string *out, const kf_analysis *a) {
  const kf_margin_bin *first = &a->bins[0], *last = &a->bins[a->n_bins - 1];
  if (!usable(first) || !usable(last) || first == last) return;
  kf_string_addf(
      out,
      "<p class=\"lead\">Of the rows with the widest margin between the two best scores, "
      "<b>%s</b> are right; ",
      kf_show_percent(last->top1, last->n).text);
  kf_string_addf(out, "of those with the narrowest, <b>%s</b>.</p>\n",
                 kf_show_percent(first->top1, first->n).text);
}

void kf_section_margins(kf_string *out, const kf_page *c) {
  if (c->analysis == NULL || !any_usable(c->analysis)) return;
  kf_errors_begin(out, c, "margins", "Confidence");
  put_margin_words(out, c->analysis);
  kf_put(out, "<div class=\"pair\">\n");
  put_margins(out, c->analysis);
  put_selective(out, c->analysis);
  kf_put(out, "</div>\n");
  kf_section_end(out);
}
