/* labels.c - labels of rows: integers or strings in a .npy, integers in a tensor, a column of a
 * table or of a .parquet file, or text with one label per line.
 *
 * Labels are streamed like rows: a pass at opening checks them and finds the classes; later they
 * are fetched with the rows. Only the list of classes and, for text, a sparse index of places in
 * the file stay in memory. */
#include "file/parquet.h"

#include <inttypes.h>
#include <stdalign.h>

enum { LABELS_AT_ONCE = 4096 };

/* --- opening ------------------------------------------------------------------------------- */

kf_status kf_labels_open_npy(kf_labels *labels, kf_npy *npy, kf_err *err) {
  *labels = (kf_labels){.own = npy->in};
  const char *path = labels->own.path;
  bool strings = npy->type == KF_TYPE_OTHER;
  if (!strings && !kf_type_is_integer(npy->type))
    return kf_fail_file(
        err, path,
        "labels must be integers or strings, but their dtype is '%s' (numpy: y.astype('i8'))",
        npy->type_name);
  if (!kf_npy_is_labels(npy))
    return kf_fail_file(
        err, path, "labels must be a list, but the array has %" PRIu32 " dimensions", npy->ndim);
  if (strings && npy->item > KF_LINE_MAX)
    return kf_fail_file(err, path, "dtype '%s' has more than %d bytes per label", npy->type_name,
                        KF_LINE_MAX);
  labels->kind = strings ? KF_LABELS_STRINGS : KF_LABELS_INTEGERS;
  labels->type = npy->type;
  labels->item = npy->item;
  labels->wide = npy->wide;
  labels->offset = npy->offset;
  labels->count = npy->shape[0];
  labels->in = &labels->own;
  return KF_OK;
}

static kf_status refuse_kind(const char *path, kf_err *err) {
  return kf_fail(
      err, KF_ERR_ARG,
      "%s: a label file is .npy, .npz, .parquet, .csv, .tsv or text with one label per line", path);
}

/* Opens text. It is a table by its extension, or because a column is asked for. JSON would pass
 * for text, with a class for each of its lines. */
static kf_status open_text(kf_labels *labels, const char *path, const char *column, uint64_t rows,
                           kf_err *err) {
  if (kf_ends_with(path, ".json") || kf_ends_with(path, ".jsonl") || kf_ends_with(path, ".ndjson"))
    return refuse_kind(path, err);
  KF_TRY(kf_in_open(&labels->own, path, err));
  labels->in = &labels->own;
  labels->kind = KF_LABELS_LINES;
  if (column == NULL && kf_format_of(path) != KF_FORMAT_TABLE) return KF_OK;
  labels->kind = KF_LABELS_TABLE;
  return kf_labels_open_table(labels, column, rows, err);
}

kf_status kf_labels_open(kf_labels *labels, const char *path, const char *column, uint64_t rows,
                         kf_pq_cache *cache, kf_err *err) {
  *labels = (kf_labels){0};
  kf_npy npy;
  kf_format format;
  KF_TRY(kf_format_of_file(path, &format, err));
  switch (format) {
  case KF_FORMAT_NPY:
    KF_TRY(kf_npy_open(&npy, path, err));
    return kf_labels_open_npy(labels, &npy, err);
  case KF_FORMAT_NPZ: return kf_npz_open_labels(labels, path, rows, err);
  case KF_FORMAT_PARQUET: return kf_parquet_open_labels(labels, path, column, cache, err);
  case KF_FORMAT_TABLE:
  case KF_FORMAT_OTHER: return open_text(labels, path, column, rows, err);
  default: return refuse_kind(path, err);
  }
}

/* [n] or [n, 1] */
static bool is_list(uint32_t ndim, const uint64_t *shape) {
  return ndim == 1 || (ndim == 2 && shape[1] == 1);
}

kf_status kf_labels_open_tensor(kf_labels *labels, const kf_in *in, const kf_st_tensor *tensor,
                                kf_err *err) {
  if (!kf_type_is_integer(tensor->type) || !is_list(tensor->ndim, tensor->shape))
    return kf_fail_file(err, in->path,
                        "tensor '%.64s' (%s, %" PRIu32
                        " dimensions) is not a list of integer labels",
                        tensor->name, tensor->type_name, tensor->ndim);
  *labels = (kf_labels){
      .in = in, .type = tensor->type, .offset = tensor->offset, .count = tensor->shape[0]};
  return KF_OK;
}

void kf_labels_close(kf_labels *labels) {
  kf_pq_column_free(labels->column_in);
  kf_in_close(&labels->own);
  kf_free(labels->index);
  *labels = (kf_labels){0};
}

bool kf_labels_are_text(const kf_labels *labels) {
  return labels->in != NULL && labels->kind != KF_LABELS_INTEGERS;
}

