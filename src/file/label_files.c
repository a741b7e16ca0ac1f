/* label_files.c - matches label files to data files, if a folder or a pattern stands for them.
 *
 * By name: part_7.npy goes with part_7.txt. If no label file has the name of a data file, both are
 * taken in numeric order: img_7.npy goes with labels_7.npy. Then the numbers in their names must be
 * the same, since one missing file would shift all that follow. */
#include "file/file_internal.h"

#include <stdlib.h>
#include <string.h>

/* A path and its name without folder and extension. */
typedef struct named {
  char *path; /* first, for kf_by_number */
  const char *name;
  size_t length;
  size_t at; /* index in its list */
} named;

static named name_of(char *path, size_t at) {
  const char *suffix = kf_npz_suffix(path);
  size_t size = suffix != NULL ? (size_t)(suffix - path) : strlen(path);
  const char *slash = memrchr(path, '/', size), *name = slash != NULL ? slash + 1 : path;
  size_t length = size - (size_t)(name - path);
  const char *dot = memrchr(name, '.', length);
  if (dot != NULL && dot > name) length = (size_t)(dot - name);
  return (named){.path = path, .name = name, .length = length, .at = at};
}

static int by_name(const void *x, const void *y) {
  const named *a = x, *b = y;
  size_t n = a->length < b->length ? a->length : b->length;
  int order = memcmp(a->name, b->name, n);
  return order != 0 ? order : (a->length > b->length) - (a->length < b->length);
}

/* The next number in [*at, end), without leading zeros; NULL: there is none. */
static const char *next_number(const char **at, const char *end, size_t *length) {
  while (*at < end && (**at < '0' || **at > '9')) ++*at;
  if (*at == end) return NULL;
  while (*at + 1 < end && **at == '0' && (*at)[1] >= '0' && (*at)[1] <= '9') ++*at;
  const char *number = *at;
  while (*at < end && **at >= '0' && **at <= '9') ++*at;
  *length = (size_t)(*at - number);
  return number;
}

static bool same_numbers(const named *a, const named *b) {
  const char *p = a->name, *q = b->name;
  for (;;) {
    size_t n = 0, m = 0;
    const char *x = next_number(&p, a->name + a->length, &n);
    const char *y = next_number(&q, b->name + b->length, &m);
    if (x == NULL || y == NULL) return x == y;
    if (n != m || memcmp(x, y, n) != 0) return false;
  }
}

/* Sorts both by name. match[i]: the label file of data file i; *unmatched: the first data file
 * without one (NULL: none). Returns how many have one; 0 if names are not unique. */
static size_t match_names(named *data, size_t n, named *labels, size_t m, const named **match,
                          const named **unmatched) {
  qsort(data, n, sizeof *data, by_name);
  qsort(labels, m, sizeof *labels, by_name);
  size_t matched = 0, at = 0;
  *unmatched = NULL;
  for (size_t i = 0; i < n; i++) {
    if (i > 0 && by_name(&data[i - 1], &data[i]) == 0) return 0;
    while (at < m && by_name(&labels[at], &data[i]) < 0) at++;
    if (at + 1 < m && by_name(&labels[at], &labels[at + 1]) == 0) return 0;
    bool found = at < m && by_name(&labels[at], &data[i]) == 0;
    match[i] = found ? &labels[at] : NULL;
    matched += found;
    if (!found && *unmatched == NULL) *unmatched = &data[i];
  }
  return matched;
}

static kf_status match_positions(named *data, size_t n, named *labels, size_t m,
                                 const named **match, kf_err *err) {
  if (n != m)
    return kf_fail(err, KF_ERR_ARG,
                   "%zu label files, such as %s, for %zu data files, such as %s: give one for all "
                   "or one for each",
                   m, labels[0].path, n, data[0].path);
  qsort(data, n, sizeof *data, kf_by_number);
  qsort(labels, n, sizeof *labels, kf_by_number);
  for (size_t i = 0; i < n; i++) {
    if (!same_numbers(&data[i], &labels[i]))
      return kf_fail_file(err, labels[i].path,
                          "by its position in numeric order it belongs to %s, but the numbers "
                          "in their names differ",
                          data[i].path);
    match[i] = &labels[i];
  }
  return KF_OK;
}

static kf_status match_files(named *data, size_t n, named *labels, size_t m, const named **match,
                             kf_err *err) {
  const named *unmatched;
  if (match_names(data, n, labels, m, match, &unmatched) == 0)
    return match_positions(data, n, labels, m, match, err);
  if (unmatched == NULL) return KF_OK;
  return kf_fail_file(err, unmatched->path,
                      "no label file has its name (there are %zu, such as %s)", m, labels[0].path);
}

