/* labels.c - labels of rows: integers in a .npy or in a tensor, or text with one label per line.
 *
 * They are streamed like the rows: one pass when the data set is opened checks them and finds the
 * classes; later they are fetched with the rows. Only the list of classes and, for text, a sparse index
 * of line offsets stay in memory. */
#include "file/file_internal.h"

#include <inttypes.h>
#include <stdalign.h>

enum { LABELS_AT_ONCE = 4096 };

/* --- opening --------------------------------------------------------------------------------- */

/* [n] or [n, 1] */
static bool is_list(uint32_t ndim, const uint64_t *shape) {
  return ndim == 1 || (ndim == 2 && shape[1] == 1);
}

static kf_status open_npy(kf_labels *labels, const char *path, kf_err *err) {
  kf_npy npy;
  KF_TRY(kf_npy_open(&npy, path, err));
  kf_status status = KF_OK;
  if (!kf_type_is_integer(npy.type)) {
    status = kf_fail_file(
        err, path, "labels must be integers, but their dtype is '%s' (numpy: y.astype('i8'))",
        npy.type_name);
  } else if (!is_list(npy.ndim, npy.shape)) {
    status = kf_fail_file(
        err, path, "labels must be a list, but the array has %" PRIu32 " dimensions", npy.ndim);
  }
  if (status != KF_OK) {
    kf_npy_close(&npy);
    return status;
  }
  labels->own = npy.in;
  labels->type = npy.type;
  labels->offset = npy.offset;
  labels->count = npy.shape[0];
  return KF_OK;
}

static kf_status open_text(kf_labels *labels, const char *path, kf_err *err) {
  labels->type = KF_TYPE_OTHER;
  return kf_in_open(&labels->own, path, err);
}

kf_status kf_labels_open(kf_labels *labels, const char *path, kf_err *err) {
  *labels = (kf_labels){0};
  switch (kf_format_of(path)) {
  case KF_FORMAT_NPY: KF_TRY(open_npy(labels, path, err)); break;
  case KF_FORMAT_OTHER: KF_TRY(open_text(labels, path, err)); break;
  default:
    return kf_fail(err, KF_ERR_ARG, "%s: a label file is .npy or text with one label per line",
                   path);
  }
  labels->in = &labels->own;
  return KF_OK;
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
  kf_in_close(&labels->own);
  kf_free(labels->index);
  *labels = (kf_labels){0};
}

bool kf_labels_are_text(const kf_labels *labels) {
  return labels->in != NULL && labels->type == KF_TYPE_OTHER;
}

/* --- from a label to a class number ---------------------------------------------------------- */

static kf_status resolve_integer(const kf_labels *labels, const kf_label_rules *rules, uint64_t row,
                                 int64_t value, int32_t *out, kf_err *err) {
  *out = KF_LABEL_NONE;
  const char *path = labels->in->path;
  if (value < 0) {
    if (rules->allow_unlabelled) return KF_OK;
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
                        "the label of row %" PRIu64 " is %" PRId64 ", but the limit is %u", row,
                        value, KF_MAX_CLASSES - 1);
  if (rules->allow_unknown) return KF_OK;
  return kf_fail_hint(err, KF_ERR_DATA, KF_HINT_SKIP_UNKNOWN,
                      "%s: the label of row %" PRIu64 " is %" PRId64 ", but %s has only %" PRIu32
                      " class names, counted from 0",
                      path, row, value, rules->names_from, rules->n_names);
}

/* `line` counts from 1. */
static kf_status resolve_text(const kf_labels *labels, const kf_label_rules *rules, uint64_t line,
                              const char *text, size_t length, int32_t *out, kf_err *err) {
  *out = KF_LABEL_NONE;
  const char *path = labels->in->path;
  if (length == 0) {
    if (rules->allow_unlabelled) return KF_OK;
    return kf_fail_hint(err, KF_ERR_DATA, KF_HINT_SKIP_UNLABELLED,
                        "%s: line %" PRIu64 " is empty; a label is expected", path, line);
  }
  int64_t found = kf_dict_find(rules->map, text, length);
  if (found >= 0) {
    *out = (int32_t)found;
    return KF_OK;
  }
  if (rules->allow_unknown) return KF_OK;
  return kf_fail_hint(err, KF_ERR_DATA, KF_HINT_SKIP_UNKNOWN,
                      "%s: the label '%.*s' in line %" PRIu64 " is not a class of %s", path,
                      (int)(length < 64 ? length : 64), text, line, rules->names_from);
}

