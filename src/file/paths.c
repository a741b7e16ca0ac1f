/* paths.c - expands files, folders and patterns to a list of files, in order.
 *
 * img_10.npy comes before img_2.npy by bytes, and after it by number. Shards were nearly always
 * written by number, so folders and patterns are listed that way. Files that are given one by one
 * keep their order; a shell, however, lists by bytes, so files_open.c refuses to guess where that
 * order decides which row has which label. */
#include "file/file_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const char *kf_npz_suffix(const char *path) {
  const char *found = NULL;
  for (const char *at = path; (at = strstr(at, ".npz:")) != NULL; at++) found = at + 4;
  return found;
}

kf_format kf_format_of(const char *path) {
  if (kf_ends_with(path, ".npy")) return KF_FORMAT_NPY;
  if (kf_ends_with(path, ".safetensors")) return KF_FORMAT_SAFETENSORS;
  if (kf_ends_with(path, ".fvecs")) return KF_FORMAT_FVECS;
  if (kf_bin_ending(path, NULL) != NULL) return KF_FORMAT_BIN;
  if (kf_ends_with(path, ".npz") || kf_npz_suffix(path) != NULL) return KF_FORMAT_NPZ;
  if (kf_ends_with(path, ".tar")) return KF_FORMAT_TAR;
  if (kf_ends_with(path, ".parquet")) return KF_FORMAT_PARQUET;
  if (kf_ends_with(path, ".csv") || kf_ends_with(path, ".tsv")) return KF_FORMAT_TABLE;
  return KF_FORMAT_OTHER;
}

static kf_format format_of_bytes(const unsigned char *bytes, size_t n) {
  uint64_t header =
      0; /* A .safetensors file begins with the length of its JSON, which begins with '{'. */
  if (n >= 6 && memcmp(bytes, "\x93NUMPY", 6) == 0) return KF_FORMAT_NPY;
  if (n >= 4 && memcmp(bytes, "PK\3\4", 4) == 0) return KF_FORMAT_NPZ;
  if (n >= 4 && memcmp(bytes, "PAR1", 4) == 0) return KF_FORMAT_PARQUET;
  for (size_t i = 0; i < 8 && n >= 9; i++) header |= (uint64_t)bytes[i] << 8 * i;
  bool json = header >= 2 && header <= KF_HEADER_CAP && bytes[8] == '{';
  return json ? KF_FORMAT_SAFETENSORS : KF_FORMAT_OTHER;
}

kf_status kf_format_of_file(const char *path, kf_format *out, kf_err *err) {
  const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
  *out = kf_format_of(path);
  if (*out != KF_FORMAT_OTHER || strchr(name, '.') != NULL) return KF_OK;
  kf_in in;
  KF_TRY(kf_in_open(&in, path, err));
  unsigned char bytes[9];
  size_t n = in.size < sizeof bytes ? (size_t)in.size : sizeof bytes;
  kf_status status = kf_in_read(&in, 0, bytes, n, err);
  if (status == KF_OK) *out = format_of_bytes(bytes, n);
  kf_in_close(&in);
  return status;
}

/* --- orders -------------------------------------------------------------------------------- */

