/* section_confusions.c - which classes are taken for which others: a matrix of the classes confused
 * most often, and a list of the most frequent confusions. */
#include "report/sections.h"

/* --- the matrix ------------------------------------------------------------------------------- */

enum { MAX_CLASSES = 12, NAME = 18 /* characters */ };

/* Some classes, and how often each was taken for each. */
typedef struct matrix {
  const kf_page *page;
  size_t n;
  uint32_t class[MAX_CLASSES];
  uint64_t hits[MAX_CLASSES][MAX_CLASSES]; /* [truth][answer] */
} matrix;

static size_t find_class(const matrix *m, uint32_t class) {
  size_t i = 0;
  while (i < m->n && m->class[i] != class) i++;
  return i;
}

/* Takes the classes of the most frequent confusions, as many as fit. */
static void choose(matrix *m) {
  const kf_analysis *a = m->page->analysis;
  for (size_t i = 0; i < a->n_confusions; i++) {
    uint32_t two[2] = {(uint32_t)a->confusions[i].truth, (uint32_t)a->confusions[i].answer};
    size_t more = 0;
    for (int j = 0; j < 2; j++)
      if (find_class(m, two[j]) == m->n) more++;
    if (m->n + more > MAX_CLASSES) break;
    for (int j = 0; j < 2; j++)
      if (find_class(m, two[j]) == m->n) m->class[m->n++] = two[j];
  }
}

static void fill(matrix *m) {
  const kf_analysis *a = m->page->analysis;
  for (size_t i = 0; i < m->n; i++)
    for (size_t j = 0; j < m->n; j++) m->hits[i][j] = i == j ? a->classes[m->class[i]].top1 : 0;
  for (size_t i = 0; i < a->n_confusions; i++) {
    size_t truth = find_class(m, (uint32_t)a->confusions[i].truth);
    size_t answer = find_class(m, (uint32_t)a->confusions[i].answer);
    if (truth < m->n && answer < m->n) m->hits[truth][answer] = a->confusions[i].n;
  }
}

/* Puts classes that are confused with each other side by side: each is followed by the remaining
 * class that it is confused with most. */
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
  uint64_t n = m->page->analysis->classes[m->class[i]].n;
  double share = kf_share(m->hits[i][j], n);
  const char *class = m->hits[i][j] == 0 ? "none" : i == j ? "f0" : "f1";
  kf_put(out, "<g class=\"heat\">");
  kf_svg_rect(out, class, x, y, size - 1.5, size - 1.5);
  kf_string_addf(out, " fill-opacity=\"%.2f\"/><title>",
                 share > 0 ? 0.12 + 0.88 * fmin(share, 1) : 0.3);
  kf_put_class(out, m->page, m->class[i], 80);
  kf_put(out, i == j ? " right: " : " taken for ");
  if (i != j) kf_put_class(out, m->page, m->class[j], 80);
  kf_string_addf(out, "%s%s of %s rows</title>", i == j ? "" : ": ",
                 kf_show_count(m->hits[i][j]).text, kf_show_count(n).text);
  if (m->hits[i][j] > 0)
    kf_svg_text(out, share > 0.55 ? "count over" : "count", x + size / 2 - 0.75, y + size / 2 + 3.3,
                kf_show_count(m->hits[i][j]).text);
  kf_put(out, "</g>\n");
}

static void put_side(kf_string *out, const matrix *m, size_t i, double x, double y, bool slanted) {
  if (slanted)
    kf_string_addf(out, "<text class=\"side\" transform=\"translate(%.1f %.1f) rotate(-45)\">", x,
                   y);
  else
    kf_svg_text_begin(out, "side end", x, y);
  kf_put_class(out, m->page, m->class[i], NAME);
  kf_put(out, "</text>\n");
}

/* The approximate width of the longest name. */
static double names_width(const matrix *m) {
  size_t most = 0;
  for (size_t i = 0; i < m->n; i++) {
    size_t n = kf_class_characters(m->page, m->class[i], NAME);
    most = n > most ? n : most;
  }
  return 6.3 * (double)most;
}

static void put_matrix(kf_string *out, const matrix *m) {
  double name = names_width(m), slanted = 0.72 * name + 14;
  double size = fmin(300.0 / (double)m->n, 40), all = size * (double)m->n;
  double left = fmax(name + 12, 506 - all - slanted),
         top = slanted; /* the width scales letters to their usual size */
  kf_plot p = {.out = out, .width = left + all + slanted, .height = top + all + 4};
  kf_figure_begin(out, "The classes confused most often");
  kf_put(out, "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"confusions\">"
              "<div class=\"middle\">");
  kf_plot_begin(&p, "Confusion matrix of the classes confused most often");
  for (size_t i = 0; i < m->n; i++) {
    double at = top + size * (double)i;
    put_side(out, m, i, left - 8, at + size / 2 + 4, false);
    put_side(out, m, i, left + size * ((double)i + 0.5) + 2, top - 7, true);
    for (size_t j = 0; j < m->n; j++)
      put_matrix_cell(out, m, i, j, left + size * (double)j, at, size);
  }
  kf_plot_end(&p);
  kf_put(out, "</div></div>\n");
  kf_figure_end(out,
                "Each line is a class; the numbers show which classes its rows were taken for. "
                "Blue, on the diagonal, is right; orange is wrong.");
}

/* --- the list -------------------------------------------------------------------------------- */

static void put_pairs(kf_string *out, const kf_page *c) {
  enum { LISTED = 15 };
  const kf_analysis *a = c->analysis;
  kf_figure_table_begin(out, "Most frequent confusions", "pairs",
                        KF_HEAD("class") KF_HEAD_WORDS("taken for") KF_HEAD("rows"));
  for (size_t i = 0; i < a->n_confusions && i < LISTED; i++) {
    const kf_confusion *f = &a->confusions[i];
    kf_put(out, "<tr><th scope=\"row\"><bdi>");
    kf_put_class(out, c, (uint32_t)f->truth, 40);
    kf_put(out, "</bdi></th><td class=\"words\"><bdi>");
    kf_put_class(out, c, (uint32_t)f->answer, 40);
    kf_string_addf(out, "</bdi></td><td>%s of %s</td></tr>\n", kf_show_count(f->n).text,
                   kf_show_count(a->classes[f->truth].n).text);
  }
  kf_figure_table_end(out);
}

void kf_section_confusions(kf_string *out, const kf_page *c) {
  if (c->analysis == NULL || c->analysis->n_confusions == 0) return;
  matrix m = {.page = c};
  choose(&m);
  fill(&m);
  arrange(&m);
  kf_errors_begin(out, c, "confusions", "Confusions");
  kf_put(out, "<div class=\"pair\">\n");
  put_matrix(out, &m);
  put_pairs(out, c);
  kf_put(out, "</div>\n");
  kf_section_end(out);
}
