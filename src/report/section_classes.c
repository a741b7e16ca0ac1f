/* section_classes.c - accuracy by class: a sorted curve, a histogram, the worst classes, and the
 * classes that are most often wrong answers. */
#include "report/sections.h"

#include <stdlib.h>

enum { WIDTH = 480, HEIGHT = 316, LEFT = 40, RIGHT = 466, TOP = 34, BELOW = 46, LISTED = 12 };

/* A class and its sort keys. */
typedef struct class_entry {
  uint32_t class;
  double key, next; /* lower comes first; next among equal keys */
} class_entry;

static int by_key(const void *a, const void *b) {
  const class_entry *r = a, *s = b;
  if (r->key != s->key) return r->key < s->key ? -1 : 1;
  if (r->next != s->next) return r->next < s->next ? -1 : 1;
  return r->class < s->class ? -1 : r->class > s->class;
}

/* Classes with rows, worst first, by top-1 and then by top-5. */
static size_t sort_by_accuracy(const kf_analysis *a, class_entry *list) {
  size_t n = 0;
  for (uint32_t k = 0; k < a->n_classes; k++) {
    const kf_class_result *r = &a->classes[k];
    if (r->n > 0) list[n++] = (class_entry){k, kf_share(r->top1, r->n), kf_share(r->top5, r->n)};
  }
  qsort(list, n, sizeof *list, by_key);
  return n;
}

static uint64_t wrong_answers(const kf_class_result *r) {
  return r->answers > r->top1 ? r->answers - r->top1 : 0;
}

/* Classes that rows of others were taken for, the most frequent first. */
static size_t sort_by_attraction(const kf_analysis *a, class_entry *list) {
  size_t n = 0;
  for (uint32_t k = 0; k < a->n_classes; k++)
    if (wrong_answers(&a->classes[k]) > 0)
      list[n++] = (class_entry){k, -(double)wrong_answers(&a->classes[k]), 0};
  qsort(list, n, sizeof *list, by_key);
  return n;
}

/* --- the curve -------------------------------------------------------------------------------- */

/* One step per class, or per pixel if there are more classes. */
static void put_steps(const kf_plot *p, const class_entry *list, size_t n, bool area) {
  kf_path path;
  size_t steps = n < 400 ? n : 400;
  kf_path_begin(&path, p->out, area ? "area f0" : "line s0");
  if (area) kf_path_to(&path, p->x.from, p->y.from);
  for (size_t i = 0; i < steps; i++) {
    double y = kf_scale_at(&p->y, list[i * n / steps].key);
    kf_path_to(&path, kf_scale_at(&p->x, (double)i / (double)steps), y);
    kf_path_to(&path, kf_scale_at(&p->x, (double)(i + 1) / (double)steps), y);
  }
  if (area) kf_path_to(&path, p->x.to, p->y.from);
  kf_path_end(&path, area);
}

static void put_curve(kf_string *out, const kf_page *c, const class_entry *list, size_t n) {
  kf_plot p = {.out = out, .width = WIDTH, .height = HEIGHT};
  p.x = (kf_scale){0, 1, LEFT, RIGHT, false};
  p.y = (kf_scale){0, 1, HEIGHT - BELOW, TOP, false};
  kf_ticks ticks = kf_ticks_linear(0, 1, 5);
  double mean = kf_share(c->analysis->totals.top1, c->analysis->totals.n);
  kf_figure_begin(out, "Accuracy by class, worst to best");
  kf_plot_begin(&p, "Accuracy by class, sorted");
  kf_axis_y(&p, &ticks, kf_tick_percent, "top-1 accuracy of the class, %");
  kf_axis_x(&p, &ticks, kf_tick_percent, 1, false, "share of the classes, %");
  put_steps(&p, list, n, true);
  put_steps(&p, list, n, false);
  double y = kf_scale_at(&p.y, mean);
  kf_svg_line(out, "base s5", p.x.from, y, p.x.to, y);
  kf_svg_text(out, "note", p.x.from + 4, y - 6, "all rows");
  kf_plot_end(&p);
  kf_figure_end(out,
                "At 50 %, half of the classes are worse and half are better. Where the curve is "
                "steep, a few classes differ much in accuracy.");
}

/* --- the histogram ---------------------------------------------------------------------------- */

enum { BINS = 10 };

static void put_column(const kf_plot *p, int bin, size_t count, size_t n) {
  double left = kf_scale_at(&p->x, bin / (double)BINS), top = kf_scale_at(&p->y, (double)count);
  kf_svg_rect(p->out, "column f0", left + 1, top, (p->x.to - p->x.from) / BINS - 2,
              p->y.from - top);
  kf_string_addf(p->out, "><title>%d to %d %%: %s of %s classes</title></rect>\n", bin * 100 / BINS,
                 (bin + 1) * 100 / BINS, kf_show_count(count).text, kf_show_count(n).text);
}