/* --- from a label to a class number -------------------------------------------------------- */

static kf_status resolve_integer(const kf_labels *labels, const kf_label_rules *rules, uint64_t row,
                                 int64_t value, int32_t *out, kf_err *err) {
  *out = KF_LABEL_NONE;
  const char *path = labels->in->path;
  if (value < 0) {
    if (rules->allow_unlabelled) return KF_OK;
    if (value == INT64_MIN && labels->column_in != NULL)
      return kf_fail_hint(err, KF_ERR_DATA, KF_HINT_SKIP_UNLABELLED,
                          "%s: the label of row %" PRIu64 " is null", path, row);
    return kf_fail_hint(err, KF_ERR_DATA, KF_HINT_SKIP_UNLABELLED,
                        "%s: the label of row %" PRIu64 " is negative (%" PRId64 ")", path, row,
                        value);
  }
  uint32_t classes = rules->n_names > 0 ? rules->n_names : KF_MAX_CLASSES;
  if (value < classes) {
    *out = (int32_t)value;
    return KF_OK;
  }
  if (rules->n_names == 0)
    return kf_fail_file(err, path,
                        "the label of row %" PRIu64 " is %" PRId64 "%s, but the limit is %u", row,
                        value, value == INT64_MAX ? " or more" : "", KF_MAX_CLASSES - 1);
  if (rules->allow_unknown) return KF_OK;
  return kf_fail_hint(err, KF_ERR_DATA, KF_HINT_SKIP_UNKNOWN,
                      "%s: the label of row %" PRIu64 " is %" PRId64 ", but %s has only %" PRIu32
                      " class names, counted from 0",
                      path, row, value, rules->names_from, rules->n_names);
}

static kf_status resolve_text(const kf_labels *labels, const kf_label_rules *rules, uint64_t place,
                              const char *text, size_t length, int32_t *out, kf_err *err) {
  *out = KF_LABEL_NONE;
  const char *path = labels->in->path;
  bool rows = labels->kind == KF_LABELS_STRINGS || labels->kind == KF_LABELS_COLUMN;
  const char *unit = rows ? "row" : "line";
  if (length == 0) {
    if (rules->allow_unlabelled) return KF_OK;
    return kf_fail_hint(err, KF_ERR_DATA, KF_HINT_SKIP_UNLABELLED,
                        labels->kind == KF_LABELS_LINES
                            ? "%s: %s %" PRIu64 " is empty; a label is expected"
                            : "%s: the label in %s %" PRIu64 " is empty",
                        path, unit, place);
  }
  int64_t found = kf_dict_find(rules->map, text, length);
  if (found >= 0) {
    *out = (int32_t)found;
    return KF_OK;
  }
  if (rules->allow_unknown) return KF_OK;
  return kf_fail_hint(err, KF_ERR_DATA, KF_HINT_SKIP_UNKNOWN,
                      "%s: the label '%.*s' in %s %" PRIu64 " is not a class of %s", path,
                      (int)(length < 64 ? length : 64), text, unit, place, rules->names_from);
}

/* --- fetching ------------------------------------------------------------------------------ */

static kf_status fetch_integers(const kf_labels *labels, const kf_label_rules *rules,
                                uint64_t first, uint64_t n, int32_t *out, kf_err *err) {
  alignas(8) unsigned char raw[LABELS_AT_ONCE * 8];
  int64_t value[LABELS_AT_ONCE];
  size_t size = kf_type_size(labels->type);
  for (uint64_t done = 0; done < n;) {
    size_t count = n - done < LABELS_AT_ONCE ? (size_t)(n - done) : LABELS_AT_ONCE;
    uint64_t row = first + done;
    if (labels->column_in != NULL) {
      KF_TRY(kf_pq_fetch_integers(labels->column_in, row, count, value, err));
    } else {
      KF_TRY(kf_in_read(labels->in, labels->offset + row * size, raw, count * size, err));
      kf_decode_i64(labels->type, raw, count, value);
    }
    for (size_t i = 0; i < count; i++)
      KF_TRY(resolve_integer(labels, rules, row + i, value[i], out + done + i, err));
    done += count;
  }
  return KF_OK;
}

/* Counts or stores text labels as they are read. */
typedef struct label_use {
  const kf_labels *labels;
  const kf_label_rules *rules;
  kf_label_census *census; /* NULL: the labels are stored in `out` */
  int32_t *out;
} label_use;

static void count_label(kf_label_census *census, int32_t label) {
  if (label == KF_LABEL_NONE) census->unlabelled++;
  if (label > census->largest) census->largest = label;
}

