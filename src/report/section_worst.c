/* section_worst.c - the wrong answers with the widest margins, with pictures if there are any.
 * Often the label is wrong, or the picture shows two things. */
#include "report/sections.h"

#include <string.h>

/* The end of a long id, from a folder on: that is where paths differ. */
static void put_id(kf_string *out, const char *id) {
  enum { MOST = 64 };
  char shown[KF_SHOWN_SIZE];
  size_t n = kf_characters(id), at = 0;
  bool cut = n > MOST;
  for (; n > MOST; n--) kf_escape_next(id, &at, shown);
  const char *slash = cut ? strchr(id + at, '/') : NULL;
  if (cut) kf_put(out, "…");
  kf_put_text(out, slash != NULL ? slash : id + at, 0);
}

static void put_row(kf_string *out, const kf_page *c, const kf_worst_row *row) {
  const kf_mistake *m = row->mistake;
  kf_put(out, "<tr><th scope=\"row\">");
  if (row->picture != NULL) {
    kf_put(out, "<img src=\"");
    kf_put(out, row->picture);
    kf_string_addf(out, "\" width=\"%u\" height=\"%u\" alt=\"\">", row->width, row->height);
  }
  kf_put(out, "<bdi>");
  if (row->id != NULL)
    put_id(out, row->id);
  else
    kf_string_addf(out, "row %s", kf_show_count(m->row).text);
  kf_put(out, "</bdi></th><td class=\"words\"><bdi>");
  kf_put_class(out, c, (uint32_t)m->truth, 40);
  kf_put(out, "</bdi></td><td class=\"words\"><bdi>");
  kf_put_class(out, c, (uint32_t)m->answer, 40);
  kf_string_addf(out, "</bdi></td><td>%s</td>", kf_show_real(m->margin).text);
  if (!isnan(m->probability)) kf_string_addf(out, "<td>%.1f\u202F%%</td>", 100 * m->probability);
  kf_put(out, "</tr>\n");
}

void kf_section_worst(kf_string *out, const kf_page *c) {
  if (c->n_worst == 0) return;
  bool pictures = kf_page_has_pictures(c), sure = !isnan(c->worst[0].mistake->probability);
  kf_errors_begin(out, c, "worst", "Wrong by a wide margin");
  kf_string_addf(out,
                 "<p class=\"lead\">%s with a wrong answer although the best score was far ahead "
                 "of the second. Look here first for wrong labels.</p>\n",
                 pictures ? "Pictures" : "Rows");
  kf_table_begin(out, "rows that went wrong",
                 sure ? KF_HEAD("row") KF_HEAD_WORDS("label") KF_HEAD_WORDS("answer")
                            KF_HEAD("margin") KF_HEAD("sure")
                      : KF_HEAD("row") KF_HEAD_WORDS("label") KF_HEAD_WORDS("answer")
                            KF_HEAD("margin"));
  for (size_t i = 0; i < c->n_worst; i++) put_row(out, c, &c->worst[i]);
  kf_table_end(out);
  kf_section_end(out);
}