int kf_by_bytes(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static size_t digits(const char *text) {
  size_t n = 0;
  while (is_digit(text[n])) n++;
  return n;
}

/* Compares the numbers of any length at *a and *b, and moves past both. */
static int compare_numbers(const char **a, const char **b) {
  while (**a == '0') ++*a;
  while (**b == '0') ++*b;
  size_t n = digits(*a), m = digits(*b);
  int order = n != m ? (n < m ? -1 : 1) : memcmp(*a, *b, n);
  *a += n;
  *b += m;
  return order;
}

/* A number counts as one letter of an alphabet in which digits keep their place among bytes. So
 * this is a dictionary order, and it is total because ties are broken. */
static int by_number(const char *a, const char *b) {
  const char *p = a, *q = b;
  while (*p != '\0' && *q != '\0') {
    int order;
    if (is_digit(*p) && is_digit(*q)) {
      order = compare_numbers(&p, &q);
    } else {
      order = (unsigned char)*p - (unsigned char)*q;
      p++;
      q++;
    }
    if (order != 0) return order;
  }
  int order = (*p != '\0') - (*q != '\0');
  return order != 0 ? order : strcmp(a, b);
}

int kf_by_number(const void *a, const void *b) {
  return by_number(*(char *const *)a, *(char *const *)b);
}

kf_status kf_paths_sort(kf_paths *paths, kf_order order, bool *moved, kf_err *err) {
  *moved = false;
  if ((unsigned)order > KF_ORDER_GIVEN)
    return kf_fail(err, KF_ERR_ARG, "invalid order of files %d", (int)order);
  if (order != KF_ORDER_NUMBER && order != KF_ORDER_NAME) return KF_OK;
  int (*by)(const void *, const void *) = order == KF_ORDER_NAME ? kf_by_bytes : kf_by_number;
  for (size_t i = 1; i < paths->n; i++)
    *moved = *moved || by(&paths->path[i - 1], &paths->path[i]) > 0;
  qsort(paths->path, paths->n, sizeof *paths->path, by);
  return KF_OK;
}

size_t kf_paths_doubt(const kf_paths *paths) {
  for (size_t i = 0; i + 1 < paths->n; i++)
    if (kf_by_bytes(&paths->path[i], &paths->path[i + 1]) < 0 &&
        kf_by_number(&paths->path[i], &paths->path[i + 1]) > 0)
      return i;
  return SIZE_MAX;
}

/* --- the list ------------------------------------------------------------------------------ */

/* Appends FOLDER/NAME, or NAME if folder is NULL. */
static kf_status append(kf_paths *list, const char *folder, const char *name, kf_err *err) {
  if (!kf_grow((void **)&list->path, &list->room, list->n, sizeof *list->path))
    return kf_fail_memory(err);
  char *path = folder != NULL ? kf_path_join(folder, name) : kf_strdup(name);
  if (path == NULL) return kf_fail_memory(err);
  list->path[list->n++] = path;
  return KF_OK;
}

static void sort_from(kf_paths *list, size_t first) {
  list->listed = true;
  qsort(list->path + first, list->n - first, sizeof *list->path, kf_by_number);
}

/* Whether a file in a folder is one of its data files, or one of its label files. */
static bool belongs(const char *name, bool label) {
  if (name[0] == '.') return false;
  switch (kf_format_of(name)) {
  case KF_FORMAT_NPY:
  case KF_FORMAT_NPZ:
  case KF_FORMAT_PARQUET: return true;
  case KF_FORMAT_TABLE: return label;
  case KF_FORMAT_TAR: return false;
  case KF_FORMAT_OTHER: return label && kf_ends_with(name, ".txt");
  default: return !label;
  }
}

static kf_status append_entries(kf_paths *list, DIR *folder, const char *path, bool label,
                                kf_err *err) {
  for (const struct dirent *entry;;) {
    KF_TRY(kf_next_entry(folder, path, &entry, err));
    if (entry == NULL) return KF_OK;
    if (!belongs(entry->d_name, label)) continue;
    KF_TRY(append(list, path, entry->d_name, err));
    if (kf_is_directory(list->path[list->n - 1])) kf_free(list->path[--list->n]);
  }
}

static kf_status append_files(kf_paths *list, const char *path, bool label, kf_err *err) {
  DIR *folder = opendir(path);
  if (folder == NULL) return kf_fail_errno(err, path, "cannot be opened", errno);
  kf_status status = append_entries(list, folder, path, label, err);
  closedir(folder);
  return status;
}

/* A clip-retrieval folder has its rows in an inner folder. */
static kf_status append_inner(kf_paths *list, const char *path, kf_err *err) {
  char *inner = kf_path_join(path, KF_CLIP_ROWS);
  if (inner == NULL) return kf_fail_memory(err);
  kf_status status = kf_is_directory(inner) ? append_files(list, inner, false, err) : KF_OK;
  kf_free(inner);
  return status;
}

static kf_status append_folder(kf_paths *list, const char *path, bool label, kf_err *err) {
  size_t first = list->n;
  KF_TRY(append_files(list, path, label, err));
  if (list->n == first && !label) KF_TRY(append_inner(list, path, err));
  if (list->n == first && label)
    return kf_fail_file(err, path,
                        "no .npy, .npz, .parquet, .txt, .csv or .tsv file in this folder");
  if (list->n == first)
    return kf_fail_hint(
        err, KF_ERR_DATA, KF_HINT_PICTURES,
        "%s: no .npy, .npz, .safetensors, .parquet, .fvecs, .fbin, .f16bin, .u8bin or .i8bin "
        "file in this folder",
        path);
  sort_from(list, first);
  return KF_OK;
}

static kf_status append_match(void *list, const char *path, kf_err *err) {
  return append(list, NULL, path, err);
}

static kf_status append_matches(kf_paths *list, const char *pattern, bool label, kf_err *err) {
  size_t first = list->n;
  KF_TRY(kf_match_paths(pattern, append_match, list, err));
  if (list->n == first && label) return append(list, NULL, pattern, err);
  if (list->n == first) return kf_fail(err, KF_ERR_IO, "%s: no file matches this pattern", pattern);
  sort_from(list, first);
  return KF_OK;
}

/* A file whose name looks like a pattern is still a file. */
static kf_status append_given(kf_paths *list, const char *path, bool label, kf_err *err) {
  if (kf_is_directory(path)) return append_folder(list, path, label, err);
  struct stat info;
  if (strpbrk(path, "*?[") != NULL && stat(path, &info) != 0)
    return append_matches(list, path, label, err);
  return append(list, NULL, path, err);
}

/* Adds the name of an array to the paths from `first` on. */
static kf_status add_suffix(kf_paths *list, size_t first, const char *suffix, kf_err *err) {
  for (size_t i = first; i < list->n; i++) {
    size_t size = strlen(list->path[i]) + strlen(suffix) + 1;
    char *path = kf_alloc(size, 1);
    if (path == NULL) return kf_fail_memory(err);
    snprintf(path, size, "%s%s", list->path[i], suffix);
    kf_free(list->path[i]);
    list->path[i] = path;
  }
  return KF_OK;
}

/* "shards/x_*.npz:rows" stands for the array 'rows' of every match. */
static kf_status append_arrays(kf_paths *list, const char *path, const char *suffix, bool label,
                               kf_err *err) {
  char *archive = kf_strdup(path);
  if (archive == NULL) return kf_fail_memory(err);
  archive[suffix - path] = '\0';
  size_t first = list->n;
  kf_status status = append_given(list, archive, label, err);
  kf_free(archive);
  return status == KF_OK ? add_suffix(list, first, suffix, err) : status;
}

kf_status kf_paths_expand(const char *const *given, size_t n, bool labels, kf_paths *out,
                          kf_err *err) {
  *out = (kf_paths){0};
  kf_status status = KF_OK;
  for (size_t i = 0; i < n && status == KF_OK; i++) {
    const char *suffix = kf_npz_suffix(given[i]);
    status = suffix != NULL ? append_arrays(out, given[i], suffix, labels, err)
                            : append_given(out, given[i], labels, err);
  }
  if (status != KF_OK) kf_paths_clear(out);
  return status;
}

void kf_paths_clear(kf_paths *paths) {
  for (size_t i = 0; i < paths->n; i++) kf_free(paths->path[i]);
  kf_free(paths->path);
  *paths = (kf_paths){0};
}