static void put_histogram(kf_string *out, const class_entry *list, size_t n) {
  size_t count[BINS] = {0}, most = 0;
  for (size_t i = 0; i < n; i++) count[(int)fmin(list[i].key * BINS, BINS - 1)]++;
  for (int i = 0; i < BINS; i++) most = count[i] > most ? count[i] : most;
  kf_plot p = {.out = out, .width = WIDTH, .height = HEIGHT};
  p.x = (kf_scale){0, 1, LEFT, RIGHT, false};
  p.y = (kf_scale){0, (double)most * 1.05, HEIGHT - BELOW, TOP, false};
  kf_ticks x = kf_ticks_linear(0, 1, 5), y = kf_ticks_linear(0, p.y.high, most < 5 ? (int)most : 5);
  kf_figure_begin(out, "Classes by accuracy");
  kf_plot_begin(&p, "Histogram of the accuracy of classes");
  kf_axis_y(&p, &y, kf_tick_real, "classes");
  kf_axis_x(&p, &x, kf_tick_percent, 1, false, "top-1 accuracy of the class, %");
  for (int i = 0; i < BINS; i++)
    if (count[i] > 0) put_column(&p, i, count[i], n);
  kf_plot_end(&p);
  kf_figure_end(out, "The last column includes classes without an error.");
}

/* --- the tables ------------------------------------------------------------------------------- */

/* The most frequent confusion of a class, or with a class; confusions are sorted. */
static const kf_confusion *main_confusion(const kf_analysis *a, uint32_t k, bool as_answer) {
  for (size_t i = 0; i < a->n_confusions; i++)
    if ((uint32_t)(as_answer ? a->confusions[i].answer : a->confusions[i].truth) == k)
      return &a->confusions[i];
  return NULL;
}

static void put_other(kf_string *out, const kf_page *c, const kf_confusion *found, bool as_answer) {
  if (found == NULL) {
    kf_put(out, "<td class=\"words soft\">–</td></tr>\n");
    return;
  }
  kf_put(out, "<td class=\"words\"><bdi>");
  kf_put_class(out, c, (uint32_t)(as_answer ? found->truth : found->answer), 48);
  kf_string_addf(out, "</bdi>&nbsp;<span class=\"soft\">%s</span></td></tr>\n",
                 kf_show_count(found->n).text);
}

static void begin_row(kf_string *out, const kf_page *c, uint32_t k) {
  kf_put(out, "<tr><th scope=\"row\"><bdi>");
  kf_put_class(out, c, k, 48);
  kf_put(out, "</bdi></th>");
}

/* The worst classes, or those that are most often a wrong answer. */
static void put_list(kf_string *out, const kf_page *c, const class_entry *list, size_t n,
                     bool wrong) {
  static const char *const heads[] = {
      KF_HEAD("class") KF_HEAD("right") KF_HEAD("top-5") KF_HEAD_WORDS("mostly taken for"),
      KF_HEAD("class") KF_HEAD("wrongly") KF_HEAD("rightly") KF_HEAD_WORDS("mostly for")};
  const char *what = wrong ? "Most often a wrong answer" : "The worst classes";
  if (n == 0) return;
  kf_figure_table_begin(out, what, what, heads[wrong]);
  for (size_t i = 0; i < n && i < LISTED; i++) {
    const kf_class_result *r = &c->analysis->classes[list[i].class];
    begin_row(out, c, list[i].class);
    if (wrong)
      kf_string_addf(out, "<td>%s</td><td>%s</td>", kf_show_count(wrong_answers(r)).text,
                     kf_show_count(r->top1).text);
    else
      kf_string_addf(out, "<td>%s of %s</td><td>%s</td>", kf_show_count(r->top1).text,
                     kf_show_count(r->n).text, kf_show_count(r->top5).text);
    put_other(out, c, main_confusion(c->analysis, list[i].class, wrong), wrong);
  }
  kf_figure_table_end(out);
}

static void put_words(kf_string *out, const kf_page *c, const class_entry *list, size_t n) {
  size_t never = 0, always = 0;
  for (size_t i = 0; i < n; i++) {
    never += list[i].key == 0;
    always += list[i].key == 1;
  }
  kf_string_addf(out,
                 "<p class=\"lead\">Of %s classes with %s, %s<b>%s</b> are classified without "
                 "error and <b>%s</b> never correctly; the median accuracy is %s.</p>\n",
                 kf_show_count(n).text, c->left_out ? "rows left out" : "test rows",
                 c->model != NULL && kf_model_fused(c->model) ? "by text and prototypes together, "
                                                              : "",
                 kf_show_count(always).text, kf_show_count(never).text,
                 kf_show_percent((uint64_t)(list[n / 2].key * 1e6 + 0.5), 1000000).text);
}

void kf_section_classes(kf_string *out, const kf_page *c) {
  if (c->analysis == NULL || c->analysis->n_classes == 0) return;
  class_entry *list = kf_alloc(c->analysis->n_classes, sizeof *list);
  if (list == NULL) {
    out->failed = true;
    return;
  }
  size_t n = sort_by_accuracy(c->analysis, list);
  if (n > 0) {
    kf_errors_begin(out, c, "classes", "Classes");
    put_words(out, c, list, n);
    kf_put(out, "<div class=\"pair\">\n");
    put_curve(out, c, list, n);
    put_histogram(out, list, n);
    put_list(out, c, list, n, false);
    put_list(out, c, list, sort_by_attraction(c->analysis, list), true);
    kf_put(out, "</div>\n");
    kf_section_end(out);
  }
  kf_free(list);
}
