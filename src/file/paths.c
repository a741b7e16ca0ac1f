/* paths.c - expands what the caller names (files, folders, patterns) to a list of files. */
#include "file/file_internal.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

kf_format kf_format_of(const char *path) {
  if (kf_ends_with(path, ".npy")) return KF_FORMAT_NPY;
  if (kf_ends_with(path, ".safetensors")) return KF_FORMAT_SAFETENSORS;
  if (kf_ends_with(path, ".fvecs")) return KF_FORMAT_FVECS;
  if (kf_ends_with(path, ".fbin")) return KF_FORMAT_FBIN;
  return KF_FORMAT_OTHER;
}

int kf_by_bytes(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* --- the list -------------------------------------------------------------------------------- */

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
  qsort(list->path + first, list->n - first, sizeof *list->path, kf_by_bytes);
}

static kf_status append_entries(kf_paths *list, DIR *folder, const char *path, kf_err *err) {
  for (;;) {
    errno = 0; /* the only way to tell the end of a folder from a failure */
    const struct dirent *entry = readdir(folder);
    if (entry == NULL)
      return errno == 0 ? KF_OK : kf_fail_errno(err, path, "cannot be listed", errno);
    if (entry->d_name[0] == '.' || kf_format_of(entry->d_name) == KF_FORMAT_OTHER) continue;
    KF_TRY(append(list, path, entry->d_name, err));
    if (kf_is_directory(list->path[list->n - 1])) kf_free(list->path[--list->n]);
  }
}

static kf_status append_folder(kf_paths *list, const char *path, kf_err *err) {
  DIR *folder = opendir(path);
  if (folder == NULL) return kf_fail_errno(err, path, "cannot be opened", errno);
  size_t first = list->n;
  kf_status status = append_entries(list, folder, path, err);
  closedir(folder);
  if (status != KF_OK) return status;
  if (list->n == first)
    return kf_fail_hint(err, KF_ERR_DATA, KF_HINT_PICTURES,
                        "%s: no .npy, .safetensors, .fvecs or .fbin file in this folder", path);
  sort_from(list, first);
  return KF_OK;
}

static kf_status append_matches(kf_paths *list, const char *pattern, bool label, kf_err *err) {
  glob_t found;
  int result = glob(pattern, GLOB_NOSORT, NULL, &found); /* its own order follows the locale */
  if (result == GLOB_NOMATCH && label) return append(list, NULL, pattern, err);
  if (result == GLOB_NOMATCH)
    return kf_fail(err, KF_ERR_IO, "%s: no file matches this pattern", pattern);
  if (result == GLOB_NOSPACE) return kf_fail_memory(err);
  if (result != 0) return kf_fail(err, KF_ERR_IO, "%s: cannot list this pattern", pattern);

  size_t first = list->n;
  kf_status status = KF_OK;
  for (size_t i = 0; i < found.gl_pathc && status == KF_OK; i++)
    status = append(list, NULL, found.gl_pathv[i], err);
  globfree(&found);
  sort_from(list, first);
  return status;
}

/* A file whose name looks like a pattern is still a file. */
static kf_status append_given(kf_paths *list, const char *path, bool label, kf_err *err) {
  if (!label && kf_is_directory(path)) return append_folder(list, path, err);
  struct stat info;
  if (strpbrk(path, "*?[") != NULL && stat(path, &info) != 0)
    return append_matches(list, path, label, err);
  return append(list, NULL, path, err);
}

kf_status kf_paths_expand(const char *const *given, size_t n, bool labels, kf_paths *out,
                          kf_err *err) {
  *out = (kf_paths){0};
  kf_status status = KF_OK;
  for (size_t i = 0; i < n && status == KF_OK; i++)
    status = append_given(out, given[i], labels, err);
  if (status != KF_OK) kf_paths_clear(out);
  return status;
}

void kf_paths_clear(kf_paths *paths) {
  for (size_t i = 0; i < paths->n; i++) kf_free(paths->path[i]);
  kf_free(paths->path);
  *paths = (kf_paths){0};
}
