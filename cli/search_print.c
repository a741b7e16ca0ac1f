/* search_print.c - answers of 'koofu search' as text, records and JSON. */
#include "search.h"

#include <stdlib.h>

static const char *score_name(const kf_gallery *gallery) {
  static const char *const names[] = {"cosine", "distance", "product"}; /* kf_metric, from 1 */
  return names[kf_gallery_metric(gallery) - KF_METRIC_COSINE];
}

static void put_record_columns(sink *s, const kf_gallery *gallery) {
  sink_column(s, "query", KF_COLUMN_INTEGER);
  sink_column(s, "query_id", KF_COLUMN_TEXT);
  sink_column(s, "rank", KF_COLUMN_INTEGER);
  sink_column(s, "row", KF_COLUMN_INTEGER);
  if (kf_gallery_id(gallery, 0)) sink_column(s, "id", KF_COLUMN_TEXT);
  if (kf_gallery_has_labels(gallery))
    sink_column(s, "label", kf_gallery_class_name(gallery, 0) ? KF_COLUMN_TEXT : KF_COLUMN_INTEGER);
  sink_column(s, "score", KF_COLUMN_REAL);
}

int put_search_header(sink *s, const kf_gallery *gallery, uint32_t k) {
  const char *score = score_name(gallery), *row = kf_gallery_id(gallery, 0) ? "id" : "row";
  int labels = kf_gallery_has_labels(gallery);
  if (is_json(s)) return EXIT_OK;
  if (s->format == SINK_PARQUET) {
    put_record_columns(s, gallery);
    return sink_end_header(s);
  }
  sink_columns(s, "query");
  if (k == 0) {
    sink_columns(s, row);
    if (labels) sink_columns(s, "label");
    sink_columns(s, score);
  }
  for (uint32_t position = 1; position <= k; position++) {
    sink_numbered_column(s, row, position);
    if (labels) sink_numbered_column(s, "label", position);
    sink_numbered_column(s, score, position);
  }
  return sink_end_header(s);
}

static void put_query(sink *s, const search_answer *a) {
  if (s->format != SINK_PARQUET) {
    sink_row(s, a->id, a->query);
    return;
  }
  sink_number(s, (int64_t)a->query);
  sink_text(s, a->id);
}

/* A row by number or id or, in one of several galleries, as PATH:ROW. */
static int put_found_row(sink *s, const search_answer *a, uint64_t row) {
  const char *id = kf_gallery_id(a->gallery, row), *path;
  uint64_t own = row;
  char *text;
  if (!a->paths) {
    sink_row(s, id, row);
    return EXIT_OK;
  }
  path = a->paths[kf_gallery_file_of(a->gallery, row, &own)];
  if ((id ? asprintf(&text, "%s:%s", path, id)
          : asprintf(&text, "%s:%llu", path, (unsigned long long)own)) < 0)
    return fail(s->cli, KF_ERR_MEM);
  sink_text(s, text);
  free(text);
  return EXIT_OK;
}

static int put_neighbour(sink *s, const search_answer *a, uint32_t i) {
  uint64_t row = (uint64_t)a->rows[i];
  int32_t label = kf_gallery_label(a->gallery, row);
  if (s->format == SINK_PARQUET) {
    sink_number(s, i + 1);
    sink_number(s, a->rows[i]);
    if (kf_gallery_id(a->gallery, row)) sink_text(s, kf_gallery_id(a->gallery, row));
  } else {
    TRY(put_found_row(s, a, row));
  }
  if (kf_gallery_has_labels(a->gallery))
    sink_class(s, label < 0 ? NULL : kf_gallery_class_name(a->gallery, (uint32_t)label), label);
  sink_real(s, 6, a->scores[i]);
  return EXIT_OK;
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
  jw_close(j, "}");
}

static int put_object(sink *s, const search_answer *a) {
  cli_json *j = sink_object(s);
  jw_count(j, "query", a->query);
  if (a->id) jw_text(j, "id", a->id);
  jw_flag(j, "text", a->text);
  jw_open(j, "neighbours", '[');
  for (uint32_t i = 0; i < a->k; i++) json_neighbour(j, a, (uint64_t)a->rows[i], a->scores[i]);
  jw_close(j, "]");
  return sink_end_row(s);
}

int put_search_answer(sink *s, const search_answer *a, uint32_t k) {
  int one_line = k > 0 && s->format != SINK_PARQUET;
  if (is_json(s)) return put_object(s, a);
  for (uint32_t i = 0; i < a->k; i++) {
    if (i == 0 || !one_line) put_query(s, a);
    TRY(put_neighbour(s, a, i));
    if (i + 1 == a->k || !one_line) TRY(sink_end_row(s));
  }
  return EXIT_OK;
}