/* Drops label files of other data files. */
static kf_status match_in_order(const kf_paths *data, kf_paths *labels, kf_arena *arena,
                                kf_err *err) {
  size_t n = data->n, m = labels->n;
  named *rows, *files;
  const named **match;
  char **order, **rest;
  KF_TAKE(arena, rows, n);
  KF_TAKE(arena, files, m);
  KF_TAKE(arena, match, n);
  KF_TAKE(arena, order, n);
  KF_TAKE(arena, rest, m);
  if (arena->failed) return kf_fail_memory(err);
  for (size_t i = 0; i < n; i++) rows[i] = name_of(data->path[i], i);
  for (size_t i = 0; i < m; i++) files[i] = name_of(labels->path[i], i);
  KF_TRY(match_files(rows, n, files, m, match, err));
  memcpy(rest, labels->path, m * sizeof *rest);
  for (size_t i = 0; i < n; i++) {
    order[rows[i].at] = match[i]->path;
    rest[match[i]->at] = NULL;
  }
  for (size_t i = 0; i < m; i++) kf_free(rest[i]);
  memcpy(labels->path, order,
         n * sizeof *order); /* n <= m: each data file has a label file of its own */
  labels->n = n;
  return KF_OK;
}

static kf_status match_all(const kf_paths *data, kf_paths *labels, kf_err *err) {
  kf_arena arena = {0};
  kf_status status = match_in_order(data, labels, &arena, err);
  kf_arena_free(&arena);
  return status;
}

kf_status kf_paths_match(const kf_paths *data, kf_paths *labels, kf_err *err) {
  return labels->listed && labels->n >= 2 ? match_all(data, labels, err) : KF_OK;
}

/* --- clip-retrieval ------------------------------------------------------------------------ */

/* Sets `folder` to "FOLDER/metadata" for "FOLDER/img_emb/NAME.npy"; false: the file is
 * elsewhere. */
static bool find_beside(const char *path, kf_string *folder) {
  const char *name = strrchr(path, '/');
  size_t rows = strlen(KF_CLIP_ROWS);
  if (name == NULL || (size_t)(name - path) < rows || !kf_ends_with(path, ".npy")) return false;
  const char *inner = name - rows;
  if (memcmp(inner, KF_CLIP_ROWS, rows) != 0 || (inner > path && inner[-1] != '/')) return false;
  folder->n = 0;
  kf_string_add(folder, path, (size_t)(inner - path));
  kf_string_addf(folder, KF_CLIP_META);
  return true;
}

/* Consecutive files in one folder of rows go with the files of one metadata folder. */
static kf_status add_beside(const kf_paths *data, size_t first, size_t n, const char *folder,
                            kf_paths *out, kf_err *err) {
  const kf_paths part = {.path = data->path + first, .n = n};
  kf_paths found;
  KF_TRY(kf_paths_expand(&folder, 1, true, &found, err));
  kf_status status = n == 1 && found.n == 1 ? KF_OK : match_all(&part, &found, err);
  for (size_t i = 0; status == KF_OK && i < found.n; i++) {
    if (!kf_grow((void **)&out->path, &out->room, out->n, sizeof *out->path)) {
      status = kf_fail_memory(err);
      break;
    }
    out->path[out->n++] = found.path[i];
    found.path[i] = NULL;
  }
  kf_paths_clear(&found);
  return status;
}

static kf_status find_all_beside(const kf_paths *data, kf_string *folder, kf_string *next,
                                 kf_paths *out, kf_err *err) {
  for (size_t first = 0, end; first < data->n; first = end) {
    if (!find_beside(data->path[first], folder)) return KF_OK;
    end = first + 1;
    while (end < data->n && find_beside(data->path[end], next) && !next->failed &&
           !folder->failed && strcmp(next->data, folder->data) == 0)
      end++;
    if (folder->failed || next->failed) return kf_fail_memory(err);
    if (!kf_is_directory(folder->data)) return KF_OK;
    KF_TRY(add_beside(data, first, end - first, folder->data, out, err));
  }
  return KF_OK;
}

kf_status kf_paths_beside(const kf_paths *data, kf_paths *out, kf_err *err) {
  kf_string folder = {0}, next = {0};
  *out = (kf_paths){0};
  kf_status status = find_all_beside(data, &folder, &next, out, err);
  kf_string_clear(&folder);
  kf_string_clear(&next);
  if (status != KF_OK || out->n != data->n) kf_paths_clear(out);
  return status;
}
