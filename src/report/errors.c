/* errors.c - what is taken for what, and how far margins can be trusted. */
#include "report/report.h"

#include <math.h>

/* --- the matrix ------------------------------------------------------------------------------- */

enum { MOST = 12, NAME = 18 };

/* A few classes and how often each was taken for each. */
typedef struct matrix {
  const kf_report_content *content;
  size_t n;
  uint32_t class[MOST];
  uint64_t hits[MOST][MOST]; /* [truth][answer] */
} matrix;

static size_t find_class(const matrix *m, uint32_t class) {
  size_t i = 0;
  while (i < m->n && m->class[i] != class) i++;
  return i;
}

/* The classes of the most frequent confusions, as many as fit. */
static void choose(matrix *m) {
  const kf_analysis *a = m->content->analysis;
  for (size_t i = 0; i < a->n_confusions; i++) {
    uint32_t two[2] = {(uint32_t)a->confusions[i].truth, (uint32_t)a->confusions[i].answer};
    size_t more = 0;
    for (int j = 0; j < 2; j++)
      if (find_class(m, two[j]) == m->n) more++;
    if (m->n + more > MOST) break;
    for (int j = 0; j < 2; j++)
      if (find_class(m, two[j]) == m->n) m->class[m->n++] = two[j];
  }
}

static void fill(matrix *m) {
  const kf_analysis *a = m->content->analysis;
  for (size_t i = 0; i < m->n; i++)
    for (size_t j = 0; j < m->n; j++) m->hits[i][j] = i == j ? a->classes[m->class[i]].top1 : 0;
  for (size_t i = 0; i < a->n_confusions; i++) {
    size_t truth = find_class(m, (uint32_t)a->confusions[i].truth);
    size_t answer = find_class(m, (uint32_t)a->confusions[i].answer);
    if (truth < m->n && answer < m->n) m->hits[truth][answer] = a->confusions[i].n;
  }
}

/* Puts classes that are taken for each other side by side: each next one is that with the most
 * confusions with the one before. */
static void arrange(matrix *m) {
  for (size_t i = 0; i + 1 < m->n; i++) {
    size_t best = i + 1;
    uint64_t most = 0;
    for (size_t j = i + 1; j < m->n; j++)
      if (m->hits[i][j] + m->hits[j][i] > most) most = m->hits[i][j] + m->hits[j][i], best = j;
    uint32_t class = m->class[best];
    for (size_t j = best; j > i + 1; j--) m->class[j] = m->class[j - 1];
    m->class[i + 1] = class;
    fill(m);
  }
}

static void put_matrix_cell(kf_string *out, const matrix *m, size_t i, size_t j, double x, double y,
                            double size) {
  uint64_t n = m->content->analysis->classes[m->class[i]].n;
  double share = kf_share(m->hits[i][j], n);
  kf_string_addf(out, "<g class=\"heat\"><rect class=\"%s\"",
                 m->hits[i][j] == 0 ? "none"
                 : i == j           ? "f0"
                                    : "f1");
  kf_svg_attribute(out, "x", x);
  kf_svg_attribute(out, "y", y);
  kf_svg_attribute(out, "width", size - 1.5);
  kf_svg_attribute(out, "height", size - 1.5);
  kf_string_addf(out, " fill-opacity=\"%.2f\"/><title>",
                 share > 0 ? 0.12 + 0.88 * fmin(share, 1) : 0.3);
  kf_put_class(out, m->content, m->class[i], 80);
  kf_put(out, i == j ? " right: " : " taken for ");
  if (i != j) kf_put_class(out, m->content, m->class[j], 80);
  kf_string_addf(out, "%s%s of %s rows</title>", i == j ? "" : ": ",
                 kf_show_count(m->hits[i][j]).text, kf_show_count(n).text);
  if (m->hits[i][j] > 0)
    kf_svg_text(out, share > 0.55 ? "count over" : "count", x + size / 2 - 0.75, y + size / 2 + 3.3,
                kf_show_count(m->hits[i][j]).text);
  kf_put(out, "</g>\n");
}

static void put_side(kf_string *out, const matrix *m, size_t i, double x, double y, bool slanted) {
  kf_put(out, slanted ? "<text class=\"side\"" : "<text class=\"side end\"");
  if (slanted) {
    kf_string_addf(out, " transform=\"translate(%.1f %.1f) rotate(-45)\"", x, y);
  } else {
    kf_svg_attribute(out, "x", x);
    kf_svg_attribute(out, "y", y);
  }
  kf_put(out, ">");
  kf_put_class(out, m->content, m->class[i], NAME);
  kf_put(out, "</text>\n");
}

/* How long the longest name is, about. */
static double names_width(const matrix *m) {
  size_t most = 0;
  for (size_t i = 0; i < m->n; i++) {
    size_t n = kf_class_characters(m->content, m->class[i], NAME);
    most = n > most ? n : most;
  }
  return 6.3 * (double)most;
}

static void put_matrix(kf_string *out, const matrix *m) {
  double name = names_width(m), slanted = 0.72 * name + 14;
  double size = fmin(300.0 / (double)m->n, 40), all = size * (double)m->n;
  double left = fmax(name + 12, 506 - all - slanted), top = slanted; /* letters as elsewhere */
  kf_plot p = {.out = out, .width = left + all + slanted, .height = top + all + 4};
  kf_figure_begin(out, "The classes that are confused most");
  kf_put(out, "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"confusions\">"
              "<div class=\"middle\">");
  kf_plot_begin(&p, "Confusion matrix of the classes that are confused most");
  for (size_t i = 0; i < m->n; i++) {
    double at = top + size * (double)i;
    put_side(out, m, i, left - 8, at + size / 2 + 4, false);
    put_side(out, m, i, left + size * ((double)i + 0.5) + 2, top - 7, true);
    for (size_t j = 0; j < m->n; j++)
      put_matrix_cell(out, m, i, j, left + size * (double)j, at, size);
  }
  kf_plot_end(&p);
  kf_put(out, "</div></div>\n");
  kf_figure_end(out, "A line for each class: the numbers say how many of its rows were taken for "
                     "which class. Blue, on the diagonal, is right; orange is wrong.");
}

