/* page.c - assembles the page. It is built in memory, as it has at most a megabyte or two, and then
 * written. */
#include "report/sections.h"

#include <locale.h>
#include <string.h>

/* --- parts of sections -------------------------------------------------------------------- */

void kf_section_begin(kf_string *out, const char *id, const char *heading) {
  kf_string_addf(out, "<section id=\"%s\" aria-labelledby=\"%s-heading\">\n", id, id);
  kf_string_addf(out, "<h2 id=\"%s-heading\">%s</h2>\n", id, heading);
}

void kf_errors_begin(kf_string *out, const kf_page *c, const char *id, const char *heading) {
  kf_section_begin(out, id, heading);
  if (!c->left_out) return;
  kf_string_addf(out,
                 "<p class=\"caption\">There are no test rows. These are %s training rows, each "
                 "<b>left out</b> in turn",
                 kf_show_count(c->analysis->totals.n).text);
  if (c->model != NULL && kf_model_dim_out(c->model) < kf_model_dim_in(c->model))
    kf_string_addf(out, ", with all %u dimensions", kf_model_dim_in(c->model));
  kf_put(out, ".</p>\n");
}

void kf_section_end(kf_string *out) { kf_put(out, "</section>\n"); }

void kf_figure_begin(kf_string *out, const char *headline) {
  kf_put(out, "<figure>\n<h3>");
  kf_put(out, headline);
  kf_put(out, "</h3>\n");
}

void kf_figure_end(kf_string *out, const char *caption) {
  if (caption != NULL) {
    kf_put(out, "<figcaption>");
    kf_put(out, caption);
    kf_put(out, "</figcaption>\n");
  }
  kf_put(out, "</figure>\n");
}

void kf_figure_chart(kf_chart *chart, const char *headline, const char *caption) {
  kf_figure_begin(chart->plot.out, headline);
  kf_chart_draw(chart);
  kf_figure_end(chart->plot.out, caption);
  kf_chart_clear(chart);
}

void kf_table_begin(kf_string *out, const char *label, const char *heads) {
  kf_string_addf(out, "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"%s\">",
                 label);
  kf_put(out, "<table><thead><tr>");
  kf_put(out, heads);
  kf_put(out, "</tr></thead><tbody>\n");
}

void kf_table_end(kf_string *out) { kf_put(out, "</tbody></table></div>\n"); }

void kf_figure_table_begin(kf_string *out, const char *headline, const char *label,
                           const char *heads) {
  kf_figure_begin(out, headline);
  kf_table_begin(out, label, heads);
}

void kf_figure_table_end(kf_string *out) {
  kf_table_end(out);
  kf_figure_end(out, NULL);
}

static const char *class_name(const kf_page *c, uint32_t k) {
  if (c->names != NULL && c->names[k] != NULL) return c->names[k];
  return c->model != NULL ? kf_model_class_name(c->model, k) : NULL;
}

void kf_put_class(kf_string *out, const kf_page *c, uint32_t k, size_t most) {
  const char *name = class_name(c, k);
  if (name != NULL)
    kf_put_text(out, name, most);
  else
    kf_string_addf(out, "class %u", k);
}

size_t kf_class_characters(const kf_page *c, uint32_t k, size_t most) {
  const char *name = class_name(c, k);
  size_t n = name != NULL ? kf_characters(name) : strlen("class 12345");
  return n < most ? n : most;
}

bool kf_page_has_pictures(const kf_page *c) {
  for (size_t i = 0; i < c->n_worst; i++)
    if (c->worst[i].picture != NULL) return true;
  return false;
}

/* --- the page --------------------------------------------------------------------------------- */

void kf_page_begin(kf_string *out, const char *title, bool pictures, const char *style) {
  kf_put(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
              "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
              "style-src 'unsafe-inline'");
  if (pictures) kf_put(out, "; img-src data:");
  kf_put(out, "\">\n"
              "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
              "<meta name=\"color-scheme\" content=\"light dark\">\n"
              "<meta name=\"generator\" content=\"koofu " KF_VERSION "\">\n<title>");
  kf_put_text(out, title, 200);
  kf_put(out, "</title>\n<style>\n");
  for (const char *const *part = kf_page_style; *part != NULL; part++) kf_put(out, *part);
  if (style != NULL) kf_put(out, style);
  kf_put(out, "</style>\n</head>\n<body>\n<main>\n");
}

static void put_page(kf_string *out, const kf_page *c) {
  kf_page_begin(out, c->title != NULL ? c->title : "Koo-Fu report", kf_page_has_pictures(c), NULL);
  kf_section_summary(out, c);
  kf_section_text(out, c);
  kf_section_lambda(out, c);
  kf_section_dims(out, c);
  kf_section_neighbours(out, c);
  kf_section_shots(out, c);
  kf_section_map(out, c);
  kf_section_classes(out, c);
  kf_section_confusions(out, c);
  kf_section_margins(out, c);
  kf_section_probabilities(out, c);
  kf_section_worst(out, c);
  kf_put(out, "</main>\n<footer>Made by koofu " KF_VERSION
              ". docs/report.md explains the figures, docs/method.md the method, which is that of "
              "<i>Koo-Fu CLIP</i> (Suchanek, Janouskova, Vasatko, Matas, 2026)."
              "</footer>\n</body>\n</html>\n");
}

kf_status kf_page_save(kf_ctx *ctx, const kf_page *page, const char *path) {
  kf_string text = {0};
  locale_t before = uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0));
  put_page(&text, page);
  uselocale(before);
  kf_status status = kf_string_write(ctx, &text, path);
  kf_string_clear(&text);
  return status;
}