/* --- fetching -------------------------------------------------------------------------------- */

static kf_status fetch_integers(const kf_labels *labels, const kf_label_rules *rules,
                                uint64_t first, uint64_t n, int32_t *out, kf_err *err) {
  alignas(8) unsigned char raw[LABELS_AT_ONCE * 8];
  int64_t value[LABELS_AT_ONCE];
  size_t size = kf_type_size(labels->type);
  for (uint64_t done = 0; done < n;) {
    size_t count = n - done < LABELS_AT_ONCE ? (size_t)(n - done) : LABELS_AT_ONCE;
    uint64_t row = first + done;
    KF_TRY(kf_in_read(labels->in, labels->offset + row * size, raw, count * size, err));
    kf_decode_i64(labels->type, raw, count, value);
    for (size_t i = 0; i < count; i++) {
      KF_TRY(resolve_integer(labels, rules, row + i, value[i], out + done + i, err));
    }
    done += count;
  }
  return KF_OK;
}

/* The next line of a file that had one when it was opened. */
static kf_status next_line(kf_lines *lines, const char **text, size_t *length, kf_err *err) {
  KF_TRY(kf_lines_next(lines, text, length, err));
  if (*text != NULL) return KF_OK;
  return kf_fail_file(err, lines->in->path, "the file has lost lines since it was opened");
}

static kf_status fetch_text(const kf_labels *labels, const kf_label_rules *rules, uint64_t first,
                            uint64_t n, int32_t *out, kf_err *err) {
  kf_lines lines;
  const char *text;
  size_t length;
  uint64_t step = first / KF_LABEL_STEP;
  kf_lines_start(&lines, labels->in, labels->index[step], step * KF_LABEL_STEP);
  while (lines.line < first) KF_TRY(next_line(&lines, &text, &length, err));
  for (uint64_t i = 0; i < n; i++) {
    KF_TRY(next_line(&lines, &text, &length, err));
    KF_TRY(resolve_text(labels, rules, lines.line, text, length, out + i, err));
  }
  return KF_OK;
}

kf_status kf_labels_fetch(const kf_labels *labels, const kf_label_rules *rules, uint64_t first,
                          uint64_t n, int32_t *out, kf_err *err) {
  if (n == 0) return KF_OK;
  return kf_labels_are_text(labels) ? fetch_text(labels, rules, first, n, out, err)
                                    : fetch_integers(labels, rules, first, n, out, err);
}

/* --- the scan when a data set is opened ------------------------------------------------------ */

static void count_label(kf_label_census *census, int32_t label) {
  if (label == KF_LABEL_NONE) census->unlabelled++;
  if (label > census->largest) census->largest = label;
}

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

static kf_status scan_text(kf_labels *labels, const kf_label_rules *rules, kf_label_census *census,
                           kf_err *err) {
  kf_lines lines;
  kf_lines_start(&lines, labels->in, 0, 0);
  for (;;) {
    uint64_t offset = kf_lines_offset(&lines);
    const char *text;
    size_t length;
    KF_TRY(kf_lines_next(&lines, &text, &length, err));
    if (text == NULL) break;
    if ((lines.line - 1) % KF_LABEL_STEP == 0) {
      if (!kf_grow((void **)&labels->index, &labels->index_room, labels->n_index,
                   sizeof *labels->index)) {
        return kf_fail_memory(err);
      }
      labels->index[labels->n_index++] = offset;
    }
    int32_t label;
    if (rules->map == NULL && length > 0) /* every new label is a class */
      KF_TRY(kf_name_set_number(&census->found, labels->in->path, lines.line, text, length, &label,
                                err));
    else
      KF_TRY(resolve_text(labels, rules, lines.line, text, length, &label, err));
    count_label(census, label);
  }
  labels->count = lines.line;
  return KF_OK;
}

kf_status kf_labels_scan(kf_labels *labels, const kf_label_rules *rules, kf_label_census *census,
                         kf_err *err) {
  return kf_labels_are_text(labels) ? scan_text(labels, rules, census, err)
                                    : scan_integers(labels, rules, census, err);
}
