/* records.c - answers as a .parquet. */
#include "records.h"
#include "outputs.h"

#include <math.h>

int is_parquet(const char *path) { return path && ends_with(path, ".parquet"); }

void records_column(records_out *r, const char *name, kf_column_type type) {
  r->columns[r->n++] = (kf_column){.name = name, .type = type};
}

int records_open(cli_run *cli, records_out *r, const char *path) {
  return result_of(cli, kf_records_open(cli->ctx, path, r->columns, r->n, &r->file));
}

void records_text(records_out *r, const char *text) {
  r->cells[r->at++] = (kf_cell){.text = text, .null = !text};
}

void records_integer(records_out *r, int64_t value) {
  r->cells[r->at++] = (kf_cell){.integer = value, .null = value < 0};
}

void records_real(records_out *r, double value) {
  r->cells[r->at++] = (kf_cell){.real = value, .null = isnan(value)};
}

void records_class(records_out *r, const char *name, int32_t number) {
  if (r->columns[r->at].type == KF_COLUMN_TEXT)
    records_text(r, number < 0 ? NULL : name);
  else
    records_integer(r, number);
}

const char *records_id(cli_run *cli, records_out *r, const kf_data *data, uint64_t row,
                       const char *own) {
  if (own || !data || !kf_data_has_ids(data)) return own;
  return kf_data_get_id(cli->ctx, data, row, r->id, sizeof r->id) == KF_OK ? r->id : NULL;
}

int records_end(cli_run *cli, records_out *r) {
  r->at = 0;
  return result_of(cli, kf_records_add(cli->ctx, r->file, r->cells));
}

int records_commit(cli_run *cli, records_out *r) {
  kf_records *file = r->file;
  r->file = NULL; /* freed by the commit in any case */
  return result_of(cli, kf_records_commit(cli->ctx, file));
}

void records_abort(records_out *r) { kf_records_free(r->file); }

/* --- answers of a search ----------------------------------------------------------------------- */

void records_of_search(records_out *r, const kf_gallery *gallery) {
  records_column(r, "query", KF_COLUMN_INTEGER);
  records_column(r, "query_id", KF_COLUMN_TEXT);
  records_column(r, "rank", KF_COLUMN_INTEGER);
  records_column(r, "row", KF_COLUMN_INTEGER);
  if (kf_gallery_id(gallery, 0)) records_column(r, "id", KF_COLUMN_TEXT);
  if (kf_gallery_has_labels(gallery))
    records_column(r, "label",
                   kf_gallery_class_name(gallery, 0) ? KF_COLUMN_TEXT : KF_COLUMN_INTEGER);
  records_column(r, "score", KF_COLUMN_REAL);
}

int records_put_answer(cli_run *cli, records_out *r, const search_answer *a) {
  for (uint32_t i = 0; i < a->k; i++) {
    uint64_t row = (uint64_t)a->rows[i];
    int32_t label = kf_gallery_label(a->gallery, row);
    records_integer(r, (int64_t)a->query);
    records_text(r, a->id);
    records_integer(r, i + 1);
    records_integer(r, a->rows[i]);
    if (kf_gallery_id(a->gallery, row)) records_text(r, kf_gallery_id(a->gallery, row));
    if (kf_gallery_has_labels(a->gallery))
      records_class(r, label < 0 ? NULL : kf_gallery_class_name(a->gallery, (uint32_t)label),
                    label);
    records_real(r, a->scores[i]);
    TRY(records_end(cli, r));
  }
  return EXIT_OK;
}
