/* search_print.c - answers of 'koofu search' as text and as JSON. */
#include "format.h"
#include "search_print.h"

void print_search_header(FILE *file, const kf_gallery *gallery, uint32_t k) {
  static const char *const names[] = {"cosine", "distance", "product"}; /* kf_metric, from 1 */
  const char *score = names[kf_gallery_metric(gallery) - KF_METRIC_COSINE];
  const char *row = kf_gallery_id(gallery, 0) ? "id" : "row";
  int labels = kf_gallery_has_labels(gallery);
  fputs("query", file);
  if (k == 0) fprintf(file, labels ? "\t%s\tlabel\t%s" : "\t%s\t%s", row, score);
  for (uint32_t rank = 1; rank <= k; rank++) {
    fprintf(file, "\t%s%u", row, rank);
    if (labels) fprintf(file, "\tlabel%u", rank);
    fprintf(file, "\t%s%u", score, rank);
  }
  putc('\n', file);
}

static void print_label(FILE *file, const kf_gallery *gallery, uint64_t row) {
  int32_t label = kf_gallery_label(gallery, row);
  putc('\t', file);
  if (label >= 0) print_class(file, kf_gallery_class_name(gallery, (uint32_t)label), label);
}

void print_search_answer(FILE *file, const search_answer *a) {
  print_row_id(file, a->id, a->query);
  for (uint32_t i = 0; i < a->k; i++) {
    uint64_t row = (uint64_t)a->rows[i], own = row;
    putc('\t', file);
    if (a->paths) {
      print_row_id(file, a->paths[kf_gallery_file_of(a->gallery, row, &own)], 0);
      putc(':', file);
    }
    print_row_id(file, kf_gallery_id(a->gallery, row), own);
    if (kf_gallery_has_labels(a->gallery)) print_label(file, a->gallery, row);
    fprintf(file, "\t%.6f", a->scores[i]);
  }
  putc('\n', file);
}

static void json_neighbour(cli_json *j, const search_answer *a, uint64_t row, double score) {
  const kf_gallery *gallery = a->gallery;
  int32_t label = kf_gallery_label(gallery, row);
  uint64_t own = row;
  jw_open(j, NULL, '{');
  if (a->paths) jw_text(j, "gallery", a->paths[kf_gallery_file_of(gallery, row, &own)]);
  jw_count(j, "row", own);
  if (kf_gallery_id(gallery, row)) jw_text(j, "id", kf_gallery_id(gallery, row));
  if (kf_gallery_has_labels(gallery) && label < 0) jw_null(j, "label");
  if (label >= 0) jw_class(j, "label", kf_gallery_class_name(gallery, (uint32_t)label), label);
  jw_real(j, "score", score);
  jw_close(j, '}');
}

void json_search_answer(cli_json *j, const search_answer *a) {
  jw_open(j, NULL, '{');
  jw_count(j, "query", a->query);
  if (a->id) jw_text(j, "id", a->id);
  jw_flag(j, "text", a->text);
  jw_open(j, "neighbours", '[');
  for (uint32_t i = 0; i < a->k; i++) json_neighbour(j, a, (uint64_t)a->rows[i], a->scores[i]);
  jw_close(j, ']');
  jw_close(j, '}');
}
