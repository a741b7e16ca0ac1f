/* pattern.c - the paths that match a pattern, folder by folder with fnmatch(3).
 *
 * Not glob(3): out of memory, glibc 2.36 reports an empty folder or frees memory twice, and its
 * order follows the locale. As with glob, names that begin with a dot need a dot in the pattern,
 * and folders that cannot be entered match nothing. */
#include "file/file_internal.h"

#include <errno.h>
#include <fnmatch.h>
#include <string.h>
#include <sys/stat.h>

typedef struct matching {
  kf_match_fn use;
  void *argument;
  kf_string path; /* the part that has matched */
  kf_err *err;
} matching;

static kf_status match_rest(matching *m, const char *rest);

/* Matches the rest with n more bytes in the path. */
static kf_status descend(matching *m, const char *name, size_t n, const char *rest) {
  size_t before = m->path.n;
  kf_string_add(&m->path, name, n);
  if (m->path.failed) return kf_fail_memory(m->err);
  kf_status status = match_rest(m, rest);
  m->path.n = before;
  m->path.data[before] = '\0';
  return status;
}

static kf_status match_entries(matching *m, DIR *folder, const char *part, const char *rest) {
  for (const struct dirent *entry;;) {
    KF_TRY(kf_next_entry(folder, m->path.data, &entry, m->err));
    if (entry == NULL) return KF_OK;
    int result = fnmatch(part, entry->d_name, FNM_PERIOD);
    if (result != 0 && result != FNM_NOMATCH) return kf_fail_memory(m->err);
    if (result == 0) KF_TRY(descend(m, entry->d_name, strlen(entry->d_name), rest));
  }
}

static bool is_unreachable(int code) {
  return code == ENOENT || code == ENOTDIR || code == EACCES || code == ELOOP ||
         code == ENAMETOOLONG;
}

/* part: a component of the pattern with wildcards. */
static kf_status match_folder(matching *m, const char *part, const char *rest) {
  const char *path = m->path.n > 0 ? m->path.data : ".";
  DIR *folder = opendir(path);
  if (folder == NULL)
    return is_unreachable(errno) ? KF_OK : kf_fail_errno(m->err, path, "cannot be listed", errno);
  kf_status status = match_entries(m, folder, part, rest);
  closedir(folder);
  return status;
}

/* rest: the pattern after the path: slashes, a component, or its end. */
static kf_status match_rest(matching *m, const char *rest) {
  size_t slashes = strspn(rest, "/"), n = strcspn(rest, "/");
  if (slashes > 0) return descend(m, rest, slashes, rest + slashes);
  if (n == 0) {
    struct stat info; /* lstat: the reader reports dangling links */
    const char *path = m->path.data;
    if (lstat(path, &info) == 0) return m->use(m->argument, path, m->err);
    return is_unreachable(errno) ? KF_OK : kf_fail_errno(m->err, path, "cannot be examined", errno);
  }
  char *part = kf_strdup(rest);
  if (part == NULL) return kf_fail_memory(m->err);
  part[n] = '\0';
  kf_status status = strpbrk(part, "*?[\\") != NULL ? match_folder(m, part, rest + n)
                                                    : descend(m, part, n, rest + n);
  kf_free(part);
  return status;
}

kf_status kf_match_paths(const char *pattern, kf_match_fn use, void *argument, kf_err *err) {
  matching m = {.use = use, .argument = argument, .err = err};
  kf_string_add(&m.path, "", 0);
  kf_status status = m.path.failed ? kf_fail_memory(err) : match_rest(&m, pattern);
  kf_string_clear(&m.path);
  return status;
}
