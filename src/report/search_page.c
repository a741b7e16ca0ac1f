/* search_page.c - a page of answers: each query with its nearest rows, best first, with thumbnails
 * and names. Names are foreign text and go through kf_put_text. */
#include "report/sections.h"

#include <locale.h>

static const char style[] =
    ".query{display:flex;gap:1.2rem;align-items:center;margin-bottom:1.4rem}\n"
    ".query h2{margin:0;overflow-wrap:anywhere}\n"
    ".query img{max-width:min(160px,40%);height:auto}\n"
    ".answers{display:grid;grid-template-columns:repeat(auto-fill,minmax(9.5rem,1fr));"
    "gap:1.4rem 1.2rem;list-style:none;margin:0;padding:0;font:.8125rem/1.45 var(--sans)}\n"
    ".answers li{min-width:0;break-inside:avoid;overflow-wrap:anywhere;"
    "border-top:1px solid var(--rule);padding-top:.5rem}\n"
    ".answers span{display:block}\n"
    ".shown{display:flex!important;height:160px;align-items:center;justify-content:center;"
    "margin-bottom:.4rem}\n"
    ".shown img{max-width:100%;max-height:160px;width:auto;height:auto}\n"
    ".answers b{font-variant-numeric:tabular-nums}\n";

static void put_picture(kf_string *out, const kf_picture *p) {
  kf_string_addf(out, "<img alt=\"\" width=\"%u\" height=\"%u\" src=\"", p->width, p->height);
  kf_put(out, p->uri);
  kf_put(out, "\"/>");
}

/* A name, shortened; the pointer shows all of it. */
static void put_name(kf_string *out, const char *name, size_t most) {
  bool cut = kf_characters(name) > most;
  if (cut) {
    kf_put(out, "<bdi title=\"");
    kf_put_text(out, name, 1000);
    kf_put(out, "\">");
  } else {
    kf_put(out, "<bdi>");
  }
  kf_put_text(out, name, most);
  kf_put(out, "</bdi>");
}

static const char *score_name(kf_metric metric) {
  switch (metric) {
  case KF_METRIC_EUCLIDEAN: return "distance";
  case KF_METRIC_INNER: return "product";
  default: return "cosine";
  }
}

static void put_row(kf_string *out, const kf_answers *a, uint64_t row, double score,
                    const kf_picture *picture, bool pictures) {
  const char *id = kf_gallery_id(a->gallery, row);
  int32_t label = kf_gallery_label(a->gallery, row);
  kf_put(out, "<li>");
  if (pictures) kf_put(out, "<span class=\"shown\">");
  if (picture->uri != NULL) put_picture(out, picture);
  if (pictures) kf_put(out, "</span>");
  kf_string_addf(out, "<span><b>%s</b></span>",
                 kf_showf("%s%.4f", score < 0 ? "−" : "", score < 0 ? -score : score).text);
  if (label >= 0) {
    const char *name = kf_gallery_class_name(a->gallery, (uint32_t)label);
    kf_put(out, "<span>");
    if (name != NULL)
      put_name(out, name, 60);
    else
      kf_string_addf(out, "class %d", label);
    kf_put(out, "</span>");
  }
  kf_put(out, "<span class=\"soft\">");
  if (id != NULL)
    put_name(out, id, 80);
  else
    kf_string_addf(out, "row %s", kf_show_count(row).text);
  kf_put(out, "</span></li>\n");
}

static void put_query(kf_string *out, const kf_answers *a, uint64_t i) {
  const kf_picture *pictures = a->pictures + i * (a->k + 1);
  bool any = false;
  for (uint32_t r = 1; r <= a->k; r++) any |= pictures[r].uri != NULL;
  kf_string_addf(out, "<section id=\"q%llu\">\n<div class=\"query\">", (unsigned long long)i);
  if (pictures[0].uri != NULL) put_picture(out, &pictures[0]);
  kf_put(out, "<h2>");
  if (a->queries != NULL)
    put_name(out, a->queries[i], 200);
  else
    kf_string_addf(out, "Query %s", kf_show_count(i).text);
  kf_put(out, "</h2></div>\n<ol class=\"answers\">\n");
  for (uint32_t r = 0; r < a->k; r++)
    put_row(out, a, (uint64_t)a->rows[i * a->k + r], a->scores[i * a->k + r], &pictures[r + 1],
            any);
  kf_put(out, "</ol>\n</section>\n");
}

static void put_fact(kf_string *out, const char *name, const char *value) {
  kf_string_addf(out, "<div><dt>%s</dt><dd>%s</dd></div>\n", name, value);
}

static void put_header(kf_string *out, const kf_answers *a, const char *title) {
  kf_put(out, "<header>\n<h1>");
  kf_put_text(out, title, 200);
  kf_put(out, "</h1>\n");
  if (a->note != NULL) {
    kf_put(out, "<p>");
    kf_put_text(out, a->note, 0);
    kf_put(out, "</p>\n");
  }
  kf_put(out, "<dl class=\"facts\">\n");
  if (a->name != NULL) {
    kf_put(out, "<div><dt>gallery</dt><dd><bdi>");
    kf_put_text(out, a->name, 80);
    kf_put(out, "</bdi></dd></div>\n");
  }
  put_fact(out, "rows", kf_show_count(kf_gallery_rows(a->gallery)).text);
  put_fact(out, "queries",
           a->n < a->all ? kf_showf("the first %.16s of %.16s", kf_show_count(a->n).text,
                                    kf_show_count(a->all).text)
                               .text
                         : kf_show_count(a->all).text);
  put_fact(out, "score", score_name(kf_gallery_metric(a->gallery)));
  put_fact(out, "space", kf_gallery_mapped(a->gallery) ? "Koo-Fu" : "original");
  kf_put(out, "</dl>\n</header>\n");
}

kf_status kf_answers_save(kf_ctx *ctx, const kf_answers *a, const char *path, uint64_t *bytes) {
  const char *title = a->title != NULL ? a->title : "Koo-Fu search";
  kf_string out = {0};
  locale_t before = uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0));
  kf_page_begin(&out, title, true, style);
  put_header(&out, a, title);
  for (uint64_t i = 0; i < a->n; i++) put_query(&out, a, i);
  kf_put(&out, "</main>\n<footer>Made by koofu " KF_VERSION ".</footer>\n</body>\n</html>\n");
  uselocale(before);
  kf_status status = kf_string_write(ctx, &out, path);
  *bytes = out.n;
  kf_string_clear(&out);
  return status;
}