/* --- the pairs -------------------------------------------------------------------------------- */

static void put_pairs(kf_string *out, const kf_report_content *c) {
  enum { LISTED = 15 };
  const kf_analysis *a = c->analysis;
  kf_figure_begin(out, "What is taken for what");
  kf_put(out, "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"pairs\"><table>"
              "<thead><tr><th scope=\"col\">class</th><th scope=\"col\" class=\"words\">taken for"
              "</th><th scope=\"col\">rows</th></tr></thead>"
              "<tbody>\n");
  for (size_t i = 0; i < a->n_confusions && i < LISTED; i++) {
    const kf_confusion *f = &a->confusions[i];
    kf_put(out, "<tr><th scope=\"row\"><bdi>");
    kf_put_class(out, c, (uint32_t)f->truth, 40);
    kf_put(out, "</bdi></th><td class=\"words\"><bdi>");
    kf_put_class(out, c, (uint32_t)f->answer, 40);
    kf_string_addf(out, "</bdi></td><td>%s of %s</td></tr>\n", kf_show_count(f->n).text,
                   kf_show_count(a->classes[f->truth].n).text);
  }
  kf_put(out, "</tbody></table></div>\n");
  kf_figure_end(out, NULL);
}

/* --- margins ---------------------------------------------------------------------------------- */

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
  kf_put(out, "<circle class=\"dot s0\"");
  kf_svg_attribute(out, "cx", x);
  kf_svg_attribute(out, "cy", y);
  kf_put(out, " r=\"3.4\"/></g>\n");
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
  kf_plot_begin(&p, "Accuracy of rows by the margin of their answer");
  kf_axis_y(&p, &y, kf_tick_percent, 1);
  kf_axis_title_y(&p, "right, %");
  kf_axis_x(&p, &x, kf_tick_real, 1, false);
  kf_axis_title_x(&p, "score of the first answer less that of the second", false);
  for (size_t i = 0; i < a->n_bins; i++)
    if (usable(&a->bins[i])) put_bin(out, &p, &a->bins[i]);
  kf_plot_end(&p);
  kf_figure_end(out, "Each dot stands for about as many rows, the level line for the margins they "
                     "have, the upright one for the 95 % interval.");
}

/* How many are right if only rows with a margin in the upper bins are answered. */
static void put_selective(kf_string *out, const kf_analysis *a) {
  uint64_t n = 0, top1 = 0, all = 0;
  for (size_t i = 0; i < a->n_bins; i++) all += a->bins[i].n;
  kf_figure_begin(out, "Answering only where the margin is wide");
  kf_put(out, "<div class=\"scroll\" tabindex=\"0\" role=\"region\" "
              "aria-label=\"margins\"><table><thead><tr><th scope=\"col\">rows answered</th><th "
              "scope=\"col\">margin at "
              "least</th><th scope=\"col\">right</th></tr></thead><tbody>\n");
  for (size_t i = a->n_bins; i-- > 0;) {
    if (!usable(&a->bins[i])) continue;
    n += a->bins[i].n;
    top1 += a->bins[i].top1;
    kf_string_addf(out, "<tr><th scope=\"row\">%.0f %%</th><td>%s</td><td>%s</td></tr>\n",
                   100 * kf_share(n, all), kf_show_real(a->bins[i].low).text,
                   kf_show_percent(top1, n).text);
  }
  kf_put(out, "</tbody></table></div>\n");
  kf_figure_end(out, NULL);
}

static bool any_usable(const kf_analysis *a) {
  for (size_t i = 0; i < a->n_bins; i++)
    if (usable(&a->bins[i])) return true;
  return false;
}

static void put_margin_words(kf_string *out, const kf_analysis *a) {
  const kf_margin_bin *first = &a->bins[0], *last = &a->bins[a->n_bins - 1];
  if (!usable(first) || !usable(last) || first == last) return;
  kf_string_addf(out,
                 "<p class=\"lead\">Where the margin between the first and the second answer is "
                 "widest, <b>%s</b> are right; ",
                 kf_show_percent(last->top1, last->n).text);
  kf_string_addf(out, "where it is narrowest, <b>%s</b>.</p>\n",
                 kf_show_percent(first->top1, first->n).text);
}

/* ---------------------------------------------------------------------------------------------- */

void kf_report_errors(kf_string *out, const kf_report_content *c) {
  if (c->analysis == NULL) return;
  if (c->analysis->n_confusions > 0) {
    matrix m = {.content = c};
    choose(&m);
    fill(&m);
    arrange(&m);
    kf_section_begin(out, "confusions", "Confusions");
    kf_put(out, "<div class=\"pair\">\n");
    put_matrix(out, &m);
    put_pairs(out, c);
    kf_put(out, "</div>\n");
    kf_section_end(out);
  }
  if (any_usable(c->analysis)) {
    kf_section_begin(out, "margins", "How sure is it?");
    put_margin_words(out, c->analysis);
    kf_put(out, "<div class=\"pair\">\n");
    put_margins(out, c->analysis);
    put_selective(out, c->analysis);
    kf_put(out, "</div>\n");
    kf_section_end(out);
  }
}
