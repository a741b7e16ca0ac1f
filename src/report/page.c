/* page.c - one page out of what is there. It is made in memory, which takes a megabyte or two at
 * most, and then written whole. */
#include "report/report.h"

#include <locale.h>
#include <string.h>

/* --- parts that all sections use -------------------------------------------------------------- */

void kf_section_begin(kf_string *out, const char *id, const char *heading) {
  kf_string_addf(out, "<section id=\"%s\" aria-labelledby=\"%s-heading\">\n", id, id);
  kf_string_addf(out, "<h2 id=\"%s-heading\">%s</h2>\n", id, heading);
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

void kf_put_class(kf_string *out, const kf_report_content *c, uint32_t k, size_t most) {
  const char *name = c->model != NULL ? kf_model_class_name(c->model, k) : NULL;
  if (name != NULL)
    kf_put_text(out, name, most);
  else
    kf_string_addf(out, "class %u", k);
}

size_t kf_class_characters(const kf_report_content *c, uint32_t k, size_t most) {
  const char *name = c->model != NULL ? kf_model_class_name(c->model, k) : NULL;
  size_t n = name != NULL ? kf_characters(name) : strlen("class 12345");
  return n < most ? n : most;
}

/* --- what does not go together ---------------------------------------------------------------- */

static bool in_range(int32_t class, uint32_t n) { return class >= 0 && (uint32_t) class < n; }

static kf_status check_analysis(const kf_report_content *c, kf_err *err) {
  const kf_analysis *a = c->analysis;
  if (c->model != NULL && kf_model_classes(c->model) != a->n_classes)
    return kf_fail(err, KF_ERR_ARG,
                   "kf_report_save: the analysis is of %u classes and the model has %u",
                   a->n_classes, kf_model_classes(c->model));
  for (size_t i = 0; i < a->n_confusions; i++)
    if (!in_range(a->confusions[i].truth, a->n_classes) ||
        !in_range(a->confusions[i].answer, a->n_classes))
      return kf_fail(
          err, KF_ERR_ARG,
          "kf_report_save: confusion %zu of the analysis names a class that is not there", i);
  return KF_OK;
}

static kf_status check_content(const kf_report_content *c, kf_err *err) {
  if (c->lambda != NULL && c->lambda->n_points > 0 &&
      (c->lambda->best >= c->lambda->n_points || c->lambda->chosen >= c->lambda->n_points))
    return kf_fail(err, KF_ERR_ARG, "kf_report_save: the chosen lambda is not among the points");
  if (c->fuse != NULL && c->fuse->n_points > 0 && c->fuse->chosen >= c->fuse->n_points)
    return kf_fail(err, KF_ERR_ARG, "kf_report_save: the chosen alpha is not among the points");
  const kf_shots *s = c->shots;
  if (s != NULL && (s->n_classifiers > KF_SHOTS_CLASSIFIERS ||
                    s->n_points != s->n_sizes * s->seeds * s->n_classifiers))
    return kf_fail(err, KF_ERR_ARG,
                   "kf_report_save: the points of the few-shot curves are not all "
                   "there");
  return c->analysis != NULL ? check_analysis(c, err) : KF_OK;
}

/* --- the page --------------------------------------------------------------------------------- */

/* The policy forbids the page everything but its own style, whatever the names in it may hold. */
static void put_head(kf_string *out, const kf_report_content *c) {
  kf_put(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
              "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
              "style-src 'unsafe-inline'\">\n"
              "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
              "<meta name=\"color-scheme\" content=\"light dark\">\n"
              "<meta name=\"generator\" content=\"koofu " KF_VERSION "\">\n<title>");
  kf_put_text(out, c->title != NULL ? c->title : "Koo-Fu report", 200);
  kf_put(out, "</title>\n<style>\n");
  for (const char *const *part = kf_report_style; *part != NULL; part++) kf_put(out, *part);
  kf_put(out, "</style>\n</head>\n<body>\n<main>\n");
}

static void put_page(kf_string *out, const kf_report_content *c) {
  put_head(out, c);
  kf_report_summary(out, c);
  kf_report_text(out, c);
  kf_report_lambda(out, c);
  kf_report_dims(out, c);
  kf_report_neighbours(out, c);
  kf_report_shots(out, c);
  kf_report_map(out, c);
  kf_report_classes(out, c);
  kf_report_errors(out, c);
  kf_put(out, "</main>\n<footer>Made by koofu " KF_VERSION
              ". The pictures are explained in docs/report.md, the method in docs/method.md; it is "
              "that of <i>Koo-Fu CLIP</i> (Suchanek, Janouskova, Vasatko, Matas, 2026)."
              "</footer>\n</body>\n</html>\n");
}

static kf_status write_page(const kf_string *page, const char *path, kf_err *err) {
  kf_out out = {0};
  KF_TRY(kf_out_open(&out, path, err));
  kf_status status = kf_out_write(&out, page->data, page->n, err);
  if (status == KF_OK) status = kf_out_commit(&out, err);
  kf_out_abort(&out);
  return status;
}

kf_status kf_report_save(kf_ctx *ctx, const kf_report_content *content, const char *path) {
  KF_ENTER(ctx, content != NULL && path != NULL);
  KF_TRY(check_content(content, err));
  kf_string page = {0};
  locale_t before = uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0));
  put_page(&page, content);
  uselocale(before);
  kf_status status = page.failed ? kf_fail_memory(err) : write_page(&page, path, err);
  kf_string_clear(&page);
  return status;
}
