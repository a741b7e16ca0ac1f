/* truth.c - the right classes of each row, where a single label is not enough.
 *
 * Entries of a file are assigned to rows by order or by ids. The truth keeps a list of classes for
 * each row, with its own numbers; kf_judge_start translates these to the numbers of a model. */
#include "score/truth.h"

#include <inttypes.h>
#include <string.h>

/* --- ids -------------------------------------------------------------------------------------- */

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

void kf_id_without_folder(const char **text, size_t *length) {
  const char *begin = *text, *end = begin + *length;
  for (const char *c = begin; c < end; c++)
    if (*c == '/') begin = c + 1;
  *text = begin;
  *length = (size_t)(end - begin);
}

/* An extension is a dot and a letter, followed by at most four letters or digits: ".JPEG". */
void kf_id_without_extension(const char *text, size_t *length) {
  size_t n = 0; /* letters and digits at the end */
  while (n < *length && (is_letter(text[*length - n - 1]) || is_digit(text[*length - n - 1]))) n++;
  if (n < 1 || n > 5 || n + 1 >= *length) return;
  const char *extension = text + *length - n;
  if (extension[-1] == '.' && is_letter(*extension)) *length -= n + 1;
}

/* The number after "_val_" at the end of an id; 0: there is none. */
static uint64_t number_of(const char *id, size_t length) {
  size_t digits = 0;
  while (digits < length && digits < 18 && is_digit(id[length - digits - 1])) digits++;
  if (digits == 0 || length - digits < 5 || memcmp(id + length - digits - 5, "_val_", 5) != 0)
    return 0;
  uint64_t value;
  kf_read_digits(id + length - digits, digits, UINT64_MAX / 20, &value);
  return value;
}

static kf_status add_ids(kf_dict *map, const kf_entries *e, kf_err *err) {
  uint64_t begin = 0;
  for (uint64_t i = 0; i < e->n; begin = e->id_ends[i++]) {
    const char *id = e->ids.data + begin;
    size_t length = (size_t)(e->id_ends[i] - begin);
    int64_t before = kf_dict_find(map, id, length);
    if (before >= 0) /* line 1 is the header */
      return kf_fail_file(err, e->path, "line %" PRIu64 " repeats the id '%.*s' of line %" PRId64,
                          i + 2, (int)(length < 64 ? length : 64), id, before + 2);
    if (!kf_dict_add(map, id, length, (uint32_t)i)) return kf_fail_memory(err);
  }
  return KF_OK;
}

/* --- entries to rows -------------------------------------------------------------------------- */

typedef struct alignment {
  const kf_entries *entries;
  const char *path; /* of the ids */
  kf_dict *map;     /* NULL: the entries are numbered */
  kf_truth *truth;
  size_t ends_room, classes_room;
  size_t n_classes;
  uint64_t matched;
} alignment;

/* Finds the entry of an id; *out: -1 if there is none. */
static kf_status find_entry(const alignment *a, uint64_t line, const char *id, size_t length,
                            int64_t *out, kf_err *err) {
  *out = -1;
  kf_id_without_folder(&id, &length);
  /* What looks like an extension may be part of an id, such as 'a.b' of 'a.b.png'. */
  if (a->map != NULL) *out = kf_dict_find(a->map, id, length);
  if (*out >= 0) return KF_OK;
  kf_id_without_extension(id, &length);
  if (a->map != NULL) {
    *out = kf_dict_find(a->map, id, length);
    return KF_OK;
  }
  uint64_t number = number_of(id, length);
  if (number == 0)
    return kf_fail_file(err, a->path,
                        "line %" PRIu64 ": '%.*s' does not end in _val_ and a number from 1, which "
                        "the entries of %s need",
                        line, (int)(length < 64 ? length : 64), id, a->entries->path);
  if (number <= a->entries->n) *out = (int64_t)number - 1;
  return KF_OK;
}

static kf_status add_row(void *argument, uint64_t line, const char *text, size_t length,
                         kf_err *err) {
  alignment *a = argument;
  kf_truth *t = a->truth;
  int64_t entry;
  if (length == 0)
    return kf_fail_file(err, a->path, "line %" PRIu64 " is empty, but must be an id", line);
  KF_TRY(find_entry(a, line, text, length, &entry, err));
  a->matched += entry >= 0;
  uint64_t begin = entry > 0 ? a->entries->ends[entry - 1] : 0;
  uint64_t end = entry >= 0 ? a->entries->ends[entry] : 0;
  for (uint64_t at = begin; at < end; at++) {
    if (!kf_grow((void **)&t->classes, &a->classes_room, a->n_classes, sizeof *t->classes))
      return kf_fail_memory(err);
    t->classes[a->n_classes++] = a->entries->classes[at];
  }
  if (!kf_grow((void **)&t->ends, &a->ends_room, (size_t)t->rows, sizeof *t->ends))
    return kf_fail_memory(err);
  t->ends[t->rows++] = a->n_classes;
  return KF_OK;
}