/* place: see kf_label_text. */
static kf_status use_text(void *argument, uint64_t place, const char *text, size_t length,
                          kf_err *err) {
  label_use *use = argument;
  int32_t label;
  if (use->rules->map == NULL && length > 0) /* every new label becomes a class */
    KF_TRY(kf_name_set_number(&use->census->found, use->labels->in->path, place, text, length,
                              &label, err));
  else
    KF_TRY(resolve_text(use->labels, use->rules, place, text, length, &label, err));
  if (use->census != NULL)
    count_label(use->census, label);
  else
    *use->out++ = label;
  return KF_OK;
}

/* The next label, which was there when the file was opened. */
static kf_status next_text(kf_label_text *reader, const char **text, size_t *length, kf_err *err) {
  KF_TRY(kf_label_text_next(reader, text, length, err));
  if (*text != NULL) return KF_OK;
  return kf_fail_file(err, reader->labels->in->path, "the file has lost lines since it was opened");
}

static kf_status fetch_text(label_use *use, uint64_t first, uint64_t n, kf_err *err) {
  kf_label_text reader;
  const char *text;
  size_t length;
  KF_TRY(kf_label_text_start(&reader, use->labels, first, err));
  while (reader.row < first) KF_TRY(next_text(&reader, &text, &length, err));
  for (uint64_t i = 0; i < n; i++) {
    KF_TRY(next_text(&reader, &text, &length, err));
    KF_TRY(use_text(use, reader.place, text, length, err));
  }
  return KF_OK;
}

kf_status kf_labels_fetch(const kf_labels *labels, const kf_label_rules *rules, uint64_t first,
                          uint64_t n, int32_t *out, kf_err *err) {
  if (n == 0) return KF_OK;
  label_use use = {.labels = labels, .rules = rules, .out = out};
  if (labels->kind == KF_LABELS_COLUMN)
    return kf_labels_each_text(labels, first, n, use_text, &use, err);
  return kf_labels_are_text(labels) ? fetch_text(&use, first, n, err)
                                    : fetch_integers(labels, rules, first, n, out, err);
}

/* --- the scan when a data set is opened ---------------------------------------------------- */

static kf_status scan_integers(const kf_labels *labels, const kf_label_rules *rules,
                               kf_label_census *census, kf_err *err) {
  int32_t label[LABELS_AT_ONCE];
  for (uint64_t first = 0; first < labels->count; first += LABELS_AT_ONCE) {
    size_t n =
        labels->count - first < LABELS_AT_ONCE ? (size_t)(labels->count - first) : LABELS_AT_ONCE;
    KF_TRY(fetch_integers(labels, rules, first, n, label, err));
    for (size_t i = 0; i < n; i++) count_label(census, label[i]);
  }
  return KF_OK;
}

/* Adds the place of the next label to the index, if it is one of those to keep. */
static kf_status keep_place(kf_labels *labels, const kf_label_text *reader, kf_err *err) {
  if (labels->kind == KF_LABELS_STRINGS || reader->row % KF_LABEL_STEP != 0) return KF_OK;
  if (!kf_grow((void **)&labels->index, &labels->index_room, labels->n_index,
               sizeof *labels->index))
    return kf_fail_memory(err);
  labels->index[labels->n_index++] = kf_label_text_mark(reader);
  return KF_OK;
}

static kf_status scan_text(kf_labels *labels, label_use *use, kf_err *err) {
  kf_label_text reader;
  KF_TRY(kf_label_text_start(&reader, labels, 0, err));
  for (;;) {
    const char *text;
    size_t length;
    KF_TRY(keep_place(labels, &reader, err));
    KF_TRY(kf_label_text_next(&reader, &text, &length, err));
    if (text == NULL) break;
    KF_TRY(use_text(use, reader.place, text, length, err));
  }
  labels->count = reader.row;
  return KF_OK;
}

kf_status kf_labels_scan(kf_labels *labels, const kf_label_rules *rules, kf_label_census *census,
                         kf_err *err) {
  label_use use = {.labels = labels, .rules = rules, .census = census};
  if (labels->kind == KF_LABELS_COLUMN)
    return kf_labels_each_text(labels, 0, labels->count, use_text, &use, err);
  return kf_labels_are_text(labels) ? scan_text(labels, &use, err)
                                    : scan_integers(labels, rules, census, err);
}

kf_status kf_lines_count(const char *path, uint64_t *lines, uint64_t *distinct, kf_err *err) {
  kf_labels labels;
  kf_label_rules rules = {.allow_unlabelled = true};
  kf_label_census census = {.largest = -1};
  kf_status status = kf_labels_open(&labels, path, NULL, 0, NULL, err);
  if (status == KF_OK) status = kf_labels_scan(&labels, &rules, &census, err);
  *lines = labels.count;
  *distinct = census.found.n;
  kf_name_set_clear(&census.found);
  kf_labels_close(&labels);
  return status;
}