static kf_status by_ids(kf_truth *truth, const kf_entries *e, const char *path, kf_err *err) {
  if (!e->has_ids && !e->numbered)
    return kf_fail_file(err, e->path,
                        "its entries have no ids and can only be taken in the order of the rows");
  alignment a = {.entries = e, .path = path, .truth = truth};
  if (e->has_ids && (a.map = kf_dict_new((uint32_t)e->n)) == NULL) return kf_fail_memory(err);
  kf_status status = e->has_ids ? add_ids(a.map, e, err) : KF_OK;
  if (status == KF_OK) status = kf_lines_read(path, add_row, &a, err);
  kf_dict_free(a.map);
  if (status == KF_OK && a.matched == 0)
    status = kf_fail_file(err, path, "none of its %" PRIu64 " ids has an entry in %s", truth->rows,
                          e->path);
  return status;
}

/* --- kf_truth_load ---------------------------------------------------------------------------- */

static kf_status take_names(kf_truth *truth, kf_entries *e, kf_names *given, kf_err *err) {
  if (given->n > 0) {
    truth->names = *given;
    *given = (kf_names){0};
  } else {
    KF_TRY(kf_name_set_list(&e->found, false, &truth->names, err));
  }
  truth->n_classes = truth->names.n > 0 ? truth->names.n : (uint32_t)(e->largest + 1);
  return KF_OK;
}

/* Entry i belongs to row i: takes over the lists. */
static void by_order(kf_truth *truth, kf_entries *e) {
  truth->rows = e->n;
  truth->ends = e->ends;
  truth->classes = e->classes;
  e->ends = NULL;
  e->classes = NULL;
}

static kf_status load(kf_truth *truth, const kf_truth_options *o, kf_err *err) {
  kf_names names = {0};
  kf_entries entries = {0};
  kf_status status = o->classes != NULL ? kf_names_read(o->classes, &names, err) : KF_OK;
  if (status == KF_OK) status = kf_entries_read(&entries, truth->path, &names, o->classes, err);
  if (status == KF_OK && o->ids != NULL)
    status = by_ids(truth, &entries, o->ids, err);
  else if (status == KF_OK)
    by_order(truth, &entries);
  if (status == KF_OK) status = take_names(truth, &entries, &names, err);
  kf_entries_clear(&entries);
  kf_names_clear(&names);
  return status;
}

kf_status kf_truth_load(kf_ctx *ctx, const char *path, const kf_truth_options *options,
                        kf_truth **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, path != NULL && out != NULL);
  KF_OPTIONS(kf_truth_options, o, options);
  size_t length = strlen(path);
  kf_truth *truth = kf_alloc_tail(sizeof *truth, length + 1, 1);
  if (truth == NULL) return kf_fail_memory(err);
  memcpy(truth->path, path, length);
  KF_HAND_OUT(load(truth, &o, err), out, truth, kf_truth_free);
}

static kf_status pick(const kf_truth *from, const uint64_t *rows, uint64_t n, kf_truth *to,
                      kf_err *err) {
  const int32_t *classes = NULL;
  size_t n_classes = 0;
  for (uint64_t i = 0; i < n; i++) n_classes += kf_truth_row(from, rows[i], &classes);
  to->n_classes = from->n_classes;
  KF_TRY(kf_names_clone(&from->names, &to->names, err));
  to->ends = kf_alloc(n, sizeof *to->ends);
  to->classes = kf_alloc(n_classes, sizeof *to->classes);
  if (to->ends == NULL || to->classes == NULL) return kf_fail_memory(err);
  for (n_classes = 0; to->rows < n; to->ends[to->rows++] = n_classes) {
    size_t more = kf_truth_row(from, rows[to->rows], &classes);
    if (more > 0) memcpy(to->classes + n_classes, classes, more * sizeof *classes);
    n_classes += more;
  }
  return KF_OK;
}

kf_status kf_truth_pick(const kf_truth *truth, const uint64_t *rows, uint64_t n, kf_truth **out,
                        kf_err *err) {
  kf_truth *t = kf_alloc_tail(sizeof *t, strlen(truth->path) + 1, 1);
  if (t == NULL) return kf_fail_memory(err);
  strcpy(t->path, truth->path);
  KF_HAND_OUT(pick(truth, rows, n, t, err), out, t, kf_truth_free);
}

void kf_truth_free(kf_truth *truth) {
  if (truth == NULL) return;
  kf_free(truth->ends);
  kf_free(truth->classes);
  kf_names_clear(&truth->names);
  kf_free(truth);
}

uint64_t kf_truth_rows(const kf_truth *truth) { return truth->rows; }
uint32_t kf_truth_classes(const kf_truth *truth) { return truth->n_classes; }

const char *kf_truth_class_name(const kf_truth *truth, uint32_t k) {
  return k < truth->names.n ? truth->names.name[k] : NULL;
}

size_t kf_truth_row(const kf_truth *truth, uint64_t row, const int32_t **classes) {
  if (row >= truth->rows) return 0;
  uint64_t begin = row > 0 ? truth->ends[row - 1] : 0;
  size_t n = (size_t)(truth->ends[row] - begin);
  if (n > 0) *classes = truth->classes + begin;
  return n;
}
